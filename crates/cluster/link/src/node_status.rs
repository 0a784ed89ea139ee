//! The state of a node as a frame, which a hub sends to readers that requested the list of nodes.

use khz_model::name::{INSTANCE_MAX, NODE_NAME_MAX};
use khz_model::{Away, LaneStatus, Nanos, NodeName, NodeStatus, Rate};

use crate::frame::kind;
use crate::limits::{HUB_NAME_MAX, LANES_MAX, PROGRAM_MAX, TEXT_MAX};
use crate::put::open;
use crate::wire::{Body, Misfit, put_text, put_varint};

/// An address with its port, as text.
const ADDRESS_MAX: usize = 64;

/// Times that are not known.
const UNKNOWN: u64 = u64::MAX;
const UNKNOWN_OFFSET: i64 = i64::MIN;

/// Flags after the lanes. Older hubs do not send them.
const LEFT: u8 = 1;
const EXPECTED: u8 = 2;
const BELIEVED: u8 = 4;
/// After the flags: the address of the node's hub, and why the node is not at another hub.
const HUB: u8 = 8;
const AWAY: u8 = 16;
/// After these fields: for each lane the requested period, if a lane runs at another period.
const ASKED: u8 = 32;
/// A hub's address in a node's settings.
const HUB_ADDRESS_MAX: usize = 300;

/// Appends the state of a node.
pub fn put(status: &NodeStatus, out: &mut Vec<u8>) {
    let time = |time: Option<Nanos>| time.map_or(UNKNOWN, |time| time.0).to_le_bytes();
    let frame = open(out, kind::NODE);
    put_text(out, status.node.as_str(), NODE_NAME_MAX);
    out.push(u8::from(status.up));
    out.extend_from_slice(&time(status.heard));
    out.extend_from_slice(&time(status.since));
    put_text(out, status.address.as_deref().unwrap_or_default(), ADDRESS_MAX);
    put_text(out, &status.version, PROGRAM_MAX);
    out.extend_from_slice(&status.clock_offset.unwrap_or(UNKNOWN_OFFSET).to_le_bytes());
    out.extend_from_slice(&time(status.round_trip));
    out.extend_from_slice(&status.retransmitted.unwrap_or(UNKNOWN).to_le_bytes());
    put_varint(out, status.connects);
    put_text(out, status.problem.as_deref().unwrap_or_default(), TEXT_MAX);
    let lanes = &status.lanes[..status.lanes.len().min(LANES_MAX)];
    put_varint(out, lanes.len() as u64);
    for lane in lanes {
        put_text(out, &lane.name, INSTANCE_MAX);
        out.extend_from_slice(&lane.rate.period().0.to_le_bytes());
        out.extend_from_slice(&time(lane.age));
        for number in [lane.slots, lane.rows, lane.awaited, lane.lost, lane.late] {
            put_varint(out, number);
        }
    }
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    out.push(
        flag(status.left, LEFT)
            | flag(status.expected, EXPECTED)
            | flag(status.believed, BELIEVED)
            | flag(status.hub.is_some(), HUB)
            | flag(status.away.is_some(), AWAY)
            | flag(lanes.iter().any(|lane| lane.asked != lane.rate), ASKED),
    );
    if let Some(hub) = &status.hub {
        put_text(out, hub, HUB_NAME_MAX);
    }
    if let Some(away) = &status.away {
        put_text(out, &away.first, HUB_ADDRESS_MAX);
        put_text(out, &away.problem, TEXT_MAX);
        out.extend_from_slice(&time(away.since));
        out.extend_from_slice(&time(away.back));
    }
    if lanes.iter().any(|lane| lane.asked != lane.rate) {
        lanes.iter().for_each(|lane| out.extend_from_slice(&lane.asked.period().0.to_le_bytes()));
    }
    frame.close(out);
}

/// Appends the end of the list of nodes.
pub fn put_end(nodes: usize, out: &mut Vec<u8>) {
    let frame = open(out, kind::NODES);
    put_varint(out, nodes as u64);
    frame.close(out);
}

