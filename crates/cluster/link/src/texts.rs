//! Kernel texts on a link: the files of a node's `/proc` that a reader subscribes to, and their texts as the kernel printed
//! them, each packed against the one before (`docs/link.md`, "Kernel texts"). It opens no file and knows no pattern.

mod frames;
mod intake;
mod listing;
mod packed;
mod sender;

pub use frames::{NoText, ReadFrame, TextGiven, TextPiece, Why};
pub use intake::{TextFault, TextIntake};
pub use listing::{ListedAs, ListingLine, is_text_path, lines};
pub use packed::{PackedText, pack};
pub use sender::TextSender;

pub(crate) use frames::{decode_no_text, decode_read, decode_text};
