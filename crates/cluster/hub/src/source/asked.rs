//! What this hub requests from a hub below: everything at the base rate, and the channels that readers follow here. It
//! sends requests, and remembers which of them the hub below refuses as a whole; [`super::NodesBelow`] handles the rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_follow::Subscriber;

use crate::cluster::Cluster;
use crate::followed::{AsksBelow, FollowedChannel};
use crate::node::Terms;

/// A subscription at a hub below.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The base lanes of all its nodes.
    Everything,
    /// A channel that readers follow here.
    Channel(Arc<FollowedChannel>),
}

/// A channel that the hub below was asked for.
#[derive(Debug)]
struct Ask {
    channel: Arc<FollowedChannel>,
    /// The number of the subscription; `None`: it could not be sent.
    number: Option<u32>,
    /// Why no node will send rows of it.
    problem: Option<String>,
}

/// The channels that a hub below was asked for. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<Ask>>>);

impl Asked {
    fn lock(&self) -> MutexGuard<'_, Vec<Ask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests what is followed in this cluster and was not requested yet, and ends requests that are no
    /// longer followed.
    pub fn follow(
        &self,
        cluster: &Cluster,
        mut ask: impl FnMut(&Arc<FollowedChannel>) -> Result<u32, String>,
        mut end: impl FnMut(u32),
    ) {
        let mut all = self.lock();
        // If two threads get here, the later one knows at least as much.
        let followed = cluster.followed.all();
        let is_over = |one: &mut Ask| !followed.iter().any(|channel| Arc::ptr_eq(&one.channel, channel));
        for gone in all.extract_if(.., is_over) {
            gone.number.into_iter().for_each(&mut end);
        }
        for channel in followed {
            let at = all.iter().position(|one| Arc::ptr_eq(&one.channel, &channel));
            if at.is_some_and(|at| all[at].number.is_some()) {
                continue;
            }
            // There may be room now that others have ended.
            let (number, problem) = match ask(&channel) {
                Ok(number) => (Some(number), None),
                Err(problem) => (None, Some(problem)),
            };
            match at {
                Some(at) => (all[at].number, all[at].problem) = (number, problem),
                None => all.push(Ask { channel, number, problem }),
            }
        }
    }

    /// The hub below refuses a channel.
    pub fn refused(&self, channel: &Arc<FollowedChannel>, text: &str) {
        let mut all = self.lock();
        if let Some(one) = all.iter_mut().find(|one| Arc::ptr_eq(&one.channel, channel)) {
            one.problem = Some(text.to_owned());
        }
    }

    /// The connection has ended: the next connection may grant what the hub below refused.
    pub fn forget_refusals(&self) {
        self.lock().iter_mut().filter(|one| one.number.is_some()).for_each(|one| one.problem = None);
    }

    /// True while the hub below is asked for this channel.
    pub fn has(&self, channel: &Arc<FollowedChannel>) -> bool {
        self.lock().iter().any(|one| Arc::ptr_eq(&one.channel, channel))
    }

    /// Why the hub below sends no rows of these terms, whatever the node says; `None`: it may send some.
    pub fn problem(&self, terms: &Terms, node: &str) -> Option<String> {
        let all = self.lock();
        let mut of_terms = all.iter().filter(|one| one.channel.is_of(terms, node)).peekable();
        of_terms.peek()?;
        let problems: Option<Vec<&String>> = of_terms.map(|one| one.problem.as_ref()).collect();
        problems.and_then(|problems| problems.first().map(|&problem| problem.clone()))
    }
}

/// Asks a hub below over its link.
pub(super) struct Asking {
    pub subscriber: Subscriber<Wanted>,
    pub cluster: Arc<Cluster>,
    pub asked: Asked,
}

impl AsksBelow for Asking {
    fn followed(&self) {
        let ask = |channel: &Arc<FollowedChannel>| {
            let wanted = Wanted::Channel(channel.clone());
            let sent = self.subscriber.subscribe(&channel.interest, channel.prompt, wanted);
            sent.map_err(|error| error.to_string())
        };
        self.asked.follow(&self.cluster, ask, |number| self.subscriber.unsubscribe(number));
    }
}
