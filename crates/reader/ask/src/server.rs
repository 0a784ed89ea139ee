//! A running khz: its address, what we show it, and the requests that it answers.

use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use khz_model::http_names::{
    CATALOG_PATH, HEARTBEAT_HEADER, NODES_PATH, QUERY_PATH, RANGE_PATH, STREAM_PATH,
};
use khz_model::printable::printable;
use khz_model::{Interest, Nanos, Pattern, RANGE_STEP_READINGS, RangeShape};
use khz_trust::{ClientFiles, Protocol, TlsClient, Token, explain_io, in_our_words};
use rustls::ClientConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::unversioned::resolver::DefaultResolver;

use crate::address::{Address, LOCAL};
use crate::local::AGENT_SOCKET;
use crate::transport::{Route, TlsFailed};
use crate::{Answer, AskError, Forgotten, Nodes, Past, PastBytes, PastLines, Stream};

/// The longest answer that is read: 10,000 interfaces of 4 nodes fit.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// A door on this machine accepts at once, one at the other end of a tunnel within this time.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(3);
/// A server that runs begins to answer at once. People do not wait longer than this for one that stands still.
const FIRST_BYTE_WAIT_MAX: Duration = Duration::from_secs(5);
/// The whole answer of a large cluster comes within this time.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(15);

/// A server may read files for this long before it knows how an answer about the past begins.
const PAST_FIRST_BYTE_WAIT_MAX: Duration = Duration::from_secs(60);
/// A day of a large cluster comes within this time.
const PAST_WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The server's name in HTTP over a local socket.
const LOCAL_URL: &str = "http://127.0.0.1";

/// What an answer may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// The time until it begins.
    pub first: Duration,
    /// The time from then on.
    pub body: Duration,
    pub bytes: u64,
}

/// A running khz.
#[derive(Clone, Debug)]
pub struct Server {
    /// As people write it.
    url: String,
    /// As HTTP wants it.
    base: String,
    /// `None`: plain TCP.
    route: Option<Route>,
    /// Nobody between us and the server can read the token.
    may_see_token: bool,
    token: Option<Token>,
    /// The directory in which no local socket was found before.
    not_in: Option<PathBuf>,
}

impl Server {
    /// The server at this address: a URL, `host:port` for `http://`, or `unix:PATH` for a local socket. `files` has the
    /// CA that `https://` needs, and the certificate that we show. Connections leave from the local address `from`.
    ///
    /// # Errors
    /// [`AskError::Address`], [`AskError::NoCa`] or [`AskError::Files`]; nothing is asked.
    pub fn new(url: &str, files: Option<ClientFiles>, from: Option<IpAddr>) -> Result<Self, AskError> {
        if let Some(path) = url.strip_prefix(LOCAL) {
            return Ok(Server::local(path.as_ref()));
        }
        Server::at(Address::read(url)?, files, from)
    }

    /// An engine with Prometheus' HTTP interface, which may be below a path; otherwise as [`Server::new`].
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn engine(url: &str, files: Option<ClientFiles>, from: Option<IpAddr>) -> Result<Self, AskError> {
        Server::at(Address::of_engine(url)?, files, from)
    }

    fn at(address: Address, files: Option<ClientFiles>, from: Option<IpAddr>) -> Result<Self, AskError> {
        let route = match address.is_tls {
            true => Some(Route::Tls(tls(files)?, from)),
            false => from.map(Route::From),
        };
        let may_see_token = address.is_tls || address.is_loopback();
        let (token, not_in) = (None, None);
        Ok(Server { base: address.url.clone(), url: address.url, route, may_see_token, token, not_in })
    }

    /// The server at this local socket.
    pub fn local(path: &Path) -> Self {
        let url = format!("{LOCAL}{}", path.display());
        let route = Some(Route::Local(path.into()));
        let (base, may_see_token, token, not_in) = (LOCAL_URL.to_owned(), false, None, None);
        Server { url, base, route, may_see_token, token, not_in }
    }

    /// True where a token may be shown: in TLS, and to this machine or a tunnel from it. Without TLS, everybody on the way
    /// could read it. At a local socket the system says who we are.
    pub fn may_see_token(&self) -> bool {
        self.may_see_token
    }

