//! Drains nodes and requeues their jobs with Slurm's own programs. Never resumes a node. Slurm must first confirm each name as the
//! name of exactly one node.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use khz_notify::Alert;
use khz_notify::program::Program;

use crate::command::{Result, outcome};
use crate::host::{host_of, is_host_name};
use crate::limits::{JOBS_MAX, REASON_BYTES_MAX, SLURM_BYTES_MAX};
use crate::record::Outcome;
use crate::settings::{Action, Kind, Slurm};

/// The beginning of every reason, so that people see who has drained a node.
const PREFIX: &str = "khz: ";

/// The access to Slurm.
pub(crate) struct Asker<'a> {
    pub slurm: &'a Slurm,
    pub timeout: Duration,
    pub dry_run: bool,
    pub is_over: &'a AtomicBool,
}

/// Why something did not come about.
type Answer<T> = std::result::Result<T, Result>;

impl Asker<'_> {
    /// Drains a node, unless it is drained.
    pub fn drain(&self, label: &str, reason: &str) -> Result {
        self.try_drain(label, reason).unwrap_or_else(|result| result)
    }

    /// Puts the jobs that run on a node back into their queue.
    pub fn requeue(&self, label: &str) -> Result {
        self.try_requeue(label).unwrap_or_else(|result| result)
    }

    fn try_drain(&self, label: &str, reason: &str) -> Answer<Result> {
        let node = self.node(label)?;
        let state = self.state(node)?;
        if is_drained(&state) {
            return Ok(Result::new(Outcome::Nothing, format!("{node} is drained already (State={state})")));
        }
        let words = [
            "update".to_owned(),
            format!("NodeName={node}"),
            "State=DRAIN".to_owned(),
            format!("Reason={}", reason_text(reason)),
        ];
        if self.dry_run {
            let text = format!("would run {} {} (State={state})", self.slurm.scontrol, words.join(" "));
            return Ok(Result::new(Outcome::DryRun, text));
        }
        self.ask(&self.slurm.scontrol, words.into())?;
        Ok(Result::new(Outcome::Done, format!("{node} drains: {}", reason_text(reason))))
    }

    fn try_requeue(&self, label: &str) -> Answer<Result> {
        let node = self.node(label)?;
        self.state(node)?;
        let words = ["-h", "-t", "RUNNING", "-o", "%i", "-w", node].map(str::to_owned);
        let printed = self.ask(&self.slurm.squeue, words.into())?;
        let Listed { jobs, unread } = Listed::of(&printed);
        // If jobs stay on the node, the run has failed.
        let (done, unread) = match unread.as_slice() {
            [] => (Outcome::Done, String::new()),
            [first, others @ ..] => {
                let (count, first) = (others.len() + 1, short(first));
                let text = format!(
                    "squeue lists {count} jobs that khz cannot read and leaves alone, the first is '{first}'"
                );
                (Outcome::Failed, text)
            }
        };
        match (jobs.is_empty(), unread.is_empty()) {
            (true, true) => return Ok(Result::new(Outcome::Nothing, format!("no job runs on {node}"))),
            (true, false) => return Ok(Result::new(Outcome::Failed, unread)),
            (false, _) => {}
        }
        let (more, list) = (jobs.len().saturating_sub(JOBS_MAX), jobs[..jobs.len().min(JOBS_MAX)].join(","));
        let mut beyond = if more == 0 { String::new() } else { format!(", and {more} more are left alone") };
        if !unread.is_empty() {
            beyond += &format!("; {unread}");
        }
        let words = ["requeue".to_owned(), list.clone()];
        if self.dry_run {
            let text = format!("would run {} {}{beyond}", self.slurm.scontrol, words.join(" "));
            let outcome = if done == Outcome::Done { Outcome::DryRun } else { done };
            return Ok(Result::new(outcome, text));
        }
        self.ask(&self.slurm.scontrol, words.into())?;
        Ok(Result::new(done, format!("jobs {list} of {node} wait again{beyond}")))
    }

    /// The name under which Slurm knows a node.
    fn node<'l>(&self, label: &'l str) -> Answer<&'l str> {
        let host = host_of(label);
        let host = match self.slurm.strips_domain {
            true => host.split('.').next().unwrap_or_default(),
            false => host,
        };
        match (host.is_empty(), is_host_name(host)) {
            (true, _) => Err(Result::new(Outcome::Failed, "the alert names no node")),
            (_, true) => Ok(host),
            (_, false) => {
                Err(Result::new(Outcome::Failed, format!("{host:?} is not the plain name of a host")))
            }
        }
    }

    /// The state of a node, which must be one that Slurm knows by this name.
    fn state(&self, node: &str) -> Answer<String> {
        let words = ["-o", "show", "node", node].map(str::to_owned);
        let printed = self.ask(&self.slurm.scontrol, words.into())?;
        let mut lines = printed.lines().filter(|line| line.contains("NodeName="));
        let (line, more) = (lines.next().unwrap_or_default(), lines.next().is_some());
        let field = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key));
        match (field("NodeName="), field("State=")) {
            (Some(name), Some(state)) if name == node && !more => Ok(state.to_owned()),
            _ => Err(Result::new(
                Outcome::Failed,
                format!("Slurm does not know '{node}' as one node: it says '{}'", short(printed.trim())),
            )),
        }
    }

    fn ask(&self, program: &str, words: Vec<String>) -> Answer<String> {
        let command: Vec<String> = std::iter::once(program.to_owned()).chain(words).collect();
        let conf = self.slurm.conf.iter().map(|path| ("SLURM_CONF".to_owned(), path.display().to_string()));
        let run = Program {
            command: &command,
            variables: conf.collect(),
            stdin: Vec::new(),
            timeout: self.timeout,
            output_max: SLURM_BYTES_MAX,
        };
        let run =
            run.run(self.is_over).map_err(|problem| Result::new(Outcome::Failed, problem.to_string()))?;
        match outcome(&run) {
            Outcome::Done => Ok(run.output),
            other => {
                // The text includes the node and the request. The reason of a drain is already in the log.
                let words = command.iter().map(String::as_str).filter(|word| !word.starts_with("Reason="));
                let what = short(&words.collect::<Vec<_>>().join(" "));
                Err(Result::new(other, format!("{what}: {}", run.sentence(self.timeout))))
            }
        }
    }
}

