//! What is known of each file, some 100 bytes each, found by name or number; decides nothing.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::cells::Chain;

/// A file's number.
pub(super) type Id = u32;

/// Bytes of names that may be garbage before they are packed anew.
const GARBAGE_MAX: usize = 1 << 20;

/// Files, and bytes of their names, for which room is asked for at the start: large enough that the allocator takes it
/// from the system and moves it whole when it grows, and pages that nobody has touched cost nothing. What grew from small
/// pieces would leave holes behind.
const FILES_AT_FIRST: usize = 4_096;
const NAMES_AT_FIRST: usize = 1 << 18;

/// A set of [`Node`] states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags(u8);

impl Flags {
    /// Its file has been looked at; without it the file counts as unknown.
    pub(super) const KNOWN: Self = Self(1);
    /// It stands in the queue, or waits for a retry.
    pub(super) const QUEUED: Self = Self(2);
    /// Somebody works on the file and nobody else may.
    pub(super) const CLAIMED: Self = Self(4);
    /// Its samples are to stay in memory.
    pub(super) const SUSPENDED: Self = Self(8);
    /// The last sample of the chain is packed, so that the next may be told from it.
    pub(super) const PACKED: Self = Self(16);
    /// Some of its samples come from the log, and the file may have them.
    pub(super) const REPLAYED: Self = Self(32);
    /// Its last write failed.
    pub(super) const FAILED: Self = Self(64);
}

/// A file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Where its name begins.
    name: u32,
    /// The samples that wait.
    pub(super) chain: Chain,
    /// How many.
    pub(super) count: u32,
    /// Stamp of the newest sample taken, in microseconds.
    pub(super) last: i64,
    /// Seconds of the newest sample in the file; 0 where that is not known.
    pub(super) written: u32,
    /// When the oldest sample that waits was taken, in the daemon's seconds.
    pub(super) since: u32,
    /// The log's segment of the oldest sample that waits; 0 for none.
    pub(super) oldest: u32,
    /// Between which checkpoints the file's header was logged last; 0 for never. See [`crate::image`].
    pub(super) imaged: u32,
    /// Which file that was.
    pub(super) identity: u32,
    /// Where on its disk the file lies.
    pub(super) place: u32,
    /// Index of its shape.
    pub(super) shape: u16,
    /// Index of its disk.
    pub(super) disk: u8,
    pub(super) flags: Flags,
}

impl Node {
    pub(super) fn is(&self, flag: Flags) -> bool {
        self.flags.0 & flag.0 != 0
    }

    pub(super) fn set(&mut self, flag: Flags, value: bool) {
        match value {
            true => self.flags.0 |= flag.0,
            false => self.flags.0 &= !flag.0,
        }
    }
}

/// All files.
pub(super) struct Nodes {
    table: HashTable<Id>,
    hasher: DefaultHashBuilder,
    nodes: Vec<Node>,
    free: Vec<Id>,
    /// Length (two bytes) and text of each name.
    names: Vec<u8>,
    garbage: usize,
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            table: HashTable::with_capacity(FILES_AT_FIRST),
            hasher: DefaultHashBuilder::default(),
            nodes: Vec::with_capacity(FILES_AT_FIRST),
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
    // BUG if it is none: only whole texts were put there.
    std::str::from_utf8(bytes_at(names, at)).unwrap_or("")
}

impl Nodes {
    /// The file called `name`.
    pub(super) fn find(&self, name: &str) -> Option<Id> {
        let hash = self.hasher.hash_one(name.as_bytes());
        let same = |id: &Id| bytes_at(&self.names, self.nodes[*id as usize].name) == name.as_bytes();
        self.table.find(hash, same).copied()
    }

    /// The file called `name` if it is the one that was made after `before`: clients tend to go through their files in
    /// one order.
    pub(super) fn find_next(&self, name: &str, before: Id) -> Option<Id> {
        let id = before.checked_add(1)?;
        let node = self.nodes.get(id as usize).filter(|node| node.is(Flags::KNOWN))?;
        (bytes_at(&self.names, node.name) == name.as_bytes()).then_some(id)
    }

