//! The items: every series that some node has, with its bit and its flat name. All connections of a door
//! share them. The list only grows: a bit never changes its meaning.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_model::{Kind, Metric, Nanos, Series, Stay};

use crate::gone::Gone;
use crate::limits::{ITEMS_MAX, NAME_BYTES_MAX};

/// A series with its name in the protocol. Its position in the list is its bit.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub series: Series,
    /// A flat name that no other item has.
    pub name: Box<str>,
}

impl Item {
    /// The largest possible value, if there is one.
    pub fn upper(&self) -> Option<u64> {
        self.series.metric.max.filter(|_| self.series.metric.kind == Kind::Gauge)
    }
}

/// A series as a key.
#[derive(Debug, PartialEq)]
struct Key(Series);

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.metric.name.hash(state);
        self.0.instance.hash(state);
    }
}

/// All items.
#[derive(Debug, Default)]
pub(crate) struct Items {
    list: Vec<Item>,
    bits: HashMap<Key, u32>,
    names: HashSet<Box<str>>,
    /// Series that got no bit, because none was left.
    left_out: HashSet<Key>,
    /// Whether each item is still listed.
    stays: Vec<Stay>,
}

impl Items {
    pub fn list(&self) -> &[Item] {
        &self.list
    }

    /// Of the items that are gone, those that are no longer listed.
    pub fn gone_for_long(&mut self, gone: &Gone, now: Nanos) -> Gone {
        self.stays.resize(self.list.len(), Stay::default());
        gone.for_long(&mut self.stays, now)
    }

    /// The bit of a series; assigns one if it has none. `None`: all bits are in use.
    pub fn bit(&mut self, series: &Series) -> Option<u32> {
        let key = Key(series.clone());
        if let Some(&bit) = self.bits.get(&key) {
            return Some(bit);
        }
        if self.list.len() >= ITEMS_MAX {
            if self.left_out.len() < ITEMS_MAX {
                self.left_out.insert(key);
            }
            return None;
        }
        let bit = self.list.len() as u32;
        let name = self.free_name(series);
        self.names.insert(name.clone());
        self.list.push(Item { series: series.clone(), name });
        self.bits.insert(key, bit);
        Some(bit)
    }

    /// How many series have no bit. Beyond twice the limit, further series are no longer counted.
    pub fn left_out(&self) -> u64 {
        self.left_out.len() as u64
    }

    /// The metrics of these items, each once.
    pub fn metrics(&self, bits: impl Iterator<Item = usize>) -> Vec<Arc<Metric>> {
        let mut seen = HashSet::new();
        let metrics = bits.filter_map(|bit| self.list.get(bit)).map(|item| &item.series.metric);
        metrics.filter(|metric| seen.insert(&*metric.name)).cloned().collect()
    }

    /// The series' flat name; if another item has that name, with `_2`, `_3` and so on after it.
    fn free_name(&self, series: &Series) -> Box<str> {
        let flat: String = series.flat_name().chars().take(NAME_BYTES_MAX).collect();
        let numbered = (2u32..).map(|n| format!("{flat}_{n}"));
        let mut names = std::iter::once(flat.clone()).chain(numbered);
        names.find(|name| !self.names.contains(name.as_str())).unwrap_or_default().into()
    }
}

/// The items of a door, which all its connections share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedItems(Arc<Mutex<Items>>);

impl SharedItems {
    pub fn lock(&self) -> MutexGuard<'_, Items> {
        // No code panics while it holds the lock; and even after a panic the list would hold complete items.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use khz_model::{Instance, Refresh, Unit, metric};
    use std::borrow::Cow;

    pub(crate) fn series(name: &'static str, instance: Option<&str>, places: u8) -> Series {
        let text = Cow::Borrowed;
        let metric = Metric {
            name: text(name),
            kind: Kind::Gauge,
            unit: Unit::Count,
            value_type: khz_model::ValueType::Unsigned,
            labels_from: None,
            places,
            max: (name == "percent").then_some(10_000),
            refresh: Refresh::Every(Nanos::SECOND),
            help: text("Help."),
            origin: metric::Origin { file: text("/proc/x"), field: text("x") },
            instances: instance.map(|_| text("cpu")),
            exposition: metric::Exposition {
                name: text("x"),
                help: None,
                labels: Cow::Borrowed(&[]),
                instance_label: None,
                divisor: 1,
                untyped: false,
            },
            flat: Cow::Owned(name.replace('.', "")),
        };
        Series {
            metric: Arc::new(metric),
            instance: instance.map(|name| Instance::from_kernel(name.as_bytes())),
        }
    }

    #[test]
    fn a_series_keeps_its_bit_and_names_that_are_alike_are_told_apart() {
        let mut items = Items::default();
        let bit = |items: &mut Items, name, instance| items.bit(&series(name, instance, 0));
        assert_eq!(bit(&mut items, "mem.free", None), Some(0));
        assert_eq!(bit(&mut items, "cpu.user", Some("3")), Some(1));
        assert_eq!(bit(&mut items, "rx", Some("eth0.1")), Some(2));
        assert_eq!(bit(&mut items, "rx", Some("eth01")), Some(3));
        assert_eq!(bit(&mut items, "mem.free", None), Some(0));
        let names: Vec<&str> = items.list().iter().map(|item| &*item.name).collect();
        assert_eq!(names, ["memfree", "cpu3user", "eth01rx", "eth01rx_2"]);
        assert_eq!(items.metrics([1, 2, 3, 99].into_iter()).len(), 2);
    }

    #[test]
    fn items_beyond_the_limit_are_left_out_and_counted() {
        let mut items = Items::default();
        for n in 0..ITEMS_MAX + 3 {
            let bit = items.bit(&series("rx", Some(&format!("eth{n}")), 0));
            assert_eq!(bit.is_some(), n < ITEMS_MAX);
        }
        assert_eq!((items.list().len(), items.left_out()), (ITEMS_MAX, 3));
    }
}
