//! What a file system and the kernel need of memory for each file, besides its pages.

use khz_rrd::error::{Result, refused};
use khz_rrd::machine::{Disk, Superblock, superblock};

use crate::kernel;

/// Where a file's blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// In extents: the first four are in the inode.
    Extents,
    /// In a map of blocks: the first twelve are in the inode.
    Indirect,
}

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its type.
    pub name: &'static str,
    /// Bytes of a block.
    pub block: u64,
    /// Bytes of an inode on the disk, which has to be read to open the file.
    pub inode: u64,
    /// How it finds a file's blocks.
    pub map: Map,
    /// What the kernel's objects take.
    pub objects: Objects,
    /// Whether block, inode and map were read from the disk; otherwise they are the usual ones.
    pub is_read: bool,
}

/// Bytes of memory that the kernel's objects take, with their share of what is left over in their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objects {
    /// An inode.
    pub inode: u64,
    /// A name in a directory.
    pub dentry: u64,
    /// A node of the tree of a file's pages, with 64 places.
    pub node: u64,
    /// What each page in memory takes besides itself: a buffer head, where the file system has them.
    pub page: u64,
    /// Whether the kernel has said so itself; otherwise they are those of Linux 6.18 on x86-64.
    pub is_read: bool,
}

/// A type of file system: its name, block, inode, map, the kernel's name of its inodes and their size, buffer heads.
type Kind = (&'static str, u64, u64, Map, &'static str, u64, u64);

/// The kernel's ext4 serves all three types; the sizes are those of Linux 6.18 (/proc/slabinfo).
const KINDS: [Kind; 5] = [
    ("ext4", 4096, 256, Map::Extents, "ext4_inode_cache", kernel::EXT4_INODE, 104),
    ("ext3", 4096, 256, Map::Indirect, "ext4_inode_cache", kernel::EXT4_INODE, 104),
    ("ext2", 4096, 256, Map::Indirect, "ext4_inode_cache", kernel::EXT4_INODE, 104),
    ("xfs", 4096, 512, Map::Extents, "xfs_inode", 1024, 0),
    ("btrfs", 4096, 160, Map::Extents, "btrfs_inode", 1024, 0),
];
/// Places of such a node.
const PLACES: u64 = 64;
/// Blocks in an inode with a block map.
const DIRECT: u64 = 12;
/// Bytes of a block's number in a block map.
const NUMBER: u64 = 4;

/// The names, for messages.
pub fn names() -> String {
    KINDS.map(|(name, ..)| name).join(", ")
}

/// The usual file system of type `name`; `slabs` is the text of /proc/slabinfo, if it can be read.
///
/// # Errors
/// The type is not known.
pub fn usual(name: &str, slabs: &str) -> Result<FileSystem> {
    let Some((name, block, inode, map, slab, object, page)) =
        KINDS.into_iter().find(|(known, ..)| *known == name)
    else {
        return refused(format!(
            "the file system '{name}' is not one whose inodes are known: give the one that is most like it, \
             --file-system with one of {}",
            names()
        ));
    };
    let read = [slab, "dentry", "radix_tree_node"].map(|name| slab_share(slabs, name));
    let objects = Objects {
        inode: read[0].unwrap_or(object),
        dentry: read[1].unwrap_or(kernel::NAME),
        node: read[2].unwrap_or(kernel::NODE),
        page,
        is_read: read.iter().all(Option::is_some),
    };
    Ok(FileSystem { name, block, inode, map, objects, is_read: false })
}

/// The file system of a disk.
///
/// # Errors
/// Its type is not known.
pub fn of(disk: &Disk, slabs: &str) -> Result<FileSystem> {
    let Some(mount) = &disk.mount else {
        return refused(format!(
            "the list of mounts does not have the disk {}:{}, so its file system is not known: give --file-system with \
             one of {}",
            disk.number.0,
            disk.number.1,
            names()
        ));
    };
    let mut system = usual(&mount.kind, slabs)?;
    if system.name.starts_with("ext")
        && let Ok(found) = superblock::of_disk(disk.number, &mount.source)
    {
        system.take(found);
    }
    Ok(system)
}

impl FileSystem {
    /// Takes what a superblock says.
    fn take(&mut self, found: Superblock) {
        (self.block, self.inode, self.is_read) = (found.block, found.inode, true);
        self.map = if found.extents { Map::Extents } else { Map::Indirect };
    }

    /// Bytes that a file takes besides its pages: inode, name, the tree of its pages, and the blocks of the disk that say
    /// where it is. `length` are its bytes, of which `hot` pages of `page` bytes are in memory.
    pub fn a_file(&self, length: u64, hot: f64, page: u64) -> f64 {
        let objects = self.objects;
        (objects.inode + objects.dentry + self.inode) as f64
            + nodes(length.div_ceil(page), hot) * objects.node as f64
            + self.map_blocks(length, hot) * self.block as f64
    }

