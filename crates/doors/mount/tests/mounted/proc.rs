//! Kernel files of the nodes, as programs see them.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeStatus};

use crate::lab::{Lab, errno, name, wait_until};
use crate::names;

/// Nodes that show a few files, one of them larger than a read.
fn lab(nodes: usize) -> Lab {
    lab_with(nodes, |_| {})
}

fn lab_with(nodes: usize, tune: impl FnOnce(&mut khz_mount::Options)) -> Lab {
    let lab = Lab::new(nodes, tune);
    lab.kernel("meminfo", "MemTotal:  17 kB\n");
    lab.kernel("net/dev", "Inter-|\n");
    lab.kernel("self/mounts", "proc /proc proc rw 0 0\n");
    lab.kernel("interrupts", vec![b'7'; 700_000]);
    lab.kernel("", "interrupts\nmeminfo\nmounts -> self/mounts\nnet/dev\nself/mounts\n");
    lab
}

#[test]
fn listed_files_and_links_can_be_read_byte_for_byte() {
    let lab = lab(2);
    assert_eq!(names(&lab, "n0001/proc"), ["interrupts", "meminfo", "mounts", "net", "self"]);
    assert_eq!(lab.read("n0001/proc/meminfo").unwrap(), "MemTotal:  17 kB\n");
    assert_eq!(lab.read("n0000/proc/mounts").unwrap(), "proc /proc proc rw 0 0\n", "through the link");
    assert_eq!(std::fs::read_link(lab.path("n0000/proc/mounts")).unwrap(), Path::new("self/mounts"));
    assert_eq!(std::fs::read(lab.path("n0000/proc/interrupts")).unwrap(), vec![b'7'; 700_000]);
    let seen = std::fs::metadata(lab.path("n0001/proc/meminfo")).unwrap();
    assert_eq!((seen.len(), seen.mtime(), seen.mode()), (17, 1_600_000_001, 0o100_444));
    assert_eq!(errno(lab.read("n0001/proc/kcore")), libc::ENOENT);
    assert_eq!(errno(lab.read("n0001/proc/net")), libc::EISDIR);
    assert_eq!(errno(File::options().write(true).open(lab.path("n0001/proc/meminfo"))), libc::EACCES);
    assert_eq!(lab.subscriptions(), [], "no rows are wanted for it");
}

#[test]
fn a_listed_name_that_is_no_path_is_left_out_and_counted() {
    let lab = lab(1);
    let long = "n".repeat(256);
    let list = format!("meminfo\n/etc/passwd\na/../../b\n..\nevil -> ../../etc/passwd\n{long}\nmeminfo/x\n");
    lab.kernel("", [list.as_bytes(), b"\xff\xfe\n"].concat());
    assert_eq!(names(&lab, "n0000/proc"), ["meminfo"]);
    assert_eq!(lab.stat("texts_names_left_out"), 7);
}

#[test]
fn a_descriptor_reads_one_text_to_its_end_and_a_new_one_from_the_start() {
    let lab = lab(1);
    lab.kernel("vmstat", "one\ntwo\n");
    lab.kernel("", "vmstat\n");
    let file = File::open(lab.path("n0000/proc/vmstat")).unwrap();
    let read = |from, length: usize| {
        let mut room = vec![0; length];
        let count = file.read_at(&mut room, from).unwrap();
        String::from_utf8(room[..count].to_vec()).unwrap()
    };
    assert_eq!(read(0, 4), "one\n");
    lab.print("vmstat", "ONE AND MORE\nTWO\n", 2);
    assert_eq!(read(4, 100), "two\n", "the text that it has begun with");
    assert_eq!(read(8, 100), "");
    assert_eq!(read(0, 100), "ONE AND MORE\nTWO\n");
    assert_eq!(read(4, 3), "AND");
    assert_eq!(file.metadata().unwrap().mtime(), 1_600_000_002);
    drop(file);
    wait_until("nobody is in the middle of a text", || lab.stat("texts_pinned_bytes") == 0);
}

