//! An HTTP proxy that leads wherever it is asked to (RFC 9110, section 9.3.6).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The proxy; gone with all its connections when dropped.
pub struct Proxy {
    pub url: String,
    asked: Arc<Mutex<BTreeSet<String>>>,
    _connections: JoinSet<()>,
}

impl Proxy {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::<Mutex<BTreeSet<String>>>::default();
        let mut connections = JoinSet::new();
        let heard = asked.clone();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                open.spawn(lead(client, heard.clone()));
            }
        });
        Self { url, asked, _connections: connections }
    }

    /// Hosts and ports that it was asked for.
    pub fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().expect("no panic under the lock").clone()
    }
}

/// Ends when either side does, or what comes is no CONNECT.
async fn lead(mut client: TcpStream, heard: Arc<Mutex<BTreeSet<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if client.read_buf(&mut head).await.unwrap_or_default() == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let Some(to) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else { return };
    heard.lock().expect("no panic under the lock").insert(to.to_owned());
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
        // Whoever ends first ends both.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
