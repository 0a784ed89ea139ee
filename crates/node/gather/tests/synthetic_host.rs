//! The agent on made-up hosts below a root directory: very large ones, changing ones, and ones with damaged
//! files among good ones.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use futures_executor::block_on;
use khz_gather::{Agent, Plan, probe};
use khz_model::{Absence, Fault, Nanos, NodeName, Pattern, Query, Rate, Reading};
use khz_synthetic_host::{Host, Shape};

/// A host in a directory, removed when this is dropped.
struct OnDisk {
    host: Host,
    root: PathBuf,
}

impl OnDisk {
    fn new(name: &str, shape: Shape) -> Self {
        let root = std::env::temp_dir().join(format!("khz-synthetic-{name}-{}", std::process::id()));
        let on_disk = OnDisk { host: Host::new(shape, 2026), root };
        on_disk.host.write(&on_disk.root).unwrap();
        on_disk
    }

    /// An agent that gathers only on request, so that it reads no file while the test writes it; and at each request:
    /// below a CPU ceiling, a request after an interrupted gather gets what was read before the test's last write.
    fn agent(&self) -> Agent {
        let rate = "1h".parse().unwrap();
        let rate_max = Rate::from_period(Rate::PERIOD_MIN).unwrap();
        let plan = Plan::new(&self.root, NodeName::new("n1").unwrap());
        let cpu_max = f64::INFINITY;
        Agent::start(Plan { base_rate: rate, local_rate: rate, rate_max, cpu_max, ..plan }).unwrap()
    }

    fn advance(&mut self) {
        self.host.advance();
        self.host.write(&self.root).unwrap();
    }

