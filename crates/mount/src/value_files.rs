//! The files of values that are open, or were a moment ago: what each shows, and how its page in the page cache gets a
//! new value.

use std::collections::HashMap;
use std::time::Instant;

use khz_model::{Rate, Reading};

use crate::effects::{Effects, NewPage, Push};
use crate::file::line;
use crate::inode::{Inode, NodeId};
use crate::limits::{FILE_LEASE, LENGTH_HOLD, PUSHED_MAX, STORES_PER_SECOND_MAX};
use crate::names::Names;
use crate::page::{Page, Renewal};
use crate::polls::Polls;
use crate::roster::Roster;
use crate::settings::{Filter, Place};

/// The files of values.
#[derive(Debug, Default)]
pub(crate) struct ValueFiles {
    files: HashMap<Inode, ValueFile>,
    /// Files whose page is out of date.
    dirty: Vec<Inode>,
    /// Dirty files that keep the length of their old value for a moment, and when the first of these moments ends.
    delayed: Vec<Inode>,
    delayed_until: Option<Instant>,
    /// Pages stored in this second.
    stores: usize,
    counts: Counts,
}

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// New values of followed files.
    pub pushed: u64,
    /// Pages that were stored ahead.
    pub stored: u64,
    /// Pages that were not, because there were too many.
    pub not_stored: u64,
    /// Values that a filter held back.
    pub filtered: u64,
}

/// A file of a value.
#[derive(Debug)]
struct ValueFile {
    handles: usize,
    /// The last reading that passed the filter.
    shown: Reading,
    places: u8,
    filter: Filter,
    /// The rate that it is served at, and the place that has it.
    rate: Option<(Place, Rate)>,
    /// The page cache follows it.
    followed: bool,
    /// It is in the list of dirty files.
    dirty: bool,
    page: Page,
    opened: Instant,
    /// A value with another number of digits waits until then.
    held_until: Option<Instant>,
    closed: Option<Instant>,
}

/// What a file shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub reading: Reading,
    pub places: u8,
    /// The page cache follows it.
    pub followed: bool,
}

/// What a file is opened with: its settings, and its value now.
pub(crate) struct Opening {
    pub reading: Reading,
    pub places: u8,
    pub filter: Filter,
    pub rate: Option<(Place, Rate)>,
}

/// The rest of the tree, as far as pushing values needs it.
pub(crate) struct Around<'a> {
    pub names: &'a Names,
    pub roster: &'a Roster,
    pub polls: &'a Polls,
}

impl ValueFile {
    fn shown(&self) -> Shown {
        // While the page cache follows the file, every reader gets what it has or will have next.
        let reading = if self.followed { self.page.served() } else { self.shown };
        Shown { reading, places: self.places, followed: self.followed }
    }

    /// Until when a value with another number of digits has to wait: a program that has just opened the file knows a length.
    /// A file that is polled does not wait, since its pollers are woken at once.
    fn hold(&mut self, is_polled: bool, now: Instant) -> Option<Instant> {
        let length = |reading| line(reading, self.places).map_or(0, |text| text.len());
        let is_another = length(self.shown) != length(self.page.served());
        let is_new = now.saturating_duration_since(self.opened) < LENGTH_HOLD;
        let until = match self.held_until {
            Some(until) if is_another => until,
            None if is_another && is_new && !is_polled && self.handles > 0 => now + LENGTH_HOLD,
            _ => now,
        };
        self.held_until = (now < until).then_some(until);
        self.held_until
    }

    fn is_expired(&self, now: Instant) -> bool {
        let is_old = |closed| now.saturating_duration_since(closed) >= FILE_LEASE;
        self.handles == 0 && !self.page.is_being_stored() && self.closed.is_none_or(is_old)
    }
}

