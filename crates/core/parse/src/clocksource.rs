//! `/sys/devices/system/clocksource`: the clock by which the kernel measures time, and the other
//! clocks that it could use.

use khz_model::Unit;

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "clocksource",
    path: "sys/devices/system/clocksource",
    pieces: Pieces::Survey { subject: Subject::Tree("clocksource"), captured: "survey/clocksource" },
    only_base: true,
    scalars: &[],
    groups: &[CURRENT, AVAILABLE],
    parse,
};

const CURRENT: Group = Group {
    label: "device",
    kind: "current",
    entries: PER_CURRENT,
    instance_labels: &["clocksource"],
    branch: Some(Branch {
        folders: FOLDERS,
        name: &[Part::Captured(0), Part::Value("current_clocksource")],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const AVAILABLE: Group = Group {
    label: "device",
    kind: "available",
    entries: PER_AVAILABLE,
    instance_labels: &["clocksource"],
    branch: Some(Branch {
        folders: FOLDERS,
        name: &[Part::Captured(0), Part::Word],
        words: Words::Of("available_clocksource"),
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const FOLDERS: &str = "sys/devices/system/clocksource/clocksource#";

static PER_CURRENT: &[Entry] = &[gauge(
    "clocksource.current",
    "current_clocksource",
    Unit::Count,
    "1 for what the kernel measures time by.",
)
.form(Form::One)
.at_most(1)
.every(SURVEY_PERIOD)
.exposed("node_time_clocksource_current_info", &[])];

static PER_AVAILABLE: &[Entry] = &[gauge(
    "clocksource.available",
    "available_clocksource",
    Unit::Count,
    "1 for each thing that the kernel could measure time by.",
)
.form(Form::One)
.at_most(1)
.every(SURVEY_PERIOD)
.exposed("node_time_clocksource_available_info", &[])];
