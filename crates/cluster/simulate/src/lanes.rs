//! The lanes of one simulated node: its base lane, and further lanes for interests and channels. Sends nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use khz_gather::{LINGER, LINGERING_MAX};
use khz_link::freeze::Frozen;
use khz_link::frozen::{Freezes, MaybeFrozen, Order};
use khz_link::{Answer, InterestFrame, Lane, Lanes, Overtaken};
use khz_model::{ChannelName, ChannelTerms, Nanos, NodeName, Notice, Pattern, Stamp};

use crate::ailing_ring::AilingRing;
use crate::chance;
use crate::channels::{Channels, Refusal};
use crate::faults::Fault;
use crate::job::row_in_step;
use crate::library::{Library, PERIOD_MIN};
use crate::made_ring::MadeRing;
use crate::played::Played;
use crate::reel::Reel;
use crate::ring::{PlayedRing, Score};
use crate::variation::Variation;

/// How channels of rules are called.
const RULES_PREFIX: &str = "khz_rules_";
/// How their lanes are called.
const RULES_LANE: &str = "channel.khz_rules_";

/// What a node plays, and how.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name.
    pub node: NodeName,
    /// The seed from which everything about the node is derived.
    pub seed: u64,
    /// The number of its recording.
    pub workload: usize,
    /// Time between two rows of the base lane.
    pub period: Nanos,
    /// It plays the same moment of its recording as the other nodes of its job.
    pub is_in_step: bool,
    /// How long blocks stay in its rings.
    pub held: Nanos,
    /// Random at the start of the simulation, so that rows of an earlier one are not taken for these.
    pub epoch: u64,
    /// It plays that it judges rules, and that none gives anything.
    pub quiet_rules: bool,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// When the simulation began, on CLOCK_BOOTTIME.
    pub zero: Nanos,
}

/// A lane at another rate than the base lane's.
struct Boost {
    /// The interest that it serves.
    interest: u32,
    /// What was asked for; `None`: a channel of rules, which nobody takes over.
    wanted: Option<(Nanos, Vec<Pattern>)>,
    ring: NodeLane,
}

/// What an interest in a channel asks for.
#[derive(Clone)]
struct Wish {
    number: u32,
    terms: Arc<ChannelTerms>,
    patterns: Vec<Pattern>,
    period: Nanos,
}

/// All lanes of one node.
pub struct NodeLanes {
    library: Rc<RefCell<Library>>,
    part: Part,
    base: Option<NodeLane>,
    /// The row of the reel at which the base lane begins.
    phase: u64,
    boosts: Vec<Boost>,
    /// Boosts without a reader: they live on for a while, as those of a real node do.
    lingering: Vec<(Boost, Nanos)>,
    /// Lanes on demand: they have the rows that were asked for.
    demands: Vec<(u32, NodeLane)>,
    channels: Channels,
    /// Channels that were refused for now. They are tried again when another interest has ended.
    waiting: Vec<Wish>,
    may_have_room: bool,
    answers: Vec<Answer>,
    /// Rows that a hub has asked to keep.
    freezes: Freezes<NodeLane>,
    revision: u64,
    made: u64,
    /// When a row on demand was last asked for.
    pub asked: Nanos,
    /// The moment at which interests and rows are handled.
    now: Stamp,
}

impl NodeLanes {
    /// A node that has not begun to play.
    pub fn new(library: Rc<RefCell<Library>>, part: Part) -> Self {
        NodeLanes {
            library,
            part,
            base: None,
            phase: 0,
            boosts: Vec::new(),
            lingering: Vec::new(),
            demands: Vec::new(),
            channels: Channels::default(),
            waiting: Vec::new(),
            may_have_room: false,
            answers: Vec::new(),
            freezes: Freezes::default(),
            revision: 0,
            made: 0,
            asked: Nanos(0),
            now: Stamp::default(),
        }
    }

    /// The base lane, once the node plays.
    pub fn base(&self) -> Option<&NodeLane> {
        self.base.as_ref()
    }

    /// Forgets everything, as a node that is booted does.
    pub fn forget(&mut self) {
        (self.base, self.channels) = (None, Channels::default());
        self.freezes = Freezes::default();
        self.boosts.clear();
        self.lingering.clear();
        self.demands.clear();
        self.waiting.clear();
        self.answers.clear();
        self.revision += 1;
    }

