//! Who may ask the console. It has no password, so it must not answer to what runs in a browser of the operator but is
//! not the operator: another site's page, directly or through a name that it rebinds to loopback.
//!
//! The rules are those of the Fetch standard's headers: a browser sets `Host`, `Origin` and `Sec-Fetch-Site` itself, and
//! sends a header of one's own to another site only if that site permits it, which the console never does.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Every request that changes something carries it; its value does not matter.
pub(super) const HEADER: &str = "x-sync-engine";

/// A name under which the console may be asked, beside those of loopback: a DNS name or an IP address, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

/// Names under which the console may be asked.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Arc<[HostName]>);

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // What is left of it without a port and user is the whole.
        match text.parse::<Authority>() {
            Ok(authority) if authority.host() == text => Ok(Self(text.to_ascii_lowercase())),
            _ => Err("write a host name or an IP address without scheme and port, such as console.example.com"),
        }
    }
}

impl From<Vec<HostName>> for Hosts {
    fn from(names: Vec<HostName>) -> Self {
        Self(names.into())
    }
}

impl Hosts {
    fn contains(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        is_loopback || self.0.iter().any(|name| name.0 == host)
    }
}

/// Passes a request on that the console may answer, and marks the answer as text that no page may run or show in a frame.
pub(super) async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = match refusal(request.method(), request.headers(), &hosts) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request gets no answer.
fn refusal(method: &Method, headers: &HeaderMap, hosts: &Hosts) -> Option<(StatusCode, &'static str)> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    let asked: Result<Authority, _> = host.parse();
    if !asked.is_ok_and(|asked| hosts.contains(asked.host())) {
        return Some((
            StatusCode::MISDIRECTED_REQUEST,
            "the console answers to loopback names only: ask http://localhost:PORT, or start the engine with --console-host\n",
        ));
    }
    // `null` is what a page in a sandboxed frame or a file sends.
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
    let site = text(HeaderName::from_static("sec-fetch-site"));
    if text(header::ORIGIN).is_some_and(|origin| !is_own(origin)) || site == Some("cross-site") {
        return Some((StatusCode::FORBIDDEN, "the console does not answer to pages of other sites\n"));
    }
    if method == Method::POST && !headers.contains_key(HEADER) {
        return Some((
            StatusCode::FORBIDDEN,
            "a POST needs the header X-Sync-Engine, which a page of another site cannot send: curl -H 'X-Sync-Engine: 1' -X POST …\n",
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: &Method, headers: &[(&str, &str)]) -> u16 {
        let hosts = Hosts::from(vec!["console.example.com".parse().expect("a name")]);
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
        });
        refusal(method, &headers.collect(), &hosts).map_or(200, |(code, _)| code.as_u16())
    }

    #[test]
    fn the_console_is_asked_by_its_own_names_only() {
        for host in ["localhost:8080", "LOCALHOST", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "console.example.com"]
        {
            assert_eq!(answer(&Method::GET, &[("host", host)]), 200, "{host}");
        }
        // The last two are what a rebound name and a Pod that knows the address send.
        for host in ["", "localhost.evil.example", "evil.example:8080", "10.0.0.7:8080"] {
            assert_eq!(answer(&Method::GET, &[("host", host)]), 421, "{host}");
        }
        assert_eq!(answer(&Method::GET, &[]), 421);
    }

    #[test]
    fn pages_of_other_sites_get_no_answer() {
        let host = ("host", "localhost:8080");
        for origin in
            ["https://evil.example", "null", "http://localhost:3000", "http://localhost:8080.evil.example", ""]
        {
            assert_eq!(answer(&Method::GET, &[host, ("origin", origin)]), 403, "{origin}");
        }
        assert_eq!(answer(&Method::GET, &[host, ("origin", "http://localhost:8080")]), 200);
        assert_eq!(answer(&Method::GET, &[host, ("sec-fetch-site", "cross-site")]), 403);
        for site in ["none", "same-origin"] {
            assert_eq!(answer(&Method::GET, &[host, ("sec-fetch-site", site)]), 200, "{site}");
        }
    }

    #[test]
    fn a_change_needs_a_header_that_no_form_can_send() {
        let host = ("host", "127.0.0.1:8080");
        assert_eq!(answer(&Method::POST, &[host]), 403);
        assert_eq!(answer(&Method::POST, &[host, (HEADER, "1")]), 200);
        assert_eq!(answer(&Method::POST, &[host, (HEADER, "1"), ("origin", "https://evil.example")]), 403);
    }

    #[test]
    fn a_host_name_has_no_scheme_and_no_port() {
        for name in ["console.example.com", "10.0.0.7", "[fd00::7]"] {
            assert!(name.parse::<HostName>().is_ok(), "{name}");
        }
        for name in ["", "https://console.example.com", "console.example.com:8080", "user@console", "a b"] {
            assert!(name.parse::<HostName>().is_err(), "{name}");
        }
    }
}
