//! A handler that is bound to the slots of a lane, and takes its rows. Nothing is allocated for a row.

use std::collections::HashMap;

use khz_model::{Nanos, Series, Stamp};

use super::change::Change;
use super::histogram::Histograms;
use super::result::{Form, Judged, ResultSeries};
use super::rules::BoundRules;
use super::truth::Truth;
use super::{Effect, Handler, Values, When};
use crate::bind::Identity;
use crate::bound::Bound;
use crate::error::PlanError;
use crate::labels::LabelSet;
use crate::number::{ABSENT, is_absent};
use crate::plan::Plan;

/// A handler that is ready for rows. The fields that a row of a plan touches come first, so that they lie in few
/// cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct BoundHandler {
    values: Option<Bound>,
    /// The values of its results in this row, without series that are off.
    out: Vec<f64>,
    every: Nanos,
    /// Half the time between two rows.
    half_period: Nanos,
    /// When the first row came.
    begun: Option<Nanos>,
    /// Windows that follow each other: rows have to come for this long before one is full.
    length: Option<Nanos>,
    /// The interval in which the last row was sent.
    interval: Option<u64>,
    effect: Effect,
    /// A series of the condition is on, in the newest row.
    is_on: bool,
    when: Option<BoundWhen>,
    change: Option<BoundChange>,
    rules: Option<BoundRules>,
    histograms: Option<Histograms>,
    /// With a deadband of readings: which reading each compared value is, and for each reading whether it stays what was sent.
    compared_slots: Box<[u32]>,
    kept: Box<[bool]>,
    /// The series of `values` or `histograms`, and how their values become readings.
    results: Vec<ResultSeries>,
    forms: Vec<Form>,
}

/// A deadband.
#[derive(Debug)]
struct BoundChange {
    band: Change,
    /// The readings as numbers, if rows have readings.
    readings: Option<Bound>,
}

/// A condition, and the state of its series.
#[derive(Debug)]
#[repr(C)]
struct BoundWhen {
    plan: Option<Bound>,
    unless: Option<Bound>,
    /// For each series of the condition, which of `unless` takes it back.
    back: Vec<Back>,
    truths: Box<[Truth]>,
    /// Half the time between two rows.
    half_period: Nanos,
    when: When,
}

/// The condition that turns a series off.
#[derive(Clone, Copy, Debug)]
enum Back {
    Never,
    /// The series of `unless` with the same labels.
    By(u32),
    /// Any: `unless` says nothing about single series.
    Any,
}

impl BoundHandler {
    /// Binds a handler to the series of a lane, with one row per period. `is_shown`: the channel's own series, which rows have if
    /// no plan decides otherwise. It allocates everything that rows will need.
    ///
    /// # Errors
    /// Returns which limit a plan exceeds on this node, or which of its series cannot be told apart.
    pub fn new(
        handler: &Handler,
        series: &[Series],
        is_shown: impl Fn(&Series) -> bool + Copy,
        identity: Identity<'_>,
        period: Nanos,
    ) -> Result<Self, PlanError> {
        let bind = |plan: &Plan| Bound::new(plan, series, identity, period);
        let each = |over| Bound::each(over, series, is_shown, identity, period);
        let values = match &handler.values {
            Values::Readings | Values::Histogram { .. } | Values::Rules(_) => None,
            Values::Program(_) => {
                return Err(PlanError::Handler { problem: "has a program, which is executed elsewhere" });
            }
            Values::Plan(plan) => Some(bind(plan)?),
            Values::Each { over, length } => Some(each(Some((*over, *length)))?),
        };
        let histograms = match handler.values {
            Values::Histogram { length } => {
                Some(Histograms::new(length, series, is_shown, identity, period)?)
            }
            _ => None,
        };
        let rules = match &handler.values {
            Values::Rules(rules) => Some(BoundRules::new(rules, series, identity, period)?),
            _ => None,
        };
        let width = values.as_ref().map_or(usize::from(rules.is_some()), Bound::width);
        let when = handler.when.as_ref();
        let when = when.map(|when| BoundWhen::new(when, values.as_ref(), period, bind)).transpose()?;
        let change = match handler.deadband {
            Some(deadband) => {
                // Readings are compared as numbers, too.
                let readings = if values.is_none() { Some(each(None)?) } else { None };
                let count = readings.as_ref().map_or(width, Bound::width);
                Some(BoundChange { band: Change::new(deadband, count), readings })
            }
            None => None,
        };
        let mut results = values.as_ref().map_or_else(Vec::new, |values| results(handler, values, series));
        results.extend(rules.iter().map(|_| ResultSeries::judged(Judged::Ready, LabelSet::default())));
        let forms: Vec<Form> = results.iter().map(|result| Form::of(result.format)).collect();
        let readings = change.as_ref().and_then(|change| change.readings.as_ref());
        let compared_slots: Box<[u32]> = readings.into_iter().flat_map(Bound::series_slots).collect();
        let kept = vec![false; if readings.is_some() { series.len() } else { 0 }].into();
        let (every, out) = (handler.every, vec![ABSENT; width]);
        let length = match handler.values {
            Values::Each { length, .. } | Values::Histogram { length } => Some(length),
            Values::Readings | Values::Plan(_) | Values::Rules(_) | Values::Program(_) => None,
        };
        let (effect, is_on) = (handler.effect, false);
        Ok(BoundHandler {
            values,
            histograms,
            rules,
            when,
            change,
            every,
            effect,
            is_on,
            interval: None,
            half_period: Nanos(period.0 / 2),
            length: length.filter(|length| *length <= every),
            begun: None,
            compared_slots,
            kept,
            results,
            forms,
            out,
        })
    }

