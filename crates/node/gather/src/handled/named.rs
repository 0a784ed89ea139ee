//! The names of the series that a handler computes: results of a plan, functions of a window of each series, buckets, results of rules.
//! It computes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Instance, Kind, LabelError, Labels, Metric, Series, Unit, ValueFormat, ValueType};
use khz_plan::{Bucket, Judged, LabelSet, METRIC_NAME, RULE_METRIC, ResultSeries};

use super::Channel;

/// Labels that all results of one node share.
const SHARED_LABELS: [&str; 2] = ["instance", "job"];

/// The label with the metric of a result, where one expression gives results of several.
const METRIC_LABEL: &str = "metric";

/// The label with the bucket of a histogram.
const BUCKET_LABEL: &str = "bucket";

/// The metric of a channel's results.
pub(super) fn metric(channel: &Channel) -> Metric {
    let name = &channel.terms.name;
    let exposed = format!("khz_channel_{name}");
    let plain = Metric::plain(name.metric(), exposed, Kind::Gauge, Unit::Count);
    Metric { value_type: ValueType::Float, help: "Computed by a channel.".into(), ..plain }
}

/// The series of a handler's results.
pub(super) fn series_of(
    results: &[ResultSeries],
    channel: &Channel,
    readings: &[Series],
    metric: &Arc<Metric>,
) -> Vec<Series> {
    let has_names =
        results.windows(2).any(|two| two[0].labels.get(METRIC_NAME) != two[1].labels.get(METRIC_NAME));
    let mut named: HashMap<&str, Arc<Metric>> = HashMap::new();
    let mut of_rules: HashMap<u16, Arc<Metric>> = HashMap::new();
    let series = |result: &ResultSeries| {
        match result.judged {
            Some(Judged::Ready) => {
                return Series { metric: Arc::new(metric_of_rules(channel, "ready")), instance: None };
            }
            Some(Judged::Rule(rule)) => {
                let metric = of_rules
                    .entry(rule)
                    .or_insert_with(|| Arc::new(metric_of_rules(channel, &format!("r{rule}"))));
                let labels = own_labels(&result.labels).ok().filter(|labels| !labels.is_empty());
                let instance = labels.map(|labels| Instance::from_kernel(b"").with_labels(&labels));
                return Series { metric: metric.clone(), instance };
            }
            None => {}
        }
        let Some(of) = result.of.and_then(|of| readings.get(of as usize)) else {
            return Series { metric: metric.clone(), instance: instance(&result.labels, has_names) };
        };
        let metric = named
            .entry(&of.metric.name)
            .or_insert_with(|| Arc::new(metric_of_each(channel, &of.metric, result)));
        let instance = match result.bucket {
            Some(bucket) => Some(of_bucket(of.instance.as_ref(), bucket)),
            None => of.instance.clone(),
        };
        Series { metric: metric.clone(), instance }
    };
    results.iter().map(series).collect()
}

/// The metric of a function of a series of another one: it keeps name and unit, after the channel's name.
fn metric_of_each(channel: &Channel, of: &Metric, result: &ResultSeries) -> Metric {
    let name = &channel.terms.name;
    let full = format!("{}.{}", name.metric(), of.name);
    let exposed = format!("khz_channel_{name}_{}", of.name.replace('.', "_"));
    let ValueFormat { value_type, places } = result.format;
    let is_of_its_unit = value_type != ValueType::Float && result.bucket.is_none();
    let unit = if is_of_its_unit { of.unit } else { Unit::Count };
    let plain = Metric::plain(full, exposed, Kind::Gauge, unit);
    let instances = of.instances.clone();
    let labelled = match instances {
        Some(label) => plain.of_instances(label),
        None => plain,
    };
    Metric { value_type, places, help: "Computed by a channel.".into(), ..labelled }
}

/// The metric of the results of a rule, and of whether the node is ready to judge.
fn metric_of_rules(channel: &Channel, end: &str) -> Metric {
    let name = &channel.terms.name;
    let (full, exposed) = (format!("{}.{end}", name.metric()), format!("khz_channel_{name}_{end}"));
    let plain = Metric::plain(full, exposed, Kind::Gauge, Unit::Count);
    Metric { value_type: ValueType::Float, help: "Judged for the hub's rules.".into(), ..plain }
}

/// The labels of a result of a rule, its metric's name among them, without those that the hub gives.
pub(super) fn own_labels(labels: &LabelSet) -> Result<Labels, LabelError> {
    let own = labels.iter().filter(|(label, _)| !SHARED_LABELS.contains(label));
    Labels::new(
        own.map(|(label, value)| if label == METRIC_NAME { (RULE_METRIC, value) } else { (label, value) }),
    )
}

/// The instance of a bucket of a series.
fn of_bucket(of: Option<&Instance>, bucket: Bucket) -> Instance {
    let (none, bucket) = (Instance::from_kernel(b""), bucket.to_string());
    let of = of.unwrap_or(&none);
    match Labels::new(of.labels().chain([(BUCKET_LABEL, bucket.as_str())])) {
        Ok(labels) => of.with_labels(&labels),
        // Its series has such a label, or as many as there may be: their text tells the buckets apart.
        Err(_) => of.with_name_end(&format!(" {bucket}")),
    }
}

/// The labels of a result, without those that all results of a node share.
fn instance(labels: &LabelSet, has_names: bool) -> Option<Instance> {
    let named = labels.get(METRIC_NAME);
    let metric = (has_names && !named.is_empty()).then_some((METRIC_LABEL, named));
    let is_own = |label: &str| {
        label != METRIC_NAME
            && !SHARED_LABELS.contains(&label)
            && !(metric.is_some() && label == METRIC_LABEL)
    };
    let own = labels.iter().filter(|(label, _)| is_own(label)).chain(metric);
    match Labels::new(own) {
        Ok(set) if set.is_empty() => None,
        Ok(set) => Some(Instance::from_kernel(b"").with_labels(&set)),
        // More labels or bytes than a series may have: their text tells them apart.
        Err(_) => Some(Instance::from_kernel(labels.to_string().as_bytes())),
    }
}
