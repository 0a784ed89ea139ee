//! The agent's lanes as the link sees them. Only here gathering and the link meet. A lane serves each interest of a hub, and
//! lives on for a while after its last interest (`khz_gather::LINGER`, a channel's lane `khz_gather::CHANNEL_LINGER`).

use std::collections::VecDeque;
use std::sync::Arc;

use khz_gather::{LaneHandle, LaneRing, Prompt, WantedBy};
use khz_link::freeze::Frozen;
use khz_link::frozen::{Freezes, MaybeFrozen, Order};
use khz_link::texts::ReadFrame;
use khz_link::{Answer, Carrier, InterestFrame, Lane, Overtaken};
use khz_model::{ChannelTerms, Nanos, Notice, Pattern, Rate};

use crate::role::agent::former::{FormerLanes, Gap};
use crate::role::agent::texts::AgentTexts;

/// One lane: the ring from which the link sends, and what keeps the lane open.
#[derive(Clone)]
pub struct AgentLane {
    ring: LaneRing,
    lives: Lives,
}

/// The lane that a node always sends.
const BASE: &str = "base";

/// Whether a lane still gets rows.
#[derive(Clone)]
enum Lives {
    Open(Arc<LaneHandle>),
    /// It is over, and has this name on the link.
    Former(Arc<str>),
}

impl AgentLane {
    fn open(handle: LaneHandle) -> Self {
        AgentLane { ring: handle.ring_of(), lives: Lives::Open(Arc::new(handle)) }
    }

    /// One that is over, under this name.
    pub fn former(ring: LaneRing, name: Arc<str>) -> Self {
        AgentLane { ring, lives: Lives::Former(name) }
    }

    fn handle(&self) -> Option<&LaneHandle> {
        match &self.lives {
            Lives::Open(handle) => Some(handle),
            Lives::Former(_) => None,
        }
    }

    fn epoch(&self) -> u64 {
        self.ring.epoch()
    }
}

impl Lane for AgentLane {
    fn id(&self) -> u64 {
        // Random for every ring: a new lane with an old name is another lane.
        self.ring.epoch()
    }

    fn name(&self) -> &str {
        match &self.lives {
            Lives::Open(_) => self.ring.name(),
            Lives::Former(name) => name,
        }
    }

    fn epoch(&self) -> u64 {
        self.ring.epoch()
    }

    fn generation(&self) -> u32 {
        self.ring.generation()
    }

    fn period(&self) -> Nanos {
        self.ring.period()
    }

    fn is_regular(&self) -> bool {
        !self.ring.is_channel()
    }

    fn answered(&self) -> u32 {
        self.ring.answered()
    }

    fn head(&self) -> u64 {
        self.ring.reader().head()
    }

    fn oldest(&self) -> u64 {
        self.ring.reader().oldest()
    }

    fn newest(&self) -> u64 {
        self.ring.reader().newest()
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        self.ring.reader().copy(from, most, out).map_err(|_| Overtaken)
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.ring.reader().schema_bytes(generation)
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.ring.reader().schema(generation, from, most, out)
    }
}

/// An interest that was granted.
struct Granted {
    number: u32,
    lane: AgentLane,
    /// The channel, if the hub itself wants it.
    own: Option<ChannelWish>,
    /// The value of the ring's `lacks_changed` when the agent last sent the list to the hub.
    lacks_said: u64,
}

impl Granted {
    /// Whether the list of what the lane leaves out has changed since the agent sent it to the hub.
    fn has_news(&self) -> bool {
        self.lane.ring.lacks_changed() != self.lacks_said
    }

    fn answer(&mut self) -> Answer {
        self.lacks_said = self.lane.ring.lacks_changed();
        let text = self.lane.ring.lacks().to_string();
        let (lane, period) = (Some(self.lane.epoch()), self.lane.ring.period());
        Answer { interest: self.number, lane, period, text }
    }
}

/// A channel that was refused for lack of memory or places. It is opened when there is room. The link ends it like any other
/// interest.
struct Waiting {
    number: u32,
    wish: ChannelWish,
}

/// What an interest in a channel asks for.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelWish {
    pub patterns: Vec<Pattern>,
    pub rate: Rate,
    pub exact: bool,
    pub terms: Arc<ChannelTerms>,
    pub wanted_by: WantedBy,
}

/// Why there is no lane. A wish is set if it may be granted later.
struct Refused {
    text: String,
    later: Option<ChannelWish>,
}

impl Refused {
    fn for_good(problem: impl ToString) -> Self {
        Refused { text: problem.to_string(), later: None }
    }
}

/// All lanes of this node.
pub struct AgentLanes {
    gather: khz_gather::Lanes,
    fixed: Vec<AgentLane>,
    granted: Vec<Granted>,
    waiting: Vec<Waiting>,
    /// Lanes of channels that the hub wanted itself, and that may have ended while the hub or this node was away.
    former: FormerLanes,
    /// The value of [`khz_gather::Lanes::channel_room`] at the last attempt for the waiting channels.
    room: u64,
    answers: VecDeque<Answer>,
    /// Lanes whose rows the gather thread sends.
    prompts: Vec<(u64, Prompt)>,
    /// How the gather thread sends rows.
    carrier: Option<Arc<Carrier>>,
    texts: AgentTexts,
    /// Rows that a hub has asked to keep.
    freezes: Freezes<AgentLane>,
    /// Counts lanes that came and went.
    changes: u64,
}

