//! `/sys/class/nvme`: the NVMe controllers and the sizes of their namespaces. The used size of a namespace (`nuse`) is not
//! read, because each read is a command to the controller.

use khz_model::Unit;

use crate::entry::{Entry, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "nvme",
    path: "sys/class/nvme",
    pieces: Pieces::Survey { subject: Subject::Tree("nvme"), captured: "survey/nvme" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; 1 + NAMESPACE.len()] =
    Group::join(&[&[CONTROLLER], &NAMESPACE_GROUP.each(&NAMESPACE)]);

const CONTROLLER: Group = Group {
    label: "device",
    kind: "controller",
    entries: PER_CONTROLLER,
    branch: Some(Branch { folders: "sys/class/nvme/nvme#", name: &[Part::Named(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
};

/// With several paths to a namespace, each path has a folder of its own: `nvme0c1n1`.
const NAMESPACE_GROUP: Group = Group {
    label: "device",
    kind: "namespace",
    instance_labels: &["nsid"],
    branch: Some(Branch {
        folders: "sys/class/nvme/nvme#/nvme*n#",
        name: &[Part::Named(0), Part::ValueOr("nsid", 2)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

static PER_CONTROLLER: &[Entry] = &[info(
    "nvme.controller",
    "cntlid, firmware_revision=firmware_rev, model, serial, state",
    "node_nvme_info",
    "Model, firmware and state of the controller.",
)
.every(SURVEY_PERIOD)];

/// The kernel counts sectors of 512 bytes, whatever the namespace has.
const SECTOR: u64 = 512;

static NAMESPACE: [Entry; 4] = [
    gauge("nvme.namespace_size", "size", Unit::Bytes, "Size of the namespace.")
        .times(SECTOR)
        .every(SURVEY_PERIOD)
        .exposed("node_nvme_namespace_size_bytes", &[]),
    gauge("nvme.namespace_capacity", "size", Unit::Bytes, "The same, as node_exporter has it twice.")
        .times(SECTOR)
        .every(SURVEY_PERIOD)
        .exposed("node_nvme_namespace_capacity_bytes", &[]),
    gauge("nvme.block_size", "queue/logical_block_size", Unit::Bytes, "Size of a block of the namespace.")
        .every(SURVEY_PERIOD)
        .exposed("node_nvme_namespace_logical_block_size_bytes", &[]),
    info(
        "nvme.namespace",
        "ana_state or unknown",
        "node_nvme_namespace_info",
        "State of the namespace where it can be reached in several ways (ANA).",
    )
    .every(SURVEY_PERIOD),
];
