//! The commands that only read: info, fetch, dump, last, lastupdate, first, xport, list, flushcached.

use std::io::Write;
use std::path::Path;

use super::options::{self, Parsed};
use super::print;
use crate::at::When;
use crate::client::{self, Client};
use crate::dump::Prologue;
use crate::error::{Error, Result, refused};
use crate::file::{self, Access, Rrd};
use crate::number;
use crate::rra::Function;
use crate::text;
use crate::{fetch as range, info as facts, page_cache, spec, xport as table};

/// Opens a file to read, after the daemon has written what waits for it.
fn open(parsed: &Parsed, name: &str) -> Result<Rrd> {
    if !parsed.has("noflush") {
        super::flush(parsed, name)?;
    }
    Rrd::open(&text::path(name), Access::Read)
}

pub(super) fn info(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let parsed = options::parse(arguments, &[("daemon", 'd', true), ("noflush", 'F', false)])?;
    let [name] = parsed.rest.as_slice() else {
        return refused("Usage: rrdtool info [--daemon |-d <addr> [--noflush|-F]] <file>");
    };
    let mut text = String::new();
    if let Some(address) = super::daemon(&parsed) {
        let mut client = Client::connect(&address)?;
        let name = client.name(name);
        if !parsed.has("noflush") {
            client.order(&["FLUSH", &name])?;
        }
        for line in client.order(&["INFO", &name])?.lines {
            text.push_str(&client::fact(&line));
        }
        return print(out, &text);
    }
    for (key, value) in facts::describe(&open(&parsed, name)?.header, name) {
        text.push_str(&format!("{key} = {value}\n"));
    }
    print(out, &text)
}

/// Whether the value of a time's option is a time.
fn is_time(name: &str, value: &str, now: i64) -> Result<()> {
    if name != "start" && name != "end" {
        return Ok(());
    }
    let parsed = When::parse(value, now);
    parsed.map(|_| ()).map_err(|error| Error::Refused(format!("{name} time: {error}")))
}

/// Start and end of a range from their options; by default the last day.
fn times(parsed: &Parsed, now: i64) -> Result<(i64, i64)> {
    let parse = |name: &str, default: When| match parsed.value(name) {
        Some(text) => When::parse(text, now).map_err(|error| Error::Refused(format!("{name} time: {error}"))),
        None => Ok(default),
    };
    let start = parse("start", When::day_before_end())?;
    let end = parse("end", When::now())?;
    When::range(&start, &end, now).map_err(Error::Refused)
}

pub(super) fn fetch(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let known = [
        ("resolution", 'r', true),
        ("start", 's', true),
        ("end", 'e', true),
        ("align-start", 'a', false),
        ("daemon", 'd', true),
    ];
    let (parsed, wrong) = options::parse_up_to(arguments, &known);
    let now = file::clock().seconds;
    let mut resolution = 1;
    for (name, value) in &parsed.options {
        match *name {
            "resolution" => match spec::option_seconds(value) {
                Ok(seconds) => resolution = seconds,
                Err(why) => return refused(format!("resolution: {why}")),
            },
            _ => is_time(name, value, now)?,
        }
    }
    wrong?;
    let (mut start, mut end) = times(&parsed, now)?;
    if parsed.has("align-start") {
        let over = start.rem_euclid((resolution as i64).max(1));
        (start, end) = (start - over, end - over);
    }
    if start < 3600 * 24 * 365 * 10 {
        return refused("the first entry to fetch should be after 1980");
    }
    if end < start {
        return refused(format!("start ({start}) should be less than end ({end})"));
    }
    let Some([name, function]) = parsed.first() else {
        return refused("Usage: rrdtool fetch <file> <CF> [options]");
    };
    let known = || match Function::from_name(function) {
        Some(function) => Ok(function),
        None => refused(format!("unknown consolidation function '{function}'")),
    };
    let (fetched, sources) = match super::daemon(&parsed) {
        // The daemon knows no resolution: with one, the file is read here.
        Some(address) if !parsed.has("resolution") => {
            let mut client = Client::connect(&address)?;
            let name = client.name(name);
            client.fetch(&name, function, start, end)?
        }
        _ => {
            let function = known()?;
            let rrd = open(&parsed, name)?;
            let fetched = range::fetch(&rrd, function, start, end, resolution)?;
            (fetched, rrd.header.sources().iter().map(|source| source.name.clone()).collect())
        }
    };
    let mut text = " ".repeat(11);
    text.push_str(&sources.iter().map(|source| format!("{source:>20}")).collect::<String>());
    text.push_str("\n\n");
    for (row, values) in fetched.values.chunks(sources.len().max(1)).enumerate() {
        let time = fetched.start + (row as i64 + 1) * fetched.step as i64;
        text.push_str(&format!("{time:>10}:"));
        for value in values {
            text.push(' ');
            text.push_str(&number::scientific(*value, 10));
        }
        text.push('\n');
        if text.len() > 1 << 16 {
            print(out, &text)?;
            text.clear();
        }
    }
    print(out, &text)
}

