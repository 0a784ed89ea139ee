//! Makes one file of several: the hour of its ten-minute files, an hour with its late rows, or a roll-up. Damage in the sources is
//! reported, and the rest is written.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::Path;

use khz_model::{Nanos, NodeName, Series};

use crate::StoreError;
use crate::disk::Disk;
use crate::file::ColumnFile;
use crate::joined::{Joined, Piece, Rows};
use crate::lane_of::lane_of;
use crate::layout::Key;
use crate::part_file::{PartFile, WholeFile};
use crate::rollup::Buckets;
use crate::room::Out;
use crate::shelf::Tier;
use crate::times::Times;
use crate::writer::{Content, OpenSection, Writer, Written};

/// A file that was made of others.
#[derive(Debug)]
pub struct Merged {
    /// What was written.
    pub written: Written,
    /// Parts of the sources that could not be read, and so are missing.
    pub damage: Vec<StoreError>,
}

/// Writes one file with everything that these files have. They have one resolution; later ones win.
pub fn merge(path: &Path, files: &[ColumnFile]) -> Result<Merged, StoreError> {
    let disk = Disk::default();
    let (file, damage) = merged(&disk, path, files)?;
    Ok(Merged { written: file.finish()?, damage })
}

/// The same, before the file gets its name.
pub(crate) fn merged<'a>(disk: &'a Disk, path: &Path, files: &[ColumnFile]) -> Result<Made<'a>, StoreError> {
    let resolution = common_resolution(files)?;
    make(disk, path, files, resolution, |joined, series, node, writer, damage| {
        writer.section(node, series, &joined.times, |place| {
            Ok::<_, StoreError>(joined.column(&Key::of(&series[place]), damage))
        })
    })
}

/// A file without its name, and what could not be read of what it was made of.
pub(crate) type Made<'a> = (PartFile<'a>, Vec<StoreError>);

/// Writes the roll-up of these files, with buckets of `resolution`: of rows as they were gathered, or of a finer
/// roll-up whose buckets `resolution` is a multiple of.
pub fn roll_up(path: &Path, files: &[ColumnFile], resolution: Nanos) -> Result<Merged, StoreError> {
    common_resolution(files)?;
    let disk = Disk::default();
    let (file, damage) = make(&disk, path, files, resolution, |joined, series, node, writer, damage| {
        let buckets = Buckets::of(&joined.times, resolution);
        writer.section(node, series, &buckets.times, |place| {
            let column = joined.column(&Key::of(&series[place]), damage);
            Ok::<_, StoreError>(rolled(&buckets, &column, &series[place], &joined.times))
        })
    })?;
    Ok(Merged { written: file.finish()?, damage })
}

/// A column in buckets.
fn rolled(buckets: &Buckets, column: &Content, series: &Series, times: &Times) -> Content {
    let value_type = series.metric.value_type;
    match column {
        Content::Readings(track) if is_number(value_type) => {
            Content::Summaries(buckets.roll(track, value_type, times))
        }
        Content::Readings(track) => Content::Readings(buckets.last(track)),
        Content::Summaries(track) => Content::Summaries(buckets.roll_again(track, value_type)),
    }
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

/// Files that are made of an hour's pieces in one pass, so that each column is unpacked once.
pub(crate) struct HourFiles<'a> {
    /// All rows.
    pub merged: PartFile<'a>,
    /// Their summaries, by minute and by hour.
    pub minutes: PartFile<'a>,
    pub hours: PartFile<'a>,
}

impl<'a> HourFiles<'a> {
    /// Fills all three. Returns what could not be read. After an error they can only be removed.
    pub fn fill(&mut self, files: &[ColumnFile]) -> Result<Vec<StoreError>, StoreError> {
        let mut damage = Vec::new();
        common_resolution(files)?;
        each_section(files, &mut damage, |node, joined, series, damage| {
            let minutes = Buckets::of(&joined.times, Tier::Minute.resolution());
            let hours = Buckets::of(&minutes.times, Tier::Hour.resolution());
            let mut rows = Part::begin(&mut self.merged, series, &joined.times)?;
            let mut by_minute = Part::begin(&mut self.minutes, series, &minutes.times)?;
            let mut by_hour = Part::begin(&mut self.hours, series, &hours.times)?;
            for place in rows.section.places() {
                let series = &series[place];
                let column = joined.column(&Key::of(series), damage);
                rows.column(&column, series)?;
                let column = rolled(&minutes, &column, series, &joined.times);
                by_minute.column(&column, series)?;
                by_hour.column(&rolled(&hours, &column, series, &minutes.times), series)?;
            }
            [rows, by_minute, by_hour].into_iter().try_for_each(|part| part.end(node))
        })?;
        Ok(damage)
    }

