//! After a warm-up, a tick of the gather thread allocates nothing. This test needs its own process, because
//! it counts every allocation.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use khz_gather::{Agent, Plan, WantedBy};
use khz_model::{Nanos, NodeName, Pattern};
use khz_plan::{Condition, Form, Handler, Over, Selector, Step, Test, Values, When};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes unchanged to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A channel that sends results, one that sends readings, and one that sends nothing; and whether the first two have sent.
fn channels(agent: &Agent) -> (Vec<khz_gather::LaneHandle>, impl Fn() -> bool + use<>) {
    let selector = |name: &str| {
        let conditions = vec![Condition { label: "__name__".into(), test: Test::Is(name.into()) }];
        Selector { form: Form::Own, conditions }
    };
    let of = |name: &str, over| {
        let step = Step::Window { selector: selector(name), length: Nanos::from_secs(1), over };
        Some(khz_plan::Plan::new(vec![step]).unwrap())
    };
    let never = khz_plan::Plan::new(vec![Step::Series(selector("no.such"))]).ok();
    let handlers = [
        Handler {
            values: Values::Plan(of("kernel.context_switches", Over::Rate).unwrap()),
            ..Handler::default()
        },
        Handler {
            when: Some(When { plan: of("mem.free", Over::Avg), ..When::default() }),
            ..Handler::default()
        },
        Handler { when: Some(When { plan: never, ..When::default() }), ..Handler::default() },
    ];
    let patterns = [Pattern::new("*").unwrap()];
    let open = |handler: &Handler| {
        let name = khz_model::ChannelName::new("c").unwrap();
        let terms = khz_model::ChannelTerms { name, handler: handler.to_bytes().unwrap().into() };
        agent
            .shared_lanes()
            .follow_channel(&patterns, "1kHz".parse().unwrap(), true, &Arc::new(terms), WantedBy::Readers)
            .unwrap()
    };
    let lanes: Vec<_> = handlers.iter().map(open).collect();
    let heads: Vec<_> = lanes.iter().map(|lane| lane.reader().clone()).collect();
    (lanes, move || heads[0].head() > 0 && heads[1].head() > 0 && heads[2].head() == 0)
}

#[test]
fn a_tick_allocates_nothing() {
    let mut plan = Plan::new("/", NodeName::new("n1").unwrap());
    let rate = "1kHz".parse().unwrap();
    // The thread of surveys allocates, as often as it is asked.
    plan.sources.retain(|source| !matches!(source.file.pieces, khz_parse::Pieces::Survey { .. }));
    plan.sources.iter_mut().for_each(|source| source.rate = Some(rate));
    // With files, so that there is a snapshot in shared memory too.
    let folder = std::env::temp_dir().join(format!("khz-allocations-{}", std::process::id()));
    plan.ring_folder = Some(folder.clone());
    plan.ring = khz_gather::RingSize::Bytes(khz_model::ByteSize(1 << 20));
    // On a loaded machine, the usual ceiling would slow the lane down.
    plan.cpu_max = 1.0;
    let agent = Agent::start(plan).unwrap();
    let query = agent.query();
    let (_channels, sent) = channels(&agent);
    let rows = || {
        let pattern = [Pattern::new("khz.lane.rows[fixed*]").unwrap()];
        let snapshot = futures_executor::block_on(query.latest(&pattern, Nanos(0))).unwrap();
        snapshot.nodes[0].1[0].reading.value().unwrap()
    };
    // Warm: blocks have been opened and closed, layouts have moved, buffers have their sizes.
    while rows() < 1_500 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let span = || {
        let before = rows();
        let count = ALLOCATIONS.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1_500));
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - count;
        let ticks = rows() - before;
        assert!(ticks > 100, "only {ticks} ticks");
        (ticks, allocated)
    };
    // A tick that finds a text of another shape allocates: beside this test, others make interfaces and processes come and go.
    let mut spans = Vec::new();
    while spans.last().is_none_or(|(_, allocated)| *allocated > 0) {
        assert!(spans.len() < 5, "ticks, and allocations in them: {spans:?}");
        spans.push(span());
    }
    assert!(sent(), "the channels send rows");
    let snapshot = khz_ring::Snapshot::open(&folder.join(khz_ring::SNAPSHOT_FILE)).unwrap();
    let slot = snapshot.find("kernel.context_switches").unwrap();
    assert!(snapshot.read(slot).unwrap().unwrap().reading.value().is_some());
    agent.stop();
    std::fs::remove_dir_all(folder).unwrap();
}
