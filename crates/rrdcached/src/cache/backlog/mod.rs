//! The backlog: what is known of each file, the samples that wait for it, and the log segments that hold them. Takes no
//! lock, does no I/O, and decides nothing about when a file is written.

mod cells;
mod files;
mod packed;
mod pins;

use std::collections::BTreeMap;

use files::Files;
pub use files::{FileEntry, FileId, Flags};
pub use packed::Unpacked;
use pins::Pins;
pub use pins::WrittenPins;

use cells::Cells;
use packed::{pack, unpack};

use super::sample::{self, stamp};
use crate::log::Segment;

/// Shapes (readings, step, archives) that can be told apart; an entry numbers its shape in two bytes.
const SHAPES_MAX: usize = 65_535;
/// The highest number of a disk; an entry numbers its disk in one byte, and further disks share the last number.
const DISK_MAX: usize = 255;

/// What matters of a file's definition; most files share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// Readings that a sample must have.
    pub readings: usize,
    /// Seconds of a primary point.
    pub step: u64,
    /// Seconds of the shortest row of several points; 0 where there is none.
    pub coarse: u64,
}

/// What the disk says of a file.
pub struct FileFacts {
    /// Stamp of the newest sample in the file, in microseconds.
    pub newest: i64,
    pub shape: Shape,
    /// Where on its disk the file begins.
    pub place: u32,
    /// The number of its disk.
    pub device: u64,
}

/// Samples taken out to be written. They keep their pin on the log.
pub struct Taken {
    bytes: Vec<u8>,
    count: u32,
    segment: Option<Segment>,
    since: u32,
}

impl Taken {
    /// The samples, oldest first.
    pub fn samples(&self) -> Unpacked<'_> {
        unpack(&self.bytes)
    }

    /// How many they are.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Samples of one file that replay found out of order, by their stamps.
pub struct OutOfOrder {
    /// The segment of the first one.
    pub segment: Segment,
    pub samples: BTreeMap<i64, String>,
}

/// The last answer of [`Backlog::age`] and when it was given.
struct Age {
    at: u32,
    seconds: u32,
}

/// What waits for all files.
#[derive(Default)]
pub struct Backlog {
    files: Files,
    cells: Cells,
    shapes: Vec<Shape>,
    /// The device number of each disk.
    disks: Vec<u64>,
    pins: Pins,
    /// Samples that wait, with those that are being written.
    waiting: u64,
    age: Option<Age>,
    packing: Vec<u8>,
}

/// Asking.
impl Backlog {
    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.cells.bytes() + self.files.bytes()
    }

    /// How many files are known.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// How many samples wait, with those that are being written.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The number of the file called `name`.
    pub fn find(&self, name: &str) -> Option<FileId> {
        self.files.find(name)
    }

    /// The number of the file called `name` if it was made right after `before`.
    pub fn find_next(&self, name: &str, before: FileId) -> Option<FileId> {
        self.files.find_next(name, before)
    }

    /// The name of a file.
    pub fn name(&self, id: FileId) -> &str {
        self.files.name(id)
    }

    /// What is known of a file.
    pub fn file(&self, id: FileId) -> &FileEntry {
        &self.files[id]
    }

    /// The numbers of all files.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.files.ids()
    }

    /// The shape of a file.
    pub fn shape(&self, id: FileId) -> Shape {
        self.shapes.get(usize::from(self.files[id].shape)).copied().unwrap_or_default()
    }

    /// The samples that wait for a file, oldest first.
    pub fn samples(&self, id: FileId) -> Vec<String> {
        let mut bytes = vec![];
        self.cells.read(self.files[id].samples, &mut bytes);
        unpack(&bytes).collect()
    }

    /// Seconds that the oldest sample has waited. Every file is searched at most once a second, because clients that are
    /// refused ask again and again.
    pub fn age(&mut self, now: u32) -> u32 {
        if let Some(age) = self.age.as_ref().filter(|age| age.at == now && self.waiting > 0) {
            return age.seconds;
        }
        let waiting = self.files.ids().map(|id| &self.files[id]).filter(|file| file.count > 0);
        let seconds = waiting.map(|file| now.saturating_sub(file.since)).max().unwrap_or(0);
        self.age = Some(Age { at: now, seconds });
        seconds
    }
}

/// What is known of a file.
impl Backlog {
    /// The file called `name`, added if it is new; `None` where no more fit.
    pub fn find_or_add(&mut self, name: &str) -> Option<FileId> {
        self.files.find_or_add(name)
    }

    /// Remembers what the disk says of the file called `name`; `None` where no more files fit. The stamp of its newest
    /// sample is remembered by [`Backlog::raise_newest`].
    pub fn learn(&mut self, name: &str, facts: &FileFacts) -> Option<FileId> {
        let id = self.files.find_or_add(name)?;
        let shape = number_of(&mut self.shapes, facts.shape);
        let disk = number_of(&mut self.disks, facts.device);
        if shape >= SHAPES_MAX {
            self.shapes.truncate(SHAPES_MAX);
            return None;
        }
        let file = &mut self.files[id];
        file.shape = shape as u16;
        file.disk = disk.min(DISK_MAX) as u8;
        file.place = facts.place;
        file.set_on_disk(facts.newest);
        file.set(Flags::KNOWN, true);
        Some(id)
    }

    /// Sets or clears a flag of a file.
    pub fn set(&mut self, id: FileId, flag: Flags, value: bool) {
        self.files[id].set(flag, value);
    }

    /// No sample up to `newest` is to be taken for a file any more.
    pub fn raise_newest(&mut self, id: FileId, newest: i64) {
        let file = &mut self.files[id];
        if newest > file.newest {
            file.newest = newest;
            // The next sample cannot be packed as a difference from the last one of the chain.
            file.set(Flags::PACKED, false);
        }
    }

    /// Remembers in which checkpoint interval the log got an image of the file's header, and which file that was.
    pub fn set_image(&mut self, id: FileId, image: Option<u32>, identity: u32) {
        let file = &mut self.files[id];
        (file.imaged, file.identity) = (image.unwrap_or(0), identity);
    }

    /// The log has no image of the file's header that counts.
    pub fn void_image(&mut self, id: FileId) {
        self.files[id].imaged = 0;
    }

    /// Removes a file that nobody refers to.
    pub fn remove(&mut self, id: FileId) {
        self.files.remove(id);
    }
}

/// The samples of a file.
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
        // Somebody else may have written newer samples: what is older must not be taken any more.
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

/// The log's segments.
impl Backlog {
    /// Pins a segment for ever: what could not be read of it must stay.
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

/// The number of `item` in `items`, where it is added if it is new.
fn number_of<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|known| *known == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}
