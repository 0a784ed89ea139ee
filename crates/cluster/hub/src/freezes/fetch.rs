//! What is fetched of one node for one freeze: its lanes, which of their rows have come, and the connection over which they come.

use std::sync::Arc;

use khz_block::{Decoder, Header};
use khz_link::freeze::{Frozen, FrozenLane};
use khz_link::{End, Intake, LaneOffer, Ranges, Reason, Reject, RowSink, SchemaPiece, Want, without_rows};
use khz_model::Nanos;

use super::{FrozenKey, FrozenNews, Queue};
use crate::limits::SCHEMA_BYTES_MAX;
use crate::mailbox::Command;
use crate::node::Link;

/// A node may send this much more than it has announced: headers of frames, and schemas that it sends again after a cut.
const BYTES_SPARE: u64 = 4 << 20;

/// The rows that one node has kept.
#[derive(Debug, Default)]
pub(super) struct Fetch {
    link: Option<Link>,
    /// What it keeps, as it said on this connection.
    kept: Option<(u64, Frozen)>,
    pub lanes: Vec<FetchedLane>,
    /// It was asked for them on this connection.
    pub is_begun: bool,
    is_whole: bool,
    /// The rows that come now do not reach the caller. All rows are requested again afterwards.
    pub is_wasted: bool,
}

/// The rows of one lane.
#[derive(Debug)]
pub(super) struct FetchedLane {
    pub key: Arc<FrozenKey>,
    pub epoch: u64,
    pub period: Nanos,
    /// The rows that it has.
    pub rows: (u64, u64),
    number: u32,
    /// The generation that was offered.
    generation: u32,
    intake: Intake,
    /// The rows that came or are lost.
    settled: Ranges,
    came: u64,
    most: u64,
}

impl Fetch {
    /// The node offers a lane. Returns the place of the lane.
    pub fn offered(&mut self, link: &Link, key: FrozenKey, offer: &LaneOffer<'_>) -> usize {
        if self.link.as_ref().is_none_or(|known| known.connection() != link.connection()) {
            self.cut();
            self.link = Some(link.clone());
        }
        let place = self.lanes.iter().position(|lane| lane.key.lane == key.lane);
        let place = place.unwrap_or_else(|| {
            self.lanes.push(FetchedLane::new(key));
            self.lanes.len() - 1
        });
        self.lanes[place].offered(offer);
        place
    }

    /// The node says what it keeps.
    pub fn kept(&mut self, connection: u64, frozen: &Frozen) {
        self.kept = Some((connection, frozen.clone()));
    }

    /// True if it can be asked for: everything that it keeps was offered on this connection.
    pub fn is_ready(&self) -> bool {
        let (Some(link), Some((connection, kept))) = (&self.link, &self.kept) else { return false };
        let is_offered = |lane: &FrozenLane| {
            self.lanes.iter().any(|known| known.key.lane == lane.name && known.number > 0)
        };
        let is_said = *connection == link.connection() && kept.lanes.iter().all(is_offered);
        is_said && !self.is_begun && !self.is_whole
    }

    /// Bytes that it keeps.
    pub fn bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |(_, kept)| kept.bytes())
    }

    /// The bytes that were asked for, while they are under way.
    pub fn under_way(&self) -> u64 {
        if self.is_begun { self.bytes() } else { 0 }
    }

    /// Asks for all rows that have not come. Returns the lanes.
    pub fn begin(&mut self) -> &[FetchedLane] {
        self.is_begun = true;
        let kept = self.kept.as_ref().map_or(&[][..], |(_, kept)| &kept.lanes);
        for lane in &mut self.lanes {
            let Some(kept) = kept.iter().find(|kept| kept.name == lane.key.lane) else { continue };
            (lane.rows, lane.most) = (kept.rows, kept.bytes.saturating_add(BYTES_SPARE));
            lane.came = 0;
            if let Some(link) = &self.link {
                link.send(Command::Want { lane: lane.number, want: lane.want() });
            }
        }
        &self.lanes
    }

    /// True once, when everything has come.
    pub fn ends(&mut self) -> bool {
        let is_whole = self.is_begun && self.lanes.iter().all(FetchedLane::is_whole);
        is_whole && !std::mem::replace(&mut self.is_whole, true)
    }

    /// The caller has everything.
    pub fn is_taken(&mut self) {
        (self.is_begun, self.is_whole) = (false, true);
    }

    /// All rows must come again. The rows under way must arrive first, since nobody could tell them
    /// from the others.
    pub fn again(&mut self) {
        if self.is_begun && !self.is_whole {
            self.is_wasted = true;
            return;
        }
        self.forget();
        if let Some(link) = &self.link {
            // The node sends nothing twice unless the lane was left.
            let lanes = self.lanes.iter().filter(|lane| lane.number > 0);
            lanes.for_each(|lane| link.send(Command::Leave { lane: lane.number }));
        }
    }

    fn forget(&mut self) {
        (self.is_begun, self.is_whole, self.is_wasted) = (false, false, false);
        self.lanes.iter_mut().for_each(FetchedLane::forget);
    }

    /// True if it comes over this connection.
    pub fn is_over(&self, connection: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection() == connection)
    }

    /// The connection has ended.
    pub fn cut(&mut self) {
        (self.link, self.is_begun) = (None, false);
        if self.is_wasted {
            self.forget();
        }
        for lane in &mut self.lanes {
            lane.intake.cut();
            lane.number = 0;
        }
    }
}

