//! A reader that judges the rows: each comes once and is right, or is lost; only rows that neither node nor hub has are lost.

use std::collections::{BTreeMap, BTreeSet};

use khz_block::{Decoder, HEADER_BYTES, Step};
use khz_link::{Accept, LaneKey, LaneOffer, LaneSink, Told};
use khz_model::Nanos;

/// The rows of the lanes of one epoch.
#[derive(Default)]
pub struct Record {
    /// The node's number of each row, by the reader's number.
    pub rows: BTreeMap<u64, u64>,
    pub lost: BTreeSet<u64>,
    pub is_over: bool,
    /// The lane was offered on the present connection.
    pub is_offered: bool,
    pub period: Nanos,
}

impl Record {
    /// The first number between two received ones that was neither received nor lost.
    pub fn missing(&self) -> Option<u64> {
        let (&first, &last) = (self.rows.keys().next()?, self.rows.keys().next_back()?);
        (first..last).find(|number| !self.rows.contains_key(number) && !self.lost.contains(number))
    }

    pub fn end(&self) -> u64 {
        self.rows.keys().next_back().map_or(0, |last| last + 1)
    }
}

pub struct Sink {
    /// It wants every row, late or not.
    pub wants_missed: bool,
    pub records: BTreeMap<u64, Record>,
    /// Rows that were handed over as they came, of blocks that may not have ended.
    pub shown: BTreeMap<u64, BTreeSet<u64>>,
    /// The hub has forgotten the node: it closes the lane that it has offered, and does not report missing rows.
    pub is_forgotten: bool,
}

impl Sink {
    pub fn new(wants_missed: bool) -> Self {
        Sink { wants_missed, records: BTreeMap::new(), shown: BTreeMap::new(), is_forgotten: false }
    }

    /// Another connection begins, without lanes.
    pub fn reconnected(&mut self) {
        self.records.values_mut().for_each(|record| record.is_offered = false);
        self.is_forgotten = false;
    }

    /// Another lane is offered instead of this one: its missing rows stay missing.
    pub fn is_replaced(&self, epoch: u64) -> bool {
        !self.records[&epoch].is_offered && self.records.values().any(|record| record.is_offered)
    }
}

impl LaneSink for Sink {
    fn wants_missed(&self) -> bool {
        self.wants_missed
    }

    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        let record = self.records.entry(lane.epoch).or_default();
        (record.is_over, record.is_offered, record.period) = (false, true, offer.period);
        Some(Accept { span: Nanos(0), prompt: false, from: None, held: None })
    }

    fn schema(&mut self, _: &LaneKey, _: u32, _: u64, _: &[u8]) {}

    fn row(&mut self, lane: &LaneKey, number: u64, _: &Decoder) {
        let is_new = self.shown.entry(lane.epoch).or_default().insert(number);
        assert!(is_new, "row {number} of {} was shown twice", lane.epoch);
        assert!(!self.records[&lane.epoch].lost.contains(&number), "a lost row is shown");
    }

    fn block(&mut self, lane: &LaneKey, bytes: &[u8]) {
        let record = self.records.entry(lane.epoch).or_default();
        let (mut decoder, mut at) = (Decoder::new(), 0);
        while at < bytes.len() {
            match decoder.step(&bytes[at..]).expect("a sound block") {
                Step::Header(length) => at += length,
                Step::Row(length) => {
                    at += length;
                    let number = decoder.next_row() - 1;
                    let row = decoder.reading(0).and_then(|reading| reading.value()).expect("its number");
                    for slot in 1..decoder.slots() {
                        let value = decoder.reading(slot).and_then(|reading| reading.value());
                        // Slots that came later are not there yet.
                        let is_right = value.map_or(slot >= 4, |value| value == row / (1 + slot as u64));
                        assert!(is_right, "row {row}, slot {slot}: {value:?}");
                    }
                    let before = record.rows.insert(number, row);
                    assert_eq!(before, None, "row {number} of {} came twice", lane.epoch);
                    assert!(!record.lost.contains(&number), "row {number} of {} was lost", lane.epoch);
                }
                Step::Incomplete => panic!("a block that is cut off"),
            }
        }
        assert!(bytes.len() > HEADER_BYTES);
    }

    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64) {
        assert!(to - from < 1_000_000, "{from}..{to} lost of {}", lane.epoch);
        let record = self.records.entry(lane.epoch).or_default();
        for number in from..to {
            assert!(!record.rows.contains_key(&number), "row {number} of {} is there", lane.epoch);
            record.lost.insert(number);
        }
    }

    fn answered(&mut self, told: &Told<'_>) {
        assert!(told.granted, "{}", told.text);
    }

    fn closed(&mut self, lane: &LaneKey) {
        let record = self.records.entry(lane.epoch).or_default();
        (record.is_over, record.is_offered) = (true, record.is_offered && !self.is_forgotten);
        self.is_forgotten = false;
    }
}
