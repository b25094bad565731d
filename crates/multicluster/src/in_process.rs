//! Servers in this process in place of the network, for simulations: where a connection leads and what is random about
//! it are decided by whoever simulates.

use std::fmt;
use std::io;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

/// What a connection finds in place of files, the network and the system's randomness.
pub trait Surroundings: Send + Sync {
    /// Address and token, as a kubeconfig would name them now.
    fn kubeconfig(&self) -> (Uri, String);

    /// Opens a connection to a server.
    ///
    /// # Errors
    /// Nothing listens there.
    fn dial(&self, to: &Uri) -> io::Result<DuplexStream>;

    /// The next seed of what is random.
    fn entropy(&self) -> u64;
}

/// Servers in this process. Two are equal if they are the same.
#[derive(Clone)]
pub struct InProcess(pub Arc<dyn Surroundings>);

impl PartialEq for InProcess {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for InProcess {}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

/// The bytes of a connection.
pub(super) type Stream = Box<dyn Io>;

pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
