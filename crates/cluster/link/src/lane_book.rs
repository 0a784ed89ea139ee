//! The lanes of this node on one connection. A lane is offered under a number, offered again when it has changed, and
//! closed when it is gone and all its rows were sent.

use khz_model::Nanos;
use ring::digest;

use crate::lane_sender::{LaneSender, Progress, Sent};
use crate::limits::{LANES_MAX, PIECE, VERSION_OF_TYPES};
use crate::message::{LaneOffer, schema_hash};
use crate::older::Older;
use crate::put;
use crate::ring_walk;
use crate::source::{Answer, Lane, Lanes};

/// What a lane's last offer contained; if it changes, the lane is offered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offered {
    generation: u32,
    period: Nanos,
    schema_bytes: u64,
    interest: u32,
}

/// One lane.
#[derive(Debug)]
pub(crate) struct Entry<L> {
    pub lane: L,
    pub number: u32,
    offered: Offered,
    /// It was offered with several generations on this connection.
    is_renewed: bool,
    pub sender: Option<LaneSender>,
    /// What the peer gets of the lane, if the peer speaks an older version.
    pub older: Option<Older>,
    /// The node no longer has it.
    gone: bool,
}

impl<L> Entry<L> {
    /// The generation that a Want refers to when it says how much of the schema the peer has; `None`: the Want may
    /// answer an offer with another generation, and says nothing.
    pub fn wanted_generation(&self) -> Option<u32> {
        (!self.is_renewed).then_some(self.offered.generation)
    }
}

/// All lanes of a connection.
#[derive(Debug)]
pub(crate) struct LaneBook<L> {
    pub entries: Vec<Entry<L>>,
    revision: Option<u64>,
    highest: u32,
    /// The counts of lanes that are closed or left.
    past_counts: Sent,
    pub scratch: Vec<u8>,
    /// The version of the protocol that the peer speaks.
    version: u8,
    /// True if the peer fetches frozen rows.
    takes_frozen: bool,
    left_out: usize,
}

impl<L: Lane> LaneBook<L> {
    pub fn new() -> Self {
        LaneBook {
            entries: Vec::new(),
            revision: None,
            highest: 0,
            past_counts: Sent::default(),
            scratch: Vec::new(),
            version: VERSION_OF_TYPES,
            takes_frozen: false,
            left_out: 0,
        }
    }

    /// The peer speaks this version, and `takes_frozen` says whether it fetches frozen rows. Call this before lanes are
    /// offered.
    pub fn speaks(&mut self, version: u8, takes_frozen: bool) {
        (self.version, self.takes_frozen) = (version, takes_frozen);
    }

    /// The most slots of a lane that the peer was not offered, because it speaks an older version.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// True where there is nothing to offer and nothing to close.
    pub fn is_current(&self, lanes: &impl Lanes<Lane = L>) -> bool {
        self.revision == Some(lanes.revision()) && self.entries.iter().all(|entry| !entry.gone)
    }

    /// Offers lanes that are new or have changed. `answers` has the lanes that are new because of an Interest.
    pub fn refresh(&mut self, lanes: &impl Lanes<Lane = L>, answers: &[Answer], out: &mut Vec<u8>) {
        let revision = lanes.revision();
        if self.revision == Some(revision) {
            return;
        }
        self.revision = Some(revision);
        self.entries.iter_mut().for_each(|entry| entry.gone = true);
        lanes.list(&mut |lane| self.see(lane, answers, out));
    }

    fn see(&mut self, lane: L, answers: &[Answer], out: &mut Vec<u8>) {
        if lane.freeze().is_some() && !self.takes_frozen {
            return;
        }
        // Read only once: another generation may begin at any moment.
        let generation = lane.generation();
        let mut offered = Offered {
            generation,
            period: lane.period(),
            schema_bytes: lane.schema_bytes(generation).unwrap_or(0),
            interest: 0,
        };
        let known = self.entries.iter().position(|entry| entry.lane.id() == lane.id());
        let entry = match known {
            Some(index) => {
                let entry = &mut self.entries[index];
                entry.gone = false;
                offered.interest = entry.offered.interest;
                if entry.offered == offered {
                    return;
                }
                if entry.offered.generation != generation {
                    entry.is_renewed = true;
                    // If the peer knows the new generation from another lane, it has its schema at
                    // once.
                    entry.sender.iter_mut().for_each(|sender| sender.forget_generations());
                }
                (entry.lane, entry.offered) = (lane, offered);
                index
            }
            None if self.entries.len() == LANES_MAX => return,
            None => {
                let answer = answers.iter().find(|answer| answer.lane == Some(lane.id()));
                offered.interest = answer.map_or(0, |answer| answer.interest);
                self.highest += 1;
                self.entries.push(Entry {
                    lane,
                    number: self.highest,
                    offered,
                    is_renewed: false,
                    sender: None,
                    older: (self.version < VERSION_OF_TYPES).then(Older::default),
                    gone: false,
                });
                self.entries.len() - 1
            }
        };
        self.offer(entry, out);
    }

