//! Every frame of a node or a reader reaches the hub as what it is.

use super::*;
use crate::channel::ChannelFrame;
use crate::definition;
use crate::frame::kind;
use crate::goodbye::Leaving;
use crate::texts::Why;
use khz_model::Stamp;

/// Writes down its calls.
#[derive(Default)]
struct Hears(Vec<String>);

impl Hears {
    fn note(&mut self, what: impl std::fmt::Debug) -> Taken {
        self.0.push(format!("{what:?}").replace('"', ""));
        Ok(())
    }
}

impl HubSide for Hears {
    fn hello(&mut self, _: &Hello<'_>, _: &[u8; 32]) -> Verdict {
        Verdict::Welcome
    }
    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        self.note(("lane", offer.lane)).map(|()| None)
    }
    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Taken {
        self.note(("schema", piece.lane, piece.offset, piece.bytes))
    }
    fn block(&mut self, lane: u32, bytes: &[u8]) -> Taken {
        self.note(("block", lane, bytes))
    }
    fn rows(&mut self, lane: u32, bytes: &[u8]) -> Taken {
        self.note(("rows", lane, bytes))
    }
    fn end(&mut self, end: &End) -> Taken {
        self.note(("end", end.lane, end.rows))
    }
    fn past(&mut self, lane: u32, last: bool, bytes: &[u8]) -> Taken {
        self.note(("past", lane, last, bytes))
    }
    fn lost(&mut self, lane: u32, from: u64, to: u64) -> Taken {
        self.note(("lost", lane, from, to))
    }
    fn closed(&mut self, lane: u32) -> Taken {
        self.note(("closed", lane))
    }
    fn told(&mut self, told: &Told<'_>) -> Result<Option<Want>, Reject> {
        self.note(("told", told.interest))?;
        Ok((told.lane != 0).then(Want::default))
    }
    fn given(&mut self, lane: u32, ask: u32) -> Taken {
        self.note(("given", lane, ask))
    }
    fn beat(&mut self, beat: &Beat, _: &mut Acks<'_>) {
        let _ = self.note(("beat", beat.stamp));
    }
    fn interest(&mut self, interest: &InterestFrame<'_>) -> Taken {
        match interest.channel {
            None => self.note(("interest", interest.number)),
            Some(channel) => self.note(("channel", interest.number, channel.name, channel.handler)),
        }
    }
    fn dismiss(&mut self, number: u32) -> Taken {
        self.note(("dismiss", number))
    }
    fn roster(&mut self, wanted: bool) -> Taken {
        self.note(("roster", wanted))
    }
    fn channels(&mut self, wanted: bool) -> Taken {
        self.note(("channels", wanted))
    }
    fn read(&mut self, read: &ReadFrame<'_>) -> Taken {
        self.note(("read", read.number, read.path))
    }
    fn unread(&mut self, number: u32) -> Taken {
        self.note(("unread", number))
    }
    fn text_now(&mut self, number: u32, ask: u32) -> Taken {
        self.note(("text now", number, ask))
    }
    fn text_given(&mut self, given: TextGiven) -> Taken {
        self.note(("text given", given.number, given.ask))
    }
    fn text(&mut self, piece: &TextPiece<'_>) -> Taken {
        self.note(("text", piece.number, piece.bytes))
    }
    fn no_text(&mut self, none: &NoText<'_>) -> Taken {
        self.note(("no text", none.number))
    }
    fn standing(&mut self, standing: &Standing<'_>) -> Taken {
        self.note(("standing", standing.first))
    }
    fn goodbye(&mut self, goodbye: &Goodbye<'_>) -> Taken {
        self.note(("goodbye", goodbye.text))
    }
    fn want(&mut self, want: &WantFrame<'_>) -> Taken {
        self.note(("want", want.lane, want.from_row))
    }
    fn leave(&mut self, lane: u32) -> Taken {
        self.note(("leave", lane))
    }
}

