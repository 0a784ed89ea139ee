//! The way to a running khz: its HTTP door, asked with a blocking client. It tells "nobody listens there"
//! from "it answered no", since only the first lets a command read the kernel itself.

use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use khz_model::{Nanos, Pattern};
use khz_trust::{ClientFiles, Protocol, TlsClient, Token, explain_io, in_our_words};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::unversioned::resolver::DefaultResolver;

use crate::answer::Answer;
use crate::command::nodes::Nodes;
use crate::command::nodes::forget::Forgotten;
use crate::config::trust::Trust;
use crate::show::outcome::{Failure, sentence};
use crate::transport::{Route, TlsFailed};

/// Answers beyond this are refused: 10,000 interfaces of 4 nodes fit.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// A door on this machine answers at once; one behind a tunnel within this.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(3);
/// Whoever runs begins to answer at once; who has not after this stands still, and people do not wait for him.
const FIRST_BYTE_WAIT_MAX: Duration = Duration::from_secs(5);
/// The whole answer of a large cluster.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(15);

/// Where a door says how often something comes in a stream, in seconds.
const HEARTBEAT_HEADER: &str = "khz-heartbeat";

/// What the path of a local socket begins with where a URL is expected.
const LOCAL: &str = "unix:";
/// What HTTP over a local socket takes for the name of the server.
const LOCAL_URL: &str = "http://127.0.0.1";

/// Where a khz listens.
#[derive(Clone, Debug)]
pub struct Server {
    /// As people write it.
    url: String,
    /// As HTTP wants it.
    base: String,
    /// `None`: plain TCP.
    route: Option<Route>,
    /// Shown to whoever is there.
    token: Option<Token>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there, or it is not reachable.
    #[error("no khz answers at {url}/: {reason}")]
    NobodyThere {
        /// The address.
        url: String,
        /// What the system said.
        reason: String,
    },
    /// It takes connections, and does not answer.
    #[error(
        "{url}/ takes connections and does not answer: it stands still, or its machine is overloaded. See there what it does \
         (systemctl status, top), and start it again if need be; without it only --direct reads anything, of this machine alone"
    )]
    Silent {
        /// The address.
        url: String,
    },
    /// Its answer stopped in the middle.
    #[error("the answer of {url}/ broke off: {reason}; ask again, and if it stays so see there what it does")]
    BrokeOff {
        /// The address.
        url: String,
        /// What the system said.
        reason: String,
    },
    /// It understood, and what was asked cannot be asked: a rate above the ceiling.
    #[error("{0}")]
    BadRequest(String),
    /// It understood, and it is not for us: a rate for operators, a token that is missing.
    #[error("{0}")]
    NotAllowed(String),
    /// TLS did not come about.
    #[error("no TLS with {url}/: {problem}")]
    Tls {
        /// The address.
        url: String,
        /// Whose certificate is not in order.
        problem: String,
    },
    /// It understood and said no: a pattern that matches nothing, a limit that is reached.
    #[error("{0}")]
    Refused(String),
    /// Something answered, but not as khz does.
    #[error("{url}/ does not answer as khz does: {problem}")]
    NotKhz {
        /// The address.
        url: String,
        /// What was strange.
        problem: String,
    },
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::BadRequest(_) | ClientError::NotAllowed(_) => Failure::usage(error),
            _ => Failure::work(error),
        }
    }
}

impl Server {
    /// The server at this URL; a bare `host:port` means http, `unix:PATH` a local socket. https takes its CA, and
    /// the certificate and token that it shows, from `trust`; the connection goes out from the local address `from`.
    pub fn new(url: &str, trust: &Trust, from: Option<IpAddr>) -> Result<Self, Failure> {
        if let Some(path) = url.strip_prefix(LOCAL) {
            return Ok(Server::local(path.as_ref()));
        }
        let url = url.trim_end_matches('/');
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let (is_tls, host) = match url.split_once("://") {
            Some(("http", host)) => (false, host),
            Some(("https", host)) => (true, host),
            _ => return Err(Failure::usage(format!("'{url}': there are http://, https:// and unix:"))),
        };
        if host.is_empty() || host.contains(['/', '?', '#', ' ', '@']) {
            return Err(Failure::usage(format!("'{url}' is not an address as http://127.0.0.1:7070")));
        }
        let route = if is_tls { Some(Route::Tls(tls(trust)?, from)) } else { from.map(Route::From) };
        // Without TLS a token is for everybody on the way to read; on this machine, or in a tunnel from it, nobody is.
        let token = if is_tls || is_loopback(host) { token(trust)? } else { None };
        Ok(Server { base: url.clone(), url, route, token })
    }