impl AgentLanes {
    /// The lanes and kernel texts of a running agent.
    pub fn new(gather: khz_gather::Lanes, texts: AgentTexts) -> Self {
        let fixed = gather.all().into_iter().map(AgentLane::open).collect();
        AgentLanes {
            gather,
            fixed,
            granted: Vec::new(),
            waiting: Vec::new(),
            former: FormerLanes::default(),
            room: 0,
            answers: VecDeque::new(),
            prompts: Vec::new(),
            carrier: None,
            texts,
            freezes: Freezes::default(),
            changes: 0,
        }
    }

    fn grant(&mut self, interest: &InterestFrame<'_>) -> Result<Answer, Refused> {
        let patterns: Result<Vec<Pattern>, _> = interest.patterns().map(Pattern::new).collect();
        let patterns = patterns.map_err(|error| Refused::for_good(error.problem))?;
        if interest.period == Nanos(0) && interest.channel.is_none() {
            let handle = self.gather.on_demand(&patterns).map_err(Refused::for_good)?;
            return Ok(self.granted(interest.number, handle, None));
        }
        let rate =
            Rate::from_period(interest.period).ok_or_else(|| Refused::for_good("there is no such rate"))?;
        if let Some(channel) = interest.channel {
            let terms = channel.to_terms().map_err(Refused::for_good)?;
            let wanted_by = if interest.own { WantedBy::Hub } else { WantedBy::Readers };
            let wish = ChannelWish { patterns, rate, exact: interest.exact, terms, wanted_by };
            return self.grant_channel(interest.number, wish);
        }
        let handle = self.gather.follow(&patterns, rate, interest.exact).map_err(Refused::for_good)?;
        // A lane that runs more slowly than asked has a longer period. The hub sees this, and each change of it.
        Ok(self.granted(interest.number, handle, None))
    }

    fn grant_channel(&mut self, number: u32, wish: ChannelWish) -> Result<Answer, Refused> {
        let ChannelWish { patterns, rate, exact, terms, wanted_by } = &wish;
        match self.gather.follow_channel(patterns, *rate, *exact, terms, *wanted_by) {
            Ok(handle) => {
                let own = (*wanted_by == WantedBy::Hub).then_some(wish);
                let gap = own.as_ref().and_then(|wish| self.former.came_back(wish, handle.epoch()));
                let answer = self.granted(number, handle, own);
                let gap = gap.as_ref().map(Gap::to_string);
                let lacks = Some(answer.text).filter(|text| !text.is_empty());
                let text = gap.into_iter().chain(lacks).collect::<Vec<_>>().join("; ");
                Ok(Answer { text, ..answer })
            }
            Err(error) if error.is_for_now() => {
                Err(Refused { text: Notice::for_now(&error.to_string()), later: Some(wish) })
            }
            Err(error) => Err(Refused::for_good(error)),
        }
    }

    /// Retries interests that were refused for now. The hub hears which ones are granted.
    fn grant_waiting(&mut self) {
        self.room = self.gather.channel_room();
        for Waiting { number, wish } in std::mem::take(&mut self.waiting) {
            match self.grant_channel(number, wish) {
                Ok(answer) => {
                    self.answers.push_back(answer);
                    self.changes += 1;
                }
                Err(Refused { later: Some(wish), .. }) => self.waiting.push(Waiting { number, wish }),
                Err(Refused { later: None, text }) => self.answers.push_back(refusal(number, text)),
            }
        }
    }

    /// Lets the gather thread send the rows of a lane, where the lane still exists.
    fn have_carried(&mut self, id: u64) -> Result<(), String> {
        let mut lanes = self.fixed.iter().chain(self.granted.iter().map(|granted| &granted.lane));
        let Some(lane) = lanes.find(|lane| lane.epoch() == id) else { return Ok(()) };
        let Some(handle) = lane.handle() else { return Ok(()) };
        let carrier = self.carrier.clone().ok_or("nothing carries them")?;
        let prompt = handle.prompt_by(carrier).map_err(|error| error.to_string())?;
        self.prompts.push((id, prompt));
        Ok(())
    }

    /// Each lane with a ring, once.
    fn each_live(&self, each: &mut dyn FnMut(AgentLane)) {
        self.fixed.iter().cloned().for_each(&mut *each);
        for (at, granted) in self.granted.iter().enumerate() {
            let same = |lane: &AgentLane| lane.epoch() == granted.lane.epoch();
            let is_known =
                self.fixed.iter().any(same) || self.granted[..at].iter().any(|one| same(&one.lane));
            if !is_known {
                each(granted.lane.clone());
            }
        }
        self.former.offered().for_each(each);
    }

