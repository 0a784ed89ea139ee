//! Jobs that control groups show: which id a group has, and since when a run was not seen. Reads no group.

use std::collections::{BTreeMap, HashMap};

use crate::id::check_id;
use crate::jobs::Jobs;
use crate::limits::UNSEEN_MAX;

/// What control groups have shown.
#[derive(Debug, Default)]
pub struct Seen {
    /// By run.
    runs: HashMap<u64, Sighting>,
}

/// When a run was seen last (ms).
#[derive(Clone, Copy, Debug)]
struct Sighting {
    at: i64,
    /// It counts as unseen from here on: nodes that were away with the hub first come back.
    unseen_from: i64,
}

/// The id of the job of a control group, by the group's name: `slurm/job_7` or `slurm/NODE/job_7`. Groups below, such as those of steps,
/// are none.
pub fn id_of(group: &str) -> Option<&str> {
    let rest = group.strip_prefix("slurm/")?;
    let last = match rest.split_once('/') {
        None => rest,
        Some((_, last)) => last,
    };
    let id = last.strip_prefix("job_")?;
    check_id(id).is_ok().then_some(id)
}

impl Seen {
    /// Takes all groups that nodes have now: pairs of a node and the name of a group. Jobs of which there is none any more end.
    pub fn take<'a>(
        &mut self,
        jobs: &Jobs,
        groups: impl Iterator<Item = (&'a str, &'a str)>,
        now: i64,
    ) -> Result<(), crate::JobError> {
        let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (node, group) in groups {
            if let Some(id) = id_of(group) {
                nodes.entry(id).or_default().push(node.to_owned());
            }
        }
        for (id, nodes) in nodes {
            if let Some(run) = jobs.see(id, &nodes, now)? {
                self.runs.insert(run, Sighting { at: now, unseen_from: now });
            }
        }
        let running = jobs.seen_running();
        for run in &running {
            // If this start has not seen the run, an earlier start saw it, until that start ended.
            let earlier = || Sighting { at: jobs.worked_until().unwrap_or(now).min(now), unseen_from: now };
            let sighting = *self.runs.entry(*run).or_insert_with(earlier);
            if now - sighting.unseen_from > UNSEEN_MAX {
                jobs.is_gone(*run, sighting.at)?;
                self.runs.remove(run);
            }
        }
        if !running.is_empty() {
            jobs.note_works();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn the_group_of_a_job_has_its_id_and_those_below_have_none() {
        for (group, id) in [
            ("slurm/job_7", Some("7")),
            ("slurm/n1/job_7", Some("7")),
            ("slurm/job_7/step_0", None),
            ("slurm/n1/job_7/step_0", None),
            ("slurm/sABC", None),
            ("docker/job_7", None),
            ("slurm/job_", None),
        ] {
            assert_eq!(id_of(group), id, "{group}");
        }
    }

    #[test]
    fn a_job_is_there_from_its_first_group_to_its_last_one() {
        let (jobs, mut seen) = (Jobs::in_memory(), Seen::default());
        seen.take(&jobs, [("n1", "slurm/job_7"), ("n1", "slurm/job_7/step_0")].into_iter(), 1_000).unwrap();
        seen.take(&jobs, [("n1", "slurm/job_7"), ("n2", "slurm/job_7")].into_iter(), 5_000).unwrap();
        assert_eq!(jobs.last("7").unwrap().nodes, "n[1-2]");
        seen.take(&jobs, std::iter::empty(), 9_000).unwrap();
        assert!(jobs.last("7").unwrap().is_running(), "nodes may be silent for a moment");
        seen.take(&jobs, std::iter::empty(), 9_000 + UNSEEN_MAX).unwrap();
        assert_eq!(jobs.last("7").unwrap().end, Some(5_000));
    }

    #[test]
    fn a_job_that_ended_while_the_hub_was_away_ended_when_the_hub_did_and_one_that_goes_on_goes_on() {
        let place = std::env::temp_dir().join(format!("khz-seen-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let now = || i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let groups = [("n1", "slurm/job_7"), ("n1", "slurm/job_8")];
        let worked = {
            let jobs = Jobs::open(&place).unwrap();
            Seen::default().take(&jobs, groups.into_iter(), now() - 60_000).unwrap();
            now()
        };
        let (jobs, mut seen) = (Jobs::open(&place).unwrap(), Seen::default());
        // An hour later its nodes come back one by one.
        let later = now() + 3_600_000;
        seen.take(&jobs, std::iter::empty(), later).unwrap();
        assert!(jobs.last("7").unwrap().is_running() && jobs.last("8").unwrap().is_running());
        seen.take(&jobs, groups[1..].iter().copied(), later + UNSEEN_MAX).unwrap();
        seen.take(&jobs, groups[1..].iter().copied(), later + UNSEEN_MAX + 1).unwrap();
        assert!(jobs.last("8").unwrap().is_running());
        let end = jobs.last("7").unwrap().end.unwrap();
        assert!((worked - 5_000..=now()).contains(&end), "{end}, and the hub worked until {worked}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
