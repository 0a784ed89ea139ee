//! A program over the rows of a recording: for each lane an instance, as each node would have one. If an instance fails, khz says
//! so, and another one takes the next row.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{Absence, Nanos, Pattern, Reading, Series};
use khz_program::{Column, Input, Instance, Limits, Program, Spent};
use khz_record::{Block, Event};
use serde_json::{Map, json};

use crate::command::recording::Opened;
use crate::show::quantities::{of_bytes, of_span, of_time};
use crate::show::table::{json_line, remark};

/// Faults of a lane after which its rows are left out.
const FAULTS_MAX: u32 = 8;

/// A row that came out.
pub struct Out<'a> {
    node: &'a str,
    time: Nanos,
    /// After the first row of the recording.
    after: Nanos,
    names: &'a [String],
    values: &'a [f64],
}

/// Prints it. Values that are absent are left out.
pub fn written(row: &Out<'_>, as_json: bool, out: &mut impl Write) -> std::io::Result<()> {
    let present = row.names.iter().zip(row.values).filter(|(_, value)| !value.is_nan());
    if as_json {
        let values: Map<String, serde_json::Value> = present
            .map(|(name, value)| {
                (name.clone(), if value.is_finite() { json!(value) } else { json!(value.to_string()) })
            })
            .collect();
        return writeln!(
            out,
            "{}",
            json_line(&json!({"node": row.node, "time": row.time.seconds_text(), "values": values}))
        );
    }
    write!(out, "{:>12.3}s {}", row.after.as_secs_f64(), row.node)?;
    for (name, value) in present {
        write!(out, " {name}={value}")?;
    }
    writeln!(out)
}

/// A lane of the recording.
struct LaneTrial {
    node: String,
    name: String,
    /// The slots of its series.
    slots: Vec<usize>,
    columns: Vec<Column>,
    instance: Option<Instance>,
    /// What ended instances took.
    before: Spent,
    lost: u64,
    faults: u32,
    took: Duration,
}

/// A program that is tried.
pub struct Trial<'a> {
    program: &'a Program,
    opened: &'a Opened,
    first: Nanos,
    lanes: BTreeMap<usize, LaneTrial>,
    problem: Option<String>,
}

impl<'a> Trial<'a> {
    /// Over the chosen rows of a recording.
    pub fn new(program: &'a Program, opened: &'a Opened) -> Self {
        let first = opened.survey.span().map_or(Nanos(0), |(first, _)| first);
        Trial { program, opened, first, lanes: BTreeMap::new(), problem: None }
    }

    /// The first fault, if there was one.
    pub fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Takes what the recording has; gives out the rows of the program.
    pub fn take(&mut self, event: Event<'_>, mut out: impl FnMut(&Out<'_>)) {
        match event {
            Event::Lane(number, lane, _) => {
                self.lanes.entry(number).or_insert_with(|| LaneTrial::new(&lane.node, &lane.name));
            }
            Event::Columns(number, all) => {
                let (program, patterns) = (self.program, &self.opened.patterns);
                let Some(lane) = self.lanes.get_mut(&number) else { return };
                if let Err(problem) = lane.begin(program, patterns, &all) {
                    self.problem.get_or_insert(problem);
                }
            }
            Event::Lost(number, from, to) => {
                if let Some(lane) = self.lanes.get_mut(&number) {
                    lane.lost += to.saturating_sub(from);
                }
            }
            Event::Block(block) => self.block(block, &mut out),
            Event::Note(_) | Event::ClockSet(_) => {}
        }
    }

    fn block(&mut self, block: Block<'_>, out: &mut impl FnMut(&Out<'_>)) {
        let Some(lane) = self.lanes.get_mut(&block.lane).filter(|lane| !lane.slots.is_empty()) else {
            return;
        };
        let (program, opened, first, problem) = (self.program, self.opened, self.first, &mut self.problem);
        block.rows(|_, decoder| {
            let stamp = decoder.stamp();
            if !opened.holds(stamp.real()) || lane.faults >= FAULTS_MAX {
                return;
            }
            let reading = |slot: &usize| decoder.reading(*slot).unwrap_or(Reading::Absent(Absence::NotYet));
            let input = Input { stamp, lost: std::mem::take(&mut lane.lost) };
            let readings: Vec<Reading> = lane.slots.iter().map(reading).collect();
            let after = stamp.real().since(first);
            match lane.row(program, input, readings) {
                Ok(true) => {
                    let Some(instance) = &lane.instance else { return };
                    let (names, values) = (instance.names(), instance.values());
                    out(&Out { node: &lane.node, time: stamp.real(), after, names, values });
                }
                Ok(false) => {}
                Err(fault) => {
                    let sentence = format!(
                        "{}: {} after the first row: {fault}",
                        lane.node,
                        of_span(after.as_secs_f64())
                    );
                    remark!("{sentence}");
                    problem.get_or_insert(sentence);
                }
            }
            lane.say();
        });
    }

    /// What the rows of each lane took.
    pub fn summary(&self) -> Vec<String> {
        self.lanes.values().filter(|lane| !lane.slots.is_empty()).map(LaneTrial::summary).collect()
    }
}

