//! Other hubs that judge the same rules for other nodes. One thread per hub asks it once a second for the state of its alerts. The
//! request only reads, and changes nothing there. The last word of each outlives this process (`peer_file.rs`). Other modules
//! decide what follows from the answers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use khz_ask::{Engine, ForeignServer, Way};
use khz_notify::{Labels, ToldLine};
use khz_rules::{GoneAlert, Group, NODE_LABEL, Saved, SavedGroup};
use serde::Deserialize;

use super::clock::{Now, both_now, now};
use super::passed::{Complaint, bounded};
use super::peer_clock::PeerClock;
use super::peer_file::PeerFile;
use crate::show::outcome::{Failure, sentence};

/// How often a hub is asked.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// The most bytes of an answer: twice the largest state, since the list of sent messages comes with it.
pub(super) const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Where a hub is asked.
const PATH: &str = "/khz/v1/rules/state";

/// What another hub has said. Its times are by this hub's clock.
#[derive(Clone)]
pub(super) struct PeerWord {
    /// Its name.
    pub hub: String,
    /// The nodes that it judges.
    pub nodes: HashSet<Arc<str>>,
    /// The nodes that are down, and when they went (ms since 1970); `None`: an older khz does not say.
    pub down: Option<BTreeMap<String, i64>>,
    /// What people were told.
    pub told: Vec<ToldLine>,
    /// The labels of the alerts of no node that the hub owns: it sends messages about them and acts; `None`: an older khz does not
    /// say.
    pub own: Option<HashSet<BTreeMap<String, String>>>,
    /// Where to find, in `told`, the messages about alerts of none of its nodes, by their labels.
    known: HashMap<BTreeMap<String, String>, Vec<usize>>,
    /// Active alerts of none of its nodes, by their labels.
    pub active: HashMap<BTreeMap<String, String>, Active>,
    /// Resolved alerts of none of its nodes, by their labels.
    pub resolved: HashMap<BTreeMap<String, String>, Resolved>,
    /// The silent hubs whose alerts it has taken over, and when (ms since 1970).
    pub took_over: BTreeMap<String, i64>,
    /// It evaluates its groups from this time on (ms since 1970); `None`: an older khz does not say.
    pub evaluates_from: Option<i64>,
    /// What it calls this word.
    pub tag: String,
    state: Saved,
    /// The index of each group in the state, by file name and group name: two hubs may keep their files in different directories.
    places: HashMap<(String, String), usize>,
}

/// An active alert, as another hub sees it. Times are in ms since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Active {
    /// Since when the alert fires, according to that hub's own evaluations.
    pub fired_here_at: Option<i64>,
    /// That hub has not evaluated the alert since its restart, and reports the state of this time.
    pub restored_from: Option<i64>,
}

/// An alert that is over at another hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resolved {
    /// When it ended there (ms since 1970).
    pub at: i64,
    /// The alert ended only at that hub: its nodes went to another hub, where it may go on.
    pub went_on: bool,
}

/// What is known of another hub.
#[derive(Clone, Default)]
pub(super) struct Heard {
    /// What it said last.
    pub word: Option<Arc<PeerWord>>,
    /// When it was asked for its last answer; `None`: it has not answered this process, and the word is from an earlier one.
    pub answered: Option<Instant>,
    /// When it was asked for `word`, in ms since 1970.
    pub known_at: i64,
    /// When it was asked last, whatever the result.
    pub asked: Option<Instant>,
    /// Its clock.
    pub clock: PeerClock,
}

impl Heard {
    /// The last word of a hub from before this process began, and when it was asked for (`known_at`).
    pub fn before(word: PeerWord, theirs: Option<i64>, known_at: i64, now: Now) -> Self {
        let clock = PeerClock::before(theirs, known_at, now);
        let word = Some(Arc::new(word.shifted(clock.shift())));
        Heard { word, known_at, clock, ..Heard::default() }
    }

