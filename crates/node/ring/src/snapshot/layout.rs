//! The positions in a snapshot, and its first page, which identifies it. It reads and writes no memory.
//! `docs/shm.md` describes every byte.

use khz_model::reading::LABELS_STATE;
use khz_model::{Absence, Reading, ValueType};

use crate::layout::{PAGE_BYTES, array, name, put_name};

/// The offset of the words.
pub(crate) const WORDS_AT: u64 = PAGE_BYTES as u64;
/// The offset of the groups.
pub(crate) const GROUPS_AT: u64 = 2 * PAGE_BYTES as u64;
/// The size of a group: a cache line, so that writing one group does not disturb readers of another.
pub(crate) const GROUP_BYTES: u64 = 64;
/// The number of groups: an agent has at most this many sources.
pub const GROUPS_MAX: usize = 64;
/// The offset of the slots.
pub(crate) const SLOTS_AT: u64 = GROUPS_AT + GROUPS_MAX as u64 * GROUP_BYTES;
/// The size of a slot.
pub(crate) const SLOT_BYTES: u64 = 16;
/// The number of slots that fit: a node with 10,000 interfaces has 160,000.
pub const SNAPSHOT_SLOTS_MAX: u64 = 1 << 18;
/// The offset of the names.
pub(crate) const NAMES_AT: u64 = SLOTS_AT + SNAPSHOT_SLOTS_MAX * SLOT_BYTES;
/// The room for names: enough for all slots, with names of about fifty bytes.
pub(crate) const NAMES_BYTES: u64 = 16 << 20;
/// The size of the file.
pub(crate) const FILE_BYTES: u64 = NAMES_AT + NAMES_BYTES;

/// The words.
pub(crate) mod word {
    use super::WORDS_AT;
    pub const SLOTS: u64 = WORDS_AT;
    pub const NAMES: u64 = WORDS_AT + 8;
    pub const ENDED: u64 = WORDS_AT + 16;
    pub const PID: u64 = WORDS_AT + 24;
    pub const STARTED: u64 = WORDS_AT + 32;
}

/// The words of a group.
pub(crate) mod group {
    pub const SEQUENCE: u64 = 0;
    pub const BOOT: u64 = 8;
    pub const REAL_OFFSET: u64 = 16;
    pub const ROWS: u64 = 24;
}

/// The offset of a group.
#[inline]
pub(crate) const fn group_at(group: u8) -> u64 {
    GROUPS_AT + group as u64 * GROUP_BYTES
}

/// The offset of a slot.
#[inline]
pub(crate) const fn slot_at(slot: u32) -> u64 {
    SLOTS_AT + slot as u64 * SLOT_BYTES
}

/// States of values that an older reader must not take for whole numbers: it reads them as absent.
const SIGNED: u8 = 65;
const FLOAT: u8 = 66;

/// The state of a slot in the file. Labels have no place there: their state alone is written.
#[inline]
pub(crate) const fn state_of(state: u8, value_type: ValueType) -> u8 {
    match (state, value_type) {
        (0, ValueType::Signed) => SIGNED,
        (0, ValueType::Float) => FLOAT,
        (0, ValueType::Labels | ValueType::Unknown) => LABELS_STATE,
        _ => state,
    }
}

/// A slot's reading, and the type of its value.
#[inline]
pub(crate) const fn reading_of(state: u8, value: u64) -> (Reading, ValueType) {
    match state {
        SIGNED => (Reading::Present(value), ValueType::Signed),
        FLOAT => (Reading::Present(value), ValueType::Float),
        LABELS_STATE => (Reading::Absent(Absence::NotYet), ValueType::Labels),
        _ => (Reading::from_parts(state, value), ValueType::Unsigned),
    }
}

/// Makes a slot's second word.
#[inline]
pub(crate) const fn meta(state: u8, group: u8, places: u8) -> u64 {
    state as u64 | (group as u64) << 8 | (places as u64) << 16
}

/// Splits a slot's second word into state, group and places.
#[inline]
pub(crate) const fn parts(meta: u64) -> (u8, u8, u8) {
    (meta as u8, (meta >> 8) as u8, (meta >> 16) as u8)
}

const MAGIC: [u8; 4] = *b"khzM";
const VERSION: u8 = 1;
const NODE_AT: usize = 96;
const CHECKSUM_AT: usize = PAGE_BYTES - 4;

/// The fields of the first page that describe the areas: offset in the page, value.
const AREAS: [(usize, u64); 5] =
    [(8, GROUPS_AT), (16, SLOTS_AT), (24, SNAPSHOT_SLOTS_MAX), (32, NAMES_AT), (40, NAMES_BYTES)];

/// The identity of a snapshot, written once when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotLabel {
    /// The node.
    pub node: String,
    /// The machine, from /etc/machine-id.
    pub machine: [u8; 16],
    /// This boot of the machine.
    pub boot: [u8; 16],
    /// A random number from its creation.
    pub epoch: u64,
    /// When it was created: CLOCK_REALTIME, ns.
    pub created: u64,
}

impl SnapshotLabel {
    /// Encodes the first page.
    pub(crate) fn to_page(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        page[0..4].copy_from_slice(&MAGIC);
        page[4] = VERSION;
        for (at, number) in AREAS.into_iter().chain([(80, self.epoch), (88, self.created)]) {
            page[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        page[48..64].copy_from_slice(&self.machine);
        page[64..80].copy_from_slice(&self.boot);
        put_name(&mut page[NODE_AT..], &self.node);
        let checksum = crc32fast::hash(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// Decodes a first page. The error says what is wrong.
    pub(crate) fn from_page(page: &[u8]) -> Result<Self, String> {
        let page: &[u8; PAGE_BYTES] = page.try_into().map_err(|_| "shorter than a snapshot's first page")?;
        if page[0..4] != MAGIC {
            return Err("not a snapshot: it does not begin with \"khzM\"".into());
        }
        if page[4] != VERSION {
            return Err(format!("snapshot version {}; this program reads 1", page[4]));
        }
        let (checked, checksum) = page.split_at(CHECKSUM_AT);
        if crc32fast::hash(checked).to_le_bytes() != checksum {
            return Err("the first page is damaged: its checksum is wrong".into());
        }
        let number = |at: usize| u64::from_le_bytes(array(page, at));
        if AREAS.into_iter().any(|(at, expected)| number(at) != expected) {
            return Err("its areas are not at the offsets of version 1".into());
        }
        Ok(SnapshotLabel {
            node: name(&page[NODE_AT..])?,
            machine: array(page, 48),
            boot: array(page, 64),
            epoch: number(80),
            created: number(88),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn label() -> SnapshotLabel {
        let (machine, boot) = ([7; 16], [9; 16]);
        SnapshotLabel { node: "n1".into(), machine, boot, epoch: 5, created: 1_763_690_000_000_000_000 }
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        let page = label().to_page();
        let hex: String = page[..48].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "6b687a4d010000000020000000000000003000000000000000000400000000000030400000000000\
             0000000100000000"
        );
        assert_eq!((SLOTS_AT, NAMES_AT, FILE_BYTES), (12_288, 4_206_592, 20_983_808));
        assert_eq!(SnapshotLabel::from_page(&page), Ok(label()));
    }

    #[test]
    fn a_damaged_page_is_refused() {
        for at in 0..PAGE_BYTES {
            let mut page = label().to_page();
            page[at] ^= 1;
            assert!(SnapshotLabel::from_page(&page).is_err(), "byte {at}");
        }
    }
}
