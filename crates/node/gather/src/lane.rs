//! A lane: the sources that are sampled at one rate, and the ring for their rows. It knows when it is due, which slots
//! changed since its last row, how to write a row, and when a block ends. It gathers nothing itself.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, Weak};

use khz_block::{Encoder, SchemaEncoder};
use khz_model::{Instance, LaneStatus, Nanos, Pattern, QueryError, Rate, Series, Stamp, ValueType};
use khz_ring::{Reader, Ring, Writer};
use rustix::fd::OwnedFd;

use crate::channel_memory::ChannelMemory;
use crate::clock;
use crate::handled::{Channel, Handled, WantedBy};
use crate::handler_cost::HandlerCost;
use crate::lane_memory::{METRIC_BYTES, Needs, Parts, SLOT_BYTES, name_bytes};
use crate::past::Past;
use crate::readings::{Cell, NOT_YET};
use crate::rings::{ChannelNeeds, boost_bytes_min, row_bytes_max};
use crate::source::Source;
use crate::ticks::Ticks;

/// A function that the gather thread calls after rows.
pub type Call = dyn Fn() + Send + Sync;

/// How a reader learns of every row of a lane.
pub(crate) enum Bell {
    /// An eventfd on which the reader sleeps.
    Fd(OwnedFd),
    /// A function that the gather thread calls.
    Call(Arc<Call>),
}

/// The part of a lane that readers share with the gather thread.
#[derive(Debug)]
pub(crate) struct LaneView {
    pub name: Instance,
    pub ring: Reader,
    /// The generation with which this process began; the ring may hold blocks of older ones.
    pub first_generation: u32,
    /// The requested period.
    pub asked: Nanos,
    /// A handler makes its rows.
    pub is_channel: bool,
    /// The present generation and the meaning of its slots, which only grows. The gather thread locks it only when
    /// one of them changes, before the first block with the change.
    schema: RwLock<(u32, Arc<Vec<Series>>)>,
    /// The number of subscriptions that follow the lane.
    pub readers: AtomicUsize,
    /// The current period in ns; 0: on demand.
    period: AtomicU64,
    /// The newest demand that a row in the ring answers.
    answered: AtomicU32,
    /// The number of rows that this process recorded, and when it gathered the newest (boot clock, ns).
    rows: AtomicU64,
    newest: AtomicU64,
    /// When the lane ended (boot clock, ns); 0: it has not.
    ended: AtomicU64,
    /// What its readers are to know of series that it leaves out; empty: it has all. And how often that has changed.
    lacks: RwLock<Arc<str>>,
    lacks_changed: AtomicU64,
}

