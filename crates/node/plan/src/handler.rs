//! A handler: what a node does with the rows of a channel before it sends them. It computes values, and leaves out rows.

mod bound;
mod bucket;
mod change;
mod histogram;
mod program;
mod result;
mod rules;
mod truth;
mod wire;

use khz_model::metric::Called;
use khz_model::{Nanos, Series};

pub use bound::BoundHandler;
pub use bucket::Bucket;
pub use program::PackedProgram;
pub use result::{Judged, ResultSeries};
pub use rules::RulePlan;

use crate::bind::Identity;
use crate::error::PlanError;
use crate::limits::{DURATION_MAX, SLOWER_MAX, TRUTH_ROWS_MAX, WINDOW_MAX};
use crate::plan::{Operator, Over, Plan, Selector, Step};
use crate::types::check_window;

/// What a node does with rows before it sends them. The default sends every row as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handler {
    /// What a row has.
    pub values: Values,
    /// Which rows are sent; `None`: all that have a value.
    pub when: Option<When>,
    /// Rows that differ too little from the last one that was sent are left out.
    pub deadband: Option<Deadband>,
    /// One row at most in each interval of this length; 0: every row.
    pub every: Nanos,
    /// What [`Handler::when`] does besides leaving out rows.
    pub effect: Effect,
}

/// What becomes of rows while a condition is not on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Effect {
    /// They are not sent.
    #[default]
    LeavesOut,
    /// All rows are sent, and while nothing is on, the node gathers this many times more slowly.
    SlowsDown(u32),
    /// Rows this long before and after a condition is on are sent, too.
    Surrounds {
        /// Before.
        before: Nanos,
        /// After.
        after: Nanos,
    },
}

/// What a row has.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Values {
    /// The readings of the channel's series, as they are.
    #[default]
    Readings,
    /// The result of a plan.
    Plan(Plan),
    /// A function of a window of each of the channel's series: their means, say.
    Each {
        /// The function.
        over: Over,
        /// How far it reaches back: a multiple of a millisecond.
        length: Nanos,
    },
    /// How the samples of each of the channel's series are spread in a window: how many are in each [`Bucket`].
    Histogram {
        /// How far it reaches back: a multiple of a millisecond.
        length: Nanos,
    },
    /// The results of rules that the node evaluates. A row is sent when a result comes or goes, when a result was present or absent
    /// for the time that its rule waits, and every [`Handler::every`] while there is a result. Without results, a row is sent at least
    /// every minute.
    Rules(Vec<RulePlan>),
    /// What a program gives for rows of the channel's series. A process of the node's own executes it, not a plan.
    Program(PackedProgram),
}

/// When rows are sent. A condition is judged for each series of its result: the series is true in a row in which it has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct When {
    /// The condition; `None`: the result of [`Handler::values`]. A row has only series that are on then.
    pub plan: Option<Plan>,
    /// A series becomes on after it was true for this long.
    pub holds: Nanos,
    /// A series that is on stays on until it has a value here; `None`: until it is not true.
    pub unless: Option<Plan>,
    /// A series counts as true if it was so in this many of the last [`When::of`] rows.
    pub at_least: u8,
    /// At most [`TRUTH_ROWS_MAX`].
    pub of: u8,
    /// One row when a series becomes on, instead of all rows while a series is on.
    pub once: bool,
    /// A series causes no other row for this long after one: with [`When::once`].
    pub quiet: Nanos,
}

impl Default for When {
    fn default() -> Self {
        When { plan: None, holds: Nanos(0), unless: None, at_least: 1, of: 1, once: false, quiet: Nanos(0) }
    }
}

/// How much a value must differ from the one that was sent last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deadband {
    /// By at least this.
    pub absolute: f64,
    /// By at least this share of what was sent; the larger of both counts.
    pub relative: f64,
}

/// Whether these bytes are a handler with a program.
pub fn is_program(handler: &[u8]) -> bool {
    Handler::take(handler).is_ok_and(|handler| handler.program().is_some())
}

impl Handler {
    /// True if the last sent row stays valid until the next one comes: a new reader wants it, whatever its age. A row of a condition
    /// is an event, which is over.
    pub fn gives_states(&self) -> bool {
        self.deadband.is_some() && self.when.is_none()
    }

    /// The program that executes the channel, if one does.
    pub fn program(&self) -> Option<&PackedProgram> {
        if let Values::Program(program) = &self.values { Some(program) } else { None }
    }

