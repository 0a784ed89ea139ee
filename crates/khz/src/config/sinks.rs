//! The sinks of channels: the tables `[sinks.NAME]`. A channel names one (`to`), and never a path: where rows are written is the
//! operator's word.

use std::path::PathBuf;

use khz_model::ByteSize;
use khz_rrdcached::recorder::Layout;

use super::values::{bad, file, quantity};
use super::{ConfigError, SinkValues, Value, rrd};

/// Files of a recording, where nothing else is said; and the smallest that a file may be: it has a few blocks.
const FILE_BYTES: ByteSize = ByteSize(64 << 20);
const ALL_BYTES: ByteSize = ByteSize(1 << 30);
const FILE_BYTES_MIN: u64 = 1 << 20;

/// A sink.
#[derive(Clone, Debug)]
pub struct Sink {
    /// The name by which channels mean it.
    pub name: String,
    /// Its directory.
    pub directory: PathBuf,
    /// What is written there.
    pub files: SinkFiles,
}

/// What a sink writes.
#[derive(Clone, Debug)]
pub enum SinkFiles {
    /// .rrd files with this step and these archives.
    Rrd(Layout),
    /// A recording of each channel.
    Recordings(RecordingLimits),
}

/// How large recordings become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingLimits {
    /// A file, about: then the next one begins.
    pub file: ByteSize,
    /// All files of a channel: before they are larger, the oldest is removed.
    pub all: ByteSize,
}

/// Checks all tables.
pub(super) fn sinks(tables: &[SinkValues]) -> Result<Vec<Sink>, ConfigError> {
    let mut all: Vec<Sink> = Vec::new();
    for table in tables {
        let sink = sink(table)?;
        if let Some(other) = all.iter().find(|other| other.directory == sink.directory) {
            let problem = format!("sink '{}' has this directory: each has its own", other.name);
            let key = if matches!(sink.files, SinkFiles::Rrd(_)) { "rrd" } else { "record" };
            return Err(wrong(table, key, problem));
        }
        all.push(sink);
    }
    Ok(all)
}

fn sink(table: &SinkValues) -> Result<Sink, ConfigError> {
    let value = |key: &str| table.keys.iter().find(|(known, _)| known == key).map(|(_, value)| &*value.text);
    let sink = |directory, files| Ok(Sink { name: table.name.clone(), directory, files });
    let alien = |keys: &[&'static str], of: &str| {
        let alien = keys.iter().find(|key| value(key).is_some());
        alien.map(|key| wrong(table, key, format!("it belongs to a sink with '{of}'")))
    };
    match (value("rrd").and_then(file), value("record").and_then(file)) {
        (Some(_), Some(_)) => {
            Err(wrong(table, "record", "a sink has either 'rrd' or 'record': make two of it".to_owned()))
        }
        (None, None) => Err(wrong(
            table,
            "rrd",
            "it is missing: rrd = \"/var/lib/khz/rrd-hot\", or record = \"/var/lib/khz/hot\"".to_owned(),
        )),
        (Some(directory), None) => {
            if let Some(error) = alien(&["rotate", "size"], "record") {
                return Err(error);
            }
            let layout = rrd::layout(value("layout").unwrap_or_default());
            sink(directory, SinkFiles::Rrd(layout.map_err(|problem| wrong(table, "layout", problem))?))
        }
        (None, Some(directory)) => {
            if let Some(error) = alien(&["layout"], "rrd") {
                return Err(error);
            }
            sink(directory, SinkFiles::Recordings(limits(table, value("rotate"), value("size"))?))
        }
    }
}

fn limits(
    table: &SinkValues,
    rotate: Option<&str>,
    size: Option<&str>,
) -> Result<RecordingLimits, ConfigError> {
    let read = |key: &str, text: Option<&str>, usual: ByteSize| {
        let size = text.map_or(Ok(usual), quantity::<ByteSize>);
        size.map_err(|problem| wrong(table, key, problem))
    };
    let all = read("size", size, ALL_BYTES)?;
    // A small size has smaller files.
    let usual = ByteSize(FILE_BYTES.0.min(all.0 / 4).max(FILE_BYTES_MIN));
    let file = read("rotate", rotate, usual)?;
    if file.0 < FILE_BYTES_MIN {
        return Err(wrong(table, "rotate", "a file has at least 1 MiB".to_owned()));
    }
    if all.0 < file.0.saturating_mul(2) {
        let problem = format!("two files of {file} (rotate) are larger than this");
        return Err(wrong(table, "size", problem));
    }
    Ok(RecordingLimits { file, all })
}

