//! Everything together, step by step in made-up time: the agent with its node, hubs, connections, and what goes
//! wrong with them.

use std::sync::Arc;

use khz_link::frozen::MaybeFrozen;
use khz_link::hub_list::Outcome;
use khz_link::{AgentEnd, Failback, Goodbye, HubList, Identity, Lane, Leaving, LinkError, Role};
use khz_model::Nanos;

use crate::hub::Hub;
use crate::network::Connection;
use crate::node::Node;
use crate::random::Random;
use crate::ring_lane::RingLane;

/// What may go wrong in a storm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub cuts: bool,
    pub freezes: bool,
    pub restarts: bool,
    pub clocks: bool,
    pub interests: bool,
    pub damage: bool,
}

impl Faults {
    pub fn all() -> Self {
        Faults { cuts: true, freezes: true, restarts: true, clocks: true, interests: true, damage: false }
    }
}

pub struct Agent {
    pub node: Node,
    identity: Arc<Identity>,
    hub_list: HubList,
    pub failback: Failback,
    link: Option<(usize, AgentEnd<MaybeFrozen<RingLane>>)>,
    /// Which hub the link leads to, and since when it is welcome.
    pub hub: usize,
    welcome: Option<Nanos>,
    out: Vec<u8>,
    /// It does nothing at all (SIGSTOP).
    pub hangs: bool,
}

/// How it went.
#[derive(Debug, Default)]
pub struct Done {
    pub rows: u64,
    pub lost: u64,
    pub repeated: u64,
    pub cuts: u64,
}

pub struct World {
    seed: u64,
    random: Random,
    faults: Faults,
    pub now: Nanos,
    wall_offset: i64,
    pub agent: Agent,
    pub hubs: Vec<Hub>,
    connections: Vec<Connection>,
    /// One way of the network.
    lag: Nanos,
    /// The network takes nothing until then.
    dark_until: Nanos,
    starts: u64,
    freezes: u64,
}

const HOUR: i64 = 3_600_000_000_000;

impl World {
    pub fn new(seed: u64, hubs: usize, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let now = Nanos::from_secs(1_000 + random.below(1_000));
        let node = Node::new(&mut random, now);
        let lag = Nanos(random.below(8_000_000));
        World {
            seed,
            faults,
            now,
            wall_offset: 1_700_000_000_000_000_000,
            agent: Agent {
                node,
                identity: identity(1),
                hub_list: HubList::new(hubs),
                failback: Failback::new(hubs, Nanos(0)),
                link: None,
                hub: 0,
                welcome: None,
                out: Vec::new(),
                hangs: false,
            },
            hubs: (0..hubs).map(|n| Hub::new(n as u8 + 1, faults.damage)).collect(),
            connections: Vec::new(),
            lag,
            dark_until: Nanos(0),
            starts: 1,
            freezes: 0,
            random,
        }
    }

    fn wall(&self) -> i64 {
        self.now.0 as i64 + self.wall_offset
    }

    /// One to five milliseconds of the world.
    pub fn step(&mut self) {
        self.now.0 += 1_000_000 + self.random.below(4_000_000);
        self.agent.node.produce(self.now, self.wall_offset);
        if !self.agent.hangs {
            self.agent_turn();
        }
        for hub in 0..self.hubs.len() {
            if !self.hubs[hub].frozen && !self.hubs[hub].dead {
                self.hub_turn(hub);
            }
        }
    }

    /// Hubs that answer are well, in this world as in ours; a better one that was so for long enough is gone back to.
    fn look_for_better(&mut self) {
        let now = self.now;
        while let Some((hub, at)) = self.agent.failback.next_probe().filter(|&(_, at)| at <= now) {
            let is_well = !self.hubs[hub].dead && !self.hubs[hub].frozen && now >= self.dark_until;
            self.agent.failback.probed(hub, is_well, at.max(now), self.random.next());
        }
        let Some(to) = self.agent.failback.better(now) else { return };
        let Some((number, end)) = self.agent.link.take() else { return };
        end.goodbye(&Goodbye { leaving: Leaving::Moves, text: "" }, &mut self.agent.out);
        self.connections[number].to_hub.write(&mut self.agent.out, now, self.lag, &mut self.random);
        end.close(&mut self.agent.node);
        self.connections[number].agent_closed = true;
        self.agent.failback.goes_back(to);
        let random = self.random.next();
        self.agent.hub_list.ended(self.agent.hub, Outcome::Moved { to }, now, random);
    }

