//! What eight channels at 100 Hz take: of a compute loop on the agent's core, beside the bare loop in C there; and of a
//! job with barriers on all cores, in as many pairs of turns as it takes until its loss is known to half a percent.

use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use khz_client::Access;
use khz_follow::{Lane, Reader, Row, Subscriber};
use khz_link::LaneOffer;
use khz_model::{Interest, NodeName, Pattern, Rate};
use khz_plan::{Handler, Values, When};
use rustix::process::{Pid, Signal, kill_process};

use super::Job;
use super::taken::{Loop, Taken};
use crate::agent::agent_command;
use crate::channels::{TEN, compiled, terms};
use crate::error::BenchError;
use crate::mount::{Class, Site};
use crate::place::Pinned;
use crate::program::{compile, failed};
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile};
use crate::table::{Table, figure};
use crate::watched::Watched;

const NODE: &str = "n1";
const RATE_HZ: u64 = 100;
const CHANNELS: usize = 8;

/// Ours may take at most this multiple of what the bare loop takes.
const DEARER: f64 = 1.2;
/// A job may lose at most this, percent.
const LOST_MAX: f64 = 1.0;
/// The quartiles of the job's loss are to be this close to it, percent.
const NARROW: f64 = 0.5;

/// How long new processes need until they do only their work.
const SETTLING: Duration = Duration::from_millis(1_500);
/// The same for an agent that was stopped: it skips the ticks that it has missed.
const RESUMING: Duration = Duration::from_millis(100);
/// Longest wait for the rows of a channel.
const PATIENCE: Duration = Duration::from_secs(20);
/// Fewer pairs have no quartiles to speak of.
const PAIRS_MIN: usize = 20;
/// How often the pairs are drawn again to find out how far their median may be off.
const DRAWS: usize = 400;

/// The programs beside the compute loop.
const SIDES: [&str; 4] = ["nothing", "bare loop", "agent", "agent with 8 channels"];
const NOTHING: usize = 0;
const BARE: usize = 1;
const AGENT: usize = 2;
const WITH_CHANNELS: usize = 3;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    compute_loop(record)?;
    barriers(record)
}

/// The loop alone on the last core, beside the bare loop there, an agent there, and an agent with channels.
fn compute_loop(record: &mut Record) -> Result<(), BenchError> {
    let bare = compile("paced")?;
    let span = Duration::from_millis(record.effort.of(8_000, 1_500));
    let mut taken: [Vec<Taken>; SIDES.len()] = Default::default();
    for group in 0..record.effort.of(8, 2) {
        // Forth and back, so that drift affects all alike.
        for side in (0..SIDES.len()).chain((0..SIDES.len()).rev()) {
            record.progress(&format!("compute loop, turn {}: {}", group + 1, SIDES[side]));
            let beside = Beside::start(side, &bare)?;
            let pinned = Pinned::here()?;
            let looped = Loop::new();
            let found = looped.run(span)?;
            drop(pinned);
            drop(beside);
            let place = ["job channels", "loop", SIDES[side]];
            for (what, value) in
                [("gaps", found.gaps), ("waited", found.waited), ("longest_us", found.longest)]
            {
                record.sample(place, group, what, value);
            }
            taken[side].push(found);
        }
    }
    let above = |side: usize, of: fn(&Taken) -> f64| -> Vec<f64> {
        taken[side].iter().zip(&taken[NOTHING]).map(|(with, without)| of(with) - of(without)).collect()
    };
    let mut table =
        Table::new(&["on the core of the loop", "taken %", "above nothing %", "waited %", "longest us"]);
    for (side, name) in SIDES.iter().enumerate() {
        let middle = |of: fn(&Taken) -> f64| super::median(&taken[side].iter().map(of).collect::<Vec<_>>());
        table.row([
            (*name).to_owned(),
            figure(100.0 * middle(|taken| taken.gaps)),
            figure(100.0 * super::median(&above(side, |taken| taken.gaps))),
            figure(100.0 * middle(|taken| taken.waited)),
            figure(middle(|taken| taken.longest)),
        ]);
    }
    record.show("## What is taken of a compute loop, 100 Hz", &table);
    record.say(
        "Taken: time in gaps of more than 5 us. Waited: the part of it that another process of this machine had the core, as the \
         kernel counts it; interrupts and the machine below are not in it. Five files at 100 Hz; the channels have conditions over them. \
         Hub and reader are on the other core.\n",
    );
    let times = |of: fn(&Taken) -> f64, side: usize| {
        let (ours, bare) = (super::median(&above(side, of)), super::median(&above(BARE, of)));
        // If the bare loop took nothing measurable, there is no ratio.
        if bare > 0.0 { Spread::of([ours / bare]) } else { None }
    };
    let name = "taken of a compute loop, 8 channels at 100 Hz / bare loop";
    record.verdict(name, times(|taken| taken.gaps, WITH_CHANNELS), Bound::AtMost(DEARER));
    let name = "taken of a compute loop, agent without channels at 100 Hz / bare loop";
    record.verdict(name, times(|taken| taken.gaps, AGENT), Bound::Stated);
    let name = "waited by a compute loop, 8 channels at 100 Hz / bare loop";
    record.verdict(name, times(|taken| taken.waited, WITH_CHANNELS), Bound::Stated);
    let name = "waited by a compute loop, agent without channels at 100 Hz / bare loop";
    record.verdict(name, times(|taken| taken.waited, AGENT), Bound::Stated);
    Ok(())
}

