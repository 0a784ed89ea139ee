//! The latest readings of some nodes, from the door's JSON or from a gatherer in this process.

use khz_model::{Instance, Labels, Miss, Misses, Pattern, Snapshot, Value};
use serde::Deserialize;

use crate::labels::{self, LabelsAnswer};
use crate::{Cell, MissesAnswer, PastPart};

/// The latest readings of some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Answer {
    /// The nodes that answered.
    pub nodes: Vec<NodeAnswer>,
    /// Nodes that a pattern names and that did not answer.
    #[serde(default)]
    pub missing: Vec<String>,
    /// What nobody has; `None`: an older door, which says only which nodes are missing.
    #[serde(default, rename = "misses")]
    pub reported: Option<MissesAnswer>,
    /// More patterns that nothing in this answer matches.
    #[serde(skip)]
    pub unmatched: Vec<String>,
}

/// The latest readings of one node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NodeAnswer {
    /// Its name.
    pub node: String,
    /// Its series, in slot order.
    pub series: Vec<SeriesAnswer>,
}

/// One series and its latest reading: exactly one of `value`, `info`, `absent` and `failed` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SeriesAnswer {
    /// The metric.
    pub name: String,
    /// The instance, unescaped and without its labels.
    pub instance: Option<String>,
    /// The labels of the instance.
    #[serde(default)]
    pub labels: LabelsAnswer,
    /// "counter" or "gauge".
    #[serde(default)]
    pub kind: String,
    /// The unit's name.
    #[serde(default)]
    pub unit: String,
    /// Seconds since 1970 with nine places.
    #[serde(default)]
    pub stamp: String,
    /// The exact decimal, or a double.
    pub value: Option<String>,
    /// Labels that are the reading.
    #[serde(default)]
    pub info: Option<LabelsAnswer>,
    /// Why there is nothing to read.
    pub absent: Option<String>,
    /// What went wrong.
    pub failed: Option<String>,
}

