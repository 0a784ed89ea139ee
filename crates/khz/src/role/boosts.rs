//! Makes nodes sample faster for a while when an alert asks for it, by a subscription that nobody reads. The rows stay in the
//! node's ring and in the hub's memory.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use khz_actions::Boost;
use khz_model::{Interest, Pattern, Query};

use crate::show::outcome::sentence;

/// The most boosts at the same time. Each has a thread, and costs its node as much as a reader.
pub const BOOSTS_MAX: usize = 64;

/// The boosts of a hub. They end with it.
pub struct Boosts {
    query: Arc<dyn Query>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    is_over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of a boost.
    fn wait(&self, lasts: Duration) {
        let until = Instant::now() + lasts;
        let mut state = self.state();
        while !state.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.running -= 1;
    }
}

impl Boosts {
    /// Nodes are asked with this.
    pub fn new(query: Arc<dyn Query>) -> Self {
        Boosts { query, shared: Arc::default() }
    }

    /// Begins a boost, and returns a description of it.
    pub fn begin(&self, node: &str, boost: &Boost) -> Result<String, String> {
        if !khz_actions::is_host_name(node) {
            return Err(format!("{node:?} is not the plain name of a host"));
        }
        let pattern =
            |series: &String| Pattern::new(&format!("{node}:{series}")).map_err(|error| error.to_string());
        let patterns = boost.series.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        {
            let mut state = self.shared.state();
            if state.running >= BOOSTS_MAX {
                return Err(format!("{BOOSTS_MAX} boosts run already"));
            }
            state.running += 1;
        }
        let begun = self.hold(patterns, boost);
        if begun.is_err() {
            self.shared.state().running -= 1;
        }
        let rate = begun?;
        Ok(format!("{node} samples {} at {rate} for {} s", boost.series.join(", "), boost.lasts.as_secs()))
    }

    fn hold(&self, patterns: Vec<Pattern>, boost: &Boost) -> Result<khz_model::Rate, String> {
        let interest = Interest::new(patterns, boost.rate, false);
        let subscription = self.query.subscribe(interest).map_err(|error| sentence(&error))?;
        let (rate, shared, lasts) = (subscription.rate(), self.shared.clone(), boost.lasts);
        let hold = move || {
            shared.wait(lasts);
            drop(subscription);
        };
        let thread = std::thread::Builder::new().name("boost".into()).spawn(hold);
        thread.map(|_| rate).map_err(|error| format!("cannot start a thread: {error}"))
    }
}

impl Drop for Boosts {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.bell.notify_all();
    }
}
