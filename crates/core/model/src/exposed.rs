//! How a series looks to Prometheus: the labels of a sample, in the order in which `/metrics` writes them, and its number.
//! `/metrics`, PromQL and remote write share it, so that a series has the same name, labels and values everywhere. Escapes and
//! formats nothing.

use std::sync::Arc;

use crate::instance::Instance;
use crate::labels::Labels;
use crate::metric::{Kind, Metric, Unit};
use crate::name::NodeName;
use crate::query::Sample;
use crate::reading::Reading;
use crate::schema::Series;
use crate::value_type::Number;

/// The labels that say to which node a series belongs: the same labels as Prometheus gives to a node that it
/// scrapes directly.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The value of `instance`.
    pub node: &'a NodeName,
    /// The value of `job`.
    pub job: &'a str,
}

impl<'a> Identity<'a> {
    fn labels(self) -> [(&'static str, &'a str); 2] {
        [(INSTANCE, self.node.as_str()), (JOB, self.job)]
    }
}

/// The label that is the node's name.
pub const INSTANCE: &str = "instance";
/// The label that is the name which the site gives to all nodes.
pub const JOB: &str = "job";

/// All labels of a sample, without the name: its identity, its instance, the fixed labels of its metric, the further labels of
/// its instance; then its present description: the value of a series of labels, or of another series
/// ([`Metric::labels_from`]). If a name repeats, the first label stays, because Prometheus would refuse the samples of all
/// nodes.
pub fn labels<'a>(
    series: &'a Series,
    identity: Option<Identity<'a>>,
    description: Option<&'a Labels>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let exposition = &series.metric.exposition;
    let instance = series.instance.as_ref();
    let primary = instance.filter(|instance| !instance.name().is_empty());
    let primary = primary.map(|instance| (instance_label(&series.metric), instance.name()));
    let fixed = exposition.labels.iter().map(|(name, value)| (&**name, &**value));
    let further = instance.into_iter().flat_map(Instance::labels);
    let own = primary.into_iter().chain(fixed).chain(further);
    let has_identity = identity.is_some();
    let before = own.clone();
    let is_first = move |at: usize, name: &str| {
        let mut before = before.clone().take(at).map(|(taken, _)| exported(taken, has_identity));
        before.all(|taken| taken != exported(name, has_identity))
    };
    let is_free = is_first.clone();
    let own = own.enumerate().filter(move |(at, (name, _))| is_first(*at, name)).map(|(_, label)| label);
    let described = description.into_iter().flat_map(Labels::iter);
    let described = described.filter(move |(name, _)| is_free(usize::MAX, name));
    let own = own.chain(described).map(move |(name, value)| (exported(name, has_identity), value));
    identity.map(Identity::labels).into_iter().flatten().chain(own)
}

/// The label that carries the primary name of the metric's instances.
pub fn instance_label(metric: &Metric) -> &str {
    let label = metric.exposition.instance_label.as_deref().or(metric.instances.as_deref());
    label.unwrap_or(INSTANCE)
}

/// A label of a series beside the labels that say which node it is of: Prometheus renames these two in the same way where it
/// scrapes a node alone.
pub fn exported(name: &str, has_identity: bool) -> &str {
    match name {
        INSTANCE if has_identity => "exported_instance",
        JOB if has_identity => "exported_job",
        name => name,
    }
}

/// The number of a present reading, in the unit of Prometheus; `None`: it is none that this version can read.
pub fn number(metric: &Metric, bits: u64) -> Option<Number> {
    Some(metric.format().number(bits)?.divided_by(metric.exposition.divisor))
}

/// The value of a series that is labels.
pub const INFO_VALUE: f64 = 1.0;

/// The series by which a scraper says whether a target is up.
pub const UP: &str = "up";
/// The series that is the wall clock of a node at its newest row.
pub const TIME: &str = "node_time_seconds";
/// The metric of a node that has the same as a reading.
pub const TIME_OWN: &str = "system.time";
/// What it is.
pub const TIME_HELP: &str = "The node's wall clock when its newest row was gathered, in seconds since 1970.";

/// True for the names of the series that are made of the times of rows, where these are known.
pub fn is_of_rows(name: &str) -> bool {
    [UP, TIME].contains(&name)
}

