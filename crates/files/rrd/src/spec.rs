//! `DS:...` and `RRA:...` arguments, durations with suffixes; text to definitions, rrdtool's error texts.

use crate::ds::{DataSource, Kind};
use crate::error::{Result, refused};
use crate::layout::NAME_MAX;
use crate::number::{self, Reading, UNKNOWN};
use crate::pdp::unreadable;
use crate::rpn::Program;
use crate::rra::{Archive, Function, PAR_ALPHA, PAR_BETA, PAR_DEPENDENT, PAR_SMOOTH, PAR_THRESHOLD, PAR_XFF};
use crate::text;

/// Share of a season that is averaged by default.
const SMOOTHING_DEFAULT: f64 = 0.05;
/// Points a FAILURES archive can remember.
pub const WINDOW_MAX: u64 = 28;
/// Rows of one archive. The format has no limit, but a file of half an exbibyte is a typing error.
const ROWS_MAX: u64 = 1 << 40;

/// Parses a positive number with an optional suffix (`s m h d w M y`), divided by `unit` seconds where it has
/// one. `Err` is rrdtool's message.
pub fn duration(text: &str, unit: u64) -> std::result::Result<u64, &'static str> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    if len == 0 {
        return Err("value must be (suffixed) positive number");
    }
    // rrdtool saturates too.
    let value = text[..len].parse::<u64>().unwrap_or(u64::MAX);
    let is_zero = || if value == 0 { Err("value must be positive") } else { Ok(()) };
    let factor = match text.as_bytes().get(len) {
        None | Some(b':') => return is_zero().map(|()| value),
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3_600,
        Some(b'd') => 86_400,
        Some(b'w') => 604_800,
        Some(b'M') => 31 * 86_400,
        Some(b'y') => 366 * 86_400,
        Some(_) => return Err("value has trailing garbage"),
    };
    is_zero()?;
    let seconds = value.wrapping_mul(factor);
    if !seconds.is_multiple_of(unit) {
        return Err("value would truncate when scaled");
    }
    Ok(seconds / unit)
}

/// Seconds that an option gives, as [`duration`] reads them; a colon may come only after a unit.
///
/// # Errors
/// Why it is none, in rrdtool's words.
pub fn option_seconds(text: &str) -> std::result::Result<u64, &'static str> {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    match rest.len() < text.len() && rest.starts_with(':') {
        true => Err("value has trailing garbage"),
        false => duration(text, 1),
    }
}

/// A data source argument.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSpec {
    /// What it defines.
    pub source: DataSource,
    /// Where to take its history from: a name and, from 1, a source file.
    pub mapping: Option<(String, Option<usize>)>,
}

/// Parses what follows `DS:`; `before` are the sources a COMPUTE expression may name.
///
/// # Errors
/// rrdtool's messages.
pub fn source(text: &str, before: &[DataSource]) -> Result<SourceSpec> {
    let Some((name, mapping, kind, rest)) = split_source(text) else { return refused("invalid DS format") };
    if before.iter().any(|other| other.name == name) {
        return refused(format!("Duplicate DS name: {name}"));
    }
    let Some(kind) = Kind::from_name(kind) else {
        return refused(format!("invalid DS type specified ({kind})"));
    };
    let mut source =
        DataSource { name: name.into(), kind, heartbeat: 0, min: UNKNOWN, max: UNKNOWN, program: None };
    if kind == Kind::Compute {
        let find = |name: &str| before.iter().position(|source| source.name == name);
        let Some(program) = Program::parse(rest, find) else {
            return refused("failed to parse computed data source");
        };
        program.storable().or_else(refused)?;
        source.program = Some(program);
    } else {
        limits(&mut source, rest)?;
    }
    Ok(SourceSpec { source, mapping })
}

type Mapping = Option<(String, Option<usize>)>;

