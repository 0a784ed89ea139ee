//! A lane of a simulated node: everything that was ever written into it, and its writer. To the link it is like a ring.
//! Each value follows from node, series and time, so that every arriving value can be checked on its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use khz_block::{Encoder, HEADER_BYTES, SchemaEncoder};
use khz_link::{InterestFrame, Lane, Overtaken};
use khz_model::{ChannelTerms, Nanos, Pattern, Series, Stamp};

use super::random::mix;

/// A channel without readers continues for this long, until the next hub has it.
pub const CHANNEL_LINGER: Nanos = Nanos::from_secs(3);

/// The seed of all values of a node's series.
pub fn seed(node: &str, series: &Series) -> u64 {
    format!("{node}:{series}").bytes().fold(7, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// The value at that time; some change seldom.
pub fn value(seed: u64, boot: Nanos) -> u64 {
    let step = [1, 1_000_000_000, 3_000_000_000][(seed % 3) as usize];
    mix(seed ^ (boot.0 / step)) >> (seed % 50)
}

/// Whether a channel has a row at this tick: now and then, as its handler and the node have it.
pub fn is_sent(node: &str, channel: &ChannelTerms, tick: Nanos) -> bool {
    let salt = channel.handler.iter().fold(3, |hash, &byte| mix(hash ^ u64::from(byte)));
    let salt = node.bytes().fold(salt, |hash, byte| mix(hash ^ u64::from(byte)));
    mix(salt ^ tick.0).is_multiple_of([2, 7, 40][(salt % 3) as usize])
}

#[derive(Debug, Default)]
struct Tape {
    bytes: Vec<u8>,
    /// Where the newest block begins.
    newest: usize,
    /// The schema of each generation, newest last.
    schemas: Vec<(u32, Vec<u8>)>,
}

/// A lane as the link sees it.
#[derive(Clone, Debug)]
pub struct TapeLane {
    pub epoch: u64,
    name: Rc<str>,
    period: Nanos,
    is_regular: bool,
    tape: Rc<RefCell<Tape>>,
}

impl Lane for TapeLane {
    fn id(&self) -> u64 {
        self.epoch
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn epoch(&self) -> u64 {
        self.epoch
    }
    fn generation(&self) -> u32 {
        self.tape.borrow().schemas.last().map_or(1, |(generation, _)| *generation)
    }
    fn period(&self) -> Nanos {
        self.period
    }
    fn is_regular(&self) -> bool {
        self.is_regular
    }
    fn head(&self) -> u64 {
        self.tape.borrow().bytes.len() as u64
    }
    fn oldest(&self) -> u64 {
        0
    }
    fn newest(&self) -> u64 {
        self.tape.borrow().newest as u64
    }
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        let tape = self.tape.borrow();
        let rest = tape.bytes.get(from as usize..).ok_or(Overtaken)?;
        let piece = &rest[..rest.len().min(most)];
        out.extend_from_slice(piece);
        Ok(piece.len())
    }
    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        let tape = self.tape.borrow();
        tape.schemas.iter().find(|(known, _)| *known == generation).map(|(_, bytes)| bytes.len() as u64)
    }
    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        let tape = self.tape.borrow();
        let (_, bytes) = tape.schemas.iter().find(|(known, _)| *known == generation)?;
        let rest = bytes.get(from as usize..)?;
        let piece = &rest[..rest.len().min(most)];
        out.extend_from_slice(piece);
        Some(piece.len())
    }
}

/// The writing side of a lane.
pub struct Writer {
    pub lane: TapeLane,
    /// It lives as long as one of these interests.
    pub is_opened: bool,
    pub interests: Vec<u32>,
    /// What it computes; such a lane lives on for a while after its last interest.
    channel: Option<Arc<ChannelTerms>>,
    left: Nanos,
    patterns: Vec<Pattern>,
    node: Rc<str>,
    encoder: Encoder,
    schema: SchemaEncoder,
    /// How many of the node's series were looked at, and what the values of the lane's own follow from.
    looked: usize,
    seeds: Vec<u64>,
    generation: u32,
    /// When its first row was due.
    pub first: Nanos,
    due: Nanos,
}

impl Writer {
    /// A lane with its first row at the next multiple of its period.
    pub fn new(
        node: &Rc<str>,
        name: &str,
        epoch: u64,
        period: Nanos,
        patterns: Vec<Pattern>,
        now: Nanos,
    ) -> Self {
        let tape = Rc::new(RefCell::new(Tape { schemas: vec![(1, Vec::new())], ..Tape::default() }));
        Writer {
            lane: TapeLane { epoch, name: name.into(), period, is_regular: true, tape },
            is_opened: false,
            interests: Vec::new(),
            channel: None,
            left: Nanos(0),
            patterns,
            node: node.clone(),
            encoder: Encoder::new(0, 1, period),
            schema: SchemaEncoder::new(),
            looked: 0,
            seeds: Vec::new(),
            generation: 1,
            first: Nanos(now.0.next_multiple_of(period.0)),
            due: Nanos(now.0.next_multiple_of(period.0)),
        }
    }

