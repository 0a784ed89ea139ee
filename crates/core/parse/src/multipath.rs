//! `/sys/block/dm-*`: disks that can be reached over several paths (dm-multipath), and the state of each path.

use khz_model::Unit;

use crate::entry::{Entry, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "dmmultipath",
    path: "sys/block/dm-*",
    pieces: Pieces::Survey { subject: Subject::Tree("dmmultipath"), captured: "survey/dmmultipath" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; DISK.len() + PATH.len()] =
    Group::join(&[&DISK_GROUP.each(&DISK), &PATH_GROUP.each(&PATH)]);

/// Other disks of the device mapper (LVM, encrypted ones) are called otherwise.
const ONLY: Option<(&str, &str)> = Some(("dm/uuid", "mpath-"));

const DISK_GROUP: Group = Group {
    label: "device",
    kind: "disk",
    instance_labels: &["sysfs_name"],
    branch: Some(Branch {
        folders: "sys/block/dm-#",
        name: &[Part::Value("dm/name"), Part::Named(0)],
        only: ONLY,
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const PATH_GROUP: Group = Group {
    label: "device",
    kind: "path",
    instance_labels: &["path", "state"],
    branch: Some(Branch {
        folders: "sys/block/dm-#",
        name: &[Part::Value("dm/name"), Part::Word, Part::Value(PATH_STATE)],
        only: ONLY,
        words: Words::Files("slaves/*"),
    }),
    ..Group::PLAIN
};

/// The state of the disk that a path leads to.
const PATH_STATE: &str = "slaves/#/device/state";

/// The states of all paths.
const STATES: &str = "slaves/*/device/state";

/// What SCSI and NVMe call a disk that works.
const WORKING: &[&str] = &["running", "live"];

/// The kernel counts sectors of 512 bytes.
const SECTOR: u64 = 512;

#[rustfmt::skip]
static DISK: [Entry; 6] = [
    gauge("multipath.active", "dm/suspended", Unit::Count, "1 if the disk takes requests; 0 if it is suspended.").at_most(1).form(Form::IsNot)
        .every(SURVEY_PERIOD).exposed("node_dmmultipath_device_active", &[]),
    gauge("multipath.size", "size", Unit::Bytes, "Size of the disk.").times(SECTOR)
        .every(SURVEY_PERIOD).exposed("node_dmmultipath_device_size_bytes", &[]),
    gauge("multipath.paths", "slaves/*", Unit::Count, "Paths to the disk.").form(Form::CountOf(&[]))
        .every(SURVEY_PERIOD).exposed("node_dmmultipath_device_paths", &[]),
    gauge("multipath.paths_active", STATES, Unit::Count, "Paths to the disk that work.").form(Form::CountOf(WORKING))
        .every(SURVEY_PERIOD).exposed("node_dmmultipath_device_paths_active", &[]),
    gauge("multipath.paths_failed", STATES, Unit::Count, "Paths to the disk that do not work.").form(Form::CountOfOthers(WORKING))
        .every(SURVEY_PERIOD).exposed("node_dmmultipath_device_paths_failed", &[]),
    info("multipath.disk", "uuid=dm/uuid", "node_dmmultipath_device_info", "Identifier of the disk.").every(SURVEY_PERIOD),
];

static PATH: [Entry; 1] = [gauge(
    "multipath.path_state",
    PATH_STATE,
    Unit::Count,
    "1 for each path to a disk; its label says in which state it is.",
)
.form(Form::One)
.at_most(1)
.every(SURVEY_PERIOD)
.exposed("node_dmmultipath_path_state", &[])];
