//! The handler of a channel in its lane: it takes the readings of each row, and decides whether the lane writes a row, and
//! which slots with which values. It gathers nothing and writes nothing itself.

mod named;

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::metric::Called;
use khz_model::{
    Absence, Budget, ChannelTerms, Metric, Nanos, NodeName, Notice, Pattern, QueryError, Reading, Series,
    Share, Stamp,
};
use khz_parse::KernelFile;
use khz_plan::{BoundHandler, Effect, Handler, Identity, PlanError, Values};

use self::named::{metric, own_labels, series_of};
use crate::channel_memory::ChannelMemory;
use crate::past::Past;
use crate::readings::{Cell, NOT_YET};
use crate::source::Source;

/// The label `job` of a node's series in an expression: a node does not know what its hub calls it.
const JOB: &str = "node";

/// The lane's slot of a reading that its rows do not have.
const NOT_IN: u32 = u32::MAX;

/// What a reader asks of a lane: the channel's terms, read and checked.
#[derive(Debug)]
pub(crate) struct Channel {
    pub terms: Arc<ChannelTerms>,
    pub handler: Handler,
    /// Whose part of the memory it takes.
    pub wanted_by: WantedBy,
}

/// Who wants a channel. Both have memory of their own at a node, so that neither can take all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedBy {
    /// Readers.
    Readers,
    /// The hub itself, for its store or its rules.
    Hub,
}

impl Channel {
    /// Reads the handler.
    ///
    /// # Errors
    /// Returns why no node can execute it.
    pub fn new(terms: Arc<ChannelTerms>, wanted_by: WantedBy) -> Result<Self, QueryError> {
        match Handler::take(&terms.handler) {
            Ok(handler) => Ok(Channel { terms, handler, wanted_by }),
            Err(error) => Err(refused(&terms, error)),
        }
    }

    /// Whether its patterns say what its rows have; if not, an expression does.
    pub fn uses_patterns(&self) -> bool {
        !matches!(self.handler.values, Values::Plan(_) | Values::Rules(_))
    }

    /// Whether the channel may need this metric: its patterns select it for rows of readings, or an expression uses it.
    pub fn may_need(&self, metric: Called<'_>, patterns: &[Pattern]) -> bool {
        self.uses_patterns() && patterns.iter().any(|pattern| pattern.matches_metric(metric.name))
            || self.handler.may_need(metric)
    }
}

/// Why a node refuses a channel.
pub(crate) fn refused(terms: &ChannelTerms, problem: impl ToString) -> QueryError {
    QueryError::Channel { channel: terms.name.clone(), problem: problem.to_string(), for_now: false }
}

/// Why a handler could not be bound to series.
#[derive(Debug)]
pub(crate) struct Unbound {
    error: QueryError,
    /// There are too many series: it might be bound to fewer.
    are_too_many: bool,
}

impl From<Unbound> for QueryError {
    fn from(unbound: Unbound) -> Self {
        unbound.error
    }
}

/// The error if there is no memory for a handler's data.
fn full(channel: &Channel, wanted_by: WantedBy, needs: u64, budget: &Budget) -> QueryError {
    let limit = budget.limit();
    let whose = match wanted_by {
        WantedBy::Readers => "that readers follow",
        WantedBy::Hub => "that the hub wants for its store and its rules",
    };
    let for_now = needs <= limit.0;
    let problem = format!(
        "all channels of a node {whose} may hold {limit}, and this one needs more than is left: take shorter windows, fewer series, or a lower rate"
    );
    let problem = if for_now { Notice::for_now(&problem) } else { problem };
    QueryError::Channel { channel: channel.terms.name.clone(), problem, for_now }
}

/// A handler that is bound to a lane. The fields that every row touches come first (see `Lane`).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Handled {
    slots: Slots,
    /// Rows that are sent if an event comes.
    past: Option<Past>,
    bound: BoundHandler,
    /// With a deadband of readings: state and bits of each as they were sent.
    sent: Vec<Cell>,
    channel: Arc<Channel>,
    patterns: Vec<Pattern>,
    node: NodeName,
    metric: Arc<Metric>,
    /// Its share of the memory for all channels that the same side wants.
    share: Share,
    wanted_by: WantedBy,
    /// The series of the lane's readings to which it is bound.
    readings: Vec<Series>,
}

/// The slots of its rows.
#[derive(Debug)]
enum Slots {
    /// Readings: the reading of each slot, and the slot of each reading, or [`NOT_IN`].
    Raw { shown: Vec<u32>, slot_of: Vec<u32> },
    /// Results of the handler.
    Computed(Vec<Series>),
}

