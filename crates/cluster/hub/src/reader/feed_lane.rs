//! A lane for a reader: the rows of one node for one subscription, with the selected columns, encoded as blocks.
//! Readers of the protocol's second version get the node's epoch and row numbers, those of the first version the hub's.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::{Decoder, Encoder};
use khz_link::frame::kind;
use khz_link::{End, LaneOffer, Told, WantFrame, put};
use khz_model::{Nanos, Reading, Series, Stamp};

use super::generations::{Generation, Generations};
use super::late_block::LateBlock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::cursor::{Columns, Cursor, Event, Numbers, ServedLane};
use crate::limits::BLOCK_SPAN;

/// The text for a reader that only requests values which its version of the link does not know.
const LEFT_OUT: &str =
    "these are series of signed numbers, doubles or labels, and this reader is too old for them: update it";

/// Rows are put into frames of about this size.
const PIECE: usize = 64 << 10;

/// How lanes of a reader are numbered.
#[derive(Debug)]
pub(super) struct Numbering {
    /// Lanes made so far.
    made: u32,
    /// The first epoch of lanes whose rows the hub numbers; `None`: nodes number them.
    epochs: Option<u64>,
}

impl Numbering {
    pub fn new(epochs: Option<u64>) -> Self {
        Numbering { made: 0, epochs }
    }

    /// Which numbers rows have.
    pub fn numbers(&self) -> Numbers {
        if self.epochs.is_some() { Numbers::Hubs } else { Numbers::Nodes }
    }

    fn next(&mut self) -> u32 {
        self.made += 1;
        self.made
    }
}

/// A lane that a reader gets.
pub(super) struct FeedLane {
    pub number: u32,
    pub wanted: bool,
    /// Nothing more comes in it.
    pub is_over: bool,
    /// It was offered.
    is_offered: bool,
    /// The reader knows that all its series are left out.
    is_told: bool,
    generations: Generations,
    present: Generation,
    encoder: Encoder,
    /// The first row of the open block, and when it was written.
    began: (u64, Nanos),
    late: LateBlock,
    /// The row under construction; kept for its capacity.
    bytes: Vec<u8>,
}

impl FeedLane {
    pub fn new(numbering: &mut Numbering) -> Self {
        let number = numbering.next();
        FeedLane {
            number,
            wanted: false,
            is_over: false,
            is_offered: false,
            is_told: false,
            generations: Generations::default(),
            present: Generation::default(),
            encoder: Encoder::new(number as u16, 0, Nanos::SECOND),
            began: (u64::MAX, Nanos(0)),
            late: LateBlock::new(number),
            bytes: Vec::new(),
        }
    }

    /// The reader wants the lane from now on.
    pub fn want(&mut self, want: &WantFrame<'_>, cursor: &mut Cursor, is_past: bool) {
        let was_wanted = std::mem::replace(&mut self.wanted, true);
        match is_past {
            true => cursor.rewind(want.span),
            false if was_wanted => {}
            false => cursor.begin(want),
        }
    }

    /// The reader does not want the lane any more.
    pub fn leave(&mut self, cursor: &mut Cursor) {
        self.wanted = false;
        cursor.leave();
    }

    /// Writes what has come since the last call. `true`: there is more.
    pub fn pump(
        &mut self,
        interest: u32,
        cursor: &mut Cursor,
        numbering: &mut Numbering,
        cluster: &Cluster,
        now: Nanos,
        out: &mut Vec<u8>,
    ) -> bool {
        let node = cursor.node.name.clone();
        let (mut rows, mut sent, mut lost) = (None, 0, 0u64);
        cursor.read(|event| match event {
            Event::Over => {
                self.end_block(&mut rows, out);
                self.late.close(&mut self.generations, out);
                if self.is_offered {
                    put::closed(out, self.number);
                    *self = FeedLane::new(numbering);
                }
            }
            Event::Columns(columns, followed, there) => {
                self.end_block(&mut rows, out);
                let lane = (followed, numbering.epochs, there);
                self.offer(interest, node.as_str(), &columns.series, lane, out);
                if columns.are_all_left_out() && !std::mem::replace(&mut self.is_told, true) {
                    let text = &format!("{node}: {LEFT_OUT}");
                    Told { interest, granted: true, period: Nanos(0), text, lane: 0, refused_by: "" }
                        .put(out);
                }
            }
            Event::Row(columns, decoder, number, all_changes) if !columns.is_empty() && self.wanted => {
                self.row(columns, decoder, (number, numbering.epochs.is_none()), all_changes, &mut rows, out);
                sent += 1;
            }
            Event::Row(..) => {}
            Event::Late(columns, decoder, number, all_changes) if !columns.is_empty() => {
                close(rows.take(), out);
                self.late.row(&mut self.generations, columns, decoder, (number, all_changes), out);
                sent += 1;
            }
            Event::Late(..) => {}
            Event::Lost(from, to) => {
                close(rows.take(), out);
                self.late.close(&mut self.generations, out);
                lost = lost.saturating_add(to - from);
                match numbering.epochs {
                    None => put::lost(out, self.number, from, to),
                    Some(_) => self.lose(to - from, out),
                }
            }
        });
        close(rows, out);
        self.late.close(&mut self.generations, out);
        self.end_old_block(cursor, now, out);
        Counts::add(&cluster.counts.reader_rows, sent);
        Counts::add(&cluster.counts.reader_lost, lost);
        if let Some(notice) = cursor.take_notice() {
            let text = &format!("{node}: {}", notice.text);
            let refused_by = if notice.is_refusal { node.as_str() } else { "" };
            Told { interest, granted: true, period: Nanos(0), text, lane: 0, refused_by }.put(out);
        }
        !cursor.is_caught_up()
    }

