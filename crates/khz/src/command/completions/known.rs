//! What a completion asks of the running khz: metrics, nodes, and instances of a metric. All questions share one deadline; where
//! nobody answers in time, there is no answer. Prints nothing.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use khz_model::Pattern;

use crate::command::target::Target;
use crate::config::{Layers, NodeFlags, Plan};
use crate::role::gatherer;

/// People wait for Tab no longer.
const DEADLINE: Duration = Duration::from_millis(200);
/// Instances of a metric come from this many nodes, if no node is named: those of all nodes of a large cluster would take too long.
const NODES_ASKED: usize = 4;

/// Whom to ask, and until when.
#[derive(Clone)]
pub struct Known {
    asked: Arc<Option<(Target, Plan)>>,
    until: Instant,
    /// The nodes, once they were asked for.
    nodes: Arc<OnceLock<Vec<String>>>,
}

impl Known {
    /// The khz that a command with these words would ask.
    pub fn of(words: &[String]) -> Self {
        let until = Instant::now() + DEADLINE;
        Known { asked: Arc::new(asked(words)), until, nodes: Arc::default() }
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Target, &Plan) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = mpsc::sync_channel(1);
        let asked = Arc::clone(&self.asked);
        // The thread ends with the process, if its answer comes too late.
        std::thread::Builder::new()
            .name("complete".to_owned())
            .spawn(move || {
                let answer = asked.as_ref().as_ref().and_then(|(target, plan)| question(target, plan));
                // Nobody may wait any more.
                let _ = sender.send(answer);
            })
            .ok()?;
        answer.recv_timeout(self.until.saturating_duration_since(Instant::now())).ok()?
    }

    /// The metrics, each with whether it has instances: those of the running khz, or those that this program knows.
    pub fn metrics(&self) -> Vec<(String, bool)> {
        let answer = self.ask(|target, plan| target.catalogue(plan).ok());
        let Some(entries) = answer else {
            let own = gatherer::metrics();
            return own.iter().map(|metric| (metric.name.to_string(), metric.instances.is_some())).collect();
        };
        let named = entries.iter().filter_map(|entry| {
            Some((entry["name"].as_str()?.to_owned(), entry["instances"].as_str().is_some()))
        });
        named.collect()
    }

    /// The nodes; none where nobody answers.
    pub fn nodes(&self) -> &[String] {
        self.nodes.get_or_init(|| {
            let answer = self.ask(|target, plan| target.known_nodes(plan).ok());
            answer.unwrap_or_default().iter().map(|node| node.as_str().to_owned()).collect()
        })
    }

    /// The series of a metric with instances: `net.rx_bytes[eth0]`. `hosts` is empty or ends with a colon.
    pub fn series(&self, hosts: &str, metric: &str) -> Vec<String> {
        let some = match (hosts, self.nodes()) {
            ("", []) => return Vec::new(),
            ("", nodes) => format!("{}:", nodes[..nodes.len().min(NODES_ASKED)].join(",")),
            (hosts, _) => hosts.to_owned(),
        };
        let Ok(pattern) = Pattern::new(&format!("{some}{metric}[*]")) else { return Vec::new() };
        let answer = self.ask(move |target, plan| {
            let answer = target.latest(plan, &[pattern], None).ok()?;
            let series = answer.nodes.iter().flat_map(|node| &node.series).map(|series| series.series());
            Some(series.collect::<BTreeSet<String>>())
        });
        answer.unwrap_or_default().into_iter().collect()
    }
}

/// The target and the plan of a command line that is not complete yet.
fn asked(words: &[String]) -> Option<(Target, Plan)> {
    let value = |flag: &str| {
        let after = words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
        let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        after.map(String::as_str).or(joined).filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let flags = NodeFlags { config: value("--config").map(Into::into), ..NodeFlags::none() };
    let source_names = gatherer::source_names();
    let layers = Layers::read(flags, &source_names).ok()?;
    let host_name = gatherer::host_name(layers.value("root").text.as_ref());
    let plan = Plan::check(&layers, &host_name, &source_names).ok()?;
    let target = Target { server: value("--server"), direct: words.iter().any(|word| word == "--direct") };
    Some((target, plan))
}
