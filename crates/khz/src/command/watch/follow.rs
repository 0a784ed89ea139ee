//! Follows a stream of rows: gives each row to the printer, prints notices and changes on stderr, and stops by count, by
//! time, or at the end of the stream.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use khz_ask::{Column, Piece, Row};
use khz_model::fold::fold;
use khz_model::{Misses, Nanos, Notice, Presence, Rate, Rounding, RowNumber};

use super::outage::{Counted, Outage};
use super::printer::{Change, Line, Printer};
use super::rates::Rates;
use crate::command::lasting::Absent;
use crate::show::misses;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::of_span;
use crate::show::table::printable;

/// What to show, and when to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Totals, not rates.
    pub raw: bool,
    /// Stop after this many rows.
    pub count: Option<u64>,
    /// Stop at this moment.
    pub until: Option<Instant>,
    /// What is shown is the past, which ends.
    pub is_past: bool,
    /// The rate that was requested; `None`: rows come at any time.
    pub asked: Option<Rate>,
}

/// Groups of nodes whose last notice is remembered, so that it is not printed twice. Notices about more groups are not
/// printed.
const NOTICES_MAX: usize = 1_000;

/// Ticks without a row that take this long together are named at the end, as those of a recording are.
const SILENCE: Nanos = Nanos::SECOND;

impl Watch {
    /// The time until it stops.
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// As [`Watch::follow_without`], where no node is known to be away.
    pub fn follow(
        self,
        next: impl FnMut() -> Result<Option<Vec<Piece>>, Failure>,
        printer: &mut impl Printer,
        remarks: &mut impl Write,
    ) -> Outcome {
        self.follow_without(Absent::default(), next, printer, remarks)
    }

    /// Prints the rows of `next` until it is time to stop. `next` returns `None` at the end of the stream, and an empty
    /// list where it only waited. Notices go to `remarks` (stderr). Rows of nodes that are `absent` are old ones until a change says
    /// that the node is back.
    pub fn follow_without(
        self,
        absent: Absent,
        mut next: impl FnMut() -> Result<Option<Vec<Piece>>, Failure>,
        printer: &mut impl Printer,
        remarks: &mut impl Write,
    ) -> Outcome {
        let mut follower = Follower::new(self, absent, printer, remarks);
        while !self.is_over() {
            let pieces = match next() {
                Ok(Some(pieces)) => pieces,
                Ok(None) if self.is_over() || self.is_past => break,
                Ok(None) => {
                    follower.printer.finish()?;
                    return Err(Failure::work("the rows of this machine have ended; watch again"));
                }
                // The time is over: it ended the wait for a row.
                Err(_) if self.is_over() => break,
                Err(failure) => {
                    follower.tell_outage(true)?;
                    follower.printer.finish()?;
                    return Err(failure);
                }
            };
            for piece in pieces {
                if follower.take(piece)? {
                    return follower.end();
                }
            }
            follower.tell_outage(false)?;
            follower.printer.rest()?;
        }
        follower.end()
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What came so far, and where it is printed.
struct Follower<'a, P, W> {
    watch: Watch,
    absent: Absent,
    printer: &'a mut P,
    remarks: &'a mut W,
    nodes: HashMap<String, Node>,
    /// Rows printed.
    printed: u64,
    /// The last notice about each group of nodes.
    notices: HashMap<String, String>,
    /// What is said of other rates than the requested one.
    rounding: Option<Rounding>,
    /// Nodes that refuse the channel, so far as the present stream has said.
    refused: BTreeSet<String>,
    /// What nobody had when the stream began.
    misses: Misses,
    /// Since the last outage of the khz.
    outage: Option<Outage>,
    /// What the outages before have cost.
    before: Cost,
    /// The khz is away.
    is_away: bool,
}

/// What outages have cost.
#[derive(Default)]
struct Cost {
    missing: u64,
    is_unknown: bool,
}

/// What came of one node.
struct Node {
    columns: Vec<Column>,
    rate: String,
    rates: Rates,
    lost: u64,
    /// It has sent a row, and was not away since.
    has_rows: bool,
    /// The number of its last row, and its time.
    last: Option<RowNumber>,
    time: Nanos,
    /// It is away; and it went away since the last row that it sent while it was there. Its last rows before that may come after
    /// the word that it is away.
    is_away: bool,
    was_away: bool,
    /// Ticks without a row, after it was away or began to count again, and whether some of them follow each other for a second.
    ticks: u64,
    was_silent: bool,
}

impl Node {
    fn new(columns: Vec<Column>, rate: String, rates: Rates) -> Self {
        let (lost, ticks, time) = (0, 0, Nanos(0));
        let (has_rows, is_away, was_away, was_silent, last) = (false, false, false, false, None);
        Node { columns, rate, rates, lost, has_rows, last, time, is_away, was_away, ticks, was_silent }
    }

