//! The lines of a plot, out of a hub's store: a point for each pixel of width.

use khz_ask::{Cell, PastPart, PastPoint};
use khz_model::{Kind, Nanos, Pattern, RangeShape, ValueType};
use khz_record::Measure;
use khz_view::{Chart, Point};

use super::curves::{CURVES_MAX, Curve, GAP_PERIODS};
use super::{Frame, PlotFlags, draw};
use crate::command::job_nodes;
use crate::command::past::{Asked, Within};
use crate::config::NodeFlags;
use crate::show::outcome::Failure;

/// Asks for the points and draws them. The answer says afterwards what of it was not there.
pub fn chart(flags: &PlotFlags, outer: NodeFlags) -> Result<(Chart, Asked), Failure> {
    if flags.chosen.patterns.is_empty() && flags.right.is_empty() {
        return Err(Failure::usage("say what to draw with --match; `khz catalog` lists every metric"));
    }
    if flags.per_sample {
        return Err(Failure::usage("--per-sample needs a recording: the store's points are drawn as rates"));
    }
    let (_, plan) = crate::command::plan(flags.settings.clone().over(outer))?;
    let named = |texts: &[String]| job_nodes::patterns(texts, &flags.target, &plan);
    let (left, right) = (named(&flags.chosen.patterns)?, named(&flags.right)?.patterns);
    let span = flags.chosen.span(&left)?;
    let patterns: Vec<Pattern> = left.patterns.iter().chain(&right).cloned().collect();
    let mut asked = Asked::ask(&flags.target, &plan, &patterns, span, RangeShape::Points(flags.points()))?;
    let seconds = span.to.since(span.from).as_secs_f64();
    let (mut curves, mut left_out, mut labels) = (Vec::new(), 0, 0);
    while let Some(part) = asked.next_part()? {
        if matches!(part.format.value_type, ValueType::Labels | ValueType::Unknown) {
            labels += 1;
        } else if curves.len() == CURVES_MAX {
            left_out += 1;
        } else {
            curves.push(curve(&part, span.from, seconds));
        }
    }
    if curves.is_empty() && labels == 0 {
        asked.end(Within::Span)?;
    }
    let (from, measure) = (Some(span.from), Measure::PerSecond);
    let frame = Frame { from, seconds, period: None, measure, whose: "nodes" };
    Ok((draw(flags, &patterns, &right, (curves, left_out), frame)?, asked))
}

/// The line of a series from this time on, of this many seconds.
pub fn curve(part: &PastPart, from: Nanos, seconds: f64) -> Curve {
    let at = |time: Nanos| (time.0 as f64 - from.0 as f64) / 1e9;
    let usual = usual_distance(&part.points);
    let (mut points, mut gaps): (Vec<Point>, Vec<(f64, f64)>) = (Vec::new(), Vec::new());
    let mut before: Option<&PastPoint> = None;
    for point in &part.points {
        let silence = before.map_or(0.0, |before| at(point.first.0) - at(before.last.0));
        let is_behind_gap = silence > GAP_PERIODS * usual;
        if is_behind_gap {
            gaps.push((at(point.first.0) - silence, at(point.first.0)));
        }
        let drawn = match part.kind == Kind::Counter.as_str() {
            true => rate(before.filter(|_| !is_behind_gap), point).map(|rate| (rate, rate, rate)),
            false => gauge(point),
        };
        if let Some((low, mean, high)) = drawn {
            let at = (at(point.first.0) + at(point.last.0)) / 2.0;
            points.push(Point { at, low, mean, high, is_behind_gap });
        }
        before = Some(point);
    }
    // Before the first value and after the last one, too.
    if let (Some(first), Some(last)) = (part.points.first(), part.points.last()) {
        let edge = (seconds * EDGE).max(GAP_PERIODS * if usual.is_finite() { usual } else { 0.0 });
        if at(first.first.0) > edge {
            gaps.insert(0, (0.0, at(first.first.0)));
        }
        if seconds - at(last.last.0) > edge {
            gaps.push((at(last.last.0), seconds));
        }
    }
    Curve::of(part.node.clone(), part.to_series(), points, gaps)
}

