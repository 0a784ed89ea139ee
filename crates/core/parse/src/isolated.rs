//! `/sys/devices/system/cpu/isolated`: the CPUs on which the scheduler puts no tasks by itself (`isolcpus`). It has 1 for each of them,
//! and nothing for the others.

use khz_model::Unit;

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "cpu/isolated",
    path: "sys/devices/system/cpu/isolated",
    pieces: Pieces::Survey { subject: Subject::Tree("cpu/isolated"), captured: "survey/cpu_isolated" },
    only_base: true,
    scalars: &[],
    groups: &[CPU],
    parse,
};

const CPU: Group = Group {
    label: "cpu",
    entries: PER_CPU,
    branch: Some(Branch {
        folders: "sys/devices/system/cpu",
        name: &[Part::Word],
        words: Words::Ranges("isolated"),
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

static PER_CPU: &[Entry] = &[gauge(
    "cpu.isolated",
    "isolated",
    Unit::Count,
    "1 if the scheduler puts no tasks on this CPU by itself.",
)
.form(Form::One)
.at_most(1)
.every(SURVEY_PERIOD)
.exposed("node_cpu_isolated", &[])];
