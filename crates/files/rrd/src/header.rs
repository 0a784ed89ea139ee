//! One file's header: definitions decoded once, state read and written in place; does no I/O.
//!
//! The bytes stay as they were read, with their padding, so that a write changes only what an update changed.

use std::path::Path;
use std::sync::Arc;

use crate::ds::{DataSource, Kind};
use crate::error::{Error, Result};
use crate::layout::{self, DS_DEF, FLOAT_COOKIE, LAST_DS, Layout, MAGIC, RRA_DEF, STAT_HEAD, VERSION_MAX};
use crate::rra::Archive;
use crate::text;

/// Microseconds a second.
pub const MICROS: i64 = 1_000_000;

/// The part that only `create` and `tune` change.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Format version, 1 to 5.
    pub version: u16,
    /// Seconds per primary point.
    pub step: u64,
    /// The data sources.
    pub sources: Vec<DataSource>,
    /// The archives.
    pub archives: Vec<Archive>,
}

/// A header: its bytes, its layout, its decoded definitions.
#[derive(Debug, Clone)]
pub struct Header {
    bytes: Vec<u8>,
    layout: Arc<Layout>,
    definition: Arc<Definition>,
    /// Where each archive's values begin in the file, and last the file's length.
    starts: Arc<[u64]>,
}

/// Index of the value in an archive state's ten slots.
pub const CDP_VALUE: usize = 0;
/// Index of the unknown-point count.
pub const CDP_UNKNOWN: usize = 1;
/// Index of the value of the next first row.
pub const CDP_PRIMARY: usize = 8;
/// Index of the value of further rows.
pub const CDP_SECONDARY: usize = 9;

impl Header {
    /// How many bytes the header has, from its first [`STAT_HEAD`] bytes and the file's length.
    pub fn length(prefix: &[u8], file_len: u64, path: &Path) -> Result<usize> {
        Ok(Self::measure(prefix, file_len, path)?.1.header_len)
    }

    fn measure(prefix: &[u8], file_len: u64, path: &Path) -> Result<(u16, Layout)> {
        let damaged = |offset, what: String| Error::Damaged { path: path.into(), offset, what };
        if prefix.len() < STAT_HEAD {
            return Err(damaged(file_len, "reached EOF while loading header rrd->stat_head".into()));
        }
        if prefix[..4] != MAGIC {
            return Err(damaged(0, format!("'{}' is not an RRD file", text::name(path))));
        }
        if layout::f64_at(prefix, 16) != FLOAT_COOKIE {
            return Err(damaged(16, "This RRD was created on another architecture".into()));
        }
        let text = layout::text_at(prefix, 4, 5);
        let version = text.parse::<u16>().unwrap_or(u16::MAX);
        if version > VERSION_MAX || version == 0 {
            return Err(damaged(4, format!("can't handle RRD file version {text}")));
        }
        let (ds_count, rra_count) = (layout::u64_at(prefix, 24), layout::u64_at(prefix, 32));
        let fits = |end: u128| end <= u128::from(file_len);
        let definitions = [("ds_def", DS_DEF, ds_count), ("rra_def", RRA_DEF, rra_count)];
        let mut end = STAT_HEAD as u128;
        for (part, size, count) in definitions {
            end += size as u128 * u128::from(count);
            if !fits(end) {
                return Err(damaged(file_len, format!("reached EOF while loading header rrd->{part}")));
            }
        }
        let layout = Layout::new(version, ds_count, rra_count, file_len)
            .ok_or_else(|| damaged(file_len, "reached EOF while loading header rrd->live_head".into()))?;
        Ok((version, layout))
    }

