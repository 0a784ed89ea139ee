//! The daemon's text protocol: a line in, an answer out; owns no connection.

use std::path::{Component, Path, PathBuf};

use super::pending::Pending;
use crate::dump::Prologue;
use crate::error::{Error, Result, refused};
use crate::file::{Access, Rrd};
use crate::info::{self, Value};
use crate::number;
use crate::rra::Function;
use crate::{cache, cli, fetch};

/// Where relative names lie, and whether names may lead elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Base {
    /// The directory.
    pub directory: PathBuf,
    /// Whether every file must be below it.
    pub confine: bool,
}

impl Base {
    /// The path a name means.
    ///
    /// # Errors
    /// It leads out of a confining base, be it through a symbolic link.
    pub fn path(&self, name: &str) -> Result<String> {
        let path = self.directory.join(name);
        if self.confine {
            let outside =
                || Error::Refused(format!("Permission denied: {name} is not below the base directory"));
            if path.components().any(|part| part == Component::ParentDir) {
                return Err(outside());
            }
            let base = self.directory.canonicalize().map_err(|_| outside())?;
            // A file that does not exist yet is judged by its directory.
            let real =
                path.canonicalize().or_else(|_| path.parent().unwrap_or(Path::new("/")).canonicalize());
            if !real.is_ok_and(|real| real.starts_with(&base)) {
                return Err(outside());
            }
        }
        Ok(path.to_string_lossy().into_owned())
    }
}

/// One client's conversation.
pub struct Session<'a> {
    pending: &'a Pending,
    base: &'a Base,
    batch: Option<Batch>,
}

#[derive(Default)]
struct Batch {
    commands: u64,
    errors: Vec<String>,
}

/// Errors one batch tells; the rest are counted.
const BATCH_ERRORS_MAX: usize = 10_000;

/// What to do with a line's outcome.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// Send this.
    Text(String),
    /// Send these bytes.
    Bytes(Vec<u8>),
    /// Send these bytes, then hang up.
    Last(Vec<u8>),
    /// Send nothing.
    Silence,
    /// Hang up.
    Quit,
}

impl<'a> Session<'a> {
    /// A conversation about `pending`.
    pub fn new(pending: &'a Pending, base: &'a Base) -> Self {
        Self { pending, base, batch: None }
    }

    /// Answers one line, without its end.
    pub fn line(&mut self, line: &str) -> Reply {
        let words = words(line);
        let Some(name) = words.first().map(|word| word.to_ascii_uppercase()) else { return Reply::Silence };
        if self.batch.is_some() {
            return self.batched(&name, &words);
        }
        match name.as_str() {
            "QUIT" => Reply::Quit,
            "BATCH" => {
                self.batch = Some(Batch::default());
                Reply::Text("0 Go ahead.  End with dot '.' on its own line.\n".into())
            }
            "FETCHBIN" => match self.fetch_binary(&words[1..]) {
                Ok(bytes) => Reply::Bytes(bytes),
                Err(error) => Reply::Text(format!("-1 {error}\n")),
            },
            "DUMP" => match self.dump(&words[1..]) {
                Ok(bytes) => Reply::Last(bytes),
                Err(error) => Reply::Text(format!("-1 {error}\n")),
            },
            _ => Reply::Text(match self.command(&name, &words[1..]) {
                Ok(text) => text,
                Err(error) => format!("-1 {error}\n"),
            }),
        }
    }

