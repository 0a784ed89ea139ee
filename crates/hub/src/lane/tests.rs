use khz_block::{Encoder, SchemaEncoder};
use khz_model::{Instance, Series, metric};

use super::*;
use crate::counts::own_metric;
use crate::schemas::Schemas;

#[test]
fn a_lane_that_grows_with_every_block_holds_one_schema() {
    let metric =
        Arc::new(own_metric("a.b", "a_b", "A.", metric::Kind::Gauge, metric::Unit::Count, Some("x")));
    let (schemas, mut names, mut rows) =
        (Schemas::default(), SchemaEncoder::new(), Encoder::new(0, 1, Nanos(1)));
    let mut lane = Lane::new("base", 1, Nanos(1));
    for block in 0..50u64 {
        let instance = Some(Instance::from_kernel(block.to_string().as_bytes()));
        let mut piece = Vec::new();
        names.append(&Series { metric: metric.clone(), instance }, &mut piece).expect("room");
        let schema = schemas.grow(lane.schema(1), &piece, None).expect("a good schema");
        lane.set_schema(1, schema);
        let mut bytes = Vec::new();
        rows.key_row(
            Stamp { boot: Nanos(block), real_offset: 0 },
            block as usize + 1,
            |_| (0, 1),
            &mut bytes,
        );
        rows.close();
        assert_eq!(lane.begin(&bytes, true), Ok(1));
    }
    let blocks = lane.blocks_since(Nanos(0));
    assert_eq!(blocks.len(), 50);
    assert!(blocks.iter().all(|block| Arc::ptr_eq(&block.schema, &blocks[0].schema)));
    assert_eq!(blocks[0].schema.series().len(), 50);
    // Who wants the past begins in the block that has its moment, in the oldest that there is, or in the present one.
    let first_row = |since| lane.join_since(Nanos(since)).first_row;
    assert_eq!([0, 7, 48, 49, 1_000].map(first_row), [0, 7, 48, 49, 49]);
    lane.trim(lane.recent_bytes / 2);
    let oldest = lane.recent[0].header.first_row;
    assert!(oldest > 7 && lane.join_since(Nanos(7)).first_row == oldest);
    // One that says less than a block needs is not taken for it.
    let (mut piece, mut names) = (Vec::new(), SchemaEncoder::new());
    names.append(&Series { metric, instance: None }, &mut piece).expect("room");
    lane.set_schema(1, schemas.grow(None, &piece, None).expect("a good schema"));
    assert_eq!(lane.blocks_since(Nanos(0)).last().expect("the present one").schema.series().len(), 50);
}

/// A lane whose schema has one slot.
fn lane() -> Lane {
    let metric = Arc::new(own_metric("a.b", "a_b", "A.", metric::Kind::Gauge, metric::Unit::Count, None));
    let mut piece = Vec::new();
    SchemaEncoder::new().append(&Series { metric, instance: None }, &mut piece).expect("room");
    let mut lane = Lane::new("base", 1, Nanos(1));
    lane.set_schema(1, Schemas::default().grow(None, &piece, None).expect("a good schema"));
    lane
}

/// A block of so many rows, as it is on its way (its header open) and as it is in the past (closed).
fn block(first_row: u64, rows: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut encoder, mut bytes) = (Encoder::new(0, 1, Nanos(1)), Vec::new());
    encoder.resume(first_row, 1);
    for row in first_row..first_row + rows {
        let stamp = Stamp { boot: Nanos(row), real_offset: 0 };
        match row == first_row {
            true => encoder.key_row(stamp, 1, |_| (0, row), &mut bytes),
            false => encoder.delta_row(stamp, 0..1, |_| (0, row), &mut bytes),
        }
    }
    let mut closed = bytes.clone();
    closed[..HEADER_BYTES].copy_from_slice(&encoder.close().expect("an open block").to_bytes());
    (bytes, closed)
}

/// First rows and lengths of the blocks of the past, and their bytes as they are counted.
fn kept(lane: &Lane) -> (Vec<(u64, u32)>, u64) {
    let bytes: u64 = lane.recent.iter().map(|block| block.bytes.len() as u64).sum();
    assert_eq!(bytes, lane.recent_bytes);
    (lane.recent.iter().map(|block| (block.header.first_row, block.rows)).collect(), bytes)
}

