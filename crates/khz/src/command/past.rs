//! The past, out of the store of a running khz, for the commands that print it: the times that people write, and the parts
//! of an answer, put together to rows.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use khz_ask::{Past, PastLine, PastLines, PastPart, PastRow, Server};
use khz_model::calendar::{Civil, utc};
use khz_model::moment;
use khz_model::{Miss, Misses, Nanos, NodeName, Pattern, RangeShape};
use khz_rrd::local_time::{self, Fields};

use super::found::Found;
use super::past_reason::{self, REASONS_MAX};
use super::target::Target;
use crate::config::Plan;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::remark;

/// The present, as the wall clock has it.
pub fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A moment from the command line, as people write it while they look at a clock: a date without a zone is local time, and a time
/// without a date is the last one of that time.
pub fn moment(flag: &str, text: &str) -> Result<Nanos, Failure> {
    let text = text.trim();
    if !is_time_of_day(text) {
        return dated(flag, text);
    }
    let Ok(today) = dated(flag, &format!("today {text}")) else { return dated(flag, text) };
    if today <= now() { Ok(today) } else { dated(flag, &format!("yesterday {text}")) }
}

/// `14:03`, `14:03:20.5`.
fn is_time_of_day(text: &str) -> bool {
    let is_of_clock = |b: u8| b.is_ascii_digit() || matches!(b, b':' | b'.');
    text.len() <= 12 && text.contains(':') && text.bytes().all(is_of_clock)
}

fn dated(flag: &str, text: &str) -> Result<Nanos, Failure> {
    let read = moment::read(text, now(), Some(&local));
    read.map_err(|error| {
        Failure::usage(format!("--{flag}: {error}; a date without Z or offset is local time"))
    })
}

/// Seconds since 1970 of a local time.
fn local(civil: Civil) -> Option<i64> {
    let fields = Fields {
        year: civil.year,
        month: i64::from(civil.month) - 1,
        day: civil.day.into(),
        hour: civil.hour.into(),
        minute: civil.minute.into(),
        second: civil.second.into(),
        weekday: 0,
    };
    // The C library turns the 31st of February into a day of March.
    civil.as_utc()?;
    local_time::seconds(&fields)
}

/// From when to when.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first moment.
    pub from: Nanos,
    /// The moment after the last.
    pub to: Nanos,
}

impl Span {
    /// The span that `--from` and `--to` say; without `--to` until now.
    pub fn of(from: &str, to: Option<&str>) -> Result<Self, Failure> {
        let (now, from) = (now(), moment("from", from)?);
        let end = to.map_or(Ok(now), |to| moment("to", to))?;
        match from < end {
            true => Ok(Span { from, to: end }),
            false if to.is_none() => {
                let (from, now) = (utc(from), utc(now));
                Err(Failure::usage(format!("--from is in the future: it is {from}, and now it is {now}")))
            }
            // The usual reason is a date in another zone.
            false => {
                let (from, to) = (utc(from), utc(end));
                Err(Failure::usage(format!("--from must be before --to: they are {from} and {to}")))
            }
        }
    }
}

/// What was asked for, in a sentence about what is not there.
#[derive(Clone, Copy, Debug)]
pub enum Within {
    /// Rows of this span.
    Rows(Span),
    /// Anything of a span.
    Span,
    /// The newest readings up to this moment.
    UpTo(Nanos),
}

impl std::fmt::Display for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Within::Rows(_) | Within::Span => f.write_str("in that time"),
            Within::UpTo(at) => write!(f, "up to {}", utc(*at)),
        }
    }
}

/// A question, and what has come of its answer.
pub struct Asked {
    server: Server,
    lines: PastLines,
    /// What it has had of each pattern.
    found: Found,
    /// A part that belongs to the next step.
    ahead: Option<PastPart>,
    is_damaged: bool,
    is_over: bool,
    /// Nodes of which it was said that their clocks were wrong.
    corrected: BTreeSet<String>,
}

/// Nodes of which a command says that their clocks were wrong.
const CORRECTED_MAX: usize = 16;

impl Asked {
    /// Asks the khz that the flags name.
    pub fn ask(
        target: &Target,
        plan: &Plan,
        patterns: &[Pattern],
        span: Span,
        shape: RangeShape,
    ) -> Result<Self, Failure> {
        let patterns = if patterns.is_empty() { vec![Pattern::everything()] } else { patterns.to_vec() };
        let past = Past { patterns: patterns.clone(), from: span.from, to: span.to, shape };
        let server = target.running(plan)?;
        let lines = server.past(&past)?;
        let (found, corrected) = (Found::new(&patterns), BTreeSet::new());
        Ok(Asked { server, lines, found, ahead: None, is_damaged: false, is_over: false, corrected })
    }