impl LaneView {
    /// What its readers are to know of series that it leaves out; empty: it has all.
    pub fn lacks(&self) -> Arc<str> {
        self.lacks.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// How often that has changed.
    pub fn lacks_changed(&self) -> u64 {
        self.lacks_changed.load(Ordering::Acquire)
    }

    fn set_lacks(&self, text: String) {
        let mut lacks = self.lacks.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if **lacks != *text {
            *lacks = text.into();
            self.lacks_changed.fetch_add(1, Ordering::Release);
        }
    }

    /// When the lane ended; `None`: it has not.
    pub fn ended(&self) -> Option<Nanos> {
        Some(Nanos(self.ended.load(Ordering::Acquire))).filter(|&at| at > Nanos(0))
    }

    /// Its state, for lists of lanes; `None` if it has no ticks.
    pub fn status(&self, now: Nanos) -> Option<LaneStatus> {
        let rows = self.rows.load(Ordering::Acquire);
        let newest = Nanos(self.newest.load(Ordering::Relaxed));
        Some(LaneStatus {
            name: self.name.name().to_owned(),
            rate: Rate::from_period(self.period())?,
            asked: Rate::from_period(self.asked)?,
            slots: self.series().len() as u64,
            age: (rows > 0).then(|| now.since(newest)),
            rows,
            // Rows are made here, so none can be on its way.
            awaited: 0,
            lost: 0,
            late: 0,
        })
    }

    /// The time between two rows.
    pub fn period(&self) -> Nanos {
        Nanos(self.period.load(Ordering::Relaxed))
    }

    /// The newest demand that a row in the ring answers.
    pub fn answered(&self) -> u32 {
        self.answered.load(Ordering::Acquire)
    }

    /// The meaning of the present generation's slots.
    pub fn series(&self) -> Arc<Vec<Series>> {
        self.described().1
    }

    /// The present generation of slots; the ring has its schema.
    pub fn generation(&self) -> u32 {
        self.schema.read().unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    /// The present generation and the meaning of its slots.
    pub fn described(&self) -> (u32, Arc<Vec<Series>>) {
        self.schema.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Patterns of one lane; with more of them it has all series of its sources. Each is compared with each new slot.
pub const LANE_PATTERNS_MAX: usize = 64;

/// Series that are named of those that a channel leaves out.
const LEFT_OUT_NAMED: usize = 4;

/// The lane's slot of a series that nobody wants of it.
const NOT_IN: u32 = u32::MAX;

/// A lane, as the gather thread has it. What every tick touches comes first, so that it lies in few cache lines: with a hundred
/// lanes, a tick finds most of them in no cache.
#[repr(C)]
pub(crate) struct Lane {
    pub ticks: Ticks,
    /// What its handler costs.
    cost: Option<Arc<HandlerCost>>,
    /// How many times slower than asked it runs because its handler says so.
    slower: u64,
    /// The number of slots for which binding the handler was tried last.
    slots_bound: usize,
    /// The lane's slots: source and slot in the source.
    slots: Vec<(u16, u32)>,
    /// The handler knows what the lane's slots mean; of new ones it may know nothing.
    is_bound: bool,
    /// True when its period has changed since the current block began.
    is_repaced: bool,
    /// What makes rows of the readings; `None`: a row is the readings.
    handled: Option<Handled>,
    schema: PublishedSchema,
    pub view: Arc<LaneView>,
    /// The requested period; under the CPU ceiling, `ticks` may run slower.
    pub asked: Nanos,
    /// When its last reader left; `None` while it has one.
    pub unread_since: Option<Nanos>,
    /// How many times slower than asked it runs because of the ceiling.
    slowdown: u64,
    /// When the last row on demand was gathered.
    pub given: Option<Nanos>,
    /// For each source of the agent, the shortest time between two gathers for this lane; `None` if the
    /// source is not in the lane.
    members: Vec<Option<Nanos>>,
    /// Which series of these sources; `None`: all.
    wanted: Option<Vec<Pattern>>,
    /// For each source, the lane's slot of each of its slots, or [`NOT_IN`].
    by_source: Vec<Vec<u32>>,
    dirty: Vec<u64>,
    encoder: Encoder,
    /// The number of the first row that this process wrote.
    first_row: u64,
    ring: Writer,
    /// The bells to ring after every row.
    bells: Vec<Weak<Bell>>,
    /// The row under construction, kept to reuse its memory.
    bytes: Vec<u8>,
    /// The number of rows that did not fit into the ring.
    pub refused: u64,
    /// The handler could not be bound to all slots when that was tried last.
    leaves_out: bool,
    /// For want of memory.
    lacks_memory: bool,
    /// Its share of the memory of lanes that readers open; `None`: it is a lane of the plan.
    share: Option<Share>,
    /// Bytes of the names of its slots.
    named: u64,
    /// Some of them have labels as readings, or will.
    have_labels: bool,
    /// Slots that it would have if its share had room for them.
    without_room: usize,
}

/// The memory of a lane that readers opened.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// The most that a ring of readings may keep.
    ring_most: u64,
    /// What its ring may keep now.
    ring: u64,
    /// What it may take for further slots.
    room: u64,
}

/// What a row on its way into the ring needs of a lane.
struct RowWriter<'a> {
    stamp: Stamp,
    width: usize,
    encoder: &'a mut Encoder,
    bytes: &'a mut Vec<u8>,
    ring: &'a mut Writer,
}

impl RowWriter<'_> {
    /// Writes the row: the first of a block whole, others with what changed, in ascending order. `false`: there is no room.
    #[inline]
    fn write(&mut self, changed: impl Iterator<Item = usize>, reading: impl Fn(usize) -> Cell) -> bool {
        let RowWriter { stamp, width, encoder, bytes, ring } = self;
        bytes.clear();
        if encoder.rows_open() == 0 {
            encoder.key_row(*stamp, *width, reading, bytes);
            ring.begin(bytes)
        } else {
            encoder.delta_row(*stamp, changed, reading, bytes);
            ring.append(bytes)
        }
    }
}

/// State and bits of a source's slot.
#[inline]
fn reading_at(sources: &[Source], (source, slot): (u16, u32)) -> Cell {
    let source = &sources[source as usize];
    (source.states()[slot as usize], source.values()[slot as usize])
}

/// The part of the schema that readers know. What a tick touches comes first.
#[derive(Default)]
#[repr(C)]
struct PublishedSchema {
    /// The number of slots at the last attempt; `None` before the first.
    tried: Option<usize>,
    /// The number of slots that readers know; rows have only these.
    slots: usize,
    /// Some of them have labels as readings.
    has_labels: bool,
    /// True until the ring has begun the generation of these slots.
    is_next: bool,
    encoder: SchemaEncoder,
    /// Bytes from the encoder that are not in the ring yet.
    waiting: Vec<u8>,
}

impl Lane {
    /// A lane of the sources for which `members` has a refresh. Its first tick is the next multiple of the
    /// period; without a rate it has no ticks. The ring gives it name and number. It has all series of its sources.
    pub fn new(rate: Option<Rate>, members: Vec<Option<Nanos>>, ring: Ring, now: Stamp) -> Self {
        Lane::made(rate, members, ring, now, None, None)
    }

