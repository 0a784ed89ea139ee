//! The events of one node in a time span: when it was away, was booted or lost rows, which alerts fired and which boosts ran. They
//! are derived from samples for each request; no log is kept. `events/` finds each event in its series.

mod list;
mod presence;
mod restarts;
mod spans;

use khz_model::exposed::{INSTANCE, UP};
use khz_promql::{LabelSet, METRIC_NAME, Matcher, QueryError, Selection, SeriesId, Sink, Source, Summaries};

use crate::limits::{EVENT_SERIES_MAX, EVENTS_EARLIER};
use list::List;
use presence::Presence;
use restarts::{Boots, Starts};
use spans::{AlertSpans, BoostSpans};

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The node sent no row.
    Down,
    /// The node's machine was booted.
    Booted,
    /// khz was started again on the node.
    Restarted,
    /// Rows are missing, and the node was not silent for long enough to be down.
    Missing,
    /// An alert of the node fired.
    Alert,
    /// The node gathered at a higher rate, or for a channel.
    Boost,
}

impl EventKind {
    /// How many kinds there are.
    const COUNT: usize = EventKind::Boost as usize + 1;

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Down => "down",
            EventKind::Booted => "booted",
            EventKind::Restarted => "restarted",
            EventKind::Missing => "missing",
            EventKind::Alert => "alert",
            EventKind::Boost => "boost",
        }
    }
}

/// Something that happened. Times are those of the node's rows (ms since 1970).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What kind of event it is.
    pub kind: EventKind,
    /// When it began.
    pub begin: i64,
    /// When it ended; `None`: it goes on.
    pub end: Option<i64>,
    /// It may have begun earlier: nothing before this time was read.
    pub is_earlier: bool,
    /// What happened, in a few words.
    pub text: String,
}

/// The events of a time, by their beginnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// The newest of each kind.
    pub events: Vec<Event>,
    /// Events that are too many, and series that are too many.
    pub left_out: u64,
    /// What could not be read.
    pub damage: Vec<String>,
}

/// What a series shows.
trait Watch {
    /// A sample; the value is stale where the series ends.
    fn sample(&mut self, time: i64, value: f64, list: &mut List);
    /// No further sample comes.
    fn finish(self, list: &mut List);
}

/// The events of the node `instance` from one time to another (ms since 1970).
///
/// # Errors
/// The samples cannot be read.
pub fn events(source: &dyn Source, instance: &str, (from, to): (i64, i64)) -> Result<Events, QueryError> {
    // A state that existed at the start of the time span has begun before it.
    let after = from.saturating_sub(EVENTS_EARLIER);
    let mut list = List::new((from, to));
    let read = Reading { source, instance, after, to };
    read.watch(UP, |_| Some(Presence::default()), &mut list)?;
    let mut boots = List::new((from, to));
    read.watch("node_boot_time_seconds", |_| Some(Boots::default()), &mut boots)?;
    let mut starts = List::new((from, to));
    read.watch("khz_process_cpu_seconds_total", |_| Some(Starts::default()), &mut starts)?;
    restarts::drop_those_of_boots(&mut starts, &boots);
    read.watch("ALERTS", |labels| AlertSpans::of(labels, after), &mut list)?;
    read.watch("khz_lane_period_seconds", |labels| BoostSpans::of(labels, after), &mut list)?;
    Ok(list.with(boots).with(starts).done())
}

/// What is read.
struct Reading<'a> {
    source: &'a dyn Source,
    instance: &'a str,
    after: i64,
    to: i64,
}

impl Reading<'_> {
    /// Reads the series of this name that `begin` wants, and lists what they show.
    fn watch<W: Watch>(
        &self,
        name: &str,
        begin: impl Fn(&LabelSet) -> Option<W>,
        list: &mut List,
    ) -> Result<(), QueryError> {
        let (after, to) = (self.after, self.to);
        let matchers = vec![Matcher::equal(METRIC_NAME, name), Matcher::equal(INSTANCE, self.instance)];
        let (step, window, last_only) = (0, to.saturating_sub(after), false);
        let summaries = Summaries::Nowhere;
        let wanted = Selection { matchers, after, to, step, window, last_only, summaries };
        let mut watched = Watched { series: Vec::new(), begin, list };
        let damage = self.source.select(&wanted, &mut watched)?;
        let Watched { series, list, .. } = watched;
        for watch in series.into_iter().flatten() {
            watch.finish(list);
        }
        list.damage(damage);
        Ok(())
    }
}

/// Passes samples on to what watches them. It keeps none.
struct Watched<'a, W, B> {
    /// The watchers by the numbers of series; `None`: the series has none.
    series: Vec<Option<W>>,
    begin: B,
    list: &'a mut List,
}

impl<W: Watch, B: Fn(&LabelSet) -> Option<W>> Sink for Watched<'_, W, B> {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        let id = SeriesId(self.series.len());
        let watch = (self.begin)(&labels);
        if watch.is_some() && self.series.iter().flatten().count() >= EVENT_SERIES_MAX {
            self.list.leave_out();
            self.series.push(None);
        } else {
            self.series.push(watch);
        }
        Ok(id)
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        if let Some(Some(watch)) = self.series.get_mut(series.0) {
            for (time, value) in times.iter().zip(values) {
                watch.sample(*time, *value, self.list);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
