//! One node as the hub sees it. [`Node`] only routes calls: each part below has private fields, changes itself, and
//! returns the commands for the node. [`Node`] sends them.
//!
//! | part | owns |
//! |---|---|
//! | [`link_state`] | the connection that speaks for the node, and whether the node is up, down, left or silent |
//! | [`lanes`] | the lanes, their numbers on the connection, what they count ([`counted`]) |
//! | [`subscriptions`] | what readers want beyond the base lane |
//! | [`requests`] | rows that readers want right now |
//! | [`holding`] | what the node makes the hub hold |
//! | [`crate::texts`] | kernel texts that readers want |
//! | [`shared`] | the node inside its lock |

use std::sync::Arc;

use khz_link::Reason;
use khz_link::former::channel_of;
use khz_model::{Bell, LaneStatus, Nanos, NodeName, NodeStatus, Rate};

use crate::clock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::lane::{ComparedWith, Lane};
use crate::limits::GONE_KEPT;
use crate::mailbox::Command;
use crate::memory::Entry;
use crate::round::Round;
use crate::schemas::Schema;
use crate::texts::Texts;

mod counted;
mod holding;
mod lanes;
mod link_state;
mod reports;
mod requests;
mod shared;
mod subscriptions;
mod up_longer;

pub(crate) use counted::Counted;
use holding::Holding;
pub(crate) use holding::NoRoom;
pub(crate) use lanes::{BASE, Lanes};
use link_state::LinkState;
pub(crate) use link_state::{Arrival, Identity, Link, SOURCE_SHIFT, THROUGH_HUB, silent_after};
pub(crate) use requests::{EVERYTHING, Files, RowRequest};
use requests::{Outcome, Requests};
pub(crate) use shared::SharedNode;
use subscriptions::Subscriptions;
pub(crate) use subscriptions::{Answer, Start, Terms};

/// The answer in place of a node that does not know channels.
const TOO_OLD_FOR_CHANNELS: &str = "its khz is older than channels: update it";

/// What the hub knows of a node.
#[derive(Debug)]
pub(crate) struct Node {
    pub name: NodeName,
    link: LinkState,
    lanes: Lanes,
    subscriptions: Subscriptions,
    requests: Requests,
    texts: Texts,
    holding: Holding,
}

impl Node {
    fn new(name: NodeName, now: Nanos) -> Self {
        Node {
            name,
            link: LinkState::new(now),
            lanes: Lanes::default(),
            subscriptions: Subscriptions::new(now),
            requests: Requests::default(),
            texts: Texts::new(now),
            holding: Holding::new(now),
        }
    }

    /// Which connection speaks for the node, and how it is.
    pub fn link(&self) -> &LinkState {
        &self.link
    }

    /// The link state, to note what the node reports about itself.
    pub fn link_mut(&mut self) -> &mut LinkState {
        &mut self.link
    }

    /// Its lanes.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The lanes, to take in what comes.
    pub fn lanes_mut(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Its kernel texts, and the connection over which they are asked for.
    pub fn texts(&mut self) -> (&mut Texts, Option<&Link>) {
        (&mut self.texts, self.link.link())
    }

    /// Its subscriptions.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Its status, with the lanes that run.
    pub fn status(&self, now: Nanos) -> NodeStatus {
        let offset = self.link.beats().clock_offset;
        let lanes =
            self.running().filter_map(|lane| lane_status(lane, self.subscriptions.rate_of(lane.id), offset));
        self.link.status(&self.name, lanes.collect(), now)
    }

    /// Its entry in the roster; `None` if it was never heard.
    pub fn entry(&self, now: Nanos) -> Option<Entry> {
        self.link.entry(&self.name, now)
    }

    /// The base lane, and the lanes whose rows readers want. Other lanes send no rows: a lane may only be offered, may have
    /// ended, or its readers may have left it, such as the local lane that every node has.
    fn running(&self) -> impl Iterator<Item = &Lane> {
        let lanes = self.lanes.present().iter().filter(|lane| lane.has_rows());
        lanes.filter(|lane| lane.name == BASE || lane.alive && self.subscriptions.need(lane.id))
    }

    /// The schema of its base lane, once the node has sent it.
    pub fn schema(&self) -> Option<Arc<Schema>> {
        let schema = self.lanes.base()?.newest_schema()?;
        (!schema.series().is_empty()).then_some(schema)
    }
}

/// How connections come and go.
impl Node {
    /// Whether a connection of this identity may speak for the node now.
    pub fn admits(&self, identity: &Identity) -> Result<(), (Reason, String)> {
        self.link.admits(&self.name, identity)
    }

