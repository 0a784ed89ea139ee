//! `khz channel list` and `khz channel show`: what channels there are, and what one is and costs.

use std::io::Write;

use clap::Args;
use khz_ask::{Channel, ChannelCost, LeftOut, NodeCost};
use khz_model::Rate;
use khz_model::fold::fold;
use khz_program::ProgramHash;
use serde_json::{Value, json};

use super::others::Executed;
use super::whom::Whom;
use crate::config::NodeFlags;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::{of_bytes, of_count, of_span};
use crate::show::table::{Side, Table, json_line, printable, remark};
use crate::show::terminal;

/// Examples for `khz channel list --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz channel list                  every channel, and how many read it
  khz channel list --all            also those of rules and of `khz wait`
  khz channel list --json           one object a line, with the definition";

/// Examples for `khz channel show --help`.
pub const SHOW_EXAMPLES: &str = "\
Examples:
  khz channel show hot              its definition, rows sent, and refusals
  khz channel show hot --json

'sent' counts what the door that you ask has sent since its start. 'executed'
and 'cost' come from the nodes: from the moment at which each node began with
the channel, up to a second ago. The cost does not include gathering. Nodes
execute a channel only while somebody follows it.";

/// Flags of `khz channel list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Also what nodes execute besides these: for the hub's rules, and for those who wait or follow an expression.
    #[arg(long)]
    pub all: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
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
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
}

/// Lists the channels.
pub fn list(flags: ListFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.whom.settings.over(outer))?;
    let server = flags.whom.target.running(&plan)?;
    let answer = server.channels()?;
    let others = if flags.all { Executed::besides(&answer.channels, &server)? } else { Vec::new() };
    if flags.json {
        for channel in
            answer.channels.iter().map(|channel| json!(channel)).chain(others.iter().map(Executed::json))
        {
            writeln!(out, "{}", json_line(&channel))?;
        }
    } else {
        write!(out, "{}", table(&answer.channels, &others).render(terminal::width()))?;
    }
    out.flush()?;
    if !answer.kept && !answer.channels.is_empty() {
        remark!("this khz does not keep its channels: they end with it");
    }
    Ok(Done::Wholly)
}

/// Shows one channel.
pub fn show(flags: ShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.whom.settings.over(outer))?;
    let channel = flags.whom.target.running(&plan)?.channel(&flags.name)?;
    match flags.json {
        true => writeln!(out, "{}", json_line(&json!(channel)))?,
        false => write!(out, "{}", lines(&channel))?,
    }
    out.flush().map_err(Failure::from)?;
    Ok(Done::Wholly)
}

/// `others` are executed, and nobody has defined them.
fn table(channels: &[Channel], others: &[Executed]) -> Table {
    let titles = [
        ("CHANNEL", Side::Left),
        ("BY", Side::Left),
        ("RATE", Side::Right),
        ("READERS", Side::Right),
        ("ROWS SENT", Side::Right),
        ("NODES", Side::Left),
        ("ROWS HAVE", Side::Left),
    ];
    let mut table = Table::new(&titles, 6).yielding(0);
    for channel in channels {
        let text = |field: &str| word(channel.definition.get(field));
        table.row([
            channel.name.clone(),
            channel.maker.clone(),
            text("rate").unwrap_or_else(|| "1Hz".to_owned()),
            channel.readers.to_string(),
            of_count(channel.rows),
            text("nodes").unwrap_or_else(|| "all".to_owned()),
            content(&text),
        ]);
    }
    for one in others {
        let none = || "-".to_owned();
        let executed =
            if one.nodes == 1 { "1 executes it".to_owned() } else { format!("{} execute it", one.nodes) };
        let (rows, whose) = (of_count(one.rows_out), one.whose().to_owned());
        table.row([one.name.clone(), none(), none(), none(), rows, executed, whose]);
    }
    table
}

/// What the rows of a channel have: an expression, series, or a function of each of them.
fn content(text: &impl Fn(&str) -> Option<String>) -> String {
    let series = || text("series").unwrap_or_default();
    if let Some(program) = text("program") {
        return format!("program {} of {}", shortened(&program), series());
    }
    match (text("expr"), text("each")) {
        (Some(expr), _) => expr,
        (None, Some(each)) => format!("{each} of {}", series()),
        (None, None) => series(),
    }
}

/// The name of a program: its hash.
pub fn hash_of(program: &str) -> Option<ProgramHash> {
    Some(ProgramHash::of(&khz_channel::program_module(program).ok()?))
}