    /// Begins with the last tick.
    pub fn begin(&mut self, now: Stamp) {
        if self.base.is_none() {
            self.now = now;
            let reel = self.library.borrow_mut().reel(self.part.workload, self.part.period);
            let start = last_tick(now, self.part.period);
            self.phase = self.first_row(reel.rows(), start);
            self.base = Some(self.ring("base".into(), reel, self.phase, start, false));
            self.revision += 1;
        }
    }

    /// The row of a reel at which a base lane begins that starts now.
    fn first_row(&self, rows: u64, start: Stamp) -> u64 {
        let Part { seed, period, zero, is_in_step, .. } = self.part;
        match is_in_step {
            true => row_in_step(seed, start.boot.since(zero), period) % rows,
            false => chance::number(seed, 3) % rows,
        }
    }

    fn ring(
        &mut self,
        name: String,
        reel: Rc<Reel>,
        phase: u64,
        start: Stamp,
        is_on_demand: bool,
    ) -> NodeLane {
        self.made += 1;
        let Part { seed, epoch, held, .. } = self.part;
        let epoch = chance::number(seed ^ epoch, self.made);
        let variation = Variation::of_seed(seed);
        if !self.part.faults.is_empty() && !name.starts_with(RULES_LANE) {
            let played = Played::new(reel, phase, variation, start, self.faults());
            return NodeLane::Ailing(AilingRing::new((self.made, name, epoch), played, is_on_demand));
        }
        NodeLane::Played(PlayedRing::new(Score {
            id: self.made,
            name,
            epoch,
            reel,
            phase,
            variation,
            start,
            held,
            is_on_demand,
        }))
    }

    fn faults(&self) -> (&[Fault], Nanos) {
        (&self.part.faults, self.part.zero)
    }

    /// Plays all lanes up to now.
    pub fn advance(&mut self, now: Stamp) {
        self.now = now;
        let rings = self.base.iter().chain(self.boosts.iter().map(|boost| &boost.ring));
        rings.for_each(|ring| ring.advance(now.boot));
        self.revision += u64::from(self.channels.advance(now));
    }

    /// Executes the channels up to now; what is played is made when it is sent.
    pub fn execute(&mut self, now: Stamp) {
        self.revision += u64::from(self.channels.advance(now));
    }

    /// When any lane gathers its next row.
    pub fn next_tick(&self) -> Nanos {
        let rings = self.base.iter().chain(self.boosts.iter().map(|boost| &boost.ring));
        let ticks = rings.map(NodeLane::next_tick).chain(self.channels.next_tick());
        ticks.min().unwrap_or(Nanos(u64::MAX))
    }

    /// When a lane with this period begins now, and at which of its rows: at the same moment of the recording as the base lane.
    fn place_now(&self, base: &NodeLane, period: Nanos) -> (Stamp, u64) {
        let shown = (self.phase + base.rows() - 1) * self.part.period.0;
        (last_tick(self.now, period), shown / period.0)
    }

    /// A lane that says of the rules of a channel that they are judged, and that none gives anything.
    fn quiet_rules(&mut self, interest: u32, channel: &ChannelName) -> Result<u64, String> {
        let reel = self.library.borrow_mut().rules(channel)?;
        let start = last_tick(self.now, reel.period);
        let ring = self.ring(channel.metric().to_string(), reel, 0, start, false);
        let id = ring.id();
        self.boosts.push(Boost { interest, wanted: None, ring });
        self.revision += 1;
        Ok(id)
    }

    /// The lane that serves an interest; an error if none can.
    fn serve(&mut self, ask: &InterestFrame<'_>) -> Result<(u64, Nanos), String> {
        let patterns: Result<Vec<Pattern>, _> = ask.patterns().map(Pattern::new).collect();
        let patterns = patterns.map_err(|error| error.to_string())?;
        let base = &self.base.clone().ok_or("the node has not begun")?;
        if let Some(channel) = &ask.channel {
            let terms = channel.to_terms().map_err(|error| error.to_string())?;
            if self.part.quiet_rules && channel.name.starts_with(RULES_PREFIX) {
                let id = self.quiet_rules(ask.number, &terms.name)?;
                return Ok((id, ask.period));
            }
            let wish = Wish { number: ask.number, terms, patterns, period: ask.period };
            return self.serve_channel(&wish).map_err(|refusal| self.refused(wish, refusal));
        }
        let is_demand = ask.period == Nanos(0);
        if ask.period >= base.period() {
            return Ok((base.id(), base.period()));
        }
        if let Some(lane) = self.take_over(ask, &patterns).filter(|_| !is_demand) {
            return Ok((lane, ask.period));
        }
        let period = if is_demand { PERIOD_MIN } else { ask.period };
        let reel = self.library.borrow_mut().boost(self.part.workload, period, &patterns)?;
        let (start, phase) = self.place_now(base, period);
        let kind = if is_demand { "demand" } else { "boost" };
        let name = format!("{kind}{}", ask.number);
        self.lingering.retain(|(one, _)| one.ring.name() != name);
        let ring = self.ring(name, reel, phase, start, is_demand);
        let id = ring.id();
        match is_demand {
            true => self.demands.push((ask.number, ring)),
            false => {
                let wanted = Some((ask.period, patterns));
                self.boosts.push(Boost { interest: ask.number, wanted, ring });
            }
        }
        self.revision += 1;
        Ok((id, ask.period))
    }

