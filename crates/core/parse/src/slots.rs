//! The slots of one kernel file: which slot belongs to which metric of which instance. A slot is assigned
//! once and never changes its meaning: an instance that comes back gets its old slots.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Instance, Metric, Schema, Series, schema::SLOTS_MAX};

use crate::kernel_file::KernelFile;

/// The slots of one kernel file.
#[derive(Debug)]
pub(crate) struct Slots {
    pub file: &'static KernelFile,
    schema: Schema,
    groups: Vec<GroupSlots>,
}

#[derive(Debug)]
struct GroupSlots {
    metrics: Vec<Arc<Metric>>,
    /// In order of first appearance: the instance's name in the kernel's text, and its first slot.
    instances: Vec<(Box<[u8]>, u32)>,
    by_name: HashMap<Box<[u8]>, u32>,
    /// The index of the instance that probably comes next in this parse: the kernel seldom changes their
    /// order.
    expected: usize,
}

impl Slots {
    pub fn new(file: &'static KernelFile) -> Self {
        let mut schema = Schema::new();
        for entry in file.scalars {
            schema.append(Series { metric: entry.metric(file.path, None), instance: None });
        }
        let groups = file.groups.iter().map(|group| GroupSlots {
            metrics: group.entries.iter().map(|e| e.metric(file.path, Some(group.label))).collect(),
            instances: Vec::new(),
            by_name: HashMap::new(),
            expected: 0,
        });
        Slots { file, schema, groups: groups.collect() }
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Begins a new parse.
    pub fn rewind(&mut self) {
        self.groups.iter_mut().for_each(|group| group.expected = 0);
    }

    /// The first slot of an instance; an unknown instance gets new slots. `None`: no slots are left.
    pub fn instance(&mut self, group: usize, name: &[u8]) -> Option<u32> {
        let slots = &mut self.groups[group];
        if let Some((known, base)) = slots.instances.get(slots.expected)
            && **known == *name
        {
            slots.expected += 1;
            return Some(*base);
        }
        if let Some(&index) = slots.by_name.get(name) {
            slots.expected = index as usize + 1;
            return Some(slots.instances[index as usize].1);
        }
        self.append(group, name)
    }

    #[cold]
    fn append(&mut self, group: usize, name: &[u8]) -> Option<u32> {
        let slots = &mut self.groups[group];
        let base = self.schema.len();
        if base + slots.metrics.len() > SLOTS_MAX {
            return None;
        }
        let instance = Instance::from_kernel(name);
        for metric in &slots.metrics {
            let series = Series { metric: metric.clone(), instance: Some(instance.clone()) };
            // Two names that differ only after INSTANCE_MAX bytes would share one instance.
            if self.schema.append(series)? as usize != self.schema.len() - 1 {
                return None;
            }
        }
        slots.by_name.insert(name.into(), slots.instances.len() as u32);
        slots.instances.push((name.into(), base as u32));
        slots.expected = slots.instances.len();
        Some(base as u32)
    }

    /// Each instance's group and first slot.
    pub fn instances(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.groups
            .iter()
            .enumerate()
            .flat_map(|(g, group)| group.instances.iter().map(move |(_, base)| (g, *base)))
    }
}
