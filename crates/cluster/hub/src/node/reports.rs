//! What other hubs say of a node: each source repeatedly sends a list of all nodes that it knows. If several hubs report a
//! node, the report of the hub that heard the node last counts. It keeps reports, and decides nothing about the node.

use khz_model::NodeStatus;

use crate::clock;

/// Times that differ by less are the same: each list counts the age of an event from its own time.
const SAME: i64 = 1_000_000_000;
/// A hub may have heard a node this much earlier than the node's rows came through that hub: rows are flushed,
/// and wait.
const ON_THE_WAY: i64 = 5_000_000_000;

/// The report of one hub about the node.
#[derive(Clone, Debug)]
struct Report {
    /// The number of the source, and the hub's name.
    source: usize,
    hub: String,
    is_expected: bool,
    /// When the hub heard the node last, ns since 1970; `None`: never.
    heard: Option<i64>,
    /// The hub is away: it was its last word.
    is_away: bool,
}

/// The reports of other hubs about the node.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports(Vec<Report>);

/// The consequences of a hub's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Whether the hub expects the node is new.
    pub is_news: bool,
    /// This hub has heard the node last of all: its word counts.
    pub counts: bool,
    /// It has forgotten the node, and only expects it.
    pub has_forgotten: bool,
}

impl Reports {
    /// Takes in the word of a hub. `heard` is when the node was last heard here, ns since 1970; `None`: never.
    pub fn take(&mut self, source: usize, hub: &str, status: &NodeStatus, heard: Option<i64>) -> Told {
        let known = self.0.iter().position(|report| report.source == source);
        let before = known.map(|at| self.0[at].clone());
        let new_heard = status.heard.map(clock::before);
        let is_same = |old: &i64, new: &i64| old.abs_diff(*new) < SAME.unsigned_abs();
        let kept = before.as_ref().and_then(|report| report.heard).zip(new_heard);
        let report = Report {
            source,
            hub: hub.to_owned(),
            is_expected: status.expected,
            heard: kept.filter(|(old, new)| is_same(old, new)).map(|(old, _)| old).or(new_heard),
            is_away: false,
        };
        // A hub that was away may have restarted and forgotten the node.
        let heard_before = |before: &Report| !before.is_away && before.heard.is_some();
        let told = Told {
            is_news: before.as_ref().is_none_or(|before| before.is_expected != report.is_expected),
            counts: self.is_latest(&report, heard),
            has_forgotten: report.heard.is_none() && before.as_ref().is_some_and(heard_before),
        };
        match known {
            Some(at) => self.0[at] = report,
            None => self.0.push(report),
        }
        told
    }

    /// Whether no other hub has heard the node later, nor this one.
    fn is_latest(&self, report: &Report, heard: Option<i64>) -> bool {
        let others = self.0.iter().filter(|other| other.source != report.source);
        let latest = others.filter_map(|other| other.heard).max();
        let is_later = |time: &i64| report.heard.is_none_or(|own| own < *time);
        latest.is_none_or(|latest| !is_later(&latest))
            && heard.is_none_or(|heard| !is_later(&heard.saturating_sub(ON_THE_WAY)))
    }

    /// This source says nothing of the node any more.
    pub fn forget(&mut self, source: usize) {
        self.0.retain(|report| report.source != source);
    }

    /// The hub of this source is away. Its last word counts until it says more.
    pub fn is_away(&mut self, source: usize) {
        self.0.iter_mut().filter(|report| report.source == source).for_each(|report| report.is_away = true);
    }

    /// True if some hub expects the node, or did so when it was heard last.
    pub fn expect(&self) -> bool {
        self.0.iter().any(|report| report.is_expected)
    }

    /// A connected hub that remembers the node.
    pub fn remembers(&self) -> Option<&str> {
        self.there().find(|report| report.heard.is_some()).map(|report| report.hub.as_str())
    }

    /// A connected hub that expects the node.
    pub fn expects(&self) -> Option<&str> {
        self.there().find(|report| report.is_expected).map(|report| report.hub.as_str())
    }

    fn there(&self) -> impl Iterator<Item = &Report> {
        self.0.iter().filter(|report| !report.is_away)
    }
}
