//! Page-ins by memory, three times: measured with real files on this disk in a memory cgroup, simulated (`khz rrd simulate`), and
//! planned (`khz rrd plan`), each told how much memory there is and nothing else.

use std::process::Command;

use serde_json::Value;

use super::cgroup::Group;
use super::pipe::Pipe;
use super::rounds::set_back;
use super::tree::{START, STEP, Shape, sample};
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::plot::{Line, Plot, Scale};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Pages of a file that the memory has room for, about; the kernel's records of the file come in addition.
const PAGES: [f64; 6] = [4.0, 5.0, 6.0, 7.0, 8.0, 10.0];

/// Bytes of the kernel's records of a file (inode, name, tree of pages), and of a page with its own record.
const ASIDE: f64 = 2_200.0;
const PAGE: f64 = 4_200.0;

/// What the program itself takes of the group's memory.
const OWN: f64 = 3e6;

/// How far the simulation may be from what is measured (page-ins of an update), at any size: a twentieth of a page.
const APART_MAX: f64 = 0.05;

/// Page-ins of an update by one size of memory.
struct Point {
    pages: f64,
    measured: f64,
    linux: f64,
    lru: f64,
    planned: f64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let files = record.effort.of(2_000, 200);
    let hours = record.effort.of((8, 24), (1, 2));
    let mut points = Vec::new();
    for pages in record.effort.of(&PAGES[..], &PAGES[2..4]) {
        let memory = files as f64 * (ASIDE + pages * PAGE);
        record.progress(&format!("{pages} pages a file: measured"));
        let measured = measured(record, files, (memory + OWN) as u64, hours)?;
        record.progress(&format!("{pages} pages a file: simulated and planned"));
        let [linux, lru] = simulated(files, memory as u64, hours)?;
        let planned = planned(files, memory as u64)?;
        for (who, value) in [("measured", measured), ("Linux", linux), ("LRU", lru), ("plan", planned)] {
            record.sample(["pages", &format!("{pages} pages"), who], 0, "page-ins an update", value);
        }
        points.push(Point { pages: *pages, measured, linux, lru, planned });
    }
    show(record, files, hours, &points)
}

/// Updates real files round by round through our engine, all pages of which belong to a group with so much memory. Returns the page-ins
/// of an update in the hours that count.
fn measured(
    record: &Record,
    files: usize,
    memory: u64,
    (warm, counted): (i64, i64),
) -> Result<f64, BenchError> {
    let tree = set_back(record, files, Shape::MRTG)?;
    let group = Group::limited(memory)?;
    let mut words = group.wrapper();
    words.extend([build_agent()?.into_os_string(), "rrd".into(), "-".into()]);
    let mut pipe = Pipe::start(&words)?;
    let paths = tree.paths();
    let (warm, all) = (warm * 3_600 / STEP, (warm + counted) * 3_600 / STEP);
    let mut before = 0;
    for round in 1..=all {
        let sample = sample(START + round * STEP);
        paths.iter().try_for_each(|path| pipe.update(path, &sample))?;
        // What was changed has gone to the disk before the next five minutes.
        rustix::fs::sync();
        if round == warm {
            before = pipe.bytes_read()?;
        }
        record.progress(&format!("round {round} of {all}"));
    }
    let read = (pipe.bytes_read()? - before) as f64 / 4_096.0;
    Ok(read / (files as i64 * (all - warm)) as f64)
}

/// Page-ins of an update with advice: with Linux's lists, and with LRU.
fn simulated(files: usize, memory: u64, (warm, counted): (i64, i64)) -> Result<[f64; 2], BenchError> {
    let arguments = [
        "simulate".to_owned(),
        format!("--files={files}"),
        format!("--memory={memory}"),
        format!("--warm={warm}"),
        format!("--hours={counted}"),
    ];
    let answer = answer(&arguments)?;
    let of = |model: &str| {
        let runs = answer["runs"].as_array().into_iter().flatten();
        let mut with_advice = runs.filter(|run| run["model"] == model && run["advice"] == true);
        with_advice.next().and_then(|run| run["page_ins_an_update"].as_f64())
    };
    of("linux").zip(of("lru")).map(|(linux, lru)| [linux, lru]).ok_or_else(|| unexpected("simulate", &answer))
}

/// Page-ins of an update as the model has them, over a whole day.
fn planned(files: usize, memory: u64) -> Result<f64, BenchError> {
    let arguments = [
        "plan".to_owned(),
        "--layout=mrtg".to_owned(),
        format!("--files={files}"),
        format!("--memory={memory}"),
    ];
    let answer = answer(&arguments)?;
    let mean = answer["page_ins"]["mean"].as_f64().ok_or_else(|| unexpected("plan", &answer))?;
    Ok(mean * STEP as f64 / files as f64)
}

/// What a command of `khz rrd` answers as JSON.
fn answer(arguments: &[String]) -> Result<Value, BenchError> {
    let mut command = Command::new(build_agent()?);
    command.arg("rrd").args(arguments).arg("--json");
    let output = command.output().map_err(|error| failed("khz rrd", error))?;
    if !output.status.success() {
        return Err(failed(format!("{command:?}"), String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(format!("{command:?}"), error))
}

fn unexpected(command: &str, answer: &Value) -> BenchError {
    BenchError::Reply(format!("khz rrd {command}: {answer}"))
}

fn show(record: &mut Record, files: usize, hours: (i64, i64), points: &[Point]) -> Result<(), BenchError> {
    let heads = ["pages a file", "measured", "simulated, Linux", "simulated, LRU", "planned"];
    let mut table = Table::new(&heads);
    for one in points {
        table.row([
            one.pages.to_string(),
            figure(one.measured),
            figure(one.linux),
            figure(one.lru),
            figure(one.planned),
        ]);
    }
    let title = format!("page-ins of an update, {files} files of 95 kB by their memory");
    record.show(&format!("## {title}"), &table);
    record.say(&format!(
        "Measured: {} hours of updates through our engine, after {} that do not count, in a memory cgroup. Simulated and\n\
         planned: told the memory and nothing else; the plan is of a whole day.\n",
        hours.1, hours.0
    ));
    let apart = points.iter().map(|one| (one.linux - one.measured).abs()).reduce(f64::max);
    let spread = Spread::of(apart);
    record.verdict("simulated as Linux: furthest from what is measured", spread, Bound::AtMost(APART_MAX));
    let planned = points.iter().map(|one| (one.planned - one.measured).abs()).reduce(f64::max);
    record.verdict("planned: furthest from what is measured", Spread::of(planned), Bound::Stated);
    let line = |name: &str, of: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        values: points.iter().map(of).collect(),
    };
    let lines = [
        line("measured", |one| one.measured),
        line("simulated, Linux", |one| one.linux),
        line("simulated, LRU", |one| one.lru),
        line("planned", |one| one.planned),
    ];
    let plot = Plot {
        title: &title,
        axis: "pages read from the disk for an update",
        below: "pages of memory a file",
        scale: Scale::Even,
        labels: points.iter().map(|one| one.pages.to_string()).collect(),
        lines: &lines,
    };
    record.store("pages.svg", &plot.svg())
}
