//! The state directory of a hub, for what it keeps there. Without one the hub goes on.

use std::path::PathBuf;

use crate::config::{Plan, places};

/// The directory; `None`: there is none, as the setting says, or because no environment variable says where. Then the log says what
/// follows from that: "nodes will not be remembered".
pub fn find(plan: &Plan, consequence: &str) -> Option<PathBuf> {
    places::state_dir(&plan.state_dir).unwrap_or_else(|places::NoStateDir| {
        tracing::warn!("{consequence}: neither HOME nor XDG_STATE_HOME says where; use --state-dir");
        None
    })
}
