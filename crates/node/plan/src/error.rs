//! Why a plan is refused.

use khz_model::ByteSize;

use crate::plan::StepId;

/// Why a plan is refused, as bytes or for the series of this node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The bytes end too early, or are none of a plan.
    #[error("the plan is damaged at byte {offset}")]
    Damaged {
        /// Where.
        offset: usize,
    },
    /// The plan is of a later version.
    #[error("the plan has version {version}, and this khz reads version 1: update khz on this node")]
    Version {
        /// The version.
        version: u8,
    },
    /// There is more of something than may be.
    #[error("a plan may have {}, and this one has more", amount(what, *limit))]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A step uses what it cannot use.
    #[error("step {} of the plan {problem}", step.0)]
    Step {
        /// Which one.
        step: StepId,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The handler contradicts itself, or exceeds a limit.
    #[error("the handler {problem}")]
    Handler {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two series of a step have the same labels.
    #[error(
        "two series of a part of the expression have the same labels, {labels}: keep a label that tells them apart"
    )]
    Twins {
        /// Which one.
        step: StepId,
        /// The labels.
        labels: String,
    },
    /// Several series match one, where only one may.
    #[error(
        "an operator of the expression matches several series with {labels}: match them on more labels, or use group_left"
    )]
    Ambiguous {
        /// Which one.
        step: StepId,
        /// The labels that they share.
        labels: String,
    },
}

/// As people write it: numbers of bytes have a unit.
fn amount(what: &str, limit: usize) -> String {
    match what.strip_prefix("bytes of ") {
        Some(what) => format!("{what} of {}", ByteSize(limit as u64)),
        None => format!("{limit} {what}"),
    }
}

/// Fails if there is more of something than may be.
pub(crate) fn most(what: &'static str, count: usize, limit: usize) -> Result<(), PlanError> {
    if count > limit { Err(PlanError::TooMuch { what, limit }) } else { Ok(()) }
}
