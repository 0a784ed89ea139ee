//! The whole simulation, in made-up time: similar nodes at a hub, a hub above it, readers of both, new series of the
//! nodes, and faults. In a *tree* there is another hub beside the first, and one above the second.

use std::sync::Arc;

use khz_link::limits::VERSION;
use khz_link::{AgentEnd, Role};
use khz_model::{ByteSize, Instance, Metric, Nanos, NodeName, Pattern, Query, Series, ValueType, metric};

use super::hub::Hub;
use super::identity;
use super::judge::{Judge, SharedFaults};
use super::keeper::Keeper;
use super::node::Node;
use super::random::Random;
use super::rates::Witness;
use super::reader::Reader;
use super::recorder::{Recorded, Recorder};
use super::store::{Stored, numbers};
use super::tape::{TapeLane, seed, value};
use super::wire::{Shared, Wire};
use crate::clock::played;
use crate::counts::own_metric;
use crate::cursor::{every, thinned};
use crate::limits::{GAP_WAIT, GENERATIONS_MAX};
use crate::node::BASE;
use crate::query::HubQuery;
use crate::source::{self, Asked, NodesBelow};

/// The hub that the nodes report to, and the one above it, which gets them from there.
pub(super) const LEAF: usize = 0;
pub(super) const ROOT: usize = 1;
/// In a tree: another hub below the root, and one above it.
pub(super) const SIDE: usize = 2;
pub(super) const TOP: usize = 3;

/// A hub that stands still does so for at most this long, ns.
const FROZEN_MAX: u64 = 4_000_000_000;

/// In a tree: the hubs that nodes connect to. The root gets the nodes of the others from these, a row a second.
pub(super) const HUBS_OF_NODES: [usize; 3] = [LEAF, SIDE, ROOT];

/// Rates of recorders, Hz: some divide the 10 Hz of a fast base lane, others do not.
const RECORDED: [u64; 5] = [2, 3, 4, 5, 7];

/// A pattern that selects only series that older programs do not know.
pub const OF_TYPES: &str = "level.*";

/// A hub keeps the rows of as many generations of a node.
const GENERATIONS: u32 = GENERATIONS_MAX as u32;

/// A node, and its end of the link.
pub(super) struct Agent {
    pub(super) node: Node,
    pub(super) end: Option<AgentEnd<TapeLane>>,
    pub(super) wire: Shared,
    out: Vec<u8>,
    pub(super) hub: usize,
    /// Not before.
    next_try: Nanos,
    pub(super) starts: i64,
    /// The version of the link that it speaks.
    version: u8,
    /// It was killed, and starts again then, with this base period.
    pub(super) starts_at: Option<(Nanos, Nanos)>,
}

/// A hub as a reader of another one.
pub(super) struct Above {
    pub(super) reader: Reader<NodesBelow>,
    /// The channels that the hub below was asked for.
    asked: Asked,
    /// The hub above; the one below is the reader's.
    hub: usize,
    /// Its number among those of the hub above.
    number: usize,
}

impl Above {
    fn new(hubs: &[Hub], (below, hub, number): (usize, usize, usize), now: Nanos) -> Self {
        let asked = Asked::default();
        let follower = source::follower_of(hubs[hub].cluster.clone(), number, asked.clone());
        let mut reader = Reader::new(follower, below, Role::Hub, hubs[hub].number(), now);
        reader.ask(Nanos::SECOND, (false, false), "*");
        reader.version = hubs[hub].version;
        Above { reader, asked, hub, number }
    }
}

/// The world.
pub struct World {
    pub(super) seed: u64,
    random: Random,
    pub(super) now: Nanos,
    lag: Nanos,
    pub(super) hubs: Vec<Hub>,
    pub(super) agents: Vec<Agent>,
    readers: Vec<Reader<Judge>>,
    /// In a tree: readers of hubs that want every row.
    keepers: Vec<Reader<Keeper>>,
    /// Recorders at rates of their own, and where they go.
    pub(super) recorders: Vec<Recorder>,
    moves: Random,
    /// When nodes are started again with other base rates; `None`: never.
    pub(super) rates: Option<Random>,
    /// The rows that hubs had of epochs that are over.
    pub(super) witnesses: Vec<Witness>,
    /// When hubs were killed.
    pub(super) killed: Vec<(usize, Nanos)>,
    /// The hubs above, those further down first.
    pub(super) above: Vec<Above>,
    /// Until when hubs stand still.
    frozen: Vec<Nanos>,
    pub(super) faults: SharedFaults,
    metrics: [Arc<Metric>; 4],
    /// Versions of programs that start; `None`: all speak the newest.
    versions: Option<Random>,
    /// Series that nodes have gained.
    gained: u64,
    /// Times that a node has given slots back.
    renewed: u64,
    pub(super) trouble: Trouble,
    /// When nodes give slots back; `None`: never.
    renewals: Option<Random>,
    /// When readers want channels; `None`: never.
    channels: Option<Random>,
    /// Nodes that the hubs are to forget then.
    forgotten: Vec<(Nanos, usize)>,
    forgets: u64,
    /// How many rows the base lane of a node had when a hub forgot it: hub, node, rows. The administrator did not want them.
    dropped: Vec<(usize, usize, u64)>,
}

/// The faults of a run, beside new series of nodes and new wishes of readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Connections break and programs end.
    Breaks,
    /// The same, and hubs are made to forget nodes that are down.
    Forgets,
}

impl World {
    /// Some nodes, and readers of both hubs.
    pub fn new(seed: u64, trouble: Trouble) -> Self {
        World::of(seed, trouble, None, false)
    }

    /// The same with four hubs in three levels. Nodes go from each of the lower ones to each other one.
    pub fn tree(seed: u64, trouble: Trouble) -> Self {
        World::of(seed, trouble, None, true)
    }

    /// The same, with older programs among them, and values that these do not know.
    pub fn mixed(seed: u64, trouble: Trouble) -> Self {
        World::of(seed, trouble, Some(Random::new(seed ^ 0xB4)), false)
    }

