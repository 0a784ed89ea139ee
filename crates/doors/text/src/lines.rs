//! Writes a node's part of a status in one of two formats: the ancestor's lines, or s-expressions.

use khz_model::{NodeName, Part, Reading, ValueFormat, ValueType};

use crate::decimal::DECIMAL_BYTES_MAX;
use crate::host;
use crate::layout::{Cell, Layout};
use crate::page::{Page, STEP};

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// `BASE NUMBER NAME VALUE`, one line for each value.
    #[default]
    Lines,
    /// `(status (node "NAME" (time SECONDS) (ITEM VALUE) ...) ...)`.
    Sexp,
}

impl Format {
    /// Writes the beginning of a status.
    pub fn begin(self, page: &mut Page) {
        if self == Format::Sexp {
            page.put(b"(status");
        }
    }

    /// Writes one node. Leaves out absent values.
    pub fn node(self, page: &mut Page, node: &NodeName, parts: &[Part<'_>], layout: &Layout) {
        match self {
            Format::Lines => lines(page, node, parts, layout),
            Format::Sexp => sexp(page, node, parts, layout),
        }
    }

    /// Writes the end of a status.
    pub fn end(self, page: &mut Page) {
        page.put(match self {
            Format::Lines => b"\n",
            Format::Sexp => b")\n",
        });
    }
}

/// What a cell shows.
enum Shown {
    /// A decimal from 0 on, as nearly all are.
    Decimal(u64),
    /// Any other value.
    Text(String),
}

/// The value of a cell; `None` if it is absent.
#[inline]
fn value(parts: &[Part<'_>], cell: &Cell) -> Option<Shown> {
    let part = parts.get(cell.part as usize)?;
    let (&state, &bits) = (part.states.get(cell.slot as usize)?, part.values.get(cell.slot as usize)?);
    if state == Reading::Present(0).state() && cell.format.value_type == ValueType::Unsigned {
        return Some(Shown::Decimal(bits));
    }
    other_value(Reading::from_parts(state, bits), cell.format)
}

#[cold]
fn other_value(reading: Reading, format: ValueFormat) -> Option<Shown> {
    format.value(reading).map(|value| Shown::Text(value.to_string()))
}

/// Appends a value and the byte `end`. Needs room for a decimal, and makes `room` again after another value.
#[inline]
fn put(page: &mut Page, value: Shown, places: u8, end: u8, room: usize) {
    match value {
        Shown::Decimal(value) => page.put_decimal(value, places, end),
        Shown::Text(text) => {
            page.put(text.as_bytes());
            page.put(&[end]);
            page.reserve(room);
        }
    }
}

fn lines(page: &mut Page, node: &NodeName, parts: &[Part<'_>], layout: &Layout) {
    let (base, number) = host::split(node.as_str());
    let mut prefix = Vec::with_capacity(node.as_str().len() + 4 + STEP);
    prefix.extend_from_slice(base.as_bytes());
    prefix.push(b' ');
    prefix.extend_from_slice(number.unwrap_or("-1").as_bytes());
    prefix.push(b' ');
    let length = prefix.len();
    prefix.resize(length + STEP, 0);
    let room = layout.cells.len() * (length + DECIMAL_BYTES_MAX + 1) + layout.name_bytes;
    page.reserve(room);
    for cell in &layout.cells {
        let Some(value) = value(parts, cell) else { continue };
        page.put_padded(&prefix, length);
        page.put_padded(layout.name(cell), cell.name_length.into());
        put(page, value, cell.format.places, b'\n', room);
    }
}

fn sexp(page: &mut Page, node: &NodeName, parts: &[Part<'_>], layout: &Layout) {
    let newest = parts.iter().map(|part| part.stamp).max_by_key(|stamp| stamp.boot).unwrap_or_default();
    page.put(format!("\n (node \"{node}\" (time {})", newest.real_text()).as_bytes());
    for cell in &layout.cells {
        let Some(value) = value(parts, cell) else { continue };
        page.put(b" (");
        page.reserve(usize::from(cell.name_length) + DECIMAL_BYTES_MAX + 1);
        page.put_padded(layout.name(cell), cell.name_length.into());
        put(page, value, cell.format.places, b')', 0);
    }
    page.put(b")");
}