#[test]
fn readers_without_pause_never_see_half_a_text_whatever_its_length() {
    let lab = lab(1);
    let text = |n: usize| format!("{}\n", n % 10).repeat(3_000 + 50 * (n % 7)).into_bytes();
    lab.kernel("interrupts", text(0));
    let (seen, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (lab, seen, is_over) = (&lab, &seen, &is_over);
            scope.spawn(move || {
                let (mut kept, mut last) = (None, Vec::new());
                while !is_over.load(Ordering::Relaxed) {
                    let file =
                        kept.take().unwrap_or_else(|| File::open(lab.path("n0000/proc/interrupts")).unwrap());
                    let mut whole = Vec::new();
                    let mut room = [0; 1_000];
                    loop {
                        let count = file.read_at(&mut room, whole.len() as u64).unwrap();
                        whole.extend_from_slice(&room[..count]);
                        if count == 0 {
                            break;
                        }
                    }
                    let number = usize::from(whole[0] - b'0');
                    let is_one = (number..1_000).step_by(10).any(|n| text(n) == whole);
                    if !is_one {
                        is_over.store(true, Ordering::Relaxed);
                        panic!("{} bytes of more than one text", whole.len());
                    }
                    seen.fetch_add(u64::from(whole != last), Ordering::Relaxed);
                    last = whole;
                    // One opens it each time, the others keep it open.
                    kept = (reader > 0).then_some(file);
                }
            });
        }
        for n in 1..600 {
            lab.print("interrupts", text(n), 2 + n as u64);
            std::thread::sleep(Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(seen.into_inner() > 50, "the readers hardly saw a change");
}

#[test]
fn an_open_subscribes_to_a_file_at_the_rate_of_its_place_and_a_while_longer() {
    let lab = lab(1);
    let period = |lab: &Lab| lab.texts().iter().find(|text| text.path == "meminfo").map(|text| text.period);
    assert_eq!(names(&lab, "n0000/.control/proc"), ["interrupts", "meminfo", "net", "rate", "self"]);
    assert_eq!(names(&lab, "n0000/.control/proc/meminfo"), ["rate"]);
    let file = File::open(lab.path("n0000/proc/meminfo")).unwrap();
    wait_until("it is subscribed to", || period(&lab) == Some(Nanos::SECOND));
    std::fs::write(lab.path("n0000/.control/proc/meminfo/rate"), "20Hz\n").unwrap();
    wait_until("the period is shorter", || period(&lab) == Some(Nanos::from_millis(50)));
    assert_eq!(errno(std::fs::write(lab.path("n0000/.control/proc/rate"), "1000Hz\n")), libc::EPERM);
    drop(file);
    wait_until("the usual period is back", || period(&lab) == Some(Nanos::SECOND));
    wait_until("its lease has ended", || lab.texts().is_empty());
}

#[test]
fn a_text_that_never_comes_times_out_and_one_that_cannot_be_had_has_its_own_error() {
    let lab = lab(1);
    lab.kernel("", "meminfo\nmute\nforbidden\n");
    assert_eq!(errno(lab.read("n0000/proc/mute")), libc::ETIMEDOUT);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| errno(lab.read("n0000/proc/forbidden")));
        let text = || lab.texts().into_iter().find(|text| text.path == "forbidden");
        wait_until("it is asked for", || text().is_some());
        lab.sink.no_text(text().unwrap().number, libc::EACCES, "the agent does not show it");
        assert_eq!(read.join().unwrap(), libc::EACCES);
    });
    assert_eq!(lab.read(".control/error").unwrap(), "n0000/proc/forbidden: the agent does not show it\n");
    assert_eq!(lab.read("n0000/proc/meminfo").unwrap(), "MemTotal:  17 kB\n");
}

#[test]
fn a_node_that_is_down_keeps_its_last_text_and_in_strict_mode_gives_eio() {
    for strict in [false, true] {
        let lab = lab_with(1, |options| options.strict = strict);
        assert_eq!(lab.read("n0000/proc/meminfo").unwrap(), "MemTotal:  17 kB\n");
        lab.sink.nodes(&[NodeStatus { up: false, ..NodeStatus::here(name(0)) }], true);
        lab.sink.connected(false, "the hub is gone");
        let read = lab.read("n0000/proc/meminfo");
        match strict {
            false => assert_eq!(read.unwrap(), "MemTotal:  17 kB\n"),
            true => assert_eq!(errno(read), libc::EIO),
        }
    }
}

#[test]
fn a_user_follows_a_limited_number_of_files_and_the_oldest_makes_room() {
    let lab = lab_with(1, |options| options.budget = 8);
    let files: String = (0..50).map(|n| format!("file{n}\n")).collect();
    for n in 0..50 {
        lab.kernel(&format!("file{n}"), format!("{n}\n"));
    }
    lab.kernel("", files);
    for n in 0..50 {
        assert_eq!(lab.read(&format!("n0000/proc/file{n}")).unwrap(), format!("{n}\n"));
        assert!(lab.stat("texts_followed") <= 9, "eight files and the list");
    }
    let open: Vec<File> =
        (0..8).map(|n| File::open(lab.path(&format!("n0000/proc/file{n}"))).unwrap()).collect();
    assert_eq!(errno(lab.read("n0000/proc/file9")), libc::ENFILE, "all of them are open");
    assert_eq!(lab.stat("texts_refused"), 1);
    drop(open);
    wait_until("there is room again", || lab.read("n0000/proc/file9").is_ok());
}

#[test]
fn a_search_through_the_files_of_4096_nodes_ends_and_leaves_a_bounded_number_of_subscriptions() {
    let lab = lab_with(4_096, |options| options.budget = 64);
    let mut found = 0;
    for node in 0..4_096 {
        let text = lab.read(&format!("n{node:04}/proc/meminfo")).unwrap();
        found += usize::from(text.contains("MemTotal"));
        assert!(lab.asked.lock().unwrap().texts.len() <= 2 * 64 + 2);
    }
    assert_eq!(found, 4_096);
}

