//! The link door: one thread that accepts nodes and readers, takes their bytes, and says what there is to say. It
//! sleeps in one `epoll_wait` until something comes or the next thing is due (`due.rs`); it never waits for a peer, and
//! a peer that is silent or floods is cut.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use khz_link::{HubEnd, HubEndConfig, LinkError, Reason, Reject};
use khz_model::{AcceptFailures, Nanos};
use khz_trust::{ClusterKey, Exposure, ExposureError, Means, REFRESH_PERIOD, RunKey, TlsServer};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::caller::Caller;
use crate::clock;
use crate::cluster::Cluster;
use crate::connection::{Connection, Ended};
use crate::counts::Counts;
use crate::due::{self, House, Silence};
use crate::limits::{CONNECTIONS_MAX, HANDSHAKES_MAX, OPERATIONS_A_TURN, UNFINISHED_BYTES_MAX};
use crate::listener::{Listener, Socket};
use crate::log_limit::LogLimit;
use crate::mailbox::{Command, Mailbox};
use crate::peer::{Peer, Talk};
use crate::proofs::Proofs;
use crate::turn::Turn;

/// Others wait so long at most for a node that is to be there before them.
const HELD_MAX: Nanos = Nanos::SECOND;
/// While nobody can be taken in, the doors are tried again so often.
const REST: Nanos = Nanos::from_millis(100);
/// Bytes taken from one connection at a time, so that one does not keep the others waiting.
const ROOM: usize = 256 << 10;
const EVENTS: usize = 512;

const BELL: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 1_024;

