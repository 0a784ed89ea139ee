//! Rows of a recording around a moment. It is read from its start; blocks of other times are skipped. If it is still being written,
//! its end moves on.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use khz_ask::{Column, Piece};
use khz_model::{Absence, Delivery, Kind, Nanos, NodeName, Pattern, Reading, Row, Series};
use khz_record::{Block, Event, Recording};

use super::super::app::{Question, Sought};
use super::super::node::FEEDS;
use super::super::tape::Tape;
use super::{READINGS_MAX, around};
use crate::command::past::Span;

/// A recording, and what is known of its length.
#[derive(Clone)]
pub struct Recorded {
    recording: Recording,
    files: Vec<PathBuf>,
    known: Arc<Mutex<Known>>,
}

/// What was found when the files had this length.
struct Known {
    bytes: u64,
    recorded: RecordedSpan,
}

/// The time of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedSpan {
    /// Its first row.
    pub first: Nanos,
    /// Its last row.
    pub last: Nanos,
    /// Somebody still writes it.
    pub goes_on: bool,
}

impl Recorded {
    /// A recording whose files had this length before it was surveyed: its first and its last row.
    pub fn new(files: Vec<PathBuf>, bytes: u64, (first, last): (Nanos, Nanos)) -> Self {
        let goes_on = is_being_written(&files);
        let known = Known { bytes, recorded: RecordedSpan { first, last, goes_on } };
        Recorded { recording: Recording::of(&files), files, known: Arc::new(Mutex::new(known)) }
    }

    /// Its time. If its files have another length now, it is searched for its ends.
    pub fn span(&self) -> RecordedSpan {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let bytes = bytes_of(&self.files);
        if known.bytes != bytes {
            known.bytes = bytes;
            known.recorded.goes_on = is_being_written(&self.files);
            // What cannot be read is said by the next read.
            if let Some((first, last)) = ends(&self.recording) {
                known.recorded = RecordedSpan { first, last, ..known.recorded };
            }
        }
        known.recorded
    }
}

/// The length of files together.
pub fn bytes_of(files: &[PathBuf]) -> u64 {
    files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum()
}

fn is_being_written(files: &[PathBuf]) -> bool {
    files.iter().any(|file| khz_record::is_being_written(file))
}

/// When the first and the last row were gathered.
fn ends(recording: &Recording) -> Option<(Nanos, Nanos)> {
    let mut ends: Option<(Nanos, Nanos)> = None;
    let read = recording.read(|event| {
        let Event::Block(block) = event else { return };
        let (begin, end) = (block.header.stamp.real(), stamps_end(&block));
        let (first, last) = ends.unwrap_or((begin, begin));
        ends = Some((first.min(begin), end.map_or(last, |end| last.max(end))));
    });
    read.ok().and(ends)
}

/// The rows that a question is about.
pub(super) fn ask(recorded: &Recorded, patterns: &[Pattern], question: &Question) -> Result<Tape, String> {
    let recording = &recorded.recording;
    let span_of_all = recorded.span();
    let RecordedSpan { first, last, .. } = span_of_all;
    // A moment after the end means the end, and one before the start means the start.
    let at = question.sought.moment().clamp(first, last);
    let mut span = around(question, at);
    let (mut tape, next) = rows_of(recording, patterns, span, (at, at))?;
    let again = match question.sought {
        // All nodes were silent for longer, so the last row is further back.
        Sought::At(_) | Sought::UpTo(_) if tape.up_to(at).is_none() => {
            let seen = tape.seen_up_to(at).into_values().max();
            seen.map(|seen| (Span { from: around(question, seen).from, to: span.to }, seen))
        }
        Sought::After(_) if tape.after(at).is_none() => next.map(|next| (around(question, next), next)),
        Sought::At(_) | Sought::UpTo(_) | Sought::After(_) => None,
    };
    if let Some((again, nearest)) = again {
        span = again;
        (tape, _) = rows_of(recording, patterns, span, (nearest, at))?;
    }
    let from = if span.from <= first { Nanos(0) } else { span.from };
    tape.asked(from, span.to.min(Nanos(last.0.saturating_add(1))));
    tape.recorded = Some(span_of_all);
    tape.know_all();
    Ok(tape)
}

