//! The ring in memory: bytes come out unchanged, across the wrap and under a racing writer; a reader that is
//! too slow learns of it.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use khz_block::{HEADER_BYTES, Header};
use khz_ring::{Label, Overtaken, Reader, Ring, Writer};

fn ring(bytes: u64) -> (Writer, Reader) {
    let label = Label {
        node: "n1".into(),
        lane: "base".into(),
        number: 1,
        machine: [1; 16],
        boot: [2; 16],
        epoch: 3,
        created: 4,
    };
    let ring = Ring::anonymous(bytes, label).unwrap();
    (ring.writer, ring.reader)
}

/// A block whose bytes contain their own stream position, so that a torn copy shows.
fn block(number: u64, length: usize) -> Vec<u8> {
    let stamp = khz_model::Stamp { boot: khz_model::Nanos(number), real_offset: 0 };
    let header = Header {
        lane: 1,
        generation: 1,
        slots: 1,
        first_row: number,
        stamp,
        period: khz_model::Nanos(1),
        closed: None,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend((0..length).map(|i| (number as usize * 31 + i) as u8));
    bytes
}

#[test]
fn bytes_come_out_as_they_went_in_across_the_wrap() {
    let (mut writer, reader) = ring(1 << 16);
    let (mut at, mut whole) = (0, Vec::new());
    for number in 0..400 {
        let bytes = block(number, 700 + number as usize % 13);
        assert!(writer.begin(&bytes[..100]) && writer.append(&bytes[100..]));
        whole.clear();
        at += reader.copy(at, usize::MAX, &mut whole).unwrap() as u64;
        assert_eq!(whole, bytes, "block {number}");
    }
    assert!(writer.used() <= writer.size());
}

#[test]
fn a_reader_that_was_overtaken_learns_of_it() {
    let (mut writer, reader) = ring(1 << 16);
    for number in 0..200 {
        writer.begin(&block(number, 1_000));
    }
    assert_eq!(reader.copy(0, 10, &mut Vec::new()), Err(Overtaken));
    let mut bytes = Vec::new();
    reader.copy(reader.oldest(), HEADER_BYTES, &mut bytes).unwrap();
    assert!(Header::from_bytes(bytes.first_chunk().unwrap(), 0).is_ok(), "a block always begins at tail");
}

#[test]
fn closed_blocks_can_be_walked() {
    let (mut writer, reader) = ring(1 << 16);
    for number in 0..5u64 {
        let bytes = block(number, 123);
        writer.begin(&bytes);
        let mut header = Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
        header.closed = Some((1, 123, 0));
        writer.close(&header);
    }
    let mut at = Some(reader.oldest());
    let mut count = 0;
    while let Some(block) = at {
        count += 1;
        at = reader.next_block(block);
    }
    assert_eq!(count, 5);
}

#[test]
fn a_block_begins_at_the_oldest_position_after_every_append() {
    let (mut writer, reader) = ring(1 << 16);
    let mut length = 1;
    for number in 0..3_000 {
        // Every remainder modulo 8, so that a block begins at every byte of a word.
        length = (length * 37 + 11) % 900 + 1;
        let bytes = block(number, length);
        assert!(writer.begin(&bytes[..HEADER_BYTES]));
        for byte in &bytes[HEADER_BYTES..] {
            assert!(writer.append(&[*byte]));
            assert!(reader.header(reader.oldest()).is_some(), "block {number}");
        }
    }
}

#[test]
fn of_blocks_smaller_than_a_kilobyte_the_ring_keeps_one_for_each_of_its_kilobytes() {
    let (mut writer, reader) = ring(1 << 16);
    let bytes = block(1, 10);
    for number in 1..=200 {
        assert!(writer.begin(&bytes));
        let kept = 64.min(number) * bytes.len() as u64;
        assert_eq!((writer.used(), reader.oldest()), (kept, number * bytes.len() as u64 - kept));
    }
}

#[test]
fn a_block_may_fill_the_ring_and_a_reader_gets_what_is_there_and_nothing_else() {
    let (mut writer, reader) = ring(1 << 16);
    let whole = block(0, (1 << 16) - HEADER_BYTES);
    assert!(!writer.begin(&[&whole[..], &[7]].concat()), "a byte too many");
    assert!(writer.begin(&whole));
    let read = |from: u64, most: usize| {
        let mut bytes = vec![9];
        let copied = reader.copy(from, most, &mut bytes);
        // What was there stays, and what was not copied leaves nothing.
        assert_eq!((bytes[0], bytes.len()), (9, 1 + copied.unwrap_or(0)));
        copied.map(|_| bytes[1..].to_vec())
    };
    let head = reader.head();
    assert_eq!((head, writer.used()), (1 << 16, 1 << 16));
    assert_eq!(read(0, usize::MAX), Ok(whole.clone()));
    assert_eq!(read(10, 20), Ok(whole[10..30].to_vec()));
    assert_eq!((read(head, usize::MAX), read(head + 1, usize::MAX)), (Ok(vec![]), Err(Overtaken)));
    assert!(!writer.append(&[7]), "the open block has no room");
    assert_eq!((reader.head(), reader.oldest()), (head, 0));
    // The next block gives it up.
    let next = block(1, 10);
    assert!(writer.begin(&next));
    assert_eq!((read(0, 1), read(head, usize::MAX)), (Err(Overtaken), Ok(next)));
    assert_eq!((reader.oldest(), reader.newest()), (head, head));
}

#[test]
fn a_block_larger_than_the_ring_is_refused_whole() {
    let (mut writer, reader) = ring(1 << 16);
    assert!(!writer.begin(&block(0, 1 << 17)));
    assert_eq!(reader.head(), 0);
    assert!(writer.begin(&block(1, 10)));
}

#[test]
fn no_reader_ever_sees_a_torn_block() {
    race(ring(1 << 16));
}

#[test]
fn no_reader_ever_sees_a_torn_block_of_a_ring_that_gives_pages_back() {
    let (mut writer, reader) = ring(1 << 18);
    writer.keep(1 << 14);
    race((writer, reader));
}

/// Readers race the writer. Every copy that is not refused must be exactly what was written.
fn race((mut writer, reader): (Writer, Reader)) {
    let stop = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let (mut bytes, mut whole) = (Vec::new(), 0u64);
                    while stop.load(Ordering::Relaxed) == 0 || whole == 0 {
                        bytes.clear();
                        let at = reader.oldest();
                        if reader.head() == 0 || reader.copy(at, 900, &mut bytes).is_err() {
                            continue;
                        }
                        let Some(head) = bytes.first_chunk() else { continue };
                        let number = Header::from_bytes(head, 0).expect("a block begins at tail").first_row;
                        if bytes.len() == 900 {
                            assert_eq!(bytes, block(number, 900 - HEADER_BYTES));
                            whole += 1;
                        }
                    }
                    whole
                })
            })
            .collect();
        // In a build without optimisation, each block takes ten times as long.
        let blocks = if cfg!(debug_assertions) { 30_000 } else { 200_000 };
        for number in 0..blocks {
            let bytes = block(number, 900 - HEADER_BYTES);
            assert!(writer.begin(&bytes[..500]) && writer.append(&bytes[500..]));
        }
        stop.store(1, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}
