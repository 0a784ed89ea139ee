//! One program in the child: its rows come out of a ring, and what comes out of them goes to the agent. If it fails, it begins again
//! with an empty memory, after a rest that becomes longer.

use std::time::Instant;

use khz_block::SchemaDecoder;
use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_gather::ProgramCounts;
use khz_model::{Absence, Nanos, Pattern, Reading};
use khz_program::{Column, Input, Instance, Limits, Program, Spent};
use khz_ring::{Cursor, Event, Reader};

use crate::limits::{REST, REST_MAX, ROWS_A_TURN, SLACK_MAX, SLACK_MIN, SLACK_PART, SOUND_FOR};
use crate::wire::{News, put_row};

/// Where a runner's messages go. `false`: the agent has gone.
pub(crate) trait Out {
    /// A message.
    fn tell(&mut self, news: &News) -> bool;
    /// Bytes of a message.
    fn send(&mut self, bytes: &[u8]) -> bool;
}

/// A program and its rows.
pub(crate) struct Runner {
    pub number: u32,
    program: Program,
    patterns: Vec<Pattern>,
    ring: Reader,
    cursor: Cursor,
    /// The generation and the number of slots whose columns are known.
    known: Option<(u32, u32)>,
    slots: Vec<u32>,
    columns: Vec<Column>,
    instance: Option<Instance>,
    names: Vec<String>,
    /// It takes no series as these; others may be better.
    is_refused: bool,
    failure: Failure,
    lost: u64,
    spent: Spent,
    took: u64,
    rows_lost: u64,
    failures: u64,
    /// The newest row (boot clock).
    newest: Nanos,
    message: Vec<u8>,
}

/// The rest after failures.
#[derive(Default)]
struct Failure {
    is_told: bool,
    rest: Nanos,
    until: Nanos,
}

impl Runner {
    /// Begins a program at the next row.
    pub fn new(number: u32, program: Program, patterns: Vec<Pattern>, ring: Reader) -> Self {
        let mut cursor = Cursor::new(ring.clone(), ring.newest());
        cursor.seek_newest();
        cursor.take_lost();
        Runner {
            number,
            program,
            patterns,
            ring,
            cursor,
            known: None,
            slots: Vec::new(),
            columns: Vec::new(),
            instance: None,
            names: Vec::new(),
            is_refused: false,
            failure: Failure::default(),
            lost: 0,
            spent: Spent::default(),
            took: 0,
            rows_lost: 0,
            failures: 0,
            newest: Nanos(0),
            message: Vec::new(),
        }
    }

    /// Another program takes its place: with the row after its last one, and with an empty memory.
    pub fn replace(&mut self, program: Program) {
        self.spent = self.spent_all();
        (self.program, self.instance, self.is_refused) = (program, None, false);
        self.failure = Failure { is_told: self.failure.is_told, ..Failure::default() };
    }

    /// Takes the rows that are there, but not more than a turn's. Returns when to come again; `None`: the agent has gone.
    pub fn turn(&mut self, now: Nanos, out: &mut impl Out) -> Option<Nanos> {
        if self.known.is_none() && self.cursor.decoder().header().is_some() {
            self.learn_series(out)?;
        }
        let mut rows = 0;
        loop {
            match self.cursor.advance() {
                Event::Block => self.learn_series(out)?,
                Event::Row => {
                    self.row(now, out)?;
                    rows += 1;
                    if rows >= ROWS_A_TURN {
                        return Some(now);
                    }
                }
                Event::UpToDate => return Some(self.due(now, rows > 0)),
            }
        }
    }

    /// When the next row is there: a little after its tick. If it was not, a little later.
    fn due(&self, now: Nanos, has_come: bool) -> Nanos {
        let period = self.ring.period();
        let slack = Nanos(period.0 / SLACK_PART).clamp(SLACK_MIN, SLACK_MAX);
        let next = Nanos(self.newest.0.saturating_add(period.0).saturating_add(slack.0));
        if has_come && next > now { next } else { Nanos(now.0 + (period.0 / 4).max(SLACK_MIN.0)) }
    }

    /// The series of the present block.
    fn learn_series(&mut self, out: &mut impl Out) -> Option<()> {
        let Some(header) = self.cursor.decoder().header() else { return Some(()) };
        let now = (header.generation, header.slots);
        if self.known == Some(now) {
            return Some(());
        }
        self.known = Some(now);
        let mut bytes = Vec::new();
        self.ring.schema(now.0, 0, SCHEMA_BYTES_MAX, &mut bytes);
        let mut schema = SchemaDecoder::new();
        // What is damaged has no name; the part before it is right.
        let _ = schema.feed(&bytes);
        let chosen = schema.series().iter().zip(0u32..now.1);
        let chosen = chosen.filter(|(series, _)| series.is_selected(&self.patterns));
        let (columns, slots): (Vec<Column>, Vec<u32>) =
            chosen.map(|(series, slot)| (Column::of(series), slot)).unzip();
        self.slots = slots;
        if self.columns != columns {
            (self.columns, self.is_refused) = (columns, false);
            self.begin(out)?;
        }
        Some(())
    }

