//! Values whose length a program has just been told. If the instance goes before the program reads, it reads this value still:
//! archivers take an empty file, where there was a length, for a broken one.

use std::collections::VecDeque;
use std::time::Instant;

use khz_model::Reading;

use crate::inode::Inode;
use crate::limits::{LENGTH_HOLD, VALUES_TOLD_MAX};

/// The values of the last moments, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct ToldValues {
    told: VecDeque<(Instant, Inode, Reading)>,
}

impl ToldValues {
    /// A program is told the length of this value.
    pub fn tell(&mut self, inode: Inode, reading: Reading, now: Instant) {
        let is_over =
            |&(at, ..): &(Instant, Inode, Reading)| now.saturating_duration_since(at) >= LENGTH_HOLD;
        while self.told.len() >= VALUES_TOLD_MAX || self.told.front().is_some_and(is_over) {
            self.told.pop_front();
        }
        self.told.push_back((now, inode, reading));
    }

    /// The value of a file that was told last, if that was a moment ago.
    pub fn last(&self, inode: Inode, now: Instant) -> Option<Reading> {
        let new = self.told.iter().rev();
        let mut new = new.take_while(|(at, ..)| now.saturating_duration_since(*at) < LENGTH_HOLD);
        new.find(|(_, known, _)| *known == inode).map(|&(.., reading)| reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::{NodeId, PathId};

    #[test]
    fn the_last_value_is_known_for_a_moment_and_only_so_many_are() {
        let (mut values, now) = (ToldValues::default(), Instant::now());
        let file = |number: usize| Inode::plain(NodeId(1), PathId(number as u32));
        values.tell(file(0), Reading::Present(1), now);
        values.tell(file(0), Reading::Present(2), now);
        assert_eq!(values.last(file(0), now), Some(Reading::Present(2)));
        assert_eq!(values.last(file(1), now), None);
        assert_eq!(values.last(file(0), now + LENGTH_HOLD), None);
        (1..=VALUES_TOLD_MAX).for_each(|number| values.tell(file(number), Reading::Present(3), now));
        assert_eq!(values.told.len(), VALUES_TOLD_MAX);
        assert_eq!(values.last(file(0), now), None, "the oldest goes first");
        values.tell(file(0), Reading::Present(4), now + LENGTH_HOLD);
        assert_eq!(values.told.len(), 1, "what is over goes");
    }
}
