//! The loop: keys, signals, rows and answers change the state. The picture is drawn again after a change, at most ten times a
//! second.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use khz_ask::Piece;
use khz_model::Nanos;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    self, Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent,
    MouseEventKind,
};
use ratatui::layout::Rect;
use rustix::process::Signal;
use unicode_width::UnicodeWidthStr;

use super::app::{App, NO_NODES, Origin, Question, Then, Wanted};
use super::draw::{body, draw};
use super::feed::{Feeds, start};
use super::keys::{Action, action, control};
use super::list_screen::{Clicked, clicked};
use super::past::{self, Source};
use super::stderr::Caught;
use super::tape::Tape;
use super::terminal::Screen;
use crate::command::recording::damaged;
use crate::role::signals::{TerminalSignal, on_terminal_signals};
use crate::show::outcome::{Done, Failure, Outcome};

/// Pictures of a node a second, at most ten.
const NODE_PERIOD: Duration = Duration::from_millis(100);
/// A list changes once a second; its rows come in several parts.
const LIST_PERIOD: Duration = Duration::from_millis(250);
/// After a key the picture comes sooner. A resize counts as a key, so a storm of resizes is drawn at this pace.
const KEY_PERIOD: Duration = Duration::from_millis(30);
/// Clocks and old notices.
const TICK: Duration = Duration::from_secs(1);
/// Events that wait for the loop. A thread with further events waits.
const EVENTS_MAX: usize = 1_024;
/// Events that are taken before the next picture.
const TAKEN_MAX: usize = 4_096;
/// How long `--once` waits for all numbers of a picture.
const ONCE_WAIT: Duration = Duration::from_secs(10);
/// Rates of counters need two rows. By then, the rest of the picture is there, too.
const ONCE_ROWS: Nanos = Nanos::from_millis(1_500);

/// What the loop waits for.
pub enum Event {
    /// A key, a click, another size.
    Input(Input),
    /// The terminal is gone.
    InputEnded,
    /// A signal.
    Signal(TerminalSignal),
    /// A piece of a subscription.
    Piece {
        /// Which subscriptions it is of.
        generation: u64,
        /// Which of them.
        feed: usize,
        /// The piece.
        piece: Piece,
        /// It is from before the subscription.
        is_old: bool,
    },
    /// A subscription has ended, or could not begin.
    Ended {
        /// Which subscriptions it is of.
        generation: u64,
        /// Which of them.
        feed: usize,
        /// Why.
        text: String,
        /// It is refused: it is not tried again.
        is_refusal: bool,
    },
    /// The states of nodes, and since when each is in it.
    States {
        /// Which subscriptions it is of.
        generation: u64,
        /// Node, state, since when.
        states: Vec<(String, String, Option<Nanos>)>,
        /// The time by the clock of the khz that says so, if known.
        time: Option<Nanos>,
    },
    /// The rows from before a subscription have come, or there are none.
    Filled {
        /// Which subscriptions they are of.
        generation: u64,
    },
    /// Rows of the past, or why there are none.
    Answer(Question, Box<Result<Tape, String>>),
    /// A sentence that was written on stderr.
    Said(String),
}

/// What the program begins with.
pub struct Begin {
    /// The state.
    pub app: App,
    /// The nodes of the list, as a hostlist; `None`: all.
    pub hosts: Option<String>,
    /// Whom to ask.
    pub source: Source,
    /// Parts of the recording are damaged.
    pub is_damaged: bool,
}

/// The running program.
pub struct Run {
    app: App,
    hosts: Option<String>,
    source: Source,
    is_damaged: bool,
    events: SyncSender<Event>,
    incoming: Receiver<Event>,
    feeds: Option<(Wanted, Feeds)>,
    generation: u64,
    /// The question that a thread asks.
    asked: Option<Question>,
    /// It was to begin with a moment of the past.
    begins_back: bool,
}

