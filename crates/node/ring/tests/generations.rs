//! A ring whose writer begins one generation of slots after the other: whatever a reader finds, it finds with the
//! meaning of its slots, and the schemas of blocks that are gone make room.

#![allow(clippy::unwrap_used)]

mod lane;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};

use khz_ring::{Cursor, Event, Folder, Found, Reader, Ring};
use lane::{LaneWriter, SLOTS, TestFolder, label, open, value};

const SIZE: u64 = 1 << 20;
/// The schema area: the most that the schemas of all blocks take.
const AREA: u64 = 16 << 20;

/// The schema of a generation: every word says which one it belongs to.
fn schema(generation: u32, bytes: usize) -> Vec<u8> {
    let mut schema = generation.to_le_bytes().repeat(bytes.div_ceil(4));
    schema.truncate(bytes);
    schema
}

fn in_memory() -> (LaneWriter, Reader) {
    let ring = Ring::anonymous(SIZE, label("base")).unwrap();
    let reader = ring.reader.clone();
    (LaneWriter::new(ring), reader)
}

/// Begins the next generation, whose schema has `bytes` bytes.
fn begin(lane: &mut LaneWriter, bytes: usize) {
    if let Some(header) = lane.encoder.close() {
        lane.writer.close(&header);
    }
    let generation = lane.writer.generation() + 1;
    lane.writer.begin_generation(&schema(generation, bytes)).unwrap();
    assert_eq!(lane.writer.generation(), generation);
    lane.encoder.resume(lane.encoder.rows(), generation);
}

/// The generations of the blocks that the ring holds, each with the whole schema that it had; the number of blocks.
fn judge(reader: &Reader) -> (Vec<u32>, usize) {
    let mut generations = Vec::new();
    let blocks = reader.blocks();
    for &at in &blocks {
        let generation = reader.header(at).unwrap().generation;
        if generations.last() != Some(&generation) {
            let mut bytes = Vec::new();
            let length = reader.schema(generation, 0, usize::MAX, &mut bytes);
            assert_eq!(length, Some(bytes.len()), "generation {generation}");
            assert!(bytes == schema(generation, bytes.len()), "generation {generation} is another's");
            generations.push(generation);
        }
    }
    assert!(generations.is_sorted());
    (generations, blocks.len())
}

#[test]
fn rows_go_on_through_generations_and_each_block_has_its_schema() {
    let (mut lane, reader) = in_memory();
    lane.writer.extend_schema(&schema(1, 500)).unwrap();
    let mut cursor = Cursor::new(reader.clone(), 0);
    let mut rows = 0;
    for round in 0..40 {
        lane.rows(13);
        if round % 4 == 3 {
            begin(&mut lane, 300 + round);
        }
        while let event @ (Event::Row | Event::Block) = cursor.advance() {
            if event == Event::Row {
                assert_eq!(cursor.decoder().next_row(), rows + 1, "once, and in order");
                let is_right = |slot| {
                    let reading = cursor.decoder().reading(slot);
                    reading.map(|reading| (reading.state(), reading.bits())) == Some(value(rows, slot))
                };
                assert!((0..SLOTS).all(is_right), "row {rows}");
                rows += 1;
            }
        }
    }
    assert_eq!((rows, cursor.take_lost()), (40 * 13, 0));
    lane.rows(1);
    assert_eq!(judge(&reader).0, (1..=11).collect::<Vec<u32>>());
    assert_eq!(reader.generation(), 11);
}

#[test]
fn thousands_of_generations_take_as_much_room_as_those_whose_blocks_are_there() {
    let folder = TestFolder::new("generations");
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, SIZE);
    let reader = Reader::open(&folder.ring()).unwrap();
    lane.writer.extend_schema(&schema(1, 10_000)).unwrap();
    let mut held_most = 0;
    for round in 0..3_000 {
        lane.rows(60);
        begin(&mut lane, 6_000 + round % 7 * 1_000);
        // A schema that grows later does so in the midst of others that go.
        lane.writer.extend_schema(&schema(lane.writer.generation(), 400)).unwrap();
        if round % 500 == 499 {
            lane.rows(1);
            held_most = held_most.max(judge(&reader).0.len() as u64);
        }
    }
    let area = fs::metadata(folder.ring()).unwrap().blocks() * 512 - SIZE;
    // What is not needed takes at most as much as what is, and the newest comes on top.
    let bound = (2 * held_most + 2) * (12_400 + 24) + 4 * (64 << 10);
    assert!(area <= bound, "{area} bytes of schemas, with {held_most} generations in the ring");
    assert!(area < AREA / 2);
    lane.rows(1);
    let newest = *judge(&reader).0.last().unwrap();
    assert_eq!((newest, reader.schema_bytes(1)), (3_001, None));
}

