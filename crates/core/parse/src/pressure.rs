//! `/proc/pressure/*` (PSI): the share of time in which tasks waited for a resource, and the sum of that
//! time. Kernel documentation: Documentation/accounting/psi.rst. Kernels without PSI have no such files; the
//! metrics are Absent.

use std::ops::Range;

use khz_model::{Nanos, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::{split_at_mark, words};

/// Waiting for a CPU.
pub static CPU: KernelFile = file("pressure/cpu", "proc/pressure/cpu", CPU_ENTRIES);
/// Waiting for memory.
pub static MEMORY: KernelFile = file("pressure/memory", "proc/pressure/memory", MEMORY_ENTRIES);
/// Waiting for disks.
pub static IO: KernelFile = file("pressure/io", "proc/pressure/io", IO_ENTRIES);
/// Time lost to interrupts (Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING).
pub static IRQ: KernelFile = file("pressure/irq", "proc/pressure/irq", IRQ_ENTRIES);

const fn file(name: &'static str, path: &'static str, scalars: &'static [Entry]) -> KernelFile {
    KernelFile { name, path, pieces: Pieces::Whole, only_base: false, scalars, groups: &[], parse }
}

/// PSI_FREQ in kernel/sched/psi.c: the averages move every 2 s.
const EVERY_2S: Nanos = Nanos::from_secs(2);

const fn average(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    gauge(name, field, Unit::Percent, help).places(2).at_most(10_000).every(EVERY_2S).exposed(family, &[])
}

/// The kernel prints whole microseconds.
const fn total(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Seconds, help).steps(6).exposed(family, &[])
}

static CPU_ENTRIES: &[Entry] = &[
    average(
        "pressure.cpu.some.avg10",
        "some avg10",
        "khz_pressure_cpu_some_avg10_percent",
        "Share of the last 10 s in which at least one task waited for a CPU.",
    ),
    average(
        "pressure.cpu.some.avg60",
        "some avg60",
        "khz_pressure_cpu_some_avg60_percent",
        "Share of the last 60 s in which at least one task waited for a CPU.",
    ),
    average(
        "pressure.cpu.some.avg300",
        "some avg300",
        "khz_pressure_cpu_some_avg300_percent",
        "Share of the last 300 s in which at least one task waited for a CPU.",
    ),
    total(
        "pressure.cpu.some.total",
        "some total",
        "node_pressure_cpu_waiting_seconds_total",
        "Time in which at least one task waited for a CPU.",
    ),
    average(
        "pressure.cpu.full.avg10",
        "full avg10",
        "khz_pressure_cpu_full_avg10_percent",
        "Share of the last 10 s in which all tasks that were not idle waited for a CPU.",
    ),
    average(
        "pressure.cpu.full.avg60",
        "full avg60",
        "khz_pressure_cpu_full_avg60_percent",
        "Share of the last 60 s in which all tasks that were not idle waited for a CPU.",
    ),
    average(
        "pressure.cpu.full.avg300",
        "full avg300",
        "khz_pressure_cpu_full_avg300_percent",
        "Share of the last 300 s in which all tasks that were not idle waited for a CPU.",
    ),
    total(
        "pressure.cpu.full.total",
        "full total",
        "node_pressure_cpu_stalled_seconds_total",
        "Time in which all tasks that were not idle waited for a CPU.",
    ),
];

static MEMORY_ENTRIES: &[Entry] = &[
    average(
        "pressure.memory.some.avg10",
        "some avg10",
        "khz_pressure_memory_some_avg10_percent",
        "Share of the last 10 s in which at least one task waited for memory.",
    ),
    average(
        "pressure.memory.some.avg60",
        "some avg60",
        "khz_pressure_memory_some_avg60_percent",
        "Share of the last 60 s in which at least one task waited for memory.",
    ),
    average(
        "pressure.memory.some.avg300",
        "some avg300",
        "khz_pressure_memory_some_avg300_percent",
        "Share of the last 300 s in which at least one task waited for memory.",
    ),
    total(
        "pressure.memory.some.total",
        "some total",
        "node_pressure_memory_waiting_seconds_total",
        "Time in which at least one task waited for memory.",
    ),
    average(
        "pressure.memory.full.avg10",
        "full avg10",
        "khz_pressure_memory_full_avg10_percent",
        "Share of the last 10 s in which all tasks that were not idle waited for memory.",
    ),
    average(
        "pressure.memory.full.avg60",
        "full avg60",
        "khz_pressure_memory_full_avg60_percent",
        "Share of the last 60 s in which all tasks that were not idle waited for memory.",
    ),
    average(
        "pressure.memory.full.avg300",
        "full avg300",
        "khz_pressure_memory_full_avg300_percent",
        "Share of the last 300 s in which all tasks that were not idle waited for memory.",
    ),
    total(
        "pressure.memory.full.total",
        "full total",
        "node_pressure_memory_stalled_seconds_total",
        "Time in which all tasks that were not idle waited for memory.",
    ),
];

