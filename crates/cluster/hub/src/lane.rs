//! One lane of one node in the hub: its present block, recent blocks, and which rows came. It decodes a row only when a
//! reader asks for it, and refuses bytes that contradict themselves.

use std::collections::VecDeque;
use std::sync::Arc;

use khz_block::{Decoder, HEADER_BYTES, Header, RowScanner, Step};
use khz_link::Ranges;
use khz_model::{Nanos, Stamp};

use crate::clock;
use crate::generations::Generations;
use crate::limits::{BLOCK_BYTES_MAX, BLOCKS_FOR_READERS, BLOCKS_MAX, BYTES_A_SLOT, LANE_BYTES_KEPT};
use crate::node::Counted;
use crate::schemas::Schema;

mod late;
mod log;
mod read;
mod schema;

pub use log::ComparedWith;
use log::LaneLog;

pub(crate) use late::{Late, Part};
pub(crate) use read::{Piece, Place};

/// Why bytes of a node are refused; the node is cut off with this text.
pub(crate) type Reject = &'static str;

/// A block that has ended, or the block in which a connection broke off.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Its header.
    pub header: Header,
    /// Rows in it.
    pub rows: u32,
    /// What its slots mean.
    pub schema: Arc<Schema>,
    /// Header and rows.
    pub bytes: Arc<Vec<u8>>,
}

impl Block {
    fn end(&self) -> u64 {
        self.header.first_row + u64::from(self.rows)
    }

    /// Its rows before this one; `None`: it has none.
    fn until(&self, row: u64) -> Option<Block> {
        if row >= self.end() {
            return Some(self.clone());
        }
        let rows = row.checked_sub(self.header.first_row).filter(|&rows| rows > 0)? as u32;
        let (mut decoder, mut at, mut left) = (Decoder::new(), 0, rows);
        while left > 0 {
            match decoder.step(&self.bytes[at..]) {
                Ok(Step::Header(length)) => at += length,
                Ok(Step::Row(length)) => (at, left) = (at + length, left - 1),
                Ok(Step::Incomplete) | Err(_) => return None,
            }
        }
        let header = Header { closed: None, ..self.header };
        let mut bytes = self.bytes[..at].to_vec();
        bytes.get_mut(..HEADER_BYTES)?.copy_from_slice(&header.to_bytes());
        Some(Block { header, rows, schema: self.schema.clone(), bytes: Arc::new(bytes) })
    }
}

/// The block that rows arrive in.
#[derive(Debug)]
struct Open {
    header: Header,
    schema: Arc<Schema>,
    bytes: Vec<u8>,
    scanner: RowScanner,
    ended: bool,
}

impl Open {
    /// The rows that have come, as a block; `None`: no row has come.
    fn into_block(self) -> Option<Block> {
        let Open { header, schema, mut bytes, scanner, .. } = self;
        bytes.truncate(bytes.len() - scanner.unfinished());
        bytes.shrink_to_fit();
        let rows = scanner.rows();
        (rows > 0).then(|| Block { header, rows, schema, bytes: Arc::new(bytes) })
    }
}