    fn of(seed: u64, trouble: Trouble, versions: Option<Random>, is_tree: bool) -> Self {
        let mut random = Random::new(seed);
        let now = Nanos::from_secs(10_000 + random.below(1_000));
        played::NOW.set(Some(now));
        let names = [("net.bytes", "a"), ("disk.reads", "b"), ("job.value", "c"), ("level.below", "d")];
        let metrics = names.map(|(name, exposed)| {
            let metric = own_metric(name, exposed, "A.", metric::Kind::Gauge, metric::Unit::Count, Some("x"));
            let value_type = if name == "level.below" { ValueType::Signed } else { metric.value_type };
            Arc::new(Metric { value_type, ..metric })
        });
        let faults = SharedFaults::default();
        let hubs: Vec<Hub> = (1..if is_tree { 5 } else { 3 }).map(Hub::new).collect();
        let late = Nanos::from_millis(250);
        let mut readers: Vec<Reader<Judge>> = (0..2 + random.below(2) as u8)
            .map(|n| Reader::new(Judge::follower(&faults, LEAF, late), LEAF, Role::Reader, 10 + n, now))
            .collect();
        let above = Judge::follower(&faults, ROOT, Nanos(2 * late.0));
        readers.push(Reader::new(above, ROOT, Role::Reader, 20, now));
        if is_tree {
            let top = Judge::follower(&faults, TOP, Nanos(3 * late.0));
            readers.push(Reader::new(top, TOP, Role::Reader, 30, now));
        }
        readers.iter_mut().for_each(|reader| reader.ask(Nanos::SECOND, (false, false), "*"));
        let at = [ROOT, TOP, LEAF].into_iter().filter(|_| is_tree);
        let keeper = |hub: usize| Reader::new(Keeper::follower(), hub, Role::Reader, 40 + hub as u8, now);
        let mut keepers: Vec<Reader<Keeper>> = at.map(keeper).collect();
        keepers.iter_mut().for_each(|keeper| keeper.ask(Nanos::SECOND, (false, false), "*"));
        let mut world = World {
            seed,
            now,
            lag: Nanos(random.below(8_000_000)),
            frozen: vec![Nanos(0); hubs.len()],
            hubs,
            agents: Vec::new(),
            readers,
            keepers,
            recorders: Vec::new(),
            moves: Random::new(seed ^ 0x4EC0),
            rates: None,
            witnesses: Vec::new(),
            killed: Vec::new(),
            above: Vec::new(),
            faults,
            metrics,
            versions,
            gained: 0,
            renewed: 0,
            trouble,
            renewals: None,
            channels: None,
            forgotten: Vec::new(),
            forgets: 0,
            dropped: Vec::new(),
            random,
        };
        for hub in 0..world.hubs.len() {
            world.hubs[hub].version = world.version();
        }
        world.begin_above();
        for at in 0..world.readers.len() {
            let version = world.version();
            world.readers[at].version = version;
            world.readers[at].follower.reader_mut().version = version;
        }
        world.add_nodes();
        world
    }

    /// The hubs above begin to read.
    fn begin_above(&mut self) {
        let ways = [(LEAF, ROOT, 0), (SIDE, ROOT, 1), (ROOT, TOP, 0)];
        let are_there = |(below, above, _): &(usize, usize, usize)| self.hubs.len() > *below.max(above);
        let ways = ways.into_iter().filter(are_there);
        self.above = ways.map(|way| Above::new(&self.hubs, way, self.now)).collect();
    }

    /// Whether there are four hubs.
    fn is_tree(&self) -> bool {
        self.hubs.len() > TOP
    }

    /// The version of a program that starts.
    fn version(&mut self) -> u8 {
        self.versions.as_mut().map_or(VERSION, |random| VERSION - random.below(2) as u8)
    }

    /// How many metrics there are: with old programs also metrics that these do not know.
    fn kinds(&self) -> u64 {
        if self.versions.is_some() { 4 } else { 3 }
    }

    /// What all nodes have from the start.
    fn first(&self) -> Vec<Series> {
        (0..8).map(|n| self.series(n % self.kinds(), n)).collect()
    }

    /// From now on, nodes sometimes free slots.
    pub fn renew_nodes(&mut self) {
        self.renewals = Some(Random::new(self.seed ^ 0x51075));
    }

    /// From now on, readers sometimes want channels.
    pub fn want_channels(&mut self) {
        self.channels = Some(Random::new(self.seed ^ 0xC4A2));
    }

    /// From here on readers record between the hubs to which nodes connect, at rates up to that of a fast base lane.
    pub fn record(&mut self) {
        for (number, hz) in RECORDED.into_iter().enumerate() {
            let hub = HUBS_OF_NODES[self.moves.below(3) as usize];
            let period = Nanos(Nanos::SECOND.0 / hz);
            self.recorders.push(Recorder::new(hub, period, 50 + number as u8, self.now));
        }
    }

    /// A recorder goes to another hub, or connects again.
    fn move_recorder(&mut self) {
        let moving = self.recorders.iter().filter(|recorder| recorder.moves).count();
        let at = self.moves.below(moving as u64) as usize;
        let hub = HUBS_OF_NODES[self.moves.below(3) as usize];
        self.recorders[at].go_to(hub);
    }

    /// Gives the hubs logs, and this much memory for the past. Call it before anything else.
    pub fn store(&mut self, history: ByteSize) {
        let removes = self.seed.is_multiple_of(2);
        self.faults.borrow_mut().has_no_memory = history.0 == 0;
        self.hubs.iter_mut().for_each(|hub| hub.store(history, removes));
        self.begin_above();
    }

    fn add_nodes(&mut self) {
        let base = Nanos(Nanos::SECOND.0 / [1, 1, 10][self.random.below(3) as usize]);
        let first = self.first();
        for number in 0..2 + self.random.below(5) {
            let version = self.version();
            let first: Vec<Series> =
                first.iter().filter(|series| khz_link::knows(version, series)).cloned().collect();
            self.agents.push(Agent {
                node: Node::new(&format!("n{number}"), &first, base, self.now),
                end: None,
                wire: Shared::default(),
                out: Vec::new(),
                hub: LEAF,
                next_try: self.now,
                starts: 1,
                version,
                starts_at: None,
            });
        }
    }

