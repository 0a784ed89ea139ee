//! What a screen shows of each node: its newest values, the form of the last ones, and whether it is there. Draws nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use khz_ask::{Cell as Value, Column};
use khz_model::{Labels, Nanos};

use super::printer::Line;
use super::rates::Shown;
use crate::show::look::Tone;
use crate::show::quantities;
use crate::show::spark::Spark;
use crate::show::table::Cell;

/// Series whose last values are kept, half a kilobyte each. Nobody sees the others: a screen has far fewer lines.
const TRENDS_MAX: usize = 10_000;
/// The time of a bar at least: at 1,000 Hz a row of bars would be over before anybody sees it.
const BAR_SPAN: Nanos = Nanos::from_millis(200);

/// All nodes.
#[derive(Default)]
pub struct Pages {
    nodes: BTreeMap<String, Page>,
    /// Series whose last values are kept.
    trends: usize,
}

/// A node.
pub struct Page {
    /// The time of its newest row.
    pub time: Nanos,
    /// The rate at which its rows come.
    pub rate: String,
    /// Rows that were lost so far.
    pub lost: u64,
    /// Its state where it is not up; its numbers are the last ones from before.
    pub away: Option<String>,
    /// Its series, in the order of their columns.
    pub entries: Vec<Entry>,
    trends: HashMap<String, Spark>,
    /// The time of the newest bar.
    bar: Nanos,
}

/// A series.
pub struct Entry {
    /// Its name.
    pub series: String,
    /// What it shows now.
    pub now: Now,
    /// The number in it.
    pub value: Option<f64>,
}

/// What a series shows.
pub enum Now {
    /// A value.
    Value(String),
    /// Labels.
    Labels(Labels),
    /// There is no value: a word, and the reason.
    None(&'static str, String),
}

impl Pages {
    /// Takes a row.
    pub fn take(&mut self, line: &Line<'_>) {
        let page = self.nodes.entry(line.node.to_owned()).or_insert_with(Page::new);
        page.entries.clear();
        page.entries
            .extend(line.columns.iter().zip(line.shown).map(|(column, shown)| Entry::of(column, shown)));
        (page.time, page.lost, page.away) = (line.time, line.lost, None);
        line.rate.clone_into(&mut page.rate);
        let is_next = line.time.0 / BAR_SPAN.0 != page.bar.0 / BAR_SPAN.0;
        page.bar = line.time;
        let before = page.trends.len();
        if before > page.entries.len() {
            let there: HashSet<&str> = page.entries.iter().map(|entry| entry.series.as_str()).collect();
            page.trends.retain(|series, _| there.contains(series.as_str()));
        }
        self.trends -= before - page.trends.len();
        for entry in &page.entries {
            match page.trends.get_mut(&entry.series) {
                Some(trend) if is_next => trend.push(entry.value),
                Some(trend) => trend.replace(entry.value),
                None if self.trends < TRENDS_MAX => {
                    let mut trend = Spark::default();
                    trend.push(entry.value);
                    page.trends.insert(entry.series.clone(), trend);
                    self.trends += 1;
                }
                None => {}
            }
        }
    }

    /// A node has changed its state; `None`: it is up. True where it has a page.
    pub fn change(&mut self, node: &str, away: Option<String>) -> bool {
        self.nodes.get_mut(node).map(|page| page.away = away).is_some()
    }

    /// The nodes, by their names.
    pub fn nodes(&self) -> &BTreeMap<String, Page> {
        &self.nodes
    }
}

impl Page {
    fn new() -> Self {
        let (time, bar) = (Nanos(0), Nanos(0));
        let (rate, away, entries, trends) = (String::new(), None, Vec::new(), HashMap::new());
        Page { time, rate, lost: 0, away, entries, trends, bar }
    }

    /// The last values of a series as at most this many bars.
    pub fn bars(&self, series: &str, most: usize, has_unicode: bool) -> String {
        self.trends.get(series).map(|trend| trend.bars(most, has_unicode)).unwrap_or_default()
    }
}

impl Entry {
    fn of(column: &Column, shown: &Shown) -> Self {
        let now = match shown {
            Shown::Value(Value::Absent(why)) => Now::None("absent", why.clone()),
            Shown::Value(Value::Failed(fault)) => Now::None("FAILED", fault.clone()),
            Shown::Unknown(why) => Now::None("unknown", (*why).to_owned()),
            Shown::Value(Value::Info(labels)) => Now::Labels(labels.clone()),
            Shown::PerSecond(rate) => Now::Value(quantities::of_rate(*rate, &column.rate_unit())),
            Shown::Value(value) => {
                Now::Value(quantities::of_value(&value.text().unwrap_or_default(), &column.unit))
            }
        };
        let value = match shown {
            Shown::PerSecond(rate) => Some(*rate),
            Shown::Value(Value::Present { units, places }) => {
                Some(*units as f64 / 10f64.powi((*places).into()))
            }
            Shown::Value(Value::Text(text)) => text.parse().ok(),
            Shown::Value(_) | Shown::Unknown(_) => None,
        };
        Entry { series: column.series.clone(), now, value }
    }

    /// As a cell of a table, which has no room for a reason.
    pub fn cell(&self) -> Cell {
        match &self.now {
            Now::Value(text) => Cell::new(text.as_str(), Tone::Quantity),
            Now::Labels(labels) => Cell::new(labels.to_string(), Tone::Faint),
            Now::None(word, _) => Cell::new(*word, tone_of(word)),
        }
    }
}

/// A failure is a fault; a value that is absent or unknown is none.
pub fn tone_of(word: &str) -> Tone {
    if word == "FAILED" { Tone::Bad } else { Tone::Faint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(series: &str) -> Column {
        Column { series: series.to_owned(), counter: false, unit: "count".to_owned(), places: 0 }
    }

    fn take(pages: &mut Pages, node: &str, millis: u64, series: &[&str], value: i128) {
        let columns: Vec<Column> = series.iter().map(|series| column(series)).collect();
        let shown = vec![Shown::Value(Value::Present { units: value, places: 0 }); series.len()];
        let time = Nanos::from_millis(millis);
        pages.take(&Line { node, time, columns: &columns, shown: &shown, lost: 0, rate: "1Hz" });
    }

    #[test]
    fn rows_that_come_faster_than_anybody_sees_share_a_bar() {
        let mut pages = Pages::default();
        for (millis, value) in [(1_000, 1), (1_010, 9), (1_200, 5), (1_399, 0), (9_000, 9)] {
            take(&mut pages, "n1", millis, &["a"], value);
        }
        assert_eq!(pages.nodes()["n1"].bars("a", 20, true), "█▁█");
    }

    #[test]
    fn series_that_are_gone_have_no_bars_and_there_are_at_most_so_many() {
        let mut pages = Pages::default();
        take(&mut pages, "n1", 1_000, &["a", "b"], 1);
        take(&mut pages, "n1", 2_000, &["b"], 2);
        assert_eq!((pages.trends, pages.nodes()["n1"].bars("a", 20, true)), (1, String::new()));
        for node in 0..=TRENDS_MAX {
            take(&mut pages, &format!("m{node}"), 1_000, &["a"], 1);
        }
        assert_eq!(pages.trends, TRENDS_MAX);
    }

    #[test]
    fn what_is_no_number_has_no_value() {
        let of = |shown| Entry::of(&column("a"), &shown).value;
        assert_eq!(of(Shown::Value(Value::Present { units: -52, places: 2 })), Some(-0.52));
        assert_eq!(of(Shown::Value(Value::Absent("gone".to_owned()))), None);
        assert_eq!(of(Shown::Unknown("first value")), None);
    }
}