    /// The same server, to which this token is shown.
    pub fn with_token(self, token: Token) -> Self {
        Server { token: Some(token), ..self }
    }

    /// The same server, which is asked since no khz listens at a local socket in this directory: if it does not answer either, the
    /// error names both.
    pub fn after(self, directory: &Path) -> Self {
        Server { not_in: Some(directory.to_owned()), ..self }
    }

    /// True where an agent of this machine answers, which knows no node but its own.
    pub fn is_agent(&self) -> bool {
        let Some(Route::Local(path)) = &self.route else { return false };
        path.file_name().is_some_and(|name| name == AGENT_SOCKET)
    }

    /// Refuses to ask an agent of this machine for what only a hub has: the agent would answer that there is none of it.
    pub(crate) fn only_at_hub(&self) -> Result<(), AskError> {
        if self.is_agent() { Err(AskError::OnlyAgent) } else { Ok(()) }
    }

    /// The address without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The latest readings of the series that the patterns select. Where they are older than `age_max`, the server asks the
    /// nodes again.
    ///
    /// # Errors
    /// See [`AskError`]; the same holds for every request.
    pub fn query(&self, patterns: &[Pattern], age_max: Option<Nanos>) -> Result<Answer, AskError> {
        let age = age_max.map(|age| format!("&age={age}")).unwrap_or_default();
        let url = format!("{}{QUERY_PATH}?{}{age}", self.base, matches(patterns));
        let response = self.call(&url, Some(ANSWER_WAIT_MAX))?;
        self.read(response)
    }

    /// The entries of its catalogue, one JSON object a metric (docs/http.md).
    pub fn catalogue(&self) -> Result<Vec<serde_json::Value>, AskError> {
        #[derive(Deserialize)]
        struct Catalogue {
            metrics: Vec<serde_json::Value>,
        }
        let response = self.call(&format!("{}{CATALOG_PATH}", self.base), Some(ANSWER_WAIT_MAX))?;
        self.read(response).map(|catalogue: Catalogue| catalogue.metrics)
    }

    /// The status of the nodes that a hostlist selects; of all nodes without one.
    pub fn nodes(&self, nodes: Option<&str>) -> Result<Nodes, AskError> {
        let selected = nodes.map(|nodes| format!("?nodes={}", percent_encoded(nodes))).unwrap_or_default();
        let url = format!("{}{NODES_PATH}{selected}", self.base);
        let response = self.call(&url, Some(ANSWER_WAIT_MAX))?;
        let nodes = self.read(response)?;
        Ok(Nodes { of_agent: self.is_agent(), ..nodes })
    }

    /// The names of all nodes.
    pub fn node_names(&self) -> Result<Vec<String>, AskError> {
        #[derive(Deserialize)]
        struct Names {
            nodes: Vec<String>,
        }
        let response = self.call(&format!("{}{NODES_PATH}?brief=1", self.base), Some(ANSWER_WAIT_MAX))?;
        self.read(response).map(|names: Names| names.nodes)
    }

    /// Makes a hub forget the nodes of a hostlist that are gone; for operators.
    pub fn forget(&self, nodes: &str) -> Result<Forgotten, AskError> {
        self.delete(&format!("{NODES_PATH}?nodes={}", percent_encoded(nodes)))
    }

    /// What series were, out of the server's store.
    pub fn past(&self, past: &Past) -> Result<PastLines, AskError> {
        let response = self.range(past)?;
        PastLines::new(&self.url, response.into_body().into_reader())
    }

    /// The same as a recording, with every reading; what `past` says of its shape does not matter.
    pub fn past_recording(&self, past: Past) -> Result<PastBytes, AskError> {
        let response = self.range(&Past { shape: RangeShape::Steps(RANGE_STEP_READINGS), ..past })?;
        PastBytes::new(&self.url, response.into_body().into_reader())
    }

    /// The bytes of a path.
    pub(crate) fn bytes(&self, path: &str) -> Result<PastBytes, AskError> {
        let url = format!("{}{path}", self.base);
        let response = self.send(&url, (FIRST_BYTE_WAIT_MAX, Some(PAST_WAIT_MAX)), ureq::Agent::get)?;
        PastBytes::new(&self.url, response.into_body().into_reader())
    }

