//! When a file is due to be written; writes nothing.
//!
//! A file is due when its oldest sample has waited for the timeout. With a delay, each file has its own moment in a
//! period of timeout and delay together, and is due when that has come since its oldest sample: after the first period
//! all rounds are alike, whatever happened at the same time before (a start, a flush). A delay drawn for each write
//! would keep what began together in a crowd for hours.
//!
//! One whose write would finish a coarse row (half an hour, two hours, a day) touches twice or thrice the pages of an
//! ordinary one, and all files do so at the same minute; so such a file waits a while longer, each its own, and what
//! it gathers meanwhile is written along.

use crate::nodes::{Flags, Id};
use crate::pending::{Limits, Pending};
use crate::state::State;

/// A number that looks random, the same for the same.
fn mixed(of: u64) -> u64 {
    let mixed = (of ^ of >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
}

/// Whether what waits since `since` has waited long enough.
fn has_waited(limits: Limits, id: Id, since: u32, now: u32) -> bool {
    if limits.delay == 0 {
        return now.saturating_sub(since) >= limits.timeout;
    }
    let period = u64::from(limits.timeout) + u64::from(limits.delay);
    let moment = mixed(u64::from(id) << 32) % period;
    // Moments up to a time; counted from a period back, so that nothing goes below zero.
    let moments = |time: u64| (time + period - moment) / period;
    moments(u64::from(now)) > moments(u64::from(since).saturating_sub(1))
}

impl Limits {
    /// Seconds after which a file is written whatever its own moment is.
    pub(super) fn longest(self) -> u32 {
        self.timeout.saturating_add(self.delay).saturating_add(self.spread)
    }
}

impl Pending {
    /// Queues a file whose samples have waited long enough.
    pub(super) fn queue_if_due(&self, state: &mut State, id: Id, now: u32) {
        let node = &state.nodes[id];
        if node.is(Flags::QUEUED) || node.is(Flags::SUSPENDED) || node.count == 0 {
            return;
        }
        if has_waited(self.limits, id, node.since, now) && !self.spread_out(state, id) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_began_together_are_written_at_an_even_pace_from_the_first_period_on() {
        let limits = Limits { timeout: 600, delay: 600, ..Limits::default() };
        let mut since = vec![1u32; 12_000];
        for round in 1..=36u32 {
            let now = 1 + 100 * round;
            let due: Vec<usize> =
                (0..since.len()).filter(|id| has_waited(limits, *id as Id, since[*id], now)).collect();
            assert!((900..1100).contains(&due.len()), "round {round}: {}", due.len());
            // Its next sample comes in the next round.
            due.into_iter().for_each(|id| since[id] = now + 100);
        }
    }

    #[test]
    fn no_file_waits_longer_than_timeout_and_delay() {
        let limits = Limits { timeout: 50, delay: 10, ..Limits::default() };
        for id in 0..1000 {
            let since = 1 + id % 97;
            let waits = (0..).find(|waits| has_waited(limits, id, since, since + waits));
            assert!(waits.is_some_and(|waits| waits < 60), "{waits:?}");
        }
        let limits = Limits { delay: 0, ..limits };
        assert!(!has_waited(limits, 1, 10, 59) && has_waited(limits, 1, 10, 60));
    }
}
