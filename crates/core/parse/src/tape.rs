//! `/sys/class/scsi_tape`: what each tape drive has read and written.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "tape",
    path: "sys/class/scsi_tape",
    pieces: Pieces::Survey { subject: Subject::Tree("tape"), captured: "survey/tape" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; DRIVE.len()] = Group {
    label: "device",
    kind: "tape",
    branch: Some(Branch { folders: "sys/class/scsi_tape/st#", name: &[Part::Named(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
}
.each(&DRIVE);

static DRIVE: [Entry; 10] = [
    gauge("tape.io_now", "stats/in_flight", Unit::Count, "Requests that are under way.")
        .steps(0)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_io_now", &[]),
    counter(
        "tape.io_time",
        "stats/io_ns",
        Unit::Seconds,
        "Time in which requests were under way, moves of the tape among them.",
    )
    .steps(9)
    .every(SURVEY_PERIOD)
    .exposed("node_tape_io_time_seconds_total", &[]),
    counter("tape.other_requests", "stats/other_cnt", Unit::Count, "Requests other than reads and writes.")
        .steps(0)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_io_others_total", &[]),
    counter("tape.read_bytes", "stats/read_byte_cnt", Unit::Bytes, "Bytes read from the tape.")
        .steps(0)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_read_bytes_total", &[]),
    counter("tape.reads", "stats/read_cnt", Unit::Count, "Requests to read.")
        .steps(0)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_reads_completed_total", &[]),
    counter("tape.read_time", "stats/read_ns", Unit::Seconds, "Time in which reads were under way.")
        .steps(9)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_read_time_seconds_total", &[]),
    counter(
        "tape.residuals",
        "stats/resid_cnt",
        Unit::Count,
        "Reads and writes whose size was not that of the block on the tape.",
    )
    .steps(0)
    .every(SURVEY_PERIOD)
    .exposed("node_tape_residual_total", &[]),
    counter("tape.written_bytes", "stats/write_byte_cnt", Unit::Bytes, "Bytes written to the tape.")
        .steps(0)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_written_bytes_total", &[]),
    counter("tape.writes", "stats/write_cnt", Unit::Count, "Requests to write.")
        .steps(0)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_writes_completed_total", &[]),
    counter("tape.write_time", "stats/write_ns", Unit::Seconds, "Time in which writes were under way.")
        .steps(9)
        .every(SURVEY_PERIOD)
        .exposed("node_tape_write_time_seconds_total", &[]),
];
