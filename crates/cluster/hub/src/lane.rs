//! One lane of one node as the hub has it: its present block, recent blocks, which rows came, and what the slots
//! mean. It decodes nothing unless somebody asks; it refuses bytes that contradict themselves.

use std::collections::VecDeque;
use std::sync::Arc;

use khz_block::{Decoder, HEADER_BYTES, Header, RowScanner, Step};
use khz_link::{Ranges, SchemaPiece};
use khz_model::{Nanos, Stamp};

use crate::generations::{Generations, Offered};
use crate::limits::{BLOCK_BYTES_MAX, BLOCKS_FOR_READERS, BLOCKS_MAX, BYTES_A_SLOT, LANE_BYTES_KEPT};
use crate::node::Counted;
use crate::schemas::{Schema, Schemas};

mod late;
pub(crate) use late::{Late, Part};

/// Why bytes of a node are refused; it is cut off with this.
pub(crate) type Reject = &'static str;

/// A block that has ended, or the one that a node was cut off in.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// What it says of itself.
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

/// The newest row, decoded, and how far that is.
#[derive(Debug)]
struct Latest {
    decoder: Decoder,
    first_row: u64,
    offset: usize,
}

/// Where a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// First row of the block that it reads.
    pub first_row: u64,
    /// Bytes of it that it has.
    pub offset: usize,
}

/// What [`Lane::read`] has found.
pub(crate) enum Piece {
    /// Nothing new.
    Nothing,
    /// More of the same block.
    More,
    /// The start of another block.
    Block(Arc<Schema>),
}

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Its number among all lanes that the node ever had here; 0 before it is one of them.
    pub id: u64,
    pub name: String,
    pub epoch: u64,
    pub period: Nanos,
    /// The row that came next when it was offered last.
    pub next_offered: u64,
    schemas: Generations,
    open: Option<Open>,
    /// Blocks before the present one, in the order of their rows.
    recent: VecDeque<Block>,
    /// Bytes in `recent`.
    pub recent_bytes: u64,
    received: Ranges,
    /// Rows that the node said it has lost.
    lost: u64,
    /// What epochs before this one have counted.
    before: Counted,
    /// Rows that came after newer ones.
    pub late_rows: u64,
    /// Rows that came twice.
    pub twice: u64,
    /// Readers that follow it.
    pub readers: usize,
    /// Those of them that want rows which came late, too.
    pub late_readers: usize,
    /// What they lack.
    pub late: Late,
    latest: Option<Box<Latest>>,
    /// A closed block that is arriving in pieces.
    past: Vec<u8>,
    /// The connection on which it is alive; rows of another one are not its.
    pub alive: bool,
}

impl Lane {
    pub fn new(name: &str, epoch: u64, period: Nanos) -> Self {
        Lane {
            id: 0,
            name: name.to_owned(),
            epoch,
            period,
            next_offered: 0,
            schemas: Generations::default(),
            open: None,
            recent: VecDeque::new(),
            recent_bytes: 0,
            received: Ranges::default(),
            lost: 0,
            before: Counted::default(),
            late_rows: 0,
            twice: 0,
            readers: 0,
            late_readers: 0,
            late: Late::default(),
            latest: None,
            past: Vec::new(),
            alive: false,
        }
    }

    /// A lane that has had other epochs, which have counted this.
    pub fn after(name: &str, epoch: u64, period: Nanos, before: Counted) -> Self {
        Lane { before, late_rows: before.late, ..Lane::new(name, epoch, period) }
    }

    /// Slots of the present generation.
    pub fn slots(&self) -> usize {
        self.schemas.present().map_or(0, |schema| schema.series().len())
    }

    /// What the slots mean now, as nodes share it.
    pub fn present_schema(&self) -> Option<&Arc<Schema>> {
        self.schemas.present()
    }

    /// Bytes that are here of the schema that was offered last.
    pub fn schema_bytes(&self) -> u64 {
        self.schemas.offered_bytes()
    }

    /// What the slots mean now, shared.
    pub fn newest_schema(&self) -> Option<Arc<Schema>> {
        self.schemas.present().cloned()
    }

    /// The schema of a generation.
    pub fn schema(&self, generation: u32) -> Option<&Arc<Schema>> {
        self.schemas.of(generation)
    }