/// The first digits of that.
fn shortened(program: &str) -> String {
    hash_of(program).map_or_else(|| "?".to_owned(), |hash| hash.to_string()[..12].to_owned())
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
        vec![("channel", format!("{}, by {} {}", channel.name, article(&channel.maker), channel.maker))];
    let members = channel.definition.as_object().into_iter().flatten();
    let members = members.filter(|(field, _)| *field != "name");
    let member = |field: &str, value| match field {
        "program" => Some(hash_of(&word(Some(value))?)?.to_string()),
        _ => word(Some(value)),
    };
    pairs.extend(members.filter_map(|(field, value)| Some((field.as_str(), member(field, value)?))));
    pairs.push(("readers", channel.readers.to_string()));
    let sent = format!("{} rows, {}", of_count(channel.rows), of_bytes(channel.bytes as f64, ""));
    pairs.push((
        "sent",
        match channel.lost {
            0 => sent,
            lost => format!("{sent}; readers have missed {}", of_count(lost)),
        },
    ));
    if let Some(cost) = &channel.cost {
        pairs.push(("executed", executed(cost)));
        pairs.extend(share(channel, cost).map(|share| ("cost", share)));
        pairs.extend(cost.left_out.as_ref().map(|left_out| ("lacks", lacks(left_out))));
    }
    pairs.extend(
        channel.notices.iter().map(|notice| ("notice", format!("{}: {}", fold(&notice.nodes), notice.text))),
    );
    pairs.iter().map(|(field, value)| format!("{field:<10}{}\n", printable(value))).collect()
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// What the nodes have done.
fn executed(cost: &ChannelCost) -> String {
    let NodeCost { rows_in, rows_out, bytes_out, .. } = &cost.all;
    match cost.nodes {
        0 => "by no node now".to_owned(),
        nodes => format!(
            "by {} {}: {} rows in, {} out, {}",
            of_count(nodes),
            if nodes == 1 { "node" } else { "nodes" },
            of_count(*rows_in),
            of_count(*rows_out),
            of_bytes(*bytes_out as f64, "")
        ),
    }
}

/// What the node leaves out that leaves out the most.
fn lacks(LeftOut { node, series }: &LeftOut) -> String {
    let series = of_count(*series);
    format!(
        "{series} series at {node}: its windows, or those of all channels there, hold as much memory as they may; take shorter windows, fewer series, or a lower rate"
    )
}

/// The share of a core that its handler takes at its rate; `None` before the first row.
fn share(channel: &Channel, cost: &ChannelCost) -> Option<String> {
    let rate = word(channel.definition.get("rate")).unwrap_or_else(|| "1Hz".to_owned());
    let period = rate.parse::<Rate>().ok()?.period().0 as f64;
    let percent = |cost: &NodeCost| cost.row_ns().map(|row| 100.0 * row / period);
    let of_row = cost.all.row_ns()?;
    let mut text =
        format!("{} of a core for {rate} ({} a row)", of_percent(percent(&cost.all)?), of_span(of_row / 1e9));
    if let Some(dearest) = cost.dearest.as_ref().filter(|_| cost.nodes > 1) {
        text += &format!("; most at {}: {}", dearest.node, of_percent(percent(&dearest.cost)?));
    }
    Some(text)
}

/// A share of a core, which may be very small.
fn of_percent(percent: f64) -> String {
    match percent {
        small if small < 0.000_1 => "less than 0.0001 %".to_owned(),
        small if small < 0.1 => format!("{small:.4} %"),
        large => format!("{large:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_ask::{ChannelNotice, DearestNode};

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
            cost: None,
        }
    }

    #[test]
    fn what_a_channel_costs_the_nodes_is_a_share_of_a_core() {
        let cost = |rows_in, time_ns| NodeCost { rows_in, rows_out: 7, bytes_out: 90, time_ns };
        let dearest = DearestNode { node: "n2".into(), cost: cost(10, 20_000) };
        let of_two =
            ChannelCost { nodes: 2, all: cost(1_000, 500_000), dearest: Some(dearest), left_out: None };
        let shown =
            |cost| lines(&Channel { cost: Some(cost), definition: json!({"rate": "100Hz"}), ..channel() });
        let text = shown(of_two.clone());
        assert!(text.contains("executed  by 2 nodes: 1000 rows in, 7 out, 90 B\n"), "{text}");
        assert!(
            text.contains("cost      0.0050 % of a core for 100Hz (500ns a row); most at n2: 0.0200 %\n"),
            "{text}"
        );
        let text = shown(ChannelCost { nodes: 1, ..of_two });
        assert!(text.contains("for 100Hz (500ns a row)\n"), "{text}");
        let text = shown(ChannelCost::default());
        assert!(text.contains("executed  by no node now\n") && !text.contains("cost "), "{text}");
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
    fn the_list_says_what_rows_have() {
        let rows_have = |definition: Value| content(&|field| word(definition.get(field)));
        assert_eq!(rows_have(json!({"series": ["mem.*", "load.1m"]})), "mem.* load.1m");
        assert_eq!(rows_have(json!({"series": ["mem.free"], "each": "mean 1s"})), "mean 1s of mem.free");
        assert_eq!(rows_have(json!({"expr": "node_load1 > 4"})), "node_load1 > 4");
    }

    #[test]
    fn the_list_fits_a_terminal() {
        let long = "sum by (device) (rate({\"net.rx_bytes\"}[5s])) > 100000000 and on() node_load1 > 4";
        let definition = json!({"name": "net", "expr": long, "rate": "100Hz"});
        let rules = Executed { name: "khz_rules_1".into(), nodes: 3, rows_in: 9, rows_out: 1_200 };
        let text = table(&[channel(), Channel { name: "net".into(), definition, ..channel() }], &[rules])
            .render(Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(lines[1].starts_with("hot          reader    1Hz        2"), "{text}");
        assert!(lines[2].contains("100Hz") && lines[2].contains("all"), "{text}");
        assert!(lines[3].starts_with("khz_rules_1  -") && lines[3].contains("3 execute it"), "{text}");
        // A long name leaves room for what the others say.
        let long = Channel { name: "n".repeat(64), ..channel() };
        let text = table(&[long], &[]).render(Some(80));
        let line = text.lines().nth(1).unwrap_or_default();
        assert!(line.chars().count() <= 80, "{text}");
        assert!(
            line.contains("n…n")
                && line.contains("n  reader")
                && line.contains("12.3k")
                && line.contains("mem.*"),
            "{text}"
        );
    }
}
