//! Measures what gathering costs at a rate: a gatherer runs for a moment without ceiling and budgets, and counts its own
//! CPU time. A source that is read a thousand times a second takes longer than one that is read without a pause: between
//! two reads the thread sleeps, and other programs use the processor's caches.

use std::time::{Duration, Instant};

use khz_gather::Agent;
use khz_model::{Nanos, Pattern, Rate, Reading};

use crate::role::gatherer::wait_for;
use crate::show::outcome::{Failure, sentence};

/// A trial ends after this many rows: half a second at 1,000 Hz.
const ROWS: u64 = 500;
/// On a slow machine it ends after this time.
const LONGEST: Duration = Duration::from_secs(2);
/// The time between two checks whether it is over.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// The result of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// CPU time of the gather thread for a tick at which every source was gathered.
    pub tick: Nanos,
    /// The time of one gather of each source.
    pub sources: Vec<(&'static str, Nanos)>,
}

/// Gathers every source of the plan at this rate for a moment.
pub fn trial(mut plan: khz_gather::Plan, rate: Rate) -> Result<Trial, Failure> {
    let names: Vec<_> = plan.sources.iter().map(|source| source.file.name).collect();
    (plan.cpu_max, plan.rate_max, plan.ring_folder) = (1.0, rate, None);
    plan.base_rate = plan.base_rate.at_most(rate);
    plan.local_rate = plan.local_rate.at_most(rate);
    plan.sources.iter_mut().for_each(|source| (source.rate, source.budget) = (None, Some(1.0)));
    let failed = |error: &dyn std::error::Error| Failure::work(sentence(error));
    let agent = Agent::start(plan).map_err(|error| failed(&error))?;
    let everything: Vec<Pattern> = Pattern::new("*").into_iter().collect();
    let lane = agent.follow(&everything, rate, true).map_err(|error| failed(&error))?;
    let before = Numbers::of(&agent, lane.name())?;
    let end = Instant::now() + LONGEST;
    loop {
        std::thread::sleep(CHECK_PERIOD);
        let now = Numbers::of(&agent, lane.name())?;
        let since = |name: &str| now.get(name).saturating_sub(before.get(name));
        let rows = since(ROWS_OF_LANE);
        if rows < ROWS && Instant::now() < end {
            continue;
        }
        let each = |name: &'static str| {
            let gathers = since(&format!("khz.source.gathers[{}]", instance(name)));
            let took = since(&format!("khz.source.gather_time[{}]", instance(name))).checked_div(gathers)?;
            Some((name, Nanos(took)))
        };
        let tick = since("khz.gather.cpu").checked_div(rows);
        let tick = tick.ok_or_else(|| Failure::work("no row was gathered in two seconds: this machine is too busy to try rates; check again when it is not"))?;
        return Ok(Trial { tick: Nanos(tick), sources: names.into_iter().filter_map(each).collect() });
    }
}

/// A source as an instance, between brackets.
fn instance(name: &str) -> String {
    khz_model::Instance::from_kernel(name.as_bytes()).to_string()
}

/// The name of the lane's rows here, whatever the name of the lane.
const ROWS_OF_LANE: &str = "khz.lane.rows";

/// The agent's own numbers at one moment.
struct Numbers(Vec<(String, u64)>);

impl Numbers {
    fn of(agent: &Agent, lane: &str) -> Result<Self, Failure> {
        let names =
            ["khz.gather.cpu".to_owned(), "khz.source.*[*]".to_owned(), format!("{ROWS_OF_LANE}[{lane}]")];
        let patterns: Vec<Pattern> = names.iter().filter_map(|name| Pattern::new(name).ok()).collect();
        let query = agent.query();
        let snapshot = wait_for(query.latest(&patterns, Nanos(0)))?;
        let snapshot = snapshot.map_err(|error| Failure::work(sentence(&error)))?;
        let samples = snapshot.nodes.into_iter().flat_map(|(_, samples)| samples);
        let known = samples.filter_map(|sample| match sample.reading {
            Reading::Present(value) => {
                let series = sample.series.to_string();
                let is_lane = series.starts_with(ROWS_OF_LANE);
                Some((if is_lane { ROWS_OF_LANE.to_owned() } else { series }, value))
            }
            _ => None,
        });
        Ok(Numbers(known.collect()))
    }

    fn get(&self, name: &str) -> u64 {
        self.0.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
    }
}
