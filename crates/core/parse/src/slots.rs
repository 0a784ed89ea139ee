//! The slots of one kernel file: which slot belongs to which metric of which instance. A slot is assigned
//! once and keeps its meaning until all slots are renewed: an instance that comes back gets its old slots. Series whose names the
//! text gives are in a group of their own, each with one slot.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use khz_model::{Instance, Metric, Nanos, Schema, Series, schema::SLOTS_MAX};

use crate::kernel_file::KernelFile;
use crate::own_source::is_own;
use crate::survey::NO_INSTANCE;

/// The most bytes of names and labels that the series of one source have: half of the limit for the schema of a lane, so that the
/// series of other sources have room. 10,000 interfaces take half of it.
pub const SOURCE_NAMES_MAX: usize = 8 << 20;

/// What a slot takes in a schema besides the bytes of its instance, and a metric besides its texts.
const SLOT_BYTES: usize = 8;
const METRIC_BYTES: usize = 128;

/// The slots of one kernel file.
#[derive(Debug)]
pub(crate) struct Slots {
    pub file: &'static KernelFile,
    schema: Schema,
    /// Bytes of names and labels: of all instances, and of the instances that were long gone at the last call of
    /// `note_gone`.
    names: usize,
    names_gone: usize,
    /// Those of the file, and one more if the text gives names. `None` before the first instance: most hosts have no instances of
    /// most groups.
    groups: Box<[Option<Box<GroupSlots>>]>,
    /// The name that was new last, and its instance: the next group of such a line shares them.
    newest: Option<(Arc<[u8]>, Instance)>,
}

#[derive(Debug)]
struct GroupSlots {
    /// None in the group of given series: each has its own.
    metrics: Vec<Arc<Metric>>,
    /// In order of first appearance.
    instances: Vec<Known>,
    /// The indices of the instances, by the hashes of their names.
    by_name: HashTable<u32>,
    hashes: RandomState,
    /// Further names of given series.
    aliases: HashMap<Box<[u8]>, u32>,
    /// The index of the instance that probably comes next in this parse: the kernel seldom changes their
    /// order.
    expected: usize,
}

/// An instance that has slots.
#[derive(Debug)]
struct Known {
    /// Its name in the kernel's text.
    name: Arc<[u8]>,
    /// Its first slot.
    base: u32,
    /// What its slots take in a schema.
    bytes: u32,
    /// Since when it is known to be gone.
    gone_since: Option<Nanos>,
}

impl Known {
    fn is_gone_for(&self, age: Nanos, now: Nanos) -> bool {
        self.gone_since.is_some_and(|since| now.since(since) >= age)
    }
}

impl GroupSlots {
    fn new(metrics: Vec<Arc<Metric>>) -> Self {
        GroupSlots {
            metrics,
            instances: Vec::new(),
            by_name: HashTable::new(),
            hashes: RandomState::new(),
            aliases: HashMap::new(),
            expected: 0,
        }
    }

    /// The slots of an instance.
    fn width(&self) -> usize {
        self.metrics.len().max(1)
    }

    /// The first slot of the instance of this name, if it has one: usually it is the slot after the last one found.
    fn find(&mut self, name: &[u8]) -> Option<u32> {
        let is_next = self.instances.get(self.expected).is_some_and(|known| *known.name == *name);
        let index = if is_next { self.expected } else { self.index_of(name)? };
        self.expected = index + 1;
        let known = &mut self.instances[index];
        known.gone_since = None;
        Some(known.base)
    }

    fn index_of(&self, name: &[u8]) -> Option<usize> {
        let is_it = |&index: &u32| *self.instances[index as usize].name == *name;
        let index =
            self.by_name.find(self.hashes.hash_one(name), is_it).or_else(|| self.aliases.get(name))?;
        Some(*index as usize)
    }

    fn append(&mut self, name: Arc<[u8]>, base: u32, bytes: usize) {
        let GroupSlots { instances, by_name, hashes, .. } = self;
        let (index, hash) = (instances.len() as u32, hashes.hash_one(&*name));
        instances.push(Known { name, base, bytes: bytes as u32, gone_since: None });
        by_name.insert_unique(hash, index, |&index| hashes.hash_one(&*instances[index as usize].name));
        self.expected = self.instances.len();
    }
}

