//! Which series a selector can mean, as patterns: metrics by the condition on the name and by their fixed labels, nodes by
//! `instance`, instances by their label. Patterns may select more than the selector, never less; the labels of each series are
//! compared again.

use std::sync::Arc;

use khz_model::name::is_metric_name;
use khz_model::{Instance, Metric, NodeName, Pattern, ValueType, exposed, recorded};
use khz_promql::{METRIC_NAME, Matcher, Operator};

use crate::clock::{self, Derived};
use crate::limits::METRICS_NAMED_MAX;
use crate::nodes::{Known, Nodes};
use crate::values::Form;

/// The names that jobs of the past may have given: not all of them are among the known metrics.
const JOBS: &str = "job.*";
/// How names of jobs begin at Prometheus.
const JOBS_EXPOSED: &str = "khz_job";

/// What a selection reads.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub form: Form,
    nodes: Nodes,
    /// The patterns to ask for; empty: no series can match.
    pub patterns: Vec<Pattern>,
    /// The series to make from the times of rows.
    pub derived: Vec<Derived>,
    /// The patterns that give the times of rows.
    pub clock: Vec<Pattern>,
    /// All that it can mean is known, and has whole numbers: their sums are exact.
    pub is_exact: bool,
}

impl Chosen {
    /// The series that these conditions can match.
    pub fn of(matchers: &[Matcher], known: &Known) -> Self {
        let on = |name: &'static str| matchers.iter().filter(move |matcher| matcher.name == name);
        let nodes = Nodes::of(on(exposed::INSTANCE));
        let is_named = |name: &str| on(METRIC_NAME).all(|matcher| matcher.matches(name));
        let exact = on(METRIC_NAME).find(|matcher| matches!(matcher.operator, Operator::Equal));
        let is_exposed = |name: &str| known.metrics.iter().any(|metric| metric.exposition.name == name);
        let own = exact.filter(|name| name.value.contains('.') || !is_exposed(&name.value));
        let own = own.map(|name| &*name.value).filter(|name| is_metric_name(name));
        let own = own
            .filter(|name| name.contains('.') || known.metrics.iter().any(|metric| &*metric.name == *name));
        let has_job = on(exposed::JOB).all(|matcher| matcher.matches(&known.job));
        let (patterns, derived, clock) = Default::default();
        let mut chosen = Chosen { form: Form::Exposed, nodes, patterns, derived, clock, is_exact: false };
        let is_whole = |metric: &Metric| matches!(metric.value_type, ValueType::Unsigned | ValueType::Signed);
        if let Some(name) = own {
            chosen.form = Form::Own;
            let metric = known.metrics.iter().find(|metric| &*metric.name == name);
            let wanted = metric.map_or_else(
                || vec![name.to_owned()],
                |metric| with_description(metric, narrowed(Form::Own, metric, matchers)),
            );
            chosen.patterns = chosen.of_names(&wanted);
            chosen.is_exact = metric.is_some_and(|metric| is_whole(metric));
            return chosen;
        }
        if !has_job {
            return chosen;
        }
        let can_be = |metric: &&Arc<Metric>| {
            is_named(&metric.exposition.name)
                && !exposed::is_of_rows(&metric.exposition.name)
                && has_fixed(metric, matchers)
        };
        let metrics: Vec<&Arc<Metric>> = known.metrics.iter().filter(can_be).collect();
        let mut wanted: Vec<String> = match metrics.len() <= METRICS_NAMED_MAX {
            true => metrics
                .iter()
                .flat_map(|metric| with_description(metric, narrowed(Form::Exposed, metric, matchers)))
                .collect(),
            false => vec!["*".to_owned()],
        };
        let may_be_of_jobs = exact.is_none_or(|name| name.value.starts_with(JOBS_EXPOSED));
        if may_be_of_jobs && wanted != ["*"] {
            wanted.push(JOBS.to_owned());
        }
        let are_whole = !metrics.is_empty() && metrics.iter().all(|metric| is_whole(metric));
        chosen.patterns = chosen.of_names(&wanted);
        chosen.derived = Derived::ALL.into_iter().filter(|derived| is_named(derived.name())).collect();
        // Series that are made from the times of rows need the rows.
        chosen.is_exact = are_whole && !may_be_of_jobs && chosen.derived.is_empty();
        if !chosen.derived.is_empty() {
            chosen.clock = chosen.of_names(&clock::METRICS.map(str::to_owned));
        }
        chosen
    }

