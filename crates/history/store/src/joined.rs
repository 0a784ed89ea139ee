//! Joins the sections of one node from several files: the rows are in the order of time. If two files have a reading of one series
//! at one time, the later file wins. It holds one column at a time.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Instance, Series};

use crate::file::ColumnFile;
use crate::layout::Key;
use crate::limits::ROWS_MAX;
use crate::rows::by_name;
use crate::section::Section;
use crate::times::{Beside, Kind, Times};
use crate::track::{NO_READING, Track};
use crate::writer::Content;
use crate::{StoreError, Summary};

/// A section and the file that has it.
pub(crate) struct Piece<'a> {
    pub file: &'a ColumnFile,
    pub section: Section,
}

/// Rows of one node, and the series that they have: a section of a file, or rows in memory.
pub(crate) trait Rows {
    /// The times of the first and last row.
    fn span(&self) -> (u64, u64);

    /// The times of the rows.
    fn times(&self) -> Result<Arc<Times>, StoreError>;

    /// The series.
    fn series(&self) -> &[Series];

    /// A column over all rows; `None`: these rows do not have it.
    fn content(&self, key: &Key, times: &Times) -> Option<Result<Arc<Content>, StoreError>>;
}

impl Rows for Piece<'_> {
    fn span(&self) -> (u64, u64) {
        (self.section.index.span.first, self.section.index.span.last)
    }

    fn times(&self) -> Result<Arc<Times>, StoreError> {
        self.file.times(&self.section).map(Arc::new)
    }

    fn series(&self) -> &[Series] {
        self.section.series()
    }

    fn content(&self, key: &Key, times: &Times) -> Option<Result<Arc<Content>, StoreError>> {
        Some(self.file.content(&self.section, self.section.place(key)?, times).map(Arc::new))
    }
}

/// Pieces of one node that overlap in time; later ones win.
pub(crate) struct Overlap<R> {
    pub pieces: Vec<R>,
    /// The times of the first and last row.
    pub first: u64,
    pub last: u64,
}

/// Puts pieces that overlap together, in the order of time. In each overlap they keep the order that they had.
pub(crate) fn overlaps<R: Rows>(pieces: Vec<R>) -> Vec<Overlap<R>> {
    let mut order: Vec<(usize, R)> = pieces.into_iter().enumerate().collect();
    order.sort_by_key(|(_, piece)| piece.span().0);
    let mut groups: Vec<Overlap<(usize, R)>> = Vec::new();
    for (number, piece) in order {
        let (first, last) = piece.span();
        match groups.last_mut() {
            Some(group) if first <= group.last => {
                group.pieces.push((number, piece));
                group.last = last.max(group.last);
            }
            _ => groups.push(Overlap { pieces: vec![(number, piece)], first, last }),
        }
    }
    let as_before = |Overlap { mut pieces, first, last }: Overlap<(usize, R)>| {
        pieces.sort_unstable_by_key(|(number, _)| *number);
        Overlap { pieces: pieces.into_iter().map(|(_, piece)| piece).collect(), first, last }
    };
    groups.into_iter().map(as_before).collect()
}

/// Rows of one node, joined.
pub(crate) struct Joined<R> {
    pieces: Vec<(R, Arc<Times>)>,
    pub times: Arc<Times>,
    /// For each piece, where its rows are.
    places: Vec<Places>,
}

/// Where the rows of a piece are among those of all.
enum Places {
    /// One after the other, from this one on.
    From(usize),
    /// Each at its own place.
    Each(Vec<usize>),
}

