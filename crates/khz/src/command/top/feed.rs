//! Live rows: a thread for each subscription passes its pieces to the loop. A subscription that cannot begin is retried. A refused
//! one is reported. It keeps no rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use khz_ask::NodeStatus;
use khz_model::{Interest, Nanos, Pattern, Rate};

use super::app::Wanted;
use super::past::{Reader, Source, by_time};
use super::run::Event;
use super::series;
use crate::show::outcome::Failure;

/// The pause before a subscription that could not begin is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause is made in parts of this length, so that an unwanted subscription ends soon.
const PAUSE_PART: Duration = Duration::from_millis(100);
/// The most readings that the start asks of the memory, for all nodes of a list together.
const BACKFILL_READINGS_MAX: usize = 200_000;
/// How often the states of all nodes are asked for. Changes come with the rows; this finds nodes that never had one.
const STATES_PERIOD: u32 = 10;

/// Subscriptions that belong together. Dropping them ends their threads.
pub struct Feeds {
    stop: Arc<AtomicBool>,
}

impl Drop for Feeds {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Who gets what comes.
#[derive(Clone)]
struct Out {
    events: SyncSender<Event>,
    stop: Arc<AtomicBool>,
    /// The subscription set. Events of other sets are outdated.
    generation: u64,
}

impl Out {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for room. If the loop hangs, the server drops rows, and counts them.
    fn send(&self, event: Event) {
        if self.events.send(event).is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Sleeps, unless it is over.
    fn pause(&self) {
        for _ in 0..PAUSE.as_millis() / PAUSE_PART.as_millis() {
            if self.is_over() {
                return;
            }
            std::thread::sleep(PAUSE_PART);
        }
    }
}

impl Feeds {
    /// Begins what is wanted.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn begin(
        source: &Source,
        wanted: &Wanted,
        hosts: Option<&str>,
        generation: u64,
        events: &SyncSender<Event>,
    ) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let feeds = Feeds { stop: stop.clone() };
        let Source::Server { target, plan } = source else { return Ok(feeds) };
        let out = Out { events: events.clone(), stop, generation };
        let reader = Reader { target: target.clone(), plan: plan.clone() };
        let subscriptions: Vec<(Vec<Pattern>, Option<Rate>)> = match &wanted.node {
            Some(node) => vec![
                (series::of_node(node, Some(0)), Rate::from_hz(wanted.rate.into())),
                (series::of_node(node, Some(1)), series::slow()),
            ],
            None => vec![(series::of_cluster(hosts), series::slow())],
        };
        for (feed, (patterns, rate)) in subscriptions.into_iter().enumerate() {
            let Some(rate) = rate else { continue };
            let interest = Interest::new(patterns, rate, false);
            let (reader, out, wanted) = (reader.clone(), out.clone(), wanted.clone());
            start("rows", move || {
                backfill(&reader, &wanted, &interest.patterns, feed, &out);
                if feed == 0 {
                    out.send(Event::Filled { generation: out.generation });
                }
                follow(&reader, &interest, feed, &out);
            })?;
        }
        if wanted.node.is_none() {
            let hosts = hosts.map(str::to_owned);
            start("states", move || states(&reader, hosts.as_deref(), &out))?;
        }
        Ok(feeds)
    }
}

/// Starts a thread.
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map(|_| ()).map_err(|error| Failure::work(format!("cannot start a thread: {error}")))
}

/// Fetches the rows in the khz's memory, so that the charts do not begin empty, and a node that is down has the numbers of its last
/// row. Without such rows, the charts begin empty.
fn backfill(reader: &Reader, wanted: &Wanted, patterns: &[Pattern], feed: usize, out: &Out) {
    let Ok(server) = reader.target.running(&reader.plan) else { return };
    let (seconds, rate) = match wanted {
        // Slow series come once a second.
        Wanted { node: Some(_), .. } if feed > 0 => (60, 1),
        Wanted { node: Some(_), rate: 1, .. } => (300, 1),
        Wanted { node: Some(_), rate: 10, .. } => (60, 10),
        // The memory has no rows at higher rates.
        Wanted { node: Some(_), .. } => return,
        Wanted { node: None, .. } => {
            let nodes = reader.target.known_nodes(&reader.plan).map_or(usize::MAX, |nodes| nodes.len());
            let seconds = BACKFILL_READINGS_MAX / nodes.saturating_mul(patterns.len() * 2).max(1);
            // For a large cluster, a shorter time with all rows: with every second row of a longer time, charts would have gaps.
            (seconds.min(120), 1)
        }
    };
    if seconds == 0 {
        return;
    }
    // Ask for more rows than needed, since the server leaves out every second one if there are more than asked for.
    let (span, rows) = (Nanos::from_secs(seconds as u64), seconds * rate * 5 / 4 + 10);
    for piece in by_time(server.history(patterns, span, rows).unwrap_or_default()) {
        out.send(Event::Piece { generation: out.generation, feed, piece, is_old: true });
    }
}

fn follow(reader: &Reader, interest: &Interest, feed: usize, out: &Out) {
    let generation = out.generation;
    while !out.is_over() {
        let ended = match reader.target.rows_for_screen(&reader.plan, interest.clone()) {
            Err(failure) => Some(failure),
            Ok(mut rows) => loop {
                if out.is_over() {
                    return;
                }
                match rows.next() {
                    Ok(Some(pieces)) => {
                        for piece in pieces {
                            out.send(Event::Piece { generation, feed, piece, is_old: false });
                        }
                    }
                    Ok(None) => break None,
                    Err(failure) => break Some(failure),
                }
            },
        };
        let is_refusal = matches!(ended, Some(Failure::Usage(_)));
        let text = ended.map_or_else(|| "the rows have ended".to_owned(), |failure| failure.to_string());
        out.send(Event::Ended { generation, feed, text, is_refusal });
        if is_refusal {
            return;
        }
        out.pause();
    }
}

/// The time by the clock of the khz that has answered; `None`: it is an older one, or it has heard no node yet.
pub fn time_of_server<'a>(mut statuses: impl Iterator<Item = &'a NodeStatus>) -> Option<Nanos> {
    statuses.find_map(|status| status.ages.now()).map(|now| Nanos((now.max(0.0) * 1e9) as u64))
}

/// Since when a node is in its state.
pub fn since(status: &NodeStatus, now: Nanos) -> Option<Nanos> {
    let age: f64 = status.ages.since()?.parse().ok()?;
    Some(Nanos(now.0.saturating_sub((age * 1e9) as u64)))
}

fn states(reader: &Reader, hosts: Option<&str>, out: &Out) {
    while !out.is_over() {
        if let Ok(nodes) = reader.target.nodes(&reader.plan, hosts)
            && let Ok(statuses) = nodes.statuses()
        {
            let time = time_of_server(statuses.iter().map(|(status, _)| status));
            let now = time.unwrap_or_else(crate::command::past::now);
            let states = statuses
                .iter()
                .map(|(status, _)| (status.node.clone(), status.state().to_owned(), since(status, now)));
            out.send(Event::States { generation: out.generation, states: states.collect(), time });
        }
        (0..STATES_PERIOD).for_each(|_| out.pause());
    }
}
