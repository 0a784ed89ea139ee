//! One node: its newest rows, and the curves of its charts. Live and past rows are handled in the same way.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use khz_ask::{Column, Row};
use khz_model::Nanos;

use super::curve::Curve;
use super::measures::{Measures, Summary};
use super::odd::Way;
use super::odd_times::OddSince;
use super::table::Table;

/// The subscriptions of one node: one at the user's rate, and one a second for slow series.
pub const FEEDS: usize = 2;

/// Numbers on a screen are means over at least this time: at 1,000 Hz a number would flicker between 0 and a burst.
const WINDOW: Nanos = Nanos::from_millis(250);

/// The most curves of one node. Further disks, interfaces and processors get none.
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
    /// The cached numbers for a list, which is drawn more often than each node sends a row.
    summary: OnceCell<Summary>,
    curves: BTreeMap<String, Curve>,
    keep: Keep,
    /// Rows that were lost.
    pub lost: u64,
    /// Its state, if it is known: up, down, left, missing.
    pub state: Option<String>,
    /// Since when it has this state, if known.
    pub since: Option<Nanos>,
    /// In which ways it differs from the others, and since when.
    pub odd_since: Vec<(Way, OddSince)>,
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
            odd_since: Vec::new(),
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

    /// Since when it differs from the others in this way.
    pub fn odd_since(&self, way: Way) -> Option<OddSince> {
        self.odd_since.iter().find(|(known, _)| *known == way).map(|(_, since)| *since)
    }

    /// The rate of its first subscription.
    pub fn rate(&self) -> Option<&str> {
        self.tables.iter().flatten().map(|table| table.rate.as_str()).next()
    }

    /// True if it sends no rows.
    pub fn is_away(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state != khz_model::Presence::Up.as_str())
    }

    /// The columns of a subscription have come.
    pub fn has_columns(&self, feed: usize) -> bool {
        self.tables.get(feed).is_some_and(Option::is_some)
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
        let before = table.time;
        table.row(row);
        self.summary.take();
        let step = self.keep.step.0.max(1);
        let column = row.time.0 / step;
        // Rows come a little early or late: an empty column between two consecutive rows is no gap.
        let skipped =
            (before > Nanos(0) && column == before.0 / step + 2 && row.time.since(before).0 < 2 * step)
                .then(|| column - 1);
        for (name, number) in self.charted(feed) {
            if self.curves.len() >= CURVES_MAX && !self.curves.contains_key(&name) {
                continue;
            }
            let most = self.keep.columns;
            let curve = self.curves.entry(name).or_insert_with(|| Curve::new(most));
            if let Some(skipped) = skipped.filter(|skipped| curve.newest() + 1 == *skipped) {
                curve.push(skipped, number);
            }
            curve.push(column, number);
        }
    }

    /// The current numbers of its charts, as far as this subscription has them.
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
        // The other subscription has the missing ones.
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
            // The newest column of a slower subscription may lag a little.
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
