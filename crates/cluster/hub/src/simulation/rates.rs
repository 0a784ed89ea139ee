//! Nodes that are killed and start again with other base rates, several times, while recorders at many rates go from hub to hub or stay
//! at one. Each such start begins another epoch. Whatever happens, a recording has no row twice or out of order, and each row has the
//! number that belongs to its time. No row of the last epoch is missing, and of earlier epochs no row that the node's hub had. The same
//! holds for the memory and the logs of the hubs above.

use std::collections::{BTreeMap, BTreeSet};

use khz_model::{Nanos, NodeName};

use super::node::Made;
use super::random::Random;
use super::recorder::{Recorded, Recorder};
use super::store::times;
use super::world::{Agent, HUBS_OF_NODES, LEAF, ROOT, SIDE, TOP, World};
use crate::cursor::{every, thinned};
use crate::node::BASE;

/// Base rates, Hz.
const BASES: [u64; 4] = [1, 2, 5, 10];

/// Rates of recorders, Hz: slower than a base lane, as fast, and faster.
const RECORDED: [u64; 6] = [1, 2, 4, 5, 10, 20];

/// A killed agent starts again after at most this long, ns.
const AWAY_MAX: u64 = 3_000_000_000;

/// Epochs before the last one that hubs remember in any case: at the root each may have two lanes, of eight.
const REMEMBERED: usize = 3;

/// Lanes that are offered to a recorder within two seconds after it has subscribed begin there.
const BEGINS: Nanos = Nanos::from_millis(2_300);

/// The rows that a hub had of a node's epoch when the next epoch began: the node sends no more of
/// them.
pub struct Witness {
    node: NodeName,
    made: Made,
    hub: usize,
    /// When the rows were gathered.
    times: BTreeSet<Nanos>,
}

impl Witness {
    /// For each row that a reader gets, where one row of several comes: between which times it was gathered, the last not included.
    fn rows(&self, every: u64) -> BTreeSet<(Nanos, Nanos)> {
        let (first, length) = (self.made.first.0, every * self.made.period.0);
        let begin = |time: &Nanos| first + (time.0 - first) / length * length;
        self.times.iter().map(begin).map(|begin| (Nanos(begin), Nanos(begin + length))).collect()
    }

    /// The rows of which `times` has none.
    fn lacking(&self, every: u64, since: Nanos, times: &BTreeSet<Nanos>) -> Vec<(Nanos, Nanos)> {
        let has = |&(from, to): &(Nanos, Nanos)| times.range(from..to).next().is_some();
        self.rows(every).into_iter().filter(|row| row.0 >= since && !has(row)).collect()
    }
}

impl World {
    /// From here on nodes are started again with other base rates, and readers record at many rates.
    pub fn change_rates(&mut self) {
        let random = &mut Random::new(self.seed ^ 0xBA5E);
        let period = |random: &mut Random| {
            Nanos(Nanos::SECOND.0 / RECORDED[random.below(RECORDED.len() as u64) as usize])
        };
        for number in 0..4 {
            let hub = HUBS_OF_NODES[random.below(3) as usize];
            self.recorders.push(Recorder::new(hub, period(random), 50 + number, self.now));
        }
        for (number, hub) in [LEAF, SIDE, ROOT, TOP].into_iter().enumerate() {
            self.recorders.push(Recorder::staying(hub, period(random), 60 + number as u8, self.now));
        }
        for (number, hub) in [ROOT, TOP].into_iter().enumerate() {
            self.recorders.push(Recorder::staying(hub, Nanos::SECOND, 64 + number as u8, self.now));
        }
        self.above.iter_mut().for_each(|above| above.reader.lists = true);
        self.rates = Some(random.clone());
    }

