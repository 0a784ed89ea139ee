//! What a store counts beside its log, as the daemon's own numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::Metric;
use khz_model::metric::{Kind, Unit};
use khz_store::Store;

/// The numbers. They are renewed when the store has worked, the bytes with each commit.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// 1: there is a store.
    pub is_open: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    packed: Arc<AtomicU64>,
    too_old: Arc<AtomicU64>,
    too_new: Arc<AtomicU64>,
    removed: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
    /// What range queries hold; they count it themselves.
    pub range_bytes: Arc<AtomicU64>,
    /// Bytes of the log when they were counted last.
    log: AtomicU64,
}

const OPEN: &str = "khz.store.open";

/// What a daemon tells that should have a store and has none.
pub(super) fn of_none() -> Vec<(Metric, Arc<AtomicU64>)> {
    let mut metrics = Numbers::default().metrics();
    metrics.retain(|(metric, _)| metric.name == OPEN);
    metrics
}

impl Numbers {
    /// Takes them over from the store.
    pub fn count(&self, store: &Store) {
        let counts = store.counts();
        self.count_bytes(store);
        for (number, count) in [
            (&self.packed, &counts.rows),
            (&self.too_old, &counts.rows_too_old),
            (&self.too_new, &counts.rows_too_new),
            (&self.removed, &counts.removed),
            (&self.failures, &counts.failures),
        ] {
            number.store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Takes over the size of the store.
    pub fn count_bytes(&self, store: &Store) {
        self.bytes.store(store.bytes(), Ordering::Relaxed);
    }

    /// True if the store has another size than at the last call: rows have come.
    pub fn rows_come(&self, store: &Store) -> bool {
        let bytes = store.bytes();
        self.log.swap(bytes, Ordering::Relaxed) != bytes
    }

    /// Each with its metric.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        use Kind::{Counter, Gauge};
        use Unit::{Bytes, Count};
        let metric = |name: &'static str, exposition: &'static str, help: &'static str, kind, unit| Metric {
            help: help.into(),
            ..Metric::plain(name, exposition, kind, unit)
        };
        vec![
            (
                metric(
                    OPEN,
                    "khz_store_open",
                    "1: the store is open; 0: it could not be opened, and nothing is stored until the next start.",
                    Gauge,
                    Count,
                ),
                self.is_open.clone(),
            ),
            (
                metric(
                    "khz.store.bytes",
                    "khz_store_bytes",
                    "Bytes that the store has on disk.",
                    Gauge,
                    Bytes,
                ),
                self.bytes.clone(),
            ),
            (
                metric(
                    "khz.store.rows_packed",
                    "khz_store_rows_packed_total",
                    "Rows of the log that were made columns of.",
                    Counter,
                    Count,
                ),
                self.packed.clone(),
            ),
            (
                metric(
                    "khz.store.rows_too_old",
                    "khz_store_rows_too_old_total",
                    "Rows that were not kept because they are older than what the store keeps.",
                    Counter,
                    Count,
                ),
                self.too_old.clone(),
            ),
            (
                metric(
                    "khz.store.rows_too_new",
                    "khz_store_rows_too_new_total",
                    "Rows that were not kept because their time is more than an hour ahead.",
                    Counter,
                    Count,
                ),
                self.too_new.clone(),
            ),
            (
                metric(
                    "khz.store.removed",
                    "khz_store_removed_total",
                    "Hours, days and months, or parts of them, that were removed because they were too old or there was no room.",
                    Counter,
                    Count,
                ),
                self.removed.clone(),
            ),
            (
                metric(
                    "khz.store.compaction_failures",
                    "khz_store_compaction_failures_total",
                    "Times that columns could not be made or removed.",
                    Counter,
                    Count,
                ),
                self.failures.clone(),
            ),
            (
                metric(
                    "khz.store.range_bytes",
                    "khz_store_range_bytes",
                    "Bytes that range queries hold now; at 256 MiB the next one is refused.",
                    Gauge,
                    Bytes,
                ),
                self.range_bytes.clone(),
            ),
        ]
    }
}
