//! Hostlists and misspelt names, at every command that takes nodes or patterns: against a hub with three nodes, a recording of
//! them, and this machine's own kernel.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::process::{Running, code, err, khz, out, run};

/// A hub, and three agents that report to it.
struct Site {
    hub: Running,
    link: String,
    _agents: Vec<Running>,
    folder: PathBuf,
}

impl Site {
    fn new(name: &str) -> Self {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let hub = Running::start_hub(&[]);
        let link = hub.link();
        let agents = ["node001", "node002", "login1"].map(|node| {
            let words = ["agent", "--node", node, "--hub", &link, "--base-rate", "10Hz", "--ring", "4MiB"];
            Running::of(hub.beside(&words))
        });
        let site = Site { hub, link, _agents: agents.into(), folder };
        let end = Instant::now() + Duration::from_secs(60);
        while code(&site.ask(&["get", "node[001-002],login1:load.1m"])) != 0 {
            assert!(Instant::now() < end, "the nodes never came");
            std::thread::sleep(Duration::from_millis(20));
        }
        site
    }

    fn ask(&self, words: &[&str]) -> std::process::Output {
        run(&[words, &["--server", &self.hub.url]].concat())
    }

    fn recording(&self) -> PathBuf {
        let path = self.folder.join("run.khzt");
        let words = ["record", "--hub", &self.link, "--rate", "10", "--for", "500ms", "-q", "-o"];
        let output = khz(&words).arg(&path).output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        path
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The words, the exit code, and stderr (each line, in order, without its `khz: `).
type Case<'a> = (&'a [&'a str], i32, &'a [&'a str]);

const NO_9: &str = "no node is called node009 (there are node[001-002])";
const NO_1: &str = "no node is called node1 (did you mean node001?)";
const NO_LOGIN: &str = "no node is called lgoin1 (did you mean login1?)";
const NO_FREE: &str = "nothing matches mem.fre (did you mean mem.free?)";
const NO_RACK: &str = "no node is called rack[1-70000]";
const NO_LO: &str = "nothing matches net.rx_bytes[l0] (did you mean net.rx_bytes[lo]?)";

/// The lines on stderr about what does not exist.
fn complaints(output: &std::process::Output) -> Vec<String> {
    let lines = err(output);
    let lines = lines.lines().filter_map(|line| line.strip_prefix("khz: ").or(Some(line)));
    lines.filter(|line| line.contains("no node ") || line.contains("nothing ")).map(str::to_owned).collect()
}

fn hold(output: &std::process::Output, (words, expected, lines): &Case<'_>) {
    assert_eq!(code(output), *expected, "{words:?}: {}", err(output));
    let message = complaints(output);
    assert_eq!(message.len(), lines.len(), "{words:?}: {}", err(output));
    for (line, expected) in message.iter().zip(*lines) {
        assert!(line.starts_with(expected), "{words:?}: {line}");
    }
}

#[test]
fn hostlists_work_and_what_does_not_exist_is_named_by_every_command_that_asks_a_hub() {
    let site = Site::new("hostlists");
    const ROWS: [&str; 4] = ["--rate", "10", "--count", "2"];
    let both = "node[001-002],login1:load.1m";
    let cases: &[Case<'_>] = &[
        (&["get", both], 0, &[]),
        (&["get", "login[1-1],node001,node002:mem.free", "--json"], 0, &[]),
        (&["get", "node[001-002],node009:load.1m"], 3, &[NO_9]),
        (&["get", "node1,login1:load.1m"], 3, &[NO_1]),
        (&["get", "lgoin1,login1:load.1m"], 3, &[NO_LOGIN]),
        (&["get", "mem.free", "mem.fre"], 3, &[NO_FREE]),
        (&["get", "mem.free", "net.rx_bytes[l0]"], 3, &[NO_LO]),
        (&["get", "mem.free", "node009:mem.fre"], 3, &[NO_9]),
        (&["get", "mem.fre"], 1, &[NO_FREE]),
        (&["get", "node009:mem.free"], 1, &[NO_9]),
        (&["get", "net.rx_bytes[l0]"], 1, &[NO_LO]),
        (&["get", "rack[1-70000],node001:load.1m"], 3, &[NO_RACK]),
        (&["get", "node001"], 1, &["nothing matches node001 (did you mean node001:*?)"]),
        (&["get", "zebra.*"], 1, &["nothing matches zebra.*"]),
        (&["nodes", "node[001-002],login1"], 0, &[]),
        (&["nodes", "node[001-002],node009"], 3, &[NO_9]),
        (&["nodes", "lgoin1"], 3, &[NO_LOGIN]),
        (&["nodes", "node*,login?"], 0, &[]),
        (&["nodes", "forget", "node009"], 2, &[]),
    ];
    for case in cases {
        hold(&site.ask(case.0), case);
    }
    let watched: &[Case<'_>] = &[
        (&["watch", both], 0, &[]),
        (&["watch", "node001,node009:load.1m"], 3, &[NO_9]),
        (&["watch", "mem.free", "mem.fre"], 3, &[NO_FREE]),
        (&["watch", "mem.free", "net.rx_bytes[l0]", "--json"], 3, &[NO_LO]),
        (&["watch", "mem.fre"], 1, &[NO_FREE]),
    ];
    for case in watched {
        hold(&site.ask(&[case.0, &ROWS].concat()), case);
    }
    let file = site.folder.join("some.khzt");
    let file = file.to_str().unwrap();
    let record: Vec<&str> = vec!["--hub", &site.link, "--rate", "10", "--for", "300ms", "-q", "-o", file];
    let recorded: &[Case<'_>] = &[
        (&["record", both], 0, &[]),
        (&["record", "node001,node009:load.1m"], 3, &[NO_9]),
        (&["record", "mem.free", "mem.fre"], 3, &[NO_FREE]),
        (&["record", "mem.free", "net.rx_bytes[l0]"], 3, &[NO_LO]),
        (&["record", "mem.fre"], 1, &[NO_FREE]),
        (&["record", "node009:load.1m"], 1, &[NO_9]),
        (&["record", "node001:load.1m", "rack[1-70000]:load.1m"], 3, &[NO_RACK]),
        (&["record", "node001:load.1m", "rack*:load.1m"], 3, &["no node is called rack*"]),
        (&["record", "node*:load.1m", "nod*:load.1m"], 0, &[]),
    ];
    for case in recorded {
        let _ = std::fs::remove_file(file);
        hold(&run(&[case.0, &record].concat()), case);
    }
}

#[test]
fn hostlists_work_and_what_does_not_exist_is_named_by_every_command_that_reads_a_recording() {
    let site = Site::new("recorded");
    let run_khzt = site.recording();
    let picture = site.folder.join("run.svg");
    let (file, picture) = (run_khzt.to_str().unwrap(), picture.to_str().unwrap());
    let export = ["export", file, "--match"];
    let plot = ["plot", file, "-o", picture, "--match"];
    let correlate =
        ["correlate", file, "--with", "node001:kernel.context_switches", "--lag", "100ms", "--match"];
    let no_free = "nothing in this recording matches mem.fre (did you mean mem.free?)";
    let no_lo = "nothing in this recording matches net.rx_bytes[l0] (did you mean net.rx_bytes[lo]?)";
    for command in [&export[..], &plot, &correlate] {
        for (patterns, expected, lines) in [
            (&["node[001-002],login1:mem.free"][..], 0, &[][..]),
            (&["node001,node009:mem.free"], 3, &[NO_9]),
            (&["node001:mem.free", "mem.fre"], 3, &[no_free]),
            (&["node001:mem.free", "net.rx_bytes[l0]"], 3, &[no_lo]),
            (&["mem.fre"], 1, &[no_free]),
            (&["node009:mem.free"], 1, &[NO_9]),
        ] {
            let more: Vec<&str> = patterns[1..].iter().flat_map(|pattern| ["--match", pattern]).collect();
            let words = [command, &patterns[..1], &more].concat();
            let output = run(&words);
            // Numbers that never change in half a second correlate with nothing.
            if command[0] == "correlate" && err(&output).contains("never changes") {
                continue;
            }
            hold(&output, &(&words, expected, lines));
        }
    }
    let with = run(&["correlate", file, "--with", "node001:mem.fre"]);
    hold(&with, &(&["correlate --with"], 1, &["nothing in this recording matches node001:mem.fre"]));
    let right = run(&["plot", file, "-o", picture, "-m", "mem.free", "--right", "mem.fre"]);
    hold(&right, &(&["plot --right"], 3, &[no_free]));
}

#[test]
fn what_this_machine_does_not_have_is_named_by_every_command_that_reads_it() {
    let cases: &[Case<'_>] = &[
        (&["get", "--direct", "mem.free", "mem.fre"], 3, &[NO_FREE]),
        (&["get", "--direct", "mem.free", "net.rx_bytes[l0]"], 3, &[NO_LO]),
        (&["get", "--direct", "mem.fre"], 1, &[NO_FREE]),
        (&["watch", "--direct", "mem.free", "mem.fre", "--count", "1"], 3, &[NO_FREE]),
        (&["watch", "--direct", "mem.fre"], 1, &[NO_FREE]),
        (&["catalog", "mem.free", "mem.fre"], 3, &[NO_FREE]),
        (&["catalog", "mem.fre"], 1, &[NO_FREE]),
        (&["catalog", "mem.*"], 0, &[]),
    ];
    for case in cases {
        hold(&run(case.0), case);
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-own", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("own.khzt");
    let record = |patterns: &[&str]| {
        let _ = std::fs::remove_file(&file);
        let words =
            ["record", "--direct", "--rate", "50", "--for", "200ms", "-q", "-o", file.to_str().unwrap()];
        run(&[&words, patterns].concat())
    };
    hold(&record(&["mem.free", "mem.fre"]), &(&["record"], 3, &[NO_FREE]));
    hold(&record(&["mem.fre"]), &(&["record"], 1, &[NO_FREE]));
    hold(&record(&["mem.free", "net.rx_bytes[l0]"]), &(&["record"], 3, &[NO_LO]));
    in_rings(&folder);
    std::fs::remove_dir_all(folder).unwrap();
}

/// The same of rings, while their agent runs.
fn in_rings(folder: &Path) {
    let rings = folder.join("rings");
    let rings = rings.to_str().unwrap();
    let running = Running::start(&["--ring-dir", rings, "--base-rate", "10Hz", "--ring", "4MiB"]);
    let end = Instant::now() + Duration::from_secs(60);
    let export = |patterns: &[&str]| run(&[&["ring", "export", "--dir", rings], patterns].concat());
    while out(&export(&["load.1m"])).lines().count() < 2 {
        assert!(Instant::now() < end, "no row ever came into the ring");
        std::thread::sleep(Duration::from_millis(20));
    }
    let no_free = "nothing in this ring matches mem.fre (did you mean mem.free?)";
    hold(&export(&["mem.free", "mem.fre"]), &(&["ring export"], 3, &[no_free]));
    hold(&export(&["mem.fre"]), &(&["ring export"], 1, &[no_free]));
    hold(&export(&["n1,n2:mem.free"]), &(&["ring export"], 3, &["no node is called n2"]));
    let file = folder.join("last.khzt");
    let words = ["record", "--last", "10s", "--dir", rings, "-q", "-o", file.to_str().unwrap()];
    hold(&run(&[&words[..], &["mem.free", "mem.fre"]].concat()), &(&["record --last"], 3, &[NO_FREE]));
    drop(running);
}
