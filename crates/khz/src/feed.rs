//! What a stream of rows says, whichever way it came: the door's events decoded, or this process' own
//! deliveries. It refuses numbers that are none; what a row means for people is in `rates` and `watch`.

use std::time::Duration;

use khz_model::{Decimal, Delivery, Kind, Misses, Nanos, RateUnit, Reading};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

use crate::answer::series_name;
use crate::show::misses::Said;

/// A piece of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Feed {
    /// From now on the rows of this node hold these columns.
    Columns {
        /// The node.
        node: String,
        /// The rate that was granted, as text.
        rate: String,
        /// The columns.
        columns: Vec<Column>,
    },
    /// Rows of a node.
    Rows {
        /// The node.
        node: String,
        /// Rows that were overwritten before they could be sent.
        lost: u64,
        /// Oldest first.
        rows: Vec<Row>,
    },
    /// What was asked for and nobody has.
    Misses(Misses),
    /// Something that the reader should be told once.
    Notice {
        /// The nodes that it concerns.
        nodes: Vec<String>,
        /// One sentence.
        text: String,
    },
    /// Nodes have gone or come.
    Change {
        /// These.
        nodes: Vec<String>,
        /// What they have become: up, down, left or missing.
        state: String,
        /// Since when, in seconds since 1970.
        since: String,
        /// The same as a sentence.
        text: String,
    },
    /// Nothing is heard of whoever is asked, or something is again.
    Server {
        /// Where that is.
        server: String,
        /// Which of both.
        is_silent: bool,
        /// How long nothing was heard.
        span: Duration,
    },
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// `net.rx_bytes[eth0]`.
    pub series: String,
    /// True when it only grows.
    pub counter: bool,
    /// The unit's name.
    pub unit: String,
    /// Decimal places: how finely the kernel counts it.
    pub places: u8,
}

impl Column {
    /// What it is in when it is shown as a rate.
    pub fn rate_unit(&self) -> RateUnit {
        let name = self.series.split_once('[').map_or(self.series.as_str(), |(name, _)| name);
        RateUnit::of(name, &self.unit)
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Nanoseconds since 1970, for people.
    pub time: Nanos,
    /// For rates: the clock that never jumps where the row tells it, else the same.
    pub clock: Nanos,
    /// One cell a column; fewer when the last columns did not exist yet.
    pub cells: Vec<Cell>,
}

/// One reading as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A number: `units / 10^places`.
    Present {
        /// The digits without the point.
        units: u64,
        /// How many of them stand behind it.
        places: u8,
    },
    /// Why there is nothing to read.
    Absent(String),
    /// What went wrong.
    Failed(String),
}

/// An event that does not say what it should.
#[derive(Debug, thiserror::Error)]
#[error("a '{event}' event that cannot be read: {problem}")]
pub struct FeedError {
    event: String,
    problem: String,
}

impl Feed {
    /// Decodes an event; `None` for kinds that a newer door may have invented.
    pub fn decode(event: &str, data: &str) -> Result<Option<Feed>, FeedError> {
        let unreadable =
            |error: serde_json::Error| FeedError { event: event.to_owned(), problem: error.to_string() };
        match event {
            "columns" => {
                let said: ColumnsSaid = serde_json::from_str(data).map_err(unreadable)?;
                let columns = said.columns.into_iter().map(Column::from).collect();
                Ok(Some(Feed::Columns { node: said.node, rate: said.rate, columns }))
            }
            "rows" => {
                let said: RowsSaid = serde_json::from_str(data).map_err(unreadable)?;
                let row = |said: RowSaid| Row {
                    time: said.t.0,
                    clock: said.b.map_or(said.t.0, |boot| boot.0),
                    cells: said.v,
                };
                let rows = said.rows.into_iter().map(row).collect();
                Ok(Some(Feed::Rows { node: said.node, lost: said.lost, rows }))
            }
            "misses" => {
                let said: Said = serde_json::from_str(data).map_err(unreadable)?;
                Ok(Some(Feed::Misses(said.into())))
            }
            "notice" => {
                let said: NoticeSaid = serde_json::from_str(data).map_err(unreadable)?;
                let NoticeSaid { nodes, text, state, since } = said;
                Ok(Some(match (state, since) {
                    (Some(state), Some(since)) => Feed::Change { nodes, state, since, text },
                    _ => Feed::Notice { nodes, text },
                }))
            }
            _ => Ok(None),
        }
    }

