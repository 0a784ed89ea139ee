//! What readers have set at places of the tree: rates, ranges and deadbands, for the whole mount or until a descriptor is
//! closed. The setting nearest to a file holds.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Rate, ValueFormat};

use crate::controls::language::{Change, Range};
use crate::inode::{Class, NodeId, PathId};
use crate::limits::SETTINGS_MAX;

/// A place that has settings.
pub type Place = (NodeId, PathId);

/// For whom a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// For the whole mount.
    Mount,
    /// For the process that holds this control file open.
    Held {
        /// The control file's handle.
        handle: u64,
        /// The process.
        process: u32,
    },
}

impl Owner {
    /// True for the process that holds the setting. Processes of other PID namespaces all have the number 0 here: for them
    /// only the mount's settings hold.
    fn is(&self, process: u32) -> bool {
        process != 0 && matches!(self, Owner::Held { process: whose, .. } if *whose == process)
    }
}

/// One setting, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// How often.
    Rate(Rate),
    /// Inside what.
    Range(Arc<Range>),
    /// Differing by how much.
    Change(Arc<Change>),
}

impl Setting {
    fn class(&self) -> Class {
        match self {
            Setting::Rate(_) => Class::Rate,
            Setting::Range(_) => Class::Range,
            Setting::Change(_) => Class::Change,
        }
    }

    /// As its control file shows it.
    pub fn text(&self) -> String {
        match self {
            Setting::Rate(rate) => rate.to_string(),
            Setting::Range(range) => range.text().to_owned(),
            Setting::Change(change) => change.text().to_owned(),
        }
    }
}

/// What decides whether a value is delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    range: Option<Arc<Range>>,
    change: Option<Arc<Change>>,
}

impl Filter {
    /// True when `value` is delivered after `last`: inside the range or crossing its edge, and far enough from `last`.
    pub fn passes(&self, last: Option<u64>, value: u64, format: ValueFormat) -> bool {
        // Values that cannot be compared are delivered.
        let Some(value) = format.steps(value) else { return true };
        let last = last.and_then(|last| format.steps(last));
        let in_range = self
            .range
            .as_ref()
            .is_none_or(|range| range.holds(value) || last.is_some_and(|last| range.holds(last)));
        let crosses = self
            .range
            .as_ref()
            .is_some_and(|range| last.is_some_and(|last| range.holds(last) != range.holds(value)));
        let far = match (&self.change, last) {
            (Some(change), Some((last, _))) => change.is_passed(last, value.0, value.1),
            _ => true,
        };
        in_range && (far || crosses)
    }

    /// True when a present value is news to a process that begins to wait.
    pub fn holds(&self, value: u64, format: ValueFormat) -> bool {
        let value = format.steps(value);
        self.range.as_ref().is_none_or(|range| value.is_none_or(|value| range.holds(value)))
    }
}

/// Every setting of the mount.
#[derive(Debug, Default)]
pub struct Settings {
    places: HashMap<Place, Vec<(Owner, Setting)>>,
    revision: u64,
}