impl<R: Rows> Joined<R> {
    /// Joins sections; later ones win. All have one resolution. Pieces whose times are damaged are reported and left
    /// out.
    pub fn of(pieces: Vec<R>, damage: &mut Vec<StoreError>) -> Result<Self, StoreError> {
        let mut whole = Vec::new();
        for piece in pieces {
            match piece.times() {
                Ok(times) => whole.push((piece, times)),
                Err(error) => damage.push(error),
            }
        }
        let (times, places) = match &whole[..] {
            // One piece is joined already.
            [(_, times)] => (times.clone(), vec![Places::From(0)]),
            _ => {
                let all: Vec<&Times> = whole.iter().map(|(_, times)| &**times).collect();
                let (times, places) = chain_times(&all).unwrap_or_else(|| join_times(&all));
                (Arc::new(times), places)
            }
        };
        if times.rows() > ROWS_MAX {
            return Err(StoreError::TooMuch { what: "rows of a node in one file", limit: ROWS_MAX });
        }
        Ok(Joined { pieces: whole, times, places })
    }

    /// The pieces that are joined.
    pub fn pieces(&self) -> impl Iterator<Item = &R> {
        self.pieces.iter().map(|(piece, _)| piece)
    }

    /// All series as sections, each in the order of its columns. There is one, unless a metric changed its type: its other
    /// types are in further ones. No series is in two, so a roll-up has each of its buckets once.
    pub fn sections(&self) -> Vec<Vec<Series>> {
        let mut sections: Vec<HashMap<(&str, Option<&Instance>), &Series>> = vec![HashMap::new()];
        for one in self.pieces().flat_map(Rows::series) {
            let (name, format) = ((&*one.metric.name, one.instance.as_ref()), one.metric.format());
            let fits = |section: &HashMap<_, &Series>| {
                section.get(&name).is_none_or(|known| known.metric.format() == format)
            };
            match sections.iter().position(fits) {
                Some(section) => _ = sections[section].insert(name, one),
                None => sections.push(HashMap::from([(name, one)])),
            }
        }
        let sorted = |section: HashMap<_, &Series>| {
            let mut series: Vec<Series> = section.into_values().cloned().collect();
            series.sort_by(by_name);
            series
        };
        sections.into_iter().map(sorted).collect()
    }

    /// One series in all rows. Damaged columns are reported, and what other pieces have of the series remains.
    pub fn column(&self, key: &Key, damage: &mut Vec<StoreError>) -> Arc<Content> {
        let mut columns = Vec::new();
        for (number, (piece, times)) in self.pieces.iter().enumerate() {
            let Some(content) = piece.content(key, times) else { continue };
            match content {
                Ok(content) if self.pieces.len() == 1 => return content,
                Ok(content) => columns.push((content, &self.places[number])),
                Err(error) => damage.push(error),
            }
        }
        let is_rollup = columns.iter().any(|(content, _)| matches!(**content, Content::Summaries(_)));
        Arc::new(if is_rollup { self.summaries(&columns) } else { self.readings(&columns) })
    }

    fn readings(&self, columns: &[(Arc<Content>, &Places)]) -> Content {
        let tracks: Vec<_> = columns
            .iter()
            .filter_map(|(content, places)| match &**content {
                Content::Readings(track) => Some((track, *places)),
                Content::Summaries(_) => None,
            })
            .collect();
        Content::Readings(overlay(&tracks, self.times.rows(), &0))
    }

    fn summaries(&self, columns: &[(Arc<Content>, &Places)]) -> Content {
        let tracks: Vec<_> = columns
            .iter()
            .filter_map(|(content, places)| match &**content {
                Content::Summaries(track) => Some((track, *places)),
                Content::Readings(_) => None,
            })
            .collect();
        // The value of rows without a value is never seen.
        let any = tracks.iter().find_map(|(track, _)| track.values.first().copied());
        let any = any.unwrap_or_else(|| {
            let nothing = crate::Point { time: khz_model::Nanos(0), bits: 0 };
            Summary::of(khz_model::ValueType::Unsigned, nothing)
        });
        Content::Summaries(overlay(&tracks, self.times.rows(), &any))
    }
}

