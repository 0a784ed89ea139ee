//! The snapshot as other processes see it: its file, its rows under load, its end.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use khz_model::{Absence, Kind, Nanos, Reading, Stamp, ValueFormat, ValueType};
use khz_ring::{
    SNAPSHOT_SLOTS_MAX, SlotName, Snapshot, SnapshotFull, SnapshotLabel, SnapshotWriter, Unsettled,
};

/// A directory that is removed when the test ends.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("khz-snapshot-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        Place(place)
    }

    fn file(&self) -> PathBuf {
        self.0.join("snapshot")
    }

    fn writer(&self) -> SnapshotWriter {
        SnapshotWriter::create(&self.file(), &label()).expect("a snapshot")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn label() -> SnapshotLabel {
    SnapshotLabel { node: "n1".into(), machine: [1; 16], boot: [2; 16], epoch: 3, created: 4 }
}

fn name(group: u8, name: &str) -> SlotName {
    SlotName { group, kind: Kind::Gauge, format: FORMAT, unit: "bytes".into(), name: name.into() }
}

const FORMAT: ValueFormat = ValueFormat { value_type: ValueType::Unsigned, places: 2 };

fn stamp(ns: u64) -> Stamp {
    Stamp { boot: Nanos(ns), real_offset: -5 }
}

#[test]
fn a_value_of_another_type_has_a_state_that_older_programs_read_as_absent() {
    let place = Place::new("types");
    let mut writer = place.writer();
    let types = [ValueType::Signed, ValueType::Float, ValueType::Labels];
    let names = types.map(|value_type| SlotName {
        format: ValueFormat { value_type, places: 0 },
        ..name(0, value_type.as_str())
    });
    writer.append(&names).expect("room");
    writer.write(0, stamp(7), [(0, 0, u64::MAX), (1, 0, 0.5f64.to_bits()), (2, 64, 12)].into_iter());
    let reader = Snapshot::open(&place.file()).expect("a snapshot");
    assert_eq!(reader.names(), names);
    let read = |slot| reader.read(slot).expect("a living writer").expect("a slot");
    let shown = |slot| read(slot).format.value(read(slot).reading).map(|value| value.to_string());
    assert_eq!([0, 1, 2].map(shown), [Some("-1".into()), Some("0.5".into()), None]);
    assert_eq!(read(2).reading, Reading::Absent(Absence::NotYet), "labels have no place in the file");
    let bytes = std::fs::read(place.file()).expect("a file");
    let state = |slot: usize| bytes[12_288 + 16 * slot + 8];
    assert_eq!([0, 1, 2].map(state), [65, 66, 64], "1 to 127 is absent to a program that knows no types");
}

#[test]
fn a_value_is_read_by_its_name_and_is_absent_before_it_was_written() {
    let place = Place::new("value");
    let mut writer = place.writer();
    let reader = Snapshot::open(&place.file()).expect("a snapshot");
    assert_eq!((reader.slots(), reader.find("mem.free")), (0, None));
    assert_eq!(writer.append(&[name(0, "load.1m"), name(1, "mem.free")]), Ok(0));
    let slot = reader.find("mem.free").expect("it is there");
    let read = || reader.read(slot).expect("a living writer").expect("a slot");
    assert_eq!(read().reading, Reading::Absent(Absence::NotYet));
    writer.write(1, stamp(7), [(1, 0, u64::MAX)].into_iter());
    let latest = read();
    assert_eq!((latest.reading, latest.format, latest.stamp), (Reading::Present(u64::MAX), FORMAT, stamp(7)));
    assert_eq!(reader.label(), &label());
    // The writer ignores slots of another group, and slots that do not exist.
    writer.write(1, stamp(8), [(0, 0, 1), (99, 0, 1)].into_iter());
    assert_eq!(
        reader.read(0).map(|found| found.map(|l| l.reading)),
        Ok(Some(Reading::Absent(Absence::NotYet)))
    );
    assert_eq!(reader.read(2), Ok(None));
    assert_eq!(reader.group(1), Ok((stamp(8), 2)));
    assert_eq!(writer.append(&[name(1, "later")]), Ok(2));
    assert_eq!(reader.names()[2], name(1, "later"));
}

#[test]
fn a_successor_replaces_the_file_and_readers_see_the_end() {
    let place = Place::new("end");
    let first = place.writer();
    let reader = Snapshot::open(&place.file()).expect("a snapshot");
    let second = place.writer();
    assert!(!reader.has_ended());
    drop(first);
    assert!(reader.has_ended());
    assert!(place.file().exists(), "the file belongs to the second writer");
    let reader = Snapshot::open(&place.file()).expect("a snapshot");
    assert!(!reader.has_ended());
    drop(second);
    assert!(reader.has_ended() && !place.file().exists());
}

#[test]
fn slots_beyond_the_room_are_refused_whole() {
    let place = Place::new("full");
    let mut writer = place.writer();
    let many: Vec<SlotName> = (0..1_000).map(|_| name(0, "x")).collect();
    while writer.slots() + many.len() <= SNAPSHOT_SLOTS_MAX as usize {
        writer.append(&many).expect("room");
    }
    let before = writer.slots();
    assert_eq!(writer.append(&many), Err(SnapshotFull));
    assert_eq!(writer.append(&[name(64, "no such group")]), Err(SnapshotFull));
    assert_eq!(writer.slots(), before);
    let reader = Snapshot::open(&place.file()).expect("a snapshot");
    assert_eq!(reader.names().len(), before);
}

/// A reader never waits forever: an error says why no row was consistent.
#[test]
fn a_writer_that_died_within_a_row_and_one_that_never_pauses_are_told_apart() {
    let place = Place::new("unsettled");
    let mut writer = place.writer();
    let slots = 20_000;
    writer.append(&vec![name(0, "x"); slots as usize]).expect("room");
    let reader = Snapshot::open(&place.file()).expect("a snapshot");
    let (stop, all) = (AtomicBool::new(false), (0..slots).collect::<Vec<u32>>());
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                writer.write(0, stamp(1), std::iter::once((0, 0, 1)));
            }
        });
        let found = reader.read_row(0, &all, &mut Vec::new());
        stop.store(true, Ordering::Relaxed);
        found
    });
    // If the writer lost the processor for a while, a row came through.
    assert!(matches!(found, Ok(_) | Err(Unsettled::Busy)), "{found:?}");

    let mut bytes = std::fs::read(place.file()).expect("its bytes");
    bytes[8_192] |= 1; // the sequence of group 0, as of a row that was begun
    let copy = place.0.join("copy");
    std::fs::write(&copy, bytes).expect("a file");
    let reader = Snapshot::open(&copy).expect("a snapshot");
    assert_eq!(reader.read(0), Err(Unsettled::Dead));
}

