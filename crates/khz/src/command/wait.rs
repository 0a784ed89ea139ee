//! `khz wait`: ends when a condition is true. The nodes judge it; this command sleeps until a row comes.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use khz_ask::{Column, Piece, Row};
use khz_channel::{About, Compared, Definition, Waited};
use khz_model::fold::fold;
use khz_model::{Kind, Nanos, Notice, Pattern, Rate, RateUnit, Unit, ValueType, suggest};
use serde_json::{Value, json};

use super::lasting::Lasting;
use super::target::Target;
use super::unknown_metrics;
use super::watch::asks_again;
use crate::config::{NodeFlags, Plan, ReaderFlags};
use crate::role::gatherer;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::{self, of_time};
use crate::show::table::{json_line, printable, remark};

/// Examples for `khz wait --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz wait 'mem.available < 1GiB'   sleeps until it is true; prints the row
  khz wait 'node3:load.1m > 8 and mem.available < 4GiB' --for 10s
                                    on node3, both for ten seconds
  khz wait 'n[1-8]:net.rx_bytes[eth0] > 100MB/s' --rate 10Hz
                                    on any of these, checked ten times a second
  khz wait 'disk.io_time[sda] > 90%' --timeout 5m && echo busy
  khz wait 'pressure.io.some.avg10 > 20%' --json
                                    the row as an object, for programs
  khz wait --expr 'avg_over_time(node_load1[1m]) > 4' --on 'node[1-8]'
                                    an expression in PromQL (docs/plan.md)

A condition is SERIES < VALUE, or several such parts with 'and'. Series have
khz's own names (`khz catalog` lists them). Values have units: 1GiB, 10ms, 5%,
2GHz, 100MB/s. If a value has /s, khz compares it with the rate of a counter.
Comparisons: < <= > >= == !=.

Exit codes: 0 the condition is true, 1 it did not become true in time
(--timeout) or nobody can judge it, 2 wrong usage.";

