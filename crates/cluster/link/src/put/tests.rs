//! Every frame is decoded as it was encoded.

use khz_model::{ChannelName, ChannelTerms};

use super::*;
use crate::definition::{self, DefinitionFrame};
use crate::error::LinkError;
use crate::frame::{Frame, split};
use crate::limits::{FRAME_MAX, HANDLER_BYTES_MAX};
use crate::texts::{NoText, ReadFrame, TextGiven, Why};

fn whole(bytes: &[u8]) -> Frame<'_> {
    let frame = split(bytes, FRAME_MAX).unwrap().unwrap();
    assert_eq!(frame.length, bytes.len());
    Frame::decode(frame.kind, frame.body).unwrap()
}

/// A body that is cut anywhere is refused, or was cut only in its free end. With more bytes after it, it reads the same.
fn cuts_are_noticed(bytes: &[u8]) {
    let frame = split(bytes, FRAME_MAX).unwrap().unwrap();
    for end in 0..frame.body.len() {
        let _ = Frame::decode(frame.kind, &frame.body[..end]);
    }
    let longer = [frame.body, &[0xaa; 5]].concat();
    assert_eq!(Frame::decode(frame.kind, &longer), Frame::decode(frame.kind, frame.body));
}

/// If any eight bytes of a body are all ones, numbers of rows and periods still can be added and multiplied.
fn extremes_are_refused(bytes: &[u8]) {
    let frame = split(bytes, FRAME_MAX).unwrap().unwrap();
    for start in 0..frame.body.len().saturating_sub(7) {
        let mut body = frame.body.to_vec();
        body[start..start + 8].fill(0xff);
        let (rows, period) = match Frame::decode(frame.kind, &body) {
            Ok(Frame::Lane(offer)) => ([offer.oldest_row, offer.next_row], offer.period),
            Ok(Frame::Want(want)) => ([want.from_row; 2], Nanos(0)),
            Ok(Frame::Told(told)) => ([0; 2], told.period),
            Ok(Frame::Lost { from, to, .. } | Frame::Again { from, to, .. }) => ([from, to], Nanos(0)),
            _ => continue,
        };
        assert!(rows.iter().all(|&row| row <= khz_block::ROW_MAX) && period <= khz_model::Rate::PERIOD_MAX);
    }
}

