//! The CPUs and the priority of a thread of the agent. It changes only the calling thread. If the kernel
//! refuses, the error names the missing privilege.

use std::fmt;
use std::fs;
use std::str::FromStr;

use rustix::io::Errno;
use rustix::thread::CpuSet;

use crate::sched;

/// The kernel lists the CPUs that it keeps free of ordinary work in these files.
const ISOLATED: [&str; 2] = ["/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"];

/// The settings for the scheduler. The default keeps everything as inherited, except that it avoids isolated
/// CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Only these CPUs. `None`: all CPUs that the kernel does not isolate.
    pub cpus: Option<CpuList>,
    /// The nice value, -20 (first) to 19 (last).
    pub nice: Option<i8>,
    /// The scheduling policy.
    pub sched: Option<Sched>,
}

/// A scheduling policy; see sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sched {
    /// The default policy.
    Other,
    /// For batch work that nobody waits for.
    Batch,
    /// Runs only when nothing else runs.
    Idle,
    /// Real time, priority 1 to 99: runs before all others until it sleeps.
    Fifo(u8),
    /// Real time, priority 1 to 99: takes turns with threads of the same priority.
    RoundRobin(u8),
}

/// A list of CPUs in the kernel's notation: `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

/// The kernel refused the placement.
#[derive(Debug, thiserror::Error)]
#[error("cannot run with {what}: {reason}{needs}")]
pub struct PlacementError {
    what: String,
    reason: String,
    /// The missing privilege, with the words that introduce it.
    needs: String,
}

impl Placement {
    /// Applies the placement to the calling thread.
    pub fn apply(&self) -> Result<(), PlacementError> {
        if let Some(cpus) = &self.cpus {
            pin(cpus)?;
        } else {
            keep_off_isolated();
        }
        if let Some(nice) = self.nice {
            // For Linux, "process" 0 is the calling thread.
            rustix::process::setpriority_process(None, nice.into()).map_err(|errno| {
                refused(
                    format!("--nice {nice}"),
                    errno,
                    &format!("CAP_SYS_NICE or, in its unit, Nice={nice}"),
                )
            })?;
        }
        if let Some(policy) = self.sched {
            let needs = match policy {
                Sched::Fifo(priority) | Sched::RoundRobin(priority) => {
                    format!("CAP_SYS_NICE or, in its unit, LimitRTPRIO={priority}")
                }
                _ => "CAP_SYS_NICE".to_owned(),
            };
            sched::set(policy).map_err(|errno| refused(format!("--sched {policy}"), errno, &needs))?;
        }
        Ok(())
    }
}

fn refused(what: String, errno: Errno, needs: &str) -> PlacementError {
    let needs = if matches!(errno, Errno::PERM | Errno::ACCESS) {
        format!("; it needs {needs}")
    } else {
        String::new()
    };
    PlacementError { what, reason: std::io::Error::from(errno).to_string(), needs }
}

fn pin(cpus: &CpuList) -> Result<(), PlacementError> {
    rustix::thread::sched_setaffinity(None, &cpus.set()).map_err(|errno| {
        let allowed = CpuList::allowed().map_or_else(|| "unknown".to_owned(), |list| list.to_string());
        let reason = match errno {
            Errno::INVAL => format!("this process may use none of these CPUs (allowed: {allowed})"),
            errno => std::io::Error::from(errno).to_string(),
        };
        PlacementError { what: format!("--cpu {cpus}"), reason, needs: String::new() }
    })
}

/// Moves the thread off the isolated CPUs. No setting asks for this, so a refusal is not an error.
fn keep_off_isolated() {
    let isolated: Vec<usize> = ISOLATED
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<CpuList>().ok())
        .flat_map(|list| list.0)
        .collect();
    let Some(allowed) = CpuList::allowed() else { return };
    if let Some(cpus) = allowed.without(&isolated)
        && let Err(error) = pin(&cpus)
    {
        tracing::debug!("{error}");
    }
}

impl CpuList {
    /// The CPUs that the calling thread may use.
    fn allowed() -> Option<Self> {
        let set = rustix::thread::sched_getaffinity(None).ok()?;
        Some(CpuList((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()))
    }

    /// These CPUs without `others`; `None` if that leaves none or changes nothing.
    fn without(&self, others: &[usize]) -> Option<Self> {
        let rest: Vec<usize> = self.0.iter().copied().filter(|cpu| !others.contains(cpu)).collect();
        (!rest.is_empty() && rest.len() < self.0.len()).then_some(CpuList(rest))
    }

    fn set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&cpu| set.set(cpu));
        set
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let most = CpuSet::MAX_CPU - 1;
            format!("'{text}' is not a list of CPUs from 0 to {most}: write it as 2 or 0-3,8")
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |digits: &str| digits.trim().parse::<usize>().ok().filter(|&n| n < CpuSet::MAX_CPU);
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
                _ => return Err(wrong()),
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(CpuList(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            [one] => one.to_string(),
            [] => String::new(),
        });
        f.write_str(&runs.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Sched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, priority) = text.split_once(':').unwrap_or((text, ""));
        let real_time = priority.parse::<u8>().ok().filter(|priority| (1..=99).contains(priority));
        match (word, priority, real_time) {
            ("other", "", _) => Ok(Sched::Other),
            ("batch", "", _) => Ok(Sched::Batch),
            ("idle", "", _) => Ok(Sched::Idle),
            ("fifo", _, Some(priority)) => Ok(Sched::Fifo(priority)),
            ("rr", _, Some(priority)) => Ok(Sched::RoundRobin(priority)),
            _ => Err(format!(
                "'{text}' is not a policy: write it as other, batch, idle, fifo:PRIO or rr:PRIO, with PRIO from 1 to 99"
            )),
        }
    }
}

