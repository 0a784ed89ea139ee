//! The channels of a hub, from its state directory, for its doors and for readers of its link. Errors are logged, and the hub goes
//! on.

use std::sync::Arc;

use khz_channel::Registry;
use khz_hub::{Cluster, KnownChannel, KnownChannels};
use khz_model::{ChannelName, Interest};

use crate::config::Plan;
use crate::role::state_dir;
use crate::show::outcome::sentence;

/// Opens the channels that earlier starts have kept, and the place for more. Without that place, channels end with this process.
pub fn open(plan: &Plan) -> Arc<Registry> {
    let in_memory = || Arc::new(Registry::in_memory());
    let Some(directory) = state_dir::find(plan, "channels will not be kept") else { return in_memory() };
    match Registry::open(&directory) {
        Ok((registry, damage)) => {
            damage.iter().for_each(|sentence| tracing::error!("{sentence}"));
            Arc::new(registry)
        }
        Err(error) => {
            tracing::warn!("channels will not be kept: {}", sentence(&error));
            in_memory()
        }
    }
}

/// Lets readers of the link name these channels, and list them.
pub fn make_known(registry: &Arc<Registry>, cluster: &Cluster) {
    cluster.know_channels(Arc::new(Known(Arc::clone(registry))));
}

/// The channels, as a hub sees them.
struct Known(Arc<Registry>);

impl KnownChannels for Known {
    fn find(&self, name: &ChannelName) -> Option<Interest> {
        Some(self.0.get(name.as_str()).ok()?.interest.clone())
    }

    fn revision(&self) -> u64 {
        self.0.revision()
    }

    fn list(&self) -> Vec<KnownChannel> {
        let channel = |kept: &Arc<khz_channel::Kept>| {
            let (name, json) = (kept.definition.name.clone(), kept.definition.to_json());
            KnownChannel { name, json }
        };
        self.0.list().iter().map(channel).collect()
    }
}