/// `khz wait`.
#[derive(Debug, Args)]
pub struct WaitFlags {
    /// The condition: SERIES < VALUE, as 'node3:mem.available < 1GiB'.
    #[arg(value_name = "CONDITION", required_unless_present = "expr", conflicts_with = "expr")]
    pub condition: Option<String>,
    /// The condition in PromQL: it is true when it has a value.
    #[arg(long, value_name = "PROMQL", allow_hyphen_values = true)]
    pub expr: Option<String>,
    /// With --expr: on these nodes, as a hostlist [default: any].
    #[arg(long, value_name = "NODES", requires = "expr")]
    pub on: Option<String>,
    /// It must be true for this long.
    #[arg(long = "for", value_name = "DURATION", allow_hyphen_values = true)]
    pub holds: Option<String>,
    /// Give up after this time, with exit code 1.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Nanos>,
    /// How often the nodes look: 10Hz, or a period: 5s.
    #[arg(long, value_name = "RATE", default_value = "1Hz", allow_hyphen_values = true)]
    pub rate: Rate,
    /// The row that made it true as a JSON object.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// The name of the metric of the rows.
const METRIC: &str = "channel.adhoc";

/// The label of a value that says of which metric it is, where there are several.
const METRIC_LABEL: &str = "metric=";

/// Waits and prints the row that made it true.
pub fn run(flags: WaitFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    // clap does not check what a flag requires where an argument excludes that.
    if let (Some(nodes), Some(condition)) = (&flags.on, &flags.condition) {
        return Err(Failure::usage(
            match condition.split(['<', '>', '=', '!']).next().is_some_and(|series| series.contains(':')) {
                true => "--on goes with --expr: this condition says itself which nodes it means".to_owned(),
                false => {
                    format!(
                        "--on goes with --expr: write the nodes before the series, as '{nodes}:{condition}'"
                    )
                }
            },
        ));
    }
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let metrics = Metrics::of(&flags.target, &plan);
    let waited = match (&flags.condition, flags.expr) {
        (Some(text), _) => {
            Waited::read(text, flags.rate, |metric| metrics.about(metric)).map_err(Failure::usage)?
        }
        (None, expr) => Waited { nodes: flags.on, expr: expr.unwrap_or_default(), compared: Vec::new() },
    };
    let parts = waited.clone();
    let (known, unknown): (Vec<&Compared>, Vec<_>) =
        waited.compared.iter().partition(|one| metrics.about(&one.metric).is_some());
    // A series of a metric that is there may be missing: an instance is easily misspelt.
    let one_by_one = known.iter().filter(|one| one.pattern.instance().is_some());
    let instances: Vec<Pattern> = one_by_one.map(|one| one.pattern.clone()).collect();
    for sentence in flags.target.unmatched(&plan, &instances) {
        remark!("{sentence}; khz waits for it");
    }
    for Compared { metric, .. } in unknown {
        let hint = suggest::hint(metric, metrics.names());
        remark!("no metric is called {metric} so far{hint}; khz waits for it");
    }
    let definition = Definition {
        name: "adhoc".to_owned(),
        nodes: waited.nodes,
        expr: Some(waited.expr),
        rate: Some(flags.rate.to_string().trim_start_matches("every ").to_owned()),
        holds: flags.holds,
        ..Definition::default()
    };
    let interest = definition.interest().map_err(Failure::usage)?;
    if flags.condition.is_none() {
        let catalogue = flags.target.catalogue(&plan).unwrap_or_default();
        unknown_metrics::sentences(&definition, catalogue).iter().for_each(|sentence| remark!("{sentence}"));
    }
    let until = flags.timeout.and_then(|span| Instant::now().checked_add(span.into()));
    let what = What { condition: flags.condition.as_deref(), metrics: &metrics, waited: &parts };
    let mut wait = Wait { until, ..Wait::new(flags.timeout, named(&definition)) };
    let mut rows = flags.target.channel(&plan, &definition, interest, wait.left())?.until(until);
    let found = wait.row(&mut rows)?;
    if flags.json {
        writeln!(out, "{}", json_line(&found.json(&what)))?;
    } else {
        writeln!(out, "{}", printable(&found.text(&what)))?;
    }
    out.flush()?;
    Ok(Done::Wholly)
}

/// The nodes that a definition names one by one.
fn named(definition: &Definition) -> Option<BTreeSet<String>> {
    let patterns = definition.patterns().ok()?;
    let nodes = patterns.first()?.nodes()?.expand()?;
    Some(nodes.into_iter().collect())
}

fn wait_left(until: Option<Instant>) -> Option<Duration> {
    until.map(|until| until.saturating_duration_since(Instant::now()))
}

/// A wait for a row.
struct Wait {
    until: Option<Instant>,
    timeout: Option<Nanos>,
    /// The nodes, where they are named one by one.
    named: Option<BTreeSet<String>>,
    /// Those that cannot judge the condition.
    refused: BTreeSet<String>,
    /// Those of them that do not try again by themselves.
    refused_for_good: BTreeSet<String>,
}

/// The row that made the condition true.
struct Found {
    node: String,
    columns: Vec<Column>,
    row: Row,
}

impl Wait {
    fn new(timeout: Option<Nanos>, named: Option<BTreeSet<String>>) -> Self {
        let (refused, refused_for_good) = Default::default();
        Wait { until: None, timeout, named, refused, refused_for_good }
    }

