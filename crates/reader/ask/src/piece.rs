//! The pieces of a stream of rows: events of the door, decoded, or deliveries of a gatherer in this process. Computes no
//! rates; that is the reader's task.

use std::time::Duration;

use khz_model::{Delivery, Kind, Misses, Nanos, Number, RateUnit, Reading, RowNumber, Value, ValueFormat};
use serde::de::Deserializer;
use serde::{Deserialize, de};

use crate::answer::series_name;
use crate::labels::{self, LabelsAnswer};
use crate::{Cell, MissesAnswer};

/// A piece of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
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
        /// The number of the last of them, where the server counts.
        last: Option<RowNumber>,
    },
    /// What was asked for and nobody has.
    Misses(Misses),
    /// Something that the reader should see once.
    Notice {
        /// The nodes that it concerns.
        nodes: Vec<String>,
        /// One sentence.
        text: String,
        /// These nodes refuse the channel: no row of it comes from them.
        is_refusal: bool,
    },
    /// Somebody has changed the channel that is followed: its columns and rows follow.
    Channel {
        /// Its name.
        name: String,
        /// Its definition, as docs/channels.md describes it.
        definition: serde_json::Value,
    },
    /// Nodes have changed their state.
    Change {
        /// The nodes.
        nodes: Vec<String>,
        /// Their new state: up, down, left or missing.
        state: String,
        /// Since when, in seconds since 1970.
        since: String,
        /// The change as a sentence, without the nodes.
        text: String,
    },
    /// The server has fallen silent, or is back.
    Server {
        /// Its address.
        server: String,
        /// It is silent; otherwise it is back.
        is_silent: bool,
        /// How long nothing has come from it.
        span: Duration,
    },
    /// The stream has ended, and its reader asks again. Made by the reader.
    Gone {
        /// Why it has ended.
        text: String,
        /// The server itself has ended it, and is there.
        is_there: bool,
    },
    /// The rows come again, after the reader has asked again. Made by the reader.
    Again {
        /// How long none came.
        away: Duration,
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
    /// Its unit where it is shown as a rate.
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
    /// Time since boot, for rates: no clock setting moves it. The same as `time` where the row does not have it.
    pub clock: Nanos,
    /// One cell a column; fewer where the last columns did not exist yet.
    pub cells: Vec<Cell>,
}

/// A malformed event.
#[derive(Debug, thiserror::Error)]
#[error("a '{event}' event that cannot be read: {problem}")]
pub struct PieceError {
    event: String,
    problem: String,
}

impl Piece {
    /// Decodes the data of an event of this name; `None` for names that this version does not know.
    ///
    /// # Errors
    /// [`PieceError`] where the data is not what the name promises.
    pub fn decode(event: &str, data: &str) -> Result<Option<Piece>, PieceError> {
        let unreadable =
            |error: serde_json::Error| PieceError { event: event.to_owned(), problem: error.to_string() };
        match event {
            "columns" => {
                let parsed: ColumnsEvent = serde_json::from_str(data).map_err(unreadable)?;
                let columns = parsed.columns.into_iter().map(Column::from).collect();
                Ok(Some(Piece::Columns { node: parsed.node, rate: parsed.rate, columns }))
            }
            "rows" => {
                let parsed: RowsEvent = serde_json::from_str(data).map_err(unreadable)?;
                let rows = parsed.rows.into_iter().map(Row::from).collect();
                let epoch = parsed.epoch.and_then(|epoch| epoch.parse().ok());
                let last = epoch.zip(parsed.last).map(|(epoch, number)| RowNumber { epoch, number });
                Ok(Some(Piece::Rows { node: parsed.node, lost: parsed.lost, rows, last }))
            }
            "misses" => {
                let parsed: MissesAnswer = serde_json::from_str(data).map_err(unreadable)?;
                Ok(Some(Piece::Misses(parsed.into())))
            }
            "channel" => {
                let ChannelEvent { name, definition } = serde_json::from_str(data).map_err(unreadable)?;
                Ok(Some(Piece::Channel { name, definition }))
            }
            "notice" => {
                let parsed: NoticeEvent = serde_json::from_str(data).map_err(unreadable)?;
                let NoticeEvent { nodes, text, state, since, refused } = parsed;
                Ok(Some(match (state, since) {
                    (Some(state), Some(since)) => Piece::Change { nodes, state, since, text },
                    _ => Piece::Notice { nodes, text, is_refusal: refused },
                }))
            }
            _ => Ok(None),
        }
    }