impl FetchedLane {
    fn new(key: FrozenKey) -> Self {
        FetchedLane {
            key: Arc::new(key),
            epoch: 0,
            period: Nanos(0),
            rows: (0, 0),
            number: 0,
            generation: 0,
            intake: Intake::default(),
            settled: Ranges::default(),
            came: 0,
            most: 0,
        }
    }

    fn offered(&mut self, offer: &LaneOffer<'_>) {
        if self.epoch != offer.epoch {
            // The agent was restarted, and has frozen another ring. Rows that came before are in the
            // recording.
            self.epoch = offer.epoch;
            self.forget();
        }
        (self.number, self.period) = (offer.lane, offer.period);
        self.generation = offer.generation;
    }

    /// Nothing has come.
    fn forget(&mut self) {
        (self.intake, self.settled) = (Intake::new(self.epoch), Ranges::default());
    }

    /// Rows of the lane, however old, without those that have come.
    fn want(&self) -> Want {
        let have = self.settled.as_slice();
        // More ranges than a Want may have: the rows of the oldest ones come again, and are dropped.
        let have = &have[have.len().saturating_sub(khz_link::limits::HAVE_MAX)..];
        Want {
            epoch: self.epoch,
            from_row: self.rows.0,
            span: Nanos(u64::MAX),
            schema_bytes: self.intake.schema_bytes(self.generation),
            prompt: false,
            have: have.to_vec(),
        }
    }

    fn is_whole(&self) -> bool {
        let (from, to) = self.rows;
        self.settled.holes(from, to).is_empty()
    }

    /// A node that sends more than it has announced is broken.
    fn count(&mut self, bytes: usize) -> Result<(), Reject> {
        self.came = self.came.saturating_add(bytes as u64);
        match self.came > self.most {
            true => Err(Reject {
                reason: Reason::Protocol,
                text: "more frozen rows than were announced".to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Gives rows to the intake, and puts those that are new into the caller's queue.
    fn feed(
        &mut self,
        news: &Queue,
        feed: impl FnOnce(&mut Intake, &mut Out<'_>) -> Result<(), Reject>,
    ) -> Result<(), Reject> {
        let FetchedLane { key, intake, settled, .. } = self;
        feed(intake, &mut Out { key, settled, news })
    }

    pub fn schema(&mut self, piece: &SchemaPiece<'_>, news: &Queue) -> Result<(), Reject> {
        self.count(piece.bytes.len())?;
        let end = piece.offset.saturating_add(piece.bytes.len() as u64);
        if end > SCHEMA_BYTES_MAX as u64 {
            let text = "a schema that is larger than a hub takes".to_owned();
            return Err(Reject { reason: Reason::Protocol, text });
        }
        let known = self.intake.schema(piece.generation, piece.offset, piece.bytes.len())?;
        let (bytes, offset) = (&piece.bytes[known..], piece.offset + known as u64);
        if !bytes.is_empty() {
            let (key, generation, bytes) = (self.key.clone(), piece.generation, bytes.into());
            news.send(FrozenNews::Schema { key, generation, offset, bytes });
        }
        Ok(())
    }

    pub fn block(&mut self, bytes: &[u8], news: &Queue) -> Result<(), Reject> {
        self.count(bytes.len())?;
        self.feed(news, |intake, out| intake.begin(bytes, out))
    }

    pub fn rows(&mut self, bytes: &[u8], news: &Queue) -> Result<(), Reject> {
        self.count(bytes.len())?;
        self.feed(news, |intake, out| intake.rows(bytes, out))
    }

    pub fn end(&mut self, end: &End, news: &Queue) -> Result<(), Reject> {
        self.feed(news, |intake, out| intake.end(end, out))
    }

    pub fn past(&mut self, last: bool, bytes: &[u8], news: &Queue) -> Result<(), Reject> {
        self.count(bytes.len())?;
        self.feed(news, |intake, out| intake.past(last, bytes, out))
    }

    pub fn lost(&mut self, from: u64, to: u64, news: &Queue) {
        let (from, to) = (from.max(self.rows.0), to.min(self.rows.1));
        for (from, to) in self.settled.holes(from, to) {
            self.settled.add(from, to);
            news.send(FrozenNews::Lost { key: self.key.clone(), from, to });
        }
    }
}

/// Where the rows of a lane go.
struct Out<'a> {
    key: &'a Arc<FrozenKey>,
    settled: &'a mut Ranges,
    news: &'a Queue,
}

impl RowSink for Out<'_> {
    fn row(&mut self, _: u64, _: &Decoder) {}

    fn block(&mut self, bytes: &[u8]) {
        let header = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
        let Some((first, (rows, ..))) = header.and_then(|header| Some((header.first_row, header.closed?)))
        else {
            return;
        };
        let end = first.saturating_add(rows.into());
        match self.settled.parts(first, end).as_slice() {
            [] => self.news.send(FrozenNews::Block { key: self.key.clone(), bytes: bytes.into() }),
            // An agent that has started again has copied a block that was open before.
            _ => {
                for part in without_rows(bytes, self.settled) {
                    self.news.send(FrozenNews::Block { key: self.key.clone(), bytes: part.into() });
                }
            }
        }
        self.settled.add(first, end);
    }

    fn lost(&mut self, _: u64, _: u64) {}
}
