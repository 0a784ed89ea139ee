//! The state directory of a hub, for what it keeps there. Without one the hub goes on.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_model::Metric;
use khz_model::metric::{Kind, Unit};

use crate::config::{Plan, places};

/// The directory; `None`: there is none, as the setting says, or because no environment variable says where. Then the log says what
/// follows from that: "nodes will not be remembered".
pub fn find(plan: &Plan, consequence: &str) -> Option<PathBuf> {
    places::state_dir(&plan.state_dir).unwrap_or_else(|places::NoStateDir| {
        tracing::warn!("{consequence}: neither HOME nor XDG_STATE_HOME says where; use --state-dir");
        None
    })
}

/// How many of its files were written again, as a metric.
pub fn renewed() -> (Metric, Arc<AtomicU64>) {
    let metric = Metric {
        help: "Files of the state directory that were written again, because somebody had removed or replaced them or the directory."
            .into(),
        ..Metric::plain("khz.state.renewed", "khz_state_renewed_total", Kind::Counter, Unit::Count)
    };
    (metric, khz_state::renewed())
}
