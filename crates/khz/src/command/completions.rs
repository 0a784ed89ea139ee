//! `khz completions`: completions for a shell, made from the same definitions as the flags.

use std::io::Write;

use clap::Args;

use crate::show::outcome::{Done, Outcome};

/// Examples for `khz completions --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz completions bash > /etc/bash_completion.d/khz
  khz completions zsh > \"${fpath[1]}/_khz\"
  khz completions fish > ~/.config/fish/completions/khz.fish";

/// `khz completions`.
#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Prints the completions for one shell. `program` is the whole command line.
pub fn run(flags: &CompletionsFlags, mut program: clap::Command, out: &mut impl Write) -> Outcome {
    // clap_complete panics on a write that fails; a buffer cannot fail.
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut program, "khz", &mut script);
    out.write_all(&script)?;
    Ok(Done::Wholly)
}
