//! The thread that judges: it sleeps until a group is due, a node has said something, or somebody asks for the files to be loaded again,
//! for a second at most. What takes long, the query of a rule, is done by another thread (`asker.rs`), so that what nodes say never waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use khz_hub::{Cluster, RecordedSeries, RuleNews};
use khz_model::Query;
use khz_notify::Alert;
use khz_rules::{Board, RuleId, RuleSet, Share, counted};

use super::asker::Asker;
use super::clock::{follow, now};
use super::groups::Groups;
use super::numbers::Numbers;
use super::outside::Outside;
use super::passed::{Passed, bounded, number};
use super::pulse::Pulse;
use super::scoring::{Ours, Scoring};
use super::sharing::Sharing;
use super::source::AtSource;
use super::state::AlertState;
use super::turns::{Begun, Means, Turned};
use super::{Audience, Judge};
use crate::show::outcome::Failure;

/// What the thread works with.
pub(super) struct Work {
    paths: Vec<PathBuf>,
    groups: Groups,
    source: AtSource,
    means: Means,
    asker: Asker,
    pulse: Pulse,
    aftermath: Aftermath,
    is_over: Arc<AtomicBool>,
}

impl Work {
    /// All that it takes; this thread judges from now on.
    pub fn new(
        judge: Judge,
        query: Arc<dyn Query>,
        cluster: Arc<Cluster>,
        recorded: RecordedSeries,
        audience: Audience,
        identity: &str,
    ) -> Result<Self, Failure> {
        let Judge {
            paths,
            set,
            settings,
            job,
            rate,
            board,
            numbers,
            is_over,
            state,
            score_file,
            directory,
            peers,
            name,
        } = judge;
        board.evaluated_by(std::thread::current());
        let saved = state.read();
        let sharing = Sharing::start(&peers, &name, identity, directory.as_deref(), saved.as_ref())?;
        // Alerts that fire must not be resolved because their nodes are not back yet.
        let settles = saved.is_some() || sharing.is_some();
        let groups = Groups::new(&set, settings, saved.as_ref(), now(), settles);
        let asker = Asker::start(std::thread::current())?;
        let mut scoring = Scoring::begin(score_file, query.clone(), audience.actions.clone(), board.clone());
        scoring.of_rules(&set);
        scoring.restored(&groups, &ours(sharing.as_ref()), now());
        let (interrupted, numbers_too) = (board.interrupted(), numbers.clone());
        let means =
            Means { query, job: job.clone(), interrupted, numbers: numbers_too, board: board.clone() };
        let aftermath =
            Aftermath { state, scoring, recorded, audience, numbers, board, sharing, has_told_ends: false };
        let mut source = AtSource::new(cluster, job, rate);
        source.change(&groups);
        Ok(Work { paths, groups, source, means, asker, pulse: Pulse::new(), aftermath, is_over })
    }

    /// Judges until it is to end.
    pub fn run(mut self) {
        let board = self.means.board.clone();
        self.groups.show(&board, String::new());
        while !self.is_over.load(Ordering::Relaxed) {
            if board.is_asked_to_reload() {
                self.reload(&board);
            }
            self.settle_if_it_stood_still();
            self.begin_again_if_it_stood_still();
            follow(|| self.source.newest());
            self.hear();
            self.aftermath.catch_up(&mut self.groups);
            if !self.aftermath.is_ready() {
                self.pulse.sleep(self.until_next());
                continue;
            }
            self.look_if_nodes_are_lost();
            self.source.note_lost_hubs();
            self.aftermath.of_ends_before(&mut self.groups);
            self.aftermath.of_rules_gone(&mut self.groups);
            let begun = {
                let share = share(&self.source);
                self.groups.begin_turn(&self.means, now(), &share)
            };
            match begun {
                Begun::Idle => {
                    self.pulse.sleep(self.groups.until_next(now()).min(self.until_next()));
                }
                Begun::Group(passed) => self.aftermath.of(&[passed], &mut self.groups),
                Begun::Rule(job) => {
                    let id = job.id;
                    self.asker.begin(*job);
                    let done = loop {
                        match self.asker.done() {
                            Some(done) => break done,
                            None => self.pulse.sleep(self.until_next()),
                        }
                        self.settle_if_it_stood_still();
                        self.hear();
                    };
                    self.source.note_lost_hubs();
                    let (source, share) = (&self.source, share(&self.source)(id));
                    let turned = self.groups.end_turn(done, &self.means, &share, &|id| source.share(id));
                    if let Turned::Group(passed) = turned {
                        passed.unfit().for_each(|one| self.source.take_over(&one, &mut self.groups));
                        self.aftermath.of(&[passed], &mut self.groups);
                    }
                }
            }
        }
        let given_up = self.groups.give_up();
        self.aftermath.of(&given_up, &mut self.groups);
        self.aftermath.end(&self.groups);
        board.ended();
    }

