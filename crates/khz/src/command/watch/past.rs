//! `khz watch --from`: rows out of a hub's store, shown at the speed at which they came, or at another. It asks for a short
//! time at once, so that it begins soon and holds little.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use khz_ask::{Cell, Column, PastPart, Piece, Row};
use khz_model::{Kind, Nanos, Pattern, RangeShape};

use crate::command::found::Found;
use crate::command::past::{self, Asked, Span, Step, Within};
use crate::command::target::Target;
use crate::config::Plan;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::remark;

/// The time that is asked for at once: a minute, or a second of what the user sees where that is longer.
const SLICE: Nanos = Nanos::from_secs(60);
/// An empty slice doubles the next one, at most this number of times: a minute becomes a day.
const EMPTY_MAX: u32 = 10;
/// The longest time for which nobody hears of a signal.
const SLEEP_MAX: Duration = Duration::from_millis(200);

/// A replay of some time.
pub struct Replay<'a> {
    target: &'a Target,
    plan: &'a Plan,
    patterns: Vec<Pattern>,
    /// All of it.
    whole: Span,
    /// What is still to be asked for.
    span: Span,
    slice: Nanos,
    /// How many slices were empty, one after the other: where there is nothing, the next one is longer.
    empty: u32,
    speed: f64,
    /// When rows are due; `None`: before the first one, or they are not kept waiting.
    pace: Option<Pace>,
    /// Rows that wait for their time.
    rows: VecDeque<(Nanos, Piece)>,
    columns: HashMap<String, Vec<Column>>,
    /// What has come of each pattern until now.
    found: Found,
    is_partly: bool,
}

/// When a row is due.
struct Pace {
    began: Instant,
    from: Nanos,
    speed: f64,
}

impl Pace {
    fn wait(&self, time: Nanos) -> Duration {
        let after = time.since(self.from).as_secs_f64() / self.speed;
        let due = Duration::try_from_secs_f64(after).ok().and_then(|after| self.began.checked_add(after));
        due.map_or(SLEEP_MAX, |due| due.saturating_duration_since(Instant::now()))
    }
}

impl<'a> Replay<'a> {
    /// A replay of this span, `speed` times as fast as it was; 0: as fast as it comes.
    pub fn new(
        target: &'a Target,
        plan: &'a Plan,
        patterns: Vec<Pattern>,
        span: Span,
        speed: f64,
    ) -> Result<Self, Failure> {
        if !(0.0..=SPEED_MAX).contains(&speed) {
            // In this form a very large number has few digits.
            return Err(Failure::usage(format!("--speed is a number from 0 to {SPEED_MAX}, not {speed:?}")));
        }
        let slice = Nanos(SLICE.0.max((speed * 1e9) as u64));
        Ok(Replay {
            target,
            plan,
            found: Found::new(&patterns),
            patterns,
            whole: span,
            span,
            slice,
            empty: 0,
            speed,
            pace: None,
            rows: VecDeque::new(),
            columns: HashMap::new(),
            is_partly: false,
        })
    }

    /// Gives all rows to `follow`, which ends when it likes.
    pub fn show(
        mut self,
        follow: impl FnOnce(&mut dyn FnMut() -> Result<Option<Vec<Piece>>, Failure>) -> Outcome,
    ) -> Outcome {
        let outcome = follow(&mut || self.next())?;
        // If the user stops it early, nobody knows what might have come.
        let is_whole = self.span.from >= self.span.to && self.rows.is_empty();
        let lacking = if is_whole { self.found.lacking() } else { Vec::new() };
        if !lacking.is_empty() {
            let server = self.target.running(self.plan)?;
            return past::end(&server, &lacking, self.found.is_nothing(), false, Within::Rows(self.whole));
        }
        Ok(if self.is_partly { Done::Partly { missing: Vec::new() } } else { outcome })
    }

    /// The next row, when it is due; nothing while it is not; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<Piece>>, Failure> {
        while self.rows.is_empty() {
            if self.span.from >= self.span.to {
                return Ok(None);
            }
            self.ask()?;
        }
        if let Some((time, _)) = self.rows.front().filter(|_| self.speed > 0.0) {
            let begin = Pace { began: Instant::now(), from: *time, speed: self.speed };
            let wait = self.pace.get_or_insert(begin).wait(*time);
            if wait > SLEEP_MAX {
                std::thread::sleep(SLEEP_MAX);
                return Ok(Some(Vec::new()));
            }
            std::thread::sleep(wait);
        }
        Ok(Some(self.rows.pop_front().map(|(_, piece)| piece).into_iter().collect()))
    }

    /// Asks for the next slice, and puts its rows into the order of their times.
    fn ask(&mut self) -> Result<(), Failure> {
        let slice = self.slice.0.saturating_mul(1 << self.empty.min(EMPTY_MAX));
        let to = Nanos(self.span.from.0.saturating_add(slice).min(self.span.to.0));
        let slice = Span { from: self.span.from, to };
        self.span.from = to;
        let mut asked = Asked::ask(self.target, self.plan, &self.patterns, slice, RangeShape::Rows)?;
        let mut rows: Vec<(Nanos, Piece)> = Vec::new();
        while let Some(step) = asked.next_step()? {
            pieces(&step, &mut self.columns, &mut rows);
        }
        self.found.add(asked.found());
        if asked.is_damaged() && !std::mem::replace(&mut self.is_partly, true) {
            remark!("parts of the store are damaged and are left out");
        }
        self.empty = if rows.is_empty() { self.empty + 1 } else { 0 };
        // Stable: the columns of a node come before its first row.
        rows.sort_by_key(|(time, _)| *time);
        self.rows.extend(rows);
        Ok(())
    }
}

/// The rows of a step as pieces, each with its time. `known` has the columns that each node had before: columns come before the first
/// row that has others.
pub fn pieces(step: &Step, known: &mut HashMap<String, Vec<Column>>, rows: &mut Vec<(Nanos, Piece)>) {
    let columns: Vec<Column> = step.parts.iter().map(column).collect();
    let mut is_new = known.get(&step.node) != Some(&columns);
    let node = &step.node;
    let taken: Result<(), std::convert::Infallible> = step.rows(|time, boot, row| {
        if std::mem::take(&mut is_new) {
            let (node, columns) = (node.clone(), columns.clone());
            rows.push((time, Piece::Columns { node, rate: RATE.to_owned(), columns }));
        }
        let mut cells = vec![Cell::Absent("not sampled".to_owned()); step.parts.len()];
        for (part, reading) in row {
            cells[*part] = reading.cell.clone();
        }
        let row = Row { time, clock: boot, cells };
        rows.push((time, Piece::Rows { node: node.clone(), lost: 0, rows: vec![row], last: None }));
        Ok(())
    });
    let Ok(()) = taken;
    known.insert(step.node.clone(), columns);
}

/// What a line of columns says in place of a rate: the store has what the node has sent.
const RATE: &str = "its stored rate";

/// A week in ten minutes is a thousand; nobody can see more.
const SPEED_MAX: f64 = 1e6;

fn column(part: &PastPart) -> Column {
    Column {
        series: part.series(),
        counter: part.kind == Kind::Counter.as_str(),
        unit: part.unit.clone(),
        places: part.format.places,
    }
}