    /// Notes an answer to a request that began at this moment and took this many ms. `theirs`: the time on the other hub's clock.
    /// `word`: the answer, if it was new. Returns true if the other hub's clock has changed: then the full answer is needed again.
    pub fn hear(
        &mut self,
        asked: Instant,
        took: i64,
        (theirs, word): (Option<i64>, Option<PeerWord>),
        now: Now,
    ) -> bool {
        // Convert the known times to the new clock first.
        self.by(now);
        let is_another = self.clock.hear(theirs, now, took);
        (self.answered, self.known_at) = (Some(asked), now.judged.saturating_sub(took));
        let is_whole = word.is_some();
        if let Some(word) = word {
            self.word = Some(Arc::new(word.shifted(self.clock.shift())));
        }
        is_another && !is_whole
    }

    /// If this hub's clock was set since the other hub answered, converts what is known of that hub to the new clock.
    pub fn by(&mut self, now: Now) {
        let by = self.clock.own_set(now);
        if by != 0 {
            self.known_at = self.known_at.saturating_add(by);
            self.word = self.word.take().map(|word| Arc::new((*word).clone().shifted(by)));
        }
    }
}

/// The other hubs, in the order of the configuration. Their threads end when this is dropped.
#[derive(Default)]
pub(super) struct Peers {
    all: Vec<Arc<Mutex<Heard>>>,
    is_over: Arc<AtomicBool>,
}

impl Peers {
    /// Begins to ask the hubs. A new word wakes the judge's thread. `own` is the identity of this hub. The directory holds the last
    /// words of other hubs.
    pub fn start(
        servers: &[ForeignServer],
        judge: &Thread,
        own: &str,
        directory: Option<&Path>,
    ) -> Result<Self, Failure> {
        let mut peers = Peers { all: Vec::new(), is_over: Arc::default() };
        for (number, server) in servers.iter().enumerate() {
            let failed = |problem: String| Failure::usage(format!("rules_peer: {problem}"));
            let engine = Engine::new(server.url.trim_end_matches('/'), server.files.clone(), server.timeout);
            let engine = engine.map_err(|error| failed(sentence(&error)))?;
            server.login.authorization().map_err(failed)?;
            let file = directory.and_then(|directory| PeerFile::open(directory, number, &server.url));
            let heard = Arc::new(Mutex::new(file.as_ref().map(before).unwrap_or_default()));
            let asking = Asking {
                engine,
                file,
                server: server.clone(),
                heard: heard.clone(),
                judge: judge.clone(),
                own: own.to_owned(),
                is_over: peers.is_over.clone(),
            };
            let thread = std::thread::Builder::new().name("rules-peer".into()).spawn(move || asking.run());
            thread.map_err(|error| Failure::work(format!("cannot start to ask another hub: {error}")))?;
            peers.all.push(heard);
        }
        Ok(peers)
    }

