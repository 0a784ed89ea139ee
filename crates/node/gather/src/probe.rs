//! Tries each source on this host and reports the result: for `khz check`. It uses no thread and no rings.

use std::path::Path;

use khz_model::{Nanos, Reading};
use khz_parse::KernelFile;

use crate::budget::Budget;
use crate::clock;
use crate::source::Source;

/// The result of trying one source on this host.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// Its name.
    pub name: &'static str,
    /// The path below the root.
    pub path: &'static str,
    /// The problem in words; `None` if there is none.
    pub problem: Option<String>,
    /// The number of present readings.
    pub values: usize,
    /// The absent and failed series, with the reason.
    pub missing: Vec<(String, Reading)>,
    /// The size of the text.
    pub bytes: u64,
    /// The median time of a gather; `None` if the source did not work.
    pub gather_time: Option<Nanos>,
}

/// The gathers of a probe: enough for a median, and only some milliseconds in all.
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
        Reading::Present(_) | Reading::Labels(_) => None,
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
