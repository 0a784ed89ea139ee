//! FETCH and FETCHBIN: rows of a file with what waits for it, as text or in binary. They force no write.

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::fetch::{self, Fetched};
use khz_rrd::header::Header;
use khz_rrd::number;
use khz_rrd::rra::Function;

use super::answers::list;
use crate::cache::Cache;
use crate::disk::with_place;

/// Seconds before now at which a FETCH without times starts.
const DAY: i64 = 86_400;

/// The rows of a FETCH.
struct Rows {
    fetched: Fetched,
    /// Sources of the file: values of a row.
    sources: usize,
    columns: Vec<Column>,
}

/// A column of the answer.
struct Column {
    /// Which source of the file it is.
    source: usize,
    name: String,
}

/// The answer to FETCH; `words` are those after the name of the file.
///
/// # Errors
/// An error in the words, or the file cannot be read.
pub fn text(cache: &Cache, file: &str, words: &[String]) -> Result<String> {
    let Rows { fetched, sources, columns } = rows(cache, file, words)?;
    let mut lines = heading(&fetched, columns.len());
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    lines.push(format!("DSName: {}", names.join(" ")));
    for (row, values) in fetched.values.chunks(sources.max(1)).enumerate() {
        let time = fetched.start + (row as i64 + 1) * fetched.step as i64;
        let value = |column: &Column| format!(" {}", number::scientific(values[column.source], 17));
        let values: String = columns.iter().map(value).collect();
        lines.push(format!("{time:>10}:{values}"));
    }
    Ok(list("Success", &lines))
}

/// The answer to FETCHBIN; `words` are those after the name of the file.
///
/// # Errors
/// As [`text`].
pub fn binary(cache: &Cache, file: &str, words: &[String]) -> Result<Vec<u8>> {
    let Rows { fetched, sources, columns } = rows(cache, file, words)?;
    let lines = heading(&fetched, columns.len());
    let mut answer = format!("{} Success\n{}\n", lines.len() + columns.len(), lines.join("\n")).into_bytes();
    let rows = fetched.values.len() / sources.max(1);
    for Column { source, name } in &columns {
        answer.extend(format!("DSName-{name}: BinaryData {rows} 8 LITTLE\n").bytes());
        let values = fetched.values.iter().skip(*source).step_by(sources);
        answer.extend(values.flat_map(|value| value.to_bits().to_le_bytes()));
        answer.push(b'\n');
    }
    Ok(answer)
}

/// The lines before the values.
fn heading(fetched: &Fetched, columns: usize) -> Vec<String> {
    vec![
        "FlushVersion: 1".into(),
        format!("Start: {}", fetched.start),
        format!("End: {}", fetched.end),
        format!("Step: {}", fetched.step),
        format!("DSCount: {columns}"),
    ]
}

/// The rows that `CF [START [END [COLUMN...]]]` asks for.
fn rows(cache: &Cache, file: &str, words: &[String]) -> Result<Rows> {
    let failed = |error: Error| Error::Refused(format!("rrd_fetch_r failed: {}", with_place(error)));
    let name = words.first().map_or("", String::as_str);
    let Some(function) = Function::from_name(name) else {
        return refused(format!("rrd_fetch_r failed: unknown consolidation function '{name}'"));
    };
    let now = khz_rrd::file::clock().seconds;
    let start = time("start", words.get(1), now)?.unwrap_or(now - DAY);
    let end = time("end", words.get(2), now)?.unwrap_or(now);
    let view = match cache.view(file) {
        Err(Error::Refused(text)) if text.ends_with(": Permission denied") => return refused(text),
        viewed => viewed.map_err(failed)?,
    };
    let fetched = fetch::fetch(&view.rrd, function, start, end, 1).map_err(failed)?;
    let header = &view.rrd.header;
    let columns = columns(header, file, words.get(3..).unwrap_or(&[]))?;
    Ok(Rows { fetched, sources: header.sources().len(), columns })
}

/// The time in `text`, if there is one. Zero and negative numbers count from `now`.
fn time(what: &str, text: Option<&String>, now: i64) -> Result<Option<i64>> {
    let Some(text) = text else { return Ok(None) };
    match text.parse::<i64>() {
        Ok(seconds) if seconds <= 0 => Ok(Some(now.saturating_add(seconds))),
        Ok(seconds) => Ok(Some(seconds)),
        Err(_) => refused(format!("Cannot parse {what} time `{text}': Only simple integers are allowed.")),
    }
}

/// The columns called `names`; without names, all.
fn columns(header: &Header, file: &str, names: &[String]) -> Result<Vec<Column>> {
    if names.is_empty() {
        let all = header.sources().iter().enumerate();
        return Ok(all.map(|(source, of)| Column { source, name: of.name.clone() }).collect());
    }
    let column = |name: &String| match header.source(name) {
        Some(source) => Ok(Column { source, name: name.clone() }),
        None => refused(format!("field {name} not found in {file}")),
    };
    names.iter().map(column).collect()
}
