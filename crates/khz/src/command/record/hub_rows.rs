//! Rows from a hub: a subscription on the link for the time of the recording, whose blocks are written as they come. After a break,
//! the link reconnects and fetches the missed rows, as far as the hub or the nodes still have them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_block::SchemaDecoder;
use khz_block::trace::LaneHead;
use khz_client::Access;
use khz_link::LaneKey;
use khz_link::driver::{Event, Events, Following};
use khz_model::fold::fold;
use khz_model::hostlist::{EXPAND_MAX, Hostlist};
use khz_model::{ChannelName, Interest, Nanos, Pattern, Rate, Rounding};
use khz_record::{RecordError, Recorder};

use super::elsewhere::{Elsewhere, by_hub};
use super::unseen::Unseen;
use crate::show::outcome::{Failure, sentence};
use crate::show::table::printable;

/// Bytes that wait for the disk: some seconds of 128 nodes at 1,000 Hz.
const QUEUE_BYTES: usize = 256 << 20;
/// A running hub answers within this time.
const ANSWER: Duration = Duration::from_secs(5);
/// After the first rows, if no new node comes within this time, all nodes are there.
const LAST_NODE: Duration = Duration::from_millis(300);
/// Nodes send their rows after ten rows or a tenth of a second, whichever is later, and at least once a second. The hub
/// passes them on soon.
const FLUSH: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const PASSED_ON: Duration = Duration::from_millis(50);
/// The start of a hub's remark about patterns with unknown nodes.
pub const NOBODY: &str = "no node is called";

/// The problem with nodes that are connected to none of the hubs directly.
pub fn came_through(nodes: &BTreeSet<String>) -> String {
    format!(
        "{}: no rows at this rate through another hub, only one a second; name the hub to which the nodes connect, or record at 1Hz",
        printable(&fold(nodes))
    )
}

/// A hub and the rows that it sends.
pub struct HubRows {
    /// There are several hubs.
    has_others: bool,
    pub(super) following: Following,
    pub(super) events: Events,
    pub(super) interest: u32,
    /// Within this time, gathered rows have arrived.
    pub(super) flush: Duration,
    /// Remarks on rates that differ from the requested one; `None` for past rows and for a channel.
    rounding: Option<Rounding>,
    /// The channel of the rows; `None`: series as nodes gather them.
    channel: Option<ChannelName>,
    /// The number of each lane in the recording.
    lanes: HashMap<Arc<LaneKey>, u32>,
    /// Lanes that have not been closed.
    pub(super) open: HashSet<Arc<LaneKey>>,
    nodes: HashSet<String>,
    /// Node and name of each lane that was open when the connection broke, and has not reappeared.
    pub(super) out_of_sight: HashSet<(String, String)>,
    /// For each lane, the first row of its incomplete block.
    pub(super) began: HashMap<u32, u64>,
    /// It copies past rows.
    is_past: bool,
    /// Events that came before there was a recorder.
    early: Vec<Event>,
    /// Why the hub refuses the subscription.
    pub(super) refused: Option<String>,
    /// Nodes that the hub knows, once its list is complete.
    known: Option<HashSet<String>>,
    listed: HashSet<String>,
    /// The patterns of the recording, and those that match nothing yet.
    patterns: Vec<Pattern>,
    unmatched: Vec<Pattern>,
    /// Patterns of series that do not exist yet at the time of the subscription.
    to_come: Vec<String>,
    /// The time of the subscription, by our clock since boot.
    began_at: Nanos,
    /// Nodes that were not there at that time.
    unseen: Unseen,
    /// Nodes that are at another one of the hubs.
    elsewhere: Elsewhere,
    /// Nodes that came through another hub, with one row a second instead of faster ones.
    declined: BTreeSet<String>,
    /// The last remark about each node and about the connection, by its subject.
    remarks: HashMap<String, String>,
}

