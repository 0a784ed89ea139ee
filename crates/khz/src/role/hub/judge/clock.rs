//! The time by which rules are judged, in ms since 1970. It is the wall clock, until somebody sets that and the rows of the nodes do not
//! go along: then it goes on as if nobody had set it, so that rules still find the rows, and alerts go on.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The wall clock was set if it moves so much more or less than the clock that nobody sets (ms).
const SET: i64 = 3_000;
/// For so long rows may come that were on their way when it was set (ms); then the log says what follows.
const SAID_AFTER: i64 = 5_000;
/// If no node is up for so long (ms), rules go by the wall clock.
const NO_NODES_MAX: i64 = 60_000;
/// How often rows are asked while the two differ (ms).
const ASKED_EVERY: i64 = 1_000;

static CLOCK: Mutex<Option<JudgeClock>> = Mutex::new(None);

/// Now, on the clock that nobody sets and on the one for rules (ms).
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub steady: i64,
    pub judged: i64,
}

/// Now, for rules.
pub fn now() -> i64 {
    both_now().judged
}

/// The same, beside the clock that nobody sets.
pub fn both_now() -> Now {
    let (steady, wall) = both();
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let judged = clock.get_or_insert_with(|| JudgeClock::new(steady, wall)).read(steady, wall);
    Now { steady, judged }
}

/// Now, as the machine says.
pub fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Goes by the wall clock again if the newest rows of nodes do; `rows`: their times (ms since 1970), which are asked for only after the
/// clock was set.
pub fn follow(rows: impl FnOnce() -> Vec<i64>) {
    let (steady, wall) = both();
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = clock.get_or_insert_with(|| JudgeClock::new(steady, wall));
    clock.read(steady, wall);
    if !clock.is_due(steady) {
        return;
    }
    let ahead = clock.ahead;
    match clock.follow(steady, wall, &rows()) {
        Followed::Nothing => {}
        Followed::Stays => {
            let (way, by) = (if ahead > 0 { "forward" } else { "back" }, ahead.abs() / 1_000);
            tracing::warn!(
                "the clock of this machine was set {way} by {by} s, and the rows of the nodes do not go by it: rules are judged as \
                 if it had not been set"
            );
        }
        Followed::Wall => tracing::info!("rules are judged by the clock of this machine again"),
    }
}

/// The clock that nobody sets, which goes on while the machine sleeps, and the wall clock.
fn both() -> (i64, i64) {
    let steady = || {
        let time = clock_gettime(ClockId::Boottime);
        time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
    };
    // A thread that is stopped between the two has not seen the clock set.
    let (mut before, mut read) = (steady(), wall());
    for _ in 0..4 {
        let after = steady();
        if after - before < SET / 10 {
            break;
        }
        (before, read) = (after, wall());
    }
    (before, read)
}

/// What became of the two clocks.
#[derive(Debug, PartialEq, Eq)]
enum Followed {
    Nothing,
    /// Rules go by another time than the wall clock's, as nobody has heard so far.
    Stays,
    /// They go by the wall clock again, as those who heard that want to know.
    Wall,
}

/// The clock of the judge, by what is read of the others.
struct JudgeClock {
    /// When it was read last, on the clock that nobody sets, and what it said.
    steady: i64,
    now: i64,
    /// How far the wall clock is ahead of it.
    ahead: i64,
    /// Since when that is so, when rows were asked, when there were some, and whether the log says so.
    since: i64,
    asked: i64,
    heard: i64,
    is_said: bool,
}

impl JudgeClock {
    fn new(steady: i64, wall: i64) -> Self {
        JudgeClock {
            steady,
            now: wall,
            ahead: 0,
            since: steady,
            asked: i64::MIN,
            heard: steady,
            is_said: false,
        }
    }

    fn read(&mut self, steady: i64, wall: i64) -> i64 {
        let expected = self.now + (steady - self.steady);
        // What moves by less is a clock that is being adjusted: it is followed.
        if (wall - self.ahead - expected).abs() >= SET {
            self.ahead = wall - expected;
            (self.since, self.asked, self.heard) = (steady, i64::MIN, steady);
            // It was set right again.
            if self.ahead.abs() < SET {
                self.ahead = 0;
            }
        }
        (self.steady, self.now) = (steady, wall - self.ahead);
        self.now
    }

