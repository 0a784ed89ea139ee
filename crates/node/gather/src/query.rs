//! Answers [`khz_model::Query`] for one node: the latest readings come from the sources, rows come from the
//! rings.

use std::ops::BitOr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use futures_channel::oneshot;
use khz_model::pattern::named_nodes;
use khz_model::{
    ChannelTerms, Delivery, Interest, Look, Metric, Nanos, NodeName, NodeStatus, Part, Pattern, Query,
    QueryError, RangeAnswer, RangeRequest, Ranges, Rate, Reach, Reading, RecentAnswer, RowNumber, Sample,
    Series, Snapshot, Subscription, WaitFor, Wanted, look::Show, metric::Text,
};
use khz_parse::KnownFiles;

use crate::asked::Asked;
use crate::catalogue::catalogue_of;
use crate::clock;
use crate::elsewhere::Elsewhere;
use crate::given::Given;
use crate::handled::{Channel, WantedBy, refused};
use crate::inbox::{Inbox, LaneWish, Request};
use crate::job_door::JobDoor;
use crate::lane::LaneView;
use crate::plan::{Handlers, Plan};
use crate::publication::PREFIX;
use crate::recent::RecentRows;
use crate::source::{Published, Source};
use crate::source_names::SourceNames;
use crate::source_set::SourceSet;
use crate::subscription::{Columns, LaneSubscription, rows_since};
use crate::waiting::{Opener, Waiting};

/// The query interface of one node.
pub(crate) struct NodeQuery {
    node: NodeName,
    rate_max: Rate,
    handlers: Handlers,
    inbox: Arc<Inbox>,
    /// Kernel files, gathered by the asking thread.
    asked: Arc<Asked>,
    /// Readings of this age are always fresh enough: a row of the base lane may be as old.
    age_max: Nanos,
    /// The plan's lanes, which live as long as the agent. History is read from them.
    lanes: Vec<Arc<LaneView>>,
    opener: Opener,
    /// The kernel files that it knows.
    known: KnownFiles,
    /// The metrics that other parts of the program add to the catalogue.
    tallies: Vec<Arc<Metric>>,
    sources: SourceNames,
    /// All sources.
    all: SourceSet,
    /// The entrance for jobs, and its source.
    jobs: Option<(Arc<JobDoor>, SourceSet)>,
    /// The files whose text gives names: where these begin, and the source.
    naming: Vec<(&'static str, SourceSet)>,
    /// Decoding ten minutes takes milliseconds and megabytes, so only one reader decodes at a time.
    history: Arc<Mutex<()>>,
    /// The store that answers queries about the past, if there is one.
    past: OnceLock<Arc<dyn Ranges>>,
}

impl NodeQuery {
    pub fn new(
        plan: &Plan,
        sources: &[Source],
        inbox: Arc<Inbox>,
        asked: Arc<Asked>,
        lanes: Vec<Arc<LaneView>>,
    ) -> Self {
        let tallies: Vec<Arc<Metric>> = plan.tallies_all().into_iter().map(|tally| tally.metric).collect();
        let own = || crate::own::metrics().into_iter().chain(tallies.iter().cloned());
        let of = |source: &Source| -> Vec<Text> {
            match source.kernel_file() {
                Some(file) => file.called().map(|metric| metric.name.into()).collect(),
                None if source.is_own() => own().map(|metric| metric.name.clone()).collect(),
                // The metrics of jobs are not known before they are published.
                None => Vec::new(),
            }
        };
        let jobs = sources
            .iter()
            .enumerate()
            .find_map(|(i, source)| Some((source.job_door()?.clone(), SourceSet::one(i))));
        let naming = sources
            .iter()
            .enumerate()
            .filter_map(|(i, source)| Some((source.kernel_file()?.prefix()?, SourceSet::one(i))));
        let naming = naming.collect();
        let names = sources.iter().enumerate();
        let names = names.flat_map(|(place, source)| of(source).into_iter().map(move |name| (name, place)));
        let names = SourceNames::new(names);
        NodeQuery {
            known: plan.survey.known.clone(),
            tallies,
            jobs,
            naming,
            node: plan.node.clone(),
            rate_max: plan.rate_max,
            handlers: plan.handlers,
            inbox: inbox.clone(),
            asked,
            age_max: plan.base_rate.period(),
            lanes,
            opener: Opener::new(inbox, plan.node.clone(), plan.programs.clone()),
            sources: names,
            all: SourceSet::first(sources.len()),
            history: Arc::default(),
            past: OnceLock::new(),
        }
    }

