//! Makes one file of several: the hour of its ten-minute files, an hour with its late rows, or a roll-up. What is
//! damaged in the sources is reported, and the rest is written.

use std::borrow::Borrow;
use std::path::Path;

use khz_model::{Nanos, NodeName, Series};

use crate::StoreError;
use crate::disk::Disk;
use crate::file::ColumnFile;
use crate::joined::{Joined, Piece};
use crate::layout::Key;
use crate::rollup::Buckets;
use crate::writer::{Content, PartFile, Writer, Written};

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
    merge_on(&Disk::default(), path, files, |_| Ok(()))
}

/// The same on a disk. `before` is called when the file is whole, before it gets its name; it gets the damage.
pub(crate) fn merge_on(
    disk: &Disk,
    path: &Path,
    files: &[ColumnFile],
    before: impl FnOnce(&mut Vec<StoreError>) -> Result<(), StoreError>,
) -> Result<Merged, StoreError> {
    let resolution = common_resolution(files)?;
    make(disk, path, files, resolution, before, |joined, series, node, writer, damage| {
        writer.section(node, series, &joined.times, |place| {
            Ok::<_, StoreError>(joined.column(&Key::of(&series[place]), damage))
        })
    })
}

/// Writes the roll-up of these files, with buckets of `resolution`: of rows as they were gathered, or of a finer
/// roll-up whose buckets `resolution` is a multiple of.
pub fn roll_up(path: &Path, files: &[ColumnFile], resolution: Nanos) -> Result<Merged, StoreError> {
    roll_up_on(&Disk::default(), path, files, resolution, |_| Ok(()))
}

/// The same on a disk.
pub(crate) fn roll_up_on(
    disk: &Disk,
    path: &Path,
    files: &[ColumnFile],
    resolution: Nanos,
    before: impl FnOnce(&mut Vec<StoreError>) -> Result<(), StoreError>,
) -> Result<Merged, StoreError> {
    common_resolution(files)?;
    make(disk, path, files, resolution, before, |joined, series, node, writer, damage| {
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
pub(crate) fn common_resolution<F: Borrow<ColumnFile>>(files: &[F]) -> Result<Nanos, StoreError> {
    let mut files = files.iter().map(Borrow::borrow);
    let expected = files.clone().next().map_or(Nanos(0), ColumnFile::resolution);
    match files.find(|file| file.resolution() != expected) {
        None => Ok(expected),
        Some(file) => Err(StoreError::OtherResolution {
            path: file.path().to_owned(),
            found: file.resolution(),
            expected,
        }),
    }
}

/// Writes what `write` makes of each node's joined sections. It gets the series of one section at a time.
fn make(
    disk: &Disk,
    path: &Path,
    files: &[ColumnFile],
    resolution: Nanos,
    before: impl FnOnce(&mut Vec<StoreError>) -> Result<(), StoreError>,
    mut write: impl FnMut(
        &Joined<Piece<'_>>,
        &[Series],
        &NodeName,
        &mut Writer<std::io::BufWriter<std::fs::File>>,
        &mut Vec<StoreError>,
    ) -> Result<(), StoreError>,
) -> Result<Merged, StoreError> {
    let mut damage = Vec::new();
    let mut file = PartFile::create(disk, path, resolution)?;
    let made = file.write(|writer| {
        for node in nodes(files, &mut damage) {
            let joined = Joined::of(pieces(files, &node, &mut damage), &mut damage)?;
            if joined.times.rows() == 0 {
                continue;
            }
            for series in joined.sections() {
                write(&joined, &series, &node, writer, &mut damage)?;
            }
        }
        Ok(())
    });
    if let Err(error) = made {
        file.remove();
        return Err(error);
    }
    let written = file.finish(|| before(&mut damage))?;
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
