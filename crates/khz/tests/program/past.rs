//! What a hub has stored, asked by the commands that read the past.

use std::path::PathBuf;
use std::time::Duration;

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
            ["agent", "--node", node, "--hub", hub, "--base-rate", "10Hz", "--sources", "loadavg,stat"];
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
    assert!(err(&partly).contains("nothing of n2:load.1m in the day before"), "{}", err(&partly));
    let nothing = ask(&["get", "n1:load.1m", "--at", "1000000000"]);
    assert_eq!((code(&nothing), out(&nothing)), (1, String::new()));
    let wrong = ask(&["get", "n1:load.1m", "--at", "yesterday"]);
    assert_eq!(code(&wrong), 2);
    assert!(err(&wrong).contains("'yesterday' is no time: write 2026-"), "{}", err(&wrong));

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
    let nobody = run(&["export"]);
    assert_eq!(code(&nobody), 2, "{}", err(&nobody));
}
