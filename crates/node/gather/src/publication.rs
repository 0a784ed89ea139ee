//! One line that a job publishes (`docs/publish.md`): a name, a value, and options. Pure: any text gives
//! either a publication or an error.

use khz_model::name::METRIC_NAME_MAX;
use khz_model::{Instance, Kind, SeriesName, Unit};

/// The prefix of every published name.
pub const PREFIX: &str = "job.";
/// The most decimal places: nanoseconds.
pub const PLACES_MAX: u8 = 9;
/// The longest help.
pub const HELP_MAX: usize = 200;

/// A line, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication<'a> {
    /// Name and instance in the job's spelling, which is normally the same in every line of a number.
    pub spelled: &'a str,
    /// The value.
    pub value: Number<'a>,
    /// The options, not parsed yet.
    options: &'a str,
}

/// A number in the job's spelling: digits before and after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a> {
    whole: &'a str,
    rest: &'a str,
}

/// The description of a number, taken when it is first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name with [`PREFIX`].
    pub name: String,
    /// The instance, which distinguishes numbers of the same name.
    pub instance: Option<Instance>,
    /// Its unit.
    pub unit: Unit,
    /// Counter or gauge.
    pub kind: Kind,
    /// Its decimal places, if an option gives them.
    pub places: Option<u8>,
    /// The help for people.
    pub help: String,
}

/// The problem of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicationError {
    /// The line has no value.
    #[error("'{0}' has no value: write it as NAME=VALUE")]
    NoValue(String),
    /// The value is not a number.
    #[error("'{0}' is not a number without sign, such as 17 or 0.25")]
    NotANumber(String),
    /// The name is not valid.
    #[error("{0}")]
    Name(String),
    /// The option is not valid.
    #[error("'{0}' is not one of unit=, kind=, places=, help=")]
    Option(String),
}

/// An error repeats at most this much of a text from outside.
const SHOWN_MAX: usize = 60;

fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(SHOWN_MAX)].to_owned()
}

impl<'a> Publication<'a> {
    /// Splits a line, as far as a known number needs it.
    ///
    /// # Errors
    /// The line has no value, or the value is not a number.
    pub fn read(line: &'a str) -> Result<Self, PublicationError> {
        let no_value = || PublicationError::NoValue(shown(line));
        let at = match (line.find('['), line.find('=')) {
            // The instance itself may contain '='.
            (Some(open), Some(equals)) if open < equals => line.find("]=").ok_or_else(no_value)? + 1,
            (_, Some(equals)) => equals,
            (_, None) => return Err(no_value()),
        };
        let (spelled, rest) = (line[..at].trim(), &line[at + 1..]);
        let (value, options) = rest.split_once(' ').unwrap_or((rest, ""));
        Ok(Publication { spelled, value: Number::read(value)?, options: options.trim() })
    }

    /// Parses name and options.
    ///
    /// # Errors
    /// The name or an option is not valid.
    pub fn describe(&self) -> Result<Description, PublicationError> {
        let wrong = |error: khz_model::NameError| PublicationError::Name(error.to_string());
        let parsed = SeriesName::parse(self.spelled).map_err(wrong)?;
        if let Some(node) = parsed.node {
            return Err(PublicationError::Name(format!(
                "'{node}:' before a name: a job publishes on its own node"
            )));
        }
        let name = match parsed.metric.starts_with(PREFIX) {
            true => parsed.metric.to_string(),
            false => format!("{PREFIX}{}", parsed.metric),
        };
        if name.len() > METRIC_NAME_MAX {
            return Err(PublicationError::Name(format!("a name has at most {METRIC_NAME_MAX} bytes")));
        }
        let (unit, kind) = (Unit::Count, Kind::Gauge);
        let mut said =
            Description { name, instance: parsed.instance, unit, kind, places: None, help: String::new() };
        said.options(self.options)?;
        Ok(said)
    }
}

