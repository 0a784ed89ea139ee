//! Alerts whose labels alone are more than is sent: each is named in the log once, and counted once. Does not log.

use std::collections::BTreeSet;

use crate::alert::{Alert, Labels};
use crate::limits::UNFIT_MAX;

/// Those that were named.
#[derive(Debug, Default)]
pub(crate) struct Unfit(BTreeSet<u64>);

impl Unfit {
    /// True for an alert that fires and was not named yet. One that is resolved is forgotten.
    pub fn is_new(&mut self, alert: &Alert) -> bool {
        let number = alert.fingerprint(&Labels::new());
        if !alert.is_firing() {
            self.0.remove(&number);
            return false;
        }
        let is_new = self.0.insert(number);
        if self.0.len() > UNFIT_MAX {
            self.0.pop_first();
        }
        is_new
    }
}
