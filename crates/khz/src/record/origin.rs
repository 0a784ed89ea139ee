//! Where rows come from: a hub that has them, or this node itself.

use khz_model::{Interest, Pattern};
use khz_record::{RecordError, Recorder};

use super::flags::RecordFlags;
use super::of_hub::{self, OfHub};
use super::own::Own;
use crate::config::Plan;
use crate::outcome::Failure;

/// One of both.
pub enum Origin {
    /// A hub.
    Hub(Box<OfHub>),
    /// This node, gathered by this process.
    Own(Option<Own>),
}

impl Origin {
    /// The hub that was named or runs here, else this node. Rows have begun to come when this returns.
    pub fn start(flags: &RecordFlags, plan: &Plan, interest: &Interest) -> Result<Self, Failure> {
        match of_hub::find(flags, plan)? {
            Some(access) => Ok(Origin::Hub(Box::new(OfHub::start(&access, interest)?))),
            None => Ok(Origin::Own(Some(Own::start(plan, interest)?))),
        }
    }

    /// Says what is known of the lanes before anything came.
    pub fn begin(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        match self {
            Origin::Own(Some(own)) => own.begin(recorder),
            _ => Ok(()),
        }
    }

    /// What has come since.
    pub fn copy(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        match self {
            Origin::Hub(hub) => hub.copy(recorder),
            Origin::Own(Some(own)) => own.copy(recorder),
            Origin::Own(None) => Ok(()),
        }
    }

    /// The rest.
    pub fn finish(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        match self {
            Origin::Hub(hub) => hub.finish(recorder),
            Origin::Own(own) => own.take().map_or(Ok(()), |own| own.finish(recorder)),
        }
    }

    /// Why nothing more will come, if nothing will.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Origin::Hub(hub) => hub.refused(),
            Origin::Own(_) => None,
        }
    }

    /// Rows that were given up because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        match self {
            Origin::Hub(hub) => hub.dropped(),
            Origin::Own(_) => 0,
        }
    }

    /// Nodes that patterns name and that never came.
    pub fn missing(&self, patterns: &[Pattern]) -> Vec<String> {
        match self {
            Origin::Hub(hub) => hub.missing(patterns),
            Origin::Own(_) => Vec::new(),
        }
    }
}
