//! When a connection sends. Every lane has an interval, and the fastest lane that is sent sets the pace. Each node has its
//! own phase in it, so that nodes sample together but do not send together.

use khz_model::Nanos;

/// A lane is flushed at ten rows or 100 ms, whichever is later, and at least once a second.
const ROWS: u64 = 10;
const SHORTEST: Nanos = Nanos::from_millis(100);
/// The longest interval; a connection without lanes beats at it.
pub(crate) const LONGEST: Nanos = Nanos::SECOND;

/// If the rows of a lane are this close together, the thread that writes rows flushes the lane when it writes a row. Nodes
/// that gather at the same moment still send at ten different moments or more.
pub(crate) const CARRIED: Nanos = Nanos::from_millis(10);
/// If the thread that writes rows has not sent a flush within the time of two rows, the link's thread wakes up and sends it.
pub(crate) const CARRIED_LATE: Nanos = Nanos(2 * CARRIED.0);

/// Time between two flushes of a lane.
pub(crate) fn interval(period: Nanos) -> Nanos {
    Nanos(period.0.saturating_mul(ROWS).clamp(SHORTEST.0, LONGEST.0))
}

/// The phase in which a node sends: a number that follows from its name (FNV-1a).
pub(crate) fn phase(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// How long from `wall` (ns since 1970) to the next flush. It is never less than half the interval: otherwise
/// a clock that is set or slewed could cause two flushes in one interval.
pub(crate) fn wait(interval: Nanos, phase: u64, wall: i64) -> Nanos {
    let interval = interval.0.max(1);
    let within = (i128::from(wall) - i128::from(phase % interval)).rem_euclid(interval.into()) as u64;
    let rest = interval - within;
    Nanos(if rest < interval / 2 { rest + interval } else { rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_ten_rows_a_tenth_of_a_second_at_least_and_a_second_at_most() {
        let millis = |hz: u64| interval(Nanos(1_000_000_000 / hz)).0 / 1_000_000;
        assert_eq!([1, 10, 50, 100, 1_000].map(millis), [1_000, 1_000, 200, 100, 100]);
        assert_eq!(interval(Nanos(u64::MAX)), LONGEST);
    }

    #[test]
    fn a_node_flushes_at_its_phase_again_and_again() {
        let (interval, phase) = (Nanos::SECOND, phase("node17"));
        let mut wall = 1_700_000_000_123_456_789;
        wall += wait(interval, phase, wall).0 as i64;
        for _ in 0..5 {
            // It wakes up a little late, and keeps its phase.
            let late = wait(interval, phase, wall + 300_000);
            assert_eq!(late.0, 1_000_000_000 - 300_000);
            wall += 1_000_000_000;
        }
    }

    #[test]
    fn nodes_spread_over_the_whole_interval() {
        let mut tenths = [0u32; 10];
        for node in 0..1_000 {
            tenths[(phase(&format!("node{node:03}")) % 1_000_000_000 / 100_000_000) as usize] += 1;
        }
        assert!(tenths.iter().all(|&count| (50..200).contains(&count)), "{tenths:?}");
    }

    #[test]
    fn no_clock_makes_it_wait_longer_than_an_interval_and_a_half() {
        for wall in [i64::MIN, -1, 0, 1, i64::MAX] {
            let wait = wait(Nanos::SECOND, u64::MAX, wall).0;
            assert!((500_000_000..=1_500_000_000).contains(&wait), "{wait}");
        }
    }
}