    /// What is known of each now.
    pub fn heard(&self) -> Vec<Heard> {
        let by_clock = |heard: &Arc<Mutex<Heard>>| {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.by(both_now());
            heard.clone()
        };
        self.all.iter().map(by_clock).collect()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // A running request may take as long as its timeout, so nothing waits for it.
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// What a thread asks with.
struct Asking {
    engine: Engine,
    /// `None`: the last word is forgotten when this process ends.
    file: Option<PeerFile>,
    server: ForeignServer,
    heard: Arc<Mutex<Heard>>,
    judge: Thread,
    own: String,
    is_over: Arc<AtomicBool>,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
enum Problem {
    /// The other hub has just started, and knows nothing yet.
    Starting,
    /// A person must fix something.
    Wrong(String),
}

impl From<String> for Problem {
    fn from(words: String) -> Self {
        Problem::Wrong(words)
    }
}

/// What was known of a hub before this process began.
fn before(file: &PeerFile) -> Heard {
    let Some((known_at, bytes)) = file.read(now()) else { return Heard::default() };
    let word = serde_json::from_slice::<Answer>(&bytes).map_err(|error| error.to_string());
    let heard = word.and_then(|Answer { hub, tag, told, own, now, state }| {
        let state = state.ok_or("it has no state")?;
        state.check().map_err(|error| error.to_string())?;
        Ok(Heard::before(PeerWord::new(hub, tag, told, own, state), now, known_at, both_now()))
    });
    let heard = heard.inspect_err(|error| file.is_damaged(error)).ok();
    heard.unwrap_or_else(|| Heard { known_at, ..Heard::default() })
}

/// An answer.
#[derive(Deserialize)]
struct Answer {
    hub: String,
    tag: String,
    #[serde(default)]
    told: Vec<ToldLine>,
    own: Option<HashSet<BTreeMap<String, String>>>,
    /// What the hub's clock for these times says now (ms since 1970); `None`: an older khz does not say.
    now: Option<i64>,
    state: Option<Saved>,
}

impl Asking {
    fn run(mut self) {
        let (mut tag, mut complaint, mut problem) = (String::new(), Complaint::default(), None);
        while !self.is_over.load(Ordering::Relaxed) {
            let (asked, known_at) = (Instant::now(), now());
            if self.file.as_ref().is_some_and(PeerFile::wants_again) {
                // Without a tag, the hub sends its full answer again.
                tag.clear();
            }
            let answer = self.ask(&tag);
            let took = i64::try_from(asked.elapsed().as_millis()).unwrap_or(i64::MAX);
            if let (Some(file), Ok((answer, bytes))) = (&mut self.file, &answer)
                && answer.state.is_some()
            {
                // The word must be on disk before anything follows from it.
                file.write(known_at, bytes);
            }
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.asked = Some(asked);
            match answer {
                Ok((answer, _)) => {
                    tag = answer.tag;
                    let word = answer
                        .state
                        .map(|state| PeerWord::new(answer.hub, tag.clone(), answer.told, answer.own, state));
                    if heard.hear(asked, took, (answer.now, word), both_now()) {
                        tag.clear();
                    }
                    if problem.take().is_some() {
                        tracing::info!("the hub {} answers", self.engine.url());
                    }
                }
                // Without a tag, the hub answers as soon as it can.
                Err(Problem::Starting) => tag.clear(),
                Err(Problem::Wrong(error)) => {
                    // A hub that has died has no news for a request with its last tag. Without a tag, it must answer in full.
                    tag.clear();
                    if problem.as_ref() != Some(&error) || complaint.is_due() {
                        tracing::warn!("it is not known which alerts another hub has: {}", bounded(&error));
                        complaint.is_due();
                    }
                    problem = Some(error);
                }
            }
            drop(heard);
            self.judge.unpark();
            std::thread::sleep(PERIOD.saturating_sub(asked.elapsed()));
        }
    }

    /// Asks for a word that is newer than the one with this tag. Returns the answer, both parsed and as bytes.
    fn ask(&self, tag: &str) -> Result<(Answer, Vec<u8>), Problem> {
        // The secret is read each time, since it may change while khz runs.
        let authorization = self.server.login.authorization()?;
        let headers = self.server.headers.iter().map(|(name, value)| (&**name, &**value));
        let headers: Vec<_> =
            headers.chain(authorization.as_deref().map(|text| ("Authorization", text))).collect();
        let known = [("known".to_owned(), tag.to_owned())];
        let pairs = if tag.is_empty() { &[][..] } else { &known };
        let answer = self.engine.ask(Way::Get, PATH, pairs, &headers).map_err(|error| sentence(&error))?;
        let bytes = whole(answer)?;
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|error| {
            format!("{}{PATH} says what this khz does not understand: {error}", self.engine.url())
        })?;
        let refused =
            |error: khz_rules::RulesError| format!("{}{PATH}: {}", self.engine.url(), sentence(&error));
        answer.state.as_ref().map_or(Ok(()), Saved::check).map_err(refused)?;
        Ok((answer.checked(self.engine.url(), &self.own)?, bytes))
    }
}

impl Answer {
    /// Checks that the answer comes from another hub that judges rules for others. `own` is the identity of this hub.
    fn checked(self, url: &str, own: &str) -> Result<Self, Problem> {
        let wrong = |words: &str| Err(Problem::Wrong(format!("{url} {words}")));
        match self.tag.split_once('-') {
            Some((identity, _)) if identity == own => {
                wrong("is this hub itself: name the other one in [[rules_peer]]")
            }
            _ if !self.tag.is_empty() => Ok(self),
            _ if !self.hub.is_empty() => Err(Problem::Starting),
            _ => wrong("judges no rules for others: it needs rules and a [[rules_peer]] of its own"),
        }
    }
}

fn whole(mut answer: khz_ask::EngineAnswer) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut room = vec![0; 64 << 10];
    loop {
        let count = answer.read(&mut room).map_err(|error| sentence(&error))?;
        bytes.extend_from_slice(&room[..count]);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer of another hub has more than {ANSWER_BYTES_MAX} bytes"));
        }
        if count == 0 {
            return Ok(bytes);
        }
    }
}

