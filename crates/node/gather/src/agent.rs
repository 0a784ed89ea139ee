//! The agent: it starts the gather thread from a checked plan, passes requests to it, and ends it.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use futures_channel::oneshot;
use khz_model::{Nanos, Pattern, Query, QueryError, Ranges, Rate};

use crate::asked::Asked;
use crate::clock;
use crate::error::GatherError;
use crate::gatherer::{Gatherer, RingsLost};
use crate::inbox::{Inbox, Request};
use crate::lane::Lane;
use crate::lane_handle::{LaneHandle, Lanes};
use crate::own::OwnNumbers;
use crate::plan::Plan;
use crate::query::NodeQuery;
use crate::renewal::{GONE_FOR, Renewal};
use crate::rings::{LaneSize, Rings};
use crate::source::Source;
use crate::source_set::SOURCES_MAX;
use crate::survey::{Survey, Surveys};

/// The stack of the gather thread: its deepest call is a full parse, its largest buffer has 4 KiB.
const STACK_BYTES: usize = 256 << 10;

/// The unit in which the kernel counts CPU time. The catalogue writes hundredths of a second, so no other
/// unit fits.
const USER_HZ: u64 = 100;

/// A running gather thread. Dropping it ends the thread.
pub struct Agent {
    inbox: Arc<Inbox>,
    query: Arc<NodeQuery>,
    thread: Option<JoinHandle<()>>,
    rings_lost: oneshot::Receiver<RingsLost>,
}

/// The reason why an agent needs its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The gather thread has panicked; its output says why.
    Panicked,
    /// It still runs, but somebody has cut short, removed or overwritten the file of a ring: nobody can read
    /// these rows after the agent has ended. A new agent makes new rings.
    RingsLost,
}

impl Agent {
    /// Checks the plan, opens every source once, and starts the thread. After an error, nothing runs.
    pub fn start(plan: Plan) -> Result<Self, GatherError> {
        Agent::start_with(plan, GONE_FOR)
    }

    /// The same, with another time after which instances that are gone may lose their slots: for tests, which cannot
    /// wait for as long.
    ///
    /// # Errors
    /// The same as of [`Agent::start`].
    pub fn start_with(plan: Plan, gone_for: Nanos) -> Result<Self, GatherError> {
        check(&plan)?;
        let subjects = plan.subjects();
        let mut plan = plan;
        let survey = Survey::start(&plan.root, &plan.survey, subjects.iter().map(|plan| plan.subject));
        plan.tallies.extend(survey.tallies());
        let surveys = Surveys::new(survey.clone(), subjects, clock::boot());
        let mut sources = open_sources(&plan, &survey)?;
        let tallies = plan.tallies_all();
        sources.extend(plan.jobs.clone().map(Source::jobs));
        let names: Vec<_> = sources.iter().map(Source::name).collect();
        sources.push(Source::own(OwnNumbers::new(&names, tallies)));
        let rings = Rings::open(&plan)?;
        let lanes = fixed_lanes(&plan, &sources, &rings)?;
        let inbox = Arc::new(Inbox::new().map_err(|errno| GatherError::Thread(errno.into()))?);
        let views = lanes.iter().map(|lane| lane.view.clone()).collect();
        let asked = Arc::new(Asked::new(&plan, gone_for, survey));
        let query = Arc::new(NodeQuery::new(&plan, &sources, inbox.clone(), asked.clone(), views));
        let placement = plan.placement.clone();
        let (say_rings_lost, rings_lost) = oneshot::channel();
        let gatherer = Gatherer::new(
            plan,
            inbox.clone(),
            asked,
            sources,
            surveys,
            lanes,
            rings,
            Renewal::new(gone_for),
            say_rings_lost,
        );
        let (placed, is_placed) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("gather".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let outcome = placement.apply();
                let goes_on = outcome.is_ok();
                // The starter waits for this message only.
                let _ = placed.send(outcome);
                if goes_on {
                    gatherer.run();
                }
            })
            .map_err(GatherError::Thread)?;
        // A thread that ends without a message has panicked and printed why.
        is_placed.recv().unwrap_or(Ok(()))?;
        Ok(Agent { inbox, query, thread: Some(thread), rings_lost })
    }

    /// The interface through which doors read.
    pub fn query(&self) -> Arc<dyn Query> {
        self.query.clone()
    }

    /// Answers questions about the past with this from now on. Only the first call counts.
    pub fn remember(&self, past: Arc<dyn Ranges>) {
        self.query.remember(past);
    }

    /// The plan's lanes, the base lane first.
    pub fn lanes(&self) -> Vec<LaneHandle> {
        self.shared_lanes().all()
    }

    /// Opens a lane for these patterns at this rate; see [`Lanes::follow`].
    ///
    /// # Errors
    /// The same as of [`Lanes::follow`].
    pub fn follow(&self, patterns: &[Pattern], rate: Rate, exact: bool) -> Result<LaneHandle, QueryError> {
        self.shared_lanes().follow(patterns, rate, exact)
    }

    /// The same for use in another thread.
    pub fn shared_lanes(&self) -> Lanes {
        Lanes::new(self.query.clone())
    }

    /// Completes when the owner has to act, which is rare.
    pub async fn end(&mut self) -> Ending {
        match (&mut self.rings_lost).await {
            Ok(RingsLost) => Ending::RingsLost,
            // The thread has ended and dropped its sender.
            Err(oneshot::Canceled) => Ending::Panicked,
        }
    }

    /// Ends the thread and waits for it.
    pub fn stop(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that has ended takes no request; its panic, if any, is already printed.
            let _ = self.inbox.put(Request::Stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.join();
    }
}