impl Slots {
    pub fn new(file: &'static KernelFile) -> Self {
        let mut schema = Schema::new();
        for metric in file.scalar_metrics() {
            schema.append(Series { metric, instance: None });
        }
        let groups = file.groups.len() + usize::from(file.prefix().is_some());
        let groups = (0..groups).map(|_| None).collect();
        Slots { file, schema, names: 0, names_gone: 0, groups, newest: None }
    }

    /// Gives a source of a configuration without instances its slot before its file exists: the author of the configuration will ask
    /// for it by name.
    pub fn expect_own(&mut self) {
        if !is_own(self.file) {
            return;
        }
        let name = NO_INSTANCE.as_bytes();
        for number in (0..self.file.groups.len()).filter(|number| self.file.groups[*number].is_whole()) {
            self.append(number, name, Instance::from_kernel(name));
        }
    }

    /// The group's slots, if it has had an instance.
    fn known(&mut self, group: usize) -> Option<&mut GroupSlots> {
        self.groups.get_mut(group)?.as_deref_mut()
    }

    /// The group's slots.
    fn group(&mut self, number: usize) -> &mut GroupSlots {
        let Slots { file, groups, .. } = self;
        let metrics = || match number < file.groups.len() {
            true => file.group_metrics(number).collect(),
            false => Vec::new(),
        };
        groups[number].get_or_insert_with(|| Box::new(GroupSlots::new(metrics())))
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Begins a new parse.
    pub fn rewind(&mut self) {
        self.groups.iter_mut().flatten().for_each(|group| group.expected = 0);
    }

    /// The first slot of the instance that the text calls `name`; an unknown one gets new slots, and `instance` says
    /// what it is. `None`: no slots are left, or no room for names.
    pub fn instance(
        &mut self,
        group: usize,
        name: &[u8],
        instance: impl FnOnce() -> Instance,
    ) -> Option<u32> {
        match self.known(group).and_then(|group| group.find(name)) {
            Some(base) => Some(base),
            None => self.append(group, name, instance()),
        }
    }

    /// True if the instance that the text calls `name` has slots.
    pub fn has(&self, group: usize, name: &[u8]) -> bool {
        self.groups.get(group).and_then(Option::as_ref).is_some_and(|group| group.index_of(name).is_some())
    }

    /// The slot of the series that the text calls `name`; an unknown one gets a new slot, and `series` says what it is. `None`: no
    /// slot is left, or no such series is possible.
    pub fn given(&mut self, name: &[u8], series: impl FnOnce() -> Option<Series>) -> Option<u32> {
        match self.known(self.file.groups.len()).and_then(|group| group.find(name)) {
            Some(slot) => Some(slot),
            None => self.append_given(name, series()?),
        }
    }

    #[cold]
    fn append_given(&mut self, name: &[u8], mut series: Series) -> Option<u32> {
        // The series of a name stand together: they share its metric.
        if let Some(last) = self.schema.series().last()
            && *last.metric == *series.metric
        {
            series.metric = last.metric.clone();
        }
        let is_of_last =
            self.schema.series().last().is_some_and(|last| Arc::ptr_eq(&last.metric, &series.metric));
        let bytes = bytes_of(&series) + if is_of_last { 0 } else { bytes_of_metric(&series.metric) };
        self.room_for(bytes)?;
        let (count, slot) = (self.schema.len(), self.schema.append(series)?);
        let given = self.group(self.file.groups.len());
        if slot as usize == count {
            given.append(name.into(), slot, bytes);
            self.names += bytes;
        } else {
            // The text may call one series by several names.
            let index = given.instances.iter().position(|known| known.base == slot)?;
            given.aliases.insert(name.into(), index as u32);
            given.instances[index].gone_since = None;
        }
        Some(slot)
    }

    #[cold]
    fn append(&mut self, number: usize, name: &[u8], instance: Instance) -> Option<u32> {
        let (name, instance) = self.shared_with_newest(name, instance);
        let base = self.schema.len();
        let metrics = self.group(number).metrics.clone();
        if base + metrics.len() > SLOTS_MAX {
            return None;
        }
        let bytes = metrics.len() * (instance.bytes() + SLOT_BYTES);
        self.room_for(bytes)?;
        let instance = (!self.file.groups[number].is_whole()).then_some(instance);
        for metric in metrics {
            let series = Series { metric, instance: instance.clone() };
            // Two names that differ only after INSTANCE_MAX bytes would share one instance.
            if self.schema.append(series)? as usize != self.schema.len() - 1 {
                return None;
            }
        }
        self.group(number).append(name, base as u32, bytes);
        self.names += bytes;
        Some(base as u32)
    }

    /// `None`: the names would have more bytes than they may.
    fn room_for(&self, bytes: usize) -> Option<()> {
        (self.names + bytes <= SOURCE_NAMES_MAX).then_some(())
    }

    /// Bytes of names and labels: of all instances, and of the instances that the last [`Slots::note_gone`]
    /// counted.
    pub fn names(&self) -> (usize, usize) {
        (self.names, self.names_gone)
    }

    /// The same name and instance. If they are equal to the newest ones, they share the memory.
    fn shared_with_newest(&mut self, name: &[u8], instance: Instance) -> (Arc<[u8]>, Instance) {
        match &self.newest {
            Some(newest) if *newest.0 == *name && newest.1 == instance => newest.clone(),
            _ => self.newest.insert((name.into(), instance)).clone(),
        }
    }

    /// The group of each instance and its slots. The group of given series comes after those of the file.
    pub fn instances(&self) -> impl Iterator<Item = (usize, Range<u32>)> + '_ {
        let slots = |group: &GroupSlots, known: &Known| known.base..known.base + group.width() as u32;
        let known = self.groups.iter().enumerate().filter_map(|(g, group)| Some((g, group.as_deref()?)));
        known.flat_map(move |(g, group)| group.instances.iter().map(move |known| (g, slots(group, known))))
    }

