//! The content of a whole file in memory, its rows in time order, to be written with another structure.

use crate::create;
use crate::ds::DataSource;
use crate::error::{Error, Result, refused};
use crate::file::Rrd;
use crate::header::{CDP_UNKNOWN, CDP_VALUE, Definition, Header};
use crate::holt_winters;
use crate::layout::CDP_PREP;
use crate::number::UNKNOWN;
use crate::rra::{Archive, Function, PAR_DEPENDENT};

/// Bytes of values a rebuild may hold in memory.
const VALUES_MAX: u64 = 1 << 32;

/// The state of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceState {
    /// Its definition.
    pub source: DataSource,
    /// Its last reading as text.
    pub last: Vec<u8>,
    /// The accumulated value of its open point.
    pub value: f64,
    /// Unknown seconds of the open point.
    pub unknown: u64,
}

/// One archive with everything in it.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchiveState {
    /// Its definition.
    pub archive: Archive,
    /// 80 bytes of state per source.
    pub states: Vec<[u8; CDP_PREP]>,
    /// A value per source and row, the oldest row first.
    pub values: Vec<f64>,
}

/// A file's content, without its layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// Format version.
    pub version: u16,
    /// Seconds per primary point.
    pub step: u64,
    /// Last update, seconds and microseconds.
    pub last_update: (i64, i64),
    /// The sources.
    pub sources: Vec<SourceState>,
    /// The archives.
    pub archives: Vec<ArchiveState>,
}

impl Content {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The system's error, or a file too large to hold.
    pub fn read(rrd: &Rrd) -> Result<Self> {
        let header = &rrd.header;
        if header.file_len() > VALUES_MAX {
            return refused(format!("files above {VALUES_MAX} bytes are not rebuilt in memory"));
        }
        let mut archives = vec![];
        for (rra, archive) in header.archives().iter().enumerate() {
            let state = |ds| header.cdp_bytes(rra, ds).try_into().unwrap_or([0; CDP_PREP]);
            archives.push(ArchiveState {
                archive: archive.clone(),
                states: (0..header.sources().len()).map(state).collect(),
                values: rrd.rows_in_time(rra)?,
            });
        }
        Ok(Self::with_archives(header, archives))
    }

    /// What `header` says, with these archives.
    pub(crate) fn with_archives(header: &Header, archives: Vec<ArchiveState>) -> Self {
        let source = |(ds, source): (usize, &DataSource)| SourceState {
            source: source.clone(),
            last: header.last_reading(ds).to_vec(),
            value: header.point_value(ds),
            unknown: header.unknown_seconds(ds),
        };
        Self {
            version: header.version(),
            step: header.step(),
            last_update: (header.last_update(), header.last_update_usec()),
            sources: header.sources().iter().enumerate().map(source).collect(),
            archives,
        }
    }

    /// Header and values in file order; `row` gives each archive's position.
    ///
    /// # Errors
    /// Nothing left to define, or too large.
    pub fn build(&self, mut row: impl FnMut(usize, u64) -> u64) -> Result<(Header, Vec<f64>)> {
        let sources: Vec<DataSource> = self.sources.iter().map(|state| state.source.clone()).collect();
        let archives: Vec<Archive> = self.archives.iter().map(|state| state.archive.clone()).collect();
        if sources.is_empty() {
            return refused("you must define at least one Data Source");
        }
        if archives.is_empty() {
            return refused("you must define at least one Round Robin Archive");
        }
        // Files before version 3 are written as 3, as rrdtool does.
        let version = create::version(&sources, &archives, self.version);
        let definition = Definition { version, step: self.step, sources, archives };
        let Some(mut header) = Header::new(definition) else { return refused("cannot allocate memory") };
        header.set_last_update(self.last_update.0, self.last_update.1);
        for (ds, state) in self.sources.iter().enumerate() {
            header.set_last_reading(ds, &state.last);
            header.set_point_value(ds, state.value);
            header.set_unknown_seconds(ds, state.unknown);
        }
        let mut values = vec![];
        for (rra, state) in self.archives.iter().enumerate() {
            for (ds, bytes) in state.states.iter().enumerate() {
                header.cdp_bytes_mut(rra, ds).copy_from_slice(bytes);
            }
            let at = row(rra, state.archive.rows) % state.archive.rows;
            header.set_current_row(rra, at);
            let mut rotated = state.values.clone();
            let by = (at as usize + 1) * self.sources.len();
            let by = by % rotated.len().max(1);
            rotated.rotate_right(by);
            values.extend(rotated);
        }
        Ok((header, values))
    }

