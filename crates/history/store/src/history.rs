//! Answers questions about one series out of many files. Where files overlap in time, later ones win. Damage is reported beside the
//! answer. It reads one file at a time, and only the summary of a column if that is enough.

use std::sync::Arc;

use khz_model::{Nanos, NodeName, Reading, Stamp};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::joined::{Joined, Overlap, Piece, overlaps};
use crate::layout::Key;
use crate::merge::common_resolution;
use crate::summary::Summary;
use crate::sums::Sums;
use crate::times::Times;
use crate::writer::Content;

/// Files of one resolution; later ones win over earlier ones.
#[derive(Debug)]
pub struct History {
    files: Vec<Arc<ColumnFile>>,
}

/// An answer, and what could not be read for it.
#[derive(Debug)]
pub struct Answer<T> {
    /// What the files say.
    pub found: T,
    /// Damaged parts, which are missing.
    pub damage: Vec<StoreError>,
}

impl History {
    /// The history in these files.
    pub fn of<F: Into<Arc<ColumnFile>>>(files: Vec<F>) -> Result<Self, StoreError> {
        let files: Vec<Arc<ColumnFile>> = files.into_iter().map(Into::into).collect();
        common_resolution(&files)?;
        Ok(History { files })
    }

    /// The keys under which a node has a series of this name: one, unless its type changed.
    pub fn keys(&self, node: &NodeName, metric: &str) -> Answer<Vec<Key>> {
        let (mut found, mut damage) = (Vec::new(), Vec::new());
        for file in &self.files {
            match file.sections(node) {
                Ok(sections) => {
                    let series = sections.iter().flat_map(|section| section.series());
                    for key in series.filter(|series| series.metric.name == metric).map(Key::of) {
                        if !found.contains(&key) {
                            found.push(key);
                        }
                    }
                }
                Err(error) => damage.push(error),
            }
        }
        Answer { found, damage }
    }

    /// Calls `each` with every reading from `from` on and before `to`, in the order of their times. Roll-ups have
    /// readings of labels only, with the times of their buckets.
    pub fn range(
        &self,
        node: &NodeName,
        key: &Key,
        from: Nanos,
        to: Nanos,
        mut each: impl FnMut(Stamp, Reading),
    ) -> Result<Vec<StoreError>, StoreError> {
        let mut damage = Vec::new();
        for overlap in self.overlaps(node, key, from, to, &mut damage) {
            let (times, content) = decode(overlap, key, &mut damage)?;
            let Content::Readings(track) = &*content else { continue };
            let within = |(row, _): &(usize, Reading)| (from.0..to.0).contains(&times.at[*row]);
            track.readings().filter(within).for_each(|(row, reading)| each(times.stamp(row), reading));
        }
        Ok(damage)
    }

    /// The summary of the series for each `width` of the time from `from` on and before `to`; `None` if it had no value. A bucket
    /// of a roll-up counts where it begins.
    pub fn buckets(
        &self,
        node: &NodeName,
        key: &Key,
        from: Nanos,
        to: Nanos,
        width: Nanos,
    ) -> Result<Answer<Vec<Option<Summary>>>, StoreError> {
        let mut sums = Sums::new(key.format.value_type, from, (from, to), width)?;
        let mut damage = Vec::new();
        for overlap in self.overlaps(node, key, from, to, &mut damage) {
            if take_whole(&mut sums, &overlap, key, &mut damage) {
                continue;
            }
            let (times, content) = decode(overlap, key, &mut damage)?;
            match &*content {
                Content::Readings(track) => track.each_run(|row, values| {
                    sums.add(&times.at[row..row + values.len()], values);
                }),
                Content::Summaries(track) => {
                    track.each_value(|row, summary| sums.join(times.at[row], &summary));
                }
            }
        }
        Ok(Answer { found: sums.buckets, damage })
    }

    /// The summary of the series from `from` on and before `to`.
    pub fn totals(
        &self,
        node: &NodeName,
        key: &Key,
        from: Nanos,
        to: Nanos,
    ) -> Result<Answer<Option<Summary>>, StoreError> {
        let width = Nanos(to.0.saturating_sub(from.0).max(1));
        let Answer { mut found, damage } = self.buckets(node, key, from, to, width)?;
        Ok(Answer { found: found.pop().flatten(), damage })
    }

    /// The sections that have the series in this time, those that overlap together, in the order of their times.
    fn overlaps(
        &self,
        node: &NodeName,
        key: &Key,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> Vec<Overlap<Piece<'_>>> {
        let mut pieces = Vec::new();
        let is_within = |first: u64, last: u64| first < to.0 && last >= from.0;
        for file in self.files.iter().filter(|file| is_within(file.span().0.0, file.span().1.0)) {
            match file.sections(node) {
                Ok(sections) => pieces.extend(sections.into_iter().map(|section| Piece { file, section })),
                Err(error) => damage.push(error),
            }
        }
        pieces.retain(|Piece { section, .. }| {
            is_within(section.index.span.first, section.index.span.last) && section.place(key).is_some()
        });
        overlaps(pieces)
    }
}

/// The series in all rows of an overlap.
fn decode(
    overlap: Overlap<Piece<'_>>,
    key: &Key,
    damage: &mut Vec<StoreError>,
) -> Result<(Arc<Times>, Arc<Content>), StoreError> {
    let joined = Joined::of(overlap.pieces, damage)?;
    let content = joined.column(key, damage);
    Ok((joined.times, content))
}

/// Takes the summary of a column that lies in one bucket as a whole; false: it must be decoded.
fn take_whole(
    sums: &mut Sums,
    overlap: &Overlap<Piece<'_>>,
    key: &Key,
    damage: &mut Vec<StoreError>,
) -> bool {
    let [Piece { file, section }] = &overlap.pieces[..] else { return false };
    let Some(place) = section.place(key) else { return false };
    // The buckets of a roll-up tell more than its column does.
    if !sums.has_both(overlap.first, overlap.last) || file.resolution() != Nanos(0) {
        return false;
    }
    match file.summary(section, place) {
        Ok(None) => false,
        Ok(Some(summary)) => {
            summary.iter().for_each(|summary| sums.join(overlap.first, summary));
            true
        }
        Err(error) => {
            damage.push(error);
            true
        }
    }
}