impl ValueFiles {
    /// A file was opened. Returns whether what the page cache has of it is good; `None`: there are too many files, and
    /// each read of it comes to us.
    pub fn open(
        &mut self,
        inode: Inode,
        opening: Opening,
        now: Instant,
        effects: &mut Effects,
    ) -> Option<bool> {
        let Opening { reading, places, filter, rate } = opening;
        if !self.files.contains_key(&inode) {
            if self.files.len() >= PUSHED_MAX {
                return None;
            }
            let file = ValueFile {
                handles: 0,
                shown: reading,
                places,
                filter,
                rate,
                followed: false,
                dirty: false,
                page: Page::new(reading),
                opened: now,
                held_until: None,
                closed: None,
            };
            self.files.insert(inode, file);
        }
        let file = self.files.get_mut(&inode)?;
        let was_followed = std::mem::replace(&mut file.followed, true);
        file.opened = now;
        let again = file.closed.is_some_and(|closed| now.saturating_duration_since(closed) < FILE_LEASE);
        file.handles += 1;
        // A program that opens the file once is served by one read: following the file for it would cost more.
        if file.handles == 1 && !again {
            file.closed = None;
        }
        if !was_followed && file.rate.is_some() {
            effects.change_demand();
        }
        if !was_followed {
            file.shown = reading;
            if !file.page.follow(reading) {
                self.mark_dirty(inode);
            }
        }
        Some(was_followed)
    }

    /// The place whose rate a file is served at.
    pub fn rate_place(&self, inode: Inode) -> Option<Place> {
        self.files.get(&inode)?.rate.map(|(place, _)| place)
    }

    /// The rate of a file is beyond the budget of its user: it gets the base rate, unless another reader has it open.
    pub fn refuse_rate(&mut self, inode: Inode) {
        if let Some(file) = self.files.get_mut(&inode).filter(|file| file.handles == 1) {
            file.rate = None;
        }
    }

    /// A handle of a file is closed. True when the page cache does not follow the file any more; it does for a while if the
    /// file was opened again and again.
    pub fn close(&mut self, inode: Inode, now: Instant, effects: &mut Effects) -> bool {
        let Some(file) = self.files.get_mut(&inode) else { return false };
        file.handles -= 1;
        if file.handles > 0 {
            return false;
        }
        let was_closed_before = file.closed.replace(now).is_some();
        !was_closed_before && file.stop_following(inode, effects)
    }

