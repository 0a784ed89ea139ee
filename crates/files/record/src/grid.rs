//! Series of a recording on one grid of time, so that series of different nodes and lanes can be compared. Counters are
//! rates. Series beyond the limits are left out and counted.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Nanos, Pattern, Series};

use crate::RecordError;
use crate::growth::{Growth, Measure};
use crate::recording::{Event, Recording};
use crate::survey::{Survey, selects};

/// How much a grid may hold.
#[derive(Clone, Copy, Debug)]
pub struct GridLimits {
    /// Series.
    pub series: usize,
    /// Samples of each series. A longer recording is averaged into this many.
    pub samples: usize,
    /// Samples of all series together.
    pub values: usize,
}

impl Default for GridLimits {
    fn default() -> Self {
        GridLimits { series: 20_000, samples: 20_000, values: 32 << 20 }
    }
}

/// One series on the grid.
#[derive(Clone, Debug)]
pub struct GridSeries {
    /// The node.
    pub node: Arc<str>,
    /// The series.
    pub series: Series,
    /// A number for each moment of the grid; NaN: unknown.
    pub samples: Vec<f32>,
}

impl GridSeries {
    /// `node:metric[instance]`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.node, self.series)
    }
}

/// Series at the same moments.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The moment of the first sample, by the wall clock.
    pub start: Nanos,
    /// Time between two samples.
    pub step: Nanos,
    /// How many rows a sample is the mean of; 1: each row has its own sample.
    pub rows_a_sample: u64,
    /// The series.
    pub series: Vec<GridSeries>,
    /// Series that were selected, and for which there was no room.
    pub left_out: usize,
}

/// The place of each series, by node and name.
type Places = HashMap<Arc<str>, HashMap<String, usize>>;

/// A series while its samples are summed up.
struct Cells {
    sums: Vec<f32>,
    counts: Vec<u16>,
    growth: Growth,
    /// The lane of the last row. A counter begins again when the agent was restarted, which makes a new lane.
    lane: Option<usize>,
}

impl Grid {
    /// The series that the patterns select, over the whole recording. The step is the period of the first lane that `step_of`
    /// selects, so that samples of this lane keep their values.
    pub fn of(
        recording: &Recording,
        survey: &Survey,
        patterns: &[Pattern],
        step_of: &[Pattern],
        limits: GridLimits,
    ) -> Result<Self, RecordError> {
        let Some((start, end)) = survey.span() else { return Ok(Grid::default()) };
        let lane = survey.lanes.iter().find(|lane| lane.rows > 0 && lane.is_selected(step_of));
        // A lane whose rows come at any time has no period.
        let period = lane.map(|lane| lane.period).filter(|period| *period > Nanos(0));
        let period = period.unwrap_or(Nanos::SECOND).0;
        let rows = end.since(start).0 / period + 1;
        let rows_a_sample = rows.div_ceil(limits.samples.max(1) as u64).max(1);
        let step = Nanos(period.saturating_mul(rows_a_sample));
        let samples = (end.since(start).0 / step.0 + 2) as usize;
        let mut grid = Grid { start, step, rows_a_sample, ..Grid::default() };
        let places = grid.choose(survey, patterns, step_of, limits, samples);
        grid.fill(recording, survey, &places, samples)?;
        Ok(grid)
    }

    /// Chooses the series and their places. Series that `first` selects come first, so that the limits cut other
    /// series.
    fn choose(
        &mut self,
        survey: &Survey,
        patterns: &[Pattern],
        first: &[Pattern],
        limits: GridLimits,
        samples: usize,
    ) -> Places {
        let most = limits.series.min(limits.values / samples.max(1));
        let mut places = Places::new();
        for is_first in [true, false] {
            for lane in &survey.lanes {
                for series in &lane.series {
                    let is_step = !first.is_empty() && lane.selects(first, series);
                    if is_step != is_first || !(is_step || lane.selects(patterns, series)) {
                        continue;
                    }
                    let of_node = places.entry(lane.lane.node.clone()).or_default();
                    if of_node.contains_key(&series.to_string()) {
                        continue;
                    }
                    if self.series.len() >= most {
                        self.left_out += 1;
                        continue;
                    }
                    of_node.insert(series.to_string(), self.series.len());
                    let (node, series) = (lane.lane.node.clone(), series.clone());
                    self.series.push(GridSeries { node, series, samples: Vec::new() });
                }
            }
        }
        places
    }

    fn fill(
        &mut self,
        recording: &Recording,
        survey: &Survey,
        places: &Places,
        samples: usize,
    ) -> Result<(), RecordError> {
        let cells = || Cells {
            sums: vec![0.0; samples],
            counts: vec![0; samples],
            growth: Growth::default(),
            lane: None,
        };
        let mut cells: Vec<Cells> = self.series.iter().map(|_| cells()).collect();
        // For each lane: slot and place of the chosen series in its present schema.
        let mut slots: Vec<Vec<(usize, usize)>> = vec![Vec::new(); survey.lanes.len()];
        let (start, step) = (self.start, self.step);
        let series = &self.series;
        recording.read(|event| match event {
            Event::Columns(lane, columns) => {
                let Some(chosen) = places.get(&survey.lanes[lane].lane.node) else { return };
                let place = |(slot, one): (usize, &Series)| Some((slot, *chosen.get(&one.to_string())?));
                slots[lane] = columns.iter().enumerate().filter_map(place).collect();
            }
            Event::Block(block) => {
                let lane = block.lane;
                let Some(chosen) = slots.get(lane).filter(|chosen| !chosen.is_empty()) else { return };
                block.rows(|number, row| {
                    let stamp = row.stamp();
                    let at = (stamp.real().since(start).0 + step.0 / 2) / step.0;
                    for &(slot, place) in chosen {
                        let cell = &mut cells[place];
                        if cell.lane.replace(lane) != Some(lane) {
                            cell.growth = Growth::default();
                        }
                        let one = &series[place].series;
                        let reading = row.reading(slot);
                        let value = cell.growth.next(one, number, stamp.boot, reading, Measure::PerSecond);
                        cell.add(at as usize, value);
                    }
                });
            }
            _ => {}
        })?;
        for (series, cells) in self.series.iter_mut().zip(cells) {
            series.samples = cells.means();
        }
        Ok(())
    }

    /// The places of the series that a pattern selects.
    pub fn position(&self, pattern: &Pattern) -> Vec<usize> {
        let pattern = std::slice::from_ref(pattern);
        let is_it = |(_, one): &(usize, &GridSeries)| selects(pattern, &one.node, &one.series);
        self.series.iter().enumerate().filter(is_it).map(|(place, _)| place).collect()
    }
}

impl Cells {
    fn add(&mut self, at: usize, value: Option<f64>) {
        let Some(value) = value else { return };
        if let (Some(sum), Some(count)) = (self.sums.get_mut(at), self.counts.get_mut(at)) {
            *sum += value as f32;
            *count = count.saturating_add(1);
        }
    }

    fn means(self) -> Vec<f32> {
        let mean = |(sum, count): (f32, u16)| if count == 0 { f32::NAN } else { sum / f32::from(count) };
        self.sums.into_iter().zip(self.counts).map(mean).collect()
    }
}
