//! A channel of other nodes: this node executes nothing for it, and its reader waits for rows that cannot come from
//! here.

use khz_model::{Bell, Delivery, Rate, Subscription};

/// A subscription without rows.
pub(crate) struct Elsewhere {
    pub rate: Rate,
}

impl Subscription for Elsewhere {
    fn poll(&mut self) -> Vec<Delivery> {
        Vec::new()
    }

    fn ring(&mut self, _: &Bell) -> bool {
        true
    }

    fn rate(&self) -> Rate {
        self.rate
    }
}
