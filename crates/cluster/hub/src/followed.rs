//! The channels that readers follow here, whatever their door: each once, while it has readers. Hubs below are asked for them
//! (`source/asked.rs`). It knows no nodes, and no rows.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use khz_model::{Choice, Interest};

use crate::cluster::Cluster;
use crate::node::Terms;

/// A channel as its readers have subscribed to it.
#[derive(Debug)]
pub(crate) struct FollowedChannel {
    /// What they subscribe to.
    pub interest: Interest,
    /// Every row at once.
    pub prompt: bool,
    choice: Choice,
}

impl FollowedChannel {
    fn new(interest: Interest, prompt: bool) -> Self {
        FollowedChannel { choice: Choice::new(interest.patterns.clone().into()), interest, prompt }
    }

    /// What its readers subscribe to at this node; `None`: nothing.
    pub fn terms_at(&self, node: &str) -> Option<Terms> {
        let Interest { rate, exact, channel, .. } = &self.interest;
        let speaking = self.choice.speaking(node);
        let pattern =
            |number: &u32| self.choice.patterns().get(*number as usize).map(|one| one.of_any_node());
        (!speaking.is_empty()).then(|| Terms {
            patterns: speaking.iter().filter_map(pattern).collect(),
            rate: Some(*rate),
            exact: *exact,
            prompt: self.prompt,
            channel: channel.clone(),
        })
    }

    /// True if its readers subscribe to the rows of these terms at this node.
    pub fn is_of(&self, terms: &Terms, node: &str) -> bool {
        // Patterns are compared last: that costs most.
        self.interest.channel == terms.channel
            && Some(self.interest.rate) == terms.rate
            && self.terms_at(node).is_some_and(|mine| mine.has_rows_of(terms))
    }
}

/// Who asks a hub below for what is followed here.
pub(crate) trait AsksBelow: Send + Sync {
    /// Something else is followed now. The caller holds no node.
    fn followed(&self);
}

/// All channels that are followed here.
#[derive(Default)]
pub(crate) struct FollowedChannels {
    /// Each with the number of its readers.
    all: Mutex<Vec<(Arc<FollowedChannel>, usize)>>,
    below: Mutex<Vec<Weak<dyn AsksBelow>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FollowedChannels {
    /// All of them, the newest last.
    pub fn all(&self) -> Vec<Arc<FollowedChannel>> {
        lock(&self.all).iter().map(|(channel, _)| channel.clone()).collect()
    }

    /// From now on this hears of changes.
    pub fn tell(&self, below: &Arc<impl AsksBelow + 'static>) {
        let below: Arc<dyn AsksBelow> = below.clone();
        lock(&self.below).push(Arc::downgrade(&below));
    }

    fn add(&self, interest: &Interest, prompt: bool) -> Arc<FollowedChannel> {
        let mut all = lock(&self.all);
        let is_it =
            |one: &&mut (Arc<FollowedChannel>, usize)| one.0.prompt == prompt && one.0.interest == *interest;
        if let Some((channel, readers)) = all.iter_mut().find(is_it) {
            *readers += 1;
            return channel.clone();
        }
        let channel = Arc::new(FollowedChannel::new(interest.clone(), prompt));
        all.push((channel.clone(), 1));
        drop(all);
        self.changed();
        channel
    }

    fn remove(&self, channel: &Arc<FollowedChannel>) {
        let mut all = lock(&self.all);
        let Some(at) = all.iter().position(|(known, _)| Arc::ptr_eq(known, channel)) else { return };
        all[at].1 -= 1;
        if all[at].1 == 0 {
            all.remove(at);
            drop(all);
            self.changed();
        }
    }

    fn changed(&self) {
        let below = {
            let mut below = lock(&self.below);
            below.retain(|one| one.strong_count() > 0);
            below.clone()
        };
        below.iter().filter_map(Weak::upgrade).for_each(|one| one.followed());
    }
}

impl fmt::Debug for FollowedChannels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

/// A reader follows a channel while it has this.
pub(crate) struct Follows {
    cluster: Arc<Cluster>,
    channel: Arc<FollowedChannel>,
}

impl Follows {
    /// One reader more.
    pub fn new(cluster: Arc<Cluster>, interest: &Interest, prompt: bool) -> Self {
        let channel = cluster.followed.add(interest, prompt);
        Follows { cluster, channel }
    }
}

impl Drop for Follows {
    fn drop(&mut self) {
        self.cluster.followed.remove(&self.channel);
    }
}
