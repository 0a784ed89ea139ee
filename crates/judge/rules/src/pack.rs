//! Packs the rules that nodes can judge into handlers of channels, as many into each as fit. A channel keeps its name while its
//! rules stay the same, so that nodes keep its state. It places no rules and follows no channels.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_model::{ChannelName, ChannelTerms, Nanos};
use khz_plan::limits::{HANDLER_BYTES, RULES_MAX};
use khz_plan::{Handler, Plan, RulePlan, Step, Values};
use khz_promql::ForEachNode;

use crate::limits::CHANNELS_MAX;
use crate::rule::Alerting;

/// How often a node resends the values of present results: the longest of these that is at most the group's interval. So rules of
/// many groups can share few channels.
const BEATS: [Nanos; 4] =
    [Nanos::from_secs(60), Nanos::from_secs(15), Nanos::from_secs(5), Nanos::from_secs(1)];

/// Bytes of a handler beside its rules, and of a rule beside its plan.
const HANDLER_HEAD: usize = 64;
const RULE_HEAD: usize = 24;

/// Which rule of a set: the number of its group, and its own number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId {
    /// The group.
    pub group: usize,
    /// The rule.
    pub rule: usize,
}

/// A rule that nodes judge.
#[derive(Clone, Debug)]
pub struct SourceRule {
    /// Which one.
    pub id: RuleId,
    /// Its series get the label `job` at the hub.
    pub has_job: bool,
}

/// Rules in one channel.
#[derive(Clone, Debug)]
pub struct RuleChannel {
    /// Its name and its handler.
    pub terms: Arc<ChannelTerms>,
    /// The rules, in the order of the handler.
    pub rules: Vec<SourceRule>,
}

/// A rule on its way into a channel.
struct Packed {
    rule: SourceRule,
    plan: RulePlan,
    bytes: usize,
}

/// Packs rules: each with its group's interval (ms). `prefix`: the beginning of channel names. `tolerance`: that of the evaluators
/// ([`crate::Settings::tolerance`]). Rules without room are in no channel.
pub fn pack<'a>(
    prefix: &str,
    tolerance: i64,
    rules: impl IntoIterator<Item = (RuleId, i64, &'a Alerting, &'a ForEachNode)>,
) -> Vec<RuleChannel> {
    // A node becomes ready with all rules of a channel at once. So rules that need no past do not wait for the others.
    let mut alike: BTreeMap<(Nanos, bool), Vec<Packed>> = BTreeMap::new();
    for (id, interval, alerting, compiled) in rules {
        let ms = |time: i64| Nanos::from_millis(time.max(0).unsigned_abs());
        let beat = BEATS.into_iter().find(|beat| *beat <= ms(interval)).unwrap_or(BEATS[3]);
        let (hold, keep_firing) = alerting.times(tolerance, interval);
        let plan = RulePlan { plan: compiled.plan.clone(), holds: ms(hold), keeps: ms(keep_firing) };
        let mut bytes = Vec::new();
        compiled.plan.put(&mut bytes);
        let rule = SourceRule { id, has_job: compiled.has_job };
        let packed = Packed { rule, plan, bytes: bytes.len() + RULE_HEAD };
        alike.entry((beat, has_past(&compiled.plan))).or_default().push(packed);
    }
    let mut channels = Vec::new();
    for ((beat, _), rules) in alike {
        let (mut some, mut bytes) = (Vec::new(), HANDLER_HEAD);
        for rule in rules {
            if bytes + rule.bytes > HANDLER_BYTES || some.len() >= RULES_MAX {
                channels.extend(channel(prefix, beat, std::mem::take(&mut some)));
                bytes = HANDLER_HEAD;
            }
            bytes += rule.bytes;
            some.push(rule);
        }
        channels.extend(channel(prefix, beat, some));
    }
    channels.truncate(CHANNELS_MAX);
    channels
}

fn has_past(plan: &Plan) -> bool {
    plan.steps().iter().any(|step| matches!(step, Step::Window { .. }))
}

