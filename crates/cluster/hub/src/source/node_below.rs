//! A node that comes through a hub below: when it is up here, and which lanes it has here. A row of any of its lanes makes it up.
//! It requests nothing from the hub below.

use std::sync::Arc;

use khz_block::{Decoder, HEADER_BYTES, Header};
use khz_link::epoch::through;
use khz_link::{Held, LaneOffer};
use khz_model::{Nanos, NodeName, NodeStatus, Rate, Stamp};

use super::asked::{Asked, Wanted};
use super::fed_channel::FedChannel;
use super::fed_lane::{FedLane, Origin};
use super::held_rows;
use super::late_rows;
use crate::clock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::followed::FollowedChannel;
use crate::lane::Lane;
use crate::limits::AWAY_MAX;
use crate::mailbox::Mailbox;
use crate::node::{Answer, Arrival, BASE, Link, Node, SharedNode, Terms, silent_after};
use crate::rule_rows::is_of_rules;
use crate::schemas::Schema;

/// The number of a base lane here; channels have the numbers after it.
pub(super) const LANE: u32 = 1;

/// Rows were requested only in case somebody lacks them: they are not lost if they do not come.
type IsSpare = bool;

/// What the nodes of one source share.
pub(super) struct Here {
    pub cluster: Arc<Cluster>,
    /// Subscriptions of readers here that their nodes get.
    pub mailbox: Arc<Mailbox>,
    /// The name of the hub below.
    pub hub: String,
    /// The requests for channels; `None`: it passes no channels on.
    pub asked: Option<Asked>,
    /// When this hub began to follow it.
    pub begun: Nanos,
}

impl Here {
    /// Where rows count, and whether their blocks are kept.
    pub fn kept(&self) -> (&Counts, bool) {
        (&self.cluster.counts, self.cluster.keeps_history())
    }

    /// The row after the rows that the store has of a channel's lane. They came through a hub below, or from the node itself when
    /// it was connected here.
    fn stored_until(&self, node: &NodeName, epoch: u64) -> Option<u64> {
        let intake = self.cluster.intake()?;
        [through(epoch), epoch].into_iter().filter_map(|epoch| intake.end_of(node, epoch)).max()
    }

    /// The first wanted row of a channel's lane, if earlier rows than the next ones are wanted, and whether they are spare: perhaps
    /// nobody lacks them. A kept channel continues where the store ends. Soon after this hub's start, a hub above may lack rows that
    /// came while this hub was away: nodes continue a channel for that long.
    fn wants_from(
        &self,
        channel: &FollowedChannel,
        node: &NodeName,
        offer: &LaneOffer<'_>,
    ) -> Option<(u64, IsSpare)> {
        let stored = || self.stored_until(node, offer.epoch);
        if let Some(stored) = channel.is_kept().then(stored).flatten() {
            return Some((stored, false));
        }
        let is_young = clock::boot().since(self.begun) < AWAY_MAX;
        let rows = AWAY_MAX.0.checked_div(offer.period.0)?;
        let now = offer.next_row.saturating_sub(1);
        is_young.then(|| (now.saturating_sub(rows), true))
    }

    fn through(&self, text: &str) -> Answer {
        Answer { granted: false, text: format!("comes through hub {}{text}", self.hub) }
    }
}

/// A node.
pub(super) struct NodeBelow {
    node: Arc<SharedNode>,
    /// Which of our connections speaks for it: another one for each base lane that the hub below offers.
    connection: u64,
    /// The base lane, with the number of its lane below.
    base: Option<(u64, FedLane)>,
    period: Nanos,
    channels: Vec<FedChannel>,
    /// Lanes of channels made so far.
    made: u32,
    /// What the node refuses, and why.
    refused: Vec<(Arc<FollowedChannel>, String)>,
    last: Nanos,
    /// Rows have come since the hub below listed it.
    has_rows: bool,
    /// It was connected here, and not disconnected. Another connection may have taken it over since.
    is_up: bool,
}

/// How a node comes and goes.
impl NodeBelow {
    /// A node that is not up yet.
    pub fn new(node: Arc<SharedNode>) -> Self {
        NodeBelow {
            node,
            connection: 0,
            base: None,
            period: Nanos::SECOND,
            channels: Vec::new(),
            made: LANE,
            refused: Vec::new(),
            last: Nanos(0),
            has_rows: false,
            is_up: false,
        }
    }

