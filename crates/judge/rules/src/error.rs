//! Why rules cannot be used.

use crate::finding::Findings;
use crate::limits::{FILES_MAX, STATE_READ_BYTES_MAX};

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// At least one file has errors: none of the set is used.
    #[error("{0}")]
    Refused(Findings),
    /// There is none.
    #[error("there is no rule file: they end in .yml, .yaml or .rules")]
    NoFile,
    /// There are too many files.
    #[error("there are more than {FILES_MAX} rule files, which is the limit: put more groups into one file")]
    TooManyFiles,
    /// The saved state cannot be used.
    #[error("the saved state of alerts cannot be used: {0}")]
    State(String),
    /// The saved state is too long.
    #[error("the saved state of alerts has {0} bytes, and may have {STATE_READ_BYTES_MAX}")]
    StateTooLong(usize),
}