impl PeerWord {
    pub fn new(
        hub: String,
        tag: String,
        told: Vec<ToldLine>,
        own: Option<HashSet<BTreeMap<String, String>>>,
        mut state: Saved,
    ) -> Self {
        let nodes: HashSet<Arc<str>> = state.nodes.iter().map(|node| Arc::from(node.as_str())).collect();
        let key = |group: &SavedGroup| (file_name(&group.file).to_owned(), group.name.clone());
        let places = state.groups.iter().enumerate().map(|(place, group)| (key(group), place)).collect();
        let alerts = state.groups.iter().flat_map(|group| {
            let alerts = group.rules.iter().flat_map(|rule| &rule.alerts);
            alerts.map(|alert| (alert, group.restored_from))
        });
        let of_no_node = |labels: &BTreeMap<String, String>| {
            labels.get(NODE_LABEL).is_none_or(|node| !nodes.contains(node.as_str()))
        };
        let mut known: HashMap<BTreeMap<String, String>, Vec<usize>> = HashMap::new();
        for (at, line) in told.iter().enumerate().filter(|(_, line)| of_no_node(&line.labels)) {
            known.entry(line.labels.clone()).or_default().push(at);
        }
        let (mut active, mut resolved) = (HashMap::new(), HashMap::new());
        // Alerts whose rule was removed there are over, too.
        let alerts = alerts.chain(state.gone.iter().map(|gone| (&gone.alert, None)));
        for (alert, restored_from) in alerts.filter(|(alert, _)| of_no_node(&alert.labels)) {
            if alert.state != "inactive" {
                let active_there = Active { fired_here_at: alert.fired_here_at, restored_from };
                active.insert(alert.labels.clone(), active_there);
            } else if let Some(at) = alert.resolved_at.filter(|_| alert.fired_at.is_some()) {
                resolved.insert(alert.labels.clone(), Resolved { at, went_on: alert.went_on });
            }
        }
        // This time holds only for the hub that has judged the alert itself.
        let rules = state.groups.iter_mut().flat_map(|group| &mut group.rules);
        rules.flat_map(|rule| &mut rule.alerts).for_each(|alert| alert.fired_here_at = None);
        let took_over = std::mem::take(&mut state.took_over);
        let down = state.down.take();
        let evaluates_from = state.evaluates_from;
        PeerWord {
            hub,
            nodes,
            down,
            told,
            own,
            known,
            active,
            resolved,
            took_over,
            evaluates_from,
            tag,
            state,
            places,
        }
    }

