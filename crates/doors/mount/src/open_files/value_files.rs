//! The files of values that are open, or were a moment ago, and the pushes that bring new values into the page cache.

use std::collections::HashMap;
use std::time::Instant;

use khz_model::{Rate, Reading, ValueFormat};

use crate::cluster::roster::Roster;
use crate::controls::settings::{Filter, Place};
use crate::effects::{Effects, NewPage, Push};
use crate::inode::{Inode, NodeId};
use crate::limits::{PUSHED_MAX, STORES_PER_SECOND_MAX};
use crate::names::Names;
use crate::open_files::page::Renewal;
use crate::open_files::polls::Polls;
use crate::open_files::value_file::{Need, Opening, Shown, ValueFile};

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

/// The rest of the tree, as far as pushing values needs it.
pub(crate) struct Around<'a> {
    pub names: &'a Names,
    pub roster: &'a Roster,
    pub polls: &'a Polls,
}

impl ValueFiles {
    /// A file is opened. Returns whether what the page cache has of it is good; `None`: there are too many files, and each
    /// read of it comes to us.
    pub fn open(
        &mut self,
        inode: Inode,
        opening: Opening,
        now: Instant,
        effects: &mut Effects,
    ) -> Option<bool> {
        let reading = opening.reading;
        if self.files.len() >= PUSHED_MAX && !self.files.contains_key(&inode) {
            return None;
        }
        let file = self.files.entry(inode).or_insert_with(|| ValueFile::new(opening, now));
        let was_followed = file.open(reading, now);
        if !was_followed {
            if file.rate().is_some() {
                effects.change_demand();
            }
            if !file.follow() {
                self.mark_dirty(inode);
            }
        }
        Some(was_followed)
    }

    /// The place whose rate a file is served at.
    pub fn rate_place(&self, inode: Inode) -> Option<Place> {
        self.files.get(&inode)?.rate().map(|(place, _)| place)
    }

    /// The rate of a file is beyond the budget of its user: it gets the base rate, unless another reader has it open.
    pub fn refuse_rate(&mut self, inode: Inode) {
        if let Some(file) = self.files.get_mut(&inode) {
            file.refuse_rate();
        }
    }

    /// A handle of a file is closed. True when the page cache does not follow the file any more.
    pub fn close(&mut self, inode: Inode, now: Instant, effects: &mut Effects) -> bool {
        let Some(file) = self.files.get_mut(&inode) else { return false };
        file.close(now) && stop_following(inode, file, effects)
    }

