//! What frames of a connection mean for the cluster: who speaks, and for which node. The protocol itself is
//! `khz_link`'s; bytes are the connection's.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_link::limits::VERSION_OF_NUMBERS;
use khz_link::texts::{NoText, ReadFrame, TextFault, TextGiven, TextPiece};
use khz_link::{
    Ack, Acks, Beat, End, Goodbye, Hello, HubSide, InterestFrame, LaneOffer, Reason, Reject, Role,
    SchemaPiece, Standing, Verdict, Want, WantFrame,
};
use khz_model::{Away, Nanos, NodeName};
use khz_trust::{Door, Identity, Proof, Way, standing};

use crate::caller::Caller;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::generations::Offered;
use crate::lane::Lane;
use crate::limits::{HISTORY_SPAN, SCHEMA_PIECE_WORK};
use crate::mailbox::Mailbox;
use crate::node::{self, Answer, Arrival, BASE, Link, NoRoom, Node, SharedNode};
use crate::proofs::Proofs;
use crate::reader::Reader;
use crate::schemas::FULL;

/// Who is at the other end.
pub(crate) enum Peer {
    /// Not said yet.
    Stranger,
    /// A node that sends rows.
    Node(Arc<SharedNode>),
    /// Somebody who wants rows.
    Reader(Box<Reader>),
}

/// What the server knows when a frame comes.
pub(crate) struct Talk<'a> {
    pub cluster: &'a Arc<Cluster>,
    pub mailbox: &'a Arc<Mailbox>,
    /// What may be shown at this door.
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
    /// Who the Hello says it is, if who comes this way may be that.
    fn identified(&self, hello: &Hello<'_>, nonce: &[u8; 32]) -> Result<(Identity, Way), Reject> {
        let reject = |reason, text: String| Err(Reject { reason, text });
        let name = match NodeName::new(hello.name) {
            Ok(name) => name,
            Err(error) => {
                return reject(Reason::Protocol, format!("the name is not valid: {}", error.problem));
            }
        };
        let role = match khz_trust::Role::from_byte(hello.role.byte()) {
            Ok(role) => role,
            Err(error) => return reject(Reason::NotAllowed, error.to_string()),
        };
        let said = Identity { role, name };
        let certified = self.certified.as_ref().map(|certified| certified.as_ref());
        let (proof, place) = (hello.proof.as_ref(), self.caller.place());
        let shown = self.proofs.judge(&said, certified, proof.map(|proof| (nonce, proof)), place);
        let shown = shown.map_err(|text| Reject { reason: Reason::Proof, text })?;
        let way = Way::of(place, shown, self.proofs.believes_names());
        let proved = matches!(shown, Proof::Token | Proof::Certificate).then_some(said.role);
        if standing(Door::Link, way, proved).may_be(said.role) {
            return Ok((said, way));
        }
        reject(Reason::Proof, self.proofs.ways_out(&said, way, proof.is_some()))
    }

    fn welcome_node(&mut self, hello: &Hello<'_>, name: &NodeName, way: Way) -> Result<(), Reject> {
        let full = || Reject { reason: Reason::Full, text: "this hub has no room for another node".into() };
        let shared = self.cluster.node_or_new(name, self.now).ok_or_else(full)?;
        let identity = node::Identity { machine: hello.machine, boot: hello.boot, start: hello.started };
        {
            let mut node = shared.lock();
            if let Err((reason, text)) = node.admits(&identity) {
                node.link_mut().refused(format!("refused {}: {text}", self.caller.from()));
                return Err(Reject { reason, text });
            }
            let link =
                Link::new(self.mailbox.clone(), self.connection).of_peer(hello.version, hello.abilities);
            let (version, is_believed) = (hello.program, way.is_believed());
            let arrival = Arrival { identity, version, caller: Some(self.caller), is_believed };
            node.connect(&arrival, link, self.now);
            node.send_subscriptions();
        }
        self.cluster.keep(&shared);
        shared.set_up(true);
        *self.peer = Peer::Node(shared);
        Ok(())
    }

    /// Does something with the node that speaks here.
    fn node<T>(&self, act: impl FnOnce(&mut Node) -> Result<T, Reject>) -> Result<T, Reject> {
        let Peer::Node(shared) = &*self.peer else {
            return Err(protocol("rows from somebody who is no node"));
        };
        let mut node = shared.lock();
        if !node.link().is_linked(self.connection) {
            return Err(Reject { reason: Reason::Superseded, text: node.has_connected_again() });
        }
        let done = act(&mut node);
        shared.touch();
        done
    }

    /// The same for what makes a lane larger, by this number of bytes.
    fn grown<T>(&self, bytes: usize, act: impl FnOnce(&mut Node) -> Result<T, Reject>) -> Result<T, Reject> {
        self.node(|node| {
            let done = act(node)?;
            self.held(node.take_bytes(bytes, self.cluster))?;
            Ok(done)
        })
    }

    /// Where all nodes leave no room for what this one holds, those that have gone give theirs back before it comes again.
    fn held(&self, counted: Result<(), NoRoom>) -> Taken {
        counted.map_err(|no_room| {
            if no_room == NoRoom::OfAll {
                self.cluster.is_short_of_memory.store(true, Ordering::Relaxed);
            }
            Reject { reason: Reason::Full, text: no_room.text().into() }
        })
    }

    fn reader(&mut self) -> Result<&mut Reader, Reject> {
        match &mut *self.peer {
            Peer::Reader(reader) => Ok(reader),
            _ => Err(protocol("interests from somebody who is no reader")),
        }
    }

    fn took(&self, rows: u64) {
        Counts::add(&self.cluster.counts.rows, rows);
    }

    /// What another lane has of the schema of this one need not be said again.
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

    /// Whether each row of a lane is wanted at once: where one of its readers wants that, and of a few nodes, which need not
    /// be spread over the second: they send when they have gathered, in one go.
    fn is_prompt(&self, node: &Node, id: u64) -> bool {
        let is_slow_base =
            node.lanes().get(id).is_some_and(|lane| lane.name == BASE && lane.period >= Nanos::SECOND);
        node.subscriptions().are_prompt(id) || is_slow_base && self.cluster.is_small()
    }

    /// What is wanted of a lane: rows that are missing, and the recent past when the hub has just begun.
    fn wanted(&self, node: &Node, id: u64, offer: &LaneOffer<'_>) -> Option<Want> {
        let lane = node.lanes().get(id)?;
        let is_boost = lane.name != BASE;
        if is_boost && !node.subscriptions().need(id) {
            return None;
        }
        if lane.has_rows() && lane.late_readers > 0 {
            return Some(missed(lane, self.is_prompt(node, id)));
        }
        let (from_row, span) = match lane.received().first() {
            _ if is_boost => (offer.next_row, Nanos(0)),
            // A connection may have ended before all of the past had come: what is here may begin too late.
            Some(&(oldest, end)) if self.cluster.keeps_history() => {
                (if oldest == 0 { end } else { 0 }, HISTORY_SPAN)
            }
            None if self.cluster.keeps_history() => (0, HISTORY_SPAN),
            // Without memory for the past only what was missed meanwhile is asked for, so that it is counted.
            Some(&(_, end)) => (end, HISTORY_SPAN),
            None => (0, Nanos(0)),
        };
        Some(Want {
            epoch: lane.epoch,
            from_row,
            span,
            schema_bytes: lane.schema_bytes(),
            prompt: self.is_prompt(node, id),
            have: newest(lane.received()),
        })
    }
}

