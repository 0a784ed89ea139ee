//! The history of a new file, or of a new archive, from existing files: which values go where. Opens nothing.
//!
//! A row comes from the first of these that knows it; of several files the first one counts:
//!
//! 1. an archive with the same function and row length,
//! 2. finer rows of the same function, consolidated,
//! 3. points, which are made from the archives of averages.

use crate::cdp::{self, Fall};
use crate::content::{ArchiveState, Content};
use crate::create;
use crate::ds::DataSource;
use crate::error::Result;
use crate::header::{CDP_PRIMARY, CDP_SECONDARY, CDP_UNKNOWN, CDP_VALUE, Definition, Header};
use crate::layout::{self, CDP_PREP};
use crate::number::UNKNOWN;
use crate::rra::{Archive, Function, PAR_XFF};

/// Where a source's history is to come from: another name, and one of the files (from 0).
pub type Mapping = Option<(String, Option<usize>)>;

/// A source in a file that has history for it.
struct Past<'a> {
    content: &'a Content,
    ds: usize,
    /// The file's archives, the finest first.
    archives: Vec<Kept<'a>>,
}

/// One source of one archive.
struct Kept<'a> {
    state: &'a ArchiveState,
    /// Seconds a row.
    seconds: i64,
    /// The end of the newest row.
    newest: i64,
    /// For each row, how many before it are known: so a time without values is skipped at once.
    known: Vec<u32>,
}

/// The content of a new file of `definition`, whose sources are filled from `files` as `mappings` say.
///
/// # Errors
/// A definition too large for memory.
pub fn fill(
    definition: Definition,
    last_update: (i64, i64),
    mappings: &[Mapping],
    files: &[Content],
) -> Result<Content> {
    let mut content = Content::fresh(create::header(definition, last_update.0, |_, _| 0)?);
    content.last_update = last_update;
    for ds in 0..content.sources.len() {
        let mapping = mappings.get(ds).and_then(Option::as_ref);
        let pasts = pasts(&content.sources[ds].source, mapping, files);
        let now = || pasts.iter().filter(|past| past.is_now(&content));
        let reads = |past: &&Past<'_>| !past.content.sources[past.ds].last.starts_with(b"U");
        if let Some(past) = now().find(reads).or_else(|| now().next()) {
            let state = &past.content.sources[past.ds];
            let target = &mut content.sources[ds];
            (target.value, target.unknown) = (state.value, state.unknown);
            if state.source.kind == target.source.kind {
                target.last.clone_from(&state.last);
            }
        }
        for rra in 0..content.archives.len() {
            archive(&mut content, rra, ds, &pasts);
        }
    }
    Ok(content)
}

/// Fills archive `rra` of a file, a new one, from its others.
pub fn archive_from_others(content: &mut Content, rra: usize) {
    let mut others = content.clone();
    others.archives.remove(rra);
    for ds in 0..content.sources.len() {
        archive(content, rra, ds, &[Past::new(&others, ds)]);
    }
}

/// The files that know the source, in their order.
fn pasts<'a>(
    source: &DataSource,
    mapping: Option<&(String, Option<usize>)>,
    files: &'a [Content],
) -> Vec<Past<'a>> {
    let (name, file) = mapping.map_or((&source.name, None), |(name, file)| (name, *file));
    let chosen = files.iter().enumerate().filter(|(index, _)| file.is_none_or(|file| file == *index));
    let find = |content: &'a Content| {
        let ds = content.sources.iter().position(|state| state.source.name == *name)?;
        Some(Past::new(content, ds))
    };
    chosen.filter_map(|(_, content)| find(content)).collect()
}

/// Fills one source of one archive.
fn archive(content: &mut Content, rra: usize, ds: usize, pasts: &[Past<'_>]) {
    let kept = content.archives[rra].archive.clone();
    let (width, step) = (content.sources.len(), content.step);
    let target = Target::new(&kept, step, pasts);
    let seconds = (kept.points * step) as i64;
    let newest = content.newest(rra);
    for row in 0..kept.rows {
        let end = newest.saturating_sub((kept.rows - 1 - row).saturating_mul(seconds as u64) as i64);
        content.archives[rra].values[row as usize * width + ds] = target.row(end);
    }
    let now = pasts.iter().filter(|past| past.is_now(content));
    let state = match now.filter_map(|past| Some((past, past.twin(&kept, step)?))).next() {
        Some((past, twin)) => twin.state.states[past.ds],
        None if kept.function.is_plain() => {
            target.open_row(newest, content.last_update.0, content.archives[rra].states[ds])
        }
        None => return,
    };
    content.archives[rra].states[ds] = state;
}

/// One source of the archive to be filled.
struct Target<'a> {
    archive: &'a Archive,
    step: u64,
    pasts: Vec<Fitting<'a>>,
}