    /// The lane of a channel, with this handler.
    pub fn of_channel(
        rate: Option<Rate>,
        members: Vec<Option<Nanos>>,
        ring: Ring,
        now: Stamp,
        handled: Handled,
        cost: Arc<HandlerCost>,
    ) -> Self {
        Lane::made(rate, members, ring, now, Some(handled), Some(cost))
    }

    fn made(
        rate: Option<Rate>,
        members: Vec<Option<Nanos>>,
        ring: Ring,
        now: Stamp,
        handled: Option<Handled>,
        cost: Option<Arc<HandlerCost>>,
    ) -> Self {
        let Ring { writer, reader, next_row } = ring;
        let period = rate.map_or(Nanos(0), Rate::period);
        writer.set_started(now);
        writer.set_period(period);
        writer.set_asked(period);
        let mut encoder = Encoder::new(reader.label().number, writer.generation(), period);
        encoder.resume(next_row, writer.generation());
        let view = LaneView {
            name: Instance::from_kernel(reader.label().lane.as_bytes()),
            first_generation: writer.generation(),
            asked: period,
            is_channel: handled.is_some(),
            ring: reader,
            schema: RwLock::new((writer.generation(), Arc::default())),
            readers: AtomicUsize::new(0),
            period: AtomicU64::new(period.0),
            answered: AtomicU32::new(0),
            rows: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            lacks: RwLock::new(Arc::from("")),
            lacks_changed: AtomicU64::new(0),
        };
        Lane {
            view: Arc::new(view),
            ticks: if rate.is_some() { Ticks::new(period, now) } else { Ticks::never() },
            asked: period,
            unread_since: None,
            slowdown: 1,
            slower: 1,
            is_repaced: false,
            given: None,
            by_source: vec![Vec::new(); members.len()],
            members,
            wanted: None,
            slots_bound: handled.as_ref().map_or(0, Handled::readings),
            is_bound: true,
            handled,
            cost,
            slots: Vec::new(),
            dirty: Vec::new(),
            encoder,
            first_row: next_row,
            ring: writer,
            schema: PublishedSchema::default(),
            bells: Vec::new(),
            bytes: Vec::new(),
            refused: 0,
            leaves_out: false,
            lacks_memory: false,
            share: None,
            named: 0,
            have_labels: false,
            without_room: 0,
        }
    }

    /// The same lane, which readers opened: `room` is what it may take for its slots.
    pub fn sharing(mut self, ring_most: u64, room: u64) -> Self {
        self.share = Some(Share { ring_most, ring: 0, room });
        self
    }

    /// What it holds, or with `foreseen` what it would hold.
    fn needs_of(&self, foreseen: Option<Parts>) -> Needs {
        let slots = self.width();
        let here = || Parts {
            slots: self.slots.len() + self.handled.as_ref().map_or(0, Handled::slots),
            source_slots: self.by_source.iter().map(Vec::len).sum(),
            schema_bytes: self.named.max(self.ring.schema_bytes()),
            have_labels: self.have_labels || self.schema.has_labels,
        };
        let parts = foreseen.unwrap_or_else(here);
        let has_labels = parts.have_labels;
        let (ring_min, ring_max) = match &self.handled {
            Some(handled) => {
                let rows = ChannelNeeds { slots, has_labels, period: self.asked.max(handled.every()) };
                (rows.bytes_min(), rows.bytes())
            }
            None => {
                let least = boost_bytes_min(slots.max(parts.slots), has_labels);
                (least, self.share.map_or(0, |share| share.ring_most).max(least))
            }
        };
        Needs { beside: parts.bytes(), ring_min, ring_max }
    }

    /// What it holds of the memory of lanes that readers open.
    pub fn needs(&self) -> Needs {
        self.needs_of(None)
    }

    /// What it will hold when it knows the slots of these sources.
    pub fn needs_foreseen(&mut self, sources: &[Source]) -> Needs {
        let mut parts = Parts::default();
        let mut metrics = HashSet::new();
        for source in
            sources.iter().zip(&self.members).filter_map(|(source, member)| member.and(Some(source)))
        {
            parts.source_slots += source.slots();
            for series in (0..source.slots())
                .filter(|&slot| self.wants(source, slot))
                .filter_map(|slot| source.series().get(slot))
            {
                parts.slots += 1;
                parts.have_labels |= series.metric.value_type == ValueType::Labels;
                parts.schema_bytes += name_bytes(series, metrics.insert(Arc::as_ptr(&series.metric)));
            }
        }
        if let Some(handled) = &self.handled {
            parts.slots += handled.slots();
            let series = (0..handled.slots()).filter_map(|slot| handled.series(slot));
            parts.have_labels = series.clone().any(|series| series.metric.value_type == ValueType::Labels);
            parts.schema_bytes =
                series.map(|series| name_bytes(series, metrics.insert(Arc::as_ptr(&series.metric)))).sum();
        }
        self.named = metrics.len() as u64 * METRIC_BYTES;
        self.have_labels = parts.have_labels;
        self.needs_of(Some(parts))
    }

