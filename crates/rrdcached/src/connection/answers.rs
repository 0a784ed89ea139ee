//! Answers with content: FETCH, FETCHBIN, INFO, FIRST, DUMP, LIST, STATS. They force no write.

use std::path::Path;

use crate::base::Base;
use crate::cache::Cache;
use crate::cache::View;
use crate::disk::with_place;
use khz_rrd::dump::{self, Prologue};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::fetch::{self, Fetched};
use khz_rrd::info::{self, Value};
use khz_rrd::number;
use khz_rrd::page_cache;
use khz_rrd::rra::Function;
use khz_rrd::text;

/// Seconds before now at which a FETCH without times starts.
const DAY: i64 = 86_400;

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

/// The rows of a FETCH.
struct Rows {
    fetched: Fetched,
    /// Sources of the file: values of a row.
    sources: usize,
    /// Index and name of each column asked for.
    columns: Vec<(usize, String)>,
}

/// The rows of a file that `CF [START [END [COLUMN...]]]` asks for.
fn rows(cache: &Cache, file: &str, words: &[String]) -> Result<Rows> {
    let fetch_failed = |error: Error| Error::Refused(format!("rrd_fetch_r failed: {}", with_place(error)));
    let name = words.first().map_or("", String::as_str);
    let Some(function) = Function::from_name(name) else {
        return refused(format!("rrd_fetch_r failed: unknown consolidation function '{name}'"));
    };
    let now = khz_rrd::file::clock().seconds;
    let time = |at: usize, what: &str, default: i64| match words.get(at) {
        None => Ok(default),
        Some(text) => match text.parse::<i64>() {
            // Zero and negative numbers count from now.
            Ok(seconds) if seconds <= 0 => Ok(now.saturating_add(seconds)),
            Ok(seconds) => Ok(seconds),
            Err(_) => {
                refused(format!("Cannot parse {what} time `{text}': Only simple integers are allowed."))
            }
        },
    };
    let (start, end) = (time(1, "start", now - DAY)?, time(2, "end", now)?);
    let view = match cache.view(file) {
        Err(Error::Refused(text)) if text.ends_with(": Permission denied") => return refused(text),
        viewed => viewed.map_err(fetch_failed)?,
    };
    let fetched = fetch::fetch(&view.rrd, function, start, end, 1).map_err(fetch_failed)?;
    let header = &view.rrd.header;
    let mut columns = vec![];
    for name in words.iter().skip(3) {
        let Some(ds) = header.source(name) else {
            return refused(format!("field {name} not found in {file}"));
        };
        columns.push((ds, name.clone()));
    }
    let all = header.sources().iter().map(|source| source.name.clone()).enumerate();
    let columns = if columns.is_empty() { all.collect() } else { columns };
    Ok(Rows { fetched, sources: header.sources().len(), columns })
}

/// The lines before the values of a fetch.
fn heading(fetched: &Fetched, columns: usize) -> Vec<String> {
    vec![
        "FlushVersion: 1".into(),
        format!("Start: {}", fetched.start),
        format!("End: {}", fetched.end),
        format!("Step: {}", fetched.step),
        format!("DSCount: {columns}"),
    ]
}

pub fn fetch(cache: &Cache, file: &str, words: &[String]) -> Result<String> {
    let Rows { fetched, sources, columns } = rows(cache, file, words)?;
    let mut lines = heading(&fetched, columns.len());
    let names: Vec<&str> = columns.iter().map(|(_, name)| name.as_str()).collect();
    lines.push(format!("DSName: {}", names.join(" ")));
    for (row, values) in fetched.values.chunks(sources.max(1)).enumerate() {
        let time = fetched.start + (row as i64 + 1) * fetched.step as i64;
        let values: String =
            columns.iter().map(|(ds, _)| format!(" {}", number::scientific(values[*ds], 17))).collect();
        lines.push(format!("{time:>10}:{values}"));
    }
    Ok(list("Success", &lines))
}

pub fn fetch_binary(cache: &Cache, file: &str, words: &[String]) -> Result<Vec<u8>> {
    let Rows { fetched, sources, columns } = rows(cache, file, words)?;
    let lines = heading(&fetched, columns.len());
    let mut answer = format!("{} Success\n{}\n", lines.len() + columns.len(), lines.join("\n")).into_bytes();
    let rows = fetched.values.len() / sources.max(1);
    for (ds, name) in &columns {
        answer.extend(format!("DSName-{name}: BinaryData {rows} 8 LITTLE\n").bytes());
        let column = fetched.values.iter().skip(*ds).step_by(sources);
        answer.extend(column.flat_map(|value| value.to_bits().to_le_bytes()));
        answer.push(b'\n');
    }
    Ok(answer)
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

fn read(directory: &Path, whole: &str) -> Result<std::fs::ReadDir> {
    std::fs::read_dir(directory).map_err(|error| Error::io("reading", whole, error))
}