    fn range(&self, past: &Past) -> Result<ureq::http::Response<ureq::Body>, AskError> {
        let url = format!("{}{RANGE_PATH}?{}&{}", self.base, matches(&past.patterns), past.parameters());
        let waits = (PAST_FIRST_BYTE_WAIT_MAX, Some(PAST_WAIT_MAX));
        self.send(&url, waits, ureq::Agent::get)
    }

    /// Rows as they come, for at most `span` where one is given.
    pub fn stream(&self, interest: &Interest, span: Option<Duration>) -> Result<Stream, AskError> {
        let exact = if interest.exact { "&exact=1" } else { "" };
        let rate = rate_text(interest.rate);
        self.rows(&format!("{STREAM_PATH}?{}&rate={rate}{exact}", matches(&interest.patterns)), span)
    }

    /// The stream at a path.
    pub(crate) fn rows(&self, path: &str, span: Option<Duration>) -> Result<Stream, AskError> {
        let response = self.call(&format!("{}{path}", self.base), span)?;
        let seconds =
            response.headers().get(HEARTBEAT_HEADER).and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        Stream::new(&self.url, response.into_body().into_reader(), seconds.map(Duration::from_secs))
    }

    /// The JSON of a path.
    pub(crate) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, AskError> {
        let response = self.call(&format!("{}{path}", self.base), Some(ANSWER_WAIT_MAX))?;
        self.read(response)
    }

    /// The text of a path.
    pub(crate) fn get_text(&self, path: &str) -> Result<String, AskError> {
        let response = self.call(&format!("{}{path}", self.base), Some(ANSWER_WAIT_MAX))?;
        let (mut text, mut bytes) = (response.into_body().into_reader().take(ANSWER_BYTES_MAX), Vec::new());
        let broke_off =
            |error: std::io::Error| AskError::BrokeOff { url: self.url.clone(), reason: error.to_string() };
        text.read_to_end(&mut bytes).map_err(broke_off)?;
        match text.limit() {
            0 => Err(AskError::TooLong { url: self.url.clone(), bytes: ANSWER_BYTES_MAX }),
            _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// One DELETE; the answer's JSON.
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, AskError> {
        let url = format!("{}{path}", self.base);
        let response = self.send(&url, (FIRST_BYTE_WAIT_MAX, Some(ANSWER_WAIT_MAX)), ureq::Agent::delete)?;
        self.read(response)
    }

    /// One PUT of JSON; the answer's JSON.
    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, json: &str) -> Result<T, AskError> {
        let agent = self.agent(FIRST_BYTE_WAIT_MAX, Some(ANSWER_WAIT_MAX));
        let request = agent.put(format!("{}{path}", self.base)).header("Content-Type", "application/json");
        let response = self.authorized(request).send(json).map_err(|error| self.unanswered(error))?;
        if response.status().is_success() { self.read(response) } else { Err(self.refusal(response)) }
    }

    /// One PUT without a body; the answer's JSON.
    pub(crate) fn put_nothing<T: DeserializeOwned>(&self, path: &str) -> Result<T, AskError> {
        let agent = self.agent(FIRST_BYTE_WAIT_MAX, Some(ANSWER_WAIT_MAX));
        let request = self.authorized(agent.put(format!("{}{path}", self.base)));
        let response = request.send_empty().map_err(|error| self.unanswered(error))?;
        if response.status().is_success() { self.read(response) } else { Err(self.refusal(response)) }
    }

    /// The answer's JSON.
    fn read<T: DeserializeOwned>(&self, response: ureq::http::Response<ureq::Body>) -> Result<T, AskError> {
        self.read_at_most(response, ANSWER_BYTES_MAX)
    }

    fn read_at_most<T: DeserializeOwned>(
        &self,
        response: ureq::http::Response<ureq::Body>,
        bytes: u64,
    ) -> Result<T, AskError> {
        let mut text = response.into_body().into_reader().take(bytes);
        let read = serde_json::from_reader(std::io::BufReader::new(&mut text));
        read.map_err(|error| match error.io_error_kind() {
            _ if text.limit() == 0 => AskError::TooLong { url: self.url.clone(), bytes },
            Some(_) => AskError::BrokeOff { url: self.url.clone(), reason: in_our_words(&error) },
            None => self.not_khz(error),
        })
    }

    /// One GET; everything but success becomes the error that it means.
    fn call(
        &self,
        url: &str,
        body_wait: Option<Duration>,
    ) -> Result<ureq::http::Response<ureq::Body>, AskError> {
        self.send(url, (FIRST_BYTE_WAIT_MAX, body_wait), ureq::Agent::get)
    }

    fn send<'u>(
        &self,
        url: &'u str,
        (first_wait, body_wait): (Duration, Option<Duration>),
        method: fn(&ureq::Agent, &'u str) -> ureq::RequestBuilder<ureq::typestate::WithoutBody>,
    ) -> Result<ureq::http::Response<ureq::Body>, AskError> {
        let request = method(&self.agent(first_wait, body_wait), url);
        let response = self.authorized(request).call().map_err(|error| self.unanswered(error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response)) }
    }