    /// What it would take for these series, too.
    pub fn needs_to_widen(&self, patterns: &[Pattern], sources: &[Source]) -> Needs {
        let mut parts = 0;
        for (index, source) in sources.iter().enumerate() {
            let known = self.by_source.get(index).map_or(&[][..], Vec::as_slice);
            let lacks = known.iter().zip(source.series()).filter(|(slot, _)| **slot == NOT_IN);
            let wanted = lacks.filter(|(_, series)| series.is_selected(patterns));
            parts += wanted.map(|(_, series)| SLOT_BYTES + name_bytes(series, false)).sum::<u64>();
        }
        Needs { beside: parts, ..Needs::default() }
    }

    /// Gives it its share: its ring keeps `ring` bytes, and it may take `room` bytes for further slots.
    pub fn set_share(&mut self, ring: u64, room: u64, sources: &[Source]) {
        let Some(share) = &mut self.share else { return };
        let has_more = room > share.room;
        (share.ring, share.room) = (ring, room);
        if has_more && self.without_room > 0 {
            self.take_left_out(sources);
            if self.without_room == 0 {
                self.view.set_lacks(String::new());
            }
        }
        self.keep_rows();
    }

    /// What it may take for further slots.
    pub fn give_room(&mut self, room: u64) {
        if let Some(share) = &mut self.share {
            share.room = room;
        }
    }

    /// Gives up the rows of older generations, with their names.
    pub fn forget_older(&mut self) {
        self.ring.forget_older();
    }

    /// The same lane with these series only.
    pub fn only(mut self, patterns: &[Pattern]) -> Self {
        self.wanted = (patterns.len() <= LANE_PATTERNS_MAX).then(|| patterns.to_vec());
        self
    }

    /// Whether it is the lane of this channel, or, without one, a lane of readings.
    pub fn is_of(&self, channel: Option<&Channel>, patterns: &[Pattern]) -> bool {
        match (&self.handled, channel) {
            (Some(handled), Some(channel)) => handled.is_of(channel, patterns),
            (handled, channel) => handled.is_none() && channel.is_none(),
        }
    }

    /// What its handler costs, if it has one.
    pub fn cost(&self) -> Option<&Arc<HandlerCost>> {
        self.cost.as_ref()
    }

    /// Whose memory its handler takes, if it has one.
    pub fn wanted_by(&self) -> Option<WantedBy> {
        self.handled.as_ref().map(Handled::wanted_by)
    }

    /// The hub itself wants it from now on.
    pub fn is_wanted_by_hub(&mut self, memory: &ChannelMemory) {
        if let Some(handled) = &mut self.handled {
            handled.move_to_hub(memory);
        }
    }

    /// How many of its readings the handler does not have, because it could not be bound to them.
    pub fn left_out(&self) -> usize {
        match &self.handled {
            Some(handled) if self.leaves_out && self.is_bound => self.slots.len() - handled.readings(),
            Some(_) if self.leaves_out => self.slots.len(),
            _ => 0,
        }
    }

    /// Its handler leaves series out because memory is short.
    pub fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    /// At its next row a handler that lacks memory is bound again: there may be some now.
    pub fn bind_again(&mut self) {
        if self.lacks_memory {
            self.slots_bound = usize::MAX;
        }
    }

    /// Whether readers get what a handler makes.
    pub fn is_channel(&self) -> bool {
        self.handled.is_some()
    }

    /// From the next row on it has these series, too. Its other slots stay what they are.
    pub fn widen(&mut self, patterns: &[Pattern], sources: &[Source]) {
        let Some(wanted) = &mut self.wanted else { return };
        let before = wanted.len();
        for pattern in patterns {
            if !wanted.contains(pattern) {
                wanted.push(pattern.clone());
            }
        }
        if wanted.len() == before {
            return;
        }
        if wanted.len() > LANE_PATTERNS_MAX {
            self.wanted = None;
        }
        self.take_left_out(sources);
    }

    /// Takes the slots that it wants and does not have.
    fn take_left_out(&mut self, sources: &[Source]) {
        self.without_room = 0;
        for (index, source) in sources.iter().enumerate() {
            for slot in 0..self.by_source.get(index).map_or(0, Vec::len) {
                if self.by_source[index][slot] == NOT_IN && self.wants(source, slot) {
                    self.by_source[index][slot] = self.add(index, slot, source);
                }
            }
        }
    }

    fn wants(&self, source: &Source, slot: usize) -> bool {
        let Some(series) = source.series().get(slot) else { return true };
        match (&self.handled, &self.wanted) {
            (Some(handled), _) => handled.wants(series),
            (None, Some(patterns)) => series.is_selected(patterns),
            (None, None) => true,
        }
    }

    /// Adds a slot; returns its number, or [`NOT_IN`] if there is no room for it.
    fn add(&mut self, index: usize, slot: usize, source: &Source) -> u32 {
        let named = source.series().get(slot).map_or(0, |series| name_bytes(series, false));
        if let Some(share) = &mut self.share {
            if SLOT_BYTES + named > share.room {
                self.leave_out();
                return NOT_IN;
            }
            share.room -= SLOT_BYTES + named;
        }
        self.named += named;
        self.slots.push((index as u16, slot as u32));
        self.dirty.resize(self.slots.len().div_ceil(64), 0);
        self.slots.len() as u32 - 1
    }