    /// A node's next epoch begins: notes which rows of the previous epoch its hubs have.
    pub(super) fn bear_witness(&mut self, at: usize) {
        let (name, made) =
            (NodeName::new(&self.agents[at].node.name).expect("a name"), self.agents[at].node.base());
        for hub in HUBS_OF_NODES {
            let Some(node) = self.hubs[hub].cluster.node(&name) else { continue };
            let node = node.lock();
            let Some(lane) = node.lanes().base_of(made.epoch) else { continue };
            let blocks = lane.blocks_since(Nanos(0));
            let times = blocks.iter().flat_map(|block| times(&block.bytes)).collect();
            self.witnesses.push(Witness { node: name.clone(), made, hub, times });
        }
    }

    /// The witnesses of a node's earlier epochs whose rows must be known: the hub was not killed since.
    fn witnesses_of(&self, agent: &Agent) -> impl Iterator<Item = &Witness> {
        let is_known = |witness: &&Witness| {
            let mut killed = self.killed.iter();
            !killed.any(|&(hub, at)| hub == witness.hub && at >= witness.made.first)
        };
        let name = agent.node.name.clone();
        self.witnesses.iter().filter(move |witness| witness.node.as_str() == &*name).filter(is_known)
    }

    /// The hubs above have every row of every epoch that a hub below had.
    fn judge_epochs_above(&self, agent: &Agent) {
        let name = NodeName::new(&agent.node.name).expect("a name");
        let mut epochs: Vec<u64> = self.witnesses_of(agent).map(|witness| witness.made.epoch).collect();
        epochs.dedup();
        let remembered = epochs.split_off(epochs.len().saturating_sub(REMEMBERED));
        for hub in [ROOT, TOP] {
            let cluster = &self.hubs[hub].cluster;
            let memory: BTreeSet<Nanos> = {
                let node = cluster.node(&name).unwrap_or_else(|| panic!("hub {hub} knows no {name}"));
                let node = node.lock();
                let bases = node.lanes().all().filter(|lane| lane.name == BASE);
                let blocks: Vec<_> = bases.flat_map(|lane| lane.blocks_since(Nanos(0))).collect();
                blocks.iter().flat_map(|block| times(&block.bytes)).collect()
            };
            let store = self.hubs[hub].store.as_ref();
            let stored = store.map(|store| store.times(&name, cluster.open_blocks(&name)));
            for witness in self.witnesses_of(agent).filter(|witness| witness.hub != hub) {
                let every = every(Nanos::SECOND, witness.made.period);
                let what = format!(
                    "{:?}: {name} at hub {hub}: what hub {} had of {:?}",
                    self.trouble, witness.hub, witness.made
                );
                if cluster.keeps_history() && remembered.contains(&witness.made.epoch) {
                    assert_eq!(witness.lacking(every, Nanos(0), &memory), [], "{what}");
                }
                if let Some(stored) = &stored {
                    assert_eq!(witness.lacking(every, Nanos(0), stored), [], "stored: {what}");
                }
            }
        }
    }

    /// A recorder must have every row that its last hub had, of every epoch, if the node is at that hub in the end and its rows fit the
    /// recorder's rate. A recorder that stays at a hub must also have the rows that the hubs below had.
    fn judge_epochs_recorded(&self, agent: &Agent, recorder: &Recorder, came: &BTreeSet<Nanos>, what: &str) {
        if self.killed.iter().any(|&(hub, _)| hub == recorder.hub) {
            return;
        }
        for witness in self.witnesses_of(agent) {
            let is_above = match recorder.hub {
                // At a hub where the node is not, nobody can open a faster lane, and then none is
                // offered.
                hub if recorder.moves => hub == witness.hub && hub == agent.hub,
                TOP => true,
                ROOT => recorder.period >= Nanos::SECOND,
                hub => hub == witness.hub,
            };
            if !is_above || recorder.period < witness.made.period {
                continue;
            }
            let period =
                if recorder.hub == TOP { recorder.period.max(Nanos::SECOND) } else { recorder.period };
            let every = every(period, witness.made.period);
            let since = Nanos(recorder.begun.0 + BEGINS.0);
            let lacking = witness.lacking(every, since, came);
            assert_eq!(
                lacking,
                [],
                "{:?}: {what}: what hub {} had of {:?}",
                self.trouble,
                witness.hub,
                witness.made
            );
        }
    }

