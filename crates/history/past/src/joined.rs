//! Series of the nodes of a job. A selector with the label `job_id` selects the series of the job's nodes in the job's time; of
//! control groups, only the job's own. The label is added while reading, and is never stored. Without the label, this source
//! behaves like the wrapped one.

use std::collections::HashMap;
use std::sync::Arc;

use khz_job::{Job, Jobs, Viewer};
use khz_model::exposed::{INSTANCE, JOB};
use khz_promql::{
    LabelSet, METRIC_NAME, Matcher, MatcherError, Operator, QueryError, Run, Selection, SeriesId, Sink,
    Source, Summaries, Summary, literal, stale,
};

use crate::limits::{JOB_INFO_EVERY, JOBS_JOINED_MAX};

/// The label that names a job.
pub const JOB_ID: &str = "job_id";
/// The series that says which job ran on which node: 1 while it runs.
pub const JOB_INFO: &str = "khz_job_info";
/// The label of control groups.
const GROUP: &str = "cgroup";

/// Samples of nodes, and of jobs.
pub struct JobJoin<S> {
    source: S,
    /// The jobs, and the viewer, who sees only some of them.
    jobs: Option<(Arc<Jobs>, Viewer)>,
    /// The label `job` of all nodes.
    job: Arc<str>,
    /// The present time (ms): no job has samples after it.
    now: i64,
}

impl<S: Source> JobJoin<S> {
    /// A source with its samples, and with jobs if there is a list of them.
    pub fn new(source: S, jobs: Option<(Arc<Jobs>, Viewer)>, job: Arc<str>, now: i64) -> Self {
        JobJoin { source, jobs, job, now }
    }

    /// The runs that a selector matches; `None`: it does not select by job.
    fn runs(&self, matchers: &[Matcher], span: (i64, i64)) -> Result<Option<Vec<Job>>, QueryError> {
        let Some((jobs, viewer)) = &self.jobs else { return Ok(None) };
        let on_id = || matchers.iter().filter(|matcher| matcher.name == JOB_ID);
        let is_meant = |id: &str| on_id().all(|matcher| matcher.matches(id));
        // A series without the label also meets these conditions.
        if is_meant("") && !is_info(matchers) {
            return Ok(None);
        }
        let (mut runs, is_more) = jobs.runs(is_meant, span, viewer, JOBS_JOINED_MAX);
        if is_more {
            return Err(QueryError::Execution(format!(
                "more than {JOBS_JOINED_MAX} runs of jobs are meant: name the jobs ({JOB_ID}=\"4711\"), or ask for a shorter time"
            )));
        }
        // A program may publish numbers with a label of this name.
        if runs.is_empty() && !is_info(matchers) {
            return Ok(None);
        }
        runs.sort_by_key(|run| (run.begin, run.run));
        Ok(Some(runs))
    }

    /// The selection for the nodes of a run, in the time of the run. `ended`: when the run before it ended.
    fn of_run(
        &self,
        wanted: &Selection,
        run: &Job,
        ended: Option<i64>,
    ) -> Result<Option<Selection>, QueryError> {
        let after = wanted.after.max(run.begin.saturating_sub(1)).max(ended.map_or(i64::MIN, |end| end + 1));
        let to = wanted.to.min(run.end.unwrap_or(i64::MAX));
        if after >= to {
            return Ok(None);
        }
        // The bounds of the run lie between those of the windows.
        let is_whole = (after, to) == (wanted.after, wanted.to);
        let summaries = match wanted.summaries {
            Summaries::WhereWhole if !is_whole => Summaries::WhereSamplesAreGone,
            same => same,
        };
        let matchers = of_nodes(&wanted.matchers, run)?;
        Ok(Some(Selection { matchers, after, to, summaries, ..*wanted }))
    }

