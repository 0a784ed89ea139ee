//! Images: a file's live header in the log before a write changes it, so that a loss of power or a kill in the middle
//! of a write can be undone. (Databases call it a before-image.)
//!
//! The kernel may write a file's header to disk and lose power before it writes the rows. Then the header says that the
//! file has samples that it does not have. Even a kill may come between two pages of one header. So the first write
//! after each checkpoint logs the header as it was, and waits until that is synced. At the next start the header is
//! put back ([`super::put_back`]) and all samples since then come from the log. They are still there, because a segment
//! goes only after a checkpoint.
//!
//! An image belongs to one file as it was defined then: its inode, the time of the inode's birth (a number is soon used
//! again), and the header's bytes before the live part.

use rustix::fs::{AtFlags, StatxFlags};

use crate::log::Image;
use khz_rrd::error::{Error, Result};
use khz_rrd::file::Rrd;

/// Which file, and which definition of it, an image is of.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// The disk.
    pub device: u64,
    inode: u64,
    /// Checksum of the header's bytes before the live part, and of the inode's birth.
    definition: u32,
    /// The same without the birth, as the first logs had it.
    without_birth: u32,
}

/// An image, out of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderImage {
    sequence: u64,
    inode: u64,
    definition: u32,
    /// The live header, shrunk.
    live: Vec<u8>,
    /// The header is put back whatever the file says: the image is from another boot, or no checkpoint makes it void.
    is_unconditional: bool,
}

impl Identity {
    pub fn of(rrd: &Rrd) -> Result<Self> {
        // No other times: after a query for them the next write is more expensive.
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let facts = rustix::fs::statx(rrd.file(), c"", AtFlags::EMPTY_PATH, wanted)
            .map_err(|error| Error::io("stating", rrd.path(), error.into()))?;
        let without_birth = crc32c::crc32c(&rrd.header.bytes()[..rrd.header.layout().live_head]);
        let mut definition = without_birth;
        if facts.stx_mask & StatxFlags::BTIME.bits() != 0 {
            definition = crc32c::crc32c_append(definition, &facts.stx_btime.tv_sec.to_le_bytes());
            definition = crc32c::crc32c_append(definition, &facts.stx_btime.tv_nsec.to_le_bytes());
        }
        let device = rustix::fs::makedev(facts.stx_dev_major, facts.stx_dev_minor);
        Ok(Self { device, inode: facts.stx_ino, definition, without_birth })
    }

    /// A checksum of all of it, for the memory of a file.
    pub fn sum(&self) -> u32 {
        let sum = crc32c::crc32c_append(self.definition, &self.inode.to_le_bytes());
        crc32c::crc32c_append(sum, &self.device.to_le_bytes())
    }

    /// The image of this file with the live header `live`.
    pub fn image(&self, sequence: u64, live: &[u8]) -> HeaderImage {
        let Self { inode, definition, .. } = *self;
        HeaderImage { sequence, inode, definition, live: shrink(live), is_unconditional: true }
    }
}

impl HeaderImage {
    /// The image that a record of the log has.
    pub fn from_record(image: &Image<'_>, is_unconditional: bool) -> Self {
        let Image { sequence, inode, definition, live } = *image;
        Self { sequence, inode, definition, live: live.into(), is_unconditional }
    }

    /// The image for a record of the log, with another number.
    pub fn to_record(&self, sequence: u64) -> Image<'_> {
        Image { sequence, inode: self.inode, definition: self.definition, live: &self.live }
    }

    /// The number of the checkpoint before the image.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the header is put back whatever the file says.
    pub fn is_unconditional(&self) -> bool {
        self.is_unconditional
    }

    /// The live header, if the image is of `rrd`, whose identity is `identity`.
    pub fn live(&self, rrd: &Rrd, identity: &Identity) -> Option<Vec<u8>> {
        let same = self.definition == identity.definition || self.definition == identity.without_birth;
        grow(&self.live, rrd.header.live().len()).filter(|_| same && self.inode == identity.inode)
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.live.len()) as u64
    }
}

/// `live` without its zeros: a bit for each word of 8 bytes that is not zero, then those words, then the bytes after the
/// last whole word.
fn shrink(live: &[u8]) -> Vec<u8> {
    let words = live.chunks_exact(8);
    let rest = words.remainder();
    let mut out = vec![0; (live.len() / 8).div_ceil(8)];
    for (index, word) in words.enumerate().filter(|(_, word)| **word != [0; 8]) {
        out[index / 8] |= 1 << (index % 8);
        out.extend(word);
    }
    out.extend(rest);
    out
}

/// The live header of `length` bytes that [`shrink`] made `bytes` of.
fn grow(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let (bits, mut words) = bytes.split_at_checked((length / 8).div_ceil(8))?;
    let mut live = vec![0; length];
    for index in (0..length / 8).filter(|index| bits[index / 8] >> (index % 8) & 1 == 1) {
        let (word, rest) = words.split_at_checked(8)?;
        live[8 * index..8 * index + 8].copy_from_slice(word);
        words = rest;
    }
    let end = live.len() - length % 8;
    (words.len() == length % 8).then(|| live[end..].copy_from_slice(words))?;
    Some(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_without_its_zeros_comes_back() {
        for length in [0, 7, 8, 63, 64, 1584, 1590] {
            let live: Vec<u8> = (0..length).map(|at| if at / 20 % 3 == 0 { at as u8 } else { 0 }).collect();
            let small = shrink(&live);
            assert_eq!(grow(&small, length).unwrap(), live);
            assert_eq!(grow(&small, length + 64), None);
            assert!(small.is_empty() || grow(&small[..small.len() - 1], length).is_none());
        }
    }
}
