//! Reads rows out of a lane's ring, for a reader that follows and for one that asks for history.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_block::{Decoder, Header, SchemaDecoder};
use khz_model::{
    Absence, Bell, ByteSize, Delivery, HISTORY_READINGS_MAX, Instance, Nanos, NodeName, Notice, Pace,
    Pattern, QueryError, Rate, Reading, Row, RowNumber, Series, Share, Subscription,
};
use khz_ring::{Cursor, Event};

use crate::clock;
use crate::inbox::{Inbox, Request};
use crate::lane::{self, LaneView};
use crate::lane_handle::Prompt;

/// The memory of all readers of this process, besides rows on their way: enough for eight readers of everything on a
/// host with 65,536 slots, or for the 64 streams of the HTTP door with 8,192 slots each.
pub const READERS_BYTES: ByteSize = ByteSize(16 << 20);

/// A reader, besides its columns.
const READER_BYTES: u64 = 32 << 10;

/// A poll returns at most this many rows; the next poll returns the rest.
const ROWS_A_POLL: usize = 4_096;

/// The slots of a lane that a reader wants, and their meaning. A reader that follows gets the columns of each
/// generation in turn.
pub(crate) struct Columns {
    series: Arc<Vec<Series>>,
    /// The generation to which `slots` belong.
    generation: u32,
    slots: Vec<u32>,
    /// The number of the generation's slots that were checked.
    seen: usize,
}

impl Columns {
    /// The columns of the lane's present generation.
    pub fn new(lane: &LaneView, patterns: &[Pattern]) -> Self {
        let (generation, schema) = lane.described();
        let mut columns = Columns::none(generation);
        columns.extend(&schema, patterns);
        columns
    }

    fn none(generation: u32) -> Self {
        Columns { series: Arc::default(), generation, slots: Vec::new(), seen: 0 }
    }

    /// Adds the columns of new slots; `true` if there are more columns now.
    fn extend(&mut self, schema: &Arc<Vec<Series>>, patterns: &[Pattern]) -> bool {
        let before = self.slots.len();
        for (slot, one) in schema.iter().enumerate().skip(self.seen) {
            if one.is_selected(patterns) {
                self.slots.push(slot as u32);
            }
        }
        self.seen = schema.len();
        if self.slots.len() > before {
            self.slots.shrink_to_fit();
            // Readers of everything share the lane's own list.
            self.series = match self.slots.len() == schema.len() {
                true => schema.clone(),
                false => {
                    let mut series = Vec::with_capacity(self.slots.len());
                    series.extend_from_slice(&self.series);
                    series.extend(self.slots[before..].iter().map(|&slot| schema[slot as usize].clone()));
                    Arc::new(series)
                }
            };
        }
        self.slots.len() > before
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Begins another block; `true` if there are other columns now.
    fn enter(&mut self, lane: &LaneView, patterns: &[Pattern], block: &Header) -> bool {
        if block.generation == self.generation {
            return block.slots as usize > self.seen
                && self.extend(&schema_of(lane, self.generation), patterns);
        }
        let before = std::mem::replace(self, Columns::none(block.generation));
        self.extend(&schema_of(lane, block.generation), patterns);
        let are_others = *before.series != *self.series;
        if !are_others {
            self.series = before.series;
        }
        are_others
    }

    fn row(&self, decoder: &Decoder) -> Row {
        let reading = |&slot: &u32| decoder.reading(slot as usize).unwrap_or(NOT_YET);
        Row { stamp: decoder.stamp(), readings: self.slots.iter().map(reading).collect() }
    }
}

/// The reading of a series for which a row has no slot.
const NOT_YET: Reading = Reading::Absent(Absence::NotYet);

/// The meaning of a generation's slots, as far as the ring has it. If it is damaged, the part before the damage is
/// still right.
fn schema_of(lane: &LaneView, generation: u32) -> Arc<Vec<Series>> {
    let (present, series) = lane.described();
    if generation == present {
        return series;
    }
    let (mut bytes, mut schema) = (Vec::new(), SchemaDecoder::new());
    lane.ring.schema(generation, 0, SCHEMA_BYTES_MAX, &mut bytes);
    let _ = schema.feed(&bytes);
    Arc::new(schema.series().to_vec())
}

/// What is selected of rows of several generations, as one set of columns.
pub(crate) struct PastColumns {
    /// The series of the present generation first, then the series that only older generations had.
    pub series: Vec<Series>,
    /// For each generation, the slot of each column.
    slots: HashMap<u32, Vec<Option<u32>>>,
}

impl PastColumns {
    /// The columns of all blocks from the one at `at` on.
    pub fn new(lane: &LaneView, patterns: &[Pattern], at: u64) -> Self {
        let present = Columns::new(lane, patterns);
        let mut columns = PastColumns { series: present.series.to_vec(), slots: HashMap::new() };
        let next = |at: &u64| lane.ring.next_block(*at);
        let blocks = std::iter::successors(Some(at), next).filter_map(|at| lane.ring.header(at));
        let mut generations: Vec<u32> = blocks.map(|block| block.generation).collect();
        generations.dedup();
        let mut known: HashSet<_> = columns.series.iter().map(name).collect();
        for &generation in generations.iter().rev().filter(|&&generation| generation != present.generation) {
            for series in schema_of(lane, generation).iter().filter(|series| series.is_selected(patterns)) {
                if known.insert(name(series)) {
                    columns.series.push(series.clone());
                }
            }
        }
        columns
    }

