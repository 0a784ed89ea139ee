//! The positions in a ring file: offsets, words, and the first page (magic, version, node, lane, checksum). It reads and
//! writes no memory. `docs/ring.md` describes every byte.

/// The first page, which is written once.
pub(crate) const PAGE_BYTES: usize = 4_096;
/// The size of the schema area: the largest possible schema.
pub(crate) const SCHEMA_BYTES: u64 = 16 << 20;
/// The smallest size of the data of a file: a block of a small host.
pub(crate) const DATA_MIN: u64 = 64 << 10;
/// The system gives memory in pieces of this size.
pub const MEMORY_PAGE_BYTES: u64 = PAGE_BYTES as u64;
/// The smallest size of the data in memory without a name: a page.
pub(crate) const NAMELESS_DATA_MIN: u64 = PAGE_BYTES as u64;
/// The largest size of the data: a store should keep more than that.
pub(crate) const DATA_MAX: u64 = 64 << 30;
/// The size of an entry's head, before the bytes of its schema.
pub(crate) const ENTRY_BYTES: u64 = 16;

/// Where the areas of a ring begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    pub words: u64,
    pub schema: u64,
    pub data: u64,
}

impl Areas {
    /// In a file: after the first page, each area has pages of its own.
    pub const FILE: Areas = Areas::of(PAGE_BYTES as u64, PAGE_BYTES as u64);
    /// The layout for anonymous memory, which only this process reads: there is no first page, and the schema follows
    /// the words directly. So the names of a few slots share a page with the words.
    pub const NAMELESS: Areas = Areas::of(0, 8 * word::COUNT as u64);

    const fn of(words: u64, words_bytes: u64) -> Areas {
        let schema = words + words_bytes;
        Areas { words, schema, data: (schema + SCHEMA_BYTES).next_multiple_of(PAGE_BYTES as u64) }
    }

    /// The offset of a word.
    pub const fn word(&self, word: usize) -> u64 {
        self.words + word as u64 * 8
    }
}

/// The words. The words that the writer changes with every row share a cache line.
pub(crate) mod word {
    pub const HEAD: usize = 0;
    pub const TAIL: usize = 1;
    pub const NEWEST: usize = 2;
    pub const SCHEMA: usize = 8;
    pub const GENERATION: usize = 9;
    pub const PERIOD: usize = 10;
    pub const PID: usize = 11;
    pub const STARTED: usize = 12;
    pub const SCHEMA_MOVES: usize = 13;
    pub const ASKED: usize = 14;
    /// Room for words.
    pub const COUNT: usize = 16;
}

const MAGIC: [u8; 4] = *b"khzR";
const VERSION: u8 = 1;
const NODE_AT: usize = 96;
const LANE_AT: usize = 352;
const NAME_MAX: usize = 255;
const CHECKSUM_AT: usize = PAGE_BYTES - 4;

/// The identity of a ring, written once when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The node.
    pub node: String,
    /// The lane's name: `base`.
    pub lane: String,
    /// The lane's number on its node.
    pub number: u16,
    /// The machine, from /etc/machine-id.
    pub machine: [u8; 16],
    /// This boot of the machine.
    pub boot: [u8; 16],
    /// A random number from the ring's creation; row numbers run within it.
    pub epoch: u64,
    /// When the ring was created: CLOCK_REALTIME, ns.
    pub created: u64,
}

impl Label {
    /// True when a writer with the label `other` may continue this ring: the same lane in the same boot.
    pub(crate) fn is_continued_by(&self, other: &Label) -> bool {
        let same = |a: &Label| (a.node.clone(), a.lane.clone(), a.number, a.machine, a.boot);
        same(self) == same(other)
    }

