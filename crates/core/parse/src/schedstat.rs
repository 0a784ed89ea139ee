//! `/proc/schedstat`: how long tasks have run on each CPU, how long they have waited for it, and how often a task was put on it.
//! The file also has a line for each scheduling domain of each CPU. These lines are not read, but make the file long on large
//! machines, so it is read every 10 s. The file exists only if the kernel has CONFIG_SCHEDSTATS.

use khz_model::Unit;

use crate::columns::parse;
use crate::entry::{Entry, counter};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::survey::SURVEY_PERIOD;

/// The file. A record is a CPU with its domains: a line of some 400 bytes for each level of the machine.
pub static FILE: KernelFile = KernelFile {
    name: "schedstat",
    path: "proc/schedstat",
    pieces: Pieces::Records { longest: 4_096 },
    only_base: true,
    scalars: &[],
    groups: &[Group { label: "cpu", entries: PER_CPU, ..Group::PLAIN }],
    parse,
};

#[rustfmt::skip]
static PER_CPU: &[Entry] = &[
    counter("schedstat.running", "cpu# 7 of 9", Unit::Seconds, "Time that tasks have run on this CPU.").steps(9).every(SURVEY_PERIOD)
        .exposed("node_schedstat_running_seconds_total", &[]),
    counter("schedstat.waiting", "cpu# 8 of 9", Unit::Seconds, "Time that tasks have waited for this CPU while they were ready to run.").steps(9).every(SURVEY_PERIOD)
        .exposed("node_schedstat_waiting_seconds_total", &[]),
    counter("schedstat.timeslices", "cpu# 9 of 9", Unit::Count, "Times that a task was put on this CPU.").every(SURVEY_PERIOD)
        .exposed("node_schedstat_timeslices_total", &[]),
];

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Fault, Instance, Reading};

    const TEXT: &str = "version 15\ntimestamp 15819\ncpu0 4 0 3 2 1 2 2045 343 47\ndomain0 00000000,00000003 212 210 18\n\
                        cpu11 4 0 3 2 1 2 77 78 79\n";

    fn get(parser: &Parser, metric: &str, cpu: &str) -> Option<Reading> {
        let slot = parser.schema().slot(metric, Some(&Instance::parse(cpu).unwrap()))?;
        parser.reading(slot as usize)
    }

    #[test]
    fn each_cpu_has_its_times_and_domains_change_nothing() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(parser.faults(), []);
        assert_eq!(get(&parser, "schedstat.running", "0"), Some(Reading::Present(2_045)));
        assert_eq!(get(&parser, "schedstat.timeslices", "11"), Some(Reading::Present(79)));
        let later = TEXT.replace("212 210", "999 998").replace(" 343 ", " 344 ");
        assert_eq!(parser.advance_with(later.as_bytes()), Outcome::InPlace);
        assert_eq!(get(&parser, "schedstat.waiting", "0"), Some(Reading::Present(344)));
        parser.advance_with(TEXT.replace(" 77 78 79", " 77 78").as_bytes());
        assert_eq!(get(&parser, "schedstat.running", "11"), Some(Reading::Failed(Fault::Malformed)));
        assert_eq!(get(&parser, "schedstat.running", "0"), Some(Reading::Present(2_045)));
    }
}