    fn left(&self) -> Option<Duration> {
        wait_left(self.until)
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Waits for the first row.
    fn row(&mut self, rows: &mut Lasting) -> Result<Found, Failure> {
        let mut columns: Vec<(String, Vec<Column>)> = Vec::new();
        while !self.is_over() {
            match rows.next() {
                Ok(Some(pieces)) => {
                    for piece in pieces {
                        if let Some(found) = self.take(piece, &mut columns)? {
                            return Ok(found);
                        }
                    }
                }
                Err(_) if self.is_over() => break,
                Ok(None) if self.is_over() => break,
                Ok(None) => return Err(Failure::work("the rows of this machine have ended; wait again")),
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::work(not_in_time(self.timeout.unwrap_or_default(), &self.refused)))
    }

    /// Takes one piece; returns the row if it has one.
    fn take(
        &mut self,
        piece: Piece,
        known: &mut Vec<(String, Vec<Column>)>,
    ) -> Result<Option<Found>, Failure> {
        match piece {
            Piece::Columns { node, columns, .. } => {
                known.retain(|(name, _)| *name != node);
                known.push((node, columns));
            }
            Piece::Rows { node, rows, .. } => {
                let columns =
                    known.iter().find(|(name, _)| *name == node).map(|(_, columns)| columns.clone());
                if let (Some(columns), Some(row)) = (columns, rows.into_iter().next()) {
                    return Ok(Some(Found { node, columns, row }));
                }
            }
            Piece::Misses(misses) => {
                for sentence in misses.sentences() {
                    remark!("{sentence}; khz waits for it");
                }
            }
            Piece::Notice { nodes, text, is_refusal } => {
                remark!("{}: {text}", fold(&nodes));
                if is_refusal || is_said_to_refuse(&text) {
                    if !text.contains(Notice::TRIES_AGAIN) {
                        self.refused_for_good.extend(nodes.iter().cloned());
                    }
                    self.refused.extend(nodes);
                } else if text == Notice::SENDS_NOW {
                    for node in &nodes {
                        self.refused.remove(node);
                        self.refused_for_good.remove(node);
                    }
                }
                // Nodes that refuse it for now may have memory before the time is over.
                if self.named.as_ref().is_some_and(|named| named.is_subset(&self.refused_for_good)) {
                    return Err(Failure::work("none of these nodes can judge the condition"));
                }
            }
            Piece::Change { nodes, text, .. } => remark!("{} {text}", fold(&nodes)),
            Piece::Server { server, is_silent, .. } => match is_silent {
                true => remark!("{server} is not heard; khz waits for it"),
                false => remark!("{server} is back"),
            },
            // What is waited for has no name by which somebody could change it.
            Piece::Channel { .. } => known.clear(),
            Piece::Gone { text, is_there } => {
                known.clear();
                remark!("{}", asks_again(&text, is_there));
            }
            Piece::Again { away: Duration::ZERO } => known.clear(),
            Piece::Again { away } => {
                remark!("the wait goes on; nobody was asked for {}", of_time(away))
            }
        }
        Ok(None)
    }
}

/// Why a wait has ended without a row. A condition that some nodes could not judge may have been true there.
fn not_in_time(timeout: Nanos, refused: &BTreeSet<String>) -> String {
    let sentence = format!("it did not come true within {timeout}");
    if refused.is_empty() {
        return sentence;
    }
    format!("{sentence} at the nodes that could judge it; not among them, as said above: {}", fold(refused))
}

/// Whether a node that says this will never send a row: it cannot execute this channel, or none at all. Hubs of before do not mark
/// such notices.
fn is_said_to_refuse(text: &str) -> bool {
    text.starts_with("channel ") || text.contains("no handlers") || text.contains("older than channels")
}

/// What the values of the row are, for people.
struct What<'a> {
    condition: Option<&'a str>,
    metrics: &'a Metrics,
    waited: &'a Waited,
}

impl What<'_> {
    /// What the value of a series is of, and the other labels of that series.
    fn part(&self, series: &str) -> (Option<&Compared>, String) {
        let labels = series.strip_prefix(METRIC).unwrap_or_default();
        let named = labels.trim_start_matches('[').trim_end_matches(']').split(',');
        let metric = named.clone().find_map(|label| label.strip_prefix(METRIC_LABEL));
        let others: Vec<&str> =
            named.filter(|label| !label.is_empty() && !label.starts_with(METRIC_LABEL)).collect();
        let others = if others.is_empty() { String::new() } else { format!("[{}]", others.join(",")) };
        match self.waited.compared.is_empty() {
            true => (None, labels.to_owned()),
            false => (self.waited.of_value(metric), others),
        }
    }

    /// `mem.available[x] is 812.3 MiB`
    fn sentence(&self, series: &str, text: &str) -> String {
        let ((Some(Compared { metric, is_rate, .. }), labels), number) =
            (self.part(series), text.parse::<f64>())
        else {
            let labels = series.strip_prefix(METRIC).unwrap_or_default();
            return format!("{}{labels} is {text}", self.condition.unwrap_or("the expression"));
        };
        let unit = self.metrics.about(metric).map_or(Unit::Count, |about| about.unit);
        let value = match number {
            Ok(number) if *is_rate => quantities::of_rate(number, &RateUnit::of(metric, unit.as_str())),
            _ => quantities::of_value(text, unit.as_str()),
        };
        format!("{metric}{labels} is {value}")
    }
}

impl Found {
    /// The series that have a value.
    fn values(&self) -> impl Iterator<Item = (&Column, String)> {
        let cells = self.columns.iter().zip(&self.row.cells);
        cells.filter_map(|(column, cell)| Some((column, cell.text()?)))
    }

