//! `.rrd` files through the whole program, and the program under the name `rrdtool`.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{code, err, out, run};

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("khz-program-rrd-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SHAPE: [&str; 6] =
    ["--start", "1000000000", "--step", "5", "DS:load:GAUGE:10:0:U", "RRA:AVERAGE:0.5:1:72"];

#[test]
fn a_database_is_made_filled_and_read() {
    let folder = Folder::new("made");
    let file = folder.file("load.rrd");
    assert_eq!(code(&run(&[&["rrd", "create", &file][..], &SHAPE].concat())), 0);
    assert_eq!(code(&run(&["rrd", "update", &file, "1000000005:0.5", "1000000010:0.5"])), 0);
    assert_eq!(out(&run(&["rrd", "last", &file])), "1000000010\n");
    assert!(out(&run(&["cache", "show", &file])).contains("load.rrd"));
    let failed = run(&["rrd", "update", &file, "7:1"]);
    assert_eq!((code(&failed), out(&failed)), (1, String::new()));
    assert!(
        err(&failed).starts_with("ERROR: ") && err(&failed).contains("illegal attempt to update"),
        "{}",
        err(&failed)
    );
}

#[test]
fn under_the_name_rrdtool_it_is_rrdtool() {
    let folder = Folder::new("name");
    let (rrdtool, file) = (folder.file("rrdtool"), folder.file("load.rrd"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_khz"), &rrdtool).unwrap();
    let status = Command::new(&rrdtool).arg("create").arg(&file).args(SHAPE).status().unwrap();
    assert!(status.success());
    let first = Command::new(&rrdtool).args(["first", &file]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&first.stdout), "999999645\n");
}

/// A machine of which everything is said, so that the answer is the same everywhere.
const MACHINE: [&str; 8] =
    ["--memory", "6G", "--file-system", "ext4", "--readahead", "128K", "--page", "4096"];

#[test]
fn a_plan_says_whether_files_fit_and_what_to_change() {
    let planned = run(&[&["rrd", "plan", "--layout", "mrtg", "--files", "300000"][..], &MACHINE].concat());
    let text = out(&planned);
    assert_eq!((code(&planned), err(&planned).as_str()), (0, ""));
    assert!(text.starts_with("300,000 files fit partly: "), "{text}");
    for part in
        ["Pages of a file in one write", "Page-ins by hour", "Where it breaks", "What to change", "LISA'07"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
    let json =
        run(&[&["rrd", "plan", "--layout", "mrtg", "--files", "300000", "--json"][..], &MACHINE].concat());
    let json: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(json["fits"], "partly");
    assert_eq!(json["page_ins"]["hours"].as_array().unwrap().len(), 24);
    assert_eq!(json["paper"]["by_pages"][6]["pages"], 7);
}

#[test]
fn a_plan_takes_the_layout_of_a_file() {
    let folder = Folder::new("plan");
    let file = folder.file("load.rrd");
    assert_eq!(code(&run(&[&["rrd", "create", &file][..], &SHAPE].concat())), 0);
    let planned = run(&[&["rrd", "plan", &file, "-n", "1000", "--json"][..], &MACHINE].concat());
    let json: serde_json::Value = serde_json::from_str(&out(&planned)).unwrap();
    assert_eq!((&json["question"]["step"], &json["question"]["archives"]), (&5.into(), &1.into()));
    assert_eq!((&json["fits"], &json["paper"]), (&"yes".into(), &serde_json::Value::Null));
}

#[test]
fn a_plan_that_cannot_be_made_says_what_to_do() {
    let cases: [(&[&str], &str); 5] = [
        (&["--layout", "mrtg"], "how many files?"),
        (&["--layout", "mrtg", "-n", "0"], "give the number of .rrd files, from 1 on"),
        (&["--layout", "mrtg", "-n", "10000000"], "or plan at most 2,"),
        (&["-n", "5", "-s", "0", "DS:x:GAUGE:600:U:U", "RRA:AVERAGE:0.5:1:9"], "value must be positive"),
        (&["-n", "5", "--layout", "mrtg", "-f", "overlay"], "one of ext4, ext3, ext2, xfs, btrfs"),
    ];
    for (arguments, wanted) in cases {
        let failed = run(&[&["rrd", "plan"][..], &MACHINE, arguments].concat());
        assert_eq!((code(&failed), out(&failed)), (1, String::new()), "{arguments:?}");
        let message = err(&failed);
        assert!(message.starts_with("ERROR: ") && message.contains(wanted), "{arguments:?}: {message}");
    }
}

#[test]
fn the_doctor_plans_for_the_tree_that_it_looks_at() {
    let folder = Folder::new("doctor");
    for name in ["a.rrd", "b.rrd"] {
        assert_eq!(code(&run(&[&["rrd", "create", &folder.file(name)][..], &SHAPE].concat())), 0);
    }
    let told = run(&["rrd", "doctor", &folder.file(".")]);
    let text = out(&told);
    assert_eq!(code(&told), 0, "{}", err(&told));
    assert!(text.contains("2 .rrd files") && text.contains("I/O scheduler"), "{text}");
    // On a file system that the plan does not know, it says so.
    let planned = text.contains("plan: 2 files fit") || text.contains("the plan says nothing of these files");
    assert!(planned, "{text}");
}

/// Runs `khz rrd simulate` with the words of `line`.
fn simulate(line: &str) -> std::process::Output {
    run(&[&["rrd", "simulate"][..], &line.split_whitespace().collect::<Vec<_>>()].concat())
}

#[test]
fn a_page_cache_is_simulated_as_a_table_as_json_and_as_a_chart() {
    let folder = Folder::new("simulate");
    let svg = folder.file("a.svg");
    let table = simulate(&format!("--sample 50 --pages 5-8 --warm 2 --hours 2 --svg {svg}"));
    assert_eq!(code(&table), 0, "{}", err(&table));
    let table = out(&table);
    assert!(table.starts_with("MRTG's layout: 24 pages of 4 KiB a file") && table.contains("~ 0"), "{table}");
    assert_eq!(table.lines().find(|line| line.chars().count() > 80), None, "{table}");
    assert!(std::fs::read_to_string(&svg).unwrap().contains("pages of memory a file"));
    let json = simulate("--sample 50 --files 320000 --memory 10GiB --warm 1 --hours 24 --json");
    let json: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 4);
    let rates = json["runs"][0]["page_ins_a_second"].as_array().unwrap();
    assert!(rates.len() == 288 && rates.iter().all(serde_json::Value::is_number), "{rates:?}");
}

#[test]
fn what_cannot_be_simulated_is_refused_with_what_to_do() {
    let folder = Folder::new("simulate-refused");
    let trace = folder.file("trace");
    std::fs::write(&trace, "khz-rrd-trace 1\npage 4096\nstep 300\ncopy 24 1 a\nupdate 0 1500 0w").unwrap();
    let cases = [
        ("--files 0", "there is nothing to simulate"),
        ("--files 1000000 --memory 1GiB", "inodes, names and trees alone take 1991000000 bytes"),
        ("DS:a:GAUGE:600:U:U", "at least one Round Robin Archive"),
        ("RRA:AVERAGE:0.5:1:10", "at least one Data Source"),
        ("--sample 100000 DS:a:GAUGE:600:U:U RRA:AVERAGE:0.5:1:900000", "simulate fewer with --sample"),
        ("--nonsense", "--help lists them"),
        ("--svg /nonexistent/a.svg", "writing '/nonexistent/a.svg': No such file or directory"),
        (
            &format!("--trace {trace}"),
            "line 5 (byte 47): the trace is cut short: this line has no end; record it again",
        ),
    ];
    for (line, expected) in cases {
        let output = simulate(line);
        assert_eq!((code(&output), out(&output).as_str()), (1, ""), "{line}");
        assert!(
            err(&output).starts_with("ERROR: ") && err(&output).contains(expected),
            "{line}: {}",
            err(&output)
        );
    }
}

/// Where the kernel cannot be asked (a file system in memory, an old kernel), the command says so and leaves nothing.
#[test]
fn updates_of_a_file_are_recorded_and_simulated_or_it_is_said_why_not() {
    let folder = Folder::new("simulate-record");
    let (file, trace) = (folder.file("load.rrd"), folder.file("trace"));
    assert_eq!(code(&run(&[&["rrd", "create", &file][..], &SHAPE].concat())), 0);
    let recorded = simulate(&format!("--record {trace} --copies 2 --hours 1 {file}"));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1 + usize::from(code(&recorded) == 0));
    if code(&recorded) != 0 {
        let told = err(&recorded);
        assert!(told.contains("stay in memory") || told.contains("does not say"), "{told}");
        return khz_skip::skip(told);
    }
    assert!(out(&recorded).contains("1440 updates of 2 copies"), "{}", out(&recorded));
    let short = simulate(&format!("--trace {trace}"));
    assert!(err(&short).contains("record it again with --hours 48"), "{}", err(&short));
    let played = simulate(&format!("--trace {trace} --warm 0 --hours 1 --sample 20 --pages 1-3"));
    assert_eq!(code(&played), 0, "{}", err(&played));
    assert!(out(&played).contains("an update each 5 s"), "{}", out(&played));
}

/// A file of 400 rows of 5 s with two sources: `in`, a wave, and `out`, of which rows 100 to 149 are unknown.
fn filled(folder: &Folder) -> String {
    let file = folder.file("eth0.rrd");
    let shape = [
        "--start",
        "1000000000",
        "--step",
        "5",
        "DS:in:GAUGE:10:U:U",
        "DS:out:GAUGE:10:U:U",
        "RRA:AVERAGE:0.5:1:300",
        "RRA:AVERAGE:0.5:10:72",
        "RRA:MIN:0.5:10:72",
        "RRA:MAX:0.5:10:72",
    ];
    assert_eq!(code(&run(&[&["rrd", "create", &file][..], &shape].concat())), 0);
    let sample = |row: u64| {
        let out = if (100..150).contains(&row) { "U".into() } else { (row % 7).to_string() };
        format!("{}:{}:{out}", 1_000_000_000 + 5 * row, 1000 + row)
    };
    let samples: Vec<String> = (1..=400).map(sample).collect();
    let mut arguments = vec!["rrd", "update", &file];
    arguments.extend(samples.iter().map(String::as_str));
    assert_eq!(code(&run(&arguments)), 0);
    file
}

#[test]
fn a_plot_draws_rrd_files() {
    let folder = Folder::new("plot");
    let file = filled(&folder);
    let other = folder.file("eth1.rrd");
    std::fs::copy(&file, &other).unwrap();
    let picture = folder.file("p.svg");
    let drawn = |arguments: &[&str]| {
        let all = [&["plot", "-o", &picture][..], arguments].concat();
        let ended = run(&all);
        assert_eq!((code(&ended), err(&ended).as_str()), (0, ""), "{arguments:?}");
        std::fs::read_to_string(&picture).unwrap()
    };
    // All sources, and one panel a file.
    let both = drawn(&[&other, &file]);
    for part in [
        "2 files (AVERAGE)",
        ">eth0<",
        ">eth1<",
        "in, out, from 2001-09-08 02:20:00 UTC to 2001-09-09 02:20:00 UTC",
    ] {
        assert!(both.contains(part), "{part}");
    }
    // `--rra` draws its archive whole, of its own function.
    let archive = drawn(&[&file, "--rra", "3", "-m", "in"]);
    assert!(
        archive.contains("eth0.rrd (MAX)") && archive.contains("in, from 2001-09-09 01:20:00 UTC"),
        "{archive}"
    );
    assert!(!archive.contains("out"));
    assert!(drawn(&[&file, "--cf", "min", "--from", "1000000500", "--to", "1000001000"]).contains("(MIN)"));
    let axes = drawn(&[&file, "-m", "i*", "--right", "out"]);
    assert!(axes.contains("in (left axis)") && axes.contains("out (right axis)"), "{axes}");
    // Here, in characters; what is unknown is no 0 and is told apart.
    let shown = out(&run(&["plot", &file, "--from", "1000000400", "--to", "1000000900", "-m", "out"]));
    assert!(shown.contains('·'), "{shown}");
}

#[test]
fn a_plot_of_an_rrd_file_that_cannot_be_made_says_why() {
    let folder = Folder::new("plot-wrong");
    let file = filled(&folder);
    let other = folder.file("run.khzt");
    std::fs::write(&other, "no recording").unwrap();
    let short = folder.file("short.rrd");
    std::fs::write(&short, &std::fs::read(&file).unwrap()[..900]).unwrap();
    let missing = folder.file("missing.rrd");
    let cases: [(&[&str], i32, &str); 11] = [
        (&[&file, "--cf", "LAST"], 2, "it has no archive of LAST; it has AVERAGE, MIN, MAX"),
        (&[&file, "--rra", "4"], 2, "it has no archive 4; its archives are 0 to 3"),
        (&[&file, "--rra", "1", "--cf", "MAX"], 2, "cannot be used with"),
        (&[&file, "-m", "on"], 2, "it has no data source on; it has in, out"),
        (&[&file, "--right", "out"], 2, "--right needs something on the left axis"),
        (&[&file, "--per-sample"], 2, "rates already"),
        (&[&file, "--from", "-1h"], 1, "the last update was at 2001-09-09 02:20:00 UTC"),
        (&[&file, &other], 2, "run.khzt is no .rrd file"),
        (&[&other, "--cf", "MAX"], 2, "name one"),
        (&[&short], 1, "short.rrd"),
        (&[&missing], 1, "missing.rrd': No such file or directory"),
    ];
    for (arguments, wanted, words) in cases {
        let failed = run(&[&["plot"][..], arguments].concat());
        assert_eq!((code(&failed), out(&failed)), (wanted, String::new()), "{arguments:?}: {}", err(&failed));
        assert!(err(&failed).contains(words), "{arguments:?}: {}", err(&failed));
    }
}

#[test]
fn a_plot_of_a_damaged_rrd_file_never_panics() {
    let folder = Folder::new("plot-damaged");
    let file = filled(&folder);
    let whole = std::fs::read(&file).unwrap();
    // Numbers of the definitions, and all of the live header's first ones, which begin at 848: as large and as small as they
    // can be.
    let places = (0..848).step_by(40).chain((848..960).step_by(8));
    let values = [i64::MAX.to_le_bytes(), i64::MIN.to_le_bytes(), [0xff; 8]];
    for (place, value) in places.flat_map(|place| values.map(|value| (place, value))) {
        let mut damaged = whole.clone();
        damaged[place..place + 8].copy_from_slice(&value);
        std::fs::write(&file, &damaged).unwrap();
        for arguments in [&["--rra", "0"][..], &["--from", "1000000000"]] {
            let ended = run(&[&["plot", &file][..], arguments].concat());
            assert!((0..=2).contains(&code(&ended)), "byte {place}, {arguments:?}: {}", err(&ended));
            assert!(!err(&ended).contains("panicked"), "byte {place}, {arguments:?}: {}", err(&ended));
        }
    }
}
