//! Lost power: of every file only what was synced is left, and of what was written since, some pages. A name that was given,
//! replaced or removed since its folder was synced may be the old one. Every row that was called stored is found all the same.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::folder;
use common::open::Open;
use common::sender::{Sender, check, time};
use common::stored::*;
use khz_model::Nanos;
use khz_store::disk::Disk;
use khz_store::range::{ColumnFiles, RangeReader};
use khz_store::{Store, StoreReader};

const PAGE: usize = 4_096;
const TIERS: [&str; 3] = ["raw", "minute", "hour"];
const LOG: &str = "log";
/// Bytes of a new segment that are synced before its name is there.
const SEGMENT_HEADER: usize = 8;
/// Times that the power goes, in each case.
const LIVES: usize = 5;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What is left of a commit that was not synced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Torn {
    /// Its first pages.
    Begin,
    /// Any pages.
    Pages,
}

/// What is on the disk under a name; `None`: nobody knows, because it was not synced.
type Content = Option<Arc<Vec<u8>>>;
/// Files by their paths.
type Files = BTreeMap<PathBuf, Vec<u8>>;
type Names = BTreeMap<PathBuf, Content>;

/// A disk that knows how much of it was synced.
struct Machine {
    folder: PathBuf,
    /// Files whose bytes are on the disk, by the names that they have now.
    synced: BTreeMap<PathBuf, Arc<Vec<u8>>>,
    /// The names that each folder has on the disk.
    names: BTreeMap<&'static str, Names>,
    /// The operation that was about to be done when we were called last.
    last: Option<(&'static str, PathBuf)>,
    random: Random,
    torn: Torn,
    /// Moments at which the power could go, in this life.
    moments: u64,
    /// Rows of each node that have been called stored.
    stored: Vec<u64>,
    /// What is left if the power goes at one of these moments, and what was stored then.
    left: Option<(Files, Vec<u64>)>,
}

impl Machine {
    fn new(folder: &Path, seed: u64, torn: Torn) -> Self {
        Machine {
            folder: folder.to_owned(),
            synced: BTreeMap::new(),
            names: BTreeMap::new(),
            last: None,
            random: Random(seed * 2 + 1),
            torn,
            moments: 0,
            stored: vec![0; NODES],
            left: None,
        }
    }

    /// All files are on the disk, as after a start of the machine.
    fn begin(&mut self) {
        (self.last, self.moments, self.left) = (None, 0, None);
        self.synced = TIERS.iter().flat_map(|tier| self.files(tier)).collect();
        self.names = TIERS.iter().chain([&LOG]).map(|tier| (*tier, self.now(tier))).collect();
    }

    fn files(&self, of: &str) -> Vec<(PathBuf, Arc<Vec<u8>>)> {
        let Ok(entries) = fs::read_dir(self.folder.join(of)) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.map(|path| (path.clone(), Arc::new(fs::read(path).unwrap()))).collect()
    }

    /// The names in a folder, and what of their files is on the disk.
    fn now(&self, of: &str) -> Names {
        let files = self.files(of).into_iter();
        match of {
            // The log syncs whatever it writes before it returns.
            LOG => files.map(|(path, bytes)| (path, Some(bytes))).collect(),
            _ => files.map(|(path, _)| (path.clone(), self.synced.get(&path).cloned())).collect(),
        }
    }

    /// An operation on a column file or its folder is about to be done.
    fn operation(&mut self, what: &'static str, path: &Path) {
        self.note();
        self.may_go(|_| {});
        self.last = Some((what, path.to_owned()));
    }

    /// Notes what the last operation has done.
    fn note(&mut self) {
        self.note_log();
        let Some((what, path)) = self.last.take() else { return };
        match what {
            "sync" if path.is_dir() => {
                if let Some(of) = TIERS.iter().find(|tier| path.ends_with(tier)) {
                    let now = self.now(of);
                    self.names.insert(of, now);
                }
            }
            "sync" => _ = self.synced.insert(path.clone(), Arc::new(fs::read(path).unwrap())),
            "create" | "remove" => _ = self.synced.remove(&path),
            "rename" => {
                let to = path.with_extension("");
                assert_eq!(path.extension().unwrap(), "part", "only finished files get another name");
                let content = self.synced.remove(&path);
                self.synced.remove(&to);
                self.synced.extend(content.map(|content| (to, content)));
            }
            other => panic!("{other} {}", path.display()),
        }
    }

    /// The log syncs its folder when it makes a segment, and not when it removes one.
    fn note_log(&mut self) {
        let now = self.now(LOG);
        let known = self.names.entry(LOG).or_default();
        match now.keys().any(|name| !known.contains_key(name)) {
            true => *known = now,
            false => known.extend(now),
        }
    }

    /// The power may go now. `change` makes further losses.
    fn may_go(&mut self, change: impl FnOnce(&mut Self)) {
        self.moments += 1;
        if self.random.below(self.moments) == 0 {
            self.left = Some((self.what_is_left(), self.stored.clone()));
            change(self);
        }
    }

    fn what_is_left(&mut self) -> Files {
        let mut left = BTreeMap::new();
        for of in TIERS.into_iter().chain([LOG]) {
            let names = match self.random.below(2) {
                0 => self.names.get(of).cloned().unwrap_or_default(),
                _ => self.now(of),
            };
            for (path, content) in names {
                let bytes = match content {
                    Some(bytes) => bytes.to_vec(),
                    None => self.torn(0, fs::read(&path).unwrap_or_default(), Torn::Pages),
                };
                left.insert(path, bytes);
            }
        }
        left
    }

