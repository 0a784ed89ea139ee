//! Inputs with which a step has failed. They are left alone, so that all other steps go on.

use std::collections::HashMap;
use std::hash::Hash;

use khz_model::Nanos;

use crate::StoreError;
use crate::limits::LEFT_ALONE_TIME;

/// Units or segments.
#[derive(Debug)]
pub(crate) struct LeftAlone<T>(HashMap<T, Option<Nanos>>);

impl<T> Default for LeftAlone<T> {
    fn default() -> Self {
        LeftAlone(HashMap::new())
    }
}

impl<T: Eq + Hash> LeftAlone<T> {
    /// Leaves it alone after this error: for a while if it could not be read, for it may be possible later; else until the next
    /// start.
    pub fn add(&mut self, it: T, error: &StoreError, now: Nanos) {
        self.0.insert(it, error.is_of_disk().then_some(now));
    }

    /// Leaves it alone until the next start.
    pub fn add_for_good(&mut self, it: T) {
        self.0.insert(it, None);
    }

    pub fn remove(&mut self, it: &T) {
        self.0.remove(it);
    }

    pub fn has(&self, it: &T, now: Nanos) -> bool {
        self.0.get(it).is_some_and(|since| is_left(*since, now))
    }

    /// True if none is left alone now.
    pub fn is_empty(&self, now: Nanos) -> bool {
        !self.0.values().any(|since| is_left(*since, now))
    }
}

/// A clock that went back must not make it long.
fn is_left(since: Option<Nanos>, now: Nanos) -> bool {
    since.is_none_or(|since| since <= now && now.0 - since.0 < LEFT_ALONE_TIME.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_tried_again_and_what_cannot_be_understood_is_not() {
        let (mut left, now) = (LeftAlone::default(), Nanos(1 << 60));
        let later = |time: Nanos| Nanos(now.0 + time.0);
        let source = std::io::Error::other("the disk has a bad sector");
        left.add(1, &StoreError::File { what: "read", path: "some".into(), source }, now);
        left.add(2, &StoreError::TooMuch { what: "rows", limit: 1 }, now);
        left.add_for_good(3);
        let has = |now| [1, 2, 3, 4].map(|it| left.has(&it, now));
        assert_eq!(has(now), [true, true, true, false]);
        assert_eq!(has(later(LEFT_ALONE_TIME)), [false, true, true, false]);
        assert_eq!(has(Nanos(now.0 - 1)), [false, true, true, false], "the clock went back");
        left.remove(&2);
        left.remove(&3);
        assert!(!left.is_empty(now) && left.is_empty(later(LEFT_ALONE_TIME)));
    }
}
