//! Selectors of instants: at each step the last sample that is not too old.

use std::rc::Rc;

use super::Evaluator;
use super::ranges::after;
use crate::budget::Budget;
use crate::error::QueryError;
use crate::grid::{Grid, absent, is_absent};
use crate::labels::LabelSet;
use crate::plan::Selector;
use crate::run::{Place, Run};
use crate::source::{Selection, SeriesId, Sink, Summaries};
use crate::steps::Steps;

/// Begins a series of a selector, within the limits.
pub(super) fn admit(budget: &Budget, known: usize) -> Result<(), QueryError> {
    let limit = budget.limits.series;
    if known >= limit {
        return Err(QueryError::Execution(format!(
            "the query selects more than {limit} series; add conditions on labels"
        )));
    }
    Ok(())
}

/// A source that names a series that it has not begun.
pub(super) fn unknown_series(series: SeriesId) -> QueryError {
    QueryError::Internal(format!(
        "the source gave samples of the series {}, which it has not begun",
        series.0
    ))
}

/// Writes a cell for each step.
struct Instants {
    budget: Rc<Budget>,
    grid: Grid,
    series: Vec<State>,
    /// The times that count: those of the steps, moved.
    times: Steps,
    lookback: i64,
    /// The times of the samples are wanted, not their values.
    stamps: bool,
}

/// Where a series is.
struct State {
    /// The first step that is not written.
    next: usize,
    last: Option<(i64, f64)>,
}

impl Instants {
    fn cell(&self, time: i64, last: Option<(i64, f64)>) -> f64 {
        match last {
            // Where the source gives a sample that is stale, it is absent; the bits are the same.
            Some((stamp, value)) if time.saturating_sub(stamp) < self.lookback => {
                if self.stamps && !is_absent(value) { stamp as f64 / 1000.0 } else { value }
            }
            _ => absent(),
        }
    }

    /// Takes further samples of a series. `seen` says how many of them are not after a time, which grows from call to call, and
    /// which one is the last of these.
    fn take(
        &mut self,
        series: SeriesId,
        samples: usize,
        mut seen: impl FnMut(i64) -> (usize, Option<(i64, f64)>),
    ) -> Result<(), QueryError> {
        self.budget.read(samples)?;
        let Some(&State { mut next, mut last }) = self.series.get(series.0) else {
            return Err(unknown_series(series));
        };
        while next < self.times.count {
            let time = self.times.time(next);
            let (seen, newest) = seen(time);
            last = newest.or(last);
            if seen == samples {
                break;
            }
            let cell = self.cell(time, last);
            self.grid.row_mut(series.0)[next] = cell;
            next += 1;
        }
        self.series[series.0] = State { next, last };
        Ok(())
    }

    fn finish(mut self) -> Result<Grid, QueryError> {
        for series in 0..self.series.len() {
            let State { next, last } = self.series[series];
            for step in next..self.times.count {
                let cell = self.cell(self.times.time(step), last);
                if is_absent(cell) {
                    break;
                }
                self.grid.row_mut(series)[step] = cell;
            }
        }
        self.grid.drop_empty()?;
        Ok(self.grid)
    }
}

impl Sink for Instants {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        admit(&self.budget, self.series.len())?;
        self.series.push(State { next: 0, last: None });
        Ok(SeriesId(self.grid.add(labels)?))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        let mut at = 0;
        self.take(series, times.len(), |time| {
            at = after(times, at, time);
            (at, at.checked_sub(1).map(|last| (times[last], values[last])))
        })
    }

    fn run(&mut self, series: SeriesId, run: &Run<'_>) -> Result<(), QueryError> {
        let mut place = Place::default();
        self.take(series, run.len(), |time| {
            place.go_after(run, time);
            (place.at, place.at.checked_sub(1).map(|last| run.sample(last)))
        })
    }
}

impl Evaluator<'_> {
    /// The series of a selector; with `stamps` the times (s) of their samples instead of the values.
    pub(super) fn instants(
        &self,
        selector: &Selector,
        steps: Steps,
        stamps: bool,
    ) -> Result<Grid, QueryError> {
        let lookback = self.budget.limits.lookback.max(1);
        let moved = selector.moved;
        let times = match moved.fixed {
            Some(time) => Steps::instant(time.saturating_sub(moved.offset)),
            None => Steps { start: steps.start.saturating_sub(moved.offset), ..steps },
        };
        let mut sink = Instants {
            budget: Rc::clone(&self.budget),
            grid: Grid::new(&self.budget, times.count)?,
            series: Vec::new(),
            times,
            lookback,
            stamps,
        };
        let wanted = Selection {
            matchers: selector.matchers.clone(),
            after: times.start.saturating_sub(lookback),
            to: times.end(),
            step: if times.count == 1 { 0 } else { times.step },
            window: lookback,
            last_only: true,
            summaries: Summaries::Nowhere,
        };
        let said = self.source.select(&wanted, &mut sink)?;
        self.notes.borrow_mut().source(said);
        sink.finish()?.repeated(&self.budget, steps.count)
    }
}
