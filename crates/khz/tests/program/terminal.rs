//! What commands print on a terminal: it fits, its colours can be refused, and nothing of it is in a pipe.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::process::{Running, code, err, khz, out, run};

/// `khz` on a terminal with this many columns, with these variables.
fn on_terminal(like: &Command, columns: usize, variables: &[(&str, &str)], words: &str) -> Output {
    let mut command = Command::new("script");
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("COLUMNS", columns.to_string()).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
    command.env_remove("NO_COLOR").envs(variables.iter().copied());
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_khz"));
    command.args(["-qfec", &line, "/dev/null"]).stdin(Stdio::null()).output().unwrap()
}

/// The lines without what moves the cursor or colours them.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let mut parts = text.split('\x1b');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.find(|c: char| c.is_ascii_alphabetic()).map_or("", |end| &part[end + 1..]));
    }
    plain.lines().map(str::to_owned).collect()
}

fn has_colour(output: &Output) -> bool {
    out(output).contains("\x1b[1m")
}

#[test]
fn tables_fit_every_terminal() {
    for columns in [1, 20, 40, 80, 500] {
        for words in
            ["get 'mem.*' 'net.*[*]' --direct", "catalog --direct", "catalog 'net.*' --direct --color always"]
        {
            let output = on_terminal(&khz(&[]), columns, &[], words);
            assert_eq!(code(&output), 0, "{words}: {}", out(&output));
            for line in lines(&output) {
                assert!(line.chars().count() <= columns, "{words} in {columns}: {line}");
            }
        }
    }
}

#[test]
fn colours_are_those_of_a_terminal_that_wants_them() {
    let of = |variables: &[(&str, &str)], words: &str| on_terminal(&khz(&[]), 80, variables, words);
    let words = "get mem.free --direct";
    assert!(has_colour(&of(&[], words)));
    for variables in [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "")] {
        assert!(!out(&of(&[variables], words)).contains('\x1b'), "{variables:?}");
    }
    assert!(!out(&of(&[], &format!("{words} --color never"))).contains('\x1b'));
    assert!(has_colour(&of(&[("NO_COLOR", "1")], &format!("{words} --color always"))));
    assert!(has_colour(&run(&["get", "mem.free", "--direct", "--color", "always"])), "also in a pipe");
}

#[test]
fn a_pipe_gets_neither_colours_nor_cuts_whatever_the_terminal_is() {
    for words in
        [&["get", "mem.total", "--direct"][..], &["catalog", "--direct"], &["catalog", "--json", "--direct"]]
    {
        let plain = run(words);
        let output =
            khz(words).env("COLUMNS", "20").env("TERM", "xterm").env("LC_ALL", "C").output().unwrap();
        assert_eq!(out(&plain), out(&output), "{words:?}");
        assert!(!out(&plain).contains(['\x1b', '…']), "{words:?}");
    }
}

#[test]
fn a_watch_has_a_picture_with_trends_and_lines_where_the_cursor_cannot_go_up() {
    let running = Running::start(&[]);
    let like = running.beside(&[]);
    let words = "watch 'cpu.all.*' load.1m --rate 10 --count 8";
    let picture = on_terminal(&like, 80, &[], &format!("{words} --top 3"));
    assert_eq!(code(&picture), 0, "{}", out(&picture));
    let shown = lines(&picture);
    assert!(shown.iter().any(|line| line.ends_with("TREND")), "{shown:?}");
    assert!(shown.iter().any(|line| line.contains("3 of 11 series")), "{shown:?}");
    for columns in [1, 20, 40, 500] {
        let narrow = on_terminal(&like, columns, &[("LC_ALL", "C")], words);
        assert_eq!(code(&narrow), 0, "{}", out(&narrow));
        for line in lines(&narrow) {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        assert!(out(&narrow).is_ascii(), "{}", out(&narrow));
    }
    let dumb = on_terminal(&like, 80, &[("TERM", "dumb")], words);
    assert!(out(&dumb).contains("# time\tnode\t") && !out(&dumb).contains('\x1b'), "{}", out(&dumb));
    let piped = running.beside(&["watch", "mem.free", "--top", "3"]).output().unwrap();
    assert_eq!((code(&piped), out(&piped).as_str()), (2, ""));
    assert!(err(&piped).contains("khz get --top"), "{}", err(&piped));
}

#[test]
fn a_watch_whose_reader_has_seen_enough_ends_well() {
    let running = Running::start(&[]);
    let mut watch = running.beside(&["watch", "load.*", "--rate", "50"]);
    let mut child = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
}

#[test]
fn an_order_is_the_same_in_a_table_and_in_json() {
    let first = |words: &[&str]| {
        out(&run(&[&["get", "mem.*", "--direct", "--sort", "value", "--top", "1"], words].concat()))
    };
    let (table, json) = (first(&[]), first(&["--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let name = json["name"].as_str().unwrap();
    assert!(table.lines().count() == 2 && table.lines().nth(1).unwrap().starts_with(name), "{table}");
}

#[test]
fn a_recording_shows_how_it_goes_on_a_terminal_alone() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-shown.khzt", std::process::id()));
    let words = format!("record load.1m mem.free --direct --rate 20 --for 2s -o {}", path.display());
    let shown = on_terminal(&khz(&[]), 80, &[], &words);
    let text = out(&shown);
    assert!(
        text.contains("\r\x1b[K") && text.contains("   none missing   ") && text.contains("/s"),
        "{text}"
    );
    assert!(text.trim_end().lines().last().unwrap().contains("shown.khzt: "), "{text}");
    let words: Vec<&str> = words.split(' ').collect();
    let output = run(&words);
    assert_eq!((code(&output), out(&output).as_str()), (0, ""));
    assert!(
        !err(&output).contains(['\r', '\x1b']) && !err(&output).contains("none missing"),
        "{}",
        err(&output)
    );
    let dumb = on_terminal(&khz(&[]), 80, &[("TERM", "dumb")], &words.join(" "));
    assert!(!out(&dumb).contains('\x1b'), "{}", out(&dumb));
    std::fs::remove_file(path).unwrap();
}
