//! Writes deliveries as server-sent events: `columns` at the start and whenever they or the rate change,
//! `rows` for the readings, and `notice` for news about the subscription. Remembers each node's columns and
//! last readings. Knows neither time nor sockets.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use khz_model::{Delivery, NodeName, Notice, Rate, Reading, Row, Series};

use crate::json;
use crate::limits::EVENT_BYTES;

/// Usual length of a node's name.
const NODE_NAME_BYTES: usize = 32;

/// Writes the events of one stream.
#[derive(Debug)]
pub(crate) struct Encoder {
    rate: Rate,
    changes: bool,
    nodes: HashMap<NodeName, Known>,
    /// How many readings they contain.
    readings: usize,
}

/// What one call of [`Encoder::push`] has encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    pub rows: usize,
    pub lost: u64,
}

/// What the client already knows about a node.
#[derive(Debug)]
struct Known {
    columns: Arc<Vec<Series>>,
    /// The rate that was sent with the columns.
    rate: Rate,
    /// The readings of the last row that was sent; `None` when the next row must be sent whole.
    last: Option<Vec<Reading>>,
}

impl Encoder {
    /// With `changes`, only the first row after each `columns` is sent whole.
    pub(crate) fn new(rate: Rate, changes: bool) -> Self {
        Encoder { rate, changes, nodes: HashMap::new(), readings: 0 }
    }

    /// Roughly how many bytes the encoder remembers.
    pub(crate) fn held(&self) -> u64 {
        let nodes = self.nodes.len() * (size_of::<NodeName>() + size_of::<Known>() + NODE_NAME_BYTES);
        (nodes + self.readings * size_of::<Reading>()) as u64
    }

    /// Appends the events of one delivery to `out`, starting at row `from`, until there is enough for one
    /// event. Returns how many rows it has encoded.
    pub(crate) fn push(&mut self, delivery: &Delivery, from: usize, out: &mut String) -> Pushed {
        let rate = delivery.rate.unwrap_or(self.rate);
        let is_known = |known: &Known| known.rate == rate && Arc::ptr_eq(&known.columns, &delivery.columns);
        if !self.nodes.get(&delivery.node).is_some_and(is_known) {
            columns_event(delivery, rate, out);
            let known = Known { columns: Arc::clone(&delivery.columns), rate, last: None };
            let before = self.nodes.insert(delivery.node.clone(), known);
            self.readings -= before.and_then(|known| known.last).map_or(0, |last| last.len());
        }
        let lost = if from == 0 { delivery.lost } else { 0 };
        let rows = &delivery.rows[from.min(delivery.rows.len())..];
        let rows = match rows.is_empty() && lost == 0 {
            true => 0,
            false => self.rows_event(delivery, rows, lost, out),
        };
        Pushed { rows, lost }
    }

    /// Returns how many of the rows the event has.
    fn rows_event(&mut self, delivery: &Delivery, rows: &[Row], lost: u64, out: &mut String) -> usize {
        out.push_str("event: rows\ndata: {\"node\":");
        json::text(out, delivery.node.as_str());
        out.push_str(",\"lost\":");
        json::number(out, lost);
        out.push_str(",\"rows\":[");
        let changes = self.changes;
        let mut known = self.nodes.get_mut(&delivery.node).filter(|_| changes);
        let mut written = 0;
        for row in rows {
            if out.len() >= EVENT_BYTES && written > 0 {
                break;
            }
            json::next(out, written);
            written += 1;
            out.push('{');
            json::stamp(out, row.stamp);
            match known.as_mut().and_then(|known| known.last.as_mut()) {
                Some(last) => {
                    let before = last.len();
                    changed_json(out, &delivery.columns, row, last);
                    self.readings += last.len() - before;
                }
                None => {
                    out.push_str(",\"v\":");
                    json::readings(out, &delivery.columns, &row.readings);
                    if let Some(known) = &mut known {
                        known.last = Some(row.readings.clone());
                        self.readings += row.readings.len();
                    }
                }
            }
            out.push('}');
        }
        out.push(']');
        if let Some(last) = delivery.last.filter(|_| written == rows.len() && written > 0) {
            out.push_str(",\"epoch\":\"");
            json::number(out, last.epoch);
            out.push_str("\",\"last\":");
            json::number(out, last.number);
        }
        out.push_str("}\n\n");
        written
    }
}

fn columns_event(delivery: &Delivery, rate: Rate, out: &mut String) {
    out.push_str("event: columns\ndata: {\"node\":");
    json::text(out, delivery.node.as_str());
    out.push_str(",\"rate\":");
    json::text(out, &rate.to_string());
    out.push_str(",\"period_ns\":");
    json::number(out, rate.period().0);
    out.push_str(",\"columns\":");
    json::columns(out, &delivery.columns);
    out.push_str("}\n\n");
}

/// Appends one `notice` for each sentence, with all its nodes: if four thousand nodes refuse for the same
/// reason, that is one event.
pub(crate) fn notices<'a>(notices: impl IntoIterator<Item = &'a Notice>, out: &mut String) {
    let mut sentences: Vec<(&Notice, Vec<&NodeName>)> = Vec::new();
    for notice in notices {
        let same = |known: &Notice| {
            (known.is_refusal, &known.text, state(known)) == (notice.is_refusal, &notice.text, state(notice))
        };
        match sentences.iter_mut().find(|(known, _)| same(known)) {
            Some((_, nodes)) => nodes.push(&notice.node),
            None => sentences.push((notice, vec![&notice.node])),
        }
    }
    for (notice, nodes) in sentences {
        out.push_str("event: notice\ndata: {\"nodes\":");
        json::list(out, nodes, |out, node| json::text(out, node.as_str()));
        out.push_str(",\"text\":");
        json::text(out, &notice.text);
        if let (Some(state), Some((_, since))) = (state(notice), notice.change) {
            out.push_str(",\"state\":");
            json::text(out, state);
            out.push_str(",\"since\":");
            json::text(out, &since.seconds_text());
        }
        if notice.is_refusal {
            out.push_str(",\"refused\":true");
        }
        out.push_str("}\n\n");
    }
}

/// The new state of a node, if the notice is about that.
fn state(notice: &Notice) -> Option<&'static str> {
    notice.change.map(|(presence, _)| presence.as_str())
}

/// `,"c":[column,value,…]`: the differences from `last`, which becomes this row.
fn changed_json(out: &mut String, columns: &[Series], row: &Row, last: &mut Vec<Reading>) {
    out.push_str(",\"c\":[");
    let mut first = true;
    for (at, (column, &reading)) in columns.iter().zip(&row.readings).enumerate() {
        match last.get_mut(at) {
            Some(old) if *old == reading => continue,
            Some(old) => *old = reading,
            None => last.push(reading),
        }
        let _ = write!(out, "{}{at},", if first { "" } else { "," });
        json::reading(out, reading, column.metric.format());
        first = false;
    }
    out.push(']');
}
