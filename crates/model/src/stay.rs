//! How long what is gone is still listed: an interface, disk or job that comes and goes would blink in listings that leave
//! it out at once. Its value is gone at once everywhere.

use crate::Nanos;

/// So long: what comes back does so within seconds, and a listing that is older misleads.
pub const GONE_WHILE: Nanos = Nanos::from_secs(10);

/// What a list knows of one of its things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stay {
    /// It was never there while somebody looked.
    #[default]
    Unseen,
    /// It was there at the last look.
    There,
    /// It was there, and at a look then it was not.
    Gone(Nanos),
}

impl Stay {
    /// A look at this moment: it is there, or it is not. Whether it is listed.
    pub fn look(&mut self, is_there: bool, now: Nanos) -> bool {
        *self = match (*self, is_there) {
            (_, true) => Stay::There,
            (Stay::There, false) => Stay::Gone(now),
            (gone, false) => gone,
        };
        self.is_listed(now)
    }

    /// Whether it is listed at this moment.
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
    fn what_is_gone_is_listed_for_a_while_after_it_was_seen_to_be_gone() {
        let at = Nanos::from_secs;
        let mut stay = Stay::default();
        assert!(!stay.look(false, at(1)), "what was never there does not stay");
        assert!(stay.look(true, at(2)));
        // Nobody looked for an hour: since when it is gone nobody knows.
        assert!(stay.look(false, at(3_600)));
        assert!(stay.look(false, at(3_609)));
        assert!(!stay.look(false, at(3_610)));
        assert!(stay.look(true, at(3_620)), "it comes back at once");
    }
}
