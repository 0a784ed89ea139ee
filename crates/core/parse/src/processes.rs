//! Processes: which take most CPU time, memory and input and output, sums by program, and how many there are. Their files
//! `/proc/PID/stat` and `/proc/PID/io` are read by a survey; this file parses their texts, and lists the survey's numbers.
//!
//! Kernel documentation: Documentation/filesystems/proc.rst, tables 1-4 (stat) and 3.3 (io).

use khz_model::{Nanos, Unit};

use crate::entry::{Entry, counter, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::number;
use crate::survey::parse;

/// The time between two looks at the processes; longer where a look costs more than its budget.
pub const PROCESSES_PERIOD: Nanos = Nanos::SECOND;

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "processes",
    path: "proc/PID",
    pieces: Pieces::Survey { subject: Subject::Processes, captured: "survey/processes" },
    only_base: true,
    scalars: SCALARS,
    groups: GROUPS,
    parse,
};

static GROUPS: &[Group] = &[
    Group { label: "state", entries: OF_STATE, ..Group::PLAIN },
    Group { label: "place", kind: BUSIEST, entries: OF_BUSIEST, ..Group::PLAIN },
    Group { label: "place", kind: LARGEST, entries: OF_LARGEST, ..Group::PLAIN },
    Group { label: "place", kind: MOVERS, entries: OF_MOVERS, ..Group::PLAIN },
    Group { label: "program", entries: OF_PROGRAM, ..Group::PLAIN },
];

/// The words with which the survey's lines about places begin: by CPU time, by memory, by input and output.
pub const BUSIEST: &str = "busiest";
/// By memory.
pub const LARGEST: &str = "largest";
/// By input and output.
pub const MOVERS: &str = "movers";

const fn of(entry: Entry, family: &'static str) -> Entry {
    entry.every(PROCESSES_PERIOD).exposed(family, &[])
}

#[rustfmt::skip]
static SCALARS: &[Entry] = &[
    of(gauge("processes.count", "folders of /proc", Unit::Count, "Processes, also those of the kernel."), "node_processes_pids"),
    of(gauge("processes.threads", "stat num_threads", Unit::Count, "Threads of all processes; each process has one at least."), "node_processes_threads"),
    of(counter("processes.short_lived", "processes of /proc/stat, without those that were seen", Unit::Count, "Processes and threads that came and went between two looks, so that they were never seen."), "khz_processes_short_lived_total"),
    of(gauge("processes.look_period", "time between two looks", Unit::Seconds, "How far apart the last two looks at the processes were: more than asked where one costs too much.").steps(3), "khz_processes_look_period_seconds"),
    of(gauge("processes.left_out", "folders that are not read", Unit::Count, "Processes beyond the most that are looked at, and those whose files khz may not read."), "khz_processes_left_out"),
];

static OF_STATE: &[Entry] = &[of(
    gauge(
        "processes.in_state",
        "stat state",
        Unit::Count,
        "Processes in this state: R runs or could, S sleeps, D waits for a disk, I is idle, T is stopped, Z has ended and nobody has asked how.",
    ),
    "node_processes_state",
)];

#[rustfmt::skip]
static OF_BUSIEST: &[Entry] = &[
    of(gauge("process.cpu", "stat utime + stime", Unit::Percent, "CPU time of the process in this place since the look before; 100 is one CPU.").steps(1).described_by("process.busiest"), "khz_process_cpu_percent"),
    of(info("process.busiest", "pid, command, user", "khz_process_busiest_info", "The process in this place among those that take most CPU time. It keeps its place while it is one of them."), "khz_process_busiest_info"),
];

#[rustfmt::skip]
static OF_LARGEST: &[Entry] = &[
    of(gauge("process.memory", "stat rss", Unit::Bytes, "Memory of the process in this place, with what it shares.").described_by("process.largest"), "khz_process_memory_bytes"),
    of(info("process.largest", "pid, command, user", "khz_process_largest_info", "The process in this place among those that have most memory. It keeps its place while it is one of them."), "khz_process_largest_info"),
];

#[rustfmt::skip]
static OF_MOVERS: &[Entry] = &[
    of(gauge("process.io", "io read_bytes + write_bytes", Unit::Bytes, "Bytes a second that the process in this place has read from disks and written to them since the look before.").described_by("process.mover"), "khz_process_io_bytes"),
    of(info("process.mover", "pid, command, user", "khz_process_mover_info", "The process in this place among those that read and write most. It keeps its place while it is one of them."), "khz_process_mover_info"),
];

#[rustfmt::skip]
static OF_PROGRAM: &[Entry] = &[
    of(gauge("program.cpu", "stat utime + stime", Unit::Percent, "CPU time of all processes of this name since the look before; 100 is one CPU.").steps(1), "khz_program_cpu_percent"),
    of(gauge("program.memory", "stat rss", Unit::Bytes, "Memory of all processes of this name; what they share counts for each."), "khz_program_memory_bytes"),
    of(gauge("program.io", "io read_bytes + write_bytes", Unit::Bytes, "Bytes a second that all processes of this name have read from disks and written to them."), "khz_program_io_bytes"),
    of(gauge("program.processes", "folders of /proc", Unit::Count, "Processes of this name."), "khz_program_processes"),
    of(gauge("program.threads", "stat num_threads", Unit::Count, "Threads of all processes of this name."), "khz_program_threads"),
];

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    /// The command's first fifteen bytes, or what the process calls itself.
    pub command: &'a [u8],
    /// One letter.
    pub state: u8,
    /// True for a thread of the kernel.
    pub is_kernel: bool,
    /// CPU time in hundredths of a second.
    pub ticks: u64,
    /// The number of its threads.
    pub threads: u64,
    /// When it began, in hundredths of a second since boot: tells it from a later process of the same number.
    pub began: u64,
    /// Pages of memory.
    pub pages: u64,
}