    /// Forgets files that were closed long enough ago. Returns those that were followed until now.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) -> Vec<Inode> {
        let gone = self.files.extract_if(|_, file| file.is_expired(now));
        gone.filter_map(|(inode, mut file)| stop_following(inode, &mut file, effects).then_some(inode))
            .collect()
    }

    /// The reading of a file has changed. True for a file that is known here, whatever its filter says.
    pub fn change(&mut self, inode: Inode, reading: Reading, format: ValueFormat) -> bool {
        let Some(file) = self.files.get_mut(&inode) else { return false };
        match file.change(reading, format) {
            true => self.mark_dirty(inode),
            false => self.counts.filtered += 1,
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
        let (has_new_filter, has_new_rate) = file.set(filter, rate);
        if has_new_rate {
            effects.change_demand();
        }
        has_new_filter
    }

    /// True for a file that is open, or was a moment ago.
    pub fn has(&self, inode: Inode) -> bool {
        self.files.contains_key(&inode)
    }

    /// What a file shows; the kernel asks for its length.
    pub fn stat(&mut self, inode: Inode) -> Option<Shown> {
        let file = self.files.get_mut(&inode)?;
        file.page().touch();
        Some(file.shown())
    }

    /// What a file shows; the kernel asks for its bytes.
    pub fn read(&mut self, inode: Inode, now: Instant) -> Option<Shown> {
        let file = self.files.get_mut(&inode)?;
        file.page().read(now);
        Some(file.shown())
    }

    /// The page cache has an old value of a file.
    fn mark_dirty(&mut self, inode: Inode) {
        if self.files.get_mut(&inode).is_some_and(ValueFile::mark_dirty) {
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
        let renewal = match file.clean(around.polls.has(inode), now) {
            Need::Nothing => return None,
            Need::Delay(until) => {
                self.delayed.push(inode);
                self.delayed_until = Some(self.delayed_until.map_or(until, |first| first.min(until)));
                return None;
            }
            Need::Renew(renewal) => renewal,
        };
        self.counts.pushed += 1;
        let text = match renewal {
            Renewal::Nothing => return None,
            Renewal::Drop => None,
            Renewal::Store => file.text().filter(|_| !around.roster.is_unreachable(inode.node)),
        };
        file.begin_push();
        let Some(text) = text else { return Some(Push::Invalidate(inode)) };
        if self.stores >= STORES_PER_SECOND_MAX {
            self.counts.not_stored += 1;
            return Some(Push::Invalidate(inode));
        }
        self.stores += 1;
        self.counts.stored += 1;
        file.page().begin_store();
        let node = around.roster.name(inode.node).map_or("", |name| name.as_str());
        let path = format!("{node}/{}", around.names.text(inode.path));
        Some(Push::Store(NewPage { inode, path, text }))
    }

    /// These pushes are done.
    pub fn pushed(&mut self, pushes: &[Push]) {
        for push in pushes {
            let inode = match push {
                Push::Invalidate(inode) => inode,
                Push::Store(page) => &page.inode,
                Push::Forget(_) | Push::Wake(_) | Push::News(_) => continue,
            };
            if let Some(file) = self.files.get_mut(inode) {
                file.end_push();
            }
        }
    }

    /// A program begins to poll a file: a value that waits because of its length goes now. True when the page cache may still
    /// have the value before.
    pub fn hasten(&mut self, inode: Inode) -> bool {
        if let Some(place) = self.delayed.iter().position(|&delayed| delayed == inode) {
            self.dirty.push(self.delayed.swap_remove(place));
        }
        self.files.get(&inode).is_some_and(ValueFile::is_behind)
    }

    /// Every file.
    pub fn inodes(&self) -> Vec<Inode> {
        self.files.keys().copied().collect()
    }

    /// Files that are served at a rate of their own.
    pub fn rates(&self) -> impl Iterator<Item = (Inode, Place, Rate)> {
        let followed = self.files.iter().filter(|(_, file)| file.is_followed());
        followed.filter_map(|(&inode, file)| file.rate().map(|(place, rate)| (inode, place, rate)))
    }

    /// How many files the page cache follows.
    pub fn followed(&self) -> usize {
        self.files.values().filter(|file| file.is_followed()).count()
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

/// The page cache does not follow a file any more: the kernel has to ask for its size again.
fn stop_following(inode: Inode, file: &mut ValueFile, effects: &mut Effects) -> bool {
    let was_followed = file.stop_following();
    if was_followed {
        effects.forget(inode);
        if file.rate().is_some() {
            effects.change_demand();
        }
    }
    was_followed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::PathId;

    fn value(number: u64) -> Reading {
        Reading::Present(number)
    }

    fn open(files: &mut ValueFiles, path: u32, now: Instant) -> Inode {
        let inode = Inode::plain(NodeId(1), PathId(path));
        let opening =
            Opening { reading: value(1), format: ValueFormat::WHOLE, filter: Filter::default(), rate: None };
        assert_eq!(files.open(inode, opening, now, &mut Effects::default()), Some(false));
        inode
    }

    fn pushes(files: &mut ValueFiles, now: Instant) -> Vec<Push> {
        let (names, roster, polls) = (Names::new(), Roster::new(false), Polls::default());
        files.pushes(&Around { names: &names, roster: &roster, polls: &polls }, now)
    }

    #[test]
    fn a_value_is_stored_while_somebody_reads_and_the_page_is_dropped_when_nobody_does() {
        let (mut files, now) = (ValueFiles::default(), Instant::now());
        let (read, unread) = (open(&mut files, 2, now), open(&mut files, 3, now));
        files.read(read, now);
        assert!(
            files.change(read, value(2), ValueFormat::WHOLE)
                && files.change(unread, value(2), ValueFormat::WHOLE)
        );
        let done = pushes(&mut files, now);
        let stored = NewPage { inode: read, path: "/".to_owned(), text: b"2\n".to_vec() };
        assert_eq!(done, [Push::Store(stored), Push::Invalidate(unread)]);
        assert!(!files.is_dirty());
        files.pushed(&done);
    }

    #[test]
    fn pages_beyond_a_seconds_limit_are_dropped_and_counted() {
        let (mut files, now) = (ValueFiles::default(), Instant::now());
        for path in 0..=STORES_PER_SECOND_MAX as u32 {
            let inode = open(&mut files, path + 2, now);
            files.read(inode, now);
            files.change(inode, value(2), ValueFormat::WHOLE);
        }
        let dropped = pushes(&mut files, now).into_iter().filter(|push| matches!(push, Push::Invalidate(_)));
        assert_eq!((dropped.count(), files.counts().not_stored), (1, 1));
    }

    #[test]
    fn a_closed_file_is_forgotten_and_the_kernel_with_it() {
        let (mut files, now) = (ValueFiles::default(), Instant::now());
        let mut effects = Effects::default();
        let inode = open(&mut files, 2, now);
        assert!(files.close(inode, now, &mut effects));
        assert_eq!(effects.take_pushes(Vec::new()).pushes, [Push::Forget(inode)]);
        assert_eq!(files.expire(now + crate::limits::FILE_LEASE, &mut effects), [], "nobody followed it");
        assert!(files.is_empty());
    }
}
