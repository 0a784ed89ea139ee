//! `xport`: series out of files, computed columns, one table in XML or JSON.
//!
//! Files are read in the archive that fits the wanted step; columns of finer archives are averaged down to
//! the table's step. Columns are worked out one after the other, in the order of their definitions.

mod table;
mod variable;

pub use table::Table;
use variable::Aggregate;

use crate::at::When;
use crate::error::{Error, Result, refused};
use crate::fetch;
use crate::file::{Access, Rrd};
use crate::local_time;
use crate::number::{self, Reading, UNKNOWN};
use crate::rpn::{Moment, Op, Program, Series};
use crate::rra::Function;
use crate::text;

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

/// A definition: `DEF`, `CDEF` or `VDEF`.
struct Named {
    name: String,
    source: Source,
    /// Seconds by which `SHIFT` moves it where it is exported.
    shift: i64,
}

enum Source {
    Series(Column),
    Expression(Program),
    /// A function of the definition with this index.
    Value(Aggregate, usize),
}

/// A series as it was read from a file.
struct Column {
    step: u64,
    start: i64,
    values: Vec<f64>,
    /// What becomes of several rows that fall on one of the table.
    reduce: Function,
}

/// Definitions and exports so far.
#[derive(Default)]
struct Script {
    names: Vec<Named>,
    /// Index and legend.
    exports: Vec<(usize, String)>,
    /// `SHIFT`s by another definition's value.
    shifts: Vec<(usize, usize)>,
}

/// Builds the table of `DEF:`, `CDEF:`, `VDEF:`, `SHIFT:` and `XPORT:` arguments.
///
/// # Errors
/// rrdtool's messages where it has them.
pub fn build(arguments: &[String], plan: &Plan) -> Result<Table> {
    let mut script = Script::default();
    for argument in arguments {
        if script.names.len().max(script.exports.len()) > SERIES_MAX {
            return refused(format!("more than {SERIES_MAX} series"));
        }
        script.take(argument, plan)?;
    }
    if script.exports.is_empty() {
        return refused("no XPORT found, nothing to do");
    }
    script.table(plan)
}

impl Script {
    fn take(&mut self, argument: &str, plan: &Plan) -> Result<()> {
        match argument.split_once(':') {
            Some(("DEF", text)) => {
                let (name, column) = read(text, plan)?;
                self.define(name, Source::Series(column));
            }
            Some(("CDEF", text)) => {
                let Some((name, text)) = text.split_once('=') else {
                    return refused(format!("Cannot parse CDEF '{text}'"));
                };
                let Some(program) = Program::parse(text, |name| self.find(name)) else {
                    return refused(format!("invalid rpn expression in: {text}"));
                };
                self.define(name.into(), Source::Expression(program));
            }
            Some(("VDEF", text)) => self.value(text)?,
            Some(("SHIFT", text)) => self.shift(text, argument)?,
            Some(("XPORT", text)) => {
                let (name, legend) = text.split_once(':').unwrap_or((text, ""));
                let Some(index) = self.find(name) else {
                    return refused(format!("{name} is not a vname nor a number"));
                };
                if matches!(self.names[index].source, Source::Value(..)) {
                    return refused(format!("Cannot shift a VDEF: '{name}' in line '{argument}'\n"));
                }
                self.exports.push((index, legend.replace("\\:", ":")));
            }
            _ => return refused(format!("'{argument}' is not a valid function name")),
        }
        Ok(())
    }

    fn define(&mut self, name: String, source: Source) {
        self.names.push(Named { name, source, shift: 0 });
    }

    fn find(&self, wanted: &str) -> Option<usize> {
        self.names.iter().rposition(|named| named.name == wanted)
    }

    fn value(&mut self, text: &str) -> Result<()> {
        let Some((name, text)) = text.split_once('=') else {
            return refused(format!("Cannot parse VDEF '{text}'"));
        };
        let Some((of, function)) = text.split_once(',') else {
            return refused(format!("Comma expected in VDEF definition {text}"));
        };
        let Some(index) = self.find(of) else {
            return refused(format!("Not a valid vname: {of} in line {text}"));
        };
        if matches!(self.names[index].source, Source::Value(..)) {
            return refused(format!("variable '{of}' not DEF nor CDEF in VDEF '{text}'"));
        }
        let aggregate = Aggregate::parse(function, name)?;
        self.define(name.into(), Source::Value(aggregate, index));
        Ok(())
    }