    fn series(&self, metric: u64, number: u64) -> Series {
        let name = format!("x{number}");
        let metric = self.metrics[metric as usize].clone();
        Series { metric, instance: Some(Instance::from_kernel(name.as_bytes())) }
    }

    /// Up to sixteen milliseconds of the world.
    fn step(&mut self) {
        self.now.0 += 1 + self.random.below(16_000_000);
        self.faults.borrow_mut().now = self.now;
        played::NOW.set(Some(self.now));
        self.forget_what_is_due();
        for at in 0..self.agents.len() {
            self.agent_turn(at);
        }
        self.turn_hub(LEAF);
        if self.is_tree() {
            self.turn_hub(SIDE);
        }
        self.connect_readers();
        for hub in [ROOT, TOP].into_iter().take(self.hubs.len() - 1) {
            self.turn_above(hub);
            self.turn_hub(hub);
        }
        for at in 0..self.readers.len() {
            let reader = &mut self.readers[at];
            if !reader.turn(self.now, self.lag, &mut self.random) {
                assert!(self.stands_still(self.readers[at].hub), "a hub is silent");
                self.readers[at].cut();
            }
        }
        self.turn_keepers();
        self.turn_recorders();
    }

    fn turn_recorders(&mut self) {
        for at in 0..self.recorders.len() {
            let recorder = &mut self.recorders[at];
            if !recorder.turn(self.now, self.lag, &mut self.moves) {
                let hub = recorder.hub;
                recorder.go_to(hub);
                assert!(self.stands_still(hub), "a hub is silent");
            }
        }
    }

    fn turn_keepers(&mut self) {
        for at in 0..self.keepers.len() {
            let keeper = &mut self.keepers[at];
            if !keeper.turn(self.now, self.lag, &mut self.random) {
                assert!(self.stands_still(self.keepers[at].hub), "a hub is silent");
                self.keepers[at].cut();
            }
        }
    }

    /// Whether a hub stands still, or did so a moment ago.
    fn stands_still(&self, hub: usize) -> bool {
        self.frozen[hub].0 + Nanos::SECOND.0 > self.now.0
    }

    fn turn_hub(&mut self, hub: usize) {
        if self.frozen[hub] <= self.now {
            self.hubs[hub].turn(self.now, self.lag, &mut self.random);
        }
    }

    /// A hub reads those below it.
    fn turn_above(&mut self, hub: usize) {
        if self.frozen[hub] > self.now {
            return;
        }
        for at in (0..self.above.len()).filter(|&at| self.above[at].hub == hub).collect::<Vec<_>>() {
            self.pass_channels_on(at);
            let Above { reader, .. } = &mut self.above[at];
            let below = reader.hub;
            // After it stood still itself, everybody seems to have been silent.
            if !reader.turn(self.now, self.lag, &mut self.random) {
                assert!(self.stands_still(below) || self.stands_still(hub), "a hub is silent");
                self.above[at].reader.cut();
            }
        }
    }

    /// A source asks the hub below for what readers of the hub above follow.
    fn pass_channels_on(&mut self, at: usize) {
        let Above { reader, asked, hub, .. } = &mut self.above[at];
        let cluster = &self.hubs[*hub].cluster;
        cluster.followed.end_unread(self.now);
        let mut over = Vec::new();
        let follow = |channel: &_| Ok(reader.follow(channel));
        asked.follow(cluster, follow, |number| over.push(number));
        for number in over {
            if let Some(at) = reader.interests.iter().position(|known| known.number == number) {
                reader.dismiss(at);
            }
        }
    }

    fn connect_readers(&mut self) {
        let frozen = &self.frozen;
        let is_still = |hub: usize| frozen[hub] > self.now;
        for Above { reader, hub, .. } in self.above.iter_mut().filter(|one| one.reader.is_alone()) {
            // The kernel of a machine whose hub stands still answers all the same.
            if !is_still(*hub) {
                let wire = Wire::between(reader.name(), reader.hub);
                self.hubs[reader.hub].accept(&wire, reader.version, self.now);
                reader.connect(wire, self.now);
            }
        }
        for recorder in self.recorders.iter_mut().filter(|recorder| recorder.is_alone()) {
            let wire = Wire::between(recorder.name(), recorder.hub);
            self.hubs[recorder.hub].accept(&wire, VERSION, self.now);
            recorder.connect(wire, self.now);
        }
        for keeper in self.keepers.iter_mut().filter(|keeper| keeper.is_alone()) {
            let wire = Wire::between(keeper.name(), keeper.hub);
            self.hubs[keeper.hub].accept(&wire, keeper.version, self.now);
            keeper.connect(wire, self.now);
        }
        for reader in self.readers.iter_mut().filter(|reader| reader.is_alone()) {
            let wire = Wire::between(reader.name(), reader.hub);
            self.hubs[reader.hub].accept(&wire, reader.version, self.now);
            reader.connect(wire, self.now);
        }
    }

    fn agent_turn(&mut self, at: usize) {
        let (now, wall) = (self.now, self.now.0 as i64);
        if let Some((_, base)) = self.agents[at].starts_at.take_if(|(due, _)| *due <= now) {
            self.bear_witness(at);
            self.agents[at].node.start_at(base, self.seed.is_multiple_of(3), now);
        }
        let (agent, random) = (&mut self.agents[at], &mut self.random);
        if agent.starts_at.is_some() {
            return;
        }
        agent.node.step(now, random);
        if agent.end.is_none() && now >= agent.next_try {
            agent.wire = Wire::between(&agent.node.name, agent.hub);
            agent.out.clear();
            self.hubs[agent.hub].accept(&agent.wire, agent.version, now);
            let name = &agent.node.name;
            let identity = identity(Role::Node, name, name.bytes().last().unwrap_or(0), agent.starts);
            agent.end = Some(AgentEnd::new(identity, now));
        }
        let Some(mut end) = agent.end.take() else { return };
        if agent.wire.borrow().is_cut {
            end.close(&mut agent.node);
            agent.next_try = Nanos(now.0 + random.below(1_000_000_000));
            return;
        }
        loop {
            let Some(bytes) = agent.wire.borrow_mut().from_hub.read(now) else { break };
            end.receive(&bytes, now, wall, &mut agent.node, &mut agent.out).expect("an agent is not refused");
        }
        if let Err(error) = end.poll(now, wall, &mut agent.node, &mut agent.out) {
            assert!(self.frozen[agent.hub].0 + Nanos::SECOND.0 > now.0, "{error}");
            // It goes to the next one.
            end.close(&mut agent.node);
            agent.wire.borrow_mut().is_cut = true;
            agent.hub = LEAF + SIDE - if agent.hub == ROOT { LEAF } else { agent.hub };
            return;
        }
        agent.wire.borrow_mut().to_hub.write(&mut agent.out, now, self.lag, random);
        agent.end = Some(end);
    }

