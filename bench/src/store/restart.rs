//! A start after a crash: 500 column files and a full log. How long the store takes to open, how long its first answers
//! take, and how long a whole hub takes from its start to its first answer.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{Nanos, Pattern, RangeRequest, RangeShape, Ranges};
use khz_store::range::RangeReader;
use khz_store::{Store, StoreError};

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::http;
use crate::hub::cluster::Hub;
use crate::pairs::thread_cpu_ns;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::folder::{self, Scratch};
use crate::store::made_up::{self, Days};
use crate::store::memory::Peak;
use crate::store::nodes::{BEGIN, MOVING, NODES, Nodes, SLOTS};
use crate::store::ranges::keep;
use crate::table::{Table, figure};
use crate::watched::Watched;

/// Column files of the three weeks before the day of the log: 504 of rows, and their roll-ups.
const WEEKS: Days = Days {
    nodes: 64,
    series: 4,
    of: made_up::slots,
    begin: Nanos(1_762_992_000_000_000_000 - 21 * DAY),
    days: 21,
    period: Nanos::from_secs(10),
};
const DAY: u64 = 86_400_000_000_000;
/// What the log has when compaction is late: a full segment, sealed, and another one.
struct Full {
    name: &'static str,
    /// Rows of each node in a second.
    rate: u64,
    /// Seconds of a segment: ten minutes, or two gigabytes.
    segment: u64,
    quick: u64,
}
const FULL: [Full; 2] = [
    Full { name: "1 Hz", rate: 1, segment: 600, quick: 30 },
    Full { name: "10 Hz", rate: 10, segment: 85, quick: 5 },
];
/// A hub that does not answer by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let scratch = Scratch::new("restart")?;
    let program = build_agent()?;
    let heads = ["turn", "open ms", "CPU ms", "1st answer", "3 weeks", "from start", "hub ms", "kB"];
    let mut table = Table::new(&heads);
    for full in FULL {
        let whole = scratch.at("whole");
        let segment = record.effort.of(full.segment, full.quick);
        fill(record, &whole, segment, full.rate)?;
        let files = folder::files(&whole.join("raw"))?.len();
        let log = folder::bytes(&whole.join("log"))? as f64 / 1e6;
        let seconds = 2 * segment;
        record.say(&format!(
            "{}: {files} files of rows; {} MB of log, {seconds} s\n",
            full.name,
            figure(log)
        ));
        for pages in ["warm", "cold"] {
            turns(record, &mut table, (&program, &scratch, seconds), [full.name, pages])?;
        }
        std::fs::remove_dir_all(&whole).map_err(BenchError::file(whole))?;
    }
    record.show("## A start with 500 column files and a full log", &table);
    record.say(
        "Cold: each turn begins with all pages of the files dropped, as after a loss of power. Warm: all are in memory, as after\n\
         a crash of the hub. `open`: what `Store::open` takes. `from start`: from the start of a process that opens the store to\n\
         its first answer, one series of one node over the last minutes. `3 weeks`: the second answer, 1,000 points. `hub`: from\n\
         the start of `khz hub` to the first answer at its HTTP door. kB: what opening and the first answer took.\n",
    );
    Ok(())
}

