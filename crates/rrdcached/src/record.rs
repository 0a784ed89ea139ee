//! The log's records as bytes; does no I/O and trusts no byte it reads.
//!
//! ```text
//! record: length u32 | CRC-32C u32 | kind u8 | name length u16 | name | content      (little endian)
//! kind 0  update      samples, a blank between them
//! kind 1  forget      stamp i64 in microseconds: samples that wait are dropped from it on; none: all are
//! kind 2  image       sequence u64 | inode u64 | checksum of what stands before and of its birth u32 | live header
//! kind 3  checkpoint  sequence u64; no name
//! kind 4  boot        text; no name: what the segment holds was written in it
//! ```
//!
//! Names and samples are text as [`khz_rrd::text`] has it: where they are UTF-8, which they are as a rule, their own bytes.
//! `length` counts from the kind on, and the checksum is over the same bytes. A forget with the smallest stamp (another
//! file has the name) or the largest (the file is on disk as it is) makes the file's images void.

use crc32c::crc32c;
use khz_rrd::error::{Result, refused};

/// Bytes a record may have behind its checksum: a protocol line, or the header of a very wide file.
const RECORD_MAX: usize = 4 << 20;
/// Bytes before the kind.
const HEAD: usize = 8;

/// The number of an image that no checkpoint makes void.
pub(super) const WITHOUT_END: u64 = u64::MAX;

/// A file's live header before a write changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image<'a> {
    /// The checkpoint before it, counted on.
    pub sequence: u64,
    /// The file's inode: another file of that name is not meant.
    pub inode: u64,
    /// Checksum of the header's bytes before the live ones, a file tuned since is not meant, and of when the inode was
    /// made.
    pub definition: u32,
    /// The live header.
    pub live: &'a [u8],
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Samples for a file.
    Update {
        /// The file.
        file: &'a str,
        /// `time:value:...`, blanks between several.
        samples: &'a str,
    },
    /// Samples of a file are to be forgotten.
    Forget {
        /// The file.
        file: &'a str,
        /// The first stamp that goes, in microseconds.
        from: i64,
    },
    /// A file's live header before a write.
    Image {
        /// The file.
        file: &'a str,
        /// The header.
        image: Image<'a>,
    },
    /// Writes whose images have a smaller number are on disk, or undone there.
    Checkpoint {
        /// The number.
        sequence: u64,
    },
    /// The machine's boot during which the segment was written.
    Boot {
        /// The kernel's name for it.
        id: &'a str,
    },
}

