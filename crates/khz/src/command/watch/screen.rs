//! Rows on a terminal: one table, redrawn in place, at most five times a second. It does not scroll: lines that do not fit
//! are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use khz_model::calendar::Civil;
use khz_model::{Nanos, Presence};

use super::printer::{Change, Line, Printer};
use super::rates::Shown;
use crate::show::matrix::Matrix;
use crate::show::quantities;
use crate::show::table::{Side, Table, cut, printable};
use khz_ask::{Cell, Column};
use khz_model::fold::by_name;

/// People read no faster.
const REDRAW_PERIOD: Duration = Duration::from_millis(200);
/// Rates on a screen are means over this time: at 1,000 Hz a number would flicker between 0 and a burst.
const WINDOW: Nanos = Nanos::from_millis(250);

/// The present picture of a node.
struct Page {
    head: String,
    table: String,
    /// Its state where it is not up; its numbers are the last ones from before.
    away: Option<String>,
    cells: Vec<(String, String)>,
    time: Nanos,
    rate: String,
    lost: u64,
}

/// A table that is redrawn.
pub struct Screen<'a, W> {
    columns: usize,
    lines: usize,
    out: &'a mut W,
    /// The present picture of each node.
    nodes: BTreeMap<String, Page>,
    drawn_lines: usize,
    drawn_at: Option<Instant>,
    is_stale: bool,
}

impl<'a, W: Write> Screen<'a, W> {
    /// A screen of that size.
    pub fn new(columns: usize, lines: usize, out: &'a mut W) -> Self {
        Screen {
            columns,
            lines,
            out,
            nodes: BTreeMap::new(),
            drawn_lines: 0,
            drawn_at: None,
            is_stale: false,
        }
    }

    /// Several nodes as rows of one table; `None` for a single one, or when it does not fit.
    fn across(&self) -> Option<String> {
        if self.nodes.len() < 2 {
            return None;
        }
        let mut matrix = Matrix::default();
        for (node, page) in &self.nodes {
            let name = match &page.away {
                Some(state) => format!("{node} ({state})"),
                None => node.clone(),
            };
            matrix.node(&name, page.cells.iter().cloned());
        }
        let table = matrix.table(Some(self.columns))?;
        let rates: BTreeSet<&str> = self.nodes.values().map(|page| page.rate.as_str()).collect();
        let rates = rates.into_iter().collect::<Vec<_>>().join(", ");
        let time = self.nodes.values().map(|page| page.time).max().unwrap_or_default();
        let lost = self.nodes.values().map(|page| page.lost).sum();
        let head = head(&format!("{} nodes", self.nodes.len()), &rates, time, lost);
        Some(format!("{}\n{}", cut(&head, self.columns), table.render(Some(self.columns))))
    }

    /// One node below the other, in natural order.
    fn below(&self) -> String {
        let mut nodes: Vec<_> = self.nodes.iter().collect();
        nodes.sort_by(|(a, _), (b, _)| by_name(a, b));
        let whole = |page: &Page| {
            let away = page.away.as_ref().map(|state| format!("   {state}")).unwrap_or_default();
            format!("{}\n{}", cut(&printable(&format!("{}{away}", page.head)), self.columns), page.table)
        };
        nodes.into_iter().map(|(_, page)| whole(page)).collect()
    }

    /// Draws over the last picture.
    fn draw(&mut self) -> io::Result<()> {
        let mut text = String::new();
        let whole = self.across().unwrap_or_else(|| self.below());
        let all: Vec<&str> = whole.lines().collect();
        // The cursor needs the line below the table.
        let room = self.lines.saturating_sub(1).max(1);
        let fitting = if all.len() > room { room - 1 } else { all.len() };
        for line in &all[..fitting] {
            text.push_str(line);
            text.push('\n');
        }
        if fitting < all.len() {
            let left_out = all.len() - fitting;
            text.push_str(&cut(&format!("… and {left_out} more; name fewer nodes or series"), self.columns));
            text.push('\n');
        }
        let up = match self.drawn_lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A"),
        };
        write!(self.out, "{up}\r\x1b[J{text}")?;
        self.out.flush()?;
        self.drawn_lines = text.lines().count();
        self.drawn_at = Some(Instant::now());
        self.is_stale = false;
        Ok(())
    }
}

