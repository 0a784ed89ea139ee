//! `.channels` of a real mount: a program sleeps on the rows of a channel, through the end of the channel and of its hub.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::lab::{Lab, Who, until};

/// The rows of a channel, line by line. A read finds what waits, so a program polls before it reads.
struct Rows {
    file: File,
    text: String,
}

impl Rows {
    fn open(path: &Path) -> Self {
        Rows { file: File::open(path).unwrap(), text: String::new() }
    }

    /// The next line; `None`: nothing comes any more.
    fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let line = serde_json::from_str(line).unwrap();
                self.text = rest.to_owned();
                return Some(line);
            }
            let timeout = Timespec { tv_sec: 40, tv_nsec: 0 };
            let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
            assert!(poll(&mut fds, Some(&timeout)).unwrap() > 0, "nothing comes");
            let is_over = fds[0].revents().contains(PollFlags::HUP);
            let mut room = [0; 1 << 14];
            let count = self.file.read(&mut room).unwrap();
            if count == 0 && is_over {
                return None;
            }
            self.text += std::str::from_utf8(&room[..count]).unwrap();
        }
    }

    fn until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.next().unwrap_or_else(|| panic!("an end before {what}"));
            if is_it(&line) {
                return line;
            }
        }
    }

    /// The next row.
    fn row(&mut self) -> Value {
        self.until("a row", |line| line["values"].is_object())
    }
}

fn channel(lab: &Lab, words: &[&str]) {
    let done = lab.khz(&[&["channel"], words].concat()).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Why a file cannot be opened.
fn refused(path: &Path) -> Option<i32> {
    File::open(path).err().and_then(|error| error.raw_os_error())
}

#[test]
fn a_program_polls_the_rows_of_a_channel_and_its_values_until_it_is_removed() {
    let lab = Lab::new("channel-rows");
    let place = lab.cluster().join(".channels/loads");
    channel(&lab, &["create", "loads", "load.*", "--rate", "10Hz"]);
    until("the mount lists it", || place.exists());
    let definition: Value =
        serde_json::from_str(&std::fs::read_to_string(place.join("definition")).unwrap()).unwrap();
    assert_eq!(definition["series"], serde_json::json!(["load.*"]), "{definition}");
    let mut rows = Rows::open(&place.join("rows"));
    let row = rows.row();
    assert_eq!(row["node"], "n1", "{row}");
    let text = std::fs::read_to_string(place.join("n1/load/1m")).unwrap();
    assert!(text.trim_end().parse::<f64>().is_ok(), "{text}");
    // The series are those of the channel, and change with it.
    assert_eq!(refused(&place.join("n1/mem/free")), Some(libc::ENOENT));
    channel(&lab, &["set", "loads", "mem.free", "--rate", "10Hz"]);
    rows.until("the change", |line| line["event"] == "defined");
    assert!(rows.row()["values"]["mem.free"].is_string());
    channel(&lab, &["rm", "loads"]);
    rows.until("the end", |line| line["event"] == "removed");
    assert!(rows.next().is_none());
    assert_eq!(refused(&place.join("rows")), Some(libc::ENOENT));
    drop(rows);
    let stats = std::fs::read_to_string(lab.cluster().join(".mount/stats")).unwrap();
    assert!(stats.contains("\nchannels_followed 0\n"), "{stats}");
}

#[test]
fn a_channel_that_nobody_has_open_is_not_subscribed_to_and_one_that_never_sends_has_no_data() {
    let lab = Lab::new("channel-idle");
    let place = lab.cluster().join(".channels/never");
    channel(&lab, &["create", "never", "load.1m", "--when", "node_load1 < -1"]);
    until("the mount lists it", || place.exists());
    let followed = || {
        let stats = std::fs::read_to_string(lab.cluster().join(".mount/stats")).unwrap();
        stats.lines().find_map(|line| line.strip_prefix("channels_followed ").map(str::to_owned)).unwrap()
    };
    let names = std::fs::read_dir(&place).unwrap().count();
    assert_eq!((names, followed().as_str()), (2, "0"), "definition and rows");
    let value = place.join("n1/load/1m");
    assert_eq!(refused(&value), Some(libc::ENODATA), "its condition never holds");
    assert_eq!(followed(), "1");
}

#[test]
fn rows_come_again_after_a_hub_was_killed() {
    let mut lab = Lab::new("channel-hub");
    let place = lab.cluster().join(".channels/loads");
    let create = ["create", "loads", "load.*", "--rate", "10Hz"];
    channel(&lab, &create);
    until("the mount lists it", || place.exists());
    let mut rows = Rows::open(&place.join("rows"));
    rows.row();
    lab.kill(Who::Hub);
    rows.until("that the hub is away", |line| line["event"] == "hub" && line["state"] == "away");
    lab.start(Who::Hub);
    // This hub keeps no channels over a restart.
    rows.until("that it is back", |line| line["event"] == "hub" && line["state"] == "connected");
    rows.until("that it has no such channel", |line| line["event"] == "removed");
    assert!(rows.next().is_none());
    channel(&lab, &create);
    until("it can be opened again", || File::open(place.join("rows")).is_ok());
    Rows::open(&place.join("rows")).row();
    // The file that was open all the time has rows again, too.
    rows.row();
}
