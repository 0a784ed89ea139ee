//! Surveys all processes: reads `/proc/PID/stat` of each, and `/proc/PID/io` of each process that has run since the previous
//! survey. Their files are kept open, since opening one costs more than reading it.

mod places;
mod programs;
mod users;

use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use khz_model::Nanos;
use khz_parse::processes::{BUSIEST, LARGEST, MOVERS, forks, process_io, process_stat};
use khz_parse::survey::{UNREADABLE, describe, escape};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, RawDir, fstatfs, open, openat};
use rustix::io::{Errno, pread, read};
use rustix::process::{Resource, getrlimit};

use super::Answer;
use super::course::{Abandoned, Course};
use crate::clock;
use places::{Key, Places};
use programs::{Programs, Sum};
use users::Users;

/// The share of one core that a survey of processes may cost: if it costs more, surveys are less
/// frequent.
pub const PROCESSES_BUDGET: f64 = 0.003;

/// The most processes that are surveyed: each needs some hundred bytes.
pub const PROCESSES_MAX: usize = 32_768;

/// The most files of processes that are kept open. Half of the limit for open files (RLIMIT_NOFILE) applies if it is less. Files of
/// further processes are opened for each survey.
pub const PROCESS_FILES_MAX: usize = 1_024;

/// The usual places of each kind: the processes that take most CPU time, memory, input and output; and the programs of each kind whose
/// sums are shown.
pub const PROCESS_PLACES: usize = 20;

/// The most places that a setting may ask for: each has three series with labels.
pub const PROCESS_PLACES_MAX: usize = 500;

/// The number of the first PID namespace (PROC_PID_INIT_INO): in others the kernel's count of processes has those of the whole host.
const HOST_PIDS: &str = "pid:[4026531836]";

/// The number of the first process of each PID namespace: it exists as long as the namespace.
const FIRST: u32 = 1;

/// Room for a text of `/proc/PID`; a stat has some 350 bytes.
const TEXT_BYTES: usize = 4_096;

/// The kernel counts CPU time in hundredths of a second.
const TICK: u64 = 10_000_000;

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// What is kept from one look to the next.
pub(super) struct Processes {
    root: PathBuf,
    /// How many of each kind are shown.
    places: usize,
    state: Mutex<State>,
}

struct State {
    known: HashMap<u32, Process>,
    /// The number of this look.
    look: u64,
    looked: Option<Nanos>,
    /// An upper bound of the open files of processes: if a process number was used again, files of the old process count
    /// until the next survey.
    files_open: usize,
    files_max: usize,
    /// What this process may open.
    limit: Option<u64>,
    arrivals: Arrivals,
    users: Users,
    busiest: Places,
    largest: Places,
    movers: Places,
}

/// A process at the latest look.
struct Process {
    began: u64,
    command: Box<[u8]>,
    is_kernel: bool,
    state: u8,
    ticks: u64,
    threads: u64,
    pages: u64,
    /// Bytes read and written until the latest time that they were looked at.
    io: Option<u64>,
    /// The use since the previous survey.
    ticks_used: u64,
    moved: u64,
    look: u64,
    file: Option<OwnedFd>,
}

/// Counts of new processes and threads: by the kernel, and by this survey.
#[derive(Default)]
struct Arrivals {
    /// The kernel's count at the first survey, if it covers the processes that are visible here.
    first: Option<u64>,
    seen: u64,
    /// What was counted before that first look.
    before: u64,
    short_lived: u64,
}

