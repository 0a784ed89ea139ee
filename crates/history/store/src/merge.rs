//! Makes one file of several: the hour of its ten-minute files, an hour with its supplements, or a roll-up. What is
//! damaged in the sources is reported, and the rest is written.

use std::path::Path;

use khz_model::{Nanos, NodeName, Series};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::joined::{Joined, Piece};
use crate::layout::Key;
use crate::rollup::Buckets;
use crate::writer::{Content, Writer, Written, write_file};

/// A file that was made of others.
#[derive(Debug)]
pub struct Merged {
    /// What was written.
    pub written: Written,
    /// What could not be read of the sources, and so is missing.
    pub damage: Vec<StoreError>,
}

/// Writes one file with everything that these files have. They have one resolution; later ones win.
pub fn merge(path: &Path, files: &[ColumnFile]) -> Result<Merged, StoreError> {
    let resolution = common_resolution(files)?;
    make(path, files, resolution, |joined, series, node, writer, damage| {
        writer.section(node, series, &joined.times, |place| {
            Ok::<_, StoreError>(joined.column(&Key::of(&series[place]), damage))
        })
    })
}

/// Writes the roll-up of these files, with buckets of `resolution`: of rows as they were gathered, or of a finer
/// roll-up whose buckets `resolution` is a multiple of.
pub fn roll_up(path: &Path, files: &[ColumnFile], resolution: Nanos) -> Result<Merged, StoreError> {
    common_resolution(files)?;
    make(path, files, resolution, |joined, series, node, writer, damage| {
        let buckets = Buckets::of(&joined.times, resolution);
        writer.section(node, series, &buckets.times, |place| {
            let (key, value_type) = (Key::of(&series[place]), series[place].metric.value_type);
            Ok::<_, StoreError>(match joined.column(&key, damage) {
                Content::Readings(track) if is_number(value_type) => {
                    Content::Summaries(buckets.roll(&track, value_type, &joined.times))
                }
                Content::Readings(track) => Content::Readings(buckets.last(&track)),
                Content::Summaries(track) => Content::Summaries(buckets.roll_again(&track, value_type)),
            })
        })
    })
}

fn is_number(value_type: khz_model::ValueType) -> bool {
    !matches!(value_type, khz_model::ValueType::Labels | khz_model::ValueType::Unknown)
}

/// The one length of all files' buckets.
pub(crate) fn common_resolution(files: &[ColumnFile]) -> Result<Nanos, StoreError> {
    let expected = files.first().map_or(Nanos(0), ColumnFile::resolution);
    match files.iter().find(|file| file.resolution() != expected) {
        None => Ok(expected),
        Some(file) => Err(StoreError::OtherResolution {
            path: file.path().to_owned(),
            found: file.resolution(),
            expected,
        }),
    }
}

/// Writes what `write` makes of each node's joined sections: a section for each list of series.
fn make(
    path: &Path,
    files: &[ColumnFile],
    resolution: Nanos,
    mut write: impl FnMut(
        &Joined<Piece<'_>>,
        &[Series],
        &NodeName,
        &mut Writer<std::io::BufWriter<std::fs::File>>,
        &mut Vec<StoreError>,
    ) -> Result<(), StoreError>,
) -> Result<Merged, StoreError> {
    let mut damage = Vec::new();
    let written = write_file(path, resolution, |writer| {
        for node in nodes(files, &mut damage) {
            // A series is in one section only: of a bucket of a roll-up, two sections would each have a part.
            let joined = Joined::of(pieces(files, &node, &mut damage), &mut damage)?;
            for series in joined.layers().iter().filter(|_| joined.times.rows() > 0) {
                write(&joined, series, &node, writer, &mut damage)?;
            }
        }
        Ok(())
    })?;
    Ok(Merged { written, damage })
}

/// The nodes of all files, each once.
fn nodes(files: &[ColumnFile], damage: &mut Vec<StoreError>) -> Vec<NodeName> {
    let mut all = Vec::new();
    for file in files {
        let (nodes, damaged) = file.nodes();
        all.extend(nodes);
        damage.extend(damaged);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The sections of a node. A page of a directory that is damaged was reported when the nodes were listed.
fn pieces<'a>(files: &'a [ColumnFile], node: &NodeName, damage: &mut Vec<StoreError>) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for file in files {
        match file.sections(node) {
            Ok(sections) => pieces.extend(sections.into_iter().map(|section| Piece { file, section })),
            Err(error) => damage.push(error),
        }
    }
    pieces
}