    /// Continues a bound handler: the same handler was bound to the same lane before its slots changed. `slot` gives the
    /// present number of an earlier slot. Windows, active conditions and the last sent values stay.
    pub fn take_over(&mut self, before: BoundHandler, slot: impl Fn(u32) -> Option<u32>) {
        (self.interval, self.begun, self.is_on) = (before.interval, before.begun, before.is_on);
        if let (Some(new), Some(old)) = (&mut self.when, before.when) {
            let (now, then) =
                (new.plan.as_ref().or(self.values.as_ref()), old.plan.as_ref().or(before.values.as_ref()));
            if let (Some(now), Some(then)) = (now, then) {
                for (place, from) in places(now, then) {
                    new.truths[place] = old.truths[from];
                }
            }
            if let (Some(new), Some(old)) = (&mut new.plan, old.plan) {
                new.take_over(old, &slot);
            }
            if let (Some(new), Some(old)) = (&mut new.unless, old.unless) {
                new.take_over(old, &slot);
            }
        }
        if let (Some(new), Some(old)) = (&mut self.change, before.change) {
            let now = new.readings.as_ref().or(self.values.as_ref());
            let then = old.readings.as_ref().or(before.values.as_ref());
            if let (Some(now), Some(then)) = (now, then) {
                new.band.take_over(&old.band, places(now, then));
            }
        }
        if let (Some(new), Some(old)) = (&mut self.values, before.values) {
            new.take_over(old, &slot);
        }
        if let (Some(new), Some(old)) = (&mut self.histograms, before.histograms) {
            new.take_over(old, &slot);
            self.add_results();
        }
        if let (Some(new), Some(old)) = (&mut self.rules, before.rules) {
            new.take_over(old, &slot);
            self.add_results();
        }
    }

    /// The series of the rows that it computes; `None`: its rows have the unchanged readings. With histograms or rules, a row
    /// may add series at the end.
    pub fn results(&self) -> Option<&[ResultSeries]> {
        let is_computed = self.values.is_some() || self.histograms.is_some() || self.rules.is_some();
        is_computed.then_some(&self.results)
    }

    /// The labels of all results of rules that there may be.
    pub fn labels_of_rules(&self) -> impl Iterator<Item = &LabelSet> {
        self.rules.iter().flat_map(BoundRules::labels)
    }

    /// Adds the buckets that were used for the first time, and the results of rules that appeared for the first time.
    fn add_results(&mut self) {
        let known = self.results.len();
        let buckets = self.histograms.iter().flat_map(|histograms| histograms.results_from(known));
        let judged = self.rules.iter().flat_map(|rules| rules.results_from(known));
        for result in buckets.chain(judged) {
            self.forms.push(Form::of(result.format));
            self.results.push(result);
            self.out.push(ABSENT);
        }
    }

    /// A reader begins that may not know the earlier rows.
    pub fn read_again(&mut self) {
        self.rules.iter_mut().for_each(BoundRules::read_again);
        self.change.iter_mut().for_each(|change| change.band.begin_again());
    }

    /// Takes a row of rules. Returns whether it is to be sent; `None`: there are no rules.
    fn judge(&mut self, stamp: Stamp, reading: impl Fn(u32) -> Option<u64>) -> Option<bool> {
        let is_sent = self.rules.as_mut()?.row(stamp, self.half_period, self.every, reading);
        self.add_results();
        let values = self.rules.iter().flat_map(BoundRules::values);
        self.out.iter_mut().zip(values).for_each(|(out, value)| *out = value);
        Some(is_sent)
    }