    /// The node offers a schema, which is `whole` if another lane has it: then it is this lane's at once.
    pub fn offer_schema(&mut self, generation: u32, offered: Offered, whole: Option<Arc<Schema>>) {
        self.schemas.offer(generation, offered, whole.as_ref());
        if let Some(whole) = whole {
            self.set_schema(generation, whole);
        }
    }

    /// A piece of a schema came. Gives the schema when there is more of it than before.
    pub fn grow_schema(
        &mut self,
        piece: &SchemaPiece<'_>,
        schemas: &Schemas,
    ) -> Result<Option<Arc<Schema>>, Reject> {
        let is_new = self.schema(piece.generation).is_none();
        // One that no block has need not be put in the place of itself.
        let before = self.schema(piece.generation).filter(|schema| is_shared(schema)).cloned();
        let grown = self.schemas.take(piece, schemas)?;
        if let (Some(before), Some(schema)) = (before, &grown) {
            self.share(&before, schema);
        }
        if is_new {
            self.forget_meaningless();
        }
        Ok(grown)
    }

    /// A generation has this schema now.
    pub fn set_schema(&mut self, generation: u32, schema: Arc<Schema>) {
        let before = self.schema(generation).cloned();
        if let Some(before) = &before {
            self.share(before, &schema);
        }
        self.schemas.set(generation, schema);
        if before.is_none() {
            self.forget_meaningless();
        }
    }

    /// Blocks of a generation that another has pushed out are given up: they would keep its schema, and what a lane holds of
    /// schemas has a limit.
    fn forget_meaningless(&mut self) {
        if !self.schemas.is_full() {
            return;
        }
        let Lane { recent, recent_bytes, schemas, .. } = self;
        recent.retain(|block| {
            let is_known = schemas.all().any(|schema| Arc::ptr_eq(schema, &block.schema));
            *recent_bytes -= if is_known { 0 } else { block.bytes.len() as u64 };
            is_known
        });
    }

    /// Blocks of a generation have its longest schema, so that a lane whose slots grow with every block does not
    /// hold one for each: what a slot means never changes.
    fn share(&mut self, before: &Arc<Schema>, schema: &Arc<Schema>) {
        if Arc::ptr_eq(before, schema) {
            return;
        }
        let blocks = self.recent.iter_mut().map(|block| (&block.header, &mut block.schema));
        let open = self.open.iter_mut().map(|open| (&open.header, &mut open.schema));
        for (header, known) in blocks.chain(open) {
            if Arc::ptr_eq(known, before) && schema.series().len() >= header.slots as usize {
                *known = schema.clone();
            }
        }
    }

    /// What a schema that is longer costs: the slots before it are copied or compared, and every block is told. What is
    /// here already costs nothing.
    pub fn growth(&self, generation: u32, bytes: u64) -> usize {
        match self.schema(generation) {
            Some(here) if here.bytes() >= bytes => 0,
            Some(here) if !is_shared(here) => 0,
            Some(here) => here.series().len().max(self.recent.len()),
            None if self.schemas.is_full() => self.recent.len(),
            None => 0,
        }
    }

    /// Memory of blocks that have not ended, of the newest row as it is decoded when somebody asks, and of itself.
    pub fn held(&self) -> u64 {
        let blocks = self.past.capacity() + self.open.as_ref().map_or(0, |open| open.bytes.capacity());
        (size_of::<Lane>() + self.name.len() + blocks + self.slots() * BYTES_A_SLOT) as u64
    }

    /// Its schemas, each with the memory that it takes.
    pub fn schemas_held(&self) -> impl Iterator<Item = (*const Schema, u64)> {
        let open = self.open.as_ref().map(|open| &open.schema);
        self.schemas.all().chain(open).map(|schema| (Arc::as_ptr(schema), schema.held()))
    }

