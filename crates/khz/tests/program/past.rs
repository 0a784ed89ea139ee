//! What a hub has stored, asked by the commands that read the past.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Running, code, err, khz, out, run, until};
use crate::text::free_port;

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    /// A hub that stores here, or not at all, and the address of its HTTP door.
    fn hub(&self, http: &str, link: &str, store: &str) -> Running {
        let words = ["hub", "--listen", http, "--link-listen", link, "--node", "hub", "--store", store];
        let mut command = khz(&words);
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }

    /// An agent that samples ten times a second. It shows the hub that it is of the same user.
    fn agent(&self, node: &str, hub: &str) -> Running {
        let words =
            ["agent", "--node", node, "--hub", hub, "--base-rate", "10Hz", "--sources", "loadavg,stat,uname"];
        let mut command = khz(&words);
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The answer of a command that asks this server.
fn ask(server: &str, words: &[&str]) -> std::process::Output {
    run(&[words, &["--server", server]].concat())
}

#[test]
fn the_past_is_read_by_every_command_that_reads_it() {
    let (place, http, link) = (Place::new("past"), free_port(), free_port());
    let store = place.0.join("store");
    let hub = place.hub(&http, &link, store.to_str().unwrap());
    let agent = place.agent("n1", &link);
    let server = format!("http://{http}");
    let ask = |words: &[&str]| ask(&server, words);
    until(PATIENCE, "some rows are stored", || {
        out(&ask(&["export", "--from", "-1h", "-m", "n1:load.1m"])).lines().count() > 20
    });
    // Rows are in order, and no row comes twice, whether they are on the disk or have just come.
    let csv = out(&ask(&["export", "--from", "-1h", "-m", "n1:load.1m", "-m", "n1:kernel.forks"]));
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("time,boot,node,kernel.forks,load.1m"));
    let times: Vec<&str> = lines.map(|line| line.split(',').next().unwrap()).collect();
    assert!(times.is_sorted_by(|one, two| one < two), "{times:?}");
    let json = out(&ask(&["export", "--from", times[3], "--to", times[5], "-m", "n1:load.1m", "--json"]));
    assert_eq!(json.lines().count(), 2, "{json}");
    assert!(json.contains(&format!("\"time\":\"{}\"", times[4])), "{json}");

    let at = ask(&["get", "n1:load.1m", "--at", times[7]]);
    assert_eq!(code(&at), 0, "{}", err(&at));
    assert!(out(&at).contains("AGE") && out(&at).contains("0.0 s"), "{}", out(&at));
    let json = out(&ask(&["get", "n1:load.1m", "--at", times[7], "--json"]));
    assert!(json.contains(&format!("\"stamp\":\"{}\"", times[7])), "{json}");
    let partly = ask(&["get", "n1:load.1m", "n2:load.1m", "--at", "now"]);
    assert_eq!(code(&partly), 3);
    assert!(err(&partly).contains("nothing of n2:load.1m up to 20"), "{}", err(&partly));
    let nothing = ask(&["get", "n1:load.1m", "--at", "1000000000"]);
    assert_eq!((code(&nothing), out(&nothing)), (1, String::new()));
    // What the store does have is said: another time, another series, another node.
    assert!(err(&nothing).contains(": it has n1:load.1m from 20"), "{}", err(&nothing));
    let unknown = ask(&["get", "n1:lod.1m", "n9:mem.free", "--at", "now"]);
    assert_eq!(code(&unknown), 1);
    let reasons = ": it has no such series of n1; it has no node n9\n";
    assert!(err(&unknown).ends_with(reasons), "{}", err(&unknown));
    let partly = ask(&["get", "n1:load.1m", "lod.1m", "--at", "now"]);
    assert_eq!(code(&partly), 3);
    assert!(err(&partly).contains("(did you mean load.1m?) up to 20"), "{}", err(&partly));
    assert!(err(&partly).ends_with(": it has no such series\n"), "{}", err(&partly));
    // Three days later: the day before has nothing, and the last reading is found all the same.
    let later = times[0].split('.').next().unwrap().parse::<u64>().unwrap() + 3 * 86_400;
    let old = ask(&["get", "n1:load.1m", "n1:kernel.forks", "--at", &later.to_string()]);
    assert_eq!(code(&old), 0, "{}", err(&old));
    assert_eq!(out(&old).matches(" 2d\n").count(), 2, "{}", out(&old));
    let wrong = ask(&["get", "n1:load.1m", "--at", "tomorrow"]);
    assert_eq!(code(&wrong), 2);
    assert!(err(&wrong).contains("'tomorrow' is no time: write 2026-"), "{}", err(&wrong));

    // A name that is nearly one is suggested, whichever command asks, and nothing is printed before that is known.
    let name = place.0.join("none.khzt");
    for words in [
        &["get", "n1:lod.1m", "--at", "now"][..],
        &["export", "--from", "-1h", "-m", "n1:lod.1m"],
        &["watch", "n1:lod.1m", "--from", "-1h", "--speed", "0"],
        &["plot", "--from", "-1h", "-m", "n1:lod.1m", "-o", "none.svg"],
        &["record", "n1:lod.1m", "--from", "-1h", "-o", name.to_str().unwrap()],
    ] {
        let missed = ask(words);
        assert_eq!((code(&missed), out(&missed)), (1, String::new()), "{words:?}: {}", err(&missed));
        let sentence = "the store has nothing of n1:lod.1m (did you mean n1:load.1m?) ";
        assert!(err(&missed).contains(sentence), "{words:?}: {}", err(&missed));
    }
    // So is a host of a list beside others.
    let rows = place.0.join("some.khzt");
    for words in [
        &["get", "n[1,77]:load.1m", "--at", "now"][..],
        &["export", "--from", "-10s", "-m", "n[1,77]:load.1m"],
        &["watch", "n[1,77]:load.1m", "--from", "-10s", "--speed", "0"],
        &[
            "plot",
            "--from",
            "-10s",
            "-m",
            "n[1,77]:load.1m",
            "-o",
            place.0.join("some.svg").to_str().unwrap(),
        ],
        &["record", "n[1,77]:load.1m", "--from", "-10s", "-o", rows.to_str().unwrap()],
    ] {
        let some = ask(words);
        assert_eq!(code(&some), 3, "{words:?}: {}", err(&some));
        assert!(err(&some).contains("the store has nothing of n77:load.1m"), "{words:?}: {}", err(&some));
    }
    let listed = ask(&["catalog", "n[1,77]:load.1m"]);
    assert_eq!((code(&listed), out(&listed).contains("load.1m")), (3, true), "{}", err(&listed));
    assert!(err(&listed).contains("no node is called n77"), "{}", err(&listed));
    let other = ask(&["watch", "n1:load.1m", "nn1:load.1m", "--from", "-10s", "--speed", "0"]);
    assert_eq!(code(&other), 3, "{}", err(&other));
    assert!(err(&other).contains("nothing of nn1:load.1m (did you mean n1?) in"), "{}", err(&other));
    let backwards = ask(&["watch", "n1:load.1m", "--from", "-10s", "--speed", "-1"]);
    assert!(err(&backwards).contains("--speed is a number from 0 to"), "{}", err(&backwards));
    let fast = ask(&["watch", "n1:load.1m", "--from", "-10s", "--speed", "1e308"]);
    assert!(err(&fast).contains("not 1e308"), "a number is no secret: {}", err(&fast));
    let direct = run(&["get", "load.1m", "--at", "now", "--direct"]);
    assert_eq!(code(&direct), 2);
    assert!(err(&direct).contains("--direct reads this machine's kernel, which knows"), "{}", err(&direct));

    let svg = place.0.join("load.svg");
    let drawn =
        ask(&["plot", "--from", "-1h", "-m", "n1:kernel.context_switches", "-o", svg.to_str().unwrap()]);
    assert_eq!(code(&drawn), 0, "{}", err(&drawn));
    assert!(std::fs::read_to_string(svg).unwrap().contains("kernel.context_switches"));
    let replayed =
        ask(&["watch", "n1:kernel.forks", "--raw", "--from", times[0], "--to", times[9], "--speed", "0"]);
    assert_eq!(code(&replayed), 0, "{}", err(&replayed));
    let shown: Vec<String> = out(&replayed)
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').next().unwrap().to_owned())
        .collect();
    assert_eq!(shown, times[..9], "{}", out(&replayed));

    // After a restart the same rows are there.
    let asked = ["export", "--from", times[0], "--to", times[9], "-m", "n1:load.1m"];
    let before = out(&ask(&asked));
    assert_eq!(before.lines().count(), 10);
    drop(agent);
    hub.end("TERM");
    let _hub = place.hub(&http, &link, store.to_str().unwrap());
    until(PATIENCE, "the hub answers again", || code(&ask(&asked)) == 0);
    assert_eq!(out(&ask(&asked)), before);
}

