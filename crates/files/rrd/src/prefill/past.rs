//! The rows of one source in existing files. It decides nothing about new rows.

use std::ops::Range;

use super::Frame;
use super::points::Points;
use super::work;
use crate::content::{ArchiveState, Content};
use crate::rra::{Archive, Function};

/// The history of one source in all files.
pub struct History<'a> {
    /// The files that have it, in their order.
    pub pasts: Vec<Past<'a>>,
    /// The points of all files, where there are several.
    several: Option<Points>,
    none: Points,
}

/// A source in a file that has history for it.
pub struct Past<'a> {
    pub content: &'a Content,
    pub ds: usize,
    /// The file's archives, the finest first; equally fine ones in the file's order.
    pub archives: Vec<Kept<'a>>,
    /// The points that its averages know.
    pub points: Points,
}

/// One source of one archive.
pub struct Kept<'a> {
    pub state: &'a ArchiveState,
    /// Seconds a row.
    pub seconds: i64,
    /// The number of its newest row; row `n` ends at `n` times `seconds`.
    newest: i64,
    ds: usize,
    width: usize,
    /// For each row, how many before it are known: so a time without values is skipped at once.
    known: Vec<u32>,
}

impl<'a> History<'a> {
    pub fn new(pasts: Vec<Past<'a>>) -> Self {
        let all = || pasts.iter().fold(Points::default(), |points, past| points.completed_by(&past.points));
        let several = (pasts.len() > 1).then(all);
        Self { pasts, several, none: Points::default() }
    }

    /// The points of all files; of several that know one the first counts.
    pub fn points(&self) -> &Points {
        let one = || self.pasts.first().map(|past| &past.points);
        self.several.as_ref().or_else(one).unwrap_or(&self.none)
    }

    /// From the begin of the oldest known row to the end of the newest one.
    pub fn span(&self) -> Option<Range<i64>> {
        let spans = || self.pasts.iter().flat_map(|past| &past.archives).filter_map(Kept::span);
        Some(spans().map(|span| span.start).min()?..spans().map(|span| span.end).max()?)
    }
}

impl<'a> Past<'a> {
    /// Source `ds` of a file, whose points are wanted with `step` seconds.
    pub fn new(content: &'a Content, ds: usize, step: u64) -> Self {
        let mut archives: Vec<Kept<'a>> =
            content.archives.iter().map(|state| Kept::new(content, state, ds)).collect();
        archives.sort_by_key(|kept| kept.seconds);
        let averages = archives.iter().filter(|kept| kept.serves(Function::Average));
        let add = |points: Points, kept| points.completed_by(&Points::of(kept, step as i64));
        let points = averages.fold(Points::default(), add);
        Self { content, ds, archives, points }
    }

    /// Whether its state is that of the same moment.
    pub fn is_now(&self, target: Frame) -> bool {
        self.content.last_update == target.last_update && self.content.step == target.step
    }

    /// The archive with the same function and row length; a season must also have the same number of rows.
    pub fn twin(&self, archive: &Archive, step: u64) -> Option<&Kept<'a>> {
        let fits = |kept: &&Kept<'_>| {
            let whole = archive.function.is_plain() || kept.state.archive.rows == archive.rows;
            kept.serves(archive.function) && whole && kept.seconds == (archive.points * step) as i64
        };
        self.archives.iter().find(fits)
    }
}

impl<'a> Kept<'a> {
    fn new(content: &Content, state: &'a ArchiveState, ds: usize) -> Self {
        let seconds = (state.archive.points * content.step) as i64;
        let newest = content.last_update.0.div_euclid(seconds);
        let width = content.sources.len();
        let mut count = 0;
        let mut known = Vec::with_capacity(state.archive.rows as usize + 1);
        known.push(0);
        for row in state.values.chunks_exact(width) {
            count += u32::from(!row[ds].is_nan());
            known.push(count);
        }
        Self { state, seconds, newest, ds, width, known }
    }

    /// Whether its rows can serve as those of `function`. With one point per row, average and extremes are equal.
    pub fn serves(&self, function: Function) -> bool {
        let archive = &self.state.archive;
        let one = archive.points == 1 && archive.function.is_plain() && function.is_plain();
        archive.function == function || one
    }

    /// Whether a row that lies, in part at least, in (`from`, `to`] is known.
    pub fn knows(&self, from: i64, to: i64) -> bool {
        let places = self.places(&self.numbers(from, to));
        self.known[places.end] > self.known[places.start]
    }

    /// The numbers of the rows that lie, in part at least, in (`from`, `to`], whether it has them or not.
    pub fn numbers(&self, from: i64, to: i64) -> Range<i64> {
        let last = to.div_euclid(self.seconds) + i64::from(to.rem_euclid(self.seconds) > 0);
        from.div_euclid(self.seconds) + 1..last + 1
    }

    /// The row that ends at `end`, if it has one.
    pub fn value(&self, end: i64) -> Option<f64> {
        if end.rem_euclid(self.seconds) != 0 {
            return None;
        }
        let number = end / self.seconds;
        let places = self.places(&(number..number + 1));
        self.values(places).next()
    }

    /// The existing rows among these numbers: the number of the first one, and all values.
    pub fn rows(&self, numbers: &Range<i64>) -> (i64, impl Iterator<Item = f64>) {
        let places = self.places(numbers);
        (self.number(places.start), self.values(places))
    }

    /// Numbers and values of all known rows.
    pub fn known_rows(&self) -> impl Iterator<Item = (i64, f64)> {
        let places = 0..self.known.len() - 1;
        let numbered = self.values(places).zip(self.number(0)..);
        numbered.filter(|(value, _)| !value.is_nan()).map(|(value, number)| (number, value))
    }

    /// From the begin of the oldest known row to the end of the newest one.
    fn span(&self) -> Option<Range<i64>> {
        let count = *self.known.last().filter(|count| **count > 0)?;
        let oldest = self.known.partition_point(|known| *known == 0) - 1;
        let newest = self.known.partition_point(|known| *known < count) - 1;
        Some(self.end(self.number(oldest) - 1)..self.end(self.number(newest)))
    }

    /// When row `number` ends. A time too long ago for a number is as early as there is.
    pub fn end(&self, number: i64) -> i64 {
        number.saturating_mul(self.seconds)
    }

    /// The number of the row at a place, counted from the oldest one.
    fn number(&self, place: usize) -> i64 {
        self.newest - (self.known.len() - 2) as i64 + place as i64
    }

    /// The places of the rows of these numbers that it has.
    fn places(&self, numbers: &Range<i64>) -> Range<usize> {
        let rows = self.known.len() as i64 - 1;
        let place = |number: i64| number.saturating_sub(self.number(0)).clamp(0, rows) as usize;
        let (start, end) = (place(numbers.start), place(numbers.end));
        start..end.max(start)
    }

    fn values(&self, places: Range<usize>) -> impl Iterator<Item = f64> {
        places.map(|place| {
            work::visit();
            self.state.values[place * self.width + self.ds]
        })
    }
}
