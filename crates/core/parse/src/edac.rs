//! `/sys/devices/system/edac/mc`: the errors that each controller of the memory has found since its driver was loaded.
//! Where no driver is loaded, as in virtual machines, there is no such folder, and the errors are not known.

use khz_model::Unit;

use crate::entry::{Entry, counter};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "edac",
    path: "sys/devices/system/edac/mc",
    pieces: Pieces::Survey { subject: Subject::MemoryErrors, captured: "survey/edac" },
    only_base: false,
    scalars: &[],
    groups: &[Group { label: "controller", entries: PER_CONTROLLER, total_of: &[], instance_labels: &[] }],
    parse,
};

static PER_CONTROLLER: &[Entry] = &[
    counter("edac.correctable_errors", "ce_count", Unit::Count, "Errors of the memory that were corrected.")
        .every(SURVEY_PERIOD)
        .exposed("node_edac_correctable_errors_total", &[]),
    counter(
        "edac.uncorrectable_errors",
        "ue_count",
        Unit::Count,
        "Errors of the memory that could not be corrected.",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_edac_uncorrectable_errors_total", &[]),
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
        assert_eq!(parser.reading(2), Some(Reading::Failed(Fault::Unreadable)));
        assert_eq!(parser.reading(3), Some(Reading::Present(0)));
    }
}
