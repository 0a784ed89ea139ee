//! Which channels the hub has, and the numbers that the tree gives their names. A name keeps its number while it is known.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use khz_follow::Defined;
use khz_model::ChannelName;

use crate::effects::{Command, Effects};
use crate::inode::ChannelId;
use crate::limits::{CHANNEL_NAMES_MAX, LEASE, NAME_TTL};

/// The hub's channels.
#[derive(Debug, Default)]
pub(super) struct List {
    by_name: BTreeMap<ChannelName, ChannelId>,
    known: HashMap<ChannelId, Known>,
    /// What is known of the hub's list.
    state: State,
    is_wanted: bool,
    /// Open files.
    handles: usize,
    until: Option<Instant>,
    /// Channels that found no number.
    left_out: u64,
}

#[derive(Debug)]
struct Known {
    name: ChannelName,
    /// Its definition as JSON; since when there is none.
    definition: Result<String, Instant>,
}

/// What is known of the hub's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing.
    #[default]
    Unknown,
    /// It is as this hub has it, or had it a second ago.
    Current,
    /// It was so when somebody wanted it last, or before the connection ended.
    Old,
    /// The hub is older than such lists.
    Unserved,
}

/// What another list has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Channels that are new, or have another definition.
    pub changed: Vec<ChannelId>,
    /// Channels that are gone.
    pub gone: Vec<ChannelId>,
}

impl List {
    /// Somebody uses the list.
    pub fn want(&mut self, now: Instant, effects: &mut Effects) {
        self.until = Some(now + LEASE);
        if !std::mem::replace(&mut self.is_wanted, true) {
            effects.command(Command::ListChannels(true));
        }
    }

    /// A file is opened.
    pub fn open(&mut self) {
        self.handles += 1;
    }

    /// It is closed.
    pub fn close(&mut self, now: Instant) {
        self.handles -= 1;
        self.until = Some(now + LEASE);
    }