/// There is no room for another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Settings {
    /// Sets what an owner has of one kind at a place; `None` removes it.
    pub fn set(
        &mut self,
        place: Place,
        owner: Owner,
        class: Class,
        setting: Option<Setting>,
    ) -> Result<(), Full> {
        if setting.is_some() && !self.places.contains_key(&place) && self.places.len() >= SETTINGS_MAX {
            return Err(Full);
        }
        let there = self.places.entry(place).or_default();
        there.retain(|(whose, known)| *whose != owner || known.class() != class);
        there.extend(setting.map(|setting| (owner, setting)));
        if there.is_empty() {
            self.places.remove(&place);
        }
        self.revision += 1;
        Ok(())
    }

    /// The setting of a kind at a place: the process's own, else the mount's.
    pub fn at(&self, place: Place, class: Class, process: Option<u32>) -> Option<&Setting> {
        let there = self.places.get(&place)?.iter().filter(|(_, setting)| setting.class() == class);
        let mut own = there.clone().filter(|(owner, _)| process.is_some_and(|process| owner.is(process)));
        let mut all = there.filter(|(owner, _)| *owner == Owner::Mount);
        own.next_back().or_else(|| all.next_back()).map(|(_, setting)| setting)
    }

    /// Control files that a process holds open with a line for one of these places.
    pub fn held_by(&self, places: &[Place], process: u32) -> Vec<u64> {
        let there = places.iter().filter_map(|place| self.places.get(place)).flatten();
        let own = there.filter(|(owner, _)| owner.is(process));
        own.filter_map(|(owner, _)| match owner {
            Owner::Held { handle, .. } => Some(*handle),
            Owner::Mount => None,
        })
        .collect()
    }

    /// The fastest rate that anybody has set at a place.
    pub fn rate_at(&self, place: Place) -> Option<Rate> {
        let rates = self.places.get(&place)?.iter().filter_map(|(_, setting)| match setting {
            Setting::Rate(rate) => Some(*rate),
            _ => None,
        });
        rates.min_by_key(|rate| rate.period())
    }

    /// The filter for a file. `places` begins with the file itself.
    pub fn filter(&self, places: &[Place], process: Option<u32>) -> Filter {
        if self.places.is_empty() {
            return Filter::default();
        }
        let nearest = |class| places.iter().find_map(|&place| self.at(place, class, process));
        let range = nearest(Class::Range).and_then(|setting| match setting {
            Setting::Range(range) => Some(range.clone()),
            _ => None,
        });
        let change = nearest(Class::Change).and_then(|setting| match setting {
            Setting::Change(change) => Some(change.clone()),
            _ => None,
        });
        Filter { range, change }
    }

    /// The nearest place with a rate, and the rate.
    pub fn rate(&self, places: &[Place]) -> Option<(Place, Rate)> {
        if self.places.is_empty() {
            return None;
        }
        places.iter().find_map(|&place| Some((place, self.rate_at(place)?)))
    }

    /// A control file is closed: its setting ends, or holds for the mount if the file was closed at once. `false`: there was
    /// none.
    pub fn close(&mut self, place: Place, class: Class, handle: u64, at_once: bool) -> bool {
        let Some(there) = self.places.get_mut(&place) else { return false };
        let is_its = |owner: &Owner| matches!(owner, Owner::Held { handle: whose, .. } if *whose == handle);
        let Some(at) = there.iter().position(|(owner, setting)| is_its(owner) && setting.class() == class)
        else {
            return false;
        };
        let (_, setting) = there.remove(at);
        if at_once {
            there.retain(|(owner, known)| *owner != Owner::Mount || known.class() != class);
            there.push((Owner::Mount, setting));
        } else if there.is_empty() {
            self.places.remove(&place);
        }
        self.revision += 1;
        true
    }

    /// A number that changes with every change of a setting.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Places that have settings.
    pub fn count(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controls::language as control;

    fn range(text: &str) -> Setting {
        Setting::Range(Arc::new(control::range(text.as_bytes()).unwrap().unwrap()))
    }

    fn filter(range: &str, change: &str) -> Filter {
        Filter {
            range: control::range(range.as_bytes()).unwrap().map(Arc::new),
            change: control::change(change.as_bytes()).unwrap().map(Arc::new),
        }
    }

    #[test]
    fn a_range_delivers_inside_and_once_when_the_value_leaves() {
        let filter = filter("10 20", "");
        let mut last = None;
        let mut delivered = Vec::new();
        for value in [30, 15, 16, 25, 26, 20, 9, 8] {
            if filter.passes(last, value, ValueFormat::WHOLE) {
                delivered.push(value);
                last = Some(value);
            }
        }
        assert_eq!(delivered, [15, 16, 25, 20, 9]);
    }

    #[test]
    fn a_deadband_inside_a_range_still_delivers_the_crossing() {
        let filter = filter("0 100", "50%");
        assert!(
            !filter.passes(Some(90), 99, ValueFormat::WHOLE)
                && filter.passes(Some(90), 101, ValueFormat::WHOLE)
        );
    }

    #[test]
    fn the_nearest_setting_holds_and_a_process_has_its_own() {
        let (node, attribute) = ((NodeId(1), PathId(1)), (NodeId(1), PathId(9)));
        let mut settings = Settings::default();
        settings.set(node, Owner::Mount, Class::Range, Some(range("0 1"))).unwrap();
        let held = Owner::Held { handle: 5, process: 77 };
        settings.set(attribute, held, Class::Range, Some(range("5 6"))).unwrap();
        let places = [attribute, node];
        assert!(settings.filter(&places, Some(77)).holds(5, ValueFormat::WHOLE));
        assert!(
            settings.filter(&places, Some(78)).holds(1, ValueFormat::WHOLE)
                && !settings.filter(&places, None).holds(5, ValueFormat::WHOLE)
        );
        assert!(settings.close(attribute, Class::Range, 5, false));
        assert!(settings.filter(&places, Some(77)).holds(0, ValueFormat::WHOLE));
    }

    #[test]
    fn a_line_that_is_closed_at_once_holds_for_the_mount() {
        let place = (NodeId(1), PathId(9));
        let mut settings = Settings::default();
        for (handle, text) in [(1, "0 1"), (2, "0 2")] {
            settings.set(place, Owner::Held { handle, process: 7 }, Class::Range, Some(range(text))).unwrap();
            assert!(settings.close(place, Class::Range, handle, true));
        }
        assert_eq!(settings.at(place, Class::Range, None).unwrap().text(), "0 2");
        settings.set(place, Owner::Mount, Class::Range, None).unwrap();
        assert_eq!(settings.count(), 0);
    }
}