/// The parts of a file that an archive can be filled from.
struct Fitting<'a> {
    past: &'a Past<'a>,
    twin: Option<&'a Kept<'a>>,
    /// Archives of the same function whose rows fill a row exactly.
    finer: Vec<&'a Kept<'a>>,
    /// Archives of averages.
    averages: Vec<&'a Kept<'a>>,
}

impl<'a> Target<'a> {
    fn new(archive: &'a Archive, step: u64, pasts: &'a [Past<'a>]) -> Self {
        let seconds = (archive.points * step) as i64;
        let fitting = |past: &'a Past<'a>| {
            let serves = |function| past.archives.iter().filter(move |kept| kept.serves(function));
            let fits = |kept: &&Kept<'_>| seconds % kept.seconds == 0 && kept.seconds < seconds;
            Fitting {
                past,
                twin: past.twin(archive, step),
                finer: serves(archive.function).filter(fits).collect(),
                averages: serves(Function::Average).collect(),
            }
        };
        Self { archive, step, pasts: pasts.iter().map(fitting).collect() }
    }

    fn seconds(&self) -> i64 {
        (self.archive.points * self.step) as i64
    }

    /// The row that ends at `end`.
    fn row(&self, end: i64) -> f64 {
        let twin = |of: &Fitting<'_>| of.past.value(of.twin?, end);
        let known = |value: &f64| !value.is_nan();
        let plain = self.archive.function.is_plain();
        if plain && (self.archive.function == Function::Average || self.archive.points == 1) {
            // File by file, as in rrdtool: coarse averages of one come before fine ones of the next.
            let row = |of: &Fitting<'_>| {
                twin(of).filter(known).or_else(|| self.out_of_points(std::slice::from_ref(of), end))
            };
            return self.pasts.iter().find_map(row).unwrap_or(UNKNOWN);
        }
        if let Some(value) = self.pasts.iter().filter_map(twin).find(known) {
            return value;
        }
        if !plain {
            return UNKNOWN;
        }
        let finer = self.pasts.iter().map(|of| self.out_of_finer(of, end)).find(known);
        finer.or_else(|| self.out_of_points(&self.pasts, end)).unwrap_or(UNKNOWN)
    }

    /// The row from the finest archive of the same function whose rows fill it exactly.
    fn out_of_finer(&self, of: &Fitting<'_>, end: i64) -> f64 {
        let begin = end - self.seconds();
        for kept in of.finer.iter().filter(|kept| kept.knows(begin, end)) {
            let count = self.seconds() / kept.seconds;
            let values =
                (1..=count).map(|row| of.past.value(kept, begin + row * kept.seconds).unwrap_or(UNKNOWN));
            let value = self.consolidated(values, count as u64);
            if !value.is_nan() {
                return value;
            }
        }
        UNKNOWN
    }

    /// The row made of points; `None` where they leave it unknown.
    fn out_of_points(&self, pasts: &[Fitting<'_>], end: i64) -> Option<f64> {
        let begin = end - self.seconds();
        let knows = |of: &Fitting<'_>| of.averages.iter().any(|kept| kept.knows(begin, end));
        if !pasts.iter().any(knows) {
            return None;
        }
        let end_of = |point: u64| begin + (point * self.step) as i64;
        let points = (1..=self.archive.points).map(|point| self.point(pasts, end_of(point)));
        Some(self.consolidated(points, self.archive.points)).filter(|value| !value.is_nan())
    }

    /// `values` made one row as an update would make it.
    fn consolidated(&self, values: impl Iterator<Item = f64>, count: u64) -> f64 {
        let mut row = cdp::Row::empty(self.archive.function);
        let (mut left, xff) = (count, self.archive.f64(PAR_XFF));
        for value in values {
            left -= 1;
            if left > 0 {
                row.gather(self.archive.function, value, 1);
            } else {
                let fall = Fall { steps: 1, missing: 1, rows: 1, left: 0 };
                return row.complete(self.archive.function, value, fall, count, xff).0;
            }
        }
        UNKNOWN
    }

    /// The point that ends at `end`: the mean of finer rows, or the row it lies in.
    fn point(&self, pasts: &[Fitting<'_>], end: i64) -> f64 {
        let step = self.step as i64;
        let of = |of: &Fitting<'_>| {
            of.averages.iter().find_map(|kept| {
                if !kept.knows(end - step, end) {
                    return None;
                }
                let seconds = kept.seconds;
                let within = (end - step).div_euclid(seconds) + 1..=(end + seconds - 1).div_euclid(seconds);
                let known =
                    within.filter_map(|row| of.past.value(kept, row * seconds)).filter(|v| !v.is_nan());
                let (sum, count) = known.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
                // A single value stays as it is.
                (count > 0).then(|| if count == 1 { sum } else { sum / f64::from(count) })
            })
        };
        pasts.iter().find_map(of).unwrap_or(UNKNOWN)
    }

    /// The state of the row that is open at `now`, the newest complete one ending at `newest`.
    fn open_row(&self, newest: i64, now: i64, mut state: [u8; CDP_PREP]) -> [u8; CDP_PREP] {
        let points = (now - newest) / self.step as i64;
        layout::put_f64(&mut state, 8 * CDP_PRIMARY, self.row(newest));
        if self.archive.points > 1 {
            let mut row = cdp::Row::empty(self.archive.function);
            for point in 1..=points {
                let value = self.point(&self.pasts, newest + point * self.step as i64);
                row.gather(self.archive.function, value, 1);
            }
            layout::put_f64(&mut state, 8 * CDP_SECONDARY, self.point(&self.pasts, newest));
            layout::put_f64(&mut state, 8 * CDP_VALUE, row.value);
            layout::put_u64(&mut state, 8 * CDP_UNKNOWN, row.unknown);
        }
        state
    }
}

impl<'a> Past<'a> {
    fn new(content: &'a Content, ds: usize) -> Self {
        let mut archives: Vec<Kept<'a>> =
            content.archives.iter().map(|state| Kept::new(content, state, ds)).collect();
        archives.sort_by_key(|kept| kept.seconds);
        Self { content, ds, archives }
    }

