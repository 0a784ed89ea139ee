//! The channels whose rows the store keeps. The hub follows them itself, so that nodes execute them even if nobody else does. It
//! reads no row: the lanes that serve it go into the log.

use std::sync::Arc;

use khz_model::{ChannelName, Interest, Notice};

use crate::cluster::Cluster;
use crate::cursor::Numbers;
use crate::subscription::{ClusterSubscription, Pace};

/// Follows the channels that the store keeps. When this is dropped, none is kept any more.
pub struct ChannelKeeper {
    cluster: Arc<Cluster>,
    kept: Vec<Kept>,
}

struct Kept {
    interest: Interest,
    /// `None`: there was no room for it. It is tried again.
    subscription: Option<ClusterSubscription>,
}

impl ChannelKeeper {
    /// Keeps no channel so far.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        ChannelKeeper { cluster, kept: Vec::new() }
    }

    /// From now on these channels are kept, and no others.
    pub fn keep(&mut self, wanted: Vec<Interest>) {
        let is_wanted = |kept: &Kept| wanted.contains(&kept.interest);
        // Those that go come first: one that was changed is another one.
        self.kept.retain(is_wanted);
        for interest in wanted {
            if !self.kept.iter().any(|kept| kept.interest == interest) {
                self.kept.push(Kept { interest, subscription: None });
            }
        }
    }

    /// Looks for nodes that have come, and for lanes that have changed: to be called about once a second. Returns what nodes say,
    /// such as why they refuse a channel, and of which; and which rows the store will never have.
    pub fn tend(&mut self) -> Vec<(ChannelName, Notice)> {
        let mut said = Vec::new();
        for kept in &mut self.kept {
            let notices = kept.tend(&self.cluster);
            if let Some(terms) = &kept.interest.channel {
                said.extend(notices.into_iter().map(|notice| (terms.name.clone(), notice)));
            }
        }
        let losses = self.cluster.kept_losses.news();
        let is_kept = |name: &ChannelName| {
            self.kept
                .iter()
                .any(|kept| kept.interest.channel.as_ref().is_some_and(|terms| terms.name == *name))
        };
        said.extend(losses.into_iter().filter(|(channel, _)| is_kept(channel)));
        said
    }
}

impl Kept {
    fn tend(&mut self, cluster: &Arc<Cluster>) -> Vec<Notice> {
        if self.subscription.is_none() {
            // As other readers of the channel ask for it, so that all share one subscription at a node. Rows are numbered by
            // nodes, and not read before somebody wants them, which nobody does.
            let (pace, numbers) = (Pace::Prompt, Numbers::Nodes);
            let begun = ClusterSubscription::begin(cluster.clone(), self.interest.clone(), pace, numbers);
            self.subscription = begun.ok().map(ClusterSubscription::kept);
        }
        self.subscription.as_mut().map(ClusterSubscription::tend).unwrap_or_default()
    }
}
