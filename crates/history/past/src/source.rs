//! The samples of nodes for PromQL: asks for a range, and passes on the answer.

use std::collections::HashSet;
use std::sync::Arc;

use khz_model::{
    Metric, Nanos, NodeName, Pattern, Query, QueryError as RangeError, RANGE_STEP_READINGS, RangeAnswer,
    RangePart, RangeRequest, RangeShape, Ranges, Reach, exposed,
};
use khz_promql::{LabelSet, METRIC_NAME, Matcher, QueryError, Selection, SeriesId, Sink, Source, Summaries};

use crate::chosen::Chosen;
use crate::clock::{self, Clocks, Derived};
use crate::earlier::Earlier;
use crate::feed::Feed;
use crate::history::{History, Whose};
use crate::interval::{Interval, intervals};
use crate::listing;
use crate::nodes::Known;
use crate::rows::Group;
use crate::values::Form;

/// Warnings of one selection: a disk that fails fails everywhere.
const WARNINGS_MAX: usize = 8;

/// A range in the query of a running khz.
pub struct AnyQuery(pub Arc<dyn Query>);

impl Ranges for AnyQuery {
    fn reach(&self) -> Reach {
        self.0.reach()
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, RangeError> {
        self.0.range(request)
    }
}

/// The past of nodes as a source of samples.
pub struct PastSource {
    ranges: Arc<dyn Ranges>,
    pub(crate) known: Known,
}

impl PastSource {
    /// The samples in these ranges.
    pub fn new(ranges: Arc<dyn Ranges>, known: Known) -> Self {
        PastSource { ranges, known }
    }

    /// The samples that a running khz remembers. `now`: the time of the request. `job`: the label of all nodes.
    pub fn of(query: Arc<dyn Query>, job: Arc<str>, now: Nanos) -> Self {
        let known = Known::of(query.clone(), job, now);
        PastSource::new(Arc::new(AnyQuery(query)), known)
    }

    /// Reads a range, group by group. Returns the damaged parts.
    pub(crate) fn read(
        &self,
        patterns: Vec<Pattern>,
        (from, to): (Nanos, Nanos),
        shape: RangeShape,
        mut take: impl FnMut(&Group) -> Result<(), QueryError>,
    ) -> Result<Vec<String>, QueryError> {
        if patterns.is_empty() || from >= to {
            return Ok(Vec::new());
        }
        let mut answer = match self.ranges.range(RangeRequest { patterns, from, to, shape }) {
            // Rows before the first one in memory do not exist, as in Prometheus before its first sample.
            Err(RangeError::NothingMatches { .. } | RangeError::OnlySince { .. }) => return Ok(Vec::new()),
            answer => answer.map_err(failed)?,
        };
        let (mut group, mut damage) = (Group::default(), Vec::new());
        while let Some(part) = next(&mut *answer)? {
            if !group.takes(&part) {
                take(&group)?;
                group = Group::default();
            }
            group.add(part, answer.width());
            damage.extend(answer.damage());
            damage.truncate(WARNINGS_MAX);
        }
        take(&group)?;
        damage.extend(answer.damage());
        damage.truncate(WARNINGS_MAX);
        Ok(damage)
    }

    /// The times for which there is data.
    pub(crate) fn reach(&self) -> Reach {
        self.ranges.reach()
    }

    /// Reads all intervals, each group with the length of its buckets. Returns the damaged parts.
    pub(crate) fn read_all(
        &self,
        patterns: &[Pattern],
        intervals: &[Interval],
        mut take: impl FnMut(&Group, Option<Nanos>) -> Result<(), QueryError>,
    ) -> Result<Vec<String>, QueryError> {
        let mut damage = Vec::new();
        for &Interval { from, to, bucket } in intervals {
            let shape = match bucket {
                None => RangeShape::Columns(RANGE_STEP_READINGS),
                Some(length) => RangeShape::Buckets(length),
            };
            damage.extend(self.read(patterns.to_vec(), (from, to), shape, |group| take(group, bucket))?);
            damage.truncate(WARNINGS_MAX);
        }
        Ok(damage)
    }