    fn batched(&mut self, name: &str, words: &[String]) -> Reply {
        if name == "." {
            let batch = self.batch.take().unwrap_or_default();
            let mut text = format!("{} errors\n", batch.errors.len());
            text.extend(batch.errors);
            return Reply::Text(text);
        }
        if name == "QUIT" {
            return Reply::Quit;
        }
        let allowed = ["UPDATE", "FLUSH", "FORGET", "CREATE", "SUSPEND", "RESUME", "SUSPENDALL", "RESUMEALL"];
        let outcome = match allowed.contains(&name) {
            true => self.command(name, &words[1..]),
            false => refused(format!("Can't use '{name}' here.")),
        };
        if let Some(batch) = &mut self.batch {
            batch.commands += 1;
            // FLUSH's answers may be errors of their own.
            let failed = match outcome {
                Ok(text) => text.strip_prefix("-1 ").map(str::to_string),
                Err(error) => Some(format!("{error}\n")),
            };
            if let Some(error) = failed.filter(|_| batch.errors.len() < BATCH_ERRORS_MAX) {
                batch.errors.push(format!("{} {error}", batch.commands));
            }
        }
        Reply::Silence
    }

    fn command(&self, name: &str, words: &[String]) -> Result<String> {
        let file = || match words.first() {
            Some(name) => self.base.path(name),
            None => refused(format!("Usage: {name} <filename>")),
        };
        match name {
            "PING" => Ok("0 PONG\n".into()),
            "HELP" => Ok(help()),
            "STATS" => Ok(self.stats()),
            "UPDATE" => {
                let samples: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
                if samples.is_empty() {
                    return refused("Usage: UPDATE <filename> <values> [<values> ...]");
                }
                let taken = self.pending.update(&file()?, &samples)?;
                Ok(format!("0 errors, enqueued {taken} value(s).\n"))
            }
            "FLUSH" => {
                let file = file()?;
                match self.pending.flush(&file)? {
                    Some(()) => Ok(format!("0 Successfully flushed {file}.\n")),
                    None if Path::new(&file).exists() => Ok(format!("0 Nothing to flush: {file}.\n")),
                    None => refused(format!("No such file: {file}.")),
                }
            }
            "FLUSHALL" => {
                self.pending.flush_all();
                Ok("0 Started flush.\n".into())
            }
            "PENDING" => {
                let samples = self.pending.pending(&file()?).unwrap_or_default();
                Ok(list("updates pending", samples))
            }
            "FORGET" => match self.pending.forget(&file()?)? {
                true => Ok("0 Gone!\n".into()),
                false => refused("No such file or directory"),
            },
            "QUEUE" => {
                let line = |(count, file)| format!("{count} {file}");
                Ok(list("in queue.", self.pending.queue().into_iter().map(line).collect()))
            }
            "SUSPEND" | "RESUME" => {
                let (file, done) = (file()?, if name == "SUSPEND" { "suspended" } else { "resumed" });
                match self.pending.suspend(Some(&file), name == "SUSPEND")? {
                    0 => refused(format!("{file} already {done}")),
                    _ => Ok(format!("0 {file} {done}\n")),
                }
            }
            "SUSPENDALL" => Ok(format!("0 {} rrds suspend\n", self.pending.suspend(None, true)?)),
            "RESUMEALL" => Ok(format!("0 {} rrds resumed\n", self.pending.suspend(None, false)?)),
            "FIRST" => {
                let header = self.open(&file()?)?.header;
                let rra = words.get(1).map_or(Some(0), |word| word.parse().ok());
                let Some(rra) = rra.filter(|rra| *rra < header.archives().len()) else {
                    return refused("invalid rraindex number");
                };
                let reach = (header.archives()[rra].rows - 1).wrapping_mul(header.row_seconds(rra));
                Ok(format!("0 {}\n", header.newest_row_end(rra).wrapping_sub(reach as i64)))
            }
            "LAST" => {
                let file = file()?;
                let (last, step) = (self.pending.last(&file)?, self.open(&file)?.header.step() as i64);
                Ok(format!("0 {}\n", last - last.rem_euclid(step)))
            }
            "INFO" => self.info(&file()?),
            "FETCH" => self.fetch(words),
            "CREATE" => {
                let file = file()?;
                let mut arguments = vec!["create".to_string(), file];
                arguments.extend(words.iter().skip(1).cloned());
                arguments.retain(|word| word != "-d" && !word.starts_with("--daemon"));
                cli::create_here(&arguments[1..])?;
                Ok("0 RRD created OK\n".into())
            }
            "LIST" => self.list(words),
            "TUNE" => {
                // Name, number of arguments, arguments: the number is what another daemon trusts.
                let file = file()?;
                self.pending.flush(&file)?;
                let mut arguments = vec!["tune".to_string(), file.clone()];
                arguments.extend(words.iter().skip(2).cloned());
                arguments.retain(|word| word != "-D" && !word.starts_with("--daemon"));
                cli::tune_here(&arguments[1..])?;
                self.pending.forget(&file)?;
                Ok("0 Success\n".into())
            }
            _ => refused(format!("Unknown command: {name}")),
        }
    }