    /// A node is killed, and starts again a moment later.
    pub(super) fn change_rate(&mut self, random: &mut Random) {
        let at = random.below(self.agents.len() as u64) as usize;
        let base = Nanos(Nanos::SECOND.0 / BASES[random.below(BASES.len() as u64) as usize]);
        let agent = &mut self.agents[at];
        if agent.starts_at.is_some() {
            return;
        }
        if let Some(end) = agent.end.take() {
            end.close(&mut agent.node);
        }
        agent.node.kill();
        agent.wire.borrow_mut().is_cut = true;
        agent.starts += 1;
        agent.starts_at = Some((Nanos(self.now.0 + random.below(AWAY_MAX)), base));
        self.faults.borrow_mut().end_channels(None, Some(&agent.node.name));
    }

    /// Checks the rows that all recorders have of a node. Returns how many rows.
    pub(super) fn judge_rates(&self, agent: &Agent) -> u64 {
        self.judge_hubs_above(agent);
        self.judge_epochs_above(agent);
        self.recorders.iter().map(|recorder| self.judge_rates_of(agent, recorder)).sum()
    }

    /// The hubs above have the last epoch of its base lane from the first row on, whichever hub was away when that began.
    fn judge_hubs_above(&self, agent: &Agent) {
        let (name, base) = (NodeName::new(&agent.node.name).expect("a name"), &agent.node.writers[0]);
        let period = khz_link::Lane::period(&base.lane);
        for at in [ROOT, TOP] {
            let node =
                self.hubs[at].cluster.node(&name).unwrap_or_else(|| panic!("hub {at} knows no {name}"));
            let node = node.lock();
            let lane = node.lanes().base().unwrap_or_else(|| panic!("{name} has no base lane at hub {at}"));
            let every = (lane.period.0 / period.0).max(1);
            let epoch = if every == 1 { base.lane.epoch } else { thinned(base.lane.epoch, every) };
            let what = format!("{name} at hub {at}, one row of {every}");
            assert_eq!(lane.epoch, epoch, "{what}: another epoch");
            let (next, written) = (lane.next_row(), base.rows() / every);
            // While the node itself was connected here, its own lane had its rows.
            let own = node.lanes().base_of(base.lane.epoch).map_or(&[][..], |own| own.received());
            let is_own =
                |row: u64| own.iter().any(|&(from, to)| from < (row + 1) * every && row * every < to);
            let lacking: Vec<u64> = (0..next).filter(|&row| !lane.has(row) && !is_own(row)).collect();
            assert!(lacking.is_empty() && lane.lost() == 0, "{what}: of {next} it lacks {lacking:?}");
            assert!(next + 20 > written, "{what}: {next} of {written} rows");
        }
    }

    fn judge_rates_of(&self, agent: &Agent, recorder: &Recorder) -> u64 {
        let name = &*agent.node.name;
        let what = format!("{name} at {} of {} at hub {}", recorder.name(), recorder.period, recorder.hub);
        let mut lanes: Vec<(&Recorded, Made, u64)> = Vec::new();
        for ((_, epoch), recorded) in recorder.recording.lanes.iter().filter(|((node, _), _)| node == name) {
            let (made, every) = its_lane(agent.node.made(), *epoch, recorder.period)
                .unwrap_or_else(|| panic!("{what}: nobody made epoch {epoch:x}"));
            let gathered = |row: u64| Nanos(made.first.0 + row * every * made.period.0);
            let elsewhere = recorded.rows.iter().find(|&(&row, &time)| time != gathered(row));
            assert_eq!(elsewhere, None, "{what}: gathered at another time, one row of {every}, {made:?}");
            lanes.push((recorded, made, every));
        }
        let mut came = BTreeMap::new();
        for (recorded, made, every) in &lanes {
            for (row, time) in &recorded.rows {
                let row = Row { made: *made, every: *every, number: *row };
                let before = came.insert(*time, row);
                assert!(before.is_none(), "{what}: {time:?} is there twice: {before:?}, {row:?}");
            }
        }
        let mixed = mixed(&came);
        assert!(mixed.is_none(), "{what}: rows of two lanes came beside each other: {mixed:?}");
        let times = came.keys().copied().collect();
        self.judge_last(agent, recorder, &lanes, &what);
        self.judge_epochs_recorded(agent, recorder, &times, &what);
        came.len() as u64
    }