/// The kernel's flag of its own threads (PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Reads `/proc/PID/stat`; `None`: it is damaged. A command may have any bytes, also blanks and parentheses, so what follows it is
/// found from the end.
pub fn process_stat(text: &[u8]) -> Option<ProcessStat<'_>> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let command = text.get(open + 1..close)?;
    let mut words = text.get(close + 1..)?.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    // The state is the third word of all.
    let state = *words.next().filter(|word| word.len() == 1)?.first()?;
    // From here on, word n of the kernel's table is n - 4 words further.
    let flags = unsigned(words.nth(9 - 4)?)?;
    let user = unsigned(words.nth(14 - 10)?)?;
    let system = unsigned(words.next()?)?;
    let threads = unsigned(words.nth(20 - 16)?)?;
    let began = unsigned(words.nth(22 - 21)?)?;
    // A process that is about to end has a negative number for a moment.
    let pages = words.nth(24 - 23)?;
    let pages = if pages.starts_with(b"-") { 0 } else { unsigned(pages)? };
    let ticks = user.checked_add(system)?;
    Some(ProcessStat { command, state, is_kernel: flags & KERNEL_THREAD != 0, ticks, threads, began, pages })
}

/// Bytes that a process has read from disks and written to them, by `/proc/PID/io`.
pub fn process_io(text: &[u8]) -> Option<u64> {
    let number = |key: &[u8]| {
        let mut lines = text.split(|&byte| byte == b'\n');
        let said = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(b":"))?;
        unsigned(said.trim_ascii())
    };
    number(b"read_bytes")?.checked_add(number(b"write_bytes")?)
}

/// The processes and threads that were ever made, by `/proc/stat`.
pub fn forks(text: &[u8]) -> Option<u64> {
    let said = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"processes "))?;
    unsigned(said.trim_ascii())
}

fn unsigned(word: &[u8]) -> Option<u64> {
    number::digits(word).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The words after the command, with these numbers in them.
    fn after(
        state: char,
        flags: u64,
        user: u64,
        system: u64,
        threads: u64,
        began: u64,
        pages: i64,
    ) -> String {
        format!(
            "{state} 1 17 17 0 -1 {flags} 100 200 3 4 {user} {system} 8 9 20 0 {threads} 0 {began} 4096000 {pages} 18446744073709551615 1 1 0"
        )
    }

    #[test]
    fn a_process_is_read() {
        let text = format!("17 (ssh) {}\n", after('S', 4_194_560, 120, 30, 2, 12_345, 800));
        let expected = ProcessStat {
            command: b"ssh",
            state: b'S',
            is_kernel: false,
            ticks: 150,
            threads: 2,
            began: 12_345,
            pages: 800,
        };
        assert_eq!(process_stat(text.as_bytes()), Some(expected));
        let text = format!("2 (kthreadd) {}", after('S', 2_129_984, 0, 0, 1, 0, 0));
        assert!(process_stat(text.as_bytes()).unwrap().is_kernel);
        let text = format!("9 (gone) {}", after('X', 0, 0, 0, 1, 0, -3));
        assert_eq!(process_stat(text.as_bytes()).unwrap().pages, 0);
    }

    #[test]
    fn this_process_is_read_from_the_kernel() {
        let text = std::fs::read("/proc/self/stat").unwrap();
        let stat = process_stat(&text).unwrap();
        assert!(stat.threads >= 1 && stat.pages > 0 && !stat.is_kernel && stat.began > 0, "{stat:?}");
        let clone = std::fs::read("/proc/stat").unwrap();
        assert!(forks(&clone).unwrap() > 1);
        if let Ok(io) = std::fs::read("/proc/self/io") {
            assert!(process_io(&io).is_some());
        }
    }

    #[test]
    fn damage_is_none() {
        let whole = format!("17 (ssh) {}", after('S', 0, 1, 2, 3, 4, 5));
        for length in 0..whole.find("4096000").unwrap() {
            assert_eq!(process_stat(&whole.as_bytes()[..length]), None, "{length}");
        }
        for text in ["", "17 ssh) S", ")(", "17 (a) SS 1", "17 (a) S x"] {
            assert_eq!(process_stat(text.as_bytes()), None, "{text}");
        }
        assert_eq!(process_io(b"rchar: 1\nread_bytes: x\nwrite_bytes: 1\n"), None);
        assert_eq!(process_io(b"rchar: 1\nread_bytes: 4096\nwrite_bytes: 1\n"), Some(4_097));
        assert_eq!(process_io(b"read_bytes: 4096\n"), None);
        assert_eq!((forks(b"processes x\n"), forks(b"cpu 1\nprocesses 7\n")), (None, Some(7)));
    }

    proptest! {
        #[test]
        fn a_command_may_have_any_bytes(command in prop::collection::vec(any::<u8>(), 0..16), user in 0u64..1 << 60, pages in 0i64..1 << 40) {
            let mut text = b"17 (".to_vec();
            text.extend(&command);
            text.extend(format!(") {}\n", after('R', 0, user, 1, 3, 4, pages)).bytes());
            let stat = process_stat(&text).unwrap();
            prop_assert_eq!(stat.command, &command[..]);
            prop_assert_eq!((stat.ticks, stat.threads, stat.began, stat.pages), (user + 1, 3, 4, pages.unsigned_abs()));
        }

        #[test]
        fn foreign_bytes_never_panic(text: Vec<u8>) {
            let _ = (process_stat(&text), process_io(&text), forks(&text));
        }
    }
}