    /// The next part; `None` after the last. What could not be read is said on stderr.
    pub fn next_part(&mut self) -> Result<Option<PastPart>, Failure> {
        if let Some(part) = self.ahead.take() {
            return Ok(Some(part));
        }
        while !self.is_over {
            match self.lines.next_line()? {
                Some(PastLine::Part(part)) => {
                    let instance = part.instance.as_ref();
                    self.found.take(&part.node, |pattern| pattern.matches_series(&part.name, instance));
                    self.say_shift(&part);
                    return Ok(Some(part));
                }
                Some(PastLine::Damage(sentence)) => {
                    remark!("{sentence}");
                    self.is_damaged = true;
                }
                Some(PastLine::End { .. }) | None => self.is_over = true,
            }
        }
        Ok(None)
    }

    /// Says once of each node that its times were corrected.
    fn say_shift(&mut self, part: &PastPart) {
        let Some(shift) = &part.shift else { return };
        if self.corrected.len() == CORRECTED_MAX || self.corrected.contains(&part.node) {
            return;
        }
        self.corrected.insert(part.node.clone());
        remark!("{}", corrected(&part.node, shift));
        if self.corrected.len() == CORRECTED_MAX {
            remark!("the times of further nodes may be corrected, too");
        }
    }

    /// All parts that are still to come: few, where only the newest readings were asked for.
    pub fn parts(&mut self) -> Result<Vec<PastPart>, Failure> {
        std::iter::from_fn(|| self.next_part().transpose()).collect()
    }

    /// All parts of the next node and step, which have the same rows; `None` after the last.
    pub fn next_step(&mut self) -> Result<Option<Step>, Failure> {
        let Some(first) = self.next_part()? else { return Ok(None) };
        let mut step = Step { node: first.node.clone(), parts: vec![first] };
        while let Some(part) = self.next_part()? {
            if part.node != step.node || part.step != step.parts[0].step {
                self.ahead = Some(part);
                break;
            }
            step.parts.push(part);
        }
        Ok(Some(step))
    }

    /// True if nothing more comes.
    pub fn is_empty(&mut self) -> Result<bool, Failure> {
        self.ahead = self.next_part()?;
        Ok(self.ahead.is_none())
    }

    /// The khz that was asked.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Something could not be read until now.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// What has come until now.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// How the command ends: in part, if a pattern or a host of its list selected nothing.
    pub fn end(&self, within: Within) -> Outcome {
        let found = &self.found;
        end(&self.server, &found.lacking(), found.is_nothing(), self.is_damaged, within)
    }
}

/// What is said of a node to whose times these seconds were added.
fn corrected(node: &str, shift: &str) -> String {
    let whole = shift.split_once('.').map_or(shift, |(whole, _)| whole);
    let off = match whole.strip_prefix('-') {
        Some(ahead) => format!("{ahead} s ahead of"),
        None => format!("{whole} s behind"),
    };
    format!("the clock of {node} was up to {off} the hub's clock: its times are corrected")
}

/// How a command ends that has asked a store: in part, if these patterns selected nothing of it; `is_nothing`: none did.
pub fn end(
    server: &Server,
    unmatched: &[Pattern],
    is_nothing: bool,
    is_damaged: bool,
    within: Within,
) -> Outcome {
    let names = if unmatched.is_empty() { Names::default() } else { Names::of(server) };
    let texts: Vec<String> = unmatched.iter().map(|pattern| names.with_near(pattern)).collect();
    let rows = match within {
        Within::Rows(span) => Some(span),
        Within::Span | Within::UpTo(_) => None,
    };
    let reason = |pattern: &Pattern| past_reason::of(server, pattern, rows, now());
    let reasons: Vec<Option<String>> = unmatched.iter().take(REASONS_MAX).map(reason).collect();
    if is_nothing {
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        return Err(Failure::Work(format!(
            "the store has nothing of {} {within}{reasons}",
            texts.join(", ")
        )));
    }
    for (number, text) in texts.iter().enumerate() {
        let reason = reasons.get(number).and_then(Option::as_ref);
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        remark!("the store has nothing of {text} {within}{reason}");
    }
    match (is_damaged, unmatched.is_empty()) {
        (true, _) => Err(Failure::work("parts of the store are damaged and were left out")),
        (false, true) => Ok(Done::Wholly),
        (false, false) => Ok(Done::Partly { missing: Vec::new() }),
    }
}