#[test]
fn damaged_files_give_errors_and_never_panic() {
    let place = Place::new("damaged");
    let mut writer = place.writer();
    writer.append(&[name(0, "a"), name(0, "b")]).expect("room");
    let whole = std::fs::read(place.file()).expect("its bytes");
    let copy = place.0.join("copy");
    for length in [0, 1, 4_096, whole.len() - 1] {
        std::fs::write(&copy, &whole[..length]).expect("a file");
        assert!(Snapshot::open(&copy).is_err(), "{length} bytes");
    }
    // Any counts, names and groups.
    for (at, byte) in
        [(4_096, 255), (4_103, 255), (4_104, 255), (12_297, 200), (4_206_592, 0), (4_206_598, 255)]
    {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        std::fs::write(&copy, &bytes).expect("a file");
        let reader = Snapshot::open(&copy).expect("its first page is undamaged");
        let _ = (reader.names(), reader.find("b"), reader.read(0), reader.read(u32::MAX));
    }
    let mut odd = whole;
    odd[8_192] = 1;
    std::fs::write(&copy, &odd).expect("a file");
    let reader = Snapshot::open(&copy).expect("a snapshot");
    assert!(reader.read(0).is_err(), "its writer died while it wrote a row");
}

/// The last value of a row is the sum of the others, so that a mix of two rows shows.
fn checked_rows(writer: &SnapshotWriter, slots: u32, rows: Range<u64>) {
    for row in rows {
        let value = |slot: u32| row.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(slot) * row);
        let sum = (0..slots - 1).fold(0u64, |sum, slot| sum.wrapping_add(value(slot)));
        let values = (0..slots).map(|slot| (slot, 0, if slot == slots - 1 { sum } else { value(slot) }));
        writer.write(0, stamp(row), values);
    }
}

#[test]
fn no_reader_ever_sees_half_a_row() {
    const SLOTS: u32 = 40;
    const ROWS: u64 = 100_000;
    const SEEN: u64 = 1_000;
    const PATIENCE: Duration = Duration::from_secs(120);
    let place = Place::new("stress");
    let mut writer = place.writer();
    let names: Vec<SlotName> = (0..SLOTS).map(|slot| name(0, &format!("s{slot}"))).collect();
    writer.append(&names).expect("room");
    checked_rows(&writer, SLOTS, 0..1);
    let (done, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (file, done, seen) = (place.file(), done.clone(), seen.clone());
            std::thread::spawn(move || {
                let reader = Snapshot::open(&file).expect("a snapshot");
                let slots: Vec<u32> = (0..SLOTS).collect();
                let (mut row, mut last) = (Vec::new(), Nanos(0));
                while !done.load(Ordering::Relaxed) {
                    let stamp = reader.read_row(0, &slots, &mut row).expect("a living writer");
                    let values: Vec<u64> =
                        row.iter().map(|reading| reading.value().expect("present")).collect();
                    let (sum, values) = values.split_last().expect("values");
                    let found = values.iter().fold(0u64, |sum, value| sum.wrapping_add(*value));
                    assert_eq!(found, *sum, "a mix of two rows at {stamp:?}");
                    assert!(stamp.boot >= last, "rows do not go back in time");
                    seen.fetch_add(u64::from(stamp.boot > last), Ordering::Relaxed);
                    last = stamp.boot;
                }
            })
        })
        .collect();
    // If the writer never paused, readers would only see rows that change during the read, and on a busy
    // machine they are slow besides. So it pauses now and then, and continues until the readers have read
    // enough.
    let started = Instant::now();
    let mut next = 1;
    while next < ROWS || seen.load(Ordering::Relaxed) < SEEN {
        checked_rows(&writer, SLOTS, next..next + 20);
        next += 20;
        std::thread::sleep(Duration::from_micros(50));
        assert!(started.elapsed() < PATIENCE, "the readers do not get any row");
    }
    done.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().expect("no half rows"));
}