/// The newest row, decoded, and the place up to which the block was decoded.
#[derive(Debug)]
struct Latest {
    decoder: Decoder,
    first_row: u64,
    offset: usize,
}

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Its number among all lanes of the node; 0 until the node's lanes take it in.
    pub id: u64,
    pub name: String,
    pub epoch: u64,
    pub period: Nanos,
    /// The shortest period that it had here: at its CPU ceiling a node makes a fast lane slower for a while.
    fastest: Nanos,
    /// The number of the next row when the lane was last offered.
    pub next_offered: u64,
    schemas: Generations,
    open: Option<Open>,
    /// Blocks before the present one, in the order of their rows.
    recent: VecDeque<Block>,
    /// Bytes in `recent`.
    pub recent_bytes: u64,
    /// Rows that came or are lost. Rows of the open block count as soon as they come; see
    /// [`Lane::end`].
    received: Ranges,
    /// Rows of damaged blocks: they were counted as received, and have not come again.
    taken_back: u64,
    /// Rows that the node said it has lost.
    lost: u64,
    /// The counts of earlier epochs.
    before: Counted,
    /// Rows that came after younger rows.
    pub late_rows: u64,
    /// Rows that came twice.
    pub twice: u64,
    /// Readers that follow the lane.
    pub readers: usize,
    /// Readers among them that want late rows too.
    pub late_readers: usize,
    /// The rows that readers of late rows are missing.
    pub late: Late,
    latest: Option<Box<Latest>>,
    /// The first and the last time of the rows that have come.
    times: Option<(Nanos, Nanos)>,
    /// A closed block that is arriving in pieces.
    past: Vec<u8>,
    /// Where rows of a base lane, or of a channel that is kept, go beside this, if there is a store.
    log: Option<Box<LaneLog>>,
    /// The lane is open on the present connection.
    pub alive: bool,
    /// A hub below brought its newest rows: this hub has numbered the generations.
    is_fed: bool,
}

impl Lane {
    pub fn new(name: &str, epoch: u64, period: Nanos) -> Self {
        Lane {
            id: 0,
            name: name.to_owned(),
            epoch,
            period,
            fastest: period,
            next_offered: 0,
            schemas: Generations::default(),
            open: None,
            recent: VecDeque::new(),
            recent_bytes: 0,
            received: Ranges::default(),
            taken_back: 0,
            lost: 0,
            before: Counted::default(),
            late_rows: 0,
            twice: 0,
            readers: 0,
            late_readers: 0,
            late: Late::default(),
            latest: None,
            times: None,
            past: Vec::new(),
            log: None,
            alive: false,
            is_fed: false,
        }
    }

    /// Time between two rows, as the node said last.
    pub fn set_period(&mut self, period: Nanos) {
        (self.period, self.fastest) = (period, self.fastest.min(period));
    }

    /// Time between two rows where nothing slows the node down, as far as this hub knows.
    pub fn fastest(&self) -> Nanos {
        self.fastest
    }

    /// A lane that follows other epochs; `before` has their counts.
    pub fn after(name: &str, epoch: u64, period: Nanos, before: Counted) -> Self {
        let mut lane = Lane::new(name, epoch, period);
        (lane.before, lane.late_rows) = (before, before.late);
        lane
    }

    /// The same for one whose rows a hub below brings.
    pub fn fed(name: &str, epoch: u64, period: Nanos, before: Counted) -> Self {
        let mut lane = Lane::after(name, epoch, period, before);
        lane.is_fed = true;
        lane
    }

    /// The lane has taken this many rows of a former epoch that nobody has counted.
    pub fn counts_for_former(&mut self, rows: u64) {
        self.before.rows = self.before.rows.saturating_add(rows);
        self.before.late = self.before.late.saturating_add(rows);
        self.late_rows = self.late_rows.saturating_add(rows);
    }

    /// The lane's epoch has come back. `all` has the counts of all epochs until now, including this
    /// one.
    pub fn goes_on_after(&mut self, all: Counted) {
        let own = Counted { rows: self.rows(), lost: self.lost(), late: self.late_rows }.minus(self.before);
        self.before = all.minus(own);
        self.late_rows = self.before.late.saturating_add(own.late);
    }

    /// From now on a hub below brings its rows.
    pub fn becomes_fed(&mut self) {
        self.is_fed = true;
    }

    /// True if a hub below sends its rows: missing rows may still come, even after other epochs have begun.
    pub fn is_fed(&self) -> bool {
        self.is_fed
    }

    /// From now on the node itself sends its rows. The node has numbers of its own for the generations; blocks keep their schemas.
    pub fn becomes_its_own(&mut self) {
        if std::mem::take(&mut self.is_fed) {
            self.schemas = Generations::default();
        }
    }