pub(crate) fn decode(body: &mut Body<'_>) -> Result<NodeStatus, Misfit> {
    let at = body.at();
    let node = NodeName::new(body.text(NODE_NAME_MAX)?);
    let node = node.map_err(|_| Misfit { at, problem: "a name that is no node's" })?;
    let mut status = NodeStatus {
        up: body.u8()? & 1 != 0,
        heard: time(body)?,
        since: time(body)?,
        address: text(body, ADDRESS_MAX)?,
        version: body.text(PROGRAM_MAX)?.to_owned(),
        clock_offset: Some(body.i64()?).filter(|&offset| offset != UNKNOWN_OFFSET),
        round_trip: time(body)?,
        retransmitted: Some(body.u64()?).filter(|&segments| segments != UNKNOWN),
        connects: body.varint()?,
        problem: text(body, TEXT_MAX)?,
        ..NodeStatus::here(node)
    };
    let at = body.at();
    let lanes = body.varint()?;
    if lanes > LANES_MAX as u64 {
        return Err(Misfit { at, problem: "more lanes than a node has" });
    }
    for _ in 0..lanes {
        status.lanes.push(lane(body)?);
    }
    let flags = if body.is_at_end() { 0 } else { body.u8()? };
    (status.left, status.expected) = (flags & LEFT != 0, flags & EXPECTED != 0);
    status.believed = flags & BELIEVED != 0;
    if flags & HUB != 0 {
        status.hub = Some(body.text(HUB_NAME_MAX)?.to_owned());
    }
    if flags & AWAY != 0 {
        let (first, problem) = (body.text(HUB_ADDRESS_MAX)?.to_owned(), body.text(TEXT_MAX)?.to_owned());
        status.away = Some(Away { first, problem, since: time(body)?, back: time(body)? });
    }
    if flags & ASKED != 0 {
        for lane in &mut status.lanes {
            lane.asked = rate(body)?;
        }
    }
    Ok(status)
}

fn lane(body: &mut Body<'_>) -> Result<LaneStatus, Misfit> {
    let name = body.text(INSTANCE_MAX)?.to_owned();
    let rate = rate(body)?;
    Ok(LaneStatus {
        name,
        rate,
        asked: rate,
        age: time(body)?,
        slots: body.varint()?,
        rows: body.varint()?,
        awaited: body.varint()?,
        lost: body.varint()?,
        late: body.varint()?,
    })
}

fn rate(body: &mut Body<'_>) -> Result<Rate, Misfit> {
    let at = body.at();
    Rate::from_period(Nanos(body.u64()?)).ok_or(Misfit { at, problem: "there is no such rate" })
}

fn time(body: &mut Body<'_>) -> Result<Option<Nanos>, Misfit> {
    Ok(Some(body.u64()?).filter(|&time| time != UNKNOWN).map(Nanos))
}

fn text(body: &mut Body<'_>, longest: usize) -> Result<Option<String>, Misfit> {
    let text = body.text(longest)?;
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, split};
    use crate::limits::FRAME_MAX;

    fn status() -> NodeStatus {
        let lane = LaneStatus {
            name: "base".into(),
            rate: Rate::from_hz(1).unwrap(),
            asked: Rate::from_hz(1).unwrap(),
            slots: 300,
            age: None,
            rows: 7,
            awaited: 0,
            lost: 1,
            late: 2,
        };
        NodeStatus {
            up: false,
            left: true,
            expected: true,
            believed: true,
            hub: Some("hub2".into()),
            away: Some(Away {
                first: "hub1:7071".into(),
                problem: "silent".into(),
                since: Some(Nanos(7)),
                back: None,
            }),
            heard: Some(Nanos(5)),
            clock_offset: Some(-9),
            problem: Some("refused".into()),
            lanes: vec![
                lane.clone(),
                LaneStatus { age: Some(Nanos(1)), asked: Rate::from_hz(4).unwrap(), ..lane },
            ],
            ..NodeStatus::here(NodeName::new("node7").unwrap())
        }
    }

    #[test]
    fn a_nodes_status_survives_the_way_there_and_back() {
        let mut out = Vec::new();
        put(&status(), &mut out);
        let raw = split(&out, FRAME_MAX).unwrap().unwrap();
        assert_eq!(Frame::decode(raw.kind, raw.body), Ok(Frame::Node(Box::new(status()))));
    }

    #[test]
    fn a_damaged_one_is_an_error_and_nothing_worse() {
        let mut out = Vec::new();
        put(&status(), &mut out);
        let raw = split(&out, FRAME_MAX).unwrap().unwrap();
        // An older hub sends nothing after the lanes.
        let more = 1 + (1 + 4) + (1 + 9) + (1 + 6) + 8 + 8 + 2 * 8;
        let older = Frame::decode(raw.kind, &raw.body[..raw.body.len() - more]).unwrap();
        let mut expected =
            NodeStatus { left: false, expected: false, believed: false, hub: None, away: None, ..status() };
        expected.lanes.iter_mut().for_each(|lane| lane.asked = lane.rate);
        assert_eq!(older, Frame::Node(Box::new(expected)));
        for cut in (0..raw.body.len()).filter(|&cut| cut != raw.body.len() - more) {
            assert!(Frame::decode(raw.kind, &raw.body[..cut]).is_err(), "{cut}");
        }
        for at in 0..raw.body.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut body = raw.body.to_vec();
                body[at] = byte;
                let _ = Frame::decode(raw.kind, &body);
            }
        }
    }
}
