//! Where rows come from: a hub that has them, or this node itself.

use khz_model::fold::fold;
use khz_model::{Interest, Pattern};
use khz_record::{RecordError, Recorder};

use super::flags::RecordFlags;
use super::of_hub::{self, Ending, OfHub};
use super::own::Own;
use crate::config::Plan;
use crate::show::outcome::{Done, Failure};
use crate::show::table::printable;

/// One of both.
pub enum Origin {
    /// A hub.
    Hub(Box<OfHub>),
    /// This node, gathered by this process.
    Own {
        /// Until it has finished.
        own: Option<Box<Own>>,
        /// Something that was asked for is not here, and that was said.
        has_misses: bool,
    },
}

/// What was asked for and did not come.
#[derive(Debug, Default)]
pub struct Absent {
    /// Nodes that are known, and did not answer.
    pub missing: Vec<String>,
    /// Something nobody has; it was said.
    pub has_misses: bool,
}

impl Absent {
    /// What a hub did not have, said where the hub has not done so.
    pub fn of(hub: &OfHub, patterns: &[Pattern]) -> Self {
        let (missing, unknown) = hub.missing(patterns);
        let unmatched = hub.unmatched();
        if !unknown.is_empty() && !hub.has_said("no node is called") {
            crate::show::table::remark!("no node is called {}", printable(&fold(&unknown)));
        }
        for pattern in unmatched.iter().filter(|pattern| !hub.has_said(&format!("nothing matches {pattern}")))
        {
            crate::show::table::remark!("nothing matches {}", printable(pattern));
        }
        Absent { missing, has_misses: !unknown.is_empty() || !unmatched.is_empty() }
    }

    /// How a command ends that did the rest.
    pub fn end(self) -> Done {
        match self.missing.is_empty() && !self.has_misses {
            true => Done::Wholly,
            false => Done::Partly { missing: self.missing },
        }
    }
}

impl Origin {
    /// The hub that was named or runs here, else this node. Rows have begun to come when this returns.
    pub fn start(flags: &RecordFlags, plan: &Plan, interest: &Interest) -> Result<Self, Failure> {
        match of_hub::find(flags, plan)? {
            Some(access) => Ok(Origin::Hub(Box::new(OfHub::start(&access, interest)?))),
            None => {
                let own = Own::start(plan, interest)?;
                Ok(Origin::Own { has_misses: own.has_misses, own: Some(Box::new(own)) })
            }
        }
    }

    /// Says what is known of the lanes before anything came.
    pub fn begin(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        match self {
            Origin::Own { own: Some(own), .. } => own.begin(recorder),
            _ => Ok(()),
        }
    }

    /// What has come since.
    pub fn copy(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        match self {
            Origin::Hub(hub) => hub.copy(recorder),
            Origin::Own { own: Some(own), .. } => own.copy(recorder),
            Origin::Own { own: None, .. } => Ok(()),
        }
    }

    /// The rest.
    pub fn finish(&mut self, recorder: &mut Recorder, ending: &mut Ending<'_>) -> Result<(), RecordError> {
        match self {
            Origin::Hub(hub) => hub.finish(recorder, ending),
            Origin::Own { own, .. } => own.take().map_or(Ok(()), |own| own.finish(recorder)),
        }
    }

    /// Why nothing more will come, if nothing will.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Origin::Hub(hub) => hub.refused(),
            Origin::Own { .. } => None,
        }
    }

    /// Rows that were given up because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        match self {
            Origin::Hub(hub) => hub.dropped(),
            Origin::Own { .. } => 0,
        }
    }

    /// What was asked for and did not come.
    pub fn absent(&self, patterns: &[Pattern]) -> Absent {
        match self {
            Origin::Hub(hub) => Absent::of(hub, patterns),
            Origin::Own { has_misses, .. } => Absent { has_misses: *has_misses, ..Absent::default() },
        }
    }
}