    /// Forgets files that were closed long enough ago. Returns those that were followed until now.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) -> Vec<Inode> {
        let gone = self.files.extract_if(|_, file| file.is_expired(now));
        gone.filter_map(|(inode, mut file)| file.stop_following(inode, effects).then_some(inode)).collect()
    }

    /// The reading of a file has changed. True for a file that is known here, whatever its filter says.
    pub fn change(&mut self, inode: Inode, reading: Reading, places: u8) -> bool {
        let Some(file) = self.files.get_mut(&inode) else { return false };
        let passes = match (file.shown, reading) {
            (Reading::Present(last), Reading::Present(value)) => {
                file.filter.passes(Some(last), value, places)
            }
            _ => true,
        };
        if passes {
            file.shown = reading;
            self.mark_dirty(inode);
        } else {
            self.counts.filtered += 1;
        }
        true
    }

    /// Settings have changed. True when other values pass from now on.
    pub fn set(
        &mut self,
        inode: Inode,
        filter: Filter,
        rate: Option<(Place, Rate)>,
        effects: &mut Effects,
    ) -> bool {
        let Some(file) = self.files.get_mut(&inode) else { return false };
        if file.rate != rate {
            effects.change_demand();
        }
        let is_another = file.filter != filter;
        (file.filter, file.rate) = (filter, rate);
        is_another
    }

    /// What a file shows; the kernel asks for its length.
    pub fn stat(&mut self, inode: Inode) -> Option<Shown> {
        let file = self.files.get_mut(&inode)?;
        file.page.touch();
        Some(file.shown())
    }

    /// What a file shows; the kernel asks for its bytes.
    pub fn read(&mut self, inode: Inode, now: Instant) -> Option<Shown> {
        let file = self.files.get_mut(&inode)?;
        file.page.read(now);
        Some(file.shown())
    }

    /// The page cache has an old value of a file.
    fn mark_dirty(&mut self, inode: Inode) {
        if let Some(file) = self.files.get_mut(&inode).filter(|file| file.followed && !file.dirty) {
            file.dirty = true;
            self.dirty.push(inode);
        }
    }

    /// The same for all files of a node, or of all nodes: a strict mount gives other answers from now on.
    pub fn mark_all_dirty(&mut self, node: Option<NodeId>) {
        let is_of = |inode: &&Inode| node.is_none_or(|node| inode.node == node);
        let files: Vec<Inode> = self.files.keys().filter(is_of).copied().collect();
        files.into_iter().for_each(|inode| self.mark_dirty(inode));
    }

    /// True when there is something to push.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// When the next delayed file is to be pushed.
    pub fn next_push(&self) -> Option<Instant> {
        self.delayed_until
    }

    /// A new second begins: pages may be stored ahead again.
    pub fn begin_second(&mut self) {
        self.stores = 0;
    }

    /// The pushes that bring the present values into the page cache.
    pub fn pushes(&mut self, around: &Around<'_>, now: Instant) -> Vec<Push> {
        let mut dirty = std::mem::take(&mut self.dirty);
        if self.delayed_until.is_none_or(|until| now >= until) {
            dirty.append(&mut self.delayed);
            self.delayed_until = None;
        }
        dirty.into_iter().filter_map(|inode| self.push(inode, around, now)).collect()
    }

    fn push(&mut self, inode: Inode, around: &Around<'_>, now: Instant) -> Option<Push> {
        let file = self.files.get_mut(&inode)?;
        if file.followed
            && let Some(until) = file.hold(around.polls.has(inode), now)
        {
            self.delayed.push(inode);
            self.delayed_until = Some(self.delayed_until.map_or(until, |first| first.min(until)));
            return None;
        }
        file.dirty = false;
        if !file.followed {
            return None;
        }
        self.counts.pushed += 1;
        match file.page.renew(file.shown, now) {
            Renewal::Nothing => return None,
            Renewal::Drop => return Some(Push::Invalidate(inode)),
            Renewal::Store => {}
        }
        let text = line(file.shown, file.places).ok().filter(|_| !around.roster.is_unreachable(inode.node));
        let Some(text) = text else { return Some(Push::Invalidate(inode)) };
        if self.stores >= STORES_PER_SECOND_MAX {
            self.counts.not_stored += 1;
            return Some(Push::Invalidate(inode));
        }
        self.stores += 1;
        self.counts.stored += 1;
        file.page.begin_store();
        let node = around.roster.name(inode.node).map_or("", |name| name.as_str());
        let path = format!("{node}/{}", around.names.text(inode.path));
        Some(Push::Store(NewPage { inode, path, text }))
    }

    /// These pushes are done.
    pub fn pushed(&mut self, pushes: &[Push]) {
        for push in pushes {
            if let Push::Store(page) = push
                && let Some(file) = self.files.get_mut(&page.inode)
            {
                file.page.end_store();
            }
        }
    }

    /// Every file.
    pub fn inodes(&self) -> Vec<Inode> {
        self.files.keys().copied().collect()
    }

    /// Files that are served at a rate of their own.
    pub fn rates(&self) -> impl Iterator<Item = (Inode, Place, Rate)> {
        let followed = self.files.iter().filter(|(_, file)| file.followed);
        followed.filter_map(|(&inode, file)| file.rate.map(|(place, rate)| (inode, place, rate)))
    }

    /// How many files the page cache follows.
    pub fn followed(&self) -> usize {
        self.files.values().filter(|file| file.followed).count()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// For `.mount/stats`.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl ValueFile {
    /// The page cache does not follow the file any more: the kernel has to ask for its size again.
    fn stop_following(&mut self, inode: Inode, effects: &mut Effects) -> bool {
        let was_followed = std::mem::take(&mut self.followed);
        if was_followed {
            effects.forget(inode);
            if self.rate.is_some() {
                effects.change_demand();
            }
        }
        was_followed
    }
}
