//! Channels that nodes execute and that stand in no list: those of the hub's rules, those of `khz wait` and of streams without a name,
//! and those that somebody has removed a moment ago. Nodes tell of them in their own numbers; this defines and follows nothing.

use std::collections::BTreeMap;

use khz_ask::{Answer, AskError, Channel, Server};
use khz_hub::RULES_PREFIX;
use khz_model::Pattern;
use serde_json::{Value, json};

use crate::show::outcome::Failure;

/// The numbers that a node has of each channel that it executes.
const ROWS_IN: &str = "khz.handler.rows_in";
const ROWS_OUT: &str = "khz.handler.rows_out";

/// The name of a channel that somebody follows without defining it.
const NAMELESS: &str = "adhoc";

/// A channel that nodes execute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    pub name: String,
    /// How many nodes.
    pub nodes: u64,
    /// Rows of readings that they have taken for it.
    pub rows_in: u64,
    /// Rows that they have sent.
    pub rows_out: u64,
}

impl Executed {
    /// Those at the nodes of this server that are not among its channels, in the order of their names.
    pub fn besides(channels: &[Channel], server: &Server) -> Result<Vec<Self>, Failure> {
        let patterns: Result<Vec<Pattern>, _> =
            [ROWS_IN, ROWS_OUT].iter().map(|metric| Pattern::new(&format!("{metric}[*]"))).collect();
        match server.query(&patterns.map_err(Failure::usage)?, None) {
            Ok(answer) => Ok(found(&answer, channels)),
            // No node executes any.
            Err(AskError::Refused(_)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Who has it executed.
    pub fn whose(&self) -> &'static str {
        match &*self.name {
            name if name.starts_with(RULES_PREFIX) => "the hub's rules",
            NAMELESS => "waits and streams",
            _ => "nobody here: removed, or another hub's",
        }
    }

    pub fn json(&self) -> Value {
        let Executed { name, nodes, rows_in, rows_out } = self;
        json!({ "name": name, "of": self.whose(), "executed_by": nodes, "rows_in": rows_in, "rows_out": rows_out })
    }
}

fn found(answer: &Answer, channels: &[Channel]) -> Vec<Executed> {
    let mut all: BTreeMap<&str, Executed> = BTreeMap::new();
    for series in answer.nodes.iter().flat_map(|node| &node.series) {
        let (Some(name), Some(value)) = (&series.instance, &series.value) else { continue };
        if channels.iter().any(|known| known.name == *name) {
            continue;
        }
        let one = all
            .entry(name.as_str())
            .or_insert_with(|| Executed { name: name.clone(), ..Executed::default() });
        let number = value.parse::<u64>().unwrap_or(0);
        match &*series.name {
            ROWS_IN => (one.nodes, one.rows_in) = (one.nodes + 1, one.rows_in.saturating_add(number)),
            _ => one.rows_out = one.rows_out.saturating_add(number),
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_ask::{NodeAnswer, SeriesAnswer};

    #[test]
    fn what_nodes_execute_besides_the_listed_channels_is_counted_by_name() {
        let series = |name: &str, channel: &str, value: Option<&str>| SeriesAnswer {
            name: name.to_owned(),
            instance: Some(channel.to_owned()),
            value: value.map(str::to_owned),
            ..SeriesAnswer::default()
        };
        let node = |name: &str, series| NodeAnswer { node: name.to_owned(), series };
        let both = |channel: &str, rows_in, rows_out| {
            [series(ROWS_IN, channel, Some(rows_in)), series(ROWS_OUT, channel, Some(rows_out))]
        };
        let rules = format!("{RULES_PREFIX}1");
        let gone = [series(ROWS_IN, "old", None), series(ROWS_OUT, "old", None)];
        let nodes = vec![
            node("n1", [both(&rules, "10", "2"), both("hot", "5", "5"), gone].concat()),
            node("n2", [both(&rules, "20", "0"), both("adhoc", "7", "1")].concat()),
        ];
        let hot = json!({"name": "hot", "maker": "reader", "readers": 0, "rows": 0, "lost": 0, "bytes": 0, "definition": {}});
        let listed: Channel = serde_json::from_value(hot).unwrap();
        let all = found(&Answer { nodes, ..Answer::default() }, &[listed]);
        let told: Vec<_> =
            all.iter().map(|one| (&*one.name, one.whose(), one.nodes, one.rows_in, one.rows_out)).collect();
        assert_eq!(
            told,
            [("adhoc", "waits and streams", 1, 7, 1), (&*rules, "the hub's rules", 2, 30, 2)],
            "a node that has ended a channel does not count"
        );
    }
}
