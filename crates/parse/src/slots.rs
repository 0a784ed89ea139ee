//! Which slot belongs to which metric of which instance of one kernel file. Slots are handed out once and
//! never change their meaning: an instance that comes back finds its old ones.

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
    /// In order of first appearance: the instance's name as the kernel prints it, and its first slot.
    instances: Vec<(Box<[u8]>, u32)>,
    by_name: HashMap<Box<[u8]>, u32>,
    /// Where the next instance of this parse is expected: the kernel seldom changes their order.
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

    /// A new parse begins.
    pub fn rewind(&mut self) {
        self.groups.iter_mut().for_each(|group| group.expected = 0);
    }

    /// The first slot of an instance; new slots when it was never seen. `None`: the slots are used up.
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
            // Two names that differ only behind INSTANCE_MAX bytes would share one instance.
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
