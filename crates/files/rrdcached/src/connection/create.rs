//! CREATE: checks its arguments and finds the directory; [`khz_rrd::cli`] makes the file.

use std::fs::File;
use std::os::fd::AsRawFd;

use khz_rrd::cli;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

use super::commands::{Command, find};
use super::session::Rules;
use crate::base::Base;
use crate::cache::Cache;

/// Earliest start that rrdcached takes.
const START_MIN: i64 = 3600 * 24 * 365 * 10;

/// The arguments of `create` after the name of the file.
struct Arguments {
    words: Vec<String>,
    sources: Vec<Source>,
    overwrite: bool,
}

/// A file whose history fills the new one. It is opened here and named by its descriptor, so later changes of its name do not
/// matter.
struct Source {
    /// The name in the command.
    name: String,
    /// The name in the arguments.
    path: String,
    /// Held open as long as the path is used.
    _file: File,
}

/// Makes `file` from the words of a command, the name first.
///
/// # Errors
/// An error in the arguments, or the reason why the file cannot be made.
pub fn create(cache: &Cache, rules: &Rules, file: &str, words: &[String]) -> Result<()> {
    let base = cache.base();
    let mut arguments = Arguments::parse(base, &words[1..])?;
    if rules.no_overwrite || !arguments.overwrite {
        arguments.words.push("-O".into());
    }
    arguments.flush_sources(cache)?;
    make_directories(base, rules, file)?;
    let parent = base.parent(file)?;
    let path = text::name(&parent.path);
    arguments.words.insert(0, path.clone());
    cache.replace(file, || {
        let made = cli::create_here(&arguments.words);
        made.map_err(|error| Error::Refused(arguments.named(&failed(error).to_string().replace(&path, file))))
    })
}

fn failed(error: Error) -> Error {
    Error::Refused(format!("RRD Error: {error}"))
}

fn usage<T>() -> Result<T> {
    refused(format!("Usage: {}", find("CREATE").map_or(String::new(), Command::usage)))
}

/// Makes the directory of `file`, if it does not exist and `rules` allow it.
fn make_directories(base: &Base, rules: &Rules, file: &str) -> Result<()> {
    let directory = file.rsplit_once('/').map_or("/", |(directory, _)| directory);
    let is_missing = base.listed(directory).is_err_and(|error| error.is_not_found());
    if !is_missing {
        return Ok(());
    }
    if !(rules.make_directories && base.confines()) {
        return refused(format!(
            "No permission to recursively create: {directory}; start the daemon with -B and -R to allow it"
        ));
    }
    base.make_parents(file).map_err(failed)
}

impl Arguments {
    fn parse(base: &Base, words: &[String]) -> Result<Self> {
        let mut parsed = Self { words: vec![], sources: vec![], overwrite: true };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-O" => parsed.overwrite = false,
                "-b" | "-s" | "-r" | "-t" => {
                    let Some(value) = words.next() else { return usage() };
                    parsed.option(base, word, value)?;
                }
                option if option.starts_with('-') => return usage(),
                _ => parsed.words.push(word.clone()),
            }
        }
        Ok(parsed)
    }

    fn option(&mut self, base: &Base, option: &str, value: &str) -> Result<()> {
        let value = match option {
            "-r" | "-t" => self.source(base, value)?,
            "-b" if value.parse().is_ok_and(|start: i64| start < START_MIN) => {
                return refused("The first entry must be after 1980.");
            }
            // rrdtool sends 0 where no step was given.
            "-s" if value == "0" => return Ok(()),
            _ => value.into(),
        };
        self.words.extend([option.into(), value]);
        Ok(())
    }

    /// Opens the source called `name`; returns the path to it through its descriptor.
    fn source(&mut self, base: &Base, name: &str) -> Result<String> {
        let name = base.name(name)?;
        let file = base.open(&name, false)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        self.sources.push(Source { name: name.into_owned(), path: path.clone(), _file: file });
        Ok(path)
    }

    /// Has what waits for the sources written: the new file begins where they end.
    fn flush_sources(&self, cache: &Cache) -> Result<()> {
        self.sources.iter().try_for_each(|source| cache.flush(&source.name).map(|_| ()))
    }

    /// `text` with the names of the sources for their paths.
    fn named(&self, text: &str) -> String {
        // The last first: the path of descriptor 1 is the beginning of that of descriptor 12.
        let sources = self.sources.iter().rev();
        sources.fold(text.to_string(), |text, source| text.replace(&source.path, &source.name))
    }
}
