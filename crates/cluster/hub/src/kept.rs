//! The channels whose rows the store keeps. The hub itself follows them, so that nodes execute them even without a reader. It
//! reads no row: the lanes that serve these channels go into the log.

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
        // Removed channels come first: a changed channel counts as another one.
        self.kept.retain(is_wanted);
        for interest in wanted {
            if !self.kept.iter().any(|kept| kept.interest == interest) {
                self.kept.push(Kept { interest, subscription: None });
            }
        }
    }

    /// Searches for new nodes and changed lanes; call it about once a second. Returns notices of nodes, such as why a node
    /// refuses a channel, and which rows the store will never have.
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
            // The same request as that of other readers of the channel, so that all share one subscription at a node. Nodes
            // number the rows, and a row is only read on demand, which never happens here.
            let (pace, numbers) = (Pace::Prompt, Numbers::Nodes);
            let begun = ClusterSubscription::begin(cluster.clone(), self.interest.clone(), pace, numbers);
            self.subscription = begun.ok().map(ClusterSubscription::kept);
        }
        self.subscription.as_mut().map(ClusterSubscription::tend).unwrap_or_default()
    }
}
