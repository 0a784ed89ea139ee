//! Prints the frames of a simulation, to find the cause of a failure: `KHZ_HUB_TRACE=n0` shows the frames to and from peers
//! whose names contain `n0`; an empty value shows all frames. Off by default.

use khz_block::{HEADER_BYTES, Header};
use khz_link::Frame;
use khz_link::frame::split;
use khz_link::limits::FRAME_MAX;
use khz_model::Nanos;

/// Shows whole frames on their way from one to the other.
#[derive(Debug, Default)]
pub struct Trace {
    /// `n0 -> hub1`; `None`: nobody wants to see these.
    way: Option<String>,
}

impl Trace {
    /// Of what goes this way.
    pub fn of(from: &str, to: &str) -> Self {
        let wanted = std::env::var("KHZ_HUB_TRACE").ok();
        let is_wanted = |wanted: String| [from, to].iter().any(|name| name.contains(&wanted));
        Trace { way: wanted.is_some_and(is_wanted).then(|| format!("{from} -> {to}")) }
    }

    /// These are said now.
    pub fn show(&self, mut bytes: &[u8], now: Nanos) {
        let Some(way) = &self.way else { return };
        while let Ok(Some(raw)) = split(bytes, FRAME_MAX) {
            bytes = &bytes[raw.length..];
            let text = Frame::decode(raw.kind, raw.body).map_or_else(|error| error.to_string(), describe);
            println!("{} {way}: {text}", now.0 / 1_000_000);
        }
    }
}

/// Shows the rows of blocks, not their bytes.
fn describe(frame: Frame<'_>) -> String {
    let header = |bytes: &[u8]| bytes.first_chunk::<HEADER_BYTES>().map(|head| Header::from_bytes(head, 0));
    match frame {
        Frame::Block { lane, bytes } => format!("Block {{ lane: {lane} }} {:?}", header(bytes)),
        Frame::Past { lane, bytes, .. } => format!("Past {{ lane: {lane} }} {:?}", header(bytes)),
        Frame::Rows { lane, bytes } => format!("Rows {{ lane: {lane} }} {} bytes", bytes.len()),
        Frame::Schema(piece) => format!("Schema {{ lane: {} }} {} bytes", piece.lane, piece.bytes.len()),
        other => format!("{other:?}"),
    }
}
