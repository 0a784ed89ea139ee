//! A client's session: lines in, answers out; owns no socket.
//!
//! All updates among the lines that came in one piece are taken together: one lock, one write to the log. Each answer
//! still stands where it belongs.

use std::borrow::Cow;

use khz_rrd::error::{Result, refused};
use khz_rrd::text;

use super::answers;
use super::batch::Batch;
use super::commands::{self, Command, Permissions};
use super::execute::Request;
use super::fetch;
use crate::cache::{Cache, Update};

/// Bytes of a line; rrdcached takes 4096.
pub const LINE_MAX: usize = 1 << 16;
/// Bytes of answers after which the client has to read them first.
const ANSWERS_MAX: usize = 1 << 20;

/// The permissions of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The commands that its socket lets through.
    pub permissions: Permissions,
    /// Whether CREATE must leave existing files alone.
    pub no_overwrite: bool,
    /// Whether CREATE may make directories.
    pub make_directories: bool,
}

/// One client's session.
pub struct Session<'a> {
    cache: &'a Cache,
    rules: Rules,
    batch: Option<Batch>,
}

/// The next step after the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More lines.
    Read,
    /// Hang up.
    HangUp,
}

/// An update that is not taken yet.
struct Waiting<'a> {
    name: Cow<'a, str>,
    samples: Cow<'a, str>,
    /// A sample has a blank in it.
    has_blank: bool,
    /// Its number in a batch; 0 outside of one.
    number: u64,
}

impl<'a> Session<'a> {
    /// A session on `cache`.
    pub fn new(cache: &'a Cache, rules: Rules) -> Self {
        Self { cache, rules, batch: None }
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
            match self.as_update(text::of(line)) {
                Ok(update) => waiting.push(update),
                Err(line) => {
                    self.answer_updates(&mut waiting, out);
                    let next = self.answer_line(&line, out);
                    if next == Next::HangUp || out.len() >= ANSWERS_MAX {
                        return (begin, next);
                    }
                }
            }
        }
        self.answer_updates(&mut waiting, out);
        (begin, Next::Read)
    }

    /// The update that `line` is, or the line again.
    fn as_update<'b>(&mut self, line: Cow<'b, str>) -> std::result::Result<Waiting<'b>, Cow<'b, str>> {
        let is_update = line.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("UPDATE "));
        if !is_update || !self.rules.permissions.allow(&commands::COMMANDS[0]) {
            return Err(line);
        }
        let (name, samples, has_blank) = match line {
            Cow::Borrowed(line) if memchr::memchr2(b'\\', b'\t', line.as_bytes()).is_none() => {
                let rest = line[7..].trim_start_matches(' ');
                let (name, samples) = rest.split_once(' ').unwrap_or((rest, ""));
                (name.into(), samples.into(), false)
            }
            line => {
                let mut words = words(&line);
                let samples = words.split_off(words.len().min(2));
                let has_blank = samples.iter().any(|sample| sample.contains([' ', '\t']));
                let name = words.pop().filter(|_| !words.is_empty()).unwrap_or_default();
                (name.into(), samples.join(" ").into(), has_blank)
            }
        };
        let number = self.batch.as_mut().map_or(0, Batch::count);
        Ok(Waiting { name, samples, has_blank, number })
    }

    /// Takes the updates that wait and answers them.
    fn answer_updates(&mut self, waiting: &mut Vec<Waiting<'_>>, out: &mut Vec<u8>) {
        if waiting.is_empty() {
            return;
        }
        let names: Vec<Result<Cow<'_, str>>> = waiting
            .iter()
            .map(|update| match update.name.is_empty() {
                true => refused(format!("Usage: {}", commands::COMMANDS[0].usage())),
                // Here blanks separate samples, so parts of one would be taken for several.
                false if update.has_blank => {
                    refused(format!("a blank within a sample: '{}'", update.samples))
                }
                false => self.cache.base().name(&update.name),
            })
            .collect();
        let updates: Vec<Update<'_>> = names
            .iter()
            .zip(&*waiting)
            .filter_map(|(name, update)| Some(Update { file: name.as_ref().ok()?, samples: &update.samples }))
            .collect();
        let mut outcomes = self.cache.update(&updates).into_iter();
        for (name, update) in names.iter().zip(&*waiting) {
            let outcome = match name {
                Ok(_) => outcomes.next().unwrap_or(Ok(0)).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match (&mut self.batch, outcome) {
                (Some(_), Ok(_)) => {}
                (Some(batch), Err(error)) => batch.error(update.number, &error),
                (None, Ok(taken)) => {
                    out.extend(format!("0 errors, enqueued {taken} value(s).\n").as_bytes());
                }
                (None, Err(error)) => out.extend(text::bytes(&format!("-1 {error}\n")).iter()),
            }
        }
        waiting.clear();
    }

    fn answer_line(&mut self, line: &str, out: &mut Vec<u8>) -> Next {
        let words = words(line);
        let name = words.first().map_or("", String::as_str);
        let was_in_batch = self.batch.is_some();
        let outcome = self.dispatch(name, words.get(1..).unwrap_or(&[]));
        let (answer, next) = match outcome {
            Ok((answer, next)) => (answer, next),
            Err(error) => (text::bytes(&format!("-1 {error}\n")).into_owned(), Next::Read),
        };
        match &mut self.batch {
            // The errors of a batch are answered at its end, its successes never.
            Some(batch) if was_in_batch => {
                if let Some(error) = answer.strip_prefix(b"-1 ") {
                    batch.error(batch.commands(), text::of(error).trim_end());
                }
            }
            _ => out.extend(answer),
        }
        next
    }

    /// Executes a command; returns its answer.
    fn dispatch(&mut self, name: &str, words: &[String]) -> Result<(Vec<u8>, Next)> {
        if name == "." {
            return match self.batch.take() {
                Some(batch) => Ok((batch.answer(), Next::Read)),
                None => refused("Can't use '.' here."),
            };
        }
        if let Some(batch) = &mut self.batch {
            batch.count();
        }
        let command = self.permitted(name)?;
        let request = Request { cache: self.cache, rules: &self.rules, command, words };
        match command.name {
            "QUIT" => Ok((vec![], Next::HangUp)),
            "BATCH" => {
                self.batch = Some(Batch::default());
                Ok((b"0 Go ahead.  End with dot '.' on its own line.\n".to_vec(), Next::Read))
            }
            "DUMP" => Ok((answers::dump(self.cache, &request.file()?)?, Next::HangUp)),
            "FETCHBIN" => {
                let file = request.fetched_file()?;
                Ok((fetch::binary(self.cache, &file, &words[1..])?, Next::Read))
            }
            _ => Ok((text::bytes(&request.execute()?).into_owned(), Next::Read)),
        }
    }

    /// The command called `name`, if the client may give it here.
    fn permitted(&self, name: &str) -> Result<&'static Command> {
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
        Ok(command)
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
    use crate::cache::Limits;
    use crate::messages::Messages;

    #[test]
    fn a_client_that_asks_for_much_gets_it_piece_by_piece() {
        let base = Base::new(&std::env::temp_dir(), false).unwrap();
        let cache = Cache::new(base, Limits::default(), None, false, Messages::none());
        let rules = Rules { permissions: Permissions::ALL, no_overwrite: true, make_directories: false };
        let mut session = Session::new(&cache, rules);
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
