//! What is shown. `app/acts.rs` has what each key changes about it, `app/steps.rs` the past. It reads no clock, asks nobody and draws
//! nothing: the loop of `run.rs` compares what it wants with what is running, and gives it what comes.

mod acts;
mod steps;

use std::collections::HashSet;

use khz_ask::Piece;
use khz_model::fold::fold;
use khz_model::{Nanos, Rate};

use super::list::{List, note_odd};
use super::look::Look;
use super::node::{Keep, Node};
use super::processes::Processes;
use super::prompt::Prompt;
use super::tape::Tape;
use super::world::World;

/// Columns of the charts of one node, and of each node of a list.
const NODE_COLUMNS: usize = super::curve::COLUMNS_MAX;
const LIST_COLUMNS: usize = 256;

/// What of the past is asked for at once: before a moment, so that charts have something to show, and after it, for the next steps.
const NODE_BEFORE: Nanos = Nanos::from_secs(300);
const NODE_AFTER: Nanos = Nanos::from_secs(60);
const LIST_BEFORE: Nanos = Nanos::from_secs(60);
const LIST_AFTER: Nanos = Nanos::from_secs(20);
/// The rows of a live picture that are drawn again when its scale changes.
const ALL: Nanos = Nanos::from_secs(86_400);

/// The width of a column of the charts: the period of the rows times one of these.
const ZOOMS: [u64; 7] = [1, 2, 5, 10, 30, 60, 300];

const MINUTE: Nanos = Nanos::from_secs(60);

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A running khz.
    Server,
    /// This machine's kernel, read by this process: there is no past but what was seen.
    Kernel,
    /// A recording: there is no present.
    Recording,
}

/// Live rows that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// One node; `None`: the list.
    pub node: Option<String>,
    /// Rows a second.
    pub rate: u16,
}

/// Rows of the past that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// One node; `None`: the list.
    pub node: Option<String>,
    /// The rows from here on.
    pub from: Nanos,
    /// And before this.
    pub to: Nanos,
    /// The moment to be shown then: the last row up to it, or else the first one after it.
    pub at: Nanos,
}

