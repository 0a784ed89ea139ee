//! The ring as a file: it is continued, put aside, locked, and read by other processes; damage to the file
//! harms nobody.

#![allow(clippy::unwrap_used)]

mod lane;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use khz_model::Nanos;
use khz_ring::{Cursor, Folder, Found, Label, Reader, RingError, is_written};
use lane::{LaneWriter, TestFolder, check, label, open};
use proptest::prelude::*;

const SIZE: u64 = 1 << 18;

#[test]
fn a_ring_continues_where_it_ended() {
    let folder = TestFolder::new("taken-up");
    let (mut rows, mut epoch) = (0, None);
    for generation in 1..=4 {
        let locked = Folder::lock(&folder.0).unwrap();
        let (mut lane, found) = open(&locked, SIZE);
        assert_eq!(matches!(found, Found::TakenUp), generation > 1, "{found:?}");
        assert_eq!((lane.encoder.rows(), lane.writer.generation()), (rows, generation));
        lane.writer.extend_schema(format!("schema {generation}").as_bytes()).unwrap();
        // The open block is not closed, as after a crash.
        lane.rows(501);
        rows += 501;
        let reader = Reader::open(&folder.ring()).unwrap();
        assert_eq!(*epoch.get_or_insert(reader.label().epoch), reader.label().epoch);
        assert_eq!((reader.generation(), reader.pid()), (generation, u64::from(std::process::id())));
        drop((lane, locked));
        let (first, next) = check(&folder.ring());
        assert_eq!(next, rows);
        assert!(first < rows);
        for old in 1..=generation {
            let mut schema = Vec::new();
            assert_eq!(reader.schema(old, 0, 100, &mut schema), Some(8), "generation {old} of {generation}");
            assert_eq!(schema, format!("schema {old}").as_bytes());
        }
        assert_eq!(reader.schema_bytes(generation + 1), None);
    }
}

#[test]
fn a_ring_that_continues_gives_up_no_row_that_it_has_room_for() {
    let folder = TestFolder::new("kept");
    for life in 1..=3 {
        let locked = Folder::lock(&folder.0).unwrap();
        let (mut lane, _) = open(&locked, 4 * SIZE);
        lane.rows(200);
        drop((lane, locked));
        assert_eq!(check(&folder.ring()), (0, life * 200), "in life {life}");
    }
}

#[test]
fn another_boot_or_size_or_damage_puts_the_ring_aside_and_one_of_these_is_kept() {
    let folder = TestFolder::new("aside");
    let locked = Folder::lock(&folder.0).unwrap();
    open(&locked, SIZE).0.rows(10);
    let old = folder.ring().with_extension("ring.old");

    let (mut lane, found) = open(&locked, SIZE * 2);
    assert!(matches!(found, Found::PutAside(_)), "{found:?}");
    assert_eq!((check(&old), lane.encoder.rows()), ((0, 10), 0));
    lane.rows(20);
    drop(lane);

    let (ring, found) = locked.ring(Label { boot: [8; 16], ..label("base") }, SIZE * 2).unwrap();
    assert!(matches!(&found, Found::PutAside(why) if why.contains("another boot")), "{found:?}");
    assert_eq!((check(&old), ring.next_row), ((0, 20), 0));
    drop(ring);

    fs::OpenOptions::new().write(true).open(folder.ring()).unwrap().write_all_at(b"x", 80).unwrap();
    let (_, found) = open(&locked, SIZE * 2);
    assert!(matches!(&found, Found::PutAside(why) if why.contains("checksum")), "{found:?}");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    assert!(locked.remove_old().unwrap());
    assert!(!old.exists());
}

#[test]
fn a_ring_whose_rows_come_at_another_rate_is_put_aside_but_not_one_that_was_slowed_down() {
    let folder = TestFolder::new("rate");
    let locked = Folder::lock(&folder.0).unwrap();
    let at = |period: u64| locked.ring_at(label("base"), SIZE, Nanos::from_millis(period)).unwrap();
    let (ring, _) = at(100);
    ring.writer.set_asked(Nanos::from_millis(100));
    // The ceiling of the agent's CPU time.
    ring.writer.set_period(Nanos::from_millis(200));
    drop(ring);
    for (period, is_continued) in [(100, true), (200, false)] {
        let (ring, found) = at(period);
        let why =
            matches!(&found, Found::PutAside(why) if why == "its rows come every 100ms, not every 200ms");
        assert!(if is_continued { matches!(found, Found::TakenUp) } else { why }, "{period:?}: {found:?}");
        drop(ring);
    }
}

