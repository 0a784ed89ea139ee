//! A reader's place at one node: it follows the lane that serves it, decodes what is new, and picks the columns
//! that its patterns select.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::{Decoder, Step};
use khz_model::{Absence, Delivery, Nanos, Notice, Pattern, Reading, Row, Series};

use crate::interest::Wish;
use crate::lane::{Piece, Place};
use crate::node::{Node, SharedNode};
use crate::schemas::Schema;

/// One look hands out at most about so many bytes of one lane; the rest comes with the next. A second at 1,000 Hz.
const BYTES_A_LOOK: usize = 128 << 10;

/// A follower keeps no more than this of what it has copied: there is one for each node of each reader.
const BYTES_KEPT: usize = 16 << 10;

/// What a decoder holds of a slot: value, state, and a place in the list of what has changed.
const BYTES_A_SLOT: usize = 8 + 1 + 4;

/// Rows that a lane may have lost in one go: a year at 1,000 Hz.
const LEAP_MAX: u64 = 1 << 35;

/// Follows one node.
pub(crate) struct Follower {
    pub node: Arc<SharedNode>,
    patterns: Arc<Vec<Pattern>>,
    /// What is wanted beyond the base lane, and its number at the node.
    wish: Option<u32>,
    /// Rows are handed out this far apart at least; 0: all.
    period: Nanos,
    /// Rows that were gathered before are not handed out.
    since: Nanos,
    /// The lane that is followed now, and its period.
    lane: Option<u64>,
    lane_period: Nanos,
    place: Place,
    decoder: Decoder,
    columns: Columns,
    /// Number of the row that should come next.
    expected: Option<u64>,
    /// When the last row that was handed out was gathered.
    last: Option<Nanos>,
    /// The first row is the newest there is; what stands before it in its block is history.
    joining: bool,
    /// Rows were decoded and not handed out since the last one that was.
    skipped: bool,
    told: bool,
    /// What [`SharedNode::touched`] was when everything that there was had been copied.
    touched: Option<u64>,
    /// What was copied out of the node, kept for its memory.
    bytes: Vec<u8>,
    pieces: Vec<(Option<Arc<Schema>>, usize)>,
}

/// The slots that a reader wants, and what they mean.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    slots: Vec<u32>,
    /// The column of each slot.
    columns: Vec<Option<u32>>,
    pub series: Arc<Vec<Series>>,
    schema: Option<Arc<Schema>>,
}

impl Columns {
    /// Takes the columns out of a schema; `true` when they are others than before.
    pub fn choose(&mut self, schema: &Arc<Schema>, patterns: &[Pattern]) -> bool {
        if self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema)) {
            return false;
        }
        let chosen = schema.series().iter().enumerate().filter(|(_, series)| series.is_selected(patterns));
        let (slots, series): (Vec<u32>, Vec<Series>) =
            chosen.map(|(slot, series)| (slot as u32, series.clone())).unzip();
        self.columns = vec![None; schema.series().len()];
        for (&slot, column) in slots.iter().zip(0..) {
            self.columns[slot as usize] = Some(column);
        }
        self.slots = slots;
        self.series = Arc::new(series);
        self.schema = Some(schema.clone());
        true
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// One chosen reading of the decoder's row.
    pub fn reading(&self, decoder: &Decoder, column: usize) -> Reading {
        let reading = self.slots.get(column).and_then(|&slot| decoder.reading(slot as usize));
        reading.unwrap_or(Reading::Absent(Absence::NotYet))
    }

    /// The columns that the decoder's row has changed, in order.
    pub fn changed<'a>(&'a self, decoder: &'a Decoder) -> impl Iterator<Item = usize> + 'a {
        let column = |&slot: &u32| self.columns.get(slot as usize).copied().flatten();
        decoder.changed().iter().filter_map(column).map(|column| column as usize)
    }

    /// One row.
    pub fn row(&self, decoder: &Decoder) -> Row {
        let readings = (0..self.slots.len()).map(|column| self.reading(decoder, column)).collect();
        Row { stamp: decoder.stamp(), readings }
    }
}

/// What [`Follower::look`] came upon, in order.
pub(crate) enum Seen<'a> {
    /// The columns are these from here on.
    Columns(&'a Columns, Nanos),
    /// A row, and whether the decoder's changes are all there are since the one before.
    Row(&'a Columns, &'a Decoder, bool),
    /// So many rows were given up before this reader fetched them.
    Lost(u64),
}