impl Run {
    /// Begins at the present, or at this moment.
    pub fn new(begin: Begin, rate: u16, at: Option<Nanos>) -> Result<Self, Failure> {
        let Begin { mut app, hosts, source, is_damaged } = begin;
        let (events, incoming) = sync_channel(EVENTS_MAX);
        app.begin_at_rate(rate);
        let first = match &source {
            // The first rows have no rates yet.
            Source::Recording(recorded) => {
                let span = recorded.span();
                Some(Nanos(span.first.0 + ONCE_ROWS.0).min(span.last))
            }
            Source::Server { .. } => None,
        };
        if let Some(at) = at.or(first) {
            app.go_to(at);
        }
        let (feeds, generation, asked, begins_back) = (None, 0, None, at.is_some());
        Ok(Run { app, hosts, source, is_damaged, events, incoming, feeds, generation, asked, begins_back })
    }

    /// Shows it until somebody ends it.
    pub fn fill_terminal(mut self) -> Outcome {
        let events = self.events.clone();
        on_terminal_signals(move |signal| _ = events.send(Event::Signal(signal)))?;
        let events = self.events.clone();
        // The catcher never waits for room, since the loop itself may be writing the sentence.
        let caught = Caught::new(move |text| _ = events.try_send(Event::Said(text)))?;
        let mut screen = Screen::open()?;
        let events = self.events.clone();
        start("keys", move || pass_keys(&events, || event::read().ok()))?;
        let ended = self.follow(&mut screen);
        drop(screen);
        drop(caught);
        ended?;
        self.end()
    }

    /// How the program ends if nothing fails.
    fn end(&self) -> Outcome {
        if self.is_damaged { Err(damaged()) } else { Ok(Done::Wholly) }
    }

    fn follow(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        let (mut drawn, mut ticked) = (Instant::now(), Instant::now());
        let mut due: Option<Instant> = Some(drawn);
        loop {
            self.keep_up()?;
            let now = Instant::now();
            if due.is_some_and(|due| due <= now) {
                let size = screen.size();
                self.app.page = size.height.saturating_sub(4).max(1);
                screen.draw(&self.app)?;
                (drawn, due) = (Instant::now(), None);
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                if self.app.tick(crate::command::past::now()) {
                    due.get_or_insert(drawn + NODE_PERIOD);
                }
            }
            let wake = due.map_or(ticked + TICK, |due| due.min(ticked + TICK));
            let mut next = match self.incoming.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut taken = 0;
            while let Some(event) = next.take() {
                let (then, period) = self.take(event, screen)?;
                match then {
                    Then::Quit => return Ok(()),
                    Then::Suspend => self.suspend(screen)?,
                    Then::Redraw => screen.take_again()?,
                    Then::Go => {}
                }
                if let Some(period) = period {
                    let at = drawn + period;
                    due = Some(due.map_or(at, |due| due.min(at)));
                }
                taken += 1;
                next = if taken < TAKEN_MAX { self.incoming.try_recv().ok() } else { None };
            }
        }
    }

    /// Gives the terminal back and stops, as every stopped program does. Continues after `fg`.
    fn suspend(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        screen.give_back();
        // As the terminal does, stop the whole process group: a waiting parent, and the other programs of a pipe.
        let stopped = rustix::process::kill_current_process_group(Signal::STOP);
        stopped.map_err(|error| Failure::work(format!("cannot stop: {error}")))?;
        screen.take_again()?;
        Ok(())
    }

    /// Starts the wanted subscriptions and question, and ends others.
    fn keep_up(&mut self) -> Result<(), Failure> {
        let wanted = self.app.wanted();
        if self.feeds.as_ref().map(|(running, _)| running) != wanted.as_ref() {
            self.generation += 1;
            self.feeds = None;
            if let Some(wanted) = wanted {
                let feeds = Feeds::begin(
                    &self.source,
                    &wanted,
                    self.hosts.as_deref(),
                    self.generation,
                    &self.events,
                )?;
                self.feeds = Some((wanted, feeds));
            }
        }
        if self.asked != self.app.question {
            self.asked = self.app.question.clone();
            if let Some(question) = self.asked.clone() {
                let (source, hosts, events) = (self.source.clone(), self.hosts.clone(), self.events.clone());
                start("past", move || {
                    let answer = past::ask(&source, hosts.as_deref(), &question);
                    let _ = events.send(Event::Answer(question, Box::new(answer)));
                })?;
            }
        }
        Ok(())
    }