pub(super) fn dump(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let known = [("header", 'h', true), ("no-header", 'n', false), ("daemon", 'd', true)];
    let usage = "usage rrdtool dump [--header|-h {none,xsd,dtd}]\n[--no-header|-n]\n[--daemon|-d address]\nfile.rrd [file.xml]";
    let parsed = options::parse(arguments, &known).or_else(|_| refused(usage))?;
    let prologue = match (parsed.has("no-header"), parsed.value("header")) {
        (true, _) | (_, Some("none")) => Prologue::None,
        (_, Some("xsd")) => Prologue::Xsd,
        _ => Prologue::Dtd,
    };
    match parsed.rest.as_slice() {
        [name] => crate::dump::dump(&open(&parsed, name)?, prologue, out),
        [name, target] => {
            let rrd = open(&parsed, name)?;
            let is_same = text::path(target).canonicalize().ok() == text::path(name).canonicalize().ok();
            if is_same {
                return refused(format!("'{name}' is not dumped onto itself"));
            }
            let failed = |error| Error::io("opening", text::path(target), error);
            let mut file =
                std::io::BufWriter::new(std::fs::File::create(text::path(target)).map_err(failed)?);
            crate::dump::dump(&rrd, prologue, &mut file)?;
            file.flush().map_err(failed)
        }
        _ => refused(usage),
    }
}

/// Runs `find` for the one file named, and prints its answer; -1 before an error, as rrdtool does.
fn stamp(outcome: Result<i64>, out: &mut dyn Write) -> Result<()> {
    match outcome {
        Ok(time) => print(out, &format!("{time}\n")),
        Err(error) => {
            print(out, "-1\n")?;
            Err(error)
        }
    }
}

pub(super) fn last(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let find = || {
        let parsed = options::parse(arguments, &[("daemon", 'd', true)])?;
        let [name] = parsed.rest.as_slice() else {
            return refused("Usage: rrdtool last [--daemon|-d <addr>] <file>");
        };
        match super::daemon(&parsed) {
            // The daemon counts what waits, without writing it: the end of the newest primary point.
            Some(address) => Client::connect(&address)?.last(name),
            None => Ok(Rrd::open(&text::path(name), Access::Read)?.header.last_update()),
        }
    };
    stamp(find(), out)
}

pub(super) fn first(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let find = || {
        let (parsed, wrong) =
            options::parse_up_to(arguments, &[("rraindex", ' ', true), ("daemon", 'd', true)]);
        // rrdtool reads a text that is not a number as 0, and each number before the next word.
        let indexes = parsed.options.iter().filter(|(name, _)| *name == "rraindex");
        let indexes: Vec<i64> = indexes.map(|(_, value)| number::c_long(value)).collect();
        if indexes.iter().any(|index| *index < 0) {
            return refused("invalid rraindex number");
        }
        wrong?;
        let index = indexes.last().copied().unwrap_or(0);
        let Some([name]) = parsed.first() else {
            return refused("usage rrdtool first [--rraindex number] [--daemon|-d <addr>] file.rrd");
        };
        if let Some(address) = super::daemon(&parsed) {
            return Client::connect(&address)?.first(name, index);
        }
        let header = open(&parsed, name)?.header;
        let rra = usize::try_from(index).ok().filter(|index| *index < header.archives().len());
        let Some(rra) = rra else { return refused("invalid rraindex number") };
        let reach = (header.archives()[rra].rows - 1).wrapping_mul(header.row_seconds(rra));
        Ok(header.newest_row_end(rra).wrapping_sub(reach as i64))
    };
    stamp(find(), out)
}

pub(super) fn last_update(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let parsed = options::parse(arguments, &[("daemon", 'd', true)])?;
    let [name] = parsed.rest.as_slice() else {
        return refused("Usage: rrdtool lastupdate [--daemon|-d <addr>] <file>");
    };
    let header = open(&parsed, name)?.header;
    let names: String = header.sources().iter().map(|source| format!(" {}", source.name)).collect();
    let reading = |ds| format!(" {}", text::of(header.last_reading(ds)));
    let readings: String = (0..header.sources().len()).map(reading).collect();
    print(out, &format!("{names}\n\n{:>10}:{readings}\n", header.last_update()))
}

