//! `/sys/devices/system/edac/mc`: the errors that each controller of the memory has found since its driver was loaded, those of
//! each row of chips, and those of each channel, which is a memory module. Where no driver is loaded, as in virtual machines, the
//! errors are not known.

use khz_model::Unit;

use crate::entry::{Entry, counter};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "edac",
    path: "sys/devices/system/edac/mc",
    pieces: Pieces::Survey { subject: Subject::Tree("edac"), captured: "survey/edac" },
    only_base: false,
    scalars: &[],
    groups: &[CONTROLLER, ROW, CHANNEL],
    parse,
};

const CONTROLLER: Group = Group {
    label: "controller",
    entries: PER_CONTROLLER,
    branch: Some(Branch {
        folders: "sys/devices/system/edac/mc/mc#",
        name: &[Part::Captured(0)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const ROW: Group = Group {
    label: "controller",
    kind: "row",
    entries: PER_ROW,
    instance_labels: &["csrow"],
    branch: Some(Branch {
        folders: "sys/devices/system/edac/mc/mc#/csrow#",
        name: &[Part::Captured(0), Part::Captured(1)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const CHANNEL: Group = Group {
    label: "controller",
    kind: "channel",
    entries: PER_CHANNEL,
    instance_labels: &["csrow", "channel", "dimm_label"],
    branch: Some(Branch {
        folders: "sys/devices/system/edac/mc/mc#/csrow#",
        name: &[Part::Captured(0), Part::Captured(1), Part::Word, DIMM],
        words: Words::Files("ch#_ce_count"),
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// What the module is called: as node_exporter writes it, `mc0_csrow1_channel0` for `mc#0csrow#1channel#0`.
const DIMM: Part =
    Part::Edited("ch#_dimm_label", &[("#", ""), ("csrow", "_csrow"), ("channel", "_channel")], "unknown");

const fn errors(
    name: &'static str,
    file: &'static str,
    family: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Entry {
    counter(name, file, Unit::Count, help).every(SURVEY_PERIOD).exposed(family, labels)
}

static PER_CONTROLLER: &[Entry] = &[
    errors(
        "edac.correctable_errors",
        "ce_count",
        "node_edac_correctable_errors_total",
        &[],
        "Errors of the memory that were corrected.",
    ),
    errors(
        "edac.uncorrectable_errors",
        "ue_count",
        "node_edac_uncorrectable_errors_total",
        &[],
        "Errors of the memory that could not be corrected.",
    ),
    errors(
        "edac.unplaced_correctable_errors",
        "ce_noinfo_count",
        "node_edac_csrow_correctable_errors_total",
        &[("csrow", "unknown")],
        "Errors that were corrected, of which the row is not known.",
    ),
    errors(
        "edac.unplaced_uncorrectable_errors",
        "ue_noinfo_count",
        "node_edac_csrow_uncorrectable_errors_total",
        &[("csrow", "unknown")],
        "Errors that could not be corrected, of which the row is not known.",
    ),
];

static PER_ROW: &[Entry] = &[
    errors(
        "edac.row_correctable_errors",
        "ce_count",
        "node_edac_csrow_correctable_errors_total",
        &[],
        "Errors of the row that were corrected.",
    ),
    errors(
        "edac.row_uncorrectable_errors",
        "ue_count",
        "node_edac_csrow_uncorrectable_errors_total",
        &[],
        "Errors of the row that could not be corrected.",
    ),
];

static PER_CHANNEL: &[Entry] = &[
    errors(
        "edac.channel_correctable_errors",
        "ch#_ce_count",
        "node_edac_channel_correctable_errors_total",
        &[],
        "Errors of the module that were corrected.",
    ),
    errors(
        "edac.channel_uncorrectable_errors",
        "ch#_ue_count",
        "node_edac_channel_uncorrectable_errors_total",
        &[],
        "Errors of the module that could not be corrected.",
    ),
];

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Fault, Reading};

    #[test]
    fn a_count_that_cannot_be_read_is_failed() {
        let mut parser = Parser::new(&super::FILE);
        let text = "controller 0 correctable_errors=12 uncorrectable_errors=0\ncontroller 1 correctable_errors=unreadable \
                    uncorrectable_errors=0\n";
        parser.advance_with(text.as_bytes());
        assert_eq!(parser.reading(0), Some(Reading::Present(12)));
        assert_eq!(parser.reading(4), Some(Reading::Failed(Fault::Unreadable)));
        assert_eq!(parser.reading(5), Some(Reading::Present(0)));
    }
}
