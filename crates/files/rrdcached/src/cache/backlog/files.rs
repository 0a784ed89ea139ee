//! The entries of all files, some 100 bytes each, found by name or number. It decides nothing.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::cells::Chain;
use crate::log::Segment;

/// A file's number.
pub type FileId = u32;

/// Bytes of removed names after which the rest is packed.
const GARBAGE_MAX: usize = 1 << 20;

/// Files, and bytes of their names, that have room from the start. A vector of this size comes from the system and is moved
/// as a whole when it grows, and untouched pages cost nothing. One that grew from small pieces would leave holes.
const FILES_AT_FIRST: usize = 4_096;
const NAMES_AT_FIRST: usize = 1 << 18;

/// A set of flags of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// The file has been inspected; without it the file counts as unknown.
    pub const KNOWN: Self = Self(1);
    /// The file stands in the queue, or rests after a failure.
    pub const QUEUED: Self = Self(2);
    /// Somebody works on the file and nobody else may.
    pub const CLAIMED: Self = Self(4);
    /// The samples of the file are to stay in memory.
    pub const SUSPENDED: Self = Self(8);
    /// The last sample of the chain is packed, so that the next one can be a difference from it.
    pub(super) const PACKED: Self = Self(16);
    /// Some samples of the file come from the log, and the file may have them.
    pub const REPLAYED: Self = Self(32);
    /// The last write of the file failed.
    pub const FAILED: Self = Self(64);
}

/// What is known of a file.
#[derive(Debug, Clone)]
pub struct FileEntry {
    /// Where its name begins.
    name: u32,
    /// The samples that wait.
    pub(super) samples: Chain,
    /// How many they are.
    pub(super) count: u32,
    /// Stamp of the newest sample taken, in microseconds.
    pub(super) newest: i64,
    /// Seconds of the newest sample in the file; 0 where that is not known.
    on_disk: u32,
    /// When the oldest sample that waits was taken, in the daemon's seconds.
    pub(super) since: u32,
    /// The log's segment of the oldest sample that waits.
    pub(super) segment: Option<Segment>,
    /// In which checkpoint interval the log got an image of the file's header; 0 for never. See [`crate::disk`].
    pub(super) imaged: u32,
    /// Which file that was.
    pub(super) identity: u32,
    /// Where on its disk the file lies.
    pub(super) place: u32,
    /// Index of its shape.
    pub(super) shape: u16,
    /// Index of its disk.
    pub(super) disk: u8,
    flags: Flags,
}

impl FileEntry {
    /// Whether the file has a flag.
    pub fn is(&self, flag: Flags) -> bool {
        self.flags.0 & flag.0 != 0
    }

    /// How many samples wait.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Stamp of the newest sample taken, in microseconds.
    pub fn newest(&self) -> i64 {
        self.newest
    }

    /// Seconds of the newest sample in the file; 0 where that is not known.
    pub fn on_disk(&self) -> u32 {
        self.on_disk
    }

    /// When the oldest sample that waits was taken, in the daemon's seconds.
    pub fn since(&self) -> u32 {
        self.since
    }

    /// The log's segment of the oldest sample that waits.
    pub fn segment(&self) -> Option<Segment> {
        self.segment
    }

    /// In which checkpoint interval the log got an image of the file's header; 0 for never.
    pub fn imaged(&self) -> u32 {
        self.imaged
    }

    /// Which file the image is of.
    pub fn identity(&self) -> u32 {
        self.identity
    }

    /// The file's disk, and where on it the file lies: files sort by it.
    pub fn place(&self) -> (u8, u32) {
        (self.disk, self.place)
    }

    pub(super) fn set(&mut self, flag: Flags, value: bool) {
        match value {
            true => self.flags.0 |= flag.0,
            false => self.flags.0 &= !flag.0,
        }
    }

    /// The newest sample in the file has the stamp `newest`, in microseconds.
    pub(super) fn set_on_disk(&mut self, newest: i64) {
        self.on_disk = u32::try_from(newest / 1_000_000).unwrap_or(0);
    }
}

/// All files.
pub struct Files {
    table: HashTable<FileId>,
    hasher: DefaultHashBuilder,
    entries: Vec<FileEntry>,
    free: Vec<FileId>,
    /// Length (two bytes) and text of each name.
    names: Vec<u8>,
    garbage: usize,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            table: HashTable::with_capacity(FILES_AT_FIRST),
            hasher: DefaultHashBuilder::default(),
            entries: Vec::with_capacity(FILES_AT_FIRST),
            free: vec![],
            names: Vec::with_capacity(NAMES_AT_FIRST),
            garbage: 0,
        }
    }
}

fn bytes_at(names: &[u8], at: u32) -> &[u8] {
    let at = at as usize;
    let length = names.get(at..at + 2).map_or(0, |two| usize::from(u16::from_le_bytes([two[0], two[1]])));
    names.get(at + 2..at + 2 + length).unwrap_or(&[])
}

