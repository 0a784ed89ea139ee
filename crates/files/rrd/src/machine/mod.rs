//! The machine's resources for files: memory for their pages, the disk below a directory, its file system.

pub mod disk;
pub mod memory;
pub mod superblock;

pub use disk::Disk;
pub use memory::Memory;
pub use superblock::Superblock;

/// The number in a file of the kernel; `None` where there is no such file, or it says something else.
fn number_in(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
