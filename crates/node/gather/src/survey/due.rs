//! When each subject is surveyed next, by its period and by what it may cost: the gather thread's part of the surveys. It makes none,
//! and waits for none.

use std::sync::Arc;

use khz_model::Nanos;
use khz_parse::Subject;

use crate::budget::{GatherLimits, apart, percent};

use super::{PROCESSES_BUDGET, SURVEY_BUDGET, SURVEY_PERIOD_MIN, SURVEY_STUCK_AFTER, Survey, worker};

/// When each subject is due: the gather thread's side of the surveys. Dropping it ends them.
pub(crate) struct Surveys {
    pub(super) survey: Arc<Survey>,
    pub(super) stuck_after: Nanos,
    pub(super) due: Vec<Due>,
    /// When the first of them is due.
    next: Nanos,
}

#[derive(Debug)]
pub(super) struct Due {
    subject: Subject,
    pub(super) period: Nanos,
    /// The share of a core that it may cost.
    budget: f64,
    /// True while it is surveyed less often because of its cost.
    is_held_back: bool,
    /// What the survey before cost.
    cost_before: Nanos,
    pub(super) next: Nanos,
}

/// The usual budget of a subject.
fn usual_budget(subject: Subject) -> f64 {
    match subject {
        Subject::Processes => PROCESSES_BUDGET,
        _ => SURVEY_BUDGET,
    }
}

impl Due {
    /// When it is due again, if it is surveyed now.
    fn after(&mut self, now: Nanos) -> Nanos {
        let apart = apart(self.cost_before, self.budget).0;
        // The log must not repeat a line about a cost near the border.
        let border = if self.is_held_back { self.period.0 / 2 } else { self.period.0 };
        let is_held_back = apart > border;
        if is_held_back != self.is_held_back {
            self.is_held_back = is_held_back;
            let (name, percent) = (worker::named(self.subject), percent(self.budget));
            if is_held_back {
                let every = apart as f64 / Nanos::SECOND.0 as f64;
                tracing::info!(
                    "surveys of {name} cost more than their budget of {percent} % of a core: there is one every {every:.1} s"
                );
            } else {
                tracing::info!("surveys of {name} are back within their budget of {percent} % of a core");
            }
        }
        Nanos(now.0 + self.period.0.max(apart))
    }
}

/// The limits of a subject's surveys with this budget, or the usual one, if one survey costs this much; `None`: there was none so
/// far.
pub(crate) fn limits_of(subject: Subject, budget: Option<f64>, cost: Option<Nanos>) -> GatherLimits {
    let share = budget.unwrap_or_else(|| usual_budget(subject));
    GatherLimits { share, period_min: cost.map(|cost| apart(cost, share).max(SURVEY_PERIOD_MIN)) }
}

/// When a subject is surveyed, and what that may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubjectPlan {
    pub subject: Subject,
    pub period: Nanos,
    /// The share of a core; `None`: the usual one.
    pub budget: Option<f64>,
}

impl Surveys {
    /// The first surveys were made just now.
    pub fn new(survey: Arc<Survey>, plans: impl IntoIterator<Item = SubjectPlan>, now: Nanos) -> Self {
        let due = |plan: SubjectPlan| {
            let period = plan.period.max(SURVEY_PERIOD_MIN);
            let budget = plan.budget.unwrap_or_else(|| usual_budget(plan.subject));
            let next = Nanos(now.0 + period.0);
            Due { subject: plan.subject, period, budget, is_held_back: false, cost_before: Nanos(0), next }
        };
        let due: Vec<Due> = plans.into_iter().map(due).collect();
        let mut surveys = Surveys { survey, stuck_after: SURVEY_STUCK_AFTER, due, next: Nanos(0) };
        surveys.find_next();
        surveys
    }

    /// The limits of a subject's surveys; `None`: it is not surveyed.
    pub fn limits(&self, subject: Subject) -> Option<GatherLimits> {
        let due = self.due.iter().find(|due| due.subject == subject)?;
        let cost = self.survey.cost(subject);
        Some(limits_of(subject, Some(due.budget), (cost > Nanos(0)).then_some(cost)))
    }

    /// Requests the surveys that are due. If none is due, it takes no lock and makes no system
    /// call.
    #[inline]
    pub fn look(&mut self, now: Nanos) {
        self.survey.look_for_stuck(now, self.stuck_after);
        if self.next <= now {
            self.ask(now);
        }
    }

    pub(super) fn find_next(&mut self) {
        self.next = self.due.iter().map(|due| due.next).min().unwrap_or(Nanos(u64::MAX));
    }

    #[cold]
    pub(super) fn ask(&mut self, now: Nanos) {
        let is_due = |due: &&mut Due| due.next <= now;
        let (survey, mut wanted) = (&self.survey, 0);
        for due in self.due.iter_mut().filter(is_due) {
            wanted |= survey.bit(due.subject);
            // The one that is wanted now may be over in a moment.
            due.cost_before = survey.cost(due.subject);
        }
        if self.survey.want(wanted) {
            for due in self.due.iter_mut().filter(is_due) {
                due.next = due.after(now);
            }
            self.find_next();
        }
    }
}

impl Drop for Surveys {
    fn drop(&mut self) {
        self.survey.end();
    }
}
