//! The simplest agent: a node that sends every row at once, stamped at that moment, to measure what follows
//! it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use khz_block::Encoder;
use khz_link::frame::{kind, split};
use khz_link::limits::FRAME_MAX;
use khz_link::{Beat, End, Frame, LaneOffer, Role, Told, put};
use khz_model::{Nanos, Stamp};

use super::cluster::SLOTS;
use super::hello::greet;
use crate::error::BenchError;
use crate::program::failed;

/// Slots that change from row to row.
const CHANGING: usize = 30;

/// A connected node whose lane the hub wants.
pub struct Publisher {
    socket: TcpStream,
    period: Nanos,
    encoder: Encoder,
    row: u64,
    out: Vec<u8>,
    bytes: Vec<u8>,
}

impl Publisher {
    /// Connects, offers a lane with this schema, and waits until the hub wants it.
    pub fn connect(hub: SocketAddr, schema: &[u8], period: Nanos) -> Result<Self, BenchError> {
        let wrong = |e: std::io::Error| failed("the publisher", e);
        let mut socket = TcpStream::connect(hub).map_err(wrong)?;
        socket.set_nodelay(true).map_err(wrong)?;
        let mut out = Vec::new();
        greet(&socket, hub, (Role::Node, "publisher"), 3, &mut out)?;
        LaneOffer {
            lane: 1,
            node: "",
            name: "base",
            epoch: 1,
            generation: 1,
            period,
            interest: 0,
            oldest_row: 0,
            next_row: 0,
            schema_bytes: schema.len() as u64,
            schema_hash: [0; 16],
            stands_in: false,
        }
        .put(&mut out);
        let piece = put::open_schema(&mut out, 1, 1, 0);
        out.extend_from_slice(schema);
        piece.close(&mut out);
        socket.write_all(&out).map_err(wrong)?;
        wait_for(&mut socket, |frame| matches!(frame, Frame::Want(_)).then_some(()))?;
        let encoder = Encoder::new(0, 1, period);
        Ok(Publisher { socket, period, encoder, row: 0, out: Vec::new(), bytes: Vec::new() })
    }

    /// Sends a row, stamped now.
    pub fn say(&mut self, now: Nanos) -> Result<(), BenchError> {
        let stamp = Stamp { boot: now, real_offset: 0 };
        self.out.clear();
        self.bytes.clear();
        if self.encoder.wants_new_block(stamp)
            && let Some((rows, bytes, crc)) = self.encoder.close().and_then(|header| header.closed)
        {
            End { lane: 1, rows, bytes, crc }.put(&mut self.out);
        }
        let row = self.row;
        let reading = |slot: usize| (0, if slot < CHANGING { 1_000 + row * (slot as u64 + 1) } else { 5 });
        let frame = if self.encoder.rows_open() == 0 {
            self.encoder.key_row(stamp, SLOTS as usize, reading, &mut self.bytes);
            kind::BLOCK
        } else {
            self.encoder.delta_row(stamp, 0..CHANGING, reading, &mut self.bytes);
            kind::ROWS
        };
        let open = put::open_lane(&mut self.out, frame, 1);
        self.out.extend_from_slice(&self.bytes);
        open.close(&mut self.out);
        if row.is_multiple_of(1_000) {
            Beat { stamp: 1, round_trip: None, offset: 0, retransmits: 0 }.put(&mut self.out);
        }
        self.row += 1;
        self.socket.write_all(&self.out).map_err(|e| failed("the publisher", e))
    }

    /// Waits for a reader's interest, and answers that its lane serves it: the lane sends each row at once
    /// anyway.
    pub fn serve_interest(&mut self) -> Result<(), BenchError> {
        let interest = wait_for(&mut self.socket, |frame| match frame {
            Frame::Interest(interest) => Some(interest.number),
            _ => None,
        })?;
        self.out.clear();
        Told { interest, granted: true, period: self.period, text: "", lane: 1, refused_by: "" }
            .put(&mut self.out);
        self.socket.write_all(&self.out).map_err(|e| failed("the publisher", e))
    }
}

/// Reads until `take` returns a value for a frame.
fn wait_for<T>(socket: &mut TcpStream, take: impl Fn(&Frame<'_>) -> Option<T>) -> Result<T, BenchError> {
    let wrong = |problem: &dyn std::fmt::Display| failed("the publisher", problem);
    let (mut bytes, mut room) = (Vec::new(), [0; 4_096]);
    loop {
        match socket.read(&mut room).map_err(|e| wrong(&e))? {
            0 => return Err(wrong(&"the hub has closed the connection")),
            read => bytes.extend_from_slice(&room[..read]),
        }
        let mut at = 0;
        while let Some(raw) = split(&bytes[at..], FRAME_MAX).map_err(|e| wrong(&e))? {
            at += raw.length;
            if let Some(found) = take(&Frame::decode(raw.kind, raw.body).map_err(|e| wrong(&e))?) {
                return Ok(found);
            }
        }
        bytes.drain(..at);
    }
}
