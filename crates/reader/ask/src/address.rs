//! An address as people write it: a URL, `host:port`, or the path of a local socket after `unix:`.

use crate::AskError;

/// What the path of a local socket begins with where a URL is expected.
pub(crate) const LOCAL: &str = "unix:";

/// An address that HTTP can use.
pub(crate) struct Address {
    /// With its scheme, without a slash at its end.
    pub url: String,
    /// `https://`.
    pub is_tls: bool,
}

impl Address {
    /// Reads it. A bare `host:port` means `http://`.
    pub(crate) fn read(text: &str) -> Result<Self, AskError> {
        let text = text.trim_end_matches('/');
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let (is_tls, host) = match url.split_once("://") {
            Some(("http", host)) => (false, host),
            Some(("https", host)) => (true, host),
            _ => return Err(AskError::Address(format!("'{url}': there are http://, https:// and unix:"))),
        };
        if host.is_empty() || host.contains(['/', '?', '#', ' ', '@']) {
            return Err(AskError::Address(format!("'{url}' is not an address as http://127.0.0.1:7070")));
        }
        Ok(Address { url, is_tls })
    }

    /// Reads the address of any engine with Prometheus' interface, which may be below a path: `http://victoria:8481/select/0/prometheus`.
    /// The path stays in the URL.
    pub(crate) fn of_engine(text: &str) -> Result<Self, AskError> {
        let text = text.trim_end_matches('/');
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_path = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%:".contains(&b);
        if host.is_empty() || !path.bytes().all(is_path) {
            return Err(AskError::Address(format!(
                "'{text}' is not an address as http://127.0.0.1:9090/prometheus"
            )));
        }
        let address = Address::read(&format!("{scheme}://{host}"))?;
        Ok(Address { url: format!("{}{path}", address.url), ..address })
    }

    /// True where nobody between us and the server can read what we send: on this machine, or in a tunnel from it.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.url.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or(rest));
        host.is_some_and(is_loopback)
    }
}

/// True for `127.0.0.1:7070`, `[::1]` and `localhost`.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, url) in [
            ("http://127.0.0.1:7070/", "http://127.0.0.1:7070"),
            ("node7:8080", "http://node7:8080"),
            ("[::1]:7070", "http://[::1]:7070"),
        ] {
            assert_eq!(Address::read(text).unwrap().url, url);
        }
        for text in ["ftp://a", "", "http://a/b", "http://u@a"] {
            assert!(Address::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_address_of_an_engine_may_have_a_path() {
        let url = |text: &str| Address::of_engine(text).map(|address| address.url).ok();
        assert_eq!(
            url("http://v:8481/select/0/prometheus/").as_deref(),
            Some("http://v:8481/select/0/prometheus")
        );
        assert_eq!(url("localhost:9090").as_deref(), Some("http://localhost:9090"));
        assert!(Address::of_engine("http://127.0.0.1:9090/x").unwrap().is_loopback());
        for text in ["ftp://a/b", "http://a/b?c", "http://a/b c", "http://u@a/b", "http:///b"] {
            assert_eq!(url(text), None, "{text}");
        }
    }

    #[test]
    fn only_hosts_of_this_machine_are_loopback() {
        for host in ["127.0.0.1:7070", "localhost", "[::1]:1", "127.1.2.3"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["10.0.0.1:7070", "localhost.example", "[::2]", "hub"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
