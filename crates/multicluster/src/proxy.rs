//! TCP connections, through a proxy where a kubeconfig or the environment names one, as client-go has it.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt};

use super::client::why_unreachable;
use super::in_process::{InProcess, Stream};

/// Which proxy leads to which address.
#[derive(Debug)]
pub(super) enum Proxies {
    /// `proxy-url` of a kubeconfig's cluster: to every address.
    Named(Intercept),
    /// `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, and never to this machine itself.
    Environment(Matcher),
    /// No address is on the network.
    InProcess(InProcess),
}

impl Proxies {
    /// # Errors
    /// What is wrong with the address.
    pub(super) fn named(address: &str) -> Result<Self, String> {
        let all = Matcher::builder().all(address.to_owned()).build();
        let is_known = |proxy: &Intercept| matches!(proxy.uri().scheme_str(), Some("http" | "socks5" | "socks5h"));
        let proxy = all.intercept(&Uri::from_static("https://any")).filter(is_known);
        proxy.map(Self::Named).ok_or_else(|| format!("`proxy-url`: `{}` {EXPECTED}", without_password(address)))
    }

    pub(super) fn of_environment() -> Self {
        Self::of_variables(|name| std::env::var(name).ok())
    }

    fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        // In capitals first, as in Go.
        let read = |name: &str| variable(name).or_else(|| variable(&name.to_lowercase())).unwrap_or_default();
        let matcher = Matcher::builder().http(read("HTTP_PROXY")).https(read("HTTPS_PROXY")).no(read("NO_PROXY"));
        Self::Environment(matcher.build())
    }

    fn to(&self, address: &Uri) -> Option<Intercept> {
        match self {
            Self::Named(proxy) => Some(proxy.clone()),
            Self::Environment(_) if address.host().is_some_and(is_this_machine) => None,
            Self::Environment(matcher) => matcher.intercept(address),
            Self::InProcess(_) => None,
        }
    }
}

const EXPECTED: &str = "is no address of a proxy: expected http://, socks5:// or socks5h://, a host and a port";

/// An address as it may stand in messages.
pub(super) fn without_password(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{host}")
}

pub(super) fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Opens TCP connections.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    proxies: Arc<Proxies>,
}

impl Connector {
    pub(super) fn new(tcp: HttpConnector, proxies: Arc<Proxies>) -> Self {
        Self { tcp, proxies }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(BoxError::from)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        if let Proxies::InProcess(servers) = &*self.proxies {
            let dialled = servers.0.dial(&to).map(|stream| TokioIo::new(Box::new(stream) as Stream));
            return std::future::ready(dialled.map_err(BoxError::from)).boxed();
        }
        match self.proxies.to(&to) {
            None => self.tcp.call(to).map(|connected| connected.map(of_tcp).map_err(BoxError::from)).boxed(),
            Some(proxy) => through(self.tcp.clone(), proxy, to).boxed(),
        }
    }
}

fn of_tcp(stream: TokioIo<TcpStream>) -> TokioIo<Stream> {
    TokioIo::new(Box::new(stream.into_inner()))
}

async fn through(tcp: HttpConnector, proxy: Intercept, to: Uri) -> Result<TokioIo<Stream>, BoxError> {
    let address = proxy.uri().clone();
    let socks = |local_dns| {
        let socks = SocksV5::new(address.clone(), tcp.clone()).local_dns(local_dns);
        match proxy.raw_auth() {
            Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
            None => socks,
        }
    };
    let connected = match address.scheme_str() {
        Some("http") => {
            let tunnel = Tunnel::new(address.clone(), tcp.clone());
            let tunnel = proxy.basic_auth().cloned().into_iter().fold(tunnel, Tunnel::with_auth);
            tunnel.oneshot(to).await.map_err(BoxError::from)
        }
        Some("socks5h") => socks(false).oneshot(to).await.map_err(BoxError::from),
        // Names are resolved here, and not by the proxy.
        Some("socks5") => socks(true).oneshot(to).await.map_err(BoxError::from),
        _ => Err(format!("it {EXPECTED}").into()),
    };
    connected.map(of_tcp).map_err(|error: BoxError| {
        let proxy = address.to_string();
        format!("through the proxy {}: {}", proxy.trim_end_matches('/'), why_unreachable(&*error)).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which proxy leads to an address.
    fn proxy(proxies: &Proxies, address: &str) -> Option<String> {
        proxies.to(&address.parse().unwrap()).map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn the_environment_names_a_proxy_for_each_scheme_and_who_is_asked_directly() {
        let variables = |name: &str| {
            let value = match name {
                "HTTPS_PROXY" => "http://secure:3128",
                "http_proxy" => "plain:3128",
                "no_proxy" => "direct.example,10.0.0.0/8",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let proxies = Proxies::of_variables(variables);
        for (address, leads) in [
            ("https://kcp.example:6443", Some("http://secure:3128/")),
            ("http://kcp.example", Some("http://plain:3128/")),
            ("https://direct.example", None),
            ("https://a.direct.example", None),
            ("https://10.1.2.3:6443", None),
            ("https://11.1.2.3:6443", Some("http://secure:3128/")),
            ("https://localhost:6443", None),
            ("https://127.0.0.1:6443", None),
            ("https://[::1]:6443", None),
        ] {
            assert_eq!(proxy(&proxies, address).as_deref(), leads, "{address}");
        }
        assert_eq!(proxy(&Proxies::of_variables(|_| None), "https://kcp.example"), None);
    }

    #[test]
    fn a_named_proxy_leads_everywhere() {
        let named = Proxies::named("socks5://user:secret@proxy:1080").unwrap();
        assert_eq!(proxy(&named, "https://127.0.0.1:6443").as_deref(), Some("socks5://proxy:1080/"));
        for (address, told) in [
            ("https://u:secret@proxy:3128", "`proxy-url`: `https://proxy:3128` "),
            ("ftp://proxy", "`proxy-url`: `ftp://proxy` "),
            ("http://", "`proxy-url`: `http://` "),
        ] {
            let error = Proxies::named(address).unwrap_err();
            assert_eq!(error.strip_prefix(told), Some(EXPECTED), "{address}");
        }
    }
}
