//! The memory for all lanes that readers open, channels included: it decides whether one more lane fits, and how long the ring of each
//! lane may be. It opens and closes no lane.

use std::sync::{Arc, Weak};

use khz_model::{ByteSize, QueryError};
use khz_ring::MEMORY_PAGE_BYTES;

use crate::lane::LaneView;
use crate::plan::RingSize;

/// These lanes have this part of the rings' memory; the plan's lanes have the rest.
const PART: u64 = 4;

/// But at least this much: a lane of 64,000 series fits, which takes two thirds of it.
pub const LANES_BYTES_MIN: ByteSize = ByteSize(16 << 20);

/// The memory of a lane that does not grow with its slots: the first pages of its ring, the places of blocks, and its own
/// parts.
const LANE_BYTES: u64 = 16 << 10;

/// The memory of a lane for each of its slots, besides the name in its schema: the place of its reading (8, and spare room in the
/// list), its value and state in the last row (9), its series for readers (24), and a row under construction, twice (15).
pub(crate) const SLOT_BYTES: u64 = 64;

/// And for each slot of its sources, whether it has it or not.
const SOURCE_SLOT_BYTES: u64 = 4;

/// A slot in a schema, besides the text of its instance; and a metric, once.
const NAME_BYTES: u64 = 10;
pub(crate) const METRIC_BYTES: u64 = 512;

/// What a lane takes, or would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Besides the rows in its ring.
    pub beside: u64,
    /// The shortest ring with which it works, and the longest that it can use.
    pub ring_min: u64,
    pub ring_max: u64,
}

/// The size of a lane's parts, of which its needs follow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    pub slots: usize,
    /// Slots of all of its sources.
    pub source_slots: usize,
    /// Bytes of its names in the ring, with those of older generations.
    pub schema_bytes: u64,
    /// Some of its slots have labels as readings.
    pub have_labels: bool,
}

impl Parts {
    pub fn bytes(&self) -> u64 {
        LANE_BYTES
            + self.slots as u64 * SLOT_BYTES
            + self.source_slots as u64 * SOURCE_SLOT_BYTES
            + self.schema_bytes.next_multiple_of(MEMORY_PAGE_BYTES)
    }
}

/// The bytes of a slot in a schema, and with `metric` those of its metric, which is written once.
pub(crate) fn name_bytes(series: &khz_model::Series, metric: bool) -> u64 {
    let instance = series.instance.as_ref().map_or(0, |instance| instance.bytes() as u64);
    NAME_BYTES + instance + if metric { METRIC_BYTES } else { 0 }
}

/// A lane that holds memory: it is open, or a reader still reads the rest of its ring.
#[derive(Debug)]
struct Held {
    view: Weak<LaneView>,
    needs: Needs,
    /// What its ring may hold.
    kept: u64,
    is_open: bool,
}

/// The memory of these lanes.
#[derive(Debug)]
pub(crate) struct LaneMemory {
    bytes: u64,
    held: Vec<Held>,
}

impl LaneMemory {
    pub fn new(ring: RingSize) -> Self {
        let bytes = match ring {
            RingSize::Bytes(ByteSize(bytes)) => bytes / PART,
            RingSize::Span(_) => 0,
        };
        LaneMemory { bytes: bytes.max(LANES_BYTES_MIN.0), held: Vec::new() }
    }

    /// What the lanes hold when their rings are full.
    pub fn taken(&self) -> u64 {
        self.held.iter().filter(|held| held.view.strong_count() > 0).map(Held::bytes).sum()
    }