    /// Goes on for this long; with `events` things change and break.
    pub fn run(&mut self, time: Nanos, events: bool) {
        let end = Nanos(self.now.0 + time.0);
        while self.now < end {
            self.step();
            if events && self.random.once_in(18) {
                self.happen();
            }
            if events && !self.recorders.is_empty() && self.moves.once_in(60) {
                self.move_recorder();
            }
            if events && let Some(mut random) = self.rates.take() {
                if random.once_in(60) {
                    self.change_rate(&mut random);
                }
                self.rates = Some(random);
            }
            if events && let Some(mut random) = self.renewals.take() {
                if random.once_in(80) {
                    self.renew(&mut random);
                }
                self.renewals = Some(random);
            }
            if events && let Some(mut random) = self.channels.take() {
                if random.once_in(12) {
                    self.want_channel(&mut random);
                }
                self.channels = Some(random);
            }
        }
    }

    fn happen(&mut self) {
        let kinds = match self.trouble {
            Trouble::None => 8,
            Trouble::Breaks => 12,
            Trouble::Forgets => 14,
        };
        if self.is_tree() && self.trouble != Trouble::None && self.random.once_in(12) {
            return self.trouble_hub();
        }
        match self.random.below(kinds) {
            0..4 => self.gain(),
            4 | 5 => self.want(),
            6 | 7 => self.want_less(),
            8 | 9 => self.cut(),
            10 => self.restart_node(),
            11 => self.move_or_restart_hub(),
            _ => self.forget(),
        }
    }

    /// Most nodes get the same series, at about the same time.
    fn gain(&mut self) {
        let metric = self.random.below(self.kinds());
        let count = 1 + self.random.below(5);
        let series: Vec<Series> = (0..count).map(|n| self.series(metric, 100 + self.gained + n)).collect();
        self.gained += count;
        let spread = [0, 20_000_000, 300_000_000][self.random.below(3) as usize];
        for agent in &mut self.agents {
            let is_fit = |one: &Series| khz_link::knows(agent.version, one) && !agent.node.has(one);
            if self.random.once_in(6) || !series.iter().all(is_fit) {
                continue;
            }
            let at = Nanos(self.now.0 + self.random.below(spread + 1));
            agent.node.gain(&series, at, &mut self.random);
        }
    }

    /// The same devices disappear on some nodes, which free the slots at about the same time.
    fn renew(&mut self, random: &mut Random) {
        let salt = random.below(u64::MAX);
        let first = self.first();
        let is_gone = |series: &Series| !first.contains(series) && (seed("", series) ^ salt) & 3 != 0;
        for agent in &mut self.agents {
            if random.once_in(2) && agent.node.generation() < GENERATIONS {
                agent.node.renew(is_gone, random);
                self.renewed += 1;
            }
        }
    }

    /// A reader of the leaf wants more.
    fn want(&mut self) {
        let leaf = self.readers.iter().filter(|reader| reader.hub == LEAF).count() as u64;
        let reader = &mut self.readers[self.random.below(leaf) as usize];
        if reader.interests.len() < 4 {
            let hz = [2, 10, 10, 25][self.random.below(4) as usize];
            let patterns = ["*", "job.*", "net.*", "n[0-2]:*", OF_TYPES];
            let pattern = patterns[self.random.below(if self.versions.is_some() { 5 } else { 4 }) as usize];
            let flags = (self.random.once_in(2), self.random.once_in(2));
            reader.ask(Nanos(Nanos::SECOND.0 / hz), flags, pattern);
        }
    }

    /// A reader, perhaps of the root, requests a channel, or ends its last request.
    fn want_channel(&mut self, random: &mut Random) {
        let all = self.readers.len() as u64;
        let reader = &mut self.readers[random.below(all) as usize];
        if random.once_in(3) && reader.interests.len() > 1 {
            return reader.dismiss(reader.interests.len() - 1);
        }
        if reader.interests.len() < 8 {
            let hz = [10, 25, 100][random.below(3) as usize];
            let pattern = ["*", "job.*", "n[0-2]:*"][random.below(3) as usize];
            let (prompt, handler) = (random.once_in(2), random.below(4) as u8);
            reader.ask_channel(Nanos(Nanos::SECOND.0 / hz), prompt, pattern, handler);
        }
    }

    fn want_less(&mut self) {
        let leaf = self.readers.iter().filter(|reader| reader.hub == LEAF).count() as u64;
        let reader = &mut self.readers[self.random.below(leaf) as usize];
        if reader.interests.len() > 1 {
            let at = 1 + self.random.below(reader.interests.len() as u64 - 1) as usize;
            reader.dismiss(at);
        }
    }

    /// A connection breaks.
    fn cut(&mut self) {
        let all = (self.agents.len() + self.readers.len() + self.above.len()) as u64;
        let at = self.random.below(all) as usize;
        if let Some(agent) = self.agents.get(at) {
            agent.wire.borrow_mut().is_cut = true;
            self.faults.borrow_mut().happen(None, Some(&agent.node.name));
        } else if let Some(reader) = self.readers.get_mut(at - self.agents.len()) {
            // The root ends its subscriptions at the leaf when their last reader leaves, so it does not get the rows that
            // nodes send meanwhile.
            if reader.hub != LEAF && self.channels.is_some() {
                self.faults.borrow_mut().happen(Some(reader.hub), None);
            }
            reader.cut();
        } else {
            let above = &mut self.above[at - self.agents.len() - self.readers.len()];
            let hubs = [above.hub, TOP];
            hubs.iter().for_each(|&hub| self.faults.borrow_mut().happen(Some(hub), None));
            above.reader.cut();
            if let Some(keeper) = self.keepers.get_mut(at % 4) {
                keeper.cut();
            }
        }
    }

