//! A lane with a log, in a folder that goes with the test.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use khz_block::HEADER_BYTES;
use khz_store::log::{Log, OpenBlocks};

use super::*;
use crate::lane::tests::{block, block_set, lane, schema};

/// A log that can be opened again.
struct Logged {
    folder: PathBuf,
    log: Log,
    intake: Intake,
    /// Who has the lane while a commit asks for it.
    asked: Arc<Asked>,
}

struct Asked(Mutex<Lane>);

impl OpenBlocks for Asked {
    fn grown(&self, take: &mut Take<'_>) {
        self.0.lock().expect("no panic").give_log(take);
    }
}

fn name() -> NodeName {
    NodeName::new("n1").expect("a good name")
}

impl Logged {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("khz-hub-lane-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let (log, intake, _) = Log::open(&folder).expect("a log");
        let asked = Arc::new(Asked(Mutex::new(lane())));
        intake.ask(&asked);
        Logged { folder, log, intake, asked }
    }

    /// A second has passed.
    fn commit(&mut self, lane: &mut Lane) {
        let swap = |lane: &mut Lane| std::mem::swap(lane, &mut self.asked.0.lock().expect("no panic"));
        swap(lane);
        self.log.commit().expect("room");
        swap(lane);
    }

    /// A lane of epoch 1 whose schema has one slot.
    fn lane(&self) -> Lane {
        let mut lane = lane();
        lane.log_to(&self.intake, &name());
        lane
    }

    /// The process is killed after a commit, and starts again.
    fn restart(&mut self, lane: &mut Lane) {
        self.commit(lane);
        let (log, intake, damage) = Log::open(&self.folder).expect("a log");
        assert!(damage.is_empty(), "{damage:?}");
        (self.log, self.intake) = (log, intake);
        self.intake.ask(&self.asked);
    }

    fn blocks(&self) -> Vec<LoggedBlock> {
        self.log.view().blocks(&name(), None, Nanos(0), Nanos(u64::MAX), &mut Vec::new())
    }

    /// First rows and lengths of the blocks in the log.
    fn kept(&self) -> Vec<(u64, u32)> {
        self.blocks().iter().map(|block| (block.header.first_row, block.rows)).collect()
    }