    /// It has gone away, or come back. Nobody waits for rows of a node that is away.
    fn change(&mut self, is_away: bool) {
        self.is_away = is_away;
        self.was_away |= is_away;
        self.has_rows &= !is_away;
    }

    /// Notes these rows, of which the last has this number, and before which so many are missing. While an agent is not there,
    /// because it was killed, it gathers no rows, which can be lost: those ticks have none. Afterwards its numbers begin again
    /// (another epoch), or go on where they ended, as those of its ring do.
    fn note(&mut self, rows: &[Row], missing: u64, last: Option<RowNumber>) {
        let (Some(first), Some(newest)) = (rows.first(), rows.last()) else { return };
        let began_again = self.last.zip(last).is_some_and(|(before, now)| before.epoch != now.epoch);
        let was_there = self.time > Nanos(0);
        let period = self.rate.parse::<Rate>().map_or(Nanos(0), |rate| rate.period());
        if (began_again || self.was_away) && was_there && period > Nanos(0) {
            let passed = first.time.since(self.time).0 + period.0 / 2;
            let ticks = (passed / period.0).saturating_sub(1).saturating_sub(missing);
            self.ticks += ticks;
            self.was_silent |= ticks.saturating_mul(period.0) >= SILENCE.0;
        }
        (self.has_rows, self.was_away) = (!self.is_away, self.is_away);
        (self.last, self.time) = (last.or(self.last), newest.time);
    }
}

impl<'a, P: Printer, W: Write> Follower<'a, P, W> {
    fn new(watch: Watch, absent: Absent, printer: &'a mut P, remarks: &'a mut W) -> Self {
        let (nodes, notices, misses) = (HashMap::new(), HashMap::new(), Misses::default());
        let (outage, before, refused) = (None, Cost::default(), BTreeSet::new());
        Follower {
            watch,
            absent,
            printer,
            remarks,
            nodes,
            printed: 0,
            notices,
            rounding: watch.asked.map(Rounding::new),
            refused,
            misses,
            outage,
            before,
            is_away: false,
        }
    }

