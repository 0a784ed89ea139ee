//! How long a listing still shows an entry that is gone. Without this, an interface, disk or job that comes and goes would
//! flicker in listings. The value of the entry disappears at once everywhere.

use crate::Nanos;

/// This long: an entry that returns does so within seconds, and an older listing misleads.
pub const GONE_WHILE: Nanos = Nanos::from_secs(10);

/// What a listing knows of one of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stay {
    /// It has never been there.
    #[default]
    Unseen,
    /// It was there when it was last checked.
    There,
    /// It was there before, and a check at this time found it gone.
    Gone(Nanos),
}

impl Stay {
    /// Notes whether the entry is there at this time. Returns whether it is listed.
    pub fn note(&mut self, is_there: bool, now: Nanos) -> bool {
        *self = match (*self, is_there) {
            (_, true) => Stay::There,
            (Stay::There, false) => Stay::Gone(now),
            (gone, false) => gone,
        };
        self.is_listed(now)
    }

    /// Whether the entry is listed at this time.
    pub fn is_listed(self, now: Nanos) -> bool {
        match self {
            Stay::Unseen => false,
            Stay::There => true,
            Stay::Gone(since) => now.since(since) < GONE_WHILE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_gone_is_listed_for_a_while_after_a_check_found_it_gone() {
        let at = Nanos::from_secs;
        let mut stay = Stay::default();
        assert!(!stay.note(false, at(1)), "it was never there");
        assert!(stay.note(true, at(2)));
        // Nobody checked for an hour: nobody knows since when it is gone.
        assert!(stay.note(false, at(3_600)));
        assert!(stay.note(false, at(3_609)));
        assert!(!stay.note(false, at(3_610)));
        assert!(stay.note(true, at(3_620)), "it comes back at once");
    }
}
