//! A certificate of this process's own, for loopback. client-go sends a token over TLS alone.

use std::io;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// What a server proves itself with.
#[derive(Clone)]
pub(super) struct Tls {
    pub acceptor: TlsAcceptor,
    /// What clients have to trust, in PEM.
    pub authority: String,
}

impl Tls {
    /// Makes a key and a certificate that signs itself.
    pub fn make() -> io::Result<Tls> {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key.into()))
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), authority: cert.pem() })
    }
}
