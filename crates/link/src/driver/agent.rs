//! The agent's side: its lanes go to one of its hubs, and the hub's interests come to its lanes.

use std::sync::Arc;

use khz_model::Nanos;

use crate::agent_end::{AgentCounts, AgentEnd};
use crate::dial::Identity;
use crate::driver::clock;
use crate::driver::counters::{Counters, add, set};
use crate::driver::session::End;
use crate::driver::worker::Caller;
use crate::error::LinkError;
use crate::goodbye::{Goodbye, Leaving};
use crate::source::Lanes;

/// An agent, whatever the connection.
pub(crate) struct Agent<L> {
    pub identity: Arc<Identity>,
    pub lanes: L,
}

impl<L: Lanes + Send + 'static> Caller for Agent<L> {
    type End<'a>
        = AgentSession<'a, L>
    where
        L: 'a;

    fn begin(&mut self) -> AgentSession<'_, L> {
        let end = AgentEnd::new(self.identity.clone(), clock::now());
        AgentSession { end, lanes: &mut self.lanes, counted: AgentCounts::default() }
    }

    fn end(end: AgentSession<'_, L>, _: &str) {
        end.end.close(end.lanes);
    }
}

/// An agent on one connection.
pub(crate) struct AgentSession<'a, L: Lanes> {
    end: AgentEnd<L::Lane>,
    lanes: &'a mut L,
    counted: AgentCounts,
}

impl<L: Lanes> End for AgentSession<'_, L> {
    fn receive(&mut self, bytes: &[u8], now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.end.receive(bytes, now, wall, self.lanes, out)
    }

    fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.end.poll(now, wall, self.lanes, out)
    }

    fn next_wake(&self) -> Nanos {
        self.end.next_wake()
    }

    fn wants_room(&self) -> bool {
        self.end.wants_room()
    }

    fn answer_may_wait(&self) -> Option<usize> {
        self.end.answer_may_wait()
    }

    fn is_welcome(&self) -> bool {
        self.end.is_welcome()
    }

    fn retransmitted(&mut self, segments: u64) {
        self.end.set_retransmits(segments);
    }

    fn goodbye(&self, out: &mut Vec<u8>) {
        self.end.goodbye(&Goodbye { leaving: Leaving::Ends, text: "" }, out);
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