    /// The lane of a channel.
    fn serve_channel(&mut self, wish: &Wish) -> Result<(u64, Nanos), Refusal> {
        let Wish { number, terms, patterns, period } = wish;
        if let Some(lane) = self.channels.share(*number, terms, patterns, *period) {
            return Ok((lane, *period));
        }
        let for_good = |text: String| Refusal { text, is_for_now: false };
        let base = self.base.clone().ok_or_else(|| for_good("the node has not begun".to_owned()))?;
        let reel = self.library.borrow_mut().readable(self.part.workload, *period).map_err(for_good)?;
        let (start, phase) = self.place_now(&base, *period);
        self.made += 1;
        let (id, epoch) = (self.made, chance::number(self.part.seed ^ self.part.epoch, self.made));
        let variation = Variation::of_seed(self.part.seed);
        let played = Played::new(reel, phase, variation, start, self.faults());
        let node = &self.part.node;
        self.channels.open((*number, id, epoch), terms.clone(), patterns.clone(), node, played)?;
        self.revision += 1;
        Ok((id, *period))
    }

    /// What was refused for now waits. Returns why.
    fn refused(&mut self, wish: Wish, refusal: Refusal) -> String {
        if !refusal.is_for_now {
            return refusal.text;
        }
        self.waiting.push(wish);
        Notice::for_now(&refusal.text)
    }

    /// Tries again what was refused for now. The hub hears of what is granted, as from an agent.
    fn grant_waiting(&mut self) {
        for wish in std::mem::take(&mut self.waiting) {
            let granted = self.serve_channel(&wish);
            let number = wish.number;
            match granted {
                Ok((lane, period)) => {
                    self.answers.push(Answer {
                        interest: number,
                        lane: Some(lane),
                        period,
                        text: String::new(),
                    });
                }
                Err(refusal) => _ = self.refused(wish, refusal),
            }
        }
    }

    /// A lane without a reader that has what this interest asks for.
    fn take_over(&mut self, ask: &InterestFrame<'_>, patterns: &[Pattern]) -> Option<u64> {
        let now = self.now.boot;
        self.lingering.retain(|(_, since)| now.since(*since) < LINGER);
        let is_same = |boost: &Boost| {
            boost.wanted.as_ref().is_some_and(|(period, known)| *period == ask.period && known == patterns)
        };
        let at = self.lingering.iter().position(|(boost, _)| is_same(boost))?;
        let (boost, _) = self.lingering.remove(at);
        let id = boost.ring.id();
        self.boosts.push(Boost { interest: ask.number, ..boost });
        self.revision += 1;
        Some(id)
    }
}

/// The last multiple of the period, by the wall clock, not after `now`.
fn last_tick(now: Stamp, period: Nanos) -> Stamp {
    Stamp { boot: Nanos(now.boot.0 - now.real().0 % period.0), ..now }
}

/// A lane of a simulated node.
#[derive(Clone)]
pub enum NodeLane {
    /// It plays what was recorded.
    Played(PlayedRing),
    /// The same of a node with faults.
    Ailing(AilingRing),
    /// A channel makes its rows.
    Made(MadeRing),
}

/// Calls the same of the ring.
macro_rules! of_ring {
    ($lane:expr, $ring:ident => $call:expr) => {
        match $lane {
            NodeLane::Played($ring) => $call,
            NodeLane::Ailing($ring) => $call,
            NodeLane::Made($ring) => $call,
        }
    };
}

impl NodeLane {
    /// Plays up to now. A channel's rows are made elsewhere.
    fn advance(&self, now: Nanos) {
        match self {
            NodeLane::Played(ring) => ring.advance(now),
            NodeLane::Ailing(ring) => ring.advance(now),
            NodeLane::Made(_) => {}
        }
    }

