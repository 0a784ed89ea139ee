//! A connection in simulated time: it delays and splits bytes, keeps their order, and can be cut.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use khz_model::Nanos;

use super::random::Random;
use super::trace::Trace;

/// Bytes on their way in one direction.
#[derive(Debug, Default)]
pub struct Pipe {
    pieces: VecDeque<(Nanos, Vec<u8>)>,
    last: Nanos,
    trace: Trace,
}

impl Pipe {
    /// Takes everything that waits.
    pub fn write(&mut self, out: &mut Vec<u8>, now: Nanos, lag: Nanos, random: &mut Random) {
        self.trace.show(out, now);
        let mut rest = std::mem::take(out);
        while !rest.is_empty() {
            let most = if random.once_in(4) { 60 } else { 20_000 };
            let more = rest.split_off(rest.len().min(1 + random.below(most) as usize));
            self.last = self.last.max(Nanos(now.0 + random.below(lag.0 + 1)));
            self.pieces.push_back((self.last, std::mem::replace(&mut rest, more)));
        }
    }

    /// The next piece that has arrived.
    pub fn read(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let has_come = self.pieces.front().is_some_and(|(at, _)| *at <= now);
        has_come.then(|| self.pieces.pop_front()).flatten().map(|(_, bytes)| bytes)
    }
}

/// A connection: both directions, and whether a side has closed it.
#[derive(Debug, Default)]
pub struct Wire {
    pub to_hub: Pipe,
    pub from_hub: Pipe,
    /// Nothing more comes out at either end.
    pub is_cut: bool,
}

impl Wire {
    /// One from a peer of this name to a hub.
    pub fn between(peer: &str, hub: usize) -> Shared {
        let hub = ["leaf", "root", "side", "top"][hub];
        let pipe = |from, to| Pipe { trace: Trace::of(from, to), ..Pipe::default() };
        let wire = Wire { to_hub: pipe(peer, hub), from_hub: pipe(hub, peer), is_cut: false };
        Rc::new(RefCell::new(wire))
    }
}

/// What both ends hold.
pub type Shared = Rc<RefCell<Wire>>;
