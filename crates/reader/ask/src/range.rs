//! The past, out of the store of a running khz: lines of JSON, read one by one.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use khz_model::{Instance, Kind, Metric, Nanos, Pattern, RangeShape, Series, Unit, ValueFormat, ValueType};
use serde::Deserialize;

use crate::ahead::Ahead;
use crate::labels::{self, LabelsAnswer};
use crate::piece::Seconds;
use crate::{AskError, Cell, series_name};

/// The longest line: an hour of one series at 250 Hz.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// What of the past is asked for.
#[derive(Clone, Debug)]
pub struct Past {
    /// Which series.
    pub patterns: Vec<Pattern>,
    /// From this time on.
    pub from: Nanos,
    /// Before this time.
    pub to: Nanos,
    /// What of them.
    pub shape: RangeShape,
}

/// An answer that comes line by line.
pub struct PastLines {
    url: String,
    lines: BufReader<Ahead>,
    line: Vec<u8>,
    is_over: bool,
}

/// An answer that is a recording (docs/record.md), as its bytes come.
pub struct PastBytes {
    url: String,
    bytes: Ahead,
}

impl PastBytes {
    pub(crate) fn new(url: &str, answer: impl Read + Send + 'static) -> Result<Self, AskError> {
        Ok(PastBytes { url: url.to_owned(), bytes: ahead(url, answer)? })
    }

    /// Appends what comes next; false at the end.
    ///
    /// # Errors
    /// [`AskError::BrokeOff`].
    pub fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, AskError> {
        let read = self.bytes.by_ref().take(BYTES_AT_ONCE).read_to_end(out);
        read.map(|length| length > 0).map_err(|error| self.broke_off(&khz_trust::explain_io(&error)))
    }

    /// The error of an answer that has no end.
    pub fn broke_off(&self, reason: &str) -> AskError {
        AskError::BrokeOff { url: self.url.clone(), reason: reason.to_owned() }
    }
}

/// An answer that is read on while a command does something else.
fn ahead(url: &str, answer: impl Read + Send + 'static) -> Result<Ahead, AskError> {
    Ahead::new(answer).map_err(|error| AskError::BrokeOff { url: url.to_owned(), reason: error.to_string() })
}

/// Bytes of a recording that are taken at once.
const BYTES_AT_ONCE: u64 = 64 << 10;

/// One line.
#[derive(Clone, Debug)]
pub enum PastLine {
    /// One series of one node.
    Part(PastPart),
    /// Something in the store could not be read.
    Damage(String),
    /// The answer is whole.
    End {
        /// How long a point is.
        width: Option<Nanos>,
    },
}

/// One series of one node.
#[derive(Clone, Debug)]
pub struct PastPart {
    /// The node.
    pub node: String,
    /// The metric's dotted name.
    pub name: String,
    /// The instance, with its labels.
    pub instance: Option<Instance>,
    /// `counter` or `gauge`.
    pub kind: String,
    /// The unit's name.
    pub unit: String,
    /// What its values are.
    pub format: ValueFormat,
    /// Parts of one node with the same step have the same rows.
    pub step: Nanos,
    /// Seconds that were added to the times of its rows, because the node's clock was wrong; `None`: it was right.
    pub shift: Option<String>,
    /// Readings, oldest first; none where points were asked for.
    pub rows: Vec<PastRow>,
    /// Points, oldest first.
    pub points: Vec<PastPoint>,
}

/// A reading and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRow {
    /// Since 1970.
    pub time: Nanos,
    /// Since the node's boot.
    pub boot: Nanos,
    /// The reading.
    pub cell: Cell,
}

