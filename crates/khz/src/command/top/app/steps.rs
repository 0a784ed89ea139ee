//! The past: the shown moment, the rows that it is made of, and the questions for more rows.

use khz_model::{Nanos, Presence};

use super::{
    App, LIST_AFTER, LIST_BEFORE, LIST_BEFORE_MAX, LIST_READINGS, LIST_SERIES, Loaded, MINUTE, NODE_AFTER,
    NODE_BEFORE, Origin, Past, Question, Sought,
};
use crate::command::top::odd_times::OddTimes;
use crate::command::top::tape::Tape;
use crate::command::top::world::World;

/// Rows of different nodes within this time belong to one step of a list, since nodes do not gather at the same moment.
const TICK_OF_LIST: Nanos = Nanos::from_millis(500);

/// The state of a node without any row: it was down, or did not exist yet.
const NO_ROWS: &str = "no rows";

impl App {
    /// Rows of the past that were asked for, if they are shown.
    pub(super) fn loaded(&self) -> Option<&Tape> {
        Some(&self.past.as_ref()?.loaded.as_ref()?.tape)
    }

    /// Rows of the past have come.
    pub fn answer(&mut self, question: &Question, answer: Result<Tape, String>) {
        if self.question.as_ref() != Some(question) {
            return;
        }
        self.question = None;
        let is_last = std::mem::take(&mut self.asks_for_last);
        if let Ok(tape) = &answer {
            // A recording that is still being written has become longer.
            self.span = tape.recorded.or(self.span);
        }
        match (answer, question.sought) {
            (Err(problem), _) => self.say(problem),
            (Ok(tape), Sought::At(moment)) => self.show_at(moment, tape),
            (Ok(tape), Sought::UpTo(moment)) => self.show_up_to(moment, tape),
            (Ok(tape), Sought::After(moment)) => self.show_after(moment, tape),
        }
        if let (true, Some(_), Some(node)) = (is_last, &self.past, &self.focus) {
            let state = self.world.node(node).and_then(|node| node.state.clone()).unwrap_or_default();
            self.say(format!("{node} is {state}: this is its last row; l waits for the next one"));
        }
    }

    /// Shows the last row up to the moment that was asked for. A node without a row for long before that moment is shown as down.
    fn show_at(&mut self, asked: Nanos, tape: Tape) {
        let is_end = self.span.is_some_and(|span| asked > span.last);
        let asked = self.span.map_or(asked, |span| asked.min(span.last));
        let Some(row) = tape.up_to(asked) else { return self.show_up_to(asked, tape) };
        let stays = self.past.as_ref().is_some_and(|past| past.at == row);
        let is_silent = asked.since(row) > tape.silence();
        // A step of a minute moves on even if the next row is further away.
        let is_shown_then = is_silent || (stays && asked > row && !is_end);
        self.show_past(if is_shown_then { asked } else { row }, Some(tape));
        if is_end {
            self.say_end();
        }
    }

    fn say_end(&mut self) {
        let goes_on = self.span.is_some_and(|span| span.goes_on);
        self.say(if goes_on {
            "this is the end of the recording so far: it is still being written"
        } else {
            "this is the end of the recording"
        });
    }

    /// Shows the last row up to the wanted moment. If there is none, shows the first row after it, and says so.
    fn show_up_to(&mut self, asked: Nanos, tape: Tape) {
        let last = tape.up_to(asked);
        let Some(row) = last.or_else(|| self.next_row(&tape, asked)) else {
            return self.say("nothing is known of that time");
        };
        let silence = tape.silence();
        self.show_past(row, Some(tape));
        match (self.span, &self.focus) {
            _ if last.is_some() => {}
            (Some(span), Some(node)) if row.since(span.first) > silence => {
                self.say(format!("{node} has no earlier row in the recording"));
            }
            (Some(_), _) => self.say("this is the beginning of the recording"),
            (None, _) => self.say("nothing is known of the time before"),
        }
    }

    /// Shows the first row after the moment that was asked for.
    fn show_after(&mut self, asked: Nanos, tape: Tape) {
        match (self.next_row(&tape, asked), self.span, &self.focus) {
            (Some(row), ..) => self.show_past(row, Some(tape)),
            // All later rows were seen live, or are still to come.
            (None, None, _) => self.live(),
            (None, Some(span), Some(node)) if span.last.since(asked) > tape.silence() => {
                self.say(format!("{node} has no later row in the recording"));
            }
            (None, Some(_), _) => self.say_end(),
        }
    }

    pub(super) fn show_past(&mut self, at: Nanos, tape: Option<Tape>) {
        // An older notice is about another moment.
        self.notice = None;
        let is_list = self.focus.is_none();
        let new = tape.map(|tape| {
            let odd = if is_list { tape.odd_times() } else { OddTimes::default() };
            Loaded { tape, odd }
        });
        let loaded = new.or_else(|| self.past.take().and_then(|past| past.loaded));
        let (rows, odd) = match &loaded {
            Some(loaded) => (&loaded.tape, &loaded.odd),
            None => (&self.tape, &self.odd),
        };
        let keep = self.keep(Some(rows));
        let span = Nanos(keep.step.0.saturating_mul(keep.columns as u64));
        let mut world = rows.picture(at, span, keep);
        self.find_who_was_down(&mut world, rows, at);
        if is_list {
            world.nodes_mut().for_each(|(name, node)| node.odd_since = odd.since(name, at));
        }
        self.past = Some(Past { at, world, loaded });
    }

