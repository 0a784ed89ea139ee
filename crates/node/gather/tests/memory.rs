//! What memory an agent takes, and how that grows with the series of a host. This test needs its own process, because it counts all
//! memory that is allocated.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use khz_gather::{Agent, Plan};
use khz_model::{Nanos, NodeName, Pattern};
use khz_synthetic_host::{Host, Shape};

struct Counting;

/// Bytes that are allocated and not free.
static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes unchanged to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The series of a control group.
const SERIES_EACH: usize = 11;

/// The text of this number of control groups, as a host has them without the controllers of memory and disks.
fn text_of(count: usize) -> String {
    let words = ["cpu_usage", "cpu_user", "cpu_system", "cpu_periods", "cpu_throttled", "cpu_throttled_time"];
    let more = ["cpu_waiting", "memory_waiting", "io_waiting", "tasks"];
    let mut text = String::new();
    for number in 0..count {
        text += &format!("cgroup system.slice/worker-{number:04}.service");
        for word in words.iter().chain(&more) {
            text += &format!(" {word}={}", 1_000_000 + number);
        }
        text += &format!(" :kind=service :path=system.slice/worker-{number:04}.service\n");
    }
    text + &format!("* count={count}\n")
}

/// The memory of an agent.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// When it has written some rows.
    alone: usize,
    /// When a reader has asked for everything, too.
    asked: usize,
}

/// That of an agent on a host with this number of control groups.
fn agent_with(groups: usize) -> Memory {
    let root = std::env::temp_dir().join(format!("khz-memory-{groups}-{}", std::process::id()));
    let shape = Shape { cpus: 2, interrupts: 4, interfaces: 1, disks: 1 };
    Host::new(shape, 2026).write(&root).unwrap();
    let captured = root.join(khz_parse::control_groups::FILE.captured_path());
    std::fs::create_dir_all(captured.parent().unwrap()).unwrap();
    std::fs::write(captured, text_of(groups)).unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    let taken = || LIVE.load(Ordering::Relaxed) - before;
    let plan = Plan { base_rate: "10Hz".parse().unwrap(), ..Plan::new(&root, NodeName::new("n1").unwrap()) };
    let agent = Agent::start(plan).unwrap();
    while agent.query().status()[0].lanes[0].rows < 5 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let alone = taken();
    let all = [Pattern::new("*").unwrap()];
    let answer = futures_executor::block_on(agent.query().latest(&all, Nanos(0))).unwrap();
    assert!(answer.nodes[0].1.len() > SERIES_EACH * groups);
    drop(answer);
    let asked = taken();
    agent.stop();
    std::fs::remove_dir_all(root).unwrap();
    Memory { alone, asked }
}

#[test]
fn an_agent_takes_little_memory_and_a_series_little_more() {
    let (few, many) = (agent_with(0), agent_with(1_000));
    let each = |few: usize, many: usize| (many - few) / (1_000 * SERIES_EACH);
    let (alone, asked) = (each(few.alone, many.alone), each(few.asked, many.asked));
    // Of it, 0.4 MB are room for the places of blocks in the rings, which becomes memory when it is used.
    assert!(few.alone <= 950_000 && few.asked <= 1_080_000, "{few:?}");
    // A reader who asks has parsers of its own.
    assert!(alone <= 340 && asked <= 620, "{alone} and {asked} bytes for each series: {many:?}");
}