    fn open(&self, file: &str) -> Result<Rrd> {
        Rrd::open(Path::new(file), Access::Read)
    }

    fn stats(&self) -> String {
        let (stats, (bytes, rotations)) = self.pending.stats();
        let lines = [
            ("QueueLength", stats.queue),
            ("UpdatesReceived", stats.received),
            ("FlushesReceived", stats.flushes),
            ("UpdatesWritten", stats.updates_written),
            ("DataSetsWritten", stats.sets_written),
            ("TreeNodesNumber", stats.nodes),
            ("TreeDepth", 1),
            ("JournalBytes", bytes),
            ("JournalRotate", rotations),
            ("UpdatesPending", stats.waiting),
            ("WritesFailed", stats.failures),
            ("UpdatesRefused", stats.refused),
        ];
        list("Statistics follow", lines.iter().map(|(name, value)| format!("{name}: {value}")).collect())
    }

    fn info(&self, file: &str) -> Result<String> {
        let rrd = self.open(file)?;
        let line = |(key, value): (String, Value)| match value {
            Value::Number(number) => format!("{key} 0 {}", info::number_text(number)),
            Value::Count(count) => format!("{key} 1 {count}"),
            Value::Text(text) => format!("{key} 2 {text}"),
            Value::Integer(number) => format!("{key} 3 {number}"),
        };
        let lines: Vec<String> = info::describe(&rrd.header, file).into_iter().map(line).collect();
        Ok(list(&format!("Info for {file} follows"), lines))
    }

    /// What `FILE CF [START [END]]` asks for, after a flush.
    fn fetched(&self, words: &[String]) -> Result<(Rrd, fetch::Fetched)> {
        let [name, function, ..] = words else {
            return refused("Usage: FETCH <file> <CF> [<start> [<end>]]");
        };
        let file = self.base.path(name)?;
        let Some(function) = Function::from_name(function) else {
            return refused(format!("unknown consolidation function '{function}'"));
        };
        let now = crate::file::clock().seconds;
        let time = |at: usize, default: i64| match words.get(at) {
            None => Ok(default),
            Some(text) => match text.parse::<i64>() {
                // Not above zero: from now.
                Ok(seconds) if seconds <= 0 => Ok(now.saturating_add(seconds)),
                Ok(seconds) => Ok(seconds),
                Err(_) => refused(format!("Cannot parse the time '{text}'")),
            },
        };
        let (start, end) = (time(2, now - 86_400)?, time(3, now)?);
        self.pending.flush(&file)?;
        let rrd = self.open(&file)?;
        let fetched = fetch::fetch(&rrd, function, start, end, 1)?;
        Ok((rrd, fetched))
    }

    fn fetch(&self, words: &[String]) -> Result<String> {
        let (rrd, fetched) = self.fetched(words)?;
        let names: Vec<&str> = rrd.header.sources().iter().map(|source| source.name.as_str()).collect();
        let mut lines = heading(&fetched, names.len());
        lines.push(format!("DSName: {}", names.join(" ")));
        for (row, values) in fetched.values.chunks(names.len().max(1)).enumerate() {
            let time = fetched.start + (row as i64 + 1) * fetched.step as i64;
            let values: String =
                values.iter().map(|value| format!(" {}", number::scientific(*value, 17))).collect();
            lines.push(format!("{time:>10}:{values}"));
        }
        Ok(list("Success", lines))
    }

