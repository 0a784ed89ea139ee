//! Lines and labels of the time axis, in local time.

use khz_rrd::local_time::{self, Fields};
use khz_rrd::text;

use crate::graph::Graph;
use crate::options::{GivenTimes, TimeGrid, Unit};

/// Lines at most of one kind.
const LINES_MAX: usize = 1000;
const DAY: i64 = 86_400;

/// The lines and labels of a time axis.
#[derive(Default)]
pub struct Times {
    /// Thin lines.
    pub minor: Vec<i64>,
    /// Strong lines.
    pub major: Vec<i64>,
    /// Where a label is centred, and its text.
    pub labels: Vec<(f64, String)>,
}

/// A choice: thin lines, strong lines, labels, seconds a label stands for, its format, and pixels that it takes.
type Choice = ((Unit, i64), (Unit, i64), (Unit, i64), i64, &'static str, f64);

const CHOICES: [Choice; 22] = [
    ((Unit::Second, 1), (Unit::Second, 5), (Unit::Second, 10), 0, "%H:%M:%S", 60.0),
    ((Unit::Second, 5), (Unit::Second, 30), (Unit::Minute, 1), 0, "%H:%M", 42.0),
    ((Unit::Second, 30), (Unit::Minute, 1), (Unit::Minute, 2), 0, "%H:%M", 42.0),
    ((Unit::Minute, 1), (Unit::Minute, 5), (Unit::Minute, 5), 0, "%H:%M", 42.0),
    ((Unit::Minute, 1), (Unit::Minute, 5), (Unit::Minute, 10), 0, "%H:%M", 42.0),
    ((Unit::Minute, 5), (Unit::Minute, 20), (Unit::Minute, 20), 0, "%H:%M", 42.0),
    ((Unit::Minute, 10), (Unit::Minute, 30), (Unit::Minute, 30), 0, "%H:%M", 42.0),
    ((Unit::Minute, 10), (Unit::Hour, 1), (Unit::Hour, 1), 0, "%H:%M", 42.0),
    ((Unit::Minute, 30), (Unit::Hour, 1), (Unit::Hour, 2), 0, "%H:%M", 42.0),
    ((Unit::Hour, 1), (Unit::Hour, 2), (Unit::Hour, 4), 0, "%H:%M", 42.0),
    ((Unit::Hour, 1), (Unit::Hour, 6), (Unit::Hour, 6), 0, "%a %H:%M", 66.0),
    ((Unit::Hour, 2), (Unit::Hour, 12), (Unit::Hour, 12), 0, "%a %H:%M", 66.0),
    // Labels of days name their month, and those of months their year.
    ((Unit::Hour, 6), (Unit::Day, 1), (Unit::Day, 1), DAY, "%a %d %b", 66.0),
    ((Unit::Hour, 12), (Unit::Day, 1), (Unit::Day, 1), DAY, "%d %b", 42.0),
    ((Unit::Day, 1), (Unit::Day, 2), (Unit::Day, 2), DAY, "%d %b", 42.0),
    ((Unit::Day, 1), (Unit::Week, 1), (Unit::Week, 1), 7 * DAY, "", 48.0),
    ((Unit::Week, 1), (Unit::Month, 1), (Unit::Month, 1), 30 * DAY, "%b %Y", 56.0),
    ((Unit::Month, 1), (Unit::Month, 3), (Unit::Month, 3), 30 * DAY, "%b %Y", 56.0),
    ((Unit::Month, 1), (Unit::Month, 6), (Unit::Month, 6), 30 * DAY, "%b %Y", 56.0),
    ((Unit::Month, 3), (Unit::Year, 1), (Unit::Year, 1), 365 * DAY, "%Y", 30.0),
    ((Unit::Year, 1), (Unit::Year, 5), (Unit::Year, 5), 365 * DAY, "%Y", 30.0),
    ((Unit::Year, 10), (Unit::Year, 50), (Unit::Year, 50), 365 * DAY, "%Y", 30.0),
];

/// The lines and labels of the graph.
pub fn times(graph: &Graph) -> Times {
    let options = &graph.options;
    let given = match &options.time_grid {
        TimeGrid::Off => return Times::default(),
        TimeGrid::Given(given) => given.clone(),
        TimeGrid::Automatic => chosen(graph),
    };
    let [minor, major, label] = given.steps;
    let within = |step| lines(step, options.start, options.end);
    let mut labels = vec![];
    for time in lines(label, options.start - given.precision.max(0), options.end) {
        let middle = time as f64 + given.precision as f64 / 2.0;
        if middle >= options.start as f64 && middle <= options.end as f64 {
            let shown = local_time::format(time, &text::bytes(&given.format)).unwrap_or_default();
            labels.push((middle, text::of(&shown).into_owned()));
        }
    }
    Times { minor: if options.has_minor { within(minor) } else { vec![] }, major: within(major), labels }
}

fn chosen(graph: &Graph) -> GivenTimes {
    let options = &graph.options;
    let pixel = (options.end - options.start) as f64 / graph.frame.width.max(1) as f64;
    let letter = options.size("AXIS") / 7.0;
    let fits = |choice: &&Choice| seconds(choice.2) as f64 / pixel.max(1e-9) >= choice.5 * letter;
    let (minor, major, label, precision, format, _) =
        CHOICES.iter().find(fits).unwrap_or(&CHOICES[CHOICES.len() - 1]);
    let format = if format.is_empty() { options.week_format.clone() } else { (*format).into() };
    GivenTimes { steps: [*minor, *major, *label], precision: *precision, format }
}

fn seconds((unit, count): (Unit, i64)) -> i64 {
    count
        * match unit {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3600,
            Unit::Day => DAY,
            Unit::Week => 7 * DAY,
            Unit::Month => 30 * DAY,
            Unit::Year => 365 * DAY,
        }
}

/// The times from `start` to `end` at which a step begins.
fn lines(step: (Unit, i64), start: i64, end: i64) -> Vec<i64> {
    if (end - start) / seconds(step).max(1) > LINES_MAX as i64 {
        return vec![];
    }
    let mut times = vec![];
    let Some((fields, ..)) = local_time::local(start) else { return times };
    let mut fields = begin(fields, step);
    for _ in 0..LINES_MAX * 2 {
        let Some(time) = local_time::seconds(&fields) else { break };
        if time > end {
            break;
        }
        if time >= start {
            times.push(time);
        }
        advance(&mut fields, step);
    }
    times
}

/// The begin of the step in which the time lies.
fn begin(mut fields: Fields, (unit, count): (Unit, i64)) -> Fields {
    let down = |value: i64| value - value.rem_euclid(count);
    let midnight = |fields: &mut Fields| (fields.hour, fields.minute, fields.second) = (0, 0, 0);
    match unit {
        Unit::Second => fields.second = down(fields.second),
        Unit::Minute => (fields.minute, fields.second) = (down(fields.minute), 0),
        Unit::Hour => (fields.hour, fields.minute, fields.second) = (down(fields.hour), 0, 0),
        Unit::Day => {
            midnight(&mut fields);
            fields.day = down(fields.day - 1) + 1;
        }
        Unit::Week => {
            midnight(&mut fields);
            // Weeks begin on Monday.
            fields.day -= (fields.weekday + 6).rem_euclid(7);
        }
        Unit::Month => {
            midnight(&mut fields);
            (fields.day, fields.month) = (1, down(fields.month));
        }
        Unit::Year => {
            midnight(&mut fields);
            (fields.day, fields.month, fields.year) = (1, 0, down(fields.year));
        }
    }
    fields
}

fn advance(fields: &mut Fields, (unit, count): (Unit, i64)) {
    match unit {
        Unit::Second => fields.second += count,
        Unit::Minute => fields.minute += count,
        Unit::Hour => fields.hour += count,
        Unit::Day => fields.day += count,
        Unit::Week => fields.day += 7 * count,
        Unit::Month => fields.month += count,
        Unit::Year => fields.year += count,
    }
}
