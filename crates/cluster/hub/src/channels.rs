//! The channels that a hub keeps, for readers that name one instead of saying what it does. The hub's owner keeps them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use khz_model::{ChannelName, Interest};

/// Finds what a channel of this name subscribes to; `None`: there is no such channel.
pub type FindChannel = dyn Fn(&ChannelName) -> Option<Interest> + Send + Sync;

/// How channels are found, once that is known.
#[derive(Default)]
pub(crate) struct Channels(OnceLock<Arc<FindChannel>>);

impl Channels {
    /// Only the first call counts.
    pub fn set(&self, find: Arc<FindChannel>) {
        let _ = self.0.set(find);
    }

    /// What a channel subscribes to.
    ///
    /// # Errors
    /// Returns what to say to a reader that named it.
    pub fn find(&self, name: &ChannelName) -> Result<Interest, String> {
        let find = self.0.get().ok_or("this khz keeps no channels: say what the channel does")?;
        find(name).ok_or_else(|| format!("there is no channel {name}; `khz channel list` shows all"))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channels")
    }
}