    /// Answers questions about the past with this from now on. Only the first call counts.
    pub fn remember(&self, past: Arc<dyn Ranges>) {
        let _ = self.past.set(past);
    }

    /// The rows of the base lane that are still in its ring.
    fn recent(&self) -> Result<RecentRows, QueryError> {
        let lane = self.lanes.first().ok_or(QueryError::NoStore)?.clone();
        Ok(RecentRows::new(self.node.clone(), lane, self.history.clone()))
    }

    /// The plan's lanes.
    pub fn lanes(&self) -> &[Arc<LaneView>] {
        &self.lanes
    }

    /// The requests to the gather thread.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Opens a lane for these patterns; it already counts this reader. Also returns the patterns that select
    /// this node. Without a rate, its rows are written on demand.
    pub fn follow(
        &self,
        patterns: &[Pattern],
        rate: Option<Rate>,
        exact: bool,
        channel: Option<(&Arc<ChannelTerms>, WantedBy)>,
    ) -> Result<(Arc<LaneView>, Vec<Pattern>), QueryError> {
        let wish = self.wish(patterns, rate, exact, channel)?;
        let patterns = wish.patterns.clone();
        Ok((self.opener.open(wish)?, patterns))
    }

    /// What the gather thread is asked for.
    fn wish(
        &self,
        patterns: &[Pattern],
        rate: Option<Rate>,
        exact: bool,
        channel: Option<(&Arc<ChannelTerms>, WantedBy)>,
    ) -> Result<LaneWish, QueryError> {
        let channel = channel.map(|(terms, by)| self.channel(terms, by)).transpose()?;
        // An expression says itself what it needs.
        let patterns = match &channel {
            Some(channel) if !channel.uses_patterns() => self.for_this_node(patterns).0,
            _ => self.checked(patterns)?.0,
        };
        rate.map_or(Ok(()), |rate| self.check_rate(rate))?;
        Ok(LaneWish { patterns, rate, exact, channel })
    }

    fn check_rate(&self, asked: Rate) -> Result<(), QueryError> {
        let ceiling = self.rate_max;
        if asked.is_above(ceiling) { Err(QueryError::AboveCeiling { asked, ceiling }) } else { Ok(()) }
    }

    /// Reads the request of a channel to this node.
    fn channel(&self, terms: &Arc<ChannelTerms>, by: WantedBy) -> Result<Arc<Channel>, QueryError> {
        match self.handlers {
            Handlers::None => Err(refused(terms, "this node takes no handlers (handlers = \"none\")")),
            Handlers::Plans | Handlers::Programs => Channel::new(terms.clone(), by).map(Arc::new),
        }
    }

    /// The running lanes: the plan's, and those with a reader. A lane that lives on without a reader does not
    /// count.
    fn running(&self) -> Vec<Arc<LaneView>> {
        let is_read = |lane: &Arc<LaneView>| lane.readers.load(Ordering::Relaxed) > 0;
        let is_fixed = |lane: &Arc<LaneView>| self.lanes.iter().any(|fixed| Arc::ptr_eq(fixed, lane));
        let read = self.opener.opened().into_iter().filter(|lane| is_read(lane) && !is_fixed(lane));
        self.lanes.iter().cloned().chain(read).collect()
    }

