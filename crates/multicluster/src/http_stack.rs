//! The HTTP stack of a connection: one pool of connections, and the credential in every request.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use data_encoding::BASE64;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::client::legacy::connect::HttpConnector;
use k8s_openapi::jiff::Timestamp;
use kube::client::ConfigExt;
use kube::config::{AuthInfo, Config};

use super::credential::{Credential, CredentialError};
use super::expiry;
use super::pool::{Origin, Pool, Ready, SendError};
use super::proxy::{Connector, Proxies};

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// A peer that is gone without a word is noticed after about a minute (30 s of silence, then 3 probes of 10 s).
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// Shorter than the idle time-outs of common load balancers, so that they do not close what we are about to use.
const IDLE: Duration = Duration::from_secs(45);

/// Sends requests with a connection's credential. HTTP/1.1: over HTTP/2 the hundredth watch would block all requests.
pub(super) struct HttpStack {
    /// Without what [`Credential`] took out of it; an exec plugin's certificate is put in.
    config: Config,
    proxies: Arc<Proxies>,
    pool: ArcSwap<Pool>,
    credential: Credential,
    impersonation: Vec<(HeaderName, HeaderValue)>,
    /// When the client certificate of the configuration ends.
    certificate_ends: Option<Timestamp>,
}

impl HttpStack {
    /// The error says what is wrong with the credential.
    pub(super) fn new(mut config: Config, proxies: Proxies) -> Result<Self, String> {
        let proxies = Arc::new(proxies);
        let credential = Credential::take(&mut config.auth_info)?;
        let impersonation = impersonation(&config.auth_info)?;
        let pool = ArcSwap::new(pool(&config, &proxies)?);
        let certificate_ends = certificate(&config.auth_info).and_then(|pem| expiry::of_certificate(&pem));
        Ok(Self { config, proxies, pool, credential, impersonation, certificate_ends })
    }

    /// When the credential ends, as far as it says so: what ends first.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        [self.certificate_ends, self.credential.ends()].into_iter().flatten().min()
    }

    /// What the next request carries as `Authorization`; runs an exec plugin where there is one and it is time.
    pub(super) async fn authorization(&self) -> Result<Option<HeaderValue>, CredentialError> {
        let (header, identity) = self.credential.current().await?;
        if let Some(identity) = identity {
            let mut config = self.config.clone();
            config.auth_info.client_certificate = None;
            config.auth_info.client_key = None;
            let with_identity = identity.put_into(&config.auth_info).map_err(CredentialError)?;
            config.auth_info = with_identity;
            self.pool.store(pool(&config, &self.proxies).map_err(CredentialError)?);
        }
        Ok(header)
    }

    /// The server said 401 to this header. Whether there may be a better one now.
    pub(super) fn refused(&self, header: Option<&HeaderValue>) -> bool {
        self.credential.refused(header)
    }

    /// A connection for one request; with an identity, rather one that was found to lead to that cluster.
    pub(super) async fn open(&self, to: &Arc<Origin>, identity: Option<&str>) -> Result<Ready, SendError> {
        self.pool.load_full().open(to, identity).await
    }

    /// The request, as whom the kubeconfig says.
    pub(super) fn impersonating(&self, mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
        for (name, value) in &self.impersonation {
            request.headers_mut().append(name, value.clone());
        }
        request
    }
}

/// The client certificate of a kubeconfig's user, as PEM.
fn certificate(user: &AuthInfo) -> Option<Vec<u8>> {
    match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => BASE64.decode(data.trim().as_bytes()).ok(),
        (None, path) => std::fs::read(path.as_ref()?).ok(),
    }
}

fn pool(config: &Config, proxies: &Arc<Proxies>) -> Result<Arc<Pool>, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_DEADLINE));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    let tcp = Connector::new(tcp, proxies.clone());
    let connector = config.rustls_https_connector_with_connector(tcp).map_err(|error| unusable(&error))?;
    Ok(Pool::new(connector, IDLE))
}

/// What is wrong with certificates or keys, without kube's own introduction.
fn unusable(error: &kube::Error) -> String {
    match error {
        kube::Error::InferKubeconfig(error) => with_causes(error),
        error => with_causes(error),
    }
}

/// An error and its causes in one line, what is said twice said once.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Why no connection came about, in words.
pub(super) fn why_unreachable(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let cause = last.to_string();
    let all = with_causes(error);
    let hints = [
        ("Connection refused", "connection refused: is the server running, and is the address right?"),
        ("dns error", "the host name cannot be resolved"),
        ("UnknownIssuer", "the certificate is signed by an authority that `certificate-authority` does not name"),
        ("NotValidForName", "the certificate is not valid for this host name"),
        ("Expired", "the certificate is expired"),
        (
            "Too many open files",
            "this process has as many files open as it may: raise that limit, or give --max-watches",
        ),
        ("deadline has elapsed", "no connection within 10 s"),
        ("InvalidContentType", "the server does not speak TLS: is it `http` instead of `https`?"),
    ];
    let hint = hints.iter().find(|(mark, _)| all.contains(mark) || cause.contains(mark));
    hint.map_or(all, |(_, words)| (*words).to_owned())
}

/// Headers by which a kubeconfig's user acts as another.
fn impersonation(user: &AuthInfo) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    let mut add = |name: String, value: &str| -> Result<(), String> {
        let invalid = |what: &str| format!("`{what}` cannot stand in a header");
        let header = HeaderName::try_from(name.as_str()).map_err(|_| invalid(&name))?;
        headers.push((header, HeaderValue::try_from(value).map_err(|_| invalid(value))?));
        Ok(())
    };
    for (name, value) in [("user", &user.impersonate), ("uid", &user.impersonate_uid)] {
        if let Some(value) = value {
            add(format!("impersonate-{name}"), value)?;
        }
    }
    for group in user.impersonate_groups.iter().flatten() {
        add("impersonate-group".into(), group)?;
    }
    for (key, values) in user.impersonate_user_extra.iter().flatten() {
        for value in values {
            add(format!("impersonate-extra-{}", escaped(key)), value)?;
        }
    }
    Ok(headers)
}

/// Percent-encodes what a header's name cannot hold.
fn escaped(key: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (b as char).to_string(),
        _ => format!("%{b:02x}"),
    };
    key.bytes().map(byte).collect()
}
