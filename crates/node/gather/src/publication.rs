//! One line that a job publishes (`docs/publish.md`): a name, a value, and options. Pure: any text gives
//! either a publication or an error.

use khz_model::name::{INSTANCE_MAX, METRIC_NAME_MAX};
use khz_model::{Instance, Kind, NameError, Nanos, SeriesName, Unit, ValueFormat};

mod correction;
mod number;
mod options;

pub use number::{Number, NumberError, PLACES_MAX};
pub use options::{AGE_MAX, AHEAD_MAX, Options, timely};

use crate::jobs::{DATAGRAM_MAX, LINES_MAX};
use correction::corrected;

/// The prefix of every published name.
pub const PREFIX: &str = "job.";
/// The longest help.
pub const HELP_MAX: usize = 200;
/// The label that carries the name before the labels: `queue[a]` is `khz_job_queue{part="a"}`.
pub(crate) const NAME_LABEL: &str = "part";
/// Labels with which `/metrics` identifies a series. A job's own label of that name would be lost
/// there.
pub const LABELS_TAKEN: [&str; 3] = [NAME_LABEL, "instance", "job"];

/// A line, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication<'a> {
    /// Name and instance in the job's spelling, which is normally the same in every line of a number.
    pub spelled: &'a str,
    /// The value.
    pub number: Number<'a>,
    /// The options.
    pub options: Options<'a>,
}

/// The description of a number, taken when it is first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name with [`PREFIX`].
    pub name: String,
    /// The instance, with its labels, which distinguishes numbers of the same name.
    pub instance: Option<Instance>,
    /// Its unit.
    pub unit: Unit,
    /// Counter or gauge.
    pub kind: Kind,
    /// Its type and decimal places.
    pub format: ValueFormat,
    /// The help for people.
    pub help: String,
}

/// The problem of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicationError {
    /// The line has no value.
    #[error("'{0}' has no value: write it as NAME=VALUE")]
    NoValue(String),
    /// The line does not fit into a datagram.
    #[error("a line has at most {DATAGRAM_MAX} bytes, and this one has {0}")]
    TooLong(usize),
    /// The value is no number, or does not fit.
    #[error(transparent)]
    Number(#[from] NumberError),
    /// The name cannot be read. An agent reads no error, so the correction is made when the text is.
    #[error("{error}{hint}", error = .0, hint = hint(&.0.text))]
    Series(NameError),
    /// The name is not one of a job.
    #[error("{0}")]
    Name(String),
    /// There is no such option.
    #[error("'{0}' is not one of unit=, kind=, type=, places=, time=, help=")]
    Option(String),
    /// The option cannot have this value.
    #[error("'{option}' cannot be read: write {expected}")]
    Word {
        /// The option with its value.
        option: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A type that the kind does not have.
    #[error("a {kind} is {value_type}, or with type=float a double")]
    TypeOfKind {
        /// The kind.
        kind: &'static str,
        /// Its type.
        value_type: &'static str,
    },
    /// Decimal places of a double.
    #[error("a number with type=float keeps the digits that it has: leave out places=")]
    PlacesOfFloat,
    /// Measured more than [`AGE_MAX`] ago.
    #[error(
        "its time= is {age} s ago, and a value counts for {AGE_MAX}: publish it sooner, or without time="
    )]
    TooOld {
        /// Seconds.
        age: u64,
    },
    /// Measured more than [`AHEAD_MAX`] later than now.
    #[error(
        "its time= is {ahead} s ahead of this node's clock, and may be {AHEAD_MAX}: write seconds since 1970, not \
         milliseconds"
    )]
    TooNew {
        /// Seconds.
        ahead: u64,
    },
}

/// An error repeats at most this much of a text from outside.
const SHOWN_MAX: usize = 60;

fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(SHOWN_MAX)].to_owned()
}

/// What to write instead of a name that cannot be read, if that is known.
fn hint(spelled: &str) -> String {
    corrected(spelled).map(|name| format!("\nwrite {name}=...")).unwrap_or_default()
}

