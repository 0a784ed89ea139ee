//! Rows of the past: out of the memory of a khz, out of its store, or out of a recording. They are asked for in a thread of their own,
//! and become a tape. It shows nothing.

use std::collections::HashMap;
use std::sync::Arc;

use khz_ask::{Column, Piece};
use khz_model::{Absence, Delivery, Kind, Nanos, NodeName, Pattern, RangeShape, Reading, Row, Series};
use khz_record::{Event, Recording};

use super::app::Question;
use super::node::FEEDS;
use super::series;
use super::tape::Tape;
use crate::command::past::{Asked, Span, now};
use crate::command::target::Target;
use crate::command::watch::past_pieces;
use crate::config::Plan;

/// Readings of an answer that are kept: four minutes of a node at 10 Hz. They take about 25 MiB.
const READINGS_MAX: usize = 524_288;

/// A khz has rows of this time in its memory (docs/http.md, `/khz/v1/history`).
const MEMORY: Nanos = Nanos::from_secs(600);
/// Rows of each node that are asked of the memory: 10 Hz over three minutes. Of a longer time some are left out, evenly.
const MEMORY_ROWS: usize = 2_000;

/// Whom the past is asked of.
#[derive(Clone)]
pub enum Source {
    /// A running khz, or this machine's kernel, which has no past.
    Server {
        /// Which.
        target: Arc<Target>,
        /// The settings.
        plan: Arc<Plan>,
    },
    /// A recording.
    Recording {
        /// Its files.
        recording: Recording,
        /// Its first row.
        first: Nanos,
        /// Its last row.
        last: Nanos,
    },
}

/// Whom rows are asked of.
#[derive(Clone)]
pub struct Reader {
    /// Which khz.
    pub target: Arc<Target>,
    /// The settings.
    pub plan: Arc<Plan>,
}

/// The rows that a question is about, or a sentence that says why there are none.
pub fn ask(source: &Source, hosts: Option<&str>, question: &Question) -> Result<Tape, String> {
    let patterns = match &question.node {
        Some(node) => series::of_node(node, None),
        None => series::of_cluster(hosts),
    };
    match source {
        Source::Recording { recording, first, last } => {
            of_recording(recording, (*first, *last), &patterns, question)
        }
        Source::Server { target, plan } => of_server(target, plan, &patterns, question),
    }
}

fn of_server(
    target: &Target,
    plan: &Plan,
    patterns: &[Pattern],
    question: &Question,
) -> Result<Tape, String> {
    let now = now();
    if question.from >= now {
        return Err("that time is still to come".to_owned());
    }
    let is_recent = now.since(question.at) < MEMORY && question.at <= now;
    let memory = || is_recent.then(|| of_memory(target, plan, patterns, question)).flatten();
    let store = || of_store(target, plan, patterns, question, now);
    match question.node {
        Some(_) => memory().map_or_else(store, Ok),
        // The memory leaves rows out where nodes have many, and a list needs one a second of each: the store has these.
        None => store().or_else(|problem| memory().ok_or(problem)),
    }
}

fn of_store(
    target: &Target,
    plan: &Plan,
    patterns: &[Pattern],
    question: &Question,
    now: Nanos,
) -> Result<Tape, String> {
    let span = Span { from: question.from, to: question.to.min(now) };
    let asked = Asked::ask(target, plan, patterns, span, RangeShape::Rows);
    let mut asked = asked.map_err(|failure| failure.to_string())?;
    let mut rows: Vec<(Nanos, Piece)> = Vec::new();
    let mut known = HashMap::new();
    while let Some(step) = asked.next_step().map_err(|failure| failure.to_string())? {
        past_pieces(&step, &mut known, &mut rows);
    }
    rows.sort_by_key(|(time, _)| *time);
    let mut tape = Tape::of(READINGS_MAX);
    rows.iter().for_each(|(_, piece)| tape.take(0, piece));
    Ok(tape)
}

/// The rows that the khz has in its memory, if they reach back to the moment.
fn of_memory(target: &Target, plan: &Plan, patterns: &[Pattern], question: &Question) -> Option<Tape> {
    let span = Nanos(now().since(question.from).0.min(MEMORY.0));
    let pieces = target.running(plan).ok()?.history(patterns, span, MEMORY_ROWS).ok()?;
    let mut tape = Tape::of(READINGS_MAX);
    for piece in by_time(pieces) {
        let piece = match piece {
            Piece::Rows { node, lost, mut rows, last } => {
                rows.retain(|row| question.from <= row.time && row.time < question.to);
                Piece::Rows { node, lost, rows, last }
            }
            other => other,
        };
        tape.take(0, &piece);
    }
    tape.span().is_some_and(|(first, _)| first <= question.at).then_some(tape)
}

