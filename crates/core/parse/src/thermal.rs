//! `/sys/class/thermal`: the temperature of each thermal zone, and how much each cooling device is at work.

use khz_model::Unit;

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "thermal_zone",
    path: "sys/class/thermal",
    pieces: Pieces::Survey { subject: Subject::Tree("thermal_zone"), captured: "survey/thermal_zone" },
    only_base: true,
    scalars: &[],
    groups: &[ZONE, COOLING],
    parse,
};

const ZONE: Group = Group {
    label: "zone",
    entries: PER_ZONE,
    instance_labels: &["type"],
    branch: Some(Branch {
        folders: "sys/class/thermal/thermal_zone#",
        name: &[Part::Captured(0), Part::Value("type")],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const COOLING: Group = Group {
    label: "name",
    kind: "cooling",
    entries: PER_COOLING,
    instance_labels: &["type"],
    branch: Some(Branch {
        folders: "sys/class/thermal/cooling_device#",
        name: &[Part::Captured(0), Part::Value("type")],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

static PER_ZONE: &[Entry] =
    &[gauge("thermal.temperature", "temp", Unit::Celsius, "Temperature of the zone.")
        .steps(3)
        .signed()
        .every(SURVEY_PERIOD)
        .exposed("node_thermal_zone_temp", &[])];

static PER_COOLING: &[Entry] = &[
    gauge(
        "thermal.cooling",
        "cur_state",
        Unit::Count,
        "How much the device cools: 0 not at all; -1 it is idle.",
    )
    .signed()
    .every(SURVEY_PERIOD)
    .exposed("node_cooling_device_cur_state", &[]),
    gauge("thermal.cooling_max", "max_state", Unit::Count, "The most that the device can cool.")
        .signed()
        .every(SURVEY_PERIOD)
        .exposed("node_cooling_device_max_state", &[]),
];
