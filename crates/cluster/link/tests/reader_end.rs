//! A reader's end against a hub whose frames the test writes: which rows it has is remembered across connections.

mod identity;
mod welcome;

use std::sync::Arc;

use khz_block::{Decoder, Encoder, HEADER_BYTES, Header};
use khz_link::limits::FRAME_MAX;
use khz_link::{
    Accept, Ask, End, Frame, Greeting, Identity, LaneKey, LaneOffer, LaneSink, LinkError, ReaderEnd, Role,
    Told, Welcome, frame, put,
};
use khz_model::{Nanos, Stamp};
use welcome::welcome;

#[derive(Default)]
struct Notes(Vec<String>);

impl LaneSink for Notes {
    fn offered(&mut self, lane: &LaneKey, _: &LaneOffer<'_>) -> Option<Accept> {
        (lane.name == "base").then_some(Accept {
            span: Nanos::from_secs(600),
            prompt: true,
            from: None,
            held: None,
        })
    }
    fn schema(&mut self, _: &LaneKey, generation: u32, offset: u64, bytes: &[u8]) {
        self.0.push(format!("schema {generation} {offset}+{}", bytes.len()));
    }
    fn row(&mut self, lane: &LaneKey, number: u64, row: &Decoder) {
        let value = row.reading(0).and_then(|reading| reading.value());
        self.0.push(format!("{}:{} row {number} {value:?}", lane.node, lane.name));
    }
    fn block(&mut self, _: &LaneKey, bytes: &[u8]) {
        let header = Header::from_bytes(bytes.first_chunk().expect("a header"), 0).expect("a header");
        self.0.push(format!("block {} {:?}", header.first_row, header.closed.map(|(rows, ..)| rows)));
    }
    fn lost(&mut self, _: &LaneKey, from: u64, to: u64) {
        self.0.push(format!("lost {from}..{to}"));
    }
    fn answered(&mut self, told: &Told<'_>) {
        self.0.push(format!("told {} {}", told.interest, told.granted));
    }
    fn closed(&mut self, lane: &LaneKey) {
        self.0.push(format!("closed {}", lane.name));
    }
    fn clock(&mut self, ahead: Option<i64>) {
        self.0.push(format!("clock {ahead:?}"));
    }
}

/// Two closed blocks of two rows each.
fn blocks() -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(1, 1, Nanos(1_000));
    let stamp = |row: u64| Stamp { boot: Nanos(row * 1_000), real_offset: 0 };
    let two = |encoder: &mut Encoder, row: u64| {
        let mut bytes = Vec::new();
        encoder.key_row(stamp(row), 1, |_| (0, row), &mut bytes);
        encoder.delta_row(stamp(row + 1), 0..1, |_| (0, row + 1), &mut bytes);
        let header = encoder.close().expect("an open block");
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes
    };
    vec![two(&mut encoder, 0), two(&mut encoder, 2)]
}

fn with(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    let open = put::open_lane(out, kind, 1);
    out.extend_from_slice(bytes);
    open.close(out);
}

fn end_of(block: &[u8]) -> End {
    let header = Header::from_bytes(block.first_chunk().expect("a header"), 0).expect("a header");
    let (rows, bytes, crc) = header.closed.expect("a closed block");
    End { lane: 1, rows, bytes, crc }
}

fn offer(name: &str, lane: u32, out: &mut Vec<u8>) {
    offer_of(name, lane, (5, 4), false, out);
}

/// The offer of a lane of this epoch, with the row that comes next.
fn offer_of(name: &str, lane: u32, (epoch, next_row): (u64, u64), stands_in: bool, out: &mut Vec<u8>) {
    offer_at(name, lane, (epoch, Nanos(1_000), next_row), stands_in, out);
}

/// The same of a lane with this time between two rows.
fn offer_at(
    name: &str,
    lane: u32,
    (epoch, period, next_row): (u64, Nanos, u64),
    stands_in: bool,
    out: &mut Vec<u8>,
) {
    let (node, generation) = ("n7", 1);
    let (oldest_row, schema_bytes, schema_hash) = (0, 10, [0; 16]);
    let interest = 1;
    LaneOffer {
        lane,
        node,
        name,
        epoch,
        generation,
        period,
        interest,
        oldest_row,
        next_row,
        schema_bytes,
        schema_hash,
        stands_in,
    }
    .put(out);
}

