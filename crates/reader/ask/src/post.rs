//! Sends bytes to a server of somebody else, such as a receiver of remote write, and reads its answer within limits. It
//! follows no redirect: whoever answers at the address is whom a person has chosen.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use khz_trust::{ClientFiles, Protocol, TlsClient, explain_io, in_our_words};
use ureq::unversioned::resolver::DefaultResolver;

use crate::AskError;
use crate::address::Address;
use crate::transport::{Route, TlsFailed};

/// How long connecting may take.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);
/// What is read of the text that comes with a status: enough for a sentence.
const TEXT_BYTES_MAX: u64 = 1_024;

/// A place that takes bytes.
pub struct Post {
    url: String,
    is_private: bool,
    tls: Option<TlsClient>,
    config: ureq::config::Config,
    /// Keeps its connection open between two requests.
    agent: ureq::Agent,
}

/// What the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAnswer {
    /// The HTTP status.
    pub status: u16,
    /// For how long it wants to be left alone.
    pub retry_after: Option<Duration>,
    /// The first line of its text, as it came.
    pub text: String,
}

impl Post {
    /// A place at this URL, with its path. An answer that takes longer than `wait` is none.
    pub fn new(url: &str, files: Option<ClientFiles>, wait: Duration) -> Result<Self, AskError> {
        let host_at = url.find("://").map_or(0, |at| at + 3);
        let path_at = url[host_at..].find('/').map_or(url.len(), |at| host_at + at);
        let address = Address::read(&url[..path_at])?;
        let path = &url[path_at..];
        if path.contains(['#', ' ']) || path.contains(char::is_control) {
            return Err(AskError::Address(format!("'{path}' is not the path of an address")));
        }
        let tls = match (address.is_tls, files) {
            (false, _) => None,
            (true, None) => return Err(AskError::NoCa),
            (true, Some(files)) => Some(TlsClient::load(files, Protocol::Http)?),
        };
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_WAIT_MAX))
            .timeout_global(Some(wait))
            .user_agent(concat!("khz/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = match &tls {
            None => ureq::Agent::new_with_config(config.clone()),
            Some(tls) => over_tls(&config, tls),
        };
        let is_private = address.is_tls || address.is_loopback();
        Ok(Post { url: format!("{}{path}", address.url), is_private, tls, config, agent })
    }

    /// True where nobody between us and the server can read what we send.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// Sends bytes with these headers.
    pub fn send(&mut self, headers: &[(&str, &str)], bytes: &[u8]) -> Result<PostAnswer, AskError> {
        // Certificates may have been renewed; if they cannot be read, the old ones go on.
        if let Some(tls) = self.tls.as_ref().filter(|tls| tls.refresh().unwrap_or(false)) {
            self.agent = over_tls(&self.config, tls);
        }
        let mut request = self.agent.post(&self.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send(bytes).map_err(|error| self.unanswered(error))?;
        let status = response.status().as_u16();
        let after = response.headers().get("Retry-After").and_then(|value| value.to_str().ok()?.parse().ok());
        let mut text = Vec::new();
        // A text that breaks off is as good as none.
        let body = response.into_body().into_with_config().limit(TEXT_BYTES_MAX * 64).reader();
        let _ = body.take(TEXT_BYTES_MAX).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let text =
            khz_model::printable::printable(text.lines().next().unwrap_or_default().trim()).into_owned();
        Ok(PostAnswer { status, retry_after: after.map(Duration::from_secs), text })
    }

    fn unanswered(&self, error: ureq::Error) -> AskError {
        let url = self.url.clone();
        let tls_failed = match &error {
            ureq::Error::Other(error) => error.downcast_ref::<TlsFailed>(),
            ureq::Error::Io(error) => error.get_ref().and_then(|error| error.downcast_ref()),
            _ => None,
        };
        if let Some(TlsFailed(problem)) = tls_failed {
            return AskError::Tls { url, problem: problem.clone() };
        }
        let reason = match error {
            ureq::Error::Io(error) => explain_io(&error),
            ureq::Error::Timeout(_) => "it does not answer in time".to_owned(),
            other => in_our_words(&other).to_string(),
        };
        AskError::Unanswered { url, reason }
    }
}

/// An agent whose connections have these certificates.
fn over_tls(config: &ureq::config::Config, tls: &TlsClient) -> ureq::Agent {
    let route = Route::Tls(Arc::clone(&tls.config()), None);
    ureq::Agent::with_parts(config.clone(), route, DefaultResolver::default())
}
