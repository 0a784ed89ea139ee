//! What is shown, and what each key changes about it. It reads no clock, asks nobody and draws nothing: the loop of `run.rs` compares
//! what it wants with what is running, and gives it what comes.

use khz_ask::Piece;
use khz_model::fold::fold;
use khz_model::{Nanos, Rate};

use super::keys::Action;
use super::list::{List, note_odd};
use super::look::Look;
use super::node::{Keep, Node};
use super::processes::Processes;
use super::prompt::{Kind, Prompt};
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

    /// A click on a line of the list chooses it; one on the chosen line opens it.
    pub fn click(&mut self, line: usize) {
        let lines = self.list.lines(self.shown());
        if self.list.place(&lines) == line {
            self.open();
        } else {
            self.list.choose_line(line);
        }
    }

    /// A click on the heading of a column sorts by it, or turns the order.
    pub fn sort_by(&mut self, column: usize) {
        if self.list.sorted == column {
            self.list.reverse = !self.list.reverse;
        } else {
            (self.list.sorted, self.list.reverse) = (column, false);
        }
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

    /// Rows of the past have come.
    pub fn answer(&mut self, question: &Question, answer: Result<Tape, String>) {
        if self.question.as_ref() != Some(question) {
            return;
        }
        self.question = None;
        match answer {
            Err(problem) => self.say(problem),
            Ok(tape) => {
                let just_after = Nanos(question.at.0.saturating_add(1));
                match tape.before(just_after).or_else(|| tape.after(question.at)) {
                    None => self.say("nothing is known of that time"),
                    Some(at) => self.show_past(at, Some(tape)),
                }
            }
        }
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

    fn show_past(&mut self, at: Nanos, tape: Option<Tape>) {
        let tape = tape.or_else(|| self.past.take().and_then(|past| past.tape));
        let rows = tape.as_ref().unwrap_or(&self.tape);
        let keep = self.keep(Some(rows));
        let span = Nanos(keep.step.0.saturating_mul(keep.columns as u64));
        let mut world = rows.picture(at, span, keep);
        // Who was down then is not known; who is expected is.
        for (name, node) in self.world.nodes() {
            if self.focus.is_none() && world.node(name).is_none() {
                world.state(name, node.state.as_deref().unwrap_or("down"), None);
            }
        }
        self.past = Some(Past { at, world, tape });
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

    /// Shows a moment of the past, out of the rows that were seen, or else of those that are asked for.
    pub fn go_to(&mut self, at: Nanos) {
        let covers = |tape: &Tape| tape.span().is_some_and(|(first, last)| first <= at && at <= last);
        let loaded = self.past.as_ref().and_then(|past| past.tape.as_ref());
        if loaded.is_some_and(covers) {
            self.show_past(at, None);
        } else if loaded.is_none() && covers(&self.tape) {
            self.show_past(self.tape.before(Nanos(at.0 + 1)).unwrap_or(at), None);
        } else {
            self.ask(at);
        }
    }

    fn ask(&mut self, at: Nanos) {
        if self.origin == Origin::Kernel {
            let newest = self.tape.span();
            return match newest.filter(|(first, _)| at < *first) {
                Some((first, _)) => self.show_past(first, None),
                None => self.say("nobody has kept that time: run khz, and leave out --direct"),
            };
        }
        let (before, after) =
            if self.focus.is_some() { (NODE_BEFORE, NODE_AFTER) } else { (LIST_BEFORE, LIST_AFTER) };
        let from = Nanos(at.0.saturating_sub(before.0));
        self.question =
            Some(Question { node: self.focus.clone(), from, to: Nanos(at.0.saturating_add(after.0)), at });
    }

    fn step(&mut self, direction: i8) {
        if self.question.is_some() {
            return;
        }
        let Some(at) = self.moment() else { return };
        let rows = self.past.as_ref().and_then(|past| past.tape.as_ref()).unwrap_or(&self.tape);
        let next = if direction < 0 { rows.before(at) } else { rows.after(at) };
        match (next, direction < 0) {
            (Some(next), _) if self.past.is_some() || direction < 0 => self.show_past(next, None),
            (_, true) => self.ask(Nanos(at.0.saturating_sub(1))),
            (_, false) if self.past.as_ref().is_some_and(|past| past.tape.is_some()) => {
                self.ask(Nanos(at.0.saturating_add(NODE_AFTER.0 / 12)));
            }
            (_, false) => self.live(),
        }
    }

    /// Follows the present; a recording has none.
    fn live(&mut self) {
        if self.origin == Origin::Recording {
            return self.say("this is the end of the recording");
        }
        self.past = None;
        self.question = None;
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

    /// Does what a key says.
    pub fn act(&mut self, action: Action) -> Then {
        if self.help && !matches!(action, Action::Quit | Action::Redraw | Action::Suspend) {
            self.help = false;
            return Then::Go;
        }
        match action {
            Action::Quit => return Then::Quit,
            Action::Suspend => return Then::Suspend,
            Action::Redraw => return Then::Redraw,
            Action::Help => self.help = true,
            Action::Back => self.back(),
            Action::Open => self.open(),
            Action::Search => self.prompt = Some(Prompt::new(Kind::Search)),
            Action::Time => self.prompt = Some(Prompt::new(Kind::Time)),
            Action::Rate(rate) => self.set_rate(rate),
            Action::Step(direction) => self.step(direction),
            Action::Minute(direction) => self.minute(direction),
            Action::Pause if self.past.is_some() => self.live(),
            Action::Pause => {
                if let Some(at) = self.moment() {
                    self.show_past(at, None);
                }
            }
            Action::Live => self.live(),
            Action::Move(by) => self.choose(isize::from(by)),
            Action::Page(by) => self.choose(isize::from(by) * self.page.max(1) as isize),
            Action::End(by) => self.choose(isize::from(by) * isize::MAX / 2),
            Action::Waterfall => self.waterfall = !self.waterfall,
            Action::Tiles => self.list.tiles = !self.list.tiles,
            Action::Sort(by) if self.focus.is_none() => self.list.sort(by),
            Action::Sort(by) => self.processes.sort(by),
            Action::Reverse if self.focus.is_none() => self.list.reverse = !self.list.reverse,
            Action::Reverse => self.processes.reverse = !self.processes.reverse,
            Action::OnlyOdd => self.list.only_odd = !self.list.only_odd,
            Action::Zoom(by) => self.set_zoom(by),
        }
        Then::Go
    }

    fn back(&mut self) {
        let searches = match self.focus {
            Some(_) => &mut self.processes.search,
            None => &mut self.list.search,
        };
        if !searches.is_empty() {
            searches.clear();
        } else if self.waterfall {
            self.waterfall = false;
        } else if self.past.is_some() && self.origin != Origin::Recording {
            self.live();
        } else if self.focus.is_some() && self.has_list {
            self.focus_on(None);
        }
    }

    fn open(&mut self) {
        if self.focus.is_none()
            && let Some(node) = self.list.chosen(self.shown())
        {
            self.waterfall = false;
            self.focus_on(Some(node));
        }
    }

    fn set_rate(&mut self, rate: u16) {
        if self.focus.is_none() {
            return self.say("a list comes once a second; open a node to see more");
        }
        if self.origin == Origin::Recording {
            return self.say("a recording has the rate at which it was made");
        }
        self.rate = rate;
        self.of.rate = rate;
        self.past = None;
        self.begin_live();
    }

    fn minute(&mut self, direction: i8) {
        let Some(at) = self.moment() else { return };
        match direction < 0 {
            true => self.go_to(Nanos(at.0.saturating_sub(MINUTE.0))),
            false if self.past.is_none() => {}
            false
                if self.now > Nanos(0)
                    && at.0 + MINUTE.0 >= self.now.0
                    && self.origin != Origin::Recording =>
            {
                self.live();
            }
            false => self.go_to(Nanos(at.0 + MINUTE.0)),
        }
    }

    fn set_zoom(&mut self, by: i8) {
        let zoom = self.zoom.saturating_add_signed(by.into()).min(ZOOMS.len() - 1);
        if zoom == self.zoom {
            return;
        }
        self.zoom = zoom;
        self.draw_live_again();
        if let Some(at) = self.past.as_ref().map(|past| past.at) {
            self.show_past(at, None);
        }
        let step = self.keep(self.past.as_ref().and_then(|past| past.tape.as_ref())).step;
        self.say(format!("a column of a chart is {}", crate::show::quantities::of_span(step.as_secs_f64())));
    }

    fn choose(&mut self, by: isize) {
        match self.focus {
            None => {
                let count = self.list.lines(self.shown()).len();
                self.list.choose(by, count);
            }
            Some(_) => self.processes.choose(by),
        }
    }

    /// A character of a line that is typed. `Err`: the text of a time, to be read by who knows the zone.
    pub fn typed(&mut self, c: char) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.put(c);
        self.search();
    }

    /// The last character goes, or the line if there is none.
    pub fn erased(&mut self) {
        if self.prompt.as_mut().is_some_and(|prompt| !prompt.erase()) {
            self.prompt = None;
        }
        self.search();
    }

    /// A search shows at once what it finds.
    fn search(&mut self) {
        let Some(Prompt { kind: Kind::Search, text }) = &self.prompt else { return };
        let text = text.to_lowercase();
        match self.focus {
            Some(_) => self.processes.search = text,
            None => self.list.search = text,
        }
    }

    /// The line is whole; the text of a time is returned.
    pub fn entered(&mut self) -> Option<String> {
        let prompt = self.prompt.take()?;
        (prompt.kind == Kind::Time && !prompt.text.trim().is_empty()).then_some(prompt.text)
    }
}
