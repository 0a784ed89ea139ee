//! How connections come in: the listeners are asked for the next one, and rest while none can be taken.

use khz_link::HubEnd;
use khz_model::Nanos;
use ring::rand::SecureRandom;
use rustix::event::epoll;

use super::thread::Server;
use super::token::{Origin, Token};
use crate::caller::Caller;
use crate::connection::{Connection, Ended};
use crate::counts::Counts;
use crate::limits::{CONNECTIONS_MAX, HANDSHAKES_MAX};
use crate::listener::Socket;

/// Connections accepted in one turn of the loop: a scan must not keep the open connections waiting.
const ACCEPTS_A_TURN: usize = 64;

/// Listeners that cannot accept are tried again after this time.
const REST: Nanos = Nanos::from_millis(100);

impl Server {
    /// Accepts what waits at a listener.
    pub(super) fn accept(&mut self, listener: usize, now: Nanos) {
        for _ in 0..ACCEPTS_A_TURN {
            match self.listeners[listener].accept() {
                Ok((socket, caller)) => {
                    Counts::add(&self.cluster.counts.accepted, 1);
                    if let Err(error) = self.take_in(socket, caller, now) {
                        tracing::debug!("{caller}: {error}");
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => return self.cannot_accept(&error, now),
            }
        }
    }

    fn cannot_accept(&mut self, error: &std::io::Error, now: Nanos) {
        Counts::add(&self.cluster.counts.accepts_failed, 1);
        if let Some(line) = self.accept_failures.happened(now, error) {
            tracing::warn!("{line}");
        }
        // Most likely there are no descriptors left: a stranger gives back its own.
        while let Some(oldest) = self.handshakes.pop_front() {
            if self.push_out(oldest, now) {
                return;
            }
        }
        self.rest(Some(Nanos(now.0 + REST.0)));
    }

    /// While no connection can be accepted, waiting connections must not keep the loop awake. `None`: accepts again.
    pub(super) fn rest(&mut self, until: Option<Nanos>) {
        self.rests_until = until;
        let flags = if until.is_some() { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
        for (number, listener) in self.listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(Origin::Listener(number).number());
            if let Err(errno) = epoll::modify(&self.epoll, listener, data, flags) {
                tracing::warn!("the link door may be closed: {errno}");
            }
        }
    }

    /// Drops a connection that has not said who it is; `false` if it has.
    fn push_out(&mut self, oldest: Token, now: Nanos) -> bool {
        let is_stranger = self.connections.get(oldest).is_some_and(Connection::is_stranger);
        if is_stranger {
            Counts::add(&self.cluster.counts.handshakes_dropped, 1);
            self.drop_connection(oldest, Ended::Pushed, now);
        }
        is_stranger
    }

    fn take_in(&mut self, socket: Socket, caller: Caller, now: Nanos) -> Result<(), std::io::Error> {
        if self.connections.open() >= CONNECTIONS_MAX {
            Counts::add(&self.cluster.counts.refused, 1);
            return Ok(());
        }
        while self.handshakes.len() >= HANDSHAKES_MAX
            && let Some(oldest) = self.handshakes.pop_front()
        {
            self.push_out(oldest, now);
        }
        self.refresh_certificates(now);
        let wire = socket.wire(self.tls.as_ref())?;
        let mut nonce = [0; 32];
        self.random.fill(&mut nonce).map_err(|_| std::io::Error::other("no random numbers"))?;
        let token = self.connections.next_token();
        let mut out = Vec::new();
        self.config.sources = self.cluster.sources.all();
        let end = HubEnd::new(&self.config, nonce, now, &mut out);
        let mut connection = Box::new(Connection::new(token, wire, end, out, caller));
        let data = epoll::EventData::new_u64(token.number());
        if let Err(errno) = epoll::add(&self.epoll, connection.wire.socket(), data, epoll::EventFlags::IN) {
            self.connections.free(token);
            return Err(errno.into());
        }
        let sent = connection.flush(&self.epoll);
        self.silence.at_latest(connection.end.deadline());
        self.connections.insert(connection);
        self.handshakes.push_back(token);
        if let Err(ended) = sent {
            self.drop_connection(token, ended, now);
        }
        Ok(())
    }
}
