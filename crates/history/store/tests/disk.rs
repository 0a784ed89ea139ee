//! A real disk that is full, becomes read-only, or loses the store's folder: the store goes on, says what is wrong, and stores
//! what has waited as soon as it can.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::folder;
use common::open::Open;
use common::sender::{BLOCK_ROWS, PERIOD, Sender, check, time};
use common::stored::*;
use khz_model::Nanos;
use khz_store::log::Intake;
use khz_store::range::RangeReader;
use khz_store::{Store, StoreError, StoreReader};

/// Runs the calling test in a mount namespace of its own, as [`khz_skip::in_mount_namespace`] does, on a new folder.
fn in_namespace(test: &str, script: &str) -> Option<PathBuf> {
    khz_skip::in_mount_namespace(test, || folder(test), script)
}

fn run(words: &[&str]) {
    assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success(), "{words:?}");
}

/// Nodes that send to a store.
struct World {
    store: Store,
    intake: Intake,
    senders: Vec<Sender>,
}

impl World {
    fn open(folder: &Path) -> Self {
        let (store, intake) = open_store(folder, everything(), BEGIN);
        let open = Open::of(&intake);
        let senders = (0..NODES).map(|number| Sender::begin(number, &intake, &open)).collect();
        World { store, intake, senders }
    }

    fn send(&mut self, rows: u64) -> Result<(), StoreError> {
        self.senders.iter_mut().for_each(|sender| sender.send(&self.intake, rows));
        self.store.commit(Nanos(self.now())).map(drop)
    }

    fn next(&self) -> u64 {
        self.senders[0].next
    }

    fn now(&self) -> u64 {
        time(self.next())
    }

    /// What this process answers, from this row on.
    fn found(&self, from: u64) -> Vec<u64> {
        let log = Some(self.store.log());
        check(&RangeReader::new(self.store.shelf().clone(), log, Arc::new(())), NODES, from)
    }

    /// Open blocks end, and all rows are stored, here and for another process.
    fn check_all(&mut self, folder: &Path, from: u64) {
        let rest = BLOCK_ROWS - self.next() % BLOCK_ROWS;
        self.send(rest).unwrap();
        let all = vec![self.next(); NODES];
        assert_eq!(self.found(from), all);
        settle(&self.store, self.now() + MINUTE);
        assert_eq!(self.found(from), all);
        let reader = StoreReader::open(folder).unwrap();
        assert!(reader.damage().is_empty(), "{:?}", reader.damage());
        let beside = RangeReader::new(reader.shelf().clone(), Some(reader.log()), Arc::new(()));
        assert_eq!(check(&beside, NODES, from), all);
        assert!(self.senders.iter().all(|sender| sender.lane.stored_until() == self.next()));
    }
}

fn kind(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::File { source, .. } | StoreError::Write(source) => source.kind(),
        other => panic!("{other}"),
    }
}

#[test]
fn what_a_full_disk_did_not_take_is_stored_when_there_is_room() {
    let test = "what_a_full_disk_did_not_take_is_stored_when_there_is_room";
    let Some(disk) = in_namespace(test, "mount -t tmpfs -o size=512k none \"$1\"") else { return };
    let folder = disk.join("store");
    let mut world = World::open(&folder);
    world.send(5).unwrap();
    let filler = disk.join("filler");
    assert!(fs::write(&filler, vec![1; 1 << 20]).is_err(), "the disk is full now");
    let mut failures = 0;
    while failures < 5 {
        if let Err(error) = world.send(7) {
            assert_eq!(kind(&error), ErrorKind::StorageFull, "{error}");
            assert!(error.to_string().contains("store/log"), "{error}");
            failures += 1;
        }
        assert!(world.next() < 100_000, "the disk takes everything");
        world.store.seal();
        if let Err(error) = world.store.tick_compaction(Nanos(world.now())) {
            assert_eq!(kind(&error), ErrorKind::StorageFull, "{error}");
        }
    }
    assert!(world.intake.counts().failures.load(Ordering::Relaxed) >= 5);
    assert_eq!(world.intake.counts().rows_lost.load(Ordering::Relaxed), 0);
    fs::remove_file(&filler).unwrap();
    world.check_all(&folder, 0);
}

#[test]
fn a_store_on_a_disk_that_is_read_only_goes_on_when_it_is_not_any_more() {
    let test = "a_store_on_a_disk_that_is_read_only_goes_on_when_it_is_not_any_more";
    let Some(disk) = in_namespace(test, "mount -t tmpfs none \"$1\"") else { return };
    let folder = disk.join("store");
    let mut world = World::open(&folder);
    world.send(70).unwrap();
    let path = folder.to_str().unwrap();
    // What is open can still be written; no file can be made.
    run(&["mount", "--bind", path, path]);
    run(&["mount", "-o", "remount,bind,ro", path]);
    world.store.seal();
    let (mut commits, mut compactions) = (0, 0);
    for _ in 0..5 {
        let error = world.send(BLOCK_ROWS).unwrap_err();
        assert_eq!(kind(&error), ErrorKind::ReadOnlyFilesystem, "{error}");
        commits += 1;
        if let Err(error) = world.store.tick_compaction(Nanos(world.now() + HOUR)) {
            assert_eq!(kind(&error), ErrorKind::ReadOnlyFilesystem, "{error}");
            compactions += 1;
        }
    }
    assert!(commits == 5 && compactions > 0, "{commits}, {compactions}");
    assert!(world.found(0).iter().all(|next| *next > 70), "blocks that wait can be read");
    let opened = World::open_refused(&folder);
    assert!(opened.contains(path), "{opened}");
    assert!(StoreReader::open(&folder).unwrap().damage().is_empty(), "it can be read");
    run(&["umount", path]);
    world.check_all(&folder, 0);
}

