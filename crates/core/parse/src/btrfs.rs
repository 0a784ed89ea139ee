//! `/sys/fs/btrfs`: each mounted Btrfs: its devices, what is allocated to data, metadata and system, and how long its commits take.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "btrfs",
    path: "sys/fs/btrfs",
    pieces: Pieces::Survey { subject: Subject::Tree("btrfs"), captured: "survey/btrfs" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; FILE_SYSTEM.len() + DEVICE.len() + TYPE.len() + MODE.len()] = Group::join(&[
    &FILE_SYSTEM_GROUP.each(&FILE_SYSTEM),
    &DEVICE_GROUP.each(&DEVICE),
    &TYPE_GROUP.each(&TYPE),
    &MODE_GROUP.each(&MODE),
]);

const FILE_SYSTEM_GROUP: Group = Group {
    label: "uuid",
    kind: "file_system",
    branch: Some(Branch { folders: "sys/fs/btrfs/*-*", name: &[Part::Named(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
};

const DEVICE_GROUP: Group = Group {
    label: "uuid",
    kind: "device",
    instance_labels: &["device"],
    branch: Some(Branch {
        folders: "sys/fs/btrfs/*-*/devices/*",
        name: &[Part::Named(0), Part::Named(1)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// Data, metadata, system.
const TYPE_GROUP: Group = Group {
    label: "uuid",
    kind: "type",
    instance_labels: &["block_group_type"],
    branch: Some(Branch {
        folders: "sys/fs/btrfs/*-*/allocation/*",
        name: &[Part::Named(0), Part::Named(1)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// How blocks of a type are spread over devices: `single`, `raid1`.
const MODE_GROUP: Group = Group {
    label: "uuid",
    kind: "mode",
    instance_labels: &["block_group_type", "mode"],
    branch: Some(Branch {
        folders: "sys/fs/btrfs/*-*/allocation/*/*",
        name: &[Part::Named(0), Part::Named(1), Part::Named(2)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// The devices, seen from the folder of a mode.
const DEVICES: &str = "../../../devices/*";

/// The kernel counts a device's sectors of 512 bytes.
const SECTOR: u64 = 512;

#[rustfmt::skip]
static FILE_SYSTEM: [Entry; 6] = [
    info("btrfs.file_system", "label", "node_btrfs_info", "Label of the file system.").every(SURVEY_PERIOD),
    gauge("btrfs.global_reserve", "allocation/global_rsv_size", Unit::Bytes, "What is kept free for work that must not fail.")
        .every(SURVEY_PERIOD).exposed("node_btrfs_global_rsv_size_bytes", &[]),
    counter("btrfs.commits", "commit_stats: commits 1 of 1", Unit::Count, "Commits of the file system (Linux 6.0).")
        .every(SURVEY_PERIOD).exposed("node_btrfs_commits_total", &[]),
    counter("btrfs.commit_time", "commit_stats: total_commit_ms 1 of 1", Unit::Seconds, "Time of all commits.").steps(3)
        .every(SURVEY_PERIOD).exposed("node_btrfs_commit_seconds_total", &[]),
    gauge("btrfs.last_commit", "commit_stats: last_commit_ms 1 of 1", Unit::Seconds, "Time of the last commit.").steps(3)
        .every(SURVEY_PERIOD).exposed("node_btrfs_last_commit_seconds", &[]),
    gauge("btrfs.longest_commit", "commit_stats: max_commit_ms 1 of 1", Unit::Seconds, "Time of the longest commit.").steps(3)
        .every(SURVEY_PERIOD).exposed("node_btrfs_max_commit_seconds", &[]),
];

static DEVICE: [Entry; 1] = [gauge("btrfs.device_size", "size", Unit::Bytes, "Size of a device.")
    .times(SECTOR)
    .every(SURVEY_PERIOD)
    .exposed("node_btrfs_device_size_bytes", &[])];

static TYPE: [Entry; 1] =
    [gauge("btrfs.reserved", "bytes_reserved", Unit::Bytes, "What is reserved for blocks of this type.")
        .every(SURVEY_PERIOD)
        .exposed("node_btrfs_reserved_bytes", &[])];

#[rustfmt::skip]
static MODE: [Entry; 3] = [
    gauge("btrfs.size", "total_bytes", Unit::Bytes, "What is allocated to blocks of this type and mode.")
        .every(SURVEY_PERIOD).exposed("node_btrfs_size_bytes", &[]),
    gauge("btrfs.used", "used_bytes", Unit::Bytes, "What of it is used.")
        .every(SURVEY_PERIOD).exposed("node_btrfs_used_bytes", &[]),
    gauge("btrfs.allocation_ratio", DEVICES, Unit::Count, "Bytes of the devices that a byte takes in this mode.")
        .form(Form::Copies).steps(9).every(SURVEY_PERIOD).exposed("node_btrfs_allocation_ratio", &[]),
];
