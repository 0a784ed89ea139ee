//! The past: which moment is shown, out of which rows, and what has to be asked for.

use khz_model::{Nanos, Presence};

use super::{App, LIST_AFTER, LIST_BEFORE, MINUTE, NODE_AFTER, NODE_BEFORE, Origin, Past, Question};
use crate::command::top::tape::Tape;
use crate::command::top::world::World;

/// A node that sent no row for this long before a moment of the past was down then. Rows of a list come once a second.
const SILENCE: Nanos = Nanos::from_secs(6);

impl App {
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

    pub(super) fn show_past(&mut self, at: Nanos, tape: Option<Tape>) {
        let tape = tape.or_else(|| self.past.take().and_then(|past| past.tape));
        let rows = tape.as_ref().unwrap_or(&self.tape);
        let keep = self.keep(Some(rows));
        let span = Nanos(keep.step.0.saturating_mul(keep.columns as u64));
        let mut world = rows.picture(at, span, keep);
        if self.focus.is_none() {
            self.find_who_was_down(&mut world, at);
        }
        self.past = Some(Past { at, world, tape });
    }

    /// Who was down at a moment shows by its rows; who is expected is known.
    fn find_who_was_down(&self, world: &mut World, at: Nanos) {
        let down = Presence::Down.as_str();
        for (_, node) in world.nodes_mut() {
            if let Some(last) = node.time().filter(|last| at.since(*last) > SILENCE) {
                (node.state, node.since) = (Some(down.to_owned()), Some(last));
            }
        }
        for (name, node) in self.world.nodes() {
            if world.node(name).is_none() {
                let known = node.state.as_deref().filter(|_| node.is_away());
                world.state(name, known.unwrap_or(down), None);
            }
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

    pub(super) fn ask(&mut self, at: Nanos) {
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

    pub(super) fn step(&mut self, direction: i8) {
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
    pub(super) fn live(&mut self) {
        if self.origin == Origin::Recording {
            return self.say("this is the end of the recording");
        }
        self.past = None;
        self.question = None;
    }

    pub(super) fn minute(&mut self, direction: i8) {
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
}