fn split_source(text: &str) -> Option<(&str, Mapping, &str, &str)> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let name_of = |text: &str| text.bytes().take_while(|byte| is_name(*byte)).count();
    let len = name_of(text);
    let (name, mut rest) = text.split_at(len);
    let mut mapping = None;
    if let Some(mapped) = rest.strip_prefix('=') {
        let len = name_of(mapped);
        let (mapped, after) = mapped.split_at(len);
        let mut index = None;
        rest = after;
        if let Some(after) = rest.strip_prefix('[') {
            let (digits, after) = after.split_once(']')?;
            index = Some(digits.parse().ok()?);
            rest = after;
        }
        if mapped.is_empty() || mapped.len() > NAME_MAX {
            return None;
        }
        mapping = Some((mapped.to_string(), index));
    }
    let (kind, rest) = rest.strip_prefix(':')?.split_once(':')?;
    let is_kind =
        !kind.is_empty() && kind.len() <= NAME_MAX && kind.bytes().all(|byte| byte.is_ascii_uppercase());
    let fits = !name.is_empty() && name.len() <= NAME_MAX && is_kind && !rest.is_empty();
    fits.then_some((name, mapping, kind, rest))
}

fn limits(source: &mut DataSource, text: &str) -> Result<()> {
    let failed = |why: &str| refused(format!("failed to parse data source {text}: {why}"));
    source.heartbeat = match duration(text, 1) {
        Ok(heartbeat) => heartbeat,
        Err(why) => return failed(why),
    };
    let Some((_, rest)) = text.split_once(':') else { return failed("missing separator") };
    let mut parts = rest.splitn(3, ':');
    let (min, max) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    if min.is_empty() || max.is_empty() {
        return failed("failed to extract min:max");
    }
    source.min = limit(min, "min")?;
    source.max = limit(max, "max")?;
    if !source.min.is_nan() && !source.max.is_nan() && source.min >= source.max {
        return failed("min must be less than max in DS definition");
    }
    Ok(())
}

fn limit(text: &str, which: &str) -> Result<f64> {
    if text == "U" {
        return Ok(UNKNOWN);
    }
    match number::read(text) {
        Reading::Whole(value) => Ok(value),
        failed => refused(format!("parsing {which} val - {}", unreadable(text, failed))),
    }
}

/// An archive argument.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchiveSpec {
    /// What it defines.
    pub archive: Archive,
    /// Whether it names no archive that it depends on, so that its companions are to be made.
    pub wants_companions: bool,
    /// Whether it needs format version 4.
    pub needs_version_4: bool,
}

/// Parses what follows `RRA:` for a file of `step` seconds. `season_hash` places the smoothing of seasonal
/// archives.
///
/// # Errors
/// rrdtool's messages.
pub fn archive(text: &str, step: u64, season_hash: u64) -> Result<ArchiveSpec> {
    let words: Vec<&str> = text.split(':').filter(|word| !word.is_empty()).collect();
    let function = words.first().map(|name| (name, Function::from_name(name)));
    let wanted = match function {
        None => 4,
        Some((name, None)) => {
            // The part that could be a number.
            let shown = name.trim_start_matches(|letter: char| letter.is_ascii_uppercase());
            let shown = &name[..name.len() - shown.len()];
            return refused(format!("Unrecognized consolidation function {shown}"));
        }
        Some((_, Some(function))) => match function {
            Function::HwPredict | Function::MhwPredict | Function::Failures => 5,
            Function::DevPredict => 3,
            _ => 4,
        },
    };
    if let Some((_, Some(function))) = function
        && function.is_plain()
        && words.len() < wanted
    {
        // The words are checked before they are counted.
        Words { words: &words, step }.check(&words)?;
    }
    let Some((name, Some(function))) = function.filter(|_| words.len() >= wanted) else {
        return refused(format!("Expected at least {wanted} arguments for RRA but got {}", words.len()));
    };
    let words = Words { words: &words, step };
    let mut spec = ArchiveSpec {
        archive: Archive { function, rows: 0, points: 1, par: [0; 10] },
        wants_companions: false,
        needs_version_4: false,
    };
    let extra = |most: usize| match words.words.len() > most {
        true => refused(format!("Unexpected extra argument for consolidation function {name}")),
        false => Ok(()),
    };
    match function {
        Function::HwPredict | Function::MhwPredict => forecast(&mut spec, &words)?,
        Function::Seasonal | Function::DevSeasonal => seasonal(&mut spec, &words, season_hash)?,
        Function::DevPredict => {
            spec.archive.rows = words.rows(1, 1)?;
            spec.archive.par[PAR_DEPENDENT] = words.dependent(2);
            extra(3)?;
        }
        Function::Failures => failures(&mut spec.archive, &words)?,
        _ => {
            spec.archive.set_f64(PAR_XFF, words.xff(1)?);
            spec.archive.points = words.steps(2)?;
            spec.archive.rows = words.rows(3, spec.archive.points)?;
            extra(4)?;
        }
    }
    Ok(spec)
}

