//! A kernel file as the engine sees it: its path, its metrics, how it is handed out, and its full parser.

use std::sync::Arc;

use khz_model::{Metric, Refresh};

use crate::entry::Entry;
use crate::sink::Sink;

/// One file of the kernel.
#[derive(Debug)]
pub struct KernelFile {
    /// Short name that people use: `net/dev`.
    pub name: &'static str,
    /// Path below the root, without a leading slash: `proc/net/dev`.
    pub path: &'static str,
    /// How the kernel hands it out.
    pub pieces: Pieces,
    /// Metrics without instances. They have the first slots, from the start.
    pub scalars: &'static [Entry],
    /// Metrics with instances. Each instance that appears gets the next slots.
    pub groups: &'static [Group],
    /// The full parser: walks the text by field name and tells the sink where each number stands.
    pub parse: fn(&mut Sink<'_>),
}

/// Metrics that come once for each instance.
#[derive(Debug)]
pub struct Group {
    /// What an instance is, and the exposition's label for it: `cpu`, `device`.
    pub label: &'static str,
    /// The metrics of an instance, in slot order.
    pub entries: &'static [Entry],
    /// The last entry is not printed: it is the sum of these entries (by index).
    pub total_of: &'static [usize],
}

/// How the kernel hands a file out (fs/seq_file.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// One record: a single read with room to spare has all of it.
    Whole,
    /// Many records, about a page at a time: read on until a read returns 0.
    Records {
        /// No record is longer than this many bytes; a piece that leaves more of a page free was the last.
        longest: usize,
    },
}

impl KernelFile {
    /// The shortest refresh among its metrics that `wanted` selects; `None` when some change at every event.
    pub fn refresh(&self, wanted: impl Fn(&str) -> bool) -> Option<Refresh> {
        let entries = self.scalars.iter().chain(self.groups.iter().flat_map(|g| g.entries));
        entries.filter(|e| wanted(e.name)).map(|e| e.refresh).min_by_key(|r| r.period().map_or(0, |p| p.0))
    }

    /// Its catalogue entries, scalars first.
    pub fn metrics(&self) -> Vec<Arc<Metric>> {
        let scalars = self.scalars.iter().map(|e| e.metric(self.path, None));
        let grouped =
            self.groups.iter().flat_map(|g| g.entries.iter().map(|e| e.metric(self.path, Some(g.label))));
        scalars.chain(grouped).collect()
    }
}