fn reader() -> ReaderEnd {
    let identity = Identity {
        role: Role::Reader,
        name: "eye".into(),
        prove: Some(Box::new(|nonce| nonce.map(|byte| byte ^ 7))),
        ..identity::identity()
    };
    ReaderEnd::new(Arc::new(identity), Nanos(0))
}

/// The names of the frames that were sent.
fn names(bytes: &[u8]) -> Vec<String> {
    let (mut at, mut names) = (0, Vec::new());
    while let Some(raw) = frame::split(&bytes[at..], FRAME_MAX).expect("frames") {
        names.push(match Frame::decode(raw.kind, raw.body).expect("a frame") {
            Frame::Want(want) => format!("Want from {} have {:?}", want.from_row, want.to_want().have),
            Frame::Hello(hello) => format!("Hello {:?} {:?}", hello.role, hello.proof.map(|proof| proof[0])),
            frame => frame.name().to_owned(),
        });
        at += raw.length;
    }
    names
}

#[test]
fn what_is_settled_is_not_asked_for_again() {
    let (mut end, mut sink, mut said, mut out) = (reader(), Notes::default(), Vec::new(), Vec::new());
    let blocks = blocks();
    welcome(&mut said);
    offer("local", 2, &mut said);
    offer("base", 1, &mut said);
    Told { interest: 1, granted: true, period: Nanos(1_000), text: "", lane: 0, refused_by: "" }
        .put(&mut said);
    let schema = put::open_schema(&mut said, 1, 1, 0);
    said.extend_from_slice(&[0; 10]);
    schema.close(&mut said);
    // The newest block first, then it breaks off within it; the block before had come as past.
    let mut open = blocks[1].clone();
    open[5] = 0;
    with(frame::kind::BLOCK, &open[..HEADER_BYTES + 4], &mut said);
    with(frame::kind::ROWS, &open[HEADER_BYTES + 4..open.len() - 1], &mut said);
    for (n, piece) in blocks[0].chunks(40).enumerate() {
        let past = put::open_past(&mut said, 1, (n + 1) * 40 >= blocks[0].len());
        said.extend_from_slice(piece);
        past.close(&mut said);
    }
    for piece in said.chunks(7) {
        end.receive(piece, Nanos(1), 1, &mut sink, &mut out).expect("a good hub");
    }
    end.poll(Nanos(2), 2, &mut out).expect("in time");
    end.ask(
        &Ask { number: 1, period: Nanos(1_000), prompt: true, patterns: &["*"], ..Ask::default() },
        &mut out,
    );
    assert_eq!(names(&out), ["Hello Reader Some(6)", "Want from 0 have []", "Beat", "Interest"]);
    assert_eq!(
        std::mem::take(&mut sink.0),
        ["told 1 true", "schema 1 0+10", "n7:base row 2 Some(2)", "block 0 Some(2)"]
    );

    // Another connection: the block that broke off comes again, whole; the one before is not asked for.
    end.reconnected(Nanos(10));
    (said, out) = (Vec::new(), Vec::new());
    welcome(&mut said);
    offer("base", 1, &mut said);
    with(frame::kind::BLOCK, &open, &mut said);
    end_of(&blocks[1]).put(&mut said);
    put::lost(&mut said, 1, 7, 9);
    put::closed(&mut said, 1);
    end.receive(&said, Nanos(11), 11, &mut sink, &mut out).expect("a good hub");
    assert_eq!(names(&out)[1..], ["Want from 2 have []"]);
    let rows =
        ["n7:base row 2 Some(2)", "n7:base row 3 Some(3)", "block 2 Some(2)", "lost 7..9", "closed base"];
    assert_eq!(sink.0, rows);
    let key = LaneKey { node: "n7".into(), name: "base".into(), epoch: 5 };
    assert_eq!(end.complete_until(&key), Some(4));

    end.reconnected(Nanos(20));
    (said, out) = (Vec::new(), Vec::new());
    welcome(&mut said);
    offer("base", 1, &mut said);
    end.receive(&said, Nanos(21), 21, &mut sink, &mut out).expect("a good hub");
    assert_eq!(names(&out)[1..], ["Want from 4 have [(7, 9)]"]);
}