    /// Memory of blocks that have not ended, of the decoded newest row, and of the lane itself.
    pub fn held(&self) -> u64 {
        let blocks = self.past.capacity() + self.open.as_ref().map_or(0, |open| open.bytes.capacity());
        let blocks = blocks + self.log.as_ref().map_or(0, |log| log.held());
        (size_of::<Lane>() + self.name.len() + blocks + self.slots() * BYTES_A_SLOT) as u64
    }

    /// The node is down and no reader follows the lane: frees what is not history; with `all`, the history too.
    pub fn give_back(&mut self, keeps_history: bool, all: bool) {
        self.latest = None;
        self.past = Vec::new();
        // The newest row is in the open block, and history is read backwards from there: a small open block stays with it.
        let is_small = |open: &Open| open.bytes.len() as u64 <= LANE_BYTES_KEPT;
        if all || !keeps_history || !self.open.as_ref().is_some_and(is_small) {
            self.hand_over(Nanos(0), clock::boot());
            if let Some(log) = &mut self.log {
                log.forget_open();
            }
            self.open = None;
            self.recent = VecDeque::new();
            self.recent_bytes = 0;
        }
        let Lane { schemas, recent, open, .. } = self;
        let is_needed = |schema: &Arc<Schema>| {
            let in_open = open.iter().map(|open| &open.schema);
            recent.iter().map(|block| &block.schema).chain(in_open).any(|known| Arc::ptr_eq(known, schema))
        };
        schemas.retain(is_needed);
    }

    /// Rows received, each counted once. It never falls: the rows of a damaged block stay counted, and are not counted again
    /// when they come again.
    pub fn rows(&self) -> u64 {
        let came = self.received.rows() + self.taken_back;
        came.saturating_sub(self.lost_now()).saturating_add(self.before.rows)
    }

    /// How many of these rows, which have just come, are to be counted.
    fn count(&mut self, added: u64) -> u64 {
        let again = added.min(self.taken_back);
        self.taken_back -= again;
        added - again
    }

    /// Rows lost for good: the node does not have them, or there are more holes than the lane remembers.
    pub fn lost(&self) -> u64 {
        self.lost_now().saturating_add(self.before.lost)
    }

    fn lost_now(&self) -> u64 {
        self.lost + self.received.given_up()
    }

    /// The connection has ended; a block that had begun to come will come again.
    pub fn hang_up(&mut self) {
        self.alive = false;
        self.late.leave();
        self.past = Vec::new();
    }

    /// Rows known to exist that have not come.
    pub fn awaited(&self) -> u64 {
        self.received.missing()
    }

    /// The row after the newest.
    pub fn next_row(&self) -> u64 {
        self.received.end()
    }

    /// All rows before this were received or are lost.
    pub fn complete_until(&self) -> u64 {
        self.received.complete_until()
    }

    /// Which rows were received or are lost, newest ranges last.
    pub fn received(&self) -> &[(u64, u64)] {
        self.received.as_slice()
    }

    /// True if this row was received or is lost.
    pub fn has(&self, row: u64) -> bool {
        self.received.contains(row)
    }

    /// True if the open block began with row `first`, and row `next` would be its next one.
    pub fn is_open_at(&self, first: u64, next: u64) -> bool {
        let is_it = |open: &Open| {
            !open.ended && open.header.first_row == first && first + u64::from(open.scanner.rows()) == next
        };
        self.open.as_ref().is_some_and(is_it)
    }

    /// How many rows were received or are lost.
    pub fn settled(&self) -> u64 {
        self.received.rows()
    }

    /// The first and the last time of the rows that have come.
    pub fn times(&self) -> Option<(Nanos, Nanos)> {
        self.times
    }