    /// The connection that speaks for it.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Its base lane is this one of the hub below from now on. Returns which of its rows are here: the hub below sends all others.
    pub fn begin(&mut self, connection: u64, below: u64, offer: &LaneOffer<'_>, here: &Here) -> Held {
        if self.base.is_some() {
            self.disconnect(&format!("hub {} has it no more", here.hub));
        }
        self.connects_as(connection);
        let rows = held_rows::of(&here.cluster, &self.node.lock(), offer);
        self.base = Some((below, FedLane::base(LANE, BASE, offer, &rows)));
        (self.period, self.last) = (offer.period, Nanos(0));
        rows.held
    }

    /// This connection of ours speaks for the node from its next row on, if none does now.
    fn connects_as(&mut self, connection: u64) {
        if !self.node.lock().link().is_linked(self.connection) {
            self.connection = connection;
        }
    }

    /// True if this hub may speak for a node for which another one speaks: the node has not come that way for two rows, or has a lane
    /// that did not come that way.
    fn may_take_over(&self, node: &Node, row: u64, now: Nanos) -> bool {
        let Some((_, lane)) = &self.base else { return false };
        if !node.link().link().is_some_and(Link::is_through_hub) {
            return false;
        }
        let lanes = node.lanes();
        let is_fed = |known: &Lane| lanes.id_of(LANE) == Some(known.id) || lanes.get(known.id).is_none();
        match lanes.base_of(lane.epoch()).filter(|known| is_fed(known)) {
            Some(known) => {
                row >= known.next_row() && now.since(node.link().last_heard()).0 / 2 >= self.period.0
            }
            None => true,
        }
    }

    /// Connects the node, as if it had connected itself, for a row of its base lane or of a channel (`None`). `false`: it is connected
    /// in another way, or there is no room for it.
    fn connect(&mut self, row: Option<u64>, here: &Here) -> bool {
        let now = clock::boot();
        if self.node.lock().link().is_linked(self.connection) {
            return true;
        }
        // While it was not connected this way, the cluster may have forgotten the node and made a new entry with its name.
        let Some(node) = here.cluster.node_or_new(&self.node.name, now) else { return false };
        if !Arc::ptr_eq(&node, &self.node)
            && let Some((_, base)) = &mut self.base
        {
            base.forget();
        }
        self.node = node;
        let mut node = self.node.lock();
        if node.link().is_up() && !row.is_some_and(|row| self.may_take_over(&node, row, now)) {
            return false;
        }
        let link = Link::new(here.mailbox.clone(), self.connection);
        let arrival = Arrival { version: &format!("through {}", here.hub), ..Arrival::default() };
        node.connect(&arrival, link, now);
        for channel in &mut self.channels {
            channel.open(&mut node, &here.cluster);
        }
        node.send_subscriptions();
        drop(node);
        here.cluster.keep(&self.node);
        self.node.connected();
        self.is_up = true;
        true
    }

    /// The node is not up here any more.
    pub fn disconnect(&mut self, why: &str) {
        self.node.disconnect(self.connection, Some(why.to_owned()), clock::boot());
        self.is_up = false;
        let base = self.base.iter_mut().map(|(_, lane)| lane);
        base.chain(self.channels.iter_mut().map(|channel| &mut channel.lane)).for_each(FedLane::close);
    }

    /// Disconnects it if nothing has come for too long.
    pub fn silence(&mut self, now: Nanos, hub: &str) {
        if self.is_up && self.last > Nanos(0) && now.since(self.last) > silent_after(self.period) {
            self.disconnect(&format!("silent at hub {hub}"));
        }
    }

    /// The hub below lists it as not up. Rows on their way may be older than the list: while they come, it stays.
    pub fn listed_as_gone(&mut self, status: &NodeStatus, here: &Here) {
        if !std::mem::take(&mut self.has_rows) && self.is_up {
            let problem = status.problem.as_deref().unwrap_or("it has left");
            self.disconnect(&format!("at hub {}: {problem}", here.hub));
        }
    }

    /// True if nothing about the node must be remembered. Lanes of channels that are still requested from the hub below
    /// wait for its next connection, so that their numbers continue.
    pub fn is_over(&mut self, here: &Here) -> bool {
        let is_asked =
            |channel: &Arc<FollowedChannel>| here.asked.as_ref().is_some_and(|asked| asked.has(channel));
        self.channels.iter_mut().for_each(|one| one.to_return.retain(is_asked));
        self.channels.retain(|one| !one.below.is_empty() || one.channels.iter().any(is_asked));
        self.refused.retain(|(channel, _)| is_asked(channel));
        if self.is_up && self.base.is_none() && self.channels.is_empty() {
            // Rows of a channel had brought it up.
            self.disconnect(&format!("hub {} has it no more", here.hub));
        }
        self.base.is_none() && self.channels.is_empty() && self.refused.is_empty()
    }

