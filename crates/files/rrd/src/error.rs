//! The crate's one error type. Its texts keep rrdtool's wording, which programs parse.

use std::path::PathBuf;

/// Why an operation on an `.rrd` file failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused; the text is rrdtool's (`opening 'x': No such file or directory`).
    #[error("{action} '{}': {}", crate::text::name(path), os_text(source))]
    Io {
        /// What was tried, as a participle.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file's bytes are not a usable `.rrd` file.
    #[error("{what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The request itself was wrong or not possible; the text is rrdtool's own where it has one.
    #[error("{0}")]
    Refused(String),
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Shorthand for [`Error::Refused`].
pub fn refused<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Refused(text.into()))
}

/// The system's message without Rust's ` (os error 2)`.
pub fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(cut) => text[..cut].to_string(),
        None => text,
    }
}

impl Error {
    /// Path and byte offset of damage, for messages that may say more than rrdtool's.
    pub fn place(&self) -> Option<(&std::path::Path, u64)> {
        match self {
            Self::Damaged { path, offset, .. } => Some((path, *offset)),
            _ => None,
        }
    }

    /// Whether a file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// An I/O failure with its action and path.
    pub fn io(action: &'static str, path: impl crate::text::Named, source: std::io::Error) -> Self {
        Self::Io { action, path: path.path(), source }
    }
}