impl HubRows {
    /// Subscribes, and waits until rows come. `asked`: the patterns whose series should already exist.
    pub fn start(access: &Access, interest: &Interest, asked: &[Pattern]) -> Result<Self, Failure> {
        let mut hub = HubRows::begin(access, interest, None)?;
        hub.to_come =
            interest.patterns.iter().filter(|one| !asked.contains(one)).map(ToString::to_string).collect();
        Ok(hub)
    }

    /// The same for past rows: those of the base lanes in the last `span`, as far as the hub has them.
    pub fn start_past(access: &Access, interest: &Interest, span: Nanos) -> Result<Self, Failure> {
        HubRows::begin(access, interest, Some(span))
    }

    fn begin(access: &Access, interest: &Interest, past: Option<Nanos>) -> Result<Self, Failure> {
        let settings = access.settings().map_err(|error| Failure::usage(sentence(&error)))?;
        let has_others = settings.hubs.len() > 1;
        let began_at = super::now();
        let broken = |error: std::io::Error| Failure::work(format!("cannot start a link: {error}"));
        let (sink, events) = Events::with_past(QUEUE_BYTES, past.unwrap_or(Nanos(0))).map_err(broken)?;
        let following = Following::start(settings, sink).map_err(broken)?;
        let number = match past {
            Some(_) => following.subscribe_past(interest),
            // Each row of a channel comes at once, as for other readers.
            None => following.subscribe(interest, interest.channel.is_some()),
        };
        let number = number.map_err(Failure::usage)?;
        following.roster(true);
        let mut hub = HubRows {
            has_others,
            following,
            events,
            interest: number,
            rounding: (past.is_none() && interest.channel.is_none()).then(|| Rounding::new(interest.rate)),
            channel: interest.channel.as_ref().map(|channel| channel.name.clone()),
            flush: (10 * Duration::from(interest.rate.period())).clamp(FLUSH.0, FLUSH.1) + PASSED_ON,
            lanes: HashMap::new(),
            open: HashSet::new(),
            nodes: HashSet::new(),
            out_of_sight: HashSet::new(),
            began: HashMap::new(),
            is_past: past.is_some(),
            early: Vec::new(),
            refused: None,
            known: None,
            listed: HashSet::new(),
            patterns: interest.patterns.clone(),
            // A channel selects its series itself, and some of them may not exist yet.
            unmatched: if interest.channel.is_some() { Vec::new() } else { interest.patterns.clone() },
            to_come: Vec::new(),
            began_at,
            unseen: Unseen::default(),
            elsewhere: Elsewhere::default(),
            declined: BTreeSet::new(),
            remarks: HashMap::new(),
        };
        match hub.channel {
            Some(_) => hub.wait_for_answer()?,
            None => hub.wait_for_rows(Duration::from(interest.rate.period()))?,
        }
        Ok(hub)
    }

    /// Waits until the hub has granted the subscription, since a channel may have no row for days. Remarks of nodes then come
    /// within the time for the last node.
    fn wait_for_answer(&mut self) -> Result<(), Failure> {
        let (mut until, mut problem, mut is_granted) = (Instant::now() + ANSWER, None, false);
        while let Some(event) = self.events.next_within(until.saturating_duration_since(Instant::now())) {
            match &event {
                Event::Told { granted: false, text, .. } => return Err(Failure::work(text.clone())),
                Event::Told { .. } if !is_granted => {
                    (is_granted, until) = (true, Instant::now() + LAST_NODE);
                }
                Event::Down { problem: text } => problem = Some(text.clone()),
                _ => {}
            }
            self.early.push(event);
        }
        match (is_granted, problem) {
            (true, _) => Ok(()),
            (false, Some(problem)) => Err(Failure::work(problem)),
            (false, None) => {
                Err(Failure::work("the hub does not answer: `khz nodes --server` says whether it runs"))
            }
        }
    }

