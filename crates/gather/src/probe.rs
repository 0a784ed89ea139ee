//! What the sources do on this host, found by trying each: for `khz check`. No thread, no rings.

use std::path::Path;

use khz_model::{Nanos, Reading};
use khz_parse::KernelFile;

use crate::budget::Budget;
use crate::clock;
use crate::source::Source;

/// What one source does on this host, found by trying.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// Its name.
    pub name: &'static str,
    /// Path below the root.
    pub path: &'static str,
    /// What was wrong, in words; `None`: nothing.
    pub problem: Option<String>,
    /// Present readings.
    pub values: usize,
    /// Absent or failed series with the reason.
    pub missing: Vec<(String, Reading)>,
    /// Size of the text.
    pub bytes: u64,
    /// Median time of a gather; `None` when it did not work.
    pub gather_time: Option<Nanos>,
}

/// Gathers of a probe: enough for a median, a few milliseconds in all.
const PROBES: usize = 21;

/// Tries every source below `root`.
pub fn probe(root: &Path) -> Vec<SourceReport> {
    khz_parse::files().iter().map(|file| probe_one(root, file)).collect()
}

fn probe_one(root: &Path, file: &'static KernelFile) -> SourceReport {
    let mut source = Source::file(root, file, Budget::unlimited());
    let mut times = Vec::with_capacity(PROBES);
    let mut room = Vec::new();
    for _ in 0..PROBES {
        source.gather(clock::stamp(), &mut room);
        times.push(source.counts.last_gather_time);
    }
    times.sort();
    let works = source.counts.bytes > 0;
    let schema = source.schema();
    let reading = |slot: usize| Reading::from_parts(source.states()[slot], source.values()[slot]);
    let missing = schema.series().iter().enumerate().filter_map(|(slot, series)| match reading(slot) {
        Reading::Present(_) => None,
        other => Some((series.to_string(), other)),
    });
    let missing: Vec<_> = missing.collect();
    SourceReport {
        name: file.name,
        path: file.path,
        problem: source.problem().map(str::to_owned),
        values: schema.len() - missing.len(),
        missing,
        bytes: source.counts.bytes,
        gather_time: works.then(|| times[PROBES / 2]),
    }
}