    /// From a notice of a subscription in this process.
    pub fn from_notice(notice: khz_model::Notice) -> Piece {
        let (nodes, is_refusal) = (vec![notice.node.to_string()], notice.is_refusal);
        Piece::Notice { nodes, text: notice.text, is_refusal }
    }

    /// The columns of a delivery in this process.
    pub fn columns_of(delivery: &Delivery, rate: khz_model::Rate) -> Piece {
        let columns = delivery.columns.iter().map(|series| Column {
            series: series.to_string(),
            counter: series.metric.kind == Kind::Counter,
            unit: series.metric.unit.to_string(),
            places: series.metric.places,
        });
        Piece::Columns { node: delivery.node.to_string(), rate: rate.to_string(), columns: columns.collect() }
    }

    /// The rows of a delivery in this process.
    pub fn rows_of(delivery: &Delivery) -> Piece {
        let row = |row: &khz_model::Row| {
            let cells = row
                .readings
                .iter()
                .zip(delivery.columns.iter())
                .map(|(reading, series)| cell(*reading, series.metric.format()));
            Row { time: row.stamp.real(), clock: row.stamp.boot, cells: cells.collect() }
        };
        Piece::Rows {
            node: delivery.node.to_string(),
            lost: delivery.lost,
            rows: delivery.rows.iter().map(row).collect(),
            last: delivery.last,
        }
    }
}

fn cell(reading: Reading, format: ValueFormat) -> Cell {
    match format.value_or_why(reading) {
        Ok(Value::Number(Number::Exact(decimal))) => {
            let (units, places) = decimal.steps_and_places();
            Cell::Present { units, places }
        }
        Ok(Value::Labels(labels)) => Cell::Info(labels),
        // A double may have the text of a decimal, and it becomes one, as it does when it comes over HTTP.
        Ok(value) => {
            let text = value.to_string();
            Cell::number(&text).unwrap_or(Cell::Text(text))
        }
        Err(fault) if fault.is_failure() => Cell::Failed(fault.to_string()),
        Err(why) => Cell::Absent(why.to_string()),
    }
}

#[derive(Deserialize)]
struct ColumnsEvent {
    node: String,
    #[serde(default)]
    rate: String,
    columns: Vec<ColumnJson>,
}

#[derive(Deserialize)]
pub(crate) struct ColumnJson {
    name: String,
    instance: Option<String>,
    #[serde(default)]
    labels: LabelsAnswer,
    kind: String,
    unit: String,
    #[serde(default)]
    places: u8,
}

#[derive(Deserialize)]
struct ChannelEvent {
    name: String,
    definition: serde_json::Value,
}

#[derive(Deserialize)]
struct NoticeEvent {
    nodes: Vec<String>,
    text: String,
    state: Option<String>,
    since: Option<String>,
    #[serde(default)]
    refused: bool,
}

