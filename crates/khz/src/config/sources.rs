//! The settings of sources: which are gathered, at which rate, within which budget.

use std::path::PathBuf;

use khz_gather::{PROCESS_PLACES_MAX, SurveySettings};
use khz_model::{Rate, suggest};
use khz_parse::{processes, textfile};

use super::values::{bad, checked, items, quantity, share, switch};
use super::{ConfigError, Layers, Value};

/// Which sources are gathered, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// True when only the listed ones are gathered.
    pub exactly: bool,
    /// The settings of single sources.
    pub choices: Vec<SourceChoice>,
}

/// The settings of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceChoice {
    /// The source.
    pub name: String,
    /// Its own rate, if not that of its lane.
    pub rate: Option<Rate>,
    /// Whether it is gathered.
    pub enabled: bool,
    /// Its share of one core, above 0 and at most 1.
    pub budget: Option<f64>,
    /// Where it is, if not at its usual place.
    pub path: Option<PathBuf>,
    /// How many processes of each kind it shows, if not the usual number.
    pub places: Option<usize>,
}

impl Sources {
    /// What of the surveys is a setting.
    pub fn survey(&self) -> SurveySettings {
        let usual = SurveySettings::default();
        let of = |name: &str| self.choices.iter().find(|choice| choice.name == name);
        SurveySettings {
            text_files: of(textfile::FILE.name).and_then(|own| own.path.clone()).unwrap_or(usual.text_files),
            places: of(processes::FILE.name).and_then(|own| own.places).unwrap_or(usual.places),
        }
    }
}

/// The file's tables, overridden by the list of `--sources` or its variable.
pub(super) fn sources(layers: &Layers, source_names: &[&str]) -> Result<Sources, ConfigError> {
    let mut tables = Vec::new();
    for table in &layers.sources {
        tables.push(SourceChoice {
            name: table.name.clone(),
            rate: optional(&table.rate, &table.name, "rate", quantity)?,
            enabled: optional(&table.enabled, &table.name, "enabled", switch)?.unwrap_or(true),
            budget: optional(&table.budget, &table.name, "budget", share)?,
            path: optional(&table.path, &table.name, "path", |text| folder(&table.name, text))?,
            places: optional(&table.places, &table.name, "places", |text| places(&table.name, text))?,
        });
    }
    let listed = checked(layers, "sources", |text| source_list(text, source_names))?;
    if listed.is_empty() {
        return Ok(Sources { exactly: false, choices: tables });
    }
    let choices = listed.into_iter().map(|(name, rate)| {
        let table = tables.iter().find(|table| table.name == name);
        let own_rate = table.and_then(|table| table.rate);
        SourceChoice {
            rate: rate.or(own_rate),
            budget: table.and_then(|table| table.budget),
            path: table.and_then(|table| table.path.clone()),
            places: table.and_then(|table| table.places),
            enabled: true,
            name,
        }
    });
    Ok(Sources { exactly: true, choices: choices.collect() })
}

/// The place of a source that may be elsewhere.
fn folder(source: &str, text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match (source == textfile::FILE.name, path.is_absolute()) {
        (true, true) => Ok(path),
        (true, false) => Err(format!("'{text}' is no absolute path, such as /var/lib/node_exporter")),
        (false, _) => {
            Err(format!("only {} has a path: the others are where the kernel has them", textfile::FILE.name))
        }
    }
}

/// How many processes are shown.
fn places(source: &str, text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=PROCESS_PLACES_MAX).contains(number));
    match (source == processes::FILE.name, number) {
        (true, Some(number)) => Ok(number),
        (true, None) => Err(format!("'{text}' is not a number from 1 to {PROCESS_PLACES_MAX}")),
        (false, _) => Err(format!("only {} has places", processes::FILE.name)),
    }
}

fn optional<T>(
    value: &Option<Value>,
    source: &str,
    key: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    read(&value.text).map(Some).map_err(|problem| bad(&format!("sources.{source}.{key}"), value, problem))
}

/// `stat=1000Hz,meminfo`.
fn source_list(text: &str, source_names: &[&str]) -> Result<Vec<(String, Option<Rate>)>, String> {
    let mut listed: Vec<(String, Option<Rate>)> = Vec::new();
    for item in items(text) {
        let (name, rate) = match item.split_once('=') {
            Some((name, rate)) => (name.trim(), Some(quantity::<Rate>(rate)?)),
            None => (item, None),
        };
        if !source_names.contains(&name) {
            let hint = suggest::hint(name, source_names.iter().copied());
            let all = source_names.join(", ");
            return Err(format!("no source is called '{name}'{hint}; there are {all}"));
        }
        if listed.iter().any(|(other, _)| other == name) {
            return Err(format!("'{name}' is listed twice"));
        }
        listed.push((name.to_owned(), rate));
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::*;

    fn read(file: &str, flags: &[(&str, &str)]) -> Sources {
        sources(&layers(file, &[], flags), &["stat", "meminfo", "net_dev"]).unwrap()
    }

    #[test]
    fn the_flag_lists_exactly_the_sources_and_keeps_the_budgets_of_the_file() {
        let file = "[sources.stat]\nbudget = \"2%\"\nrate = \"5Hz\"\n[sources.net_dev]\nenabled = false\n";
        let of_file = read(file, &[]);
        assert!(!of_file.exactly && of_file.choices.len() == 2 && !of_file.choices[1].enabled);
        let listed = read(file, &[("sources", "stat, meminfo=1000Hz")]);
        let hz = |n| Rate::from_hz(n);
        assert_eq!(
            listed,
            Sources {
                exactly: true,
                choices: vec![
                    SourceChoice {
                        name: "stat".into(),
                        rate: hz(5),
                        enabled: true,
                        budget: Some(0.02),
                        path: None,
                        places: None,
                    },
                    SourceChoice {
                        name: "meminfo".into(),
                        rate: hz(1000),
                        enabled: true,
                        ..SourceChoice::default()
                    },
                ],
            }
        );
    }

    #[test]
    fn the_folder_of_files_and_the_number_of_processes_are_settings_of_their_sources() {
        let names = ["stat", "textfile", "processes"];
        let read = |file: &str| sources(&layers(file, &[], &[]), &names);
        let elsewhere = read("[sources.textfile]\npath = \"/srv/numbers\"\n").unwrap();
        assert_eq!(elsewhere.survey().text_files, PathBuf::from("/srv/numbers"));
        assert_eq!(read("[sources.processes]\nplaces = 50\n").unwrap().survey().places, 50);
        assert_eq!(read("").unwrap().survey(), SurveySettings::default());
        for (file, wanted) in [
            ("[sources.processes]\nplaces = 0\n", "'0' is not a number from 1 to 500"),
            ("[sources.stat]\nplaces = 5\n", "only processes has places"),
            (
                "[sources.textfile]\npath = \"numbers\"\n",
                "'numbers' is no absolute path, such as /var/lib/node_exporter",
            ),
            (
                "[sources.stat]\npath = \"/proc\"\n",
                "only textfile has a path: the others are where the kernel has them",
            ),
        ] {
            let error = read(file).unwrap_err().to_string();
            assert!(error.ends_with(wanted), "{error}");
        }
    }
}
