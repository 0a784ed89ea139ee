//! A lane: the sources that are sampled at one rate, and the ring for their rows. It knows when it is due, which slots
//! changed since its last row, how to write a row, and when a block ends. It gathers nothing itself.

mod bells;
mod row_writer;
mod schema;
mod share;
mod view;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use khz_block::Encoder;
use khz_model::{Nanos, Pattern, Rate, Stamp};
use khz_ring::{Ring, Writer};

use crate::channel_memory::ChannelMemory;
use crate::clock;
use crate::handled::{Channel, Handled, WantedBy};
use crate::handler_cost::HandlerCost;
use crate::lane_memory::{SLOT_BYTES, name_bytes};
use crate::past::Past;
use crate::readings::NOT_YET;
use crate::rings::row_bytes_max;
use crate::source::Source;
use crate::ticks::Ticks;
pub(crate) use bells::Bell;
use bells::Bells;
pub use bells::Call;
pub(crate) use row_writer::set_bits;
use row_writer::{RowWriter, reading_at};
use schema::PublishedSchema;
use share::Share;
pub(crate) use view::LaneView;

/// Patterns of one lane; with more of them it has all series of its sources. Each is compared with each new slot.
pub const LANE_PATTERNS_MAX: usize = 64;

/// The lane's slot of a series that is not part of the lane.
const NOT_IN: u32 = u32::MAX;

/// A lane, as the gather thread has it. The fields that every tick touches come first, so that they lie in few cache lines:
/// with a hundred lanes, most of them are in no cache at a tick.
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
    /// The handler knows the meaning of the lane's slots; it may not know new slots.
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
    bells: Bells,
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
        let view = LaneView::new(reader, writer.generation(), period, handled.is_some());
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
            bells: Bells::default(),
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

    /// The slots of some sources have other meanings from now on. The next row begins another generation, with the
    /// present slots of all sources. Row numbers continue.
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

    /// Reads the data that its next row needs, to bring it into the cache. The returned number means nothing
    /// ([`khz_plan::BoundHandler::touch`]).
    #[inline]
    pub fn touch(&self) -> usize {
        let slot = self.slots.first().map_or(0, |&(_, slot)| slot as usize);
        let rows = self.cost.as_ref().map_or(0, |cost| cost.counts()[0] as usize);
        slot + rows + self.handled.as_ref().map_or(0, Handled::touch)
    }

    /// Appends a row with the current readings of the sources and rings the bells. Calls for the gather thread are added
    /// to `calls`. `lap`: when the previous lane was done, if known; on return, when this lane was done.
    #[inline]
    pub fn record(
        &mut self,
        stamp: Stamp,
        sources: &[Source],
        calls: &mut Vec<Arc<Call>>,
        lap: &mut Option<Nanos>,
    ) {
        if self.record_unrung(stamp, sources, lap) && !self.bells.is_empty() {
            self.bells.ring(calls);
            *lap = None;
        }
    }

    /// Appends a row, unless the lane's handler leaves it out. `false`: it was left out, and its changes go into
    /// the next row.
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
        self.bells.ring(calls);
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
        self.bells.add(bell);
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

/// A holder of a lane's ring learns when the rows of the ring have ended.
impl Drop for Lane {
    fn drop(&mut self) {
        self.view.ended.store(clock::boot().0, Ordering::Release);
    }
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
}
