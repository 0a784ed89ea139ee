//! A measure: one number for each node, the sum of some series divided by the sum of others. Counters become
//! rates, by the stamps of their rows. Makes no guesses: a counter that is new, went backwards or failed
//! gives no number. Knows neither time nor sockets.

use std::sync::Arc;

use khz_model::{Delivery, Kind, Metric, Nanos, Pattern, RateUnit, Reading, Row, Series, Stamp, ValueFormat};

/// The kernel counts CPU time in ticks of 10 ms, which come late on a busy machine. A row that falls between two of them has
/// the share of the row before.
const TICKS_APART_MAX: Nanos = Nanos::from_millis(30);

/// How the number of a node is computed.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// These series...
    pub upper: Vec<Pattern>,
    /// ...as a percentage of these, if there are any.
    pub lower: Vec<Pattern>,
    /// Never these.
    pub except: Vec<Pattern>,
    pub fold: Fold,
    /// The difference to a hundred: busy from idle, used from available.
    pub rest: bool,
}

/// How several series of a node become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Max,
}

impl Measure {
    /// Every pattern whose rows it needs.
    pub(crate) fn patterns(&self) -> Vec<Pattern> {
        self.upper.iter().chain(&self.lower).cloned().collect()
    }

    /// The unit of its numbers as the door writes it (`bytes/s`); an error if the series have different
    /// units.
    pub(crate) fn unit(&self, metrics: &[Arc<Metric>]) -> Result<String, String> {
        let upper = quantity(&self.upper, metrics)?;
        let lower = quantity(&self.lower, metrics)?;
        match (upper, self.lower.is_empty()) {
            (Some(a), false) => match lower {
                Some(b) if a != b => Err(format!("a share of {a} in {b} says nothing")),
                _ => Ok("percent".to_owned()),
            },
            (Some(unit), true) => Ok(unit),
            (None, _) => Ok("count".to_owned()),
        }
    }

    fn excepts(&self, series: &Series) -> bool {
        series.is_selected(&self.except)
    }
}

/// The common unit of all metrics that the patterns select; `None` if they select none.
fn quantity(patterns: &[Pattern], metrics: &[Arc<Metric>]) -> Result<Option<String>, String> {
    let mut first: Option<(&Metric, String)> = None;
    for metric in metrics.iter().filter(|metric| patterns.iter().any(|p| p.matches_metric(&metric.name))) {
        let unit = RateUnit::of_metric(metric).map_or(metric.unit.as_str().into(), |rate| rate.name());
        let unit = unit.into_owned();
        match &first {
            None => first = Some((metric, unit)),
            Some((other, same)) if *same != unit => {
                return Err(format!(
                    "{} is in {same} and {} in {unit}: they cannot be added up",
                    other.name, metric.name
                ));
            }
            Some(_) => {}
        }
    }
    Ok(first.map(|(_, unit)| unit))
}

/// The number of one node, updated with its rows.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    columns: Arc<Vec<Series>>,
    parts: Vec<Part>,
    /// When the last row was gathered.
    boot: Option<Nanos>,
    /// When the counters of the whole last moved.
    moved: Option<Nanos>,
    /// The newest number; `None` is unknown.
    pub value: Option<f64>,
}

/// A column that the measure uses.
#[derive(Debug)]
struct Part {
    column: usize,
    upper: bool,
    lower: bool,
    counter: bool,
    format: ValueFormat,
    /// The counter in the last row.
    last: Option<u64>,
}

/// What one column contributes.
enum Term {
    Value(f64),
    /// Nothing: this node does not have it, or has only just got it.
    None,
    /// Makes the whole number unknown.
    Unknown,
}

impl Meter {
    /// Takes some rows; only the newest counts.
    pub(crate) fn take(&mut self, measure: &Measure, delivery: &Delivery) {
        if !Arc::ptr_eq(&self.columns, &delivery.columns) {
            self.bind(measure, &delivery.columns);
        }
        if let Some(row) = delivery.rows.last() {
            self.value = self.row(measure, row);
        }
    }