    /// The same word for a clock that is ahead of the current one by this many ms.
    pub fn shifted(mut self, by: i64) -> Self {
        if by == 0 {
            return self;
        }
        let moved = |time: &mut i64| *time = time.saturating_add(by);
        self.state.shift(by);
        self.told.iter_mut().flat_map(|line| [&mut line.starts_at, &mut line.told_at]).for_each(moved);
        // 0 is no time.
        self.down.iter_mut().flat_map(BTreeMap::values_mut).filter(|went| **went != 0).for_each(moved);
        self.took_over.values_mut().chain(&mut self.evaluates_from).for_each(moved);
        for Active { fired_here_at, restored_from } in self.active.values_mut() {
            fired_here_at.iter_mut().chain(restored_from).for_each(moved);
        }
        self.resolved.values_mut().for_each(|resolved| moved(&mut resolved.at));
        self
    }

    /// The identity of the hub, which changes with each start.
    pub fn identity(&self) -> &str {
        self.tag.rsplit_once('-').map_or("", |(identity, _)| identity)
    }

    /// Whether the hub owns an alert of no node: it sends messages and acts; `None`: an older khz does not say.
    pub fn owns(&self, labels: &Labels) -> Option<bool> {
        self.own.as_ref().map(|own| own.contains(labels))
    }

    /// The messages that people got about an alert.
    pub fn told_of<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a ToldLine> {
        self.known.get(labels).into_iter().flatten().filter_map(|at| self.told.get(*at))
    }

    /// The labels of alerts of these nodes that fire there.
    pub fn firing_of<'a>(
        &'a self,
        nodes: &'a BTreeSet<Arc<str>>,
    ) -> impl Iterator<Item = &'a BTreeMap<String, String>> {
        let alerts = self.state.groups.iter().flat_map(|group| &group.rules).flat_map(|rule| &rule.alerts);
        let is_of = |labels: &BTreeMap<String, String>| {
            labels.get(NODE_LABEL).is_some_and(|node| nodes.contains(node.as_str()))
        };
        let firing = alerts.filter(|alert| alert.state == "firing").map(|alert| &alert.labels);
        firing.filter(move |labels| is_of(labels))
    }

    /// Its alerts that have no rule in these groups, and those that had none there.
    pub fn without_rule<'a>(&self, groups: impl Iterator<Item = &'a Arc<Group>>, now: i64) -> Vec<GoneAlert> {
        let here: HashMap<(&str, &str), &Arc<Group>> =
            groups.map(|group| ((file_name(&group.file), &*group.name), group)).collect();
        let of_group = |saved: &SavedGroup| {
            let group = here.get(&(file_name(&saved.file), saved.name.as_str()));
            saved.without_rule(group.map(|group| &***group), now)
        };
        let there = self.state.gone.iter().filter_map(|gone| gone.alert(now));
        self.state.groups.iter().flat_map(of_group).chain(there).collect()
    }

    /// The saved state of a group: that of the same name in a file of the same name. Otherwise a group with the same rules that is
    /// not here, since a user renamed the group or its file.
    pub fn group(&self, group: &Group, is_here: &dyn Fn(&SavedGroup) -> bool) -> Option<&SavedGroup> {
        match self.places.get(&(file_name(&group.file).to_owned(), group.name.to_string())) {
            Some(place) => self.state.groups.get(*place),
            None => self
                .state
                .groups
                .iter()
                .find(|saved| saved.rules.iter().any(|rule| rule.is_in(group)) && !is_here(saved)),
        }
    }
}

