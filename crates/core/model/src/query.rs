//! The one interface that every door reads through: the latest readings, rows as they come, and history. A
//! single node and a hub implement it; a door never knows which of them answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::calendar::utc;
use crate::channel::{ChannelName, ChannelTerms};
use crate::look::{Columns, Look, SnapshotLook, Wanted};
use crate::metric::Metric;
use crate::name::NodeName;
use crate::pattern::Pattern;
use crate::quantity::{Nanos, Rate, Stamp};
use crate::range::{RangeAnswer, RangeRequest, Reach};
use crate::reading::Reading;
use crate::schema::Series;

/// Readings in one request for the history of a node: a thousand rows of a thousand series, 16 MiB. A person
/// cannot take in more at once.
pub const HISTORY_READINGS_MAX: usize = 1 << 20;

/// A future that a [`Query`] hands out.
pub type WaitFor<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that answers requests for readings.
pub trait Query: Send + Sync {
    /// The nodes it knows, in name order.
    fn nodes(&self) -> Vec<NodeName>;

    /// The metrics it knows, in catalogue order.
    fn metrics(&self) -> Vec<Arc<Metric>>;

    /// The series of a node; nodes that are alike may share them. `None`: not known.
    fn series(&self, node: &NodeName) -> Option<Arc<dyn Columns>> {
        let _ = node;
        None
    }

    /// Whether the series of the node are known. A hub does not know those of a node that has not connected
    /// since the hub started.
    fn is_described(&self, node: &NodeName) -> bool {
        let _ = node;
        true
    }

    /// The fastest rate that a reader may ask for.
    fn rate_max(&self) -> Rate;

    /// The latest reading of every series that a pattern selects. Gathers again first where rows are older
    /// than `age_max`; all requests within one window share one gather.
    fn latest<'a>(
        &'a self,
        patterns: &'a [Pattern],
        age_max: Nanos,
    ) -> WaitFor<'a, Result<Snapshot, QueryError>>;

    /// Asks all nodes whose rows are older than `age_max` for newer ones, all at once; ready when they have
    /// answered. To stop waiting, drop the future; [`Query::latest`] then returns the rows that are there.
    /// Does nothing if `latest` itself gathers.
    fn renew<'a>(&'a self, patterns: &'a [Pattern], age_max: Nanos) -> WaitFor<'a, ()> {
        let _ = (patterns, age_max);
        Box::pin(std::future::ready(()))
    }

    /// The latest readings without copies. Gathers again first where rows are older than `age_max`; all
    /// requests within one window share one gather.
    fn look<'a>(&'a self, wanted: &Wanted, age_max: Nanos) -> Box<dyn Look + 'a> {
        Box::new(SnapshotLook::new(self, wanted, age_max))
    }

    /// The latest readings of the nodes that some patterns select, without copies, with everything that these
    /// nodes have. Fails where [`Query::latest`] does.
    fn look_at<'a>(&'a self, patterns: &[Pattern], age_max: Nanos) -> Box<dyn Look + 'a> {
        Box::new(SnapshotLook::at(self, patterns.to_vec(), age_max))
    }

    /// Rows as they come, until the subscription is dropped; dropping it cancels it.
    fn subscribe(&self, interest: Interest) -> Result<Box<dyn Subscription>, QueryError>;

    /// The same, for a reader that had another subscription: where the rows of a node come in the same lane as there, they go on
    /// after the last one that the reader has ([`Subscription::places`]).
    fn subscribe_after(
        &self,
        interest: Interest,
        places: &[(NodeName, RowNumber)],
    ) -> Result<Box<dyn Subscription>, QueryError> {
        let _ = places;
        self.subscribe(interest)
    }

    /// Rows of one node of the last `span`, oldest first, evenly thinned to at most `rows_max`; `None`: it
    /// has none. More than [`HISTORY_READINGS_MAX`] are refused.
    fn history_of(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Option<Delivery>, QueryError>;

    /// The same for every node that the patterns select, all at once: for callers that know this to be
    /// little.
    fn history(
        &self,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Vec<Delivery>, QueryError> {
        let mut nodes = self.nodes();
        nodes.retain(|node| patterns.iter().any(|pattern| pattern.matches_node(node.as_str())));
        let past = nodes.iter().map(|node| self.history_of(node, patterns, span, rows_max));
        past.filter_map(Result::transpose).collect()
    }

    /// Metrics of the past, for a caller that uses the names of Prometheus; the newest metrics may be missing.
    fn past_metrics(&self) -> Vec<Arc<Metric>> {
        Vec::new()
    }

    /// The owners of recorded series ([`crate::recorded`]). They are no nodes: only ranges have them.
    fn owners(&self) -> Vec<NodeName> {
        Vec::new()
    }

    /// The times for which the past has data.
    fn reach(&self) -> Reach {
        Reach::default()
    }

    /// What series were at some time in the past: out of a store or, without one, out of the rows that are still in memory.
    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        let _ = request;
        Err(QueryError::NoStore)
    }

    /// The state of every node, in name order.
    fn status(&self) -> Vec<NodeStatus> {
        self.nodes().into_iter().map(NodeStatus::here).collect()
    }

    /// The state of these nodes, in their order, without those that it does not know: for answers that show thousands of
    /// nodes, a few at a time.
    fn status_of(&self, nodes: &[NodeName]) -> Vec<NodeStatus> {
        let mut status = self.status();
        status.retain(|status| nodes.contains(&status.node));
        status
    }

    /// Forgets those nodes of a hostlist that are gone. A node that comes back is known again. Only a hub
    /// remembers nodes. It may wait for a disk.
    fn forget(&self, nodes: &Pattern) -> Result<Forgotten, QueryError> {
        let _ = nodes;
        Err(QueryError::NoMemory)
    }

    /// The answering program's own numbers, for its exposition. `None` if the program is itself a node: then its own
    /// numbers are among the samples of that node.
    fn own(&self) -> Option<Vec<Sample>> {
        None
    }
}