/// The job with barriers, beside an agent with channels that is stopped in every other turn.
fn barriers(record: &mut Record) -> Result<(), BenchError> {
    let job = Job::new()?;
    let watched = Followed::start(true, false)?;
    let steps = record.effort.of(500, 250);
    let end = Instant::now() + Duration::from_secs(record.effort.of(540, 30));
    let mut lost: Vec<f64> = Vec::new();
    let mut known = None;
    while Instant::now() < end {
        let mut seconds = [0.0; 2];
        // Alternately A B B A and B A A B: neither has a place of its own.
        let order = if lost.len().is_multiple_of(2) { [0, 1, 1, 0] } else { [1, 0, 0, 1] };
        for side in order {
            watched.set_running(side == 1)?;
            std::thread::sleep(RESUMING);
            let taken = job.run(steps)?;
            record.sample(
                ["job channels", "barriers", ["nothing", SIDES[WITH_CHANNELS]][side]],
                lost.len(),
                "seconds",
                taken,
            );
            seconds[side] += taken;
        }
        lost.push(100.0 * (seconds[1] / seconds[0] - 1.0));
        known = median_of_draws(&lost);
        if let Some(median) = known.filter(|_| lost.len().is_multiple_of(10)) {
            let (lower, upper) = (figure(median.lower), figure(median.upper));
            record.progress(&format!(
                "barriers, {} pairs: {} % lost, {lower}..{upper}",
                lost.len(),
                figure(median.median)
            ));
        }
        if lost.len() >= PAIRS_MIN && known.is_some_and(|median| is_narrow(&median)) {
            break;
        }
    }
    drop(watched);
    let mut table = Table::new(&["a job with barriers", "lost %", "quartiles"]);
    for (name, spread) in [("of single pairs", Spread::of(lost.iter().copied())), ("of their median", known)]
    {
        let Some(spread) = spread else { continue };
        let quartiles = format!("{}..{}", figure(spread.lower), figure(spread.upper));
        table.row([name.to_owned(), figure(spread.median), quartiles]);
    }
    record.show("## What a job on all cores loses to 8 channels at 100 Hz", &table);
    let narrow = if known.is_some_and(|median| is_narrow(&median)) { "are" } else { "are not" };
    record.say(&format!(
        "{} pairs, each of four turns of {steps} steps of 1 ms with a barrier after each; the agent is stopped (SIGSTOP) in two of them. \
         The quartiles of the median, of pairs drawn again {DRAWS} times, {narrow} within {NARROW} % of it. Hub and reader run all the time, \
         on the same cores; no condition holds, so nothing but base rows is sent.\n",
        lost.len()
    ));
    record.verdict("job with barriers, 8 channels at 100 Hz: lost %", known, Bound::AtMost(LOST_MAX));
    record.verdict(
        "job with barriers, 8 channels at 100 Hz: pairs",
        Spread::of([lost.len() as f64]),
        Bound::Stated,
    );
    let half = known.map(|median| (median.upper - median.lower) / 2.0);
    let name = "job with barriers, 8 channels at 100 Hz: half of the distance of the quartiles, %";
    record.verdict(name, Spread::of(half), Bound::AtMost(NARROW));
    Ok(())
}