impl Handled {
    /// Binds the channel's handler to readings of which a row comes each period.
    ///
    /// # Errors
    /// Returns why this node cannot execute it.
    pub fn new(
        channel: Arc<Channel>,
        patterns: &[Pattern],
        node: &NodeName,
        period: Nanos,
        budget: &Budget,
    ) -> Result<Self, QueryError> {
        let share = budget.take(0).ok_or_else(|| full(&channel, channel.wanted_by, 0, budget))?;
        let identity = Identity { node, job: JOB };
        let bound = BoundHandler::new(&channel.handler, &[], |_| true, identity, period);
        let bound = bound.map_err(|error| refused(&channel.terms, error))?;
        let slots = Slots::of(&bound, &channel, patterns, &[], &Arc::new(metric(&channel)));
        let past = past_of(&channel, period, 0);
        Ok(Handled {
            metric: Arc::new(metric(&channel)),
            patterns: patterns.to_vec(),
            node: node.clone(),
            bound,
            share,
            wanted_by: channel.wanted_by,
            past,
            sent: Vec::new(),
            readings: Vec::new(),
            slots,
            channel,
        })
    }

    /// True if it is the handler of this channel, for series of these patterns.
    pub fn is_of(&self, channel: &Channel, patterns: &[Pattern]) -> bool {
        self.channel.terms == channel.terms && self.patterns == patterns
    }

    /// Whether it needs a series, to show it or to compute.
    pub fn wants(&self, series: &Series) -> bool {
        let identity = Identity { node: &self.node, job: JOB };
        self.channel.uses_patterns() && series.is_selected(&self.patterns)
            || self.channel.handler.needs(series, identity)
    }

    /// Whose memory it takes.
    pub fn wanted_by(&self) -> WantedBy {
        self.wanted_by
    }

    /// The hub itself wants the channel, too: its memory counts for the hub's part from now on, if there is
    /// room.
    pub fn move_to_hub(&mut self, memory: &ChannelMemory) {
        if self.wanted_by == WantedBy::Readers
            && let Some(share) = memory.of(WantedBy::Hub).take(self.share.bytes())
        {
            (self.share, self.wanted_by) = (share, WantedBy::Hub);
        }
    }

    /// The readings to which it is bound.
    pub fn bound_to(&self) -> &[Series] {
        &self.readings
    }

    /// The number of readings to which it is bound.
    pub fn readings(&self) -> usize {
        self.readings.len()
    }

    /// Binds it to more readings, or to others. It keeps its memory of series that it already knows. Returns whether its rows
    /// continue: whether the earlier slots keep their meanings.
    ///
    /// # Errors
    /// Returns why this node cannot execute it for these series; then it is as it was.
    pub fn bind(&mut self, readings: Vec<Series>, period: Nanos) -> Result<bool, Unbound> {
        let identity = Identity { node: &self.node, job: JOB };
        let is_shown = |series: &Series| series.is_selected(&self.patterns);
        let mut bound = BoundHandler::new(&self.channel.handler, &readings, is_shown, identity, period)
            .map_err(|error| Unbound {
                are_too_many: matches!(error, PlanError::TooMuch { .. }),
                error: refused(&self.channel.terms, error),
            })?;
        // The hub makes alerts from these labels, so it must get them unchanged.
        if let Some(labels) = bound.labels_of_rules().find(|labels| own_labels(labels).is_err()) {
            let problem = format!("a result has too many or too long labels: {labels}");
            return Err(Unbound { error: refused(&self.channel.terms, problem), are_too_many: false });
        }
        let slots = Slots::of(&bound, &self.channel, &self.patterns, &readings, &self.metric);
        let past = match self.channel.handler.effect {
            Effect::Surrounds { before, .. } => Past::bytes(before, period, slots.count()),
            _ => 0,
        };
        let needs = bound.held().saturating_add(past) as u64;
        if !self.share.set(needs) {
            let error = full(&self.channel, self.wanted_by, needs, self.share.budget());
            return Err(Unbound { error, are_too_many: true });
        }
        let names = readings.iter().map(|series| (&*series.metric.name, series.instance.as_ref()));
        let now: HashMap<_, u32> = names.zip(0..).collect();
        let before = std::mem::take(&mut self.readings);
        let slot = |slot: u32| {
            let series = before.get(slot as usize)?;
            now.get(&(&*series.metric.name, series.instance.as_ref())).copied()
        };
        let mut sent = vec![NOT_YET; if bound.may_keep() { readings.len() } else { 0 }];
        for (number, &cell) in (0..).zip(&self.sent) {
            if let Some(now) = slot(number) {
                sent[now as usize] = cell;
            }
        }
        self.sent = sent;
        self.past = self.past.take().map(|past| {
            let reading_of = |slots: &Slots, slot: usize| {
                if let Slots::Raw { shown, .. } = slots { shown.get(slot).copied() } else { None }
            };
            let before: HashMap<u32, usize> = (0..self.slots.count())
                .filter_map(|old| Some((slot(reading_of(&self.slots, old)?)?, old)))
                .collect();
            past.with_slots(slots.count(), |new| before.get(&reading_of(&slots, new)?).copied())
        });
        std::mem::swap(&mut self.bound, &mut bound);
        self.bound.take_over(bound, slot);
        // The buckets in use are taken over with the rest.
        let slots = match slots {
            Slots::Computed(_) => {
                Slots::of(&self.bound, &self.channel, &self.patterns, &readings, &self.metric)
            }
            raw => raw,
        };
        let goes_on = slots.begin_with(&self.slots, &readings, &before);
        (self.slots, self.readings) = (slots, readings);
        Ok(goes_on)
    }

