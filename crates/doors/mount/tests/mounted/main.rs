//! The tree as the kernel shows it. Needs /dev/fuse and root, or fusermount3.

#![allow(clippy::unwrap_used)]

mod channels;
mod current;
mod forbidden;
mod lab;
mod many;
mod proc;
#[path = "../../src/sample.rs"]
mod sample;
mod sleepers;
mod users;

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use khz_model::{Absence, Reading};
use lab::{Lab, errno, wait_until};

fn names(lab: &Lab, below: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(lab.path(below))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_tree_lists_nodes_and_metrics_and_a_value_is_one_line() {
    let lab = Lab::new(2, |_| {});
    assert_eq!(names(&lab, ""), [".by", ".channels", ".control", ".mount", "n0000", "n0001"]);
    assert_eq!(names(&lab, "n0001"), [".control", "metrics", "proc", "status"]);
    assert_eq!(names(&lab, "n0001/metrics"), ["load", "mem", "net"]);
    assert_eq!(names(&lab, "n0001/.control/metrics/mem/free"), ["change", "range", "rate"]);
    assert_eq!(lab.read("n0001/metrics/mem/free").unwrap(), "1000\n");
    assert_eq!(lab.read("n0001/metrics/net/rx_bytes/eth0").unwrap(), "1002\n");
    assert_eq!(lab.read(".by/load.1m").unwrap(), "n0000 1001\nn0001 1001\n");
    assert_eq!(lab.read(".by/net.rx_bytes").unwrap(), "n0000 eth0 1002\nn0001 eth0 1002\n");
    let status = lab.read("n0000/status").unwrap();
    assert!(status.starts_with("state up\n"), "{status}");
    let seen = std::fs::metadata(lab.path("n0001/metrics/mem/free")).unwrap();
    assert_eq!((seen.len(), seen.mtime(), seen.mode() & 0o777), (5, 1_600_000_001, 0o444));
}

#[test]
fn a_file_kept_open_shows_every_new_value_whatever_its_length() {
    let lab = Lab::new(1, |_| {});
    let file = File::open(lab.path("n0000/metrics/mem/free")).unwrap();
    let read = |file: &File| {
        let mut room = [0; 64];
        let count = file.read_at(&mut room, 0)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&room[..count]).into_owned())
    };
    for (at, value) in [7, 8, 123_456, 123_457, 99, 0, u64::MAX, 1].into_iter().enumerate() {
        lab.set(0, 0, Reading::Present(value), 2 + at as u64);
        wait_until("the new value is read", || read(&file).unwrap() == format!("{value}\n"));
    }
    lab.set(0, 0, Reading::Absent(Absence::InstanceGone), 20);
    wait_until("it is no number any more", || errno(read(&file)) == libc::ENODATA);
    let now = lab.read("n0000/metrics/mem/free");
    assert_eq!(now.unwrap(), "", "it has just gone: a new reader finds no number either");
    lab.set(0, 0, Reading::Absent(Absence::InstanceGone), 40);
    wait_until("it has been gone for 10 s", || errno(lab.read("n0000/metrics/mem/free")) == libc::ENODATA);
    lab.set(0, 0, Reading::Present(5), 41);
    wait_until("it is one again", || read(&file).is_ok_and(|text| text == "5\n"));
}

/// When bytes were written over a page under a reader, it saw "9999999999999999111" once in a few thousand changes.
#[test]
fn a_reader_without_pause_never_sees_digits_of_two_values() {
    read_without_pause([1_111_111_111_111_111_111, 9_999_999_999_999_999_999]);
}

/// A text that grows between the kernel's two questions, for its length and for its bytes, may lack its end: then it has no
/// newline. It never has digits of another value.
#[test]
fn values_of_other_lengths_are_whole_or_cut_never_mixed() {
    read_without_pause([1_111, 9_999_999_999_999_999_999]);
}

fn without_nuls(read: &[u8]) -> &[u8] {
    &read[..read.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)]
}

fn read_without_pause(values: [u64; 2]) {
    let texts = values.map(|value: u64| format!("{value}\n"));
    let lab = Lab::new(1, |_| {});
    let file = File::open(lab.path("n0000/metrics/mem/free")).unwrap();
    let (seen, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    lab.set(0, 0, Reading::Present(values[0]), 2);
    wait_until("the first is there", || lab.read("n0000/metrics/mem/free").unwrap() == texts[0]);
    let which = |read: &[u8]| {
        let is_of = |text: &String| match read.last() {
            Some(b'\n') => text.as_bytes() == read,
            _ => text.as_bytes().starts_with(read) && !read.is_empty(),
        };
        texts.iter().position(is_of)
    };
    let same_length = texts[0].len() == texts[1].len();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut room, mut last) = ([0; 64], 0);
            while !is_over.load(Ordering::Relaxed) {
                let count = file.read_at(&mut room, 0).unwrap();
                // The kernel keeps bytes and length apart: once in many thousand changes it shows the bytes of a shorter
                // value, then NULs up to the length of the longer one before.
                let read = if same_length { &room[..count] } else { without_nuls(&room[..count]) };
                let which = which(read).filter(|_| !same_length || read.ends_with(b"\n"));
                let Some(which) = which else {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("{:?} is neither", String::from_utf8_lossy(read));
                };
                seen.fetch_add(u64::from(which != last), Ordering::Relaxed);
                last = which;
            }
        });
        // This many changes were mostly enough to see it; a pause lets each one arrive.
        for at in 0..10_000 {
            lab.set(0, 0, Reading::Present(values[(at % 2) as usize]), 3 + at);
            std::thread::sleep(Duration::from_micros(100));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(seen.into_inner() > 100, "the reader hardly saw a change");
    assert!(lab.stat("pages_stored") > 100, "pages were hardly stored");
}