impl fmt::Display for Sched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sched::Other => f.write_str("other"),
            Sched::Batch => f.write_str("batch"),
            Sched::Idle => f.write_str("idle"),
            Sched::Fifo(priority) => write!(f, "fifo:{priority}"),
            Sched::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_written_as_the_kernel_writes_them() {
        for (text, shown) in [("2", "2"), ("0-3,8", "0-3,8"), ("8,1,2,3,2", "1-3,8"), ("1023", "1023")] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), shown);
        }
        for text in ["", "a", "3-1", "1024", "0-99999999999", "1,,2", "-1"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn housekeeping_is_what_is_not_isolated() {
        let all: CpuList = "0-7".parse().unwrap();
        assert_eq!(all.without(&[2, 3, 4, 5, 6, 7]), Some("0-1".parse().unwrap()));
        assert_eq!(all.without(&[]), None, "nothing to change");
        assert_eq!(all.without(&[0, 1, 2, 3, 4, 5, 6, 7]), None, "nowhere to go");
    }

    #[test]
    fn policies_are_read_as_they_are_shown() {
        for text in ["other", "batch", "idle", "fifo:1", "rr:99"] {
            assert_eq!(text.parse::<Sched>().unwrap().to_string(), text);
        }
        for text in ["", "fifo", "fifo:0", "rr:100", "other:1", "deadline"] {
            assert!(text.parse::<Sched>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_thread_runs_as_it_was_told() {
        let cpu = CpuList::allowed().unwrap().0[0];
        let placement =
            Placement { cpus: Some(CpuList(vec![cpu])), nice: Some(7), sched: Some(Sched::Batch) };
        // A separate thread, so that its settings end with it.
        let (allowed, nice, policy) = std::thread::spawn(move || {
            placement.apply().unwrap();
            let nice = rustix::process::getpriority_process(None).unwrap();
            (CpuList::allowed().unwrap(), nice, fs::read_to_string("/proc/thread-self/sched").ok())
        })
        .join()
        .unwrap();
        assert_eq!((allowed, nice), (CpuList(vec![cpu]), 7));
        // SCHED_BATCH is 3; not every kernel has this file.
        let line = policy.as_deref().and_then(|text| text.lines().find(|line| line.starts_with("policy")));
        assert!(line.is_none_or(|line| line.trim_end().ends_with('3')), "{line:?}");
    }

    #[test]
    fn threads_that_a_thread_with_real_time_priority_starts_are_ordinary_ones() {
        for policy in [Sched::Fifo(1), Sched::RoundRobin(1)] {
            let placement = Placement { sched: Some(policy), ..Placement::default() };
            let policy_of = || {
                let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
                // Field 41 of proc_pid_stat(5), counted after the name.
                stat.rsplit(") ").next().unwrap().split(' ').nth(38).unwrap().to_owned()
            };
            let policies = std::thread::spawn(move || {
                placement.apply().map_err(|error| error.to_string())?;
                Ok::<_, String>((policy_of(), std::thread::spawn(policy_of).join().unwrap()))
            });
            match policies.join().unwrap() {
                Ok((own, started)) => {
                    assert_ne!(own, "0", "{policy} is real time");
                    assert_eq!(started, "0", "a thread that one with {policy} has started");
                }
                Err(refused) => khz_skip::skip(refused),
            }
        }
    }

    #[test]
    fn cpus_that_are_not_there_are_refused_with_those_that_are() {
        let placement = Placement { cpus: Some(CpuList(vec![CpuSet::MAX_CPU - 1])), ..Placement::default() };
        let error = std::thread::spawn(move || placement.apply().unwrap_err().to_string()).join().unwrap();
        assert!(
            error.starts_with(
                "cannot run with --cpu 1023: this process may use none of these CPUs (allowed: "
            ),
            "{error}"
        );
    }

    #[test]
    fn what_privilege_is_missing_is_said() {
        let error = refused("--sched fifo:10".into(), Errno::PERM, "CAP_SYS_NICE").to_string();
        assert_eq!(
            error,
            "cannot run with --sched fifo:10: Operation not permitted (os error 1); it needs CAP_SYS_NICE"
        );
    }
}
