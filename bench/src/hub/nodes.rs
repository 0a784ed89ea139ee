//! Thousands of nodes and their hub on the same processors: the hub's CPU for each received row with no
//! reader, with a reader of everything, and with TLS; its memory; and whether every row arrived. Takes turns
//! with the plain loop that moves as many bytes in as many writes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cluster::{Hub, Played, SLOTS, SLOTS_OF_ALL, Simulation};
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure, thousands};
use crate::watched::Watched;

/// A window begins this many seconds after all nodes are up.
const SETTLING: u64 = 2;
/// Seconds of a simulation outside the window: connecting, settling, and the window's edges.
const AROUND: u64 = 10;

/// The same with TLS: on a busy machine 4,096 handshakes take more than ten seconds.
const AROUND_TLS: u64 = 40;
/// Anonymous memory of a hub with 4,096 nodes and without history.
const ANONYMOUS_KB_MAX: f64 = 150_000.0;

/// The settings of a case, and its promise.
struct Case {
    name: &'static str,
    nodes: u64,
    rate: u64,
    slots: u64,
    history: &'static str,
    reads: bool,
    tls: bool,
    /// The most microseconds of the hub's CPU for each row.
    promised: Option<f64>,
}

const LOADED: [Case; 5] = [
    Case {
        name: "4096 x 100",
        nodes: 4_096,
        rate: 100,
        slots: SLOTS,
        history: "0MiB",
        reads: false,
        tls: false,
        promised: Some(1.0),
    },
    Case {
        name: "128 x 1000",
        nodes: 128,
        rate: 1_000,
        slots: SLOTS,
        history: "0MiB",
        reads: false,
        tls: false,
        promised: Some(1.0),
    },
    Case {
        name: "4096 x 100, decoded",
        nodes: 4_096,
        rate: 100,
        slots: SLOTS,
        history: "0MiB",
        reads: true,
        tls: false,
        promised: Some(2.0),
    },
    Case {
        name: "4096 x 100, TLS",
        nodes: 4_096,
        rate: 100,
        slots: SLOTS,
        history: "0MiB",
        reads: false,
        tls: true,
        promised: None,
    },
    Case {
        name: "4096 x 100, history",
        nodes: 4_096,
        rate: 100,
        slots: SLOTS,
        history: "",
        reads: false,
        tls: false,
        promised: None,
    },
];

/// The rates of most sites: few rows in each write, so that few rows share the cost of a wake-up.
const USUAL: [Case; 2] = [
    Case {
        name: "1000 x 10",
        nodes: 1_000,
        rate: 10,
        slots: SLOTS,
        history: "0MiB",
        reads: false,
        tls: false,
        promised: Some(1.5),
    },
    Case {
        name: "1000 x 1",
        nodes: 1_000,
        rate: 1,
        slots: SLOTS,
        history: "0MiB",
        reads: false,
        tls: false,
        promised: None,
    },
];

/// Nodes with everything that khz gathers.
const WIDE: [Case; 3] = [
    Case {
        name: "4096 x 100, 1000 slots",
        nodes: 4_096,
        rate: 100,
        slots: SLOTS_OF_ALL,
        history: "0MiB",
        reads: false,
        tls: false,
        promised: None,
    },
    Case {
        name: "1000 x 10, 1000 slots",
        nodes: 1_000,
        rate: 10,
        slots: SLOTS_OF_ALL,
        history: "0MiB",
        reads: false,
        tls: false,
        promised: None,
    },
    Case {
        name: "4096 x 1, 1000 slots",
        nodes: 4_096,
        rate: 1,
        slots: SLOTS_OF_ALL,
        history: "",
        reads: false,
        tls: false,
        promised: None,
    },
];

/// One turn of the hub.
struct Turn {
    /// Microseconds of the hub's CPU for each row, and of the simulation's CPU.
    hub_us: f64,
    simulation_us: f64,
    /// Rows a second.
    rows: f64,
    anonymous_kb: f64,
    /// Rows of the whole simulation.
    sent: u64,
    received: u64,
    late: u64,
    bytes_a_write: f64,
    writes_a_second: f64,
}

/// Runs the section with many rows.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    cases(record, &LOADED)
}

/// Runs the section with usual rates.
pub fn usual(record: &mut Record) -> Result<(), BenchError> {
    cases(record, &USUAL)
}

/// Runs the section with nodes of many slots.
pub fn wide(record: &mut Record) -> Result<(), BenchError> {
    cases(record, &WIDE)
}

