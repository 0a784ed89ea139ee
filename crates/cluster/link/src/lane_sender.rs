//! Sends one lane to a peer: the newest block first and then every row as it comes, the schema before the blocks that need it,
//! and missing blocks last. Bytes are copied from the ring straight into the buffer of the connection.

use khz_block::{HEADER_BYTES, Header};
use khz_model::Nanos;

use crate::backfill::Backfill;
use crate::frame::kind;
use crate::limits::{OUT_MAX, PIECE};
use crate::message::{End, WantFrame};
use crate::older::{Older, Rewrite};
use crate::put;
use crate::ring_walk::{Walk, header};
use crate::schemas_sent::SchemasSent;
use crate::source::Lane;

/// Whether there is more to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything that was due is in the buffer.
    Done,
    /// The buffer has enough for now.
    Full,
}

/// The counts of a lane on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub rows: u64,
    pub lost: u64,
    pub overtaken: u64,
}

impl Sent {
    /// The sum of both.
    pub fn and(self, other: Sent) -> Sent {
        Sent {
            rows: self.rows + other.rows,
            lost: self.lost + other.lost,
            overtaken: self.overtaken + other.overtaken,
        }
    }
}

/// A lane that the peer has requested.
#[derive(Debug)]
pub(crate) struct LaneSender {
    number: u32,
    pub prompt: bool,
    /// The thread that writes rows flushes the lane along with its rows.
    pub carried: bool,
    /// All rows before this have arrived.
    pub received: u64,
    /// The first row of the newest block, at the last look-up.
    newest_row: u64,
    /// Ring bytes up to here are due.
    target: u64,
    /// The offset of the present block, and the offset of its first byte that was not sent.
    at: u64,
    sent: u64,
    /// The first row of the present block; after the end of that block, of the next one.
    row: u64,
    schemas: SchemasSent,
    /// How the present block is written for a peer of an older version; `None`: as it is.
    rewrite: Option<Rewrite>,
    backfill: Backfill,
    /// The newest Now that is answered by the rows up to `target`, and the newest Now for which a
    /// Given was sent.
    answered: u32,
    given: u32,
    pub counts: Sent,
}

impl LaneSender {
    /// Begins with the newest block; rows before it that the Want requests follow as past. A lane whose rows come at any time
    /// begins with the first row that the Want requests. The schema that
    /// the peer has in part is that of `generation`, if that is known.
    pub fn new<L: Lane>(
        number: u32,
        lane: &L,
        older: &mut Option<Older>,
        generation: Option<u32>,
        want: &WantFrame<'_>,
        now: Nanos,
        scratch: &mut Vec<u8>,
    ) -> Self {
        // Rows and schema of another epoch do not count.
        let same = want.epoch == lane.epoch();
        let mut is_known = |&generation: &u32| {
            same && schema_bytes(lane, older, generation).is_some_and(|bytes| want.schema_bytes <= bytes)
        };
        let known = generation.filter(&mut is_known);
        let mut sender = LaneSender {
            number,
            prompt: want.prompt,
            carried: false,
            received: if same { want.from_row } else { 0 },
            newest_row: 0,
            target: lane.head(),
            at: 0,
            sent: 0,
            row: if same { want.from_row } else { 0 },
            schemas: known
                .map_or_else(SchemasSent::default, |known| SchemasSent::of_peer(known, want.schema_bytes)),
            rewrite: None,
            backfill: Backfill::default(),
            answered: 0,
            given: 0,
            counts: Sent::default(),
        };
        let is_in_order = same && !lane.is_regular() && want.have().next().is_none();
        if is_in_order && sender.seek_row(lane, want.from_row, scratch) || sender.seek_newest(lane, scratch) {
            let since = now.since(want.span);
            let (from, have) = if same { (want.from_row, Some(want.have())) } else { (0, None) };
            let lacking = (from, sender.row);
            sender.backfill.want(lane, lacking, have.into_iter().flatten(), since, scratch);
        }
        sender
    }

    /// Sends these rows again, except those of the block that is being sent.
    pub fn again<L: Lane>(&mut self, lane: &L, from: u64, to: u64, scratch: &mut Vec<u8>) {
        self.backfill.want(lane, (from, to.min(self.row)), std::iter::empty(), Nanos(0), scratch);
    }

    /// Goes to the start of the closed block with this row, or of the next closed block; `false` if there is none. A lane
    /// whose rows come at any time has few rows, and this way also readers that take no late rows get all of them.
    fn seek_row<L: Lane>(&mut self, lane: &L, row: u64, scratch: &mut Vec<u8>) -> bool {
        let Some(found) = Walk::new(lane, scratch).find(|found| found.end_row > row) else { return false };
        (self.at, self.sent, self.row) = (found.at, found.at, found.first_row);
        true
    }

    /// Goes to the start of the newest block; `false` if there is none, or if it is overwritten again and again.
    fn seek_newest<L: Lane>(&mut self, lane: &L, scratch: &mut Vec<u8>) -> bool {
        for _ in 0..8 {
            let newest = lane.newest();
            if let Some(header) = header(lane, newest, scratch) {
                (self.at, self.sent, self.row) = (newest, newest, header.first_row);
                return true;
            }
        }
        false
    }

