//! `khz rrd`, `khz cache` and `khz rrdcached`, and this program under the names `rrdtool` and `rrdcached`. The words are
//! passed unchanged to the crates `rrd` and `rrdcached`, which take the syntax of those programs.

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
  khz rrd doctor /var/lib/munin     what this machine does to the speed of these
                                    files";

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
    match khz_rrd::cli::run(&khz_rrd::text::words(words), &[khz_rrdcached::COMMAND]) {
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
    Some(ExitCode::from(u8::try_from(khz_rrd::cli::run(&words, &[khz_rrdcached::COMMAND])).unwrap_or(1)))
}
