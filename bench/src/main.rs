//! `khz-bench`: every claim of speed beside its reference, interleaved in one run, with the raw samples kept.
//! The sections stand in files of their own; this one only chooses among them.

mod agent;
mod attack;
mod block;
mod error;
mod five;
mod hot;
mod http;
mod hub;
mod instructions;
mod job;
mod ladder;
mod load;
mod machine;
mod mount;
mod ours;
mod paced;
mod pairs;
mod peers;
mod place;
mod program;
mod record;
mod recording;
mod rrd;
mod scale;
mod spread;
mod synth;
mod table;
mod text;
mod trace;
mod watched;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use error::BenchError;
use record::{Effort, Record};

const USAGE: &str = "\
usage: khz-bench gather|hub|job|mount|rrd|text [SECTION...] [--quick]
       khz-bench block|record [--quick]
       khz-bench trace idle|compile|netcopy|mempressure FILE

Sections of gather (all of them when none is named):
  ladder   the paper's four ways to read /proc/meminfo, then ours
  table    load, parse and total of the five classic files, hot and with instruction counts
  paced    the same at 1,000 Hz while the machine is busy
  peers    the crates procfs and sysinfo
  agent    the whole agent beside a bare C loop, at 1, 10, 100 and 1,000 Hz
  attack   the agent at 1,000 Hz with 10,000 idle connections and with streams that nobody reads; a hub of 1,500
           nodes with 100 clients that read slowly
  scale    parse cost on hosts of 2 to 256 CPUs and up to 1,000 interfaces

Sections of rrd (needs Debian's rrdtool, rrdcached and librrd-dev; the files, 20 GB of them, stay in the build
directory for the next run):
  update    updates of warm files beside librrd, one core
  resident  pages a file holds after one update, with and without advice to the page cache
  accept    updates accepted by the daemon beside rrdcached, and its memory
  drain     the time until all that waits is written, beside rrdcached
  replay    a million updates in the log after kill -9: first answer, all there again
  rounds    200,000 files in 0.8 GiB of memory, two hours with a midnight in them (needs root, for a cgroup)

Sections of hub:
  nodes      4,096 nodes at 100 Hz and 128 at 1,000 Hz: CPU per row, memory, with and without TLS and readers
  bytes      bytes per value on the wire, at 100 Hz and 1 Hz
  latency    one node at 1,000 Hz, row by row, to a reader; beside two plain TCP hops
  fanout     one node at 100 Hz to 1,000 readers
  reconnect  4,096 nodes come back after their hub was killed and started again
  agent      an agent that sends every row to a hub, beside a bare C loop, at 1, 10, 100 and 1,000 Hz
  scrape     how evenly counters grow over scrapes, beside Debian's node_exporter (package prometheus-node-exporter)

Sections of mount (needs root and /dev/fuse):
  shm         a value out of shared memory, ns
  read        a mounted value, kept open and opened each time, beside an empty FUSE file system, /proc/meminfo and
              a daemon at a socket; the first read of each new value
  throughput  bytes a second, 64 B to 64 kB, beside memcpy
  change      from a published change to readers in two mounts, with 0, 1, 4, 16 CPU hogs, normal and raised class
  nodes       the mount's CPU with 64 nodes x 300 values x 10 Hz: unread, open, read

Sections of job (what the monitor takes from a job on both cores; needs root and /dev/fuse):
  1, 10, 100, 1000   rates in Hz

Sections of text:
  pull    statuses a second of 128 nodes, asked anew and from rows that are there
  merge   16 clients at 100 statuses a second each: requests that a node gets
  status  the whole status of 4,096 nodes, beside a bare loop that writes the same bytes
  rstat   one agent beside Debian's rpc.rstatd (package rstatd): time and CPU a request

  --quick  few pairs and short batches: a look, not a claim

`record` records 128 nodes at 1,000 Hz, 100 slots each, for 30 s: nothing lost, bytes a value on disk, CPU.
`block` holds the block format against texts, as they are and compressed, on the workloads of fixtures/workloads.
`trace` runs a workload and records what the agent gathers, 60 s at 100 Hz, as a trace (docs/block.md).

