//! A hub that records everything and judges it: values, checksums, order, what came twice and what was lost.

use std::collections::{BTreeMap, HashMap};

use khz_block::{Decoder, HEADER_BYTES, Header, Step};
use khz_link::freeze::{Freeze, Frozen, FrozenState};
use khz_link::frozen;
use khz_link::limits::{GENERATIONS_MAX, HAVE_MAX};
use khz_link::{
    Acks, Ask, Beat, End, Hello, HubEnd, HubEndConfig, HubSide, Intake, LaneOffer, LinkError, Ranges, Reject,
    RowSink, SchemaPiece, Told, Verdict, Want, without_rows,
};
use khz_model::Nanos;

use crate::node::{judge, judge_of_any_lane, meaning, schema_byte};

/// What is recorded of one lane of one epoch.
#[derive(Default)]
pub struct Record {
    pub intake: Intake,
    /// Rows of complete blocks: first row and the row after the last.
    pub blocks: BTreeMap<u64, u64>,
    pub lost: Vec<(u64, u64)>,
    /// The newest row seen, in a block that may be open.
    pub newest: Option<u64>,
    /// Bytes of the schemas of some generations: where there is another, the oldest goes.
    schemas: BTreeMap<u32, u64>,
}

impl Record {
    /// A piece of a schema, which may be said from the start again.
    fn piece(&mut self, generation: u32, offset: u64, length: u64) {
        let here = self.schemas.get(&generation).copied().unwrap_or(0);
        assert!(offset == 0 || offset == here, "a schema with a hole, or twice: {offset} after {here}");
        if here == 0 && self.schemas.len() == GENERATIONS_MAX {
            self.schemas.pop_first();
        }
        self.schemas.insert(generation, offset + length);
    }
}

/// One lane of a freeze.
#[derive(Default)]
struct FrozenRecord {
    record: Record,
    /// Which rows came or are lost.
    settled: Ranges,
}

/// A freeze that was asked for.
pub struct Asked {
    at: Nanos,
    /// What the node says that it keeps.
    pub kept: Option<Frozen>,
    is_refused: bool,
}

/// Every freeze keeps the rows of this time.
pub const BEFORE: Nanos = Nanos::from_secs(3);
pub const AFTER: Nanos = Nanos::from_secs(1);

pub struct Link {
    pub connection: usize,
    pub end: HubEnd,
    pub out: Vec<u8>,
    talk: Talk,
}

/// What came on a connection.
#[derive(Default)]
struct Talk {
    start: (i64, u64),
    is_welcome: bool,
    /// Lanes by number: epoch, and whether a sound one.
    lanes: HashMap<u32, u64>,
    /// Frozen lanes by number: the freeze and the lane's name.
    frozen: HashMap<u32, (u64, String)>,
    next_interest: u32,
}

#[derive(Default)]
pub struct Hub {
    pub identity: u8,
    pub frozen: bool,
    pub dead: bool,
    /// Bytes may be damaged: then only rows are judged.
    pub damaged: bool,
    pub records: HashMap<u64, Record>,
    pub links: Vec<Link>,
    pub rows_live: u64,
    pub cuts: u64,
    newest_start: (i64, u64),
    pub asked: BTreeMap<u64, Asked>,
    /// By freeze, name and epoch: an agent that has started again may have another ring.
    frozen_lanes: BTreeMap<(u64, String, u64), FrozenRecord>,
}

impl Hub {
    /// Asks for a freeze.
    pub fn freeze(&mut self, number: u64, now: Nanos) {
        self.asked.insert(number, Asked { at: now, kept: None, is_refused: false });
        if let Some(Link { end, out, .. }) = self.links.iter_mut().find(|link| link.talk.is_welcome) {
            order(number, now, now).put_with(end, out);
        }
    }

    /// True if every row that the node has kept has come, or is lost.
    pub fn frozen_is_whole(&self) -> bool {
        self.asked.iter().all(|(number, asked)| {
            let Some(kept) = &asked.kept else { return asked.is_refused };
            kept.lanes.iter().all(|lane| {
                let is_it = |(of, name, _): &&(u64, String, u64)| of == number && *name == lane.name;
                let mut records = self.frozen_lanes.iter().filter(|(key, _)| is_it(key));
                records.any(|(_, record)| record.settled.holes(lane.rows.0, lane.rows.1).is_empty())
            })
        })
    }