pub(super) fn xport(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let known = [
        ("start", 's', true),
        ("end", 'e', true),
        ("maxrows", 'm', true),
        ("step", ' ', true),
        ("enumds", ' ', false),
        ("json", ' ', false),
        ("showtime", 't', false),
        ("daemon", 'd', true),
    ];
    let (parsed, wrong) = options::parse_up_to(arguments, &known);
    let now = file::clock().seconds;
    let count =
        |text: &str| number::decimal(text.as_bytes()).map_or(0, |(value, _)| number::as_unsigned_long(value));
    let (mut rows, mut step) = (400, 0);
    for (name, value) in &parsed.options {
        match *name {
            "maxrows" => {
                rows = count(value);
                // A negative number is one above all others.
                if rows < 10 || i64::try_from(rows).is_err() {
                    return refused("maxrows below 10 rows");
                }
            }
            // A negative number is not an archive.
            "step" => step = Some(count(value)).filter(|step| i64::try_from(*step).is_ok()).unwrap_or(0),
            _ => is_time(name, value, now)?,
        }
    }
    wrong?;
    let (start, end) = times(&parsed, now)?;
    if start < 3600 * 24 * 365 * 10 {
        return refused("the first entry to fetch should be after 1980");
    }
    if end < start {
        return refused(format!("start ({start}) should be less than end ({end})"));
    }
    let plan = table::Plan { start, end, step, rows, now };
    let table = table::build(&parsed.rest, &plan, |path, own| {
        match own {
            Some(address) => super::flush_through(address, path)?,
            None => super::flush(&parsed, path)?,
        }
        Rrd::open(&text::path(path), Access::Read).map(Some)
    })?;
    let text = match parsed.has("json") {
        true => table.json(parsed.has("showtime")),
        false => table.xml(parsed.has("showtime"), parsed.has("enumds")),
    };
    print(out, &text)
}

pub(super) fn list(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let known = [("daemon", 'd', true), ("noflush", 'F', false), ("recursive", 'r', false)];
    let parsed = options::parse(arguments, &known)?;
    let [path] = parsed.rest.as_slice() else {
        return refused("Usage: rrdtool list [--daemon <addr> [--noflush]] [--recursive] <directory>");
    };
    let is_recursive = parsed.has("recursive");
    let (names, unread) = if let Some(address) = super::daemon(&parsed) {
        let words: &[&str] = if is_recursive { &["LIST", "RECURSIVE", path] } else { &["LIST", path] };
        (Client::connect(&address)?.order(words)?.lines, 0)
    } else {
        match one_file(path)
            .map_or_else(|| listed(&text::path(path), is_recursive), |name| Ok((vec![name], 0)))
        {
            // rrdtool prints the reason and succeeds; a script that lists many directories may rely on that.
            Err(Error::Io { source, .. }) if super::started_as("rrdtool") => {
                // For a file without a directory in its name, rrdtool says so.
                let source = match source.kind() {
                    std::io::ErrorKind::NotADirectory if path.ends_with(".rrd") => {
                        std::io::Error::from_raw_os_error(libc::EINVAL)
                    }
                    _ => source,
                };
                let _ = write!(std::io::stderr(), "{}", crate::error::os_text(&source));
                return Ok(());
            }
            listed => listed?,
        }
    };
    if names.is_empty() && super::started_as("rrdtool") {
        // rrdtool says the same of a directory without files.
        let _ = write!(std::io::stderr(), "Success");
    }
    print(out, &names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    match unread {
        0 => Ok(()),
        _ => refused(format!("{unread} directories below '{path}' could not be read")),
    }
}

/// The last part of `path`, where that is one `.rrd` file and no directory. rrdtool knows such a file only by a name with a
/// slash, and none above this directory.
fn one_file(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().filter(|name| name.ends_with(".rrd"))?;
    let is_theirs = path.contains('/') && path.split('/').all(|part| part != "..");
    let is_file = text::path(path).metadata().is_ok_and(|of| of.is_file());
    (is_file && (is_theirs || !super::started_as("rrdtool"))).then(|| name.to_string())
}

/// Directories and `.rrd` files in `directory`, or all `.rrd` files below it, without following symbolic links; and how
/// many directories could not be read.
fn listed(directory: &Path, is_recursive: bool) -> Result<(Vec<String>, u64)> {
    let failed = |error| Error::io("reading", directory, error);
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    if is_recursive {
        let mut unread = 0;
        let files = page_cache::rrd_files(directory, &mut unread);
        let name = |file: &Path| text::name(file.strip_prefix(directory).unwrap_or(file));
        return Ok((files.iter().map(|file| name(file)).collect(), unread));
    }
    let mut names = vec![];
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = text::name(entry.file_name());
        if name.ends_with(".rrd") || entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(name);
        }
    }
    names.sort();
    Ok((names, 0))
}

pub(super) fn flush(arguments: &[String]) -> Result<()> {
    let parsed = options::parse(arguments, &[("daemon", 'd', true)])?;
    if parsed.rest.is_empty() {
        return refused("Usage: rrdtool flushcached [--daemon|-d <addr>] <file> [<file> ...]");
    }
    let Some(address) = super::daemon(&parsed) else {
        return refused(
            "Daemon address \"(null)\" unknown. Please use the \"--daemon\" option to set an address on the \
             command line or set the \"RRDCACHED_ADDRESS\" environment variable.",
        );
    };
    super::through::flush(&parsed.rest, &address)
}
