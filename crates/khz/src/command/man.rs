//! `khz man`: the man pages, made from the same definitions as the flags. None is kept in the repository, so none can be
//! out of date.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::show::outcome::{Done, Failure, Outcome};

/// Examples for `khz man --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz man /usr/local/share/man/man1
  khz man . && man ./khz.1";

/// `khz man`.
#[derive(Debug, Args)]
pub struct ManFlags {
    /// Where to write khz.1, khz-get.1 and the others; without it khz.1 goes to stdout.
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// Writes `khz.1`, `khz-get.1` and the others into the directory, or `khz.1` to `out`. `program` is the whole command line.
pub fn run(flags: &ManFlags, program: clap::Command, out: &mut impl Write) -> Outcome {
    match &flags.directory {
        None => clap_mangen::Man::new(program).render(out)?,
        Some(directory) => generate(program, directory).map_err(|error| {
            Failure::work(format!("cannot write man pages into {}: {error}", directory.display()))
        })?,
    }
    Ok(Done::Wholly)
}

fn generate(program: clap::Command, directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(program, directory)
}
