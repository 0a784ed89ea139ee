//! An agent's end of the link, over a real ring: sending asks the allocator for nothing, and wakes up no more often than
//! it must.

mod identity;
mod one_lane;
mod ring_lane;
mod welcome;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use identity::identity;
use khz_block::Encoder;
use khz_link::{AgentEnd, Want, put};
use khz_model::{Nanos, Stamp};
use khz_ring::{Label, Reader, Ring, Writer};
use one_lane::OneLane;
use ring_lane::RingLane;
use welcome::welcome;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An end that is welcome and whose lane is wanted, and the ring that it reads.
struct Agent {
    end: AgentEnd<RingLane>,
    lanes: OneLane,
    writer: Writer,
    encoder: Encoder,
    words: Vec<u8>,
    row: Vec<u8>,
    out: Vec<u8>,
    beats: u64,
}

impl Agent {
    fn new(period: Nanos, prompt: bool, now: Nanos) -> Self {
        Agent::with(period, prompt, now, OneLane::new)
    }

    fn with(period: Nanos, prompt: bool, now: Nanos, lane: impl FnOnce(Reader, Nanos) -> OneLane) -> Self {
        let (node, name) = ("n1".to_owned(), "base".to_owned());
        let label =
            Label { node, lane: name, number: 1, machine: [1; 16], boot: [2; 16], epoch: 9, created: 0 };
        let Ring { mut writer, reader, .. } = Ring::anonymous(1 << 20, label).expect("a ring");
        writer.extend_schema(&[1; 100]).expect("room for a schema");
        let encoder = Encoder::new(1, writer.generation(), period);
        let mut lanes = lane(reader, period);
        let (mut out, mut words) = (Vec::new(), Vec::new());
        let mut end = AgentEnd::new(Arc::new(identity()), now);
        welcome(&mut words);
        end.receive(&words, now, 0, &mut lanes, &mut out).expect("a hub");
        end.poll(now, 0, &mut lanes, &mut out).expect("a welcome");
        words.clear();
        Want { epoch: 9, span: Nanos(u64::MAX), prompt, ..Want::default() }.put(1, &mut words);
        end.receive(&words, now, 0, &mut lanes, &mut out).expect("a Want");
        out.clear();
        Agent { end, lanes, writer, encoder, words, row: Vec::new(), out, beats: 0 }
    }

    /// A row of a hundred slots, all of them changed.
    fn gather(&mut self, step: u64, now: Nanos) {
        let stamp = Stamp { boot: now, real_offset: 0 };
        self.row.clear();
        if self.encoder.wants_new_block(stamp)
            && let Some(header) = self.encoder.close()
        {
            self.writer.close(&header);
        }
        let reading = |slot: usize| (0, step * slot as u64);
        if self.encoder.rows_open() == 0 {
            self.encoder.key_row(stamp, 100, reading, &mut self.row);
            assert!(self.writer.begin(&self.row));
        } else {
            self.encoder.delta_row(stamp, 0..100, reading, &mut self.row);
            assert!(self.writer.append(&self.row));
        }
    }

    /// Sends what is due to a hub that answers every Beat at once; returns the number of bytes.
    fn poll(&mut self, now: Nanos) -> usize {
        let wall = now.0 as i64;
        self.end.poll(now, wall, &mut self.lanes, &mut self.out).expect("a hub that answers");
        let said = self.out.len();
        if let Some(stamp) = find_beat(&self.out) {
            self.beats += 1;
            self.words.clear();
            put::beaten(&mut self.words, stamp, stamp, stamp, |_| {});
            self.end.receive(&self.words, now, wall, &mut self.lanes, &mut self.out).expect("a Beaten");
        }
        self.out.clear();
        said
    }
}