fn is_narrow(median: &Spread) -> bool {
    (median.median - median.lower).max(median.upper - median.median) <= NARROW
}

/// The spread of the median, if the same pairs had come in another selection: each draw takes as many pairs, some of them twice.
/// Quartiles of single pairs stay as wide as the machine is noisy; those of the median become narrower with each pair.
fn median_of_draws(pairs: &[f64]) -> Option<Spread> {
    let count = u64::try_from(pairs.len()).ok().filter(|count| *count > 0)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        pairs[(state % count) as usize]
    };
    let mut medians = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut drawn: Vec<f64> = (0..count).map(|_| next()).collect();
        drawn.sort_by(f64::total_cmp);
        medians.push(quantile(&drawn, 0.5));
    }
    let mut sorted = pairs.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The median itself is that of the pairs.
    Spread::of(medians).map(|spread| Spread { median: quantile(&sorted, 0.5), ..spread })
}

/// What runs on the core of the compute loop; dropping it ends it.
enum Beside {
    Nothing,
    // Killed when dropped.
    Bare { _process: Watched },
    Ours { _followed: Box<Followed> },
}

impl Beside {
    fn start(side: usize, bare: &std::path::Path) -> Result<Self, BenchError> {
        let beside = match side {
            NOTHING => Beside::Nothing,
            BARE => {
                let _pinned = Pinned::here()?;
                Beside::Bare { _process: Watched::start(Command::new(bare).arg(RATE_HZ.to_string()))? }
            }
            _ => Beside::Ours { _followed: Box::new(Followed::start(side == WITH_CHANNELS, true)?) },
        };
        std::thread::sleep(SETTLING);
        Ok(beside)
    }
}

/// An agent that gathers five files at 100 Hz, its hub, and a reader of its channels.
struct Followed {
    // The reader leaves before its hub.
    _reader: Option<Subscriber<()>>,
    site: Site,
}

impl Followed {
    /// With eight channels, or without; the agent alone on the last core, or all where the kernel puts them.
    fn start(with_channels: bool, is_pinned: bool) -> Result<Self, BenchError> {
        let elsewhere = is_pinned.then(Pinned::elsewhere).transpose()?;
        let mut site = Site::start(Class::Normal)?;
        let own = agent_command(&site.program, RATE_HZ);
        let sources: Vec<&str> = own.get_args().filter_map(std::ffi::OsStr::to_str).collect();
        // Of the flags only the sources: the site sets name and door.
        let sources = sources.last().copied().unwrap_or_default().to_owned();
        drop(elsewhere);
        {
            let _pinned = is_pinned.then(Pinned::here).transpose()?;
            site.agent(NODE, &["--sources", &sources, "--base-rate", "1Hz", "--cpu-max", "50%"])?;
        }
        let elsewhere = is_pinned.then(Pinned::elsewhere).transpose()?;
        let reader = with_channels.then(|| channels(&site)).transpose()?;
        drop(elsewhere);
        Ok(Followed { _reader: reader, site })
    }

