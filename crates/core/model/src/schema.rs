//! The schema: which series the slots of a node hold. Within a generation it only grows: a new NIC appends
//! slots, a removed one goes Absent, and no slot ever changes its meaning.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::metric::Metric;
use crate::name::Instance;
use crate::pattern::Pattern;

/// Most slots of a node: 10,000 interfaces × 16 counters, and half as much again.
pub const SLOTS_MAX: usize = 1 << 18;

/// A metric of one instance.
#[derive(Clone, Debug)]
pub struct Series {
    /// The catalogue entry.
    pub metric: Arc<Metric>,
    /// The instance, for metrics that have instances.
    pub instance: Option<Instance>,
}

impl Series {
    /// True when any of the patterns selects it; ignores their node parts.
    pub fn is_selected(&self, patterns: &[Pattern]) -> bool {
        let is_selected =
            |pattern: &Pattern| pattern.matches_series(&self.metric.name, self.instance.as_ref());
        patterns.iter().any(is_selected)
    }

    /// The name without dots and brackets that the ancestors used: `cpu3user`, `eth0rxbytes`, `memfree`. A
    /// metric named after a CPU state has its instance between `cpu` and the state.
    pub fn flat_name(&self) -> String {
        let Some(instance) = &self.instance else { return self.metric.flat.to_string() };
        let labels = instance.labels().flat_map(|(name, value)| [name, value]);
        let words = std::iter::once(instance.name()).chain(labels);
        let instance: String = words.flat_map(str::chars).filter(char::is_ascii_alphanumeric).collect();
        match self.metric.flat.strip_prefix("cpu") {
            Some(state) if self.metric.instances.as_deref() == Some("cpu") => format!("cpu{instance}{state}"),
            _ => format!("{instance}{}", self.metric.flat),
        }
    }
}

impl PartialEq for Series {
    fn eq(&self, other: &Self) -> bool {
        self.metric.name == other.metric.name && self.instance == other.instance
    }
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.instance {
            Some(instance) => write!(f, "{}[{instance}]", self.metric.name),
            None => f.write_str(&self.metric.name),
        }
    }
}

/// The slots of one lane or source, in order.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    series: Arc<Vec<Series>>,
    /// The slots by the hashes of their series, which stand in the list above alone.
    index: HashTable<u32>,
    hashes: RandomState,
}

impl Schema {
    /// A schema without slots.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// True without slots.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The series of a slot.
    pub fn get(&self, slot: usize) -> Option<&Series> {
        self.series.get(slot)
    }

    /// All series in slot order.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The same for others, who keep them as they are now.
    pub fn shared(&self) -> Arc<Vec<Series>> {
        self.series.clone()
    }

    /// The slot of a series, if it has one.
    pub fn slot(&self, metric: &str, instance: Option<&Instance>) -> Option<u32> {
        let is_it = |&slot: &u32| {
            let series = &self.series[slot as usize];
            series.metric.name == metric && series.instance.as_ref() == instance
        };
        self.index.find(self.hashes.hash_one((metric, instance)), is_it).copied()
    }