#[test]
fn a_file_has_the_time_of_its_row_and_a_filter_keeps_values_out() {
    let lab = Lab::new(1, |_| {});
    std::fs::write(lab.path("n0000/.control/metrics/mem/free/range"), "range 0 100\n").unwrap();
    assert_eq!(lab.read("n0000/.control/metrics/mem/free/range").unwrap(), "0 100\n");
    let file = File::open(lab.path("n0000/metrics/mem/free")).unwrap();
    let read = || {
        let mut room = [0; 64];
        let count = file.read_at(&mut room, 0).unwrap();
        String::from_utf8_lossy(&room[..count]).into_owned()
    };
    assert_eq!(read(), "1000\n");
    lab.set(0, 0, Reading::Present(2_000), 2);
    lab.set(0, 0, Reading::Present(50), 3);
    wait_until("the value inside is read", || read() == "50\n");
    assert_eq!(lab.stat("values_filtered"), 1);
    std::fs::write(lab.path("n0000/.control/metrics/mem/free/range"), "off\n").unwrap();
    lab.set(0, 0, Reading::Present(3_000), 4);
    wait_until("everything passes", || read() == "3000\n");
    wait_until("its time is the row's", || file.metadata().unwrap().mtime() == 1_600_000_004);
}

#[test]
fn a_bad_line_gives_einval_and_a_rate_beyond_the_role_eperm() {
    let lab = Lab::new(1, |_| {});
    let rate = lab.path("n0000/.control/metrics/mem/free/rate");
    assert_eq!(errno(std::fs::write(&rate, "often\n")), libc::EINVAL);
    let error = lab.read("n0000/.control/error").unwrap();
    assert!(error.starts_with("n0000/.control/metrics/mem/free/rate: 'often' is not a rate"), "{error}");
    assert_eq!(errno(std::fs::write(&rate, "1000Hz\n")), libc::EPERM);
    assert!(
        lab.read(".control/error").unwrap().contains("beyond what this mount may ask for as reader: 100Hz")
    );
    assert_eq!(lab.read("n0000/.control/metrics/mem/free/rate").unwrap(), "default\n");
    for bytes in (0..=255u8).map(|byte| vec![byte; 1 + usize::from(byte)]).chain([vec![b'1'; 5_000]]) {
        let errno = errno(std::fs::write(&rate, &bytes));
        assert!([0, libc::EINVAL, libc::EPERM].contains(&errno), "{bytes:?}: {errno}");
    }
}

#[test]
fn a_rate_is_subscribed_to_while_a_file_is_open_and_ends_with_a_descriptor_that_held_it() {
    let lab = Lab::new(2, |_| {});
    let rate = lab.path("n0001/.control/metrics/mem/free/rate");
    std::fs::write(&rate, "50Hz\n").unwrap();
    let fast = || lab.subscriptions().into_iter().filter(|known| known.rate.is_some()).collect::<Vec<_>>();
    assert_eq!(fast(), [], "nobody reads");
    let file = File::open(lab.path("n0001/metrics/mem/free")).unwrap();
    wait_until("it is asked for", || fast().len() == 1);
    assert_eq!(
        (fast()[0].patterns.clone(), fast()[0].rate),
        (vec!["n0001:mem.free".into()], khz_model::Rate::from_hz(50))
    );
    drop(file);
    wait_until("it is not wanted any more", || fast().is_empty());

    std::fs::write(&rate, "default\n").unwrap();
    let held = File::options().write(true).open(&rate).unwrap();
    held.write_at(b"20Hz", 0).unwrap();
    let _file = File::open(lab.path("n0001/metrics/mem/free")).unwrap();
    wait_until("the held rate is asked for", || fast().len() == 1);
    std::thread::sleep(khz_mount::limits::AT_ONCE);
    drop(held);
    wait_until("it ended with its descriptor", || fast().is_empty());
}

#[test]
fn a_value_that_never_comes_times_out_and_a_name_that_does_not_exist_fails_at_once() {
    let lab = Lab::new(1, |_| {});
    assert_eq!(errno(lab.read("n0000/metrics/mem/used")), libc::ENOENT);
    assert_eq!(errno(lab.read("nowhere/metrics/mem/used")), libc::ENOENT);
    assert_eq!(errno(lab.read(".git/config")), libc::ENOENT);
    let status = khz_model::NodeStatus::here(khz_model::NodeName::new("mute").unwrap());
    lab.sink.nodes(&[status], false);
    assert_eq!(errno(lab.read("mute/metrics/mem/free")), libc::ETIMEDOUT);
    assert!(lab.stat("waits_timed_out") > 0);
}

#[test]
fn a_program_that_is_killed_while_it_waits_ends_at_once() {
    let lab = Lab::new(1, |options| options.wait = Duration::from_secs(3_600));
    let status = khz_model::NodeStatus::here(khz_model::NodeName::new("mute").unwrap());
    lab.sink.nodes(&[status], false);
    for signal in ["KILL", "INT", "TERM"] {
        let mut cat = lab::interruptible("cat").arg(lab.path("mute/metrics/mem/free")).spawn().unwrap();
        let waits_in = format!("/proc/{}/wchan", cat.id());
        wait_until("it waits", || std::fs::read_to_string(&waits_in).unwrap() == "request_wait_answer");
        let killed = std::process::Command::new("kill").args(["-s", signal, &cat.id().to_string()]).status();
        assert!(killed.unwrap().success());
        wait_until("it has ended", || cat.try_wait().unwrap().is_some());
    }
}
