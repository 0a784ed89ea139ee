//! `khz catalog`: the metrics that exist, as a table or as JSON. An entry is the same JSON object whether it comes from a
//! running khz or from this program.

use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use clap::Args;
use std::io::Write;
use std::sync::Arc;

use khz_model::{Metric, Misses, NodeName, Pattern, RateUnit, ValueType};
use serde_json::{Value, json};

use crate::show::look::{ColorFlag, Look, Tone};
use crate::show::misses;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{Cell, Side, Table, json_line, printable, wrapped};

/// On a narrower terminal a table of seven columns has no room for the meaning of a metric.
const TABLE_WIDTH_MIN: usize = 120;

/// Narrower terminals have no room for an indent.
const INDENTED_MIN: usize = 20;

/// Examples for `khz catalog --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz catalog                       every metric
  khz catalog 'net.*' load.1m       those of the network, and one more
  khz catalog --json | jq .name     one object a line, for programs";

/// `khz catalog`.
#[derive(Debug, Args)]
pub struct CatalogFlags {
    /// Which metrics, with * and ?; none means all.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Colours.
    #[command(flatten)]
    pub color: ColorFlag,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Asks for the catalogue and prints it.
pub fn run(flags: CatalogFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let patterns = super::patterns(&flags.patterns)?;
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let entries = flags.target.catalogue(&plan)?;
    let has_hosts = patterns.iter().any(|pattern| pattern.nodes().is_some());
    let nodes = if has_hosts { flags.target.known_nodes(&plan)? } else { Vec::new() };
    print(&entries, &patterns, &nodes, flags.json, &Look::of_stdout(flags.color.color), out)
}

/// The entries of the metrics that this program knows.
pub fn own(metrics: &[Arc<Metric>]) -> Vec<Value> {
    metrics.iter().map(|metric| object(metric)).collect()
}

/// Prints the entries that any of the patterns selects; without patterns, all. `nodes` are those that are known, in name order.
pub fn print(
    entries: &[Value],
    patterns: &[Pattern],
    nodes: &[NodeName],
    as_json: bool,
    look: &Look,
    out: &mut impl Write,
) -> Outcome {
    // The catalogue is that of all nodes, but of a node that nobody knows it says nothing.
    let is_known = |pattern: &&Pattern| {
        pattern.nodes().is_none() || nodes.iter().any(|node| pattern.matches_node(node.as_str()))
    };
    let known: Vec<&Pattern> = patterns.iter().filter(is_known).collect();
    let selected =
        |entry: &Value| patterns.is_empty() || known.iter().any(|p| p.matches_metric(text(entry, "name")));
    let names: Vec<&str> = entries.iter().map(|entry| text(entry, "name")).collect();
    let mut misses = Misses::of_metric_names(&names, patterns);
    unknown_nodes(patterns, nodes, &mut misses);
    let entries: Vec<&Value> = entries.iter().filter(|entry| selected(entry)).collect();
    if entries.is_empty() {
        let sentences = misses.sentences().join("; ");
        let hint = if misses.patterns.is_empty() { "" } else { "; `khz catalog` alone lists every metric" };
        return Err(Failure::work(format!("{sentences}{hint}")));
    }
    misses::print(&misses);
    if as_json {
        for entry in entries {
            writeln!(out, "{}", json_line(entry))?;
        }
    } else {
        match look.width.filter(|&width| width < TABLE_WIDTH_MIN) {
            None => out.write_all(table(&entries).draw(look).as_bytes())?,
            Some(width) => entries.iter().try_for_each(|entry| paragraph(entry, width, look, out))?,
        }
    }
    out.flush()?;
    misses::partly(&misses, Ok(Done::Wholly))
}

/// Adds the hosts of the patterns that nobody knows, each once.
fn unknown_nodes(patterns: &[Pattern], nodes: &[NodeName], misses: &mut Misses) {
    for hosts in patterns.iter().filter_map(Pattern::nodes) {
        let unknown = Misses::of_nodes(hosts, nodes);
        misses.more += unknown.more;
        for miss in unknown.nodes {
            if !misses.nodes.contains(&miss) {
                misses.nodes.push(miss);
            }
        }
    }
}

/// A text field of an entry; empty where the entry does not have it.
fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry[field].as_str().unwrap_or_default()
}

