//! `khz` alone, the cluster of one: the gatherer's thread and the doors in one process, until Ctrl-C or
//! SIGTERM. It starts nothing before the plan is checked and the addresses are bound, and no thread of its own.

use crate::config::Plan;
use crate::job_socket::JobSocket;
use crate::outcome::Outcome;
use crate::own_link::OwnLink;
use crate::serve::{self, Behind, Doors};
use crate::{here, renew};

/// Watches until told to stop.
pub fn run(plan: &Plan) -> Outcome {
    let doors = Doors::closed().with_http(plan)?.with_text(plan)?;
    let jobs = JobSocket::open(plan);
    let mut agent = here::start(plan, doors.metrics(), jobs.as_ref().map(JobSocket::door))?;
    let link = OwnLink::open(plan, agent.shared_lanes())?;
    let runtime = serve::runtime()?;
    let query = agent.query();
    let ended = runtime.block_on(async {
        tokio::select! {
            outcome = serve::serve(plan, doors, query, Behind::Node) => Ok(outcome),
            end = agent.end() => Err(end),
        }
    });
    // A successor in this process finds its places free.
    drop((link, jobs));
    agent.stop();
    ended.unwrap_or_else(renew::after)
}
