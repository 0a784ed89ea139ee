//! The temporary state of log replay: updates that clients send meanwhile, and samples that are out of order in the log. Takes no
//! lock and does no I/O; [`super::recovery`] reads the log.
//!
//! The samples of a file only go forward. So an update that comes during replay is deferred until all older ones are in
//! the backlog.

use std::collections::{BTreeMap, HashMap};

use super::backlog::{FileId, OutOfOrder};
use super::sample;
use crate::log::Segment;

/// Bytes of memory of a deferred update, about.
const DEFERRED_BYTES: u64 = 100;

/// An update taken during replay.
pub struct Deferred {
    pub id: FileId,
    pub samples: String,
    pub segment: Option<Segment>,
}

/// The state of replay.
#[derive(Default)]
pub struct Replay {
    is_running: bool,
    deferred: Vec<Deferred>,
    /// The newest stamp that is taken or on disk, of files that are used during replay.
    newest: HashMap<FileId, i64>,
    out_of_order: HashMap<FileId, OutOfOrder>,
    /// Samples that are deferred.
    waiting: u64,
}

impl Replay {
    /// A replay that is going to run, if `is_running`.
    pub fn new(is_running: bool) -> Self {
        Self { is_running, ..Self::default() }
    }

    /// Whether the log is still read.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.deferred.len() as u64 * DEFERRED_BYTES
    }

    /// How many samples are deferred.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The newest stamp of a file that replay does not know of.
    pub fn newest(&self, id: FileId) -> Option<i64> {
        self.newest.get(&id).copied()
    }

    /// A file has a sample of the stamp `newest` on disk. The log may have older ones that the file needs again, so the
    /// backlog learns of it when replay is done.
    pub fn note_newest(&mut self, id: FileId, newest: i64) {
        let known = self.newest.entry(id).or_insert(newest);
        *known = newest.max(*known);
    }

    /// Defers `samples`, the newest of which has the stamp `newest`.
    pub fn defer(&mut self, id: FileId, samples: &str, segment: Option<Segment>, newest: i64) {
        self.waiting += sample::each(samples).count() as u64;
        self.deferred.push(Deferred { id, samples: samples.into(), segment });
        self.newest.insert(id, newest);
    }

    /// The log has a sample after newer ones of its file: it was logged again because it could not be written, and its
    /// first place may be gone.
    pub fn out_of_order(&mut self, id: FileId, segment: Segment, stamp: i64, sample: &str) {
        let found = self.out_of_order.entry(id).or_insert(OutOfOrder { segment, samples: BTreeMap::new() });
        found.samples.insert(stamp, sample.into());
    }

    /// The log says that the samples of a file are to be dropped from the stamp `from` on.
    pub fn drop_from(&mut self, id: FileId, from: i64) {
        if let Some(found) = self.out_of_order.get_mut(&id) {
            found.samples.retain(|stamp, _| *stamp < from);
        }
    }

    /// Takes out what was found out of order.
    pub fn take_out_of_order(&mut self) -> HashMap<FileId, OutOfOrder> {
        std::mem::take(&mut self.out_of_order)
    }

    /// Ends replay: returns the deferred updates, in the order of their arrival, and the newest stamps.
    pub fn finish(&mut self) -> (Vec<Deferred>, HashMap<FileId, i64>) {
        let ended = std::mem::take(self);
        (ended.deferred, ended.newest)
    }
}