#[test]
fn a_block_with_a_wrong_checksum_ends_the_connection_and_is_not_settled() {
    let (mut end, mut sink, mut said, mut out) = (reader(), Notes::default(), Vec::new(), Vec::new());
    let block = &blocks()[0];
    welcome(&mut said);
    offer("base", 1, &mut said);
    with(frame::kind::BLOCK, block, &mut said);
    End { crc: 1, ..end_of(block) }.put(&mut said);
    let error = end.receive(&said, Nanos(1), 1, &mut sink, &mut out).expect_err("a wrong checksum");
    assert_eq!(error.to_string(), "a block whose checksum is wrong");
    end.reconnected(Nanos(2));
    assert!(!sink.0.iter().any(|note| note.starts_with("block")));
}

#[test]
fn a_silent_hub_is_left() {
    let (mut end, mut sink, mut said, mut out) = (reader(), Notes::default(), Vec::new(), Vec::new());
    welcome(&mut said);
    end.receive(&said, Nanos(0), 0, &mut sink, &mut out).expect("a good hub");
    end.poll(Nanos(0), 0, &mut out).expect("in time");
    end.poll(Nanos::from_millis(1_400), 0, &mut out).expect("in time");
    let left = end.poll(Nanos::from_millis(1_500), 0, &mut out);
    let Err(LinkError::Silent(since)) = left else { panic!("{left:?}") };
    assert!(since >= khz_link::limits::BEATEN_LATE && since < Nanos::from_secs(3), "{since}");
}

#[test]
fn each_answer_to_a_beat_says_how_far_the_hubs_clock_is_ahead() {
    let (mut end, mut sink, mut said, mut out) = (reader(), Notes::default(), Vec::new(), Vec::new());
    welcome(&mut said);
    end.receive(&said, Nanos(0), 0, &mut sink, &mut out).expect("a good hub");
    let hour = 3_600_000_000_000;
    for (second, ahead) in [(1, 0), (2, 0), (3, hour), (4, hour)] {
        let wall = second * 1_000_000_000;
        let now = Nanos(wall as u64);
        end.poll(now, wall, &mut out).expect("in time");
        said.clear();
        put::beaten(&mut said, wall, wall + ahead, wall + ahead, |_| ());
        end.receive(&said, now, wall, &mut sink, &mut out).expect("a good hub");
    }
    // The one that shows that the clock was set says what it is now.
    let ahead = format!("clock Some({hour})");
    assert_eq!(sink.0, ["clock Some(0)", "clock Some(0)", &ahead, &ahead]);
}

#[test]
fn the_highest_version_that_both_know_is_spoken() {
    for (highest, chosen) in [(1, 1), (2, 2), (3, 3), (9, 3)] {
        let (mut end, mut sink, mut said, mut out) = (reader(), Notes::default(), Vec::new(), Vec::new());
        let (nonce, identity, name, sources) = ([1; 32], [2; 16], "hub", &[][..]);
        Greeting { lowest: 1, highest, nonce, identity, name, sources }.put(&mut said);
        Welcome { version: chosen, silence: Nanos::SECOND, abilities: 0 }.put(&mut said);
        end.receive(&said, Nanos(1), 1, &mut sink, &mut out).expect("a good hub");
        let hello = frame::split(&out, FRAME_MAX).expect("a frame").expect("whole");
        let Ok(Frame::Hello(hello)) = Frame::decode(hello.kind, hello.body) else { panic!("no Hello") };
        assert_eq!((hello.version, end.is_welcome()), (chosen, true));
    }
    let (mut end, mut sink, mut said, mut out) = (reader(), Notes::default(), Vec::new(), Vec::new());
    let (nonce, identity, name, sources) = ([1; 32], [2; 16], "hub", &[][..]);
    Greeting { lowest: 4, highest: 5, nonce, identity, name, sources }.put(&mut said);
    let error = end.receive(&said, Nanos(1), 1, &mut sink, &mut out).expect_err("nothing in common");
    assert_eq!(error, LinkError::Version { lowest: 4, highest: 5 });
}

/// Takes rows that come late, too.
#[derive(Default)]
struct All(Notes);

impl LaneSink for All {
    fn wants_missed(&self) -> bool {
        true
    }
    fn offered(&mut self, _: &LaneKey, _: &LaneOffer<'_>) -> Option<Accept> {
        Some(Accept { span: Nanos(0), prompt: false, from: None, held: None })
    }
    fn schema(&mut self, _: &LaneKey, _: u32, _: u64, _: &[u8]) {}
    fn row(&mut self, _: &LaneKey, _: u64, _: &Decoder) {}
    fn block(&mut self, lane: &LaneKey, bytes: &[u8]) {
        self.0.block(lane, bytes);
    }
    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64) {
        self.0.lost(lane, from, to);
    }
    fn answered(&mut self, _: &Told<'_>) {}
    fn closed(&mut self, _: &LaneKey) {}
    fn declined(&mut self, lane: &LaneKey) {
        self.0.0.push(format!("declined {}", lane.epoch));
    }
}