/// A shorter gap at either end, as a share of the whole, is none.
const EDGE: f64 = 0.02;

/// The median time from one point to the next: the width of a point, or the time between two rows where that is longer.
fn usual_distance(points: &[PastPoint]) -> f64 {
    let mut distances: Vec<u64> = points.windows(2).map(|two| two[1].first.0.0 - two[0].first.0.0).collect();
    distances.sort_unstable();
    distances.get(distances.len() / 2).map_or(f64::INFINITY, |distance| *distance as f64 / 1e9)
}

fn gauge(point: &PastPoint) -> Option<(f64, f64, f64)> {
    let number = |cell: &Option<Cell>| cell.as_ref().and_then(to_f64);
    let sum: f64 = point.sum.as_ref()?.parse().ok()?;
    Some((number(&point.lowest)?, sum / point.count.max(1) as f64, number(&point.highest)?))
}

/// The growth of a counter in a second, since the point before, or within this one. A counter that fell was reset: what it
/// shows then has grown since.
fn rate(before: Option<&PastPoint>, point: &PastPoint) -> Option<f64> {
    let (first, last) = (to_f64(&point.first.1)?, to_f64(&point.last.1)?);
    let within = last - first + point.correction.as_ref()?.parse::<f64>().ok()?;
    let (growth, from) = match before {
        Some(before) => {
            let last = to_f64(&before.last.1)?;
            (within + if first >= last { first - last } else { first }, before.last.0)
        }
        None => (within, point.first.0),
    };
    let seconds = point.last.0.since(from).as_secs_f64();
    (seconds > 0.0).then(|| growth / seconds)
}

fn to_f64(cell: &Cell) -> Option<f64> {
    cell.text()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::ValueFormat;

    fn point(seconds: (u64, u64), values: (&str, &str), correction: &str) -> PastPoint {
        let cell = |text: &str| Cell::value(text).unwrap();
        PastPoint {
            begin: Nanos::from_secs(seconds.0),
            count: 2,
            first: (Nanos::from_secs(seconds.0), cell(values.0)),
            last: (Nanos::from_secs(seconds.1), cell(values.1)),
            lowest: Some(cell(values.0)),
            highest: Some(cell(values.1)),
            sum: Some("40".into()),
            correction: Some(correction.into()),
        }
    }

    fn part(kind: &str, points: Vec<PastPoint>) -> PastPart {
        PastPart {
            shift: None,
            node: "n1".into(),
            name: "net.rx_bytes".into(),
            instance: None,
            kind: kind.into(),
            unit: "bytes".into(),
            format: ValueFormat::WHOLE,
            step: Nanos(0),
            rows: Vec::new(),
            points,
        }
    }

    #[test]
    fn counters_become_rates_and_resets_count() {
        let points = vec![
            point((0, 10), ("100", "200"), "0"),
            // It fell from 300 to 5 within this one.
            point((20, 30), ("250", "15"), "300"),
            // And before this one.
            point((40, 50), ("10", "20"), "0"),
        ];
        let curve = curve(&part("counter", points), Nanos(0), 50.0);
        let rates: Vec<f64> = curve.points.iter().map(|point| point.mean).collect();
        assert_eq!(rates, [10.0, (115.0) / 20.0, 20.0 / 20.0]);
        assert!(curve.gaps.is_empty(), "{:?}", curve.gaps);
    }

    #[test]
    fn gauges_have_a_band_and_missing_time_is_a_gap() {
        let mut points: Vec<PastPoint> =
            (0..5).map(|n| point((n * 10, n * 10 + 9), ("10", "30"), "0")).collect();
        points.push(point((500, 509), ("10", "30"), "0"));
        let curve = curve(&part("gauge", points), Nanos(0), 509.0);
        let Point { low, mean, high, .. } = curve.points[0];
        assert_eq!((low, mean, high), (10.0, 20.0, 30.0));
        assert_eq!(curve.gaps, [(49.0, 500.0)]);
        assert!(curve.points[5].is_behind_gap && !curve.points[4].is_behind_gap);
    }
}
