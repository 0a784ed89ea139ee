//! Processes of this machine, and made-up ones.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use khz_model::{Instance, Reading};
use khz_parse::{Parser, Subject, processes};

use super::*;
use crate::made_up::{MadeUp, Program};
use crate::survey::looks::{Looks, PATIENCE};

struct Seen(Looks);

impl Seen {
    fn at(root: &Path) -> Self {
        Seen(Looks::at(root, Subject::Processes))
    }

    fn text(&self) -> Result<String, Errno> {
        self.0.bytes().map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    fn look(&self) -> Parser {
        self.0.parse(&processes::FILE)
    }
}

fn get(parser: &Parser, metric: &str, instance: Option<&str>) -> Option<Reading> {
    let instance = instance.map(|instance| Instance::from_kernel(instance.as_bytes()));
    let slot = parser.schema().slot(metric, instance.as_ref())?;
    parser.reading(slot as usize)
}

fn number(parser: &Parser, metric: &str, instance: Option<&str>) -> Option<u64> {
    match get(parser, metric, instance)? {
        Reading::Present(value) => Some(value),
        _ => None,
    }
}

/// The place of a process among those that a description names, and its command.
fn place_of(parser: &Parser, description: &str, pid: u32) -> Option<(String, String)> {
    (1..=PROCESS_PLACES).map(|place| place.to_string()).find_map(|place| {
        let labels = get(parser, description, Some(&place))?.labels()?;
        (labels.get("pid") == Some(&pid.to_string()))
            .then(|| (place, labels.get("command").unwrap_or_default().to_owned()))
    })
}

#[test]
fn a_busy_process_has_a_place_with_its_number_and_name_until_it_ends() {
    let looks = Seen::at(Path::new("/"));
    let busy = Program::script("while :; do :; done");
    let begun = Instant::now();
    let (place, command) = loop {
        std::thread::sleep(Duration::from_millis(50));
        let parser = looks.look();
        if let Some(found) = place_of(&parser, "process.busiest", busy.id()) {
            let cpu = number(&parser, "process.cpu", Some(&found.0)).unwrap();
            // In thousandths of a CPU; a shell has one thread.
            assert!((1..=1_500).contains(&cpu), "{cpu}");
            assert!(number(&parser, "program.cpu", Some("sh")).unwrap() >= cpu);
            break found;
        }
        assert!(begun.elapsed() < PATIENCE);
    };
    assert_eq!(command, "sh");
    let parser = looks.look();
    assert!(number(&parser, "processes.look_period", None).is_some());
    assert!(number(&parser, "processes.threads", None) >= number(&parser, "processes.count", None));
    assert!(number(&parser, "processes.in_state", Some("S")).unwrap() > 0);
    let pid = busy.id();
    drop(busy);
    assert_eq!(place_of(&looks.look(), "process.busiest", pid), None, "place {place} is given back");
}

#[test]
fn processes_that_came_and_went_between_two_looks_are_counted() {
    if fs::read_link("/proc/self/ns/pid").unwrap().to_str() != Some(HOST_PIDS) {
        return khz_skip::skip("the kernel's count of processes: this is another PID namespace".to_owned());
    }
    let looks = Seen::at(Path::new("/"));
    let before = number(&looks.look(), "processes.short_lived", None).unwrap();
    for _ in 0..40 {
        Command::new("true").status().unwrap();
    }
    let after = number(&looks.look(), "processes.short_lived", None).unwrap();
    assert!(after >= before + 40, "{before}, {after}");
}

#[test]
fn what_a_process_writes_is_seen() {
    let looks = Seen::at(Path::new("/"));
    // Beside the program: a tmpfs, as /tmp may be, is no disk.
    let file = std::env::current_exe().unwrap().with_extension(format!("writes-{}", std::process::id()));
    let busy = Program::script(&format!("while :; do printf %99999d 0 > '{}'; done", file.display()));
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let parser = looks.look();
        if let Some((place, _)) = place_of(&parser, "process.mover", busy.id())
            && number(&parser, "process.io", Some(&place)).is_some_and(|moved| moved > 0)
        {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", looks.text().unwrap());
    }
    drop(busy);
    let _ = fs::remove_file(&file);
}

/// A made-up `/proc`.
struct Proc(MadeUp);

impl Proc {
    fn new(name: &str) -> Self {
        let proc = Proc(MadeUp::new(&format!("proc-{name}")));
        fs::create_dir_all(proc.0.join("proc/self")).unwrap();
        proc
    }

