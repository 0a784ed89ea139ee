//! `khz` alone, the cluster of one: the gatherer's thread and the doors in one process, until Ctrl-C or
//! SIGTERM. It starts nothing before the plan is checked and the addresses are bound, and no thread of its own.

use khz_gather::Lanes;

use crate::command::ring;
use crate::config::Plan;
use crate::role::here;
use crate::role::job_socket::JobSocket;
use crate::role::own_link::OwnLink;
use crate::role::renew;
use crate::role::serve::{self, Behind, Doors};
use crate::show::outcome::Outcome;

/// Watches until told to stop.
pub fn run(plan: &Plan) -> Outcome {
    let doors = Doors::closed().with_http(plan)?.with_text(plan)?;
    let jobs = JobSocket::open(plan);
    let mut agent = here::start(plan, doors.metrics(), jobs.as_ref().map(JobSocket::door))?;
    let link = OwnLink::bind(plan);
    let runtime = serve::runtime()?;
    let (query, lanes) = (agent.query(), agent.shared_lanes());
    let ended = runtime.block_on(async {
        tokio::select! {
            outcome = serve::serve(plan, doors, query, Behind::Node) => Ok(outcome),
            end = agent.end() => Err(end),
            () = serve_link(link.as_ref(), plan, &lanes) => unreachable!("BUG: the link's door never ends"),
        }
    });
    // A successor in this process finds its places free.
    drop((link, jobs));
    agent.stop();
    match ended {
        Ok(outcome) => {
            ring::leave_nothing(plan);
            outcome
        }
        Err(ending) => renew::after(ending),
    }
}

/// Serves readers of the link, where there is a place for them; never ends.
async fn serve_link(link: Option<&OwnLink>, plan: &Plan, lanes: &Lanes) {
    match link {
        Some(link) => link.serve(plan, lanes).await,
        None => std::future::pending().await,
    }
}
