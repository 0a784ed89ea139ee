//! What the kernel keeps in memory for a file besides its pages: the sizes of its objects in Linux 6.18 on x86-64, as
//! `/proc/slabinfo` has them, each with its share of the pages of its slab.

/// The inode of a file of ext4 (1,128 bytes, 14 in four pages).
pub(crate) const EXT4_INODE: u64 = 1_170;
/// A name (dentry: 192 bytes, 21 in a page).
pub(crate) const NAME: u64 = 195;
/// A node of the tree of a file's pages (584 bytes, 14 in two pages).
pub(crate) const NODE: u64 = 585;
