//! The list of jobs in memory: what a start and an end change, what is found, and what goes when it is full. Writes nothing: every change
//! says how it is undone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::change::{End, Start, folded};
use crate::error::JobError;
use crate::job::{Job, Source};
use crate::limits::{BYTES_MAX, JOBS_MAX, LINGER_MAX};

/// The outcome of a run of which nobody has said that it ended.
pub(crate) const LOST: &str = "lost";

/// Runs that a change has made or changed, each with what it was before.
pub(crate) type Changed = Vec<(u64, Option<Job>)>;

/// The list.
#[derive(Debug)]
pub(crate) struct JobList {
    runs: BTreeMap<u64, Job>,
    /// The runs of each id, oldest first.
    by_id: HashMap<String, Vec<u64>>,
    /// The same of each alias.
    by_alias: HashMap<String, Vec<u64>>,
    /// Runs that have ended, the one that ended first before the others.
    ended: BTreeSet<(i64, u64)>,
    next: u64,
    bytes: usize,
    /// Runs and bytes that there may be.
    max: (usize, usize),
}

impl Default for JobList {
    fn default() -> Self {
        JobList::with_max(JOBS_MAX, BYTES_MAX)
    }
}

impl JobList {
    pub(crate) fn with_max(jobs: usize, bytes: usize) -> Self {
        let (runs, by_id, by_alias, ended) = Default::default();
        JobList { runs, by_id, by_alias, ended, next: 1, bytes: 0, max: (jobs, bytes) }
    }

    /// A run.
    pub fn get(&self, run: u64) -> Option<&Job> {
        self.runs.get(&run)
    }