    /// Makes everything due that the ring has now.
    pub fn release<L: Lane>(&mut self, lane: &L) {
        // This order matters: the rows were written before the number of the Now.
        self.answered = lane.answered();
        self.target = lane.head();
    }

    /// Bytes of rows that were not sent yet.
    pub fn unsent<L: Lane>(&self, lane: &L) -> u64 {
        lane.head().saturating_sub(self.sent)
    }

    /// Sends a Given for the newest answered Now, after the rows that answer it.
    pub fn given(&mut self, out: &mut Vec<u8>) {
        if self.answered != self.given {
            self.given = self.answered;
            put::given(out, self.number, self.given);
        }
    }

    /// Reads how far the writer of the ring is.
    pub fn refresh<L: Lane>(&mut self, lane: &L, scratch: &mut Vec<u8>) {
        self.newest_row =
            header(lane, lane.newest(), scratch).map_or(self.newest_row, |header| header.first_row);
    }

    /// Rows of complete blocks that the peer does not have yet.
    pub fn backlog(&self) -> u64 {
        self.newest_row.saturating_sub(self.received)
    }

    /// Sends what is due.
    pub fn live<L: Lane>(
        &mut self,
        lane: &L,
        older: &mut Option<Older>,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Progress {
        // The next row may come much later. It must not wait then until the peer has offered the new columns to its
        // readers.
        if !lane.is_regular() && self.schema(lane, older, lane.generation(), out) == Progress::Full {
            return Progress::Full;
        }
        while self.sent < self.target {
            if out.len() >= OUT_MAX {
                return Progress::Full;
            }
            // This order matters: a block that is open after we read head has all bytes up to head.
            let (newest, head) = (lane.newest(), lane.head());
            let found = header(lane, self.at, scratch).filter(|h| h.closed.is_some() || newest <= self.at);
            let went_on = match found {
                Some(header) => self.step(lane, older, &header, head, scratch, out),
                None => self.jump(lane, scratch),
            };
            if !went_on {
                return Progress::Full;
            }
        }
        Progress::Done
    }

    /// Sends a piece of the present block, or its end; `false` if the rest has to wait.
    fn step<L: Lane>(
        &mut self,
        lane: &L,
        older: &mut Option<Older>,
        header: &Header,
        head: u64,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        let end = match header.closed {
            Some((_, length, _)) => self.at + HEADER_BYTES as u64 + u64::from(length),
            None => head,
        };
        if self.sent < end {
            let begins = self.sent == self.at;
            if begins && self.schema(lane, older, header.generation, out) == Progress::Full {
                return false;
            }
            if begins {
                self.rewrite = older.as_mut().and_then(|older| older.rewrite(lane, header));
            }
            let copied = match &mut self.rewrite {
                None => self.piece(lane, end, out),
                Some(_) => self.rewritten(lane, end, scratch, out),
            };
            let Some(copied) = copied else { return self.jump(lane, scratch) };
            self.sent += copied as u64;
            self.row = header.first_row;
        }
        if let (Some((rows, bytes, crc)), true) = (header.closed, self.sent == end) {
            self.row = header.first_row.saturating_add(rows.into());
            match self.rewrite.take() {
                None => End { lane: self.number, rows, bytes, crc }.put(out),
                Some(rewrite) => self.end_rewritten(rewrite, self.row, out),
            }
            self.counts.rows += u64::from(rows);
            self.at = end;
        }
        true
    }

    /// Sends a piece of the present block, and returns its length in the ring; `None`: it was overwritten.
    fn piece<L: Lane>(&self, lane: &L, end: u64, out: &mut Vec<u8>) -> Option<usize> {
        let kind = if self.sent == self.at { kind::BLOCK } else { kind::ROWS };
        let frame = put::open_lane(out, kind, self.number);
        match lane.copy(self.sent, PIECE.min((end - self.sent) as usize), out) {
            Ok(copied) if copied > 0 => {
                frame.close(out);
                Some(copied)
            }
            _ => {
                frame.cancel(out);
                None
            }
        }
    }

    /// The same, without the slots that the peer does not know. Only whole rows are sent.
    fn rewritten<L: Lane>(
        &mut self,
        lane: &L,
        end: u64,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let rewrite = self.rewrite.as_mut()?;
        scratch.clear();
        let copied = lane.copy(self.sent, PIECE.min((end - self.sent) as usize), scratch).ok()?;
        let (mut begins, mut rows) = (rewrite.is_new(), Vec::new());
        rewrite.feed(scratch, &mut rows);
        for piece in rows.chunks(PIECE) {
            let kind = if std::mem::take(&mut begins) { kind::BLOCK } else { kind::ROWS };
            let frame = put::open_lane(out, kind, self.number);
            out.extend_from_slice(piece);
            frame.close(out);
        }
        (copied > 0).then_some(copied)
    }

    /// The present block has ended, and was rewritten. Its rows from the first damaged row on are lost.
    fn end_rewritten(&mut self, mut rewrite: Rewrite, end_row: u64, out: &mut Vec<u8>) {
        let next = rewrite.next_row();
        match rewrite.close().and_then(|header| header.closed) {
            Some((rows, bytes, crc)) => End { lane: self.number, rows, bytes, crc }.put(out),
            None => self.backfill.lose(next, end_row),
        }
    }

    /// The writer has overtaken us: continues with the newest block. The blocks between follow as past, if the ring still has
    /// them.
    fn jump<L: Lane>(&mut self, lane: &L, scratch: &mut Vec<u8>) -> bool {
        let expected = self.row;
        self.counts.overtaken += 1;
        if !self.seek_newest(lane, scratch) {
            return false;
        }
        let none = std::iter::empty();
        self.backfill.want(lane, (expected, self.row), none, Nanos(0), scratch);
        true
    }

    /// Sends the bytes of a generation's schema that the peer lacks, as far as there is room.
    fn schema<L: Lane>(
        &mut self,
        lane: &L,
        older: &mut Option<Older>,
        generation: u32,
        out: &mut Vec<u8>,
    ) -> Progress {
        while schema_bytes(lane, older, generation)
            .is_some_and(|bytes| bytes > self.schemas.bytes(generation))
        {
            if out.len() >= OUT_MAX {
                return Progress::Full;
            }
            let from = self.schemas.bytes(generation);
            let frame = put::open_schema(out, self.number, generation, from);
            let Some(copied) = schema(lane, older, generation, from, out).filter(|&copied| copied > 0) else {
                frame.cancel(out);
                break;
            };
            frame.close(out);
            self.schemas.sent(generation, copied as u64);
        }
        Progress::Done
    }

    /// The peer may have got another generation in another way.
    pub fn forget_generations(&mut self) {
        self.schemas.forget_older();
    }

    /// When the newest missing block was gathered; `None`: nothing is missing.
    pub fn past_began(&self) -> Option<Nanos> {
        self.backfill.newest().map(|block| block.began)
    }

    /// Sends the newest missing block. It sends the whole block or nothing: the ring may overwrite
    /// it at any moment.
    pub fn past<L: Lane>(
        &mut self,
        lane: &L,
        older: &mut Option<Older>,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Progress {
        let Some(block) = self.backfill.newest() else { return Progress::Done };
        let Some(header) = header(lane, block.at, scratch) else {
            self.backfill.overtaken();
            return Progress::Done;
        };
        if lane.schema_bytes(header.generation).is_none() {
            // Its schema is gone, so its rows mean nothing.
            self.backfill.damaged();
            return Progress::Done;
        }
        if self.schema(lane, older, header.generation, out) == Progress::Full {
            return Progress::Full;
        }
        let length = header.closed.map_or(0, |(_, length, _)| HEADER_BYTES + length as usize);
        scratch.clear();
        match lane.copy(block.at, length, scratch) {
            Err(_) => self.backfill.overtaken(),
            Ok(copied) if copied < length || !is_sound(scratch) => self.backfill.damaged(),
            Ok(_) => {
                if let Some(rewrite) = older.as_mut().and_then(|older| older.rewrite(lane, &header)) {
                    let Some(block) = rewrite.whole(scratch) else {
                        self.backfill.damaged();
                        return Progress::Done;
                    };
                    *scratch = block;
                }
                let pieces = scratch.len().div_ceil(PIECE);
                for (n, piece) in scratch.chunks(PIECE).enumerate() {
                    let frame = put::open_past(out, self.number, n + 1 == pieces);
                    out.extend_from_slice(piece);
                    frame.close(out);
                }
                self.counts.rows += block.to - block.from;
                self.backfill.sent();
            }
        }
        Progress::Done
    }

    /// Reports lost rows.
    pub fn lost(&mut self, out: &mut Vec<u8>) {
        for (from, to) in self.backfill.take_lost() {
            self.counts.lost += to - from;
            put::lost(out, self.number, from, to);
        }
    }
}

/// Bytes of a generation's schema, as the peer gets it.
fn schema_bytes<L: Lane>(lane: &L, older: &mut Option<Older>, generation: u32) -> Option<u64> {
    match older {
        None => lane.schema_bytes(generation),
        Some(older) => older.schema(lane, generation).map(|schema| schema.len() as u64),
    }
}

/// Appends a piece of that schema to `out`.
fn schema<L: Lane>(
    lane: &L,
    older: &mut Option<Older>,
    generation: u32,
    from: u64,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let Some(older) = older else { return lane.schema(generation, from, PIECE, out) };
    let schema = older.schema(lane, generation)?.get(from as usize..)?;
    let piece = &schema[..schema.len().min(PIECE)];
    out.extend_from_slice(piece);
    Some(piece.len())
}

/// A block with a wrong checksum would end the connection again and again: it is not sent.
fn is_sound(block: &[u8]) -> bool {
    let Some((head, rows)) = block.split_first_chunk::<HEADER_BYTES>() else { return false };
    let closed = Header::from_bytes(head, 0).ok().and_then(|header| header.closed);
    closed.is_some_and(|(_, length, crc)| rows.len() == length as usize && crc32fast::hash(rows) == crc)
}