#[test]
fn a_block_that_is_over_is_kept_for_the_history_and_for_readers_and_for_nobody_else() {
    for (keep, readers, expected) in
        [(false, 0, vec![]), (true, 0, vec![(0, 5)]), (false, 1, vec![(0, 5)]), (true, 1, vec![(0, 5)])]
    {
        let mut lane = lane();
        lane.readers = readers;
        assert_eq!(lane.begin(&block(0, 5).0, keep), Ok(5));
        assert_eq!(lane.begin(&block(5, 2).0, keep), Ok(2));
        assert_eq!(kept(&lane).0, expected, "keep: {keep}, {readers} readers");
    }
}

#[test]
fn a_block_that_begins_again_takes_the_place_of_itself_and_one_without_rows_leaves_nothing() {
    let mut lane = lane();
    assert_eq!(lane.begin(&block(0, 5).0, true), Ok(5));
    assert_eq!(lane.begin(&block(0, 7).0, true), Ok(2));
    assert_eq!((lane.rows(), lane.twice, kept(&lane).0), (7, 5, vec![]));
    assert_eq!(lane.latest().and_then(|row| row.reading(0)), Some(khz_model::Reading::Present(6)));
    assert_eq!(lane.begin(&block(7, 1).0[..HEADER_BYTES], true), Ok(0));
    assert_eq!(lane.begin(&block(9, 1).0, true), Ok(1));
    assert_eq!((kept(&lane).0, lane.awaited()), (vec![(0, 7)], 2));
}

#[test]
fn what_is_unfinished_when_a_block_is_put_away_is_cut_off() {
    let (mut lane, (bytes, _)) = (lane(), block(0, 5));
    assert_eq!(lane.begin(&bytes[..bytes.len() - 1], true), Ok(4));
    assert_eq!(lane.begin(&block(5, 1).0, true), Ok(1));
    let four = block(0, 4).0;
    assert_eq!(kept(&lane), (vec![(0, 4)], four.len() as u64));
    assert_eq!(**lane.recent[0].bytes, four);
}

#[test]
fn of_two_copies_of_a_block_the_one_with_more_rows_stays() {
    let mut lane = lane();
    assert_eq!(lane.begin(&block(0, 3).0, true), Ok(3));
    assert_eq!(lane.begin(&block(20, 1).0, true), Ok(1));
    let whole = block(0, 6).1;
    assert_eq!(lane.past(true, &whole, true), Ok(3));
    assert_eq!(kept(&lane), (vec![(0, 6)], whole.len() as u64));
    assert_eq!((lane.late_rows, lane.twice), (3, 3));
    assert_eq!(lane.past(true, &block(0, 4).1, true), Ok(0));
    assert_eq!(kept(&lane), (vec![(0, 6)], whole.len() as u64));
    // They stand in the order of their rows, not in that of their coming.
    assert_eq!(lane.past(true, &block(10, 2).1, true), Ok(2));
    assert_eq!(lane.past(true, &block(6, 2).1, true), Ok(2));
    assert_eq!(kept(&lane).0, [(0, 6), (6, 2), (10, 2)]);
    assert_eq!((lane.late_rows, lane.twice, lane.rows()), (7, 7, 11));
}

#[test]
fn a_block_may_be_as_large_as_the_limit_and_no_larger() {
    // Of the past, in pieces.
    let mut lane = lane();
    let half = vec![0; BLOCK_BYTES_MAX / 2];
    assert_eq!((lane.past(false, &half, true), lane.past(false, &half, true)), (Ok(0), Ok(0)));
    assert_eq!(lane.past(false, &[0], true), Err("a block larger than any may be"));
    // And of rows as they come.
    let (mut lane, one) = (self::lane(), block(0, 1).0);
    let row = &block(0, 2).0[one.len()..];
    let room = BLOCK_BYTES_MAX - one.len();
    let rows = room / row.len();
    assert_eq!(lane.begin(&[one, row.repeat(rows)].concat(), true), Ok(rows as u64 + 1));
    assert_eq!(lane.append(&row[..room % row.len()]), Ok(0));
    assert_eq!(lane.held() - lane.schemas.bytes(), BLOCK_BYTES_MAX as u64);
    assert_eq!(lane.append(&row[room % row.len()..][..1]), Err("a block larger than any may be"));
}