    /// Gathers a row to answer a demand.
    fn give(&self, ask: u32, now: Nanos) {
        match self {
            NodeLane::Played(ring) => ring.give(ask, now),
            NodeLane::Ailing(ring) => ring.give(ask, now),
            NodeLane::Made(_) => {}
        }
    }

    /// Number of rows played.
    pub fn rows(&self) -> u64 {
        match self {
            NodeLane::Played(ring) => ring.rows(),
            NodeLane::Ailing(ring) => ring.rows(),
            NodeLane::Made(_) => 0,
        }
    }

    /// When it gathers the next row.
    fn next_tick(&self) -> Nanos {
        match self {
            NodeLane::Played(ring) => ring.next_tick(),
            NodeLane::Ailing(ring) => ring.next_tick(),
            NodeLane::Made(_) => Nanos(u64::MAX),
        }
    }
}

impl Lane for NodeLane {
    fn id(&self) -> u64 {
        of_ring!(self, ring => ring.id())
    }

    fn name(&self) -> &str {
        of_ring!(self, ring => ring.name())
    }

    fn epoch(&self) -> u64 {
        of_ring!(self, ring => ring.epoch())
    }

    fn generation(&self) -> u32 {
        of_ring!(self, ring => ring.generation())
    }

    fn period(&self) -> Nanos {
        of_ring!(self, ring => ring.period())
    }

    fn is_regular(&self) -> bool {
        of_ring!(self, ring => ring.is_regular())
    }

    fn answered(&self) -> u32 {
        of_ring!(self, ring => ring.answered())
    }

    fn head(&self) -> u64 {
        of_ring!(self, ring => ring.head())
    }

    fn oldest(&self) -> u64 {
        of_ring!(self, ring => ring.oldest())
    }

    fn newest(&self) -> u64 {
        of_ring!(self, ring => ring.newest())
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        of_ring!(self, ring => ring.copy(from, most, out))
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        of_ring!(self, ring => ring.schema_bytes(generation))
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        of_ring!(self, ring => ring.schema(generation, from, most, out))
    }
}

impl Lanes for NodeLanes {
    type Lane = MaybeFrozen<NodeLane>;

    fn revision(&self) -> u64 {
        self.revision.wrapping_add(self.freezes.changes() << 32)
    }

    fn list(&self, each: &mut dyn FnMut(MaybeFrozen<NodeLane>)) {
        let boosts = self.boosts.iter().map(|boost| &boost.ring);
        let demands = self.demands.iter().map(|(_, ring)| ring);
        let live = self.base.iter().chain(boosts).chain(demands).cloned();
        let live = live.chain(self.channels.rings().cloned().map(NodeLane::Made));
        live.map(MaybeFrozen::Live).for_each(&mut *each);
        self.freezes.offered().map(MaybeFrozen::Frozen).for_each(each);
    }

    /// A simulated node has no local lane: it keeps the rows of its base lane, and of its boosts.
    fn freeze(&mut self, order: Order, now: Nanos) {
        let boosts = self.boosts.iter().map(|boost| &boost.ring);
        let lanes = self.base.iter().chain(boosts).cloned().collect();
        self.freezes.freeze(order, lanes, now);
    }

    fn thaw(&mut self, number: u64) {
        self.freezes.thaw(number);
    }

    fn keep_frozen(&mut self, now: Nanos) {
        self.freezes.copy(now);
    }

    fn frozen_due(&self) -> Option<Nanos> {
        self.freezes.next_due()
    }

    fn frozen(&mut self) -> Option<Frozen> {
        self.freezes.answer()
    }

    fn ask(&mut self, interest: &InterestFrame<'_>) {
        // Its hub may ask in the same breath as it welcomes the node.
        self.begin(self.now);
        let (lane, period, text) = match self.serve(interest) {
            Ok((lane, period)) => (Some(lane), period, String::new()),
            Err(text) => (None, self.part.period, text),
        };
        self.answers.push(Answer { interest: interest.number, lane, period, text });
    }

    fn dismiss(&mut self, number: u32) {
        let over = self.boosts.extract_if(.., |boost| boost.interest == number);
        self.lingering.extend(over.map(|boost| (boost, self.now.boot)));
        let too_many = self.lingering.len().saturating_sub(LINGERING_MAX);
        self.lingering.drain(..too_many);
        self.demands.retain(|(known, _)| *known != number);
        self.channels.dismiss(number, self.now.boot);
        self.waiting.retain(|wish| wish.number != number);
        self.may_have_room = true;
        self.revision += 1;
    }

