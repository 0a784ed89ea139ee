//! The samples of a file: appended, taken out to be written, put back, dropped.

use super::packed::pack;
use super::{Backlog, FileId, Flags, OutOfOrder, Taken};
use crate::cache::sample::{self, stamp};
use crate::log::Segment;

impl Backlog {
    /// Appends `samples`, which must be newer than all that wait.
    pub fn append(&mut self, id: FileId, samples: &str, segment: Option<Segment>, now: u32) {
        let file = &mut self.files[id];
        if file.count == 0 {
            file.since = now;
            file.set(Flags::PACKED, false);
        }
        if let (None, Some(segment)) = (file.segment, segment) {
            file.segment = Some(segment);
            self.pins.add(segment);
        }
        let mut before = file.is(Flags::PACKED).then(|| file.newest.div_euclid(1_000_000));
        self.packing.clear();
        for sample in sample::each(samples) {
            before = pack(sample, before, &mut self.packing);
            file.newest = file.newest.max(stamp(sample).unwrap_or(file.newest));
            file.count += 1;
            self.waiting += 1;
        }
        file.set(Flags::PACKED, before.is_some());
        self.cells.push(&mut file.samples, &self.packing);
    }

    /// Takes all samples of a file out.
    pub fn take(&mut self, id: FileId) -> Taken {
        let file = &mut self.files[id];
        let mut bytes = Vec::new();
        self.cells.read(file.samples, &mut bytes);
        self.cells.clear(&mut file.samples);
        let taken = Taken { bytes, count: file.count, segment: file.segment.take(), since: file.since };
        file.count = 0;
        taken
    }

    /// Samples taken out are in their file, whose newest sample is `newest`. The next checkpoint releases their pin.
    pub fn written(&mut self, id: FileId, taken: &Taken, newest: i64, now: u32) {
        self.waiting = self.waiting.saturating_sub(u64::from(taken.count));
        if let Some(segment) = taken.segment {
            self.pins.written(segment);
        }
        // Another program may have written newer samples. Then older ones must not be accepted any more.
        self.raise_newest(id, newest);
        let file = &mut self.files[id];
        file.set_on_disk(newest);
        file.set(Flags::FAILED, false);
        if file.count == 0 {
            file.since = now;
            file.set(Flags::REPLAYED, false);
        }
    }

    /// Puts samples back before those that came since.
    pub fn put_back(&mut self, id: FileId, taken: &Taken) {
        let newer = self.take(id);
        let file = &mut self.files[id];
        self.cells.push(&mut file.samples, &taken.bytes);
        self.cells.push(&mut file.samples, &newer.bytes);
        file.count = taken.count + newer.count;
        file.since = taken.since;
        file.segment = taken.segment.or(newer.segment);
        if newer.count == 0 {
            // The last of them may be kept as text, which the next cannot be a difference from.
            file.set(Flags::PACKED, false);
        }
        if taken.segment.is_some() {
            self.release(newer.segment);
        }
    }

    /// Drops what waits for a file and what is known of it.
    pub fn forget(&mut self, id: FileId, now: u32) {
        self.drop_samples(id);
        let file = &mut self.files[id];
        (file.newest, file.since, file.imaged) = (i64::MIN, now, 0);
        file.set(Flags::KNOWN, false);
        file.set(Flags::SUSPENDED, false);
    }

    /// Drops the samples of a file whose stamps are not before `from`. For replay: what is known of the file stays open.
    pub fn drop_from(&mut self, id: FileId, from: i64, now: u32) {
        let taken = self.take_dropped(id);
        let is_kept = |sample: &String| stamp(sample).is_some_and(|stamp| stamp < from);
        let kept: Vec<String> = taken.samples().filter(is_kept).collect();
        self.files[id].newest = i64::MIN;
        if !kept.is_empty() {
            self.append(id, &kept.join(" "), taken.segment, now);
        }
        self.release(taken.segment);
    }

    /// Puts samples that replay found out of order among the others, by their stamps. A stamp counts once.
    pub fn merge(&mut self, id: FileId, found: OutOfOrder, now: u32) {
        let taken = self.take_dropped(id);
        self.files[id].newest = i64::MIN;
        let mut samples = found.samples;
        samples.extend(taken.samples().filter_map(|sample| Some((stamp(&sample)?, sample))));
        let segment = taken.segment.unwrap_or(found.segment);
        for sample in samples.values() {
            self.append(id, sample, Some(segment), now);
        }
        self.release(taken.segment);
    }

    fn drop_samples(&mut self, id: FileId) {
        let dropped = self.take_dropped(id);
        self.release(dropped.segment);
    }

    /// Takes samples out that do not count as waiting any more.
    fn take_dropped(&mut self, id: FileId) -> Taken {
        let taken = self.take(id);
        self.waiting = self.waiting.saturating_sub(u64::from(taken.count));
        taken
    }

    fn release(&mut self, segment: Option<Segment>) {
        segment.into_iter().for_each(|segment| self.pins.release(segment));
    }
}
