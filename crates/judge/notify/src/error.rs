//! Why the configured ways to people cannot be used.

use khz_ask::AskError;
use khz_state::StateError;

/// Why the ways to people cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// There are more ways than the allowed number of threads.
    #[error("there are {0} ways to tell people, and at most {max}: leave some out", max = crate::limits::WAYS_MAX)]
    TooMany(usize),
    /// Two ways have one name.
    #[error("two ways are called '{0}': give one of them another name")]
    Twice(String),
    /// A server's address or the files of its TLS cannot be used.
    #[error("notify '{name}': {source}")]
    Server {
        /// The way.
        name: String,
        /// What is wrong.
        source: AskError,
    },
    /// Something else of a way cannot be used.
    #[error("notify '{name}': {problem}")]
    Way {
        /// The way.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// No way has this name.
    #[error("no way to tell people is called '{name}': there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The file that says what people were told cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}
