//! Interleaving: contenders take turns in the order A B B A, so that other work of the machine affects all
//! alike. Measures nothing itself.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::error::BenchError;

/// A batch reads the clock after this many calls, as the C programs do.
const BETWEEN_CLOCKS: u32 = 16;

/// The duration of one batch of calls.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// The number of calls.
    pub calls: u64,
    /// Nanoseconds of wall-clock time.
    pub wall_ns: u64,
    /// Nanoseconds of CPU time of the calling thread, including the kernel's.
    pub cpu_ns: u64,
}

impl Batch {
    /// Calls for each second of CPU time: what a core could do if nothing else ran on it.
    pub fn per_cpu_second(self) -> f64 {
        self.calls as f64 * 1e9 / self.cpu_ns as f64
    }

    /// Microseconds of CPU per call.
    pub fn cpu_micros(self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.calls as f64
    }
}

/// A contender: one of the programs or calls that take turns.
pub struct Contender<'a> {
    /// The name in tables and raw samples.
    pub name: String,
    run: Box<dyn FnMut(Duration) -> Result<Batch, BenchError> + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender that measures its own batches, such as a C program.
    pub fn foreign(
        name: impl Into<String>,
        run: impl FnMut(Duration) -> Result<Batch, BenchError> + 'a,
    ) -> Self {
        Contender { name: name.into(), run: Box::new(run) }
    }

    /// A contender that makes the call `call` in this process.
    pub fn call(name: impl Into<String>, mut call: impl FnMut() -> Result<(), BenchError> + 'a) -> Self {
        Contender { name: name.into(), run: Box::new(move |span| batch(span, &mut call)) }
    }
}

/// All batches of a contender, in the order of the run.
pub struct Turns {
    /// The contender's name.
    pub name: String,
    /// Two batches for each pair.
    pub batches: Vec<Batch>,
}

impl Turns {
    /// A figure of each batch.
    pub fn map(&self, figure: impl Fn(Batch) -> f64) -> Vec<f64> {
        self.batches.iter().map(|&b| figure(b)).collect()
    }
}

/// Lets every contender run `2 * pairs` batches of `span`: first to last, last to first, and again.
pub fn interleave(
    contenders: &mut [Contender<'_>],
    pairs: usize,
    span: Duration,
) -> Result<Vec<Turns>, BenchError> {
    let mut turns: Vec<Turns> =
        contenders.iter().map(|c| Turns { name: c.name.clone(), batches: Vec::new() }).collect();
    for contender in contenders.iter_mut() {
        (contender.run)(span / 4)?; // warms caches and buffers; not kept
    }
    for who in order(contenders.len(), pairs) {
        turns[who].batches.push((contenders[who].run)(span)?);
    }
    Ok(turns)
}

/// `0 1 2 2 1 0` for each pair.
pub fn order(contenders: usize, pairs: usize) -> impl Iterator<Item = usize> {
    (0..pairs).flat_map(move |_| (0..contenders).chain((0..contenders).rev()))
}

/// Makes calls for as long as `span`.
fn batch(span: Duration, call: &mut dyn FnMut() -> Result<(), BenchError>) -> Result<Batch, BenchError> {
    let cpu = thread_cpu_ns();
    let start = Instant::now();
    let mut calls = 0;
    loop {
        for _ in 0..BETWEEN_CLOCKS {
            call()?;
        }
        calls += u64::from(BETWEEN_CLOCKS);
        let wall = start.elapsed();
        if wall >= span {
            let cpu_ns = thread_cpu_ns() - cpu;
            return Ok(Batch { calls, wall_ns: wall.as_nanos() as u64, cpu_ns });
        }
    }
}

/// CPU nanoseconds of this thread.
pub fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn two_contenders_take_turns_a_b_b_a() {
        assert_eq!(order(2, 2).collect::<Vec<_>>(), [0, 1, 1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn everybody_gets_two_batches_a_pair_and_the_warm_up_is_not_kept() {
        let log = RefCell::new(String::new());
        let contender = |name: char| {
            let log = &log;
            Contender::foreign(name, move |_| {
                log.borrow_mut().push(name);
                Ok(Batch { calls: 1, wall_ns: 1, cpu_ns: 1 })
            })
        };
        let mut contenders = [contender('a'), contender('b')];
        let turns = interleave(&mut contenders, 3, Duration::ZERO).unwrap();
        assert_eq!(turns.iter().map(|t| t.batches.len()).collect::<Vec<_>>(), [6, 6]);
        assert_eq!(*log.borrow(), "ababbaabbaabba");
    }

    #[test]
    fn a_failing_call_ends_the_run_with_its_error() {
        let mut contenders = [Contender::call("x", || Err(BenchError::Reply("no".into())))];
        assert!(interleave(&mut contenders, 1, Duration::ZERO).is_err());
    }
}
