//! One node on its way to a receiver: how far it was sent, and which of its series the receiver believes to be alive. A series
//! that has no value any more is ended with a stale marker: at the first second without it, or, if its node is silent, just
//! after its last sample.

use std::collections::HashMap;

use khz_model::{Instance, Labels, Nanos, NodeName, Reading, Series};
use khz_promql::stale;
use khz_store::range::NodeRowsRead;

use super::exposed;
use super::feed::Settings;
use super::holes::{Done, Holes};
use super::pace::Pace;
use super::request::Request;
use super::seconds::{self, Chosen};

/// A marker that ends series comes this long after the last sample, in ms: before any second that may still be sent.
const AFTER_LAST_MS: i64 = 1;

/// The known state of a node.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    /// Rows from this time on are not sent yet.
    pub cursor: u64,
    /// Rows before this time were read.
    pub read_until: u64,
    /// Column files may have rows of it that are not sent yet.
    pub has_columns: bool,
    pub holes: Holes,
    pub done: Done,
    /// It was sent before this start, so the receiver may believe series to be alive.
    pub is_from_before: bool,
    /// Until this time its silence says nothing: the hub has only begun to hear of it.
    pub heard_from: u64,
    /// It has sent nothing since this start: it may be at another hub, which sends its series to the same receiver.
    pub is_unheard: bool,
    /// The series that the receiver believes to be alive, in the order of their names.
    live: Vec<Live>,
    /// The seconds that were sent.
    pace: Pace,
}

/// A series that has a value, and the labels that came with it.
#[derive(Clone, Debug)]
struct Live {
    series: Series,
    info: Option<Labels>,
}

/// A chosen row as its samples see it.
struct Moment {
    /// Its time in ms.
    at: i64,
    /// The time at which everything ended that was alive before it: the node was silent, or began another epoch.
    ended: Option<i64>,
}

/// The value of a series at a moment, and the labels that came with it.
type Value = Option<(f64, Option<Labels>)>;

/// Times and values, with the labels that came with all of them.
type Samples = (Option<Labels>, Vec<(i64, f64)>);

/// The metrics whose readings describe others: by name and instance, the labels at each moment.
type Descriptions = HashMap<(String, Option<Instance>), Vec<Option<Labels>>>;

/// The shared state of all nodes while requests are built.
pub(crate) struct Writing<'a> {
    pub settings: &'a Settings,
    pub request: &'a mut Request,
    /// Called when the request is full.
    pub full: &'a mut dyn FnMut(&mut Request) -> bool,
    /// `full` has said that nothing more is wanted.
    pub is_over: bool,
}

impl NodeState {
    pub fn new(cursor: u64) -> Self {
        NodeState { cursor, has_columns: true, ..NodeState::default() }
    }

    /// A node that was sent up to here before this start.
    pub fn from_before(cursor: u64) -> Self {
        NodeState { is_from_before: true, ..NodeState::new(cursor) }
    }

    /// True if no series is believed to be alive.
    pub fn is_ended(&self) -> bool {
        self.live.is_empty()
    }

    /// Writes rows that were read. `epochs` are the times at which epochs begin.
    pub fn write(
        &mut self,
        node: &NodeName,
        mut rows: NodeRowsRead,
        epochs: &[Nanos],
        writing: &mut Writing<'_>,
    ) {
        let every = writing.settings.every;
        let times = rows.times();
        let Some(&last_time) = times.last() else { return };
        let chosen = seconds::choose(times, every);
        let moments = self.moments(times, &chosen, epochs, every);
        let numbers: Vec<usize> = chosen.iter().map(|it| it.row).collect();
        self.cursor = self.cursor.max(seconds::end_of_period(last_time, every));
        if moments.is_empty() {
            return;
        }
        let all: Vec<Series> = rows.series().cloned().collect();
        let (descriptions, _held) = describe(&all, &mut rows, &numbers);
        let mut before = std::mem::take(&mut self.live).into_iter().peekable();
        let (mut readings, mut values) = (Vec::new(), Vec::new());
        let mut place = 0;
        while place < all.len() && !writing.is_over {
            let series = &all[place];
            while let Some(gone) = before.next_if(|live| order(&live.series, series).is_lt()) {
                writing.end(node, &gone, moments[0].ended.unwrap_or(moments[0].at));
            }
            let mut live: Vec<Live> = Vec::new();
            while let Some(same) = before.next_if(|live| order(&live.series, series).is_eq()) {
                live.push(same);
            }
            values.clear();
            values.resize(moments.len(), None);
            let mut held = Vec::new();
            // A metric that changed its type is the same series for a receiver.
            while let Some(same) = all.get(place).filter(|same| order(same, series).is_eq()) {
                held.push(rows.readings(place, &numbers, &mut readings));
                merge(same, &readings, &descriptions, &mut values);
                place += 1;
            }
            writing.series(node, series, live, &moments, &values, &mut self.live);
        }
        for gone in before {
            writing.end(node, &gone, moments[0].ended.unwrap_or(moments[0].at));
        }
    }

    /// Ends all series of a node that is silent.
    pub fn end(&mut self, node: &NodeName, writing: &mut Writing<'_>) {
        let Some(last) = self.pace.last() else { return };
        for live in std::mem::take(&mut self.live) {
            writing.end(node, &live, ms(last) + AFTER_LAST_MS);
        }
    }

    /// True if series must be ended because the node has been silent since its last row.
    pub fn is_silent(&self, until: u64, settings: &Settings) -> bool {
        !self.live.is_empty() && self.pace.is_silent_at(until / seconds::SECOND, settings.every)
    }

