//! The open connections of a door: how many there are, which are idle, and which idle one must leave when a
//! new one comes at the limit. This file touches no sockets: it notifies a connection that must leave.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Where descriptors are scarce, a door still has this number of places: others may have taken the descriptors, and somebody must be
/// able to ask what is wrong.
const SCARCE_PLACES: usize = 4;

/// All connections of one door.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    /// Grows with each connection that turns idle, so that the smallest number belongs to the one idle
    /// longest.
    turns: AtomicU64,
    open: Mutex<Vec<Arc<Place>>>,
}

/// What [`Connections::admit`] did.
#[derive(Debug)]
pub enum Admission {
    /// There was room.
    Placed(Arc<Connection>),
    /// The connection idle longest was notified to leave.
    Evicting(Arc<Connection>),
    /// All are busy.
    Full,
}

/// One open connection. It is idle from the start, and whenever no request is under way.
#[derive(Debug)]
pub struct Connection {
    all: Arc<Connections>,
    place: Arc<Place>,
}

/// What others see of a connection. A request begins and ends with one store each: nobody walks over all
/// connections unless one must leave.
#[derive(Debug)]
struct Place {
    /// When it turned idle; [`BUSY`] while a request is under way, [`GONE`] once it must leave.
    turn: AtomicU64,
    /// Notified when this connection must leave.
    gone: Notify,
    streaming: AtomicBool,
}

const BUSY: u64 = u64::MAX;
const GONE: u64 = u64::MAX - 1;

impl Connections {
    /// A table for `limit` connections, at least one.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Connections { limit: limit.max(1), turns: AtomicU64::new(0), open: Mutex::default() })
    }

    /// Admits a new connection. `is_scarce`: descriptors are, so there are as many places as connections, but some at least.
    pub fn admit(self: &Arc<Self>, is_scarce: bool) -> Admission {
        let mut open = self.open();
        let limit = if is_scarce { self.limit.min(SCARCE_PLACES) } else { self.limit };
        let evicting = open.len() >= limit;
        if evicting && !evict(&mut open) {
            return Admission::Full;
        }
        let turn = AtomicU64::new(self.next_turn());
        let place = Arc::new(Place { turn, gone: Notify::new(), streaming: AtomicBool::new(false) });
        open.push(Arc::clone(&place));
        let connection = Arc::new(Connection { all: Arc::clone(self), place });
        if evicting { Admission::Evicting(connection) } else { Admission::Placed(connection) }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Place>>> {
        // No code panics while it holds the lock; and even after a panic the list would be valid.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}

/// Notifies the connection that has been idle longest to leave; `false`: all are busy.
fn evict(open: &mut Vec<Arc<Place>>) -> bool {
    loop {
        let turn_of = |place: &Arc<Place>| place.turn.load(Ordering::Relaxed);
        let idle = open.iter().map(turn_of).enumerate().filter(|&(_, turn)| turn != BUSY);
        let Some((at, turn)) = idle.min_by_key(|&(_, turn)| turn) else { return false };
        // It may have become busy just now.
        if open[at].turn.compare_exchange(turn, GONE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            open.swap_remove(at).gone.notify_one();
            return true;
        }
    }
}

impl Connection {
    /// Resolves when this connection must leave for a new one.
    pub async fn evicted(&self) {
        self.place.gone.notified().await;
    }

    /// Marks the connection busy until the returned value is dropped. `None`: too late, its place is already
    /// given away.
    pub fn busy(self: &Arc<Self>) -> Option<Busy> {
        let turn = self.place.turn.load(Ordering::Relaxed);
        let taken = turn < GONE
            && self.place.turn.compare_exchange(turn, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        taken.then(|| Busy(Arc::clone(self)))
    }

    /// Records that this connection now sends a stream.
    pub fn set_streaming(&self) {
        self.place.streaming.store(true, Ordering::Relaxed);
    }

    /// True while this connection sends a stream.
    pub fn is_streaming(&self) -> bool {
        self.place.streaming.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.all.open();
        // The place of an evicted connection already belongs to another.
        if let Some(at) = open.iter().position(|place| Arc::ptr_eq(place, &self.place)) {
            open.swap_remove(at);
        }
    }
}

/// Keeps a connection from being evicted.
#[derive(Debug)]
pub struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.place.streaming.store(false, Ordering::Relaxed);
        self.0.place.turn.store(self.0.all.next_turn(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(all: &Arc<Connections>) -> Arc<Connection> {
        match all.admit(false) {
            Admission::Placed(connection) => connection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_connection_idle_longest_gives_way() {
        let all = Connections::new(2);
        let (first, second) = (place(&all), place(&all));
        drop(first.busy());
        let Admission::Evicting(_third) = all.admit(false) else { panic!("there was an idle one") };
        assert!(second.busy().is_none(), "the second has been idle longest since the first worked");
        assert!(first.busy().is_some());
    }

    #[test]
    fn busy_connections_never_give_way() {
        let all = Connections::new(1);
        let only = place(&all);
        let request = only.busy().unwrap();
        assert!(matches!(all.admit(false), Admission::Full));
        drop(request);
        assert!(matches!(all.admit(false), Admission::Evicting(_)));
    }

    #[test]
    fn where_descriptors_are_scarce_there_are_no_more_places_than_connections_beyond_a_few() {
        let all = Connections::new(100);
        let few: Vec<_> = (0..SCARCE_PLACES)
            .map(|_| match all.admit(true) {
                Admission::Placed(connection) => connection,
                other => panic!("others have the descriptors: {other:?}"),
            })
            .collect();
        let more = place(&all);
        let Admission::Evicting(_last) = all.admit(true) else { panic!("they are idle") };
        assert!(few[0].busy().is_none());
        assert_eq!(all.open().len(), SCARCE_PLACES + 1);
        drop(more);
    }

    #[test]
    fn a_place_is_counted_once_however_its_holder_ends() {
        let all = Connections::new(2);
        let (first, second) = (place(&all), place(&all));
        let Admission::Evicting(third) = all.admit(false) else { panic!("full") };
        drop(first);
        assert_eq!(all.open().len(), 2, "the third has the place of the first");
        let busy = third.busy();
        drop(third);
        drop(busy);
        drop(second);
        assert!(all.open().is_empty());
    }
}