    /// A hub of a tree is killed and starts again, or stands still for a while.
    fn trouble_hub(&mut self) {
        let hub = self.random.below(self.hubs.len() as u64) as usize;
        let mut faults = self.faults.borrow_mut();
        if self.random.once_in(2) {
            faults.end_channels(None, None);
            drop(faults);
            self.frozen[hub] = Nanos(self.now.0 + self.random.below(FROZEN_MAX));
            return;
        }
        faults.end_channels(None, None);
        drop(faults);
        self.killed.push((hub, self.now));
        self.hubs[hub].restart(self.now);
        for above in self.above.iter_mut().filter(|above| above.hub == hub) {
            above.reader.cut();
            let lists = above.reader.lists;
            *above = Above::new(&self.hubs, (above.reader.hub, hub, above.number), self.now);
            above.reader.lists = lists;
        }
    }

    fn restart_node(&mut self) {
        let at = self.random.below(self.agents.len() as u64) as usize;
        self.gained += 1;
        // All nodes get the same new name, as when a container is restarted everywhere.
        let renamed = self.series(self.gained % self.kinds(), 100_000 + self.gained / 4);
        // Programs are updated; a ring of the newest in the hands of an older one is another matter.
        let version = self.version().max(self.agents[at].version);
        let agent = &mut self.agents[at];
        if agent.node.has(&renamed)
            || !khz_link::knows(version, &renamed)
            || agent.node.generation() >= GENERATIONS
        {
            return;
        }
        self.faults.borrow_mut().end_channels(None, Some(&agent.node.name));
        if let Some(end) = agent.end.take() {
            end.close(&mut agent.node);
        }
        agent.wire.borrow_mut().is_cut = true;
        agent.node.restart(&renamed, &mut self.random);
        agent.version = version;
        agent.starts += 1;
        agent.next_try = Nanos(self.now.0 + self.random.below(1_000_000_000));
    }

    /// A node goes over to the other hub, or the leaf's process is killed.
    fn move_or_restart_hub(&mut self) {
        if self.random.once_in(4) {
            match self.versions {
                // It may be older than channels from now on.
                Some(_) => self.faults.borrow_mut().end_channels(None, None),
                None => self.faults.borrow_mut().happen(None, None),
            }
            self.killed.push((LEAF, self.now));
            self.hubs[LEAF].restart(self.now);
            self.hubs[LEAF].version = self.version();
            return;
        }
        let at = self.random.below(self.agents.len() as u64) as usize;
        let there = self.agents[at].hub;
        let is_tree = self.is_tree();
        let others = [LEAF, ROOT, SIDE].into_iter().filter(|&hub| hub != there && (hub != SIDE || is_tree));
        let others: Vec<usize> = others.collect();
        let agent = &mut self.agents[at];
        agent.hub = match others.len() {
            1 => others[0],
            all => others[self.random.below(all as u64) as usize],
        };
        agent.wire.borrow_mut().is_cut = true;
        self.faults.borrow_mut().happen(None, Some(&agent.node.name));
        // The root asks the leaf for rows from now on, not for those since the node has left the root.
        for hub in [ROOT, TOP] {
            self.faults.borrow_mut().end_channels(Some(hub), Some(&agent.node.name));
        }
    }

    /// A node goes down, and a moment later the administrator has the hubs forget it.
    fn forget(&mut self) {
        let at = self.random.below(self.agents.len() as u64) as usize;
        let agent = &mut self.agents[at];
        agent.wire.borrow_mut().is_cut = true;
        self.faults.borrow_mut().happen(None, Some(&agent.node.name));
        self.forgotten.push((Nanos(self.now.0 + self.random.below(1_200_000_000)), at));
    }

    fn forget_what_is_due(&mut self) {
        let now = self.now;
        for (_, at) in self.forgotten.extract_if(.., |(due, _)| *due <= now) {
            let name = &self.agents[at].node.name;
            let node = Pattern::new(&format!("{name}:*")).expect("a pattern");
            // A hub refuses where it is up; the root, which the leaf does not tell of its roster here, sees it go later.
            let forgets = self.hubs.iter().map(|hub| !hub.cluster.forget(&node).nodes.is_empty());
            let forgets: Vec<usize> =
                forgets.enumerate().filter_map(|(hub, yes)| yes.then_some(hub)).collect();
            let rows = self.agents[at].node.writers[0].rows();
            self.dropped.extend(forgets.iter().map(|&hub| (hub, at, rows)));
            self.forgets += forgets.len() as u64;
            if !forgets.is_empty() {
                self.faults.borrow_mut().happen(None, Some(name));
                // The root cannot ask the leaf again for rows of channels that it forgets.
                for hub in [ROOT, TOP] {
                    self.faults.borrow_mut().end_channels(Some(hub), Some(name));
                }
            }
        }
    }