    /// Binds it to these readings, or to as many of the first ones as there is memory for. Also returns why no further reading fits:
    /// a channel that is too large for any node, or memory that other channels hold here.
    ///
    /// # Errors
    /// It can be bound to none of those that it does not have, or a part of them would give something else than all.
    pub fn bind_most(
        &mut self,
        readings: &[Series],
        period: Nanos,
    ) -> Result<(bool, Option<QueryError>), QueryError> {
        let mut unbound = match self.bind(readings.to_vec(), period) {
            Ok(goes_on) => return Ok((goes_on, None)),
            Err(unbound) => unbound,
        };
        if !unbound.are_too_many || !self.channel.handler.may_lack_series() {
            return Err(unbound.error);
        }
        let mut fits = if readings.starts_with(&self.readings) { self.readings.len() } else { 0 };
        let (mut too_many, mut bound) = (readings.len(), None);
        while fits + 1 < too_many {
            let middle = fits + (too_many - fits) / 2;
            match self.bind(readings[..middle].to_vec(), period) {
                Ok(goes_on) => (fits, bound) = (middle, Some(goes_on && bound.unwrap_or(true))),
                Err(fewer) => (too_many, unbound) = (middle, fewer),
            }
        }
        match bound {
            Some(goes_on) => Ok((goes_on, Some(unbound.error))),
            None => Err(unbound.error),
        }
    }

    /// Somebody begins to read the lane.
    pub fn read_again(&mut self) {
        self.bound.read_again();
    }

    /// Reads what the next row needs ([`BoundHandler::touch`]).
    #[inline]
    pub fn touch(&self) -> usize {
        self.bound.touch()
    }

    /// Takes the next row of readings: state and bits by their number. Returns whether the lane writes a row.
    #[inline]
    pub fn row(&mut self, stamp: Stamp, reading: impl Fn(u32) -> Cell) -> bool {
        const PRESENT: u8 = Reading::Present(0).state();
        let is_sent = self.bound.row(stamp, |number| match reading(number) {
            (PRESENT, bits) => Some(bits),
            _ => None,
        });
        if self.bound.results().is_some_and(|results| results.len() > self.slots.count()) {
            self.add_slots();
        }
        if let (Some(past), Slots::Raw { shown, .. }) = (&mut self.past, &self.slots) {
            past.take(stamp, self.bound.is_on(), |slot| reading(shown[slot]));
        }
        if is_sent {
            for (number, sent) in self.sent.iter_mut().enumerate() {
                if !self.bound.keeps(number) {
                    *sent = reading(number as u32);
                }
            }
        }
        is_sent
    }

    /// Adds the series of buckets that were used for the first time; the lane publishes them before the row.
    #[cold]
    fn add_slots(&mut self) {
        let Handled { bound, channel, readings, metric, slots: Slots::Computed(series), .. } = self else {
            return;
        };
        let new = bound.results().unwrap_or_default().get(series.len()..).unwrap_or_default();
        series.extend(series_of(new, channel, readings, metric));
    }

    /// Takes out the rows around events, if it sends these, so that the lane can write them; [`Handled::put_past`] puts them back.
    pub fn take_past(&mut self) -> Option<Past> {
        self.past.take()
    }

    /// Puts back what [`Handled::take_past`] took out.
    pub fn put_past(&mut self, past: Past) {
        self.past = Some(past);
    }

    /// How many times more slowly than asked the lane should run now.
    #[inline]
    pub fn slower(&self) -> u32 {
        self.bound.slower()
    }

