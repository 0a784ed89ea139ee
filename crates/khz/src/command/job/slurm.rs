//! The environment variables that Slurm sets for its prologs and epilogs. They are passed in, and may have any bytes.

use khz_job::{End, Start};

/// A variable; `None`: it is not set, or is empty.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process.
pub fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

/// The job, if Slurm has started this process for one.
pub fn id(variable: Variable<'_>) -> Option<String> {
    variable("SLURM_JOB_ID").or_else(|| variable("SLURM_JOBID"))
}

/// The start of a job, from a prolog's variables. The prolog of slurmctld knows all nodes; that of a node may know only its own.
pub fn start(id: String, variable: Variable<'_>) -> Start {
    let all = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"));
    let own = || variable("SLURMD_NODENAME");
    let number = |name| variable(name)?.parse().ok();
    Start {
        id,
        alias: alias(variable).unwrap_or_default(),
        name: variable("SLURM_JOB_NAME").unwrap_or_default(),
        user: variable("SLURM_JOB_USER").unwrap_or_default(),
        uid: number("SLURM_JOB_UID").and_then(|uid| u32::try_from(uid).ok()),
        add: all.is_none(),
        nodes: all.or_else(own).unwrap_or_default(),
        begin_ms: number("SLURM_JOB_START_TIME").map(|seconds: i64| seconds.saturating_mul(1_000)),
    }
}

/// The id by which users know a task of an array, or a part of a heterogeneous job.
fn alias(variable: Variable<'_>) -> Option<String> {
    let of = |whole, sign, part| Some(format!("{}{sign}{}", variable(whole)?, variable(part)?));
    of("SLURM_ARRAY_JOB_ID", '_', "SLURM_ARRAY_TASK_ID")
        .or_else(|| of("SLURM_HET_JOB_ID", '+', "SLURM_HET_JOB_OFFSET"))
        .filter(|alias| khz_job::check_id(alias).is_ok())
}

/// The end of a job, from an epilog's variables.
pub fn end(id: String, variable: Variable<'_>) -> End {
    let outcome = variable("SLURM_JOB_EXIT_CODE2").and_then(|text| of_pair(&text));
    let outcome = outcome.or_else(|| of_wait_status(variable("SLURM_JOB_EXIT_CODE")?.parse().ok()?));
    End { id, outcome, end_ms: None }
}

/// `3:0`: exit code and signal.
fn of_pair(text: &str) -> Option<String> {
    let (code, signal) = text.split_once(':')?;
    outcome(code.parse().ok()?, signal.parse().ok()?)
}

/// As wait(2) has it.
fn of_wait_status(status: u32) -> Option<String> {
    outcome(status >> 8 & 0xff, status & 0x7f)
}

fn outcome(code: u32, signal: u32) -> Option<String> {
    Some(if signal == 0 { format!("exit {code}") } else { format!("signal {signal}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(all: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_prolog_of_slurmctld_tells_of_all_nodes_and_that_of_a_node_of_its_own() {
        let all = variables(&[
            ("SLURM_JOB_ID", "4711"),
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_JOB_USER", "ann"),
            ("SLURM_JOB_UID", "1001"),
            ("SLURM_JOB_NAME", "solve"),
            ("SLURM_JOB_START_TIME", "1700000000"),
        ]);
        let start_of_all = start(id(&all).unwrap(), &all);
        assert_eq!((&*start_of_all.nodes, start_of_all.add), ("n[1-3]", false));
        assert_eq!((start_of_all.uid, start_of_all.begin_ms), (Some(1_001), Some(1_700_000_000_000)));
        assert_eq!(start_of_all.alias, "");
        for (whole, part, alias) in [
            (("SLURM_ARRAY_JOB_ID", "4709"), ("SLURM_ARRAY_TASK_ID", "2"), "4709_2"),
            (("SLURM_HET_JOB_ID", "4710"), ("SLURM_HET_JOB_OFFSET", "1"), "4710+1"),
            (("SLURM_ARRAY_JOB_ID", "4709"), ("SLURM_ARRAY_TASK_ID", "a b"), ""),
            (("SLURM_ARRAY_JOB_ID", "4709"), ("SLURM_JOB_UID", "7"), ""),
        ] {
            let all = [("SLURM_JOB_ID", "4711"), whole, part];
            let all = variables(&all);
            assert_eq!(start(id(&all).unwrap(), &all).alias, alias);
        }
        let own = variables(&[("SLURM_JOBID", "4711"), ("SLURMD_NODENAME", "n2")]);
        let start_of_own = start(id(&own).unwrap(), &own);
        assert_eq!((&*start_of_own.nodes, start_of_own.add), ("n2", true));
    }

    #[test]
    fn an_epilog_tells_how_the_job_ended() {
        for (variable, value, expected) in [
            ("SLURM_JOB_EXIT_CODE2", "0:0", Some("exit 0")),
            ("SLURM_JOB_EXIT_CODE2", "3:0", Some("exit 3")),
            ("SLURM_JOB_EXIT_CODE2", "0:9", Some("signal 9")),
            ("SLURM_JOB_EXIT_CODE", "768", Some("exit 3")),
            ("SLURM_JOB_EXIT_CODE", "9", Some("signal 9")),
            ("SLURM_JOB_EXIT_CODE", "x", None),
        ] {
            let outcome = end("7".into(), &variables(&[(variable, value)])).outcome;
            assert_eq!(outcome.as_deref(), expected, "{variable}={value}");
        }
    }
}
