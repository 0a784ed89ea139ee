//! Control groups (cgroup v2): CPU time, memory, input and output, and tasks of every service, slice, container, job and step on
//! a node. Their files are read by a survey, since there may be thousands; this file lists the files and their numbers, and
//! reads the numbers from their texts.
//!
//! Kernel documentation: Documentation/admin-guide/cgroup-v2.rst. The group that is mounted, of which all others are parts, is
//! in [`crate::cgroup`].

use khz_model::{Fault, Nanos, Unit};

use crate::entry::{Entry, counter, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::number;
use crate::survey::parse;

/// The time between two surveys of the groups; longer where a survey costs more than its budget.
pub const CONTROL_GROUPS_PERIOD: Nanos = Nanos::SECOND;

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "cgroups",
    path: "sys/fs/cgroup",
    pieces: Pieces::Survey { subject: Subject::ControlGroups, captured: "survey/cgroups" },
    only_base: true,
    scalars: SCALARS,
    groups: &GROUPS,
    parse,
};

static SCALARS: &[Entry] = &[now(
    "cgroup.count",
    "folders with tasks",
    "khz_cgroups",
    "Control groups that have tasks and are read.",
)];

static GROUPS: [Group; 1 + NUMBERS.len()] =
    Group::join(&[&GROUP.each(&NUMBERS), &[Group { entries: INFO, ..GROUP }]]);

const GROUP: Group = Group { label: "cgroup", ..Group::PLAIN };

const fn time(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Seconds, help).steps(6).every(CONTROL_GROUPS_PERIOD).exposed(family, &[])
}

const fn count(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Count, help).every(CONTROL_GROUPS_PERIOD).exposed(family, &[])
}

const fn moved(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Bytes, help).every(CONTROL_GROUPS_PERIOD).exposed(family, &[])
}

const fn bytes(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    gauge(name, field, Unit::Bytes, help).every(CONTROL_GROUPS_PERIOD).exposed(family, &[])
}

const fn now(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    gauge(name, field, Unit::Count, help).every(CONTROL_GROUPS_PERIOD).exposed(family, &[])
}

/// The field of an entry is its file, and its word there if the file has several numbers.
#[rustfmt::skip]
static NUMBERS: [Entry; 30] = [
    time("cgroup.cpu_usage", "cpu.stat usage_usec", "khz_cgroup_cpu_usage_seconds_total", "CPU time of the group, of user programs and of the kernel for them."),
    time("cgroup.cpu_user", "cpu.stat user_usec", "khz_cgroup_cpu_user_seconds_total", "CPU time of the group in user programs."),
    time("cgroup.cpu_system", "cpu.stat system_usec", "khz_cgroup_cpu_system_seconds_total", "CPU time of the group in the kernel."),
    count("cgroup.cpu_periods", "cpu.stat nr_periods", "khz_cgroup_cpu_periods_total", "Periods in which the group's CPU limit was enforced."),
    count("cgroup.cpu_throttled", "cpu.stat nr_throttled", "khz_cgroup_cpu_throttled_periods_total", "Periods in which the group reached its CPU limit and had to wait."),
    time("cgroup.cpu_throttled_time", "cpu.stat throttled_usec", "khz_cgroup_cpu_throttled_seconds_total", "Time that the group's CPUs waited because of its CPU limit."),
    time("cgroup.cpu_waiting", "cpu.pressure some", "khz_cgroup_cpu_waiting_seconds_total", "Time in which at least one task of the group waited for a CPU."),
    bytes("cgroup.memory", "memory.current", "khz_cgroup_memory_bytes", "Memory of the group and its parts, with its part of the page cache."),
    bytes("cgroup.memory_peak", "memory.peak", "khz_cgroup_memory_peak_bytes", "The most memory that the group ever had (Linux 5.19)."),
    bytes("cgroup.memory_limit", "memory.max", "khz_cgroup_memory_limit_bytes", "Memory that the group may have at most; absent if there is no limit."),
    bytes("cgroup.memory_swap", "memory.swap.current", "khz_cgroup_memory_swap_bytes", "Memory of the group that is swapped out."),
    bytes("cgroup.memory_anon", "memory.stat anon", "khz_cgroup_memory_anon_bytes", "Memory of the group that belongs to no file: what its programs have allocated."),
    bytes("cgroup.memory_file", "memory.stat file", "khz_cgroup_memory_file_bytes", "The group's part of the page cache, with shared memory."),
    bytes("cgroup.memory_kernel", "memory.stat kernel", "khz_cgroup_memory_kernel_bytes", "Memory of the kernel for the group (Linux 5.18)."),
    bytes("cgroup.memory_shmem", "memory.stat shmem", "khz_cgroup_memory_shmem_bytes", "Shared memory and tmpfs of the group."),
    count("cgroup.memory_major_faults", "memory.stat pgmajfault", "khz_cgroup_memory_major_faults_total", "Page faults of the group for which the kernel had to read from a disk."),
    count("cgroup.memory_high_events", "memory.events high", "khz_cgroup_memory_high_events_total", "Times that the group was slowed down because it was above memory.high."),
    count("cgroup.memory_max_events", "memory.events max", "khz_cgroup_memory_max_events_total", "Times that the group was about to pass its limit of memory."),
    count("cgroup.memory_oom_events", "memory.events oom", "khz_cgroup_memory_oom_events_total", "Times that the group was at its limit, and could free no memory."),
    count("cgroup.memory_oom_kills", "memory.events oom_kill", "khz_cgroup_memory_oom_kills_total", "Processes of the group that were killed for want of memory."),
    time("cgroup.memory_waiting", "memory.pressure some", "khz_cgroup_memory_waiting_seconds_total", "Time in which at least one task of the group waited for memory."),
    time("cgroup.memory_stalled", "memory.pressure full", "khz_cgroup_memory_stalled_seconds_total", "Time in which all tasks of the group that had work waited for memory."),
    moved("cgroup.io_read", "io.stat rbytes", "khz_cgroup_io_read_bytes_total", "Bytes that the group has read from disks."),
    moved("cgroup.io_written", "io.stat wbytes", "khz_cgroup_io_written_bytes_total", "Bytes that the group has written to disks."),
    count("cgroup.io_reads", "io.stat rios", "khz_cgroup_io_reads_total", "Requests of the group to read from disks."),
    count("cgroup.io_writes", "io.stat wios", "khz_cgroup_io_writes_total", "Requests of the group to write to disks."),
    time("cgroup.io_waiting", "io.pressure some", "khz_cgroup_io_waiting_seconds_total", "Time in which at least one task of the group waited for a disk."),
    time("cgroup.io_stalled", "io.pressure full", "khz_cgroup_io_stalled_seconds_total", "Time in which all tasks of the group that had work waited for a disk."),
    now("cgroup.tasks", "pids.current", "khz_cgroup_tasks", "Processes and threads of the group and its parts."),
    now("cgroup.tasks_limit", "pids.max", "khz_cgroup_tasks_limit", "Processes and threads that the group may have at most; absent if there is no limit."),
];