    pub fn row(&mut self, lane: &LaneView, decoder: &Decoder) -> Row {
        let generation = decoder.header().map_or(0, |block| block.generation);
        let series = &self.series;
        let slots = self.slots.entry(generation).or_insert_with(|| {
            let schema = schema_of(lane, generation);
            let slots: HashMap<_, _> = schema.iter().map(name).zip(0u32..).collect();
            series.iter().map(|series| slots.get(&name(series)).copied()).collect()
        });
        let reading =
            |slot: &Option<u32>| slot.and_then(|slot| decoder.reading(slot as usize)).unwrap_or(NOT_YET);
        Row { stamp: decoder.stamp(), readings: slots.iter().map(reading).collect() }
    }
}

/// The number of the row at which a cursor is; `None`: there was none yet.
fn number(cursor: &Cursor) -> Option<u64> {
    cursor.decoder().next_row().checked_sub(1)
}

/// The memory of a reader for a lane with this number of slots, if it wants `selected` of them: for each slot its value, its state and
/// whether it has changed, with spare room in lists (28); for each wanted slot its number, and the series if the lane has others, too.
fn bytes_of(slots: usize, selected: usize) -> u64 {
    let each = if selected < slots { 4 + 24 } else { 4 };
    READER_BYTES + (slots * 28 + selected * each) as u64
}

/// What tells a series from every other one.
fn name(series: &Series) -> (String, Option<Instance>) {
    (series.metric.name.to_string(), series.instance.clone())
}

/// Follows a lane from now on.
pub(crate) struct LaneSubscription {
    node: NodeName,
    lane: Arc<LaneView>,
    patterns: Vec<Pattern>,
    rate: Rate,
    /// The pace that the reader knows; `None`: a channel's handler may change it.
    pace: Option<Pace>,
    inbox: Arc<Inbox>,
    cursor: Cursor,
    columns: Columns,
    /// The period of the cursor's current block; 0 before the first block.
    period: Nanos,
    /// The cursor is at the newest row of the start, which is delivered first, so that the reader of a slow lane need not wait.
    is_first: bool,
    /// Rings the reader's bell at every row.
    prompt: Option<Prompt>,
    /// How often the notice about missing series had changed when the reader last got it.
    lacks_said: u64,
    /// What it holds of the memory of readers.
    held: Share,
}

impl LaneSubscription {
    /// Takes the reader's place that the gather thread has already counted, and gives it back if there is no memory for the reader.
    pub fn new(
        node: NodeName,
        lane: Arc<LaneView>,
        patterns: Vec<Pattern>,
        rate: Rate,
        inbox: Arc<Inbox>,
    ) -> Result<Self, QueryError> {
        let series = lane.series();
        let selected = series.iter().filter(|series| series.is_selected(&patterns)).count();
        let Some(held) = inbox.readers.take(bytes_of(series.len(), selected)) else {
            lane.leave(clock::boot());
            // If the gather thread has ended, there is nothing to close.
            let _ = inbox.put(Request::Gone);
            inbox.refused.fetch_add(1, Ordering::Relaxed);
            let limit = (READERS_BYTES.0 >> 20) as usize;
            return Err(QueryError::Full { what: "MiB for the readers at this node", limit });
        };
        let mut cursor = Cursor::new(lane.ring.clone(), lane.ring.newest());
        let mut columns = Columns::new(&lane, &patterns);
        let is_found = cursor.seek_newest();
        let block = cursor.decoder().header().copied();
        // Before its first row, a continued ring holds only rows of the agent before.
        let ours = block.filter(|block| is_found && block.generation >= lane.first_generation);
        if let Some(block) = &ours {
            columns.enter(&lane, &patterns, block);
        }
        let period = block.map_or(Nanos(0), |block| block.period);
        let pace = (!lane.is_channel).then(|| Pace::new(rate));
        Ok(LaneSubscription {
            node,
            lane,
            patterns,
            rate,
            pace,
            inbox,
            cursor,
            columns,
            period,
            is_first: ours.is_some(),
            prompt: None,
            lacks_said: 0,
            held,
        })
    }

