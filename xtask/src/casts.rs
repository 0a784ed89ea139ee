//! Records sessions in a terminal as plain text, `docs/casts/NAME.cast` (asciicast, version 2): a demo runs, `script` (Debian package
//! bsdutils) gives each session a terminal, and its keys are typed at their times.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::step;

/// The columns of each terminal.
const COLUMNS: u16 = 100;
/// The lines of each terminal.
const LINES: u16 = 30;
/// By then the demo has a slow node, a leak, a checkpoint and a dead node (docs/demo.md).
const DEMO_RUNS: Duration = Duration::from_secs(125);

/// A recorded session.
struct Session {
    name: &'static str,
    title: &'static str,
    /// Words after `khz`; `SERVER` is the demo's address. Several commands run one after another, each shown with its prompt.
    commands: &'static [&'static str],
    /// Seconds to wait, and what is typed then.
    keys: &'static [(f64, &'static str)],
}

const DOWN: &str = "\x1b[B";

const SESSIONS: [Session; 3] = [
    Session {
        name: "top-cluster",
        title: "khz top: which of 200 nodes is odd, and since when",
        commands: &["top --server SERVER"],
        keys: &[
            (4.0, "o"),
            (3.0, DOWN),
            (0.7, DOWN),
            (2.0, "o"),
            (2.0, "s"),
            (3.0, "v"),
            (3.0, "v"),
            (1.0, "w"),
            (4.0, "w"),
            (1.0, "q"),
        ],
    },
    Session {
        name: "top-past",
        title: "khz top: one node, at ten rows a second and in the past",
        commands: &["top node007 --server SERVER"],
        keys: &[
            (6.0, " "),
            (1.0, "b"),
            (0.5, "b"),
            (0.5, "b"),
            (0.5, "f"),
            (2.0, "B"),
            (2.0, "l"),
            (3.0, "?"),
            (3.0, "?"),
            (1.0, "q"),
        ],
    },
    Session {
        name: "commands",
        title: "khz nodes, get, watch: the same in lines",
        commands: &[
            "nodes --down --server SERVER",
            "get node[001-064]:cpu.all.steal --sort value --top 5 --server SERVER",
            "watch node[001-004]:cpu.all.user --for 6s --server SERVER",
        ],
        keys: &[(12.0, "")],
    },
];

/// Records all sessions.
pub fn record() -> Result<(), String> {
    step::run("cargo build --release -p khz", &[], &[])?;
    let khz = step::target().join("release/khz");
    let to = step::root().join("docs/casts");
    fs::create_dir_all(&to).map_err(|e| format!("cannot make {}: {e}", to.display()))?;
    let mut demo = Demo::start(&khz)?;
    eprintln!("xtask: the demo runs for {} s before the first session", DEMO_RUNS.as_secs());
    sleep(DEMO_RUNS);
    for session in &SESSIONS {
        let cast = cast_of(session, &khz, &demo.server)?;
        let path = to.join(format!("{}.cast", session.name));
        fs::write(&path, cast).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        eprintln!("xtask: wrote {}", path.display());
    }
    demo.end();
    Ok(())
}

/// A running demo.
struct Demo {
    child: Child,
    server: String,
}

