//! `.channels`: which channels there are, their rows and values, and what the tree subscribes to because of them.

use khz_follow::Defined;
use khz_model::ChannelName;

use super::*;
use crate::file::Readiness;
use crate::limits::ROWS_BYTES_MAX;
use crate::upstream::ChannelRow;

/// A process that polls.
const PROCESS: u32 = 77;

fn defined(name: &str, json: &str) -> Defined {
    Defined { name: ChannelName::new(name).unwrap(), json: json.to_owned() }
}

impl Lab {
    /// A lab whose hub has these channels.
    fn with_channels(names: &[&str]) -> Self {
        let mut lab = Lab::of(&["n1", "n2"]);
        assert_eq!(lab.find(".channels/x"), Answer::Wait, "the list is not known");
        lab.work();
        assert!(lab.lists_channels);
        lab.defines(&names.iter().map(|name| (*name, "{}")).collect::<Vec<_>>());
        lab
    }

    /// The hub's list.
    fn defines(&mut self, channels: &[(&str, &str)]) {
        let channels = channels.iter().map(|(name, json)| defined(name, json)).collect();
        self.tree.channels(Some(channels), self.now);
        self.work();
    }

    fn open(&mut self, path: &str) -> u64 {
        let inode = self.at(path);
        match self.tree.open(inode, false, READER, self.now, false) {
            Answer::Ready(opened) => {
                self.work();
                opened.handle
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    /// The numbers of the subscriptions to a channel.
    fn followed(&self, name: &str) -> Vec<u32> {
        self.channels.iter().filter(|known| known.name.as_str() == name).map(|known| known.number).collect()
    }

    /// A node has answered the subscription to a channel.
    fn columns_of(&mut self, name: &str, node: &str, metrics: &[&str]) {
        let subscription = *self.followed(name).last().expect("it is followed");
        let columns: Vec<Series> = metrics.iter().map(|metric| series(metric, None)).collect();
        let lane = lane(subscription, node);
        self.tree.channel_columns(lane, subscription, &super::name(node), &Arc::new(columns));
    }

    /// A row of a channel.
    fn row_of_channel(&mut self, name: &str, node: &str, (epoch, number): (u64, u64), values: &[u64]) {
        let subscription = *self.followed(name).last().expect("it is followed");
        let readings: Vec<Reading> = values.iter().map(|&value| Reading::Present(value)).collect();
        let stamp = Stamp { boot: Nanos::from_secs(number), real_offset: 0 };
        let lane = lane(subscription, node);
        self.tree.channel_row(&ChannelRow { lane, epoch, number, stamp, readings: &readings });
        self.work();
    }

    fn poll(&mut self, handle: u64, sleeper: Option<u64>) -> Readiness {
        match self.tree.poll(handle, PROCESS, sleeper) {
            Answer::Ready(readiness) => readiness,
            other => panic!("{other:?}"),
        }
    }

    /// The lines that wait for a reader.
    fn lines(&mut self, handle: u64) -> Vec<String> {
        match self.read(handle) {
            Answer::Ready(text) => text.lines().map(str::to_owned).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn stat(&self, name: &str) -> u64 {
        let text = String::from_utf8(self.tree.stats_text()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
    }
}

#[test]
fn channels_are_listed_as_the_hub_has_them_and_names_that_come_and_go_follow() {
    let mut lab = Lab::with_channels(&["hot", "cold"]);
    let top = lab.at(".channels");
    assert_eq!(lab.list(top), Answer::Ready(vec!["cold".into(), "hot".into()]));
    let definition = lab.at(".channels/hot/definition");
    assert_eq!(lab.cat(definition, false), text("{}\n"));
    assert_eq!(lab.tree.attributes(definition, lab.now).unwrap().size, 3);
    lab.defines(&[("hot", "{\"rate\":\"2Hz\"}"), ("new", "{}")]);
    assert_eq!(lab.list(top), Answer::Ready(vec!["hot".into(), "new".into()]));
    assert_eq!(lab.cat(definition, false), text("{\"rate\":\"2Hz\"}\n"));
    assert_eq!(lab.find(".channels/cold"), Answer::Fail(libc::ENOENT));
    assert_eq!(lab.find(".channels/new/strange"), Answer::Fail(libc::ENOENT), "no node is called so");
    assert!(lab.channels.is_empty(), "definitions and listings subscribe to nothing");
    lab.pass(LEASE);
    assert!(!lab.lists_channels, "nobody uses the list");
    assert_eq!(lab.list(top), Answer::Wait, "the list is old");
    assert_eq!((lab.cat(definition, false), lab.find(".channels/hot")), (Answer::Wait, Answer::Wait));
    assert_eq!(lab.cat(definition, true), text("{\"rate\":\"2Hz\"}\n"), "it has waited long enough");
    lab.tree.connected(false, "gone", lab.now);
    assert_eq!(lab.list(top), Answer::Ready(vec!["hot".into(), "new".into()]), "nobody could answer");
}

#[test]
fn a_hub_that_is_too_old_lists_no_channels_and_names_say_so() {
    let mut lab = Lab::of(&["n1"]);
    let top = lab.at(".channels");
    assert_eq!(lab.list(top), Answer::Wait);
    lab.work();
    lab.tree.channels(None, lab.now);
    assert_eq!(lab.list(top), Answer::Ready(vec![]));
    assert_eq!(lab.find(".channels/hot"), Answer::Fail(libc::EOPNOTSUPP));
    assert!(lab.tree.controls.error().contains("older"), "{}", lab.tree.controls.error());
}

#[test]
fn the_tree_subscribes_to_a_channel_while_a_file_of_it_is_open_and_a_lease_longer() {
    let mut lab = Lab::with_channels(&["hot"]);
    let rows = lab.open(".channels/hot/rows");
    assert_eq!(lab.followed("hot"), [1]);
    lab.pass(LEASE * 3);
    assert_eq!(lab.followed("hot"), [1], "the file is open");
    assert!(lab.lists_channels);
    lab.tree.release(rows, lab.now);
    lab.pass(LEASE / 2);
    assert_eq!(lab.followed("hot"), [1]);
    lab.pass(LEASE);
    assert!(lab.channels.is_empty() && !lab.lists_channels);
    assert_eq!(lab.tree.next_errands(), None, "nothing is left to do");
}

#[test]
fn every_opener_reads_the_rows_from_its_open_on_and_sleeps_until_the_next_one() {
    let mut lab = Lab::with_channels(&["hot"]);
    let first = lab.open(".channels/hot/rows");
    assert_eq!(lab.poll(first, Some(5)), Readiness::Nothing);
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 1), &[10]);
    assert_eq!(lab.woken, [5]);
    assert_eq!(lab.poll(first, None), Readiness::News);
    let second = lab.open(".channels/hot/rows");
    assert_eq!(lab.followed("hot"), [1], "all readers share one subscription");
    lab.row_of_channel("hot", "n1", (1, 2), &[11]);
    let row = |time, value| {
        format!(r#"{{"node":"n1","time":"{time}.000000000","values":{{"load.1m":"{value}"}}}}"#)
    };
    assert_eq!(lab.lines(first), [row(1, 10), row(2, 11)]);
    assert_eq!(lab.lines(second), [row(2, 11)]);
    assert_eq!((lab.lines(first), lab.poll(first, None)), (vec![], Readiness::Nothing), "an end for now");
    lab.row_of_channel("hot", "n1", (1, 6), &[12]);
    assert_eq!(lab.lines(first)[0], r#"{"event":"lost","node":"n1","rows":3}"#);
    assert_eq!((lab.stat("channel_rows"), lab.stat("channel_rows_lost")), (3, 3));
}

#[test]
fn a_reader_that_is_too_slow_is_told_how_much_it_has_not_got() {
    let mut lab = Lab::with_channels(&["hot"]);
    let rows = lab.open(".channels/hot/rows");
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 1), &[1]);
    let length = lab.lines(rows)[0].len() + 1;
    let more = (ROWS_BYTES_MAX / length) as u64 + 10;
    for number in 2..2 + more {
        let readings = [Reading::Present(1)];
        let lane = lane(1, "n1");
        let row = ChannelRow { lane, epoch: 1, number, stamp: Stamp::default(), readings: &readings };
        lab.tree.channel_row(&row);
    }
    assert!(lab.lines(rows)[0].starts_with(r#"{"event":"dropped","lines":"#));
    assert!(lab.stat("channel_lines_dropped") > 0);
}

#[test]
fn a_value_is_found_when_it_has_come_and_a_sleeper_hears_of_the_next_one() {
    let mut lab = Lab::with_channels(&["hot"]);
    assert_eq!(lab.find(".channels/hot/n1/load/1m"), Answer::Wait, "no row has come");
    lab.work();
    let node = lab.at(".channels/hot/n1");
    let late = lab.tree.lookup(node, b"load", lab.now, true);
    assert_eq!(late, Answer::Fail(libc::ENODATA), "and it may come in days");
    let hot = lab.at(".channels/hot");
    assert_eq!(lab.list(hot), Answer::Ready(vec!["definition".into(), "rows".into()]));
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 1), &[42]);
    assert_eq!(lab.find(".channels/hot/n1/load/5m"), Answer::Fail(libc::ENOENT), "its names are known");
    let value = lab.at(".channels/hot/n1/load/1m");
    let handle = lab.open(".channels/hot/n1/load/1m");
    assert_eq!((lab.poll(handle, None), lab.read(handle)), (Readiness::News, text("42\n")));
    assert_eq!(lab.tree.attributes(value, lab.now).unwrap().size, 3);
    assert_eq!(lab.list(hot), Answer::Ready(vec!["definition".into(), "rows".into(), "n1".into()]));
    assert_eq!(lab.poll(handle, Some(10)), Readiness::Nothing, "once");
    lab.row_of_channel("hot", "n1", (1, 2), &[43]);
    assert_eq!(lab.woken, [10]);
    assert_eq!((lab.poll(handle, None), lab.read(handle)), (Readiness::News, text("43\n")));
    // Values of nodes are other files.
    assert_eq!(lab.find("n1/load"), Answer::Fail(libc::ENOENT));
}

#[test]
fn what_a_channel_has_sent_is_forgotten_with_its_subscription() {
    let mut lab = Lab::with_channels(&["hot"]);
    let rows = lab.open(".channels/hot/rows");
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 1), &[42]);
    let value = lab.at(".channels/hot/n1/load/1m");
    assert_eq!(lab.cat(value, false), text("42\n"));
    lab.tree.release(rows, lab.now);
    lab.pass(LEASE);
    assert!(lab.channels.is_empty());
    assert_eq!(lab.find(".channels/hot/n1/load"), Answer::Wait, "an old value is not shown");
}

#[test]
fn a_channel_that_is_removed_ends_open_files_and_is_not_opened_any_more() {
    let mut lab = Lab::with_channels(&["hot"]);
    let rows = lab.open(".channels/hot/rows");
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 1), &[42]);
    let inode = lab.at(".channels/hot/rows");
    let value = lab.open(".channels/hot/n1/load/1m");
    assert_eq!(lab.poll(value, None), Readiness::News);
    assert_eq!(lab.poll(value, Some(3)), Readiness::Nothing);
    lab.defines(&[]);
    assert_eq!(lab.woken, [3]);
    assert!(lab.channels.is_empty());
    assert_eq!(lab.poll(rows, None), Readiness::News);
    assert_eq!(lab.lines(rows).last().unwrap(), r#"{"event":"removed"}"#);
    assert_eq!((lab.poll(rows, None), lab.lines(rows).len()), (Readiness::End, 0));
    assert_eq!((lab.poll(value, None), lab.poll(value, None)), (Readiness::News, Readiness::End));
    assert_eq!(lab.read(value), Answer::Fail(libc::ENODATA));
    assert_eq!(lab.tree.open(inode, false, READER, lab.now, false), Answer::Fail(libc::ENOENT));
    assert_eq!(lab.find(".channels/hot"), Answer::Fail(libc::ENOENT));
    // It is defined again: rows come again, also for who has waited.
    lab.defines(&[("hot", "{}")]);
    assert_eq!(lab.followed("hot"), [2]);
    assert_eq!(lab.lines(rows), [r#"{"event":"defined"}"#]);
    assert_eq!(lab.poll(rows, None), Readiness::Nothing);
}

#[test]
fn a_channel_that_is_changed_is_subscribed_to_again_and_its_readers_learn_it() {
    let mut lab = Lab::with_channels(&["hot"]);
    let rows = lab.open(".channels/hot/rows");
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 1), &[42]);
    let value = lab.open(".channels/hot/n1/load/1m");
    lab.defines(&[("hot", "{\"rate\":\"2Hz\"}")]);
    assert_eq!(lab.followed("hot"), [2]);
    assert_eq!(lab.read(value), Answer::Fail(libc::ENODATA), "it may mean something else");
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.poll(value, None);
    assert_eq!(lab.poll(value, Some(4)), Readiness::Nothing);
    lab.row_of_channel("hot", "n1", (2, 1), &[7]);
    assert_eq!((lab.woken.last().copied(), lab.read(value)), (Some(4), text("7\n")));
    let lines = lab.lines(rows);
    assert_eq!((lines.len(), lines[1].as_str()), (3, r#"{"event":"defined"}"#), "and nothing counts as lost");
}

#[test]
fn a_refusal_is_told_to_readers_and_refuses_the_next_open() {
    let mut lab = Lab::with_channels(&["fast"]);
    let rows = lab.open(".channels/fast/rows");
    let inode = lab.at(".channels/fast/rows");
    lab.tree.channel_notice(1, true, "n1: this node takes no handlers");
    assert_eq!(
        lab.lines(rows),
        [r#"{"event":"notice","text":"n1: this node takes no handlers"}"#],
        "other nodes may send rows"
    );
    lab.tree.channel_notice(1, false, "above 100Hz the operator role is needed");
    assert_eq!(lab.lines(rows), [r#"{"event":"refused","text":"above 100Hz the operator role is needed"}"#]);
    assert_eq!(lab.tree.open(inode, false, READER, lab.now, false), Answer::Fail(libc::EACCES));
    assert_eq!(lab.find(".channels/fast/n1/load"), Answer::Fail(libc::EACCES));
    assert_eq!(lab.tree.controls.error(), "channel fast: above 100Hz the operator role is needed\n");
    assert_eq!(lab.stat("channel_notices"), 2);
}

#[test]
fn rows_go_on_after_a_hub_that_was_away_and_what_is_missing_is_counted() {
    let mut lab = Lab::with_channels(&["hot"]);
    let rows = lab.open(".channels/hot/rows");
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 1), &[42]);
    let value = lab.at(".channels/hot/n1/load/1m");
    lab.tree.close_lane(lane(1, "n1"));
    lab.tree.connected(false, "gone", lab.now);
    assert_eq!(lab.cat(value, false), text("42\n"), "the last one that was sent");
    lab.tree.connected(true, "hub", lab.now);
    lab.defines(&[("hot", "{}")]);
    assert_eq!(lab.followed("hot"), [1], "the link subscribes again by itself");
    lab.columns_of("hot", "n1", &["load.1m"]);
    lab.row_of_channel("hot", "n1", (1, 5), &[43]);
    lab.row_of_channel("hot", "n1", (2, 9), &[44]);
    let events: Vec<String> = lab.lines(rows).into_iter().filter(|line| line.contains("event")).collect();
    assert_eq!(
        events,
        [
            r#"{"event":"hub","state":"away","text":"gone"}"#,
            r#"{"event":"hub","state":"connected","text":"hub"}"#,
            r#"{"event":"lost","node":"n1","rows":3}"#,
            r#"{"event":"lost","node":"n1","rows":null}"#,
        ]
    );
    assert_eq!(lab.cat(value, false), text("44\n"));
}

#[test]
fn a_strict_mount_shows_nothing_of_channels_while_the_hub_is_away() {
    let mut lab = Lab::with(&["n1"], |options| options.strict = true);
    assert_eq!(lab.find(".channels/hot"), Answer::Wait);
    lab.defines(&[("hot", "{}")]);
    let rows = lab.at(".channels/hot/rows");
    lab.tree.connected(false, "gone", lab.now);
    assert_eq!(lab.tree.open(rows, false, READER, lab.now, false), Answer::Fail(libc::EIO));
}