/// What a series did over some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastPoint {
    /// When it begins.
    pub begin: Nanos,
    /// How many values there were.
    pub count: u64,
    /// The first value, and its time.
    pub first: (Nanos, Cell),
    /// The last value, and its time.
    pub last: (Nanos, Cell),
    /// The lowest value; `None` for labels, as what follows.
    pub lowest: Option<Cell>,
    /// The highest value.
    pub highest: Option<Cell>,
    /// The sum of all values, as a decimal.
    pub sum: Option<String>,
    /// What must be added to the last value to get what a counter has counted, as a decimal.
    pub correction: Option<String>,
}

impl PastPart {
    /// `net.rx_bytes[eth0]`.
    pub fn series(&self) -> String {
        series_name(&self.name, self.instance.as_ref())
    }

    /// The same as a series, as far as it is known here: without help, for example.
    pub fn to_series(&self) -> Series {
        let kind = Kind::named(&self.kind).unwrap_or(Kind::Gauge);
        let unit = Unit::named(&self.unit).unwrap_or(Unit::Count);
        let ValueFormat { value_type, places } = self.format;
        let metric =
            Metric { value_type, places, ..Metric::plain(self.name.clone(), self.name.clone(), kind, unit) };
        Series { metric: Arc::new(metric), instance: self.instance.clone() }
    }
}

impl Past {
    /// `from=...&to=...`, after the patterns.
    pub(crate) fn parameters(&self) -> String {
        let shape = match self.shape {
            RangeShape::Rows => String::new(),
            RangeShape::Points(points) => format!("&points={points}"),
            RangeShape::Newest => "&newest=1".to_owned(),
            RangeShape::Steps(_) | RangeShape::Columns(_) => "&recording=1".to_owned(),
            RangeShape::Buckets(length) => {
                format!("&points={}", (self.to.0 - self.from.0.min(self.to.0)).div_ceil(length.0.max(1)))
            }
        };
        format!("from={}&to={}{shape}", self.from.seconds_text(), self.to.seconds_text())
    }
}

impl PastLines {
    pub(crate) fn new(url: &str, answer: impl Read + Send + 'static) -> Result<Self, AskError> {
        let lines = BufReader::new(ahead(url, answer)?);
        Ok(PastLines { url: url.to_owned(), lines, line: Vec::new(), is_over: false })
    }

    /// The next line; `None` after the end.
    ///
    /// # Errors
    /// [`AskError::Refused`] where the server had to stop, [`AskError::BrokeOff`] where the answer has no end.
    pub fn next_line(&mut self) -> Result<Option<PastLine>, AskError> {
        if self.is_over {
            return Ok(None);
        }
        self.line.clear();
        let broke_off = |reason: String| AskError::BrokeOff { url: self.url.clone(), reason };
        let read = self.lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        read.map_err(|error| broke_off(khz_trust::explain_io(&error)))?;
        if self.line.last() != Some(&b'\n') {
            return Err(broke_off("it has no end".to_owned()));
        }
        let not_khz = |problem: String| AskError::NotKhz { url: self.url.clone(), problem };
        let line: LineJson =
            serde_json::from_slice(&self.line).map_err(|error| not_khz(error.to_string()))?;
        match line {
            LineJson { error: Some(error), .. } => Err(AskError::Refused(error)),
            LineJson { end: Some(end), .. } => {
                self.is_over = true;
                Ok(Some(PastLine::End { width: end.width.map(|width| width.0) }))
            }
            LineJson { damage: Some(damage), .. } => Ok(Some(PastLine::Damage(damage))),
            line => line
                .part()
                .map(PastLine::Part)
                .map(Some)
                .ok_or_else(|| not_khz("a line that is neither a part nor the end".to_owned())),
        }
    }
}

#[derive(Deserialize)]
struct LineJson {
    error: Option<String>,
    damage: Option<String>,
    end: Option<EndJson>,
    node: Option<String>,
    name: Option<String>,
    instance: Option<String>,
    #[serde(default)]
    labels: LabelsAnswer,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    places: u8,
    #[serde(default, rename = "type")]
    value_type: String,
    step: Option<Seconds>,
    shift: Option<String>,
    #[serde(default)]
    rows: Vec<(Seconds, Seconds, Cell)>,
    #[serde(default)]
    points: Vec<PointJson>,
}

