//! The work of `khz hub`: collects from agents at the link door, and answers for all of them at the other doors.

pub mod judge;
mod kept;
pub mod recorder;
mod seen_jobs;
pub mod sink_recordings;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use khz_channel::Registry;
use khz_client::Access;
use khz_client::place::HUB_LINK_SOCKET;
use khz_http::JobDesk;
use khz_hub::{
    Cluster, HubQuery, LinkDoor, LinkServer, RosterKeeper, Settings, Source, TextAddress, TextSource,
};
use khz_model::{NodeName, Query};
use khz_rrdcached::recorder::Layout;
use khz_trust::{ClientCertificates, ClientFiles, ClusterKey, Protocol, TlsServer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::UnixStream;

use crate::config::Plan;
use crate::config::addresses::HubAddress;
use crate::config::rrd::Recording;
use crate::config::sinks::{Sink, SinkFiles};
use crate::role::actions::Actions;
use crate::role::black_box::BlackBox;
use crate::role::channels;
use crate::role::doors::{self, Daemon, Doors, Stage};
use crate::role::hub::judge::{Audience, Judge, RunningJudge};
use crate::role::hub::kept::StoredChannels;
use crate::role::hub::recorder::{HubRecorder, LostRows, Wanted};
use crate::role::hub::seen_jobs::SeenJobs;
use crate::role::hub::sink_recordings::SinkRecorder;
use crate::role::jobs;
use crate::role::local_socket;
use crate::role::notify;
use crate::role::remote_write::RemoteWriters;
use crate::role::signals;
use crate::role::state_dir;
use crate::role::store::{self, RunningStore};
use crate::show::outcome::{Done, Failure, Outcome, sentence};

/// Serves until a signal ends it.
pub fn run(plan: &Plan) -> Outcome {
    khz_door::descriptors::raise_limit();
    let doors = Doors::closed().with_http(plan)?.with_text(plan)?;
    serve(plan, doors, None)
}

/// The same for a demo, which ends when `end` is ready, too, and at a hangup: its terminal is gone.
pub fn run_demo(plan: &Plan, stage: Stage, end: impl Future<Output = ()>) -> Outcome {
    let end = async {
        tokio::select! {
            () = end => {}
            () = signals::hangup() => {}
        }
    };
    serve(plan, Doors::closed().with_stage(stage), Some(Box::pin(end)))
}

/// Serves until a signal ends it, or `end` is ready.
fn serve(plan: &Plan, doors: Doors, end: Option<Pin<Box<dyn Future<Output = ()> + '_>>>) -> Outcome {
    raise_descriptors();
    let judge = Judge::load(plan)?;
    let mut local = local_socket::bind(plan, HUB_LINK_SOCKET);
    let listener = local.as_mut().and_then(local_socket::listener);
    let run = local_socket::run_dir(plan)
        .map(|folder| (folder, listener.is_some().then(|| HUB_LINK_SOCKET.to_owned())));
    let link = LinkDoor { local: listener, run, ..link_door(plan)? };
    let settings = Settings { name: plan.node.to_string(), history: plan.history, rate_max: plan.rate_max };
    let cluster = Cluster::new(settings, identity()?);
    cluster.when_given_back(khz_door::heap::give_back);
    cluster.expect(&plan.expected);
    let _keeper = remember(plan, &cluster);
    let store = RunningStore::of_hub(plan)?;
    if let Some(store) = &store {
        store.serve(&cluster);
    }
    // This comes before readers: a hub without known channels would tell them that a channel does not exist.
    let registry = channels::open(plan);
    registry.has_sinks(plan.sinks.iter().map(|sink| sink.name.clone()).collect());
    registry.has_ceiling(plan.rate_max);
    warn_of_sinks(plan, &registry);
    channels::make_known(&registry, &cluster);
    let kept = keep_channels(plan, store.as_ref(), &registry, &cluster)?;
    // This comes before nodes: they have rows of a freeze that an earlier start has begun.
    let jobs = jobs::open(plan);
    let black_box = BlackBox::open(plan, &cluster, &jobs).map(Arc::new);
    let server =
        LinkServer::start(cluster.clone(), link).map_err(|error| Failure::usage(sentence(&error)))?;
    let sources = (follow_sources(plan, &cluster)?, ask_sources(plan, &cluster)?);
    let channels = Arc::clone(&registry);
    let doors = doors.with_channels(registry).with_origins({
        let cluster = Arc::clone(&cluster);
        Arc::new(move || cluster.origins())
    });
    let doors = match &judge {
        Some(judge) => doors.with_rules(judge.board()),
        None => doors,
    };
    let actions = Actions::open(plan)?;
    let doors = match &actions {
        Some(actions) => doors.with_actions(Arc::new(actions.clone())),
        None => doors,
    };
    let jobs_of_door = Arc::clone(&jobs);
    let (own_only, freezes_failed) = (plan.jobs.own_only, plan.jobs.freezes_failed);
    let doors = doors.with_jobs(JobDesk { jobs: jobs_of_door, own_only, freezes_failed });
    let doors = match &black_box {
        Some(black_box) => doors.with_black_box(black_box.clone()),
        None => doors,
    };
    let plan = Plan { link_listen: server.addresses().to_vec(), ..plan.clone() };
    let stored = store.as_ref().map_or_else(|| store::metrics_of_none(&plan), RunningStore::metrics);
    let mut writers = RemoteWriters::new(&plan.remote_write);
    if let Some(store) = &store {
        writers.start(store.folder(), &store.followed(&cluster), has_moved(&cluster))?;
    }
    let notifier = notify::open(&plan)?;
    let lost = LostRows::default();
    let is_rrd = |sink: &Sink| matches!(sink.files, SinkFiles::Rrd(_));
    let records = plan.rrd.is_some() || plan.sinks.iter().any(is_rrd);
    let recorded = records.then(|| lost.metrics()).into_iter().flatten();
    let judged = judge.as_ref().map(Judge::metrics).unwrap_or_default();
    let acted = actions.iter().flat_map(Actions::metrics);
    let frozen = black_box.iter().flat_map(|black_box| black_box.metrics());
    let stored = stored.into_iter().chain(recorded).chain(judged).chain(acted);
    let stored = stored.chain(jobs::metrics(&jobs)).chain(frozen);
    let stored = stored.chain([state_dir::renewed()]).collect();
    let query = HubQuery::new(cluster.clone()).telling(doors.metrics()).telling(stored);
    let query = query.telling_each(writers.counts());
    let query = query.telling_each(notifier.as_ref().map(notify::counts).unwrap_or_default());
    let query = query.telling_each(actions.as_ref().map(Actions::counts).unwrap_or_default());
    let query: Arc<dyn Query> = Arc::new(match &store {
        Some(store) => query.remembering(store.past(&cluster)),
        None => query,
    });
    if let Some(actions) = &actions {
        actions.ask_nodes_with(&query);
        black_box.iter().for_each(|black_box| actions.freeze_with(black_box));
    }
    let seen = plan.jobs.discover.then(|| SeenJobs::start(jobs, query.clone())).transpose()?;
    let recorders = start_recorders(&plan, &channels, &query, &lost)?;
    let recordings = start_recordings(&plan, &channels)?;
    let audience = Audience { notifier, actions };
    let judge = judge.map(|judge| judge.start(query.clone(), &cluster, audience)).transpose()?;
    let outcome = signals::runtime()?.block_on(async {
        tokio::select! {
            outcome = doors::serve(&plan, doors, query, Daemon::Hub) => outcome,
            () = reload_or_end(judge.as_ref(), end) => Ok(Done::Wholly),
            () = ended(&server) => Err(Failure::work("the link door has ended unexpectedly; what it printed above says why")),
        }
    });
    // These end while the hub still sends them the received rows.
    drop((recordings, recorders));
    // Nothing comes any more.
    drop((judge, server, sources, writers, kept, seen, black_box));
    if let Some(store) = store {
        store.end();
    }
    outcome
}

/// Logs which channels name sinks that are not in the configuration any more.
fn warn_of_sinks(plan: &Plan, registry: &Registry) {
    for kept in registry.list() {
        let is_known = |name: &&String| plan.sinks.iter().any(|sink| sink.name == **name);
        for name in kept.definition.to.iter().filter(|name| !is_known(name)) {
            tracing::warn!(
                "channel {}: there is no sink '{name}' in the configuration",
                kept.definition.name
            );
        }
    }
}

/// Whether a node said, when it left, that it goes to another hub.
fn has_moved(cluster: &Arc<Cluster>) -> impl Fn(&NodeName) -> bool + Clone + Send + 'static {
    let query = Arc::new(HubQuery::new(cluster.clone()));
    move |node| {
        let status = query.status_of(std::slice::from_ref(node));
        // A node that leaves for another reason gives none.
        status.iter().any(|status| status.left && status.problem.is_some())
    }
}

