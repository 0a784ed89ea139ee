//! The room that alerts of rules take, and may take: a hub has one room for all its rules. It only counts.

use crate::limits::{HUB_ALERTS_MAX, HUB_TEXTS_BYTES_MAX};

/// What alerts take, or may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Active alerts.
    pub alerts: usize,
    /// Bytes of their annotations.
    pub texts: usize,
}

impl Room {
    /// What all alerts of a hub together may take.
    pub const OF_HUB: Room = Room { alerts: HUB_ALERTS_MAX, texts: HUB_TEXTS_BYTES_MAX };

    /// The rest of this room beside another one.
    #[must_use]
    pub fn beside(self, other: Room) -> Room {
        let alerts = self.alerts.saturating_sub(other.alerts);
        Room { alerts, texts: self.texts.saturating_sub(other.texts) }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Room) -> Room {
        let alerts = self.alerts.saturating_add(other.alerts);
        Room { alerts, texts: self.texts.saturating_add(other.texts) }
    }
}
