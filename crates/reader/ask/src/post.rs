//! Sends bytes to a server of somebody else, such as a receiver of remote write, and reads its answer within limits.

use std::io::Read;
use std::time::Duration;

use khz_trust::ClientFiles;
use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;

use crate::address::Address;
use crate::foreign::{CONNECT_WAIT_MAX, Foreign, without_secrets};
use crate::{AskError, sentence};

/// What is read of the text that comes with a status: enough for a sentence.
const TEXT_BYTES_MAX: u64 = 1_024;
/// Characters of it that are shown: it comes into logs, again and again. What cannot be printed takes several.
const TEXT_CHARS_MAX: usize = 300;

/// No answer came.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct NoAnswer {
    /// Why, as a sentence.
    pub problem: String,
    /// The server may have the bytes, and may have acted on them.
    pub may_have_arrived: bool,
}

impl NoAnswer {
    /// Nothing was sent.
    pub(crate) fn before(problem: String) -> Self {
        NoAnswer { problem, may_have_arrived: false }
    }
}

/// A place that takes bytes.
pub struct Post(Foreign);

/// What the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAnswer {
    /// The HTTP status.
    pub status: u16,
    /// For how long it wants to be left alone.
    pub retry_after: Option<Duration>,
    /// The first line of its text, without secrets that it was shown.
    pub text: String,
}

impl Post {
    /// A place at this URL, with its path. An answer that takes longer than `wait` is none.
    pub fn new(url: &str, files: Option<ClientFiles>, wait: Duration) -> Result<Self, AskError> {
        let host_at = url.find("://").map_or(0, |at| at + 3);
        let path_at = url[host_at..].find('/').map_or(url.len(), |at| host_at + at);
        let path = &url[path_at..];
        if path.contains(['#', ' ']) || path.contains(char::is_control) {
            let shown = path.split(['?', '#']).next().unwrap_or_default();
            return Err(AskError::Address(format!("'{shown}' is not the path of an address")));
        }
        let address = Address::read(&url[..path_at])?;
        // Connecting ends before the whole time does: then it is known that nothing was sent.
        let connects = CONNECT_WAIT_MAX.min(wait * 3 / 4);
        let times = |config: ConfigBuilder<AgentScope>| {
            config.timeout_global(Some(wait)).timeout_connect(Some(connects))
        };
        Foreign::new(address, path, files, times).map(Post)
    }

    /// True where nobody between us and the server can read what we send.
    pub fn is_private(&self) -> bool {
        self.0.is_private
    }

    /// Sends bytes with these headers.
    pub fn send(&self, headers: &[(&str, &str)], bytes: &[u8]) -> Result<PostAnswer, NoAnswer> {
        let mut request = self.0.agent().post(&self.0.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send(bytes).map_err(|error| {
            let may_have_arrived = Foreign::may_have_arrived(&error);
            NoAnswer { problem: sentence(&self.0.unanswered(error)), may_have_arrived }
        })?;
        let status = response.status().as_u16();
        let after = response.headers().get("Retry-After").and_then(|value| value.to_str().ok()?.parse().ok());
        let mut text = Vec::new();
        // The status says it all: a text that breaks off, or takes too long, is as good as none.
        let body = response.into_body().into_with_config().limit(TEXT_BYTES_MAX * 64).reader();
        let _ = body.take(TEXT_BYTES_MAX).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let text =
            khz_model::printable::printable(text.lines().next().unwrap_or_default().trim()).into_owned();
        let text = short(&without_secrets(&text, &self.0.url, headers));
        Ok(PostAnswer { status, retry_after: after.map(Duration::from_secs), text })
    }
}

/// The beginning of a text; `...` where there is more.
fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(short("no"), "no");
        assert_eq!(short(&"é".repeat(TEXT_CHARS_MAX)).chars().count(), TEXT_CHARS_MAX);
        let cut = short(&"é".repeat(4_096));
        assert!(cut.ends_with("é...") && cut.chars().count() == TEXT_CHARS_MAX + 3);
    }
}
