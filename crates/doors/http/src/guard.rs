//! The checks before any route: length of the URL, method, body, Host (`--allowed-hosts`) and Origin, in this order. Stops pages of other sites from
//! using the door through a user's browser. Knows nothing of users.

use std::net::IpAddr;

use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::uri::Authority;
use axum::http::{Method, Request, StatusCode, Version};
use khz_door::Way;
use khz_model::http_names::{BLACK_BOX_PATH, NODES_PATH, RULES_PATH};

use crate::bodies::body_max;
use crate::limits::URI_BYTES_MAX;
use crate::refusal::Refusal;
use crate::routes;
use crate::{black_box, channels, jobs};

/// Which Host headers name this door.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    hosts: Vec<String>,
}

impl Guard {
    /// `hosts` are further names, besides `localhost` and the address that the client connected to.
    pub(crate) fn new(hosts: &[String]) -> Self {
        Guard { hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// Accepts a request that came in by this way, or returns the refusal.
    pub(crate) fn check<B>(&self, request: &Request<B>, way: Way) -> Result<(), Refusal> {
        let body_max = body_max(request.method(), request.uri().path());
        check_uri(request)?;
        check_method(request.method(), request.uri().path(), body_max.is_some())?;
        check_body(request.headers(), body_max)?;
        let host = self.check_host(request, way)?;
        check_origin(request.headers(), host.as_ref())
    }

    /// The requested Host. Refuses a name that an attacker can point at this address (DNS rebinding).
    fn check_host<B>(&self, request: &Request<B>, way: Way) -> Result<Option<Authority>, Refusal> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let Some(host) = hosts.next() else {
            // HTTP/1.0 has no Host, and no browser speaks it.
            return match request.version() {
                Version::HTTP_10 if request.uri().authority().is_none() => Ok(None),
                _ => Err(Refusal::bad_request("the Host header is missing")),
            };
        };
        if hosts.next().is_some() {
            return Err(Refusal::bad_request("there are two Host headers"));
        }
        let host: Authority = host
            .to_str()
            .ok()
            .and_then(|host| host.parse().ok())
            .ok_or_else(|| Refusal::bad_request("the Host header is malformed"))?;
        for name in [Some(&host), request.uri().authority()].into_iter().flatten() {
            if name.as_str().contains('@') || !self.names_us(name.host(), way) {
                return Err(not_us(name.host(), way));
            }
        }
        Ok(Some(host))
    }

    /// Ignores the port: a forwarded port (`ssh -L 8080:localhost:7070`) is legitimate, and a rebound name
    /// gains nothing by a port.
    fn names_us(&self, host: &str, way: Way) -> bool {
        let local = match way {
            Way::Address(local) => local,
            // A browser checks the name against the certificate, so a rebound name fails; and it cannot open
            // a local socket.
            Way::Tls | Way::Local => return true,
        };
        let host = host.to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(&host);
        match bare.parse::<IpAddr>() {
            Ok(ip) => {
                let (ip, local) = (ip.to_canonical(), local.to_canonical());
                ip == local
                    || (ip.is_loopback() && local.is_loopback())
                    || self.hosts.iter().any(|h| h == bare)
            }
            Err(_) => {
                (host == "localhost" && local.to_canonical().is_loopback()) || self.hosts.contains(&host)
            }
        }
    }
}

fn not_us(host: &str, way: Way) -> Refusal {
    let instead = match way {
        Way::Address(IpAddr::V4(ip)) => format!("ask for http://{ip}, or "),
        Way::Address(IpAddr::V6(ip)) => format!("ask for http://[{ip}], or "),
        Way::Tls | Way::Local => String::new(),
    };
    let error = format!(
        "Host '{host}' is not a name of this door; {instead}allow the name where khz is started: --allowed-hosts \
         {host}, KHZ_ALLOWED_HOSTS={host}, or allowed_hosts = [\"{host}\"] in khz.toml"
    );
    Refusal::new(StatusCode::FORBIDDEN, error)
}

fn check_method(method: &Method, path: &str, takes_body: bool) -> Result<(), Refusal> {
    match *method {
        // It reads, too: its parameters are in the body.
        Method::POST if takes_body => Ok(()),
        Method::GET | Method::HEAD => Ok(()),
        // The only paths that do more than read: nodes are forgotten, channels are defined and removed, rule files are loaded, jobs
        // start and end, rings are frozen. A page of another origin cannot send the request: its browser asks first, and gets 405.
        Method::DELETE if path == NODES_PATH => Ok(()),
        Method::PUT | Method::DELETE if channels::name_in(path).is_some() => Ok(()),
        Method::PUT if path == RULES_PATH || path == BLACK_BOX_PATH || jobs::job_in(path).is_some() => Ok(()),
        Method::DELETE if black_box::is_freeze(path) => Ok(()),
        _ if !routes::has_path(path) => Err(routes::nothing_at(path)),
        _ => Err(Refusal::method(match path {
            NODES_PATH => "GET, HEAD, DELETE",
            RULES_PATH | BLACK_BOX_PATH => "GET, HEAD, PUT",
            _ if black_box::is_freeze(path) => "GET, HEAD, DELETE",
            _ if channels::name_in(path).is_some() => "GET, HEAD, PUT, DELETE",
            _ if jobs::job_in(path).is_some() => "GET, HEAD, PUT",
            _ if body_max(&Method::POST, path).is_some() => "GET, HEAD, POST",
            _ => "GET, HEAD",
        })),
    }
}

fn check_uri<B>(request: &Request<B>) -> Result<(), Refusal> {
    let length = request.uri().path_and_query().map_or(0, |text| text.as_str().len());
    if length <= URI_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::URI_TOO_LONG,
        format!("a URL has at most {URI_BYTES_MAX} bytes; this one has {length}"),
    ))
}