impl World {
    /// Why nobody can write to the store.
    fn open_refused(folder: &Path) -> String {
        Store::open(folder, everything(), Nanos(BEGIN)).unwrap_err().to_string()
    }
}

#[test]
fn a_store_whose_folder_is_removed_counts_what_is_lost_and_stores_what_comes() {
    let folder = folder("disk-removed").join("store");
    let mut world = World::open(&folder);
    world.send(150).unwrap();
    world.store.seal();
    settle(&world.store, world.now());
    // An open block began in the segment: it waits for a while.
    settle(&world.store, world.now() + 3 * MINUTE);
    let columns = world.next() / BLOCK_ROWS * BLOCK_ROWS;
    world.send(45).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    world.send(5).unwrap();
    let lost = || world.intake.counts().rows_lost.load(Ordering::Relaxed);
    assert_eq!(lost(), 0, "the log is there again");
    settle(&world.store, world.now());
    assert_eq!(lost(), columns * NODES as u64, "those of the column files");
    world.send(90).unwrap();
    world.check_all(&folder, columns);
    assert_eq!(world.intake.counts().rows_lost.load(Ordering::Relaxed), columns * NODES as u64);
}

#[test]
fn a_start_without_column_files_wants_the_rows_again_that_they_had() {
    let folder = folder("disk-no-columns");
    let mut world = World::open(&folder);
    world.send(160).unwrap();
    world.store.seal();
    settle(&world.store, world.now());
    world.send(40).unwrap();
    assert!(world.senders.iter().all(|sender| sender.lane.stored() == [(0, 200)]));
    drop(world);
    let stored = || {
        let (_store, intake) = open_store(&folder, everything(), BEGIN);
        let of_node = |number| intake.lane(&common::node(number), common::sender::EPOCH).stored();
        (0..NODES).map(of_node).collect::<Vec<_>>()
    };
    assert_eq!(stored(), vec![vec![(0, 200)]; NODES]);
    fs::remove_dir_all(folder.join("raw")).unwrap();
    assert_eq!(stored(), vec![vec![(160, 200)]; NODES], "segments have the others only by name");
}

#[test]
fn a_column_file_that_somebody_removes_or_replaces_is_counted_and_one_that_compaction_removes_is_not() {
    let folder = folder("disk-counted");
    let mut world = World::open(&folder);
    let lost = |world: &World| world.intake.counts().rows_lost.load(Ordering::Relaxed);
    for _ in 0..3 {
        world.send(400).unwrap();
        world.store.seal();
        settle(&world.store, world.now());
    }
    settle(&world.store, world.now() + 2 * HOUR);
    assert!(world.store.counts().rows.load(Ordering::Relaxed) > 0);
    assert_eq!(lost(&world), 0, "pieces were merged");
    let raw = || {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder.join("raw")).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let files = raw();
    assert!(files.len() > 2, "{files:?}");
    // A copy of it.
    let bytes = fs::read(&files[0]).unwrap();
    fs::remove_file(&files[0]).unwrap();
    fs::write(&files[0], bytes).unwrap();
    settle(&world.store, world.now() + 2 * HOUR);
    assert_eq!(lost(&world), 0);
    fs::remove_file(&files[1]).unwrap();
    settle(&world.store, world.now() + 2 * HOUR);
    let of_hour = (HOUR / PERIOD) * NODES as u64;
    assert_eq!(lost(&world), of_hour, "a whole hour");
    settle(&world.store, world.now() + 2 * HOUR);
    assert_eq!(lost(&world), of_hour, "once");
}

#[test]
fn a_store_whose_folder_is_replaced_by_another_one_adds_to_that() {
    let folder = folder("disk-replaced").join("store");
    let mut world = World::open(&folder);
    for _ in 0..6 {
        world.send(30).unwrap();
        world.store.seal();
    }
    let copied = folder.with_extension("copy");
    copy(&folder, &copied);
    let from = world.next();
    world.send(30).unwrap();
    fs::rename(&folder, folder.with_extension("old")).unwrap();
    fs::rename(&copied, &folder).unwrap();
    world.store.seal();
    // The rows of its open block that it has written are in the other folder.
    world.check_all(&folder, 0);
    assert!(world.next() > from);
}