    /// The connection to the hub below has ended: the next one says again what nodes refuse.
    pub fn forget_refusals(&mut self) {
        self.refused.clear();
    }
}

/// Its lanes.
impl NodeBelow {
    /// The hub below offers a lane for a channel. Returns the number of the lane here, and the first wanted row if rows before the
    /// next ones are wanted.
    pub fn offered(
        &mut self,
        connection: u64,
        (channel, terms): (&Arc<FollowedChannel>, Terms),
        below: u64,
        offer: &LaneOffer<'_>,
        here: &Here,
    ) -> (u32, Option<u64>) {
        self.connects_as(connection);
        self.refused.retain(|(refused, _)| !Arc::ptr_eq(refused, channel));
        let is_it = |one: &FedChannel| one.lane.continues(offer.epoch) && one.terms.has_rows_of(&terms);
        let mut from = None;
        let at = match self.channels.iter().position(is_it) {
            Some(at) => at,
            None => {
                // Its epoch is over at the node: nothing older comes before the rows that wait.
                self.write_waiting(&terms, here);
                self.channels.retain(|one| !one.below.is_empty() || !one.terms.has_rows_of(&terms));
                self.made += 1;
                let name = self.free_name(&terms);
                let wanted = here.wants_from(channel, &self.node.name, offer);
                let is_spare = wanted.is_some_and(|(_, is_spare)| is_spare);
                from = wanted.map(|(from, _)| from);
                let lane = FedLane::of_channel(self.made, &name, offer, from, is_spare);
                let (channels, below, to_return, early) = Default::default();
                self.channels.push(FedChannel { lane, terms, channels, below, to_return, early });
                self.channels.len() - 1
            }
        };
        let one = &mut self.channels[at];
        // Rows that came before the hub below was away are not requested again. It sends the rows since then, whatever it
        // offers.
        one.below.push((below, one.lane.next().min(offer.next_row.saturating_sub(1))));
        one.channels.retain(|known| !Arc::ptr_eq(known, channel));
        one.to_return.retain(|known| !Arc::ptr_eq(known, channel));
        one.channels.push(channel.clone());
        let mut node = self.node.lock();
        if node.link().is_linked(self.connection) && one.open(&mut node, &here.cluster).is_none() {
            for number in node.subscriptions().wanting(&one.terms) {
                node.answered(number, here.through(", and has too many lanes here"), None);
            }
        }
        (one.lane.number(), from)
    }

    /// Writes the rows of these terms that wait for older ones.
    fn write_waiting(&mut self, terms: &Terms, here: &Here) {
        let mut node = self.node.lock();
        let is_linked = node.link().is_linked(self.connection);
        for one in self.channels.iter_mut().filter(|one| one.terms.has_rows_of(terms)) {
            one.to_return.clear();
            one.below.iter_mut().for_each(|(_, next)| *next = u64::MAX);
            let added = if is_linked { one.write_due(&mut node, here).unwrap_or(0) } else { 0 };
            Counts::add(&here.cluster.counts.rows, added);
        }
    }

    /// The name of a lane of a channel: the channel's, or if a lane of other terms has it, with a number, as at a node.
    fn free_name(&self, terms: &Terms) -> String {
        let channel = terms.channel.as_ref().map_or_else(String::new, |channel| channel.name.metric());
        let is_free = |name: &String| {
            let mut others = self.channels.iter().filter(|one| !one.terms.has_rows_of(terms));
            others.all(|one| one.lane.name() != name)
        };
        let numbered = (2u32..).map(|number| format!("{channel}.{number}"));
        std::iter::once(channel.clone()).chain(numbered).find(is_free).unwrap_or(channel)
    }

    /// A lane below has another period.
    pub fn changed(&mut self, number: u32, period: Nanos) {
        if number == LANE {
            self.period = period;
        }
        if let Some(one) = self.channels.iter_mut().find(|one| one.lane.number() == number) {
            one.lane.set_period(period);
        }
    }

