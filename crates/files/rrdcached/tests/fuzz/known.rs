//! Intended differences, with their names in docs/rrd.md.

use std::path::Path;

use khz_rrd::header::Header;

use super::sides::{DROPPED, Difference, Mode, Outcome};

/// All of them.
pub const REASONS: [&str; 39] = [
    "at-times",
    "cdef-self",
    "damaged-source",
    "daemon-blank",
    "daemon-count",
    "daemon-dropped",
    "daemon-errors",
    "daemon-far",
    "daemon-first",
    "daemon-list",
    "daemon-noflush",
    "daemon-resolution",
    "daemon-updatev",
    "daemon-words",
    "def-name",
    "dies",
    "drawing",
    "dump-target",
    "failed-tune",
    "failed-update",
    "hw-period",
    "legend",
    "list-order",
    "list-up",
    "long-option",
    "percent",
    "pipe-end",
    "prefill",
    "renaming",
    "sanity",
    "steps-32",
    "tune-archives",
    "tune-names",
    "tune-value",
    "tune-version",
    "unreachable",
    "updatev-times",
    "usage",
    "xml-errors",
];

/// Seconds.
const YEAR: u64 = 31_556_952;

/// Arguments that only graphs need.
const DRAWING: [&str; 11] =
    ["PRINT", "GPRINT", "COMMENT", "LINE", "AREA", "STACK", "HRULE", "VRULE", "TICK", "TEXTALIGN", "LINE1"];

/// The name of an intended difference; `None` for a new one.
pub fn reason(mode: Mode, words: &[String], difference: &Difference) -> Option<&'static str> {
    let (theirs, ours) = (&difference.theirs, &difference.ours);
    if theirs.code.is_none() {
        return Some("dies");
    }
    let is_help = words.get(1).is_some_and(|word| word == "--help");
    if is_help || theirs.out.contains("RRDtool 1.7.2  Copyright") {
        return Some("usage");
    }
    if either(difference, "Unable to connect to rrdcached")
        || either(difference, "Cannot connect to daemon")
        || ours.error.contains("is not a daemon address")
    {
        return Some("unreachable");
    }
    let is_cut = |word: &String| word.ends_with(|letter: char| !letter.is_ascii());
    if mode == Mode::Pipe && words.last().is_some_and(is_cut) {
        return Some("pipe-end");
    }
    let errors = ["invalid option -- '", "option takes no arguments -- '"];
    let is_option =
        errors.iter().any(|text| theirs.error.contains(text)) && !theirs.error.trim_end().ends_with('\'');
    if is_option && ours.error.starts_with(theirs.error.trim_end()) {
        return Some("long-option");
    }
    if both_failed(difference) && same_up_to_percent(&theirs.error, &ours.error) {
        return Some("percent");
    }
    if theirs.error.contains("SANITY CHECK") {
        return Some("sanity");
    }
    let is_renamed = theirs.error.contains("Cannot rename temporary file to final file!");
    if is_renamed && both_failed(difference) || words[0] == "create" && ours.error.contains("Is a directory")
    {
        return Some("renaming");
    }
    if ours.code == Some(1) && ours.error.contains("unknown data source type") {
        return Some("damaged-source");
    }
    if counted_otherwise(difference) {
        return Some("steps-32");
    }
    let by_command = match words[0].as_str() {
        "update" | "updatev" => update(words, difference),
        "create" => create(words, difference),
        "list" if words.iter().any(|word| word.contains("..")) => Some("list-up"),
        "list" => (same_end(difference) && sorted(&theirs.out) == sorted(&ours.out)).then_some("list-order"),
        "tune" => tune(words, difference),
        "resize" => version(difference),
        "xport" => xport(words, difference),
        "restore" => (both_failed(difference) && difference.files().is_empty()).then_some("xml-errors"),
        "dump" => (ours.code == Some(1) && words.len() > 2).then_some("dump-target"),
        _ => None,
    };
    let names_time = |text: &&str| either(difference, text);
    let is_by_time = ["start time: ", "end time: ", "ds time: "].iter().any(names_time);
    let by_times = (is_by_time || is_year_30000(&theirs.error)).then_some("at-times");
    by_command.or(by_times).or_else(|| (mode == Mode::Daemon).then(|| daemon(words, difference)).flatten())
}

fn either(difference: &Difference, text: &str) -> bool {
    difference.theirs.error.contains(text) || difference.ours.error.contains(text)
}

fn both_failed(difference: &Difference) -> bool {
    difference.theirs.code == Some(1) && difference.ours.code == Some(1)
}

/// Files that differ, each of them with a last sample that lies further away than 31 bits can count in steps.
fn counted_otherwise(difference: &Difference) -> bool {
    let is_far = |name: &&str| {
        let bytes = difference.ours.files.get(*name).cloned().unwrap_or_default();
        let length = bytes.len() as u64;
        Header::parse(bytes, length, Path::new(name))
            .is_ok_and(|header| header.last_update() / header.step() as i64 > i64::from(i32::MAX))
    };
    let files = difference.files();
    same_end(difference) && !files.is_empty() && files.iter().all(is_far)
}

/// Both ended in the same way, with output.
fn same_end(difference: &Difference) -> bool {
    let (theirs, ours) = (&difference.theirs, &difference.ours);
    theirs.code == ours.code && theirs.error == ours.error
}