fn table(entries: &[&Value]) -> Table {
    let titles = [
        ("METRIC", Side::Left),
        ("KIND", Side::Left),
        ("TYPE", Side::Left),
        ("UNIT", Side::Left),
        ("AS A RATE", Side::Left),
        ("UPDATED", Side::Left),
        ("MEANING", Side::Left),
    ];
    let mut table = Table::wrapping(&titles);
    for entry in entries {
        let (kind, unit) = kind(entry);
        let words = [kind, value_type(entry), unit]
            .into_iter()
            .chain(["rate_unit", "refresh"].map(|field| text(entry, field)));
        let words = words.map(|word| Cell::new(word, Tone::Faint));
        let help = text(entry, "help").to_owned();
        table.row(std::iter::once(name(entry).into()).chain(words).chain([help.into()]));
    }
    table
}

/// An entry on a narrow terminal: name, kind and meaning, each on lines of its own.
fn paragraph(entry: &Value, width: usize, look: &Look, out: &mut impl Write) -> std::io::Result<()> {
    let indent = if width < INDENTED_MIN { "" } else { "    " };
    let kind = match kind(entry) {
        (kind, "") => format!("{kind}, {}", value_type(entry)),
        (kind, unit) => format!("{kind}, {}, {unit}", value_type(entry)),
    };
    let kind = format!("{kind}, updated: {}", text(entry, "refresh"));
    let kind = match text(entry, "rate_unit") {
        "" => kind,
        rate => format!("{kind}, as a rate: {rate}"),
    };
    for line in wrapped(&printable(&name(entry)), width) {
        writeln!(out, "{}", look.painted(&line, Tone::Title))?;
    }
    for (text, tone) in [(kind.as_str(), Tone::Faint), (text(entry, "help"), Tone::Plain)] {
        for line in wrapped(&printable(text), width - indent.len()) {
            writeln!(out, "{indent}{}", look.painted(&line, tone))?;
        }
    }
    Ok(())
}

/// What the values are. Older doors leave it out where they are unsigned.
fn value_type(entry: &Value) -> &str {
    entry["type"].as_str().unwrap_or(ValueType::Unsigned.as_str())
}

/// Counter or gauge, and the unit. Labels are neither, and have none.
fn kind(entry: &Value) -> (&str, &str) {
    match value_type(entry) {
        "labels" => ("info", ""),
        _ => (text(entry, "kind"), text(entry, "unit")),
    }
}

/// The name, with what its instances are: `cpu.user[cpu]`.
fn name(entry: &Value) -> String {
    match (text(entry, "name"), text(entry, "instances")) {
        (name, "") => name.to_owned(),
        (name, instances) => format!("{name}[{instances}]"),
    }
}

