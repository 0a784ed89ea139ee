//! A hub's end that hears anything, in pieces of any size: it answers or ends the connection with a reason, keeps no
//! more than a frame, and what it hands to a receiver of rows is taken or refused.

#![no_main]

use std::collections::HashMap;

use khz_block::Decoder;
use khz_link::limits::{FRAME_MAX, HELLO_MAX};
use khz_link::texts::{ReadFrame, TextIntake, TextPiece};
use khz_link::{
    Acks, Beat, End, Hello, HubEnd, HubEndConfig, HubSide, Intake, InterestFrame, LaneOffer, Reject, Role, RowSink,
    SchemaPiece, Told, Verdict, Want, WantFrame,
};
use khz_model::Nanos;

#[derive(Default)]
struct Hub {
    lanes: HashMap<u32, Intake>,
    texts: HashMap<u32, TextIntake>,
    welcome: bool,
}

struct Rows;

impl RowSink for Rows {
    fn row(&mut self, _: u64, row: &Decoder) {
        assert!(row.changed().iter().all(|&slot| (slot as usize) < row.slots()));
    }
    fn block(&mut self, bytes: &[u8]) {
        assert!(bytes.len() >= khz_block::HEADER_BYTES);
    }
    fn lost(&mut self, from: u64, to: u64) {
        assert!(from < to);
    }
}

impl Hub {
    fn with(&mut self, lane: u32, take: impl FnOnce(&mut Intake) -> Result<(), Reject>) -> Result<(), Reject> {
        assert!(self.welcome);
        self.lanes.get_mut(&lane).map_or(Ok(()), take)
    }
}

impl HubSide for Hub {
    fn hello(&mut self, _: &Hello<'_>, _: &[u8; 32]) -> Verdict {
        self.welcome = true;
        Verdict::Welcome
    }
    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        if self.lanes.len() == 16 {
            return Err(Reject::protocol("too many lanes"));
        }
        let intake = self.lanes.entry(offer.lane).or_insert_with(|| Intake::new(offer.epoch));
        Ok(Some(intake.want(offer, Nanos(u64::MAX), false)))
    }
    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Result<(), Reject> {
        self.with(piece.lane, |intake| {
            intake.schema(piece.generation, piece.offset, piece.bytes.len()).map(|_| ())
        })
    }
    fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.with(lane, |intake| intake.begin(bytes, &mut Rows))
    }
    fn rows(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.with(lane, |intake| intake.rows(bytes, &mut Rows))
    }
    fn end(&mut self, end: &End) -> Result<(), Reject> {
        self.with(end.lane, |intake| intake.end(end, &mut Rows))
    }
    fn past(&mut self, lane: u32, last: bool, bytes: &[u8]) -> Result<(), Reject> {
        self.with(lane, |intake| intake.past(last, bytes, &mut Rows))
    }
    fn lost(&mut self, lane: u32, from: u64, to: u64) -> Result<(), Reject> {
        self.with(lane, |intake| {
            intake.lost(from, to, &mut Rows);
            Ok(())
        })
    }
    fn closed(&mut self, lane: u32) -> Result<(), Reject> {
        self.lanes.remove(&lane);
        Ok(())
    }
    fn told(&mut self, _: &Told<'_>) -> Result<Option<Want>, Reject> {
        Ok(Some(Want::default()))
    }
    fn beat(&mut self, _: &Beat, acks: &mut Acks<'_>) {
        for (&lane, intake) in &self.lanes {
            let received = intake.complete_until();
            acks.push(khz_link::Ack { lane, received, stored: received });
        }
    }
    fn text(&mut self, piece: &TextPiece<'_>) -> Result<(), Reject> {
        assert!(self.welcome);
        if self.texts.len() == 16 {
            self.texts.clear();
        }
        self.texts.entry(piece.number).or_default().take(piece).map(|_| ()).map_err(Reject::from)
    }
    fn read(&mut self, wish: &ReadFrame<'_>) -> Result<(), Reject> {
        assert!(wish.path.len() <= khz_link::limits::TEXT_PATH_MAX);
        Ok(())
    }
    fn interest(&mut self, interest: &InterestFrame<'_>) -> Result<(), Reject> {
        assert!(interest.patterns().count() <= khz_link::limits::PATTERNS_MAX);
        Ok(())
    }
    fn want(&mut self, want: &WantFrame<'_>) -> Result<(), Reject> {
        assert_eq!(want.to_want().have.len(), want.have().count());
        Ok(())
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&role, rest)) = bytes.split_first() else { return };
    let (mut hub, mut out) = (Hub::default(), Vec::new());
    let mut end = HubEnd::new(&HubEndConfig::new([1; 16], "hub"), [2; 32], Nanos(0), &mut out);
    // Most inputs begin after a good Hello: strangers get no further.
    let role = [None, Some(Role::Node), Some(Role::Reader), Some(Role::Node)][usize::from(role % 4)];
    if let Some(role) = role {
        let mut hello = Vec::new();
        let (machine, boot, program) = ([1; 16], [2; 16], "fuzz");
        let (started, start_nonce, proof) = (1, 2, None);
        Hello { version: 1, role, name: "n1", machine, boot, started, start_nonce, program, proof, abilities: 0 }.put(&mut hello);
        end.receive(&hello, Nanos(1), 1, &mut hub, &mut out).expect("a good Hello");
    }
    // The first byte of each piece is its length.
    let mut rest = rest;
    while let Some((&length, pieces)) = rest.split_first() {
        let (piece, later) = pieces.split_at(pieces.len().min(1 + usize::from(length)));
        out.clear();
        match end.receive(piece, Nanos(2), 2, &mut hub, &mut out) {
            Ok(()) => assert!(end.kept() <= if hub.welcome { FRAME_MAX + 4 } else { HELLO_MAX + 4 }),
            Err(error) => {
                assert!(!error.to_string().is_empty() && end.kept() == 0 && !out.is_empty());
                return;
            }
        }
        rest = later;
    }
});
