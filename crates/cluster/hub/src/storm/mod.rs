//! One node, hubs that come and go, and readers, all of them real, over a made-up network in made-up time. Whatever is cut, killed
//! or delayed, every reader gets each row of every lane once, or a report that the row is lost. (`simulation` has many nodes, whose
//! schemas grow.) A run that fails names its seed: `KHZ_HUB_SEED=7 cargo test -p khz-hub storm`.

#![allow(clippy::unwrap_used)]

mod node;
mod reader;
#[path = "../../../link/tests/ring_lane/mod.rs"]
mod ring_lane;

use std::collections::VecDeque;
use std::sync::Arc;

use khz_link::{AgentEnd, Ask, ChannelFrame, HubEnd, HubEndConfig, Identity, ReaderEnd, Role};
use khz_model::{ByteSize, Nanos, Pattern, Rate};
use khz_trust::Place;

use crate::caller::Caller;
use crate::cluster::{Cluster, Settings};
use crate::cursor::thinned;
use crate::mailbox::Mailbox;
use crate::peer::{Peer, Talk};
use crate::proofs::Proofs;
use crate::simulation::random::Random;
use crate::simulation::trace::Trace;
use crate::simulation::{identity, seeds};
use crate::turn::Turn;
use node::{BASE, Node};
use reader::Sink;
use ring_lane::RingLane;

/// How many worlds the quick tier has; see [`seeds`].
const SEEDS: u64 = 60;
const STEP: Nanos = Nanos::from_millis(10);

/// Bytes in one direction.
#[derive(Default)]
struct Pipe {
    segments: VecDeque<(Nanos, Vec<u8>)>,
    bytes: usize,
    trace: Trace,
    /// Bytes that were shown, and not yet taken.
    shown: usize,
}

impl Pipe {
    fn between(from: &str, to: &str) -> Self {
        Pipe { trace: Trace::of(from, to), ..Pipe::default() }
    }

    /// Takes as much as the buffers of both sides hold; it comes out a little later, in pieces.
    fn write(&mut self, out: &mut Vec<u8>, now: Nanos, random: &mut Random) {
        self.trace.show(&out[self.shown..], now);
        self.shown = out.len();
        let mut room = (64usize << 10).saturating_sub(self.bytes).min(out.len());
        while room > 0 {
            let take = (1 + random.below(5_000) as usize).min(room);
            let due = Nanos(now.0 + random.below(30_000_000))
                .max(self.segments.back().map_or(Nanos(0), |last| last.0));
            self.segments.push_back((due, out.drain(..take).collect()));
            self.bytes += take;
            room -= take;
            self.shown -= take;
        }
    }

    fn read(&mut self, now: Nanos) -> Option<Vec<u8>> {
        self.segments.front().filter(|(due, _)| *due <= now)?;
        let (_, bytes) = self.segments.pop_front()?;
        self.bytes -= bytes.len();
        Some(bytes)
    }
}

/// The hub's end of a connection.
struct Accepted {
    token: u64,
    end: HubEnd,
    peer: Peer,
    out: Vec<u8>,
    to_hub: Pipe,
    from_hub: Pipe,
}

struct Hub {
    cluster: Arc<Cluster>,
    mailbox: Arc<Mailbox>,
    accepted: Vec<Accepted>,
}

impl Hub {
    fn new(identity: u8, history: u64) -> Self {
        let settings = Settings {
            name: "hub".into(),
            history: ByteSize(history),
            rate_max: Rate::from_hz(1_000).unwrap(),
        };
        let cluster = Cluster::new(settings, [identity; 16]);
        Hub { cluster, mailbox: Arc::new(Mailbox::new().unwrap()), accepted: Vec::new() }
    }

    fn accept(&mut self, token: u64, name: &str, now: Nanos) {
        let mut out = Vec::new();
        let end = HubEnd::new(&HubEndConfig::new(self.cluster.identity(), "hub"), [3; 32], now, &mut out);
        let (to_hub, from_hub) = (Pipe::between(name, "hub"), Pipe::between("hub", name));
        self.accepted.push(Accepted { token, end, peer: Peer::Stranger, out, to_hub, from_hub });
    }

