//! The daemon's text protocol: lines in, answers out; owns no connection.
//!
//! All updates among the lines that came in one piece are taken together: one lock, one write to the log. Their
//! answers still stand where they belong.

use std::borrow::Cow;

use crate::answers::{self, list};
use crate::commands::{self, Command, Permissions};
use crate::create;
use crate::open_files::open_locked;
use crate::pending::{Pending, Update};
use khz_rrd::cli;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::Rrd;
use khz_rrd::text;

/// Bytes a line may have; rrdcached takes 4096.
pub const LINE_MAX: usize = 1 << 16;
/// Errors one batch tells; the rest are counted.
const BATCH_ERRORS_MAX: usize = 10_000;
/// Bytes each of them may have: they may have the whole line in them.
const BATCH_ERROR_MAX: usize = 300;
/// Bytes of answers after which those who asked have to take them.
const ANSWERS_MAX: usize = 1 << 20;

/// What a connection is allowed.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The commands its socket lets through.
    pub permissions: Permissions,
    /// Whether CREATE must leave files that are there alone.
    pub no_overwrite: bool,
    /// Whether CREATE may make directories.
    pub make_directories: bool,
}

/// One client's conversation.
pub struct Session<'a> {
    pending: &'a Pending,
    rules: Rules,
    batch: Option<Batch>,
}

#[derive(Default)]
struct Batch {
    commands: u64,
    errors: u64,
    told: Vec<String>,
}

/// What follows the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More lines.
    Read,
    /// Hang up.
    HangUp,
}

/// An update not taken yet: file, samples, its number in a batch.
type Waiting<'b> = (Cow<'b, str>, Cow<'b, str>, u64);

impl<'a> Session<'a> {
    /// A conversation about `pending`.
    pub fn new(pending: &'a Pending, rules: Rules) -> Self {
        Self { pending, rules, batch: None }
    }

