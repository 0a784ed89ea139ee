//! Programs that sleep until a value comes that passes their settings.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use khz_model::Reading;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use crate::lab::{Lab, wait_until};

const FREE: &str = "n0000/metrics/mem/free";

/// Whether there is news within this time.
fn has_news(file: &File, time: Duration) -> bool {
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    poll(&mut fds, Some(&timeout)).unwrap() > 0
}

const AT_ONCE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_sleeper_hears_of_each_value_once() {
    let lab = Lab::new(1, |_| {});
    let file = File::open(lab.path(FREE)).unwrap();
    assert!(has_news(&file, AT_ONCE), "the present value is news at the first poll");
    assert!(!has_news(&file, AT_ONCE), "and only once");
    lab.set(0, 0, Reading::Present(5), 2);
    assert!(has_news(&file, LONG));
    assert!(!has_news(&file, AT_ONCE));
    lab.set(0, 0, Reading::Present(5), 3);
    assert!(!has_news(&file, Duration::from_millis(50)), "the same value again is no news");
}

/// The loop of every program that follows a value: read, and sleep while it is not the one that it waits for. Values come at
/// any moment of it: also between the read and the sleep, and while the page cache still has the value before.
#[test]
fn a_program_that_reads_and_sleeps_never_sleeps_through_a_value() {
    const VALUES: u64 = 500;
    let lab = Lab::new(1, |_| {});
    let file = File::open(lab.path(FREE)).unwrap();
    for value in 1..=VALUES {
        std::thread::scope(|scope| {
            let follow = || {
                let mut room = [0; 16];
                loop {
                    let count = file.read_at(&mut room, 0).unwrap();
                    if room[..count] == *format!("{value}\n").as_bytes() {
                        return;
                    }
                    assert!(has_news(&file, LONG), "{value} came, and nobody said so");
                }
            };
            let reader = scope.spawn(follow);
            // Other moments of the loop in each turn.
            std::thread::sleep(Duration::from_micros(value * 7 % 500));
            lab.set(0, 0, Reading::Present(value), value + 1);
            reader.join().unwrap();
        });
    }
}

#[test]
fn a_thousand_sleepers_wake_when_the_value_enters_their_range() {
    const SLEEPERS: usize = 1_000;
    let lab = Lab::new(1, |_| {});
    std::fs::write(lab.path("n0000/.control/metrics/mem/free/range"), "0 100").unwrap();
    let files: Vec<File> = (0..SLEEPERS).map(|_| File::open(lab.path(FREE)).unwrap()).collect();
    let one_more = File::open(lab.path(FREE)).unwrap();
    let (awake, asleep) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = files
        .into_iter()
        .map(|file| {
            let (awake, asleep) = (awake.clone(), asleep.clone());
            let sleep = move || {
                assert!(!has_news(&file, AT_ONCE), "it is outside");
                asleep.fetch_add(1, Ordering::SeqCst);
                assert!(has_news(&file, LONG));
                let mut room = [0; 16];
                let count = file.read_at(&mut room, 0).unwrap();
                awake.fetch_add(1, Ordering::SeqCst);
                String::from_utf8_lossy(&room[..count]).into_owned()
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn(sleep).unwrap()
        })
        .collect();
    wait_until("everybody sleeps", || asleep.load(Ordering::SeqCst) == SLEEPERS);
    let woken = lab.stat("sleepers_woken");
    lab.set(0, 0, Reading::Present(500), 2);
    // The tree has the value: a poll says that it is outside.
    assert!(!has_news(&one_more, AT_ONCE), "500 is outside");
    assert_eq!(awake.load(Ordering::SeqCst), 0, "500 is outside");
    lab.set(0, 0, Reading::Present(70), 3);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), "70\n", "a sleeper that wakes finds the value that woke it");
    }
    // At most one wake-up for each sleeper, by 70. If 500 had woken them too, there would be twice as many.
    let wake_ups = lab.stat("sleepers_woken") - woken;
    assert!(wake_ups <= SLEEPERS as u64 + 1, "{wake_ups} wake-ups");
}

#[test]
fn epoll_sleeps_with_a_range_of_its_own_while_its_control_file_is_held() {
    let lab = Lab::new(1, |_| {});
    let held = File::options().write(true).open(lab.path("n0000/.control/metrics/mem/free/range")).unwrap();
    held.write_at(b"range 0 10", 0).unwrap();
    let file = File::open(lab.path(FREE)).unwrap();
    let epoll = epoll::create(epoll::CreateFlags::empty()).unwrap();
    epoll::add(&epoll, &file, epoll::EventData::new_u64(7), epoll::EventFlags::IN).unwrap();
    let wait = |millis: i64| {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 4];
        let timeout = Timespec { tv_sec: millis / 1_000, tv_nsec: millis % 1_000 * 1_000_000 };
        let (found, _) = epoll::wait(&epoll, &mut events[..], Some(&timeout)).unwrap();
        found.len()
    };
    assert_eq!(wait(0), 0);
    lab.set(0, 0, Reading::Present(11), 2);
    assert_eq!(wait(50), 0);
    lab.set(0, 0, Reading::Present(9), 3);
    assert_eq!(wait(20_000), 1);
    assert_eq!(wait(0), 0, "only once");
    lab.set(0, 0, Reading::Present(11), 4);
    assert_eq!(wait(20_000), 1, "it leaves the range");
    drop(held);
}

#[test]
fn a_held_range_ends_with_its_descriptor_however_short_the_sleep_was() {
    let lab = Lab::new(1, |_| {});
    let range = lab.path("n0000/.control/metrics/mem/free/range");
    let mut held = File::options().write(true).open(&range).unwrap();
    held.write_all(b"0 100GiB").unwrap();
    let file = File::open(lab.path(FREE)).unwrap();
    assert!(has_news(&file, LONG), "it is inside already");
    drop(held);
    wait_until("it is let go", || std::fs::read_to_string(&range).unwrap() == "off\n");
}
