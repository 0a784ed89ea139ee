//! Reads rows out of a lane's ring, for a reader that follows and for one that asks for history.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_block::{Decoder, Header, SchemaDecoder};
use khz_model::{
    Absence, Delivery, HISTORY_READINGS_MAX, Nanos, NodeName, Notice, Pace, Pattern, Rate, Reading, Row,
    Series, Subscription,
};
use khz_ring::{Cursor, Event};

use crate::inbox::{Inbox, Request};
use crate::lane::LaneView;

/// A poll returns at most this many rows; the next poll returns the rest.
const ROWS_A_POLL: usize = 4_096;

/// The slots of a lane that a reader wants, and their meaning.
pub(crate) struct Columns {
    slots: Vec<u32>,
    series: Arc<Vec<Series>>,
    /// The number of the lane's slots that were checked.
    seen: usize,
    /// The slots of the columns in blocks of an older generation, from before the agent's restart.
    older: Option<(u32, Vec<Option<u32>>)>,
}

impl Columns {
    pub fn new(lane: &LaneView, patterns: &[Pattern]) -> Self {
        let mut columns = Columns { slots: Vec::new(), series: Arc::default(), seen: 0, older: None };
        columns.refresh(lane, patterns);
        columns
    }

    /// Adds the columns of new slots; `true` if there are more columns now.
    fn refresh(&mut self, lane: &LaneView, patterns: &[Pattern]) -> bool {
        let schema = lane.series();
        let before = self.slots.len();
        let mut series = Vec::clone(&self.series);
        for (slot, one) in schema.iter().enumerate().skip(self.seen) {
            if one.is_selected(patterns) {
                self.slots.push(slot as u32);
                series.push(one.clone());
            }
        }
        self.seen = schema.len();
        if self.slots.len() > before {
            self.series = Arc::new(series);
        }
        self.slots.len() > before
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Begins another block; `true` if there are more columns now.
    fn enter(&mut self, lane: &LaneView, patterns: &[Pattern], block: &Header) -> bool {
        if block.generation != lane.generation {
            if self.older.as_ref().is_none_or(|(generation, _)| *generation != block.generation) {
                self.older = Some((block.generation, self.places_in(lane, block.generation)));
            }
            return false;
        }
        block.slots as usize > self.seen && self.refresh(lane, patterns)
    }

    /// The slot of each column in an older generation.
    fn places_in(&self, lane: &LaneView, generation: u32) -> Vec<Option<u32>> {
        let (mut bytes, mut schema) = (Vec::new(), SchemaDecoder::new());
        lane.ring.schema(generation, 0, SCHEMA_BYTES_MAX, &mut bytes);
        // If the schema is damaged, the part before the damage is still right.
        let _ = schema.feed(&bytes);
        let name = |series: &Series| (series.metric.name.to_string(), series.instance.clone());
        let slots: HashMap<_, _> = schema.series().iter().map(name).zip(0u32..).collect();
        self.series.iter().map(|series| slots.get(&name(series)).copied()).collect()
    }

    fn row(&self, lane: &LaneView, decoder: &Decoder) -> Row {
        let reading = |slot: Option<u32>| {
            let reading = slot.and_then(|slot| decoder.reading(slot as usize));
            reading.unwrap_or(Reading::Absent(Absence::NotYet))
        };
        let is_older = |generation: u32| decoder.header().is_some_and(|h| h.generation == generation);
        let readings = match &self.older {
            Some((generation, places)) if *generation != lane.generation && is_older(*generation) => {
                places.iter().map(|&slot| reading(slot)).collect()
            }
            _ => self.slots.iter().map(|&slot| reading(Some(slot))).collect(),
        };
        Row { stamp: decoder.stamp(), readings }
    }
}

/// Follows a lane from now on.
pub(crate) struct LaneSubscription {
    node: NodeName,
    lane: Arc<LaneView>,
    patterns: Vec<Pattern>,
    rate: Rate,
    /// The pace that the reader knows.
    pace: Pace,
    inbox: Arc<Inbox>,
    cursor: Cursor,
    columns: Columns,
    /// The period of the cursor's current block; 0 before the first block.
    period: Nanos,
    /// The newest row at the start, which is delivered first, so that the reader of a slow lane need not
    /// wait.
    first: Option<Row>,
}

impl LaneSubscription {
    /// Takes the reader's place that the gather thread has already counted.
    pub fn new(
        node: NodeName,
        lane: Arc<LaneView>,
        patterns: Vec<Pattern>,
        rate: Rate,
        inbox: Arc<Inbox>,
    ) -> Self {
        let mut cursor = Cursor::new(lane.ring.clone(), lane.ring.newest());
        let columns = Columns::new(&lane, &patterns);
        // Before its first row, a continued ring holds only rows of the agent before.
        let has_row = cursor.seek_newest()
            && cursor.decoder().header().is_some_and(|block| block.generation == lane.generation);
        let first = has_row.then(|| columns.row(&lane, cursor.decoder()));
        let period = cursor.decoder().header().map_or(Nanos(0), |block| block.period);
        let pace = Pace::new(rate);
        LaneSubscription { node, lane, patterns, rate, pace, inbox, cursor, columns, period, first }
    }

