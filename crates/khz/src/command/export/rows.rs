//! The chosen rows of a recording, one by one, and the columns that they share.

use std::collections::HashMap;

use khz_block::Decoder;
use khz_model::{Absence, Reading, Series, ValueFormat};
use khz_record::Event;

use crate::command::recording::{Opened, of_error};
use crate::show::outcome::Failure;

/// Passes every chosen row to `take`, until that fails.
pub fn each_row(
    opened: &Opened,
    columns: &Columns,
    mut take: impl FnMut(&Line<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut slots: Vec<Vec<Slot>> = vec![Vec::new(); opened.survey.lanes.len()];
    let mut problem: Option<Failure> = None;
    let read = opened.recording.read(|event| match event {
        _ if problem.is_some() => {}
        Event::Columns(lane, series) => slots[lane] = slots_of(opened, lane, &series, &columns.places),
        Event::Block(block) => {
            let lane = block.lane;
            block.rows(|number, row| {
                if problem.is_some() || slots[lane].is_empty() || !opened.holds(row.stamp().real()) {
                    return;
                }
                let line = Line { opened, lane, number, row, slots: &slots[lane], columns: &columns.series };
                problem = take(&line).err();
            });
        }
        _ => {}
    });
    match problem {
        Some(failure) => Err(failure),
        None => read.map(|_| ()).map_err(of_error),
    }
}

/// The series of all nodes, each once, and the column of each.
pub struct Columns {
    /// In the order of the columns.
    pub series: Vec<Series>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// The columns that the flags choose.
    pub fn of(opened: &Opened) -> Self {
        let (mut columns, mut places) = (Vec::new(), HashMap::new());
        for lane in &opened.survey.lanes {
            for series in lane.series.iter().filter(|series| lane.selects(&opened.patterns, series)) {
                places.entry(series.to_string()).or_insert_with(|| {
                    columns.push(series.clone());
                    columns.len() - 1
                });
            }
        }
        Columns { series: columns, places }
    }
}

/// A chosen slot of a lane. Two nodes may publish a series of one name with decimal places of their own.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Its number in the lane.
    pub slot: usize,
    /// The column of its series.
    pub column: usize,
    /// How its values are read.
    pub format: ValueFormat,
}

fn slots_of(opened: &Opened, lane: usize, series: &[Series], places: &HashMap<String, usize>) -> Vec<Slot> {
    let survey = &opened.survey.lanes[lane];
    let chosen = series.iter().enumerate().filter(|(_, series)| survey.selects(&opened.patterns, series));
    let slot = |(slot, series): (usize, &Series)| {
        let column = *places.get(&series.to_string())?;
        Some(Slot { slot, column, format: series.metric.format() })
    };
    chosen.filter_map(slot).collect()
}

/// One row to be written.
pub struct Line<'a> {
    /// The recording.
    pub opened: &'a Opened,
    /// The lane in the recording.
    pub lane: usize,
    /// The number of the row in its lane.
    pub number: u64,
    /// The row.
    pub row: &'a Decoder,
    /// The chosen slots of the lane.
    pub slots: &'a [Slot],
    /// All columns.
    pub columns: &'a [Series],
}

impl Line<'_> {
    /// The reading in a slot.
    pub fn reading(&self, slot: usize) -> Reading {
        self.row.reading(slot).unwrap_or(Reading::Absent(Absence::NotYet))
    }

    /// The node of the row.
    #[cfg(feature = "parquet")]
    pub fn node(&self) -> &str {
        &self.opened.survey.lanes[self.lane].lane.node
    }

    /// When it was gathered.
    #[cfg(feature = "parquet")]
    pub fn stamp(&self) -> khz_model::Stamp {
        self.row.stamp()
    }

    /// The readings that have a value: column, reading, and how it is read.
    #[cfg(feature = "parquet")]
    pub fn values(&self) -> impl Iterator<Item = (usize, Reading, ValueFormat)> {
        let cells = self.slots.iter().map(|slot| (slot.column, self.reading(slot.slot), slot.format));
        cells.filter(|(_, reading, _)| matches!(reading, Reading::Present(_) | Reading::Labels(_)))
    }
}
