//! Which kernel files the upstream sends, and which user has caused that. Each user has a budget; when it is used up, the
//! file that this user has not used for longest makes room.

use std::collections::{BTreeMap, HashMap};

use khz_link::limits::READS_MAX;

use crate::inode::Inode;
use crate::limits::TEXTS_PER_USER_MIN;

/// The subscriptions to kernel files.
#[derive(Debug)]
pub(super) struct TextSubscriptions {
    by_number: HashMap<u32, Inode>,
    made: u32,
    /// Subscriptions to files that nobody has open: by user, the oldest first.
    idle: BTreeMap<(u32, u64), Inode>,
    idled: u64,
    /// How many each user has caused.
    by_user: HashMap<u32, usize>,
    per_user_max: usize,
}

/// One subscription.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub number: u32,
    user: u32,
    /// Its place among the idle ones.
    idle: Option<u64>,
}

/// Whether there is room for one more subscription of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is.
    Free,
    /// There is, once the subscription to this file has ended.
    After(Inode),
    /// There is none: every file is open.
    Full,
}

impl TextSubscriptions {
    /// There are none; each user may cause `budget` of them.
    pub fn new(budget: usize) -> Self {
        TextSubscriptions {
            by_number: HashMap::new(),
            made: 0,
            idle: BTreeMap::new(),
            idled: 0,
            by_user: HashMap::new(),
            per_user_max: budget.max(TEXTS_PER_USER_MIN),
        }
    }

    /// Whether there is room for one more of a user.
    pub fn room(&self, user: u32) -> Room {
        let is_full = self.by_number.len() >= READS_MAX;
        let has_all = self.by_user.get(&user).is_some_and(|&count| count >= self.per_user_max);
        if !is_full && !has_all {
            return Room::Free;
        }
        let his = self.idle.range((user, 0)..=(user, u64::MAX)).next().map(|(_, &inode)| inode);
        // Where all users together want too much, anybody's idle one makes room.
        let oldest = his.or_else(|| self.idle.values().next().copied().filter(|_| !has_all));
        oldest.map_or(Room::Full, Room::After)
    }

    /// Makes one for a user.
    pub fn add(&mut self, inode: Inode, user: u32) -> Held {
        self.made += 1;
        self.by_number.insert(self.made, inode);
        *self.by_user.entry(user).or_default() += 1;
        Held { number: self.made, user, idle: None }
    }

    /// Ends one.
    pub fn remove(&mut self, mut held: Held) {
        self.use_again(&mut held);
        self.by_number.remove(&held.number);
        if let Some(count) = self.by_user.get_mut(&held.user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&held.user);
            }
        }
    }

    /// Nobody has the file open.
    pub fn rest(&mut self, held: &mut Held, inode: Inode) {
        if held.idle.is_none() {
            self.idled += 1;
            held.idle = Some(self.idled);
            self.idle.insert((held.user, self.idled), inode);
        }
    }

    /// Somebody uses the file again.
    pub fn use_again(&mut self, held: &mut Held) {
        if let Some(at) = held.idle.take() {
            self.idle.remove(&(held.user, at));
        }
    }

    /// The file of a number.
    pub fn inode(&self, number: u32) -> Option<Inode> {
        self.by_number.get(&number).copied()
    }

    /// All files.
    pub fn inodes(&self) -> Vec<Inode> {
        self.by_number.values().copied().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::{NodeId, PathId};

    #[test]
    fn the_file_that_a_user_has_not_used_for_longest_makes_room() {
        let mut subscriptions = TextSubscriptions::new(TEXTS_PER_USER_MIN);
        let file = |number: usize| Inode::plain(NodeId(1), PathId(number as u32));
        let mut held: Vec<Held> =
            (0..TEXTS_PER_USER_MIN).map(|number| subscriptions.add(file(number), 7)).collect();
        assert_eq!((subscriptions.room(7), subscriptions.room(8)), (Room::Full, Room::Free));
        for number in [3, 1] {
            subscriptions.rest(&mut held[number], file(number));
        }
        assert_eq!(subscriptions.room(7), Room::After(file(3)));
        subscriptions.use_again(&mut held[3]);
        assert_eq!(subscriptions.room(7), Room::After(file(1)));
        subscriptions.remove(held[1]);
        assert_eq!((subscriptions.room(7), subscriptions.inode(2)), (Room::Free, None));
    }
}
