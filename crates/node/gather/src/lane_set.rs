//! The lanes of an agent, and which of them each source belongs to: a tick looks only at lanes that have the source.

use std::ops::{Deref, DerefMut};

use crate::lane::Lane;
use crate::source::Source;

/// A set of lanes: the bit of a lane's place.
pub(crate) type Places = u128;

/// The lanes, in the order in which they were opened.
pub(crate) struct LaneSet {
    all: Vec<Lane>,
    /// For each source, the lanes that have it.
    with_source: Vec<Places>,
    /// And those of them whose rows say what has changed.
    marked: Vec<Places>,
    /// How many slots of each source they know.
    known: Vec<usize>,
}

impl LaneSet {
    /// These lanes, of so many sources.
    pub fn new(all: Vec<Lane>, sources: usize) -> Self {
        let (with_source, marked, known) = (vec![0; sources], vec![0; sources], vec![0; sources]);
        let mut lanes = LaneSet { all, with_source, marked, known };
        lanes.count();
        lanes
    }

    /// Adds a lane at the end.
    pub fn push(&mut self, lane: Lane) {
        self.all.push(lane);
        self.count();
    }

    /// Closes a lane; those behind it move up.
    pub fn remove(&mut self, place: usize) {
        self.all.remove(place);
        self.count();
    }

    /// Closes the lanes of which this does not hold.
    pub fn retain_mut(&mut self, is_kept: impl FnMut(&mut Lane) -> bool) {
        self.all.retain_mut(is_kept);
        self.count();
    }

    fn count(&mut self) {
        let LaneSet { all, with_source, marked, known } = self;
        let sources = with_source.iter_mut().zip(marked).zip(known).enumerate();
        for (source, ((with_source, marked), known)) in sources {
            (*with_source, *marked, *known) = (0, 0, 0);
            for (place, lane) in all.iter().enumerate().filter(|(_, lane)| lane.refresh_of(source).is_some())
            {
                *with_source |= 1 << place;
                *marked |= Places::from(lane.needs_marks()) << place;
            }
        }
    }

    /// The lanes that have the source.
    #[inline]
    pub fn with(&self, source: usize) -> Places {
        self.with_source.get(source).copied().unwrap_or(0)
    }

    /// These sources begin with other slots, and so do the lanes that have them.
    #[cold]
    pub fn renew(&mut self, renewed: u64, sources: &[Source]) {
        let renewed = || (0..sources.len()).filter(|source| renewed >> source & 1 == 1);
        let meant = renewed().fold(0, |all, source| all | self.with(source));
        for place in places(meant) {
            self.all[place].renew(sources);
        }
        for source in renewed() {
            self.known[source] = 0;
        }
    }

    /// Each lane of a set, in order.
    #[inline]
    pub fn at(&self, set: Places) -> impl Iterator<Item = &Lane> {
        places(set).map(|place| &self.all[place])
    }

    /// Notes in every lane that has the source which of its readings changed.
    #[inline]
    pub fn note(&mut self, index: usize, source: &Source) {
        if self.known[index] != source.slots() {
            self.grow(index, source);
        }
        for place in places(self.marked[index]) {
            self.all[place].mark(index, source);
        }
    }

    /// The source has other slots than before.
    #[cold]
    fn grow(&mut self, index: usize, source: &Source) {
        for place in places(self.with(index)) {
            self.all[place].know(index, source);
        }
        self.known[index] = source.slots();
    }
}

impl Deref for LaneSet {
    type Target = [Lane];

    fn deref(&self) -> &[Lane] {
        &self.all
    }
}

impl DerefMut for LaneSet {
    fn deref_mut(&mut self) -> &mut [Lane] {
        &mut self.all
    }
}

/// The places of a set, in order.
#[inline]
pub(crate) fn places(mut set: Places) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            place
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_order() {
        assert_eq!(places(0b1001 | 1 << 127).collect::<Vec<_>>(), [0, 3, 127]);
        assert_eq!(places(0).count(), 0);
    }
}
