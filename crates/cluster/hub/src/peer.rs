//! What the frames of a connection mean for the cluster. `khz_link` handles the protocol, and the connection
//! the bytes. [`welcome`] decides who a peer is, and [`wants`] which rows of a lane the hub requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_link::freeze::Frozen;
use khz_link::frozen;
use khz_link::texts::{NoText, ReadFrame, TextFault, TextGiven, TextPiece};
use khz_link::{
    Ack, Acks, Beat, End, Goodbye, Hello, HubSide, InterestFrame, LaneOffer, Leaving, Reason, Reject, Role,
    SchemaPiece, Standing, Verdict, Want, WantFrame,
};
use khz_model::{Away, Nanos};
use khz_trust::Identity;

use crate::caller::Caller;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::generations::Offered;
use crate::lane::{ComparedWith, Lane};
use crate::limits::{LANES_MAX, SCHEMA_PIECE_WORK};
use crate::mailbox::Mailbox;
use crate::node::{Answer, NoRoom, Node, SharedNode};
use crate::proofs::Proofs;
use crate::reader::Reader;
use crate::rule_rows;
use crate::schemas::FULL;
use crate::trusted;

mod wants;
mod welcome;

/// The other end of a connection.
pub(crate) enum Peer {
    /// It has not said who it is.
    Stranger,
    /// A node that sends rows.
    Node(Arc<SharedNode>),
    /// A reader, which wants rows.
    Reader(Box<Reader>),
}

/// Everything that a frame's meaning depends on.
pub(crate) struct Talk<'a> {
    pub cluster: &'a Arc<Cluster>,
    pub mailbox: &'a Arc<Mailbox>,
    /// What proves an identity at this door.
    pub proofs: &'a Proofs,
    pub certified: Option<Result<Identity, String>>,
    pub connection: u64,
    pub caller: Caller,
    pub now: Nanos,
    pub peer: &'a mut Peer,
}

type Taken = Result<(), Reject>;

fn protocol(reject: &'static str) -> Reject {
    Reject { reason: Reason::Protocol, text: reject.to_owned() }
}

impl Talk<'_> {
    /// Changes the node that speaks here.
    fn node<T>(&self, act: impl FnOnce(&mut Node) -> Result<T, Reject>) -> Result<T, Reject> {
        let Peer::Node(shared) = &*self.peer else {
            return Err(protocol("rows from a peer that is no node"));
        };
        let mut node = shared.lock();
        if !node.link().is_linked(self.connection) {
            return Err(Reject { reason: Reason::Superseded, text: node.has_connected_again() });
        }
        let done = act(&mut node);
        shared.news(&mut node);
        done
    }

    /// The same for a frame that makes a lane larger by this many bytes.
    fn grown<T>(&self, bytes: usize, act: impl FnOnce(&mut Node) -> Result<T, Reject>) -> Result<T, Reject> {
        self.node(|node| {
            let done = act(node)?;
            self.held(node.take_bytes(bytes, self.cluster))?;
            Ok(done)
        })
    }

    /// If all nodes together leave no room for this one, nodes that are down give memory back before it connects again.
    fn held(&self, counted: Result<(), NoRoom>) -> Taken {
        counted.map_err(|no_room| {
            if no_room == NoRoom::OfAll {
                self.cluster.is_short_of_memory.store(true, Ordering::Relaxed);
            }
            Reject { reason: Reason::Full, text: no_room.text().into() }
        })
    }

    /// True if a lane of this connection has frozen rows. They go into a recording, and not into the node's lanes.
    fn is_frozen(&self, lane: u32) -> bool {
        self.cluster.freezes.is_fetched(self.connection, lane)
    }

    /// A node offers frozen rows.
    fn offer_frozen(&self, offer: &LaneOffer<'_>) -> Taken {
        let Peer::Node(shared) = &*self.peer else {
            return Err(protocol("frozen rows of a peer that is no node"));
        };
        let link = shared.lock().link().link().cloned();
        if let Some(link) = link.filter(|link| link.connection() == self.connection) {
            self.cluster.freezes.offered(&shared.name, &link, offer);
        }
        Ok(())
    }

    fn reader(&mut self) -> Result<&mut Reader, Reject> {
        match &mut *self.peer {
            Peer::Reader(reader) => Ok(reader),
            _ => Err(protocol("interests from a peer that is no reader")),
        }
    }

    /// Wakes who judges if these rows are of rules.
    fn ringing(&self, (rows, are_of_rules): (u64, bool)) -> u64 {
        if let (true, Peer::Node(shared)) = (are_of_rules && rows > 0, &*self.peer) {
            self.cluster.heard.ring(shared);
        }
        rows
    }

    fn took(&self, rows: u64) {
        Counts::add(&self.cluster.counts.rows, rows);
    }

    /// The node already has as many lanes as a hub accepts. Those lanes continue, and the readers of this lane get
    /// a notice why no rows come.
    fn refuse_lane(&self, node: &mut Node, offer: &LaneOffer<'_>) {
        Counts::add(&self.cluster.counts.lanes_refused, 1);
        let text = format!("the hub has {LANES_MAX} lanes of this node, and takes no more");
        node.answered(offer.interest, Answer { granted: false, text }, None);
    }

    /// Takes in the schema that a lane is offered with. If another lane has it, the node need not send it.
    fn offer_schema(&self, node: &mut Node, id: u64, offer: &LaneOffer<'_>) -> Taken {
        let (generation, offered) = (offer.generation, Offered::of(offer));
        let cost = node.lanes().get(id).map_or(0, |lane| lane.growth(generation, offered.bytes));
        let whole = self.cluster.schemas.find(&offered.hash, offered.bytes);
        let whole = whole.filter(|_| node.may_grow(cost, self.now));
        let bytes = whole.as_ref().map_or(size_of::<Lane>(), |schema| schema.bytes() as usize);
        if let Some(lane) = node.lanes_mut().get_mut(id) {
            lane.alive = true;
            lane.offer_schema(generation, offered, whole);
        }
        self.held(node.take_bytes(bytes, self.cluster))
    }
}

