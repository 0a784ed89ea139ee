//! Why the configured actions cannot be used.

use std::path::PathBuf;

use khz_state::StateError;

/// Why the actions cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// There are more actions than the allowed number of threads.
    #[error("there are {0} actions, and at most {max}: leave some out", max = crate::limits::ACTIONS_MAX)]
    TooMany(usize),
    /// The audit log cannot be used. Without it nothing is done.
    #[error("cannot {what} {path}, and without a log nothing is done: {source}", path = path.display())]
    Log {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The kernel gives no thread.
    #[error("cannot start the thread of action '{name}': {source}")]
    Thread {
        /// The action.
        name: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}