    /// Seconds, or the name of a value that has them.
    fn shift(&mut self, text: &str, argument: &str) -> Result<()> {
        let (name, by) = text.split_once(':').unwrap_or((text, ""));
        let Some(index) = self.find(name) else { return refused(format!("vname {name} not found")) };
        if matches!(self.names[index].source, Source::Value(..)) {
            return refused(format!("Cannot shift a VDEF: '{name}' in line '{argument}'\n"));
        }
        match (number::read(by), self.find(by)) {
            (_, Some(by)) if matches!(self.names[by].source, Source::Value(..)) => {
                self.shifts.push((index, by))
            }
            (_, Some(_)) => {
                return refused(format!("Offset cannot be a (C)DEF: '{by}' in line '{argument}'\n"));
            }
            (Reading::Whole(seconds), None) => self.names[index].shift = number::as_long(seconds),
            _ => return refused(format!("error parsing number {by}")),
        }
        Ok(())
    }

    fn table(mut self, plan: &Plan) -> Result<Table> {
        let step_of = |named: &Named| match &named.source {
            Source::Series(column) => Some(column.step),
            _ => None,
        };
        let finest = self.names.iter().filter_map(step_of).min().unwrap_or(1);
        let step = finest.max(plan.step).max(1);
        let signed = step as i64;
        let start = plan.start - plan.start.rem_euclid(signed);
        let end = plan.end + (signed - 1) - (plan.end + signed - 1).rem_euclid(signed);
        let rows = usize::try_from((end - start) / signed).unwrap_or(0).max(1);
        let reach = plan.end - plan.end.rem_euclid(signed) + signed;
        let held = usize::try_from((reach - start) / signed).unwrap_or(0).max(rows);
        let grid = Grid { start, step, held, now: plan.now };
        let mut columns: Vec<Vec<f64>> = vec![];
        for named in &self.names {
            columns.push(grid.column(&named.source, &columns)?);
        }
        for (index, by) in self.shifts {
            self.names[index].shift = number::as_long(columns[by].first().copied().unwrap_or(0.0));
        }
        let export = |(index, _): &(usize, String)| {
            let by = self.names[*index].shift / signed;
            let from = |row: i64| usize::try_from(row).ok().and_then(|row| columns[*index].get(row)).copied();
            (0..rows as i64).map(|row| from(row.saturating_sub(by)).unwrap_or(UNKNOWN)).collect()
        };
        let legends = self.exports.iter().map(|(_, legend)| legend.clone()).collect();
        let columns = self.exports.iter().map(export).collect();
        Ok(Table { start: start + signed, end, step, legends, columns })
    }
}

/// The rows that a table is made of.
struct Grid {
    start: i64,
    step: u64,
    /// Rows of each column. As rrdtool has it, the one in which the time asked for ends is among them: where that time
    /// ends with a row, the row behind it, which is not shown but counts in values of a whole series and in predictions.
    held: usize,
    now: i64,
}

impl Grid {
    fn begin(&self, row: usize) -> i64 {
        self.start + row as i64 * self.step as i64
    }

    /// The rows of a definition; `before` are the columns it may name.
    fn column(&self, source: &Source, before: &[Vec<f64>]) -> Result<Vec<f64>> {
        match source {
            Source::Series(column) => {
                let row = |row| column.between(self.begin(row), self.begin(row + 1));
                Ok((0..self.held).map(row).collect())
            }
            Source::Value(aggregate, of) => Ok(vec![aggregate.of(&before[*of], self.step); self.held]),
            Source::Expression(program) => self.computed(program, before),
        }
    }

