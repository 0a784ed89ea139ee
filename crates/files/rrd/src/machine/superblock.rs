//! The superblock of ext2, ext3 and ext4: sizes and features; pure, except for reading it off the disk.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use crate::error::os_text;
use crate::layout;
use crate::text;

/// Where it is on the disk, and how many of its bytes are read.
const OFFSET: u64 = 1024;
const LENGTH: usize = 1024;
/// Its mark, and where that is in it.
const MAGIC: u16 = 0xef53;
const MAGIC_AT: usize = 0x38;
/// `s_log_block_size`: blocks have 1,024 bytes shifted by this.
const BLOCK_AT: usize = 0x18;
/// The largest such shift: 64 KiB.
const SHIFT_MAX: u32 = 6;
/// `s_rev_level`: before 1, inodes have 128 bytes and there are no features.
const REVISION_AT: usize = 0x4c;
const INODE_AT: usize = 0x58;
const OLD_INODE: u64 = 128;
const COMPATIBLE_AT: usize = 0x5c;
const INCOMPATIBLE_AT: usize = 0x60;
/// `COMPAT_DIR_INDEX` and `INCOMPAT_EXTENTS`.
const DIR_INDEX: u32 = 0x20;
const EXTENTS: u32 = 0x40;

/// What a superblock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes of a block.
    pub block: u64,
    /// Bytes of an inode on the disk.
    pub inode: u64,
    /// Whether a name in a directory is found by its hash, and not by reading the directory.
    pub dir_index: bool,
    /// Whether files have extents, and not a block map.
    pub extents: bool,
}

/// The superblock in these bytes; `None` where they are none.
pub fn parse(bytes: &[u8]) -> Option<Superblock> {
    let word = |at: usize| bytes.get(at..at + 2).map(|part| u16::from_le_bytes([part[0], part[1]]));
    let long = |at: usize| Some(layout::u64_at(bytes, at) as u32).filter(|_| at + 8 <= bytes.len());
    if word(MAGIC_AT)? != MAGIC {
        return None;
    }
    let shift = long(BLOCK_AT).filter(|shift| *shift <= SHIFT_MAX)?;
    let has_features = long(REVISION_AT)? > 0;
    let features = |at| long(at).map(|features| if has_features { features } else { 0 });
    Some(Superblock {
        block: 1024 << shift,
        inode: if has_features { u64::from(word(INODE_AT)?) } else { OLD_INODE },
        dir_index: features(COMPATIBLE_AT)? & DIR_INDEX != 0,
        extents: features(INCOMPATIBLE_AT)? & EXTENTS != 0,
    })
}

/// Reads the superblock of the disk with this number; `source` is the disk's name in the list of mounts.
///
/// # Errors
/// Why it cannot be read.
pub fn of_disk(number: (u32, u32), source: &str) -> Result<Superblock, String> {
    let by_number = PathBuf::from(format!("/dev/block/{}:{}", number.0, number.1));
    let mut why = format!("no file in /dev is the disk {}:{}", number.0, number.1);
    for path in [by_number, text::path(source).into_owned()] {
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        let found = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        if found != number {
            continue;
        }
        let mut bytes = [0; LENGTH];
        let read = File::open(&path).and_then(|disk| disk.read_exact_at(&mut bytes, OFFSET));
        let name = text::name(&path);
        match read.map(|()| parse(&bytes)) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => why = format!("{name} has no superblock of ext4"),
            Err(error) => why = format!("reading {name}: {}", os_text(&error)),
        }
    }
    Err(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What mke2fs of Debian 12 writes: blocks of 4,096 bytes, inodes of 256, dir_index (0x38 = resize_inode, dir_index,
    /// ext_attr + has_journal 0x4), extents (0x2c2).
    fn usual() -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        bytes[BLOCK_AT] = 2;
        bytes[MAGIC_AT..MAGIC_AT + 2].copy_from_slice(&[0x53, 0xef]);
        bytes[REVISION_AT] = 1;
        bytes[INODE_AT + 1] = 1;
        bytes[COMPATIBLE_AT] = 0x3c;
        bytes[INCOMPATIBLE_AT..INCOMPATIBLE_AT + 2].copy_from_slice(&[0xc2, 0x02]);
        bytes
    }

    #[test]
    fn sizes_and_features_are_read() {
        let found = Superblock { block: 4096, inode: 256, dir_index: true, extents: true };
        assert_eq!(parse(&usual()), Some(found));
        let mut without = usual();
        without[COMPATIBLE_AT] = 0x1c;
        without[INCOMPATIBLE_AT] = 0x82;
        assert_eq!(parse(&without), Some(Superblock { dir_index: false, extents: false, ..found }));
    }

    #[test]
    fn a_superblock_of_the_first_revision_has_no_features() {
        let mut bytes = usual();
        bytes[REVISION_AT] = 0;
        let found = Superblock { block: 4096, inode: 128, dir_index: false, extents: false };
        assert_eq!(parse(&bytes), Some(found));
    }

    #[test]
    fn other_bytes_are_no_superblock() {
        let mut wrong = usual();
        wrong[MAGIC_AT] = 0;
        let mut absurd = usual();
        absurd[BLOCK_AT] = 40;
        for bytes in [wrong, absurd, vec![], usual()[..0x60].to_vec()] {
            assert_eq!(parse(&bytes), None);
        }
    }

    #[test]
    fn what_mke2fs_writes_is_read() {
        let path = std::env::temp_dir().join(format!("khz-rrd-superblock-{}", std::process::id()));
        for (features, dir_index, extents) in
            [("dir_index,extent", true, true), ("^dir_index", false, true), ("^extent,^64bit", true, false)]
        {
            File::create(&path).unwrap().set_len(64 << 20).unwrap();
            // The directory of such programs is in root's path only.
            let mke2fs = ["mke2fs", "/sbin/mke2fs", "/usr/sbin/mke2fs"].iter().find_map(|program| {
                let options = ["-q", "-t", "ext4", "-b", "4096", "-I", "256", "-O", features];
                std::process::Command::new(program).args(options).arg(&path).status().ok()
            });
            let Some(status) = mke2fs else {
                std::fs::remove_file(&path).unwrap();
                return khz_skip::skip("there is no mke2fs: install Debian's package `e2fsprogs`");
            };
            assert!(status.success());
            let mut bytes = vec![0; LENGTH];
            File::open(&path).unwrap().read_exact_at(&mut bytes, OFFSET).unwrap();
            let found = Superblock { block: 4096, inode: 256, dir_index, extents };
            assert_eq!(parse(&bytes), Some(found), "{features}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_superblock_or_none(bytes: Vec<u8>, shift: u8) {
            let _ = parse(&bytes);
            let mut marked = usual();
            marked[BLOCK_AT] = shift;
            marked.truncate(bytes.len().max(0x50));
            let _ = parse(&marked);
        }
    }

    #[test]
    fn a_disk_that_is_not_there_has_a_reason() {
        let why = of_disk((4095, 1), "/dev/null").unwrap_err();
        assert_eq!(why, "no file in /dev is the disk 4095:1");
    }
}