/// A reader's subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Interest {
    /// Which series.
    pub patterns: Vec<Pattern>,
    /// How often.
    pub rate: Rate,
    /// Sample at that rate even where the kernel refreshes the number more slowly.
    pub exact: bool,
    /// How nodes process the rows before they send them; `None`: not at all.
    pub channel: Option<Arc<ChannelTerms>>,
}

impl Interest {
    /// The series of these patterns as the nodes read them.
    pub fn new(patterns: Vec<Pattern>, rate: Rate, exact: bool) -> Self {
        Interest { patterns, rate, exact, channel: None }
    }
}

impl LaneStatus {
    /// Whether the lane runs slower than asked.
    pub fn is_slowed(&self) -> bool {
        self.rate.is_slowed_from(self.asked)
    }
}

/// A function that is called when something may have come, from any thread. Its caller may hold locks and must meet a tick. So
/// the function must not wait, must not touch the subscription, and should not allocate.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// A stream of rows that the reader empties by polling.
pub trait Subscription: Send {
    /// Everything since the last call; never waits. One delivery for each node with something new.
    fn poll(&mut self) -> Vec<Delivery>;

    /// The same, but stops soon after this many readings; the next call returns the rest.
    fn poll_some(&mut self, readings_max: usize) -> Vec<Delivery> {
        let _ = readings_max;
        self.poll()
    }

    /// Rings this bell from now on after each row and for each notice, as soon as it can be polled. `false`: it cannot ring,
    /// and the reader polls at its own times. A notice that a node is slower than requested need not ring.
    fn ring(&mut self, bell: &Bell) -> bool {
        let _ = bell;
        false
    }

    /// The rate that was granted.
    fn rate(&self) -> Rate;

    /// The last row of each node that was handed out, as far as they have numbers.
    fn places(&self) -> Vec<(NodeName, RowNumber)> {
        Vec::new()
    }

    /// News for the reader since the last call: a node refused or lowered the rate, runs as asked again, has gone
    /// or is back.
    fn notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }
}

