//! What memory holds: how many pages of files fit beside the kernel's own records of them.

use khz_rrd::Result;
use khz_rrd::error::refused;

use crate::kernel;

/// Bytes that the kernel keeps in memory for each open or recently used file of ext4: its inode.
pub const INODE: u64 = kernel::EXT4_INODE;
/// Its name.
pub const NAME: u64 = kernel::NAME;
/// The tree node with its pages, and where its blocks are (an extent's status: 40 bytes).
pub const TREE: u64 = kernel::NODE + 41;
/// Bytes that the kernel keeps for each page of a file in memory (buffer_head: 104 bytes, 39 in a page).
pub const BUFFER: u64 = 105;

/// Bytes for each file that hold no page of it.
pub const FILE: u64 = INODE + NAME + TREE;

/// How many pages of `page` bytes fit `memory` with the records of `files` files, for each file.
///
/// # Errors
/// Not even a page fits each file's records.
pub fn pages_a_file(memory: u64, files: u64, page: u64) -> Result<f64> {
    if files == 0 {
        return refused("0 files: there is nothing to simulate; --files N");
    }
    let records = files.saturating_mul(FILE);
    let each = (memory.saturating_sub(records)) as f64 / (page + BUFFER) as f64 / files as f64;
    if each < 1.0 {
        return refused(format!(
            "{memory} bytes of memory are too few for {files} files: their inodes, names and trees alone take {records} bytes \
             ({INODE} + {NAME} + {TREE} each), and a page of each {} more",
            files.saturating_mul(page + BUFFER)
        ));
    }
    Ok(each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_records_are_taken_off_the_memory() {
        let each = pages_a_file(16 << 30, 320_000, 4_096).unwrap();
        assert!((12.3..12.4).contains(&each), "{each}");
    }

    #[test]
    fn memory_smaller_than_the_inodes_is_refused_with_how_much_they_take() {
        let told = |memory, files| pages_a_file(memory, files, 4_096).unwrap_err().to_string();
        assert!(told(1 << 30, 1_000_000).contains("take 1991000000 bytes"), "{}", told(1 << 30, 1_000_000));
        assert!(told(3 << 30, 1_000_000).contains("too few"));
        assert!(told(1 << 30, 0).starts_with("0 files"));
    }
}
