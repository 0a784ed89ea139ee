//! The jobs of a hub: their list as a daemon has it, opened as the plan says, and what it counts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_job::Jobs;
use khz_model::Metric;
use khz_model::metric::{Kind, Unit};

use crate::config::Plan;
use crate::role::state_dir;
use crate::show::outcome::sentence;

/// Opens the jobs that earlier starts have kept, and the place for more. Without that place, jobs end with this process.
pub fn open(plan: &Plan) -> Arc<Jobs> {
    let in_memory = || Arc::new(Jobs::in_memory());
    let Some(directory) = state_dir::find(plan, "jobs will not be kept") else { return in_memory() };
    match Jobs::open(&directory) {
        Ok(jobs) => jobs,
        Err(error) => {
            tracing::warn!("jobs will not be kept: {}", sentence(&error));
            in_memory()
        }
    }
}

/// What the list counts.
pub fn metrics(jobs: &Jobs) -> Vec<(Metric, Arc<AtomicU64>)> {
    let metric = |name: &'static str, exposition: &'static str, help: &str| Metric {
        help: help.to_owned().into(),
        ..Metric::plain(name, exposition, Kind::Counter, Unit::Count)
    };
    vec![
        (
            metric(
                "khz.jobs.changes",
                "khz_jobs_changes_total",
                "Starts and ends of jobs that changed the hub's list of them.",
            ),
            jobs.changes(),
        ),
        (
            metric(
                "khz.jobs.dropped",
                "khz_jobs_dropped_total",
                "Jobs that the hub has forgotten because its list of them was full; the one that ended first goes first.",
            ),
            jobs.dropped(),
        ),
    ]
}
