//! The real thread over real sockets on loopback: rows arrive, hubs die and come back, strangers answer.

mod identity;
mod one_lane;
mod ring_lane;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use identity::identity;
use khz_block::{Decoder, Encoder};
use khz_link::driver::{
    Bell, Counters, Driver, Event as ReaderEvent, Events as ReaderEvents, Following, FollowingError,
    FollowingSettings, HubAddress, Settings, UNKNOWN,
};
use khz_link::limits::HANDLER_BYTES_MAX;
use khz_link::{
    ABILITIES, Acks, Beat, End, Hello, HubEnd, HubEndConfig, HubSide, Identity, Intake, InterestFrame,
    KNOWS_CHANNELS, LaneOffer, Reject, Role, RowSink, SchemaPiece, Told, Verdict, Want,
};
use khz_model::{ChannelName, ChannelTerms, Interest, Nanos, Pattern, Rate, Stamp};
use khz_ring::{Label, Ring, Writer};
use one_lane::OneLane;

/// Awaited events have come by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node with one lane, whose rows the test writes.
struct Node {
    writer: Writer,
    encoder: Encoder,
}

fn node() -> (Node, OneLane) {
    let label = Label {
        node: "n1".into(),
        lane: "base".into(),
        number: 1,
        machine: [1; 16],
        boot: [2; 16],
        epoch: 99,
        created: 0,
    };
    let Ring { mut writer, reader, .. } = Ring::anonymous(1 << 20, label).expect("a ring");
    writer.extend_schema(&[5; 3_000]).expect("room for a schema");
    let period = Nanos::from_millis(10);
    let encoder = Encoder::new(1, writer.generation(), period);
    (Node { writer, encoder }, OneLane::new(reader, period))
}

impl Node {
    fn write(&mut self, rows: u64) {
        let mut bytes = Vec::new();
        for _ in 0..rows {
            bytes.clear();
            let row = self.encoder.rows();
            let stamp = Stamp { boot: Nanos(row * 10_000_000), real_offset: 0 };
            if self.encoder.wants_new_block(stamp)
                && let Some(header) = self.encoder.close()
            {
                self.writer.close(&header);
            }
            if self.encoder.rows_open() == 0 {
                self.encoder.key_row(stamp, 50, |slot| (0, row * slot as u64), &mut bytes);
                assert!(self.writer.begin(&bytes));
            } else {
                self.encoder.delta_row(stamp, 0..50, |slot| (0, row * slot as u64), &mut bytes);
                assert!(self.writer.append(&bytes));
            }
        }
    }
}

/// What the test's hub tells the test.
#[derive(Debug, PartialEq)]
enum Event {
    Welcome(String),
    Row(u64),
    Gone,
}

struct Hub {
    intake: Intake,
    events: Events,
}

struct Events(Sender<Event>);

impl RowSink for Events {
    fn row(&mut self, number: u64, row: &Decoder) {
        assert_eq!(row.reading(7).and_then(|reading| reading.value()), Some(number * 7));
        let _ = self.0.send(Event::Row(number));
    }
    fn block(&mut self, _: &[u8]) {}
    fn lost(&mut self, from: u64, to: u64) {
        panic!("{from}..{to} lost");
    }
}

impl HubSide for Hub {
    fn hello(&mut self, hello: &Hello<'_>, _: &[u8; 32]) -> Verdict {
        let _ = self.events.0.send(Event::Welcome(hello.name.to_owned()));
        Verdict::Welcome
    }
    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        Ok(Some(self.intake.want(offer, Nanos(u64::MAX), false)))
    }
    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Result<(), Reject> {
        self.intake.schema(piece.generation, piece.offset, piece.bytes.len()).map(|_| ())
    }
    fn block(&mut self, _: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.intake.begin(bytes, &mut self.events)
    }
    fn rows(&mut self, _: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.intake.rows(bytes, &mut self.events)
    }
    fn end(&mut self, end: &End) -> Result<(), Reject> {
        self.intake.end(end, &mut self.events)
    }
    fn past(&mut self, _: u32, last: bool, bytes: &[u8]) -> Result<(), Reject> {
        self.intake.past(last, bytes, &mut self.events)
    }
    fn lost(&mut self, _: u32, from: u64, to: u64) -> Result<(), Reject> {
        self.intake.lost(from, to, &mut self.events);
        Ok(())
    }
    fn closed(&mut self, _: u32) -> Result<(), Reject> {
        Ok(())
    }
    fn told(&mut self, _: &Told<'_>) -> Result<Option<Want>, Reject> {
        Ok(None)
    }
    fn beat(&mut self, _: &Beat, _: &mut Acks<'_>) {}
}

