//! The channels of a hub, from its state directory. What is wrong there is logged, and the hub goes on.

use std::sync::Arc;

use khz_channel::Registry;

use crate::config::Plan;
use crate::role::state_dir;
use crate::show::outcome::sentence;

/// The channels that earlier starts have kept, and a place for more. Without a place they end with this process.
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