    /// Rows of this time have come.
    fn has_times(&mut self, first: Stamp, last: Stamp) {
        let (first, last) = (first.real().min(last.real()), first.real().max(last.real()));
        self.times = Some(self.times.map_or((first, last), |known| (known.0.min(first), known.1.max(last))));
    }

    /// True if rows of it are here.
    pub fn has_blocks(&self) -> bool {
        !self.recent.is_empty() || self.newest_number().is_some() || self.late.has_blocks()
    }

    /// The rows among these that were neither received nor lost.
    pub fn missing(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        self.received.holes(from, to)
    }

    /// True if any row has come.
    pub fn has_rows(&self) -> bool {
        self.received.rows() > self.lost_now()
    }

    /// When the newest row was gathered, on the node's clocks.
    pub fn newest(&self) -> Option<Stamp> {
        let open = self.open.as_ref()?;
        (open.scanner.rows() > 0).then(|| open.scanner.stamp())
    }

    /// The number of the newest row, as far as it is here.
    pub fn newest_number(&self) -> Option<u64> {
        let open = self.open.as_ref()?;
        Some(open.header.first_row + u64::from(open.scanner.rows().checked_sub(1)?))
    }

    /// The meaning of a block's slots. A block without slots needs no schema.
    fn schema_of(&self, header: &Header) -> Result<Arc<Schema>, Reject> {
        let empty = || (header.slots == 0).then(Schema::empty).flatten();
        self.schema(header.generation).cloned().or_else(empty).ok_or("a block before its schema")
    }

    /// A block begins. Returns how many of its rows count: only rows that have not come before.
    pub fn begin(&mut self, bytes: &[u8], keep: bool) -> Result<u64, Reject> {
        let head = bytes.first_chunk::<HEADER_BYTES>().ok_or("a block without its header")?;
        let header = Header::from_bytes(head, 0).map_err(|_| "not a block")?;
        let schema = self.schema_of(&header)?;
        if header.slots as usize > schema.series().len() {
            return Err("a block with more slots than its schema");
        }
        self.late.began(header.first_row);
        let mut buffer = self.put_open_away(keep, header.first_row);
        buffer.clear();
        self.set_period(header.period);
        self.open = Some(Open { header, schema, bytes: buffer, scanner: RowScanner::new(), ended: false });
        self.append_bytes(bytes)
    }

    /// The open block goes on.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64, Reject> {
        match &self.open {
            Some(open) if !open.ended => self.append_bytes(bytes),
            _ => Err("rows outside a block"),
        }
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> Result<u64, Reject> {
        let open = self.open.as_mut().ok_or("rows outside a block")?;
        if open.bytes.len() + bytes.len() > BLOCK_BYTES_MAX {
            return Err("a block larger than any may be");
        }
        let before = u64::from(open.scanner.rows());
        open.bytes.extend_from_slice(bytes);
        let first = open.header.first_row;
        let problem = match open.scanner.feed(bytes) {
            Err(_) => Some("a damaged row"),
            Ok(_) if open.scanner.header().is_none_or(|header| header.first_row != first) => {
                Some("a block inside a block")
            }
            Ok(_) => None,
        };
        if let Some(problem) = problem {
            self.take_back(before);
            return Err(problem);
        }
        if let Some(log) = &mut self.log {
            log.grew(open);
        }
        let (from, to) = (first + before, first + u64::from(open.scanner.rows()));
        let stamps = (to > from).then(|| (open.header.stamp, open.scanner.stamp()));
        let added = self.received.add(from, to);
        self.twice += to - from - added;
        self.late.came(from, to);
        if let Some((first, last)) = stamps {
            self.has_times(first, last);
        }
        Ok(self.count(added))
    }

