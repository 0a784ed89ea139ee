//! The thread that makes the store keep channels. It follows the list of channels, and finds nodes that have come. Complaints of
//! nodes about a channel are logged once.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use khz_channel::Registry;
use khz_hub::{ChannelKeeper, Cluster};
use khz_model::{Interest, Notice};

use crate::show::outcome::Failure;

/// The time between two checks for new nodes, while channels are kept.
const PERIOD: Duration = Duration::from_secs(1);
/// The most remembered complaints, so that none is logged twice. With more, all are forgotten.
const SAID_MAX: usize = 4_096;

/// The running thread. When this is dropped, no channel is kept any more. Received rows are in the store.
pub struct StoredChannels {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StoredChannels {
    /// Starts with the channels of this list that are to be kept.
    pub fn start(registry: Arc<Registry>, cluster: Arc<Cluster>) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let mut keeper = ChannelKeeper::new(cluster);
        // This comes before the subscriptions to other hubs: for kept channels, the hub asks them for the rows since the last
        // start.
        keeper.keep(kept(&registry));
        keeper.tend();
        let thread =
            std::thread::Builder::new().name("kept".into()).spawn(move || run(&registry, keeper, &is_over));
        let thread =
            thread.map_err(|error| Failure::work(format!("cannot start to keep channels: {error}")))?;
        Ok(StoredChannels { stop, thread: Some(thread) })
    }
}

impl Drop for StoredChannels {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}

fn run(registry: &Registry, mut keeper: ChannelKeeper, is_over: &AtomicBool) {
    registry.wake(std::thread::current());
    let (mut revision, mut said, mut is_idle) = (None, HashSet::new(), true);
    while !is_over.load(Ordering::Relaxed) {
        // Read the revision first: a change in between is then seen the next time.
        let now = registry.revision();
        if revision.replace(now) != Some(now) {
            let kept = kept(registry);
            is_idle = kept.is_empty();
            keeper.keep(kept);
        }
        // Nodes that come and go are normal, and logged elsewhere.
        for (channel, notice) in keeper.tend().into_iter().filter(|(_, notice)| notice.change.is_none()) {
            registry.note(channel.as_str(), &notice);
            let sentence = format!("{}: {}: {}", channel, notice.node, notice.text);
            if said.len() >= SAID_MAX {
                said.clear();
            }
            match said.insert(sentence.clone()) {
                true if notice.text == Notice::SENDS_NOW => {
                    tracing::info!("the store keeps channel {sentence}");
                }
                true => tracing::warn!("the store keeps channel {sentence}"),
                false => {}
            }
        }
        match is_idle {
            true => std::thread::park(),
            false => std::thread::park_timeout(PERIOD),
        }
    }
}

/// What the channels that are kept ask of nodes.
fn kept(registry: &Registry) -> Vec<Interest> {
    let all = registry.list();
    all.iter().filter(|kept| kept.definition.keep.is_some()).map(|kept| kept.interest.clone()).collect()
}