    /// Encodes the first page.
    pub(crate) fn to_page(&self, data_bytes: u64) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        page[0..4].copy_from_slice(&MAGIC);
        page[4] = VERSION;
        page[8..10].copy_from_slice(&self.number.to_le_bytes());
        for (at, number) in [
            (16, Areas::FILE.schema),
            (24, SCHEMA_BYTES),
            (32, Areas::FILE.data),
            (40, data_bytes),
            (80, self.epoch),
            (88, self.created),
        ] {
            page[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        page[48..64].copy_from_slice(&self.machine);
        page[64..80].copy_from_slice(&self.boot);
        put_name(&mut page[NODE_AT..], &self.node);
        put_name(&mut page[LANE_AT..], &self.lane);
        let checksum = crc32fast::hash(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// Decodes a first page; returns also the size of the data. The error says what is wrong.
    pub(crate) fn from_page(page: &[u8]) -> Result<(Label, u64), String> {
        let page: &[u8; PAGE_BYTES] = page.try_into().map_err(|_| "shorter than a ring's first page")?;
        if page[0..4] != MAGIC {
            return Err("not a ring: it does not begin with \"khzR\"".into());
        }
        if page[4] != VERSION {
            return Err(format!("ring version {}; this program reads 1", page[4]));
        }
        let (checked, checksum) = page.split_at(CHECKSUM_AT);
        if crc32fast::hash(checked).to_le_bytes() != checksum {
            return Err("the first page is damaged: its checksum is wrong".into());
        }
        let number = |at: usize| u64::from_le_bytes(array(page, at));
        if [number(16), number(24), number(32)] != [Areas::FILE.schema, SCHEMA_BYTES, Areas::FILE.data] {
            return Err("its areas are not at the offsets of version 1".into());
        }
        let data_bytes = number(40);
        if !data_bytes.is_power_of_two() || !(DATA_MIN..=DATA_MAX).contains(&data_bytes) {
            return Err(format!("{data_bytes} bytes of data are not a power of two within the limits"));
        }
        let label = Label {
            node: name(&page[NODE_AT..])?,
            lane: name(&page[LANE_AT..])?,
            number: u16::from_le_bytes(array(page, 8)),
            machine: array(page, 48),
            boot: array(page, 64),
            epoch: number(80),
            created: number(88),
        };
        Ok((label, data_bytes))
    }
}

/// `N` bytes of a page, from `at` on.
pub(crate) fn array<const N: usize>(page: &[u8; PAGE_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| page[at + i])
}

/// Writes a name into a field. `model` has checked it; a longer name would be cut.
pub(crate) fn put_name(field: &mut [u8], name: &str) {
    let end = (0..=name.len().min(NAME_MAX - 1)).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
    field[..2].copy_from_slice(&(end as u16).to_le_bytes());
    field[2..2 + end].copy_from_slice(&name.as_bytes()[..end]);
}

/// Reads the name from a field.
pub(crate) fn name(field: &[u8]) -> Result<String, String> {
    let length = usize::from(field[0]) | usize::from(field[1]) << 8;
    let bytes = field.get(2..2 + length).filter(|_| length <= NAME_MAX);
    let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.map(str::to_owned).ok_or_else(|| "a name in it is not UTF-8".into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn label() -> Label {
        Label {
            node: "n1".into(),
            lane: "base".into(),
            number: 0,
            machine: [7; 16],
            boot: [9; 16],
            epoch: 0x0123_4567_89ab_cdef,
            created: 1_763_690_000_000_000_000,
        }
    }

    #[test]
    fn a_label_survives_the_way_to_bytes_and_back() {
        let long = Label { node: "n".repeat(253), lane: "fixed-1000Hz".into(), number: 65_535, ..label() };
        for label in [label(), long] {
            assert_eq!(Label::from_page(&label.to_page(1 << 20)), Ok((label, 1 << 20)));
        }
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        let page = label().to_page(1 << 24);
        let hex = |range: std::ops::Range<usize>| -> String {
            page[range].iter().map(|byte| format!("{byte:02x}")).collect()
        };
        assert_eq!(
            hex(0..48),
            "6b687a5201000000000000000000000000200000000000000000000100000000\
             00200001000000000000000100000000"
        );
        assert_eq!(hex(80..100), "efcdab896745230100a0e8e7b5e2791802006e31");
        assert_eq!(hex(352..358), "040062617365");
    }

    proptest! {
        #[test]
        fn a_damaged_page_is_refused_and_never_panics(at in 0..PAGE_BYTES, flip in 1u8..=255) {
            let mut page = label().to_page(1 << 16);
            page[at] ^= flip;
            prop_assert!(Label::from_page(&page).is_err());
        }

        #[test]
        fn foreign_pages_with_a_right_checksum_never_panic(bytes in prop::collection::vec(any::<u8>(), 640)) {
            let mut page = label().to_page(1 << 16);
            page[8..648].copy_from_slice(&bytes);
            let checksum = crc32fast::hash(&page[..CHECKSUM_AT]);
            page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
            let _ = Label::from_page(&page);
        }
    }
}
