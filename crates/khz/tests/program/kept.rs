//! Where the rows of channels go beside their readers: into recordings, into the store of a hub that is killed, into .rrd files;
//! and channels that use others.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::exposition::get_at;
use crate::process::{Ended, Running, code, err, khz, out, run, until};
use crate::text::free_port;

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a killed hub is away: a block of rows at 50 Hz takes less.
const OUTAGE: Duration = Duration::from_secs(6);

/// How long a hub is away so that nodes have ended its channels before it is back (`khz_gather::CHANNEL_LINGER`).
const LONG_OUTAGE: Duration = Duration::from_secs(66);

/// A folder of one test, and the ports of its hub, which stay the same when it starts again.
struct Place {
    folder: PathBuf,
    http: String,
    link: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Place {
    fn new(name: &str) -> Self {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kept-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Place { folder, http: free_port(), link: free_port() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    fn hub(&self, more: &[&str]) -> Running {
        let (state, store) = (self.path("state"), self.path("store"));
        let words = ["hub", "--listen", &self.http, "--link-listen", &self.link, "--node", "hub"];
        let kept = ["--state-dir", &state, "--store", &store];
        self.started(&[&words[..], &kept, more].concat())
    }

    fn started(&self, words: &[&str]) -> Running {
        let mut command = khz(words);
        command.env("KHZ_RUN_DIR", self.folder.join("run"));
        Running::of(command)
    }

    /// An agent that is of the same user, and up.
    fn agent(&self, hub: &Running, node: &str) -> Ended {
        let words = ["agent", "--node", node, "--hub", &self.link, "--sources", "loadavg,meminfo,uptime"];
        let agent = Ended::start_silent(&mut hub.beside(&words));
        until(PATIENCE, "the agent is up", || {
            out(&ask(hub, &["nodes", node, "--json"])).contains("\"state\":\"up\"")
        });
        agent
    }
}

/// `khz` with these words, asking this one as a reader.
fn ask(khz: &Running, words: &[&str]) -> std::process::Output {
    run(&[words, &["--server", &khz.url]].concat())
}

/// The same by the socket of its own user, who is an operator.
fn operate(hub: &Running, words: &[&str]) {
    let done = hub.beside(words).output().unwrap();
    assert_eq!(code(&done), 0, "{words:?}: {}", err(&done));
}

/// The rows of a recording.
fn rows_of(path: &str) -> Vec<Value> {
    let output = run(&["export", path, "--json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The times of what the store has of a series.
fn stored(hub: &Running, series: &str) -> BTreeSet<String> {
    let csv = out(&ask(hub, &["export", "--from", "-1h", "-m", series]));
    csv.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
}

/// What the store has of a series of whole numbers.
fn values(hub: &Running, series: &str) -> Vec<u64> {
    let csv = out(&ask(hub, &["export", "--from", "-1h", "-m", series]));
    let value = |line: &str| line.rsplit(',').next().unwrap().parse::<f64>().unwrap() as u64;
    csv.lines().skip(1).map(value).collect()
}

/// The hub keeps a channel whose value grows by one with each row, for five minutes: so its rows tell which of them are missing.
fn count_rows(hub: &Running, rate: &str) {
    let count = ["channel", "create", "count", "--expr", "count_over_time({\"uptime.up\"}[5m])"];
    operate(hub, &[&count[..], &["--rate", rate, "--keep", "1d"]].concat());
}

/// No row of such a channel is missing.
fn assert_whole(counts: &[u64], what: &str) {
    assert!(counts.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{what}: {counts:?}");
}

/// A hub is killed, or ended by a signal.
fn end_by(mut hub: Running, how: &str) {
    if how == "KILL" {
        hub.child.kill().unwrap();
        hub.child.wait().unwrap();
    } else {
        assert_eq!(hub.end(how).0, Some(0));
    }
}

#[test]
fn a_channel_is_recorded_with_the_numbers_of_its_rows_from_the_first_hub_that_answers() {
    let place = Place::new("record");
    let hub = place.hub(&[]);
    let _agent = place.agent(&hub, "n1");
    operate(&hub, &["channel", "create", "up", "--expr", "{\"uptime.up\"}", "--rate", "20Hz"]);
    operate(&hub, &["channel", "create", "never", "--expr", "node_load1 < 0"]);
    let (up, never) = (place.path("up.khzt"), place.path("never.khzt"));
    let hubs = format!("127.0.0.1:1,{}", place.link);
    let record = |channel: &str, file: &str, more: &[&str]| {
        let words = ["record", "--channel", channel, "--hub", &hubs, "-o", file];
        hub.beside(&[&words[..], more].concat()).output().unwrap()
    };
    let done = record("up", &up, &["--", "sleep", "2"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let rows = rows_of(&up);
    let numbers: Vec<u64> = rows.iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert!(numbers.len() > 10 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    for row in &rows {
        assert_eq!((&row["lane"], &row["node"]), (&"channel.up".into(), &"n1".into()), "{row}");
        assert!(row["values"]["channel.up"].as_str().unwrap().parse::<f64>().unwrap() > 0.0, "{row}");
    }
    let csv = out(&run(&["export", &up]));
    assert_eq!(csv.lines().next(), Some("time,boot,node,channel.up"));
    let plot = place.path("up.svg");
    assert_eq!(code(&run(&["plot", &up, "-m", "channel.up", "-o", &plot])), 0);
    // A channel whose condition never holds has no row, and nothing is missing.
    let silent = record("never", &never, &["--for", "3s"]);
    assert_eq!(code(&silent), 0, "{}", err(&silent));
    let none = run(&["export", &never]);
    assert!(err(&none).contains("there are no rows in it"), "{}", err(&none));
    for (words, expected, message) in [
        (&["record", "--channel", "no", "--hub", &place.link, "-o", &never][..], 1, "there is no channel no"),
        (&["record", "--channel", "No", "--hub", &place.link], 2, "starts with a small letter"),
        (&["record", "mem.*", "--channel", "up", "--hub", &place.link], 2, "cannot be used with"),
        (&["record", "--channel", "up", "--rate", "5Hz"], 2, "cannot be used with"),
        (&["record", "--channel", "up", "--hub", ","], 2, "--hub names no hub"),
    ] {
        let refused = hub.beside(words).output().unwrap();
        assert_eq!(code(&refused), expected, "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(message), "{words:?}: {}", err(&refused));
    }
    let nobody = run(&["record", "--channel", "up"]);
    assert_eq!(code(&nobody), 2, "{}", err(&nobody));
    assert!(err(&nobody).contains("channels are kept by a hub"), "{}", err(&nobody));
}

#[test]
fn rows_of_a_channel_that_is_kept_survive_a_hub_that_is_killed_without_any_reader() {
    let place = Place::new("store");
    let mut hub = place.hub(&[]);
    let _agents = ["n1", "n2"].map(|node| place.agent(&hub, node));
    operate(
        &hub,
        &["channel", "create", "up", "--expr", "{\"uptime.up\"}", "--rate", "10Hz", "--keep", "1d"],
    );
    count_rows(&hub, "50Hz");
    let mean =
        ["channel", "create", "mean", "mem.free", "--each", "mean 1s", "--every", "1s", "--keep", "2h"];
    operate(&hub, &mean);
    let enough = |hub: &Running, series: &str, least: usize| {
        until(PATIENCE, "rows of the channel are stored", || stored(hub, series).len() >= least);
    };
    enough(&hub, "n1:channel.up", 20);
    enough(&hub, "n2:channel.mean.mem.free", 3);
    // Another reader of the same rows: it says which there were, with their numbers, also across the kill.
    let witness = place.path("witness.khzt");
    let words = ["record", "--channel", "up", "--hub", &place.link, "--quiet", "-o", &witness];
    let recording = Ended::start_silent(&mut hub.beside(&words));
    let before = stored(&hub, "n1:channel.up").len();
    enough(&hub, "n1:channel.up", before + 20);
    hub.child.kill().unwrap();
    hub.child.wait().unwrap();
    // It is away for some blocks of the faster channel.
    std::thread::sleep(OUTAGE);
    let hub = place.hub(&[]);
    let before = stored(&hub, "n1:channel.up").len();
    assert!(before > 0, "what was on the disk is there at once");
    enough(&hub, "n1:channel.up", before + 60);
    assert_eq!(recording.end_by("INT"), Some(0));
    let witnessed = rows_of(&witness);
    let numbers = |node: &str| -> Vec<u64> {
        let of_node = witnessed.iter().filter(|row| row["node"] == node && row["lane"] == "channel.up");
        of_node.filter_map(|row| row["row"].as_u64()).collect()
    };
    for node in ["n1", "n2"] {
        let numbers = numbers(node);
        assert!(numbers.len() > 60, "{node}: {numbers:?}");
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{node}: {numbers:?}");
        // By the time since boot: the wall clock's may be corrected by some ns from block to block.
        let csv = out(&ask(&hub, &["export", "--from", "-1h", "-m", &format!("{node}:channel.up")]));
        let stored: BTreeSet<&str> = csv.lines().filter_map(|line| line.split(',').nth(1)).collect();
        let of_node = witnessed.iter().filter(|row| row["node"] == node);
        let lacking: Vec<&Value> =
            of_node.filter(|row| !stored.contains(row["boot"].as_str().unwrap())).collect();
        assert!(lacking.is_empty(), "{node}: every row that a reader got is in the store: {lacking:?}");
    }
    // Nobody but the hub reads this one: what the killed hub had not written came from the node.
    for node in ["n1", "n2"] {
        let counts = values(&hub, &format!("{node}:channel.count"));
        assert!(counts.len() > 60, "{node}: {counts:?}");
        assert_whole(&counts, node);
    }
    // The base lane of the same node is as it would be without the channel.
    let base = stored(&hub, "n1:mem.free");
    assert!(base.len() > 3 && base.len() < stored(&hub, "n1:channel.up").len() / 2, "{}", base.len());
    read_back(&place, &hub);
    // As columns it is the same.
    let all = stored(&hub, "n1:channel.up");
    assert_eq!(hub.end("TERM").0, Some(0));
    let store = place.path("store");
    let compacted = run(&["store", "compact", &store]);
    assert_eq!(code(&compacted), 0, "{}", err(&compacted));
    let shown = run(&["store", "show", &store]);
    assert!(out(&shown).contains("rows of the channels count, mean, up\n"), "{}", out(&shown));
    let checked = run(&["store", "check", &store]);
    assert_eq!(code(&checked), 0, "{}", err(&checked));
    let hub = place.hub(&[]);
    assert!(stored(&hub, "n1:channel.up").is_superset(&all));
    // When it is not kept any more, no row comes, even if it has readers, and those that came stay.
    operate(&hub, &["channel", "set", "up", "--expr", "{\"uptime.up\"}", "--rate", "10Hz"]);
    until(PATIENCE, "no more rows are stored", || {
        let before = stored(&hub, "n1:channel.up");
        assert_eq!(code(&ask(&hub, &["channel", "watch", "up", "--count", "20"])), 0);
        stored(&hub, "n1:channel.up") == before
    });
    assert!(stored(&hub, "n1:channel.up").is_superset(&all));
}

#[test]
fn a_hub_that_was_away_for_long_gets_the_rows_of_the_first_minute_and_says_for_which_time_there_are_none() {
    let place = Place::new("long");
    let hub = place.hub(&[]);
    let _agent = place.agent(&hub, "n1");
    count_rows(&hub, "10Hz");
    let counts = |hub: &Running| values(hub, "n1:channel.count");
    until(PATIENCE, "rows of the channel are stored", || counts(&hub).len() >= 20);
    end_by(hub, "KILL");
    std::thread::sleep(LONG_OUTAGE);
    let hub = place.hub(&[]);
    assert_both_lanes(&|| counts(&hub), "the lane that began when the hub was back");
    let shown = || out(&ask(&hub, &["channel", "show", "count"]));
    until(PATIENCE, "the time without rows", || {
        shown().contains("n1: no hub that keeps it was there: it has no rows of ")
    });
    // The lane that is over is not among those of the node for long.
    until(PATIENCE, "its end", || !out(&ask(&hub, &["nodes", "n1", "--json"])).contains("former"));
}

/// Waits for a minute of rows of the lane that is over, and for some of the one that began later; both are whole.
fn assert_both_lanes(counts: &dyn Fn() -> Vec<u64>, later: &str) {
    let begun_again = |counts: &[u64]| counts.windows(2).position(|pair| pair[1] < pair[0]).map(|at| at + 1);
    until(PATIENCE, "rows of the lane that is over, and of the one that is not", || {
        begun_again(&counts()).is_some_and(|at| at >= 600)
    });
    let all = counts();
    let (former, present) = all.split_at(begun_again(&all).unwrap());
    assert_whole(former, "the lane that is over");
    assert_whole(present, later);
}

#[test]
fn a_hub_whose_node_was_at_another_one_gets_the_rows_of_the_first_minute_and_hears_of_the_time_without_rows()
{
    let (place, elsewhere) = (Place::new("first"), Place::new("second"));
    let hub = place.hub(&["--insecure"]);
    // It does not know the channel, and its readers want something else of the node.
    let other = elsewhere.hub(&["--insecure"]);
    let links = format!("{},{}", place.link, elsewhere.link);
    let words = ["agent", "--node", "n1", "--hub", &links, "--failback-after", "1s"];
    let more = ["--sources", "loadavg,meminfo,uptime"];
    let _agent = Ended::start_silent(&mut hub.beside(&[&words[..], &more].concat()));
    let is_up = |hub: &Running| out(&ask(hub, &["nodes", "n1", "--json"])).contains("\"state\":\"up\"");
    until(PATIENCE, "the agent is up", || is_up(&hub));
    count_rows(&hub, "10Hz");
    let counts = |hub: &Running| values(hub, "n1:channel.count");
    until(PATIENCE, "rows of the channel are stored", || counts(&hub).len() >= 20);
    end_by(hub, "KILL");
    until(PATIENCE, "the agent is at the other hub", || is_up(&other));
    let words = ["watch", "n1:load.1m", "--rate", "5Hz", "--server", &other.url];
    let _reader = Ended::start_silent(&mut khz(&words));
    std::thread::sleep(LONG_OUTAGE);
    let hub = place.hub(&["--insecure"]);
    assert_both_lanes(&|| counts(&hub), "the lane that began when the node was back");
    let shown = || out(&ask(&hub, &["channel", "show", "count"]));
    let text = "n1: no hub that keeps it was there: it has no rows of ";
    until(PATIENCE, "the time without rows", || shown().contains(text));
}

#[test]
fn rows_of_a_channel_that_an_upper_hub_keeps_survive_it_when_it_is_killed() {
    let (below, above) = (Place::new("below"), Place::new("above"));
    let lower = below.hub(&[]);
    let agent = below.agent(&lower, "n1");
    let mut upper = above.hub(&["--source", &below.link]);
    count_rows(&upper, "20Hz");
    let enough = |hub: &Running, least: usize| {
        until(PATIENCE, "rows are stored", || values(hub, "n1:channel.count").len() >= least);
    };
    enough(&upper, 40);
    for how in ["KILL", "TERM"] {
        let before = values(&upper, "n1:channel.count").len();
        end_by(upper, how);
        std::thread::sleep(OUTAGE / 2);
        upper = above.hub(&["--source", &below.link]);
        enough(&upper, before + 100);
        assert_whole(&values(&upper, "n1:channel.count"), how);
    }
    drop(agent);
}

#[test]
fn rows_of_a_channel_that_is_kept_have_no_gap_where_a_node_goes_from_the_upper_hub_to_the_lower_one() {
    let (below, above) = (Place::new("lower"), Place::new("upper"));
    let lower = below.hub(&["--insecure"]);
    let mut upper = above.hub(&["--insecure", "--source", &below.link]);
    let hubs = format!("{},{}", above.link, below.link);
    let words = ["agent", "--node", "n1", "--hub", &hubs, "--sources", "uptime", "--insecure"];
    let _agent = Ended::start_silent(&mut upper.beside(&words));
    count_rows(&upper, "20Hz");
    let stored = |hub: &Running| values(hub, "n1:channel.count");
    until(PATIENCE, "rows are stored", || stored(&upper).len() >= 40);
    upper.child.kill().unwrap();
    upper.child.wait().unwrap();
    until(PATIENCE, "the node is at the lower hub", || {
        out(&ask(&lower, &["nodes", "n1", "--json"])).contains("\"state\":\"up\"")
    });
    upper = above.hub(&["--insecure", "--source", &below.link]);
    let before = stored(&upper).len();
    until(PATIENCE, "rows come through the lower hub", || stored(&upper).len() >= before + 60);
    assert_whole(&stored(&upper), "n1");
}

#[test]
fn rows_of_a_channel_that_is_kept_have_no_gap_where_a_hub_between_was_killed() {
    let [below, between, above] = ["lowest", "between", "highest"].map(Place::new);
    let lower = below.hub(&[]);
    let _agent = below.agent(&lower, "n1");
    let mut middle = between.hub(&["--source", &below.link]);
    let upper = above.hub(&["--source", &between.link]);
    count_rows(&upper, "20Hz");
    let stored = || values(&upper, "n1:channel.count");
    until(PATIENCE, "rows are stored", || stored().len() >= 40);
    for how in ["KILL", "TERM"] {
        end_by(middle, how);
        std::thread::sleep(OUTAGE / 2);
        let before = stored().len();
        middle = between.hub(&["--source", &below.link]);
        until(PATIENCE, "rows come again", || stored().len() >= before + 100);
        assert_whole(&stored(), how);
    }
}

/// Everything that reads the past reads a channel.
fn read_back(place: &Place, hub: &Running) {
    let at = ask(hub, &["get", "n1:channel.up", "n1:channel.mean.mem.free", "--at", "now"]);
    assert_eq!(code(&at), 0, "{}", err(&at));
    let plot = place.path("up.svg");
    let drawn = ask(hub, &["plot", "--from", "-10m", "-m", "n1:channel.up", "-o", &plot]);
    assert_eq!(code(&drawn), 0, "{}", err(&drawn));
    let query = ask(hub, &["query", "count_over_time({\"channel.up\"}[5m])", "--json"]);
    assert_eq!(code(&query), 0, "{}", err(&query));
    let answer = out(&query);
    assert!(answer.contains("n1") && answer.contains("n2"), "{answer}");
    let range = get_at(hub, "/khz/v1/range?match=n1:channel.up&from=-1h");
    assert!(range.contains("channel.up"), "{range}");
    let shown = out(&ask(hub, &["channel", "show", "up"]));
    assert!(shown.contains("1d"), "{shown}");
}

#[test]
fn only_a_hub_with_a_store_keeps_channels_and_errors_say_what_to_do() {
    let place = Place::new("refused");
    let hub = place.hub(&[]);
    let by_operator = |hub: &Running, words: &[&str]| hub.beside(words).output().unwrap();
    let create = |more: &[&'static str]| [&["channel", "create", "x"][..], more].concat();
    for (more, message) in [
        (&["--expr", "node_load1", "--keep", "99d"][..], "keep: the store keeps rows for"),
        (&["mem.free", "--keep", "1d"], "keep: the store has these series already"),
        (
            &["--expr", "node_load1", "--keep", "1d", "--rate", "200Hz"],
            "rate: a channel that is kept has at most",
        ),
        (&["--expr", "node_load1", "--to", "hot"], "to: there is no sink 'hot'"),
        (&["--expr", "{\"channel.x\"} > 1"], "expr: a channel cannot use itself: x -> x (1:1)"),
        (&["--expr", "{\"channel.none\"} > 1"], "expr: there is no channel 'none'"),
    ] {
        let refused = by_operator(&hub, &create(more));
        assert_ne!(code(&refused), 0, "{more:?}");
        assert!(err(&refused).contains(message), "{more:?}: {}", err(&refused));
    }
    let reader = ask(&hub, &create(&["--expr", "node_load1", "--keep", "1d"]));
    assert!(code(&reader) != 0 && err(&reader).contains("keep: this is for operators"), "{}", err(&reader));
    let bare = Running::start_hub(&["--store", "none"]);
    let refused = by_operator(&bare, &create(&["--expr", "node_load1", "--keep", "1d"]));
    assert!(err(&refused).contains("keep: this khz has no store"), "{}", err(&refused));
}

#[test]
fn a_channel_uses_others_and_writes_into_a_sink_of_the_hub() {
    let place = Place::new("sink");
    let (config, sink) = (place.path("khz.toml"), place.path("rrd-hot"));
    let text = format!("[sinks.hot]\nrrd = \"{sink}\"\nlayout = [\"1\", \"LAST:0.5:1:600\"]\n");
    std::fs::write(&config, text).unwrap();
    let hub = place.hub(&["--config", &config]);
    let _agent = place.agent(&hub, "n1");
    operate(&hub, &["channel", "create", "half", "--expr", "{\"uptime.up\"} / 2"]);
    let double = "{\"channel.half\"} * 4";
    operate(&hub, &["channel", "create", "double", "--expr", double, "--to", "hot", "--every", "1s"]);
    let row = |count: &str| {
        let watched = ask(&hub, &["channel", "watch", "double", "--count", count, "--json"]);
        assert_eq!(code(&watched), 0, "{}", err(&watched));
        let row: Value = serde_json::from_str(out(&watched).lines().last().unwrap()).unwrap();
        row["values"]["channel.double"].as_str().unwrap().parse::<f64>().unwrap()
    };
    let up = || {
        let up = out(&ask(&hub, &["get", "n1:uptime.up", "--json"]));
        let up: Value = serde_json::from_str(up.lines().next().unwrap()).unwrap();
        up["value"].as_str().unwrap_or_default().parse::<f64>().unwrap_or_default()
    };
    let (value, up) = (row("2"), up());
    assert!((value - 2.0 * up).abs() < 200.0, "{value} is not twice {up}");
    // Its rows are in a file, also if others read them.
    let file = format!("{sink}/n1/channel.double.rrd");
    let last = || {
        let last = run(&["rrd", "lastupdate", &file]);
        (code(&last) == 0).then(|| out(&last).trim().rsplit(' ').next().unwrap().to_owned())
    };
    until(PATIENCE, "the sink has a value", || {
        last().and_then(|value| value.parse::<f64>().ok()).is_some_and(|value| value > 0.0)
    });
    // What it uses is changed: it follows. It cannot be removed meanwhile.
    let used = hub.beside(&["channel", "rm", "half"]).output().unwrap();
    assert!(err(&used).contains("channel 'half' is used by double"), "{}", err(&used));
    operate(&hub, &["channel", "set", "half", "--expr", "{\"uptime.up\"} * 0 + 5"]);
    assert_eq!(row("1"), 20.0);
    until(PATIENCE, "the sink follows the change", || {
        last().and_then(|value| value.parse::<f64>().ok()) == Some(20.0)
    });
}

#[test]
fn who_refuses_a_channel_that_only_the_hub_follows_is_shown() {
    let place = Place::new("refuses");
    let (config, seen, files) = (place.path("khz.toml"), place.path("seen"), place.path("files"));
    let text = format!(
        "[sinks.seen]\nrecord = \"{seen}\"\n[sinks.files]\nrrd = \"{files}\"\nlayout = [\"1\", \"LAST:0.5:1:600\"]\n"
    );
    std::fs::write(&config, text).unwrap();
    let hub = place.hub(&["--config", &config]);
    let words = ["agent", "--node", "n1", "--hub", &place.link, "--sources", "loadavg", "--handlers", "none"];
    let _agent = Ended::start_silent(&mut hub.beside(&words));
    for (name, more) in [
        ("kept", &["--keep", "1d"][..]),
        ("recorded", &["--to", "seen"]),
        ("filed", &["--to", "files", "--every", "1s"]),
    ] {
        operate(&hub, &[&["channel", "create", name, "--expr", "node_load1"][..], more].concat());
        let shown = || out(&ask(&hub, &["channel", "show", name]));
        until(PATIENCE, "its refusal is shown", || shown().contains("notice    n1: "));
        operate(&hub, &["channel", "set", name, "--expr", "node_load5"]);
        assert!(!shown().contains("notice"), "what it said of another definition does not hold: {}", shown());
    }
}

/// The rows of all recordings in a folder, of the channel's files in their order.
fn rows_in(folder: &str) -> Vec<Value> {
    let files =
        std::fs::read_dir(folder).map(|files| files.filter_map(Result::ok).collect()).unwrap_or(vec![]);
    let mut paths: Vec<String> = files.iter().map(|file| file.path().to_str().unwrap().to_owned()).collect();
    paths.sort();
    let has_rows =
        |path: &&String| !err(&run(&["export", path, "--json"])).contains("there are no rows in it");
    paths.iter().filter(has_rows).flat_map(|path| rows_of(path)).collect()
}

#[test]
fn a_sink_that_is_a_recording_has_the_rows_of_the_channel_before_and_after_it_was_changed() {
    let place = Place::new("recordings");
    let (config, seen) = (place.path("khz.toml"), place.path("seen"));
    let text = format!("[sinks.seen]\nrecord = \"{seen}\"\nrotate = \"1MiB\"\nsize = \"4MiB\"\n");
    std::fs::write(&config, text).unwrap();
    let hub = place.hub(&["--config", &config]);
    let _agent = place.agent(&hub, "n1");
    let of = |value: &'static str| move |row: &Value| row["values"]["channel.two"].as_str() == Some(value);
    operate(
        &hub,
        &["channel", "create", "two", "--expr", "{\"uptime.up\"} * 0 + 1", "--rate", "10Hz", "--to", "seen"],
    );
    // Blocks are written when they are complete: the change ends the first one.
    let outside = place.path("outside.khzt");
    let words =
        ["record", "--channel", "two", "--hub", &place.link, "--quiet", "--for", "10s", "-o", &outside];
    let recording = Ended::start(&mut hub.beside(&words));
    until(PATIENCE, "somebody records it", || {
        out(&ask(&hub, &["channel", "show", "two"])).contains("executed  by 1 node")
    });
    // A node that executes it may not have sent a row yet.
    let watched = ask(&hub, &["channel", "watch", "two", "--count", "5", "--json"]);
    assert_eq!(code(&watched), 0, "{}", err(&watched));
    operate(
        &hub,
        &["channel", "set", "two", "--expr", "{\"uptime.up\"} * 0 + 2", "--rate", "10Hz", "--to", "seen"],
    );
    assert_eq!(recording.end().0, 0, "no row of either definition is missing");
    assert!(rows_of(&outside).iter().any(of("2")), "a recording follows the change");
    operate(&hub, &["channel", "rm", "two"]);
    until(PATIENCE, "the sink has rows of both", || {
        let rows = rows_in(&seen);
        rows.iter().any(of("1")) && rows.iter().any(of("2"))
    });
    let rows = rows_in(&seen);
    assert!(rows.iter().all(|row| row["lane"] == "channel.two" && row["node"] == "n1"), "{rows:?}");
    let numbers: Vec<u64> =
        rows.iter().filter(|row| of("2")(row)).map(|row| row["row"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
}

#[test]
fn a_sink_that_is_a_recording_has_the_last_rows_of_a_node_that_has_gone() {
    let place = Place::new("gone");
    let (config, seen) = (place.path("khz.toml"), place.path("seen"));
    std::fs::write(&config, format!("[sinks.seen]\nrecord = \"{seen}\"\n")).unwrap();
    let hub = place.hub(&["--config", &config]);
    let agent = place.agent(&hub, "n1");
    // A block of rows that are a second apart is complete after a minute.
    operate(&hub, &["channel", "create", "up", "--expr", "{\"uptime.up\"}", "--every", "1s", "--to", "seen"]);
    let watched = ask(&hub, &["channel", "watch", "up", "--count", "4", "--json"]);
    assert_eq!(code(&watched), 0, "{}", err(&watched));
    let last: Value = serde_json::from_str(out(&watched).lines().last().unwrap()).unwrap();
    let has_last = || rows_in(&seen).iter().any(|row| row["time"] == last["time"]);
    assert!(last["time"].is_string() && !has_last(), "the first block is not complete: {last}");
    agent.end_by("KILL");
    until(PATIENCE, "the rows are in the recording", has_last);
}
