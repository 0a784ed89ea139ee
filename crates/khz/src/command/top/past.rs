//! Past rows from the memory of a khz, from its store, or from a recording. A separate thread asks for them, and turns them into a
//! tape. It shows nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use khz_ask::Piece;
use khz_model::fold::fold;
use khz_model::{Nanos, NodeName, Pattern, RangeShape};

use super::app::{Question, Sought};
use super::series;
use super::tape::Tape;
use crate::command::past::{Asked, Span, now};
use crate::command::target::Target;
use crate::command::watch::past_pieces;
use crate::config::Plan;

mod recording;

pub use recording::{Recorded, RecordedSpan, bytes_of};

/// The most readings of an answer that are kept: four minutes of a node at 10 Hz. They take about 25 MiB.
const READINGS_MAX: usize = 524_288;

/// A khz has rows of this time in its memory (docs/http.md, `/khz/v1/history`).
const MEMORY: Nanos = Nanos::from_secs(600);
/// Rows of each node that are asked of the memory: 10 Hz over three minutes. For a longer time, some are left out evenly.
const MEMORY_ROWS: usize = 2_000;

/// Younger rows may not be in the store yet.
const ON_THE_WAY: Nanos = Nanos::from_secs(10);

/// The length of the first span in which a first row is searched.
const FIRST_SPAN: Nanos = Nanos::from_secs(60);

/// The most bytes of a list of nodes in a URL.
const HOSTS_BYTES_MAX: usize = 1_000;

/// The source of the past.
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
    Recording(Recorded),
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
        Source::Recording(recorded) => recording::ask(recorded, &patterns, question),
        Source::Server { target, plan } => {
            let reader = Reader { target: target.clone(), plan: plan.clone() };
            of_server(&reader, hosts, &patterns, question)
        }
    }
}

/// From when to when rows are wanted around a moment.
fn around(question: &Question, moment: Nanos) -> Span {
    let from = Nanos(moment.0.saturating_sub(question.before.0));
    Span { from, to: Nanos(moment.0.saturating_add(question.after.0)) }
}

fn of_server(
    reader: &Reader,
    hosts: Option<&str>,
    patterns: &[Pattern],
    question: &Question,
) -> Result<Tape, String> {
    let (now, at) = (now(), question.sought.moment());
    if around(question, at).from >= now {
        return Err("that time is still to come".to_owned());
    }
    let is_recent = now.since(at) < MEMORY && at <= now;
    let memory = || is_recent.then(|| of_memory(reader, patterns, question, now)).flatten();
    let store = || of_store(reader, hosts, patterns, question, now);
    match question.node {
        Some(_) => memory().map_or_else(store, Ok),
        // The memory leaves out rows of nodes with many, but a list needs one a second of each. The store has these.
        None => store().or_else(|problem| memory().ok_or(problem)),
    }
}

fn of_store(
    reader: &Reader,
    hosts: Option<&str>,
    patterns: &[Pattern],
    question: &Question,
    now: Nanos,
) -> Result<Tape, String> {
    let at = question.sought.moment();
    let signs = series::signs(question.node.as_deref().or(hosts));
    let mut span = around(question, at);
    let mut tape = rows_of_store(reader, patterns, span, (at, now))?;
    match question.sought {
        Sought::At(_) | Sought::UpTo(_) if tape.up_to(at).is_none() => {
            // All nodes were silent for longer, so the last row is further back.
            let before = Span { from: Nanos(0), to: span.from };
            if let Some(last) = newest_of_store(reader, &signs, before)?.into_values().max() {
                span.from = around(question, last).from;
                tape = rows_of_store(reader, patterns, span, (last, now))?;
            }
        }
        Sought::After(_) if tape.after(at).is_none() => {
            if let Some(first) = first_of_store(reader, &signs, span.to, now)? {
                span = around(question, first);
                tape = rows_of_store(reader, patterns, span, (first, now))?;
            }
        }
        Sought::At(_) | Sought::UpTo(_) | Sought::After(_) => {}
    }
    // The latest rows may still be on their way to the store.
    tape.asked(span.from, span.to.min(Nanos(now.0.saturating_sub(ON_THE_WAY.0))));
    if question.node.is_none() {
        note_silent(reader, hosts, span.from, &mut tape);
    }
    Ok(tape)
}

/// The rows of a span. If there are too many, those nearest to a moment.
fn rows_of_store(
    reader: &Reader,
    patterns: &[Pattern],
    span: Span,
    (moment, now): (Nanos, Nanos),
) -> Result<Tape, String> {
    let span = Span { from: span.from, to: span.to.min(now) };
    let asked = Asked::ask(&reader.target, &reader.plan, patterns, span, RangeShape::Rows);
    let mut asked = asked.map_err(|failure| failure.to_string())?;
    let mut rows: Vec<(Nanos, Piece)> = Vec::new();
    let mut known = HashMap::new();
    while let Some(step) = asked.next_step().map_err(|failure| failure.to_string())? {
        past_pieces(&step, &mut known, &mut rows);
    }
    rows.sort_by_key(|(time, _)| *time);
    let mut tape = Tape::near(READINGS_MAX, moment);
    rows.iter().for_each(|(_, piece)| tape.take(0, piece));
    Ok(tape)
}

