//! `tune` and `resize`: definitions are changed in place, structures by rebuilding the file.

use std::path::Path;

use crate::content::Content;
use crate::ds::Kind;
use crate::error::{Result, refused};
use crate::file::{self, Rrd};
use crate::header::{CDP_UNKNOWN, Definition, Header};
use crate::holt_winters::{self, SEASONS};
use crate::layout::{self, NAME_MAX};
use crate::number::{self, Reading, UNKNOWN};
use crate::prefill;
use crate::rra::{Function, PAR_ALPHA, PAR_BETA, PAR_SMOOTH, PAR_THRESHOLD};
use crate::spec;

/// The least `deltapos` and `deltaneg`.
const DELTA_MIN: f64 = 0.1;

/// The options of `tune`.
pub const OPTIONS: &[(&str, char, bool)] = &[
    ("heartbeat", 'h', true),
    ("minimum", 'i', true),
    ("maximum", 'a', true),
    ("data-source-type", 'd', true),
    ("data-source-rename", 'r', true),
    ("deltapos", 'p', true),
    ("deltaneg", 'n', true),
    ("failure-threshold", 'f', true),
    ("window-length", 'w', true),
    ("alpha", 'x', true),
    ("beta", 'y', true),
    ("gamma", 'z', true),
    ("gamma-deviation", 'v', true),
    ("smoothing-window", 's', true),
    ("smoothing-window-deviation", 'S', true),
    ("aberrant-reset", 'b', true),
    ("step", 't', true),
    ("daemon", 'D', true),
];

/// The changes by options beside the definition, by the numbers of sources.
#[derive(Debug, Default)]
struct Changes {
    /// The sources whose learnt forecasts are reset.
    resets: Vec<usize>,
    /// These have, or had in between, another type.
    retyped: Vec<usize>,
}

/// Applies `options` and the structural `specs` (`DEL:`, `DS:`, `DELRRA:`, `RRA:`, `RRA#`).
///
/// # Errors
/// rrdtool's messages; nothing is changed then.
pub fn tune(
    rrd: &Rrd,
    options: &[(&str, String)],
    specs: &[String],
    season_hash: u64,
    row: impl FnMut(usize, u64) -> u64,
) -> Result<()> {
    let mut definition = Definition::clone(rrd.header.definition());
    let mut changes = Changes::default();
    for (name, value) in options {
        option(&mut definition, &mut changes, name, value)?;
    }
    definition.version =
        crate::create::version(&definition.sources, &definition.archives, definition.version);
    let mut header = rrd.header.redefined(definition)?;
    for ds in &changes.retyped {
        // The next difference must not be counted from a reading of another kind.
        header.forget_last_reading(*ds);
    }
    let resets = changes.resets;
    if options.iter().any(|(name, _)| matches!(*name, "failure-threshold" | "window-length")) {
        let failures = |archive: &crate::rra::Archive| archive.function == Function::Failures;
        for rra in (0..header.archives().len()).filter(|rra| failures(&rrd.header.archives()[*rra])) {
            (0..header.sources().len()).for_each(|ds| holt_winters::forget(&mut header, rra, ds));
        }
    }
    for ds in &resets {
        reset(&mut header, *ds);
    }
    if specs.is_empty() {
        return rrd.write_header(&header, resets.iter().copied());
    }
    let mut content = Content::read(rrd)?;
    content.version = header.version();
    for (ds, (state, source)) in content.sources.iter_mut().zip(header.sources()).enumerate() {
        state.source = source.clone();
        state.last = header.last_reading(ds).to_vec();
    }
    for (state, archive) in content.archives.iter_mut().zip(header.archives()) {
        state.archive = archive.clone();
    }
    for spec in specs {
        is_change(spec)?;
    }
    if let Some((_, step)) = options.iter().rev().find(|(name, _)| *name == "step") {
        set_step(&mut content, step)?;
    }
    for spec in specs {
        structure(&mut content, spec, season_hash)?;
    }
    let (header, values) = content.build(row)?;
    file::create(rrd.path(), &header, values.into_iter(), true)
}

/// Whether `options` could be applied to the file.
///
/// # Errors
/// rrdtool's message about the first that cannot.
pub fn check(rrd: &Rrd, options: &[(&str, String)]) -> Result<()> {
    let mut definition = Definition::clone(rrd.header.definition());
    let mut changes = Changes::default();
    options.iter().try_for_each(|(name, value)| option(&mut definition, &mut changes, name, value))
}