    /// Notes which instances are gone now, and since when; returns the number of slots of instances that have been
    /// gone for at least `age`.
    pub fn note_gone(&mut self, now: Nanos, age: Nanos, is_gone: impl Fn(u32) -> bool) -> usize {
        let mut slots = 0;
        self.names_gone = 0;
        for group in self.groups.iter_mut().flatten() {
            let width = group.width();
            for known in &mut group.instances {
                let since = known.gone_since.unwrap_or(now);
                known.gone_since = is_gone(known.base).then_some(since);
                if known.is_gone_for(age, now) {
                    slots += width;
                    self.names_gone += known.bytes as usize;
                }
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
            let Some(group) = group else { continue };
            let known = group.instances.drain(..).filter(|known| !known.is_gone_for(age, now));
            kept.extend(known.map(|known| (number, known)));
        }
        kept.sort_by_key(|(_, known)| known.base);
        let mut slots: Vec<u32> = (0..self.schema.len() as u32).collect();
        for (number, known) in kept {
            let Some(series) = old.schema.get(known.base as usize).cloned() else { continue };
            let slot = if number == self.file.groups.len() {
                self.append_given(&known.name, series)
            } else {
                let instance = series.instance.unwrap_or_else(|| Instance::from_kernel(&known.name));
                self.append(number, &known.name, instance)
            };
            if slot.is_some() {
                let group = self.group(number);
                slots.extend(known.base..known.base + group.width() as u32);
                if let Some(new) = group.instances.last_mut() {
                    new.gone_since = known.gone_since;
                }
            }
        }
        slots
    }
}

/// What a series takes in a schema whose metric is known.
fn bytes_of(series: &Series) -> usize {
    series.instance.as_ref().map_or(0, Instance::bytes) + SLOT_BYTES
}

/// What a metric takes in a schema.
fn bytes_of_metric(metric: &Metric) -> usize {
    metric.name.len() + metric.exposition.name.len() + metric.help.len() + METRIC_BYTES
}
