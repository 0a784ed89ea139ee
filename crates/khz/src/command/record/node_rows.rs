//! Rows of this node: a gatherer in this process for the time of the recording, and its ring.

use std::time::{Duration, Instant};

use khz_gather::{Agent, LaneHandle};
use khz_model::{Interest, NodeName, Pace, Pattern, QueryError, Rate};
use khz_record::{RecordError, Recorder};

use super::ring_copy::RingCopy;
use crate::command::this_node;
use crate::config::Plan;
use crate::role::gatherer;
use crate::show::misses;
use crate::show::outcome::{Failure, sentence};

/// The first row comes within this time, or something is wrong.
const FIRST_ROW: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// This node.
pub struct NodeRows {
    lane: LaneHandle,
    copy: RingCopy,
    agent: Agent,
    node: NodeName,
    /// Remembers what was printed about its rate.
    pace: Pace,
    /// This node lacks requested series, which was printed on stderr.
    pub has_misses: bool,
}

impl NodeRows {
    /// Starts to gather, and waits for the first row. `asked`: the patterns whose series should already exist.
    pub fn start(plan: &Plan, interest: &Interest, asked: &[Pattern]) -> Result<Self, Failure> {
        let Interest { patterns, rate, exact, .. } = interest;
        let node = plan.node.as_str();
        if !patterns.iter().any(|pattern| pattern.matches_node(node)) {
            return Err(Failure::work(format!(
                "this node is {node}, and no pattern selects it; other nodes are recorded through a hub (--hub)"
            )));
        }
        let agent = gatherer::start_recorder(plan)?;
        let misses = this_node::misses(&agent, plan, asked)?;
        let lane = agent.follow(patterns, *rate, *exact).map_err(|error| match error {
            QueryError::AboveCeiling { .. } => Failure::usage(sentence(&error)),
            QueryError::NothingMatches { .. } if !misses.is_empty() => {
                Failure::Work(misses.sentences().join("; "))
            }
            _ => Failure::work(sentence(&error)),
        })?;
        let copy = RingCopy::new(lane.reader().clone(), 1, lane.reader().newest());
        misses::print(&misses);
        let (node, pace) = (plan.node.clone(), Pace::new(*rate));
        let mut rows = NodeRows { node, lane, copy, agent, pace, has_misses: !misses.is_empty() };
        rows.wait_for_row(Duration::from(rate.period()))?;
        rows.remark_pace();
        Ok(rows)
    }

    /// Prints once that rows come more slowly than requested, and once that the requested rate is back.
    fn remark_pace(&mut self) {
        let news = Rate::from_period(self.lane.period()).and_then(|rate| self.pace.news(rate));
        if let Some(text) = news {
            crate::show::table::remark!("{}: {text}", self.node);
        }
    }

    fn wait_for_row(&self, period: Duration) -> Result<(), Failure> {
        let end = Instant::now() + FIRST_ROW + period;
        while !self.copy.has_rows() {
            if Instant::now() > end {
                return Err(Failure::work(
                    "the gatherer has not given a row; `khz check` says what works here",
                ));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Writes the head of the lane.
    pub fn begin(&self, recorder: &mut Recorder) -> Result<(), RecordError> {
        self.copy.begin(recorder, self.lane.period())
    }

    /// Copies the rows that have come since the last call.
    pub fn copy(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        self.remark_pace();
        self.copy.copy(recorder)
    }

    /// Copies the rest, and ends.
    pub fn finish(mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        let copied = self.copy.finish(recorder);
        drop(self.lane);
        self.agent.stop();
        copied
    }
}