    /// Answers whole `lines`, each with its end, appending to `out`, until that has enough; returns the bytes of the
    /// lines it answered.
    pub fn answer(&mut self, lines: &[u8], out: &mut Vec<u8>) -> (usize, Next) {
        let mut waiting: Vec<Waiting<'_>> = vec![];
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', lines) {
            let line = &lines[begin..end];
            begin = end + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = text::of(line);
            match self.as_update(line) {
                Ok(update) => waiting.push(update),
                Err(line) => {
                    self.take(&mut waiting, out);
                    let next = self.line(&line, out);
                    if next == Next::HangUp || out.len() >= ANSWERS_MAX {
                        return (begin, next);
                    }
                }
            }
        }
        self.take(&mut waiting, out);
        (begin, Next::Read)
    }

    /// The update that `line` is, or the line again.
    fn as_update<'b>(&mut self, line: Cow<'b, str>) -> std::result::Result<Waiting<'b>, Cow<'b, str>> {
        let is_update = line.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("UPDATE "));
        if !is_update || !self.rules.permissions.allow(&commands::COMMANDS[0]) {
            return Err(line);
        }
        let (name, samples): (Cow<'b, str>, Cow<'b, str>) = match line {
            Cow::Borrowed(line) if memchr::memchr2(b'\\', b'\t', line.as_bytes()).is_none() => {
                let rest = line[7..].trim_start_matches(' ');
                let (name, samples) = rest.split_once(' ').unwrap_or((rest, ""));
                (name.into(), samples.into())
            }
            line => {
                let mut words = words(&line);
                let samples = words.split_off(words.len().min(2)).join(" ");
                (words.pop().filter(|_| !words.is_empty()).unwrap_or_default().into(), samples.into())
            }
        };
        let number = match &mut self.batch {
            Some(batch) => {
                batch.commands += 1;
                batch.commands
            }
            None => 0,
        };
        Ok((name, samples, number))
    }

    /// Takes the updates that wait and answers them.
    fn take(&mut self, waiting: &mut Vec<Waiting<'_>>, out: &mut Vec<u8>) {
        if waiting.is_empty() {
            return;
        }
        let names: Vec<Result<Cow<'_, str>>> = waiting
            .iter()
            .map(|(name, _, _)| match name.is_empty() {
                true => refused(format!("Usage: {}", commands::COMMANDS[0].usage())),
                false => self.pending.base().name(name),
            })
            .collect();
        let good = names
            .iter()
            .zip(&*waiting)
            .filter_map(|(name, (_, samples, _))| Some(Update { file: name.as_ref().ok()?, samples }));
        let mut outcomes = self.pending.update(&good.collect::<Vec<_>>()).into_iter();
        for (name, (_, _, number)) in names.iter().zip(&*waiting) {
            let outcome = match name {
                Ok(_) => outcomes.next().unwrap_or(Ok(0)).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match (&mut self.batch, outcome) {
                (Some(_), Ok(_)) => {}
                (Some(batch), Err(error)) => batch.error(*number, &error),
                (None, Ok(taken)) => {
                    out.extend(format!("0 errors, enqueued {taken} value(s).\n").as_bytes());
                }
                (None, Err(error)) => out.extend(text::bytes(&format!("-1 {error}\n")).iter()),
            }
        }
        waiting.clear();
    }

    fn line(&mut self, line: &str, out: &mut Vec<u8>) -> Next {
        let words = words(line);
        let name = words.first().map_or("", String::as_str);
        let outcome = self.dispatch(name, words.get(1..).unwrap_or(&[]));
        let (text, next) = match outcome {
            Ok((text, next)) => (text, next),
            Err(error) => (text::bytes(&format!("-1 {error}\n")).into_owned(), Next::Read),
        };
        match &mut self.batch {
            // The answer to BATCH itself.
            Some(batch)
                if batch.commands == 0 && name.eq_ignore_ascii_case("BATCH") && text.starts_with(b"0 Go") =>
            {
                out.extend(text);
            }
            Some(batch) => {
                // Errors are told at the end, successes never.
                if let Some(error) = text.strip_prefix(b"-1 ") {
                    batch.error(batch.commands, text::of(error).trim_end());
                }
            }
            None => out.extend(text),
        }
        next
    }

    fn dispatch(&mut self, name: &str, words: &[String]) -> Result<(Vec<u8>, Next)> {
        if name == "." {
            return match self.batch.take() {
                Some(batch) => Ok((batch.summary(), Next::Read)),
                None => refused("Can't use '.' here."),
            };
        }
        if let Some(batch) = &mut self.batch {
            batch.commands += 1;
        }
        let Some(command) = commands::find(name) else {
            // Journals of rrdcached have it, clients do not.
            return match name.eq_ignore_ascii_case("WROTE") {
                true => refused("Can't use 'WROTE' here."),
                false => refused(format!("Unknown command: {name}")),
            };
        };
        if !self.rules.permissions.allow(command) {
            return refused("Permission denied.");
        }
        if self.batch.is_some() && !command.in_batch() {
            return refused(format!("Can't use '{}' here.", command.name));
        }
        let text = match command.name {
            "QUIT" => return Ok((vec![], Next::HangUp)),
            "BATCH" => {
                self.batch = Some(Batch::default());
                "0 Go ahead.  End with dot '.' on its own line.\n".into()
            }
            "DUMP" => return Ok((answers::dump(self.pending, &self.file(command, words)?)?, Next::HangUp)),
            "FETCHBIN" => {
                let file = self.fetched(command, words)?;
                return Ok((answers::fetch_binary(self.pending, &file, &words[1..])?, Next::Read));
            }
            _ => self.text(command, words)?,
        };
        Ok((text::bytes(&text).into_owned(), Next::Read))
    }

    /// The file a command is about.
    fn file(&self, command: &Command, words: &[String]) -> Result<String> {
        match words.first() {
            Some(name) => self.pending.base().name(name).map(Cow::into_owned),
            None => refused(format!("Usage: {}", command.usage())),
        }
    }

    fn fetched(&self, command: &Command, words: &[String]) -> Result<String> {
        match words.len() {
            0 | 1 => refused(format!("Usage: {}", command.usage())),
            _ => self.file(command, words),
        }
    }

    fn text(&self, command: &Command, words: &[String]) -> Result<String> {
        let pending = self.pending;
        let file = || self.file(command, words);
        let unknown = |file: &str| Error::Refused(format!("{file} - No such file or directory"));
        Ok(match command.name {
            "PING" => "0 PONG\n".into(),
            "HELP" => {
                let (title, lines) = commands::help(words.first().map(String::as_str));
                list(&title, &lines)
            }
            "STATS" => answers::stats(pending),
            // With blanks before it, or without arguments.
            "UPDATE" => return refused(format!("Usage: {}", command.usage())),
            "FLUSH" => {
                let file = file()?;
                match pending.flush(&file)? {
                    Some(()) => format!("0 Successfully flushed {file}.\n"),
                    None => match pending.base().open(&file, false) {
                        Ok(opened) if opened.metadata().is_ok_and(|of| of.is_dir()) => {
                            return refused(format!("No such file: {file}."));
                        }
                        Ok(_) => format!("0 Nothing to flush: {file}.\n"),
                        Err(Error::Io { .. }) => return refused(format!("No such file: {file}.")),
                        Err(denied) => return Err(denied),
                    },
                }
            }
            "FLUSHALL" => {
                pending.flush_all();
                "0 Started flush.\n".into()
            }
            "PENDING" => list("updates pending", &pending.pending(&file()?).unwrap_or_default()),
            "FORGET" => match pending.forget(&file()?)? {
                true => "0 Gone!\n".into(),
                false => return refused("No such file or directory"),
            },
            "QUEUE" => {
                let lines = pending.queue().into_iter().map(|(count, file)| format!("{count} {file}"));
                list("in queue.", &lines.collect::<Vec<_>>())
            }
            "FETCH" => answers::fetch(pending, &self.fetched(command, words)?, &words[1..])?,
            "INFO" => answers::info(pending, &file()?)?,
            "FIRST" => match words.get(1) {
                Some(rra) => answers::first(pending, &file()?, rra)?,
                None => return refused(format!("Usage: {}", command.usage())),
            },
            "LAST" => {
                let last = pending.last(&file()?);
                format!("0 {}\n", last.map_err(|error| Error::Refused(format!("RRD Error: {error}")))?)
            }
            "CREATE" => {
                create::create(pending, &self.rules, &file()?, words)?;
                "0 RRD created OK\n".into()
            }
            "TUNE" => {
                self.tune(&file()?, command, words)?;
                "0 Success\n".into()
            }
            "LIST" => {
                let recursive = words.first().is_some_and(|word| word.eq_ignore_ascii_case("RECURSIVE"));
                match words.get(usize::from(recursive)).filter(|path| path.starts_with('/')) {
                    Some(path) => answers::directory(pending.base(), path, recursive)?,
                    None => return refused(format!("Usage: {}", command.usage())),
                }
            }
            "SUSPEND" | "RESUME" => {
                let (file, suspend) = (file()?, command.name == "SUSPEND");
                match (pending.suspend(&file, suspend), suspend) {
                    (None, _) => return Err(unknown(&file)),
                    (Some(true), true) => format!("0 {file} suspended\n"),
                    (Some(false), true) => format!("0 {file} already suspended\n"),
                    (Some(true), false) => format!("0 {file} resumed\n"),
                    (Some(false), false) => format!("0 {file} not suspended\n"),
                }
            }
            "SUSPENDALL" => format!("0 {} rrds suspend\n", pending.suspend_all(true)),
            "RESUMEALL" => format!("0 {} rrds resumed\n", pending.suspend_all(false)),
            name => return refused(format!("Unknown command: {name}")),
        })
    }

    /// Name, number of arguments, arguments. The number is what another daemon trusts.
    fn tune(&self, file: &str, command: &Command, words: &[String]) -> Result<()> {
        if words.get(1).is_none_or(|count| count.parse::<u32>().is_err()) {
            return refused(format!("Usage: {}", command.usage()));
        }
        let base = self.pending.base();
        // Held open from here on: what its name leads to meanwhile does not matter. A file made anew takes the name's
        // place in the directory, also held open.
        let tuned = self.pending.change(file, || {
            let parent = base.parent(file)?;
            let rrd = Rrd::over(open_locked(base, file)?, &parent.path)?;
            let shown = text::name(&parent.path);
            cli::tune_open(&rrd, file, &words[2..])
                .map_err(|error| Error::Refused(error.to_string().replace(&*shown, file)))
        });
        tuned.map_err(answers::failed)
    }
}

