//! What is done about alerts: the tables `[actions.NAME]`. Alerts only name them; no command and no argument of one comes from
//! anywhere else.

use std::time::Duration;

use khz_actions::limits::ACTIONS_MAX;
use khz_actions::{Action, Boost, Freeze, Kind, Settings, Slurm};
use khz_link::limits::{FREEZE_AFTER_MAX, FREEZE_BEFORE_MAX};
use khz_model::hostlist::Hostlist;
use khz_model::{Nanos, Pattern, Rate};

use super::foreign::{Table, within};
use super::values::{bad, quantity, switch};
use super::{ActionValues, ConfigError, Value};

/// How long a program may run, and one of Slurm's, in seconds.
const TIMEOUT: u64 = 30;
const TIMEOUT_MAX: u64 = 3_600;
/// Tried again once a minute: what is wrong for a moment is over then.
const RETRY_AFTER: u64 = 60;
/// An alert that comes and goes does not act each time.
const COOLDOWN: u64 = 600;
const DAY: u64 = 86_400;
const RETRIES_MAX: u32 = 10;
/// Nobody could follow more.
const PER_HOUR_MAX: u32 = 60;
/// Programs may look at many nodes an hour; nodes are drained one by one.
const PER_HOUR: u32 = 10;
const SLURM_PER_HOUR: u32 = 1;
/// For how long a node samples faster.
const BOOST: u64 = 60;

/// Checks all tables.
pub(super) fn settings(all: &[ActionValues]) -> Result<Settings, ConfigError> {
    if let Some(beyond) = all.get(ACTIONS_MAX) {
        let at = Value { text: String::new(), origin: beyond.values.at.clone() };
        let problem = format!("there are {} actions, and at most {ACTIONS_MAX}: leave some out", all.len());
        return Err(bad("actions", &at, problem));
    }
    Ok(Settings { actions: all.iter().map(action).collect::<Result<_, _>>()? })
}

fn action(values: &ActionValues) -> Result<Action, ConfigError> {
    let name = format!("actions.{}", values.name);
    let table = Table { name: &name, values: &values.values };
    let kind = kind(values, &table)?;
    let is_slurm = matches!(kind, Kind::Drain(_) | Kind::Requeue(_));
    let number = |key: &str, default: u32, least: u32, most: u32| {
        table.read(key, default, |text| match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(format!("'{text}' is not a number from {least} to {most}")),
        })
    };
    Ok(Action {
        dry_run: table.read("dry_run", is_slurm, switch)?,
        node_label: table.read("node_label", "instance".to_owned(), |text| {
            match khz_model::labels::is_label_name(text) {
                true => Ok(text.to_owned()),
                false => Err(format!("'{text}' is no name of a label")),
            }
        })?,
        timeout: seconds(&table, "timeout", TIMEOUT, (1, TIMEOUT_MAX))?,
        retries: number("retries", 0, 0, RETRIES_MAX)?,
        retry_after: seconds(&table, "retry_after", RETRY_AFTER, (1, DAY))?,
        cooldown: seconds(&table, "cooldown", COOLDOWN, (0, DAY))?,
        per_hour: number("per_hour", if is_slurm { SLURM_PER_HOUR } else { PER_HOUR }, 1, PER_HOUR_MAX)?,
        name: values.name.clone(),
        kind,
    })
}

/// What it does: exactly one thing.
fn kind(values: &ActionValues, table: &Table<'_>) -> Result<Kind, ConfigError> {
    let ActionValues { programs, tables, .. } = values;
    match (&programs[..], &tables[..]) {
        ([(word, command)], []) => {
            let words = super::notify::program(command).map_err(|problem| {
                table.bad(word, format!("{problem}: {word} = [\"/usr/local/bin/look\", \"closely\"]"))
            })?;
            Ok(match word.as_str() {
                "exec" => Kind::Exec(words),
                "diagnose" => Kind::Diagnose(words),
                _ => Kind::Checkpoint(words),
            })
        }
        ([], [(word, inner)]) => {
            let name = format!("{}.{word}", table.name);
            let inner = Table { name: &name, values: inner };
            match word.as_str() {
                "drain" => slurm(&inner).map(Kind::Drain),
                "requeue" => slurm(&inner).map(Kind::Requeue),
                "boost" => boost(&inner).map(Kind::Boost),
                _ => freeze(&inner).map(Kind::Freeze),
            }
        }
        _ => {
            let problem = "it does exactly one thing: exec, diagnose or checkpoint = [\"/PROGRAM\", ...], drain = {}, \
                           requeue = {}, boost = { series = [\"cpu.*\"], rate = \"100Hz\" }, or freeze = {}";
            let at = Value { text: String::new(), origin: values.values.at.clone() };
            Err(bad(table.name, &at, problem.to_owned()))
        }
    }
}

