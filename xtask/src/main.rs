//! The project's chores. `cargo xtask test` runs every test and installs the programs that tests need.

mod capture;
mod casts;
mod constants;
#[cfg(test)]
mod documents;
mod file_index;
mod java;
mod mutants;
mod needs;
mod older;
mod promises;
mod rerun;
mod skipped;
mod static_program;
mod step;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
The project's chores.

Usage: cargo xtask <COMMAND>

Commands:
  test [--slow]     checks format and lints, and runs every test. As root it installs the Debian packages that
                    tests need. --slow adds the long tests: hours instead of minutes
  bench SUITE [SECTION]
                    runs a benchmark, prints the results and keeps them under bench/runs/. `--help` lists the
                    sections, and how long each takes; `--quick` gives a first impression. The suites:
                      gather      gathering: the ladder, the table, other programs, the whole agent
                      collectors  the default set of sources, beside node_exporter
                      block       the block format, compared with texts, plain and compressed
                      hub         thousands of nodes, compared with plain TCP loops
                      store       history in fixed space
                      text        the text protocol, compared with rstatd
                      mount       a mounted value, compared with an empty FUSE file system
                      job         what the monitor costs a parallel job
                      record      a recording of 128 nodes at 1,000 Hz
                      rrd         .rrd files and their daemon, compared with librrd and rrdcached
  mutants [CRATE] [--sample N] [--seed S]
                    makes small changes in the code of the decisive crates (hub, link, model, block, ring, parse,
                    trust, rrdcached), one at a time, and lists those that no test notices. Each takes a
                    minute, so take a sample
  java              only the libraries for the JVM: builds and tests them. KHZ_PROGRAM names a khz for their tests;
                    without it khz is built
  promises          lists the stale figures of PROMISES.md (their code has changed since their run) and the
                    promises that are not kept; fails if a figure is stale
  promises run SECTION...
                    runs sections of the benchmark (`hub/nodes`, or `stale` for all stale ones), takes the figures
                    from their runs, and writes the tables of PROMISES.md
  promises write    writes these tables from bench/promises.toml and the runs under bench/runs/
  static            builds khz for musl: one file that needs no other file on a node, not even a C library.
                    Starts it in an empty directory to prove that
  reference [files] writes docs/configuration.md, docs/metrics.md, docs/rates.md and docs/http.md from the tables
                    in the code, and docs/files.md and docs/constants.md from the sources (`files`: only these two)
  screenshot        draws docs/screenshot.png from the running page
  moving-picture    draws docs/demo.webp from a running `khz demo`
  casts             records sessions in a terminal as docs/casts/NAME.cast, beside a running `khz demo` (three minutes)
  capture NAME      copies the kernel files that khz reads on this machine to fixtures/NAME, with ORIGIN
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::run(false),
        ["test", "--slow"] => test::run(true),
        ["bench", rest @ ..] => test::bench(rest),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["java"] => test::java(),
        ["promises"] => promises::check(),
        ["promises", "write"] => promises::write(),
        ["promises", "run", sections @ ..] if !sections.is_empty() => promises::run(sections),
        ["static"] => static_program::build(),
        ["reference", "files"] => file_index::write().and_then(|()| constants::write()),
        ["reference"] => {
            test::reference().and_then(|()| file_index::write()).and_then(|()| constants::write())
        }
        ["screenshot"] => test::screenshot(),
        ["moving-picture"] => test::moving_picture(),
        ["casts"] => casts::record(),
        ["capture", name] => capture::run(name),
        [] | ["help" | "-h" | "--help", ..] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("xtask: '{}' is not a chore\n\n{HELP}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}
