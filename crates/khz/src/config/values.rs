//! Single values of settings, from text to their type. An error is the sentence that follows the setting's name and origin.

use std::path::PathBuf;
use std::str::FromStr;

use khz_gather::{AllowList, Handlers, RingSize};
use khz_model::{ByteSize, Nanos};
use khz_program::ProgramHash;

use super::plan::{RingDir, StateDir};
use super::{ConfigError, Layers, Value};

/// A longer window would give readers numbers older than those of the fastest base lane.
const WINDOW_MAX: Nanos = Nanos::SECOND;

/// Less does not hold a handful of answers; more does not limit anything.
const ANSWERS_LIMITS: (u64, u64) = (1 << 20, 64 << 30);

/// Less does not hold the log of some nodes; more is no limit.
const KEEP_LIMITS: (u64, u64) = (64 << 20, 1 << 50);

/// The store removes whole hours, days and months.
const STORE_TIME_MIN: Nanos = Nanos::from_secs(3_600);

/// Less does not hold one block of a large host; more belongs in a store.
const RING_LIMITS: (u64, u64) = (256 << 10, 64 << 30);

/// More often, a hub would do little else; more seldom, an alert comes too late for anybody.
const RULES_INTERVALS: (Nanos, Nanos) = (Nanos::from_millis(100), Nanos::from_secs(86_400));

/// The same as spans of time.
const RING_SPANS: (Nanos, Nanos) = (Nanos::from_secs(10), Nanos::from_secs(30 * 86_400));

/// The value of a setting, read with `read`; its error names the setting and where the value was written.
pub(super) fn checked<T>(
    layers: &Layers,
    key: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, ConfigError> {
    let value = layers.value(key);
    read(&value.text).map_err(|problem| bad(key, value, problem))
}

/// The error of a value that cannot be used.
pub(super) fn bad(key: &str, value: &Value, problem: String) -> ConfigError {
    ConfigError::BadValue { at: value.origin.clone(), key: key.to_owned(), problem }
}

pub(super) fn quantity<T: FromStr<Err = khz_model::QuantityError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: khz_model::QuantityError| error.to_string())
}

pub(super) fn handlers(text: &str) -> Result<Handlers, String> {
    text.parse().map_err(|error: khz_gather::UnknownHandlers| error.to_string())
}

/// The programs that may run; `None`: all.
pub(super) fn programs_allowed(text: &str) -> Result<Option<Vec<ProgramHash>>, String> {
    if text == "all" {
        return Ok(None);
    }
    let hash = |text: &str| text.parse().map_err(|error| format!("'{text}': {error}"));
    items(text).map(hash).collect::<Result<_, _>>().map(Some)
}

pub(super) fn answers_max(text: &str) -> Result<ByteSize, String> {
    size_within(text, ANSWERS_LIMITS)
}

pub(super) fn keep(text: &str) -> Result<ByteSize, String> {
    size_within(text, KEEP_LIMITS)
}

fn size_within(text: &str, (least, most): (u64, u64)) -> Result<ByteSize, String> {
    let size: ByteSize = quantity(text)?;
    match (least..=most).contains(&size.0) {
        true => Ok(size),
        false => Err(format!("{size} is not between {} and {}", ByteSize(least), ByteSize(most))),
    }
}

/// How long the store keeps something.
pub(super) fn store_time(text: &str) -> Result<Nanos, String> {
    let time: Nanos = quantity(text)?;
    match time >= STORE_TIME_MIN {
        true => Ok(time),
        false => Err(format!("'{text}' is out of range: a store keeps rows for an hour at least")),
    }
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("'{text}' is neither true nor false"))
}