    fn damage(&self, path: &str, change: impl Fn(String) -> String) {
        let text = self.host.file(path).unwrap().text();
        fs::write(self.root.join(path), change(text)).unwrap();
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// All requested readings, except khz's own numbers.
fn latest(query: &dyn Query, pattern: &str) -> HashMap<(String, Option<String>), Reading> {
    let pattern = [Pattern::new(pattern).unwrap()];
    let snapshot = block_on(query.latest(&pattern, Nanos(0))).unwrap();
    let samples = snapshot.nodes.into_iter().flat_map(|(_, samples)| samples);
    let series = samples.map(|sample| {
        let instance = sample.series.instance.as_ref().map(|instance| instance.name().to_owned());
        ((sample.series.metric.name.to_string(), instance), sample.reading)
    });
    series.filter(|((metric, _), _)| !metric.starts_with("khz.") && metric != "system.time").collect()
}

/// The files whose true values the agent shows wrongly or not at all.
fn wrong_files(on_disk: &OnDisk, found: &HashMap<(String, Option<String>), Reading>) -> Vec<&'static str> {
    let right = |truth: khz_synthetic_host::Truth| {
        found.get(&(truth.metric.to_owned(), truth.instance)) == Some(&Reading::Present(truth.value))
    };
    let files = on_disk.host.files().into_iter();
    files.filter(|file| !file.truth().into_iter().all(right)).map(|file| file.path()).collect()
}

#[test]
fn four_thousand_cpus_and_ten_thousand_interfaces_reach_the_reader_unchanged() {
    let shape = Shape { cpus: 4_096, interrupts: 5_000, interfaces: 10_000, disks: 200 };
    let mut on_disk = OnDisk::new("huge", shape);
    let agent = on_disk.agent();
    let query = agent.query();
    let mut series = 0;
    for round in 0..3 {
        let found = latest(&*query, "*");
        assert_eq!(wrong_files(&on_disk, &found), [""; 0], "round {round}");
        let truths: usize = on_disk.host.files().iter().map(|file| file.truth().len()).sum();
        let present = found.values().filter(|reading| reading.value().is_some()).count();
        assert_eq!(present, truths, "round {round}: a series has a value that the host does not have");
        series = series.max(found.len());
        on_disk.advance();
    }
    assert!(series > 200_000, "{series}");
    agent.stop();
}

#[test]
fn one_damaged_file_takes_nothing_along_and_recovers() {
    let shape = Shape { cpus: 8, interrupts: 50, interfaces: 10, disks: 6 };
    let mut on_disk = OnDisk::new("damaged", shape);
    let agent = on_disk.agent();
    let query = agent.query();
    let paths: Vec<_> = on_disk.host.files().iter().map(|file| file.path()).collect();
    for path in paths {
        for (damage, change) in DAMAGES {
            // A node without disks is correct, and a file of one number has no separators.
            let whole = on_disk.host.file(path).unwrap().text();
            if (path, damage) == ("proc/diskstats", "emptied")
                || damage == "garbled" && change(whole.clone()) == whole
            {
                continue;
            }
            on_disk.damage(path, change);
            let found = latest(&*query, "*");
            assert_eq!(wrong_files(&on_disk, &found), [path], "{path} {damage}");
            let failed = found.values().filter(|reading| matches!(reading, Reading::Failed(_))).count();
            assert!(failed > 0, "{path} {damage}: nothing failed");
            // The problem names the path and a line of it. A probe makes surveys itself, so it never sees a damaged one.
            if !path.starts_with("survey/") {
                let report = probe(&on_disk.root, &khz_gather::SurveySettings::default())
                    .into_iter()
                    .find(|report| report.path == path)
                    .unwrap();
                let problem = report.problem.unwrap_or_else(|| panic!("{path} {damage}: no problem"));
                assert!(problem.contains(path) && problem.contains("line "), "{path} {damage}: {problem}");
            }
            on_disk.advance();
            assert_eq!(wrong_files(&on_disk, &latest(&*query, "*")), [""; 0], "{path} after {damage}");
        }
    }
    agent.stop();
}

type Damage = (&'static str, fn(String) -> String);

const DAMAGES: [Damage; 5] = [
    ("emptied", |_| String::new()),
    ("cut off", |text| text[..text.len() * 2 / 3].to_owned()),
    ("binary", |text| text.bytes().map(|byte| char::from(byte.wrapping_mul(7) & 0x7F)).collect()),
    ("garbled", |text| text.replace([' ', ':', '=', '\t'], "?")),
    ("with numbers beyond 64 bits", |text| text.lines().map(beyond_64_bits).collect()),
];

/// Makes each number after a blank, a tab or `=` in the line too long.
fn beyond_64_bits(line: &str) -> String {
    let long = |word: &str| match word.strip_prefix(|c: char| c.is_ascii_digit()) {
        Some(rest) => format!("99999999999999999999{rest}"),
        None => word.to_owned(),
    };
    let words = line.split_inclusive([' ', '=', '\t']).map(long);
    words.chain(["\n".to_owned()]).collect()
}

#[test]
fn a_file_that_vanishes_is_absent_and_one_that_is_a_directory_failed() {
    let shape = Shape { cpus: 2, interrupts: 5, interfaces: 2, disks: 2 };
    let on_disk = OnDisk::new("vanished", shape);
    fs::remove_file(on_disk.root.join("proc/diskstats")).unwrap();
    fs::remove_file(on_disk.root.join("proc/loadavg")).unwrap();
    fs::create_dir(on_disk.root.join("proc/loadavg")).unwrap();
    let agent = on_disk.agent();
    let found = latest(&*agent.query(), "*");
    assert_eq!(wrong_files(&on_disk, &found), ["proc/loadavg", "proc/diskstats"]);
    assert_eq!(found[&("load.1m".to_owned(), None)], Reading::Failed(Fault::Unreadable));
    assert!(!found.keys().any(|(metric, _)| metric.starts_with("disk.")), "a disk that never existed");
    assert!(!found.values().any(|reading| *reading == Reading::Absent(Absence::NotYet)));
    agent.stop();
}