impl Demo {
    fn start(khz: &Path) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("cannot start the demo: {e}");
        let mut command = Command::new(khz);
        command.args(["demo", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take().ok_or("BUG: the demo's output is not piped")?;
        let mut lines = BufReader::new(output).lines();
        let first = lines.next().ok_or("the demo ended at once")?.map_err(failed)?;
        let address = first.split_whitespace().find(|word| word.starts_with("http://"));
        let address = address.ok_or_else(|| format!("no address in the demo's first line: {first}"))?;
        let server = address.trim_end_matches("?tour").trim_end_matches('/').to_owned();
        // What it prints is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Demo { child, server })
    }

    fn end(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.child.wait();
    }
}

/// Runs a session, and gives what its terminal showed.
fn cast_of(session: &Session, khz: &Path, server: &str) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("the session {}: {e}", session.name);
    let (output, times) = (scratch(session, "output"), scratch(session, "times"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--log-out"]).arg(&output);
    command.args(["--logging-format", "classic", "--log-timing"]).arg(&times);
    command.args(["--command", &shell_line(session, khz, server)]);
    command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let mut keyboard = child.stdin.take().ok_or("BUG: the keyboard is not piped")?;
    for (seconds, keys) in session.keys {
        sleep(Duration::from_secs_f64(*seconds));
        keyboard.write_all(keys.as_bytes()).and_then(|()| keyboard.flush()).map_err(failed)?;
    }
    drop(keyboard);
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(format!("the session {} ended with {status}", session.name));
    }
    let shown = fs::read(&output).map_err(failed)?;
    let timing = fs::read_to_string(&times).map_err(failed)?;
    let _ = (fs::remove_file(&output), fs::remove_file(&times));
    cast(session.title, &shown, &timing)
}

fn scratch(session: &Session, what: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("khz-cast-{}-{}-{what}", std::process::id(), session.name))
}

/// The shell's line: each command with its prompt, as a person would see it.
fn shell_line(session: &Session, khz: &Path, server: &str) -> String {
    let mut line = format!("stty cols {COLUMNS} rows {LINES}");
    for command in session.commands {
        let shown = command.replace(" --server SERVER", "");
        let words: Vec<String> =
            command.replace("SERVER", server).split(' ').map(|word| format!("'{word}'")).collect();
        line += &format!("; echo '$ khz {shown}'; '{}' {}", khz.display(), words.join(" "));
    }
    line
}

/// An asciicast out of what `script` wrote: its output, of which the first line is a heading, and of each piece the seconds since the
/// last one and its bytes.
fn cast(title: &str, output: &[u8], timing: &str) -> Result<String, String> {
    let head = serde_json::json!({ "version": 2, "width": COLUMNS, "height": LINES, "title": title });
    let mut cast = format!("{head}\n");
    let heading = output.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let (mut at, mut time, mut waiting) = (heading, 0.0, Vec::new());
    for (number, line) in timing.lines().enumerate() {
        let piece = line.split_once(' ');
        let piece =
            piece.and_then(|(wait, bytes)| Some((wait.parse::<f64>().ok()?, bytes.parse::<usize>().ok()?)));
        let (wait, bytes) =
            piece.ok_or_else(|| format!("line {} of the times is no piece: {line}", number + 1))?;
        let end = at + bytes;
        let new = output.get(at..end).ok_or_else(|| format!("the output ends before byte {end}"))?;
        (at, time) = (end, time + wait);
        waiting.extend_from_slice(new);
        // A character may come in two pieces.
        let whole = whole_characters(&waiting);
        let text: String = String::from_utf8_lossy(&waiting.drain(..whole).collect::<Vec<u8>>()).into_owned();
        if !text.is_empty() {
            cast += &format!("{}\n", serde_json::json!([(time * 1e3).round() / 1e3, "o", text]));
        }
    }
    Ok(cast)
}

/// How many bytes are whole characters; the rest is the begin of one.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(e) if e.error_len().is_none() => e.valid_up_to(),
        Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_their_times_and_a_character_in_two_pieces_is_whole() {
        let output = "Script started\na⣿b".as_bytes();
        let cast = cast("t", output, "0.5 2\n0.25 3\n").unwrap();
        let lines: Vec<serde_json::Value> =
            cast.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["version"], 2);
        assert_eq!(lines[1], serde_json::json!([0.5, "o", "a"]));
        assert_eq!(lines[2], serde_json::json!([0.75, "o", "⣿b"]));
    }

    #[test]
    fn times_that_do_not_fit_the_output_are_refused() {
        assert!(cast("t", b"x\nabc", "0.1 9\n").unwrap_err().contains("byte"));
        assert!(cast("t", b"x\nabc", "soon\n").unwrap_err().contains("line 1"));
    }
}