    fn find(&mut self, token: u64) -> Option<&mut Accepted> {
        self.accepted.iter_mut().find(|accepted| accepted.token == token)
    }

    /// One turn: reads what has come, executes commands, sends what is due.
    fn turn(&mut self, now: Nanos, random: &mut Random) {
        let mut at = 0;
        while at < self.accepted.len() {
            if self.take(at, now) {
                at += 1;
            } else {
                let token = self.accepted[at].token;
                self.close(token, now);
            }
        }
        for (token, command) in self.mailbox.take() {
            let Some(accepted) = self.find(token) else { continue };
            if command.say(&mut accepted.end, &mut accepted.out).is_err() {
                self.close(token, now);
            }
        }
        for accepted in &mut self.accepted {
            // Some are late, as busy ones are.
            if let Peer::Reader(reader) = &mut accepted.peer
                && random.once_in(4)
            {
                reader.pump(&self.cluster, &mut Turn::of(8), false, &mut accepted.out);
            }
            accepted.from_hub.write(&mut accepted.out, now, random);
        }
    }

    fn take(&mut self, at: usize, now: Nanos) -> bool {
        let Hub { cluster, mailbox, accepted } = self;
        let Accepted { token, end, peer, out, to_hub, .. } = &mut accepted[at];
        while let Some(bytes) = to_hub.read(now) {
            let mut talk = Talk {
                cluster,
                mailbox,
                proofs: &Proofs::default(),
                certified: None,
                connection: *token,
                caller: Caller::Local { uid: None, place: Place::LocalOwn },
                now,
                peer,
            };
            if let Err(error) = end.receive(&bytes, now, 0, &mut talk, out) {
                panic!("the hub has cut a connection: {error}");
            }
        }
        true
    }

    fn close(&mut self, token: u64, now: Nanos) {
        let Some(at) = self.accepted.iter().position(|accepted| accepted.token == token) else { return };
        let accepted = self.accepted.remove(at);
        if let Peer::Node(shared) = &accepted.peer {
            shared.lock().disconnect(token, None, now);
            shared.touched.fetch_add(1, std::sync::atomic::Ordering::Release);
        }
    }
}

/// A peer that connects, and when it may connect again.
struct Call {
    token: Option<u64>,
    not_before: Nanos,
    out: Vec<u8>,
}

impl Call {
    fn new(not_before: Nanos) -> Self {
        Call { token: None, not_before, out: Vec::new() }
    }
}

struct Agent {
    call: Call,
    identity: Arc<Identity>,
    end: Option<AgentEnd<RingLane>>,
    node: Node,
}

struct Reader {
    call: Call,
    follower: ReaderEnd,
    sink: Sink,
    period: Nanos,
    /// It wants a channel with this handler.
    channel: Option<[u8; 1]>,
    said: bool,
    connects: u64,
}