fn forecast(spec: &mut ArchiveSpec, words: &Words<'_>) -> Result<()> {
    spec.needs_version_4 = spec.archive.function == Function::MhwPredict;
    spec.archive.rows = words.rows(1, 1)?;
    for (place, par, name) in [(2, PAR_ALPHA, "alpha"), (3, PAR_BETA, "beta")] {
        spec.archive.set_f64(par, words.share(place, name)?);
    }
    let period = words.rows(4, 1)?;
    if period > spec.archive.rows {
        return refused("Length of seasonal cycle exceeds length of HW prediction array");
    }
    spec.archive.set_f64(PAR_SMOOTH, period as f64);
    spec.wants_companions = words.words.len() < 6;
    if !spec.wants_companions {
        spec.archive.par[PAR_DEPENDENT] = words.dependent(5);
    }
    if words.words.len() > 6 {
        return refused("Unknown error");
    }
    Ok(())
}

fn seasonal(spec: &mut ArchiveSpec, words: &Words<'_>, hash: u64) -> Result<()> {
    spec.archive.rows = words.rows(1, 1)?;
    spec.archive.set_f64(PAR_ALPHA, words.share(2, "gamma")?);
    spec.archive.set_f64(PAR_BETA, SMOOTHING_DEFAULT);
    spec.archive.par[PAR_SMOOTH] = hash % spec.archive.rows;
    spec.archive.par[PAR_DEPENDENT] = words.dependent(3);
    if let Some(option) = words.words.get(4) {
        let value = option.strip_prefix("smoothing-window=").map(number::read);
        let Some(Reading::Whole(window)) = value else { return refused(format!("Invalid option {option}")) };
        if !(0.0..=1.0).contains(&window) {
            return refused(format!("Invalid smoothing-window {window:.6}: must be between 0 and 1"));
        }
        spec.archive.set_f64(PAR_BETA, window);
        spec.needs_version_4 = true;
    }
    Ok(())
}

fn failures(archive: &mut Archive, words: &Words<'_>) -> Result<()> {
    archive.rows = words.rows(1, 1)?;
    let threshold =
        number::as_long(number::decimal(words.words[2].as_bytes()).map_or(0.0, |(value, _)| value));
    let window = number::as_long(number::decimal(words.words[3].as_bytes()).map_or(0.0, |(value, _)| value));
    if !(1..=WINDOW_MAX as i64).contains(&threshold) {
        return refused(format!("Failure threshold is out of range 1, {WINDOW_MAX}"));
    }
    if window < threshold {
        return refused("Window length is shorter than the failure threshold");
    }
    if window > WINDOW_MAX as i64 {
        return refused(format!("Window length is out of range 1, {WINDOW_MAX}"));
    }
    set_failures(archive, threshold as u64, window as u64);
    archive.par[PAR_DEPENDENT] = words.dependent(4);
    Ok(())
}

fn set_failures(archive: &mut Archive, threshold: u64, window: u64) {
    archive.set_f64(PAR_ALPHA, 2.0);
    archive.set_f64(PAR_BETA, 2.0);
    archive.par[PAR_SMOOTH] = window;
    archive.par[PAR_THRESHOLD] = threshold;
}