    /// Appends a source without history.
    pub fn add_source(&mut self, source: DataSource) {
        let unknown = self.last_update.0 as u64 % self.step;
        self.sources.push(SourceState { source, last: b"U".to_vec(), value: UNKNOWN, unknown });
        let width = self.sources.len();
        let fresh: Vec<[u8; CDP_PREP]> =
            self.archives.iter().map(|state| self.fresh_state(&state.archive)).collect();
        for (state, fresh) in self.archives.iter_mut().zip(fresh) {
            state.states.push(fresh);
            let rows = state.values.chunks(width - 1);
            state.values = rows.flat_map(|row| row.iter().copied().chain([UNKNOWN])).collect();
        }
    }

    /// Removes a source with its history.
    ///
    /// # Errors
    /// A COMPUTE source needs it.
    pub fn remove_source(&mut self, ds: usize) -> Result<()> {
        for state in &mut self.sources {
            let name = &state.source.name;
            if let Some(program) = &mut state.source.program
                && !program.remove_variable(ds)
            {
                return refused(format!("data source '{name}' is computed from the one to be removed"));
            }
        }
        let width = self.sources.len();
        self.sources.remove(ds);
        for state in &mut self.archives {
            state.states.remove(ds);
            let kept = state.values.iter().enumerate().filter(|(index, _)| index % width != ds);
            state.values = kept.map(|(_, value)| *value).collect();
        }
        Ok(())
    }

    /// Appends an archive without history.
    pub fn add_archive(&mut self, archive: Archive) {
        let fresh = self.fresh_state(&archive);
        let values = vec![UNKNOWN; archive.rows as usize * self.sources.len()];
        self.archives.push(ArchiveState { archive, states: vec![fresh; self.sources.len()], values });
    }

    /// Removes an archive; those after it move up, and dependences on them are renumbered.
    pub fn remove_archive(&mut self, rra: usize) {
        self.archives.remove(rra);
        for state in &mut self.archives {
            if !state.archive.function.is_plain() && state.archive.par[PAR_DEPENDENT] > rra as u64 {
                state.archive.par[PAR_DEPENDENT] -= 1;
            }
        }
    }

    /// Gives archive `rra` another number of rows; rows come and go at its old end.
    ///
    /// # Errors
    /// No row would be left, or the archive belongs to a season.
    pub fn set_rows(&mut self, rra: usize, rows: u64) -> Result<()> {
        let width = self.sources.len();
        let state = &mut self.archives[rra];
        if rows == 0 {
            return refused("This RRA is not that big");
        }
        if rows.saturating_mul(8 * width as u64) > VALUES_MAX {
            return Err(Error::Refused("cannot allocate memory".into()));
        }
        let (old, new) = (state.values.len(), rows as usize * width);
        if new <= old {
            state.values.drain(..old - new);
        } else {
            let mut values = vec![UNKNOWN; new - old];
            values.append(&mut state.values);
            state.values = values;
        }
        state.archive.rows = rows;
        Ok(())
    }

    /// The state of a source in a new archive.
    fn fresh_state(&self, archive: &Archive) -> [u8; CDP_PREP] {
        // A header with this source and this archive alone starts with that state.
        let Some(source) = self.sources.first().map(|state| state.source.clone()) else {
            return [0; CDP_PREP];
        };
        let definition = Definition {
            version: 3,
            step: self.step,
            sources: vec![source],
            archives: vec![archive.clone()],
        };
        let Some(mut header) = Header::new(definition) else { return [0; CDP_PREP] };
        if archive.function.is_plain() || archive.function == Function::DevPredict {
            let last = self.last_update.0 as u64;
            let points = (last - last % self.step) % (self.step * archive.points) / self.step;
            header.set_cdp(0, 0, CDP_VALUE, UNKNOWN);
            header.set_cdp_count(0, 0, CDP_UNKNOWN, points);
        } else {
            holt_winters::initialise(&mut header, 0, 0);
        }
        header.cdp_bytes(0, 0).try_into().unwrap_or([0; CDP_PREP])
    }
}
