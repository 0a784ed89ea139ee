//! `xport`: series of files, computed columns, one table in XML or JSON.
//!
//! - A `DEF` reads the archive that fits the wanted step; finer rows are consolidated to rows of at least that step.
//! - Each definition has rows of its own step and its own time; an expression, and the table, is as fine as the finest of its
//!   parts. An expression has the time that all its parts have.
//! - Columns are computed and shifted one after the other, in the order of the arguments.

mod argument;
mod definition;
mod reduce;
mod rows;
mod table;
mod variable;

pub use argument::Argument;
use argument::Name;
use definition::Definition;
use rows::{Grid, common};
pub use rows::{Rows, check_rows};
pub use table::Table;
use variable::Aggregate;

use crate::error::{Error, Result, refused};
use crate::fetch::{self, Range};
use crate::file::Rrd;
use crate::local_time;
use crate::number::{self, Reading, UNKNOWN};
use crate::rpn::{self, Moment, Op, Program, Series};

/// Series and expressions of one command.
const SERIES_MAX: usize = 1000;

/// Seconds of a row: more than any file covers, and few enough to calculate with.
const STEP_MAX: u64 = 1 << 40;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// First second.
    pub start: i64,
    /// Last second.
    pub end: i64,
    /// Wanted seconds of a row; 0 for as fine as `rows` allows.
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
}

/// A `SHIFT`.
struct Shift {
    /// The definition that it moves.
    of: usize,
    by: By,
    /// Definitions that came before it: they have the rows as they were, later ones see them moved.
    before: usize,
}

enum By {
    Seconds(i64),
    /// The value of the definition with this index.
    Value(usize),
}

enum Source {
    /// Not read yet.
    Wanted(Definition),
    /// Rows of a file; [`Script::columns`] takes them.
    Series(Rows),
    Expression(Program),
    /// A function of the definition with this index.
    Value(Aggregate, usize),
}

/// Definitions and exports so far.
#[derive(Default)]
pub struct Script {
    names: Vec<Named>,
    /// Index and legend.
    exports: Vec<(usize, String)>,
    /// In the order of the arguments.
    shifts: Vec<Shift>,
}

/// Builds the table of `DEF:`, `CDEF:`, `VDEF:`, `SHIFT:` and `XPORT:` arguments. `open` is that of [`Script::read`].
///
/// # Errors
/// rrdtool's messages where it has them.
pub fn build(
    arguments: &[String],
    plan: &Plan,
    open: impl FnMut(&str, Option<&str>) -> Result<Option<Rrd>>,
) -> Result<Table> {
    if arguments.is_empty() {
        return refused("can't make an xport without contents");
    }
    let mut script = Script::default();
    for argument in arguments {
        if script.names.len().max(script.exports.len()) > SERIES_MAX {
            return refused(format!("more than {SERIES_MAX} series"));
        }
        script.take(argument, plan)?;
    }
    script.read(plan, open)?;
    script.table(plan)
}

impl Script {
    fn take(&mut self, text: &str, plan: &Plan) -> Result<()> {
        let Some(mut argument) = self.take_definition(Argument::parse(text)?, plan)? else { return Ok(()) };
        if argument.command != "XPORT" {
            return refused(format!("'{}' is not a valid function name in {text}", argument.command));
        }
        self.export(&mut argument)?;
        argument.end()
    }