    /// The first `synced` bytes, and of the rest some pages. The others are zeros, or the file ends before them.
    fn torn(&mut self, synced: usize, mut bytes: Vec<u8>, torn: Torn) -> Vec<u8> {
        let pages: Vec<usize> = (synced - synced % PAGE..bytes.len()).step_by(PAGE).collect();
        let end = self.random.below(pages.len() as u64 + 1) as usize;
        for (number, begin) in pages.into_iter().enumerate() {
            let is_there = match torn {
                Torn::Begin => number < end,
                Torn::Pages => self.random.below(2) == 0,
            };
            let end = (begin + PAGE).min(bytes.len());
            if !is_there {
                bytes[begin.max(synced)..end].fill(0);
            }
        }
        if self.random.below(2) == 0 {
            let left = self.random.below((bytes.len() - synced) as u64 + 1) as usize;
            bytes.truncate(synced + left);
        }
        bytes
    }

    /// A commit has been written. The power may have gone before it was synced.
    fn committed(&mut self, before: &Files) {
        let written: Vec<(PathBuf, Arc<Vec<u8>>)> = self.files(LOG);
        self.note();
        self.may_go(|machine| {
            for (path, bytes) in written {
                let synced = before.get(&path).map_or(SEGMENT_HEADER, Vec::len);
                let torn = machine.torn(synced.min(bytes.len()), bytes.to_vec(), machine.torn);
                if let Some(left) = &mut machine.left {
                    left.0.insert(path, torn);
                }
            }
        });
    }

    /// The power goes. Returns what was stored.
    fn lose_power(&mut self) -> Vec<u64> {
        let (left, stored) = self.left.take().unwrap();
        for of in TIERS.into_iter().chain([LOG]) {
            for (path, _) in self.files(of) {
                fs::remove_file(path).unwrap();
            }
        }
        for (path, bytes) in left {
            fs::write(path, bytes).unwrap();
        }
        self.stored.clone_from(&stored);
        stored
    }
}

/// From a start to the moment at which the power goes.
fn live(folder: &Path, machine: &Arc<Mutex<Machine>>) {
    machine.lock().unwrap().begin();
    let watched = machine.clone();
    let disk = Disk::watched(move |what, path| {
        watched.lock().unwrap().operation(what, path);
        Ok(())
    });
    let (store, intake, damage) = Store::open_on(disk, folder, everything(), Nanos(BEGIN)).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    let open = Open::of(&intake);
    let mut senders: Vec<Sender> = (0..NODES).map(|number| Sender::begin(number, &intake, &open)).collect();
    let stored =
        |senders: &[Sender]| senders.iter().map(|sender| sender.lane.stored_until()).collect::<Vec<u64>>();
    machine.lock().unwrap().stored = stored(&senders);
    let below = |limit| machine.lock().unwrap().random.below(limit);
    for _ in 0..4 + below(10) {
        let rows = 1 + below(40);
        senders.iter_mut().for_each(|sender| sender.send(&intake, rows));
        let now = senders.iter().map(|sender| time(sender.next)).min().unwrap();
        let before: Files = {
            let machine = machine.lock().unwrap();
            machine.files(LOG).into_iter().map(|(path, bytes)| (path, bytes.to_vec())).collect()
        };
        store.commit(Nanos(now)).unwrap();
        machine.lock().unwrap().committed(&before);
        machine.lock().unwrap().stored = stored(&senders);
        settle(&store, now);
    }
}

/// What another process finds.
fn found(folder: &Path) -> Vec<u64> {
    let reader = StoreReader::open(folder).unwrap();
    assert!(reader.damage().is_empty(), "{:?}", reader.damage());
    check(&RangeReader::new(reader.shelf().clone(), Some(reader.log()), Arc::new(())), NODES, 0)
}

fn lose_power_often(name: &str, seeds: u64, torn: Torn) {
    for seed in 0..seeds {
        let folder = folder(name);
        let machine = Arc::new(Mutex::new(Machine::new(&folder, seed, torn)));
        for life in 0..LIVES {
            live(&folder, &machine);
            let stored = machine.lock().unwrap().lose_power();
            let found = found(&folder);
            assert!(
                stored.iter().zip(&found).all(|(stored, found)| stored <= found),
                "seed {seed}, life {life}: {stored:?} were stored, {found:?} are there"
            );
        }
        let before = found(&folder);
        let (store, _intake) = open_store(&folder, everything(), BEGIN);
        let last = time(*before.iter().max().unwrap());
        // Late rows of an hour wait for others.
        (3..6).for_each(|hours| _ = settle(&store, last + hours * HOUR));
        let ranges = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
        assert_eq!(check(&ranges, NODES, 0), before, "seed {seed}");
        assert!(store.shelf().hours(Nanos(0), Nanos(u64::MAX)).iter().all(|hour| hour.is_settled));
        check_roll_ups(store.shelf(), BEGIN, last - last % HOUR + HOUR);
        assert!(store.shelf().check().is_empty(), "nothing is left over");
        fs::remove_dir_all(&folder).unwrap();
    }
}

fn seeds() -> u64 {
    std::env::var("KHZ_STORE_SEEDS").map_or(12, |seeds| seeds.parse().unwrap())
}

#[test]
fn power_may_go_at_any_time_and_what_was_stored_is_found() {
    lose_power_often("power", seeds(), Torn::Begin);
}

#[test]
fn a_commit_of_which_any_pages_are_missing_is_left_out() {
    lose_power_often("power-pages", seeds(), Torn::Pages);
}
