//! The files of a store's log, as another process than its hub finds them. One that vanishes meanwhile was made columns of.

use std::io::ErrorKind;
use std::path::Path;

/// How many segments the log has, and their bytes with those of their bundles.
pub fn segments(directory: &Path) -> std::io::Result<(u64, u64)> {
    let entries = match std::fs::read_dir(directory.join("log")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((0, 0)),
        entries => entries?,
    };
    let (mut count, mut bytes) = (0, 0);
    for entry in entries {
        let entry = entry?;
        let segments = match entry.path().extension().and_then(|ending| ending.to_str()) {
            Some("log") => 1,
            Some("bundles") => 0,
            _ => continue,
        };
        match entry.metadata() {
            Ok(about) => (count, bytes) = (count + segments, bytes + about.len()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((count, bytes))
}
