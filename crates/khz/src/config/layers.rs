//! The layers of the configuration: for every setting the value of the topmost layer that has one. Reads only the
//! configuration file and the environment.

use std::path::{Path, PathBuf};

use super::file::{self, FILE_BYTES_MAX, FileValues};
use super::flags::NodeFlags;
use super::settings::{SETTINGS, position};
use super::{
    ActionValues, ConfigError, FILE, ForeignValues, NotifyValues, Origin, SinkValues, SourceValues, Value,
};
use khz_model::suggest;

/// For every setting its value, and where it came from.
#[derive(Debug)]
pub struct Layers {
    values: Vec<Value>,
    /// The file's `[sources.NAME]` tables.
    pub sources: Vec<SourceValues>,
    /// The file's `[sinks.NAME]` tables.
    pub sinks: Vec<SinkValues>,
    /// The file's `[engine]` table.
    pub engine: Option<ForeignValues>,
    /// The file's `[[rules_peer]]` tables.
    pub rules_peers: Vec<ForeignValues>,
    /// The file's `[[remote_write]]` tables.
    pub remote_writes: Vec<ForeignValues>,
    /// The file's tables below `[notify]`.
    pub notify: NotifyValues,
    /// The file's `[actions.NAME]` tables.
    pub actions: Vec<ActionValues>,
    /// The file's `[health]` table.
    pub health: Option<ForeignValues>,
    /// The file's `[jobs]` table.
    pub jobs: Option<ForeignValues>,
    /// The keys of the file's `[groups]` table.
    pub groups: Vec<(String, Value)>,
    /// Variables that are probably misspelt, each with the name that was probably meant.
    pub suspects: Vec<(String, String)>,
}

impl Layers {
    /// Merges defaults, file, environment and flags; a later one wins.
    pub fn read(flags: NodeFlags, source_names: &[&str]) -> Result<Self, ConfigError> {
        let variables = variables()?;
        let named = flags
            .config
            .clone()
            .or_else(|| variables.iter().find(|(name, _)| name == "KHZ_CONFIG").map(|(_, path)| path.into()));
        let file = match named {
            Some(path) => open(&path, source_names)?,
            None => match usual_file() {
                Some(path) => open(&path, source_names)?,
                None => FileValues::default(),
            },
        };
        Ok(Self::merge(file, &variables, flags))
    }

    /// The merge itself: reads no file and no environment.
    pub fn merge(file: FileValues, variables: &[(String, String)], flags: NodeFlags) -> Self {
        let mut from_file = file.settings.into_iter();
        let mut from_flags = flags.given.into_iter();
        let mut values = Vec::new();
        for setting in SETTINGS {
            let file_value = from_file.next().flatten();
            let flag_value = from_flags.next().flatten();
            let name = setting.variable();
            let variable = variables.iter().find(|(candidate, _)| *candidate == name);
            values.push(if let Some(text) = flag_value {
                Value { text, origin: Origin::Flag(setting.flag()) }
            } else if let Some((name, text)) = variable {
                Value { text: text.clone(), origin: Origin::Variable(name.clone()) }
            } else {
                let default = || Value { text: setting.default.to_owned(), origin: Origin::Default };
                file_value.unwrap_or_else(default)
            });
        }
        Layers {
            values,
            sources: file.sources,
            sinks: file.sinks,
            engine: file.engine,
            rules_peers: file.rules_peers,
            remote_writes: file.remote_writes,
            notify: file.notify,
            actions: file.actions,
            health: file.health,
            jobs: file.jobs,
            groups: file.groups,
            suspects: suspects(variables),
        }
    }

    /// The value of a setting.
    pub fn value(&self, key: &str) -> &Value {
        let at = position(key).expect("BUG: a setting that is not in the table");
        &self.values[at]
    }
}

/// The file that is read where none is named: the user's own, else the machine's; `None` where neither exists.
fn usual_file() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    let own = folder.map(|folder| folder.join("khz/khz.toml"));
    own.into_iter().chain([PathBuf::from(FILE)]).find(|path| path.exists())
}

/// The environment's `KHZ_` variables.
fn variables() -> Result<Vec<(String, String)>, ConfigError> {
    let ours =
        |name: &std::ffi::OsStr| name.to_str().filter(|name| name.starts_with("KHZ_")).map(str::to_owned);
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((ours(&name)?, value)));
    let as_text = |(name, value): (String, std::ffi::OsString)| match value.into_string() {
        Ok(text) => Ok((name, text)),
        Err(_) => Err(ConfigError::NotText { at: Origin::Variable(name) }),
    };
    variables.map(as_text).collect()
}

fn open(path: &Path, source_names: &[&str]) -> Result<FileValues, ConfigError> {
    let shown = path.display().to_string();
    let unreadable = |reason: String| ConfigError::Unreadable { path: shown.clone(), reason };
    let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(unreadable(format!("it has {size} bytes; a khz.toml has at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    file::read(&shown, &text, source_names)
}

/// Unknown variables that nearly have one of our names. They are not refused: Kubernetes sets
/// `KHZ_PORT` and the like for a service called khz, and means nothing by it.
fn suspects(variables: &[(String, String)]) -> Vec<(String, String)> {
    let known: Vec<String> = SETTINGS.iter().map(|s| s.variable()).chain(["KHZ_CONFIG".to_owned()]).collect();
    variables
        .iter()
        .filter(|(name, _)| !known.contains(name))
        .filter_map(|(name, _)| {
            let word = name.strip_prefix("KHZ_")?;
            let near = suggest::nearest(word, known.iter().filter_map(|k| k.strip_prefix("KHZ_")))?;
            Some((name.clone(), format!("KHZ_{near}")))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Layers from a file's text, variables and flags, as a user would write them.
    pub(crate) fn layers(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Layers {
        let names = ["stat", "meminfo", "net_dev", "textfile", "processes"];
        let file = file::read("/etc/khz/khz.toml", file, &names).unwrap();
        let variables: Vec<_> = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let mut given = vec![None; SETTINGS.len()];
        for (key, text) in flags {
            given[position(key).unwrap()] = Some((*text).to_owned());
        }
        Layers::merge(file, &variables, NodeFlags { config: None, given })
    }

    #[test]
    fn flag_beats_environment_beats_file_beats_default() {
        let all = layers(
            "ring = \"1MiB\"\nwindow = \"2us\"\nlisten = \"127.0.0.1:1\"\n",
            &[("KHZ_WINDOW", "3us"), ("KHZ_LISTEN", "127.0.0.1:2")],
            &[("listen", "127.0.0.1:3")],
        );
        let shown = |key: &str| format!("{} # {}", all.value(key).text, all.value(key).origin);
        assert_eq!(shown("listen"), "127.0.0.1:3 # --listen");
        assert_eq!(shown("window"), "3us # KHZ_WINDOW");
        assert_eq!(shown("ring"), "1MiB # /etc/khz/khz.toml:1");
        assert_eq!(shown("cpu_max"), "10% # default");
    }

    #[test]
    fn a_misspelt_variable_is_pointed_out() {
        let all = layers("", &[("KHZ_LISTNE", "x"), ("KHZ_ZEBRA", "y"), ("KHZ_CONFIG", "z")], &[]);
        assert_eq!(all.suspects, [("KHZ_LISTNE".to_owned(), "KHZ_LISTEN".to_owned())]);
    }
}
