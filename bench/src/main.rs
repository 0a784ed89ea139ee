//! `khz-bench`: compares every claim of speed with its reference, interleaved in one run, and keeps the raw
//! samples. Each section has its own file; this one only lists them.

mod agent;
mod attack;
mod block;
mod channels;
mod churn;
mod collectors;
mod columns;
mod error;
mod five;
mod handlers;
mod hot;
mod http;
mod hub;
mod instructions;
mod java;
mod job;
mod jobs;
mod ladder;
mod load;
mod machine;
mod mount;
mod ours;
mod paced;
mod pairs;
mod peers;
mod place;
mod plot;
mod program;
mod progress;
mod query;
mod record;
mod recording;
mod rrd;
mod rules;
mod scale;
mod section;
mod sink;
mod spread;
mod store;
mod synth;
mod table;
mod text;
mod trace;
mod watched;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use error::BenchError;
use record::{Effort, Record};
use section::{Section, Suite};

/// The help: suites and sections, each section with its time.
fn usage() -> String {
    let mut text = String::from(
        "\
usage: khz-bench SUITE [SECTION...] [--quick]
       khz-bench trace idle|compile|netcopy|mempressure FILE
       khz-bench columns RECORDING FOLDER

Suites and their sections (all of them when none is named), each with the time that it takes in full and with --quick:

",
    );
    for suite in SUITES {
        text.push_str(&suite.help());
        text.push('\n');
    }
    text.push_str(
        "  --quick  few pairs and short batches: a first impression, not a claim

`trace` runs a workload and records what the agent gathers, 60 s at 100 Hz, as a trace (docs/block.md).
`columns` writes a recording as history (docs/store.md) into an empty folder, and prints bytes and CPU time a value.

Call it as `cargo xtask bench SUITE`: that builds this program and the khz that is measured once, both optimised (five
minutes on two processors, seconds afterwards). Runs are kept under bench/runs/DATE-NAME/ (with the section's name when
it is only one). For a claim, use a machine that does nothing else. Exit codes: 0 done, 1 failed at work, 2 wrong usage.",
    );
    text
}

static GATHER: Suite = Suite {
    name: "gather",
    about: "one node without a hub",
    sections: &[
        Section {
            name: "ladder",
            seconds: (30, 5),
            about: "the paper's four ways to read /proc/meminfo, then ours",
            run: ladder::run,
        },
        Section {
            name: "table",
            seconds: (120, 45),
            about: "load, parse and total of the five classic files, hot and with instruction counts",
            run: hot::run,
        },
        Section {
            name: "paced",
            seconds: (80, 20),
            about: "the same at 1,000 Hz while the machine is busy",
            run: paced::run,
        },
        Section { name: "peers", seconds: (40, 10), about: "the crates procfs and sysinfo", run: peers::run },
        Section {
            name: "agent",
            seconds: (720, 220),
            about: "the whole agent beside a bare C loop, at 1, 10, 100 and 1,000 Hz; plain khz",
            run: agent::run,
        },
        Section {
            name: "attack",
            seconds: (300, 100),
            about: "the agent at 1,000 Hz with 10,000 idle connections and with streams that nobody reads;\na hub of 1,500 nodes with 100 clients that read slowly",
            run: attack::run,
        },
        Section {
            name: "scale",
            seconds: (45, 10),
            about: "parse cost on hosts of 2 to 256 CPUs and up to 1,000 interfaces",
            run: scale::run,
        },
        Section {
            name: "churn",
            seconds: (920, 100),
            about: "an agent whose interfaces come and go at 10,000 an hour, beside one whose interfaces stay",
            run: churn::run,
        },
    ],
};

static BLOCK: Suite = Suite {
    name: "block",
    about: "the format of rows",
    sections: &[Section {
        name: "forms",
        seconds: (360, 70),
        about: "beside texts, plain and compressed, on the workloads of fixtures/workloads",
        run: block::run,
    }],
};

static SUITES: [&Suite; 16] = [
    &GATHER,
    &collectors::SUITE,
    &java::SUITE,
    &BLOCK,
    &recording::SUITE,
    &hub::SUITE,
    &store::SUITE,
    &query::SUITE,
    &channels::SUITE,
    &rules::SUITE,
    &text::SUITE,
    &mount::SUITE,
    &job::SUITE,
    &jobs::SUITE,
    &handlers::SUITE,
    &rrd::SUITE,
];

fn main() -> ExitCode {
    // Parts of khz that run in this process have its settings of memory.
    khz_door::heap::settle();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["--help" | "-h" | "help"] => {
            println!("{}", usage());
            Ok(())
        }
        // Helper processes of the benchmark.
        ["part", ref rest @ ..] => mount::part(rest).unwrap_or_else(|| hub::part(rest)),
        ["dictionary", traces, file] => block::write_dictionary(Path::new(traces), Path::new(file)),
        ["trace", workload, file] => trace::record(workload, &PathBuf::from(file)),
        ["columns", recording, folder] => columns::measure(Path::new(recording), Path::new(folder)),
        ["load", kind] => load::work(kind),
        ["range", ref rest @ ..] => store::ranges::part(rest),
        ["restart", folder, seconds] => store::restart::part(Path::new(folder), seconds),
        ["replay", frames, file, parses] => replay(frames, file, parses),
        [name, ref rest @ ..] => match SUITES.iter().find(|suite| suite.name == name) {
            Some(suite) => bench(suite, rest),
            None => Err(BenchError::Usage(format!("no suite called '{name}'\n\n{}", usage()))),
        },
        [] => Err(BenchError::Usage(usage())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("khz-bench: {error}");
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn bench(suite: &Suite, words: &[&str]) -> Result<(), BenchError> {
    let (flags, names): (Vec<&str>, Vec<&str>) = words.iter().copied().partition(|w| w.starts_with('-'));
    if flags.contains(&"--help") || flags.contains(&"-h") {
        print!("{}", suite.help());
        return Ok(());
    }
    if let Some(flag) = flags.iter().find(|&&flag| flag != "--quick") {
        return Err(BenchError::Usage(format!("no flag called '{flag}'\n\n{}", usage())));
    }
    let sections = suite.chosen(&names)?;
    let name = match names[..] {
        [one] => format!("{}-{one}", suite.name),
        _ => String::from(suite.name),
    };
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let mut record = Record::open(&runs, &name, Effort { quick: !flags.is_empty() })?;
    let of = sections.len();
    let mut run = || (1..).zip(&sections).try_for_each(|(number, section)| record.run(section, number, of));
    let result = run();
    if let Err(error) = &result {
        record.say(&format!("Ended early: {error}\n"));
    }
    record.close().and(result)
}

fn replay(frames: &str, file: &str, parses: &str) -> Result<(), BenchError> {
    let usage = |_| BenchError::Usage(String::from("replay FRAMES FILE N: two numbers"));
    instructions::replay(&PathBuf::from(frames), file.parse().map_err(usage)?, parses.parse().map_err(usage)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_section_with_its_times_and_fits_a_wide_screen() {
        let usage = usage();
        for suite in SUITES {
            for section in suite.sections {
                let (full, quick) = section.seconds;
                assert!(quick > 0 && quick <= full, "{} {}", suite.name, section.name);
                let times = format!("{}, {:>6}", section::in_words(full), section::in_words(quick));
                assert!(
                    usage
                        .lines()
                        .any(|line| line.trim_start().starts_with(section.name) && line.contains(&times))
                );
            }
        }
        for line in usage.lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
    }
}
