//! The child process that executes programs, at an agent in this process: from the wish for a program to its first row, and what the
//! child takes at 1, 10 and 100 Hz.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_gather::{Agent, Handlers, Plan};
use khz_model::{ChannelName, ChannelTerms, Interest, NodeName, Pattern, Rate, Subscription};
use khz_plan::{Handler, PackedProgram, Values};
use khz_program::ProgramHash;
use khz_sandbox::{ChildCommand, Sandbox, Settings};

use super::{START_MS_MAX, compiled};
use crate::error::BenchError;
use crate::program::{build_directory, failed};
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// What the child has taken so far.
struct Taken {
    /// Times that it went to sleep.
    sleeps: f64,
    cpu_us: f64,
    memory_kb: f64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let module = compiled()?;
    let starts = starts(record, &module)?;
    let mut table =
        Table::new(&["rate", "wake-ups a second", "CPU, us a second", "memory without files, kB"]);
    for hz in [1, 10, 100] {
        record.progress(&format!("at {hz} Hz"));
        let (agent, interest) = agent(&module, hz)?;
        let mut rows = follow(&agent, interest)?;
        first_row(&mut *rows)?;
        std::thread::sleep(Duration::from_secs(2));
        let child = child_of_this_process()?;
        let span = record.effort.of(20, 4);
        let before = taken(&child)?;
        for _ in 0..span {
            std::thread::sleep(Duration::from_secs(1));
            rows.poll();
        }
        let after = taken(&child)?;
        let span = span as f64;
        let (wakes, cpu) = ((after.sleeps - before.sleeps) / span, (after.cpu_us - before.cpu_us) / span);
        for (what, value) in
            [("wakes_a_second", wakes), ("cpu_us_a_second", cpu), ("memory_kb", after.memory_kb)]
        {
            record.sample(["child", &format!("{hz} Hz"), "child"], 0, what, value);
        }
        table.row([format!("{hz} Hz"), figure(wakes), figure(cpu), figure(after.memory_kb)]);
        drop((rows, agent));
    }
    record.show("## The child process, with the mean of all series of vmstat", &table);
    record.verdict(
        "from the wish for a program to its first row at 1,000 Hz: ms",
        starts,
        Bound::AtMost(START_MS_MAX),
    );
    Ok(())
}

/// Milliseconds until the first row is there: the process starts, confines itself, and compiles the module.
fn starts(record: &mut Record, module: &[u8]) -> Result<Option<Spread>, BenchError> {
    let mut times = Vec::new();
    for turn in 0..record.effort.of(20, 5) {
        record.progress(&format!("start {}", turn + 1));
        let (agent, interest) = agent(module, 1_000)?;
        let begin = Instant::now();
        let mut rows = follow(&agent, interest)?;
        first_row(&mut *rows)?;
        let took = begin.elapsed().as_secs_f64() * 1e3;
        record.sample(["child", "start", "child"], turn, "ms", took);
        times.push(took);
        drop((rows, agent));
    }
    Ok(Spread::of(times))
}

/// An agent that executes programs, and the wish for one.
fn agent(module: &[u8], hz: u64) -> Result<(Agent, Interest), BenchError> {
    let wrong = |error: &dyn ToString| failed("the agent", error.to_string());
    let child = ChildCommand {
        program: build_directory()?.join("release/khz"),
        words: vec!["execute-programs".into()],
    };
    let sandbox = Sandbox::new(Settings { child, allowed: None }).map_err(|error| wrong(&error))?;
    let mut plan = Plan::new("/", NodeName::new("n1").map_err(|error| wrong(&error))?);
    plan.sources.retain(|source| source.file.name == "vmstat");
    plan.handlers = Handlers::Programs;
    plan.programs = Some(Arc::new(sandbox));
    let agent = Agent::start(plan).map_err(|error| wrong(&error))?;
    let packed = khz_program::pack(module).map_err(|error| wrong(&error))?.into();
    let program = PackedProgram { hash: *ProgramHash::of(module).bytes(), packed };
    let handler = Handler { values: Values::Program(program), ..Handler::default() };
    let handler = handler.to_bytes().map_err(|error| wrong(&error))?.into();
    let name = ChannelName::new("mean").map_err(|error| wrong(&error))?;
    let patterns = vec![Pattern::new("vm.*").map_err(|error| wrong(&error))?];
    let rate = Rate::from_hz(hz).ok_or_else(|| failed("the agent", "a rate"))?;
    let interest = Interest {
        channel: Some(Arc::new(ChannelTerms { name, handler })),
        ..Interest::new(patterns, rate, true)
    };
    Ok((agent, interest))
}

fn follow(agent: &Agent, interest: Interest) -> Result<Box<dyn Subscription>, BenchError> {
    agent.query().subscribe(interest).map_err(|error| failed("the agent", error.to_string()))
}

fn first_row(rows: &mut dyn Subscription) -> Result<(), BenchError> {
    let begin = Instant::now();
    while rows.poll().is_empty() {
        if begin.elapsed() > Duration::from_secs(20) {
            let said: Vec<_> = rows.notices().into_iter().map(|notice| notice.text).collect();
            return Err(failed("the program", format!("no row came: {}", said.join("; "))));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// The process number of the child.
fn child_of_this_process() -> Result<String, BenchError> {
    let tasks = Path::new("/proc/self/task");
    let entries = std::fs::read_dir(tasks).map_err(BenchError::file(tasks))?;
    let children =
        entries.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let first =
        children.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).next();
    first.ok_or_else(|| failed("the child process", "it is not there"))
}

fn taken(child: &str) -> Result<Taken, BenchError> {
    let read = |name: &str| {
        let path = Path::new("/proc").join(child).join(name);
        std::fs::read_to_string(&path).map_err(BenchError::file(&path))
    };
    let (status, scheduled) = (read("status")?, read("schedstat")?);
    let number =
        |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let of = |name: &str| number(status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or(""));
    Ok(Taken {
        sleeps: of("voluntary_ctxt_switches:"),
        cpu_us: number(&scheduled) / 1e3,
        memory_kb: of("RssAnon:"),
    })
}