impl LaneTrial {
    fn new(node: &str, name: &str) -> Self {
        LaneTrial {
            node: node.to_owned(),
            name: name.to_owned(),
            slots: Vec::new(),
            columns: Vec::new(),
            instance: None,
            before: Spent::default(),
            lost: 0,
            faults: 0,
            took: Duration::ZERO,
        }
    }

    /// Its rows have these series from now on.
    fn begin(
        &mut self,
        program: &Program,
        patterns: &[Pattern],
        all: &Arc<Vec<Series>>,
    ) -> Result<(), String> {
        let is_chosen =
            |series: &Series| patterns.is_empty() || khz_record::selects(patterns, &self.node, series);
        let chosen: Vec<usize> = (0..all.len()).filter(|slot| is_chosen(&all[*slot])).collect();
        let columns: Vec<Column> = chosen.iter().map(|slot| Column::of(&all[*slot])).collect();
        (self.slots, self.columns) = (chosen, columns);
        if self.slots.is_empty() {
            return Ok(());
        }
        self.learn(program).map_err(|problem| {
            // It would refuse them again.
            self.faults = FAULTS_MAX;
            format!("{}: {problem}", self.node)
        })
    }

    /// The instance learns the series; a new one if there is none.
    fn learn(&mut self, program: &Program) -> Result<(), khz_program::ProgramError> {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => Instance::start(program, Limits::default())?,
        };
        let begun = instance.begin(self.columns.clone());
        self.instance = Some(instance);
        self.say();
        begun
    }

    fn row(
        &mut self,
        program: &Program,
        input: Input,
        readings: Vec<Reading>,
    ) -> Result<bool, khz_program::ProgramError> {
        if self.instance.is_none() {
            self.learn(program)?;
        }
        let Some(instance) = &mut self.instance else { return Ok(false) };
        let begun = Instant::now();
        let comes_out = instance.row(input, readings.into_iter());
        self.took += begun.elapsed();
        comes_out.map_err(|fault| {
            self.say();
            self.faults += 1;
            self.before = self.spent();
            self.instance = None;
            fault.into()
        })
    }

    fn say(&mut self) {
        let said = self.instance.as_mut().map(Instance::said).unwrap_or_default();
        said.iter().for_each(|line| remark!("{} says: {line}", self.node));
    }

    /// What all its instances took.
    fn spent(&self) -> Spent {
        let now = self.instance.as_ref().map(Instance::spent).unwrap_or_default();
        Spent {
            rows_in: self.before.rows_in + now.rows_in,
            rows_out: self.before.rows_out + now.rows_out,
            fuel: self.before.fuel + now.fuel,
            fuel_most: self.before.fuel_most.max(now.fuel_most),
            memory_bytes: self.before.memory_bytes.max(now.memory_bytes),
            lines_left_out: self.before.lines_left_out + now.lines_left_out,
        }
    }

    fn summary(&self) -> String {
        let spent = self.spent();
        let a_row = |all: u64| all / spent.rows_in.max(1);
        let time = of_time(self.took.div_f64(spent.rows_in.max(1) as f64));
        let mut line = format!(
            "{} {}: {} series, {} rows in, {} out; {time} and {} fuel a row, {} at most of {}; memory {}",
            self.node,
            self.name,
            self.slots.len(),
            spent.rows_in,
            spent.rows_out,
            a_row(spent.fuel),
            spent.fuel_most,
            Limits::default().fuel_of_a_row,
            of_bytes(spent.memory_bytes as f64, ""),
        );
        if self.faults > 0 {
            line += &format!("; it failed {} times", self.faults);
        }
        if self.faults >= FAULTS_MAX {
            line += ", and the rows after that are left out";
        }
        if spent.lines_left_out > 0 {
            line += &format!("; {} lines that it said are left out", spent.lines_left_out);
        }
        line
    }
}
