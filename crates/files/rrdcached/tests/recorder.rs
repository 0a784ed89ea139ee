//! What the recorder writes, compared with what rrdtool makes of the same readings.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;

use std::path::Path;

use khz_rrdcached::Limits;
use khz_rrdcached::recorder::{Kind, Layout, Reading, Recorder, Settings, Value, path};
use oracle::{Oracle, Random};

const START: i64 = 1_700_000_100;

fn lines(oracle: &mut Oracle, command: &str) -> Vec<String> {
    let reply = oracle.run(command);
    assert_eq!(reply.error, None, "{command}");
    reply.output
}

/// A row for each second, and nothing is written before a flush.
fn each_second(dir: &Path) -> Settings {
    let mut settings = Settings::new(dir);
    settings.layout = Layout { step: 1, heartbeat: 10, archives: vec!["LAST:0.5:1:100".into()] };
    settings.limits = Limits { timeout: 3600, ..Limits::default() };
    settings
}

/// The second's number as a reading.
fn reading(second: i64) -> Reading<'static> {
    let time = (START + second) * 1_000_000;
    Reading { node: "n1", series: "load.1m", time, value: Value::Gauge(second as f64) }
}

/// What rrdtool finds of those up to `end`.
fn fetched(dir: &Path, end: i64) -> Vec<f64> {
    let command = format!("fetch n1/load.1m.rrd LAST -s {START} -e {end}");
    let fetched = lines(&mut Oracle::start(dir), &command);
    fetched.iter().filter_map(|line| line.split_once(": ")?.1.parse().ok()).collect()
}

#[test]
fn rrdtool_finds_in_a_recorded_file_what_it_would_have_written() {
    let dir = oracle::directory("recorder");
    let mut oracle = Oracle::start(&dir);
    let settings = Settings::new(&dir.join("recorded"));
    let recorder = Recorder::open(&settings).unwrap();
    let series = [("load.1m", Kind::Gauge), ("net.rx_bytes[eth0]", Kind::Counter)];
    let archives: String = settings.layout.archives.iter().map(|archive| format!(" RRA:{archive}")).collect();
    for (index, (_, kind)) in series.iter().enumerate() {
        let source = if *kind == Kind::Gauge { "GAUGE:600:U:U" } else { "DERIVE:600:0:U" };
        lines(
            &mut oracle,
            &format!("create {index}.rrd --start {} --step 300 DS:value:{source}{archives}", START - 1),
        );
    }
    let mut random = Random::new(oracle::first_seed());
    let (mut time, mut count) = (START * 1_000_000, 0u64);
    let mut last = time;
    for _ in 0..400 {
        // Counter resets, gaps, unknown values, stamps between seconds.
        count = if random.chance(2) { 0 } else { count + random.below(1_000_000) };
        let unknown = random.chance(3);
        let gauge = random.below(10_000) as f64 / 64.0;
        let values = if unknown {
            [Value::Unknown(Kind::Gauge), Value::Unknown(Kind::Counter)]
        } else {
            [Value::Gauge(gauge), Value::Counter(count)]
        };
        let readings: Vec<Reading<'_>> = series
            .iter()
            .zip(values)
            .map(|((series, _), value)| Reading { node: "n1", series, time, value })
            .collect();
        assert!(recorder.record(&readings).iter().all(Result::is_ok));
        let texts = if unknown { ["U".into(), "U".into()] } else { [gauge.to_string(), count.to_string()] };
        // After a gap the recorder says what is unknown.
        let (is_gap, known) = (time - last > 600_000_000, last % 300_000_000);
        let end = last - known + 300_000_000;
        for (index, text) in texts.iter().enumerate() {
            let mut update = |time: i64, text: &str| {
                let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
                lines(&mut oracle, &format!("update {index}.rrd {seconds}.{micros:06}:{text}"));
            };
            if is_gap && (1..1_000_000).contains(&known) {
                update(end - 1, "U");
            }
            if is_gap && known > 0 {
                update(end, "U");
            }
            let begun = (time - 1) / 1_000_000 * 1_000_000;
            if is_gap && series[index].1 == Kind::Gauge && (known == 0 || begun > end) {
                update(begun, "U");
            }
            update(time, text);
        }
        last = time;
        time += match random.below(20) {
            0 => 2_000_000_000,
            1 => 1 + random.below(5_000_000) as i64,
            _ => 60_000_000,
        };
    }
    let end = time / 1_000_000;
    for (index, (series, _)) in series.iter().enumerate() {
        recorder.flush("n1", series).unwrap();
        let recorded = path(&settings.directory, "n1", series);
        let recorded = recorded.strip_prefix(&dir).unwrap().to_str().unwrap();
        for function in ["AVERAGE", "MAX"] {
            for resolution in [300, 1800, 7200, 86_400] {
                let fetch =
                    |file: &str| format!("fetch {file} {function} -r {resolution} -s {START} -e {end}");
                assert_eq!(
                    lines(&mut oracle, &fetch(recorded)),
                    lines(&mut oracle, &fetch(&format!("{index}.rrd")))
                );
            }
        }
        // Everything except the row positions.
        let mut info = |file: &str| -> Vec<String> {
            let told = lines(&mut oracle, &format!("info {file}"));
            told.into_iter()
                .filter(|line| !line.contains("cur_row") && !line.starts_with("filename"))
                .collect()
        };
        assert_eq!(info(recorded), info(&format!("{index}.rrd")));
    }
}

