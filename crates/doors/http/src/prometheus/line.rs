//! The waiting line of queries: who is next when a place is free. A place is given to the client that has the fewest, so that
//! one client's queries wait for each other. It knows nothing about what a query does.
//!
//! All places but one are for any query, and one client never has all of these. The last one is for queries that take
//! little time: one that finds no other place may use it for [`crate::limits::QUERY_SHORT_TIME`].

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_door::Accepted;
use tokio::sync::oneshot;

use crate::limits::{QUERIES_MAX, QUERIES_OF_A_CLIENT_MAX};

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
    /// When each client in the line got its last place: numbers that grow.
    served: HashMap<Client, u64>,
    turns: u64,
}

#[derive(Debug)]
struct Waiter {
    client: Client,
    /// It has used up its time at the place for short queries.
    is_long: bool,
    tell: oneshot::Sender<Turn>,
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
    /// Waits for a place; a query that is long does not get the one for short queries.
    pub async fn turn(self: &Arc<Self>, client: Client, is_long: bool) -> Turn {
        let (tell, told) = oneshot::channel();
        self.state().waiting.push_back(Waiter { client, is_long, tell });
        self.give();
        match told.await {
            Ok(turn) => turn,
            Err(_) => unreachable!("BUG: somebody who waits was removed from the line"),
        }
    }

    /// Gives free places to those who wait. One who has left by then drops the turn, and so frees the place.
    fn give(self: &Arc<Self>) {
        loop {
            let Some((waiter, place)) = self.state().next() else { return };
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
    fn next(&mut self) -> Option<(Waiter, Place)> {
        self.waiting.retain(|waiter| !waiter.tell.is_closed());
        let in_line = |client: &Client| self.waiting.iter().any(|waiter| waiter.client == *client);
        self.served.retain(|client, _| in_line(client) || self.running.contains_key(client));
        let (at, place) = match self.first(|state, waiter| state.has_place(waiter.client)) {
            Some(at) => (at, Place::Any),
            None if self.is_short_taken => return None,
            None => (self.first(|_, waiter| !waiter.is_long)?, Place::Short),
        };
        let waiter = self.waiting.remove(at)?;
        self.take(waiter.client, place);
        Some((waiter, place))
    }

    /// The first one whose client has the fewest places, and of these the one that has waited longest for its last.
    fn first(&self, may: impl Fn(&State, &Waiter) -> bool) -> Option<usize> {
        let may = self.waiting.iter().enumerate().filter(|(_, waiter)| may(self, waiter));
        let rank = |client| (self.places(client), self.served.get(&client).copied().unwrap_or(0));
        may.min_by_key(|(_, waiter)| rank(waiter.client)).map(|(at, _)| at)
    }

    fn places(&self, client: Client) -> usize {
        self.running.get(&client).copied().unwrap_or(0)
    }

    /// True if there is a place for any query that this client may have.
    fn has_place(&self, client: Client) -> bool {
        let taken: usize = self.running.values().sum();
        taken < QUERIES_MAX - 1 && self.places(client) < QUERIES_OF_A_CLIENT_MAX
    }

    fn take(&mut self, client: Client, place: Place) {
        self.turns += 1;
        self.served.insert(client, self.turns);
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
            state.take(self.client, Place::Any);
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
mod tests {
    use super::*;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn client(number: u8) -> Client {
        Client(Some(IpAddr::from([192, 0, 2, number])))
    }

    fn poll(turn: Pin<&mut impl Future<Output = Turn>>) -> Option<Turn> {
        match turn.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    /// The turn that somebody gets at once.
    fn at_once(line: &Arc<Line>, client: Client, is_long: bool) -> Option<Turn> {
        poll(pin!(line.turn(client, is_long)))
    }

    #[test]
    fn one_client_leaves_a_place_for_others_and_one_for_short_queries() {
        let line = Arc::new(Line::default());
        let long: Vec<Turn> = (0..4).filter_map(|_| at_once(&line, client(1), true)).collect();
        assert_eq!(long.len(), QUERIES_OF_A_CLIENT_MAX);
        let other = at_once(&line, client(2), true).expect("a place for another client");
        assert!(at_once(&line, client(3), true).is_none(), "every place for long queries is taken");
        let short = at_once(&line, client(1), false).expect("the place for short queries");
        assert!(short.is_short() && !other.is_short() && !short.stays());
        assert!(at_once(&line, client(3), false).is_none());
        drop(short);
        let short = at_once(&line, client(3), false).expect("it is free again");
        drop(other);
        assert!(short.stays() && !short.is_short(), "it takes the place that became free");
        assert!(at_once(&line, client(1), false).is_some());
    }

    #[test]
    fn the_next_place_is_for_the_client_that_has_the_fewest_and_waits_longest() {
        let line = Arc::new(Line::default());
        let mut held: Vec<Turn> = [1, 1, 2].map(|n| at_once(&line, client(n), true).unwrap()).into();
        let (mut one, mut two, mut three, mut four) = (
            Box::pin(line.turn(client(1), true)),
            Box::pin(line.turn(client(2), true)),
            Box::pin(line.turn(client(3), true)),
            Box::pin(line.turn(client(4), true)),
        );
        assert!(
            [&mut one, &mut two, &mut three, &mut four].into_iter().all(|turn| poll(turn.as_mut()).is_none())
        );
        drop(three);
        drop(held.remove(0));
        let fourth = poll(four.as_mut()).expect("it has none, and the third has left");
        assert!(poll(one.as_mut()).is_none() && poll(two.as_mut()).is_none());
        drop(held.pop());
        assert!(poll(two.as_mut()).is_some(), "client 2 has none any more, and client 1 has one");
        drop(fourth);
        assert!(poll(one.as_mut()).is_some());
    }
}
