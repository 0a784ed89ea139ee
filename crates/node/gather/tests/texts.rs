//! The slow lane of kernel texts, on directories of this test and on this machine's `/proc`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use khz_gather::{AllowList, KERNEL_TEXT_MAX, TextError, TextTaker, Texts};
use khz_model::{Nanos, Stamp};

const FAST: Nanos = Nanos::from_millis(10);

type Told = Vec<Result<Vec<u8>, TextError>>;

/// What the taker got for each want.
#[derive(Clone, Default)]
struct Taken {
    told: Arc<Mutex<BTreeMap<u64, Told>>>,
    /// The answered asks, and how many texts the want had got by then.
    given: Arc<Mutex<Vec<(u64, u32, usize)>>>,
    /// True while the link takes no text.
    is_full: Arc<AtomicBool>,
    /// How often `has_room` returned false.
    refusals: Arc<AtomicU64>,
}

impl TextTaker for Taken {
    fn has_room(&mut self, _: u64) -> bool {
        let is_full = self.is_full.load(Ordering::SeqCst);
        self.refusals.fetch_add(u64::from(is_full), Ordering::SeqCst);
        !is_full
    }
    fn text(&mut self, want: u64, text: &Arc<[u8]>, _: Stamp) {
        self.told.lock().unwrap().entry(want).or_default().push(Ok(text.to_vec()));
    }
    fn given(&mut self, want: u64, ask: u32) {
        let told = self.of(want).len();
        self.given.lock().unwrap().push((want, ask, told));
    }
    fn failed(&mut self, want: u64, error: &TextError) {
        self.told.lock().unwrap().entry(want).or_default().push(Err(error.clone()));
    }
}

impl Taken {
    fn of(&self, want: u64) -> Told {
        self.told.lock().unwrap().get(&want).cloned().unwrap_or_default()
    }