    fn delivery(&mut self, rows: Vec<Row>) -> Delivery {
        Delivery {
            node: self.node.clone(),
            columns: self.columns.series.clone(),
            rows,
            lost: self.cursor.take_lost(),
            rate: Rate::from_period(self.period),
        }
    }
}

impl Subscription for LaneSubscription {
    fn poll(&mut self) -> Vec<Delivery> {
        self.poll_some(usize::MAX)
    }

    fn poll_some(&mut self, readings_max: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let mut rows: Vec<Row> = self.first.take().into_iter().collect();
        let mut readings = 0;
        while rows.len() < ROWS_A_POLL && readings <= readings_max {
            match self.cursor.advance() {
                Event::Row => {
                    let row = self.columns.row(&self.lane, self.cursor.decoder());
                    readings += row.readings.len();
                    rows.push(row);
                }
                Event::Block => {
                    let Some(block) = self.cursor.decoder().header().copied() else { continue };
                    let before = self.columns.series.clone();
                    let is_repaced = block.period != self.period;
                    let is_other = self.columns.enter(&self.lane, &self.patterns, &block) || is_repaced;
                    if is_other && !rows.is_empty() {
                        let mut delivery = self.delivery(std::mem::take(&mut rows));
                        delivery.columns = before;
                        deliveries.push(delivery);
                    }
                    self.period = block.period;
                }
                Event::UpToDate => break,
            }
        }
        if !rows.is_empty() {
            deliveries.push(self.delivery(rows));
        }
        deliveries
    }

    fn rate(&self) -> Rate {
        Rate::from_period(self.lane.period()).unwrap_or(self.rate)
    }

    fn notices(&mut self) -> Vec<Notice> {
        let text = self.pace.news(self.rate());
        text.map(|text| Notice::of(self.node.clone(), text)).into_iter().collect()
    }
}

impl Drop for LaneSubscription {
    fn drop(&mut self) {
        self.lane.readers.fetch_sub(1, Ordering::Relaxed);
        // If the gather thread has ended, there is nothing left to close.
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
    let mut cursor = Cursor::new(lane.ring.clone(), block_before(lane, since));
    let mut columns = Columns::new(lane, patterns);
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
            Event::Block => {
                if let Some(block) = cursor.decoder().header() {
                    columns.enter(lane, patterns, block);
                }
            }
            Event::UpToDate => break,
        }
    }
    Some(Delivery {
        node: node.clone(),
        columns: columns.series.clone(),
        rows,
        lost: cursor.take_lost(),
        rate: None,
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
