//! How much longer this machine is up than a node. Nobody sets the two boot clocks, so this difference stays the same. So it gives the
//! time of a row on our clock, even if somebody set a wall clock, the node's or ours, before or after that.

use khz_model::{Nanos, Stamp};

/// A row this old, or older, may be from before the node's clock was set, and the measurement from after that.
const ROW_OLD: i64 = 2_000_000_000;
/// A row may look as if it came from the future by this much: a round trip is not measured exactly.
const ROW_AHEAD: i64 = 500_000_000;

/// Our time since boot minus the node's, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UpLonger(Option<i64>);

impl UpLonger {
    /// The node's wall clock was measured: it is `ahead` of ours, which shows `wall`. The node's newest row has the stamp `row`. If
    /// the row is from before the node's clock was set, or from after the measurement, it is not used.
    pub fn measured(&mut self, ahead: i64, row: Stamp, now: Nanos, wall: i64) {
        let nodes_wall = wall.saturating_add(ahead);
        let nodes_now = nodes_wall.saturating_sub(row.real_offset);
        let age = nodes_now.saturating_sub_unsigned(row.boot.0);
        if self.0.is_none() || (-ROW_AHEAD..ROW_OLD).contains(&age) {
            self.0 = Some((now.0.cast_signed()).saturating_sub(nodes_now));
        }
    }

    /// It; `None`: it was not measured yet.
    pub fn get(self) -> Option<i64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const WALL: i64 = 1_700_000_000_000_000_000;

    #[test]
    fn it_stays_when_a_clock_is_set_whichever_row_came_last() {
        // We are up for 5,000 s, the node for 100 s; its clock is 7 s ahead.
        let up = |now: u64| now - 4_900 * SECOND;
        let hour = 3_600 * SECOND as i64;
        for set in [-hour, hour, -3_000_000_000] {
            let mut up_longer = UpLonger::default();
            let mut now = 5_000 * SECOND;
            for beat in 0..40 {
                now += SECOND;
                let wall = WALL + now as i64;
                // The node's clock is set before the tenth beat, and until the twelfth the newest row is from
                // before the change.
                let ahead = 7 * SECOND as i64 + if beat >= 10 { set } else { 0 };
                let offset_of_row = |beat: i32| {
                    let ahead = 7 * SECOND as i64 + if beat >= 10 { set } else { 0 };
                    wall + ahead - up(now) as i64
                };
                let row_of = if (10..12).contains(&beat) { 9 } else { beat };
                let boot = Nanos(up(now) - 100_000_000 - (beat - row_of) as u64 * SECOND);
                up_longer.measured(
                    ahead,
                    Stamp { boot, real_offset: offset_of_row(row_of) },
                    Nanos(now),
                    wall,
                );
                assert_eq!(up_longer.get(), Some(4_900 * SECOND as i64), "beat {beat}, set by {set}");
            }
        }
    }

    #[test]
    fn the_first_measurement_counts_however_old_the_row_is_and_a_new_one_replaces_it() {
        let mut up_longer = UpLonger::default();
        assert_eq!(up_longer.get(), None);
        let row = |boot, real_offset| Stamp { boot: Nanos(boot), real_offset };
        up_longer.measured(0, row(0, WALL), Nanos(90), WALL + 60);
        assert_eq!(up_longer.get(), Some(30));
        up_longer.measured(0, row(0, WALL), Nanos(95), WALL + 60);
        assert_eq!(up_longer.get(), Some(35));
    }
}