    /// The open block has ended; this is what its closed header says. If it does not fit, no row of the block counts as
    /// received any more.
    pub fn end(&mut self, rows: u32, length: u32, checksum: u32) -> Result<(), Reject> {
        let open = self.open.as_mut().ok_or("the end of no block")?;
        let body = &open.bytes[HEADER_BYTES..];
        let problem = if open.scanner.rows() != rows || body.len() != length as usize {
            Some("a block that ends elsewhere than it says")
        } else if crc32fast::hash(body) != checksum {
            Some("a block whose checksum is wrong")
        } else {
            None
        };
        if let Some(problem) = problem {
            let rows = open.scanner.rows().into();
            self.take_back(rows);
            return Err(problem);
        }
        open.header.closed = Some((rows, length, checksum));
        let head = open.header.to_bytes();
        open.bytes[..HEADER_BYTES].copy_from_slice(&head);
        open.ended = true;
        Ok(())
    }

    /// The open block is damaged: it is not what the node has recorded. Its `rows` are missing from now on, so the hub
    /// requests them when the node connects again.
    fn take_back(&mut self, rows: u64) {
        let Some(open) = self.open.take() else { return };
        let replaced = self.log.as_mut().map_or(0, |log| log.take_back(&open.header, &open.schema));
        let (first, before) = (open.header.first_row, self.received.rows());
        self.received.remove(first, first.saturating_add(rows.max(replaced.into())));
        self.taken_back += before - self.received.rows();
        self.latest = None;
    }

    /// Makes room for the next block. Returns a buffer to use for it.
    fn put_open_away(&mut self, keep: bool, next: u64) -> Vec<u8> {
        let Some(open) = self.open.take() else { return Vec::new() };
        let is_kept = keep || self.readers > 0;
        // A block that comes again from its start replaces itself.
        let comes_again = open.header.first_row == next;
        let last = open.scanner.stamp().real();
        match &mut self.log {
            Some(log) if comes_again => log.comes_again(open.into_block().map(|block| (block, last))),
            Some(log) => match open.into_block() {
                Some(block) => {
                    log.ended(&block, last);
                    if is_kept {
                        self.insert(block);
                    }
                }
                None => log.gives_way(),
            },
            None if comes_again || !is_kept || open.scanner.rows() == 0 => return open.bytes,
            None => open.into_block().into_iter().for_each(|block| self.insert(block)),
        }
        Vec::new()
    }

    /// A piece of a closed block that was missing. Returns how many of its rows are to be counted.
    pub fn past(&mut self, last: bool, bytes: &[u8], keep: bool) -> Result<u64, Reject> {
        if self.past.len() + bytes.len() > BLOCK_BYTES_MAX {
            return Err("a block larger than any may be");
        }
        if !last {
            self.past.extend_from_slice(bytes);
            return Ok(0);
        }
        if self.past.is_empty() {
            return self.past_block(bytes, None, keep);
        }
        let mut whole = std::mem::take(&mut self.past);
        whole.extend_from_slice(bytes);
        self.past_block(&whole, None, keep)
    }

    /// A whole closed block that was missing, whose slots mean this, whatever its generation.
    pub fn past_of(&mut self, schema: &Arc<Schema>, bytes: &[u8], keep: bool) -> Result<u64, Reject> {
        let head = bytes.first_chunk::<HEADER_BYTES>().ok_or("a block without its header")?;
        let header = Header::from_bytes(head, 0).map_err(|_| "not a block")?;
        if header.slots as usize > schema.series().len() {
            return Err("a block with more slots than its schema");
        }
        // Lanes hold few schemas: an older one is often the beginning of another.
        let is_longer = |known: &&Arc<Schema>| known.continues(schema);
        let schema = self.schemas.all().find(is_longer).unwrap_or(schema).clone();
        if self.schemas.present().is_none() {
            // Readers are offered the lane with its schema.
            self.generation_for(&schema);
        }
        self.past_block(bytes, Some(schema), keep)
    }

