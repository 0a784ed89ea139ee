//! Judges what a reader gets: every value is the value of its node and series at that moment, and the rows of a lane have no
//! gap, unless a fault happened meanwhile. In a channel, only faults that destroy the rows everywhere excuse a gap.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use khz_block::BlockError;
use khz_follow::{Follower, Lane, Lanes, Reader, Row, Subscriptions};
use khz_link::limits::VERSION;
use khz_link::{HubName, LaneOffer};
use khz_model::{Nanos, NodeName, Pattern};

use super::node::Node;
use super::reader::Interest;
use super::tape::{CHANNEL_LINGER, is_sent, seed, value};
use super::world::OF_TYPES;

/// The faults that happened. Without a fault no row may be lost.
#[derive(Debug, Default)]
pub struct Faults {
    pub now: Nanos,
    /// Hubs without memory for the past lose rows of readers that come a little later: everything is excused.
    pub has_no_memory: bool,
    happened: Vec<Fault>,
}

/// A fault of one node or of all nodes, as one hub or all hubs see it.
#[derive(Debug)]
struct Fault {
    at: Nanos,
    hub: Option<usize>,
    node: Option<String>,
    /// A program ended that had rows of channels which nobody else has.
    ends_channels: bool,
}

/// Rows that were under way still come.
const MARGIN: Nanos = Nanos::from_millis(500);

/// For this long after a fault rows may be late: a peer that was cut off comes back, and sends the missed rows first.
const RECOVERY: Nanos = Nanos::from_secs(8);

/// A lane that is flushed sends once a second, or after one and a half if its turn would come too soon.
const FLUSH_MAX: Nanos = Nanos::from_millis(1_700);

impl Faults {
    /// A fault happens.
    pub fn happen(&mut self, hub: Option<usize>, node: Option<&str>) {
        self.happened.push(Fault { at: self.now, hub, node: node.map(str::to_owned), ends_channels: false });
    }

    /// The same for a fault after which rows of channels may be lost: their lanes, or the readers of the
    /// lanes, are gone.
    pub fn end_channels(&mut self, hub: Option<usize>, node: Option<&str>) {
        self.happened.push(Fault { at: self.now, hub, node: node.map(str::to_owned), ends_channels: true });
    }

    fn excuse(&self, hub: usize, node: &str, since: Nanos) -> bool {
        self.excuse_if(hub, node, since, |_| true)
    }

    /// Whether rows of channels may be lost.
    fn excuse_channel(&self, hub: usize, node: &str, since: Nanos) -> bool {
        self.excuse_if(hub, node, since, |fault| fault.ends_channels)
    }

    fn excuse_if(&self, hub: usize, node: &str, since: Nanos, counts: impl Fn(&Fault) -> bool) -> bool {
        let concerns = |fault: &Fault| {
            fault.hub.is_none_or(|at| at == hub) && fault.node.as_deref().is_none_or(|whose| whose == node)
        };
        self.has_no_memory
            || self
                .happened
                .iter()
                .any(|fault| fault.at.0 + MARGIN.0 >= since.0 && concerns(fault) && counts(fault))
    }
}

/// The faults, shared by all judges.
pub type SharedFaults = Rc<RefCell<Faults>>;

/// What a reader has seen of a lane.
#[derive(Default)]
pub struct Seen {
    /// For each series, see [`seed`].
    seeds: Vec<u64>,
    /// The node has had none of the series since the last row: then no rows come.
    is_bare: bool,
    /// When the first row came: rows that were gathered before may have waited for a flush.
    joined: Nanos,
    /// The last row: its number, and when it was gathered.
    last: Option<(u64, Nanos)>,
}