    /// Waits for the first schema: it comes before the first row of its lane.
    fn wait_for_rows(&mut self, period: Duration) -> Result<(), Failure> {
        let (latest, mut problem) = (Instant::now() + ANSWER + 2 * period, None);
        let mut until = latest;
        // A node with a growing schema sends more pieces, but is no new node.
        let mut nodes: HashSet<String> = HashSet::new();
        while let Some(event) = self.events.next_within(until.saturating_duration_since(Instant::now())) {
            match &event {
                Event::Schema { lane, .. } if nodes.insert(lane.node.clone()) => {
                    until = latest.min(Instant::now() + LAST_NODE);
                }
                Event::Down { problem: text } => problem = Some(text.clone()),
                Event::Told { granted: false, text, .. } => return Err(Failure::work(text.clone())),
                // A user should not wait for seconds to learn of a misspelt name.
                Event::Told { text, .. } if !text.is_empty() => {
                    self.told(text.clone());
                    continue;
                }
                Event::Up { .. } => {
                    self.remarks.clear();
                    continue;
                }
                _ => {}
            }
            self.early.push(event);
            if until <= Instant::now() {
                break;
            }
        }
        let declined = |event: &Event| match event {
            Event::Declined { node } => Some(node.clone()),
            _ => None,
        };
        let through: BTreeSet<String> = self.early.iter().filter_map(declined).collect();
        match (!nodes.is_empty(), problem) {
            (true, _) => Ok(()),
            (false, _) if !through.is_empty() => Err(Failure::work(came_through(&through))),
            (false, Some(problem)) => Err(Failure::work(problem)),
            (false, None) => Err(Failure::work(
                "no row has come for these patterns: `khz nodes` says which nodes are up, `khz catalog` what there is",
            )),
        }
    }

    /// Copies what has come since the last call.
    pub fn copy(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        self.take_early(recorder)?;
        while let Some(event) = self.events.try_next() {
            self.take(event, recorder)?;
        }
        for text in self.elsewhere.news(Instant::now()) {
            crate::show::table::remark!("{text}");
        }
        Ok(())
    }

    /// Handles events that came before there was a recorder. Lanes come before the list that tells which nodes are known.
    fn take_early(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        let early = std::mem::take(&mut self.early);
        if early.is_empty() {
            return Ok(());
        }
        if !self.is_past {
            recorder.begin_at(self.began_at);
            let down = |event: &Event| match event {
                Event::Node { node, is_up: false } => Some(node.clone()),
                _ => None,
            };
            let down: Vec<String> = early.iter().filter_map(down).collect();
            down.iter().for_each(|node| self.unseen.is_down(node));
            self.remark_down(down);
        }
        let taken = early.into_iter().try_for_each(|event| self.take(event, recorder));
        self.unseen.begun();
        taken
    }

    pub(super) fn take(&mut self, event: Event, recorder: &mut Recorder) -> Result<(), RecordError> {
        match event {
            Event::Lane { lane, period, next_row, .. } => self.lane(lane, period, next_row, recorder),
            Event::Schema { lane, generation, offset, bytes } => {
                self.match_patterns(&lane, offset, &bytes);
                match self.lanes.get(&lane) {
                    Some(&number) => recorder.schema(number, generation, offset, &bytes),
                    None => Ok(()),
                }
            }
            Event::Node { node, .. } => {
                self.listed.insert(node);
                Ok(())
            }
            Event::Nodes => {
                // One list is enough: a later node is recorded, and so known.
                self.known = Some(std::mem::take(&mut self.listed));
                self.following.roster(false);
                Ok(())
            }
            Event::Block { lane, bytes } => match self.lanes.get(&lane) {
                Some(&number) if !self.unseen.is_old_block(&lane, &bytes) => {
                    self.nodes.insert(lane.node.clone());
                    recorder.block(number, &bytes)
                }
                _ => Ok(()),
            },
            Event::Began { lane, row } => {
                if let Some(&number) = self.lanes.get(&lane)
                    && !self.unseen.is_old(&lane, row + 1)
                {
                    self.nodes.insert(lane.node.clone());
                    self.began.insert(number, row);
                }
                Ok(())
            }
            Event::Heard { lane, stamp, period } => {
                if let Some(&number) = self.lanes.get(&lane)
                    && !self.unseen.has(&lane)
                {
                    recorder.heard(number, stamp, period, super::now());
                }
                Ok(())
            }
            Event::Lost { lane, from, to } => match self.lanes.get(&lane) {
                Some(&number) => recorder.lost(number, from, to),
                None => Ok(()),
            },
            Event::Closed { lane } => {
                self.open.remove(&lane);
                Ok(())
            }
            Event::Told { granted, text, .. } => {
                if !granted {
                    self.refused = Some(text);
                } else if !text.is_empty() {
                    self.told(text);
                }
                Ok(())
            }
            Event::Down { problem } => {
                let name = |lane: Arc<LaneKey>| (lane.node.clone(), lane.name.clone());
                let seen = self.open.drain().filter(|lane| !self.unseen.has(lane));
                self.out_of_sight.extend(seen.map(name));
                self.began.clear();
                self.remark(problem);
                Ok(())
            }
            Event::Up { .. } => {
                self.remarks.clear();
                Ok(())
            }
            Event::Declined { node } => {
                self.declined.insert(node);
                Ok(())
            }
            Event::Elsewhere { nodes } => {
                self.elsewhere.are(nodes, Instant::now());
                Ok(())
            }
        }
    }

