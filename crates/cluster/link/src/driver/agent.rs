//! The agent's side: its lanes go to one of its hubs, and the hub's Interests come to its lanes.

use std::sync::{Arc, Mutex};

use khz_model::Nanos;

use crate::agent_end::{AgentCounts, AgentEnd};
use crate::dial::{Identity, Vouch};
use crate::driver::counters::{Counters, add, set};
use crate::driver::preference::Preference;
use crate::driver::seat::Seat;
use crate::driver::session::End;
use crate::driver::worker::Caller;
use crate::driver::{Shared, clock};
use crate::error::LinkError;
use crate::goodbye::Goodbye;
use crate::source::{Lanes, tend_frozen};

/// An agent, whatever the connection.
pub(crate) struct Agent<L: Lanes> {
    identity: Arc<Identity>,
    /// The lanes, while there is no connection. A connection takes them.
    home: Home<L>,
    seat: Arc<Seat<AgentSession<L>>>,
    preference: Arc<Preference>,
}

type Home<L> = Arc<Mutex<Option<L>>>;

impl<L: Lanes> Agent<L> {
    /// An agent whose connection the thread that writes rows may drive too: `lanes` get the carrier for that.
    pub fn new(
        identity: Arc<Identity>,
        mut lanes: L,
        shared: &Arc<Shared>,
        preference: Arc<Preference>,
    ) -> std::io::Result<Self>
    where
        L: Lanes<Lane: Send> + Send + 'static,
    {
        let seat = Arc::new(Seat::of_many()?);
        let (driven, shared) = (Arc::downgrade(&seat), shared.clone());
        lanes.carrier(Arc::new(move || {
            if let Some(seat) = driven.upgrade() {
                seat.carry(&shared);
            }
        }));
        Ok(Agent { identity, home: Arc::new(Mutex::new(Some(lanes))), seat, preference })
    }
}

impl<L: Lanes<Lane: Send> + Send + 'static> Caller for Agent<L> {
    type End<'a>
        = AgentSession<L>
    where
        L: 'a;

    fn begin(&mut self, _: usize, vouch: Option<Vouch>) -> AgentSession<L> {
        let lanes = self.home.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let lanes = lanes.unwrap_or_else(|| unreachable!("BUG: two connections at a time"));
        let mut end = AgentEnd::new(self.identity.clone(), clock::now());
        if let Some(vouch) = vouch {
            end.vouched(vouch);
        }
        let (home, preference) = (self.home.clone(), self.preference.clone());
        AgentSession { end, lanes, home, preference, said: 0, counted: AgentCounts::default(), left_out: 0 }
    }

    fn seat<'a>(&self) -> Arc<Seat<AgentSession<L>>>
    where
        Self: 'a,
    {
        self.seat.clone()
    }

    fn tend(&mut self, now: Nanos) -> Option<Nanos> {
        let mut home = self.home.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        tend_frozen(home.as_mut()?, now)
    }

    fn end(session: AgentSession<L>, _: &str) {
        let AgentSession { end, mut lanes, home, .. } = session;
        end.close(&mut lanes);
        *home.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(lanes);
    }
}

/// An agent on one connection.
pub(crate) struct AgentSession<L: Lanes> {
    end: AgentEnd<L::Lane>,
    lanes: L,
    home: Home<L>,
    preference: Arc<Preference>,
    /// The last Standing that was sent.
    said: u64,
    counted: AgentCounts,
    /// Slots that the hub does not get, as the log says.
    left_out: usize,
}

impl<L: Lanes> End for AgentSession<L> {
    fn hub_identity(&self) -> [u8; 16] {
        self.end.hub().identity
    }

    fn receive(&mut self, bytes: &[u8], now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.end.receive(bytes, now, wall, &mut self.lanes, out)
    }

    fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        if self.end.is_welcome() {
            self.preference.say(&mut self.said, now, |standing| self.end.stand(standing, out));
        }
        self.end.poll(now, wall, &mut self.lanes, out)?;
        if self.left_out == 0 && self.end.left_out() > 0 {
            self.left_out = self.end.left_out();
            tracing::warn!(
                "hub {} speaks version {} of the link: it does not get {} series of signed numbers, doubles \
                 or labels; a newer khz there gets them",
                self.end.hub().name,
                self.end.version(),
                self.left_out
            );
        }
        Ok(())
    }

    fn next_wake(&self) -> Nanos {
        self.end.next_wake()
    }

    fn wants_room(&self) -> bool {
        self.end.wants_room()
    }

    fn answers_may_wait(&self) -> (usize, usize) {
        self.end.answers_may_wait()
    }

    fn kept(&mut self, bytes: usize, answer: usize) -> bool {
        self.end.kept(bytes, answer)
    }

    fn carries_from(&self) -> Nanos {
        self.end.carries_from()
    }

    fn is_carried_often(&self) -> bool {
        self.end.is_carried_often()
    }

    fn is_calm(&self) -> bool {
        self.end.is_calm(&self.lanes)
    }

    fn is_welcome(&self) -> bool {
        self.end.is_welcome()
    }

    fn retransmitted(&mut self, segments: u64) {
        self.end.set_retransmits(segments);
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> bool {
        self.end.flush(out)
    }

    fn goodbye(&self, goodbye: &Goodbye<'_>, out: &mut Vec<u8>) {
        self.end.goodbye(goodbye, out);
    }

    fn count(&mut self, counters: &Counters) {
        let counts = self.end.counts();
        add(&counters.rows, counts.rows - self.counted.rows);
        add(&counters.rows_lost, counts.lost - self.counted.lost);
        self.counted = counts;
        if self.end.is_welcome() {
            set(&counters.rows_backlog, Some(counts.backlog));
            counters.set_pair(counts.pair);
        }
    }
}