    /// Counts the readings of a row. `false`: there was none in any window.
    fn count(&mut self, time: i64, reading: impl Fn(u32) -> Option<u64>) -> bool {
        let Some(histograms) = &mut self.histograms else { return true };
        histograms.row(time, reading);
        if histograms.width() > self.results.len() {
            self.add_results();
        }
        let counts = self.histograms.iter().flat_map(Histograms::counts);
        self.out.iter_mut().zip(counts).for_each(|(out, count)| *out = count);
        self.out.iter().any(|&value| !is_absent(value))
    }

    /// The bytes that it holds, about.
    pub fn held(&self) -> usize {
        let when = self.when.iter().flat_map(|when| [when.plan.as_ref(), when.unless.as_ref()]);
        let change = self.change.iter().map(|change| change.readings.as_ref());
        let plans = when.chain(change).chain([self.values.as_ref()]).flatten().map(Bound::held);
        let rules = self.rules.as_ref().map_or(0, BoundRules::held);
        plans.sum::<usize>() + self.histograms.as_ref().map_or(0, Histograms::held) + rules
    }

    /// Reads what the next row of a plan needs, and returns a number that means nothing. Between two rows a node does other work,
    /// and the data leaves the cache. A caller that touches many handlers before their rows fetches the data of all of them at
    /// once.
    #[inline]
    pub fn touch(&self) -> usize {
        self.values.as_ref().map_or(0, Bound::touch)
            + usize::from(self.out.first().is_some_and(|value| *value > 0.0))
    }

    /// Takes the next row; `reading` gives the bits of a slot that is present. Returns whether it is to be sent.
    pub fn row(&mut self, stamp: Stamp, reading: impl Fn(u32) -> Option<u64>) -> bool {
        if let Some(is_sent) = self.judge(stamp, &reading) {
            return is_sent;
        }
        let (time, now) = (stamp.real().0 as i64, stamp.boot);
        let is_counted = self.count(time, &reading);
        let (is_full, present) = (self.is_full(now), self.interval_of(stamp));
        let BoundHandler { values, when, change, interval, out, kept, compared_slots, .. } = self;
        let (effect, now_on) = (self.effect, &mut self.is_on);
        let computed = values.as_mut().map(|values| values.row(time, &reading));
        // What the readings are is known even if no condition is true now.
        let (band, compared) = match change {
            Some(BoundChange { band, readings }) => {
                (Some(band), readings.as_mut().map(|readings| readings.row(time, &reading)))
            }
            None => (None, None),
        };
        *now_on = when.as_mut().is_none_or(|when| when.row(time, now, computed, &reading));
        let is_on = *now_on || matches!(effect, Effect::SlowsDown(_));
        if let Some(computed) = computed {
            let shows_all = matches!(effect, Effect::SlowsDown(_));
            let is_shown = |at: usize| shows_all || when.as_ref().is_none_or(|when| when.shows(at));
            for (at, (out, &value)) in out.iter_mut().zip(computed).enumerate() {
                *out = if is_shown(at) { value } else { ABSENT };
            }
            if out.iter().all(|&value| is_absent(value)) {
                return false;
            }
        }
        if !is_full {
            // The next interval's first row is the first one.
            *interval = present;
        }
        if !is_counted || !is_on || present.is_some() && *interval == present {
            return false;
        }
        match (band, compared) {
            (Some(band), Some(readings)) => {
                if !band.is_enough(readings) {
                    return false;
                }
                kept.fill(false);
                band.send(readings, |at| kept[compared_slots[at] as usize] = true);
            }
            (Some(band), None) => {
                if !band.is_enough(out) {
                    return false;
                }
                band.send(out, |_| ());
                out.copy_from_slice(band.sent());
            }
            (None, _) => {}
        }
        *interval = present;
        true
    }

    /// Whether windows that follow each other are full: rows have come for long enough.
    fn is_full(&mut self, now: Nanos) -> bool {
        let begun = self.begun.get_or_insert(now).0;
        // The first row stands for the period before it; and this one may come early by half a period.
        self.length.is_none_or(|length| now.0 + 3 * self.half_period.0 >= begun + length.0)
    }

    /// The interval that a row is in, `None` where each row may be sent. A row that comes early or late by less than half a period is
    /// in the interval that it is meant for.
    fn interval_of(&self, stamp: Stamp) -> Option<u64> {
        (stamp.real().0 + self.half_period.0).checked_div(self.every.0)
    }

    /// The values of the row, in the order of [`BoundHandler::results`]; [`ABSENT`] where there is none.
    pub fn values(&self) -> &[f64] {
        &self.out
    }

    /// Whether a series of the condition is on.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// How many times more slowly than asked the node should gather now.
    pub fn slower(&self) -> u32 {
        match self.effect {
            Effect::SlowsDown(times) if !self.is_on => times,
            _ => 1,
        }
    }

