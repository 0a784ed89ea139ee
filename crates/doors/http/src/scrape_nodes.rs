//! `/metrics?nodes=HOSTLIST`: several nodes in one exposition. Each sample has the identity that Prometheus gives
//! to a node that it scrapes alone, and each node has `up`.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Nanos, NodeStatus, Pattern, Reading, Sample, Series, Snapshot, Stamp, exposed};

use crate::counters::count_n;
use crate::latest::collect;
use crate::limits::SCRAPE_READINGS_MAX;
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::routes::App;

/// The newest samples of the nodes that the pattern selects, and `up` of those that are down, too.
pub(crate) async fn snapshot(
    app: &App,
    roster: &Roster,
    nodes: &Pattern,
    collected: Option<Vec<Pattern>>,
) -> Result<Snapshot, Refusal> {
    let all = roster.nodes(&*app.query);
    let selected = || all.iter().filter(|status| nodes.matches_node(status.node.as_str()));
    let hosts = nodes.nodes().map_or_else(String::new, |hosts| format!("{hosts}:"));
    let has_all = collected.is_none();
    let wanted = collected.unwrap_or_else(|| vec![Pattern::everything()]);
    let of_nodes = wanted.iter().map(|pattern| Pattern::new(&format!("{hosts}{pattern}")));
    let mut found = collect(app, &of_nodes.collect::<Result<Vec<_>, _>>()?).await?;
    leave_out_up(app, &mut found);
    let mut samples: HashMap<_, _> = found.nodes.into_iter().collect();
    let (up, time) = (Arc::new(exposed::up_metric()), Arc::new(exposed::time_metric()));
    let shown = selected().map(|status| {
        // The last numbers of a node that is down must not pass for new ones.
        let mut samples = samples.remove(&status.node).filter(|_| status.up).unwrap_or_default();
        let reading = Reading::Present(u64::from(status.up));
        let series = Series { metric: up.clone(), instance: None };
        if has_all {
            exposed::add_time(&time, &mut samples);
        }
        samples.push(Sample { series, reading, stamp: Stamp { boot: Nanos(0), real_offset: 0 } });
        (status.node.clone(), samples)
    });
    Ok(Snapshot { nodes: shown.collect(), missing: Vec::new() })
}

/// About how many readings an exposition of these nodes has; refused if they are too many. It has the samples of all nodes at once,
/// since those of one name must be together.
pub(crate) fn readings(all: &[NodeStatus], nodes: &Pattern) -> Result<u64, Refusal> {
    let selected = all.iter().filter(|status| nodes.matches_node(status.node.as_str()));
    let readings: u64 = selected.filter(|status| status.up).map(slots).sum();
    if readings <= SCRAPE_READINGS_MAX {
        return Ok(readings);
    }
    let error = format!(
        "{readings} readings are too many for one scrape (at most {SCRAPE_READINGS_MAX}): select fewer nodes, or scrape each \
         by itself with http_sd_configs and /khz/v1/targets"
    );
    Err(Refusal::bad_request(error))
}

/// The slots of a node's widest lane.
pub(crate) fn slots(status: &NodeStatus) -> u64 {
    status.lanes.iter().map(|lane| lane.slots).max().unwrap_or(0)
}

/// Leaves out what a node itself names `up`: a node must not say that it is up, and a name comes once with its labels.
pub(crate) fn leave_out_up(app: &App, snapshot: &mut Snapshot) {
    for (_, samples) in &mut snapshot.nodes {
        let before = samples.len();
        samples.retain(|sample| sample.series.metric.exposition.name != exposed::UP);
        count_n(&app.counters.samples_left_out, (before - samples.len()) as u64);
    }
}
