//! The whole agent beside a bare loop in C that reads and digit-parses the same five files at the same rate:
//! CPU per sample, ticks met, late ticks, memory, context switches. Both are watched from outside, on the
//! same CPU, in turns A B B A.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::BenchError;
use crate::five::FILES;
use crate::http;
use crate::place::Pinned;
use crate::program::{build_directory, compile, failed};
use crate::record::{Bound, Record};
use crate::sink::Sink;
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};
use crate::watched::{Held, Watched};

/// The environment variable that names the `khz` to measure.
pub const PROGRAM: &str = "KHZ_BENCH_PROGRAM";

/// The agent's CPU per sample may be at most this multiple of the bare loop's. At low rates, when everything
/// is cold, the agent's work besides the reads weighs more.
fn dearer(rate: u64) -> f64 {
    match rate {
        1_000.. => 1.1,
        100.. => 1.2,
        10.. => 1.3,
        _ => 1.5,
    }
}

/// `khz` without flags may take at most this percentage of a core while nobody reads it.
const PLAIN_SHARE: f64 = 0.25;
/// And at most this multiple of the cost of five files ten times a second.
const PLAIN_DEARER: f64 = 1.67;

/// An agent to compare with the bare loop, and the promises about it.
pub struct Contest<'a> {
    /// The section, for raw samples and verdicts.
    pub section: &'a str,
    /// The heading over the table.
    pub title: &'a str,
    /// The command that starts the agent at a rate.
    pub command: &'a dyn Fn(&Path, u64) -> Command,
    /// The rates to measure.
    pub rates: &'a [u64],
    /// CPU per sample may be at most this multiple of the bare loop's.
    pub dearer: fn(u64) -> f64,
    /// The share of a core, in percent, that it may take, if that is promised.
    pub share_max: Option<f64>,
    /// What answers a bare loop that sends as much as the agent, if one runs beside them (at 1 Hz).
    pub sink: Option<&'a Sink>,
    /// How long a process runs at least before it is watched: in that time it opens files, allocates, grows
    /// and connects to its hub.
    pub warm_up: fn(u64) -> Duration,
}

/// Share of the ticks to be met at 1,000 Hz.
const REACHED: f64 = 0.999;

/// Anonymous memory the agent may hold, in kB.
const ANONYMOUS_KB_MAX: f64 = 4_000.0;

/// A rate, and how many seconds one turn is watched: in a full run, and in a quick one.
const RATES: [(u64, u64, u64); 4] = [(1_000, 4, 2), (100, 4, 2), (10, 5, 2), (1, 8, 4)];

/// How long an agent without a hub needs to open files, allocate and grow.
const WARM_UP: Duration = Duration::from_millis(1_500);

/// The counts that both sides report about themselves: ticks met, met late, skipped. Families of `/metrics`,
/// with one sample for each lane, and names in the JSON object of `paced`.
const FAMILIES: [&str; 3] =
    ["khz_lane_rows_total", "khz_lane_late_ticks_total", "khz_lane_skipped_ticks_total"];
const BARE_NAMES: [&str; 3] = ["ticks", "late", "missed"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Bare,
    Agent,
    Sending,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Bare => "bare",
            Side::Agent => "khz",
            Side::Sending => "bare, sending",
        }
    }
}

/// One turn of one side.
#[derive(Clone, Copy, Debug)]
struct Turn {
    cpu_us: f64,
    reached: f64,
    switches: f64,
    reads: f64,
    own: OwnCounts,
    held: Held,
}

/// A side's own counts per 1,000 ticks of its whole life; `None`: it does not report one.
#[derive(Clone, Copy, Debug)]
struct OwnCounts {
    late: Option<f64>,
    skipped: Option<f64>,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let title = "## The whole agent, doors idle, beside a bare C loop";
    let warm_up = |_: u64| WARM_UP;
    let command = &agent_command;
    let rates = &[1_000, 100, 10, 1];
    compare(
        record,
        &Contest { section: "agent", title, command, rates, dearer, share_max: None, sink: None, warm_up },
    )?;
    // The default agent: all sources, a lane at 10 Hz and one at 1 Hz.
    let title = "## khz without a flag, which nobody reads, beside a bare C loop of five files at its 10 Hz";
    let plain = Contest {
        section: "plain khz",
        title,
        command: &plain_command,
        rates: &[10],
        dearer: |_| PLAIN_DEARER,
        share_max: Some(PLAIN_SHARE),
        sink: None,
        warm_up,
    };
    compare(record, &plain)
}