/// A moment of the past.
pub struct Past {
    /// The moment.
    pub at: Nanos,
    world: World,
    /// Rows that were asked for; `None`: those that were seen suffice.
    tape: Option<Tape>,
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
    /// The processes of a node.
    pub processes: Processes,
    /// All curves as a waterfall.
    pub waterfall: bool,
    /// The keys are shown.
    pub help: bool,
    /// A line that is typed.
    pub prompt: Option<Prompt>,
    /// What has to be said, and when it was said, in counts of [`App::tick`].
    pub notice: Option<(String, u64)>,
    /// The rate that was asked for.
    pub rate: u16,
    /// The picture stands still, or shows the past.
    pub past: Option<Past>,
    /// A question about the past that is not answered yet.
    pub question: Option<Question>,
    /// The khz that is asked is away.
    pub is_away: bool,
    /// Lines of a page: by how many a page moves the choice.
    pub page: u16,
    world: World,
    tape: Tape,
    zoom: usize,
    /// What is subscribed to.
    of: Wanted,
    ticks: u64,
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

/// Seconds for which a notice is shown.
const NOTICE_TICKS: u64 = 12;

impl App {
    /// A screen of this node, or of a list.
    pub fn new(look: Look, origin: Origin, source: String, focus: Option<String>, has_list: bool) -> Self {
        let rate = 10;
        let of = Wanted { node: focus.clone(), rate };
        let mut app = App {
            look,
            origin,
            source,
            has_list: has_list || focus.is_none(),
            focus,
            list: List::default(),
            processes: Processes::default(),
            waterfall: false,
            help: false,
            prompt: None,
            notice: None,
            rate,
            past: None,
            question: None,
            is_away: false,
            page: 10,
            world: World::new(Keep { step: Nanos::SECOND, columns: 1, parts: false }),
            tape: Tape::default(),
            zoom: 0,
            of,
            ticks: 0,
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

    /// What is subscribed to; nothing of a recording.
    pub fn wanted(&self) -> Option<Wanted> {
        (self.origin != Origin::Recording).then(|| self.of.clone())
    }

    /// The nodes that are shown: those of now, or of a moment of the past.
    pub fn shown(&self) -> &World {
        self.past.as_ref().map_or(&self.world, |past| &past.world)
    }

    /// The node that fills the screen.
    pub fn node(&self) -> Option<&Node> {
        self.shown().node(self.focus.as_deref()?)
    }

    /// The moment that is shown.
    pub fn moment(&self) -> Option<Nanos> {
        match &self.past {
            Some(past) => Some(past.at),
            None => self.node().map_or_else(|| self.world.time(), Node::time),
        }
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

    /// A second has passed; true if that changes the picture.
    pub fn tick(&mut self, now: Nanos) -> bool {
        self.now = now;
        self.ticks += 1;
        if self.focus.is_none() {
            note_odd(&mut self.world);
        }
        let is_old = self.notice.as_ref().is_some_and(|(_, said)| self.ticks - said > NOTICE_TICKS);
        if is_old {
            self.notice = None;
        }
        is_old
    }

    /// Takes a piece of what is subscribed to; true if that changes the picture.
    pub fn take(&mut self, feed: usize, piece: &Piece) -> bool {
        self.tape.take(feed, piece);
        self.world.take(feed, piece);
        match piece {
            Piece::Columns { .. } => {
                // The rate that was granted sets the width of the columns of the charts.
                let step = self.keep(None).step;
                if feed == 0 && self.focus.is_some() && self.live_step() != Some(step) {
                    self.draw_live_again();
                }
                false
            }
            Piece::Rows { .. } => {
                self.is_away = false;
                self.past.is_none()
            }
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
                let seconds = span.as_secs();
                self.say(match is_silent {
                    true => format!("{server} has not been heard for {seconds} s"),
                    false => format!("{server} is back"),
                });
                true
            }
            Piece::Gone { text, .. } => {
                self.is_away = true;
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

    fn live_step(&self) -> Option<Nanos> {
        self.world.nodes().next().map(|(_, node)| node.step())
    }

    /// The server says what state a node has.
    pub fn state(&mut self, node: &str, state: &str, since: Option<Nanos>) {
        self.world.state(node, state, since);
    }

    /// These are all nodes that there are: others were forgotten, unless they are up and a row has come just now.
    pub fn leave_out_all_but(&mut self, known: &HashSet<&str>) {
        let just_now = self.world.time().unwrap_or_default().since(MINUTE);
        let is_new = |node: &Node| !node.is_away() && node.time().is_some_and(|time| time > just_now);
        self.world.retain(|name, node| known.contains(name) || is_new(node));
    }

    /// Rows cannot come at this rate: they are asked for at the next lower one. False where there is none.
    pub fn refuse(&mut self, problem: &str) -> bool {
        if self.rate <= 1 {
            return false;
        }
        let refused = self.rate;
        self.rate /= 10;
        self.of.rate = self.rate;
        self.begin_live();
        self.say(format!("now {} Hz: {refused} Hz is refused: {problem}", self.rate));
        true
    }

    /// Begins what is live from nothing.
    fn begin_live(&mut self) {
        self.world = World::new(self.keep(None));
        self.tape = Tape::default();
    }

    /// The same rows with columns of another width.
    fn draw_live_again(&mut self) {
        let states: Vec<(String, String, Option<Nanos>)> = self
            .world
            .nodes()
            .filter_map(|(name, node)| Some((name.to_owned(), node.state.clone()?, node.since)))
            .collect();
        let columns = self.tape.present();
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
    }

    /// Shows one node, or the list.
    fn focus_on(&mut self, node: Option<String>) {
        let at = self.past.as_ref().map(|past| past.at);
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
            self.ask(at);
        }
    }
}