    /// How long it is until somebody looks at nodes again.
    fn until_next(&self) -> Duration {
        let of_source = self.source.until_next().min(self.aftermath.scoring.until_next(now()));
        self.aftermath.sharing.as_ref().map_or(of_source, |sharing| of_source.min(sharing.until_next()))
    }

    fn reload(&mut self, board: &Board) {
        let told = match RuleSet::load(&self.paths) {
            Ok(set) => {
                let given_up = self.groups.give_up();
                self.aftermath.of(&given_up, &mut self.groups);
                self.groups.change(&set, &self.aftermath.recorded, now());
                self.aftermath.scoring.of_rules(&set);
                self.source.change(&self.groups);
                self.groups.show(board, String::new());
                let (of_groups, rules) = counted(&set);
                let are = if rules == 1 { "is" } else { "are" };
                tracing::info!("{} of {} {are} in use", number(rules, "rule"), number(of_groups, "group"));
                Ok((of_groups, rules))
            }
            Err(error) => {
                tracing::warn!(
                    "the new rules are refused, and those before stay in use: {}",
                    bounded(&error.to_string())
                );
                self.groups.show(board, error.to_string());
                Err(error.to_string())
            }
        };
        board.reloaded(&told);
    }

    /// The rows that nodes sent while this process stood still are on their way: rules wait for them, as after a restart.
    fn settle_if_it_stood_still(&mut self) {
        if let Some(pause) = self.pulse.halt() {
            let seconds = pause.as_secs();
            tracing::warn!(
                "this hub stood still for {seconds} s, or its clock was set: it evaluates rules again when its nodes have had time to send"
            );
            self.groups.settle(now(), &self.means.numbers);
        }
    }

    /// Another hub may have taken over while this one stood still: it goes on as after a restart.
    fn begin_again_if_it_stood_still(&mut self) {
        if !self.aftermath.sharing.as_mut().is_some_and(Sharing::notice) {
            return;
        }
        let given_up = self.groups.give_up();
        self.groups.begin_again(now());
        // Nobody is told of them before the others were asked.
        self.aftermath.of(&given_up, &mut self.groups);
        self.aftermath.begin_again();
    }

    /// What nodes say goes first: people hear of it at once, also while a slow rule is evaluated.
    fn hear(&mut self) {
        self.look(None);
        let Aftermath { scoring, sharing, .. } = &mut self.aftermath;
        scoring.look_if_due(&|| ours(sharing.as_ref()), now());
        // Until it is known who judges which node, rows wait in their lanes.
        if !self.aftermath.is_ready() {
            return;
        }
        // All of it is kept and told together: thousands of nodes may fail at once, and the file has the alerts of all.
        let mut heard = Vec::new();
        for news in self.source.heard() {
            self.look(Some(&news));
            let sharing = self.aftermath.sharing.as_ref();
            if sharing.is_some_and(|sharing| sharing.away().contains(news.node.as_str())) {
                // It has gone to another hub since it said that.
                continue;
            }
            let Work { groups, source, means, .. } = self;
            let mut unfit = Vec::new();
            source.take(&news, groups, &mut |groups, said| {
                let at = (said.node.as_str(), said.time);
                let (passed, unfit_now) = groups.take(said.group, at, said.given, means);
                heard.extend(passed);
                unfit.extend(unfit_now);
            });
            unfit.iter().for_each(|one| source.take_over(one, groups));
        }
        self.aftermath.of(&heard, &mut self.groups);
        if self.source.has_changed() {
            let source = &self.source;
            self.groups.shared(&|id| source.share(id));
            let refused = self.means.board.standing().refused.clone();
            self.groups.show(&self.means.board, refused);
        }
    }

    /// A node that has gone may be on its way to another hub: no rule finds that it is down before that is decided.
    fn look_if_nodes_are_lost(&mut self) {
        let Some(sharing) = &self.aftermath.sharing else { return };
        if self.groups.is_due(now()) && sharing.has_lost(&self.source.nodes()) {
            self.look_now();
        }
    }

    /// Looks at who judges which node: once a second, and when there is news of a node that another hub has judged.
    fn look(&mut self, news: Option<&RuleNews>) {
        let Some(sharing) = self.aftermath.sharing.as_mut() else { return };
        if !sharing.notice() && sharing.is_due(news.map(|news| &news.node)) {
            self.look_now();
        }
    }

    fn look_now(&mut self) {
        let Work { groups, source, means, aftermath, .. } = self;
        let Some(sharing) = aftermath.sharing.as_mut() else { return };
        let adopted = sharing.look(&source.nodes(), groups, &aftermath.audience, &means.numbers);
        warn_of_names_in_use_twice(&source.connected_here(sharing.shared()));
        source.leave(sharing.rest());
        aftermath.of(&adopted, groups);
        aftermath.keep(groups);
        // What it said before it stood still may not be so any more: that is known when the others were asked.
        if aftermath.is_ready() {
            aftermath.board.confirm();
        }
    }
}