#[test]
fn a_cached_text_is_read_again_only_after_a_change_or_an_error() {
    let lab = Lab::new(1, |options| options.cache_texts = true);
    lab.kernel("loadavg", "0.1 0.2\n");
    lab.kernel("vmstat", vec![b'v'; 5_000]);
    let file = File::open(lab.path("n0000/proc/loadavg")).unwrap();
    let read = || {
        let mut room = [0; 100];
        file.read_at(&mut room, 0).map(|count| String::from_utf8_lossy(&room[..count]).into_owned())
    };
    assert_eq!(read().unwrap(), "0.1 0.2\n");
    for (seconds, text) in [(2, "0.3 0.4\n"), (3, "longer 0.5 0.6\n"), (4, "s\n"), (5, "0.1 0.2\n")] {
        lab.print("loadavg", text, seconds);
        wait_until("the page is new", || read().unwrap() == text);
    }
    assert_eq!(lab.read("n0000/proc/loadavg").unwrap(), "0.1 0.2\n");
    // A file of more than a page is not cached.
    assert_eq!(lab.read("n0000/proc/vmstat").unwrap().len(), 5_000);
    let text = lab.texts().into_iter().find(|text| text.path == "loadavg").unwrap();
    lab.sink.no_text(text.number, libc::EACCES, "not shown any more");
    wait_until("the reason is here", || errno(read()) == libc::EACCES);
    lab.print("loadavg", "back\n", 9);
    wait_until("it is back", || read().is_ok_and(|text| text == "back\n"));
    let before = lab.stat("texts");
    lab.print("loadavg", "back\n", 10);
    wait_until("it came", || lab.stat("texts") > before);
    assert_eq!(read().unwrap(), "back\n");
}

#[test]
fn a_reader_waits_for_a_fresh_text_and_reads_all_pieces_of_it() {
    let lab = lab(1);
    // The file has the number of requests in it.
    lab.kernel("counted", "first\n");
    lab.kernel("", "counted\n");
    let file = File::open(lab.path("n0000/proc/counted")).unwrap();
    let read = |from, length: usize| {
        let mut room = vec![0; length];
        let count = file.read_at(&mut room, from).unwrap();
        String::from_utf8(room[..count].to_vec()).unwrap()
    };
    let mut last = 0;
    for _ in 0..20 {
        std::thread::sleep(khz_mount::limits::TEXT_AGE_MAX + Duration::from_millis(1));
        let (first, second) = (read(0, 1), read(1, 100));
        let number: u64 = format!("{first}{second}").trim().parse().unwrap();
        assert!(number > last, "{number} after {last}");
        last = number;
    }
    let (began, before) = (Instant::now(), lab.stat("texts_asked"));
    let mut reads = 0;
    while began.elapsed() < Duration::from_millis(500) {
        assert!(!read(0, 100).is_empty());
        reads += 1;
    }
    let most = began.elapsed().as_millis() / khz_mount::limits::TEXT_AGE_MAX.as_millis() + 1;
    let asked = u128::from(lab.stat("texts_asked") - before);
    assert!(asked <= most && asked < reads, "{asked} requests for {reads} reads without pause");
}

#[test]
fn a_node_that_does_not_answer_gives_its_last_text_and_a_waiting_program_can_be_ended() {
    let lab = lab_with(1, |options| options.wait = Duration::from_secs(40));
    let path = lab.path("n0000/proc/meminfo");
    let file = File::open(&path).unwrap();
    lab.asked.lock().unwrap().mute = true;
    let read = || {
        let mut room = [0; 100];
        file.read_at(&mut room, 0).map(|count| room[..count].to_vec())
    };
    read().unwrap();
    std::thread::sleep(khz_mount::limits::TEXT_AGE_MAX * 2);
    let before = Instant::now();
    assert_eq!(read().unwrap(), b"MemTotal:  17 kB\n");
    assert!(before.elapsed() >= khz_mount::limits::TEXT_NOW_WAIT, "it has waited for a fresher text");
    assert_eq!(lab.stat("texts_not_in_time"), 1);
    for _ in 0..100 {
        assert_eq!(read().unwrap(), b"MemTotal:  17 kB\n", "nobody waits again");
    }
    assert_eq!(lab.stat("texts_not_in_time"), 1);

    // On another connection the node is asked again, and readers wait again, until a signal ends them.
    wait_until("a waiting program was ended", || {
        lab.sink.connected(false, "gone");
        lab.sink.connected(true, "back");
        let requests = || lab.asked.lock().unwrap().requests.len();
        let first = requests();
        let begin = file.try_clone().unwrap();
        std::io::Seek::rewind(&mut &begin).unwrap();
        let mut cat = crate::lab::interruptible("cat").stdin(begin).stdout(Stdio::null()).spawn().unwrap();
        wait_until("it waits", || requests() > first || cat.try_wait().unwrap().is_some());
        let pid = rustix::process::Pid::from_child(&cat);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        cat.wait().unwrap().signal() == Some(libc::SIGINT)
    });
}