    /// Its node has gone, and nobody reads it: what is not history is given back, and with `all` that, too.
    pub fn give_back(&mut self, keeps_history: bool, all: bool) {
        self.latest = None;
        self.past = Vec::new();
        // History is read from the newest row back.
        let is_small = |open: &Open| open.bytes.len() as u64 <= LANE_BYTES_KEPT;
        if all || !keeps_history || !self.open.as_ref().is_some_and(is_small) {
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

    /// Rows received.
    pub fn rows(&self) -> u64 {
        // Rows that were lost and came after all are taken back when they turn out to be damaged.
        self.received.rows().saturating_sub(self.lost_now()).saturating_add(self.before.rows)
    }

    /// Rows lost for good: the node does not have them, or there are more holes than can be remembered.
    pub fn lost(&self) -> u64 {
        self.lost_now().saturating_add(self.before.lost)
    }

    fn lost_now(&self) -> u64 {
        self.lost + self.received.given_up()
    }

    /// Its connection has ended; what had begun to come begins anew.
    pub fn hang_up(&mut self) {
        self.alive = false;
        self.late.leave();
        self.past = Vec::new();
    }

    /// Rows known to exist that have not come.
    pub fn awaited(&self) -> u64 {
        self.received.missing()
    }

    /// The row behind the newest.
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

    /// True when some row has come.
    pub fn has_rows(&self) -> bool {
        self.received.start().is_some()
    }

    /// When the newest row was gathered, on the node's clocks.
    pub fn newest(&self) -> Option<Stamp> {
        let open = self.open.as_ref()?;
        (open.scanner.rows() > 0).then(|| open.scanner.stamp())
    }

    /// What the slots of a block mean. Of one without slots nothing was said: there is nothing to say.
    fn schema_of(&self, header: &Header) -> Result<Arc<Schema>, Reject> {
        let empty = || (header.slots == 0).then(Schema::empty).flatten();
        self.schema(header.generation).cloned().or_else(empty).ok_or("a block before its schema")
    }

    /// A block begins. Tells how many rows came that were not there yet.
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
        self.period = header.period;
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
            self.received.remove(first, first.saturating_add(before));
            (self.open, self.latest) = (None, None);
            return Err(problem);
        }
        let (from, to) = (first + before, first + u64::from(open.scanner.rows()));
        let added = self.received.add(from, to);
        self.twice += to - from - added;
        self.late.came(from, to);
        Ok(added)
    }

