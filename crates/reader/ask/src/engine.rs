//! Another engine with Prometheus' HTTP interface, asked on behalf of clients: its answer comes as bytes, piece by piece, and
//! is never held whole. Says what is wrong with an answer that is none. Knows no query language.

use std::io::Read;
use std::time::Duration;

use khz_model::printable::printable;
use khz_trust::{ClientFiles, explain_io, in_our_words};
use serde::Deserialize;

use crate::AskError;
use crate::address::Address;
use crate::foreign::{Foreign, without_secrets};
use crate::server::percent_encoded;

/// The longest answer that is passed on: what a browser can still hold. Longer ones are a mistake in the question.
pub const ENGINE_ANSWER_BYTES_MAX: u64 = 256 << 20;
/// How long an answer that has begun may take: a long one, at a client that reads slowly.
const BODY_WAIT_MAX: Duration = Duration::from_secs(600);
/// What is read of an error: a sentence, and what engines put beside it.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// Characters of an error that are passed on.
const ERROR_CHARS_MAX: usize = 4_096;

/// Another engine.
pub struct Engine(Foreign);

/// How a question is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In the address.
    Get,
    /// As a form.
    Form,
}

/// An answer of success that has begun.
pub struct EngineAnswer {
    url: String,
    reader: Box<dyn Read + Send + Sync>,
    bytes: u64,
}

impl Engine {
    /// The engine at this URL, which may have a path. An answer that has not begun after `wait` is none.
    ///
    /// # Errors
    /// [`AskError::Address`], [`AskError::NoCa`] or [`AskError::Files`]; nothing is asked.
    pub fn new(url: &str, files: Option<ClientFiles>, wait: Duration) -> Result<Self, AskError> {
        let waits = |config: ureq::config::ConfigBuilder<ureq::typestate::AgentScope>| {
            config
                .timeout_send_request(Some(wait))
                .timeout_send_body(Some(wait))
                .timeout_recv_response(Some(wait))
                .timeout_recv_body(Some(BODY_WAIT_MAX))
        };
        Foreign::new(Address::of_engine(url)?, "", files, waits).map(Engine)
    }

    /// Its address. It has no secret: such an address is refused.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Asks: `path` is below the engine's own and is sent as it is; the parameters are encoded here.
    ///
    /// # Errors
    /// [`AskError::Engine`] where the engine answers with an error of its own; otherwise why there is no answer.
    pub fn ask(
        &self,
        way: Way,
        path: &str,
        pairs: &[(String, String)],
        headers: &[(&str, &str)],
    ) -> Result<EngineAnswer, AskError> {
        let pairs: Vec<String> = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", percent_encoded(name), percent_encoded(value)))
            .collect();
        let (agent, pairs, url) = (self.0.agent(), pairs.join("&"), format!("{}{path}", self.0.url));
        let sent = match way {
            Way::Form => {
                let mut request = agent.post(url);
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                request.header("Content-Type", "application/x-www-form-urlencoded").send(pairs)
            }
            Way::Get => {
                let mark = if pairs.is_empty() { "" } else { "?" };
                let mut request = agent.get(format!("{url}{mark}{pairs}"));
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                request.call()
            }
        };
        self.begun(sent.map_err(|error| self.0.unanswered(error))?).map_err(|error| match error {
            AskError::Engine { status, kind, text } => {
                AskError::Engine { status, kind, text: without_secrets(&text, &self.0.url, headers) }
            }
            other => other,
        })
    }

    /// The answer, if it is one.
    fn begun(&self, response: ureq::http::Response<ureq::Body>) -> Result<EngineAnswer, AskError> {
        let status = response.status().as_u16();
        match status {
            200..=299 => {}
            300..=399 => {
                return Err(self.strange(format!(
                    "it redirects (status {status}); write the other address into url of [engine]"
                )));
            }
            401 | 403 => {
                return Err(self.strange(format!(
                    "it refuses this khz (status {status}); see bearer, user and cert of [engine]"
                )));
            }
            _ => return Err(self.refusal(status, response)),
        }
        let kind = response.headers().get("Content-Type").and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(self.strange(format!(
                "its answer is no JSON but '{}'; is this the address of the engine, with its path?",
                printable(&kind.chars().take(100).collect::<String>())
            )));
        }
        if response.body().content_length().is_some_and(|length| length > ENGINE_ANSWER_BYTES_MAX) {
            return Err(too_long(&self.0.url));
        }
        // One byte more than it may have, so that a longer one is noticed.
        let reader = response.into_body().into_with_config().limit(ENGINE_ANSWER_BYTES_MAX + 1).reader();
        Ok(EngineAnswer { url: self.0.url.clone(), reader: Box::new(reader), bytes: 0 })
    }

    /// An error in Prometheus' form, as the engine says it.
    fn refusal(&self, status: u16, response: ureq::http::Response<ureq::Body>) -> AskError {
        #[derive(Deserialize)]
        struct Refusal {
            #[serde(default, rename = "errorType")]
            kind: String,
            error: String,
        }
        let body = response.into_body().into_with_config().limit(ERROR_BYTES_MAX).reader();
        match serde_json::from_reader::<_, Refusal>(body) {
            Ok(Refusal { kind, error }) => {
                AskError::Engine { status, kind, text: error.chars().take(ERROR_CHARS_MAX).collect() }
            }
            Err(_) => self.strange(format!("status {status}, without an error in JSON")),
        }
    }

    fn strange(&self, reason: String) -> AskError {
        AskError::Unanswered { url: self.0.url.clone(), reason }
    }
}

impl EngineAnswer {
    /// The next bytes: as many as there is room for, or fewer at the end; none after it.
    ///
    /// # Errors
    /// The answer broke off, or is too long.
    pub fn read(&mut self, room: &mut [u8]) -> Result<usize, AskError> {
        let mut filled = 0;
        while filled < room.len() {
            let count = self.reader.read(&mut room[filled..]).map_err(|error| self.broken(&error))?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        self.bytes += filled as u64;
        if self.bytes > ENGINE_ANSWER_BYTES_MAX {
            return Err(too_long(&self.url));
        }
        Ok(filled)
    }

    fn broken(&self, error: &std::io::Error) -> AskError {
        let reason = match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
            Some(ureq::Error::Timeout(_)) => "it stopped in the middle".to_owned(),
            Some(other) => in_our_words(other).to_string(),
            None => explain_io(error),
        };
        AskError::Unanswered { url: self.url.clone(), reason: format!("its answer broke off: {reason}") }
    }
}

fn too_long(url: &str) -> AskError {
    let reason = format!(
        "its answer has more than {} MiB; ask for fewer series or a larger step",
        ENGINE_ANSWER_BYTES_MAX >> 20
    );
    AskError::Unanswered { url: url.to_owned(), reason }
}
