//! Receives callers until the door closes, and closes it in a bounded time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use khz_model::{AcceptFailures, Nanos, Repeats};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::connections::{Admission, Connection, Connections};
use crate::counts::count;
use crate::entrance::Accepted;
use crate::listeners::{ACCEPT_RETRY, Listeners};

/// Passes every connection to `receive` until `shutdown` resolves. Then notifies `close`, and lets open
/// connections finish for at most `grace`. Drops `kept` when accepting ends, which removes a local socket's
/// file. Needs no CPU time when nobody is connected.
pub async fn receive_all<K>(
    (listeners, kept): (Listeners, K),
    failures: Failures<'_>,
    close: watch::Sender<bool>,
    shutdown: impl Future<Output = ()>,
    grace: Duration,
    receive: impl Fn(Accepted, &mut JoinSet<()>),
) {
    let mut talks = JoinSet::new();
    let (began, mut told) = (Instant::now(), AcceptFailures::of(failures.door));
    let mut scarce = Repeats::default();
    let now = || Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = poll_fn(|cx| listeners.poll_accept(cx)) => match accepted {
                Ok(socket) => {
                    if socket.is_scarce() && let Some(times) = scarce.happened(now()) {
                        tracing::warn!(
                            "few file descriptors are left, which the {} door leaves to the rest of khz: connections without a request are closed{times}; allow this process more open files (ulimit -n; LimitNOFILE= in its unit)",
                            failures.door
                        );
                    }
                    receive(socket, &mut talks);
                }
                Err(error) => {
                    count(failures.count);
                    if let Some(line) = told.happened(now(), &error) {
                        tracing::warn!("{line}");
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
            Some(_) = talks.join_next() => {}
        }
    }
    drop((listeners, kept));
    close.send_replace(true);
    let all_gone = async { while talks.join_next().await.is_some() {} };
    // Disconnects the rest: dropping the set ends its tasks.
    let _ = tokio::time::timeout(grace, all_gone).await;
}

/// Counts connections that a door could not accept.
#[derive(Clone, Copy, Debug)]
pub struct Failures<'a> {
    /// Which door: `HTTP`.
    pub door: &'static str,
    /// How many there were.
    pub count: &'a AtomicU64,
}

/// A door's counts of new connections.
#[derive(Clone, Copy, Debug)]
pub struct Coming<'a> {
    /// All new connections.
    pub all: &'a AtomicU64,
    /// Those that took the place of an idle one.
    pub evicting: &'a AtomicU64,
    /// Those for which there was no place.
    pub refused: &'a AtomicU64,
}

/// Takes a place for one more connection, and counts it; `None`: there is none. With few descriptors left, there are as many places as
/// there are connections, but some at least: one that is idle gives way.
pub fn admit(
    connections: &Arc<Connections>,
    socket: &Accepted,
    coming: Coming<'_>,
) -> Option<Arc<Connection>> {
    count(coming.all);
    match connections.admit(socket.is_scarce()) {
        Admission::Placed(connection) => Some(connection),
        Admission::Evicting(connection) => {
            count(coming.evicting);
            Some(connection)
        }
        Admission::Full => {
            count(coming.refused);
            None
        }
    }
}