    /// Ends the demand that nobody has renewed.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) {
        self.until = self.until.filter(|&until| now < until);
        if self.is_wanted && self.until.is_none() && self.handles == 0 {
            self.is_wanted = false;
            self.age();
            effects.command(Command::ListChannels(false));
        }
    }

    /// True when nothing will expire.
    pub fn is_idle(&self) -> bool {
        !self.is_wanted
    }

    /// A hub has accepted us, or is gone: its list may be another.
    pub fn connected(&mut self) {
        self.age();
    }

    fn age(&mut self) {
        self.state = match self.state {
            State::Current => State::Old,
            State::Unserved => State::Unknown,
            other => other,
        };
    }

    /// True when the list is as good as it can be now.
    pub fn is_settled(&self, is_hub_up: bool) -> bool {
        match self.state {
            State::Current | State::Unserved => true,
            State::Old => !is_hub_up,
            State::Unknown => false,
        }
    }

    /// True when the hub is older than such lists.
    pub fn is_unserved(&self) -> bool {
        self.state == State::Unserved
    }

    /// The channel of this name, if there is one now.
    pub fn find(&self, name: &str) -> Option<ChannelId> {
        let id = *self.by_name.get(&ChannelName::new(name).ok()?)?;
        self.definition(id).map(|_| id)
    }

    /// All channels, by name.
    pub fn names(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        let there = self.by_name.iter().filter(|&(_, &id)| self.definition(id).is_some());
        there.map(|(name, &id)| (id, name.as_str()))
    }

    /// The name of a channel, also of one that is gone.
    pub fn name(&self, id: ChannelId) -> Option<&ChannelName> {
        self.known.get(&id).map(|known| &known.name)
    }

    /// The definition of a channel as JSON; `None`: it is gone.
    pub fn definition(&self, id: ChannelId) -> Option<&str> {
        self.known.get(&id)?.definition.as_deref().ok()
    }

    /// Channels that found no number.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Another list has come; `None`: the hub has none. `is_open` says which channels have open files: they keep their numbers.
    pub fn update(
        &mut self,
        channels: Option<Vec<Defined>>,
        is_open: impl Fn(ChannelId) -> bool,
        now: Instant,
    ) -> News {
        self.state = if channels.is_some() { State::Current } else { State::Unserved };
        let channels: BTreeMap<ChannelName, String> =
            channels.unwrap_or_default().into_iter().map(|Defined { name, json }| (name, json)).collect();
        let mut news = News::default();
        for (id, known) in &mut self.known {
            if known.definition.is_ok() && !channels.contains_key(&known.name) {
                known.definition = Err(now);
                news.gone.push(*id);
            }
        }
        for (name, json) in channels {
            let Some(id) = self.number(&name, &is_open, now) else {
                self.left_out += 1;
                continue;
            };
            let before = self.known.insert(id, Known { name, definition: Ok(json) });
            let json = self.definition(id);
            if before.is_none_or(|before| before.definition.as_deref().ok() != json) {
                news.changed.push(id);
            }
        }
        news
    }

    /// The number of a name; a new one if it has none. `None`: every number has a channel, or is of one that has just gone.
    fn number(
        &mut self,
        name: &ChannelName,
        is_open: &impl Fn(ChannelId) -> bool,
        now: Instant,
    ) -> Option<ChannelId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let id = match self.known.len() < CHANNEL_NAMES_MAX {
            true => ChannelId(self.known.len() as u16 + 1),
            false => self.free_a_number(is_open, now)?,
        };
        self.by_name.insert(name.clone(), id);
        Some(id)
    }

    /// Takes the number of the channel that has gone first. The kernel keeps names for a while.
    fn free_a_number(&mut self, is_open: &impl Fn(ChannelId) -> bool, now: Instant) -> Option<ChannelId> {
        let gone = self.known.iter().filter_map(|(&id, known)| Some((known.definition.as_ref().err()?, id)));
        let is_forgotten = |since: Instant| now.saturating_duration_since(since) > NAME_TTL;
        let (_, id) = gone.filter(|&(&since, id)| is_forgotten(since) && !is_open(id)).min()?;
        if let Some(known) = self.known.get(&id) {
            self.by_name.remove(&known.name);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn list(names: &[(&str, &str)]) -> Option<Vec<Defined>> {
        let defined = |&(name, json): &(&str, &str)| Defined {
            name: ChannelName::new(name).unwrap(),
            json: json.to_owned(),
        };
        Some(names.iter().map(defined).collect())
    }

    #[test]
    fn a_list_says_what_has_changed_and_a_name_keeps_its_number() {
        let (mut known, now) = (List::default(), Instant::now());
        let news = known.update(list(&[("a", "1"), ("b", "1")]), |_| false, now);
        assert_eq!(news, News { changed: vec![ChannelId(1), ChannelId(2)], gone: vec![] });
        let news = known.update(list(&[("b", "2"), ("c", "1")]), |_| false, now);
        assert_eq!(news, News { changed: vec![ChannelId(2), ChannelId(3)], gone: vec![ChannelId(1)] });
        assert_eq!((known.find("a"), known.find("b"), known.find("B")), (None, Some(ChannelId(2)), None));
        assert_eq!(known.update(list(&[("b", "2"), ("c", "1")]), |_| false, now), News::default());
        let news = known.update(list(&[("a", "1")]), |_| false, now);
        assert_eq!(news.changed, [ChannelId(1)], "it is back");
        assert_eq!(known.names().map(|(_, name)| name.to_owned()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn of_too_many_names_the_one_that_has_gone_first_makes_room_unless_it_is_open() {
        let (mut known, now) = (List::default(), Instant::now());
        let names: Vec<String> = (0..CHANNEL_NAMES_MAX).map(|n| format!("c{n}")).collect();
        let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        known.update(list(&all), |_| false, now);
        let [first, second] = [known.find("c0").unwrap(), known.find("c1").unwrap()];
        known.update(list(&all[1..]), |_| false, now);
        known.update(list(&all[2..]), |_| false, now + Duration::from_secs(1));
        let with_new: Vec<_> = [&all[2..], &[("new", "1")]].concat();
        known.update(list(&with_new), |_| false, now + NAME_TTL);
        assert_eq!((known.find("new"), known.left_out()), (None, 1), "the kernel may still have the name");
        known.update(list(&with_new), |id| id == first, now + NAME_TTL * 3);
        assert_eq!(known.find("new"), Some(second));
    }

    #[test]
    fn the_list_is_wanted_while_somebody_uses_it_and_then_old() {
        let (mut known, mut effects, now) = (List::default(), Effects::default(), Instant::now());
        known.want(now, &mut effects);
        known.want(now, &mut effects);
        assert_eq!(effects.take_errands().commands, [Command::ListChannels(true)]);
        assert!(!known.is_settled(true) && !known.is_settled(false), "nothing is known");
        known.update(list(&[("a", "1")]), |_| false, now);
        assert!(known.is_settled(true));
        known.open();
        known.expire(now + LEASE, &mut effects);
        assert!(!effects.has_errands() && !known.is_idle(), "a file is open");
        known.close(now + LEASE);
        known.expire(now + LEASE * 2, &mut effects);
        assert_eq!(effects.take_errands().commands, [Command::ListChannels(false)]);
        assert!(known.is_idle() && !known.is_settled(true) && known.is_settled(false));
        known.update(None, |_| false, now);
        assert!(known.is_unserved() && known.is_settled(true));
        known.connected();
        assert!(!known.is_unserved(), "another hub may be newer");
    }
}