impl Processes {
    pub fn new(root: &Path, places: usize) -> Self {
        let state = State {
            known: HashMap::new(),
            look: 0,
            looked: None,
            files_open: 0,
            files_max: PROCESS_FILES_MAX,
            limit: None,
            arrivals: Arrivals::default(),
            users: Users::new(root),
            busiest: Places::new(places),
            largest: Places::new(places),
            movers: Places::new(places),
        };
        Processes { root: root.to_owned(), places, state: Mutex::new(state) }
    }

    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>) -> Result<Answer, Abandoned> {
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        // A poisoned lock is harmless: processes that were looked at by half are looked at again.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.forks();
        let proc = self.root.join("proc");
        let unseen = match state.look_at_all(&proc) {
            Ok(unseen) => unseen,
            Err(errno) => {
                state.forget_times();
                return Ok(Err(errno));
            }
        };
        if state.known.is_empty() && unseen.left_out == 0 {
            return Ok(Err(Errno::NOENT));
        }
        course.left_out = unseen.left_out;
        course.note(|| unseen.problem(&proc));
        let now = clock::boot();
        let apart = state.looked.replace(now).map(|before| now.since(before)).filter(|apart| apart.0 > 0);
        if unseen.is_nobody() {
            state.arrivals.note(made);
        } else {
            state.arrivals.pause();
        }
        Ok(Ok(state.text(&proc, self.places, apart, unseen)))
    }

    /// The kernel's count of processes and threads; `None` if it covers other processes than are visible here.
    fn forks(&self) -> Option<u64> {
        let space = std::fs::read_link(self.root.join("proc/self/ns/pid")).ok()?;
        if space.to_str() != Some(HOST_PIDS) {
            return None;
        }
        forks(&std::fs::read(self.root.join("proc/stat")).ok()?)
    }
}

impl Arrivals {
    /// Who came and was never seen: sums from the beginning, so that one who comes while khz looks is not counted for good.
    fn note(&mut self, made: Option<u64>) {
        let Some(made) = made else { return };
        let first = *self.first.get_or_insert_with(|| {
            self.seen = 0;
            made
        });
        let unseen = made.saturating_sub(first).saturating_sub(self.seen);
        self.short_lived = self.short_lived.max(self.before.saturating_add(unseen));
    }

    /// Not all can be seen now: who is not seen need not have been short-lived. It counts from the next look on at which all are.
    fn pause(&mut self) {
        (self.first, self.before) = (None, self.short_lived);
    }
}

/// The processes that exist and that a survey does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unseen {
    /// Their number, as far as their folders are visible: processes beyond the limit, and processes whose file
    /// cannot be read.
    left_out: u64,
    /// The first whose file cannot be read, and why; without a reason, it has not the numbers of a process.
    refused: Option<(u32, Option<Errno>)>,
    /// There are more than [`PROCESSES_MAX`].
    is_beyond: bool,
    /// The folders of others are hidden, so nobody knows their number.
    is_hiding: bool,
}

impl Unseen {
    fn is_nobody(self) -> bool {
        self == Unseen::default()
    }

    fn refuse(&mut self, pid: u32, errno: Option<Errno>) {
        self.left_out += 1;
        self.refused.get_or_insert((pid, errno));
    }

    /// What is not seen, and why, for people. Without numbers, since each other text is another line in the log.
    fn problem(self, proc: &Path) -> Option<String> {
        let shown = super::folder::shown(proc);
        if self.is_hiding {
            return Some(format!(
                "{shown} is mounted with hidepid: khz sees only its own user's processes, and the numbers of all are Failed; run it as root, or in the group of the mount option gid="
            ));
        }
        let Some((_, errno)) = self.refused else {
            let beyond = || {
                format!(
                    "there are more than {PROCESSES_MAX} processes: khz looks at those that were there first; processes.left_out counts the others"
                )
            };
            return self.is_beyond.then(beyond);
        };
        Some(match errno {
            Some(errno @ (Errno::PERM | Errno::ACCESS)) => format!(
                "{shown}/PID/stat of some processes: {}; most likely {shown} is mounted with hidepid: run khz as root, or in the group of the mount option gid=. processes.left_out counts them",
                std::io::Error::from(errno)
            ),
            Some(errno) => format!(
                "{shown}/PID/stat of some processes: {}; processes.left_out counts them",
                std::io::Error::from(errno)
            ),
            None => format!(
                "{shown}/PID/stat of some processes has not the numbers of a process; processes.left_out counts them"
            ),
        })
    }
}

