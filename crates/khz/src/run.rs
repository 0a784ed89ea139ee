//! `khz` alone, the cluster of one: the gatherer's thread and its doors in one process, until Ctrl-C or
//! SIGTERM. It starts nothing before the plan is checked and the address is bound, and no thread of its own.

use khz_http::Counters;

use crate::config::Plan;
use crate::here;
use crate::outcome::{Failure, Outcome};
use crate::own_link::OwnLink;
use crate::serve::{self, Behind};

/// Watches until told to stop.
pub fn run(plan: &Plan) -> Outcome {
    let sockets = serve::bind(plan)?;
    let counters = Counters::default();
    let mut agent = here::start(plan, counters.metrics())?;
    let _link = OwnLink::open(plan, agent.shared_lanes())?;
    let runtime = serve::runtime()?;
    let query = agent.query();
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = serve::serve(plan, sockets, query, counters, Behind::Node) => outcome,
            () = agent.ended() => Err(Failure::work("the gatherer has ended unexpectedly; what it printed above says why")),
        }
    });
    agent.stop();
    outcome
}