type Open = Arc<Mutex<Option<TcpStream>>>;

fn lock(open: &Open) -> MutexGuard<'_, Option<TcpStream>> {
    open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A hub that takes one connection after the other; the open one can be cut.
fn hub(listener: TcpListener) -> (Receiver<Event>, Open) {
    let (events, heard) = channel();
    let open = Open::default();
    let kept = open.clone();
    std::thread::spawn(move || {
        let mut hub = Hub { intake: Intake::new(99), events: Events(events) };
        while let Ok((stream, _)) = listener.accept() {
            *lock(&kept) = stream.try_clone().ok();
            hub.intake.cut();
            serve(stream, &mut hub);
            if hub.events.0.send(Event::Gone).is_err() {
                return;
            }
        }
    });
    (heard, open)
}

fn serve(stream: TcpStream, hub: &mut Hub) {
    serve_as(&HubEndConfig::new([7; 16], "test"), stream, hub);
}

fn serve_as(config: &HubEndConfig, mut stream: TcpStream, hub: &mut impl HubSide) {
    let (mut out, mut buffer) = (Vec::new(), vec![0; 4_096]);
    let mut end = HubEnd::new(config, [8; 32], Nanos(0), &mut out);
    loop {
        if stream.write_all(&out).is_err() {
            return;
        }
        out.clear();
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        if end.receive(&buffer[..count], Nanos(0), 0, hub, &mut out).is_err() {
            return;
        }
    }
}

fn await_event(heard: &Receiver<Event>, wanted: impl Fn(&Event) -> bool) {
    loop {
        if wanted(&heard.recv_timeout(PATIENCE).expect("what was awaited never came")) {
            return;
        }
    }
}

fn start<L: khz_link::Lanes<Lane: Send> + Send + 'static>(
    hubs: Vec<HubAddress>,
    lanes: L,
) -> (Driver, Counters) {
    let counters = Counters::default();
    let bell = Bell::new().expect("a bell");
    let settings = Settings {
        hubs,
        identity: Arc::new(identity()),
        tls: None,
        near: None,
        from: None,
        failback_after: Nanos(0),
        counters: counters.clone(),
        bell,
    };
    (Driver::start(settings, lanes).expect("a thread"), counters)
}

fn local(listener: &TcpListener) -> HubAddress {
    let port = listener.local_addr().expect("an address").port();
    HubAddress::Net { host: "localhost".into(), port }
}

fn listener() -> TcpListener {
    TcpListener::bind("localhost:0").expect("a port")
}

fn count(counter: &Arc<std::sync::atomic::AtomicU64>) -> u64 {
    counter.load(std::sync::atomic::Ordering::Relaxed)
}

