//! The settings of sources: which are gathered, at which rate, within which budget.

use khz_model::{Rate, suggest};

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
#[derive(Clone, Debug, PartialEq)]
pub struct SourceChoice {
    /// The source.
    pub name: String,
    /// Its own rate, if not that of its lane.
    pub rate: Option<Rate>,
    /// Whether it is gathered.
    pub enabled: bool,
    /// Its share of one core, above 0 and at most 1.
    pub budget: Option<f64>,
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
            enabled: true,
            name,
        }
    });
    Ok(Sources { exactly: true, choices: choices.collect() })
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
                    SourceChoice { name: "stat".into(), rate: hz(5), enabled: true, budget: Some(0.02) },
                    SourceChoice { name: "meminfo".into(), rate: hz(1000), enabled: true, budget: None },
                ],
            }
        );
    }
}