/// These nodes are connected here, and another hub has them, too, and judges them.
fn warn_of_names_in_use_twice(nodes: &[&str]) {
    let Some(first) = nodes.first() else { return };
    let others = match nodes.len() {
        1 => "is".to_owned(),
        more => format!("and {} are", number(more - 1, "other node")),
    };
    tracing::warn!(
        "{first} {others} connected here, and up at another hub, too, which judges them: if that hub does not get its nodes from \
         this one, two agents have the same name (--node)"
    );
}

/// The nodes that this hub judges since they were here.
fn ours(sharing: Option<&Sharing>) -> Ours {
    Some(sharing?.names().into_iter().collect())
}

/// What is left of each rule for this hub.
fn share(source: &AtSource) -> impl Fn(RuleId) -> Arc<Share> {
    move |id| source.share(id).unwrap_or_else(|| source.of_hub().clone())
}

/// What follows when something has come of rules.
struct Aftermath {
    state: AlertState,
    scoring: Scoring,
    recorded: RecordedSeries,
    audience: Audience,
    numbers: Arc<Numbers>,
    board: Arc<Board>,
    sharing: Option<Sharing>,
    /// People were told of what had ended before this hub was started again.
    has_told_ends: bool,
}

impl Aftermath {
    /// Whether it is known who judges which node.
    fn is_ready(&self) -> bool {
        self.sharing.as_ref().is_none_or(Sharing::is_ready)
    }

    /// What anybody sees or is told outlives this process: the file comes first.
    fn of(&mut self, all: &[Passed], groups: &mut Groups) {
        if all.is_empty() {
            return;
        }
        all.iter().for_each(|passed| groups.without_rule.heard(&passed.pass.alerts));
        self.save(groups);
        // After the alerts: a hub that is killed in between finds in their file what is missing in this one.
        self.scoring.take(all, now());
        for passed in all {
            groups.log(passed);
            groups.record(passed, &self.recorded, &self.numbers);
            groups.show_one(passed.number, &self.board);
            self.tell_pass(passed, groups);
        }
        groups.count(&self.numbers);
        self.say();
    }

    /// It stood still, and goes on as after a restart.
    fn begin_again(&mut self) {
        self.sharing.iter_mut().for_each(Sharing::begin_again);
        self.has_told_ends = false;
    }

    /// What ended just before this hub was started again is told before anything new: once.
    fn of_ends_before(&mut self, groups: &mut Groups) {
        if !std::mem::replace(&mut self.has_told_ends, true) {
            self.tell(|| groups.restored_ends());
        }
    }

    /// Tells people, and those who act, that alerts are over since they have no rule any more.
    fn of_rules_gone(&mut self, groups: &mut Groups) {
        let alerts = groups.without_rule_due(now());
        if alerts.is_empty() {
            return;
        }
        self.save(groups);
        self.tell(|| alerts);
        self.say();
    }

    /// Keeps the state where it outlives this process, and says it to other hubs.
    fn keep(&mut self, groups: &mut Groups) {
        self.save(groups);
        self.say();
    }

    /// Keeps the state where it outlives this process.
    fn save(&mut self, groups: &mut Groups) {
        self.state.keep(groups, self.sharing.as_ref(), &self.numbers, now());
    }

    /// Writes what could not be written, when it is time to try again.
    fn catch_up(&mut self, groups: &mut Groups) {
        if self.state.is_due_again() {
            self.keep(groups);
        }
        if let Some(notifier) = &self.audience.notifier {
            notifier.catch_up();
        }
    }

    fn say(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.say(self.state.text(), self.audience.notifier.as_ref(), &self.board);
        }
    }

    /// Tells people of the alerts of a pass, and those who act.
    fn tell_pass(&mut self, passed: &Passed, groups: &mut Groups) {
        if self.sharing.is_some() {
            return self.tell(|| groups.alerts(passed));
        }
        if self.has_audience() {
            self.audience.tell(&groups.alerts(passed));
            self.audience.act(&groups.alerts_to_act(passed));
        }
    }

    fn has_audience(&self) -> bool {
        self.audience.notifier.is_some() || self.audience.actions.is_some()
    }

    fn tell(&mut self, alerts: impl FnOnce() -> Vec<Alert>) {
        let audience = &self.audience;
        if !self.has_audience() {
            return;
        }
        let alerts = alerts();
        match &mut self.sharing {
            Some(sharing) => sharing.tell(alerts, audience),
            None => {
                audience.tell(&alerts);
                audience.act(&alerts);
            }
        }
    }

    fn end(&mut self, groups: &Groups) {
        self.state.write(groups, self.sharing.as_ref(), &self.numbers, now());
        self.scoring.write(now());
    }
}
