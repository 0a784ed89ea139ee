//! The keeper with a disk that is full, or that loses what it has.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use khz_block::{Encoder, HEADER_BYTES, SchemaEncoder};
use khz_hub::{Cluster, FrozenKey, Settings};
use khz_link::freeze::FrozenLane;
use khz_model::{ByteSize, Rate, Series, Stamp};

use super::super::counts::Counts;
use super::super::shelf::Shelf;
use super::super::{State, wall};
use super::*;

/// Rows of each block.
const ROWS: u64 = 1;
const NUMBER: u64 = 77;

/// A black box without a thread, with freeze 1 of these nodes. Removed at the end.
struct Place {
    shared: Shared,
    folder: PathBuf,
}

impl Place {
    fn new(name: &str, nodes: &[&str], room: u64) -> Self {
        let folder = std::env::temp_dir().join(format!("khz-keeper-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let rate_max = Rate::from_hz(1_000).unwrap();
        let settings = Settings { name: "hub".to_owned(), history: ByteSize(0), rate_max };
        let shelf = Shelf::open(&folder, ByteSize(room)).unwrap();
        let (state, shelf) = (Mutex::new(State::default()), Mutex::new(shelf));
        let cluster = Cluster::new(settings, [0; 16]);
        let shared = Shared { cluster, state, shelf, counts: Counts::default() };
        let mut entry = Entry::new(1, NUMBER, wall(), 0, 0, "a test".to_owned());
        entry.since_boot = entry::SinceBoot::now();
        let nodes: BTreeSet<NodeName> = nodes.iter().map(|node| name_of(node)).collect();
        shared.state().begin(&entry, &nodes);
        Place { shared, folder }
    }

    fn recording(&self) -> PathBuf {
        self.folder.join("blackbox/1.khzt")
    }

    fn entry(&self) -> Entry {
        self.shared.state().entries[&1].clone()
    }

    /// The state of a node while the freeze runs.
    fn state(&self, node: &str) -> NodeState {
        self.shared.state().running[&NUMBER].nodes[&name_of(node)].state
    }

    fn rows(&self, node: &str) -> u64 {
        let survey = khz_record::Survey::of(&khz_record::Recording::of(&[self.recording()])).unwrap();
        survey.lanes.iter().filter(|one| &*one.lane.node == node).map(|one| one.rows).sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn name_of(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

fn block() -> Box<[u8]> {
    block_at(0, Stamp { boot: Nanos(5), real_offset: 0 })
}

fn block_at(row: u64, stamp: Stamp) -> Box<[u8]> {
    let (mut encoder, mut bytes) = (Encoder::new(1, 1, Nanos::SECOND), Vec::new());
    encoder.resume(row, 1);
    encoder.key_row(stamp, 1, |_| (0, 7), &mut bytes);
    bytes[..HEADER_BYTES].copy_from_slice(&encoder.close().unwrap().to_bytes());
    bytes.into()
}

fn schema() -> Box<[u8]> {
    let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
    let metric = khz_gather::catalogue().swap_remove(0);
    encoder.append(&Series { metric, instance: None }, &mut bytes).unwrap();
    bytes.into()
}

/// A node says that it has kept its rows.
fn keeps(keeper: &mut Keeper<'_>, node: &str) {
    keeps_rows(keeper, node, ROWS, None);
}

fn keeps_rows(keeper: &mut Keeper<'_>, node: &str, rows: u64, up_longer: Option<i64>) {
    let rows = (0, rows);
    let lane = FrozenLane { name: "local".to_owned(), rows, bytes: 100, missing: Nanos(0) };
    let frozen = Frozen { number: NUMBER, state: FrozenState::Kept, text: String::new(), lanes: vec![lane] };
    keeper.take(FrozenNews::Answer { node: name_of(node), frozen, up_longer });
}

/// It has delivered them.
fn delivers(keeper: &mut Keeper<'_>, node: &str) {
    let key = Arc::new(FrozenKey { number: NUMBER, node: name_of(node), lane: "local".to_owned() });
    keeper.take(FrozenNews::Lane { key: key.clone(), epoch: 1, period: Nanos::SECOND });
    let bytes = schema();
    keeper.take(FrozenNews::Schema { key: key.clone(), generation: 1, offset: 0, bytes });
    keeper.take(FrozenNews::Block { key, bytes: block() });
    keeper.take(FrozenNews::Whole { number: NUMBER, node: name_of(node) });
}

#[test]
fn rows_have_the_times_of_our_clock_at_the_moment_whatever_clock_is_set_before_or_after_it() {
    let (second, hour) = (1_000_000_000, 3_600_000_000_000_i64);
    for (before, after) in [(0, 0), (hour, 0), (0, -hour), (-hour, hour)] {
        let place = Place::new("clock", &["n1"], u64::MAX);
        let mut keeper = Keeper::new(&place.shared);
        let entry = place.entry();
        // The node is up for 500 s less than we are, and shows any time.
        let up_longer = 500 * second;
        let at = |since: i64| Nanos((entry.since_boot().unwrap() as i64 - up_longer + since) as u64);
        let key = Arc::new(FrozenKey { number: NUMBER, node: name_of("n1"), lane: "local".to_owned() });
        keeps_rows(&mut keeper, "n1", 2, Some(up_longer));
        keeper.take(FrozenNews::Lane { key: key.clone(), epoch: 1, period: Nanos::SECOND });
        let bytes = schema();
        keeper.take(FrozenNews::Schema { key: key.clone(), generation: 1, offset: 0, bytes });
        for (row, since, real_offset) in [(0, -second, before), (1, second, after)] {
            let bytes = block_at(row, Stamp { boot: at(since), real_offset });
            keeper.take(FrozenNews::Block { key: key.clone(), bytes });
        }
        keeper.take(FrozenNews::Whole { number: NUMBER, node: name_of("n1") });
        let survey = khz_record::Survey::of(&khz_record::Recording::of(&[place.recording()])).unwrap();
        let span = survey.span().map(|(first, last)| (first.0 as i64 - entry.at, last.0 as i64 - entry.at));
        assert_eq!((span, survey.lanes[0].rows), (Some((-second, second)), 2));
    }
}

#[test]
fn a_hub_that_stood_still_waits_for_its_nodes_again() {
    let place = Place::new("still", &["n1"], u64::MAX);
    let mut keeper = Keeper::new(&place.shared);
    let long_ago = Instant::now().checked_sub(2 * AWAITED).unwrap();
    let age = || {
        let mut state = place.shared.state();
        let running = state.running.get_mut(&NUMBER).unwrap();
        (running.moved, running.over) = (long_ago, long_ago);
    };
    age();
    keeper.turned(2 * AWAITED);
    keeper.tick();
    assert!(!place.entry().is_over, "it has not waited");
    age();
    keeper.turned(TICK);
    keeper.tick();
    assert!(place.entry().is_over, "it has");
}

#[test]
fn rows_for_which_the_disk_has_no_room_wait_and_their_node_is_not_fetched_until_they_are_written() {
    let place = Place::new("full", &["n1", "n2"], u64::MAX);
    let mut keeper = Keeper::new(&place.shared);
    symlink("/dev/full", place.recording()).unwrap();
    for node in ["n1", "n2"] {
        keeps(&mut keeper, node);
        delivers(&mut keeper, node);
    }
    keeper.tick();
    assert_eq!((place.state("n1"), place.state("n2")), (NodeState::Kept, NodeState::Kept));
    assert!(!place.entry().is_over);
    let waits = place.shared.state().running[&NUMBER].waits.clone();
    assert!(waits.is_some_and(|why| why.contains("No space left")));
    std::fs::remove_file(place.recording()).unwrap();
    keeper.tick();
    let entry = place.entry();
    assert!(entry.is_over && entry.problem.is_none(), "{entry:?}");
    assert_eq!((entry.rows, &*entry.groups[0].state, entry.groups[0].count), (2 * ROWS, "fetched", 2));
    assert_eq!((place.rows("n1"), place.rows("n2")), (ROWS, ROWS));
    assert!(entry.fetched.is_some());
}

#[test]
fn a_disk_that_stays_full_leaves_what_is_in_the_file_and_names_the_nodes_that_lack_rows() {
    let place = Place::new("hopeless", &["n1", "n2"], u64::MAX);
    let mut keeper = Keeper::new(&place.shared);
    symlink("/dev/full", place.recording()).unwrap();
    ["n1", "n2"].iter().for_each(|node| keeps(&mut keeper, node));
    delivers(&mut keeper, "n1");
    keeper.tick();
    assert!(!place.entry().is_over, "it waits");
    keeper.writings.get_mut(&NUMBER).unwrap().age();
    keeper.tick();
    let entry = place.entry();
    assert!(entry.is_over && entry.problem.is_some(), "{entry:?}");
    assert_eq!((entry.rows, &*entry.groups[0].state, entry.groups[0].count), (0, "missing", 2));
    assert!(entry.groups[0].text.contains("disk"), "{entry:?}");
    assert_eq!(entry.fetched, None, "no row is on the disk");
}

#[test]
fn a_recording_that_somebody_removes_is_fetched_again_and_what_was_under_way_counts_for_nothing() {
    let place = Place::new("removed", &["n1", "n2"], u64::MAX);
    let mut keeper = Keeper::new(&place.shared);
    ["n1", "n2"].iter().for_each(|node| keeps(&mut keeper, node));
    delivers(&mut keeper, "n1");
    keeper.tick();
    assert_eq!(place.state("n1"), NodeState::Fetched);
    std::fs::remove_file(place.recording()).unwrap();
    delivers(&mut keeper, "n2");
    assert_eq!((place.state("n1"), place.state("n2")), (NodeState::Kept, NodeState::Kept));
    // From before it was asked for again.
    delivers(&mut keeper, "n2");
    assert_eq!(place.state("n2"), NodeState::Kept);
    keeper.take(FrozenNews::Again { number: NUMBER });
    ["n1", "n2"].iter().for_each(|node| delivers(&mut keeper, node));
    let entry = place.entry();
    assert!(entry.is_over && entry.problem.is_none(), "{entry:?}");
    assert_eq!((entry.rows, place.rows("n1"), place.rows("n2")), (2 * ROWS, ROWS, ROWS));
}

#[test]
fn a_recording_that_is_larger_than_all_the_room_is_not_kept_and_its_freeze_says_why() {
    let place = Place::new("room", &["n1"], 10);
    let mut keeper = Keeper::new(&place.shared);
    keeps(&mut keeper, "n1");
    delivers(&mut keeper, "n1");
    let entry = place.entry();
    assert!(entry.problem.as_ref().is_some_and(|text| text.contains("may have 10 B")), "{entry:?}");
    assert_eq!((entry.rows, entry.bytes, &*entry.groups[0].state), (0, 0, "missing"));
    assert!(!place.recording().exists());
}

#[test]
fn what_was_measured_is_the_answer_of_the_last_node_that_was_there_and_nothing_after_another_start() {
    let place = Place::new("marked", &["n1", "n2"], u64::MAX);
    let mut keeper = Keeper::new(&place.shared);
    keeper.take(FrozenNews::Asked { number: NUMBER, unasked: vec![(name_of("n2"), Unasked::Down)] });
    assert_eq!(place.entry().marked, None, "no node has answered");
    keeps(&mut keeper, "n1");
    let marked = place.entry().marked.unwrap();
    assert!(marked < 60_000_000_000, "{marked}");
    let list = std::fs::read_to_string(place.folder.join("blackbox/freezes.jsonl")).unwrap();
    assert!(list.contains(&format!("\"marked\":{marked}")), "it is on the disk: {list}");
    let again = Place::new("marked-again", &["n1"], u64::MAX);
    again.shared.state().running.get_mut(&NUMBER).unwrap().is_resumed = true;
    keeps(&mut Keeper::new(&again.shared), "n1");
    assert_eq!(again.entry().marked, None);
}

#[test]
fn a_freeze_of_nodes_that_do_not_exist_ends_at_once_unless_the_hub_has_just_started() {
    for is_resumed in [false, true] {
        let place = Place::new("unknown", &["n1", "n2"], u64::MAX);
        place.shared.state().running.get_mut(&NUMBER).unwrap().is_resumed = is_resumed;
        let unasked = vec![(name_of("n1"), Unasked::Unknown), (name_of("n2"), Unasked::TooOld)];
        Keeper::new(&place.shared).take(FrozenNews::Asked { number: NUMBER, unasked });
        assert_eq!(place.entry().is_over, !is_resumed);
        assert_eq!((place.entry().marked, place.entry().fetched), (None, None));
    }
}