    /// A row of the lane of a channel with this number here.
    pub fn row(
        &mut self,
        number: u32,
        origin: Origin<'_>,
        (row, decoder): (u64, &Decoder),
        here: &Here,
    ) -> Result<(), &'static str> {
        if !self.connect(None, here) {
            return Ok(());
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        let one = self.channels.iter_mut().find(|one| one.lane.number() == number).ok_or("no lane")?;
        one.passed(origin.lane, row + 1);
        if row < one.lane.next() {
            // Another lane below has brought it.
            return Ok(());
        }
        let is_early = row > one.lane.next() && one.oldest_to_come() <= Some(one.lane.next());
        if is_early && one.early.keep(row, origin, decoder) {
            return Ok(());
        }
        if node.lanes().id_of(number).is_none() {
            one.open(&mut node, &here.cluster).ok_or("too many lanes")?;
        }
        let place = node.lanes_mut().numbered(number).ok_or("no lane")?;
        let added =
            one.lane.row(place, origin, row, decoder, here.kept())? + one.write_due(&mut node, here)?;
        self.lives(&mut node);
        self.came(&mut node, number, added, here);
        Ok(())
    }

    /// A row has come: the node is up at the hub below.
    fn lives(&mut self, node: &mut Node) {
        (self.last, self.has_rows) = (clock::boot(), true);
        node.link_mut().heard(self.last);
    }

    /// A row of the base lane. With `is_of_before` the node has gone since: the row does not bring it back.
    pub fn base_row(
        &mut self,
        origin: Origin<'_>,
        (row, decoder): (u64, &Decoder),
        is_of_before: bool,
        here: &Here,
    ) -> Result<(), &'static str> {
        if self.base.as_ref().is_none_or(|(below, _)| *below != origin.lane) {
            return Ok(());
        }
        let is_linked = !is_of_before && self.connect(Some(row), here);
        if !self.base.as_mut().is_some_and(|(_, base)| base.takes(row + 1)) {
            return Ok(());
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        if is_linked {
            self.lives(&mut node);
            self.open_base(&mut node, here).ok_or("too many lanes")?;
            let (_, base) = self.base.as_mut().ok_or("no lane")?;
            let place = node.lanes_mut().numbered(LANE).ok_or("no lane")?;
            // Another hub below may have sent another row with this number.
            if row >= place.next_row() && !place.had_logged(row) {
                let added = base.row(place, origin, row, decoder, here.kept())?;
                self.came(&mut node, LANE, added, here);
                return Ok(());
            }
        }
        self.late(&mut node, origin, decoder.stamp(), |lane| late_rows::of_row(lane, row, decoder), here)
    }

    /// From now on, the base lane gets rows as they are gathered. Before that, it may be a lane of a former epoch that gets only late rows,
    /// which do not make it the present lane.
    fn open_base(&mut self, node: &mut Node, here: &Here) -> Option<()> {
        let (_, base) = self.base.as_mut()?;
        if node.lanes().id_of(LANE).is_some() {
            return Some(());
        }
        // The node may have been connected itself meanwhile: no block of ours is open there.
        let id = base.open(node)?;
        node.log_lane(id, &here.cluster);
        for rows in base.take_lost() {
            lose(node, LANE, rows, here);
        }
        Some(())
    }