fn turns(
    record: &mut Record,
    table: &mut Table,
    (program, scratch, seconds): (&Path, &Scratch, u64),
    [rate, pages]: [&'static str; 2],
) -> Result<(), BenchError> {
    let place = |folder: &Path| match pages {
        "cold" => folder::evict(folder),
        _ => folder::load(folder),
    };
    let (mut opens, mut starts, mut hubs, mut memory) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for turn in 0..record.effort.of(3, 1) {
        record.progress(&format!("{rate}, {pages}, turn {}", turn + 1));
        // What a start writes must not be there at the next one.
        let (copy, again) = (scratch.at("copy"), scratch.at("hub"));
        folder::link(&scratch.at("whole"), &copy)?;
        place(&copy)?;
        let told = first_answers(&copy, seconds)?;
        folder::link(&scratch.at("whole"), &again)?;
        place(&again)?;
        let hub = hub(program, &again, seconds)?;
        for (what, value) in [
            ("open_ms", told.open),
            ("open_cpu_ms", told.cpu),
            ("first_ms", told.first),
            ("weeks_ms", told.weeks),
            ("from_start_ms", told.from_start),
            ("memory_kb", told.memory),
            ("hub_ms", hub),
        ] {
            record.sample(["restart", rate, pages], turn, what, value);
        }
        let figures = [told.open, told.cpu, told.first, told.weeks, told.from_start, hub, told.memory];
        table.row([format!("{rate}, {pages} {}", turn + 1)].into_iter().chain(figures.map(figure)));
        opens.push(told.open);
        starts.push(told.from_start / 1e3);
        hubs.push(hub / 1e3);
        memory.push(told.memory / 1e3);
        for folder in [copy, again] {
            std::fs::remove_dir_all(&folder).map_err(BenchError::file(folder))?;
        }
    }
    let bound = record.effort.of(Bound::AtMost(1.0), Bound::Stated);
    let of = |what: &str| format!("restart, {rate}, {pages}: {what}");
    record.verdict(&of("s to the first answer"), Spread::of(starts), bound);
    record.verdict(&of("s to a hub's first answer"), Spread::of(hubs), bound);
    record.verdict(&of("ms to open"), Spread::of(opens), Bound::Stated);
    record.verdict(&of("memory, MB"), Spread::of(memory), Bound::Stated);
    Ok(())
}

fn wrong(error: StoreError) -> BenchError {
    failed("the store", error)
}

fn second(second: u64) -> Nanos {
    Nanos(BEGIN + second * Nanos::SECOND.0)
}

/// Column files, and a log whose writer was killed.
fn fill(record: &Record, folder: &Path, segment: u64, rate: u64) -> Result<(), BenchError> {
    WEEKS.write(folder, |day| record.progress(&format!("column files: day {}", day + 1)))?;
    let (store, intake, _) = Store::open(folder, keep(), second(0)).map_err(wrong)?;
    let nodes = Nodes::some(record.effort.of(NODES, NODES / 8), SLOTS, MOVING, &intake)?;
    for now in 0..2 * segment {
        if now % 60 == 0 {
            record.progress(&format!("the log: minute {}", now / 60));
        }
        if now == segment {
            store.seal();
        }
        (0..rate).for_each(|_| nodes.step(&intake));
        // The segment is sealed above, whatever the time is.
        store.commit(second(0)).map_err(wrong)?;
    }
    Ok(())
}

/// What the other process has measured, in ms and kB.
struct Told {
    open: f64,
    /// CPU time of that.
    cpu: f64,
    first: f64,
    weeks: f64,
    memory: f64,
    from_start: f64,
}

/// The first question: a few minutes of one series of one node, and how many readings they have.
const FIRST: &str = "node0031:*[slot5]";
/// The second one.
const WEEKS_OF: &str = "node0031:*[slot3]";

/// A process of its own opens the store and answers.
fn first_answers(folder: &Path, seconds: u64) -> Result<Told, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let start = Instant::now();
    let mut process = Watched::start(Command::new(own).arg("restart").arg(folder).arg(seconds.to_string()))?;
    let mut output = BufReader::new(process.output()?);
    let mut line = String::new();
    output.read_line(&mut line).map_err(|error| failed("the restarted store", error))?;
    let from_start = start.elapsed().as_secs_f64() * 1e3;
    output.read_line(&mut line).map_err(|error| failed("the restarted store", error))?;
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [open, cpu, first, memory, weeks] = numbers[..] else {
        return Err(failed("the restarted store", format!("it said '{}'", line.trim())));
    };
    Ok(Told { open, cpu, first, weeks, memory, from_start })
}

/// The other process: prints how long opening and the first answer took and the memory, then how long the second answer.
pub fn part(folder: &Path, seconds: &str) -> Result<(), BenchError> {
    let seconds: u64 = seconds.parse().map_err(|_| BenchError::Usage("restart FOLDER SECONDS".into()))?;
    let (peak, start, cpu) = (Peak::begin()?, Instant::now(), thread_cpu_ns());
    let (store, _intake, damage) = Store::open(folder, keep(), second(seconds)).map_err(wrong)?;
    if let Some(damage) = damage.first() {
        return Err(failed("the restarted store", damage));
    }
    let (open, cpu) = (start.elapsed().as_secs_f64() * 1e3, (thread_cpu_ns() - cpu) as f64 / 1e6);
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    let ask = |pattern: &str, from: Nanos, shape| {
        let start = Instant::now();
        let patterns = vec![Pattern::new(pattern).map_err(|error| failed("a pattern", error))?];
        let request = RangeRequest { patterns, from, to: second(seconds), shape };
        let wrong = |error: khz_model::QueryError| failed("a question", error);
        let mut answer = reader.range(request).map_err(wrong)?;
        let mut parts = 0;
        while answer.next().map_err(wrong)?.is_some() {
            parts += 1;
        }
        match parts {
            0 => Err(failed(pattern, "found nothing")),
            _ => Ok(start.elapsed().as_secs_f64() * 1e3),
        }
    };
    let first = ask(FIRST, second(0), RangeShape::Rows)?;
    println!("{open} {cpu} {first} {}", peak.grown_kb()?);
    println!("{}", ask(WEEKS_OF, WEEKS.begin, RangeShape::Points(1_000))?);
    Ok(())
}

/// How long a hub takes from its start to its first answer, in ms.
fn hub(program: &Path, folder: &Path, seconds: u64) -> Result<f64, BenchError> {
    let store = folder.display().to_string();
    // The rows are old.
    let long = "20y";
    let more = ["--store", &store, "--keep", "1TiB", "--store-raw", long, "--store-minute", long];
    let start = Instant::now();
    let hub =
        Hub::start(program, "127.0.0.1:0", "127.0.0.1:0", &[&more[..], &["--store-hour", long]].concat())?;
    let seconds_of = |at: Nanos| at.0 / Nanos::SECOND.0;
    let (from, to) = (seconds_of(second(0)), seconds_of(second(seconds)));
    let path = format!("/khz/v1/range?match=node0031:*%5Bslot5%5D&from={from}&to={to}");
    loop {
        match http::get(hub.http, &path) {
            Ok(answer) if answer.contains("slot5") => break,
            Ok(answer) => return Err(failed("khz hub", format!("it answered '{}'", answer.trim()))),
            // Its doors may open before it answers.
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