    fn info(&self, wanted: &Selection, runs: &[Job], sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut last: HashMap<LabelSet, (SeriesId, i64)> = HashMap::new();
        for run in runs {
            let first = wanted.after.saturating_add(1).max(run.begin);
            let end = wanted.to.min(run.end.unwrap_or(i64::MAX)).min(self.now);
            for node in run.node_names() {
                let labels = self.info_labels(run, &node);
                if !wanted.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
                    continue;
                }
                let (id, before) = match last.get(&labels) {
                    Some(known) => *known,
                    None => (sink.series(labels.clone())?, i64::MIN),
                };
                let first = first.max(before.saturating_add(1));
                let next = first - first.rem_euclid(JOB_INFO_EVERY) + JOB_INFO_EVERY;
                let every = (next..end).step_by(JOB_INFO_EVERY.unsigned_abs() as usize);
                let times = [first].into_iter().chain(every).chain([end]).filter(|time| *time <= end);
                let mut times: Vec<i64> = times.collect();
                times.dedup();
                let mut values = vec![1.0; times.len()];
                if let Some(ended) = run.end.filter(|ended| *ended < wanted.to && !times.is_empty()) {
                    times.push(ended + 1);
                    values.push(stale());
                }
                if let Some(newest) = times.last() {
                    last.insert(labels, (id, *newest));
                    sink.samples(id, &times, &values)?;
                }
            }
        }
        Ok(())
    }

    fn info_labels(&self, run: &Job, node: &str) -> LabelSet {
        LabelSet::new([
            (METRIC_NAME, JOB_INFO),
            (JOB_ID, &*run.id),
            ("user", &*run.user),
            ("name", &*run.name),
            (INSTANCE, node),
            (JOB, &*self.job),
        ])
    }
}

/// True if a selector names the series about jobs.
fn is_info(matchers: &[Matcher]) -> bool {
    let is_it = |matcher: &Matcher| {
        matcher.name == METRIC_NAME
            && matches!(matcher.operator, Operator::Equal)
            && matcher.value == JOB_INFO
    };
    matchers.iter().any(is_it)
}

/// The conditions on series of the nodes of a run: those on the job are replaced by what follows from them.
fn of_nodes(matchers: &[Matcher], run: &Job) -> Result<Vec<Matcher>, QueryError> {
    let mut all: Vec<Matcher> = matchers.iter().filter(|matcher| matcher.name != JOB_ID).cloned().collect();
    all.push(Matcher::any_of(INSTANCE, &run.node_names()).map_err(unfit)?);
    let name = matchers
        .iter()
        .find(|matcher| matcher.name == METRIC_NAME && matches!(matcher.operator, Operator::Equal));
    // Only series of control groups have this label.
    if name.is_none_or(|name| name.value.contains(GROUP)) {
        let groups = format!("|slurm/([^/]+/)?job_{}(/.*)?", literal(&run.id));
        let matcher = Matcher::new(GROUP, "=~", &groups).expect("BUG: =~ is no operator");
        all.push(matcher.map_err(unfit)?);
    }
    Ok(all)
}

fn unfit(error: MatcherError) -> QueryError {
    QueryError::Execution(error.to_string())
}

impl<S: Source> Source for JobJoin<S> {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        let Some(runs) = self.runs(&wanted.matchers, (wanted.after, wanted.to))? else {
            return self.source.select(wanted, sink);
        };
        if is_info(&wanted.matchers) {
            self.info(wanted, &runs, sink)?;
            // A program may publish job.info, which gets the same name.
            return self.source.select(wanted, sink);
        }
        let (mut known, mut ended, mut warnings) = (HashMap::new(), HashMap::new(), Vec::new());
        for run in &runs {
            let Some(of_run) = self.of_run(wanted, run, ended.get(&run.id).copied())? else { continue };
            let mut labelled =
                Labelled { sink: &mut *sink, id: &run.id, known: &mut known, last: HashMap::new() };
            warnings.extend(self.source.select(&of_run, &mut labelled)?);
            if let Some(end) = run.end {
                labelled.end(end, wanted.to)?;
                ended.insert(run.id.clone(), end);
            }
        }
        warnings.sort();
        warnings.dedup();
        Ok(warnings)
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        let Some(runs) = self.runs(matchers, (after, to))? else {
            return self.source.series(matchers, after, to, limit);
        };
        let (mut all, mut is_more) = (Vec::new(), false);
        for run in &runs {
            if is_info(matchers) {
                let labels = run.node_names().into_iter().map(|node| self.info_labels(run, &node));
                all.extend(labels.filter(|labels| {
                    matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)))
                }));
            } else {
                let of_run = (after.max(run.begin.saturating_sub(1)), to.min(run.end.unwrap_or(i64::MAX)));
                let (found, is_cut) =
                    self.source.series(&of_nodes(matchers, run)?, of_run.0, of_run.1, limit)?;
                is_more |= is_cut;
                all.extend(found.into_iter().map(|labels| labels.with(JOB_ID, &run.id)));
            }
            if all.len() > limit {
                break;
            }
        }
        all.sort();
        all.dedup();
        is_more |= all.len() > limit;
        all.truncate(limit);
        Ok((all, is_more))
    }
}