/// What is wrong with the first row that a reader gets of a channel: it must be the first row since the reader
/// came.
fn first_of_channel(
    interest: &Interest,
    node: &str,
    (boot, now): (Nanos, Nanos),
    allowed: Nanos,
    up: Nanos,
) -> Option<String> {
    let channel = interest.channel.as_ref()?;
    // A row that waits for a flush comes to a reader who shares the lane with others.
    if boot.0.saturating_add(allowed.0.max(FLUSH_MAX.0)) < interest.asked.0 {
        return Some(format!("the row of {boot:?} is old"));
    }
    let came = Nanos(interest.asked.max(up).0 + MARGIN.0);
    let mut ticks = ticks(interest, came, boot);
    let lost = ticks.find(|&tick| is_certain(interest) && is_sent(node, channel, tick));
    let is_late = boot > came && now.since(boot).0 > allowed.0.saturating_add(MARGIN.0);
    let late = || is_late.then(|| format!("the row of {boot:?} is late at {now:?}"));
    lost.map(|tick| format!("the row of {boot:?} came, but not that of {tick:?}")).or_else(late)
}

/// Whether every node has such series at any time: without a series a row is not sent.
fn is_certain(interest: &Interest) -> bool {
    interest.pattern.ends_with(":*") || interest.pattern == "*"
}

/// The ticks of an interest after one time and before another.
fn ticks(interest: &Interest, after: Nanos, before: Nanos) -> impl Iterator<Item = Nanos> + use<> {
    let period = interest.period.0;
    (after.0 / period + 1..before.0.div_ceil(period)).map(move |tick| Nanos(tick * period))
}

/// The judge of one reader.
pub struct Judge {
    faults: SharedFaults,
    hub: usize,
    /// Lanes that were closed after rows had come: rows that are missed until they come again are lost.
    over: HashSet<String>,
    /// When the rows of channels that came were gathered, of each node and subscription, whatever their lane.
    of_lanes: HashMap<(NodeName, u32), BTreeSet<Nanos>>,
    subscriptions: Subscriptions<Interest>,
    /// When its connection was welcome: rows from before are not missed.
    up: Nanos,
    /// A row of a prompt lane has this long, and a row of a lane that is flushed a second more.
    late: Nanos,
    /// The version of the link that it speaks.
    pub version: u8,
    /// How often the hub said that it is too old for what it wants.
    pub told: u64,
    /// Times that it heard that a program is older than channels.
    pub too_old: u64,
    pub rows: u64,
    /// Rows of channels.
    pub of_channels: u64,
    pub gaps: u64,
}

/// A lane, whatever the connection.
fn name(lane: &Lane<Judge>) -> String {
    format!("{}:{} of epoch {:x}", lane.node(), lane.name(), lane.epoch())
}

impl Judge {
    /// A judge, with the follower that decodes for it.
    pub fn follower(faults: &SharedFaults, hub: usize, late: Nanos) -> Follower<Judge> {
        let (faults, over, subscriptions) = (faults.clone(), HashSet::new(), Subscriptions::default());
        let shared = subscriptions.clone();
        Follower::new(
            Judge {
                faults,
                hub,
                over,
                of_lanes: HashMap::new(),
                subscriptions,
                up: Nanos(0),
                late,
                version: VERSION,
                told: 0,
                too_old: 0,
                rows: 0,
                of_channels: 0,
                gaps: 0,
            },
            shared,
        )
    }