    /// One POST of a form; the answer's JSON.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        most: Most,
    ) -> Result<T, AskError> {
        let pairs: Vec<String> =
            form.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let agent = self.agent(most.first, Some(most.body));
        let request = agent
            .post(format!("{}{path}", self.base))
            .header("Content-Type", "application/x-www-form-urlencoded");
        let response =
            self.authorized(request).send(pairs.join("&")).map_err(|error| match self.unanswered(error) {
                AskError::Silent { url } => AskError::Late { url, seconds: most.first.as_secs() },
                other => other,
            })?;
        match response.status().is_success() {
            true => self.read_at_most(response, most.bytes),
            false => Err(self.refusal(response)),
        }
    }

    /// The request with the token, if there is one.
    fn authorized<Body>(&self, request: ureq::RequestBuilder<Body>) -> ureq::RequestBuilder<Body> {
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn agent(&self, first_wait: Duration, body_wait: Option<Duration>) -> ureq::Agent {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A proxy is for the world outside; a cluster's nodes are asked themselves.
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_WAIT_MAX))
            .timeout_recv_response(Some(first_wait))
            .timeout_recv_body(body_wait)
            .user_agent(concat!("khz/", env!("CARGO_PKG_VERSION")))
            .build();
        match &self.route {
            None => ureq::Agent::new_with_config(config),
            Some(route) => ureq::Agent::with_parts(config, route.clone(), DefaultResolver::default()),
        }
    }

    fn unanswered(&self, error: ureq::Error) -> AskError {
        let url = self.url.clone();
        if let Some(problem) = TlsFailed::problem(&error) {
            return AskError::Tls { url, problem };
        }
        let nobody = |reason: String| {
            let also =
                |directory: &PathBuf| format!("{reason}; nor at a local socket in {}", directory.display());
            AskError::NobodyThere {
                reason: self.not_in.as_ref().map_or(reason.clone(), also),
                url: url.clone(),
            }
        };
        match error {
            ureq::Error::Io(error) => nobody(explain_io(&error)),
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                nobody("it does not answer in time".to_owned())
            }
            ureq::Error::Timeout(_) => AskError::Silent { url },
            ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => nobody(error.to_string()),
            other => AskError::NotKhz { url, problem: in_our_words(&other) },
        }
    }

    /// The sentence in `{"error": "..."}`.
    fn refusal(&self, response: ureq::http::Response<ureq::Body>) -> AskError {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        /// A sentence is shorter than this.
        const REFUSAL_BYTES_MAX: u64 = 64 << 10;
        let status = response.status();
        let body = response.into_body().into_with_config().limit(REFUSAL_BYTES_MAX).reader();
        match serde_json::from_reader::<_, Refusal>(body) {
            Ok(Refusal { error }) => {
                match (status.as_u16(), printable(&error.trim_end().replace('\n', "; ")).into_owned()) {
                    (400, error) => AskError::BadRequest(error),
                    (401 | 403, error) => AskError::NotAllowed(error),
                    (409, error) => AskError::Conflict(error),
                    (_, error) => AskError::Refused(error),
                }
            }
            Err(_) => self.not_khz(format!("status {status}")),
        }
    }

    fn not_khz(&self, problem: impl std::fmt::Display) -> AskError {
        AskError::NotKhz { url: self.url.clone(), problem: in_our_words(&problem) }
    }
}

