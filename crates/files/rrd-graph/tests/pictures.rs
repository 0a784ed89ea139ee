//! Graph commands of programs that draw with rrdtool, on a page with ours beside rrdtool's: `target/rrd-graph/index.html`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "commands/captured.rs"]
mod captured;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use captured::{Captured, START};
use proptest::prelude::*;

/// Commands of which graphv tells other things than rrdtool's, and why.
const DIFFERENT: [(&str, &str); 0] = [];

fn run(program: &str, folder: &Path, arguments: &[String]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("TZ", "UTC").env("LC_ALL", "C");
    command.env("FONTCONFIG_FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/fonts.conf"));
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; install Debian's package `rrdtool`"))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

/// A file with a week of two waves.
fn filled(folder: &Path) {
    let create = format!(
        "create t.rrd --start {START} --step 300 DS:a:GAUGE:900:U:U DS:b:GAUGE:900:U:U RRA:AVERAGE:0.5:1:2100 \
         RRA:MIN:0.5:1:2100 RRA:MAX:0.5:1:2100"
    );
    assert!(run("rrdtool", folder, &words(&create)).status.success());
    for day in 0..7u64 {
        let sample = |row: u64| {
            let turn = (day * 288 + row) as f64 / 288.0 * std::f64::consts::TAU;
            let (a, b) = (4e5 * (1.3 + turn.sin()), 2e5 * (1.2 + (turn * 1.7).cos()));
            format!(" {}:{a:.0}:{b:.0}", START + 300 * (day * 288 + row + 1))
        };
        let update = format!("update t.rrd{}", (0..288).map(sample).collect::<String>());
        assert!(run("rrdtool", folder, &words(&update)).status.success());
    }
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("rrd-graph");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn commands_of_other_programs_come_out_as_with_rrdtool() {
    let folder = folder();
    let mut page = String::from("<!doctype html><meta charset=utf-8><title>graphs</title><table>");
    let mut wrong = vec![];
    let commands = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands");
    for captured in Captured::all(&commands).unwrap() {
        let name = &captured.name;
        let place = folder.join(name);
        captured.fill(&place).unwrap();
        let filled_for = captured.filled_for();
        let mut is_same = true;
        for (span, seconds) in [("day", 86_400), ("week", 6 * 86_400)] {
            if seconds > 2 * filled_for {
                continue;
            }
            let end = START + filled_for.min(6 * 86_400);
            let arguments = captured.spanning(end - seconds, end);
            // LibreNMS asks for SVG.
            let kind = if arguments.iter().any(|word| word == "--imgformat=SVG") { "svg" } else { "png" };
            let with = |file: &str| {
                [vec!["graphv".to_string(), format!("{span}-{file}.{kind}")], arguments.clone()].concat()
            };
            let theirs = run("rrdtool", &place, &with("theirs"));
            let ours = run(env!("CARGO_BIN_EXE_khz-rrd-graph"), &place, &with("ours"));
            let shown = |output: &Output| {
                String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
            };
            assert!(theirs.status.success(), "{name}: {}", shown(&theirs));
            is_same &= shown(&ours) == shown(&theirs);
            if shown(&ours) != shown(&theirs) && DIFFERENT.iter().all(|(known, _)| known != name) {
                let (ours, theirs) = (shown(&ours), shown(&theirs));
                let lines = ours.lines().zip(theirs.lines()).filter(|(ours, theirs)| ours != theirs).take(4);
                let lines: String = lines.map(|(ours, theirs)| format!("  {ours}\n  {theirs}\n")).collect();
                wrong.push(format!("{name}, a {span}: ours, and rrdtool's:\n{lines}"));
            }
            page.push_str(&format!(
                "<tr><th>{name}, {span}<td><img src={name}/{span}-theirs.{kind}><td><img src={name}/{span}-ours.{kind}>"
            ));
        }
        if is_same && DIFFERENT.iter().any(|(known, _)| known == name) {
            wrong.push(format!("{name} is the same now: it is no exception any more"));
        }
    }
    std::fs::write(folder.join("index.html"), page).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_format_is_written() {
    let folder = std::env::temp_dir().join(format!("khz-rrd-graph-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    filled(&folder);
    for format in ["SVG", "PNG", "CSV", "SSV", "TSV", "JSON", "JSONTIME", "XML", "XMLENUM"] {
        let line = format!(
            "graph - -a {format} -s {START} -e {} DEF:a=t.rrd:a:AVERAGE LINE1:a#f00:word GPRINT:a:MAX:%lf",
            START + 3000
        );
        let ours = run(env!("CARGO_BIN_EXE_khz-rrd-graph"), &folder, &words(&line)).stdout;
        match format {
            "PNG" => assert!(ours.starts_with(b"\x89PNG")),
            "SVG" => assert!(ours.starts_with(b"<svg")),
            _ => assert_eq!(
                String::from_utf8_lossy(&ours),
                String::from_utf8_lossy(&run("rrdtool", &folder, &words(&line)).stdout),
                "{format}"
            ),
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn labels_with_a_base_of_1024_are_round() {
    let folder = std::env::temp_dir().join(format!("khz-rrd-graph-base-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    filled(&folder);
    for (base, wanted) in
        [(1000, ["0.2 M", "0.4 M", "0.6 M", "0.8 M"]), (1024, ["200 k", "400 k", "600 k", "800 k"])]
    {
        let line = format!(
            "graph - -a SVG -b {base} -h 133 -s {START} -e {} DEF:a=t.rrd:a:AVERAGE LINE:a",
            START + 86_400
        );
        let picture = run(env!("CARGO_BIN_EXE_khz-rrd-graph"), &folder, &words(&line)).stdout;
        let picture = String::from_utf8(picture).unwrap();
        let texts = picture.split("</text>").filter_map(|part| part.rsplit_once('>'));
        let labels: Vec<&str> =
            texts.map(|(_, text)| text).filter(|text| text.ends_with(['k', 'M'])).collect();
        assert!(wanted.iter().all(|label| labels.contains(label)), "base {base}: {labels:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// One command line that must be refused in a short time, and what its error must say.
fn refused(folder: &Path, line: &str, wanted: &str) {
    let output = run(env!("CARGO_BIN_EXE_khz-rrd-graph"), folder, &words(line));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{line}: {error}");
    assert!(error.starts_with("ERROR: ") && error.contains(wanted), "{line}: {error}");
}

#[test]
fn what_is_too_large_is_refused_with_the_limit() {
    let folder = std::env::temp_dir().join(format!("khz-rrd-graph-large-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    filled(&folder);
    let time = format!("-s {START} -e {}", START + 300_000);
    let deep = vec!["a"; 5000].join(",");
    let series: String = (0..1100).map(|index| format!(" CDEF:c{index}=a")).collect();
    let legends = vec!["COMMENT:x\\n"; 4500].join(" ");
    let wide = vec![format!("COMMENT:{}", "x".repeat(60_000)); 5].join(" ");
    let tall = vec!["COMMENT:x\\n"; 3900].join(" ");
    let cases = [
        (format!("graph g.png {time} -w 100000 LINE:5"), "width above 16000 pixels"),
        (format!("graph g.png {time} -h 100000 LINE:5"), "height above 16000 pixels"),
        (format!("graph g.png {time} -w 15000 -h 15000 LINE:5"), "at most 100000000 in all are drawn"),
        (format!("graph g.png {time} -m 99 LINE:5"), "at most 100000000 in all are drawn"),
        (format!("graph g.png {time} -w 3000 {tall} LINE:5"), "at most 100000000 in all are drawn"),
        (format!("graph g.png {time} {legends} LINE:5"), "more than 4000 elements"),
        (format!("graph g.png {time} {wide} LINE:5"), "legends of 300000 bytes; at most 262144"),
        (format!("graph g.png {time} COMMENT:{} LINE:5", "x".repeat(70_000)), "at most 65536 are read"),
        (format!("graph g.png {time} DEF:a=t.rrd:a:MAX CDEF:b={deep} LINE:b"), "don't understand"),
        (format!("graph g.png {time} DEF:a=t.rrd:a:MAX{series} LINE:a"), "more than 1000 series"),
        ("graph - -a CSV -s 1 -e 9000000000000000000 -S 1 XPORT:5".into(), "rows to compute; at most"),
        // A long time of the graph itself makes its rows longer; that of a definition of its own does not.
        (
            format!("graph g.png {time} DEF:a=t.rrd:a:MAX:start=1:end=900000000000000 LINE:a"),
            "rows to compute; at most",
        ),
    ];
    for (line, wanted) in &cases {
        refused(&folder, line, wanted);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_changes_or_vanishes_is_drawn_or_an_error() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = std::env::temp_dir().join(format!("khz-rrd-graph-changing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    filled(&folder);
    let file = folder.join("t.rrd");
    let whole = std::fs::read(&file).unwrap();
    let line = format!(
        "graph g.png -w 40 -h 20 -s {START} -e {} DEF:a=t.rrd:a:MAX DEF:b=t.rrd:b:MIN DEF:c=t.rrd:b:AVERAGE AREA:a LINE:b LINE:c",
        START + 600_000
    );
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in (0usize..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let _ = match step % 4 {
                    0 => std::fs::write(&file, &whole[..whole.len() / 2]),
                    1 => std::fs::remove_file(&file),
                    2 => std::fs::write(&file, vec![255u8; whole.len()]),
                    _ => std::fs::write(&file, &whole),
                };
            }
        });
        for _ in 0..60 {
            let output = run(env!("CARGO_BIN_EXE_khz-rrd-graph"), &folder, &words(&line));
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_answered = match output.status.code() {
                Some(0) => error.is_empty(),
                Some(1) => error.starts_with("ERROR: "),
                _ => false,
            };
            if !is_answered {
                is_over.store(true, Ordering::Relaxed);
                panic!("{:?}: {error}", output.status);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Words that are near to real arguments.
fn word() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        Just("LINE1:".to_string()),
        Just("AREA:".into()),
        Just("GPRINT:".into()),
        Just("VDEF:v=".into()),
        Just("CDEF:c=".into()),
        Just("HRULE:".into()),
        Just("TICK:".into()),
        Just("COMMENT:".into()),
        Just("--width=".into()),
        Just("-x".into()),
        Just("-y".into()),
        Just("%lf%s".into()),
        Just("\\".into()),
        Just("#ff0000".into()),
        Just("a".into()),
        Just(":".into()),
        Just("1e308".into()),
        Just("-1".into()),
        Just("nan".into()),
        Just("-n".into()),
        Just("-o".into()),
        Just("dashes=".into()),
        "\\PC{0,4}",
        "[0-9]{1,20}",
    ];
    proptest::collection::vec(parts, 0..5).prop_map(|parts| parts.concat().replace('\0', ""))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn no_arguments_make_it_panic(given in proptest::collection::vec(word(), 0..8)) {
        let mut arguments = vec!["graphv".to_string(), "/dev/null".into(), "-w20".into(), "-h20".into()];
        arguments.extend(given);
        arguments.push("LINE1:5#f00:x".into());
        let output = run(env!("CARGO_BIN_EXE_khz-rrd-graph"), Path::new("/"), &arguments);
        prop_assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        prop_assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
    }
}
