//! The commands that write: create, update, updatev, tune, resize, restore.

use std::io::Write;
use std::path::Path;

use super::options::{self, Parsed};
use super::{print, through};
use crate::at::When;
use crate::content::Content;
use crate::create::{self as plan, Plan};
use crate::error::{Error, Result, refused};
use crate::file::{self, Access, Rrd};
use crate::info::number_text;
use crate::number;
use crate::text;
use crate::update::{Applied, Failure, Options};
use crate::{prefill, restore as xml, spec, tune as change};

/// Earliest start rrdtool takes: ten years after 1970.
const START_MIN: i64 = 3600 * 24 * 365 * 10;

/// Seconds of a primary point by default.
const STEP_DEFAULT: u64 = 300;

/// A fresh random source for row positions: the clock and the process, as rrdtool seeds its own.
pub(super) fn random_rows() -> impl FnMut(usize, u64) -> u64 {
    let now = file::clock();
    let mut state = (now.seconds as u64) ^ (now.usec as u64) << 20 ^ u64::from(std::process::id()) << 40;
    move |_, rows| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % rows
    }
}

/// Where a file is to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// By this process.
    Here,
    /// By the daemon, if one is named.
    WhereNamed,
}

pub(super) fn create(arguments: &[String], place: Place) -> Result<()> {
    let known = [
        ("start", 'b', true),
        ("step", 's', true),
        ("daemon", 'd', true),
        ("source", 'r', true),
        ("template", 't', true),
        ("no-overwrite", 'O', false),
    ];
    let (parsed, wrong) = options::parse_up_to(arguments, &known);
    let now = file::clock().seconds;
    let mut start = (now - 10, 0);
    let (mut step, mut template) = (STEP_DEFAULT, None);
    for (name, value) in &parsed.options {
        match *name {
            "start" => start = (start_time(value, now)?, 0),
            "step" => step = self::step(value)?,
            "template" => template = Some(value),
            "source" => is_regular(value)?,
            _ => {}
        }
    }
    wrong?;
    let Some((name, specs)) = parsed.rest.split_first() else {
        return refused("need name of an rrd file to create");
    };
    let path = &text::path(name);
    if let Some(address) = super::daemon(&parsed).filter(|_| place == Place::WhereNamed) {
        return through::create(&parsed, &address, start.0);
    }
    if parsed.has("no-overwrite") && path.symlink_metadata().is_ok() {
        return Err(Error::io("creating", path, std::io::Error::from_raw_os_error(libc::EEXIST)));
    }
    let mut definition = Plan::default();
    if let Some(template) = template {
        let Ok(rrd) = Rrd::open(&text::path(template), Access::Read) else {
            return refused(format!("Cannot open template RRD {template}"));
        };
        if !parsed.has("step") {
            step = rrd.header.step();
        }
        if !parsed.has("start") {
            start = (rrd.header.last_update(), 0);
        }
        definition.take(rrd.header.definition());
    }
    let hash = spec::season_hash(name);
    let mut mappings = vec![None; definition.sources.len()];
    for spec in specs {
        if let Some(source) = spec.strip_prefix("DS:") {
            // The command line counts files from 1; 0 is not a file.
            let mapping = definition.source(source)?;
            let from_zero = |index: usize| index.checked_sub(1).unwrap_or(usize::MAX);
            mappings.push(mapping.map(|(name, file)| (name, file.map(from_zero))));
        } else if let Some(archive) = spec.strip_prefix("RRA:") {
            definition.archive(archive, step, hash)?;
        } else {
            return refused(format!("can't parse argument '{spec}'"));
        }
    }
    let definition = definition.definition(step)?;
    let files = past(&parsed)?;
    if files.is_empty() {
        let mut header = plan::header(definition, start.0, random_rows())?;
        header.set_last_update(start.0, start.1);
        return file::create(path, &header, std::iter::empty(), true);
    }
    let newest = files.iter().map(|content| content.last_update).max().filter(|_| !parsed.has("start"));
    let content = prefill::fill(definition, newest.unwrap_or(start), &mappings, &files)?;
    let (header, values) = content.build(random_rows())?;
    file::create(path, &header, values.into_iter(), true)
}

/// Refuses a source that is not a regular file.
fn is_regular(name: &str) -> Result<()> {
    match text::path(name).metadata() {
        Ok(there) if there.is_file() => Ok(()),
        Ok(_) => refused(format!("Not a regular file: {name}")),
        Err(error) => {
            let why = crate::error::os_text(&error);
            refused(format!("error checking for source RRD {name}: {why}"))
        }
    }
}

/// The contents of the files that fill a new one.
fn past(parsed: &Parsed) -> Result<Vec<Content>> {
    let named = parsed.options.iter().filter(|(option, _)| *option == "source");
    named.map(|(_, name)| Content::read(&Rrd::open(&text::path(name), Access::Read)?)).collect()
}

/// Seconds of a primary point, from the option.
pub(super) fn step(text: &str) -> Result<u64> {
    let step = spec::option_seconds(text);
    step.map_err(|why| Error::Refused(format!("step size: {why}")))
}

fn start_time(text: &str, now: i64) -> Result<i64> {
    let when = When::parse(text, now).map_err(|error| Error::Refused(format!("start time: {error}")))?;
    if when.is_relative() {
        return refused("specifying time relative to the 'start' or 'end' makes no sense here");
    }
    match when.resolve(now) {
        Some(start) if start >= START_MIN => Ok(start),
        _ => refused("the first entry to the RRD should be after 1980"),
    }
}