    /// A closed block of the base lane, whose rows are older than some that have come.
    pub fn base_past(&mut self, origin: Origin<'_>, block: &[u8], here: &Here) -> Result<(), &'static str> {
        if self.base.as_ref().is_none_or(|(below, _)| *below != origin.lane) {
            return Ok(());
        }
        let head = block.first_chunk::<HEADER_BYTES>().ok_or("a block without its header")?;
        let header = Header::from_bytes(head, 0).map_err(|_| "not a block")?;
        let (stamp, rows) = (header.stamp, header.closed.map_or(0, |(rows, ..)| u64::from(rows)));
        let end = header.first_row.saturating_add(rows);
        if !self.base.as_mut().is_some_and(|(_, base)| base.takes(end)) {
            return Ok(());
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        self.late(&mut node, origin, stamp, |lane| late_rows::lacking(lane, block), here)
    }

    /// Late rows of the base lane, or another connection speaks for the node: adds the rows that the
    /// node's lane lacks.
    fn late(
        &self,
        node: &mut Node,
        origin: Origin<'_>,
        stamp: Stamp,
        lacking: impl FnOnce(&Lane) -> Vec<Vec<u8>>,
        here: &Here,
    ) -> Result<(), &'static str> {
        let Some((_, base)) = &self.base else { return Ok(()) };
        let Some(id) = node.lanes_mut().take_late(base.epoch(), base.period(), stamp) else { return Ok(()) };
        node.log_lane(id, &here.cluster);
        let lane = node.lanes_mut().get_mut(id).ok_or("no lane")?;
        let blocks = lacking(lane);
        if blocks.is_empty() {
            return Ok(());
        }
        let schema = origin.schema.cloned().or_else(Schema::empty).ok_or("rows before their schema")?;
        let (counts, keep) = here.kept();
        let mut all = 0;
        for block in blocks {
            Counts::add(&counts.blocks, 1);
            let added = lane.past_of(&schema, &block, keep)?;
            Counts::add(&counts.rows, added);
            Counts::add(&counts.rows_late, added);
            all += added;
        }
        lane.trim(here.cluster.history_share());
        node.lanes_mut().came_late(id, all);
        self.node.news(node);
        Ok(())
    }

    /// Rows have come of the lane with this number here, or are lost.
    fn came(&self, node: &mut Node, number: u32, rows: u64, here: &Here) {
        node.has_news(number);
        self.node.news(node);
        let is_of_rules = |lane: &mut Lane| is_of_rules(&lane.name);
        if rows > 0 && node.lanes_mut().numbered(number).is_some_and(is_of_rules) {
            here.cluster.heard.ring(&self.node);
        }
        Counts::add(&here.cluster.counts.rows, rows);
    }

    /// Rows of the lane with this number here will not come in this lane below.
    pub fn lost(&mut self, number: u32, below: u64, (from, to): (u64, u64), here: &Here) {
        let shared = self.node.clone();
        let mut node = shared.lock();
        let is_linked = node.link().is_linked(self.connection);
        if !is_linked || number == LANE && node.lanes().id_of(LANE).is_none() {
            if let Some((_, base)) = self.base.as_mut().filter(|(known, _)| number == LANE && *known == below)
            {
                // Another hub may have them. They are lost when this one speaks for the node.
                base.lacks(from, to);
            }
            return;
        }
        let (mut from, mut added) = (from, 0);
        if let Some(one) = self.channels.iter_mut().find(|one| one.lane.number() == number) {
            one.passed(below, to);
            // Rows that another lane below has sent, or may send, are not lost. Rows that perhaps nobody lacks are
            // not lost either.
            from = from.max(one.lane.next()).max(one.lane.spare_until());
            let to_come = one.oldest_to_come().unwrap_or(to);
            if from < to.min(to_come) {
                lose(&mut node, number, (from, to.min(to_come)), here);
            }
            added = one.write_due(&mut node, here).unwrap_or(0);
        } else {
            lose(&mut node, number, (from, to), here);
        }
        self.came(&mut node, number, added, here);
    }

    /// A lane below that fed lane `number` here is over. `ended` is `None` if the lane was closed; otherwise the connection has
    /// ended.
    pub fn closed(&mut self, number: u32, (below, wanted): (u64, &Wanted), ended: Option<&str>, here: &Here) {
        if number == LANE {
            if self.base.as_ref().is_some_and(|(known, _)| *known == below) {
                match ended {
                    Some(problem) => self.disconnect(problem),
                    None => {
                        self.disconnect(&format!("hub {} has it no more", here.hub));
                        self.lose_former(here);
                    }
                }
                self.base = None;
            }
            return;
        }
        let Some(at) = self.channels.iter().position(|one| one.lane.number() == number) else { return };
        let one = &mut self.channels[at];
        one.below.retain(|&(known, _)| known != below);
        if let (Wanted::Channel(channel), Some(_)) = (wanted, ended) {
            one.to_return.push(channel.clone());
        }
        if !one.early.is_empty() {
            // Nothing older comes of the lane that is over.
            let mut node = self.node.lock();
            let is_linked = node.link().is_linked(self.connection);
            let added = if is_linked { one.write_due(&mut node, here).unwrap_or(0) } else { 0 };
            node.has_news(number);
            self.node.news(&mut node);
            Counts::add(&here.cluster.counts.rows, added);
        }
        let is_last = self.base.is_none() && self.channels.iter().all(|one| one.below.is_empty());
        if let Some(problem) = ended.filter(|_| is_last) {
            self.disconnect(problem);
        }
        if !self.channels[at].below.is_empty() || ended.is_some() {
            return;
        }
        self.channels.remove(at);
        let mut node = self.node.lock();
        if node.link().is_linked(self.connection) {
            node.close_lane(number);
            drop(node);
            self.node.touch();
        }
    }
}

fn lose(node: &mut Node, number: u32, rows: (u64, u64), here: &Here) {
    if let Some(id) = node.lanes().id_of(number) {
        lose_of(node, id, rows, here);
    }
}

fn lose_of(node: &mut Node, id: u64, (from, to): (u64, u64), here: &Here) {
    let name = node.name.clone();
    if let Some(place) = node.lanes_mut().get_mut(id) {
        let lost = place.lose(from, to);
        if place.is_logged() {
            here.cluster.kept_losses.add(&name, &place.name, lost);
        }
        Counts::add(&here.cluster.counts.rows_lost, lost);
    }
}

/// Lost rows of its base lane.
impl NodeBelow {
    /// The base lane below is over. If no connection speaks for the node now, rows that were lost in it are
    /// lost here, too.
    fn lose_former(&mut self, here: &Here) {
        let Some((_, base)) = &mut self.base else { return };
        let (lost, epoch) = (base.take_lost(), base.epoch());
        let mut node = self.node.lock();
        let id = node.lanes().base_of(epoch).map(|lane| lane.id);
        let Some(id) = id.filter(|_| !node.link().is_up() && !lost.is_empty()) else { return };
        lost.into_iter().for_each(|rows| lose_of(&mut node, id, rows, here));
        self.node.news(&mut node);
    }
}

/// The requests of readers here.
impl NodeBelow {
    /// The node refuses a channel.
    pub fn refuses(&mut self, channel: &Arc<FollowedChannel>, text: &str) {
        self.refused.retain(|(known, _)| !Arc::ptr_eq(known, channel));
        self.channels.iter_mut().for_each(|one| one.to_return.retain(|known| !Arc::ptr_eq(known, channel)));
        self.refused.push((channel.clone(), text.to_owned()));
        if let Some(terms) = channel.terms_at(self.node.name.as_str()) {
            self.refuse(&terms, &Answer { granted: false, text: text.to_owned() });
        }
    }

