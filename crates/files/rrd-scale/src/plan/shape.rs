//! A layout as the model sees it: which rows are written how often, and where they lie in the file.

use khz_rrd::error::{Result, refused};
use khz_rrd::header::Definition;
use khz_rrd::layout::{Layout, VALUE};
use khz_rrd::rra::Function;

use super::named;

/// Archives of a file. The model compares each with each, and no known layout has more than a few dozen.
pub const ARCHIVES_MAX: usize = 200;
/// Data sources of a file: a header of hundreds of MiB is a typing error.
pub const SOURCES_MAX: usize = 1 << 20;

/// A layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Seconds of a primary point.
    pub step: u64,
    /// Data sources.
    pub sources: u64,
    /// Bytes of the header.
    pub header: u64,
    /// The archives, as they lie in the file.
    pub archives: Vec<Rows>,
    /// Bytes of the file.
    pub length: u64,
}

/// An archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// What it keeps.
    pub function: Function,
    /// Primary points of a row.
    pub points: u64,
    /// Rows.
    pub rows: u64,
    /// Offset of its first row.
    pub start: u64,
}

impl Shape {
    /// The shape of a definition.
    ///
    /// # Errors
    /// A layout that no file can have.
    pub fn of(definition: &Definition) -> Result<Self> {
        let (sources, archives) = (definition.sources.len(), definition.archives.len());
        if archives > ARCHIVES_MAX || sources > SOURCES_MAX {
            return refused(format!(
                "a layout of {sources} data sources and {archives} archives: give at most {SOURCES_MAX} and \
                 {ARCHIVES_MAX}"
            ));
        }
        let limit = i64::MAX as u64;
        let layout = Layout::new(definition.version, sources as u64, archives as u64, limit);
        let header = layout.map_or(0, |layout| layout.header_len as u64);
        let row = (sources * VALUE) as u64;
        let mut end = header;
        let mut placed = Vec::with_capacity(archives);
        for archive in &definition.archives {
            placed.push(Rows {
                function: archive.function,
                points: archive.points,
                rows: archive.rows,
                start: end,
            });
            let next = archive.rows.checked_mul(row).and_then(|bytes| bytes.checked_add(end));
            let Some(next) = next.filter(|next| *next <= limit) else {
                return refused(
                    "a file of this layout is larger than any file can be: give its archives fewer rows",
                );
            };
            end = next;
        }
        Ok(Self { step: definition.step, sources: sources as u64, header, archives: placed, length: end })
    }

    /// Bytes of a row.
    pub fn row(&self) -> u64 {
        self.sources * VALUE as u64
    }

    /// Bytes behind an archive's last row.
    pub fn end(&self, rows: &Rows) -> u64 {
        rows.start + rows.rows * self.row()
    }

    /// Seconds between two rows of an archive.
    pub fn seconds(&self, rows: &Rows) -> u64 {
        self.step.saturating_mul(rows.points)
    }

    /// Pages of the file.
    pub fn pages(&self, page: u64) -> u64 {
        self.length.div_ceil(page)
    }

    /// Pages of the header; the last one may have rows, too.
    pub fn header_pages(&self, page: u64) -> u64 {
        self.header.div_ceil(page)
    }

    /// Whether it is MRTG's classic layout, to which the paper's numbers belong.
    pub fn is_classic(&self) -> bool {
        let mut found: Vec<_> = self.archives.iter().map(|rows| (rows.points, rows.rows)).collect();
        found.sort_unstable();
        let twice: Vec<_> = named::MRTG.into_iter().flat_map(|rows| [rows, rows]).collect();
        self.step == 300 && self.sources == 2 && found == twice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_layout_has_the_measured_size() {
        let shape = named::shape("mrtg").unwrap();
        assert_eq!((shape.header, shape.length, shape.row()), (2912, 94_816, 16));
        assert_eq!((shape.pages(4096), shape.header_pages(4096)), (24, 1));
        assert!(shape.is_classic());
        let other = named::shape("munin").unwrap();
        assert!(!other.is_classic());
    }

    #[test]
    fn a_file_larger_than_a_file_can_be_is_refused() {
        let mut definition = named::definition("mrtg").unwrap();
        for archive in &mut definition.archives {
            archive.rows = 1 << 58;
        }
        assert!(Shape::of(&definition).unwrap_err().to_string().contains("fewer rows"));
        definition.archives = vec![definition.archives[0].clone(); ARCHIVES_MAX + 1];
        assert!(Shape::of(&definition).unwrap_err().to_string().contains("201 archives"));
    }
}
