//! Another engine with Prometheus' interface, which answers queries instead of this door. What is here is what the door needs
//! of it; how the engine is reached, and what it is shown, is its owner's business.

/// A question, as a client asked it. It has nothing else of the client: no header, no address.
#[derive(Clone, Debug)]
pub struct Question {
    /// Below the engine's address: `/api/v1/query`.
    pub path: String,
    /// The parameters go as a form in the body, else in the address.
    pub is_form: bool,
    /// The parameters, not encoded.
    pub pairs: Vec<(String, String)>,
    /// The marks of those that have passed it on, and ours: what goes out in the header [`ASKED_BY`].
    pub asked_by: String,
}

/// The header of a question that a khz passes on to its engine: the marks of all that have done so, with commas between them. A khz that
/// finds its own would ask itself for ever.
pub const ASKED_BY: &str = "khz-asked-by";
/// Bytes of such a header: a chain of some khz, each of which asks the next one.
const ASKED_BY_BYTES_MAX: usize = 256;

/// What the header is to say when this question is passed on by the khz with this mark; `None`: it has passed it on before. What a client
/// has made up is left out.
pub(crate) fn passed_on(asked_by: Option<&[u8]>, mark: &str) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b',';
    let before = asked_by.filter(|bytes| bytes.iter().all(is_plain));
    let before = before.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    if before.len() > ASKED_BY_BYTES_MAX || before.split(',').any(|known| known == mark && !mark.is_empty()) {
        return None;
    }
    Some(if before.is_empty() { mark.to_owned() } else { format!("{before},{mark}") })
}

/// Another engine. Its calls block.
pub trait Engine: Send + Sync {
    /// Its address, without secrets: people see it.
    fn url(&self) -> &str;

    /// What no other khz puts into the header [`ASKED_BY`]: letters and digits.
    fn mark(&self) -> &str;

    /// Asks, and waits until the answer begins.
    ///
    /// # Errors
    /// Why there is no answer.
    fn ask(&self, question: &Question) -> Result<Box<dyn EngineAnswer>, EngineError>;
}

/// An answer of success that has begun.
pub trait EngineAnswer: Send {
    /// The next bytes: as many as there is room for; fewer only at the end.
    ///
    /// # Errors
    /// The answer broke off, or is too long.
    fn read(&mut self, room: &mut [u8]) -> Result<usize, EngineError>;
}

/// Why another engine gives no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// It says that the question is wrong, or too much.
    #[error("{text}")]
    Refused {
        /// Its status.
        status: u16,
        /// Its word for the kind of error.
        kind: String,
        /// Its sentence.
        text: String,
    },
    /// Not in time.
    #[error("{0}")]
    Late(String),
    /// It is not there, or what it says cannot be used.
    #[error("{0}")]
    Unusable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_passed_on_once_by_each_khz() {
        assert_eq!(passed_on(None, "a1").as_deref(), Some("a1"));
        assert_eq!(passed_on(Some(b"b2"), "a1").as_deref(), Some("b2,a1"));
        assert_eq!(passed_on(Some(b"b2,a1"), "a1"), None);
        assert_eq!(passed_on(Some(b"b2,a1,c3"), "a1"), None);
        assert_eq!(passed_on(Some("x\ty\u{e4}".as_bytes()), "a1").as_deref(), Some("a1"));
        assert_eq!(passed_on(Some("x".repeat(999).as_bytes()), "a1"), None);
    }
}
