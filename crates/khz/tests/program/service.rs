//! khz as a service: its messages to systemd, and systemd's checks of our units.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::process::{Running, code, err, out};

const UNITS: [&str; 2] = ["khz-agent.service", "khz-hub.service"];

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Runs a program of systemd; `None` where it is not installed. `cargo xtask test` installs it.
fn systemd(program: &str, words: &[&str]) -> Option<Output> {
    match Command::new(program).args(words).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            khz_skip::skip(format!("there is no {program}"));
            None
        }
        output => Some(output.unwrap()),
    }
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn systemd_learns_that_khz_is_ready_lives_and_ends() {
    let folder = folder("notify");
    let path = folder.join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let next = || {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let running =
        Running::start_in(&[("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "20000")], &[]);
    assert_eq!(next(), "READY=1");
    assert_eq!(next(), "WATCHDOG=1");
    assert_eq!(next(), "WATCHDOG=1");
    assert_eq!(running.end("TERM").0, Some(0));
    let last = std::iter::from_fn(|| Some(next())).find(|state| state != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_and_little_exposed() {
    let folder = folder("units");
    for unit in UNITS {
        let text = std::fs::read_to_string(packaging().join("systemd").join(unit)).unwrap();
        // It checks that the program of a unit exists.
        let text = text.replace("/usr/bin/khz", env!("CARGO_BIN_EXE_khz"));
        let path = folder.join(unit);
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let Some(verified) = systemd("systemd-analyze", &["verify", "--man=no", path]) else { return };
        assert_eq!((code(&verified), err(&verified).as_str()), (0, ""), "{unit}");
        // In tenths of its scale from 0 to 10; it calls what is below 2 OK, and most services are above 9. The agent has to see the
        // processes of all users.
        let threshold = if unit == "khz-agent.service" { "--threshold=22" } else { "--threshold=20" };
        let secure = ["security", "--offline=true", "--no-pager", threshold, path];
        let judged = systemd("systemd-analyze", &secure).unwrap();
        assert_eq!(code(&judged), 0, "{unit}: {}", out(&judged));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Threads of an agent that hang nowhere: the main thread, gathering, the link, its look-up of names and its way back, the two of
/// kernel texts, those that start others for a moment, and answers of its doors that take long, of which each has one.
const TASKS_OF_AN_AGENT: usize = 32;

#[test]
fn the_agents_unit_allows_the_threads_that_hang_and_its_own() {
    let text = std::fs::read_to_string(packaging().join("systemd/khz-agent.service")).unwrap();
    let said = text.lines().find_map(|line| line.strip_prefix("TasksMax=")).unwrap();
    let most: usize = said.parse().unwrap();
    let hanging = khz_gather::SURVEYS_STUCK_MAX + khz_gather::TEXTS_STUCK_MAX;
    assert!(most >= hanging + TASKS_OF_AN_AGENT, "{most} tasks, of which {hanging} may hang");
}

#[test]
fn the_user_that_the_units_name_is_the_one_that_is_made() {
    let root = folder("root");
    let root_flag = format!("--root={}", root.display());
    std::fs::create_dir_all(root.join("etc")).unwrap();
    let file = packaging().join("sysusers.d/khz.conf");
    let Some(made) = systemd("systemd-sysusers", &[&root_flag, file.to_str().unwrap()]) else { return };
    assert_eq!(code(&made), 0, "{}", err(&made));
    let users = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(
        users.lines().any(|line| line.starts_with("khz:") && line.ends_with(":/usr/sbin/nologin")),
        "{users}"
    );
    for unit in UNITS {
        let text = std::fs::read_to_string(packaging().join("systemd").join(unit)).unwrap();
        assert!(text.contains("\nUser=khz\nGroup=khz\n"), "{unit}");
    }
    std::fs::remove_dir_all(root).unwrap();
}
