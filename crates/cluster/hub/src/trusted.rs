//! The time that a hub with rules trusts, in ms since 1970. It is the wall clock, until somebody sets that clock and the times of the
//! nodes' rows do not change with it. Then the trusted time continues as if nobody had set the clock. Rules use it, and the clocks of
//! the nodes are compared with it, so that rows keep their times, rules still find them, and alerts continue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The wall clock was set if it moves by this much more or less than the steady clock (ms).
pub(crate) const SET: i64 = 3_000;
/// After the clock was set, rows may still be on their way for this long (ms). Then the log reports the
/// consequence.
const SAID_AFTER: i64 = 5_000;
/// If no node is up for this long (ms), rules use the wall clock.
const NO_NODES_MAX: i64 = 60_000;
/// How often rows are asked while the two differ (ms).
const ASKED_EVERY: i64 = 1_000;
/// After the clock was set, reports of nodes about their clocks may be older than the change for this long (ms): each thirtieth
/// beat is timed.
pub(crate) const UNMEASURED: i64 = 60_000;

static CLOCK: Mutex<Option<Trusted>> = Mutex::new(None);
/// True once [`follow`] was called. Otherwise the trusted time would never return to a clock that
/// was set right.
static IS_FOLLOWED: AtomicBool = AtomicBool::new(false);

/// Now, on the clock that nobody sets and on the trusted one (ms).
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The clock that nobody sets.
    pub steady: i64,
    /// The trusted time.
    pub judged: i64,
}

/// Now, for rules.
#[must_use]
pub fn now() -> i64 {
    both_now().judged
}

/// The same, together with the steady clock.
#[must_use]
pub fn both_now() -> Now {
    with(|clock, steady, _| Now { steady, judged: clock.now })
}

/// Now, for the times of kept rows: the trusted time, or without rules the machine's time.
#[must_use]
pub fn for_rows() -> i64 {
    if IS_FOLLOWED.load(Ordering::Relaxed) { now() } else { wall() }
}

/// How far this machine's clock is ahead of the trusted time (ns). `None`: it was set just now, and measurements may be from before or
/// after that.
pub(crate) fn machine_ahead() -> Option<i64> {
    let of_trusted = with(|clock, steady, _| clock.machine_ahead(steady))?;
    Some(if IS_FOLLOWED.load(Ordering::Relaxed) { of_trusted.saturating_mul(1_000_000) } else { 0 })
}

/// By how much [`for_rows`] was set since this process began (ns). Clocks that are adjusted little by little do not count.
pub(crate) fn set_by() -> i64 {
    let is_followed = IS_FOLLOWED.load(Ordering::Relaxed);
    with(|clock, _, _| clock.set_by(is_followed)).saturating_mul(1_000_000)
}

