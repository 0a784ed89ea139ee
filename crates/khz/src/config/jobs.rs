//! The jobs of a batch system: the table `[jobs]` of a hub.

use super::foreign::Table;
use super::values::switch;
use super::{ConfigError, ForeignValues};

/// What a hub does with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobsPlan {
    /// Readers see only the jobs of their own user.
    pub own_only: bool,
    /// Control groups show jobs that nobody has told of.
    pub discover: bool,
    /// The nodes of a job that fails keep their latest rows.
    pub freezes_failed: bool,
}

/// Checks the table.
pub(super) fn settings(values: Option<&ForeignValues>) -> Result<JobsPlan, ConfigError> {
    let none = ForeignValues::default();
    let table = Table { name: "jobs", values: values.unwrap_or(&none) };
    let own_only = table.read("visible", false, |text| match text {
        "all" => Ok(false),
        "own" => Ok(true),
        _ => Err(format!("'{text}' is not one of all, own")),
    })?;
    let freezes_failed = table.read("freeze_failed", false, switch)?;
    Ok(JobsPlan { own_only, discover: table.read("discover", true, switch)?, freezes_failed })
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::super::plan::Plan;
    use super::*;

    fn plan(file: &str) -> Result<JobsPlan, String> {
        super::super::file::read("/etc/khz/khz.toml", file, &["stat"]).map_err(|error| error.to_string())?;
        let plan = Plan::check(&layers(file, &[], &[]), "n1", &["stat"]);
        plan.map(|plan| plan.jobs).map_err(|error| error.to_string())
    }

    #[test]
    fn everybody_sees_all_jobs_unless_the_table_says_otherwise() {
        assert_eq!(plan("").unwrap(), JobsPlan { own_only: false, discover: true, freezes_failed: false });
        let own = plan("[jobs]\nvisible = \"own\"\ndiscover = false\nfreeze_failed = true\n").unwrap();
        assert_eq!(own, JobsPlan { own_only: true, discover: false, freezes_failed: true });
        for (file, expected) in [
            (
                "[jobs]\nvisible = \"mine\"\n",
                "jobs.visible (from /etc/khz/khz.toml:2): 'mine' is not one of all, own",
            ),
            ("[jobs]\nseen = \"x\"\n", "/etc/khz/khz.toml:2: no setting is called 'jobs.seen'"),
        ] {
            let got = plan(file).unwrap_err();
            assert!(got.starts_with(expected), "{file}: {got}");
        }
    }
}