/// Whether two hubs mean the same group.
pub(super) fn is_same(group: &Group, saved: &SavedGroup) -> bool {
    file_name(&group.file) == file_name(&saved.file) && *group.name == *saved.name
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use khz_rules::RuleSet;

    use super::*;

    /// A word of another hub, as JSON.
    fn word(tag: &str, file: &str) -> String {
        let labels = |node: &str| format!("{{\"alertname\":\"A\",\"instance\":\"{node}\"}}");
        let alert = |node: &str, state: &str, fired: &str| {
            format!(
                "{{\"state\":\"{state}\",\"labels\":{},\"annotations\":{{}},\"value\":\"1\",\"active_at\":5{fired}}}",
                labels(node)
            )
        };
        let alerts = [
            alert("n1", "firing", ",\"fired_at\":7"),
            alert("web", "firing", ",\"fired_at\":6,\"fired_here_at\":7"),
            // This one has learned of it from another hub, and has not judged it itself.
            alert("ntp", "firing", ",\"fired_at\":6"),
            alert("mail", "pending", ""),
            alert("over", "inactive", ",\"fired_at\":7,\"resolved_at\":8"),
            alert("never", "inactive", ",\"resolved_at\":8"),
        ];
        format!(
            "{{\"hub\":\"hub2\",\"tag\":\"{tag}\",\"heard\":[],\"told\":[{{\"way\":\"keep\",\"labels\":{},\"starts_at\":7,\"told_at\":8}}],\
             \"state\":{{\"khz_rules\":1,\"nodes\":[\"n1\"],\"groups\":[{{\"file\":\"{file}\",\"name\":\"g\",\"time\":9,\
             \"rules\":[{{\"name\":\"A\",\"labels\":{{}},\"alerts\":[{}]}}]}}],\"gone\":[{}]}}}}",
            labels("n1"),
            alerts.join(","),
            alert("gone", "inactive", ",\"fired_at\":7,\"resolved_at\":9")
        )
    }

    #[test]
    fn a_hub_that_has_only_begun_is_told_from_one_that_judges_for_nobody() {
        let of = |text: &str| serde_json::from_str::<Answer>(text).unwrap().checked("http://h", "own");
        let words = |text: &str| match of(text) {
            Err(Problem::Wrong(words)) => words,
            _ => String::new(),
        };
        assert_eq!(of(r#"{"hub":"h","tag":""}"#).err(), Some(Problem::Starting));
        assert!(words(r#"{"hub":"","tag":""}"#).contains("needs rules and a [[rules_peer]]"));
        assert!(words(r#"{"hub":"h","tag":"own-1"}"#).contains("is this hub itself"));
        assert!(of(r#"{"hub":"h","tag":"other-1"}"#).is_ok());
    }

    #[test]
    fn a_word_has_nodes_groups_of_files_in_any_directory_and_alerts_that_are_of_no_node() {
        let Answer { hub, tag, told, own, state, .. } =
            serde_json::from_str(&word("a-1", "/elsewhere/a.yml")).unwrap();
        let word = PeerWord::new(hub, tag, told, own, state.unwrap());
        assert!(word.nodes.contains("n1") && word.told[0].way == "keep");
        let mut active: Vec<(&str, Option<i64>)> = word
            .active
            .iter()
            .map(|(labels, active)| (labels[NODE_LABEL].as_str(), active.fired_here_at))
            .collect();
        active.sort_unstable();
        assert_eq!(active, [("mail", None), ("ntp", None), ("web", Some(7))]);
        let alerts = word.state.groups.iter().flat_map(|group| &group.rules).flat_map(|rule| &rule.alerts);
        assert!(alerts.into_iter().all(|alert| alert.fired_here_at.is_none()), "it was judged there");
        let mut resolved: Vec<(&str, i64)> = word
            .resolved
            .iter()
            .map(|(labels, resolved)| (labels[NODE_LABEL].as_str(), resolved.at))
            .collect();
        resolved.sort_unstable();
        assert_eq!(resolved, [("gone", 9), ("over", 8)]);
        let found = |text: &str| -> Vec<bool> {
            let set = RuleSet::parse(Path::new("/etc/khz/rules/a.yml"), text.as_bytes()).unwrap();
            let is_here = |saved: &SavedGroup| set.groups().any(|group| is_same(group, saved));
            set.groups().map(|group| word.group(group, &is_here).is_some()).collect()
        };
        let rules = "rules: [{alert: A, expr: up}]";
        assert_eq!(found(&format!("groups: [{{name: g, {rules}}}, {{name: h, {rules}}}]")), [true, false]);
        assert_eq!(found(&format!("groups: [{{name: h, {rules}}}]")), [true], "it has another name now");
        assert_eq!(found("groups: [{name: h, rules: [{alert: B, expr: up}]}]"), [false]);
    }
}
