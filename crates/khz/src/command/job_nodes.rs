//! Patterns that name a job, as `job(4711):cpu.all.user`: the one place where commands put the job's nodes in its place. The hub says which
//! nodes these are; without such a pattern nobody is asked.

use khz_ask::JobAnswer;
use khz_job::pattern;
use khz_model::hostlist::Hostlist;
use khz_model::{Nanos, Pattern};

use crate::command::past::{Span, now};
use crate::command::target::Target;
use crate::config::Plan;
use crate::show::outcome::Failure;

/// Patterns of nodes, and the jobs that they were written for.
pub struct Named {
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// The newest run of each job.
    jobs: Vec<JobAnswer>,
}

/// True if one of these texts names a job.
pub fn are_named(texts: &[String]) -> bool {
    texts.iter().any(|text| pattern::named(text).is_some())
}

/// The patterns that these texts mean.
pub fn patterns(texts: &[String], target: &Target, plan: &Plan) -> Result<Named, Failure> {
    let mut named = Named { patterns: Vec::new(), jobs: Vec::new() };
    for text in texts {
        match pattern::named(text) {
            None => named.patterns.extend(super::patterns(std::slice::from_ref(text))?),
            Some(job) => {
                let (id, series) = job.map_err(Failure::usage)?;
                let job = match named.jobs.iter().find(|job| job.id == id || job.alias == id) {
                    Some(known) => known.clone(),
                    None => last_run(target, plan, id)?,
                };
                named
                    .patterns
                    .extend(pattern::of_nodes(&job.id, &nodes(&job)?, series).map_err(Failure::usage)?);
                if !named.jobs.contains(&job) {
                    named.jobs.push(job);
                }
            }
        }
    }
    Ok(named)
}

/// The newest run of a job.
pub fn last_run(target: &Target, plan: &Plan, id: &str) -> Result<JobAnswer, Failure> {
    khz_job::check_id(id).map_err(Failure::usage)?;
    let runs = target.running(plan)?.job(id)?;
    runs.into_iter().next_back().ok_or_else(|| Failure::work(format!("the hub knows no run of job {id}")))
}

/// The names of its nodes.
pub fn nodes(job: &JobAnswer) -> Result<Vec<String>, Failure> {
    let nodes = Hostlist::new(&job.nodes).ok().and_then(|nodes| nodes.expand());
    nodes.ok_or_else(|| Failure::work(format!("the nodes of job {} are no hostlist: {}", job.id, job.nodes)))
}

impl Named {
    /// The time of all the jobs together, up to now; `None`: no job is named.
    pub fn span(&self) -> Option<Span> {
        let from = self.jobs.iter().map(JobAnswer::begin_time).min()?;
        let to = self.jobs.iter().map(|job| job.end_time().unwrap_or_else(now)).max()?;
        // A job that has just begun has a time, too.
        Some(Span { from, to: to.max(Nanos(from.0 + 1)) })
    }

    /// If all the jobs have ended: which one last, and when.
    pub fn ended(&self) -> Option<(&str, Nanos)> {
        let ends: Option<Vec<(Nanos, &str)>> =
            self.jobs.iter().map(|job| Some((job.end_time()?, &*job.id))).collect();
        ends?.into_iter().max().map(|(end, id)| (id, end))
    }
}
