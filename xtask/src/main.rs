//! The project's chores. `cargo xtask test` runs every test and installs the programs that tests need.

mod capture;
#[cfg(test)]
mod documents;
mod mutants;
mod needs;
mod promises;
mod skipped;
mod static_program;
mod step;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
The project's chores.

Usage: cargo xtask <COMMAND>

Commands:
  test [--slow]     format, lints and every test; installs the Debian packages they need when run as root
                    (--slow adds the long tests: minutes instead of seconds)
  bench NAME ...    a benchmark: `gather` (the ladder, the table, the peers, the whole agent), `block` (the
                    format beside texts, plain and compressed, on recorded workloads), `record` (128 nodes at 1,000 Hz
                    into a file), `hub` (thousands of nodes, and plain TCP loops beside them), `text` (statuses by hand, beside rstatd), `mount`
                    (a mounted value, beside an empty FUSE file system), `job` (what the monitor takes from a job) or `rrd` (beside
                    librrd and rrdcached); results are printed and kept under bench/runs/. `bench gather --quick` gives a
                    first impression. `bench --help` says how long each section takes
  mutants [CRATE] [--sample N] [--seed S]
                    makes small changes, one at a time, in the code of the decisive crates (hub, link, model, block, ring, parse,
                    trust, rrd's daemon) and lists those that no test notices; a minute each, so take a sample
  promises          lists the stale figures of PROMISES.md (the code that they depend on has changed since their
                    run) and the promises that are not kept; fails if a figure is stale
  promises run SECTION...
                    runs sections of the benchmark (`hub/nodes`, or `stale` for all stale ones), takes the figures
                    from their runs, and writes the tables of PROMISES.md
  promises write    writes these tables from bench/promises.toml and the runs under bench/runs/
  static            builds khz for musl: one file that needs nothing on a node, not even a C library; started in
                    an empty directory to prove it
  reference         writes docs/configuration.md, docs/metrics.md and docs/http.md from the tables in the code
  screenshot        draws docs/screenshot.png from the running page
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
        ["promises"] => promises::check(),
        ["promises", "write"] => promises::write(),
        ["promises", "run", sections @ ..] if !sections.is_empty() => promises::run(sections),
        ["static"] => static_program::build(),
        ["reference"] => test::reference(),
        ["screenshot"] => test::screenshot(),
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
