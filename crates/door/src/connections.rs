//! The open connections: how many there are, which of them are idle, and which idle one gives way when a new
//! one comes and the limit is reached. It refuses to touch sockets: a connection that must go is told so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All connections of one door.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: usize,
    /// Grows with each connection that turns idle, so that the first key is the one idle longest.
    turn: u64,
    idle: BTreeMap<u64, Arc<Notify>>,
}

/// What [`Connections::admit`] did.
#[derive(Debug)]
pub enum Admission {
    /// There was place.
    Placed(Arc<Connection>),
    /// The connection idle longest was told to go.
    Evicting(Arc<Connection>),
    /// All are busy.
    Full,
}

/// One open connection; idle from the start and whenever no request is under way.
#[derive(Debug)]
pub struct Connection {
    all: Arc<Connections>,
    /// Told when this connection must give way.
    gone: Arc<Notify>,
    /// Its key among the idle ones; [`BUSY`] while a request is under way.
    turn: AtomicU64,
    streaming: AtomicBool,
}

const BUSY: u64 = u64::MAX;

impl Connections {
    /// A table for so many connections, one at least.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Connections { limit: limit.max(1), table: Mutex::default() })
    }

    /// Admits a new connection.
    pub fn admit(self: &Arc<Self>) -> Admission {
        let mut table = self.table();
        let evicting = table.open >= self.limit;
        if evicting {
            match table.idle.pop_first() {
                Some((_, gone)) => gone.notify_one(),
                None => return Admission::Full,
            }
            // The place of the evicted one is taken over here; see `Drop`.
        } else {
            table.open += 1;
        }
        let gone = Arc::new(Notify::new());
        let turn = table.add_idle(Arc::clone(&gone));
        let connection = Arc::new(Connection {
            all: Arc::clone(self),
            gone,
            turn: AtomicU64::new(turn),
            streaming: AtomicBool::new(false),
        });
        if evicting { Admission::Evicting(connection) } else { Admission::Placed(connection) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while it is held; and if something did, counts would still be counts.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn add_idle(&mut self, gone: Arc<Notify>) -> u64 {
        self.turn += 1;
        self.idle.insert(self.turn, gone);
        self.turn
    }
}

impl Connection {
    /// Resolves when this connection must give way to a new one.
    pub async fn evicted(&self) {
        self.gone.notified().await;
    }

    /// A request is under way until what is returned is dropped. `None`: it is too late, the place is given
    /// away already.
    pub fn busy(self: &Arc<Self>) -> Option<Busy> {
        let mut table = self.all.table();
        table.idle.remove(&self.turn.load(Ordering::Relaxed))?;
        self.turn.store(BUSY, Ordering::Relaxed);
        Some(Busy(Arc::clone(self)))
    }

    /// Marks a stream as what is being sent here.
    pub fn set_streaming(&self) {
        self.streaming.store(true, Ordering::Relaxed);
    }

    /// True while a stream is being sent here.
    pub fn is_streaming(&self) -> bool {
        self.streaming.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut table = self.all.table();
        let turn = self.turn.load(Ordering::Relaxed);
        // One that is neither busy nor among the idle was evicted: its place has gone to another.
        if turn == BUSY || table.idle.remove(&turn).is_some() {
            table.open -= 1;
        }
    }
}

/// Keeps a connection from being evicted.
#[derive(Debug)]
pub struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut table = self.0.all.table();
        let turn = table.add_idle(Arc::clone(&self.0.gone));
        self.0.turn.store(turn, Ordering::Relaxed);
        self.0.streaming.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(all: &Arc<Connections>) -> Arc<Connection> {
        match all.admit() {
            Admission::Placed(connection) => connection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_connection_idle_longest_gives_way() {
        let all = Connections::new(2);
        let (first, second) = (place(&all), place(&all));
        drop(first.busy());
        let Admission::Evicting(_third) = all.admit() else { panic!("there was an idle one") };
        assert!(second.busy().is_none(), "the second has been idle longest since the first worked");
        assert!(first.busy().is_some());
    }

    #[test]
    fn busy_connections_never_give_way() {
        let all = Connections::new(1);
        let only = place(&all);
        let request = only.busy().unwrap();
        assert!(matches!(all.admit(), Admission::Full));
        drop(request);
        assert!(matches!(all.admit(), Admission::Evicting(_)));
    }

    #[test]
    fn a_place_is_counted_once_however_its_holder_ends() {
        let all = Connections::new(2);
        let (first, second) = (place(&all), place(&all));
        let Admission::Evicting(third) = all.admit() else { panic!("full") };
        drop(first);
        assert_eq!(all.table().open, 2, "the third has the place of the first");
        let busy = third.busy();
        drop(third);
        drop(busy);
        drop(second);
        let table = all.table();
        assert_eq!((table.open, table.idle.len()), (0, 0));
    }
}