impl Batch {
    fn error(&mut self, number: u64, text: &str) {
        self.errors += 1;
        if self.told.len() < BATCH_ERRORS_MAX {
            let most = text.floor_char_boundary(BATCH_ERROR_MAX);
            self.told.push(format!("{number} {}", &text[..most]));
        }
    }

    fn summary(mut self) -> Vec<u8> {
        if self.errors > self.told.len() as u64 {
            self.told.push(format!(
                "{} and further errors: {}",
                self.commands,
                self.errors - self.told.len() as u64
            ));
        }
        text::bytes(&list("errors", &self.told)).into_owned()
    }
}

/// A line's words: blanks separate, a backslash keeps the next character.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut open) = (vec![], String::new(), false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                word.extend(letters.next());
                open = true;
            }
            ' ' | '\t' => {
                if open {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            letter => {
                word.push(letter);
                open = true;
            }
        }
    }
    if open {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Base;
    use crate::messages::Messages;
    use crate::pending::Limits;

    #[test]
    fn who_asks_for_much_takes_it_piece_by_piece() {
        let base = Base::new(&std::env::temp_dir(), false).unwrap();
        let pending = Pending::new(base, Limits::default(), None, false, Messages::none());
        let rules = Rules { permissions: Permissions::ALL, no_overwrite: true, make_directories: false };
        let mut session = Session::new(&pending, rules);
        let lines = "HELP\n".repeat(6000) + "PING\n";
        let (mut answered, mut pieces, mut out) = (0, 0, vec![]);
        while answered < lines.len() {
            out.clear();
            let (length, next) = session.answer(&lines.as_bytes()[answered..], &mut out);
            assert!(next == Next::Read && out.len() < ANSWERS_MAX + 4096);
            (answered, pieces) = (answered + length, pieces + 1);
        }
        assert!(pieces > 2 && out.ends_with(b"0 PONG\n"), "{pieces}");
    }

    #[test]
    fn a_backslash_keeps_the_next_character() {
        assert_eq!(words(r"UPDATE a\ b.rrd  1:2 \\ x\"), ["UPDATE", "a b.rrd", "1:2", "\\", "x"]);
        assert_eq!(words("   "), [""; 0]);
    }
}
