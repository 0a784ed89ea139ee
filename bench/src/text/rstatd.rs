//! `S` to `khz agent` beside a call to Debian's rpc.rstatd: time and CPU for each request, back to back and
//! at 10 and 100 a second. Two bare loops in C show the least cost of the connection, and of reading the same
//! files.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};

use super::client::Client;
use super::portmapper::{OwnNetwork, Portmapper};
use super::rstat::Rstat;
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::hub::cluster::{Hub, text_door};
use crate::program::{compile, failed};
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};
use crate::watched::Watched;

/// Requests a second; `None`: back to back.
const PACES: [Option<u64>; 3] = [None, Some(100), Some(10)];
/// The programs that answer, and how.
const WHO: [&str; 5] =
    ["khz agent, anew", "khz agent, as pushed", "rstatd", "bare loop, four reads", "bare loop, no reads"];
const FRESH: usize = 0;
const PUSHED: usize = 1;
const RSTATD: usize = 2;
const READS: usize = 3;
/// The files of the five items.
const FILES: [&str; 4] = ["/proc/stat", "/proc/meminfo", "/proc/loadavg", "/proc/vmstat"];
/// How many times cheaper our request must be.
const CHEAPER: f64 = 10.0;

/// The results of one turn.
struct Turn {
    micros: f64,
    cpu_micros: f64,
    share: f64,
}

/// Runs the section in its own thread, which may leave this network namespace.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    std::thread::scope(|scope| scope.spawn(|| compare(record)).join())
        .map_err(|_| failed("bench text rstat", "it panicked"))?
}

fn compare(record: &mut Record) -> Result<(), BenchError> {
    // First, since it may take longer than rstatd stays without a call.
    let program = build_agent()?;
    let _network = OwnNetwork::enter()?;
    let mut mapper = Portmapper::start()?;
    let hub =
        Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &["--text-listen", "none", "--history", "0MiB"])?;
    let mut command = Command::new(&program);
    command.args([
        "agent",
        "--node",
        "n1",
        "--hub",
        &hub.link.to_string(),
        "--text-listen",
        "127.0.0.1:0",
        "--ring-dir",
        "none",
    ]);
    let mut agent = Watched::start(&mut command)?;
    let mut output = BufReader::new(agent.output()?);
    let mut client = Client::new(text_door(&mut output)?)?;
    let (mask, names) = client.five_items()?;
    client.ask(&format!("{mask}\nS"))?;
    let mut rstatd = Rstat::new(&mut mapper)?;
    let mut bare = [Bare::start(&FILES)?, Bare::start(&[])?];
    // The agent's cost without requests belongs to no request. rstatd gathers once a second only while there
    // are none: each request postpones that by a second.
    let idle = idle_share(&agent, Duration::from_secs(record.effort.of(5, 2)))?;
    let mut table = Table::new(&["a second", "who", "us a request", "CPU us a request", "CPU share %"]);
    for pace in PACES {
        let case = pace.map_or("back to back".to_owned(), |pace| pace.to_string());
        let mut turns: [Vec<Turn>; WHO.len()] = Default::default();
        let span = Duration::from_millis(record.effort.of(if pace == Some(10) { 3_000 } else { 1_000 }, 700));
        for turn in 0..record.effort.of(5, 2) {
            for place in 0..WHO.len() {
                let side = (place + turn) % WHO.len();
                let found = match side {
                    RSTATD => {
                        let process = rstatd.serve()?;
                        turn_of(&process, (pace, span), 0.0, || rstatd.stats().map(drop))?
                    }
                    READS.. => {
                        let Bare { process, client } = &mut bare[side - READS];
                        turn_of(process, (pace, span), 0.0, || client.ask("S").map(drop))?
                    }
                    _ => {
                        client.set(if side == FRESH { ":age\n" } else { ":age any\n" })?;
                        turn_of(&agent, (pace, span), idle, || client.ask("S").map(drop))?
                    }
                };
                for (what, value) in
                    [("us", found.micros), ("cpu_us", found.cpu_micros), ("share", found.share)]
                {
                    record.sample(["rstat", &case, WHO[side]], turn, what, value);
                }
                turns[side].push(found);
            }
        }
        for (who, turns) in WHO.iter().zip(&turns) {
            let median =
                |pick: fn(&Turn) -> f64| Spread::of(turns.iter().map(pick)).map_or(f64::NAN, |s| s.median);
            let share = figure(100.0 * median(|turn| turn.share));
            let row = [figure(median(|turn| turn.micros)), figure(median(|turn| turn.cpu_micros)), share];
            table.row([case.clone(), (*who).to_owned()].into_iter().chain(row));
        }
        let cpu = |turns: &[Turn]| turns.iter().map(|turn| turn.cpu_micros).collect::<Vec<_>>();
        for side in [FRESH, PUSHED] {
            let cheaper = Spread::of(ratios(&cpu(&turns[RSTATD]), &cpu(&turns[side])));
            let what = format!("{}, {case} a second: times cheaper than rstatd", WHO[side]);
            record.verdict(&what, cheaper, Bound::AtLeast(CHEAPER));
        }
    }
    record.show("## One node asked by hand", &table);
    record.say(&format!(
        "khz: five items ({}), gathered for each request, or received once a second (`:age any`). \
         rstatd: its 26 numbers, started as inetd does, found through rpcbind, asked over UDP; it reads six files for each. All in \
         a network with loopback alone. The bare loops (bench/c/answer.c) answer each byte with as many, with and without \
         reading the four files that the items are in. khz less what the agent costs while nobody asks ({:.3} % of a core).\n",
        names.join(", "),
        100.0 * idle
    ));
    Ok(())
}