fn await_count(counter: &Arc<std::sync::atomic::AtomicU64>, is_so: impl Fn(u64) -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is_so(count(counter)) {
        assert!(std::time::Instant::now() < end, "it stays {}", count(counter));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn rows_arrive_and_after_a_cut_those_that_were_missed() {
    let listener = listener();
    let (mut node, lanes) = node();
    node.write(300);
    let address = local(&listener);
    let (heard, open) = hub(listener);
    let (driver, counters) = start(vec![address], lanes);
    await_event(&heard, |event| *event == Event::Welcome("n1".into()));
    await_event(&heard, |event| *event == Event::Row(299));
    node.write(300);
    await_event(&heard, |event| *event == Event::Row(599));
    // What goes on is counted while it does.
    await_count(&counters.rows, |rows| rows >= 128);
    await_count(&counters.rows_backlog, |rows| rows != UNKNOWN);
    await_count(&counters.round_trip, |time| time != UNKNOWN && time > 0);
    await_count(&counters.bytes_received, |bytes| bytes > 100);
    assert!(count(&counters.rows) <= 600 && count(&counters.rows_lost) == 0);
    if let Some(stream) = lock(&open).take() {
        stream.shutdown(std::net::Shutdown::Both).expect("an open connection");
    }
    node.write(100);
    await_event(&heard, |event| *event == Event::Gone);
    await_event(&heard, |event| *event == Event::Row(699));
    assert_eq!((count(&counters.connects), count(&counters.hub)), (2, 1));
    assert!(count(&counters.failures) == 1 && count(&counters.bytes_sent) > 1_000);
    drop(driver);
    await_event(&heard, |event| *event == Event::Gone);
    for gauge in [&counters.hub, &counters.round_trip, &counters.rows_backlog, &counters.retransmits] {
        await_count(gauge, |value| value == UNKNOWN);
    }
}

#[test]
fn a_hub_that_is_not_there_one_that_is_silent_and_one_that_is_no_hub_are_passed_over() {
    let (absent, silent, stranger, good) = (listener(), listener(), listener(), listener());
    let hubs = [&absent, &silent, &stranger, &good].map(local).to_vec();
    drop(absent);
    let shouts = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().expect("somebody comes");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it listens");
        // It is cut without a word.
        let mut words = Vec::new();
        let _ = stream.read_to_end(&mut words);
        words
    });
    let (mut node, lanes) = node();
    node.write(10);
    let (heard, _open) = hub(good);
    let (_driver, counters) = start(hubs, lanes);
    await_event(&heard, |event| *event == Event::Row(9));
    assert!(shouts.join().expect("it was cut").is_empty());
    assert_eq!((count(&counters.hub), count(&counters.connects)), (4, 1));
    assert_eq!(count(&counters.failures), 3);
    drop(silent);
}

/// A hub that notes what readers subscribe to.
struct Asked(Sender<String>);