/// Starts to record what settings and channels say into .rrd files.
fn start_recorders(
    plan: &Plan,
    channels: &Arc<Registry>,
    query: &Arc<dyn Query>,
    lost: &LostRows,
) -> Result<Vec<HubRecorder>, Failure> {
    let mut recorders = Vec::new();
    let mut start = |directory: &Path, layout: &Layout, wanted: Wanted| {
        let (layout, query) = (layout.clone(), Arc::clone(query));
        recorders.push(HubRecorder::start(directory, layout, wanted, query, lost.clone())?);
        Ok::<_, Failure>(())
    };
    if let Some((directory, Recording { patterns, every, layout })) = &plan.rrd {
        start(directory, layout, Wanted::Series(patterns.clone(), *every))?;
    }
    for Sink { name, directory, files } in &plan.sinks {
        if let SinkFiles::Rrd(layout) = files {
            start(directory, layout, Wanted::Channels(Arc::clone(channels), name.clone()))?;
        }
    }
    Ok(recorders)
}

/// Starts to record channels whose sinks are recordings. The rows come over a link to this hub itself.
fn start_recordings(plan: &Plan, channels: &Arc<Registry>) -> Result<Vec<SinkRecorder>, Failure> {
    let mut all = Vec::new();
    for Sink { name, directory, files } in &plan.sinks {
        let SinkFiles::Recordings(limits) = files else { continue };
        all.push(SinkRecorder::start(name, directory, *limits, Arc::clone(channels), &itself(plan)?)?);
    }
    Ok(all)
}