    fn agent_turn(&mut self) {
        self.look_for_better();
        if self.agent.link.is_none() {
            self.connect();
        }
        let Some((connection, mut end)) = self.agent.link.take() else { return };
        match self.agent_talk(connection, &mut end) {
            Ok(()) => self.agent.link = Some((connection, end)),
            Err(error) => {
                let outcome = match error {
                    LinkError::Refused { .. } => Outcome::Refused,
                    _ => Outcome::Broke {
                        lasted: self.agent.welcome.map_or(Nanos(0), |at| self.now.since(at)),
                    },
                };
                end.close(&mut self.agent.node);
                self.connections[connection].agent_closed = true;
                let lasted = self.agent.welcome.map_or(Nanos(0), |at| self.now.since(at));
                self.agent.failback.left(self.agent.hub, lasted);
                let random = self.random.next();
                self.agent.hub_list.ended(self.agent.hub, outcome, self.now, random);
            }
        }
    }

    fn connect(&mut self) {
        let (hub, at) = self.agent.hub_list.next(self.now);
        if at > self.now {
            return;
        }
        // A dead machine, or a dark network: the attempt fails after its time.
        if self.hubs[hub].dead || self.now < self.dark_until {
            let random = self.random.next();
            let later = Nanos(self.now.0 + 500_000_000);
            self.agent.hub_list.ended(hub, Outcome::Broke { lasted: Nanos(0) }, later, random);
            return;
        }
        let connection = self.connections.len();
        self.connections.push(Connection::default());
        // A frozen hub's kernel accepts all the same; the hub sees it when it thaws.
        self.hubs[hub].accept(connection, self.now);
        self.agent.out.clear();
        self.agent.hub = hub;
        let random = self.random.next();
        self.agent.failback.came_to(hub, self.now, random);
        self.agent.welcome = None;
        self.agent.link = Some((connection, AgentEnd::new(self.agent.identity.clone(), self.now)));
    }

    fn agent_talk(
        &mut self,
        number: usize,
        end: &mut AgentEnd<MaybeFrozen<RingLane>>,
    ) -> Result<(), LinkError> {
        let (now, wall) = (self.now, self.wall());
        let Agent { node, out, welcome, .. } = &mut self.agent;
        let connection = &mut self.connections[number];
        if now >= self.dark_until {
            while let Some(bytes) = connection.to_agent.read(now) {
                end.receive(&bytes, now, wall, node, out)?;
            }
        }
        if connection.hub_closed && connection.to_agent.is_empty() && now >= self.dark_until {
            return Err(LinkError::Over);
        }
        if end.is_welcome() {
            welcome.get_or_insert(now);
        }
        end.poll(now, wall, node, out)?;
        connection.to_hub.write(out, now, self.lag, &mut self.random);
        assert!(out.len() <= 1 << 20, "seed {}: {} bytes wait to be sent", self.seed, out.len());
        Ok(())
    }

    fn hub_turn(&mut self, hub: usize) {
        let (now, wall) = (self.now, self.now.0 as i64);
        let mut index = 0;
        while index < self.hubs[hub].links.len() {
            let number = self.hubs[hub].links[index].connection;
            let ended = self.hub_talk(hub, index, now, wall);
            let connection = &mut self.connections[number];
            let closed = connection.agent_closed && connection.to_hub.is_empty();
            if ended || closed {
                self.hubs[hub].cuts += u64::from(ended);
                self.close_hub_side(hub, index);
            } else if let Some(older) = self.hubs[hub].superseded() {
                self.close_hub_side(hub, older);
                index = 0;
            } else {
                index += 1;
            }
        }
    }