/// The client's side of TLS.
fn tls(files: Option<ClientFiles>) -> Result<Arc<ClientConfig>, AskError> {
    let files = files.ok_or(AskError::NoCa)?;
    Ok(TlsClient::load(files, Protocol::Http)?.config())
}

/// A rate as the door reads it: hertz where they are whole, else the period.
fn rate_text(rate: khz_model::Rate) -> String {
    rate.to_string().trim_start_matches("every ").to_owned()
}

/// `match=...&match=...`.
pub(crate) fn matches(patterns: &[Pattern]) -> String {
    let parameters: Vec<String> =
        patterns.iter().map(|pattern| format!("match={}", percent_encoded(&pattern.to_string()))).collect();
    parameters.join("&")
}

pub(crate) fn percent_encoded(text: &str) -> String {
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
    use std::io::Write;
    use std::net::TcpListener;

    /// What a question gets from a server that sends the first text and then the other without an end, if there are any.
    fn asked(first: &'static str, again: &'static str, most: Most) -> AskError {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server::new(&listener.local_addr().unwrap().to_string(), None, None).unwrap();
        let sender = std::thread::spawn(move || {
            // Somebody else may still look for a server that had this port.
            let mut socket = loop {
                let ((mut socket, _), mut begin) = (listener.accept().unwrap(), [0; 4_096]);
                let length = socket.read(&mut begin).unwrap_or(0);
                if begin[..length].starts_with(b"POST /x ") {
                    break socket;
                }
            };
            // The client leaves at its limit.
            let _ = socket.write_all(first.as_bytes());
            while !again.is_empty() && socket.write_all(again.as_bytes()).is_ok() {}
            // The rest of the question may come after its beginning: only the end of the connection says that the client has left.
            while socket.read(&mut [0; 4_096]).is_ok_and(|length| length > 0) {}
        });
        let answer = server.post::<Vec<u64>>("/x", &[("query", "up")], most);
        sender.join().unwrap();
        answer.unwrap_err()
    }

    #[test]
    fn an_answer_without_an_end_is_not_read_and_one_that_does_not_begin_is_not_awaited() {
        let most = Most { first: Duration::from_secs(60), body: Duration::from_secs(60), bytes: 100_000 };
        let endless = asked("HTTP/1.1 200 OK\r\n\r\n[1", ",1,1,1,1,1,1", most).to_string();
        assert!(endless.contains("has more than 100000 bytes"), "{endless}");
        let silent = asked("", "", Most { first: Duration::from_millis(50), ..most }).to_string();
        assert!(silent.contains("no answer from http://") && silent.contains(" within 0 s"), "{silent}");
    }

    #[test]
    fn a_refusal_of_several_lines_is_one_line() {
        let text =
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 30\r\n\r\n{\"error\":\"a\\nkhz: b\\u001b[2J\"}";
        let most = Most { first: Duration::from_secs(60), body: Duration::from_secs(60), bytes: 1_000 };
        assert_eq!(asked(text, "", most).to_string(), "a; khz: b?[2J");
    }

    #[test]
    fn https_needs_a_ca() {
        let error = Server::new("https://a", None, None).unwrap_err().to_string();
        assert!(error.contains("--tls-ca"), "{error}");
    }

    #[test]
    fn a_token_goes_only_where_nobody_else_can_read_it() {
        let server = |url: &str| Server::new(url, None, None).unwrap();
        assert!(server("127.0.0.1:7070").may_see_token());
        assert!(!server("hub1:7070").may_see_token());
        assert!(!server("unix:/run/khz/hub.sock").may_see_token(), "the socket says who we are");
    }

    #[test]
    fn patterns_survive_the_address() {
        let pattern = Pattern::new("n[1-2]:net.rx_*[a%2Fb]").unwrap();
        assert_eq!(matches(&[pattern]), "match=n%5B1-2%5D%3Anet.rx_*%5Ba%252Fb%5D");
    }
}
