//! The counts of doors and their catalogue entries, so that the gatherer can publish them like every other
//! metric. This file publishes nothing itself.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::{Kind, Metric, Unit};

/// Defines a struct `Counters` with the counts of the named door, each with its catalogue entry.
#[macro_export]
macro_rules! counters {
    ($door:literal; $($field:ident: $kind:ident, $help:literal;)*) => {
        /// Counts of one door; clones share the same numbers.
        #[derive(Clone, Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $field: ::std::sync::Arc<::std::sync::atomic::AtomicU64>,)*
        }

        impl Counters {
            /// The catalogue entry of every count, with the count: `khz.DOOR.<field>`, exposed as
            /// `khz_DOOR_<field>` (with `_total` for counters).
            pub fn metrics(&self) -> Vec<(::khz_model::Metric, ::std::sync::Arc<::std::sync::atomic::AtomicU64>)> {
                vec![$((
                    $crate::counts::entry($door, stringify!($field), ::khz_model::Kind::$kind, $help),
                    ::std::sync::Arc::clone(&self.$field),
                ),)*]
            }
        }
    };
}

/// Adds one.
pub fn count(counter: &AtomicU64) {
    count_n(counter, 1);
}

/// Adds `n`.
pub fn count_n(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Raises a gauge by one until it is dropped.
#[derive(Debug)]
pub struct Held(Arc<AtomicU64>);

impl Held {
    /// Raises the gauge by one.
    pub fn new(gauge: &Arc<AtomicU64>) -> Self {
        count(gauge);
        Held(Arc::clone(gauge))
    }

    /// The same, unless the gauge is already at `limit`.
    pub fn below(gauge: &Arc<AtomicU64>, limit: usize) -> Option<Self> {
        let raise = |n: u64| (n < limit as u64).then_some(n + 1);
        gauge.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise).ok()?;
        Some(Held(Arc::clone(gauge)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The catalogue entry of one count.
pub fn entry(door: &str, field: &str, kind: Kind, help: &'static str) -> Metric {
    let total = if kind == Kind::Counter { "_total" } else { "" };
    let unit = if field.ends_with("_bytes") { Unit::Bytes } else { Unit::Count };
    let (name, exposed) = (format!("khz.{door}.{field}"), format!("khz_{door}_{field}{total}"));
    Metric { help: Cow::Borrowed(help), ..Metric::plain(name, exposed, kind, unit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_gauge_falls_when_its_holder_goes_and_never_passes_its_limit() {
        let gauge = Arc::new(AtomicU64::new(0));
        let first = Held::below(&gauge, 1);
        assert!(first.is_some() && Held::below(&gauge, 1).is_none());
        drop(first);
        assert_eq!(gauge.load(Ordering::Relaxed), 0);
    }
}
