//! A set of sources: the bit of a source's place.

use std::ops::BitOr;

/// The most sources of an agent. The program has about half as many.
pub const SOURCES_MAX: usize = u128::BITS as usize;

/// Some of an agent's sources, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceSet(u128);

impl SourceSet {
    /// The set of one source. A place beyond [`SOURCES_MAX`] gives the empty set; agents with as many do not start.
    pub fn one(place: usize) -> Self {
        SourceSet(u32::try_from(place).ok().and_then(|place| 1u128.checked_shl(place)).unwrap_or(0))
    }

    /// The first sources.
    pub fn first(count: usize) -> Self {
        (0..count).map(SourceSet::one).collect()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn has(self, place: usize) -> bool {
        !self.and(SourceSet::one(place)).is_empty()
    }

    /// Those that are in both sets.
    pub fn and(self, other: Self) -> Self {
        SourceSet(self.0 & other.0)
    }

    /// Those that are not in the other set.
    pub fn without(self, other: Self) -> Self {
        SourceSet(self.0 & !other.0)
    }
}

impl BitOr for SourceSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        SourceSet(self.0 | other.0)
    }
}

impl FromIterator<SourceSet> for SourceSet {
    fn from_iter<I: IntoIterator<Item = Self>>(sets: I) -> Self {
        sets.into_iter().fold(SourceSet::default(), SourceSet::bitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_places_that_were_put_in() {
        for place in [0, 1, 63, 64, 65, SOURCES_MAX - 1] {
            let set = SourceSet::one(place);
            assert!(set.has(place) && !set.has(place + 1) && set.len() == 1, "{place}");
            assert_eq!(SourceSet::first(place).and(set), SourceSet::default(), "{place}");
            assert_eq!(SourceSet::first(place + 1).without(SourceSet::first(place)), set);
        }
        assert_eq!(SourceSet::first(SOURCES_MAX).len(), SOURCES_MAX);
        assert!(SourceSet::one(SOURCES_MAX).is_empty() && !SourceSet::first(SOURCES_MAX).has(SOURCES_MAX));
    }
}
