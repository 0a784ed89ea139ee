//! `S` to `khz agent` beside a call to Debian's rpc.rstatd: time and CPU a request, back to back and at 10 and 100 a second.

use std::io::BufReader;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::client::Client;
use super::rstat::Rstat;
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::hub::cluster::{Hub, text_door};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};
use crate::watched::Watched;

const RSTATD: &str = "/usr/sbin/rpc.rstatd";
/// Requests a second; `None`: back to back.
const PACES: [Option<u64>; 3] = [None, Some(100), Some(10)];
/// How many times cheaper a request is to be.
const CHEAPER: f64 = 10.0;

/// What one turn has found.
struct Turn {
    micros: f64,
    cpu_micros: f64,
    share: f64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let (rstatd, port) = start_rstatd()?;
    let mut caller = Rstat::new(port)?;
    caller.stats()?;
    let program = build_agent()?;
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
    // What it costs while nobody asks is no request's.
    let idle = idle_share(&agent, Duration::from_secs(record.effort.of(5, 2)))?;
    let mut table = Table::new(&["a second", "who", "us a request", "CPU us a request", "CPU share %"]);
    for pace in PACES {
        let case = pace.map_or("back to back".to_owned(), |pace| pace.to_string());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for turn in 0..record.effort.of(5, 2) {
            for side in [turn % 2 == 0, turn % 2 == 1] {
                let span = Duration::from_millis(
                    record.effort.of(if pace == Some(10) { 3_000 } else { 1_000 }, 700),
                );
                let (who, found) = match side {
                    true => ("khz agent", turn_of(&agent, pace, span, idle, || client.ask("S").map(drop))?),
                    false => ("rstatd", turn_of(&rstatd, pace, span, 0.0, || caller.stats().map(drop))?),
                };
                for (what, value) in
                    [("us", found.micros), ("cpu_us", found.cpu_micros), ("share", found.share)]
                {
                    record.sample(["rstat", &case, who], turn, what, value);
                }
                if side { ours.push(found) } else { theirs.push(found) }
            }
        }
        for (who, turns) in [("khz agent", &ours), ("rstatd", &theirs)] {
            let median =
                |pick: fn(&Turn) -> f64| Spread::of(turns.iter().map(pick)).map_or(f64::NAN, |s| s.median);
            let share = figure(100.0 * median(|turn| turn.share));
            let row = [figure(median(|turn| turn.micros)), figure(median(|turn| turn.cpu_micros)), share];
            table.row([case.clone(), who.to_owned()].into_iter().chain(row));
        }
        let cpu = |turns: &[Turn]| turns.iter().map(|turn| turn.cpu_micros).collect::<Vec<_>>();
        let cheaper = Spread::of(ratios(&cpu(&theirs), &cpu(&ours)));
        record.verdict(
            &format!("times cheaper than rstatd, {case} a second"),
            cheaper,
            Bound::AtLeast(CHEAPER),
        );
    }
    record.show("## One node asked by hand", &table);
    record.say(&format!(
        "khz: five items ({}), gathered anew for each request; less what the agent costs while nobody asks ({:.3} % of a \
         core). rstatd: its 26 numbers, started as inetd does, asked over UDP.\n",
        names.join(", "),
        100.0 * idle
    ));
    Ok(())
}

/// As inetd starts it: its socket is its input.
fn start_rstatd() -> Result<(Watched, u16), BenchError> {
    let wrong = |e: std::io::Error| failed(format!("{RSTATD} (Debian package rstatd)"), e);
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
    let port = socket.local_addr().map_err(wrong)?.port();
    let input = Stdio::from(OwnedFd::from(socket));
    Ok((Watched::start_with(&mut Command::new(RSTATD), input)?, port))
}

fn idle_share(process: &Watched, span: Duration) -> Result<f64, BenchError> {
    let (before, start) = (process.counted()?.cpu_ns, Instant::now());
    std::thread::sleep(span);
    Ok((process.counted()?.cpu_ns - before) as f64 / start.elapsed().as_nanos() as f64)
}

/// Asks at that pace, and looks at what the process took for it beyond what it takes anyway.
fn turn_of(
    process: &Watched,
    pace: Option<u64>,
    span: Duration,
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