    /// Takes a `DEF`, `CDEF`, `VDEF` or `SHIFT`; hands any other argument back.
    ///
    /// # Errors
    /// rrdtool's messages.
    pub fn take_definition<'a>(
        &mut self,
        mut argument: Argument<'a>,
        plan: &Plan,
    ) -> Result<Option<Argument<'a>>> {
        if self.names.len() > SERIES_MAX {
            return refused(format!("more than {SERIES_MAX} series"));
        }
        match argument.command.as_str() {
            "DEF" => {
                let taken = |name: &str| self.find(name).is_some();
                let (name, wanted) = definition::parse(&mut argument, plan, taken)?;
                self.names.push(Named { name, source: Source::Wanted(wanted) });
            }
            "CDEF" => self.expression(argument.name()?)?,
            "VDEF" => self.value(argument.name()?)?,
            "SHIFT" => self.shift(&mut argument)?,
            _ => return Ok(Some(argument)),
        }
        argument.end()?;
        Ok(None)
    }

    /// Whether the definition is one value of a series.
    pub fn is_value(&self, index: usize) -> bool {
        matches!(self.names[index].source, Source::Value(..))
    }

    /// When the value of a `VDEF` occurred, for those that occur at a time.
    pub fn moment(&self, index: usize, columns: &[Rows]) -> Option<i64> {
        match &self.names[index].source {
            // Its own start: a later `SHIFT` has moved that of the series.
            Source::Value(aggregate, of) => aggregate.moment(columns[index].start, &columns[*of]),
            _ => None,
        }
    }

    /// Takes the rows of every definition, which [`Script::read`] has read. A second call would find none.
    ///
    /// # Errors
    /// An expression cannot be computed.
    pub fn columns(&mut self, plan: &Plan) -> Result<Vec<Rows>> {
        let mut columns: Vec<Rows> = vec![];
        let mut moved = vec![0; self.names.len()];
        let shifts = std::mem::take(&mut self.shifts);
        let mut shifts = shifts.iter().peekable();
        for index in 0..=self.names.len() {
            while let Some(shift) = shifts.next_if(|shift| shift.before <= index) {
                shift.apply(&mut columns, &mut moved);
            }
            if index < self.names.len() {
                columns.push(self.take_rows(index, &columns, plan)?);
            }
        }
        Ok(columns)
    }

    /// The rows of a definition; `before` has those that it may name.
    fn take_rows(&mut self, index: usize, before: &[Rows], plan: &Plan) -> Result<Rows> {
        match &mut self.names[index].source {
            // BUG if there is one: all were read.
            Source::Wanted(_) => Ok(Rows { start: plan.start, step: 1, values: vec![] }),
            Source::Series(rows) => {
                let values = std::mem::take(&mut rows.values);
                Ok(Rows { start: rows.start, step: rows.step, values })
            }
            Source::Value(aggregate, of) => {
                let Rows { start, step, values } = &before[*of];
                let values = vec![aggregate.of(values, *step); values.len().max(1)];
                Ok(Rows { start: *start, step: *step, values })
            }
            Source::Expression(program) => {
                let program = std::mem::take(program);
                let rows = self.computed(&program, before, plan);
                self.names[index].source = Source::Expression(program);
                rows
            }
        }
    }

    /// The rows of an expression, as fine as the finest of what it names, over the time that all of it has.
    fn computed(&self, program: &Program, before: &[Rows], plan: &Plan) -> Result<Rows> {
        // As in rrdtool, the value of a series is a number, also within PREV() and before TREND.
        let number = |index: usize| before[index].values.first().copied().unwrap_or(UNKNOWN);
        let program = program.with_numbers(|index| self.is_value(index).then(|| number(index)));
        let names = program.nodes().iter().filter(|node| matches!(node.op, Op::Variable | Op::PrevOther));
        let mut used: Vec<usize> = names.map(|node| node.variable).collect();
        used.sort_unstable();
        used.dedup();
        let series: Vec<&Rows> = self.steps_of(&program).map(|index| &before[index]).collect();
        let grid = Grid::common(&series)?;
        let is_local = program.nodes().iter().any(|node| node.op == Op::Ltime);
        let mut values: Vec<f64> = Vec::with_capacity(grid.held);
        let mut variables = vec![UNKNOWN; before.len()];
        let mut columns: Vec<rpn::Column<'_>> =
            before.iter().map(|rows| rpn::Column::new(&rows.values, rows.start, rows.step)).collect();
        let looked = std::cell::Cell::new(0);
        let mut stack = vec![];
        for row in 0..grid.held {
            let time = grid.end(row);
            for &index in &used {
                columns[index].advance(time);
                variables[index] = columns[index].value();
            }
            let place = Series {
                time,
                offset: if is_local { local_time::local(time).map_or(0, |(_, offset, _)| offset) } else { 0 },
                step: grid.step,
                row,
                previous: values.last().copied().unwrap_or(UNKNOWN),
                columns: &columns,
                looked: &looked,
            };
            let moment = Moment { variables: &variables, now: plan.now, series: Some(place) };
            values.push(program.evaluate_on(&mut stack, &moment).map_err(Error::Refused)?);
        }
        Ok(Rows { start: grid.start, step: grid.step, values })
    }

    /// Reads the rows of each definition. `open` has the name of a file and of the definition's own daemon; where it opens
    /// nothing, the rows are unknown.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(
        &mut self,
        plan: &Plan,
        mut open: impl FnMut(&str, Option<&str>) -> Result<Option<Rrd>>,
    ) -> Result<()> {
        for named in &mut self.names {
            if let Source::Wanted(wanted) = &named.source {
                let rows = match open(&wanted.path, wanted.daemon.as_deref())? {
                    Some(rrd) => rows(&rrd, wanted, plan)?,
                    None => unknown(wanted, plan)?,
                };
                named.source = Source::Series(rows);
            }
        }
        Ok(())
    }

    /// Gives `source` a name that is not used yet.
    fn define(&mut self, name: &str, source: Source) -> Result<()> {
        if self.find(name).is_some() {
            return refused(format!("trying to reuse vname {name}"));
        }
        self.names.push(Named { name: name.into(), source });
        Ok(())
    }

    fn expression(&mut self, Name { name, value: text }: Name) -> Result<()> {
        if text.is_empty() {
            return refused("can not parse an empty rpn expression");
        }
        let program = match Program::parse_or_rest(&text, |name| self.find(name)) {
            Ok(program) => program,
            Err(rest) => {
                let unknown =
                    rest.split(',').next().and_then(|word| word.strip_prefix("PREV(")?.strip_suffix(')'));
                return refused(match unknown {
                    Some(name) => format!("variable '{name}' not found"),
                    None => format!("don't understand '{rest}'"),
                });
            }
        };
        if self.steps_of(&program).next().is_none() {
            return refused("rpn expressions without DEF or CDEF variables are not supported");
        }
        self.define(&name.unwrap_or_default(), Source::Expression(program))
    }

    /// The series and expressions that `program` names.
    fn steps_of<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = usize> + 'a {
        let names = program.nodes().iter().filter(|node| matches!(node.op, Op::Variable | Op::PrevOther));
        names
            .map(|node| node.variable)
            .filter(|index| !matches!(self.names[*index].source, Source::Value(..)))
    }

    fn export(&mut self, argument: &mut Argument<'_>) -> Result<()> {
        // A graph's colour has no meaning here.
        argument.keyed("color");
        let legend = argument.keyed("legend");
        let Some(name) = argument.keyed("vname").or_else(|| argument.next_value()) else {
            return refused("No positional VNAME");
        };
        let name = name.split('#').next().unwrap_or("");
        let Some(index) = self.find(name) else {
            return refused(match number::read(name) {
                Reading::Whole(_) => {
                    format!("Encountered unknown type variable '' in line '{}'", argument.text)
                }
                _ => format!("{name} is not a vname nor a number"),
            });
        };
        if matches!(self.names[index].source, Source::Value(..)) {
            return refused(format!("Cannot shift a VDEF: '{name}' in line '{}'\n", argument.text));
        }
        self.exports.push((index, legend.or_else(|| argument.next_word()).unwrap_or_default()));
        Ok(())
    }

    /// The index of the definition with this name.
    pub fn find(&self, wanted: &str) -> Option<usize> {
        self.names.iter().position(|named| named.name == wanted)
    }

    fn value(&mut self, Name { name, value: text }: Name) -> Result<()> {
        let name = name.unwrap_or_default();
        let Some((of, function)) = text.split_once(',') else {
            return refused(format!("Comma expected in VDEF definition {text}"));
        };
        let Some(index) = self.find(of) else {
            return refused(match of == name {
                true => format!("variable '{of}' not DEF nor CDEF in VDEF '{text}'"),
                false => format!("Not a valid vname: {of} in line {text}"),
            });
        };
        if matches!(self.names[index].source, Source::Value(..)) {
            return refused(format!("variable '{of}' not DEF nor CDEF in VDEF '{text}'"));
        }
        let aggregate = Aggregate::parse(function, &name)?;
        self.define(&name, Source::Value(aggregate, index))
    }

    /// Seconds, or the name of a value in seconds.
    fn shift(&mut self, argument: &mut Argument<'_>) -> Result<()> {
        let line = argument.text;
        let by = argument.keyed("shift");
        let Some(name) = argument.keyed("vname").or_else(|| argument.next_value()) else {
            return refused(format!("No argument for definition of vdef/rrd in {line}"));
        };
        let Some(index) = self.find(&name) else { return refused(format!("vname {name} not found")) };
        if matches!(self.names[index].source, Source::Value(..)) {
            return refused(format!("Cannot shift a VDEF: '{name}' in line '{line}'\n"));
        }
        let Some(by) = by.or_else(|| argument.next_value()) else { return refused("No shift given") };
        let by = by.as_str();
        let by = match (number::read(by), self.find(by)) {
            (_, Some(by)) if matches!(self.names[by].source, Source::Value(..)) => By::Value(by),
            (_, Some(_)) => {
                return refused(format!("Offset cannot be a (C)DEF: '{by}' in line '{line}'\n"));
            }
            (Reading::Whole(seconds), None) => By::Seconds(number::as_long(seconds)),
            _ => return refused(format!("error parsing number {by}")),
        };
        self.shifts.push(Shift { of: index, by, before: self.names.len() });
        Ok(())
    }

    fn table(mut self, plan: &Plan) -> Result<Table> {
        let columns = self.columns(plan)?;
        // As in rrdtool: errors of expressions come first.
        if self.exports.is_empty() {
            return refused("no XPORT found, nothing to do");
        }
        let steps = self.exports.iter().map(|(index, _)| columns[*index].step);
        let grid = Grid::new(steps.reduce(common).unwrap_or(1), (plan.start, plan.end));
        let signed = grid.step as i64;
        let end = plan.end + (signed - 1) - (plan.end + signed - 1).rem_euclid(signed);
        check_rows(((end - grid.start) / signed).saturating_mul(self.exports.len() as i64))?;
        let rows = usize::try_from((end - grid.start) / signed).unwrap_or(0);
        let export = |(index, _): &(usize, String)| {
            let row = |row: i64| columns[*index].at(grid.start + (row + 1) * signed);
            (0..rows as i64).map(row).collect()
        };
        let legends = self.exports.iter().map(|(_, legend)| legend.clone()).collect();
        let columns = self.exports.iter().map(export).collect();
        Ok(Table { start: grid.start + signed, end, step: grid.step, legends, columns })
    }
}