/// Now, as the machine says.
#[must_use]
pub fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Follows the wall clock again if the newest rows of nodes do. `rows` returns their times (ms since 1970), and is called only after
/// the clock was set. Returns by how much this has set the trusted time (ms); `None`: it continues unchanged.
pub fn follow(rows: impl FnOnce() -> Vec<i64>) -> Option<i64> {
    IS_FOLLOWED.store(true, Ordering::Relaxed);
    if !with(|clock, steady, _| clock.is_due(steady)) {
        return None;
    }
    // The clock is not locked here: a thread that has locked a node may wait for the clock.
    let rows = rows();
    let (followed, ahead, by) = with(|clock, steady, wall| {
        let (ahead, moved) = (clock.ahead, clock.moved);
        (clock.follow(steady, wall, &rows), ahead, clock.moved - moved)
    });
    match followed {
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
    Some(by).filter(|by| *by != 0)
}

/// Works with the clock, which has been read: with the two others' times. It waits for nothing meanwhile.
fn with<T>(work: impl FnOnce(&mut Trusted, i64, i64) -> T) -> T {
    let (steady, wall) = both();
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = clock.get_or_insert_with(|| Trusted::new(steady, wall));
    clock.read(steady, wall);
    work(clock, steady, wall)
}

/// The steady clock, which continues while the machine sleeps, and the wall clock.
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

/// The result of a comparison of the two clocks.
#[derive(Debug, PartialEq, Eq)]
enum Followed {
    Nothing,
    /// Rules use another time than the wall clock, and the log does not say so yet.
    Stays,
    /// Rules use the wall clock again. If the log named the other time, it must say this, too.
    Wall,
}

/// The trusted clock, computed from the readings of the other two clocks.
struct Trusted {
    /// When the trusted clock was last read, on the steady clock, and its value then.
    steady: i64,
    now: i64,
    /// How far the wall clock is ahead of it.
    ahead: i64,
    /// By how much it was set itself.
    moved: i64,
    /// Since when the wall clock is ahead, when rows were asked, when there were some, and how far ahead the log says that it is.
    since: i64,
    /// When the wall clock was set last.
    set: Option<i64>,
    asked: i64,
    heard: i64,
    said: Option<i64>,
}

impl Trusted {
    fn new(steady: i64, wall: i64) -> Self {
        Trusted {
            steady,
            now: wall,
            ahead: 0,
            moved: 0,
            since: steady,
            set: None,
            asked: i64::MIN,
            heard: steady,
            said: None,
        }
    }

    fn read(&mut self, steady: i64, wall: i64) -> i64 {
        let expected = self.now + (steady - self.steady);
        // A smaller change is a clock that is being adjusted: the trusted time follows it.
        if (wall - self.ahead - expected).abs() >= SET {
            self.ahead = wall - expected;
            (self.since, self.asked, self.heard) = (steady, i64::MIN, steady);
            self.set = Some(steady);
            // It was set right again.
            if self.ahead.abs() < SET {
                self.moved += std::mem::take(&mut self.ahead);
            }
        }
        (self.steady, self.now) = (steady, wall - self.ahead);
        self.now
    }

    /// See [`set_by`]. The wall clock was set as often as this one, and is ahead since then.
    fn set_by(&self, is_followed: bool) -> i64 {
        if is_followed { self.moved } else { self.moved + self.ahead }
    }

    /// See [`machine_ahead`].
    fn machine_ahead(&self, steady: i64) -> Option<i64> {
        let is_measured = self.set.is_none_or(|set| steady.saturating_sub(set) >= UNMEASURED);
        is_measured.then_some(self.ahead)
    }

    /// Whether rows are to be asked by which clock they go.
    fn is_due(&self, steady: i64) -> bool {
        (self.ahead != 0 || self.said.is_some()) && steady.saturating_sub(self.asked) >= ASKED_EVERY
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
            self.moved += std::mem::take(&mut self.ahead);
            self.now = wall;
            return if self.said.take().is_some() { Followed::Wall } else { Followed::Nothing };
        }
        let is_news = self.said.is_none_or(|said| (self.ahead - said).abs() >= SET);
        if steady - self.since < SAID_AFTER || !is_news {
            return Followed::Nothing;
        }
        self.said = Some(self.ahead);
        Followed::Stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_for_rows_may_wait_for_somebody_who_reads_the_clock() {
        // It has been set, by an hour.
        with(|clock, steady, wall| {
            (clock.ahead, clock.now, clock.asked) = (-3_600_000, wall + 3_600_000, steady - 2_000)
        });
        let asked = || {
            // Another thread has a node locked, and reads the clock.
            let reads = std::thread::spawn(|| (machine_ahead(), set_by(), now()));
            reads.join().expect("no panic");
            vec![wall()]
        };
        assert_eq!(follow(asked), Some(-3_600_000));
    }

    const WALL: i64 = 1_700_000_000_000;

    #[test]
    fn the_judge_goes_on_when_the_clock_of_its_machine_alone_is_set() {
        for set in [-1_800_000, -60_000, 60_000, 7_200_000] {
            let mut clock = Trusted::new(0, WALL);
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
        let mut clock = Trusted::new(0, WALL);
        assert_eq!(clock.read(1_000, WALL + 1_000 + set), WALL + 1_000);
        assert_eq!(clock.follow(1_000, WALL + 1_000 + set, &[WALL, WALL]), Followed::Nothing, "old rows");
        assert_eq!(clock.read(2_000, WALL + 2_000 + set), WALL + 2_000);
        let rows = [WALL + 1_500 + set, WALL + 2_000 + set];
        assert_eq!(clock.follow(2_000, WALL + 2_000 + set, &rows), Followed::Nothing);
        assert_eq!(clock.read(3_000, WALL + 3_000 + set), WALL + 3_000 + set);
        let mut clock = Trusted::new(0, WALL);
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
        let mut clock = Trusted::new(0, WALL);
        let mut wall = WALL;
        for step in 1..100 {
            wall += 1_500;
            assert_eq!(clock.read(step * 1_000, wall), wall);
        }
        assert_eq!(clock.read(9_000_000, wall + 8_901_000), wall + 8_901_000);
    }

    #[test]
    fn the_log_says_by_how_much_the_clock_is_off_each_time_it_was_set() {
        let mut clock = Trusted::new(0, WALL);
        let rows = |at: i64| [WALL + at];
        for (number, set) in [60_000, 60_500, -7_200_000, 60_000].into_iter().enumerate() {
            let at = 10_000 * (number as i64 + 1);
            clock.read(at, WALL + at + set);
            clock.follow(at, WALL + at + set, &rows(at));
            let later = at + SAID_AFTER;
            clock.read(later, WALL + later + set);
            let expected = if set == 60_500 { Followed::Nothing } else { Followed::Stays };
            assert_eq!(clock.follow(later, WALL + later + set, &rows(later)), expected, "{set}");
        }
    }

    #[test]
    fn by_how_much_each_clock_was_set_is_known() {
        let mut clock = Trusted::new(0, WALL);
        clock.read(1_000, WALL + 1_000 + 600_000);
        assert_eq!((clock.set_by(true), clock.set_by(false)), (0, 600_000));
        clock.read(2_000, WALL + 602_000);
        clock.follow(2_000, WALL + 602_000, &[WALL + 601_900]);
        assert_eq!((clock.set_by(true), clock.set_by(false)), (600_000, 600_000), "the nodes were set, too");
        clock.read(3_000, WALL + 3_000);
        assert_eq!((clock.set_by(true), clock.set_by(false)), (600_000, 0));
        clock.read(4_000, WALL + 604_700);
        assert_eq!((clock.set_by(true), clock.set_by(false)), (600_700, 600_700), "set right, but for 0.7 s");
    }

    #[test]
    fn clocks_of_nodes_are_compared_with_the_trusted_time_once_beats_are_new_again() {
        for set in [-3_600_000, -20_000, 20_000, 7_200_000] {
            let mut clock = Trusted::new(0, WALL);
            assert_eq!(clock.machine_ahead(0), Some(0));
            clock.read(1_000, WALL + 1_000 + set);
            assert_eq!(clock.machine_ahead(1_000), None, "a beat of before is on its way");
            let later = 1_000 + UNMEASURED;
            clock.read(later, WALL + later + set);
            assert_eq!(clock.machine_ahead(later), Some(set));
            // A node whose clock is right is behind or ahead of the machine, and not of the trusted time.
            let node_ahead = -set;
            assert_eq!(node_ahead + clock.machine_ahead(later).unwrap(), 0);
            // The nodes are set, too.
            clock.follow(later, WALL + later + set, &[WALL + later + set]);
            assert_eq!(clock.machine_ahead(later), Some(0));
        }
    }
}
