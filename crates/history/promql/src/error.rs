//! Why a query has no answer.

/// Why a query has no answer; each kind has the name that Prometheus' HTTP API gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query, or a parameter, is wrong (`bad_data`).
    #[error("{0}")]
    Bad(String),
    /// The query cannot be evaluated with these samples, or is beyond a limit (`execution`).
    #[error("{0}")]
    Execution(String),
    /// It took too long (`timeout`).
    #[error("{0}")]
    Timeout(String),
    /// Nobody waits for the answer any more (`canceled`).
    #[error("the query was cancelled")]
    Cancelled,
    /// The samples cannot be read (`internal`).
    #[error("{0}")]
    Internal(String),
}

impl QueryError {
    /// The name of its kind in Prometheus' HTTP API.
    pub const fn kind(&self) -> &'static str {
        match self {
            QueryError::Bad(_) => "bad_data",
            QueryError::Execution(_) => "execution",
            QueryError::Timeout(_) => "timeout",
            QueryError::Cancelled => "canceled",
            QueryError::Internal(_) => "internal",
        }
    }
}