    /// The time between two gathers of that source for this lane; `None` if the source is not in the lane.
    #[inline]
    pub fn refresh_of(&self, source: usize) -> Option<Nanos> {
        self.members.get(source).copied().flatten()
    }

    /// Runs `factor` times slower than requested.
    pub fn slow_down(&mut self, factor: u64, now: Stamp) {
        self.slowdown = factor;
        self.set_pace(now);
    }

    /// Runs as fast as the ceiling and the lane's handler say.
    fn set_pace(&mut self, now: Stamp) {
        let period = Nanos(self.asked.0.saturating_mul(self.slowdown).saturating_mul(self.slower));
        if period != self.ticks.period() {
            self.ticks.set_period(period, now);
            self.encoder.set_period(period);
            self.ring.set_period(period);
            // A block header contains the period, so a new block must begin.
            self.is_repaced = true;
            self.view.period.store(period.0, Ordering::Relaxed);
        }
    }

    /// Whether its rows depend on which readings changed: rows of results have all slots each time.
    pub fn needs_marks(&self) -> bool {
        !self.handled.as_ref().is_some_and(Handled::is_computed)
    }

    /// Marks the readings of a source that changed. Called after every gather, whether this lane is due or not.
    #[inline]
    pub fn mark(&mut self, index: usize, source: &Source) {
        let slots = &self.by_source[index];
        for &slot in source.changed() {
            let slot = slots[slot as usize];
            if slot != NOT_IN {
                self.dirty[slot as usize / 64] |= 1 << (slot % 64);
            }
        }
    }

    /// Takes the slots of a source that it does not know yet, if the source is in the lane.
    pub fn know(&mut self, index: usize, source: &Source) {
        if self.members[index].is_some() && source.slots() > self.by_source[index].len() {
            self.grow(index, source);
        }
    }

    #[cold]
    fn grow(&mut self, index: usize, source: &Source) {
        for slot in self.by_source[index].len()..source.slots() {
            let of_lane = if self.wants(source, slot) { self.add(index, slot, source) } else { NOT_IN };
            self.by_source[index].push(of_lane);
        }
    }

    /// The slots of some sources have other meanings from here on: the next row begins another generation, with the
    /// present slots of all sources. Row numbers go on.
    #[cold]
    pub fn renew(&mut self, sources: &[Source]) {
        self.begin_generation();
        // It takes for its new slots what it held for the old ones.
        if let Some(share) = &mut self.share {
            share.room += self.slots.len() as u64 * SLOT_BYTES + self.named;
        }
        (self.slots, self.dirty, self.named, self.without_room) = (Vec::new(), Vec::new(), 0, 0);
        self.by_source = vec![Vec::new(); self.members.len()];
        sources.iter().enumerate().for_each(|(index, source)| self.know(index, source));
        // To a handler that cannot be bound to these slots, the numbers of the readings would mean what they meant before.
        self.is_bound = false;
        self.is_bound = self.bind(sources);
    }

    fn begin_generation(&mut self) {
        if let Some(header) = self.encoder.close() {
            self.ring.close(&header);
        }
        self.encoder.resume(self.encoder.rows(), self.ring.generation().saturating_add(1));
        self.schema = PublishedSchema { is_next: true, ..PublishedSchema::default() };
    }

    /// Binds the handler to the lane's readings. If it then gives other series, the next row begins another generation. `false`:
    /// it cannot be bound to them. That is tried again when there are other slots, not at each row.
    #[cold]
    fn bind(&mut self, sources: &[Source]) -> bool {
        let Some(handled) = &mut self.handled else { return true };
        self.slots_bound = self.slots.len();
        let series = |&(source, slot): &(u16, u32)| {
            sources.get(source as usize).and_then(|source| source.series().get(slot as usize)).cloned()
        };
        let readings: Vec<Series> = self.slots.iter().map_while(series).collect();
        // The shortest period that the lane may have: windows have room for its rows.
        let (bound, problem) = match handled.bind_most(&readings, self.asked) {
            Ok((goes_on, problem)) => (Some(goes_on), problem),
            Err(problem) => (None, Some(problem)),
        };
        self.leaves_out = problem.is_some();
        self.lacks_memory = problem.as_ref().is_some_and(QueryError::is_for_now);
        let rows_go_on = bound.is_some() || self.is_bound && readings.starts_with(handled.bound_to());
        let out = &readings[if rows_go_on { handled.readings() } else { 0 }..];
        let text = problem.map_or_else(String::new, |problem| left_out(out, readings.len(), &problem));
        if !text.is_empty() {
            tracing::warn!("lane {}: {text}", self.view.name);
        }
        if !text.is_empty() || self.without_room == 0 {
            self.view.set_lacks(text);
        }
        if bound == Some(false) && self.schema.slots > 0 {
            self.begin_generation();
        }
        bound.is_some()
    }