    /// Takes an event. Returns the next action, and when the next picture is due after the last one.
    fn take(&mut self, event: Event, screen: &Screen) -> Result<(Then, Option<Duration>), Failure> {
        let rows = if self.app.focus.is_some() { NODE_PERIOD } else { LIST_PERIOD };
        Ok(match event {
            Event::Input(input) => (self.input(input, screen), Some(KEY_PERIOD)),
            Event::InputEnded | Event::Signal(TerminalSignal::End) => (Then::Quit, None),
            Event::Signal(TerminalSignal::Stop) => (Then::Suspend, Some(KEY_PERIOD)),
            Event::Signal(TerminalSignal::Continue) => (Then::Redraw, Some(KEY_PERIOD)),
            other => (Then::Go, self.take_rows(other).then_some(rows)),
        })
    }

    /// Takes what does not come from the terminal; true if the picture changes.
    fn take_rows(&mut self, event: Event) -> bool {
        match event {
            Event::Piece { generation, .. }
            | Event::Ended { generation, .. }
            | Event::States { generation, .. }
            | Event::Filled { generation }
                if generation != self.generation =>
            {
                false
            }
            Event::Piece { feed, piece, is_old: true, .. } => self.app.take_old(feed, &piece),
            Event::Piece { feed, piece, .. } => self.app.take(feed, &piece),
            Event::Ended { text, is_refusal: true, feed: 0, .. } => {
                if !self.app.refuse(&text) {
                    self.app.say(text);
                }
                true
            }
            Event::Ended { text, .. } => {
                self.app.ended(text);
                true
            }
            Event::States { states, time, .. } => {
                self.app.clock_of_server(time);
                self.app.knows_nodes(!states.is_empty());
                self.app.leave_out_all_but(&states.iter().map(|(node, ..)| node.as_str()).collect());
                for (node, state, since) in states {
                    self.app.state(&node, &state, since);
                }
                true
            }
            Event::Answer(question, answer) => {
                self.app.answer(&question, *answer);
                true
            }
            Event::Said(text) => {
                self.app.say(text);
                true
            }
            Event::Filled { .. } => {
                self.app.filled();
                self.app.past.is_none()
            }
            Event::Input(_) | Event::InputEnded | Event::Signal(_) => false,
        }
    }

