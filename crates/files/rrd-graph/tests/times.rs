//! Start and end in rrdtool's at-style, where clocks change: the same moments as rrdtool's, in several time zones.

use std::process::Command;

/// Zones that change their clocks on different days, one by half an hour, one never.
const ZONES: [&str; 6] =
    ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata"];

/// Starts and ends; the days are near to changes of clocks.
const TIMES: [(&str, &str); 16] = [
    ("12:00 11/04/2023", "start+1d"),
    ("12:00 11/04/2023", "start+2d"),
    ("12:00 11/04/2023", "s+50h"),
    ("noon 20230311", "start+1month"),
    ("noon 20230311 +2d", "start+1w"),
    ("noon 20230311 +2d", "start+1d1h"),
    ("end-2d", "1699290000"),
    ("end-1w", "1699290000"),
    ("e-1month", "1680200000"),
    ("e-1y3d", "1680200000"),
    ("1699113600+2d", "1699990000"),
    ("1698500000+1d-1h", "1699990000"),
    ("1698500000+1month", "1709990000"),
    ("1679000000", "start+2weeks"),
    ("1680900000", "start+1d"),
    ("midnight 20231028", "start+1d"),
];

fn said(program: &str, zone: &str, (start, end): (&str, &str)) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(["graphv", "-", "-s", start, "-e", end, "-w", "20", "-h", "20", "LINE:5"]).env("TZ", zone);
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let all = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let is_time = |line: &&str| line.starts_with("graph_start") || line.starts_with("graph_end");
    all.lines().filter(|line| is_time(line) || line.starts_with("ERROR")).map(str::to_owned).collect()
}

#[test]
fn moments_are_rrdtools_where_clocks_change() {
    for zone in ZONES {
        for times in TIMES {
            let ours = said(env!("CARGO_BIN_EXE_khz-rrd-graph"), zone, times);
            assert_eq!(ours, said("rrdtool", zone, times), "{zone}: {times:?}");
            assert_eq!(ours.len(), 2, "{zone}: {times:?}: {ours:?}");
        }
    }
}
