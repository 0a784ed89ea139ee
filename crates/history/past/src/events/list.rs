//! A list of events within a time: it keeps the newest ones of each kind and counts the others.

use std::cmp::Reverse;

use crate::events::{Event, EventKind, Events};
use crate::limits::EVENTS_MAX;

/// The events so far: at most twice as many as an answer has.
#[derive(Debug)]
pub(super) struct List {
    span: (i64, i64),
    events: Vec<Event>,
    left_out: u64,
    damage: Vec<String>,
}

impl List {
    /// A list for the events between two times (ms).
    pub fn new(span: (i64, i64)) -> Self {
        List { span, events: Vec::new(), left_out: 0, damage: Vec::new() }
    }

    /// Adds an event, unless it is outside of the time.
    pub fn push(&mut self, event: Event) {
        let (from, to) = self.span;
        if event.begin > to || event.end.is_some_and(|end| end < from) {
            return;
        }
        self.events.push(event);
        // To sort once for many events costs little for each.
        if self.events.len() >= 2 * EVENTS_MAX {
            self.shorten();
        }
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

    /// The events that are kept, by their beginnings.
    pub fn done(mut self) -> Events {
        self.shorten();
        let List { mut events, left_out, damage, .. } = self;
        events.sort_by_key(|event| event.begin);
        Events { events, left_out, damage }
    }

    /// Drops the oldest events of the kinds with many, so that a thousand alerts do not hide that the node was down.
    fn shorten(&mut self) {
        let share = share(&self.events);
        self.events.sort_by_key(|event| Reverse(event.begin));
        let before = self.events.len();
        let mut kept = [0; EventKind::COUNT];
        self.events.retain(|event| {
            let kept = &mut kept[event.kind as usize];
            *kept += 1;
            *kept <= share
        });
        self.left_out += (before - self.events.len()) as u64;
    }
}

/// How many events of one kind fit, if each kind gets as many as it has or, at most, as many as any other.
fn share(events: &[Event]) -> usize {
    let mut counts = [0; EventKind::COUNT];
    events.iter().for_each(|event| counts[event.kind as usize] += 1);
    counts.sort_unstable();
    let mut room = EVENTS_MAX;
    for (place, count) in counts.into_iter().enumerate() {
        let share = room / (EventKind::COUNT - place);
        if count > share {
            return share;
        }
        room -= count;
    }
    usize::MAX
}