    /// Takes every row, and tells the number at each of them.
    pub(crate) fn each(
        &mut self,
        measure: &Measure,
        delivery: &Delivery,
        mut tell: impl FnMut(Stamp, Option<f64>),
    ) {
        if !Arc::ptr_eq(&self.columns, &delivery.columns) {
            self.bind(measure, &delivery.columns);
        }
        for row in &delivery.rows {
            self.value = self.row(measure, row);
            tell(row.stamp, self.value);
        }
    }

    /// New columns: the last values of counters that were there before are kept.
    fn bind(&mut self, measure: &Measure, columns: &Arc<Vec<Series>>) {
        let old = std::mem::take(&mut self.parts);
        let last_of = |series: &Series| {
            old.iter().find(|part| self.columns.get(part.column) == Some(series)).and_then(|part| part.last)
        };
        let part = |(column, series): (usize, &Series)| {
            let (upper, lower) = (series.is_selected(&measure.upper), series.is_selected(&measure.lower));
            ((upper || lower) && !measure.excepts(series)).then(|| Part {
                column,
                upper,
                lower,
                counter: series.metric.kind == Kind::Counter,
                format: series.metric.format(),
                last: last_of(series),
            })
        };
        self.parts = columns.iter().enumerate().filter_map(part).collect();
        self.columns = Arc::clone(columns);
    }

    fn row(&mut self, measure: &Measure, row: &Row) -> Option<f64> {
        let before = self.boot.replace(row.stamp.boot);
        // The same row again, or a restarted node: nothing to compare with.
        let seconds = before.filter(|before| *before < row.stamp.boot).map(|b| row.stamp.boot.since(b));
        let seconds = seconds.map(Nanos::as_secs_f64);
        let (mut upper, mut lower) = (None, None);
        let mut known = true;
        for part in &mut self.parts {
            match part.term(row.readings.get(part.column).copied(), seconds) {
                Term::Value(value) => {
                    if part.upper {
                        upper = Some(measure.fold.add(upper, value));
                    }
                    if part.lower {
                        lower = Some(measure.fold.add(lower, value));
                    }
                }
                Term::None => {}
                // Continue even so: the other counters must be remembered.
                Term::Unknown => known = false,
            }
        }
        if !known {
            return None;
        }
        let number = if measure.lower.is_empty() {
            upper?
        } else {
            let (part, whole) = (upper?, lower?);
            if whole <= 0.0 {
                return self.value.filter(|_| self.is_between_ticks(row.stamp.boot));
            }
            self.moved = Some(row.stamp.boot);
            let share = 100.0 * part / whole;
            if measure.rest { (100.0 - share).max(0.0) } else { share }
        };
        number.is_finite().then_some(number)
    }
}

impl Meter {
    /// Whether the counters of a whole have moved a moment ago, so that nothing is to be expected yet.
    fn is_between_ticks(&self, now: Nanos) -> bool {
        self.moved.is_some_and(|moved| now.since(moved) <= TICKS_APART_MAX)
    }
}

impl Part {
    fn term(&mut self, reading: Option<Reading>, seconds: Option<f64>) -> Term {
        let Some(Reading::Present(value)) = reading else {
            self.last = None;
            return if matches!(reading, Some(Reading::Failed(_))) { Term::Unknown } else { Term::None };
        };
        if !self.counter {
            return self.format.number(value).map_or(Term::None, |number| Term::Value(number.to_f64()));
        }
        match (self.last.replace(value), seconds) {
            (Some(last), Some(seconds)) => match self.format.growth(last, value) {
                Some(grown) => Term::Value(grown.to_f64() / seconds),
                None => Term::Unknown,
            },
            _ => Term::None,
        }
    }
}

impl Fold {
    fn add(self, so_far: Option<f64>, value: f64) -> f64 {
        match (self, so_far) {
            (_, None) => value,
            (Fold::Sum, Some(so_far)) => so_far + value,
            (Fold::Max, Some(so_far)) => so_far.max(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Absence, Exposition, Fault, Instance, NodeName, Origin, Refresh, Unit};

    fn metric(name: &'static str, kind: Kind, unit: Unit, places: u8) -> Arc<Metric> {
        Arc::new(Metric {
            name: name.into(),
            kind,
            unit,
            value_type: khz_model::ValueType::Unsigned,
            labels_from: None,
            places,
            max: None,
            refresh: Refresh::Event,
            help: "x".into(),
            origin: Origin { file: "/proc/x".into(), field: "x".into() },
            instances: None,
            exposition: Exposition {
                help: None,
                name: "x".into(),
                labels: Vec::new().into(),
                instance_label: None,
                divisor: 1,
                untyped: false,
            },
            flat: "x".into(),
        })
    }

    fn series(metric: &Arc<Metric>, instance: Option<&str>) -> Series {
        Series { metric: Arc::clone(metric), instance: instance.map(|i| Instance::from_kernel(i.as_bytes())) }
    }

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::new(text).unwrap()).collect()
    }

