//! The parameters of a recording from a file: the flags' names as keys. Unknown keys are errors.
//! Values are checked later, like those of flags.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::flags::RecordFlags;
use crate::show::outcome::Failure;
use khz_model::suggest;

/// A larger file holds no parameters.
const FILE_BYTES_MAX: u64 = 1 << 20;
const KEYS: [&str; 14] = [
    "match", "channel", "rate", "for", "last", "from", "to", "server", "lane", "hub", "output", "rotate",
    "keep", "command",
];

/// Fills flags that are not given with the values of the file.
pub fn fill(flags: &mut RecordFlags, path: &Path) -> Result<(), Failure> {
    let name = path.display().to_string();
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    if length > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{name}: {length} bytes are more than parameters take")));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    read(flags, &name, &text)
}

fn read(flags: &mut RecordFlags, name: &str, text: &str) -> Result<(), Failure> {
    let table =
        DeTable::parse(text).map_err(|error| Failure::usage(format!("{name}: {}", error.message())))?;
    for (key, value) in table.get_ref().iter() {
        let key = key.get_ref().as_ref();
        let wrong = |wanted: &str| Failure::usage(format!("{name}: {key} must be {wanted}"));
        let list = || list(value.get_ref()).ok_or_else(|| wrong("a list of texts"));
        let one = || match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(wrong("a text in quotes")),
        };
        match key {
            "match" if flags.patterns.is_empty() => flags.patterns = list()?,
            "command" if flags.command.is_empty() => flags.command = list()?,
            "channel" => fill_in(&mut flags.channel, one()?),
            "rate" => fill_in(&mut flags.rate, one()?),
            "for" => fill_in(&mut flags.duration, one()?),
            "last" => fill_in(&mut flags.last, one()?),
            "from" => fill_in(&mut flags.from, one()?),
            "to" => fill_in(&mut flags.to, one()?),
            "server" => fill_in(&mut flags.server, one()?),
            "hub" => fill_in(&mut flags.hub, one()?),
            "lane" => fill_in(&mut flags.lane, one()?),
            "rotate" => fill_in(&mut flags.rotate, one()?),
            "output" => fill_in(&mut flags.output, one()?.into()),
            "keep" => {
                let DeValue::Integer(number) = value.get_ref() else { return Err(wrong("a number")) };
                let number = number.to_string().parse().ok().filter(|&number: &u64| number > 0);
                fill_in(&mut flags.keep, number.ok_or_else(|| wrong("a number above 0"))?);
            }
            "match" | "command" => {}
            unknown => {
                let near = suggest::nearest(unknown, KEYS);
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                return Err(Failure::usage(format!("{name}: there is no parameter {unknown}{near}")));
            }
        }
    }
    Ok(())
}

fn fill_in<T>(flag: &mut Option<T>, value: T) {
    flag.get_or_insert(value);
}

fn list(value: &DeValue<'_>) -> Option<Vec<String>> {
    let DeValue::Array(items) = value else { return None };
    let text = |item: &toml::Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    };
    items.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        flags: RecordFlags,
    }

    fn flags(words: &[&str]) -> RecordFlags {
        Words::parse_from([&["record"], words].concat()).flags
    }

    #[test]
    fn a_flag_goes_before_the_file() {
        let mut flags = flags(&["--rate", "5Hz", "--", "true"]);
        let text = "match = [\"cpu.*\"]\nrate = \"100Hz\"\nfor = \"3s\"\nkeep = 7\ncommand = [\"false\"]";
        read(&mut flags, "run.toml", text).unwrap();
        assert_eq!((flags.rate.as_deref(), flags.duration.as_deref()), (Some("5Hz"), Some("3s")));
        assert_eq!(
            (flags.patterns, flags.command, flags.keep),
            (vec!["cpu.*".into()], vec!["true".into()], Some(7))
        );
    }

    #[test]
    fn wrong_keys_and_values_are_refused() {
        for (text, problem) in [
            ("rat = \"1Hz\"", "run.toml: there is no parameter rat; did you mean rate?"),
            ("rate = 100", "run.toml: rate must be a text in quotes"),
            ("match = \"cpu.*\"", "run.toml: match must be a list of texts"),
            ("keep = 0", "run.toml: keep must be a number above 0"),
        ] {
            let error = read(&mut flags(&[]), "run.toml", text).unwrap_err().to_string();
            assert_eq!(error, problem);
        }
    }
}
