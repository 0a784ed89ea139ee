//! What a node keeps because of Freezes: copies of blocks from its rings, until the hub that asked has fetched them. It copies the
//! rows in the rings at once, and later rows when they have come. It never waits, and keeps within its limits. The gather thread
//! takes no part in this.

use std::collections::VecDeque;
use std::sync::Arc;

use khz_block::{HEADER_BYTES, Header, RowScanner};
use khz_model::Nanos;

use crate::freeze::{Frozen, FrozenLane, FrozenState};
use crate::limits::{
    FREEZE_AFTER_MAX, FREEZE_BEFORE_MAX, FREEZES_MAX, FROZEN_BYTES_MAX, FROZEN_KEPT_FOR, FROZEN_LANES_MAX,
    PIECE, SCHEMA_MAX,
};
use crate::ring_walk::{self, Walk};
use crate::source::{Lane, Overtaken};

/// The prefix of a frozen lane's name; the number of the freeze and the name of the lane follow.
const PREFIX: &str = "frozen.";

/// While a freeze goes on, rings are copied again after this time. Even the fastest ring keeps its rows for longer.
const COPIED_AGAIN: Nanos = Nanos::SECOND;

/// The name of a frozen lane.
pub fn name(number: u64, lane: &str) -> String {
    format!("{PREFIX}{number:016x}.{lane}")
}

/// The freeze and the original lane of a frozen lane with this name; `None`: it is the name of
/// another lane.
pub fn of_name(name: &str) -> Option<(u64, &str)> {
    let (number, lane) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let is_hex = number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((u64::from_str_radix(number, 16).ok().filter(|_| is_hex)?, lane))
}

/// What a hub asks for, on this node's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The number of the freeze.
    pub number: u64,
    /// Rows from this time since boot.
    pub from: Nanos,
    /// Rows until this time since boot.
    pub to: Nanos,
}

impl Order {
    /// The rows around a moment, within the limits.
    pub fn around(number: u64, at: Nanos, before: Nanos, after: Nanos) -> Self {
        let from = at.since(before.min(FREEZE_BEFORE_MAX));
        Order { number, from, to: Nanos(at.0.saturating_add(after.min(FREEZE_AFTER_MAX).0)) }
    }
}

/// The frozen blocks of one lane. They are closed, and never change.
#[derive(Debug)]
pub struct FrozenRing {
    number: u64,
    id: u64,
    name: Box<str>,
    epoch: u64,
    period: Nanos,
    bytes: Vec<u8>,
    /// Where the last block begins.
    newest: u64,
    generation: u32,
    schemas: Vec<(u32, Vec<u8>)>,
}

impl FrozenRing {
    fn schema_of(&self, generation: u32) -> Option<&[u8]> {
        let schema = self.schemas.iter().find(|(known, _)| *known == generation);
        schema.map(|(_, bytes)| bytes.as_slice())
    }
}