/// Compares an agent with the bare loop at every rate.
pub fn compare(record: &mut Record, contest: &Contest<'_>) -> Result<(), BenchError> {
    let bare = compile("paced")?;
    let agent = build_agent()?;
    let pinned = Pinned::here()?;
    let heads =
        ["rate, side", "us/sample", "quartiles", "x bare", "reached %", "late", "switches", "RssAnon"];
    let mut table = Table::new(&heads);
    for (rate, full, quick) in RATES.into_iter().filter(|(rate, ..)| contest.rates.contains(rate)) {
        let window = Duration::from_secs(record.effort.of(full, quick));
        let mut turns: [Vec<Turn>; 3] = Default::default();
        let sink = contest.sink.filter(|_| rate == 1);
        let order = match sink {
            Some(_) => &[Side::Bare, Side::Agent, Side::Sending, Side::Sending, Side::Agent, Side::Bare][..],
            None => &[Side::Bare, Side::Agent, Side::Agent, Side::Bare],
        };
        // Five times A B B A gives ten pairs of neighbours.
        let groups = record.effort.of(5, 2);
        for number in 0..groups * order.len() {
            let side = order[number % order.len()];
            let of = groups * order.len();
            record.progress(&format!("{}, {rate} Hz, turn {} of {of}", contest.section, number + 1));
            let mut bare = Command::new(&bare);
            bare.arg(rate.to_string());
            let command = match (side, sink) {
                (Side::Agent, _) => (contest.command)(&agent, rate),
                (Side::Sending, Some(sink)) => sink.fed_by(bare),
                _ => bare,
            };
            let turn = watch(side, command, rate, window, (contest.warm_up)(rate))?;
            keep(record, contest, rate, side, number, turn);
            turns[side as usize].push(turn);
        }
        show_rate(record, contest, &mut table, rate, &turns);
    }
    record.show(contest.title, &table);
    record.say(&format!(
        "Both on CPU {}, watched from outside (schedstat, io, status). Reached: reads counted by the kernel\n\
         against reads due (the agent reads its own status once a second besides). Late, as each says of\n\
         itself, and context switches: per 1,000 ticks. RssAnon in kB.\n",
        pinned.cpu
    ));
    Ok(())
}

/// The command that starts the agent: the only place that knows its flags.
pub fn agent_command(program: &Path, rate: u64) -> Command {
    let sources: Vec<String> = FILES.iter().map(|file| format!("{file}={rate}Hz")).collect();
    let mut command = Command::new(program);
    // Its own node name: the rings of an agent in real use here are not ours.
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--node",
        "khz-bench",
        "--quiet",
        "--sources",
        &sources.join(","),
    ]);
    command
}

/// The same without flags for what it gathers.
fn plain_command(program: &Path, _: u64) -> Command {
    let mut command = Command::new(program);
    command.args(["--listen", "127.0.0.1:0", "--node", "khz-bench", "--quiet"]);
    command
}

/// The `khz` to measure: the one that `cargo xtask bench` has built and named here, else one that is built
/// now. Once for each run, so that all sections measure the same program.
pub fn build_agent() -> Result<PathBuf, BenchError> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path.clone());
    }
    let path = match std::env::var_os(PROGRAM) {
        Some(path) if Path::new(&path).is_file() => PathBuf::from(path),
        Some(path) => return Err(failed(PROGRAM, format!("there is no file {}", path.display()))),
        None => build()?,
    };
    Ok(BUILT.get_or_init(|| path).clone())
}

/// Builds `khz` with the profile of this program, as `cargo xtask bench` does: in one cargo command with this
/// program, so that both share crates and nothing is compiled twice.
fn build() -> Result<PathBuf, BenchError> {
    let (profile, directory) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    let target = build_directory()?;
    eprintln!("khz is being built; `cargo xtask bench` does this before the run");
    let status = Command::new("cargo")
        .args(["build", "--package", "khz", "--package", "khz-bench", "--profile", profile, "--target-dir"])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .map_err(|e| failed("cargo build", e))?;
    match status.success() {
        true => Ok(target.join(directory).join("khz")),
        false => Err(failed("cargo build", status)),
    }
}