fn object(metric: &Metric) -> Value {
    let labels: serde_json::Map<String, Value> =
        metric.exposition.labels.iter().map(|(label, value)| (label.to_string(), json!(value))).collect();
    let mut object = json!({
        "name": metric.name,
        "kind": metric.kind.as_str(),
        "unit": metric.unit.as_str(),
        "rate_unit": RateUnit::of_metric(metric).map(|rate| rate.name()),
        "type": metric.value_type.as_str(),
        "places": metric.places,
        "max": metric.max.map(|max| max.to_string()),
        "refresh": metric.refresh.to_string(),
        "help": metric.help,
        "file": metric.origin.file,
        "field": metric.origin.field,
        "instances": metric.instances,
        "flat": metric.flat,
        "exposition": {
            "name": metric.exposition.name,
            "labels": labels,
            "instance_label": metric.exposition.instance_label,
            "divisor": metric.exposition.divisor,
            "untyped": metric.exposition.untyped,
        },
    });
    // As at the door: there where values are not whole numbers or decimals from 0 on.
    if metric.value_type != ValueType::Unsigned {
        object["type"] = json!(metric.value_type.as_str());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Exposition, Kind, Nanos, Origin, Refresh, Unit};

    fn metrics() -> Vec<Arc<Metric>> {
        let metric = |name: &'static str, kind, unit, refresh, instances: Option<&'static str>| {
            Arc::new(Metric {
                name: name.into(),
                kind,
                unit,
                value_type: khz_model::ValueType::Unsigned,
                labels_from: None,
                places: 0,
                max: None,
                refresh,
                help: format!("What {name} is").into(),
                origin: Origin { file: "/proc/x".into(), field: "X".into() },
                instances: instances.map(Into::into),
                exposition: Exposition {
                    help: None,
                    name: "node_x".into(),
                    labels: vec![("mode".into(), "user".into())].into(),
                    instance_label: instances.map(Into::into),
                    divisor: 1,
                    untyped: false,
                },
                flat: "x".into(),
            })
        };
        vec![
            metric("mem.free", Kind::Gauge, Unit::Bytes, Refresh::Event, None),
            metric(
                "cpu.user",
                Kind::Counter,
                Unit::Seconds,
                Refresh::Every(Nanos::from_millis(10)),
                Some("cpu"),
            ),
        ]
    }

    fn printed(patterns: &[&str], as_json: bool) -> Result<String, String> {
        let patterns: Vec<Pattern> = patterns.iter().map(|p| Pattern::new(p).unwrap()).collect();
        let mut out = Vec::new();
        let nodes = ["n1", "n2"].map(|name| NodeName::new(name).unwrap());
        print(&own(&metrics()), &patterns, &nodes, as_json, &Look::plain(None), &mut out)
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_table_tells_what_there_is() {
        assert_eq!(
            printed(&[], false).unwrap(),
            "METRIC         KIND     TYPE      UNIT     AS A RATE  UPDATED  MEANING\n\
             mem.free       gauge    unsigned  bytes               at once  What mem.free is\n\
             cpu.user[cpu]  counter  unsigned  seconds  CPUs       10ms     What cpu.user is\n"
        );
        assert_eq!(printed(&["cpu.*"], false).unwrap().lines().count(), 2);
    }

    #[test]
    fn on_a_narrow_terminal_each_metric_is_a_paragraph_that_says_what_it_means() {
        let entries = own(&metrics());
        let mut out = Vec::new();
        print(&entries, &[], &[], false, &Look::plain(Some(40)), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("\n    What mem.free is\n"), "{text}");
        assert!(!text.contains('…'), "{text}");
    }

    #[test]
    fn each_type_is_named_and_an_older_door_means_unsigned() {
        let typed = |value_type| Arc::new(Metric { value_type, ..Metric::clone(&metrics()[0]) });
        let types = [ValueType::Signed, ValueType::Float, ValueType::Labels, ValueType::Unknown];
        let mut entries = own(&types.map(typed));
        entries.push(json!({ "name": "mem.free" }));
        let mut out = Vec::new();
        print(&entries, &[], &[], false, &Look::plain(None), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for (line, expected) in text.lines().skip(1).zip(["signed", "float", "labels", "unknown", "unsigned"])
        {
            assert!(line.split_whitespace().any(|word| word == expected), "{expected}: {text}");
        }
        let mut out = Vec::new();
        print(&entries[..1], &[], &[], false, &Look::plain(Some(40)), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("    gauge, signed, bytes, updated:"));
    }

    #[test]
    fn nodes_that_nobody_knows_are_named() {
        let partly = || Ok(Done::Partly { missing: Vec::new() });
        for (patterns, expected, shown) in [
            (&["n9:mem.free"][..], Err("no node is called n9 (there are n[1-2])"), &[][..]),
            (&["N1:mem.free"], Err("no node is called N1 (did you mean n1?)"), &[]),
            (&["n[1,8-9]:mem.free", "n9:cpu.*"], partly(), &["mem.free"]),
            (&["n[1-2]:mem.free", "n*:cpu.*"], Ok(Done::Wholly), &["cpu.user", "mem.free"]),
        ] {
            let asked: Vec<Pattern> = patterns.iter().map(|p| Pattern::new(p).unwrap()).collect();
            let nodes = ["n1", "n2"].map(|name| NodeName::new(name).unwrap());
            let mut out = Vec::new();
            let outcome = print(&own(&metrics()), &asked, &nodes, false, &Look::plain(None), &mut out);
            assert_eq!(outcome.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
            let text = String::from_utf8(out).unwrap();
            for metric in ["cpu.user", "mem.free"] {
                assert_eq!(text.contains(metric), shown.contains(&metric), "{patterns:?}: {text}");
            }
        }
    }

    #[test]
    fn what_matches_nothing_is_an_error_not_an_empty_table() {
        assert_eq!(
            printed(&["zebra"], false).unwrap_err(),
            "nothing matches zebra; `khz catalog` alone lists every metric"
        );
    }

    #[test]
    fn json_holds_the_whole_entry() {
        assert_eq!(
            printed(&["cpu.user"], true).unwrap(),
            concat!(
                r#"{"name":"cpu.user","kind":"counter","unit":"seconds","rate_unit":"CPUs","type":"unsigned","places":0,"max":null,"refresh":"10ms","#,
                r#""help":"What cpu.user is","file":"/proc/x","field":"X","instances":"cpu","flat":"x","#,
                r#""exposition":{"name":"node_x","labels":{"mode":"user"},"instance_label":"cpu","divisor":1,"untyped":false}}"#,
                "\n"
            )
        );
    }
}
