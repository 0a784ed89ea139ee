//! Segments of the log that earlier runs left: finds and reads them; decides nothing about their records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Segment;
use super::record::{self, Damage, Records};
use khz_rrd::error::{Error, Result};
use khz_rrd::text;

/// Segments left by earlier runs, to be replayed.
#[derive(Debug)]
pub struct Left {
    segments: BTreeMap<Segment, PathBuf>,
}

impl Left {
    /// The segments in `directory`, and the bytes of each.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn find(directory: &Path) -> Result<(Self, BTreeMap<Segment, u64>)> {
        let failed = |action| move |error| Error::io(action, directory, error);
        let (mut segments, mut sizes) = (BTreeMap::new(), BTreeMap::new());
        for entry in std::fs::read_dir(directory).map_err(failed("reading"))? {
            let entry = entry.map_err(failed("reading"))?;
            if let Some(segment) = Segment::of_name(&entry.file_name()) {
                segments.insert(segment, entry.path());
                sizes.insert(segment, entry.metadata().map_err(failed("stating"))?.len());
            }
        }
        Ok((Self { segments }, sizes))
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Gives each segment and its records to `take`, oldest first; returns what was damaged, in words.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn replay(&self, mut take: impl FnMut(Segment, &mut Records<'_>)) -> Result<Vec<String>> {
        let mut damage = vec![];
        for (segment, path) in &self.segments {
            let content = std::fs::read(path).map_err(|error| Error::io("reading", path, error))?;
            let mut records = record::records(&content);
            take(*segment, &mut records);
            let describe = |Damage { at, bytes }| {
                format!("'{}': {bytes} bytes at byte {at} are not a record and are skipped", text::name(path))
            };
            damage.extend(records.damage.into_iter().map(describe));
        }
        Ok(damage)
    }
}