    /// This connection speaks for the node from now on; the connection that did so before is cut.
    pub fn connect(&mut self, arrival: &Arrival<'_>, link: Link, now: Nanos) {
        if let Some(before) = self.link.connect(arrival, link.clone(), now) {
            before.send(Command::Cut { reason: Reason::Superseded, text: self.has_connected_again() });
        }
        self.holding.connected();
        self.hang_up();
        self.texts.connected(&link);
    }

    /// Why a connection is superseded.
    pub fn has_connected_again(&self) -> String {
        format!("{} has connected again", self.name)
    }

    /// Sends every subscription to the node, which has just connected.
    pub fn send_subscriptions(&mut self) {
        let commands: Vec<Command> = self.subscriptions.commands().collect();
        commands.into_iter().for_each(|command| self.send_subscription(command));
    }

    /// Sends a subscription. A node that is too old for channels gets none: the answer says that it is too
    /// old.
    fn send_subscription(&mut self, mut command: Command) {
        let link = self.link.link();
        if let Command::Interest { number, terms, is_own } = &mut command {
            *is_own &= link.is_some_and(Link::knows_own);
            if terms.channel.is_some() && link.is_some_and(|link| !link.takes_channels()) {
                let answer = Answer { granted: false, text: TOO_OLD_FOR_CHANNELS.to_owned() };
                return self.answered(*number, answer, None);
            }
        }
        self.link.send(command);
    }

    /// The connection has ended. `false`: it did not speak for the node any more.
    pub fn disconnect(&mut self, connection: u64, problem: Option<String>, now: Nanos) -> bool {
        let was_linked = self.link.disconnect(connection, problem, now);
        if was_linked {
            self.hang_up();
            self.texts.disconnected();
        }
        was_linked
    }

    /// Removes everything that belonged to a connection.
    fn hang_up(&mut self) {
        self.lanes.hang_up();
        self.subscriptions.hang_up();
        self.requests.hang_up();
    }

    fn send(&self, commands: impl IntoIterator<Item = Command>) {
        commands.into_iter().for_each(|command| self.link.send(command));
    }
}

/// What the store gets.
impl Node {
    /// If the hub has a store, the rows of this lane go there from now on: this holds for the base lane, and for lanes in which a
    /// kept channel runs or ran.
    pub fn log_lane(&mut self, lane: u64, cluster: &Cluster) {
        let Some(intake) = cluster.intake() else { return };
        let is_direct = self.link.is_direct();
        let Node { name, lanes, subscriptions, .. } = self;
        let is_former =
            |lane: &Lane| channel_of(&lane.name).is_some_and(|name| subscriptions.keep_channel(name));
        let is_kept = |lane: &Lane| lane.name == BASE || subscriptions.are_kept(lane.id) || is_former(lane);
        if let Some(lane) = lanes.get_mut(lane).filter(|lane| is_kept(lane)) {
            let is_new = !lane.is_logged();
            lane.log_to(intake, name);
            if is_new && is_direct {
                lane.await_clock();
            }
        }
    }

    /// The store no longer keeps the rows of a subscription: the rows that came before stay there.
    pub fn forsake(&mut self, subscription: u32) {
        self.subscriptions.forsake(subscription);
        let Some(lane) = self.subscriptions.get(subscription).and_then(|known| known.lane()) else { return };
        if !self.subscriptions.are_kept(lane)
            && let Some(lane) = self.lanes.get_mut(lane).filter(|lane| lane.name != BASE)
        {
            lane.log_no_more();
        }
    }

