//! At which of several servers a command should follow rows: while rows do not come, a thread asks the servers which of the nodes are
//! up there. It follows no rows.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use khz_ask::{AskError, Piece, Server};
use khz_link::whereabouts::{Up, Whereabouts};
use khz_model::hostlist::Hostlist;
use khz_model::{Nanos, Pattern, Presence};

/// How often the thread looks at what has come.
const TURN: Duration = Duration::from_secs(1);

/// Rows begin to come within this time, unless the server has none of their nodes.
const ROWS_LATE: Duration = Duration::from_secs(2);

/// The servers and their nodes. Dropping it ends the thread, after the request that it makes.
pub struct Elsewhere {
    shared: Arc<Shared>,
}

struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
}

struct Known {
    present: usize,
    /// Counts how often the command has come to a server.
    arrivals: u64,
    since: Instant,
    has_rows: bool,
    /// Nodes that were there and have gone.
    away: HashSet<String>,
    /// The better server.
    better: Option<usize>,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Elsewhere {
    /// Starts the thread. `patterns` select the nodes; empty: all nodes count.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(servers: Vec<Server>, patterns: &[Pattern], present: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            known: Mutex::new(Known {
                present,
                arrivals: 0,
                since: Instant::now(),
                has_rows: false,
                away: HashSet::new(),
                better: None,
                is_over: false,
            }),
            changed: Condvar::new(),
        });
        let named: Option<Vec<&str>> = patterns.iter().map(|p| p.nodes().map(Hostlist::as_str)).collect();
        let nodes = named.filter(|named| !named.is_empty()).map(|named| named.join(","));
        let scout = Scout { servers, nodes, shared: shared.clone(), began: Instant::now() };
        std::thread::Builder::new().name("elsewhere".into()).spawn(move || scout.run())?;
        Ok(Elsewhere { shared })
    }

    /// The command follows the rows of this server from now on.
    pub fn came_to(&self, server: usize) {
        let mut known = self.shared.lock();
        (known.present, known.arrivals, known.since) = (server, known.arrivals + 1, Instant::now());
        (known.has_rows, known.better) = (false, None);
        known.away.clear();
    }

    /// These pieces have come.
    pub fn heard(&self, pieces: &[Piece]) {
        let mut known = self.shared.lock();
        for piece in pieces {
            match piece {
                Piece::Rows { rows, .. } => known.has_rows |= !rows.is_empty(),
                // Rows say nothing: the last ones of a node may come after the word that it has gone.
                Piece::Change { nodes, state, .. } if state == Presence::Up.as_str() => {
                    known.away.retain(|node| !nodes.contains(node));
                }
                Piece::Change { nodes, .. } => {
                    known.away.extend(nodes.iter().cloned());
                    self.shared.changed.notify_all();
                }
                _ => {}
            }
        }
    }

    /// A server that has more of the nodes than the present one; once.
    pub fn take_better(&self) -> Option<usize> {
        self.shared.lock().better.take()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

/// The thread.
struct Scout {
    servers: Vec<Server>,
    /// A hostlist; `None`: all nodes.
    nodes: Option<String>,
    shared: Arc<Shared>,
    began: Instant,
}

impl Scout {
    fn run(self) {
        let mut whereabouts = Whereabouts::new(self.servers.len());
        let mut arrivals = None;
        loop {
            let known = self.shared.lock();
            let known = self.shared.changed.wait_timeout(known, TURN);
            let (known, _) = known.unwrap_or_else(PoisonError::into_inner);
            if known.is_over {
                return;
            }
            let has_none = !known.has_rows && known.since.elapsed() >= ROWS_LATE;
            let still = known.away.len() as u64 + u64::from(has_none);
            let (present, arrival) = (known.present, known.arrivals);
            drop(known);
            if arrivals.replace(arrival) != Some(arrival) {
                whereabouts.came_to(present, self.now());
            }
            // Over HTTP a server says of each node that it has gone, also to readers of channels.
            whereabouts.stand_still(still, false, self.now());
            self.ask(&mut whereabouts, present);
            let better = whereabouts.better().map(|(server, _)| server);
            let mut known = self.shared.lock();
            // It may have gone elsewhere meanwhile, or has just come: then others come, too.
            if known.arrivals == arrival && known.since.elapsed() >= ROWS_LATE {
                known.better = better;
            }
        }
    }

    fn ask(&self, whereabouts: &mut Whereabouts, present: usize) {
        if whereabouts.looks() {
            // One that does not answer has none of them.
            let (up, lacks) = self.up_at(present).unwrap_or_else(|_| (Up::new(), true));
            whereabouts.here(up, lacks, self.now());
        }
        if !whereabouts.compares() {
            return;
        }
        for other in (0..self.servers.len()).filter(|other| *other != present) {
            if let Ok((up, _)) = self.up_at(other) {
                whereabouts.there(other, up, self.now());
            }
        }
    }

    /// Which of the nodes are up at a server, and whether others are not.
    fn up_at(&self, server: usize) -> Result<(Up, bool), AskError> {
        let nodes = self.servers[server].nodes(self.nodes.as_deref())?;
        let (mut up, mut lacks) = (Up::new(), false);
        for (status, _) in nodes.statuses()? {
            match status.up {
                true => drop(up.insert(status.node)),
                false => lacks = true,
            }
        }
        Ok((up, lacks))
    }

    fn now(&self) -> Nanos {
        // The clock of the process; a look is due some time after its beginning.
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
