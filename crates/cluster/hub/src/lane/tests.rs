//! Tests of a lane in the hub: which rows came, which are lost, what is kept.

use khz_block::{Encoder, SchemaEncoder};
use khz_model::{Instance, Series, metric};

use super::*;
use crate::counts::own_metric;
use crate::limits::LATE_KEPT;
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
        let schema = schemas.grow(lane.schema(1).cloned(), &piece, None).expect("a good schema");
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
    // A reader that wants the past begins in the block that has its moment, in the oldest block, or in the present one.
    let first_row = |since| lane.join_since(Nanos(since)).first_row;
    assert_eq!([0, 7, 48, 49, 1_000].map(first_row), [0, 7, 48, 49, 49]);
    lane.trim(lane.recent_bytes / 2);
    let oldest = lane.recent[0].header.first_row;
    assert!(oldest > 7 && lane.join_since(Nanos(7)).first_row == oldest);
    // Fewer bytes than a header are not taken for a block.
    let (mut piece, mut names) = (Vec::new(), SchemaEncoder::new());
    names.append(&Series { metric, instance: None }, &mut piece).expect("room");
    lane.set_schema(1, schemas.grow(None, &piece, None).expect("a good schema"));
    assert_eq!(lane.blocks_since(Nanos(0)).last().expect("the present one").schema.series().len(), 50);
}

/// A lane whose schema has one slot.
pub(crate) fn lane() -> Lane {
    let mut lane = Lane::new("base", 1, Nanos(1));
    lane.set_schema(1, schema());
    lane
}

pub(crate) fn schema() -> Arc<Schema> {
    let metric = Arc::new(own_metric("a.b", "a_b", "A.", metric::Kind::Gauge, metric::Unit::Count, None));
    let mut piece = Vec::new();
    SchemaEncoder::new().append(&Series { metric, instance: None }, &mut piece).expect("room");
    Schemas::default().grow(None, &piece, None).expect("a good schema")
}

/// A block with this many rows comes in a lane of any node.
pub(crate) fn gets_rows(lane: &mut Lane, first_row: u64, rows: u64) {
    gets_rows_at(lane, first_row, rows, |row| row);
}

/// The same, each row gathered at its own time of the boot clock, which is that since 1970 too.
pub(crate) fn gets_rows_at(lane: &mut Lane, first_row: u64, rows: u64, at: impl Fn(u64) -> u64) {
    if lane.newest_schema().is_none() {
        lane.set_schema(1, schema());
    }
    assert_eq!(lane.begin(&block_at(first_row, rows, at).0, true), Ok(rows));
}

/// A block of this many rows, as it is while it is open, and as it is in the past (closed).
pub(crate) fn block(first_row: u64, rows: u64) -> (Vec<u8>, Vec<u8>) {
    block_at(first_row, rows, |row| row)
}

/// The same, each row gathered at its own time.
fn block_at(first_row: u64, rows: u64, at: impl Fn(u64) -> u64) -> (Vec<u8>, Vec<u8>) {
    block_of(first_row, rows, |row| Stamp { boot: Nanos(at(row)), real_offset: 0 })
}

/// A block that was written while real time was so far after boot time.
pub(crate) fn block_set(first_row: u64, rows: u64, real_offset: i64) -> Vec<u8> {
    block_of(first_row, rows, |row| Stamp { boot: Nanos(row), real_offset }).0
}