/// News for a reader about its subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The node that it concerns.
    pub node: NodeName,
    /// One sentence.
    pub text: String,
    /// The new state of the node, and since when (ns since 1970); `None`: the notice is about something else.
    pub change: Option<(Presence, Nanos)>,
    /// The node refuses the channel: it will send no rows of it.
    pub is_refusal: bool,
    /// The node sends the channel without some of its series, or (`Some(false)`) with all of them again.
    pub leaves_out: Option<bool>,
}

impl Notice {
    /// What is said of a node that had refused a channel, and sends it now.
    pub const SENDS_NOW: &str = "sends the channel now";

    /// The end of the notice that a node refuses a channel only for now: the node may send the
    /// channel later.
    pub const TRIES_AGAIN: &str = "the node tries again when others have ended";

    /// A refusal with that end.
    pub fn for_now(refusal: &str) -> String {
        match refusal.contains(Notice::TRIES_AGAIN) {
            true => refusal.to_owned(),
            false => format!("{refusal}; {}", Notice::TRIES_AGAIN),
        }
    }

    /// A notice that is not about a node's state.
    pub fn of(node: NodeName, text: impl Into<String>) -> Self {
        Notice { node, text: text.into(), change: None, is_refusal: false, leaves_out: None }
    }
}

/// Some consecutive rows of one node.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The node.
    pub node: NodeName,
    /// The columns of the rows; the same `Arc` until they change.
    pub columns: Arc<Vec<Series>>,
    /// The rows, oldest first. A row may be shorter than `columns`: later columns did not exist yet.
    pub rows: Vec<Row>,
    /// Rows that were overwritten before this reader fetched them.
    pub lost: u64,
    /// The present rate of these rows: lower than asked where the node would exceed its CPU ceiling. `None`:
    /// the subscription's rate.
    pub rate: Option<Rate>,
    /// The number of the last of these rows; `None`: there is no row, or nobody counts them.
    pub last: Option<RowNumber>,
}

/// The number of a row, by which a reader who has lost its connection finds out how many rows it has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowNumber {
    /// The run of numbers that it is of. Numbers of two epochs cannot be compared.
    pub epoch: u64,
    /// The number within it.
    pub number: u64,
}

/// All columns at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it was gathered.
    pub stamp: Stamp,
    /// One reading for each column.
    pub readings: Vec<Reading>,
}

/// A series and its latest reading.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was read.
    pub series: Series,
    /// The reading.
    pub reading: Reading,
    /// When it was gathered.
    pub stamp: Stamp,
}

/// The latest readings of some nodes.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// For each node its samples, in slot order.
    pub nodes: Vec<(NodeName, Vec<Sample>)>,
    /// Nodes that a pattern names and that did not answer.
    pub missing: Vec<String>,
}

/// The state of a node, as its hub or the program itself sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// Connected and heard from within the last seconds.
    pub up: bool,
    /// Its agent was stopped on purpose, and said so.
    pub left: bool,
    /// The configuration lists it.
    pub expected: bool,
    /// Time since something was heard from it; `None`: it is read in this process.
    pub heard: Option<Nanos>,
    /// How long it has been up, or down.
    pub since: Option<Nanos>,
    /// The address it connects from.
    pub address: Option<String>,
    /// The version of its program.
    pub version: String,
    /// Its lanes.
    pub lanes: Vec<LaneStatus>,
    /// Its wall clock minus ours, in ns.
    pub clock_offset: Option<i64>,
    /// Round trip time between it and us.
    pub round_trip: Option<Nanos>,
    /// TCP segments that it had to retransmit.
    pub retransmitted: Option<u64>,
    /// How many times it connected.
    pub connects: u64,
    /// Why it was last refused or cut off.
    pub problem: Option<String>,
    /// Nothing has proved its name; it is believed (`--insecure`).
    pub believed: bool,
    /// The name of the hub that it reports to; `None`: it is read in this process, or the hub is not known.
    pub hub: Option<String>,
    /// Why it is not at the first hub of its list.
    pub away: Option<Away>,
}

