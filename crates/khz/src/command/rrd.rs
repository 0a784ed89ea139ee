//! `khz rrd`, `khz cache` and `khz rrdcached`, and this program under the names `rrdtool` and `rrdcached`. The words are
//! passed unchanged to the crates `rrd`, `rrdcached` and `rrd-graph`, which take the syntax of those programs, and `rrd-scale`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::show::outcome::{Done, Failure, Outcome};

/// Examples for `khz rrd --help`.
pub const RRD_EXAMPLES: &str = "\
Examples:
  khz rrd create load.rrd --step 5 DS:load:GAUGE:10:0:U RRA:AVERAGE:0.5:1:720
  khz rrd update load.rrd N:0.52
  khz rrd fetch load.rrd AVERAGE --start -60s
  khz rrd graph load.png --start -1h DEF:l=load.rrd:load:AVERAGE LINE1:l#00f:load
  khz rrd doctor /var/lib/munin     what this machine does to the speed of these
                                    files
  khz rrd plan --layout mrtg --files 300000 --memory 4G
                                    how many files a machine keeps up with
  khz rrd simulate --help           how much memory many files need";

/// Examples for `khz rrdcached --help`.
pub const RRDCACHED_EXAMPLES: &str = "\
Examples:
  khz rrdcached -l unix:/run/rrdcached.sock -j /var/lib/khz/log \\
          -b /var/lib/rrd -B";

/// Examples for `khz cache --help`.
pub const CACHE_EXAMPLES: &str = "\
Examples:
  khz cache show /var/lib/munin/*.rrd
  khz cache drop old.rrd            write it out, then evict it
  khz cache --summary /var/lib/rrd  histogram of resident pages per file";

/// The commands beside rrdtool's that other crates have.
const MORE: [khz_rrd::cli::Command; 6] = [
    khz_rrd_graph::COMMANDS[0],
    khz_rrd_graph::COMMANDS[1],
    khz_rrdcached::COMMAND,
    khz_rrd_scale::plan::COMMAND,
    khz_rrd_scale::plan::DOCTOR,
    khz_rrd_scale::simulate::COMMAND,
];

/// Words that are passed on.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Words {
    /// Command and arguments, in rrdtool's own syntax.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    pub words: Vec<OsString>,
}

/// Runs `before` followed by `words`.
pub fn run(before: &[&str], words: &Words) -> Outcome {
    let words = before.iter().map(OsString::from).chain(words.words.iter().cloned());
    // Names of files need not be UTF-8.
    match khz_rrd::cli::run(&khz_rrd::text::words(words), &MORE) {
        0 => Ok(Done::Wholly),
        _ => Err(Failure::Reported),
    }
}

/// Started under another tool's name, the program is that tool.
pub fn under_another_name() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let name = words.next()?;
    let before = match Path::new(&name).file_name()?.to_str()? {
        "rrdtool" => None,
        "rrdcached" => Some(OsString::from("rrdcached")),
        _ => return None,
    };
    let words = khz_rrd::text::words(before.into_iter().chain(words));
    Some(ExitCode::from(u8::try_from(khz_rrd::cli::run(&words, &MORE)).unwrap_or(1)))
}
