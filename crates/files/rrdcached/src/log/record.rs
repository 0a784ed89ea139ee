//! The log's records as bytes; does no I/O and trusts no byte it reads.
//!
//! ```text
//! record: length u32 | CRC-32C u32 | kind u8 | name length u16 | name | content      (little endian)
//! kind 0  update      samples, a blank between them
//! kind 1  forget      stamp i64 in microseconds: waiting samples from it on are dropped; no stamp: all are
//! kind 2  image       sequence u64 | inode u64 | checksum of the definition and of the inode's birth u32 | live header
//! kind 3  checkpoint  sequence u64; no name
//! kind 4  boot        text; no name: the boot in which the segment was written
//! ```
//!
//! `length` counts from the kind on, and the checksum covers the same bytes. Names and samples are text of
//! [`khz_rrd::text`], which keeps UTF-8 as it is. A forget with the smallest stamp (another file has the name) or the
//! largest (the file is on disk as it is) makes the file's images void.

use crc32c::crc32c;
use khz_rrd::error::{Result, refused};

/// Bytes of a record after its checksum: a protocol line, or the header of a very wide file.
const RECORD_MAX: usize = 4 << 20;
/// Bytes before the kind.
const HEAD: usize = 8;

/// The number of an image that no checkpoint makes void.
pub const WITHOUT_END: u64 = u64::MAX;

/// A file's live header before a write changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image<'a> {
    /// The number of the checkpoint before it.
    pub sequence: u64,
    /// The file's inode: the image is of no other file of that name.
    pub inode: u64,
    /// Checksum of the header's bytes before the live part, which a tune changes, and of the inode's birth.
    pub definition: u32,
    /// The live header.
    pub live: &'a [u8],
}

/// A record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
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
    /// Writes whose images have a smaller number are on disk.
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

/// Appends the bytes of `record` to `out`.
///
/// # Errors
/// It is larger than a record may be; nothing is appended then.
pub fn encode(record: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend([0; HEAD]);
    let mut begin = |kind: u8, name: &str| {
        out.push(kind);
        out.extend((name.len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        name.len()
    };
    let name = match record {
        Record::Update { file, samples } => {
            let name = begin(0, file);
            out.extend_from_slice(samples.as_bytes());
            name
        }
        Record::Forget { file, from } => {
            let name = begin(1, file);
            out.extend(from.to_le_bytes());
            name
        }
        Record::Image { file, image } => {
            let name = begin(2, file);
            out.extend(image.sequence.to_le_bytes());
            out.extend(image.inode.to_le_bytes());
            out.extend(image.definition.to_le_bytes());
            out.extend(image.live);
            name
        }
        Record::Checkpoint { sequence } => {
            begin(3, "");
            out.extend(sequence.to_le_bytes());
            0
        }
        Record::Boot { id } => {
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
pub fn decode(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (length, sum) = (word(0)? as usize, word(4)?);
    if length > RECORD_MAX {
        return None;
    }
    let body = bytes.get(HEAD..HEAD + length)?;
    if *body.first()? > 4 || crc32c(body) != sum {
        return None;
    }
    Some((parse(body)?, HEAD + length))
}

fn parse(body: &[u8]) -> Option<Record<'_>> {
    let (kind, rest) = body.split_first()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (name, content) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (file, text) = (std::str::from_utf8(name).ok()?, || std::str::from_utf8(content).ok());
    let number = |at: usize| Some(u64::from_le_bytes(content.get(at..at + 8)?.try_into().ok()?));
    Some(match kind {
        0 => Record::Update { file, samples: text()? },
        1 => Record::Forget { file, from: number(0).map_or(i64::MIN, |from| from as i64) },
        2 => {
            let definition = u32::from_le_bytes(content.get(16..20)?.try_into().ok()?);
            let live = content.get(20..)?;
            Record::Image { file, image: Image { sequence: number(0)?, inode: number(8)?, definition, live } }
        }
        3 => Record::Checkpoint { sequence: number(0)? },
        _ => Record::Boot { id: text()? },
    })
}

/// Bytes of a segment that are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where they begin.
    pub at: usize,
    /// How many they are.
    pub bytes: usize,
}

/// The records of a segment in order, without the damaged ones.
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes that are not a record although records follow.
    pub damage: Vec<Damage>,
}

/// The records in `bytes`.
pub fn records(bytes: &[u8]) -> Records<'_> {
    Records { bytes, at: 0, damage: vec![] }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        // A torn record at the end was never acknowledged. Damage in the middle must not cost the records after it.
        for at in self.at..self.bytes.len() {
            if let Some((record, length)) = decode(&self.bytes[at..]) {
                if at > self.at {
                    self.damage.push(Damage { at: self.at, bytes: at - self.at });
                }
                self.at = at + length;
                return Some(record);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn five() -> Vec<Record<'static>> {
        let image = Image { sequence: 7, inode: 9, definition: 11, live: &[1, 2, 3] };
        vec![
            Record::Boot { id: "a-b" },
            Record::Update { file: "a", samples: "1:2 3:4" },
            Record::Forget { file: "a", from: -5 },
            Record::Image { file: "b", image },
            Record::Checkpoint { sequence: 8 },
        ]
    }

    fn bytes(records: &[Record<'_>]) -> Vec<u8> {
        let mut bytes = vec![];
        records.iter().for_each(|record| encode(record, &mut bytes).unwrap());
        bytes
    }

    #[test]
    fn records_come_back_and_a_torn_one_does_not() {
        let bytes = bytes(&five());
        assert_eq!(records(&bytes).collect::<Vec<_>>(), five());
        for cut in 0..bytes.len() {
            let mut found = records(&bytes[..cut]);
            let decoded: Vec<_> = found.by_ref().collect();
            assert!(decoded.len() < 5 && found.damage.is_empty());
            assert_eq!(decoded, five()[..decoded.len()]);
        }
    }

    #[test]
    fn a_flipped_bit_costs_one_record_and_is_reported() {
        let good = bytes(&five());
        for bit in 0..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut found = records(&bytes);
            let decoded: Vec<_> = found.by_ref().collect();
            assert_eq!(decoded.len(), 4, "bit {bit}");
            assert!(decoded.iter().all(|record| five().contains(record)));
            // Damage to the last record looks like a torn one.
            assert_eq!(found.damage.len(), usize::from(decoded.last() == five().last()));
        }
    }

    #[test]
    fn a_log_of_the_first_kind_is_still_read() {
        // Kind 1 had no stamp then.
        let body = b"\x01\x01\0a";
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend(crc32c(body).to_le_bytes());
        bytes.extend(body);
        assert_eq!(records(&bytes).collect::<Vec<_>>(), [Record::Forget { file: "a", from: i64::MIN }]);
    }
}