    /// No more events happen. Checks what must be true then.
    pub fn judge(&mut self) -> Outcome {
        // Hubs that stand still go on first.
        let starts = self.agents.iter().filter_map(|agent| agent.starts_at).map(|(at, _)| at);
        let still = self.frozen.iter().copied().chain(starts).map(|until| until.since(self.now));
        let still = still.max().unwrap_or(Nanos(0));
        for at in 0..self.recorders.len() {
            // Where one of the nodes is at last.
            let hub = self.agents[at % self.agents.len()].hub;
            if self.recorders[at].moves && hub != self.recorders[at].hub {
                self.recorders[at].go_to(hub);
            }
        }
        // If a node is away for this long, numbers that wait for their first row get the other
        // rows.
        let settled =
            if self.rates.is_some() { Nanos(GAP_WAIT.0 + 3 * Nanos::SECOND.0) } else { Nanos::from_secs(4) };
        self.run(Nanos(still.0 + settled.0), false);
        // The rows of blocks that are open come with the end.
        self.recorders.iter_mut().for_each(|recorder| recorder.go_to(recorder.hub));
        let mut outcome = Outcome::default();
        self.hubs.iter_mut().for_each(|hub| hub.hand_over(&mut self.random));
        for (number, agent) in self.agents.iter().enumerate() {
            if self.rates.is_some() {
                outcome.recorded += self.judge_rates(agent);
                continue;
            }
            for hub in [ROOT, TOP].into_iter().filter(|&hub| hub < self.hubs.len()) {
                outcome.rows_above += self.judge_above((number, agent), hub);
                outcome.stored_above += self.judge_store_above((number, agent), hub);
            }
            self.judge_keepers(agent);
            outcome.recorded += self.judge_recorders(agent);
            if self.hubs[agent.hub].cluster.keeps_history() {
                outcome.rows += self.judge_node((number, agent));
            }
            if let Some(store) = &self.hubs[agent.hub].store {
                outcome.stored += self.judge_store(agent, store);
            }
            let gets = |reader: &&Reader<Judge>| [agent.hub, ROOT, TOP].contains(&reader.hub);
            for reader in self.readers.iter().filter(gets) {
                let (name, lanes) = (&agent.node.name, reader.follower.lanes());
                let unserved = reader.follower.reader().unserved(&reader.interests, lanes, &agent.node);
                assert!(unserved.is_none(), "{name} at {:?}: {unserved:?}", self.now);
                let hubs = self.hubs.iter().map(|hub| hub.version);
                let old = hubs.chain([agent.version, reader.version]).any(|it| it < VERSION);
                if old {
                    continue;
                }
                for interest in
                    reader.interests.iter().filter(|interest| agent.node.is_chosen(&interest.pattern))
                {
                    let missed = reader.follower.reader().missed(interest, lanes, &agent.node);
                    assert!(
                        missed.is_none(),
                        "{name} at {:?}: {interest:?} lacks the row of {missed:?}",
                        self.now
                    );
                }
            }
        }
        outcome.read = self.readers.iter().map(|reader| reader.follower.reader().rows).sum();
        outcome.of_channels = self.readers.iter().map(|reader| reader.follower.reader().of_channels).sum();
        let above = self.readers.iter().filter(|reader| [ROOT, TOP].contains(&reader.hub));
        outcome.of_channels_above = above.map(|reader| reader.follower.reader().of_channels).sum();
        outcome.too_old = self.readers.iter().map(|reader| reader.follower.reader().too_old).sum();
        outcome.gaps = self.readers.iter().map(|reader| reader.follower.reader().gaps).sum();
        (outcome.gained, outcome.forgets) = (self.gained, self.forgets);
        outcome.renewed = self.renewed;
        outcome.told = self.readers.iter().map(|reader| reader.follower.reader().told).sum();
        let ends = self.agents.iter().filter_map(|agent| agent.end.as_ref());
        outcome.left_out = ends.map(|end| end.left_out() as u64).sum();
        outcome
    }

    /// Its hub has every row of its base lane, each under the names that the node gave it; tells how many.
    fn judge_node(&self, (number, agent): (usize, &Agent)) -> u64 {
        let name = NodeName::new(&agent.node.name).expect("a name");
        let shared = self.hubs[agent.hub].cluster.node(&name).expect("it has connected");
        let node = shared.lock();
        let is_troubled = self.trouble != Trouble::None;
        if !is_troubled {
            let status = node.status(self.now);
            assert_eq!((status.connects, &status.problem), (1, &None), "{name}");
        }
        for lane in node.lanes().present().iter().filter(|lane| lane.alive && lane.has_rows()) {
            // Other lanes have holes where no reader wanted them.
            assert!(lane.name != BASE || lane.awaited() == 0, "{name}");
            assert_eq!(lane.lost(), 0, "{name}: {}", lane.name);
            // The block that was open when a lane was left comes again from its start.
            let again = if lane.name == BASE { lane.twice } else { 0 };
            // The hub above has just begun, and asks for rows of channels from before its readers came.
            let late = if lane.name == BASE { lane.late_rows } else { 0 };
            assert!(is_troubled || (late, again) == (0, 0), "{name}: {}", lane.name);
        }
        let base = node.lanes().base().expect("a base lane");
        let blocks = base.blocks_since(Nanos(0));
        // The hub may have forgotten the node, with its rows, while it came through another hub.
        let begins = blocks.first().map_or(0, |block| block.header.first_row);
        let mut next = begins.min(self.dropped_until((agent.hub, number), 1));
        for block in blocks {
            assert_eq!(block.header.first_row, next, "{name}: rows are missing");
            let series = block.schema.series().iter().take(block.header.slots as usize);
            let version = self.hubs[agent.hub].version;
            assert!(series.clone().all(|series| khz_link::knows(version, series)), "{name}: to an old hub");
            let series: Vec<Series> = series.cloned().collect();
            next += u64::from(block.rows);
            assert_eq!(
                numbers(name.as_str(), &series, &block.bytes, agent.hub == ROOT).last(),
                Some(&(next - 1)),
                "{name}"
            );
        }
        drop(node);
        self.judge_history(agent, &name);
        let written = agent.node.writers.iter().find(|writer| khz_link::Lane::name(&writer.lane) == BASE);
        let written = written.expect("a base lane").rows();
        assert!(next + 16 > written && next <= written, "{name}: {next} of {written} rows");
        next
    }
}

