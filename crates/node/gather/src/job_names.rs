//! The names that jobs have given, each with its metric. A name belongs to one metric: here, and at Prometheus,
//! where dots become underscores and units become part of the name. It keeps no values.

use std::sync::Arc;

use khz_model::{Exposition, Metric, Origin, Series};

use crate::jobs::JOB_METRICS_MAX;
use crate::publication::{Description, NAME_LABEL};

/// The names that jobs have given, in the order of their first lines.
#[derive(Debug, Default)]
pub struct JobNames(Vec<Arc<Metric>>);

/// Why a name is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobNameError {
    /// It is one too many.
    #[error("a node has at most {JOB_METRICS_MAX} names of jobs: use the same few names in all jobs")]
    TooMany,
    /// Another line uses it otherwise.
    #[error("{name} has an instance in one line and none in another: give it one always or never")]
    Mismatched {
        /// The name.
        name: String,
    },
    /// At Prometheus another name is the same.
    #[error(
        "{name} would be {exposed} at Prometheus, and so is {first}, which came first: rename one of them"
    )]
    Collided {
        /// The name.
        name: String,
        /// The name that came first.
        first: String,
        /// What both are at Prometheus.
        exposed: String,
    },
}

impl JobNames {
    /// The metrics of all names.
    pub fn metrics(&self) -> &[Arc<Metric>] {
        &self.0
    }

    /// Forgets the names that none of these series has.
    pub fn keep(&mut self, series: &[Series]) {
        self.0.retain(|metric| series.iter().any(|series| Arc::ptr_eq(&series.metric, metric)));
    }

    /// The metric of this name: the known one, or a new one.
    ///
    /// # Errors
    /// The limit is reached, the use of instances differs, or another name is the same at Prometheus.
    pub fn metric(&mut self, said: &Description) -> Result<Arc<Metric>, JobNameError> {
        let known = self.0.iter().find(|metric| metric.name == said.name);
        if let Some(known) = known {
            // Prometheus could not tell the two uses apart.
            let is_alike = known.instances.is_some() == said.instance.is_some();
            return is_alike
                .then(|| known.clone())
                .ok_or_else(|| JobNameError::Mismatched { name: said.name.clone() });
        }
        let exposed = Exposition::given_name(&said.name, said.kind, said.unit);
        if let Some(first) = self.0.iter().find(|metric| metric.exposition.name == exposed) {
            let (name, first) = (said.name.clone(), first.name.to_string());
            return Err(JobNameError::Collided { name, first, exposed });
        }
        if self.0.len() >= JOB_METRICS_MAX {
            return Err(JobNameError::TooMany);
        }
        let new = Arc::new(metric(said, exposed));
        self.0.push(new.clone());
        Ok(new)
    }
}

/// The metric that the first line with a name makes.
fn metric(said: &Description, exposed: String) -> Metric {
    let plain = Metric::plain(said.name.clone(), exposed, said.kind, said.unit);
    let help = if said.help.is_empty() { "Published by a job." } else { &said.help };
    let metric = Metric {
        value_type: said.format.value_type,
        places: said.format.places,
        help: help.to_owned().into(),
        origin: Origin { file: "a job".into(), ..plain.origin },
        ..plain
    };
    if said.instance.is_some() { metric.of_instances(NAME_LABEL) } else { metric }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publication::Publication;

    /// What the names answer to each line: the name at Prometheus, or the error.
    fn told(lines: &[&str]) -> Vec<String> {
        let mut names = JobNames::default();
        let told = |line: &&str| {
            let said = Publication::read(line).unwrap().describe().unwrap();
            names
                .metric(&said)
                .map_or_else(|error| error.to_string(), |metric| metric.exposition.name.to_string())
        };
        lines.iter().map(told).collect()
    }

    #[test]
    fn two_names_that_are_one_at_prometheus_are_refused_whatever_makes_them_one() {
        for (first, second, exposed) in [
            ("queue.length=1", "queue_length=1", "khz_job_queue_length"),
            ("queue_length=1", "queue.length=1", "khz_job_queue_length"),
            ("held=1 unit=bytes", "held_bytes=1", "khz_job_held_bytes"),
            ("steps_total=1", "steps=1 kind=counter", "khz_job_steps_total"),
            ("a.b[x]=1", "a_b=1", "khz_job_a_b"),
        ] {
            let name = |line: &str| format!("job.{}", line.split(['=', '[']).next().unwrap());
            let (one, two) = (name(first), name(second));
            let refused = format!(
                "{two} would be {exposed} at Prometheus, and so is {one}, which came first: rename one of them"
            );
            assert_eq!(told(&[first, second, first]), [exposed, &refused, exposed]);
        }
        assert_eq!(
            told(&["queue=1", "queue=1 unit=bytes", "queues=1"])[1..],
            ["khz_job_queue", "khz_job_queues"]
        );
    }

    #[test]
    fn a_name_has_an_instance_always_or_never() {
        assert_eq!(
            told(&["queue[a]=1", "queue=1"])[1],
            "job.queue has an instance in one line and none in another: give it one always or never"
        );
    }
}