/// Of each node the time of its last row in a span.
fn newest_of_store(reader: &Reader, signs: &[Pattern], span: Span) -> Result<HashMap<String, Nanos>, String> {
    let asked = Asked::ask(&reader.target, &reader.plan, signs, span, RangeShape::Newest);
    let parts = asked.and_then(|mut asked| asked.parts()).map_err(|failure| failure.to_string())?;
    let mut newest: HashMap<String, Nanos> = HashMap::new();
    for part in parts {
        if let Some(row) = part.rows.last() {
            let last = newest.entry(part.node).or_insert(row.time);
            *last = row.time.max(*last);
        }
    }
    Ok(newest)
}

/// The time of the first row of any node from a moment until now. The spans grow: if there is nothing, the store answers at once.
fn first_of_store(
    reader: &Reader,
    signs: &[Pattern],
    from: Nanos,
    now: Nanos,
) -> Result<Option<Nanos>, String> {
    let (mut from, mut length) = (from, FIRST_SPAN);
    while from < now {
        let span = Span { from, to: Nanos(from.0.saturating_add(length.0)).min(now) };
        let asked = Asked::ask(&reader.target, &reader.plan, signs, span, RangeShape::Rows);
        let mut asked = asked.map_err(|failure| failure.to_string())?;
        let mut first: Option<(Nanos, Nanos)> = None;
        // The answer goes forward in steps: after the first step with a row, all rows are later.
        while let Some(part) = asked.next_part().map_err(|failure| failure.to_string())? {
            if first.is_some_and(|(step, _)| step < part.step) {
                break;
            }
            if let Some(row) = part.rows.first() {
                first = Some((part.step, first.map_or(row.time, |(_, time)| time.min(row.time))));
            }
        }
        if let Some((_, time)) = first {
            return Ok(Some(time));
        }
        (from, length) = (span.to, Nanos(length.0.saturating_mul(2)));
    }
    Ok(None)
}

/// For nodes of a list without a row soon after a moment, notes when their last row before it was. A node without an earlier row
/// did not exist.
fn note_silent(reader: &Reader, hosts: Option<&str>, from: Nanos, tape: &mut Tape) {
    let Ok(mut names) = reader.target.known_nodes(&reader.plan) else { return };
    if let Some(hosts) = hosts {
        let Ok(wanted) = crate::command::hosts(hosts) else { return };
        names.retain(|name| wanted.matches(name.as_str()));
    }
    let soon = Nanos(from.0.saturating_add(tape.silence().0));
    let sent = tape.seen_up_to(soon);
    names.retain(|name| !sent.contains_key(name.as_str()));
    drop(sent);
    if !names.is_empty() {
        let folded = fold(names.iter().map(|name| name.as_str()));
        // An address has a limit.
        let asked = if folded.len() <= HOSTS_BYTES_MAX { Some(folded.as_str()) } else { hosts };
        let span = Span { from: Nanos(0), to: from };
        let Ok(newest) = newest_of_store(reader, &series::signs(asked), span) else { return };
        let wanted: HashSet<&str> = names.iter().map(NodeName::as_str).collect();
        for (node, time) in newest.iter().filter(|(node, _)| wanted.contains(node.as_str())) {
            tape.note_seen(node, *time);
        }
    }
    tape.know_all();
}

/// The rows that the khz has in its memory, if they reach back to the moment.
fn of_memory(reader: &Reader, patterns: &[Pattern], question: &Question, now: Nanos) -> Option<Tape> {
    let at = question.sought.moment();
    let back = Nanos(now.since(around(question, at).from).0.min(MEMORY.0));
    let server = reader.target.running(&reader.plan).ok()?;
    let pieces = by_time(server.history(patterns, back, MEMORY_ROWS).ok()?);
    let times = || {
        let rows = pieces.iter().filter_map(|piece| match piece {
            Piece::Rows { rows, .. } => Some(rows),
            _ => None,
        });
        rows.flatten().map(|row| row.time)
    };
    if !times().any(|time| time <= at) {
        return None;
    }
    let shown = match question.sought {
        Sought::At(at) | Sought::UpTo(at) => at,
        Sought::After(at) => times().find(|time| *time > at).unwrap_or(at),
    };
    let span = around(question, shown);
    let mut tape = Tape::near(READINGS_MAX, shown);
    for piece in pieces {
        let piece = match piece {
            Piece::Rows { node, lost, mut rows, last } => {
                rows.retain(|row| span.from <= row.time && row.time < span.to);
                Piece::Rows { node, lost, rows, last }
            }
            other => other,
        };
        tape.take(0, &piece);
    }
    let is_shown = match question.sought {
        Sought::At(at) | Sought::UpTo(at) => tape.span().is_some_and(|(first, _)| first <= at),
        // The memory has the newest rows. If it has none after the moment, there are none.
        Sought::After(_) => true,
    };
    is_shown.then_some(tape)
}

/// Sorts rows that came node by node by their times, after all columns.
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
