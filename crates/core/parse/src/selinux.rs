//! `/sys/fs/selinux`: whether SELinux is on, and whether it forbids, now and after the next boot. A kernel without SELinux has no such
//! folder.

use khz_model::Unit;

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "selinux",
    path: "sys/fs/selinux",
    pieces: Pieces::Survey { subject: Subject::Tree("selinux"), captured: "survey/selinux" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; MODES.len()] =
    Group { branch: Some(Branch { folders: "sys/fs", ..Branch::PLAIN }), ..Group::PLAIN }.each(&MODES);

static MODES: [Entry; 3] = [
    gauge("selinux.enabled", "selinux/enforce", Unit::Count, "1 if SELinux is on, 0 if it is not.")
        .form(Form::CountOf(&[]))
        .at_most(1)
        .every(SURVEY_PERIOD)
        .exposed("node_selinux_enabled", &[]),
    gauge(
        "selinux.enforcing",
        "selinux/enforce",
        Unit::Count,
        "1 if SELinux forbids, 0 if it only reports; absent where it is off.",
    )
    .at_most(1)
    .every(SURVEY_PERIOD)
    .exposed("node_selinux_current_mode", &[]),
    gauge(
        "selinux.configured",
        CONFIGURATION,
        Unit::Count,
        "What SELinux does after a boot: 1 if it forbids, 0 if it only reports, -1 if it is off; absent where it is off now.",
    )
    .form(Form::OneOf(&[("enforcing", 1), ("permissive", 0), ("disabled", -1)]))
    .signed()
    .every(SURVEY_PERIOD)
    .exposed("node_selinux_config_mode", &[]),
];

/// The line of `/etc/selinux/config`; the path leads through a folder that exists only if SELinux is on.
const CONFIGURATION: &str = "selinux/../../../etc/selinux/config: SELINUX= 1 of 1";