    /// The open block has ended, and this is what its closed header says.
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
            self.take_back();
            return Err(problem);
        }
        open.header.closed = Some((rows, length, checksum));
        let head = open.header.to_bytes();
        open.bytes[..HEADER_BYTES].copy_from_slice(&head);
        open.ended = true;
        Ok(())
    }

    /// The open block is not what the node has recorded: its rows have not come, and are asked for again.
    fn take_back(&mut self) {
        let Some(open) = self.open.take() else { return };
        let first = open.header.first_row;
        self.received.remove(first, first.saturating_add(u64::from(open.scanner.rows())));
        self.latest = None;
    }

    /// Makes room for the next block; gives a buffer to use again.
    fn put_open_away(&mut self, keep: bool, next: u64) -> Vec<u8> {
        let Some(open) = self.open.take() else { return Vec::new() };
        let rows = open.scanner.rows();
        // A block that comes again from its start replaces itself.
        let comes_again = open.header.first_row == next;
        if comes_again || rows == 0 || !(keep || self.readers > 0) {
            return open.bytes;
        }
        let Open { header, schema, mut bytes, scanner, .. } = open;
        bytes.truncate(bytes.len() - scanner.unfinished());
        bytes.shrink_to_fit();
        self.insert(Block { header, rows, schema, bytes: Arc::new(bytes) });
        Vec::new()
    }

    /// A piece of a closed block that was missing. Tells how many rows came that were not there yet.
    pub fn past(&mut self, last: bool, bytes: &[u8], keep: bool) -> Result<u64, Reject> {
        if self.past.len() + bytes.len() > BLOCK_BYTES_MAX {
            return Err("a block larger than any may be");
        }
        if !last {
            self.past.extend_from_slice(bytes);
            return Ok(0);
        }
        if self.past.is_empty() {
            return self.past_block(bytes, keep);
        }
        let mut whole = std::mem::take(&mut self.past);
        whole.extend_from_slice(bytes);
        self.past_block(&whole, keep)
    }

    fn past_block(&mut self, bytes: &[u8], keep: bool) -> Result<u64, Reject> {
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
        let schema = self.schema_of(&header)?;
        if header.slots as usize > schema.series().len() {
            return Err("a block with more slots than its schema");
        }
        let end = header.first_row.checked_add(u64::from(rows)).ok_or("rows that cannot be counted")?;
        let added = self.received.add(header.first_row, end);
        self.late_rows += added;
        self.twice += u64::from(rows) - added;
        let block = Block { header, rows, schema, bytes: Arc::new(bytes.to_vec()) };
        match self.late_readers {
            0 => self.late.came(header.first_row, end),
            _ => self.late.take(block.clone(), crate::clock::boot()),
        }
        if keep {
            self.insert(block);
        }
        Ok(added)
    }

    /// The node does not have these rows any more.
    pub fn lose(&mut self, from: u64, to: u64) -> u64 {
        // A reader may have heard of the lane before we did.
        self.late.lose(from, to);
        // Rows from before we first heard of the lane are nobody's loss.
        let from = from.max(self.received.start().unwrap_or(to));
        let lost = self.received.add(from, to);
        self.lost += lost;
        lost
    }

    fn insert(&mut self, block: Block) {
        let first = block.header.first_row;
        let at = self.recent.partition_point(|known| known.header.first_row < first);
        match self.recent.get_mut(at) {
            Some(known) if known.header.first_row == first => {
                if known.rows < block.rows {
                    self.recent_bytes += block.bytes.len() as u64;
                    self.recent_bytes -= known.bytes.len() as u64;
                    *known = block;
                }
            }
            _ => {
                self.recent_bytes += block.bytes.len() as u64;
                self.recent.insert(at, block);
            }
        }
    }

    /// Gives up the oldest blocks beyond so many bytes; what readers may still want stays.
    pub fn trim(&mut self, bytes_max: u64) {
        let least = if self.readers > 0 { BLOCKS_FOR_READERS } else { 0 };
        while self.recent.len() > least
            && (self.recent_bytes > bytes_max || self.recent.len() > BLOCKS_MAX)
            && let Some(block) = self.recent.pop_front()
        {
            self.recent_bytes -= block.bytes.len() as u64;
        }
    }

    /// The newest row, decoded; `None` before the first.
    pub fn latest(&mut self) -> Option<&Decoder> {
        let open = self.open.as_ref()?;
        if open.scanner.rows() == 0 {
            return None;
        }
        let first_row = open.header.first_row;
        let latest = self.latest.get_or_insert_with(|| {
            Box::new(Latest { decoder: Decoder::new(), first_row: u64::MAX, offset: 0 })
        });
        // A block that came again after an outage may be shorter than what was decoded of it.
        if latest.first_row != first_row || latest.offset > open.bytes.len() {
            (latest.first_row, latest.offset) = (first_row, 0);
        }
        while let Ok(Step::Header(length) | Step::Row(length)) =
            latest.decoder.step(&open.bytes[latest.offset..])
        {
            latest.offset += length;
        }
        latest.decoder.header().is_some().then_some(&latest.decoder)
    }

    /// The row that [`Lane::latest`] has decoded last, and what its slots mean.
    pub fn decoded(&self) -> Option<(Arc<Schema>, &Decoder)> {
        let (open, latest) = (self.open.as_ref()?, self.latest.as_ref()?);
        let is_present = latest.first_row == open.header.first_row && latest.decoder.header().is_some();
        is_present.then(|| (open.schema.clone(), &latest.decoder))
    }

    /// The start of the present block, for a reader that joins; the past is history's.
    pub fn join(&self) -> Place {
        Place { first_row: self.open.as_ref().map_or(0, |open| open.header.first_row), offset: 0 }
    }

    /// The start of the block that has this row, as far as it is here; else of the present one.
    pub fn join_at(&self, row: u64) -> Place {
        let present = self.join();
        match self.recent.get(self.recent_behind(row).wrapping_sub(1)).filter(|block| row < block.end()) {
            Some(block) if present.first_row > row => Place { first_row: block.header.first_row, offset: 0 },
            _ => present,
        }
    }

    /// The block in which the rows from `since` (the node's boot clock) on begin, as far as they are here.
    pub fn join_since(&self, since: Nanos) -> Place {
        let present = self.join();
        let blocks = self.recent.iter().map(|block| &block.header);
        let blocks = blocks.filter(|header| header.first_row < present.first_row);
        let begun = |header: &&Header| header.stamp.boot <= since;
        let is_present = self.open.as_ref().is_none_or(|open| open.header.stamp.boot <= since);
        let oldest = blocks.clone().next();
        match blocks.take_while(begun).last().or(oldest).filter(|_| !is_present) {
            Some(header) => Place { first_row: header.first_row, offset: 0 },
            None => present,
        }
    }

    /// Appends what is behind a reader's place to `out`, at most to the end of a block, and moves the place.
    pub fn read(&self, place: &mut Place, out: &mut Vec<u8>) -> Piece {
        let Some(open) = &self.open else { return Piece::Nothing };
        if place.first_row == open.header.first_row {
            return take(&open.bytes, &open.schema, place, out);
        }
        let at = self.recent.partition_point(|block| block.header.first_row < place.first_row);
        if let Some(block) = self.recent.get(at).filter(|b| b.header.first_row == place.first_row) {
            let piece = take(&block.bytes, &block.schema, place, out);
            if !matches!(piece, Piece::Nothing) {
                return piece;
            }
        }
        // That block is done, or given up: the next one that is there.
        let next = self.recent.iter().skip(at).find(|block| block.header.first_row > place.first_row);
        let (first_row, bytes, schema) = match next {
            Some(block) => (block.header.first_row, &**block.bytes, &block.schema),
            None => (open.header.first_row, &*open.bytes, &open.schema),
        };
        *place = Place { first_row, offset: 0 };
        take(bytes, schema, place, out)
    }

    /// The present block as it is, if it has rows.
    fn open_block(&self) -> Option<Block> {
        let open = self.open.as_ref().filter(|open| open.scanner.rows() > 0)?;
        let (header, rows, schema) = (open.header, open.scanner.rows(), open.schema.clone());
        Some(Block { header, rows, schema, bytes: Arc::new(open.bytes.clone()) })
    }

    /// The first row of the present block: where a reader begins with what comes.
    pub fn live(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.header.first_row)
    }

    /// The oldest row that is here.
    pub fn oldest_row(&self) -> u64 {
        let oldest = self.recent.front().map(|block| block.header.first_row);
        oldest.or(self.live()).unwrap_or(self.next_offered)
    }

    /// True when there is nothing behind a reader's place.
    pub fn is_read(&self, place: &Place) -> bool {
        let Some(open) = &self.open else { return true };
        // The start of a row whose end will not come is nothing.
        place.first_row == open.header.first_row
            && place.offset + open.scanner.unfinished() >= open.bytes.len()
    }

    /// The number of the first row that is so old or younger, where one of every so many has a number; 0 where all may be.
    pub fn first_number_since(&self, span: Nanos, every: u64) -> u64 {
        let Some(newest) = self.newest().filter(|_| span < Nanos(u64::MAX)) else { return 0 };
        // Rows that are on their way may be of any age: the time between rows tells which are too old.
        let rows = span.0.checked_div(self.period.0).unwrap_or(u64::MAX).saturating_add(1);
        let by_period = self.next_row().saturating_sub(rows);
        let since = newest.boot.since(span);
        let begun = |block: &&Block| block.header.stamp.boot <= since;
        let here = self.recent.iter().take_while(begun).last().map_or(0, |block| block.header.first_row);
        here.max(by_period) / every
    }

    /// How many rows one period apart there could be between a moment and the newest row.
    pub fn ticks_since(&self, last: Stamp, period: Nanos) -> u64 {
        let Some(newest) = self.newest() else { return 0 };
        let passed = newest.real().since(last.real()).0.saturating_add(period.0 / 2);
        passed.checked_div(period.0).unwrap_or(0).saturating_sub(1)
    }

    /// Blocks with rows from `since` (the node's boot clock) on, oldest first, the present one as it is.
    pub fn blocks_since(&self, since: Nanos) -> Vec<Block> {
        let begins = |block: &Block| block.header.stamp.boot <= since;
        let first = self.recent.partition_point(begins).saturating_sub(1);
        let mut blocks: Vec<Block> = self.recent.iter().skip(first).cloned().collect();
        if let Some(open) = self.open.as_ref().filter(|open| open.scanner.rows() > 0) {
            blocks.retain(|block| block.header.first_row != open.header.first_row);
            blocks.extend(self.open_block());
        }
        blocks.sort_by_key(Block::end);
        blocks
    }
}

/// True where somebody else has it, a block or another lane: it is copied where it grows.
fn is_shared(schema: &Arc<Schema>) -> bool {
    Arc::strong_count(schema) > 1
}

fn take(bytes: &[u8], schema: &Arc<Schema>, place: &mut Place, out: &mut Vec<u8>) -> Piece {
    let begins = place.offset == 0;
    let Some(rest) = bytes.get(place.offset..).filter(|rest| !rest.is_empty()) else { return Piece::Nothing };
    out.extend_from_slice(rest);
    place.offset = bytes.len();
    if begins { Piece::Block(schema.clone()) } else { Piece::More }
}

#[cfg(test)]
pub(crate) mod tests;