fn block_of(first_row: u64, rows: u64, stamp: impl Fn(u64) -> Stamp) -> (Vec<u8>, Vec<u8>) {
    let (mut encoder, mut bytes) = (Encoder::new(0, 1, Nanos(1)), Vec::new());
    encoder.resume(first_row, 1);
    for row in first_row..first_row + rows {
        let stamp = stamp(row);
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
fn an_ended_block_is_kept_for_the_history_and_for_readers_and_for_nothing_else() {
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
fn a_block_that_begins_again_replaces_itself_and_one_without_rows_leaves_nothing() {
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
    assert_eq!(lane.open.as_ref().map(|open| open.bytes.len()), Some(BLOCK_BYTES_MAX));
    assert_eq!(lane.append(&row[room % row.len()..][..1]), Err("a block larger than any may be"));
}

/// What an end says of a block.
fn end_of(closed: &[u8]) -> (u32, u32, u32) {
    let header = Header::from_bytes(closed.first_chunk().expect("a header"), 0).expect("a good header");
    header.closed.expect("a closed block")
}

#[test]
fn a_block_that_is_not_what_its_end_says_is_taken_back_and_its_rows_are_awaited() {
    let (open, closed) = block(4, 6);
    let (rows, length, checksum) = end_of(&closed);
    for (end, problem) in [
        ((rows + 1, length, checksum), "ends elsewhere"),
        ((rows, length - 1, checksum), "ends elsewhere"),
        ((rows, length, !checksum), "checksum"),
    ] {
        let mut lane = lane();
        assert_eq!((lane.begin(&block(0, 4).0, true), lane.begin(&open, true)), (Ok(4), Ok(6)));
        assert!(lane.end(end.0, end.1, end.2).is_err_and(|text| text.contains(problem)), "{end:?}");
        assert_eq!((lane.received(), lane.next_row(), lane.newest()), (&[(0, 4)][..], 4, None));
        assert_eq!(lane.rows(), 10, "a counter does not fall");
        assert_eq!(lane.append(&[0]), Err("rows outside a block"));
        // It comes again, whole, and a row after it: nothing is missing, and nothing is counted twice.
        assert_eq!(lane.begin(&open, true), Ok(0));
        assert_eq!(lane.end(rows, length, checksum), Ok(()));
        assert_eq!(lane.append(&[0]), Err("rows outside a block"), "it has ended");
        assert_eq!(lane.begin(&block(10, 1).0, true), Ok(1));
        assert_eq!((lane.rows(), lane.awaited(), lane.complete_until()), (11, 0, 11));
        assert_eq!(**lane.recent[1].bytes, closed, "it is kept with its final header");
    }
    assert_eq!(lane().end(rows, length, checksum), Err("the end of no block"));
}

#[test]
fn rows_of_a_damaged_block_count_once_however_they_come_again() {
    let (open, closed) = block(4, 6);
    let damaged = || {
        let mut lane = lane();
        let counted = [lane.begin(&block(0, 4).0, true), lane.begin(&open, true)];
        assert_eq!(counted, [Ok(4), Ok(6)]);
        assert!(lane.end(6, 1, 1).is_err());
        lane
    };
    // As a block of the past.
    let mut lane = damaged();
    assert_eq!((lane.past(true, &closed, true), lane.rows()), (Ok(0), 10));
    assert_eq!((lane.begin(&block(10, 2).0, true), lane.rows()), (Ok(2), 12));
    // With other rows than before, and more of them.
    let mut lane = damaged();
    assert_eq!((lane.begin(&block(4, 9).0, true), lane.rows()), (Ok(3), 13));
    // If the node has lost them, the next rows make up for them.
    let mut lane = damaged();
    assert_eq!((lane.lose(4, 10), lane.rows(), lane.lost()), (6, 10, 6));
    assert_eq!((lane.begin(&block(10, 8).0, true), lane.rows()), (Ok(2), 12));
}

#[test]
fn rows_are_received_lost_or_awaited_and_each_is_counted_once() {
    let mut lane = Lane::after("base", 2, Nanos(1), Counted { rows: 100, lost: 10, late: 1 });
    lane.set_schema(1, schema());
    assert_eq!((lane.rows(), lane.lost(), lane.awaited(), lane.has_rows()), (100, 10, 0, false));
    assert_eq!(lane.lose(0, 5), 0, "rows before the first that came are nobody's loss");
    assert_eq!(lane.begin(&block(5, 2).0, true), Ok(2));
    assert_eq!(lane.begin(&block(20, 1).0, true), Ok(1));
    assert_eq!((lane.rows(), lane.lost(), lane.awaited(), lane.has_rows()), (103, 10, 13, true));
    assert_eq!(lane.lose(3, 10), 3);
    assert_eq!(lane.lose(8, 12), 2, "of which two were lost before");
    assert_eq!((lane.rows(), lane.lost(), lane.awaited()), (103, 15, 8));
    assert_eq!(lane.past(true, &block(12, 3).1, true), Ok(3));
    assert_eq!((lane.rows(), lane.lost(), lane.awaited(), lane.late_rows), (106, 15, 5, 4));
    assert_eq!((lane.received(), lane.complete_until()), (&[(5, 15), (20, 21)][..], 15));
}

/// Everything that a reader at this place gets, block by block: whether it begins one, and the bytes.
fn read_all(lane: &Lane, place: &mut Place) -> Vec<(bool, Vec<u8>)> {
    let mut pieces = Vec::new();
    loop {
        let mut out = Vec::new();
        assert_eq!(
            matches!(lane.read(&mut place.clone(), &mut Vec::new()), Piece::Nothing),
            lane.is_read(place)
        );
        match lane.read(place, &mut out) {
            Piece::Nothing => return pieces,
            Piece::More => pieces.push((false, out)),
            Piece::Block(schema) => {
                assert_eq!(schema.series().len(), 1);
                pieces.push((true, out));
            }
        }
    }
}

#[test]
fn a_reader_gets_every_byte_from_its_place_on_once_and_goes_on_after_dropped_blocks() {
    let mut lane = lane();
    let mut place = lane.join();
    assert!(read_all(&lane, &mut place).is_empty());
    let blocks: Vec<Vec<u8>> = (0..4).map(|n| block(n * 5, 5).0).collect();
    assert_eq!(lane.begin(&blocks[0][..70], true).map(|_| ()), Ok(()));
    let mut place = lane.join();
    assert_eq!(read_all(&lane, &mut place), [(true, blocks[0][..70].to_vec())]);
    assert_eq!(lane.append(&blocks[0][70..]).map(|_| ()), Ok(()));
    lane.begin(&blocks[1], true).expect("a block");
    lane.begin(&blocks[2], true).expect("a block");
    let mut late = Place { first_row: 0, offset: 0 };
    assert_eq!(
        read_all(&lane, &mut place),
        [(false, blocks[0][70..].to_vec()), (true, blocks[1].clone()), (true, blocks[2].clone())]
    );
    lane.begin(&blocks[3], true).expect("a block");
    // The oldest blocks are dropped: a reader that had not read them goes on with what is there.
    lane.trim(blocks[2].len() as u64);
    assert_eq!((kept(&lane).0, lane.oldest_row()), (vec![(10, 5)], 10));
    assert_eq!(read_all(&lane, &mut late), [(true, blocks[2].clone()), (true, blocks[3].clone())]);
    assert_eq!(read_all(&lane, &mut place), [(true, blocks[3].clone())]);
    assert_eq!(lane.live(), Some(15));
}

#[test]
fn blocks_are_given_up_oldest_first_but_for_those_that_readers_may_want() {
    for (readers, left) in [(0, 1), (1, BLOCKS_FOR_READERS)] {
        let mut lane = lane();
        (0..20).for_each(|n| assert_eq!(lane.begin(&block(n, 1).0, true), Ok(1)));
        lane.readers = readers;
        let each = lane.recent_bytes / 19;
        lane.trim(lane.recent_bytes);
        assert_eq!(kept(&lane).0.len(), 19, "there is room for all");
        lane.trim(each);
        let expected: Vec<(u64, u32)> = (19 - left as u64..19).map(|row| (row, 1)).collect();
        assert_eq!(kept(&lane).0, expected);
    }
}

#[test]
fn the_newest_row_is_that_of_the_present_block_also_where_it_came_again_shorter() {
    let mut lane = lane();
    let newest = |lane: &mut Lane| {
        let value = lane.latest().and_then(|row| row.reading(0)).and_then(|reading| reading.value());
        assert_eq!(lane.decoded().is_some(), value.is_some());
        value
    };
    assert_eq!(newest(&mut lane), None);
    lane.begin(&block(0, 7).0, true).expect("a block");
    assert_eq!(newest(&mut lane), Some(6));
    lane.begin(&block(0, 3).0, true).expect("the block again");
    assert!(lane.decoded().is_some(), "until somebody looks, what was decoded stands");
    assert_eq!((newest(&mut lane), lane.newest().map(|stamp| stamp.boot)), (Some(2), Some(Nanos(2))));
    let (bytes, before) = (block(0, 9).0, block(0, 3).0.len());
    lane.append(&bytes[before..]).expect("more rows");
    assert_eq!(newest(&mut lane), Some(8));
    lane.begin(&block(9, 1).0, true).expect("a block");
    assert!(lane.decoded().is_none(), "what was decoded is of the block before");
    assert_eq!(newest(&mut lane), Some(9));
}

/// Two blocks of five rows of the past, and two rows of the present block, with this time between two rows.
fn lane_of_twelve(apart: u64) -> Lane {
    let mut lane = lane();
    for (first_row, rows) in [(0, 5), (5, 5), (10, 2)] {
        lane.begin(&block_at(first_row, rows, |row| row * apart).0, true).expect("a block");
    }
    lane
}

#[test]
fn of_the_past_the_blocks_that_have_its_rows_are_shown_each_once() {
    let mut lane = lane_of_twelve(1);
    let shown = |lane: &Lane, since| -> Vec<(u64, u32)> {
        let blocks = lane.blocks_since(Nanos(since));
        blocks.iter().map(|block| (block.header.first_row, block.rows)).collect()
    };
    for since in [0, 4] {
        assert_eq!(shown(&lane, since), [(0, 5), (5, 5), (10, 2)], "since {since}");
    }
    for since in [5, 9, 1_000] {
        assert_eq!(shown(&lane, since), [(5, 5), (10, 2)], "since {since}");
    }
    // The present block, whole, is in the past already.
    assert_eq!(lane.past(true, &block(10, 4).1, true), Ok(2));
    assert_eq!(shown(&lane, 9), [(5, 5), (10, 2)]);
}

#[test]
fn a_span_gives_the_numbers_of_its_rows_however_far_apart_they_are() {
    let lane = lane_of_twelve(1);
    let first = |lane: &Lane, span, every| lane.first_number_since(Nanos(span), every);
    assert_eq!([0, 3, 10, 11, 100].map(|span| first(&lane, span, 1)), [11, 8, 1, 0, 0]);
    assert_eq!((first(&lane, 3, 2), first(&lane, u64::MAX, 1)), (4, 0));
    // Rows that are ten periods apart: the block that has the moment.
    let sparse = lane_of_twelve(10);
    assert_eq!([20, 60, 61, 1_000].map(|span| first(&sparse, span, 1)), [5, 5, 0, 0]);
    assert_eq!(first(&self::lane(), 3, 1), 0, "nothing has come");
}

#[test]
fn between_two_rows_there_are_as_many_ticks_as_periods_but_for_the_last() {
    let lane = lane_of_twelve(10);
    let ticks = |boot, period| lane.ticks_since(Stamp { boot: Nanos(boot), real_offset: 0 }, Nanos(period));
    // The newest row is of 110. A tick a little early or late is still that tick.
    assert_eq!([110, 100, 90, 60, 58, 62].map(|boot| ticks(boot, 10)), [0, 0, 1, 4, 4, 4]);
    assert_eq!((ticks(10, 100), ticks(10, 50), ticks(10, 0)), (0, 1, 0));
    assert_eq!(self::lane().ticks_since(Stamp::default(), Nanos(10)), 0, "nothing has come");
}

#[test]
fn a_block_that_came_late_is_kept_for_its_readers_so_long_and_is_lost_to_them_then() {
    let now = |after: u64| Nanos(1_000_000_000_000 + after);
    let late = |readers: usize| {
        let mut lane = lane();
        lane.late_readers = readers;
        gets_rows(&mut lane, 50, 1);
        crate::clock::played::NOW.set(Some(now(0)));
        assert_eq!(lane.past(true, &block(0, 5).1, false), Ok(5));
        crate::clock::played::NOW.set(None);
        lane
    };
    let mut lane = late(1);
    let changes = lane.late.changes;
    lane.late.keep_house(now(LATE_KEPT.0), true);
    assert_eq!((lane.late.lost(0, 10), lane.late.changes), (vec![], changes));
    lane.late.keep_house(now(LATE_KEPT.0 + 1), true);
    assert_eq!(lane.late.lost(0, 10), [(0, 5)]);
    assert!(lane.late.changes > changes, "readers look what became of it");
    // Without readers it is not missing. One that comes soon finds it.
    let mut lane = late(1);
    lane.late.keep_house(now(LATE_KEPT.0), false);
    assert!(lane.late.has_blocks());
    lane.late.keep_house(now(LATE_KEPT.0 + 1), false);
    assert!(!lane.late.has_blocks() && lane.late.lost(0, 10).is_empty());
}

/// What became of rows, in words.
fn parts(lane: &Lane, from: u64, to: u64, bytes: usize) -> (Vec<String>, u64) {
    let (parts, until) = lane.parts(from, to, bytes);
    let told = parts.iter().map(|part| match part {
        Part::Here(block, from, to) => format!("here {from}..{to} in {}", block.header.first_row),
        Part::Lost(from, to) => format!("lost {from}..{to}"),
        Part::Gone(from, to) => format!("gone {from}..{to}"),
        Part::Never(from, to) => format!("never {from}..{to}"),
    });
    (told.collect(), until)
}

#[test]
fn of_each_row_that_a_reader_lacks_it_is_said_what_became_of_it() {
    let mut lane = lane();
    gets_rows(&mut lane, 0, 5);
    gets_rows(&mut lane, 10, 2);
    lane.lose(7, 9);
    // Nothing of the lane is wanted yet: missing rows do not come without asking.
    let all = ["here 0..5 in 0", "lost 7..9", "here 10..12 in 10"];
    assert_eq!(parts(&lane, 0, 12, usize::MAX), (all.map(str::to_owned).to_vec(), 12));
    lane.late.want(Some(9));
    let told = |lane: &Lane| parts(lane, 5, 10, usize::MAX).0;
    assert_eq!(told(&lane), ["lost 7..9", "never 5..7"], "what is wanted comes, or is reported");
    lane.late.ask(5, 6);
    assert_eq!(told(&lane), ["lost 7..9", "never 6..7"], "the node was asked for it");
    assert_eq!(
        parts(&lane, 3, 12, 1),
        (vec!["here 3..5 in 0".into()], 5),
        "the rest comes with the next look"
    );
    lane.trim(0);
    assert_eq!(parts(&lane, 2, 6, usize::MAX).0, ["gone 2..5"]);
}
