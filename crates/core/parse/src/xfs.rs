//! `/sys/fs/xfs/*/stats/stats`: the work of each mounted XFS: extents, its trees, directories, inodes, calls. A line is a kind of
//! work with columns of numbers.

use khz_model::Unit;

use crate::entry::{Entry, counter};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "xfs",
    path: "sys/fs/xfs",
    pieces: Pieces::Survey { subject: Subject::Tree("xfs"), captured: "survey/xfs" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; COUNTS.len()] = Group {
    label: "device",
    kind: "xfs",
    branch: Some(Branch { folders: "sys/fs/xfs/*", name: &[Part::Captured(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
}
.each(&COUNTS);

/// A row for each counter: the end of its name, its place in the file, the middle of node_exporter's name, help.
macro_rules! counts {
    ($($name:literal, $place:literal, $family:literal, $help:literal;)*) => {
        [$(counter(concat!("xfs.", $name), concat!("stats/stats: ", $place), Unit::Count, $help)
            .every(SURVEY_PERIOD)
            .exposed(concat!("node_xfs_", $family, "_total"), &[])),*]
    };
}

static COUNTS: [Entry; 39] = counts! {
    "extents_allocated", "extent_alloc 1 of 4", "extent_allocation_extents_allocated", "Extents that were allocated.";
    "blocks_allocated", "extent_alloc 2 of 4", "extent_allocation_blocks_allocated", "Blocks that were allocated.";
    "extents_freed", "extent_alloc 3 of 4", "extent_allocation_extents_freed", "Extents that were freed.";
    "blocks_freed", "extent_alloc 4 of 4", "extent_allocation_blocks_freed", "Blocks that were freed.";
    "allocation_lookups", "abt 1 of 4", "allocation_btree_lookups", "Searches in the trees of free space.";
    "allocation_compares", "abt 2 of 4", "allocation_btree_compares", "Comparisons in the trees of free space.";
    "allocation_inserts", "abt 3 of 4", "allocation_btree_records_inserted", "Records put into the trees of free space.";
    "allocation_deletes", "abt 4 of 4", "allocation_btree_records_deleted", "Records taken out of the trees of free space.";
    "map_reads", "blk_map 1 of 7", "block_mapping_reads", "Times that the blocks of a file were looked up to read.";
    "map_writes", "blk_map 2 of 7", "block_mapping_writes", "Times that the blocks of a file were looked up to write.";
    "map_unmaps", "blk_map 3 of 7", "block_mapping_unmaps", "Times that blocks of a file were given up.";
    "map_inserts", "blk_map 4 of 7", "block_mapping_extent_list_insertions", "Extents put into lists of files.";
    "map_deletes", "blk_map 5 of 7", "block_mapping_extent_list_deletions", "Extents taken out of lists of files.";
    "map_lookups", "blk_map 6 of 7", "block_mapping_extent_list_lookups", "Searches in lists of extents.";
    "map_compares", "blk_map 7 of 7", "block_mapping_extent_list_compares", "Comparisons in lists of extents.";
    "map_tree_lookups", "bmbt 1 of 4", "block_map_btree_lookups", "Searches in trees of extents.";
    "map_tree_compares", "bmbt 2 of 4", "block_map_btree_compares", "Comparisons in trees of extents.";
    "map_tree_inserts", "bmbt 3 of 4", "block_map_btree_records_inserted", "Records put into trees of extents.";
    "map_tree_deletes", "bmbt 4 of 4", "block_map_btree_records_deleted", "Records taken out of trees of extents.";
    "directory_lookups", "dir 1 of 4", "directory_operation_lookup", "Names that were looked up in directories.";
    "directory_creates", "dir 2 of 4", "directory_operation_create", "Names that were put into directories.";
    "directory_removes", "dir 3 of 4", "directory_operation_remove", "Names that were removed from directories.";
    "directory_reads", "dir 4 of 4", "directory_operation_getdents", "Times that directories were listed.";
    "inode_attempts", "ig 1 of 7", "inode_operation_attempts", "Inodes that were wanted of the cache.";
    "inode_found", "ig 2 of 7", "inode_operation_found", "Inodes that were in the cache.";
    "inode_recycled", "ig 3 of 7", "inode_operation_recycled", "Inodes that were being removed from the cache when they were wanted.";
    "inode_missed", "ig 4 of 7", "inode_operation_missed", "Inodes that were not in the cache.";
    "inode_duplicates", "ig 5 of 7", "inode_operation_duplicates", "Inodes that others had put into the cache meanwhile.";
    "inode_reclaims", "ig 6 of 7", "inode_operation_reclaims", "Inodes that were removed from the cache.";
    "inode_attribute_changes", "ig 7 of 7", "inode_operation_attribute_changes", "Inodes whose attributes were changed.";
    "write_calls", "rw 1 of 2", "write_calls", "Calls that write.";
    "read_calls", "rw 2 of 2", "read_calls", "Calls that read.";
    "vnode_active", "vnodes 1 of 8", "vnode_active", "Files in memory that are in use.";
    "vnode_allocated", "vnodes 2 of 8", "vnode_allocate", "Files for which memory was allocated.";
    "vnode_gets", "vnodes 3 of 8", "vnode_get", "Times that a file in memory was taken.";
    "vnode_holds", "vnodes 4 of 8", "vnode_hold", "Times that a file in memory was held.";
    "vnode_releases", "vnodes 5 of 8", "vnode_release", "Times that a file in memory was let go.";
    "vnode_reclaims", "vnodes 6 of 8", "vnode_reclaim", "Times that the memory of a file was taken back.";
    "vnode_removes", "vnodes 7 of 8", "vnode_remove", "Files that were removed from memory.";
};
