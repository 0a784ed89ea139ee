//! The link door's thread: one loop around one `epoll_wait`. It sleeps until something comes or the next thing is due
//! (`due.rs`), and never waits for a peer. A peer that is silent or floods is cut.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_link::{HubEndConfig, LinkError, Reason, Reject};
use khz_model::{AcceptFailures, Nanos};
use khz_trust::{REFRESH_PERIOD, TlsServer};
use ring::rand::SystemRandom;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use super::connections::Connections;
use super::token::{Origin, Token};
use crate::clock;
use crate::cluster::Cluster;
use crate::connection::{Connection, Ended};
use crate::counts::Counts;
use crate::due::{self, House, Silence};
use crate::limits::OPERATIONS_A_TURN;
use crate::listener::Listener;
use crate::log_limit::LogLimit;
use crate::mailbox::{Command, Mailbox};
use crate::peer::{Peer, Talk};
use crate::proofs::Proofs;
use crate::turn::Turn;

/// Everyone else waits at most this long for a node that is to be there first.
const HELD_MAX: Nanos = Nanos::SECOND;
/// Bytes taken from one connection at a time, so that one does not keep the others waiting.
const ROOM: usize = 256 << 10;
/// Events taken from epoll at a time.
const EVENTS: usize = 512;

/// The thread's state.
pub(super) struct Server {
    pub(super) cluster: Arc<Cluster>,
    pub(super) tls: Option<TlsServer>,
    proofs: Proofs,
    pub(super) listeners: Vec<Listener>,
    mailbox: Arc<Mailbox>,
    pub(super) epoll: OwnedFd,
    pub(super) config: HubEndConfig,
    pub(super) random: SystemRandom,
    pub(super) connections: Connections,
    /// Connections that have not said who they are, oldest first. Some of them may have by now.
    pub(super) handshakes: VecDeque<Token>,
    /// No connection is accepted before this.
    pub(super) rests_until: Option<Nanos>,
    /// Until this time, or until rows of the first listener's node have come, only that node is
    /// accepted.
    held_until: Option<Nanos>,
    readers: Vec<Token>,
    room: Vec<u8>,
    log: LogLimit,
    pub(super) accept_failures: AcceptFailures,
    /// Counts what has come. A reader that got everything up to this count has nothing to wait for.
    news: u64,
    /// When a reader's next flush is due, if anything has come.
    next_flush: Option<Nanos>,
    pub(super) silence: Silence,
    house: House,
    /// The count of changes of sources that hubs which read here know of.
    sources_known: u64,
    /// Bytes that connections which have ended left free, since free memory was last given back.
    freed: u64,
    refreshed: Nanos,
}

/// What the thread starts with.
pub(super) struct Start {
    pub cluster: Arc<Cluster>,
    pub tls: Option<TlsServer>,
    pub proofs: Proofs,
    pub listeners: Vec<Listener>,
    pub mailbox: Arc<Mailbox>,
    /// The node of the first listener comes before everyone else.
    pub held: bool,
}

