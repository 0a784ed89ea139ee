//! `khz` without a command: watches this machine. The work is in `role/alone`.

use crate::config::NodeFlags;
use crate::role;
use crate::show::log;
use crate::show::outcome::Outcome;

/// Gathers and serves until somebody stops it.
pub fn run(settings: NodeFlags) -> Outcome {
    let (_, plan) = super::plan(settings)?;
    log::start(plan.log);
    role::alone::run(&plan)
}