    fn hang_up(&mut self) {
        self.answers.clear();
    }

    fn now(&mut self, interest: u32, ask: u32) {
        if let Some((_, ring)) = self.demands.iter().find(|(known, _)| *known == interest) {
            ring.give(ask, self.now.boot);
            self.asked = self.now.boot;
        }
    }

    fn answer(&mut self) -> Option<Answer> {
        if std::mem::take(&mut self.may_have_room) {
            self.grant_waiting();
        }
        self.answers.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_link::put::Ask;
    use khz_link::{ChannelFrame, Frame, frame, limits::FRAME_MAX};

    /// The lane that a node answers an interest with.
    fn lane(lanes: &mut NodeLanes, number: u32, pattern: &str) -> u64 {
        ask(lanes, number, pattern, None);
        lanes.answer().unwrap().lane.unwrap()
    }

    fn ask(lanes: &mut NodeLanes, number: u32, pattern: &str, channel: Option<ChannelFrame<'_>>) {
        let (period, patterns) = (Nanos::from_millis(10), &[pattern.to_owned()]);
        let mut bytes = Vec::new();
        Ask { number, period, patterns, channel, ..Ask::default() }.put(&mut bytes);
        let raw = frame::split(&bytes, FRAME_MAX).unwrap().unwrap();
        let Frame::Interest(interest) = Frame::decode(raw.kind, raw.body).unwrap() else {
            panic!("no interest")
        };
        lanes.ask(&interest);
    }

    fn node() -> NodeLanes {
        let library = Library::read(&["compile".to_owned()], None, 300).unwrap();
        let part = Part {
            node: NodeName::new("n1").unwrap(),
            seed: 1,
            workload: 0,
            period: Nanos::SECOND,
            held: Nanos::from_secs(60),
            epoch: 1,
            is_in_step: false,
            quiet_rules: false,
            faults: Vec::new(),
            zero: Nanos(0),
        };
        NodeLanes::new(Rc::new(RefCell::new(library)), part)
    }

    #[test]
    fn a_channel_that_was_refused_for_now_begins_when_another_one_has_ended() {
        let mut lanes = node();
        lanes.begin(Stamp { boot: Nanos::from_secs(1_000), real_offset: 0 });
        let handler = khz_plan::Handler::default().to_bytes().unwrap();
        let answer = |lanes: &mut NodeLanes, number: u32| {
            let name = format!("c{number}");
            ask(lanes, number, "*", Some(ChannelFrame { name: &name, handler: &handler }));
            lanes.answer().unwrap().lane
        };
        let refused = (1..).find(|&number| answer(&mut lanes, number).is_none()).unwrap();
        assert!(refused > 2);
        assert!(answer(&mut lanes, refused + 1).is_none() && lanes.answer().is_none());
        // Who has gone does not wait any more.
        lanes.dismiss(refused);
        assert!(lanes.answer().is_none());
        lanes.dismiss(1);
        let granted = lanes.answer().unwrap();
        assert_eq!((granted.interest, granted.lane.is_some()), (refused + 1, true));
        assert!(lanes.answer().is_none());
    }

    #[test]
    fn a_boost_without_a_reader_lives_on_for_a_while_and_the_next_reader_takes_it_over() {
        let mut lanes = node();
        let at = |seconds: u64| Stamp { boot: Nanos::from_secs(1_000 + seconds), real_offset: 0 };
        lanes.begin(at(0));
        lanes.advance(at(0));
        let first = lane(&mut lanes, 1, "cpu.*");
        // Its hub is killed, and asks again under another number.
        lanes.dismiss(1);
        lanes.advance(at(9));
        let other = lane(&mut lanes, 4, "load.*");
        assert_eq!((lane(&mut lanes, 5, "cpu.*"), other == first), (first, false));
        lanes.dismiss(5);
        lanes.advance(at(20));
        assert_ne!(lane(&mut lanes, 6, "cpu.*"), first, "nobody came in time");
    }

    #[test]
    fn ticks_are_multiples_of_the_period_by_the_wall_clock() {
        let now = Stamp { boot: Nanos(1_000_000_007), real_offset: 500 };
        let tick = last_tick(now, Nanos(1_000));
        assert_eq!((tick.real().0 % 1_000, tick.boot.0), (0, 999_999_500));
        assert_eq!(last_tick(tick, Nanos(1_000)), tick);
    }
}
