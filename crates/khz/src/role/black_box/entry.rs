//! What is known of one freeze: in the list on the disk, in answers, and in the last note of its recording.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use khz_model::NodeName;
use khz_model::fold::fold;
use khz_model::hostlist::Hostlist;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wall;

/// The most joined causes that a freeze names. The list is written for each of them, so a storm of causes must mean few writes.
const JOINED_MAX: usize = 16;

/// How a node is doing with a freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// The node was asked to freeze, and has not answered.
    Asked,
    /// The content of its rings is safe.
    Marked,
    /// The node keeps all rows, and the hub does not have them yet.
    Kept,
    /// Its rows are in the recording.
    Fetched,
    /// The node's rows are in the recording, except some that were asked for.
    Short,
    /// The node keeps nothing, or was not asked.
    Missing,
}

impl NodeState {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            NodeState::Asked => "asked",
            NodeState::Marked => "marked",
            NodeState::Kept => "kept",
            NodeState::Fetched => "fetched",
            NodeState::Short => "short",
            NodeState::Missing => "missing",
        }
    }

    /// True if nothing more comes from this node.
    pub const fn is_over(self) -> bool {
        matches!(self, NodeState::Fetched | NodeState::Short | NodeState::Missing)
    }
}

/// Nodes with the same state, for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What they did.
    pub state: String,
    /// Why; may be empty.
    pub text: String,
    /// Their names, as a hostlist.
    pub nodes: String,
    /// How many they are.
    pub count: u64,
}

/// Groups nodes by what they did.
pub fn groups<'a>(nodes: impl Iterator<Item = (&'a NodeName, NodeState, &'a str)>) -> Vec<Group> {
    let mut all: BTreeMap<(NodeState, &str), Vec<&str>> = BTreeMap::new();
    for (node, state, text) in nodes {
        all.entry((state, text)).or_default().push(node.as_str());
    }
    let group = |((state, text), nodes): ((NodeState, &str), Vec<&str>)| Group {
        state: state.word().to_owned(),
        text: text.to_owned(),
        count: nodes.len() as u64,
        nodes: fold(nodes),
    };
    all.into_iter().map(group).collect()
}

/// A moment of one run of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinceBoot {
    /// The boot. After the next boot, nobody can say how long ago the moment was.
    pub boot: String,
    /// Time since then, ns.
    pub at: u64,
}

impl SinceBoot {
    /// Now; `None`: the kernel does not say which boot this is.
    pub fn now() -> Option<Self> {
        Some(SinceBoot { boot: this_boot()?.to_owned(), at: super::since_boot().0 })
    }
}

/// The name of this boot.
fn this_boot() -> Option<&'static str> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    BOOT.get_or_init(|| read().map(|text| text.trim().to_owned())).as_deref()
}

/// One freeze. Times are ns, those of the wall clock since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number for people.
    pub id: u64,
    /// Its number for nodes.
    pub number: u64,
    /// The moment, by the wall clock as it was then.
    pub at: i64,
    /// The same moment by a clock that nobody sets. Durations are measured by it.
    #[serde(default)]
    pub since_boot: Option<SinceBoot>,
    /// How long before the moment its rows begin.
    pub before: u64,
    /// How long after the moment its rows end.
    pub after: u64,
    /// Why.
    pub cause: String,
    /// The first few other causes of the same time.
    #[serde(default)]
    pub also: Vec<String>,
    /// How many they were.
    #[serde(default)]
    pub joined: u64,
    /// The nodes, as a hostlist.
    pub asked: String,
    /// How many they are.
    pub nodes: u64,
    /// Nothing more is fetched.
    #[serde(default)]
    pub is_over: bool,
    /// What its nodes did, known once the freeze is over.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Rows in the recording.
    #[serde(default)]
    pub rows: u64,
    /// Bytes of the recording.
    #[serde(default)]
    pub bytes: u64,
    /// The time from the moment to the last answer of a node that was present.
    #[serde(default)]
    pub marked: Option<u64>,
    /// The time from the end of the frozen time to the last row.
    #[serde(default)]
    pub fetched: Option<u64>,
    /// Why the recording holds less than it could.
    #[serde(default)]
    pub problem: Option<String>,
}

