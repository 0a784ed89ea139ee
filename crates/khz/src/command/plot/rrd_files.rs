//! `khz plot` of `.rrd` files: one panel a file, one line a data source. The rows are rates already, so nothing is computed of
//! them; unknown rows break the line.

use std::path::{Path, PathBuf};

use khz_model::Nanos;
use khz_model::calendar::utc;
use khz_model::glob::Glob;
use khz_rrd::error::Error;
use khz_rrd::fetch::{self, Fetched};
use khz_rrd::file::{Access, Rrd, looks_like_rrd};
use khz_rrd::rra::Function;
use khz_view::{Axis, Chart, Panel, Point, Scale};

use super::{PANELS_MAX, PlotFlags, natural};
use crate::command::past::{moment, now};
use crate::show::outcome::Failure;
use crate::show::table::{printable, remark};

/// Lines of a picture: as many as there are colours.
const LINES_MAX: usize = 8;
/// What is drawn where `--from` is not given: the day before the end.
const DAY: i64 = 86_400;

/// Whether `path` is an `.rrd` file, by its first bytes, or by its name where it cannot be read.
fn is_rrd(path: &Path) -> bool {
    use std::io::Read;
    // A header has more bytes than the mark; the rest is not looked at.
    let mut head = Vec::new();
    match std::fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut head)) {
        Ok(_) => looks_like_rrd(&head),
        Err(_) => path.extension().is_some_and(|ending| ending == "rrd"),
    }
}

/// Whether the flags name `.rrd` files; an error if they do not fit what is named.
pub fn are_named(flags: &PlotFlags) -> Result<bool, Failure> {
    let files = &flags.chosen.files;
    let is_some = files.iter().any(|path| is_rrd(path));
    if !is_some && (flags.cf.is_some() || flags.rra.is_some()) {
        return Err(Failure::usage("--cf and --rra choose an archive of an .rrd file; name one"));
    }
    if is_some && flags.per_sample {
        return Err(Failure::usage(
            "--per-sample needs a recording: the rows of .rrd files are rates already",
        ));
    }
    match files.iter().find(|path| is_some && !is_rrd(path)) {
        Some(other) => Err(Failure::usage(format!(
            "{} is no .rrd file; one picture draws .rrd files, or a recording",
            other.display()
        ))),
        None => Ok(is_some),
    }
}

/// An open file, and what of it is drawn.
struct Chosen {
    path: PathBuf,
    rrd: Rrd,
    /// The archive that `--rra` names.
    archive: Option<usize>,
    function: Function,
    /// Places of the data sources, each with its axis.
    sources: Vec<(usize, usize)>,
}

/// Seconds since 1970: from, to.
type Span = (i64, i64);

/// The chart of the files that the flags name.
pub fn chart(flags: &PlotFlags) -> Result<Chart, Failure> {
    let mut files = Vec::new();
    for path in flags.chosen.files.iter().take(PANELS_MAX) {
        files.push(opened(flags, path)?);
    }
    if flags.chosen.files.len() > PANELS_MAX {
        let more = flags.chosen.files.len() - PANELS_MAX;
        remark!("{more} files are not drawn: one picture holds {PANELS_MAX}");
    }
    let span = span(flags, &files)?;
    let legend = legend(&files);
    let mut panels = Vec::new();
    let mut is_empty = true;
    for file in &files {
        let drawn = panel(file, span, flags.points(), &legend)?;
        is_empty &= drawn.curves.iter().all(|curve| curve.points.is_empty());
        panels.push(drawn);
    }
    if is_empty {
        return Err(nothing_known(&files, span));
    }
    panels.sort_by_cached_key(|panel| natural(&panel.name));
    let names: Vec<&str> = legend.iter().map(|(name, _)| name.as_str()).collect();
    let seconds = apart(span.0, span.1);
    Ok(Chart {
        title: flags.title.clone().unwrap_or_else(|| title(&files)),
        subtitle: format!("{}, from {} to {}", names.join(", "), at(span.0), at(span.1)),
        across: khz_view::Across::Time,
        time_title: format!("time since {}", at(span.0)),
        begins: Some(span.0 as f64),
        seconds,
        axes: axes(&files),
        legend,
        panels,
    })
}

/// A failure of the file at `path`; rrdtool's own words do not always name it.
fn of_error(path: &Path, error: &Error) -> Failure {
    let (words, name) = (error.to_string(), path.display().to_string());
    Failure::work(if words.contains(&name) { words } else { format!("{name}: {words}") })
}

