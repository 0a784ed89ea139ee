//! What answers hold is what the budget counts: on every route, clients that send a request and do not read, measured with an
//! allocator that counts. This test needs its own process.

// clippy's `allow-unwrap-in-tests` does not cover helpers of tests.
#![allow(clippy::unwrap_used)]

mod deaf;
mod fake;

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deaf::{DEAF, MIB, beginning, cluster, deaf, large, server_for, standing};
use fake::Server;
use khz_model::ByteSize;
use khz_rules::Board;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: it only counts, and leaves the work to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        more(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The tests measure one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// What a connection takes beside its answer: buffers for its requests, and what hyper and axum know of it.
const CONNECTION: usize = 48 << 10;

/// What the scripted nodes remember of a subscription: a hub counts that in another budget.
const SUBSCRIPTION: usize = 96 << 10;

/// What is made for one answer before it is counted, one answer at a time.
const MADE_AT_ONCE: usize = MIB as usize;

/// What the process holds more than at this moment, and the most that it held since.
struct Measure(usize);

impl Measure {
    fn begin() -> Self {
        let now = NOW.load(Ordering::Relaxed);
        PEAK.store(now, Ordering::Relaxed);
        Measure(now)
    }

    fn held(&self) -> usize {
        NOW.load(Ordering::Relaxed).saturating_sub(self.0)
    }

    fn most(&self) -> usize {
        PEAK.load(Ordering::Relaxed).saturating_sub(self.0)
    }
}

/// What the budget counts.
fn counted(server: &Server) -> usize {
    usize::try_from(server.count(|counters| &counters.answer_bytes)).unwrap()
}

#[test]
fn on_every_route_answers_hold_what_is_counted_and_those_that_are_refused_made_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (path, node, budget) in large() {
        let server = server_for(path, node, budget);
        let is_stream = path.contains("/stream") || path.contains("/tiles");
        // What the door keeps from its first answer to the last.
        if !is_stream && path != deaf::READ {
            assert_eq!(server.get(path).status, 200, "{path}");
            server.wait("it is sent", |_| counted(&server) == 0);
        }
        let measure = Measure::begin();
        // Each remote read is evaluated for seconds, and its budget is small.
        let count = if path == deaf::READ { DEAF / 4 } else { DEAF };
        let clients: Vec<TcpStream> = (0..count).map(|_| deaf(&server, path)).collect();
        wait_until_one_is_refused(&server, path, count);
        let beside = DEAF * if is_stream { CONNECTION + SUBSCRIPTION } else { CONNECTION };
        server.wait(&format!("{path}: what is held is counted"), |_| {
            // Scrapes have budgets of their own, of the same size.
            let counted = if path.contains("/metrics") { limit(budget) } else { counted(&server) };
            measure.held() <= counted + beside
        });
        // Queries are evaluated in a budget of their own.
        let is_query = path.contains("/api/v1/");
        let most = measure.most();
        assert!(is_query || most <= limit(budget) + beside + MADE_AT_ONCE, "{path}: {most} of {budget}");
        drop(clients);
    }
}

#[test]
fn alerts_that_change_all_the_time_are_held_no_more_often_than_there_is_room() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let budget = 4 * MIB;
    let board = Arc::new(Board::default());
    let shown = board.clone();
    let server = Server::start_with(Arc::new(cluster(1, 1)), move |door| {
        door.rules = shown;
        door.limits.answers = ByteSize(budget);
        door.limits.stall_timeout = 2 * fake::PATIENCE;
    });
    board.put(standing(2_000));
    let measure = Measure::begin();
    let mut clients = Vec::new();
    for path in ["/api/v1/alerts", "/api/v1/rules"].into_iter().cycle().take(DEAF) {
        let mut client = deaf(&server, path);
        // It has begun with the version that there is now.
        beginning(&mut client);
        clients.push(client);
        board.put(standing(2_000));
    }
    wait_until_one_is_refused(&server, "alerts", DEAF);
    let most = measure.most();
    assert!(most <= limit(budget) + DEAF * CONNECTION + 2 * MADE_AT_ONCE, "{most} of {budget}");
    drop(clients);
    server.wait("all comes back", |_| counted(&server) == 0);
}

fn limit(budget: u64) -> usize {
    usize::try_from(budget).unwrap()
}

fn wait_until_one_is_refused(server: &Server, path: &str, clients: usize) {
    let at = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    server.wait(path, |counters| {
        at(&counters.requests) >= clients as u64
            && at(&counters.answers_refused) + at(&counters.answers_cut) > 0
    });
}
