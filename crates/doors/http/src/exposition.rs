//! Writes a snapshot for Prometheus: the text format 0.0.4 or OpenMetrics 1.0, with node_exporter's names and
//! units. Samples of one family are written together. Absent and Failed readings are left out: unknown is
//! never 0.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use khz_model::exposed::{self, Identity};
use khz_model::{Kind, Labels, Metric, NodeName, Sample, Snapshot, Value};

use crate::descriptions::Descriptions;

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The media type with its version.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All samples of one name: several metrics may share it, with different labels.
struct Family<'a> {
    metric: &'a Metric,
    samples: Vec<(Option<&'a NodeName>, &'a Sample)>,
}

/// Writes the Present samples of `snapshot`. With a `job` every sample has the labels `instance`, which is its
/// node, and `job`: those that Prometheus gives to the series of a node that it scrapes alone.
pub fn render(snapshot: &Snapshot, format: Format, job: Option<&str>) -> String {
    Families::of(snapshot, format, job).whole()
}

/// Writes the Present samples that the answering program has about itself; they belong to no node.
pub fn render_own(samples: &[Sample], format: Format) -> String {
    Families::of_own(samples, format).whole()
}

/// An exposition in progress: the families, and the position in them.
pub(crate) struct Families<'a> {
    families: Vec<Family<'a>>,
    format: Format,
    /// The label `job` of samples that have their node as `instance`.
    job: Option<&'a str>,
    taken: HashSet<&'a str>,
    descriptions: Descriptions<'a>,
    /// The next family, and the next sample in it.
    at: (usize, usize),
}

impl<'a> Families<'a> {
    /// Begins with the Present samples of some nodes.
    pub fn of(snapshot: &'a Snapshot, format: Format, job: Option<&'a str>) -> Self {
        let samples = snapshot.nodes.iter().flat_map(|(node, samples)| {
            let node = job.map(|_| node);
            samples.iter().map(move |sample| (node, sample))
        });
        let descriptions = Descriptions::of(samples.clone());
        Families { job, descriptions, ..Families::new(families(samples), format) }
    }

    /// Begins with the samples that the answering program has about itself.
    pub fn of_own(samples: &'a [Sample], format: Format) -> Self {
        Families::new(families(samples.iter().map(|sample| (None, sample))), format)
    }

    fn new(families: Vec<Family<'a>>, format: Format) -> Self {
        let taken = families.iter().map(|family| &*family.metric.exposition.name).collect();
        Families { families, format, job: None, taken, descriptions: Descriptions::default(), at: (0, 0) }
    }

    /// Continues until `out` has this many bytes; `false`: all is written.
    pub fn go_on(&mut self, out: &mut String, full: usize) -> bool {
        let Families { families, format, job, taken, descriptions, at } = self;
        while let Some(family) = families.get(at.0) {
            let Some((node, sample)) = family.samples.get(at.1) else {
                *at = (at.0 + 1, 0);
                continue;
            };
            if out.len() >= full {
                return true;
            }
            if at.1 == 0 {
                head(out, family.metric, *format, taken);
            }
            let identity = node.zip(*job).map(|(node, job)| Identity { node, job });
            line(out, identity, sample, descriptions.of_sample(*node, sample).as_ref());
            at.1 += 1;
        }
        if *format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
        false
    }

    fn whole(mut self) -> String {
        let mut out = String::new();
        self.go_on(&mut out, usize::MAX);
        out
    }

    /// Bytes that it takes besides the samples.
    pub fn held(&self) -> u64 {
        let samples = self.families.iter().map(|family| family.samples.capacity());
        let each = size_of::<(Option<&NodeName>, &Sample)>();
        (samples.sum::<usize>() * each + self.families.len() * size_of::<Family<'_>>()) as u64
            + self.descriptions.held()
    }
}

/// The Present samples by family, in order of first appearance.
fn families<'a>(samples: impl Iterator<Item = (Option<&'a NodeName>, &'a Sample)>) -> Vec<Family<'a>> {
    let mut families: Vec<Family<'a>> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (node, sample) in samples.filter(|(_, sample)| is_shown(sample)) {
        let metric = &*sample.series.metric;
        let at = *index.entry(&metric.exposition.name).or_insert_with(|| {
            families.push(Family { metric, samples: Vec::new() });
            families.len() - 1
        });
        families[at].samples.push((node, sample));
    }
    families
}

/// True for a reading with a value: a number, or labels.
fn is_shown(sample: &Sample) -> bool {
    sample.series.metric.format().value(sample.reading).is_some()
}

/// The HELP, TYPE and UNIT lines.
fn head(out: &mut String, metric: &Metric, format: Format, taken: &HashSet<&str>) {
    let name = &*metric.exposition.name;
    let (name, kind) = match format {
        Format::Text => (name, type_in_text(metric)),
        Format::OpenMetrics => family_in_open_metrics(metric, name, taken),
    };
    let _ = write!(out, "# HELP {name} ");
    let help = metric.exposition.help.as_ref().unwrap_or(&metric.help);
    escape(out, help, format == Format::OpenMetrics);
    let _ = writeln!(out, "\n# TYPE {name} {kind}");
    let unit = metric.unit.as_str();
    if format == Format::OpenMetrics && name.strip_suffix(unit).is_some_and(|stem| stem.ends_with('_')) {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
}

fn type_in_text(metric: &Metric) -> &'static str {
    if metric.exposition.untyped { "untyped" } else { metric.kind.as_str() }
}

/// OpenMetrics writes a counter's family without the `_total` of its samples. A counter with another
/// node_exporter name, or whose name without `_total` belongs to another family, can only be `unknown` there.
fn family_in_open_metrics<'a>(
    metric: &Metric,
    name: &'a str,
    taken: &HashSet<&str>,
) -> (&'a str, &'static str) {
    match (metric.exposition.untyped, metric.kind) {
        (false, Kind::Gauge) => (name, "gauge"),
        (false, Kind::Counter) => match name.strip_suffix("_total") {
            Some(stem) if !taken.contains(stem) => (stem, "counter"),
            _ => (name, "unknown"),
        },
        (true, _) => (name, "unknown"),
    }
}

/// One sample with its identity, labels and value. Labels that describe it come after its own. A reading that is labels has
/// them there too, and the value 1.
fn line(out: &mut String, identity: Option<Identity<'_>>, sample: &Sample, description: Option<&Labels>) {
    let metric = &sample.series.metric;
    out.push_str(&metric.exposition.name);
    let value = metric.format().value(sample.reading);
    let info = match &value {
        Some(Value::Labels(labels)) => Some(labels),
        _ => description,
    };
    let mut before = '{';
    for (name, value) in exposed::labels(&sample.series, identity, info) {
        let _ = write!(out, "{before}{name}=\"");
        escape(out, value, true);
        out.push('"');
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
    let number = sample.reading.value().and_then(|bits| exposed::number(metric, bits));
    let _ = match number {
        Some(number) => writeln!(out, " {number}"),
        None => writeln!(out, " {}", exposed::INFO_VALUE),
    };
}

/// Escapes backslash, line feed and, in quoted text, the quote.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}