impl<'a> Publication<'a> {
    /// Splits a line, as far as a known number needs it.
    ///
    /// # Errors
    /// The line is too long, has no value, the value is not a number, or an option is not valid.
    pub fn read(line: &'a str) -> Result<Self, PublicationError> {
        if line.len() > DATAGRAM_MAX {
            return Err(PublicationError::TooLong(line.len()));
        }
        let at = value_at(line).ok_or_else(|| PublicationError::NoValue(shown(line)))?;
        let (spelled, rest) = (line[..at].trim(), &line[at + 1..]);
        let (value, options) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = Number::read(value)?;
        Ok(Publication { spelled, number, options: Options::read(options.trim())? })
    }

    /// Parses the name, and checks that the value fits the declarations of the line.
    ///
    /// # Errors
    /// The name is not valid, an option contradicts another one, or the value does not fit.
    pub fn describe(&self) -> Result<Description, PublicationError> {
        let parsed = self.name()?;
        let (kind, format) = self.options.declared(&self.number)?;
        self.number.bits(format, kind)?;
        let name = match parsed.metric.starts_with(PREFIX) {
            true => parsed.metric.to_string(),
            false => format!("{PREFIX}{}", parsed.metric),
        };
        if name.len() > METRIC_NAME_MAX {
            return Err(PublicationError::Name(format!("a name has at most {METRIC_NAME_MAX} bytes")));
        }
        let help: String = self.options.help.chars().filter(|c| !c.is_control()).collect();
        Ok(Description {
            name,
            instance: parsed.instance,
            unit: self.options.unit.unwrap_or(Unit::Count),
            kind,
            format,
            help: help[..help.floor_char_boundary(HELP_MAX)].to_owned(),
        })
    }

    /// Checks all that can be said of the line alone: an agent may only refuse it because of other lines.
    ///
    /// # Errors
    /// As [`Publication::describe`]; or it was measured too long ago.
    pub fn check(&self, now: Nanos) -> Result<(), PublicationError> {
        self.describe()?;
        self.options.time.map_or(Ok(()), |time| timely(time, now))
    }

    fn name(&self) -> Result<SeriesName, PublicationError> {
        let wrong = |problem: String| Err(PublicationError::Name(problem));
        let parsed = SeriesName::parse(self.spelled).map_err(PublicationError::Series)?;
        if let Some(node) = parsed.node {
            return wrong(format!("'{node}:' before a name: a job publishes on its own node"));
        }
        let Some(instance) = &parsed.instance else { return Ok(parsed) };
        if instance.name().len() > INSTANCE_MAX {
            return wrong(format!("the name in the brackets has at most {INSTANCE_MAX} bytes"));
        }
        if let Some((label, _)) = instance.labels().find(|(label, _)| LABELS_TAKEN.contains(label)) {
            return wrong(format!(
                "the label '{label}' has another meaning at Prometheus: choose another name, such as my_{label}"
            ));
        }
        Ok(parsed)
    }
}

/// The '=' before the value.
fn value_at(line: &str) -> Option<usize> {
    match (line.find('['), line.find('=')?) {
        // Labels have a '=' of their own.
        (Some(open), equals) if open < equals => line.find("]=").map(|close| close + 1),
        (_, equals) => Some(equals),
    }
}

/// The line with `options` before its own, so that its own win, and with `help` if it has none.
pub fn with_defaults(line: &str, options: &str, help: Option<&str>) -> String {
    // A line without a value is wrong, and stays what it is.
    let Some(value) = value_at(line).map(|at| at + 1) else { return line.to_owned() };
    let end = line[value..].find(' ').map_or(line.len(), |space| value + space);
    let (said, own) = line.split_at(end);
    let mut all = format!("{said}{}{options}{own}", if options.is_empty() { "" } else { " " });
    if let Some(help) = help.filter(|_| !own.contains(" help=")) {
        all.push_str(&format!(" help={}", help.replace('\n', " ")));
    }
    all
}

/// Puts lines together into as few datagrams as an agent takes whole; none of them is too long
/// ([`Publication::read`]).
pub fn datagrams<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut datagrams: Vec<String> = Vec::new();
    let mut count = 0;
    for line in lines {
        let room = DATAGRAM_MAX.saturating_sub(line.len() + 1);
        match datagrams.last_mut().filter(|last| count < LINES_MAX && last.len() <= room) {
            Some(last) => {
                last.push('\n');
                last.push_str(line);
                count += 1;
            }
            None => {
                datagrams.push(line.to_owned());
                count = 1;
            }
        }
    }
    datagrams
}

#[cfg(test)]
mod tests;
