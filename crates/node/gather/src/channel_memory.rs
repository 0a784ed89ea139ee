//! The memory for the handlers of all channels of a node, mostly for windows: one part for readers, one for the hub itself. It also
//! knows whether refused channels may have room now.

use khz_model::{Budget, ByteSize};
use std::sync::Arc;

use crate::handled::WantedBy;

/// What the handlers of all channels that readers follow may hold at a node.
pub const CHANNELS_BYTES: ByteSize = ByteSize(16 << 20);

/// And those of the channels that the hub itself wants, for its store and its rules: the windows of 1,200 series over 5 minutes at
/// 1 Hz fit.
pub const HUB_CHANNELS_BYTES: ByteSize = ByteSize(16 << 20);

/// The memory of channels.
#[derive(Debug)]
pub(crate) struct ChannelMemory {
    readers: Budget,
    hub: Budget,
    /// A lane has lost its last reader, or has ended.
    has_room: bool,
}

impl ChannelMemory {
    pub fn new() -> Self {
        ChannelMemory {
            readers: Budget::new(CHANNELS_BYTES, Arc::default()),
            hub: Budget::new(HUB_CHANNELS_BYTES, Arc::default()),
            has_room: false,
        }
    }

    /// The part from which a channel takes.
    pub fn of(&self, wanted_by: WantedBy) -> &Budget {
        match wanted_by {
            WantedBy::Readers => &self.readers,
            WantedBy::Hub => &self.hub,
        }
    }

    /// The lane of a channel has lost its last reader: its memory may be used for other channels.
    pub fn was_left(&mut self) {
        self.has_room = true;
    }

    /// True once after that.
    pub fn take_room(&mut self) -> bool {
        std::mem::take(&mut self.has_room)
    }
}
