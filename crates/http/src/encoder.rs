//! Deliveries as server-sent events: `columns` at the start and whenever they change, `rows` for the rest, and
//! `notice` for what the reader should be told. It keeps what each node's columns and last readings were, and
//! refuses to know time or sockets.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use khz_model::{Delivery, NodeName, Notice, Rate, Reading, Row, Series};

use crate::json;

/// Writes the events of one stream.
#[derive(Debug)]
pub(crate) struct Encoder {
    rate: Rate,
    changes: bool,
    nodes: HashMap<NodeName, Known>,
}

/// What the client knows of a node.
#[derive(Debug)]
struct Known {
    columns: Arc<Vec<Series>>,
    /// The readings of the row sent last; `None` when the next row must be sent whole.
    last: Option<Vec<Reading>>,
}

impl Encoder {
    /// With `changes` only the first row after each `columns` is sent whole.
    pub(crate) fn new(rate: Rate, changes: bool) -> Self {
        Encoder { rate, changes, nodes: HashMap::new() }
    }

    /// Appends the events of one delivery to `out`; true when one of them has rows.
    pub(crate) fn push(&mut self, delivery: &Delivery, out: &mut String) -> bool {
        if !self.nodes.get(&delivery.node).is_some_and(|known| Arc::ptr_eq(&known.columns, &delivery.columns))
        {
            self.columns_event(delivery, out);
            let known = Known { columns: Arc::clone(&delivery.columns), last: None };
            self.nodes.insert(delivery.node.clone(), known);
        }
        if delivery.rows.is_empty() && delivery.lost == 0 {
            return false;
        }
        self.rows_event(delivery, out);
        true
    }

    fn columns_event(&self, delivery: &Delivery, out: &mut String) {
        out.push_str("event: columns\ndata: {\"node\":");
        json::text(out, delivery.node.as_str());
        out.push_str(",\"rate\":");
        json::text(out, &self.rate.to_string());
        out.push_str(",\"period_ns\":");
        json::number(out, self.rate.period().0);
        out.push_str(",\"columns\":");
        json::columns(out, &delivery.columns);
        out.push_str("}\n\n");
    }

    fn rows_event(&mut self, delivery: &Delivery, out: &mut String) {
        out.push_str("event: rows\ndata: {\"node\":");
        json::text(out, delivery.node.as_str());
        out.push_str(",\"lost\":");
        json::number(out, delivery.lost);
        out.push_str(",\"rows\":");
        let changes = self.changes;
        let mut known = self.nodes.get_mut(&delivery.node).filter(|_| changes);
        json::list(out, &delivery.rows, |out, row| {
            out.push('{');
            json::stamp(out, row.stamp);
            match known.as_mut().and_then(|known| known.last.as_mut()) {
                Some(last) => changed_json(out, &delivery.columns, row, last),
                None => {
                    out.push_str(",\"v\":");
                    json::readings(out, &delivery.columns, &row.readings);
                    if let Some(known) = &mut known {
                        known.last = Some(row.readings.clone());
                    }
                }
            }
            out.push('}');
        });
        out.push_str("}\n\n");
    }
}

/// Appends a `notice` for every sentence, with all nodes that it concerns: one refusal of four thousand nodes is
/// one event.
pub(crate) fn notices(notices: &[Notice], out: &mut String) {
    let mut sentences: Vec<(&str, Vec<&NodeName>)> = Vec::new();
    for notice in notices {
        match sentences.iter_mut().find(|(text, _)| *text == notice.text) {
            Some((_, nodes)) => nodes.push(&notice.node),
            None => sentences.push((&notice.text, vec![&notice.node])),
        }
    }
    for (text, nodes) in sentences {
        out.push_str("event: notice\ndata: {\"nodes\":");
        json::list(out, nodes, |out, node| json::text(out, node.as_str()));
        out.push_str(",\"text\":");
        json::text(out, text);
        out.push_str("}\n\n");
    }
}

/// `,"c":[column,value,…]`: what differs from `last`, which becomes this row.
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
        json::reading(out, reading, column.metric.places);
        first = false;
    }
    out.push(']');
}
