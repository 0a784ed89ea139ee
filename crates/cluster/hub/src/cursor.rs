//! A cursor: a reader's place in the rows of one node. It follows the lane that serves the reader, decodes new rows, and
//! picks the columns that the reader's patterns select. It hands out every row once, or reports it as lost.
//!
//! [`serving`] decides which lane serves it, [`served_lane`] is the lane as the reader gets it, [`lane_change`] moves it to another lane,
//! [`former`] chooses the lanes of former epochs that come first, [`rows`] decodes bytes into rows, [`missing`] handles late rows, [`gap`]
//! keeps the rows of a channel in order, [`columns`] selects slots, [`notices`] makes notices, [`deliveries`] makes rows for doors.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::Decoder;
use khz_link::WantFrame;
use khz_model::{Bell, Nanos, Pace, RowNumber, Stamp};

use crate::cluster::Cluster;
use crate::lane::{Piece, Place};
use crate::limits::BYTES_A_SLOT;
use crate::node::{SharedNode, Start};
use crate::schemas::Schema;

mod columns;
mod deliveries;
mod former;
mod gap;
mod lane_change;
mod missing;
mod notices;
mod rows;
mod served_lane;
mod serving;

pub(crate) use columns::{Columns, Selection};
pub(crate) use deliveries::deliveries;
use former::Former;
use gap::{Filled, Gap};
use missing::Missing;
pub(crate) use served_lane::ServedLane;
#[cfg(test)]
pub(crate) use served_lane::{every, thinned};

/// Bytes of one lane that one call reads, about: a second at 1,000 Hz. The rest comes with the next call.
const BYTES_A_READ: usize = 128 << 10;

/// Capacity of its buffer that a cursor keeps: there is a cursor for each node of each reader.
const BYTES_KEPT: usize = 16 << 10;

/// What a cursor takes beside its slots, with the reader's lane for it, measured: 448,000 cursors took 500 MB.
const BESIDE_SLOTS: usize = 1_120;

/// Rows that a lane may have lost at once: a year at 1,000 Hz.
const LEAP_MAX: u64 = 1 << 35;

/// No row is expected: any number may come first.
const ANY: u64 = u64::MAX;

/// The reader has heard of it.
type IsTold = bool;

/// How rows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Not at all: a door gets rows, and how many are lost. It begins with the newest row, and goes on when the node's lane
    /// changes.
    Doors,
    /// By the hub: the same, for a reader of the protocol's first version, once it wants the lane.
    Hubs,
    /// By the node: the reader says from which row on it wants a lane, and a lane that changes is over.
    Nodes,
}

/// A reader's place in the rows of one node.
pub(crate) struct Cursor {
    pub node: Arc<SharedNode>,
    /// The number that the node got when it appeared. A node that was forgotten and came back has another one.
    turn: u64,
    selection: Arc<Selection>,
    numbers: Numbers,
    /// The subscription at the node that serves it; `None`: the base lane does, or the node has none so far ([`serving`]).
    subscribed: Option<u32>,
    /// The node had no place for the subscription, so that the base lane serves in its place, and whether the reader has heard of that.
    denied: Option<IsTold>,
    /// Rung when rows of that subscription come.
    bell: Option<Arc<Bell>>,
    /// Where its first row is; `None`: where the lane begins to serve. Only of a channel.
    start: Option<Start>,
    /// Rows are handed out about this far apart; 0: all rows.
    period: Nanos,
    /// Rows gathered before this are not handed out.
    since: Nanos,
    /// The lane that serves it now.
    lane: Option<ServedLane>,
    place: Place,
    decoder: Decoder,
    columns: Columns,
    /// The period that was announced with them.
    offered_period: Nanos,
    /// The next number that was neither handed out nor reported. Before the reader wants the lane, the newest number when
    /// the lane was offered.
    expected: u64,
    /// The first row of the lane that a new reader of a channel gets.
    first: u64,
    /// When the last row that was handed out was gathered.
    last: Option<Stamp>,
    /// Rows since the last one that was handed out were decoded and skipped.
    skipped: bool,
    /// The last row that was handed out had none of the reader's series; before the first one, the node has none of them.
    is_bare: bool,
    /// The reader wants the lane. Before that, it only gets the offer.
    begun: bool,
    /// Rows that are not here are lost only if the node says so.
    is_past: bool,
    /// Rows that are missing, for a reader that wants late rows too.
    missing: Option<Missing>,
    /// The lanes of former epochs that it has; `None`: it gets no former lanes.
    former: Option<Box<Former>>,
    /// Rows of a channel that must be read before the next rows, for a reader without late rows.
    gap: Option<Gap>,
    /// The reader has the node's answer to the subscription.
    has_answered: bool,
    /// The connection of the node on which it had that answer.
    answered_on: u64,
    /// That was a refusal of a channel, or there was no place for it.
    is_refused: bool,
    /// What the reader was last told about a channel that the node sends; `None`: nothing.
    said: Option<Box<str>>,
    /// The rate as the reader knows it.
    pace: Option<Pace>,
    /// Whether the reader knows the node as up.
    up: bool,
    /// The cluster has forgotten the node: nothing more comes from it.
    is_ending: bool,
    /// [`SharedNode::touched`] when everything had been copied.
    touched: Option<u64>,
    /// Bytes copied out of the node; kept for their capacity.
    bytes: Vec<u8>,
    pieces: Vec<(Option<Arc<Schema>>, usize)>,
}

