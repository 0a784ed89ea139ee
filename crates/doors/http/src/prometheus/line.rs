//! The waiting line of queries: who is next when a place is free. It knows nothing about what a query does.
//!
//! All places but one are for any query; such a place is given to the client that has the fewest, and one client never has all of
//! them. The last place is for queries that take little time. Nobody knows before how much one takes: it gets the place for the
//! first of [`crate::limits::QUERY_TURNS`], and if that is not enough it comes back into the line, for the next. The place is
//! given to who has waited longest in proportion to the time that it would get. So a query that takes little waits little, and
//! nobody waits forever.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use khz_door::Accepted;
use tokio::sync::oneshot;

use crate::limits::{QUERIES_MAX, QUERIES_OF_A_CLIENT_MAX, QUERY_TURNS};

/// Who asks: an address, or somebody on the local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client(pub Option<IpAddr>);

impl Client {
    /// Who is at the other end.
    pub fn of(socket: &Accepted) -> Self {
        match socket {
            Accepted::Tcp(_, peer) => Client(Some(peer.ip().to_canonical())),
            Accepted::Local(_) => Client(None),
        }
    }
}

/// The line, and the places.
#[derive(Debug, Default)]
pub(crate) struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Queries of each client that have a place for any query.
    running: HashMap<Client, usize>,
    /// Somebody has the place for short queries.
    is_short_taken: bool,
    /// In the order in which they came; at most one for each connection of the door.
    waiting: VecDeque<Waiter>,
    /// When each client in the line got its last place.
    served: HashMap<Client, Instant>,
}

#[derive(Debug)]
struct Waiter {
    client: Client,
    /// How often it has had the place for short queries.
    tries: usize,
    /// When it came.
    since: Instant,
    tell: oneshot::Sender<Turn>,
}

/// How long a query may have the place for short queries that has had it this often; `None`: it may not.
pub(crate) fn time(tries: usize) -> Option<Duration> {
    QUERY_TURNS.get(tries).copied()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Any,
    Short,
}

/// A place. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    line: Arc<Line>,
    client: Client,
    place: Mutex<Place>,
}

impl Line {
    /// Waits for a place. A query that has had the one for short queries as often as it may does not get it.
    pub async fn turn(self: &Arc<Self>, client: Client, tries: usize) -> Turn {
        let (tell, told) = oneshot::channel();
        self.state().waiting.push_back(Waiter { client, tries, since: Instant::now(), tell });
        self.give();
        match told.await {
            Ok(turn) => turn,
            Err(_) => unreachable!("BUG: somebody who waits was removed from the line"),
        }
    }

    /// Gives free places to those who wait. One who has left by then drops the turn, and so frees the place.
    fn give(self: &Arc<Self>) {
        loop {
            let Some((waiter, place)) = self.state().next(Instant::now()) else { return };
            let turn = Turn { line: Arc::clone(self), client: waiter.client, place: Mutex::new(place) };
            // Not under the lock: dropping the turn takes it.
            drop(waiter.tell.send(turn));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Who is next, and the place that it gets.
    fn next(&mut self, now: Instant) -> Option<(Waiter, Place)> {
        self.waiting.retain(|waiter| !waiter.tell.is_closed());
        let in_line = |client: &Client| self.waiting.iter().any(|waiter| waiter.client == *client);
        self.served.retain(|client, _| in_line(client) || self.running.contains_key(client));
        let (at, place) = match self.first() {
            Some(at) => (at, Place::Any),
            None if self.is_short_taken => return None,
            None => (self.first_of_short(now)?, Place::Short),
        };
        let waiter = self.waiting.remove(at)?;
        self.take(waiter.client, place, now);
        Some((waiter, place))
    }

    /// The first for a place for any query: one whose client has the fewest, and of these the one that has waited longest.
    fn first(&self) -> Option<usize> {
        let may = self.waiting.iter().enumerate().filter(|(_, waiter)| self.has_place(waiter.client));
        may.min_by_key(|(_, waiter)| (self.places(waiter.client), self.waits_since(waiter))).map(|(at, _)| at)
    }

    /// The first for the place for short queries.
    fn first_of_short(&self, now: Instant) -> Option<usize> {
        let urgency = |waiter: &Waiter| {
            let waited = now.saturating_duration_since(self.waits_since(waiter));
            Some(waited.div_duration_f64(time(waiter.tries)?))
        };
        let all = self.waiting.iter().enumerate().filter_map(|(at, waiter)| Some((at, urgency(waiter)?)));
        // Of those that are as urgent, the first.
        all.min_by(|(_, one), (_, other)| other.total_cmp(one)).map(|(at, _)| at)
    }

    /// Since when it waits, but not longer than since its client got a place.
    fn waits_since(&self, waiter: &Waiter) -> Instant {
        self.served.get(&waiter.client).map_or(waiter.since, |served| waiter.since.max(*served))
    }

    fn places(&self, client: Client) -> usize {
        self.running.get(&client).copied().unwrap_or(0)
    }

    /// True if there is a place for any query that this client may have.
    fn has_place(&self, client: Client) -> bool {
        let taken: usize = self.running.values().sum();
        taken < QUERIES_MAX - 1 && self.places(client) < QUERIES_OF_A_CLIENT_MAX
    }

    fn take(&mut self, client: Client, place: Place, now: Instant) {
        self.served.insert(client, now);
        match place {
            Place::Any => *self.running.entry(client).or_default() += 1,
            Place::Short => self.is_short_taken = true,
        }
    }

    fn free(&mut self, client: Client, place: Place) {
        match (place, self.running.get_mut(&client)) {
            (Place::Short, _) => self.is_short_taken = false,
            (Place::Any, Some(places)) if *places > 1 => *places -= 1,
            (Place::Any, _) => _ = self.running.remove(&client),
        }
    }
}

impl Turn {
    /// True if the place is only for short queries.
    pub fn is_short(&self) -> bool {
        *self.place() == Place::Short
    }

    /// Moves to a place for any query; false if there is none.
    pub fn stays(&self) -> bool {
        let mut place = self.place();
        if *place == Place::Short {
            let mut state = self.line.state();
            if !state.has_place(self.client) {
                return false;
            }
            state.free(self.client, Place::Short);
            state.take(self.client, Place::Any, Instant::now());
            *place = Place::Any;
        }
        drop(place);
        self.line.give();
        true
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let place = *self.place();
        self.line.state().free(self.client, place);
        self.line.give();
    }
}

#[cfg(test)]
mod tests;