/// Opens a file, after the daemon of the environment has written what waits for it.
fn opened(flags: &PlotFlags, path: &Path) -> Result<Chosen, Failure> {
    let named = |words: String| Failure::usage(format!("{}: {words}", path.display()));
    if let Some(address) = std::env::var_os("RRDCACHED_ADDRESS").filter(|address| !address.is_empty()) {
        khz_rrd::cli::flush_through(&khz_rrd::text::name(address), &khz_rrd::text::name(path))
            .map_err(|error| of_error(path, &error))?;
    }
    let rrd = Rrd::open(path, Access::Read).map_err(|error| of_error(path, &error))?;
    let archives = rrd.header.archives();
    if let Some(number) = flags.rra.filter(|number| *number >= archives.len()) {
        return Err(named(format!(
            "it has no archive {number}; its archives are 0 to {} (`khz rrd info`)",
            archives.len().saturating_sub(1)
        )));
    }
    let function = function(flags, &rrd).map_err(named)?;
    let sources = sources(flags, &rrd).map_err(named)?;
    Ok(Chosen { path: path.into(), archive: flags.rra, function, sources, rrd })
}

/// The function that is drawn: that of `--rra` or `--cf`, else AVERAGE, else the first that the file has.
fn function(flags: &PlotFlags, rrd: &Rrd) -> Result<Function, String> {
    let archives = rrd.header.archives();
    if let Some(number) = flags.rra {
        return Ok(archives[number].function);
    }
    let has = |function: Function| archives.iter().any(|archive| archive.function == function);
    let Some(name) = &flags.cf else {
        let plain = archives.iter().map(|archive| archive.function).find(|function| function.is_plain());
        let other = plain.unwrap_or(archives[0].function);
        return Ok(if has(Function::Average) { Function::Average } else { other });
    };
    match Function::from_name(&name.to_uppercase()) {
        Some(function) if has(function) => Ok(function),
        _ => {
            let mut known: Vec<&str> = Vec::new();
            for archive in archives {
                if !known.contains(&archive.function.name()) {
                    known.push(archive.function.name());
                }
            }
            Err(format!("it has no archive of {name}; it has {}", known.join(", ")))
        }
    }
}

/// The data sources that `--match` and `--right` choose; without either all of them, as far as there are colours.
fn sources(flags: &PlotFlags, rrd: &Rrd) -> Result<Vec<(usize, usize)>, String> {
    let names: Vec<&str> = rrd.header.sources().iter().map(|source| source.name.as_str()).collect();
    let is_all = flags.chosen.patterns.is_empty() && flags.right.is_empty();
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    if is_all {
        chosen.extend((0..names.len()).map(|place| (place, 0)));
    }
    // A source that both choose is on the right.
    for (axis, patterns) in [(1, &flags.right), (0, &flags.chosen.patterns)] {
        for pattern in patterns {
            let glob = Glob::new(pattern);
            let found: Vec<usize> = (0..names.len()).filter(|place| glob.matches(names[*place])).collect();
            if found.is_empty() {
                return Err(format!("it has no data source {pattern}; it has {}", names.join(", ")));
            }
            for place in found {
                if chosen.iter().all(|(known, _)| *known != place) {
                    chosen.push((place, axis));
                }
            }
        }
    }
    if !is_all && chosen.iter().all(|(_, axis)| *axis == 1) {
        return Err("--right needs something on the left axis: give it with --match".into());
    }
    if chosen.len() > LINES_MAX && !is_all {
        return Err(format!(
            "more than {LINES_MAX} data sources match: a panel with more lines says nothing"
        ));
    }
    if chosen.len() > LINES_MAX {
        let left = chosen.len() - LINES_MAX;
        remark!("{left} data sources are not drawn: a panel has {LINES_MAX}; choose with --match");
        chosen.truncate(LINES_MAX);
    }
    chosen.sort_unstable_by_key(|(place, axis)| (*axis, *place));
    Ok(chosen)
}

