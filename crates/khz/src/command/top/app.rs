//! The state of the screen. `app/acts.rs` changes it by keys, `app/steps.rs` moves through the past. It reads no clock, asks nobody
//! and draws nothing. The loop of `run.rs` compares the wanted subscriptions with the running ones, and passes on the rows that
//! come.

mod acts;
mod steps;

use std::collections::{HashMap, HashSet};

use khz_ask::Piece;
use khz_model::fold::fold;
use khz_model::{Nanos, Rate};

use super::list::List;
use super::look::Look;
use super::node::{Keep, Node};
use super::odd_times::OddTimes;
use super::past::RecordedSpan;
use super::processes::Processes;
use super::prompt::Prompt;
use super::tape::Tape;
use super::world::World;

/// Columns of the charts of one node, and of each node of a list.
const NODE_COLUMNS: usize = super::curve::COLUMNS_MAX;
const LIST_COLUMNS: usize = 256;

/// How much of the past one question asks for: rows before a moment, so that charts are not empty, and rows after it, for the next
/// steps.
const NODE_BEFORE: Nanos = Nanos::from_secs(300);
const NODE_AFTER: Nanos = Nanos::from_secs(60);
const LIST_BEFORE: Nanos = Nanos::from_secs(60);
const LIST_BEFORE_MAX: Nanos = Nanos::from_secs(240);
/// The readings that a list asks for, and roughly the number of series for each node.
const LIST_READINGS: u64 = 400_000;
const LIST_SERIES: u64 = 20;
const LIST_AFTER: Nanos = Nanos::from_secs(20);
/// How far back rows of a live picture are drawn again when its scale changes.
const ALL: Nanos = Nanos::from_secs(86_400);

/// The width of a column of the charts: the period of the rows times one of these.
const ZOOMS: [u64; 7] = [1, 2, 5, 10, 30, 60, 300];

const MINUTE: Nanos = Nanos::from_secs(60);

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A running khz.
    Server,
    /// This machine's kernel, read by this process. The only past is what was seen.
    Kernel,
    /// A recording, which has no present.
    Recording,
}

/// Live rows that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// One node; `None`: the list.
    pub node: Option<String>,
    /// Rows a second.
    pub rate: u16,
    /// How often the live view was started from nothing. After each start, columns must come again.
    pub begun: u64,
}

/// The wanted moment of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The last row shortly before this moment, or silent nodes, or else the first row after it.
    At(Nanos),
    /// The last row up to this moment, however old.
    UpTo(Nanos),
    /// The first row after this moment, however late.
    After(Nanos),
}

impl Sought {
    /// The moment at which the search begins.
    pub fn moment(self) -> Nanos {
        let (Sought::At(moment) | Sought::UpTo(moment) | Sought::After(moment)) = self;
        moment
    }
}

/// Rows of the past that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// One node; `None`: the list.
    pub node: Option<String>,
    /// The moment to be shown then.
    pub sought: Sought,
    /// How long before that moment all rows are wanted.
    pub before: Nanos,
    /// How long after that moment all rows are wanted.
    pub after: Nanos,
}

/// A moment of the past.
pub struct Past {
    /// The moment.
    pub at: Nanos,
    world: World,
    /// The rows that were asked for; `None`: the rows that were seen are enough.
    loaded: Option<Loaded>,
}

/// Rows of the past that were asked for.
struct Loaded {
    tape: Tape,
    /// When the nodes of a list were odd.
    odd: OddTimes,
}

/// The state of the program.
pub struct App {
    /// What the terminal can show.
    pub look: Look,
    /// Where rows come from.
    pub origin: Origin,
    /// The server, or the file: for the heading.
    pub source: String,
    /// The node that fills the screen; `None`: the list.
    pub focus: Option<String>,
    /// There is a list to go back to.
    pub has_list: bool,
    /// The list of nodes.
    pub list: List,
    odd: OddTimes,
    /// The processes of a node.
    pub processes: Processes,
    /// All curves as a waterfall.
    pub waterfall: bool,
    /// The keys are shown.
    pub help: bool,
    /// A line that is typed.
    pub prompt: Option<Prompt>,
    /// The notice to show, and when it came, in counts of [`App::tick`].
    pub notice: Option<(String, u64)>,
    /// The rate that was asked for.
    pub rate: u16,
    /// The paused picture, or the shown moment of the past.
    pub past: Option<Past>,
    /// The open question about the past.
    pub question: Option<Question>,
    /// That question is about the last row of a node that is away.
    asks_for_last: bool,
    /// The time of the recording.
    pub span: Option<RecordedSpan>,
    /// The khz that sends the rows is away.
    pub is_away: bool,
    /// The lines of a page, by which a page key moves the choice.
    pub page: u16,
    world: World,
    tape: Tape,
    zoom: usize,
    /// What is subscribed to.
    of: Wanted,
    ticks: u64,
    /// When the last row came that was newer than all before, in ticks.
    rows_at: Option<u64>,
    /// The time by the server's clock, and when the server said so, in ticks.
    clock: Option<(Nanos, u64)>,
    /// When the server last said that it has no nodes, in ticks.
    answered_without_nodes: Option<u64>,
    now: Nanos,
}