/// A loop that only answers, and a connection to it.
struct Bare {
    process: Watched,
    client: Client,
}

impl Bare {
    fn start(files: &[&str]) -> Result<Self, BenchError> {
        let mut process = Watched::start(Command::new(compile("answer")?).args(files))?;
        let mut line = String::new();
        let wrong = |problem: String| failed("the bare loop", problem);
        BufReader::new(process.output()?).read_line(&mut line).map_err(|e| wrong(e.to_string()))?;
        let port: u16 = line.trim().parse().map_err(|_| wrong(format!("no port: '{line}'")))?;
        Ok(Bare { process, client: Client::new(([127, 0, 0, 1], port).into())? })
    }
}

fn idle_share(process: &Watched, span: Duration) -> Result<f64, BenchError> {
    let (before, start) = (process.counted()?.cpu_ns, Instant::now());
    std::thread::sleep(span);
    Ok((process.counted()?.cpu_ns - before) as f64 / start.elapsed().as_nanos() as f64)
}

/// Sends requests at that pace, and measures the CPU of the process beyond its idle cost.
fn turn_of(
    process: &Watched,
    (pace, span): (Option<u64>, Duration),
    idle: f64,
    mut ask: impl FnMut() -> Result<(), BenchError>,
) -> Result<Turn, BenchError> {
    ask()?;
    let (before, start) = (process.counted()?.cpu_ns, Instant::now());
    let (mut times, mut waited, mut due) = (0u32, Duration::ZERO, start);
    while start.elapsed() < span {
        let asked = Instant::now();
        ask()?;
        waited += asked.elapsed();
        times += 1;
        if let Some(pace) = pace {
            due += Duration::from_secs(1) / pace as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    let wall = start.elapsed().as_nanos() as f64;
    let cpu = ((process.counted()?.cpu_ns - before) as f64 - idle * wall).max(1.0);
    let times = f64::from(times);
    Ok(Turn { micros: waited.as_secs_f64() * 1e6 / times, cpu_micros: cpu / 1e3 / times, share: cpu / wall })
}
