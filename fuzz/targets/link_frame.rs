//! Frames from anywhere: read or refused with an offset, and what was read is said so that it reads the same.

#![no_main]

use khz_link::limits::FRAME_MAX;
use khz_link::{Ask, Frame, frame, put};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(raw)) = frame::split(rest, FRAME_MAX) {
        match Frame::decode(raw.kind, raw.body) {
            Ok(frame) => says_the_same(&frame),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        rest = &rest[raw.length..];
    }
});

fn says_the_same(frame: &Frame<'_>) {
    let mut out = Vec::new();
    match frame {
        Frame::Greeting(greeting) => greeting.put(&mut out),
        Frame::Welcome(welcome) if welcome.silence.0 == u64::MAX => return,
        Frame::Welcome(welcome) => welcome.put(&mut out),
        Frame::Refuse { reason, text } => put::refuse(&mut out, *reason, text),
        Frame::Want(want) => want.to_want().put(want.lane, &mut out),
        Frame::Leave { lane } => put::leave(&mut out, *lane),
        Frame::Interest(interest) => {
            let patterns: Vec<&str> = interest.patterns().collect();
            let &khz_link::InterestFrame { number, period, exact, prompt, past, own, channel, .. } = interest;
            Ask { number, period, exact, prompt, past, own, channel, patterns: &patterns }.put(&mut out);
            let raw = frame::split(&out, FRAME_MAX).expect("small").expect("whole");
            let Ok(Frame::Interest(again)) = Frame::decode(raw.kind, raw.body) else { panic!("not an Interest") };
            assert_eq!(again.patterns().collect::<Vec<_>>(), patterns);
            assert_eq!((raw.kind, again.channel), (frame.kind(), channel));
            return;
        }
        Frame::Dismiss { number } => put::dismiss(&mut out, *number),
        Frame::Now { interest, ask } => put::now(&mut out, *interest, *ask),
        Frame::Again { lane, from, to } => put::again(&mut out, *lane, *from, *to),
        Frame::Given { lane, ask } => put::given(&mut out, *lane, *ask),
        Frame::Beaten(beaten) => {
            let khz_link::Beaten { stamp, received, answered, .. } = *beaten;
            put::beaten(&mut out, stamp, received, answered, |acks| beaten.acks().for_each(|ack| acks.push(ack)));
            let raw = frame::split(&out, FRAME_MAX).expect("small").expect("whole");
            let Ok(Frame::Beaten(again)) = Frame::decode(raw.kind, raw.body) else { panic!("not a Beaten") };
            assert!(again.acks().eq(beaten.acks()));
            return;
        }
        Frame::Hello(hello) => hello.put(&mut out),
        Frame::Lane(offer) => offer.put(&mut out),
        Frame::End(end) => end.put(&mut out),
        Frame::Lost { lane, from, to } => put::lost(&mut out, *lane, *from, *to),
        Frame::Closed { lane } => put::closed(&mut out, *lane),
        Frame::Told(told) => told.put(&mut out),
        Frame::Beat(beat) => beat.put(&mut out),
        Frame::Roster { wanted } => put::roster(&mut out, *wanted),
        Frame::Node(status) => khz_link::node_status::put(status, &mut out),
        Frame::Nodes { count } => khz_link::node_status::put_end(*count as usize, &mut out),
        Frame::Read(wish) => wish.put(&mut out),
        Frame::Unread { number } => put::unread(&mut out, *number),
        Frame::Text(piece) => piece.put(&mut out),
        Frame::NoText(none) => none.put(&mut out),
        Frame::Goodbye(goodbye) => goodbye.put(&mut out),
        Frame::TextNow { number, ask } => put::text_now(&mut out, *number, *ask),
        Frame::TextGiven(given) => given.put(&mut out),
        Frame::Channels { wanted } => khz_link::definition::put_wanted(&mut out, *wanted),
        Frame::Definition(definition) => definition.put(&mut out),
        Frame::Definitions { count } => khz_link::definition::put_end(&mut out, *count as usize),
        Frame::Standing(standing) => standing.put(&mut out),
        Frame::Freeze(freeze) => freeze.put(&mut out),
        Frame::Thaw { number } => khz_link::freeze::put_thaw(&mut out, *number),
        Frame::Frozen(frozen) => frozen.put(&mut out),
        Frame::Schema(_) | Frame::Block { .. } | Frame::Rows { .. } | Frame::Past { .. } | Frame::Newer { .. } => return,
    }
    let raw = frame::split(&out, FRAME_MAX).expect("what was said is small").expect("what was said is whole");
    assert_eq!(Frame::decode(raw.kind, raw.body).as_ref(), Ok(frame));
}
