//! A store of which only summaries are left, and one with a damaged hour, asked by the commands that read the past.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Metric, Nanos, NodeName, Series, Stamp};
use khz_store::{ColumnFile, NodeRows, roll_up, write_rows};

use crate::process::{Running, code, err, khz, out, run};
use crate::text::free_port;

const SECOND: u64 = 1_000_000_000;
/// 2025-11-01T12:00:00Z
const BEGIN: u64 = 1_761_998_400 * SECOND;

struct Place(PathBuf);

impl Place {
    /// A store with a row each second of the hours from 12 to 15; the rows of these hours are left.
    fn new(name: &str, left: std::ops::Range<u64>) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let place = Place(path);
        for tier in ["raw", "minute", "hour", "log"] {
            fs::create_dir_all(place.store().join(tier)).unwrap();
        }
        let load = Metric { places: 2, ..Metric::plain("load.1m", "node_load1", Kind::Gauge, Unit::Count) };
        let columns = Arc::new(vec![Series { metric: Arc::new(load), instance: None }]);
        let hours: Vec<PathBuf> = (12..15).map(|hour| place.hour(hour)).collect();
        for (hour, path) in (0..).zip(&hours) {
            let mut rows = NodeRows::new();
            rows.columns(&(columns.clone() as Arc<_>)).unwrap();
            for second in hour * 3_600..(hour + 1) * 3_600 {
                let at = BEGIN + second * SECOND + 5;
                let stamp = Stamp { boot: Nanos(at - BEGIN), real_offset: BEGIN.cast_signed() };
                rows.row(stamp, &[0], &[second % 100]).unwrap();
            }
            write_rows(path, vec![(NodeName::new("n1").unwrap(), rows)]).unwrap();
        }
        let layouts = Arc::default();
        let open = |path: &PathBuf| ColumnFile::open(path, &layouts).unwrap();
        let day = place.store().join("minute/2025-11-01.0.col");
        roll_up(&day, &hours.iter().map(open).collect::<Vec<_>>(), Nanos(60 * SECOND)).unwrap();
        let month = place.store().join("hour/2025-11.0.col");
        roll_up(&month, &[open(&day)], Nanos(3_600 * SECOND)).unwrap();
        for (hour, path) in (12..).zip(&hours).filter(|(hour, _)| !left.contains(hour)) {
            fs::remove_file(path).unwrap_or_else(|error| panic!("{hour}: {error}"));
        }
        place
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    fn hour(&self, hour: u64) -> PathBuf {
        self.store().join(format!("raw/2025-11-01T{hour}.0.col"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const ONLY: &str = "in that time: only summaries are left of it, which `khz plot` draws\n";

#[test]
fn a_command_that_wants_rows_says_that_only_summaries_are_left_and_prints_nothing() {
    let place = Place::new("summaries", 14..15);
    let (store, http) = (place.store(), free_port());
    let file = place.0.join("some.khzt");
    let time = ["--from", "2025-11-01T12:10:00Z", "--to", "2025-11-01T12:50:00Z"];
    let exported = run(&[&["store", "export", text(&store), "-o", text(&file)], &time[..]].concat());
    assert_eq!(code(&exported), 1);
    assert!(err(&exported).ends_with(ONLY), "{}", err(&exported));
    let words = ["hub", "--listen", &http, "--link-listen", "127.0.0.1:0", "--node", "hub", "--store"];
    let mut command = khz(&[&words[..], &[text(&store)]].concat());
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    let _hub = Running::of(command);
    let server = format!("http://{http}");
    let ask = |words: &[&str]| run(&[words, &time, &["--server", &server]].concat());
    let (csv, trace) = (place.0.join("none.csv"), place.0.join("none.khzt"));
    for words in [
        &["export", "-m", "n1:load.1m"][..],
        &["export", "-m", "n1:load.1m", "--json"],
        &["export", "-m", "n1:load.1m", "-o", text(&csv)],
        &["record", "n1:load.1m", "-o", text(&trace)],
        &["watch", "n1:load.1m", "--speed", "0"],
    ] {
        let asked = ask(words);
        assert_eq!((code(&asked), out(&asked)), (1, String::new()), "{words:?}: {}", err(&asked));
        assert!(
            err(&asked).ends_with(&format!("nothing of n1:load.1m {ONLY}")),
            "{words:?}: {}",
            err(&asked)
        );
    }
    assert!(!csv.exists() && !trace.exists());
    let drawn = ask(&["plot", "-m", "n1:load.1m", "-o", text(&place.0.join("load.svg"))]);
    assert_eq!(code(&drawn), 0, "{}", err(&drawn));
    let late = ["--from", "2025-11-01T14:10:00Z", "--to", "2025-11-01T14:10:10Z", "--server", &server];
    let rows = run(&[&["export", "-m", "n1:load.1m"], &late[..]].concat());
    assert_eq!((code(&rows), out(&rows).lines().count()), (0, 11), "{}", err(&rows));
}

#[test]
fn a_query_without_a_result_says_which_name_nobody_has_or_from_when_to_when_there_is_something() {
    let place = Place::new("no-result", 14..15);
    let store = place.store();
    let ask = |words: &[&str]| run(&[&["query"], words, &["--store", text(&store)]].concat());
    let summary = ask(&["node_load1", "--at", "2025-11-01T12:30:00Z"]);
    assert_eq!(code(&summary), 0, "{}", err(&summary));
    assert!(out(&summary).contains("node_load1{instance=\"n1\""), "{} {}", out(&summary), err(&summary));
    let unknown = ask(&["sum(nde_load1) + sum({\"load.1n\"})", "--at", "2025-11-01T12:30:00Z"]);
    assert_eq!((code(&unknown), out(&unknown)), (0, String::new()));
    for (name, near) in [("nde_load1", "node_load1"), ("load.1n", "load.1m")] {
        let sentence =
            format!("no metric is called {name} in {} (did you mean '{near}'?)\n", store.display());
        assert!(err(&unknown).contains(&sentence), "{}", err(&unknown));
    }
    assert!(!err(&unknown).contains("--at"), "{}", err(&unknown));
    let early = ask(&["node_load1", "--at", "2025-10-30T12:30:00Z"]);
    assert!(!err(&early).contains("--at"), "{}", err(&early));
    assert!(err(&early).contains("is from 2025-11-01 12:00:00"), "{}", err(&early));
    let within = ask(&["node_load1 > 1000", "--at", "2025-11-01T14:30:00Z"]);
    assert_eq!(err(&within), "khz: no series has a sample at that time\n");
    let now = ask(&["node_load1"]);
    assert!(err(&now).contains(": --at asks at another moment"), "{}", err(&now));
}

#[test]
fn a_query_over_a_damaged_hour_is_answered_out_of_summaries_and_ends_partly() {
    let place = Place::new("damaged-hour", 12..15);
    let (store, hour) = (place.store(), place.hour(13));
    let ask = |query: &str| {
        run(&["query", query, "--json", "--at", "2025-11-01T13:30:00.5Z", "--store", text(&store)])
    };
    let count = "count_over_time(node_load1[10m])";
    let whole = ask(count);
    assert_eq!(code(&whole), 0, "{}", err(&whole));
    let bytes = fs::read(&hour).unwrap();
    fs::write(&hour, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = ask(count);
    assert_eq!(code(&damaged), 3, "{}", err(&damaged));
    assert!(err(&damaged).contains("2025-11-01T13.0.col"), "{}", err(&damaged));
    let value = |output| {
        let line: serde_json::Value = serde_json::from_str(&out(output)).unwrap();
        line["value"].as_str().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(value(&whole), 600.0);
    assert!((value(&damaged) - 600.0).abs() < 61.0, "of whole minutes: {}", value(&damaged));
    assert_eq!(code(&ask("vector(1)")), 0, "nothing of the store was wanted");
}
