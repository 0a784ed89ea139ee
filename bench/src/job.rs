//! What the monitor takes from a job. The job computes on both cores and waits at a barrier after every step,
//! as parallel programs do, so that a delay on one core delays all. It runs alone, beside the bare loop in C,
//! and beside an agent and a mount. Needs root and /dev/fuse; what channels take needs neither.

mod channels;
mod taken;

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::agent::agent_command;
use crate::error::BenchError;
use crate::mount::{Class, Site};
use crate::program::{compile, failed};
use crate::record::{Bound, Record};
use crate::section::{Section, Suite};
use crate::spread::Spread;
use crate::table::{Table, figure};
use crate::watched::Watched;

/// Our loss may be at most this multiple of the bare loop's.
const DEARER: f64 = 1.3;

/// A step of the job on an undisturbed core.
const STEP: Duration = Duration::from_millis(1);

/// How long new processes need until they do only their work.
const SETTLING: Duration = Duration::from_millis(1_500);

/// The programs beside the job.
const SIDES: [&str; 4] = ["nothing", "bare loop", "agent and mount", "agent, mount, hub at that rate"];
const NOTHING: usize = 0;
const BARE: usize = 1;
const OURS: usize = 2;
const WITH_HUB: usize = 3;

/// The rates.
pub static SUITE: Suite = Suite {
    name: "job",
    about: "what the monitor takes from a job on both cores; needs root and /dev/fuse",
    sections: &[
        Section { name: "1", seconds: (270, 45), about: "at 1 Hz", run: |r| run(r, 1) },
        Section { name: "10", seconds: (270, 45), about: "at 10 Hz", run: |r| run(r, 10) },
        Section { name: "100", seconds: (150, 45), about: "at 100 Hz", run: |r| run(r, 100) },
        Section { name: "1000", seconds: (150, 45), about: "at 1,000 Hz", run: |r| run(r, 1_000) },
        Section {
            name: "channels",
            seconds: (1_320, 150),
            about: "8 channels at 100 Hz: a compute loop on the agent's core, and a job with barriers until\nits loss is known to 0.5 %",
            run: channels::run,
        },
    ],
};

fn run(record: &mut Record, rate: u64) -> Result<(), BenchError> {
    let bare = compile("paced")?;
    let job = Job::new()?;
    // At low rates little happens in a second, so a turn has more steps.
    let full = if rate >= 100 { 1_500 } else { 4_000 };
    let steps = (record.effort.of(full, 700), record.effort.of(5, 2));
    let mut seconds: [Vec<f64>; SIDES.len()] = Default::default();
    for group in 0..steps.1 {
        // Forth and back, so that drift affects all alike.
        for side in (0..SIDES.len()).chain((0..SIDES.len()).rev()) {
            record.progress(&format!("{rate} Hz, turn {group}: {}", SIDES[side]));
            let running = Beside::start(side, rate, &bare)?;
            let taken = job.run(steps.0)?;
            drop(running);
            record.sample(
                ["job", &format!("{rate} Hz"), &SIDES[side].replace(',', "")],
                group,
                "seconds",
                taken,
            );
            seconds[side].push(taken);
        }
    }
    let alone = median(&seconds[NOTHING]);
    let lost: Vec<Vec<f64>> = seconds
        .iter()
        .map(|turns| {
            turns.iter().zip(&seconds[NOTHING]).map(|(with, without)| 1e3 * (with / without - 1.0)).collect()
        })
        .collect();
    let mut table = Table::new(&["beside the job", "seconds", "lost per mille", "quartiles"]);
    for ((name, taken), lost) in SIDES.iter().zip(&seconds).zip(&lost) {
        let Some(spread) = Spread::of(lost.iter().copied()) else { continue };
        table.row([
            (*name).to_owned(),
            figure(median(taken)),
            format!("{:.2}", spread.median),
            format!("{:.2}..{:.2}", spread.lower, spread.upper),
        ]);
    }
    record.show(&format!("## What a job on all cores loses, {rate} Hz"), &table);
    record.say(&format!(
        "{} steps of {STEP:?} with a barrier after each, {alone:.2} s alone. Agent and mount: five files gathered at {rate} Hz into ring \
         and shared memory, base rows to a hub on this machine once a second, the mount with a file open. With the hub at that rate: \
         every row sent, and delivered to the mount again; the hub's work is on this machine too, where a cluster has another for it.\n",
        steps.0
    ));
    // If the bare loop took nothing measurable, there is no ratio.
    let (ours, bare) = (median(&lost[OURS]), median(&lost[BARE]));
    let times = if bare > 0.0 { Spread::of([ours / bare]) } else { None };
    record.verdict(
        &format!("job's lost time, agent and mount / bare loop, {rate} Hz"),
        times,
        Bound::AtMost(DEARER),
    );
    record.sample(["job", &format!("{rate} Hz"), "with hub"], 0, "lost_per_mille", median(&lost[WITH_HUB]));
    Ok(())
}

