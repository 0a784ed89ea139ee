//! The slots of one kernel file: which slot belongs to which metric of which instance. A slot is assigned
//! once and keeps its meaning until all slots are renewed: an instance that comes back gets its old slots.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Instance, Metric, Nanos, Schema, Series, schema::SLOTS_MAX};

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
    /// In order of first appearance.
    instances: Vec<Known>,
    by_name: HashMap<Box<[u8]>, u32>,
    /// The index of the instance that probably comes next in this parse: the kernel seldom changes their
    /// order.
    expected: usize,
}

/// An instance that has slots.
#[derive(Debug)]
struct Known {
    /// Its name in the kernel's text.
    name: Box<[u8]>,
    /// Its first slot.
    base: u32,
    /// Since when it is known to be gone.
    gone_since: Option<Nanos>,
}

impl Known {
    fn is_gone_for(&self, age: Nanos, now: Nanos) -> bool {
        self.gone_since.is_some_and(|since| now.since(since) >= age)
    }
}

impl Slots {
    pub fn new(file: &'static KernelFile) -> Self {
        let mut schema = Schema::new();
        let mut metrics = file.metrics().into_iter();
        for metric in metrics.by_ref().take(file.scalars.len()) {
            schema.append(Series { metric, instance: None });
        }
        let groups = file.groups.iter().map(|group| GroupSlots {
            metrics: metrics.by_ref().take(group.entries.len()).collect(),
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

    /// The first slot of the instance that the text calls `name`; an unknown one gets new slots, and `instance` says
    /// what it is. `None`: no slots are left.
    pub fn instance(
        &mut self,
        group: usize,
        name: &[u8],
        instance: impl FnOnce() -> Instance,
    ) -> Option<u32> {
        let slots = &mut self.groups[group];
        let is_next = slots.instances.get(slots.expected).is_some_and(|known| *known.name == *name);
        let index =
            if is_next { Some(slots.expected) } else { slots.by_name.get(name).map(|&at| at as usize) };
        if let Some(index) = index {
            slots.expected = index + 1;
            let known = &mut slots.instances[index];
            known.gone_since = None;
            return Some(known.base);
        }
        self.append(group, name, instance())
    }

    #[cold]
    fn append(&mut self, group: usize, name: &[u8], instance: Instance) -> Option<u32> {
        let slots = &mut self.groups[group];
        let base = self.schema.len();
        if base + slots.metrics.len() > SLOTS_MAX {
            return None;
        }
        let instance = (!self.file.groups[group].is_whole()).then_some(instance);
        for metric in &slots.metrics {
            let series = Series { metric: metric.clone(), instance: instance.clone() };
            // Two names that differ only after INSTANCE_MAX bytes would share one instance.
            if self.schema.append(series)? as usize != self.schema.len() - 1 {
                return None;
            }
        }
        slots.by_name.insert(name.into(), slots.instances.len() as u32);
        slots.instances.push(Known { name: name.into(), base: base as u32, gone_since: None });
        slots.expected = slots.instances.len();
        Some(base as u32)
    }

    /// Each instance's group and first slot.
    pub fn instances(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.groups
            .iter()
            .enumerate()
            .flat_map(|(g, group)| group.instances.iter().map(move |known| (g, known.base)))
    }

    /// Notes which instances are gone now, and since when; returns the number of slots of those that have been for
    /// at least `age`.
    pub fn note_gone(&mut self, now: Nanos, age: Nanos, is_gone: impl Fn(u32) -> bool) -> usize {
        let mut slots = 0;
        for group in &mut self.groups {
            for known in &mut group.instances {
                let since = known.gone_since.unwrap_or(now);
                known.gone_since = is_gone(known.base).then_some(since);
                slots += if known.is_gone_for(age, now) { group.metrics.len() } else { 0 };
            }
        }
        slots
    }

    /// Gives the slots back of instances that have been gone for at least `age`: the others get new slots, in the
    /// order of their old ones. Returns the old slot of each slot.
    pub fn renew(&mut self, now: Nanos, age: Nanos) -> Vec<u32> {
        let mut old = std::mem::replace(self, Slots::new(self.file));
        let mut kept: Vec<(usize, Known)> = Vec::new();
        for (number, group) in old.groups.iter_mut().enumerate() {
            let known = group.instances.drain(..).filter(|known| !known.is_gone_for(age, now));
            kept.extend(known.map(|known| (number, known)));
        }
        kept.sort_by_key(|(_, known)| known.base);
        let mut slots: Vec<u32> = (0..self.schema.len() as u32).collect();
        for (number, known) in kept {
            let instance = old.schema.get(known.base as usize).and_then(|series| series.instance.clone());
            let instance = instance.unwrap_or_else(|| Instance::from_kernel(&known.name));
            if self.append(number, &known.name, instance).is_some() {
                let count = self.groups[number].metrics.len() as u32;
                slots.extend(known.base..known.base + count);
                if let Some(new) = self.groups[number].instances.last_mut() {
                    new.gone_since = known.gone_since;
                }
            }
        }
        slots
    }
}
