//! The newest row of one subscription of one node, by series names, with rates for counters. It knows neither the screen nor the
//! meaning of numbers.

use std::collections::HashMap;

use khz_ask::{Cell, Column, Row};
use khz_model::{Labels, Nanos};

use crate::command::watch::{Rates, Shown};

/// The newest row.
pub struct Table {
    columns: Vec<Column>,
    rates: Rates,
    shown: Vec<Shown>,
    places: HashMap<String, usize>,
    /// Of each metric its instances, in the order of the columns.
    instances: HashMap<String, Vec<(String, usize)>>,
    /// When the row was gathered.
    pub time: Nanos,
    /// The rate that was granted, as text.
    pub rate: String,
}

impl Table {
    /// A table without a row. Rates are taken over at least this time.
    pub fn new(columns: Vec<Column>, rate: String, window: Nanos) -> Self {
        let rates = Rates::new(&columns, false, window);
        let mut table = Table {
            columns: Vec::new(),
            rates,
            shown: Vec::new(),
            places: HashMap::new(),
            instances: HashMap::new(),
            time: Nanos(0),
            rate,
        };
        table.index(columns);
        table
    }

    /// Replaces the columns. Columns that stay keep their rates.
    pub fn change(&mut self, columns: Vec<Column>, rate: String) {
        self.rates.change(&self.columns, &columns);
        self.shown.clear();
        self.rate = rate;
        self.index(columns);
    }

    fn index(&mut self, columns: Vec<Column>) {
        self.places.clear();
        self.instances.clear();
        for (at, column) in columns.iter().enumerate() {
            self.places.insert(column.series.clone(), at);
            if let Some((metric, rest)) = column.series.split_once('[') {
                let instance = rest.strip_suffix(']').unwrap_or(rest).to_owned();
                self.instances.entry(metric.to_owned()).or_default().push((instance, at));
            }
        }
        self.columns = columns;
    }

    /// Takes a row.
    pub fn row(&mut self, row: &Row) {
        self.shown = self.rates.row(row);
        self.time = row.time;
    }

    /// True if it has this series.
    pub fn has(&self, series: &str) -> bool {
        self.places.contains_key(series)
    }

    /// The value, or the growth a second; `None` where either is unknown.
    pub fn number(&self, series: &str) -> Option<f64> {
        self.at(*self.places.get(series)?)
    }

    fn at(&self, place: usize) -> Option<f64> {
        match self.shown.get(place)? {
            Shown::PerSecond(rate) => Some(*rate),
            Shown::Value(Cell::Present { units, places }) => {
                Some(*units as f64 / 10f64.powi(i32::from(*places)))
            }
            Shown::Value(Cell::Text(text)) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            Shown::Value(Cell::Info(_) | Cell::Absent(_) | Cell::Failed(_)) | Shown::Unknown(_) => None,
        }
    }

    /// The instances of a metric, each with its number.
    pub fn numbers<'a>(&'a self, metric: &str) -> impl Iterator<Item = (&'a str, Option<f64>)> {
        let instances = self.instances.get(metric).map(Vec::as_slice).unwrap_or_default();
        instances.iter().map(|(instance, place)| (instance.as_str(), self.at(*place)))
    }

    /// The instances of a metric with a value. A counter has a value before it has a rate.
    pub fn present<'a>(&'a self, metric: &str) -> impl Iterator<Item = &'a str> {
        let is_present = |place: &usize| match self.shown.get(*place) {
            Some(Shown::Value(cell)) => matches!(cell, Cell::Present { .. } | Cell::Text(_)),
            Some(Shown::PerSecond(_) | Shown::Unknown(_)) => true,
            None => false,
        };
        let instances = self.instances.get(metric).map(Vec::as_slice).unwrap_or_default();
        instances.iter().filter(move |(_, place)| is_present(place)).map(|(instance, _)| instance.as_str())
    }

    /// The labels that describe an instance of a metric.
    pub fn labels(&self, series: &str) -> Option<&Labels> {
        match self.shown.get(*self.places.get(series)?)? {
            Shown::Value(Cell::Info(labels)) => Some(labels),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(series: &str, counter: bool) -> Column {
        Column { series: series.to_owned(), counter, unit: "bytes".to_owned(), places: 0 }
    }

    fn row(seconds: u64, cells: Vec<Cell>) -> Row {
        Row { time: Nanos::from_secs(seconds), clock: Nanos::from_secs(seconds), cells }
    }

    #[test]
    fn gauges_are_values_counters_are_rates_and_what_is_unknown_is_nothing() {
        let columns =
            vec![column("mem.free", false), column("net.rx_bytes[eth0]", true), column("x[a]", false)];
        let mut table = Table::new(columns, "1Hz".to_owned(), Nanos(0));
        let present = |units| Cell::Present { units, places: 0 };
        table.row(&row(1, vec![present(7), present(100), Cell::Absent("gone".to_owned())]));
        assert_eq!(table.number("net.rx_bytes[eth0]"), None, "there is no rate yet");
        table.row(&row(3, vec![present(8), present(300), Cell::Failed("stuck".to_owned())]));
        assert_eq!((table.number("mem.free"), table.number("x[a]")), (Some(8.0), None));
        assert_eq!(table.numbers("net.rx_bytes").collect::<Vec<_>>(), [("eth0", Some(100.0))]);
        assert!(table.has("x[a]") && !table.has("y"));
        table.change(vec![column("net.rx_bytes[eth0]", true)], "1Hz".to_owned());
        table.row(&row(4, vec![present(310)]));
        assert_eq!(table.number("net.rx_bytes[eth0]"), Some(10.0), "a column that stays keeps its rate");
    }
}