    /// All runs, oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Job> {
        self.runs.values()
    }

    /// The runs of an id, oldest first; if there are none, those of which it is the alias.
    pub fn of(&self, id: &str) -> impl DoubleEndedIterator<Item = &Job> {
        let runs = self.by_id.get(id).or_else(|| self.by_alias.get(id));
        runs.into_iter().flatten().filter_map(|run| self.runs.get(run))
    }

    /// The newest run of an id, without aliases.
    pub fn last(&self, id: &str) -> Option<&Job> {
        self.by_id.get(id).and_then(|runs| runs.last()).and_then(|run| self.runs.get(run))
    }

    /// Puts a run in, in place of an older state of it.
    pub fn put(&mut self, job: Job) -> Option<Job> {
        let before = self.take(job.run);
        self.next = self.next.max(job.run + 1);
        self.bytes += job.text_bytes();
        if let Some(end) = job.end {
            self.ended.insert((end, job.run));
        }
        index(&mut self.by_id, &job.id, job.run);
        if !job.alias.is_empty() {
            index(&mut self.by_alias, &job.alias, job.run);
        }
        self.runs.insert(job.run, job);
        before
    }

    /// Takes a run out.
    fn take(&mut self, run: u64) -> Option<Job> {
        let job = self.runs.remove(&run)?;
        self.bytes -= job.text_bytes();
        if let Some(end) = job.end {
            self.ended.remove(&(end, run));
        }
        forget(&mut self.by_id, &job.id, run);
        forget(&mut self.by_alias, &job.alias, run);
        Some(job)
    }

    /// Removes runs until the others have room: those that ended first, and where none has ended, those that began first. Returns how
    /// many.
    pub fn trim(&mut self) -> u64 {
        let mut count = 0;
        while self.runs.len() > self.max.0 || self.bytes > self.max.1 {
            let first = self.ended.first().map(|(_, run)| *run);
            let Some(run) = first.or_else(|| self.runs.keys().next().copied()) else { break };
            self.take(run);
            count += 1;
        }
        count
    }

    /// Makes a change as if it had not been, the last of them first.
    pub fn undo(&mut self, changed: Changed) {
        for (run, before) in changed.into_iter().rev() {
            self.take(run);
            if let Some(before) = before {
                self.put(before);
            }
        }
    }

    fn set(&mut self, job: Job, changed: &mut Changed) -> u64 {
        let run = job.run;
        if self.runs.get(&run) != Some(&job) {
            let before = self.put(job);
            changed.push((run, before));
        }
        run
    }

    /// Takes a start, which is checked. Returns the run, and what has changed: nothing, if the run is known as it is.
    pub fn start(&mut self, start: &Start, now: i64) -> Result<(u64, Changed), JobError> {
        // Nothing has begun in the future: that is a clock that differs.
        let begin = start.begin_ms.unwrap_or(now).min(now);
        let mut changed = Changed::new();
        let last = self.last(&start.id).cloned();
        let run = match last {
            Some(last) if last.is_running() && last.source == Source::Seen => {
                // What somebody says is more than what control groups show.
                let begin = last.begin.min(begin);
                self.set(Job { begin, ..made(last.run, start, begin) }, &mut changed)
            }
            Some(last) if last.is_running() && continues(&last, start) => {
                let joined = joined(&last, start)?;
                self.set(joined, &mut changed)
            }
            Some(last) if is_late(&last, start, begin) => {
                let joined = joined(&last, start)?;
                self.set(joined, &mut changed)
            }
            last => {
                if let Some(last) = last.filter(Job::is_running) {
                    let (end, outcome) = (Some(begin.max(last.begin)), Some(LOST.to_owned()));
                    self.set(Job { end, outcome, ..last }, &mut changed);
                }
                self.set(made(self.next, start, begin), &mut changed)
            }
        };
        Ok((run, changed))
    }

    /// Takes an end, which is checked. A run that has ended stays as it is, but for an outcome that nobody has said.
    pub fn end(&mut self, end: &End, now: i64) -> Result<(u64, Changed), JobError> {
        let last = self.last(&end.id).or_else(|| self.of(&end.id).next_back()).cloned();
        let last = last.ok_or_else(|| JobError::Unknown(end.id.clone()))?;
        let outcome = last.outcome.clone().filter(|outcome| outcome != LOST).or_else(|| end.outcome.clone());
        let at = end.end_ms.unwrap_or(now).clamp(last.begin, now.max(last.begin));
        let mut changed = Changed::new();
        let end = last.end.or(Some(at));
        let run = self.set(Job { end, outcome: outcome.or(last.outcome.clone()), ..last }, &mut changed);
        Ok((run, changed))
    }

    /// Control groups have the id on these nodes. Returns the run, if it is one that only control groups show.
    pub fn see(&mut self, id: &str, nodes: &[String], now: i64) -> Result<(Option<u64>, Changed), JobError> {
        let mut changed = Changed::new();
        let run = match self.last(id).cloned() {
            Some(last) if last.is_running() && last.source == Source::Told => None,
            Some(last) if last.is_running() => {
                let nodes = with(&last, nodes)?;
                Some(self.set(Job { nodes, ..last }, &mut changed))
            }
            Some(last) if last.end.is_some_and(|end| now < end.saturating_add(LINGER_MAX)) => None,
            _ => {
                let start = Start { id: id.to_owned(), nodes: folded(id, nodes)?, ..Start::default() };
                let job = Job { source: Source::Seen, ..made(self.next, &start, now) };
                Some(self.set(job, &mut changed))
            }
        };
        Ok((run, changed))
    }

    /// The control groups of a run are gone.
    pub fn is_gone(&mut self, run: u64, end: i64) -> Changed {
        let mut changed = Changed::new();
        let seen = |job: &&Job| job.is_running() && job.source == Source::Seen;
        if let Some(job) = self.runs.get(&run).filter(seen).cloned() {
            let end = Some(end.max(job.begin));
            self.set(Job { end, ..job }, &mut changed);
        }
        changed
    }
}

/// Notes a run of an id, in the order of the runs.
fn index(all: &mut HashMap<String, Vec<u64>>, id: &str, run: u64) {
    let of = all.entry(id.to_owned()).or_default();
    let at = of.partition_point(|known| *known < run);
    of.insert(at, run);
}

fn forget(all: &mut HashMap<String, Vec<u64>>, id: &str, run: u64) {
    let Some(of) = all.get_mut(id) else { return };
    of.retain(|known| *known != run);
    if of.is_empty() {
        all.remove(id);
    }
}

fn made(run: u64, start: &Start, begin: i64) -> Job {
    Job {
        run,
        id: start.id.clone(),
        alias: start.alias.clone(),
        name: start.name.clone(),
        user: start.user.clone(),
        uid: start.uid,
        nodes: start.nodes.clone(),
        begin,
        end: None,
        outcome: None,
        source: Source::Told,
    }
}

/// True if a start is about this run, which has not ended: it has the same nodes, or they become more.
fn continues(last: &Job, start: &Start) -> bool {
    start.add || last.nodes == start.nodes || {
        let start = Job { nodes: start.nodes.clone(), ..last.clone() };
        last.node_names().iter().all(|node| start.has_node(node))
    }
}

