//! What a user types and gets back when nothing runs: help, refusals, configuration, generated pages.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use crate::process::{code, err, khz, out, run};

/// A fresh file below the test's own directory.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

/// The commands in a help's list of commands.
fn commands(help: &str) -> Vec<String> {
    let named = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let named = named.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let words = named.filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "help");
    words.map(str::to_owned).collect()
}

/// The commands that have no examples in their help. A command with subcommands may leave the examples to these.
fn without_examples(words: &[&str]) -> Vec<String> {
    // Not `--help`: `khz rrd --help` and its like are rrdtool's.
    let output = run(&[&["help"], words].concat());
    assert_eq!(code(&output), 0, "{words:?}");
    let help = out(&output);
    if help.contains("\nExamples:\n  khz ") {
        return Vec::new();
    }
    let below = commands(&help);
    match below.is_empty() {
        true => vec![words.join(" ")],
        false => below.iter().flat_map(|word| without_examples(&[words, &[word]].concat())).collect(),
    }
}

#[test]
fn the_help_of_every_command_teaches_with_examples() {
    let help = out(&run(&["--help"]));
    assert!(help.contains("\nExamples:\n  khz "), "{help}");
    let commands = commands(&help);
    assert!(commands.len() > 20, "{help}");
    let bare: Vec<String> = commands.iter().flat_map(|command| without_examples(&[command])).collect();
    assert!(bare.is_empty(), "their help has no examples: {bare:?}");
}

/// All commands, with those below them; first khz itself. What rrdtool and rrdcached have is their own.
fn all_commands(words: &[String]) -> Vec<Vec<String>> {
    let own = [&["help".to_owned()], words].concat();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let below = commands(&out(&run(&own)));
    let below = below.iter().flat_map(|word| all_commands(&[words, std::slice::from_ref(word)].concat()));
    std::iter::once(words.to_vec()).chain(below).collect()
}

/// A longer default is a sentence.
const HELD_MAX: usize = 40;

#[test]
fn help_fits_a_terminal_of_80_columns_and_tears_no_default_apart() {
    let mut asked = all_commands(&[]);
    assert!(asked.len() > 60, "{asked:?}");
    asked
        .extend(["create", "doctor", "plan", "simulate"].map(|word| vec!["rrd".to_owned(), word.to_owned()]));
    for words in asked {
        for flag in ["--help", "-h"] {
            // -h is the host at rrdcached, and unknown to its relatives.
            if flag == "-h"
                && ["rrd", "rrdcached", "cache"].iter().any(|word| words.first().is_some_and(|w| w == word))
            {
                continue;
            }
            let arguments: Vec<&str> = words.iter().map(String::as_str).chain([flag]).collect();
            let output = run(&arguments);
            assert_eq!(code(&output), 0, "khz {}: {}", arguments.join(" "), err(&output));
            let help = out(&output);
            assert!(!help.contains('\u{a0}'), "khz {}: {help}", arguments.join(" "));
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "khz {}: {line}", arguments.join(" "));
            }
            // With the lines of a text joined, each default is what it is; then it must be on one of the lines.
            let joined = help.split_whitespace().collect::<Vec<_>>().join(" ");
            for begin in joined.match_indices("[default: ").map(|(at, _)| at) {
                let default = &joined[begin..];
                let default = &default[..default.find(']').map_or(default.len(), |end| end + 1)];
                let is_whole = help.lines().any(|line| line.contains(default));
                assert!(
                    is_whole || default.chars().count() > HELD_MAX,
                    "khz {}: {default}",
                    arguments.join(" ")
                );
            }
        }
    }
}

#[test]
fn a_command_of_another_tool_is_wrong_usage_that_names_ours() {
    for (word, command) in [("ps", "khz top"), ("status", "khz nodes"), ("vmstat", "khz watch 'vm.*'")] {
        let output = run(&[word]);
        assert_eq!((code(&output), out(&output).as_str()), (2, ""));
        let message = err(&output);
        assert!(message.starts_with(&format!("error: khz has no command '{word}'\n")), "{message}");
        assert!(message.contains(&format!("tip: `{command}` ")), "{message}");
    }
    let near = run(&["nods"]);
    assert!(code(&near) == 2 && err(&near).contains("did you mean `khz nodes`?"), "{}", err(&near));
    let other = run(&["rules", "ps"]);
    assert!(code(&other) == 2 && !err(&other).contains("khz top"), "{}", err(&other));
}

#[test]
fn a_recording_that_is_not_there_is_named_and_so_are_those_that_are() {
    let output = run(&["simulate", "--workloads", "/nonexistent/workloads"]);
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    let message = err(&output);
    assert!(message.contains("/nonexistent/workloads/idle-100hz.khzt"), "{message}");
    let output = run(&["simulate", "--workload", "storm"]);
    assert_eq!(code(&output), 2);
    let message = err(&output);
    assert!(
        message.contains("'storm'") && message.contains("compile, idle, mempressure, netcopy"),
        "{message}"
    );
}