#[derive(Deserialize)]
struct RowsEvent {
    node: String,
    #[serde(default)]
    lost: u64,
    rows: Vec<RowJson>,
    epoch: Option<String>,
    last: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct RowJson {
    t: Seconds,
    b: Option<Seconds>,
    v: Vec<Cell>,
}

/// `"1763690000.123456789"`.
pub(crate) struct Seconds(pub Nanos);

impl From<RowJson> for Row {
    fn from(parsed: RowJson) -> Self {
        let clock = parsed.b.map_or(parsed.t.0, |boot| boot.0);
        Row { time: parsed.t.0, clock, cells: parsed.v }
    }
}

impl From<ColumnJson> for Column {
    fn from(parsed: ColumnJson) -> Self {
        Column {
            series: series_name(
                &parsed.name,
                labels::instance(parsed.instance.as_deref(), &parsed.labels).as_ref(),
            ),
            counter: parsed.kind == Kind::Counter.as_str(),
            unit: parsed.unit,
            places: parsed.places,
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let Some(Cell::Present { units, places }) = Cell::number(&text) else {
            return Err(de::Error::custom(format_args!("'{text}' is not a time in seconds")));
        };
        let nanos = match places {
            0..=9 => u64::try_from(units)
                .ok()
                .and_then(|units| units.checked_mul(10u64.pow(u32::from(9 - places)))),
            _ => None,
        };
        nanos.map(|nanos| Seconds(Nanos(nanos))).ok_or_else(|| de::Error::custom("a time out of range"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Absence, Fault, ValueType};

    #[test]
    fn events_become_columns_and_rows() {
        let columns = r#"{"node":"n1","rate":"100Hz","period_ns":10000000,"columns":[
            {"name":"net.rx_bytes","instance":"eth0:1","kind":"counter","unit":"bytes","places":0},
            {"name":"load.1m","instance":null,"kind":"gauge","unit":"count","places":2}]}"#;
        let Some(Piece::Columns { node, rate, columns }) = Piece::decode("columns", columns).unwrap() else {
            panic!("no columns")
        };
        assert_eq!((node.as_str(), rate.as_str()), ("n1", "100Hz"));
        assert_eq!(columns[0].series, "net.rx_bytes[eth0%3A1]");
        assert!(columns[0].counter && !columns[1].counter && columns[1].places == 2);

        let rows = r#"{"node":"n1","lost":3,"rows":[
            {"t":"1763690000.000000001","v":["18446744073709551615",{"absent":"gone"}]},
            {"t":"1763690000.5","b":"77.5","v":[{"failed":"stuck"}]}]}"#;
        let Some(Piece::Rows { lost, rows, .. }) = Piece::decode("rows", rows).unwrap() else {
            panic!("no rows")
        };
        assert_eq!(lost, 3);
        assert_eq!(rows[0].time, Nanos(1_763_690_000_000_000_001));
        assert_eq!((rows[0].clock, rows[1].clock), (rows[0].time, Nanos(77_500_000_000)));
        assert_eq!(rows[0].cells[0], Cell::Present { units: u64::MAX.into(), places: 0 });
        assert_eq!(rows[0].cells[1], Cell::Absent("gone".to_owned()));
        assert_eq!(rows[1].cells, [Cell::Failed("stuck".to_owned())]);
    }

    #[test]
    fn a_reading_of_this_process_is_the_cell_that_http_would_bring() {
        for value_type in [ValueType::Unsigned, ValueType::Signed, ValueType::Float] {
            for bits in [0, 1, 105, u64::MAX, 0.25f64.to_bits(), 1e-9f64.to_bits(), (-7.5f64).to_bits()] {
                for places in [0, 2, 9, 200] {
                    let format = ValueFormat { value_type, places };
                    let text = format.value(Reading::Present(bits)).unwrap().to_string();
                    let cell = cell(Reading::Present(bits), format);
                    assert_eq!(Some(&cell), Cell::value(&text).as_ref(), "{value_type:?} {text}");
                    assert_eq!(cell.text(), Some(text));
                }
            }
        }
        let cell = |reading| cell(reading, ValueFormat::WHOLE);
        assert_eq!(cell(Reading::Absent(Absence::NotYet)), Cell::Absent("not gathered yet".to_owned()));
        assert_eq!(
            cell(Reading::Failed(Fault::Stuck)),
            Cell::Failed("no answer before the deadline".to_owned())
        );
    }

    #[test]
    fn an_unknown_event_passes_and_a_broken_one_says_what_is_wrong() {
        assert_eq!(Piece::decode("weather", "sunny").unwrap(), None);
        let notice = Piece::decode("notice", r#"{"nodes":["n1"],"text":"too fast"}"#).unwrap();
        assert_eq!(
            notice,
            Some(Piece::Notice {
                nodes: vec!["n1".to_owned()],
                text: "too fast".to_owned(),
                is_refusal: false
            })
        );
        let gone =
            r#"{"nodes":["n1"],"text":"is down since 12:03:11 UTC","state":"down","since":"1763690591.5"}"#;
        let gone = Piece::decode("notice", gone).unwrap();
        assert!(matches!(gone, Some(Piece::Change { state, .. }) if state == "down"));
        let error = Piece::decode("rows", r#"{"node":"n","rows":[{"t":"1","v":[7]}]}"#).unwrap_err();
        assert!(error.to_string().starts_with("a 'rows' event that cannot be read: invalid type"), "{error}");
        assert!(Piece::decode("rows", r#"{"node":"n","rows":[{"t":"now","v":[]}]}"#).is_err());
    }
}
