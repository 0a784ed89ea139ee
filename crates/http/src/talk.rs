//! One connection, from its first byte to its last: reading heads within their limits, giving way when evicted,
//! giving up on who is too slow. It refuses to know what is asked.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::connections::Connection;
use crate::counters::{Counters, Held, count};
use crate::exchange::Exchange;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, Limits};
use crate::stall::Stalling;

/// What one connection needs.
pub(crate) struct Talk {
    pub connection: Arc<Connection>,
    pub limits: Limits,
    pub counters: Counters,
    pub closing: watch::Receiver<bool>,
    pub _open: Held,
}

impl Talk {
    /// Talks until either side ends it.
    pub(crate) async fn run(mut self, socket: TcpStream, exchange: Exchange) {
        let service = service_fn(move |request| {
            let exchange = exchange.clone();
            async move { Ok::<_, Infallible>(exchange.answer(request).await) }
        });
        let socket = TokioIo::new(Stalling::new(socket, self.limits.stall_timeout));
        let mut talk = pin!(protocol(&self.limits).serve_connection(socket, service));
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

    /// Counts why it ended, where that is worth a number.
    fn count(&self, ended: hyper::Result<()>) {
        let Err(error) = ended else { return };
        if stalled(&error) && self.connection.is_streaming() {
            count(&self.counters.streams_dropped_slow);
        } else if error.is_timeout() || stalled(&error) {
            count(&self.counters.connections_expired);
        } else if error.is_parse() {
            count(&self.counters.requests);
            count(&self.counters.requests_refused);
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

/// True when the socket gave up on a client that does not read.
fn stalled(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::TimedOut)
}