    /// An interest without rows although it should have rows of that node, if there is one.
    pub fn unserved<'a>(
        &self,
        interests: &'a [Interest],
        lanes: &Lanes<Judge>,
        node: &Node,
    ) -> Option<&'a Interest> {
        let now = self.faults.borrow().now;
        let concerned = |interest: &&Interest| {
            // Not every node has such series, and not every hub gets them.
            interest.channel.is_none()
                && interest.pattern != OF_TYPES
                && Pattern::new(&interest.pattern).is_ok_and(|pattern| node.has_some(&pattern))
        };
        interests.iter().filter(concerned).find(|interest| {
            let fresh = Nanos(interest.period.0 + FLUSH_MAX.0 + self.late.0 + 300_000_000);
            !lanes.iter().any(|lane| {
                let is_its =
                    lane.node().as_str() == &*node.name && lane.subscription().number == interest.number;
                is_its && lane.data.last.is_some_and(|(_, boot)| now.since(boot) < fresh)
            })
        })
    }

    /// A row of a channel that the node has sent and this reader does not have, some seconds after anything happened.
    pub fn missed(&self, interest: &Interest, lanes: &Lanes<Judge>, node: &Node) -> Option<Nanos> {
        let channel = interest.channel.as_ref().filter(|_| is_certain(interest))?;
        let now = self.faults.borrow().now;
        let settled = Nanos(now.0 - 2_900_000_000).max(Nanos(interest.asked.0 + MARGIN.0));
        let is_its = |lane: &&Lane<Judge>| {
            lane.node().as_str() == &*node.name && lane.subscription().number == interest.number
        };
        let last = lanes.iter().filter(is_its).filter_map(|lane| lane.data.last).map(|(_, boot)| boot).max();
        let sent = ticks(interest, settled, Nanos(now.0 - 2_100_000_000));
        let mut sent = sent.filter(|&tick| is_sent(&node.name, channel, tick));
        sent.find(|&tick| last.is_none_or(|last| last < tick))
    }

    /// How late a row may be.
    fn allowed(&self, interest: &Interest) -> Nanos {
        if self.subscriptions.get(interest.number).is_none() {
            return Nanos(u64::MAX);
        }
        Nanos(self.late.0 + if interest.prompt { 0 } else { FLUSH_MAX.0 })
    }
}

impl Reader for Judge {
    type Subscription = Interest;
    type Lane = Seen;

    fn offered(&mut self, _: &NodeName, _: &LaneOffer<'_>, _: &Interest) -> Option<Seen> {
        Some(Seen::default())
    }

    fn damaged(&mut self, lane: &mut Lane<Self>, error: &BlockError) {
        panic!("{}: {error}", name(lane));
    }