/// The calls that these frames from a peer of this role cause, and the names of the frames that the hub sends.
fn heard(role: Role, say: impl Fn(&mut Vec<u8>)) -> (Vec<String>, Vec<&'static str>) {
    let (mut hears, mut bytes, mut out) = (Hears::default(), tests::hello(role), Vec::new());
    let mut end = HubEnd::new(&HubEndConfig::new([4; 16], "hub"), [9; 32], Nanos(0), &mut out);
    say(&mut bytes);
    end.receive(&bytes, Nanos(1), 1_000, &mut hears, &mut out).unwrap();
    assert_eq!(end.role(), Some(role));
    (hears.0, tests::names(&out))
}

fn with_lane(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    let frame = put::open_lane(out, kind, 1);
    out.extend_from_slice(bytes);
    frame.close(out);
}

#[test]
fn every_frame_of_a_node_is_heard_as_what_it_is() {
    let stamp = Stamp { boot: Nanos(1), real_offset: 2 };
    let say = |out: &mut Vec<u8>| {
        out.extend(tests::offer());
        let schema = put::open_schema(out, 1, 2, 3);
        out.push(7);
        schema.close(out);
        with_lane(out, kind::BLOCK, &[1]);
        with_lane(out, kind::ROWS, &[2]);
        End { lane: 1, rows: 9, bytes: 2, crc: 3 }.put(out);
        for last in [false, true] {
            let past = put::open_past(out, 1, last);
            out.push(3);
            past.close(out);
        }
        put::lost(out, 1, 4, 6);
        Told { interest: 8, granted: true, period: Nanos(5), text: "", lane: 1, refused_by: "" }.put(out);
        put::given(out, 1, 12);
        put::closed(out, 1);
        Beat { stamp: 13, round_trip: None, offset: 0, retransmits: 0 }.put(out);
        TextPiece { number: 14, version: 1, base: 0, stamp, length: 1, packed: 1, at: 0, bytes: &[5] }
            .put(out);
        NoText { number: 15, why: Why::Missing, text: "" }.put(out);
        TextGiven { number: 16, ask: 17, is_read: true }.put(out);
        Standing { first: "hub1", problem: "", since: None, back: None }.put(out);
        Goodbye { leaving: Leaving::Ends, text: "bye" }.put(out);
    };
    let (heard, said) = heard(Role::Node, say);
    assert_eq!(
        heard,
        [
            "(lane, 1)",
            "(schema, 1, 3, [7])",
            "(block, 1, [1])",
            "(rows, 1, [2])",
            "(end, 1, 9)",
            "(past, 1, false, [3])",
            "(past, 1, true, [3])",
            "(lost, 1, 4, 6)",
            "(told, 8)",
            "(given, 1, 12)",
            "(closed, 1)",
            "(beat, 13)",
            "(text, 14, [5])",
            "(no text, 15)",
            "(text given, 16, 17)",
            "(standing, hub1)",
            "(goodbye, bye)",
        ]
    );
    // The hub may send a Want for a lane that an answer names, and answers a Beat.
    assert_eq!(said, ["Greeting", "Welcome", "Want", "Beaten"]);
}

#[test]
fn every_frame_of_a_reader_is_heard_as_what_it_is() {
    let say = |out: &mut Vec<u8>| {
        let patterns = &["cpu.*"];
        Ask { number: 1, period: Nanos(1), prompt: true, patterns, ..Ask::default() }.put(out);
        let channel = Some(ChannelFrame { name: "hot", handler: &[8] });
        Ask { number: 2, period: Nanos(1), prompt: true, channel, patterns, ..Ask::default() }.put(out);
        Want { from_row: 3, ..Want::default() }.put(2, out);
        put::leave(out, 2);
        put::dismiss(out, 1);
        put::roster(out, true);
        definition::put_wanted(out, true);
        ReadFrame { number: 4, node: "n1", period: Nanos(5), path: "/proc/stat" }.put(out);
        put::text_now(out, 4, 6);
        put::unread(out, 4);
        Beat { stamp: 7, round_trip: None, offset: 0, retransmits: 0 }.put(out);
        // Frames that only nodes send are ignored, and the connection stays.
        Goodbye { leaving: Leaving::Ends, text: "bye" }.put(out);
        Standing { first: "hub1", problem: "", since: None, back: None }.put(out);
    };
    let expected = [
        "(interest, 1)",
        "(channel, 2, hot, [8])",
        "(want, 2, 3)",
        "(leave, 2)",
        "(dismiss, 1)",
        "(roster, true)",
        "(channels, true)",
        "(read, 4, /proc/stat)",
        "(text now, 4, 6)",
        "(unread, 4)",
        "(beat, 7)",
    ];
    for role in [Role::Reader, Role::Hub, Role::Operator] {
        let (heard, said) = heard(role, say);
        assert_eq!(
            (heard, said),
            (expected.map(str::to_owned).to_vec(), vec!["Greeting", "Welcome", "Beaten"])
        );
    }
}

