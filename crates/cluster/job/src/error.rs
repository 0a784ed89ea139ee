//! What is wrong with a job, or with the log.

use std::path::PathBuf;

use khz_state::StateError;

/// Why a job is not started or ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JobError {
    /// The id is none.
    #[error(
        "'{shown}' is no id of a job: {problem}; an id has 1 to {max} letters, digits and . _ - + @ [ ]",
        max = crate::limits::ID_BYTES_MAX
    )]
    Id {
        /// The id, as it can be printed.
        shown: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The nodes are none.
    #[error("the nodes of job {id}: {problem}")]
    Nodes {
        /// The job.
        id: String,
        /// What is wrong.
        problem: String,
    },
    /// A running job gets a second alias.
    #[error("job {id} has the alias {alias} already, and a job has one: leave --alias out")]
    Alias {
        /// The job.
        id: String,
        /// Its alias.
        alias: String,
    },
    /// A time is none at which a job runs.
    #[error("{0} ms is before 1970: times are milliseconds since then")]
    Time(i64),
    /// The request is not what it must be.
    #[error("{0}")]
    Unreadable(String),
    /// Nobody has started such a job.
    #[error(
        "no job {0} has been started (`khz job list` has all); if it ran, start it first: khz job start {0} --nodes HOSTLIST"
    )]
    Unknown(String),
    /// A job of that name is not in the list.
    #[error("there is no job {0}; `khz job list` has all")]
    NotThere(String),
    /// The log cannot be written; the change is not made.
    #[error("the log of jobs cannot be written, so nothing is changed: {0}")]
    NotLogged(String),
    /// The log cannot be used.
    #[error("cannot {what} {path}: {problem}", path = path.display())]
    Log {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        problem: String,
    },
    /// The state directory cannot be used.
    #[error("{0}")]
    State(String),
}

impl From<StateError> for JobError {
    fn from(error: StateError) -> Self {
        JobError::State(error.to_string())
    }
}