static INFO: &[Entry] = &[info(
    "cgroup.info",
    "kind, path, id",
    "khz_cgroup_info",
    "What the group is: slice, service, scope, container, pod, job, step or group; its path; the identifier of a container, pod or job.",
)
.every(CONTROL_GROUPS_PERIOD)];

/// One number in a file of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its word in the file; empty: the file has one number only.
    pub key: &'static str,
    /// Its word in the survey's text.
    pub word: &'static str,
}

/// A file of a control group, and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFile {
    /// The file's name.
    pub name: &'static str,
    /// Its numbers.
    pub numbers: Vec<Number>,
}

/// The files of a control group in the order of their entries.
pub fn group_files() -> Vec<GroupFile> {
    let mut files: Vec<GroupFile> = Vec::new();
    for entry in &NUMBERS {
        let (name, key) = entry.field.split_once(' ').unwrap_or((entry.field, ""));
        let number = Number { key, word: crate::tree::word_of(entry) };
        match files.last_mut().filter(|file| file.name == name) {
            Some(file) => file.numbers.push(number),
            None => files.push(GroupFile { name, numbers: vec![number] }),
        }
    }
    files
}

impl GroupFile {
    /// The numbers that a text has, in their order. `None`: the text does not have it, or it says `max`, that is, there is no limit.
    pub fn read(&self, text: &[u8]) -> Vec<Result<Option<u64>, Fault>> {
        let mut found = vec![Ok(None); self.numbers.len()];
        if let [Number { key: "", .. }] = self.numbers.as_slice() {
            found[0] = value(text.trim_ascii());
            return found;
        }
        for line in text.split(|&byte| byte == b'\n') {
            for (number, found) in self.numbers.iter().zip(&mut found) {
                match self.said(line, number.key) {
                    // The sum of all devices.
                    Some(said) if self.name == "io.stat" => *found = sum(*found, said),
                    Some(said) => *found = said,
                    None => {}
                }
            }
        }
        found
    }

    /// The number that a line has for this key; `None`: the line is about other keys.
    fn said(&self, line: &[u8], key: &str) -> Option<Result<Option<u64>, Fault>> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let first = words.next()?;
        // `8:0 rbytes=1 wbytes=2 rios=3 ...`
        if self.name == "io.stat" {
            return words.find_map(|word| after(word, key)).map(value);
        }
        if first != key.as_bytes() {
            return None;
        }
        // `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, or `anon 4096`
        let said = if self.name.ends_with(".pressure") {
            words.find_map(|word| after(word, "total"))
        } else {
            words.next()
        };
        Some(said.map_or(Err(Fault::Malformed), value))
    }
}

