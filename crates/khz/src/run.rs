//! `khz` alone, the cluster of one: the gatherer's thread and the HTTP door in one process, until Ctrl-C or
//! SIGTERM. It starts nothing before the plan is checked and the address is bound, and no thread of its own.

use khz_http::Counters;

use crate::config::Plan;
use crate::outcome::Outcome;
use crate::serve::{self, Behind};
use crate::{here, renew};

/// Watches until told to stop.
pub fn run(plan: &Plan) -> Outcome {
    let sockets = serve::bind(plan)?;
    let counters = Counters::default();
    let mut agent = here::start(plan, counters.metrics())?;
    let runtime = serve::runtime()?;
    let query = agent.query();
    let ended = runtime.block_on(async {
        tokio::select! {
            outcome = serve::serve(plan, sockets, query, counters, Behind::Node) => Ok(outcome),
            end = agent.end() => Err(end),
        }
    });
    agent.stop();
    ended.unwrap_or_else(renew::after)
}