    fn process(&self, pid: u32, command: &str, ticks: u64, began: u64, pages: u64) {
        let folder = self.0.join("proc").join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let stat =
            format!("{pid} ({command}) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 2 0 {began} 0 {pages} 0\n");
        // Another file, as of another process: what was opened before stays what it was.
        let _ = fs::remove_file(folder.join("stat"));
        fs::write(folder.join("stat"), stat).unwrap();
    }
}

#[test]
fn a_number_that_another_process_has_now_is_another_process() {
    let proc = Proc::new("numbers");
    proc.process(7, "one", 100, 50, 10);
    proc.process(8, "broken", 0, 0, 1);
    fs::write(proc.0.join("proc/8/stat"), "8 (broken").unwrap();
    fs::create_dir_all(proc.0.join("proc/9")).unwrap();
    let looks = Seen::at(&proc.0);
    let parser = looks.look();
    assert_eq!(
        (number(&parser, "processes.count", None), number(&parser, "processes.left_out", None)),
        (Some(2), Some(1)),
        "the broken one is there, the one without a file is not"
    );
    assert_eq!(get(&parser, "processes.threads", None), Some(UNKNOWN));
    assert_eq!(
        get(&parser, "processes.short_lived", None),
        Some(Reading::Absent(khz_model::Absence::NoField))
    );
    assert_eq!(place_of(&parser, "process.largest", 7), Some(("1".to_owned(), "one".to_owned())));
    fs::remove_dir_all(proc.0.join("proc/8")).unwrap();
    assert_eq!(number(&looks.look(), "processes.threads", None), Some(2));
    // The open file still has the first process, as the kernel's would not: it is closed by making the folder anew.
    fs::remove_dir_all(proc.0.join("proc/7")).unwrap();
    looks.text().unwrap_err();
    proc.process(7, "other", 5_000, 60, 20);
    let parser = looks.look();
    assert_eq!(place_of(&parser, "process.largest", 7), Some(("1".to_owned(), "other".to_owned())));
    assert_eq!(
        number(&parser, "program.cpu", Some("other")),
        Some(0),
        "what it used before is not of this time"
    );
}

const UNKNOWN: Reading = Reading::Failed(khz_model::Fault::Unreadable);

#[test]
fn a_process_whose_file_is_refused_is_there_and_sums_without_it_are_unknown() {
    let proc = Proc::new("refused");
    proc.process(7, "one", 100, 50, 10);
    // A pipe without a writer has no text to give, as a file that may not be read.
    fs::create_dir_all(proc.0.join("proc/8")).unwrap();
    std::os::unix::net::UnixListener::bind(proc.0.join("proc/8/stat")).unwrap();
    let looks = Seen::at(&proc.0);
    let parser = looks.look();
    assert_eq!(number(&parser, "processes.count", None), Some(2));
    assert_eq!(number(&parser, "processes.left_out", None), Some(1));
    for (metric, instance) in [("processes.threads", None), ("processes.in_state", Some("S"))] {
        assert_eq!(get(&parser, metric, instance), Some(UNKNOWN), "{metric}");
    }
    assert_eq!(number(&parser, "program.processes", Some("one")), Some(1), "what is seen has its numbers");
    let mut text = crate::survey::SurveyText::new(&looks.0.survey, Subject::Processes);
    text.read(&mut Vec::new()).unwrap();
    let problem = text.problem().unwrap().to_owned();
    assert!(
        problem.contains("/proc/PID/stat of some processes: ") && problem.contains("left_out"),
        "{problem}"
    );
}

#[test]
fn hidden_processes_and_refused_ones_have_a_sentence_each_without_a_number() {
    let of = |unseen: Unseen| unseen.problem(Path::new("/proc"));
    assert_eq!(of(Unseen::default()), None);
    let beyond = of(Unseen { left_out: 3, is_beyond: true, ..Unseen::default() }).unwrap();
    assert!(beyond.starts_with("there are more than 32768 processes: "), "{beyond}");
    let hiding = of(Unseen { is_hiding: true, ..Unseen::default() }).unwrap();
    assert!(hiding.starts_with("/proc is mounted with hidepid: "), "{hiding}");
    let refused = |errno| of(Unseen { left_out: 1, refused: Some((7, errno)), ..Unseen::default() }).unwrap();
    for errno in [Errno::PERM, Errno::ACCESS] {
        assert!(refused(Some(errno)).contains("most likely /proc is mounted with hidepid"));
    }
    assert!(!refused(Some(Errno::IO)).contains("hidepid") && !refused(None).contains("hidepid"));
    assert!([Errno::MFILE, Errno::NFILE, Errno::NOMEM].into_iter().all(is_want) && !is_want(Errno::ACCESS));
}

#[test]
fn of_hidden_processes_each_number_of_all_is_unknown() {
    let proc = Proc::new("hidden");
    proc.process(7, "one", 100, 50, 10);
    let processes = Processes::new(&proc.0, 5);
    let mut state = processes.state.lock().unwrap();
    let mut unseen = looks_with(&mut state, &proc.0).unwrap();
    let mut text_of = |unseen| {
        let text = state.text(&proc.0.join("proc"), 5, None, unseen);
        String::from_utf8(text).unwrap().lines().next().unwrap().to_owned()
    };
    assert_eq!(text_of(unseen), "* count=1 threads=2 left_out=0");
    unseen.left_out = 2;
    assert_eq!(text_of(unseen), "* count=3 threads=unreadable left_out=2");
    // Those that are seen and cannot be read are not all.
    unseen.is_hiding = true;
    assert_eq!(text_of(unseen), "* count=unreadable threads=unreadable left_out=unreadable");
}

/// Lists this user's descriptors: the last of them are taken while a test holds these.
fn looks_with(state: &mut State, proc: &Path) -> Result<Unseen, Errno> {
    state.look_at_all(&proc.join("proc"))
}

#[test]
fn without_descriptors_kept_files_are_given_back_and_the_look_is_broken_off_rather_than_wrong() {
    let proc = Proc::new("descriptors");
    (1..=20).for_each(|pid| proc.process(pid, "one", 100, 50, 10));
    let processes = Processes::new(&proc.0, 5);
    let mut state = processes.state.lock().unwrap();
    assert_eq!(looks_with(&mut state, &proc.0), Ok(Unseen::default()));
    assert_eq!(state.known.values().filter(|process| process.file.is_some()).count(), 20);
    let tried = std::cell::Cell::new(0);
    let full = || {
        tried.set(tried.get() + 1);
        match tried.get() {
            1 => Err(Errno::MFILE),
            _ => open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()),
        }
    };
    assert!(state.opened(full).is_ok(), "what was kept makes room");
    assert!(state.known.values().all(|process| process.file.is_none()));
    assert_eq!(state.files_max, 10);
    assert_eq!(state.opened(|| Err(Errno::MFILE)).unwrap_err(), Errno::MFILE);
    assert_eq!(looks_with(&mut state, &proc.0), Ok(Unseen::default()), "it goes on with fewer");
    state.forget_times();
    assert_eq!((state.looked, state.arrivals.first), (None, None));
}