    /// Reads and writes one connection of a hub; `true` when the hub ends it.
    fn hub_talk(&mut self, hub: usize, index: usize, now: Nanos, wall: i64) -> bool {
        let number = self.hubs[hub].links[index].connection;
        if now >= self.dark_until {
            while let Some(bytes) = self.connections[number].to_hub.read(now) {
                if self.hubs[hub].receive(index, &bytes, now, wall).is_err() {
                    return true;
                }
            }
        }
        let link = &mut self.hubs[hub].links[index];
        self.connections[number].to_agent.write(&mut link.out, now, self.lag, &mut self.random);
        now >= link.end.deadline()
    }

    fn close_hub_side(&mut self, hub: usize, index: usize) {
        let mut out = std::mem::take(&mut self.hubs[hub].links[index].out);
        let number = self.hubs[hub].drop_link(index);
        let connection = &mut self.connections[number];
        connection.to_agent.write(&mut out, self.now, self.lag, &mut self.random);
        connection.hub_closed = true;
        connection.to_hub.cut = true;
    }

    pub fn run(&mut self, time: Nanos) {
        let end = Nanos(self.now.0 + time.0);
        while self.now < end {
            self.step();
        }
    }

    /// Slots are given back again and again, others come, and readers want this and that; nothing goes wrong.
    pub fn churn(&mut self, time: Nanos) {
        let end = Nanos(self.now.0 + time.0);
        while self.now < end {
            self.step();
            match self.random.below(400) {
                0..8 => self.agent.node.renew(&mut self.random),
                8 | 9 => self.agent.node.grow(&mut self.random),
                10 | 11 => {
                    let begin = self.random.once_in(2);
                    let hub = self.agent.hub;
                    self.hubs[hub].ask(begin);
                }
                _ => {}
            }
        }
    }

    /// Things go wrong for this time.
    pub fn storm(&mut self, time: Nanos) {
        let end = Nanos(self.now.0 + time.0);
        while self.now < end {
            self.step();
            if self.random.once_in(300) {
                self.go_wrong();
            }
        }
    }

    fn go_wrong(&mut self) {
        let hub = self.random.below(self.hubs.len() as u64) as usize;
        let faults = self.faults;
        match self.random.below(14) {
            0 | 1 if faults.cuts => self.cut(),
            2 if faults.cuts => self.dark_until = Nanos(self.now.0 + self.random.below(4_000_000_000)),
            3 if faults.cuts => self.abandon(),
            4 if faults.freezes => self.hubs[hub].frozen = !self.hubs[hub].frozen,
            5 if faults.freezes => self.agent.hangs = !self.agent.hangs,
            6 if faults.restarts => self.restart_hub(hub),
            7 if faults.restarts => self.restart_agent(),
            8 if faults.clocks => self.wall_offset += [-HOUR, HOUR, 1_500_000][self.random.below(3) as usize],
            9 => self.agent.node.grow(&mut self.random),
            11 if faults.interests => self.freeze(hub),
            12 | 13 => self.agent.node.renew(&mut self.random),
            10 if faults.interests => {
                let begin = self.random.once_in(2);
                self.hubs[hub].ask(begin);
            }
            _ if faults.damage => {
                if let Some((number, _)) = &self.agent.link {
                    self.connections[*number].to_hub.damage(&mut self.random);
                }
            }
            _ => {}
        }
    }

    /// A hub has the node keep the rows around now. It asks again on each connection until it has them.
    pub fn freeze(&mut self, hub: usize) {
        self.freezes += 1;
        let number = self.freezes;
        self.hubs[hub].freeze(number, self.now);
    }

    /// All rows of the freezes that this hub has asked for and the node has kept.
    pub fn frozen(&self, hub: usize) -> bool {
        self.hubs[hub].frozen_is_whole()
    }

    /// Both sides learn of it; what is under way is lost from some point on.
    fn cut(&mut self) {
        if let Some((number, _)) = &self.agent.link {
            let connection = &mut self.connections[*number];
            connection.to_hub.lose_tail(&mut self.random);
            connection.to_agent.lose_tail(&mut self.random);
            connection.hub_closed = true;
            connection.agent_closed = true;
        }
    }

    /// The agent gives its connection up without the hub learning of it, and what it has sent goes on arriving.
    fn abandon(&mut self) {
        if let Some((_, end)) = self.agent.link.take() {
            end.close(&mut self.agent.node);
        }
    }

