//! `/sys/devices/system/cpu/cpu*/thermal_throttle`: how often the processors were slowed down because they were too hot.
//! Only some processors have these files (Intel's); virtual machines have none.

use khz_model::Unit;

use crate::entry::{Entry, counter};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "cpu/throttle",
    path: "sys/devices/system/cpu",
    pieces: Pieces::Survey { subject: Subject::Throttling, captured: "survey/cpu_throttle" },
    only_base: false,
    scalars: &[],
    groups: &[
        Group { label: "core", entries: PER_CORE, instance_labels: &["package"], ..Group::PLAIN },
        Group { label: "package", entries: PER_PACKAGE, ..Group::PLAIN },
    ],
    parse,
};

static PER_CORE: &[Entry] = &[counter(
    "thermal.core_throttles",
    "core_throttle_count",
    Unit::Count,
    "Times that the core was slowed down because it was too hot.",
)
.every(SURVEY_PERIOD)
.exposed("node_cpu_core_throttles_total", &[])];

static PER_PACKAGE: &[Entry] = &[counter(
    "thermal.package_throttles",
    "package_throttle_count",
    Unit::Count,
    "Times that the processor's package was slowed down because it was too hot.",
)
.every(SURVEY_PERIOD)
.exposed("node_cpu_package_throttles_total", &[])];

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Instance, Reading};

    #[test]
    fn cores_of_two_packages_may_have_the_same_number() {
        let mut parser = Parser::new(&super::FILE);
        let text = "core 0 package=0 core_throttles=3\ncore 0 package=1 core_throttles=4\npackage 0 package_throttles=5\n\
                    package 1 package_throttles=6\n";
        parser.advance_with(text.as_bytes());
        assert_eq!(parser.faults(), []);
        let found = [
            ("core", "0,package=0", 3),
            ("core", "0,package=1", 4),
            ("package", "0", 5),
            ("package", "1", 6),
        ];
        for (kind, instance, value) in found {
            let instance = Instance::parse(instance).unwrap();
            let slot = parser.schema().slot(&format!("thermal.{kind}_throttles"), Some(&instance)).unwrap();
            assert_eq!(parser.reading(slot as usize), Some(Reading::Present(value)), "{kind} {instance}");
        }
    }
}