    /// Announces the columns from here on.
    fn offer(
        &mut self,
        interest: u32,
        node: &str,
        series: &Arc<Vec<Series>>,
        (followed, epochs, (oldest, next)): (ServedLane, Option<u64>, (u64, u64)),
        out: &mut Vec<u8>,
    ) {
        let rows = self.encoder.rows();
        self.present = self.generations.of(series, false);
        // A reader that shows rows as they come uses the schema that was sent last.
        self.generations.say_again(self.present);
        self.encoder = Encoder::new(self.number as u16, self.present.number, followed.period());
        self.encoder.resume(rows, self.present.number);
        self.late.set_period(followed.period());
        let (epoch, oldest_row, next_row) = match epochs {
            Some(epochs) => (epochs.wrapping_add(u64::from(self.number)), rows, rows),
            None => (followed.epoch(), oldest, next),
        };
        let (schema_bytes, schema_hash) = self.generations.described(self.present);
        let name = &format!("interest{interest}");
        let (lane, generation, period) = (self.number, self.present.number, followed.period());
        LaneOffer {
            lane,
            node,
            name,
            epoch,
            generation,
            period,
            interest,
            oldest_row,
            next_row,
            schema_bytes,
            schema_hash,
            stands_in: followed.stands_in,
        }
        .put(out);
        self.is_offered = true;
    }

    fn row(
        &mut self,
        columns: &Columns,
        decoder: &Decoder,
        (number, is_nodes): (u64, bool),
        all_changes: bool,
        rows: &mut Option<put::Open>,
        out: &mut Vec<u8>,
    ) {
        let (stamp, width) = (decoder.stamp(), self.present.width);
        let leaps = is_nodes && self.encoder.rows() != number;
        if self.encoder.rows_open() > 0 && (leaps || self.encoder.wants_new_block_of_copies(stamp)) {
            self.end_block(rows, out);
        }
        if leaps {
            self.encoder.resume(number, self.present.number);
        }
        self.bytes.clear();
        if self.encoder.rows_open() == 0 {
            self.begin_block(stamp, |column| columns.reading(decoder, column), rows, out);
        } else {
            let reading = |column: usize| parts(columns.reading(decoder, column));
            if all_changes {
                let changed = columns.changed(decoder).take_while(|&column| column < width);
                self.encoder.delta_row(stamp, changed, reading, &mut self.bytes);
            } else {
                self.encoder.delta_row(stamp, 0..width, reading, &mut self.bytes);
            }
            if rows.is_none() {
                *rows = Some(put::open_lane(out, kind::ROWS, self.number));
            }
        }
        self.put_row(rows, out);
    }

    /// Encodes the first row of a block.
    fn begin_block(
        &mut self,
        stamp: Stamp,
        reading: impl Fn(usize) -> Reading,
        rows: &mut Option<put::Open>,
        out: &mut Vec<u8>,
    ) {
        self.generations.say(self.number, self.present, out);
        self.encoder.key_row(stamp, self.present.width, |column| parts(reading(column)), &mut self.bytes);
        *rows = Some(put::open_lane(out, kind::BLOCK, self.number));
    }

    /// Writes the encoded row, in as many frames as it needs.
    fn put_row(&self, rows: &mut Option<put::Open>, out: &mut Vec<u8>) {
        for piece in self.bytes.chunks(PIECE) {
            // A frame has a limit: the rest goes into another frame.
            if rows.is_none() {
                *rows = Some(put::open_lane(out, kind::ROWS, self.number));
            }
            out.extend_from_slice(piece);
            if self.bytes.len() > PIECE {
                close(rows.take(), out);
            }
        }
        if out.len() > PIECE {
            close(rows.take(), out);
        }
    }

    /// Ends the block if it is old, or if its node has gone: a recorder writes blocks, and is not to wait for rows that may never
    /// come.
    fn end_old_block(&mut self, cursor: &Cursor, now: Nanos, out: &mut Vec<u8>) {
        let open = u64::from(self.encoder.rows_open());
        if open == 0 {
            return;
        }
        let first = self.encoder.rows() - open;
        if self.began.0 != first {
            self.began = (first, now);
        }
        if now.since(self.began.1) >= BLOCK_SPAN || !cursor.node.up.load(Ordering::Relaxed) {
            self.end_block(&mut None, out);
        }
    }

    fn end_block(&mut self, rows: &mut Option<put::Open>, out: &mut Vec<u8>) {
        close(rows.take(), out);
        let Some((count, bytes, crc)) = self.encoder.close().and_then(|header| header.closed) else { return };
        End { lane: self.number, rows: count, bytes, crc }.put(out);
    }

    /// Nothing more comes: all rows of the past are written, or the node was forgotten.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.end_block(&mut None, out);
        if self.is_offered && !self.is_over {
            put::closed(out, self.number);
        }
        self.is_over = true;
    }

    /// The node was forgotten.
    pub fn end(mut self, out: &mut Vec<u8>) {
        if self.is_offered && !self.is_over {
            self.late.close(&mut self.generations, out);
            self.close(out);
        }
    }

    /// Lost rows take numbers too if the hub numbers them.
    fn lose(&mut self, lost: u64, out: &mut Vec<u8>) {
        self.end_block(&mut None, out);
        let from = self.encoder.rows();
        let to = from.saturating_add(lost);
        put::lost(out, self.number, from, to);
        self.encoder.resume(to, self.present.number);
    }
}

pub(super) fn parts(reading: Reading) -> (u8, u64) {
    (reading.state(), reading.bits())
}

fn close(rows: Option<put::Open>, out: &mut [u8]) {
    if let Some(frame) = rows {
        frame.close(out);
    }
}
