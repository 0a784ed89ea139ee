//! The history of a new file, or of a new archive, out of files that there are already: which values go where. It
//! opens nothing.
//!
//! A row comes from an archive with the same function and row length; failing that it is consolidated from finer
//! rows of the same function; failing that from points, which are made from the archives of averages. Each time the
//! first file that knows the value counts.

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
#[derive(Clone, Copy)]
struct Past<'a> {
    content: &'a Content,
    ds: usize,
}

/// What a new file of `definition` holds whose sources are filled from `files` as `mappings` say.
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
        archive(content, rra, ds, &[Past { content: &others, ds }]);
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
        Some(Past { content, ds })
    };
    chosen.filter_map(|(_, content)| find(content)).collect()
}

/// Fills one source of one archive.
fn archive(content: &mut Content, rra: usize, ds: usize, pasts: &[Past<'_>]) {
    let kept = content.archives[rra].archive.clone();
    let (width, step) = (content.sources.len(), content.step);
    let target = Target { archive: &kept, step, pasts };
    let seconds = (kept.points * step) as i64;
    let newest = content.newest(rra);
    for row in 0..kept.rows {
        let end = newest.saturating_sub((kept.rows - 1 - row).saturating_mul(seconds as u64) as i64);
        content.archives[rra].values[row as usize * width + ds] = target.row(end);
    }
    let same = |past: &&Past<'_>| past.is_now(content) && past.twin(&kept, step).is_some();
    let state = match pasts.iter().find(same).and_then(|past| Some((past, past.twin(&kept, step)?))) {
        Some((past, twin)) => twin.states[past.ds],
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
    pasts: &'a [Past<'a>],
}

impl Target<'_> {
    fn seconds(&self) -> i64 {
        (self.archive.points * self.step) as i64
    }

    /// The row that ends at `end`.
    fn row(&self, end: i64) -> f64 {
        let twin = |past: &Past<'_>| past.value(past.twin(self.archive, self.step)?, end);
        let known = |value: &f64| !value.is_nan();
        let plain = self.archive.function.is_plain();
        if plain && (self.archive.function == Function::Average || self.archive.points == 1) {
            // File by file, as rrdtool does it: coarse averages of one come before fine ones of the next.
            let row =
                |past: &Past<'_>| twin(past).filter(known).or_else(|| self.out_of_points(&[*past], end));
            return self.pasts.iter().find_map(row).unwrap_or(UNKNOWN);
        }
        if let Some(value) = self.pasts.iter().filter_map(twin).find(known) {
            return value;
        }
        if !plain {
            return UNKNOWN;
        }
        let finer = self.pasts.iter().map(|past| self.out_of_finer(past, end)).find(known);
        finer.or_else(|| self.out_of_points(self.pasts, end)).unwrap_or(UNKNOWN)
    }

    /// The row from the finest archive of the same function whose rows fill it exactly.
    fn out_of_finer(&self, past: &Past<'_>, end: i64) -> f64 {
        let fits = |state: &&ArchiveState| {
            let seconds = past.seconds(state);
            past.serves(state, self.archive.function)
                && self.seconds() % seconds == 0
                && seconds < self.seconds()
        };
        let mut finer: Vec<&ArchiveState> = past.content.archives.iter().filter(fits).collect();
        finer.sort_by_key(|state| past.seconds(state));
        for state in finer {
            let (seconds, count) = (past.seconds(state), self.seconds() / past.seconds(state));
            let values = (1..=count)
                .map(|row| past.value(state, end - self.seconds() + row * seconds).unwrap_or(UNKNOWN));
            let value = self.consolidated(values, count as u64);
            if !value.is_nan() {
                return value;
            }
        }
        UNKNOWN
    }

    /// The row out of points; `None` where they leave it unknown.
    fn out_of_points(&self, pasts: &[Past<'_>], end: i64) -> Option<f64> {
        let begin = end - self.seconds();
        if !pasts.iter().any(|past| past.covers(begin, end)) {
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
    fn point(&self, pasts: &[Past<'_>], end: i64) -> f64 {
        let step = self.step as i64;
        let of = |past: &Past<'_>| {
            let mut averages: Vec<&ArchiveState> =
                past.content.archives.iter().filter(|state| past.serves(state, Function::Average)).collect();
            averages.sort_by_key(|state| past.seconds(state));
            averages.into_iter().find_map(|state| {
                let seconds = past.seconds(state);
                let within = (end - step).div_euclid(seconds) + 1..=(end + seconds - 1).div_euclid(seconds);
                let known = within.filter_map(|row| past.value(state, row * seconds)).filter(|v| !v.is_nan());
                let (sum, count) = known.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
                // One value is to stay as it is.
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
                let value = self.point(self.pasts, newest + point * self.step as i64);
                row.gather(self.archive.function, value, 1);
            }
            layout::put_f64(&mut state, 8 * CDP_SECONDARY, self.point(self.pasts, newest));
            layout::put_f64(&mut state, 8 * CDP_VALUE, row.value);
            layout::put_u64(&mut state, 8 * CDP_UNKNOWN, row.unknown);
        }
        state
    }
}

impl<'a> Past<'a> {
    /// Whether its state is that of the same moment.
    fn is_now(&self, target: &Content) -> bool {
        self.content.last_update == target.last_update && self.content.step == target.step
    }

    fn seconds(&self, state: &ArchiveState) -> i64 {
        (state.archive.points * self.content.step) as i64
    }

    /// Whether rows of the archive are what `function` says: one point is its own average and extreme.
    fn serves(&self, state: &ArchiveState, function: Function) -> bool {
        let one = state.archive.points == 1 && state.archive.function.is_plain() && function.is_plain();
        state.archive.function == function || one
    }

    /// The archive with the same function and row length; of a season also with as many rows.
    fn twin(&self, archive: &Archive, step: u64) -> Option<&'a ArchiveState> {
        self.content.archives.iter().find(|state| {
            let whole = archive.function.is_plain() || state.archive.rows == archive.rows;
            let same = state.archive.function == archive.function || self.serves(state, archive.function);
            same && whole && self.seconds(state) == (archive.points * step) as i64
        })
    }

    /// The row that ends at `end`, if the archive reaches there.
    fn value(&self, state: &ArchiveState, end: i64) -> Option<f64> {
        let seconds = self.seconds(state);
        let newest = self.content.last_update.0 - self.content.last_update.0.rem_euclid(seconds);
        let back = newest.checked_sub(end)?;
        if back < 0 || back % seconds != 0 {
            return None;
        }
        let row = (state.archive.rows as i64 - 1).checked_sub(back / seconds).filter(|row| *row >= 0)?;
        state.values.get(row as usize * self.content.sources.len() + self.ds).copied()
    }

    /// Whether any archive has rows within (`from`, `to`].
    fn covers(&self, from: i64, to: i64) -> bool {
        let now = self.content.last_update.0;
        from < now
            && self.content.archives.iter().any(|state| {
                let reach = (state.archive.rows as i64).saturating_mul(self.seconds(state));
                to > now.saturating_sub(reach).saturating_sub(self.seconds(state))
            })
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