impl HubSide for Talk<'_> {
    fn hello(&mut self, hello: &Hello<'_>, nonce: &[u8; 32]) -> Verdict {
        let welcomed = self.identified(hello, nonce).and_then(|(identity, way)| match hello.role {
            Role::Node => self.welcome_node(hello, &identity.name, way),
            _ => {
                let epochs = self.cluster.epochs(self.connection);
                let is_hub = hello.machine != [0; 16];
                *self.peer = Peer::Reader(Box::new(Reader::new(
                    identity,
                    is_hub,
                    (hello.version < VERSION_OF_NUMBERS).then_some(epochs),
                )));
                Ok(())
            }
        });
        match welcomed {
            Ok(()) => Verdict::Welcome,
            Err(reject) => Verdict::Refuse(reject),
        }
    }

    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        self.node(|node| {
            let full =
                || Reject { reason: Reason::Full, text: "more lanes than a hub takes of one node".into() };
            let id = node
                .lanes_mut()
                .offered(offer.lane, offer.name, offer.epoch, offer.period)
                .ok_or_else(full)?;
            node.serve(offer.interest, id);
            if let Some(lane) = node.lanes_mut().get_mut(id) {
                lane.next_offered = offer.next_row;
            }
            self.offer_schema(node, id, offer)?;
            node.lane_is_ready(offer.interest, &self.cluster.counts);
            let want = self.wanted(node, id, offer);
            if let Some(want) = &want {
                node.want(id, wanted_from(want, node.can_resend()));
            }
            Ok(want)
        })
    }

    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Taken {
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

    fn block(&mut self, lane: u32, bytes: &[u8]) -> Taken {
        let (keep, share) = (self.cluster.keeps_history(), self.cluster.history_share());
        Counts::add(&self.cluster.counts.blocks, 1);
        let rows = self.grown(bytes.len(), |node| {
            node.link_mut().heard(self.now);
            let lane = node.lanes_mut().numbered(lane).ok_or_else(|| protocol("a block of no lane"))?;
            let rows = lane.begin(bytes, keep).map_err(protocol)?;
            lane.trim(share);
            Ok(rows)
        })?;
        self.took(rows);
        Ok(())
    }

    fn rows(&mut self, lane: u32, bytes: &[u8]) -> Taken {
        let rows = self.grown(bytes.len(), |node| {
            node.link_mut().heard(self.now);
            let lane = node.lanes_mut().numbered(lane).ok_or_else(|| protocol("rows of no lane"))?;
            lane.append(bytes).map_err(protocol)
        })?;
        self.took(rows);
        Ok(())
    }

    fn end(&mut self, end: &End) -> Taken {
        self.node(|node| {
            let lane = node
                .lanes_mut()
                .numbered(end.lane)
                .ok_or_else(|| protocol("the end of a block of no lane"))?;
            lane.end(end.rows, end.bytes, end.crc).map_err(protocol)
        })
    }

    fn past(&mut self, lane: u32, last: bool, bytes: &[u8]) -> Taken {
        let (keep, share) = (self.cluster.keeps_history(), self.cluster.history_share());
        Counts::add(&self.cluster.counts.blocks, u64::from(last));
        let rows = self.grown(bytes.len(), |node| {
            let lane = node.lanes_mut().numbered(lane).ok_or_else(|| protocol("a past block of no lane"))?;
            let rows = lane.past(last, bytes, keep).map_err(protocol)?;
            lane.trim(share);
            Ok(rows)
        })?;
        Counts::add(&self.cluster.counts.rows_late, rows);
        self.took(rows);
        Ok(())
    }

    fn lost(&mut self, lane: u32, from: u64, to: u64) -> Taken {
        let lost = self.node(|node| {
            let lane = node.lanes_mut().numbered(lane).ok_or_else(|| protocol("lost rows of no lane"))?;
            Ok(lane.lose(from, to))
        })?;
        Counts::add(&self.cluster.counts.rows_lost, lost);
        Ok(())
    }

    fn closed(&mut self, lane: u32) -> Taken {
        self.node(|node| {
            node.close_lane(lane);
            Ok(())
        })
    }

    fn told(&mut self, told: &khz_link::Told<'_>) -> Result<Option<Want>, Reject> {
        self.node(|node| {
            let answer = Answer { granted: told.granted, text: told.text.to_owned() };
            let served = node.lanes().id_of(told.lane);
            node.answered(told.interest, answer, served);
            let (Some(id), true) = (served, node.subscriptions().get(told.interest).is_some()) else {
                return Ok(None);
            };
            node.lane_is_ready(told.interest, &self.cluster.counts);
            let Some(lane) = node.lanes().get(id) else { return Ok(None) };
            let want = if lane.has_rows() && lane.late_readers > 0 {
                missed(lane, self.is_prompt(node, id))
            } else {
                Want {
                    epoch: lane.epoch,
                    from_row: lane.next_row(),
                    span: Nanos(0),
                    schema_bytes: lane.schema_bytes(),
                    prompt: self.is_prompt(node, id),
                    have: Vec::new(),
                }
            };
            node.want(id, wanted_from(&want, node.can_resend()));
            Ok(Some(want))
        })
    }

    fn given(&mut self, lane: u32, ask: u32) -> Taken {
        self.node(|node| {
            node.request_answered(lane, ask, self.now, &self.cluster.counts);
            Ok(())
        })
    }

    fn beat(&mut self, beat: &Beat, acks: &mut Acks<'_>) {
        // A connection that was superseded is cut by the command that waits for it.
        let _ = self.node(|node| {
            node.link_mut().beat(beat, self.now);
            for (lane, known) in node.lanes().connected().filter(|(_, lane)| lane.has_rows()) {
                acks.push(Ack { lane, received: known.complete_until(), stored: 0 });
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
            node.link_mut().goodbye();
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
            // What is too long is left lying; the node's rows go on.
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
            texts.given(given, link);
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

/// Everything that was missed of a lane of which rows have come: a reader waits for it.
fn missed(lane: &Lane, prompt: bool) -> Want {
    let have = newest(lane.received());
    Want {
        epoch: lane.epoch,
        from_row: have.first().map_or(0, |&(from, _)| from),
        span: Nanos(u64::MAX),
        schema_bytes: lane.schema_bytes(),
        prompt,
        have,
    }
}

/// Rows from here on come because of this Want, or are told as lost; `None`: from the first that comes. Of rows that are older than
/// the span nothing is said: who lacks some asks for them once more, where the node can be asked; what comes anyway it sends once.
fn wanted_from(want: &Want, can_resend: bool) -> Option<u64> {
    let is_told_of_all = want.span == Nanos(u64::MAX) || want.span > Nanos(0) && !can_resend;
    is_told_of_all.then_some(want.from_row)
}

/// The newest of the ranges, as many as a Want can carry.
fn newest(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    ranges[ranges.len().saturating_sub(khz_link::limits::HAVE_MAX)..].to_vec()
}
