//! What is to be done after something has happened: pages to be pushed, sleepers to be woken, requests to be looked at
//! again, wishes to be said. It also lets leases run out.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Tree;
use super::pages::Fresh;
use super::wishes::Order;
use crate::inode::{Inode, NodeId};

/// Leases are looked at so often while there are any.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Something for the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// What the page cache has of a file is wrong: the next read fetches it.
    Invalidate(Inode),
    /// The same, and this is what it is to have instead, before somebody reads.
    Store(Fresh),
    /// The page cache of a file is not kept up any more.
    Forget(Inode),
    /// Who sleeps on this.
    Wake(u64),
}

/// What waits to be done.
#[derive(Debug, Default)]
pub struct Work {
    /// For the source, in order.
    pub orders: Vec<Order>,
    /// For the kernel, in order.
    pub pushes: Vec<Push>,
    /// Nodes of which something came: who waits for them is to ask again.
    pub stirred: BTreeSet<NodeId>,
    /// Everybody who waits is to ask again.
    pub all_stirred: bool,
    pub(super) soiled: Vec<Inode>,
    pub(super) wakes: Vec<u64>,
    pub(super) forget: Vec<Inode>,
    pub(super) drops: Vec<Inode>,
    /// Soiled files that wait until then, the first of them.
    held: (Vec<Inode>, Option<Instant>),
    housekeeping: Option<Instant>,
}

impl Work {
    /// A soiled file waits.
    pub(super) fn hold(&mut self, inode: Inode, until: Instant) {
        let (held, first) = &mut self.held;
        held.push(inode);
        *first = Some(first.map_or(until, |first| first.min(until)));
    }
}

impl Tree {
    /// Something of a node came that somebody may wait for.
    pub(super) fn stir(&mut self, id: NodeId) {
        if self.waiting > 0 {
            self.work.stirred.insert(id);
        }
    }

    /// So many requests wait for something.
    pub fn set_waiting(&mut self, requests: usize) {
        self.waiting = requests;
    }

    pub(super) fn stir_all(&mut self) {
        self.work.all_stirred = true;
    }

    /// True when [`Tree::work`] would have something to do at once.
    pub fn has_work(&self) -> bool {
        let Work { orders, soiled, wakes, forget, drops, stirred, all_stirred, .. } = &self.work;
        *all_stirred
            || self.wishes.stale
            || self.settings_seen != self.settings.revision()
            || !(orders.is_empty()
                && soiled.is_empty()
                && wakes.is_empty()
                && forget.is_empty()
                && drops.is_empty()
                && stirred.is_empty())
    }

    /// Takes out what is to be done now.
    pub fn work(&mut self, now: Instant) -> Work {
        self.renew_settings();
        if self.work.housekeeping.is_none_or(|at| now >= at) {
            self.keep_house(now);
        }
        self.renew_wishes();
        let mut work = std::mem::take(&mut self.work);
        self.work.housekeeping = work.housekeeping;
        match work.held.1 {
            Some(until) if now < until => self.work.held = std::mem::take(&mut work.held),
            _ => work.soiled.append(&mut work.held.0),
        }
        work.pushes.extend(work.forget.drain(..).map(Push::Forget));
        work.pushes.extend(work.drops.drain(..).map(Push::Invalidate));
        for inode in work.soiled.drain(..) {
            work.pushes.extend(self.push(inode, now));
        }
        work.pushes.extend(work.wakes.drain(..).map(Push::Wake));
        work
    }

    /// When [`Tree::work`] is to be called next if nothing happens; `None`: nothing is open, nothing is wanted.
    pub fn next_work(&self) -> Option<Instant> {
        let is_asleep = self.files.is_empty()
            && self.roster.is_asleep()
            && self.wishes.count() == 0
            && self.proc.is_asleep()
            && self.nodes.iter().all(|node| node.leased_until.is_none());
        let housekeeping = self.work.housekeeping.filter(|_| !is_asleep);
        [housekeeping, self.work.held.1].into_iter().flatten().min()
    }

    fn keep_house(&mut self, now: Instant) {
        self.work.housekeeping = Some(now + HOUSEKEEPING);
        self.stores = 0;
        let mut ended = false;
        for node in &mut self.nodes {
            if node.leased_until.is_some_and(|until| now >= until) {
                node.leased_until = None;
                ended |= node.handles == 0;
            }
        }
        self.wishes.stale |= ended | self.by.rest(now);
        self.forget_files(now);
        self.rest_texts(now);
        self.rest_roster(now);
    }
}
