//! Functions of ranges: samples are folded as they come from the source, series by series and step by step.

use std::collections::VecDeque;
use std::rc::Rc;

use super::instants::{admit, unknown_series};
use super::{Column, Evaluator, broken};
use crate::answer::MatrixSeries;
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::fold::{self, Fold, Over, Window};
use crate::grid::{Grid, is_absent};
use crate::labels::{LabelSet, METRIC_NAME};
use crate::limits::OPEN_RANGES_MAX;
use crate::plan::{Kind, Moved, Node, Selector};
use crate::run::{Place, Run};
use crate::source::{Selection, SeriesId, Sink, Summaries, is_stale};
use crate::steps::Steps;
use crate::summary::Summary;
use crate::text::Position;

/// The ranges of all steps.
pub(super) struct Windows {
    pub(super) steps: Steps,
    pub(super) range: i64,
    pub(super) moved: Moved,
    pub(super) parameter: Column,
}

impl Windows {
    fn get(&self, step: usize) -> Window {
        let time = self.steps.time(step);
        let end = self.moved.fixed.unwrap_or(time).saturating_sub(self.moved.offset);
        Window { time, after: end.saturating_sub(self.range), end, parameter: self.parameter.get(step) }
    }

    /// A sample can be in ranges of several steps; the number is how many.
    fn overlap(&self) -> i64 {
        match self.moved.fixed {
            _ if self.steps.count == 1 => 1,
            Some(_) => self.steps.count as i64,
            None => self.range.saturating_add(self.steps.step - 1) / self.steps.step,
        }
    }

    /// Samples after the first time and up to the second are wanted.
    pub(super) fn bounds(&self) -> (i64, i64) {
        (self.get(0).after, self.get(self.steps.count - 1).end)
    }

    fn selection(&self, selector: &Selector, summaries: Summaries) -> Selection {
        let (after, to) = self.bounds();
        Selection {
            matchers: selector.matchers.clone(),
            after,
            to,
            step: if self.steps.count == 1 || self.moved.fixed.is_some() { 0 } else { self.steps.step },
            window: self.range,
            last_only: false,
            summaries,
        }
    }
}

/// Gives the parts of a piece that have no stale sample.
fn live(
    times: &[i64],
    values: &[f64],
    mut give: impl FnMut(&[i64], &[f64]) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let mut from = 0;
    // A loop without branches first: stale samples are rare.
    if values.iter().fold(false, |any, &value| any | is_stale(value)) {
        for at in 0..values.len() {
            if is_stale(values[at]) {
                if from < at {
                    give(&times[from..at], &values[from..at])?;
                }
                from = at + 1;
            }
        }
    }
    if from < values.len() {
        give(&times[from..], &values[from..])?;
    }
    Ok(())
}

/// The first place, not before `from`, that is after a time. It is mostly near, so growing steps find it sooner than halving the
/// rest.
pub(super) fn after(times: &[i64], from: usize, time: i64) -> usize {
    let (mut low, mut width) = (from, 1);
    while low + width <= times.len() && times[low + width - 1] <= time {
        low += width;
        width *= 2;
    }
    let high = (low + width).min(times.len());
    low + times[low..high].partition_point(|&stamp| stamp <= time)
}

/// Passes a summary's part of a window to a function: as a summary or, if the function needs samples, as equivalent samples.
/// Returns the number of samples.
fn hand_summary<F: Fold>(summary: &Summary, window: &Window, state: &mut F) -> usize {
    if F::SUMS {
        if let Some(part) = summary.within(window.after, window.end) {
            state.join(&part);
        }
        return 0;
    }
    let is_in = |(time, _): &(i64, f64)| *time > window.after && *time <= window.end;
    let (times, values): (Vec<i64>, Vec<f64>) = summary.samples().filter(is_in).unzip();
    if !times.is_empty() {
        state.push(&times, &values);
    }
    times.len()
}