static IO_ENTRIES: &[Entry] = &[
    average(
        "pressure.io.some.avg10",
        "some avg10",
        "khz_pressure_io_some_avg10_percent",
        "Share of the last 10 s in which at least one task waited for a disk.",
    ),
    average(
        "pressure.io.some.avg60",
        "some avg60",
        "khz_pressure_io_some_avg60_percent",
        "Share of the last 60 s in which at least one task waited for a disk.",
    ),
    average(
        "pressure.io.some.avg300",
        "some avg300",
        "khz_pressure_io_some_avg300_percent",
        "Share of the last 300 s in which at least one task waited for a disk.",
    ),
    total(
        "pressure.io.some.total",
        "some total",
        "node_pressure_io_waiting_seconds_total",
        "Time in which at least one task waited for a disk.",
    ),
    average(
        "pressure.io.full.avg10",
        "full avg10",
        "khz_pressure_io_full_avg10_percent",
        "Share of the last 10 s in which all tasks that were not idle waited for a disk.",
    ),
    average(
        "pressure.io.full.avg60",
        "full avg60",
        "khz_pressure_io_full_avg60_percent",
        "Share of the last 60 s in which all tasks that were not idle waited for a disk.",
    ),
    average(
        "pressure.io.full.avg300",
        "full avg300",
        "khz_pressure_io_full_avg300_percent",
        "Share of the last 300 s in which all tasks that were not idle waited for a disk.",
    ),
    total(
        "pressure.io.full.total",
        "full total",
        "node_pressure_io_stalled_seconds_total",
        "Time in which all tasks that were not idle waited for a disk.",
    ),
];

static IRQ_ENTRIES: &[Entry] = &[
    average(
        "pressure.irq.full.avg10",
        "full avg10",
        "khz_pressure_irq_full_avg10_percent",
        "Share of the last 10 s in which all tasks that were not idle waited for interrupts.",
    ),
    average(
        "pressure.irq.full.avg60",
        "full avg60",
        "khz_pressure_irq_full_avg60_percent",
        "Share of the last 60 s in which all tasks that were not idle waited for interrupts.",
    ),
    average(
        "pressure.irq.full.avg300",
        "full avg300",
        "khz_pressure_irq_full_avg300_percent",
        "Share of the last 300 s in which all tasks that were not idle waited for interrupts.",
    ),
    total(
        "pressure.irq.full.total",
        "full total",
        "node_pressure_irq_stalled_seconds_total",
        "Time in which all tasks that were not idle waited for interrupts.",
    ),
];

fn parse(sink: &mut Sink<'_>) {
    sink.lines(|sink, line| {
        let mut words = words(sink.text(), line);
        let Some(kind) = words.next() else { return };
        for word in words {
            match split_at_mark(sink.text(), word.clone(), b'=') {
                Some((name, number)) => pair(sink, kind.clone(), name, number),
                None => sink.note(String::from_utf8_lossy(&sink.text()[word]).into_owned(), "no '=' in it"),
            }
        }
    });
}

fn pair(sink: &mut Sink<'_>, kind: Range<usize>, name: Range<usize>, number: Range<usize>) {
    let text = sink.text();
    let is = |field: &str| {
        field
            .split_once(' ')
            .is_some_and(|(k, n)| k.as_bytes() == &text[kind.clone()] && n.as_bytes() == &text[name.clone()])
    };
    match sink.scalars().iter().position(|entry| is(entry.field)) {
        Some(scalar) => sink.scalar(scalar, number),
        None => sink.ignore_word(number),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Reading};

    const TEXT: &str = "some avg10=1.53 avg60=0.00 avg300=0.02 total=800286\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";

    #[test]
    fn eight_numbers() {
        let mut parser = Parser::new(&super::MEMORY);
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(parser.values(), [153, 0, 2, 800_286, 0, 0, 0, 9]);
        assert_eq!(parser.advance_with(TEXT.replace("286", "301").as_bytes()), Outcome::InPlace);
        assert_eq!(parser.values()[3], 800_301);
    }

    #[test]
    fn a_kernel_without_full_for_cpus_has_it_absent() {
        let mut parser = Parser::new(&super::CPU);
        parser.advance_with(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
        assert_eq!(parser.reading(7), Some(Reading::Absent(Absence::NoField)));
        assert_eq!(parser.faults(), []);
    }
}
