//! A new file's first bytes from its definition; decides nothing about paths and writes nothing.

use crate::ds::{DataSource, Kind};
use crate::error::{Result, refused};
use crate::header::{CDP_UNKNOWN, CDP_VALUE, Definition, Header};
use crate::holt_winters;
use crate::number::UNKNOWN;
use crate::rra::{Archive, Function};
use crate::spec;

/// The parts of a definition, as a command line gives them one by one.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Data sources so far.
    pub sources: Vec<DataSource>,
    /// Archives so far.
    pub archives: Vec<Archive>,
    version: u16,
}

impl Plan {
    /// Adds a `DS:` argument (without the prefix); returns where its history is to come from.
    ///
    /// # Errors
    /// rrdtool's messages.
    pub fn source(&mut self, text: &str) -> Result<Option<(String, Option<usize>)>> {
        let spec = spec::source(text, &self.sources)?;
        self.sources.push(spec.source);
        Ok(spec.mapping)
    }

    /// Adds an `RRA:` argument (without the prefix) and, after a forecast without companions, these four archives.
    ///
    /// # Errors
    /// rrdtool's messages.
    pub fn archive(&mut self, text: &str, step: u64, season_hash: u64) -> Result<()> {
        let mut spec = spec::archive(text, step, season_hash)?;
        if spec.needs_version_4 {
            self.version = self.version.max(4);
        }
        let companions = spec
            .wants_companions
            .then(|| spec::companions(&mut spec.archive, self.archives.len() as u64, season_hash));
        self.archives.push(spec.archive);
        self.archives.extend(companions.into_iter().flatten());
        Ok(())
    }

    /// Takes sources and archives of another file's definition.
    pub fn take(&mut self, definition: &Definition) {
        self.sources.extend(definition.sources.iter().cloned());
        self.archives.extend(definition.archives.iter().cloned());
        if definition.version == 4 {
            self.version = 4;
        }
    }

    /// The finished definition for primary points of `step` seconds.
    ///
    /// # Errors
    /// Nothing defined, in rrdtool's words.
    pub fn definition(self, step: u64) -> Result<Definition> {
        if self.archives.is_empty() {
            return refused("you must define at least one Round Robin Archive");
        }
        if self.sources.is_empty() {
            return refused("you must define at least one Data Source");
        }
        let version = version(&self.sources, &self.archives, self.version);
        Ok(Definition { version, step, sources: self.sources, archives: self.archives })
    }
}

/// The oldest format that can hold these definitions, at least `least` and 3.
pub fn version(sources: &[DataSource], archives: &[Archive], least: u16) -> u16 {
    let floating = sources.iter().any(|source| matches!(source.kind, Kind::Dcounter | Kind::Dderive));
    let multiplicative = archives.iter().any(|archive| archive.function == Function::MhwPredict);
    let needed = if floating {
        5
    } else if multiplicative {
        4
    } else {
        3
    };
    needed.max(least)
}

/// The header of a fresh file whose first update may come after `start`. `row` gives the current row of each
/// archive, below its number of rows; rrdtool takes it at random to spread the files' page writes.
///
/// # Errors
/// A definition too large for memory.
pub fn header(definition: Definition, start: i64, mut row: impl FnMut(usize, u64) -> u64) -> Result<Header> {
    let Some(mut header) = Header::new(definition) else { return refused("cannot allocate memory") };
    header.set_last_update(start, 0);
    let definition = header.definition().clone();
    let (start, step) = (start as u64, definition.step);
    let unknown = start % step;
    for ds in 0..definition.sources.len() {
        header.set_last_reading(ds, b"U");
        header.set_unknown_seconds(ds, unknown);
        header.set_point_value(ds, UNKNOWN);
    }
    for (rra, archive) in definition.archives.iter().enumerate() {
        for ds in 0..definition.sources.len() {
            if archive.function.is_plain() || archive.function == Function::DevPredict {
                let points = (start - unknown) % (step * archive.points) / step;
                header.set_cdp(rra, ds, CDP_VALUE, UNKNOWN);
                header.set_cdp_count(rra, ds, CDP_UNKNOWN, points);
            } else {
                holt_winters::initialise(&mut header, rra, ds);
            }
        }
        header.set_current_row(rra, row(rra, archive.rows) % archive.rows);
    }
    Ok(header)
}
