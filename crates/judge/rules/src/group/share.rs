//! The part of a rule that is left to the hub when nodes judge it by themselves: the other nodes. Their samples come from a source
//! that is narrowed to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use khz_promql::{LabelSet, Matcher, QueryError, Run, Selection, SeriesId, Sink, Source, Summary};

use crate::alerts::{Kept, NODE_LABEL};

/// The most nodes to which queries are narrowed. For more nodes, the query asks for everything, and the results of other nodes are
/// left out.
const NARROWED_MAX: usize = 64;

/// The part of a rule that is left to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The nodes that judge it by themselves.
    pub judging: BTreeSet<Arc<str>>,
    /// The nodes that the hub judges; `None`: all others.
    pub left: Option<BTreeSet<Arc<str>>>,
    /// The nodes that another hub judges. Rules do not see their series.
    pub away: Arc<BTreeSet<Arc<str>>>,
    /// The nodes whose judge is not known yet, or whose rows are still coming. Rules see their series, and their alerts stay as
    /// they are.
    pub settling: Arc<BTreeSet<Arc<str>>>,
    /// The nodes that have just gone, and may be back at once. Their alerts go on without their series, and so do alerts of no node
    /// for a while.
    pub gone: Arc<BTreeSet<Arc<str>>>,
    /// When this hub last stopped seeing a node that it had judged (ms since 1970). Another hub may have the node. That hub must
    /// evaluate before alerts of no node end here, since it may have such an alert by then.
    pub left_at: Option<i64>,
    /// Until this time (ms since 1970) it is not known whether that hub has evaluated: it does not answer, or has just started.
    pub unknown_until: i64,
}

/// How long an alert of no node fires on without its series after some node has just gone (ms).
const GONE_KEPT: i64 = 10_000;

/// How long a hub to which nodes go may wait before it evaluates, beside the interval of its group (ms), since it may have just
/// started. Then it evaluates, and announces it.
const LEFT_KEPT: i64 = 14_000;

/// The longest time for which an alert of no node fires on without its series while another hub's result is unknown (ms).
const UNKNOWN_KEPT: i64 = 60_000;

/// How long the series of nodes may be gone before it is known that another hub has these nodes (ms).
const LEFT_EARLY: i64 = 10_000;

impl Share {
    /// The nodes whose alerts an evaluation leaves as they are.
    pub(super) fn untouched(&self) -> [&BTreeSet<Arc<str>>; 3] {
        [&self.judging, &self.away, &self.settling]
    }

    /// The alerts that go on without their series at a time, in a group of this interval (ms).
    pub(super) fn kept(&self, time: i64, interval: i64) -> Kept<'_> {
        let span = LEFT_KEPT.saturating_add(interval);
        // A pass that began before the nodes left has an earlier time, but its rules do not see them either.
        let until = self.unknown_until.saturating_add(interval);
        let left = self.left_at.map(|at| {
            let to = at.saturating_add(span).max(until);
            (at.saturating_sub(LEFT_EARLY), to)
        });
        let others = match (left.is_some_and(|(from, to)| (from..to).contains(&time)), self.gone.is_empty()) {
            (true, _) if time < until => span.max(UNKNOWN_KEPT),
            (true, _) => span,
            (false, false) => GONE_KEPT,
            (false, true) => 0,
        };
        Kept { nodes: Some(&self.gone), others, unjudged: Some(&self.settling), left }
    }

    /// True if there is nothing to evaluate.
    pub(super) fn is_empty(&self) -> bool {
        self.left.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// A source with the samples that are left, and perhaps more.
    pub(super) fn of<'a>(&self, source: &'a dyn Source) -> Left<'a> {
        let are_others = !self.judging.is_empty() || !self.settling.is_empty();
        let few = self.left.as_ref().filter(|left| left.len() <= NARROWED_MAX && are_others);
        let matcher = few.and_then(|left| {
            let names: Vec<&str> = left.iter().map(|name| &**name).collect();
            Matcher::any_of(NODE_LABEL, &names).ok()
        });
        Left { source, matcher }
    }
}

/// A source that is narrowed to some nodes.
pub(super) struct Left<'a> {
    source: &'a dyn Source,
    matcher: Option<Matcher>,
}

impl Source for Left<'_> {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        let Some(matcher) = &self.matcher else { return self.source.select(wanted, sink) };
        let mut narrowed = wanted.clone();
        narrowed.matchers.push(matcher.clone());
        self.source.select(&narrowed, sink)
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        let all: Vec<Matcher> = matchers.iter().chain(&self.matcher).cloned().collect();
        self.source.series(&all, after, to, limit)
    }
}

/// A source without the series of nodes that another hub judges.
pub(super) struct Without<'a> {
    source: &'a dyn Source,
    away: &'a BTreeSet<Arc<str>>,
}

impl<'a> Without<'a> {
    /// `source` without series whose label `instance` is one of these.
    pub fn new(source: &'a dyn Source, away: &'a BTreeSet<Arc<str>>) -> Self {
        Without { source, away }
    }
}

impl Source for Without<'_> {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        if self.away.is_empty() {
            return self.source.select(wanted, sink);
        }
        self.source.select(wanted, &mut Sieve { sink, away: self.away, numbers: Vec::new() })
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        let (mut all, more) = self.source.series(matchers, after, to, limit)?;
        all.retain(|labels| !self.away.contains(labels.get(NODE_LABEL)));
        Ok((all, more))
    }
}

/// Passes on the series of other nodes.
struct Sieve<'a> {
    sink: &'a mut dyn Sink,
    away: &'a BTreeSet<Arc<str>>,
    /// The number of each series at the sink; `None`: it is left out.
    numbers: Vec<Option<SeriesId>>,
}

impl Sieve<'_> {
    fn number(&self, series: SeriesId) -> Option<SeriesId> {
        self.numbers.get(series.0).copied().flatten()
    }
}

impl Sink for Sieve<'_> {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        let number = match self.away.contains(labels.get(NODE_LABEL)) {
            true => None,
            false => Some(self.sink.series(labels)?),
        };
        self.numbers.push(number);
        Ok(SeriesId(self.numbers.len() - 1))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        self.number(series).map_or(Ok(()), |series| self.sink.samples(series, times, values))
    }

    fn run(&mut self, series: SeriesId, run: &Run<'_>) -> Result<(), QueryError> {
        self.number(series).map_or(Ok(()), |series| self.sink.run(series, run))
    }

    fn summaries(&mut self, series: SeriesId, summaries: &[Summary]) -> Result<(), QueryError> {
        self.number(series).map_or(Ok(()), |series| self.sink.summaries(series, summaries))
    }
}
