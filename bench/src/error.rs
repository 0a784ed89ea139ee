//! What can fail in a benchmark; each variant names what was tried.

use std::path::PathBuf;

/// Why a benchmark ended early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A program could not be started or ended badly.
    #[error("{program} did not run: {problem}")]
    Program {
        /// The program and what it was to do.
        program: String,
        /// What happened.
        problem: String,
    },
    /// A system call failed.
    #[error("{call}: {source}")]
    Call {
        /// The call and its object.
        call: String,
        /// The operating system's answer.
        source: rustix::io::Errno,
    },
    /// A reference gave something unexpected.
    #[error("unexpected answer: {0}")]
    Reply(String),
    /// The command line cannot be understood.
    #[error("{0}")]
    Usage(String),
}

impl BenchError {
    /// Wraps the failure of a file operation.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> BenchError {
        let path = path.into();
        move |source| BenchError::File { path, source }
    }

    /// Wraps the failure of a system call.
    pub fn call<'a>(call: impl std::fmt::Display + 'a) -> impl FnOnce(rustix::io::Errno) -> BenchError + 'a {
        // Formats the text only on failure: this call is in measured loops.
        move |source| BenchError::Call { call: call.to_string(), source }
    }
}
