//! The actions of a hub on alerts: opens them as the plan says, and gives their counts as series and their state to the HTTP door.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use khz_actions::{ActionStanding, Actor, Counts, Freeze, Nodes, Run};
use khz_http::FreezeWish;
use khz_model::metric::{Kind, Unit};
use khz_model::moment::seconds_text;
use khz_model::{Instance, Metric, Nanos, Query, Series};
use serde_json::{Value, json};

use crate::config::Plan;
use crate::role::black_box::BlackBox;
use crate::role::boosts::Boosts;
use crate::role::state_dir;
use crate::show::outcome::{Failure, sentence};

/// The actions of a hub.
#[derive(Clone)]
pub struct Actions {
    actor: Arc<Actor>,
    late: Arc<Late>,
}

/// Nodes are asked through the hub's query, which exists only after the actions.
#[derive(Default)]
struct Late {
    boosts: OnceLock<Boosts>,
    black_box: OnceLock<Arc<BlackBox>>,
}

impl Nodes for Late {
    fn boost(&self, node: &str, boost: &khz_actions::Boost) -> Result<String, String> {
        self.boosts.get().ok_or("the hub has only begun")?.begin(node, boost)
    }

    fn freeze(&self, nodes: &str, freeze: &Freeze, cause: &str) -> Result<String, String> {
        let black_box = self.black_box.get().ok_or("this hub has no black box (blackbox)")?;
        let time = |time: std::time::Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let wish = FreezeWish {
            nodes: nodes.to_owned(),
            before: time(freeze.before),
            after: time(freeze.after),
            because: cause.to_owned(),
        };
        match black_box.freeze(&wish) {
            Ok((id, false)) => Ok(format!("freeze {id} of {nodes}")),
            Ok((id, true)) => Ok(format!("{nodes} is in freeze {id}, which is being taken")),
            Err(refusal) => Err(refusal.text().to_owned()),
        }
    }
}

impl Actions {
    /// Starts the actions of the plan; `None`: it has none.
    pub fn open(plan: &Plan) -> Result<Option<Self>, Failure> {
        if plan.actions.actions.is_empty() {
            return Ok(None);
        }
        let Some(state) = state_dir::find(plan, "nothing is done about alerts") else {
            return Err(Failure::usage("actions need a state directory for their log: --state-dir"));
        };
        let late = Arc::<Late>::default();
        let actor = Actor::new(plan.actions.clone(), &state, Some(late.clone()));
        let actor = actor.map_err(|error| Failure::usage(sentence(&error)))?;
        for ActionStanding { action, .. } in actor.actions().iter().filter(|standing| standing.action.dry_run)
        {
            let name = &action.name;
            tracing::info!("action {name} only logs what it would do (actions.{name}.dry_run)");
        }
        Ok(Some(Actions { actor: Arc::new(actor), late }))
    }

    /// From now on, nodes can be asked.
    pub fn ask_nodes_with(&self, query: &Arc<dyn Query>) {
        let _ = self.late.boosts.set(Boosts::new(query.clone()));
    }

    /// The hub has a black box.
    pub fn freeze_with(&self, black_box: &Arc<BlackBox>) {
        let _ = self.late.black_box.set(black_box.clone());
    }

    /// Takes the alerts of a pass.
    pub fn tell(&self, alerts: &[khz_notify::Alert]) {
        self.actor.tell(alerts);
    }

    /// The last drains of nodes that ended after this time (ms since 1970): node, time, and name of the alert.
    pub fn drains_after(&self, ended: i64) -> Vec<(String, i64, String)> {
        let drain = |run: Run| {
            let alert = run.alert.get(khz_notify::ALERT_NAME).cloned().unwrap_or_default();
            Some((run.node, run.ended?, alert))
        };
        self.actor.drains_after(ended).into_iter().filter_map(drain).collect()
    }

    /// Another hub acts on these.
    pub fn adopt(&self, alerts: &[khz_notify::Alert]) {
        self.actor.adopt(alerts);
    }

    /// What each action counts.
    pub fn counts(&self) -> Vec<(Series, Arc<AtomicU64>)> {
        self.actor.counts().iter().flat_map(|(name, counts)| of(name, counts)).collect()
    }