    /// The first text or error of a want.
    fn first(&self, want: u64) -> Result<Vec<u8>, TextError> {
        until("a text or an error comes", || !self.of(want).is_empty());
        self.of(want).swap_remove(0)
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn root(name: &str) -> PathBuf {
    let root =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("texts-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("proc")).unwrap();
    root
}

fn start(root: &Path, allow: &[&str]) -> (Texts, Taken) {
    let taken = Taken::default();
    let allow = AllowList::new(allow.iter().copied()).unwrap();
    (Texts::new(root.to_owned(), allow, taken.clone()), taken)
}

#[test]
fn a_changed_text_is_sent_and_no_thread_runs_while_no_file_is_wanted() {
    let root = root("changes");
    let file = root.join("proc/loadavg");
    std::fs::write(&file, "one\n").unwrap();
    let (texts, taken) = start(&root, &["loadavg"]);
    assert!(!texts.is_awake());
    texts.want(1, "loadavg", FAST).unwrap();
    assert_eq!(taken.first(1), Ok(b"one\n".to_vec()));
    until("it was read again and again", || texts.counts().reads > 5);
    assert_eq!(taken.of(1).len(), 1, "an unchanged text is not sent again");
    std::fs::write(&file, "two\n").unwrap();
    until("the new text comes", || taken.of(1).last() == Some(&Ok(b"two\n".to_vec())));
    taken.is_full.store(true, Ordering::SeqCst);
    let before = texts.counts().reads;
    std::fs::write(&file, "three\n").unwrap();
    until("the link has refused five times", || taken.refusals.load(Ordering::SeqCst) >= 5);
    assert!(texts.counts().reads <= before + 1, "no file is read for a link that takes no text");
    taken.is_full.store(false, Ordering::SeqCst);
    until("the newest text comes", || taken.of(1).last() == Some(&Ok(b"three\n".to_vec())));
    std::fs::remove_file(&file).unwrap();
    until("it is gone", || taken.of(1).last() == Some(&Err(TextError::Missing("loadavg".into()))));
    std::fs::write(&file, "three\n").unwrap();
    until("it is there again", || taken.of(1).last() == Some(&Ok(b"three\n".to_vec())));
    texts.dismiss(1);
    until("the lane has ended", || !texts.is_awake());
    texts.want(2, "loadavg", FAST).unwrap();
    assert_eq!(taken.first(2), Ok(b"three\n".to_vec()), "and begins again");
    drop(texts);
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn a_reader_that_asks_for_a_file_now_gets_its_text_before_the_answer_and_never_faster_than_the_fastest_pace()
{
    let root = root("now");
    let file = root.join("proc/stat");
    std::fs::write(&file, "0\n").unwrap();
    let (texts, taken) = start(&root, &["stat"]);
    texts.want(1, "stat", Nanos::from_secs(3_600)).unwrap();
    assert_eq!(taken.first(1), Ok(b"0\n".to_vec()));
    let answered = |ask: u32| {
        let find = || taken.given.lock().unwrap().iter().find(|given| given.1 == ask).map(|given| given.2);
        until("it is answered", || find().is_some());
        find().unwrap_or(0)
    };
    for ask in 1..=20 {
        // A text that is written before the ask is sent before the answer, whether it is new or not.
        let text = format!("{}\n", ask / 2);
        std::fs::write(&file, &text).unwrap();
        texts.ask(1, ask);
        let told = answered(ask);
        assert_eq!(taken.of(1)[told - 1], Ok(text.into_bytes()), "ask {ask}");
    }
    assert_eq!(taken.of(1).len(), 11, "an unchanged text is not sent again");
    let (before, began) = (texts.counts().reads, Instant::now());
    let mut ask = 20;
    while began.elapsed() < Duration::from_millis(300) {
        ask += 1;
        texts.ask(1, ask);
    }
    answered(ask);
    let most = began.elapsed().as_millis() / u128::from(FAST.0 / 1_000_000) + 2;
    assert!(u128::from(texts.counts().reads - before) <= most, "many asks share a read");
    // A link that takes no text delays the answer, but does not lose it.
    taken.is_full.store(true, Ordering::Relaxed);
    texts.ask(1, ask + 1);
    std::thread::sleep(Duration::from_millis(30));
    assert!(taken.given.lock().unwrap().iter().all(|given| given.1 <= ask));
    taken.is_full.store(false, Ordering::SeqCst);
    answered(ask + 1);
    std::fs::remove_file(&file).unwrap();
    texts.ask(1, ask + 2);
    let told = answered(ask + 2);
    assert_eq!(taken.of(1)[told - 1], Err(TextError::Missing("stat".into())));
    drop(texts);
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn no_name_leads_out_of_proc_or_to_what_is_not_allowed() {
    let root = root("allow");
    let proc = root.join("proc");
    std::fs::write(root.join("secret"), "key\n").unwrap();
    for (name, text) in [("meminfo", "fine\n"), ("kcore", "memory\n"), ("other", "other\n")] {
        std::fs::write(proc.join(name), text).unwrap();
    }
    std::fs::create_dir_all(proc.join("net")).unwrap();
    std::fs::write(proc.join("net/dev"), "dev\n").unwrap();
    std::fs::File::create(proc.join("huge")).unwrap().set_len(KERNEL_TEXT_MAX as u64 + 1).unwrap();
    std::fs::File::create(proc.join("large")).unwrap().set_len(KERNEL_TEXT_MAX as u64).unwrap();
    let secret = root.join("secret");
    for (link, target) in [
        ("out", "../secret"),
        ("absolute", secret.to_str().unwrap()),
        ("core", "kcore"),
        ("alias", "meminfo"),
        ("loop", "loop"),
        ("folder", "net"),
    ] {
        symlink(target, proc.join(link)).unwrap();
    }
    let allow = ["meminfo", "out", "absolute", "core", "loop", "huge", "large", "net", "net/*", "folder/*"];
    let (texts, taken) = start(&root, &allow);
    let mut number = 0;
    let mut read = |path: &str| {
        number += 1;
        texts.want(number, path, Nanos::SECOND).unwrap();
        taken.first(number)
    };
    assert_eq!(read("meminfo"), Ok(b"fine\n".to_vec()));
    assert_eq!(read("alias"), Ok(b"fine\n".to_vec()), "the real file is allowed");
    assert_eq!(read("folder/dev"), Ok(b"dev\n".to_vec()));
    assert_eq!(read("large").map(|text| text.len()), Ok(KERNEL_TEXT_MAX));
    assert_eq!(read("huge"), Err(TextError::TooLong { path: "huge".into() }));
    assert_eq!(read("net/none"), Err(TextError::Missing("net/none".into())));
    for path in [
        "out",
        "absolute",
        "core",
        "loop",
        "kcore",
        "other",
        "net",
        "../secret",
        "net/../../secret",
        "/etc/passwd",
        "meminfo/",
        "./meminfo",
        "net//dev",
        "a\0b",
        "meminfo\n",
    ] {
        assert_eq!(read(path), Err(TextError::NotAllowed(path.into())), "{path:?}");
    }
    let list = String::from_utf8(read("").unwrap()).unwrap();
    assert_eq!(list, "folder -> net\nhuge\nlarge\nmeminfo\nnet/dev\n");
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn this_machines_files_are_shown_unchanged_and_its_processes_are_not() {
    let (texts, taken) = start(Path::new("/"), &["default", "*", "*/*", "*/*/*"]);
    let own = std::process::id();
    let mut number = 0;
    let mut read = |path: &str| {
        number += 1;
        texts.want(number, path, Nanos::SECOND).unwrap();
        let told = taken.first(number);
        texts.dismiss(number);
        told
    };
    for path in ["version", "filesystems", "sys/kernel/ostype"] {
        assert_eq!(read(path).unwrap(), std::fs::read(Path::new("/proc").join(path)).unwrap(), "{path}");
    }
    assert!(read("net/dev").unwrap().starts_with(b"Inter-"));
    assert!(read("self/net/dev").unwrap().starts_with(b"Inter-"));
    assert_eq!(read("mounts").unwrap(), std::fs::read("/proc/self/mounts").unwrap());
    let processes =
        [format!("{own}/status"), format!("{own}/environ"), format!("{own}/fd/0"), "1/status".into()];
    let places = [
        "self/environ",
        "self/maps",
        "self/root/etc/passwd",
        "self/cwd/Cargo.toml",
        "self/exe",
        "thread-self/stat",
    ];
    let others = ["kcore", "kallsyms", "sysrq-trigger", "keys", "kmsg", "bus", "net"];
    for path in processes.iter().map(String::as_str).chain(places).chain(others) {
        let told = read(path);
        let is_refused = matches!(&told, Err(TextError::NotAllowed(_) | TextError::Missing(_)));
        assert!(is_refused, "{path}: {told:?}");
    }
    // On a machine that is busy with other work the list of so wide a choice may take longer than a file may.
    let mut list = read("");
    until("the list is read in time", || {
        if matches!(list, Err(TextError::Stuck { .. } | TextError::Crowded)) {
            list = read("");
        }
        list.is_ok()
    });
    let list = String::from_utf8(list.unwrap()).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    for line in ["mounts -> self/mounts", "self/mounts", "net -> self/net", "self/net/dev", "meminfo"] {
        assert!(lines.contains(&line), "{line} in {list}");
    }
    let is_process =
        |line: &&str| line.starts_with(|c: char| c.is_ascii_digit()) || line.starts_with("thread-self");
    assert!(
        !lines.iter().any(|line| is_process(line) || line.starts_with("self/environ") || *line == "kcore"),
        "{list}"
    );
}