    /// Goes back to the row after this one, if that is a row of this lane.
    pub fn go_on_after(&mut self, last: RowNumber) {
        if last.epoch != self.lane.ring.label().epoch {
            return;
        }
        let mut cursor = Cursor::new(self.lane.ring.clone(), self.lane.ring.oldest());
        loop {
            match cursor.advance() {
                Event::Row if number(&cursor) >= Some(last.number) => break,
                Event::UpToDate => break,
                Event::Row | Event::Block => {}
            }
        }
        // If that row is not there any more, the oldest one is the next.
        self.is_first = number(&cursor) > Some(last.number);
        if let Some(block) = cursor.decoder().header() {
            self.columns.enter(&self.lane, &self.patterns, block);
            self.period = block.period;
        }
        cursor.take_lost();
        self.cursor = cursor;
    }

    /// What the reader does not know yet of series that are left out.
    fn lacks(&mut self) -> Option<String> {
        let changed = self.lane.lacks_changed();
        if std::mem::replace(&mut self.lacks_said, changed) == changed {
            return None;
        }
        let lacks = self.lane.lacks();
        Some(if lacks.is_empty() { Notice::SENDS_NOW.to_owned() } else { lacks.to_string() })
    }

    /// Rows, of which the last one has this number.
    fn delivery(&mut self, rows: Vec<Row>, last: Option<u64>) -> Delivery {
        let epoch = self.lane.ring.label().epoch;
        Delivery {
            node: self.node.clone(),
            columns: self.columns.series.clone(),
            rows,
            lost: self.cursor.take_lost(),
            rate: Rate::from_period(self.period),
            last: last.map(|number| RowNumber { epoch, number }),
        }
    }
}

impl Subscription for LaneSubscription {
    fn poll(&mut self) -> Vec<Delivery> {
        self.poll_some(usize::MAX)
    }

    fn poll_some(&mut self, readings_max: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let mut rows = Vec::new();
        if std::mem::take(&mut self.is_first) {
            rows.push(self.columns.row(self.cursor.decoder()));
        }
        let mut last = if rows.is_empty() { None } else { number(&self.cursor) };
        let mut readings = 0;
        while rows.len() < ROWS_A_POLL && readings <= readings_max {
            match self.cursor.advance() {
                Event::Row => {
                    let row = self.columns.row(self.cursor.decoder());
                    readings += row.readings.len();
                    rows.push(row);
                    last = number(&self.cursor);
                }
                Event::Block => {
                    let Some(block) = self.cursor.decoder().header().copied() else { continue };
                    let before = self.columns.series.clone();
                    let is_repaced = block.period != self.period;
                    let is_other = self.columns.enter(&self.lane, &self.patterns, &block) || is_repaced;
                    if is_other && !rows.is_empty() {
                        let mut delivery = self.delivery(std::mem::take(&mut rows), last);
                        delivery.columns = before;
                        deliveries.push(delivery);
                    }
                    self.period = block.period;
                    // A present reader keeps its place: new series have their own limits.
                    self.held.reach(bytes_of(block.slots as usize, self.columns.len()));
                }
                Event::UpToDate => break,
            }
        }
        if !rows.is_empty() {
            deliveries.push(self.delivery(rows, last));
        }
        deliveries
    }

