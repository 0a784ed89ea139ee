//! Rates of counters: their growth a second, over a window of several of the kernel's own ticks. After a first value, a
//! counter that went backwards, or a clock that was set back, the rate is unknown.

use std::collections::{HashMap, VecDeque};

use khz_model::{Nanos, Unit};

use khz_ask::{Cell, Column, Row};

/// A share is computed over at least this many ticks. Over less than 100 ms, ten ticks of 10 ms, a CPU share is mostly
/// rounding.
const STEPS_PER_SHARE: u64 = 10;
/// Rows kept for the longest window: a tenth of a second at 10,000 Hz, a quarter at 1,000 Hz, and some.
const ROWS_MAX: usize = 1_100;

/// Digits and decimal places; `None` without a value.
type Number = Option<(i128, u8)>;

/// What a cell shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// The value itself: a gauge, or a total with `--raw`.
    Value(Cell),
    /// Growth a second, in the column's unit.
    PerSecond(f64),
    /// There is a value, but no rate yet.
    Unknown(&'static str),
}

/// The rows that rates are computed from.
pub struct Rates {
    columns: Vec<Tracked>,
    rows: VecDeque<(Nanos, Vec<Number>)>,
    raw: bool,
    window_min: Nanos,
    window_max: Nanos,
}

#[derive(Clone)]
struct Tracked {
    /// Shown as a rate.
    is_rate: bool,
    /// Shortest time to compute it over.
    window: Nanos,
    /// Since when it has grown without a break.
    growing_since: Option<Nanos>,
}

impl Rates {
    /// Rates of these columns, over at least `window_min`; with `raw` everything is shown as it is.
    pub fn new(columns: &[Column], raw: bool, window_min: Nanos) -> Self {
        let mut rates =
            Rates { columns: Vec::new(), rows: VecDeque::new(), raw, window_min, window_max: Nanos(0) };
        rates.change(&[], columns);
        rates
    }

    /// Takes other columns: some appear, and those of series that are gone leave. The rates of the others go on.
    pub fn change(&mut self, before: &[Column], columns: &[Column]) {
        let places: HashMap<&str, usize> =
            before.iter().enumerate().map(|(at, column)| (column.series.as_str(), at)).collect();
        let place = |column: &Column| places.get(column.series.as_str()).copied();
        let kept: Vec<Option<usize>> =
            columns.iter().map(|column| place(column).filter(|&at| before[at] == *column)).collect();
        for (_, values) in &mut self.rows {
            *values = kept.iter().map(|at| at.and_then(|at| values.get(at).copied().flatten())).collect();
        }
        let tracked = columns.iter().zip(&kept).map(|(column, at)| match at {
            Some(at) => self.columns[*at].clone(),
            None => self.tracked(column),
        });
        self.columns = tracked.collect();
        self.window_max = self.columns.iter().map(|column| column.window).max().unwrap_or(Nanos(0));
    }

    fn tracked(&self, column: &Column) -> Tracked {
        let is_rate = column.counter && !self.raw;
        let window = if is_rate { window_of(column).max(self.window_min) } else { Nanos(0) };
        Tracked { is_rate, window, growing_since: None }
    }

    /// True where the first row has no rates to show yet.
    pub fn only_starts(&self) -> bool {
        self.rows.is_empty() && self.columns.iter().any(|column| column.is_rate)
    }

    /// Takes the next row. Returns what each of its cells shows.
    pub fn row(&mut self, row: &Row) -> Vec<Shown> {
        // A row of the same instant comes again when a column was added. It replaces the first one.
        if self.rows.back().is_some_and(|(last, _)| *last == row.clock) {
            self.rows.pop_back();
        }
        let clock_went_back = self.rows.back().is_some_and(|(last, _)| row.clock < *last);
        if clock_went_back {
            self.rows.clear();
            self.columns.iter_mut().for_each(|column| column.growing_since = None);
        }
        self.note_breaks(row);
        let shown = row.cells.iter().zip(&self.columns).enumerate();
        let shown = shown.map(|(at, (cell, column))| match cell {
            Cell::Present { units, places } if column.is_rate => {
                if clock_went_back {
                    return Shown::Unknown("the clock was set back");
                }
                self.rate(at, column, row.clock, *units, *places)
            }
            _ => Shown::Value(cell.clone()),
        });
        let shown = shown.collect();
        self.keep(row);
        shown
    }