/// A path; none for an empty text.
pub(super) fn file(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// Paths, separated by commas.
pub(super) fn files(text: &str) -> Result<Vec<PathBuf>, String> {
    Ok(items(text).map(PathBuf::from).collect())
}

/// How often rules are evaluated.
pub(super) fn rules_interval(text: &str) -> Result<Nanos, String> {
    let (least, most) = RULES_INTERVALS;
    let interval: Nanos = quantity(text)?;
    match (least..=most).contains(&interval) {
        true => Ok(interval),
        false => Err(format!("'{text}' is out of range: rules are evaluated every {least} to {most}")),
    }
}

/// The address of a hub for people; an empty text if none is given.
pub(super) fn external_url(text: &str) -> Result<String, String> {
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    match text.is_empty() || is_url && !text.contains(char::is_whitespace) {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err(format!("'{text}' is no address of a web page: write https://khz.example.org")),
    }
}

pub(super) fn root(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("it names no directory".to_owned()) } else { Ok(text.into()) }
}

/// Patterns of files below /proc; `none` for no file at all.
pub(super) fn proc_allow(text: &str) -> Result<AllowList, String> {
    match text {
        "none" => Ok(AllowList::default()),
        _ => AllowList::new(items(text)).map_err(|error| error.to_string()),
    }
}

pub(super) fn window(text: &str) -> Result<Nanos, String> {
    let window = quantity::<Nanos>(text)?;
    if window > WINDOW_MAX {
        return Err(format!("'{text}' is out of range: a merge window has at most {WINDOW_MAX}"));
    }
    Ok(window)
}

/// A size for all lanes, or a time for each.
pub(super) fn ring(text: &str) -> Result<RingSize, String> {
    if let Ok(span) = text.parse::<Nanos>() {
        let (least, most) = RING_SPANS;
        return if (least..=most).contains(&span) {
            Ok(RingSize::Span(span))
        } else {
            Err(format!("'{text}' is out of range: the ring holds between {least} and {most}"))
        };
    }
    let size = text.parse::<ByteSize>().map_err(|_| {
        format!("'{text}' is neither a size nor a time: write it with its unit, as 64MiB or 2h")
    })?;
    let (least, most) = RING_LIMITS;
    if !(least..=most).contains(&size.0) {
        let limits = format!("between {} and {}", ByteSize(least), ByteSize(most));
        return Err(format!("'{text}' is out of range: the ring has {limits}"));
    }
    Ok(RingSize::Bytes(size))
}

pub(super) fn state_dir(text: &str) -> StateDir {
    match text {
        "" => StateDir::Usual,
        "none" => StateDir::Nowhere,
        path => StateDir::Here(path.into()),
    }
}

pub(super) fn ring_dir(text: &str) -> RingDir {
    match text {
        "" => RingDir::Usual,
        "none" => RingDir::Nowhere,
        path => RingDir::Below(path.into()),
    }
}

/// A value whose type explains its own errors; none for an empty text.
pub(super) fn unless_empty<T: FromStr<Err = String>>(text: &str) -> Result<Option<T>, String> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

pub(super) fn nice(text: &str) -> Result<Option<i8>, String> {
    match text.parse::<i8>() {
        Ok(nice @ -20..=19) => Ok(Some(nice)),
        _ if text.is_empty() => Ok(None),
        _ => Err(format!("'{text}' is not a nice value from -20 to 19")),
    }
}

/// "10%" as 0.1; a share of one core.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    let Some(percent) = number.and_then(|n| n.parse::<f64>().ok()).filter(|p| p.is_finite()) else {
        return Err(format!("'{text}' is not a share of one core: write it as 10%"));
    };
    if percent <= 0.0 || percent > 100.0 {
        return Err(format!("'{text}' is out of range: above 0% and at most 100% of one core"));
    }
    Ok(percent / 100.0)
}

pub(super) fn level(text: &str) -> Result<Option<tracing::Level>, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    match text {
        "off" => Ok(None),
        _ if LEVELS.contains(&text) => Ok(text.parse().ok()),
        _ => Err(format!("'{text}' is not one of {}", LEVELS.join(", "))),
    }
}

/// The items of a list, without blanks around them and without empty ones.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}
/// The value of a label: one line of text.
pub(super) fn label(text: &str) -> Result<String, String> {
    const LABEL_MAX: usize = 128;
    if text.is_empty() || text.len() > LABEL_MAX || text.contains(char::is_control) {
        return Err(format!("'{text}' is not a label: write one line of up to {LABEL_MAX} bytes, as node"));
    }
    Ok(text.to_owned())
}