/// The rows of a span (if too many, those nearest to the first moment), and the time of the first row after the second moment, if
/// it is outside the span.
fn rows_of(
    recording: &Recording,
    patterns: &[Pattern],
    Span { from, to }: Span,
    (nearest, moment): (Nanos, Nanos),
) -> Result<(Tape, Option<Nanos>), String> {
    let mut tape = Tape::near(READINGS_MAX, nearest);
    let mut next: Option<Nanos> = None;
    // Of each lane its node, and its chosen slots with their series.
    let mut lanes: HashMap<usize, Lane> = HashMap::new();
    // The lanes of each node by name. A lane that the file announces again is the same lane.
    let mut names: HashMap<NodeName, Vec<String>> = HashMap::new();
    let read = recording.read(|event| match event {
        Event::Lane(number, lane, _) => {
            let is_wanted = patterns.iter().any(|pattern| pattern.matches_node(&lane.node));
            if let Some(node) = NodeName::new(&lane.node).ok().filter(|_| is_wanted) {
                let of_node = names.entry(node.clone()).or_default();
                let known = of_node.iter().position(|name| **name == *lane.name);
                let feed = known.unwrap_or_else(|| {
                    of_node.push(lane.name.to_string());
                    of_node.len() - 1
                });
                let feed = feed.min(FEEDS - 1);
                lanes.insert(number, Lane { node, feed, slots: Vec::new(), columns: Arc::default() });
            }
        }
        Event::Columns(number, all) => {
            let Some(lane) = lanes.get_mut(&number) else { return };
            lane.choose(patterns, &all);
            tape.take(lane.feed, &lane.piece());
        }
        Event::Block(block) => {
            let number = block.lane;
            let Some(lane) = lanes.get(&number) else { return };
            let mut is_next = |time: Nanos| {
                if time > moment {
                    next = Some(next.map_or(time, |next| next.min(time)));
                }
            };
            // A block begins with its first row, so later blocks have no rows of the span.
            let begin = block.header.stamp.real();
            if begin >= to {
                return is_next(begin);
            }
            let last = if begin < from { last_row(&block) } else { begin };
            if last < from {
                return tape.note_seen(lane.node.as_str(), last);
            }
            let mut rows = Vec::new();
            let mut seen = None;
            block.rows(|_, decoder| {
                let stamp = decoder.stamp();
                let time = stamp.real();
                if time < from {
                    seen = Some(time);
                } else if time >= to {
                    is_next(time);
                } else {
                    let reading =
                        |slot: &usize| decoder.reading(*slot).unwrap_or(Reading::Absent(Absence::NotYet));
                    rows.push(Row { stamp, readings: lane.slots.iter().map(reading).collect() });
                }
            });
            if let Some(seen) = seen {
                tape.note_seen(lane.node.as_str(), seen);
            }
            if !rows.is_empty() {
                tape.take(lane.feed, &Piece::rows_of(&lane.delivery(rows)));
            }
        }
        _ => {}
    });
    read.map_err(|error| khz_ask::sentence(&error))?;
    Ok((tape, next))
}

/// When the last row of a block was gathered. Ticks may be missing between its rows, so only the rows show it.
fn last_row(block: &Block<'_>) -> Nanos {
    // Damage is reported when its rows are read.
    stamps_end(block).unwrap_or(Nanos(u64::MAX))
}

/// The same; `None`: the block is damaged.
fn stamps_end(block: &Block<'_>) -> Option<Nanos> {
    let mut last = block.header.stamp;
    khz_block::stamps(block.bytes(), |_, boot| last.boot = boot).ok()?;
    Some(last.real())
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
        let chosen: Vec<(usize, Series)> = all
            .iter()
            .enumerate()
            .filter(|(_, series)| khz_record::selects(patterns, self.node.as_str(), series))
            .map(|(slot, series)| (slot, series.clone()))
            .collect();
        self.slots = chosen.iter().map(|(slot, _)| *slot).collect();
        self.columns = Arc::new(chosen.into_iter().map(|(_, series)| series).collect());
    }

    /// Its columns. A recording has no granted rate, only the rows that came.
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
