//! What each step gives, and whether a plan keeps the limits that hold for any node.

use khz_model::Nanos;

use crate::error::{PlanError, most};
use crate::limits::{
    ALTERNATIVES_MAX, CONDITIONS_MAX, GROUPING_LABELS_MAX, STEPS_MAX, TEXT_BYTES, WINDOW_MAX,
};
use crate::plan::{Grouping, Plan, Selector, Step, StepId, Test};

/// What a step gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Scalar,
    Vector,
}

impl Plan {
    /// What each step gives.
    pub(crate) fn gives(&self) -> Vec<Gives> {
        let mut all: Vec<Gives> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let of = |id: &StepId| all[usize::from(id.0)];
            all.push(match step {
                Step::Number(_) | Step::Time => Gives::Scalar,
                Step::Math(_, of_step) => of(of_step),
                Step::Combine(combine) if of(&combine.left) == of(&combine.right) => of(&combine.left),
                _ => Gives::Vector,
            });
        }
        all
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if self.steps.is_empty() {
            return Err(PlanError::Damaged { offset: 0 });
        }
        most("steps", self.steps.len(), STEPS_MAX)?;
        for (number, step) in self.steps.iter().enumerate() {
            let id = StepId(number as u16);
            let wrong = |problem| Err(PlanError::Step { step: id, problem });
            let is_earlier = |of: &StepId| usize::from(of.0) < number;
            match step {
                Step::Number(_) | Step::Time => {}
                Step::Series(selector) => check_selector(selector)?,
                Step::Window { selector, length, .. } => {
                    check_selector(selector)?;
                    check_window(*length).or_else(wrong)?;
                }
                Step::Math(_, of) if !is_earlier(of) => return wrong("uses a step that comes later"),
                Step::Math(..) => {}
                Step::Combine(combine) => {
                    if !is_earlier(&combine.left) || !is_earlier(&combine.right) {
                        return wrong("uses a step that comes later");
                    }
                    check_grouping(&combine.matching.grouping)?;
                    most("labels", combine.matching.include.len(), GROUPING_LABELS_MAX)?;
                    combine.matching.include.iter().try_for_each(|label| text(label))?;
                }
                Step::Aggregate(aggregate) => {
                    if !is_earlier(&aggregate.of) {
                        return wrong("uses a step that comes later");
                    }
                    check_grouping(&aggregate.grouping)?;
                }
            }
        }
        self.check_types()
    }

    fn check_types(&self) -> Result<(), PlanError> {
        let gives = self.gives();
        let of = |id: &StepId| gives[usize::from(id.0)];
        for (number, step) in self.steps.iter().enumerate() {
            let problem = match step {
                Step::Aggregate(aggregate) => {
                    (of(&aggregate.of) == Gives::Scalar).then_some("aggregates a number")
                }
                Step::Combine(combine) => {
                    let sides = [of(&combine.left), of(&combine.right)];
                    let compares = combine.operator.compares() && !combine.is_bool;
                    match combine.operator.is_of_sets() {
                        true if sides.contains(&Gives::Scalar) => Some("has a set operator with a number"),
                        false if compares && !sides.contains(&Gives::Vector) => {
                            Some("compares two numbers without bool")
                        }
                        _ => None,
                    }
                }
                _ => None,
            };
            if let Some(problem) = problem {
                return Err(PlanError::Step { step: StepId(number as u16), problem });
            }
        }
        Ok(())
    }
}

/// Returns what is wrong with the length of a window.
pub(crate) fn check_window(length: Nanos) -> Result<(), &'static str> {
    if length.0 == 0 || length > WINDOW_MAX {
        return Err("has no window, or one of more than 5 minutes");
    }
    if !length.0.is_multiple_of(1_000_000) {
        return Err("has a window that is no multiple of a millisecond");
    }
    Ok(())
}

fn check_selector(selector: &Selector) -> Result<(), PlanError> {
    most("conditions of a selector", selector.conditions.len(), CONDITIONS_MAX)?;
    for condition in &selector.conditions {
        text(&condition.label)?;
        match &condition.test {
            Test::Is(value) | Test::IsNot(value) => text(value)?,
            Test::Fits(globs) | Test::FitsNot(globs) => {
                most("alternatives of a condition", globs.len(), ALTERNATIVES_MAX)?;
                globs.iter().try_for_each(|glob| text(glob))?;
            }
        }
    }
    Ok(())
}

fn check_grouping(grouping: &Grouping) -> Result<(), PlanError> {
    most("labels", grouping.labels.len(), GROUPING_LABELS_MAX)?;
    grouping.labels.iter().try_for_each(|label| text(label))
}

fn text(text: &str) -> Result<(), PlanError> {
    most("bytes in a text", text.len(), TEXT_BYTES)
}
