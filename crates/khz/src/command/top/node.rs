//! One node: its newest rows, and the curves of what its charts show. Live rows and rows of the past take the same way.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use khz_ask::{Column, Row};
use khz_model::Nanos;

use super::curve::Curve;
use super::measures::{Measures, Summary};
use super::table::Table;

/// Subscriptions of one node: one at the user's rate, and one once a second of what changes slowly.
pub const FEEDS: usize = 2;

/// Numbers on a screen are means over at least this time: at 1,000 Hz a number would flicker between 0 and a burst.
const WINDOW: Nanos = Nanos::from_millis(250);

/// Curves of one node. More disks, interfaces and processors have none.
const CURVES_MAX: usize = 512;

/// How much is kept of the curves of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The width of a column.
    pub step: Nanos,
    /// Columns.
    pub columns: usize,
    /// Also those of single processors, disks and interfaces.
    pub parts: bool,
}

/// A node.
pub struct Node {
    tables: Vec<Option<Table>>,
    /// What a list shows of the newest rows: a list is drawn more often than each node sends a row.
    summary: OnceCell<Summary>,
    curves: BTreeMap<String, Curve>,
    keep: Keep,
    /// Rows that were lost.
    pub lost: u64,
    /// Its state, if it is known: up, down, left, missing.
    pub state: Option<String>,
    /// Since when, if that is known.
    pub since: Option<Nanos>,
    /// Since when it differs from the others.
    pub odd_since: Option<Nanos>,
}

impl Node {
    /// A node of which nothing has come.
    pub fn new(keep: Keep) -> Self {
        Node {
            tables: (0..FEEDS).map(|_| None).collect(),
            summary: OnceCell::new(),
            curves: BTreeMap::new(),
            keep,
            lost: 0,
            state: None,
            since: None,
            odd_since: None,
        }
    }

    /// Its numbers.
    pub fn measures(&self) -> Measures<'_> {
        Measures(&self.tables)
    }

    /// Those of its numbers that a list shows.
    pub fn summary(&self) -> &Summary {
        self.summary.get_or_init(|| self.measures().summary())
    }

    /// When its newest row was gathered.
    pub fn time(&self) -> Option<Nanos> {
        self.tables.iter().flatten().map(|table| table.time).max().filter(|time| *time > Nanos(0))
    }

    /// The rate of its first subscription.
    pub fn rate(&self) -> Option<&str> {
        self.tables.iter().flatten().map(|table| table.rate.as_str()).next()
    }

    /// True if it sends no rows.
    pub fn is_away(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state != khz_model::Presence::Up.as_str())
    }

    /// Takes the columns of a subscription.
    pub fn columns(&mut self, feed: usize, columns: Vec<Column>, rate: String) {
        self.summary.take();
        match self.tables.get_mut(feed) {
            Some(Some(table)) => table.change(columns, rate),
            Some(empty) => *empty = Some(Table::new(columns, rate, WINDOW)),
            None => {}
        }
    }

    /// Takes a row.
    pub fn row(&mut self, feed: usize, row: &Row) {
        let Some(Some(table)) = self.tables.get_mut(feed) else { return };
        table.row(row);
        self.summary.take();
        let column = row.time.0 / self.keep.step.0.max(1);
        for (name, number) in self.charted(feed) {
            if self.curves.len() >= CURVES_MAX && !self.curves.contains_key(&name) {
                continue;
            }
            let most = self.keep.columns;
            self.curves.entry(name).or_insert_with(|| Curve::new(most)).push(column, number);
        }
    }

    /// What its charts show now, as far as this subscription has it.
    fn charted(&self, feed: usize) -> Vec<(String, Option<f64>)> {
        let measures = Measures(&self.tables[feed..=feed]);
        let whole = [
            ("cpu", measures.cpu()),
            ("system", measures.share(&["system", "irq", "softirq"])),
            ("memory", measures.memory()),
            ("pressure.cpu", measures.pressure("cpu", "some")),
            ("pressure.memory", measures.pressure("memory", "some")),
            ("pressure.io", measures.pressure("io", "some")),
            ("traffic", measures.traffic()),
            ("disk", measures.disk()),
            ("load", measures.number("load.1m")),
        ];
        // The other subscription has those that this one does not have.
        let is_here = |number: &Option<f64>, name: &str| {
            number.is_some() || (feed == 0 && self.curves.contains_key(name))
        };
        let mut all: Vec<(String, Option<f64>)> = Vec::new();
        all.extend(
            whole
                .into_iter()
                .filter(|(name, number)| is_here(number, name))
                .map(|(name, number)| (name.to_owned(), number)),
        );
        if self.keep.parts {
            all.extend(measures.cores().into_iter().map(|(name, share)| (format!("core {name}"), share)));
            for disk in measures.disks() {
                let both = disk.read.zip(disk.written).map(|(read, written)| read + written);
                all.push((format!("disk {}", disk.name), both));
                all.push((format!("busy {}", disk.name), disk.busy));
            }
            for link in measures.links() {
                let both = link.received.zip(link.sent).map(|(received, sent)| received + sent);
                all.push((format!("net {}", link.name), both));
            }
        }
        all
    }

    /// The last columns of a curve, oldest first, up to its newest row, or the row at `until`. Unknown where there is no such curve.
    pub fn curve(&self, name: &str, count: usize, until: Option<Nanos>) -> Vec<Option<f64>> {
        let Some(time) = until.or(self.time()) else { return vec![None; count] };
        let column = time.0 / self.keep.step.0.max(1);
        match self.curves.get(name) {
            // The newest column of a slower subscription may be a little behind.
            Some(curve) => {
                curve.last(count, if until.is_some() { column } else { column.min(curve.newest()) })
            }
            None => vec![None; count],
        }
    }

    /// The width of a column of its curves.
    pub fn step(&self) -> Nanos {
        self.keep.step
    }
}