#[test]
fn a_reader_that_wants_missed_rows_names_those_that_it_has_with_those_of_an_open_block() {
    let (mut end, mut sink, mut said, mut out) = (reader(), All::default(), Vec::new(), Vec::new());
    let blocks = blocks();
    welcome(&mut said);
    offer("interest1", 1, &mut said);
    // The first block, and of the second the first row: then it breaks off.
    with(frame::kind::BLOCK, &blocks[0], &mut said);
    end_of(&blocks[0]).put(&mut said);
    let mut open = blocks[1].clone();
    open[5] = 0;
    with(frame::kind::BLOCK, &open[..open.len() - 1], &mut said);
    end.receive(&said, Nanos(1), 1, &mut sink, &mut out).expect("a good hub");
    assert_eq!(names(&out)[1..], ["Want from 3 have []"], "from the newest row on");
    end.cut(&mut sink);
    assert_eq!(sink.0.0, ["block 0 Some(2)", "block 2 Some(1)"]);

    end.reconnected(Nanos(10));
    (said, out) = (Vec::new(), Vec::new());
    welcome(&mut said);
    offer("interest1", 1, &mut said);
    put::lost(&mut said, 1, 1, 8);
    end.receive(&said, Nanos(11), 11, &mut sink, &mut out).expect("a good hub");
    assert_eq!(names(&out)[1..], ["Want from 3 have []"]);
    assert_eq!(sink.0.0[2..], ["lost 3..8"], "what is here is not lost");
}

/// A closed block of rows from this one on, this far apart.
fn block_of(first: u64, rows: u64, period: Nanos) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::new(1, 1, period), Vec::new());
    encoder.resume(first, 1);
    for row in first..first + rows {
        let stamp = Stamp { boot: Nanos(row * period.0), real_offset: 7 };
        match row == first {
            true => encoder.key_row(stamp, 1, |_| (0, row), &mut bytes),
            false => encoder.delta_row(stamp, 0..1, |_| (0, row), &mut bytes),
        }
    }
    let header = encoder.close().expect("an open block");
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    bytes
}

#[test]
fn rows_that_stood_in_for_faster_ones_and_those_come_each_for_its_own_time() {
    const FAST: (u64, Nanos) = (5, Nanos::from_millis(100));
    const SLOW: (u64, Nanos) = (6, Nanos::SECOND);
    let (mut end, mut sink) = (reader(), All::default());
    // On each connection there is one of both lanes; some rows that it had before come live, and some as missed ones.
    for ((epoch, period), (first, rows), next_row, want, notes) in [
        (FAST, (10, 2), 11, "Want from 10 have []", &["block 10 Some(2)"][..]),
        (SLOW, (1, 3), 2, "Want from 0 have []", &["block 2 Some(2)"]),
        // 3 s are over. Rows of more than 2 s before are not wanted any more.
        (
            FAST,
            (28, 8),
            42,
            "Want from 10 have [(10, 16)]",
            &["lost 12..16", "lost 28..31", "block 31 Some(5)"],
        ),
        // The hub has just started: it knows fewer rows than the reader.
        (SLOW, (3, 3), 2, "Want from 1 have [(1, 4)]", &["block 4 Some(2)"]),
        // What may lie between the last rows that had come of both is still wanted.
        (FAST, (49, 2), 51, "Want from 10 have [(10, 16), (28, 36)]", &["lost 49..51"]),
        (FAST, (51, 2), 52, "Want from 10 have [(10, 16), (28, 36), (49, 51)]", &["block 51 Some(2)"]),
    ] {
        let now = Nanos((first + rows - 1) * period.0);
        end.reconnected(now);
        let (mut said, mut out) = (Vec::new(), Vec::new());
        welcome(&mut said);
        offer_at("interest1", 1, (epoch, period, next_row), epoch == SLOW.0, &mut said);
        let block = block_of(first, rows, period);
        with(frame::kind::BLOCK, &block, &mut said);
        end_of(&block).put(&mut said);
        end.receive(&said, now, 1, &mut sink, &mut out).expect("a good hub");
        assert_eq!(names(&out)[1..], [want], "at {now}");
        assert_eq!(std::mem::take(&mut sink.0.0), notes, "at {now}");
    }
}