#[test]
fn without_a_store_the_past_is_refused_with_what_to_do() {
    let (place, http, link) = (Place::new("no-past"), free_port(), free_port());
    let _hub = place.hub(&http, &link, "none");
    let server = format!("http://{http}");
    let mut refused = ask(&server, &["get", "load.1m", "--at", "-1s"]);
    until(PATIENCE, "the hub answers", || {
        refused = ask(&server, &["get", "load.1m", "--at", "-1s"]);
        !err(&refused).contains("no khz answers")
    });
    assert_eq!(code(&refused), 1);
    assert!(err(&refused).contains("khz hub --store DIR"), "{}", err(&refused));
    let recorded = ask(&server, &["record", "--from", "-1m", "-o", "/nonexistent/never.khzt"]);
    assert_eq!(code(&recorded), 1);
    assert!(err(&recorded).contains("khz hub --store DIR"), "{}", err(&recorded));
    let nobody = run(&["export"]);
    assert_eq!(code(&nobody), 2, "{}", err(&nobody));
}

/// The rows of a recording, by node and time: since boot, and each series with its value or why it has none.
fn rows(recording: &Path) -> BTreeMap<(String, String), Value> {
    let printed = run(&["export", recording.to_str().unwrap(), "--json"]);
    assert_eq!(code(&printed), 0, "{}", err(&printed));
    let mut rows = BTreeMap::new();
    for line in out(&printed).lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| row[key].as_str().unwrap_or_else(|| panic!("{row}")).to_owned();
        let before = rows.insert((text("node"), text("time")), json!([row["boot"], row["values"]]));
        assert!(before.is_none(), "a row comes twice: {line}");
    }
    rows
}