/// What the loop has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Go on.
    Go,
    /// End.
    Quit,
    /// Stop until `fg`.
    Suspend,
    /// Draw everything again.
    Redraw,
}

/// If no row has come for this many seconds, the newest row no longer counts as the present. Rows of a list come once a second.
const QUIET_TICKS: u64 = 3;

/// How long the server's word on its nodes counts (s). It is asked every ten seconds.
const STATES_TICKS: u64 = 12;

/// The notice that is shown instead of the patterns that select nothing.
pub const NO_NODES: &str = "the hub has no nodes: rows come when one reports";

/// Seconds for which a notice is shown.
const NOTICE_TICKS: u64 = 12;

impl App {
    /// A screen of this node, or of a list.
    pub fn new(look: Look, origin: Origin, source: String, focus: Option<String>, has_list: bool) -> Self {
        let rate = 10;
        let of = Wanted { node: focus.clone(), rate, begun: 0 };
        let mut app = App {
            look,
            origin,
            source,
            has_list: has_list || focus.is_none(),
            focus,
            list: List::default(),
            odd: OddTimes::default(),
            processes: Processes::default(),
            waterfall: false,
            help: false,
            prompt: None,
            notice: None,
            rate,
            past: None,
            question: None,
            asks_for_last: false,
            span: None,
            is_away: false,
            page: 10,
            world: World::new(Keep { step: Nanos::SECOND, columns: 1, parts: false }),
            tape: Tape::default(),
            zoom: 0,
            of,
            ticks: 0,
            rows_at: None,
            clock: None,
            answered_without_nodes: None,
            now: Nanos(0),
        };
        app.world = World::new(app.keep(None));
        app
    }

    /// Begins with this rate.
    pub fn begin_at_rate(&mut self, rate: u16) {
        self.rate = rate;
        self.of.rate = rate;
    }

    /// The wanted subscription; none for a recording.
    pub fn wanted(&self) -> Option<Wanted> {
        (self.origin != Origin::Recording).then(|| self.of.clone())
    }

    /// The nodes that are shown: the current ones, or those at a moment of the past.
    pub fn shown(&self) -> &World {
        self.past.as_ref().map_or(&self.world, |past| &past.world)
    }

    /// The node that fills the screen.
    pub fn node(&self) -> Option<&Node> {
        self.shown().node(self.focus.as_deref()?)
    }

    /// The moment that is shown: for live rows, the time of the newest one.
    pub fn moment(&self) -> Option<Nanos> {
        match (&self.past, &self.focus) {
            (Some(past), _) => Some(past.at),
            (None, Some(_)) => self.node().and_then(Node::time),
            (None, None) => self.present(),
        }
    }

    /// The present of a list, which goes on even if no node sends a row.
    fn present(&self) -> Option<Nanos> {
        let newest = self.world.time();
        if newest.is_some() && !self.is_quiet() {
            return newest;
        }
        // An older khz does not say what its clock says.
        let clock = self.now_after(self.clock.or(newest.zip(self.rows_at)));
        clock.max(newest).filter(|_| self.world.nodes().next().is_some())
    }

    /// The moment at the right end of all charts; `None`: each ends with its own newest row. Charts of a list go on while nobody sends.
    pub fn charts_end(&self) -> Option<Nanos> {
        match (&self.past, &self.focus) {
            (Some(past), _) => Some(past.at),
            (None, None) => self.present(),
            (None, Some(_)) => None,
        }
    }

    /// The moment that is shown, or the present if there is no row to show.
    fn moment_or_now(&self) -> Option<Nanos> {
        self.moment().or(self.now_after(self.clock))
    }

    /// The present: that of a clock which showed a time in a tick, or else that of this machine.
    fn now_after(&self, clock: Option<(Nanos, u64)>) -> Option<Nanos> {
        let on = |(time, at): (Nanos, u64)| Nanos(time.0 + (self.ticks - at) * Nanos::SECOND.0);
        clock.map(on).or(Some(self.now).filter(|now| *now > Nanos(0)))
    }

    /// No row comes that is newer than all before: nobody is up, or all clocks were set back.
    fn is_quiet(&self) -> bool {
        self.rows_at.is_none_or(|at| self.ticks - at > QUIET_TICKS)
    }

    /// The clock of the khz that is asked.
    pub fn clock_of_server(&mut self, time: Option<Nanos>) {
        self.clock = time.map(|time| (time, self.ticks)).or(self.clock);
    }