    /// The lanes that a freeze keeps: those faster than the base lane, whose rows the hub has anyway. If there is none, the base
    /// lane.
    fn frozen_lanes(&self) -> Vec<AgentLane> {
        let mut lanes = Vec::new();
        self.each_live(&mut |lane| {
            if lane.handle().is_some() && lane.is_regular() && lane.period() > Nanos(0) {
                lanes.push(lane);
            }
        });
        let Some(base) = lanes.iter().find(|lane| lane.name() == BASE).map(AgentLane::period) else {
            return lanes;
        };
        if lanes.iter().any(|lane| lane.period() < base) {
            lanes.retain(|lane| lane.period() < base);
        } else {
            lanes.retain(|lane| lane.name() == BASE);
        }
        lanes
    }

    fn granted(&mut self, number: u32, handle: LaneHandle, own: Option<ChannelWish>) -> Answer {
        // A lane that exists already, as the local lane, is the same lane to the link.
        let same = self.fixed.iter().find(|lane| lane.epoch() == handle.epoch()).cloned();
        let lane = same.unwrap_or_else(|| AgentLane::open(handle));
        let mut granted = Granted { number, lane, own, lacks_said: 0 };
        let answer = granted.answer();
        self.granted.push(granted);
        answer
    }
}

fn refusal(interest: u32, text: String) -> Answer {
    Answer { interest, lane: None, period: Nanos(0), text }
}

impl khz_link::Lanes for AgentLanes {
    type Lane = MaybeFrozen<AgentLane>;

    fn revision(&self) -> u64 {
        let mut revision = self.changes.wrapping_add(self.freezes.changes() << 32);
        self.each_live(&mut |lane| {
            let generation = lane.ring.generation();
            let schema = lane.ring.reader().schema_bytes(generation).unwrap_or(0);
            let lane = lane.ring.period().0 ^ schema.rotate_left(32) ^ u64::from(generation).rotate_left(16);
            revision = revision.wrapping_mul(31).wrapping_add(lane);
        });
        revision
    }

    fn list(&self, each: &mut dyn FnMut(MaybeFrozen<AgentLane>)) {
        self.each_live(&mut |lane| each(MaybeFrozen::Live(lane)));
        self.freezes.offered().map(MaybeFrozen::Frozen).for_each(each);
    }

    fn ask(&mut self, interest: &InterestFrame<'_>) {
        self.dismiss(interest.number);
        let number = interest.number;
        let answer = self.grant(interest).unwrap_or_else(|Refused { text, later }| {
            self.waiting.extend(later.map(|wish| Waiting { number, wish }));
            refusal(number, text)
        });
        self.answers.push_back(answer);
        self.changes += 1;
    }

    fn may_grant(&self) -> bool {
        !self.waiting.is_empty() && self.gather.channel_room() != self.room
            || self.former.are_over()
            || self.granted.iter().any(Granted::has_news)
    }

    fn dismiss(&mut self, number: u32) {
        let before = self.granted.len();
        for Granted { lane, own, .. } in self.granted.extract_if(.., |granted| granted.number == number) {
            if let Some(wish) = own {
                self.former.left(lane.ring.clone(), wish);
            }
        }
        self.waiting.retain(|waiting| waiting.number != number);
        self.changes += u64::from(self.granted.len() < before);
    }

    fn hang_up(&mut self) {
        self.former.hang_up();
    }

    fn carrier(&mut self, carrier: Arc<Carrier>) {
        self.carrier = Some(carrier);
    }

    fn prompt(&mut self, id: u64, wanted: bool) {
        self.prompts.retain(|(known, _)| *known != id);
        if wanted && let Err(problem) = self.have_carried(id) {
            tracing::warn!("rows of a lane are sent in flushes: {problem}");
        }
    }

    fn carry(&mut self, id: u64) -> bool {
        self.prompts.retain(|(known, _)| *known != id);
        self.have_carried(id).is_ok()
    }

    fn now(&mut self, interest: u32, ask: u32) {
        // If the queue is full, the hub gets no answer in time, and leaves this node out.
        if let Some(granted) = self.granted.iter().find(|granted| granted.number == interest) {
            let _ = granted.lane.handle().map(|handle| handle.now(ask));
        }
    }

    fn has_texts(&self) -> bool {
        true
    }

    fn read(&mut self, request: &ReadFrame<'_>) {
        self.texts.read(request);
    }

    fn text_now(&mut self, number: u32, ask: u32) {
        self.texts.text_now(number, ask);
    }

    fn unread(&mut self, number: u32) {
        self.texts.unread(number);
    }

    fn say_text(&mut self, out: &mut Vec<u8>) -> bool {
        self.texts.say(out)
    }

    fn freeze(&mut self, order: Order, now: Nanos) {
        let lanes = self.frozen_lanes();
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

    fn answer(&mut self) -> Option<Answer> {
        // Never do this in the gather thread, which would wait for itself: it carries no rows meanwhile.
        if khz_link::Lanes::may_grant(self) {
            self.former.drop_over();
            let news = self.granted.iter_mut().filter(|granted| granted.has_news());
            self.answers.extend(news.map(Granted::answer));
            self.grant_waiting();
        }
        self.answers.pop_front()
    }
}