#[test]
fn no_ring_is_continued_where_that_of_the_leading_lane_is_not() {
    let folder = TestFolder::new("leading");
    let locked = Folder::lock(&folder.0).unwrap();
    let start = |millis: u64| {
        let period = Nanos::from_millis(millis);
        let (base, _) = locked.leading_ring(label("base"), SIZE, period).unwrap();
        base.writer.set_asked(period);
        let (local, found) = locked.ring_at(label("local"), SIZE, Nanos::from_millis(100)).unwrap();
        local.writer.set_asked(Nanos::from_millis(100));
        (local.reader.label().epoch, matches!(found, Found::TakenUp))
    };
    let (first, _) = start(1_000);
    assert_eq!(start(1_000), (first, true));
    // Readers at 10 Hz have the local lane's rows, then those of the base lane, and then again the local lane's.
    let (second, is_continued) = start(100);
    assert!(!is_continued && second != first);
    assert!(!start(1_000).1);
    // Nobody knows at which rate the base lane ran.
    fs::remove_file(folder.ring()).unwrap();
    assert!(!start(1_000).1);
    assert!(start(1_000).1);
}

#[test]
fn a_ring_that_is_full_of_schemas_continues_and_gives_up_its_oldest_blocks() {
    let folder = TestFolder::new("schemas");
    let locked = Folder::lock(&folder.0).unwrap();
    let megabyte = vec![7; 1 << 20];
    for start in 0..40 {
        let (mut lane, found) = open(&locked, SIZE);
        assert!(!matches!(found, Found::PutAside(_)), "{found:?}");
        assert_eq!(lane.encoder.rows(), start * 3);
        lane.rows(3);
        lane.writer.extend_schema(&megabyte).unwrap();
    }
    drop(locked);
    let (first, next) = check(&folder.ring());
    assert_eq!((first, next), (next - 15 * 3, 40 * 3), "fifteen schemas of a megabyte fit");
}

#[test]
fn a_schema_larger_than_its_area_is_refused_and_what_was_there_stays() {
    let folder = TestFolder::new("large-schema");
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, SIZE);
    lane.writer.extend_schema(b"small").unwrap();
    assert!(lane.writer.extend_schema(&vec![1; 16 << 20]).is_err());
    lane.writer.extend_schema(b" more").unwrap();
    let mut bytes = Vec::new();
    let reader = Reader::open(&folder.ring()).unwrap();
    assert_eq!(reader.schema(1, 3, 4, &mut bytes), Some(4));
    assert_eq!(bytes, b"ll m");
    assert_eq!(reader.schema(1, 11, 4, &mut bytes), None);
}

#[test]
fn the_second_writer_learns_who_the_first_is() {
    let folder = TestFolder::new("locked");
    assert!(Folder::lock(&folder.0).is_ok());
    assert!(!is_written(&folder.0).unwrap());
    let locked = Folder::lock(&folder.0).unwrap();
    let _lane = open(&locked, SIZE);
    assert!(is_written(&folder.0).unwrap());
    let error = Folder::lock(&folder.0).unwrap_err();
    assert!(matches!(error, RingError::Locked { pid: Some(_), .. }));
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
}

#[test]
fn nobody_else_may_read_it_or_put_files_into_it() {
    let folder = TestFolder::new("modes");
    let locked = Folder::lock(&folder.0).unwrap();
    drop(open(&locked, SIZE));
    assert_eq!(fs::metadata(&folder.0).unwrap().mode() & 0o777 & !0o750, 0);
    assert_eq!(fs::metadata(folder.ring()).unwrap().mode() & 0o777 & !0o640, 0);
    drop(locked);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(Folder::lock(&folder.0), Err(RingError::Unsafe { .. })));
}

#[test]
fn every_page_that_will_be_written_is_there_from_the_start() {
    let folder = TestFolder::new("allocated");
    let locked = Folder::lock(&folder.0).unwrap();
    drop(open(&locked, SIZE));
    assert!(fs::metadata(folder.ring()).unwrap().blocks() * 512 >= SIZE + (64 << 10));
}

#[test]
fn pages_of_a_growing_schema_are_taken_in_steps_before_they_are_written() {
    const STEP: u64 = 64 << 10;
    let folder = TestFolder::new("steps");
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, SIZE);
    let taken = || fs::metadata(folder.ring()).unwrap().blocks() * 512;
    let before = taken();
    // What was there from the start has room for this; its entry begins with sixteen bytes.
    lane.writer.extend_schema(&vec![1; STEP as usize - 16]).unwrap();
    assert!(taken() < before + STEP);
    // One byte more takes a whole step, of which a page is written; then there is room again.
    lane.writer.extend_schema(&[1]).unwrap();
    let after = taken();
    assert!(after >= before + STEP, "{} bytes more", after - before);
    lane.writer.extend_schema(&vec![1; STEP as usize - 1]).unwrap();
    assert!(taken() < after + STEP);
    lane.writer.extend_schema(&[1]).unwrap();
    assert!(taken() >= after + STEP);
}

#[test]
fn another_process_view_follows_the_writer() {
    let folder = TestFolder::new("follow");
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, SIZE);
    let mut cursor = Cursor::new(Reader::open(&folder.ring()).unwrap(), 0);
    let mut rows = 0;
    for burst in [1, 50, 3_000, 7] {
        lane.rows(burst);
        loop {
            match cursor.advance() {
                khz_ring::Event::Row => rows += 1,
                khz_ring::Event::Block => rows += cursor.take_lost(),
                khz_ring::Event::UpToDate => break,
            }
        }
        assert_eq!(rows, lane.encoder.rows());
    }
}