    /// The server at this local socket.
    pub fn local(path: &Path) -> Self {
        let url = format!("{LOCAL}{}", path.display());
        Server { url, base: LOCAL_URL.to_owned(), route: Some(Route::Local(path.into())), token: None }
    }

    /// True where an agent of this machine answers, which knows no node but its own.
    pub fn is_agent(&self) -> bool {
        let Some(Route::Local(path)) = &self.route else { return false };
        path.file_name().is_some_and(|name| name == crate::role::door::AGENT_SOCKET)
    }

    /// The address without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The latest readings of the series that the patterns select, asked anew where they are older than `age_max`.
    pub fn query(&self, patterns: &[Pattern], age_max: Option<Nanos>) -> Result<Answer, ClientError> {
        let age = age_max.map(|age| format!("&age={age}")).unwrap_or_default();
        let url = format!("{}/khz/v1/query?{}{age}", self.base, matches(patterns));
        let response = self.call(&url, Some(ANSWER_WAIT_MAX))?;
        self.read(response)
    }

    /// The entries of its catalogue.
    pub fn catalogue(&self) -> Result<Vec<serde_json::Value>, ClientError> {
        #[derive(serde::Deserialize)]
        struct Catalogue {
            metrics: Vec<serde_json::Value>,
        }
        let response = self.call(&format!("{}/khz/v1/catalog", self.base), Some(ANSWER_WAIT_MAX))?;
        self.read(response).map(|catalogue: Catalogue| catalogue.metrics)
    }

    /// How the nodes are that a hostlist selects; all, where none is given.
    pub fn nodes(&self, nodes: Option<&str>) -> Result<Nodes, ClientError> {
        let selected = nodes.map(|nodes| format!("?nodes={}", percent_encoded(nodes))).unwrap_or_default();
        let url = format!("{}/khz/v1/nodes{selected}", self.base);
        let response = self.call(&url, Some(ANSWER_WAIT_MAX))?;
        self.read(response)
    }

    /// The names of all nodes.
    pub fn node_names(&self) -> Result<Vec<String>, ClientError> {
        #[derive(Deserialize)]
        struct Names {
            nodes: Vec<String>,
        }
        let response = self.call(&format!("{}/khz/v1/nodes?brief=1", self.base), Some(ANSWER_WAIT_MAX))?;
        self.read(response).map(|names: Names| names.nodes)
    }

    /// Forgets the nodes of a hostlist that are gone.
    pub fn forget(&self, nodes: &str) -> Result<Forgotten, ClientError> {
        let url = format!("{}/khz/v1/nodes?nodes={}", self.base, percent_encoded(nodes));
        let response = self.send(&url, Some(ANSWER_WAIT_MAX), ureq::Agent::delete)?;
        self.read(response)
    }

    /// Rows as they come, as the text of server-sent events, for at most `span` where one is given; and how often
    /// something is heard at the least, where the door says so.
    pub fn stream(
        &self,
        patterns: &[Pattern],
        rate: khz_model::Rate,
        exact: bool,
        span: Option<Duration>,
    ) -> Result<(impl Read + Send + use<>, Option<Duration>), ClientError> {
        let exact = if exact { "&exact=1" } else { "" };
        let hz = rate_text(rate);
        let url = format!("{}/khz/v1/stream?{}&rate={hz}{exact}", self.base, matches(patterns));
        let response = self.call(&url, span)?;
        let seconds =
            response.headers().get(HEARTBEAT_HEADER).and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        Ok((response.into_body().into_reader(), seconds.map(Duration::from_secs)))
    }