    /// The patterns that select this node, and the names of the other nodes in the patterns.
    fn for_this_node(&self, patterns: &[Pattern]) -> (Vec<Pattern>, Vec<String>) {
        let ours = patterns.iter().filter(|p| p.matches_node(self.node.as_str())).cloned().collect();
        let named = named_nodes(patterns);
        let mut others: Vec<String> = named.into_iter().filter(|name| name != self.node.as_str()).collect();
        others.sort();
        others.dedup();
        (ours, others)
    }

    /// The sources with a metric that a pattern selects.
    fn sources_of(&self, patterns: &[Pattern]) -> SourceSet {
        let given = self.given().filter(|(given, _)| given.may_match(patterns)).map(|(_, source)| source);
        let fixed = self.sources.sources_with(|name| patterns.iter().any(|p| p.matches_metric(name)));
        given.fold(fixed, SourceSet::bitor)
    }

    /// The names that programs have given, each with its source. Names from files are in the rows of the base lane.
    fn given(&self) -> impl Iterator<Item = (Given, SourceSet)> + '_ {
        let of_jobs = self.jobs.iter().map(|(door, source)| (door.given(), *source));
        let of_files = self.naming.iter().map(|&(prefix, source)| {
            let series = self.lanes.first().map(|base| base.series());
            (Given::of(prefix, series.as_ref().map_or(&[], |series| series.as_slice())), source)
        });
        of_jobs.chain(of_files)
    }

    /// The patterns of this node that select a metric, or an error if none does.
    fn checked(&self, patterns: &[Pattern]) -> Result<(Vec<Pattern>, SourceSet), QueryError> {
        let (ours, _) = self.for_this_node(patterns);
        match self.sources_of(&ours) {
            sources if sources.is_empty() => Err(nothing_matches(patterns)),
            sources => Ok((ours, sources)),
        }
    }

    /// The sources with a wanted metric.
    fn sources_of_wanted(&self, wanted: &Wanted) -> SourceSet {
        let Some(metrics) = &wanted.metrics else { return self.all };
        let jobs = self.jobs.iter().map(|(_, source)| (PREFIX, *source));
        let prefixes: Vec<(&str, SourceSet)> = jobs.chain(self.naming.iter().copied()).collect();
        let of_given = |name: &str| {
            prefixes.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, source)| *source)
        };
        let source = |name: &str| self.sources.source_of(name).or_else(|| of_given(name));
        metrics.iter().filter_map(|metric| source(&metric.name)).collect()
    }

    /// The readings of some sources, gathered again if they are older than `age_max`: kernel files by the
    /// requesting thread, the agent's own numbers and the numbers of jobs by the gather thread.
    async fn published(&self, sources: SourceSet, age_max: Nanos) -> Result<Vec<Arc<Published>>, QueryError> {
        if self.inbox.is_closed() {
            return Err(QueryError::Stopped);
        }
        self.asked.questions.fetch_add(1, Ordering::Relaxed);
        let asked = clock::boot();
        let files = sources.and(self.asked.files());
        let mut published = self.asked.latest(files, asked, age_max.min(self.age_max));
        let others = sources.without(files);
        if !others.is_empty() {
            let (reply, answer) = oneshot::channel();
            self.inbox.put(Request::Latest { sources: others, asked, age_max, reply })?;
            published.extend(answer.await.map_err(|_| QueryError::Stopped)?);
        }
        Ok(published)
    }

    async fn ask_latest(&self, patterns: &[Pattern], age_max: Nanos) -> Result<Snapshot, QueryError> {
        if patterns.is_empty() {
            // There is no source to gather, but an ended gather thread is reported.
            return if self.inbox.is_closed() { Err(QueryError::Stopped) } else { Ok(Snapshot::default()) };
        }
        let (ours, missing) = self.for_this_node(patterns);
        let sources = self.sources_of(&ours);
        if sources.is_empty() {
            return if missing.is_empty() {
                Err(nothing_matches(patterns))
            } else {
                Ok(Snapshot { nodes: vec![], missing })
            };
        }
        let published = self.published(sources, age_max).await?;
        let samples = published.iter().flat_map(|p| samples(p, &ours)).collect();
        Ok(Snapshot { nodes: vec![(self.node.clone(), samples)], missing })
    }
}