struct World {
    seed: u64,
    random: Random,
    now: Nanos,
    hub: Hub,
    hubs: u8,
    tokens: u64,
    agent: Agent,
    readers: Vec<Reader>,
    /// The node's bytes do not come through until then.
    dark_until: Nanos,
    /// When the administrator has the hub forget the node, and how often that has happened.
    forget_at: Option<Nanos>,
    forgotten: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let now = Nanos::from_secs(1_000);
        let ring = [16 << 10, 64 << 10, 1 << 20][random.below(3) as usize];
        let reader = |period, wants_missed, now: Nanos| Reader {
            call: Call::new(Nanos(now.0 + 500_000_000)),
            follower: ReaderEnd::new(identity(Role::Operator, "r", 0, 1), now),
            sink: Sink::new(wants_missed),
            period,
            channel: None,
            said: false,
            connects: 0,
        };
        let fast = Nanos::from_millis(20);
        let readers = vec![
            reader(fast, true, now),
            reader(fast, false, now),
            reader(BASE, true, now),
            reader(Nanos(3 * BASE.0), true, now),
        ];
        let node = Node::new(ring, now);
        let agent =
            Agent { call: Call::new(now), identity: identity(Role::Node, "n", 0, 1), end: None, node };
        let history = [0, 1 << 20][random.below(2) as usize];
        let hub = Hub::new(1, history);
        World {
            seed,
            random,
            now,
            hub,
            hubs: 1,
            tokens: 0,
            agent,
            readers,
            dark_until: Nanos(0),
            forget_at: None,
            forgotten: 0,
        }
    }

    /// The fast lane is that of a channel, and has rows at random moments.
    fn of_channels(seed: u64) -> Self {
        let mut world = World::new(seed);
        let is_fast = |reader: &&mut Reader| reader.period < BASE;
        world.readers.iter_mut().filter(is_fast).for_each(|reader| reader.channel = Some([7]));
        world
    }

    fn step(&mut self) {
        self.now = Nanos(self.now.0 + STEP.0);
        self.agent.node.produce(self.now);
        self.forget_when_due();
        self.agent_turn();
        for at in 0..self.readers.len() {
            self.reader_turn(at);
        }
        self.hub.turn(self.now, &mut self.random);
    }

    fn connect(&mut self, name: &str) -> u64 {
        self.tokens += 1;
        self.hub.accept(self.tokens, name, self.now);
        self.tokens
    }

    fn agent_turn(&mut self) {
        let now = self.now;
        if self.agent.end.is_none() && now >= self.agent.call.not_before {
            let token = self.connect("node");
            self.agent.call.token = Some(token);
            self.agent.call.out.clear();
            self.agent.end = Some(AgentEnd::new(self.agent.identity.clone(), now));
        }
        let Agent { call, end: Some(end), node, .. } = &mut self.agent else { return };
        let accepted = call.token.and_then(|token| self.hub.find(token));
        let is_dark = now < self.dark_until;
        let talked = match accepted {
            None => Err(()),
            Some(_) if is_dark => Ok(()),
            Some(accepted) => {
                let mut result = Ok(());
                while let Some(bytes) = accepted.from_hub.read(now) {
                    result = result.and_then(|()| end.receive(&bytes, now, 0, node, &mut call.out));
                }
                result = result.and_then(|()| end.poll(now, now.0 as i64, node, &mut call.out));
                accepted.to_hub.write(&mut call.out, now, &mut self.random);
                result.map_err(|_| ())
            }
        };
        if talked.is_err() {
            self.cut_agent();
        }
    }

    fn cut_agent(&mut self) {
        if let Some(end) = self.agent.end.take() {
            end.close(&mut self.agent.node);
        }
        if let Some(token) = self.agent.call.token.take() {
            self.hub.close(token, self.now);
        }
        self.agent.call.not_before = Nanos(self.now.0 + self.random.below(2_000_000_000));
    }

    fn reader_turn(&mut self, at: usize) {
        let now = self.now;
        if self.readers[at].call.token.is_none() && now >= self.readers[at].call.not_before {
            let token = self.connect(&format!("reader{at}"));
            let reader = &mut self.readers[at];
            reader.call.token = Some(token);
            reader.call.out.clear();
            reader.said = false;
            if reader.connects > 0 {
                reader.follower.reconnected(now);
                reader.sink.reconnected();
            }
            reader.connects += 1;
        }
        let Reader { call, follower, sink, period, channel, said, .. } = &mut self.readers[at];
        let Some(token) = call.token else { return };
        let Some(accepted) = self.hub.find(token) else { return self.cut_reader(at) };
        let mut result = Ok(());
        while let Some(bytes) = accepted.from_hub.read(now) {
            result = result.and_then(|()| follower.receive(&bytes, now, 0, sink, &mut call.out));
        }
        result = result.and_then(|()| follower.poll(now, 0, &mut call.out));
        if follower.is_welcome() && !*said {
            *said = true;
            let (number, period) = (1, *period);
            let prompt = period < BASE;
            let channel = channel.as_ref().map(|handler| ChannelFrame { name: "hot", handler });
            let ask = Ask { number, period, prompt, channel, patterns: &["a.*"], ..Ask::default() };
            follower.ask(&ask, &mut call.out);
        }
        accepted.to_hub.write(&mut call.out, now, &mut self.random);
        if let Err(error) = result {
            panic!("seed {}: reader {at}: {error}", self.seed);
        }
    }

    fn cut_reader(&mut self, at: usize) {
        let Reader { call, follower, sink, .. } = &mut self.readers[at];
        if let Some(token) = call.token.take() {
            follower.cut(sink);
            self.hub.close(token, self.now);
        }
        self.readers[at].call.not_before = Nanos(self.now.0 + self.random.below(1_500_000_000));
    }

    fn go_wrong(&mut self) {
        match self.random.below(10) {
            0 | 1 => self.cut_agent(),
            2 | 3 => {
                let at = self.random.below(self.readers.len() as u64) as usize;
                self.cut_reader(at);
            }
            4 => self.kill_hub(),
            5 => self.dark_until = Nanos(self.now.0 + self.random.below(1_300_000_000)),
            6 => {
                let at = self.random.below(2) as usize;
                self.agent.node.grow(at);
            }
            7 | 8 => {
                self.cut_agent();
                self.forget_at = Some(Nanos(self.now.0 + self.random.below(1_000_000_000)));
            }
            _ if self.random.once_in(3) => {
                self.agent.node.restart();
                self.agent.identity = identity(Role::Node, "n", 0, self.now.0 as i64);
                self.cut_agent();
            }
            _ => {}
        }
    }

    /// The administrator has the hub forget the node; the hub refuses if the node is back already.
    fn forget_when_due(&mut self) {
        if self.forget_at.take_if(|due| *due <= self.now).is_some() {
            let node = Pattern::new("n:*").unwrap();
            let forgotten = self.hub.cluster.forget(&node).nodes.len();
            self.forgotten += forgotten;
            self.readers.iter_mut().for_each(|reader| reader.sink.is_forgotten |= forgotten > 0);
        }
    }

    /// All its memory is gone.
    fn kill_hub(&mut self) {
        self.hubs += 1;
        let history = self.hub.cluster.settings.history.0;
        self.hub = Hub::new(self.hubs, history);
    }

    fn run(&mut self, time: Nanos, fault_once_in: u64) {
        let end = Nanos(self.now.0 + time.0);
        while self.now < end {
            self.step();
            if fault_once_in > 0 && self.random.once_in(fault_once_in) {
                self.go_wrong();
            }
        }
    }

    /// True for a lane that the node still has, whole or one of three rows of it.
    fn is_alive(&self, epoch: u64) -> bool {
        let lanes = self.agent.node.lanes.iter().map(|lane| 1_000 + lane.lane.id);
        lanes.into_iter().any(|known| known == epoch || thinned(known, 3) == epoch)
    }

    /// What some reader does not know yet.
    fn unknown(&self) -> Option<String> {
        for (at, reader) in self.readers.iter().enumerate() {
            for (epoch, record) in &reader.sink.records {
                // A lane that is over, and that no hub has offered since, is not reported.
                if !self.is_alive(*epoch) || reader.sink.is_replaced(*epoch) {
                    continue;
                }
                if let Some(number) = record.missing() {
                    return Some(format!("reader {at}: row {number} of {epoch} is missing"));
                }
                let lane = self.agent.node.lanes.iter().find(|lane| 1_000 + lane.lane.id == *epoch);
                let end = lane.map_or(0, |lane| lane.rows());
                // The newest block is open.
                let shown =
                    reader.sink.shown.get(epoch).and_then(|shown| shown.last()).map_or(0, |last| last + 1);
                if !record.is_over && record.end().max(shown) < end {
                    return Some(format!("reader {at}: {} of {epoch} has {} of {end}", record.end(), shown));
                }
            }
        }
        None
    }

    /// Nothing goes wrong any more: in the end everything is known.
    fn settle(&mut self) -> (u64, u64) {
        self.dark_until = Nanos(0);
        self.run(Nanos::from_secs(12), 0);
        self.agent.node.is_stopped = true;
        let end = Nanos(self.now.0 + 40_000_000_000);
        while let Some(unknown) = self.unknown() {
            if self.now >= end {
                for node in self.hub.cluster.nodes() {
                    let node = node.lock();
                    for lane in node.lanes().present() {
                        eprintln!(
                            "{} {} alive {} received {:?} late readers {} {:?}",
                            lane.name,
                            lane.epoch,
                            lane.alive,
                            lane.received(),
                            lane.late_readers,
                            lane.late
                        );
                    }
                }
                for lane in &self.agent.node.lanes {
                    eprintln!("lane {} rows {} oldest {}", lane.lane.id, lane.rows(), lane.oldest_row());
                }
            }
            assert!(self.now < end, "seed {}: {unknown}", self.seed);
            self.step();
        }
        self.judge()
    }

    /// Rows that came, and rows that were lost: only such as the ring has given up, or whose lane is over.
    fn judge(&mut self) -> (u64, u64) {
        let (mut rows, mut lost) = (0, 0);
        for at in 0..self.readers.len() {
            let Reader { follower, sink, .. } = &mut self.readers[at];
            follower.cut(sink);
            let reader = &self.readers[at];
            for (epoch, record) in &reader.sink.records {
                rows += record.rows.len() as u64;
                lost += record.lost.len() as u64;
                let is_awaited = self.is_alive(*epoch) && !reader.sink.is_replaced(*epoch);
                assert!(record.missing().is_none() || !is_awaited);
                if !reader.sink.wants_missed || *epoch < 1_000 || *epoch > 2_000 {
                    continue;
                }
                let producer = self.agent.node.of_epoch(*epoch);
                assert!(record.rows.iter().all(|(number, row)| number == row), "a row with another's number");
                let is_over = self.agent.node.over.iter().any(|lane| 1_000 + lane.lane.id == *epoch);
                let given_up = producer.oldest_row();
                let wrong = record.lost.iter().find(|&&row| !is_over && row >= given_up);
                assert_eq!(
                    wrong, None,
                    "seed {}: reader {at}: lost, and the ring of {epoch} has it",
                    self.seed
                );
            }
        }
        (rows, lost)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was the world of seed {}", self.seed);
        }
    }
}