    fn measure(upper: &[&str], lower: &[&str], except: &[&str], fold: Fold, rest: bool) -> Measure {
        Measure { upper: patterns(upper), lower: patterns(lower), except: patterns(except), fold, rest }
    }

    /// A node's number after each row, given as seconds and readings.
    fn shown(measure: &Measure, columns: Vec<Series>, rows: &[(f64, &[Reading])]) -> Vec<Option<f64>> {
        let columns = Arc::new(columns);
        let mut meter = Meter::default();
        let mut show = |(seconds, readings): &(f64, &[Reading])| {
            let boot = Nanos((seconds * 1e9) as u64);
            let row = Row { stamp: Stamp { boot, real_offset: 0 }, readings: readings.to_vec() };
            let node = NodeName::new("n1").unwrap();
            let delivery = Delivery {
                node,
                columns: Arc::clone(&columns),
                rows: vec![row],
                lost: 0,
                rate: None,
                last: None,
            };
            meter.take(measure, &delivery);
            meter.value.map(|value| (value * 1e6).round() / 1e6)
        };
        rows.iter().map(&mut show).collect()
    }

    use Reading::{Absent, Failed, Present};

    #[test]
    fn busy_is_the_rest_of_idle() {
        let [user, idle] =
            ["cpu.all.user", "cpu.all.idle"].map(|name| metric(name, Kind::Counter, Unit::Seconds, 2));
        let busy = measure(&["cpu.all.idle"], &["cpu.all.*"], &[], Fold::Sum, true);
        let columns = vec![series(&user, None), series(&idle, None)];
        let rows: [(f64, &[Reading]); 3] = [
            (1.0, &[Present(100), Present(1_000)]),
            (2.0, &[Present(125), Present(1_075)]),
            (3.0, &[Present(125), Present(1_075)]),
        ];
        // The last row: no time was counted at all, so no share of it is known.
        assert_eq!(shown(&busy, columns, &rows), [None, Some(25.0), None]);
    }

    #[test]
    fn a_row_between_two_ticks_has_the_share_before_it_and_counters_that_stand_make_it_unknown() {
        let [user, idle] =
            ["cpu.all.user", "cpu.all.idle"].map(|name| metric(name, Kind::Counter, Unit::Seconds, 2));
        let busy = measure(&["cpu.all.idle"], &["cpu.all.*"], &[], Fold::Sum, true);
        let columns = vec![series(&user, None), series(&idle, None)];
        let rows: [(f64, &[Reading]); 6] = [
            (1.00, &[Present(100), Present(1_000)]),
            (1.01, &[Present(101), Present(1_001)]),
            (1.02, &[Present(101), Present(1_001)]),
            (1.03, &[Present(102), Present(1_001)]),
            (1.06, &[Present(102), Present(1_001)]),
            (1.07, &[Present(102), Present(1_001)]),
        ];
        let expected = [None, Some(50.0), Some(50.0), Some(100.0), Some(100.0), None];
        assert_eq!(shown(&busy, columns, &rows), expected);
    }

    #[test]
    fn a_counter_that_went_backwards_or_a_node_that_booted_is_unknown_never_negative() {
        let bytes = metric("net.rx_bytes", Kind::Counter, Unit::Bytes, 0);
        let rate = measure(&["net.rx_bytes"], &[], &[], Fold::Sum, false);
        let rows: [(f64, &[Reading]); 6] = [
            (10.0, &[Present(100)]),
            (10.5, &[Present(200)]),
            (11.0, &[Present(50)]),
            (12.0, &[Present(60)]),
            (1.0, &[Present(70)]),
            (2.0, &[Present(75)]),
        ];
        let expected = [None, Some(200.0), None, Some(10.0), None, Some(5.0)];
        assert_eq!(shown(&rate, vec![series(&bytes, None)], &rows), expected);
    }

