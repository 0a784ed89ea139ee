//! Alerts whose labels alone exceed the size limit: each is logged once, and counted once. It does not log itself.

use std::collections::BTreeSet;

use crate::alert::{Alert, Labels};
use crate::limits::UNFIT_MAX;

/// Those that were named.
#[derive(Debug, Default)]
pub(crate) struct Unfit(BTreeSet<u64>);

impl Unfit {
    /// True for a firing alert that was not logged yet. A resolved alert is forgotten.
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