/// Lays tracks over each other, the later ones on top; `blank` fills rows without a value.
fn overlay<T: Copy>(tracks: &[(&Track<T>, &Places)], rows: usize, blank: &T) -> Track<T> {
    if let Some(begins) = one_after_the_other(tracks) {
        return Track::chained(tracks.iter().map(|(track, _)| *track).zip(begins), rows);
    }
    let (mut states, mut values, mut labels) = (vec![NO_READING; rows], vec![*blank; rows], Vec::new());
    for (track, places) in tracks {
        for (row, state, value) in track.rows().filter(|(_, state, _)| *state != NO_READING) {
            let place = places.of(row);
            states[place] = state;
            values[place] = value.unwrap_or(*blank);
        }
        labels.extend(track.labels.iter().cloned());
    }
    Track { labels, ..Track::of(&states, &values) }
}

impl Places {
    fn of(&self, row: usize) -> usize {
        match self {
            Places::From(first) => first + row,
            Places::Each(places) => places[row],
        }
    }

    /// The place of the first row, if no row of another piece is between those of this one.
    fn begin(&self) -> Option<usize> {
        match self {
            Places::From(first) => Some(*first),
            Places::Each(places) => {
                let (&begin, &last) = places.first().zip(places.last())?;
                // Places grow, so these are neighbours if nothing lies between the first and the last.
                (last - begin + 1 == places.len()).then_some(begin)
            }
        }
    }
}

/// The first row of each track, if they come one after the other: so they do unless rows came late.
fn one_after_the_other<T: Copy>(tracks: &[(&Track<T>, &Places)]) -> Option<Vec<usize>> {
    let (mut begins, mut end) = (Vec::with_capacity(tracks.len()), 0);
    for (track, places) in tracks {
        let begin = places.begin().filter(|begin| *begin >= end)?;
        begins.push(begin);
        end = begin + track.row_count();
    }
    Some(begins)
}

/// The times of pieces that come one after the other, and where each begins.
fn chain_times(all: &[&Times]) -> Option<(Times, Vec<Places>)> {
    if !all.is_sorted_by(|one, two| one.span().1 < two.span().0) {
        return None;
    }
    let mut at = Vec::with_capacity(all.iter().map(|times| times.rows()).sum());
    let mut places = Vec::with_capacity(all.len());
    for times in all {
        places.push(Places::From(at.len()));
        at.extend_from_slice(&times.at);
    }
    let beside = [0, 1].map(|n| Beside::chained(all.iter().map(|times| (&times.beside[n], times.rows()))));
    Some((Times::of(kind_of(all), at, beside), places))
}

/// The common kind of the rows.
fn kind_of(all: &[&Times]) -> Kind {
    all.first().map_or(Kind::Rows, |times| times.kind)
}

/// The times of all, in order, and for each the places of its rows.
fn join_times(all: &[&Times]) -> (Times, Vec<Places>) {
    let rows =
        all.iter().enumerate().flat_map(|(piece, times)| (0..times.rows()).map(move |row| (piece, row)));
    let mut order: Vec<(usize, usize)> = rows.collect();
    // The sort is stable and quick where most is in order: a later piece comes after an earlier one.
    order.sort_by_key(|&(piece, row)| all[piece].at[row]);
    let mut joined: Vec<u64> = Vec::new();
    let mut beside = [Vec::new(), Vec::new()];
    let mut places: Vec<Vec<usize>> = all.iter().map(|times| vec![0; times.rows()]).collect();
    for (piece, row) in order {
        let at = all[piece].at[row];
        let is_new = joined.last() != Some(&at);
        if is_new {
            joined.push(at);
        }
        for (beside, own) in beside.iter_mut().zip(&all[piece].beside) {
            if is_new {
                beside.push(own.of_row(row));
            } else if let Some(last) = beside.last_mut() {
                *last = own.of_row(row);
            }
        }
        places[piece][row] = joined.len() - 1;
    }
    let joined = Times::of(kind_of(all), joined, beside.map(Beside::of));
    (joined, places.into_iter().map(Places::Each).collect())
}