    fn rate(&self) -> Rate {
        Rate::from_period(self.lane.period()).unwrap_or(self.rate)
    }

    fn ring(&mut self, bell: &Bell) -> bool {
        // Rows as they are come at known times, so that nobody need be woken for each.
        if self.lane.is_channel {
            self.prompt = Prompt::new(self.lane.clone(), &self.inbox, lane::Bell::Call(bell.clone())).ok();
        }
        self.prompt.is_some()
    }

    fn places(&self) -> Vec<(NodeName, RowNumber)> {
        let epoch = self.lane.ring.label().epoch;
        let last = number(&self.cursor).filter(|_| !self.is_first);
        last.map(|number| (self.node.clone(), RowNumber { epoch, number })).into_iter().collect()
    }

    fn notices(&mut self) -> Vec<Notice> {
        let rate = self.rate();
        let text = self.pace.as_mut().and_then(|pace| pace.news(rate));
        text.into_iter().chain(self.lacks()).map(|text| Notice::of(self.node.clone(), text)).collect()
    }
}

impl Drop for LaneSubscription {
    fn drop(&mut self) {
        self.lane.leave(clock::boot());
        // If the gather thread has ended, there is nothing to close.
        let _ = self.inbox.put(Request::Gone);
    }
}

/// The rows of a lane from `since` on, thinned evenly to `rows_max`; `None` if there are more than
/// [`HISTORY_READINGS_MAX`] readings.
pub(crate) fn rows_since(
    node: &NodeName,
    lane: &LaneView,
    patterns: &[Pattern],
    since: Nanos,
    rows_max: usize,
) -> Option<Delivery> {
    // Count first, so that rows which the reader will not see need no memory. The lane continues meanwhile.
    let (count, last) = count_since(lane, since);
    let step = count.div_ceil(rows_max.max(1) as u64).max(1);
    let first = block_before(lane, since);
    let mut cursor = Cursor::new(lane.ring.clone(), first);
    let mut columns = PastColumns::new(lane, patterns, first);
    let (mut rows, mut readings) = (Vec::new(), 0);
    loop {
        match cursor.advance() {
            Event::Row => {
                let decoder = cursor.decoder();
                let Some(before_last) = last.checked_sub(decoder.next_row()) else { break };
                // Count from the end, so that the newest row is always included.
                if decoder.stamp().boot >= since && before_last.is_multiple_of(step) {
                    let row = columns.row(lane, decoder);
                    readings += row.readings.len().max(1);
                    rows.push(row);
                    if readings > HISTORY_READINGS_MAX {
                        return None;
                    }
                }
            }
            Event::Block => {}
            Event::UpToDate => break,
        }
    }
    Some(Delivery {
        node: node.clone(),
        columns: Arc::new(columns.series),
        rows,
        lost: cursor.take_lost(),
        rate: None,
        last: None,
    })
}

/// Counts the rows of a lane from `since` on; returns their number and the number after the last row.
fn count_since(lane: &LaneView, since: Nanos) -> (u64, u64) {
    let mut cursor = Cursor::new(lane.ring.clone(), block_before(lane, since));
    let (mut count, mut last) = (0, 0);
    loop {
        match cursor.advance() {
            Event::Row => {
                count += u64::from(cursor.decoder().stamp().boot >= since);
                last = cursor.decoder().next_row();
            }
            Event::Block => {}
            Event::UpToDate => return (count, last),
        }
    }
}

/// The newest block that begins at or before `since`, or else the oldest block.
fn block_before(lane: &LaneView, since: Nanos) -> u64 {
    let mut at = lane.ring.oldest();
    while let Some(next) = lane.ring.next_block(at) {
        match lane.ring.header(next) {
            Some(header) if header.stamp.boot <= since => at = next,
            _ => break,
        }
    }
    at
}