fn check(plan: &Plan) -> Result<(), GatherError> {
    let ceiling = plan.rate_max;
    let own_rates =
        plan.sources.iter().filter_map(|s| Some((format!("the rate of {}", s.file.name), s.rate?)));
    let lanes = [("base_rate".to_owned(), plan.base_rate), ("local_rate".to_owned(), plan.local_rate)];
    for (what, rate) in lanes.into_iter().chain(own_rates) {
        if rate.is_above(ceiling) {
            return Err(GatherError::AboveCeiling { what, rate, ceiling });
        }
    }
    if plan.sources.is_empty() {
        return Err(GatherError::NoSources);
    }
    // Two more are the numbers of jobs, and the agent's own.
    let (count, max) = (plan.sources.len(), SOURCES_MAX - 2);
    if count > max {
        return Err(GatherError::TooManySources { count, max });
    }
    let hz = rustix::param::clock_ticks_per_second();
    if hz != USER_HZ {
        return Err(GatherError::UserHz { hz });
    }
    Ok(())
}

/// Opens every source of the plan and gathers each once. At least one must work.
fn open_sources(plan: &Plan, survey: &Arc<Survey>) -> Result<Vec<Source>, GatherError> {
    let now = clock::stamp();
    let mut sources = Vec::with_capacity(plan.sources.len() + 1);
    let mut room = Vec::new();
    for source in &plan.sources {
        let mut source = source.open(&plan.root, survey);
        source.gather(now, &mut room);
        sources.push(source);
    }
    // The distribution describes itself even without /proc. That is not enough for a caller that wants numbers.
    let wants_numbers = sources.iter().any(|source| !source.is_description());
    let counts = |source: &Source| source.counts.bytes > 0 && !(wants_numbers && source.is_description());
    // What has not answered yet may have numbers.
    if !sources.iter().any(counts) && !survey.is_busy() {
        let problem = sources.iter().find_map(Source::problem).unwrap_or("every file is empty").to_owned();
        return Err(GatherError::NothingToRead { root: plan.root.clone(), problem });
    }
    Ok(sources)
}

/// A lane of the plan: name, rate, the shortest time between two gathers for each source, and its part of the
/// rings' memory.
struct PlannedLane {
    name: String,
    rate: Rate,
    members: Vec<Option<Nanos>>,
    part: f64,
}

/// The plan's lanes, each with a ring.
fn fixed_lanes(plan: &Plan, sources: &[Source], rings: &Rings) -> Result<Vec<Lane>, GatherError> {
    let now = clock::stamp();
    let mut lanes = Vec::new();
    for (number, planned) in planned_lanes(plan, sources).into_iter().enumerate() {
        let PlannedLane { name, rate, members, part } = planned;
        let slots = sources.iter().zip(&members).filter(|(_, m)| m.is_some()).map(|(s, _)| s.slots()).sum();
        let ring = rings.of_plan(number as u16, &name, LaneSize { part, rate, slots })?;
        let mut lane = Lane::new(Some(rate), members, ring, now);
        sources.iter().enumerate().for_each(|(i, source)| lane.know(i, source));
        lanes.push(lane);
    }
    Ok(lanes)
}