/// True if a start is about a run that has ended: the prolog of a slow node, or the same start once more.
fn is_late(last: &Job, start: &Start, begin: i64) -> bool {
    !last.is_running()
        && start.begin_ms.is_some()
        && match start.add {
            true => last.end.is_some_and(|end| begin < end) && begin >= last.begin,
            false => begin == last.begin && last.nodes == start.nodes,
        }
}

/// The run with the nodes of a start, and with what the run lacks.
fn joined(last: &Job, start: &Start) -> Result<Job, JobError> {
    let or = |old: &String, new: &String| if old.is_empty() { new.clone() } else { old.clone() };
    if !last.alias.is_empty() && !start.alias.is_empty() && last.alias != start.alias {
        return Err(JobError::Alias { id: last.id.clone(), alias: last.alias.clone() });
    }
    let nodes = match start.add {
        true => with(last, &Job { nodes: start.nodes.clone(), ..last.clone() }.node_names())?,
        false => start.nodes.clone(),
    };
    let (name, user) = (or(&last.name, &start.name), or(&last.user, &start.user));
    let alias = or(&last.alias, &start.alias);
    Ok(Job { nodes, alias, name, user, uid: last.uid.or(start.uid), ..last.clone() })
}

/// The nodes of a run and these.
fn with(job: &Job, nodes: &[String]) -> Result<String, JobError> {
    if nodes.iter().all(|node| job.has_node(node)) {
        return Ok(job.nodes.clone());
    }
    let mut all = job.node_names();
    all.extend_from_slice(nodes);
    folded(&job.id, &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(id: &str, nodes: &str) -> Start {
        Start { id: id.into(), nodes: nodes.into(), ..Start::default() }.checked().unwrap()
    }

    fn shown(list: &JobList) -> Vec<String> {
        let job = |job: &Job| {
            let end = job.end.map_or("-".to_owned(), |end| end.to_string());
            format!("{} {} {}..{end} {}", job.id, job.nodes, job.begin, job.outcome.as_deref().unwrap_or("-"))
        };
        list.all().map(job).collect()
    }

    #[test]
    fn a_task_of_an_array_is_found_by_the_id_that_its_users_know_unless_that_is_the_id_of_another_job() {
        let mut list = JobList::default();
        let start = |id: &str, alias: &str| Start {
            id: id.into(),
            alias: alias.into(),
            nodes: "n1".into(),
            ..Start::default()
        };
        for (id, alias) in [("5", "4_1"), ("4", "4_2"), ("5", "")] {
            list.start(&start(id, alias), 10).unwrap();
        }
        let found =
            |list: &JobList, id: &str| list.of(id).map(|job| (job.id.clone(), job.run)).collect::<Vec<_>>();
        assert_eq!(
            (found(&list, "4_1"), found(&list, "4_2")),
            (vec![("5".into(), 1)], vec![("4".into(), 2)])
        );
        assert_eq!(list.last("4_1"), None, "nobody starts it by that");
        let second = list.start(&start("5", "4_9"), 15).unwrap_err().to_string();
        assert!(second.contains("has the alias 4_1 already"), "{second}");
        let end = End { id: "4_2".into(), outcome: None, end_ms: None };
        assert_eq!(list.end(&end, 18).unwrap().0, 2, "but ends it");
        assert!(list.last("4").is_some_and(|job| job.end == Some(18)));
        // Control groups show a job of this id.
        list.see("4_1", &["n9".into()], 20).unwrap();
        assert_eq!(found(&list, "4_1"), [("4_1".into(), 3)]);
        list.take(3);
        list.take(1);
        assert_eq!((found(&list, "4_1"), list.by_alias.len()), (vec![], 1));
    }

    #[test]
    fn the_same_start_twice_is_one_run_and_prologs_of_nodes_come_together() {
        let mut list = JobList::default();
        list.start(&start("7", "n[1-2]"), 10).unwrap();
        let (run, changed) = list.start(&start("7", "n2,n1"), 20).unwrap();
        assert!(changed.is_empty() && run == 1);
        for node in ["n3", "n1", "n4"] {
            list.start(&Start { add: true, ..start("7", node) }, 30).unwrap();
        }
        assert_eq!(shown(&list), ["7 n[1-4] 10..- -"]);
        list.start(&start("7", "n[1-6]"), 40).unwrap();
        assert_eq!(shown(&list), ["7 n[1-6] 10..- -"], "a job may grow");
    }

    #[test]
    fn a_run_that_never_ended_ends_where_the_next_one_of_its_id_begins_on_other_nodes() {
        let mut list = JobList::default();
        list.start(&start("7", "n[1-2]"), 10).unwrap();
        list.start(&start("7", "n[3-4]"), 50).unwrap();
        assert_eq!(shown(&list), ["7 n[1-2] 10..50 lost", "7 n[3-4] 50..- -"]);
        // That one was requeued, and runs on the same nodes again.
        list.end(&End { id: "7".into(), outcome: Some("exit 0".into()), end_ms: None }, 60).unwrap();
        list.start(&start("7", "n[3-4]"), 70).unwrap();
        assert_eq!(shown(&list).len(), 3);
    }

    #[test]
    fn an_end_is_once_within_the_run_and_needs_a_start() {
        let mut list = JobList::default();
        let end =
            |at, outcome: Option<&str>| End { id: "7".into(), outcome: outcome.map(Into::into), end_ms: at };
        let error = list.end(&end(None, None), 5).unwrap_err().to_string();
        assert!(error.contains("khz job start 7 --nodes"), "{error}");
        list.start(&start("7", "n1"), 10).unwrap();
        list.end(&end(Some(3), None), 20).unwrap();
        assert_eq!(shown(&list), ["7 n1 10..10 -"], "no job ends before it has begun");
        list.end(&end(None, Some("exit 3")), 30).unwrap();
        assert_eq!(shown(&list), ["7 n1 10..10 exit 3"]);
        assert!(list.end(&end(None, Some("exit 4")), 40).unwrap().1.is_empty());
    }

    #[test]
    fn clocks_that_differ_make_no_job_of_the_future_and_a_late_prolog_makes_no_other_run() {
        let mut list = JobList::default();
        list.start(&Start { begin_ms: Some(9_000), ..start("7", "n1") }, 10).unwrap();
        assert_eq!(shown(&list), ["7 n1 10..- -"]);
        list.end(&End { id: "7".into(), outcome: None, end_ms: Some(8_000) }, 30).unwrap();
        list.start(&Start { begin_ms: Some(12), add: true, ..start("7", "n2") }, 40).unwrap();
        assert_eq!(shown(&list), ["7 n[1-2] 10..30 -"]);
    }

    #[test]
    fn what_control_groups_show_is_a_run_until_they_are_gone_and_what_is_told_wins() {
        let mut list = JobList::default();
        let nodes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let run = list.see("7", &nodes(&["n1"]), 10).unwrap().0.unwrap();
        list.see("7", &nodes(&["n1", "n2"]), 20).unwrap();
        assert_eq!(shown(&list), ["7 n[1-2] 10..- -"]);
        list.is_gone(run, 30);
        assert_eq!(shown(&list), ["7 n[1-2] 10..30 -"]);
        assert_eq!(list.see("7", &nodes(&["n1"]), 40).unwrap().0, None, "what is left of it");
        list.see("8", &nodes(&["n9"]), 100).unwrap();
        list.start(&Start { user: "ann".into(), ..start("8", "n[8-9]") }, 110).unwrap();
        assert_eq!(list.see("8", &nodes(&["n1"]), 120).unwrap().0, None);
        let job = list.last("8").unwrap();
        assert_eq!((job.begin, &*job.nodes, &*job.user), (100, "n[8-9]", "ann"));
    }

    #[test]
    fn a_full_list_loses_first_what_ended_first() {
        let mut list = JobList::with_max(3, 1 << 20);
        for id in ["1", "2", "3", "4"] {
            list.start(&start(id, "n1"), 10).unwrap();
            if id != "1" {
                list.end(&End { id: id.into(), ..End::default() }, 20).unwrap();
            }
            list.trim();
        }
        let ids: Vec<&str> = list.all().map(|job| &*job.id).collect();
        assert_eq!(ids, ["1", "3", "4"], "a job that runs stays");
        let mut list = JobList::with_max(3, 1 << 20);
        for id in ["1", "2", "3", "4"] {
            list.start(&start(id, "n1"), 10).unwrap();
        }
        assert_eq!(list.trim(), 1);
        assert!(list.last("1").is_none(), "where none has ended, the oldest goes");
        assert_eq!(list.by_id.len(), 3);
    }

    #[test]
    fn what_is_undone_was_never_there() {
        let mut list = JobList::default();
        list.start(&start("7", "n1"), 10).unwrap();
        let before = shown(&list);
        let (_, changed) = list.start(&start("7", "n2"), 20).unwrap();
        assert_eq!(changed.len(), 2);
        list.undo(changed);
        assert_eq!(shown(&list), before);
        assert_eq!((list.by_id["7"].len(), list.ended.len()), (1, 0));
    }
}
