//! A hub's log in its own folder: what a killed hub finds there, and which rows the log must have. In a real hub, sealed
//! segments become column files; this code only counts their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use khz_block::{Decoder, Step};
use khz_model::{Nanos, NodeName, Series};
use khz_store::log::{Intake, Log, LoggedBlock};

use super::random::Random;
use super::tape::{seed, value};

/// The log of one hub over its restarts. Its folder goes with it.
pub struct Stored {
    folder: PathBuf,
    /// `None` between a kill and the next start.
    log: Option<Log>,
    /// Sealed segments become columns. The rows of a block that is open then are stored in parts.
    pub removes: bool,
    /// Rows of segments that were removed, and when these were gathered.
    columns: Rows,
    column_times: BTreeMap<NodeName, BTreeSet<Nanos>>,
}

/// The rows of each node, and how often each came.
type Rows = BTreeMap<NodeName, BTreeMap<u64, u64>>;

impl Stored {
    /// An empty log.
    pub fn new(removes: bool) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        // In memory where that is possible: a log waits for its disk.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = place.join(format!("khz-hub-simulation-{}-{number}", std::process::id()));
        Stored { folder, log: None, removes, columns: Rows::new(), column_times: BTreeMap::new() }
    }

    /// The hub starts.
    pub fn start(&mut self) -> Intake {
        let (log, intake, damage) = Log::open(&self.folder).expect("a log");
        assert!(damage.is_empty(), "{damage:?}");
        self.log = Some(log);
        intake
    }

    /// The hub is killed: everything that was not committed is gone.
    pub fn kill(&mut self) {
        self.log = None;
    }

    /// A second has passed. Now and then a segment is sealed, and an older one becomes columns.
    pub fn commit(&mut self, random: &mut Random) {
        let Some(log) = &mut self.log else { return };
        log.commit().expect("room");
        if random.once_in(3) {
            log.seal();
        }
        let removes = self.removes && random.once_in(3);
        let Some(&oldest) = log.sealed().first().filter(|_| removes) else { return };
        let view = log.view();
        for node in view.nodes(Some(oldest)) {
            let mut damage = Vec::new();
            let blocks = view.blocks(&node, Some(oldest), Nanos(0), Nanos(u64::MAX), &mut damage);
            assert!(damage.is_empty(), "{damage:?}");
            add(&mut self.columns, &node, &blocks);
            let times = blocks.iter().flat_map(|block| times(&block.bytes));
            self.column_times.entry(node).or_default().extend(times);
        }
        log.remove(oldest).expect("a sealed segment");
    }

    /// Every row of a node that is stored, and how often: in columns, in blocks, and in the block that is open.
    pub fn rows(&self, node: &NodeName, open: Option<LoggedBlock>) -> BTreeMap<u64, u64> {
        let mut rows: Rows = self
            .columns
            .get_key_value(node)
            .map(|(name, rows)| (name.clone(), rows.clone()))
            .into_iter()
            .collect();
        let mut damage = Vec::new();
        let view = self.log.as_ref().expect("a log").view();
        let mut blocks = view.blocks(node, None, Nanos(0), Nanos(u64::MAX), &mut damage);
        assert!(damage.is_empty(), "{damage:?}");
        blocks.extend(open);
        add(&mut rows, node, &blocks);
        rows.remove(node).unwrap_or_default()
    }
}

/// The rows of all epochs.
impl Stored {
    /// When each row of a node was gathered that is stored, whatever its epoch.
    pub fn times(&self, node: &NodeName, open: Option<LoggedBlock>) -> BTreeSet<Nanos> {
        let (mut damage, view) = (Vec::new(), self.log.as_ref().expect("a log").view());
        let blocks = view.blocks(node, None, Nanos(0), Nanos(u64::MAX), &mut damage);
        assert!(damage.is_empty(), "{damage:?}");
        let stored = blocks.iter().chain(&open).flat_map(|block| times(&block.bytes));
        stored.chain(self.column_times.get(node).into_iter().flatten().copied()).collect()
    }
}

/// When each row of a block was gathered.
pub fn times(mut bytes: &[u8]) -> Vec<Nanos> {
    let (mut decoder, mut times) = (Decoder::new(), Vec::new());
    while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(bytes) {
        bytes = &bytes[length..];
        times.extend(matches!(step, Step::Row(_)).then(|| decoder.stamp().boot));
    }
    times
}

impl Drop for Stored {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn add(rows: &mut Rows, node: &NodeName, blocks: &[LoggedBlock]) {
    let of_node = rows.entry(node.clone()).or_default();
    for block in blocks {
        let series = &block.schema.series()[..block.header.slots as usize];
        let numbers = numbers(node.as_str(), series, &block.bytes, true);
        assert_eq!(numbers.len(), block.rows as usize, "{node}");
        numbers.into_iter().for_each(|number| *of_node.entry(number).or_default() += 1);
    }
}

/// The numbers of the rows of a block, whose values must be those of their series. With `lacks_some`, the block came
/// through another hub: there, a row from before a series came has no value of that series.
pub fn numbers(node: &str, series: &[Series], mut bytes: &[u8], lacks_some: bool) -> BTreeSet<u64> {
    let seeds: Vec<u64> = series.iter().map(|series| seed(node, series)).collect();
    let (mut decoder, mut numbers) = (Decoder::new(), BTreeSet::new());
    while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(bytes) {
        bytes = &bytes[length..];
        if matches!(step, Step::Header(_)) {
            continue;
        }
        numbers.insert(decoder.next_row() - 1);
        let boot = decoder.stamp().boot;
        for (slot, seed) in seeds.iter().enumerate() {
            let found = decoder.reading(slot).and_then(|reading| reading.value());
            let is_missing = found.is_none() && lacks_some;
            assert!(is_missing || found == Some(value(*seed, boot)), "{node}: slot {slot} has {found:?}");
        }
    }
    numbers
}