    pub fn new(identity: u8, damaged: bool) -> Self {
        Hub { identity, damaged, ..Hub::default() }
    }

    pub fn accept(&mut self, connection: usize, now: Nanos) {
        let mut out = Vec::new();
        let config = HubEndConfig::new([self.identity; 16], "hub");
        let end = HubEnd::new(&config, [self.identity ^ 0x55; 32], now, &mut out);
        self.links.push(Link { connection, end, out, talk: Talk::default() });
    }

    /// Takes bytes; `true` when connections are to be closed.
    pub fn receive(&mut self, link: usize, bytes: &[u8], now: Nanos, wall: i64) -> Result<(), LinkError> {
        let mut link_here = self.links.remove(link);
        let Link { end, out, talk, .. } = &mut link_here;
        let was_welcome = talk.is_welcome;
        let result = end.receive(bytes, now, wall, &mut Side { hub: self, talk }, out);
        if talk.is_welcome && !was_welcome {
            // The same machine with a start that is not older: its earlier connections are over.
            self.newest_start = talk.start;
            for older in &mut self.links {
                older.talk.start.0 = i64::MIN;
            }
            for (&number, asked) in &self.asked {
                order(number, asked.at, now).put_with(end, out);
            }
            self.frozen_lanes.values_mut().for_each(|lane| lane.record.intake.cut());
        }
        self.links.insert(link, link_here);
        result
    }

    /// Connections that a newer one of the same machine has superseded.
    pub fn superseded(&mut self) -> Option<usize> {
        self.links.iter().position(|link| link.talk.is_welcome && link.talk.start.0 == i64::MIN)
    }

    pub fn drop_link(&mut self, index: usize) -> usize {
        let link = self.links.remove(index);
        if !self.links.iter().any(|other| other.talk.is_welcome) {
            self.records.values_mut().for_each(|record| record.intake.cut());
        }
        link.connection
    }

    pub fn is_connected(&self) -> bool {
        self.links.iter().any(|link| link.talk.is_welcome)
    }

    /// Asks for a boost lane, or takes the last interest back.
    pub fn ask(&mut self, begin: bool) {
        let Some(Link { end, out, talk, .. }) = self.links.iter_mut().find(|link| link.talk.is_welcome)
        else {
            return;
        };
        if begin {
            talk.next_interest += 1;
            let period = Nanos::from_millis(2);
            let number = talk.next_interest;
            end.interest(
                &Ask { number, period, exact: true, prompt: true, patterns: &["cpu.*"], ..Ask::default() },
                out,
            );
        } else if talk.next_interest > 0 {
            end.dismiss(talk.next_interest, out);
        }
    }
}

/// A Freeze as this hub sends it.
struct Said(Freeze<'static>);

impl Said {
    fn put_with(&self, end: &HubEnd, out: &mut Vec<u8>) {
        end.freeze(&self.0, out);
    }
}

/// The hub's wall clock is its boot clock.
fn order(number: u64, at: Nanos, now: Nanos) -> Said {
    let (age, before, after) = (now.since(at), BEFORE, AFTER);
    Said(Freeze { number, at: at.0 as i64, age, before, after, cause: "a test" })
}

/// Whether it is known what all slots of a block mean.
fn is_described(schemas: &BTreeMap<u32, u64>, block: &Header) -> bool {
    u64::from(block.slots) * 40 <= schemas.get(&block.generation).copied().unwrap_or(0)
}

struct Side<'a> {
    hub: &'a mut Hub,
    talk: &'a mut Talk,
}

struct Judge<'a> {
    epoch: u64,
    blocks: &'a mut BTreeMap<u64, u64>,
    lost: &'a mut Vec<(u64, u64)>,
    newest: &'a mut Option<u64>,
    schemas: &'a BTreeMap<u32, u64>,
    rows_live: &'a mut u64,
    damaged: bool,
    /// Of a frozen lane: the rows that came. It may be copied out of the ring twice.
    settled: Option<&'a mut Ranges>,
}

impl RowSink for Judge<'_> {
    fn row(&mut self, number: u64, row: &Decoder) {
        *self.rows_live += 1;
        if !self.damaged {
            judge(self.epoch, row);
            assert_eq!(row.reading(0).and_then(|reading| reading.value()), Some(number));
            *self.newest = (*self.newest).max(Some(number));
        }
    }

    fn block(&mut self, bytes: &[u8]) {
        match self.settled.take() {
            None => self.judge_block(bytes),
            Some(settled) => {
                for part in without_rows(bytes, settled) {
                    self.judge_block(&part);
                }
                self.settled = Some(settled);
            }
        }
    }

    fn lost(&mut self, from: u64, to: u64) {
        self.lost.push((from, to));
    }
}