/// [`UP`] as a metric: no node has it, whoever asks about several nodes makes it.
pub fn up_metric() -> Metric {
    let help = "1 while the node's agent is connected to the hub, else 0.".into();
    Metric { max: Some(1), help, ..Metric::plain(UP, UP, Kind::Gauge, Unit::Count) }
}

/// [`TIME`] as a metric: the stamp of a row. Only agents of this version also have it as a reading (`system.time`).
pub fn time_metric() -> Metric {
    Metric { places: 9, help: TIME_HELP.into(), ..Metric::plain(TIME, TIME, Kind::Gauge, Unit::Seconds) }
}

/// Adds [`TIME`] to the samples of a node, unless it has no row or another source says it. The node's own reading of its clock may be
/// some rows old where it was asked for at another moment, so the stamp takes its place.
pub fn add_time(metric: &Arc<Metric>, samples: &mut Vec<Sample>) {
    samples.retain(|sample| sample.series.metric.name != TIME_OWN);
    let Some(newest) = samples.iter().map(|sample| sample.stamp).max_by_key(|stamp| stamp.real()) else {
        return;
    };
    if samples.iter().any(|sample| sample.series.metric.exposition.name == TIME) {
        return;
    }
    let series = Series { metric: metric.clone(), instance: None };
    samples.push(Sample { series, reading: Reading::Present(newest.real().0), stamp: newest });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tests::series;
    use crate::{Nanos, Stamp};

    fn shown(series: &Series, identity: Option<Identity<'_>>, description: Option<&Labels>) -> String {
        let all = labels(series, identity, description).map(|(name, value)| format!("{name}={value}"));
        all.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn a_label_is_there_once_and_those_of_the_node_come_first() {
        let node = NodeName::new("n1").unwrap();
        let identity = Some(Identity { node: &node, job: "node" });
        let mut one = series("x", None, Some("eth0"));
        let metric = Arc::make_mut(&mut one.metric);
        metric.exposition.instance_label = None;
        metric.instances = None;
        metric.exposition.labels = vec![("mode".into(), "a".into())].into();
        let further = Labels::new([("mode", "b"), ("port", "1"), ("job", "j")]).unwrap();
        one.instance = one.instance.map(|instance| instance.with_labels(&further));
        let description = Labels::new([("port", "2"), ("pid", "7")]).unwrap();
        assert_eq!(shown(&one, None, Some(&description)), "instance=eth0,mode=a,job=j,port=1,pid=7");
        assert_eq!(
            shown(&one, identity, Some(&description)),
            "instance=n1,job=node,exported_instance=eth0,mode=a,exported_job=j,port=1,pid=7"
        );
    }

    #[test]
    fn the_newest_stamp_takes_the_place_of_the_nodes_own_clock_and_of_no_other_source() {
        let time = Arc::new(time_metric());
        let sample = |name: &'static str, family: &'static str, second: u64| {
            let metric = Arc::new(Metric::plain(name, family, Kind::Gauge, Unit::Seconds));
            let stamp = Stamp { boot: Nanos(second), real_offset: 100 };
            Sample { series: Series { metric, instance: None }, reading: Reading::Present(second), stamp }
        };
        let shown = |samples: &[Sample]| {
            let mut samples = samples.to_vec();
            add_time(&time, &mut samples);
            let shown = samples.iter().map(|sample| (sample.series.metric.name.to_string(), sample.reading));
            shown.collect::<Vec<_>>()
        };
        let (load, own) = (sample("load.1m", "node_load1", 7), sample(TIME_OWN, TIME, 5));
        let made = (TIME.to_owned(), Reading::Present(107));
        assert_eq!(shown(&[own, load.clone()]), [("load.1m".to_owned(), Reading::Present(7)), made]);
        assert_eq!(shown(&[load, sample("text.time", TIME, 5)]).len(), 2);
        assert_eq!(shown(&[]), []);
    }

    #[test]
    fn a_number_is_divided_as_it_is_printed() {
        let mut metric = (*series("x", None, None).metric).clone();
        metric.exposition.divisor = 1_024;
        assert_eq!(number(&metric, 1_536).map(|number| number.to_string()).as_deref(), Some("1.5"));
        metric.value_type = crate::ValueType::Labels;
        assert_eq!(number(&metric, 1_536), None);
    }
}
