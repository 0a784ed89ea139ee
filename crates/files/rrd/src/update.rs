//! Applies updates to a header and collects the rows to write; does no I/O beyond asking for old values.
//!
//! A failing call leaves everything as it was. [`Failure::KeepsWhatWasDone`] gives rrdtool's behaviour
//! instead, where earlier arguments and earlier sources of the failing one stay applied.

use std::io;

use crate::cdp::{self, Fall};
use crate::error::{Error, Result};
use crate::header::{CDP_PRIMARY, CDP_SECONDARY, Header};
use crate::holt_winters;
use crate::number;
use crate::pdp::{self, Span};
use crate::rra::Archive;
use crate::sample::{self, Stamp, Template};

/// The state after a failing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The file as it was before the call.
    ChangesNothing,
    /// Everything done before the failure, as in rrdtool.
    KeepsWhatWasDone,
}

/// How to apply.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The file's name as error messages give it.
    pub name: &'a str,
    /// Which readings go where.
    pub template: Option<&'a str>,
    /// Skips samples that are not newer than the last, without an error.
    pub skip_past: bool,
    /// The clock, for `N` and relative times.
    pub now: Stamp,
    /// What a failure leaves.
    pub failure: Failure,
    /// Records each row written, for `updatev`.
    pub record: bool,
}

/// Old values of a file, read when a Holt-Winters archive needs them.
pub trait Values {
    /// Reads `values.len()` doubles at byte `offset`.
    ///
    /// # Errors
    /// The file system's error.
    fn read(&self, offset: u64, values: &mut [f64]) -> Result<()>;
}

/// Rows to write, in order; where they overlap, the later one counts.
#[derive(Debug, Default, Clone)]
pub struct Writes {
    entries: Vec<(u64, usize, usize)>,
    values: Vec<f64>,
}

impl Writes {
    /// Adds `values` at byte `offset`.
    pub fn push(&mut self, offset: u64, values: impl IntoIterator<Item = f64>) {
        let start = self.values.len();
        self.values.extend(values);
        self.entries.push((offset, start, self.values.len() - start));
    }

    /// Every write: byte offset and values.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[f64])> {
        self.entries.iter().map(|&(offset, start, len)| (offset, &self.values[start..start + len]))
    }

    /// Hands every write to `write` as a file's bytes, sorted by place with neighbours joined: few system calls for
    /// many rows. A place that was written twice is written once.
    ///
    /// # Errors
    /// The first failure of `write`.
    pub fn joined(&self, mut write: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(8 * self.values.len());
        let (mut begin, mut last) = (0, (u64::MAX, 0));
        for (offset, index) in self.by_place() {
            let (_, start, len) = self.entries[index];
            if last == (offset, len) {
                // The place of the row just taken: the later write counts.
                bytes.truncate(bytes.len() - 8 * len);
            } else if begin + bytes.len() as u64 != offset {
                if !bytes.is_empty() {
                    write(begin, &bytes)?;
                    bytes.clear();
                }
                begin = offset;
            }
            for value in &self.values[start..start + len] {
                bytes.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            last = (offset, len);
        }
        if bytes.is_empty() { Ok(()) } else { write(begin, &bytes) }
    }

    /// The entries sorted by place, later writes to one place last. Where writes overlap otherwise (a smoothed season)
    /// their own order counts.
    fn by_place(&self) -> Vec<(u64, usize)> {
        let place = |(index, entry): (usize, &(u64, usize, usize))| (entry.0, index);
        let mut order: Vec<(u64, usize)> = self.entries.iter().enumerate().map(place).collect();
        order.sort_unstable();
        let overlap = order.windows(2).any(|pair| {
            let (len, next) = (self.entries[pair[0].1].2, self.entries[pair[1].1].2);
            pair[0].0 + 8 * len as u64 > pair[1].0 && (pair[0].0, len) != (pair[1].0, next)
        });
        if overlap {
            order.sort_unstable_by_key(|&(_, index)| index);
        }
        order
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Replaces those of `values`, which were read at `offset`, that are to be written.
    pub(crate) fn overlay(&self, offset: u64, values: &mut [f64]) {
        let end = offset + 8 * values.len() as u64;
        for (at, written) in self.iter() {
            if at >= end || at + 8 * written.len() as u64 <= offset {
                continue;
            }
            for (index, value) in written.iter().enumerate() {
                let place = at + 8 * index as u64;
                if place >= offset && place < end {
                    values[((place - offset) / 8) as usize] = *value;
                }
            }
        }
    }
}

/// One row as `updatev` reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// End of the row.
    pub time: i64,
    /// Archive index.
    pub rra: usize,
    /// A value per source.
    pub values: Vec<f64>,
}