    /// A notice to a subscription of this process.
    pub fn of_notice(notice: khz_model::Notice) -> Feed {
        Feed::Notice { nodes: vec![notice.node.to_string()], text: notice.text }
    }

    /// The columns of a delivery of this process.
    pub fn columns_of(delivery: &Delivery, rate: khz_model::Rate) -> Feed {
        let columns = delivery.columns.iter().map(|series| Column {
            series: series.to_string(),
            counter: series.metric.kind == Kind::Counter,
            unit: series.metric.unit.to_string(),
            places: series.metric.places,
        });
        Feed::Columns { node: delivery.node.to_string(), rate: rate.to_string(), columns: columns.collect() }
    }

    /// The rows of a delivery of this process.
    pub fn rows_of(delivery: &Delivery) -> Feed {
        let row = |row: &khz_model::Row| {
            let cells =
                row.readings.iter().zip(delivery.columns.iter()).map(|(reading, series)| match reading {
                    Reading::Present(units) => Cell::Present { units: *units, places: series.metric.places },
                    Reading::Absent(why) => Cell::Absent(why.to_string()),
                    Reading::Failed(fault) => Cell::Failed(fault.to_string()),
                });
            Row { time: row.stamp.real(), clock: row.stamp.boot, cells: cells.collect() }
        };
        Feed::Rows {
            node: delivery.node.to_string(),
            lost: delivery.lost,
            rows: delivery.rows.iter().map(row).collect(),
        }
    }
}

impl Cell {
    /// Reads an exact decimal of at most 64 bits.
    pub fn number(text: &str) -> Option<Cell> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() || !whole.bytes().chain(rest.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let places = u8::try_from(rest.len()).ok().filter(|p| *p <= khz_model::decimal::PLACES_MAX)?;
        let whole: u64 = whole.parse().ok()?;
        let rest: u64 = if rest.is_empty() { 0 } else { rest.parse().ok()? };
        let units = whole.checked_mul(10u64.checked_pow(places.into())?)?.checked_add(rest)?;
        Some(Cell::Present { units, places })
    }

    /// The number as it came, if it is one.
    pub fn decimal(&self) -> Option<Decimal> {
        match self {
            Cell::Present { units, places } => Some(Decimal::new(*units, *places)),
            Cell::Absent(_) | Cell::Failed(_) => None,
        }
    }
}

#[derive(Deserialize)]
struct ColumnsSaid {
    node: String,
    #[serde(default)]
    rate: String,
    columns: Vec<ColumnSaid>,
}

#[derive(Deserialize)]
struct ColumnSaid {
    name: String,
    instance: Option<String>,
    kind: String,
    unit: String,
    #[serde(default)]
    places: u8,
}

#[derive(Deserialize)]
struct NoticeSaid {
    nodes: Vec<String>,
    text: String,
    state: Option<String>,
    since: Option<String>,
}

#[derive(Deserialize)]
struct RowsSaid {
    node: String,
    #[serde(default)]
    lost: u64,
    rows: Vec<RowSaid>,
}

#[derive(Deserialize)]
struct RowSaid {
    t: Time,
    b: Option<Time>,
    v: Vec<Cell>,
}

/// `"1763690000.123456789"`.
struct Time(Nanos);

