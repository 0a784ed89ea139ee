//! What a command asked for and nobody has: sentences on stderr, each with the name that was probably meant, and exit code
//! 3 where something else was found.

use std::sync::Arc;

use khz_model::{Columns, Known, Metric, Miss, Misses, NodeName, Pattern, Series};

use crate::show::outcome::{Done, Outcome};

/// Prints them on stderr.
pub fn print(misses: &Misses) {
    for sentence in misses.sentences() {
        crate::show::table::remark!("{}", &sentence);
    }
}

/// The outcome of a command that found everything but these.
pub fn partly(misses: &Misses, outcome: Outcome) -> Outcome {
    match outcome {
        Ok(Done::Wholly) if !misses.is_empty() => Ok(Done::Partly { missing: Vec::new() }),
        outcome => outcome,
    }
}

/// Nodes whose series are all known: those of a recording or of rings.
#[derive(Debug, Default)]
pub struct Listed {
    nodes: Vec<(NodeName, Arc<Vec<Series>>)>,
}

impl Listed {
    /// These nodes. A node that comes several times has all its series.
    pub fn new<'a>(nodes: impl IntoIterator<Item = (&'a str, Vec<Series>)>) -> Self {
        let mut listed: Vec<(NodeName, Arc<Vec<Series>>)> = Vec::new();
        for (name, series) in nodes {
            let Ok(name) = NodeName::new(name) else { continue };
            match listed.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => Arc::make_mut(known).extend(series),
                None => listed.push((name, Arc::new(series))),
            }
        }
        listed.sort_by(|(a, _), (b, _)| a.cmp(b));
        Listed { nodes: listed }
    }

    /// The patterns that select nothing.
    pub fn misses(&self, patterns: &[Pattern]) -> Misses {
        let mut misses = Misses::of(self, patterns);
        for pattern in patterns {
            let asked = pattern.to_string();
            let alone = std::slice::from_ref(pattern);
            let mut chosen =
                self.nodes.iter().filter(|(node, _)| pattern.matches_node(node.as_str())).peekable();
            if chosen.peek().is_some()
                && !chosen.flat_map(|(_, series)| &**series).any(|series| series.is_selected(alone))
                && misses.patterns.iter().all(|miss| miss.asked != asked)
            {
                misses.patterns.push(Miss { asked, near: None });
            }
        }
        misses
    }

    /// True where none of the patterns selects anything.
    pub fn has_none(&self, patterns: &[Pattern]) -> bool {
        let selects = |pattern: &Pattern, node: &NodeName, series: &[Series]| {
            pattern.matches_node(node.as_str())
                && series.iter().any(|series| series.is_selected(std::slice::from_ref(pattern)))
        };
        !patterns.iter().any(|pattern| self.nodes.iter().any(|(node, series)| selects(pattern, node, series)))
    }
}

impl Known for Listed {
    fn nodes(&self) -> Vec<NodeName> {
        self.nodes.iter().map(|(node, _)| node.clone()).collect()
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        let mut metrics: Vec<Arc<Metric>> = Vec::new();
        let mut names = std::collections::HashSet::new();
        for series in self.nodes.iter().flat_map(|(_, series)| &**series) {
            if names.insert(series.metric.name.clone()) {
                metrics.push(series.metric.clone());
            }
        }
        metrics
    }

    fn series(&self, node: &NodeName) -> Option<Arc<dyn Columns>> {
        let (_, series) = self.nodes.iter().find(|(known, _)| known == node)?;
        Some(series.clone())
    }
}

/// The sentences with the place that was searched: `in this recording`.
pub fn sentences(misses: &Misses, place: &str) -> Vec<String> {
    let placed =
        |sentence: String| sentence.replacen("nothing matches", &format!("nothing {place} matches"), 1);
    misses.sentences().into_iter().map(placed).collect()
}
