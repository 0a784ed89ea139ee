//! `/sys/class/watchdog`: the watchdogs, which restart the machine when it hangs.

use khz_model::Unit;

use crate::entry::{Entry, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "watchdog",
    path: "sys/class/watchdog",
    pieces: Pieces::Survey { subject: Subject::Tree("watchdog"), captured: "survey/watchdog" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; WATCHDOG.len()] = Group {
    label: "name",
    kind: "watchdog",
    branch: Some(Branch { folders: "sys/class/watchdog/*", name: &[Part::Captured(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
}
.each(&WATCHDOG);

static WATCHDOG: [Entry; 8] = [
    gauge(
        "watchdog.boot_status",
        "bootstatus",
        Unit::Count,
        "What the watchdog did before this start: bits WDIOF_....",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_watchdog_bootstatus", &[]),
    gauge("watchdog.firmware_version", "fw_version", Unit::Count, "Version of the firmware.")
        .every(SURVEY_PERIOD)
        .exposed("node_watchdog_fw_version", &[]),
    gauge(
        "watchdog.no_way_out",
        "nowayout",
        Unit::Count,
        "1 if the watchdog cannot be stopped once it runs.",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_watchdog_nowayout", &[]),
    gauge("watchdog.time_left", "timeleft", Unit::Seconds, "Time until the watchdog restarts the machine.")
        .every(SURVEY_PERIOD)
        .exposed("node_watchdog_timeleft_seconds", &[]),
    gauge(
        "watchdog.timeout",
        "timeout",
        Unit::Seconds,
        "Time after which the watchdog restarts the machine if nobody says that all is well.",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_watchdog_timeout_seconds", &[]),
    gauge("watchdog.early_timeout", "pretimeout", Unit::Seconds, "How much earlier the watchdog warns.")
        .every(SURVEY_PERIOD)
        .exposed("node_watchdog_pretimeout_seconds", &[]),
    gauge(
        "watchdog.access_cs0",
        "access_cs0",
        Unit::Count,
        "Which flash memory the machine has started from, where the watchdog may change it.",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_watchdog_access_cs0", &[]),
    info(
        "watchdog.info",
        "identity, options, pretimeout_governor, state, status",
        "node_watchdog_info",
        "What the watchdog is, what it can do and its state.",
    )
    .every(SURVEY_PERIOD),
];