    /// The subscriptions that want the rows of these terms, and have no lane, get this answer.
    pub fn refuse(&self, terms: &Terms, answer: &Answer) {
        if self.channels.iter().any(|one| one.terms.has_rows_of(terms)) {
            return;
        }
        let mut node = self.node.lock();
        if !node.link().is_linked(self.connection) {
            return;
        }
        for number in node.subscriptions().wanting(terms) {
            node.answered(number, answer.clone(), None);
        }
        drop(node);
        self.node.touch();
    }

    /// The hub below refuses a channel, of all its nodes.
    pub fn refused_by_hub(&self, channel: &Arc<FollowedChannel>, here: &Here) {
        let name = self.node.name.as_str();
        let Some(terms) = channel.terms_at(name) else { return };
        if let Some(problem) = here.asked.as_ref().and_then(|asked| asked.problem(&terms, name)) {
            self.refuse(&terms, &here.through(&format!(": {problem}")));
        }
    }

    /// How often rows come that way, in words.
    fn often(&self) -> String {
        Rate::from_period(self.period).map_or_else(String::new, |rate| format!(", {}", rate.often()))
    }

    /// A reader here has subscribed.
    pub fn wanted(&mut self, number: u32, terms: &Terms, here: &Here) {
        let name = self.node.name.as_str();
        let mut node = self.node.lock();
        if !node.link().is_linked(self.connection) {
            return;
        }
        if terms.channel.is_some()
            && let Some(one) = self.channels.iter_mut().find(|one| one.terms.has_rows_of(terms))
            && let Some(id) = one.lane.open(&mut node)
        {
            one.serve(&mut node, number, id, &here.cluster);
            drop(node);
            return self.node.touch();
        }
        let refused = self.refused.iter().find(|(channel, _)| channel.is_of(terms, name));
        let answer = match (&terms.channel, &here.asked) {
            (None, _) => here.through(&self.often()),
            (Some(_), None) => here.through(", which passes no channels on: ask that hub"),
            (Some(_), Some(asked)) => match (refused, asked.problem(terms, name)) {
                (Some((_, text)), _) => Answer { granted: false, text: text.clone() },
                (None, Some(problem)) => here.through(&format!(": {problem}")),
                // Its lane comes, or its refusal.
                (None, None) => Answer { granted: true, text: String::new() },
            },
        };
        node.answered(number, answer, None);
        drop(node);
        self.node.touch();
    }
}