/// From when to when. Files may have ended long ago, so the end is that of the newest file; `--rra` alone draws its archive.
fn span(flags: &PlotFlags, files: &[Chosen]) -> Result<Span, Failure> {
    let given = |flag: &str, text: &Option<String>| -> Result<Option<i64>, Failure> {
        let moment = text.as_deref().map(|text| moment(flag, text)).transpose()?;
        Ok(moment.map(|moment| i64::try_from(moment.0 / 1_000_000_000).unwrap_or(i64::MAX)))
    };
    let (from, to) = (given("from", &flags.chosen.from)?, given("to", &flags.chosen.to)?);
    let newest = files.iter().map(|file| file.rrd.header.last_update()).max().unwrap_or(0);
    let present = i64::try_from(now().0 / 1_000_000_000).unwrap_or(i64::MAX);
    // With a start after the last update, the end is the present.
    let to = to.unwrap_or(if from.is_some_and(|from| from >= newest) { present } else { newest });
    let oldest = files.iter().filter_map(|file| file.archive.map(|rra| covered(&file.rrd, rra).0)).min();
    let from = from.or(oldest.filter(|oldest| *oldest < to)).unwrap_or(to.saturating_sub(DAY));
    if from >= to {
        return Err(Failure::usage(format!(
            "--from must be before --to: they are {} and {}",
            at(from),
            at(to)
        )));
    }
    Ok((from, to))
}

/// The time that an archive covers.
fn covered(rrd: &Rrd, rra: usize) -> Span {
    let end = rrd.header.newest_row_end(rra);
    let seconds = rrd.header.row_seconds(rra).saturating_mul(rrd.header.archives()[rra].rows);
    (end.saturating_sub(i64::try_from(seconds).unwrap_or(i64::MAX)), end)
}

/// A colour for each name of a data source, with its axis.
fn legend(files: &[Chosen]) -> Vec<(String, usize)> {
    let mut legend: Vec<(String, usize)> = Vec::new();
    for file in files {
        for (place, axis) in &file.sources {
            let name = printable(&file.rrd.header.sources()[*place].name);
            if legend.iter().all(|(known, _)| *known != name) {
                legend.push((name, *axis));
            }
        }
    }
    legend
}