    /// Gives the series a slot: its old one if it ever had one, else the next. `None`: [`SLOTS_MAX`] is
    /// reached.
    pub fn append(&mut self, series: Series) -> Option<u32> {
        if let Some(slot) = self.slot(&series.metric.name, series.instance.as_ref()) {
            return Some(slot);
        }
        if self.series.len() >= SLOTS_MAX {
            return None;
        }
        let Schema { series: all, index, hashes } = self;
        let slot = all.len() as u32;
        let hash = |series: &Series| hashes.hash_one((&*series.metric.name, series.instance.as_ref()));
        index.insert_unique(hash(&series), slot, |&slot| hash(&all[slot as usize]));
        Arc::make_mut(all).push(series);
        Some(slot)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::metric::{Exposition, Kind, Origin, Refresh, Unit};
    use crate::value_type::ValueType;

    /// A series whose flat name is its metric's without the dots.
    pub(crate) fn series(name: &str, kind: Option<&str>, instance: Option<&str>) -> Series {
        let text = |text: &str| Cow::Owned(text.to_owned());
        let metric = Metric {
            name: text(name),
            kind: Kind::Gauge,
            unit: Unit::Count,
            value_type: ValueType::Unsigned,
            labels_from: None,
            places: 0,
            max: None,
            refresh: Refresh::Event,
            help: text(""),
            origin: Origin { file: text("x"), field: text("x") },
            instances: kind.map(text),
            exposition: Exposition {
                name: text(name),
                help: None,
                labels: Cow::Borrowed(&[]),
                instance_label: None,
                divisor: 1,
                untyped: false,
            },
            flat: text(&name.replace('.', "")),
        };
        Series {
            metric: Arc::new(metric),
            instance: instance.map(|name| Instance::from_kernel(name.as_bytes())),
        }
    }

    #[test]
    fn a_slot_belongs_to_its_series_for_ever_and_another_instance_has_another() {
        let mut schema = Schema::new();
        assert!(schema.is_empty() && schema.get(0).is_none());
        let all = [
            series("mem.free", None, None),
            series("net.rx", Some("interface"), Some("eth0")),
            series("net.rx", Some("interface"), Some("lo")),
        ];
        for turn in 0..2 {
            for (slot, one) in all.iter().enumerate() {
                assert_eq!(schema.append(one.clone()), Some(slot as u32), "in turn {turn}");
                assert_eq!(schema.slot(&one.metric.name, one.instance.as_ref()), Some(slot as u32));
                assert_eq!(schema.get(slot), Some(one));
            }
        }
        assert_eq!((schema.len(), schema.is_empty(), schema.series().len()), (3, false, 3));
        assert_eq!(schema.slot("net.rx", None), None);
        assert!(all[0] != all[1] && all[1] != all[2]);
        let all = schema.series().iter().zip(0..);
        let select = |text: &str| -> Vec<u32> {
            let patterns = [Pattern::new(text).unwrap()];
            all.clone().filter(|(series, _)| series.is_selected(&patterns)).map(|(_, slot)| slot).collect()
        };
        assert_eq!(
            (select("net.*"), select("*[lo]"), select("mem.*"), select("cpu.*")),
            (vec![1, 2], vec![2], vec![0], vec![])
        );
        assert!(!all.clone().any(|(series, _)| series.is_selected(&[])));
    }

    #[test]
    fn beyond_the_last_slot_new_series_are_refused_and_known_ones_stay() {
        let mut schema = Schema::new();
        let first = series("net.rx", Some("interface"), Some("0"));
        for number in 0..SLOTS_MAX {
            let instance = Some(Instance::from_kernel(number.to_string().as_bytes()));
            assert_eq!(schema.append(Series { metric: first.metric.clone(), instance }), Some(number as u32));
        }
        assert_eq!(schema.append(series("mem.free", None, None)), None);
        assert_eq!((schema.append(first), schema.len()), (Some(0), SLOTS_MAX));
    }

    #[test]
    fn a_flat_name_has_the_labels_after_the_instance() {
        let mut port = series("ib.rx", Some("device"), Some("mlx5_0"));
        let labels = crate::Labels::new([("port", "1")]).unwrap();
        port.instance = port.instance.map(|instance| instance.with_labels(&labels));
        assert_eq!(
            (port.flat_name().as_str(), port.to_string().as_str()),
            ("mlx50port1ibrx", "ib.rx[mlx5_0,port=1]")
        );
    }

    #[test]
    fn a_flat_name_has_its_instance_before_it_and_a_processor_behind_cpu() {
        for (one, flat) in [
            (series("mem.free", None, None), "memfree"),
            (series("net.rx", Some("interface"), Some("eth0.1-a")), "eth01anetrx"),
            (series("cpu.user", Some("cpu"), Some("3")), "cpu3user"),
            (series("cpuset.load", Some("group"), Some("a")), "acpusetload"),
        ] {
            assert_eq!(one.flat_name(), flat, "{one}");
        }
    }
}