/// What stands after `key=`.
fn after<'a>(word: &'a [u8], key: &str) -> Option<&'a [u8]> {
    word.strip_prefix(key.as_bytes())?.strip_prefix(b"=")
}

fn value(said: &[u8]) -> Result<Option<u64>, Fault> {
    if said == b"max" { Ok(None) } else { number::digits(said).map(Some) }
}

fn sum(one: Result<Option<u64>, Fault>, other: Result<Option<u64>, Fault>) -> Result<Option<u64>, Fault> {
    match (one?, other?) {
        (Some(one), Some(other)) => one.checked_add(other).map(Some).ok_or(Fault::OutOfRange),
        (one, other) => Ok(one.or(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(name: &str, text: &str) -> Vec<(&'static str, Result<Option<u64>, Fault>)> {
        let files = group_files();
        let file = files.iter().find(|file| file.name == name).unwrap();
        file.numbers.iter().map(|number| number.key).zip(file.read(text.as_bytes())).collect()
    }

    fn of(name: &str, text: &str, key: &str) -> Result<Option<u64>, Fault> {
        read(name, text).into_iter().find(|(known, _)| *known == key).unwrap().1
    }

    #[test]
    fn each_file_is_read_in_its_form() {
        assert_eq!(of("cpu.stat", "usage_usec 4310\nuser_usec 1200\n", "user_usec"), Ok(Some(1_200)));
        assert_eq!(of("cpu.stat", "usage_usec 4310\n", "nr_periods"), Ok(None), "without a limit");
        assert_eq!(of("memory.current", "1048576\n", ""), Ok(Some(1_048_576)));
        assert_eq!(of("memory.max", "max\n", ""), Ok(None));
        assert_eq!(of("memory.stat", "anon 1\nfile 2\nkernel 3\nanon_thp 9\n", "anon"), Ok(Some(1)));
        assert_eq!(of("memory.events", "low 0\nhigh 7\nmax 8\noom 1\noom_kill 1\n", "oom"), Ok(Some(1)));
        let pressure = "some avg10=0.12 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(read("io.pressure", pressure), [("some", Ok(Some(1_234))), ("full", Ok(Some(5)))]);
        let io = "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n7:0 \n";
        assert_eq!(of("io.stat", io, "rbytes"), Ok(Some(1_459_201)));
        assert_eq!(of("io.stat", io, "wios"), Ok(Some(357)));
        assert_eq!(of("io.stat", "", "wios"), Ok(None), "it has never used a disk");
    }

    #[test]
    fn damage_is_failed_never_zero() {
        assert_eq!(of("cpu.stat", "usage_usec\n", "usage_usec"), Err(Fault::Malformed));
        assert_eq!(of("cpu.stat", "usage_usec 4x\n", "usage_usec"), Err(Fault::Malformed));
        assert_eq!(of("memory.current", "", ""), Err(Fault::Malformed));
        assert_eq!(of("io.pressure", "some avg10=0.00\n", "some"), Err(Fault::Malformed));
        assert_eq!(of("io.stat", "8:0 rbytes=x\n8:16 rbytes=1\n", "rbytes"), Err(Fault::Malformed));
        let large = format!("8:0 rbytes={0}\n8:16 rbytes={0}\n", u64::MAX);
        assert_eq!(of("io.stat", &large, "rbytes"), Err(Fault::OutOfRange));
    }

    #[test]
    fn every_number_has_a_file_and_a_word_of_its_own() {
        let files = group_files();
        let words: Vec<&str> = files.iter().flat_map(|file| file.numbers.iter().map(|n| n.word)).collect();
        assert_eq!(words.len(), NUMBERS.len());
        let names: std::collections::HashSet<&str> = files.iter().map(|file| file.name).collect();
        assert_eq!(names.len(), files.len(), "the numbers of a file stand together");
        assert!(
            files
                .iter()
                .all(|file| file.numbers.len() == 1 || file.numbers.iter().all(|n| !n.key.is_empty()))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_as_many_answers_as_there_are_numbers(file in 0usize..12, text: Vec<u8>) {
            let files = group_files();
            let file = &files[file % files.len()];
            prop_assert_eq!(file.read(&text).len(), file.numbers.len());
        }

        #[test]
        fn what_the_kernel_prints_is_read(anon: u64, file_bytes: u64, others in prop::collection::vec("[a-z_]{1,12} [0-9]{1,12}", 0..20)) {
            prop_assume!(others.iter().all(|line| !line.starts_with("anon ") && !line.starts_with("file ")));
            let text = format!("anon {anon}\n{}\nfile {file_bytes}\n", others.join("\n"));
            prop_assert_eq!(of("memory.stat", &text, "anon"), Ok(Some(anon)));
            prop_assert_eq!(of("memory.stat", &text, "file"), Ok(Some(file_bytes)));
        }
    }
}