    /// The growth of a column starts again where it has no value, and where the value is less than the last one.
    fn note_breaks(&mut self, row: &Row) {
        let last = self.rows.back().map(|(_, values)| values);
        for (at, column) in self.columns.iter_mut().enumerate() {
            let value = row.cells.get(at).and_then(number);
            let before = last.and_then(|values| values.get(at).copied().flatten());
            let grows = match (before, value) {
                (Some((before, places)), Some((now, same))) => before <= now && places == same,
                _ => false,
            };
            match value {
                None => column.growing_since = None,
                Some(_) if !grows => column.growing_since = Some(row.clock),
                Some(_) => {}
            }
        }
    }

    fn rate(&self, at: usize, column: &Tracked, now: Nanos, units: i128, places: u8) -> Shown {
        let Some(since) = column.growing_since.filter(|since| *since < now) else {
            let went_back = self.rows.back().and_then(|(_, values)| values.get(at).copied().flatten());
            let why = if went_back.is_some() { "the counter went backwards" } else { "first value" };
            return Shown::Unknown(why);
        };
        let newest = now.0.saturating_sub(column.window.0);
        let candidates = self.rows.partition_point(|(time, _)| time.0 <= newest);
        let base = candidates.checked_sub(1).and_then(|base| self.rows.get(base));
        let Some((then, values)) = base.filter(|(then, _)| since <= *then) else {
            return Shown::Unknown("not long enough yet");
        };
        let Some((before, _)) = values.get(at).copied().flatten() else {
            return Shown::Unknown("first value");
        };
        let grown = units.saturating_sub(before) as f64 / 10f64.powi(places.into());
        Shown::PerSecond(grown / now.since(*then).as_secs_f64())
    }

    /// Keeps this row and all rows back to the start of the longest window, and one more: the newest row may be replaced.
    fn keep(&mut self, row: &Row) {
        self.rows.push_back((row.clock, row.cells.iter().map(number).collect()));
        let oldest = row.clock.0.saturating_sub(self.window_max.0);
        while self.rows.len() > ROWS_MAX || self.rows.get(2).is_some_and(|(time, _)| time.0 <= oldest) {
            self.rows.pop_front();
        }
    }
}

/// The window of a column. The kernel counts times in ticks: a share needs several of them.
fn window_of(column: &Column) -> Nanos {
    let tick = 1_000_000_000 / 10u64.pow(u32::from(column.places.min(9)));
    if column.unit == Unit::Seconds.as_str() { Nanos(tick * STEPS_PER_SHARE) } else { Nanos(0) }
}

