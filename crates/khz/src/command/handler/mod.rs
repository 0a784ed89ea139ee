//! `khz handler`: programs for nodes. On the desk of their author it says what is wrong with one, and what it does with a recording;
//! `nodes.rs` sends them to nodes.

mod nodes;
mod trial;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use khz_program::limits::MODULE_BYTES_MAX;
use khz_program::{Instance, Limits, Program};

use self::nodes::{ListFlags, PushFlags, RemoveFlags};
use self::trial::{Trial, written};
use crate::command::recording::{self, Chosen};
use crate::config::NodeFlags;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::remark;

const CHECK_EXAMPLES: &str = "\
Examples:
  khz handler check mean.wasm       its hash, and how large it is

Exit codes: 0 it is a program for khz, 1 it is none: stderr says why.";

const TEST_EXAMPLES: &str = "\
Examples:
  khz handler header > khz.h
  clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o mean.wasm mean.c
  khz record 'node1:*' --rate 100Hz --for 1m -o run.khzt
  khz handler test mean.wasm --on run.khzt -m 'disk.io_time[*]'
  khz handler test mean.wasm --on run.khzt -m 'node1:load.*' --json

Each lane of each node gets a program with a memory of its own. stderr has
what it says, and what its rows took. docs/handlers.md is for authors.

Exit codes: 0 done, 1 the program is refused or has failed, 2 wrong usage,
3 a pattern selects nothing.";

const HEADER_EXAMPLES: &str = "\
Examples:
  khz handler header > khz.h

docs/handlers.md and examples/handlers have programs that include it.";

/// The file that programs in C include.
const HEADER: &str = include_str!("../../../../../examples/handlers/khz.h");

/// `khz handler`.
#[derive(Debug, Subcommand)]
pub enum HandlerCommand {
    /// Say whether a WebAssembly module is a program for nodes, and its hash.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckFlags),
    /// Execute a program over the rows of a recording, and print the rows that come out.
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestFlags),
    /// Send a program to nodes: they execute it on the rows of a channel.
    #[command(after_help = nodes::PUSH_EXAMPLES)]
    Push(PushFlags),
    /// List the programs of a hub: on which nodes they run, what they take there, what is wrong with them.
    #[command(after_help = nodes::LIST_EXAMPLES)]
    List(ListFlags),
    /// Remove a program, and the channel that it is in.
    #[command(after_help = nodes::RM_EXAMPLES)]
    Rm(RemoveFlags),
    /// Print khz.h, which programs in C include.
    #[command(after_help = HEADER_EXAMPLES)]
    Header,
}

/// `khz handler check`.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// The module.
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
}

/// `khz handler test`.
#[derive(Debug, Args)]
pub struct TestFlags {
    /// The module.
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The recording: one file, or those of a rotation in their order.
    #[arg(long, value_name = "FILE.khzt", required = true, num_args = 1..)]
    pub on: Vec<PathBuf>,
    /// Only these series: [NODES:]METRIC[INSTANCE]; may be given several times.
    #[arg(short = 'm', long = "match", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only from this time after the first row on: 5s.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Only to this time after the first row: 20s.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// One JSON object a row.
    #[arg(long)]
    pub json: bool,
}

/// Runs one of them.
pub fn run(command: HandlerCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match command {
        HandlerCommand::Check(flags) => check(&flags, out),
        HandlerCommand::Test(flags) => test(flags, out),
        HandlerCommand::Push(flags) => nodes::push(flags, outer, out),
        HandlerCommand::List(flags) => nodes::list(flags, outer, out),
        HandlerCommand::Rm(flags) => nodes::remove(flags, outer, out),
        HandlerCommand::Header => {
            out.write_all(HEADER.as_bytes())?;
            out.flush()?;
            Ok(Done::Wholly)
        }
    }
}

/// A program from a file.
fn program(file: &Path) -> Result<Program, Failure> {
    let failed = |problem: String| Failure::work(format!("{}: {problem}", file.display()));
    Program::new(&module(file)?).map_err(|error| failed(error.to_string()))
}

/// The bytes of such a file.
fn module(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |problem: String| Failure::work(format!("{}: {problem}", file.display()));
    let about = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?;
    if !about.is_file() {
        return Err(failed("this is no file".to_owned()));
    }
    if about.len() > MODULE_BYTES_MAX as u64 {
        return Err(failed(format!(
            "it has {} bytes; a program has {MODULE_BYTES_MAX} at most",
            about.len()
        )));
    }
    std::fs::read(file).map_err(|error| failed(error.to_string()))
}

fn check(flags: &CheckFlags, out: &mut impl Write) -> Outcome {
    let program = program(&flags.file)?;
    let started = Instance::start(&program, Limits::default());
    let instance = started.map_err(|error| Failure::work(format!("{}: {error}", flags.file.display())))?;
    writeln!(out, "hash    {}", program.hash())?;
    writeln!(out, "module  {} bytes", program.bytes())?;
    writeln!(out, "memory  {} bytes at the start", instance.spent().memory_bytes)?;
    out.flush()?;
    Ok(Done::Wholly)
}

fn test(flags: TestFlags, out: &mut impl Write) -> Outcome {
    let program = program(&flags.file)?;
    let (files, patterns) = (flags.on, flags.patterns);
    let opened = recording::open(&Chosen { files, patterns, from: flags.from, to: flags.to })?;
    let mut trial = Trial::new(&program, &opened);
    let mut failed: Option<std::io::Error> = None;
    let read = opened.recording.read(|event| {
        let print = |row: &trial::Out<'_>| {
            if failed.is_none() {
                failed = written(row, flags.json, out).err();
            }
        };
        trial.take(event, print);
    });
    read.map_err(recording::of_error)?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    out.flush()?;
    trial.summary().iter().for_each(|line| remark!("{line}"));
    match trial.problem() {
        Some(problem) => Err(Failure::work(problem)),
        None => opened.end(),
    }
}