impl Server {
    /// Gives every listener and the mailbox's bell to epoll.
    pub(super) fn new(start: Start) -> Result<Self, std::io::Error> {
        let Start { cluster, tls, proofs, listeners, mailbox, held } = start;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, listener) in listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(Origin::Listener(number).number());
            let is_open = number == 0 || !held;
            let flags = if is_open { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
            epoll::add(&epoll, listener, data, flags)?;
        }
        let bell = epoll::EventData::new_u64(Origin::Bell.number());
        epoll::add(&epoll, mailbox.bell(), bell, epoll::EventFlags::IN)?;
        let config = HubEndConfig::new(cluster.identity, cluster.settings.name.clone());
        let now = clock::boot();
        Ok(Server {
            cluster,
            tls,
            proofs,
            listeners,
            mailbox,
            epoll,
            config,
            random: SystemRandom::new(),
            connections: Connections::default(),
            handshakes: VecDeque::new(),
            rests_until: None,
            held_until: held.then_some(Nanos(now.0 + HELD_MAX.0)),
            readers: Vec::new(),
            room: vec![0; ROOM],
            log: LogLimit::default(),
            accept_failures: AcceptFailures::of("link"),
            news: 0,
            next_flush: None,
            silence: Silence::new(now),
            house: House::new(now),
            sources_known: 0,
            freed: 0,
            refreshed: now,
        })
    }

    /// Runs until the mailbox says Stop.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let before = clock::boot();
            let asked = self.next_due().map(|due| due.since(before));
            self.wait(asked, &mut events);
            let now = clock::boot();
            self.silence.slept(before, asked, now);
            for &(origin, flags) in &events {
                match origin {
                    Origin::Bell => {
                        if !self.take_commands(now) {
                            return;
                        }
                    }
                    Origin::Listener(number) => self.accept(number, now),
                    Origin::Connection(token) => self.serve(token, flags),
                }
            }
            self.sweep(clock::boot());
            self.pump(clock::boot());
        }
    }

    /// Sleeps until something comes, at most this long.
    fn wait(&self, longest: Option<Nanos>, events: &mut Vec<(Origin, epoll::EventFlags)>) {
        let timeout = longest.map(|Nanos(ns)| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let mut found = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        events.clear();
        if let Ok((found, _)) = epoll::wait(&self.epoll, &mut found[..], timeout.as_ref()) {
            events.extend(found.iter().map(|event| (Origin::of_number(event.data.u64()), event.flags)));
        }
    }

    /// When the thread must wake up even if nothing comes; `None`: never. A hub without connections does not wake
    /// up, nor does a hub whose readers have everything.
    fn next_due(&self) -> Option<Nanos> {
        let silence = (self.connections.open() > 0).then(|| self.silence.next());
        let unread = self.cluster.followed.ends_next();
        let all = [silence, self.rests_until, self.held_until, self.house.next(), self.next_flush, unread];
        all.into_iter().flatten().min()
    }

    fn serve(&mut self, token: Token, flags: epoll::EventFlags) {
        let Some(mut connection) = self.connections.take(token) else { return };
        let now = clock::boot();
        self.news += 1;
        let was_reader = connection.is_reader();
        let mut result = Ok(());
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            result = self.receive(&mut connection, now);
        }
        let flushed = connection.flush(&self.epoll);
        let result = result.and(flushed);
        if !was_reader && connection.is_reader() {
            self.readers.push(token);
        }
        // A stranger has longer than a peer that has said something.
        self.silence.at_latest(connection.end.deadline());
        self.connections.put_back(connection);
        if let Err(ended) = result {
            self.drop_connection(token, ended, now);
        }
    }

    fn receive(&mut self, connection: &mut Connection, now: Nanos) -> Result<(), Ended> {
        let Connection { token, wire, end, out, caller, peer, kept: kept_before, .. } = connection;
        let (cluster, mailbox) = (&self.cluster, &self.mailbox);
        let mut failed: Option<LinkError> = None;
        let mut room = std::mem::take(&mut self.room);
        let readiness = wire.read(&mut room, |wire, bytes| {
            Counts::add(&cluster.counts.bytes, bytes.len() as u64);
            let certified = match peer {
                Peer::Stranger => wire.certified().map(|known| known.map_err(|error| error.to_string())),
                _ => None,
            };
            let mut talk = Talk {
                cluster,
                mailbox,
                proofs: &self.proofs,
                certified,
                connection: token.number(),
                caller: *caller,
                now,
                peer,
            };
            failed = end.receive(bytes, now, clock::wall(), &mut talk, out).err();
            Ok(())
        });
        self.room = room;
        let kept = end.kept();
        let unfinished = self.connections.unfinished();
        unfinished.set(std::mem::replace(kept_before, kept), kept);
        if failed.is_none() && kept > 0 && unfinished.are_too_many() {
            let text = "all connections together have more unfinished frames than a hub keeps".to_owned();
            end.refuse(Reason::Full, &text, out);
            return Err(Ended::Cut(LinkError::Rejected(Reject { reason: Reason::Full, text })));
        }
        match (failed, readiness) {
            (Some(error), _) => Err(Ended::Cut(error)),
            (None, Ok(crate::wire::Readiness::End)) => Err(Ended::Closed),
            (None, Ok(_)) => Ok(()),
            (None, Err(error)) => Err(Ended::Wire(error.to_string())),
        }
    }

    /// `false`: it is time to end.
    fn take_commands(&mut self, now: Nanos) -> bool {
        self.news += 1;
        for (number, command) in self.mailbox.take() {
            if matches!(command, Command::Stop) {
                return false;
            }
            let token = Token::of_number(number);
            let Some(connection) = self.connections.get_mut(token) else { continue };
            let mut result = connection.obey(command);
            result = result.and(connection.flush(&self.epoll));
            if let Err(ended) = result {
                self.drop_connection(token, ended, now);
            }
        }
        true
    }

    /// Prompt readers get what has come in every turn of the loop, the others in flushes: at once if the last flush was
    /// some time ago.
    fn pump(&mut self, now: Nanos) {
        self.next_flush = None;
        if self.readers.is_empty() {
            return;
        }
        self.cluster.readers.store(self.readers.len() as u64, Ordering::Relaxed);
        let mut ended = Vec::new();
        let mut turn = Turn::of(OPERATIONS_A_TURN);
        self.readers.retain(|&token| {
            let Some(connection) = self.connections.get_mut(token) else { return false };
            let Peer::Reader(reader) = &mut connection.peer else { return false };
            let is_due = now >= connection.flush_at;
            if reader.is_busy() && (is_due || reader.is_prompt() || reader.has_answers()) {
                let has_more = reader.pump(&self.cluster, &mut turn, !is_due, &mut connection.out);
                if is_due || reader.is_all_prompt() {
                    (connection.flushed, connection.more) = (self.news, has_more);
                } else {
                    connection.more |= has_more;
                }
                if is_due {
                    connection.flush_at = due::flush_after(now, token.place());
                }
                if let Err(end) = connection.flush(&self.epoll) {
                    ended.push((token, end));
                }
            }
            let next = connection.next_flush(self.news, now);
            self.next_flush = self.next_flush.into_iter().chain(next).min();
            true
        });
        if turn.is_over() && !self.readers.is_empty() {
            // No reader comes last every time.
            self.readers.rotate_left(1);
        }
        for (token, end) in ended {
            self.drop_connection(token, end, now);
        }
        self.cluster.is_read_here(!self.readers.is_empty());
    }

    /// Cuts silent peers, and does periodic work: a thread that is awake anyway does it.
    fn sweep(&mut self, now: Nanos) {
        if self.silence.is_due(now) {
            self.cut_silent(now);
        }
        self.cut_hubs_of_other_sources(now);
        if self.rests_until.is_some_and(|until| now >= until) {
            self.rest(None);
        }
        let has_rows = || self.cluster.counts.rows.load(Ordering::Relaxed) > 0;
        if self.held_until.is_some_and(|until| now >= until || has_rows()) {
            self.held_until = None;
            self.rest(None);
        }
        if self.cluster.followed.ends_next().is_some_and(|end| now >= end) {
            self.cluster.followed.end_unread(now);
        }
        if self.house.is_due(now, self.news) {
            let due = self.cluster.keep_house(now);
            self.house.was_kept(due);
            self.freed += self.connections.unfinished().take_freed().unwrap_or(0) as u64;
            if self.cluster.has_given_back(self.freed) {
                self.freed = 0;
            }
        }
        let mut handshakes = std::mem::take(&mut self.handshakes);
        handshakes.retain(|&token| self.connections.get(token).is_some_and(Connection::is_stranger));
        self.handshakes = handshakes;
        self.cluster.counts.handshakes.store(self.handshakes.len() as u64, Ordering::Relaxed);
        self.cluster.counts.connections.store(self.connections.open() as u64, Ordering::Relaxed);
    }

    /// Cuts every connection that is silent, and finds out when the next one may be.
    fn cut_silent(&mut self, now: Nanos) {
        if self.silence.may_cut(now) {
            let is_silent = |connection: &Connection| connection.end.deadline() < now;
            let silent: Vec<Token> =
                self.connections.all().filter(|known| is_silent(known)).map(|known| known.token).collect();
            for token in silent {
                // If we were slow, what the peer has said still lies in its socket.
                self.serve(token, epoll::EventFlags::IN);
                if self.connections.get(token).is_some_and(is_silent) {
                    Counts::add(&self.cluster.counts.silent, 1);
                    self.drop_connection(token, Ended::Silent, now);
                }
            }
        }
        let deadlines = self.connections.all().map(|connection| connection.end.deadline());
        self.silence.checked(now, deadlines.min());
    }

    /// A hub that reads here learns this hub's sources when it connects: if they have changed, it has to come again.
    fn cut_hubs_of_other_sources(&mut self, now: Nanos) {
        let changed = self.cluster.sources.changes();
        if std::mem::replace(&mut self.sources_known, changed) == changed {
            return;
        }
        let is_hub = |known: &&Connection| matches!(&known.peer, Peer::Reader(reader) if reader.is_hub);
        let hubs: Vec<Token> = self.connections.all().filter(is_hub).map(|known| known.token).collect();
        for token in hubs {
            self.drop_connection(token, Ended::Told("this hub has another source".into()), now);
        }
    }

    /// New certificates matter to peers that connect: whenever one does, the files are checked.
    pub(super) fn refresh_certificates(&mut self, now: Nanos) {
        if now.since(self.refreshed).0 < REFRESH_PERIOD.as_nanos() as u64 {
            return;
        }
        self.refreshed = now;
        match self.tls.as_ref().map(TlsServer::refresh) {
            Some(Ok(true)) => tracing::info!("the link door has new certificates"),
            Some(Err(error)) => tracing::warn!("the link door keeps its certificates: {error}"),
            _ => {}
        }
    }

    /// A connection has ended: logs why, counts it, and frees its node.
    pub(super) fn drop_connection(&mut self, token: Token, ended: Ended, now: Nanos) {
        let Some(mut connection) = self.connections.remove(token) else { return };
        if matches!(ended, Ended::Cut(_)) {
            // The last frame says why; it is sent if the socket has room now.
            let _ = connection.flush(&self.epoll);
            let counts = &self.cluster.counts;
            Counts::add(if connection.is_stranger() { &counts.refused } else { &counts.cut }, 1);
        }
        self.log_end(&connection, &ended, now);
        if let Peer::Node(shared) = &connection.peer {
            shared.disconnect(token.number(), Some(ended.to_string()), now);
            self.cluster.freezes.disconnected(token.number());
        }
        self.free(connection);
    }

    /// Frees a connection, and counts the memory that becomes free: its cursors, and the buffer for its frames, which stays
    /// as free memory between used memory. Housekeeping follows, and returns much of that to the system.
    fn free(&mut self, connection: Box<Connection>) {
        let before = self.cluster.follow_bytes.held();
        let frames = if connection.is_reader() { connection.sent } else { 0 };
        drop(connection);
        self.freed += frames + before.saturating_sub(self.cluster.follow_bytes.held());
        self.news += 1;
    }

    fn log_end(&mut self, connection: &Connection, ended: &Ended, now: Nanos) {
        let who = connection.who();
        let has_left = matches!(&connection.peer, Peer::Node(node) if node.lock().link().has_said_goodbye());
        if matches!(ended, Ended::Cut(_)) && connection.is_stranger() {
            // An agent that is refused comes again and again, each time from another port.
            let same = format!("{}: {ended}", connection.caller.from());
            self.log.warn_of(now, same, || format!("{who}: {ended}"));
        } else if ended.is_news(&connection.peer) && !has_left {
            self.log.warn(now, || format!("{who}: {ended}"));
        } else {
            tracing::debug!("{who}: {ended}");
        }
    }
}