impl Description {
    fn options(&mut self, mut options: &str) -> Result<(), PublicationError> {
        while !options.is_empty() {
            if let Some(help) = options.strip_prefix("help=") {
                let help: String = help.chars().filter(|c| !c.is_control()).collect();
                self.help = help[..help.floor_char_boundary(HELP_MAX)].to_owned();
                return Ok(());
            }
            let (option, rest) = options.split_once(' ').unwrap_or((options, ""));
            let wrong = || PublicationError::Option(shown(option));
            match option.split_once('=').ok_or_else(wrong)? {
                ("unit", word) => self.unit = Unit::named(word).ok_or_else(wrong)?,
                ("kind", "gauge") => self.kind = Kind::Gauge,
                ("kind", "counter") => self.kind = Kind::Counter,
                ("places", digits) => {
                    let places = digits.parse().ok().filter(|&places| places <= PLACES_MAX);
                    self.places = Some(places.ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
            options = rest.trim_start();
        }
        Ok(())
    }
}

impl<'a> Number<'a> {
    fn read(text: &'a str) -> Result<Self, PublicationError> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_any = !(whole.is_empty() && rest.is_empty());
        if !has_any || !digits(whole) || !digits(rest) || (rest.is_empty() && text.ends_with('.')) {
            return Err(PublicationError::NotANumber(shown(text)));
        }
        Ok(Number { whole, rest })
    }

    /// Its own decimal places, but at most [`PLACES_MAX`].
    pub fn places(&self) -> u8 {
        self.rest.len().min(usize::from(PLACES_MAX)) as u8
    }

    /// The number as an integer with `places` decimal places, rounded to the nearest; `None` beyond 64 bits.
    pub fn to_units(self, places: u8) -> Option<u64> {
        let places = usize::from(places);
        let digit = |byte: u8| u64::from(byte - b'0');
        let kept = self.rest.bytes().chain(std::iter::repeat(b'0')).take(places);
        let units = self
            .whole
            .bytes()
            .chain(kept)
            .try_fold(0u64, |units, byte| units.checked_mul(10)?.checked_add(digit(byte)))?;
        let rounds_up = self.rest.as_bytes().get(places).is_some_and(|&byte| byte >= b'5');
        units.checked_add(u64::from(rounds_up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn described(line: &str) -> Description {
        Publication::read(line).unwrap().describe().unwrap()
    }

    #[test]
    fn a_line_is_a_name_a_value_and_what_it_says_of_itself() {
        let line = "queue[worker 3%3Da]=17.25 unit=bytes kind=counter places=3 help=Tasks that = wait";
        let publication = Publication::read(line).unwrap();
        assert_eq!(publication.value.to_units(3), Some(17_250));
        let said = publication.describe().unwrap();
        assert_eq!((said.name.as_str(), said.help.as_str()), ("job.queue", "Tasks that = wait"));
        assert_eq!((said.unit, said.kind, said.places), (Unit::Bytes, Kind::Counter, Some(3)));
        assert_eq!(said.instance.unwrap().name(), "worker 3=a");
        assert_eq!(described("job.queue=1").name, described("queue=1").name);
    }

    #[test]
    fn numbers_are_exact_or_rounded_to_the_nearest() {
        let units = |text, places| Number::read(text).unwrap().to_units(places);
        assert_eq!(units("18446744073709551615", 0), Some(u64::MAX));
        assert_eq!(units("18446744073709551616", 0), None);
        assert_eq!(units("18446744073709551615.5", 0), None);
        assert_eq!(units("0.0125", 6), Some(12_500));
        assert_eq!((units("0.49", 0), units("0.5", 0), units(".5", 1)), (Some(0), Some(1), Some(5)));
        assert_eq!(Number::read("0.123456789012").unwrap().places(), 9);
    }

    #[test]
    fn the_error_names_what_is_wrong_with_a_line() {
        let problem = |line: &str| match Publication::read(line).and_then(|p| p.describe()) {
            Err(error) => error.to_string(),
            Ok(said) => panic!("{line}: {said:?}"),
        };
        assert_eq!(problem("queue"), "'queue' has no value: write it as NAME=VALUE");
        for value in ["-1", "", ".", "1.", "1e3", "0x1", "NaN", "1,5", "+1"] {
            let expected = format!("'{value}' is not a number without sign, such as 17 or 0.25");
            assert_eq!(problem(&format!("a={value}")), expected);
        }
        assert_eq!(problem("a=1 colour=red"), "'colour=red' is not one of unit=, kind=, places=, help=");
        assert!(problem("a=1 unit=miles").contains("unit=miles"));
        assert!(problem("n7:a=1").contains("its own node"));
        assert!(problem("Queue=1").contains("column"));
        assert!(problem(&format!("{}=1", "a".repeat(126))).contains("at most 128"));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_publication_or_a_problem(line in "\\PC{0,120}") {
            if let Ok(publication) = Publication::read(&line) {
                let _ = (publication.describe(), publication.value.to_units(9));
            }
        }

        #[test]
        fn lines_that_are_nearly_right_do_not_panic(name in "[a-z.\\[\\]=]{0,12}", value in "[0-9.]{0,24}", options in "(unit=|kind=|places=|help=|[a-z0-9 ]){0,6}") {
            if let Ok(publication) = Publication::read(&format!("{name}={value} {options}"))
                && let Ok(said) = publication.describe()
            {
                prop_assert!(said.name.starts_with(PREFIX) && said.name.len() <= METRIC_NAME_MAX);
            }
        }
    }
}
