//! Which alerts are in hand: each firing of an alert is handed to each of its actions once. State without I/O; time is an argument.

use std::collections::{HashMap, HashSet};

use khz_notify::Alert;

use crate::limits::KEYS_MAX;
use crate::named::{ANNOTATION, names};
use crate::record::Key;

/// An alert of which no pass has spoken for this long is forgotten (ms): no rule is evaluated less often than once a day.
const MENTIONED_AGE_MAX: i64 = 2 * 86_400_000;
/// Names of actions that do not exist; khz logs each once.
const UNKNOWN_MAX: usize = 256;

/// The alerts in hand.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// When a pass last spoke of it (ms since 1970).
    keys: HashMap<Key, i64>,
    unknown: HashSet<String>,
}

/// What an alert asks for that was not known before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Numbers of actions, in the order in which they are to act.
    pub actions: Vec<usize>,
    /// Names that no action has, asked for the first time.
    pub unknown: Vec<String>,
    /// Actions that are not taken in hand, since there are too many.
    pub dropped: Vec<usize>,
}

impl Desk {
    /// This was in hand before a restart, or is in the hand of another hub. True: that was not known, and there is room.
    pub fn restore(&mut self, key: Key, now: i64) -> bool {
        if let Some(mentioned) = self.keys.get_mut(&key) {
            *mentioned = now;
            return false;
        }
        let has_room = self.keys.len() < KEYS_MAX;
        if has_room {
            self.keys.insert(key, now);
        }
        has_room
    }

    /// Takes an alert in hand. One that is resolved is let go.
    pub fn take(&mut self, alert: &Alert, position: impl Fn(&str) -> Option<usize>, now: i64) -> Asked {
        let mut asked = Asked::default();
        let Some(text) = alert.annotations.get(ANNOTATION) else { return asked };
        for name in names(text) {
            let key = Key::new(name, alert);
            if !alert.is_firing() {
                self.keys.remove(&key);
                continue;
            }
            let Some(at) = position(name) else {
                if self.unknown.len() < UNKNOWN_MAX && self.unknown.insert(name.to_owned()) {
                    asked.unknown.push(name.to_owned());
                }
                continue;
            };
            if let Some(mentioned) = self.keys.get_mut(&key) {
                *mentioned = now;
                continue;
            }
            if self.keys.len() >= KEYS_MAX {
                self.keys.retain(|_, mentioned| mentioned.abs_diff(now) < MENTIONED_AGE_MAX.unsigned_abs());
            }
            match self.keys.len() < KEYS_MAX {
                true => {
                    self.keys.insert(key, now);
                    asked.actions.push(at);
                }
                false => asked.dropped.push(at),
            }
        }
        asked
    }

    /// It found no room: the next pass may ask again.
    pub fn give_back(&mut self, key: &Key) {
        self.keys.remove(key);
    }

    /// Whether the alert fires still, as far as is known.
    pub fn is_firing(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    /// All that is in hand.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.keys()
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

    #[test]
    fn each_firing_is_taken_once_whatever_is_asked_again() {
        let mut desk = Desk::default();
        let mut take = |alert: &Alert| desk.take(alert, position, 5);
        let first = alert("A", 1, "look,drain,nothing");
        let asked = take(&first);
        assert_eq!((asked.actions, asked.unknown), (vec![1, 0], vec!["nothing".to_owned()]));
        assert_eq!(take(&first), Asked::default(), "neither the actions nor the complaint come again");
        assert_eq!(take(&alert("B", 1, "drain")).actions, [0], "another alert");
        let over = Alert { ends_at: Some(9), ..first.clone() };
        assert_eq!(take(&over), Asked::default());
        assert_eq!(take(&alert("A", 10, "drain")).actions, [0], "it fires again");
        assert_eq!(take(&alert("C", 1, "")), Asked::default());
    }

    #[test]
    fn what_fires_is_not_forgotten_when_there_are_too_many_and_the_others_come_later() {
        let mut desk = Desk::default();
        let name = |number: usize| format!("A{number}");
        for number in 0..KEYS_MAX {
            assert_eq!(desk.take(&alert(&name(number), 1, "drain"), position, 0).actions, [0]);
        }
        let more = alert("more", 1, "drain");
        let asked = desk.take(&more, position, 1);
        assert_eq!((asked.actions, asked.dropped), (vec![], vec![0]));
        assert!(
            desk.take(&alert(&name(7), 1, "drain"), position, 1).actions.is_empty(),
            "it is still in hand"
        );
        let over = Alert { ends_at: Some(2), ..alert(&name(7), 1, "drain") };
        desk.take(&over, position, 2);
        assert_eq!(desk.take(&more, position, 3).actions, [0]);
    }
}
