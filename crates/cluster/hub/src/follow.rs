//! A reader's place at one node: it follows the lane that serves it, decodes what is new, and picks the columns
//! that its patterns select. Every row is handed out once, or told as lost; [`late`] is about those that come late.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::{Decoder, Step};
use khz_link::WantFrame;
use khz_model::{Delivery, Nanos, Notice, Pace, Presence, Rate, Stamp};
use ring::digest::{Context, SHA256};

use crate::clock;
use crate::lane::{Lane, Piece, Place};
use crate::limits::BYTES_A_SLOT;
use crate::node::{Node, SharedNode};
use crate::schemas::Schema;

mod columns;
mod late;

pub(crate) use columns::{Columns, Selection};

/// One call hands out at most about this number of bytes of one lane; the rest comes with the next. A second at 1,000 Hz.
const BYTES_A_LOOK: usize = 128 << 10;

/// A follower keeps no more than this of what it has copied: there is one for each node of each reader.
const BYTES_KEPT: usize = 16 << 10;

/// What a follower takes beside its slots, with the reader's lane for it, measured: 448,000 took 500 MB.
const BESIDE_SLOTS: usize = 1_120;

/// Rows that a lane may have lost in one go: a year at 1,000 Hz.
const LEAP_MAX: u64 = 1 << 35;

/// Whatever number comes first.
const ANY: u64 = u64::MAX;

/// How rows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Not at all: a door sees rows that come and how many do not. It begins with the newest, and goes on where the node
    /// changes its lane.
    Doors,
    /// By the hub: the same for a reader of the first version, once it wants the lane.
    Hubs,
    /// By the node: the reader says from which row on it wants a lane, and a lane that changes is over.
    Nodes,
}

/// Follows one node.
pub(crate) struct Follower {
    pub node: Arc<SharedNode>,
    /// Its turn among the nodes that appeared.
    turn: u64,
    selection: Arc<Selection>,
    numbers: Numbers,
    /// What is wanted beyond the base lane, and its number at the node.
    wish: Option<u32>,
    /// Rows are handed out about this far apart; 0: all.
    period: Nanos,
    /// Rows that were gathered before are not handed out.
    since: Nanos,
    /// The lane that is followed now.
    lane: Option<Followed>,
    place: Place,
    decoder: Decoder,
    columns: Columns,
    /// The period that was told with them.
    period_told: Nanos,
    /// The next number that was not handed out or told of; before the reader wants the lane, the newest when it was offered.
    expected: u64,
    /// When the last row that was handed out was gathered.
    last: Option<Stamp>,
    /// Rows were decoded and not handed out since the last one that was.
    skipped: bool,
    /// The reader wants it; before, it only hears what there is.
    begun: bool,
    /// Rows that are not here are lost only where the node says so.
    is_past: bool,
    /// What a reader who wants late rows too still lacks.
    late: Option<late::Lacking>,
    told: bool,
    /// What the reader knows of the rate.
    pace: Option<Pace>,
    /// Whether the reader knows the node as up.
    up: bool,
    /// The node was forgotten: nothing more comes of it.
    is_ending: bool,
    /// What [`SharedNode::touched`] was when everything that there was had been copied.
    touched: Option<u64>,
    /// What was copied out of the node, kept for its memory.
    bytes: Vec<u8>,
    pieces: Vec<(Option<Arc<Schema>>, usize)>,
}

/// A lane of which one row in every n is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    id: u64,
    epoch: u64,
    every: u64,
    /// Time between two rows of the node.
    lane_period: Nanos,
}

impl Followed {
    /// The lane as this reader sees it.
    fn of(lane: &Lane, id: u64, period: Nanos) -> Self {
        let Lane { epoch, period: lane_period, .. } = *lane;
        Followed { id, epoch, every: every(period, lane_period), lane_period }
    }

    fn is(&self, other: &Followed) -> bool {
        (self.id, self.every) == (other.id, other.every)
    }

    /// The epoch that the reader sees: thinned rows have other numbers.
    pub fn epoch(&self) -> u64 {
        if self.every == 1 { self.epoch } else { thinned(self.epoch, self.every) }
    }

