//! The files of a simulated machine: their sizes, their metadata, and the number of each page.

use khz_rrd::Result;
use khz_rrd::error::refused;

/// Pages of a simulation. Each takes up to 21 bytes, and two simulations run at once.
pub const PAGES_MAX: u64 = 1 << 25;
/// Blocks whose places an inode of ext2 and ext3 has itself.
const DIRECT: u32 = 12;
/// Places in a block of them (4 KiB, 4 bytes each).
const PLACES: u32 = 1_024;

/// Where a file system notes the places of a file's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// In the inode: ext4 with at most four extents, XFS.
    Inline,
    /// In a block for each file: ext4 with more extents.
    Block,
    /// In indirect blocks: ext2, ext3.
    Indirect,
}

impl Map {
    /// The name of each.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Inline, "inline"), (Self::Block, "block"), (Self::Indirect, "indirect")];

    /// Blocks for a file of `pages`.
    fn blocks(self, pages: u32) -> u32 {
        match self {
            Self::Inline => 0,
            Self::Block => 1,
            Self::Indirect if pages <= DIRECT => 0,
            Self::Indirect if pages <= DIRECT + PLACES => 1,
            // The second one has the places of the others.
            Self::Indirect => 2 + (pages - DIRECT - PLACES).div_ceil(PLACES),
        }
    }

    /// The blocks that say where page `page` of a file is.
    fn of(self, page: u32) -> [Option<u32>; 2] {
        match self {
            Self::Inline => [None, None],
            Self::Block => [Some(0), None],
            Self::Indirect if page < DIRECT => [None, None],
            Self::Indirect if page < DIRECT + PLACES => [Some(0), None],
            Self::Indirect => [Some(1), Some(2 + (page - DIRECT - PLACES) / PLACES)],
        }
    }
}

/// What all files of the machine have in common.
#[derive(Debug, Clone, Copy)]
pub struct Fleet {
    /// Files that are simulated.
    pub files: u32,
    /// Pages of the largest of them.
    pub pages: u32,
    /// Where their blocks are noted.
    pub map: Map,
    /// Inodes in a page of the inode table.
    pub inodes_per_page: u32,
    /// Pages of the inode table that are read together.
    pub inode_ahead: u32,
}

impl Fleet {
    /// How many pages all of them have.
    ///
    /// # Errors
    /// More than [`PAGES_MAX`].
    pub fn total(&self) -> Result<u32> {
        let total =
            u64::from(self.files) * self.stride() + u64::from(self.files.div_ceil(self.inodes_per_page));
        match u32::try_from(total) {
            Ok(small) if total <= PAGES_MAX => Ok(small),
            _ => refused(format!(
                "{} files of {} pages are {total} pages; a simulation has at most {PAGES_MAX}: simulate fewer with \
                 --sample (what counts is the pages for each file)",
                self.files, self.pages
            )),
        }
    }

    fn stride(&self) -> u64 {
        u64::from(self.pages) + u64::from(self.map.blocks(self.pages))
    }

    /// The number of page `page` of `file`.
    pub fn data(&self, file: u32, page: u32) -> u32 {
        file * self.stride() as u32 + page
    }

    /// The numbers of the blocks that say where page `page` of `file` is.
    pub fn map_of(&self, file: u32, page: u32) -> [Option<u32>; 2] {
        let first = self.data(file, self.pages);
        self.map.of(page).map(|block| block.map(|block| first + block))
    }

    /// The number of the page with the inode of `file`.
    pub fn inode(&self, file: u32) -> u32 {
        self.files * self.stride() as u32 + file / self.inodes_per_page
    }

    /// The pages of the inode table that are read with `page` of it.
    pub fn inodes_around(&self, page: u32) -> std::ops::Range<u32> {
        let table = self.inode(0);
        let (first, ahead) = (page - table, self.inode_ahead.max(1));
        let begin = first - first % ahead;
        table + begin..(table + begin + ahead).min(self.inode(self.files - 1) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(files: u32, pages: u32, map: Map) -> Fleet {
        Fleet { files, pages, map, inodes_per_page: 16, inode_ahead: 4 }
    }

    #[test]
    fn each_page_has_a_number_of_its_own() {
        for (map, pages) in [(Map::Inline, 24), (Map::Block, 24), (Map::Indirect, 3_000)] {
            let fleet = fleet(40, pages, map);
            let mut seen = vec![false; fleet.total().unwrap() as usize];
            for file in 0..40 {
                (0..pages).for_each(|page| {
                    assert!(!std::mem::replace(&mut seen[fleet.data(file, page) as usize], true));
                    fleet.map_of(file, page).iter().flatten().for_each(|block| {
                        assert!(*block > fleet.data(file, pages - 1) && *block < fleet.inode(0));
                    });
                });
                assert!(file == 0 || fleet.inode(file) - fleet.inode(file - 1) == u32::from(file % 16 == 0));
            }
            assert_eq!(fleet.inode(39) + 1, fleet.total().unwrap());
        }
    }

    #[test]
    fn indirect_blocks_are_counted_as_ext3_has_them() {
        let blocks = |pages| Map::Indirect.blocks(pages);
        assert_eq!([12, 13, 1_036, 1_037, 2_060, 2_061].map(blocks), [0, 1, 1, 3, 3, 4]);
    }

    #[test]
    fn pages_of_the_inode_table_are_read_in_groups() {
        let fleet = fleet(100, 3, Map::Inline);
        let table = fleet.inode(0);
        assert_eq!(fleet.inodes_around(table + 1), table..table + 4);
        // 100 inodes are on 7 pages.
        assert_eq!(fleet.inodes_around(table + 6), table + 4..table + 7);
    }

    #[test]
    fn more_pages_than_the_limit_are_refused_with_what_to_do() {
        let told = fleet(1_000_000, 2_000, Map::Inline).total().unwrap_err().to_string();
        assert!(told.contains("--sample") && told.contains(&PAGES_MAX.to_string()), "{told}");
    }
}
