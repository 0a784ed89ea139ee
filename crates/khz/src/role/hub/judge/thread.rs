//! The thread that judges. It sleeps, for a second at most, until a group is due, a node sends a result, or a user asks to reload
//! the files. Another thread (`asker.rs`) runs the queries of rules, which take long. So results of nodes never wait.

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
    /// Gathers all that the judge needs. The current thread becomes the judge.
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
        // Do not resolve firing alerts only because their nodes are not back yet.
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
        khz_notify::go_by(now);
        let board = self.means.board.clone();
        self.groups.show(&board, String::new());
        while !self.is_over.load(Ordering::Relaxed) {
            if board.is_asked_to_reload() {
                self.reload(&board);
            }
            self.settle_if_it_stood_still();
            self.begin_again_if_it_stood_still();
            if let Some(by) = follow(|| self.source.newest()) {
                self.go_on_by_another_time(by);
            }
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

    /// The time until nodes must be looked at again.
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

    /// After a standstill of this process, the rows of nodes are on their way. Rules wait for them, as after a restart.
    fn settle_if_it_stood_still(&mut self) {
        if let Some(pause) = self.pulse.halt() {
            let seconds = pause.as_secs();
            tracing::warn!(
                "this hub stood still for {seconds} s, or its clock was set: it evaluates rules again when its nodes have had time to send"
            );
            self.groups.settle(now(), &self.means.numbers);
        }
    }

    /// A user set the clock by which rules are judged by this many ms. Running passes of the old time would find no rows. Alerts
    /// wait as long as before.
    fn go_on_by_another_time(&mut self, by: i64) {
        let given_up = self.groups.give_up();
        self.aftermath.of(&given_up, &mut self.groups);
        self.groups.clock_set(by, now());
        if let Some(sharing) = &mut self.aftermath.sharing {
            sharing.clock_set(by);
        }
        self.aftermath.keep(&mut self.groups);
    }

    /// After a standstill of this hub, another one may have taken over. This hub goes on as after a restart.
    fn begin_again_if_it_stood_still(&mut self) {
        let Some(sharing) = &mut self.aftermath.sharing else { return };
        if !sharing.notice() {
            return;
        }
        let is_pause = sharing.has_paused();
        let given_up = self.groups.give_up();
        self.groups.begin_again(now(), is_pause);
        // This sends no messages before the other hubs were asked.
        self.aftermath.of(&given_up, &mut self.groups);
        self.aftermath.begin_again();
    }

    /// Results of nodes come first: people hear of them at once, even during a slow rule.
    fn hear(&mut self) {
        self.look(None);
        let Aftermath { scoring, sharing, .. } = &mut self.aftermath;
        scoring.look_if_due(&|| ours(sharing.as_ref()), now());
        // Rows wait in their lanes until it is known which hub judges which node.
        if !self.aftermath.is_ready() {
            return;
        }
        // All results are saved and sent together: thousands of nodes may fail at once, and the file holds the alerts of all.
        let mut heard = Vec::new();
        for news in self.source.heard() {
            self.look(Some(&news));
            let sharing = self.aftermath.sharing.as_ref();
            if sharing.is_some_and(|sharing| sharing.away().contains(news.node.as_str())) {
                // The node has gone to another hub since it sent this.
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

    /// A lost node may be on its way to another hub. This is decided before a rule can find that the node is down.
    fn look_if_nodes_are_lost(&mut self) {
        let Some(sharing) = &self.aftermath.sharing else { return };
        if self.groups.is_due(now()) && sharing.has_lost(&self.source.nodes()) {
            self.look_now();
        }
    }

    /// Checks which hub judges which node: once a second, and when a node sends news that another hub has judged so far.
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
        // The last word may be outdated after a standstill. This is known once the others were asked.
        if aftermath.is_ready() {
            aftermath.board.confirm();
        }
    }
}

/// Warns of nodes that are connected here while another hub also has and judges them.
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

/// The names of the nodes that this hub judges because they were here.
fn ours(sharing: Option<&Sharing>) -> Ours {
    Some(sharing?.names().into_iter().collect())
}

/// The part of each rule that is left to this hub.
fn share(source: &AtSource) -> impl Fn(RuleId) -> Arc<Share> {
    move |id| source.share(id).unwrap_or_else(|| source.of_hub().clone())
}

/// Carries out what follows from the results of rules.
struct Aftermath {
    state: AlertState,
    scoring: Scoring,
    recorded: RecordedSeries,
    audience: Audience,
    numbers: Arc<Numbers>,
    board: Arc<Board>,
    sharing: Option<Sharing>,
    /// Messages about alerts that ended before the restart were sent.
    has_told_ends: bool,
}

impl Aftermath {
    /// Whether it is known who judges which node.
    fn is_ready(&self) -> bool {
        self.sharing.as_ref().is_none_or(Sharing::is_ready)
    }

    /// Writes the file before anybody sees or hears of a result, so that it survives this process.
    fn of(&mut self, all: &[Passed], groups: &mut Groups) {
        if all.is_empty() {
            return;
        }
        all.iter().for_each(|passed| groups.without_rule.heard(&passed.pass.alerts));
        self.save(groups);
        // This comes after the alerts: a hub that is killed in between restores the missing part from their file.
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

    /// After a standstill, goes on as after a restart.
    fn begin_again(&mut self) {
        self.sharing.iter_mut().for_each(Sharing::begin_again);
        self.has_told_ends = false;
    }

    /// Sends once, before anything new, the messages about alerts that ended just before the restart.
    fn of_ends_before(&mut self, groups: &mut Groups) {
        if !std::mem::replace(&mut self.has_told_ends, true) {
            self.tell(|| groups.restored_ends());
        }
    }

    /// Sends messages and acts for alerts that are over because they have no rule any more.
    fn of_rules_gone(&mut self, groups: &mut Groups) {
        let alerts = groups.without_rule_due(now());
        if alerts.is_empty() {
            return;
        }
        self.save(groups);
        self.tell(|| alerts);
        self.say();
    }

    /// Saves the state, and tells it to other hubs.
    fn keep(&mut self, groups: &mut Groups) {
        self.save(groups);
        self.say();
    }

    /// Saves the state, so that it survives this process.
    fn save(&mut self, groups: &mut Groups) {
        self.state.keep(groups, self.sharing.as_ref(), &self.numbers, now());
    }

    /// Retries a failed write when it is due.
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

    /// Sends messages and acts for the alerts of a pass.
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