fn median(samples: &[f64]) -> f64 {
    Spread::of(samples.iter().copied()).map_or(f64::NAN, |spread| spread.median)
}

/// The processes beside the job; dropping it ends them.
enum Beside {
    Nothing,
    // Killed when dropped.
    Bare { _process: Watched },
    Ours { _file: std::fs::File, _site: Box<Site> },
}

impl Beside {
    fn start(side: usize, rate: u64, bare: &std::path::Path) -> Result<Self, BenchError> {
        let beside = match side {
            NOTHING => Beside::Nothing,
            BARE => Beside::Bare { _process: Watched::start(Command::new(bare).arg(rate.to_string()))? },
            _ => {
                let mut site = Site::start(Class::Normal)?;
                let own = agent_command(&site.program, rate);
                let sources: Vec<&str> = own.get_args().filter_map(std::ffi::OsStr::to_str).collect();
                // Of the flags only the sources: the site sets name and door.
                let sources = sources.last().copied().unwrap_or_default();
                let hertz = format!("{rate}Hz");
                let base = if side == WITH_HUB { &hertz } else { "1Hz" };
                site.agent("n1", &["--sources", sources, "--base-rate", base, "--cpu-max", "50%"])?;
                let value = site.mount()?.join("n1/metrics/mem/free");
                site.wait_for(&value)?;
                let file = std::fs::File::open(&value).map_err(BenchError::file(&value))?;
                Beside::Ours { _file: file, _site: Box::new(site) }
            }
        };
        std::thread::sleep(SETTLING);
        Ok(beside)
    }
}

/// The job: one thread for each core.
struct Job {
    cores: Vec<usize>,
    /// Rounds of work in a step.
    rounds: u64,
}

impl Job {
    fn new() -> Result<Self, BenchError> {
        let allowed = sched_getaffinity(None).map_err(BenchError::call("sched_getaffinity"))?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        let mut fastest = f64::INFINITY;
        const ROUNDS: u64 = 1 << 20;
        for _ in 0..20 {
            let start = Instant::now();
            std::hint::black_box(work(ROUNDS));
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        Ok(Job { cores, rounds: (ROUNDS as f64 * STEP.as_secs_f64() / fastest) as u64 })
    }

    /// The seconds that this many steps take.
    fn run(&self, steps: u64) -> Result<f64, BenchError> {
        let barrier = Barrier { arrived: AtomicU64::new(0), threads: self.cores.len() as u64 };
        let start = Instant::now();
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .cores
                .iter()
                .map(|&core| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let mut one = CpuSet::new();
                        one.set(core);
                        sched_setaffinity(None, &one).map_err(BenchError::call("sched_setaffinity"))?;
                        for step in 1..=steps {
                            std::hint::black_box(work(self.rounds));
                            barrier.wait(step);
                        }
                        Ok(())
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| failed("the job", "it panicked"))?)
        })?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// The first to arrive spins on its core, as in message passing libraries.
struct Barrier {
    arrived: AtomicU64,
    threads: u64,
}

impl Barrier {
    fn wait(&self, step: u64) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < step * self.threads {
            std::hint::spin_loop();
        }
    }
}

/// Arithmetic that the compiler cannot remove.
fn work(rounds: u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..rounds {
        state = (state ^ round).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_barrier_before_all_have_come() {
        let barrier = Barrier { arrived: AtomicU64::new(0), threads: 3 };
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for step in 1..=50 {
                        done.fetch_add(1, Ordering::SeqCst);
                        barrier.wait(step);
                        assert!(done.load(Ordering::SeqCst) >= step * 3);
                    }
                });
            }
        });
    }
}