    /// Blocks of the map that are in memory.
    pub fn map_blocks(&self, length: u64, hot: f64) -> f64 {
        let blocks = length.div_ceil(self.block);
        if self.map == Map::Extents || blocks <= DIRECT {
            return 0.0;
        }
        let of_a_block = self.block / NUMBER;
        let leaves = (blocks - DIRECT).div_ceil(of_a_block);
        // Each hot page needs the block that has its number; beyond the first such block others lead to them.
        let above = u8::from(leaves > 1) + u8::from(leaves > 1 + of_a_block);
        (leaves as f64).min(hot.max(1.0)) + f64::from(above)
    }

    /// Bytes that a page in memory takes.
    pub fn a_page(&self, page: u64) -> f64 {
        (page + self.objects.page * (page / self.block).max(1)) as f64
    }
}

/// Nodes of the tree over the pages of a file of which `hot` are in memory.
fn nodes(pages: u64, hot: f64) -> f64 {
    let mut level = pages.div_ceil(PLACES);
    let mut sum = 0.0;
    loop {
        sum += (level as f64).min(hot.max(1.0));
        if level <= 1 {
            return sum;
        }
        level = level.div_ceil(PLACES);
    }
}

/// The bytes of an object of the slab `name`, with its share of the pages of a slab.
fn slab_share(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    let mut words = line.split_whitespace().skip(3).map(str::parse::<u64>);
    let (_size, objects, pages) = (words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?);
    (pages * rustix::param::page_size() as u64).checked_div(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_extents_takes_inode_name_and_a_node() {
        let system = usual("ext4", "").unwrap();
        assert_eq!(system.a_file(94_816, 8.0, 4096), (1170 + 195 + 256 + 585) as f64);
        assert_eq!(system.a_page(4096), 4200.0);
        assert!(!system.is_read && !system.objects.is_read);
    }

    #[test]
    fn a_block_map_takes_a_block_more() {
        let system = usual("ext3", "").unwrap();
        assert_eq!(system.map_blocks(94_816, 8.0), 1.0);
        assert_eq!(system.map_blocks(12 * 4096, 8.0), 0.0);
        // 8.2 MB are 2,002 blocks: two blocks of numbers, and the one that leads to the second.
        assert_eq!(system.map_blocks(8_200_000, 8.0), 3.0);
        assert_eq!(usual("ext4", "").unwrap().map_blocks(8_200_000, 8.0), 0.0);
    }

    #[test]
    fn the_tree_of_a_large_file_has_several_nodes() {
        assert_eq!([nodes(24, 8.0), nodes(64, 8.0), nodes(65, 8.0), nodes(2002, 8.0)], [1.0, 1.0, 3.0, 9.0]);
        assert_eq!(nodes(2002, 100.0), 33.0);
        assert_eq!(nodes(u64::MAX, 1.0), 11.0);
    }

    #[test]
    fn the_kernel_is_asked_for_the_size_of_its_objects() {
        let slabs = "slabinfo - version: 2.1\n\
                     ext4_inode_cache  212094 237496   1128   14    4 : tunables    0    0    0\n\
                     dentry            364650 437304    192   21    1 : tunables    0    0    0\n\
                     radix_tree_node   176609 220493    584   14    2 : tunables    0    0    0\n";
        let objects = usual("ext4", slabs).unwrap().objects;
        if rustix::param::page_size() == 4096 {
            let read = Objects { inode: 1170, dentry: 195, node: 585, page: 104, is_read: true };
            assert_eq!(objects, read);
        }
        assert_eq!(slab_share("ext4_inode_cache 1 2\n", "ext4_inode_cache"), None);
        assert_eq!(slab_share("dentry 0 0 192 0 1 :\n", "dentry"), None);
    }

    #[test]
    fn a_file_system_that_is_not_known_is_named_with_those_that_are() {
        let error = usual("overlay", "").unwrap_err().to_string();
        assert!(error.contains("'overlay'") && error.contains("--file-system"), "{error}");
        assert!(error.contains("ext4, ext3, ext2, xfs, btrfs"), "{error}");
        let error = of(&Disk::default(), "").unwrap_err().to_string();
        assert!(error.contains("--file-system"), "{error}");
    }

    #[test]
    fn the_superblock_decides_block_inode_and_map() {
        let mut system = usual("ext4", "").unwrap();
        system.take(Superblock { block: 1024, inode: 128, dir_index: true, extents: false });
        assert_eq!(
            (system.block, system.inode, system.map, system.is_read),
            (1024, 128, Map::Indirect, true)
        );
        assert_eq!(system.a_page(4096), (4096 + 4 * 104) as f64);
    }
}
