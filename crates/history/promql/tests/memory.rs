//! What a query holds does not grow with the samples that it reads: measured with an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use khz_promql::{Engine, LabelSet, Limits, Matcher, QueryError, Selection, Sink, Source, Value};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it only counts, and leaves the work to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Nodes with one counter each, once a second, made while they are read: a minute of all nodes, then the next minute.
struct Cluster {
    nodes: usize,
}

/// Seconds in a piece.
const PIECE: i64 = 60;

impl Source for Cluster {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        let mut series = Vec::new();
        for node in 0..self.nodes {
            let labels = [("__name__", "x_total"), ("instance", &format!("n{node}"))];
            series.push(sink.series(LabelSet::new(labels))?);
        }
        let (mut from, to) = (wanted.after.div_euclid(1000) + 1, wanted.to.div_euclid(1000));
        while from <= to {
            let times: Vec<i64> = (from..=to.min(from + PIECE - 1)).map(|second| second * 1000).collect();
            for (node, series) in series.iter().enumerate() {
                let values: Vec<f64> =
                    times.iter().map(|time| (time / 1000 * (node as i64 + 1)) as f64).collect();
                sink.samples(*series, &times, &values)?;
            }
            from += PIECE;
        }
        Ok(Vec::new())
    }

    fn series(&self, _: &[Matcher], _: i64, _: i64, _: usize) -> Result<(Vec<LabelSet>, bool), QueryError> {
        Ok((Vec::new(), false))
    }
}

const HOUR: i64 = 3_600_000;

/// Runs a query, and returns the value and the bytes that it held at most beside what was there.
fn peak(nodes: usize, query: &str, step: i64, bytes: usize) -> (Value, usize) {
    let engine = Engine::new(Limits { bytes, ..Limits::default() });
    let source = Cluster { nodes };
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let answer = match step {
        0 => engine.query(&source, query, 2 * HOUR),
        step => engine.query_range(&source, query, HOUR, 2 * HOUR, step),
    };
    let answer = answer.unwrap_or_else(|error| panic!("{query}: {error}"));
    (answer.value, PEAK.load(Ordering::Relaxed) - before)
}

// One test: the count is that of the whole process.
#[test]
fn what_a_query_holds_does_not_grow_with_the_samples_that_it_reads() {
    // 4,096 series with an hour of samples at 1 Hz are 14.7 million samples: 236 MB.
    let (value, held) = peak(4_096, "topk(3, rate(x_total[1h]))", 0, 8 << 20);
    let Value::Vector(best) = value else { panic!("{value:?}") };
    let rates: Vec<f64> = best.iter().map(|sample| sample.value.round()).collect();
    assert_eq!(rates, [4096.0, 4095.0, 4094.0]);
    assert!(held < 8 << 20, "{held} bytes");

    // The same as 240 steps of a minute each: 7.9 MB are results.
    let (value, held) = peak(4_096, "topk(3, rate(x_total[1m]))", 15_000, 32 << 20);
    assert!(matches!(value, Value::Matrix(all) if all.len() == 3 && all[0].samples.len() == 241));
    assert!(held < 32 << 20, "{held} bytes");

    // Ranges that overlap a lot, and a function that has to see all samples of a range at once.
    let (_, held) = peak(512, "sum(max_over_time(x_total[10m]))", 60_000, 4 << 20);
    assert!(held < 4 << 20, "{held} bytes");
    let (_, held) = peak(512, "avg(quantile_over_time(0.5, x_total[1m]))", 60_000, 4 << 20);
    assert!(held < 4 << 20, "{held} bytes");
}