impl World {
    /// A hub above has every row of the node's base lane, through whichever hubs it came, and each once; tells how many. The rings
    /// have all rows, so none may be lost.
    fn judge_above(&self, (number, agent): (usize, &Agent), at: usize) -> u64 {
        let (name, hub) = (NodeName::new(&agent.node.name).expect("a name"), &self.hubs[at]);
        let base = agent.node.writers.iter().find(|writer| khz_link::Lane::name(&writer.lane) == BASE);
        let base = base.expect("a base lane");
        let shared = hub.cluster.node(&name).unwrap_or_else(|| panic!("hub {at} does not know {name}"));
        let node = shared.lock();
        let lane = node.lanes().base().unwrap_or_else(|| panic!("{name} has no base lane at hub {at}"));
        let every = (lane.period.0 / khz_link::Lane::period(&base.lane).0).max(1);
        let what = format!("{name} at hub {at}, which gets one row of {every}; it is at hub {}", agent.hub);
        // If the root has forgotten rows with the node before the top had them, nobody sends them
        // again.
        let dropped_below = if at == TOP { self.dropped_until((ROOT, number), every) } else { 0 };
        // Without memory, the root does not have what the top missed.
        let may_lose = at == TOP && (!hub.cluster.keeps_history() || dropped_below > 0);
        let lost = if may_lose { 0 } else { lane.lost() };
        // Rows that the log had before the hub's start do not come again if they are older than the memory
        // reaches.
        let (first, end) = (lane.received().first().map_or(0, |&(first, _)| first), lane.next_row());
        let is_awaited = |&(from, to): &(u64, u64)| {
            lane.logged_before().is_none_or(|before| !before.holes(from, to).is_empty())
        };
        let awaited: Vec<(u64, u64)> = lane.missing(first, end).into_iter().filter(is_awaited).collect();
        assert_eq!((&awaited[..], lost), (&[][..], 0), "{what}: {:?}", lane.received());
        let (next, written) = (lane.next_row(), base.rows() / every);
        assert!(next + 16 / every + 3 > written && next <= written + 1, "{what}: {next} of {written} rows");
        let blocks = lane.blocks_since(Nanos(0));
        // While the node itself was connected here, its own lane had its rows.
        let own = node.lanes().base_of(base.lane.epoch).map_or(&[][..], |own| own.received()).to_vec();
        let what =
            format!("{what}; {:?}", blocks.iter().map(|b| (b.header.first_row, b.rows)).collect::<Vec<_>>());
        drop(node);
        if !hub.cluster.keeps_history() {
            return next;
        }
        let mut came = std::collections::BTreeMap::<u64, u64>::new();
        for block in blocks {
            let series = &block.schema.series()[..block.header.slots as usize];
            for row in numbers(name.as_str(), series, &block.bytes, true) {
                *came.entry(row).or_default() += 1;
            }
        }
        let twice: Vec<u64> = came.iter().filter(|&(_, &times)| times > 1).map(|(&row, _)| row).collect();
        assert!(twice.is_empty(), "{what}: the rows {twice:?} are there twice");
        let first = came.first_key_value().map_or(next, |(&row, _)| row);
        let first = first.min(self.dropped_until((at, number), every));
        let begins = came.first_key_value().map_or(next, |(&row, _)| row);
        let is_own = |row: u64| own.iter().any(|&(from, to)| from < (row + 1) * every && row * every < to);
        let is_before = |row: u64| every > 1 && row < begins && is_own(row);
        let is_lacking = |row: &u64| !came.contains_key(row) && *row >= dropped_below && !is_before(*row);
        let lacking: Vec<u64> = (first..next).filter(is_lacking).collect();
        assert!(lacking.is_empty(), "{:?} {what}: of {next} rows it lacks {lacking:?}", self.trouble);
        next
    }

    /// The rows that a hub has forgotten together with a node: the rows before this one.
    fn dropped_until(&self, of: (usize, usize), every: u64) -> u64 {
        let of_it = self.dropped.iter().filter(|&&(hub, node, _)| (hub, node) == of);
        of_it.map(|&(.., rows)| rows.div_ceil(every)).max().unwrap_or(0)
    }

    /// The log of a hub above has every row that is in its lane; tells how many.
    fn judge_store_above(&self, (number, agent): (usize, &Agent), at: usize) -> u64 {
        let (name, hub) = (NodeName::new(&agent.node.name).expect("a name"), &self.hubs[at]);
        let Some(store) = &hub.store else { return 0 };
        let base = khz_link::Lane::period(&agent.node.writers[0].lane);
        // At the root a faster base lane has the numbers of the node or others, whichever way it comes.
        let every = Nanos::SECOND.0 / base.0;
        if every > 1 && at == ROOT || at == TOP && !hub.cluster.keeps_history() {
            return 0;
        }
        let rows = store.rows(&name, hub.cluster.open_blocks(&name));
        let shared = hub.cluster.node(&name).expect("it is known");
        let next = shared.lock().lanes().base().expect("a base lane").next_row();
        let first = rows.first_key_value().map_or(next, |(&row, _)| row);
        let first = first.min(self.dropped_until((at, number), every));
        let dropped_below = if at == TOP { self.dropped_until((ROOT, number), every) } else { 0 };
        let is_lacking = |row: &u64| !rows.contains_key(row) && *row >= dropped_below;
        let lacking: Vec<u64> = (first..next).filter(is_lacking).collect();
        let (trouble, memory) = (self.trouble, hub.cluster.settings.history);
        assert!(
            lacking.is_empty(),
            "{trouble:?}, {memory:?}: {name}: of {next} rows the log of hub {at} lacks {lacking:?}"
        );
        rows.len() as u64
    }

    /// A reader that wants every row has every row, over whichever connections and hubs.
    fn judge_keepers(&self, agent: &Agent) {
        let (name, base) = (NodeName::new(&agent.node.name).expect("a name"), &agent.node.writers[0]);
        let is_slow = khz_link::Lane::period(&base.lane) == Nanos::SECOND;
        // A hub that reads no other hub lacks the rows that nodes have sent elsewhere.
        let has_all = |keeper: &&Reader<Keeper>| keeper.hub != LEAF || agent.hub == LEAF;
        for keeper in self.keepers.iter().filter(has_all) {
            let kept = &keeper.follower.reader().kept;
            for ((_, epoch), kept) in kept.iter().filter(|((node, _), _)| *node == name) {
                let what = format!("{name} in epoch {epoch:x} at a reader of hub {}", keeper.hub);
                let (first, end) = kept.span();
                // Nobody requests again the rows that a hub forgets with the node.
                let is_whole = self.trouble == Trouble::Forgets || kept.missing().is_empty();
                assert!(is_whole, "{what}: {:?} of {first}..{end} are missing", kept.missing());
                // A faster base lane goes over to one with other numbers when the node goes to another hub.
                let is_lost = is_slow && self.trouble != Trouble::Forgets && kept.lost > 0;
                assert!(
                    !is_lost || !self.hubs[keeper.hub].cluster.keeps_history(),
                    "{what}: {} are lost",
                    kept.lost
                );
                let is_new = end + 3 >= base.rows();
                assert!(!is_slow || is_new, "{what}: {end} of {} rows", base.rows());
                // If several rows share a number, the first that comes counts, over any connection or hub.
                let period = khz_link::Lane::period(&base.lane).0;
                let every = if *epoch == base.lane.epoch { 1 } else { Nanos::SECOND.0 / period };
                let gathered = |row: u64| Nanos(base.first.0 + row * every * period);
                let elsewhere = kept.elsewhere(gathered).filter(|_| self.trouble != Trouble::Forgets);
                assert_eq!(elsewhere, None, "{what}: one row of {every}");
            }
        }
    }

