//! The newest rows of some nodes, for one reader. Nodes whose rows are too old are first asked for new rows. Then the
//! rows are read directly from their lanes, without a copy.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::look::Show;
use khz_model::{Columns, Look, Metric, Nanos, Part, QueryError, Series, WaitFor, Wanted};

use crate::clock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::lane::Lane;
use crate::node::{EVERYTHING, Files, Node, RowRequest, SharedNode};
use crate::round::Round;
use crate::schemas::Schema;

/// Rows of any age will do: no node is asked.
const ANY_AGE: Nanos = Nanos(u64::MAX);

impl Columns for Schema {
    fn series(&self) -> &[Series] {
        Schema::series(self)
    }
}

/// The newest rows of some nodes.
pub(crate) struct HubLook<'a> {
    cluster: &'a Cluster,
    files: Files,
    age_max: Nanos,
    nodes: Vec<Chosen>,
    next: usize,
    round: Arc<Round>,
    left_out: u64,
    /// Names that are missing, if the reader wants to know them.
    missing: Option<Vec<String>>,
    /// Why it shows nothing.
    refusal: Option<QueryError>,
}

/// A node that the reader chose.
struct Chosen {
    node: Arc<SharedNode>,
    /// The request whose answer the reader waits for; `None`: the node's rows are young enough, or it cannot be asked.
    ask: Option<u32>,
}

impl<'a> HubLook<'a> {
    pub fn new(cluster: &'a Cluster, wanted: &Wanted, age_max: Nanos) -> Self {
        let mut nodes = cluster.nodes();
        nodes.retain(|node| wanted.has_node(&node.name));
        let files = match &wanted.metrics {
            None => everything(),
            Some(metrics) => files(metrics),
        };
        HubLook::of(cluster, nodes, files, age_max)
    }

    /// The newest rows of these nodes, with fresh readings from these files.
    pub fn of(cluster: &'a Cluster, nodes: Vec<Arc<SharedNode>>, files: Files, age_max: Nanos) -> Self {
        HubLook {
            cluster,
            files,
            age_max,
            nodes: nodes.into_iter().map(|node| Chosen { node, ask: None }).collect(),
            next: 0,
            round: Arc::default(),
            left_out: 0,
            missing: None,
            refusal: None,
        }
    }

    /// The last rows that these nodes have sent, for a reader that wants to know which nodes show
    /// nothing.
    pub fn as_sent(cluster: &'a Cluster, nodes: Vec<Arc<SharedNode>>, missing: Vec<String>) -> Self {
        HubLook { missing: Some(missing), ..HubLook::of(cluster, nodes, Files::new(), ANY_AGE) }
    }

    /// Shows nothing, for this reason.
    pub fn refused(cluster: &'a Cluster, refusal: QueryError) -> Self {
        HubLook { refusal: Some(refusal), ..HubLook::of(cluster, Vec::new(), Files::new(), ANY_AGE) }
    }

    /// Requests rows from every node that is up, from all at the same time.
    fn ask(&mut self) {
        let HubLook { cluster, files, age_max, nodes, round, .. } = self;
        let request = RowRequest {
            files,
            now: clock::boot(),
            age_max: *age_max,
            ceiling: cluster.settings.rate_max.period(),
            counts: &cluster.counts,
        };
        for chosen in nodes.iter_mut().filter(|chosen| chosen.node.up.load(Ordering::Relaxed)) {
            chosen.ask = chosen.node.lock().request(&request, round);
        }
    }
}

/// All files of a node.
pub(crate) fn everything() -> Files {
    Files::from([(EVERYTHING.to_owned(), EVERYTHING.to_owned())])
}

/// The kernel files that metrics come from.
pub(crate) fn files<'a>(metrics: impl IntoIterator<Item = &'a Arc<Metric>>) -> Files {
    let place = |metric: &Arc<Metric>| (metric.origin.file.to_string(), metric.name.to_string());
    metrics.into_iter().map(place).collect()
}

impl Look for HubLook<'_> {
    fn ready(&mut self) -> WaitFor<'_, Result<(), QueryError>> {
        if let Some(refusal) = self.refusal.take() {
            return Box::pin(std::future::ready(Err(refusal)));
        }
        if self.age_max < ANY_AGE && !self.files.is_empty() {
            self.ask();
        }
        let round = self.round.clone();
        Box::pin(poll_fn(move |cx| round.poll(cx).map(Ok)))
    }

    fn next(&mut self, show: &mut Show<'_>) -> bool {
        while let Some(chosen) = self.nodes.get(self.next) {
            self.next += 1;
            let mut node = chosen.node.lock();
            if chosen.ask.is_some_and(|ask| !node.has_answered(ask)) {
                Counts::add(&self.cluster.counts.now_left_out, 1);
                self.left_out += 1;
            } else if show_node(&mut node, show) {
                return true;
            } else if let Some(missing) = &mut self.missing {
                missing.push(node.name.as_str().to_owned());
            }
        }
        false
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }

    fn missing(&mut self) -> Vec<String> {
        let mut missing = self.missing.take().unwrap_or_default();
        missing.sort();
        missing.dedup();
        missing
    }

    fn held(&self) -> u64 {
        let names = self.missing.iter().flatten().map(|name| size_of::<String>() + name.capacity());
        (self.nodes.capacity() * size_of::<Chosen>() + names.sum::<usize>()) as u64
    }
}