#[test]
fn what_was_recorded_is_there_after_a_restart_without_having_been_written() {
    let dir = oracle::directory("recorder-restart");
    let settings = each_second(&dir);
    let recorder = Recorder::open(&settings).unwrap();
    for second in 0..10 {
        recorder.record(&[reading(second)]).remove(0).unwrap();
    }
    // Not newer than what was taken.
    assert!(recorder.record(&[reading(9)]).remove(0).is_err());
    drop(recorder);
    let recorder = Recorder::open(&settings).unwrap();
    recorder.record(&[reading(10)]).remove(0).unwrap();
    recorder.flush("n1", "load.1m").unwrap();
    assert_eq!(fetched(&dir, START + 9), (1..=10).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn names_from_outside_stay_inside() {
    let dir = oracle::directory("recorder-names");
    let inside = dir.join("inside");
    let recorder = Recorder::open(&Settings::new(&inside)).unwrap();
    let names = ["..", "../../x", "/etc/passwd", ".khz-log", "a b", ""];
    for (index, name) in names.iter().enumerate() {
        let reading = Reading {
            node: name,
            series: name,
            time: (START + index as i64) * 1_000_000,
            value: Value::Gauge(1.0),
        };
        recorder.record(&[reading]).remove(0).unwrap();
        assert!(path(&inside, name, name).exists());
    }
    let outside: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside, ["inside"]);
    assert_eq!(std::fs::read_dir(&inside).unwrap().count(), 1 + names.len());
}

#[test]
fn a_file_somebody_deleted_is_made_again_with_all_that_waits_for_it() {
    let dir = oracle::directory("recorder-deleted");
    let settings = each_second(&dir);
    let recorder = Recorder::open(&settings).unwrap();
    recorder.record(&[reading(0)]).remove(0).unwrap();
    recorder.flush("n1", "load.1m").unwrap();
    let file = path(&settings.directory, "n1", "load.1m");
    std::fs::remove_file(&file).unwrap();
    for second in 1..5 {
        recorder.record(&[reading(second)]).remove(0).unwrap();
    }
    assert!(recorder.flush("n1", "load.1m").is_err());
    // The recorder notices it within a second or two, and makes it for the next reading.
    let started = std::time::Instant::now();
    while !file.exists() {
        assert!(started.elapsed() < std::time::Duration::from_secs(60), "it is not made again");
        let _ = recorder.record(&[reading(5)]);
        std::thread::yield_now();
    }
    recorder.flush("n1", "load.1m").unwrap();
    assert_eq!(fetched(&dir, START + 4), [1.0, 2.0, 3.0, 4.0, 5.0]);
}

/// A gap of 35 seconds, and what a file has from then on: `None` is unknown.
fn beside_a_gap(step: i64, offset: i64, restarts: bool, value: Value) -> Vec<Option<f64>> {
    let dir = oracle::directory("gap");
    let mut settings = Settings::new(&dir);
    settings.layout =
        Layout { step: step as u64, heartbeat: 2 * step as u64, archives: vec!["AVERAGE:0.5:1:200".into()] };
    let start = START - START % 20;
    let mut recorder = Recorder::open(&settings).unwrap();
    let times = (0..160).step_by(step as usize).filter(|at| !(40..75).contains(at));
    for (count, at) in times.enumerate() {
        if at == 80 && restarts {
            drop(recorder);
            recorder = Recorder::open(&settings).unwrap();
            // It has read what the one before has left.
            recorder.flush("n1", "load.1m").unwrap();
        }
        // Rows come a little early and late.
        let time = (start + at) * 1_000_000 + offset + [0, 15][count % 2];
        let value = match value {
            Value::Counter(_) => Value::Counter(at as u64 * 1_000),
            other => other,
        };
        let taken = recorder.record(&[Reading { node: "n1", series: "load.1m", time, value }]);
        assert!(taken[0].is_ok(), "{taken:?}");
    }
    recorder.flush("n1", "load.1m").unwrap();
    let fetch = format!("fetch n1/load.1m.rrd AVERAGE -s {} -e {}", start + 20, start + 140);
    let fetched = lines(&mut Oracle::start(&dir), &fetch);
    let value = |line: &String| {
        line.split_once(": ")?.1.parse::<f64>().ok().map(|value| (!value.is_nan()).then_some(value))
    };
    fetched.iter().filter_map(value).collect()
}

#[test]
fn beside_a_gap_values_are_right_or_unknown() {
    for (step, offset, restarts) in [
        (10, 60, false),
        (10, 60, true),
        (1, 60, false),
        (2, 60, false),
        (10, 7_000_060, false),
        (10, 0, false),
        (20, 999_990, false),
    ] {
        for value in [Value::Gauge(1_000.0), Value::Counter(0)] {
            // Before its second reading a counter is unknown, which rrdtool counts in whole seconds.
            if value == Value::Counter(0) && offset % 1_000_000 > 1_000 {
                continue;
            }
            let shown = beside_a_gap(step, offset, restarts, value);
            let unknown = shown.iter().filter(|value| value.is_none()).count() as i64 * step;
            let is_right = |value: &f64| (990.0..1_010.0).contains(value);
            assert!(shown.iter().flatten().all(is_right), "{step} {offset} {restarts} {value:?}: {shown:?}");
            assert!(
                (20..=75).contains(&unknown),
                "{step} {offset} {value:?}: {unknown} s are unknown: {shown:?}"
            );
        }
    }
}