fn cases(record: &mut Record, cases: &[Case]) -> Result<(), BenchError> {
    let program = build_agent()?;
    let certificates = certificates(&program)?;
    let heads = ["nodes", "hub us", "quartiles", "floor", "times", "sim us", "MB", "lost"];
    let mut table = Table::new(&heads);
    for case in cases {
        let (mut turns, mut floors) = (Vec::new(), Vec::new());
        for group in 0..record.effort.of(1, 1) {
            // The first turn lasts a minute.
            let seconds = record.effort.of(if group == 0 { 60 } else { 15 }, 6);
            record.progress(&format!("{}, first turn, {seconds} s", case.name));
            turns.push(play(&program, &certificates, case, seconds)?);
            for _ in 0..2 {
                record.progress(&format!("{}, a bare loop", case.name));
                floors.push(floor(case, &turns[turns.len() - 1], record.effort.of(15, 4))?);
            }
            record.progress(&format!("{}, second turn", case.name));
            turns.push(play(&program, &certificates, case, record.effort.of(15, 6))?);
        }
        keep(record, case, &turns, &floors);
        show(record, &mut table, case, &turns, &floors);
    }
    record.show("## Nodes and hub on the same processors", &table);
    record.say(&format!(
        "Hub: microseconds of its CPU for each row that it received. Rows have {SLOTS} slots where the case says\n\
         nothing else. Hub, simulation and\n\
         readers are processes of their own, watched from outside; sim: the simulation's CPU for each row. The\n\
         floor is the CPU of a loop that only reads as many bytes in as many writes from as many connections, for\n\
         each row that they stand for; times: the hub's beside it. MB: the hub's RssAnon. Lost: rows sent by the\n\
         simulation and not received by the hub.\n"
    ));
    let _ = std::fs::remove_dir_all(certificates);
    Ok(())
}

