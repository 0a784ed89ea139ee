//! The channels that a hub keeps, for readers that name a channel instead of defining it, and for readers that list them. The
//! hub's owner keeps them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use khz_model::{ChannelName, Interest};

/// Who keeps the channels.
pub trait KnownChannels: Send + Sync {
    /// What a channel of this name subscribes to; `None`: there is no such channel.
    fn find(&self, name: &ChannelName) -> Option<Interest>;

    /// Grows with every change of the list, after the change.
    fn revision(&self) -> u64;

    /// All channels, in the order of their names.
    fn list(&self) -> Vec<KnownChannel>;
}

/// A channel in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownChannel {
    /// Its name.
    pub name: String,
    /// Its definition as JSON.
    pub json: String,
}

/// How channels are found, once that is known.
#[derive(Default)]
pub(crate) struct Channels(OnceLock<Arc<dyn KnownChannels>>);

impl Channels {
    /// Only the first call counts.
    pub fn set(&self, kept: Arc<dyn KnownChannels>) {
        let _ = self.0.set(kept);
    }

    /// What a channel subscribes to.
    ///
    /// # Errors
    /// Returns what to say to a reader that named it.
    pub fn find(&self, name: &ChannelName) -> Result<Interest, String> {
        let kept = self.0.get().ok_or("this khz keeps no channels: say what the channel does")?;
        kept.find(name).ok_or_else(|| format!("there is no channel {name}; `khz channel list` shows all"))
    }

    /// See [`KnownChannels::revision`]; 0 while nobody keeps any.
    pub fn revision(&self) -> u64 {
        self.0.get().map_or(0, |kept| kept.revision())
    }

    /// All channels; none while nobody keeps any.
    pub fn list(&self) -> Vec<KnownChannel> {
        self.0.get().map(|kept| kept.list()).unwrap_or_default()
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channels")
    }
}