/// What a reader does on a connection on which it is offered a lane with these rows, a second apart, the newest one just now: the row
/// from which it wants, how far back, and what comes of it.
fn connects(end: &mut ReaderEnd, sink: &mut All, epoch: u64, (first, rows): (u64, u64)) -> (u64, Nanos) {
    let now = Nanos::from_secs(first + rows - 1);
    end.reconnected(now);
    is_offered(end, sink, epoch, (first, rows), now)
}

/// The same on the present connection, on which it has subscribed, at this time.
fn is_offered(
    end: &mut ReaderEnd,
    sink: &mut All,
    epoch: u64,
    (first, rows): (u64, u64),
    now: Nanos,
) -> (u64, Nanos) {
    let (mut said, mut out) = (Vec::new(), Vec::new());
    if !end.is_welcome() {
        welcome(&mut said);
        end.receive(&said, now, 1, sink, &mut out).expect("a good hub");
        end.ask(&Ask { number: 1, period: Nanos::SECOND, patterns: &["*"], ..Ask::default() }, &mut out);
        (said, out) = (Vec::new(), Vec::new());
    }
    offer_at("interest1", 1, (epoch, Nanos::SECOND, first + rows), false, &mut said);
    let block = block_of(first, rows, Nanos::SECOND);
    with(frame::kind::BLOCK, &block, &mut said);
    end_of(&block).put(&mut said);
    put::closed(&mut said, 1);
    end.receive(&said, now, 1, sink, &mut out).expect("a good hub");
    let raw = frame::split(&out, FRAME_MAX).expect("frames").expect("a frame");
    let Ok(Frame::Want(want)) = Frame::decode(raw.kind, raw.body) else { panic!("no Want") };
    (want.from_row, want.span)
}

#[test]
fn an_older_lane_that_ends_again_takes_no_time_away_from_younger_ones() {
    let (mut end, mut sink) = (reader(), All::default());
    connects(&mut end, &mut sink, 5, (1, 3));
    connects(&mut end, &mut sink, 6, (5, 6));
    // Late rows of the first lane come, and then a third one has rows of a time that the second had.
    is_offered(&mut end, &mut sink, 5, (4, 1), Nanos::from_secs(11));
    is_offered(&mut end, &mut sink, 7, (8, 5), Nanos::from_secs(12));
    let came = ["block 1 Some(3)", "block 5 Some(6)", "block 4 Some(1)", "block 11 Some(2)"];
    assert_eq!(sink.0.0, came);
}

#[test]
fn rows_of_an_epoch_between_two_others_come_when_its_hub_is_there_again() {
    let (mut end, mut sink) = (reader(), All::default());
    let hour = 3_600;
    connects(&mut end, &mut sink, 5, (hour, 3));
    // At another hub, where nobody has the epoch between.
    let (_, span) = connects(&mut end, &mut sink, 7, (hour + 20, 3));
    assert_eq!(span, Nanos::from_secs(22), "since the first lane, and two seconds more");
    // Only with a limited span the hub offers lanes of epochs that are over. It has the time of all rows of the lane.
    let (from, span) = connects(&mut end, &mut sink, 7, (hour + 23, 3));
    assert_eq!((from, span), (hour + 20, Nanos::from_secs(25)));
    // Some of its rows are from a time that others have.
    let (from, span) = is_offered(&mut end, &mut sink, 6, (hour, 25), Nanos::from_secs(hour + 25));
    assert_eq!((from, span), (0, Nanos::from_secs(25)));
    let came = [
        "block 3600 Some(3)",
        "block 3620 Some(3)",
        "block 3623 Some(3)",
        "lost 3620..3625",
        "block 3603 Some(17)",
    ];
    assert_eq!(sink.0.0, came);
    // Now no time lacks rows.
    let (_, span) = connects(&mut end, &mut sink, 7, (hour + 26, 3));
    assert_eq!(span, Nanos(u64::MAX));
}

#[test]
fn no_row_from_before_the_subscription_comes_in_a_lane_of_another_epoch() {
    let (mut end, mut sink) = (reader(), All::default());
    connects(&mut end, &mut sink, 5, (100, 3));
    let (_, span) = connects(&mut end, &mut sink, 7, (120, 3));
    assert_eq!(span, Nanos::from_secs(22));
    // A lane that ended before, and one that went on: what is dropped of them is no loss.
    is_offered(&mut end, &mut sink, 4, (80, 10), Nanos::from_secs(122));
    is_offered(&mut end, &mut sink, 6, (90, 20), Nanos::from_secs(122));
    assert_eq!(sink.0.0, ["block 100 Some(3)", "block 120 Some(3)", "block 103 Some(7)"]);
}

