//! A hub on a free port, and a peer made of frames: a test decides every byte that the peer sends over a real socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use khz_block::{Encoder, SchemaEncoder};
use khz_hub::{Cluster, HubQuery, LinkDoor, LinkServer, Settings};
use khz_link::driver::{Counters, FollowingSettings, HubAddress};
use khz_link::frame::kind;
use khz_link::{Beat, End, Frame, Hello, Identity, LaneOffer, Role, put};
use khz_model::{ByteSize, Interest, Metric, Nanos, Pattern, Query, Rate, Series, Stamp, Subscription};
use ring::digest::{SHA256, digest};

/// What a test waits for has happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// The stamp of a beat whose answer a test waits for.
pub const AWAITED: i64 = 42;

/// Time between two beats of a peer's thread; the hub allows 2.5 s of silence.
const BEAT: Duration = Duration::from_millis(500);

/// Time between two sips of a peer that reads next to nothing.
const SIP: Duration = Duration::from_secs(2);

/// Receive buffer of such a peer. A whole packet of the hub's kernel (64 KiB) must fit into the window that it gives: the
/// kernel counts its five seconds from the first packet that did not.
const ROOM: usize = 128 << 10;

/// A hub on a free port.
pub struct Hub {
    pub server: LinkServer,
    pub query: HubQuery,
    pub cluster: Arc<Cluster>,
}

impl Hub {
    pub fn with(history: u64, change: impl FnOnce(&mut LinkDoor)) -> Self {
        let settings = Settings {
            name: "hub".into(),
            history: ByteSize(history),
            rate_max: Rate::from_hz(1_000).unwrap(),
        };
        let cluster = Cluster::new(settings, [7; 16]);
        let mut door = LinkDoor {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            local: None,
            run: None,
            tls: None,
            key: None,
            certificates: false,
            // Made-up nodes prove nothing.
            insecure: true,
        };
        change(&mut door);
        let server = LinkServer::start(cluster.clone(), door).unwrap();
        Hub { query: HubQuery::new(cluster.clone()), server, cluster }
    }

    pub fn new() -> Self {
        Hub::with(1 << 20, |_| {})
    }

    pub fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    /// A reader that has connected over the link. It beats while it reads, so that it is never silent.
    pub fn reader(&self) -> Node {
        Node::connect(self.address(), "r").into_reader()
    }

    /// The same over a connection that buffers little: while the reader does not read, the hub's buffers fill up.
    pub fn reader_with_little_room(&self) -> Node {
        Node::connect_with_little_room(self.address(), "slow").into_reader()
    }

    /// Subscribes as a door does.
    pub fn subscribe(&self, patterns: &[&str], hz: u64) -> Box<dyn Subscription> {
        self.query.subscribe(interest(patterns, hz)).unwrap()
    }

    /// A number of the hub's own.
    pub fn own(&self, name: &str) -> u64 {
        let samples = self.query.own().unwrap();
        let sample = samples.iter().find(|s| s.series.metric.name == name).expect(name);
        sample.reading.value().expect(name)
    }
}