fn number(cell: &Cell) -> Number {
    match cell {
        Cell::Present { units, places } => Some((*units, *places)),
        Cell::Text(_) | Cell::Info(_) | Cell::Absent(_) | Cell::Failed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(counter: bool, unit: &str, places: u8) -> Column {
        Column { series: "x".to_owned(), counter, unit: unit.to_owned(), places }
    }

    fn at(millis: u64, units: u64, places: u8) -> Row {
        let clock = Nanos::from_millis(1_000_000 + millis);
        Row { time: clock, clock, cells: vec![Cell::Present { units: units.into(), places }] }
    }

    fn only(mut shown: Vec<Shown>) -> Shown {
        shown.remove(0)
    }

    #[test]
    fn counters_become_rates_and_gauges_stay() {
        let mut rates = Rates::new(&[column(true, "bytes", 0)], false, Nanos(0));
        assert!(rates.only_starts());
        assert_eq!(only(rates.row(&at(0, 100, 0))), Shown::Unknown("first value"));
        assert_eq!(only(rates.row(&at(10, 110, 0))), Shown::PerSecond(1000.0));
        assert_eq!(only(rates.row(&at(20, 110, 0))), Shown::PerSecond(0.0));
        let mut gauges = Rates::new(&[column(false, "bytes", 0)], false, Nanos(0));
        assert!(!gauges.only_starts());
        assert_eq!(only(gauges.row(&at(0, 7, 0))), Shown::Value(Cell::Present { units: 7, places: 0 }));
    }

    #[test]
    fn raw_shows_the_total() {
        let mut rates = Rates::new(&[column(true, "bytes", 0)], true, Nanos(0));
        assert_eq!(only(rates.row(&at(0, 9, 0))), Shown::Value(Cell::Present { units: 9, places: 0 }));
    }

    #[test]
    fn counter_reset_yields_unknown_not_negative() {
        let mut rates = Rates::new(&[column(true, "count", 0)], false, Nanos(0));
        rates.row(&at(0, 1000, 0));
        assert_eq!(only(rates.row(&at(10, 5, 0))), Shown::Unknown("the counter went backwards"));
        assert_eq!(only(rates.row(&at(20, 6, 0))), Shown::PerSecond(100.0));
    }

    #[test]
    fn a_cpu_share_is_taken_over_a_tenth_of_a_second() {
        // 1,000 Hz; a tick of 10 ms is counted at every tenth row: the share is 1.0 throughout.
        let mut rates = Rates::new(&[column(true, "seconds", 2)], false, Nanos(0));
        for milli in 0..300 {
            let shown = only(rates.row(&at(milli, milli / 10, 2)));
            match shown {
                Shown::PerSecond(share) => {
                    assert!(milli >= 100, "too early: {milli}");
                    assert!((0.9..=1.1).contains(&share), "{share} at {milli}");
                }
                Shown::Unknown(_) => assert!(milli < 100, "too late: {milli}"),
                Shown::Value(_) => panic!("a counter shown as a value"),
            }
        }
        assert!(rates.rows.len() <= 103);
    }

    #[test]
    fn a_reset_inside_the_window_is_not_averaged_away() {
        let mut rates = Rates::new(&[column(true, "seconds", 2)], false, Nanos(0));
        rates.row(&at(0, 100, 2));
        rates.row(&at(50, 0, 2));
        rates.row(&at(60, 120, 2));
        assert_eq!(only(rates.row(&at(110, 121, 2))), Shown::Unknown("not long enough yet"));
        assert_eq!(only(rates.row(&at(160, 130, 2))), Shown::PerSecond(0.1 / 0.1));
    }

    #[test]
    fn after_a_gap_the_rate_starts_again() {
        let mut rates = Rates::new(&[column(true, "count", 0)], false, Nanos(0));
        rates.row(&at(0, 100, 0));
        let gone = Row { cells: vec![Cell::Absent("gone".to_owned())], ..at(10, 0, 0) };
        assert_eq!(only(rates.row(&gone)), Shown::Value(Cell::Absent("gone".to_owned())));
        assert_eq!(only(rates.row(&at(20, 200, 0))), Shown::Unknown("first value"));
        assert_eq!(only(rates.row(&at(30, 201, 0))), Shown::PerSecond(100.0));
    }

    #[test]
    fn a_clock_set_back_yields_unknown() {
        let mut rates = Rates::new(&[column(true, "count", 0)], false, Nanos(0));
        rates.row(&at(1000, 100, 0));
        assert_eq!(only(rates.row(&at(10, 101, 0))), Shown::Unknown("the clock was set back"));
        assert_eq!(only(rates.row(&at(20, 102, 0))), Shown::PerSecond(100.0));
    }

    #[test]
    fn a_jump_of_the_wall_clock_touches_no_rate() {
        let mut rates = Rates::new(&[column(true, "count", 0)], false, Nanos(0));
        rates.row(&at(0, 100, 0));
        let an_hour_on = Row { time: Nanos::from_secs(3_600), ..at(10, 101, 0) };
        assert_eq!(only(rates.row(&an_hour_on)), Shown::PerSecond(100.0));
    }

    #[test]
    fn an_instant_that_comes_twice_counts_once() {
        let mut rates = Rates::new(&[column(true, "count", 0)], false, Nanos(0));
        rates.row(&at(0, 100, 0));
        rates.row(&at(10, 101, 0));
        assert_eq!(only(rates.row(&at(10, 101, 0))), Shown::PerSecond(100.0));
    }

    #[test]
    fn a_column_that_appears_later_starts_later() {
        let mut rates = Rates::new(&[column(true, "count", 0)], false, Nanos(0));
        assert_eq!(rates.row(&at(0, 1, 0)).len(), 1);
        rates.change(&named(&["x"]), &named(&["x", "y"]));
        let mut row = at(10, 2, 0);
        row.cells.push(Cell::Present { units: 5, places: 0 });
        assert_eq!(rates.row(&row), [Shown::PerSecond(100.0), Shown::Unknown("first value")]);
    }
    fn named(names: &[&str]) -> Vec<Column> {
        names.iter().map(|name| Column { series: (*name).to_owned(), ..column(true, "count", 0) }).collect()
    }

    #[test]
    fn columns_that_stay_keep_their_rates_while_others_leave_and_appear() {
        let mut rates = Rates::new(&named(&["gone", "stays"]), false, Nanos(0));
        let row = |millis, cells: &[u64]| Row {
            cells: cells.iter().map(|&units| Cell::Present { units: units.into(), places: 0 }).collect(),
            ..at(millis, 0, 0)
        };
        rates.row(&row(0, &[7, 100]));
        rates.row(&row(10, &[8, 101]));
        rates.change(&named(&["gone", "stays"]), &named(&["stays", "new"]));
        assert!(!rates.only_starts(), "the next row is shown");
        let first = Shown::Unknown("first value");
        assert_eq!(rates.row(&row(20, &[103, 1])), [Shown::PerSecond(200.0), first]);
        assert_eq!(rates.row(&row(30, &[104, 2])), [Shown::PerSecond(100.0), Shown::PerSecond(100.0)]);
    }
}
