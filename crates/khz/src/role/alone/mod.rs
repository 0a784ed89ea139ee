//! `khz` alone, a cluster of one node: gathers and serves in one process, until Ctrl-C or SIGTERM, or
//! until its terminal is closed. Only the gatherer has a
//! thread of its own.

pub mod link;

use std::sync::Arc;

use khz_channel::Registry;
use khz_gather::Lanes;
use khz_ring::{Folder, RingError};
use rustix::io::Errno;

use self::link::{Open, OwnLink};
use crate::config::{Plan, places};
use crate::role::doors::{self, Daemon, Doors};
use crate::role::gatherer;
use crate::role::job_socket::JobSocket;
use crate::role::remote_write::RemoteWriters;
use crate::role::restart;
use crate::role::signals;
use crate::role::store::RunningStore;
use crate::show::outcome::{Done, Outcome, sentence};

/// Gathers and serves until a signal ends it.
pub fn run(plan: &Plan) -> Outcome {
    khz_door::descriptors::raise_limit();
    let channels = Arc::new(Registry::in_memory());
    channels.has_ceiling(plan.rate_max);
    let doors = Doors::closed().with_http(plan)?.with_text(plan)?.with_channels(Arc::clone(&channels));
    let store = RunningStore::of_node(plan)?;
    let jobs = JobSocket::open(plan);
    let stored = store.as_ref().map(RunningStore::metrics).unwrap_or_default();
    let mut writers = RemoteWriters::new(&plan.remote_write);
    let counts =
        gatherer::single(doors.metrics().into_iter().chain(stored)).chain(writers.counts()).collect();
    let mut agent = gatherer::start(plan, counts, jobs.as_ref().map(JobSocket::door))?;
    let link = OwnLink::bind(plan, channels);
    let runtime = signals::runtime()?;
    let (query, lanes) = (agent.query(), agent.shared_lanes());
    let stored = match store {
        Some(store) => Some((Open::new(plan, link.as_ref(), lanes.clone(), Some(&store))?, store)),
        None => None,
    };
    if let Some((hub, store)) = &stored {
        agent.remember(store.past(hub.cluster()));
        writers.start(store.folder(), &store.followed(hub.cluster()), |_| false)?;
    }
    // A hub that stores serves readers of the link too.
    let unserved = link.as_ref().filter(|_| stored.is_none());
    let ended = runtime.block_on(async {
        tokio::select! {
            outcome = doors::serve(plan, doors, query, Daemon::Alone) => Ok(outcome),
            end = agent.end() => Err(end),
            // Its terminal was closed.
            () = signals::hangup() => Ok(Ok(Done::Wholly)),
            () = serve_link(unserved, plan, &lanes) => unreachable!("BUG: the link's door never ends"),
        }
    });
    drop(writers);
    if let Some((hub, store)) = stored {
        let cluster = hub.end();
        store.end();
        drop(cluster);
    }
    // A restart in this process needs the same sockets.
    drop((link, jobs));
    agent.stop();
    match ended {
        Ok(outcome) => {
            remove_rings(plan);
            outcome
        }
        Err(ending) => restart::after(ending),
    }
}

/// Serves readers of the link, where its socket is bound. Never ends.
async fn serve_link(link: Option<&OwnLink>, plan: &Plan, lanes: &Lanes) {
    match link {
        Some(link) => link.serve(plan, lanes).await,
        None => std::future::pending().await,
    }
}

/// After a clean end nothing of `khz` alone stays in shared memory, unless `keep_rings` is set. Rings that an agent recorded there
/// before belong to the agent, and stay.
fn remove_rings(plan: &Plan) {
    let Some(folder) = places::rings_of(&plan.ring_dir, &plan.node) else { return };
    if plan.keep_rings {
        return;
    }
    let node = &plan.node;
    let removed = Folder::lock_own(&folder).and_then(|locked| match locked.is_kept()? {
        true => Ok(false),
        false => locked.remove(places::may_remove_ring_dir(&plan.ring_dir)),
    });
    match removed {
        // A folder that could not be used has nothing of ours.
        Ok(true) | Err(RingError::File { source: Errno::NOENT, .. } | RingError::Unsafe { .. }) => {}
        Ok(false) => {
            let shown = folder.display();
            tracing::info!("{shown} stays: an agent has recorded there too; `khz ring rm {node}` removes it");
        }
        Err(error) => tracing::warn!("the rings stay: {}", sentence(&error)),
    }
}
