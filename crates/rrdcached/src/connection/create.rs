//! CREATE: which of its arguments are let through, and where the file is made; the file itself is `cli`'s work.

use std::os::fd::AsRawFd;

use super::session::Rules;
use crate::cache::Cache;
use khz_rrd::cli;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

/// Earliest start rrdcached takes.
const START_MIN: i64 = 3600 * 24 * 365 * 10;

fn usage<T>() -> Result<T> {
    let command = super::commands::find("CREATE").map_or(String::new(), super::commands::Command::usage);
    refused(format!("Usage: {command}"))
}

/// Makes `file` from the words of a command, the name first.
pub fn create(cache: &Cache, rules: &Rules, file: &str, words: &[String]) -> Result<()> {
    let base = cache.base();
    let mut arguments = vec![String::new()];
    // Files read are opened here and named by their descriptors: what their names lead to later does not matter.
    let mut held = vec![];
    let mut overwrite = !rules.no_overwrite;
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-O" => overwrite = false,
            "-b" | "-s" | "-r" | "-t" => {
                let Some(value) = rest.next() else { return usage() };
                let value = match word.as_str() {
                    "-r" | "-t" => {
                        let name = base.name(value)?;
                        let source = base.open(&name, false)?;
                        let path = format!("/proc/self/fd/{}", source.as_raw_fd());
                        held.push((path.clone(), name.into_owned(), source));
                        path
                    }
                    "-b" if value.parse().is_ok_and(|start: i64| start < START_MIN) => {
                        return refused("The first entry must be after 1980.");
                    }
                    // What rrdtool sends for a step that was not given.
                    "-s" if value == "0" => continue,
                    _ => value.clone(),
                };
                arguments.extend([word.clone(), value]);
            }
            option if option.starts_with('-') => return usage(),
            _ => arguments.push(word.clone()),
        }
    }
    if !overwrite {
        arguments.push("-O".into());
    }
    let directory = file.rsplit_once('/').map_or("/", |(directory, _)| directory);
    let told = |error: Error| Error::Refused(format!("RRD Error: {error}"));
    let missing = base.listed(directory).is_err_and(|error| match error {
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    });
    if missing {
        if !(rules.make_directories && base.confines()) {
            return refused(format!(
                "No permission to recursively create: {directory}; start the daemon with -B and -R to allow it"
            ));
        }
        base.make_parents(file).map_err(told)?;
    }
    let parent = base.parent(file)?;
    arguments[0] = text::name(&parent.path);
    cache.replace(file, || {
        cli::create_here(&arguments).map_err(|error| {
            let told = format!("RRD Error: {error}").replace(arguments[0].as_str(), file);
            Error::Refused(held.iter().rev().fold(told, |told, (path, name, _)| told.replace(path, name)))
        })
    })
}