fn find(definition: &Definition, name: &str) -> Result<usize> {
    match definition.sources.iter().position(|source| source.name == name) {
        Some(index) => Ok(index),
        None => refused(format!("unknown data source name '{name}'")),
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

/// The limit of a source, of the text as far as it could be one; nothing may be left of that part.
fn limit(text: &str) -> Option<f64> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+' | b'-' | b'U');
    match &text[..text.bytes().take_while(|byte| is_part(byte)).count()] {
        "U" => Some(UNKNOWN),
        part => match number::read(part) {
            Reading::Whole(value) => Some(value),
            _ => None,
        },
    }
}

fn option(definition: &mut Definition, changes: &mut Changes, name: &str, value: &str) -> Result<()> {
    let pair = |what: &str| match value.split_once(':') {
        Some((name, value)) if is_name(name) && !value.is_empty() => Ok((name, value)),
        _ => refused(format!("invalid arguments for {what}")),
    };
    match name {
        "heartbeat" => {
            let (source, value) = pair("heartbeat")?;
            let Some(value) = number::c_decimal(value) else {
                return refused("invalid arguments for heartbeat");
            };
            let index = find(definition, source)?;
            definition.sources[index].heartbeat = value as u64;
        }
        "minimum" | "maximum" => {
            let what = if name == "minimum" { "minimum ds value" } else { "maximum ds value" };
            let (source, value) = pair(what)?;
            let Some(limit) = limit(value) else {
                return refused(format!("invalid arguments for {what}"));
            };
            let index = find(definition, source)?;
            let source = &mut definition.sources[index];
            if name == "minimum" { source.min = limit } else { source.max = limit }
        }
        "data-source-type" => {
            let (source, value) = pair("data source type")?;
            // As much of the value as can be a type.
            let length = value.bytes().take_while(u8::is_ascii_uppercase).count();
            let Some(value) = value.get(..length).filter(|value| !value.is_empty()) else {
                return refused("invalid arguments for data source type");
            };
            let index = find(definition, source)?;
            let Some(kind) = Kind::from_name(value) else {
                return refused(format!("unknown data acquisition function '{value}'"));
            };
            if kind == Kind::Compute || definition.sources[index].kind == Kind::Compute {
                // rrdtool lets this through and leaves a file that cannot be read.
                return refused("a data source cannot become or cease to be a computed one");
            }
            if definition.sources[index].kind != kind {
                changes.retyped.push(index);
            }
            definition.sources[index].kind = kind;
        }
        "data-source-rename" => {
            let (old, new) = pair("data source type")?;
            let index = find(definition, old)?;
            let fits = new.len() <= NAME_MAX && is_name(new);
            if !fits || definition.sources.iter().any(|source| source.name == new) {
                return refused(format!("'{new}' cannot be a data source's name here"));
            }
            definition.sources[index].name = new.into();
        }
        "aberrant-reset" => {
            // As much of the value as can be a name.
            let name = &value[..value.bytes().take_while(|byte| is_name_byte(*byte)).count()];
            if name.is_empty() {
                return refused("invalid argument for aberrant-reset");
            }
            changes.resets.push(find(definition, name)?);
        }
        // As in rrdtool it has an effect only where the file is rebuilt.
        "step" => {}
        // The caller has handled the daemon.
        "daemon" => {}
        _ => return forecast_option(definition, name, value),
    }
    Ok(())
}

fn forecast_option(definition: &mut Definition, name: &str, value: &str) -> Result<()> {
    let reading = number::read(value);
    // A value of a forecast may be followed by anything. Only that of a smoothing window may be 0 or 1.
    let share = || match reading {
        Reading::Nothing => refused("Unable to parse Holt-Winters parameter"),
        Reading::Whole(value) | Reading::Partly(value, _) => {
            let is_edge = (value == 0.0 || value == 1.0) && !name.starts_with("smoothing");
            match value.is_nan() || ((0.0..=1.0).contains(&value) && !is_edge) {
                true => Ok(value),
                false => refused("Holt-Winters parameter must be between 0 and 1"),
            }
        }
    };
    let (index, bits, wanted, missing) = match name {
        "alpha" | "beta" => {
            let value = share()?;
            (if name == "alpha" { PAR_ALPHA } else { PAR_BETA }, value.to_bits(), None, "Holt-Winters")
        }
        "gamma" => (PAR_ALPHA, share()?.to_bits(), Some(Function::Seasonal), "Holt-Winters"),
        "gamma-deviation" => (PAR_ALPHA, share()?.to_bits(), Some(Function::DevSeasonal), "Holt-Winters"),
        "smoothing-window" => (PAR_BETA, share()?.to_bits(), Some(Function::Seasonal), "Holt-Winters"),
        "smoothing-window-deviation" => {
            (PAR_BETA, share()?.to_bits(), Some(Function::DevSeasonal), "Holt-Winters")
        }
        "deltapos" | "deltaneg" => {
            let value = match reading {
                // In rrdtool a text that is not a number counts as 0, which as a number is too small.
                Reading::Nothing => 0.0,
                Reading::Whole(value) | Reading::Partly(value, _) if value < DELTA_MIN => {
                    return refused("Parameter specified is too small");
                }
                Reading::Partly(..) => return refused("Unable to parse parameter in set_deltaarg"),
                Reading::Whole(value) => value,
            };
            (
                if name == "deltapos" { PAR_ALPHA } else { PAR_BETA },
                value.to_bits(),
                Some(Function::Failures),
                "Failures",
            )
        }
        _ => {
            let limits = 1..=spec::WINDOW_MAX as i64;
            let Some(value) = number::c_decimal(value).filter(|value| limits.contains(value)) else {
                return refused(format!("Parameter must be between 1 and {}", spec::WINDOW_MAX));
            };
            let index = if name == "window-length" { PAR_SMOOTH } else { PAR_THRESHOLD };
            (index, value as u64, Some(Function::Failures), "Failures")
        }
    };
    let fits = |function: Function| wanted.map_or(function.is_forecast(), |wanted| function == wanted);
    let Some(archive) = definition.archives.iter_mut().find(|archive| fits(archive.function)) else {
        return refused(format!("{missing} RRA does not exist in this RRD"));
    };
    archive.par[index] = bits;
    if name.starts_with("smoothing") {
        definition.version = definition.version.max(4);
    }
    Ok(())
}

/// Forgets what the forecasting archives have learnt about source `ds`.
fn reset(header: &mut Header, ds: usize) {
    for rra in 0..header.archives().len() {
        let function = header.archives()[rra].function;
        if function == Function::Failures {
            holt_winters::forget(header, rra, ds);
        } else if !function.is_plain() && function != Function::DevPredict {
            let seasons = header.cdp_count(rra, ds, SEASONS);
            holt_winters::initialise(header, rra, ds);
            if function.is_seasonal() {
                // Seasons are still counted, because all sources are smoothed at once.
                header.set_cdp_count(rra, ds, SEASONS, seasons);
            }
        }
    }
}

/// Makes the points of a file shorter; its rows keep their length. As in rrdtool, the open row of averages continues with
/// the sum of fewer, longer points.
fn set_step(content: &mut Content, text: &str) -> Result<()> {
    let step = number::c_decimal(text).unwrap_or(0);
    let Some(step) = u64::try_from(step).ok().filter(|step| *step > 0) else { return Ok(()) };
    if step >= content.step || !content.step.is_multiple_of(step) {
        return refused(
            "invalid 'newstep' parameter. The newsize must divide the old step parameter without a remainder.",
        );
    }
    let times = content.step / step;
    content.step = step;
    for archive in &mut content.archives {
        archive.archive.points = archive.archive.points.saturating_mul(times);
        for state in &mut archive.states {
            let unknown = layout::u64_at(state, 8 * CDP_UNKNOWN);
            layout::put_u64(state, 8 * CDP_UNKNOWN, unknown.wrapping_mul(times));
        }
    }
    Ok(())
}

/// Gives archive `index` another number of rows; new ones are filled from the other archives.
fn set_rows(content: &mut Content, index: usize, rows: u64) -> Result<()> {
    let before = content.archives[index].archive.rows;
    content.set_rows(index, rows)?;
    if rows > before {
        let mut filled = content.clone();
        prefill::archive_from_others(&mut filled, index);
        let new = (rows - before) as usize * content.sources.len();
        content.archives[index].values[..new].copy_from_slice(&filled.archives[index].values[..new]);
    }
    Ok(())
}

/// `INDEX:SIGN COUNT`, as C's scanf reads it: blanks before numbers, and any text after them.
fn rows_change(text: &str) -> Result<(usize, char, u64)> {
    let failed = || refused("Failed to parse RRA# command");
    let number = |text: &str| {
        let text = text.trim_start();
        let length = text.bytes().take_while(u8::is_ascii_digit).count();
        (text[..length].parse::<u64>().ok(), text[length..].to_string())
    };
    let (Some(index), rest) = number(text) else { return failed() };
    let Some(rest) = rest.strip_prefix(':') else { return failed() };
    let Some(sign) = rest.chars().next() else { return failed() };
    let (Some(count), _) = number(&rest[sign.len_utf8()..]) else { return failed() };
    match sign {
        '+' | '-' | '=' => Ok((usize::try_from(index).unwrap_or(usize::MAX), sign, count)),
        _ => refused(format!("Failed to parse RRA# command: invalid operation: {sign}")),
    }
}

/// Refuses an argument that is not a change of structure.
fn is_change(spec: &str) -> Result<()> {
    if let Some(text) = spec.strip_prefix("RRA#").filter(|text| !text.is_empty()) {
        return rows_change(text).map(|_| ());
    }
    let kinds = ["DEL:", "DELRRA:", "DS:", "RRA:"];
    match kinds.iter().any(|kind| spec.len() > kind.len() && spec.starts_with(kind)) {
        true => Ok(()),
        false => refused(format!("unparseable argument: {spec}")),
    }
}

fn structure(content: &mut Content, spec: &str, season_hash: u64) -> Result<()> {
    if let Some(name) = spec.strip_prefix("DEL:") {
        // An unknown name is not an error in rrdtool.
        return match content.sources.iter().position(|state| state.source.name == name) {
            Some(index) => content.remove_source(index),
            None => Ok(()),
        };
    }
    if let Some(text) = spec.strip_prefix("DELRRA:") {
        match text.parse::<usize>() {
            Ok(index) if index < content.archives.len() => content.remove_archive(index),
            Ok(_) => {}
            Err(_) => return refused(format!("unparseable argument: {spec}")),
        }
        return Ok(());
    }
    if let Some(text) = spec.strip_prefix("DS:") {
        let before: Vec<_> = content.sources.iter().map(|state| state.source.clone()).collect();
        content.add_source(spec::source(text, &before)?.source);
        return Ok(());
    }
    if let Some(text) = spec.strip_prefix("RRA:") {
        let mut spec = spec::archive(text, content.step, season_hash)?;
        let companions = spec
            .wants_companions
            .then(|| spec::companions(&mut spec.archive, content.archives.len() as u64, season_hash));
        for archive in [spec.archive].into_iter().chain(companions.into_iter().flatten()) {
            content.add_archive(archive);
            prefill::archive_from_others(content, content.archives.len() - 1);
        }
        return Ok(());
    }
    if let Some(text) = spec.strip_prefix("RRA#") {
        let (index, sign, count) = rows_change(text)?;
        let Some(state) = content.archives.get(index) else { return Ok(()) };
        let now = state.archive.rows;
        let rows = match sign {
            '+' => now.saturating_add(count),
            '-' => now.saturating_sub(count),
            _ => count,
        };
        return set_rows(content, index, rows);
    }
    refused(format!("unparseable argument: {spec}"))
}

/// Writes to `target` the file with archive `rra` longer or shorter by `by` rows; the row written last stays
/// where it is.
///
/// # Errors
/// rrdtool's messages, or what the system says.
pub fn resize(rrd: &Rrd, rra: usize, by: i64, target: &Path) -> Result<()> {
    let rows = rrd.header.archives()[rra].rows as i64;
    if rows.saturating_add(by) <= 0 {
        return refused("This RRA is not that big");
    }
    let mut content = Content::read(rrd)?;
    content.set_rows(rra, (rows + by) as u64)?;
    let at = |index: usize, _| {
        let row = rrd.header.current_row(index) as i64;
        if index != rra || by > 0 {
            return row as u64;
        }
        // The rows removed follow the newest; past the end they are the first of the file.
        let removed_in_front = (row + 1 - by - rows).max(0);
        (row - removed_in_front) as u64
    };
    let (header, values) = content.build(at)?;
    file::create(target, &header, values.into_iter(), true)
}