/// One turn: start, warm up, watch for whole periods, end.
fn watch(
    side: Side,
    mut command: Command,
    rate: u64,
    window: Duration,
    warm_up: Duration,
) -> Result<Turn, BenchError> {
    let mut process = Watched::start(&mut command)?;
    let mut output = BufReader::new(process.output()?);
    let address = if side == Side::Agent { Some(announced(&mut output)?) } else { None };

    let period = Duration::from_secs(1) / rate as u32;
    std::thread::sleep(warm_up);
    if let Some(address) = address {
        http::get(address, "/metrics")?; // so that both requests leave the same state
    }
    sleep_to_middle_of(period);
    let (from, before) = (wall_clock(), process.counted()?);
    std::thread::sleep(window);
    sleep_to_middle_of(period);
    let (to, after) = (wall_clock(), process.counted()?);

    if after.cpu_ns == before.cpu_ns {
        return Err(failed(format!("{command:?}"), "the kernel counts no CPU time (CONFIG_SCHED_INFO)"));
    }
    let held = process.held()?;
    let metrics = address.map(|a| http::get(a, "/metrics")).transpose()?;
    let report = process.end(output.into_inner())?;
    let ticks = ticks_between(from, to, period) as f64;
    let reads = (after.reads - before.reads) as f64;
    let reached = reads / (ticks * (reads / ticks).round().max(1.0));
    let own = match metrics {
        Some(metrics) => own_counts(|name| sum_of(&metrics, FAMILIES[name])),
        None => own_counts(|name| number_in(&report, BARE_NAMES[name])),
    };
    Ok(Turn {
        // Reads beyond those of the ticks are no samples: the agent reads its own files once a second.
        cpu_us: (after.cpu_ns - before.cpu_ns) as f64 / 1e3 / (ticks * reached.min(1.0)),
        reached,
        switches: (after.switches - before.switches) as f64 * 1_000.0 / ticks,
        reads: reads / ticks,
        own,
        held,
    })
}

/// Both sides tick at multiples of the period in wall-clock time, so a cut in the middle between two ticks
/// splits no tick.
pub fn sleep_to_middle_of(period: Duration) {
    let period = period.as_nanos();
    let into = wall_clock().as_nanos() % period;
    std::thread::sleep(Duration::from_nanos(((period + period / 2 - into) % period) as u64));
}

/// How many multiples of the period are between two instants: the ticks that were due.
fn ticks_between(from: Duration, to: Duration, period: Duration) -> u128 {
    to.as_nanos() / period.as_nanos() - from.as_nanos() / period.as_nanos()
}

fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The address that the agent prints when it is ready.
pub fn announced(output: &mut impl BufRead) -> Result<SocketAddr, BenchError> {
    let mut seen = String::new();
    while output.read_line(&mut seen).map_err(|e| failed("khz", e))? > 0 {
        if let Some(address) = address_in(&seen) {
            return Ok(address);
        }
    }
    Err(failed("khz", format!("ended without an address; it said '{}'", seen.trim())))
}

fn address_in(text: &str) -> Option<SocketAddr> {
    let rest = text.split_once("http://")?.1;
    rest.split(|c: char| c == '/' || c.is_whitespace()).next()?.parse().ok()
}

/// The sum of all samples of a family in Prometheus text; `None` when the family is missing.
pub fn sum_of(metrics: &str, family: &str) -> Option<f64> {
    let samples = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(family)?;
        rest.starts_with(['{', ' ']).then_some(())?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    samples.fold(None, |sum, sample| Some(sum.unwrap_or(0.0) + sample))
}

/// A number in a JSON object.
/// A number of a report, which is a JSON object; `None` if it is not there.
pub fn number_in(report: &str, name: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Value>(report).ok()?.get(name)?.as_f64()
}

/// Late and skipped ticks per 1,000; `count` returns the count of a name's index.
fn own_counts(count: impl Fn(usize) -> Option<f64>) -> OwnCounts {
    let per_1000 = |index| {
        let ticks = count(0)? + count(2)?;
        (ticks > 0.0).then_some(count(index)? * 1_000.0 / ticks)
    };
    OwnCounts { late: per_1000(1), skipped: per_1000(2) }
}

fn keep(record: &mut Record, contest: &Contest<'_>, rate: u64, side: Side, number: usize, turn: Turn) {
    let case = format!("{rate} Hz");
    for (what, value) in [
        ("cpu_us", turn.cpu_us),
        ("reached", turn.reached),
        ("switches_per_1000", turn.switches),
        ("reads_per_tick", turn.reads),
        ("late_per_1000", turn.own.late.unwrap_or(f64::NAN)),
        ("skipped_per_1000", turn.own.skipped.unwrap_or(f64::NAN)),
        ("rss_anon_kb", turn.held.anonymous_kb as f64),
        ("rss_shmem_kb", turn.held.shared_kb as f64),
        ("threads", turn.held.threads as f64),
    ] {
        record.sample([contest.section, &case, side.name()], number, what, value);
    }
}