    #[test]
    fn the_busiest_interface_without_the_loopback() {
        let bytes = metric("net.rx_bytes", Kind::Counter, Unit::Bytes, 0);
        let columns = || ["lo", "eth0", "eth1"].map(|i| series(&bytes, Some(i))).to_vec();
        let rows: [(f64, &[Reading]); 3] = [
            (1.0, &[Present(0), Present(0), Absent(Absence::NotYet)]),
            (2.0, &[Present(900), Present(10), Present(500)]),
            (3.0, &[Present(1_800), Present(20), Present(530)]),
        ];
        let max = measure(&["net.rx_bytes"], &[], &["net.rx_bytes[lo]"], Fold::Max, false);
        // An interface that has just appeared has no rate yet.
        assert_eq!(shown(&max, columns(), &rows), [None, Some(10.0), Some(30.0)]);
        let sum = Measure { fold: Fold::Sum, ..max };
        assert_eq!(shown(&sum, columns(), &rows), [None, Some(10.0), Some(40.0)]);
    }

    #[test]
    fn unknown_is_never_zero() {
        let [total, free] =
            ["mem.total", "mem.available"].map(|name| metric(name, Kind::Gauge, Unit::Bytes, 0));
        let used = measure(&["mem.available"], &["mem.total"], &[], Fold::Sum, true);
        let columns = vec![series(&total, None), series(&free, None)];
        let rows: [(f64, &[Reading]); 5] = [
            (1.0, &[Present(100), Present(25)]),
            (2.0, &[Present(100), Absent(Absence::NoField)]),
            (3.0, &[Present(100), Failed(Fault::Malformed)]),
            (4.0, &[Present(0), Present(0)]),
            (5.0, &[Present(100)]),
        ];
        assert_eq!(shown(&used, columns, &rows), [Some(75.0), None, None, None, None]);
    }

    #[test]
    fn columns_that_come_keep_what_was_known() {
        let bytes = metric("net.rx_bytes", Kind::Counter, Unit::Bytes, 0);
        let rate = measure(&["net.rx_bytes"], &[], &[], Fold::Sum, false);
        let mut meter = Meter::default();
        let mut take = |seconds: u64, columns: Vec<Series>, readings: Vec<Reading>| {
            let row = Row { stamp: Stamp { boot: Nanos::from_secs(seconds), real_offset: 0 }, readings };
            let node = NodeName::new("n1").unwrap();
            meter.take(
                &rate,
                &Delivery {
                    node,
                    columns: Arc::new(columns),
                    rows: vec![row],
                    lost: 0,
                    rate: None,
                    last: None,
                },
            );
            meter.value
        };
        let [eth0, eth1] = ["eth0", "eth1"].map(|i| series(&bytes, Some(i)));
        assert_eq!(take(1, vec![eth0.clone()], vec![Present(5)]), None);
        assert_eq!(take(2, vec![eth1, eth0], vec![Present(90), Present(8)]), Some(3.0));
    }

    #[test]
    fn only_equal_units_are_added_up() {
        let metrics = [
            metric("net.rx_bytes", Kind::Counter, Unit::Bytes, 0),
            metric("net.rx_packets", Kind::Counter, Unit::Packets, 0),
            metric("mem.total", Kind::Gauge, Unit::Bytes, 0),
        ];
        let of = |upper: &[&str], lower: &[&str]| measure(upper, lower, &[], Fold::Sum, false).unit(&metrics);
        assert_eq!(of(&["net.rx_bytes"], &[]).unwrap(), "bytes/s");
        assert_eq!(of(&["mem.total"], &["mem.*"]).unwrap(), "percent");
        assert_eq!(
            of(&["net.rx_*"], &[]).unwrap_err(),
            "net.rx_bytes is in bytes/s and net.rx_packets in packets/s: they cannot be added up"
        );
        assert!(of(&["net.rx_bytes"], &["mem.total"]).is_err());
    }
}
