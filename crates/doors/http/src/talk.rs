//! One connection from its first byte to its last: reads request heads within their limits, leaves when
//! evicted, and ends on a client that is too slow. Knows nothing of the requests.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use khz_door::{Accepted, Access, Connection, Entered, Sealed, Stalling, Tide, Turned, enter};
use khz_model::Budget;
use tokio::sync::watch;

use crate::counters::{Counters, Held, count};
use crate::exchange::Exchange;
use crate::guard::Guard;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, Limits};
use crate::prometheus::line::Client;

/// What all connections of a door share.
pub(crate) struct Shared {
    pub router: Router,
    pub guard: Guard,
    pub access: Access,
    pub sealed: Option<Sealed>,
    pub limits: Limits,
    pub counters: Counters,
    /// The memory that all answers together may take.
    pub answers: Budget,
    /// Detects the end of bursts of readers.
    pub tide: Arc<Tide>,
}

/// What one connection needs.
pub(crate) struct Talk {
    pub connection: Arc<Connection>,
    pub shared: Arc<Shared>,
    pub closing: watch::Receiver<bool>,
    pub _open: Open,
}

/// One open connection, for the counts.
pub(crate) struct Open {
    tide: Arc<Tide>,
    open: Option<Held>,
}

impl Open {
    pub fn new(counters: &Counters, tide: &Arc<Tide>) -> Self {
        let open = Some(Held::new(&counters.connections_open));
        tide.rises();
        Open { tide: Arc::clone(tide), open }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.open = None;
        self.tide.falls();
    }
}

impl Talk {
    /// Admits the client, and talks until either side ends the connection.
    pub(crate) async fn run(mut self, socket: Accepted) {
        let client = Client::of(&socket);
        let entered = tokio::select! {
            entered = enter(socket, self.shared.sealed.clone()) => entered,
            () = self.connection.evicted() => return,
            _ = self.closing.changed() => return,
        };
        match entered {
            Ok(entered) => self.talk(entered, client).await,
            Err(turned) => self.count_turned(&turned),
        }
    }

    async fn talk(mut self, Entered { socket, way, origin }: Entered, client: Client) {
        let exchange = Exchange {
            connection: Arc::clone(&self.connection),
            shared: Arc::clone(&self.shared),
            way,
            origin,
            client,
        };
        let service = service_fn(move |request| {
            let exchange = exchange.clone();
            async move { Ok::<_, Infallible>(exchange.answer(request).await) }
        });
        let limits = &self.shared.limits;
        let socket = TokioIo::new(Stalling::new(socket, limits.stall_timeout, limits.taken_min));
        let mut talk = pin!(protocol(limits).serve_connection(socket, service));
        let mut told = false;
        loop {
            tokio::select! {
                ended = &mut talk => return self.count(ended),
                () = self.connection.evicted() => return,
                _ = self.closing.changed(), if !told => {
                    told = true;
                    talk.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn count_turned(&self, turned: &Turned) {
        let counters = &self.shared.counters;
        match turned {
            Turned::Slow => count(&counters.connections_expired),
            Turned::Socket(_) | Turned::Plain | Turned::Stranger(_) => count(&counters.handshakes_failed),
        }
    }

    /// Counts why the connection ended, if there is a count for it.
    fn count(&self, ended: hyper::Result<()>) {
        let Err(error) = ended else { return };
        if stalled(&error) && self.connection.is_streaming() {
            count(&self.shared.counters.streams_dropped_slow);
        } else if error.is_timeout() || stalled(&error) {
            count(&self.shared.counters.connections_expired);
        } else if error.is_parse() {
            count(&self.shared.counters.requests);
            count(&self.shared.counters.requests_refused);
        }
    }
}

fn protocol(limits: &Limits) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    protocol
}

/// True when writing failed because the client does not read.
fn stalled(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::TimedOut)
}
