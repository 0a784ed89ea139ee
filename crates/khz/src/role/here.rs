//! This node, read in this process: the one place where the binary joins configuration and gathering. It
//! decides nothing; the plan has been checked before.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use khz_gather::{Agent, JobDoor, Placement, RingSize, SourcePlan, SourceReport, Tally};
use khz_model::{
    Absence, ByteSize, Columns, Interest, Known, Metric, Misses, Nanos, NodeName, Pattern, QueryError, Rate,
    Reading, Series, Subscription,
};

use crate::answer::Answer;
use crate::command::check::together::{Paced, Together};
use crate::command::check::{Finding, Found, Missing, SourceCost};
use crate::command::ring;
use crate::command::target::Stream;
use crate::config::Plan;
use crate::config::plan::RingDir;
use crate::feed::Feed;
use crate::role::trial::{Trial, trial};
use crate::show::outcome::{Failure, sentence};

/// A command that reads for itself keeps no history: this holds the rows between two looks.
const READER_RING: RingSize = RingSize::Bytes(ByteSize(1 << 20));
/// A recording is written in between, and a disk may take its time.
const RECORDER_RING: RingSize = RingSize::Bytes(ByteSize(16 << 20));
/// Rows are fetched this often at most; sixty times a second a terminal shows no more.
const LOOK_PERIOD: Duration = Duration::from_millis(16);
/// And this often at least, so that a slow row is shown soon after it came.
const LOOK_PERIOD_MAX: Duration = Duration::from_millis(250);

/// The names of the sources that exist.
pub fn source_names() -> Vec<&'static str> {
    khz_parse::files().iter().map(|file| file.name).collect()
}