/// Shows the lanes of a node that is up and has sent rows, newest first: if two lanes have the same series, the first
/// counts.
fn show_node(state: &mut Node, show: &mut Show<'_>) -> bool {
    let has_base = state.lanes().base().is_some_and(|lane| lane.alive && lane.has_rows());
    if !state.link().is_up() || !has_base {
        return false;
    }
    state.lanes_mut().present_mut().iter_mut().filter(|lane| lane.alive).for_each(|lane| {
        lane.latest();
    });
    let mut parts: Vec<Part<'_>> =
        state.lanes().present().iter().filter(|lane| lane.alive).filter_map(part).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.stamp.boot));
    show(&state.name, &parts);
    true
}

fn part(lane: &Lane) -> Option<Part<'_>> {
    let (schema, decoder) = lane.decoded()?;
    let (values, states) = (decoder.values(), decoder.states());
    Some(Part { columns: schema, stamp: decoder.stamp(), values, states })
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use khz_model::{ByteSize, NodeName, Rate};

    use super::*;
    use crate::cluster::Settings;
    use crate::lane::tests::gets_rows;
    use crate::mailbox::Mailbox;
    use crate::node::{Answer, Arrival, BASE, Link};

    fn cluster() -> Arc<Cluster> {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16])
    }

    /// A node that has sent this many rows of its base lane. It is up if it has a connection.
    fn node(cluster: &Cluster, name: &str, connection: Option<u64>, rows: u64) -> Arc<SharedNode> {
        let name = NodeName::new(name).expect("a good name");
        let node = cluster.node_or_new(&name, Nanos(0)).expect("room for a node");
        let Some(connection) = connection else { return node };
        let mailbox = Arc::new(Mailbox::new().expect("an eventfd"));
        let mut state = node.lock();
        state.connect(&Arrival::default(), Link::new(mailbox, connection), Nanos(0));
        let id = state.lanes_mut().offered(1, BASE, 7, Nanos::SECOND).expect("room for a lane");
        let lane = state.lanes_mut().get_mut(id).expect("the lane");
        lane.alive = true;
        if rows > 0 {
            gets_rows(lane, 0, rows);
        }
        drop(state);
        node.set_up(true);
        node
    }

    /// The names that it shows, each with the values of its newest row.
    fn shown(look: &mut HubLook<'_>) -> Vec<String> {
        let mut names = Vec::new();
        while look.next(&mut |name, parts| names.push(format!("{name} {:?}", parts[0].values))) {}
        names
    }

    fn is_ready(look: &mut HubLook<'_>) -> Option<Result<(), QueryError>> {
        let mut ready = look.ready();
        match Pin::new(&mut ready).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    #[test]
    fn nodes_that_do_not_answer_are_left_out_and_counted_and_the_others_are_shown() {
        let cluster = cluster();
        let nodes = vec![
            node(&cluster, "answers", Some(1), 5),
            node(&cluster, "down", None, 0),
            node(&cluster, "silent", Some(2), 5),
            node(&cluster, "slow", Some(3), 5),
        ];
        let mut look = HubLook::of(&cluster, nodes.clone(), everything(), Nanos(1));
        assert_eq!(is_ready(&mut look), None, "three are asked");
        let mut state = nodes[0].lock();
        let subscription = state.subscriptions().first().expect("a subscription").number;
        state.answered(subscription, Answer { granted: false, text: "it shows what it has".into() }, None);
        drop(state);
        assert_eq!(shown(&mut look), ["answers [4]"]);
        assert_eq!((look.left_out(), cluster.counts.now_left_out.load(Ordering::Relaxed)), (2, 2));
        // A reader that takes rows of any age asks no node.
        let mut look = HubLook::of(&cluster, nodes, everything(), ANY_AGE);
        assert_eq!(is_ready(&mut look), Some(Ok(())));
        assert_eq!(shown(&mut look), ["answers [4]", "silent [4]", "slow [4]"]);
        assert_eq!(look.left_out(), 0);
    }

    #[test]
    fn nodes_that_show_nothing_are_named_once_for_a_reader_that_wants_to_know() {
        let cluster = cluster();
        let nodes = vec![
            node(&cluster, "down", None, 0),
            node(&cluster, "new", Some(1), 0),
            node(&cluster, "up", Some(2), 1),
        ];
        let mut look = HubLook::as_sent(&cluster, nodes.clone(), vec!["nobody".into(), "down".into()]);
        assert_eq!(is_ready(&mut look), Some(Ok(())));
        assert_eq!(shown(&mut look), ["up [0]"]);
        assert!(look.held() >= 3 * size_of::<Chosen>() as u64);
        assert_eq!(look.missing(), ["down", "new", "nobody"]);
        let mut look = HubLook::of(&cluster, nodes, Files::new(), ANY_AGE);
        assert_eq!((shown(&mut look).len(), look.missing()), (1, vec![]), "nobody wants to hear of them");
        let mut look = HubLook::refused(&cluster, QueryError::NoMemory);
        assert_eq!(is_ready(&mut look), Some(Err(QueryError::NoMemory)));
        assert_eq!(shown(&mut look), [""; 0]);
    }
}