    /// Time between two of the rows that are handed out.
    pub fn period(&self) -> Nanos {
        Nanos(self.lane_period.0.saturating_mul(self.every))
    }

    /// The reader's number of a row.
    fn number(&self, row: u64) -> u64 {
        row / self.every
    }

    /// The first row that has the reader's number.
    fn first_row(&self, number: u64) -> u64 {
        number.saturating_mul(self.every)
    }

    /// The number of the newest row that there is; before any has come, as the node has said it.
    fn newest(&self, lane: &Lane) -> Option<u64> {
        let next = if lane.has_rows() { lane.next_row() } else { lane.next_offered };
        next.checked_sub(1).map(|row| self.number(row))
    }
}

/// The epoch of a lane of which one row in every n is handed out.
pub(crate) fn thinned(epoch: u64, every: u64) -> u64 {
    let mut context = Context::new(&SHA256);
    context.update(b"khz every");
    context.update(&epoch.to_le_bytes());
    context.update(&every.to_le_bytes());
    let digest = context.finish();
    digest.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// One row in this number makes this period out of the lane's; a half is rounded down.
fn every(period: Nanos, lane: Nanos) -> u64 {
    if lane == Nanos(0) || period <= lane {
        return 1;
    }
    let twice = u128::from(period.0) * 2 - u128::from(lane.0);
    u64::try_from(twice.div_ceil(u128::from(lane.0) * 2)).unwrap_or(1)
}

/// What [`Follower::look`] came upon, in order.
pub(crate) enum Seen<'a> {
    /// The lane that was followed is over; another one may follow.
    Over,
    /// The columns are these from here on; the oldest row that can be had, and the one that comes next.
    Columns(&'a Columns, Followed, (u64, u64)),
    /// A row, its number, and whether the decoder's changes are all there are since the one before.
    Row(&'a Columns, &'a Decoder, u64, bool),
    /// A row that comes late; the columns are those of its own time.
    Late(&'a Columns, &'a Decoder, u64, bool),
    /// These rows (the last not included) will not come.
    Lost(u64, u64),
}

impl Follower {
    /// Begins to follow; with `is_wished` the base lane does not serve it. `None`: the node has too many wishes.
    pub fn new(
        node: Arc<SharedNode>,
        selection: Arc<Selection>,
        is_wished: bool,
        period: Nanos,
        numbers: Numbers,
    ) -> Option<Self> {
        let wish = match selection.wish.as_ref().filter(|_| is_wished) {
            Some(wish) => Some(node.lock().wish(wish)?),
            None => None,
        };
        Some(Follower {
            up: node.up.load(Ordering::Relaxed),
            turn: node.turn.load(Ordering::Acquire),
            node,
            selection,
            numbers,
            wish,
            period,
            since: Nanos(0),
            lane: None,
            place: Place { first_row: 0, offset: 0 },
            decoder: Decoder::new(),
            columns: Columns::default(),
            period_told: Nanos(0),
            expected: 0,
            last: None,
            skipped: true,
            begun: numbers == Numbers::Doors,
            is_past: false,
            late: None,
            told: false,
            pace: wish.and(Rate::from_period(period)).map(Pace::new),
            is_ending: false,
            touched: None,
            bytes: Vec::new(),
            pieces: Vec::new(),
        })
    }

    /// What the node has to say about the rate, once; then, whenever the lane that serves runs slower than asked or as
    /// asked again, that it does.
    pub fn take_notice(&mut self) -> Option<Notice> {
        let wish = self.wish?;
        let node = self.node.lock();
        let interest = node.interest(wish)?;
        let (told, lane) = (interest.told.clone()?, interest.lane);
        drop(node);
        let text = match self.told || (told.granted && told.text.is_empty()) {
            true => self.pace_news(lane.filter(|_| told.granted))?,
            false => {
                self.told = true;
                let said = if told.text.is_empty() { "refused".to_owned() } else { told.text };
                if told.granted { said } else { format!("{said}; showing the base lane") }
            }
        };
        Some(Notice::of(self.node.name.clone(), text))
    }

    /// The reader thinks that the node is not there.
    pub fn knows_as_gone(&mut self) {
        self.up = false;
    }

    /// That the node has gone or come since the reader was told last.
    pub fn take_change(&mut self) -> Option<Notice> {
        if self.node.up.load(Ordering::Relaxed) == self.up {
            return None;
        }
        let status = self.node.lock().status(clock::boot());
        if std::mem::replace(&mut self.up, status.up) == status.up {
            return None;
        }
        let since = Nanos(u64::try_from(clock::wall()).unwrap_or(0)).since(status.since.unwrap_or_default());
        let (presence, at) = (status.presence(), since.time_of_day());
        let text = match presence {
            Presence::Up if status.connects > 1 => format!("is back since {at} UTC"),
            Presence::Up => format!("is up since {at} UTC"),
            Presence::Left => format!("has left at {at} UTC"),
            Presence::Down | Presence::Missing => {
                let why = status.problem.map(|problem| format!(": {problem}")).unwrap_or_default();
                format!("is down since {at} UTC{why}")
            }
        };
        Some(Notice { node: status.node, text, change: Some((presence, since)) })
    }

    fn pace_news(&mut self, serving: Option<u64>) -> Option<String> {
        let followed = self.lane.filter(|followed| Some(followed.id) == serving)?;
        self.pace.as_mut()?.news(Rate::from_period(followed.period())?)
    }

    /// Goes back to the rows of so long before the newest, as far as they are here.
    pub fn rewind(&mut self, span: Nanos) {
        let shared = self.node.clone();
        let node = shared.lock();
        let Some(lane) = self.lane.and_then(|followed| node.lane_or_former(followed.id)) else { return };
        let newest = lane.newest().map_or(Nanos(0), |newest| newest.boot);
        self.since = newest.since(span);
        self.place = lane.join_since(self.since);
        (self.decoder, self.expected, self.touched) = (Decoder::new(), ANY, None);
        (self.skipped, self.begun, self.is_past) = (true, true, self.numbers == Numbers::Nodes);
    }

    /// The reader wants these rows of the lane that he was offered.
    pub fn begin(&mut self, want: &WantFrame<'_>) {
        if self.numbers != Numbers::Nodes {
            // From the row on that was the newest when the lane was offered.
            (self.begun, self.touched) = (true, None);
            return;
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        let Some((followed, lane)) = self.lane.and_then(|f| Some((f, node.lane_mut(f.id)?))) else { return };
        let is_same = want.epoch == followed.epoch();
        let mut from = if is_same { want.from_row } else { followed.newest(lane).unwrap_or(0) };
        // The present block begins at the latest here, also where nothing has come yet.
        let live = lane.live().unwrap_or(lane.next_offered);
        if let Some(late) = &self.late {
            late.leave(lane);
        }
        self.late = (want.span > Nanos(0)).then(|| {
            from = from.max(lane.first_number_since(want.span, followed.every));
            late::Lacking::new(lane, from, live, is_same.then(|| want.have()).into_iter().flatten())
        });
        // What has come since the lane was offered is not lost.
        self.place = if from >= self.expected { lane.join_at(followed.first_row(from)) } else { lane.join() };
        (self.decoder, self.expected, self.touched) = (Decoder::new(), from, None);
        (self.skipped, self.begun, self.since) = (true, true, Nanos(0));
    }

    /// The lane is not wanted any more.
    pub fn leave(&mut self) {
        (self.begun, self.touched, self.expected) = (false, None, ANY);
    }

    /// True when there was nothing more at the last look.
    pub fn is_caught_up(&self) -> bool {
        self.touched.is_some()
    }

    /// The cluster has forgotten the node: what is here is handed out, and then it is over. Nothing is said of rows that are
    /// missing: the node still has them when it comes back, and then it is another one.
    pub fn end(&mut self) {
        self.is_ending = true;
    }

    /// True from then on.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// True once everything of a forgotten node was handed out.
    pub fn is_over(&self) -> bool {
        let is_copied = || self.touched == Some(self.node.touched.load(Ordering::Acquire));
        // To one that was never looked at nothing was offered.
        self.is_ending && (!self.columns.are_chosen() || is_copied())
    }

    /// The oldest row of the lane that can be had, by this reader's numbers, and the one that comes next.
    fn rows(&self) -> (u64, u64) {
        let node = self.node.lock();
        let lane = self.lane.and_then(|followed| Some((followed, node.lane(followed.id)?)));
        lane.map_or((0, 0), |(followed, lane)| {
            let next = followed.newest(lane).map_or(0, |newest| newest + 1);
            (followed.number(lane.oldest_row()).min(next), next)
        })
    }

    /// The rows that came since, one call of `seen` for each.
    pub fn look(&mut self, mut seen: impl FnMut(Seen<'_>)) {
        let touched = self.node.touched.load(Ordering::Acquire);
        if self.touched == Some(touched) {
            return;
        }
        let is_over = self.change_lane_when_over(&mut seen);
        let is_all = self.copy() && !is_over;
        self.touched = is_all.then_some(touched);
        let (bytes, mut pieces) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.pieces));
        let mut from = 0;
        let last_piece = pieces.len();
        for (number, (schema, to)) in pieces.drain(..).enumerate() {
            if let Some(schema) = schema {
                self.choose(&schema, &mut seen);
            }
            self.decode(&bytes[from..to], number + 1 == last_piece, &mut seen);
            from = to;
        }
        if bytes.capacity() <= BYTES_KEPT {
            (self.bytes, self.pieces) = (bytes, pieces);
        }
        if !self.look_for_late(&mut seen) {
            self.touched = None;
        }
    }

    /// True when nobody knows the node any more, or it has come back as another.
    pub fn is_forgotten(&self) -> bool {
        let turn = self.node.turn.load(Ordering::Acquire);
        turn == 0 || turn != self.turn
    }

    /// True where the next look may have to choose columns.
    pub fn is_dear(&self) -> bool {
        !self.columns.are_chosen() && self.touched != Some(self.node.touched.load(Ordering::Acquire))
    }

    /// Operations that its looks have cost since this was asked last.
    pub fn take_cost(&mut self) -> usize {
        self.columns.take_cost()
    }

    /// About the bytes that it holds.
    pub fn held(&self) -> u64 {
        let decoded = self.decoder.slots() * BYTES_A_SLOT;
        (BESIDE_SLOTS + self.columns.held() + decoded + self.bytes.capacity()) as u64
    }

    /// What a follower of a node with so many slots will hold at the least.
    pub fn held_at_least(slots: usize) -> u64 {
        (BESIDE_SLOTS + slots * (BYTES_A_SLOT + size_of::<Option<u32>>())) as u64
    }

    fn choose(&mut self, schema: &Arc<Schema>, seen: &mut impl FnMut(Seen<'_>)) {
        let are_others = self.columns.choose(schema, &self.selection);
        if let Some(followed) = self.lane
            && (are_others || self.period_told != followed.period())
        {
            self.period_told = followed.period();
            let rows = if self.numbers == Numbers::Nodes { self.rows() } else { (0, 0) };
            seen(Seen::Columns(&self.columns, followed, rows));
        }
    }

    fn decode(&mut self, mut bytes: &[u8], newest: bool, seen: &mut impl FnMut(Seen<'_>)) {
        while !bytes.is_empty() {
            match self.decoder.step(bytes) {
                Ok(Step::Header(length)) => {
                    bytes = &bytes[length..];
                    // A block of another generation may have fewer slots: what it lacks has changed too.
                    self.skipped = true;
                }
                Ok(Step::Row(length)) => {
                    bytes = &bytes[length..];
                    self.row(seen);
                }
                // Rows were scanned when they came: what does not decode is the unfinished end.
                Ok(Step::Incomplete) | Err(_) => break,
            }
        }
        self.place.offset -= if newest { bytes.len() } else { 0 };
    }

    /// Hands the decoder's row out, if it is wanted.
    fn row(&mut self, seen: &mut impl FnMut(Seen<'_>)) {
        let Some(followed) = self.lane else { return };
        let number = followed.number(self.decoder.next_row() - 1);
        let is_first = self.expected == ANY;
        // A node whose numbers leap back that far has begun to count from there.
        let is_known = !is_first && number < self.expected && self.expected - number <= LEAP_MAX;
        if is_known || self.decoder.stamp().boot < self.since || !self.is_lacking(number) {
            self.skipped = true;
            return;
        }
        if !is_first {
            self.leap(number, seen);
        }
        let all = !std::mem::replace(&mut self.skipped, false);
        if let Some(late) = &mut self.late {
            late.given(number, number + 1, seen);
        }
        (self.expected, self.last) = (number + 1, Some(self.decoder.stamp()));
        seen(Seen::Row(&self.columns, &self.decoder, number, all));
    }

    /// True where a number was not handed out before.
    fn is_lacking(&self, number: u64) -> bool {
        self.late.as_ref().is_none_or(|late| late.lacks(number))
    }

    /// Says what lies between the number that should come next and this one. A node that leaps further than any lane is
    /// long has not lost that.
    fn leap(&mut self, number: u64, seen: &mut impl FnMut(Seen<'_>)) {
        let (from, to) = (self.expected, number);
        if from >= to {
            return;
        }
        if to - from > LEAP_MAX {
            if let Some(late) = &mut self.late {
                late.given(from, to, seen);
            }
        } else if self.is_past {
            let node = self.node.lock();
            let lane = self.lane.and_then(|followed| node.lane_or_former(followed.id));
            let lost = lane.map_or_else(Vec::new, |lane| lane.late.lost(from, to));
            drop(node);
            lost.into_iter().for_each(|(from, to)| seen(Seen::Lost(from, to)));
        } else {
            match &mut self.late {
                Some(late) => late.look_again(),
                None => seen(Seen::Lost(from, to)),
            }
        }
    }

    /// Copies what is new out of the node, which is locked for no longer than that; `false` when there is more.
    fn copy(&mut self) -> bool {
        self.bytes.clear();
        self.pieces.clear();
        let Some(followed) = self.lane else { return true };
        let shared = self.node.clone();
        let node = shared.lock();
        let Some(lane) = node.lane_or_former(followed.id) else { return true };
        if !self.begun {
            // So far he only hears what there is.
            self.pieces.extend(lane.present_schema().map(|schema| (Some(schema.clone()), 0)));
            return true;
        }
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
    fn lane_of(&self, node: &Node) -> Option<Followed> {
        let present = self.lane.map(|followed| followed.id);
        let id = match self.wish.map(|number| node.interest(number)) {
            None => node.base(),
            Some(Some(interest)) if interest.told.as_ref().is_some_and(|told| !told.granted) => node.base(),
            // Until the node has answered, and while it is away, the lane that served stays. One that was left is joined when it
            // flows again: what it has of before is not what is wanted, and what lies between is not lost.
            Some(Some(interest)) => {
                let flows = |id| present == Some(id) || node.lane(id).is_some_and(|lane| !lane.late.begins());
                interest.lane.filter(|&id| flows(id)).or(present)
            }
            Some(None) => None,
        };
        let lane = |id| Some(Followed::of(node.lane_or_former(id)?, id, self.period));
        id.and_then(lane)
    }

    /// Goes to the lane that serves now, once everything of the one before was handed out; `true` where that is not so
    /// yet, so that there is more.
    fn change_lane_when_over(&mut self, seen: &mut impl FnMut(Seen<'_>)) -> bool {
        let shared = self.node.clone();
        let mut node = shared.lock();
        let wanted = self.lane_of(&node);
        match (&mut self.lane, wanted) {
            (Some(present), Some(wanted)) if present.is(&wanted) => {
                *present = wanted;
                return false;
            }
            (None, None) => return false,
            _ => {}
        }
        if self.begun && self.has_more(&node) {
            return true;
        }
        let before = self.lane;
        let lacking = self.late.take().map(|late| late.end(self.expected));
        self.leave_lane(&mut node);
        self.lane = wanted;
        let mut gap = 0;
        if let Some((followed, lane)) = wanted.and_then(|f| Some((f, node.lane_mut(f.id)?))) {
            lane.readers += 1;
            self.place = lane.join();
            // By count: nobody knows how many rows of the epoch before there were.
            gap = self.last.map_or(0, |last| lane.ticks_since(last, followed.period()));
            self.expected = followed.newest(lane).unwrap_or(ANY);
        }
        drop(node);
        (self.decoder, self.skipped, self.is_past) = (Decoder::new(), true, false);
        self.columns = Columns::default();
        self.begun &= self.numbers != Numbers::Nodes;
        lacking.into_iter().flatten().for_each(|(from, to)| seen(Seen::Lost(from, to)));
        if before.is_some() {
            match self.numbers {
                Numbers::Nodes => seen(Seen::Over),
                _ if gap > 0 => seen(Seen::Lost(0, gap)),
                _ => {}
            }
        }
        false
    }

    /// Whether rows of the present lane wait to be handed out.
    fn has_more(&self, node: &Node) -> bool {
        let lane = self.lane.and_then(|followed| node.lane_or_former(followed.id));
        lane.is_some_and(|lane| !lane.is_read(&self.place))
    }

    fn leave_lane(&mut self, node: &mut Node) {
        if let Some(lane) = self.lane.take().and_then(|followed| node.lane_mut(followed.id)) {
            lane.readers = lane.readers.saturating_sub(1);
            if let Some(late) = self.late.take() {
                late.leave(lane);
            }
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
    let (mut lost, mut readings) = (0u64, 0);
    let mut rate = Rate::from_period(follower.period_told);
    follower.look(|seen| match seen {
        Seen::Columns(_, followed, _) => rate = Rate::from_period(followed.period()),
        Seen::Over | Seen::Late(..) => {}
        Seen::Lost(from, to) => lost = lost.saturating_add(to - from),
        Seen::Row(columns, ..) if columns.is_empty() => {}
        Seen::Row(..) if readings > readings_max => lost = lost.saturating_add(1),
        Seen::Row(columns, decoder, ..) => {
            let row = columns.row(decoder);
            readings += row.readings.len();
            match deliveries.last_mut() {
                Some(last)
                    if lost == 0 && last.rate == rate && Arc::ptr_eq(&last.columns, &columns.series) =>
                {
                    last.rows.push(row)
                }
                _ => deliveries.push(Delivery {
                    node: name.clone(),
                    columns: columns.series.clone(),
                    rows: vec![row],
                    lost: std::mem::take(&mut lost),
                    rate,
                }),
            }
        }
    });
    if lost > 0 {
        let columns = follower.columns.series.clone();
        deliveries.push(Delivery { node: name, columns, rows: Vec::new(), lost, rate });
    }
    deliveries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_follower_holds_and_copies_is_what_the_documents_say() {
        let text = include_str!("../../../../docs/limits.md");
        let copied = format!("{} KiB a node; {} KiB are kept", BYTES_A_LOOK >> 10, BYTES_KEPT >> 10);
        for line in [copied, format!("{BYTES_A_SLOT} bytes a slot")] {
            assert!(text.contains(&line), "docs/limits.md does not say: {line}");
        }
        // Decoded, and in a column: the number of the series that it is, where it was chosen.
        let grows = Follower::held_at_least(100) - Follower::held_at_least(0);
        assert_eq!(grows, 100 * (BYTES_A_SLOT + size_of::<Option<u32>>()) as u64);
        assert_eq!(Follower::held_at_least(0), BESIDE_SLOTS as u64);
        assert!(size_of::<Follower>() < BESIDE_SLOTS);
    }

    #[test]
    fn a_slower_reader_gets_one_of_so_many_rows() {
        let every = |period: u64, lane: u64| every(Nanos(period), Nanos(lane));
        assert_eq!([every(1, 1), every(1, 10), every(0, 5), every(3, 1), every(7, 0)], [1, 1, 1, 3, 1]);
        // A half is rounded down: rather a row too many than one too few.
        assert_eq!([every(15, 10), every(16, 10), every(25, 10), every(26, 10)], [1, 2, 2, 3]);
        assert_eq!(every(u64::MAX, 1), u64::MAX);
        // It never changes: another hub must come to the same.
        assert_eq!(thinned(0x0123_4567_89ab_cdef, 10), 0x6b13_d64c_b248_bb01);
    }
}
