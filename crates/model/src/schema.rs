//! The schema: which series the slots of a node hold. Within a generation it only grows: a new NIC appends
//! slots, a removed one goes Absent, and no slot ever changes its meaning.

use std::collections::HashMap;
use std::sync::Arc;

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
        let instance = self.instance.as_ref().map(Instance::as_str);
        patterns.iter().any(|pattern| pattern.matches_series(&self.metric.name, instance))
    }

    /// The name without dots and brackets that the ancestors used: `cpu3user`, `eth0rxbytes`, `memfree`. A
    /// metric named after a CPU state has its instance between `cpu` and the state.
    pub fn flat_name(&self) -> String {
        let Some(instance) = &self.instance else { return self.metric.flat.to_string() };
        let instance: String = instance.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
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
    series: Vec<Series>,
    index: HashMap<(String, Option<Instance>), u32>,
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

    /// The slot of a series, if it has one.
    pub fn slot(&self, metric: &str, instance: Option<&Instance>) -> Option<u32> {
        self.index.get(&(metric.to_owned(), instance.cloned())).copied()
    }

    /// Gives the series a slot: its old one if it ever had one, else the next. `None`: [`SLOTS_MAX`] is
    /// reached.
    pub fn append(&mut self, series: Series) -> Option<u32> {
        let key = (series.metric.name.to_string(), series.instance.clone());
        if let Some(&slot) = self.index.get(&key) {
            return Some(slot);
        }
        if self.series.len() >= SLOTS_MAX {
            return None;
        }
        let slot = self.series.len() as u32;
        self.index.insert(key, slot);
        self.series.push(series);
        Some(slot)
    }

    /// The slots that any of the patterns selects, in slot order; ignores their node parts.
    pub fn select(&self, patterns: &[Pattern]) -> Vec<u32> {
        let selected = self.series.iter().enumerate().filter(|(_, series)| series.is_selected(patterns));
        selected.map(|(slot, _)| slot as u32).collect()
    }
}
