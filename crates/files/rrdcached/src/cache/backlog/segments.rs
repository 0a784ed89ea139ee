//! Which of the log's segments the backlog needs.

use super::{Backlog, FileId, WrittenPins};
use crate::log::Segment;

impl Backlog {
    /// Pins a segment for ever, since its unreadable part must stay.
    pub fn pin(&mut self, segment: Segment) {
        self.pins.add(segment);
    }

    /// The oldest segment that is needed.
    pub fn oldest_segment(&self) -> Option<Segment> {
        self.pins.oldest()
    }

    /// Whether a checkpoint would release the oldest segment.
    pub fn is_oldest_segment_written(&self) -> bool {
        self.pins.is_oldest_written()
    }

    /// Whether a checkpoint would release every segment.
    pub fn is_all_written(&self) -> bool {
        self.pins.is_all_written()
    }

    /// The pins that a checkpoint which begins now is to release.
    pub fn begin_checkpoint(&mut self) -> WrittenPins {
        self.pins.take_written()
    }

    /// Whether the log may be emptied after the checkpoint of `pins`.
    pub fn is_nothing_but(&self, pins: &WrittenPins) -> bool {
        self.pins.are_all(pins)
    }

    /// Ends the checkpoint of `pins`: they are released if it `succeeded`.
    pub fn end_checkpoint(&mut self, pins: WrittenPins, succeeded: bool) {
        match succeeded {
            true => self.pins.release_all(pins),
            false => self.pins.keep(pins),
        }
    }

    /// The samples of a file, which `from` held, are in segment `to` as well. A file that was written, forgotten or put
    /// back since has another pin, and keeps it.
    pub fn copied(&mut self, id: FileId, from: Segment, to: Segment) {
        if self.files[id].segment != Some(from) {
            return;
        }
        self.files[id].segment = Some(to);
        self.pins.add(to);
        // The old pin goes with the next checkpoint, like that of a file written.
        self.pins.written(from);
    }

    /// The log was rebuilt: everything that waits is in `segment`, and no image is in the log.
    pub fn rebuilt(&mut self, segment: Segment) {
        self.pins.clear();
        for id in self.files.ids().collect::<Vec<_>>() {
            let file = &mut self.files[id];
            file.imaged = 0;
            file.segment = (file.count > 0).then_some(segment);
            file.segment.into_iter().for_each(|segment| self.pins.add(segment));
        }
    }

    /// About how many bytes of log the samples of a file take: two for each byte in memory.
    pub fn log_bytes(&self, id: FileId) -> u64 {
        2 * u64::from(self.files[id].samples.length()) + self.name(id).len() as u64
    }
}
