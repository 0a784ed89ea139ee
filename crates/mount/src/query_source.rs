//! Values from a query in this process: the cluster of one, or a hub. Its thread looks for rows as often as the
//! fastest wish wants them, and sleeps while nobody wants anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use khz_model::{Interest, Nanos, NodeName, Pattern, Query, Rate, Series, Subscription};

use crate::source::{Sink, Source, Wish};

/// Period of wishes that are content with the base lane.
const BASE: Nanos = Nanos::SECOND;
/// Rows are looked for this often at most, and this often at least.
const LOOK_MIN: Duration = Duration::from_micros(500);
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Nodes are told so often while somebody wants to know.
const ROSTER: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Orders {
    wishes: Vec<(u32, Option<Wish>)>,
    roster: bool,
    stopped: bool,
    /// There is something that the thread has not seen.
    fresh: bool,
}

/// The source, and its thread.
pub struct QuerySource {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Orders>,
    bell: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl QuerySource {
    /// Starts to bring what `query` knows to `sink`.
    pub fn start(query: Arc<dyn Query>, sink: Arc<dyn Sink>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let looker = Looker {
            query,
            sink,
            shared: shared.clone(),
            followed: BTreeMap::new(),
            lanes: BTreeMap::new(),
            lanes_made: 0,
            roster_at: None,
        };
        let thread = std::thread::Builder::new().name("values".into()).spawn(move || looker.run())?;
        Ok(QuerySource { shared, thread: Some(thread) })
    }

    fn order(&self, order: impl FnOnce(&mut Orders)) {
        let mut orders = self.shared.lock();
        order(&mut orders);
        orders.fresh = true;
        drop(orders);
        self.shared.bell.notify_one();
    }
}

impl Source for QuerySource {
    fn ask(&self, wish: Wish) {
        self.order(|orders| orders.wishes.push((wish.number, Some(wish))));
    }
    fn dismiss(&self, number: u32) {
        self.order(|orders| orders.wishes.push((number, None)));
    }
    fn roster(&self, wanted: bool) {
        self.order(|orders| orders.roster = wanted);
    }
}

impl Drop for QuerySource {
    fn drop(&mut self) {
        self.order(|orders| orders.stopped = true);
        if let Some(thread) = self.thread.take() {
            // A panic of its was printed when it happened.
            let _ = thread.join();
        }
    }
}

struct Looker {
    query: Arc<dyn Query>,
    sink: Arc<dyn Sink>,
    shared: Arc<Shared>,
    followed: BTreeMap<u32, Box<dyn Subscription>>,
    /// The lane of a node for a wish, and its columns.
    lanes: BTreeMap<(u32, NodeName), (u64, Arc<Vec<Series>>)>,
    lanes_made: u64,
    roster_at: Option<Instant>,
}

impl Looker {
    fn run(mut self) {
        self.sink.connected(true, "in this process");
        while let Some((wishes, roster)) = self.next() {
            for (number, wish) in wishes {
                self.dismiss(number);
                if let Some(wish) = wish {
                    self.follow(&wish);
                }
            }
            self.tell_nodes(roster);
            self.look();
        }
    }

    /// Waits for orders, or until it is time to look; `None`: it is over.
    fn next(&mut self) -> Option<(Vec<(u32, Option<Wish>)>, bool)> {
        let mut orders = self.shared.lock();
        let until = self.next_look(orders.roster).map(|pause| Instant::now() + pause);
        while !orders.fresh {
            let now = Instant::now();
            orders = match until {
                Some(until) if now >= until => break,
                Some(until) => {
                    let waited = self.shared.bell.wait_timeout(orders, until - now);
                    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
                None => self.shared.bell.wait(orders).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
        orders.fresh = false;
        (!orders.stopped).then(|| (std::mem::take(&mut orders.wishes), orders.roster))
    }

    fn next_look(&self, roster: bool) -> Option<Duration> {
        let fastest = self.followed.values().map(|followed| followed.rate().period()).min();
        let pause = fastest.map(|period| (Duration::from(period) / 4).clamp(LOOK_MIN, LOOK_MAX));
        pause.into_iter().chain(roster.then_some(ROSTER)).min()
    }

    fn tell_nodes(&mut self, wanted: bool) {
        let now = Instant::now();
        if !wanted {
            self.roster_at = None;
        } else if self.roster_at.is_none_or(|at| now >= at) {
            self.roster_at = Some(now + ROSTER);
            self.sink.nodes(&self.query.status(), true);
        }
    }

    fn follow(&mut self, wish: &Wish) {
        let patterns: Result<Vec<Pattern>, _> = wish.patterns.iter().map(|text| Pattern::new(text)).collect();
        let followed = patterns.map_err(|error| error.to_string()).and_then(|patterns| {
            let rate = wish.rate.or(Rate::from_period(BASE)).ok_or("there is no such rate")?;
            let interest = Interest { patterns, rate, exact: wish.rate.is_some() };
            self.query.subscribe(interest).map_err(|error| error.to_string())
        });
        match followed {
            Ok(followed) => {
                self.followed.insert(wish.number, followed);
            }
            Err(problem) => self.sink.told(wish.number, &problem),
        }
    }

    fn dismiss(&mut self, number: u32) {
        self.followed.remove(&number);
        let gone: Vec<(u32, NodeName)> =
            self.lanes.keys().filter(|(wish, _)| *wish == number).cloned().collect();
        for key in gone {
            if let Some((lane, _)) = self.lanes.remove(&key) {
                self.sink.closed(lane);
            }
        }
    }

    fn look(&mut self) {
        for (&wish, followed) in &mut self.followed {
            for delivery in followed.poll() {
                let key = (wish, delivery.node.clone());
                let known =
                    self.lanes.get(&key).filter(|(_, columns)| Arc::ptr_eq(columns, &delivery.columns));
                let lane = match known {
                    Some((lane, _)) => *lane,
                    None => {
                        let lane = self.lanes.get(&key).map_or_else(
                            || {
                                self.lanes_made += 1;
                                self.lanes_made
                            },
                            |(lane, _)| *lane,
                        );
                        self.sink.columns(lane, wish, &delivery.node, &delivery.columns);
                        self.lanes.insert(key, (lane, delivery.columns.clone()));
                        lane
                    }
                };
                for row in &delivery.rows {
                    self.sink.row(lane, row.stamp, &mut row.readings.iter().copied().enumerate());
                }
            }
            for notice in followed.notices() {
                self.sink.told(wish, &format!("{}: {}", notice.node, notice.text));
            }
        }
    }
}
