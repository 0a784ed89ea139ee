//! Images: a file's live header in the log before a write changes it, so that a loss of power or a kill in the middle
//! of a write can be undone.
//!
//! The kernel may write a file's header to disk and lose power before it writes the rows; the header then says that
//! the file has samples it does not have. Even a kill may come between two pages of one header. So the first write
//! after each checkpoint logs the header as it was, and waits until that is synced. At the next start the header is
//! put back ([`crate::restore`]) and all samples since come from the log: they are still there, because a segment goes
//! only after a checkpoint.
//!
//! An image belongs to one file as it was defined then: its inode, when that was made (a number is soon used again), and
//! what stands before the live header.

use rustix::fs::{AtFlags, StatxFlags};

use crate::record::Image;
use khz_rrd::error::{Error, Result};
use khz_rrd::file::Rrd;

/// Which file, and which definition of it, an image is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    /// The disk.
    pub(super) device: u64,
    inode: u64,
    definition: u32,
    /// What `definition` was in logs that knew nothing of a file's birth.
    plain: u32,
}

/// An image, out of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) sequence: u64,
    inode: u64,
    definition: u32,
    live: Vec<u8>,
    /// Written in another boot, or valid without end: whatever the file says, its header is put back.
    pub(super) must: bool,
}

impl Identity {
    pub(super) fn of(rrd: &Rrd) -> Result<Self> {
        // No times but that: who asks for them makes the next write a dearer one.
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let told = rustix::fs::statx(rrd.file(), c"", AtFlags::EMPTY_PATH, wanted)
            .map_err(|error| Error::io("stating", rrd.path(), error.into()))?;
        let plain = crc32c::crc32c(&rrd.header.bytes()[..rrd.header.layout().live_head]);
        let mut definition = plain;
        if told.stx_mask & StatxFlags::BTIME.bits() != 0 {
            definition = crc32c::crc32c_append(definition, &told.stx_btime.tv_sec.to_le_bytes());
            definition = crc32c::crc32c_append(definition, &told.stx_btime.tv_nsec.to_le_bytes());
        }
        let device = rustix::fs::makedev(told.stx_dev_major, told.stx_dev_minor);
        Ok(Self { device, inode: told.stx_ino, definition, plain })
    }

    /// All of it in few bytes.
    pub(super) fn sum(&self) -> u32 {
        let sum = crc32c::crc32c_append(self.definition, &self.inode.to_le_bytes());
        crc32c::crc32c_append(sum, &self.device.to_le_bytes())
    }

    /// The image of a file that is this one and has the live header `live`.
    pub(super) fn image(&self, sequence: u64, live: &[u8]) -> Kept {
        let Self { inode, definition, .. } = *self;
        Kept { sequence, inode, definition, live: shrink(live), must: true }
    }
}

impl Kept {
    pub(super) fn new(image: &Image<'_>, must: bool) -> Self {
        let Image { sequence, inode, definition, live } = *image;
        Self { sequence, inode, definition, live: live.into(), must }
    }

    /// As a record has it.
    pub(super) fn image(&self, sequence: u64) -> Image<'_> {
        Image { sequence, inode: self.inode, definition: self.definition, live: &self.live }
    }

    /// The live header, if it is one of `rrd`, which is `identity`.
    pub(super) fn live(&self, rrd: &Rrd, identity: &Identity) -> Option<Vec<u8>> {
        let same = self.definition == identity.definition || self.definition == identity.plain;
        grow(&self.live, rrd.header.live().len()).filter(|_| same && self.inode == identity.inode)
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.live.len()) as u64
    }
}

/// A bit for each word of 8 bytes that is not zero, then those words, then the bytes behind the last whole word.
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
