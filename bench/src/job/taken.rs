//! A compute loop with a fine clock: what it is not given of a core. It computes in chunks of about 2 us and reads the
//! clock after each; a chunk that takes 5 us longer than usual was interrupted.

use std::time::{Duration, Instant};

use super::work;
use crate::error::BenchError;

/// The length of a chunk on an undisturbed core.
const CHUNK: Duration = Duration::from_nanos(1_700);
/// A chunk that takes this much longer was interrupted: by another process, an interrupt, or the machine below this one.
const GAP: Duration = Duration::from_micros(5);

/// What was taken of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// The share of the turn in gaps, beyond the usual length of a chunk.
    pub gaps: f64,
    /// The share of the turn in which the loop waited for its core because another process had it, as the kernel counts
    /// it (`schedstat`). Not in it: interrupts, and the machine below this one.
    pub waited: f64,
    /// The longest gap in microseconds.
    pub longest: f64,
}

/// The loop, of chunks with this many rounds.
pub struct Loop {
    rounds: u64,
    usual: Duration,
}

impl Loop {
    /// Measures how long a chunk usually takes, on this thread's core.
    pub fn new() -> Self {
        const TRIES: u64 = 2_000;
        let one = |rounds: u64| {
            let mut times: Vec<Duration> = (0..TRIES)
                .map(|_| {
                    let start = Instant::now();
                    std::hint::black_box(work(rounds));
                    start.elapsed()
                })
                .collect();
            times.sort();
            times[times.len() / 2]
        };
        const ROUNDS: u64 = 1_000;
        let rounds = (ROUNDS as f64 * CHUNK.as_secs_f64() / one(ROUNDS).as_secs_f64()).max(1.0) as u64;
        Loop { rounds, usual: one(rounds) }
    }

    /// Computes for this long, on this thread.
    pub fn run(&self, span: Duration) -> Result<Taken, BenchError> {
        let waited = waited_ns()?;
        let begun = Instant::now();
        let (mut last, mut gaps, mut longest) = (begun, Duration::ZERO, Duration::ZERO);
        while last - begun < span {
            std::hint::black_box(work(self.rounds));
            let now = Instant::now();
            let beyond = (now - last).saturating_sub(self.usual);
            if beyond > GAP {
                gaps += beyond;
                longest = longest.max(beyond);
            }
            last = now;
        }
        let took = (last - begun).as_secs_f64();
        Ok(Taken {
            gaps: gaps.as_secs_f64() / took,
            waited: (waited_ns()? - waited) as f64 / 1e9 / took,
            longest: longest.as_secs_f64() * 1e6,
        })
    }
}

/// Nanoseconds that this thread has been ready to run and had no core.
fn waited_ns() -> Result<u64, BenchError> {
    const PATH: &str = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(PATH).map_err(BenchError::file(PATH))?;
    let second = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    second.ok_or_else(|| crate::program::failed(PATH, format!("it has '{}'", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_turn_and_a_second_process_on_the_core_is_seen() {
        let pinned = crate::place::Pinned::here().unwrap();
        let looped = Loop::new();
        let waited = waited_ns().unwrap();
        let (stop, rival) = (std::sync::atomic::AtomicBool::new(false), &work);
        let taken = std::thread::scope(|scope| {
            // A thread inherits the core.
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::black_box(rival(1_000));
                }
            });
            // Until the rival has had the core once.
            let taken = loop {
                let taken = looped.run(Duration::from_millis(20)).unwrap();
                if taken.waited > 0.0 {
                    break taken;
                }
            };
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            taken
        });
        assert!(waited_ns().unwrap() > waited);
        assert!(
            taken.gaps > 0.0 && taken.gaps <= 1.0 && taken.longest > GAP.as_secs_f64() * 1e6,
            "{taken:?}"
        );
        drop(pinned);
    }
}