    /// Nodes that were at another one of the hubs all the time, by hub.
    pub fn never_here(&self) -> BTreeMap<String, Vec<String>> {
        by_hub(self.elsewhere.nodes().iter().filter(|(node, _)| !self.nodes.contains(*node)))
    }

    /// Nodes that came through another hub all the time, and were at none of the hubs.
    pub fn never_direct(&self) -> BTreeSet<String> {
        let is_nowhere =
            |node: &&String| !self.nodes.contains(*node) && !self.elsewhere.nodes().contains_key(*node);
        self.declined.iter().filter(is_nowhere).cloned().collect()
    }

    fn lane(
        &mut self,
        lane: Arc<LaneKey>,
        period: Nanos,
        next_row: u64,
        recorder: &mut Recorder,
    ) -> Result<(), RecordError> {
        self.remark_rate(period);
        let next = self.lanes.len() as u32 + 1;
        let number = *self.lanes.entry(lane.clone()).or_insert(next);
        self.unseen.offered(&lane, next_row);
        if !self.unseen.has(&lane) {
            self.nodes.insert(lane.node.clone());
        }
        self.out_of_sight.remove(&(lane.node.clone(), lane.name.clone()));
        let LaneKey { node, name, epoch } = &*lane;
        // A channel has one lane at a node, whose rows come at any time.
        let of_channel = self.channel.as_ref().map(ChannelName::metric);
        let (name, period) = of_channel.as_ref().map_or((name, period), |name| (name, Nanos(0)));
        let head = LaneHead { lane: number, node, name, epoch: *epoch, period: period.0 };
        recorder.lane(&head)?;
        self.open.insert(lane);
        Ok(())
    }

    /// Prints which nodes of the patterns are not up at the start of the recording. With several hubs, another hub may have them.
    fn remark_down(&self, mut down: Vec<String>) {
        let is_chosen = |node: &String| self.patterns.iter().any(|pattern| pattern.matches_node(node));
        down.retain(is_chosen);
        down.sort();
        down.dedup();
        if !down.is_empty() && !self.has_others {
            let (are, they, have) =
                if down.len() == 1 { ("is", "it", "has") } else { ("are", "they", "have") };
            let nodes = printable(&fold(&down));
            crate::show::table::remark!(
                "{nodes} {are} not up: {they} {have} no rows until {they} {are} back"
            );
        }
    }

    /// Says that rows come at another rate, and why.
    fn remark_rate(&mut self, period: Nanos) {
        let rounding = self.rounding.as_mut().zip(Rate::from_period(period));
        if let Some(text) = rounding.and_then(|(rounding, rate)| rounding.news(rate)) {
            self.remark(text);
        }
    }

