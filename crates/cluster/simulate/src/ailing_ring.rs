//! The ring of a node with faults: its rows differ from those of all other nodes, so they are written one by one, as the rows of a
//! channel are. What they have is in `played.rs`.

use std::cell::Cell;
use std::rc::Rc;

use khz_link::{Lane, Overtaken};
use khz_model::Nanos;

use crate::made_ring::MadeRing;
use crate::played::Played;

/// Bytes of blocks that stay: some minutes of a busy node at 1 Hz. What no hub has taken by then is lost, as at a real node.
const RING_BYTES: usize = 1 << 20;

/// A lane of a node with faults. Clones are the same ring.
#[derive(Clone)]
pub struct AilingRing(Rc<Ailing>);

struct Ailing {
    played: Played,
    ring: MadeRing,
    /// The next tick.
    next: Cell<u64>,
    rows: Cell<u64>,
    /// The demand that these rows answer.
    answered: Cell<u32>,
    /// It has no period: it gathers a row when somebody asks for one.
    is_on_demand: bool,
}

impl AilingRing {
    /// A ring with its first row.
    pub fn new((id, name, epoch): (u64, String, u64), played: Played, is_on_demand: bool) -> Self {
        let period = if is_on_demand { Nanos(0) } else { played.reel.period };
        let ring = MadeRing::with_room(id, name, epoch, period, RING_BYTES);
        for series in played.reel.series() {
            if !ring.describe(series) {
                break;
            }
        }
        let (next, rows, answered) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let ailing = AilingRing(Rc::new(Ailing { played, ring, next, rows, answered, is_on_demand }));
        ailing.write(0);
        ailing
    }

    fn write(&self, tick: u64) {
        let Ailing { played, ring, next, rows, .. } = &*self.0;
        let cells: Vec<(u8, u64)> = (0..played.reel.slots()).map(|slot| played.reading(tick, slot)).collect();
        ring.write(played.stamp(tick), &cells);
        next.set(tick + 1);
        rows.set(rows.get() + 1);
    }

    /// Plays up to `now`, where the ring has a period.
    pub fn advance(&self, now: Nanos) {
        if now >= self.0.played.start.boot && !self.0.is_on_demand {
            let until = self.0.played.tick(now);
            (self.0.next.get()..=until).for_each(|tick| self.write(tick));
        }
    }

    /// Gathers a row at `now` to answer a demand, unless the newest row is that row.
    pub fn give(&self, ask: u32, now: Nanos) {
        let tick = self.0.played.tick(now);
        if tick >= self.0.next.get() {
            self.write(tick);
        }
        self.0.answered.set(ask);
    }

    /// Number of rows played.
    pub fn rows(&self) -> u64 {
        self.0.rows.get()
    }

    /// When it gathers the next row.
    pub fn next_tick(&self) -> Nanos {
        self.0.played.stamp(self.0.next.get()).boot
    }
}

impl Lane for AilingRing {
    fn id(&self) -> u64 {
        self.0.ring.id()
    }

    fn name(&self) -> &str {
        self.0.ring.name()
    }

    fn epoch(&self) -> u64 {
        self.0.ring.epoch()
    }

    fn generation(&self) -> u32 {
        self.0.ring.generation()
    }

    fn period(&self) -> Nanos {
        self.0.ring.period()
    }

    fn answered(&self) -> u32 {
        self.0.answered.get()
    }

    fn head(&self) -> u64 {
        self.0.ring.head()
    }

    fn oldest(&self) -> u64 {
        self.0.ring.oldest()
    }

    fn newest(&self) -> u64 {
        self.0.ring.newest()
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        self.0.ring.copy(from, most, out)
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.0.ring.schema_bytes(generation)
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.0.ring.schema(generation, from, most, out)
    }
}