#[test]
fn what_a_hub_asks_and_takes_back_is_said_as_what_it_is() {
    let mut out = Vec::new();
    let mut end = HubEnd::new(&HubEndConfig::new([4; 16], "hub"), [9; 32], Nanos(0), &mut out);
    out.clear();
    let patterns: &[&str] = &["cpu.*"];
    end.want(1, &Want::default(), &mut out);
    end.leave(1, &mut out);
    end.interest(&Ask { number: 1, period: Nanos(1), prompt: true, patterns, ..Ask::default() }, &mut out);
    end.now(1, 2, &mut out);
    end.again(1, 3, 4, &mut out);
    end.dismiss(1, &mut out);
    end.read(&ReadFrame { number: 5, node: "", period: Nanos(1), path: "/proc/stat" }, &mut out);
    end.text_now(5, 6, &mut out);
    end.unread(5, &mut out);
    end.refuse(Reason::Full, "no place", &mut out);
    let said =
        ["Want", "Leave", "Interest", "Now", "Again", "Dismiss", "Read", "TextNow", "Unread", "Refuse"];
    assert_eq!(tests::names(&out), said);
    assert_eq!(
        (end.role(), end.receive(&[0], Nanos(1), 0, &mut Hears::default(), &mut out)),
        (None, Err(LinkError::Over))
    );
}

#[test]
fn a_peer_that_sends_interests_too_fast_is_refused_and_a_slow_one_is_not() {
    let interest = |number: u32| {
        let (mut out, patterns) = (Vec::new(), &["cpu.*"]);
        Ask { number, period: Nanos(1), prompt: true, patterns, ..Ask::default() }.put(&mut out);
        out
    };
    let text = |number: u32| {
        let mut out = Vec::new();
        ReadFrame { number, node: "n1", period: Nanos(5), path: "/proc/stat" }.put(&mut out);
        out
    };
    for (frame, at_once, a_second) in [
        (&interest as &dyn Fn(u32) -> Vec<u8>, INTERESTS_AT_ONCE, INTERESTS_A_SECOND),
        (&text, READS_AT_ONCE, READS_A_SECOND),
    ] {
        let (mut hears, mut out) = (Hears::default(), Vec::new());
        let mut end = HubEnd::new(&HubEndConfig::new([4; 16], "hub"), [9; 32], Nanos(0), &mut out);
        let mut say = |bytes: &[u8], now: Nanos| end.receive(bytes, now, 0, &mut hears, &mut Vec::new());
        say(&tests::hello(Role::Reader), Nanos(1)).unwrap();
        for number in 0..at_once {
            say(&frame(number as u32 + 1), Nanos(1)).unwrap();
        }
        for second in 1..=3 {
            for number in 0..a_second {
                say(&frame(number as u32 + 1), Nanos::from_secs(second * 2)).unwrap();
            }
        }
        let mut refused = None;
        for number in 0..2 * at_once {
            refused = refused.or(say(&frame(number as u32 + 1), Nanos::from_secs(6)).err());
        }
        let Some(LinkError::Rejected(reject)) = refused else { panic!("{refused:?}") };
        assert_eq!(reject.reason, Reason::Full);
        assert!(reject.text.contains(&a_second.to_string()), "{}", reject.text);
    }
}