#[test]
fn after_any_storm_every_reader_has_each_row_once_or_knows_that_it_is_lost() {
    let (mut rows, mut lost, mut forgotten) = (0, 0, 0);
    for seed in seeds(SEEDS) {
        let mut world = World::new(seed);
        world.run(Nanos::from_secs(3), 0);
        world.run(Nanos::from_secs(20), 60);
        let (came, gone) = world.settle();
        (rows, lost, forgotten) = (rows + came, lost + gone, forgotten + world.forgotten);
    }
    println!("{rows} rows came, {lost} were lost, the node was forgotten {forgotten} times");
    assert!(forgotten > 0 || seeds(SEEDS).count() < 10);
    assert!(rows > 10_000 * seeds(SEEDS).count() as u64 / 10);
}

#[test]
fn after_any_storm_every_reader_of_a_channel_has_each_row_once_whatever_was_killed_meanwhile() {
    let (mut rows, mut lost) = (0, 0);
    for seed in seeds(SEEDS) {
        let mut world = World::of_channels(seed);
        world.run(Nanos::from_secs(3), 0);
        world.run(Nanos::from_secs(20), 60);
        let (came, gone) = world.settle();
        (rows, lost) = (rows + came, lost + gone);
    }
    println!("{rows} rows came, {lost} were lost");
    assert!(rows > 300 * seeds(SEEDS).count() as u64);
    for seed in seeds(SEEDS).take(10) {
        let mut world = World::of_channels(seed);
        world.run(Nanos::from_secs(15), 0);
        assert_eq!(world.settle().1, 0, "seed {seed}");
    }
}

#[test]
fn without_faults_no_reader_loses_a_row() {
    for seed in seeds(SEEDS).take(10) {
        let mut world = World::new(seed);
        world.run(Nanos::from_secs(15), 0);
        assert_eq!(world.settle().1, 0, "seed {seed}");
    }
}
