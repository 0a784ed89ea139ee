//! `khz record` of 128 nodes that play 100 slots at 1,000 Hz: whether the file has every row, how many bytes
//! a value takes there, and the CPU of recorder and hub, watched from outside.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use khz_record::{Recording, Survey};

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::hub::cluster::{Hub, Simulation};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::section::{Section, Suite};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};
use crate::watched::Watched;

/// What is played during the recording.
struct Case {
    nodes: u64,
    rate: u64,
    slots: u64,
}

const LOADED: Case = Case { nodes: 128, rate: 1_000, slots: 100 };
/// A user's first try: a few seconds of one node at the base lane's rate.
const SMALL: Case = Case { nodes: 1, rate: 1, slots: 300 };
const SMALL_SECONDS: u64 = 12;

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "record",
    about: "`khz record`, into a file",
    sections: &[
        Section {
            name: "loaded",
            seconds: (150, 30),
            about: "128 nodes at 1,000 Hz, 100 slots each, for 30 s: nothing lost, bytes a value on disk, CPU",
            run: loaded,
        },
        Section {
            name: "small",
            seconds: (100, 40),
            about: "12 rows of one node at 1 Hz, 300 slots: bytes a value on disk, and the schema's share",
            run: small,
        },
    ],
};
/// Seconds before and after a recording in which nodes connect and leave.
const AROUND: u64 = 12;
const LOOK: Duration = Duration::from_millis(250);

/// The results of one recording.
struct Turn {
    rows: u64,
    missing: u64,
    values: u64,
    bytes: u64,
    seconds: f64,
    recorder_seconds: f64,
    hub_seconds: f64,
    resident_kb: f64,
    schema_bytes: u64,
}