/// The base lane (everything), the local lane (sources of numbers without their own rate), and one lane for each rate
/// that sources have of their own.
fn planned_lanes(plan: &Plan, sources: &[Source]) -> Vec<PlannedLane> {
    let own_rate = |i: usize| plan.sources.get(i).and_then(|s| s.rate);
    let natural = |source: &Source| match source.kernel_file() {
        Some(file) => file.refresh(|_| true).and_then(|r| r.period()).unwrap_or(Nanos(0)),
        None if source.is_own() => Nanos::SECOND,
        None => Nanos(0),
    };
    let members =
        |wanted: &dyn Fn(usize) -> Option<Nanos>| (0..sources.len()).map(wanted).collect::<Vec<_>>();

    // A source whose own rate equals the base rate needs no lane of its own: the base lane samples it
    // exactly.
    let base_refresh = |i: usize| match own_rate(i) {
        Some(rate) if rate == plan.base_rate => Nanos(0),
        // The base lane does not read it more often than it should be read: between two reads its value stands.
        Some(rate) if rate.period() > plan.base_rate.period() => rate.period(),
        _ => natural(&sources[i]),
    };
    let base = members(&|i| Some(base_refresh(i)));
    let mut planned =
        vec![PlannedLane { name: "base".into(), rate: plan.base_rate, members: base, part: 0.25 }];

    let mut rates: Vec<Rate> = (0..plan.sources.len()).filter_map(own_rate).collect();
    rates.retain(|&rate| rate != plan.base_rate);
    rates.sort_by_key(|rate| rate.period());
    rates.dedup();
    let has_local_rate =
        |source: &Source| !source.is_own() && !source.is_description() && !source.is_only_base();
    let is_local = |i: usize| own_rate(i).is_none() && has_local_rate(&sources[i]);
    let local = members(&|i| is_local(i).then(|| natural(&sources[i])));
    // Numbers of jobs are published along with kernel files. Alone, they are no reason to wake up ten times
    // a second.
    let has_files =
        local.iter().zip(sources).any(|(member, source)| member.is_some() && source.kernel_file().is_some());
    if has_files {
        let part = if rates.is_empty() { 0.5 } else { 0.25 };
        planned.push(PlannedLane { name: "local".into(), rate: plan.local_rate, members: local, part });
    }
    let part = 0.25 / rates.len().max(1) as f64;
    planned.extend(rates.into_iter().map(|rate| PlannedLane {
        name: format!("fixed-{rate}"),
        rate,
        // The plan asks for this rate: keep it exactly, whatever the kernel's refresh.
        members: members(&|i| (own_rate(i) == Some(rate)).then_some(Nanos(0))),
        part,
    }));
    planned
}

#[cfg(test)]
mod tests {
    use khz_model::NodeName;

    use super::*;
    use crate::budget::Budget;
    use crate::plan::SourcePlan;

    #[test]
    fn a_source_with_a_slower_rate_than_the_base_lane_is_not_read_more_often_for_it() {
        let file = &khz_parse::loadavg::FILE;
        let root = std::env::temp_dir();
        for (rate, expected) in [
            (None, file.refresh(|_| true).and_then(|refresh| refresh.period()).unwrap_or(Nanos(0))),
            (Some("1Hz"), Nanos(0)),
            (Some("0.1Hz"), Nanos::from_secs(10)),
            (Some("0.5Hz"), Nanos::from_secs(2)),
        ] {
            let rate = rate.map(|rate| rate.parse().unwrap());
            let plan = Plan {
                base_rate: "1Hz".parse().unwrap(),
                sources: vec![SourcePlan { file, rate, budget: None }],
                ..Plan::new(&root, NodeName::new("n1").unwrap())
            };
            let planned = planned_lanes(&plan, &[Source::file(&root, file, Budget::unlimited())]);
            assert_eq!((&*planned[0].name, planned[0].members[0]), ("base", Some(expected)), "{rate:?}");
        }
    }
}
