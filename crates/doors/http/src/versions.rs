//! What many answers read at once and others replace meanwhile, as the alerts of all rules: the budget pays for each version
//! once, as long as an answer has it. Clients that read slowly would otherwise keep a version each, which nobody counts.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use khz_model::{Budget, Share};

use crate::refusal::Refusal;

/// The version that answers have taken last.
#[derive(Debug)]
pub(crate) struct Versions<T>(Mutex<Weak<Version<T>>>);

/// A version, which answers hold.
#[derive(Debug)]
pub(crate) struct Version<T> {
    pub value: Arc<T>,
    share: Share,
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Versions(Mutex::default())
    }
}

impl<T> Versions<T> {
    /// This value, paid for; `bytes` says how much memory it takes, and is called once for a version. Refused if the budget has
    /// no room for it.
    pub fn pay(
        &self,
        budget: &Budget,
        value: Arc<T>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<Arc<Version<T>>, Refusal> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = last.upgrade().filter(|version| Arc::ptr_eq(&version.value, &value)) {
            return Ok(version);
        }
        let share = budget.take(bytes(&value)).ok_or_else(Refusal::busy)?;
        let version = Arc::new(Version { value, share });
        *last = Arc::downgrade(&version);
        Ok(version)
    }
}

impl<T> Version<T> {
    /// Bytes that the budget has paid for.
    pub fn bytes(&self) -> u64 {
        self.share.bytes()
    }
}

#[cfg(test)]
mod tests {
    use khz_model::ByteSize;

    use super::*;

    #[test]
    fn a_version_is_paid_for_once_and_returns_its_bytes_when_the_last_answer_ends() {
        let (budget, versions) = (Budget::new(ByteSize(25), Arc::default()), Versions::default());
        let (old, new) = (Arc::new("old"), Arc::new("new"));
        let pay = |value: &Arc<&'static str>| versions.pay(&budget, value.clone(), |_| 10);
        let (first, second) = (pay(&old).unwrap(), pay(&old).unwrap());
        assert_eq!((budget.held(), second.bytes()), (10, 10));
        let third = pay(&new).unwrap();
        drop(first);
        assert_eq!(budget.held(), 20, "one answer still has the old version");
        let newest = Arc::new("newest");
        assert!(pay(&newest).is_err(), "there is no room for a third");
        drop(second);
        assert!(pay(&newest).is_ok());
        drop(third);
        assert_eq!(budget.held(), 0);
    }
}