    /// Whether its state is that of the same moment.
    fn is_now(&self, target: &Content) -> bool {
        self.content.last_update == target.last_update && self.content.step == target.step
    }

    /// The archive with the same function and row length; of a season also with as many rows.
    fn twin(&self, archive: &Archive, step: u64) -> Option<&Kept<'a>> {
        // In the file's order.
        let of = |state: &ArchiveState| self.archives.iter().find(|kept| std::ptr::eq(kept.state, state));
        let fits = |kept: &&Kept<'_>| {
            let whole = archive.function.is_plain() || kept.state.archive.rows == archive.rows;
            kept.serves(archive.function) && whole && kept.seconds == (archive.points * step) as i64
        };
        self.content.archives.iter().filter_map(of).find(fits)
    }

    /// The row that ends at `end`, if the archive reaches there.
    fn value(&self, kept: &Kept<'_>, end: i64) -> Option<f64> {
        let back = kept.newest.checked_sub(end)?;
        if back < 0 || back % kept.seconds != 0 {
            return None;
        }
        let rows = kept.state.archive.rows as i64;
        let row = (rows - 1).checked_sub(back / kept.seconds).filter(|row| *row >= 0)?;
        kept.state.values.get(row as usize * self.content.sources.len() + self.ds).copied()
    }
}

impl<'a> Kept<'a> {
    fn new(content: &Content, state: &'a ArchiveState, ds: usize) -> Self {
        let seconds = (state.archive.points * content.step) as i64;
        let newest = content.last_update.0 - content.last_update.0.rem_euclid(seconds);
        let mut count = 0;
        let mut known = Vec::with_capacity(state.archive.rows as usize + 1);
        known.push(0);
        for row in state.values.chunks_exact(content.sources.len()) {
            count += u32::from(!row[ds].is_nan());
            known.push(count);
        }
        Self { state, seconds, newest, known }
    }

    /// Whether its rows are those of `function`: one point is its own average and extreme.
    fn serves(&self, function: Function) -> bool {
        let archive = &self.state.archive;
        let one = archive.points == 1 && archive.function.is_plain() && function.is_plain();
        archive.function == function || one
    }

    /// Whether a row that lies, in part at least, in (`from`, `to`] is known.
    fn knows(&self, from: i64, to: i64) -> bool {
        let rows = self.known.len() as i64 - 1;
        // Rows are counted from the oldest; the newest ends at `newest`.
        let row = |time: i64| rows - 1 - (self.newest - time).div_euclid(self.seconds);
        let (first, last) = (row(from + 1), row(to));
        let (first, end) = (first.clamp(0, rows) as usize, (last + 1).clamp(0, rows) as usize);
        first < end && self.known[end] > self.known[first]
    }
}

impl Content {
    /// The content of a header whose rows are all unknown.
    fn fresh(header: Header) -> Self {
        let width = header.sources().len();
        let archive = |(rra, archive): (usize, &Archive)| ArchiveState {
            archive: archive.clone(),
            states: (0..width)
                .map(|ds| header.cdp_bytes(rra, ds).try_into().unwrap_or([0; CDP_PREP]))
                .collect(),
            values: vec![UNKNOWN; archive.rows as usize * width],
        };
        let archives = header.archives().iter().enumerate().map(archive).collect();
        Content::with_archives(&header, archives)
    }

    /// The end of the newest row of archive `rra`.
    fn newest(&self, rra: usize) -> i64 {
        let seconds = (self.archives[rra].archive.points * self.step) as i64;
        self.last_update.0 - self.last_update.0.rem_euclid(seconds)
    }
}