fn slurm(table: &Table<'_>) -> Result<Slurm, ConfigError> {
    let program = |key: &str| {
        table.read(key, format!("/usr/bin/{key}"), |text| {
            super::notify::program(&[text.to_owned()]).map(|_| text.to_owned())
        })
    };
    Ok(Slurm {
        scontrol: program("scontrol")?,
        squeue: program("squeue")?,
        conf: table.file("conf"),
        strips_domain: table.read("strip_domain", false, switch)?,
        reason: table.text("reason"),
    })
}

fn boost(table: &Table<'_>) -> Result<Boost, ConfigError> {
    let series: Vec<String> = table
        .text("series")
        .unwrap_or_default()
        .split(';')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect();
    if series.is_empty() {
        return Err(table.bad("series", "it is missing: series = [\"cpu.*\"]".to_owned()));
    }
    for text in &series {
        let pattern = Pattern::new(text).map_err(|error| table.bad("series", error.to_string()))?;
        if pattern.nodes().is_some() {
            let problem = format!("'{text}' names nodes: an action is about the node of its alert");
            return Err(table.bad("series", problem));
        }
    }
    let rate =
        table.text("rate").ok_or_else(|| table.bad("rate", "it is missing: rate = \"100Hz\"".to_owned()))?;
    let rate: Rate = quantity(&rate).map_err(|problem| table.bad("rate", problem))?;
    Ok(Boost { series, rate, lasts: seconds(table, "for", BOOST, (1, 3_600))? })
}

fn freeze(table: &Table<'_>) -> Result<Freeze, ConfigError> {
    let nodes = table.text("nodes");
    if let Some(text) = &nodes {
        Hostlist::new(text).map_err(|error| table.bad("nodes", format!("'{text}': {}", error.problem)))?;
    }
    let whole = |time: Nanos| time.0 / 1_000_000_000;
    let before = seconds(table, "before", whole(khz_http::FROZEN_BEFORE), (0, whole(FREEZE_BEFORE_MAX)))?;
    let after = seconds(table, "after", whole(khz_http::FROZEN_AFTER), (0, whole(FREEZE_AFTER_MAX)))?;
    Ok(Freeze { nodes, before, after })
}

