//! The options of a mount and their defaults: waits, budgets and rates of users, `strict`, `cache_texts`.

use std::time::Duration;

use khz_model::Rate;

use crate::limits::{BUDGET_PER_USER, FIRST_VALUE, OTHERS_RATE_MAX_HZ};

/// How the mount behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// A first value must come within this time.
    pub wait: Duration,
    /// Files of nodes that are down give EIO instead of their last value.
    pub strict: bool,
    /// Places at which one user may want more than the base rate, and kernel files that one user may follow.
    pub budget: usize,
    /// Fastest rate that the mount's role may ask for, and what the role is called.
    pub ceiling: (Rate, String),
    /// Fastest rate that other users may ask for.
    pub others: Rate,
    /// Kernel files of up to a page are read out of the page cache: fast, but a program that reads one in pieces may get
    /// pieces of two texts.
    pub cache_texts: bool,
}

impl Options {
    /// The defaults, for a mount whose role may ask for rates up to `ceiling`.
    pub fn new(ceiling: Rate, role: &str) -> Self {
        let others = Rate::from_hz(OTHERS_RATE_MAX_HZ).map_or(ceiling, |most| ceiling.at_most(most));
        let ceiling = (ceiling, role.to_owned());
        Options {
            wait: FIRST_VALUE,
            strict: false,
            budget: BUDGET_PER_USER,
            ceiling,
            others,
            cache_texts: false,
        }
    }
}
