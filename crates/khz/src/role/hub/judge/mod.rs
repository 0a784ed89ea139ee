//! The thread that judges: it evaluates the rules of a hub over what the hub remembers, records what they give, hands their alerts
//! to those who tell people, and keeps their state over restarts. It sleeps until a group is due. What it found is on a board
//! (`khz_rules::Board`), which the HTTP door reads.

mod asked;
mod clock;
mod gathered;
mod groups;
mod numbers;
mod passed;
mod scoring;
mod source;
mod state;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use khz_hub::{Cluster, RecordedSeries};
use khz_model::{Metric, Query, Rate};
use khz_notify::Notifier;
use khz_rules::{Board, RuleSet, Settings, counted};

use self::clock::now;
pub(crate) use self::gathered::Gathered;
use self::groups::Groups;
use self::numbers::Numbers;
use self::passed::{Passed, bounded};
use self::scoring::{ScoreFile, Scoring};
use self::source::AtSource;
use self::state::AlertState;
use self::turns::{Means, Turned};
use crate::config::Plan;
use crate::role::actions::Actions;
use crate::role::state_dir;
use crate::show::outcome::{Failure, sentence};

/// The longest sleep: after it, the wall clock is read again, which somebody may have set.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Whom alerts are handed to.
#[derive(Default)]
pub struct Audience {
    /// Those who tell people.
    pub notifier: Option<Notifier>,
    /// Those who act.
    pub actions: Option<Actions>,
}

impl Audience {
    fn tell(&self, passed: &Passed, external_url: &str) {
        if self.notifier.is_none() && self.actions.is_none() {
            return;
        }
        let alerts = passed.alerts(external_url);
        self.notifier.iter().for_each(|notifier| notifier.tell(&alerts));
        self.actions.iter().for_each(|actions| actions.tell(&alerts));
    }
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
    state: Option<AlertState>,
    score_file: Option<ScoreFile>,
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
        let state = directory.as_deref().and_then(AlertState::open);
        let score_file = directory.as_deref().and_then(ScoreFile::open);
        Ok(Some(Judge {
            paths: plan.rules.clone(),
            set,
            settings: Arc::new(Settings {
                interval: (plan.rules_interval.0 / 1_000_000).cast_signed(),
                external_url: external_url(plan),
                ..Settings::default()
            }),
            job: plan.job.as_str().into(),
            rate: plan.rules_rate,
            board: Arc::default(),
            numbers: Arc::default(),
            is_over: Arc::default(),
            state,
            score_file,
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
        let cluster = cluster.clone();
        let work = move || self.run(query, cluster, recorded, &audience);
        let thread = std::thread::Builder::new().name("rules".into()).spawn(work);
        let thread =
            thread.map_err(|error| Failure::work(format!("cannot start to evaluate rules: {error}")))?;
        Ok(RunningJudge { is_over, board, thread: Some(thread) })
    }

    fn run(
        self,
        query: Arc<dyn Query>,
        cluster: Arc<Cluster>,
        recorded: RecordedSeries,
        audience: &Audience,
    ) {
        let Judge { paths, set, settings, job, rate, board, numbers, is_over, state, score_file } = self;
        board.evaluated_by(std::thread::current());
        let saved = state.as_ref().and_then(AlertState::read);
        let mut groups = Groups::new(&set, settings, saved.as_ref(), now());
        let mut scoring = Scoring::begin(score_file, query.clone(), audience.actions.clone(), board.clone());
        scoring.of_rules(&set);
        scoring.restored(&groups, now());
        let means = Means {
            query,
            job: job.clone(),
            interrupted: board.interrupted(),
            numbers: numbers.clone(),
            board: board.clone(),
        };
        let mut aftermath = Aftermath { state, scoring, recorded, audience, numbers, board: board.clone() };
        let mut source = AtSource::new(cluster, job.clone(), rate);
        source.change(&groups);
        groups.show(&board, String::new());
        while !is_over.load(Ordering::Relaxed) {
            if board.is_asked_to_reload() {
                let told = match RuleSet::load(&paths) {
                    Ok(set) => {
                        let given_up = groups.give_up();
                        aftermath.of(&given_up, &mut groups);
                        groups.change(&set, &aftermath.recorded, now());
                        aftermath.scoring.of_rules(&set);
                        source.change(&groups);
                        groups.show(&board, String::new());
                        let (of_groups, rules) = counted(&set);
                        tracing::info!("{rules} rules of {of_groups} groups are in use");
                        Ok((of_groups, rules))
                    }
                    Err(error) => {
                        tracing::warn!(
                            "the new rules are refused, and those before stay in use: {}",
                            bounded(&error.to_string())
                        );
                        groups.show(&board, error.to_string());
                        Err(error.to_string())
                    }
                };
                board.reloaded(&told);
            }
            aftermath.scoring.look_if_due(now());
            // What nodes say goes first: people hear of it at once, also between the rules of a slow group.
            let mut heard = Vec::new();
            source.heard(&mut groups, |groups, said| {
                let at = (said.node.as_str(), said.time);
                heard.extend(groups.take(said.group, at, said.given, &means));
            });
            aftermath.of(&heard, &mut groups);
            if source.has_changed() {
                groups.shared(&|id| source.share(id));
                groups.show(&board, board.standing().refused.clone());
            }
            match groups.turn(&means, now(), &|id| source.share(id)) {
                Turned::Group(passed) => aftermath.of(&[passed], &mut groups),
                Turned::Rule => {}
                Turned::Idle => {
                    let next = groups.until_next(now()).min(SLEEP_MAX);
                    let next = source.until_next().map_or(next, |of_source| next.min(of_source));
                    let next = next.min(aftermath.scoring.until_next(now()));
                    std::thread::park_timeout(next);
                }
            }
        }
        let given_up = groups.give_up();
        aftermath.of(&given_up, &mut groups);
        if let Some(state) = &mut aftermath.state {
            state.write(&groups, now());
        }
        aftermath.scoring.write(now());
        board.ended();
    }
}

/// What follows when something has come of rules.
struct Aftermath<'a> {
    state: Option<AlertState>,
    scoring: Scoring,
    recorded: RecordedSeries,
    audience: &'a Audience,
    numbers: Arc<Numbers>,
    board: Arc<Board>,
}

impl Aftermath<'_> {
    /// What anybody sees or is told outlives this process: the file comes first.
    fn of(&mut self, all: &[Passed], groups: &mut Groups) {
        if all.is_empty() {
            return;
        }
        if let Some(state) = &mut self.state {
            state.keep(groups, now());
        }
        // After the alerts: a hub that is killed in between finds in their file what is missing in this one.
        self.scoring.take(all, now());
        for passed in all {
            groups.log(passed);
            groups.record(passed, &self.recorded, &self.numbers);
            groups.show_one(passed.number, &self.board);
            self.audience.tell(passed, groups.external_url());
        }
        groups.count(&self.numbers);
    }
}

/// The running thread. When this is dropped, its state is written, and nobody evaluates any more.
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
            // What comes of it is in the log.
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

/// Where people find this hub.
fn external_url(plan: &Plan) -> String {
    if !plan.external_url.is_empty() {
        return plan.external_url.clone();
    }
    let scheme = if plan.trust.pair.is_some() { "https" } else { "http" };
    let port = plan.listen.first().map_or(7070, std::net::SocketAddr::port);
    format!("{scheme}://{}:{port}", plan.node)
}