    /// Publishes the meaning of new slots before a block with these slots begins. If the ring has no room,
    /// the rows continue without them; the next attempt comes when there are further slots.
    #[cold]
    fn publish_schema(&mut self, sources: &[Source]) {
        let PublishedSchema { encoder, waiting, slots, has_labels, tried, is_next } = &mut self.schema;
        let width = self.handled.as_ref().map_or(self.slots.len(), Handled::slots);
        let mut series = Vec::with_capacity(width);
        if !*is_next {
            series.extend_from_slice(&self.view.series());
        }
        *tried = Some(width);
        for slot in series.len()..width {
            let known = match &self.handled {
                Some(handled) => handled.series(slot).cloned(),
                None => {
                    let (source, slot) = self.slots[slot];
                    sources[source as usize].series().get(slot as usize).cloned()
                }
            };
            let Some(known) = known else { break };
            let is_new = series.len() >= encoder.len();
            if is_new && let Err(error) = encoder.append(&known, waiting) {
                tracing::warn!("lane {}: {error}; further slots are left out", self.view.name);
                break;
            }
            series.push(known);
        }
        let taken = match *is_next {
            true => self.ring.begin_generation(waiting),
            false => self.ring.extend_schema(waiting),
        };
        if taken.is_err() {
            let name = &self.view.name;
            tracing::warn!("lane {name}: no room in its ring for the names of new slots; they are left out");
            return;
        }
        // The ring has them; there are more only when there are new slots.
        *waiting = Vec::new();
        (*slots, *is_next) = (series.len(), false);
        *has_labels = series.iter().any(|series| series.metric.value_type == ValueType::Labels);
        let described = (self.ring.generation(), Arc::new(series));
        *self.view.schema.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = described;
        self.keep_rows();
    }

    /// The meaning of the slots of a lane that readers opened is known before its first row.
    pub fn publish_opened(&mut self, sources: &[Source]) {
        self.publish_channel(sources);
        if self.handled.is_none() && self.schema.tried != Some(self.width()) {
            self.publish_schema(sources);
        }
    }

    /// The meaning of a channel's slots is known before its first row: readers who follow it have its columns, and know which row
    /// comes next.
    pub fn publish_channel(&mut self, sources: &[Source]) {
        if self.handled.is_none() {
            return;
        }
        if self.slots_bound != self.slots.len() {
            self.is_bound |= self.bind(sources);
        }
        let width = self.width();
        if self.is_bound && width > 0 && self.schema.tried != Some(width) {
            self.publish_schema(sources);
        }
    }

    /// The ring of a lane that readers opened keeps as many bytes as its share allows. It may have more slots now, for whose rows it
    /// needs more.
    fn keep_rows(&mut self) {
        let Some(share) = self.share else { return };
        let needs = self.needs();
        self.ring.keep(share.ring.min(needs.ring_max).max(needs.ring_min));
    }

    /// A slot finds no room.
    #[cold]
    fn leave_out(&mut self) {
        self.without_room += 1;
        if self.without_room == 1 {
            let text = "lacks new series: there is no memory for them (a larger `ring` has more)";
            tracing::warn!("lane {}: {text}", self.view.name);
            self.view.set_lacks(text.to_owned());
        }
    }

    /// Reads what its next row needs, and returns a number that means nothing ([`khz_plan::BoundHandler::touch`]).
    #[inline]
    pub fn touch(&self) -> usize {
        let slot = self.slots.first().map_or(0, |&(_, slot)| slot as usize);
        let rows = self.cost.as_ref().map_or(0, |cost| cost.counts()[0] as usize);
        slot + rows + self.handled.as_ref().map_or(0, Handled::touch)
    }

    /// Appends a row with the current readings of the sources and rings the bells. Calls for the gather
    /// thread are added to `calls`. `lap`: when the lane before has ended, if that is known, and then when this one has.
    #[inline]
    pub fn record(
        &mut self,
        stamp: Stamp,
        sources: &[Source],
        calls: &mut Vec<Arc<Call>>,
        lap: &mut Option<Nanos>,
    ) {
        if self.record_unrung(stamp, sources, lap) && !self.bells.is_empty() {
            self.ring_bells(calls);
            *lap = None;
        }
    }

    /// Appends a row, unless the lane's handler leaves it out. Then `false`: what changed goes into the next row.
    fn record_unrung(&mut self, stamp: Stamp, sources: &[Source], lap: &mut Option<Nanos>) -> bool {
        if self.cost.is_none() {
            *lap = None;
            return self.append(stamp, sources);
        }
        let begun = lap.unwrap_or_else(clock::boot);
        let is_written = self.append(stamp, sources);
        let ended = clock::boot();
        if let Some(cost) = &self.cost {
            cost.took_row(ended.since(begun));
        }
        *lap = Some(ended);
        is_written
    }