fn nothing_matches(patterns: &[Pattern]) -> QueryError {
    let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    QueryError::NothingMatches { patterns: patterns.join(", ") }
}

/// The samples of one source that the patterns select.
fn samples(published: &Published, patterns: &[Pattern]) -> Vec<Sample> {
    let slots = published.states.iter().zip(&published.values);
    let selected = published.series.iter().zip(slots).filter(|(series, _)| series.is_selected(patterns));
    let sample = |(series, (&state, &value)): (&Series, _)| Sample {
        series: series.clone(),
        reading: Reading::from_parts(state, value),
        stamp: published.stamp,
    };
    selected.map(sample).collect()
}

/// One look at this node, as [`Look`] defines it.
struct NodeLook<'a> {
    query: &'a NodeQuery,
    sources: SourceSet,
    age_max: Nanos,
    published: Vec<Arc<Published>>,
    /// The names of other nodes in the request.
    missing: Vec<String>,
    /// The reason why the look shows nothing.
    refusal: Option<QueryError>,
}

impl<'a> NodeLook<'a> {
    fn new(query: &'a NodeQuery, sources: SourceSet, age_max: Nanos) -> Self {
        NodeLook { query, sources, age_max, published: Vec::new(), missing: Vec::new(), refusal: None }
    }
}

impl Look for NodeLook<'_> {
    fn ready(&mut self) -> WaitFor<'_, Result<(), QueryError>> {
        Box::pin(async move {
            if let Some(refusal) = self.refusal.take() {
                return Err(refusal);
            }
            if !self.sources.is_empty() {
                self.published = self.query.published(self.sources, self.age_max).await?;
            }
            Ok(())
        })
    }

    fn next(&mut self, show: &mut Show<'_>) -> bool {
        let published = std::mem::take(&mut self.published);
        let parts: Vec<Part<'_>> = published
            .iter()
            .map(|source| Part {
                columns: source.series.clone(),
                stamp: source.stamp,
                values: &source.values,
                states: &source.states,
            })
            .collect();
        if !parts.is_empty() {
            show(&self.query.node, &parts);
        }
        !parts.is_empty()
    }

    fn missing(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missing)
    }
}

impl Query for NodeQuery {
    fn nodes(&self) -> Vec<NodeName> {
        vec![self.node.clone()]
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        let given = self.given().flat_map(|(given, _)| given.known);
        catalogue_of(&self.known).into_iter().chain(self.tallies.iter().cloned()).chain(given).collect()
    }

    fn series(&self, node: &NodeName) -> Option<Arc<dyn khz_model::Columns>> {
        let base = self.lanes.first().filter(|_| *node == self.node)?.series();
        // Before the first row the series are not known.
        if base.is_empty() { None } else { Some(base) }
    }

    fn rate_max(&self) -> Rate {
        self.rate_max
    }

    fn status(&self) -> Vec<NodeStatus> {
        let now = clock::boot();
        let lanes = self.running().iter().filter_map(|lane| lane.status(now)).collect();
        vec![NodeStatus { lanes, ..NodeStatus::here(self.node.clone()) }]
    }