impl Lane for FrozenRing {
    fn id(&self) -> u64 {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn generation(&self) -> u32 {
        self.generation
    }

    fn period(&self) -> Nanos {
        self.period
    }

    fn freeze(&self) -> Option<u64> {
        Some(self.number)
    }

    fn head(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn oldest(&self) -> u64 {
        0
    }

    fn newest(&self) -> u64 {
        self.newest
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        let rest = usize::try_from(from).ok().and_then(|from| self.bytes.get(from..)).unwrap_or_default();
        let piece = &rest[..rest.len().min(most)];
        out.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.schema_of(generation).map(|schema| schema.len() as u64)
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        let rest = self.schema_of(generation)?.get(usize::try_from(from).ok()?..)?;
        let piece = &rest[..rest.len().min(most)];
        out.extend_from_slice(piece);
        Some(piece.len())
    }
}

/// A lane of a node, or frozen blocks of a lane.
#[derive(Clone, Debug)]
pub enum MaybeFrozen<L> {
    /// A lane that the node has.
    Live(L),
    /// Blocks that it keeps.
    Frozen(Arc<FrozenRing>),
}

impl<L> MaybeFrozen<L> {
    /// The lane, if it is no frozen one.
    pub fn live(&self) -> Option<&L> {
        match self {
            MaybeFrozen::Live(lane) => Some(lane),
            MaybeFrozen::Frozen(_) => None,
        }
    }
}

/// Calls the same method of the variant that it is.
macro_rules! either {
    ($self:ident, $lane:ident => $call:expr) => {
        match $self {
            MaybeFrozen::Live($lane) => $call,
            MaybeFrozen::Frozen($lane) => $call,
        }
    };
}

impl<L: Lane> Lane for MaybeFrozen<L> {
    fn id(&self) -> u64 {
        either!(self, lane => lane.id())
    }

    fn name(&self) -> &str {
        either!(self, lane => lane.name())
    }

    fn epoch(&self) -> u64 {
        either!(self, lane => lane.epoch())
    }

    fn generation(&self) -> u32 {
        either!(self, lane => lane.generation())
    }

    fn period(&self) -> Nanos {
        either!(self, lane => lane.period())
    }

    fn is_regular(&self) -> bool {
        either!(self, lane => lane.is_regular())
    }

    fn freeze(&self) -> Option<u64> {
        either!(self, lane => lane.freeze())
    }

    fn answered(&self) -> u32 {
        either!(self, lane => lane.answered())
    }

    fn head(&self) -> u64 {
        either!(self, lane => lane.head())
    }

    fn oldest(&self) -> u64 {
        either!(self, lane => lane.oldest())
    }

    fn newest(&self) -> u64 {
        either!(self, lane => lane.newest())
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        either!(self, lane => lane.copy(from, most, out))
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        either!(self, lane => lane.schema_bytes(generation))
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        either!(self, lane => lane.schema(generation, from, most, out))
    }
}

/// If two rows are further apart than both this time and [`GAP_TICKS`] ticks, rows are missing between them. A late tick is no loss.
const GAP_MIN: Nanos = Nanos::SECOND;
const GAP_TICKS: u64 = 3;

/// One lane while it is copied.
#[derive(Debug)]
struct Copying<L> {
    lane: L,
    /// The offset of the first block that was not copied.
    next: u64,
    bytes: Vec<u8>,
    newest: u64,
    generation: u32,
    schemas: Vec<(u32, Vec<u8>)>,
    rows: Option<(u64, u64)>,
    /// The beginning of the time to keep.
    from: Nanos,
    /// When the oldest row that the ring had was gathered.
    began: Nanos,
    /// Another lane of the node begins earlier. So the time before this lane began is no loss.
    is_beside: bool,
    /// The length of time at the beginning that was overwritten before it was copied.
    missing: Nanos,
    /// The time at which the copied rows end; `None`: no row was copied.
    until: Option<Nanos>,
    /// The total time without rows inside the freeze: the node stood still, or the ring was
    /// overwritten.
    gaps: Nanos,
}

/// One freeze.
#[derive(Debug)]
struct Held<L> {
    order: Order,
    since: Nanos,
    /// The lanes that are copied until the time of the freeze is over.
    copying: Vec<Copying<L>>,
    rings: Vec<Arc<FrozenRing>>,
    lanes: Vec<FrozenLane>,
    /// Why the freeze has less than was asked for.
    text: String,
}

impl<L> Held<L> {
    fn is_kept(&self) -> bool {
        self.copying.is_empty()
    }

    fn bytes(&self) -> usize {
        let copying = self.copying.iter().map(Copying::size);
        let rings = self.rings.iter().map(|ring| size(&ring.bytes, &ring.schemas));
        copying.chain(rings).sum()
    }
}

fn size(bytes: &[u8], schemas: &[(u32, Vec<u8>)]) -> usize {
    bytes.len() + schemas.iter().map(|(_, schema)| schema.len()).sum::<usize>()
}

/// The freezes of a node.
#[derive(Debug)]
pub struct Freezes<L> {
    /// Oldest first.
    held: Vec<Held<L>>,
    answers: VecDeque<Frozen>,
    copied_at: Nanos,
    /// Freezes that were dropped for newer ones before a hub had fetched them.
    evicted: u64,
    /// Counts frozen lanes that came and went.
    changes: u64,
    /// The limit of the bytes of all freezes.
    most: usize,
    scratch: Vec<u8>,
}

impl<L> Default for Freezes<L> {
    fn default() -> Self {
        Freezes {
            held: Vec::new(),
            answers: VecDeque::new(),
            copied_at: Nanos(0),
            evicted: 0,
            changes: 0,
            most: FROZEN_BYTES_MAX,
            scratch: Vec::new(),
        }
    }
}

impl<L: Lane> Freezes<L> {
    /// The same with another limit for all bytes, for tests.
    pub fn within(most: usize) -> Self {
        Freezes { most, ..Freezes::default() }
    }

    /// Keeps what these lanes have of the time of an order, and answers. If the order is already known, it only answers
    /// again.
    pub fn freeze(&mut self, order: Order, lanes: Vec<L>, now: Nanos) {
        self.forget_old(now);
        if let Some(known) = self.held.iter().find(|held| held.order.number == order.number) {
            let answer = self.answer_of(known);
            return self.answers.push_back(answer);
        }
        if self.held.len() == FREEZES_MAX {
            self.evict_oldest();
        }
        let scratch = &mut self.scratch;
        let lanes = lanes.into_iter().take(FROZEN_LANES_MAX);
        let mut copying: Vec<Copying<L>> =
            lanes.filter_map(|lane| Copying::begin(lane, order.from, scratch)).collect();
        let first = copying.iter().map(|one| one.began).min();
        for one in copying.iter_mut().filter(|one| Some(one.began) != first) {
            one.is_beside = true;
        }
        if copying.is_empty() {
            let (number, state) = (order.number, FrozenState::Refused);
            let text = "this node has no rows in a ring yet".to_owned();
            return self.answers.push_back(Frozen { number, state, text, lanes: Vec::new() });
        }
        let (rings, lanes, text) = (Vec::new(), Vec::new(), String::new());
        self.held.push(Held { order, since: now, copying, rings, lanes, text });
        self.copied_at = now;
        let newest = self.held.len() - 1;
        let newest = self.copy_one(newest, now);
        // If the time of the freeze is over already, there is only one answer.
        if let Some(held) = self.held.get(newest).filter(|held| !held.is_kept()) {
            let answer = self.answer_of(held);
            self.answers.push_back(answer);
        }
    }

    /// A hub has fetched the freeze, or does not want it.
    pub fn thaw(&mut self, number: u64) {
        let before = self.held.len();
        self.held.retain(|held| held.order.number != number);
        self.changes += u64::from(self.held.len() < before);
    }

    /// Copies what has come since the last copy, and ends freezes whose time is over.
    pub fn copy(&mut self, now: Nanos) {
        if self.next_due().is_none_or(|due| now < due) {
            return;
        }
        let mut at = 0;
        while at < self.held.len() {
            at = if self.held[at].is_kept() { at } else { self.copy_one(at, now) } + 1;
        }
        self.copied_at = now;
        self.forget_old(now);
    }

    /// When to copy next; `None`: no freeze goes on.
    pub fn next_due(&self) -> Option<Nanos> {
        let going = self.held.iter().filter(|held| !held.is_kept()).map(|held| held.order.to);
        going.min().map(|to| to.min(Nanos(self.copied_at.0 + COPIED_AGAIN.0)))
    }

    /// The next answer.
    pub fn answer(&mut self) -> Option<Frozen> {
        self.answers.pop_front()
    }

    /// The lanes that are offered.
    pub fn offered(&self) -> impl Iterator<Item = Arc<FrozenRing>> {
        self.held.iter().flat_map(|held| held.rings.iter().cloned())
    }

    /// Changes when an offered lane is added or removed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Freezes that were dropped for newer ones before a hub had fetched them.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Bytes of all freezes.
    pub fn bytes(&self) -> usize {
        self.held.iter().map(Held::bytes).sum()
    }

    /// Copies for one freeze, and ends it if its time is over. Drops older freezes to make room. Returns the index
    /// of the freeze after that.
    fn copy_one(&mut self, mut at: usize, now: Nanos) -> usize {
        let mut copying = std::mem::take(&mut self.held[at].copying);
        let to = self.held[at].order.to;
        let mut used: usize = copying.iter().map(Copying::size).sum();
        let mut is_full = false;
        for one in &mut copying {
            loop {
                let more = one.copy_block(to, now >= to, &mut self.scratch);
                let Some(more) = more else { break };
                used += more;
                while used + self.bytes() > self.most && at > 0 {
                    self.evict_oldest();
                    at -= 1;
                }
                if used + self.bytes() > self.most {
                    used -= one.take_back();
                    is_full = true;
                    break;
                }
            }
        }
        let held = &mut self.held[at];
        if is_full && held.text.is_empty() {
            held.text = format!("{} MiB for frozen rows are full", self.most >> 20);
        }
        held.copying = copying;
        if now >= to || is_full {
            held.end();
            self.changes += 1;
            let answer = self.answer_of(&self.held[at]);
            self.answers.push_back(answer);
        }
        at
    }

    fn evict_oldest(&mut self) {
        let gone = self.held.remove(0);
        self.evicted += 1;
        self.changes += 1;
        let text = "newer freezes took its room before it was fetched".to_owned();
        let (number, state) = (gone.order.number, FrozenState::Refused);
        self.answers.push_back(Frozen { number, state, text, lanes: Vec::new() });
    }

    /// Drops freezes that are too old: their hub never came back.
    fn forget_old(&mut self, now: Nanos) {
        let before = self.held.len();
        self.held.retain(|held| now.since(held.since) < FROZEN_KEPT_FOR);
        let gone = (before - self.held.len()) as u64;
        (self.evicted, self.changes) = (self.evicted + gone, self.changes + gone);
    }

    fn answer_of(&self, held: &Held<L>) -> Frozen {
        let state = if held.is_kept() { FrozenState::Kept } else { FrozenState::Marked };
        let lanes = match held.is_kept() {
            true => held.lanes.clone(),
            false => held.copying.iter().map(Copying::standing).collect(),
        };
        Frozen { number: held.order.number, state, text: held.text.clone(), lanes }
    }
}

impl<L: Lane> Held<L> {
    /// The copy is complete: the lanes are offered from now on.
    fn end(&mut self) {
        for mut one in std::mem::take(&mut self.copying) {
            one.note_gap_before(self.order.to, self.order.to);
            if !one.is_beside && one.gaps > Nanos(0) && self.text.is_empty() {
                let seconds = one.gaps.as_secs_f64();
                self.text = format!(
                    "it has no rows of {seconds:.1} s of that time: it stood still, or its ring is too short"
                );
            }
            if one.rows.is_none() {
                continue;
            }
            self.lanes.push(one.standing());
            self.rings.push(Arc::new(one.into_ring(self.order.number)));
        }
        if self.rings.is_empty() && self.text.is_empty() {
            self.text = "its rings have no rows of that time".to_owned();
        }
    }
}

impl<L> Copying<L> {
    fn size(&self) -> usize {
        size(&self.bytes, &self.schemas)
    }
}

impl<L: Lane> Copying<L> {
    /// Finds the first block with rows of the time from `from` on; `None`: the lane has no rows yet.
    fn begin(lane: L, from: Nanos, scratch: &mut Vec<u8>) -> Option<Self> {
        let mut next = lane.newest();
        let mut oldest = None;
        for found in Walk::new(&lane, scratch) {
            oldest = oldest.or(Some(found.began));
            if found.ended > from {
                next = found.at;
                break;
            }
        }
        let open = ring_walk::header(&lane, lane.newest(), scratch);
        let oldest = oldest.or(open.map(|header| header.stamp.boot))?;
        let generation = lane.generation();
        let (bytes, schemas, until) = (Vec::new(), Vec::new(), None);
        let (newest, rows, is_beside, gaps) = (0, None, false, Nanos(0));
        let (missing, began) = (oldest.since(from), oldest);
        Some(Copying {
            lane,
            next,
            bytes,
            newest,
            generation,
            schemas,
            rows,
            from,
            began,
            is_beside,
            missing,
            until,
            gaps,
        })
    }

    /// How far apart two consecutive rows may be: late ticks are no loss.
    fn distance_max(&self) -> u64 {
        GAP_MIN.0.max(self.lane.period().0.saturating_mul(GAP_TICKS))
    }

    /// The next row was gathered at `next`, or the time ends there. Notes if rows are missing before
    /// `next`.
    fn note_gap_before(&mut self, next: Nanos, to: Nanos) {
        let Some(until) = self.until.filter(|_| self.lane.period().0 > 0) else { return };
        if next.since(until).0 > self.distance_max() {
            let (from, to) = (until.max(self.from), next.min(to));
            self.gaps.0 += to.since(from).0;
        }
    }

    /// A block was copied.
    fn note_block(&mut self, header: &Header, rows: u64, to: Nanos) {
        let began = header.stamp.boot;
        if self.until.is_none() {
            let before = began.since(self.from);
            let overwritten = Nanos(header.first_row.saturating_mul(header.period.0));
            self.missing = if self.is_beside { before.min(overwritten) } else { before };
        }
        self.note_gap_before(began, to);
        self.until = Some(Nanos(began.0.saturating_add(header.period.0.saturating_mul(rows))));
    }

    /// Copies the next block, if it has ended and begins before `to`. If the time is over (`is_over`), also copies the rows of the open
    /// block. Returns the number of bytes.
    fn copy_block(&mut self, to: Nanos, is_over: bool, scratch: &mut Vec<u8>) -> Option<usize> {
        let mut header = ring_walk::header(&self.lane, self.next, scratch);
        if self.next < self.lane.oldest() || header.is_none() && self.next < self.lane.newest() {
            // The writer has overtaken us: the rows in between are missing in the recording, both in number and in time.
            self.next = self.lane.oldest();
            header = ring_walk::header(&self.lane, self.next, scratch);
        }
        let header = header.filter(|header| header.stamp.boot <= to)?;
        let length = match header.closed {
            Some((_, length, _)) => HEADER_BYTES + length as usize,
            None if is_over => usize::try_from(self.lane.head().checked_sub(self.next)?).ok()?,
            None => return None,
        };
        let more = self.schema(header.generation)?;
        let begins = self.bytes.len();
        let copied = self.lane.copy(self.next, length, &mut self.bytes);
        if !copied.is_ok_and(|copied| copied == length) {
            self.bytes.truncate(begins);
            return None;
        }
        let Some(rows) = closed(&mut self.bytes[begins..]) else {
            // A damaged block would end the connection again and again.
            self.bytes.truncate(begins);
            self.next = header.closed.map(|_| self.next + length as u64)?;
            return self.copy_block(to, is_over, scratch);
        };
        (self.newest, self.generation) = (begins as u64, header.generation);
        self.next += length as u64;
        self.note_block(&header, rows.1 - rows.0, to);
        self.rows = Some((self.rows.map_or(rows.0, |known| known.0), rows.1));
        // An open block is not copied twice: its freeze ends with it.
        Some(length + more)
    }

    /// Removes the block that was copied last, because it does not fit. Returns its bytes.
    fn take_back(&mut self) -> usize {
        let begins = usize::try_from(self.newest).unwrap_or(0);
        let header = self.bytes.get(begins..).and_then(|block| block.first_chunk());
        let first = header.and_then(|head| Header::from_bytes(head, 0).ok()).map(|header| header.first_row);
        let freed = self.bytes.len() - begins;
        self.bytes.truncate(begins);
        let (mut at, mut newest) = (0, 0);
        while let Some(length) = length_at(&self.bytes, at) {
            (newest, at) = (at, at + length);
        }
        self.newest = newest as u64;
        self.rows = self.rows.zip(first).map(|((from, _), to)| (from, to)).filter(|(from, to)| from < to);
        freed
    }

    /// Keeps the schema of a generation. Returns its bytes if it is new; `None`: the ring does not have it any more.
    fn schema(&mut self, generation: u32) -> Option<usize> {
        let bytes = self.lane.schema_bytes(generation).filter(|&bytes| bytes <= SCHEMA_MAX)?;
        let at = self.schemas.iter().position(|(known, _)| *known == generation).unwrap_or_else(|| {
            self.schemas.push((generation, Vec::new()));
            self.schemas.len() - 1
        });
        let schema = &mut self.schemas[at].1;
        let before = schema.len();
        // The schema may have grown since.
        while (schema.len() as u64) < bytes {
            let copied = self.lane.schema(generation, schema.len() as u64, PIECE, schema)?;
            if copied == 0 {
                return None;
            }
        }
        Some(schema.len() - before)
    }

    fn standing(&self) -> FrozenLane {
        let (rows, bytes) = (self.rows.unwrap_or_default(), self.size() as u64);
        FrozenLane { name: self.lane.name().to_owned(), rows, bytes, missing: self.missing }
    }

    fn into_ring(self, number: u64) -> FrozenRing {
        let Copying { lane, bytes, newest, generation, schemas, .. } = self;
        FrozenRing {
            number,
            // Ids are random for each ring; a lane may be frozen several times.
            id: lane.id() ^ number.rotate_left(17),
            name: name(number, lane.name()).into(),
            epoch: lane.epoch(),
            period: lane.period(),
            bytes,
            newest,
            generation,
            schemas,
        }
    }
}

/// The length of the closed block at this place.
fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let header = Header::from_bytes(bytes.get(at..)?.first_chunk()?, 0).ok()?;
    header.closed.map(|(_, length, _)| HEADER_BYTES + length as usize)
}

/// Closes a block that was copied while it was open. Returns its first row and the row after its last; `None`: it is damaged, or has no
/// rows.
fn closed(block: &mut [u8]) -> Option<(u64, u64)> {
    let mut scanner = RowScanner::new();
    let is_whole = scanner.feed(block).is_ok_and(|rows| rows > 0) && scanner.unfinished() == 0;
    let mut header = *scanner.header().filter(|_| is_whole)?;
    let crc = crc32fast::hash(&block[HEADER_BYTES..]);
    match header.closed {
        Some(said) if said != (scanner.rows(), (block.len() - HEADER_BYTES) as u32, crc) => return None,
        Some(_) => {}
        None => {
            header.closed = Some((scanner.rows(), (block.len() - HEADER_BYTES) as u32, crc));
            block[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        }
    }
    Some((header.first_row, header.first_row + u64::from(scanner.rows())))
}

#[cfg(test)]
mod tests;