impl From<ColumnSaid> for Column {
    fn from(said: ColumnSaid) -> Self {
        Column {
            series: series_name(&said.name, said.instance.as_deref()),
            counter: said.kind == Kind::Counter.as_str(),
            unit: said.unit,
            places: said.places,
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let Some(Cell::Present { units, places }) = Cell::number(&text) else {
            return Err(de::Error::custom(format_args!("'{text}' is no time in seconds")));
        };
        let nanos = match places {
            0..=9 => units.checked_mul(10u64.pow(u32::from(9 - places))),
            _ => None,
        };
        nanos.map(|nanos| Time(Nanos(nanos))).ok_or_else(|| de::Error::custom("a time out of range"))
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(r#"a decimal as a string, {"absent":"why"} or {"failed":"why"}"#)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cell, E> {
        Cell::number(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cell, A::Error> {
        let entry = map.next_entry::<String, String>()?;
        match entry {
            Some((key, why)) if key == "absent" => Ok(Cell::Absent(why)),
            Some((key, why)) if key == "failed" => Ok(Cell::Failed(why)),
            _ => Err(de::Error::custom("an object that is neither absent nor failed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_exact() {
        let present = |units, places| Some(Cell::Present { units, places });
        for (text, expected) in [
            ("0", present(0, 0)),
            ("18446744073709551615", present(u64::MAX, 0)),
            ("0.52", present(52, 2)),
            ("1.000000001", present(1_000_000_001, 9)),
            ("18446744073709551616", None),
            ("18446744073709551615.1", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("", None),
            (".5", None),
            ("NaN", None),
        ] {
            assert_eq!(Cell::number(text), expected, "{text}");
        }
    }

    #[test]
    fn events_become_columns_and_rows() {
        let columns = r#"{"node":"n1","rate":"100Hz","period_ns":10000000,"columns":[
            {"name":"net.rx_bytes","instance":"eth0:1","kind":"counter","unit":"bytes","places":0},
            {"name":"load.1m","instance":null,"kind":"gauge","unit":"count","places":2}]}"#;
        let Some(Feed::Columns { node, rate, columns }) = Feed::decode("columns", columns).unwrap() else {
            panic!("no columns")
        };
        assert_eq!((node.as_str(), rate.as_str()), ("n1", "100Hz"));
        assert_eq!(columns[0].series, "net.rx_bytes[eth0%3A1]");
        assert!(columns[0].counter && !columns[1].counter && columns[1].places == 2);

        let rows = r#"{"node":"n1","lost":3,"rows":[
            {"t":"1763690000.000000001","v":["18446744073709551615",{"absent":"gone"}]},
            {"t":"1763690000.5","b":"77.5","v":[{"failed":"stuck"}]}]}"#;
        let Some(Feed::Rows { lost, rows, .. }) = Feed::decode("rows", rows).unwrap() else {
            panic!("no rows")
        };
        assert_eq!(lost, 3);
        assert_eq!(rows[0].time, Nanos(1_763_690_000_000_000_001));
        assert_eq!((rows[0].clock, rows[1].clock), (rows[0].time, Nanos(77_500_000_000)));
        assert_eq!(rows[0].cells[0], Cell::Present { units: u64::MAX, places: 0 });
        assert_eq!(rows[0].cells[1], Cell::Absent("gone".to_owned()));
        assert_eq!(rows[1].cells, [Cell::Failed("stuck".to_owned())]);
    }

    #[test]
    fn an_unknown_event_passes_and_a_broken_one_says_what_is_wrong() {
        assert_eq!(Feed::decode("weather", "sunny").unwrap(), None);
        let notice = Feed::decode("notice", r#"{"nodes":["n1"],"text":"too fast"}"#).unwrap();
        assert_eq!(notice, Some(Feed::Notice { nodes: vec!["n1".to_owned()], text: "too fast".to_owned() }));
        let gone =
            r#"{"nodes":["n1"],"text":"is down since 12:03:11 UTC","state":"down","since":"1763690591.5"}"#;
        let gone = Feed::decode("notice", gone).unwrap();
        assert!(matches!(gone, Some(Feed::Change { state, .. }) if state == "down"));
        let error = Feed::decode("rows", r#"{"node":"n","rows":[{"t":"1","v":[7]}]}"#).unwrap_err();
        assert!(error.to_string().starts_with("a 'rows' event that cannot be read: invalid type"), "{error}");
        assert!(Feed::decode("rows", r#"{"node":"n","rows":[{"t":"now","v":[]}]}"#).is_err());
    }
}