impl Follower {
    /// Begins to follow; `wish` is what the base lane does not serve. `None`: the node has too many wishes.
    pub fn new(
        node: Arc<SharedNode>,
        patterns: Arc<Vec<Pattern>>,
        wish: Option<&Wish>,
        period: Nanos,
    ) -> Option<Self> {
        let wish = match wish {
            Some(wish) => Some(node.lock().wish(wish)?),
            None => None,
        };
        Some(Follower {
            node,
            patterns,
            wish,
            period,
            since: Nanos(0),
            lane: None,
            lane_period: Nanos::SECOND,
            place: Place { first_row: 0, offset: 0 },
            decoder: Decoder::new(),
            columns: Columns::default(),
            expected: None,
            last: None,
            joining: true,
            skipped: true,
            told: false,
            touched: None,
            bytes: Vec::new(),
            pieces: Vec::new(),
        })
    }

    /// What the node has to say about the rate, once.
    pub fn take_notice(&mut self) -> Option<Notice> {
        let wish = self.wish?;
        let node = self.node.lock();
        let told = node.interest(wish)?.told.clone()?;
        drop(node);
        if self.told || (told.granted && told.text.is_empty()) {
            return None;
        }
        self.told = true;
        let said = if told.text.is_empty() { "refused".to_owned() } else { told.text };
        let text = if told.granted { said } else { format!("{said}; showing the base lane") };
        Some(Notice { node: self.node.name.clone(), text })
    }

    /// Goes back to the rows of so long before the newest, as far as they are here.
    pub fn rewind(&mut self, span: Nanos) {
        let shared = self.node.clone();
        let node = shared.lock();
        let Some(lane) = self.lane.and_then(|id| node.lane(id)) else { return };
        let newest = lane.newest().map_or(Nanos(0), |newest| newest.boot);
        self.since = newest.since(span);
        self.place = lane.join_since(self.since);
        (self.decoder, self.expected, self.last, self.touched) = (Decoder::new(), None, None, None);
        (self.joining, self.skipped) = (false, true);
    }

    /// True when there was nothing more at the last look.
    pub fn is_caught_up(&self) -> bool {
        self.touched.is_some()
    }

