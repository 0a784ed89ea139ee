//! `khz mount` as a process, with a hub and an agent. Each is killed in any order while programs read: no program hangs, errors
//! are the right ones, and values come again without another mount when hub and agent are back. Needs /dev/fuse and root.

#![allow(clippy::unwrap_used)]

mod channels;
mod copying;
mod fail_back;
mod lab;
mod node_exporter;
mod now;
mod proc;
mod published;
mod unit;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::{Lab, Who, until};

/// Readers that continue after every error: half of them keep their file open, half open it each time.
struct Readers {
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    errors: Arc<Mutex<BTreeSet<i32>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Readers {
    fn start(file: &std::path::Path, count: usize) -> Self {
        let (stop, reads) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let errors = Arc::<Mutex<BTreeSet<i32>>>::default();
        let reader = |number: usize| {
            let (stop, reads, errors, file) = (stop.clone(), reads.clone(), errors.clone(), file.to_owned());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let times = if number.is_multiple_of(2) { 1_000 } else { 1 };
                    match File::open(&file).and_then(|file| read(&file, times, &stop)) {
                        Ok(count) => drop(reads.fetch_add(count, Ordering::Relaxed)),
                        Err(error) => drop(errors.lock().unwrap().insert(error.raw_os_error().unwrap_or(-1))),
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        };
        let threads = (0..count).map(|number| std::thread::spawn(reader(number))).collect();
        Readers { stop, reads, errors, threads }
    }

    fn stop(self) -> BTreeSet<i32> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut self.errors.lock().unwrap())
    }
}

