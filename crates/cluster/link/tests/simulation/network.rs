//! Connections over a network that splits, delays, damages and cuts. Bytes stay in order, as TCP keeps them.

use std::collections::VecDeque;

use khz_model::Nanos;

use crate::random::Random;

/// What one side has written and the other not yet read.
#[derive(Debug, Default)]
pub struct Pipe {
    segments: VecDeque<(Nanos, Vec<u8>)>,
    bytes: usize,
    last: Nanos,
    /// Nothing more comes out.
    pub cut: bool,
    /// Nothing more comes in: what is written is lost.
    broken: bool,
}

/// The socket buffers of both sides together.
const BUFFER: usize = 200 << 10;

impl Pipe {
    /// Takes as much of `out` as the buffers hold.
    pub fn write(&mut self, out: &mut Vec<u8>, now: Nanos, lag: Nanos, random: &mut Random) {
        if self.broken {
            out.clear();
            return;
        }
        let mut room = BUFFER.saturating_sub(self.bytes).min(out.len());
        let mut at = 0;
        while room > 0 {
            let most = if random.once_in(3) { 40 } else { 9_000 };
            let take = (1 + random.below(most) as usize).min(room);
            let due = Nanos(now.0 + lag.0 + random.below(lag.0 + 1)).max(self.last);
            self.last = due;
            self.segments.push_back((due, out[at..at + take].to_vec()));
            self.bytes += take;
            at += take;
            room -= take;
        }
        out.drain(..at);
    }

    /// The next segment that has arrived.
    pub fn read(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if self.cut || self.segments.front()?.0 > now {
            return None;
        }
        let (_, bytes) = self.segments.pop_front()?;
        self.bytes -= bytes.len();
        Some(bytes)
    }

    /// What is under way is lost from some point on, and what is written later too.
    pub fn lose_tail(&mut self, random: &mut Random) {
        self.broken = true;
        let keep = random.below(self.segments.len() as u64 + 1) as usize;
        self.segments.truncate(keep);
        self.bytes = self.segments.iter().map(|(_, bytes)| bytes.len()).sum();
    }

    /// Damages one byte that is under way.
    pub fn damage(&mut self, random: &mut Random) {
        let segment = random.below(self.segments.len() as u64) as usize;
        if let Some((_, bytes)) = self.segments.get_mut(segment) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

/// One connection. Each side learns on its own that it is over.
#[derive(Debug, Default)]
pub struct Connection {
    pub to_hub: Pipe,
    pub to_agent: Pipe,
    /// The agent's side is closed, or knows of the end.
    pub agent_closed: bool,
    /// The same of the hub's.
    pub hub_closed: bool,
}
