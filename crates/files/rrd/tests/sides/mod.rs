//! Both programs in directories of their own that hold the same files.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use khz_rrd::content::Content;
use khz_rrd::file::{Access, Rrd};

use super::oracle::{self, Random};

/// How the programs get the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each to a process of its own.
    Alone,
    /// To one process, line by line.
    Pipe,
    /// Each to a process of its own, through a caching daemon: theirs through Debian's, ours through ours.
    Daemon,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The exit code; none where it was killed.
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
    /// Name and bytes of each file afterwards, archives turned to their first row.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Both results.
#[derive(Debug, Clone)]
pub struct Difference {
    pub theirs: Outcome,
    pub ours: Outcome,
}

impl Difference {
    /// Names of files that are not the same.
    pub fn files(&self) -> Vec<&str> {
        let names = self.theirs.files.keys().chain(self.ours.files.keys());
        let mut names: Vec<&str> = names
            .filter(|name| self.theirs.files.get(*name) != self.ours.files.get(*name))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (&self.theirs, &self.ours);
        if a.code != b.code {
            writeln!(out, "  exit code: rrdtool {:?}, ours {:?}", a.code, b.code)?;
        }
        for (what, a, b) in [("output", &a.out, &b.out), ("error", &a.error, &b.error)] {
            if a != b {
                let at = a.lines().zip(b.lines()).take_while(|(a, b)| a == b).count();
                let line = |text: &str| text.lines().skip(at).take(3).collect::<Vec<_>>().join(" | ");
                writeln!(out, "  {what} from line {at}\n   rrdtool: {}\n      ours: {}", line(a), line(b))?;
            }
        }
        for name in self.files() {
            match (a.files.get(name), b.files.get(name)) {
                (Some(a), Some(b)) => {
                    writeln!(
                        out,
                        "  {name}: {} and {} bytes, first difference at {:?}",
                        a.len(),
                        b.len(),
                        oracle::first_difference(a, b)
                    )?;
                }
                (a, b) => {
                    writeln!(out, "  {name}: there for rrdtool: {}, for ours: {}", a.is_some(), b.is_some())?
                }
            }
        }
        Ok(())
    }
}

