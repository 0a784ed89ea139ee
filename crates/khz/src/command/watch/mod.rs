//! `khz watch`: follows a feed of rows and prints each, or redraws a table of the latest. It ends by count,
//! by time or when the feed does; what a row shows is decided in `rates`.

use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::terminal;
use clap::Args;
use khz_model::Interest;
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use khz_model::{Misses, Nanos};

use crate::command::watch::rates::{Rates, Shown};
use crate::show::misses;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::of_span;
use crate::show::table::printable;
use khz_ask::{Column, Piece};
use khz_model::fold::fold;

mod lines;
pub mod rates;
mod screen;

pub use lines::Lines;
pub use screen::Screen;

/// Examples for `khz watch --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz watch 'cpu.all.*'                     CPUs in each mode, once a second
  khz watch 'net.*_bytes[eth0]' --rate 10   bytes per second, ten times a second
  khz watch mem.free --rate 100 --for 10s   a thousand rows, then done
  khz watch 'vm.*' --json --count 60        one object a line, values as decimal
                                            strings
  khz watch kernel.interrupts --raw         the counter itself";

/// `khz watch`.
#[derive(Debug, Args)]
pub struct WatchFlags {
    /// Which series: [NODES:]METRIC[INSTANCE], as 'cpu.*[0]'.
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<String>,
    /// How often: 100Hz, 1kHz, or a period: 5s.
    #[arg(long, value_name = "RATE", default_value = "1Hz", allow_hyphen_values = true)]
    pub rate: String,
    /// Counters as totals, not as rates.
    #[arg(long)]
    pub raw: bool,
    /// Sample at that rate even where the kernel updates the number more slowly.
    #[arg(long)]
    pub exact: bool,
    /// One JSON object a row.
    #[arg(long)]
    pub json: bool,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<String>,
    /// Stop after this many rows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Subscribes and prints rows until it is time to stop.
pub fn run(flags: WatchFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let interest = Interest {
        patterns: super::patterns(&flags.patterns)?,
        rate: flags.rate.parse().map_err(Failure::usage)?,
        exact: flags.exact,
    };
    let span: Option<Nanos> =
        flags.duration.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let until = span.and_then(|span| Instant::now().checked_add(span.into()));
    let watch = Watch { raw: flags.raw, count: flags.count, until };
    let stream = flags.target.rows(&plan, interest, watch.left())?;
    onto(watch, flags.json, terminal::size(), out, stream)
}

/// What to show, and when to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Totals, not rates.
    pub raw: bool,
    /// Stop after as many rows.
    pub count: Option<u64>,
    /// Stop then.
    pub until: Option<Instant>,
}

/// A row as it is to be printed.
pub struct Line<'a> {
    /// The node.
    pub node: &'a str,
    /// When it was gathered, since 1970.
    pub time: Nanos,
    /// Its columns.
    pub columns: &'a [Column],
    /// What they show; may be shorter.
    pub shown: &'a [Shown],
    /// Rows of this node that were lost until now.
    pub lost: u64,
    /// The rate that was granted, as text.
    pub rate: &'a str,
}

/// Who has gone or come back.
pub enum Change<'a> {
    /// A node is up, down, left or missing, since that moment (seconds since 1970).
    Node {
        /// The node.
        node: &'a str,
        /// What it has become.
        state: &'a str,
        /// Since when.
        since: &'a str,
    },
    /// Nothing is heard of the server any more, or something is again.
    Server {
        /// Where it is.
        server: &'a str,
        /// Which of both.
        is_silent: bool,
        /// For how long nothing was heard.
        span: Duration,
    },
}