impl HubSide for Asked {
    fn hello(&mut self, _: &Hello<'_>, _: &[u8; 32]) -> Verdict {
        Verdict::Welcome
    }
    fn interest(&mut self, interest: &InterestFrame<'_>) -> Result<(), Reject> {
        let channel = interest.channel.map_or("none".to_owned(), |channel| format!("{channel:?}"));
        let _ = self.0.send(format!("{} {channel}", interest.number));
        Ok(())
    }
    fn lane(&mut self, _: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        Ok(None)
    }
    fn schema(&mut self, _: &SchemaPiece<'_>) -> Result<(), Reject> {
        Ok(())
    }
    fn block(&mut self, _: u32, _: &[u8]) -> Result<(), Reject> {
        Ok(())
    }
    fn rows(&mut self, _: u32, _: &[u8]) -> Result<(), Reject> {
        Ok(())
    }
    fn end(&mut self, _: &End) -> Result<(), Reject> {
        Ok(())
    }
    fn past(&mut self, _: u32, _: bool, _: &[u8]) -> Result<(), Reject> {
        Ok(())
    }
    fn lost(&mut self, _: u32, _: u64, _: u64) -> Result<(), Reject> {
        Ok(())
    }
    fn closed(&mut self, _: u32) -> Result<(), Reject> {
        Ok(())
    }
    fn told(&mut self, _: &Told<'_>) -> Result<Option<Want>, Reject> {
        Ok(None)
    }
    fn beat(&mut self, _: &Beat, _: &mut Acks<'_>) {}
}

#[test]
fn a_reader_sends_channels_only_to_a_hub_that_knows_them_and_else_answers_itself() {
    let pattern = Pattern::new("cpu.*").expect("a pattern");
    let plain = Interest::new(vec![pattern], Rate::from_hz(10).expect("a rate"), false);
    let with = |bytes: usize| {
        let name = ChannelName::new("hot").expect("a name");
        let channel = Some(Arc::new(ChannelTerms { name, handler: vec![7; bytes].into() }));
        Interest { channel, ..plain.clone() }
    };
    for (abilities, knows) in [(ABILITIES & !KNOWS_CHANNELS, false), (ABILITIES, true)] {
        let (asked, heard) = channel();
        let listener = listener();
        let (sink, events) = ReaderEvents::new(1 << 20).expect("a queue");
        let settings = FollowingSettings {
            hubs: vec![local(&listener)],
            identity: Arc::new(Identity { role: Role::Reader, ..identity() }),
            tls: None,
            near: None,
            from: None,
            counters: Counters::default(),
        };
        std::thread::spawn(move || {
            let config = HubEndConfig { abilities, ..HubEndConfig::new([7; 16], "test") };
            let (stream, _) = listener.accept().expect("a reader");
            serve_as(&config, stream, &mut Asked(asked));
        });
        let reader = Following::start(settings, sink).expect("a thread");
        assert_eq!(
            reader.subscribe(&with(HANDLER_BYTES_MAX + 1), true),
            Err(FollowingError::Handler(HANDLER_BYTES_MAX + 1))
        );
        let number = reader.subscribe(&with(2), true).expect("a subscription");
        if knows {
            let said = heard.recv_timeout(PATIENCE).expect("a Channel");
            assert_eq!(said, format!("{number} ChannelFrame {{ name: \"hot\", handler: [7, 7] }}"));
        } else {
            let told = std::iter::from_fn(|| events.next_within(PATIENCE))
                .find(|event| matches!(event, ReaderEvent::Told { .. }));
            let text = "the hub's khz is older than channels: update it".to_owned();
            let told_locally = ReaderEvent::Told { interest: number, granted: false, period: Nanos(0), text };
            assert_eq!(told, Some(told_locally));
        }
        // Nothing else was sent meanwhile.
        let number = reader.subscribe(&plain, true).expect("a subscription");
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(format!("{number} none")));
    }
}

/// Lanes of a node that keeps rows of a time which goes on.
struct Freezing {
    lane: OneLane,
    kept: Arc<Mutex<u64>>,
    due: Nanos,
}

impl khz_link::Lanes for Freezing {
    type Lane = <OneLane as khz_link::Lanes>::Lane;
    fn revision(&self) -> u64 {
        self.lane.revision()
    }
    fn list(&self, each: &mut dyn FnMut(Self::Lane)) {
        self.lane.list(each);
    }
    fn ask(&mut self, _: &InterestFrame<'_>) {}
    fn dismiss(&mut self, _: u32) {}
    fn answer(&mut self) -> Option<khz_link::Answer> {
        None
    }
    fn keep_frozen(&mut self, now: Nanos) {
        *self.kept.lock().expect("no panic") += 1;
        self.due = Nanos(now.0 + 50_000_000);
    }
    fn frozen_due(&self) -> Option<Nanos> {
        Some(self.due)
    }
}

fn until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "what was awaited never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn rows_of_a_time_that_goes_on_are_kept_while_no_hub_is_there_and_while_one_says_nothing() {
    let (_, lane) = node();
    let nobody = listener();
    let away = local(&nobody);
    drop(nobody);
    let kept: Arc<Mutex<u64>> = Arc::default();
    let freezing = Freezing { lane, kept: kept.clone(), due: Nanos(0) };
    let counted = || *kept.lock().expect("no panic");
    let (driver, _) = start(vec![away], freezing);
    until(|| counted() > 5);
    drop(driver);
    // It takes connections, and never speaks.
    let (_, lane) = node();
    let silent = listener();
    let freezing = Freezing { lane, kept: kept.clone(), due: Nanos(0) };
    let (driver, _) = start(vec![local(&silent)], freezing);
    let taken = silent.accept().expect("a connection");
    let before = counted();
    until(|| counted() > before + 5);
    drop((driver, taken));
}