/// The file and the samples of an update.
pub(super) fn file_and_samples(parsed: &Parsed) -> Result<(&String, &[String])> {
    match parsed.rest.split_first() {
        Some((name, samples)) if !samples.is_empty() => Ok((name, samples)),
        _ => refused("Not enough arguments"),
    }
}

fn apply(parsed: &Parsed, record: bool) -> Result<(Rrd, Applied)> {
    let (name, samples) = file_and_samples(parsed)?;
    let mut rrd = Rrd::open(&text::path(name), Access::Write)?;
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    let options = Options {
        name,
        template: parsed.value("template"),
        skip_past: parsed.has("skip-past-updates"),
        now: file::clock(),
        failure: Failure::ChangesNothing,
        record,
    };
    let applied = rrd.update(&samples, &options)?;
    Ok((rrd, applied))
}

const UPDATE_OPTIONS: [options::Known; 3] =
    [("template", 't', true), ("skip-past-updates", 's', false), ("daemon", 'd', true)];

pub(super) fn update(arguments: &[String]) -> Result<()> {
    let parsed = options::parse(arguments, &UPDATE_OPTIONS)?;
    match super::daemon(&parsed) {
        Some(address) => through::update(&parsed, &address),
        None => apply(&parsed, false).map(|_| ()),
    }
}

pub(super) fn update_verbose(arguments: &[String], out: &mut dyn Write) -> Result<()> {
    // Only the process that writes the rows can print them, so this goes through no daemon.
    let parsed = options::parse(arguments, &UPDATE_OPTIONS[..2])?;
    file_and_samples(&parsed)?;
    let (rrd, applied) = match apply(&parsed, true) {
        Ok(done) => done,
        Err(error) => {
            print(out, "return_value = -1\n")?;
            return Err(error);
        }
    };
    let mut text = String::from("return_value = 0\n");
    for row in &applied.record {
        let archive = &rrd.header.archives()[row.rra];
        for (source, value) in rrd.header.sources().iter().zip(&row.values) {
            let (function, points) = (archive.function.name(), archive.points);
            let value = number_text(*value);
            text.push_str(&format!("[{}]RRA[{function}][{points}]DS[{}] = {value}\n", row.time, source.name));
        }
    }
    print(out, &text)
}

pub(super) fn tune(arguments: &[String]) -> Result<()> {
    // In rrdtool a letter without its value takes the file's name for it. A missing file is reported first.
    let mut padded = arguments.to_vec();
    if options::lacks_value(arguments, change::OPTIONS) {
        padded.push(options::others(arguments, change::OPTIONS).into_iter().next().unwrap_or_default());
    }
    let (parsed, wrong) = options::parse_up_to(&padded, change::OPTIONS);
    let others = options::others(&padded, change::OPTIONS);
    let Some(name) = others.first() else { return refused("missing file name") };
    if wrong.is_err() {
        let lacks = matches!(&wrong, Err(error) if error.to_string().starts_with("option requires argument"));
        if lacks && parsed.rest.len() < 2 {
            return refused("missing file name");
        }
        // Errors in the file and in earlier options come before that of the wrong word.
        change::check(&Rrd::open(&text::path(name), Access::Write)?, &parsed.options)?;
        wrong?;
    }
    if parsed.rest.is_empty() {
        return refused("missing file name");
    }
    match super::daemon(&parsed) {
        Some(address) => through::tune(&parsed, &address),
        None => tune_here(&parsed, Access::Write),
    }
}

/// Tunes a file in this process, opened with `access`.
pub(super) fn tune_here(parsed: &Parsed, access: Access) -> Result<()> {
    let Some((name, specs)) = parsed.rest.split_first() else { return refused("missing file name") };
    let rrd = Rrd::open(&text::path(name), access)?;
    change::tune(&rrd, &parsed.options, specs, spec::season_hash(name), random_rows())
}

pub(super) fn resize(arguments: &[String]) -> Result<()> {
    let [name, rra, direction, rows] = arguments else { return refused("wrong number of parameters") };
    let number = |text: &str| number::c_decimal(text).unwrap_or(0);
    let by = match direction.as_str() {
        "GROW" => number(rows),
        "SHRINK" => number(rows).saturating_neg(),
        _ => return refused("I can only GROW or SHRINK"),
    };
    if number(rows) < 1 {
        return refused("Please grow or shrink with at least 1 row");
    }
    let rrd = Rrd::open(&text::path(name), Access::Write)?;
    let rra = number(rra);
    if rra < 0 || rra >= rrd.header.archives().len() as i64 {
        return refused("no such RRA in this RRD");
    }
    change::resize(&rrd, rra as usize, by, Path::new("resize.rrd"))
}

pub(super) fn restore(arguments: &[String]) -> Result<()> {
    let known = [("range-check", 'r', false), ("force-overwrite", 'f', false)];
    let parsed = options::parse(arguments, &known)?;
    let [source, target] = parsed.rest.as_slice() else {
        return refused("usage rrdtool restore [--range-check|-r] [--force-overwrite|-f] file.xml file.rrd");
    };
    let force = parsed.has("force-overwrite");
    let target = &text::path(target);
    let text = match source.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()),
        name => std::fs::read_to_string(text::path(name)),
    };
    let Ok(text) = text else { return refused(format!("Could not create xml reader for: {source}")) };
    if !force && target.symlink_metadata().is_ok() {
        return Err(Error::io("creating", target, std::io::Error::from_raw_os_error(libc::EEXIST)));
    }
    let (header, values) = xml::parse(&text, parsed.has("range-check"), random_rows())?;
    file::create(target, &header, values.into_iter(), force)
}