/// Appends the record of `entry` to `out`.
///
/// # Errors
/// It is larger than a record may be; nothing is appended then.
pub fn encode(entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend([0; HEAD]);
    let mut begin = |kind: u8, name: &str| {
        out.push(kind);
        out.extend((name.len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        name.len()
    };
    let name = match entry {
        Entry::Update { file, samples } => {
            let name = begin(0, file);
            out.extend_from_slice(samples.as_bytes());
            name
        }
        Entry::Forget { file, from } => {
            let name = begin(1, file);
            out.extend(from.to_le_bytes());
            name
        }
        Entry::Image { file, image } => {
            let name = begin(2, file);
            out.extend(image.sequence.to_le_bytes());
            out.extend(image.inode.to_le_bytes());
            out.extend(image.definition.to_le_bytes());
            out.extend(image.live);
            name
        }
        Entry::Checkpoint { sequence } => {
            begin(3, "");
            out.extend(sequence.to_le_bytes());
            0
        }
        Entry::Boot { id } => {
            begin(4, "");
            out.extend(id.as_bytes());
            0
        }
    };
    let length = out.len() - start - HEAD;
    if length > RECORD_MAX || name > usize::from(u16::MAX) {
        out.truncate(start);
        return refused(format!("a record of {length} bytes; at most {RECORD_MAX} are logged"));
    }
    let sum = crc32c(&out[start + HEAD..]);
    out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    out[start + 4..start + HEAD].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// The record at the start of `bytes` and its length; `None` where no whole one is.
pub fn decode(bytes: &[u8]) -> Option<(Entry<'_>, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (length, sum) = (word(0)? as usize, word(4)?);
    if length > RECORD_MAX {
        return None;
    }
    let body = bytes.get(HEAD..HEAD + length)?;
    if *body.first()? > 4 || crc32c(body) != sum {
        return None;
    }
    Some((entry(body)?, HEAD + length))
}

fn entry(body: &[u8]) -> Option<Entry<'_>> {
    let (kind, rest) = body.split_first()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (name, content) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (file, text) = (std::str::from_utf8(name).ok()?, || std::str::from_utf8(content).ok());
    let number = |at: usize| Some(u64::from_le_bytes(content.get(at..at + 8)?.try_into().ok()?));
    Some(match kind {
        0 => Entry::Update { file, samples: text()? },
        1 => Entry::Forget { file, from: number(0).map_or(i64::MIN, |from| from as i64) },
        2 => {
            let definition = u32::from_le_bytes(content.get(16..20)?.try_into().ok()?);
            let live = content.get(20..)?;
            Entry::Image { file, image: Image { sequence: number(0)?, inode: number(8)?, definition, live } }
        }
        3 => Entry::Checkpoint { sequence: number(0)? },
        _ => Entry::Boot { id: text()? },
    })
}

/// The records of a segment's bytes in order, passing over damage.
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where bytes begin that are no record although records follow, and how many there are.
    pub damage: Vec<(usize, usize)>,
}

/// The records in `bytes`.
pub fn records(bytes: &[u8]) -> Records<'_> {
    Records { bytes, at: 0, damage: vec![] }
}

impl<'a> Iterator for Records<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        // What is torn at the end was never acknowledged; what is damaged in the middle must not take the rest along.
        for at in self.at..self.bytes.len() {
            if let Some((entry, length)) = decode(&self.bytes[at..]) {
                if at > self.at {
                    self.damage.push((self.at, at - self.at));
                }
                self.at = at + length;
                return Some(entry);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn five() -> Vec<Entry<'static>> {
        let image = Image { sequence: 7, inode: 9, definition: 11, live: &[1, 2, 3] };
        vec![
            Entry::Boot { id: "a-b" },
            Entry::Update { file: "a", samples: "1:2 3:4" },
            Entry::Forget { file: "a", from: -5 },
            Entry::Image { file: "b", image },
            Entry::Checkpoint { sequence: 8 },
        ]
    }

    fn bytes(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut bytes = vec![];
        entries.iter().for_each(|entry| encode(entry, &mut bytes).unwrap());
        bytes
    }

    #[test]
    fn records_come_back_and_a_torn_one_does_not() {
        let bytes = bytes(&five());
        assert_eq!(records(&bytes).collect::<Vec<_>>(), five());
        for cut in 0..bytes.len() {
            let mut found = records(&bytes[..cut]);
            let entries: Vec<_> = found.by_ref().collect();
            assert!(entries.len() < 5 && found.damage.is_empty());
            assert_eq!(entries, five()[..entries.len()]);
        }
    }

    #[test]
    fn a_flipped_bit_costs_one_record_and_is_told() {
        let good = bytes(&five());
        for bit in 0..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut found = records(&bytes);
            let entries: Vec<_> = found.by_ref().collect();
            assert_eq!(entries.len(), 4, "bit {bit}");
            assert!(entries.iter().all(|entry| five().contains(entry)));
            // Damage to the last record cannot be told from a torn one.
            assert_eq!(found.damage.len(), usize::from(entries.last() == five().last()));
        }
    }

    #[test]
    fn a_log_of_the_first_kind_is_still_read() {
        // Kind 1 had no stamp then.
        let body = b"\x01\x01\0a";
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend(crc32c(body).to_le_bytes());
        bytes.extend(body);
        assert_eq!(records(&bytes).collect::<Vec<_>>(), [Entry::Forget { file: "a", from: i64::MIN }]);
    }
}
