//! `/sys/class/powercap`: the energy that parts of the machine have used, as the processors measure it (RAPL). Since Linux 5.10
//! only root may read it. The counters begin again at 0 after some kJ (`max_energy_range_uj`), within minutes under load.

use khz_model::Unit;

use crate::entry::{Entry, counter};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "rapl",
    path: "sys/class/powercap",
    pieces: Pieces::Survey { subject: Subject::Tree("rapl"), captured: "survey/rapl" },
    only_base: true,
    scalars: &[],
    groups: &[
        zone("package", PACKAGE),
        zone("core", CORE),
        zone("uncore", UNCORE),
        zone("dram", DRAM),
        zone("psys", PSYS),
    ],
    parse,
};

/// The zones of this name, with a number or without one: `package-0`, `core`.
const fn zone(name: &'static str, entries: &'static [Entry]) -> Group {
    Group {
        label: "index",
        kind: name,
        entries,
        instance_labels: &["path"],
        branch: Some(Branch {
            folders: "sys/class/powercap/*",
            name: &[Part::Index, Part::Path],
            only: Some(("name", name)),
            ..Branch::PLAIN
        }),
        ..Group::PLAIN
    }
}

const fn energy(name: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, "energy_uj", Unit::Joules, help).steps(6).every(SURVEY_PERIOD).exposed(family, &[])
}

static PACKAGE: &[Entry] = &[energy(
    "rapl.package",
    "node_rapl_package_joules_total",
    "Energy used by: the whole processor package.",
)];

static CORE: &[Entry] =
    &[energy("rapl.core", "node_rapl_core_joules_total", "Energy used by: the cores of the processor.")];

static UNCORE: &[Entry] = &[energy(
    "rapl.uncore",
    "node_rapl_uncore_joules_total",
    "Energy used by: other parts of the processor, such as its graphics.",
)];

static DRAM: &[Entry] = &[energy("rapl.dram", "node_rapl_dram_joules_total", "Energy used by: the memory.")];

static PSYS: &[Entry] = &[energy(
    "rapl.psys",
    "node_rapl_psys_joules_total",
    "Energy used by: the whole system, where its firmware measures that.",
)];
