//! Patterns that name a job in place of nodes: `job(4711):cpu.all.user`. They become patterns of its nodes. Of control groups, a job has
//! only its own.

use khz_model::fold::fold;
use khz_model::name::NameError;
use khz_model::{Instance, Pattern};

use crate::error::JobError;
use crate::id::check_id;

/// How such a pattern begins.
const BEGIN: &str = "job(";
/// How names of the metrics of control groups begin, and those of the group of the whole node.
const GROUPS: &str = "cgroup.";
const ROOT_GROUP: &str = "cgroup.cpu.";
/// Bytes of the hosts of one pattern: a longer list becomes several patterns.
const HOSTS_BYTES: usize = 3_072;

/// The id of the job and the rest of a pattern that names one; `None`: it names none.
///
/// # Errors
/// It begins like one, and is none.
pub fn named(text: &str) -> Option<Result<(&str, &str), JobError>> {
    let rest = text.strip_prefix(BEGIN)?;
    let parts = rest.split_once(')').and_then(|(id, rest)| Some((id, rest.strip_prefix(':')?)));
    Some(match parts {
        Some((id, series)) => check_id(id).map(|()| (id, series)),
        None => Err(JobError::Unreadable(format!(
            "'{}' names no job: write job(ID):METRIC, as 'job(4711):cpu.all.user'",
            khz_model::printable::printable(text)
        ))),
    })
}

/// The patterns of these series on these nodes.
///
/// # Errors
/// The series are none.
pub fn of_nodes(id: &str, nodes: &[String], series: &str) -> Result<Vec<Pattern>, NameError> {
    let wanted = own(id, series)?;
    lists(nodes).iter().map(|hosts| Pattern::new(&format!("{hosts}:{wanted}"))).collect()
}

/// The series without the control groups of other jobs.
fn own(id: &str, series: &str) -> Result<String, NameError> {
    let pattern = Pattern::new(series)?;
    let (metric, instance) = (pattern.metric(), pattern.instance());
    let refused = |at, problem| Err(NameError { text: series.to_owned(), at, problem });
    if metric.starts_with(ROOT_GROUP) || !metric.starts_with(GROUPS) {
        let is_everything = metric == "*" && instance.is_none();
        return match may_mean_groups(metric) && !is_everything {
            false => Ok(series.to_owned()),
            true => refused(
                0,
                format!(
                    "'{metric}' also selects the control groups of other jobs: write cgroup.METRIC for those of the job, and name other metrics apart"
                ),
            ),
        };
    }
    let job = Instance::from_kernel(format!("job_{id}").as_bytes()).to_string();
    match instance {
        // On hosts with several slurmd a name stands between the two: slurm/n1/job_7.
        None | Some("*") => Ok(format!("{metric}[slurm/*{job}]")),
        Some(group) if is_own(group, &job) => Ok(series.to_owned()),
        Some(group) => {
            let at = series.find('[').unwrap_or_default();
            refused(at, format!("of control groups, a job has only its own: leave [{group}] out"))
        }
    }
}

/// True if a pattern of metrics may select those of control groups, though it does not name them.
fn may_mean_groups(metric: &str) -> bool {
    let literal = metric.split(['*', '?']).next().unwrap_or_default();
    literal.len() < metric.len() && GROUPS.starts_with(literal)
}

/// True if a pattern of control groups names the group of the job, or one below it: `slurm/n1/job_7/step_*`.
fn is_own(group: &str, job: &str) -> bool {
    group.strip_prefix("slurm/").is_some_and(|rest| rest.split('/').any(|part| part == job))
}

/// The nodes as hostlists that fit into a pattern.
fn lists(nodes: &[String]) -> Vec<String> {
    let text = fold(nodes);
    if text.len() <= HOSTS_BYTES || nodes.len() < 2 {
        return vec![text];
    }
    let (first, second) = nodes.split_at(nodes.len() / 2);
    [lists(first), lists(second)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(nodes: &[&str], series: &str) -> Vec<String> {
        let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        of_nodes("4711", &nodes, series).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_job_stands_for_its_nodes_and_for_its_own_control_groups() {
        assert!(named("node7:cpu.*").is_none() && named("job.progress").is_none());
        assert_eq!(named("job(4711_3):cpu.*[0]").unwrap().unwrap(), ("4711_3", "cpu.*[0]"));
        for wrong in ["job(4711", "job(4711)cpu", "job():cpu", "job(a b):cpu", "job(4711,4712):cpu"] {
            assert!(named(wrong).unwrap().is_err(), "{wrong}");
        }
        assert_eq!(texts(&["n1", "n2"], "cpu.all.user"), ["n[1-2]:cpu.all.user"]);
        for own in ["slurm/job_4711", "slurm/n1/job_4711", "slurm/*/job_4711/step_*"] {
            assert_eq!(texts(&["n1"], &format!("cgroup.io[{own}]")), [format!("n1:cgroup.io[{own}]")]);
        }
        for other in
            ["slurm/job_9", "slurm/job_47110", "slurm/*", "slurm/job_4711*", "system.slice", "*job_4711"]
        {
            let error = of_nodes("4711", &["n1".to_owned()], &format!("cgroup.io[{other}]")).unwrap_err();
            assert!(error.problem.contains("only its own") && error.at == 9, "{other}: {error:?}");
        }
        for unclear in
            ["c*", "cgroup*", "cgroup?memory", "*.memory", "?group.memory[*]", "*[slurm/job_9]", "**"]
        {
            let error = of_nodes("4711", &["n1".to_owned()], unclear).unwrap_err();
            assert!(error.problem.contains("of other jobs"), "{unclear}: {error:?}");
        }
        for clear in ["*", "cpu.*", "mem*", "cg", "job.*"] {
            assert_eq!(texts(&["n1"], clear), [format!("n1:{clear}")]);
        }
        assert_eq!(texts(&["n1"], "cgroup.cpu.*"), ["n1:cgroup.cpu.*"]);
        assert_eq!(texts(&["n1"], "net.*[*]"), ["n1:net.*[*]"]);
        let groups = texts(&["n1"], "cgroup.memory");
        assert_eq!(texts(&["n1"], "cgroup.memory[*]"), groups);
        let matches = |text: &str, group: &str| {
            let instance = Instance::from_kernel(group.as_bytes());
            Pattern::new(text).unwrap().matches_series("cgroup.memory", Some(&instance))
        };
        for (group, is_own) in [
            ("slurm/job_4711", true),
            ("slurm/n1/job_4711", true),
            ("slurm/job_47110", false),
            ("slurm/job_14711", false),
            ("slurm/job_4711/step_0", false),
            ("system.slice", false),
        ] {
            assert_eq!(groups.iter().any(|text| matches(text, group)), is_own, "{group}: {groups:?}");
        }
    }

    #[test]
    fn many_nodes_are_several_patterns_without_a_gap() {
        let nodes: Vec<String> = (0..2_000).map(|n| format!("a{n}b{}c", n * 7_919 % 10_007)).collect();
        let all = of_nodes("1", &nodes, "load.1m").unwrap();
        assert!(all.len() > 1);
        assert!(
            nodes.iter().all(|node| all.iter().filter(|pattern| pattern.matches_node(node)).count() == 1)
        );
    }
}