/// Runs the section.
fn loaded(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let folder = std::env::temp_dir().join(format!("khz-bench-record-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
    let mut turns = Vec::new();
    for turn in 0..record.effort.of(3, 1) {
        record.progress(&format!("turn {}", turn + 1));
        turns.push(play(&program, &folder, &LOADED, record.effort.of(30, 6))?);
    }
    let _ = fs::remove_dir_all(&folder);
    keep(record, &turns);
    Ok(())
}

fn play(program: &Path, folder: &Path, case: &Case, seconds: u64) -> Result<Turn, BenchError> {
    let run_dir = folder.display().to_string();
    let more = ["--history", "0MiB", "--run-dir", &run_dir];
    let hub = Hub::start(program, "127.0.0.1:0", "127.0.0.1:0", &more)?;
    let simulation = Simulation::start_with_slots(
        program,
        hub.link,
        (case.nodes, case.rate),
        case.slots,
        seconds + AROUND,
        &["--run-dir", &run_dir],
    )?;
    simulation.wait_for_all()?;
    let file = folder.join("run.khzt");
    let mut command = Command::new(program);
    command.args(["record", "*", "--quiet", "--run-dir", &run_dir, "--rate", &format!("{}Hz", case.rate)]);
    command.args(["--for", &format!("{seconds}s"), "-o"]).arg(&file);
    let hub_before = hub.process.counted()?.cpu_ns as f64 / 1e9;
    let mut recorder = Watched::start(&mut command)?;
    let (mut cpu, mut resident, mut hub_cpu) = (0.0, 0.0f64, hub_before);
    while !recorder.has_ended() {
        if let (Ok(counted), Ok(held)) = (recorder.counted(), recorder.held()) {
            cpu = counted.cpu_ns as f64 / 1e9;
            resident = resident.max(held.anonymous_kb as f64);
            hub_cpu = hub.process.counted()?.cpu_ns as f64 / 1e9;
        }
        std::thread::sleep(LOOK);
    }
    let survey = Survey::of(&Recording::of(std::slice::from_ref(&file)))
        .map_err(|error| failed("reading the recording", error))?;
    if let Some(problem) = survey.problems().first() {
        return Err(failed("reading the recording", problem));
    }
    let sum = |of: fn(&khz_record::LaneSurvey) -> u64| survey.lanes.iter().map(of).sum::<u64>();
    let span = survey.span().map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
    drop(simulation);
    Ok(Turn {
        rows: sum(|lane| lane.rows),
        missing: sum(|lane| lane.missing().rows),
        values: sum(|lane| lane.values),
        bytes: fs::metadata(&file).map_err(BenchError::file(&file))?.len(),
        seconds: span,
        recorder_seconds: cpu,
        hub_seconds: hub_cpu - hub_before,
        resident_kb: resident,
        schema_bytes: schema_bytes(&file)?,
    })
}

/// Bytes of the file's chunks that hold parts of schemas, with frames (docs/record.md: kinds 4 and 8).
fn schema_bytes(file: &Path) -> Result<u64, BenchError> {
    const FRONT: usize = 8;
    const HEAD: usize = 5;
    let bytes = fs::read(file).map_err(BenchError::file(file))?;
    let (mut at, mut sum) = (FRONT, 0);
    while let Some(&[kind, a, b, c, d]) = bytes.get(at..at + HEAD) {
        let whole = HEAD + u32::from_le_bytes([a, b, c, d]) as usize;
        if matches!(kind, 4 | 8) {
            sum += whole as u64;
        }
        at += whole;
    }
    Ok(sum)
}

/// Small recordings: the cost of a value where few rows share a schema.
fn small(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let folder = std::env::temp_dir().join(format!("khz-bench-record-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
    let (mut all, mut of_schema) = (Vec::new(), Vec::new());
    let mut table = Table::new(&["turn", "rows", "values", "bytes", "bytes/value", "of it schema"]);
    for number in 0..record.effort.of(3, 1) {
        record.progress(&format!("turn {}", number + 1));
        let turn = play(&program, &folder, &SMALL, SMALL_SECONDS)?;
        let a_value = |bytes: u64| bytes as f64 / turn.values.max(1) as f64;
        let (bytes, schema) = (a_value(turn.bytes), a_value(turn.schema_bytes));
        for (what, value) in [
            ("rows", turn.rows as f64),
            ("values", turn.values as f64),
            ("bytes", turn.bytes as f64),
            ("schema_bytes", turn.schema_bytes as f64),
        ] {
            record.sample(["small", "1 x 1 x 300", "khz"], number, what, value);
        }
        table.row([
            (number + 1).to_string(),
            thousands(turn.rows as f64),
            thousands(turn.values as f64),
            thousands(turn.bytes as f64),
            figure(bytes),
            figure(schema),
        ]);
        all.push(bytes);
        of_schema.push(schema);
    }
    let _ = fs::remove_dir_all(&folder);
    record.show("## 12 s of one node at 1 Hz, 300 slots", &table);
    record.verdict("small recording: bytes a value on disk", Spread::of(all), Bound::Stated);
    record.verdict("small recording: of them the schema's", Spread::of(of_schema), Bound::Stated);
    Ok(())
}

fn keep(record: &mut Record, turns: &[Turn]) {
    let heads =
        ["turn", "rows", "rows/s", "missing", "MB", "bytes/value", "recorder CPU", "hub CPU", "RssAnon MB"];
    let mut table = Table::new(&heads);
    for (number, turn) in turns.iter().enumerate() {
        let a_value = turn.bytes as f64 / turn.values.max(1) as f64;
        let share = |cpu: f64| format!("{:.1} %", 100.0 * cpu / turn.seconds.max(1e-9));
        for (what, value) in [
            ("rows", turn.rows as f64),
            ("missing", turn.missing as f64),
            ("values", turn.values as f64),
            ("bytes", turn.bytes as f64),
            ("seconds", turn.seconds),
            ("recorder_cpu_seconds", turn.recorder_seconds),
            ("hub_cpu_seconds", turn.hub_seconds),
            ("recorder_anonymous_kb", turn.resident_kb),
        ] {
            record.sample(["record", "128 x 1000 x 100", "khz"], number, what, value);
        }
        table.row([
            (number + 1).to_string(),
            thousands(turn.rows as f64),
            thousands(turn.rows as f64 / turn.seconds.max(1e-9)),
            thousands(turn.missing as f64),
            figure(turn.bytes as f64 / 1e6),
            figure(a_value),
            share(turn.recorder_seconds),
            share(turn.hub_seconds),
            figure(turn.resident_kb / 1e3),
        ]);
    }
    record.show("## 128 nodes at 1,000 Hz, 100 slots each", &table);
    record.say(
        "Hub, simulation and recorder share the processors. Missing: rows that the numbering says there were and that\n\
         the file does not hold. CPU: share of one processor, over the time that the recording spans.\n",
    );
    let each = |of: &dyn Fn(&Turn) -> f64| Spread::of(turns.iter().map(of));
    record.verdict("record: rows missing", each(&|turn| turn.missing as f64), Bound::AtMost(0.0));
    let a_value = each(&|turn| turn.bytes as f64 / turn.values.max(1) as f64);
    record.verdict("record: bytes a value on disk", a_value, Bound::AtMost(1.0));
}