/// The host name that the kernel below `root` goes by.
pub fn host_name(root: &Path) -> String {
    std::fs::read_to_string(root.join("proc/sys/kernel/hostname"))
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Every metric of the catalogue: the kernel's, the gatherer's own, and those of the doors.
pub fn metrics() -> Vec<Arc<Metric>> {
    let doors =
        khz_http::Counters::default().metrics().into_iter().chain(khz_text::Counters::default().metrics());
    khz_gather::catalogue().into_iter().chain(doors.map(|(metric, _)| Arc::new(metric))).collect()
}

/// Starts the gatherer; `counts` are shown among its own numbers, and so is what comes in at the door of jobs.
pub fn start(
    plan: &Plan,
    counts: Vec<(Metric, Arc<AtomicU64>)>,
    jobs: Option<Arc<JobDoor>>,
) -> Result<Agent, Failure> {
    let tally = |(metric, count)| Tally { metric: Arc::new(metric), instance: None, count };
    let tallies = counts.into_iter().map(tally).collect();
    Agent::start(khz_gather::Plan { tallies, jobs, ..gather_plan(plan) })
        .map_err(|error| Failure::usage(sentence(&error)))
}

/// The latest readings, gathered now.
pub fn latest(plan: &Plan, patterns: &[Pattern]) -> Result<Answer, Failure> {
    let agent = start_reader(plan)?;
    let answer = wait_for(agent.query().latest(patterns, Nanos(0)))?;
    let misses = misses(&agent, plan, patterns)?;
    agent.stop();
    let mut answer = match answer {
        Err(QueryError::NothingMatches { .. }) => Answer::default(),
        answer => Answer::from_snapshot(answer.map_err(|error| Failure::work(sentence(&error)))?),
    };
    answer.said = Some(misses.into());
    Ok(answer)
}

/// What of the patterns this node does not have, held against what it holds now.
pub fn misses(agent: &Agent, plan: &Plan, patterns: &[Pattern]) -> Result<Misses, Failure> {
    let query = agent.query();
    let metric = |pattern: &Pattern| Pattern::new(pattern.metric()).ok();
    let wide: Vec<Pattern> =
        patterns.iter().filter(|pattern| pattern.instance().is_some()).filter_map(metric).collect();
    let held = wait_for(query.latest(&wide, Nanos(0)))?.unwrap_or_default();
    let series = held.nodes.into_iter().flat_map(|(_, samples)| samples).map(|sample| sample.series);
    let held = Held { node: plan.node.clone(), metrics: query.metrics(), series: Arc::new(series.collect()) };
    // Other nodes are not asked: whether they are there nobody knows here.
    Ok(Misses { nodes: Vec::new(), ..Misses::of(&held, patterns) })
}

/// What this node holds of the metrics concerned.
struct Held {
    node: NodeName,
    metrics: Vec<Arc<Metric>>,
    series: Arc<Vec<Series>>,
}

impl Known for Held {
    fn nodes(&self) -> Vec<NodeName> {
        vec![self.node.clone()]
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        self.metrics.clone()
    }

    fn series(&self, _: &NodeName) -> Option<Arc<dyn Columns>> {
        Some(self.series.clone())
    }
}

/// Rows, gathered by this process for as long as the stream is held.
pub fn rows(plan: &Plan, interest: Interest) -> Result<Stream, Failure> {
    let agent = start_reader(plan)?;
    let misses = misses(&agent, plan, &interest.patterns)?;
    let subscription = agent.query().subscribe(interest).map_err(|error| match error {
        QueryError::AboveCeiling { .. } => Failure::usage(sentence(&error)),
        QueryError::NothingMatches { .. } if !misses.is_empty() => {
            Failure::Work(misses.sentences().join("; "))
        }
        _ => Failure::work(sentence(&error)),
    })?;
    Ok(of_subscription(agent, subscription, misses))
}

fn of_subscription(agent: Agent, mut subscription: Box<dyn Subscription>, misses: Misses) -> Stream {
    let mut known = None;
    let mut misses = Some(misses).filter(|misses| !misses.is_empty());
    let pause = Duration::from(subscription.rate().period()).clamp(LOOK_PERIOD, LOOK_PERIOD_MAX);
    Box::new(move || {
        // The gatherer lives as long as this closure.
        let _ = &agent;
        std::thread::sleep(pause);
        let mut feeds: Vec<Feed> = misses.take().map(Feed::Misses).into_iter().collect();
        let deliveries = subscription.poll();
        feeds.extend(subscription.notices().into_iter().map(Feed::of_notice));
        for delivery in deliveries {
            let rate = delivery.rate.unwrap_or(subscription.rate());
            let is_known = |(columns, at): &(_, _)| Arc::ptr_eq(columns, &delivery.columns) && *at == rate;
            if !known.as_ref().is_some_and(is_known) {
                feeds.push(Feed::columns_of(&delivery, rate));
                known = Some((Arc::clone(&delivery.columns), rate));
            }
            feeds.push(Feed::rows_of(&delivery));
        }
        Ok(Some(feeds))
    })
}

/// What each source that some pattern speaks of holds and costs, and at which rate they can be had together, found by
/// trying.
pub fn probe(plan: &Plan, patterns: &[Pattern]) -> Result<Found, Failure> {
    let mut planned = source_plans(plan);
    let is_meant = |file: &khz_parse::KernelFile| refresh_of(file, patterns).is_some();
    planned.retain(|source| is_meant(source.file));
    let cost = |report: SourceReport| {
        let source = planned.iter().find(|source| source.file.name == report.name);
        source_cost(report, source.map(|source| rate_of(plan, source)))
    };
    let files = khz_parse::files().iter().filter(|file| is_meant(file)).map(|file| file.name);
    let meant: Vec<&str> = files.collect();
    if meant.is_empty() {
        let patterns = patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Failure::work(QueryError::NothingMatches { patterns }));
    }
    let reports = khz_gather::probe(&plan.root).into_iter().filter(|report| meant.contains(&report.name));
    let sources: Vec<SourceCost> = reports.map(cost).collect();
    if !sources.iter().any(|source| source.finding == Finding::Works) {
        let root = plan.root.display();
        return Err(Failure::usage(format!("nothing can be read below {root}; is /proc mounted there?")));
    }
    // A source that does not work costs nothing at any rate, and one that is switched off is not gathered.
    let works = |name: &str| sources.iter().any(|s| s.name == name && s.finding == Finding::Works);
    planned.retain(|source| works(source.file.name));
    let files: Vec<_> = planned.iter().map(|source| source.file).collect();
    let trial = match planned.is_empty() {
        true => Trial::default(),
        false => trial(khz_gather::Plan { sources: planned, ..gather_plan(plan) }, plan.rate_max)?,
    };
    let paced = |&(name, gather): &(&'static str, Nanos)| {
        let file = files.iter().find(|file| file.name == name)?;
        Some(Paced { name, gather, refresh: refresh_of(file, patterns)? })
    };
    let paced = trial.sources.iter().filter_map(paced).collect();
    Ok(Found { together: Together::new(trial.tick, paced, plan.cpu_max, plan.rate_max), sources })
}

/// How often the kernel has something new of what these patterns (none: all) select in a file, 0: at every event;
/// `None`: they select nothing.
fn refresh_of(file: &khz_parse::KernelFile, patterns: &[Pattern]) -> Option<Nanos> {
    let wanted = |metric: &str| patterns.is_empty() || patterns.iter().any(|p| p.matches_metric(metric));
    Some(file.refresh(wanted)?.period().unwrap_or(Nanos(0)))
}

