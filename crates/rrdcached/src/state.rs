//! What is in memory: files, their samples, what the log must keep for them; takes no locks and does no I/O.

use std::collections::{BTreeMap, HashMap};

use crate::cells::Cells;
use crate::nodes::{Flags, Id, Nodes};
use crate::packed::pack;
use crate::pending::Stats;
use crate::queue::Queue;
use crate::stamp::stamp;
use crate::torn::Torn;

/// Different shapes (readings, step, archives) told apart.
const SHAPES_MAX: usize = 65_535;

/// What matters of a file's definition; most files share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Readings a sample must have.
    pub(super) readings: usize,
    /// Seconds a primary point.
    pub(super) step: u64,
    /// Seconds of the shortest row of several points; 0 for none.
    pub(super) coarse: u64,
}

/// Everything behind the lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) nodes: Nodes,
    pub(super) cells: Cells,
    pub(super) shapes: Vec<Shape>,
    /// Device number of each disk.
    pub(super) disks: Vec<u64>,
    pub(super) queue: Queue,
    /// Files, and writes not yet synced, by the log's oldest segment they need.
    pub(super) holds: BTreeMap<u32, u64>,
    pub(super) replaying: bool,
    /// Taken while replay runs: file, samples, segment.
    pub(super) later: Vec<(Id, String, u32)>,
    /// The newest stamps in them.
    pub(super) later_last: HashMap<Id, i64>,
    /// Headers still to be put back.
    pub(super) torn: Torn,
    /// Samples replay found behind newer ones of their files, by their stamps, with the first one's segment.
    pub(super) early: HashMap<Id, (u32, BTreeMap<i64, String>)>,
    pub(super) stats: Stats,
    /// How many wait for `changed`.
    pub(super) waiters: usize,
    /// The last answer of [`State::age`], and when it was given.
    pub(super) aged: Option<(u32, u32)>,
    pub(super) scratch: Vec<u8>,
    /// Records of what was taken and is not staged yet; empty whenever the lock is free.
    pub(super) records: Vec<u8>,
}

/// What the disk says of a file.
pub(super) struct Look {
    pub(super) last: i64,
    pub(super) shape: Shape,
    pub(super) place: u32,
    pub(super) device: u64,
}

/// Samples taken out of a node.
pub(super) struct Taken {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
    pub(super) oldest: u32,
    pub(super) since: u32,
}

impl State {
    /// Bytes of memory for files and samples.
    pub(super) fn memory(&self) -> u64 {
        self.cells.bytes() + self.nodes.bytes() + self.torn.bytes() + self.later.len() as u64 * 100
    }

    /// How many readings a file's samples must have.
    pub(super) fn readings(&self, id: Id) -> usize {
        self.shapes.get(usize::from(self.nodes[id].shape)).map_or(0, |shape| shape.readings)
    }

    /// Seconds the oldest sample that waits has waited. Looked for once a second at most: it means a look at every
    /// file, and some ask all the time.
    pub(super) fn age(&mut self, now: u32) -> u32 {
        if let Some((_, age)) = self.aged.filter(|(then, _)| *then == now && self.stats.waiting > 0) {
            return age;
        }
        let waiting = self.nodes.ids().map(|id| &self.nodes[id]).filter(|node| node.count > 0);
        let age = waiting.map(|node| now.saturating_sub(node.since)).max().unwrap_or(0);
        self.aged = Some((now, age));
        age
    }

    pub(super) fn learn(&mut self, name: &str, look: &Look) -> Option<Id> {
        let id = self.nodes.find_or_make(name)?;
        let shape = self.shapes.iter().position(|shape| *shape == look.shape).or_else(|| {
            self.shapes.push(look.shape);
            (self.shapes.len() <= SHAPES_MAX).then(|| self.shapes.len() - 1)
        })?;
        let disk = self.disks.iter().position(|device| *device == look.device).unwrap_or_else(|| {
            self.disks.push(look.device);
            self.disks.len() - 1
        });
        let node = &mut self.nodes[id];
        node.shape = shape as u16;
        node.disk = disk.min(255) as u8;
        node.place = look.place;
        if self.replaying {
            // The log may have older ones, which the file may need again.
            let later = self.later_last.entry(id).or_insert(look.last);
            *later = look.last.max(*later);
        } else if look.last > node.last {
            node.last = look.last;
            // The next is no longer told from the last of the chain.
            node.set(Flags::PACKED, false);
        }
        node.written = u32::try_from(look.last / 1_000_000).unwrap_or(0);
        node.set(Flags::KNOWN, true);
        Some(id)
    }

    /// Appends `samples`, known to be newer than all that wait.
    pub(super) fn append(&mut self, id: Id, samples: &str, segment: u32, now: u32) {
        let node = &mut self.nodes[id];
        if node.count == 0 {
            node.since = now;
            node.set(Flags::PACKED, false);
        }
        if node.oldest == 0 && segment != 0 {
            node.oldest = segment;
            *self.holds.entry(segment).or_default() += 1;
        }
        let mut before = node.is(Flags::PACKED).then(|| node.last.div_euclid(1_000_000));
        self.scratch.clear();
        for sample in samples.split(' ').filter(|sample| !sample.is_empty()) {
            before = pack(sample, before, &mut self.scratch);
            node.last = node.last.max(stamp(sample).unwrap_or(node.last));
            node.count += 1;
            self.stats.waiting += 1;
        }
        node.set(Flags::PACKED, before.is_some());
        self.cells.push(&mut node.chain, &self.scratch);
    }

    /// Takes all samples of a file out; its hold on the log goes with them.
    pub(super) fn take_out(&mut self, id: Id) -> Taken {
        let node = &mut self.nodes[id];
        let mut bytes = Vec::new();
        self.cells.read(node.chain, &mut bytes);
        self.cells.clear(&mut node.chain);
        let taken = Taken { bytes, count: node.count, oldest: node.oldest, since: node.since };
        (node.count, node.oldest) = (0, 0);
        taken
    }

    /// Puts samples back in front of what came meanwhile.
    pub(super) fn put_back(&mut self, id: Id, taken: &Taken) {
        let later = self.take_out(id);
        let node = &mut self.nodes[id];
        self.cells.push(&mut node.chain, &taken.bytes);
        self.cells.push(&mut node.chain, &later.bytes);
        node.count = taken.count + later.count;
        node.since = taken.since;
        node.oldest = if taken.oldest == 0 { later.oldest } else { taken.oldest };
        if later.count == 0 {
            // The last of them may be kept as text: the next begins anew.
            node.set(Flags::PACKED, false);
        }
        if taken.oldest != 0 {
            self.let_go(later.oldest);
        }
    }

    /// Drops what waits for a file and all that is known of it.
    pub(super) fn forget(&mut self, id: Id, now: u32) {
        let dropped = self.take_out(id);
        self.let_go(dropped.oldest);
        self.stats.waiting = self.stats.waiting.saturating_sub(u64::from(dropped.count));
        let node = &mut self.nodes[id];
        (node.last, node.since, node.imaged) = (i64::MIN, now, 0);
        node.set(Flags::KNOWN, false);
        node.set(Flags::SUSPENDED, false);
        self.queue.retries.end(id);
    }

    /// One hold less on the log's segment.
    pub(super) fn let_go(&mut self, segment: u32) {
        if let Some(count) = self.holds.get_mut(&segment) {
            *count -= 1;
            if *count == 0 {
                self.holds.remove(&segment);
            }
        }
    }
}