/// Why a node is not at the first hub of its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// That first hub, as the node's settings name it.
    pub first: String,
    /// Why the node is not there; may be empty.
    pub problem: String,
    /// Time since it left that hub, or failed to connect.
    pub since: Option<Nanos>,
    /// How long it takes at least until the node goes to a better hub; `None`: it stays where it is.
    pub back: Option<Nanos>,
}

/// The state of a node in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Connected and heard from.
    Up,
    /// Was connected once, and is silent now.
    Down,
    /// Was stopped on purpose, and said so.
    Left,
    /// Expected, and never heard from.
    Missing,
}

impl Presence {
    /// The state as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Presence::Up => "up",
            Presence::Down => "down",
            Presence::Left => "left",
            Presence::Missing => "missing",
        }
    }
}

/// What happened to the nodes that were to be forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Nodes that are no longer known.
    pub nodes: Vec<NodeName>,
    /// The forgotten nodes that the configuration lists; from now on they count as missing.
    pub expected: Vec<NodeName>,
    /// Nodes that are still known, each with the reason.
    pub refused: Vec<(NodeName, String)>,
}

/// A lane of a node, as its hub or the program itself sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// Its name, such as `base`.
    pub name: String,
    /// Its present rate.
    pub rate: Rate,
    /// The rate that was asked for; at its CPU ceiling a node runs slower.
    pub asked: Rate,
    /// How many slots it has.
    pub slots: u64,
    /// Age of its newest row.
    pub age: Option<Nanos>,
    /// Rows received.
    pub rows: u64,
    /// Rows that have not come and that the node, as far as we know, still has.
    pub awaited: u64,
    /// Rows that are lost: the node no longer has them.
    pub lost: u64,
    /// Rows that came after a younger row.
    pub late: u64,
}

impl NodeStatus {
    /// Whether the node is there.
    pub fn presence(&self) -> Presence {
        match (self.up, self.left, self.heard) {
            (true, ..) => Presence::Up,
            (false, true, _) => Presence::Left,
            (false, false, None) if self.expected => Presence::Missing,
            (false, false, _) => Presence::Down,
        }
    }

    /// The node that is read in this process: it is up whenever somebody can ask.
    pub fn here(node: NodeName) -> Self {
        NodeStatus {
            node,
            up: true,
            left: false,
            expected: false,
            heard: None,
            since: None,
            address: None,
            version: env!("CARGO_PKG_VERSION").into(),
            lanes: Vec::new(),
            clock_offset: None,
            round_trip: None,
            retransmitted: None,
            connects: 0,
            problem: None,
            believed: false,
            hub: None,
            away: None,
        }
    }
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The patterns select nothing that exists.
    #[error("nothing matches {patterns}; `khz catalog` lists every metric")]
    NothingMatches {
        /// The patterns as written.
        patterns: String,
    },
    /// The rate is above the ceiling.
    #[error("{asked} is above this agent's ceiling of {ceiling}")]
    AboveCeiling {
        /// The rate that was asked for.
        asked: Rate,
        /// The rate that is possible.
        ceiling: Rate,
    },
    /// A named limit is reached.
    #[error("the limit of {limit} {what} is reached; try again when others have gone")]
    Full {
        /// The things of which there are too many.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The program that answers does not remember nodes.
    #[error("only a hub remembers nodes")]
    NoMemory,
    /// What was forgotten will be known again.
    #[error(
        "the nodes are forgotten, but the hub cannot write its list of nodes, and will know them again after a restart: \
         see its log, and forget them once more"
    )]
    Unwritten,
    /// The program that answers has no store.
    #[error("this khz keeps no history on a disk; a hub does with `khz hub --store DIR`")]
    NoStore,
    /// The program that answers has no store, and its rows in memory are younger.
    #[error(
        "this khz keeps no history on a disk, and {}; with `khz hub --store DIR` (or `khz --store DIR`) it keeps them",
        only_since(*.first)
    )]
    OnlySince {
        /// When the first of the rows was gathered, if there is a row.
        first: Option<Nanos>,
    },
    /// The answer to a range query is too large.
    #[error(
        "the answer has more than {limit} readings; ask for fewer series or nodes, for a shorter time, or for points"
    )]
    RangeTooLarge {
        /// How many it may have.
        limit: u64,
    },
    /// A range query asks for more points of each series than an answer may have.
    #[error("the answer has more than {limit} points of a series; ask for fewer points")]
    RangeTooFine {
        /// How many a series may have.
        limit: u64,
    },
    /// A range that ends before it begins.
    #[error("the range ends before it begins: 'from' must be before 'to'")]
    RangeBackwards,
    /// The requested piece of history is too large.
    #[error(
        "{node} has more than {HISTORY_READINGS_MAX} readings in that time; ask for fewer series, fewer rows or a shorter span"
    )]
    TooMuch {
        /// The node.
        node: NodeName,
    },
    /// A node cannot do what a channel requests.
    #[error("channel {channel}: {problem}")]
    Channel {
        /// Its name.
        channel: ChannelName,
        /// Why not.
        problem: String,
        /// It may be able to when other channels have ended.
        for_now: bool,
    },
    /// The gatherer has ended.
    #[error("the gatherer has stopped")]
    Stopped,
}