    fn past_block(&mut self, bytes: &[u8], schema: Option<Arc<Schema>>, keep: bool) -> Result<u64, Reject> {
        let head = bytes.first_chunk::<HEADER_BYTES>().ok_or("a block without its header")?;
        let header = Header::from_bytes(head, 0).map_err(|_| "not a block")?;
        let (rows, length, checksum) = header.closed.ok_or("a block of the past that is open")?;
        let body = &bytes[HEADER_BYTES..];
        if body.len() != length as usize || crc32fast::hash(body) != checksum {
            return Err("a block of the past whose checksum is wrong");
        }
        let mut scanner = RowScanner::new();
        scanner.feed(bytes).map_err(|_| "a damaged row")?;
        if scanner.rows() != rows {
            return Err("a block of the past with other rows than it says");
        }
        let schema = schema.map_or_else(|| self.schema_of(&header), Ok)?;
        if header.slots as usize > schema.series().len() {
            return Err("a block with more slots than its schema");
        }
        let end = header.first_row.checked_add(u64::from(rows)).ok_or("rows that cannot be counted")?;
        let is_news = |log: &LaneLog| log.lacks(&self.received, header.first_row, end);
        let log = self.log.as_deref_mut().filter(|log| is_news(log));
        let added = self.received.add(header.first_row, end);
        self.twice += u64::from(rows) - added;
        let block = Block { header, rows, schema, bytes: Arc::new(bytes.to_vec()) };
        if let Some(log) = log {
            log.past(&block, scanner.stamp().real());
        }
        self.has_times(header.stamp, scanner.stamp());
        let counted = self.count(added);
        self.late_rows += counted;
        // Readers of the epoch before are about to come to a lane that begins with late rows.
        let begins_late = self.is_fed && self.open.is_none() && !keep;
        match self.late_readers > 0 || begins_late {
            false => self.late.came(header.first_row, end),
            true => self.late.take(block.clone(), clock::boot()),
        }
        if keep {
            self.insert(block);
        }
        Ok(counted)
    }

    /// The node does not have these rows any more.
    pub fn lose(&mut self, from: u64, to: u64) -> u64 {
        // A reader may know the lane for longer than the hub.
        self.late.lose(from, to);
        // Rows from before the lane's first row, here or in the log, are not counted as lost.
        let logged = self.log.as_ref().and_then(|log| log.first());
        let first = self.received.start().into_iter().chain(logged).min();
        let from = from.max(first.unwrap_or(to));
        let lost = self.received.add(from, to);
        self.lost += lost;
        lost
    }

    /// No block may be within another block: blocks of a hub below begin at other rows than blocks of the
    /// node itself.
    fn insert(&mut self, block: Block) {
        let (first, end) = (block.header.first_row, block.end());
        let at = self.recent.partition_point(|known| known.header.first_row < first);
        let before = at.checked_sub(1).and_then(|before| self.recent.get(before));
        let same = self.recent.get(at).filter(|known| known.header.first_row == first);
        if before.into_iter().chain(same).any(|known| known.end() >= end) {
            return;
        }
        while let Some(known) = self.recent.get(at).filter(|known| known.end() <= end) {
            self.recent_bytes -= known.bytes.len() as u64;
            self.recent.remove(at);
        }
        self.recent_bytes += block.bytes.len() as u64;
        self.recent.insert(at, block);
    }

    /// Drops the oldest blocks beyond this many bytes; blocks that readers may still want stay.
    pub fn trim(&mut self, bytes_max: u64) {
        let least = if self.readers > 0 { BLOCKS_FOR_READERS } else { 0 };
        while self.recent.len() > least
            && (self.recent_bytes > bytes_max || self.recent.len() > BLOCKS_MAX)
            && let Some(block) = self.recent.pop_front()
        {
            self.recent_bytes -= block.bytes.len() as u64;
        }
    }
}

/// However a lane ends, the rest of its rows goes into the store.
impl Drop for Lane {
    fn drop(&mut self) {
        if self.log.is_some() {
            self.hand_over(Nanos(0), clock::boot());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