    fn latest<'a>(
        &'a self,
        patterns: &'a [Pattern],
        age_max: Nanos,
    ) -> WaitFor<'a, Result<Snapshot, QueryError>> {
        Box::pin(self.ask_latest(patterns, age_max))
    }

    fn look<'a>(&'a self, wanted: &Wanted, age_max: Nanos) -> Box<dyn Look + 'a> {
        let sources =
            if wanted.has_node(&self.node) { self.sources_of_wanted(wanted) } else { SourceSet::default() };
        Box::new(NodeLook::new(self, sources, age_max))
    }

    fn look_at<'a>(&'a self, patterns: &[Pattern], age_max: Nanos) -> Box<dyn Look + 'a> {
        let (ours, missing) = self.for_this_node(patterns);
        let sources = self.sources_of(&ours);
        let nothing = sources.is_empty() && missing.is_empty() && !patterns.is_empty();
        let refusal = nothing.then(|| nothing_matches(patterns));
        Box::new(NodeLook { missing, refusal, ..NodeLook::new(self, sources, age_max) })
    }

    fn subscribe(&self, interest: Interest) -> Result<Box<dyn Subscription>, QueryError> {
        self.subscribe_after(interest, &[])
    }

    fn subscribe_after(
        &self,
        interest: Interest,
        places: &[(NodeName, RowNumber)],
    ) -> Result<Box<dyn Subscription>, QueryError> {
        let Interest { patterns, rate, exact, channel } = &interest;
        // As at a hub that does not know the nodes: the reader waits for them.
        if channel.is_some() && self.for_this_node(patterns).0.is_empty() {
            self.check_rate(*rate)?;
            return Ok(Box::new(Elsewhere { rate: *rate }));
        }
        let of_channel = channel.as_ref().map(|terms| (terms, WantedBy::Readers));
        let wish = self.wish(patterns, Some(*rate), *exact, of_channel)?;
        let (node, inbox, room) = (self.node.clone(), self.inbox.clone(), self.inbox.channel_room());
        // The lane of a channel has nothing else.
        let patterns = if channel.is_some() { vec![Pattern::everything()] } else { wish.patterns.clone() };
        let follow = |lane| LaneSubscription::new(node.clone(), lane, patterns, *rate, inbox);
        match self.opener.open(wish.clone()).and_then(follow) {
            Ok(mut subscription) => {
                places.iter().for_each(|(_, last)| subscription.go_on_after(*last));
                Ok(Box::new(subscription))
            }
            Err(refusal) if channel.is_some() && refusal.is_for_now() => {
                Ok(Box::new(Waiting::new(node, *rate, wish, self.opener.clone(), room, &refusal)))
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn history_of(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Option<Delivery>, QueryError> {
        if *node != self.node {
            return Ok(None);
        }
        let (patterns, _) = self.checked(patterns)?;
        let _one_at_a_time = self.history.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let since = Nanos(clock::boot().0.saturating_sub(span.0));
        let lanes = &self.lanes;
        // The base lane has everything. Use a faster lane if it has as many of the series, and the span is
        // too short for the slower ones to fill the rows.
        let columns = |lane: &Arc<LaneView>| Columns::new(lane, &patterns);
        let most = lanes.iter().map(|lane| columns(lane).len()).max().unwrap_or(0);
        let mut fitting: Vec<_> = lanes.iter().filter(|lane| columns(lane).len() == most).collect();
        fitting.sort_by_key(|lane| std::cmp::Reverse(lane.period()));
        let enough = |lane: &&&Arc<LaneView>| span.0 / lane.period().0.max(1) >= rows_max as u64;
        let lane = fitting.iter().find(enough).or(fitting.last()).copied();
        let lane = lane.ok_or_else(|| nothing_matches(&patterns))?;
        let past = rows_since(&self.node, lane, &patterns, since, rows_max);
        Ok(Some(past.ok_or_else(|| QueryError::TooMuch { node: node.clone() })?))
    }

    fn past_metrics(&self) -> Vec<Arc<Metric>> {
        self.past.get().map_or_else(Vec::new, |past| past.metrics())
    }

    fn reach(&self) -> Reach {
        self.past.get().map_or_else(Reach::default, |past| past.reach())
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        match self.past.get() {
            Some(past) => past.range(request),
            None => Ok(Box::new(RecentAnswer::new(Arc::new(self.recent()?), request)?)),
        }
    }
}