fn seconds(
    table: &Table<'_>,
    key: &str,
    default: u64,
    (least, most): (u64, u64),
) -> Result<Duration, ConfigError> {
    table.read(key, Nanos::from_secs(default), |text| within(text, least, most)).map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::super::plan::Plan;
    use super::*;

    fn plan(file: &str) -> Result<Settings, String> {
        super::super::file::read("/etc/khz/khz.toml", file, &["stat"]).map_err(|error| error.to_string())?;
        let plan = Plan::check(&layers(file, &[], &[]), "hub", &["stat"]);
        plan.map(|plan| plan.actions).map_err(|error| error.to_string())
    }

    #[test]
    fn an_action_that_touches_slurm_is_dry_and_rare_until_somebody_says_otherwise() {
        let settings = plan(
            "[actions.drain-node]\ndrain = {}\n\
             [actions.again]\nrequeue = { conf = \"/etc/a.conf\", strip_domain = true }\ndry_run = false\nper_hour = 3\n\
             [actions.look]\ndiagnose = [\"/bin/look\", \"a, b\"]\nretries = 2\ncooldown = \"0s\"\nnode_label = \"host\"\n\
             [actions.fast]\nboost = { series = [\"cpu.*\", \"net.*[*]\"], rate = \"100Hz\", for = \"30s\" }\n\
             [actions.box]\nfreeze = { nodes = \"n[1-8]\", before = \"1m\" }\n",
        )
        .unwrap();
        let shown = |action: &Action| {
            format!("{} {} {} {}", action.name, action.kind.word(), action.dry_run, action.per_hour)
        };
        assert_eq!(
            settings.actions.iter().map(shown).collect::<Vec<_>>(),
            [
                "drain-node drain true 1",
                "again requeue false 3",
                "look diagnose false 10",
                "fast boost false 10",
                "box freeze false 10"
            ]
        );
        let [drain, again, look, fast, kept] = &settings.actions[..] else { panic!("{settings:?}") };
        let Kind::Drain(slurm) = &drain.kind else { panic!("{drain:?}") };
        assert_eq!((slurm.scontrol.as_str(), slurm.strips_domain), ("/usr/bin/scontrol", false));
        let Kind::Requeue(slurm) = &again.kind else { panic!("{again:?}") };
        assert_eq!((slurm.conf.as_deref(), slurm.strips_domain), (Some("/etc/a.conf".as_ref()), true));
        assert_eq!(look.kind, Kind::Diagnose(vec!["/bin/look".into(), "a, b".into()]));
        assert_eq!((look.retries, look.cooldown, look.node_label.as_str()), (2, Duration::ZERO, "host"));
        let Kind::Boost(boost) = &fast.kind else { panic!("{fast:?}") };
        assert_eq!((boost.series.len(), boost.lasts), (2, Duration::from_secs(30)));
        let Kind::Freeze(freeze) = &kept.kind else { panic!("{kept:?}") };
        assert_eq!((freeze.before, freeze.after), (Duration::from_secs(60), Duration::from_secs(5)));
        assert_eq!(freeze.nodes.as_deref(), Some("n[1-8]"));
        assert!(plan("").unwrap().actions.is_empty());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        let place = "(from /etc/khz/khz.toml:";
        for (file, expected) in [
            ("[actions.a]\n", format!("actions.a {place}1): it does exactly one thing")),
            ("[actions.a]\nexec = [\"/x\"]\ndrain = {}\n", format!("actions.a {place}1): it does exactly one thing")),
            ("[actions.a]\nexec = []\n", format!("actions.a.exec {place}1): it names no program")),
            ("[actions.a]\nexec = [\"reboot\"]\n", format!("actions.a.exec {place}1): 'reboot' is not a path from /")),
            ("[actions.a]\nexec = \"/x\"\n", "/etc/khz/khz.toml:2: actions.a.exec takes a list of texts".into()),
            (
                "[actions.a]\ndrian = {}\n",
                "/etc/khz/khz.toml:2: no setting is called 'actions.a.drian' (did you mean 'drain'?)".into(),
            ),
            (
                "[actions.a]\ndrain = { scontorl = \"/x\" }\n",
                "/etc/khz/khz.toml:2: no setting is called 'actions.a.drain.scontorl' (did you mean 'scontrol'?)".into(),
            ),
            ("[actions.a]\ndrain = {}\nper_hour = 0\n", format!("actions.a.per_hour {place}3): '0' is not a number")),
            (
                "[actions.a]\nboost = { series = [\"n1:cpu.*\"], rate = \"1Hz\" }\n",
                format!("actions.a.boost.series {place}2): 'n1:cpu.*' names nodes"),
            ),
            ("[actions.a]\nfreeze = { nodes = \"n[1-\" }\n", format!("actions.a.freeze.nodes {place}2): 'n[1-'")),
            ("[actions.a]\nfreeze = { after = \"2m\" }\n", format!("actions.a.freeze.after {place}2): ")),
            ("[actions.a]\nboost = { rate = \"1Hz\" }\n", format!("actions.a.boost.series {place}2): it is missing")),
            ("[actions.\"a,b\"]\nexec = [\"/x\"]\n", format!("actions.a,b {place}1): a name has letters")),
            ("actions = 1\n", "/etc/khz/khz.toml:1: no setting is called 'actions'".into()),
        ] {
            let got = plan(file).unwrap_err();
            assert!(got.starts_with(&expected), "{file}: {got}");
        }
    }
}