    /// The lane that serves a subscription.
    pub fn lane_of(&self, subscription: u32) -> Option<u64> {
        self.subscriptions.get(subscription)?.lane()
    }

    /// The node's clock was measured: it is this much ahead.
    pub fn set_clock(&mut self, ahead: i64, of: ComparedWith) {
        self.lanes.logged_mut().for_each(|lane| lane.set_clock(ahead, of));
    }

    /// The same for lanes that have come since it was measured.
    pub fn set_clock_of_new_lanes(&mut self, ahead: i64, of: ComparedWith) {
        let new = self.lanes.logged_mut().filter(|lane| lane.lacks_clock());
        new.for_each(|lane| lane.set_clock(ahead, of));
    }
}

/// What readers want.
impl Node {
    /// One more reader subscribes. `None`: there are too many different subscriptions, or too many new ones came of late.
    pub fn subscribe(&mut self, terms: &Arc<Terms>) -> Option<u32> {
        self.subscribe_for(terms, false)
    }

    /// The same; with `is_kept` for the store, which has places of its own.
    pub fn subscribe_for(&mut self, terms: &Arc<Terms>, is_kept: bool) -> Option<u32> {
        let (number, command) = self.subscriptions.subscribe(terms, is_kept, clock::boot())?;
        command.into_iter().for_each(|command| self.send_subscription(command));
        Some(number)
    }

    /// A reader ends its subscription.
    pub fn unsubscribe(&mut self, number: u32) {
        if let Some(command) = self.subscriptions.unsubscribe(number) {
            self.send([command]);
            self.leave_unneeded_lanes();
        }
    }

    /// The node has answered a subscription, and perhaps named the lane that serves it.
    pub fn answered(&mut self, number: u32, answer: Answer, lane: Option<u64>) {
        if !answer.granted {
            self.requests.refused(number);
        }
        let served = lane.and_then(|id| Some((id, self.start_of(id)?)));
        self.subscriptions.answered(number, answer, served);
        self.leave_unneeded_lanes();
    }

    /// Leaves the lanes that serve no subscription. While a subscription is not answered, no lane is left: a lane may be
    /// the one that will serve it, and its Want may be sent before the Leave.
    fn leave_unneeded_lanes(&mut self) {
        if !self.link.is_up() || !self.subscriptions.are_answered() {
            return;
        }
        let commands =
            self.lanes.leave_all_but(|lane| self.subscriptions.need(lane.id) || lane.is_former_of_channel());
        self.send(commands);
    }

    /// The node has closed a lane that readers opened.
    pub fn close_lane(&mut self, number: u32) {
        if let Some(id) = self.lanes.close(number) {
            self.subscriptions.lane_closed(id);
        }
    }

    /// The node offers a lane for a subscription.
    pub fn serve(&mut self, subscription: u32, lane: u64) {
        if let Some(start) = self.start_of(lane) {
            self.subscriptions.serve(subscription, lane, start);
        }
    }

    /// Where a lane is now: rows before this were made before now.
    fn start_of(&self, lane: u64) -> Option<Start> {
        self.lanes
            .get(lane)
            .map(|lane| Start { epoch: lane.epoch, row: lane.next_row().max(lane.next_offered) })
    }

    /// The row at which a reader begins that subscribes to a channel now; `None`: where the lane begins to serve. With `is_state` it
    /// begins with the newest row here, since the next row may come much later.
    pub fn start_of_reader(&self, subscription: u32, is_state: bool) -> Option<Start> {
        let start = self.subscriptions.get(subscription)?.start()?;
        let is_it = |lane: &&Lane| lane.epoch == start.epoch;
        let Some(lane) = self.lanes.present().iter().find(is_it) else { return Some(start) };
        let Some(now) = self.start_of(lane.id).filter(|now| now.row > start.row) else { return Some(start) };
        let newest = lane.newest_number().filter(|newest| is_state && newest + 1 == now.row);
        Some(Start { row: newest.unwrap_or(now.row), ..now })
    }

