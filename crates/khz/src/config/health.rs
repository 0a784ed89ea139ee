//! What `khz health` looks at: the table `[health]`. Conditions are only texts here.

use std::str::FromStr;
use std::time::Duration;

use super::foreign::{Table, within};
use super::{ActionValues, ConfigError, ForeignValues};

/// A node is healthy if this is true, where nobody says more: an agent that runs, and some memory.
const CONDITIONS: &str = "mem.available > 64MiB";
/// Values that are older say nothing: an agent writes once a second.
const AGE: u64 = 10;
const AGE_MAX: u64 = 3_600;

/// What is looked at, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthPlan {
    /// Conditions that must be true.
    pub conditions: Vec<String>,
    /// Older values are unknown.
    pub age: Duration,
    /// What follows from an unknown value.
    pub unknown: Unknown,
    /// The action that drains the node if it is unhealthy.
    pub on_unhealthy: Option<String>,
}

/// What follows from a value that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// Neither: an exit code of its own.
    #[default]
    Neither,
    /// The node is healthy.
    Healthy,
    /// The node is unhealthy.
    Unhealthy,
}

impl FromStr for Unknown {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unknown" => Ok(Unknown::Neither),
            "healthy" => Ok(Unknown::Healthy),
            "unhealthy" => Ok(Unknown::Unhealthy),
            _ => Err(format!("'{text}' is not one of unknown, healthy, unhealthy")),
        }
    }
}

/// Checks the table.
pub(super) fn settings(
    values: Option<&ForeignValues>,
    actions: &[ActionValues],
) -> Result<HealthPlan, ConfigError> {
    let none = ForeignValues::default();
    let table = Table { name: "health", values: values.unwrap_or(&none) };
    let conditions = table.text("conditions").unwrap_or_else(|| CONDITIONS.to_owned());
    let conditions = conditions.split(';').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let conditions: Vec<String> = conditions.collect();
    if conditions.is_empty() {
        // A node of which nothing is looked at would be healthy.
        return Err(table.bad("conditions", "it names no condition: [\"mem.available > 1GiB\"]".to_owned()));
    }
    let on_unhealthy =
        table.read("on_unhealthy", None, |name| match actions.iter().find(|action| action.name == name) {
            Some(action) if action.tables.iter().any(|(word, _)| word == "drain") => {
                Ok(Some(name.to_owned()))
            }
            Some(_) => Err(format!("the action '{name}' does not drain")),
            None => Err(format!("there is no action [actions.{name}]")),
        })?;
    Ok(HealthPlan {
        conditions,
        age: table.read("age", khz_model::Nanos::from_secs(AGE), |text| within(text, 1, AGE_MAX))?.into(),
        unknown: table.read("unknown", Unknown::default(), str::parse)?,
        on_unhealthy,
    })
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::super::plan::Plan;
    use super::*;

    fn plan(file: &str) -> Result<HealthPlan, String> {
        super::super::file::read("/etc/khz/khz.toml", file, &["stat"]).map_err(|error| error.to_string())?;
        let plan = Plan::check(&layers(file, &[], &[]), "n1", &["stat"]);
        plan.map(|plan| plan.health).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_table_an_agent_and_some_memory_are_looked_at() {
        let usual = plan("").unwrap();
        assert_eq!((usual.conditions, usual.unknown), (vec![CONDITIONS.to_owned()], Unknown::Neither));
        let all = plan(
            "[health]\nconditions = [\"mem.available > 1GiB\", \"load.1m < 64\"]\nage = \"30s\"\nunknown = \"unhealthy\"\n\
             on_unhealthy = \"out\"\n[actions.out]\ndrain = {}\n",
        );
        let all = all.unwrap();
        assert_eq!((all.conditions.len(), all.age.as_secs(), all.unknown), (2, 30, Unknown::Unhealthy));
        assert_eq!(all.on_unhealthy.as_deref(), Some("out"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        for (file, expected) in [
            (
                "[health]\nunknown = \"fine\"\n",
                "health.unknown (from /etc/khz/khz.toml:2): 'fine' is not one of",
            ),
            (
                "[health]\non_unhealthy = \"x\"\n",
                "health.on_unhealthy (from /etc/khz/khz.toml:2): there is no action",
            ),
            (
                "[health]\non_unhealthy = \"x\"\n[actions.x]\nexec = [\"/x\"]\n",
                "health.on_unhealthy (from /etc/khz/khz.toml:2): the action 'x' does not drain",
            ),
            (
                "[health]\nconditions = []\n",
                "health.conditions (from /etc/khz/khz.toml:2): it names no condition",
            ),
            ("[health]\nage = \"0s\"\n", "health.age (from /etc/khz/khz.toml:2): '0s' is not between"),
            (
                "[health]\nag = 1\n",
                "/etc/khz/khz.toml:2: no setting is called 'health.ag' (did you mean 'age'?)",
            ),
        ] {
            let got = plan(file).unwrap_err();
            assert!(got.starts_with(expected), "{file}: {got}");
        }
    }
}