    /// No row of the base lane's last epoch may be missing, if its rows serve the recorder where it is.
    fn judge_last(&self, agent: &Agent, recorder: &Recorder, lanes: &[(&Recorded, Made, u64)], what: &str) {
        let base = &agent.node.writers[0];
        let base_period = khz_link::Lane::period(&base.lane);
        // At a hub above, a row a second stands in for faster ones until the node comes itself.
        let is_slow = recorder.period >= Nanos::SECOND;
        let serves = match recorder.hub {
            TOP => true,
            ROOT if !recorder.moves => is_slow,
            hub => hub == agent.hub && recorder.period >= base_period,
        };
        if !serves || base.first == agent.node.made()[0].first {
            return;
        }
        let of_last = lanes.iter().find(|(_, made, _)| made.epoch == base.lane.epoch);
        let (recorded, _, every) = of_last.unwrap_or_else(|| panic!("{what}: nothing of the last epoch"));
        let written = base.rows() / every;
        let (first, last) = (recorded.rows.keys().next().copied(), recorded.rows.keys().last().copied());
        let trouble = self.trouble;
        assert_eq!(
            (first, recorded.missing(), recorded.lost),
            (Some(0), vec![], 0),
            "{trouble:?}: {what}, one row of {every}, of {written}: {last:?}"
        );
        assert!(last.is_some_and(|last| last + 20 > written), "{what}: {last:?} of {written}");
    }
}

/// A row that a recorder has.
#[derive(Clone, Copy, Debug)]
struct Row {
    made: Made,
    /// One row in this many is such a row.
    every: u64,
    number: u64,
}

/// Two lanes that a recorder took at the same time: each has a row between two consecutive rows of the other. A lane that served only
/// for a moment between two rows of a slower lane does not count. A thinned lane counts as the same lane.
fn mixed(came: &BTreeMap<Nanos, Row>) -> Option<[(Nanos, Nanos, Row); 2]> {
    let mut last = BTreeMap::new();
    let mut pairs: Vec<(Nanos, Nanos, Row)> = Vec::new();
    for (place, (time, row)) in came.iter().enumerate() {
        let at = row.number * row.every;
        let Some((known, before, since)) = last.insert(row.made.epoch, (at, place, *time)) else { continue };
        if known + row.every == at && before + 1 != place {
            pairs.push((since, *time, *row));
        }
    }
    let cross = |one: &(Nanos, Nanos, Row), two: &(Nanos, Nanos, Row)| {
        one.2.made.epoch != two.2.made.epoch && one.0 < two.0 && two.0 < one.1 && one.1 < two.1
    };
    pairs.iter().find_map(|one| Some([*one, *pairs.iter().find(|two| cross(one, two))?]))
}

/// The lane whose rows a reader has under this epoch, and how many rows of the lane become one row
/// there.
fn its_lane(made: &[Made], epoch: u64, period: Nanos) -> Option<(Made, u64)> {
    made.iter().find_map(|made| {
        let ways = [1, every(period, made.period), every(Nanos::SECOND, made.period)];
        let is_it = |every: &u64| epoch == if *every == 1 { made.epoch } else { thinned(made.epoch, *every) };
        Some((*made, ways.into_iter().find(is_it)?))
    })
}