/// `None`: there are no rules, or no node would take them.
fn channel(prefix: &str, every: Nanos, packed: Vec<Packed>) -> Option<RuleChannel> {
    let (rules, plans): (Vec<_>, Vec<_>) =
        packed.into_iter().map(|packed| (packed.rule, packed.plan)).unzip();
    if rules.is_empty() {
        return None;
    }
    let handler = Handler { values: Values::Rules(plans), every, ..Handler::default() }.to_bytes().ok()?;
    let name = ChannelName::new(&format!("{prefix}{:016x}", digest(&handler))).ok()?;
    Some(RuleChannel { terms: Arc::new(ChannelTerms { name, handler: handler.into() }), rules })
}

/// A number that depends on the bytes (FNV-1a).
fn digest(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{Placement, place};
    use crate::rule::RuleSet;
    use std::path::Path;

    fn packed(text: &str) -> Vec<RuleChannel> {
        let set =
            RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        let groups: Vec<_> = set.groups().cloned().collect();
        let mut all = Vec::new();
        for (group, known) in groups.iter().enumerate() {
            for (rule, one) in known.rules.iter().enumerate() {
                let (Placement::AtNodes(compiled), Some(alerting)) =
                    (place(known, one, &|_| true), one.alerting())
                else {
                    continue;
                };
                all.push((
                    RuleId { group, rule },
                    known.interval.unwrap_or(15_000),
                    alerting.clone(),
                    compiled,
                ));
            }
        }
        pack(
            "khz_rules_",
            0,
            all.iter().map(|(id, interval, alerting, one)| (*id, *interval, &**alerting, one)),
        )
    }

    #[test]
    fn rules_of_many_groups_share_a_channel_and_those_with_a_past_have_another_one() {
        let text = "groups:
- {name: a, rules: [{alert: A, expr: node_x > 1}, {record: r, expr: node_x}, {alert: B, expr: 'rate(node_x[5m]) > 1'}]}
- {name: b, interval: 20s, rules: [{alert: C, expr: node_y > 1, for: 5m}, {alert: D, expr: sum(node_x) > 1}]}
- {name: c, interval: 1s, rules: [{alert: E, expr: node_y > 2}]}";
        let channels = packed(text);
        let places = |channel: &RuleChannel| -> Vec<(usize, usize)> {
            channel.rules.iter().map(|rule| (rule.id.group, rule.id.rule)).collect()
        };
        let all: Vec<_> = channels.iter().map(places).collect();
        assert_eq!(all, [vec![(2, 0)], vec![(0, 0), (1, 0)], vec![(0, 2)]]);
        let name = |text: &str| packed(text).iter().map(|one| one.terms.name.clone()).collect::<Vec<_>>();
        assert_eq!(name(text), name(&text.replace("alert: A", "alert: Z")), "nodes do the same");
        assert_ne!(name(text), name(&text.replace("node_x > 1", "node_x > 3")));
    }

    #[test]
    fn ten_thousand_rules_are_some_dozens_of_channels_and_what_has_no_room_stays_at_the_hub() {
        let text =
            "groups: [{name: g, rules: [{alert: A, expr: node_memory_MemAvailable_bytes < 1000, for: 5m}]}]";
        let set = RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap();
        let group = set.groups().next().unwrap();
        let Placement::AtNodes(compiled) = place(group, &group.rules[0], &|_| true) else {
            panic!("at the hub")
        };
        let alerting = group.rules[0].alerting().unwrap();
        let many = |count: usize| {
            let rule = |rule| (RuleId { group: 0, rule }, 15_000, &**alerting, &compiled);
            pack("khz_rules_", 0, (0..count).map(rule))
        };
        let channels = many(10_000);
        assert!((10..=CHANNELS_MAX).contains(&channels.len()), "{}", channels.len());
        assert_eq!(channels.iter().map(|one| one.rules.len()).sum::<usize>(), 10_000);
        assert_eq!(many(40_000).len(), CHANNELS_MAX);
    }
}