Runs are kept under bench/runs/DATE-NAME/ (with the section's name when it is only one). For a claim, use a
release build on a machine that does nothing else. Exit codes: 0 done, 1 failed at work, 2 wrong usage.";

/// A section: its name and what it does.
type Section = (&'static str, fn(&mut Record) -> Result<(), BenchError>);

const SECTIONS: [Section; 7] = [
    ("ladder", ladder::run),
    ("table", hot::run),
    ("paced", paced::run),
    ("peers", peers::run),
    ("agent", agent::run),
    ("attack", attack::run),
    ("scale", scale::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            Ok(())
        }
        ["gather", ref rest @ ..] => bench("gather", &SECTIONS, rest),
        ["rrd", ref rest @ ..] => bench("rrd", &rrd::SECTIONS, rest),
        ["hub", ref rest @ ..] => bench("hub", &hub::SECTIONS, rest),
        ["record"] => recorded("record", false, recording::run),
        ["record", "--quick"] => recorded("record", true, recording::run),
        ["text", ref rest @ ..] => bench("text", &text::SECTIONS, rest),
        ["mount", ref rest @ ..] => bench("mount", &mount::SECTIONS, rest),
        ["job", ref rest @ ..] => bench("job", &job::SECTIONS, rest),
        ["block"] => recorded("block", false, block::run),
        ["block", "--quick"] => recorded("block", true, block::run),
        // What the benchmark starts of itself.
        ["part", ref rest @ ..] => mount::part(rest).unwrap_or_else(|| hub::part(rest)),
        ["dictionary", traces, file] => block::write_dictionary(Path::new(traces), Path::new(file)),
        ["trace", workload, file] => trace::record(workload, &PathBuf::from(file)),
        ["load", kind] => load::work(kind),
        ["replay", frames, file, parses] => replay(frames, file, parses),
        _ => Err(BenchError::Usage(USAGE.to_owned())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("khz-bench: {error}");
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn bench(name: &str, known: &[Section], words: &[&str]) -> Result<(), BenchError> {
    let (flags, names): (Vec<&str>, Vec<&str>) = words.iter().copied().partition(|w| w.starts_with('-'));
    if let Some(flag) = flags.iter().find(|&&flag| flag != "--quick") {
        return Err(BenchError::Usage(format!("no flag called '{flag}'\n\n{USAGE}")));
    }
    let sections = chosen(known, &names)?;
    let name = match names[..] {
        [one] => format!("{name}-{one}"),
        _ => String::from(name),
    };
    recorded(&name, !flags.is_empty(), |record| sections.into_iter().try_for_each(|(_, run)| run(record)))
}

/// Runs something whose results are kept.
fn recorded(
    name: &str,
    quick: bool,
    run: impl FnOnce(&mut Record) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let mut record = Record::open(&runs, name, Effort { quick })?;
    let result = run(&mut record);
    if let Err(error) = &result {
        record.say(&format!("Ended early: {error}\n"));
    }
    record.close().and(result)
}

/// The named sections in our order; all when none is named.
fn chosen(sections: &[Section], names: &[&str]) -> Result<Vec<Section>, BenchError> {
    if let Some(name) = names.iter().find(|name| sections.iter().all(|(known, _)| known != *name)) {
        return Err(BenchError::Usage(format!("no section called '{name}'\n\n{USAGE}")));
    }
    Ok(sections.iter().copied().filter(|(name, _)| names.is_empty() || names.contains(name)).collect())
}

fn replay(frames: &str, file: &str, parses: &str) -> Result<(), BenchError> {
    let usage = |_| BenchError::Usage(String::from("replay FRAMES FILE N: two numbers"));
    instructions::replay(&PathBuf::from(frames), file.parse().map_err(usage)?, parses.parse().map_err(usage)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_run_in_our_order_and_unknown_ones_are_refused() {
        let names =
            |words: &[&str]| chosen(&SECTIONS, words).map(|s| s.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        assert_eq!(names(&["scale", "ladder"]).unwrap(), ["ladder", "scale"]);
        assert_eq!(names(&[]).unwrap().len(), SECTIONS.len());
        assert!(names(&["leader"]).unwrap_err().to_string().starts_with("no section called 'leader'"));
    }
}
