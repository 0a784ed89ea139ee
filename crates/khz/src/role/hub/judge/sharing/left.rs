//! Nodes that this hub no longer judges, and whether the results of their new hub are known. Until they are, an alert of no node
//! that lost its series here has not ended. It asks nobody, and gets the time as an argument.

use super::super::custody::{Custody, WORD_LATE, is_alive};
use super::super::groups::SETTLING;
use super::super::peers::Heard;
use super::Moment;

/// This long after a hub's time to evaluate its groups, it has done so, and its word is here (ms). The interval of a group is added
/// to this.
const EVALUATED_LATE: i64 = 4_000;

/// Nodes that this hub does not judge any more. Times are in ms since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// When this hub last stopped judging nodes.
    pub at: Option<i64>,
    /// Until this time it is not known whether the new hub of the nodes has evaluated.
    pub unknown_until: i64,
}

impl Left {
    /// The clock was set by so much (ms).
    pub fn clock_set(&mut self, by: i64) {
        self.at = self.at.map(|at| at.saturating_add(by));
        self.unknown_until = self.unknown_until.saturating_add(by);
    }

    /// Notes the current state. `shrinks`: this hub stops judging some nodes now.
    pub fn note(&mut self, shrinks: bool, heard: &[Heard], custody: &Custody, moment: Moment) {
        let now = moment.now;
        if shrinks {
            self.at = Some(now);
        }
        let begun = self.at.map(|at| at.saturating_add(SETTLING + EVALUATED_LATE));
        if begun.is_none_or(|until| now >= until.max(self.unknown_until)) {
            return;
        }
        let until = heard.iter().filter_map(|heard| unknown_until(heard, custody, moment)).max();
        self.unknown_until = self.unknown_until.max(until.unwrap_or_default());
    }
}

/// Until when it is not known whether another hub with nodes of this one has evaluated.
fn unknown_until(heard: &Heard, custody: &Custody, moment: Moment) -> Option<i64> {
    let (word, answered) = (heard.word.as_ref()?, heard.answered?);
    if !is_alive(heard.answered, moment.at) || !custody.knows_any(word.nodes.iter()) {
        return None;
    }
    // The other hub may be restarting at this moment.
    let may_begin = moment.at.saturating_duration_since(answered) >= WORD_LATE;
    let from = if may_begin { Some(i64::MAX) } else { word.evaluates_from };
    // Its clock may be ahead.
    let latest = moment.now.saturating_add(SETTLING);
    from.map(|from| from.min(latest).saturating_add(EVALUATED_LATE))
}
