//! A list of events within a time: it keeps the newest ones and counts the others.

use std::collections::VecDeque;

use crate::events::{Event, Events};
use crate::limits::EVENTS_MAX;

/// The newest events so far.
#[derive(Debug)]
pub(super) struct List {
    span: (i64, i64),
    events: VecDeque<Event>,
    left_out: u64,
    damage: Vec<String>,
}

impl List {
    /// A list for the events between two times (ms).
    pub fn new(span: (i64, i64)) -> Self {
        List { span, events: VecDeque::new(), left_out: 0, damage: Vec::new() }
    }

    /// Adds an event, unless it is outside of the time.
    pub fn push(&mut self, event: Event) {
        let (from, to) = self.span;
        if event.begin > to || event.end.is_some_and(|end| end < from) {
            return;
        }
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
            self.left_out += 1;
        }
        self.events.push_back(event);
    }

    /// Counts a series whose events are not listed.
    pub fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Notes what could not be read, each once.
    pub fn damage(&mut self, damage: Vec<String>) {
        for sentence in damage {
            if !self.damage.contains(&sentence) {
                self.damage.push(sentence);
            }
        }
    }

    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    pub fn retain(&mut self, is_kept: impl FnMut(&Event) -> bool) {
        self.events.retain(is_kept);
    }

    /// Both lists as one.
    pub fn with(mut self, other: List) -> Self {
        self.events.extend(other.events);
        self.left_out += other.left_out;
        self.damage(other.damage);
        self
    }

    /// The newest events of all, by their beginnings.
    pub fn done(self) -> Events {
        let List { events, mut left_out, damage, .. } = self;
        let mut events = Vec::from(events);
        events.sort_by_key(|event| event.begin);
        let beyond = events.len().saturating_sub(EVENTS_MAX);
        events.drain(..beyond);
        left_out += beyond as u64;
        Events { events, left_out, damage }
    }
}