    /// If the base lane of a node has rows at a recorder's rate, the recorder has only one lane of the node, whatever hubs both were at.
    /// If both are at the same hub in the end, the recorder has each row since it began, once. Returns how many rows.
    fn judge_recorders(&self, agent: &Agent) -> u64 {
        let (name, base) = (&*agent.node.name, &agent.node.writers[0]);
        let base_period = khz_link::Lane::period(&base.lane);
        let mut rows = 0;
        for recorder in self.recorders.iter().filter(|recorder| recorder.period >= base_period) {
            let every = every(recorder.period, base_period);
            let epoch = if every == 1 { base.lane.epoch } else { thinned(base.lane.epoch, every) };
            let of_node = recorder.recording.lanes.iter().filter(|((node, _), _)| node == name);
            let epochs: Vec<u64> = of_node.map(|((_, epoch), _)| *epoch).collect();
            let what = format!("{name}, one row of {every}, at a recorder of hub {}", recorder.hub);
            assert!(epochs.iter().all(|known| *known == epoch), "{what}: {epochs:x?} and not {epoch:x}");
            let gathered = |row: u64| Nanos(base.first.0 + row * every * base_period.0);
            let Some(recorded) = recorder.recording.lanes.get(&(name.to_owned(), epoch)) else {
                assert!(agent.hub != recorder.hub, "{what}: nothing");
                continue;
            };
            let elsewhere = recorded.rows.iter().find(|&(&row, &time)| time != gathered(row));
            assert_eq!(elsewhere, None, "{what}: gathered at another time");
            if agent.hub == recorder.hub && self.trouble != Trouble::Forgets {
                self.judge_recorded(recorded, &what, recorder.begun, gathered, base.rows() / every);
            }
            rows += recorded.rows.len() as u64;
        }
        rows
    }

    /// A recording has each row from its begin to the last one that the node has.
    fn judge_recorded(
        &self,
        recorded: &Recorded,
        what: &str,
        begun: Nanos,
        gathered: impl Fn(u64) -> Nanos,
        written: u64,
    ) {
        let trouble = self.trouble;
        assert_eq!((recorded.missing(), recorded.lost), (vec![], 0), "{trouble:?}: {what}");
        let ends = recorded.rows.first_key_value().zip(recorded.rows.last_key_value());
        let ((&first, _), (&last, _)) = ends.unwrap_or_else(|| panic!("{what}: no row"));
        // Lanes that are offered within two seconds after it has subscribed begin there.
        let late = Nanos(begun.0 + 2_300_000_000);
        assert!(first == 0 || gathered(first - 1) < late, "{what}: it has none of the rows before {first}");
        assert!(last + 20 > written, "{what}: {last} of {written} rows");
    }

    /// The log of its hub has every row of its base lane, and each once if nothing has gone wrong and no segment was removed;
    /// tells how many.
    fn judge_store(&self, agent: &Agent, store: &Stored) -> u64 {
        let name = NodeName::new(&agent.node.name).expect("a name");
        let rows = store.rows(&name, self.hubs[agent.hub].cluster.open_blocks(&name));
        let next = rows.len() as u64;
        assert_eq!(rows.last_key_value().map(|(&row, _)| row + 1), Some(next), "{name}: rows are missing");
        let is_once = rows.values().all(|&times| times == 1);
        assert!(is_once || self.trouble != Trouble::None || store.removes, "{name}: {rows:?}");
        let written = agent.node.writers.iter().find(|writer| khz_link::Lane::name(&writer.lane) == BASE);
        let written = written.expect("a base lane").rows();
        assert!(next + 16 > written && next <= written, "{name}: {next} of {written} rows");
        next
    }

    /// Each value of its history stands under the name of its series, whatever its slot was.
    fn judge_history(&self, agent: &Agent, name: &NodeName) {
        let query = HubQuery::new(self.hubs[agent.hub].cluster.clone());
        let past = query.history_of(name, &[Pattern::everything()], Nanos::from_secs(3_600), usize::MAX);
        let past = past.expect("few readings").expect("it has rows");
        let seeds: Vec<u64> = past.columns.iter().map(|series| seed(name.as_str(), series)).collect();
        for row in past.rows {
            assert_eq!(row.readings.len(), seeds.len(), "{name}");
            for (reading, seed) in row.readings.iter().zip(&seeds) {
                let is_right = |found| found == value(*seed, row.stamp.boot);
                assert!(reading.value().is_none_or(is_right), "{name}: history under another name");
            }
        }
    }
}

/// How it went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Rows of base lanes at the hubs, and those that readers got.
    pub rows: u64,
    pub read: u64,
    /// Rows of base lanes at the hubs above, those of each hub, and in their logs.
    pub rows_above: u64,
    pub stored_above: u64,
    /// Rows of channels among those, and times that a program was too old for channels.
    pub of_channels: u64,
    pub too_old: u64,
    /// Those that came through the hub below.
    pub of_channels_above: u64,
    /// Rows that recorders have of nodes whose base lane is fast.
    pub recorded: u64,
    /// Gaps that a fault has brought.
    pub gaps: u64,
    pub gained: u64,
    /// Rows of base lanes in the hubs' logs.
    pub stored: u64,
    /// Times that a node has given slots back.
    pub renewed: u64,
    /// Nodes that a hub has forgotten, each time.
    pub forgets: u64,
    /// Slots that older hubs did not get.
    pub left_out: u64,
    /// How often the hub said to an older reader that it is too old for what it wants.
    pub told: u64,
}

impl Drop for World {
    fn drop(&mut self) {
        played::NOW.set(None);
        if std::thread::panicking() {
            eprintln!("this was the world of seed {}", self.seed);
        }
    }
}
