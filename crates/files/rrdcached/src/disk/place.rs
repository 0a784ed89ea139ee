//! Where a file lies on its disk, so that files can be written in that order; reads no content.

#![allow(unsafe_code, reason = "rustix has no FS_IOC_FIEMAP")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// `FS_IOC_FIEMAP` of linux/fs.h.
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
/// `FIEMAP_EXTENT_UNKNOWN`, `DELALLOC`, `DATA_INLINE`: the file has no place.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x200;
/// Bytes of a block: no file is smaller.
const UNIT: u64 = 4096;

/// linux/fiemap.h with room for one extent.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extent: Extent,
}

#[repr(C)]
#[derive(Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// The file's first block; its inode, where the file system has no FIEMAP. Both grow along the disk.
pub fn place(file: &File) -> u32 {
    let inode = || file.metadata().map_or(0, |metadata| metadata.ino());
    u32::try_from(first_block(file).unwrap_or_else(inode)).unwrap_or(u32::MAX)
}

fn first_block(file: &File) -> Option<u64> {
    let mut map = Fiemap { length: u64::MAX, count: 1, ..Fiemap::default() };
    // SAFETY: `map` has the layout of linux/fiemap.h, with room for the one extent it announces, and lives
    // through the call; rustix has no FIEMAP.
    let failed = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) };
    let found = failed == 0 && map.mapped == 1 && map.extent.flags & NO_PLACE == 0;
    found.then_some(map.extent.physical / UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_place() {
        let path = std::env::temp_dir().join(format!("khz-rrd-place-{}", std::process::id()));
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        assert_ne!(place(&file), 0);
        // Where there is no FIEMAP at all.
        assert_eq!(first_block(&File::open("/proc/self/status").unwrap()), None);
        std::fs::remove_file(&path).unwrap();
    }
}