#[test]
fn schemas_that_do_not_fit_together_push_out_the_oldest_blocks_and_no_others() {
    let (mut lane, reader) = in_memory();
    lane.writer.extend_schema(&schema(1, 5 << 20)).unwrap();
    for generation in 2..=9 {
        lane.rows(20);
        begin(&mut lane, 5 << 20);
        lane.rows(20);
        let (generations, _) = judge(&reader);
        // Three of five megabytes fit into sixteen.
        assert_eq!(generations, (1.max(generation - 2)..=generation).collect::<Vec<u32>>());
    }
    // A growing schema pushes out others, too, but never its own blocks.
    lane.writer.extend_schema(&schema(9, 10 << 20)).unwrap();
    assert_eq!(judge(&reader).0, [9]);
    assert!(lane.writer.extend_schema(&schema(9, 2 << 20)).is_err(), "more than the area");
    assert_eq!(judge(&reader).0, [9]);
    // One that takes the whole area leaves no room for anything before it.
    begin(&mut lane, (16 << 20) - 16);
    assert_eq!(judge(&reader), (vec![], 0));
    lane.rows(20);
    assert_eq!(judge(&reader).0, [10]);
    assert!(lane.writer.begin_generation(&vec![0; 16 << 20]).is_err(), "larger than the area");
    lane.rows(200);
    assert_eq!((judge(&reader).0, reader.generation()), (vec![10], 10));
}

#[test]
fn a_reader_never_sees_a_schema_that_is_not_its_blocks_own_while_schemas_move() {
    let (mut lane, reader) = in_memory();
    lane.writer.extend_schema(&schema(1, 30_000)).unwrap();
    lane.rows(1);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut found, mut bytes) = (0, Vec::new());
                    // At least once round after the writer is done, so that something is found in any case.
                    let mut last_round = false;
                    while !last_round {
                        last_round = is_over.load(Ordering::Acquire);
                        for at in [reader.oldest(), reader.newest()] {
                            let Some(header) = reader.header(at) else { continue };
                            bytes.clear();
                            match reader.schema(header.generation, 0, usize::MAX, &mut bytes) {
                                Some(length) => {
                                    found += 1;
                                    assert!(bytes == schema(header.generation, length));
                                }
                                None => assert!(reader.oldest() > at, "a block without its schema"),
                            }
                        }
                    }
                    found
                })
            })
            .collect();
        for _ in 0..300 {
            begin(&mut lane, 30_000);
            lane.rows(200);
        }
        is_over.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

#[test]
fn a_ring_that_continues_knows_which_generations_it_still_needs() {
    let folder = TestFolder::new("continues");
    let locked = Folder::lock(&folder.0).unwrap();
    let mut rows = 0;
    for start in 0..24 {
        let (mut lane, found) = open(&locked, SIZE);
        assert_eq!(matches!(found, Found::TakenUp), start > 0, "{found:?}");
        assert_eq!(lane.encoder.rows(), rows, "rows go on");
        let generation = lane.writer.generation();
        lane.writer.extend_schema(&schema(generation, 400_000)).unwrap();
        lane.rows(500);
        begin(&mut lane, 500_000);
        lane.rows(500);
        rows = lane.encoder.rows();
        let (generations, _) = judge(&Reader::open(&folder.ring()).unwrap());
        assert_eq!(*generations.last().unwrap(), generation + 1);
        assert!(start < 3 || generations.len() > 3, "those before a start stay: {generations:?}");
    }
}

#[test]
fn a_ring_whose_writer_died_while_schemas_moved_is_put_aside() {
    let folder = TestFolder::new("moving");
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, SIZE);
    lane.writer.extend_schema(&schema(1, 1_000)).unwrap();
    lane.rows(20);
    drop(lane);
    // Word 13 counts moves, and is odd during one.
    let file = fs::OpenOptions::new().write(true).open(folder.ring()).unwrap();
    file.write_all_at(&1u64.to_le_bytes(), 4_096 + 13 * 8).unwrap();
    let reader = Reader::open(&folder.ring()).unwrap();
    assert_eq!(reader.schema_bytes(1), None, "nobody can tell where it is");
    let (lane, found) = open(&locked, SIZE);
    assert!(matches!(found, Found::PutAside(ref why) if why.contains("moved schemas")), "{found:?}");
    assert_eq!(lane.encoder.rows(), 0);
}