fn read(file: &File, times: usize, stop: &AtomicBool) -> std::io::Result<u64> {
    let mut room = [0; 64];
    for _ in 0..times {
        let count = file.read_at(&mut room, 0)?;
        let text = std::str::from_utf8(&room[..count]).unwrap();
        assert!(text.ends_with('\n') && text.trim_end().parse::<u64>().is_ok(), "no number: {text:?}");
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(times as u64)
}

fn kill_while_reading(name: &str, orders: &[&[Who]], readers: usize) {
    let mut lab = Lab::new(name);
    let forks = lab.cluster().join("n1/metrics/kernel/forks");
    until("the first value is there", || std::fs::read(&forks).is_ok());
    let readers = Readers::start(&forks, readers);
    for order in orders {
        for &who in *order {
            lab.kill(who);
        }
        std::thread::sleep(Duration::from_millis(300));
        // A mount without --hub needs the hub of this machine when it starts.
        let (mounts, others): (Vec<Who>, Vec<Who>) = order.iter().partition(|&&who| who == Who::Mount);
        for who in others.into_iter().chain(mounts) {
            lab.start(who);
        }
        // All of them continue: reads succeed, and the value is current.
        let (before, value) = (readers.reads.load(Ordering::Relaxed), std::fs::read_to_string(&forks).ok());
        until("reads succeed again", || readers.reads.load(Ordering::Relaxed) > before + 200);
        until("the value moves again", || {
            let _ = Command::new("true").status();
            std::fs::read_to_string(&forks).is_ok_and(|now| Some(now) != value)
        });
    }
    let errors = readers.stop();
    let right = BTreeSet::from([libc::ENOTCONN, libc::ETIMEDOUT, libc::ENOENT, libc::ECONNABORTED]);
    assert!(errors.is_subset(&right), "{errors:?}");
}

#[test]
fn readers_survive_a_kill_of_hub_agent_or_mount() {
    kill_while_reading("kills", &[&[Who::Agent], &[Who::Hub], &[Who::Mount]], 20);
}

#[test]
#[ignore = "long: every order, a hundred readers"]
fn a_hundred_readers_survive_kills_in_any_order() {
    use Who::{Agent, Hub, Mount};
    let orders: [&[Who]; 9] = [
        &[Hub, Agent, Mount],
        &[Hub, Mount, Agent],
        &[Agent, Hub, Mount],
        &[Agent, Mount, Hub],
        &[Mount, Hub, Agent],
        &[Mount, Agent, Hub],
        &[Hub, Agent],
        &[Hub, Mount],
        &[Agent, Mount],
    ];
    kill_while_reading("orders", &orders, 100);
}

#[test]
fn it_goes_to_the_background_and_umount_works_while_a_file_is_open() {
    let mut lab = Lab::new("background");
    lab.kill(Who::Mount);
    let cluster = lab.cluster().to_str().unwrap().to_owned();
    let mounted = lab.khz(&["mount", &cluster]).output().unwrap();
    assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    let free = lab.cluster().join("n1/metrics/mem/free");
    until("the first value is there", || std::fs::read(&free).is_ok());
    let again = lab.khz(&["mount", &cluster]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("mounted already"), "{again:?}");
    let open = File::open(&free).unwrap();
    assert!(lab.khz(&["umount", &cluster]).status().unwrap().success());
    assert!(!lab.cluster().join(".mount").exists());
    assert!(open.read_at(&mut [0; 64], 0).is_ok(), "who has a file open keeps it");
    let gone = lab.khz(&["umount", &cluster]).output().unwrap();
    assert_eq!(gone.status.code(), Some(1));
    let none = lab.khz(&["mount", &cluster, "-o", "sttrict"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no such option"));
}

#[test]
fn programs_that_know_nothing_of_it_read_it() {
    let lab = Lab::new("programs");
    let cluster = lab.cluster();
    until("the first value is there", || std::fs::read(cluster.join("n1/metrics/mem/free")).is_ok());
    let shell = |line: &str| {
        let done = Command::new("sh").arg("-c").arg(line).current_dir(&cluster).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let total: u64 = shell("cat n1/metrics/mem/total").trim().parse().unwrap();
    assert_eq!(shell("awk '{ print $1 }' n1/metrics/mem/total").trim(), total.to_string());
    assert_eq!(shell("wc -c < n1/metrics/mem/total").trim(), (total.to_string().len() + 1).to_string());
    assert_eq!(shell("dd if=n1/metrics/mem/total bs=1 2>/dev/null").trim(), total.to_string());
    assert_eq!(shell("timeout 0.3 tail -f n1/metrics/mem/total || true").trim(), total.to_string());
    assert_eq!(shell("cut -d' ' -f1 .by/mem.total").trim(), "n1");
    assert!(shell("head -1 n1/status").starts_with("state up"));
    // The setting holds for `cat` too once the mount knows of the close, which the kernel reports after close(2) has
    // returned. On a busy machine that may be more than a second after the write, too late: then it is written again.
    until("the rate that was written is read", || {
        shell("echo 20Hz > n1/.control/rate; cat n1/.control/rate").contains("20Hz")
    });
    assert!(shell("(echo often > n1/.control/rate) 2>&1 || cat n1/.control/error").contains("is not a rate"));
}

/// Idle for longer than a lease: known values are old, and must not be shown as current.
#[test]
#[ignore = "long: two leases"]
fn what_came_or_went_between_two_reads_is_right_at_the_next_read() {
    let mut lab = Lab::new("later");
    let cluster = lab.cluster();
    let read = |below: &str| std::fs::read_to_string(cluster.join(below));
    until("the first value is there", || read("n1/metrics/mem/free").is_ok());
    assert!(read("n1/status").unwrap().starts_with("state up\n"));
    // Longer than the lease of 15 seconds after a read.
    let idle = || std::thread::sleep(Duration::from_secs(18));
    idle();
    assert!(lab.khz(&["publish", "lateone=7"]).status().unwrap().success());
    // It is in the next row, which the hub has at most a second later.
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(read("n1/metrics/job/lateone").unwrap(), "7\n");
    assert_eq!(read(".by/job.lateone").unwrap(), "n1 7\n");
    assert_eq!(read(".by/job.nobodys").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    idle();
    let seconds = |text: String| text.split('.').next().unwrap().parse::<u64>().unwrap();
    let told = seconds(read("n1/metrics/uptime/up").unwrap());
    let now = seconds(std::fs::read_to_string("/proc/uptime").unwrap());
    assert!(now - told <= 3, "{told} is of then, {now} now");
    idle();
    lab.kill(Who::Agent);
    std::thread::sleep(Duration::from_millis(2_500));
    let status = read("n1/status").unwrap();
    assert!(status.starts_with("state down\n"), "{status}");
    assert!(read(".by/mem.free").unwrap().is_empty());
}

#[test]
fn snapshots_of_other_nodes_are_kept_without_a_tree_and_end_with_their_keeper() {
    let mut lab = Lab::new("shm");
    lab.kill(Who::Mount);
    let _ = lab.khz(&["umount", lab.cluster().to_str().unwrap()]).stderr(Stdio::null()).status();
    let shm = lab.folder.join("shm");
    let words = ["mount", "--foreground", "--shm", shm.to_str().unwrap(), "--shm-select", "n1:kernel.*"];
    let mut keeper = lab.khz(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Kilohertz keeps snapshots below"), "{line}");
    let path = shm.join("n1/snapshot");
    let forks = || {
        let page = khz_ring::Snapshot::open(&path).ok()?;
        let latest = page.read(page.find("kernel.forks")?).unwrap()?;
        latest.reading.value()
    };
    until("the first row is there", || forks().is_some());
    let before = forks();
    until("it follows", || {
        let _ = Command::new("true").status();
        forks() > before
    });
    let page = khz_ring::Snapshot::open(&path).unwrap();
    assert_eq!(page.label().node, "n1");
    assert_eq!(page.find("mem.free"), None, "only what was selected");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/khz_shm.py");
    let told = Command::new("python3").arg(script).arg(&path).arg("kernel.forks").output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("kernel.forks"), "{told}");
    // After the end of the hub the last values stay; the time of the row shows their age.
    lab.kill(Who::Hub);
    let before = forks();
    lab.start(Who::Hub);
    // The same file gets rows again, and was never torn: the keeper noticed the loss, and connected again.
    until("it follows the next hub", || {
        let _ = Command::new("true").status();
        assert!(forks() >= before && !page.has_ended());
        forks() > before
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&keeper), rustix::process::Signal::TERM)
        .unwrap();
    assert!(keeper.wait().unwrap().success());
    assert!(page.has_ended() && !path.exists());
}

#[test]
fn wrong_patterns_and_rates_of_snapshots_are_errors_before_anything_starts() {
    let lab = Lab::new("shm-wrong");
    for (words, expected) in
        [(["--shm-select", "n1:["], "never closed"), (["--shm-rate", "often"], "'often'")]
    {
        let shm = lab.folder.join("shm-wrong");
        let told = lab.khz(&["mount", "--shm", shm.to_str().unwrap()]).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert_eq!(told.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(!shm.exists());
    }
}

/// What an ordinary user does, where /dev/fuse is open to users, as udev makes it. Its mounts are in a namespace of their
/// own.
const AS_USER: &str = r#"
set -e
khz=$1 place=$2 hub=$3
mknod "$place/fuse" c 10 229; chmod 666 "$place/fuse"; mount --bind "$place/fuse" /dev/fuse
mkdir "$place/mine" "$place/roots"; chown 65534:65534 "$place/mine"
user() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$place" "$@"; }

user "$khz" mount "$place/mine" --hub "$hub"
echo "total $(user cat "$place/mine/n1/metrics/mem/total")"
ls "$place/mine" >"$place/seen" 2>&1 || echo "others see nothing"
user sh -c "echo 20Hz > $place/mine/n1/.control/rate"
echo "rate $(user cat "$place/mine/n1/.control/rate")"
user sh -c "echo 1000Hz > $place/mine/n1/.control/rate" 2>/dev/null || echo "beyond a reader"
user "$khz" umount "$place/mine"
[ ! -e "$place/mine/n1" ] && echo "unmounted"

user "$khz" mount "$place/roots" --hub "$hub" 2>&1 || echo "exit $?"
user env FUSERMOUNT_PATH=/nonexistent/fusermount3 "$khz" mount "$place/mine" --hub "$hub" 2>&1 || echo "exit $?"
chmod 600 /dev/fuse
user "$khz" mount "$place/mine" --hub "$hub" 2>&1 || echo "exit $?"
"#;

#[test]
fn an_ordinary_user_mounts_for_himself_through_fusermount3() {
    let lab = Lab::new("user");
    // A place that a user may reach, and a program there that he may run.
    let place = std::env::temp_dir().join(format!("khz-user-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let khz = place.join("khz");
    std::fs::copy(env!("CARGO_BIN_EXE_khz"), &khz).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", AS_USER, "sh"]).args([&khz, &place]).arg(lab.port());
    command.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("XDG_RUNTIME_DIR");
    let done = command.output().unwrap();
    let (message, problems) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr).into_owned());
    std::fs::remove_dir_all(&place).unwrap();
    let message = message.replace(&*place.to_string_lossy(), "PLACE");
    let total = message.lines().next().and_then(|line| line.strip_prefix("total ")).unwrap_or_default();
    assert!(total.parse::<u64>().is_ok(), "{message}{problems}");
    let expected = [
        "others see nothing",
        "rate 20Hz",
        "beyond a reader",
        "unmounted",
        "khz: cannot mount at PLACE/roots: fusermount3: user has no write access to mountpoint PLACE/roots",
        "exit 1",
        "khz: cannot mount at PLACE/mine: No such file or directory (os error 2); users mount through \
         fusermount3, and it is not there: install the package fuse3, or mount as root",
        "exit 1",
        "khz: cannot mount at PLACE/mine: Permission denied (os error 13); the directory must be readable, and \
         /dev/fuse open to users (mode 0666, as udev makes it)",
        "exit 1",
    ];
    assert_eq!(message.lines().skip(1).collect::<Vec<_>>(), expected, "{problems}");
}