fn check_body(headers: &HeaderMap, max: Option<usize>) -> Result<(), Refusal> {
    if let Some(max) = max {
        let length = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        return match length.is_none_or(|length| length <= max) {
            true => Ok(()),
            false => Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body here has at most {max} bytes"),
            )),
        };
    }
    let empty = headers.get(header::CONTENT_LENGTH).is_none_or(|length| length == "0");
    if empty && !headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "a request to this door has no body"))
}

/// A page of another origin may link to this door, but neither read nor embed it. Browsers name the page's
/// origin in `Origin` or, where they leave that out, in `Sec-Fetch-Site`.
fn check_origin(headers: &HeaderMap, host: Option<&Authority>) -> Result<(), Refusal> {
    let foreign = || Refusal::new(StatusCode::FORBIDDEN, "requests from pages of another origin are refused");
    for origin in headers.get_all(header::ORIGIN) {
        let authority = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
        match (authority, host) {
            (Some(authority), Some(host)) if host.as_str().eq_ignore_ascii_case(authority) => {}
            _ => return Err(foreign()),
        }
    }
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
    let navigates = headers.get(MODE).is_some_and(|mode| mode == "navigate");
    match headers.get(SITE) {
        Some(site) if site != "same-origin" && site != "none" && !navigates => Err(foreign()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(local: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let guard = Guard::new(&["monitor.example".to_owned()]);
        let checked = guard.check(&request.body(()).unwrap(), Way::Address(local.parse().unwrap()));
        checked.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_our_own_names_are_answered() {
        for (local, host, expected) in [
            ("127.0.0.1", "127.0.0.1:7070", 200),
            ("127.0.0.1", "localhost:8080", 200),
            ("127.0.0.1", "LOCALHOST", 200),
            ("127.0.0.1", "[::1]:7070", 200),
            ("127.0.0.1", "monitor.example", 200),
            ("127.0.0.1", "evil.example:7070", 403),
            ("127.0.0.1", "localhost.evil.example", 403),
            ("127.0.0.1", "127.0.0.1.evil.example", 403),
            ("127.0.0.1", "192.168.1.5", 403),
            ("127.0.0.1", "x@127.0.0.1", 403),
            ("127.0.0.1", "a b", 400),
            ("127.0.0.1", "", 400),
            ("192.168.1.5", "192.168.1.5:7070", 200),
            ("192.168.1.5", "127.0.0.1", 403),
            ("192.168.1.5", "localhost", 403),
            ("::ffff:127.0.0.1", "127.0.0.1", 200),
        ] {
            assert_eq!(status(local, &[("host", host)]), expected, "{host} on {local}");
        }
        assert_eq!(status("127.0.0.1", &[]), 400, "HTTP/1.1 needs a Host");
        assert_eq!(status("127.0.0.1", &[("host", "localhost"), ("host", "localhost")]), 400);
    }

    #[test]
    fn behind_tls_and_on_the_local_socket_any_name_is_ours_but_no_foreign_page_comes_in() {
        let guard = Guard::new(&[]);
        for way in [Way::Tls, Way::Local] {
            let request = Request::builder().uri("/").header("host", "hub.example");
            assert!(guard.check(&request.body(()).unwrap(), way).is_ok());
            let foreign =
                Request::builder().uri("/").header("host", "hub.example").header("origin", "https://evil");
            assert_eq!(guard.check(&foreign.body(()).unwrap(), way).unwrap_err().status.as_u16(), 403);
        }
    }

    #[test]
    fn pages_of_another_origin_are_refused() {
        for (headers, expected) in [
            (&[("origin", "http://localhost:7070")][..], 200),
            (&[("origin", "http://localhost:3000")], 403),
            (&[("origin", "https://evil.example")], 403),
            (&[("origin", "null")], 403),
            (&[("origin", "http://localhost:7070"), ("origin", "http://evil.example")], 403),
            (&[("sec-fetch-site", "same-origin")], 200),
            (&[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")], 200),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], 200),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], 403),
        ] {
            let all: Vec<_> = [("host", "localhost:7070")].iter().chain(headers).copied().collect();
            assert_eq!(status("127.0.0.1", &all), expected, "{headers:?}");
        }
    }

    #[test]
    fn bodies_other_methods_and_endless_urls_are_refused() {
        let guard = Guard::new(&[]);
        let check = |request: axum::http::request::Builder| {
            let request = request.header("host", "localhost").body(()).unwrap();
            guard.check(&request, Way::Address([127, 0, 0, 1].into())).unwrap_err().status.as_u16()
        };
        assert_eq!(check(Request::post("/")), 405);
        assert_eq!(check(Request::delete("/khz/v1/query")), 405);
        for path in ["/api/v1/nope", "/api/v1", "/api/v1/label//values", "/khz/v1/query/x"] {
            assert_eq!(check(Request::post(path)), 404, "{path}");
            assert_eq!(check(Request::put(path)), 404, "{path}");
        }
        assert_eq!(check(Request::put("/api/v1/label/a/values")), 405);
        assert_eq!(check(Request::put("/metrics")), 405);
        assert_eq!(check(Request::delete("/khz/v1/nodes").header("origin", "http://evil.example")), 403);
        let delete = Request::delete("/khz/v1/nodes?nodes=n1").header("host", "localhost").body(()).unwrap();
        assert!(guard.check(&delete, Way::Address([127, 0, 0, 1].into())).is_ok());
        assert_eq!(check(Request::get("/").header("content-length", "1")), 413);
        assert_eq!(check(Request::get("/").header("transfer-encoding", "chunked")), 413);
        assert_eq!(check(Request::get(format!("/{}", "x".repeat(URI_BYTES_MAX)))), 414);
    }
}
