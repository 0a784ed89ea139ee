//! `/proc/stat`: CPU times in ticks of USER_HZ (10 ms), interrupts, context switches, forks, boot time.
//! Kernel documentation: Documentation/filesystems/proc.rst, section 1.7.
//!
//! `user` already contains `guest`, and `nice` contains `guest_nice`: never add them.

use std::ops::Range;

use khz_model::{Fault, Nanos, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::words;

/// The file.
pub static FILE: KernelFile = KernelFile {
    name: "stat",
    path: "proc/stat",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: SCALARS,
    groups: &[Group { label: "cpu", entries: PER_CPU, ..Group::PLAIN }],
    parse,
};

/// The kernel accounts CPU time tick by tick.
const TICK: Nanos = Nanos::from_millis(10);

/// The exposition's fixed labels.
type Labels = &'static [(&'static str, &'static str)];

/// A CPU time, in hundredths of a second.
const fn time(name: &'static str, field: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Seconds, help).steps(2).every(TICK)
}

const fn all(name: &'static str, field: &'static str, labels: Labels, help: &'static str) -> Entry {
    time(name, field, help)
        .exposed("khz_cpu_all_seconds_total", labels)
        .together("Time that all CPUs together spent in each mode.")
}

const fn one(name: &'static str, field: &'static str, labels: Labels, help: &'static str) -> Entry {
    time(name, field, help)
        .exposed("node_cpu_seconds_total", labels)
        .together("Time that each CPU spent in each mode.")
}

const fn guest(name: &'static str, field: &'static str, labels: Labels, help: &'static str) -> Entry {
    time(name, field, help)
        .exposed("node_cpu_guest_seconds_total", labels)
        .together("Time that each CPU spent running guests, contained in its user and nice time.")
}

static SCALARS: &[Entry] = &[
    all("cpu.all.user", "cpu user", &[("mode", "user")], "Time of all CPUs in user mode."),
    all("cpu.all.nice", "cpu nice", &[("mode", "nice")], "Time of all CPUs in user mode at low priority."),
    all("cpu.all.system", "cpu system", &[("mode", "system")], "Time of all CPUs in the kernel."),
    all(
        "cpu.all.idle",
        "cpu idle",
        &[("mode", "idle")],
        "Time of all CPUs doing nothing; may step back a little.",
    ),
    all(
        "cpu.all.iowait",
        "cpu iowait",
        &[("mode", "iowait")],
        "Idle time with a disk request outstanding; may step back.",
    ),
    all("cpu.all.irq", "cpu irq", &[("mode", "irq")], "Time of all CPUs in interrupt handlers."),
    all("cpu.all.softirq", "cpu softirq", &[("mode", "softirq")], "Time of all CPUs in soft interrupts."),
    all(
        "cpu.all.steal",
        "cpu steal",
        &[("mode", "steal")],
        "Time a hypervisor gave to others while we wanted to run.",
    ),
    all("cpu.all.guest", "cpu guest", &[("mode", "guest")], "Time running guests, contained in user."),
    all(
        "cpu.all.guest_nice",
        "cpu guest_nice",
        &[("mode", "guest_nice")],
        "Time running niced guests, contained in nice.",
    ),
    counter("kernel.interrupts", "intr (first number)", Unit::Count, "Interrupts served since boot.")
        .exposed("node_intr_total", &[]),
    counter("kernel.context_switches", "ctxt", Unit::Count, "Context switches since boot.")
        .exposed("node_context_switches_total", &[]),
    gauge("kernel.boot_time", "btime", Unit::Seconds, "When the node was booted, in seconds since 1970.")
        .constant()
        .exposed("node_boot_time_seconds", &[]),
    counter("kernel.forks", "processes", Unit::Count, "Processes and threads created since boot.")
        .exposed("node_forks_total", &[]),
    gauge("kernel.procs_running", "procs_running", Unit::Count, "Tasks that run or could run.")
        .exposed("node_procs_running", &[]),
    gauge("kernel.procs_blocked", "procs_blocked", Unit::Count, "Tasks that wait for a disk.")
        .exposed("node_procs_blocked", &[]),
];

const STATES: usize = 10;
const INTERRUPTS: usize = 10;
const CONTEXT_SWITCHES: usize = 11;
const BOOT_TIME: usize = 12;
const FORKS: usize = 13;
const RUNNING: usize = 14;
const BLOCKED: usize = 15;

static PER_CPU: &[Entry] = &[
    one("cpu.user", "cpuN user", &[("mode", "user")], "Time of this CPU in user mode."),
    one("cpu.nice", "cpuN nice", &[("mode", "nice")], "Time of this CPU in user mode at low priority."),
    one("cpu.system", "cpuN system", &[("mode", "system")], "Time of this CPU in the kernel."),
    one(
        "cpu.idle",
        "cpuN idle",
        &[("mode", "idle")],
        "Time of this CPU doing nothing; may step back a little.",
    ),
    one(
        "cpu.iowait",
        "cpuN iowait",
        &[("mode", "iowait")],
        "Idle time with a disk request outstanding; may step back.",
    ),
    one("cpu.irq", "cpuN irq", &[("mode", "irq")], "Time of this CPU in interrupt handlers."),
    one("cpu.softirq", "cpuN softirq", &[("mode", "softirq")], "Time of this CPU in soft interrupts."),
    one(
        "cpu.steal",
        "cpuN steal",
        &[("mode", "steal")],
        "Time a hypervisor gave to others while this CPU wanted to run.",
    ),
    guest("cpu.guest", "cpuN guest", &[("mode", "user")], "Time running guests, contained in user."),
    guest(
        "cpu.guest_nice",
        "cpuN guest_nice",
        &[("mode", "nice")],
        "Time running niced guests, contained in nice.",
    ),
];

fn parse(sink: &mut Sink<'_>) {
    sink.lines(|sink, line| {
        let mut words = words(sink.text(), line.clone());
        let Some(name) = words.next() else { return };
        let rest = words.rest();
        match &sink.text()[name.clone()] {
            b"cpu" => all_cpus(sink, rest),
            // `cpu1` is not `cpu`: rstatd once confused the two.
            [b'c', b'p', b'u', number @ ..] if number.iter().all(u8::is_ascii_digit) => {
                one_cpu(sink, number, rest)
            }
            b"intr" => first_number(sink, INTERRUPTS, rest),
            b"ctxt" => first_number(sink, CONTEXT_SWITCHES, rest),
            b"btime" => first_number(sink, BOOT_TIME, rest),
            b"processes" => first_number(sink, FORKS, rest),
            b"procs_running" => first_number(sink, RUNNING, rest),
            b"procs_blocked" => first_number(sink, BLOCKED, rest),
            // softirq, and lines that only kernel 2.4 printed (page, swap, disk_io): no metric needs them.
            _ => sink.ignore(rest),
        }
    });
}

fn all_cpus(sink: &mut Sink<'_>, rest: Range<usize>) {
    let mut words = words(sink.text(), rest);
    for state in 0..STATES {
        // Kernel 2.4 printed four states; the later states are Absent there.
        let Some(word) = words.next() else { return };
        sink.scalar(state, word);
    }
    sink.ignore(words.rest());
}

fn one_cpu(sink: &mut Sink<'_>, number: &[u8], rest: Range<usize>) {
    let Some(cpu) = sink.instance(0, number) else { return };
    let mut words = words(sink.text(), rest);
    for state in 0..STATES {
        let Some(word) = words.next() else { return };
        sink.field(cpu, state, word);
    }
    sink.ignore(words.rest());
}

/// The first number of a line. On `intr` thousands may follow, one for each interrupt; they are ignored.
fn first_number(sink: &mut Sink<'_>, scalar: usize, rest: Range<usize>) {
    let mut words = words(sink.text(), rest);
    match words.next() {
        Some(word) => sink.scalar(scalar, word),
        None => sink.fail_scalar(scalar, Fault::Malformed, "the line has no number"),
    }
    sink.ignore(words.rest());
}

#[cfg(test)]
mod tests {
    use crate::{FaultNote, Outcome, Parser};
    use khz_model::{Absence, Fault, Reading};

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str, cpu: Option<&str>) -> Reading {
        let instance = cpu.map(|c| khz_model::Instance::from_kernel(c.as_bytes()));
        parser.reading(parser.schema().slot(metric, instance.as_ref()).unwrap() as usize).unwrap()
    }

    const TEXT: &str = "cpu  699 0 283 87380 93 0 9 1 0 0\ncpu0 237 0 119 43858 1 0 2 0 0 0\ncpu1 462 0 163 43522 92 0 7 0 0 0\n\
        intr 4711 0 9 0\nctxt 5120\nbtime 1763690000\nprocesses 2221\nprocs_running 1\nprocs_blocked 0\nsoftirq 9 1 2\n";

    #[test]
    fn cpu1_is_never_taken_for_cpu() {
        // The old rstatd searched for the letters "cpu" to find the sum, and took cpu1's line when it came
        // first.
        let text = TEXT.replace("cpu  699 0 283 87380 93 0 9 1 0 0\n", "");
        let parser = read(&text);
        assert_eq!(get(&parser, "cpu.all.user", None), Reading::Absent(Absence::NoField));
        assert_eq!(get(&parser, "cpu.user", Some("1")), Reading::Present(462));
        let reordered = "cpu1 462 0\ncpu0 237 0\ncpu  699 0\n";
        assert_eq!(get(&read(reordered), "cpu.all.user", None), Reading::Present(699));
        assert_eq!(
            get(&read("cpu1000 5\ncpu100 6\ncpu10 7\ncpu 8\n"), "cpu.user", Some("10")),
            Reading::Present(7)
        );
    }

    #[test]
    fn the_whole_file() {
        let parser = read(TEXT);
        assert_eq!(parser.faults(), []);
        for (metric, cpu, value) in [
            ("cpu.all.user", None, 699),
            ("cpu.all.guest_nice", None, 0),
            ("cpu.idle", Some("0"), 43_858),
            ("cpu.softirq", Some("1"), 7),
            ("kernel.interrupts", None, 4_711),
            ("kernel.context_switches", None, 5_120),
            ("kernel.boot_time", None, 1_763_690_000),
            ("kernel.forks", None, 2_221),
            ("kernel.procs_running", None, 1),
            ("kernel.procs_blocked", None, 0),
        ] {
            assert_eq!(get(&parser, metric, cpu), Reading::Present(value), "{metric}");
        }
    }

    #[test]
    fn a_cpu_that_goes_is_absent_and_keeps_its_slots() {
        let mut parser = read(TEXT);
        let slot = parser.schema().slot("cpu.user", Some(&khz_model::Instance::from_kernel(b"1")));
        parser.advance_with(TEXT.replace("cpu1 462 0 163 43522 92 0 7 0 0 0\n", "").as_bytes());
        assert_eq!(get(&parser, "cpu.user", Some("1")), Reading::Absent(Absence::InstanceGone));
        assert_eq!(get(&parser, "cpu.user", Some("0")), Reading::Present(237));
        parser.advance_with(TEXT.replace("cpu1", "cpu2").as_bytes());
        assert_eq!(get(&parser, "cpu.user", Some("2")), Reading::Present(462));
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(get(&parser, "cpu.user", Some("1")), Reading::Present(462));
        assert_eq!(parser.schema().slot("cpu.user", Some(&khz_model::Instance::from_kernel(b"1"))), slot);
    }

    #[test]
    fn states_that_an_old_kernel_does_not_print_are_absent_not_zero() {
        let parser = read(
            "cpu  1 2 3 4\ncpu0 1 2 3 4\npage 5741 1808\nswap 1 0\nintr 1462898\nctxt 115315\nbtime 769041601\nprocesses 86031\n",
        );
        assert_eq!(parser.faults(), []);
        assert_eq!(get(&parser, "cpu.all.idle", None), Reading::Present(4));
        assert_eq!(get(&parser, "cpu.all.iowait", None), Reading::Absent(Absence::NoField));
        assert_eq!(get(&parser, "cpu.steal", Some("0")), Reading::Absent(Absence::NoField));
        assert_eq!(get(&parser, "kernel.procs_running", None), Reading::Absent(Absence::NoField));
    }

    #[test]
    fn interrupts_may_change_after_the_first_number_without_a_full_parse() {
        let mut parser = read(TEXT);
        assert_eq!(
            parser.advance_with(TEXT.replace("4711 0 9 0", "4712 0 9 1").as_bytes()),
            Outcome::InPlace
        );
        assert_eq!(get(&parser, "kernel.interrupts", None), Reading::Present(4_712));
        assert_eq!(parser.changed().len(), 1);
    }

    #[test]
    fn a_broken_number_is_failed_and_named_and_the_rest_goes_on() {
        let parser = read(
            &TEXT
                .replace("cpu1 462 0 163", "cpu1 462 x 163")
                .replace("ctxt 5120", "ctxt 99999999999999999999"),
        );
        assert_eq!(get(&parser, "cpu.nice", Some("1")), Reading::Failed(Fault::Malformed));
        assert_eq!(get(&parser, "cpu.system", Some("1")), Reading::Present(163));
        assert_eq!(get(&parser, "kernel.context_switches", None), Reading::Failed(Fault::OutOfRange));
        assert_eq!(
            parser.faults()[0],
            FaultNote { line: 3, field: "cpu.nice[1]".into(), problem: "not a number" }
        );
        assert_eq!(parser.faults()[1].to_string(), "line 5: kernel.context_switches: number beyond 64 bits");
    }
}
