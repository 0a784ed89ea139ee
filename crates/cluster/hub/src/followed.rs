//! The channels that readers follow here, whatever their door: each channel once, while it has readers and for some seconds
//! afterwards, so that a reader that reconnects misses no row. This hub requests them from the hubs below (`source/asked.rs`). It
//! knows no nodes, and no rows.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use khz_model::{Choice, Interest, Nanos};

use crate::clock;
use crate::cluster::Cluster;
use crate::limits::{FOLLOWED_LINGER, FOLLOWED_LINGERING_MAX};
use crate::node::Terms;

/// A channel as its readers have subscribed to it.
#[derive(Debug)]
pub(crate) struct FollowedChannel {
    /// What they subscribe to.
    pub interest: Interest,
    /// Every row at once.
    pub prompt: bool,
    choice: Choice,
    /// The store keeps its rows.
    is_kept: AtomicBool,
}

impl FollowedChannel {
    fn new(interest: Interest, prompt: bool) -> Self {
        let choice = Choice::new(interest.patterns.clone().into());
        FollowedChannel { choice, interest, prompt, is_kept: AtomicBool::new(false) }
    }

    /// True if the store keeps its rows, or did so for another reader of it.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// The subscription of its readers at this node; `None`: they have none.
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
        // Patterns are compared last, because that costs most.
        self.interest.channel == terms.channel
            && Some(self.interest.rate) == terms.rate
            && self.terms_at(node).is_some_and(|mine| mine.has_rows_of(terms))
    }
}

/// Requests the channels that are followed here from a hub below.
pub(crate) trait AsksBelow: Send + Sync {
    /// Something else is followed now. The caller holds no node.
    fn followed(&self);
}

/// A channel with its readers.
struct Followed {
    channel: Arc<FollowedChannel>,
    readers: usize,
    /// When the last of them left.
    left: Nanos,
}

/// All channels that are followed here, and channels whose last reader left a moment ago.
#[derive(Default)]
pub(crate) struct FollowedChannels {
    /// Those without readers stand in the order in which they were left.
    all: Mutex<Vec<Followed>>,
    below: Mutex<Vec<Weak<dyn AsksBelow>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FollowedChannels {
    /// All of them.
    pub fn all(&self) -> Vec<Arc<FollowedChannel>> {
        lock(&self.all).iter().map(|one| one.channel.clone()).collect()
    }

    /// From now on this hears of changes.
    pub fn tell(&self, below: &Arc<impl AsksBelow + 'static>) {
        let below: Arc<dyn AsksBelow> = below.clone();
        lock(&self.below).push(Arc::downgrade(&below));
    }

    fn add(&self, interest: &Interest, prompt: bool) -> Arc<FollowedChannel> {
        let mut all = lock(&self.all);
        let is_it = |one: &&mut Followed| one.channel.prompt == prompt && one.channel.interest == *interest;
        if let Some(one) = all.iter_mut().find(is_it) {
            one.readers += 1;
            return one.channel.clone();
        }
        let channel = Arc::new(FollowedChannel::new(interest.clone(), prompt));
        all.push(Followed { channel: channel.clone(), readers: 1, left: Nanos(0) });
        drop(all);
        self.changed();
        channel
    }

    fn remove(&self, channel: &Arc<FollowedChannel>, now: Nanos) {
        {
            let mut all = lock(&self.all);
            let Some(at) = all.iter().position(|one| Arc::ptr_eq(&one.channel, channel)) else { return };
            all[at].readers -= 1;
            if all[at].readers > 0 {
                return;
            }
            let mut one = all.remove(at);
            one.left = now;
            all.push(one);
        }
        self.end_unread(now);
    }

    /// Ends the channels that have had no reader for a while.
    pub fn end_unread(&self, now: Nanos) {
        let is_asked = !lock(&self.below).is_empty();
        let mut all = lock(&self.all);
        let before = all.len();
        let unread = all.iter().filter(|one| one.readers == 0).count();
        let mut too_many = unread.saturating_sub(if is_asked { FOLLOWED_LINGERING_MAX } else { 0 });
        all.retain(|one| {
            if one.readers > 0 {
                return true;
            }
            let is_over = too_many > 0 || now.since(one.left) >= FOLLOWED_LINGER;
            too_many = too_many.saturating_sub(1);
            !is_over
        });
        let is_other = all.len() < before;
        drop(all);
        if is_other {
            self.changed();
        }
    }

    /// When [`FollowedChannels::end_unread`] has something to end.
    pub fn ends_next(&self) -> Option<Nanos> {
        let all = lock(&self.all);
        all.iter().find(|one| one.readers == 0).map(|one| Nanos(one.left.0 + FOLLOWED_LINGER.0))
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

    /// That reader is the store.
    pub fn keep(&self) {
        self.channel.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Follows {
    fn drop(&mut self) {
        self.cluster.followed.remove(&self.channel, clock::boot());
        self.cluster.ring_door();
    }
}

/// A source for tests, which looks by itself for what is followed.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Looks;

#[cfg(test)]
impl AsksBelow for Looks {
    fn followed(&self) {}
}

#[cfg(test)]
mod tests {
    use khz_model::{Pattern, Rate};

    use super::*;

    fn interest(hz: u64) -> Interest {
        Interest::new(vec![Pattern::everything()], Rate::from_hz(hz).expect("a rate"), false)
    }

    const COME: Nanos = Nanos::from_secs(100);

    #[test]
    fn a_channel_whose_readers_have_gone_is_followed_for_some_seconds_and_is_the_same_for_one_who_comes_back()
    {
        let (followed, below) = (FollowedChannels::default(), Arc::new(Looks));
        followed.tell(&below);
        let one = followed.add(&interest(1), false);
        let two = followed.add(&interest(1), false);
        assert!(Arc::ptr_eq(&one, &two));
        followed.remove(&one, COME);
        assert_eq!((followed.all().len(), followed.ends_next()), (1, None), "it has a reader");
        followed.remove(&one, COME);
        let end = Nanos(COME.0 + FOLLOWED_LINGER.0);
        assert_eq!((followed.all().len(), followed.ends_next()), (1, Some(end)));
        followed.end_unread(Nanos(end.0 - 1));
        assert!(Arc::ptr_eq(&one, &followed.add(&interest(1), false)), "nobody below was asked again");
        followed.end_unread(end);
        assert_eq!((followed.all().len(), followed.ends_next()), (1, None));
        followed.remove(&one, end);
        followed.end_unread(Nanos(end.0 + FOLLOWED_LINGER.0));
        assert!(followed.all().is_empty());
    }

    #[test]
    fn of_many_channels_without_readers_only_the_last_ones_live_on_and_without_a_hub_below_none() {
        let (followed, below) = (FollowedChannels::default(), Arc::new(Looks));
        followed.tell(&below);
        let channels: Vec<_> = (1..=20).map(|hz| followed.add(&interest(hz), false)).collect();
        channels.iter().for_each(|channel| followed.remove(channel, COME));
        let rates: Vec<u64> =
            followed.all().iter().map(|one| 1_000_000_000 / one.interest.rate.period().0).collect();
        assert_eq!(rates, (20 - FOLLOWED_LINGERING_MAX as u64 + 1..=20).collect::<Vec<_>>());
        drop(below);
        let alone = FollowedChannels::default();
        let channel = alone.add(&interest(1), false);
        alone.remove(&channel, COME);
        assert!(alone.all().is_empty() && alone.ends_next().is_none());
    }
}