impl<W: Write> Printer for Screen<'_, W> {
    fn window_min(&self) -> Nanos {
        WINDOW
    }

    fn print(&mut self, line: &Line<'_>) -> io::Result<()> {
        let is_due = self.drawn_at.is_none_or(|drawn_at| drawn_at.elapsed() >= REDRAW_PERIOD);
        let cells = line.columns.iter().zip(line.shown);
        let page = Page {
            head: head(line.node, line.rate, line.time, line.lost),
            table: node_table(line, self.columns),
            away: None,
            cells: cells.map(|(column, shown)| (column.series.clone(), cell(column, shown))).collect(),
            time: line.time,
            rate: line.rate.to_owned(),
            lost: line.lost,
        };
        self.nodes.insert(line.node.to_owned(), page);
        self.is_stale = true;
        if is_due { self.draw() } else { Ok(()) }
    }

    fn change(&mut self, change: &Change<'_>) -> io::Result<()> {
        if let Change::Node { node, state, .. } = *change
            && let Some(page) = self.nodes.get_mut(node)
        {
            page.away = (state != Presence::Up.as_str()).then(|| state.to_owned());
            self.is_stale = true;
        }
        // The table was cleared for the sentence on stderr.
        self.finish()
    }

    fn clear(&mut self) -> io::Result<()> {
        if self.drawn_lines > 0 {
            write!(self.out, "\x1b[{}A\r\x1b[J", self.drawn_lines)?;
        }
        self.drawn_lines = 0;
        self.is_stale = !self.nodes.is_empty();
        self.drawn_at = None;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_stale { self.draw() } else { Ok(()) }
    }
}

/// `n1 at 10Hz   2025-11-21 01:53:20.500 UTC   2 rows lost`.
fn head(who: &str, rate: &str, time: Nanos, lost: u64) -> String {
    let lost = match lost {
        0 => String::new(),
        rows => format!("   {rows} rows lost"),
    };
    format!("{who} at {rate}   {} UTC{lost}", clock(time))
}

/// The text of a cell in a table of several nodes, which has no room for a reason.
fn cell(column: &Column, shown: &Shown) -> String {
    match shown {
        Shown::Value(Cell::Absent(_)) => "absent".to_owned(),
        Shown::Value(Cell::Failed(_)) => "FAILED".to_owned(),
        Shown::Unknown(_) => "unknown".to_owned(),
        Shown::PerSecond(rate) => quantities::of_rate(*rate, &column.rate_unit()),
        Shown::Value(value) => {
            let value = value.text().unwrap_or_default();
            quantities::of_value(&value, &column.unit)
        }
    }
}

fn node_table(line: &Line<'_>, width: usize) -> String {
    let mut table = Table::new(&[("SERIES", Side::Left), ("NOW", Side::Right)], 0);
    for (column, shown) in line.columns.iter().zip(line.shown) {
        let series = column.series.clone();
        match shown {
            Shown::Value(Cell::Absent(why)) => table.remark(series, &format!("absent: {why}")),
            Shown::Value(Cell::Failed(fault)) => table.remark(series, &format!("FAILED: {fault}")),
            Shown::Unknown(why) => table.remark(series, &format!("unknown: {why}")),
            Shown::Value(Cell::Info(labels)) => table.description(series, labels),
            known => table.row([series, cell(column, known)]),
        }
    }
    table.render(Some(width))
}

/// `2025-11-21 01:53:20.500`.
fn clock(time: Nanos) -> String {
    format!("{}.{:03}", Civil::of(time), time.0 / 1_000_000 % 1_000)
}
