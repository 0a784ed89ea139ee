//! Rows out of a lane's ring, for a reader that follows and for one that looks back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::Decoder;
use khz_model::{Absence, Delivery, Nanos, NodeName, Pattern, Rate, Reading, Row, Series, Subscription};
use khz_ring::{Cursor, Event};

use crate::inbox::{Inbox, Request};
use crate::lane::LaneView;

/// A poll hands out at most this many rows; the rest comes with the next.
const ROWS_A_POLL: usize = 4_096;

/// The slots of a lane that a reader wants, and what they mean.
pub(crate) struct Columns {
    slots: Vec<u32>,
    series: Arc<Vec<Series>>,
    /// Slots of the lane that were looked at.
    seen: usize,
}

impl Columns {
    pub fn new(lane: &LaneView, patterns: &[Pattern]) -> Self {
        let mut columns = Columns { slots: Vec::new(), series: Arc::default(), seen: 0 };
        columns.refresh(lane, patterns);
        columns
    }

    /// Takes in slots that came since; `true` when there are more columns now.
    fn refresh(&mut self, lane: &LaneView, patterns: &[Pattern]) -> bool {
        let schema = lane.schema.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let before = self.slots.len();
        let mut series = Vec::clone(&self.series);
        for (slot, one) in schema.iter().enumerate().skip(self.seen) {
            let instance = one.instance.as_ref().map(|i| i.as_str());
            if patterns.iter().any(|p| p.matches_series(&one.metric.name, instance)) {
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

    fn row(&self, decoder: &Decoder) -> Row {
        let reading =
            |&slot: &u32| decoder.reading(slot as usize).unwrap_or(Reading::Absent(Absence::NotYet));
        Row { stamp: decoder.stamp(), readings: self.slots.iter().map(reading).collect() }
    }
}

/// Follows a lane from now on.
pub(crate) struct LaneSubscription {
    node: NodeName,
    lane: Arc<LaneView>,
    patterns: Vec<Pattern>,
    rate: Rate,
    inbox: Arc<Inbox>,
    cursor: Cursor,
    columns: Columns,
    /// The newest row that was there already is handed out first: a slow lane need not keep its reader waiting.
    first: Option<Row>,
}

impl LaneSubscription {
    /// Takes a reader's place that the gather thread has counted already.
    pub fn new(
        node: NodeName,
        lane: Arc<LaneView>,
        patterns: Vec<Pattern>,
        rate: Rate,
        inbox: Arc<Inbox>,
    ) -> Self {
        let mut cursor = Cursor::new(lane.ring.clone(), lane.ring.newest());
        let has_row = cursor.seek_newest();
        let columns = Columns::new(&lane, &patterns);
        let first = has_row.then(|| columns.row(cursor.decoder()));
        LaneSubscription { node, lane, patterns, rate, inbox, cursor, columns, first }
    }

    fn delivery(&mut self, rows: Vec<Row>) -> Delivery {
        Delivery {
            node: self.node.clone(),
            columns: self.columns.series.clone(),
            rows,
            lost: self.cursor.take_lost(),
        }
    }
}

impl Subscription for LaneSubscription {
    fn poll(&mut self) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let mut rows: Vec<Row> = self.first.take().into_iter().collect();
        while rows.len() < ROWS_A_POLL {
            match self.cursor.advance() {
                Event::Row => rows.push(self.columns.row(self.cursor.decoder())),
                Event::Block
                    if self
                        .cursor
                        .decoder()
                        .header()
                        .is_some_and(|h| h.slots as usize > self.columns.seen) =>
                {
                    if !rows.is_empty() {
                        let before = std::mem::take(&mut rows);
                        deliveries.push(self.delivery(before));
                    }
                    self.columns.refresh(&self.lane, &self.patterns);
                }
                Event::Block => {}
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
}

impl Drop for LaneSubscription {
    fn drop(&mut self) {
        self.lane.readers.fetch_sub(1, Ordering::Relaxed);
        // If the gatherer has ended there is nothing left to close.
        let _ = self.inbox.put(Request::Gone);
    }
}

/// The rows of a lane from `since` on, thinned evenly to about `rows_max`.
pub(crate) fn rows_since(
    node: &NodeName,
    lane: &LaneView,
    patterns: &[Pattern],
    since: Nanos,
    rows_max: usize,
) -> Vec<Delivery> {
    let mut cursor = Cursor::new(lane.ring.clone(), block_before(lane, since));
    let mut columns = Columns::new(lane, patterns);
    let mut rows = Vec::new();
    loop {
        match cursor.advance() {
            Event::Row if cursor.decoder().stamp().boot >= since => rows.push(columns.row(cursor.decoder())),
            Event::Row => {}
            Event::Block => {
                columns.refresh(lane, patterns);
            }
            Event::UpToDate => break,
        }
    }
    let step = rows.len().div_ceil(rows_max.max(1)).max(1);
    // Counted from the end, so that the newest row is always there.
    let skip = rows.len().saturating_sub(1) % step;
    let rows = rows.into_iter().skip(skip).step_by(step).collect();
    vec![Delivery { node: node.clone(), columns: columns.series.clone(), rows, lost: cursor.take_lost() }]
}

/// The newest block that begins at or before `since`, or the oldest that is there.
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