    fn columns(&mut self, lane: &mut Lane<Self>, known: usize) {
        let node = lane.node().clone();
        let (series, seen) = lane.parts();
        seen.is_bare |= series.is_empty();
        let unknown = series.iter().find(|series| !khz_link::knows(self.version, series));
        assert!(unknown.is_none(), "{unknown:?} came to a reader of version {}", self.version);
        seen.seeds.truncate(known);
        seen.seeds.extend(series[known..].iter().map(|series| seed(node.as_str(), series)));
    }

    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        let (key, node, period) = (name(lane), lane.node().clone(), lane.period());
        let faults = self.faults.borrow();
        let (now, boot, number) = (faults.now, row.stamp().boot, row.number());
        let allowed = self.allowed(lane.subscription());
        let interest = lane.subscription().clone();
        let seen = &mut lane.data;
        self.rows += 1;
        self.of_channels += u64::from(interest.channel.is_some());
        let excused = |since| faults.excuse(self.hub, node.as_str(), since);
        assert_eq!(row.all().count(), seen.seeds.len(), "{key}: slots and series");
        for (slot, (seed, reading)) in seen.seeds.iter().zip(row.all()).enumerate() {
            // A row that was gathered before a series came has none of it.
            let Some(found) = reading.value() else { continue };
            assert_eq!(found, value(*seed, boot), "{key}: row {number}, slot {slot}");
        }
        if let Some(channel) = &interest.channel {
            let came = self.of_lanes.entry((node.clone(), interest.number)).or_default();
            let last = came.last().copied().unwrap_or(boot);
            assert!(came.insert(boot), "twice: {key}: row {number} of {boot:?}, at {now:?}");
            let is_chosen = |tick: &Nanos| is_certain(&interest) && is_sent(node.as_str(), channel, *tick);
            let lost = ticks(&interest, last, boot).find(is_chosen);
            // Its lane may have ended before anybody asked for the channel again.
            let is_long = boot.since(last) >= CHANNEL_LINGER;
            let is_excused =
                lost.is_none() || is_long || faults.excuse_channel(self.hub, node.as_str(), last);
            let hub = self.hub;
            assert!(
                is_excused,
                "lost at hub {hub}: {key}: after the row of {last:?} that of {boot:?}, but not that of {lost:?}, at {now:?}"
            );
        }
        let was_bare = std::mem::take(&mut seen.is_bare);
        let Some((last_number, last)) = seen.last.replace((number, boot)) else {
            seen.joined = Nanos(now.0 + MARGIN.0);
            if let Some(problem) = first_of_channel(&interest, node.as_str(), (boot, now), allowed, self.up) {
                // The node may have been away when the reader came.
                assert!(
                    excused(interest.asked.since(RECOVERY)),
                    "{key}: asked at {:?}: {problem}",
                    interest.asked
                );
            }
            return;
        };
        assert!(number > last_number, "{key}: row {number} came after {last_number}");
        if boot <= last {
            // If a node comes another way, a reader begins there with its newest row, which it may have.
            return assert!(excused(last), "twice: {key}: row {number} of {boot:?} came after {last:?}");
        }
        // If only every k-th row comes, the second may follow the first sooner.
        let is_next = match interest.channel {
            Some(_) => number == last_number + 1,
            // If several rows have the same number, the first that comes is sent: the node may have moved to another hub before the
            // others.
            None if number == last_number + 1 => boot.0 < last.0 + 2 * period.0,
            None => boot.0 <= last.0 + period.0,
        };
        let is_late = boot > seen.joined && now.since(boot) > allowed;
        self.gaps += u64::from(!is_next);
        let what = format!("{key}: after the row of {last:?} that of {boot:?}, at {now:?}");
        assert!(is_next || was_bare || excused(last), "lost: {what}");
        assert!(!is_late || excused(now.since(RECOVERY)), "late: {what}");
    }

    fn lost(&mut self, lane: &mut Lane<Self>, from: u64, to: u64) {
        let faults = self.faults.borrow();
        let excused = |since| faults.excuse(self.hub, lane.node().as_str(), since);
        let is_excused = match lane.data.last {
            Some((_, last)) if lane.subscription().channel.is_some() => {
                faults.excuse_channel(self.hub, lane.node().as_str(), last)
            }
            Some((_, last)) => excused(last),
            // The subscription may have begun while its node was away, with the rows that were gathered since.
            None => self.over.contains(&name(lane)) || excused(faults.now.since(RECOVERY)),
        };
        assert!(
            is_excused,
            "{} at hub {}: rows {from}..{to} are lost at {:?}",
            name(lane),
            self.hub,
            faults.now
        );
    }

    fn closed(&mut self, lane: Lane<Self>, _: Option<&str>) {
        self.over.extend(lane.data.last.map(|_| name(&lane)));
    }

    fn up(&mut self, _: &HubName) {
        self.up = self.faults.borrow().now;
    }

    fn notice(&mut self, interest: &Interest, granted: bool, text: &str) {
        if interest.channel.is_some() && text.contains("khz is older than channels") {
            self.too_old += 1;
            return;
        }
        // The node was updated.
        if interest.channel.is_some() && self.too_old > 0 && text.ends_with("sends the channel now") {
            return;
        }
        if interest.pattern == OF_TYPES {
            let is_too_old = text.contains("too old");
            assert!(granted && (self.version < VERSION || !is_too_old), "{granted} {text:?}");
            self.told += u64::from(is_too_old);
            return;
        }
        // A node that has not connected yet is not known, nor are series that no node has so far: the hub reports that, and they
        // come.
        let will_come = interest.pattern == "job.*" && text.starts_with("nothing matches");
        let is_excused = granted && (text.starts_with("no node is called") || will_come);
        assert!(is_excused, "{interest:?}: {granted} {text:?}");
    }
}
