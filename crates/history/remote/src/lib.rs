//! Remote write and remote read: how Prometheus and its relatives exchange samples, as protobuf in snappy. [`write`] sends samples
//! of the store to receivers; [`read`] answers requests of others. Nothing here opens a connection.
//!
//! Begin with [`message`], which has the messages. [`write::Feed`] makes requests of a store's rows.

#![forbid(unsafe_code)]

pub mod limits;
pub mod message;
mod read;
mod wire;
pub mod write;

pub use read::read;
pub use wire::{Packer, pack};

/// Why a message cannot be read or answered.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// More of something than a named limit allows.
    #[error("more than {limit} {what}")]
    TooMuch {
        /// The thing of which there is too much.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// It is not packed as it should be.
    #[error("this is not raw snappy: {0}")]
    Snappy(#[source] snap::Error),
    /// It ends within a field.
    #[error("the message ends within a field")]
    Truncated,
    /// A field of a kind that protobuf 3 does not have.
    #[error("the message has a field of kind {0}, which is not known")]
    Kind(u8),
    /// Another fault in it.
    #[error("this is not the message that it should be: {0}")]
    Message(#[from] prost::DecodeError),
    /// A question that cannot be meant.
    #[error("{0}")]
    Question(String),
    /// The samples cannot be read.
    #[error(transparent)]
    Query(#[from] khz_promql::QueryError),
}