impl Shift {
    /// Moves the rows; `moved` has by how many seconds each definition is moved already. As in rrdtool, a later `SHIFT` takes the
    /// place of an earlier one, and rows move by whole rows.
    fn apply(&self, columns: &mut [Rows], moved: &mut [i64]) {
        let seconds = match self.by {
            By::Seconds(seconds) => seconds,
            By::Value(by) => number::as_long(columns[by].values.first().copied().unwrap_or(0.0)),
        };
        let rows = &mut columns[self.of];
        let step = rows.step.clamp(1, STEP_MAX) as i64;
        let seconds = seconds / step * step;
        rows.start = rows.start.saturating_sub(moved[self.of]).saturating_add(seconds);
        moved[self.of] = seconds;
    }
}

impl Plan {
    /// Seconds that rows have at least.
    fn least_step(&self) -> u64 {
        let seconds = u64::try_from(self.end.saturating_sub(self.start)).unwrap_or(0);
        self.step.max(seconds / self.rows.max(1)).clamp(1, STEP_MAX)
    }
}

/// The rows that `wanted` names.
fn rows(rrd: &Rrd, wanted: &Definition, plan: &Plan) -> Result<Rows> {
    let Definition { path, source, function, reduce, .. } = wanted;
    let least = wanted.step.max(plan.least_step());
    // As in rrdtool: a step of its own chooses the archive, even if it is finer than the rows that are wanted.
    let chooses = if wanted.has_own_step { wanted.step } else { least };
    let Some(rra) = fetch::choose(&rrd.header, *function, wanted.start, wanted.end, chooses) else {
        return refused("the RRD does not contain an RRA matching the chosen CF");
    };
    let range = Range::of(&rrd.header, rra, wanted.start, wanted.end)?;
    let Some(index) = rrd.header.source(source) else {
        return refused(format!("No DS called '{source}' in '{path}'"));
    };
    reduce::reduced(rrd, &range, index, grid(range.step, least, wanted)?, *reduce)
}

/// Rows without a value over all of the time that is wanted.
fn unknown(wanted: &Definition, plan: &Plan) -> Result<Rows> {
    let seconds = u64::try_from(wanted.end.saturating_sub(wanted.start)).unwrap_or(0);
    let grid = grid(seconds.clamp(1, STEP_MAX), wanted.step.max(plan.least_step()), wanted)?;
    Ok(Rows { start: grid.start, step: grid.step, values: vec![UNKNOWN; grid.held] })
}

/// Rows of at least `least` seconds, each of one or several rows of `step` seconds.
fn grid(step: u64, least: u64, wanted: &Definition) -> Result<Grid> {
    let step = step.max(1);
    let longer = least.min(STEP_MAX).div_ceil(step).max(1).saturating_mul(step);
    Grid::checked(longer, (wanted.start, wanted.end))
}