    fn json(&self, what: &What<'_>) -> Value {
        let values: serde_json::Map<String, Value> =
            self.values().map(|(column, text)| (column.series.clone(), json!(text))).collect();
        let mut row = json!({ "node": self.node, "time": self.row.time.seconds_text(), "values": values });
        let compared = &what.waited.compared;
        if let Some(Compared { metric, .. }) = compared.first() {
            row["metric"] = json!(metric);
        }
        if compared.len() > 1 {
            let of = |(column, _): (&Column, String)| {
                Some((column.series.clone(), json!(what.part(&column.series).0?.metric)))
            };
            row["metrics"] = self.values().filter_map(of).collect::<serde_json::Map<String, Value>>().into();
        }
        row
    }

    /// `node3 at 12:03:11 UTC: mem.available is 812.3 MiB`
    fn text(&self, what: &What<'_>) -> String {
        let values = self.values().map(|(column, text)| what.sentence(&column.series, &text));
        let values: Vec<String> = values.collect();
        format!("{} at {} UTC: {}", self.node, self.row.time.time_of_day(), values.join(", "))
    }
}

/// What is known of metrics: this program's catalogue, and that of the khz that is asked.
struct Metrics {
    known: Vec<(String, About)>,
}

impl Metrics {
    fn of(target: &Target, plan: &Plan) -> Self {
        let own = gatherer::metrics().into_iter().map(|metric| {
            let instances = metric.instances.as_deref().map(str::to_owned);
            let is_labels = metric.value_type == ValueType::Labels;
            (metric.name.to_string(), About { unit: metric.unit, kind: metric.kind, instances, is_labels })
        });
        // Where nobody answers, the wait itself will say so.
        let theirs = target.catalogue(plan).unwrap_or_default();
        let theirs = theirs.iter().filter_map(|entry| {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            let kind = if text("kind")? == Kind::Counter.as_str() { Kind::Counter } else { Kind::Gauge };
            let instances = text("instances").map(str::to_owned);
            let unit = Unit::named(text("unit")?)?;
            let is_labels = text("type") == Some(ValueType::Labels.as_str());
            Some((text("name")?.to_owned(), About { unit, kind, instances, is_labels }))
        });
        Metrics { known: own.chain(theirs).collect() }
    }

    fn about(&self, metric: &str) -> Option<About> {
        self.known.iter().find(|(name, _)| name == metric).map(|(_, about)| about.clone())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_a_row_names_the_nodes_that_could_not_judge() {
        let refused = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let second = Nanos::from_secs(1);
        assert_eq!(not_in_time(second, &refused(&[])), "it did not come true within 1s");
        let some = not_in_time(second, &refused(&["n2", "n1"]));
        assert!(
            some.starts_with("it did not come true within 1s at the nodes that could judge it"),
            "{some}"
        );
        assert!(some.ends_with(": n[1-2]"), "{some}");
    }

    #[test]
    fn a_wait_ends_when_no_node_that_it_names_will_judge_and_not_while_one_of_them_tries_again() {
        let named = ["n1", "n2"].map(str::to_owned).into();
        let mut wait = Wait::new(None, Some(named));
        let mut goes_on = |node: &str, text: &str| {
            let notice =
                Piece::Notice { nodes: vec![node.to_owned()], text: text.to_owned(), is_refusal: true };
            wait.take(notice, &mut Vec::new()).is_ok()
        };
        let for_now = Notice::for_now("it has no memory left");
        assert!(goes_on("n1", "takes no handlers") && goes_on("n2", &for_now));
        assert!(goes_on("n2", &for_now) && !goes_on("n2", "takes no handlers"));
    }

    #[test]
    fn a_node_that_has_room_again_is_not_named() {
        let mut wait = Wait::new(None, None);
        let mut says = |text: &str, is_refusal| {
            let notice = Piece::Notice { nodes: vec!["n1".to_owned()], text: text.to_owned(), is_refusal };
            assert!(wait.take(notice, &mut Vec::new()).is_ok());
            wait.refused.len()
        };
        assert_eq!(says("has no memory left for this channel", true), 1);
        assert_eq!(says(Notice::SENDS_NOW, false), 0);
    }
}
