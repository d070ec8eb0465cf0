//! Protects the server against web pages of other sites.
//!
//! A page can reach a server on its reader's machine in two ways. It can send requests from its own origin, which the browser
//! states in `Origin`; or it can resolve its own name to this machine (DNS rebinding), so that the browser takes the server for a
//! part of the page's site, which `Host` reveals. Other clients send no `Origin`, and the host name that they were started with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::api::ApiError;
use crate::error::{Error, Result};

/// Wildcard for all hosts or all origins.
const ALL: &str = "*";

/// The allowed hosts and origins.
#[derive(Debug)]
pub(crate) struct Sites {
    hosts: Hosts,
    /// Allowed origins, in addition to the server's own.
    origins: Vec<String>,
}

#[derive(Debug)]
enum Hosts {
    All,
    /// Hosts of this machine, and these.
    Named(Vec<String>),
}

impl Sites {
    /// The rule of a server that listens on `address`: on a loopback address, or if `hosts` are given, it accepts hosts of this
    /// machine and `hosts`; otherwise all.
    ///
    /// # Errors
    /// A host or an origin is not in the form that browsers send.
    pub(crate) fn new(address: SocketAddr, hosts: Vec<String>, origins: Vec<String>) -> Result<Self> {
        if let Some(wrong) = hosts.iter().find(|host| *host != ALL && !is_host(host)) {
            return Err(Error::Host { host: wrong.clone() });
        }
        if let Some(wrong) = origins.iter().find(|origin| *origin != ALL && !is_origin(origin)) {
            return Err(Error::Origin { origin: wrong.clone() });
        }
        let is_open = hosts.iter().any(|host| host == ALL) || (hosts.is_empty() && !is_loopback(address.ip()));
        Ok(Self { hosts: if is_open { Hosts::All } else { Hosts::Named(hosts) }, origins })
    }

    /// Refuses a request for another host or from a page of another origin.
    ///
    /// # Errors
    /// 403, naming the flag that allows it.
    pub(crate) fn check(&self, request: &Request) -> Result<(), ApiError> {
        let headers = request.headers();
        let host = only(headers, &header::HOST);
        if let Hosts::Named(named) = &self.hosts {
            // The host of an absolute request target takes precedence over the header.
            let target = request.uri().authority().map(|authority| authority.as_str());
            let answers = |host: &str| named.iter().any(|name| is_named(host, name)) || is_of_this_machine(host);
            if !host.is_some_and(answers) || !target.is_none_or(answers) {
                return Err(ApiError::wrong_host(target.or(host).unwrap_or_default()));
            }
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let is_own = host.is_some() && origin.split_once("://").map(|(_, own)| own) == host;
        let is_allowed = self.origins.iter().any(|allowed| allowed == ALL || allowed == origin);
        let has_one = headers.get_all(header::ORIGIN).iter().nth(1).is_none();
        if has_one && (is_own || is_allowed) { Ok(()) } else { Err(ApiError::wrong_origin(origin)) }
    }

    /// The CORS layer for other allowed origins, if there are any.
    pub(crate) fn cors(&self) -> Option<CorsLayer> {
        let read = |origin: &String| HeaderValue::from_str(origin).ok();
        let allowed = match self.origins.iter().any(|origin| origin == ALL) {
            true => AllowOrigin::any(),
            false if self.origins.is_empty() => return None,
            false => AllowOrigin::list(self.origins.iter().filter_map(read)),
        };
        let layer = CorsLayer::new().allow_origin(allowed).allow_methods([Method::GET, Method::POST]);
        Some(layer.allow_headers(AllowHeaders::mirror_request()))
    }
}

/// Refuses a body whose content type is not JSON. Browsers send other types, or none, for pages of other origins without a
/// preflight request.
///
/// # Errors
/// 415.
pub(crate) fn check_content_type(request: &Request) -> Result<(), ApiError> {
    let kind = only(request.headers(), &header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if request.method() != Method::POST || kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::not_json())
}

/// The value of a header, if it occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok()
}

/// The host of `HOST` or `HOST:PORT`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Whether a request's host is `name`.
fn is_named(host: &str, name: &str) -> bool {
    without_port(host).eq_ignore_ascii_case(name)
}

/// Whether a request's host is localhost or a loopback address.
fn is_of_this_machine(host: &str) -> bool {
    let host = without_port(host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|address| is_loopback(address.into())),
        None => host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok_and(|host| host.is_loopback()),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a text is a host name without a port.
fn is_host(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let bare = text.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !text.is_empty() && text.bytes().all(is_name),
    }
}