/// An error at the value of this key, or at the table if it has none.
fn wrong(table: &SinkValues, key: &str, problem: String) -> ConfigError {
    let value = table.keys.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
    let value = value.unwrap_or_else(|| Value { text: String::new(), origin: table.at.clone() });
    bad(&format!("sinks.{}.{key}", table.name), &value, problem)
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::super::plan::Plan;
    use super::*;

    fn read(file: &str) -> Result<Vec<Sink>, String> {
        super::super::file::read("k.toml", file, &["stat"]).map_err(|error| error.to_string())?;
        let plan = Plan::check(&layers(file, &[], &[]), "hub", &["stat"]);
        plan.map(|plan| plan.sinks).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sink_is_a_directory_and_a_layout_under_a_name() {
        let text = "[sinks.hot]\nrrd = \"/srv/hot\"\nlayout = [\"1\", \"LAST:0.5:1:60\"]\n[sinks.long]\nrrd = \"/srv/long\"\n";
        let sinks = read(text).unwrap();
        let named: Vec<(&str, &str, u64)> = sinks
            .iter()
            .map(|sink| {
                let SinkFiles::Rrd(layout) = &sink.files else { panic!("{sink:?}") };
                (&*sink.name, sink.directory.to_str().unwrap(), layout.step)
            })
            .collect();
        assert_eq!(named, [("hot", "/srv/hot", 1), ("long", "/srv/long", 300)]);
    }

    #[test]
    fn a_sink_may_be_recordings_of_a_size() {
        let limits = |text: &str| {
            let sinks = read(&format!("[sinks.hot]\nrecord = \"/srv/hot\"\n{text}"))?;
            match sinks[0].files {
                SinkFiles::Recordings(RecordingLimits { file, all }) => Ok((file.0 >> 20, all.0 >> 20)),
                SinkFiles::Rrd(_) => panic!("{sinks:?}"),
            }
        };
        assert_eq!(limits(""), Ok((64, 1_024)));
        assert_eq!(limits("size = \"100MiB\"\n"), Ok((25, 100)));
        assert_eq!(limits("rotate = \"8MiB\"\nsize = \"16MiB\"\n"), Ok((8, 16)));
        for (text, part) in [
            ("size = \"1MiB\"\n", "two files of 1MiB (rotate) are larger than this"),
            ("rotate = \"1KiB\"\n", "a file has at least 1 MiB"),
            ("rotate = \"often\"\n", "sinks.hot.rotate"),
            ("layout = [\"1\", \"LAST:0.5:1:60\"]\n", "it belongs to a sink with 'rrd'"),
            ("rrd = \"/srv/rrd\"\n", "either 'rrd' or 'record'"),
        ] {
            let error: String = limits(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_sink_says_where() {
        for (text, problem) in [
            ("[sinks.hot]\n", "sinks.hot.rrd (from /etc/khz/khz.toml:1): it is missing"),
            (
                "[sinks.hot]\nrdr = \"/a\"\n",
                "k.toml:2: no setting is called 'sinks.hot.rdr' (did you mean 'rrd'?)",
            ),
            ("[sinks.hot]\nrrd = []\n", "k.toml:2: sinks.hot.rrd takes text in quotes"),
            ("[sinks]\nhot = 1\n", "k.toml:2: sinks.hot takes a table: [sinks.hot]"),
            (
                "[sinks.\"a b\"]\nrrd = \"/a\"\n",
                "k.toml:1: sinks.a b takes a name of a small letter, then small letters, digits and '_', as hot",
            ),
            ("[sinks.hot]\nrecord = 3\n", "k.toml:2: sinks.hot.record takes text in quotes"),
            ("[sinks.a]\nrrd = \"/x\"\n[sinks.b]\nrrd = \"/x\"\n", "sinks.b.rrd"),
            ("[sinks.a]\nrrd = \"/x\"\nlayout = \"1\"\n", "sinks.a.layout"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
