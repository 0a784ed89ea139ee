//! Why a connection ended, as our side sees it.

use khz_model::Nanos;

use crate::message::Reason;

/// The peer sent something that its receiver does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// The reason sent to the peer.
    pub reason: Reason,
    /// The same for people.
    pub text: String,
}

impl Reject {
    /// The peer does not keep to the protocol.
    pub fn protocol(text: impl Into<String>) -> Self {
        Reject { reason: Reason::Protocol, text: text.into() }
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A frame longer than its place allows.
    #[error("a frame of {length} bytes; here it may have {limit}")]
    TooLarge {
        /// The length that it announces.
        length: u64,
        /// The limit.
        limit: usize,
    },
    /// A kind below 128 that no version has.
    #[error("a frame of unknown kind {kind}")]
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// A body that does not fit its kind.
    #[error("{frame}, byte {at} of its body: {problem}")]
    Damaged {
        /// The frame's name.
        frame: &'static str,
        /// Offset in the body.
        at: usize,
        /// What does not fit.
        problem: &'static str,
    },
    /// A frame that may not come from this peer, or not now.
    #[error("{frame} may not come here")]
    OutOfPlace {
        /// The frame's name.
        frame: &'static str,
    },
    /// The peer speaks none of our versions.
    #[error("it speaks version {lowest} to {highest} of the protocol; this program speaks 1 to 3")]
    Version {
        /// Its lowest.
        lowest: u8,
        /// Its highest.
        highest: u8,
    },
    /// We refused a frame of the peer.
    #[error("{}", .0.text)]
    Rejected(Reject),
    /// The peer refused us.
    #[error("refused: {text}")]
    Refused {
        /// Its reason.
        reason: Reason,
        /// Its text.
        text: String,
    },
    /// Nothing came for too long.
    #[error("silent for {} ms", .0.0 / 1_000_000)]
    Silent(Nanos),
    /// The connection ended before; the reason was returned then.
    #[error("the connection is over")]
    Over,
}
