//! Starts a gatherer in this process, as the plan says: for a daemon, or for one command. Only here configuration and
//! gathering meet.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_gather::{
    Agent, Handlers, JobDoor, Placement, Programs, RingSize, SURVEYS_PATIENCE, SourcePlan, Tally,
};
use khz_model::{ByteSize, Metric, Pattern, Rate, Series};
use khz_sandbox::{ChildCommand, Sandbox};

use crate::config::plan::RingDir;
use crate::config::{Plan, places};
use crate::role::apart;
use crate::show::outcome::{Failure, sentence};

/// A command that reads for itself keeps no history. This ring holds the rows between two polls.
const READER_RING: RingSize = RingSize::Bytes(ByteSize(1 << 20));
/// A recording is written from this ring, and a disk may be slow for a while.
const RECORDER_RING: RingSize = RingSize::Bytes(ByteSize(16 << 20));

/// The word with which this program is the process that executes programs. Nobody types it.
pub const CHILD: &str = "execute-programs";

/// The names of the sources that exist.
pub fn source_names() -> Vec<&'static str> {
    khz_parse::files().iter().map(|file| file.name).collect()
}

/// The host name that the kernel below `root` has.
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

/// Turns counts that exist once each into series.
pub fn single(
    counts: impl IntoIterator<Item = (Metric, Arc<AtomicU64>)>,
) -> impl Iterator<Item = (Series, Arc<AtomicU64>)> {
    counts.into_iter().map(|(metric, count)| (Series { metric: Arc::new(metric), instance: None }, count))
}

/// Starts the gatherer. Its own numbers include `counts`, and the numbers that jobs publish at `jobs`.
pub fn start(
    plan: &Plan,
    counts: Vec<(Series, Arc<AtomicU64>)>,
    jobs: Option<Arc<JobDoor>>,
) -> Result<Agent, Failure> {
    let tally = |(Series { metric, instance }, count)| Tally { metric, instance, count };
    let tallies = counts.into_iter().map(tally).collect();
    let programs = programs(plan)?;
    Agent::start(khz_gather::Plan { tallies, jobs, programs, ..gather_plan(plan) })
        .map_err(|error| Failure::usage(sentence(&error)))
}

/// What executes the programs of channels, if this node is to.
fn programs(plan: &Plan) -> Result<Option<Arc<dyn Programs>>, Failure> {
    if plan.handlers != Handlers::Programs {
        return Ok(None);
    }
    let child = ChildCommand { program: "/proc/self/exe".into(), words: vec![CHILD.to_owned()] };
    let settings = khz_sandbox::Settings { child, allowed: plan.programs_allowed.clone() };
    let sandbox = Sandbox::new(settings).map_err(|errno| Failure::work(format!("cannot start: {errno}")))?;
    Ok(Some(Arc::new(sandbox)))
}

/// Starts a gatherer for a command that reads once. It begins when each text has come, or is known to be stuck.
pub fn start_patient_reader(plan: &Plan) -> Result<Agent, Failure> {
    apart::or_here(&plan.root)?;
    let plan = alone(plan, READER_RING);
    let mut gather = gather_plan(&plan);
    gather.survey.first_wait = SURVEYS_PATIENCE;
    Agent::start(gather).map_err(|error| Failure::usage(sentence(&error)))
}

/// A gatherer for a command that reads: no files, no placement.
pub fn start_reader(plan: &Plan) -> Result<Agent, Failure> {
    start_alone(plan, READER_RING)
}

/// The same for a recording.
pub fn start_recorder(plan: &Plan) -> Result<Agent, Failure> {
    start_alone(plan, RECORDER_RING)
}

fn start_alone(plan: &Plan, ring: RingSize) -> Result<Agent, Failure> {
    apart::or_here(&plan.root)?;
    start(&alone(plan, ring), Vec::new(), None)
}

fn alone(plan: &Plan, ring: RingSize) -> Plan {
    Plan { ring, ring_dir: RingDir::Nowhere, placement: Placement::default(), ..plan.clone() }
}

/// The plan, as the gatherer needs it.
pub fn gather_plan(plan: &Plan) -> khz_gather::Plan {
    khz_gather::Plan {
        root: plan.root.clone(),
        node: plan.node.clone(),
        sources: source_plans(plan),
        base_rate: plan.base_rate,
        local_rate: plan.local_rate,
        rate_max: plan.rate_max,
        cpu_max: plan.cpu_max,
        handlers: plan.handlers,
        window: plan.window,
        ring: plan.ring,
        ring_folder: places::rings_of(&plan.ring_dir, &plan.node),
        keep_rings: plan.keep_rings,
        placement: plan.placement.clone(),
        survey: plan.sources.survey(),
        jobs: None,
        programs: None,
        tallies: Vec::new(),
    }
}

/// All sources but those switched off, or exactly those listed.
pub fn source_plans(plan: &Plan) -> Vec<SourcePlan> {
    let planned = |file: &'static khz_parse::KernelFile| {
        let choice = plan.sources.choices.iter().find(|choice| choice.name == file.name);
        let is_wanted = choice.map_or(!plan.sources.exactly, |choice| choice.enabled);
        is_wanted.then(|| SourcePlan {
            file,
            rate: choice.and_then(|choice| choice.rate),
            budget: choice.and_then(|choice| choice.budget),
        })
    };
    plan.sources.known.iter().filter_map(planned).collect()
}

/// The rate of a source while nobody reads: its own, or that of the local lane, but not faster than the kernel updates the file.
pub fn rate_of(plan: &Plan, source: &SourcePlan) -> Rate {
    let refresh = source.file.refresh_for(&[Pattern::everything()]);
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
    use crate::config::sources::{SourceChoice, Sources};

    fn names(sources: Sources) -> Vec<(&'static str, Option<Rate>)> {
        let layers = crate::config::layers::tests::layers("", &[], &[]);
        let plan = Plan { sources, ..Plan::check(&layers, "host1", &source_names()).unwrap() };
        source_plans(&plan).into_iter().map(|source| (source.file.name, source.rate)).collect()
    }

    #[test]
    fn sources_are_all_or_all_but_some_or_exactly_some() {
        let choice = |name: &str, rate, enabled| SourceChoice {
            name: name.to_owned(),
            rate,
            enabled,
            ..SourceChoice::default()
        };
        assert_eq!(names(Sources::default()).len(), source_names().len());
        let without = Sources { choices: vec![choice("vmstat", None, false)], ..Sources::default() };
        assert_eq!(names(without).len(), source_names().len() - 1);
        let fast = Rate::from_hz(1000);
        let only = Sources {
            exactly: true,
            choices: vec![choice("meminfo", fast, true), choice("stat", None, true)],
            ..Sources::default()
        };
        assert_eq!(names(only), [("stat", None), ("meminfo", fast)]);
    }
}