/// Holds the bytes of samples, if the function keeps them; returns how many.
fn keep<F: Fold>(held: &mut Held, samples: usize) -> Result<usize, QueryError> {
    // A vector that grows may have twice the room that it needs.
    let bytes = if F::KEEPS { 16 * samples } else { 0 };
    held.grow(bytes)?;
    Ok(bytes)
}

/// Keeps the state of each range that is not over.
struct Folding<'w, F> {
    budget: Rc<Budget>,
    windows: &'w Windows,
    grid: Grid,
    series: Vec<Open<F>>,
    held: Held,
}

/// The ranges of a series that are not over.
struct Open<F> {
    /// The step of the first of them; those before are written.
    first: usize,
    states: VecDeque<F>,
    /// Bytes that a state keeps; only the first of such states has any.
    kept: usize,
}

impl<F: Fold> Folding<'_, F> {
    fn join(&mut self, series: usize, summary: &Summary) -> Result<(), QueryError> {
        self.each_range(series, summary.last.0, |window, state, held| {
            keep::<F>(held, hand_summary(summary, window, state))
        })
    }

    fn push(&mut self, series: usize, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        let (mut low, mut high) = (0, 0);
        self.each_range(series, times[times.len() - 1], |window, state, held| {
            low = after(times, low, window.after);
            high = after(times, high.max(low), window.end);
            let kept = keep::<F>(held, high - low)?;
            if low < high {
                state.push(&times[low..high], &values[low..high]);
            }
            Ok(kept)
        })
    }

    /// The same of samples that rise, for a function that needs no more of them than their ends.
    fn rise(&mut self, series: usize, run: &Run<'_>) -> Result<(), QueryError> {
        let Some(last) = run.len().checked_sub(1) else { return Ok(()) };
        let (mut low, mut high) = (Place::default(), Place::default());
        self.each_range(series, run.sample(last).0, |window, state, _| {
            low.go_after(run, window.after);
            high.go_after(run, window.end);
            if let Some(risen) = run.risen(low.at..high.at) {
                state.join(&risen);
            }
            Ok(0)
        })
    }

    /// Hands something whose last sample has this time to each range that has begun by then; ranges that end by then are written.
    /// `hand` returns how many bytes the range keeps of it.
    fn each_range(
        &mut self,
        series: usize,
        last: i64,
        mut hand: impl FnMut(&Window, &mut F, &mut Held) -> Result<usize, QueryError>,
    ) -> Result<(), QueryError> {
        let open = &mut self.series[series];
        let mut step = open.first;
        while step < self.windows.steps.count {
            let window = self.windows.get(step);
            if window.after >= last {
                break;
            }
            let at = step - open.first;
            if at == open.states.len() {
                open.states.push_back(F::begin(&window));
            }
            let state = &mut open.states[at];
            open.kept += hand(&window, state, &mut self.held)?;
            if window.end <= last {
                if let Some(value) = state.end(&window) {
                    self.grid.row_mut(series)[step] = value;
                }
                open.states.pop_front();
                open.first += 1;
                self.held.shrink(std::mem::take(&mut open.kept));
            }
            step += 1;
        }
        Ok(())
    }

    fn finish(mut self) -> Grid {
        for (series, open) in self.series.iter_mut().enumerate() {
            for (at, state) in open.states.iter_mut().enumerate() {
                let step = open.first + at;
                if let Some(value) = state.end(&self.windows.get(step)) {
                    self.grid.row_mut(series)[step] = value;
                }
            }
        }
        self.grid
    }
}