/// Something that prints rows.
pub trait Paper {
    /// Rates are taken over at least this time.
    fn window_min(&self) -> Nanos;
    /// Prints one row.
    fn print(&mut self, line: &Line<'_>) -> std::io::Result<()>;
    /// Shows that a node or the whole server has gone or come back; that is said on stderr too.
    fn change(&mut self, change: &Change<'_>) -> std::io::Result<()>;
    /// Leaves the screen to a line that somebody else prints.
    fn make_way(&mut self) -> std::io::Result<()>;
    /// Prints what is still held back.
    fn finish(&mut self) -> std::io::Result<()>;
}

/// Groups of nodes of which is remembered what was told of them last, so as not to tell it twice; further ones are not
/// told of.
const NOTICES_MAX: usize = 1_000;

/// What is known of the stream.
#[derive(Default)]
struct Known {
    nodes: HashMap<String, Node>,
    /// Rows printed.
    printed: u64,
    /// What was told last, of each group of nodes.
    told: HashMap<String, String>,
    /// What was asked for and nobody had when this began.
    misses: Misses,
}

/// What is known of a node.
struct Node {
    columns: Vec<Column>,
    rate: String,
    rates: Rates,
    lost: u64,
}

impl Watch {
    /// When to stop, as the wait for it.
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Prints the rows of `next` until it is time to stop. `next` gives `None` at the end of the feed, and
    /// an empty list when it only waited. Notices go to `remarks` (stderr).
    pub fn follow(
        &self,
        mut next: impl FnMut() -> Result<Option<Vec<Piece>>, Failure>,
        paper: &mut impl Paper,
        remarks: &mut impl Write,
    ) -> Outcome {
        let mut known = Known::default();
        while !self.is_over() {
            let pieces = match next() {
                Ok(Some(pieces)) => pieces,
                Ok(None) if self.is_over() => break,
                Ok(None) => {
                    paper.finish()?;
                    return Err(Failure::work(
                        "the khz that was watched has ended the stream; watch again when it runs (`khz nodes` asks it)",
                    ));
                }
                // The wait for a row was cut off at the end of the time, as it should be.
                Err(_) if self.is_over() => break,
                Err(failure) => {
                    paper.finish()?;
                    return Err(failure);
                }
            };
            for feed in pieces {
                if self.take(feed, &mut known, paper, remarks)? {
                    paper.finish()?;
                    return misses::partly(&known.misses, Ok(Done::Wholly));
                }
            }
        }
        paper.finish()?;
        misses::partly(&known.misses, Ok(Done::Wholly))
    }

    /// Takes one piece of the feed; true when the last row to print was among it.
    fn take(
        &self,
        feed: Piece,
        known: &mut Known,
        paper: &mut impl Paper,
        remarks: &mut impl Write,
    ) -> std::io::Result<bool> {
        let Known { nodes, printed, told, misses } = known;
        let (name, lost, rows) = match feed {
            Piece::Columns { node, rate, columns } => {
                match nodes.get_mut(&node) {
                    Some(known) if columns.starts_with(&known.columns) => {
                        known.rates.append(&columns[known.columns.len()..]);
                        (known.columns, known.rate) = (columns, rate);
                    }
                    _ => {
                        let rates = Rates::new(&columns, self.raw, paper.window_min());
                        nodes.insert(node, Node { columns, rate, rates, lost: 0 });
                    }
                }
                return Ok(false);
            }
            Piece::Misses(found) => {
                paper.make_way()?;
                for sentence in found.sentences() {
                    let later =
                        if sentence.starts_with("no node") { "; its rows come when it reports" } else { "" };
                    writeln!(remarks, "khz: {}{later}", printable(&sentence))?;
                }
                *misses = found;
                return Ok(false);
            }
            Piece::Notice { nodes, text } => {
                let nodes = fold(nodes);
                let is_known = told.get(&nodes) == Some(&text);
                if !is_known && (told.len() < NOTICES_MAX || told.contains_key(&nodes)) {
                    paper.make_way()?;
                    writeln!(remarks, "{}", printable(&format!("khz: {nodes}: {text}")))?;
                    told.insert(nodes, text);
                }
                return Ok(false);
            }
            Piece::Change { nodes, state, since, text } => {
                paper.make_way()?;
                writeln!(remarks, "{}", printable(&format!("khz: {} {text}", fold(&nodes))))?;
                for node in &nodes {
                    paper.change(&Change::Node { node, state: &state, since: &since })?;
                }
                return Ok(false);
            }
            Piece::Server { server, is_silent, span } => {
                paper.make_way()?;
                let silence = silence(span);
                let text = match is_silent {
                    true => format!("{server} has not been heard for {silence}; rows come when it is back"),
                    false => format!("{server} is back; it was not heard for {silence}"),
                };
                writeln!(remarks, "{}", printable(&format!("khz: {text}")))?;
                paper.change(&Change::Server { server: &server, is_silent, span })?;
                return Ok(false);
            }
            Piece::Rows { node, lost, rows } => (node, lost, rows),
        };
        // Rows before their columns could not be told apart.
        let Some(node) = nodes.get_mut(&name) else { return Ok(false) };
        node.lost += lost;
        for row in &rows {
            let only_starts = node.rates.only_starts();
            let shown = node.rates.row(row);
            if only_starts {
                continue;
            }
            let line = Line {
                node: &name,
                time: row.time,
                columns: &node.columns,
                shown: &shown,
                lost: node.lost,
                rate: &node.rate,
            };
            paper.print(&line)?;
            *printed += 1;
            if self.count.is_some_and(|count| *printed >= count) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// `3 s`, `4m`.
fn silence(span: Duration) -> String {
    match span.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => of_span(seconds as f64),
    }
}

/// Opens the paper that fits: a screen on a terminal, else lines.
pub fn onto(
    watch: Watch,
    as_json: bool,
    terminal: Option<(usize, usize)>,
    out: &mut impl Write,
    next: impl FnMut() -> Result<Option<Vec<Piece>>, Failure>,
) -> Outcome {
    match terminal {
        Some((columns, lines)) if !as_json => {
            watch.follow(next, &mut Screen::new(columns, lines, out), &mut std::io::stderr())
        }
        _ => watch.follow(next, &mut Lines::new(as_json, out), &mut std::io::stderr()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_ask::{Cell, Row};

    fn rows_of_n1() -> Vec<Piece> {
        let column = |series: &str, counter, unit: &str, places| Column {
            series: series.to_owned(),
            counter,
            unit: unit.to_owned(),
            places,
        };
        let columns =
            vec![column("net.rx_bytes[eth0]", true, "bytes", 0), column("load.1m", false, "count", 2)];
        let time = |millis: u64| Nanos::from_millis(1_763_690_000_000 + millis);
        let row = |millis, bytes: Option<u64>, load| Row {
            time: time(millis),
            clock: time(millis),
            cells: vec![
                bytes.map_or(Cell::Absent("instance gone".to_owned()), |units| Cell::Present {
                    units,
                    places: 0,
                }),
                Cell::Present { units: load, places: 2 },
            ],
        };
        let node = || "n1".to_owned();
        vec![
            Piece::Columns { node: node(), rate: "10Hz".to_owned(), columns },
            Piece::Rows {
                node: node(),
                lost: 0,
                rows: vec![row(0, Some(1000), 52), row(100, Some(2000), 52)],
            },
            Piece::Rows { node: node(), lost: 2, rows: vec![row(400, Some(500), 61), row(500, None, 61)] },
        ]
    }

    fn printed(watch: Watch, as_json: bool, terminal: Option<(usize, usize)>) -> (String, Outcome) {
        let mut pieces = rows_of_n1().into_iter();
        let mut out = Vec::new();
        let outcome = onto(watch, as_json, terminal, &mut out, || Ok(pieces.next().map(|feed| vec![feed])));
        (String::from_utf8(out).unwrap(), outcome)
    }

    #[test]
    fn a_row_is_a_line_and_unknown_is_never_a_number() {
        let (text, outcome) = printed(Watch::default(), false, None);
        assert_eq!(
            text,
            "# n1 at 10Hz\n\
             # time\tnode\tnet.rx_bytes[eth0] (bytes/s)\tload.1m (count)\n\
             1763690000.100000000\tn1\t10000\t0.52\n\
             1763690000.400000000\tn1\tunknown\t0.61\n\
             1763690000.500000000\tn1\tabsent\t0.61\n"
        );
        assert!(matches!(outcome, Err(Failure::Work(_))), "the feed ended by itself");
    }

    #[test]
    fn json_is_one_object_a_row() {
        let (text, _) = printed(Watch::default(), true, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            [
                r#"{"node":"n1","time":"1763690000.100000000","rate":"10Hz","lost":0,"values":{"net.rx_bytes[eth0]":"10000","load.1m":"0.52"}}"#,
                r#"{"node":"n1","time":"1763690000.400000000","rate":"10Hz","lost":2,"values":{"net.rx_bytes[eth0]":{"unknown":"the counter went backwards"},"load.1m":"0.61"}}"#,
            ]
        );
        assert!(lines[2].contains(r#""net.rx_bytes[eth0]":{"absent":"instance gone"}"#));
    }

    #[test]
    fn raw_prints_the_totals_and_the_first_row() {
        let (text, _) = printed(Watch { raw: true, count: Some(1), until: None }, false, None);
        assert_eq!(
            text,
            "# n1 at 10Hz\n# time\tnode\tnet.rx_bytes[eth0] (bytes)\tload.1m (count)\n1763690000.000000000\tn1\t1000\t0.52\n"
        );
    }

    #[test]
    fn it_stops_after_the_rows_that_were_asked_for() {
        let (text, outcome) = printed(Watch { count: Some(2), ..Watch::default() }, true, None);
        assert_eq!(text.lines().count(), 2);
        assert_eq!(outcome.unwrap(), Done::Wholly);
    }

    #[test]
    fn it_stops_when_its_time_is_over() {
        let (text, outcome) = printed(Watch { until: Some(Instant::now()), ..Watch::default() }, true, None);
        assert_eq!((text.as_str(), outcome.unwrap()), ("", Done::Wholly));
    }

    /// The same rows of two nodes, after a notice that is told twice.
    fn two_nodes() -> Vec<Piece> {
        let notice = || Piece::Notice {
            nodes: vec!["n2".to_owned(), "n1".to_owned()],
            text: "1000Hz is above the ceiling".to_owned(),
        };
        let other = rows_of_n1().into_iter().map(|feed| match feed {
            Piece::Columns { rate, columns, .. } => Piece::Columns { node: "n2".to_owned(), rate, columns },
            Piece::Rows { lost, rows, .. } => Piece::Rows { node: "n2".to_owned(), lost, rows },
            other => other,
        });
        let mut pieces = vec![notice()];
        for (one, two) in rows_of_n1().into_iter().zip(other) {
            pieces.extend([one, two]);
        }
        pieces.push(notice());
        pieces
    }

    #[test]
    fn several_nodes_are_rows_of_one_screen_and_a_notice_is_told_once() {
        let (mut out, mut remarks) = (Vec::new(), Vec::new());
        let mut pieces = two_nodes().into_iter();
        let next = || Ok(pieces.next().map(|feed| vec![feed]));
        let outcome = Watch::default().follow(next, &mut Screen::new(80, 24, &mut out), &mut remarks);
        assert!(outcome.is_err(), "the feed ended by itself");
        assert_eq!(String::from_utf8(remarks).unwrap(), "khz: n[1-2]: 1000Hz is above the ceiling\n");
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text.rsplit("\x1b[J").next().unwrap(),
            "2 nodes at 10Hz   2025-11-21 01:53:20.500 UTC   4 rows lost\n\
             NODE  net.rx_bytes[eth0]  load.1m\n\
             n1                absent     0.61\n\
             n2                absent     0.61\n"
        );
    }

    #[test]
    fn what_was_told_before_is_told_again_once_something_else_was() {
        let notice = |text: &str| Piece::Notice { nodes: vec!["n1".to_owned()], text: text.to_owned() };
        let said = ["slow", "slow", "as asked", "slow"].map(notice);
        let (mut pieces, mut remarks) = (said.into_iter(), Vec::new());
        let next = || Ok(pieces.next().map(|feed| vec![feed]));
        let _ = Watch::default().follow(next, &mut Lines::new(true, &mut Vec::new()), &mut remarks);
        let told = String::from_utf8(remarks).unwrap();
        assert_eq!(told, "khz: n1: slow\nkhz: n1: as asked\nkhz: n1: slow\n");
    }

    /// n1 goes and comes back, and so does the server; rows come before and after.
    fn changes() -> Vec<Piece> {
        let change = |state: &str, text: &str| Piece::Change {
            nodes: vec!["n1".to_owned()],
            state: state.to_owned(),
            since: "1763690591.500000000".to_owned(),
            text: text.to_owned(),
        };
        let server = |is_silent, seconds| Piece::Server {
            server: "http://hub1:7070".to_owned(),
            is_silent,
            span: Duration::from_secs(seconds),
        };
        let mut pieces = rows_of_n1();
        let last = pieces.pop();
        pieces.extend([change("down", "is down since 02:03:11 UTC: silent for too long"), server(true, 3)]);
        pieces.extend([server(false, 75), change("up", "is back since 02:03:11 UTC")]);
        pieces.extend(last);
        pieces
    }

    #[test]
    fn who_goes_and_comes_back_is_told_once_each_time_on_stderr_and_as_an_event() {
        let (mut out, mut remarks) = (Vec::new(), Vec::new());
        let mut pieces = changes().into_iter();
        let next = || Ok(pieces.next().map(|feed| vec![feed]));
        let _ = Watch::default().follow(next, &mut Lines::new(true, &mut out), &mut remarks);
        assert_eq!(
            String::from_utf8(remarks).unwrap(),
            "khz: n1 is down since 02:03:11 UTC: silent for too long\n\
             khz: http://hub1:7070 has not been heard for 3 s; rows come when it is back\n\
             khz: http://hub1:7070 is back; it was not heard for 1m\n\
             khz: n1 is back since 02:03:11 UTC\n"
        );
        let out = String::from_utf8(out).unwrap();
        let events: Vec<&str> = out.lines().filter(|line| line.contains("\"event\"")).collect();
        assert_eq!(
            events,
            [
                r#"{"event":"node","node":"n1","state":"down","since":"1763690591.500000000"}"#,
                r#"{"event":"server","server":"http://hub1:7070","state":"silent","silent_seconds":"3.000000000"}"#,
                r#"{"event":"server","server":"http://hub1:7070","state":"back","silent_seconds":"75.000000000"}"#,
                r#"{"event":"node","node":"n1","state":"up","since":"1763690591.500000000"}"#,
            ]
        );
    }

    #[test]
    fn on_a_screen_the_numbers_of_a_node_that_is_gone_are_marked_until_it_is_back() {
        let drawn_of = |pieces: Vec<Piece>| {
            let mut out = Vec::new();
            let mut pieces = pieces.into_iter();
            let next = || Ok(pieces.next().map(|feed| vec![feed]));
            let _ = Watch::default().follow(next, &mut Screen::new(80, 24, &mut out), &mut Vec::new());
            String::from_utf8(out).unwrap()
        };
        let all = changes();
        let gone = drawn_of(all[..3].to_vec());
        let last = gone.rsplit("\x1b[J").next().unwrap();
        assert!(last.starts_with("n1 at 10Hz   2025-11-21 01:53:20.100 UTC   down\n"), "{last}");
        assert!(last.contains("load.1m"), "the table is there: {last}");
        let back = drawn_of(all);
        let last = back.rsplit("\x1b[J").next().unwrap();
        assert!(last.starts_with("n1 at 10Hz   2025-11-21 01:53:20.500 UTC   2 rows lost\n"), "{last}");
    }

    #[test]
    fn nodes_with_the_same_columns_share_a_header() {
        let mut out = Vec::new();
        let mut pieces = two_nodes().into_iter();
        let next = || Ok(pieces.next().map(|feed| vec![feed]));
        let watch = Watch { count: Some(4), ..Watch::default() };
        watch.follow(next, &mut Lines::new(false, &mut out), &mut Vec::new()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# n1 at 10Hz\n\
             # time\tnode\tnet.rx_bytes[eth0] (bytes/s)\tload.1m (count)\n\
             1763690000.100000000\tn1\t10000\t0.52\n\
             1763690000.100000000\tn2\t10000\t0.52\n\
             1763690000.400000000\tn1\tunknown\t0.61\n\
             1763690000.500000000\tn1\tabsent\t0.61\n"
        );
    }

    #[test]
    fn the_screen_fits_the_terminal() {
        let (text, _) = printed(Watch::default(), false, Some((80, 24)));
        let last = text.rsplit("\x1b[J").next().unwrap();
        assert_eq!(
            last,
            "n1 at 10Hz   2025-11-21 01:53:20.500 UTC   2 rows lost\n\
             SERIES               NOW\n\
             net.rx_bytes[eth0]  absent: instance gone\n\
             load.1m             0.61\n"
        );
        let (narrow, _) = printed(Watch::default(), false, Some((20, 3)));
        let plain = narrow.rsplit("\x1b[J").next().unwrap();
        assert!(
            plain.lines().count() <= 3 && plain.lines().all(|line| line.chars().count() <= 20),
            "{plain}"
        );
    }
}