    /// All its plans.
    fn plans(&self) -> impl Iterator<Item = &Plan> {
        let when = self.when.iter().flat_map(|when| [when.plan.as_ref(), when.unless.as_ref()]);
        let values = if let Values::Plan(plan) = &self.values { Some(plan) } else { None };
        let rules = if let Values::Rules(rules) = &self.values { &rules[..] } else { &[] };
        when.chain([values]).flatten().chain(rules.iter().map(|rule| &rule.plan))
    }

    /// True if the handler works without some series: its results for the other series are still right. A sum of some series is
    /// not the sum of all, and whether a series exists may affect the result of another.
    pub fn may_lack_series(&self) -> bool {
        let is_of_each = |step: &Step| match step {
            Step::Aggregate(_) => false,
            Step::Combine(combine) => !matches!(combine.operator, Operator::Or | Operator::Unless),
            _ => true,
        };
        !matches!(self.values, Values::Rules(_))
            && self.plans().all(|plan| plan.steps().iter().all(is_of_each))
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.plans().flat_map(Plan::selectors)
    }

    /// Whether a plan may need series of this metric, as far as their names tell.
    pub fn may_need(&self, metric: Called<'_>) -> bool {
        self.selectors().any(|selector| selector.may_mean(metric))
    }

    /// Whether a plan needs this series.
    pub fn needs(&self, series: &Series, identity: Identity<'_>) -> bool {
        self.selectors().any(|selector| selector.labels(series, identity).is_some())
    }

    fn check_effect(&self) -> Result<(), &'static str> {
        let needs_condition = |is_once: bool| match &self.when {
            None => Err("has no condition that would change its rate or cause rows"),
            Some(when) if when.once || is_once && self.every > Nanos(0) => {
                Err("cannot send single rows and all rows of a time at once")
            }
            Some(_) => Ok(()),
        };
        match self.effect {
            Effect::LeavesOut => Ok(()),
            Effect::SlowsDown(times) if (2..=SLOWER_MAX).contains(&times) => needs_condition(false),
            Effect::SlowsDown(_) => Err("gathers between 2 and 100,000 times more slowly"),
            Effect::Surrounds { before, after } => {
                if self.values != Values::Readings || self.deadband.is_some() {
                    return Err("sends readings around an event, and no results or deadbands");
                }
                if before > WINDOW_MAX || after > DURATION_MAX {
                    return Err("sends rows of at most 5 minutes before an event and a day after it");
                }
                needs_condition(true)
            }
        }
    }

    /// Returns what every node would refuse.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let refuse = |problem| Err(PlanError::Handler { problem });
        if let Some(when) = &self.when {
            if when.plan.is_none() && self.values == Values::Readings {
                return refuse("has a condition without an expression");
            }
            if when.at_least == 0 || when.at_least > when.of || when.of > TRUTH_ROWS_MAX {
                return refuse("must count at least one and at most all of the last rows, 64 at most");
            }
            if when.quiet > Nanos(0) && !when.once {
                return refuse("has a quiet time, but sends more than one row each time");
            }
            if when.once && self.every > Nanos(0) {
                return refuse("sends a row when something becomes true, and cannot wait for an interval");
            }
            if when.holds > DURATION_MAX || when.quiet > DURATION_MAX {
                return refuse("waits for longer than a day");
            }
        }
        self.check_effect().or_else(refuse)?;
        if let Some(Deadband { absolute, relative }) = self.deadband
            && !(absolute >= 0.0 && relative >= 0.0)
        {
            return refuse("has a deadband below 0");
        }
        if let Values::Each { length, .. } | Values::Histogram { length } = self.values {
            check_window(length).or_else(refuse)?;
        }
        if let Values::Histogram { .. } = self.values {
            if self.deadband.is_some() {
                return refuse("has a histogram, whose counts have no deadband");
            }
            if self.when.as_ref().is_some_and(|when| when.plan.is_none()) {
                return refuse("has a histogram, and a condition without an expression");
            }
        }
        if let Values::Rules(rules) = &self.values {
            let is_plain = self.when.is_none() && self.deadband.is_none() && self.effect == Effect::LeavesOut;
            if !is_plain || self.every == Nanos(0) {
                return refuse("judges rules, and has a condition or no interval");
            }
            rules::check(rules)?;
        }
        if self.program().is_some()
            && *self != (Handler { values: self.values.clone(), ..Handler::default() })
        {
            return refuse(
                "has a program, which decides itself which rows are sent, and a condition, an interval or a deadband",
            );
        }
        if self.every > DURATION_MAX {
            return refuse("has an interval of more than a day");
        }
        Ok(())
    }
}