/// What a recording says about its series: names, units, help, where the kernel prints them.
fn described(recording: &Path) -> BTreeSet<String> {
    let recording = khz_record::Recording::of(&[recording.to_owned()]);
    let survey = khz_record::Survey::of(&recording).unwrap();
    survey.lanes.iter().flat_map(|lane| &lane.series).map(|series| format!("{series:?}")).collect()
}

#[test]
fn a_recording_out_of_the_store_is_what_was_recorded_live() {
    let (place, http, link) = (Place::new("record-past"), free_port(), free_port());
    let _hub = place.hub(&http, &link, place.0.join("store").to_str().unwrap());
    let _agents = ["n1", "n2"].map(|node| place.agent(node, &link));
    let (server, path) = (format!("http://{http}"), |name: &str| place.0.join(name));
    let ask = |words: &[&str]| ask(&server, words);
    until(PATIENCE, "rows of both nodes are stored", || {
        ["n1:load.1m", "n2:load.1m"].iter().all(|series| code(&ask(&["get", series, "--at", "now"])) == 0)
    });
    // Both are of all series: numbers, labels (host.uname), and what the kernel does not print.
    let live = path("live.khzt");
    let recorded = run(&[
        "record",
        "--rate",
        "10Hz",
        "--for",
        "3s",
        "-o",
        live.to_str().unwrap(),
        "--hub",
        &link,
        "--insecure",
    ]);
    assert_eq!(
        recorded.status.code().filter(|code| [0, 3].contains(code)),
        recorded.status.code(),
        "{}",
        err(&recorded)
    );
    let live_rows = rows(&live);
    assert!(live_rows.len() > 20, "{}", err(&recorded));
    let times: Vec<&str> = live_rows.keys().map(|(_, time)| time.as_str()).collect();
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    let past = path("past.khzt");
    // The last row is before the end: `--to` does not belong to the time.
    let end: u64 = last.replace('.', "").parse::<u64>().unwrap() + 1;
    let end = format!("{}.{:09}", end / 1_000_000_000, end % 1_000_000_000);
    let record = |words: &[&str]| {
        ask(&[&["record", "--from", first, "--to", &end, "-o", past.to_str().unwrap()], words].concat())
    };
    until(PATIENCE, "the store has every row that was recorded live", || {
        // A busy machine may have missed ticks: both say so.
        assert!([0, 3].contains(&code(&record(&[]))));
        let past_rows = rows(&past);
        live_rows.keys().all(|row| past_rows.contains_key(row))
    });
    let past_rows = rows(&past);
    for (row, values) in &live_rows {
        assert_eq!(past_rows.get(row), Some(values), "{row:?}");
    }
    assert!(
        live_rows.values().any(|row| row.to_string().contains("\"sysname\":\"Linux\"")),
        "there are labels"
    );
    assert_eq!(described(&past), described(&live));

    // Some series of one node; what is not there is named, and whatever reads recordings reads this one.
    let some = record(&["n1:load.*", "n2:nothing", "n9:*"]);
    assert_eq!(code(&some), 3, "{}", err(&some));
    for missing in ["n2:nothing", "n9:*"] {
        let sentence = format!("the store has nothing of {missing} ");
        assert!(err(&some).contains(&sentence), "{}", err(&some));
    }
    let nodes: BTreeSet<String> = rows(&past).into_keys().map(|(node, _)| node).collect();
    assert_eq!(nodes, BTreeSet::from(["n1".to_owned()]));
    let svg = path("load.svg");
    let drawn = run(&["plot", past.to_str().unwrap(), "-m", "load.1m", "-o", svg.to_str().unwrap()]);
    assert_eq!(code(&drawn), 0, "{}", err(&drawn));

    // Where there is nothing, no file is begun.
    let none = path("none.khzt");
    let nothing =
        ask(&["record", "--from", "1000000000", "--to", "1000000060", "-o", none.to_str().unwrap()]);
    assert_eq!((code(&nothing), none.exists()), (1, false), "{}", err(&nothing));
    let files = path("many.khzt");
    let rotated = ask(&["record", "--from", first, "--rotate", "4KiB", "-o", files.to_str().unwrap()]);
    assert!([0, 3].contains(&code(&rotated)), "{}", err(&rotated));
    assert!(place.0.join("many.0002.khzt").exists(), "{}", err(&rotated));
    for (words, problem) in [
        (&["--from", "-1h", "--rotate", "10m"][..], "--rotate takes a size"),
        (&["--from", "-1h", "--hub", "hub1"], "name that with --server"),
        (&["--to", "now"], "need --from"),
        (&["--from", "2100-01-01"], "--from is in the future: it is 2100-"),
        (&["--from", "-1h", "--to", "-2h"], "--from must be before --to: they are 20"),
    ] {
        let refused = run(&[&["record"], words].concat());
        assert_eq!(code(&refused), 2, "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(problem), "{words:?}: {}", err(&refused));
    }
}
