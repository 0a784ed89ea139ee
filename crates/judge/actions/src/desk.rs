//! Which alerts are in hand. Each firing of an alert goes to each of its actions once, and once more after a restart if a retry is
//! due. State without I/O; time is an argument.

use std::collections::{HashMap, HashSet};

use khz_notify::Alert;

use crate::limits::KEYS_MAX;
use crate::named::{ANNOTATION, names};
use crate::record::{Again, Event, Key, Line};

/// An alert that no pass has listed for this long is forgotten (ms), since every rule is evaluated at least once a day.
const MENTIONED_AGE_MAX: i64 = 2 * 86_400_000;
/// Names of actions that do not exist; khz logs each once.
const UNKNOWN_MAX: usize = 256;

/// The alerts in hand.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    keys: HashMap<Key, InHand>,
    unknown: HashSet<String>,
}

/// How an alert is in hand.
#[derive(Clone, Copy, Debug)]
struct InHand {
    /// When a pass last listed it (ms since 1970).
    mentioned: i64,
    /// It failed, and a retry is due.
    again: Option<Again>,
    /// No queue holds it: it was in hand before a restart, or found no room.
    is_left: bool,
}

/// An action to run for an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Its number.
    pub action: usize,
    /// The action has run and failed before; `None`: this is the first attempt.
    pub again: Option<Again>,
}

/// The new requests of an alert.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Actions in the order in which they run.
    pub turns: Vec<Turn>,
    /// Unknown action names, asked for for the first time.
    pub unknown: Vec<String>,
    /// Actions that are dropped, since too many are in hand.
    pub dropped: Vec<usize>,
    /// Actions that wait for a retry, but whose alert is over.
    pub over: Vec<usize>,
}

impl Desk {
    /// Restores an entry that was in hand before a restart, or at another hub. Returns true if it is new and there is room.
    pub fn restore(&mut self, key: Key, now: i64) -> bool {
        if let Some(known) = self.keys.get_mut(&key) {
            known.mentioned = now;
            return false;
        }
        let has_room = self.keys.len() < KEYS_MAX;
        if has_room {
            self.keys.insert(key, InHand { mentioned: now, again: None, is_left: true });
        }
        has_room
    }

    /// It failed, and a retry is due; `None`: it is only in hand.
    pub fn note(&mut self, key: &Key, again: Option<Again>) {
        if let Some(known) = self.keys.get_mut(key) {
            known.again = again;
        }
    }

    /// Takes an alert in hand. A resolved alert is released. If a retry was due, its action learns of the end.
    pub fn take(&mut self, alert: &Alert, position: impl Fn(&str) -> Option<usize>, now: i64) -> Asked {
        let mut asked = Asked::default();
        let Some(text) = alert.annotations.get(ANNOTATION) else { return asked };
        for name in names(text) {
            let (key, at) = (Key::new(name, alert), position(name));
            if !alert.is_firing() {
                let failed = self.keys.remove(&key).filter(|known| known.again.is_some());
                match failed.zip(at) {
                    Some((known, action)) if known.is_left => {
                        asked.turns.push(Turn { action, again: known.again });
                    }
                    Some((_, action)) => asked.over.push(action),
                    None => {}
                }
                continue;
            }
            let Some(action) = at else {
                if self.unknown.len() < UNKNOWN_MAX && self.unknown.insert(name.to_owned()) {
                    asked.unknown.push(name.to_owned());
                }
                continue;
            };
            if let Some(known) = self.keys.get_mut(&key) {
                known.mentioned = now;
                if std::mem::take(&mut known.is_left) && known.again.is_some() {
                    asked.turns.push(Turn { action, again: known.again });
                }
                continue;
            }
            match self.has_room(now) {
                true => {
                    self.keys.insert(key, InHand { mentioned: now, again: None, is_left: false });
                    asked.turns.push(Turn { action, again: None });
                }
                false => asked.dropped.push(action),
            }
        }
        asked
    }

    /// Whether there is room for one more. If there are too many, forgets those that no pass has listed for long.
    fn has_room(&mut self, now: i64) -> bool {
        if self.keys.len() >= KEYS_MAX {
            self.keys.retain(|_, known| known.mentioned.abs_diff(now) < MENTIONED_AGE_MAX.unsigned_abs());
        }
        self.keys.len() < KEYS_MAX
    }