    /// How much of the curves is kept.
    fn keep(&self, tape: Option<&Tape>) -> Keep {
        let is_list = self.focus.is_none();
        let period = match (tape.and_then(Tape::usual_distance), is_list) {
            (Some(distance), _) => distance,
            (None, true) => Nanos::SECOND,
            (None, false) => {
                let rate = self.world.node(self.focus.as_deref().unwrap_or_default()).and_then(Node::rate);
                let granted: Option<Rate> = rate.and_then(|rate| rate.parse().ok());
                let asked = Nanos(1_000_000_000 / u64::from(self.rate.max(1)));
                granted.map_or(asked, |rate| rate.period().max(asked))
            }
        };
        let step = Nanos(period.0.max(1).saturating_mul(ZOOMS[self.zoom]));
        let columns = if is_list { LIST_COLUMNS } else { NODE_COLUMNS };
        Keep { step, columns, parts: !is_list }
    }

    /// Says something.
    pub fn say(&mut self, text: impl Into<String>) {
        self.notice = Some((text.into(), self.ticks));
    }

    /// Handles a passed second. Returns true if the picture changes.
    pub fn tick(&mut self, now: Nanos) -> bool {
        self.now = now;
        self.ticks += 1;
        self.odd.tick();
        let is_old = self.notice.as_ref().is_some_and(|(_, said)| self.ticks - said > NOTICE_TICKS);
        if is_old {
            self.notice = None;
        }
        is_old || self.shows_clock()
    }

    /// A moment of the past is shown, or asked for.
    fn looks_back(&self) -> bool {
        self.past.is_some() || self.question.is_some()
    }

    /// The picture shows a clock that goes on without rows.
    fn shows_clock(&self) -> bool {
        self.focus.is_none() && self.past.is_none() && self.is_quiet()
    }

    /// Takes a piece of a subscription. Returns true if the picture changes.
    pub fn take(&mut self, feed: usize, piece: &Piece) -> bool {
        if let Piece::Rows { rows, .. } = piece {
            self.is_away = false;
            // Who subscribes gets the last row also of a node that is down.
            if rows.last().map(|row| row.time) > self.world.time() {
                self.rows_at = Some(self.ticks);
            }
        }
        self.take_old(feed, piece)
    }

    /// Takes a piece with rows from before the subscription.
    pub fn take_old(&mut self, feed: usize, piece: &Piece) -> bool {
        self.tape.take(feed, piece);
        self.learn_again(feed, piece);
        self.world.take(feed, piece);
        match piece {
            Piece::Columns { .. } => {
                // The granted rate sets the width of the chart columns.
                let step = self.keep(None).step;
                if feed == 0 && self.focus.is_some() && self.live_step() != Some(step) {
                    self.draw_live_again();
                }
                false
            }
            Piece::Rows { rows, .. } => {
                if let Some(row) = rows.last().filter(|_| self.focus.is_none()) {
                    self.odd.note(&mut self.world, row.time);
                }
                self.past.is_none()
            }
            // A problem of the live rows is not shown with a moment of the past.
            Piece::Notice { .. } | Piece::Change { .. } | Piece::Misses(_) if self.looks_back() => false,
            Piece::Notice { nodes, text, .. } => {
                self.say(format!("{}: {text}", fold(nodes)));
                true
            }
            Piece::Change { nodes, text, .. } => {
                self.say(format!("{} {text}", fold(nodes)));
                true
            }
            Piece::Misses(misses) => {
                // Old kernels and simulated nodes lack some of what a screen can show.
                if let (Some(sentence), false) = (misses.sentences().first(), misses.nodes.is_empty()) {
                    self.say(sentence.clone());
                }
                true
            }
            Piece::Server { server, is_silent, span } => {
                self.is_away = *is_silent;
                if *is_silent {
                    self.tape.note_break();
                }
                let seconds = span.as_secs();
                self.say(match is_silent {
                    true => format!("{server} has not been heard for {seconds} s"),
                    false => format!("{server} is back"),
                });
                true
            }
            Piece::Gone { text, .. } => {
                self.is_away = true;
                self.tape.note_break();
                self.say(format!("{text}; khz asks again until it is back"));
                true
            }
            Piece::Again { away } => {
                self.is_away = false;
                self.say(format!("rows come again after {} s", away.as_secs()));
                true
            }
            Piece::Channel { .. } => false,
        }
    }

    /// A forgotten node sends rows again. Its columns came earlier.
    fn learn_again(&mut self, feed: usize, piece: &Piece) {
        let Piece::Rows { node, .. } = piece else { return };
        if !self.world.node(node).is_some_and(|node| node.has_columns(feed))
            && let Some(columns) = self.tape.columns_of(feed, node)
        {
            self.world.take(feed, &columns);
        }
    }

    fn live_step(&self) -> Option<Nanos> {
        self.world.nodes().next().map(|(_, node)| node.step())
    }

