//! Answers with content: INFO, FIRST, DUMP, LIST, STATS. They force no write.

use std::path::Path;

use crate::base::Base;
use crate::cache::Cache;
use crate::cache::View;
use crate::disk::with_place;
use khz_rrd::dump::{self, Prologue};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::info::{self, Value};
use khz_rrd::page_cache;
use khz_rrd::text;

/// A status line and the lines it announces.
pub fn list(text: &str, lines: &[String]) -> String {
    let mut answer = format!("{} {text}\n", lines.len());
    for line in lines {
        answer.push_str(line);
        answer.push('\n');
    }
    answer
}

/// The counters: rrdcached's nine, then ours.
pub fn stats(cache: &Cache) -> String {
    let stats = cache.stats();
    let lines = [
        ("QueueLength", stats.queue),
        ("UpdatesReceived", stats.received),
        ("FlushesReceived", stats.flushes),
        ("UpdatesWritten", stats.updates_written),
        ("DataSetsWritten", stats.sets_written),
        ("TreeNodesNumber", stats.files),
        ("TreeDepth", u64::from(stats.files > 0)),
        ("JournalBytes", stats.log_written),
        ("JournalRotate", stats.log_rotations),
        ("UpdatesPending", stats.waiting),
        ("BacklogAge", stats.age),
        ("BacklogBytes", stats.memory),
        ("LogBytes", stats.log),
        ("WritesFailed", stats.failures),
        ("FilesFailed", stats.failed_now),
        ("UpdatesRefused", stats.refused),
        ("Replaying", stats.replaying),
        ("LogInTrouble", u64::from(stats.is_log_in_trouble)),
    ];
    list(
        "Statistics follow",
        &lines.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>(),
    )
}

/// `error` in rrdcached's words.
pub fn failed(error: Error) -> Error {
    match with_place(error) {
        // Already in rrdcached's words.
        Error::Refused(text) if text.ends_with(": Permission denied") => Error::Refused(text),
        error => Error::Refused(format!("RRD Error: {error}")),
    }
}

pub fn view<'a>(cache: &'a Cache, file: &str) -> Result<View<'a>> {
    cache.view(file).map_err(failed)
}

pub fn info(cache: &Cache, file: &str) -> Result<String> {
    let view = view(cache, file)?;
    let line = |(key, value): (String, Value)| match value {
        Value::Number(number) => format!("{key} 0 {}", info::number_text(number)),
        Value::Count(count) => format!("{key} 1 {count}"),
        Value::Text(text) => format!("{key} 2 {text}"),
        Value::Integer(number) => format!("{key} 3 {number}"),
    };
    let lines: Vec<String> = info::describe(&view.rrd.header, file).into_iter().map(line).collect();
    Ok(list(&format!("Info for {file} follows"), &lines))
}

pub fn first(cache: &Cache, file: &str, rra: &str) -> Result<String> {
    let header = view(cache, file)?.rrd.header;
    let Some(rra) = rra.parse().ok().filter(|rra: &usize| *rra < header.archives().len()) else {
        return refused("RRD Error: invalid rraindex number");
    };
    let reach = (header.archives()[rra].rows - 1).wrapping_mul(header.row_seconds(rra));
    Ok(format!("0 {}\n", header.newest_row_end(rra).wrapping_sub(reach as i64)))
}

/// The whole file as XML.
pub fn dump(cache: &Cache, file: &str) -> Result<Vec<u8>> {
    let mut text = vec![];
    dump::dump(&view(cache, file)?.rrd, Prologue::Dtd, &mut text)?;
    Ok(text)
}

/// Directories and `.rrd` files below the base directory; symbolic links are not followed, and nothing else is shown.
pub fn directory(base: &Base, path: &str, recursive: bool) -> Result<String> {
    let whole = format!(
        "{}/{}",
        text::name(base.directory().as_os_str()).trim_end_matches('/'),
        path.trim_start_matches('/')
    );
    let denied = |what: &str| Error::Refused(format!("List {whole}: {what}"));
    if path.split('/').any(|part| part == "..") {
        return Err(denied("Permission denied"));
    }
    if let Some(name) = one_file(base, &whole) {
        return Ok(list("RRDs", &[name]));
    }
    let listed = base.listed(whole.trim_end_matches('/')).map_err(|error| match error {
        Error::Io { source, .. } => denied(&khz_rrd::error::os_text(&source)),
        _ => denied("Permission denied"),
    })?;
    // Only with a slash at its end does the path lead through the descriptor.
    let directory = listed.path.join("");
    let mut names = vec![];
    if recursive {
        let mut failed = 0;
        for file in page_cache::rrd_files(&directory, &mut failed) {
            names.push(text::name(file.strip_prefix(&directory).unwrap_or(&file)));
        }
    } else {
        for entry in read(&directory, &whole)? {
            let entry = entry.map_err(|error| Error::io("reading", whole.as_str(), error))?;
            let name = text::name(entry.file_name());
            if name.ends_with(".rrd") || entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.push(name);
            }
        }
        names.sort();
    }
    Ok(list("RRDs", &names))
}

/// The last part of `whole`, where that is one `.rrd` file and no directory.
fn one_file(base: &Base, whole: &str) -> Option<String> {
    let name = whole.rsplit('/').next().filter(|name| name.ends_with(".rrd"))?;
    let file = base.open(whole, false).ok()?;
    file.metadata().is_ok_and(|of| of.is_file()).then(|| name.to_string())
}

fn read(directory: &Path, whole: &str) -> Result<std::fs::ReadDir> {
    std::fs::read_dir(directory).map_err(|error| Error::io("reading", whole, error))
}