    /// True if nobody can say how often it sends.
    pub fn has_unknown_pace(&self) -> bool {
        !self.pace.is_known()
    }

    /// Forgets what was read, to read it again from an earlier row on.
    pub fn forget_rows(&mut self) {
        self.live.clear();
        self.pace = Pace::default();
    }

    fn moments(&mut self, times: &[u64], chosen: &[Chosen], epochs: &[Nanos], every: u64) -> Vec<Moment> {
        let mut moments = Vec::with_capacity(chosen.len());
        for it in chosen {
            let before = self.pace.last();
            let is_another = before.is_some_and(|last| {
                let since = seconds::end_of_period(last * seconds::SECOND, 1);
                epochs.iter().any(|epoch| (since..=times[it.row]).contains(&epoch.0))
            });
            let is_silent = self.pace.note(it.second, every);
            if is_another {
                self.pace.begin(it.second);
            }
            let ended = before.filter(|_| is_silent || is_another).map(|last| ms(last) + AFTER_LAST_MS);
            moments.push(Moment { at: ms(it.second), ended });
        }
        moments
    }
}

impl<'a> Writing<'a> {
    /// Writes the samples of a series, and notes what is alive at the end.
    fn series(
        &mut self,
        node: &NodeName,
        series: &Series,
        mut alive: Vec<Live>,
        moments: &[Moment],
        values: &[Value],
        live: &mut Vec<Live>,
    ) {
        // As a rule there is one: labels that come with readings rarely change.
        let mut written: Vec<Samples> = Vec::new();
        let mut add = |info: &Option<Labels>, at: i64, value: f64| match written
            .iter_mut()
            .find(|(it, _)| it == info)
        {
            Some((_, samples)) => samples.push((at, value)),
            None => written.push((info.clone(), vec![(at, value)])),
        };
        for (moment, value) in moments.iter().zip(values) {
            if let Some(at) = moment.ended {
                alive.drain(..).for_each(|gone| add(&gone.info, at, stale()));
            }
            alive.retain(|known| {
                let is_still = value.as_ref().is_some_and(|(_, info)| *info == known.info);
                if !is_still {
                    add(&known.info, moment.at, stale());
                }
                is_still
            });
            if let Some((number, info)) = value {
                add(info, moment.at, *number);
                if alive.is_empty() {
                    alive.push(Live { series: series.clone(), info: info.clone() });
                }
            }
        }
        for (info, samples) in &written {
            self.write(node, series, info.as_ref(), samples);
        }
        live.append(&mut alive);
    }

    fn end(&mut self, node: &NodeName, live: &Live, at: i64) {
        self.write(node, &live.series, live.info.as_ref(), &[(at, stale())]);
    }

    fn write(&mut self, node: &NodeName, series: &Series, info: Option<&Labels>, samples: &[(i64, f64)]) {
        let settings = self.settings;
        let mut labels = Vec::with_capacity(12);
        exposed::labels(series, node, &settings.job, info, &mut labels);
        self.add(&mut labels, samples);
    }

    /// Adds samples of the series with these labels, which the rules may change.
    pub fn add<'b>(&mut self, labels: &mut Vec<(&'b str, &'b str)>, samples: &[(i64, f64)])
    where
        'a: 'b,
    {
        if self.is_over {
            return;
        }
        let (settings, request) = (self.settings, &mut *self.request);
        settings.rules.apply(labels, |labels| request.add(labels.iter().copied(), samples));
        if request.is_full(settings.samples_max) {
            self.is_over = !(self.full)(request);
        }
    }
}

/// Reads what describes other series. The labels must be held as long as their numbers are used.
fn describe(all: &[Series], rows: &mut NodeRowsRead, numbers: &[usize]) -> (Descriptions, Vec<Vec<Labels>>) {
    let (mut descriptions, mut held) = (Descriptions::new(), Vec::new());
    let mut names: Vec<&str> = all.iter().filter_map(|series| series.metric.labels_from.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    let mut readings = Vec::new();
    let describing = |series: &&Series| names.binary_search(&&*series.metric.name).is_ok();
    for (place, series) in all.iter().enumerate().filter(|(_, series)| describing(series)) {
        held.push(rows.readings(place, numbers, &mut readings));
        let labels = readings.iter().map(|reading| reading.and_then(Reading::labels)).collect();
        descriptions.insert((series.metric.name.to_string(), series.instance.clone()), labels);
    }
    (descriptions, held)
}

/// Adds the readings of a series to the values.
fn merge(series: &Series, readings: &[Option<Reading>], descriptions: &Descriptions, values: &mut [Value]) {
    let describing = series.metric.labels_from.as_deref();
    let infos = describing.and_then(|name| descriptions.get(&(name.to_owned(), series.instance.clone())));
    for (place, (value, reading)) in values.iter_mut().zip(readings).enumerate() {
        let info = || infos.and_then(|infos| infos.get(place).cloned().flatten());
        match reading {
            Some(Reading::Present(bits)) => {
                if let Some(number) = exposed::value(series, *bits) {
                    *value = Some((number, info()));
                }
            }
            Some(reading @ Reading::Labels(_)) => {
                if let Some(labels) = reading.labels() {
                    *value = Some((1.0, Some(labels)));
                }
            }
            Some(Reading::Absent(_) | Reading::Failed(_)) | None => {}
        }
    }
}

/// The order of series in what is read.
fn order(one: &Series, two: &Series) -> std::cmp::Ordering {
    (&one.metric.name, &one.instance).cmp(&(&two.metric.name, &two.instance))
}

fn ms(second: u64) -> i64 {
    i64::try_from(second.saturating_mul(1_000)).unwrap_or(i64::MAX)
}
