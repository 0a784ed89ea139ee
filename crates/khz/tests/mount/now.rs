//! Kernel files, read by programs that know nothing of a cluster. They get a text that was printed after they asked, or at
//! most a twentieth of a second before. Where a node does not answer, they get its last text.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::lab::{Lab, until};

/// As `khz_mount::limits::TEXT_AGE_MAX`, and what `/proc/uptime` cuts off.
const OLDEST: f64 = 0.050 + 0.010;

/// Seconds since this machine's start, out of a text of `/proc/uptime`.
fn seconds(text: &[u8]) -> f64 {
    let text = std::str::from_utf8(text).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn uptime() -> f64 {
    seconds(&std::fs::read("/proc/uptime").unwrap())
}

/// A number out of the mount's own.
fn stat(lab: &Lab, name: &str) -> u64 {
    let text = std::fs::read_to_string(lab.cluster().join(".mount/stats")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

fn lab(name: &str) -> Lab {
    let lab = Lab::new(name);
    until("the list is there", || lab.cluster().join("n1/proc/uptime").exists());
    lab
}

/// A process that uses a processor as long as the test lives.
struct Busy(Child);

impl Busy {
    fn new() -> Self {
        Busy(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_reads_every_300_ms_gets_what_the_kernel_printed_since_he_asked() {
    let lab = lab("uptime");
    let path = lab.cluster().join("n1/proc/uptime");
    let kept = File::open(&path).unwrap();
    let mut in_time = 0;
    let mut last = 0.0;
    for turn in 0..20 {
        // A program's own pause, not a wait for something.
        std::thread::sleep(Duration::from_millis(300));
        let (late, before) = (stat(&lab, "texts_not_in_time"), uptime());
        let text = match turn % 2 {
            0 => std::fs::read(&path).unwrap(),
            _ => {
                // In small pieces: they are of one text.
                let mut room = [0; 100];
                let first = kept.read_at(&mut room[..3], 0).unwrap();
                let rest = kept.read_at(&mut room[first..], first as u64).unwrap();
                room[..first + rest].to_vec()
            }
        };
        let shown = seconds(&text);
        assert!(shown >= last, "{shown} after {last}");
        last = shown;
        // Where a busy machine delays the node by more than a second, the reader gets the last text, and that is counted.
        if stat(&lab, "texts_not_in_time") == late {
            assert!(shown >= before - OLDEST, "turn {turn}: {shown} was shown at {before}");
            in_time += 1;
        }
    }
    assert!(in_time > 10, "the node was heard only {in_time} times of 20");
}

#[test]
fn psutil_sees_no_idle_interval_while_a_process_is_busy() {
    let lab = lab("psutil");
    let _busy = Busy::new();
    // The same as psutil.cpu_percent(0.3), which may not be installed.
    let program = r#"
import sys, time
folder = sys.argv[1]
try:
    import psutil
    psutil.PROCFS_PATH = folder
    percent = lambda: psutil.cpu_percent(interval=0.3)
except ImportError:
    def times():
        with open(folder + "/stat") as file:
            numbers = [int(word) for word in file.readline().split()[1:9]]
        return sum(numbers), sum(numbers) - numbers[3] - numbers[4]
    def percent():
        before = times()
        time.sleep(0.3)
        after = times()
        all, busy = after[0] - before[0], after[1] - before[1]
        return 100 * busy / all if all > 0 else 0.0
for _ in range(12):
    print(percent())
"#;
    let shown = lab.cluster().join("n1/proc");
    let late = stat(&lab, "texts_not_in_time");
    let done = Command::new("python3").args(["-c", program]).arg(&shown).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let percents: Vec<f64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(percents.len(), 12);
    let idle = percents.iter().filter(|&&percent| percent <= 0.0).count() as u64;
    let late = stat(&lab, "texts_not_in_time") - late;
    // A text that was not in time makes one interval idle at most.
    assert!(idle <= late, "{percents:?}, {late} texts were not in time");
}

#[test]
fn a_frozen_node_gives_its_last_text_and_a_new_one_when_it_goes_on() {
    let lab = lab("frozen");
    let path = lab.cluster().join("n1/proc/uptime");
    let kept = File::open(&path).unwrap();
    let read = || {
        let mut room = [0; 100];
        let count = kept.read_at(&mut room, 0).unwrap();
        seconds(&room[..count])
    };
    read();
    let agent = lab.agent_id();
    let signal = |name: &str| {
        let done = Command::new("kill").args(["-s", name, &agent.to_string()]).status().unwrap();
        assert!(done.success());
    };
    signal("STOP");
    // What was on its way when it was stopped still comes.
    let (before, stopped) = (stat(&lab, "texts_not_in_time"), uptime());
    let mut last = 0.0;
    until("a read has waited in vain", || {
        last = read();
        stat(&lab, "texts_not_in_time") > before || uptime() > stopped + 4.0
    });
    assert!(last <= stopped + OLDEST, "{last} was printed by a node that was stopped at {stopped}");
    assert_eq!(read(), last, "the last text, again and again");
    signal("CONT");
    let went_on = uptime();
    until("it prints again", || read() >= went_on);
}

#[test]
fn who_is_ended_while_a_node_is_frozen_ends() {
    let lab = lab("ended");
    let path = lab.cluster().join("n1/proc/uptime");
    let kept = File::open(&path).unwrap();
    let agent = lab.agent_id().to_string();
    assert!(Command::new("kill").args(["-s", "STOP", &agent]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(100));
    let mut cat = Command::new("cat").stdin(kept).stdout(Stdio::null()).spawn().unwrap();
    let _ = Command::new("kill").args(["-s", "INT", &cat.id().to_string()]).status();
    until("it has ended", || cat.try_wait().unwrap().is_some());
    assert!(Command::new("kill").args(["-s", "CONT", &agent]).status().unwrap().success());
}