    /// The rows show which nodes were down at a moment. For a node without rows, its current state counts if it began before that
    /// moment.
    fn find_who_was_down(&self, world: &mut World, rows: &Tape, at: Nanos) {
        let silence = rows.silence();
        for (name, node) in world.nodes_mut() {
            if let Some(last) = node.time().filter(|last| at.since(*last) > silence) {
                let (state, since) = self.away_since(name, at).unwrap_or((Presence::Down.as_str(), last));
                (node.state, node.since) = (Some(state.to_owned()), Some(since));
            }
        }
        if self.focus.is_some() {
            return;
        }
        for (name, last) in rows.seen_up_to(at) {
            if world.node(name).is_some() {
                continue;
            }
            match self.away_since(name, at) {
                _ if at.since(last) <= silence => world.state(name, Presence::Up.as_str(), None),
                Some((state, since)) => world.state(name, state, Some(since)),
                None => world.state(name, Presence::Down.as_str(), Some(last)),
            }
        }
        for (name, _) in self.world.nodes() {
            if world.node(name).is_some() {
                continue;
            }
            match self.away_since(name, at) {
                Some((state, since)) => world.state(name, state, Some(since)),
                // It did not exist.
                None if rows.knows_all() => {}
                None => world.state(name, NO_ROWS, None),
            }
        }
    }

    /// The current state of a node and its start, if the node is not up and had this state already at the moment.
    fn away_since(&self, node: &str, at: Nanos) -> Option<(&str, Nanos)> {
        let node = self.world.node(node).filter(|node| node.is_away())?;
        Some((node.state.as_deref()?, node.since.filter(|since| *since <= at)?))
    }

    /// Shows a moment of the past from the rows that were seen. If these are not enough, asks for others.
    pub fn go_to(&mut self, at: Nanos) {
        // The end of a recording is shown as such.
        let is_over = self.span.is_some_and(|span| at > span.last);
        let shown_of = |rows: &Tape| {
            let row = rows.up_to(at).filter(|_| rows.covers(at) && !is_over)?;
            Some(if at.since(row) > rows.silence() { at } else { row })
        };
        if let Some(shown) = self.loaded().and_then(shown_of) {
            self.question = None;
            self.show_past(shown, None);
        } else if let Some(shown) = shown_of(&self.tape) {
            (self.question, self.past) = (None, None);
            self.show_past(shown, None);
        } else {
            self.ask(Sought::At(at));
        }
    }

    pub(super) fn ask(&mut self, sought: Sought) {
        if self.origin == Origin::Kernel {
            let at = sought.moment();
            return match self.tape.begin().filter(|begin| at < *begin) {
                Some(begin) => {
                    self.show_past(begin, None);
                    self.say("nobody has kept the time before: run khz, and leave out --direct");
                }
                None => self.say("nobody has kept that time: run khz, and leave out --direct"),
            };
        }
        let (before, after) = match self.focus {
            Some(_) => (NODE_BEFORE, NODE_AFTER),
            None => (self.list_before(), LIST_AFTER),
        };
        self.question = Some(Question { node: self.focus.clone(), sought, before, after });
    }

    /// How far back a list asks: as much as a wide waterfall shows, and less for many nodes.
    fn list_before(&self) -> Nanos {
        let nodes = self.world.nodes().count().max(1) as u64;
        Nanos::from_secs(LIST_READINGS / (nodes * LIST_SERIES)).clamp(LIST_BEFORE, LIST_BEFORE_MAX)
    }

    /// The first row after this moment; for a list, the last row of the same step.
    fn next_row(&self, rows: &Tape, moment: Nanos) -> Option<Nanos> {
        let first = rows.after(moment)?;
        match self.focus {
            Some(_) => Some(first),
            None => rows.before(Nanos(first.0.saturating_add(TICK_OF_LIST.0))),
        }
    }

    pub(super) fn step(&mut self, direction: i8) {
        if self.question.is_some() {
            return;
        }
        let Some(at) = self.moment_or_now() else { return };
        let rows = self.loaded().unwrap_or(&self.tape);
        if direction < 0 {
            let tick = if self.focus.is_some() { Nanos(0) } else { TICK_OF_LIST };
            let until = Nanos(at.0.saturating_sub(tick.0));
            // Rows of single nodes from before the list's rows are no picture of the list.
            let is_seen =
                |row: &Nanos| rows.begin().is_some_and(|begin| begin <= *row) && rows.is_whole(*row, at);
            let next = rows.before(until).filter(is_seen);
            return match next {
                Some(row) => self.show_past(row, None),
                None => self.ask(Sought::UpTo(Nanos(until.0.saturating_sub(1)))),
            };
        }
        match self.next_row(rows, at) {
            _ if self.past.is_none() => self.live(),
            Some(row) if rows.is_whole(at, row) => self.show_past(row, None),
            None if self.loaded().is_none() => self.live(),
            Some(_) | None => self.ask(Sought::After(at)),
        }
    }

    /// Follows the present, unless it is a recording.
    pub(super) fn live(&mut self) {
        if self.origin == Origin::Recording {
            return self.say("a recording has no present");
        }
        self.past = None;
        self.question = None;
        self.notice = None;
    }

    pub(super) fn minute(&mut self, direction: i8) {
        let Some(at) = self.moment_or_now() else { return };
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
}
