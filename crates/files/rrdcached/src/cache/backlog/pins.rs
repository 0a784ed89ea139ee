//! Which segments of the log are still needed, and by how many files; knows no file and no log.
//!
//! A file pins the segment of the oldest sample that waits for it. The write of its samples keeps the pin until a
//! checkpoint has synced them: only then may the segment go.

use std::collections::BTreeMap;

use crate::log::Segment;

/// The pins of all files.
#[derive(Default)]
pub struct Pins {
    /// Every pin, by segment.
    all: BTreeMap<Segment, u64>,
    /// Those whose samples are in their files, and perhaps not synced.
    written: BTreeMap<Segment, u64>,
}

/// The pins that a checkpoint is to release.
pub struct WrittenPins(BTreeMap<Segment, u64>);

impl Pins {
    /// One pin more.
    pub fn add(&mut self, segment: Segment) {
        *self.all.entry(segment).or_default() += 1;
    }

    /// One pin less.
    pub fn release(&mut self, segment: Segment) {
        self.release_some(segment, 1);
    }

    fn release_some(&mut self, segment: Segment, some: u64) {
        if let Some(count) = self.all.get_mut(&segment) {
            *count = count.saturating_sub(some);
            if *count == 0 {
                self.all.remove(&segment);
            }
        }
    }

    /// The samples of a pin are in their file, or in a newer segment; the next checkpoint releases it.
    pub fn written(&mut self, segment: Segment) {
        *self.written.entry(segment).or_default() += 1;
    }

    /// Takes out the pins that a checkpoint which begins now is to release.
    pub fn take_written(&mut self) -> WrittenPins {
        WrittenPins(std::mem::take(&mut self.written))
    }

    /// The checkpoint failed, so the next one must release these pins.
    pub fn keep(&mut self, pins: WrittenPins) {
        for (segment, count) in pins.0 {
            *self.written.entry(segment).or_default() += count;
        }
    }

    /// The checkpoint is done.
    pub fn release_all(&mut self, pins: WrittenPins) {
        for (segment, count) in pins.0 {
            self.release_some(segment, count);
        }
    }

    /// Forgets every pin.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The oldest segment that is needed.
    pub fn oldest(&self) -> Option<Segment> {
        self.all.keys().next().copied()
    }

    /// Whether a checkpoint would release every pin of the oldest segment.
    pub fn is_oldest_written(&self) -> bool {
        self.all.iter().next().is_none_or(|(segment, count)| self.written.get(segment) == Some(count))
    }

    /// Whether a checkpoint would release every pin.
    pub fn is_all_written(&self) -> bool {
        self.all == self.written
    }

    /// Whether `pins` are all there are.
    pub fn are_all(&self, pins: &WrittenPins) -> bool {
        self.all == pins.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_needed_until_a_checkpoint_after_the_last_write() {
        let [first, second] = [1, 2].map(|number| Segment::new(number).unwrap());
        let mut pins = Pins::default();
        [first, first, second].into_iter().for_each(|segment| pins.add(segment));
        pins.written(first);
        assert!(!pins.is_oldest_written());
        pins.written(first);
        assert!(pins.is_oldest_written() && !pins.is_all_written());
        let taken = pins.take_written();
        assert_eq!(pins.oldest(), Some(first));
        pins.release_all(taken);
        assert_eq!(pins.oldest(), Some(second));
        pins.release(second);
        assert_eq!(pins.oldest(), None);
    }

    #[test]
    fn a_failed_checkpoint_leaves_its_pins_to_the_next() {
        let segment = Segment::new(1).unwrap();
        let mut pins = Pins::default();
        pins.add(segment);
        pins.written(segment);
        let taken = pins.take_written();
        assert!(pins.are_all(&taken) && !pins.is_all_written());
        pins.keep(taken);
        assert!(pins.is_all_written());
    }
}