    /// The nodes that are away: those that are down according to the roster, and those without a row in the selection that had one
    /// before.
    fn away(
        &self,
        mut roster: Vec<(NodeName, Option<Nanos>)>,
        clocks: &Clocks,
        earlier: &Earlier<'_>,
        history: &mut History<'_>,
        matchers: &[Matcher],
    ) -> Result<Vec<Away>, QueryError> {
        let instance = matchers.iter().filter(|matcher| matcher.name == exposed::INSTANCE);
        roster.retain(|(node, _)| instance.clone().all(|matcher| matcher.matches(node.as_str())));
        let is_away = |since: &Option<Nanos>| since.is_some_and(|since| since <= earlier.end());
        let unclear = roster.iter().filter(|(node, since)| !is_away(since) && !clocks.has(node));
        let unclear: Vec<NodeName> = unclear.map(|(node, _)| node.clone()).collect();
        let last = earlier.of_these(&unclear)?;
        let mut away = Vec::new();
        for (node, since) in roster {
            let (since, last) = (since.map(|since| clock::milliseconds(since.0)), last.get(&node));
            if since.is_none() && last.is_none() {
                continue;
            }
            // Its earlier pace tells when it counted as missing, and how often it has a 0.
            let period = match last {
                Some(last) => clock::shortest_distance(&history.of_node(&node, last + 1)?),
                None => None,
            };
            let silent = last.map(|last| last + clock::silence(period));
            let Some(since) = since.into_iter().chain(silent).min() else { continue };
            away.push(Away { node, since, period });
        }
        Ok(away)
    }

    pub(crate) fn end(&self, to: i64) -> i64 {
        to.min(clock::milliseconds(self.known.now.0))
    }
}

/// A node that is not there.
struct Away {
    node: NodeName,
    /// Since when (ms).
    since: i64,
    /// Its earlier time between rows (ms), if known.
    period: Option<i64>,
}

/// The first warnings, each once.
fn different(warnings: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for warning in warnings {
        if all.len() < WARNINGS_MAX && !all.contains(&warning) {
            all.push(warning);
        }
    }
    all
}

fn next(answer: &mut dyn RangeAnswer) -> Result<Option<RangePart>, QueryError> {
    match answer.next() {
        Err(RangeError::NothingMatches { .. }) => Ok(None),
        part => part.map_err(failed),
    }
}

/// PromQL's error for a range that cannot be read.
fn failed(error: RangeError) -> QueryError {
    match error {
        RangeError::Full { .. } => QueryError::Timeout(error.to_string()),
        RangeError::Stopped => QueryError::Internal(error.to_string()),
        error => QueryError::Execution(error.to_string()),
    }
}

/// The time after the first moment and up to the second one (ms), as a range.
pub(crate) fn span(after: i64, to: i64) -> (Nanos, Nanos) {
    let nanos = |ms: i64| Nanos(u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000));
    (nanos(after.saturating_add(1)), nanos(to.saturating_add(1)))
}

/// True for metrics that the selector's name can match.
pub(crate) fn is_named<'a>(chosen: &'a Chosen, matchers: &'a [Matcher]) -> impl Fn(&Metric) -> bool + 'a {
    let names: Vec<&Matcher> = matchers.iter().filter(|matcher| matcher.name == METRIC_NAME).collect();
    move |metric| {
        let name = chosen.form.name(metric);
        let is_made = chosen.form == Form::Exposed && exposed::is_of_rows(name);
        !is_made && names.iter().all(|matcher| matcher.matches(name))
    }
}

