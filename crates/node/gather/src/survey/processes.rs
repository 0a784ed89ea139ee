//! Looks at all processes: reads `/proc/PID/stat` of each, and `/proc/PID/io` of those that have run since the look before. Their
//! files are kept open, since opening one costs more than reading it.

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
use khz_parse::survey::{describe, escape};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, RawDir, fstat, open, openat};
use rustix::io::{Errno, pread, read};
use rustix::process::{Resource, getrlimit};

use super::Answer;
use super::course::{Abandoned, Course};
use crate::clock;
use places::{Key, Places};
use programs::{Programs, Sum};
use users::Users;

/// The share of one core that looking at processes may cost: what costs more is looked at less often.
pub const PROCESSES_BUDGET: f64 = 0.003;

/// The most processes that are looked at: of each some hundred bytes are kept.
pub const PROCESSES_MAX: usize = 32_768;

/// The most files of processes that are kept open, if half of what the process may open (RLIMIT_NOFILE) is not less. Files of further
/// processes are opened for each look.
pub const PROCESS_FILES_MAX: usize = 1_024;

/// The usual places of each kind: the processes that take most CPU time, memory, input and output; and the programs of each kind whose
/// sums are shown.
pub const PROCESS_PLACES: usize = 20;

/// The most places that a setting may ask for: each has three series with labels.
pub const PROCESS_PLACES_MAX: usize = 500;

/// The number of the first PID namespace (PROC_PID_INIT_INO): in others the kernel's count of processes has those of the whole host.
const HOST_PIDS: &str = "pid:[4026531836]";

/// Room for a text of `/proc/PID`; a stat has some 350 bytes.
const TEXT_BYTES: usize = 4_096;

/// The kernel counts CPU time in hundredths of a second.
const TICK: u64 = 10_000_000;

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// What is kept from one look to the next.
pub(super) struct Processes {
    root: PathBuf,
    /// Of each kind that are shown.
    places: usize,
    state: Mutex<State>,
}

struct State {
    known: HashMap<u32, Process>,
    /// The number of this look.
    look: u64,
    looked: Option<Nanos>,
    /// Files of processes that are open, at most: those of a process whose number another one has count until the next look.
    files_open: usize,
    files_max: usize,
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
    /// What was used since the look before.
    ticks_used: u64,
    moved: u64,
    look: u64,
    file: Option<OwnedFd>,
}

/// Processes and threads that came: those that the kernel counts, and those that were seen.
#[derive(Default)]
struct Arrivals {
    /// The kernel's count at the first look, if it counts what can be seen here.
    first: Option<u64>,
    seen: u64,
    short_lived: u64,
}

impl Processes {
    pub fn new(root: &Path, places: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
        let state = State {
            known: HashMap::new(),
            look: 0,
            looked: None,
            files_open: 0,
            files_max: PROCESS_FILES_MAX.min(limit / 2),
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
        let left_out = match state.look_at_all(&self.root.join("proc")) {
            Ok(left_out) => left_out,
            Err(errno) => return Ok(Err(errno)),
        };
        if state.known.is_empty() {
            return Ok(Err(Errno::NOENT));
        }
        course.left_out = left_out;
        let now = clock::boot();
        let apart = state.looked.replace(now).map(|before| now.since(before)).filter(|apart| apart.0 > 0);
        state.arrivals.note(made);
        Ok(Ok(state.text(&self.root.join("proc"), self.places, apart, left_out)))
    }

    /// The kernel's count of processes and threads; `None` where it has others than those that can be seen here.
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
        self.short_lived = self.short_lived.max(made.saturating_sub(first).saturating_sub(self.seen));
    }
}

impl State {
    /// Looks at each process; returns how many were left out.
    fn look_at_all(&mut self, proc: &Path) -> Result<u64, Errno> {
        self.look += 1;
        self.files_open = self.known.values().filter(|process| process.file.is_some()).count();
        self.users.begin();
        let folder = open(proc, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut names = vec![MaybeUninit::uninit(); 32 << 10];
        let mut entries = RawDir::new(&folder, &mut names);
        let (mut room, mut left_out) = ([0; TEXT_BYTES], 0);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Some(pid) = number_of(entry.file_name().to_bytes()) else { continue };
            if self.known.len() >= PROCESSES_MAX && !self.known.contains_key(&pid) {
                left_out += 1;
                continue;
            }
            self.look_at(&folder, pid, &mut room);
        }
        self.known.retain(|_, process| process.look == self.look);
        Ok(left_out)
    }

    fn look_at(&mut self, proc: &OwnedFd, pid: u32, room: &mut [u8; TEXT_BYTES]) {
        let look = self.look;
        // A file that was opened of another process of this number has no text any more.
        let kept = self.known.get(&pid).and_then(|process| process.file.as_ref());
        let kept = kept.and_then(|file| pread(file, &mut room[..], 0).ok());
        let (length, file) = match kept.filter(|length| *length > 0) {
            Some(length) => (length, None),
            None => {
                let Ok(file) = openat(proc, format!("{pid}/stat"), READ, Mode::empty()) else { return };
                let Ok(length) = read(&file, &mut room[..]) else { return };
                (length, Some(file))
            }
        };
        let Some(stat) = process_stat(&room[..length]) else { return };
        let mut process = match self.known.remove(&pid).filter(|known| known.began == stat.began) {
            Some(known) => known,
            None => {
                self.arrivals.seen += stat.threads;
                // Of one that was there at the look before, and was not seen, it is not known what it used since when.
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
            process.file = (self.files_open < self.files_max).then_some(file);
            self.files_open += usize::from(process.file.is_some());
        }
        self.known.insert(pid, process);
    }

    fn text(&mut self, proc: &Path, shown_max: usize, apart: Option<Nanos>, left_out: u64) -> Vec<u8> {
        let threads: u64 = self.known.values().map(|process| process.threads).sum();
        let mut text =
            format!("* count={} threads={threads} left_out={left_out}", self.known.len()).into_bytes();
        if self.arrivals.first.is_some() {
            text.extend(format!(" short_lived={}", self.arrivals.short_lived).bytes());
        }
        if let Some(apart) = apart {
            text.extend(format!(" look_period={}", apart.0 / 1_000_000).bytes());
        }
        text.push(b'\n');
        self.states(&mut text);
        self.places(proc, apart, &mut text);
        self.programs(shown_max, apart, &mut text);
        text
    }

    fn states(&self, text: &mut Vec<u8>) {
        let mut states = BTreeMap::<u8, u64>::new();
        self.known.values().for_each(|process| *states.entry(process.state).or_default() += 1);
        for (state, count) in states {
            text.extend(b"state ");
            escape(&[state], text);
            text.extend(format!(" in_state={count}\n").bytes());
        }
    }

    /// The processes that take most. What they used is known from the second look on.
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
                if let Some(user) = process.user(&proc.join(pid)) {
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

    /// Its user, by the owner of its files.
    fn user(&self, folder: &Path) -> Option<u32> {
        match &self.file {
            Some(file) => fstat(file).ok().map(|file| file.st_uid),
            None => std::fs::metadata(folder).ok().map(|folder| folder.uid()),
        }
    }
}

/// A process may call itself nothing.
fn shown(command: &[u8]) -> &[u8] {
    if command.is_empty() { b"?" } else { command }
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