fn is_origin(text: &str) -> bool {
    let scheme = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    scheme && !text.ends_with('/') && HeaderValue::from_str(text).is_ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn sites(address: &str, hosts: &[&str], origins: &[&str]) -> Result<Sites> {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Sites::new(address.parse().unwrap(), texts(hosts), texts(origins))
    }

    fn request(target: &str, headers: &[(&str, &str)]) -> Request {
        let request = axum::http::Request::builder().method("POST").uri(target);
        headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value))
            .body(Body::empty())
            .unwrap()
    }

    fn answers(sites: &Sites, host: &str) -> bool {
        sites.check(&request("/", &[("host", host)])).is_ok()
    }

    #[test]
    fn on_loopback_only_hosts_of_this_machine_and_named_ones_are_answered() {
        for address in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            let sites = sites(address, &["Play.example.org", "[fd00::1]"], &[]).unwrap();
            for host in [
                "127.0.0.1",
                "127.0.0.1:8000",
                "127.200.3.4:1",
                "localhost",
                "LOCALHOST:8000",
                "localhost:",
                "[::1]",
                "[::1]:8000",
                "[0:0:0:0:0:0:0:1]:8000",
                "play.example.org",
                "play.example.org:443",
                "[fd00::1]:8000",
            ] {
                assert!(answers(&sites, host), "{host}");
            }
            for host in [
                "",
                "evil.example",
                "evil.example:8000",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "0.0.0.0:8000",
                "10.0.0.1",
                "[::]:8000",
                "::1",
                "evil.example:127.0.0.1",
                "localhost:80:80",
                "user@localhost",
                "xplay.example.org",
                "127.0.0.1, evil.example",
                "[127.0.0.1]",
                "localhost evil",
            ] {
                assert!(!answers(&sites, host), "{host}");
            }
            assert!(sites.check(&request("/", &[])).is_err());
            assert!(sites.check(&request("/", &[("host", "localhost"), ("host", "localhost")])).is_err());
            assert!(sites.check(&request("http://localhost/a", &[("host", "localhost")])).is_ok());
            assert!(sites.check(&request("http://evil.example/a", &[("host", "localhost")])).is_err());
        }
    }

    #[test]
    fn on_other_addresses_all_hosts_are_answered_unless_some_are_named() {
        for address in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80"] {
            let open = sites(address, &[], &[]).unwrap();
            assert!(answers(&open, "anything.example") && open.check(&request("/", &[])).is_ok());
            let named = sites(address, &["play.example.org"], &[]).unwrap();
            assert!(answers(&named, "play.example.org") && answers(&named, "localhost"));
            assert!(!answers(&named, "anything.example") && !answers(&named, "10.0.0.1"));
        }
        assert!(answers(&sites("127.0.0.1:80", &["*"], &[]).unwrap(), "anything.example"));
    }

    #[test]
    fn pages_of_other_origins_are_refused_unless_they_are_allowed() {
        let from = |sites: &Sites, host: &str, origin: &str| {
            sites.check(&request("/", &[("host", host), ("origin", origin)])).is_ok()
        };
        for address in ["127.0.0.1:80", "0.0.0.0:80"] {
            let own = sites(address, &[], &[]).unwrap();
            assert!(from(&own, "localhost:8000", "http://localhost:8000"));
            // A TLS proxy may be in front of the server.
            assert!(from(&own, "127.0.0.1", "https://127.0.0.1"));
            for foreign in [
                "http://evil.example",
                "null",
                "",
                "http://localhost",
                "http://localhost:8001",
                "http://127.0.0.1:8000",
                "file://",
                "localhost:8000",
            ] {
                assert!(!from(&own, "localhost:8000", foreign), "{foreign}");
            }
            let some = sites(address, &[], &["https://example.org"]).unwrap();
            assert!(from(&some, "localhost", "https://example.org") && from(&some, "localhost", "http://localhost"));
            assert!(!from(&some, "localhost", "http://example.org") && !from(&some, "localhost", "null"));
            let two = [("host", "localhost"), ("origin", "https://example.org"), ("origin", "http://evil.example")];
            assert!(some.check(&request("/", &two)).is_err());
            assert!(from(&sites(address, &[], &["*"]).unwrap(), "localhost", "null"));
        }
    }

    #[test]
    fn bodies_are_json_by_their_header() {
        let check = |headers: &[(&str, &str)]| check_content_type(&request("/", headers)).is_ok();
        for kind in ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;"] {
            assert!(check(&[("content-type", kind)]), "{kind}");
        }
        for kind in
            ["", "text/plain", "text/plain; application/json", "application/jsonp", "application/json, text/plain"]
        {
            assert!(!check(&[("content-type", kind)]), "{kind}");
        }
        assert!(!check(&[]));
        assert!(!check(&[("content-type", "application/json"), ("content-type", "text/plain")]));
    }

    #[test]
    fn hosts_and_origins_that_no_browser_sends_are_refused() {
        for host in ["", "a b", "http://a", "a:80", "a/", "[a]", "::1"] {
            let error = sites("127.0.0.1:80", &[host], &[]).unwrap_err().to_string();
            assert!(error.contains("--allowed_host"), "{host}: {error}");
        }
        for origin in ["", "example.org", "https://example.org/", "null"] {
            assert!(sites("127.0.0.1:80", &[], &[origin]).is_err(), "{origin}");
        }
    }
}