    /// Stops the agent, or lets it go on.
    fn set_running(&self, is_running: bool) -> Result<(), BenchError> {
        let pid = self.site.agent_pid(0)?;
        let pid = Pid::from_raw(pid).ok_or_else(|| failed("khz agent", "its process has no number"))?;
        let signal = if is_running { Signal::CONT } else { Signal::STOP };
        kill_process(pid, signal).map_err(BenchError::call("kill"))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // A stopped process is killed all the same; this one ends as others do.
        let _ = self.set_running(true);
    }
}

/// Eight channels: seven with conditions that do not hold, and one whose first row says that all of them run. It has no second row.
fn channels(site: &Site) -> Result<Subscriber<()>, BenchError> {
    let wrong = |error: &dyn std::fmt::Display| failed("the reader", error);
    let access = Access::local_in(Some(&site.folder().join("run"))).map_err(|error| wrong(&error))?;
    let settings = access.settings().map_err(|error| wrong(&error))?;
    let (out, rows) = channel();
    let subscriber = Subscriber::start(settings, Arrivals(out)).map_err(|error| wrong(&error))?;
    for (number, expression) in TEN.iter().take(CHANNELS - 1).enumerate() {
        follow(&subscriber, &format!("job{number}"), expression, false)?;
    }
    follow(&subscriber, "first", "max_over_time(node_load1[1s]) >= 0", true)?;
    wait_for_row(&rows)?;
    Ok(subscriber)
}

/// Subscribes to a channel of one condition.
fn follow(subscriber: &Subscriber<()>, name: &str, expression: &str, once: bool) -> Result<(), BenchError> {
    let wrong = |error: &dyn std::fmt::Display| failed("the reader", error);
    let patterns = vec![Pattern::new(&format!("{NODE}:*")).map_err(|error| wrong(&error))?];
    let rate = Rate::from_hz(RATE_HZ).ok_or_else(|| failed("the rate", "there is none"))?;
    let when = once.then(|| When { once, ..When::default() });
    let handler = Handler { values: Values::Plan(compiled(expression)?), when, ..Handler::default() };
    let mut interest = Interest::new(patterns, rate, true);
    interest.channel = Some(terms(name, &handler)?);
    subscriber.subscribe(&interest, true, ()).map(drop).map_err(|error| wrong(&error))
}

fn wait_for_row(rows: &Receiver<Result<(), String>>) -> Result<(), BenchError> {
    match rows.recv_timeout(PATIENCE) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(problem)) => Err(failed("the node", problem)),
        Err(error) => Err(failed("the reader", error)),
    }
}

/// Says that a row has come, or that a channel was refused.
struct Arrivals(Sender<Result<(), String>>);

impl Reader for Arrivals {
    type Subscription = ();
    type Lane = ();

    fn offered(&mut self, _: &NodeName, _: &LaneOffer<'_>, (): &()) -> Option<()> {
        Some(())
    }

    fn row(&mut self, _: &mut Lane<Self>, _: &Row<'_>) {
        // Nobody listens any more after the first one.
        let _ = self.0.send(Ok(()));
    }

    fn notice(&mut self, (): &(), granted: bool, text: &str) {
        if !granted {
            let _ = self.0.send(Err(text.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_becomes_more_certain_with_each_pair_and_single_pairs_do_not() {
        let pairs =
            |count: usize| -> Vec<f64> { (0..count).map(|at| ((at * 37) % 101) as f64 - 50.0).collect() };
        let width = |count| median_of_draws(&pairs(count)).map(|spread| spread.upper - spread.lower).unwrap();
        assert!(width(1_010) < width(101) / 2.0, "{} {}", width(1_010), width(101));
        assert_eq!(median_of_draws(&pairs(101)).unwrap().median, 0.0);
        assert_eq!(median_of_draws(&[]), None);
    }

    #[test]
    fn quartiles_on_one_side_are_not_narrow() {
        let spread = |lower, upper| Spread { lower, upper, median: 0.0, ..Spread::of([0.0]).unwrap() };
        assert!(is_narrow(&spread(-0.4, 0.5)));
        assert!(!is_narrow(&spread(0.0, 0.6)));
        assert!(!is_narrow(&spread(-0.6, 0.0)));
    }
}