    /// Whether these are the open lanes, with the same needs as when the memory was shared last.
    pub fn is_shared<'a>(&self, lanes: impl Iterator<Item = (&'a Arc<LaneView>, Needs)>) -> bool {
        let held = self.held.iter().filter(|held| held.is_open).map(|held| (held.view.as_ptr(), held.needs));
        let are_there = self.held.iter().all(|held| held.view.strong_count() > 0);
        are_there && held.eq(lanes.map(|(view, needs)| (Arc::as_ptr(view), needs)))
    }

    /// True if there is room for a lane with these needs, or for a lane that needs this much more.
    pub fn has_room(&mut self, more: Needs) -> bool {
        more.beside + ring_bytes(more.ring_min) <= self.room()
    }

    /// What is free if each ring is as short as possible.
    pub fn room(&mut self) -> u64 {
        self.held.retain(|held| held.view.strong_count() > 0);
        self.bytes.saturating_sub(self.least())
    }

    /// The error for a lane that does not fit.
    pub fn refusal(&self) -> QueryError {
        let limit = (self.bytes >> 20) as usize;
        QueryError::Full { what: "MiB for the lanes that readers open (a part of `ring`)", limit }
    }

    /// Shares the memory among these open lanes. Returns how much the ring of each lane may keep, in their order: equal parts, but
    /// at least what the lane needs and at most what it can use. If the shortest rings do not fit, each lane gets the shortest ring.
    pub fn share<'a>(&mut self, lanes: impl Iterator<Item = (&'a Arc<LaneView>, Needs)>) -> Vec<u64> {
        // The ring of a lane that has ended keeps its bytes.
        self.held.iter_mut().for_each(|held| held.is_open = false);
        self.held.retain(|held| held.view.strong_count() > 0);
        let mut open = Vec::new();
        for (view, needs) in lanes {
            let is_it = |held: &Held| std::ptr::eq(held.view.as_ptr(), Arc::as_ptr(view));
            let at = self.held.iter().position(is_it).unwrap_or_else(|| {
                self.held.push(Held { view: Arc::downgrade(view), needs, kept: 0, is_open: true });
                self.held.len() - 1
            });
            (self.held[at].needs, self.held[at].is_open) = (needs, true);
            open.push(at);
        }
        let beside = |held: &Held| if held.is_open { held.needs.beside } else { held.bytes() };
        let fixed: u64 = self.held.iter().map(beside).sum();
        let needs: Vec<Needs> = open.iter().map(|&at| self.held[at].needs).collect();
        let level = level(self.bytes.saturating_sub(fixed) / 8 * 7, &needs);
        for &at in &open {
            self.held[at].kept = self.held[at].needs.ring(level);
        }
        open.into_iter().map(|at| self.held[at].kept).collect()
    }

    /// Whether the lanes hold too much even with the shortest rings.
    pub fn is_over(&self) -> bool {
        self.least() > self.bytes
    }

    /// How much more each lane may use for new slots, if its ring becomes shorter for that.
    pub fn room_each(&mut self) -> u64 {
        let open = self.held.iter().filter(|held| held.is_open).count().max(1);
        self.room() / open as u64
    }

    /// What the lanes hold with the shortest rings.
    fn least(&self) -> u64 {
        let least = |held: &Held| match held.is_open {
            true => held.needs.beside + ring_bytes(held.needs.ring_min),
            false => held.bytes(),
        };
        self.held.iter().map(least).sum()
    }
}

/// The memory of a ring that keeps this many bytes: it returns its pages in groups, and remembers where blocks
/// begin.
fn ring_bytes(kept: u64) -> u64 {
    kept + kept / 7
}

impl Held {
    fn bytes(&self) -> u64 {
        self.needs.beside + ring_bytes(self.kept)
    }
}

impl Needs {
    /// The ring of such a lane where each may keep `level` bytes.
    fn ring(&self, level: u64) -> u64 {
        level.min(self.ring_max).max(self.ring_min)
    }
}

/// How many bytes each ring may keep at most, so that all rings together have at most `bytes`.
fn level(bytes: u64, lanes: &[Needs]) -> u64 {
    let all = |level: u64| lanes.iter().map(|needs| needs.ring(level)).sum::<u64>();
    let (mut fits, mut above) = (0, lanes.iter().map(|needs| needs.ring_max).max().unwrap_or(0) + 1);
    while above - fits > 1 {
        let middle = fits + (above - fits) / 2;
        if all(middle) <= bytes { fits = middle } else { above = middle }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(ring_min: u64, ring_max: u64) -> Needs {
        Needs { beside: 0, ring_min, ring_max }
    }

    #[test]
    fn each_ring_has_as_much_as_the_others_but_no_more_than_it_can_use_and_no_less_than_it_needs() {
        let rings = |bytes: u64, lanes: &[Needs]| {
            let level = level(bytes, lanes);
            lanes.iter().map(|needs| needs.ring(level)).collect::<Vec<_>>()
        };
        let lanes = [needs(10, 400), needs(10, 400), needs(4, 8), needs(150, 400)];
        assert_eq!(rings(10_000, &lanes), [400, 400, 8, 400], "all that they can use");
        assert_eq!(rings(908, &lanes), [300, 300, 8, 300]);
        assert_eq!(rings(358, &lanes), [100, 100, 8, 150]);
        assert_eq!(rings(174, &lanes), [10, 10, 4, 150], "the shortest");
        assert_eq!(rings(0, &lanes), [10, 10, 4, 150], "no ring is shorter than that");
        assert!(rings(5, &[]).is_empty());
    }

    #[test]
    fn lanes_have_a_quarter_of_the_rings_memory_and_enough_for_one_of_a_large_host() {
        let bytes = |ring| LaneMemory::new(ring).bytes;
        assert_eq!(bytes(RingSize::Bytes(ByteSize(256 << 20))), 64 << 20);
        assert_eq!(bytes(RingSize::Bytes(ByteSize(64 << 20))), 16 << 20);
        assert_eq!(bytes(RingSize::Bytes(ByteSize(1 << 20))), 16 << 20);
        assert_eq!(bytes(RingSize::Span(khz_model::Nanos::from_secs(60))), 16 << 20);
    }
}