fn source_cost(report: SourceReport, rate: Option<Rate>) -> SourceCost {
    let is_absent = report.missing.iter().all(|(_, reading)| *reading == Reading::Absent(Absence::NoSource));
    let finding = match (report.gather_time, report.problem) {
        (None, _) if is_absent => Finding::Absent(Absence::NoSource.to_string()),
        (_, Some(problem)) => Finding::Failed(problem),
        (Some(_), None) => Finding::Works,
        (None, None) => Finding::Failed("an empty text".to_owned()),
    };
    let missing = |(series, reading): (String, Reading)| {
        let why = match reading {
            Reading::Absent(why) => format!("absent: {why}"),
            Reading::Failed(fault) => format!("FAILED: {fault}"),
            Reading::Present(_) => unreachable!("BUG: a present reading is not missing"),
        };
        Missing { series, why }
    };
    SourceCost {
        name: report.name.to_owned(),
        path: format!("/{}", report.path),
        finding,
        values: report.values,
        missing: report.missing.into_iter().map(missing).collect(),
        bytes: report.bytes,
        gather: report.gather_time.unwrap_or_default(),
        rate,
    }
}

/// A gatherer for this process alone.
fn start_reader(plan: &Plan) -> Result<Agent, Failure> {
    start_alone(plan, READER_RING)
}

/// The same, for a recording.
pub fn start_recorder(plan: &Plan) -> Result<Agent, Failure> {
    start_alone(plan, RECORDER_RING)
}

fn start_alone(plan: &Plan, ring: RingSize) -> Result<Agent, Failure> {
    let plan = Plan { ring, ring_dir: RingDir::Nowhere, placement: Placement::default(), ..plan.clone() };
    start(&plan, Vec::new(), None)
}

fn gather_plan(plan: &Plan) -> khz_gather::Plan {
    khz_gather::Plan {
        root: plan.root.clone(),
        node: plan.node.clone(),
        sources: source_plans(plan),
        base_rate: plan.base_rate,
        local_rate: plan.local_rate,
        rate_max: plan.rate_max,
        cpu_max: plan.cpu_max,
        window: plan.window,
        ring: plan.ring,
        ring_folder: ring::place::folder(&plan.ring_dir, &plan.node),
        keep_rings: plan.keep_rings,
        placement: plan.placement.clone(),
        jobs: None,
        tallies: Vec::new(),
    }
}

/// All sources but those switched off, or exactly those listed.
fn source_plans(plan: &Plan) -> Vec<SourcePlan> {
    let planned = |&file: &&'static khz_parse::KernelFile| {
        let choice = plan.sources.choices.iter().find(|choice| choice.name == file.name);
        let is_wanted = choice.map_or(!plan.sources.exactly, |choice| choice.enabled);
        is_wanted.then(|| SourcePlan {
            file,
            rate: choice.and_then(|choice| choice.rate),
            budget: choice.and_then(|choice| choice.budget),
        })
    };
    khz_parse::files().iter().filter_map(planned).collect()
}

/// How often a source is gathered while nobody asks: at its own rate, or with the local lane, but no more
/// often than the kernel has something new.
fn rate_of(plan: &Plan, source: &SourcePlan) -> Rate {
    let refresh = source.file.refresh(|_| true).and_then(|refresh| refresh.period());
    let useful =
        refresh.and_then(Rate::from_period).map_or(plan.local_rate, |rate| plan.local_rate.at_most(rate));
    source.rate.unwrap_or(useful).at_most(plan.rate_max)
}

/// Waits for an answer without starting a thread.
pub fn wait_for<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| Failure::work(format!("cannot start: {error}")))?;
    Ok(runtime.block_on(future))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::plan::{SourceChoice, Sources};

    fn names(sources: Sources) -> Vec<(&'static str, Option<Rate>)> {
        let layers = crate::config::layers::tests::layers("", &[], &[]);
        let plan = Plan { sources, ..Plan::check(&layers, "host1", &source_names()).unwrap() };
        source_plans(&plan).into_iter().map(|source| (source.file.name, source.rate)).collect()
    }

    #[test]
    fn sources_are_all_or_all_but_some_or_exactly_some() {
        let choice =
            |name: &str, rate, enabled| SourceChoice { name: name.to_owned(), rate, enabled, budget: None };
        assert_eq!(names(Sources::default()).len(), source_names().len());
        let without = Sources { exactly: false, choices: vec![choice("vmstat", None, false)] };
        assert_eq!(names(without).len(), source_names().len() - 1);
        let fast = Rate::from_hz(1000);
        let only = Sources {
            exactly: true,
            choices: vec![choice("meminfo", fast, true), choice("stat", None, true)],
        };
        assert_eq!(names(only), [("stat", None), ("meminfo", fast)]);
    }
}