/// The four archives that come with a lone forecast at index `own`: SEASONAL, DEVSEASONAL, DEVPREDICT and
/// FAILURES; sets the forecast's own dependence.
pub fn companions(forecast: &mut Archive, own: u64, season_hash: u64) -> [Archive; 4] {
    let period = forecast.f64(PAR_SMOOTH) as u64;
    let blank = |function, rows| Archive { function, rows, points: 1, par: [0; 10] };
    forecast.par[PAR_DEPENDENT] = own + 1;
    let mut seasonal = blank(Function::Seasonal, period);
    seasonal.par[PAR_ALPHA] = forecast.par[PAR_ALPHA];
    seasonal.par[PAR_SMOOTH] = season_hash % period.max(1);
    seasonal.par[PAR_DEPENDENT] = own;
    let mut deviation = seasonal.clone();
    deviation.function = Function::DevSeasonal;
    let mut predict = blank(Function::DevPredict, forecast.rows);
    predict.par[PAR_DEPENDENT] = own + 2;
    let mut failures = blank(Function::Failures, period);
    set_failures(&mut failures, 7, 9);
    failures.par[PAR_DEPENDENT] = own + 2;
    [seasonal, deviation, predict, failures]
}

/// The hash that spreads smoothing over files: FNV-1 with the 32-bit constants in 64 bits.
pub fn season_hash(file_name: &str) -> u64 {
    let bytes = text::bytes(file_name);
    bytes.iter().fold(0x811c_9dc5u64, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u64::from(*byte))
}

struct Words<'a> {
    words: &'a [&'a str],
    step: u64,
}

impl Words<'_> {
    fn number(&self, place: usize) -> Option<f64> {
        match number::read(self.words[place]) {
            Reading::Whole(value) => Some(value),
            _ => None,
        }
    }

    /// A parameter strictly between 0 and 1.
    fn share(&self, place: usize, name: &str) -> Result<f64> {
        match self.number(place).filter(|value| !(*value <= 0.0 || *value >= 1.0)) {
            Some(value) => Ok(value),
            None => refused(format!("Invalid {name}: must be between 0 and 1")),
        }
    }

    fn xff(&self, place: usize) -> Result<f64> {
        match self.number(place).filter(|xff| !(*xff < 0.0 || *xff >= 1.0)) {
            Some(xff) => Ok(xff),
            None => refused("Invalid xff: must be between 0 and 1"),
        }
    }

    /// Checks the first words of a plain archive.
    fn check(&self, words: &[&str]) -> Result<()> {
        if words.len() > 1 {
            self.xff(1)?;
        }
        if words.len() > 2 {
            self.steps(2)?;
        }
        Ok(())
    }

    fn steps(&self, place: usize) -> Result<u64> {
        let text = self.words[place];
        match duration(text, self.step) {
            Ok(steps) if steps.checked_mul(self.step).is_some_and(|seconds| seconds <= i64::MAX as u64) => {
                Ok(steps)
            }
            Ok(_) => refused(format!("Invalid step {text}: value is too large")),
            Err(why) => refused(format!("Invalid step {text}: {why}")),
        }
    }

    fn rows(&self, place: usize, points: u64) -> Result<u64> {
        let text = self.words[place];
        match duration(text, self.step.wrapping_mul(points)) {
            Ok(rows) if rows <= ROWS_MAX => Ok(rows),
            Ok(_) => refused("cannot allocate memory"),
            Err(why) => refused(format!("Invalid row count {text}: {why}")),
        }
    }

    /// An archive index, given from 1; any other text becomes an index that no file has, as in rrdtool.
    fn dependent(&self, place: usize) -> u64 {
        let text = self.words[place];
        let value = number::decimal(text.as_bytes()).map_or(0.0, |(value, _)| value);
        (number::as_long(value)).wrapping_sub(1) as u64
    }
}
