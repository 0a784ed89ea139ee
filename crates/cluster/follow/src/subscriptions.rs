//! A reader's subscriptions by the number that the link gives them. A reader finds its own name for a subscription here when
//! an answer or a lane arrives for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Subscriptions; clones share them. Locked while a subscription is sent: its answer may arrive before the sender knows its
/// number, and then waits.
pub struct Subscriptions<T>(Arc<Mutex<HashMap<u32, T>>>);

impl<T> Default for Subscriptions<T> {
    fn default() -> Self {
        Subscriptions(Arc::default())
    }
}

impl<T> Clone for Subscriptions<T> {
    fn clone(&self) -> Self {
        Subscriptions(self.0.clone())
    }
}

/// Subscriptions whose numbers are known, for rows that come another way than over a link.
impl<T> FromIterator<(u32, T)> for Subscriptions<T> {
    fn from_iter<I: IntoIterator<Item = (u32, T)>>(all: I) -> Self {
        Subscriptions(Arc::new(Mutex::new(all.into_iter().collect())))
    }
}

impl<T> Subscriptions<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, T>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sends a subscription and keeps it under the number that `send` returns.
    ///
    /// # Errors
    /// Those of `send`; the subscription is not kept then.
    pub fn add<E>(&self, subscription: T, send: impl FnOnce() -> Result<u32, E>) -> Result<u32, E> {
        let mut all = self.lock();
        let number = send()?;
        all.insert(number, subscription);
        Ok(number)
    }

    /// Forgets a subscription.
    pub fn remove(&self, number: u32) {
        self.lock().remove(&number);
    }

    /// The number of the subscription that fits.
    pub fn find(&self, fits: impl Fn(&T) -> bool) -> Option<u32> {
        self.lock().iter().find(|(_, one)| fits(one)).map(|(&number, _)| number)
    }

    /// Calls `each` with every subscription, in no order.
    pub fn for_each(&self, each: impl FnMut(&T)) {
        self.lock().values().for_each(each);
    }

    /// The subscription with this number.
    pub fn get(&self, number: u32) -> Option<T>
    where
        T: Clone,
    {
        self.lock().get(&number).cloned()
    }
}
