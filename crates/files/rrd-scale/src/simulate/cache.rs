//! What a page cache is to the simulation: pages come in, are used, changed and evicted. Pages are numbers; whose they are,
//! the cache does not know.

/// Why a page is brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bring {
    /// It is read, or mapped.
    ToRead,
    /// A part of it is written with pwrite(2).
    ToOverwrite,
}

/// How a page is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Linux notes it: a read(2), the end of a mapping that is not `MADV_RANDOM`, a block of metadata.
    Noted,
    /// Linux does not: a pwrite(2), a mapping with `MADV_RANDOM`.
    Unnoted,
    /// Linux notes it, though nobody used it: the kernel has mapped it with a page around it.
    Around,
}

/// What a cache has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changed pages written back.
    pub page_outs: u64,
    /// Pages evicted.
    pub evicted: u64,
    /// Pages brought in again so soon that they went to the active list at once.
    pub refaults_activated: u64,
}

/// A page cache with room for a number of pages.
pub trait Cache {
    /// Whether `page` is in memory.
    fn has(&self, page: u32) -> bool;
    /// Brings in `page`, which is not there; evicts others for it.
    fn bring(&mut self, page: u32, why: Bring);
    /// Uses `page`, which is there.
    fn touch(&mut self, page: u32, how: Use);
    /// Changes `page`, which is there, at the time `now` in seconds.
    fn change(&mut self, page: u32, now: u32);
    /// Writes back what is due at the time `now`.
    fn write_back(&mut self, now: u32);
    /// What was counted since the beginning.
    fn counts(&self) -> Counts;
}
