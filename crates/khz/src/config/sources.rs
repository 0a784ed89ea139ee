//! The settings of sources: which are gathered, at which rate, within which budget.

use std::path::PathBuf;

use khz_gather::{PROCESS_PLACES_MAX, SurveySettings};
use khz_model::{Kind, Rate, Unit, suggest};
use khz_parse::own_source::{OWN_SOURCES_MAX, OwnSource};
use khz_parse::{KernelFile, KnownFiles, processes, textfile};

use super::values::{bad, checked, items, quantity, share, switch};
use super::{ConfigError, Layers, Origin, SourceValues, Value};

/// Which sources are gathered, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// True when only the listed ones are gathered.
    pub exactly: bool,
    /// The settings of single sources.
    pub choices: Vec<SourceChoice>,
    /// The sources that there are: those of the program, and those that the file describes.
    pub known: KnownFiles,
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
            text_files: of(textfile::FILE.name)
                .and_then(|own| own.path.clone())
                .unwrap_or_else(|| usual.text_files.clone()),
            expects_text_files: of(textfile::FILE.name).is_some_and(|own| own.path.is_some()),
            places: of(processes::FILE.name).and_then(|own| own.places).unwrap_or(usual.places),
            known: self.known.clone(),
            ..usual
        }
    }
}

/// The file's tables, overridden by the list of `--sources` or its variable.
pub(super) fn sources(layers: &Layers, source_names: &[&str]) -> Result<Sources, ConfigError> {
    let (mut tables, mut own) = (Vec::new(), Vec::new());
    for table in &layers.sources {
        let is_own = !source_names.contains(&table.name.as_str());
        if is_own {
            let file = described(table, own.len())?;
            check_collision(table, file, &own)?;
            own.push(file);
        }
        tables.push(SourceChoice {
            name: table.name.clone(),
            rate: optional(&table.rate, &table.name, "rate", quantity)?,
            enabled: optional(&table.enabled, &table.name, "enabled", switch)?.unwrap_or(true),
            budget: optional(&table.budget, &table.name, "budget", share)?,
            path: match is_own {
                true => None,
                false => optional(&table.path, &table.name, "path", |text| folder(&table.name, text))?,
            },
            places: optional(&table.places, &table.name, "places", |text| places(&table.name, text))?,
        });
    }
    let names: Vec<&str> = source_names.iter().copied().chain(own.iter().map(|file| file.name)).collect();
    let known = KnownFiles::with(own);
    let listed = checked(layers, "sources", |text| source_list(text, &names))?;
    if listed.is_empty() {
        return Ok(Sources { exactly: false, choices: tables, known });
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
    Ok(Sources { exactly: true, choices: choices.collect(), known })
}

/// The source that a table describes. `before`: how many tables describe one before it.
fn described(table: &SourceValues, before: usize) -> Result<&'static KernelFile, ConfigError> {
    let name = &table.name;
    let value = |key: &str| table.own.iter().find(|(own, _)| *own == key).map(|(_, value)| value.clone());
    let Some(path) = &table.path else {
        let nowhere = Value { text: String::new(), origin: Origin::Default };
        return Err(bad(&format!("sources.{name}.path"), &nowhere, "it is missing".to_owned()));
    };
    let column = optional(&value("column"), name, "column", |text| {
        text.parse::<usize>().map_err(|_| format!("'{text}' is not a number from 1 to 64"))
    })?;
    let source = OwnSource {
        name: name.clone(),
        path: path.text.clone(),
        line: value("line").map(|line| (line.text, column.unwrap_or(1))),
        kind: optional(&value("kind"), name, "kind", |text| {
            named(Kind::named(text), text, "gauge or counter")
        })?
        .unwrap_or(Kind::Gauge),
        unit: optional(&value("unit"), name, "unit", |text| {
            let all: Vec<&str> = Unit::ALL.iter().map(|unit| unit.as_str()).collect();
            named(Unit::named(text), text, &format!("one of {}", all.join(", ")))
        })?
        .unwrap_or(Unit::Count),
        places: optional(&value("divide"), name, "divide", divisor)?.unwrap_or(0),
        help: value("help").map(|help| help.text).unwrap_or_default(),
    };
    if before >= OWN_SOURCES_MAX {
        return Err(bad(
            &format!("sources.{name}"),
            path,
            format!("at most {OWN_SOURCES_MAX} sources are described"),
        ));
    }
    source.make().map_err(|error| bad(&format!("sources.{name}"), path, error.to_string()))
}