    /// True if the deadband holds a reading back in a sent row: then the reading keeps its last sent
    /// value.
    #[inline]
    pub fn keeps(&self, reading: usize) -> bool {
        self.kept.get(reading).is_some_and(|&is_kept| is_kept)
    }

    /// Whether readings can be kept back.
    pub fn may_keep(&self) -> bool {
        !self.compared_slots.is_empty()
    }

    /// The bits of a value of the row, as the format of its series says.
    #[inline]
    pub fn bits(&self, at: usize) -> Option<u64> {
        self.forms[at].bits(self.out[at])
    }
}

/// The series that a handler gives.
fn results(handler: &Handler, values: &Bound, series: &[Series]) -> Vec<ResultSeries> {
    let planned = |labels: &LabelSet| ResultSeries::planned(labels.clone());
    match handler.values {
        Values::Each { over, .. } => {
            let slots = values.window_slots();
            let of = slots.zip(values.labels()).filter_map(|(slot, labels)| {
                Some(ResultSeries::of_series(over, slot, series.get(slot as usize)?, labels.clone()))
            });
            of.collect()
        }
        _ if values.is_number() => vec![ResultSeries::planned(LabelSet::default())],
        _ => values.labels().iter().map(planned).collect(),
    }
}

/// The places of the series of two results that have the same labels: in the new result, and in the old one. A number has
/// its one place.
pub(super) fn places(new: &Bound, old: &Bound) -> Vec<(usize, usize)> {
    if new.is_number() && old.is_number() {
        return vec![(0, 0)];
    }
    let known: HashMap<&LabelSet, usize> = old.labels().iter().zip(0..).collect();
    let new = new.labels().iter().enumerate();
    new.filter_map(|(place, labels)| Some((place, *known.get(labels)?))).collect()
}

impl BoundWhen {
    fn new(
        when: &When,
        values: Option<&Bound>,
        period: Nanos,
        bind: impl Fn(&Plan) -> Result<Bound, PlanError>,
    ) -> Result<Self, PlanError> {
        let plan = when.plan.as_ref().map(&bind).transpose()?;
        let unless = when.unless.as_ref().map(&bind).transpose()?;
        let judged = plan.as_ref().or(values);
        let back = judged.map_or_else(Vec::new, |judged| backs(judged, unless.as_ref()));
        let truths = vec![Truth::default(); back.len()].into();
        Ok(BoundWhen { when: when.clone(), plan, unless, back, truths, half_period: Nanos(period.0 / 2) })
    }

    /// Takes the next row. Returns whether it is to be sent.
    fn row(
        &mut self,
        time: i64,
        now: Nanos,
        computed: Option<&[f64]>,
        reading: &impl Fn(u32) -> Option<u64>,
    ) -> bool {
        let judged = match &mut self.plan {
            Some(plan) => plan.row(time, reading),
            None => computed.unwrap_or_default(),
        };
        let unless = self.unless.as_mut().map_or(&[][..], |unless| unless.row(time, reading));
        let is_any_back = unless.iter().any(|&value| !is_absent(value));
        let (mut is_on, mut is_news) = (false, false);
        for ((truth, back), &value) in self.truths.iter_mut().zip(&self.back).zip(judged) {
            let is_back = match back {
                Back::Never => false,
                Back::By(at) => !is_absent(unless[*at as usize]),
                Back::Any => is_any_back,
            };
            is_on |= truth.row(&self.when, now, self.half_period, !is_absent(value), is_back);
            is_news |= self.when.once && truth.take_news(&self.when, now, self.half_period);
        }
        if self.when.once { is_news } else { is_on }
    }

    /// Whether a row shows this series of the values: if they are the condition, only while it is on.
    fn shows(&self, at: usize) -> bool {
        self.plan.is_some() || self.truths.get(at).is_some_and(Truth::is_on)
    }
}

/// The condition that turns off each series of a condition.
fn backs(judged: &Bound, unless: Option<&Bound>) -> Vec<Back> {
    let Some(unless) = unless else { return vec![Back::Never; judged.width()] };
    let is_of_none = unless.is_number() || unless.labels().iter().all(|labels| labels.unnamed().is_empty());
    if judged.is_number() || is_of_none {
        return vec![Back::Any; judged.width()];
    }
    let same = |labels: &LabelSet| {
        let labels = labels.unnamed();
        let at = unless.labels().iter().position(|other| other.unnamed() == labels);
        at.map_or(Back::Never, |at| Back::By(at as u32))
    };
    judged.labels().iter().map(same).collect()
}
