//! What `stat` sees, in the kernel's form.

use std::time::UNIX_EPOCH;

use fuser::{FileAttr, FileType, INodeNo};

use crate::file::{Attributes, Kind};

/// Blocks as `du` counts them: no file here uses disk space.
const BLOCKS: u64 = 0;
const BLOCK_BYTES: u32 = 4_096;

pub(crate) fn attributes(seen: &Attributes, owner: (u32, u32)) -> FileAttr {
    let (kind, perm, nlink) = match seen.kind {
        Kind::Directory => (FileType::Directory, 0o555, 2),
        Kind::Value | Kind::Text | Kind::KernelText => (FileType::RegularFile, 0o444, 1),
        Kind::Link => (FileType::Symlink, 0o777, 1),
        // Every user may set rates; a budget limits what that costs.
        Kind::Control => (FileType::RegularFile, 0o666, 1),
    };
    let time = seen.modified;
    FileAttr {
        ino: INodeNo(seen.inode.number()),
        size: seen.size,
        blocks: BLOCKS,
        atime: time,
        mtime: time,
        // tar fails on a file whose ctime moves while tar reads it. A new value is not a new file.
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink,
        uid: owner.0,
        gid: owner.1,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}
