//! What readers want of one node beyond its base lane. Those that want the same share one interest: the node
//! hears of it once, and once when the last of them has gone.

use std::sync::Arc;

use khz_model::{Pattern, Rate};

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Which series, of whatever node.
    pub patterns: Vec<Pattern>,
    /// How often; `None`: on demand.
    pub rate: Option<Rate>,
    /// Even where the kernel refreshes more slowly.
    pub exact: bool,
    /// Every row at once.
    pub prompt: bool,
}

/// A wish that somebody has.
#[derive(Debug)]
pub(crate) struct Interest {
    /// Its number, never used twice for one node.
    pub number: u32,
    /// Nodes of which the same is wanted share it.
    pub wish: Arc<Wish>,
    /// Readers that share it.
    pub readers: usize,
    /// What the node said: granted or not, and why.
    pub told: Option<Told>,
    /// The lane that serves it.
    pub lane: Option<u64>,
}

/// A node's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub granted: bool,
    pub text: String,
}