    /// Takes one piece of the stream; true when it had the last row to print.
    fn take(&mut self, piece: Piece) -> io::Result<bool> {
        match piece {
            Piece::Columns { node, rate, columns } => self.columns(node, rate, columns)?,
            Piece::Rows { node, lost, rows, last } => return self.rows(&node, lost, &rows, last),
            Piece::Misses(misses) => self.misses(misses)?,
            Piece::Notice { nodes, text, is_refusal } => {
                self.note_refusal(&nodes, &text, is_refusal);
                self.notice(fold(nodes), text)?;
            }
            Piece::Change { nodes, state, since, text } => {
                self.remark(&format!("{} {text}", fold(&nodes)))?;
                let is_away = state != Presence::Up.as_str();
                for node in &nodes {
                    if !is_away {
                        self.absent.nodes.remove(node);
                    }
                    if let Some(known) = self.nodes.get_mut(node) {
                        known.change(is_away);
                    }
                    self.printer.change(&Change::Node { node, state: &state, since: &since })?;
                }
            }
            Piece::Server { server, is_silent, span } => {
                // Rows that it has made may still come, over the same connection.
                self.is_away = is_silent;
                let silence = silence(span);
                self.remark(&match is_silent {
                    true => format!("{server} has not been heard for {silence}; rows come when it is back"),
                    false => format!("{server} is back; it was not heard for {silence}"),
                })?;
                self.printer.change(&Change::Server { server: &server, is_silent, span })?;
            }
            Piece::Channel { name, definition } => {
                self.remark(&format!(
                    "channel '{name}' was changed; its rows are those of the new definition"
                ))?;
                self.printer.change(&Change::Channel { name: &name, definition: &definition })?;
            }
            Piece::Gone { text, is_there } => {
                self.is_away = true;
                self.remark(&asks_again(&text, is_there))?;
            }
            Piece::Again { away } => self.begin_again(away)?,
        }
        Ok(false)
    }

    /// Columns that were there before keep their rates, and the node its lost rows.
    fn columns(&mut self, name: String, rate: String, columns: Vec<Column>) -> io::Result<()> {
        self.remark_rate(&rate)?;
        if let Some(node) = self.nodes.get_mut(&name) {
            node.rates.change(&node.columns, &columns);
            (node.columns, node.rate) = (columns, rate);
        } else {
            let rates = Rates::new(&columns, self.watch.raw, self.printer.window_min());
            self.nodes.insert(name, Node::new(columns, rate, rates));
        }
        Ok(())
    }

    /// Says once for each rate that rows come at that one, and why.
    fn remark_rate(&mut self, rate: &str) -> io::Result<()> {
        let rounding = self.rounding.as_mut().zip(rate.parse().ok());
        match rounding.and_then(|(rounding, rate)| rounding.news(rate)) {
            Some(text) => self.remark(&text),
            None => Ok(()),
        }
    }