#[test]
fn a_misspelt_flag_is_wrong_usage_with_a_suggestion() {
    let output = run(&["--lisen", "x"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("'--listen'"), "{}", err(&output));
}

#[test]
fn a_bad_pattern_is_pointed_at() {
    let output = run(&["get", "net.rx_bytes[eth0"]);
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    assert_eq!(err(&output), "khz: '[' is never closed (column 13)\n  net.rx_bytes[eth0\n              ^\n");
}

#[test]
fn impossible_rates_are_wrong_usage() {
    for rate in ["0", "1e9", "1000000000", "-1", "fast"] {
        for arguments in [&["watch", "mem.free", "--rate", rate][..], &["--rate-max", rate]] {
            let output = run(arguments);
            assert_eq!(code(&output), 2, "{arguments:?}: {}", err(&output));
            assert_eq!(out(&output), "");
        }
    }
}

#[test]
fn an_unknown_key_names_file_line_and_the_key_that_was_meant() {
    let path = file("unknown.toml", "quiet = true\nlisen = \"127.0.0.1:1\"\n");
    let output = run(&["--config", path.to_str().unwrap()]);
    assert_eq!(code(&output), 2);
    assert_eq!(
        err(&output),
        format!("khz: {}:2: no setting is called 'lisen' (did you mean 'listen'?)\n", path.display())
    );
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let output = run(&["config", "--config", "/nonexistent/khz.toml"]);
    assert_eq!(code(&output), 2);
    assert_eq!(
        err(&output),
        "khz: cannot read /nonexistent/khz.toml: No such file or directory (os error 2)\n"
    );
}

#[test]
fn config_says_where_each_value_came_from() {
    let path = file("layers.toml", "window = \"1ms\"\nring = \"1MiB\"\nbase_rate = \"2Hz\"\n");
    let output = khz(&["config", "--listen", "127.0.0.1:9", "--config", path.to_str().unwrap()])
        .env("KHZ_RING", "2MiB")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    let text = out(&output);
    let line = |key: &str| {
        let words: Vec<&str> =
            text.lines().find(|line| line.starts_with(key)).unwrap().split_whitespace().collect();
        words.join(" ")
    };
    assert_eq!(line("listen"), "listen = [\"127.0.0.1:9\"] # --listen");
    assert_eq!(line("ring"), "ring = \"2MiB\" # KHZ_RING");
    assert_eq!(line("window"), format!("window = \"1ms\" # {}:1", path.display()));
    assert_eq!(line("cpu_max"), "cpu_max = \"10%\" # default");

    // Directories without a setting are shown as khz would choose them now.
    let home = PathBuf::from("/srv/khz-chosen");
    let shown = khz(&["config"])
        .env_remove("KHZ_RING_DIR")
        .env_remove("KHZ_STATE_DIR")
        .env_remove("KHZ_RUN_DIR")
        .env("STATE_DIRECTORY", home.join("state"))
        .env("RUNTIME_DIRECTORY", home.join("run"))
        .output()
        .unwrap();
    let shown = out(&shown);
    for (key, directory) in [("state_dir", "state"), ("run_dir", "run")] {
        let expected = format!("{key} = \"\"");
        let line = shown.lines().find(|line| line.starts_with(&expected)).unwrap();
        assert!(line.ends_with(&format!("# default: {}", home.join(directory).display())), "{line}");
    }
    let rings = shown.lines().find(|line| line.starts_with("ring_dir = \"\"")).unwrap();
    assert!(rings.contains("# default: /"), "{rings}");

    let again = file("again.toml", &text);
    let output = run(&["config", "--config", again.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "what config prints is a config: {}", err(&output));
}

#[test]
fn no_part_of_a_token_is_printed_wherever_and_however_it_was_given() {
    let secret = "00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210";
    let token = format!("khz-reader-bob-{secret}");
    let cut = &token[..token.len() - 9];
    let mut outputs = Vec::new();
    for given in [&token, cut, secret, &secret[20..]] {
        for key in ["TOKEN", "CLUSTER_KEY", "TLS_KEY", "NODE", "LISTEN", "TOKN", "HUB"] {
            outputs.push(khz(&["config"]).env(format!("KHZ_{key}"), given).output().unwrap());
            let flag = format!("--{}", key.to_ascii_lowercase().replace('_', "-"));
            outputs.push(run(&["config", &flag, given]));
            outputs.push(run(&["config", &format!("{flag}={given}")]));
            let key = key.to_ascii_lowercase();
            for text in [format!("{key} = \"{given}\"\n"), format!("{key} = {given}\n"), format!("{given}\n")]
            {
                let path = file("secret.toml", &text);
                outputs.push(run(&["config", "--config", path.to_str().unwrap()]));
            }
        }
        outputs.push(run(&["config", given]));
        outputs.push(run(&["watch", "load.1m", "--for", given]));
    }
    for output in outputs {
        let message = format!("{}{}", out(&output), err(&output));
        let parts = (0..=secret.len() - 8).map(|at| &secret[at..at + 8]);
        for part in parts.chain(["bob"]) {
            assert!(!message.contains(part), "{part} in {message}");
        }
    }
}

#[test]
fn a_user_without_privileges_has_a_file_of_his_own() {
    let path = file("khz.toml", "window = \"3ms\"\n");
    let home = path.parent().unwrap().join(format!("xdg-{}", std::process::id()));
    std::fs::create_dir_all(home.join("khz")).unwrap();
    std::fs::copy(&path, home.join("khz/khz.toml")).unwrap();
    let output = khz(&["config"]).env("XDG_CONFIG_HOME", &home).output().unwrap();
    let expected = format!("# {}:1", home.join("khz/khz.toml").display());
    assert!(
        out(&output).lines().any(|l| l.starts_with("window = \"3ms\"") && l.ends_with(&expected)),
        "{}",
        out(&output)
    );
    std::fs::remove_dir_all(home).unwrap();
}

#[test]
fn a_variable_counts_like_a_flag_and_is_named_when_it_is_wrong() {
    let output = khz(&["config"]).env("KHZ_CPU_MAX", "much").output().unwrap();
    assert_eq!(code(&output), 2);
    assert_eq!(
        err(&output),
        "khz: cpu_max (from KHZ_CPU_MAX): 'much' is not a share of one core: write it as 10%\n"
    );
}

#[test]
fn a_variable_that_is_no_text_is_refused_not_skipped() {
    let bytes: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    let output = khz(&["config"]).env("KHZ_LISTEN", bytes).output().unwrap();
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    assert_eq!(err(&output), "khz: KHZ_LISTEN: the value is not UTF-8 text\n");
}

#[test]
fn off_loopback_is_refused() {
    let output = run(&["--listen", "0.0.0.0:0"]);
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    assert!(err(&output).contains("--insecure"));
}

#[test]
fn the_catalogue_is_listed_and_searched() {
    let all = run(&["catalog", "--direct"]);
    assert!(out(&all).lines().count() > 150);
    let one = run(&["catalog", "mem.free", "--json", "--direct"]);
    let entry: serde_json::Value = serde_json::from_str(&out(&one)).unwrap();
    assert_eq!((entry["name"].as_str(), entry["unit"].as_str()), (Some("mem.free"), Some("bytes")));
    let none = run(&["catalog", "zebra.*", "--direct"]);
    assert_eq!((code(&none), out(&none).as_str()), (1, ""));
}

#[test]
fn a_reader_that_closes_early_is_no_failure() {
    let mut child = khz(&["catalog", "--json", "--direct"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!((child.wait().unwrap().code(), message.as_str()), (Some(0), ""));
}

#[test]
fn man_pages_and_completions_are_generated() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-man", std::process::id()));
    let output = run(&["man", directory.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    for page in ["khz.1", "khz-get.1", "khz-watch.1", "khz-config.1"] {
        let text = std::fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.contains(".SH"), "{page}");
    }
    assert!(!directory.join("khz-complete.1").exists(), "only scripts call it");
    for shell in ["bash", "zsh", "fish"] {
        assert!(out(&run(&["completions", shell])).contains(&format!("khz complete {shell} ")), "{shell}");
    }
    assert!(out(&run(&["completions", "elvish"])).contains("rate-max"));
}

#[test]
fn no_khz_at_the_server_is_a_failure_that_names_it() {
    // A port that was ours a moment ago: nothing listens there now.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for arguments in [&["get", "mem.free", "--server", &url][..], &["watch", "mem.free", "--server", &url]] {
        let output = run(arguments);
        assert_eq!(code(&output), 1);
        assert!(err(&output).starts_with(&format!("khz: no khz answers at {url}/: ")), "{}", err(&output));
    }
}

#[test]
fn a_server_that_is_not_khz_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
        while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        let body = "<html>a printer</html>";
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
    });
    let output = run(&["get", "mem.free", "--server", &url]);
    other.join().unwrap();
    assert_eq!(code(&output), 1);
    assert!(
        err(&output).starts_with(&format!("khz: {url}/ does not answer as khz does: ")),
        "{}",
        err(&output)
    );
}

/// Its stderr is on a full disk, or nobody reads it: Slurm requeues a job whose prolog fails.
#[test]
fn nothing_fails_because_stderr_cannot_be_written() {
    let ended = |words: &[&str], stderr: std::process::Stdio| {
        let mut command = khz(words);
        command.env("SLURM_JOB_ID", "9").env("SLURM_JOB_NODELIST", "n[1-2]");
        command.env("SLURM_SCRIPT_CONTEXT", "prolog_slurmctld");
        command.stdout(std::process::Stdio::null()).stderr(stderr).status().unwrap().code()
    };
    for (words, code) in [
        (&["job", "start"][..], 0),
        (&["job", "end"], 0),
        (&["get", "nosuch.metric", "--direct"], 1),
        (&["rules", "check", "/nonexistent"], 1),
        (&["top", "--frobnicate"], 2),
        (&["tpo"], 2),
        (&["handler", "check", "/nonexistent"], 1),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(ended(words, full.into()), Some(code), "{words:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(ended(words, writer.into()), Some(code), "{words:?}");
    }
}