    /// Handles a hub's remark on the subscription. Each of several hubs knows other nodes. Only the end shows which nodes no hub
    /// knows.
    fn told(&mut self, text: String) {
        let is_early = self.to_come.iter().any(|one| text.starts_with(&format!("nothing matches {one}")));
        let is_known_elsewhere = self.has_others && text.starts_with(NOBODY);
        if !is_early && !is_known_elsewhere {
            self.remark(text);
        }
    }

    /// Prints a remark on stderr, unless it repeats the last one about the same subject.
    fn remark(&mut self, text: String) {
        let about = text.split_once(": ").map_or(text.as_str(), |(about, _)| about).to_owned();
        if self.remarks.get(&about) != Some(&text) {
            crate::show::table::remark!("{text}");
            self.remarks.insert(about, text);
        }
    }

    /// Why no more rows will come; `None` while they come.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Rows that were dropped because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        self.events.dropped()
    }

    /// Removes the patterns that a lane's schema matches from the unmatched ones.
    fn match_patterns(&mut self, lane: &LaneKey, offset: u64, bytes: &[u8]) {
        if offset > 0 || self.unmatched.is_empty() {
            return;
        }
        let mut schema = SchemaDecoder::new();
        // The recorder reports damage.
        if schema.feed(bytes).is_ok() {
            self.unmatched.retain(|pattern| {
                let alone = std::slice::from_ref(pattern);
                !pattern.matches_node(&lane.node) || !schema.series().iter().any(|s| s.is_selected(alone))
            });
        }
    }

    /// Named nodes that sent nothing: those that the hub knows, and those that it does not know. A list that does not spell
    /// out its nodes counts as unknown if no known node matches it.
    pub fn missing(&self, patterns: &[Pattern]) -> (Vec<String>, Vec<String>) {
        let named = khz_model::pattern::named_nodes(patterns).into_iter();
        let is_nowhere =
            |node: &String| !self.nodes.contains(node) && !self.elsewhere.nodes().contains_key(node);
        let mut missing: Vec<String> = named.filter(is_nowhere).collect();
        missing.sort();
        missing.dedup();
        let is_known = |node: &String| self.known.as_ref().is_none_or(|known| known.contains(node));
        let (missing, mut unknown): (Vec<String>, Vec<String>) = missing.into_iter().partition(is_known);
        let lists = patterns.iter().filter_map(Pattern::nodes).flat_map(|nodes| nodes.beyond(EXPAND_MAX));
        let here = self.known.iter().flatten().chain(&self.nodes);
        let known: Vec<&String> = here.chain(self.elsewhere.nodes().keys()).collect();
        let is_nobodys = |list: &Hostlist| !known.iter().any(|node| list.matches(node));
        unknown.extend(lists.filter(is_nobodys).map(|list| list.to_string()));
        (missing, unknown)
    }

    /// Patterns that match nothing on the nodes that came. A hub reports them itself, unless it is an older one.
    pub fn unmatched(&self) -> Vec<String> {
        let speaks = |pattern: &&Pattern| self.nodes.iter().any(|node| pattern.matches_node(node));
        self.unmatched.iter().filter(speaks).map(ToString::to_string).collect()
    }

    /// True where the hub has sent a remark with this beginning.
    pub fn has_remarked(&self, beginning: &str) -> bool {
        self.remarks.values().any(|text| text.starts_with(beginning))
    }

    /// Copies past rows until the hub has closed all lanes.
    pub fn copy_past(&mut self, recorder: &mut Recorder) -> Result<Result<(), Failure>, RecordError> {
        self.copy(recorder)?;
        while !self.open.is_empty() {
            match self.events.next_within(ANSWER) {
                Some(Event::Down { problem }) => return Ok(Err(Failure::work(problem))),
                Some(event) => self.take(event, recorder)?,
                None => {
                    return Ok(Err(Failure::work(
                        "the hub has stopped answering; the file has the rows that came before. Check the hub, and record again",
                    )));
                }
            }
        }
        Ok(Ok(()))
    }
}