    fn append(&mut self, stamp: Stamp, sources: &[Source]) -> bool {
        let is_sent = self.is_sent(stamp, sources);
        self.publish_channel(sources);
        if let Some(past) = self.handled.as_mut().and_then(Handled::take_past) {
            return self.record_past(past, sources);
        }
        if !is_sent {
            return false;
        }
        self.prepare(stamp, sources);
        if !self.write(stamp, sources) {
            self.refuse();
            return true;
        }
        self.wrote(stamp);
        true
    }

    /// Writes the rows around events that are due; `false`: there are none.
    fn record_past(&mut self, mut past: Past, sources: &[Source]) -> bool {
        let mut is_written = false;
        past.send(|stamp, cells| {
            self.prepare(stamp, sources);
            let Lane { schema, encoder, bytes, ring, .. } = self;
            // Slots that readers do not know yet are left out.
            let width = schema.slots.min(cells.len());
            let mut row = RowWriter { stamp, width, encoder, bytes, ring };
            match row.write(0..width, |slot| cells[slot]) {
                true => self.wrote(stamp),
                false => self.refuse(),
            }
            is_written = true;
        });
        self.dirty.fill(0);
        if let Some(handled) = &mut self.handled {
            handled.put_past(past);
        }
        is_written
    }

    /// Publishes new slots, and ends the block where another one must begin.
    fn prepare(&mut self, stamp: Stamp, sources: &[Source]) {
        if self.schema.tried != Some(self.width()) {
            self.publish_schema(sources);
        }
        let width = self.schema.slots;
        let grown = width != self.encoder.slots();
        let is_repaced = std::mem::take(&mut self.is_repaced);
        if (grown || is_repaced || self.encoder.wants_new_block(stamp) || self.is_half_the_ring())
            && let Some(header) = self.encoder.close()
        {
            self.ring.close(&header);
        }
    }

    /// Readers learn that there is a row.
    fn wrote(&self, stamp: Stamp) {
        if let Some(cost) = &self.cost {
            cost.sent_row(self.bytes.len());
        }
        self.view.newest.store(stamp.boot.0, Ordering::Relaxed);
        self.view.rows.store(self.rows(), Ordering::Release);
    }

    /// Whether a row is to be written: the handler takes the readings, and decides.
    #[inline]
    fn is_sent(&mut self, stamp: Stamp, sources: &[Source]) -> bool {
        if self.handled.is_some() && self.slots_bound != self.slots.len() {
            self.is_bound |= self.bind(sources);
        }
        let Lane { handled, slots, .. } = self;
        let Some(handled) = handled else { return true };
        if !self.is_bound {
            return false;
        }
        let is_sent = handled.row(stamp, |number| match slots.get(number as usize) {
            Some(&place) => reading_at(sources, place),
            None => NOT_YET,
        });
        let slower = u64::from(handled.slower());
        if slower != std::mem::replace(&mut self.slower, slower) {
            self.set_pace(stamp);
        }
        is_sent
    }

    /// The number of slots that rows would have if readers knew them all.
    #[inline]
    fn width(&self) -> usize {
        self.handled.as_ref().map_or(self.slots.len(), Handled::slots)
    }

    /// Encodes the row and puts it into the ring. `false`: the ring has no room.
    fn write(&mut self, stamp: Stamp, sources: &[Source]) -> bool {
        let Lane { slots, dirty, handled, schema, encoder, bytes, ring, .. } = self;
        let width = schema.slots;
        let at = |reading: usize| reading_at(sources, slots[reading]);
        let mut row = RowWriter { stamp, width, encoder, bytes, ring };
        let is_written = match handled {
            None => row.write(set_bits(dirty.iter().copied()).take_while(|&slot| slot < width), at),
            Some(handled) => {
                let reading = |slot: usize| match handled.reading_of(slot) {
                    Some(reading) => handled.kept(reading).unwrap_or_else(|| at(reading)),
                    None => handled.computed(slot),
                };
                if handled.is_computed() {
                    row.write(0..width, reading)
                } else {
                    let changed =
                        set_bits(dirty.iter().copied()).filter_map(|number| handled.slot_of(number));
                    row.write(changed.take_while(|&slot| slot < width), reading)
                }
            }
        };
        dirty.fill(0);
        is_written
    }

    /// Answers a demand: writes a row if `again`, or else marks the newest row as the answer.
    pub fn give(
        &mut self,
        ask: u32,
        stamp: Stamp,
        sources: &[Source],
        again: bool,
        calls: &mut Vec<Arc<Call>>,
    ) {
        if again {
            self.record_unrung(stamp, sources, &mut None);
        }
        // Store the number after the row: a reader that sees the number finds the row.
        self.view.answered.store(ask, Ordering::Release);
        self.ring_bells(calls);
    }

    /// True when the open block, with one more row, might be larger than half the ring; or than the ring, if the row has as many labels
    /// as a row may have.
    fn is_half_the_ring(&self) -> bool {
        let with_row = |have_labels| {
            u64::from(self.encoder.bytes_open()) + row_bytes_max(self.width(), have_labels) as u64
        };
        let kept = self.ring.kept();
        with_row(false) > kept / 2 || self.schema.has_labels && with_row(true) > kept
    }

