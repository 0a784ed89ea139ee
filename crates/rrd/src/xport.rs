//! `xport`: series out of files, computed columns, one table in XML or JSON.
//!
//! Files are read in the archive that fits the wanted step; columns of finer archives are averaged down to
//! the table's step.

use std::path::Path;

use crate::error::{Error, Result, refused};
use crate::fetch;
use crate::file::{Access, Rrd};
use crate::local_time;
use crate::number::{UNKNOWN, scaled_text};
use crate::rpn::{Moment, Op, Program, Series};
use crate::rra::Function;

/// Series and expressions one command may name.
const SERIES_MAX: usize = 1000;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// First second.
    pub start: i64,
    /// Last second.
    pub end: i64,
    /// Wanted seconds a row, 0 for as fine as `rows` allows.
    pub step: u64,
    /// Rows wanted at most.
    pub rows: u64,
    /// The clock.
    pub now: i64,
}

/// The finished table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    start: i64,
    end: i64,
    step: u64,
    legends: Vec<String>,
    columns: Vec<Vec<f64>>,
}

struct Column {
    name: String,
    step: u64,
    start: i64,
    values: Vec<f64>,
}

/// Builds the table of `DEF:`, `CDEF:` and `XPORT:` arguments.
///
/// # Errors
/// rrdtool's messages where it has them.
pub fn build(arguments: &[String], plan: &Plan) -> Result<Table> {
    let mut series: Vec<Column> = vec![];
    let mut expressions: Vec<(String, Program, Vec<usize>)> = vec![];
    let mut exports: Vec<(usize, String)> = vec![];
    // Names in their order of definition: a series by its index, an expression behind all series.
    let mut names: Vec<(String, Source)> = vec![];
    for argument in arguments {
        if names.len() > SERIES_MAX {
            return refused(format!("more than {SERIES_MAX} series"));
        }
        if let Some(text) = argument.strip_prefix("DEF:") {
            let column = read(text, plan)?;
            names.push((column.name.clone(), Source::Series(series.len())));
            series.push(column);
        } else if let Some(text) = argument.strip_prefix("CDEF:") {
            let Some((name, text)) = text.split_once('=') else {
                return refused(format!("Cannot parse CDEF '{text}'"));
            };
            let find = |wanted: &str| names.iter().rposition(|(name, _)| name == wanted);
            let Some(program) = Program::parse(text, find) else {
                return refused(format!("invalid rpn expression in: {text}"));
            };
            let used = program.nodes().iter().filter(|node| matches!(node.op, Op::Variable | Op::PrevOther));
            let used = used.map(|node| node.variable).collect();
            names.push((name.into(), Source::Expression(expressions.len())));
            expressions.push((name.into(), program, used));
        } else if let Some(text) = argument.strip_prefix("XPORT:") {
            let (name, legend) = text.split_once(':').unwrap_or((text, ""));
            let Some(index) = names.iter().rposition(|(known, _)| known == name) else {
                return refused(format!("{name} is not a vname nor a number"));
            };
            exports.push((index, legend.replace("\\:", ":")));
        } else {
            return refused(format!("'{argument}' is not a valid function name"));
        }
    }
    if exports.is_empty() {
        return refused("no XPORT found, nothing to do");
    }
    finish(series, &expressions, &exports, &names, plan)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Series(usize),
    Expression(usize),
}

fn read(text: &str, plan: &Plan) -> Result<Column> {
    let fail = || Error::Refused(format!("Cannot parse DEF '{text}'"));
    let (name, rest) = text.split_once('=').ok_or_else(fail)?;
    // A colon in a path is written with a backslash.
    let rest = rest.replace("\\:", "\u{0}");
    let words: Vec<String> = rest.split(':').map(|word| word.replace('\u{0}', ":")).collect();
    let [path, source, function, options @ ..] = words.as_slice() else { return Err(fail()) };
    let Some(function) = Function::from_name(function) else {
        return refused(format!("unknown consolidation function '{function}'"));
    };
    let mut step = plan.step;
    for option in options {
        match option.strip_prefix("step=").map(|text| crate::spec::duration(text, 1)) {
            Some(Ok(seconds)) => step = seconds,
            _ => return Err(fail()),
        }
    }
    let rrd = Rrd::open(Path::new(path), Access::Read)?;
    let wanted = step.max((plan.end.wrapping_sub(plan.start)).max(0) as u64 / plan.rows);
    let fetched = fetch::fetch(&rrd, function, plan.start, plan.end, wanted.max(1))?;
    let Some(index) = rrd.header.source(source) else {
        return refused(format!("No DS called '{source}' in '{path}'"));
    };
    let width = rrd.header.sources().len();
    let values = fetched.values.iter().skip(index).step_by(width).copied().collect();
    Ok(Column { name: name.into(), step: fetched.step, start: fetched.start, values })
}

