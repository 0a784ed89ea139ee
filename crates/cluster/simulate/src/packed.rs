//! The recordings in the program, packed by its build script. They are available wherever the program runs;
//! this file opens no files.

use crate::error::SimulateError;

/// A recording that is part of the program.
pub(crate) struct Packed {
    /// The name of its workload.
    name: &'static str,
    /// Bytes of the unpacked trace.
    length: usize,
    /// The trace, packed with zstd.
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/packed.rs"));

/// The workloads that are part of the program.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    PACKED.iter().map(|packed| packed.name)
}

/// The trace of the workload with this name.
pub(crate) fn trace_of(workload: &str) -> Result<Vec<u8>, SimulateError> {
    let packed = PACKED.iter().find(|packed| packed.name == workload);
    let packed = packed.ok_or_else(|| SimulateError::Workload { asked: workload.to_owned() })?;
    let trace = zstd::bulk::decompress(packed.bytes, packed.length);
    Ok(trace.unwrap_or_else(|error| panic!("BUG: the program's own recording {workload}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packed_recording_equals_its_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fixtures/workloads");
        let file = |name| std::fs::read(format!("{folder}/{name}-100hz.khzt")).unwrap();
        assert_eq!(workloads().collect::<Vec<_>>(), ["compile", "idle", "mempressure", "netcopy"]);
        for name in workloads() {
            assert!(trace_of(name).unwrap() == file(name), "{name}");
        }
    }

    /// One MiB is as much as a tool that most users never start may add to the program.
    #[test]
    fn all_recordings_together_add_less_than_a_mebibyte_to_the_program() {
        let bytes: usize = PACKED.iter().map(|packed| packed.bytes.len()).sum();
        assert!(bytes < 1 << 20, "{bytes}");
    }
}
