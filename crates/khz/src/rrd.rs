//! `khz rrd`, `khz cache` and `khz rrdcached`, and this binary under the names `rrdtool` and `rrdcached`: the
//! words go to crate `rrd` as they are, because its commands take rrdtool's own syntax.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::outcome::{Done, Failure, Outcome};

/// Words that are passed on.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Words {
    /// Command and arguments, in rrdtool's own syntax.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// Runs `words` behind `before`.
pub fn run(before: &[&str], words: &Words) -> Outcome {
    let words: Vec<String> =
        before.iter().map(|&w| w.to_owned()).chain(words.words.iter().cloned()).collect();
    match khz_rrd::cli::run(&words) {
        0 => Ok(Done::Wholly),
        _ => Err(Failure::Told),
    }
}

/// Started under another tool's name, the program is that tool.
pub fn under_another_name() -> Option<ExitCode> {
    let mut words = std::env::args();
    let name = words.next()?;
    let before = match Path::new(&name).file_name()?.to_str()? {
        "rrdtool" => None,
        "rrdcached" => Some("rrdcached".to_owned()),
        _ => return None,
    };
    let words: Vec<String> = before.into_iter().chain(words).collect();
    Some(ExitCode::from(u8::try_from(khz_rrd::cli::run(&words)).unwrap_or(1)))
}
