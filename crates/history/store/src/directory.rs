//! The directory of a column file: its nodes, in the order of their names, and the places of their sections. It lies at the end, in
//! pages with checksums below one root, so that two reads find a node.

use khz_block::varint;
use khz_model::name::NODE_NAME_MAX;
use khz_model::{Nanos, NodeName};

use crate::bytes::{Bytes, Read, put_text};
use crate::limits::{PAGE_NODES, PAGES_MAX, PART_BYTES_MAX};
use crate::part::Part;

/// The first bytes of a file.
pub(crate) const HEADER_BYTES: usize = 8;
/// The last bytes of a file.
pub(crate) const TAIL_BYTES: usize = 24;
/// The magic of both ends.
const MAGIC: [u8; 4] = *b"khzH";
/// The version of the format that is written. Version 1 is read, too: there, the columns of a section follow each other.
pub(crate) const VERSION: u8 = 2;

/// The bytes that begin a file.
pub(crate) fn header() -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, VERSION, 0, 0, 0]
}

/// Checks the bytes that begin a file; returns the version.
pub(crate) fn check_header(bytes: &[u8]) -> Read<u8> {
    match bytes {
        [magic @ .., version, _, _, _] if *magic == MAGIC => Ok(*version),
        _ => Err("no column file begins here"),
    }
}

/// The bytes that end a file: where the root is.
pub(crate) fn tail(root: Part) -> Vec<u8> {
    let mut out = root.offset.to_le_bytes().to_vec();
    out.extend_from_slice(&(root.length as u32).to_le_bytes());
    out.extend_from_slice(&root.checksum.to_le_bytes());
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&MAGIC);
    out
}

const NO_TAIL: &str = "it does not end as a column file does: its end is missing or damaged";

/// Reads the bytes that end a file.
pub(crate) fn take_tail(bytes: &[u8]) -> Read<Part> {
    if !bytes.ends_with(&MAGIC) {
        return Err(NO_TAIL);
    }
    let mut bytes = Bytes(bytes);
    let expected = crc32fast::hash(bytes.0.get(..16).unwrap_or_default());
    let (offset, length, checksum) = (bytes.u64()?, bytes.u32()?, bytes.u32()?);
    let is_whole = bytes.u32()? == expected || cfg!(feature = "fuzz");
    if !is_whole || bytes.0 != MAGIC {
        return Err(NO_TAIL);
    }
    Ok(Part { offset, length: length as usize, checksum })
}

/// A node's section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub node: NodeName,
    /// The index of its columns (`section.rs`).
    pub index: Part,
}

/// A page of the directory, and the first node in it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub first: NodeName,
    pub part: Part,
}

/// The facts of a file that are known as soon as it is open.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// The length of the buckets; 0: rows as they were gathered.
    pub resolution: Nanos,
    /// The earliest and latest time of all rows.
    pub first: u64,
    pub last: u64,
    /// The layout that others are packed with; without bytes: there are no sections.
    pub layout: Part,
    pub pages: Vec<Page>,
}

impl Root {
    pub fn put(&self, out: &mut Vec<u8>) {
        for number in [self.resolution.0, self.first, self.last] {
            varint::put(out, number);
        }
        self.layout.put(out);
        varint::put(out, self.pages.len() as u64);
        for page in &self.pages {
            put_text(out, page.first.as_str());
            page.part.put(out);
        }
    }

    pub fn take(mut bytes: Bytes<'_>) -> Read<Self> {
        let (resolution, first, last) = (Nanos(bytes.number()?), bytes.number()?, bytes.number()?);
        let layout = Part::take(&mut bytes, PART_BYTES_MAX)?;
        let count = bytes.count(PAGES_MAX)?;
        let mut pages = Vec::new();
        for _ in 0..count {
            let first = name(&mut bytes)?;
            pages.push(Page { first, part: Part::take(&mut bytes, PART_BYTES_MAX)? });
        }
        bytes.end()?;
        Ok(Root { resolution, first, last, layout, pages })
    }

    /// The pages that may have this node. Its sections may begin on one page and end on the next.
    pub fn pages_of(&self, node: &NodeName) -> &[Page] {
        let from = self.pages.partition_point(|page| page.first < *node).saturating_sub(1);
        let to = self.pages.partition_point(|page| page.first <= *node);
        self.pages.get(from..to).unwrap_or_default()
    }
}

/// The entries as pages, in the order of their names; sections of one node stay in the order in which they were written.
pub(crate) fn pages(mut entries: Vec<Entry>) -> Vec<(NodeName, Vec<u8>)> {
    entries.sort_by(|one, two| one.node.cmp(&two.node));
    let page = |entries: &[Entry]| {
        let mut bytes = Vec::new();
        for entry in entries {
            put_text(&mut bytes, entry.node.as_str());
            entry.index.put(&mut bytes);
        }
        (entries[0].node.clone(), bytes)
    };
    entries.chunks(PAGE_NODES).map(page).collect()
}

/// The entries of a page.
pub(crate) fn take_page(bytes: &[u8]) -> Read<Vec<Entry>> {
    let (mut bytes, mut entries) = (Bytes(bytes), Vec::new());
    while !bytes.0.is_empty() {
        let node = name(&mut bytes)?;
        entries.push(Entry { node, index: Part::take(&mut bytes, PART_BYTES_MAX)? });
    }
    Ok(entries)
}

fn name(bytes: &mut Bytes<'_>) -> Read<NodeName> {
    NodeName::stored(bytes.text(NODE_NAME_MAX)?).map_err(|_| "the name of a node that no node can have")
}
