//! `/sys/devices/system/cpu/cpu*/cpufreq`: how fast each processor may and does run, and who decides it.
//!
//! Some kernels take 20 ms for each processor to report its present speed. On such kernels, these files are read once and
//! then no more ([`Form::ThousandsIfQuick`]).

use khz_model::Unit;

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "cpufreq",
    path: "sys/devices/system/cpu/cpu*/cpufreq",
    pieces: Pieces::Survey { subject: Subject::Tree("cpufreq"), captured: "survey/cpufreq" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; CPU.len() + 1] = Group::join(&[&CPU_GROUP.each(&CPU), &[GOVERNOR]]);

const CPU_GROUP: Group = Group {
    label: "cpu",
    branch: Some(Branch {
        folders: "sys/devices/system/cpu/cpu#/cpufreq",
        name: &[Part::Captured(0)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const GOVERNOR: Group = Group {
    label: "cpu",
    kind: "governor",
    entries: PER_GOVERNOR,
    instance_labels: &["governor"],
    branch: Some(Branch {
        folders: "sys/devices/system/cpu/cpu#/cpufreq",
        name: &[Part::Captured(0), Part::Word],
        words: Words::Of("scaling_available_governors"),
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// The kernel prints kHz.
const fn of_cpu(
    name: &'static str,
    file: &'static str,
    form: Form,
    family: &'static str,
    help: &'static str,
) -> Entry {
    gauge(name, file, Unit::Hertz, help).form(form).every(SURVEY_PERIOD).exposed(family, &[])
}

static CPU: [Entry; 7] = [
    of_cpu(
        "cpufreq.current",
        "cpuinfo_cur_freq",
        Form::ThousandsIfQuick,
        "node_cpu_frequency_hertz",
        "How fast the processor runs, as the hardware says.",
    ),
    of_cpu(
        "cpufreq.average",
        "cpuinfo_avg_freq",
        Form::ThousandsIfQuick,
        "node_cpu_frequency_avg_hertz",
        "How fast the processor ran recently, on average.",
    ),
    of_cpu(
        "cpufreq.min",
        "cpuinfo_min_freq",
        Form::Thousands,
        "node_cpu_frequency_min_hertz",
        "How slow the processor can run.",
    ),
    of_cpu(
        "cpufreq.max",
        "cpuinfo_max_freq",
        Form::Thousands,
        "node_cpu_frequency_max_hertz",
        "How fast the processor can run.",
    ),
    of_cpu(
        "cpufreq.scaling_current",
        "scaling_cur_freq",
        Form::ThousandsIfQuick,
        "node_cpu_scaling_frequency_hertz",
        "How fast the processor runs, as the kernel believes.",
    ),
    of_cpu(
        "cpufreq.scaling_min",
        "scaling_min_freq",
        Form::Thousands,
        "node_cpu_scaling_frequency_min_hertz",
        "How slow the kernel lets the processor run.",
    ),
    of_cpu(
        "cpufreq.scaling_max",
        "scaling_max_freq",
        Form::Thousands,
        "node_cpu_scaling_frequency_max_hertz",
        "How fast the kernel lets the processor run.",
    ),
];

static PER_GOVERNOR: &[Entry] = &[gauge(
    "cpufreq.governor",
    "scaling_governor",
    Unit::Count,
    "1 if this governor decides how fast the processor runs.",
)
.form(Form::IsWord)
.at_most(1)
.every(SURVEY_PERIOD)
.exposed("node_cpu_scaling_governor", &[])];
