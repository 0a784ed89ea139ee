//! Rows to bytes and back: the one format of ring, wire, trace and store. `docs/block.md` describes every
//! byte.
//!
//! Pure: no I/O, no clock. Foreign bytes give errors, and never take more memory than their header allows.

#![forbid(unsafe_code)]

mod decode;
mod encode;
mod front;
mod header;
mod label_cells;
#[cfg(feature = "zstd")]
pub mod packed;
mod pick;
mod run;
mod scan;
pub mod schema;
pub mod trace;
pub mod varint;
mod walk;

pub use decode::{Decoder, Step};
pub use encode::Encoder;
pub use header::{HEADER_BYTES, Header, ROW_MAX};
pub use pick::Picker;
pub use scan::{RowScanner, stamps};
pub use schema::{MetricPool, SchemaDecoder, SchemaEncoder};

/// The most bytes of labels in one row: a thousand CPUs with 250 bytes each.
pub const ROW_LABELS_MAX: usize = 256 << 10;
/// The largest body of a row: every slot of the largest schema restated, and the most labels.
pub const ROW_BYTES_MAX: usize = encode::row_bytes_max(khz_model::schema::SLOTS_MAX);

/// The reason why bytes are not a block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Neither a header nor a row begins here.
    #[error("byte {at}: {found:#04x} begins neither a block nor a row")]
    UnknownKind {
        /// The offset in the given bytes.
        at: usize,
        /// The byte found.
        found: u8,
    },
    /// Written by a newer format.
    #[error("byte {at}: block version {version}; this program reads up to 1")]
    UnknownVersion {
        /// The offset in the given bytes.
        at: usize,
        /// The version found.
        version: u8,
    },
    /// Written by a newer format.
    #[error("schema version {version}; this program reads version 1")]
    UnknownSchemaVersion {
        /// The version found.
        version: u8,
    },
    /// Written by a newer format.
    #[error("trace version {version}; this program reads version 1")]
    UnknownTraceVersion {
        /// The version found.
        version: u8,
    },
    /// A block cannot be packed or unpacked.
    #[error("{problem}")]
    Packed {
        /// What is wrong.
        problem: &'static str,
    },
    /// The block was packed with a dictionary that this program does not have.
    #[error("packed with dictionary {id}, which this program does not have")]
    UnknownDictionary {
        /// The dictionary's number.
        id: u32,
    },
    /// More of something than a named limit allows.
    #[error("byte {at}: more than {limit} {what}")]
    TooMuch {
        /// The offset: in the given bytes for a block, from the schema's start for a schema.
        at: usize,
        /// The thing that there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The bytes contradict themselves.
    #[error("byte {at}: {problem}")]
    Damaged {
        /// The offset in the given bytes.
        at: usize,
        /// What is wrong.
        problem: &'static str,
    },
}