impl Entry {
    /// A freeze that begins.
    pub fn new(id: u64, number: u64, at: i64, before: u64, after: u64, cause: String) -> Self {
        Entry {
            id,
            number,
            at,
            since_boot: None,
            before,
            after,
            cause,
            also: Vec::new(),
            joined: 0,
            asked: String::new(),
            nodes: 0,
            is_over: false,
            groups: Vec::new(),
            rows: 0,
            bytes: 0,
            marked: None,
            fetched: None,
            problem: None,
        }
    }

    /// True if the freeze should name a joining cause: the cause is new, and the freeze has few causes so far.
    pub fn has_room_for(&self, cause: &str) -> bool {
        let is_known = cause == self.cause || self.also.iter().any(|one| one == cause);
        !is_known && self.also.len() < JOINED_MAX
    }

    /// A cause joins it.
    pub fn join(&mut self, cause: &str) {
        self.joined += 1;
        if self.has_room_for(cause) {
            self.also.push(cause.to_owned());
        }
    }

    /// The nodes that were asked.
    pub fn asked_nodes(&self) -> BTreeSet<NodeName> {
        let names = Hostlist::new(&self.asked).map(|list| list.named()).unwrap_or_default();
        names.iter().filter_map(|name| NodeName::new(name).ok()).collect()
    }

    /// The moment, in ns since this boot; `None`: it was before this boot, or is not known.
    pub fn since_boot(&self) -> Option<u64> {
        let then = self.since_boot.as_ref()?;
        (this_boot() == Some(&*then.boot)).then_some(then.at)
    }

    /// The moment by our wall clock as it is now, since somebody may have set it meanwhile.
    pub fn at_now(&self) -> i64 {
        let ago = |at| super::since_boot().0.saturating_sub(at);
        self.since_boot().map_or(self.at, |at| wall().saturating_sub_unsigned(ago(at)))
    }

    /// Our wall clock minus the time since boot, at the moment. If the moment was before this boot, the current value.
    pub fn real_offset(&self) -> i64 {
        match self.since_boot() {
            Some(at) => self.at.saturating_sub_unsigned(at),
            None => wall().saturating_sub_unsigned(super::since_boot().0),
        }
    }

    /// The entry as a JSON object. `groups`: the current states of its nodes. `left`: bytes of its recording that are there.
    pub fn shown(&self, groups: Option<Vec<Group>>, left: u64) -> String {
        if !self.is_over || left >= self.bytes {
            return self.to_value(groups).to_string();
        }
        let lost = match left {
            0 => "its recording is missing: somebody has removed or moved it".to_owned(),
            _ => format!("its recording is not whole any more: {left} of {} bytes are left", self.bytes),
        };
        Entry { bytes: left, problem: Some(lost), ..self.clone() }.to_value(groups).to_string()
    }

    fn to_value(&self, groups: Option<Vec<Group>>) -> Value {
        let state = if self.is_over { "done" } else { "running" };
        let groups = groups.unwrap_or_else(|| self.groups.clone());
        json!({
            "id": self.id,
            "state": state,
            "cause": self.cause,
            "also": self.also,
            "joined": self.joined,
            "at": seconds(self.at),
            "before": seconds(i64::try_from(self.before).unwrap_or(i64::MAX)),
            "after": seconds(i64::try_from(self.after).unwrap_or(i64::MAX)),
            "asked": self.asked,
            "nodes": self.nodes,
            "groups": groups,
            "rows": self.rows,
            "bytes": self.bytes,
            "marked_after": self.marked.map(|ns| seconds(i64::try_from(ns).unwrap_or(i64::MAX))),
            "fetched_after": self.fetched.map(|ns| seconds(i64::try_from(ns).unwrap_or(i64::MAX))),
            "problem": self.problem,
        })
    }