impl State {
    /// Looks at each process; returns what it did not see.
    fn look_at_all(&mut self, proc: &Path) -> Result<Unseen, Errno> {
        self.look += 1;
        self.limit = getrlimit(Resource::Nofile).current;
        self.files_open = self.known.values().filter(|process| process.file.is_some()).count();
        if self.limit.is_some_and(|limit| self.files_open as u64 > limit / 2) {
            // The limit was lowered.
            self.close_files();
        }
        self.users.begin();
        let folder =
            self.opened(|| open(proc, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))?;
        let mut names = vec![MaybeUninit::uninit(); 32 << 10];
        let mut entries = RawDir::new(&folder, &mut names);
        let (mut room, mut unseen, mut has_first) = ([0; TEXT_BYTES], Unseen::default(), false);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Some(pid) = number_of(entry.file_name().to_bytes()) else { continue };
            has_first |= pid == FIRST;
            if self.known.len() >= PROCESSES_MAX && !self.known.contains_key(&pid) {
                unseen.left_out += 1;
                unseen.is_beyond = true;
                continue;
            }
            match self.look_at(&folder, pid, &mut room) {
                Look::Seen | Look::Gone => {}
                Look::Refused(Some(errno)) if is_want(errno) => return Err(errno),
                Look::Refused(errno) => unseen.refuse(pid, errno),
            }
        }
        unseen.is_hiding = !has_first && is_of_kernel(&folder);
        self.known.retain(|_, process| process.look == self.look);
        Ok(unseen)
    }

    /// A survey was broken off. For the processes that it has already seen, the time since the
    /// previous survey is wrong.
    fn forget_times(&mut self) {
        self.looked = None;
        self.arrivals.pause();
    }

    /// Opens a file. If there is no descriptor left, it first closes the files that it keeps, and keeps half of them from now on.
    fn opened(&mut self, open: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) if self.files_max > 0 => {
                self.files_max = self.files_open.min(self.files_max) / 2;
                self.close_files();
                open()
            }
            answer => answer,
        }
    }

    fn close_files(&mut self) {
        self.known.values_mut().for_each(|process| process.file = None);
        self.files_open = 0;
    }

    fn look_at(&mut self, proc: &OwnedFd, pid: u32, room: &mut [u8; TEXT_BYTES]) -> Look {
        let look = self.look;
        // A file that was opened of another process of this number has no text any more.
        let kept = self.known.get(&pid).and_then(|process| process.file.as_ref());
        let kept = kept.and_then(|file| pread(file, &mut room[..], 0).ok());
        let (length, file) = match kept.filter(|length| *length > 0) {
            Some(length) => (length, None),
            None => {
                let opened = self.opened(|| openat(proc, format!("{pid}/stat"), READ, Mode::empty()));
                let read = opened.and_then(|file| Ok((read(&file, &mut room[..])?, Some(file))));
                match read {
                    Ok(read) => read,
                    Err(Errno::NOENT | Errno::SRCH | Errno::NOTDIR) => return Look::Gone,
                    Err(errno) => return Look::Refused(Some(errno)),
                }
            }
        };
        let Some(stat) = process_stat(&room[..length]) else {
            return if length == 0 { Look::Gone } else { Look::Refused(None) };
        };
        let mut process = match self.known.remove(&pid).filter(|known| known.began == stat.began) {
            Some(known) => known,
            None => {
                self.arrivals.seen += stat.threads;
                // A process may have existed at the previous survey without being seen. Then nobody knows since when
                // it used what it reports.
                let is_new = self.looked.is_some_and(|looked| stat.began.saturating_mul(TICK) >= looked.0);
                let (ticks, io) = if is_new { (0, Some(0)) } else { (stat.ticks, None) };
                Process::new(&stat, ticks, io)
            }
        };
        self.arrivals.seen += stat.threads.saturating_sub(process.threads);
        process.look = look;
        process.state = stat.state;
        (process.threads, process.pages) = (stat.threads, stat.pages);
        process.ticks_used = stat.ticks.saturating_sub(process.ticks);
        process.ticks = stat.ticks;
        process.moved = 0;
        if *process.command != *stat.command {
            process.command = stat.command.into();
        }
        if process.ticks_used > 0 && !process.is_kernel {
            process.note_io(proc, pid, room);
        }
        if let Some(file) = file {
            process.file = self.may_keep(&file).then_some(file);
            self.files_open += usize::from(process.file.is_some());
        }
        self.known.insert(pid, process);
        Look::Seen
    }

    /// True if a file may stay open. The last quarter of the descriptors is for everything else: a number is the lowest that is free.
    fn may_keep(&self, file: &OwnedFd) -> bool {
        let number = u64::try_from(file.as_raw_fd()).unwrap_or(u64::MAX);
        let is_within = |limit: u64| number < limit - limit / 4 && (self.files_open as u64) < limit / 2;
        self.files_open < self.files_max && self.limit.is_none_or(is_within)
    }

    fn text(&mut self, proc: &Path, shown_max: usize, apart: Option<Nanos>, unseen: Unseen) -> Vec<u8> {
        // Without those that were not seen, a sum of all would be too small.
        let of_all = |sum: u64| if unseen.is_nobody() { sum.to_string() } else { UNREADABLE.to_owned() };
        // How many are hidden, nobody knows.
        let of_seen = |count: u64| if unseen.is_hiding { UNREADABLE.to_owned() } else { count.to_string() };
        let (count, left_out) =
            (of_seen(self.known.len() as u64 + unseen.left_out), of_seen(unseen.left_out));
        let threads = of_all(self.known.values().map(|process| process.threads).sum());
        let mut text = format!("* count={count} threads={threads} left_out={left_out}").into_bytes();
        if self.arrivals.first.is_some() {
            text.extend(format!(" short_lived={}", self.arrivals.short_lived).bytes());
        }
        if let Some(apart) = apart {
            text.extend(format!(" look_period={}", apart.0 / 1_000_000).bytes());
        }
        text.push(b'\n');
        let mut states = BTreeMap::<u8, u64>::new();
        self.known.values().for_each(|process| *states.entry(process.state).or_default() += 1);
        for (state, count) in states {
            text.extend(b"state ");
            escape(&[state], &mut text);
            text.extend(format!(" in_state={}\n", of_all(count)).bytes());
        }
        self.places(proc, apart, &mut text);
        self.programs(shown_max, apart, &mut text);
        text
    }

    /// The processes that use most. Their use is known from the second survey on.
    fn places(&mut self, proc: &Path, apart: Option<Nanos>, text: &mut Vec<u8>) {
        let State { known, users, busiest, largest, movers, .. } = self;
        let page = rustix::param::page_size() as u64;
        let mut kind = |places: &mut Places, kind: &str, word: &str, measure: &dyn Fn(&Process) -> u64| {
            let uses = known.iter().map(|(pid, process)| (measure(process), (*pid, process.began))).collect();
            let of = |(pid, began): Key| known.get(&pid).filter(|process| process.began == began);
            places.assign(uses, |key| of(key).map(measure));
            for (place, key) in places.held() {
                let Some(process) = of(key) else { continue };
                let pid = key.0.to_string();
                text.extend(format!("{kind} {place} {word}={}", measure(process)).bytes());
                describe("pid", pid.as_bytes(), text);
                describe("command", shown(&process.command), text);
                if let Some(user) = user_of(&proc.join(pid)) {
                    describe("user", users.name(user).as_bytes(), text);
                }
                text.push(b'\n');
            }
        };
        kind(largest, LARGEST, "memory", &|process| process.pages.saturating_mul(page));
        if let Some(apart) = apart {
            kind(busiest, BUSIEST, "cpu", &|process| permille(process.ticks_used, apart));
            kind(movers, MOVERS, "io", &|process| each_second(process.moved, apart));
        }
    }

    fn programs(&self, shown_max: usize, apart: Option<Nanos>, text: &mut Vec<u8>) {
        let page = rustix::param::page_size() as u64;
        let mut programs = Programs::default();
        for process in self.known.values() {
            let Process { pages, threads, .. } = *process;
            let one = Sum { ticks: process.ticks_used, pages, moved: process.moved, processes: 1, threads };
            programs.add(&process.command, process.is_kernel, one);
        }
        for (name, sum) in programs.largest(shown_max) {
            text.extend(b"program ");
            escape(shown(name), text);
            if let Some(apart) = apart {
                text.extend(
                    format!(" cpu={} io={}", permille(sum.ticks, apart), each_second(sum.moved, apart))
                        .bytes(),
                );
            }
            let memory = sum.pages.saturating_mul(page);
            text.extend(
                format!(" memory={memory} processes={} threads={}\n", sum.processes, sum.threads).bytes(),
            );
        }
    }
}