#[derive(Deserialize)]
struct EndJson {
    width: Option<Seconds>,
}

#[derive(Deserialize)]
struct PointJson {
    t: Seconds,
    count: u64,
    first: Cell,
    first_t: Seconds,
    last: Cell,
    last_t: Seconds,
    lowest: Option<Cell>,
    highest: Option<Cell>,
    sum: Option<String>,
    correction: Option<String>,
}

impl LineJson {
    fn part(self) -> Option<PastPart> {
        let row = |(time, boot, cell): (Seconds, Seconds, Cell)| PastRow { time: time.0, boot: boot.0, cell };
        let point = |it: PointJson| PastPoint {
            begin: it.t.0,
            count: it.count,
            first: (it.first_t.0, it.first),
            last: (it.last_t.0, it.last),
            lowest: it.lowest,
            highest: it.highest,
            sum: it.sum,
            correction: it.correction,
        };
        let value_type = ValueType::named(&self.value_type).unwrap_or(ValueType::Unknown);
        Some(PastPart {
            node: self.node?,
            name: self.name?,
            instance: labels::instance(self.instance.as_deref(), &self.labels),
            kind: self.kind,
            unit: self.unit,
            format: ValueFormat { value_type, places: self.places },
            step: self.step?.0,
            shift: self.shift,
            rows: self.rows.into_iter().map(row).collect(),
            points: self.points.into_iter().map(point).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str) -> PastLines {
        PastLines::new("http://a", text.as_bytes()).unwrap()
    }

    #[test]
    fn rows_points_damage_and_the_end_are_read() {
        let mut lines = lines(
            r#"{"node":"n1","name":"net.rx_bytes","instance":"eth0","kind":"counter","unit":"bytes","places":0,"type":"unsigned","step":"3600.000000000","rows":[["3601.5","7.000000000","18446744073709551615"],["3602","8",{"absent":"instance gone"}]]}
{"damage":"a.col, byte 7: damaged"}
{"node":"n1","name":"load.1m","instance":null,"kind":"gauge","unit":"count","places":2,"type":"unsigned","step":"0","points":[{"t":"60","count":3,"first":"0.50","first_t":"60.5","last":"0.10","last_t":"99","lowest":"0.10","highest":"0.52","sum":"1.12","resets":1,"correction":"0.52"}]}
{"end":{"width":"60.000000000"}}
"#,
        );
        let Some(PastLine::Part(part)) = lines.next_line().unwrap() else { panic!() };
        assert_eq!((part.series().as_str(), part.rows.len()), ("net.rx_bytes[eth0]", 2));
        assert_eq!(part.rows[0].time, Nanos(3_601_500_000_000));
        assert_eq!(part.rows[1].cell, Cell::Absent("instance gone".into()));
        assert!(
            matches!(lines.next_line().unwrap(), Some(PastLine::Damage(text)) if text.starts_with("a.col"))
        );
        let Some(PastLine::Part(part)) = lines.next_line().unwrap() else { panic!() };
        assert_eq!(part.points[0].last, (Nanos::from_secs(99), Cell::number("0.10").unwrap()));
        assert_eq!(part.points[0].correction.as_deref(), Some("0.52"));
        let end = lines.next_line().unwrap();
        assert!(
            matches!(end, Some(PastLine::End { width }) if width == Some(Nanos::from_secs(60))),
            "{end:?}"
        );
        assert!(lines.next_line().unwrap().is_none());
    }

    #[test]
    fn an_answer_that_stops_says_so() {
        let error = lines("{\"error\":\"too much\"}\n").next_line().unwrap_err().to_string();
        assert_eq!(error, "too much");
        for text in ["", "{\"end\":", "{}\n", "x\n", "[]\n"] {
            assert!(lines(text).next_line().is_err(), "{text}");
        }
    }
}
