//! Judges the rules of a hub: evaluates them over the hub's samples, records their results, passes their alerts on, and keeps their
//! state over restarts. The results are on a board (`khz_rules::Board`), which the HTTP door reads. The work of the thread is in
//! `thread.rs`.

mod asked;
mod asker;
mod custody;
mod firings;
mod gathered;
mod groups;
mod judging;
mod node_time;
mod numbers;
mod outside;
mod passed;
mod peer_clock;
mod peer_file;
mod peers;
mod pulse;
mod same_labels;
mod schedule;
mod scoring;
mod sharing;
mod source;
mod state;
mod thread;
mod turns;
mod without_rule;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use khz_ask::ForeignServer;
use khz_hub::{Cluster, RecordedSeries, trusted as clock};
use khz_model::{Metric, Query, Rate};
use khz_notify::Notifier;
use khz_rules::{Board, RuleSet, Settings, Word};

pub(crate) use self::gathered::Gathered;
use self::numbers::Numbers;
use self::scoring::ScoreFile;
use self::state::AlertState;
use self::thread::Work;
use crate::config::Plan;
use crate::role::actions::Actions;
use crate::role::state_dir;
use crate::show::outcome::{Failure, sentence};

/// Who gets the alerts.
#[derive(Default)]
pub struct Audience {
    /// Those who tell people.
    pub notifier: Option<Notifier>,
    /// Those who act.
    pub actions: Option<Actions>,
}

/// What a hub with rules counts, from the start.
#[cfg(test)]
pub fn metrics() -> Vec<(Metric, Arc<std::sync::atomic::AtomicU64>)> {
    Numbers::default().metrics()
}

/// What the rules are, before anything runs.
pub struct Judge {
    paths: Vec<PathBuf>,
    set: RuleSet,
    settings: Arc<Settings>,
    job: Arc<str>,
    /// How often nodes judge.
    rate: Rate,
    board: Arc<Board>,
    numbers: Arc<Numbers>,
    is_over: Arc<AtomicBool>,
    state: AlertState,
    score_file: Option<ScoreFile>,
    /// Where state is kept; `None`: nowhere.
    directory: Option<PathBuf>,
    /// Other hubs that judge the same rules, and the name of this one.
    peers: Vec<ForeignServer>,
    name: String,
}

impl Judge {
    /// Loads the rules that the plan names; `None`: it names none. A hub does not start with rules that have errors.
    pub fn load(plan: &Plan) -> Result<Option<Self>, Failure> {
        if plan.rules.is_empty() {
            return Ok(None);
        }
        let set = RuleSet::load(&plan.rules).map_err(|error| {
            Failure::usage(format!("the rules cannot be used (`khz rules check` says the same):\n{error}"))
        })?;
        set.warnings.iter().for_each(|finding| tracing::warn!("rules: {finding}"));
        let directory = state_dir::find(plan, "alerts will begin again after a restart");
        let state = AlertState::open(directory.as_deref(), !plan.rules_peers.is_empty());
        let score_file = directory.as_deref().and_then(ScoreFile::open);
        let board = Arc::<Board>::default();
        if !plan.rules_peers.is_empty() {
            // The others may ask before this hub knows anything.
            board.say(Word { hub: plan.node.to_string(), ..Word::default() });
        }
        Ok(Some(Judge {
            paths: plan.rules.clone(),
            set,
            settings: Arc::new(Settings {
                interval: (plan.rules_interval.0 / 1_000_000).cast_signed(),
                external_url: external_url(plan),
                external_labels: plan.notify.labels.clone(),
                tolerance: source::tolerance(plan.rules_rate),
                ..Settings::default()
            }),
            job: plan.job.as_str().into(),
            rate: plan.rules_rate,
            board,
            numbers: Arc::default(),
            is_over: Arc::default(),
            state,
            score_file,
            directory,
            peers: plan.rules_peers.clone(),
            name: plan.node.to_string(),
        }))
    }

    /// Where everybody sees what the rules say.
    pub fn board(&self) -> Arc<Board> {
        self.board.clone()
    }

    /// What it counts.
    pub fn metrics(&self) -> Vec<(Metric, Arc<std::sync::atomic::AtomicU64>)> {
        self.numbers.metrics()
    }

    /// Starts to evaluate.
    pub fn start(
        self,
        query: Arc<dyn Query>,
        cluster: &Arc<Cluster>,
        audience: Audience,
    ) -> Result<RunningJudge, Failure> {
        let (is_over, board) = (self.is_over.clone(), self.board.clone());
        let recorded = RecordedSeries::new(cluster.clone());
        let (cluster, identity) = (cluster.clone(), identity_text(&cluster.identity()));
        let (ready, begun) = std::sync::mpsc::sync_channel(1);
        let work = move || match Work::new(self, query, cluster, recorded, audience, &identity) {
            Ok(work) => {
                let _ = ready.send(Ok(()));
                work.run();
            }
            Err(failure) => _ = ready.send(Err(failure)),
        };
        let thread = std::thread::Builder::new().name("rules".into()).spawn(work);
        let thread =
            thread.map_err(|error| Failure::work(format!("cannot start to evaluate rules: {error}")))?;
        let running = RunningJudge { is_over, board, thread: Some(thread) };
        match begun.recv() {
            Ok(Ok(())) => Ok(running),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::work("the thread that evaluates rules has ended as it began")),
        }
    }
}

/// An identity as a word.
fn identity_text(identity: &[u8; 16]) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The running thread. When this is dropped, it writes its state and stops evaluating.
pub struct RunningJudge {
    is_over: Arc<AtomicBool>,
    board: Arc<Board>,
    thread: Option<JoinHandle<()>>,
}

impl RunningJudge {
    /// Loads the rule files again at each SIGHUP, as Prometheus does. Never ends.
    pub async fn reload_at_hangups(&self) {
        let hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup());
        let Ok(mut hangup) =
            hangup.inspect_err(|error| tracing::warn!("SIGHUP loads no rules: {}", sentence(error)))
        else {
            return std::future::pending().await;
        };
        while hangup.recv().await.is_some() {
            let board = self.board.clone();
            // The result is in the log.
            let _ = tokio::task::spawn_blocking(move || board.reload()).await;
        }
    }
}

impl Drop for RunningJudge {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.board.end();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}

/// The address of this hub for people.
fn external_url(plan: &Plan) -> String {
    if !plan.external_url.is_empty() {
        return plan.external_url.clone();
    }
    let scheme = if plan.trust.pair.is_some() { "https" } else { "http" };
    match plan.listen.first() {
        // The node's name does not lead to a loopback address.
        Some(address) if address.ip().is_loopback() => format!("{scheme}://{address}"),
        Some(address) => format!("{scheme}://{}:{}", plan.node, address.port()),
        None => format!("{scheme}://{}:7070", plan.node),
    }
}
