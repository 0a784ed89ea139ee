//! Recordings by the real program: made live, while a program runs, through the link, out of rings; killed, on a full
//! disk, damaged; and what is printed, drawn and found in them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Running, code, err, khz, out, run};

/// An empty directory.
pub fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-record-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

pub fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The rows of a recording.
fn rows(path: &Path) -> Vec<Value> {
    rows_of(path, "*")
}

/// The rows of a recording, with these series.
fn rows_of(path: &Path, pattern: &str) -> Vec<Value> {
    let output = run(&["export", word(path), "--json", "--match", pattern]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn workload(name: &str) -> String {
    format!("{}/../../fixtures/workloads/{name}-100hz.khzt", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_program_is_recorded_and_its_exit_code_is_ours() {
    let path = folder("program").join("run.khzt");
    let words = ["record", "--direct", "--node", "n1", "--rate", "100", "mem.*", "-o", word(&path)];
    let output = run(&[&words[..], &["--", "sh", "-c", "sleep 0.2; exit 7"]].concat());
    assert_eq!(code(&output), 7, "{}", err(&output));
    assert!(err(&output).contains("1 node, "), "{}", err(&output));
    let rows = rows(&path);
    assert!(!rows.is_empty());
    assert_eq!((&rows[0]["node"], rows[0]["values"]["mem.total"].is_string()), (&"n1".into(), true));
    let numbers: Vec<u64> = rows.iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

#[test]
fn signals_go_on_to_the_program_and_its_recording_ends_whole() {
    let folder = folder("signals");
    for (signal, number) in [("INT", 5), ("TERM", 6), ("HUP", 7)] {
        let (path, ready) = (folder.join(format!("{signal}.khzt")), folder.join(format!("{signal}.ready")));
        let script = format!(
            "trap 'exit 5' INT; trap 'exit 6' TERM; trap 'exit 7' HUP; sleep 0.3; : > {}; while :; do sleep 0.05; done",
            word(&ready)
        );
        let inner = khz(&["record", "--direct", "--rate", "10", "mem.free", "-o", word(&path), "--"]);
        // Without a terminal, from which Ctrl-C would come to both.
        let mut command = Command::new("setsid");
        command.arg(inner.get_program()).args(inner.get_args()).args(["sh", "-c", &script]);
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let recording = crate::process::Ended::start_silent(&mut command);
        crate::process::until(Duration::from_secs(60), "the program runs", || ready.exists());
        assert_eq!(recording.end_by(signal), Some(number), "{signal}");
        assert!(!rows(&path).is_empty(), "{signal}");
        let output = run(&["export", word(&path), "--json"]);
        assert!(!err(&output).contains("cut off"), "{signal}: {}", err(&output));
    }
    // Without a program, a terminal that is closed ends the recording whole.
    let path = folder.join("alone.khzt");
    let recording = crate::process::Ended::start_silent(&mut khz(&[
        "record",
        "--direct",
        "--rate",
        "10",
        "mem.free",
        "-o",
        word(&path),
    ]));
    crate::process::until(Duration::from_secs(60), "rows come", || {
        std::fs::metadata(&path).is_ok_and(|found| found.len() > 0)
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(recording.end_by("HUP"), Some(0));
    assert!(!rows(&path).is_empty());
}

#[test]
fn a_program_that_cannot_be_started_leaves_no_recording_and_takes_none_away() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("no-program");
    let script = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    // The kernel finds out only when it is run that there is no such interpreter, or that it is no program.
    let (no_interpreter, no_program) =
        (script("a", "#!/no/such/shell\n"), script("b", "\u{1}\u{2}\u{3}\u{4}"));
    let text = folder.join("text");
    std::fs::write(&text, "x").unwrap();
    std::fs::write(folder.join("recording.khzt"), "the one before").unwrap();
    for (program, expected) in [
        ("/no/such/program", 127),
        ("no-such-program-anywhere", 127),
        (word(&text), 126),
        (word(&folder), 126),
        (word(&no_interpreter), 127),
        (word(&no_program), 126),
    ] {
        let output = khz(&["record", "--direct", "-o", "run.khzt", "mem.free", "--", program]);
        let output = { output }.current_dir(&folder).output().unwrap();
        assert_eq!(code(&output), expected, "{program}: {}", err(&output));
        assert!(err(&output).contains("nothing was recorded"), "{}", err(&output));
        assert!(!folder.join("run.khzt").exists(), "{program}");
    }
    let mut unnamed = khz(&["record", "--direct", "mem.free", "--", "/no/such/program"]);
    assert_eq!(code(&unnamed.current_dir(&folder).output().unwrap()), 127);
    let before = std::fs::read_to_string(folder.join("recording.khzt")).unwrap();
    assert_eq!((&*before, folder.join("recording.old.khzt").exists()), ("the one before", false));
}

/// Where this user may make control groups.
fn may_make_groups() -> bool {
    let top = khz_gather::control_groups_folder(Path::new("/"));
    rustix::process::geteuid().is_root()
        && top.is_some_and(|top| rustix::fs::access(top, rustix::fs::Access::WRITE_OK).is_ok())
}

#[test]
fn a_recorded_program_has_a_control_group_of_its_own_which_is_gone_afterwards() {
    if !may_make_groups() {
        return khz_skip::skip("a control group: this user may not make one".to_owned());
    }
    let path = folder("group").join("run.khzt");
    let words = ["record", "--direct", "--rate", "10", "mem.free", "-o", word(&path), "--"];
    // The child of the program is in its group, too.
    let script = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; sleep 2.5";
    let output = run(&[&words[..], &["sh", "-c", script]].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    let told = err(&output);
    let name =
        told.split("(cgroup.*[").nth(1).and_then(|rest| rest.split("])").next()).expect(&told).to_owned();
    assert!(!told.contains("nothing matches"), "{told}");
    let rows = rows_of(&path, &format!("cgroup.cpu_usage[{name}]"));
    let used = rows.iter().rev().flat_map(|row| row["values"].as_object().unwrap().values());
    let used: f64 =
        used.filter_map(|value| value.as_str()?.parse().ok()).next().expect("a number of the group");
    assert!(used > 0.0, "{used}");
    let top = khz_gather::control_groups_folder(Path::new("/")).unwrap();
    assert!(!top.join(&name).exists(), "{name}");
}

#[test]
fn a_recording_without_a_name_keeps_the_one_before() {
    let folder = folder("before");
    let record = |rows: &str| {
        let mut command = khz(&["record", "--direct", "--node", rows, "mem.free", "--", "sleep", "0.3"]);
        let output = command.current_dir(&folder).output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        err(&output)
    };
    assert!(!record("n1").contains("recording.old.khzt"));
    assert!(record("n2").contains("recording.old.khzt"));
    let node = |name: &str| rows(&folder.join(name))[0]["node"].clone();
    assert_eq!([node("recording.old.khzt"), node("recording.khzt")], ["n1", "n2"]);
}

#[test]
fn two_recorders_do_not_share_a_file_and_one_that_has_lost_its_file_says_so() {
    let folder = folder("shared");
    let begin = |more: &[&str], name: &str| {
        let words = ["record", "--direct", "--quiet", "--rate", "20", "mem.free", "--for", "30s"];
        let mut command = khz(&[&words[..], more].concat());
        let child = command.current_dir(&folder).stderr(Stdio::piped()).spawn().unwrap();
        let path = folder.join(name);
        let end = Instant::now() + Duration::from_secs(30);
        while std::fs::metadata(&path).map_or(0, |about| about.len()) == 0 {
            assert!(Instant::now() < end, "{name} is not there");
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    };
    for (more, name) in [(&["-o", "x.khzt"][..], "x.khzt"), (&[], "recording.khzt")] {
        let first = begin(more, name);
        let words = ["record", "--direct", "--quiet", "mem.free", "--for", "1s"];
        let second = khz(&[&words[..], more].concat()).current_dir(&folder).output().unwrap();
        assert_eq!(code(&second), 1, "{}", err(&second));
        assert!(
            err(&second).contains(&format!("{name} is being recorded by another khz")),
            "{}",
            err(&second)
        );
        assert!(!folder.join("recording.old.khzt").exists(), "it has not been renamed");
        std::fs::remove_file(folder.join(name)).unwrap();
        let ended = first.wait_with_output().unwrap();
        assert_eq!(code(&ended), 1, "{}", err(&ended));
        assert!(err(&ended).contains("somebody has removed or replaced"), "{}", err(&ended));
    }
}

#[test]
fn parameters_may_come_from_a_file() {
    let folder = folder("parameters");
    let (path, params) = (folder.join("run.khzt"), folder.join("run.toml"));
    let text =
        format!("match = [\"uptime.*\"]\nrate = \"50Hz\"\nfor = \"0.2s\"\noutput = \"{}\"\n", word(&path));
    std::fs::write(&params, text).unwrap();
    let output = run(&["record", "--direct", "--quiet", "--params", word(&params)]);
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
    assert!(rows(&path)[0]["values"]["uptime.up"].is_string());
}

#[test]
fn a_khz_that_runs_is_asked_over_its_link_and_sends_what_was_asked_for_only() {
    let folder = folder("link");
    let (path, run_dir) = (folder.join("run.khzt"), folder.join("run"));
    let _running = Running::start_in(&[("KHZ_RUN_DIR", word(&run_dir))], &[]);
    let words = ["record", "n1:mem.free", "n2:*", "--rate", "100", "--for", "0.5s", "-o", word(&path)];
    let output = khz(&words).env("KHZ_RUN_DIR", &run_dir).output().unwrap();
    assert_eq!(code(&output), 3, "{}", err(&output));
    assert!(err(&output).contains("khz: no node is called n2"), "{}", err(&output));
    assert!(!err(&output).contains("nothing matches"), "{}", err(&output));
    for row in rows(&path) {
        assert_eq!(row["node"], "n1");
        assert_eq!(row["values"].as_object().unwrap().keys().collect::<Vec<_>>(), ["mem.free"]);
    }
}

#[test]
fn what_was_is_recorded_out_of_the_rings() {
    let folder = folder("last");
    let (path, rings, root) = (folder.join("run.khzt"), folder.join("rings"), folder.join("root"));
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::write(root.join("proc/uptime"), "350735.47 234388.90\n").unwrap();
    let running = Running::start(&[
        "--root",
        word(&root),
        "--ring-dir",
        word(&rings),
        "--local-rate",
        "100Hz",
        "--ring",
        "1MiB",
    ]);
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let shown = run(&["ring", "show", "--json", "--dir", word(&rings)]);
        let lanes = out(&shown);
        let lanes = lanes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        if lanes.into_iter().any(|lane| lane["lane"] == "local" && lane["rows"].as_u64().unwrap() > 20) {
            break;
        }
        assert!(Instant::now() < end, "{}", out(&shown));
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(running);
    let output = run(&["record", "--last", "10s", "--dir", word(&rings), "-o", word(&path)]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let rows = rows(&path);
    assert!(rows.len() > 20, "{}", rows.len());
    assert_eq!((&rows[0]["lane"], &rows[0]["values"]["uptime.up"]), (&"local".into(), &"350735.47".into()));
    let other = run(&["record", "n9:*", "--last", "10s", "--dir", word(&rings), "-o", word(&path)]);
    assert_eq!(code(&other), 1, "{}", err(&other));
}

#[test]
fn what_was_on_other_nodes_is_recorded_out_of_the_hub() {
    let folder = folder("past");
    let [of_hub, of_rings, rings] = ["hub.khzt", "rings.khzt", "rings"].map(|name| folder.join(name));
    let hub = Running::start_hub(&["--text-listen", "none"]);
    let link = hub.link();
    let words = ["agent", "--node", "n7", "--hub", &link, "--base-rate", "20Hz", "--ring-dir", word(&rings)];
    let mut agent = hub.beside(&words).spawn().unwrap();
    let record = |more: &[&str]| {
        let output =
            run(&[&["record", "n7:uptime.*", "n7:mem.free", "--last", "2s", "--quiet"], more].concat());
        (code(&output), err(&output))
    };
    let end = Instant::now() + Duration::from_secs(30);
    let past = loop {
        let (code, message) = record(&["--hub", &link, "-o", word(&of_hub)]);
        let past = if code == 0 { rows(&of_hub) } else { Vec::new() };
        // When the first row changes, more than two seconds of rows have come.
        if past.len() >= 39 {
            break past;
        }
        assert!(Instant::now() < end, "{} rows, {code}: {message}", past.len());
    };
    agent.kill().unwrap();
    agent.wait().unwrap();
    let (code, message) = record(&["--lane", "base", "--dir", word(&rings), "-o", word(&of_rings)]);
    assert_eq!(code, 0, "{message}");
    let times = |rows: &[Value]| rows.iter().map(|row| row["boot"].to_string()).collect::<Vec<_>>();
    let (seen, there) = (times(&past), rows(&of_rings));
    assert!(seen.len() <= 42, "{} rows are more than two seconds", seen.len());
    let first = times(&there).iter().position(|time| *time == seen[0]).expect("the ring has the first row");
    for (past, ring) in past.iter().zip(&there[first..]) {
        assert_eq!((&past["boot"], &past["time"]), (&ring["boot"], &ring["time"]));
        for (name, value) in past["values"].as_object().unwrap() {
            assert_eq!(value, &ring["values"][name], "{name}");
        }
    }
    assert_eq!(past[0]["values"].as_object().unwrap().len(), 3, "{}", past[0]);
}

/// Kills a recording at some moment: what was read before stays there, and nothing is damaged.
fn kill_a_recording(path: &Path, moment: Duration) {
    // Not what the last round has left.
    let _ = std::fs::remove_file(path);
    let words =
        ["record", "--direct", "--quiet", "--rate", "1kHz", "stat.*", "cpu.*", "kernel.*", "-o", word(path)];
    let mut child = khz(&words).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    let read = || {
        let output = run(&["export", word(path), "--json"]);
        (code(&output), out(&output).lines().count(), err(&output))
    };
    let mut before = 0;
    while before == 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        before = read().1;
    }
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, after, message) = read();
    assert!(before > 0 && after >= before, "{before} rows before, {after} after: {message}");
    assert_eq!(code, 0, "{message}");
    assert!(message.is_empty() || message.contains("is cut off"), "{message}");
    let rows = rows(path);
    let numbers: Vec<u64> = rows.iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_killed_recording_is_read_to_its_last_whole_block() {
    let folder = folder("kill");
    for round in 0..3 {
        kill_a_recording(&folder.join("run.khzt"), Duration::from_millis(round * 7));
    }
}

#[test]
#[ignore = "some minutes: cargo xtask test --slow"]
fn a_recording_killed_a_hundred_times_is_read_each_time() {
    let folder = folder("kills");
    for round in 0..100 {
        kill_a_recording(&folder.join("run.khzt"), Duration::from_millis(round * 13 % 1_100));
    }
}

#[test]
fn on_a_full_disk_what_was_written_stays() {
    let folder = folder("full");
    let (disk, kept) = (folder.join("disk"), folder.join("kept.khzt"));
    std::fs::create_dir(&disk).unwrap();
    let program = khz(&[]).get_program().to_owned();
    let script = format!(
        "mount -t tmpfs -o size=64k none '{disk}' || exit 99\n\
         '{khz}' record --direct --quiet --rate 1kHz 'cpu.*' -o '{disk}/run.khzt'; code=$?\n\
         cp '{disk}/run.khzt' '{kept}'; exit $code",
        disk = word(&disk),
        khz = program.to_str().unwrap(),
        kept = word(&kept),
    );
    // A mount in a namespace of its own, which ends with the shell.
    let output = Command::new("unshare").args(["-r", "-m", "sh", "-c", &script]).output().unwrap();
    if code(&output) == 99 || !kept.exists() {
        return khz_skip::skip(format!("nothing can be mounted here: {}", err(&output)));
    }
    assert_eq!(code(&output), 1, "{}", err(&output));
    let message = err(&output);
    assert!(
        message.contains("No space left on device") && message.contains("bytes are whole and stay"),
        "{message}"
    );
    assert!(!rows(&kept).is_empty());
}

#[test]
fn a_damaged_recording_is_read_around_the_damage_which_is_named() {
    let path = folder("damage").join("run.khzt");
    let words =
        ["record", "--direct", "--quiet", "--rate", "1kHz", "--for", "1.5s", "cpu.*", "-o", word(&path)];
    assert_eq!(code(&run(&words)), 0);
    let whole = rows(&path).len();
    let mut bytes = std::fs::read(&path).unwrap();
    let block = bytes.windows(4).rposition(|window| window == b"khzB").unwrap();
    bytes[block + 100] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let output = run(&["export", word(&path)]);
    assert_eq!(code(&output), 1);
    let expected = format!("byte {}: a chunk whose checksum is wrong", block - 17);
    assert!(err(&output).contains(&expected), "{expected}: {}", err(&output));
    let left = out(&output).lines().count() - 1;
    assert!(left > 0 && left < whole, "{left} of {whole}");
    let none = run(&["export", "/dev/null"]);
    assert_eq!(code(&none), 1);
    assert!(err(&none).contains("no trace begins here"), "{}", err(&none));
}

#[test]
fn a_plot_names_what_it_shows() {
    let folder = folder("plot");
    let (svg, png, html) = (folder.join("a.svg"), folder.join("a.png"), folder.join("a.html"));
    let (one, two) = (workload("idle"), workload("compile"));
    let base = ["plot", &one, &two, "-m", "kernel.forks", "-m", "cpu.all.system", "--per-sample"];
    for path in [&svg, &png, &html] {
        let output = run(&[&base[..], &["-o", word(path)]].concat());
        assert_eq!((code(&output), err(&output).as_str()), (0, ""));
    }
    let text = std::fs::read_to_string(&svg).unwrap();
    for words in ["kernel.forks (left axis)", ">ticks of 10 ms per sample<", ">idle-100hz<", " UTC<"] {
        assert!(text.contains(words), "{words}");
    }
    assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"));
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG\r\n"));
    let page = std::fs::read_to_string(&html).unwrap();
    for words in [
        "\"label\":\"kernel.forks\"",
        "idle-100hz: cpu.all.system, ticks of 10 ms per sample",
        "khz/plot-page.js",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let printed = run(&[&base[..], &["--html"]].concat());
    assert_eq!(out(&printed), page, "without a file it goes to the standard output");
    let shown = run(&["plot", &two, "-m", "cpu.all.user", "--terminal"]);
    assert!(out(&shown).lines().all(|line| line.chars().count() <= 80), "{}", out(&shown));
    assert!(out(&shown).contains('█'));
}

#[test]
fn recordings_are_compared_each_from_its_first_row_on_and_to_one_scale() {
    let folder = folder("compared");
    let (svg, html) = (folder.join("ab.svg"), folder.join("ab.html"));
    let (one, two) = (workload("compile"), workload("idle"));
    let base = ["plot", &one, &two, "--compare", "-m", "cpu.all.user"];
    for path in [&svg, &html] {
        let output = run(&[&base[..], &["-o", word(path)]].concat());
        assert_eq!((code(&output), err(&output).as_str()), (0, ""));
    }
    let picture = std::fs::read_to_string(&svg).unwrap();
    for words in [
        ">time since the first row of each<",
        ">cpu.all.user of 2 recordings<",
        ">compile-100hz<",
        ">idle-100hz<",
    ] {
        assert!(picture.contains(words), "{words}");
    }
    let page = std::fs::read_to_string(&html).unwrap();
    let data = page.split("id=\"plot-data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["from"], serde_json::Value::Null);
    let titles: Vec<&str> =
        data["panels"].as_array().unwrap().iter().map(|panel| panel["title"].as_str().unwrap()).collect();
    assert_eq!(
        titles,
        ["compile-100hz: cpu.all.user, CPUs", "idle-100hz: cpu.all.user, CPUs"],
        "in the order of the files"
    );
    for panel in data["panels"].as_array().unwrap() {
        let first = panel["series"][0]["at"][0].as_f64().unwrap();
        assert!(first < 1.0, "{}: {first}", panel["title"]);
    }
    let alone = run(&["plot", &one, "--compare", "-m", "cpu.all.user"]);
    assert_eq!(code(&alone), 2);
    assert!(err(&alone).contains("--compare takes two to 16 recordings"), "{}", err(&alone));
}

#[test]
fn a_plot_that_would_say_nothing_is_refused() {
    let one = workload("idle");
    for (more, problem) in [
        (&["-m", "no.such"][..], "nothing in this recording matches no.such"),
        (&[], "say what to draw with --match"),
        (&["-m", "mem.free", "-m", "load.1m", "-m", "cpu.all.user"], "a plot has two axes"),
        (&["-m", "cpu.all.*"], "narrow --match"),
    ] {
        let output = run(&[&["plot", &one, "--terminal"][..], more].concat());
        assert!(err(&output).contains(problem), "{problem}: {}", err(&output));
        assert!(code(&output) > 0);
    }
}

#[test]
fn what_moves_together_is_found_and_what_was_left_out_is_named() {
    let one = workload("compile");
    let words =
        ["correlate", &one, "--with", "kernel.forks", "--lag", "0.5s", "-m", "kernel.*", "-m", "mem.h*"];
    let output = run(&[&words[..], &["--least", "0", "--json"]].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    let found: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found[0]["series"], "compile-100hz:kernel.context_switches");
    let sizes: Vec<f64> = found.iter().map(|one| one["coefficient"].as_f64().unwrap().abs()).collect();
    assert!(sizes.windows(2).all(|pair| pair[0] >= pair[1]) && sizes[0] > 0.3, "{sizes:?}");
    assert!(err(&output).contains("left out that never change"), "{}", err(&output));
    // A minute at 100 Hz: without --max-lag the lag is at most 600 samples.
    let usual = run(&["correlate", &one, "--with", "kernel.forks", "-m", "kernel.*", "--least", "0"]);
    assert!(err(&usual).contains("lags up to 600 samples of 10ms"), "{}", err(&usual));
    let further = run(&["correlate", &one, "--with", "kernel.forks", "-m", "kernel.*", "--max-lag", "7s"]);
    assert!(err(&further).contains("lags up to 700 samples of 10ms"), "{}", err(&further));
    let several = run(&["correlate", &one, "--with", "cpu.all.*"]);
    assert_eq!(code(&several), 2, "{}", err(&several));
}

#[test]
fn a_khz_alone_that_gains_names_while_it_is_recorded_goes_on_and_the_recording_has_no_gap() {
    let folder = folder("growing");
    let (path, run_dir) = (folder.join("run.khzt"), folder.join("run"));
    let running = Running::start_in(&[("KHZ_RUN_DIR", word(&run_dir))], &[]);
    let mut recorder = khz(&["record", "--rate", "50", "--quiet", "-o", word(&path)]);
    let recorder = recorder.env("KHZ_RUN_DIR", &run_dir).stderr(Stdio::piped()).spawn().unwrap();
    let rows_so_far = || std::fs::metadata(&path).map_or(0, |file| file.len());
    for round in 0..5 {
        let before = rows_so_far();
        let end = Instant::now() + Duration::from_secs(30);
        while rows_so_far() == before {
            assert!(Instant::now() < end, "nothing more is recorded");
            std::thread::sleep(Duration::from_millis(10));
        }
        let names: Vec<String> = (0..20).map(|name| format!("round{round}x{name}=1")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let output = khz(&[&["publish"], &names[..]].concat()).env("KHZ_RUN_DIR", &run_dir).output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
    }
    let has_all = || {
        let newest = rows_of(&path, "job.*").pop();
        newest.is_some_and(|row| {
            let names = row["values"].as_object().unwrap().keys();
            names.filter(|name| name.starts_with("job.round")).count() == 100
        })
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !has_all() {
        assert!(Instant::now() < end, "the names are not in the recording");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(Command::new("kill").args(["-s", "INT", &recorder.id().to_string()]).status().unwrap().success());
    let output = recorder.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
    let rows = rows_of(&path, "job.*");
    let numbers: Vec<u64> = rows.iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    assert_eq!(running.end("TERM"), (Some(0), String::new()), "its own link was never cut");
}
