//! docs/publish.md and docs/limits.md say what the code does: each row about jobs has the numbers of the code's
//! constants.

#![allow(clippy::unwrap_used)]

use khz_gather::publication::{AGE_MAX, AHEAD_MAX, LABELS_TAKEN};
use khz_gather::{
    DATAGRAM_MAX, DATAGRAMS_AT_ONCE, JOB_METRICS_MAX, JOB_NAMES_BYTES_MAX, JOB_SERIES_MAX,
    LINE_BYTES_A_SECOND, LINES_A_SECOND, LINES_MAX,
};
use khz_model::labels::{LABELS_BYTES_MAX, LABELS_MAX};
use khz_model::name::INSTANCE_MAX;

const PUBLISH: &str = include_str!("../../../../docs/publish.md");
const LIMITS: &str = include_str!("../../../../docs/limits.md");

/// The row of a table that begins with this.
fn row(document: &'static str, what: &str) -> &'static str {
    let begins = format!("| {what} |");
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with(&begins)).collect();
    assert_eq!(rows.len(), 1, "'{what}' has one row");
    rows[0]
}

/// `65,536`.
fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().ok().unwrap().to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

#[test]
fn the_page_about_publishing_has_the_limits_of_the_code() {
    let mebibytes = |bytes: usize| format!("{} MiB", bytes >> 20);
    for (what, limit) in [
        ("names of a node", count(JOB_METRICS_MAX)),
        ("series of a node: names with their instances", count(JOB_SERIES_MAX)),
        ("labels of an instance", count(LABELS_MAX)),
        ("bytes of the labels of an instance", count(LABELS_BYTES_MAX)),
        ("bytes of the name of an instance", count(INSTANCE_MAX)),
        ("bytes of all names with their instances", mebibytes(JOB_NAMES_BYTES_MAX)),
        ("age of a value", format!("{} minutes", AGE_MAX.0 / 60_000_000_000)),
        ("time of a value ahead of the clock", format!("{} s", AHEAD_MAX.0 / 1_000_000_000)),
        ("bytes of a datagram", count(DATAGRAM_MAX)),
        ("lines of a datagram", count(LINES_MAX)),
        ("datagrams taken in one gather", count(DATAGRAMS_AT_ONCE)),
        ("lines a second", count(LINES_A_SECOND)),
        ("bytes of lines a second", mebibytes(LINE_BYTES_A_SECOND)),
    ] {
        assert!(row(PUBLISH, what).starts_with(&format!("| {what} | {limit} |")), "'{what}' is {limit}");
    }
    for label in LABELS_TAKEN {
        assert!(PUBLISH.contains(&format!("`{label}`")), "{label} is refused");
    }
}

#[test]
fn the_page_of_limits_has_those_of_jobs() {
    let kibibytes = |bytes: usize| format!("{} KiB", bytes >> 10);
    for (what, numbers) in [
        (
            "names that jobs publish at one node",
            vec![count(JOB_METRICS_MAX), count(JOB_SERIES_MAX), format!("{} MiB", JOB_NAMES_BYTES_MAX >> 20)],
        ),
        ("labels of a published number", vec![count(LABELS_MAX), kibibytes(LABELS_BYTES_MAX)]),
        (
            "datagrams of jobs",
            vec![
                format!("{LINES_MAX} lines"),
                kibibytes(DATAGRAM_MAX),
                format!("{DATAGRAMS_AT_ONCE} in one"),
            ],
        ),
        ("lines of jobs a second", vec![count(LINES_A_SECOND), format!("{} MiB", LINE_BYTES_A_SECOND >> 20)]),
    ] {
        for number in numbers {
            assert!(row(LIMITS, what).contains(&number), "'{what}' has {number} in the code");
        }
    }
}