impl Process {
    fn new(stat: &khz_parse::processes::ProcessStat<'_>, ticks: u64, io: Option<u64>) -> Self {
        Process {
            began: stat.began,
            command: stat.command.into(),
            is_kernel: stat.is_kernel,
            state: stat.state,
            ticks,
            threads: stat.threads,
            pages: stat.pages,
            io,
            ticks_used: 0,
            moved: 0,
            look: 0,
            file: None,
        }
    }

    /// Notes what it has read and written. Only root and its own user may know.
    fn note_io(&mut self, proc: &OwnedFd, pid: u32, room: &mut [u8; TEXT_BYTES]) {
        let Ok(file) = openat(proc, format!("{pid}/io"), READ, Mode::empty()) else { return };
        let Some(io) = read(&file, &mut room[..]).ok().and_then(|length| process_io(&room[..length])) else {
            return;
        };
        self.moved = self.io.map_or(0, |before| io.saturating_sub(before));
        self.io = Some(io);
    }
}

/// What came of the look at a process.
enum Look {
    Seen,
    Gone,
    /// It is there, and its file cannot be read; without a reason, the file does not have the numbers of a process.
    Refused(Option<Errno>),
}

/// True if khz itself lacks resources: then it is chance which files it can open, so no numbers of all
/// processes are known.
fn is_want(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// True for a `/proc` of the kernel: a captured one need not have all processes.
fn is_of_kernel(proc: &OwnedFd) -> bool {
    fstatfs(proc).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

/// The user of a process: the owner of its folder. The files in it are root's if the process may not be dumped, even if another user runs it.
fn user_of(folder: &Path) -> Option<u32> {
    std::fs::metadata(folder).ok().map(|folder| folder.uid())
}

/// The name of a process that calls itself nothing. It is longer than any name that a process can give itself.
const NAMELESS: &[u8] = b"(without a name)";

fn shown(command: &[u8]) -> &[u8] {
    if command.is_empty() { NAMELESS } else { command }
}

/// The number of a process, if this is the name of its folder.
fn number_of(name: &[u8]) -> Option<u32> {
    let is_number = name.first().is_some_and(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(name).ok()?.parse().ok() } else { None }
}

/// Thousandths of a CPU.
fn permille(ticks: u64, apart: Nanos) -> u64 {
    rounded(u128::from(ticks) * u128::from(TICK) * 1_000, apart)
}

fn each_second(amount: u64, apart: Nanos) -> u64 {
    rounded(u128::from(amount) * u128::from(Nanos::SECOND.0), apart)
}

fn rounded(amount: u128, apart: Nanos) -> u64 {
    let apart = u128::from(apart.0.max(1));
    u64::try_from((amount + apart / 2) / apart).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
