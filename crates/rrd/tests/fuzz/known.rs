//! Differences that are meant, each with the name it has in docs/rrd.md.

use super::sides::{Difference, Mode};

/// All of them.
pub const REASONS: [&str; 8] = [
    "dies",
    "usage",
    "failed-update",
    "updatev-times",
    "failed-tune",
    "unreachable",
    "drawing",
    "legend",
];

/// What only drawing needs.
const DRAWING: [&str; 12] = [
    "PRINT", "GPRINT", "COMMENT", "LINE", "AREA", "STACK", "HRULE", "VRULE", "TICK", "SHIFT", "TEXTALIGN", "LINE1",
];

/// Why a difference is one that is meant; `None` for a new one.
pub fn reason(mode: Mode, words: &[String], difference: &Difference) -> Option<&'static str> {
    let (theirs, ours) = (&difference.theirs, &difference.ours);
    let command = words[0].as_str();
    let same_end = theirs.code == ours.code && theirs.error == ours.error;
    let failed = same_end && theirs.code != Some(0);
    let same_files = difference.files().is_empty();
    let either = |text: &str| theirs.error.contains(text) || ours.error.contains(text);
    let starts = |text: &str| words.iter().any(|word| word.split(':').next() == Some(text));
    if theirs.code.is_none() {
        return Some("dies");
    }
    if theirs.out.starts_with("RRDtool 1.7.2  Copyright") || words.get(1).is_some_and(|word| word == "--help") {
        return Some("usage");
    }
    if command.starts_with("update") && failed {
        return Some("failed-update");
    }
    if command == "updatev" && same_end && same_files && without_times(&theirs.out) == without_times(&ours.out) {
        return Some("updatev-times");
    }
    if command == "tune" && failed {
        return Some("failed-tune");
    }
    if either("Unable to connect to rrdcached") || either("Cannot connect to daemon") {
        return Some("unreachable");
    }
    if command == "xport" && DRAWING.iter().any(|word| starts(word)) {
        return Some("drawing");
    }
    if command == "xport" && same_end && words.iter().any(|word| word.starts_with("XPORT:") && word.contains(['"', '<', '>', '&'])) {
        return Some("legend");
    }
    let _ = mode;
    None
}

/// Each line behind its time.
fn without_times(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once(']').map_or(line, |(_, rest)| rest)).collect()
}
