//! What an agent's end of the link needs of the node: its lanes, their rings, and somebody who answers interests.
//! Behind it stand real rings, or a test's.

use std::sync::Arc;

use khz_model::Nanos;

use crate::message::InterestFrame;
use crate::texts::ReadFrame;

/// The bytes are not in the ring any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overtaken;

/// One lane of this node and its ring. Positions are offsets in the stream of everything ever written to the ring.
pub trait Lane {
    /// Tells it from every other lane of this process, past and present.
    fn id(&self) -> u64;
    /// Its name.
    fn name(&self) -> &str;
    /// Random when its ring was created.
    fn epoch(&self) -> u64;
    /// Generation of the schema that the writer uses now.
    fn generation(&self) -> u32;
    /// Present period.
    fn period(&self) -> Nanos;
    /// The number of the newest Now that the rows up to head answer; 0: none.
    fn answered(&self) -> u32 {
        0
    }
    /// Bytes ever written; what is before is complete.
    fn head(&self) -> u64;
    /// Where the oldest block begins.
    fn oldest(&self) -> u64;
    /// Where the newest block begins.
    fn newest(&self) -> u64;
    /// Appends the bytes from `from` up to head, at most `most`, to `out`; tells how many.
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken>;
    /// Bytes of a generation's schema; `None`: it is not there any more.
    fn schema_bytes(&self, generation: u32) -> Option<u64>;
    /// Appends a generation's schema from `from` on, at most `most` bytes, to `out`; tells how many.
    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize>;
}

/// Sends rows that were written just now.
pub type Carrier = dyn Fn() + Send + Sync;

/// What became of an interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The asker's number.
    pub interest: u32,
    /// [`Lane::id`] of the lane that serves it; `None`: refused.
    pub lane: Option<u64>,
    /// At this period.
    pub period: Nanos,
    /// Why refused or slower; may be empty.
    pub text: String,
}

/// All lanes of this node.
pub trait Lanes {
    /// One of them.
    type Lane: Lane;
    /// Another number when a lane came, went, or changed in anything but its rows. Asked at every flush.
    fn revision(&self) -> u64;
    /// The lanes that there are now.
    fn list(&self, each: &mut dyn FnMut(Self::Lane));
    /// The peer wants rows; an [`Answer`] follows. It asks at most [`crate::limits::INTERESTS_MAX`] at a time.
    fn ask(&mut self, interest: &InterestFrame<'_>);
    /// The peer does not want them any more, or is gone.
    fn dismiss(&mut self, number: u32);
    /// Whether the lane with this id is wanted row by row: then somebody must see to it that every row is followed by
    /// a poll.
    fn prompt(&mut self, lane: u64, wanted: bool) {
        let _ = (lane, wanted);
    }
    /// Rows of prompt lanes are sent by calling this, on the thread that has written them and once for all rows of that
    /// moment: that thread is awake anyway. It never waits.
    fn carrier(&mut self, carrier: Arc<Carrier>) {
        let _ = carrier;
    }
    /// The lane with this id is flushed along with its rows, as often as that is due; `true`: the carrier is called at
    /// every row of it, until [`Lanes::prompt`] says something else. It may be called in vain.
    fn carry(&mut self, lane: u64) -> bool {
        let _ = lane;
        false
    }
    /// The peer wants a row of this interest's lane now; [`Lane::answered`] says when it is there.
    fn now(&mut self, interest: u32, ask: u32) {
        let _ = (interest, ask);
    }
    /// True where kernel texts can be had; else every wish for one is refused.
    fn has_texts(&self) -> bool {
        false
    }
    /// The peer wants to see a kernel file, at most [`crate::limits::TEXTS_MAX`] at a time; the same number again: at another
    /// pace.
    fn read(&mut self, wish: &ReadFrame<'_>) {
        let _ = wish;
    }
    /// The peer wants a file that it wants already to be read at once; a TextGiven with this number follows what that brings.
    fn text_now(&mut self, number: u32, ask: u32) {
        let _ = (number, ask);
    }
    /// The peer does not want it any more, or is gone.
    fn unread(&mut self, number: u32) {
        let _ = number;
    }
    /// Says the next piece of a text that is ready, or why there is none; `false`: there is nothing to say.
    fn say_text(&mut self, out: &mut Vec<u8>) -> bool {
        let _ = out;
        false
    }
    /// The next answer that is ready.
    fn answer(&mut self) -> Option<Answer>;
}