impl QueryError {
    /// True if the same may be possible when others have gone.
    pub fn is_for_now(&self) -> bool {
        matches!(self, QueryError::Full { .. } | QueryError::Channel { for_now: true, .. })
    }
}

/// How far back memory goes.
fn only_since(first: Option<Nanos>) -> String {
    match first {
        Some(first) => format!("has rows in memory only since {}", utc(first)),
        None => "has no rows in memory yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::schema::tests::series;

    /// Two nodes with two numbers each, one of them gathered later, and a node that does not answer.
    struct Fake;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    fn stamp(boot: u64) -> Stamp {
        Stamp { boot: Nanos(boot), real_offset: 0 }
    }

    impl Query for Fake {
        fn nodes(&self) -> Vec<NodeName> {
            ["a", "b", "silent"].map(name).to_vec()
        }
        fn metrics(&self) -> Vec<Arc<Metric>> {
            ["load", "mem"].map(|name| series(name, None, None).metric).to_vec()
        }
        fn rate_max(&self) -> Rate {
            Rate::from_hz(10).unwrap()
        }
        fn latest<'a>(
            &'a self,
            patterns: &'a [Pattern],
            _: Nanos,
        ) -> WaitFor<'a, Result<Snapshot, QueryError>> {
            let mut snapshot = Snapshot::default();
            for (place, node) in self.nodes().into_iter().enumerate() {
                if !patterns.iter().any(|pattern| pattern.matches_node(node.as_str())) {
                    continue;
                }
                if node.as_str() == "silent" {
                    snapshot.missing.push(node.to_string());
                    continue;
                }
                let mut samples = vec![
                    Sample {
                        series: series("load", None, None),
                        reading: Reading::Present(place as u64),
                        stamp: stamp(5),
                    },
                    Sample {
                        series: series("mem", None, None),
                        reading: Reading::Present(70),
                        stamp: stamp(6),
                    },
                ];
                samples.retain(|sample| sample.series.is_selected(patterns));
                snapshot.nodes.push((node, samples));
            }
            Box::pin(std::future::ready(Ok(snapshot)))
        }
        fn subscribe(&self, _: Interest) -> Result<Box<dyn Subscription>, QueryError> {
            Err(QueryError::NoMemory)
        }
        fn history_of(
            &self,
            node: &NodeName,
            _: &[Pattern],
            span: Nanos,
            rows_max: usize,
        ) -> Result<Option<Delivery>, QueryError> {
            let row = Row { stamp: stamp(span.0), readings: Vec::new() };
            let columns = Arc::default();
            let delivery = Delivery {
                node: node.clone(),
                columns,
                rows: vec![row; rows_max],
                lost: 0,
                rate: None,
                last: None,
            };
            Ok((node.as_str() != "silent").then_some(delivery))
        }
    }

    fn now<T>(mut future: WaitFor<'_, T>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("it makes its readers wait"),
        }
    }

    /// Each node's parts: when they were gathered, their series and values.
    fn shown(look: &mut dyn crate::Look) -> Vec<String> {
        let mut lines = Vec::new();
        while look.next(&mut |node, parts| {
            for part in parts {
                let names: Vec<String> = part.columns.series().iter().map(ToString::to_string).collect();
                lines.push(format!(
                    "{node} {} {names:?} {:?} {:?}",
                    part.stamp.boot, part.values, part.states
                ));
            }
        }) {}
        lines
    }

    #[test]
    fn a_look_shows_the_wanted_nodes_in_parts_of_one_instant_and_names_the_missing_ones() {
        let patterns = [Pattern::new("a,silent:*").unwrap()];
        let mut look = Fake.look_at(&patterns, Nanos(0));
        assert_eq!(shown(&mut *look), [""; 0], "it is not ready");
        now(look.ready()).unwrap();
        assert!(look.held() >= 2 * size_of::<Sample>() as u64);
        assert_eq!(shown(&mut *look), ["a 5ns [\"load\"] [0] [0]", "a 6ns [\"mem\"] [70] [0]"]);
        assert_eq!(
            (look.left_out(), look.held(), look.missing(), look.missing()),
            (0, 0, vec!["silent".into()], vec![])
        );
        let metrics = Some(vec![series("mem", None, None).metric]);
        for (nodes, expected) in
            [(None, &["a", "b"][..]), (Some("b:x"), &["b"]), (Some("a,b:y"), &["a", "b"])]
        {
            let nodes = nodes.map(|text| Pattern::new(text).unwrap());
            let wanted = crate::Wanted { nodes, metrics: metrics.clone() };
            assert!(expected.iter().all(|node| wanted.has_node(&name(node))));
            let mut look = Fake.look(&wanted, Nanos(0));
            now(look.ready()).unwrap();
            let lines: Vec<String> =
                expected.iter().map(|node| format!("{node} 6ns [\"mem\"] [70] [0]")).collect();
            assert_eq!(shown(&mut *look), lines);
        }
        assert!(!crate::Wanted { nodes: Some(patterns[0].clone()), metrics: None }.has_node(&name("b")));
    }

    #[test]
    fn a_query_reports_no_more_than_it_knows() {
        assert!(Fake.series(&name("a")).is_none() && Fake.is_described(&name("a")) && Fake.own().is_none());
        assert!(matches!(Fake.forget(&Pattern::everything()), Err(QueryError::NoMemory)));
        now(Fake.renew(&[], Nanos(0)));
        let nodes: Vec<(NodeName, bool)> =
            Fake.status().into_iter().map(|status| (status.node, status.up)).collect();
        assert_eq!(nodes, [(name("a"), true), (name("b"), true), (name("silent"), true)]);
        let patterns = [Pattern::new("b,silent:*").unwrap()];
        let past = Fake.history(&patterns, Nanos(9), 3).unwrap();
        assert_eq!(
            past.iter().map(|one| (one.node.as_str(), one.rows.len())).collect::<Vec<_>>(),
            [("b", 3)]
        );
        assert_eq!(past[0].rows[0].stamp, stamp(9));
    }

    #[test]
    fn a_node_is_up_has_left_is_missing_or_down() {
        let mut status = NodeStatus::here(name("a"));
        assert_eq!(status.presence(), Presence::Up);
        (status.up, status.left) = (false, true);
        assert_eq!(status.presence(), Presence::Left);
        status.left = false;
        assert_eq!(status.presence(), Presence::Down);
        status.expected = true;
        assert_eq!(status.presence(), Presence::Missing, "it is expected and was never heard");
        status.heard = Some(Nanos(1));
        assert_eq!(status.presence(), Presence::Down);
    }
}
