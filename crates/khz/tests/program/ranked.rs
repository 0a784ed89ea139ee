//! A ranked source: as many slots as ranks, whose labels say which process is in each. No source of khz's own is ranked
//! yet, so this one is made up; its readings go through a gatherer, its rings, a recording, a hub and the doors.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use khz_gather::{Agent, Plan, RingSize, SourcePlan};
use khz_model::{ByteSize, Fault, Labels, NodeName, Rate, Unit};
use khz_parse::entry::{gauge, info};
use khz_parse::{Entry, Group, KernelFile, Pieces, Sink};
use serde_json::Value;

use crate::exposition::{get_at, promtool_is_content_with};
use crate::process::{Running, code, err, khz, out, until};

static TOP: KernelFile = KernelFile {
    name: "top",
    path: "proc/top",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: &[],
    groups: &[Group { label: "rank", entries: ENTRIES, ..Group::PLAIN }],
    parse,
};

static ENTRIES: &[Entry] = &[
    gauge("top.cpu", "third word", Unit::Percent, "Share of a CPU that the process takes.")
        .places(1)
        .described_by("top.process")
        .exposed("khz_top_cpu_percent", &[]),
    info("top.process", "first and second word", "khz_top_process_info", "The process of this rank."),
];

/// Lines of a process, its command and its share: `17 gcc 90.5`, the busiest first.
fn parse(sink: &mut Sink<'_>) {
    let (text, mut rank) = (sink.text(), 0);
    sink.lines(|sink, line| {
        rank += 1;
        let Some(slots) = sink.instance(0, rank.to_string().as_bytes()) else { return };
        let words: Vec<_> = khz_parse::text::words(text, line).collect();
        let [pid, command, share] = &words[..] else {
            return sink.fail_field(slots, 0, Fault::Malformed, "not three words");
        };
        let word =
            |range: &std::ops::Range<usize>| String::from_utf8_lossy(&text[range.clone()]).into_owned();
        let labels = Labels::new([("pid", &*word(pid)), ("command", &*word(command))]);
        sink.field(slots, 0, share.clone());
        sink.describe_field(slots, 1, labels.unwrap());
    });
}

/// The process that plays the recording; killed when the test is over.
struct Player(Child);

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host with such a file, and a directory for rings.
fn host() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ranked-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("proc")).unwrap();
    root
}

/// Writes the text over the old one, which is as long: so the agent reads none that is cut off.
fn write(root: &Path, text: &str) {
    let file = File::options().create(true).truncate(false).write(true).open(root.join("proc/top")).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
    assert_eq!(file.metadata().unwrap().len(), text.len() as u64);
}

/// Gathers the text until some rows have it.
fn gather(root: &Path, agent: &Agent, text: &str) {
    write(root, text);
    let rows = || agent.query().status()[0].lanes[0].rows;
    let before = rows();
    until(Duration::from_secs(60), "rows of this text", || rows() > before + 5);
}

/// The exported rows' readings of the first rank, each once: its share and its labels.
fn first_ranks(json: &str) -> Vec<(String, String)> {
    let rows = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut found: Vec<(String, String)> = rows
        .map(|row| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let values = &row["values"];
            (text(&values["top.cpu[1]"]), text(&values["top.process[1]"]["info"]["pid"]))
        })
        .collect();
    // The first rows may be older than the file's first text.
    found.retain(|(share, pid)| !share.is_empty() && !pid.is_empty());
    found.dedup();
    found
}

#[test]
fn a_ranked_series_shows_its_process_from_the_source_to_every_reader() {
    let root = host();
    let rings = root.join("rings");
    let plan = Plan {
        sources: vec![SourcePlan { file: &TOP, rate: None, budget: Some(1.0) }],
        base_rate: Rate::from_hz(50).unwrap(),
        local_rate: Rate::from_hz(50).unwrap(),
        ring: RingSize::Bytes(ByteSize(4 << 20)),
        ring_folder: Some(rings.clone()),
        keep_rings: true,
        ..Plan::new(&root, NodeName::new("n1").unwrap())
    };
    write(&root, "17 gcc 90.5\n23 ld 10.0\n");
    let agent = Agent::start(plan).unwrap();
    let slots = || agent.query().status()[0].lanes[0].slots;
    gather(&root, &agent, "17 gcc 90.5\n23 ld 10.0\n");
    let known = slots();
    gather(&root, &agent, "23 ld 70.0\n31 gas 60.5\n");
    assert_eq!(slots(), known, "another process in a rank is no new slot");
    agent.stop();

    // The ring, and the same rows as a recording.
    let rings = rings.to_str().unwrap();
    let recording = root.join("top.khzt");
    let recording = recording.to_str().unwrap();
    let export = |more: &[&str]| {
        let output = khz(&[&["ring", "export", "--dir", rings], more].concat()).output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output)
    };
    let processes = [("90.5", "17"), ("70.0", "23")].map(|(share, pid)| (share.to_owned(), pid.to_owned()));
    assert_eq!(first_ranks(&export(&["top.*", "--json"])), processes);
    export(&["--trace", "-o", recording]);
    let output = khz(&["export", recording, "--json", "-m", "top.*"]).output().unwrap();
    assert_eq!(first_ranks(&out(&output)), processes, "{}", err(&output));

    // A node that plays it, at a hub.
    let hub = Running::start_hub(&[]);
    let play =
        ["simulate", "--nodes", "1", "--rate", "10Hz", "--workload", recording, "--prefix", "sim", "--hub"];
    let mut play = hub.beside(&[&play[..], &[&hub.link()]].concat());
    let node = Player(play.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let shown = || get_at(&hub, "/metrics?nodes=sim*");
    let described = "khz_top_cpu_percent{instance=\"sim1\",job=\"node\",rank=\"1\",command=\"";
    until(Duration::from_secs(60), "the node shows a process", || shown().contains(described));
    let text = shown();
    let line = text.lines().find(|line| line.starts_with(described)).unwrap();
    let is_process = |labels: &str| line.contains(labels);
    assert!(
        is_process("command=\"gcc\",pid=\"17\"} 90.5") || is_process("command=\"ld\",pid=\"23\"} 70"),
        "{line}"
    );
    promtool_is_content_with(&text);
    let get = hub.beside(&["get", "sim1:top.*[1]", "--server", &hub.url]).output().unwrap();
    assert!(out(&get).contains("\ntop.process[1]\n  command"), "{}{}", out(&get), err(&get));
    drop(node);
    std::fs::remove_dir_all(root).unwrap();
}
