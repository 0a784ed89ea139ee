//! After warm-up sending rows asks the allocator for nothing: rings are read straight into what waits to be sent.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use khz_block::Encoder;
use khz_link::{
    AgentEnd, Answer, Greeting, Identity, InterestFrame, Lane, Lanes, Overtaken, Role, Want, Welcome, put,
};
use khz_model::{Nanos, Stamp};
use khz_ring::{Label, Reader, Ring};

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

#[derive(Clone)]
struct TestLane(Reader);

impl Lane for TestLane {
    fn id(&self) -> u64 {
        1
    }
    fn name(&self) -> &str {
        "base"
    }
    fn epoch(&self) -> u64 {
        9
    }
    fn generation(&self) -> u32 {
        self.0.generation()
    }
    fn period(&self) -> Nanos {
        Nanos::from_millis(1)
    }
    fn head(&self) -> u64 {
        self.0.head()
    }
    fn oldest(&self) -> u64 {
        self.0.oldest()
    }
    fn newest(&self) -> u64 {
        self.0.newest()
    }
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        self.0.copy(from, most, out).map_err(|_| Overtaken)
    }
    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.0.schema_bytes(generation)
    }
    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.0.schema(generation, from, most, out)
    }
}

struct OneLane(TestLane);

impl Lanes for OneLane {
    type Lane = TestLane;
    fn revision(&self) -> u64 {
        1
    }
    fn list(&self, each: &mut dyn FnMut(TestLane)) {
        each(self.0.clone());
    }
    fn ask(&mut self, _: &InterestFrame<'_>) {}
    fn dismiss(&mut self, _: u32) {}
    fn answer(&mut self) -> Option<Answer> {
        None
    }
}

#[test]
fn a_flush_allocates_nothing() {
    let (node, lane) = ("n1".to_owned(), "base".to_owned());
    let label = Label { node, lane, number: 1, machine: [1; 16], boot: [2; 16], epoch: 9, created: 0 };
    let Ring { mut writer, reader, .. } = Ring::anonymous(1 << 20, label).expect("a ring");
    writer.extend_schema(&[1; 100]).expect("room for a schema");
    let mut encoder = Encoder::new(1, writer.generation(), Nanos::from_millis(1));
    let mut lanes = OneLane(TestLane(reader));
    let identity = Identity {
        role: Role::Node,
        name: "n1".into(),
        machine: [1; 16],
        boot: [2; 16],
        started: 1,
        start_nonce: 1,
        program: "test".into(),
        prove: None,
    };
    let (mut now, mut out, mut words, mut row) = (Nanos::from_secs(10), Vec::new(), Vec::new(), Vec::new());
    let mut end = AgentEnd::new(Arc::new(identity), now);
    Greeting { lowest: 1, highest: 1, nonce: [0; 32], identity: [0; 16], name: "hub", sources: &[] }
        .put(&mut words);
    Welcome { version: 1, silence: Nanos::SECOND, abilities: 0 }.put(&mut words);
    end.receive(&words, now, 0, &mut lanes, &mut out).expect("a hub");
    end.poll(now, 0, &mut lanes, &mut out).expect("a welcome");
    words.clear();
    Want { epoch: 9, span: Nanos(u64::MAX), ..Want::default() }.put(1, &mut words);
    end.receive(&words, now, 0, &mut lanes, &mut out).expect("a Want");

    let (mut sent, mut counted, mut beats) = (0, 0, 0);
    for step in 0..20_000u64 {
        now.0 += 1_000_000;
        let stamp = Stamp { boot: now, real_offset: 0 };
        row.clear();
        if encoder.wants_new_block(stamp)
            && let Some(header) = encoder.close()
        {
            writer.close(&header);
        }
        if encoder.rows_open() == 0 {
            encoder.key_row(stamp, 100, |slot| (0, step * slot as u64), &mut row);
            assert!(writer.begin(&row));
        } else {
            encoder.delta_row(stamp, 0..100, |slot| (0, step * slot as u64), &mut row);
            assert!(writer.append(&row));
        }
        let before = ALLOCATIONS.get();
        if now >= end.next_wake() {
            end.poll(now, now.0 as i64, &mut lanes, &mut out).expect("a hub that answers");
            sent += out.len();
        }
        // Every Beat is answered at once.
        if let Some(stamp) = find_beat(&out) {
            beats += 1;
            words.clear();
            put::beaten(&mut words, stamp, stamp, stamp, |_| {});
            end.receive(&words, now, now.0 as i64, &mut lanes, &mut out).expect("a Beaten");
        }
        out.clear();
        if step > 2_000 {
            counted += ALLOCATIONS.get() - before;
        }
    }
    assert!(sent > 100_000 && beats > 5, "{sent} bytes, {beats} beats");
    assert_eq!(counted, 0);
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