    /// The recorded series that these conditions can match.
    pub fn recorded(matchers: &[Matcher], known: &Known) -> Self {
        let equal = |matcher: &&Matcher| matches!(matcher.operator, Operator::Equal);
        let (names, labels): (Vec<&Matcher>, Vec<&Matcher>) =
            matchers.iter().filter(equal).partition(|matcher| matcher.name == METRIC_NAME);
        let name = names.first().map(|name| &*name.value);
        let labels: Vec<(&str, &str)> = labels
            .iter()
            .filter(|label| !label.value.is_empty())
            .map(|label| (&*label.name, &*label.value))
            .collect();
        let (nodes, patterns) = (Nodes::Listed(Vec::new()), recorded::patterns(&known.owners, name, &labels));
        let (derived, clock) = Default::default();
        Chosen { form: Form::Recorded, nodes, patterns, derived, clock, is_exact: false }
    }

    /// The times of rows of these nodes, and nothing else.
    pub fn of_nodes(&self, nodes: &[NodeName]) -> Chosen {
        let nodes = Nodes::these(nodes);
        let clock = patterns(&nodes, &clock::METRICS.map(str::to_owned));
        let (patterns, derived) = Default::default();
        Chosen { form: self.form, nodes, patterns, derived, clock, is_exact: false }
    }

    /// The patterns of one metric and instance on these nodes.
    pub fn of_series(&self, nodes: &[NodeName], metric: &str, instance: Option<&Instance>) -> Vec<Pattern> {
        let narrow = instance.map(|instance| format!("{metric}[{instance}]"));
        // An instance that no pattern can name: all of the metric.
        let narrow = narrow.filter(|text| Pattern::new(text).is_ok());
        patterns(&Nodes::these(nodes), &[narrow.unwrap_or_else(|| metric.to_owned())])
    }

    /// The patterns of these metrics on the nodes that can be meant.
    pub fn of_names(&self, metrics: &[String]) -> Vec<Pattern> {
        patterns(&self.nodes, metrics)
    }
}

/// False if a fixed label of the metric does not meet a condition.
fn has_fixed(metric: &Metric, matchers: &[Matcher]) -> bool {
    let first = exposed::instance_label(metric);
    let fixed = metric.exposition.labels.iter().filter(|(name, _)| name != first);
    fixed.into_iter().all(|(name, value)| {
        let name = exposed::exported(name, true);
        matchers.iter().filter(|matcher| matcher.name == name).all(|matcher| matcher.matches(value))
    })
}

/// The metric's pattern, with its instance if a condition says which one.
fn narrowed(form: Form, metric: &Metric, matchers: &[Matcher]) -> String {
    let label = form.instance_label(metric);
    let is_exact = |matcher: &&Matcher| matcher.name == label && matches!(matcher.operator, Operator::Equal);
    let exact = matchers.iter().find(is_exact).map(|matcher| &*matcher.value);
    let exact = exact.filter(|value| metric.instances.is_some() && !value.is_empty());
    match exact.and_then(Instance::from_text) {
        Some(instance) => format!("{}[{instance}]", metric.name),
        None => metric.name.to_string(),
    }
}

/// The same, and the metric that describes it.
fn with_description(metric: &Metric, pattern: String) -> Vec<String> {
    let description = metric.labels_from.as_deref().map(str::to_owned);
    [pattern].into_iter().chain(description).collect()
}

/// The patterns of these metrics on these nodes. One that is too long for a pattern cannot be the name of anything.
fn patterns(nodes: &Nodes, metrics: &[String]) -> Vec<Pattern> {
    let read = |text: String| Pattern::new(&text).ok();
    match nodes {
        Nodes::All => metrics.iter().cloned().filter_map(read).collect(),
        Nodes::Listed(lists) => lists
            .iter()
            .flat_map(|hosts| metrics.iter().map(move |metric| format!("{hosts}:{metric}")))
            .filter_map(read)
            .collect(),
    }
}