    fn rows(&mut self, name: &str, lost: u64, rows: &[Row], last: Option<RowNumber>) -> io::Result<bool> {
        if self.absent.nodes.contains(name) {
            return Ok(false);
        }
        // Without its columns a row has no meaning.
        let Some(node) = self.nodes.get_mut(name) else { return Ok(false) };
        let counted = self.outage.as_mut().map(|outage| outage.rows(name, rows.len(), lost, last));
        let Counted { missing, known } = counted.unwrap_or_default();
        node.lost += lost + missing;
        node.note(rows, lost + missing, last);
        for row in &rows[known..] {
            let only_starts = node.rates.only_starts();
            let shown = node.rates.row(row);
            if only_starts {
                continue;
            }
            let line = Line {
                node: name,
                time: row.time,
                columns: &node.columns,
                shown: &shown,
                lost: node.lost,
                rate: &node.rate,
            };
            self.printer.print(&line)?;
            self.printed += 1;
            if self.watch.count.is_some_and(|count| self.printed >= count) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn misses(&mut self, misses: Misses) -> io::Result<()> {
        self.printer.clear()?;
        for sentence in misses.sentences() {
            let later = if sentence.starts_with("no node") { "; its rows come when it reports" } else { "" };
            writeln!(self.remarks, "khz: {}{later}", printable(&sentence))?;
        }
        self.misses = misses;
        Ok(())
    }

    fn note_refusal(&mut self, nodes: &[String], text: &str, is_refusal: bool) {
        if is_refusal {
            self.refused.extend(nodes.iter().cloned());
        } else if text == Notice::SENDS_NOW {
            nodes.iter().for_each(|node| _ = self.refused.remove(node));
        }
    }

    /// Prints a notice, but not the same one twice in succession about the same nodes.
    fn notice(&mut self, nodes: String, text: String) -> io::Result<()> {
        let is_repeated = self.notices.get(&nodes) == Some(&text);
        let has_room = self.notices.len() < NOTICES_MAX || self.notices.contains_key(&nodes);
        if !is_repeated && has_room {
            self.remark(&format!("{nodes}: {text}"))?;
            self.notices.insert(nodes, text);
        }
        Ok(())
    }

    fn remark(&mut self, text: &str) -> io::Result<()> {
        self.printer.clear()?;
        writeln!(self.remarks, "{}", printable(&format!("khz: {text}")))
    }

    /// Rows come again after an outage. What is missing is known when rows have come.
    fn begin_again(&mut self, away: Duration) -> io::Result<()> {
        self.tell_outage(true)?;
        self.add_cost();
        self.is_away = false;
        // Those that still refuse it say so again.
        self.refused.clear();
        let nodes = self.nodes.iter().filter(|(_, node)| node.has_rows || node.last.is_some());
        let nodes = nodes.map(|(name, node)| (name.clone(), node.last, !node.has_rows));
        self.outage = Some(Outage::new(away, nodes));
        Ok(())
    }

    fn add_cost(&mut self) {
        if let Some(outage) = self.outage.take() {
            self.before.missing += outage.missing();
            self.before.is_unknown |= !outage.unknown().is_empty();
        }
    }

    /// Tells once what the last outage has cost, as soon as it is known.
    fn tell_outage(&mut self, is_last: bool) -> io::Result<()> {
        let Some(outage) = self.outage.as_mut() else { return Ok(()) };
        if !outage.is_due(is_last) {
            return Ok(());
        }
        let (away, missing, unknown) = (outage.away(), outage.missing(), outage.unknown());
        let sentence = outage.sentence();
        self.remark(&sentence)?;
        self.printer.change(&Change::Outage { away, missing, unknown: &unknown })
    }

    fn end(mut self) -> Outcome {
        self.tell_outage(true)?;
        self.printer.finish()?;
        self.add_cost();
        let lost: u64 = self.nodes.values().map(|node| node.lost).sum();
        let silent: u64 = self.nodes.values().filter(|node| node.was_silent).map(|node| node.ticks).sum();
        let mut sentences = Vec::new();
        if self.before.missing > 0 || self.before.is_unknown || self.is_away {
            sentences.push("the khz was away".to_owned());
        }
        match (lost, self.before.is_unknown || self.is_away) {
            (0, false) => {}
            (0, true) => sentences.push("whether rows are missing is unknown".to_owned()),
            (lost, false) => sentences.push(format!("rows that are missing: {lost}")),
            (lost, true) => sentences.push(format!("rows that are missing: {lost}, or more")),
        }
        if silent > 0 {
            let ticks = if silent == 1 { "tick" } else { "ticks" };
            sentences.push(format!("for {silent} {ticks} there is no row: nodes or their hubs were away"));
        }
        if self.printed == 0 && sentences.is_empty() && !self.refused.is_empty() {
            let refused = fold(&self.refused);
            return Err(Failure::work(format!("no row came; refused, as said above: by {refused}")));
        }
        match sentences.is_empty() {
            true if self.absent.are_wanted && !self.absent.nodes.is_empty() => {
                let mut missing: Vec<String> = self.absent.nodes.into_iter().collect();
                missing.sort();
                Ok(Done::Partly { missing })
            }
            true => misses::partly(&self.misses, Ok(Done::Wholly)),
            false => Ok(Done::Lacking { sentence: sentences.join("; ") }),
        }
    }
}

/// That rows have ended for this reason, and what becomes of them.
pub fn asks_again(text: &str, is_there: bool) -> String {
    match is_there {
        true => format!("{text}; khz asks again"),
        false => format!("{text}; khz asks again until it is back"),
    }
}

/// `3 s`, `4m`.
fn silence(span: Duration) -> String {
    match span.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => of_span(seconds as f64),
    }
}