    /// It has the rows of a channel.
    pub fn compute(&mut self, channel: Option<Arc<ChannelTerms>>) {
        self.lane.is_regular = channel.is_none();
        self.channel = channel;
    }

    /// Whether it has the rows of an interest, with the channel that this has.
    pub fn serves(
        &self,
        interest: &InterestFrame<'_>,
        channel: Option<&ChannelTerms>,
        patterns: &[Pattern],
    ) -> bool {
        if channel.is_some() || self.channel.is_some() {
            let is_same = self.channel.as_deref() == channel && self.patterns == patterns;
            return is_same && self.lane.period == interest.period;
        }
        let is_fit = self.is_opened || !interest.exact;
        is_fit
            && self.lane.period == interest.period
            && [patterns, &[Pattern::everything()]].contains(&&*self.patterns)
    }

    /// No reader wants it any more.
    pub fn is_over(&self) -> bool {
        self.is_opened && self.interests.is_empty()
    }

    /// True while a reader has it. A channel continues without readers.
    pub fn is_shown(&self) -> bool {
        !self.is_over()
    }

    /// An interest ends.
    pub fn dismiss(&mut self, number: u32, now: Nanos) {
        let had = self.interests.len();
        self.interests.retain(|&known| known != number);
        if self.interests.len() < had {
            self.left = now;
        }
    }

    /// It closes: a channel does so a while after its last interest.
    pub fn is_gone(&self, now: Nanos) -> bool {
        self.is_over() && (self.channel.is_none() || now.since(self.left) > CHANNEL_LINGER)
    }

    /// Takes in what the node has and this lane has not: before the block that has it.
    pub fn grow(&mut self, series: &[Series]) {
        let news = &series[self.looked..];
        self.looked = series.len();
        let mut tape = self.lane.tape.borrow_mut();
        let Some((_, bytes)) = tape.schemas.last_mut() else { return };
        for one in news.iter().filter(|one| one.is_selected(&self.patterns)) {
            self.schema.append(one, bytes).expect("room in the schema");
            self.seeds.push(seed(&self.node, one));
        }
    }

    /// Writes the rows that are due.
    pub fn write(&mut self, now: Nanos, series: &[Series], real_offset: i64) {
        while self.due <= now {
            self.grow(series);
            let stamp = Stamp { boot: self.due, real_offset };
            let is_sent = |channel: &Arc<ChannelTerms>| {
                !self.seeds.is_empty() && is_sent(&self.node, channel, self.due)
            };
            if !self.channel.as_ref().is_none_or(is_sent) {
                self.due = Nanos(self.due.0 + self.lane.period.0);
                continue;
            }
            if self.encoder.slots() != self.seeds.len() || self.encoder.wants_new_block(stamp) {
                self.close();
            }
            let seeds = &self.seeds;
            let reading = |slot: usize| (0, value(seeds[slot], stamp.boot));
            let mut tape = self.lane.tape.borrow_mut();
            let mut bytes = Vec::new();
            if self.encoder.rows_open() == 0 {
                self.encoder.key_row(stamp, seeds.len(), reading, &mut bytes);
                tape.newest = tape.bytes.len();
            } else {
                self.encoder.delta_row(stamp, 0..seeds.len(), reading, &mut bytes);
            }
            tape.bytes.extend_from_slice(&bytes);
            drop(tape);
            self.due = Nanos(self.due.0 + self.lane.period.0);
        }
    }

    /// The open block is complete.
    pub fn close(&mut self) {
        let Some(header) = self.encoder.close() else { return };
        let mut tape = self.lane.tape.borrow_mut();
        let at = tape.newest;
        tape.bytes[at..at + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }

    /// Another generation of slots begins in the same ring: some were given back, or the program was started again.
    pub fn renew(&mut self) {
        self.close();
        self.generation += 1;
        self.encoder.resume(self.encoder.rows(), self.generation);
        (self.schema, self.looked, self.seeds) = (SchemaEncoder::new(), 0, Vec::new());
        self.lane.tape.borrow_mut().schemas.push((self.generation, Vec::new()));
    }

    /// Rows written.
    pub fn rows(&self) -> u64 {
        self.encoder.rows()
    }
}