    /// Takes a whole header. `bytes` may be longer; `file_len` is the length of the file.
    pub fn parse(mut bytes: Vec<u8>, file_len: u64, path: &Path) -> Result<Self> {
        let (version, layout) = Self::measure(&bytes, file_len, path)?;
        let damaged =
            |offset: usize, what: String| Error::Damaged { path: path.into(), offset: offset as u64, what };
        if bytes.len() < layout.header_len {
            return Err(damaged(bytes.len(), "reached EOF while loading header".into()));
        }
        bytes.truncate(layout.header_len);
        let step = layout::u64_at(&bytes, 40);
        if step == 0 || step > i64::MAX as u64 {
            return Err(damaged(40, format!("'{}' has a step of {step} seconds", text::name(path))));
        }
        let mut sources = Vec::with_capacity(layout.ds_count);
        for index in 0..layout.ds_count {
            let at = layout.ds_def(index);
            let of = |what| damaged(at, format!("data source {index} of '{}': {what}", text::name(path)));
            sources.push(DataSource::decode(&bytes[at..at + DS_DEF]).map_err(of)?);
        }
        let mut archives = Vec::with_capacity(layout.rra_count);
        for index in 0..layout.rra_count {
            let at = layout.rra_def(index);
            let of = |what| damaged(at, format!("archive {index} of '{}': {what}", text::name(path)));
            archives.push(Archive::decode(&bytes[at..at + RRA_DEF]).map_err(of)?);
        }
        let starts =
            starts(&layout, &archives).filter(|starts| starts.last().is_some_and(|end| *end <= file_len));
        let starts = starts.ok_or_else(|| {
            let wanted = archives.iter().map(|archive| u128::from(archive.rows)).sum::<u128>()
                * 8
                * layout.ds_count as u128
                + layout.header_len as u128;
            let name = text::name(path);
            damaged(file_len as usize, format!("'{name}' is too small (should be {wanted} bytes)"))
        })?;
        let header = Self {
            bytes,
            layout: Arc::new(layout),
            definition: Arc::new(Definition { version, step, sources, archives }),
            starts: starts.into(),
        };
        header.check(path)?;
        Ok(header)
    }

    /// Checks row pointers and dependent archives, which rrdtool uses unchecked.
    fn check(&self, path: &Path) -> Result<()> {
        for (index, archive) in self.archives().iter().enumerate() {
            let at = self.layout.ptr(index);
            let what = if self.current_row(index) >= archive.rows {
                format!("{} rows but its current row is {}", archive.rows, self.current_row(index))
            } else if archive.points.checked_mul(self.step()).is_none_or(|seconds| seconds > i64::MAX as u64)
            {
                format!("rows of {} points", archive.points)
            } else {
                continue;
            };
            let what = format!("archive {index} of '{}' has {what}", text::name(path));
            return Err(Error::Damaged { path: path.into(), offset: at as u64, what });
        }
        Ok(())
    }

    /// A new header for `definition`: state zeroed, no rows yet. `None` where it would not fit memory.
    pub fn new(definition: Definition) -> Option<Self> {
        let (ds_count, rra_count) = (definition.sources.len() as u64, definition.archives.len() as u64);
        let layout = Layout::new(definition.version, ds_count, rra_count, i64::MAX as u64)?;
        let mut bytes = vec![0; layout.header_len];
        layout::put_text(&mut bytes, 0, 4, b"RRD");
        layout::put_text(&mut bytes, 4, 5, format!("{:04}", definition.version).as_bytes());
        layout::put_f64(&mut bytes, 16, FLOAT_COOKIE);
        layout::put_u64(&mut bytes, 24, ds_count);
        layout::put_u64(&mut bytes, 32, rra_count);
        layout::put_u64(&mut bytes, 40, definition.step);
        for (index, source) in definition.sources.iter().enumerate() {
            let at = layout.ds_def(index);
            source.encode(&mut bytes[at..at + DS_DEF]);
        }
        for (index, archive) in definition.archives.iter().enumerate() {
            let at = layout.rra_def(index);
            archive.encode(&mut bytes[at..at + RRA_DEF]);
        }
        let starts = starts(&layout, &definition.archives)?;
        Some(Self {
            bytes,
            layout: Arc::new(layout),
            definition: Arc::new(definition),
            starts: starts.into(),
        })
    }

