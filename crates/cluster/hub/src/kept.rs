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
    /// The one before this one, whose lanes go on in this one: the store keeps them until this one has them.
    before: Option<ClusterSubscription>,
}

impl ChannelKeeper {
    /// Keeps no channel so far.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        ChannelKeeper { cluster, kept: Vec::new() }
    }

    /// From now on these channels are kept, and no others.
    pub fn keep(&mut self, wanted: Vec<Interest>) {
        // Removed channels come first: a changed channel counts as another one.
        let before = std::mem::take(&mut self.kept);
        let (kept, mut removed): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|kept| wanted.contains(&kept.interest));
        removed.retain(|kept| wanted.iter().any(|interest| stays_in_lane(&kept.interest, interest)));
        self.kept = kept;
        for interest in wanted {
            if !self.kept.iter().any(|kept| kept.interest == interest) {
                let before = removed.iter().position(|kept| stays_in_lane(&kept.interest, &interest));
                let before = before.and_then(|at| removed.swap_remove(at).subscription);
                self.kept.push(Kept { interest, subscription: None, before });
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
        let notices = self.subscription.as_mut().map(ClusterSubscription::tend).unwrap_or_default();
        if self.subscription.as_ref().is_none_or(ClusterSubscription::is_served) {
            self.before = None;
        }
        notices
    }
}

/// True if the rows of a changed channel come in the same lanes as before: another program is executed for the same series.
fn stays_in_lane(before: &Interest, now: &Interest) -> bool {
    let of_program = |interest: &Interest| {
        let terms = interest.channel.as_ref().filter(|terms| khz_plan::is_program(&terms.handler));
        terms.map(|terms| terms.name.clone())
    };
    of_program(before).is_some_and(|name| of_program(now) == Some(name))
        && (before.rate, before.exact) == (now.rate, now.exact)
        && before.patterns == now.patterns
}