fn name_at(names: &[u8], at: u32) -> &str {
    // BUG if it is not text: only whole texts were put there.
    std::str::from_utf8(bytes_at(names, at)).unwrap_or("")
}

impl Files {
    /// The file called `name`.
    pub fn find(&self, name: &str) -> Option<FileId> {
        let hash = self.hasher.hash_one(name.as_bytes());
        let same = |id: &FileId| bytes_at(&self.names, self.entries[*id as usize].name) == name.as_bytes();
        self.table.find(hash, same).copied()
    }

    /// The file called `name`, if it was added right after `before`. Clients tend to go through their files in the same order.
    pub fn find_next(&self, name: &str, before: FileId) -> Option<FileId> {
        let id = before.checked_add(1)?;
        let entry = self.entries.get(id as usize).filter(|entry| entry.is(Flags::KNOWN))?;
        (bytes_at(&self.names, entry.name) == name.as_bytes()).then_some(id)
    }

    /// The file called `name`, added if it is new. `None` where no more fit.
    pub fn find_or_add(&mut self, name: &str) -> Option<FileId> {
        if let Some(id) = self.find(name) {
            return Some(id);
        }
        let at = u32::try_from(self.names.len()).ok()?;
        let length = u16::try_from(name.len()).ok()?;
        self.names.extend(length.to_le_bytes());
        self.names.extend(name.as_bytes());
        let entry = FileEntry {
            name: at,
            samples: Chain::EMPTY,
            count: 0,
            newest: i64::MIN,
            on_disk: 0,
            since: 0,
            segment: None,
            imaged: 0,
            identity: 0,
            place: 0,
            shape: 0,
            disk: 0,
            flags: Flags::default(),
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as FileId
            }
        };
        let (names, entries, hasher) = (&self.names, &self.entries, &self.hasher);
        let hash = |id: &FileId| hasher.hash_one(bytes_at(names, entries[*id as usize].name));
        self.table.insert_unique(hasher.hash_one(name.as_bytes()), id, hash);
        Some(id)
    }

    /// Removes a file nobody refers to any more.
    pub fn remove(&mut self, id: FileId) {
        let hash = self.hasher.hash_one(bytes_at(&self.names, self.entries[id as usize].name));
        if let Ok(entry) = self.table.find_entry(hash, |other| *other == id) {
            entry.remove();
            self.garbage += 2 + self.name(id).len();
            // `find_next` must not take the name for one that is in the table.
            self.entries[id as usize].flags = Flags::default();
            self.free.push(id);
        }
        if self.garbage > GARBAGE_MAX && self.garbage > self.names.len() / 2 {
            self.pack();
        }
    }

    fn pack(&mut self) {
        let mut names = Vec::with_capacity(self.names.len() - self.garbage);
        for id in &self.table {
            let entry = &mut self.entries[*id as usize];
            let name = name_at(&self.names, entry.name);
            let at = names.len() as u32;
            names.extend((name.len() as u16).to_le_bytes());
            names.extend(name.as_bytes());
            entry.name = at;
        }
        (self.names, self.garbage) = (names, 0);
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes all this takes; of the table eight a file, half full as it may be.
    pub fn bytes(&self) -> u64 {
        (self.entries.len() * (size_of::<FileEntry>() + 8) + self.names.len()) as u64
    }

    /// A file's name.
    pub fn name(&self, id: FileId) -> &str {
        name_at(&self.names, self.entries[id as usize].name)
    }

    /// Every file's number.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.table.iter().copied()
    }
}

impl std::ops::Index<FileId> for Files {
    type Output = FileEntry;

    fn index(&self, id: FileId) -> &FileEntry {
        &self.entries[id as usize]
    }
}

impl std::ops::IndexMut<FileId> for Files {
    fn index_mut(&mut self, id: FileId) -> &mut FileEntry {
        &mut self.entries[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_after_others_are_removed() {
        let mut entries = Files::default();
        let name = |index: usize| format!("/a/long/way/to/file{index:09}.rrd");
        for index in 0..40_000 {
            assert_eq!(entries.find_or_add(&name(index)), Some(index as FileId));
        }
        for index in (0..40_000).filter(|index| index % 4 != 0) {
            entries.remove(entries.find(&name(index)).unwrap());
        }
        assert_eq!(entries.len(), 10_000);
        assert!(entries.names.len() < 40_000 * 35, "names are packed");
        for index in 0..40_000 {
            assert_eq!(entries.find(&name(index)).is_some(), index % 4 == 0);
        }
        let id = entries.find_or_add("new").unwrap();
        assert!(id < 40_000 && entries.name(id) == "new" && entries.len() == 10_001);
    }

    #[test]
    fn a_file_takes_some_fifty_bytes_and_its_name() {
        assert!(size_of::<FileEntry>() <= 56, "{}", size_of::<FileEntry>());
    }
}
