//! Live rows: a thread for each subscription, which gives what comes to the loop. A subscription that cannot begin is tried again, and
//! one that is refused says so. It keeps no rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use khz_model::{Interest, Nanos, Pattern, Rate};

use super::app::Wanted;
use super::past::{Reader, Source, by_time};
use super::run::Event;
use super::series;
use crate::show::outcome::Failure;

/// The pause before a subscription that could not begin is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// In parts of this length, so that one that is no longer wanted ends soon.
const PAUSE_PART: Duration = Duration::from_millis(100);
/// Readings that are asked of the memory at the start, of all nodes of a list together.
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
    /// What they are for; events of others are old.
    generation: u64,
}

impl Out {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for room: a loop that stands still loses rows at the server, which counts them.
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
                if feed == 0 {
                    backfill(&reader, &wanted, &interest.patterns, &out);
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

/// The rows that the khz has in its memory, so that the charts do not begin empty. Where there are none, they do.
fn backfill(reader: &Reader, wanted: &Wanted, patterns: &[Pattern], out: &Out) {
    let Ok(server) = reader.target.running(&reader.plan) else { return };
    let (span, rows) = match wanted {
        Wanted { node: Some(_), rate: 1 } => (Nanos::from_secs(300), 300),
        Wanted { node: Some(_), rate: 10 } => (Nanos::from_secs(60), 600),
        // The memory has no rows of faster rates.
        Wanted { node: Some(_), .. } => return,
        Wanted { node: None, .. } => {
            let nodes = reader.target.known_nodes(&reader.plan).map_or(usize::MAX, |nodes| nodes.len());
            let rows = BACKFILL_READINGS_MAX / nodes.saturating_mul(patterns.len() * 2).max(1);
            // A shorter time of a large cluster, and not every second row of a longer one: charts would have gaps.
            let rows = rows.min(120);
            (Nanos::from_secs(rows as u64), rows)
        }
    };
    if rows == 0 {
        return;
    }
    for piece in by_time(server.history(patterns, span, rows).unwrap_or_default()) {
        out.send(Event::Piece { generation: out.generation, feed: 0, piece });
    }
}

fn follow(reader: &Reader, interest: &Interest, feed: usize, out: &Out) {
    let generation = out.generation;
    while !out.is_over() {
        let ended = match reader.target.rows(&reader.plan, interest.clone(), None) {
            Err(failure) => Some(failure),
            Ok(mut rows) => loop {
                if out.is_over() {
                    return;
                }
                match rows.next() {
                    Ok(Some(pieces)) => {
                        for piece in pieces {
                            out.send(Event::Piece { generation, feed, piece });
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

fn states(reader: &Reader, hosts: Option<&str>, out: &Out) {
    while !out.is_over() {
        if let Ok(nodes) = reader.target.nodes(&reader.plan, hosts)
            && let Ok(statuses) = nodes.statuses()
        {
            let now = crate::command::past::now();
            let states = statuses.iter().map(|(status, _)| {
                let age: Option<f64> = status.ages.since().and_then(|age| age.parse().ok());
                let since = age.map(|age| Nanos(now.0.saturating_sub((age * 1e9) as u64)));
                (status.node.clone(), status.state().to_owned(), since)
            });
            out.send(Event::States { generation: out.generation, states: states.collect() });
        }
        (0..STATES_PERIOD).for_each(|_| out.pause());
    }
}
