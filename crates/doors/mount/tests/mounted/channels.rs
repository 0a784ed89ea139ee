//! The files of channels, through the kernel: programs that read rows and sleep until the next one.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use khz_follow::Defined;
use khz_model::{ChannelName, Reading, Series};
use khz_mount::ChannelRow;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::lab::{Lab, name, stamp, wait_until};
use crate::sample::series;

const LANE: u64 = 7;

/// What a poll says within this time.
fn polled(file: &File, time: Duration) -> PollFlags {
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    poll(&mut fds, Some(&timeout)).unwrap();
    fds[0].revents()
}

const AT_ONCE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(20);

fn lab() -> Lab {
    let lab = Lab::new(1, |_| {});
    let hot = Defined { name: ChannelName::new("hot").unwrap(), json: "{\"name\":\"hot\"}".to_owned() };
    lab.asked.lock().unwrap().defined.push(hot);
    lab
}

/// The number of the subscription to the channel.
fn followed(lab: &Lab) -> u32 {
    wait_until("the channel is followed", || !lab.asked.lock().unwrap().channels.is_empty());
    lab.asked.lock().unwrap().channels.last().unwrap().number
}

/// The node answers the subscription, with the name of its value.
fn columns(lab: &Lab, subscription: u32) {
    let columns: Arc<Vec<Series>> = Arc::new(vec![series("load.1m", None)]);
    lab.sink.channel_columns(LANE, subscription, &name(0), &columns);
}

fn row(lab: &Lab, number: u64, value: u64) {
    let readings = [Reading::Present(value)];
    let row = ChannelRow { lane: LANE, epoch: 1, number, stamp: stamp(number), readings: &readings };
    lab.sink.channel_row(&row);
}

#[test]
fn a_program_sleeps_until_a_row_comes_and_reads_it() {
    let lab = lab();
    assert_eq!(lab.read(".channels/hot/definition").unwrap(), "{\"name\":\"hot\"}\n");
    let mut rows = File::open(lab.path(".channels/hot/rows")).unwrap();
    let mut room = [0; 4_096];
    assert_eq!(rows.read(&mut room).unwrap(), 0, "no row waits, and a read does not either");
    columns(&lab, followed(&lab));
    assert_eq!(polled(&rows, AT_ONCE), PollFlags::empty());
    let sleeper = std::thread::spawn(move || {
        assert_eq!(polled(&rows, LONG), PollFlags::IN);
        let count = rows.read(&mut room).unwrap();
        (rows, String::from_utf8(room[..count].to_vec()).unwrap())
    });
    row(&lab, 1, 5);
    let (mut rows, line) = sleeper.join().unwrap();
    assert!(
        line.starts_with("{\"node\":\"n0000\",") && line.ends_with("\"values\":{\"load.1m\":\"5\"}}\n"),
        "{line}"
    );
    assert_eq!(polled(&rows, AT_ONCE), PollFlags::empty());
    // It is removed: the reader finds the end, and nobody opens it any more.
    lab.sink.channels(Some(Vec::new()));
    let mut rest = String::new();
    rows.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "{\"event\":\"removed\"}\n");
    assert!(polled(&rows, LONG).contains(PollFlags::HUP));
    let gone = File::open(lab.path(".channels/hot/rows")).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(libc::ENOENT));
}

#[test]
fn a_program_sleeps_until_a_channel_sends_another_value() {
    let lab = lab();
    let rows = File::open(lab.path(".channels/hot/rows")).unwrap();
    columns(&lab, followed(&lab));
    row(&lab, 1, 5);
    let value = File::open(lab.path(".channels/hot/n0000/load/1m")).unwrap();
    assert_eq!(polled(&value, AT_ONCE), PollFlags::IN, "the present value is news at the first poll");
    assert_eq!(polled(&value, AT_ONCE), PollFlags::empty());
    let sleeper = std::thread::spawn(move || {
        assert_eq!(polled(&value, LONG), PollFlags::IN);
        value
    });
    row(&lab, 2, 6);
    let (value, mut room) = (sleeper.join().unwrap(), [0; 64]);
    let count = value.read_at(&mut room, 0).unwrap();
    assert_eq!(&room[..count], b"6\n");
    assert_eq!(lab.read(".channels/hot/n0000/load/1m").unwrap(), "6\n");
    assert_eq!((lab.stat("channels_followed"), lab.stat("channel_rows")), (1, 2));
    // It is defined otherwise: what it has sent means nothing any more.
    let hot = Defined { name: ChannelName::new("hot").unwrap(), json: "{}".to_owned() };
    lab.sink.channels(Some(vec![hot]));
    let none = value.read_at(&mut room, 0).unwrap_err();
    assert_eq!(none.raw_os_error(), Some(libc::ENODATA));
    drop((rows, value));
}

#[test]
fn programs_that_walk_the_tree_find_an_end_in_every_file() {
    let lab = lab();
    let rows = File::open(lab.path(".channels/hot/rows")).unwrap();
    columns(&lab, followed(&lab));
    row(&lab, 1, 5);
    let copy = std::env::temp_dir().join(format!("khz-mount-copy-{}", std::process::id()));
    let done =
        std::process::Command::new("cp").arg("-r").arg(lab.path(".channels")).arg(&copy).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(std::fs::read_to_string(copy.join("hot/n0000/load/1m")).unwrap(), "5\n");
    std::fs::remove_dir_all(&copy).unwrap();
    let found =
        std::process::Command::new("grep").args(["-r", "5"]).arg(lab.path(".channels")).output().unwrap();
    assert!(
        found.status.success() && String::from_utf8_lossy(&found.stdout).contains("load/1m:5"),
        "{found:?}"
    );
    drop(rows);
}
