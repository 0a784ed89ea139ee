//! The commands with a text answer: the call to the cache, and the answer.

use std::borrow::Cow;

use khz_rrd::cli;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::Rrd;
use khz_rrd::text;

use super::answers::{self, list};
use super::commands::{self, Command};
use super::create;
use super::fetch;
use super::session::Rules;
use crate::cache::Cache;
use crate::disk::open_locked;

/// A command with its words, the name of the file first.
pub struct Request<'a> {
    pub cache: &'a Cache,
    pub rules: &'a Rules,
    pub command: &'static Command,
    pub words: &'a [String],
}

impl Request<'_> {
    /// Executes the command; returns its answer.
    ///
    /// # Errors
    /// The text of a negative answer.
    pub fn execute(&self) -> Result<String> {
        let cache = self.cache;
        Ok(match self.command.name {
            "PING" => "0 PONG\n".into(),
            "HELP" => {
                let (title, lines) = commands::help(self.words.first().map(String::as_str));
                list(&title, &lines)
            }
            "STATS" => answers::stats(cache),
            "FLUSH" => self.flush(&self.file()?)?,
            "FLUSHALL" => {
                cache.flush_all();
                "0 Started flush.\n".into()
            }
            "PENDING" => list("updates pending", &cache.pending(&self.file()?).unwrap_or_default()),
            "FORGET" => match cache.forget(&self.file()?)? {
                true => "0 Gone!\n".into(),
                false => return refused("No such file or directory"),
            },
            "QUEUE" => {
                let lines = cache.queue().into_iter().map(|(count, file)| format!("{count} {file}"));
                list("in queue.", &lines.collect::<Vec<_>>())
            }
            "FETCH" => fetch::text(cache, &self.fetched_file()?, &self.words[1..])?,
            "INFO" => answers::info(cache, &self.file()?)?,
            "FIRST" => match self.words.get(1) {
                Some(rra) => answers::first(cache, &self.file()?, rra)?,
                None => return self.usage(),
            },
            "LAST" => {
                let last = cache.last(&self.file()?);
                format!("0 {}\n", last.map_err(|error| Error::Refused(format!("RRD Error: {error}")))?)
            }
            "CREATE" => {
                create::create(cache, self.rules, &self.file()?, self.words)?;
                "0 RRD created OK\n".into()
            }
            "TUNE" => {
                self.tune(&self.file()?)?;
                "0 Success\n".into()
            }
            "LIST" => self.list()?,
            "SUSPEND" => self.suspend(&self.file()?, true)?,
            "RESUME" => self.suspend(&self.file()?, false)?,
            "SUSPENDALL" => format!("0 {} rrds suspend\n", cache.suspend_all(true)),
            "RESUMEALL" => format!("0 {} rrds resumed\n", cache.suspend_all(false)),
            // With blanks before it, or without arguments.
            "UPDATE" => return self.usage(),
            name => return refused(format!("Unknown command: {name}")),
        })
    }

    fn usage<T>(&self) -> Result<T> {
        refused(format!("Usage: {}", self.command.usage()))
    }

    /// The file that the command is about.
    ///
    /// # Errors
    /// The command names none, or one outside the base directory.
    pub fn file(&self) -> Result<String> {
        match self.words.first() {
            Some(name) => self.cache.base().name(name).map(Cow::into_owned),
            None => self.usage(),
        }
    }

    /// The file of a FETCH, which has a consolidation function after it.
    ///
    /// # Errors
    /// As [`Request::file`].
    pub fn fetched_file(&self) -> Result<String> {
        if self.words.len() < 2 { self.usage() } else { self.file() }
    }

    fn flush(&self, file: &str) -> Result<String> {
        if self.cache.flush(file)?.is_some() {
            return Ok(format!("0 Successfully flushed {file}.\n"));
        }
        let missing = || refused(format!("No such file: {file}."));
        match self.cache.base().open(file, false) {
            Ok(opened) if opened.metadata().is_ok_and(|of| of.is_dir()) => missing(),
            Ok(_) => Ok(format!("0 Nothing to flush: {file}.\n")),
            Err(Error::Io { .. }) => missing(),
            Err(denied) => Err(denied),
        }
    }

    fn list(&self) -> Result<String> {
        let recursive = self.words.first().is_some_and(|word| word.eq_ignore_ascii_case("RECURSIVE"));
        match self.words.get(usize::from(recursive)).filter(|path| path.starts_with('/')) {
            Some(path) => answers::directory(self.cache.base(), path, recursive),
            None => self.usage(),
        }
    }

    fn suspend(&self, file: &str, suspend: bool) -> Result<String> {
        let Some(is_new) = self.cache.suspend(file, suspend) else {
            return refused(format!("{file} - No such file or directory"));
        };
        let what = match (suspend, is_new) {
            (true, true) => "suspended",
            (true, false) => "already suspended",
            (false, true) => "resumed",
            (false, false) => "not suspended",
        };
        Ok(format!("0 {file} {what}\n"))
    }

    /// TUNE: name, number of arguments, arguments. The number is checked because another daemon trusts it.
    fn tune(&self, file: &str) -> Result<()> {
        if self.words.get(1).is_none_or(|count| count.parse::<u32>().is_err()) {
            return self.usage();
        }
        let base = self.cache.base();
        let tuned = self.cache.change(file, || {
            // File and directory stay open from here on, so it does not matter what the name leads to meanwhile. A file
            // that tune makes takes the name's place in that directory.
            let parent = base.parent(file)?;
            let rrd = Rrd::over(open_locked(base, file)?, &parent.path)?;
            let shown = text::name(&parent.path);
            cli::tune_open(&rrd, file, &self.words[2..])
                .map_err(|error| Error::Refused(error.to_string().replace(&*shown, file)))
        });
        tuned.map_err(answers::failed)
    }
}
