//! The ways to write a group of rows: our block, and two texts. `Lines` is the ancestors' text, a line `host
//! number name value` for each value of each row. `Changes` is the best text for a writer that knows the
//! slots: only what changed.

use std::collections::HashMap;

use khz_block::{Decoder, HEADER_BYTES};

use super::workload::{Cells, Row, Workload};
use crate::error::BenchError;
use crate::program::failed;

const HOST: &str = "node17";

/// A way to write rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Block,
    Changes,
    Lines,
}

/// The present row of a reader, and what else it needs.
pub struct Present {
    pub cells: Cells,
    decoder: Decoder,
    /// Slots by name, for forms that contain names.
    slots: HashMap<String, usize>,
}

impl Present {
    pub fn new(workload: &Workload) -> Self {
        let slots = workload.names.iter().cloned().zip(0..).collect();
        Present { cells: vec![(0, 0); workload.slots()], decoder: Decoder::new(), slots }
    }
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Block => "block",
            Form::Changes => "changes",
            Form::Lines => "lines",
        }
    }

    /// Writes a group of rows. `cells` holds the writer's present readings, as an agent's sources do.
    pub fn encode(self, workload: &Workload, group: &[Row], cells: &mut Cells, out: &mut Vec<u8>) {
        match self {
            Form::Block => block(workload, group, cells, out),
            Form::Changes => changes(group, cells, out),
            Form::Lines => lines(workload, group, cells, out),
        }
    }

    /// Reads a group; `present` then holds its last row.
    pub fn decode(self, bytes: &[u8], present: &mut Present) -> Result<(), BenchError> {
        match self {
            Form::Block => {
                let Present { cells, decoder, .. } = present;
                super::decode_block(decoder, bytes, |decoder| take_changes(decoder, cells))
            }
            Form::Changes => {
                read_changes(bytes, &mut present.cells).ok_or_else(|| failed("a text", "odd line"))
            }
            Form::Lines => read_lines(bytes, present).ok_or_else(|| failed("a text", "odd line")),
        }
    }
}

/// Updates the present readings to a row.
fn gather(row: &Row, cells: &mut Cells) {
    for &(slot, cell) in &row.changes {
        let slot = slot as usize;
        if slot >= cells.len() {
            cells.resize(slot + 1, (0, 0));
        }
        cells[slot] = cell;
    }
}

fn block(workload: &Workload, group: &[Row], cells: &mut Cells, out: &mut Vec<u8>) {
    let mut encoder = workload.encoder();
    for (number, row) in group.iter().enumerate() {
        gather(row, cells);
        if number == 0 {
            encoder.key_row(row.stamp, row.changes.len(), |slot| cells[slot], out);
        } else {
            let changed = row.changes.iter().map(|&(slot, _)| slot as usize);
            encoder.delta_row(row.stamp, changed, |slot| cells[slot], out);
        }
    }
    if let Some(header) = encoder.close() {
        out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}

/// Copies the present row out of the decoder, since readers of a text get that too.
fn take_changes(decoder: &Decoder, cells: &mut Cells) {
    for &slot in decoder.changed() {
        if let Some(reading) = decoder.reading(slot as usize) {
            cells[slot as usize] = (reading.state(), reading.bits());
        }
    }
}

/// `@ time`, then `slot value` or `slot -state` for each change; every slot in the first row.
fn changes(group: &[Row], cells: &mut Cells, out: &mut Vec<u8>) {
    for row in group {
        gather(row, cells);
        out.push(b'@');
        put_number(out, row.stamp.boot.0);
        out.push(b'\n');
        for &(slot, _) in &row.changes {
            put_number(out, u64::from(slot));
            put_value(out, cells[slot as usize]);
        }
    }
}

/// `host number name value` for every value; the number is the row's.
fn lines(workload: &Workload, group: &[Row], cells: &mut Cells, out: &mut Vec<u8>) {
    for row in group {
        gather(row, cells);
        for (name, &cell) in workload.names.iter().zip(cells.iter()) {
            out.extend_from_slice(HOST.as_bytes());
            out.push(b' ');
            put_number(out, row.stamp.boot.0 / 1_000_000);
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            put_value(out, cell);
        }
    }
}

fn put_value(out: &mut Vec<u8>, (state, value): (u8, u64)) {
    out.push(b' ');
    if state == 0 {
        put_number(out, value);
    } else {
        out.push(b'-');
        put_number(out, u64::from(state));
    }
    out.push(b'\n');
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn read_changes(mut text: &[u8], cells: &mut Cells) -> Option<()> {
    while let Some(&first) = text.first() {
        if first == b'@' {
            let (_, rest) = number(&text[1..])?;
            text = rest.strip_prefix(b"\n")?;
        } else {
            let (slot, rest) = number(text)?;
            let (cell, rest) = value(rest)?;
            *cells.get_mut(usize::try_from(slot).ok()?)? = cell;
            text = rest;
        }
    }
    Some(())
}

fn read_lines(mut text: &[u8], present: &mut Present) -> Option<()> {
    let space = |text: &[u8]| text.iter().position(|&byte| byte == b' ');
    while !text.is_empty() {
        text = &text[space(text)? + 1..];
        text = &text[space(text)? + 1..];
        let name = &text[..space(text)?];
        let slot = *present.slots.get(std::str::from_utf8(name).ok()?)?;
        let (cell, rest) = value(&text[name.len()..])?;
        present.cells[slot] = cell;
        text = rest;
    }
    Some(())
}

/// ` value` or ` -state`, and the end of the line.
fn value(text: &[u8]) -> Option<((u8, u64), &[u8])> {
    let text = text.strip_prefix(b" ")?;
    let (cell, rest) = match text.strip_prefix(b"-") {
        Some(text) => {
            let (state, rest) = number(text)?;
            ((state as u8, 0), rest)
        }
        None => {
            let (value, rest) = number(text)?;
            ((0, value), rest)
        }
    };
    Some((cell, rest.strip_prefix(b"\n")?))
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = text[..digits].iter().fold(0u64, |n, digit| n.wrapping_mul(10) + u64::from(digit - b'0'));
    (digits > 0).then(|| (number, &text[digits..]))
}