    /// The file called `name`, made if it is new. `None` where no more fit.
    pub(super) fn find_or_make(&mut self, name: &str) -> Option<Id> {
        if let Some(id) = self.find(name) {
            return Some(id);
        }
        let at = u32::try_from(self.names.len()).ok()?;
        let length = u16::try_from(name.len()).ok()?;
        self.names.extend(length.to_le_bytes());
        self.names.extend(name.as_bytes());
        let node = Node {
            name: at,
            chain: Chain::EMPTY,
            count: 0,
            last: i64::MIN,
            written: 0,
            since: 0,
            oldest: 0,
            imaged: 0,
            identity: 0,
            place: 0,
            shape: 0,
            disk: 0,
            flags: Flags::default(),
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as Id
            }
        };
        let (names, nodes, hasher) = (&self.names, &self.nodes, &self.hasher);
        let hash = |id: &Id| hasher.hash_one(bytes_at(names, nodes[*id as usize].name));
        self.table.insert_unique(hasher.hash_one(name.as_bytes()), id, hash);
        Some(id)
    }

    /// Removes a file nobody refers to any more.
    pub(super) fn remove(&mut self, id: Id) {
        let hash = self.hasher.hash_one(bytes_at(&self.names, self.nodes[id as usize].name));
        if let Ok(entry) = self.table.find_entry(hash, |other| *other == id) {
            entry.remove();
            self.garbage += 2 + self.name(id).len();
            // A name that leads nowhere is not to be taken for one that does.
            self.nodes[id as usize].flags = Flags::default();
            self.free.push(id);
        }
        if self.garbage > GARBAGE_MAX && self.garbage > self.names.len() / 2 {
            self.pack();
        }
    }

    fn pack(&mut self) {
        let mut names = Vec::with_capacity(self.names.len() - self.garbage);
        for id in &self.table {
            let node = &mut self.nodes[*id as usize];
            let name = name_at(&self.names, node.name);
            let at = names.len() as u32;
            names.extend((name.len() as u16).to_le_bytes());
            names.extend(name.as_bytes());
            node.name = at;
        }
        (self.names, self.garbage) = (names, 0);
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes all this takes; of the table eight a file, half full as it may be.
    pub(super) fn bytes(&self) -> u64 {
        (self.nodes.len() * (size_of::<Node>() + 8) + self.names.len()) as u64
    }

    /// A file's name.
    pub(super) fn name(&self, id: Id) -> &str {
        name_at(&self.names, self.nodes[id as usize].name)
    }

    /// Every file's number.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        self.table.iter().copied()
    }
}

impl std::ops::Index<Id> for Nodes {
    type Output = Node;

    fn index(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }
}

impl std::ops::IndexMut<Id> for Nodes {
    fn index_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_after_others_went() {
        let mut nodes = Nodes::default();
        let name = |index: usize| format!("/a/long/way/to/file{index:09}.rrd");
        for index in 0..40_000 {
            assert_eq!(nodes.find_or_make(&name(index)), Some(index as Id));
        }
        for index in (0..40_000).filter(|index| index % 4 != 0) {
            nodes.remove(nodes.find(&name(index)).unwrap());
        }
        assert_eq!(nodes.len(), 10_000);
        assert!(nodes.names.len() < 40_000 * 35, "names are packed");
        for index in 0..40_000 {
            assert_eq!(nodes.find(&name(index)).is_some(), index % 4 == 0);
        }
        let id = nodes.find_or_make("new").unwrap();
        assert!(id < 40_000 && nodes.name(id) == "new" && nodes.len() == 10_001);
    }

    #[test]
    fn a_file_takes_some_fifty_bytes_and_its_name() {
        assert!(size_of::<Node>() <= 56, "{}", size_of::<Node>());
    }
}