/// Refuses a source whose metric has the same name at Prometheus as one before it (`x` in bytes, `x_bytes`).
fn check_collision(
    table: &SourceValues,
    file: &'static KernelFile,
    before: &[&'static KernelFile],
) -> Result<(), ConfigError> {
    let exposed = |file: &KernelFile| file.metrics().into_iter().map(|metric| metric.exposition.name.clone());
    for name in exposed(file) {
        if let Some(first) = before.iter().find(|first| exposed(first).any(|other| other == name)) {
            let (path, key) = (table.path.clone(), format!("sources.{}", table.name));
            let Some(path) = path else { continue };
            let problem = format!(
                "at Prometheus it would be {name}, and so is sources.{}: rename one of them",
                first.name
            );
            return Err(bad(&key, &path, problem));
        }
    }
    Ok(())
}

fn named<T>(found: Option<T>, text: &str, expected: &str) -> Result<T, String> {
    found.ok_or_else(|| format!("'{text}' is not {expected}"))
}

/// The decimal places of `1000`.
fn divisor(text: &str) -> Result<u8, String> {
    let places = (0..=9u8).find(|places| text == 10u64.pow((*places).into()).to_string());
    places.ok_or_else(|| format!("'{text}' is not 1, 10, 100 and so on, up to 1000000000"))
}

/// The place of a source that may be elsewhere.
fn folder(source: &str, text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match (source == textfile::FILE.name, path.is_absolute()) {
        (true, true) if text.contains('*') => {
            Err(format!("'{text}' has a `*`: there is one folder, and its name is written out"))
        }
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
                known: KnownFiles::default(),
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
    fn a_table_with_a_path_and_a_name_of_its_own_describes_a_source() {
        let names = ["stat", "textfile", "processes"];
        let read = |file: &str| sources(&layers(file, &[], &[]), &names);
        let text = "[sources.room]\npath = \"/sys/class/room/*/temp\"\nunit = \"celsius\"\ndivide = 1000\n\
                    rate = \"1Hz\"\nhelp = \"Of the room.\"\n";
        let found = read(text).unwrap();
        let metric = found.known.named("room").unwrap().metrics().remove(0);
        assert_eq!((&*metric.name, metric.places, metric.unit), ("own.room", 3, Unit::Celsius));
        assert_eq!((found.choices[0].rate, &*found.choices[0].name), (Rate::from_hz(1), "room"));
        assert_eq!(found.survey().known, found.known);
        for (more, wanted) in [
            ("unit = \"kelvin\"\n", "'kelvin' is not one of"),
            ("kind = \"rate\"\n", "'rate' is not gauge or counter"),
            ("divide = 7\n", "'7' is not 1, 10, 100"),
            ("line = \"a b\"\n", "a line is a word"),
            ("line = \"a\"\ncolumn = 0\n", "a line is a word"),
        ] {
            let error = read(&format!("[sources.room]\npath = \"/a/b\"\n{more}")).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        for (first, second, exposed) in [
            ("x]\nunit = \"bytes\"", "x_bytes]", "khz_own_x_bytes"),
            ("x_bytes]", "x]\nunit = \"bytes\"", "khz_own_x_bytes"),
            ("y]\nkind = \"counter\"", "y_total]", "khz_own_y_total"),
            ("z]\nunit = \"seconds\"\nkind = \"counter\"", "z_seconds_total]", "khz_own_z_seconds_total"),
        ] {
            let table = |begin: &str| format!("[sources.{begin}\npath = \"/a/b\"\n");
            let name = |begin: &str| begin.split(']').next().unwrap().to_owned();
            let error = read(&(table(first) + &table(second))).unwrap_err().to_string();
            let (one, two) = (name(first), name(second));
            assert!(error.starts_with(&format!("sources.{two} ")), "{error}");
            let wanted =
                format!("at Prometheus it would be {exposed}, and so is sources.{one}: rename one of them");
            assert!(error.ends_with(&wanted), "{error}");
        }
        let error = read("[sources.room]\npath = \"a\"\n").unwrap_err().to_string();
        assert!(error.contains("a path is absolute"), "{error}");
        let error = read("[sources.Room]\npath = \"/a\"\n").unwrap_err().to_string();
        assert!(error.contains("not right below '/'") && error.contains("the name of a source"), "{error}");
    }

    #[test]
    fn the_folder_of_files_and_the_number_of_processes_are_settings_of_their_sources() {
        let names = ["stat", "textfile", "processes"];
        let read = |file: &str| sources(&layers(file, &[], &[]), &names);
        let elsewhere = read("[sources.textfile]\npath = \"/srv/numbers\"\n").unwrap();
        assert_eq!(elsewhere.survey().text_files, PathBuf::from("/srv/numbers"));
        assert!(elsewhere.survey().expects_text_files && !read("").unwrap().survey().expects_text_files);
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
                "[sources.textfile]\npath = \"/srv/*/numbers\"\n",
                "'/srv/*/numbers' has a `*`: there is one folder, and its name is written out",
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