    /// Rows of a lane are wanted from this row on (`None`: from the first that comes).
    pub fn want(&mut self, lane: u64, from: Option<u64>) {
        let commands = self.lanes.want(lane, from, self.can_resend());
        self.send(commands);
    }

    /// A reader of a subscription sleeps until this bell rings: when rows have come.
    pub fn hear(&mut self, subscription: u32, bell: &Arc<Bell>) {
        self.subscriptions.hear(subscription, bell);
    }

    /// Rows of the lane with this number have come, or are lost: [`SharedNode::news`] rings for them.
    pub fn has_news(&mut self, lane: u32) {
        if self.subscriptions.have_bells()
            && let Some(id) = self.lanes.id_of(lane)
        {
            self.subscriptions.has_news(id);
        }
    }

    /// Asks the node to send rows of a lane again. `false`: it cannot be asked.
    pub fn resend(&mut self, lane: u64, from: u64, to: u64) -> bool {
        let command = self.lanes.resend(lane, from, to, self.can_resend());
        let is_asked = command.is_some();
        self.send(command);
        is_asked
    }

    /// True if the node is up and understands the frame Again.
    pub fn can_resend(&self) -> bool {
        self.link.link().is_some_and(|link| link.resends())
    }
}

/// Rows that readers want right now.
impl Node {
    /// A reader requests rows. Returns the number of the request that it waits for; `None`: it gets only the rows that
    /// are here.
    pub fn request(&mut self, request: &RowRequest<'_>, round: &Arc<Round>) -> Option<u32> {
        // A node that comes through another hub has only what that hub sends.
        if !self.link.is_direct() {
            return None;
        }
        self.requests.note(request.now);
        if !self.requests.covers(request.files) {
            let files = self.requests.widened(request.files);
            let number = self.subscribe(&Arc::new(requests::terms(&files)))?;
            if let Some(before) = self.requests.begin(files, number, request.now) {
                self.unsubscribe(before);
            }
        }
        match self.requests.request(request, round) {
            Outcome::Enough => None,
            Outcome::Wait(number) => Some(number),
            Outcome::Send(number) => {
                // Before its lane is there the request waits for the lane.
                if self.request_lane().is_some() {
                    self.send_request(request.counts);
                }
                Some(number)
            }
        }
    }

    /// The lane that answers requests.
    fn request_lane(&self) -> Option<u64> {
        self.subscriptions.get(self.requests.subscription()?)?.lane()
    }

    fn send_request(&self, counts: &Counts) {
        if let Some(command) =
            self.requests.subscription().and_then(|number| self.requests.lane_is_ready(number))
        {
            Counts::add(&counts.now_requests, 1);
            self.send([command]);
        }
    }

    /// A subscription has its lane: a request that waits for the lane is sent.
    pub fn lane_is_ready(&mut self, subscription: u32, counts: &Counts) {
        if self.link.is_up() && self.requests.subscription() == Some(subscription) {
            self.send_request(counts);
        }
    }

    /// The node has answered a request with rows of the lane of this number.
    pub fn request_answered(&mut self, lane: u32, request: u32, now: Nanos, counts: &Counts) {
        let lane = self.lanes.id_of(lane);
        if lane.is_none() || lane != self.request_lane() {
            return;
        }
        Counts::add(&counts.now_answers, 1);
        if let Some(next) = self.requests.answered(request, now) {
            Counts::add(&counts.now_requests, 1);
            self.send([next]);
        }
    }

    /// Ends the subscription of requests when no reader has requested rows for a while.
    fn end_unused_requests(&mut self, now: Nanos) {
        if let Some(number) = self.requests.end_if_unused(now) {
            self.unsubscribe(number);
        }
    }

    /// True if the node has answered this request, or a later one.
    pub fn has_answered(&self, request: u32) -> bool {
        self.requests.has_answered(request)
    }
}

/// What the node makes the hub hold.
impl Node {
    /// A piece of a schema came that costs this much. `false`: such pieces have cost too much of late.
    pub fn may_grow(&mut self, cost: usize, now: Nanos) -> bool {
        self.holding.may_grow(cost, now)
    }