impl Column {
    /// The mean of the known rows that end within (`from`, `to`].
    fn between(&self, from: i64, to: i64) -> f64 {
        let step = self.step as i64;
        let first = (from - self.start).div_euclid(step).max(0) as usize;
        let last = (to - self.start + step - 1).div_euclid(step).max(0) as usize;
        let rows = self.values.get(first..last.min(self.values.len())).unwrap_or(&[]);
        let known: Vec<f64> = rows.iter().copied().filter(|value| !value.is_nan()).collect();
        match known.as_slice() {
            [] => UNKNOWN,
            [one] => *one,
            several => several.iter().sum::<f64>() / several.len() as f64,
        }
    }
}

fn finish(
    series: Vec<Column>,
    expressions: &[(String, Program, Vec<usize>)],
    exports: &[(usize, String)],
    names: &[(String, Source)],
    plan: &Plan,
) -> Result<Table> {
    let finest = series.iter().map(|column| column.step).min().unwrap_or(1);
    let step = finest.max(plan.step).max(1);
    let signed = step as i64;
    let begin = series.iter().map(|column| column.start).min().unwrap_or(plan.start);
    let start = begin - begin.rem_euclid(signed);
    let end = plan.end + signed - plan.end.rem_euclid(signed);
    let rows = ((end - start) / signed) as usize;
    let mut columns = vec![Vec::with_capacity(rows); exports.len()];
    let mut previous: Vec<f64> = vec![];
    for row in 0..rows {
        let from = start + row as i64 * signed;
        let time = from + signed;
        let offset = local_time::local(time).map_or(0, |(_, offset, _)| offset);
        let mut values: Vec<f64> = Vec::with_capacity(names.len());
        for (index, (_, source)) in names.iter().enumerate() {
            let value = match source {
                Source::Series(at) => series[*at].between(from, time),
                Source::Expression(at) => {
                    let place = Series {
                        time,
                        offset,
                        step,
                        count: row as u64 + 1,
                        previous: previous.get(index).copied().unwrap_or(UNKNOWN),
                        previous_variables: &previous,
                    };
                    let moment = Moment { variables: &values, now: plan.now, series: Some(place) };
                    expressions[*at].1.evaluate(&moment).map_err(Error::Refused)?
                }
            };
            values.push(value);
        }
        for (column, (index, _)) in columns.iter_mut().zip(exports) {
            column.push(values[*index]);
        }
        previous = values;
    }
    let legends = exports.iter().map(|(_, legend)| legend.clone()).collect();
    Ok(Table { start, end, step, legends, columns })
}

impl Table {
    fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    /// The time rrdtool prints beside row `index`: its beginning, and the table's end for the last one more.
    fn time(&self, index: usize) -> i64 {
        self.start + index as i64 * self.step as i64
    }

    fn value(&self, column: usize, row: usize) -> f64 {
        self.columns[column].get(row).copied().unwrap_or(UNKNOWN)
    }

    /// As XML; `times` adds a `<t>` to each row, `numbered` counts the value elements.
    pub fn xml(&self, times: bool, numbered: bool) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n\n<xport>\n  <meta>\n");
        let rows = self.rows() + 1;
        text.push_str(&format!("    <start>{}</start>\n    <end>{}</end>\n", self.start, self.end));
        text.push_str(&format!("    <step>{}</step>\n    <rows>{rows}</rows>\n", self.step));
        text.push_str(&format!("    <columns>{}</columns>\n    <legend>\n", self.columns.len()));
        for legend in &self.legends {
            let legend = legend.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            text.push_str(&format!("      <entry>{legend}</entry>\n"));
        }
        text.push_str("    </legend>\n  </meta>\n  <data>\n");
        for row in 0..rows {
            text.push_str("    <row>");
            if times {
                text.push_str(&format!("<t>{}</t>", self.time(row)));
            }
            for column in 0..self.columns.len() {
                let tag = if numbered { format!("v{column}") } else { "v".into() };
                text.push_str(&format!("<{tag}>{}</{tag}>", scaled_text(self.value(column, row))));
            }
            text.push_str("</row>\n");
        }
        text.push_str("  </data>\n</xport>\n");
        text
    }

    /// As JSON; `times` puts the time in front of each row.
    pub fn json(&self, times: bool) -> String {
        let mut text = String::from("{ \"about\": \"RRDtool graph JSON output\",\n  \"meta\": {\n");
        text.push_str(&format!("    \"start\": {},\n    \"end\": {},\n", self.start, self.end));
        text.push_str(&format!("    \"step\": {},\n    \"legend\": [\n", self.step));
        let quoted = |text: &String| format!("      \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        text.push_str(&self.legends.iter().map(quoted).collect::<Vec<_>>().join(",\n"));
        text.push_str("\n          ]\n     },\n  \"data\": [\n");
        let lines: Vec<String> = (0..self.rows() + 1)
            .map(|row| {
                let value = |column| match self.value(column, row) {
                    value if value.is_nan() => "null".into(),
                    value => scaled_text(value),
                };
                let values: Vec<String> = (0..self.columns.len()).map(value).collect();
                let time = if times { format!("\"{}\",", self.time(row)) } else { String::new() };
                format!("    [ {time}{} ]", values.join(", "))
            })
            .collect();
        text.push_str(&lines.join(",\n"));
        text.push_str("\n  ]\n}\n");
        text
    }
}
