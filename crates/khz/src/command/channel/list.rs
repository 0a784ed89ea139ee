//! `khz channel list` and `khz channel show`: what channels there are, and what one is and costs.

use std::io::Write;

use clap::Args;
use khz_ask::Channel;
use khz_model::fold::fold;
use serde_json::{Value, json};

use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::{of_bytes, of_count};
use crate::show::table::{Side, Table, json_line, printable, remark};
use crate::show::terminal;

/// Examples for `khz channel list --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz channel list                  every channel, and how many read it
  khz channel list --json           one object a line, with the definition";

/// Examples for `khz channel show --help`.
pub const SHOW_EXAMPLES: &str = "\
Examples:
  khz channel show hot              what it is, was sent, who refuses it
  khz channel show hot --json

Rows and bytes are what the door that is asked has sent since its start. Nodes
execute a channel only while somebody follows it.";

/// Flags of `khz channel list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Flags of `khz channel show`.
#[derive(Debug, Args)]
pub struct ShowFlags {
    /// Which channel.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// As a JSON object.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Lists the channels.
pub fn list(flags: ListFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let answer = flags.target.running(&plan)?.channels()?;
    if flags.json {
        for channel in &answer.channels {
            writeln!(out, "{}", json_line(&json!(channel)))?;
        }
    } else {
        write!(out, "{}", table(&answer.channels).render(terminal::width()))?;
    }
    out.flush()?;
    if !answer.kept && !answer.channels.is_empty() {
        remark!("this khz does not keep its channels: they end with it");
    }
    Ok(Done::Wholly)
}

/// Shows one channel.
pub fn show(flags: ShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let channel = flags.target.running(&plan)?.channel(&flags.name)?;
    match flags.json {
        true => writeln!(out, "{}", json_line(&json!(channel)))?,
        false => write!(out, "{}", lines(&channel))?,
    }
    out.flush().map_err(Failure::from)?;
    Ok(Done::Wholly)
}

fn table(channels: &[Channel]) -> Table {
    let titles = [
        ("CHANNEL", Side::Left),
        ("BY", Side::Left),
        ("RATE", Side::Right),
        ("READERS", Side::Right),
        ("ROWS SENT", Side::Right),
        ("NODES", Side::Left),
        ("ROWS HAVE", Side::Left),
    ];
    let mut table = Table::new(&titles, 6);
    for channel in channels {
        let text = |field: &str| word(channel.definition.get(field));
        let content = if channel.definition.get("expr").is_some() { text("expr") } else { text("series") };
        table.row([
            channel.name.clone(),
            channel.maker.clone(),
            text("rate").unwrap_or_else(|| "1Hz".to_owned()),
            channel.readers.to_string(),
            of_count(channel.rows),
            text("nodes").unwrap_or_else(|| "all".to_owned()),
            content.unwrap_or_default(),
        ]);
    }
    table
}

/// A member of a definition on one line.
fn word(value: Option<&Value>) -> Option<String> {
    Some(match value? {
        Value::String(text) => text.clone(),
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    })
}

/// The channel as lines: the definition first, then what was sent.
fn lines(channel: &Channel) -> String {
    let mut pairs: Vec<(&str, String)> =
        vec![("channel", format!("{}, by a {}", channel.name, channel.maker))];
    let members = channel.definition.as_object().into_iter().flatten();
    let members = members.filter(|(field, _)| *field != "name");
    pairs.extend(members.filter_map(|(field, value)| Some((field.as_str(), word(Some(value))?))));
    pairs.push(("readers", channel.readers.to_string()));
    let sent = format!("{} rows, {}", of_count(channel.rows), of_bytes(channel.bytes as f64, ""));
    pairs.push((
        "sent",
        match channel.lost {
            0 => sent,
            lost => format!("{sent}; readers have missed {}", of_count(lost)),
        },
    ));
    pairs.extend(
        channel.notices.iter().map(|notice| ("notice", format!("{}: {}", fold(&notice.nodes), notice.text))),
    );
    pairs.iter().map(|(field, value)| format!("{field:<10}{}\n", printable(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_ask::ChannelNotice;

    fn channel() -> Channel {
        Channel {
            name: "hot".into(),
            maker: "reader".into(),
            readers: 2,
            rows: 12_345,
            lost: 3,
            bytes: 2_048,
            definition: json!({"name": "hot", "nodes": "n[1-4]", "series": ["mem.*", "load.1m"], "once": true}),
            notices: vec![ChannelNotice {
                nodes: vec!["n1".into(), "n2".into()],
                text: "takes no\nhandlers".into(),
            }],
        }
    }

    #[test]
    fn a_channel_is_shown_with_its_definition_and_what_it_has_sent() {
        let expected = "\
channel   hot, by a reader
nodes     n[1-4]
series    mem.* load.1m
once      true
readers   2
sent      12.3k rows, 2.0 KiB; readers have missed 3
notice    n[1-2]: takes no?handlers
";
        assert_eq!(lines(&channel()), expected);
    }

    #[test]
    fn the_list_fits_a_terminal() {
        let long = "sum by (device) (rate({\"net.rx_bytes\"}[5s])) > 100000000 and on() node_load1 > 4";
        let definition = json!({"name": "net", "expr": long, "rate": "100Hz"});
        let text =
            table(&[channel(), Channel { name: "net".into(), definition, ..channel() }]).render(Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(lines[1].starts_with("hot      reader    1Hz        2"), "{text}");
        assert!(lines[2].contains("100Hz") && lines[2].contains("all"), "{text}");
    }
}
