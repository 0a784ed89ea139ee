//! Rows of a recording around a moment. It is read from its start; blocks of other times are skipped.

use std::collections::HashMap;
use std::sync::Arc;

use khz_ask::{Column, Piece};
use khz_model::{Absence, Delivery, Kind, Nanos, NodeName, Pattern, Reading, Row, Series};
use khz_record::{Block, Event, Recording};

use super::super::app::{Question, Sought};
use super::super::node::FEEDS;
use super::super::tape::Tape;
use super::{READINGS_MAX, around};
use crate::command::past::Span;

/// The rows that a question is about.
pub(super) fn ask(
    recording: &Recording,
    (first, last): (Nanos, Nanos),
    patterns: &[Pattern],
    question: &Question,
) -> Result<Tape, String> {
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
    let mut last = block.header.stamp;
    match khz_block::stamps(block.bytes(), |_, boot| last.boot = boot) {
        Ok(()) => last.real(),
        // Damage is reported when its rows are read.
        Err(_) => Nanos(u64::MAX),
    }
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