/// Rows node by node become rows in the order of their times, after all columns.
pub fn by_time(pieces: Vec<Piece>) -> Vec<Piece> {
    let (mut sorted, mut all) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Rows { node, rows, .. } => all.extend(rows.into_iter().map(|row| (node.clone(), row))),
            other => sorted.push(other),
        }
    }
    all.sort_by_key(|(_, row)| row.time);
    sorted.extend(all.into_iter().map(|(node, row)| Piece::Rows {
        node,
        lost: 0,
        rows: vec![row],
        last: None,
    }));
    sorted
}

fn of_recording(
    recording: &Recording,
    (first, last): (Nanos, Nanos),
    patterns: &[Pattern],
    question: &Question,
) -> Result<Tape, String> {
    if question.at > last {
        return Err("this is the end of the recording".to_owned());
    }
    if question.to < first {
        return Err("this is the beginning of the recording".to_owned());
    }
    let mut tape = Tape::of(READINGS_MAX);
    // Of each lane its node, and its chosen slots with their series.
    let mut lanes: HashMap<usize, Lane> = HashMap::new();
    let read = recording.read(|event| match event {
        Event::Lane(number, lane, _) => {
            if let Ok(node) = NodeName::new(&lane.node) {
                let feed = lanes.values().filter(|lane| lane.node == node).count().min(FEEDS - 1);
                lanes.insert(number, Lane { node, feed, slots: Vec::new(), columns: Arc::default() });
            }
        }
        Event::Columns(number, all) => {
            let Some(lane) = lanes.get_mut(&number) else { return };
            lane.choose(patterns, &all);
            tape.take(lane.feed, &lane.piece());
        }
        // A block begins with its first row: later ones have nothing of the span.
        Event::Block(block) if block.header.stamp.real() <= question.to => {
            let number = block.lane;
            let Some(lane) = lanes.get(&number) else { return };
            let mut rows = Vec::new();
            block.rows(|_, decoder| {
                let stamp = decoder.stamp();
                if question.from <= stamp.real() && stamp.real() < question.to {
                    let reading =
                        |slot: &usize| decoder.reading(*slot).unwrap_or(Reading::Absent(Absence::NotYet));
                    rows.push(Row { stamp, readings: lane.slots.iter().map(reading).collect() });
                }
            });
            if !rows.is_empty() {
                tape.take(lane.feed, &Piece::rows_of(&lane.delivery(rows)));
            }
        }
        _ => {}
    });
    read.map_err(|error| khz_ask::sentence(&error))?;
    Ok(tape)
}

/// A lane of a recording.
struct Lane {
    node: NodeName,
    feed: usize,
    slots: Vec<usize>,
    columns: Arc<Vec<Series>>,
}

impl Lane {
    fn choose(&mut self, patterns: &[Pattern], all: &[Series]) {
        let of_node = |pattern: &&Pattern| pattern.matches_node(self.node.as_str());
        let patterns: Vec<Pattern> = patterns.iter().filter(of_node).cloned().collect();
        let chosen: Vec<(usize, Series)> = all
            .iter()
            .enumerate()
            .filter(|(_, series)| series.is_selected(&patterns))
            .map(|(slot, series)| (slot, series.clone()))
            .collect();
        self.slots = chosen.iter().map(|(slot, _)| *slot).collect();
        self.columns = Arc::new(chosen.into_iter().map(|(_, series)| series).collect());
    }

    /// Its columns. No rate was granted: a recording has the rows that came.
    fn piece(&self) -> Piece {
        let column = |series: &Series| Column {
            series: series.to_string(),
            counter: series.metric.kind == Kind::Counter,
            unit: series.metric.unit.to_string(),
            places: series.metric.places,
        };
        let columns = self.columns.iter().map(column).collect();
        Piece::Columns { node: self.node.to_string(), rate: String::new(), columns }
    }

    fn delivery(&self, rows: Vec<Row>) -> Delivery {
        let (node, columns) = (self.node.clone(), self.columns.clone());
        Delivery { node, columns, rows, lost: 0, rate: None, last: None }
    }
}
