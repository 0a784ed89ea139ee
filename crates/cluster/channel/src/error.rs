//! Why a channel is refused, not changed, or not kept.

use std::io;
use std::path::PathBuf;

use khz_model::name::NameError;
use khz_model::{Rate, printable::printable};
use khz_state::StateError;
use khz_trust::READER_RATE_MAX_HZ;

use crate::limits::{CHANNELS_MAX, CHANNELS_OF_READERS_MAX, DEFINITION_BYTES, KEPT_MAX};

/// Why a channel is refused, not changed, or not kept.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A field of the definition is wrong.
    #[error("{field}: {problem}")]
    Field {
        /// The field, as it is written.
        field: &'static str,
        /// What is wrong with it, and where.
        problem: String,
    },
    /// The definition is no JSON object with these fields.
    #[error("the definition cannot be read: {0}")]
    Unreadable(String),
    /// The definition is too long.
    #[error("a definition has at most {DEFINITION_BYTES} bytes, and this one has {0}")]
    TooLong(usize),
    /// There is another channel of this name.
    #[error("there is another channel '{0}' already; `khz channel set` replaces it")]
    Exists(String),
    /// There is no channel of this name.
    #[error("there is no channel '{}'{}", printable(.0), did_you_mean(.1))]
    Unknown(String, Option<String>),
    /// There are too many channels.
    #[error(
        "there are {CHANNELS_MAX} channels already, which is the limit; remove one first (`khz channel rm`)"
    )]
    Full,
    /// Readers have too many channels.
    #[error(
        "readers have made {CHANNELS_OF_READERS_MAX} channels already, which is their limit; remove one first (`khz channel rm`)"
    )]
    ReadersFull,
    /// The rate is only for operators.
    #[error("rate: {0} is for operators: readers have at most {READER_RATE_MAX_HZ}Hz")]
    TooFast(Rate),
    /// The field is only for operators.
    #[error("{0}: this is for operators")]
    ForOperators(&'static str),
    /// The store keeps enough channels.
    #[error(
        "the store keeps {KEPT_MAX} channels already, which is the limit; remove one first (`khz channel rm`)"
    )]
    KeptFull,
    /// Other channels use it.
    #[error("channel '{0}' is used by {1}: change or remove these first")]
    Used(String, String),
    /// Another channel uses it, and could not do so any more.
    #[error("channel '{0}' uses it, and would be wrong then: {1}")]
    Breaks(String, Box<ChannelError>),
    /// An operator made it.
    #[error("channel '{0}' is an operator's: a reader cannot change or remove it")]
    OfOperator(String),
    /// An operator's channel uses it.
    #[error("channel '{0}' is used by an operator's ({1}): a reader cannot change it")]
    UsedByOperator(String, String),
    /// This role makes no channels.
    #[error("a {0} makes no channels: ask as a reader or as an operator")]
    NoMaker(khz_trust::Role),
    /// The file of channels cannot be used.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another khz keeps its channels there.
    #[error("another khz of this machine keeps its channels in {}; give this one another --state-dir", .0.display())]
    Shared(PathBuf),
}

fn did_you_mean(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default()
}

impl From<StateError> for ChannelError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::File { what, path, source } => ChannelError::File { what, path, source },
            StateError::Shared(path) => ChannelError::Shared(path),
        }
    }
}

impl ChannelError {
    /// A field with something wrong in it.
    pub(crate) fn field(field: &'static str, problem: impl ToString) -> Self {
        ChannelError::Field { field, problem: problem.to_string() }
    }

    /// A name or a pattern with something wrong in it.
    pub(crate) fn name(field: &'static str, error: &NameError) -> Self {
        let column = error.text.char_indices().take_while(|(at, _)| *at < error.at).count() + 1;
        ChannelError::field(
            field,
            format!("{} (column {column} of '{}')", error.problem, printable(&error.text)),
        )
    }
}
