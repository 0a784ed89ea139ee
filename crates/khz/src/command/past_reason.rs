//! Why a store has nothing of a pattern in some time: it has no such node, no such series, has it of another time, or has only
//! summaries of that time. It asks the store once or twice more, and reads the first lines of the answers only.

use khz_ask::{Past, PastLine, PastPart, Server};
use khz_model::calendar::utc;
use khz_model::{Nanos, Pattern, RangeShape};

use super::past::Span;

/// So many patterns get a reason: each is a question to the store.
pub const REASONS_MAX: usize = 4;

/// The end of a sentence about a store that has no rows of a time, and its summaries.
pub const ONLY_SUMMARIES: &str = "only summaries are left of it, which `khz plot` draws";

/// The reason, as the end of a sentence about the store; `None`: it cannot be found out. `rows` is the time, where rows of it were
/// asked for.
pub fn of(server: &Server, pattern: &Pattern, rows: Option<Span>, now: Nanos) -> Option<String> {
    if let Some(span) = rows
        && first(server, pattern, span)?.is_some()
    {
        return Some(ONLY_SUMMARIES.to_owned());
    }
    // Longer ago than any store reaches back.
    let all_time = Span { from: Nanos(0), to: now };
    if let Some(part) = first(server, pattern, all_time)? {
        return span_of(&part);
    }
    let Some(hosts) = pattern.nodes() else { return Some("it has no such series".to_owned()) };
    let all_of_nodes: Pattern = format!("{hosts}:*").parse().ok()?;
    Some(match first(server, &all_of_nodes, all_time)? {
        None => format!("it has no node {hosts}"),
        Some(_) => format!("it has no such series of {hosts}"),
    })
}

/// The first series of what is stored of a span; `None` within: there is none.
fn first(server: &Server, pattern: &Pattern, Span { from, to }: Span) -> Option<Option<PastPart>> {
    let patterns = vec![pattern.clone()];
    let past = Past { patterns, from, to, shape: RangeShape::Points(1) };
    let mut lines = server.past(&past).ok()?;
    loop {
        match lines.next_line().ok()? {
            Some(PastLine::Part(part)) => return Some(Some(part)),
            Some(PastLine::Damage(_)) => {}
            Some(PastLine::End { .. }) | None => return Some(None),
        }
    }
}

/// From when to when a store has a series.
fn span_of(part: &PastPart) -> Option<String> {
    let (from, to) = (part.points.first()?.first.0, part.points.last()?.last.0);
    let instance = part.instance.as_ref().map_or_else(String::new, |instance| format!("[{instance}]"));
    Some(format!("it has {}:{}{instance} from {} to {}", part.node, part.name, utc(from), utc(to)))
}
