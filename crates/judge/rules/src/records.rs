//! Warns of conflicts of recording rules with each other and with the series of nodes. It refuses nothing: Prometheus loads these
//! files.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use khz_model::exposed;

use crate::finding::{Findings, Severity};
use crate::rule::{Rule, RuleFile, RuleKind, RuleSet};

/// Series that khz writes about alerts and about nodes.
const OF_KHZ: [&str; 3] = ["ALERTS", "ALERTS_FOR_STATE", exposed::UP];

/// Names of a circle that a warning shows.
const SHOWN_MAX: usize = 8;

/// Warns of recording rules that depend on each other in a circle, and of those with the name of a series that khz writes.
pub fn warn(files: &[RuleFile], findings: &mut Findings) {
    for (path, rule) in records(files).filter(|(_, rule)| OF_KHZ.contains(&&*rule.name)) {
        let problem = format!("khz itself writes series of the name {}: record another name", rule.name);
        findings.add(Severity::Warning, path, Some(rule.place), problem);
    }
    for circle in Records::of(files).circles() {
        let (path, rule) = circle[0];
        findings.add(Severity::Warning, path, Some(rule.place), told(&circle));
    }
}

impl RuleSet {
    /// Adds a warning for each record that has the name of a metric that nodes gather, which `gathers` knows.
    pub fn warn_of_gathered(&mut self, gathers: &dyn Fn(&str) -> bool) {
        for (path, rule) in records(&self.files).filter(|(_, rule)| gathers(&rule.name)) {
            let problem = format!(
                "nodes gather {0}: where a recorded series has the labels of a node's own, that of the node counts, and the recorded one is \
                 lost. Record another name, as level:{0}:operation",
                rule.name
            );
            self.warnings.add(Severity::Warning, path, Some(rule.place), problem);
        }
    }
}

/// All recording rules, with their files.
fn records(files: &[RuleFile]) -> impl Iterator<Item = (&Path, &Rule)> {
    let groups = files.iter().flat_map(|file| file.groups.iter().map(move |group| (&*file.path, group)));
    let all = groups.flat_map(|(path, group)| group.rules.iter().map(move |rule| (path, rule)));
    all.filter(|(_, rule)| matches!(rule.kind, RuleKind::Record { .. }))
}

/// A circle in words.
fn told(circle: &[(&Path, &Rule)]) -> String {
    let name = &circle[0].1.name;
    if circle.len() == 1 {
        return format!("{name} needs itself: it sees its value of the evaluation before");
    }
    let mut shown: Vec<&str> = circle.iter().take(SHOWN_MAX).map(|(_, rule)| &*rule.name).collect();
    if circle.len() > SHOWN_MAX {
        shown.push("...");
    }
    shown.push(name);
    let way = shown.join(" needs ");
    format!(
        "these records need each other in a circle: {way}. One of them sees values of the evaluation before"
    )
}

/// Which recording rule uses which, by name.
struct Records<'a> {
    rules: Vec<(&'a Path, &'a Rule)>,
    needs: Vec<Vec<usize>>,
}

/// The progress of the search for circles at a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    /// The record is on the path from the start of the search to its current place.
    OnTheWay,
    Done,
}

impl<'a> Records<'a> {
    fn of(files: &'a [RuleFile]) -> Self {
        let rules: Vec<_> = records(files).collect();
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, (_, rule)) in rules.iter().enumerate() {
            by_name.entry(&rule.name).or_default().push(at);
        }
        // The first rule of a name stands for all of them. Otherwise a name with a thousand rules and a thousand users would give a
        // million pairs.
        let needs = |(_, rule): &(&Path, &Rule)| {
            let names = khz_promql::metric_names(&rule.expr).unwrap_or_default();
            names.iter().filter_map(|name| by_name.get(name.as_str())?.first().copied()).collect()
        };
        let needs = rules.iter().map(needs).collect();
        Records { rules, needs }
    }

    /// Finds circles, each from its record that the search met first. Each record starts one circle at most.
    fn circles(&self) -> Vec<Vec<(&'a Path, &'a Rule)>> {
        let mut seen = vec![Seen::Not; self.rules.len()];
        let mut begun = HashSet::new();
        let mut circles = Vec::new();
        for start in 0..self.rules.len() {
            // The path to the current place, with the next dependency to follow for each record on it. There is no recursion: a
            // chain may have as many records as a set.
            let mut way: Vec<(usize, usize)> = Vec::new();
            if seen[start] == Seen::Not {
                seen[start] = Seen::OnTheWay;
                way.push((start, 0));
            }
            while let Some((at, next)) = way.last_mut() {
                let Some(needed) = self.needs[*at].get(*next).copied() else {
                    seen[*at] = Seen::Done;
                    way.pop();
                    continue;
                };
                *next += 1;
                match seen[needed] {
                    Seen::Done => {}
                    Seen::Not => {
                        seen[needed] = Seen::OnTheWay;
                        way.push((needed, 0));
                    }
                    Seen::OnTheWay if begun.insert(needed) => {
                        let circle = way.iter().map(|(at, _)| *at).skip_while(|at| *at != needed);
                        circles.push(circle.map(|at| self.rules[at]).collect());
                    }
                    Seen::OnTheWay => {}
                }
            }
        }
        circles
    }
}