#[test]
fn rows_that_came_do_not_come_again_when_their_numbers_are_forgotten() {
    let (mut end, mut sink) = (reader(), All::default());
    connects(&mut end, &mut sink, 5, (1, 3));
    // The node is away for two hours, but its hub has its rows.
    let later = Nanos::from_secs(7_200);
    end.reconnected(later);
    is_offered(&mut end, &mut sink, 5, (1, 4), later);
    assert_eq!(sink.0.0, ["block 1 Some(3)", "block 4 Some(1)"]);
}

#[test]
fn the_clock_before_a_reboot_does_not_tell_when_rows_after_it_were_gathered() {
    let (mut end, mut sink) = (reader(), All::default());
    // Each boot of the node begins at this time of ours, with a clock that begins again.
    let mut span = Nanos(0);
    for (epoch, boot) in [(5, 0), (6, 10_000), (7, 20_000)] {
        let now = Nanos::from_secs(boot + 102);
        end.reconnected(now);
        let (mut said, mut out) = (Vec::new(), Vec::new());
        let mut block = block_of(100, 3, Nanos::SECOND);
        let header = Header::from_bytes(block.first_chunk().expect("a header"), 0).expect("a header");
        let stamp = Stamp { real_offset: Nanos::from_secs(boot).0 as i64, ..header.stamp };
        block[..HEADER_BYTES].copy_from_slice(&Header { stamp, ..header }.to_bytes());
        welcome(&mut said);
        offer_at("interest1", 1, (epoch, Nanos::SECOND, 103), false, &mut said);
        with(frame::kind::BLOCK, &block, &mut said);
        end_of(&block).put(&mut said);
        end.receive(&said, now, 1, &mut sink, &mut out).expect("a good hub");
        let hello = frame::split(&out, FRAME_MAX).expect("frames").expect("a frame").length;
        let raw = frame::split(&out[hello..], FRAME_MAX).expect("frames").expect("a frame");
        let Ok(Frame::Want(want)) = Frame::decode(raw.kind, raw.body) else { panic!("no Want") };
        span = want.span;
    }
    assert_eq!(span, Nanos::from_secs(10_002), "since the last row before");
    assert_eq!(sink.0.0, ["block 100 Some(3)"; 3]);
}

#[test]
fn after_a_reboot_the_clock_of_the_node_says_nothing_of_the_lane_before() {
    let (mut end, mut sink) = (reader(), All::default());
    for (epoch, first, uptime) in [(5, 1_000, 7), (6, 3, 2_000_000_000_007)] {
        end.reconnected(Nanos(5));
        let (mut said, mut out, mut block) = (Vec::new(), Vec::new(), block_of(first, 2, Nanos::SECOND));
        let header = Header::from_bytes(block.first_chunk().expect("a header"), 0).expect("a header");
        let stamp = Stamp { real_offset: uptime, ..header.stamp };
        block[..HEADER_BYTES].copy_from_slice(&Header { stamp, ..header }.to_bytes());
        welcome(&mut said);
        offer_of("interest1", 1, (epoch, first + 1), false, &mut said);
        with(frame::kind::BLOCK, &block, &mut said);
        end_of(&block).put(&mut said);
        end.receive(&said, Nanos(6), 1, &mut sink, &mut out).expect("a good hub");
    }
    assert_eq!(sink.0.0, ["block 1000 Some(2)", "block 3 Some(2)"]);
}

#[test]
fn a_reader_with_several_hubs_takes_no_lane_that_stands_in_for_a_faster_one() {
    let (mut end, mut sink, mut said, mut out) =
        (reader().among_hubs(), All::default(), Vec::new(), Vec::new());
    welcome(&mut said);
    offer_of("interest1", 1, (6, 40), true, &mut said);
    offer_of("interest1", 2, (5, 4), false, &mut said);
    end.receive(&said, Nanos(1), 1, &mut sink, &mut out).expect("a good hub");
    assert_eq!(names(&out)[1..], ["Want from 3 have []"]);
    assert_eq!(sink.0.0, ["declined 6"]);
}