#[test]
fn every_message_reads_as_it_was_said() {
    let text = "kürzlich";
    let greeting =
        Greeting { lowest: 1, highest: 2, nonce: [3; 32], identity: [4; 16], name: text, sources: &[5; 32] };
    let mut out = Vec::new();
    let mut said = String::new();
    let mut check = |put: &dyn Fn(&mut Vec<u8>), expected: Frame<'_>| {
        out.clear();
        put(&mut out);
        assert_eq!(whole(&out), expected);
        said += &line(&out);
        if !matches!(expected, Frame::Rows { .. } | Frame::Schema(_) | Frame::Past { .. }) {
            cuts_are_noticed(&out);
        }
        extremes_are_refused(&out);
    };
    check(&|out| greeting.put(out), Frame::Greeting(greeting.clone()));
    let welcome = Welcome { version: 1, silence: Nanos::from_millis(2_500), abilities: 3 };
    check(&|out| welcome.put(out), Frame::Welcome(welcome));
    check(&|out| refuse(out, Reason::Full, text), Frame::Refuse { reason: Reason::Full, text });
    for proof in [None, Some([8; 32])] {
        let (machine, boot) = ([1; 16], [2; 16]);
        let hello = Hello {
            version: 1,
            role: Role::Hub,
            name: "n1",
            machine,
            boot,
            started: -5,
            start_nonce: 6,
            program: "0.1.0",
            proof,
            abilities: KNOWS_TEXTS,
        };
        check(&|out| hello.put(out), Frame::Hello(hello.clone()));
    }
    let offer = LaneOffer {
        lane: 300,
        node: "n7",
        name: "base",
        epoch: u64::MAX,
        generation: 2,
        period: Nanos(9),
        interest: 4,
        oldest_row: 5,
        next_row: 6,
        schema_bytes: 7,
        schema_hash: [8; 16],
        stands_in: false,
    };
    check(&|out| offer.put(out), Frame::Lane(offer.clone()));
    check(&|out| leave(out, 3), Frame::Leave { lane: 3 });
    let read = ReadFrame { number: 5, node: "n7", period: Nanos::SECOND, path: "net/dev" };
    check(&|out| read.put(out), Frame::Read(read));
    check(&|out| unread(out, 5), Frame::Unread { number: 5 });
    let none = NoText { number: 5, why: Why::Stuck, text };
    check(&|out| none.put(out), Frame::NoText(none));
    check(&|out| text_now(out, 5, u32::MAX), Frame::TextNow { number: 5, ask: u32::MAX });
    for is_read in [false, true] {
        let given = TextGiven { number: 300, ask: 7, is_read };
        check(&|out| given.put(out), Frame::TextGiven(given));
    }
    check(&|out| dismiss(out, 3), Frame::Dismiss { number: 3 });
    for wanted in [false, true] {
        check(&|out| definition::put_wanted(out, wanted), Frame::Channels { wanted });
    }
    let defined = DefinitionFrame { name: "hot", json: "{\"name\":\"hot\"}" };
    check(&|out| defined.put(out), Frame::Definition(defined));
    check(&|out| definition::put_end(out, 300), Frame::Definitions { count: 300 });
    check(&|out| closed(out, 3), Frame::Closed { lane: 3 });
    check(&|out| lost(out, 3, 4, 9), Frame::Lost { lane: 3, from: 4, to: 9 });
    check(&|out| again(out, 3, 4, 9), Frame::Again { lane: 3, from: 4, to: 9 });
    let end = End { lane: 1, rows: 2, bytes: 3, crc: 4 };
    check(&|out| end.put(out), Frame::End(end));
    let told = Told { interest: 1, granted: true, period: Nanos(5), text, lane: 2, refused_by: "" };
    check(&|out| told.put(out), Frame::Told(told.clone()));
    let refused = Told { refused_by: "n7", ..told };
    check(&|out| refused.put(out), Frame::Told(refused.clone()));
    for round_trip in [None, Some(Nanos(5))] {
        let beat = Beat { stamp: -1, round_trip, offset: -7, retransmits: 300 };
        check(&|out| beat.put(out), Frame::Beat(beat));
    }
    let (lane, bytes) = (4, [1, 2, 3].as_slice());
    let piece = |out: &mut Vec<u8>, open: Open| {
        out.extend_from_slice(bytes);
        open.close(out);
    };
    let schema = SchemaPiece { lane, generation: 2, offset: 700, bytes };
    check(
        &|out| {
            let open = open_schema(out, lane, 2, 700);
            piece(out, open)
        },
        Frame::Schema(schema),
    );
    check(
        &|out| {
            let open = open_past(out, lane, true);
            piece(out, open)
        },
        Frame::Past { lane, last: true, bytes },
    );
    check(
        &|out| {
            let open = open_lane(out, kind::ROWS, lane);
            piece(out, open)
        },
        Frame::Rows { lane, bytes },
    );
    assert_eq!(said, include_str!("golden.frames"), "peers of other versions know these bytes");
}

/// A frame as a line of `golden*.frames`: its name and its bytes.
fn line(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} {hex}\n", whole(bytes).name())
}

#[test]
fn lists_read_as_they_were_said() {
    let mut out = Vec::new();
    let mut told = String::new();
    let want = Want {
        epoch: 1,
        from_row: 2,
        span: Nanos(3),
        schema_bytes: 4,
        prompt: true,
        have: vec![(5, 6), (8, 12)],
    };
    want.put(9, &mut out);
    let Frame::Want(said) = whole(&out) else { panic!() };
    assert_eq!((said.lane, said.to_want()), (9, want));
    cuts_are_noticed(&out);
    told += &line(&out);

    out.clear();
    Ask {
        number: 1,
        period: Nanos(2),
        exact: true,
        past: true,
        patterns: &["cpu.*", "n1:mem.*[*]"],
        ..Ask::default()
    }
    .put(&mut out);
    let Frame::Interest(said) = whole(&out) else { panic!() };
    assert_eq!(said.patterns().collect::<Vec<_>>(), ["cpu.*", "n1:mem.*[*]"]);
    assert_eq!(
        (said.exact, said.prompt, said.past, said.own, said.channel),
        (true, false, true, false, None)
    );
    cuts_are_noticed(&out);
    told += &line(&out);

    for handler in [&[][..], &[7; 300], &[8; HANDLER_BYTES_MAX]] {
        out.clear();
        let channel = Some(ChannelFrame { name: "hot", handler });
        let patterns = &["cpu.*"];
        Ask { number: 300, period: Nanos(2), prompt: true, channel, patterns, ..Ask::default() }
            .put(&mut out);
        let frame = whole(&out);
        assert_eq!((frame.kind(), frame.name()), (kind::CHANNEL, "Channel"));
        let Frame::Interest(said) = frame else { panic!() };
        assert_eq!((said.number, said.own, said.channel), (300, false, channel));
        assert_eq!(said.patterns().collect::<Vec<_>>(), ["cpu.*"]);
        cuts_are_noticed(&out);
        if handler.len() <= 300 {
            told += &line(&out);
        }
    }

    // Only a peer that knows it gets this flag.
    out.clear();
    let channel = Some(ChannelFrame { name: "hot", handler: &[7] });
    let (number, period) = (300, Nanos(2));
    let own = Ask { number, period, prompt: true, own: true, channel, patterns: &["*"], ..Ask::default() };
    own.put(&mut out);
    let Frame::Interest(said) = whole(&out) else { panic!() };
    assert_eq!((said.prompt, said.own, said.channel), (true, true, channel));
    cuts_are_noticed(&out);

    out.clear();
    let acks = [Ack { lane: 1, received: 2, stored: 3 }, Ack { lane: 500, received: 4, stored: 5 }];
    beaten(&mut out, 1, 2, 3, |lanes| acks.iter().for_each(|ack| lanes.push(*ack)));
    let Frame::Beaten(said) = whole(&out) else { panic!() };
    assert_eq!(said.acks().collect::<Vec<_>>(), acks);
    cuts_are_noticed(&out);
    told += &line(&out);
    assert_eq!(told, include_str!("golden_lists.frames"), "peers of other versions know these bytes");
}