    /// The same file with other definitions of the same number, its state kept.
    ///
    /// # Errors
    /// Counts that differ.
    pub fn redefined(&self, definition: Definition) -> Result<Self> {
        let same = definition.sources.len() == self.sources().len()
            && definition.archives.len() == self.archives().len()
            && (definition.version >= 3) == self.layout.has_usec;
        let Some(fresh) = Self::new(definition).filter(|_| same) else {
            return Err(Error::Refused("the file's structure cannot change in place".into()));
        };
        let mut bytes = fresh.bytes;
        let live = self.layout.live_head;
        bytes[live..].copy_from_slice(&self.bytes[live..]);
        Ok(Self {
            bytes,
            layout: self.layout.clone(),
            definition: fresh.definition,
            starts: self.starts.clone(),
        })
    }

    /// The header's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the parts lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The definitions.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// The data sources.
    pub fn sources(&self) -> &[DataSource] {
        &self.definition.sources
    }

    /// The archives.
    pub fn archives(&self) -> &[Archive] {
        &self.definition.archives
    }

    /// Seconds per primary point.
    pub fn step(&self) -> u64 {
        self.definition.step
    }

    /// The format version.
    pub fn version(&self) -> u16 {
        self.definition.version
    }

    /// The length the whole file must have.
    pub fn file_len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(self.layout.header_len as u64)
    }

    /// File offset of row `row` of archive `rra`.
    pub fn row_offset(&self, rra: usize, row: u64) -> u64 {
        self.starts[rra] + row * 8 * self.layout.ds_count as u64
    }

    /// The part updates change: from the last stamp to the end of the header.
    pub fn live(&self) -> &[u8] {
        &self.bytes[self.layout.live_head..]
    }

    /// Puts back a saved [`Header::live`].
    pub fn restore_live(&mut self, saved: &[u8]) {
        let at = self.layout.live_head;
        self.bytes[at..at + saved.len()].copy_from_slice(saved);
    }

    /// Seconds of the last update.
    pub fn last_update(&self) -> i64 {
        layout::u64_at(&self.bytes, self.layout.live_head) as i64
    }

    /// Microseconds of the last update; 0 before version 3.
    pub fn last_update_usec(&self) -> i64 {
        if !self.layout.has_usec {
            return 0;
        }
        layout::u64_at(&self.bytes, self.layout.live_head + 8) as i64
    }

    /// Sets the stamp of the last update.
    pub fn set_last_update(&mut self, seconds: i64, usec: i64) {
        let at = self.layout.live_head;
        layout::put_u64(&mut self.bytes, at, seconds as u64);
        if self.layout.has_usec {
            layout::put_u64(&mut self.bytes, at + 8, usec as u64);
        }
    }

    /// The last reading of source `ds` as it was written, without its padding.
    pub fn last_reading(&self, ds: usize) -> &[u8] {
        let at = self.layout.pdp(ds);
        let field = &self.bytes[at..at + LAST_DS];
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(LAST_DS);
        &field[..end]
    }

    /// Keeps the first 29 bytes of `text` as the last reading of source `ds`.
    pub fn set_last_reading(&mut self, ds: usize, text: &[u8]) {
        layout::put_text(&mut self.bytes, self.layout.pdp(ds), LAST_DS, text);
    }

    /// Makes the last reading of source `ds` unknown, in as many bytes as rrdtool writes. The bytes after them stay.
    pub fn forget_last_reading(&mut self, ds: usize) {
        layout::put_text(&mut self.bytes, self.layout.pdp(ds), b"UNKN".len() + 1, b"UNKN");
    }

    /// Seconds of the open primary point of source `ds` that are unknown.
    pub fn unknown_seconds(&self, ds: usize) -> u64 {
        layout::u64_at(&self.bytes, self.layout.pdp(ds) + 32)
    }

    /// Sets [`Header::unknown_seconds`].
    pub fn set_unknown_seconds(&mut self, ds: usize, seconds: u64) {
        layout::put_u64(&mut self.bytes, self.layout.pdp(ds) + 32, seconds);
    }

    /// The accumulated value of the open primary point of source `ds`.
    pub fn point_value(&self, ds: usize) -> f64 {
        layout::f64_at(&self.bytes, self.layout.pdp(ds) + 40)
    }

    /// Sets [`Header::point_value`].
    pub fn set_point_value(&mut self, ds: usize, value: f64) {
        layout::put_f64(&mut self.bytes, self.layout.pdp(ds) + 40, value);
    }

    /// Slot `slot` (0 to 9) of the state of source `ds` in archive `rra`, as a double.
    pub fn cdp(&self, rra: usize, ds: usize, slot: usize) -> f64 {
        layout::f64_at(&self.bytes, self.layout.cdp(rra, ds) + 8 * slot)
    }

    /// Sets [`Header::cdp`].
    pub fn set_cdp(&mut self, rra: usize, ds: usize, slot: usize, value: f64) {
        layout::put_f64(&mut self.bytes, self.layout.cdp(rra, ds) + 8 * slot, value);
    }

    /// Slot `slot` as a count.
    pub fn cdp_count(&self, rra: usize, ds: usize, slot: usize) -> u64 {
        layout::u64_at(&self.bytes, self.layout.cdp(rra, ds) + 8 * slot)
    }

    /// Sets [`Header::cdp_count`].
    pub fn set_cdp_count(&mut self, rra: usize, ds: usize, slot: usize, count: u64) {
        layout::put_u64(&mut self.bytes, self.layout.cdp(rra, ds) + 8 * slot, count);
    }

    /// The whole state of source `ds` in archive `rra` (80 bytes), which FAILURES uses as characters.
    pub fn cdp_bytes(&self, rra: usize, ds: usize) -> &[u8] {
        let at = self.layout.cdp(rra, ds);
        &self.bytes[at..at + layout::CDP_PREP]
    }

    /// The same, to write.
    pub fn cdp_bytes_mut(&mut self, rra: usize, ds: usize) -> &mut [u8] {
        let at = self.layout.cdp(rra, ds);
        &mut self.bytes[at..at + layout::CDP_PREP]
    }

    /// The row of archive `rra` written last.
    pub fn current_row(&self, rra: usize) -> u64 {
        layout::u64_at(&self.bytes, self.layout.ptr(rra))
    }

    /// Sets [`Header::current_row`].
    pub fn set_current_row(&mut self, rra: usize, row: u64) {
        layout::put_u64(&mut self.bytes, self.layout.ptr(rra), row);
    }

    /// Seconds a row of archive `rra` covers.
    pub fn row_seconds(&self, rra: usize) -> u64 {
        self.archives()[rra].points * self.step()
    }

    /// The end of the newest row of archive `rra`. Negative stamps wrap, as rrdtool's unsigned arithmetic does.
    pub fn newest_row_end(&self, rra: usize) -> i64 {
        let last = self.last_update() as u64;
        (last - last % self.row_seconds(rra)) as i64
    }

    /// The index of the source called `name`.
    pub fn source(&self, name: &str) -> Option<usize> {
        self.sources().iter().position(|source| source.name == name)
    }

    /// How many sources take a reading, that is, are not computed.
    pub fn readings(&self) -> usize {
        self.sources().iter().filter(|source| source.kind != Kind::Compute).count()
    }
}

fn starts(layout: &Layout, archives: &[Archive]) -> Option<Vec<u64>> {
    let mut at = layout.header_len as u64;
    let mut starts = vec![];
    for archive in archives {
        starts.push(at);
        at = archive.rows.checked_mul(8)?.checked_mul(layout.ds_count as u64)?.checked_add(at)?;
    }
    starts.push(at);
    Some(starts)
}