    fn restart_agent(&mut self) {
        self.starts += 1;
        if let Some((number, end)) = self.agent.link.take() {
            end.close(&mut self.agent.node);
            self.connections[number].agent_closed = true;
        }
        self.agent.node.restart();
        self.agent.identity = identity(self.starts);
        self.agent.hub_list = HubList::new(self.hubs.len());
    }

    /// All its memory is gone.
    pub fn restart_hub(&mut self, hub: usize) {
        while !self.hubs[hub].links.is_empty() {
            self.close_hub_side(hub, 0);
        }
        let (identity, cuts) = (self.hubs[hub].identity.wrapping_add(16), self.hubs[hub].cuts);
        self.hubs[hub] = Hub::new(identity, self.faults.damage);
        self.hubs[hub].cuts = cuts;
    }

    /// From here on everything works.
    pub fn heal(&mut self) {
        self.dark_until = Nanos(0);
        self.agent.hangs = false;
        self.hubs.iter_mut().for_each(|hub| hub.frozen = false);
        self.faults = Faults::default();
    }

    /// Rows of complete blocks that no hub has.
    pub fn rows_nowhere(&self) -> u64 {
        let missing = |producer: &crate::node::Producer| {
            let records = self.hubs.iter().filter_map(|hub| hub.records.get(&producer.lane.epoch()));
            let mut blocks: Vec<(u64, u64)> =
                records.flat_map(|record| record.blocks.iter().map(|(&from, &to)| (from, to))).collect();
            blocks.sort_unstable();
            let (covered, missing) = blocks.into_iter().fold((0, 0), |(covered, missing), (from, to)| {
                (to.max(covered), missing + from.saturating_sub(covered))
            });
            missing + producer.rows_complete().saturating_sub(covered)
        };
        self.agent.node.producers.iter().map(missing).sum()
    }

    pub fn cuts(&self) -> u64 {
        self.hubs.iter().map(|hub| hub.cuts).sum()
    }

    /// Nothing new is gathered; goes on until the hub in use has everything, and judges that.
    pub fn settle(&mut self, within: Nanos) -> Done {
        self.agent.node.stopped = true;
        self.agent.node.producers.iter_mut().for_each(|producer| producer.finish());
        let end = Nanos(self.now.0 + within.0);
        while !self.is_complete() {
            assert!(self.now < end, "seed {}: not complete: {}", self.seed, self.missing());
            self.step();
        }
        self.judge()
    }

    fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }

    /// Which rows of the lanes that still exist the hub in use has not.
    fn missing(&self) -> String {
        let hub = &self.hubs[self.agent.hub];
        if !hub.is_connected() || hub.frozen {
            return "no hub".into();
        }
        let mut missing = String::new();
        for producer in &self.agent.node.producers {
            let complete = hub.records.get(&producer.lane.reader.label().epoch);
            let complete = complete.map_or(0, |record| record.intake.complete_until());
            if complete < producer.rows_complete() {
                let lane = &producer.lane.reader.label().lane;
                missing += &format!("{lane} has {complete} of {} rows; ", producer.rows_complete());
            }
        }
        missing
    }

    fn judge(&self) -> Done {
        let mut done = Done { cuts: self.cuts(), ..Done::default() };
        for hub in &self.hubs {
            for (epoch, record) in &hub.records {
                let Some(producer) = self.agent.node.find(*epoch) else { panic!("a lane that never was") };
                done.rows += record.blocks.iter().map(|(from, to)| to - from).sum::<u64>();
                done.repeated += record.intake.repeated();
                for &(from, to) in &record.lost {
                    done.lost += to - from;
                    // Only what the ring has given up may be called lost.
                    let oldest = producer.oldest_row();
                    assert!(
                        to <= oldest,
                        "seed {}: {from}..{to} called lost, the ring has {oldest}",
                        self.seed
                    );
                }
                assert!(record.blocks.values().all(|&to| to <= producer.rows()));
            }
        }
        done
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was the world of seed {}", self.seed);
        }
    }
}

fn identity(start: u64) -> Arc<Identity> {
    Arc::new(Identity {
        role: Role::Node,
        name: "node1".into(),
        machine: [1; 16],
        boot: [2; 16],
        started: start as i64,
        start_nonce: start,
        program: "0.1.0".into(),
        prove: None,
    })
}