    fn offer(&mut self, index: usize, out: &mut Vec<u8>) {
        let Entry { lane, number, offered, older, .. } = &mut self.entries[index];
        let lane = &*lane;
        let (schema_bytes, digest) = match older {
            None => (offered.schema_bytes, digest_in_ring(lane, offered, &mut self.scratch)),
            Some(older) => {
                self.left_out = self.left_out.max(older.left_out(lane, offered.generation));
                let schema = older.schema(lane, offered.generation).unwrap_or_default();
                (schema.len() as u64, digest::digest(&digest::SHA256, schema))
            }
        };
        let oldest = ring_walk::header(lane, lane.oldest(), &mut self.scratch);
        let next_row = ring_walk::next_row(lane, &mut self.scratch);
        let offer = LaneOffer {
            lane: *number,
            node: "",
            name: lane.name(),
            epoch: lane.epoch(),
            generation: offered.generation,
            period: offered.period,
            interest: offered.interest,
            oldest_row: oldest.map_or(next_row, |header| header.first_row.min(next_row)),
            next_row,
            schema_bytes,
            schema_hash: schema_hash(digest),
            stands_in: false,
        };
        offer.put(out);
    }

    /// The lane with this number; `Err` if no lane ever had it.
    pub fn numbered(&mut self, number: u32) -> Result<Option<&mut Entry<L>>, ()> {
        if number == 0 || number > self.highest {
            return Err(());
        }
        Ok(self.entries.iter_mut().find(|entry| entry.number == number))
    }

    /// The number under which a lane was offered; 0: it was not.
    pub fn number_of(&self, id: Option<u64>) -> u32 {
        let entry = self.entries.iter().find(|entry| Some(entry.lane.id()) == id);
        entry.map_or(0, |entry| entry.number)
    }

    /// Closes lanes that are gone, as soon as all their rows were sent.
    pub fn close_gone(&mut self, out: &mut Vec<u8>) {
        let mut counts = self.past_counts;
        let scratch = &mut self.scratch;
        self.entries.retain_mut(|entry| {
            if !entry.gone {
                return true;
            }
            if let Some(sender) = &mut entry.sender {
                sender.release(&entry.lane);
                if sender.live(&entry.lane, &mut entry.older, scratch, out) == Progress::Full
                    || sender.past_began().is_some()
                {
                    return true;
                }
                sender.lost(out);
                counts = counts.and(sender.counts);
            }
            put::closed(out, entry.number);
            false
        });
        self.past_counts = counts;
    }

    /// The peer leaves the lane. Returns the lane's id if the peer had requested it.
    pub fn leave(&mut self, number: u32) -> Option<u64> {
        let entry = self.entries.iter_mut().find(|entry| entry.number == number)?;
        let sender = entry.sender.take()?;
        self.past_counts = self.past_counts.and(sender.counts);
        Some(entry.lane.id())
    }

    /// The counts of this connection.
    pub fn counts(&self) -> Sent {
        let senders = self.entries.iter().filter_map(|entry| entry.sender.as_ref());
        senders.fold(self.past_counts, |sum, sender| sum.and(sender.counts))
    }
}

/// The SHA-256 of the schema in the ring.
fn digest_in_ring<L: Lane>(lane: &L, offered: &Offered, scratch: &mut Vec<u8>) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut at = 0;
    while at < offered.schema_bytes {
        scratch.clear();
        let most = PIECE.min((offered.schema_bytes - at) as usize);
        match lane.schema(offered.generation, at, most, scratch) {
            Some(copied) if copied > 0 => at += copied as u64,
            _ => break,
        }
        context.update(scratch);
    }
    context.finish()
}