/// The way to this hub's own link door.
fn itself(plan: &Plan) -> Result<Access, Failure> {
    let Some(address) = plan.link_listen.first() else {
        return Err(Failure::usage("a sink that is a recording needs the link door (--link-listen)"));
    };
    let host = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let (name, run_dir, insecure) = (plan.node.clone(), plan.run_dir.clone(), plan.insecure);
    Ok(Access { name, run_dir, insecure, ..Access::hub(host.to_string(), address.port()) })
}

/// Makes the store keep the channels that the list marks as kept. Without a store, no channel is kept.
fn keep_channels(
    plan: &Plan,
    store: Option<&RunningStore>,
    registry: &Arc<Registry>,
    cluster: &Arc<Cluster>,
) -> Result<Option<StoredChannels>, Failure> {
    if store.is_none() {
        for kept in registry.list().iter().filter(|kept| kept.definition.keep.is_some()) {
            tracing::warn!("channel {} is not kept: this hub has no store", kept.definition.name);
        }
        return Ok(None);
    }
    registry.has_store(plan.store.raw);
    StoredChannels::start(Arc::clone(registry), Arc::clone(cluster)).map(Some)
}

/// Reads the list of nodes that an earlier start wrote, and keeps it up to date. A failure is only logged.
fn remember(plan: &Plan, cluster: &Arc<Cluster>) -> Option<RosterKeeper> {
    let directory = state_dir::find(plan, "nodes will not be remembered")?;
    match RosterKeeper::start(Arc::clone(cluster), &directory, khz_hub::limits::ROSTER_REFRESH) {
        Ok(keeper) => Some(keeper),
        Err(error) => {
            tracing::warn!("nodes will not be remembered: {}", sentence(&error));
            None
        }
    }
}

