//! The TOML file: its text to values with the line of each. Unknown keys and values of the wrong type are
//! errors, a key with the nearest known one. What a value means is checked later.

mod actions;
mod foreign;
mod notify;

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::settings::{SETTINGS, Shape, position};
use super::{
    ActionValues, ConfigError, ForeignValues, NotifyValues, Origin, SinkValues, SourceValues, Value,
};
use khz_model::{ChannelName, suggest};

/// A file larger than this is not a khz.toml.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The values of one file.
#[derive(Debug, Default)]
pub struct FileValues {
    /// One entry for each setting of the table; `None` where the file does not have it.
    pub settings: Vec<Option<Value>>,
    /// The `[sources.NAME]` tables, in the order of the file.
    pub sources: Vec<SourceValues>,
    /// The `[sinks.NAME]` tables, in the order of the file.
    pub sinks: Vec<SinkValues>,
    /// The `[engine]` table.
    pub engine: Option<ForeignValues>,
    /// The `[[rules_peer]]` tables.
    pub rules_peers: Vec<ForeignValues>,
    /// The `[[remote_write]]` tables, in the order of the file.
    pub remote_writes: Vec<ForeignValues>,
    /// The tables below `[notify]`.
    pub notify: NotifyValues,
    /// The `[actions.NAME]` tables, in the order of the file.
    pub actions: Vec<ActionValues>,
    /// The `[health]` table.
    pub health: Option<ForeignValues>,
    /// The `[jobs]` table.
    pub jobs: Option<ForeignValues>,
    /// The keys of `[groups]`, in the order of the file.
    pub groups: Vec<(String, Value)>,
}

/// Keys inside `[store]`, and the settings that they are.
const STORE_KEYS: [(&str, &str); 5] = [
    ("dir", "store"),
    ("keep", "keep"),
    ("raw", "store_raw"),
    ("minute", "store_minute"),
    ("hour", "store_hour"),
];

/// Keys inside `[sources.NAME]`.
const SOURCE_KEYS: [&str; 5] = ["rate", "enabled", "budget", "path", "places"];

/// Further keys of a source that the user describes, which has a `path` and a name that no source of ours has.
const OWN_SOURCE_KEYS: [&str; 6] = ["line", "column", "kind", "unit", "divide", "help"];

/// What to do where a file has both.
const LIST_AND_TABLES: &str = "; beside tables [sources.NAME] there is no list sources = [...]: write enabled = false into the tables of those that you do not want, or give the list as --sources or KHZ_SOURCES";

/// Keys inside `[sinks.NAME]`.
const SINK_KEYS: [(&str, Shape); 5] = [
    ("rrd", Shape::Text("DIR")),
    ("layout", Shape::List("LAYOUT")),
    ("record", Shape::Text("DIR")),
    ("rotate", Shape::Text("SIZE")),
    ("size", Shape::Text("SIZE")),
];

/// Reads the text of the file called `path`; `source_names` are the sources that exist.
pub fn read(path: &str, text: &str, source_names: &[&str]) -> Result<FileValues, ConfigError> {
    let reader = Reader { path, text, source_names };
    let table = DeTable::parse(text).map_err(|error| reader.syntax(&error))?;
    let mut values =
        FileValues { settings: SETTINGS.iter().map(|_| None).collect(), ..FileValues::default() };
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("sources", DeValue::Table(tables)) => values.sources = reader.sources(tables)?,
            ("sinks", DeValue::Table(tables)) => values.sinks = reader.sinks(tables)?,
            ("engine", _) => values.engine = Some(reader.engine(key, value)?),
            ("rules_peer", _) => values.rules_peers = reader.rules_peers(value)?,
            ("remote_write", _) => values.remote_writes = reader.remote_writes(value)?,
            ("notify", _) => values.notify = reader.notify(key, value)?,
            ("actions", DeValue::Table(tables)) => values.actions = reader.actions(tables)?,
            ("health", _) => values.health = Some(reader.health(key, value)?),
            ("jobs", _) => values.jobs = Some(reader.jobs(key, value)?),
            ("groups", DeValue::Table(keys)) => values.groups = reader.groups(keys)?,
            ("store", DeValue::Table(keys)) => reader.store(keys, &mut values.settings)?,
            (name, _) => match position(name) {
                Some(at) => values.settings[at] = Some(reader.setting(name, SETTINGS[at].shape, value)?),
                None => return Err(reader.unknown(key, "", SETTINGS.iter().map(|s| s.key))),
            },
        }
    }
    Ok(values)
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    source_names: &'a [&'a str],
}