    /// The rows that came since, one call of `seen` for each.
    pub fn look(&mut self, mut seen: impl FnMut(Seen<'_>)) {
        let touched = self.node.touched.load(Ordering::Acquire);
        if self.touched == Some(touched) {
            return;
        }
        self.touched = self.copy().then_some(touched);
        let (bytes, mut pieces) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.pieces));
        let mut from = 0;
        let last_piece = pieces.len();
        for (number, (schema, to)) in pieces.drain(..).enumerate() {
            if let Some(schema) = schema
                && self.columns.choose(&schema, &self.patterns)
            {
                let period = if self.period == Nanos(0) { self.lane_period } else { self.period };
                seen(Seen::Columns(&self.columns, period));
            }
            self.decode(&bytes[from..to], number + 1 == last_piece, &mut seen);
            from = to;
        }
        if bytes.capacity() <= BYTES_KEPT {
            (self.bytes, self.pieces) = (bytes, pieces);
        }
    }

    /// About the bytes that it holds.
    pub fn held(&self) -> u64 {
        let columns = self.columns.columns.len() * size_of::<Option<u32>>()
            + self.columns.slots.len() * (size_of::<u32>() + size_of::<Series>());
        let decoded = self.decoder.slots() * BYTES_A_SLOT;
        (size_of::<Follower>() + columns + decoded + self.bytes.capacity()) as u64
    }

    /// What a follower of a node with so many slots will hold at the least.
    pub fn held_at_least(slots: usize) -> u64 {
        (size_of::<Follower>() + slots * (BYTES_A_SLOT + size_of::<Option<u32>>())) as u64
    }

    fn decode(&mut self, mut bytes: &[u8], newest: bool, seen: &mut impl FnMut(Seen<'_>)) {
        let mut joined = false;
        while !bytes.is_empty() {
            match self.decoder.step(bytes) {
                Ok(Step::Header(length)) => {
                    bytes = &bytes[length..];
                    let lost = self.lost();
                    if lost > 0 {
                        seen(Seen::Lost(lost));
                    }
                }
                Ok(Step::Row(length)) => {
                    bytes = &bytes[length..];
                    self.expected = Some(self.decoder.next_row());
                    if self.joining {
                        joined = true;
                    } else if self.is_due() {
                        let all = !std::mem::replace(&mut self.skipped, false);
                        seen(Seen::Row(&self.columns, &self.decoder, all));
                    } else {
                        self.skipped = true;
                    }
                }
                // Rows were scanned when they came: what does not decode is the unfinished end.
                Ok(Step::Incomplete) | Err(_) => break,
            }
        }
        let unfinished = bytes.len();
        self.place.offset -= if newest { unfinished } else { 0 };
        if joined && newest {
            self.joining = false;
            self.skipped = false;
            self.last = Some(self.decoder.stamp().boot);
            seen(Seen::Row(&self.columns, &self.decoder, false));
        }
    }

    /// Half a period of the rows may be missing: ticks are not exactly a period apart.
    fn is_due(&mut self) -> bool {
        let now = self.decoder.stamp().boot;
        if now < self.since {
            return false;
        }
        let lane = self.decoder.header().map_or(0, |header| header.period.0);
        let due = self.last.is_none_or(|last| now.since(last).0 + lane / 2 >= self.period.0);
        if due {
            self.last = Some(now);
        }
        due
    }

    /// Rows between the one that should come next and the block that begins. A node that leaps further than any lane is
    /// long has not lost them.
    fn lost(&mut self) -> u64 {
        let first = self.decoder.header().map(|header| header.first_row);
        let expected = std::mem::replace(&mut self.expected, first);
        let lost = first.unwrap_or(0).saturating_sub(expected.or(first).unwrap_or(0));
        if lost > LEAP_MAX { 0 } else { lost }
    }

    /// Copies what is new out of the node, which is locked for no longer than that; `false` when there is more.
    fn copy(&mut self) -> bool {
        self.bytes.clear();
        self.pieces.clear();
        let shared = self.node.clone();
        let mut node = shared.lock();
        let wanted = self.lane_of(&node);
        if wanted != self.lane {
            self.change_lane(&mut node, wanted);
        }
        let Some(lane) = self.lane.and_then(|id| node.lane(id)) else { return true };
        self.lane_period = lane.period;
        while self.bytes.len() < BYTES_A_LOOK {
            match lane.read(&mut self.place, &mut self.bytes) {
                Piece::Nothing => return true,
                Piece::More => self.pieces.push((None, self.bytes.len())),
                Piece::Block(schema) => self.pieces.push((Some(schema), self.bytes.len())),
            }
        }
        false
    }

    /// The lane that serves the wish; the base lane without one, and after a refusal.
    fn lane_of(&self, node: &Node) -> Option<u64> {
        let Some(number) = self.wish else { return node.base() };
        match node.interest(number) {
            Some(interest) if interest.told.as_ref().is_some_and(|told| !told.granted) => node.base(),
            // Until the node has answered, and while it is away, the lane that served stays.
            Some(interest) => interest.lane.or(self.lane),
            None => None,
        }
    }

    fn change_lane(&mut self, node: &mut Node, wanted: Option<u64>) {
        self.leave_lane(node);
        self.lane = wanted;
        if let Some(lane) = wanted.and_then(|id| node.lane_mut(id)) {
            lane.readers += 1;
            self.place = lane.join();
        }
        self.decoder = Decoder::new();
        self.expected = None;
        self.joining = true;
    }

    fn leave_lane(&mut self, node: &mut Node) {
        if let Some(lane) = self.lane.take().and_then(|id| node.lane_mut(id)) {
            lane.readers = lane.readers.saturating_sub(1);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let shared = self.node.clone();
        let mut node = shared.lock();
        self.leave_lane(&mut node);
        if let Some(number) = self.wish {
            node.unwish(number);
        }
    }
}

/// Rows as deliveries: a new one whenever the columns change. Beyond so many readings rows are counted, and not kept.
pub(crate) fn deliveries(follower: &mut Follower, readings_max: usize) -> Vec<Delivery> {
    let mut deliveries: Vec<Delivery> = Vec::new();
    let name = follower.node.name.clone();
    let (mut lost, mut readings) = (0, 0);
    follower.look(|seen| match seen {
        Seen::Columns(..) => {}
        Seen::Lost(rows) => lost += rows,
        Seen::Row(columns, ..) if columns.is_empty() => {}
        Seen::Row(..) if readings > readings_max => lost += 1,
        Seen::Row(columns, decoder, _) => {
            let row = columns.row(decoder);
            readings += row.readings.len();
            match deliveries.last_mut() {
                Some(last) if lost == 0 && Arc::ptr_eq(&last.columns, &columns.series) => last.rows.push(row),
                _ => deliveries.push(Delivery {
                    node: name.clone(),
                    columns: columns.series.clone(),
                    rows: vec![row],
                    lost: std::mem::take(&mut lost),
                }),
            }
        }
    });
    if lost > 0 {
        let columns = follower.columns.series.clone();
        deliveries.push(Delivery { node: name, columns, rows: Vec::new(), lost });
    }
    deliveries
}