    /// A subscription has ended, and is retried. A server without nodes has no rows to send.
    pub fn ended(&mut self, text: String) {
        self.is_away = !self.has_no_nodes();
        self.tape.note_break();
        self.say(if self.has_no_nodes() { NO_NODES.to_owned() } else { text });
    }

    /// Takes a node's state from the server.
    pub fn state(&mut self, node: &str, state: &str, since: Option<Nanos>) {
        self.world.state(node, state, since);
    }

    /// Takes the server's word whether it has nodes.
    pub fn knows_nodes(&mut self, has_some: bool) {
        self.answered_without_nodes = (!has_some).then_some(self.ticks);
        self.is_away &= has_some;
    }

    /// Whether the server said lately that it has no nodes, so that no rows can come.
    pub fn has_no_nodes(&self) -> bool {
        self.answered_without_nodes.is_some_and(|at| self.ticks - at <= STATES_TICKS)
    }

    /// Keeps only these known nodes. Other nodes were forgotten, unless they are up and have just sent a row.
    pub fn leave_out_all_but(&mut self, known: &HashSet<&str>) {
        let just_now = self.world.time().unwrap_or_default().since(MINUTE);
        let is_new = |node: &Node| !node.is_away() && node.time().is_some_and(|time| time > just_now);
        self.world.retain(|name, node| known.contains(name) || is_new(node));
    }

    /// Rows cannot come at this rate, so asks for the next lower one. Returns false if there is none.
    pub fn refuse(&mut self, problem: &str) -> bool {
        if self.rate <= 1 {
            return false;
        }
        let refused = self.rate;
        self.rate /= 10;
        self.begin_at_other_rate();
        self.say(format!("now {} Hz: {refused} Hz is refused: {problem}", self.rate));
        true
    }

    /// Starts the live view from nothing. Even an unchanged subscription starts again, since its columns must come.
    fn begin_live(&mut self) {
        self.of.begun += 1;
        self.notice = None;
        self.world = World::new(self.keep(None));
        self.tape = Tape::default();
        self.rows_at = None;
    }

    /// Changes the rate for the same node. The rows that were seen stay.
    fn begin_at_other_rate(&mut self) {
        self.of.begun += 1;
        self.of.rate = self.rate;
        self.notice = None;
        self.tape.begin_again();
        self.draw_live_again();
    }

    /// The rows from before the subscription came after others of it. The charts are drawn again, since they leave out late rows.
    pub fn filled(&mut self) {
        if self.focus.is_none() {
            return;
        }
        self.draw_live_again();
        let is_empty = self
            .focus
            .as_deref()
            .and_then(|name| self.world.node(name))
            .is_some_and(|node| node.is_away() && node.time().is_none());
        // A node that was down already when its hub began has its rows in the store only.
        if let (true, false, Some(now)) = (is_empty, self.looks_back(), self.moment_or_now()) {
            self.ask(Sought::UpTo(now));
            self.asks_for_last = self.question.is_some();
        }
    }

    /// Draws the same rows again, with columns of another width.
    fn draw_live_again(&mut self) {
        let states: Vec<(String, String, Option<Nanos>)> = self
            .world
            .nodes()
            .filter_map(|(name, node)| Some((name.to_owned(), node.state.clone()?, node.since)))
            .collect();
        let lost: HashMap<String, u64> =
            self.world.nodes().map(|(name, node)| (name.to_owned(), node.lost)).collect();
        let columns = self.tape.columns_without_rows();
        let keep = self.keep(None);
        self.world = match self.tape.span() {
            Some((_, newest)) => self.tape.picture(newest, ALL, keep),
            None => World::new(keep),
        };
        for (feed, piece) in columns {
            self.world.take(feed, &piece);
        }
        for (name, state, since) in states {
            self.world.state(&name, &state, since);
        }
        for (name, node) in self.world.nodes_mut() {
            node.lost = lost.get(name).copied().unwrap_or(0);
            node.odd_since = node.time().map(|time| self.odd.since(name, time)).unwrap_or_default();
        }
    }

    /// Shows one node, or the list.
    fn focus_on(&mut self, node: Option<String>) {
        let asked = self.question.take().map(|question| question.sought.moment());
        let at = self.past.as_ref().map(|past| past.at).or(asked);
        let known = node.as_deref().and_then(|name| self.world.node(name));
        let state = known.and_then(|known| known.state.clone().zip(Some(known.since)));
        self.focus = node.clone();
        self.of.node = node;
        self.past = None;
        self.processes = Processes::default();
        self.zoom = 0;
        self.begin_live();
        if let (Some(name), Some((state, since))) = (self.focus.clone(), state) {
            self.world.state(&name, &state, since);
        }
        if let Some(at) = at {
            self.ask(Sought::At(at));
        }
    }
}
