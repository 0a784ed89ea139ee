//! `valstrfduration` in all its formats: what rrdtool prints.

use std::path::Path;
use std::process::Command;

const VALUES: [&str; 10] =
    ["0", "1", "999", "1000", "61001", "90061001", "700000000", "-5000", "5.7", "1e12"];

const FORMATS: [&str; 32] = [
    "%H_%02m_%02s_%03f",
    "%W %d %H.%M.%S.%f",
    "%5d|%05d",
    "%D %h",
    "%x",
    "%2",
    "%%",
    "%-3d",
    "%003d",
    "%1000d",
    "%w",
    "x%",
    "%.2s",
    "%5.3h|",
    "%05.2m|",
    "%.s",
    "%5%|",
    "%.f",
    "%6.1f",
    "%3",
    "%.",
    "%5.x",
    "a%%b%d",
    "%00d",
    "%.0s",
    "%08.3s",
    "%3.1D|%6.2W|",
    "%.9s",
    "%.2H",
    "%.1d",
    "%.4W",
    "none",
];

fn said(program: &str, folder: &Path, value: &str, format: &str) -> String {
    let mut command = Command::new(program);
    command.args(["graph", "x.png", "-s", "1700000000", "-e", "1700000900", "DEF:a=d.rrd:a:AVERAGE"]);
    command.args([
        &format!("CDEF:c=a,0,*,{value},+"),
        "VDEF:m=c,MAXIMUM",
        &format!("PRINT:m:{format}:valstrfduration"),
    ]);
    let output = command.current_dir(folder).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn durations_are_printed_as_rrdtool_prints_them() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("durations-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    for words in [
        "create d.rrd --start 1700000000 --step 300 DS:a:GAUGE:900:U:U RRA:AVERAGE:0.5:1:600",
        "update d.rrd 1700000300:5 1700000600:7",
    ] {
        let status = Command::new("rrdtool").args(words.split(' ')).current_dir(&folder).status();
        assert!(status.is_ok_and(|status| status.success()), "{words}");
    }
    let mut wrong = Vec::new();
    for value in VALUES {
        for format in FORMATS {
            let ours = said(env!("CARGO_BIN_EXE_khz-rrd-graph"), &folder, value, format);
            let theirs = said("rrdtool", &folder, value, format);
            if ours != theirs {
                wrong.push(format!("{value} '{format}': theirs {theirs:?}, ours {ours:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let _ = std::fs::remove_dir_all(folder);
}
