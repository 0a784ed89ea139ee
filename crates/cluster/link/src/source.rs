//! What an agent's end of the link needs from its node: lanes with their rings, and answers to Interests. The agent
//! implements this with real rings, and tests with test rings.

use std::sync::Arc;

use khz_model::Nanos;

use crate::freeze::Frozen;
use crate::frozen::Order;
use crate::message::InterestFrame;
use crate::texts::ReadFrame;

/// The ring no longer has the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overtaken;

/// One lane of this node and its ring. Positions are offsets in the stream of everything ever written to the ring.
pub trait Lane {
    /// An id that no other lane of this process has or had.
    fn id(&self) -> u64;
    /// Its name.
    fn name(&self) -> &str;
    /// Random when its ring was created.
    fn epoch(&self) -> u64;
    /// Generation of the schema that the writer uses now.
    fn generation(&self) -> u32;
    /// The period.
    fn period(&self) -> Nanos;
    /// True if a row comes in every period. A channel may have no rows for days; its rows are sent in order.
    fn is_regular(&self) -> bool {
        true
    }
    /// The number of the freeze that keeps these blocks; `None`: it is a lane with a ring.
    fn freeze(&self) -> Option<u64> {
        None
    }
    /// The newest Now that the rows up to head answer; 0: none.
    fn answered(&self) -> u32 {
        0
    }
    /// Bytes ever written; rows before it are complete.
    fn head(&self) -> u64;
    /// Where the oldest block begins.
    fn oldest(&self) -> u64;
    /// Where the newest block begins.
    fn newest(&self) -> u64;
    /// Appends the bytes from `from` up to head, at most `most`, to `out`. Returns how many.
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken>;
    /// Bytes of a generation's schema; `None`: the ring no longer has it.
    fn schema_bytes(&self, generation: u32) -> Option<u64>;
    /// Appends a generation's schema from `from` on, at most `most` bytes, to `out`. Returns how many.
    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize>;
}

/// Sends rows that were written just now.
pub type Carrier = dyn Fn() + Send + Sync;

/// The answer to an Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The peer's number for it.
    pub interest: u32,
    /// [`Lane::id`] of the lane that serves it; `None`: refused.
    pub lane: Option<u64>,
    /// At this period.
    pub period: Nanos,
    /// Why refused or slower; may be empty.
    pub text: String,
}

/// Copies the rows that have come for a freeze that goes on, if that is due. Returns when to call
/// it again.
pub(crate) fn tend_frozen(lanes: &mut impl Lanes, now: Nanos) -> Option<Nanos> {
    if lanes.frozen_due().is_some_and(|due| now >= due) {
        lanes.keep_frozen(now);
    }
    lanes.frozen_due()
}

/// All lanes of this node.
pub trait Lanes {
    /// One of them.
    type Lane: Lane;
    /// Changes when a lane came or went, or when a lane changed in anything but its rows. Called at
    /// every flush.
    fn revision(&self) -> u64;
    /// The present lanes.
    fn list(&self, each: &mut dyn FnMut(Self::Lane));
    /// The peer requests rows; an [`Answer`] follows. There are at most [`crate::limits::INTERESTS_MAX`] at a time.
    fn ask(&mut self, interest: &InterestFrame<'_>);
    /// True if an Interest that was refused may be granted now. Then the next call of `answer` comes from the link's own thread: to
    /// grant it, `answer` may wait for the thread that writes rows, as `ask` does.
    fn may_grant(&self) -> bool {
        false
    }
    /// The peer no longer requests these rows, or is gone.
    fn dismiss(&mut self, number: u32);
    /// The connection has ended, and before it all its Interests. The next one may come much later.
    fn hang_up(&mut self) {}
    /// Whether the lane with this id is prompt: if so, a poll must follow every row.
    fn prompt(&mut self, lane: u64, wanted: bool) {
        let _ = (lane, wanted);
    }
    /// Sends rows of prompt lanes. The thread that has written the rows calls it, once for all rows of a tick: it is awake
    /// anyway. The call never waits.
    fn carrier(&mut self, carrier: Arc<Carrier>) {
        let _ = carrier;
    }
    /// Requests that the carrier is called at every row of the lane with this id, which is flushed along with its rows. `true`:
    /// the carrier is called until [`Lanes::prompt`] is called. Unnecessary calls do no harm.
    fn carry(&mut self, lane: u64) -> bool {
        let _ = lane;
        false
    }
    /// The peer requests a row of this Interest's lane now; [`Lane::answered`] reports when the ring has it.
    fn now(&mut self, interest: u32, ask: u32) {
        let _ = (interest, ask);
    }
    /// True if this node serves kernel texts; if not, every Read is refused.
    fn has_texts(&self) -> bool {
        false
    }
    /// The peer subscribes to a kernel file; the same number again changes the period. There are at most
    /// [`crate::limits::TEXTS_MAX`] at a time.
    fn read(&mut self, read: &ReadFrame<'_>) {
        let _ = read;
    }
    /// The peer requests that the file of a subscription is read now. A TextGiven with this number follows the text.
    fn text_now(&mut self, number: u32, ask: u32) {
        let _ = (number, ask);
    }
    /// The peer ends the subscription, or is gone.
    fn unread(&mut self, number: u32) {
        let _ = number;
    }
    /// Sends the next piece of a text that is ready, or the reason why there is none. `false`: there is nothing to send.
    fn say_text(&mut self, out: &mut Vec<u8>) -> bool {
        let _ = out;
        false
    }
    /// The hub asks to keep the rows of this time. A Frozen follows. Called by the link's own thread.
    fn freeze(&mut self, order: Order, now: Nanos) {
        let _ = (order, now);
    }
    /// The hub no longer needs the rows of this freeze.
    fn thaw(&mut self, number: u64) {
        let _ = number;
    }
    /// Copies the rows that have come since for a freeze that goes on. Called by the link's own
    /// thread.
    fn keep_frozen(&mut self, now: Nanos) {
        let _ = now;
    }
    /// When to call [`Lanes::keep_frozen`] next; `None`: no freeze goes on. During a freeze, only the link's own thread
    /// sends.
    fn frozen_due(&self) -> Option<Nanos> {
        None
    }
    /// The next Frozen that is ready.
    fn frozen(&mut self) -> Option<Frozen> {
        None
    }
    /// The next answer that is ready.
    fn answer(&mut self) -> Option<Answer>;
}