/// What a subscription asks for.
pub fn interest(patterns: &[&str], hz: u64) -> Interest {
    let patterns = patterns.iter().map(|text| Pattern::new(text).unwrap()).collect();
    Interest::new(patterns, Rate::from_hz(hz).unwrap(), false)
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Some series of the real catalogue.
pub fn series() -> Vec<Series> {
    let metric = |name: &str| -> Arc<Metric> {
        let all = khz_parse::files().iter().flat_map(|file| file.metrics());
        all.into_iter().find(|metric| metric.name == name).expect("a metric of the catalogue")
    };
    let mut known = ["mem.free", "load.1m", "kernel.context_switches"]
        .map(|name| Series { metric: metric(name), instance: None })
        .to_vec();
    // A metric that no catalogue has: a newer agent's.
    let newer =
        Metric { name: "gpu.stalls".into(), flat: "gpustalls".into(), ..Metric::clone(&known[2].metric) };
    known.push(Series { metric: Arc::new(newer), instance: None });
    known
}

/// One node.
pub struct Node {
    socket: TcpStream,
    /// What it sends with. It goes when the peer goes, and with it the thread that beats.
    sender: Arc<Mutex<Sender>>,
    inbound: Vec<u8>,
    /// Bytes of it that were taken.
    taken: usize,
    pub out: Vec<u8>,
    pub nonce: [u8; 32],
    name: String,
    pub machine: [u8; 16],
    pub started: i64,
    pub encoder: Encoder,
    /// Its real time minus its boot time.
    pub real_offset: i64,
    pub lane: u32,
    /// The abilities that it announces.
    pub abilities: u8,
    pub version: u8,
    /// When it sipped last.
    sipped_at: Instant,
}

impl Node {
    /// Connects and reads the greeting.
    pub fn connect(address: SocketAddr, name: &str) -> Self {
        Node::over(TcpStream::connect(address).unwrap(), name)
    }

    /// The same over a socket whose kernel buffers only this much. It is set before the socket connects, so that the hub's
    /// kernel knows from the start how small the window is.
    pub fn connect_with_little_room(address: SocketAddr, name: &str) -> Self {
        use rustix::net;
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
        net::sockopt::set_socket_recv_buffer_size(&socket, ROOM).unwrap();
        net::connect(&socket, &address).unwrap();
        Node::over(socket.into(), name)
    }

    fn over(socket: TcpStream, name: &str) -> Self {
        let sender = Sender { socket: socket.try_clone().unwrap(), beat: None };
        let mut node = Node {
            socket,
            sender: Arc::new(Mutex::new(sender)),
            inbound: Vec::new(),
            taken: 0,
            out: Vec::new(),
            nonce: [0; 32],
            name: name.to_owned(),
            machine: [1; 16],
            started: 1_000,
            encoder: Encoder::new(0, 1, Nanos::SECOND),
            real_offset: 1_700_000_000_000_000_000,
            lane: 1,
            abilities: khz_link::KNOWS_TEXTS | khz_link::KNOWS_TEXT_NOW,
            version: 1,
            sipped_at: Instant::now(),
        };
        let mut nonce = None;
        node.next(|frame| match frame {
            Frame::Greeting(greeting) => nonce = Some(greeting.nonce),
            other => panic!("{other:?} is no greeting"),
        });
        node.nonce = nonce.unwrap();
        node
    }

    fn into_reader(mut self) -> Self {
        self.hello_as(Role::Reader, None);
        self
    }

    /// Says Hello as a node.
    pub fn hello(&mut self, proof: Option<[u8; 32]>) -> &mut Self {
        self.hello_as(Role::Node, proof)
    }

    /// Says Hello. From then on a thread beats for it, however long the test waits for something else.
    pub fn hello_as(&mut self, role: Role, proof: Option<[u8; 32]>) -> &mut Self {
        let (name, machine, started) = (self.name.clone(), self.machine, self.started);
        Hello {
            version: self.version,
            role,
            name: &name,
            machine,
            boot: [2; 16],
            started,
            start_nonce: 1,
            program: "test",
            proof,
            abilities: self.abilities,
        }
        .put(&mut self.out);
        self.send();
        self.sender.lock().unwrap().beat =
            Some(Beat { stamp: 1, round_trip: None, offset: 0, retransmits: 0 });
        Sender::beats(&self.sender);
        self
    }

    /// Sends nothing from now on but what the test sends.
    pub fn falls_silent(&mut self) {
        self.sender.lock().unwrap().beat = None;
    }

    /// Sends the frames that were put.
    pub fn send(&mut self) -> &mut Self {
        let bytes = std::mem::take(&mut self.out);
        let sent = self.sender.lock().unwrap().socket.write_all(&bytes);
        if let Err(error) = sent {
            let mut why = String::new();
            while self.next(|frame| why = format!("{frame:?}")).is_some() {}
            panic!("{}: {error}; the hub's last word: {}", self.name, &why[..why.len().min(300)]);
        }
        self
    }

    /// Reads next to nothing: only every two seconds what its kernel has buffered, since the hub's kernel ends a
    /// connection whose window was shut for five seconds.
    pub fn sip(&mut self) {
        if self.sipped_at.elapsed() < SIP {
            return;
        }
        self.sipped_at = Instant::now();
        self.socket.set_nonblocking(true).unwrap();
        let mut room = vec![0; 2 * ROOM];
        match self.socket.read(&mut room) {
            Ok(read) => self.inbound.extend_from_slice(&room[..read]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        self.socket.set_nonblocking(false).unwrap();
    }

    /// Sends the frames that were put, and waits until the hub has taken them in, or says why it will not.
    pub fn offers(&mut self) -> Result<(), String> {
        Beat { stamp: AWAITED, round_trip: None, offset: 0, retransmits: 0 }.put(&mut self.out);
        self.send();
        self.await_frame(|frame| match frame {
            Frame::Beaten(beaten) if beaten.stamp == AWAITED => Some(Ok(())),
            Frame::Refuse { text, .. } => Some(Err((*text).to_owned())),
            _ => None,
        })
    }

    /// The next frame; `None` when the hub has closed.
    pub fn next(&mut self, take: impl FnOnce(Frame<'_>)) -> Option<()> {
        loop {
            let waiting = &self.inbound[self.taken..];
            if let Some(length) = waiting.first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if let Some(frame) = waiting.get(4..4 + length) {
                    take(Frame::decode(frame[0], &frame[1..]).unwrap());
                    self.taken += 4 + length;
                    return Some(());
                }
            }
            self.inbound.drain(..std::mem::take(&mut self.taken));
            // Everything that is there: the window opens as far as it can.
            let mut room = vec![0; 2 * ROOM];
            self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
            match self.socket.read(&mut room) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.inbound.extend_from_slice(&room[..read]),
            }
        }
    }

    /// Reads frames up to the first of which `take` makes something.
    pub fn await_frame<T>(&mut self, mut take: impl FnMut(&Frame<'_>) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            // Answers to the thread's beats come all the time.
            assert!(begun.elapsed() < PATIENCE, "the frame never came");
            let mut found = None;
            let more = self.next(|frame| found = take(&frame));
            if let Some(found) = found {
                return found;
            }
            assert!(more.is_some(), "the hub has closed the connection");
        }
    }

    /// Offers the base lane, and sends its schema if the hub does not have it.
    pub fn offer(&mut self, epoch: u64, oldest_row: u64) -> khz_link::Want {
        self.offer_lane("base", epoch, oldest_row, 0)
    }

    /// Only offers it. Returns the schema.
    pub fn put_offer(&mut self, name: &str, epoch: u64, oldest_row: u64, interest: u32) -> Vec<u8> {
        let mut schema = Vec::new();
        let mut encoder = SchemaEncoder::new();
        for one in series() {
            encoder.append(&one, &mut schema).unwrap();
        }
        let hash = digest(&SHA256, &schema);
        let mut schema_hash = [0; 16];
        schema_hash.copy_from_slice(&hash.as_ref()[..16]);
        let lane = self.lane;
        LaneOffer {
            lane,
            node: "",
            name,
            epoch,
            generation: 1,
            period: Nanos::SECOND,
            interest,
            oldest_row,
            next_row: self.encoder.rows(),
            schema_bytes: schema.len() as u64,
            schema_hash,
            stands_in: false,
        }
        .put(&mut self.out);
        self.send();
        schema
    }

    pub fn offer_lane(&mut self, name: &str, epoch: u64, oldest_row: u64, interest: u32) -> khz_link::Want {
        let lane = self.lane;
        let schema = self.put_offer(name, epoch, oldest_row, interest);
        let want = self.await_frame(|frame| match frame {
            Frame::Want(want) => Some(want.to_want()),
            _ => None,
        });
        if want.schema_bytes == 0 {
            let frame = put::open_schema(&mut self.out, lane, 1, 0);
            self.out.extend_from_slice(&schema);
            frame.close(&mut self.out);
        }
        want
    }

    /// Hello, lane, schema.
    pub fn join(address: SocketAddr, name: &str) -> Self {
        let mut node = Node::connect(address, name);
        node.hello(None).offer(1, 0);
        node
    }

    /// A row with these values, in a new block if the block before has ended.
    pub fn row(&mut self, second: u64, values: [u64; 4]) -> &mut Self {
        let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: self.real_offset };
        let mut bytes = Vec::new();
        let frame = if self.encoder.rows_open() == 0 {
            self.encoder.key_row(stamp, 4, |slot| (0, values[slot]), &mut bytes);
            kind::BLOCK
        } else {
            self.encoder.delta_row(stamp, 0..4, |slot| (0, values[slot]), &mut bytes);
            kind::ROWS
        };
        let frame = put::open_lane(&mut self.out, frame, self.lane);
        self.out.extend_from_slice(&bytes);
        frame.close(&mut self.out);
        self
    }

    /// Ends the open block.
    pub fn end(&mut self) -> &mut Self {
        let (rows, bytes, crc) = self.encoder.close().unwrap().closed.unwrap();
        End { lane: self.lane, rows, bytes, crc }.put(&mut self.out);
        self
    }

    /// A closed block of older rows, out of the ring.
    pub fn past(&mut self, seconds: std::ops::Range<u64>, first_row: u64) -> &mut Self {
        let (mut encoder, mut bytes) = (Encoder::new(0, 1, Nanos::SECOND), Vec::new());
        encoder.resume(first_row, 1);
        for second in seconds {
            let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: self.real_offset };
            match encoder.rows_open() {
                0 => encoder.key_row(stamp, 4, |_| (0, second), &mut bytes),
                _ => encoder.delta_row(stamp, 0..4, |_| (0, second), &mut bytes),
            }
        }
        let header = encoder.close().unwrap();
        bytes[..khz_block::HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let frame = put::open_past(&mut self.out, self.lane, true);
        self.out.extend_from_slice(&bytes);
        frame.close(&mut self.out);
        self
    }

    /// Beats, and waits for the answer: then the hub has taken in everything before.
    pub fn beat(&mut self) -> Vec<khz_link::Ack> {
        let beat = Beat { stamp: AWAITED, round_trip: Some(Nanos(5_000)), offset: 1_000, retransmits: 3 };
        beat.put(&mut self.out);
        self.send();
        // What the thread says does not take it back.
        self.sender.lock().unwrap().beat = Some(Beat { stamp: 1, ..beat });
        self.await_frame(|frame| match frame {
            Frame::Beaten(beaten) if beaten.stamp == AWAITED => Some(beaten.acks().collect()),
            _ => None,
        })
    }

    /// Why the hub ended the connection.
    pub fn refusal(&mut self) -> (khz_link::Reason, String) {
        self.await_frame(|frame| match frame {
            Frame::Refuse { reason, text } => Some((*reason, (*text).to_owned())),
            _ => None,
        })
    }

    /// True when the hub has closed.
    pub fn is_closed(&mut self) -> bool {
        loop {
            if self.next(|_| {}).is_none() {
                return true;
            }
        }
    }
}

/// What a peer sends with: the test itself, and a thread that beats.
struct Sender {
    socket: TcpStream,
    /// What the thread says; nothing while the peer is silent.
    beat: Option<Beat>,
}

impl Sender {
    /// Beats until the peer is gone. Without it a peer would be silent for too long on a busy machine, while the test waits
    /// for another one.
    fn beats(sender: &Arc<Mutex<Sender>>) {
        let sender = Arc::downgrade(sender);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(BEAT);
                let Some(sender) = sender.upgrade() else { return };
                let mut sender = sender.lock().unwrap();
                let mut frame = Vec::new();
                if let Some(beat) = &sender.beat {
                    beat.put(&mut frame);
                }
                // The hub may have ended the connection by now: reading shows that.
                let _ = sender.socket.write_all(&frame);
            }
        });
    }
}

/// Settings to follow these hubs.
pub fn settings(hubs: Vec<HubAddress>, role: Role) -> FollowingSettings {
    let identity = Identity {
        role,
        name: "eye".into(),
        machine: [0; 16],
        boot: [0; 16],
        started: 1,
        start_nonce: 1,
        program: "test".into(),
        prove: None,
    };
    FollowingSettings {
        hubs,
        identity: Arc::new(identity),
        tls: None,
        near: None,
        from: None,
        counters: Counters::default(),
    }
}