/// Why a node is drained, in the words of its alert.
pub(crate) fn reason_of(slurm: &Slurm, alert: &Alert) -> String {
    match (&slurm.reason, alert.annotations.get("summary")) {
        (Some(reason), _) => reason.clone(),
        (None, Some(summary)) if !summary.is_empty() => format!("{}: {summary}", alert.name()),
        (None, _) => alert.name().to_owned(),
    }
}

/// Drains this node at a user's request: `khz health`. `None`: the action is not a drain.
pub fn drain_by_hand(action: &Action, node: &str, reason: &str) -> Option<(Outcome, String)> {
    let Kind::Drain(slurm) = &action.kind else { return None };
    let is_over = AtomicBool::new(false);
    let (timeout, dry_run) = (action.timeout, action.dry_run);
    let result = Asker { slurm, timeout, dry_run, is_over: &is_over }.drain(node, reason);
    Some((result.outcome, result.text))
}

/// A reason with khz's prefix, in one line of plain letters.
fn reason_text(reason: &str) -> String {
    let plain = |c: char| if c == ' ' || c.is_ascii_graphic() && !"'\"\\`$|;".contains(c) { c } else { '_' };
    let text: String = reason.chars().map(plain).collect();
    let mut text = format!("{PREFIX}{}", text.trim());
    text.truncate(REASON_BYTES_MAX);
    text
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

/// What `squeue` has listed.
#[derive(Debug, PartialEq, Eq)]
struct Listed<'a> {
    /// The jobs, each once, by the names for `scontrol requeue`.
    jobs: Vec<&'a str>,
    /// Words that are not jobs, as far as khz can see.
    unread: Vec<&'a str>,
}

impl<'a> Listed<'a> {
    fn of(printed: &'a str) -> Self {
        let (jobs, unread): (Vec<&str>, Vec<&str>) =
            printed.split_whitespace().partition(|word| job(word).is_some());
        let mut jobs: Vec<&str> = jobs.into_iter().filter_map(job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        Listed { jobs, unread }
    }
}

/// The name for `scontrol requeue` of a job that `squeue` prints with `%i`: `12`, or `12_3`, a task of an array. The number of a
/// task alone is not enough: the last task of an array has the array's number, so all its tasks would be requeued, on all nodes.
/// The parts of a heterogeneous job (`12+0`) run together, and are requeued together.
fn job(listed: &str) -> Option<&str> {
    let name = listed.split('+').next()?;
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    name.split('_').all(is_number).then_some(name)
}

/// Whether one of a state's words means that the node is drained: `IDLE+DRAIN`, `DRAINED*`.
fn is_drained(state: &str) -> bool {
    state.split('+').any(|word| {
        let word = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        matches!(word, "DRAIN" | "DRAINED" | "DRAINING")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_say_drained_are_known() {
        for state in ["IDLE+DRAIN", "DRAINED*", "MIXED+DRAIN", "DOWN+DRAIN", "IDLE+DRAIN+NOT_RESPONDING"] {
            assert!(is_drained(state), "{state}");
        }
        for state in ["IDLE", "ALLOCATED", "DOWN*", "UNDRAIN", "MIXED+CLOUD", ""] {
            assert!(!is_drained(state), "{state}");
        }
    }

    #[test]
    fn what_is_listed_and_is_no_job_is_not_forgotten() {
        let listed = Listed::of("12\n7_1\n12+1\nslurm_load_jobs\n12_[4-9]\n");
        assert_eq!(listed, Listed { jobs: vec!["12", "7_1"], unread: vec!["slurm_load_jobs", "12_[4-9]"] });
    }

    #[test]
    fn a_task_of_an_array_is_called_so_and_parts_of_a_job_go_together() {
        for (listed, called) in [
            ("12", Some("12")),
            ("12_3", Some("12_3")),
            ("12+1", Some("12")),
            ("12_[4-9]", None),
            ("12_", None),
            ("_3", None),
            ("+1", None),
            ("--help", None),
            ("", None),
        ] {
            assert_eq!(job(listed), called, "{listed:?}");
        }
    }

    #[test]
    fn a_reason_is_one_short_line_that_says_who_gave_it() {
        assert_eq!(reason_text("Memory: n1 has 3 errors"), "khz: Memory: n1 has 3 errors");
        assert_eq!(reason_text("a\nState=RESUME '\"ü"), "khz: a_State=RESUME ___");
        assert_eq!(reason_text(&"x".repeat(1_000)).len(), REASON_BYTES_MAX);
    }
}