/// Adds the label of a job to all passing series.
struct Labelled<'a> {
    sink: &'a mut dyn Sink,
    id: &'a str,
    /// The series that have begun, including those of other runs.
    known: &'a mut HashMap<LabelSet, SeriesId>,
    /// The time of the last sample of each series of this run.
    last: HashMap<SeriesId, i64>,
}

impl Labelled<'_> {
    /// Ends the series of a run that has ended, so that a look-back does not find it.
    fn end(self, end: i64, to: i64) -> Result<(), QueryError> {
        let mut last: Vec<(SeriesId, i64)> = self.last.into_iter().collect();
        last.sort_unstable();
        for (series, last) in last {
            let time = (end + 1).max(last + 1);
            if time <= to {
                self.sink.samples(series, &[time], &[stale()])?;
            }
        }
        Ok(())
    }

    fn note(&mut self, series: SeriesId, time: Option<i64>) {
        if let Some(time) = time {
            self.last.insert(series, time);
        }
    }
}

impl Sink for Labelled<'_> {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        let labels = labels.with(JOB_ID, self.id);
        if let Some(known) = self.known.get(&labels) {
            return Ok(*known);
        }
        let id = self.sink.series(labels.clone())?;
        self.known.insert(labels, id);
        Ok(id)
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        self.note(series, times.last().copied());
        self.sink.samples(series, times, values)
    }

    fn run(&mut self, series: SeriesId, run: &Run<'_>) -> Result<(), QueryError> {
        self.note(series, run.len().checked_sub(1).map(|last| run.sample(last).0));
        self.sink.run(series, run)
    }

    fn summaries(&mut self, series: SeriesId, summaries: &[Summary]) -> Result<(), QueryError> {
        self.note(series, summaries.last().map(|last| last.last.0));
        self.sink.summaries(series, summaries)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use khz_job::{End, Start};

    use super::*;

    /// A source of one series a node, with a sample each second; it notes what it was asked for.
    #[derive(Default)]
    struct Nodes(Mutex<Vec<(i64, i64)>>);

    const NODES: [&str; 3] = ["n1", "n2", "n3.x"];
    const NAMES: [(&str, &str); 3] = [("load", ""), ("memory", "slurm/job_7"), ("memory", "slurm/job_77")];

    fn all() -> impl Iterator<Item = LabelSet> {
        NODES.into_iter().flat_map(|node| {
            NAMES.map(|(name, group)| LabelSet::new([(METRIC_NAME, name), (INSTANCE, node), (GROUP, group)]))
        })
    }

    impl Source for Nodes {
        fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
            self.0.lock().unwrap().push((wanted.after, wanted.to));
            for labels in all() {
                if wanted.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
                    let id = sink.series(labels)?;
                    let times: Vec<i64> = (0..100_000)
                        .step_by(1_000)
                        .filter(|t| *t > wanted.after && *t <= wanted.to)
                        .collect();
                    sink.samples(id, &times, &vec![1.0; times.len()])?;
                }
            }
            Ok(Vec::new())
        }

        fn series(
            &self,
            matchers: &[Matcher],
            _: i64,
            _: i64,
            _: usize,
        ) -> Result<(Vec<LabelSet>, bool), QueryError> {
            let is_it = |labels: &LabelSet| matchers.iter().all(|m| m.matches(labels.get(&m.name)));
            Ok((all().filter(is_it).collect(), false))
        }
    }

    #[derive(Default)]
    struct Taken(Vec<(String, Vec<i64>, usize)>);

    impl Sink for Taken {
        fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
            let text = |name| labels.get(name).to_owned();
            self.0.push((format!("{} {} {}", text(JOB_ID), text(INSTANCE), text(GROUP)), Vec::new(), 0));
            Ok(SeriesId(self.0.len() - 1))
        }

        fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
            let (_, taken, stale) = &mut self.0[series.0];
            assert!(taken.last().is_none_or(|last| times.first().is_none_or(|first| first > last)));
            taken.extend_from_slice(times);
            *stale += values.iter().filter(|value| khz_promql::is_stale(**value)).count();
            Ok(())
        }
    }

    fn jobs() -> Arc<Jobs> {
        let jobs = Arc::new(Jobs::in_memory());
        let start = |id: &str, nodes: &str, at| {
            let start = Start { id: id.into(), nodes: nodes.into(), user: "ann".into(), ..Start::default() };
            jobs.start(start, at).unwrap();
        };
        start("7", "n1,n3.x", 10_500);
        jobs.end(End { id: "7".into(), ..End::default() }, 20_500).unwrap();
        start("7", "n1", 30_500);
        start("8", "n2", 50_000);
        jobs
    }

    fn selected(matchers: Vec<Matcher>) -> Vec<(String, Vec<i64>, usize)> {
        let join = JobJoin::new(Nodes::default(), Some((jobs(), Viewer::All)), Arc::from("node"), 99_000);
        let wanted = Selection {
            matchers,
            after: -1,
            to: 40_000,
            step: 0,
            window: 1,
            last_only: false,
            summaries: Summaries::Nowhere,
        };
        let mut taken = Taken::default();
        join.select(&wanted, &mut taken).unwrap();
        taken.0
    }

    #[test]
    fn a_job_has_the_series_of_its_nodes_in_its_time_and_its_own_control_groups() {
        let load = Matcher::equal(METRIC_NAME, "load");
        let taken = selected(vec![load, Matcher::equal(JOB_ID, "7")]);
        let names: Vec<&str> = taken.iter().map(|(name, ..)| &**name).collect();
        assert_eq!(names, ["7 n1 ", "7 n3.x "]);
        let first: Vec<i64> = (11..=20).map(|s| s * 1_000).chain([20_501]).collect();
        let second: Vec<i64> = (31..=40).map(|s| s * 1_000).collect();
        assert_eq!(taken[0].1, [first.clone(), second].concat(), "the series goes on in the second run");
        assert_eq!((&taken[1].1, taken[1].2), (&first, 1), "and ends with the first one");
        let any = selected(vec![Matcher::any_of(JOB_ID, &["7", "8"]).unwrap()]);
        let names: Vec<&str> = any.iter().map(|(name, ..)| &**name).collect();
        assert_eq!(names, ["7 n1 ", "7 n1 slurm/job_7", "7 n3.x ", "7 n3.x slurm/job_7"]);
    }

    #[test]
    fn without_the_label_the_source_is_asked_as_it_is() {
        for matcher in [
            Matcher::equal(INSTANCE, "n1"),
            Matcher::equal(JOB_ID, ""),
            Matcher::new(JOB_ID, "!=", "7").unwrap().unwrap(),
        ] {
            let taken = selected(vec![Matcher::equal(METRIC_NAME, "load"), matcher]);
            assert!(taken.iter().all(|(name, times, _)| name.starts_with(' ') && times.len() == 41));
        }
        assert!(selected(vec![Matcher::equal(JOB_ID, "nobody")]).is_empty());
    }

    #[test]
    fn a_series_says_which_job_runs_where() {
        let taken = selected(vec![Matcher::equal(METRIC_NAME, JOB_INFO)]);
        let names: Vec<&str> = taken.iter().map(|(name, ..)| &**name).collect();
        assert_eq!(names, ["7 n1 ", "7 n3.x "]);
        assert_eq!(taken[0].1, [10_500, 20_500, 20_501, 30_500, 40_000]);
    }

    #[test]
    fn listings_have_the_label_too() {
        let join = JobJoin::new(Nodes::default(), Some((jobs(), Viewer::All)), Arc::from("node"), 99_000);
        let (sets, is_more) = join.series(&[Matcher::equal(JOB_ID, "8")], 0, 99_000, 10).unwrap();
        assert!(!is_more && sets.len() == 1 && sets[0].get(JOB_ID) == "8", "{sets:?}");
    }
}