/// Starts to follow other hubs, whose nodes are shown here.
fn follow_sources(plan: &Plan, cluster: &Arc<Cluster>) -> Result<Vec<Source>, Failure> {
    let follow = |(number, hub): (usize, &HubAddress)| {
        let mut settings = access(plan, hub)?.settings().map_err(|error| Failure::usage(sentence(&error)))?;
        if let Some(identity) = Arc::get_mut(&mut settings.identity) {
            identity.machine = cluster.identity();
        }
        Source::start(Arc::clone(cluster), settings, number)
            .map_err(|error| Failure::work(format!("cannot follow hub {}: {error}", hub.host)))
    };
    plan.source_hubs.iter().enumerate().map(follow).collect()
}

/// Address and credentials of a source.
fn access(plan: &Plan, source: &HubAddress) -> Result<Access, Failure> {
    let token = plan.trust.token.as_ref().map(|token| token.read()).transpose();
    let token = token.map_err(|error| Failure::usage(sentence(&error)))?;
    let pair = plan.trust.pair.clone();
    let files = plan.trust.ca.as_ref().map(|ca| ClientFiles { ca: ca.clone(), pair });
    let (name, insecure, run_dir) = (plan.node.clone(), plan.insecure, plan.run_dir.clone());
    let from = plan.bind;
    Ok(Access { files, token, insecure, name, run_dir, from, ..Access::hub(&source.host, source.port) })
}

/// Starts to ask other hubs and agents over the text protocol.
fn ask_sources(plan: &Plan, cluster: &Arc<Cluster>) -> Result<Vec<TextSource>, Failure> {
    let first = plan.source_hubs.len();
    let ask = |(number, door): (usize, &HubAddress)| {
        let tls = access(plan, door)?.tls(Protocol::Text);
        let tls = tls.map_err(|error| Failure::usage(sentence(&error)))?;
        let address = TextAddress { host: door.host.clone(), port: door.port, tls, from: plan.bind };
        TextSource::start(Arc::clone(cluster), address, first + number, khz_gather::catalogue())
            .map_err(|error| Failure::work(format!("cannot ask text://{}: {error}", door.host)))
    };
    plan.source_doors.iter().enumerate().map(ask).collect()
}

/// Waits for the given end. Without one, it never ends, and reloads the rules at each SIGHUP, if there are rules.
async fn reload_or_end(judge: Option<&RunningJudge>, end: Option<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    if let Some(end) = end {
        return end.await;
    }
    match judge {
        Some(judge) => judge.reload_at_hangups().await,
        None => std::future::pending().await,
    }
}

/// Ready when the link's thread has ended. A hub without it is useless.
async fn ended(server: &LinkServer) {
    let Ok(life) = server.life().and_then(UnixStream::from_std) else {
        tracing::warn!("the link door is not watched");
        return std::future::pending().await;
    };
    // An error means that the thread cannot be watched, which is as bad as its end.
    let _ = life.readable().await;
}

fn link_door(plan: &Plan) -> Result<LinkDoor, Failure> {
    let usage = |error: khz_trust::TrustError| Failure::usage(sentence(&error));
    let tls = match plan.trust.server_files() {
        Some(files) => {
            Some(TlsServer::load(files, ClientCertificates::Optional, Protocol::Link).map_err(usage)?)
        }
        None => None,
    };
    let key = plan.trust.cluster_key.as_deref().map(ClusterKey::read).transpose().map_err(usage)?;
    Ok(LinkDoor {
        listen: plan.link_listen.clone(),
        local: None,
        run: None,
        certificates: tls.is_some() && plan.trust.ca.is_some(),
        tls,
        key,
        insecure: plan.insecure,
    })
}

/// A hub's identity. It is random, so that agents notice a restart of the hub.
pub fn identity() -> Result<[u8; 16], Failure> {
    let mut identity = [0; 16];
    let read = rustix::rand::getrandom(&mut identity, rustix::rand::GetRandomFlags::empty());
    match read {
        Ok(16) => Ok(identity),
        _ => Err(Failure::work("the kernel gives no random numbers")),
    }
}

/// Raises the limit of descriptors to its maximum: each node needs one.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(errno) = setrlimit(Resource::Nofile, all) {
        tracing::warn!("descriptors stay at {:?}: {errno}", limit.current);
    }
}