    /// The answer's JSON.
    fn read<T: DeserializeOwned>(
        &self,
        response: ureq::http::Response<ureq::Body>,
    ) -> Result<T, ClientError> {
        let text = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX).reader();
        serde_json::from_reader(std::io::BufReader::new(text)).map_err(|error| match error.io_error_kind() {
            Some(_) => ClientError::BrokeOff { url: self.url.clone(), reason: in_our_words(&error) },
            None => self.not_khz(error),
        })
    }

    /// One GET; everything but success becomes the error that it means.
    fn call(
        &self,
        url: &str,
        body_wait: Option<Duration>,
    ) -> Result<ureq::http::Response<ureq::Body>, ClientError> {
        self.send(url, body_wait, ureq::Agent::get)
    }

    fn send<'u>(
        &self,
        url: &'u str,
        body_wait: Option<Duration>,
        method: fn(&ureq::Agent, &'u str) -> ureq::RequestBuilder<ureq::typestate::WithoutBody>,
    ) -> Result<ureq::http::Response<ureq::Body>, ClientError> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A proxy is for the world outside; a cluster's nodes are asked themselves.
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_WAIT_MAX))
            .timeout_recv_response(Some(FIRST_BYTE_WAIT_MAX))
            .timeout_recv_body(body_wait)
            .user_agent(concat!("khz/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = match &self.route {
            None => ureq::Agent::new_with_config(config),
            Some(route) => ureq::Agent::with_parts(config, route.clone(), DefaultResolver::default()),
        };
        let mut request = method(&agent, url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let response = request.call().map_err(|error| self.unanswered(error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response)) }
    }

    fn unanswered(&self, error: ureq::Error) -> ClientError {
        let url = self.url.clone();
        let tls_failed = match &error {
            ureq::Error::Other(error) => error.downcast_ref::<TlsFailed>(),
            ureq::Error::Io(error) => error.get_ref().and_then(|error| error.downcast_ref()),
            _ => None,
        };
        if let Some(TlsFailed(problem)) = tls_failed {
            return ClientError::Tls { url, problem: problem.clone() };
        }
        match error {
            ureq::Error::Io(error) => ClientError::NobodyThere { url, reason: explain_io(&error) },
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                ClientError::NobodyThere { url, reason: "it does not answer in time".to_owned() }
            }
            ureq::Error::Timeout(_) => ClientError::Silent { url },
            ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => {
                ClientError::NobodyThere { url, reason: error.to_string() }
            }
            other => ClientError::NotKhz { url, problem: in_our_words(&other) },
        }
    }

    /// The sentence in `{"error": "..."}`.
    fn refusal(&self, response: ureq::http::Response<ureq::Body>) -> ClientError {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        /// A sentence is shorter than this.
        const REFUSAL_BYTES_MAX: u64 = 64 << 10;
        let status = response.status();
        let body = response.into_body().into_with_config().limit(REFUSAL_BYTES_MAX).reader();
        match serde_json::from_reader::<_, Refusal>(body) {
            Ok(refusal) => match status.as_u16() {
                400 => ClientError::BadRequest(refusal.error),
                401 | 403 => ClientError::NotAllowed(refusal.error),
                _ => ClientError::Refused(refusal.error),
            },
            Err(_) => self.not_khz(format!("status {status}")),
        }
    }

    fn not_khz(&self, problem: impl std::fmt::Display) -> ClientError {
        ClientError::NotKhz { url: self.url.clone(), problem: in_our_words(&problem) }
    }
}

/// The client's side of TLS as the settings have it.
fn tls(trust: &Trust) -> Result<std::sync::Arc<rustls::ClientConfig>, Failure> {
    let Some(ca) = &trust.ca else {
        return Err(Failure::usage(
            "https:// needs the CA that signed the server's certificate: --tls-ca FILE (of a public CA: \
             /etc/ssl/certs/ca-certificates.crt)",
        ));
    };
    let files = ClientFiles { ca: ca.clone(), pair: trust.pair.clone() };
    let client = TlsClient::load(files, Protocol::Http).map_err(|error| Failure::usage(sentence(&error)))?;
    Ok(client.config())
}

fn token(trust: &Trust) -> Result<Option<Token>, Failure> {
    let token = trust.token.as_ref().map(crate::config::trust::TokenPlace::read);
    token.transpose().map_err(|error| Failure::usage(sentence(&error)))
}

/// True for `127.0.0.1:7070`, `[::1]` and `localhost`.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A rate as the door reads it: hertz where they are whole, else the period.
fn rate_text(rate: khz_model::Rate) -> String {
    rate.to_string().trim_start_matches("every ").to_owned()
}

/// `match=...&match=...`.
fn matches(patterns: &[Pattern]) -> String {
    let parameters: Vec<String> =
        patterns.iter().map(|pattern| format!("match={}", percent_encoded(&pattern.to_string()))).collect();
    parameters.join("&")
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
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
            assert_eq!(Server::new(text, &Trust::default(), None).unwrap().url(), url);
        }
        for text in ["ftp://a", "", "http://a/b", "http://u@a"] {
            assert!(Server::new(text, &Trust::default(), None).is_err(), "{text}");
        }
        let error = Server::new("https://a", &Trust::default(), None).unwrap_err().to_string();
        assert!(error.contains("--tls-ca"), "{error}");
        for host in ["127.0.0.1:7070", "localhost", "[::1]:1", "127.1.2.3"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["10.0.0.1:7070", "localhost.example", "[::2]", "hub"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn patterns_survive_the_address() {
        let pattern = Pattern::new("n[1-2]:net.rx_*[a%2Fb]").unwrap();
        assert_eq!(matches(&[pattern]), "match=n%5B1-2%5D%3Anet.rx_*%5Ba%252Fb%5D");
    }
}