    /// Whether rows are to be asked by which clock they go.
    fn is_due(&self, steady: i64) -> bool {
        (self.ahead != 0 || self.is_said) && steady.saturating_sub(self.asked) >= ASKED_EVERY
    }

    /// Rows of nodes have these times: most of them decide.
    fn follow(&mut self, steady: i64, wall: i64, rows: &[i64]) -> Followed {
        self.asked = steady;
        if !rows.is_empty() {
            self.heard = steady;
        }
        let nobody = steady - self.heard >= NO_NODES_MAX;
        let judged = wall - self.ahead;
        let by_wall = rows.iter().filter(|row| (wall - **row).abs() < (judged - **row).abs()).count();
        if self.ahead == 0 || nobody || 2 * by_wall > rows.len() {
            (self.ahead, self.now) = (0, wall);
            return if std::mem::take(&mut self.is_said) { Followed::Wall } else { Followed::Nothing };
        }
        let is_late = steady - self.since >= SAID_AFTER;
        match is_late && !std::mem::replace(&mut self.is_said, true) {
            true => Followed::Stays,
            false => Followed::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: i64 = 1_700_000_000_000;

    #[test]
    fn the_judge_goes_on_when_the_clock_of_its_machine_alone_is_set() {
        for set in [-1_800_000, -60_000, 60_000, 7_200_000] {
            let mut clock = JudgeClock::new(0, WALL);
            assert_eq!(clock.read(1_000, WALL + 1_000), WALL + 1_000);
            assert_eq!(clock.read(2_000, WALL + 2_000 + set), WALL + 2_000);
            assert!(clock.is_due(2_000));
            // The nodes go on, but for one whose clock is wrong.
            let rows = |at: i64| [WALL + at, WALL + at - 900, WALL + at + set];
            assert_eq!(clock.follow(2_000, WALL + 2_000 + set, &rows(2_000)), Followed::Nothing);
            assert!(!clock.is_due(2_500));
            assert_eq!(clock.read(8_000, WALL + 8_000 + set), WALL + 8_000);
            assert_eq!(clock.follow(8_000, WALL + 8_000 + set, &rows(8_000)), Followed::Stays);
            assert_eq!(clock.follow(9_000, WALL + 9_000 + set, &rows(9_000)), Followed::Nothing);
            // It is set right again, a little off.
            assert_eq!(clock.read(10_000, WALL + 10_700), WALL + 10_700);
            assert!(clock.is_due(10_000));
            assert_eq!(clock.follow(10_000, WALL + 10_700, &rows(10_000)), Followed::Wall);
            assert!(!clock.is_due(20_000));
        }
    }

    #[test]
    fn the_judge_goes_along_when_nodes_do_or_when_there_is_none() {
        let set = 3_600_000;
        let mut clock = JudgeClock::new(0, WALL);
        assert_eq!(clock.read(1_000, WALL + 1_000 + set), WALL + 1_000);
        assert_eq!(clock.follow(1_000, WALL + 1_000 + set, &[WALL, WALL]), Followed::Nothing, "old rows");
        assert_eq!(clock.read(2_000, WALL + 2_000 + set), WALL + 2_000);
        let rows = [WALL + 1_500 + set, WALL + 2_000 + set];
        assert_eq!(clock.follow(2_000, WALL + 2_000 + set, &rows), Followed::Nothing);
        assert_eq!(clock.read(3_000, WALL + 3_000 + set), WALL + 3_000 + set);
        let mut clock = JudgeClock::new(0, WALL);
        clock.read(1_000, WALL + 1_000 - set);
        clock.follow(1_000, WALL + 1_000 - set, &[]);
        assert_eq!(clock.read(2_000, WALL + 2_000 - set), WALL + 2_000, "nodes may come back");
        let later = 1_000 + NO_NODES_MAX;
        assert_eq!(clock.read(later, WALL + later - set), WALL + later);
        clock.follow(later, WALL + later - set, &[]);
        assert_eq!(clock.read(later + 1, WALL + later + 1 - set), WALL + later + 1 - set);
    }

    #[test]
    fn a_clock_that_is_adjusted_or_a_machine_that_slept_is_followed() {
        let mut clock = JudgeClock::new(0, WALL);
        let mut wall = WALL;
        for step in 1..100 {
            wall += 1_500;
            assert_eq!(clock.read(step * 1_000, wall), wall);
        }
        assert_eq!(clock.read(9_000_000, wall + 8_901_000), wall + 8_901_000);
    }
}
