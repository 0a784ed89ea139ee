//! Files of numbers (`*.prom`): `/metrics` has of node_exporter's own fixtures what node_exporter expects of itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use khz_parse::exposition::{Kind, families};

use crate::exposition::get_at;
use crate::process::{Running, until};

const MODULE: &str = "github.com/prometheus/node_exporter@v1.12.1";

/// Folders where khz does something else, and why.
const EXCEPTIONS: [(&str, &str); 2] = [
    ("nonexistent_path", "without a folder there is no source, and so no error of it"),
    ("metrics_merge_different_help", "khz takes both files: what differs is the help only"),
];

/// What a khz has beside these files.
const OTHERS: [&str; 4] = ["khz_", "node_load", "node_time_seconds", "process_"];

/// The times of files: their paths and times are not those of the fixtures.
const TIMES: &str = "node_textfile_mtime_seconds";

/// Kind and value of each series, as texts: NaN is NaN.
type Found = BTreeMap<(String, Vec<(String, String)>), (Kind, String)>;

/// The numbers of files in a text, and the number of files. An empty label is none.
fn numbers(text: &str) -> (Found, usize) {
    let (mut found, mut files) = (Found::new(), 0);
    for family in families(text).unwrap() {
        if OTHERS.iter().any(|begin| family.name.starts_with(begin)) {
            continue;
        }
        if family.name == TIMES {
            files = family.samples.len();
            continue;
        }
        for sample in &family.samples {
            let labels = sample.labels.iter().filter(|(_, value)| !value.is_empty());
            let mut labels: Vec<_> =
                labels.map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
            labels.sort();
            found.insert((family.name.to_owned(), labels), (family.kind, sample.value.to_string()));
        }
    }
    (found, files)
}

/// What a khz that reads nothing else has of this folder.
fn read(folder: &Path) -> String {
    let config =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("text-files-{}.toml", std::process::id()));
    fs::write(&config, format!("[sources.textfile]\npath = {folder:?}\n")).unwrap();
    let running = Running::start(&["--config", config.to_str().unwrap(), "--sources", "loadavg,textfile"]);
    let mut text = String::new();
    until(Duration::from_secs(30), "the files are read", || {
        text = get_at(&running, "/metrics");
        text.contains("\nnode_textfile_scrape_error ")
    });
    running.end("TERM");
    let _ = fs::remove_file(&config);
    text
}

#[test]
fn text_files_give_the_numbers_that_node_exporter_expects_of_itself() {
    let module = match khz_judges::module(MODULE) {
        Ok(module) => module,
        Err(lacking) => return khz_skip::skip(format!("node_exporter's fixtures: {lacking}")),
    };
    let fixtures = module.join("collector/fixtures/textfile");
    let mut folders: Vec<String> = fs::read_dir(&fixtures)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".out")?.to_owned()))
        .collect();
    folders.sort();
    let (mut compared, mut wrong) = (0, Vec::new());
    for name in folders.iter().filter(|name| !EXCEPTIONS.iter().any(|(other, _)| other == name)) {
        let folder = fixtures.join(name);
        if !folder.is_dir() {
            // node_exporter reads several folders by a pattern; khz reads one.
            continue;
        }
        let mut expected = numbers(&fs::read_to_string(fixtures.join(format!("{name}.out"))).unwrap());
        let found = numbers(&read(&folder));
        // node_exporter makes up sum and count, 0, of a summary that has none.
        let is_made_up =
            |name: &str, value: &str| (name.ends_with("_sum") || name.ends_with("_count")) && value == "0";
        expected.0.retain(|key, (_, value)| found.0.contains_key(key) || !is_made_up(&key.0, value));
        compared += expected.0.len();
        if found != expected {
            wrong.push(format!("{name}: expected {expected:?}\nfound {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 60, "only {compared} numbers were compared");
}