impl Source for PastSource {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        let matchers = &wanted.matchers[..];
        let chosen = Chosen::of(matchers, &self.known);
        let end = self.end(wanted.to);
        let reach = self.reach();
        let span = span(wanted.after, wanted.to);
        let intervals = intervals(wanted, span, &reach, chosen.is_exact);
        let is_named = is_named(&chosen, matchers);
        let job = &*self.known.job;
        let history = History::new(self, &chosen, Whose::Series, wanted.after);
        let feed = Feed::new(chosen.form, job, matchers, (wanted.after, wanted.to), end);
        let mut feed = feed.with_history(history);
        let as_summaries = wanted.summaries != Summaries::Nowhere;
        let mut warnings = self.read_all(&chosen.patterns, &intervals, |group, bucket| match bucket {
            None => feed.group(group, as_summaries, &is_named, sink),
            Some(length) => feed.buckets(group, (length, as_summaries), &is_named, sink),
        })?;
        feed.finish(sink)?;
        let mut made = Vec::new();
        if !chosen.derived.is_empty() {
            warnings.extend(self.derive(wanted, &chosen, &intervals, (&mut feed, &mut made), sink)?);
        }
        let recorded = Chosen::recorded(matchers, &self.known);
        if !recorded.patterns.is_empty() {
            let intervals = self::intervals(wanted, span, &reach, recorded.is_exact);
            let mut feed = feed.recorded(made);
            let read = self.read_all(&recorded.patterns, &intervals, |group, bucket| match bucket {
                None => feed.group(group, as_summaries, |_| true, sink),
                Some(length) => feed.buckets(group, (length, as_summaries), |_| true, sink),
            });
            warnings.extend(read?);
            feed.finish(sink)?;
        }
        Ok(different(warnings))
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        listing::list(self, matchers, (after, to), limit)
    }
}

impl PastSource {
    /// The same as [`Source::series`], only for records of rules.
    pub fn recorded_series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        listing::list_recorded(self, matchers, (after, to), limit)
    }

    /// Passes on the series that are made from the times of rows, and adds their labels to `made`. Returns the damaged parts.
    fn derive(
        &self,
        wanted: &Selection,
        chosen: &Chosen,
        intervals: &[Interval],
        (feed, made): (&mut Feed<'_>, &mut Vec<LabelSet>),
        sink: &mut dyn Sink,
    ) -> Result<Vec<String>, QueryError> {
        let (matchers, job, end) = (&wanted.matchers[..], &*self.known.job, self.end(wanted.to));
        let mut begin = |node: &_, wanted: &[Derived], sink: &mut dyn Sink| {
            let mut begun: Vec<(Derived, SeriesId)> = Vec::new();
            for derived in wanted {
                let labels = feed.words.plain(derived.name(), node, job);
                if matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
                    made.push(labels.clone());
                    begun.push((*derived, sink.series(labels)?));
                }
            }
            Ok(begun)
        };
        let mut clocks =
            Clocks::between(wanted.after, end, intervals.iter().any(|interval| interval.bucket.is_some()));
        let mut earlier = Earlier::before(self, chosen, span(wanted.after, wanted.to).0);
        let mut history = History::new(self, chosen, Whose::Nodes, wanted.after);
        let warnings = self.read_all(&chosen.clock, intervals, |group, bucket| {
            let Some(node) = group.node() else { return Ok(()) };
            let times = if bucket.is_some() { group.bucket_times() } else { group.times() };
            let begin = |sink: &mut dyn Sink| begin(node, &chosen.derived, sink);
            clocks.rows((node, &times, bucket.is_some()), || earlier.of(node), &mut history, sink, begin)
        })?;
        let is_up_wanted = chosen.derived.contains(&Derived::Up);
        let roster = if is_up_wanted { self.known.roster.nodes(self.known.now) } else { Vec::new() };
        let known: HashSet<&NodeName> = roster.iter().map(|(node, _)| node).collect();
        clocks.finish(&mut history, |node| known.contains(node), sink)?;
        if is_up_wanted {
            for Away { node, since, period } in
                self.away(roster, &clocks, &earlier, &mut history, matchers)?
            {
                let since = since.max(wanted.after.saturating_add(1));
                clocks.down(&node, (since, period), sink, |sink| begin(&node, &[Derived::Up], sink))?;
            }
        }
        Ok(warnings)
    }
}