#[test]
fn a_flush_allocates_nothing() {
    let period = Nanos::from_millis(1);
    let mut now = Nanos::from_secs(10);
    let mut agent = Agent::new(period, false, now);
    let (mut sent, mut counted) = (0, 0);
    for step in 0..20_000u64 {
        now.0 += period.0;
        agent.gather(step, now);
        let before = ALLOCATIONS.get();
        if now >= agent.end.next_wake() {
            sent += agent.poll(now);
        }
        if step > 2_000 {
            counted += ALLOCATIONS.get() - before;
        }
    }
    assert!(sent > 100_000 && agent.beats > 5, "{sent} bytes, {} beats", agent.beats);
    assert_eq!(counted, 0);
}

/// Whatever its phase is, once its rows are prompt it wakes up for them alone, and every second a Beat goes along.
#[test]
fn beats_ride_on_prompt_rows() {
    for (millis, rows_a_beat) in [(100, 10), (1_000, 1)] {
        for connected_early in [10, 120, 500, 880, 990] {
            let period = Nanos::from_millis(millis);
            let mut now = Nanos::from_secs(10);
            let mut agent = Agent::new(period, true, Nanos(now.0 - connected_early * 1_000_000));
            let (mut extra, mut settled) = (0, 0);
            for step in 0..40 * rows_a_beat {
                if step == 10 * rows_a_beat {
                    settled = agent.beats;
                }
                while agent.end.next_wake() < now {
                    let due = agent.end.next_wake();
                    agent.poll(due);
                    extra += u64::from(step > 10 * rows_a_beat);
                }
                agent.gather(step, now);
                agent.poll(now);
                now.0 += period.0;
            }
            let beats = agent.beats - settled;
            assert_eq!(extra, 0, "wake-ups without a row, every {millis} ms, {connected_early} ms early");
            assert!((30..=34).contains(&beats), "{beats} beats in 30 s, every {millis} ms");
        }
    }
}

/// The names of the frames that a poll sends.
fn sent(agent: &mut Agent, now: Nanos) -> Vec<&'static str> {
    let mut names = Vec::new();
    agent.end.poll(now, 0, &mut agent.lanes, &mut agent.out).expect("a hub that answers");
    let mut bytes = &agent.out[..];
    while let Ok(Some(raw)) = khz_link::frame::split(bytes, khz_link::limits::FRAME_MAX) {
        names.push(khz_link::Frame::decode(raw.kind, raw.body).expect("a frame").name());
        bytes = &bytes[raw.length..];
    }
    names.retain(|&name| name != "Beat");
    agent.out.clear();
    names
}

#[test]
fn a_lane_whose_first_row_may_be_far_off_has_its_schema_at_the_peer_before_it() {
    let now = Nanos::from_secs(10);
    for (lane, at_once, with_a_row) in [
        (OneLane::irregular as fn(Reader, Nanos) -> OneLane, &["Schema"][..], &["Block"][..]),
        (OneLane::new, &[], &["Schema", "Block"]),
    ] {
        let mut agent = Agent::with(Nanos::from_millis(10), true, now, lane);
        assert_eq!(sent(&mut agent, now), at_once);
        assert_eq!(sent(&mut agent, now), [""; 0], "it is there");
        agent.gather(1, now);
        assert_eq!(sent(&mut agent, now), with_a_row);
    }
}

#[test]
fn rows_that_come_at_any_time_are_sent_again_in_their_order() {
    let now = Nanos::from_secs(10_000);
    for (lane, names) in [
        (OneLane::irregular as fn(Reader, Nanos) -> OneLane, &["Block", "End", "Block", "End", "Block"][..]),
        (OneLane::new, &["Block", "Past", "Past"]),
    ] {
        let mut agent = Agent::with(Nanos::from_millis(10), true, now, lane);
        sent(&mut agent, now);
        for block in 0..4 {
            for row in 0..3 {
                agent.gather(row, Nanos(now.0 + block * 1_000 + row));
            }
            if block < 3 {
                let header = agent.encoder.close().expect("an open block");
                agent.writer.close(&header);
            }
        }
        agent.words.clear();
        put::leave(&mut agent.words, 1);
        // The schema is there, and the first block, and a row of the second.
        Want {
            epoch: 9,
            from_row: 4,
            span: Nanos(u64::MAX),
            schema_bytes: 100,
            prompt: true,
            ..Want::default()
        }
        .put(1, &mut agent.words);
        agent.end.receive(&agent.words, now, 0, &mut agent.lanes, &mut agent.out).expect("a Want");
        // Past blocks have a pace.
        let polls = (0..5).flat_map(|n| sent(&mut agent, Nanos(now.0 + n * 50_000_000)));
        assert_eq!(polls.collect::<Vec<_>>(), names);
    }
}

