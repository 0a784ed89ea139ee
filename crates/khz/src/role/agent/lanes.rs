//! The agent's lanes as the link sees them. Only here gathering and the link meet. A lane serves each interest of a hub, and
//! lives on for a while after its last interest (`khz_gather::LINGER`).

use std::collections::VecDeque;
use std::sync::Arc;

use khz_gather::{LaneHandle, Prompt, WantedBy};
use khz_link::texts::ReadFrame;
use khz_link::{Answer, Carrier, InterestFrame, Overtaken};
use khz_model::{ChannelTerms, Nanos, Pattern, Rate};

use crate::role::agent::texts::AgentTexts;

/// One lane.
#[derive(Clone)]
pub struct AgentLane(Arc<LaneHandle>);

impl khz_link::Lane for AgentLane {
    fn id(&self) -> u64 {
        // Random for every ring: a new lane with an old name is another lane.
        self.0.epoch()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn epoch(&self) -> u64 {
        self.0.epoch()
    }

    fn generation(&self) -> u32 {
        self.0.generation()
    }

    fn period(&self) -> Nanos {
        self.0.period()
    }

    fn is_regular(&self) -> bool {
        !self.0.is_channel()
    }

    fn answered(&self) -> u32 {
        self.0.answered()
    }

    fn head(&self) -> u64 {
        self.0.reader().head()
    }

    fn oldest(&self) -> u64 {
        self.0.reader().oldest()
    }

    fn newest(&self) -> u64 {
        self.0.reader().newest()
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        self.0.reader().copy(from, most, out).map_err(|_| Overtaken)
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.0.reader().schema_bytes(generation)
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.0.reader().schema(generation, from, most, out)
    }
}

/// An interest that was granted.
struct Granted {
    number: u32,
    lane: AgentLane,
}

/// A channel that was refused for want of memory or places, and is opened when there is room. The link ends it like any other
/// interest.
struct Waiting {
    number: u32,
    wish: ChannelWish,
}

/// What an interest in a channel asks for.
struct ChannelWish {
    patterns: Vec<Pattern>,
    rate: Rate,
    exact: bool,
    terms: Arc<ChannelTerms>,
    wanted_by: WantedBy,
}

/// Why there is no lane; with a wish that may be granted later.
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
    /// What [`khz_gather::Lanes::channel_room`] was when those who wait were tried last.
    room: u64,
    answers: VecDeque<Answer>,
    /// Lanes whose rows the gather thread sends.
    prompts: Vec<(u64, Prompt)>,
    /// How the gather thread sends rows.
    carrier: Option<Arc<Carrier>>,
    texts: AgentTexts,
    /// Counts lanes that came and went.
    changes: u64,
}

impl AgentLanes {
    /// The lanes and kernel texts of a running agent.
    pub fn new(gather: khz_gather::Lanes, texts: AgentTexts) -> Self {
        let fixed = gather.all().into_iter().map(|handle| AgentLane(Arc::new(handle))).collect();
        AgentLanes {
            gather,
            fixed,
            granted: Vec::new(),
            waiting: Vec::new(),
            room: 0,
            answers: VecDeque::new(),
            prompts: Vec::new(),
            carrier: None,
            texts,
            changes: 0,
        }
    }

    fn grant(&mut self, interest: &InterestFrame<'_>) -> Result<Answer, Refused> {
        let patterns: Result<Vec<Pattern>, _> = interest.patterns().map(Pattern::new).collect();
        let patterns = patterns.map_err(|error| Refused::for_good(error.problem))?;
        if interest.period == Nanos(0) && interest.channel.is_none() {
            let handle = self.gather.on_demand(&patterns).map_err(Refused::for_good)?;
            return Ok(self.granted(interest.number, handle));
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
        // A lane that runs more slowly than asked has a longer period; the hub sees that, and each change of it.
        Ok(self.granted(interest.number, handle))
    }

    fn grant_channel(&mut self, number: u32, wish: ChannelWish) -> Result<Answer, Refused> {
        let ChannelWish { patterns, rate, exact, terms, wanted_by } = &wish;
        match self.gather.follow_channel(patterns, *rate, *exact, terms, *wanted_by) {
            Ok(handle) => Ok(self.granted(number, handle)),
            Err(error) => Err(Refused { text: error.to_string(), later: error.is_for_now().then_some(wish) }),
        }
    }

    /// Tries again what was refused for now. The hub hears of what is granted.
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
        let Some(lane) = lanes.find(|lane| lane.0.epoch() == id) else { return Ok(()) };
        let carrier = self.carrier.clone().ok_or("nothing carries them")?;
        let prompt = lane.0.prompt_by(carrier).map_err(|error| error.to_string())?;
        self.prompts.push((id, prompt));
        Ok(())
    }

    fn granted(&mut self, number: u32, handle: LaneHandle) -> Answer {
        let period = handle.period();
        // A lane that exists already, as the local lane, is the same lane to the link.
        let same = self.fixed.iter().find(|lane| lane.0.epoch() == handle.epoch()).cloned();
        let lane = same.unwrap_or_else(|| AgentLane(Arc::new(handle)));
        let id = khz_link::Lane::id(&lane);
        self.granted.push(Granted { number, lane });
        Answer { interest: number, lane: Some(id), period, text: String::new() }
    }
}

fn refusal(interest: u32, text: String) -> Answer {
    Answer { interest, lane: None, period: Nanos(0), text }
}

impl khz_link::Lanes for AgentLanes {
    type Lane = AgentLane;

    fn revision(&self) -> u64 {
        let mut revision = self.changes;
        self.list(&mut |lane| {
            let schema = lane.0.schema_bytes();
            let lane =
                lane.0.period().0 ^ schema.rotate_left(32) ^ u64::from(lane.0.generation()).rotate_left(16);
            revision = revision.wrapping_mul(31).wrapping_add(lane);
        });
        revision
    }

    fn list(&self, each: &mut dyn FnMut(AgentLane)) {
        self.fixed.iter().cloned().for_each(&mut *each);
        for (at, granted) in self.granted.iter().enumerate() {
            let same = |lane: &AgentLane| lane.0.epoch() == granted.lane.0.epoch();
            let is_known =
                self.fixed.iter().any(same) || self.granted[..at].iter().any(|one| same(&one.lane));
            if !is_known {
                each(granted.lane.clone());
            }
        }
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
    }

    fn dismiss(&mut self, number: u32) {
        let before = self.granted.len();
        self.granted.retain(|granted| granted.number != number);
        self.waiting.retain(|waiting| waiting.number != number);
        self.changes += u64::from(self.granted.len() < before);
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
        // If the queue is full, the hub gets no answer in time and leaves this node out.
        if let Some(granted) = self.granted.iter().find(|granted| granted.number == interest) {
            let _ = granted.lane.0.now(ask);
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

    fn answer(&mut self) -> Option<Answer> {
        // Never in the gather thread, which would wait for itself: it carries no rows while this is so.
        if khz_link::Lanes::may_grant(self) {
            self.grant_waiting();
        }
        self.answers.pop_front()
    }
}