impl Judge<'_> {
    fn judge_block(&mut self, bytes: &[u8]) {
        let header = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
        let header = header.expect("a block has a header");
        let (rows, ..) = header.closed.expect("a closed block");
        let (mut decoder, mut at, mut decoded) = (Decoder::new(), 0, 0);
        while at < bytes.len() {
            match decoder.step(&bytes[at..]).expect("a block with a right checksum decodes") {
                Step::Header(length) => at += length,
                Step::Row(length) => {
                    at += length;
                    decoded += 1;
                    match self.damaged {
                        true => judge_of_any_lane(&decoder),
                        false => judge(self.epoch, &decoder),
                    }
                }
                Step::Incomplete => panic!("a block that is cut off"),
            }
        }
        assert!(decoded == rows && bytes.len() > HEADER_BYTES);
        assert!(self.damaged || is_described(self.schemas, &header), "a block before its schema");
        let (from, to) = (header.first_row, header.first_row + u64::from(rows));
        if !self.damaged {
            let before = self.blocks.range(..to).next_back();
            assert!(before.is_none_or(|(_, &end)| end <= from), "rows {from}..{to} came twice");
            self.blocks.insert(from, to);
        }
    }
}

impl Side<'_> {
    /// The record of a frozen lane of this connection.
    fn frozen<T>(
        &mut self,
        lane: u32,
        take: impl FnOnce(&mut Intake, &mut Judge<'_>) -> Result<T, Reject>,
    ) -> Option<Result<T, Reject>> {
        let (number, name) = self.talk.frozen.get(&lane)?;
        let epoch = *self.talk.lanes.get(&lane)?;
        let Hub { frozen_lanes, rows_live, damaged, .. } = &mut *self.hub;
        let FrozenRecord { record, settled } = frozen_lanes.get_mut(&(*number, name.clone(), epoch))?;
        let Record { intake, blocks, lost, newest, schemas } = record;
        let before = *rows_live;
        let (damaged, settled_now) = (*damaged, Some(&mut *settled));
        let mut judge =
            Judge { epoch, blocks, lost, newest, schemas, rows_live, damaged, settled: settled_now };
        let done = take(intake, &mut judge);
        // Rows that were kept are no sign that a hub has taken over.
        *rows_live = before;
        blocks.iter().for_each(|(&from, &to)| _ = settled.add(from, to));
        lost.iter().for_each(|&(from, to)| _ = settled.add(from, to));
        Some(done)
    }

    fn record<T>(
        &mut self,
        lane: u32,
        take: impl FnOnce(&mut Intake, &mut Judge<'_>) -> Result<T, Reject>,
    ) -> Result<Option<T>, Reject> {
        if self.talk.frozen.contains_key(&lane) {
            return self.frozen(lane, take).transpose();
        }
        let Some(&epoch) = self.talk.lanes.get(&lane) else { return Ok(None) };
        let Hub { records, rows_live, damaged, .. } = &mut *self.hub;
        let Some(Record { intake, blocks, lost, newest, schemas }) = records.get_mut(&epoch) else {
            return Ok(None);
        };
        let (damaged, settled) = (*damaged, None);
        let mut judge = Judge { epoch, blocks, lost, newest, schemas, rows_live, damaged, settled };
        take(intake, &mut judge).map(Some)
    }
}

impl HubSide for Side<'_> {
    fn hello(&mut self, hello: &Hello<'_>, _: &[u8; 32]) -> Verdict {
        let start = (hello.started, hello.start_nonce);
        if start < self.hub.newest_start && !self.hub.damaged {
            let text = "an older start".to_owned();
            return Verdict::Refuse(Reject { reason: khz_link::Reason::Superseded, text });
        }
        (self.talk.start, self.talk.is_welcome) = (start, true);
        self.hub.records.values_mut().for_each(|record| record.intake.cut());
        Verdict::Welcome
    }

    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        let known = self.talk.lanes.insert(offer.lane, offer.epoch).is_some();
        if let Some((number, name)) = frozen::of_name(offer.name) {
            self.talk.frozen.insert(offer.lane, (number, name.to_owned()));
            let key = (number, name.to_owned(), offer.epoch);
            let lane = self.hub.frozen_lanes.entry(key).or_insert_with(|| FrozenRecord {
                record: Record { intake: Intake::new(offer.epoch), ..Record::default() },
                settled: Ranges::default(),
            });
            let want = lane.record.intake.want(offer, Nanos(u64::MAX), false);
            let have = lane.settled.as_slice().iter().rev().take(HAVE_MAX).rev().copied().collect();
            let is_asked = self.hub.asked.contains_key(&number);
            return Ok((!known && is_asked).then_some(Want { from_row: offer.oldest_row, have, ..want }));
        }
        let new = || Record { intake: Intake::new(offer.epoch), ..Record::default() };
        let record = self.hub.records.entry(offer.epoch).or_insert_with(new);
        let prompt = offer.interest != 0;
        Ok((!known).then(|| record.intake.want(offer, Nanos(u64::MAX), prompt)))
    }

    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Result<(), Reject> {
        let SchemaPiece { lane, generation, offset, bytes } = *piece;
        let known = self.record(lane, |intake, _| intake.schema(generation, offset, bytes.len()))?;
        if self.hub.damaged || known.is_none_or(|known| known > 0) {
            return Ok(());
        }
        let Some(&epoch) = self.talk.lanes.get(&lane) else { return Ok(()) };
        let frozen = self.talk.frozen.get(&lane).cloned();
        let meaning = meaning(epoch, generation);
        assert!((offset..).zip(bytes).all(|(at, &byte)| byte == schema_byte(meaning, at)));
        let record = match frozen {
            Some((number, name)) => {
                self.hub.frozen_lanes.get_mut(&(number, name, epoch)).map(|lane| &mut lane.record)
            }
            None => self.hub.records.get_mut(&epoch),
        };
        if let Some(record) = record {
            record.piece(generation, offset, bytes.len() as u64);
        }
        Ok(())
    }

    fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
        let header = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
        let epoch = self.talk.lanes.get(&lane);
        let is_live = !self.talk.frozen.contains_key(&lane);
        let record = epoch.filter(|_| is_live).and_then(|epoch| self.hub.records.get(epoch));
        if let (Some(header), Some(record), false) = (header, record, self.hub.damaged) {
            assert!(is_described(&record.schemas, &header), "a block before its schema");
        }
        self.record(lane, |intake, judge| intake.begin(bytes, judge)).map(drop)
    }

    fn rows(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.record(lane, |intake, judge| intake.rows(bytes, judge)).map(drop)
    }

    fn end(&mut self, end: &End) -> Result<(), Reject> {
        self.record(end.lane, |intake, judge| intake.end(end, judge)).map(drop)
    }

    fn past(&mut self, lane: u32, last: bool, bytes: &[u8]) -> Result<(), Reject> {
        self.record(lane, |intake, judge| intake.past(last, bytes, judge)).map(drop)
    }

    fn lost(&mut self, lane: u32, from: u64, to: u64) -> Result<(), Reject> {
        let taken = self.record(lane, |intake, judge| {
            intake.lost(from, to, judge);
            Ok(())
        });
        taken.map(drop)
    }

    fn closed(&mut self, lane: u32) -> Result<(), Reject> {
        self.talk.lanes.remove(&lane);
        self.talk.frozen.remove(&lane);
        Ok(())
    }

    fn frozen(&mut self, frozen: &Frozen) -> Result<(), Reject> {
        if let Some(asked) = self.hub.asked.get_mut(&frozen.number) {
            match frozen.state {
                FrozenState::Kept => asked.kept = Some(frozen.clone()),
                FrozenState::Refused => asked.is_refused = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn told(&mut self, told: &Told<'_>) -> Result<Option<Want>, Reject> {
        if !self.hub.damaged {
            assert_eq!(told.granted, told.lane != 0);
            assert!(told.granted || !told.text.is_empty() || told.interest < self.talk.next_interest);
        }
        Ok(None)
    }

    fn beat(&mut self, _: &Beat, acks: &mut Acks<'_>) {
        for (&lane, epoch) in &self.talk.lanes {
            let is_live = !self.talk.frozen.contains_key(&lane);
            if let Some(record) = self.hub.records.get(epoch).filter(|_| is_live) {
                let received = record.intake.complete_until();
                acks.push(khz_link::Ack { lane, received, stored: received });
            }
        }
    }
}
