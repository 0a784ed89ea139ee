//! When a file is due to be written; writes nothing.
//!
//! A file is due when its oldest sample has waited for the timeout. One whose write would finish a coarse row (half an
//! hour, two hours, a day) touches twice or thrice the pages of an ordinary one, and all files do so at the same
//! minute; so such a file waits a while longer, each its own, and what it gathers meanwhile is written along.

use super::nodes::{Flags, Id};
use super::pending::Pending;
use super::state::State;

/// A number that looks random, the same for the same.
fn mixed(of: u64) -> u64 {
    let mixed = (of ^ of >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
}

impl Pending {
    /// Queues a file whose samples have waited long enough.
    pub(super) fn queue_if_due(&self, state: &mut State, id: Id) {
        let node = &state.nodes[id];
        if node.is(Flags::QUEUED) || node.is(Flags::SUSPENDED) || node.count == 0 {
            return;
        }
        let jitter = match self.limits.delay {
            0 => 0,
            delay => mixed(u64::from(id) << 32 | u64::from(node.since)) as u32 % delay,
        };
        let waited = self.now().saturating_sub(node.since);
        if waited >= self.limits.timeout.saturating_add(jitter) && !self.spread_out(state, id) {
            self.enqueue(state, id);
        }
    }

    /// Whether a file that finishes a coarse row is to wait a while longer.
    fn spread_out(&self, state: &State, id: Id) -> bool {
        let node = &state.nodes[id];
        let coarse = state.shapes.get(usize::from(node.shape)).map_or(0, |shape| shape.coarse);
        let most = coarse.min(u64::from(self.limits.spread));
        let written = u64::from(node.written);
        let Some(boundary) = written.checked_div(coarse).map(|row| (row + 1) * coarse) else { return false };
        let last = u64::try_from(node.last / 1_000_000).unwrap_or(0);
        // Told by the samples' own time: a backlog is spread like live data.
        most > 0 && written > 0 && last >= boundary && last - boundary < mixed(u64::from(id)) % most
    }
}