impl<F: Fold> Sink for Folding<'_, F> {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        admit(&self.budget, self.series.len())?;
        let states = self.windows.overlap() as usize + 1;
        self.held.grow(size_of::<Open<F>>() + states * size_of::<F>())?;
        self.series.push(Open { first: 0, states: VecDeque::new(), kept: 0 });
        Ok(SeriesId(self.grid.add(labels)?))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        self.budget.read(times.len())?;
        if series.0 >= self.series.len() {
            return Err(unknown_series(series));
        }
        live(times, values, |times, values| self.push(series.0, times, values))
    }

    fn run(&mut self, series: SeriesId, run: &Run<'_>) -> Result<(), QueryError> {
        if !(F::ENDS && run.rises()) {
            return run.unpack(|times, values| self.samples(series, times, values));
        }
        self.budget.read(run.len())?;
        if series.0 >= self.series.len() {
            return Err(unknown_series(series));
        }
        self.rise(series.0, run)
    }

    fn summaries(&mut self, series: SeriesId, summaries: &[Summary]) -> Result<(), QueryError> {
        self.budget.read(summaries.len())?;
        if series.0 >= self.series.len() {
            return Err(unknown_series(series));
        }
        summaries.iter().try_for_each(|summary| self.join(series.0, summary))
    }
}

/// Keeps the samples of the ranges that are not over, and folds each range when it is.
struct Keeping<'w, F> {
    budget: Rc<Budget>,
    windows: &'w Windows,
    grid: Grid,
    series: Vec<Kept>,
    held: Held,
    fold: std::marker::PhantomData<F>,
}

/// The samples of a series that a range still needs.
struct Kept {
    /// The first step that is not written.
    next: usize,
    times: Vec<i64>,
    values: Vec<f64>,
    /// Summaries of samples that are gone, between the others or before them.
    summaries: Vec<Summary>,
}

impl Kept {
    fn held(&self) -> usize {
        16 * self.times.capacity() + size_of::<Summary>() * self.summaries.capacity()
    }

    /// Hands over what is in a window, in the order of time.
    fn hand<F: Fold>(&self, window: &Window, samples: (usize, usize), state: &mut F) {
        let (mut low, high) = samples;
        let from = self.summaries.partition_point(|summary| summary.last.0 <= window.after);
        for summary in self.summaries[from..].iter().take_while(|summary| summary.first.0 <= window.end) {
            let before = low + self.times[low..high].partition_point(|time| *time < summary.first.0);
            if low < before {
                state.push(&self.times[low..before], &self.values[low..before]);
            }
            low = before;
            hand_summary(summary, window, state);
        }
        if low < high {
            state.push(&self.times[low..high], &self.values[low..high]);
        }
    }
}

impl<F: Fold> Keeping<'_, F> {
    /// Writes all steps whose ranges are over, when samples up to this time are known.
    fn write(&mut self, series: usize, known: i64) -> Result<(), QueryError> {
        let kept = &mut self.series[series];
        let (mut low, mut high) = (0, 0);
        while kept.next < self.windows.steps.count {
            let window = self.windows.get(kept.next);
            if window.end > known {
                break;
            }
            low = after(&kept.times, low, window.after);
            high = after(&kept.times, high.max(low), window.end);
            let mut state = F::begin(&window);
            kept.hand(&window, (low, high), &mut state);
            if let Some(value) = state.end(&window) {
                self.grid.row_mut(series)[kept.next] = value;
            }
            kept.next += 1;
            // Ranges may be long, and many.
            self.budget.check()?;
        }
        if kept.next == self.windows.steps.count {
            (kept.times, kept.values, kept.summaries) = (Vec::new(), Vec::new(), Vec::new());
        } else {
            let after = self.windows.get(kept.next).after;
            let over = kept.times.partition_point(|&time| time <= after);
            kept.times.drain(..over);
            kept.values.drain(..over);
            let over = kept.summaries.partition_point(|summary| summary.last.0 <= after);
            kept.summaries.drain(..over);
        }
        Ok(())
    }

    fn push(&mut self, series: usize, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        self.keep(series, times[times.len() - 1], |kept| {
            kept.times.extend_from_slice(times);
            kept.values.extend_from_slice(values);
        })
    }

    /// Takes something in whose last sample has this time.
    fn keep(&mut self, series: usize, last: i64, take: impl FnOnce(&mut Kept)) -> Result<(), QueryError> {
        let kept = &mut self.series[series];
        if kept.next == self.windows.steps.count {
            return Ok(());
        }
        let before = kept.held();
        take(kept);
        self.write(series, last)?;
        let now = self.series[series].held();
        if now > before {
            self.held.grow(now - before)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Grid, QueryError> {
        for series in 0..self.series.len() {
            self.write(series, i64::MAX)?;
        }
        Ok(self.grid)
    }
}

impl<F: Fold> Sink for Keeping<'_, F> {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        admit(&self.budget, self.series.len())?;
        self.held.grow(size_of::<Kept>())?;
        let (times, values, summaries) = (Vec::new(), Vec::new(), Vec::new());
        self.series.push(Kept { next: 0, times, values, summaries });
        Ok(SeriesId(self.grid.add(labels)?))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        self.budget.read(times.len())?;
        if series.0 >= self.series.len() {
            return Err(unknown_series(series));
        }
        live(times, values, |times, values| self.push(series.0, times, values))
    }

    fn summaries(&mut self, series: SeriesId, summaries: &[Summary]) -> Result<(), QueryError> {
        self.budget.read(summaries.len())?;
        if series.0 >= self.series.len() {
            return Err(unknown_series(series));
        }
        let Some(last) = summaries.last() else { return Ok(()) };
        self.keep(series.0, last.last.0, |kept| kept.summaries.extend_from_slice(summaries))
    }
}

