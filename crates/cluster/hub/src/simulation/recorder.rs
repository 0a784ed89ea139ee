//! A recorder, as `khz record` is one: it wants each row since it came, also late rows, at its own rate, and moves between hubs.
//! Whatever happens, its rows of a node come from one lane, and each row comes once.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_block::{Decoder, Step};
use khz_link::{Accept, Ask, Identity, LaneKey, LaneOffer, LaneSink, Ranges, ReaderEnd, Role, Told};
use khz_model::Nanos;

use super::random::Random;
use super::wire::Shared;

/// What came of a lane, whatever the connection.
#[derive(Default)]
pub struct Recorded {
    /// When each row was gathered.
    pub rows: BTreeMap<u64, Nanos>,
    /// Rows that came or are lost.
    settled: Ranges,
    pub lost: u64,
}

impl Recorded {
    /// Rows between the first and the last that neither came nor are lost.
    pub fn missing(&self) -> Vec<(u64, u64)> {
        self.settled.holes(self.settled.start().unwrap_or(0), self.settled.end())
    }
}

/// What it has recorded.
#[derive(Default)]
pub struct Recording {
    /// By node and epoch.
    pub lanes: BTreeMap<(String, u64), Recorded>,
}

impl LaneSink for Recording {
    fn wants_missed(&self) -> bool {
        true
    }

    fn offered(&mut self, _: &LaneKey, _: &LaneOffer<'_>) -> Option<Accept> {
        Some(Accept::default())
    }

    fn schema(&mut self, _: &LaneKey, _: u32, _: u64, _: &[u8]) {}

    fn row(&mut self, _: &LaneKey, _: u64, _: &Decoder) {}

    fn block(&mut self, lane: &LaneKey, block: &[u8]) {
        let recorded = self.lanes.entry((lane.node.clone(), lane.epoch)).or_default();
        let (mut decoder, mut rest) = (Decoder::new(), block);
        while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
            rest = &rest[length..];
            if let Step::Row(_) = step {
                let row = decoder.next_row() - 1;
                let new = recorded.settled.add(row, row + 1);
                assert_eq!(new, 1, "row {row} of {lane:?} came twice, or was lost");
                recorded.rows.insert(row, decoder.stamp().boot);
            }
        }
    }

    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64) {
        let recorded = self.lanes.entry((lane.node.clone(), lane.epoch)).or_default();
        recorded.lost += recorded.settled.add(from, to);
    }

    fn answered(&mut self, told: &Told<'_>) {
        assert!(told.granted, "{}", told.text);
    }

    fn closed(&mut self, _: &LaneKey) {}
}

/// The recorder.
pub struct Recorder {
    pub recording: Recording,
    pub hub: usize,
    pub period: Nanos,
    /// When it began.
    pub begun: Nanos,
    /// It has several hubs, and goes from one to another.
    pub moves: bool,
    name: String,
    identity: Arc<Identity>,
    end: ReaderEnd,
    wire: Option<Shared>,
    is_subscribed: bool,
    out: Vec<u8>,
}

impl Recorder {
    /// One that is to be at this hub.
    pub fn new(hub: usize, period: Nanos, number: u8, now: Nanos) -> Self {
        let name = format!("recorder{number}");
        let identity = Arc::new(Identity {
            role: Role::Reader,
            name: name.clone(),
            machine: [0; 16],
            boot: [0; 16],
            started: 1,
            start_nonce: 1,
            program: "test".into(),
            prove: None,
        });
        let end = ReaderEnd::new(identity.clone(), now).among_hubs();
        Recorder {
            recording: Recording::default(),
            hub,
            period,
            begun: now,
            moves: true,
            name,
            identity,
            end,
            wire: None,
            is_subscribed: false,
            out: Vec::new(),
        }
    }

    /// The same with this hub only.
    pub fn staying(hub: usize, period: Nanos, number: u8, now: Nanos) -> Self {
        let recorder = Recorder::new(hub, period, number, now);
        Recorder { end: ReaderEnd::new(recorder.identity.clone(), now), moves: false, ..recorder }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True while it has no connection.
    pub fn is_alone(&self) -> bool {
        self.wire.is_none()
    }

    /// A connection was established.
    pub fn connect(&mut self, wire: Shared, now: Nanos) {
        self.end.reconnected(now);
        (self.wire, self.is_subscribed) = (Some(wire), false);
        self.out.clear();
    }

    /// The connection breaks; the next one is to this hub.
    pub fn go_to(&mut self, hub: usize) {
        self.hub = hub;
        if let Some(wire) = self.wire.take() {
            wire.borrow_mut().is_cut = true;
            self.end.cut(&mut self.recording);
        }
    }

    /// Takes the bytes that have come, and sends what is due. `false`: the hub is silent.
    pub fn turn(&mut self, now: Nanos, lag: Nanos, random: &mut Random) -> bool {
        let Some(wire) = self.wire.clone() else { return true };
        if wire.borrow().is_cut {
            self.go_to(self.hub);
            return true;
        }
        loop {
            let Some(bytes) = wire.borrow_mut().from_hub.read(now) else { break };
            let taken = self.end.receive(&bytes, now, now.0 as i64, &mut self.recording, &mut self.out);
            taken.expect("a recorder is not refused and refuses nothing");
        }
        if self.end.poll(now, now.0 as i64, &mut self.out).is_err() {
            return false;
        }
        if self.end.is_welcome() && !std::mem::replace(&mut self.is_subscribed, true) {
            let ask = Ask { number: 1, period: self.period, patterns: &["*"], ..Ask::default() };
            self.end.ask(&ask, &mut self.out);
        }
        wire.borrow_mut().to_hub.write(&mut self.out, now, lag, random);
        true
    }
}
