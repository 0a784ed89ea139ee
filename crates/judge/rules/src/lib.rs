//! Rule files of Prometheus: checked, evaluated, their alerts.
//!
//! Start with two types:
//!
//! - [`RuleSet`] is what rule files say. [`RuleSet::load`] checks them, whole or not at all.
//! - [`Evaluator`] is a group of such rules with what is known of them between two passes. [`Evaluator::evaluate`] makes a pass,
//!   at a time and over samples that the caller gives, and returns samples and alerts.
//!
//! The crate starts no threads, reads no clocks and opens no sockets; only the loader reads files.

#![forbid(unsafe_code)]

/// The annotation that names actions.
pub const ACTIONS_ANNOTATION: &str = "khz_actions";

mod alert;
mod alerts;
mod board;
mod duration;
mod error;
mod file;
mod finding;
mod group;
pub mod limits;
mod load;
mod memory;
mod pack;
mod placement;
mod records;
mod rule;
mod scores;
mod series;
mod source_row;
mod template;
mod test_file;
mod yaml;

pub use alert::{ALERT_NAME, Alert, AlertState, Change, RESOLVED_KEPT};
pub use alerts::NODE_LABEL;
pub use board::{Board, GroupStanding, Reloaded, RuleStanding, Standing, Word, counted};
pub use duration::{duration_text, parse_duration};
pub use error::RulesError;
pub use finding::{Finding, Findings, Place, Severity};
pub use group::{
    Answered, Asking, Evaluator, Gone, GoneAlert, Handover, LeftOut, Pass, PassedAlert, Passing, Recorded,
    Room, RuleReport, Saved, SavedAlert, SavedGone, SavedGroup, SavedOwn, SavedRule, Settings, Share, Unmade,
};
pub use memory::{Memory, Overlay};
pub use pack::{RuleChannel, RuleId, SourceRule, pack};
pub use placement::{AtHub, Placement, place};
pub use rule::{Alerting, Group, Rule, RuleFile, RuleKind, RuleSet};
pub use scores::{DOWN_HOLD, Score, ScoreSheet, Scores, Seen, Unforetold, lead_text};
pub use source_row::{NodeRules, SourceRow};
pub use template::{QuerySeries, Template, TemplateData, TemplateFault};
pub use test_file::{AlertTest, ExprTest, Test, TestFailure, TestFile, TestOutcome, Texts};