/// Keeps everything: the answer to a query for a range.
struct Samples {
    budget: Rc<Budget>,
    series: Vec<MatrixSeries>,
    held: Held,
}

impl Sink for Samples {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        admit(&self.budget, self.series.len())?;
        self.held.grow(crate::grid::SERIES_BYTES)?;
        self.series.push(MatrixSeries { labels, samples: Vec::new() });
        Ok(SeriesId(self.series.len() - 1))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        self.budget.read(times.len())?;
        // The vector may have twice the room that it needs.
        self.held.grow(32 * times.len())?;
        let Some(to) = self.series.get_mut(series.0) else { return Err(unknown_series(series)) };
        live(times, values, |times, values| {
            to.samples.extend(times.iter().copied().zip(values.iter().copied()));
            Ok(())
        })
    }
}

impl Evaluator<'_> {
    /// The samples of a selector in one range.
    pub(super) fn samples(
        &self,
        selector: &Selector,
        range: i64,
        time: i64,
    ) -> Result<Vec<MatrixSeries>, QueryError> {
        let windows = Windows {
            steps: Steps::instant(time),
            range,
            moved: selector.moved,
            parameter: Column::Constant(0.0),
        };
        let mut sink =
            Samples { budget: Rc::clone(&self.budget), series: Vec::new(), held: self.budget.hold(0)? };
        let said = self.source.select(&windows.selection(selector, Summaries::Nowhere), &mut sink)?;
        self.notes.borrow_mut().source(said);
        Ok(sink.series)
    }

    /// A function of the samples in the ranges of an argument.
    pub(super) fn over(&self, over: Over, argument: &Node, windows: &Windows) -> Result<Grid, QueryError> {
        let mut grid = match over {
            Over::Rate => self.folded::<fold::Rate>(argument, windows),
            Over::Increase => self.folded::<fold::Increase>(argument, windows),
            Over::Delta => self.folded::<fold::Delta>(argument, windows),
            Over::Irate => self.folded::<fold::Irate>(argument, windows),
            Over::Idelta => self.folded::<fold::Idelta>(argument, windows),
            Over::Deriv => self.folded::<fold::Deriv>(argument, windows),
            Over::PredictLinear => self.folded::<fold::PredictLinear>(argument, windows),
            Over::Changes => self.folded::<fold::Changes>(argument, windows),
            Over::Resets => self.folded::<fold::Resets>(argument, windows),
            Over::Sum => self.folded::<fold::Sum>(argument, windows),
            Over::Avg => self.folded::<fold::Mean>(argument, windows),
            Over::Min => self.folded::<fold::Lowest>(argument, windows),
            Over::Max => self.folded::<fold::Highest>(argument, windows),
            Over::Count => self.folded::<fold::Count>(argument, windows),
            Over::Last => self.folded::<fold::Last>(argument, windows),
            Over::First => self.folded::<fold::First>(argument, windows),
            Over::Present => self.folded::<fold::Present>(argument, windows),
            Over::Quantile => self.folded::<fold::Quantile>(argument, windows),
            Over::Stddev => self.folded::<fold::Stddev>(argument, windows),
            Over::Stdvar => self.folded::<fold::Stdvar>(argument, windows),
        }?;
        grid.drop_empty()?;
        if over.is_of_counters() {
            self.doubt_counters(&grid, argument);
        }
        if over.keeps_name() {
            return Ok(grid);
        }
        self.without_names(grid)
    }

    /// At each step 1 for each series that has samples in its range.
    pub(super) fn present(&self, argument: &Node, windows: &Windows) -> Result<Grid, QueryError> {
        self.folded::<fold::Present>(argument, windows)
    }

    fn folded<F: Fold>(&self, argument: &Node, windows: &Windows) -> Result<Grid, QueryError> {
        let grid = Grid::new(&self.budget, windows.steps.count)?;
        let (budget, held) = (Rc::clone(&self.budget), self.budget.hold(0)?);
        let overlap = windows.overlap();
        if overlap > OPEN_RANGES_MAX || (F::KEEPS && overlap > 1) {
            let fold = std::marker::PhantomData;
            let mut sink = Keeping::<F> { budget, windows, grid, series: Vec::new(), held, fold };
            self.feed(argument, windows, F::SUMS, &mut sink)?;
            return sink.finish();
        }
        let mut sink = Folding::<F> { budget, windows, grid, series: Vec::new(), held };
        self.feed(argument, windows, F::SUMS, &mut sink)?;
        Ok(sink.finish())
    }

    /// Feeds the samples of an argument to a sink, which may also accept summaries.
    fn feed(
        &self,
        argument: &Node,
        windows: &Windows,
        sums: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        match &argument.kind {
            Kind::Range(selector, _) => {
                let summaries = if sums { Summaries::WhereWhole } else { Summaries::WhereSamplesAreGone };
                let said = self.source.select(&windows.selection(selector, summaries), sink)?;
                self.notes.borrow_mut().source(said);
                Ok(())
            }
            Kind::Subquery(subquery) => self.feed_subquery(subquery, windows, sink),
            _ => Err(broken("an argument that is no range")),
        }
    }

    /// Warns for each metric whose name does not look like that of a counter.
    fn doubt_counters(&self, grid: &Grid, argument: &Node) {
        // Prometheus evaluates a subquery earlier, and then no longer knows its place.
        let at = if matches!(argument.kind, Kind::Subquery(_)) { Position::START } else { argument.at };
        let mut known = "";
        for labels in &grid.labels {
            let name = labels.get(METRIC_NAME);
            let counter = ["_total", "_sum", "_count", "_bucket"].iter().any(|end| name.ends_with(end));
            if name.is_empty() || counter || name == known {
                continue;
            }
            known = name;
            let sentence = format!(
                "metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {}",
                crate::print::quoted(name)
            );
            self.notes.borrow_mut().inform(sentence, at);
        }
    }
}

/// The windows of an argument that is a range.
pub(super) fn windows(argument: &Node, steps: Steps, parameter: Column) -> Result<Windows, QueryError> {
    match &argument.kind {
        Kind::Range(selector, range) => {
            Ok(Windows { steps, range: *range, moved: selector.moved, parameter })
        }
        Kind::Subquery(subquery) => {
            Ok(Windows { steps, range: subquery.range, moved: subquery.moved, parameter })
        }
        _ => Err(broken("an argument that is no range")),
    }
}

/// The times and values of a row that has gaps.
pub(super) fn present_cells(steps: Steps, cells: &[f64], times: &mut Vec<i64>, values: &mut Vec<f64>) {
    times.clear();
    values.clear();
    for (time, &value) in steps.times().zip(cells) {
        if !is_absent(value) {
            times.push(time);
            values.push(value);
        }
    }
}
