//! The part of a lane that readers share with the gather thread: its ring, the meaning of its slots, and counts. It writes no rows.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use khz_model::{Instance, LaneStatus, Nanos, Rate, Series};
use khz_ring::Reader;

use super::bells::{Bell, Bells, Call};

/// The part of a lane that readers share with the gather thread.
#[derive(Debug)]
pub(crate) struct LaneView {
    pub name: Instance,
    pub ring: Reader,
    /// The generation with which this process began; the ring may hold blocks of older ones.
    pub first_generation: u32,
    /// The requested period.
    pub asked: Nanos,
    /// A handler makes its rows.
    pub is_channel: bool,
    /// The present generation and the meaning of its slots, which only grows. The gather thread locks it only when
    /// one of them changes, before the first block with the change.
    pub schema: RwLock<(u32, Arc<Vec<Series>>)>,
    /// The number of subscriptions that follow the lane.
    pub readers: AtomicUsize,
    /// The current period in ns; 0: on demand.
    pub period: AtomicU64,
    /// The newest demand that a row in the ring answers.
    pub(super) answered: AtomicU32,
    /// The number of rows that this process recorded, and when it gathered the newest (boot clock, ns).
    pub rows: AtomicU64,
    pub newest: AtomicU64,
    /// When the lane ended (boot clock, ns); 0: it has not.
    pub ended: AtomicU64,
    /// The notice for its readers about series that it leaves out; empty: it has all. And how often the notice has
    /// changed.
    lacks: RwLock<Arc<str>>,
    lacks_changed: AtomicU64,
    /// When its last reader left (boot clock, ns). Another lane of the channel goes on from there.
    left: AtomicU64,
    /// The bells of a lane that another thread writes (`outside.rs`); the gather thread keeps those of its own lanes.
    bells: Option<Mutex<Bells>>,
}

impl LaneView {
    /// The view of a lane without rows, which is to have this period.
    pub(super) fn new(ring: Reader, generation: u32, period: Nanos, is_channel: bool) -> Self {
        LaneView {
            name: Instance::from_kernel(ring.label().lane.as_bytes()),
            first_generation: generation,
            asked: period,
            is_channel,
            ring,
            schema: RwLock::new((generation, Arc::default())),
            readers: AtomicUsize::new(0),
            period: AtomicU64::new(period.0),
            answered: AtomicU32::new(0),
            rows: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            lacks: RwLock::new(Arc::from("")),
            lacks_changed: AtomicU64::new(0),
            left: AtomicU64::new(0),
            bells: None,
        }
    }

    /// The view of a lane that another thread writes.
    pub fn written_outside(ring: Reader, generation: u32, period: Nanos) -> Self {
        LaneView { bells: Some(Mutex::default()), ..LaneView::new(ring, generation, period, true) }
    }

    /// A reader leaves.
    pub fn leave(&self, now: Nanos) {
        if self.readers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.left.store(now.0, Ordering::Release);
        }
    }

    /// When the last reader left; 0: none has left yet.
    pub fn left(&self) -> Nanos {
        Nanos(self.left.load(Ordering::Acquire))
    }

    /// Rings this bell after every row, if another thread than the gather thread writes this lane.
    pub fn hear(&self, bell: &Weak<Bell>) -> bool {
        let Some(bells) = &self.bells else { return false };
        bells.lock().unwrap_or_else(PoisonError::into_inner).add(bell.clone());
        true
    }

    /// Rings the bells of a lane that this thread writes.
    pub fn ring_outside(&self) {
        let mut calls: Vec<Arc<Call>> = Vec::new();
        if let Some(bells) = &self.bells {
            bells.lock().unwrap_or_else(PoisonError::into_inner).ring(&mut calls);
        }
        calls.iter().for_each(|call| call());
    }

    /// The notice for its readers about series that it leaves out; empty: it has all.
    pub fn lacks(&self) -> Arc<str> {
        self.lacks.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// How often that has changed.
    pub fn lacks_changed(&self) -> u64 {
        self.lacks_changed.load(Ordering::Acquire)
    }

    pub fn set_lacks(&self, text: String) {
        let mut lacks = self.lacks.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if **lacks != *text {
            *lacks = text.into();
            self.lacks_changed.fetch_add(1, Ordering::Release);
        }
    }

    /// When the lane ended; `None`: it has not.
    pub fn ended(&self) -> Option<Nanos> {
        Some(Nanos(self.ended.load(Ordering::Acquire))).filter(|&at| at > Nanos(0))
    }

    /// Its state, for lists of lanes; `None` if it has no ticks.
    pub fn status(&self, now: Nanos) -> Option<LaneStatus> {
        let rows = self.rows.load(Ordering::Acquire);
        let newest = Nanos(self.newest.load(Ordering::Relaxed));
        Some(LaneStatus {
            name: self.name.name().to_owned(),
            rate: Rate::from_period(self.period())?,
            asked: Rate::from_period(self.asked)?,
            slots: self.series().len() as u64,
            age: (rows > 0).then(|| now.since(newest)),
            rows,
            // Rows are made here, so none can be on its way.
            awaited: 0,
            lost: 0,
            late: 0,
        })
    }

    /// The time between two rows.
    pub fn period(&self) -> Nanos {
        Nanos(self.period.load(Ordering::Relaxed))
    }

    /// The newest demand that a row in the ring answers.
    pub fn answered(&self) -> u32 {
        self.answered.load(Ordering::Acquire)
    }

    /// The meaning of the present generation's slots.
    pub fn series(&self) -> Arc<Vec<Series>> {
        self.described().1
    }

    /// The present generation of slots; the ring has its schema.
    pub fn generation(&self) -> u32 {
        self.schema.read().unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    /// The present generation and the meaning of its slots.
    pub fn described(&self) -> (u32, Arc<Vec<Series>>) {
        self.schema.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}