/// Where and how nodes and readers come in.
pub struct LinkDoor {
    /// Addresses.
    pub listen: Vec<SocketAddr>,
    /// A socket of this machine, which does not block: root and our own user may be anybody there, others read.
    pub local: Option<UnixListener>,
    /// Where the key of this run goes, for who comes over loopback, and the name of the local socket there.
    pub run: Option<(PathBuf, Option<String>)>,
    /// TLS, where it is configured; then for every connection.
    pub tls: Option<TlsServer>,
    /// The cluster key that tokens are made from.
    pub key: Option<ClusterKey>,
    /// Whether a certificate of the cluster's CA is accepted in place of a token.
    pub certificates: bool,
    /// Somebody has decided that TLS can be missing, and that names of nodes are believed where nothing proves them.
    pub insecure: bool,
}

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum LinkDoorError {
    /// The address may not be opened like this.
    #[error(transparent)]
    Exposed(#[from] ExposureError),
    /// It cannot be bound.
    #[error("cannot listen on {address} for nodes: {source}; choose another with --link-listen ADDRESS:PORT")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The kernel refused something that it never refuses.
    #[error("cannot start serving links: {0}")]
    Kernel(#[from] std::io::Error),
}

/// A link door that is open. Dropping it closes every connection.
pub struct LinkServer {
    mailbox: Arc<Mailbox>,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
    /// Its other end goes with the thread.
    life: UnixStream,
}

impl LinkServer {
    /// Binds every address, or none, and starts the thread.
    pub fn start(cluster: Arc<Cluster>, door: LinkDoor) -> Result<Self, LinkDoorError> {
        Self::start_with(cluster, door, None)
    }

    /// The same of a cluster of one, whose node comes at a socket of its own: who comes elsewhere is taken in when rows of
    /// it are there, as if it had always been.
    pub fn start_for_own(
        cluster: Arc<Cluster>,
        door: LinkDoor,
        own: UnixListener,
    ) -> Result<Self, LinkDoorError> {
        Self::start_with(cluster, door, Some(own))
    }

    fn start_with(
        cluster: Arc<Cluster>,
        mut door: LinkDoor,
        own: Option<UnixListener>,
    ) -> Result<Self, LinkDoorError> {
        let means = Means {
            tls: door.tls.is_some(),
            identifies: door.key.is_some() || door.certificates,
            insecure: door.insecure,
        };
        let mut listeners = Vec::new();
        for &address in &door.listen {
            Exposure::of_listener(address, means)?;
            let bind = |source| LinkDoorError::Bind { address, source };
            let listener = TcpListener::bind(address).map_err(bind)?;
            listener.set_nonblocking(true)?;
            rustix::net::listen(&listener, 4_096).map_err(std::io::Error::from)?;
            listeners.push(Listener::Net(listener));
        }
        let addresses: Vec<SocketAddr> =
            listeners.iter().filter_map(Listener::address).collect::<Result<_, _>>()?;
        listeners.extend(door.local.take().map(Listener::Local));
        let mailbox = Arc::new(Mailbox::new().map_err(std::io::Error::from)?);
        cluster.served_by(&mailbox);
        let held = own.is_some();
        // The first of all: who comes elsewhere is held back behind it.
        listeners.splice(0..0, own.map(Listener::Local));
        let proofs = proofs(&mut door, &addresses);
        let server = Server::new(cluster, door.tls, proofs, listeners, mailbox.clone(), held)?;
        let (life, end) = UnixStream::pair()?;
        let run = move || {
            let _end = end;
            server.run();
        };
        let thread = std::thread::Builder::new().name("link".into()).spawn(run)?;
        Ok(LinkServer { mailbox, addresses, thread: Some(thread), life })
    }

    /// What becomes readable when the thread has ended, which it does by itself only by a panic; it does not block.
    ///
    /// # Errors
    /// There is no descriptor for it.
    pub fn life(&self) -> std::io::Result<UnixStream> {
        self.life.set_nonblocking(true)?;
        self.life.try_clone()
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for LinkServer {
    fn drop(&mut self) {
        self.mailbox.put(BELL, Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// What counts at this door. Without a run key only what is shown does: that is said, and no more.
fn proofs(door: &mut LinkDoor, addresses: &[SocketAddr]) -> Proofs {
    let run = door.run.take().and_then(|(folder, socket)| {
        RunKey::make(&folder, addresses, socket.as_deref())
            .inspect_err(|error| tracing::warn!("who comes over loopback must show a token: {error}"))
            .ok()
    });
    let proofs =
        Proofs { key: door.key.take(), run, certificates: door.certificates, insecure: door.insecure };
    if proofs.believes_names() {
        tracing::warn!(
            "--insecure, and neither --cluster-key nor --tls-ca: names of nodes are believed, whoever says them at {}",
            addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
        );
    }
    proofs
}

struct Server {
    cluster: Arc<Cluster>,
    tls: Option<TlsServer>,
    proofs: Proofs,
    listeners: Vec<Listener>,
    mailbox: Arc<Mailbox>,
    epoll: OwnedFd,
    config: HubEndConfig,
    random: SystemRandom,
    /// By place; a connection's token is its place and a number that tells it from those before.
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    made: u64,
    open: usize,
    /// Connections in the order in which they came, as far as they have not said who they are; and some that have.
    handshakes: std::collections::VecDeque<u64>,
    /// Nobody is taken in before this.
    rests_until: Option<Nanos>,
    /// Only the node of the first listener is taken in, until rows of it are there, or until this.
    held_until: Option<Nanos>,
    /// Places of those who read.
    readers: Vec<usize>,
    room: Vec<u8>,
    /// Bytes of frames that have begun and not ended, of all connections.
    unfinished: usize,
    /// The most of them since memory was given back.
    unfinished_most: usize,
    log: LogLimit,
    accept_failures: AcceptFailures,
    /// Counts what has come: a reader that was told of everything up to here has nothing to wait for.
    news: u64,
    /// When a reader has something to hear, as far as anything has come.
    next_flush: Option<Nanos>,
    silence: Silence,
    house: House,
    /// Changes of sources that hubs which read here have heard of.
    sources_known: u64,
    refreshed: Nanos,
}

impl Server {
    fn new(
        cluster: Arc<Cluster>,
        tls: Option<TlsServer>,
        proofs: Proofs,
        listeners: Vec<Listener>,
        mailbox: Arc<Mailbox>,
        held: bool,
    ) -> Result<Self, std::io::Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, listener) in listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENERS + number as u64);
            let is_open = number == 0 || !held;
            let flags = if is_open { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
            epoll::add(&epoll, listener, data, flags)?;
        }
        epoll::add(&epoll, mailbox.bell(), epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
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
            connections: Vec::new(),
            free: Vec::new(),
            made: 0,
            open: 0,
            handshakes: std::collections::VecDeque::new(),
            rests_until: None,
            held_until: held.then_some(Nanos(now.0 + HELD_MAX.0)),
            readers: Vec::new(),
            room: vec![0; ROOM],
            unfinished: 0,
            unfinished_most: 0,
            log: LogLimit::default(),
            accept_failures: AcceptFailures::of("link"),
            news: 0,
            next_flush: None,
            silence: Silence::new(now),
            house: House::new(now),
            sources_known: 0,
            refreshed: now,
        })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let before = clock::boot();
            let asked = self.next_due().map(|due| due.since(before));
            self.wait(asked, &mut events);
            let now = clock::boot();
            self.silence.slept(before, asked, now);
            for &(token, flags) in &events {
                match token {
                    BELL => {
                        if !self.take_commands(now) {
                            return;
                        }
                    }
                    LISTENERS.. => self.accept((token - LISTENERS) as usize, now),
                    _ => self.serve(token, flags),
                }
            }
            self.sweep(clock::boot());
            self.pump(clock::boot());
        }
    }

    /// Sleeps until something comes, or so long.
    fn wait(&self, longest: Option<Nanos>, events: &mut Vec<(u64, epoll::EventFlags)>) {
        let timeout = longest.map(|Nanos(ns)| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let mut found = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        events.clear();
        if let Ok((found, _)) = epoll::wait(&self.epoll, &mut found[..], timeout.as_ref()) {
            events.extend(found.iter().map(|event| (event.data.u64(), event.flags)));
        }
    }

    /// When there is something to do although nothing comes; `None`: never. A hub that nobody has found yet, and one to
    /// which all has been said, wakes up for nobody.
    fn next_due(&self) -> Option<Nanos> {
        let silence = (self.open > 0).then(|| self.silence.next());
        let all = [silence, self.rests_until, self.held_until, self.house.next(), self.next_flush];
        all.into_iter().flatten().min()
    }

    fn accept(&mut self, listener: usize, now: Nanos) {
        // A scan must not keep those waiting who are connected.
        for _ in 0..64 {
            match self.listeners[listener].accept() {
                Ok((socket, caller)) => {
                    Counts::add(&self.cluster.counts.accepted, 1);
                    if let Err(error) = self.take_in(socket, caller, now) {
                        tracing::debug!("{caller}: {error}");
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    Counts::add(&self.cluster.counts.accepts_failed, 1);
                    if let Some(line) = self.accept_failures.happened(now, &error) {
                        tracing::warn!("{line}");
                    }
                    // Most likely there are no descriptors left: strangers give theirs back.
                    while let Some(oldest) = self.handshakes.pop_front() {
                        if self.push_out(oldest, now) {
                            return;
                        }
                    }
                    self.rest(Some(Nanos(now.0 + REST.0)));
                    return;
                }
            }
        }
    }

    /// While nobody can be taken in, those who wait at the doors must not keep the loop awake.
    fn rest(&mut self, until: Option<Nanos>) {
        self.rests_until = until;
        let flags = if until.is_some() { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
        for (number, listener) in self.listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENERS + number as u64);
            if let Err(errno) = epoll::modify(&self.epoll, listener, data, flags) {
                tracing::warn!("the link door may be closed: {errno}");
            }
        }
    }

    /// Drops a connection that has not said who it is; `false` when it has.
    fn push_out(&mut self, oldest: u64, now: Nanos) -> bool {
        let is_stranger = self.at(oldest).is_some_and(Connection::is_stranger);
        if is_stranger {
            Counts::add(&self.cluster.counts.handshakes_dropped, 1);
            self.drop_connection(oldest, Ended::Pushed, now);
        }
        is_stranger
    }

    fn take_in(&mut self, socket: Socket, caller: Caller, now: Nanos) -> Result<(), std::io::Error> {
        if self.open >= CONNECTIONS_MAX {
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
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.made = (self.made + 1) & 0x7fff_ffff;
        let token = self.made << 32 | place as u64;
        let mut out = Vec::new();
        self.config.sources = self.cluster.all_sources();
        let end = HubEnd::new(&self.config, nonce, now, &mut out);
        let mut connection = Box::new(Connection::new(token, wire, end, out, caller));
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, connection.wire.socket(), data, epoll::EventFlags::IN)?;
        let sent = connection.flush(&self.epoll);
        self.silence.at_latest(connection.end.deadline());
        self.connections[place] = Some(connection);
        self.open += 1;
        self.handshakes.push_back(token);
        if let Err(ended) = sent {
            self.drop_connection(token, ended, now);
        }
        Ok(())
    }

    fn at(&self, token: u64) -> Option<&Connection> {
        let connection = self.connections.get(token as u32 as usize)?.as_deref()?;
        (connection.token == token).then_some(connection)
    }

    fn serve(&mut self, token: u64, flags: epoll::EventFlags) {
        let place = token as u32 as usize;
        let Some(mut connection) =
            self.connections.get_mut(place).and_then(|slot| slot.take_if(|c| c.token == token))
        else {
            return;
        };
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
            self.readers.push(place);
        }
        // A stranger has longer than a peer that has said something.
        self.silence.at_latest(connection.end.deadline());
        self.connections[place] = Some(connection);
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
                connection: *token,
                caller: *caller,
                now,
                peer,
            };
            failed = end.receive(bytes, now, clock::wall(), &mut talk, out).err();
            Ok(())
        });
        self.room = room;
        let kept = end.kept();
        self.unfinished = (self.unfinished + kept).saturating_sub(std::mem::replace(kept_before, kept));
        self.unfinished_most = self.unfinished_most.max(self.unfinished);
        if failed.is_none() && kept > 0 && self.unfinished > UNFINISHED_BYTES_MAX {
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
        for (token, command) in self.mailbox.take() {
            if matches!(command, Command::Stop) {
                return false;
            }
            let place = token as u32 as usize;
            let Some(connection) = self
                .connections
                .get_mut(place)
                .and_then(|slot| slot.as_deref_mut())
                .filter(|c| c.token == token)
            else {
                continue;
            };
            let mut result = connection.obey(command);
            result = result.and(connection.flush(&self.epoll));
            if let Err(ended) = result {
                self.drop_connection(token, ended, now);
            }
        }
        true
    }

    /// Prompt readers get what has come at every turn of the loop, the others in flushes: at once where the last one was
    /// some time ago.
    fn pump(&mut self, now: Nanos) {
        self.next_flush = None;
        if self.readers.is_empty() {
            return;
        }
        self.cluster.readers.store(self.readers.len() as u64, Ordering::Relaxed);
        let mut ended = Vec::new();
        let mut turn = Turn::of(OPERATIONS_A_TURN);
        self.readers.retain(|&place| {
            let Some(connection) = self.connections[place].as_deref_mut() else { return false };
            let Peer::Reader(reader) = &mut connection.peer else { return false };
            let is_due = now >= connection.flush_at;
            if reader.is_busy() && (is_due || reader.is_prompt() || reader.has_answers()) {
                let has_more = reader.pump(&self.cluster, &mut turn, !is_due, &mut connection.out);
                if is_due || reader.is_all_prompt() {
                    (connection.told, connection.more) = (self.news, has_more);
                } else {
                    connection.more |= has_more;
                }
                if is_due {
                    connection.flush_at = due::flush_after(now, place);
                }
                if let Err(end) = connection.flush(&self.epoll) {
                    ended.push((connection.token, end));
                }
            }
            let next = connection.next_flush(self.news, now);
            self.next_flush = self.next_flush.into_iter().chain(next).min();
            true
        });
        if turn.is_over() && !self.readers.is_empty() {
            // Nobody is the last one every time.
            self.readers.rotate_left(1);
        }
        for (token, end) in ended {
            self.drop_connection(token, end, now);
        }
        self.cluster.is_read_here(!self.readers.is_empty());
    }

    /// Cuts those who are silent, and renews what has to be. Everything that only has to be done now and then is done by
    /// a thread that is awake anyway.
    fn sweep(&mut self, now: Nanos) {
        if self.silence.is_due(now) {
            self.cut_silent(now);
        }
        self.tell_of_sources(now);
        if self.rests_until.is_some_and(|until| now >= until) {
            self.rest(None);
        }
        let has_rows = || self.cluster.counts.rows.load(Ordering::Relaxed) > 0;
        if self.held_until.is_some_and(|until| now >= until || has_rows()) {
            self.held_until = None;
            self.rest(None);
        }
        if self.house.is_due(now, self.news) {
            let gives_back = self.cluster.keep_house(now);
            self.house.was_kept(gives_back);
            if self.unfinished <= self.unfinished_most / 4 {
                self.cluster.has_given_back((self.unfinished_most - self.unfinished) as u64);
                self.unfinished_most = self.unfinished;
            }
        }
        let mut handshakes = std::mem::take(&mut self.handshakes);
        handshakes.retain(|&token| self.at(token).is_some_and(Connection::is_stranger));
        self.handshakes = handshakes;
        self.cluster.counts.handshakes.store(self.handshakes.len() as u64, Ordering::Relaxed);
        self.cluster.counts.connections.store(self.open as u64, Ordering::Relaxed);
    }

    /// Asks every connection whether it is silent, and finds out when the next one may be.
    fn cut_silent(&mut self, now: Nanos) {
        if self.silence.may_cut(now) {
            let open = self.connections.iter().flatten();
            let silent: Vec<u64> = open
                .filter(|connection| connection.end.deadline() < now)
                .map(|connection| connection.token)
                .collect();
            for token in silent {
                // What it has said may still lie in its socket, where we were slow and not it.
                self.serve(token, epoll::EventFlags::IN);
                if self.at(token).is_some_and(|connection| connection.end.deadline() < now) {
                    Counts::add(&self.cluster.counts.silent, 1);
                    self.drop_connection(token, Ended::Silent, now);
                }
            }
        }
        let deadlines = self.connections.iter().flatten().map(|connection| connection.end.deadline());
        self.silence.looked(now, deadlines.min());
    }

    /// Hubs that read here come again when sources have changed, and hear of them then.
    fn tell_of_sources(&mut self, now: Nanos) {
        let changed = self.cluster.sources_changed.load(Ordering::Acquire);
        if std::mem::replace(&mut self.sources_known, changed) == changed {
            return;
        }
        let open = self.connections.iter().flatten();
        let hubs: Vec<u64> = open
            .filter(|connection| matches!(&connection.peer, Peer::Reader(reader) if reader.is_hub))
            .map(|connection| connection.token)
            .collect();
        for token in hubs {
            self.drop_connection(token, Ended::Told("this hub has another source".into()), now);
        }
    }

    /// New certificates matter to who comes: somebody who does has them looked for.
    fn refresh_certificates(&mut self, now: Nanos) {
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

    fn drop_connection(&mut self, token: u64, ended: Ended, now: Nanos) {
        let place = token as u32 as usize;
        let Some(mut connection) =
            self.connections.get_mut(place).and_then(|slot| slot.take_if(|c| c.token == token))
        else {
            return;
        };
        self.free.push(place);
        self.open -= 1;
        self.unfinished = self.unfinished.saturating_sub(connection.kept);
        if matches!(ended, Ended::Cut(_)) {
            // What stands there says why; it goes as far as it goes at once.
            let _ = connection.flush(&self.epoll);
            let counts = &self.cluster.counts;
            Counts::add(if connection.is_stranger() { &counts.refused } else { &counts.cut }, 1);
        }
        let who = connection.who();
        let has_left = matches!(&connection.peer, Peer::Node(node) if node.lock().says_goodbye);
        if matches!(ended, Ended::Cut(_)) && connection.is_stranger() {
            // An agent that is refused comes again and again, each time from another port.
            let same = format!("{}: {ended}", connection.caller.from());
            self.log.warn_of(now, same, || format!("{who}: {ended}"));
        } else if ended.is_news(&connection.peer) && !has_left {
            self.log.warn(now, || format!("{who}: {ended}"));
        } else {
            tracing::debug!("{who}: {ended}");
        }
        if let Peer::Node(shared) = &connection.peer {
            let mut node = shared.lock();
            if node.disconnect(token, Some(ended.to_string()), now) {
                shared.set_up(false);
                shared.touched.fetch_add(1, Ordering::Release);
            }
        }
    }
}