/// A command as one could type it.
pub fn shown(words: &[String]) -> String {
    let quoted = |word: &String| match word
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"'\"\\#*?$&;|<>()".contains(&byte))
        && !word.is_empty()
    {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// One program.
struct Side {
    dir: PathBuf,
    program: PathBuf,
    pipe: Option<Pipe>,
    daemon: Option<Child>,
    locale: Locale,
}

/// The language that the programs run in, as variables of their environment.
pub type Locale = Vec<(&'static str, PathBuf)>;

struct Pipe {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Pipe {
    /// The further lines of an error, which nothing ends: all up to the answer to another command.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        let asked = writeln!(self.input, "info {END}").and_then(|()| self.input.flush());
        while asked.is_ok() {
            let mut bytes = vec![];
            let read = self.output.read_until(b'\n', &mut bytes).unwrap_or(0);
            let text = String::from_utf8_lossy(&bytes);
            if read == 0 || text.contains(END) {
                break;
            }
            rest.push_str(&text);
        }
        rest
    }
}

pub struct Sides {
    mode: Mode,
    theirs: Side,
    ours: Side,
    /// Whether the last command failed.
    pub failed: bool,
}

/// How our daemon says in the answer to a flush that samples could not be written.
pub const DROPPED: &str = " updates are dropped: ";
/// Of a hundred commands through daemons, after how many what waits is written and the files are compared.
const FLUSHES: u64 = 50;
/// A file that no command makes.
const END: &str = "end-of-the-error";
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of output that are compared.
const OUTPUT_MAX: u64 = 4 << 20;

impl Sides {
    /// Beside the installed programs, `program`: rrdtool's commands, and with the word `rrdcached` the daemon.
    pub fn start(program: &str, seed: u64, mode: Mode) -> Self {
        Self::start_in(program, seed, mode, &vec![("LC_ALL", "C".into())])
    }

    /// The same in another language.
    pub fn start_in(program: &str, seed: u64, mode: Mode, locale: &Locale) -> Self {
        let ours = program;
        let dir = oracle::directory(&format!("fuzz{seed}"));
        let program = dir.join("rrdtool");
        std::os::unix::fs::symlink(ours, &program).unwrap();
        let theirs = Side::start(dir.join("theirs"), "rrdtool".into(), mode, locale, "rrdcached", &[]);
        let ours = Side::start(dir.join("ours"), program, mode, locale, ours, &["rrdcached"]);
        Self { mode, theirs, ours, failed: false }
    }

    pub fn place(&self) -> String {
        self.ours.dir.parent().unwrap().display().to_string()
    }

    /// Has both run a command; returns what differs, if anything does.
    pub fn compare(&mut self, words: &[String], random: &mut Random) -> Option<Difference> {
        let before = self.theirs.files();
        let line = line(words, random);
        let run = |sides: &mut Self| Difference {
            theirs: sides.theirs.run(sides.mode, words, &line),
            ours: sides.ours.run(sides.mode, words, &line),
        };
        let mut both = run(self);
        let is_same = |both: &Difference| both.theirs == both.ours;
        if !is_same(&both) && self.mode == Mode::Alone {
            // A second may have passed between the two.
            for side in [&self.theirs, &self.ours] {
                side.put(&before);
            }
            both = run(self);
        }
        self.failed = both.theirs.code != Some(0);
        if self.mode == Mode::Daemon && random.chance(FLUSHES) {
            self.flush(&mut both);
        }
        if is_same(&both) {
            // Row positions are random: from here on they are the same.
            self.align();
            return None;
        }
        Some(both)
    }

    /// Has both daemons write what waits; returns what differs in the files, if anything does.
    pub fn compare_files(&self) -> Option<Difference> {
        let mut both = Difference { theirs: Outcome::default(), ours: Outcome::default() };
        self.flush(&mut both);
        (both.theirs != both.ours).then_some(both)
    }

    /// Adds to both outcomes the files with all that waits, and to ours the samples that were dropped.
    fn flush(&self, both: &mut Difference) {
        for (side, outcome) in [(&self.theirs, &mut both.theirs), (&self.ours, &mut both.ours)] {
            let answers = side.flush();
            let dropped = answers.iter().filter(|answer| answer.contains(DROPPED));
            dropped.for_each(|answer| outcome.error.push_str(answer));
            outcome.files = side.files();
        }
    }

    /// Gives ours the files of theirs; false where the programs have more state than files.
    pub fn align(&mut self) -> bool {
        if self.mode == Mode::Daemon {
            return false;
        }
        self.ours.put(&self.theirs.raw_files());
        true
    }

    pub fn remove(self) {
        let _ = std::fs::remove_dir_all(self.ours.dir.parent().unwrap());
    }
}

impl Side {
    fn start(
        dir: PathBuf,
        program: PathBuf,
        mode: Mode,
        locale: &Locale,
        daemon: &str,
        before: &[&str],
    ) -> Self {
        std::fs::create_dir_all(dir.join("dir")).unwrap();
        std::fs::write(dir.join("junk.rrd"), "no such thing").unwrap();
        let mut side = Self { dir, program, pipe: None, daemon: None, locale: locale.clone() };
        if mode == Mode::Pipe {
            let mut child =
                side.command().arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
            side.pipe = Some(Pipe { child, input, output });
        }
        if mode == Mode::Daemon {
            let mut command = Command::new(daemon);
            command.args(before).args(["-g", "-w", "3600", "-p"]).arg(side.dir.join(".pid"));
            command.arg("-b").arg(&side.dir).arg("-l").arg(side.address()).current_dir(&side.dir);
            side.daemon =
                Some(command.env_remove("RRDCACHED_ADDRESS").stderr(Stdio::null()).spawn().unwrap());
            let started = Instant::now();
            while UnixStream::connect(side.dir.join(".socket")).is_err() {
                assert!(started.elapsed() < PATIENCE, "{daemon} opens no socket");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        side
    }

    fn address(&self) -> String {
        format!("unix:{}", self.dir.join(".socket").display())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.dir).env("TZ", "UTC").env_remove("RRDCACHED_ADDRESS");
        command.envs(self.locale.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn run(&mut self, mode: Mode, words: &[String], line: &str) -> Outcome {
        let mut outcome = match mode {
            Mode::Pipe => self.ask(line),
            Mode::Alone => self.spawn(words, false),
            Mode::Daemon => self.spawn(words, true),
        };
        let dir = self.dir.display().to_string();
        for text in [&mut outcome.out, &mut outcome.error] {
            *text = text.replace(&dir, "@");
        }
        if mode == Mode::Daemon && outcome.out.contains("].cur_row = ") {
            // Random, and not aligned.
            let kept = outcome.out.lines().filter(|line| !line.contains("].cur_row = "));
            outcome.out = kept.map(|line| format!("{line}\n")).collect();
        }
        // A daemon writes when it likes.
        if mode != Mode::Daemon {
            outcome.files = self.files();
        }
        outcome
    }

    fn spawn(&self, words: &[String], daemon: bool) -> Outcome {
        let mut command = self.command();
        if daemon {
            command.env("RRDCACHED_ADDRESS", self.address());
        }
        let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut error) = (vec![], vec![]);
        let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| stderr.read_to_end(&mut error).unwrap());
            stdout.take(OUTPUT_MAX).read_to_end(&mut out).unwrap();
        });
        let status = child.wait().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Outcome { code: status.code(), out: text(&out), error: text(&error), ..Outcome::default() }
    }

    /// Has the daemon write what waits for each file; returns its answers.
    fn flush(&self) -> Vec<String> {
        let stream = UnixStream::connect(self.dir.join(".socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut input, mut output) = (&stream, BufReader::new(&stream));
        let mut ask = |line: String| {
            writeln!(input, "{line}").unwrap();
            let mut answer = String::new();
            output.read_line(&mut answer).unwrap();
            answer
        };
        let mut answers: Vec<String> =
            self.raw_files().into_keys().map(|name| ask(format!("FLUSH {name}"))).collect();
        // A command that wrote before this did not say what was dropped.
        let lines = ask("STATS".into()).split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        for line in output.lines().take(lines) {
            let line = line.unwrap();
            if line.strip_prefix("UpdatesRefused: ").is_some_and(|count| count != "0") {
                answers.push(format!("{DROPPED}{line}"));
            }
        }
        answers
    }

    fn ask(&mut self, line: &str) -> Outcome {
        let pipe = self.pipe.as_mut().unwrap();
        let mut outcome = Outcome::default();
        if writeln!(pipe.input, "{line}").and_then(|()| pipe.input.flush()).is_err() {
            return outcome;
        }
        loop {
            let mut bytes = vec![];
            let read = pipe.output.read_until(b'\n', &mut bytes).unwrap_or(0);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if read == 0 {
                return outcome;
            }
            if text.starts_with("OK u:") {
                outcome.code = Some(0);
                return outcome;
            }
            if text.starts_with("ERROR: ") {
                (outcome.code, outcome.error) = (Some(1), text);
                outcome.error.push_str(&pipe.rest());
                return outcome;
            }
            outcome.out.push_str(&text);
        }
    }

    /// The files, row positions left out.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.raw_files();
        for (name, bytes) in &mut files {
            if let Some(turned) = turned(&self.dir.join(name)) {
                *bytes = turned;
            }
        }
        files
    }

    fn raw_files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        entries
            .filter(|path| path.is_file() && !name(path).starts_with('.'))
            .map(|path| (name(&path), std::fs::read(&path).unwrap()))
            .collect()
    }

    /// Makes the directory hold these files and no others.
    fn put(&self, files: &BTreeMap<String, Vec<u8>>) {
        let old = self.raw_files();
        for name in old.keys().filter(|name| !files.contains_key(*name)) {
            std::fs::remove_file(self.dir.join(name)).unwrap();
        }
        for (name, bytes) in files.iter().filter(|(name, bytes)| old.get(*name) != Some(*bytes)) {
            std::fs::write(self.dir.join(name), bytes).unwrap();
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        for child in self.pipe.as_mut().map(|pipe| &mut pipe.child).into_iter().chain(&mut self.daemon) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The bytes of a file as if all its archives were at their first row; `None` for another file.
fn turned(path: &Path) -> Option<Vec<u8>> {
    let rrd = Rrd::open(path, Access::Read).ok()?;
    let mut header = rrd.header.clone();
    let content = Content::read(&rrd).ok()?;
    (0..header.archives().len()).for_each(|rra| header.set_current_row(rra, 0));
    let mut bytes = header.bytes().to_vec();
    for archive in content.archives {
        // The kind of unknown is compared too.
        bytes.extend(archive.values.iter().flat_map(|value| value.to_bits().to_le_bytes()));
    }
    Some(bytes)
}

/// The line for the pipe: each word bare or in quotes of either kind.
fn line(words: &[String], random: &mut Random) -> String {
    let quoted = |word: &String, random: &mut Random| {
        let needs_quotes = word.is_empty() || word.contains([' ', '\t', '"', '\'']);
        match random.below(4) {
            0 if !word.contains('"') => format!("\"{word}\""),
            1 if !word.contains('\'') => format!("'{word}'"),
            _ if needs_quotes && !word.contains('"') => format!("\"{word}\""),
            _ if needs_quotes && !word.contains('\'') => format!("'{word}'"),
            _ => word.clone(),
        }
    };
    words.iter().map(|word| quoted(word, random)).collect::<Vec<_>>().join(" ")
}
