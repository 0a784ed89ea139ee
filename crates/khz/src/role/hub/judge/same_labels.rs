//! Alerts that several rules give. For people, alerts with the same labels are one alert. The alert fires while any rule gives it,
//! and is resolved when no rule does. This module asks the groups for the alerts each time, and sends no messages.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use khz_promql::LabelSet;
use khz_rules::limits::HUB_ALERTS_MAX;
use khz_rules::{ALERT_NAME, Alert, AlertState, Group, NODE_LABEL, RuleId};

use super::groups::Groups;
use super::passed::{Passed, for_people};

/// Rules of one name. Only their alerts can have the same labels, since the name is one of these.
#[derive(Debug, Default)]
pub(super) struct SameLabels {
    /// The rules of each name that several alerting rules have.
    rules: HashMap<Arc<str>, Vec<RuleId>>,
    /// Since when such alerts fire, under any rule. The rule under which an alert began may already have forgotten it.
    begun: HashMap<LabelSet, Begun>,
}

/// When an alert began to fire (ms since 1970), and since when according to this hub's own evaluations.
#[derive(Clone, Copy, Debug)]
struct Begun {
    fired_at: i64,
    here_at: Option<i64>,
}

impl Begun {
    fn of(alert: &Alert) -> Self {
        Begun { fired_at: alert.fired_at.unwrap_or(alert.active_at), here_at: alert.fired_here_at }
    }

    fn and(self, other: Begun) -> Self {
        let here_at = self.here_at.into_iter().chain(other.here_at).min();
        Begun { fired_at: self.fired_at.min(other.fired_at), here_at }
    }

    /// The alert for people, with this start.
    fn put_into(self, one: khz_notify::Alert) -> khz_notify::Alert {
        khz_notify::Alert {
            starts_at: self.fired_at,
            fired_here_at: self.here_at,
            // An end under one rule, while the alert fired under another, was no end.
            ended_before: one.ended_before.filter(|end| *end < self.fired_at),
            ..one
        }
    }
}

impl SameLabels {
    /// Of these groups, in their order.
    pub fn of<'a>(groups: impl Iterator<Item = &'a Arc<Group>>) -> Self {
        let mut rules: HashMap<Arc<str>, Vec<RuleId>> = HashMap::new();
        for (group, one) in groups.enumerate() {
            for (rule, one) in one.rules.iter().enumerate().filter(|(_, one)| one.alerting().is_some()) {
                rules.entry(one.name.clone()).or_default().push(RuleId { group, rule });
            }
        }
        rules.retain(|_, rules| rules.len() > 1);
        SameLabels { rules, begun: HashMap::new() }
    }

    /// The rules that may give an alert with these labels; none if there is one only.
    fn rules(&self, labels: &LabelSet) -> &[RuleId] {
        self.rules.get(labels.get(ALERT_NAME)).map_or(&[], Vec::as_slice)
    }

    /// These alerts were forgotten.
    pub fn forget<'a>(&mut self, all: impl Iterator<Item = &'a LabelSet>) {
        if !self.begun.is_empty() {
            all.for_each(|labels| _ = self.begun.remove(labels));
        }
    }

    /// The alerts of these nodes were forgotten.
    pub fn forget_nodes(&mut self, nodes: &BTreeSet<Arc<str>>) {
        self.begun.retain(|labels, _| !nodes.contains(labels.get(NODE_LABEL)));
    }
}

impl Groups {
    /// Keeps the known starts of alerts that the new rules still give, and drops the others.
    pub fn go_on_with(&mut self, before: SameLabels) {
        let groups = || self.all.iter().map(|judged| &judged.evaluator);
        let fires = |labels: &LabelSet| {
            groups().any(|evaluator| {
                let rules = evaluator.group().rules.iter().enumerate();
                let of_name = rules.filter(|(_, rule)| &*rule.name == labels.get(ALERT_NAME));
                let mut alerts = of_name.filter_map(|(rule, _)| evaluator.alert(rule, labels));
                alerts.any(|alert| alert.state == AlertState::Firing)
            })
        };
        let begun = before.begun.into_iter().filter(|(labels, _)| fires(labels)).collect();
        self.same_labels.begun = begun;
    }

    /// The alerts of a pass that fire or were resolved, as people get them.
    pub fn alerts(&mut self, passed: &Passed) -> Vec<khz_notify::Alert> {
        let fired = passed.pass.alerts.iter().filter(|one| one.alert.fired_at.is_some());
        fired.map(|one| self.one_alert(&one.alert, &passed.group.rules[one.rule].expr)).collect()
    }