    /// Rings this bell after every row until its holder drops it.
    pub fn prompt(&mut self, bell: Weak<Bell>) {
        self.bells.push(bell);
    }

    /// Rings the bells, and drops those without a holder. A call that several lanes share is added once.
    fn ring_bells(&mut self, calls: &mut Vec<Arc<Call>>) {
        self.bells.retain(|bell| {
            let Some(bell) = bell.upgrade() else { return false };
            match &*bell {
                Bell::Fd(bell) => {
                    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
                }
                Bell::Call(call) => {
                    let is_same =
                        |known: &Arc<Call>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(call));
                    if !calls.iter().any(is_same) {
                        calls.push(call.clone());
                    }
                }
            }
            true
        });
    }

    /// Handles a key row that does not fit into the ring: nothing was written, and the next row tries again.
    #[cold]
    fn refuse(&mut self) {
        if self.refused == 0 {
            let (name, size, bytes) = (&self.view.name, self.ring.kept(), self.bytes.len());
            tracing::warn!(
                "lane {name}: a row of {bytes} bytes does not fit into its ring of {size}: give it more (--ring)"
            );
        }
        self.refused += 1;
        self.encoder.close();
    }

    /// The reason why its rows no longer reach the ring's file.
    pub fn ring_problem(&self) -> Option<&'static str> {
        self.ring.problem()
    }

    /// The number of rows that this process recorded.
    pub fn rows(&self) -> u64 {
        self.encoder.rows() - self.first_row - self.refused
    }

    /// The bytes of the ring in use.
    pub fn ring_used(&self) -> u64 {
        self.ring.used()
    }

    /// Counts one more subscription.
    pub fn read_again(&mut self) {
        self.view.readers.fetch_add(1, Ordering::Relaxed);
        self.unread_since = None;
        self.handled.iter_mut().for_each(Handled::read_again);
    }

    /// True when it has had no reader for this long. An on-demand lane closes at once: no other reader could
    /// use its rows.
    pub fn is_unread_for(&mut self, time: Nanos, now: Nanos) -> bool {
        if self.readers() > 0 {
            return false;
        }
        let since = *self.unread_since.get_or_insert(now);
        self.asked == Nanos(0) || now.since(since) >= time
    }

    /// The number of subscriptions that follow it.
    pub fn readers(&self) -> usize {
        self.view.readers.load(Ordering::Relaxed)
    }
}

/// What readers are to know of a channel whose handler does not have these of all its series.
fn left_out(out: &[Series], all: usize, problem: &QueryError) -> String {
    let names: Vec<String> = out.iter().take(LEFT_OUT_NAMED).map(Series::to_string).collect();
    let more = match out.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = names.join(", ");
    match all - out.len() {
        0 => format!("sends no rows: {problem}; without {names}{more}"),
        sent => format!("sends {sent} of {all} series, without {names}{more}: {problem}"),
    }
}

/// Who holds on to the ring of a lane learns when its rows ended.
impl Drop for Lane {
    fn drop(&mut self) {
        self.view.ended.store(clock::boot().0, Ordering::Release);
    }
}

/// The positions of the bits that are set, in order.
#[inline]
pub(crate) fn set_bits(words: impl IntoIterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.into_iter().enumerate().flat_map(|(word, bits)| {
        let mut rest = bits;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                word * 64 + bit
            })
        })
    })
}

/// A ring that only this process sees.
#[cfg(test)]
pub(crate) fn ring_of_tests(bytes: u64) -> Ring {
    let label = khz_ring::Label {
        node: "n1".into(),
        lane: "base".into(),
        number: 0,
        machine: [1; 16],
        boot: [2; 16],
        epoch: 4,
        created: 5,
    };
    Ring::anonymous(bytes, label).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_was_read_again_lives_on_as_long_as_any_other_when_it_is_left() {
        let ring = ring_of_tests(1 << 16);
        let mut lane = Lane::new(Some(Rate::from_hz(100).unwrap()), vec![], ring, crate::clock::stamp());
        let time = Nanos::from_secs(10);
        let second = |number: u64| Nanos(number * 1_000_000_000);
        lane.read_again();
        lane.view.readers.fetch_sub(1, Ordering::Relaxed);
        assert!(!lane.is_unread_for(time, second(0)));
        // While the lane has a reader, nothing checks its age.
        lane.read_again();
        lane.view.readers.fetch_sub(1, Ordering::Relaxed);
        assert!(!lane.is_unread_for(time, second(12)), "its reader left a moment ago");
        assert!(!lane.is_unread_for(time, second(21)));
        assert!(lane.is_unread_for(time, second(22)));
    }

    #[test]
    fn bits_come_in_order() {
        assert_eq!(set_bits([0b1001, 0, 1 << 63]).collect::<Vec<_>>(), [0, 3, 191]);
    }
}
