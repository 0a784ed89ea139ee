//! What can be wrong with files of keys and certificates. Every variant names the file.

use std::io;
use std::path::PathBuf;

use crate::moment::Moment;
use crate::token::TokenError;

/// Why keys or certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file is not there or cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file is there already.
    #[error("{path} is there already; --force overwrites it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Others can read a secret.
    #[error("{path} holds a secret and has mode {mode:04o}: others can read it; `chmod 600 {path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is larger than any of its kind.
    #[error("{path} has more than {limit} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit for files of its kind.
        limit: u64,
    },
    /// The file holds something else.
    #[error("{path}: {problem}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What was expected and what is there.
        problem: String,
    },
    /// The file holds no valid token.
    #[error("{path}: {problem}")]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: TokenError,
    },
    /// The key belongs to another certificate.
    #[error("{key} is not the key of {certificate}: they were not made together")]
    WrongKey {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Our own certificate is out of date.
    #[error("{path} expired on {since}; `khz certs` makes a new one")]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// When it ended.
        since: Moment,
    },
    /// Our own certificate is not yet valid, or this clock is wrong.
    #[error("{path} is valid from {from} on, and it is {now} here")]
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// When it begins.
        from: Moment,
        /// The time here.
        now: Moment,
    },
    /// TLS refused the settings.
    #[error("{path}: {problem}")]
    Tls {
        /// The file with the refused settings.
        path: PathBuf,
        /// What TLS said.
        problem: rustls::Error,
    },
    /// Not the name or address of a host.
    #[error("'{0}' is neither a host name nor an IP address")]
    ServerName(String),
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes")]
    Random,
}
