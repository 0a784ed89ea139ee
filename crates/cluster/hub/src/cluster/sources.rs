//! The hubs that nodes of this hub come from, directly and through other hubs. It refuses loops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use khz_link::HubName;
use khz_model::Nanos;

/// The sources of a hub.
#[derive(Debug)]
pub(crate) struct Sources {
    /// This hub.
    identity: [u8; 16],
    /// By the source's number: the hub and all hubs that its nodes come from.
    by_number: Mutex<BTreeMap<usize, Vec<[u8; 16]>>>,
    changes: AtomicU64,
    /// By the source's number: when the connection to its hub ended the last time, on the boot clock.
    lost: Mutex<BTreeMap<usize, Nanos>>,
    /// When that was of the last one: 0 if of none.
    last_lost: AtomicU64,
}

impl Sources {
    /// None yet, for the hub of this identity.
    pub fn new(identity: [u8; 16]) -> Self {
        Sources {
            identity,
            by_number: Mutex::default(),
            changes: AtomicU64::new(0),
            lost: Mutex::default(),
            last_lost: AtomicU64::new(0),
        }
    }

    fn by_number(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<[u8; 16]>>> {
        self.by_number.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// All hubs that nodes come from, directly or through others, each once.
    pub fn all(&self) -> Vec<[u8; 16]> {
        let all: BTreeSet<[u8; 16]> = self.by_number().values().flatten().copied().collect();
        all.into_iter().collect()
    }

    /// Counts changes that hubs which read here must learn of.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Sets which hub the source with this number is now. `false`: it is this hub itself, or a hub
    /// that gets nodes from it.
    pub fn set(&self, number: usize, hub: &HubName) -> bool {
        let hubs: Vec<[u8; 16]> = hub.sources.iter().copied().chain([hub.identity]).collect();
        if hubs.contains(&self.identity) {
            return false;
        }
        if self.by_number().insert(number, hubs.clone()) != Some(hubs) {
            self.changes.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// The connection to the hub of this source has ended.
    pub fn lose(&self, number: usize, now: Nanos) {
        self.lost.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(number, now);
        self.last_lost.store(now.0, Ordering::Release);
    }

    /// When each connection to a hub ended the last time; `None`: all of them ended longer ago than this.
    pub fn lost_within(&self, time: Nanos, now: Nanos) -> Option<BTreeMap<usize, Nanos>> {
        let last = Nanos(self.last_lost.load(Ordering::Acquire));
        let is_recent = last > Nanos(0) && now.since(last) < time;
        is_recent.then(|| self.lost.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone())
    }

    /// No nodes come from the source of this number.
    pub fn forget(&self, number: usize) {
        // Hubs that read here need not change: fewer sources make no loop.
        self.by_number().remove(&number);
    }
}