#[test]
fn a_file_cut_short_under_a_reader_gives_errors_and_no_signal() {
    let folder = TestFolder::new("cut");
    let locked = Folder::lock(&folder.0).unwrap();
    open(&locked, SIZE).0.rows(1_000);
    let reader = Reader::open(&folder.ring()).unwrap();
    let oldest = reader.oldest();
    let file = fs::OpenOptions::new().write(true).open(folder.ring()).unwrap();
    for length in [(16 << 20) + 20_000, 5_000, 0] {
        file.set_len(length).unwrap();
        let mut bytes = Vec::new();
        assert!(reader.copy(oldest, usize::MAX, &mut bytes).is_err() || bytes.is_empty());
        assert!(reader.schema(1, 0, 10, &mut bytes).is_none());
        let mut cursor = Cursor::new(reader.clone(), oldest);
        assert_eq!(cursor.advance(), khz_ring::Event::UpToDate);
        assert!(Reader::open(&folder.ring()).is_err());
    }
}

/// The bytes of a ring with some rows and a schema, and a directory for damaged copies.
fn template() -> (TestFolder, Vec<u8>) {
    let folder = TestFolder::new(&format!("hostile-{:?}", std::thread::current().id()));
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, 1 << 16);
    lane.writer.extend_schema(b"what the slots mean").unwrap();
    lane.rows(2_000);
    drop((lane, locked));
    let bytes = fs::read(folder.ring()).unwrap();
    (folder, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Words, headers and rows that an attacker might write: neither a reader nor the next agent panics or
    /// hangs.
    #[test]
    fn no_damage_panics_or_hangs(
        words in prop::collection::vec((0usize..13, prop_oneof![
            any::<u64>(), 0u64..200_000, (u64::MAX - 200_000)..u64::MAX,
        ]), 0..3),
        bytes in prop::collection::vec((0usize..1 << 16, any::<u8>()), 0..8),
    ) {
        use std::sync::OnceLock;
        static TEMPLATE: OnceLock<(TestFolder, Vec<u8>)> = OnceLock::new();
        let (folder, good) = TEMPLATE.get_or_init(template);
        let data = (16 << 20) + 8_192;
        {
            let file = fs::OpenOptions::new().write(true).open(folder.ring()).unwrap();
            // The last case left the file in some state.
            file.write_all_at(&good[..16_384], 0).unwrap();
            file.write_all_at(&good[data as usize..], data).unwrap();
            for (word, value) in &words {
                file.write_all_at(&value.to_le_bytes(), 4_096 + *word as u64 * 8).unwrap();
            }
            for (at, byte) in &bytes {
                file.write_all_at(&[*byte], data + *at as u64).unwrap();
            }
        }
        if let Ok(reader) = Reader::open(&folder.ring()) {
            for at in reader.blocks() {
                reader.header(at);
            }
            let mut schema = Vec::new();
            reader.schema(reader.generation(), 0, usize::MAX, &mut schema);
            let mut cursor = Cursor::new(reader.clone(), reader.oldest());
            // More steps than a ring of that size has rows.
            let steps = (0..1 << 17).find(|_| cursor.advance() == khz_ring::Event::UpToDate);
            prop_assert!(steps.is_some());
        }
        let locked = Folder::lock(&folder.0).unwrap();
        let (mut lane, _): (LaneWriter, _) = open(&locked, 1 << 16);
        lane.rows(200);
        drop(lane);
        // Whatever the writer found, it leaves a ring of whole blocks.
        let reader = Reader::open(&folder.ring()).unwrap();
        prop_assert!(reader.header(reader.newest()).is_some());
    }
}

/// The number of this process's descriptors for this directory.
fn holders(path: &std::path::Path) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.filter(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == path)).count()
}

#[test]
fn an_agent_that_waited_for_a_directory_that_was_removed_makes_it_again() {
    // The second thread waits only for a moment. On a busy machine that may be too short, and it gets an error.
    for attempt in 0..50 {
        let folder = TestFolder::new(&format!("removed-{attempt}"));
        let first = Folder::lock(&folder.0).unwrap();
        open(&first, SIZE).0.rows(3);
        let second = std::thread::scope(|scope| {
            let second = scope.spawn(|| Folder::lock(&folder.0));
            while holders(&folder.0) < 2 && !second.is_finished() {
                std::thread::yield_now();
            }
            assert!(first.remove(false).unwrap());
            second.join().unwrap()
        });
        match second {
            Err(RingError::Locked { .. }) => continue,
            second => {
                let (mut lane, found) = open(&second.unwrap(), SIZE);
                lane.rows(5);
                assert!(matches!(found, Found::Nothing), "{found:?}");
                assert_eq!(check(&folder.ring()), (0, 5));
                return;
            }
        }
    }
    panic!("it never got the lock in time");
}
