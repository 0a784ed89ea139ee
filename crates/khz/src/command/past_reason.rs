//! Why a store has nothing of a pattern in some time: it has no such node, no such series, or has it of another time. It asks the
//! store once or twice more, and reads the first lines of the answers only.

use khz_ask::{Past, PastLine, PastPart, Server};
use khz_model::calendar::utc;
use khz_model::{Nanos, Pattern, RangeShape};

/// So many patterns get a reason: each is a question to the store.
pub const REASONS_MAX: usize = 4;

/// Longer ago than any store reaches back.
const ALL_TIME: Nanos = Nanos(0);

/// The reason, as the end of a sentence about the store; `None`: it cannot be found out.
pub fn of(server: &Server, pattern: &Pattern, now: Nanos) -> Option<String> {
    if let Some(part) = first(server, pattern, now)? {
        return span_of(&part);
    }
    let Some(hosts) = pattern.nodes() else { return Some("it has no such series".to_owned()) };
    let all_of_nodes: Pattern = format!("{hosts}:*").parse().ok()?;
    Some(match first(server, &all_of_nodes, now)? {
        None => format!("it has no node {hosts}"),
        Some(_) => format!("it has no such series of {hosts}"),
    })
}

/// The first series of all that is stored; `None` within: there is none.
fn first(server: &Server, pattern: &Pattern, now: Nanos) -> Option<Option<PastPart>> {
    let patterns = vec![pattern.clone()];
    let past = Past { patterns, from: ALL_TIME, to: now, shape: RangeShape::Points(1) };
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