    /// Bytes for its lanes came. Now and then, the memory that the node uses is counted; an error says that it uses
    /// too much.
    pub fn take_bytes(&mut self, bytes: usize, cluster: &Cluster) -> Result<(), NoRoom> {
        if self.holding.take_bytes(bytes) { self.count(cluster) } else { Ok(()) }
    }

    /// Counts what the node holds.
    pub fn count(&mut self, cluster: &Cluster) -> Result<(), NoRoom> {
        let (held, schemas) = self.held();
        self.holding.set(held, schemas, cluster)
    }

    /// Memory of itself and its lanes, and memory of its schemas.
    fn held(&self) -> (u64, u64) {
        let (lanes, schemas) = self.lanes.held();
        (size_of::<SharedNode>() as u64 + lanes, schemas)
    }

    /// When a node that is down frees the memory that is not needed; `None`: the node is up, or has
    /// already freed it.
    pub fn gives_back_at(&self) -> Option<Nanos> {
        self.holding.gives_back_at(self.link.changed()).filter(|_| !self.link.is_up())
    }

    /// Frees everything that is neither history nor read; with `all`, also history. The node's name, its status and which
    /// rows came stay known. `true`: something was freed.
    pub fn give_back(&mut self, cluster: &Cluster, all: bool) -> bool {
        let before = self.held();
        let is_all = self.lanes.give_back(cluster.keeps_history(), all);
        // Lanes that are read are tried again later.
        self.holding.gave_back(is_all);
        // It holds less than before.
        let _ = self.count(cluster);
        before != self.held()
    }

    /// Drops data that is no longer needed: old blocks beyond `history_bytes` a lane, late rows, requests. A node that is
    /// down also frees its memory when its time has come, or at once if memory is short; `true`: it did.
    pub fn keep_house(&mut self, cluster: &Cluster, history_bytes: u64, now: Nanos, is_short: bool) -> bool {
        self.lanes.trim(history_bytes);
        self.lanes.forget_late(now);
        self.end_unused_requests(now);
        let is_due = self.gives_back_at().is_some_and(|due| now >= due);
        (is_due || is_short && !self.link.is_up()) && self.give_back(cluster, is_short)
    }

    /// True if readers have waited long enough for rows that are missing: [`SharedNode::news`] rings for them.
    pub fn has_waited(&mut self, now: Nanos) -> bool {
        let lanes = self.lanes.take_waited(now);
        lanes.iter().for_each(|&lane| self.subscriptions.has_news(lane));
        !lanes.is_empty()
    }

    /// When the node needs attention even if nothing comes.
    pub fn next_due(&self, now: Nanos) -> Option<Nanos> {
        self.next_give_back(now).into_iter().chain(self.lanes.gap_until()).min()
    }

    /// When the node gives memory back next. A node that is read tries again after as long.
    fn next_give_back(&self, now: Nanos) -> Option<Nanos> {
        self.gives_back_at().map(|at| if at > now { at } else { Nanos(now.0 + GONE_KEPT.0) })
    }
}

/// The status of a lane that a reader asked for at the rate `asked`; no reader asks for the base lane.
fn lane_status(lane: &Lane, asked: Option<Rate>, clock_offset: Option<i64>) -> Option<LaneStatus> {
    let rate = Rate::from_period(lane.period)?;
    // The row's stamp is the node's; how far our clock is from the node's is known from the beats.
    let age = lane.newest().map(|stamp| {
        let theirs = i128::from(stamp.boot.0) + i128::from(stamp.real_offset);
        let ours = i128::from(clock::wall());
        let age = ours - theirs + i128::from(clock_offset.unwrap_or(0));
        Nanos(u64::try_from(age.max(0)).unwrap_or(u64::MAX))
    });
    Some(LaneStatus {
        name: lane.name.clone(),
        rate,
        asked: asked.unwrap_or(rate),
        slots: lane.slots() as u64,
        age,
        rows: lane.rows(),
        awaited: lane.awaited(),
        lost: lane.lost(),
        late: lane.late_rows,
    })
}

#[cfg(test)]
mod holding_tests;
#[cfg(test)]
mod tests;
