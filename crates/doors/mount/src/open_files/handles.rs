//! What is open, and by which user: handles, and each user's budget of places with a faster rate.

use std::collections::{BTreeMap, HashMap};

use crate::controls::settings::Place;
use crate::file::Entry;
use crate::inode::{Inode, NodeId};
use crate::limits::HANDLES_PER_USER_MAX;
use crate::names::Names;

/// Everything that is open.
#[derive(Debug)]
pub(crate) struct Handles {
    open: HashMap<u64, Handle>,
    opened: u64,
    users: BTreeMap<u32, User>,
    /// Places at which one user may cause a faster rate.
    budget: usize,
    counts: Counts,
}

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Opens that were refused because a user had too much open.
    pub refused: u64,
    /// Rates that were refused because a user's budget was used up.
    pub over_budget: u64,
}

/// Something open.
#[derive(Debug)]
pub(crate) struct Handle {
    pub inode: Inode,
    pub user: u32,
    pub content: Content,
    /// The place whose rate is charged to its user.
    charged: Option<Place>,
}

/// What a handle is of.
#[derive(Debug)]
pub(crate) enum Content {
    Value,
    /// A value whose instance had just gone when its reader began: what the reader knows of it.
    JustGone(Vec<u8>),
    /// A text, as it was when its reader began.
    Text(Vec<u8>),
    /// A setting.
    Control,
    KernelText,
    /// A kernel file that the page cache serves.
    CachedText,
    /// The newest value of a node that a channel has sent.
    ChannelValue,
    /// The rows of a channel, from the open on.
    ChannelRows,
    Directory(Vec<Entry>),
}

/// What a user has open and causes.
#[derive(Debug, Default)]
struct User {
    handles: usize,
    /// Places whose rate is charged to the user, and how many open files cause it.
    places: HashMap<Place, usize>,
}

impl Handles {
    /// Nothing is open.
    pub fn new(budget: usize) -> Self {
        Handles { open: HashMap::new(), opened: 0, users: BTreeMap::new(), budget, counts: Counts::default() }
    }

    /// Refuses a user who has too much open, with an errno.
    pub fn admit(&mut self, user: u32) -> Result<(), i32> {
        if self.users.get(&user).is_some_and(|user| user.handles >= HANDLES_PER_USER_MAX) {
            self.counts.refused += 1;
            return Err(libc::ENFILE);
        }
        Ok(())
    }

    /// Makes a handle.
    pub fn open(&mut self, inode: Inode, user: u32, content: Content) -> u64 {
        self.opened += 1;
        self.open.insert(self.opened, Handle { inode, user, content, charged: None });
        self.users.entry(user).or_default().handles += 1;
        self.opened
    }

    /// What is open.
    pub fn get(&self, handle: u64) -> Option<&Handle> {
        self.open.get(&handle)
    }

    /// A reader begins again with another text.
    pub fn set_text(&mut self, handle: u64, text: Vec<u8>) {
        if let Some(open) = self.open.get_mut(&handle) {
            open.content = Content::Text(text);
        }
    }

    /// Closes a handle. What it cost its user is free again.
    pub fn close(&mut self, handle: u64) -> Option<Handle> {
        let closed = self.open.remove(&handle)?;
        let user = self.users.get_mut(&closed.user)?;
        user.handles -= 1;
        if let Some(place) = closed.charged
            && let Some(count) = user.places.get_mut(&place)
        {
            *count -= 1;
            if *count == 0 {
                user.places.remove(&place);
            }
        }
        if user.handles == 0 {
            self.users.remove(&closed.user);
        }
        Some(closed)
    }

    /// Charges the rate of a place to the user who opened a file there; `false`: it is beyond the budget. A rate for the
    /// whole tree costs one place for each node.
    pub fn charge(&mut self, handle: u64, place: Place) -> bool {
        let Some(open) = self.open.get_mut(&handle) else { return true };
        let place = if place.0 == NodeId::TREE { (open.inode.node, Names::TOP) } else { place };
        let places = &mut self.users.entry(open.user).or_default().places;
        if !places.contains_key(&place) && places.len() >= self.budget {
            self.counts.over_budget += 1;
            return false;
        }
        *places.entry(place).or_default() += 1;
        open.charged = Some(place);
        true
    }

    /// How many are open.
    pub fn open_now(&self) -> usize {
        self.open.len()
    }

    /// How many were ever opened.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// What was refused.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Every user who has something open: the number of handles, and of places that are charged.
    pub fn users(&self) -> impl Iterator<Item = (u32, usize, usize)> {
        self.users.iter().map(|(&user, known)| (user, known.handles, known.places.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::PathId;

    fn file(path: u32) -> Inode {
        Inode::plain(NodeId(1), PathId(path))
    }

    #[test]
    fn a_budget_counts_places_and_the_last_close_at_a_place_frees_it() {
        let mut handles = Handles::new(1);
        let place = (NodeId(1), PathId(5));
        let (one, two) = (handles.open(file(5), 7, Content::Value), handles.open(file(5), 7, Content::Value));
        assert!(handles.charge(one, place) && handles.charge(two, place));
        let three = handles.open(file(6), 7, Content::Value);
        assert!(!handles.charge(three, (NodeId(1), PathId(6))));
        handles.close(one);
        assert!(!handles.charge(three, (NodeId(1), PathId(6))));
        handles.close(two);
        assert!(handles.charge(three, (NodeId(1), PathId(6))));
        assert_eq!(handles.counts().over_budget, 2);
    }

    #[test]
    fn a_user_without_open_files_is_forgotten_and_a_handle_is_used_once() {
        let mut handles = Handles::new(1);
        let one = handles.open(file(5), 7, Content::Value);
        assert!(handles.close(one).is_some() && handles.close(one).is_none());
        assert_eq!(handles.users().count(), 0);
        assert_ne!(handles.open(file(5), 7, Content::Value), one);
    }
}
