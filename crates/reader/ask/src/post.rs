//! Sends bytes to a server of somebody else, such as a receiver of remote write, and reads its answer within limits.

use std::io::Read;
use std::time::Duration;

use khz_trust::ClientFiles;

use crate::AskError;
use crate::address::Address;
use crate::foreign::{Foreign, without_secrets};

/// What is read of the text that comes with a status: enough for a sentence.
const TEXT_BYTES_MAX: u64 = 1_024;

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
        Foreign::new(address, path, files, |config| config.timeout_global(Some(wait))).map(Post)
    }

    /// True where nobody between us and the server can read what we send.
    pub fn is_private(&self) -> bool {
        self.0.is_private
    }

    /// Sends bytes with these headers.
    pub fn send(&self, headers: &[(&str, &str)], bytes: &[u8]) -> Result<PostAnswer, AskError> {
        let mut request = self.0.agent().post(&self.0.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send(bytes).map_err(|error| self.0.unanswered(error))?;
        let status = response.status().as_u16();
        let after = response.headers().get("Retry-After").and_then(|value| value.to_str().ok()?.parse().ok());
        let mut text = Vec::new();
        // A text that breaks off is as good as none.
        let body = response.into_body().into_with_config().limit(TEXT_BYTES_MAX * 64).reader();
        let _ = body.take(TEXT_BYTES_MAX).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let text =
            khz_model::printable::printable(text.lines().next().unwrap_or_default().trim()).into_owned();
        let text = without_secrets(text, headers);
        Ok(PostAnswer { status, retry_after: after.map(Duration::from_secs), text })
    }
}