fn show_rate(
    record: &mut Record,
    contest: &Contest<'_>,
    table: &mut Table,
    rate: u64,
    [bare, agent, sending]: &[Vec<Turn>; 3],
) {
    let cost = |turns: &[Turn]| turns.iter().map(|t| t.cpu_us).collect::<Vec<_>>();
    let beside = |turns: &[Turn], others: &[Turn]| Spread::of(ratios(&cost(turns), &cost(others)));
    let times = beside(agent, bare);
    for (side, turns, times) in [
        (Side::Bare, bare, None),
        (Side::Sending, sending, beside(sending, bare)),
        (Side::Agent, agent, times),
    ] {
        let median =
            |figure: fn(&Turn) -> f64| Spread::of(turns.iter().map(figure)).map_or(f64::NAN, |s| s.median);
        let Some(cost) = Spread::of(cost(turns)) else { continue };
        table.row([
            format!("{rate} Hz {}", side.name()),
            figure(cost.median),
            format!("{}..{}", figure(cost.lower), figure(cost.upper)),
            times.map_or(String::new(), |t| figure(t.median)),
            format!("{:.2}", 100.0 * median(|t| t.reached)),
            match turns.iter().any(|t| t.own.late.is_some()) {
                true => figure(median(|t| t.own.late.unwrap_or(f64::NAN))),
                false => String::from("-"),
            },
            figure(median(|t| t.switches)),
            figure(median(|t| t.held.anonymous_kb as f64)),
        ]);
    }
    let promise = format!("{} / bare loop, {rate} Hz", contest.section);
    record.verdict(&promise, times, Bound::AtMost((contest.dearer)(rate)));
    if !sending.is_empty() {
        let promise = format!("{} / bare loop that sends, {rate} Hz", contest.section);
        record.verdict(&promise, beside(agent, sending), Bound::Stated);
        let promise = format!("{}: bare loop that sends / bare loop, {rate} Hz", contest.section);
        record.verdict(&promise, beside(sending, bare), Bound::Stated);
    }
    if let Some(share_max) = contest.share_max {
        let shares = agent.iter().map(|turn| turn.cpu_us * rate as f64 / 1e4);
        let promise = format!("{}: percent of a core", contest.section);
        record.verdict(&promise, Spread::of(shares), Bound::AtMost(share_max));
    }
    if rate == 1_000 {
        let reached_by = |turns: &[Turn]| turns.iter().map(|t| t.reached).collect::<Vec<_>>();
        let reached = Spread::of(reached_by(agent));
        record.verdict("ticks reached at 1,000 Hz", reached, Bound::AtLeast(REACHED));
        let beside_bare = ratios(&reached_by(agent), &reached_by(bare));
        record.verdict(
            "ticks reached / bare loop's, 1,000 Hz",
            Spread::of(beside_bare),
            Bound::AtLeast(REACHED),
        );
        let memory = Spread::of(agent.iter().map(|t| t.held.anonymous_kb as f64));
        record.verdict("agent's RssAnon in kB", memory, Bound::AtMost(ANONYMOUS_KB_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_what_the_agent_prints() {
        assert_eq!(address_in("the page is at http://127.0.0.1:7070/\n"), "127.0.0.1:7070".parse().ok());
        assert_eq!(address_in("http://[::1]:80 "), "[::1]:80".parse().ok());
        assert_eq!(address_in("no address"), None);
    }

    #[test]
    fn due_ticks_are_multiples_of_the_period_and_not_time_over_period() {
        let (ms, period) = (Duration::from_millis, Duration::from_millis(10));
        assert_eq!(ticks_between(ms(9), ms(11), period), 1);
        assert_eq!(ticks_between(ms(11), ms(19), period), 0);
        assert_eq!(ticks_between(ms(15), ms(1_015), period), 100);
    }

    #[test]
    fn late_ticks_are_summed_over_lanes_and_missing_is_not_zero() {
        let text = "# TYPE late counter\nlate{lane=\"base\"} 2\nlate{lane=\"local\"} 3\nlater 7\n";
        assert_eq!(sum_of(text, "late"), Some(5.0));
        assert_eq!(sum_of(text, "lat"), None);
        assert_eq!(number_in("{\"ticks\":9,\"late\":4}\n", "late"), Some(4.0));
        assert_eq!(number_in("", "late"), None);
        let counts = own_counts(|index| [Some(90.0), Some(9.0), Some(10.0)][index]);
        assert_eq!((counts.late, counts.skipped), (Some(90.0), Some(100.0)));
        assert_eq!(own_counts(|index| [Some(90.0), None, Some(10.0)][index]).late, None);
    }
}