/// A CA, a key and a certificate for 127.0.0.1, made with the users' commands.
fn certificates(program: &Path) -> Result<PathBuf, BenchError> {
    let folder = std::env::temp_dir().join(format!("khz-bench-certs-{}", std::process::id()));
    for words in [&["init"][..], &["hub", "bench", "127.0.0.1"]] {
        let output = Command::new(program).arg("certs").args(words).arg("--dir").arg(&folder).output();
        let output = output.map_err(|e| failed("khz certs", e))?;
        if !output.status.success() {
            return Err(failed("khz certs", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(folder)
}

fn play(program: &Path, certificates: &Path, case: &Case, seconds: u64) -> Result<Turn, BenchError> {
    let file = |name: &str| certificates.join(name).display().to_string();
    let (certificate, key, ca) = (file("hub-bench.pem"), file("hub-bench.key"), file("ca.pem"));
    let mut hub_flags = Vec::new();
    let mut node_flags = Vec::new();
    if !case.history.is_empty() {
        hub_flags.extend(["--history", case.history]);
    }
    if case.tls {
        hub_flags.extend(["--tls-cert", &certificate, "--tls-key", &key]);
        node_flags.extend(["--tls-ca", &ca]);
    }
    let hub = Hub::start(program, "127.0.0.1:0", "127.0.0.1:0", &hub_flags)?;
    let around = if case.tls { AROUND_TLS } else { AROUND };
    let simulation = Simulation::start_with_slots(
        program,
        hub.link,
        (case.nodes, case.rate),
        case.slots,
        seconds + around,
        &node_flags,
    )?;
    simulation.wait_for_all()?;
    let reader = if case.reads { Some(read_everything(&hub, case)?) } else { None };
    for _ in 0..SETTLING {
        simulation.next()?;
    }
    let look = || -> Result<(Played, u64, u64), BenchError> {
        let report = simulation.next()?;
        Ok((report, hub.process.counted()?.cpu_ns, simulation.process.counted()?.cpu_ns))
    };
    let (before, hub_before, simulation_before) = look()?;
    std::thread::sleep(Duration::from_millis(seconds * 1_000 - 500));
    let (after, hub_after, simulation_after) = look()?;
    let anonymous_kb = hub.process.held()?.anonymous_kb as f64;
    let last = simulation.last()?;
    // With TLS we cannot read the hub's own count at its door; the acknowledgements give it.
    let received = match case.tls {
        true => last.number("rows") - last.number("unacknowledged"),
        false => hub.count("khz_hub_rows_total")?,
    };
    drop(reader);
    let gained = |name: &str| (after.number(name) - before.number(name)) as f64;
    let (rows, time) = (gained("rows"), gained("elapsed_ns") / 1e9);
    Ok(Turn {
        hub_us: (hub_after - hub_before) as f64 / 1e3 / rows,
        simulation_us: (simulation_after - simulation_before) as f64 / 1e3 / rows,
        rows: rows / time,
        anonymous_kb,
        sent: last.number("rows"),
        received,
        late: last.number("late"),
        bytes_a_write: gained("bytes") / gained("writes"),
        writes_a_second: gained("writes") / time,
    })
}

/// Starts a reader of every series of every node, and waits until it has them.
fn read_everything(hub: &Hub, case: &Case) -> Result<Watched, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let (link, rate) = (hub.link.to_string(), case.rate.to_string());
    let mut reader =
        Watched::start(Command::new(own).args(["part", "drain", &link, "1", &rate, "flushed", "*"]))?;
    let mut output = BufReader::new(reader.output()?);
    for _ in 0..60 {
        let mut line = String::new();
        output.read_line(&mut line).map_err(|e| failed("the reader", e))?;
        if line.trim() == case.nodes.to_string() {
            // Nobody reads its further output, which fits into the pipe.
            std::mem::forget(output);
            return Ok(reader);
        }
    }
    Err(failed("the reader", "it has not got all nodes after a minute"))
}

/// CPU of a plain receiver, in microseconds for each row in a turn's writes.
fn floor(case: &Case, turn: &Turn, seconds: u64) -> Result<f64, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let mut receiver = Watched::start(Command::new(&own).args(["part", "receive"]))?;
    let mut output = BufReader::new(receiver.output()?);
    let mut address = String::new();
    output.read_line(&mut address).map_err(|e| failed("the receiver", e))?;
    let interval = case.nodes as f64 / turn.writes_a_second * 1e6;
    let words = [
        address.trim().to_owned(),
        case.nodes.to_string(),
        format!("{:.0}", turn.bytes_a_write),
        format!("{interval:.0}"),
        (seconds + 2).to_string(),
    ];
    let mut sender = Command::new(&own);
    let mut sender = Watched::start(sender.args(["part", "send"]).args(words))?;
    let _ = sender.output()?;
    std::thread::sleep(Duration::from_millis(1_500));
    let before = receiver.counted()?.cpu_ns;
    std::thread::sleep(Duration::from_secs(seconds));
    let cpu = (receiver.counted()?.cpu_ns - before) as f64;
    Ok(cpu / 1e3 / (turn.rows * seconds as f64))
}

fn keep(record: &mut Record, case: &Case, turns: &[Turn], floors: &[f64]) {
    for (number, turn) in turns.iter().enumerate() {
        for (what, value) in [
            ("hub_us_per_row", turn.hub_us),
            ("simulation_us_per_row", turn.simulation_us),
            ("rows_per_second", turn.rows),
            ("rss_anon_kb", turn.anonymous_kb),
            ("rows_sent", turn.sent as f64),
            ("rows_received", turn.received as f64),
            ("rows_late", turn.late as f64),
            ("bytes_per_write", turn.bytes_a_write),
            ("writes_per_second", turn.writes_a_second),
        ] {
            record.sample(["nodes", case.name, "khz"], number, what, value);
        }
    }
    for (number, floor) in floors.iter().enumerate() {
        record.sample(["nodes", case.name, "floor"], number, "us_per_row", *floor);
    }
}

fn show(record: &mut Record, table: &mut Table, case: &Case, turns: &[Turn], floors: &[f64]) {
    let column = |figure: fn(&Turn) -> f64| turns.iter().map(figure).collect::<Vec<f64>>();
    let (cost, memory) = (Spread::of(column(|t| t.hub_us)), Spread::of(column(|t| t.anonymous_kb)));
    let times = Spread::of(ratios(&column(|t| t.hub_us), floors));
    let (Some(cost), Some(memory), Some(times)) = (cost, memory, times) else { return };
    let simulation = Spread::of(column(|t| t.simulation_us));
    let lost: u64 = turns.iter().map(|turn| turn.sent.abs_diff(turn.received)).sum();
    let late: u64 = turns.iter().map(|turn| turn.late).sum();
    table.row([
        case.name.to_owned(),
        figure(cost.median),
        format!("{}..{}", figure(cost.lower), figure(cost.upper)),
        Spread::of(floors.iter().copied()).map_or(String::new(), |floor| figure(floor.median)),
        figure(times.median),
        simulation.map_or(String::new(), |one| figure(one.median)),
        figure(memory.median / 1e3),
        thousands(lost as f64),
    ]);
    record.verdict(&format!("{}: rows lost", case.name), Spread::of([lost as f64]), Bound::AtMost(0.0));
    record.verdict(&format!("{}: rows late", case.name), Spread::of([late as f64]), Bound::AtMost(0.0));
    let bound = case.promised.map_or(Bound::Stated, Bound::AtMost);
    record.verdict(&format!("{}: us per row", case.name), Some(cost), bound);
    if case.slots != SLOTS {
        record.verdict(&format!("{}: RssAnon of the hub in kB", case.name), Some(memory), Bound::Stated);
    } else if case.nodes == 4_096 && case.history == "0MiB" && !case.tls && !case.reads {
        record.verdict("RssAnon of the hub in kB", Some(memory), Bound::AtMost(ANONYMOUS_KB_MAX));
    }
}
