//! A channel for which this node has no memory now, or no place: its reader hears why, and gets it when others have ended.

use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc::sync_channel};
use std::time::Duration;

use khz_model::{ChannelTerms, Delivery, NodeName, Notice, Pattern, QueryError, Rate, Subscription};
use khz_plan::PackedProgram;

use crate::handled::refused;
use crate::inbox::{Inbox, LaneWish, Request};
use crate::lane::LaneView;
use crate::lane_handle::{LaneHandle, LaneRing};
use crate::outside::{ProgramWish, Programs};
use crate::subscription::LaneSubscription;

/// The gather thread answers in microseconds; after this time it has ended.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Opens lanes for readers, and knows those that it has opened.
#[derive(Clone)]
pub(crate) struct Opener {
    pub inbox: Arc<Inbox>,
    /// Until they close.
    opened: Arc<Mutex<Vec<Weak<LaneView>>>>,
    node: NodeName,
    programs: Option<Arc<dyn Programs>>,
}

impl Opener {
    pub fn new(inbox: Arc<Inbox>, node: NodeName, programs: Option<Arc<dyn Programs>>) -> Self {
        Opener { inbox, opened: Arc::default(), node, programs }
    }

    /// A lane as it is wished; it already counts this reader.
    pub fn open(&self, wish: LaneWish) -> Result<Arc<LaneView>, QueryError> {
        match wish.channel.as_ref().and_then(|channel| Some((&channel.terms, channel.handler.program()?))) {
            Some((terms, program)) => self.open_program(&wish, terms, program),
            None => self.open_gathered(wish),
        }
    }

    /// The lane of a program, whose input is a lane of readings.
    fn open_program(
        &self,
        wish: &LaneWish,
        terms: &Arc<ChannelTerms>,
        program: &PackedProgram,
    ) -> Result<Arc<LaneView>, QueryError> {
        let none =
            "this node executes no programs; it does with handlers = \"programs\" in its configuration";
        let programs = self.programs.as_ref().ok_or_else(|| refused(terms, none))?;
        let view = self.open_gathered(LaneWish { channel: None, ..wish.clone() })?;
        let input = LaneHandle { ring: LaneRing { view }, inbox: self.inbox.clone() };
        let (terms, program) = (terms.clone(), program.clone());
        let wish =
            ProgramWish { terms, program, patterns: wish.patterns.clone(), node: self.node.clone(), input };
        Ok(programs.follow(wish)?.0)
    }

    fn open_gathered(&self, wish: LaneWish) -> Result<Arc<LaneView>, QueryError> {
        let (reply, answer) = sync_channel(1);
        self.inbox.put(Request::Follow { wish, reply })?;
        let lane = answer.recv_timeout(ANSWER_MAX).map_err(|_| QueryError::Stopped)??;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed lanes are removed, so the list stays about as long as the number of lanes.
        opened.retain(|known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(&lane)));
        opened.push(Arc::downgrade(&lane));
        Ok(lane)
    }

    /// The lanes that are open.
    pub fn opened(&self) -> Vec<Arc<LaneView>> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A subscription that was refused for now.
pub(crate) struct Waiting {
    node: NodeName,
    rate: Rate,
    wish: LaneWish,
    opener: Opener,
    /// What [`Inbox::channel_room`] was before it was tried last.
    room: u64,
    /// What the reader has not heard yet.
    news: Vec<Notice>,
    /// It has its lane.
    granted: Option<LaneSubscription>,
}

impl Waiting {
    /// It was refused for this reason.
    pub fn new(
        node: NodeName,
        rate: Rate,
        wish: LaneWish,
        opener: Opener,
        room: u64,
        refusal: &QueryError,
    ) -> Self {
        let mut waiting = Waiting { node, rate, wish, opener, room, news: Vec::new(), granted: None };
        waiting.refuse(Notice::for_now(&refusal.to_string()));
        waiting
    }

    fn refuse(&mut self, text: String) {
        self.news.push(Notice { is_refusal: true, ..Notice::of(self.node.clone(), text) });
    }

    /// Tries again if there may be room.
    fn try_again(&mut self) {
        let room = self.opener.inbox.channel_room();
        if self.granted.is_some() || room == self.room {
            return;
        }
        self.room = room;
        let (node, inbox) = (self.node.clone(), self.opener.inbox.clone());
        let all = vec![Pattern::everything()];
        let follow = |lane| LaneSubscription::new(node, lane, all, self.rate, inbox);
        match self.opener.open(self.wish.clone()).and_then(follow) {
            Ok(granted) => {
                self.granted = Some(granted);
                self.news.push(Notice::of(self.node.clone(), Notice::SENDS_NOW));
            }
            Err(error) if error.is_for_now() => {}
            // It will not be tried again: the series are others now.
            Err(error) => self.refuse(error.to_string()),
        }
    }
}

impl Subscription for Waiting {
    fn poll(&mut self) -> Vec<Delivery> {
        self.poll_some(usize::MAX)
    }

    fn poll_some(&mut self, readings_max: usize) -> Vec<Delivery> {
        self.try_again();
        self.granted.as_mut().map_or_else(Vec::new, |lane| lane.poll_some(readings_max))
    }

    fn rate(&self) -> Rate {
        self.granted.as_ref().map_or(self.rate, Subscription::rate)
    }

    fn notices(&mut self) -> Vec<Notice> {
        self.try_again();
        let mut news = std::mem::take(&mut self.news);
        news.extend(self.granted.as_mut().map(Subscription::notices).unwrap_or_default());
        news
    }
}