    fn fetch_binary(&self, words: &[String]) -> Result<Vec<u8>> {
        let (rrd, fetched) = self.fetched(words)?;
        let sources = rrd.header.sources();
        let lines = heading(&fetched, sources.len());
        let mut answer =
            format!("{} Success\n{}\n", lines.len() + sources.len(), lines.join("\n")).into_bytes();
        let rows = fetched.values.len() / sources.len().max(1);
        for (ds, source) in sources.iter().enumerate() {
            answer.extend(format!("DSName-{}: BinaryData {rows} 8 LITTLE\n", source.name).bytes());
            let column = fetched.values.iter().skip(ds).step_by(sources.len());
            answer.extend(column.flat_map(|value| value.to_bits().to_le_bytes()));
            answer.push(b'\n');
        }
        Ok(answer)
    }

    fn dump(&self, words: &[String]) -> Result<Vec<u8>> {
        let Some(name) = words.first() else { return refused("Usage: DUMP <filename>") };
        let file = self.base.path(name)?;
        self.pending.flush(&file)?;
        let mut text = vec![];
        crate::dump::dump(&self.open(&file)?, Prologue::Dtd, &mut text)?;
        Ok(text)
    }

    /// Directories and `.rrd` files below the base directory, without following symbolic links.
    fn list(&self, words: &[String]) -> Result<String> {
        let recursive = words.first().is_some_and(|word| word.eq_ignore_ascii_case("RECURSIVE"));
        let Some(path) = words.get(usize::from(recursive)).filter(|path| path.starts_with('/')) else {
            return refused("Usage: LIST [RECURSIVE] /<path>");
        };
        if self.base.directory.as_os_str().is_empty() {
            return refused("No permission to list: there is no base directory");
        }
        // Always confined: the path is one inside of the base directory.
        let base = Base { directory: self.base.directory.clone(), confine: true };
        let directory = PathBuf::from(base.path(path.trim_start_matches('/'))?);
        let mut names = vec![];
        if recursive {
            let mut failed = 0;
            for file in cache::rrd_files(&directory, &mut failed) {
                let name = file.strip_prefix(&directory).unwrap_or(&file);
                names.push(name.to_string_lossy().into_owned());
            }
        } else {
            let failed = |error| Error::io("reading", &directory, error);
            for entry in std::fs::read_dir(&directory).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.ends_with(".rrd") || entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    names.push(name);
                }
            }
            names.sort();
        }
        Ok(list("RRDs", names))
    }
}

/// What stands before the values of a fetch.
fn heading(fetched: &fetch::Fetched, sources: usize) -> Vec<String> {
    vec![
        "FlushVersion: 1".into(),
        format!("Start: {}", fetched.start),
        format!("End: {}", fetched.end),
        format!("Step: {}", fetched.step),
        format!("DSCount: {sources}"),
    ]
}

/// An answer of several lines.
fn list(text: &str, lines: Vec<String>) -> String {
    let mut answer = format!("{} {text}\n", lines.len());
    for line in lines {
        answer.push_str(&line);
        answer.push('\n');
    }
    answer
}

fn help() -> String {
    let commands = "BATCH CREATE DUMP FETCH FETCHBIN FIRST FLUSH FLUSHALL FORGET HELP INFO LAST LIST PENDING PING QUEUE QUIT RESUME \
                    RESUMEALL STATS SUSPEND SUSPENDALL TUNE UPDATE";
    list("Command overview", commands.split_whitespace().map(str::to_string).collect())
}

/// A line's words: blanks separate, a backslash keeps the next character.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word) = (vec![], String::new());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.extend(letters.next()),
            ' ' | '\t' | '\r' => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}