/// Whether the start or the end of a range lies in the year 30000, where rrdtool puts a date without a year.
fn is_year_30000(error: &str) -> bool {
    let number = |text: &str| text.split(['(', ')']).nth(1).and_then(|text| text.parse::<u64>().ok());
    error.contains("should be less than end (")
        && error.split(" than ").filter_map(number).any(|time| time / YEAR > 20_000)
}

/// Whether a percent sign in our error is where it stops being theirs, too.
fn same_up_to_percent(theirs: &str, ours: &str) -> bool {
    ours.split_once('%').is_some_and(|(before, _)| theirs.starts_with(before))
}

fn update(words: &[String], difference: &Difference) -> Option<&'static str> {
    if same_end(difference) && both_failed(difference) {
        return Some("failed-update");
    }
    let (theirs, ours) = (&difference.theirs, &difference.ours);
    let is_time = words[0] == "updatev" && same_end(difference) && difference.files().is_empty();
    (is_time && without_times(&theirs.out) == without_times(&ours.out)).then_some("updatev-times")
}

fn create(words: &[String], difference: &Difference) -> Option<&'static str> {
    if same_end(difference) && words.iter().any(|word| word.starts_with("-r") || word.starts_with("--source"))
    {
        return Some("prefill");
    }
    if both_failed(difference) && difference.theirs.error.contains("Cannot open source RRD") {
        return Some("prefill");
    }
    let is_forecast = |word: &String| word.contains("HWPREDICT") && word.ends_with(['h', 'd', 'm', 's', 'w']);
    (same_end(difference) && words.iter().any(is_forecast)).then_some("hw-period")
}

fn tune(words: &[String], difference: &Difference) -> Option<&'static str> {
    let renames = |word: &String| word.starts_with("--data-source-rename") || word.starts_with("-r");
    if difference.ours.code == Some(1) && words.iter().any(renames) {
        return Some("tune-names");
    }
    let errors =
        ["Failed to parse RRA# command", "unparseable argument: DELRRA:", "This RRA is not that big"];
    if difference.ours.code == Some(1) && errors.iter().any(|text| difference.ours.error.contains(text)) {
        return Some("tune-archives");
    }
    if difference.ours.error.contains("option requires argument") {
        return Some("tune-value");
    }
    if same_end(difference) && both_failed(difference) {
        return Some("failed-tune");
    }
    version(difference)
}

/// Files that differ in nothing but the format's version.
fn version(difference: &Difference) -> Option<&'static str> {
    // The format's version is the fifth to the eighth byte.
    let is_version = |name: &&str| {
        let file =
            |side: &Outcome| side.files.get(*name).and_then(|bytes| bytes.get(8..)).map(<[u8]>::to_vec);
        file(&difference.theirs) == file(&difference.ours)
    };
    (same_end(difference) && difference.files().iter().all(is_version)).then_some("tune-version")
}

fn xport(words: &[String], difference: &Difference) -> Option<&'static str> {
    let starts = |text: &&str| words.iter().any(|word| word.split(':').next() == Some(text));
    let is_coloured = |word: &String| word.starts_with("XPORT:") && word.contains('#');
    let is_number = either(difference, "unknown type variable");
    if DRAWING.iter().any(starts) || words.iter().any(is_coloured) || is_number {
        return Some("drawing");
    }
    if difference.ours.error.contains("no name in DEF:") {
        return Some("def-name");
    }
    let names_itself = |word: &String| word.strip_prefix("CDEF:b=").is_some_and(|text| text.contains('b'));
    if words.iter().any(names_itself) {
        return Some("cdef-self");
    }
    let is_marked = |word: &String| word.starts_with("XPORT:") && word.contains(['"', '<', '>', '&', '\\']);
    (same_end(difference) && words.iter().any(is_marked)).then_some("legend")
}

fn daemon(words: &[String], difference: &Difference) -> Option<&'static str> {
    if words.iter().any(String::is_empty) {
        return Some("daemon-words");
    }
    if both_failed(difference) {
        return Some("daemon-errors");
    }
    if difference.ours.error.contains("a blank within a sample") {
        return Some("daemon-blank");
    }
    if difference.ours.error.contains("seconds from 1970") {
        return Some("daemon-far");
    }
    if difference.ours.error.contains(DROPPED) {
        return Some("daemon-dropped");
    }
    match words[0].as_str() {
        "first" => return Some("daemon-first"),
        "list" => return Some("daemon-list"),
        "updatev" => return Some("daemon-updatev"),
        _ => {}
    }
    if difference.ours.error.contains("data source readings (got") {
        return Some("daemon-count");
    }
    if words[0] == "info" && words.iter().any(|word| word == "-F" || word == "--noflush") {
        return Some("daemon-noflush");
    }
    if words[0] == "xport" && same_end(difference) {
        return Some("daemon-resolution");
    }
    let is_resolution = |word: &String| word.starts_with("-r") || word.starts_with("--resolution");
    (words[0] == "fetch" && words.iter().any(is_resolution)).then_some("daemon-resolution")
}

/// Each line after its time.
fn without_times(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once(']').map_or(line, |(_, rest)| rest)).collect()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
