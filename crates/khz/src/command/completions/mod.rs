//! `khz completions`: scripts with which a shell asks khz how a word goes on. `engine.rs` answers: flags come from the command
//! line's own definitions, metrics, nodes and instances from the running khz.

pub mod engine;
mod known;
mod series;
mod typed;

use std::io::Write;

use clap::Args;

use crate::show::outcome::{Done, Outcome};

/// Examples for `khz completions --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz completions bash > /etc/bash_completion.d/khz
  khz completions zsh > \"${fpath[1]}/_khz\"
  khz completions fish > ~/.config/fish/completions/khz.fish

The scripts for bash, zsh and fish ask khz at each Tab: names of metrics, nodes
and instances (khz get 'node7:net.rx_b...) are those of the running khz, or of
--server if the line has it. If it does not answer within 0.2 s, there are only
flags and metrics. The others know flags only.";

/// `khz completions`.
#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Prints the completions for one shell. `program` is the whole command line.
pub fn run(flags: &CompletionsFlags, mut program: clap::Command, out: &mut impl Write) -> Outcome {
    let script = match flags.shell {
        clap_complete::Shell::Bash => include_bytes!("scripts/khz.bash").to_vec(),
        clap_complete::Shell::Zsh => include_bytes!("scripts/khz.zsh").to_vec(),
        clap_complete::Shell::Fish => include_bytes!("scripts/khz.fish").to_vec(),
        shell => {
            // clap_complete panics on a write that fails; a buffer cannot fail.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut program, "khz", &mut script);
            script
        }
    };
    out.write_all(&script)?;
    Ok(Done::Wholly)
}