/// The state of a series, borrowed from its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// The value: an exact decimal, or a double.
    Present(&'a str),
    /// Labels that are the reading.
    Info(&'a Labels),
    /// Why there is nothing to read.
    Absent(&'a str),
    /// What went wrong.
    Failed(&'a str),
}

impl SeriesAnswer {
    /// The state; an answer without any reading counts as failed, never as a value.
    pub fn state(&self) -> State<'_> {
        match (&self.value, &self.info, &self.absent, &self.failed) {
            (Some(value), None, None, None) => State::Present(value),
            (None, Some(labels), None, None) => State::Info(&labels.0),
            (None, None, Some(why), None) => State::Absent(why),
            (None, None, None, Some(fault)) => State::Failed(fault),
            _ => State::Failed("the answer holds no single reading"),
        }
    }

    /// `net.rx_bytes[eth0]`.
    pub fn series(&self) -> String {
        series_name(&self.name, self.whole_instance().as_ref())
    }

    /// The instance with its labels.
    fn whole_instance(&self) -> Option<Instance> {
        labels::instance(self.instance.as_deref(), &self.labels)
    }

    fn is_selected(&self, pattern: &Pattern) -> bool {
        pattern.matches_series(&self.name, self.whole_instance().as_ref())
    }
}

/// `net.rx_bytes[eth0]` from its parts, the instance escaped.
pub fn series_name(metric: &str, instance: Option<&Instance>) -> String {
    match instance {
        Some(instance) => format!("{metric}[{instance}]"),
        None => metric.to_owned(),
    }
}

impl Answer {
    /// What this process gathered itself.
    pub fn from_snapshot(snapshot: Snapshot) -> Self {
        let nodes = snapshot.nodes.into_iter().map(|(node, samples)| NodeAnswer {
            node: node.to_string(),
            series: samples.iter().map(series_answer).collect(),
        });
        Answer { nodes: nodes.collect(), missing: snapshot.missing, ..Answer::default() }
    }

    /// The newest readings of the past. Nodes and series stay in their order.
    pub fn of_past(parts: Vec<PastPart>) -> Self {
        let mut nodes: Vec<NodeAnswer> = Vec::new();
        for part in parts {
            let Some(answer) = past_answer(&part) else { continue };
            match nodes.last_mut() {
                Some(last) if last.node == part.node => last.series.push(answer),
                _ => nodes.push(NodeAnswer { node: part.node, series: vec![answer] }),
            }
        }
        Answer { nodes, ..Answer::default() }
    }

    /// Everything that was asked for and that nobody has.
    pub fn misses(&self) -> Misses {
        let mut misses = self.reported.clone().map(Misses::from).unwrap_or_default();
        // The door compares patterns with the last row it has; a reading in this answer may be newer.
        misses.patterns.retain(|miss| Pattern::new(&miss.asked).is_ok_and(|pattern| !self.has(&pattern)));
        let unmatched = self.unmatched.iter().map(|asked| Miss { asked: asked.clone(), near: None });
        misses.patterns.extend(unmatched);
        misses
    }

    fn has(&self, pattern: &Pattern) -> bool {
        let nodes = self.nodes.iter().filter(|node| pattern.matches_node(&node.node));
        nodes.flat_map(|node| &node.series).any(|series| series.is_selected(pattern))
    }

    /// Adds the patterns that select nothing of the nodes that answered, and that the door has not reported.
    pub fn add_unmatched(&mut self, patterns: &[Pattern]) {
        let reported = self.misses();
        for pattern in patterns {
            let name = pattern.to_string();
            let mut answering = self.nodes.iter().filter(|n| pattern.matches_node(&n.node)).peekable();
            let selects = |series: &SeriesAnswer| series.is_selected(pattern);
            if answering.peek().is_some()
                && !answering.flat_map(|node| &node.series).any(selects)
                && reported.patterns.iter().all(|miss| miss.asked != name)
                && !self.unmatched.contains(&name)
            {
                self.unmatched.push(name);
            }
        }
    }

    /// Leaves out the nodes of which there is nothing, and which are there only because of patterns that select nothing of any node.
    pub fn leave_out_misses(&mut self, patterns: &[Pattern]) {
        let misses = self.misses().patterns;
        let is_miss = |pattern: &Pattern| misses.iter().any(|miss| miss.asked == pattern.to_string());
        let hits: Vec<&Pattern> = patterns.iter().filter(|pattern| !is_miss(pattern)).collect();
        let is_wanted = |node: &NodeAnswer| hits.iter().any(|pattern| pattern.matches_node(&node.node));
        if hits.len() < patterns.len() {
            self.nodes.retain(|node| !node.series.is_empty() || is_wanted(node));
        }
    }

    /// For an older door, which does not report unknown nodes: adds to the missing ones the nodes that the patterns
    /// name one by one and that did not answer.
    pub fn add_missing(&mut self, patterns: &[Pattern]) {
        if self.reported.is_some() {
            return;
        }
        for name in khz_model::pattern::named_nodes(patterns) {
            if self.nodes.iter().all(|n| n.node != name) && !self.missing.contains(&name) {
                self.missing.push(name);
            }
        }
    }
}

fn past_answer(part: &PastPart) -> Option<SeriesAnswer> {
    let newest = part.rows.last()?;
    let instance = part.instance.as_ref();
    let mut answer = SeriesAnswer {
        name: part.name.clone(),
        instance: instance.and_then(Instance::primary).map(str::to_owned),
        labels: instance.map_or_else(LabelsAnswer::default, |instance| LabelsAnswer(instance.only_labels())),
        kind: part.kind.clone(),
        unit: part.unit.clone(),
        stamp: newest.time.seconds_text(),
        ..SeriesAnswer::default()
    };
    match &newest.cell {
        Cell::Info(labels) => answer.info = Some(LabelsAnswer(labels.clone())),
        Cell::Absent(why) => answer.absent = Some(why.clone()),
        Cell::Failed(fault) => answer.failed = Some(fault.clone()),
        value => answer.value = value.text(),
    }
    Some(answer)
}

fn series_answer(sample: &khz_model::Sample) -> SeriesAnswer {
    let (metric, instance) = (&sample.series.metric, sample.series.instance.as_ref());
    let mut answer = SeriesAnswer {
        name: metric.name.to_string(),
        instance: instance.and_then(Instance::primary).map(str::to_owned),
        labels: instance.map_or_else(LabelsAnswer::default, |instance| LabelsAnswer(instance.only_labels())),
        kind: metric.kind.to_string(),
        unit: metric.unit.to_string(),
        stamp: sample.stamp.real_text(),
        ..SeriesAnswer::default()
    };
    match metric.format().value_or_why(sample.reading) {
        Ok(Value::Number(number)) => answer.value = Some(number.to_string()),
        Ok(Value::Labels(labels)) => answer.info = Some(LabelsAnswer(labels)),
        Err(fault) if fault.is_failure() => answer.failed = Some(fault.to_string()),
        Err(why) => answer.absent = Some(why.to_string()),
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_reading_is_failed_not_zero() {
        let nothing = SeriesAnswer::default();
        assert!(matches!(nothing.state(), State::Failed(_)));
        let both = SeriesAnswer {
            value: Some("1".to_owned()),
            absent: Some("gone".to_owned()),
            ..SeriesAnswer::default()
        };
        assert!(matches!(both.state(), State::Failed(_)));
    }

    #[test]
    fn nodes_that_only_a_misspelt_pattern_selects_are_left_out() {
        let load = SeriesAnswer { name: "load.1m".to_owned(), ..SeriesAnswer::default() };
        let nodes = || {
            let node = |name: &str, series| NodeAnswer { node: name.to_owned(), series };
            vec![node("n1", vec![load.clone()]), node("n2", Vec::new()), node("n3", Vec::new())]
        };
        for (patterns, expected) in [
            (&["n1:load.1m", "mem.fre"][..], &["n1"][..]),
            (&["n[1-2]:load.1m", "mem.fre"], &["n1", "n2"]),
            (&["load.1m"], &["n1", "n2", "n3"]),
        ] {
            let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::new(text).unwrap()).collect();
            let mut answer = Answer { nodes: nodes(), ..Answer::default() };
            answer.add_unmatched(&patterns);
            answer.leave_out_misses(&patterns);
            let left: Vec<&str> = answer.nodes.iter().map(|node| node.node.as_str()).collect();
            assert_eq!(left, expected, "{patterns:?}");
        }
    }

    #[test]
    fn nodes_named_one_by_one_are_missed() {
        let here = NodeAnswer { node: "n1".to_owned(), series: Vec::new() };
        let mut answer = Answer { nodes: vec![here], missing: vec!["n3".to_owned()], ..Answer::default() };
        answer.add_missing(&[Pattern::new("n[1-3]:mem.free").unwrap(), Pattern::new("x*:mem.free").unwrap()]);
        assert_eq!(answer.missing, ["n3", "n2"]);
        answer.add_unmatched(&[Pattern::new("n1:mem.free").unwrap(), Pattern::new("n9:mem.free").unwrap()]);
        assert_eq!(answer.unmatched, ["n1:mem.free"], "of n9 nothing is known");
    }
}
