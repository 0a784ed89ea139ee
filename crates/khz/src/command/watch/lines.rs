//! Rows as lines, separated by tabs, or as one JSON object each. Values stay exact.

use std::collections::HashMap;
use std::io::{self, Write};

use khz_model::Nanos;
use serde_json::{Map, Value, json};

use super::printer::{Change, Line, Printer};
use super::rates::Shown;
use crate::show::quantities;
use crate::show::table::json_line;
use khz_ask::{Cell, Column};

/// Prints every row on a line of its own.
pub struct Lines<'a, W> {
    as_json: bool,
    out: &'a mut W,
    /// For each node the titles and the rate that hold for it.
    headers: HashMap<String, String>,
    /// For each node that lost rows, how many the last line about losses says.
    lost: HashMap<String, u64>,
    /// The header that was printed first. Nodes with the same columns get no header of their own.
    first: Option<String>,
}

impl<'a, W: Write> Lines<'a, W> {
    /// Lines to `out`.
    pub fn new(as_json: bool, out: &'a mut W) -> Self {
        Lines { as_json, out, headers: HashMap::new(), lost: HashMap::new(), first: None }
    }

    /// The columns of a node, once and whenever they change.
    fn header(&mut self, line: &Line<'_>) -> io::Result<()> {
        let titles: Vec<String> =
            line.columns.iter().enumerate().map(|(at, column)| title(column, line.shown.get(at))).collect();
        let header = format!("at {}\n# time\tnode\t{}", line.rate, titles.join("\t"));
        let known = self.headers.get(line.node);
        if known.is_some_and(|known| *known == header) {
            return Ok(());
        }
        let is_first = self.first.is_none();
        if is_first || known.is_some() || self.first.as_ref() != Some(&header) {
            writeln!(self.out, "# {} {header}", line.node)?;
        }
        if is_first {
            self.first = Some(header.clone());
        }
        self.headers.insert(line.node.to_owned(), header);
        Ok(())
    }

    /// The rows of a node that were lost, before the first row after each loss.
    fn losses(&mut self, line: &Line<'_>) -> io::Result<()> {
        if line.lost == self.lost.get(line.node).copied().unwrap_or(0) {
            return Ok(());
        }
        self.lost.insert(line.node.to_owned(), line.lost);
        writeln!(self.out, "# {}: rows lost since the start: {}", line.node, line.lost)
    }
}

impl<W: Write> Printer for Lines<'_, W> {
    fn window_min(&self) -> Nanos {
        Nanos(0)
    }

    fn print(&mut self, line: &Line<'_>) -> io::Result<()> {
        if self.as_json {
            writeln!(self.out, "{}", json_line(&object(line)))?;
        } else {
            self.header(line)?;
            self.losses(line)?;
            let cells: Vec<String> = line.shown.iter().map(word).collect();
            writeln!(self.out, "{}\t{}\t{}", line.time.seconds_text(), line.node, cells.join("\t"))?;
        }
        // The reader of a pipe wants each row at once.
        self.out.flush()
    }

    fn change(&mut self, change: &Change<'_>) -> io::Result<()> {
        if self.as_json {
            writeln!(self.out, "{}", json_line(&event(change)))?;
        }
        self.out.flush()
    }

    fn clear(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// `net.rx_bytes[eth0] (bytes/s)`; labels have no unit.
fn title(column: &Column, shown: Option<&Shown>) -> String {
    if matches!(shown, Some(Shown::Value(Cell::Info(_)))) {
        return column.series.clone();
    }
    let is_rate = column.counter && !matches!(shown, Some(Shown::Value(Cell::Present { .. })));
    let unit = if is_rate { column.rate_unit().name() } else { column.unit.as_str().into() };
    format!("{} ({unit})", column.series)
}

fn word(shown: &Shown) -> String {
    match shown {
        Shown::Value(Cell::Absent(_)) => "absent".to_owned(),
        Shown::Value(Cell::Failed(_)) => "failed".to_owned(),
        Shown::Unknown(_) => "unknown".to_owned(),
        Shown::Value(cell) => cell.text().unwrap_or_default(),
        Shown::PerSecond(rate) => plain(*rate),
    }
}

/// A row as an object.
pub fn object(line: &Line<'_>) -> Value {
    let values: Map<String, Value> = line
        .columns
        .iter()
        .zip(line.shown)
        .map(|(column, shown)| {
            let value = match shown {
                Shown::Value(Cell::Info(labels)) => json!({ "info": quantities::labels_json(labels) }),
                Shown::Value(Cell::Absent(why)) => json!({ "absent": why }),
                Shown::Value(Cell::Failed(fault)) => json!({ "failed": fault }),
                Shown::Unknown(why) => json!({ "unknown": why }),
                known => json!(word(known)),
            };
            (column.series.clone(), value)
        })
        .collect();
    json!({ "node": line.node, "time": line.time.seconds_text(), "rate": line.rate, "lost": line.lost, "values": values })
}

/// A line for a change: it has `event` in place of `values`.
fn event(change: &Change<'_>) -> Value {
    match *change {
        Change::Node { node, state, since } => {
            json!({ "event": "node", "node": node, "state": state, "since": since })
        }
        Change::Server { server, is_silent, span } => {
            let state = if is_silent { "silent" } else { "back" };
            let span = Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)).seconds_text();
            json!({ "event": "server", "server": server, "state": state, "silent_seconds": span })
        }
        Change::Channel { name, definition } => {
            json!({ "event": "channel", "channel": name, "definition": definition })
        }
        Change::Outage { away, missing, unknown } => {
            let span = Nanos(u64::try_from(away.as_nanos()).unwrap_or(u64::MAX)).seconds_text();
            json!({ "event": "outage", "away_seconds": span, "missing": missing, "unknown": unknown })
        }
    }
}

/// A rate as a plain decimal: six places at most, no zeros at its end, never an exponent.
fn plain(rate: f64) -> String {
    let text = format!("{rate:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn rates_are_plain_decimals() {
        for (rate, text) in [(10000.0, "10000"), (0.25, "0.25"), (1e15, "1000000000000000"), (0.0, "0")] {
            assert_eq!(plain(rate), text);
        }
    }
}