/// The names that a khz knows now. A store may have more, but who has mistyped one mostly means one of these.
#[derive(Default)]
struct Names {
    nodes: Vec<NodeName>,
    metrics: Vec<String>,
}

impl Names {
    /// Those of this khz, as far as it tells them.
    fn of(server: &Server) -> Self {
        let nodes = server.node_names().unwrap_or_default();
        let mut nodes: Vec<NodeName> = nodes.iter().filter_map(|name| NodeName::new(name).ok()).collect();
        nodes.sort();
        let metrics = server.catalogue().unwrap_or_default();
        let name = |metric: &serde_json::Value| Some(metric.get("name")?.as_str()?.to_owned());
        Names { nodes, metrics: metrics.iter().filter_map(name).collect() }
    }

    /// The pattern, and what may be meant by it.
    fn with_near(&self, pattern: &Pattern) -> String {
        let metrics: Vec<&str> = self.metrics.iter().map(String::as_str).collect();
        let of_metrics = Misses::of_metric_names(&metrics, std::slice::from_ref(pattern));
        let of_nodes = pattern.nodes().map(|hosts| Misses::of_nodes(hosts, &self.nodes)).unwrap_or_default();
        let near = of_metrics.patterns.iter().chain(&of_nodes.nodes).find_map(|miss| miss.near.clone());
        Miss { asked: pattern.to_string(), near }.to_string()
    }
}

/// What one node has of some time.
pub struct Step {
    /// The node.
    pub node: String,
    /// Its series.
    pub parts: Vec<PastPart>,
}

impl Step {
    /// Calls `take` with each row: its time, the time since the node's boot, and the readings that it has, each with the
    /// number of its part.
    pub fn rows<E>(
        &self,
        mut take: impl FnMut(Nanos, Nanos, &[(usize, &PastRow)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = vec![0usize; self.parts.len()];
        let mut row: Vec<(usize, &PastRow)> = Vec::with_capacity(self.parts.len());
        loop {
            let ahead = self.parts.iter().zip(&next).filter_map(|(part, &next)| part.rows.get(next));
            let Some(time) = ahead.map(|row| row.time).min() else { return Ok(()) };
            row.clear();
            for (number, (part, next)) in self.parts.iter().zip(&mut next).enumerate() {
                if let Some(reading) = part.rows.get(*next).filter(|reading| reading.time == time) {
                    row.push((number, reading));
                    *next += 1;
                }
            }
            let boot = row.first().map_or(Nanos(0), |(_, reading)| reading.boot);
            take(time, boot, &row)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use khz_ask::Cell;
    use khz_model::ValueFormat;

    use super::*;

    #[test]
    fn a_clock_that_was_wrong_is_told() {
        let told = "the clock of n1 was up to 1200 s ahead of the hub's clock: its times are corrected";
        assert_eq!(corrected("n1", "-1200.500000000"), told);
        assert!(corrected("n1", "7").contains("7 s behind the hub's clock"));
    }

    fn part(name: &str, times: &[u64]) -> PastPart {
        let row =
            |&time: &u64| PastRow { time: Nanos(time), boot: Nanos(time - 1), cell: Cell::Text(name.into()) };
        PastPart {
            shift: None,
            node: "n1".into(),
            name: name.into(),
            instance: None,
            kind: "gauge".into(),
            unit: "count".into(),
            format: ValueFormat::WHOLE,
            step: Nanos(0),
            rows: times.iter().map(row).collect(),
            points: Vec::new(),
        }
    }

    #[test]
    fn parts_become_rows_in_the_order_of_their_times() {
        let step = Step {
            node: "n1".into(),
            parts: vec![part("a", &[1, 3]), part("b", &[2, 3, 4]), part("c", &[])],
        };
        let mut rows = Vec::new();
        step.rows(|time, boot, cells| {
            rows.push((time.0, boot.0, cells.iter().map(|(part, _)| *part).collect::<Vec<_>>()));
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(rows, [(1, 0, vec![0]), (2, 1, vec![1]), (3, 2, vec![0, 1]), (4, 3, vec![1])]);
    }

    #[test]
    fn a_local_date_that_does_not_exist_is_refused() {
        let failure = moment("at", "2026-02-30 10:00").unwrap_err().to_string();
        assert!(failure.contains("no such date") && failure.contains("--at"), "{failure}");
    }
}
