//! What the evaluation of rules counts, as the daemon's own numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::Metric;
use khz_model::metric::{Kind, Unit};
use khz_rules::Pass;

/// The numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    evaluations: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
    pub missed: Arc<AtomicU64>,
    pub refused: Arc<AtomicU64>,
    pub firing: Arc<AtomicU64>,
    pub pending: Arc<AtomicU64>,
    pub texts: Arc<AtomicU64>,
    bare: Arc<AtomicU64>,
    pub unsaved: Arc<AtomicU64>,
    pub adopted: Arc<AtomicU64>,
    pub silent: Arc<AtomicU64>,
}

impl Numbers {
    /// A group was evaluated.
    pub fn evaluated(&self, pass: &Pass) {
        let failed = pass.rules.iter().filter(|report| report.error.is_some()).count();
        self.evaluations.fetch_add(pass.rules.len() as u64, Ordering::Relaxed);
        self.failures.fetch_add(failed as u64, Ordering::Relaxed);
        let bare: usize = pass.rules.iter().map(|report| report.bare).sum();
        self.bare.fetch_add(bare as u64, Ordering::Relaxed);
    }

    /// Each with its metric.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        use Kind::{Counter, Gauge};
        let metric = |name: &'static str, exposition: &'static str, help: &'static str, kind| Metric {
            help: help.into(),
            ..Metric::plain(name, exposition, kind, Unit::Count)
        };
        let texts = Metric {
            help: "Bytes of the annotations of all alerts.".into(),
            ..Metric::plain("khz.rules.annotations", "khz_rules_annotations_bytes", Gauge, Unit::Bytes)
        };
        [
            (
                "khz.rules.evaluations",
                "khz_rules_evaluations_total",
                "Rules that were evaluated.",
                Counter,
                &self.evaluations,
            ),
            (
                "khz.rules.failures",
                "khz_rules_failures_total",
                "Evaluations of rules that failed.",
                Counter,
                &self.failures,
            ),
            (
                "khz.rules.missed",
                "khz_rules_missed_total",
                "Evaluations of groups that were left out because the ones before took too long.",
                Counter,
                &self.missed,
            ),
            (
                "khz.rules.samples_refused",
                "khz_rules_samples_refused_total",
                "Samples of rules that could not be recorded.",
                Counter,
                &self.refused,
            ),
            ("khz.rules.firing", "khz_rules_firing", "Alerts that fire.", Gauge, &self.firing),
            ("khz.rules.pending", "khz_rules_pending", "Alerts that do not fire yet.", Gauge, &self.pending),
            (
                "khz.rules.annotations_dropped",
                "khz_rules_annotations_dropped_total",
                "Alerts that an evaluation left without annotations, since there were too many bytes of these.",
                Counter,
                &self.bare,
            ),
            (
                "khz.rules.unsaved",
                "khz_rules_unsaved",
                "Alerts that are not in the file of alerts: there was no room for them in it, or it could not be written.",
                Gauge,
                &self.unsaved,
            ),
            (
                "khz.rules.adopted",
                "khz_rules_adopted_total",
                "Alerts of another hub that this one went on with.",
                Counter,
                &self.adopted,
            ),
            (
                "khz.rules.peers_silent",
                "khz_rules_peers_silent",
                "Hubs of [[rules_peer]] that do not answer.",
                Gauge,
                &self.silent,
            ),
        ]
        .into_iter()
        .map(|(name, exposition, help, kind, number)| (metric(name, exposition, help, kind), number.clone()))
        .chain([(texts, self.texts.clone())])
        .collect()
    }
}