#[test]
fn a_sender_cuts_lists_and_texts_that_are_too_long() {
    let mut out = Vec::new();
    beaten(&mut out, 1, 2, 3, |lanes| {
        (0..5_000).for_each(|lane| lanes.push(Ack { lane, received: 0, stored: 0 }))
    });
    let Frame::Beaten(said) = whole(&out) else { panic!() };
    assert_eq!(said.acks().count(), ACKS_MAX);
    out.clear();
    refuse(&mut out, Reason::Full, &"x".repeat(10_000));
    let Frame::Refuse { text, .. } = whole(&out) else { panic!() };
    assert_eq!(text.len(), TEXT_MAX);
}

#[test]
fn a_channel_is_an_interest_with_a_name_and_a_handler_and_has_these_bytes() {
    let terms = ChannelTerms { name: ChannelName::new("hot").unwrap(), handler: [9, 8].as_slice().into() };
    let mut out = Vec::new();
    let patterns = &["cpu.*"];
    let channel = Some(ChannelFrame::from(&terms));
    Ask { number: 3, period: Nanos(0x0102), exact: true, channel, patterns, ..Ask::default() }.put(&mut out);
    let interest = [3, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1, 5, b'c', b'p', b'u', b'.', b'*'];
    assert_eq!(out, [&[25, 0, 0, 0, 11][..], &interest, &[3, b'h', b'o', b't', 2, 9, 8]].concat());
    let Frame::Interest(said) = whole(&out) else { panic!() };
    assert_eq!(*said.channel.unwrap().to_terms().unwrap(), terms);
}

#[test]
fn a_channel_without_a_name_or_with_too_much_is_refused() {
    let body = |name: usize, handler: usize| {
        let mut body = vec![3, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0];
        put_text(&mut body, &"x".repeat(name), usize::MAX);
        put_varint(&mut body, handler as u64);
        body.resize(body.len() + handler, 7);
        body
    };
    for (name, handler, at) in
        [(64, HANDLER_BYTES_MAX, None), (65, 0, Some(11)), (3, HANDLER_BYTES_MAX + 1, Some(15))]
    {
        let body = body(name, handler);
        let refused = match Frame::decode(kind::CHANNEL, &body) {
            Err(LinkError::Damaged { frame: "Channel", at, .. }) => Some(at),
            other => other.map(|_| None).unwrap(),
        };
        assert_eq!(refused, at, "{name}, {handler}");
    }
    assert!(Frame::decode(kind::CHANNEL, &body(3, 5)[..11]).is_err(), "an Interest is no Channel");
    // A name is checked where it is used, so that a bad one ends no connection.
    for name in ["", "Hot", "a.b"] {
        assert!(ChannelFrame { name, handler: &[] }.to_terms().is_err(), "{name}");
    }
    // A sender cuts a handler that is too long: a node refuses what is left.
    let (mut out, patterns, handler) = (Vec::new(), &["cpu.*"], [7; HANDLER_BYTES_MAX + 1]);
    let channel = Some(ChannelFrame { name: "hot", handler: &handler });
    Ask { number: 3, period: Nanos(2), exact: true, channel, patterns, ..Ask::default() }.put(&mut out);
    let Frame::Interest(said) = whole(&out) else { panic!() };
    assert_eq!(said.channel.unwrap().handler.len(), HANDLER_BYTES_MAX);
}

#[test]
fn what_the_second_version_adds_has_these_bytes() {
    let mut out = Vec::new();
    again(&mut out, 3, 0x0102, 0x0304);
    let rows = [0x02, 0x01, 0, 0, 0, 0, 0, 0, 0x04, 0x03, 0, 0, 0, 0, 0, 0];
    assert_eq!(out, [&[18, 0, 0, 0, 10, 3][..], &rows].concat());
}
