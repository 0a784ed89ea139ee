//! Kernel files of a node through agent, hub and mount, from a captured root and from this machine's own /proc.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lab::{Lab, Who, until};

/// A root of this test's own, with files as a captured host has them.
fn root(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-root-{name}", std::process::id()));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/linux-6.18-vm2");
    let _ = std::fs::remove_dir_all(&root);
    let copied = Command::new("cp").arg("-r").arg(fixture).arg(&root).status().unwrap();
    assert!(copied.success());
    root
}

fn lab(name: &str, words: &[&str]) -> (Lab, PathBuf) {
    let root = root(name);
    let all = [&["--root", root.to_str().unwrap()], words].concat();
    let lab = Lab::with_agent(name, &all);
    until("the node is there", || std::fs::read_dir(lab.cluster().join("n1/proc")).is_ok());
    (lab, root)
}

fn errno<T>(result: std::io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Every file below a directory; links are not followed.
fn files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => drop(found.insert(entry.path())),
            _ => {}
        }
    }
}

#[test]
fn a_captured_hosts_files_arrive_byte_for_byte() {
    let (lab, root) = lab("captured", &[]);
    let (shown, proc) = (lab.cluster().join("n1/proc"), root.join("proc"));
    std::fs::write(proc.join("cpuinfo"), "processor\t: 0\n".repeat(40_000)).unwrap();
    std::fs::write(proc.join("version"), [0, 255, b'\n', 10, 13, 0xc3]).unwrap();
    std::fs::write(proc.join("swaps"), "").unwrap();
    std::fs::create_dir_all(proc.join("sys/kernel")).unwrap();
    std::fs::write(proc.join("sys/kernel/hostname"), "node\n").unwrap();
    until("the new files are listed", || {
        shown.join("sys/kernel/hostname").exists() && shown.join("swaps").exists()
    });
    let mut found = BTreeSet::new();
    files(&shown, &mut found);
    assert!(found.len() > 8, "{found:?}");
    for file in &found {
        let there = proc.join(file.strip_prefix(&shown).unwrap());
        assert!(std::fs::read(file).unwrap() == std::fs::read(&there).unwrap(), "{}", file.display());
        assert_eq!(file.metadata().unwrap().len(), there.metadata().unwrap().len());
    }
    // A new text is seen through a new descriptor and through an old one.
    let (path, open) = (shown.join("loadavg"), File::open(shown.join("loadavg")).unwrap());
    for text in ["1.00 2.00 3.00 1/100 4711\n", "0.9 0.8 0.7 1/9 8\n"] {
        std::fs::write(proc.join("loadavg"), text).unwrap();
        until("the new text is opened", || std::fs::read_to_string(&path).unwrap() == text);
        let mut room = [0; 64];
        let count = open.read_at(&mut room, 0).unwrap();
        assert_eq!(&room[..count], text.as_bytes());
    }
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn the_allow_list_holds_against_links_and_dots_and_huge_files() {
    let words = ["--proc-allow", "meminfo,evil*,inside,alias,net/*,huge,pipe,deep/*/*"];
    let (lab, root) = lab("allow", &words);
    let (shown, proc) = (lab.cluster().join("n1/proc"), root.join("proc"));
    std::fs::write(root.join("secret"), "a key\n").unwrap();
    std::fs::write(proc.join("kcore"), "memory\n").unwrap();
    std::fs::write(proc.join("inside"), "shown\n").unwrap();
    std::fs::create_dir_all(proc.join("4711")).unwrap();
    std::fs::write(proc.join("4711/environ"), "PASSWORD=x\n").unwrap();
    std::fs::create_dir_all(proc.join("deep/er")).unwrap();
    std::fs::write(proc.join("deep/er/file"), "deep\n").unwrap();
    File::create(proc.join("huge")).unwrap().set_len(100 << 20).unwrap();
    assert!(Command::new("mkfifo").arg(proc.join("pipe")).status().unwrap().success());
    for (link, target) in [
        ("evil1", "../secret"),
        ("evil2", root.join("secret").to_str().unwrap()),
        ("evil3", "kcore"),
        ("evil4", "4711/environ"),
        ("evil5", "loadavg"),
        ("evil6", "evil6"),
        ("alias", "inside"),
        ("net/out", "../../secret"),
    ] {
        symlink(target, proc.join(link)).unwrap();
    }
    until("the list is there", || shown.join("deep/er/file").exists());
    let mut found = BTreeSet::new();
    files(&shown, &mut found);
    let found: Vec<&str> =
        found.iter().map(|file| file.strip_prefix(&shown).unwrap().to_str().unwrap()).collect();
    assert_eq!(found, ["deep/er/file", "huge", "inside", "meminfo", "net/dev"]);
    assert_eq!(std::fs::read_link(shown.join("alias")).unwrap(), Path::new("inside"));
    assert_eq!(std::fs::read_to_string(shown.join("alias")).unwrap(), "shown\n");
    assert_eq!(errno(std::fs::read(shown.join("huge"))), libc::EFBIG, "100 MB are no text");
    let why = std::fs::read_to_string(lab.cluster().join(".control/error")).unwrap();
    assert!(why.contains("n1/proc/huge: /proc/huge has more than 4194304 bytes"), "{why}");
    for name in ["kcore", "4711/environ", "loadavg", "stat", "evil1", "evil3", "evil5", "pipe", "..x"] {
        assert_eq!(errno(std::fs::read(shown.join(name))), libc::ENOENT, "{name}");
    }
    // What is taken out of the list's sight after it was listed is judged again when it is read.
    std::fs::remove_file(proc.join("inside")).unwrap();
    symlink("../secret", proc.join("inside")).unwrap();
    until("it is refused", || errno(std::fs::read(shown.join("inside"))) == libc::EACCES);
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn programs_read_this_machines_proc_through_it_and_nothing_runs_for_it_afterwards() {
    let lab = Lab::new("live");
    let shown = lab.cluster().join("n1/proc");
    until("the list is there", || shown.join("version").exists());
    for name in ["version", "filesystems", "sys/kernel/osrelease", "mounts", "self/mounts", "cpuinfo"] {
        let (there, here) =
            (std::fs::read(Path::new("/proc").join(name)).unwrap(), std::fs::read(shown.join(name)));
        // Clock frequencies of processors and others' mounts may change in between.
        let size = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(size(&here.unwrap()), size(&there), "{name}");
    }
    let shell = |line: &str| {
        let done = Command::new("sh").arg("-c").arg(line).current_dir(&shown).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let total = std::fs::read_to_string("/proc/meminfo").unwrap().lines().next().unwrap().to_owned();
    assert_eq!(shell("awk 'NR == 1' meminfo").trim_end(), total);
    assert_eq!(shell("grep -r MemTotal . | cut -d: -f1").trim(), "./meminfo");
    assert_eq!(
        shell("head -n 1 net/dev; head -n 1 net/dev"),
        shell("head -n 1 /proc/net/dev; head -n 1 self/net/dev")
    );
    assert!(shell("timeout 0.3 tail -f uptime || true").contains('.'));
    assert_eq!(shell("dd if=version bs=1 2>/dev/null"), std::fs::read_to_string("/proc/version").unwrap());
    assert_eq!(shell("find . -name environ -o -name kcore -o -name 1 | wc -l").trim(), "0");
    shell("du -a . | tail -1; wc -c * 2>/dev/null; ls -lR");
    let agent = lab.agent_id();
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{agent}/task")).unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.starts_with("texts")).count()
    };
    assert!(threads() > 0, "the slow lane runs while somebody looks");
    until("the slow lane has ended by itself", || threads() == 0);
}

/// Ends readers, also where something has failed.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn texts_survive_a_kill_of_hub_or_agent_without_another_mount() {
    let (mut lab, root) = lab("texts-kill", &[]);
    let (path, source) = (lab.cluster().join("n1/proc/loadavg"), root.join("proc/loadavg"));
    until("the first text is there", || std::fs::read(&path).is_ok());
    let open = File::open(&path).unwrap();
    let (errors, stop) = (std::sync::Mutex::new(BTreeSet::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    match std::fs::read_to_string(&path) {
                        Ok(text) => assert!(
                            text.ends_with('\n') && text.starts_with(|c: char| c.is_ascii_digit()),
                            "{text:?}"
                        ),
                        Err(error) => drop(errors.lock().unwrap().insert(error.raw_os_error())),
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        let _ending = Ending(&stop);
        for (number, who) in [Who::Agent, Who::Hub, Who::Hub, Who::Agent].into_iter().enumerate() {
            lab.kill(who);
            std::thread::sleep(Duration::from_millis(200));
            lab.start(who);
            let text = format!("{number}.00 0.00 0.00 1/1 1\n");
            // In place of the old one, whole.
            std::fs::write(root.join("new"), &text).unwrap();
            std::fs::rename(root.join("new"), &source).unwrap();
            until("the new text is read", || std::fs::read_to_string(&path).is_ok_and(|read| read == text));
            let mut room = [0; 64];
            let count = open.read_at(&mut room, 0).unwrap();
            assert_eq!(&room[..count], text.as_bytes(), "a reader that has it open reads on");
        }
    });
    let errors = errors.into_inner().unwrap();
    assert!(errors.is_subset(&BTreeSet::from([Some(libc::ETIMEDOUT)])), "{errors:?}");
    let _ = std::fs::remove_dir_all(root);
}