impl HubSide for Talk<'_> {
    fn hello(&mut self, hello: &Hello<'_>, nonce: &[u8; 32]) -> Verdict {
        let welcomed = self.identified(hello, nonce).and_then(|(identity, way)| match hello.role {
            Role::Node => self.welcome_node(hello, &identity.name, way),
            _ => {
                let epochs = self.cluster.epochs(self.connection);
                let is_hub = hello.machine != [0; 16];
                *self.peer = Peer::Reader(Box::new(Reader::new(identity, is_hub, hello.version, epochs)));
                Ok(())
            }
        });
        match welcomed {
            Ok(()) => Verdict::Welcome,
            Err(reject) => Verdict::Refuse(reject),
        }
    }

    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        if frozen::of_name(offer.name).is_some() {
            return self.offer_frozen(offer).map(|()| None);
        }
        self.node(|node| {
            let lanes = node.lanes_mut();
            let Some(id) = lanes.offered(offer.lane, offer.name, offer.epoch, offer.period) else {
                self.refuse_lane(node, offer);
                return Ok(None);
            };
            if let Some(lane) = node.lanes_mut().get_mut(id) {
                lane.next_offered = offer.next_row;
                lane.becomes_its_own();
            }
            node.serve(offer.interest, id);
            node.log_lane(id, self.cluster);
            self.offer_schema(node, id, offer)?;
            node.lane_is_ready(offer.interest, &self.cluster.counts);
            let want = wants::of_offer(self.cluster, node, id, offer);
            if let Some(want) = &want {
                node.want(id, wants::certain_from(want, node, id));
            }
            Ok(want)
        })
    }

    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Taken {
        if self.is_frozen(piece.lane) {
            return self.cluster.freezes.schema(self.connection, piece);
        }
        let (schemas, cluster) = (&self.cluster.schemas, self.cluster);
        self.grown(piece.bytes.len(), |node| {
            let no_lane = || protocol("a schema of no lane");
            let lane = node.lanes_mut().numbered(piece.lane).ok_or_else(no_lane)?;
            let cost = lane.growth(piece.generation, piece.offset.saturating_add(piece.bytes.len() as u64));
            let known = lane.schema(piece.generation).map_or(0, |schema| schema.series().len());
            if !node.may_grow(cost.max(SCHEMA_PIECE_WORK), self.now) {
                return Err(protocol("a schema in too many small pieces"));
            }
            let lane = node.lanes_mut().numbered(piece.lane).ok_or_else(no_lane)?;
            match lane.grow_schema(piece, schemas) {
                Ok(Some(schema)) => {
                    cluster.note_metrics(&schema, known);
                    self.held(node.count(cluster))
                }
                Ok(None) => Ok(()),
                Err(FULL) => self.held(Err(NoRoom::OfAll)),
                Err(reject) => Err(protocol(reject)),
            }
        })
    }

    fn block(&mut self, number: u32, bytes: &[u8]) -> Taken {
        if self.is_frozen(number) {
            return self.cluster.freezes.block(self.connection, number, bytes);
        }
        let (keep, share) = (self.cluster.keeps_history(), self.cluster.history_share());
        Counts::add(&self.cluster.counts.blocks, 1);
        let rows = self.grown(bytes.len(), |node| {
            node.link_mut().heard(self.now);
            let lane = node.lanes_mut().numbered(number).ok_or_else(|| protocol("a block of no lane"))?;
            let rows = lane.begin(bytes, keep).map_err(protocol)?;
            lane.trim(share);
            let is_of_rules = rule_rows::is_of_rules(&lane.name);
            node.has_news(number);
            Ok((rows, is_of_rules))
        })?;
        let rows = self.ringing(rows);
        self.took(rows);
        Ok(())
    }

    fn rows(&mut self, number: u32, bytes: &[u8]) -> Taken {
        if self.is_frozen(number) {
            return self.cluster.freezes.rows(self.connection, number, bytes);
        }
        let rows = self.grown(bytes.len(), |node| {
            node.link_mut().heard(self.now);
            let lane = node.lanes_mut().numbered(number).ok_or_else(|| protocol("rows of no lane"))?;
            let rows = (lane.append(bytes).map_err(protocol)?, rule_rows::is_of_rules(&lane.name));
            node.has_news(number);
            Ok(rows)
        })?;
        let rows = self.ringing(rows);
        self.took(rows);
        Ok(())
    }

    fn end(&mut self, end: &End) -> Taken {
        if self.is_frozen(end.lane) {
            return self.cluster.freezes.end(self.connection, end);
        }
        self.node(|node| {
            let lane = node
                .lanes_mut()
                .numbered(end.lane)
                .ok_or_else(|| protocol("the end of a block of no lane"))?;
            lane.end(end.rows, end.bytes, end.crc).map_err(protocol)
        })
    }

    fn past(&mut self, number: u32, last: bool, bytes: &[u8]) -> Taken {
        if self.is_frozen(number) {
            return self.cluster.freezes.past(self.connection, number, last, bytes);
        }
        let (keep, share) = (self.cluster.keeps_history(), self.cluster.history_share());
        Counts::add(&self.cluster.counts.blocks, u64::from(last));
        let rows = self.grown(bytes.len(), |node| {
            let lane =
                node.lanes_mut().numbered(number).ok_or_else(|| protocol("a past block of no lane"))?;
            let rows = lane.past(last, bytes, keep).map_err(protocol)?;
            lane.trim(share);
            node.has_news(number);
            Ok(rows)
        })?;
        Counts::add(&self.cluster.counts.rows_late, rows);
        self.took(rows);
        Ok(())
    }

    fn lost(&mut self, number: u32, from: u64, to: u64) -> Taken {
        if self.is_frozen(number) {
            return self.cluster.freezes.lost(self.connection, number, from, to);
        }
        let lost = self.node(|node| {
            let name = node.name.clone();
            let lane = node.lanes_mut().numbered(number).ok_or_else(|| protocol("lost rows of no lane"))?;
            let lost = lane.lose(from, to);
            if lane.is_logged() {
                self.cluster.kept_losses.add(&name, &lane.name, lost);
            }
            node.has_news(number);
            Ok(lost)
        })?;
        Counts::add(&self.cluster.counts.rows_lost, lost);
        Ok(())
    }

    fn closed(&mut self, lane: u32) -> Taken {
        if self.is_frozen(lane) {
            self.cluster.freezes.closed(self.connection, lane);
            return Ok(());
        }
        self.node(|node| {
            node.close_lane(lane);
            Ok(())
        })
    }

    fn told(&mut self, told: &khz_link::Told<'_>) -> Result<Option<Want>, Reject> {
        self.node(|node| {
            let answer = Answer { granted: told.granted, text: told.text.to_owned() };
            let served = node.lanes().id_of(told.lane);
            if told.granted && told.lane > 0 && served.is_none() && !node.lanes().have_room() {
                // The hub has refused its lane, and its readers know.
                return Ok(None);
            }
            node.answered(told.interest, answer, served);
            let (Some(id), true) = (served, node.subscriptions().get(told.interest).is_some()) else {
                return Ok(None);
            };
            node.log_lane(id, self.cluster);
            node.lane_is_ready(told.interest, &self.cluster.counts);
            let want = wants::of_answer(self.cluster, node, id);
            if let Some(want) = &want {
                node.want(id, wants::certain_from(want, node, id));
            }
            Ok(want)
        })
    }

    fn frozen(&mut self, frozen: &Frozen) -> Taken {
        let (name, up_longer) = self.node(|node| Ok((node.name.clone(), node.link().up_longer())))?;
        self.cluster.freezes.answered(&name, self.connection, frozen, up_longer);
        Ok(())
    }

    fn given(&mut self, lane: u32, ask: u32) -> Taken {
        self.node(|node| {
            node.request_answered(lane, ask, self.now, &self.cluster.counts);
            Ok(())
        })
    }

    fn beat(&mut self, beat: &Beat, acks: &mut Acks<'_>) {
        // The mailbox has a command that cuts a superseded connection.
        let _ = self.node(|node| {
            node.link_mut().beat(beat, self.now);
            if let Some((ahead, machine)) = node.link().beats().clock_offset.zip(trusted::machine_ahead()) {
                if beat.round_trip.is_some()
                    && let Some(row) = node.lanes().base().and_then(Lane::newest)
                {
                    node.link_mut().measured(ahead, row, self.now);
                }
                let ahead = ahead.saturating_add(machine);
                match beat.round_trip.is_some() {
                    true => node.set_clock(ahead, ComparedWith::Ours),
                    false => node.set_clock_of_new_lanes(ahead, ComparedWith::Ours),
                }
            }
            for (lane, known) in node.lanes().connected().filter(|(_, lane)| lane.has_rows()) {
                let (received, stored) = (known.complete_until(), known.stored_until());
                acks.push(Ack { lane, received, stored });
            }
            Ok(())
        });
    }

    fn interest(&mut self, interest: &InterestFrame<'_>) -> Taken {
        let cluster = self.cluster.clone();
        self.reader()?.interest(&cluster, interest);
        Ok(())
    }

    fn dismiss(&mut self, number: u32) -> Taken {
        self.reader()?.dismiss(number);
        Ok(())
    }

    fn roster(&mut self, wanted: bool) -> Taken {
        self.reader()?.roster(wanted);
        Ok(())
    }

    fn channels(&mut self, wanted: bool) -> Taken {
        self.reader()?.channels(wanted);
        Ok(())
    }

    fn standing(&mut self, standing: &Standing<'_>) -> Taken {
        self.node(|node| {
            let (first, problem) = (standing.first.to_owned(), standing.problem.to_owned());
            let away = Away { first, problem, since: standing.since, back: standing.back };
            node.link_mut().set_away(away, self.now);
            Ok(())
        })
    }

    fn goodbye(&mut self, goodbye: &Goodbye<'_>) -> Taken {
        self.node(|node| {
            tracing::info!("{} says goodbye ({:?}) {}", node.name, goodbye.leaving, goodbye.text);
            let moves = goodbye.leaving == Leaving::Moves && !goodbye.text.is_empty();
            node.link_mut().goodbye(moves.then(|| goodbye.text.to_owned()));
            Ok(())
        })
    }

    fn text(&mut self, piece: &TextPiece<'_>) -> Taken {
        let taken = self.node(|node| {
            node.link_mut().heard(self.now);
            let (texts, link) = node.texts();
            Ok(texts.take(piece, link))
        })?;
        match taken {
            Ok(true) => Counts::add(&self.cluster.counts.texts, 1),
            Ok(false) => {}
            // A text that is too long is dropped; the node's rows go on.
            Err(TextFault::TooLong { .. }) => Counts::add(&self.cluster.counts.texts_refused, 1),
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    fn no_text(&mut self, none: &NoText<'_>) -> Taken {
        self.node(|node| {
            node.texts().0.none(none);
            Ok(())
        })
    }

    fn read(&mut self, wish: &ReadFrame<'_>) -> Taken {
        let cluster = self.cluster.clone();
        let reader = self.reader()?;
        reader.texts.read(&cluster, &reader.identity, wish)
    }

    fn text_now(&mut self, number: u32, ask: u32) -> Taken {
        self.reader()?.texts.ask(number, ask);
        Ok(())
    }

    fn text_given(&mut self, given: TextGiven) -> Taken {
        self.node(|node| {
            let (texts, link) = node.texts();
            texts.answered(given, link);
            Ok(())
        })
    }

    fn unread(&mut self, number: u32) -> Taken {
        self.reader()?.texts.unread(number);
        Ok(())
    }

    fn want(&mut self, want: &WantFrame<'_>) -> Taken {
        self.reader()?.want(want);
        Ok(())
    }

    fn leave(&mut self, lane: u32) -> Taken {
        self.reader()?.leave(lane);
        Ok(())
    }
}
