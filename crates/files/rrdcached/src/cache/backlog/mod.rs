//! The backlog: an entry for each file, the samples that wait for it, and the log segments that hold them. Takes no lock, does no
//! I/O, and decides nothing about when a file is written.

mod cells;
mod files;
mod packed;
mod pins;
mod samples;
mod segments;

use std::collections::BTreeMap;

use files::Files;
pub use files::{FileEntry, FileId, Flags};
pub use packed::Unpacked;
use pins::Pins;
pub use pins::WrittenPins;

use cells::Cells;
use packed::unpack;

use crate::log::Segment;

/// Different shapes (readings, step, archives); an entry numbers its shape in two bytes.
const SHAPES_MAX: usize = 65_535;
/// The highest number of a disk; an entry numbers its disk in one byte, and further disks share the last number.
const DISK_MAX: usize = 255;

/// The relevant part of a file's definition. Most files share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// Readings that a sample must have.
    pub readings: usize,
    /// Seconds of a primary point.
    pub step: u64,
    /// Seconds of the shortest row of several points; 0 where there is none.
    pub coarse: u64,
}

/// Facts about a file from the disk.
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

/// The waiting samples of all files.
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

/// The number of `item` in `items`, where it is added if it is new.
fn number_of<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|known| *known == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(backlog: &mut Backlog, name: &str) -> FileId {
        let facts = FileFacts { newest: 0, shape: Shape::default(), place: 0, device: 0 };
        backlog.learn(name, &facts).unwrap()
    }

    #[test]
    fn the_age_is_that_of_the_oldest_sample_and_0_once_nothing_waits() {
        let mut backlog = Backlog::default();
        let [old, new] = ["old", "new"].map(|name| learned(&mut backlog, name));
        backlog.append(old, "300:1", None, 100);
        backlog.append(new, "300:1", None, 140);
        assert_eq!(backlog.age(150), 50);
        let taken = backlog.take(old);
        backlog.written(old, &taken, 300_000_000, 160);
        assert_eq!(backlog.age(160), 20);
        let taken = backlog.take(new);
        backlog.written(new, &taken, 300_000_000, 160);
        // Within the same second.
        assert_eq!(backlog.age(160), 0);
    }

    #[test]
    fn a_stamp_raised_between_two_samples_leaves_both_as_they_were() {
        let mut backlog = Backlog::default();
        let id = learned(&mut backlog, "a");
        backlog.append(id, "1000000300:1", None, 1);
        backlog.raise_newest(id, 1_000_000_500_000_000);
        assert_eq!(backlog.file(id).newest(), 1_000_000_500_000_000);
        backlog.raise_newest(id, 1_000_000_400_000_000);
        backlog.append(id, "1000000600:2", None, 1);
        backlog.append(id, "1000000900:3", None, 1);
        assert_eq!(backlog.samples(id), ["1000000300:1", "1000000600:2", "1000000900:3"]);
    }

    #[test]
    fn a_removed_file_is_not_found_after_the_one_before_it() {
        let mut backlog = Backlog::default();
        let [first, second] = ["first", "second"].map(|name| learned(&mut backlog, name));
        assert_eq!(backlog.find_next("second", first), Some(second));
        backlog.remove(second);
        assert_eq!((backlog.find_next("second", first), backlog.find("second")), (None, None));
    }
}
