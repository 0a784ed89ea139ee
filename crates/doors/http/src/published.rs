//! Which metrics of jobs the catalogue still lists: the metrics of a job that has ended leave it after a while. What the
//! job published stays in the history. It leaves alone what a node gathers itself: the catalogue lists that with or without a value.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use khz_model::{Absence, Metric, Nanos, NodeName, Part, Pattern, Query, Stay};

/// What the names of jobs' metrics begin with.
const PREFIX: &str = "job.";

/// What requests for the catalogue have found of these metrics.
#[derive(Debug)]
pub(crate) struct Published {
    began: Instant,
    /// At most one for each metric that the query knows.
    stays: Mutex<HashMap<String, Stay>>,
}

impl Default for Published {
    fn default() -> Self {
        Published { began: Instant::now(), stays: Mutex::default() }
    }
}

/// What the nodes report of these metrics.
#[derive(Debug, Default)]
struct Census {
    nodes: usize,
    there: HashSet<String>,
    gone: HashSet<String>,
}

impl Published {
    /// Leaves out the metrics that no node has had for a while.
    pub(crate) async fn sift(&self, query: &dyn Query, metrics: &mut Vec<Arc<Metric>>) {
        if !metrics.iter().any(|metric| metric.name.starts_with(PREFIX)) {
            return;
        }
        let Ok(pattern) = Pattern::new(&format!("{PREFIX}*")) else { return };
        let mut census = Census::default();
        {
            // The rows at hand are enough: nothing is gathered for this.
            let patterns = [pattern];
            let mut look = query.look_at(&patterns, Nanos(u64::MAX));
            if look.ready().await.is_err() {
                return;
            }
            while look.next(&mut |_: &NodeName, parts: &[Part<'_>]| census.count(parts)) {}
        }
        let now = Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut stays = self.stays.lock().unwrap_or_else(PoisonError::into_inner);
        sift(&mut stays, &census, query.nodes().len(), now, metrics);
    }
}

impl Census {
    /// Adds what one more node has.
    fn count(&mut self, parts: &[Part<'_>]) {
        const GONE: u8 = Absence::InstanceGone as u8;
        self.nodes += 1;
        for part in parts {
            for (series, &state) in part.columns.series().iter().zip(part.states) {
                let name = &series.metric.name;
                if name.starts_with(PREFIX) {
                    let among = if state == GONE { &mut self.gone } else { &mut self.there };
                    if !among.contains(&**name) {
                        among.insert(name.to_string());
                    }
                }
            }
        }
    }

    /// A metric that no counted node reports may belong to a node that is down: it is gone only if all nodes were counted.
    fn is_there(&self, name: &str, nodes: usize) -> bool {
        self.there.contains(name) || !self.gone.contains(name) && self.nodes < nodes
    }
}

fn sift(
    stays: &mut HashMap<String, Stay>,
    census: &Census,
    nodes: usize,
    now: Nanos,
    metrics: &mut Vec<Arc<Metric>>,
) {
    let before = std::mem::take(stays);
    metrics.retain(|metric| {
        let name = &*metric.name;
        if !name.starts_with(PREFIX) {
            return true;
        }
        let mut stay = before.get(name).copied().unwrap_or_default();
        let is_listed = stay.note(census.is_there(name, nodes), now);
        stays.insert(name.to_owned(), stay);
        is_listed
    });
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use khz_model::{
        Columns, Exposition, GONE_WHILE, Instance, Kind, Origin, Reading, Refresh, Series, Stamp, Unit,
    };

    use super::*;

    const THERE: Reading = Reading::Present(1);
    const GONE: Reading = Reading::Absent(Absence::InstanceGone);

    fn series(name: &'static str, instance: Option<&str>) -> Series {
        let text = Cow::Borrowed;
        let exposition = Exposition {
            help: None,
            name: text("x"),
            labels: Cow::Borrowed(&[]),
            instance_label: None,
            divisor: 1,
            untyped: false,
        };
        let metric = Metric {
            name: text(name),
            kind: Kind::Gauge,
            unit: Unit::Count,
            value_type: khz_model::ValueType::Unsigned,
            labels_from: None,
            places: 0,
            max: None,
            refresh: Refresh::Event,
            help: text("Help."),
            origin: Origin { file: text("a job"), field: text("x") },
            instances: None,
            exposition,
            flat: text("x"),
        };
        let instance = instance.map(|name| Instance::from_kernel(name.as_bytes()));
        Series { metric: Arc::new(metric), instance }
    }

    /// What the catalogue lists in this second if the nodes report this.
    fn listed(
        stays: &mut HashMap<String, Stay>,
        second: u64,
        nodes: &[&[(&'static str, Option<&str>, Reading)]],
        all: usize,
    ) -> Vec<String> {
        let mut census = Census::default();
        for node in nodes {
            let columns: Vec<Series> =
                node.iter().map(|(name, instance, _)| series(name, *instance)).collect();
            let columns: Arc<dyn Columns> = Arc::new(columns);
            let states: Vec<u8> = node.iter().map(|(_, _, reading)| reading.state()).collect();
            let part = Part { columns, stamp: Stamp::default(), values: &[], states: &states };
            census.count(&[part]);
        }
        let mut metrics: Vec<Arc<Metric>> =
            ["mem.free", "job.a", "job.b"].map(|name| series(name, None).metric).to_vec();
        sift(stays, &census, all, Nanos::from_secs(second), &mut metrics);
        metrics.iter().map(|metric| metric.name.to_string()).collect()
    }

    #[test]
    fn a_metric_that_no_job_publishes_any_more_leaves_the_catalogue_after_a_while() {
        let mut stays = HashMap::new();
        let both: &[_] = &[("job.a", None, THERE), ("job.b", Some("x"), THERE), ("job.b", Some("y"), GONE)];
        let one: &[_] = &[("job.a", None, THERE), ("job.b", Some("x"), GONE), ("job.b", Some("y"), GONE)];
        let all = ["mem.free", "job.a", "job.b"];
        assert_eq!(listed(&mut stays, 1, &[both], 1), all);
        assert_eq!(listed(&mut stays, 2, &[one], 1), all, "a job that is started again");
        assert_eq!(listed(&mut stays, 2 + GONE_WHILE.0 / 1_000_000_000, &[one], 1), ["mem.free", "job.a"]);
        assert_eq!(listed(&mut stays, 20, &[one, both], 2), all, "another node has it");
        // An agent that was restarted does not know what was there before; a node that is down may know it.
        assert_eq!(listed(&mut stays, 30, &[&[]], 2), all);
        assert_eq!(listed(&mut stays, 40, &[&[], &[]], 2), all);
        assert_eq!(listed(&mut stays, 60, &[&[], &[]], 2), ["mem.free"]);
        // If nobody asked before, nobody saw it there, and it is not listed.
        assert_eq!(listed(&mut HashMap::new(), 60, &[one], 1), ["mem.free", "job.a"]);
    }
}
