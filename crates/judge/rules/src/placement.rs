//! Where an alerting rule can be judged: at each node, on its own rows, or only at the hub.

use khz_promql::{EachNode, ForEachNode};

use crate::alerts::NODE_LABEL;
use crate::finding::Place;
use crate::rule::{Group, Rule};

/// Where a rule is judged.
#[derive(Clone, Debug)]
pub enum Placement {
    /// At each node, on its own rows, by this plan.
    AtNodes(ForEachNode),
    /// At the hub only.
    AtHub(AtHub),
}

/// Why a rule is judged at the hub only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtHub {
    /// Where in the file.
    pub place: Place,
    /// Why.
    pub why: String,
}

/// Decides where a rule of this group is judged. `gathers` says whether nodes gather a metric of this name, which is
/// node_exporter's or khz's own.
pub fn place(group: &Group, rule: &Rule, gathers: &dyn Fn(&str) -> bool) -> Placement {
    let at_hub = |place: Place, why: &str| Placement::AtHub(AtHub { place, why: why.to_owned() });
    let Some(alerting) = rule.alerting() else {
        return at_hub(rule.place, "what it records belongs to the store, which is at the hub");
    };
    if alerting.labels.iter().any(|(name, _)| **name == *NODE_LABEL) {
        return at_hub(
            rule.place,
            "its labels have another instance than the node, by which the hub tells its alerts apart",
        );
    }
    if group.limit.is_some() {
        return at_hub(group.place, "its group has a limit, which counts the alerts of all nodes");
    }
    if group.query_offset.is_some_and(|offset| offset > 0) {
        return at_hub(group.place, "its group asks for the past (query_offset)");
    }
    let longest = khz_plan::limits::DURATION_MAX.0.cast_signed() / 1_000_000;
    if alerting.hold.max(alerting.keep_firing) > longest {
        return at_hub(rule.place, "it waits for longer than a day");
    }
    match khz_promql::compile_for_each_node(&rule.expr, &EachNode { gathers }) {
        Ok(compiled) => Placement::AtNodes(compiled),
        Err(error) => {
            let words = error.to_string();
            let (place, why) = match khz_promql::place(&words) {
                Some(((line, column), why)) => (rule.expr_at.place(line, column), why),
                None => (rule.expr_at.begin, words),
            };
            // docs/plan.md already lists what an expression may contain.
            let why = why.split("; an expression for a node").next().unwrap_or_default().to_owned();
            Placement::AtHub(AtHub { place, why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::RuleSet;
    use std::path::Path;

    fn placed(group: &str, expr: &str) -> String {
        let text = format!("groups:\n- name: g\n{group}  rules:\n  - alert: A\n    expr: |\n      {expr}\n");
        let set =
            RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        let group = set.groups().next().unwrap();
        match place(group, &group.rules[0], &|name| name.starts_with("node_") || name == "mem.free") {
            Placement::AtNodes(ForEachNode { has_job: true, .. }) => String::from("nodes"),
            Placement::AtNodes(_) => String::from("nodes, no job"),
            Placement::AtHub(at) => format!("{} {}", at.place, at.why),
        }
    }

    #[test]
    fn a_rule_is_judged_at_nodes_if_each_can_tell_for_itself() {
        for expr in [
            "node_load1 > 5",
            "rate(node_cpu[1m]) > 0.5 and on(instance) node_load1 > 3",
            "sum without (cpu) (node_x{cpu=~\"1|2\"}) / on(instance) group_left() node_y > 1",
            "node_x / ignoring(cpu) group_left node_y > time() - 100",
            "topk by (instance) (3, node_x)",
        ] {
            assert_eq!(placed("", expr), "nodes", "{expr}");
        }
        for expr in [
            "sum by (instance, device) (node_x) > 1",
            "node_x / on(instance) node_y > 1",
            "node_x - ignoring(job) node_y",
            "{\"mem.free\"} < 100",
        ] {
            assert_eq!(placed("", expr), "nodes, no job", "{expr}");
        }
    }

    #[test]
    fn a_rule_that_needs_several_nodes_or_the_past_is_judged_at_the_hub_for_a_reason_with_a_place() {
        for (expr, expected) in [
            (
                "sum(node_x) > 1",
                "6:7 this aggregation mixes the series of several nodes: keep them apart with by (instance)",
            ),
            ("1 < sum by (device) (node_x)", "6:11 this aggregation mixes"),
            ("sum without (instance) (node_x) > 1", "6:7 this aggregation mixes"),
            (
                "node_x > on(device) node_y",
                "6:7 this operator matches series of different nodes: match on(instance)",
            ),
            ("node_x > ignoring(instance) node_y", "6:7 this operator matches"),
            ("node_x > 1 and up == 1", "6:22 no node gathers up"),
            (
                "node_x{instance=\"n1\"} > 1",
                "6:7 it chooses by the label instance, which the hub gives to series",
            ),
            ("{__name__=~\"node_.*\"} > 1", "6:7 it chooses by a pattern of names"),
            ("rate(node_x[1h]) > 1", "6:12 a node keeps 5 minutes at most"),
            ("absent(node_x)", "6:7 a node does not compute this function"),
            ("node_x or sum by (instance) (node_x)", "6:7 one of its sides has the label job"),
            ("1 > bool 0", "6:7 it has no series of a node"),
        ] {
            let placed = placed("", expr);
            assert!(placed.starts_with(expected), "{expr}: {placed}");
        }
        assert!(placed("  limit: 3\n", "node_x").starts_with("2:3 its group has a limit"));
        assert!(placed("  query_offset: 3s\n", "node_x").starts_with("2:3 its group asks for the past"));
        let set =
            RuleSet::parse(Path::new("a.yml"), b"groups: [{name: g, rules: [{record: r, expr: node_x}]}]")
                .unwrap();
        let group = set.groups().next().unwrap();
        assert!(matches!(place(group, &group.rules[0], &|_| true), Placement::AtHub(_)));
    }
}