    /// What they count together.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        vec![(unknown(), self.actor.unknown())]
    }
}

impl khz_http::Actions for Actions {
    fn actions(&self, reads_outputs: bool) -> Vec<String> {
        self.actor.actions().iter().map(|standing| action(standing, reads_outputs).to_string()).collect()
    }

    fn runs(&self, after: u64, most: usize, reads_outputs: bool) -> Vec<(u64, String)> {
        let runs = self.actor.runs_after(after, most);
        runs.iter().map(|one| (one.id, run(one, reads_outputs).to_string())).collect()
    }

    fn output(&self, run: u64) -> Option<String> {
        self.actor.output(run)
    }
}

fn action(standing: &ActionStanding, reads_outputs: bool) -> Value {
    let ActionStanding { action, counts, last } = standing;
    let count = |count: &AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
    json!({
        "name": action.name,
        "kind": action.kind.word(),
        "dry_run": action.dry_run,
        "per_hour": action.per_hour,
        "cooldown": action.cooldown.as_secs().to_string(),
        "done": count(&counts.done),
        "failed": count(&counts.failed),
        "nothing": count(&counts.nothing),
        "held": count(&counts.held),
        "dropped": count(&counts.dropped),
        "waiting": count(&counts.waiting),
        "last": last.as_ref().map(|one| run(one, reads_outputs)),
    })
}

fn run(run: &Run, reads_outputs: bool) -> Value {
    let text = if reads_outputs { &run.text } else { run.text_for_readers() };
    json!({
        "run": run.id,
        "action": run.action,
        "kind": run.kind,
        "node": run.node,
        "alert": run.alert,
        "starts_at": seconds_text(run.starts_at),
        "dry_run": run.dry_run,
        "began": seconds_text(run.began),
        "attempts": run.attempts,
        "ended": run.ended.map(seconds_text),
        "outcome": run.outcome.map(khz_actions::Outcome::word),
        "text": text,
        "output": run.has_output,
        "again": run.again.map(seconds_text),
    })
}

/// What actions count, for the page of metrics.
#[cfg(test)]
pub fn example() -> Vec<(Series, Arc<AtomicU64>)> {
    of("drain-node", &Counts::default())
}

/// The count of all actions, for the same.
pub fn unknown() -> Metric {
    Metric {
        help: "Alerts' names of actions that the configuration does not define; each name counts once."
            .into(),
        ..Metric::plain("khz.actions.unknown", "khz_actions_unknown_total", Kind::Counter, Unit::Count)
    }
}

fn of(name: &str, counts: &Counts) -> Vec<(Series, Arc<AtomicU64>)> {
    let instance = Some(Instance::from_kernel(name.as_bytes()));
    let all = [
        (
            ("khz.actions.done", "khz_actions_done_total", Kind::Counter),
            "Runs of an action that did what it was to do, or said what it would do.",
            &counts.done,
        ),
        (
            ("khz.actions.failed", "khz_actions_failed_total", Kind::Counter),
            "Attempts of an action that failed.",
            &counts.failed,
        ),
        (
            ("khz.actions.nothing", "khz_actions_nothing_total", Kind::Counter),
            "Runs of an action that found nothing to do.",
            &counts.nothing,
        ),
        (
            ("khz.actions.held", "khz_actions_held_total", Kind::Counter),
            "Alerts for which an action did not run: too often, too soon, over before their turn, or too large.",
            &counts.held,
        ),
        (
            ("khz.actions.dropped", "khz_actions_dropped_total", Kind::Counter),
            "Alerts that found no room before an action; the next pass of their rule asks again.",
            &counts.dropped,
        ),
        (
            ("khz.actions.waiting", "khz_actions_waiting", Kind::Gauge),
            "Alerts that wait for an action, and the one that it works on.",
            &counts.waiting,
        ),
    ];
    let series = |((name, exposition, kind), help, count): (
        (&'static str, &'static str, Kind),
        &str,
        &Arc<AtomicU64>,
    )| {
        let plain = Metric::plain(name, exposition, kind, Unit::Count);
        let metric = Metric { help: help.to_owned().into(), ..plain }.of_instances("action");
        (Series { metric: Arc::new(metric), instance: instance.clone() }, count.clone())
    };
    all.into_iter().map(series).collect()
}