/// The result of a call.
#[derive(Debug, Default)]
pub struct Applied {
    /// The rows.
    pub writes: Writes,
    /// The rows again, with their times, if asked for.
    pub record: Vec<Written>,
    /// Whether the live header changed; it does not where all samples were skipped.
    pub changed: bool,
    /// The live header before, where [`Failure::ChangesNothing`] asks for it.
    pub before: Option<Vec<u8>>,
}

/// A call that failed.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: Error,
    /// The part to write in spite of the error, if [`Failure::KeepsWhatWasDone`] asks for it.
    pub applied: Option<Applied>,
}

/// A call in progress.
pub(crate) struct Session<'a> {
    pub(crate) header: &'a mut Header,
    pub(crate) old: &'a dyn Values,
    pub(crate) applied: Applied,
    recording: bool,
    forecasts: bool,
    pub(crate) smoothing: holt_winters::Smoothing,
}

/// Buffers for one sample after the other, an entry per source.
struct Room<'a> {
    readings: Vec<&'a str>,
    new: Vec<f64>,
    points: Vec<f64>,
}

impl Room<'_> {
    fn new(sources: usize) -> Self {
        let unknown = vec![number::UNKNOWN; sources];
        Self { readings: vec!["U"; sources], new: unknown.clone(), points: unknown }
    }
}

/// Applies `samples` in order.
///
/// # Errors
/// The first sample that cannot be applied, in rrdtool's words.
pub fn apply(
    header: &mut Header,
    old: &dyn Values,
    samples: &[&str],
    options: &Options<'_>,
) -> std::result::Result<Applied, Box<Failed>> {
    let template = match options.template {
        Some(text) => {
            Template::parse(header, text).map_err(|error| Box::new(Failed { error, applied: None }))?
        }
        None => Template::whole(header),
    };
    let saved = (options.failure == Failure::ChangesNothing).then(|| header.live().to_vec());
    let forecasts = header.archives().iter().any(|archive| !archive.function.is_plain());
    let mut session = Session {
        header,
        old,
        applied: Applied::default(),
        recording: options.record,
        forecasts,
        smoothing: holt_winters::Smoothing::default(),
    };
    let mut room = Room::new(session.header.sources().len());
    let mut outcome = Ok(());
    for text in samples {
        outcome = session.apply(text, &template, options, &mut room);
        if outcome.is_err() {
            break;
        }
    }
    let smoothed = match (&outcome, options.failure) {
        (Err(_), Failure::ChangesNothing) => Ok(()),
        _ => holt_winters::smooth(&mut session),
    };
    let applied = session.applied;
    let error = match (outcome, smoothed) {
        (Ok(()), Ok(())) => return Ok(Applied { before: saved, ..applied }),
        (Err(text), _) => Error::Refused(format!("{}: {text}", options.name)),
        (Ok(()), Err(error)) => error,
    };
    match saved {
        Some(saved) => {
            header.restore_live(&saved);
            Err(Box::new(Failed { error, applied: None }))
        }
        None => Err(Box::new(Failed { error, applied: Some(applied) })),
    }
}

