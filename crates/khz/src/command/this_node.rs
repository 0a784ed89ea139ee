//! This node, read by a gatherer in this process for as long as a command needs it: its latest readings, its rows, and
//! what it does not have.

use std::sync::Arc;
use std::time::Duration;

use khz_ask::{Answer, Piece};
use khz_gather::Agent;
use khz_model::{
    Bell, Columns, Interest, Known, Metric, Misses, Nanos, NodeName, Pattern, QueryError, Series,
    Subscription,
};

use crate::config::Plan;
use crate::role::gatherer::{start_patient_reader, start_reader, wait_for};
use crate::show::outcome::{Failure, sentence};

/// Rows are fetched at most this often: a terminal shows no more than sixty pictures a second.
const POLL_PERIOD_MIN: Duration = Duration::from_millis(16);
/// Rows are fetched at least this often, so that a slow row is shown soon after it came.
const POLL_PERIOD_MAX: Duration = Duration::from_millis(250);

/// Waits for the next pieces of a stream; `None` at its end.
pub type Stream = Box<dyn FnMut() -> Result<Option<Vec<Piece>>, Failure>>;

/// The latest readings, gathered now.
pub fn latest(plan: &Plan, patterns: &[Pattern]) -> Result<Answer, Failure> {
    let agent = start_patient_reader(plan)?;
    let answer = wait_for(agent.query().latest(patterns, Nanos(0)))?;
    let misses = misses(&agent, plan, patterns)?;
    agent.stop();
    let mut answer = match answer {
        Err(QueryError::NothingMatches { .. }) => Answer::default(),
        answer => Answer::from_snapshot(answer.map_err(|error| Failure::work(sentence(&error)))?),
    };
    answer.reported = Some(misses.into());
    Ok(answer)
}

/// The patterns that select nothing on this node now.
pub fn misses(agent: &Agent, plan: &Plan, patterns: &[Pattern]) -> Result<Misses, Failure> {
    let query = agent.query();
    let metric = |pattern: &Pattern| Pattern::new(pattern.metric()).ok();
    let wide: Vec<Pattern> =
        patterns.iter().filter(|pattern| pattern.instance().is_some()).filter_map(metric).collect();
    let latest = wait_for(query.latest(&wide, Nanos(0)))?.unwrap_or_default();
    let series = latest.nodes.into_iter().flat_map(|(_, samples)| samples).map(|sample| sample.series);
    let known =
        KnownHere { node: plan.node.clone(), metrics: query.metrics(), series: Arc::new(series.collect()) };
    // Whether other nodes exist is not known here.
    Ok(Misses { nodes: Vec::new(), ..Misses::of(&known, patterns) })
}

/// This node, its metrics, and its series as far as patterns ask for instances.
struct KnownHere {
    node: NodeName,
    metrics: Vec<Arc<Metric>>,
    series: Arc<Vec<Series>>,
}

impl Known for KnownHere {
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

/// Rows, gathered by this process for as long as the stream lives.
pub fn rows(plan: &Plan, interest: Interest) -> Result<Stream, Failure> {
    let agent = start_reader(plan)?;
    let misses = misses(&agent, plan, &interest.patterns)?;
    let subscription = agent.query().subscribe(interest).map_err(|error| not_subscribed(&error, &misses))?;
    Ok(stream(agent, subscription, misses))
}

/// Why the gatherer refuses a subscription.
pub fn not_subscribed(error: &QueryError, misses: &Misses) -> Failure {
    match error {
        QueryError::AboveCeiling { .. } => Failure::usage(sentence(error)),
        QueryError::NothingMatches { .. } if !misses.is_empty() => {
            Failure::Work(misses.sentences().join("; "))
        }
        _ => Failure::work(sentence(error)),
    }
}

fn stream(agent: Agent, mut subscription: Box<dyn Subscription>, misses: Misses) -> Stream {
    let mut known = None;
    let mut misses = Some(misses).filter(|misses| !misses.is_empty());
    let pause = Duration::from(subscription.rate().period()).clamp(POLL_PERIOD_MIN, POLL_PERIOD_MAX);
    // The rows of a channel ring, and wake the thread that waits here.
    let reader = std::thread::current();
    let bell: Bell = Arc::new(move || reader.unpark());
    let rings = subscription.ring(&bell);
    Box::new(move || {
        // The gatherer lives as long as this closure.
        let _ = &agent;
        match rings {
            true => {
                std::thread::sleep(POLL_PERIOD_MIN);
                std::thread::park_timeout(POLL_PERIOD_MAX);
            }
            false => std::thread::sleep(pause),
        }
        let mut pieces: Vec<Piece> = misses.take().map(Piece::Misses).into_iter().collect();
        let deliveries = subscription.poll();
        pieces.extend(subscription.notices().into_iter().map(Piece::from_notice));
        for delivery in deliveries {
            let rate = delivery.rate.unwrap_or(subscription.rate());
            let is_known = |(columns, at): &(_, _)| Arc::ptr_eq(columns, &delivery.columns) && *at == rate;
            if !known.as_ref().is_some_and(is_known) {
                pieces.push(Piece::columns_of(&delivery, rate));
                known = Some((Arc::clone(&delivery.columns), rate));
            }
            pieces.push(Piece::rows_of(&delivery));
        }
        Ok(Some(pieces))
    })
}