    /// The program learns its series; a new instance if there is none.
    fn begin(&mut self, out: &mut impl Out) -> Option<()> {
        let begun = match self.instance.take() {
            Some(instance) => Ok(instance),
            None => Instance::start(&self.program, Limits::default()),
        };
        let begun = begun.and_then(|mut instance| {
            let done = instance.begin(self.columns.clone());
            self.instance = Some(instance);
            done
        });
        self.say(out)?;
        match begun {
            Ok(()) => {
                let names = self.instance.as_ref().map_or(&[][..], Instance::names);
                if self.names != names {
                    self.names = names.to_vec();
                    let (number, names) = (self.number, self.names.clone());
                    return out.tell(&News::Names { number, names }).then_some(());
                }
                Some(())
            }
            Err(error) => {
                // It would refuse these series again.
                self.is_refused = true;
                self.fail(&error.to_string(), out)
            }
        }
    }

    fn row(&mut self, now: Nanos, out: &mut impl Out) -> Option<()> {
        let stamp = self.cursor.decoder().stamp();
        self.newest = stamp.boot;
        let lost = self.cursor.take_lost();
        self.rows_lost += lost;
        self.lost += lost;
        if self.is_refused || now < self.failure.until {
            self.rows_lost += 1;
            self.lost += 1;
            return Some(());
        }
        if self.instance.is_none() {
            self.begin(out)?;
        }
        let Some(instance) = self.instance.as_mut().filter(|_| !self.is_refused) else { return Some(()) };
        let decoder = self.cursor.decoder();
        let reading =
            |slot: &u32| decoder.reading(*slot as usize).unwrap_or(Reading::Absent(Absence::NotYet));
        let input = Input { stamp, lost: std::mem::take(&mut self.lost) };
        let begun = Instant::now();
        let comes_out = instance.row(input, self.slots.iter().map(reading));
        self.took += begun.elapsed().as_nanos() as u64;
        match comes_out {
            Ok(comes_out) => {
                if comes_out {
                    put_row(self.number, stamp, instance.values(), &mut self.message);
                    out.send(&self.message).then_some(())?;
                }
                if std::mem::take(&mut self.failure.is_told) {
                    out.tell(&News::Works { number: self.number }).then_some(())?;
                }
                self.say(out)
            }
            Err(fault) => {
                self.say(out)?;
                let since = Nanos(now.0.saturating_sub(self.failure.until.0));
                let rest = Nanos(self.failure.rest.0 * 2).clamp(REST, REST_MAX);
                self.failure.rest = if since > SOUND_FOR { REST } else { rest };
                self.failure.until = Nanos(now.0 + self.failure.rest.0);
                self.fail(&fault.to_string(), out)
            }
        }
    }

    /// It has failed: nobody executes it again.
    fn fail(&mut self, why: &str, out: &mut impl Out) -> Option<()> {
        self.failures += 1;
        self.spent = self.spent_all();
        self.instance = None;
        self.failure.is_told = true;
        out.tell(&News::Failed { number: self.number, why: why.to_owned() }).then_some(())
    }

    fn say(&mut self, out: &mut impl Out) -> Option<()> {
        let said = self.instance.as_mut().map(Instance::said).unwrap_or_default();
        let number = self.number;
        said.into_iter().all(|line| out.tell(&News::Said { number, line })).then_some(())
    }

    /// What all its instances took.
    fn spent_all(&self) -> Spent {
        let now = self.instance.as_ref().map(Instance::spent).unwrap_or_default();
        Spent {
            rows_in: self.spent.rows_in + now.rows_in,
            rows_out: self.spent.rows_out + now.rows_out,
            fuel: self.spent.fuel + now.fuel,
            fuel_most: self.spent.fuel_most.max(now.fuel_most),
            memory_bytes: now.memory_bytes,
            lines_left_out: self.spent.lines_left_out + now.lines_left_out,
        }
    }

    /// What it has taken.
    pub fn counts(&self) -> ProgramCounts {
        let Spent { rows_in, rows_out, fuel, fuel_most, memory_bytes, .. } = self.spent_all();
        [rows_in, rows_out, self.rows_lost, self.failures, fuel, fuel_most, self.took, memory_bytes]
    }
}