    /// State and bits of a reading in the row that is sent, if a deadband decides it.
    #[inline]
    pub fn kept(&self, reading: usize) -> Option<Cell> {
        self.sent.get(reading).copied()
    }

    /// The shortest time between two of its rows, beside that of the lane.
    pub fn every(&self) -> Nanos {
        self.channel.handler.every
    }

    /// The number of slots of its rows.
    pub fn slots(&self) -> usize {
        self.slots.count()
    }

    /// The meaning of a slot that is not the meaning of a reading.
    pub fn series(&self, slot: usize) -> Option<&Series> {
        match &self.slots {
            Slots::Raw { shown, .. } => self.readings.get(*shown.get(slot)? as usize),
            Slots::Computed(series) => series.get(slot),
        }
    }

    /// Whether its rows are results.
    pub fn is_computed(&self) -> bool {
        matches!(self.slots, Slots::Computed(_))
    }

    /// The slot of a reading; `None`: rows do not have it.
    #[inline]
    pub fn slot_of(&self, reading: usize) -> Option<usize> {
        match &self.slots {
            Slots::Raw { slot_of, .. } => {
                slot_of.get(reading).filter(|&&slot| slot != NOT_IN).map(|&slot| slot as usize)
            }
            Slots::Computed(_) => None,
        }
    }

    /// The reading that is a slot of the row; `None`: it is computed.
    #[inline]
    pub fn reading_of(&self, slot: usize) -> Option<usize> {
        match &self.slots {
            Slots::Raw { shown, .. } => Some(shown[slot] as usize),
            Slots::Computed(_) => None,
        }
    }

    /// State and bits of a slot that is computed.
    #[inline]
    pub fn computed(&self, slot: usize) -> Cell {
        match self.bound.bits(slot) {
            Some(bits) => (Reading::Present(0).state(), bits),
            None => (Reading::Absent(Absence::NoResult).state(), 0),
        }
    }
}

/// Room for rows around events, if the channel sends these.
fn past_of(channel: &Channel, period: Nanos, width: usize) -> Option<Past> {
    match channel.handler.effect {
        Effect::Surrounds { before, after } => Some(Past::new(before, after, period, width)),
        _ => None,
    }
}

impl Slots {
    fn count(&self) -> usize {
        match self {
            Slots::Raw { shown, .. } => shown.len(),
            Slots::Computed(series) => series.len(),
        }
    }

    fn of(
        bound: &BoundHandler,
        channel: &Channel,
        patterns: &[Pattern],
        readings: &[Series],
        metric: &Arc<Metric>,
    ) -> Self {
        if let Some(results) = bound.results() {
            return Slots::Computed(series_of(results, channel, readings, metric));
        }
        let (mut shown, mut slot_of) = (Vec::new(), Vec::with_capacity(readings.len()));
        for (number, series) in readings.iter().enumerate() {
            let is_shown = series.is_selected(patterns);
            slot_of.push(if is_shown { shown.len() as u32 } else { NOT_IN });
            shown.extend(is_shown.then_some(number as u32));
        }
        Slots::Raw { shown, slot_of }
    }

    /// True if the slots of another row mean the same here.
    fn begin_with(&self, other: &Slots, readings: &[Series], others: &[Series]) -> bool {
        match (self, other) {
            (Slots::Computed(now), Slots::Computed(before)) => now.starts_with(before),
            (Slots::Raw { shown: now, .. }, Slots::Raw { shown: before, .. }) => {
                let pairs = || now.iter().zip(before);
                let is_same =
                    |(&now, &before): (&u32, &u32)| readings.get(now as usize) == others.get(before as usize);
                now.len() >= before.len() && pairs().all(is_same)
            }
            _ => false,
        }
    }
}

/// The refresh that a channel needs from a source; `None` if it needs nothing from it. Programs may add names at any time: an
/// expression waits for them.
pub(crate) fn refresh(
    source: &Source,
    channel: &Channel,
    patterns: &[Pattern],
    exact: bool,
) -> Option<Nanos> {
    let own = if source.is_own() { crate::own::metrics() } else { Vec::new() };
    let of_file = source.kernel_file().into_iter().flat_map(KernelFile::called);
    let metrics = of_file.chain(own.iter().map(|metric| metric.called()));
    let needed = metrics.filter(|metric| channel.may_need(*metric, patterns));
    let needed: Vec<&str> = needed.map(|metric| metric.name).collect();
    let has_plan = !channel.uses_patterns() || channel.handler.when.is_some();
    source.refresh(|metric| needed.contains(&metric), |given| has_plan || given.may_match(patterns), exact)
}