    fn input(&mut self, input: Input, screen: &Screen) -> Then {
        match input {
            Input::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Input::Mouse(mouse) => self.mouse(mouse, screen),
            Input::Paste(text) => {
                self.app.pasted(&text);
                Then::Go
            }
            _ => Then::Go,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Then {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            let KeyCode::Char(letter) = key.code else { return Then::Go };
            return control(letter).map_or(Then::Go, |action| self.app.act(action));
        }
        if self.app.prompt.is_some() {
            self.type_key(key.code);
            return Then::Go;
        }
        action(key.code).map_or(Then::Go, |action| self.app.act(action))
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) => self.app.typed(c),
            KeyCode::Backspace => self.app.erased(),
            KeyCode::Esc => self.app.prompt = None,
            KeyCode::Enter => {
                if let Some(text) = self.app.entered() {
                    match crate::command::past::moment("at", &text) {
                        Ok(at) => self.app.go_to(at),
                        Err(failure) => {
                            let sentence = failure.to_string();
                            self.app.say(sentence.strip_prefix("--at: ").unwrap_or(&sentence));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn mouse(&mut self, mouse: MouseEvent, screen: &Screen) -> Then {
        match mouse.kind {
            MouseEventKind::ScrollUp => self.app.act(Action::Move(-1)),
            MouseEventKind::ScrollDown => self.app.act(Action::Move(1)),
            MouseEventKind::Down(MouseButton::Left)
                if self.app.focus.is_none() && !self.app.waterfall && !self.app.help =>
            {
                let size = screen.size();
                let area = body(Rect::new(0, 0, size.width, size.height));
                match clicked(&self.app, area, mouse.column, mouse.row) {
                    Some(Clicked::Line(line)) => self.app.click(line),
                    Some(Clicked::Heading(column)) => self.app.sort_by(column),
                    None => {}
                }
                Then::Go
            }
            _ => Then::Go,
        }
    }

    /// Prints one picture, once it has all numbers, or when nothing more is expected.
    pub fn print_once(mut self, (width, height): (u16, u16), out: &mut impl Write) -> Outcome {
        let end = Instant::now() + ONCE_WAIT;
        let mut problem = None;
        let mut first: Option<Nanos> = None;
        // Without a khz there are no rows from before.
        let mut is_filled = self.app.origin == Origin::Kernel;
        if self.begins_back && self.app.past.is_none() && self.app.question.is_none() {
            // Nobody can be asked for it.
            return Err(Failure::work(self.app.notice.take().map(|(text, _)| text).unwrap_or_default()));
        }
        while Instant::now() < end {
            self.keep_up()?;
            let left = end.saturating_duration_since(Instant::now()).min(TICK);
            let Ok(event) = self.incoming.recv_timeout(left) else { continue };
            if let Event::Ended { text, is_refusal, .. } = &event {
                problem = Some(text.clone());
                if *is_refusal && self.app.rate <= 1 {
                    break;
                }
            }
            let is_answer = matches!(event, Event::Answer(..));
            is_filled |= matches!(event, Event::Filled { generation } if generation == self.generation);
            self.take_rows(event);
            if is_answer && self.app.past.is_none() {
                let notice = self.app.notice.take().map(|(text, _)| text);
                return Err(Failure::work(notice.unwrap_or_default()));
            }
            if is_answer {
                break;
            }
            let moment = self.app.moment().filter(|_| is_filled);
            first = first.or(moment);
            let is_long = first.zip(moment).is_some_and(|(first, now)| now.since(first) >= ONCE_ROWS);
            if is_long && self.app.question.is_none() && self.app.past.is_none() {
                break;
            }
        }
        self.app.tick(crate::command::past::now());
        if self.app.moment().is_none() {
            let notice = self.app.notice.take().map(|(text, _)| text);
            let problem = self.app.has_no_nodes().then(|| NO_NODES.to_owned()).or(problem);
            return Err(Failure::work(problem.or(notice).unwrap_or_else(|| "no row came".to_owned())));
        }
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        draw(&self.app, &mut buffer, area);
        for y in 0..height {
            let line = line_of(&buffer, y);
            writeln!(out, "{}", line.trim_end())?;
        }
        out.flush()?;
        self.end()
    }
}

/// A line of a picture as text. A wide character has the cell after it, too.
fn line_of(buffer: &Buffer, y: u16) -> String {
    let (mut line, mut x) = (String::new(), 0);
    while x < buffer.area.width {
        let symbol = buffer[(x, y)].symbol();
        line.push_str(symbol);
        x += u16::try_from(symbol.width()).unwrap_or(1).max(1);
    }
    line
}

/// Passes what comes from the terminal on, until nothing more comes. If the reader of keys panics, the input has ended, too: nobody could
/// end the program by a key.
fn pass_keys(events: &SyncSender<Event>, mut next: impl FnMut() -> Option<Input>) {
    struct LastWord<'a>(&'a SyncSender<Event>);
    impl Drop for LastWord<'_> {
        fn drop(&mut self) {
            // If the loop has ended, it needs no word.
            let _ = self.0.send(Event::InputEnded);
        }
    }
    let _last_word = LastWord(events);
    while let Some(input) = next() {
        if events.send(Event::Input(input)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn a_line_as_text_has_wide_characters_without_blanks_between_them() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "日本語 e\u{301}x", Style::new());
        assert_eq!(line_of(&buffer, 0).trim_end(), "日本語 e\u{301}x");
    }

    #[test]
    fn the_input_ends_also_if_its_reader_panics() {
        for does_panic in [false, true] {
            let (events, incoming) = sync_channel(8);
            let mut inputs = vec![Input::FocusLost, Input::FocusGained];
            let next = move || match inputs.pop() {
                None if does_panic => panic!("a reader of keys that fails"),
                input => input,
            };
            let passed = std::thread::spawn(move || pass_keys(&events, next)).join();
            assert_eq!(passed.is_err(), does_panic);
            let ends = incoming.iter().map(|event| matches!(event, Event::InputEnded));
            assert_eq!(ends.collect::<Vec<_>>(), [false, false, true]);
        }
    }
}
