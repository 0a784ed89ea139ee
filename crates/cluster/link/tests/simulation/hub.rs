//! A hub that records everything and judges it: values, checksums, order, what came twice and what was lost.

use std::collections::{BTreeMap, HashMap};

use khz_block::{Decoder, HEADER_BYTES, Header, Step};
use khz_link::limits::GENERATIONS_MAX;
use khz_link::{
    Acks, Ask, Beat, End, Hello, HubEnd, HubEndConfig, HubSide, Intake, LaneOffer, LinkError, Reject,
    RowSink, SchemaPiece, Told, Verdict, Want,
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
}

impl Hub {
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

    fn lost(&mut self, from: u64, to: u64) {
        self.lost.push((from, to));
    }
}

impl Side<'_> {
    fn record<T>(
        &mut self,
        lane: u32,
        take: impl FnOnce(&mut Intake, &mut Judge<'_>) -> Result<T, Reject>,
    ) -> Result<Option<T>, Reject> {
        let Some(&epoch) = self.talk.lanes.get(&lane) else { return Ok(None) };
        let Hub { records, rows_live, damaged, .. } = &mut *self.hub;
        let Some(Record { intake, blocks, lost, newest, schemas }) = records.get_mut(&epoch) else {
            return Ok(None);
        };
        let mut judge = Judge { epoch, blocks, lost, newest, schemas, rows_live, damaged: *damaged };
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
        let meaning = meaning(epoch, generation);
        assert!((offset..).zip(bytes).all(|(at, &byte)| byte == schema_byte(meaning, at)));
        if let Some(record) = self.hub.records.get_mut(&epoch) {
            record.piece(generation, offset, bytes.len() as u64);
        }
        Ok(())
    }

    fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
        let header = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
        let epoch = self.talk.lanes.get(&lane);
        let record = epoch.and_then(|epoch| self.hub.records.get(epoch));
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
            if let Some(record) = self.hub.records.get(epoch) {
                let received = record.intake.complete_until();
                acks.push(khz_link::Ack { lane, received, stored: received });
            }
        }
    }
}