/// Titles of the axes: what is on them. Files do not say in which unit.
fn axes(files: &[Chosen]) -> Vec<Axis> {
    let legend = legend(files);
    let count = 1 + legend.iter().map(|(_, axis)| *axis).max().unwrap_or(0);
    let title = |axis: usize| {
        let names: Vec<&str> =
            legend.iter().filter(|(_, of)| *of == axis).map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    (0..count).map(|axis| Axis { title: title(axis), scale: Scale::Plain }).collect()
}

fn title(files: &[Chosen]) -> String {
    let name = |path: &Path| printable(&path.display().to_string());
    match files {
        [one] => format!("{} ({})", name(&one.path), one.function.name()),
        [first, ..] => format!("{} files ({})", files.len(), first.function.name()),
        [] => String::new(),
    }
}

/// Seconds from one moment to another. A damaged file may have any two.
fn apart(from: i64, to: i64) -> f64 {
    to as f64 - from as f64
}

/// A moment of a file; a damaged one may be before 1970.
fn at(seconds: i64) -> String {
    u64::try_from(seconds).map_or_else(|_| seconds.to_string(), |seconds| utc(Nanos::from_secs(seconds)))
}

fn nothing_known(files: &[Chosen], span: Span) -> Failure {
    let newest = files.iter().map(|file| file.rrd.header.last_update()).max().unwrap_or(0);
    Failure::work(format!(
        "there are no known values from {} to {}; the last update was at {}",
        at(span.0),
        at(span.1),
        at(newest)
    ))
}

/// The rows of a function within `span`, no further than its archive reaches. `None` where the file has none.
fn rows(file: &Chosen, function: Function, span: Span, width: u32) -> Result<Option<Fetched>, Failure> {
    let header = &file.rrd.header;
    let resolution = (span.1.saturating_sub(span.0) / i64::from(width.max(1))).max(1).unsigned_abs();
    let chosen = file.archive.or_else(|| fetch::choose(header, function, span.0, span.1, resolution));
    let Some(rra) = chosen else { return Ok(None) };
    let (begin, end) = covered(&file.rrd, rra);
    let (start, end) = (span.0.max(begin), span.1.min(end));
    if start >= end {
        return Ok(None);
    }
    // The end is always moved on to the next end of a row.
    let fetched = fetch::fetch_from(&file.rrd, rra, start, end.saturating_sub(1));
    fetched.map(Some).map_err(|error| of_error(&file.path, &error))
}

/// The panel of one file.
fn panel(file: &Chosen, span: Span, width: u32, legend: &[(String, usize)]) -> Result<Panel, Failure> {
    let name = file.path.file_stem().map_or(String::new(), |name| printable(&name.to_string_lossy()));
    let mut panel = Panel { name, ..Panel::default() };
    let Some(drawn) = rows(file, file.function, span, width)? else {
        panel.gaps.push((0.0, apart(span.0, span.1)));
        return Ok(panel);
    };
    // Where the file keeps them in rows of the same times, the band is from the smallest to the largest.
    let beside = |function: Function| -> Result<Option<Fetched>, Failure> {
        if file.function != Function::Average || file.archive.is_some() {
            return Ok(None);
        }
        let other = rows(file, function, span, width)?;
        Ok(other.filter(|other| (other.start, other.step, other.end) == (drawn.start, drawn.step, drawn.end)))
    };
    let bands = [beside(Function::Min)?, beside(Function::Max)?];
    let count = file.rrd.header.sources().len();
    for (place, axis) in &file.sources {
        let name = printable(&file.rrd.header.sources()[*place].name);
        let points = points(&drawn, &bands, (*place, count), span, width);
        let entry = legend.iter().position(|(known, _)| *known == name).unwrap_or(0);
        panel.curves.push(khz_view::Curve { name, legend: entry, axis: *axis, points });
    }
    panel.gaps = gaps(&drawn, file, count, span);
    Ok(panel)
}

/// The known rows of a source, those of one pixel as one point.
fn points(
    drawn: &Fetched,
    bands: &[Option<Fetched>; 2],
    (place, count): (usize, usize),
    (from, to): Span,
    width: u32,
) -> Vec<Point> {
    let seconds = apart(from, to);
    let pixel = seconds / f64::from(width.max(1));
    let (mut points, mut members): (Vec<Point>, f64) = (Vec::new(), 0.0);
    let mut is_behind_gap = false;
    for row in 0..drawn.values.len() / count {
        let value = |of: &Fetched| of.values[row * count + place];
        let mean = value(drawn);
        if !mean.is_finite() {
            is_behind_gap = true;
            continue;
        }
        let edge = |band: &Option<Fetched>| {
            band.as_ref().map(value).filter(|value| value.is_finite()).unwrap_or(mean)
        };
        let (low, high) = (edge(&bands[0]).min(mean), edge(&bands[1]).max(mean));
        // A row covers the time up to its end; it is drawn in its middle.
        let end = apart(from, drawn.start) + (row + 1) as f64 * drawn.step as f64;
        let at = (end - drawn.step as f64 / 2.0).clamp(0.0, seconds);
        match points
            .last_mut()
            .filter(|last| !is_behind_gap && (last.at / pixel).floor() == (at / pixel).floor())
        {
            Some(last) => {
                members += 1.0;
                last.mean += (mean - last.mean) / members;
                (last.low, last.high) = (last.low.min(low), last.high.max(high));
            }
            None => {
                members = 1.0;
                points.push(Point {
                    at,
                    low,
                    mean,
                    high,
                    is_behind_gap: is_behind_gap && !points.is_empty(),
                });
            }
        }
        is_behind_gap = false;
    }
    points
}

/// Stretches of which no drawn source knows anything, also before the archive and after its end.
fn gaps(drawn: &Fetched, file: &Chosen, count: usize, (from, to): Span) -> Vec<(f64, f64)> {
    let step = drawn.step as f64;
    let seconds = apart(from, to);
    let mut gaps: Vec<(f64, f64)> = Vec::new();
    let mut add = |begin: f64, end: f64| {
        let (begin, end) = (begin.clamp(0.0, seconds), end.clamp(0.0, seconds));
        match gaps.last_mut().filter(|last| last.1 >= begin) {
            Some(last) => last.1 = last.1.max(end),
            None if end > begin => gaps.push((begin, end)),
            None => {}
        }
    };
    let start = apart(from, drawn.start);
    add(0.0, start);
    let rows = drawn.values.len() / count;
    for row in 0..rows {
        let is_unknown = |(place, _): &(usize, usize)| !drawn.values[row * count + place].is_finite();
        if file.sources.iter().all(is_unknown) {
            add(start + row as f64 * step, start + (row + 1) as f64 * step);
        }
    }
    // The open row is not missing yet.
    let end = start + rows as f64 * step;
    if seconds - end > step {
        add(end, seconds);
    }
    gaps
}
