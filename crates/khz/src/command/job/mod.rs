//! `khz job`: jobs of a batch system at a hub. They are started and ended by its prolog and epilog (`told.rs`), listed and shown
//! (`list.rs`), and watched (`top.rs`).

mod list;
mod slurm;
mod told;
mod top;

use std::io::Write;

use clap::Subcommand;

use crate::config::NodeFlags;
use crate::show::outcome::Outcome;

/// `khz job`.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Tell the hub that a job has started, on these nodes.
    ///
    /// Without a JOB it reads the variables that Slurm sets for prologs (SLURM_JOB_ID and so on). Then the exit code is 0 whatever
    /// happens, because Slurm would requeue the job or drain the node otherwise; stderr says what went wrong. The hub takes a start
    /// of a job that runs already as the same one.
    #[command(after_help = told::START_EXAMPLES)]
    Start(told::StartFlags),
    /// Tell the hub that a job has ended, and what came of it.
    ///
    /// Without a JOB it reads the variables that Slurm sets for epilogs, and the exit code is 0 whatever happens.
    #[command(after_help = told::END_EXAMPLES)]
    End(told::EndFlags),
    /// List jobs: whose they are, on which nodes, since when, and how they ended.
    #[command(after_help = list::LIST_EXAMPLES)]
    List(list::ListFlags),
    /// Show a job, with all its runs if it was requeued.
    #[command(after_help = list::SHOW_EXAMPLES)]
    Show(list::ShowFlags),
    /// Fill the terminal with the nodes of a job, as `khz top` does; of a job that has ended, as they were at its end.
    #[command(after_help = top::EXAMPLES)]
    Top(top::JobTopFlags),
}

/// Runs one of them.
pub fn run(command: JobCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match command {
        JobCommand::Start(flags) => told::start(flags, outer),
        JobCommand::End(flags) => told::end(flags, outer),
        JobCommand::List(flags) => list::list(flags, outer, out),
        JobCommand::Show(flags) => list::show(flags, outer, out),
        JobCommand::Top(flags) => top::run(flags, outer, out),
    }
}
