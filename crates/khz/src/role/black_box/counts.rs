//! What a black box counts, as metrics of the hub.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_model::Metric;
use khz_model::metric::{Kind, Unit};

/// The counts since the hub began.
#[derive(Clone, Default)]
pub struct Counts {
    /// Causes.
    pub asked: Arc<AtomicU64>,
    /// Those that began a freeze.
    pub begun: Arc<AtomicU64>,
    /// Those that joined one.
    pub joined: Arc<AtomicU64>,
    /// Those for which there was no freeze, because there were too many.
    pub refused: Arc<AtomicU64>,
    /// Nodes whose rows are missing in recordings, or a part of them.
    pub missing: Arc<AtomicU64>,
    /// Bytes of all recordings.
    pub bytes: Arc<AtomicU64>,
}

impl Counts {
    /// One more.
    pub fn add(&self, count: &AtomicU64) {
        super::add(count, 1);
    }

    /// All of them.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        let all = [
            (
                "khz.blackbox.causes",
                "khz_blackbox_causes_total",
                Kind::Counter,
                Unit::Count,
                "Causes that asked to freeze rows: commands, actions and programs.",
                &self.asked,
            ),
            (
                "khz.blackbox.freezes",
                "khz_blackbox_freezes_total",
                Kind::Counter,
                Unit::Count,
                "Freezes that were begun.",
                &self.begun,
            ),
            (
                "khz.blackbox.joined",
                "khz_blackbox_joined_total",
                Kind::Counter,
                Unit::Count,
                "Causes that joined a freeze which was being taken.",
                &self.joined,
            ),
            (
                "khz.blackbox.refused",
                "khz_blackbox_refused_total",
                Kind::Counter,
                Unit::Count,
                "Causes for which nothing was frozen, because there were too many freezes.",
                &self.refused,
            ),
            (
                "khz.blackbox.missing",
                "khz_blackbox_missing_nodes_total",
                Kind::Counter,
                Unit::Count,
                "Nodes whose rows are not in the recording of a freeze, or not all of them.",
                &self.missing,
            ),
            (
                "khz.blackbox.bytes",
                "khz_blackbox_bytes",
                Kind::Gauge,
                Unit::Bytes,
                "Bytes of the recordings of all freezes.",
                &self.bytes,
            ),
        ];
        let metric = |(name, exposition, kind, unit, help, count): (
            &'static str,
            &'static str,
            Kind,
            Unit,
            &'static str,
            &Arc<AtomicU64>,
        )| {
            (Metric { help: help.into(), ..Metric::plain(name, exposition, kind, unit) }, count.clone())
        };
        all.into_iter().map(metric).collect()
    }
}