    /// The same for the notes of its recording.
    pub fn note(&self) -> Value {
        json!({ "program": "khz hub", "freeze": self.to_value(None) })
    }
}

/// Seconds with nanoseconds.
fn seconds(ns: i64) -> String {
    let (seconds, rest) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    format!("{seconds}.{rest:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_did_the_same_are_one_group() {
        let name = |text: &str| NodeName::new(text).expect("a good name");
        let nodes = [name("n1"), name("n2"), name("n3"), name("x")];
        let states = [NodeState::Fetched, NodeState::Missing, NodeState::Fetched, NodeState::Missing];
        let texts = ["", "the node is down", "", "the node is down"];
        let all = nodes.iter().zip(states).zip(texts).map(|((node, state), text)| (node, state, text));
        let found: Vec<_> =
            groups(all).into_iter().map(|group| (group.state, group.nodes, group.count)).collect();
        let (fetched, missing) = ("fetched".to_owned(), "missing".to_owned());
        assert_eq!(found, [(fetched, "n[1,3]".to_owned(), 2), (missing, "n2,x".to_owned(), 2)]);
    }

    #[test]
    fn an_entry_is_read_back_from_its_line_and_names_its_nodes() {
        let mut entry = Entry::new(7, u64::MAX, -1, 20_000_000_000, 5_000_000_000, "a \"crash\"".to_owned());
        (entry.asked, entry.nodes) = ("n[1-2]".to_owned(), 2);
        let line = serde_json::to_string(&entry).expect("JSON");
        assert_eq!(serde_json::from_str::<Entry>(&line).expect("an entry"), entry);
        let names: Vec<String> = entry.asked_nodes().iter().map(|node| node.to_string()).collect();
        assert_eq!(names, ["n1", "n2"]);
        assert_eq!(entry.since_boot(), None, "nobody has measured it");
        let shown: Value = serde_json::from_str(&entry.shown(None, u64::MAX)).expect("JSON");
        assert_eq!(
            (shown["at"].as_str(), shown["before"].as_str()),
            (Some("-1.999999999"), Some("20.000000000"))
        );
    }
    #[test]
    fn a_moment_of_another_boot_is_not_measured_against_this_one() {
        let mut entry = Entry::new(7, 1, 0, 0, 0, String::new());
        entry.since_boot = SinceBoot::now();
        assert!(entry.since_boot().is_some());
        entry.since_boot = Some(SinceBoot { boot: "another".to_owned(), at: 5 });
        assert_eq!(entry.since_boot(), None);
    }

    #[test]
    fn a_moment_stays_where_it_was_when_our_wall_clock_is_set() {
        let hour = 3_600_000_000_000;
        for set in [-hour, 0, hour] {
            // It was 5 s ago, and then the clock was set.
            let mut entry = Entry::new(7, 1, wall() - 5_000_000_000 - set, 0, 0, String::new());
            entry.since_boot = SinceBoot::now();
            entry.since_boot.as_mut().expect("a boot").at -= 5_000_000_000;
            let second = 1_000_000_000;
            assert!((wall() - entry.at_now() - 5 * second).abs() < second, "set by {set}");
            let rows = entry.since_boot().expect("this boot") as i64 + entry.real_offset();
            assert_eq!(rows, entry.at, "a row of the moment has its time");
        }
    }

    #[test]
    fn a_freeze_whose_recording_is_gone_or_cut_off_says_so() {
        let mut entry = Entry::new(7, 1, 0, 0, 0, String::new());
        (entry.is_over, entry.rows, entry.bytes) = (true, 5, 900);
        let shown = |left| serde_json::from_str::<Value>(&entry.shown(None, left)).expect("JSON");
        assert_eq!((shown(900)["bytes"].as_u64(), shown(900)["problem"].as_str()), (Some(900), None));
        for (left, expected) in [(0, "is missing"), (899, "899 of 900 bytes are left")] {
            let gone = shown(left);
            assert_eq!(gone["bytes"].as_u64(), Some(left));
            assert!(gone["problem"].as_str().is_some_and(|text| text.contains(expected)), "{gone}");
        }
    }
}
