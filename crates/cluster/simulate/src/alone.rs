//! One simulated node on a made-up connection, in made-up time, to count the bytes that it would send. No
//! socket, no clock.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use khz_link::frame::{kind, split};
use khz_link::limits::{FRAME_MAX, SILENCE, VERSION};
use khz_link::{AgentEnd, Frame, Greeting, Identity, LinkError, Role, Want, Welcome, put};
use khz_model::{Nanos, NodeName, Stamp};

use crate::lanes::{NodeLane, NodeLanes, Part};
use crate::library::Library;

/// CLOCK_BOOTTIME at the start.
const START: Stamp = Stamp { boot: Nanos(1_000_000_000_000), real_offset: 1_700_000_000_000_000_000 };

/// What a node has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Rows.
    pub rows: u64,
    /// Slots of each row.
    pub slots: u64,
    /// Bytes of blocks, rows, ends and beats, with their frames; without frames that are sent only once:
    /// names and schema.
    pub bytes: u64,
}

/// What a node that plays this recording sends in this time.
pub fn said(library: Library, workload: usize, period: Nanos, length: Nanos) -> Result<Said, LinkError> {
    let slots = library.recordings()[workload].slots() as u64;
    let node = NodeName::new("node1").expect("BUG: this is a name");
    let part = Part {
        node,
        seed: 1,
        workload,
        period,
        held: Nanos(0),
        epoch: 1,
        is_in_step: false,
        quiet_rules: false,
        faults: Vec::new(),
        zero: START.boot,
    };
    let mut lanes = NodeLanes::new(Rc::new(RefCell::new(library)), part);
    let mut end = AgentEnd::new(Arc::new(identity()), START.boot);
    let (mut now, mut hub, mut out, mut said) = (START, Vec::new(), Vec::new(), Said::default());
    let wall = |now: Stamp| now.real().0 as i64;
    Greeting {
        lowest: VERSION,
        highest: VERSION,
        nonce: [0; 32],
        identity: [1; 16],
        name: "hub",
        sources: &[],
    }
    .put(&mut hub);
    Welcome { version: VERSION, silence: SILENCE, abilities: 0 }.put(&mut hub);
    lanes.begin(now);
    while now.boot.since(START.boot) < length {
        end.receive(&hub, now.boot, wall(now), &mut lanes, &mut out)?;
        hub.clear();
        lanes.advance(now);
        end.poll(now.boot, wall(now), &mut lanes, &mut out)?;
        said.bytes += answer(&out, wall(now), &mut hub)?;
        out.clear();
        if hub.is_empty() {
            now.boot = end.next_wake().max(Nanos(now.boot.0 + 1));
        }
    }
    Ok(Said { rows: lanes.base().map_or(0, NodeLane::rows), slots, ..said })
}

fn identity() -> Identity {
    Identity {
        role: Role::Node,
        name: "node1".into(),
        machine: [1; 16],
        boot: [1; 16],
        started: 1,
        start_nonce: 1,
        program: "simulated".into(),
        prove: None,
    }
}

/// The answer that a hub must give. Returns how many of the bytes belong to frames that are sent again and
/// again.
fn answer(mut said: &[u8], wall: i64, hub: &mut Vec<u8>) -> Result<u64, LinkError> {
    let mut bytes = 0;
    while let Some(frame) = split(said, FRAME_MAX)? {
        match Frame::decode(frame.kind, frame.body)? {
            Frame::Lane(offer) => Want { epoch: offer.epoch, ..Want::default() }.put(offer.lane, hub),
            Frame::Beat(beat) => put::beaten(hub, beat.stamp, wall, wall, |_| {}),
            _ => {}
        }
        if matches!(frame.kind, kind::BLOCK | kind::ROWS | kind::END | kind::BEAT) {
            bytes += frame.length as u64;
        }
        said = &said[frame.length..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::recording_of;

    #[test]
    fn a_minute_has_its_rows_and_twice_as_much_time_about_twice_the_bytes() {
        let library =
            || Library::of(vec![recording_of(60, 50, |tick, slot| (0, tick * slot as u64))], 0).unwrap();
        let minute = said(library(), 0, Nanos::from_millis(10), Nanos::from_secs(60)).unwrap();
        assert!((5_990..=6_001).contains(&minute.rows), "{minute:?}");
        assert_eq!(minute.slots, 60);
        let two = said(library(), 0, Nanos::from_millis(10), Nanos::from_secs(120)).unwrap();
        assert!((190..=210).contains(&(two.bytes * 100 / minute.bytes)), "{minute:?} {two:?}");
        assert!(minute.bytes > minute.rows * 60);
    }
}
