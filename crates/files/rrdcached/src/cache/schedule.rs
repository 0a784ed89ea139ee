//! When a file is due to be written; writes nothing.
//!
//! A file is due when its oldest sample has waited for the timeout. With a delay, each file has its own moment in a
//! period of timeout and delay together, and is due when that moment has come since its oldest sample. After the first
//! period all rounds are alike, whatever happened at the same time before (a start, a flush). A delay drawn for each write
//! would keep files that began together in a crowd for hours.
//!
//! A write that finishes a coarse row (half an hour, two hours, a day) touches two or three times the pages of an ordinary one, and
//! all files finish such a row in the same minute. So each such file waits longer, for its own time. Samples that come meanwhile
//! are written with the others.

use super::backlog::{FileEntry, FileId, Shape};

/// When to write, and how much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seconds that updates wait before they are written.
    pub timeout: u32,
    /// The file's own moment lies up to this many seconds later.
    pub delay: u32,
    /// Seconds between searches for files whose updates stopped.
    pub sweep: u32,
    /// Seconds over which files that finish a coarse row are spread; 0 for none.
    pub spread: u32,
    /// Bytes of updates in memory; beyond it nothing is taken.
    pub memory_max: u64,
    /// Files kept open.
    pub open_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: 300, delay: 0, sweep: 3600, spread: 1200, memory_max: 1 << 30, open_max: 10_000 }
    }
}

impl Limits {
    /// Seconds after which a file is written, whatever its own moment is.
    pub fn longest(self) -> u32 {
        self.timeout.saturating_add(self.delay).saturating_add(self.spread)
    }

    /// Whether the samples of a file have waited long enough.
    pub fn is_due(self, id: FileId, file: &FileEntry, shape: Shape, now: u32) -> bool {
        has_waited(self, id, file.since(), now) && !is_spread_out(self, id, file, shape)
    }
}

/// Whether a file that finishes a coarse row is to wait longer. The samples' own time decides, so that a backlog is spread
/// like live data.
fn is_spread_out(limits: Limits, id: FileId, file: &FileEntry, shape: Shape) -> bool {
    let most = shape.coarse.min(u64::from(limits.spread));
    let on_disk = u64::from(file.on_disk());
    let Some(boundary) = on_disk.checked_div(shape.coarse).map(|row| (row + 1) * shape.coarse) else {
        return false;
    };
    let newest = u64::try_from(file.newest() / 1_000_000).unwrap_or(0);
    most > 0 && on_disk > 0 && newest >= boundary && newest - boundary < mixed(u64::from(id)) % most
}

/// A hash of a number.
fn mixed(of: u64) -> u64 {
    let mixed = (of ^ of >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
}

/// Whether samples that wait since `since` have waited long enough.
fn has_waited(limits: Limits, id: FileId, since: u32, now: u32) -> bool {
    if limits.delay == 0 {
        return now.saturating_sub(since) >= limits.timeout;
    }
    let period = u64::from(limits.timeout) + u64::from(limits.delay);
    let moment = mixed(u64::from(id) << 32) % period;
    // How many moments have come up to a time, counted from a period earlier, so that nothing goes below zero.
    let moments = |time: u64| (time + period - moment) / period;
    moments(u64::from(now)) > moments(u64::from(since).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::super::backlog::{Backlog, FileFacts};
    use super::*;

    #[test]
    fn files_that_began_together_are_written_at_an_even_pace_from_the_first_period_on() {
        let limits = Limits { timeout: 600, delay: 600, ..Limits::default() };
        let mut since = vec![1u32; 12_000];
        for round in 1..=36u32 {
            let now = 1 + 100 * round;
            let due: Vec<usize> =
                (0..since.len()).filter(|id| has_waited(limits, *id as FileId, since[*id], now)).collect();
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

    #[test]
    fn files_that_finish_a_coarse_row_are_due_one_after_the_other_over_the_spread() {
        let limits = Limits { timeout: 0, spread: 1200, ..Limits::default() };
        let shape = Shape { readings: 1, step: 300, coarse: 3600 };
        // Of a thousand files, how many are due when a sample of this time is the newest.
        let due = |limits: Limits, on_disk: i64, time: u32| {
            let mut backlog = Backlog::default();
            let facts = FileFacts { newest: on_disk * 1_000_000, shape, place: 0, device: 0 };
            let is_due = |number: u32| {
                let id = backlog.learn(&number.to_string(), &facts).unwrap();
                backlog.append(id, &format!("{time}:1"), None, 1);
                limits.is_due(id, backlog.file(id), shape, 1)
            };
            (0..1000).map(is_due).filter(|is_due| *is_due).count()
        };
        assert_eq!(due(limits, 3000, 3599), 1000, "no row is finished");
        assert!(due(limits, 3000, 3600) < 10);
        let (half, most) = (due(limits, 3000, 4200), due(limits, 3000, 4799));
        assert!((400..600).contains(&half) && most > 990, "{half} and {most}");
        assert_eq!(due(limits, 3000, 4800), 1000);
        // The row ends at the first boundary after what is on disk.
        assert_eq!(due(limits, 3600, 3900), 1000);
        assert!(due(limits, 3600, 7200) < 10);
        assert_eq!(due(limits, 0, 3600), 1000, "nothing is on disk");
        assert_eq!(due(Limits { spread: 0, ..limits }, 3000, 3600), 1000);
        assert_eq!(limits.longest(), 1200);
    }
}
