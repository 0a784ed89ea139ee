//! A hub that records into .rrd files, and is killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{Running, code, err, khz, out, run, until};
use crate::text::free_port;

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);
const SERIES: [&str; 2] = ["load.1m", "mem.free"];
const ARCHIVE: &str = "LAST:0.5:1:3600";

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Place(path)
    }

    fn file(&self, series: &str) -> String {
        self.0.join(format!("rrd/n1/{series}.rrd")).to_str().unwrap().to_owned()
    }

    /// A hub that records here a row a second.
    fn hub(&self, link: &str) -> Running {
        let (rrd, series) = (self.0.join("rrd"), SERIES.join(","));
        let layout = format!("1,{ARCHIVE}");
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub"];
        let record = ["--rrd", rrd.to_str().unwrap(), "--rrd-match", &series, "--rrd-layout", &layout];
        let mut command = khz(&[&words[..], &record, &["--store", "none"]].concat());
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }

    fn agent(&self, hub: &str) -> Running {
        let mut command = khz(&["agent", "--node", "n1", "--hub", hub, "--sources", "loadavg,meminfo"]);
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }

    /// The second of the newest sample in a file.
    fn last(&self, series: &str) -> Option<u64> {
        let last = run(&["rrd", "last", &self.file(series)]);
        (code(&last) == 0).then(|| out(&last).trim().parse().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Samples that were acknowledged, of each series: their seconds, and what rrdtool would be given.
#[derive(Default)]
struct Acknowledged(BTreeMap<&'static str, BTreeMap<String, String>>);

impl Acknowledged {
    /// Adds what the recorder's log has: a sample is there before it is acknowledged. The log is read by hand, so that no
    /// error of its reader hides one of its writer. Records: length, checksum, kind, length of the name, name, content.
    fn read(&mut self, place: &Place) {
        let log = place.0.join("rrd/.khz-log");
        for entry in std::fs::read_dir(log).into_iter().flatten().flatten() {
            // A segment that is no longer needed may go meanwhile.
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let mut rest = bytes.as_slice();
            while let Some((record, after)) = next(rest) {
                rest = after;
                let Some((&0, named)) = record.split_first() else { continue };
                let (length, named) = named.split_first_chunk::<2>().unwrap();
                let (name, samples) = named.split_at(usize::from(u16::from_le_bytes(*length)));
                let name = Path::new(std::str::from_utf8(name).unwrap()).file_stem().unwrap();
                let series = SERIES.into_iter().find(|series| name == *series).unwrap();
                for sample in std::str::from_utf8(samples).unwrap().split(' ') {
                    let (time, _) = sample.split_once(':').unwrap();
                    self.0.entry(series).or_default().insert(time.to_owned(), sample.to_owned());
                }
            }
        }
    }

    /// How many there are of the series that has the fewest.
    fn count(&self) -> usize {
        SERIES.iter().map(|series| self.0.get(series).map_or(0, BTreeMap::len)).min().unwrap_or(0)
    }
}

/// A whole record without its length and checksum, and what follows it.
fn next(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, _) = bytes.split_first_chunk::<4>()?;
    let (record, after) = bytes.get(8..)?.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    (!record.is_empty()).then_some((record, after))
}

/// Whether a line of `rrd fetch` has a number: not a heading, and not unknown.
fn is_known(line: &str) -> bool {
    let value = line.split_once(": ").and_then(|(_, value)| value.trim().parse::<f64>().ok());
    value.is_some_and(f64::is_finite)
}

/// The times between samples that are further apart than two rows. On a busy machine a segment of the log may have come and gone
/// between two looks: the file then has samples that nobody knows of here.
fn gaps(samples: &[&str]) -> Vec<(f64, f64)> {
    let times: Vec<f64> =
        samples.iter().map(|sample| sample.split(':').next().unwrap().parse().unwrap()).collect();
    times.windows(2).map(|two| (two[0], two[1])).filter(|(from, to)| to - from > 1.5).collect()
}

/// Whether the second of a line of `rrd fetch`, which ends at its time, lies in one of them.
fn is_in(line: &str, gaps: &[(f64, f64)]) -> bool {
    let Some(end) = line.split_once(": ").and_then(|(time, _)| time.parse::<f64>().ok()) else {
        return false;
    };
    gaps.iter().any(|(from, to)| *from < end && end - 1.0 < *to)
}

fn done(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(code(&output), 0, "{words:?}: {}", err(&output));
    out(&output)
}

/// A recorder that is killed loses no sample that it had acknowledged, applies none twice, and leaves files that are whole:
/// they are those that come of the acknowledged samples alone.
#[test]
fn whenever_the_hub_is_killed_its_files_have_every_acknowledged_sample_once() {
    let (place, link) = (Place::new("recorder"), free_port());
    let mut acknowledged = Acknowledged::default();
    let mut hub = place.hub(&link);
    let _agent = place.agent(&link);
    for life in 0..4 {
        let (before, written) = (acknowledged.count(), place.last(SERIES[0]));
        until(PATIENCE, "samples are acknowledged", || {
            acknowledged.read(&place);
            acknowledged.count() > before + 1
        });
        // In some lives nothing but the log is written; in others the hub is killed when it has begun to write the files.
        until(PATIENCE, "a file is written", || {
            acknowledged.read(&place);
            life % 2 == 0 || place.last(SERIES[0]) > written
        });
        hub.end("KILL");
        acknowledged.read(&place);
        hub = place.hub(&link);
    }
    let before = acknowledged.count();
    until(PATIENCE, "samples are acknowledged after the last kill", || {
        acknowledged.read(&place);
        acknowledged.count() > before + 1
    });
    let newest = |samples: &BTreeMap<String, String>| -> u64 {
        samples.keys().last().unwrap().split('.').next().unwrap().parse().unwrap()
    };
    let wanted: Vec<(&str, u64)> =
        acknowledged.0.iter().map(|(series, samples)| (*series, newest(samples))).collect();
    until(PATIENCE, "they are in the files", || {
        wanted.iter().all(|(series, newest)| place.last(series) >= Some(*newest))
    });
    assert_eq!(hub.end("TERM").0, Some(0));

    // What came later may be in a file and no longer in the log: it is left out.
    for (series, last) in wanted {
        let samples = &acknowledged.0[series];
        let of = |time: &str| time.split('.').next().unwrap().parse::<u64>().unwrap();
        let samples: Vec<&str> = samples.values().map(String::as_str).collect();
        let first = of(samples[0].split(':').next().unwrap());
        let (judge, start) = (place.0.join("judge.rrd"), (first - 1).to_string());
        let judge = judge.to_str().unwrap();
        let shape = ["--start", &start, "--step", "1", "DS:value:GAUGE:2:U:U", &format!("RRA:{ARCHIVE}")];
        done(&[&["rrd", "create", judge][..], &shape].concat());
        done(&[&["rrd", "update", judge][..], &samples].concat());
        let end = (last - 1).to_string();
        let gaps = gaps(&samples);
        let values = |file: &str| -> Vec<String> {
            let text = done(&["rrd", "fetch", file, "LAST", "-s", &start, "-e", &end]);
            text.lines().filter(|line| !is_in(line, &gaps)).map(str::to_owned).collect()
        };
        let recorded = values(&place.file(series));
        assert_eq!(recorded, values(judge), "{series}");
        assert!(recorded.iter().filter(|line| is_known(line)).count() > 4, "{series}: {recorded:?}");
    }
}
