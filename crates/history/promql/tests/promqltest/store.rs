//! The samples that a test has loaded, as a source. It gives them in small pieces, several series in turns.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;

use khz_promql::{LabelSet, METRIC_NAME, Matcher, QueryError, Selection, Sink, Source};

use crate::script::Load;
use crate::series::Point;

/// What makes a series unfit for this judge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// It has native histograms.
    Histogram,
    /// Its samples have start times, which are experimental.
    StartTimes,
}

#[derive(Default)]
pub struct Store {
    samples: BTreeMap<LabelSet, BTreeMap<i64, f64>>,
    marks: Vec<(LabelSet, Mark, Vec<i64>)>,
    touched: Mutex<Cell<Option<Mark>>>,
}

/// Samples in a piece.
const PIECE: usize = 3;

impl Store {
    pub fn load(&mut self, load: &Load) {
        for series in &load.series {
            let (mut histograms, mut all) = (Vec::new(), Vec::new());
            for (at, value) in series.values.iter().enumerate() {
                let time = at as i64 * load.step;
                all.push(time);
                match value {
                    Point::None => {}
                    Point::Histogram => histograms.push(time),
                    Point::Value(value) => {
                        self.samples.entry(series.labels.clone()).or_default().insert(time, *value);
                    }
                }
            }
            if series.start_times {
                self.marks.push((series.labels.clone(), Mark::StartTimes, Vec::new()));
            }
            if !histograms.is_empty() {
                self.marks.push((series.labels.clone(), Mark::Histogram, histograms));
            }
            let name = series.labels.get(METRIC_NAME).to_owned();
            if let (true, Some(name)) = (load.native, name.strip_suffix("_bucket")) {
                let others =
                    series.labels.iter().filter(|(label, _)| ***label != *METRIC_NAME && ***label != *"le");
                let labels = others.map(|(label, value)| (label.to_string(), value.to_string()));
                let named = labels.chain([(METRIC_NAME.to_owned(), name.to_owned())]);
                self.marks.push((LabelSet::new(named), Mark::Histogram, all));
            }
        }
    }

    /// Forgets what was touched.
    pub fn begin(&self) {
        self.touched.lock().unwrap().set(None);
    }

    /// The mark of a series that was selected since.
    pub fn touched(&self) -> Option<Mark> {
        self.touched.lock().unwrap().get()
    }
}

fn fits(labels: &LabelSet, matchers: &[Matcher]) -> bool {
    matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)))
}

impl Source for Store {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        let inside = |time: &i64| *time > wanted.after && *time <= wanted.to;
        for (labels, mark, times) in &self.marks {
            if fits(labels, &wanted.matchers) && (times.is_empty() || times.iter().any(inside)) {
                self.touched.lock().unwrap().set(Some(*mark));
            }
        }
        let mut open = Vec::new();
        for (labels, samples) in self.samples.iter().filter(|(labels, _)| fits(labels, &wanted.matchers)) {
            let chosen: Vec<(i64, f64)> = samples
                .iter()
                .filter(|(time, _)| inside(time))
                .map(|(&time, &value)| (time, value))
                .collect();
            if !chosen.is_empty() {
                open.push((sink.series(labels.clone())?, chosen));
            }
        }
        let mut from = 0;
        while open.iter().any(|(_, samples)| from < samples.len()) {
            for (series, samples) in &open {
                let piece = &samples[from.min(samples.len())..(from + PIECE).min(samples.len())];
                if !piece.is_empty() {
                    let (times, values): (Vec<i64>, Vec<f64>) = piece.iter().copied().unzip();
                    sink.samples(*series, &times, &values)?;
                }
            }
            from += PIECE;
        }
        Ok(Vec::new())
    }

    fn series(&self, _: &[Matcher], _: i64, _: i64, _: usize) -> Result<(Vec<LabelSet>, bool), QueryError> {
        Ok((Vec::new(), false))
    }
}