#[test]
fn only_rows_that_come_every_second_carry_what_is_due() {
    for (millis, prompt, is_regular, carry) in [
        (10, true, true, true),
        (1_000, true, true, true),
        (10, false, true, false),
        (10_000, true, true, false),
        (10, true, false, false),
    ] {
        let lane = if is_regular { OneLane::new } else { OneLane::irregular };
        let agent = Agent::with(Nanos::from_millis(millis), prompt, Nanos::from_secs(10), lane);
        assert_eq!(agent.end.is_carried_often(), carry, "{millis} ms, {prompt}, {is_regular}");
    }
}

/// The stamp of a Beat among the frames in `bytes`.
fn find_beat(mut bytes: &[u8]) -> Option<i64> {
    while let Ok(Some(raw)) = khz_link::frame::split(bytes, khz_link::limits::FRAME_MAX) {
        if let Ok(khz_link::Frame::Beat(beat)) = khz_link::Frame::decode(raw.kind, raw.body) {
            return Some(beat.stamp);
        }
        bytes = &bytes[raw.length..];
    }
    None
}

#[test]
fn an_agent_that_ends_sends_the_rows_that_wait_for_a_flush() {
    // Ten rows a second, flushed once a second, and some that take more than may wait to be sent.
    for rows in [7, 4_000] {
        let now = Nanos::from_secs(10);
        let mut agent = Agent::new(Nanos::from_millis(100), false, now);
        agent.poll(now);
        for step in 0..rows {
            agent.gather(step, Nanos(now.0 + step));
        }
        let (mut rounds, mut decoder) = (0, khz_link::Intake::new(9));
        let mut sink = Numbers::default();
        loop {
            let is_all = agent.end.flush(&mut agent.out);
            take(&agent.out, &mut decoder, &mut sink);
            agent.out.clear();
            rounds += 1;
            if is_all {
                break;
            }
        }
        assert_eq!(sink.0, (0..rows).collect::<Vec<_>>(), "each row once, in order");
        assert!((rounds > 1) == (rows > 7), "{rounds} rounds for {rows} rows");
    }
}

/// The numbers of rows that came.
#[derive(Default)]
struct Numbers(Vec<u64>);

impl khz_link::RowSink for Numbers {
    fn row(&mut self, number: u64, _: &khz_block::Decoder) {
        self.0.push(number);
    }
    fn block(&mut self, _: &[u8]) {}
    fn lost(&mut self, from: u64, to: u64) {
        panic!("{from}..{to} are lost");
    }
}

/// A hub takes these frames.
fn take(mut bytes: &[u8], intake: &mut khz_link::Intake, sink: &mut Numbers) {
    use khz_link::{Frame, frame, limits::FRAME_MAX};
    while let Some(found) = frame::split(bytes, FRAME_MAX).expect("whole frames") {
        match Frame::decode(found.kind, found.body).expect("a frame") {
            Frame::Block { bytes, .. } => intake.begin(bytes, sink).expect("a block"),
            Frame::Rows { bytes, .. } => intake.rows(bytes, sink).expect("rows"),
            Frame::End(end) => intake.end(&end, sink).expect("an end"),
            _ => {}
        }
        bytes = &bytes[found.length..];
    }
}