impl Session<'_> {
    /// One sample. `Err` is rrdtool's message without the file name.
    fn apply<'t>(
        &mut self,
        text: &'t str,
        template: &Template,
        options: &Options<'_>,
        room: &mut Room<'t>,
    ) -> std::result::Result<(), String> {
        let stamp = sample::parse(text, template, options.now, &mut room.readings)?;
        let last = Stamp { seconds: self.header.last_update(), usec: self.header.last_update_usec() };
        if stamp <= last {
            if options.skip_past {
                return Ok(());
            }
            return Err(format!(
                "illegal attempt to update using time {} when last update time is {} (minimum one second step)",
                stamp.seconds, last.seconds
            ));
        }
        self.applied.changed = true;
        let span = Span::new(self.header, stamp.seconds, stamp.usec);
        for (ds, reading) in room.readings.iter().enumerate() {
            room.new[ds] = match self.header.sources()[ds].program {
                None => pdp::take_reading(self.header, ds, reading, span.interval)?,
                Some(_) => number::UNKNOWN,
            };
        }
        if span.steps == 0 {
            pdp::accumulate(self.header, &room.new, span.interval);
        } else {
            self.advance(room, span, options.now.seconds, stamp.seconds)?;
        }
        self.header.set_last_update(stamp.seconds, stamp.usec);
        Ok(())
    }

    /// Crosses the step boundaries of `span`. If several points are due and one is partly filled, that one is closed first, by
    /// itself.
    fn advance(
        &mut self,
        room: &mut Room<'_>,
        mut span: Span,
        now: i64,
        sample_time: i64,
    ) -> std::result::Result<(), String> {
        // Whole seconds only: the fraction stays with the rest, as in rrdtool's integer modulo.
        let share = match span.steps {
            1 => 0.0,
            _ => (number::as_long(span.before) as u64 % self.header.step()) as f64,
        };
        if share > 0.0 {
            // First multiplied, then divided, and the rest subtracted: another order changes the last bits.
            let part: Vec<f64> = room.new.iter().map(|new| new * share / span.interval).collect();
            room.new.iter_mut().zip(&part).for_each(|(new, part)| *new -= part);
            let alone = Span { interval: share, before: share, after: 0.0, steps: 1, ..span };
            pdp::close(self.header, &part, &alone, now, &mut room.points)?;
            self.consolidate(&room.points, alone.first_step, 1, sample_time, span.steps - 1)?;
            span.interval -= share;
            span.before -= share;
            span.steps -= 1;
            span.first_step += 1;
        }
        pdp::close(self.header, &room.new, &span, now, &mut room.points)?;
        self.consolidate(&room.points, span.first_step, span.steps, sample_time, 0)
    }

    /// Takes `steps` equal `points` into every archive, then writes the rows they complete. `later` counts
    /// points of the same sample that come in a later call.
    fn consolidate(
        &mut self,
        points: &[f64],
        first_step: u64,
        steps: u64,
        sample_time: i64,
        later: u64,
    ) -> std::result::Result<(), String> {
        let definition = self.header.definition().clone();
        let falls = |archive: &Archive| Fall::new(archive.points, archive.rows, first_step, steps);
        for (rra, archive) in definition.archives.iter().enumerate() {
            if archive.points > 1 {
                cdp::several(self.header, rra, points, falls(archive));
            } else if archive.function.is_plain() {
                cdp::single(self.header, rra, points, steps);
            }
        }
        if self.forecasts {
            holt_winters::forecast(self, points, steps).map_err(|error| error.to_string())?;
        }
        for (rra, archive) in definition.archives.iter().enumerate() {
            let count = falls(archive).rows;
            if count > 0 {
                if archive.function.is_seasonal() && steps > 1 {
                    // Coefficients of points that one sample closed together are not kept.
                    let row = (self.header.current_row(rra) + count) % archive.rows;
                    self.header.set_current_row(rra, row);
                } else {
                    self.write_rows(rra, count, sample_time, later);
                }
            }
        }
        Ok(())
    }

    fn write_rows(&mut self, rra: usize, count: u64, sample_time: i64, later: u64) {
        let (rows, sources) = (self.header.archives()[rra].rows, self.header.sources().len());
        for index in 0..count {
            // A header's rows lie within its archives, so this is the modulo without a division.
            let next = self.header.current_row(rra) + 1;
            let row = if next >= rows { 0 } else { next };
            self.header.set_current_row(rra, row);
            let slot = if index == 0 { CDP_PRIMARY } else { CDP_SECONDARY };
            let header = &*self.header;
            self.applied
                .writes
                .push(header.row_offset(rra, row), (0..sources).map(|ds| header.cdp(rra, ds, slot)));
            if self.recording {
                let seconds = self.header.row_seconds(rra);
                let reached = (sample_time as u64).wrapping_sub(later * self.header.step());
                let newest = reached - reached % seconds;
                let time = newest.wrapping_sub((count - 1 - index) * seconds) as i64;
                let values = (0..sources).map(|ds| header.cdp(rra, ds, slot)).collect();
                self.applied.record.push(Written { time, rra, values });
            }
        }
    }

    /// Row `row` of archive `rra`, with the changes of this call.
    pub(crate) fn row(&self, rra: usize, row: u64) -> Result<Vec<f64>> {
        let mut values = vec![0.0; self.header.sources().len()];
        let offset = self.header.row_offset(rra, row);
        self.old.read(offset, &mut values)?;
        self.applied.writes.overlay(offset, &mut values);
        Ok(values)
    }

    /// All rows of archive `rra` in file order.
    pub(crate) fn all_rows(&self, rra: usize) -> Result<Vec<f64>> {
        let count = self.header.archives()[rra].rows as usize * self.header.sources().len();
        let mut values = vec![0.0; count];
        let offset = self.header.row_offset(rra, 0);
        self.old.read(offset, &mut values)?;
        self.applied.writes.overlay(offset, &mut values);
        Ok(values)
    }
}