    /// The same for actions, since each rule names the actions of its own alerts. If an alert ends under this rule, but another
    /// rule still gives it from the same start, the firing goes on for actions.
    pub fn alerts_to_act(&self, passed: &Passed) -> Vec<khz_notify::Alert> {
        let is_over = |alert: &Alert| alert.state != AlertState::Firing;
        let goes_on = |alert: &Alert| {
            let mut others = self.of_all_rules(&alert.labels);
            others.any(|(other, _)| !is_over(other) && other.fired_at == alert.fired_at)
        };
        let mut alerts = passed.alerts(self.external_url());
        let fired = passed.pass.alerts.iter().filter(|one| one.alert.fired_at.is_some());
        let mut stays = fired.map(|one| !(is_over(&one.alert) && goes_on(&one.alert)));
        alerts.retain(|_| stays.next().unwrap_or(true));
        alerts
    }

    /// The alert as people get it, whichever rules give it. `expr`: the expression of the rule that gave it.
    pub fn one_alert(&mut self, alert: &Arc<Alert>, expr: &str) -> khz_notify::Alert {
        let all: Vec<(Arc<Alert>, RuleId)> =
            self.of_all_rules(&alert.labels).map(|(alert, rule)| (alert.clone(), rule)).collect();
        let firing = all.iter().filter(|(alert, _)| alert.state == AlertState::Firing);
        let firing = firing.min_by_key(|(alert, rule)| (alert.fired_at, *rule));
        let over = || all.iter().max_by_key(|(alert, rule)| (alert.resolved_at, std::cmp::Reverse(*rule)));
        let Some((shown, rule)) = firing.or_else(over) else {
            return self.of_one_rule(alert, expr);
        };
        let mut begun = since(Begun::of(shown), &all);
        let known = &mut self.same_labels.begun;
        if let Some(known) = known.remove(&shown.labels) {
            begun = begun.and(known);
        }
        if firing.is_some() {
            if known.len() >= HUB_ALERTS_MAX {
                // The starts can be recomputed from what the rules still know.
                known.clear();
            }
            known.insert(shown.labels.clone(), begun);
        }
        let expr = self.all[rule.group].evaluator.group().rules[rule.rule].expr.clone();
        begun.put_into(for_people(shown, &expr, self.external_url()))
    }

    /// An alert that one rule gives now. It may have begun under another rule that is gone.
    fn of_one_rule(&mut self, alert: &Alert, expr: &str) -> khz_notify::Alert {
        let begun = &mut self.same_labels.begun;
        let known = match alert.state {
            AlertState::Firing => begun.get(&alert.labels).copied(),
            _ => begun.remove(&alert.labels),
        };
        let one = for_people(alert, expr, self.external_url());
        match known {
            Some(known) => Begun::of(alert).and(known).put_into(one),
            None => one,
        }
    }

    /// All alerts with these labels that fire or have fired, from the rules that can give them; none if only one rule can.
    fn of_all_rules<'a>(&'a self, labels: &'a LabelSet) -> impl Iterator<Item = (&'a Arc<Alert>, RuleId)> {
        let alert = |id: &RuleId| {
            let alert = self.all.get(id.group)?.evaluator.alert(id.rule, labels)?;
            alert.fired_at.is_some().then_some((alert, *id))
        };
        self.same_labels.rules(labels).iter().filter_map(alert)
    }
}

