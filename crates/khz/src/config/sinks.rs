//! The sinks of channels: the tables `[sinks.NAME]`. A channel names one (`to`), and never a path: where rows are written is the
//! operator's word.

use std::path::PathBuf;

use khz_rrdcached::recorder::Layout;

use super::values::{bad, file};
use super::{ConfigError, SinkValues, Value, rrd};

/// A sink: a directory of .rrd files.
#[derive(Clone, Debug)]
pub struct Sink {
    /// The name by which channels mean it.
    pub name: String,
    /// The directory.
    pub directory: PathBuf,
    /// Step and archives of the files.
    pub layout: Layout,
}

/// Checks all tables.
pub(super) fn sinks(tables: &[SinkValues]) -> Result<Vec<Sink>, ConfigError> {
    let mut all: Vec<Sink> = Vec::new();
    for table in tables {
        let sink = sink(table)?;
        if let Some(other) = all.iter().find(|other| other.directory == sink.directory) {
            let problem = format!("sink '{}' has this directory: each has its own", other.name);
            return Err(wrong(table, "rrd", problem));
        }
        all.push(sink);
    }
    Ok(all)
}

fn sink(table: &SinkValues) -> Result<Sink, ConfigError> {
    let value = |key: &str| table.keys.iter().find(|(known, _)| known == key).map(|(_, value)| &*value.text);
    let Some(directory) = value("rrd").and_then(file) else {
        return Err(wrong(table, "rrd", "it is missing: rrd = \"/var/lib/khz/rrd-hot\"".to_owned()));
    };
    let layout = rrd::layout(value("layout").unwrap_or_default());
    let layout = layout.map_err(|problem| wrong(table, "layout", problem))?;
    Ok(Sink { name: table.name.clone(), directory, layout })
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
            .map(|sink| (&*sink.name, sink.directory.to_str().unwrap(), sink.layout.step))
            .collect();
        assert_eq!(named, [("hot", "/srv/hot", 1), ("long", "/srv/long", 300)]);
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
            ("[sinks.\"a b\"]\nrrd = \"/a\"\n", "k.toml:1: no setting is called 'sinks.a b'"),
            ("[sinks.a]\nrrd = \"/x\"\n[sinks.b]\nrrd = \"/x\"\n", "sinks.b.rrd"),
            ("[sinks.a]\nrrd = \"/x\"\nlayout = \"1\"\n", "sinks.a.layout"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