    /// Gives the roll-ups their names when all three files are complete. If there is no room for one of them, none is kept. After
    /// an error, all three are removed, or all have their names.
    pub fn finish_roll_ups(self) -> Result<WholeFile<'a>, StoreError> {
        let HourFiles { merged, minutes, hours } = self;
        let [minutes, hours, merged] = [minutes, hours, merged].map(PartFile::complete);
        let (minutes, hours, merged) = (minutes?, hours?, merged?);
        minutes.name(|| Ok(()))?;
        hours.name(|| Ok(()))?;
        Ok(merged)
    }

    /// Gives up.
    pub fn remove(self) {
        [self.merged, self.minutes, self.hours].into_iter().for_each(PartFile::remove);
    }
}

/// A section of one of these files.
struct Part<'a, 'd> {
    file: &'a mut PartFile<'d>,
    section: OpenSection,
    times: &'a Times,
}

impl<'a, 'd> Part<'a, 'd> {
    fn begin(file: &'a mut PartFile<'d>, series: &[Series], times: &'a Times) -> Result<Self, StoreError> {
        let section = file.write(|writer| Ok(writer.begin(series, times)?))?;
        Ok(Part { file, section, times })
    }

    fn column(&mut self, column: &Content, series: &Series) -> Result<(), StoreError> {
        let Part { file, section, times } = self;
        file.write(|writer| Ok(writer.column(section, column, series.metric.value_type, times)?))
    }

    fn end(self, node: &NodeName) -> Result<(), StoreError> {
        let Part { file, section, times } = self;
        file.write(|writer| Ok(writer.end(section, node, times)?))
    }
}

/// Writes the result of `write` for each node's joined sections. It gets the series of one section at a time.
fn make<'a>(
    disk: &'a Disk,
    path: &Path,
    files: &[ColumnFile],
    resolution: Nanos,
    mut write: impl FnMut(
        &Joined<Piece<'_>>,
        &[Series],
        &NodeName,
        &mut Writer<Out>,
        &mut Vec<StoreError>,
    ) -> Result<(), StoreError>,
) -> Result<Made<'a>, StoreError> {
    let mut damage = Vec::new();
    let mut file = PartFile::create(disk, path, resolution)?;
    let made = each_section(files, &mut damage, |node, joined, series, damage| {
        file.write(|writer| write(joined, series, node, writer, damage))
    });
    match made {
        Ok(()) => Ok((file, damage)),
        Err(error) => {
            file.remove();
            Err(error)
        }
    }
}

/// Calls `each` for every section that the joined files have: one for each lane of a node, or more if the type of a metric changed.
fn each_section(
    files: &[ColumnFile],
    damage: &mut Vec<StoreError>,
    mut each: impl FnMut(&NodeName, &Joined<Piece<'_>>, &[Series], &mut Vec<StoreError>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for node in nodes(files, damage) {
        for pieces in by_lane(pieces(files, &node, damage)) {
            let joined = Joined::of(pieces, damage)?;
            if joined.times.rows() == 0 {
                continue;
            }
            for series in joined.sections() {
                each(&node, &joined, &series, damage)?;
            }
        }
    }
    Ok(())
}

/// The pieces of each lane of a node, which are joined to one.
fn by_lane(pieces: Vec<Piece<'_>>) -> impl Iterator<Item = Vec<Piece<'_>>> {
    let mut lanes: BTreeMap<String, Vec<Piece<'_>>> = BTreeMap::new();
    for piece in pieces {
        lanes.entry(lane_of(piece.series()).to_owned()).or_default().push(piece);
    }
    lanes.into_values()
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
            Ok(sections) => {
                // All columns will be read. Where no read has waited, all of the file is in memory.
                if file.waits() > 0 {
                    sections.iter().for_each(|section| file.expect(section.extent()));
                }
                pieces.extend(sections.into_iter().map(|section| Piece { file, section }));
            }
            Err(error) => damage.push(error),
        }
    }
    pieces
}