type Key<'a> = Spanned<DeString<'a>>;
type Item<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn sources(&self, tables: &DeTable<'_>) -> Result<Vec<SourceValues>, ConfigError> {
        let mut sources = Vec::new();
        for (name, table) in tables.iter() {
            let known = self.source_names.contains(&name.get_ref().as_ref());
            let is_described = matches!(table.get_ref(), DeValue::Table(keys) if keys.contains_key("path"));
            if !known && !is_described {
                return Err(self.unknown(name, "sources.", self.source_names.iter().copied()));
            }
            let DeValue::Table(keys) = table.get_ref() else {
                return Err(self.wrong_type(name.get_ref(), table.span(), "a table: [sources.stat]"));
            };
            sources.push((name.span().start, self.source(name.get_ref(), keys)?));
        }
        sources.sort_by_key(|(start, _)| *start);
        Ok(sources.into_iter().map(|(_, source)| source).collect())
    }

    fn source(&self, name: &str, keys: &DeTable<'_>) -> Result<SourceValues, ConfigError> {
        let mut source = SourceValues { name: name.to_owned(), ..SourceValues::default() };
        for (key, value) in keys.iter() {
            let full = format!("sources.{name}.{}", key.get_ref());
            match key.get_ref().as_ref() {
                "rate" => source.rate = Some(self.setting(&full, Shape::Text("RATE"), value)?),
                "enabled" => source.enabled = Some(self.setting(&full, Shape::Switch, value)?),
                "budget" => source.budget = Some(self.setting(&full, Shape::Text("PERCENT"), value)?),
                "places" => source.places = Some(self.setting(&full, Shape::Text("NUMBER"), value)?),
                "path" => source.path = Some(self.setting(&full, Shape::Text("DIR"), value)?),
                other => match OWN_SOURCE_KEYS.iter().find(|known| **known == other) {
                    Some(known) if !self.source_names.contains(&name) => {
                        source.own.push((known, self.setting(&full, Shape::Text("WORD"), value)?));
                    }
                    _ => return Err(self.unknown(key, &format!("sources.{name}."), SOURCE_KEYS)),
                },
            }
        }
        Ok(source)
    }

    fn sinks(&self, tables: &DeTable<'_>) -> Result<Vec<SinkValues>, ConfigError> {
        let mut sinks = Vec::new();
        for (key, table) in tables.iter() {
            let name = key.get_ref().as_ref();
            // So that it can be written everywhere as it is.
            if ChannelName::new(name).is_err() {
                let rule = "a name of a small letter, then small letters, digits and '_', as hot";
                return Err(self.wrong_type(&format!("sinks.{name}"), key.span(), rule));
            }
            let full = format!("sinks.{name}");
            let DeValue::Table(keys) = table.get_ref() else {
                return Err(self.wrong_type(&full, table.span(), "a table: [sinks.hot]"));
            };
            let (at, keys) = (self.origin(key.span()), self.keys(keys, &full, &SINK_KEYS)?);
            sinks.push((key.span().start, SinkValues { name: name.to_owned(), at, keys }));
        }
        sinks.sort_by_key(|(start, _)| *start);
        Ok(sinks.into_iter().map(|(_, sink)| sink).collect())
    }

    /// Groups of nodes, each with its hostlist. What names and hostlists may be is checked later.
    fn groups(&self, keys: &DeTable<'_>) -> Result<Vec<(String, Value)>, ConfigError> {
        let mut groups = Vec::new();
        for (key, value) in keys.iter() {
            let name = key.get_ref().as_ref();
            let hosts = self.setting(&format!("groups.{name}"), Shape::Text("HOSTLIST"), value)?;
            groups.push((key.span().start, (name.to_owned(), hosts)));
        }
        groups.sort_by_key(|(start, _)| *start);
        Ok(groups.into_iter().map(|(_, group)| group).collect())
    }

    /// The settings of the store, which have shorter names in a table of their own.
    fn store(&self, keys: &DeTable<'_>, settings: &mut [Option<Value>]) -> Result<(), ConfigError> {
        for (key, value) in keys.iter() {
            let name = key.get_ref().as_ref();
            let known = STORE_KEYS.iter().find(|(short, _)| *short == name);
            let Some(at) = known.and_then(|(_, setting)| position(setting)) else {
                return Err(self.unknown(key, "store.", STORE_KEYS.map(|(short, _)| short)));
            };
            settings[at] = Some(self.setting(&format!("store.{name}"), SETTINGS[at].shape, value)?);
        }
        Ok(())
    }

    fn setting(&self, key: &str, shape: Shape, value: &Item<'_>) -> Result<Value, ConfigError> {
        let text = match (shape, value.get_ref()) {
            (Shape::Switch, DeValue::Boolean(on)) => on.to_string(),
            (Shape::Switch, _) => return Err(self.wrong_type(key, value.span(), "true or false")),
            (Shape::List(_), DeValue::Array(items)) => self.list(key, items)?.join(","),
            (Shape::Patterns(_), DeValue::Array(items)) => self.list(key, items)?.join(";"),
            (Shape::Text(_) | Shape::List(_) | Shape::Patterns(_), DeValue::String(text)) => text.to_string(),
            (Shape::Text("DIR" | "FILE"), DeValue::Integer(_) | DeValue::Float(_)) => {
                return Err(self.wrong_type(key, value.span(), "text in quotes"));
            }
            // `rate_max = 1000` means 1000 Hz. A value that needs a unit is refused when it is checked.
            (Shape::Text(_), DeValue::Integer(number)) => number.to_string(),
            (Shape::Text(_), DeValue::Float(number)) => number.to_string(),
            (Shape::Text(_), _) => return Err(self.wrong_type(key, value.span(), "text in quotes")),
            (Shape::List(_) | Shape::Patterns(_), _) => {
                return Err(self.wrong_type(key, value.span(), "a list of texts: [\"a\", \"b\"]"));
            }
        };
        Ok(Value { text, origin: self.origin(value.span()) })
    }

    fn list<'t>(&self, key: &str, items: &'t [Item<'_>]) -> Result<Vec<&'t str>, ConfigError> {
        let mut texts = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) => texts.push(text.as_ref()),
                _ => return Err(self.wrong_type(key, item.span(), "a list of texts: [\"a\", \"b\"]")),
            }
        }
        Ok(texts)
    }

    fn unknown<'k>(
        &self,
        key: &Key<'_>,
        prefix: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> ConfigError {
        let is_above = !prefix.is_empty() && position(key.get_ref()).is_some();
        let hint = match is_above {
            true => {
                format!("; {} is a setting of its own, and stands above the first [table]", key.get_ref())
            }
            false => suggest::hint(key.get_ref(), known),
        };
        ConfigError::UnknownKey {
            at: self.origin(key.span()),
            key: format!("{prefix}{}", key.get_ref()),
            hint,
        }
    }

    fn wrong_type(&self, key: &str, span: Range<usize>, expected: &'static str) -> ConfigError {
        ConfigError::WrongType { at: self.origin(span), key: key.to_owned(), expected }
    }

    fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        let start = error.span().map_or(0, |span| span.start.min(self.text.len()));
        let mut problem = error.message().replace('\n', ", ");
        // `sources` is the one name that is a list and begins names of tables.
        let line = self.text.split_inclusive('\n').scan(0, |end, line| {
            *end += line.len();
            Some((*end, line))
        });
        let line = line.into_iter().find(|(end, _)| *end > start).map_or("", |(_, line)| line.trim_start());
        if line.starts_with("[sources") || line.starts_with("sources") {
            problem.push_str(LIST_AND_TABLES);
        }
        ConfigError::Syntax { at: self.origin(start..start), problem }
    }

    fn origin(&self, span: Range<usize>) -> Origin {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        Origin::File { path: self.path.to_owned(), line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [&str; 3] = ["stat", "meminfo", "net_dev"];

    fn error(text: &str) -> String {
        read("/etc/khz/khz.toml", text, &SOURCES).unwrap_err().to_string()
    }

    #[test]
    fn values_carry_their_line() {
        let text = "# comment\nlisten = \"127.0.0.1:9\"\nquiet = true\nrate_max = 500\n\n\
                    allowed_hosts = [\"a\", \"b\"]\n[sources.stat]\nrate = \"100Hz\"\nenabled = true\nbudget = \"2%\"\n";
        let values = read("k.toml", text, &SOURCES).unwrap();
        let shown = |key: &str| {
            let value = values.settings[position(key).unwrap()].as_ref().unwrap();
            format!("{} {}", value.text, value.origin)
        };
        assert_eq!(shown("listen"), "127.0.0.1:9 k.toml:2");
        assert_eq!(shown("quiet"), "true k.toml:3");
        assert_eq!(shown("rate_max"), "500 k.toml:4");
        assert_eq!(shown("allowed_hosts"), "a,b k.toml:6");
        let budget = values.sources[0].budget.as_ref().unwrap();
        assert_eq!((budget.text.as_str(), budget.origin.to_string().as_str()), ("2%", "k.toml:10"));
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest_known_one() {
        assert_eq!(
            error("quiet = true\nlisen = \"x\"\n"),
            "/etc/khz/khz.toml:2: no setting is called 'lisen' (did you mean 'listen'?)"
        );
        assert_eq!(
            error("[sources.memifno]\nrate = \"1Hz\"\n"),
            "/etc/khz/khz.toml:1: no setting is called 'sources.memifno' (did you mean 'meminfo'?)"
        );
        assert_eq!(
            error("[sources.stat]\nrat = \"1Hz\"\n"),
            "/etc/khz/khz.toml:2: no setting is called 'sources.stat.rat' (did you mean 'rate'?)"
        );
        assert_eq!(
            error("[store]\nminutes = \"90d\"\n"),
            "/etc/khz/khz.toml:2: no setting is called 'store.minutes' (did you mean 'minute'?)"
        );
        assert_eq!(error("[zebra]\n"), "/etc/khz/khz.toml:1: no setting is called 'zebra'");
        for (table, name) in [
            ("[sources.stat]", "sources.stat.sources"),
            ("[sources.mine]\npath = \"/a/b\"", "sources.mine.sources"),
            ("[store]", "store.sources"),
        ] {
            let error = error(&format!("{table}\nsources = [\"stat\"]\n"));
            let wanted = format!(
                "no setting is called '{name}'; sources is a setting of its own, and stands above the first [table]"
            );
            assert!(error.ends_with(&wanted), "{error}");
        }
    }

    #[test]
    fn wrong_types_say_what_is_expected() {
        assert_eq!(error("quiet = \"yes\"\n"), "/etc/khz/khz.toml:1: quiet takes true or false");
        assert_eq!(error("root = []\n"), "/etc/khz/khz.toml:1: root takes text in quotes");
        assert_eq!(
            error("\nallowed_hosts = [1]\n"),
            "/etc/khz/khz.toml:2: allowed_hosts takes a list of texts: [\"a\", \"b\"]"
        );
        assert_eq!(error("[sources]\nstat = 1\n"), "/etc/khz/khz.toml:2: stat takes a table: [sources.stat]");
    }

    #[test]
    fn broken_toml_names_the_line() {
        assert!(error("quiet = true\nlisten = \n").starts_with("/etc/khz/khz.toml:2: not TOML: "));
        assert!(error("a = 1\na = 2\n").starts_with("/etc/khz/khz.toml:2: not TOML: "));
        let both = error("quiet = true\nsources = [\"stat\"]\n[sources.mine]\npath = \"/a/b\"\n");
        assert!(both.starts_with("/etc/khz/khz.toml:3: ") && both.ends_with(LIST_AND_TABLES), "{both}");
    }
}