    fn computed(&self, program: &Program, before: &[Vec<f64>]) -> Result<Vec<f64>> {
        let used: Vec<usize> = {
            let names = program.nodes().iter().filter(|node| node.op == Op::Variable);
            names.map(|node| node.variable).collect()
        };
        let mut rows: Vec<f64> = Vec::with_capacity(self.held);
        let mut variables = vec![UNKNOWN; before.len()];
        for row in 0..self.held {
            let time = self.begin(row + 1);
            used.iter().for_each(|&index| variables[index] = before[index][row]);
            let place = Series {
                time,
                offset: local_time::local(time).map_or(0, |(_, offset, _)| offset),
                step: self.step,
                row,
                previous: rows.last().copied().unwrap_or(UNKNOWN),
                columns: before,
            };
            let moment = Moment { variables: &variables, now: self.now, series: Some(place) };
            rows.push(program.evaluate(&moment).map_err(Error::Refused)?);
        }
        Ok(rows)
    }
}

/// The file a `DEF:` reads, and the daemon it wants flushed first.
pub fn wanted(argument: &str) -> Option<(String, Option<String>)> {
    let words = words(argument.strip_prefix("DEF:")?.split_once('=')?.1);
    let daemon = words.iter().find_map(|word| word.strip_prefix("daemon=").map(str::to_string));
    Some((words.into_iter().next()?, daemon))
}

/// The parts of a `DEF:`; a colon in one of them is written with a backslash.
fn words(text: &str) -> Vec<String> {
    text.replace("\\:", "\u{0}").split(':').map(|word| word.replace('\u{0}', ":")).collect()
}

fn read(text: &str, plan: &Plan) -> Result<(String, Column)> {
    let fail = || Error::Refused(format!("Cannot parse DEF '{text}'"));
    let (name, rest) = text.split_once('=').ok_or_else(fail)?;
    let words = words(rest);
    let [path, source, function, options @ ..] = words.as_slice() else { return Err(fail()) };
    let Some(function) = Function::from_name(function) else {
        return refused(format!("unknown consolidation function '{function}'"));
    };
    let (mut step, mut reduce) = (plan.step, function);
    let (mut start, mut end) = (None, None);
    let when = |text: &str| When::parse(text, plan.now).map_err(Error::Refused);
    for option in options {
        match option.split_once('=') {
            Some(("step", value)) => step = crate::spec::duration(value, 1).map_err(|_| fail())?,
            Some(("start", value)) => start = Some(when(value)?),
            Some(("end", value)) => end = Some(when(value)?),
            Some(("daemon", _)) => {}
            Some(("reduce", value)) => {
                let Some(function) = Function::from_name(value) else {
                    return refused(format!("unknown consolidation function '{value}'"));
                };
                reduce = function;
            }
            _ => return Err(fail()),
        }
    }
    let start = start.unwrap_or_else(|| When::at(plan.start));
    let end = end.unwrap_or_else(|| When::at(plan.end));
    let (start, end) = When::range(&start, &end, plan.now).map_err(Error::Refused)?;
    let rrd = Rrd::open(&text::path(path), Access::Read)?;
    let wanted = step.max((plan.end.wrapping_sub(plan.start)).max(0) as u64 / plan.rows);
    let fetched = fetch::fetch(&rrd, function, start, end, wanted.max(1))?;
    let Some(index) = rrd.header.source(source) else {
        return refused(format!("No DS called '{source}' in '{path}'"));
    };
    let width = rrd.header.sources().len();
    let values = fetched.values.iter().skip(index).step_by(width).copied().collect();
    Ok((name.into(), Column { step: fetched.step, start: fetched.start, values, reduce }))
}

impl Column {
    /// The known rows that end within (`from`, `to`], made one.
    fn between(&self, from: i64, to: i64) -> f64 {
        let step = self.step as i64;
        let first = (from - self.start).div_euclid(step).max(0) as usize;
        let last = (to - self.start + step - 1).div_euclid(step).max(0) as usize;
        let rows = self.values.get(first..last.min(self.values.len())).unwrap_or(&[]);
        let known: Vec<f64> = rows.iter().copied().filter(|value| !value.is_nan()).collect();
        match (known.as_slice(), self.reduce) {
            ([], _) => UNKNOWN,
            ([one], _) => *one,
            (several, Function::Max) => several.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            (several, Function::Min) => several.iter().copied().fold(f64::INFINITY, f64::min),
            (several, Function::Last) => several[several.len() - 1],
            (several, _) => several.iter().sum::<f64>() / several.len() as f64,
        }
    }
}