    /// It found no room, so the next pass may ask again.
    pub fn give_back(&mut self, key: &Key) {
        match self.keys.get_mut(key) {
            Some(known) if known.again.is_some() => known.is_left = true,
            _ => _ = self.keys.remove(key),
        }
    }

    /// Whether the alert still fires, as far as known.
    pub fn is_firing(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    /// All entries in hand, as lines for the start of a new log file.
    pub fn kept(&self, at: i64) -> Vec<Line> {
        let line = |(key, known): (&Key, &InHand)| {
            let event = Event::Kept { key: key.clone(), again: known.again };
            Line { at, run: 0, event }
        };
        self.keys.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(name: &str, starts_at: i64, actions: &str) -> Alert {
        Alert {
            labels: [("alertname".to_owned(), name.to_owned())].into(),
            annotations: [(ANNOTATION.to_owned(), actions.to_owned())].into(),
            starts_at,
            ..Alert::default()
        }
    }

    fn position(name: &str) -> Option<usize> {
        ["drain", "look"].iter().position(|known| *known == name)
    }

    fn turns(actions: &[usize]) -> Vec<Turn> {
        actions.iter().map(|&action| Turn { action, again: None }).collect()
    }

    #[test]
    fn what_is_to_be_tried_again_after_a_restart_is_handed_out_once_and_before_what_waited_for_it() {
        let first = alert("A", 1, "look,drain");
        let again = Again { run: 7, attempts: 2, at: 50 };
        let key = Key::new("look", &first);
        let desk = || {
            let mut desk = Desk::default();
            desk.restore(key.clone(), 0);
            desk.note(&key, Some(again));
            desk
        };
        let look = Turn { action: 1, again: Some(again) };
        let mut one = desk();
        assert_eq!(one.take(&first, position, 5).turns, [look, Turn { action: 0, again: None }]);
        assert_eq!(one.take(&first, position, 5), Asked::default(), "it waits");
        // It found no room.
        one.give_back(&key);
        assert_eq!(one.take(&first, position, 5).turns, [look]);
        // The alert is over: its action learns that, once.
        let over = Alert { ends_at: Some(9), ..first };
        let mut two = desk();
        assert_eq!(two.take(&over, position, 5).turns, [look]);
        assert!(!two.is_firing(&key));
        assert_eq!(two.take(&over, position, 5), Asked::default());
        assert_eq!(one.take(&over, position, 5), Asked { over: vec![1], ..Asked::default() });
    }

    #[test]
    fn each_firing_is_taken_once_whatever_is_asked_again() {
        let mut desk = Desk::default();
        let mut take = |alert: &Alert| desk.take(alert, position, 5);
        let first = alert("A", 1, "look,drain,nothing");
        let asked = take(&first);
        assert_eq!((asked.turns, asked.unknown), (turns(&[1, 0]), vec!["nothing".to_owned()]));
        assert_eq!(take(&first), Asked::default(), "neither the actions nor the complaint come again");
        assert_eq!(take(&alert("B", 1, "drain")).turns, turns(&[0]), "another alert");
        let over = Alert { ends_at: Some(9), ..first.clone() };
        assert_eq!(take(&over), Asked::default());
        assert_eq!(take(&alert("A", 10, "drain")).turns, turns(&[0]), "it fires again");
        assert_eq!(take(&alert("C", 1, "")), Asked::default());
    }

    #[test]
    fn what_fires_is_not_forgotten_when_there_are_too_many_and_the_others_come_later() {
        let mut desk = Desk::default();
        let name = |number: usize| format!("A{number}");
        for number in 0..KEYS_MAX {
            assert_eq!(desk.take(&alert(&name(number), 1, "drain"), position, 0).turns, turns(&[0]));
        }
        let more = alert("more", 1, "drain");
        let asked = desk.take(&more, position, 1);
        assert_eq!((asked.turns, asked.dropped), (vec![], vec![0]));
        assert!(desk.take(&alert(&name(7), 1, "drain"), position, 1).turns.is_empty(), "it is still in hand");
        let over = Alert { ends_at: Some(2), ..alert(&name(7), 1, "drain") };
        desk.take(&over, position, 2);
        assert_eq!(desk.take(&more, position, 3).turns, turns(&[0]));
    }
}