/// Since when an alert fires under any of its rules without a pause, if it fires under one since `begun`.
fn since(mut begun: Begun, all: &[(Arc<Alert>, RuleId)]) -> Begun {
    // Each round takes in an alert that begins earlier.
    while let Some((earlier, _)) = all.iter().find(|(alert, _)| {
        let is_earlier = alert.fired_at.is_some_and(|fired| fired < begun.fired_at);
        is_earlier && alert.resolved_at.is_none_or(|end| end >= begun.fired_at)
    }) {
        begun = begun.and(Begun::of(earlier));
    }
    begun
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use khz_promql::{Engine, Limits};
    use khz_rules::{Memory, RuleSet};

    use super::super::passed::name_of;
    use super::*;

    const RULES: &str = "
groups:
- name: one
  rules:
  - {alert: N, expr: a > 5, labels: {s: page}}
  - {alert: N, expr: b > 5, labels: {s: page}}
- name: two
  rules:
  - {alert: N, expr: c > 5, labels: {s: page}}
  - {alert: Other, expr: c > 5}";

    fn groups() -> Groups {
        let set = RuleSet::parse(Path::new("a.yml"), RULES.as_bytes()).unwrap();
        Groups::new(&set, Arc::default(), None, 0, false)
    }

    /// Evaluates a group at this second, where these series are there. What people then hear of N: since when it fires, when it ended.
    fn heard(groups: &mut Groups, group: usize, second: i64, there: &[&str]) -> Vec<(i64, Option<i64>)> {
        let passed = passed(groups, group, second, there);
        let alerts = groups.alerts(&passed);
        let of_name = alerts.iter().filter(|alert| alert.name() == "N");
        of_name.map(|alert| (alert.starts_at / 1_000, alert.ends_at.map(|end| end / 1_000))).collect()
    }

    fn passed(groups: &mut Groups, group: usize, second: i64, there: &[&str]) -> Passed {
        let (mut source, time) = (Memory::default(), second * 1_000);
        for name in there {
            source.add(&LabelSet::new([("__name__", *name), ("instance", "n1")]), time, 9.0);
        }
        let engine = Engine::new(Limits::default());
        let pass = groups
            .with(group, |judged| judged.evaluator.evaluate(&engine, &source, time, &mut || Duration::ZERO));
        let one = groups.all[group].evaluator.group().clone();
        Passed { number: group, name: name_of(&one), group: one, pass: pass.unwrap(), is_whole: true }
    }

    #[test]
    fn an_alert_of_several_rules_is_over_when_it_fires_under_none_of_them() {
        let mut groups = groups();
        let fires = (10, None);
        assert_eq!(heard(&mut groups, 0, 10, &["a", "b"]), [fires, fires]);
        assert_eq!(heard(&mut groups, 1, 12, &["c"]), [fires], "the other group gives the same alert");
        assert_eq!(heard(&mut groups, 0, 20, &["a"]), [fires, fires], "it ends under one rule of two");
        assert_eq!(heard(&mut groups, 0, 30, &[]), [fires, fires], "it goes on in the other group");
        // That it has ended under the first rules is known for a quarter of an hour. It is the same firing also later.
        assert_eq!(heard(&mut groups, 0, 2_000, &[]), []);
        assert_eq!(heard(&mut groups, 1, 2_001, &["c"]), [fires]);
        let over = (10, Some(2_010));
        assert_eq!(heard(&mut groups, 1, 2_010, &[]), [over]);
        // It begins again under another rule: the end under the first one does not count.
        assert_eq!(heard(&mut groups, 0, 2_020, &["a"]), [(2_020, None)]);
        assert_eq!(heard(&mut groups, 1, 2_030, &[]), [(2_020, None)]);
        assert_eq!(heard(&mut groups, 0, 2_040, &[]), [(2_020, Some(2_040))]);
        assert_eq!(
            heard(&mut groups, 1, 2_050, &[]),
            [(2_020, Some(2_040))],
            "one end, whichever rule is asked"
        );
    }

    #[test]
    fn a_firing_that_several_rules_begin_at_one_time_ends_for_those_who_act_with_the_last_of_them() {
        let mut groups = groups();
        let ends = |groups: &mut Groups, second, there: &[&str]| {
            let passed = passed(groups, 0, second, there);
            let alerts = groups.alerts_to_act(&passed);
            alerts.iter().map(|alert| alert.ends_at.map(|end| end / 1_000)).collect::<Vec<_>>()
        };
        assert_eq!(ends(&mut groups, 10, &["a", "b"]), [None, None]);
        assert_eq!(ends(&mut groups, 20, &["a"]), [None]);
        assert_eq!(ends(&mut groups, 30, &[]), [Some(30), Some(20)]);
    }

    #[test]
    fn an_alert_goes_on_under_the_one_rule_that_is_left_and_begins_again_where_none_was() {
        let mut groups = groups();
        assert_eq!(heard(&mut groups, 0, 10, &["a"])[0], (10, None));
        assert_eq!(heard(&mut groups, 1, 20, &["c"]), [(10, None)]);
        // As after a reload without the first group's rules.
        let before = std::mem::take(&mut groups.same_labels);
        groups.go_on_with(before);
        assert_eq!(heard(&mut groups, 1, 30, &["c"]), [(10, None)]);
        assert_eq!(heard(&mut groups, 1, 40, &[]), [(10, Some(40))]);
        assert_eq!(heard(&mut groups, 1, 50, &["c"]), [(50, None)]);
        // It ended, and then rules came again.
        heard(&mut groups, 0, 60, &["a"]);
        heard(&mut groups, 0, 70, &[]);
        heard(&mut groups, 1, 80, &[]);
        let before = std::mem::take(&mut groups.same_labels);
        groups.go_on_with(before);
        assert_eq!(heard(&mut groups, 1, 90, &["c"]), [(90, None)]);
    }
}
