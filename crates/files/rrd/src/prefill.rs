//! The history of a new file, or of a new archive, from existing files: which values go where. Opens nothing.
//!
//! A row comes from the first of these that knows it; of several files the first one counts:
//!
//! 1. an archive with the same function and row length,
//! 2. finer rows of the same function, consolidated,
//! 3. points, which are made from the archives of averages.
//!
//! The work follows the rows that exist, never the points that a row stands for: a day of seconds is one run of points.

mod past;
mod points;
mod target;
#[cfg(test)]
mod tests;
mod work;

use crate::content::{ArchiveState, Content};
use crate::create;
use crate::ds::DataSource;
use crate::error::Result;
use crate::header::{Definition, Header};
use crate::layout::CDP_PREP;
use crate::number::UNKNOWN;
use crate::rra::Archive;

use past::{History, Past};
use target::Target;

/// The origin of a source's history: another name, and one of the files (from 0).
pub type Mapping = Option<(String, Option<usize>)>;

/// The values that all archives of a file share.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Seconds per point.
    step: u64,
    last_update: (i64, i64),
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
    let frame = Frame::of(&content);
    for ds in 0..content.sources.len() {
        let mapping = mappings.get(ds).and_then(Option::as_ref);
        let history = history(&content.sources[ds].source, mapping, files, frame);
        let now = || history.pasts.iter().filter(|past| past.is_now(frame));
        let reads = |past: &&Past<'_>| !past.content.sources[past.ds].last.starts_with(b"U");
        if let Some(past) = now().find(reads).or_else(|| now().next()) {
            let state = &past.content.sources[past.ds];
            let target = &mut content.sources[ds];
            (target.value, target.unknown) = (state.value, state.unknown);
            if state.source.kind == target.source.kind {
                target.last.clone_from(&state.last);
            }
        }
        for state in &mut content.archives {
            archive(state, ds, frame, &history);
        }
    }
    Ok(content)
}

/// Fills archive `rra` of a file, a new one, from its others.
pub fn archive_from_others(content: &mut Content, rra: usize) {
    let mut state = content.archives.remove(rra);
    let frame = Frame::of(content);
    for ds in 0..content.sources.len() {
        let history = History::new(vec![Past::new(content, ds, frame.step)]);
        archive(&mut state, ds, frame, &history);
    }
    content.archives.insert(rra, state);
}

/// The histories of the source in the files, in their order.
fn history<'a>(
    source: &DataSource,
    mapping: Option<&(String, Option<usize>)>,
    files: &'a [Content],
    frame: Frame,
) -> History<'a> {
    let (name, file) = mapping.map_or((&source.name, None), |(name, file)| (name, *file));
    let chosen = files.iter().enumerate().filter(|(index, _)| file.is_none_or(|file| file == *index));
    let find = |content: &'a Content| {
        let ds = content.sources.iter().position(|state| state.source.name == *name)?;
        Some(Past::new(content, ds, frame.step))
    };
    History::new(chosen.filter_map(|(_, content)| find(content)).collect())
}

/// Fills one source of one archive, whose rows are unknown so far.
fn archive(state: &mut ArchiveState, ds: usize, frame: Frame, history: &History<'_>) {
    let kept = &state.archive;
    let target = Target::new(kept, frame.step, history);
    let (rows, width) = (kept.rows as usize, state.states.len());
    let newest = frame.newest(kept);
    for back in target.rows_with_history(newest) {
        let end = newest.saturating_sub(target.seconds().saturating_mul(back as i64));
        state.values[(rows - 1 - back) * width + ds] = target.row(end);
    }
    let now = history.pasts.iter().filter(|past| past.is_now(frame));
    let twin = now.filter_map(|past| Some((past, past.twin(kept, frame.step)?))).next();
    state.states[ds] = match twin {
        Some((past, twin)) => twin.state.states[past.ds],
        None if kept.function.is_plain() => target.open_row(newest, frame.last_update.0, state.states[ds]),
        None => return,
    };
}

impl Frame {
    fn of(content: &Content) -> Self {
        Self { step: content.step, last_update: content.last_update }
    }

    /// The end of the newest row.
    fn newest(&self, archive: &Archive) -> i64 {
        let seconds = (archive.points * self.step) as i64;
        self.last_update.0 - self.last_update.0.rem_euclid(seconds)
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
}