/// What [`Cursor::read`] finds, in order.
pub(crate) enum Event<'a> {
    /// The lane is over; another one may follow.
    Over,
    /// The columns from here on, the lane, the oldest row that can be had, and the row that comes next.
    Columns(&'a Columns, ServedLane, (u64, u64)),
    /// A row, its number, and whether the decoder's changes are all changes since the row before.
    Row(&'a Columns, &'a Decoder, u64, bool),
    /// A row that comes late, with the columns of its own time.
    Late(&'a Columns, &'a Decoder, u64, bool),
    /// These rows will not come; the last one is not included.
    Lost(u64, u64),
}

impl Cursor {
    /// Begins to follow.
    pub fn new(node: Arc<SharedNode>, selection: Arc<Selection>, period: Nanos, numbers: Numbers) -> Self {
        let mut cursor = Cursor::unsubscribed(node, selection, period, numbers);
        cursor.subscribe_as_needed(&mut cursor.node.clone().lock());
        cursor
    }

    fn unsubscribed(
        node: Arc<SharedNode>,
        selection: Arc<Selection>,
        period: Nanos,
        numbers: Numbers,
    ) -> Self {
        // Every row of a channel comes: no row stands for several.
        let period = if selection.is_of_channel() { Nanos(0) } else { period };
        Cursor {
            denied: None,
            up: node.up.load(Ordering::Relaxed),
            turn: node.appearance.load(Ordering::Acquire),
            node,
            selection,
            numbers,
            subscribed: None,
            bell: None,
            start: None,
            period,
            since: Nanos(0),
            lane: None,
            place: Place { first_row: 0, offset: 0 },
            decoder: Decoder::new(),
            columns: Columns::default(),
            offered_period: Nanos(0),
            expected: 0,
            first: 0,
            last: None,
            skipped: true,
            is_bare: false,
            begun: numbers == Numbers::Doors,
            is_past: false,
            missing: None,
            former: None,
            gap: None,
            has_answered: false,
            answered_on: 0,
            is_refused: false,
            said: None,
            pace: None,
            is_ending: false,
            touched: None,
            bytes: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Rings this bell from now on when rows of its subscription come. It is dropped when the reader has gone.
    pub fn ring(&mut self, bell: &Arc<Bell>) {
        self.bell = Some(bell.clone());
        if let Some(number) = self.subscribed {
            self.node.lock().hear(number, bell);
        }
    }

    /// True if it gets rows of a channel: never those of the base lane.
    fn is_of_channel(&self) -> bool {
        self.selection.is_of_channel()
    }

    /// The rows of the channel go into the store of this cluster, also if another reader has subscribed before.
    pub fn log(&self, cluster: &Cluster) {
        let mut node = self.node.lock();
        if let Some(lane) = self.subscribed.and_then(|number| node.lane_of(number)) {
            node.log_lane(lane, cluster);
        }
    }

    /// The last row of its channel that was handed out or reported as lost; `None`: there was none yet.
    pub fn last_number(&self) -> Option<RowNumber> {
        let epoch = self.lane.filter(|_| self.is_of_channel())?.epoch();
        let number = Some(self.expected).filter(|&next| next != ANY)?.checked_sub(1)?;
        Some(RowNumber { epoch, number })
    }

    /// Its first row is the one after this, if that is a row of the lane that serves it.
    pub fn go_on_after(&mut self, last: RowNumber) {
        self.start = Some(Start { epoch: last.epoch, row: last.number + 1 });
    }

    /// Goes back by this span from the newest row, as far as rows are here.
    pub fn rewind(&mut self, span: Nanos) {
        let shared = self.node.clone();
        let node = shared.lock();
        let Some(lane) = self.lane.and_then(|served| node.lanes().get_or_former(served.id)) else {
            return;
        };
        let newest = lane.newest().map_or(Nanos(0), |newest| newest.boot);
        self.since = newest.since(span);
        self.place = lane.join_since(self.since);
        (self.decoder, self.expected, self.touched) = (Decoder::new(), ANY, None);
        (self.skipped, self.begun, self.is_past) = (true, true, self.numbers == Numbers::Nodes);
    }

    /// The reader wants these rows of the lane that it was offered.
    pub fn begin(&mut self, want: &WantFrame<'_>) {
        if self.numbers != Numbers::Nodes {
            // From the row that was the newest when the lane was offered.
            (self.begun, self.touched) = (true, None);
            return;
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        if want.span > Nanos(0) && self.goes_back(&node, want.span) {
            self.touched = None;
            return;
        }
        let is_over = self.lane.is_some_and(|served| node.lanes().get(served.id).is_none());
        let Some((served, lane)) = self.lane.and_then(|f| Some((f, node.lanes_mut().get_mut(f.id)?))) else {
            return;
        };
        let is_same = want.epoch == served.epoch();
        let mut from = if is_same { want.from_row } else { served.newest(lane).unwrap_or(0) };
        // The present block begins here at the latest, even if nothing has come yet.
        let live = lane.live().unwrap_or(lane.next_offered);
        if let Some(missing) = &self.missing {
            missing.leave(lane);
        }
        self.leave_gap(lane);
        self.missing = (want.span > Nanos(0)).then(|| {
            from = from.max(lane.first_number_since(want.span, served.every));
            Missing::new(lane, from, live, is_same.then(|| want.have()).into_iter().flatten())
        });
        if let Some(missing) = &mut self.missing {
            // Hubs want a row a second, of any time.
            let is_hubs = want.span == Nanos(u64::MAX) && served.period().0 < 2 * Nanos::SECOND.0;
            missing.waits_for_row = is_hubs && served.every > 1;
        }
        // Rows that came since the lane was offered are not lost; before that, there may have been none. A channel's row is not lost if it
        // is here, or if the node has it.
        let is_from_there =
            self.expected == ANY || from >= self.expected || self.is_of_channel() && self.missing.is_none();
        self.place = if is_from_there { lane.join_at(served.first_row(from)) } else { lane.join() };
        (self.decoder, self.expected, self.touched) = (Decoder::new(), from, None);
        if is_over && self.missing.is_some() {
            // The lane has no live rows any more: all its rows come late.
            (self.place, self.expected) = (lane.leave(), served.newest(lane).map_or(0, |newest| newest + 1));
        }
        (self.skipped, self.begun, self.since) = (true, true, Nanos(0));
        self.is_bare = self.columns.are_bare();
    }

    /// The reader does not want the lane any more.
    pub fn leave(&mut self) {
        (self.begun, self.touched, self.expected) = (false, None, ANY);
    }

    /// True if the last read found nothing more.
    pub fn is_caught_up(&self) -> bool {
        self.touched.is_some()
    }

    /// The cluster has forgotten the node: the rows that are here are handed out, and then the cursor ends. Missing rows
    /// are not reported: the node still has them, and counts as another node when it comes back.
    pub fn end(&mut self) {
        self.is_ending = true;
    }

    /// True after [`Cursor::end`].
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// True once everything of a forgotten node is handed out.
    pub fn is_over(&self) -> bool {
        let is_copied = || self.touched == Some(self.node.touched.load(Ordering::Acquire));
        // If nothing was read, nothing was offered.
        self.is_ending && (!self.columns.are_chosen() || is_copied())
    }

    /// The oldest row of the lane that can be had, by this reader's numbers, and the row that comes next.
    fn rows(&self) -> (u64, u64) {
        let node = self.node.lock();
        let lane = self.lane.and_then(|served| Some((served, node.lanes().get_or_former(served.id)?)));
        lane.map_or((0, 0), |(served, lane)| {
            let next = match self.is_of_channel() && !self.begun {
                // A reader that is new wants the row before the next one.
                true => self.first.saturating_add(1),
                false => served.newest(lane).map_or(0, |newest| newest + 1),
            };
            (served.number(lane.oldest_row()).min(next), next)
        })
    }

    /// Reads what has come since, one call of `take` for each event.
    pub fn read(&mut self, mut take: impl FnMut(Event<'_>)) {
        let touched = self.node.touched.load(Ordering::Acquire);
        if self.touched == Some(touched) {
            return;
        }
        let is_over = self.change_lane_when_over(&mut take);
        let is_all = self.read_in_order(is_over, &mut take) && !is_over;
        self.touched = is_all.then_some(touched);
        if !self.read_late(&mut take) {
            self.touched = None;
        }
    }

    /// Reads the rows that are here, from its place on. `false`: there are more.
    fn read_in_order(&mut self, is_over: bool, take: &mut impl FnMut(Event<'_>)) -> bool {
        loop {
            match self.fill_gap(is_over, take) {
                Filled::Whole => {}
                Filled::More => return false,
                Filled::Waits => return true,
            }
            let is_all = self.copy();
            self.decode_copied(take);
            if self.gap.is_none() {
                return is_all;
            }
        }
    }

    /// Hands out the rows that were copied.
    fn decode_copied(&mut self, take: &mut impl FnMut(Event<'_>)) {
        let (bytes, mut pieces) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.pieces));
        let mut from = 0;
        let last_piece = pieces.len();
        for (number, (schema, to)) in pieces.drain(..).enumerate() {
            if let Some(schema) = schema {
                self.choose(&schema, take);
            }
            self.decode(&bytes[from..to], number + 1 == last_piece, take);
            from = to;
        }
        if bytes.capacity() <= BYTES_KEPT {
            (self.bytes, self.pieces) = (bytes, pieces);
        }
    }

    /// True if the cluster has forgotten the node, or it has come back as another node.
    pub fn is_forgotten(&self) -> bool {
        let turn = self.node.appearance.load(Ordering::Acquire);
        turn == 0 || turn != self.turn
    }

    /// True if the next read may have to choose columns, which costs most.
    pub fn is_costly(&self) -> bool {
        !self.columns.are_chosen() && self.touched != Some(self.node.touched.load(Ordering::Acquire))
    }

    /// Operations that reading has cost since the last call of this.
    pub fn take_cost(&mut self) -> usize {
        self.columns.take_cost()
    }

    /// The bytes that it holds, about.
    pub fn held(&self) -> u64 {
        let decoded = self.decoder.slots() * BYTES_A_SLOT;
        (BESIDE_SLOTS + self.columns.held() + decoded + self.bytes.capacity()) as u64
    }

    /// The bytes that a cursor of a node with this many slots will hold at least.
    pub fn held_at_least(slots: usize) -> u64 {
        (BESIDE_SLOTS + slots * (BYTES_A_SLOT + size_of::<Option<u32>>())) as u64
    }

    /// Copies new bytes out of the node, which is locked only for that, up to a gap. `false`: there is more.
    fn copy(&mut self) -> bool {
        self.bytes.clear();
        self.pieces.clear();
        let Some(served) = self.lane else { return true };
        let shared = self.node.clone();
        let node = shared.lock();
        let Some(lane) = node.lanes().get_or_former(served.id) else { return true };
        if !self.begun {
            // So far the reader only gets the offer.
            self.pieces.extend(lane.present_schema().map(|schema| (Some(schema.clone()), 0)));
            return true;
        }
        let mut expected = self.expected;
        while self.bytes.len() < BYTES_A_READ && !self.leaps_next(lane, expected) {
            match lane.read(&mut self.place, &mut self.bytes) {
                Piece::Nothing => return true,
                Piece::More => self.pieces.push((None, self.bytes.len())),
                Piece::Block(schema) => self.pieces.push((Some(schema), self.bytes.len())),
            }
            expected = expected.max(lane.end_at(&self.place).unwrap_or(0));
        }
        false
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let shared = self.node.clone();
        let mut node = shared.lock();
        self.leave_lane(&mut node);
        self.unsubscribe(&mut node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cursor_holds_and_copies_is_what_the_documents_say() {
        let text = include_str!("../../../../docs/limits.md");
        let copied = format!("{} KiB a node; {} KiB stay allocated", BYTES_A_READ >> 10, BYTES_KEPT >> 10);
        for line in [copied, format!("{BYTES_A_SLOT} bytes a slot")] {
            assert!(text.contains(&line), "docs/limits.md does not say: {line}");
        }
        // Decoded, and in a column: the number of the series that it is, where it was chosen.
        let grows = Cursor::held_at_least(100) - Cursor::held_at_least(0);
        assert_eq!(grows, 100 * (BYTES_A_SLOT + size_of::<Option<u32>>()) as u64);
        assert_eq!(Cursor::held_at_least(0), BESIDE_SLOTS as u64);
        assert!(size_of::<Cursor>() < BESIDE_SLOTS);
    }
}
