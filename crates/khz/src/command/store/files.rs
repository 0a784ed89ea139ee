//! The files of a store's log, as another process than its hub finds them. One that vanishes meanwhile was made columns of.

use std::io::ErrorKind;
use std::path::Path;

/// How many segments the log has, and their bytes.
pub fn segments(directory: &Path) -> std::io::Result<(u64, u64)> {
    let entries = match std::fs::read_dir(directory.join("log")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((0, 0)),
        entries => entries?,
    };
    let (mut count, mut bytes) = (0, 0);
    for entry in entries {
        let entry = entry?;
        if entry.path().extension().is_none_or(|ending| ending != "log") {
            continue;
        }
        match entry.metadata() {
            Ok(about) => (count, bytes) = (count + 1, bytes + about.len()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((count, bytes))
}
