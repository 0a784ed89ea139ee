//! Files of other versions: a log that an earlier khz wrote is read, and one of a newer khz is named and left. (Column files:
//! tests/files.rs and tests/damage.rs.)

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::folder;
use common::open::Open;
use common::sender::{Sender, check, time};
use common::stored::*;
use khz_model::Nanos;
use khz_store::range::RangeReader;
use khz_store::{Store, StoreError, StoreReader};

/// A segment of each version: whole blocks of three nodes, and rows of open blocks. Version 1 has no lists.
const KEPT: [&[u8]; 2] = [include_bytes!("golden.log"), include_bytes!("golden2.log")];
/// The rows that each node has in it.
const ROWS: u64 = 53;
/// Where the version stands.
const VERSION_AT: usize = 4;

/// Writes such a segment.
fn write(folder: &Path) {
    let (store, intake) = open_store(folder, everything(), BEGIN);
    let open = Open::of(&intake);
    let mut senders: Vec<Sender> = (0..NODES).map(|number| Sender::begin(number, &intake, &open)).collect();
    for rows in [ROWS - 20, 20] {
        senders.iter_mut().for_each(|sender| sender.send(&intake, rows));
        store.commit(Nanos(BEGIN)).unwrap();
    }
    assert!(senders.iter().all(|sender| sender.lane.stored_until() == ROWS));
}

fn segment(folder: &Path) -> std::path::PathBuf {
    folder.join("log/0000000001.log")
}

fn found(folder: &Path) -> Vec<u64> {
    let reader = StoreReader::open(folder).unwrap();
    assert!(reader.damage().is_empty(), "{:?}", reader.damage());
    check(&RangeReader::new(reader.shelf().clone(), Some(reader.log()), Arc::new(())), NODES, 0)
}

#[test]
fn a_log_that_an_earlier_khz_wrote_is_read_and_continued() {
    for (at, kept) in KEPT.into_iter().enumerate() {
        assert_eq!(usize::from(kept[VERSION_AT]), at + 1);
        read_and_continue(&folder(&format!("versions-kept-{at}")), kept);
    }
}

fn read_and_continue(folder: &Path, kept: &[u8]) {
    fs::create_dir_all(folder.join("log")).unwrap();
    fs::write(segment(folder), kept).unwrap();
    assert_eq!(found(folder), [ROWS; NODES]);
    let (store, intake) = open_store(folder, everything(), BEGIN);
    let open = Open::of(&intake);
    let mut senders: Vec<Sender> = (0..NODES).map(|number| Sender::begin(number, &intake, &open)).collect();
    assert!(senders.iter().all(|sender| sender.lane.stored_until() == ROWS));
    senders.iter_mut().for_each(|sender| sender.send(&intake, ROWS));
    let next = senders[0].next;
    store.commit(Nanos(time(next))).unwrap();
    assert_eq!(found(folder), [next; NODES]);
    settle(&store, time(next) + 3 * MINUTE);
    assert_eq!(found(folder), [next; NODES]);
}

#[test]
fn a_log_of_a_newer_khz_is_named_and_left_and_another_one_begins() {
    let folder = folder("versions-newer");
    write(&folder);
    let mut bytes = fs::read(segment(&folder)).unwrap();
    bytes[VERSION_AT] += 1;
    fs::write(segment(&folder), &bytes).unwrap();
    let (store, intake, damage) = Store::open(&folder, everything(), Nanos(BEGIN)).unwrap();
    assert!(matches!(damage[..], [StoreError::Version { version: 3, .. }]), "{damage:?}");
    let path = segment(&folder).display().to_string();
    let expected = format!("{path}: version 3 of the store's files; this program reads up to version 2");
    assert_eq!(damage[0].to_string(), expected);
    let open = Open::of(&intake);
    let mut senders: Vec<Sender> = (0..NODES).map(|number| Sender::begin(number, &intake, &open)).collect();
    senders.iter_mut().for_each(|sender| sender.send(&intake, 200));
    store.commit(Nanos(time(200))).unwrap();
    settle(&store, time(200) + 3 * HOUR);
    let ranges = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    assert_eq!(check(&ranges, NODES, 0), [200; NODES], "the newer log's rows were sent again");
    assert_eq!(fs::read(segment(&folder)).unwrap(), bytes, "it stays as it is");
}

/// Writes the segment of this version that is kept.
#[test]
#[ignore = "it writes into the repository"]
fn a_segment_to_keep() {
    let folder = folder("versions-keep");
    write(&folder);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden2.log");
    fs::copy(segment(&folder), kept).unwrap();
}