    /// The numbers of all rows in the log.
    fn rows(&self) -> BTreeSet<u64> {
        self.kept().into_iter().flat_map(|(first, rows)| first..first + u64::from(rows)).collect()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_block_is_in_the_log_when_another_begins_and_what_is_open_after_a_restart() {
    let mut logged = Logged::new("open");
    let mut lane = logged.lane();
    let open = block(5, 4).0;
    lane.begin(&block(0, 5).0, false).expect("a block");
    lane.begin(&open[..HEADER_BYTES + 10], false).expect("its beginning");
    lane.append(&open[HEADER_BYTES + 10..]).expect("the rest");
    assert_eq!(logged.kept(), [(0, 5)]);
    assert_eq!(lane.open_for_log().map(|block| (block.header.first_row, block.rows)), Some((5, 4)));
    assert_eq!(lane.stored_until(), 0, "nothing is on the disk yet");
    logged.restart(&mut lane);
    assert_eq!(lane.stored_until(), 9);
    assert_eq!(logged.kept(), [(0, 5), (5, 4)]);
    let blocks = logged.blocks();
    assert_eq!((&**blocks[1].bytes, blocks[1].last), (&open[..], Nanos(8)));
}

#[test]
fn rows_whose_segment_somebody_has_removed_are_in_the_log_again_after_the_next_commit() {
    let mut logged = Logged::new("again");
    let mut lane = logged.lane();
    for number in 0..3 {
        assert_eq!(lane.begin(&block(number * 4, 4).0, true), Ok(4));
        logged.commit(&mut lane);
    }
    assert_eq!(logged.kept(), [(0, 4), (4, 4)], "the third is open");
    for segment in std::fs::read_dir(&logged.folder).expect("the log").flatten() {
        std::fs::remove_file(segment.path()).expect("it is ours");
    }
    // Something must come for a commit.
    logged.intake.grown();
    logged.commit(&mut lane);
    assert_eq!(logged.kept(), [(0, 4), (4, 4)]);
    assert_eq!(lane.stored_until(), 12);
    // Those of the open block, too.
    logged.restart(&mut lane);
    assert_eq!(logged.rows(), (0..12).collect());
}

#[test]
fn a_block_that_is_taken_back_is_in_no_log_after_a_restart_either() {
    for is_damaged in [false, true] {
        let mut logged = Logged::new(&format!("taken-back-{is_damaged}"));
        let mut lane = logged.lane();
        lane.begin(&block(0, 5).0, true).expect("a block");
        lane.begin(&block(5, 4).0, true).expect("a block");
        logged.commit(&mut lane);
        let refused = if is_damaged { lane.append(&[0xff; 64]).map(drop) } else { lane.end(4, 1, 1) };
        assert!(refused.is_err());
        logged.restart(&mut lane);
        assert_eq!(logged.kept(), [(0, 5)]);
    }
}

#[test]
fn what_came_of_a_block_is_in_the_log_unless_as_much_comes_again() {
    for (again, expected) in [(2, 5), (5, 5), (7, 7)] {
        let logged = Logged::new(&format!("again-{again}"));
        let mut lane = logged.lane();
        lane.begin(&block(0, 5).0, true).expect("a block");
        lane.begin(&block(0, again).0, true).expect("the block again");
        assert_eq!(lane.open_for_log().map(|block| block.rows), Some(expected));
        lane.begin(&block(20, 1).0, true).expect("another block");
        assert_eq!(logged.kept(), [(0, expected)], "{again} rows come again");
    }
}

#[test]
fn an_open_block_is_handed_over_with_its_lane_or_when_it_is_old_and_each_row_of_it_once() {
    let logged = Logged::new("handed");
    let mut lane = logged.lane();
    crate::clock::played::NOW.set(Some(Nanos(100)));
    lane.begin(&block(0, 5).0, true).expect("a block");
    crate::clock::played::NOW.set(None);
    lane.hand_over(Nanos(11), Nanos(110));
    assert_eq!(logged.kept(), []);
    lane.hand_over(Nanos(10), Nanos(110));
    assert_eq!(logged.kept(), [(0, 5)]);
    lane.hand_over(Nanos(10), Nanos(110));
    let whole = block(0, 7).0;
    lane.append(&whole[block(0, 5).0.len()..]).expect("it goes on");
    drop(lane);
    assert_eq!(logged.kept(), [(0, 7)], "of two versions the longer counts");
    assert_eq!(logged.log.view().size().1, 0, "nothing is written yet");
}

#[test]
fn a_lane_whose_memory_is_given_back_and_one_that_ends_lose_no_row() {
    let logged = Logged::new("given-back");
    let mut lane = logged.lane();
    lane.begin(&block(0, 5).0, false).expect("a block");
    lane.give_back(false, false);
    assert_eq!((logged.kept(), lane.open_for_log().is_none()), (vec![(0, 5)], true));
    // It comes back, and its block from its start.
    lane.set_schema(1, schema());
    lane.begin(&block(0, 6).0, false).expect("the block again");
    lane.begin(&block(6, 1).0, false).expect("a block");
    assert_eq!(logged.rows(), (0..6).collect());
    drop(lane);
    assert_eq!(logged.rows(), (0..7).collect());
}

#[test]
fn of_the_past_the_log_gets_what_it_does_not_have() {
    let mut logged = Logged::new("past");
    let mut lane = logged.lane();
    lane.begin(&block(0, 10).0, true).expect("a block");
    logged.restart(&mut lane);
    let mut lane = logged.lane();
    assert_eq!(lane.logged_before().map(|rows| rows.as_slice().to_vec()), Some(vec![(0, 10)]));
    lane.begin(&block(20, 1).0, true).expect("a block");
    // Rows that only the log had are not received yet, and are not lost.
    assert_eq!((lane.rows(), lane.lost(), lane.awaited(), lane.next_row()), (1, 0, 0, 21));
    lane.set_clock(0, ComparedWith::Ours);
    for (first, rows) in [(0, 10), (10, 5), (10, 5)] {
        lane.past(true, &block(first, rows).1, true).expect("a block of the past");
    }
    assert_eq!(logged.kept(), [(0, 10), (10, 5)]);
    assert_eq!(logged.blocks().len(), 2);
    assert_eq!(lane.lose(0, 20), 5, "the hub knows since its last run that these were made");
    assert_eq!((lane.rows(), lane.lost(), lane.awaited()), (16, 5, 0));
}

#[test]
fn rows_that_were_lost_since_the_last_run_are_counted_and_older_ones_are_not() {
    let mut logged = Logged::new("lost");
    let mut lane = logged.lane();
    lane.begin(&block(100, 10).0, true).expect("a block");
    logged.restart(&mut lane);
    let mut lane = logged.lane();
    lane.begin(&block(200, 1).0, true).expect("a block");
    assert_eq!(lane.lose(0, 50), 0);
    assert_eq!(lane.lose(110, 150), 40);
    assert_eq!((lane.rows(), lane.lost(), lane.awaited()), (1, 40, 50));
}

#[test]
fn a_block_of_the_past_waits_until_the_clock_is_measured_but_not_for_ever() {
    let logged = Logged::new("unmeasured");
    let hour = 3_600 * Nanos::SECOND.0 as i64;
    let mut lane = logged.lane();
    lane.begin(&block(1_000, 1).0, true).expect("a block");
    lane.past(true, &block(990, 5).1, true).expect("a block of the past");
    assert_eq!((logged.kept(), lane.log.as_ref().is_some_and(|log| log.held() > 0)), (vec![], true));
    lane.set_clock(-hour, ComparedWith::Ours);
    assert_eq!((logged.kept(), logged.blocks()[0].shift), (vec![(990, 5)], hour));
    // Nothing measures this one.
    let logged = Logged::new("never-measured");
    let mut lane = logged.lane();
    lane.begin(&block(1_000, 1).0, true).expect("a block");
    for first in 0..=BLOCKS_UNMEASURED_MAX as u64 {
        lane.past(true, &block(first, 1).1, true).expect("a block of the past");
    }
    assert_eq!(logged.kept(), [(BLOCKS_UNMEASURED_MAX as u64, 1)]);
    drop(lane);
    assert_eq!(logged.kept().len(), BLOCKS_UNMEASURED_MAX + 2);
}

#[test]
fn a_block_is_filed_under_our_time_if_the_clock_with_which_it_was_written_was_wrong() {
    let logged = Logged::new("clock");
    let mut lane = logged.lane();
    let second = Nanos::SECOND.0 as i64;
    lane.set_clock(3_600 * second, ComparedWith::Ours);
    lane.begin(&block_set(0, 5, 0), true).expect("a block");
    let shift = |lane: &Lane| lane.open_for_log().map(|block| block.shift);
    assert_eq!(shift(&lane), Some(0), "before the first row nothing can be measured");
    lane.set_clock(4 * second, ComparedWith::Ours);
    assert_eq!(shift(&lane), Some(0), "a beat may have waited");
    lane.set_clock(3_600 * second, ComparedWith::Ours);
    assert_eq!(shift(&lane), Some(-3_600 * second));
    // The clock is set: rows since then are right, and those of the past are as wrong as they were.
    lane.begin(&block_set(5, 5, -3_600 * second), true).expect("a block");
    assert_eq!(shift(&lane), Some(0));
    lane.set_clock(0, ComparedWith::Ours);
    lane.begin(&block_set(10, 1, -3_600 * second), true).expect("a block");
    let shifts: Vec<i64> = logged.blocks().iter().map(|block| block.shift).collect();
    assert_eq!((shifts, shift(&lane)), (vec![-3_600 * second, 0], Some(0)));
}

#[test]
fn rows_of_a_node_that_has_just_come_wait_until_its_clock_is_measured_but_not_for_ever() {
    let logged = Logged::new("just-come");
    let second = Nanos::SECOND.0 as i64;
    let mut lane = logged.lane();
    lane.await_clock();
    assert!(lane.lacks_clock());
    lane.begin(&block_set(0, 5, 0), true).expect("a block");
    assert!(lane.open_for_log().is_none() && lane.open_span().is_none());
    lane.set_clock(3_600 * second, ComparedWith::Ours);
    assert_eq!(lane.open_for_log().map(|block| block.shift), Some(-3_600 * second));
    assert!(!lane.lacks_clock());
    // Nothing measures this one.
    let logged = Logged::new("not-measured");
    let mut lane = logged.lane();
    lane.await_clock();
    lane.begin(&block_set(0, 5, 0), true).expect("a block");
    lane.log.as_mut().expect("a log").waits_since = Some(Nanos(clock::boot().0 - UNMEASURED_MAX.0));
    assert_eq!(lane.open_for_log().map(|block| block.shift), Some(0));
}

#[test]
fn a_block_is_filed_under_our_new_time_as_soon_as_our_clock_is_set() {
    let logged = Logged::new("ours-set");
    let second = Nanos::SECOND.0 as i64;
    for (of, expected) in [(ComparedWith::Ours, 0), (ComparedWith::AnotherHubs, -3_600 * second)] {
        let mut lane = logged.lane();
        lane.begin(&block_set(0, 5, 0), true).expect("a block");
        lane.set_clock(3_600 * second, of);
        let clock = lane.log.as_mut().and_then(|log| log.clock.as_mut()).expect("it was measured");
        // It was an hour behind then, and was set right since.
        clock.ours_set_by = clock.ours_set_by.map(|by| by - 3_600 * second);
        assert_eq!(lane.open_for_log().map(|block| block.shift), Some(expected), "{of:?}");
    }
}
