//! A value out of shared memory, read on the JVM while an agent writes ten rows a second.

use super::jmh;
use crate::error::BenchError;
use crate::mount::{Class, Site};
use crate::record::{Bound, Record};
use crate::spread::Spread;

/// The most nanoseconds of a value.
const NANOS_MAX: f64 = 20.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut site = Site::start(Class::Normal)?;
    site.agent("n1", &[])?;
    let page = site.snapshot("n1");
    site.wait_for(&page)?;
    let figures = jmh::of_snapshot(record, &page)?;
    jmh::show(record, "## The snapshot on the JVM, its agent writing ten times a second", &figures);
    for (method, what, bound) in [
        ("SnapshotBench.value", "a value of the snapshot, ns", Bound::AtMost(NANOS_MAX)),
        ("SnapshotBench.exact", "a value with its state and all its digits, ns", Bound::Stated),
        ("SnapshotBench.row", "three values of one instant, ns", Bound::Stated),
    ] {
        let of = figures.iter().find(|one| one.name == method);
        record.verdict(what, of.and_then(|one| Spread::of(one.iterations.iter().copied())), bound);
    }
    let bytes = figures.iter().filter_map(|one| one.bytes).reduce(f64::max).map(f64::round);
    record.verdict("bytes that a read of the snapshot allocates", Spread::of(bytes), Bound::AtMost(0.0));
    Ok(())
}