#[test]
fn the_user_is_the_owner_of_the_folder_whoever_has_the_files() {
    if !rustix::process::geteuid().is_root() {
        return khz_skip::skip("giving files to other users: this is not root".to_owned());
    }
    let proc = Proc::new("users");
    proc.process(7, "one", 100, 50, 10);
    std::os::unix::fs::chown(proc.0.join("proc/7"), Some(4_294_967_000), None).unwrap();
    let parser = Seen::at(&proc.0).look();
    let labels = get(&parser, "process.largest", Some("1")).unwrap().labels().unwrap();
    assert_eq!(labels.get("user"), Some("4294967000"), "the file in it is root's");
}

#[test]
fn a_process_without_a_name_is_a_program_that_nobody_else_can_be() {
    assert!(NAMELESS.len() > 15, "the kernel cuts a name after fifteen bytes");
    let proc = Proc::new("nameless");
    proc.process(7, "", 100, 50, 10);
    proc.process(8, "?", 100, 50, 20);
    let parser = Seen::at(&proc.0).look();
    let processes = |name: &str| number(&parser, "program.processes", Some(name));
    assert_eq!((processes("(without a name)"), processes("?")), (Some(1), Some(1)));
}

#[test]
fn a_folder_without_processes_is_no_source() {
    let proc = Proc::new("none");
    assert_eq!(Seen::at(&proc.0).text(), Err(Errno::NOENT));
}

#[test]
fn shares_are_rounded() {
    assert_eq!(permille(1, Nanos::SECOND), 10);
    assert_eq!(permille(100, Nanos::from_millis(500)), 2_000);
    assert_eq!(permille(1, Nanos::from_secs(21)), 0);
    assert_eq!(each_second(u64::MAX, Nanos::from_millis(1)), u64::MAX);
    assert_eq!(each_second(3, Nanos::from_secs(2)), 2);
}
