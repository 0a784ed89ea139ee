//! Rows on a terminal: one table, redrawn in place, a few times a second whatever the rate. It refuses to
//! scroll: what does not fit is counted.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use khz_model::Nanos;

use super::{Line, Paper};
use crate::feed::Cell;
use crate::quantities;
use crate::rates::Shown;
use crate::table::{Side, Table, cut, printable};

/// A person reads no faster.
const REDRAW_PERIOD: Duration = Duration::from_millis(200);
/// Rates on a screen are means over this time: at 1,000 Hz a number would flicker between 0 and a burst.
const WINDOW: Nanos = Nanos::from_millis(250);

/// A table that is redrawn.
pub struct Screen<'a, W> {
    columns: usize,
    lines: usize,
    out: &'a mut W,
    /// What each node shows, in the order in which they came.
    nodes: Vec<(String, String)>,
    drawn_lines: usize,
    drawn_at: Option<Instant>,
    is_stale: bool,
}

impl<'a, W: Write> Screen<'a, W> {
    /// A screen of that size.
    pub fn new(columns: usize, lines: usize, out: &'a mut W) -> Self {
        Screen { columns, lines, out, nodes: Vec::new(), drawn_lines: 0, drawn_at: None, is_stale: false }
    }

    /// Takes the place of what was drawn before.
    fn draw(&mut self) -> io::Result<()> {
        let mut text = String::new();
        let all: Vec<&str> = self.nodes.iter().flat_map(|(_, table)| table.lines()).collect();
        // The line below the table belongs to the cursor.
        let room = self.lines.saturating_sub(1).max(1);
        let fitting = if all.len() > room { room - 1 } else { all.len() };
        for line in &all[..fitting] {
            text.push_str(line);
            text.push('\n');
        }
        if fitting < all.len() {
            let left_out = all.len() - fitting;
            text.push_str(&cut(&format!("… and {left_out} more; name fewer series"), self.columns));
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

impl<W: Write> Paper for Screen<'_, W> {
    fn window_min(&self) -> Nanos {
        WINDOW
    }

    fn print(&mut self, line: &Line<'_>) -> io::Result<()> {
        let is_due = self.drawn_at.is_none_or(|drawn_at| drawn_at.elapsed() >= REDRAW_PERIOD);
        let table = node_table(line, self.columns);
        match self.nodes.iter_mut().find(|(node, _)| node == line.node) {
            Some((_, old)) => *old = table,
            None => self.nodes.push((line.node.to_owned(), table)),
        }
        self.is_stale = true;
        if is_due { self.draw() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_stale { self.draw() } else { Ok(()) }
    }
}

fn node_table(line: &Line<'_>, width: usize) -> String {
    let lost = match line.lost {
        0 => String::new(),
        rows => format!("   {rows} rows lost"),
    };
    let head = format!("{} at {}   {} UTC{lost}", line.node, line.rate, clock(line.time));
    let mut table = Table::new(&[("SERIES", Side::Left), ("NOW", Side::Right)], 0);
    for (column, shown) in line.columns.iter().zip(line.shown) {
        let series = column.series.clone();
        match shown {
            Shown::Value(Cell::Absent(why)) => table.remark(series, &format!("absent: {why}")),
            Shown::Value(Cell::Failed(fault)) => table.remark(series, &format!("FAILED: {fault}")),
            Shown::Unknown(why) => table.remark(series, &format!("unknown: {why}")),
            Shown::PerSecond(rate) => table.row([series, quantities::of_rate(*rate, &column.unit)]),
            Shown::Value(cell) => {
                let value = cell.decimal().map(|decimal| decimal.to_string()).unwrap_or_default();
                table.row([series, quantities::of_value(&value, &column.unit)]);
            }
        }
    }
    format!("{}\n{}", cut(&printable(&head), width), table.render(Some(width)))
}

/// `2025-11-21 01:53:20.500`.
fn clock(time: Nanos) -> String {
    let (seconds, millis) = (time.0 / 1_000_000_000, time.0 / 1_000_000 % 1_000);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

/// The Gregorian date of a day counted from 1970-01-01. Years are taken to begin in March, so that the leap
/// day is the last of its year; 400 of them are an era of always 146,097 days.
fn date(day: u64) -> (u64, u64, u64) {
    let since_march_0000 = day + 719_468;
    let (era, of_era) = (since_march_0000 / 146_097, since_march_0000 % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // March to July and August to December repeat the same lengths: 153 days in five months.
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_calendar() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_413, (2025, 11, 21)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(day), expected);
        }
    }
}
