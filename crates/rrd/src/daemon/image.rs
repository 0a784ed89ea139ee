//! Images: a file's live header in the log before a write changes it, so that a loss of power in the middle of the
//! kernel's writing back can be undone.
//!
//! The kernel may write a file's header to disk and lose power before it writes the rows; the header then says that
//! the file has samples it does not have. So the first write after each checkpoint logs the header as it was, and
//! waits until that is synced. After a reboot the header is put back and all samples since come from the log: they
//! are still there, because a segment goes only after a checkpoint. Nothing of this is needed after a mere kill,
//! which leaves the page cache whole.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::base::Base;
use super::record::Image;
use crate::error::{Error, Result};
use crate::file::Rrd;

/// The live header of `rrd`, without its zeros.
pub(super) fn take(rrd: &Rrd) -> Result<(u64, u32, Vec<u8>)> {
    let metadata = rrd.file().metadata().map_err(|error| Error::io("stating", rrd.path(), error))?;
    Ok((metadata.ino(), definition(rrd), shrink(rrd.header.live())))
}

/// Checksum of what stands before the live header.
fn definition(rrd: &Rrd) -> u32 {
    crc32c::crc32c(&rrd.header.bytes()[..rrd.header.layout().live_head])
}

/// Puts `image` back into the file called `name`; whether that was the file and older than it.
///
/// # Errors
/// What the system says.
pub(super) fn restore(base: &Base, name: &str, image: &Image<'_>) -> Result<bool> {
    let file = base.open(name, true)?;
    let inode = file.metadata().map_err(|error| Error::io("stating", name, error))?.ino();
    let rrd = Rrd::over(file, Path::new(name))?;
    let live = grow(image.live, rrd.header.live().len());
    let Some(live) = live.filter(|_| inode == image.inode && definition(&rrd) == image.definition) else {
        return Ok(false);
    };
    if live == rrd.header.live() {
        return Ok(true);
    }
    let at = rrd.header.layout().live_head as u64;
    // Synced, because the next checkpoint makes the image void.
    let written = rrd.file().write_all_at(&live, at).and_then(|()| rrd.file().sync_data());
    written.map_err(|error| Error::io("writing", name, error))?;
    Ok(true)
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
