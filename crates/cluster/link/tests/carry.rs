//! The thread that writes the rows of a prompt lane sends them, at once, without allocating, and without ever waiting for a
//! hub. This test has its own process, because it counts allocations.

mod identity;
mod one_lane;
mod ring_lane;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use identity::identity;
use khz_block::{Decoder, Encoder};
use khz_link::driver::{Bell, Counters, Driver, HubAddress, Settings};
use khz_link::{
    Acks, Answer, Beat, Carrier, End, Hello, HubEnd, HubEndConfig, HubSide, Intake, InterestFrame, LaneOffer,
    Lanes, Reject, RowSink, SchemaPiece, Told, Verdict, Want,
};
use khz_model::{Nanos, Stamp};
use khz_ring::{Label, Ring, Writer};
use one_lane::OneLane;
use ring_lane::RingLane;

/// Awaited events have come by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The carrier, once the link has given it.
type Given = Arc<Mutex<Option<Arc<Carrier>>>>;

/// A node with one lane, whose rows the test writes and sends.
struct Node {
    writer: Writer,
    encoder: Encoder,
    bytes: Vec<u8>,
    carrier: Given,
}

struct Carried {
    lane: OneLane,
    carrier: Given,
}

impl Lanes for Carried {
    type Lane = RingLane;
    fn revision(&self) -> u64 {
        self.lane.revision()
    }
    fn list(&self, each: &mut dyn FnMut(RingLane)) {
        self.lane.list(each);
    }
    fn ask(&mut self, _: &InterestFrame<'_>) {}
    fn dismiss(&mut self, _: u32) {}
    fn carrier(&mut self, carrier: Arc<Carrier>) {
        *self.carrier.lock().expect("nobody has panicked") = Some(carrier);
    }
    fn answer(&mut self) -> Option<Answer> {
        None
    }
}

fn node() -> (Node, Carried) {
    let (node, lane) = ("n1".into(), "base".into());
    let label = Label { node, lane, number: 1, machine: [1; 16], boot: [2; 16], epoch: 99, created: 0 };
    let Ring { writer, reader, .. } = Ring::anonymous(8 << 20, label).expect("a ring");
    let period = Nanos::from_millis(1);
    let encoder = Encoder::new(1, writer.generation(), period);
    let carrier = Given::default();
    let lanes = Carried { lane: OneLane::new(reader, period), carrier: carrier.clone() };
    (Node { writer, encoder, bytes: Vec::new(), carrier }, lanes)
}

impl Node {
    fn write(&mut self) {
        let Node { writer, encoder, bytes, .. } = self;
        bytes.clear();
        let row = encoder.rows();
        let stamp = Stamp { boot: Nanos(row * 1_000_000), real_offset: 0 };
        if encoder.wants_new_block(stamp)
            && let Some(header) = encoder.close()
        {
            writer.close(&header);
        }
        if encoder.rows_open() == 0 {
            encoder.key_row(stamp, 50, |slot| (0, row * slot as u64), bytes);
            assert!(writer.begin(bytes));
        } else {
            encoder.delta_row(stamp, 0..50, |slot| (0, row * slot as u64), bytes);
            assert!(writer.append(bytes));
        }
    }

    /// Sends what was written, and counts what that allocates.
    fn carry(&self) -> u64 {
        let carrier = self.carrier.lock().expect("nobody has panicked").clone().expect("the link runs");
        let before = ALLOCATIONS.get();
        carrier();
        ALLOCATIONS.get() - before
    }
}

/// A hub that wants every row at once and tells the test their numbers.
struct Hub {
    intake: Intake,
    rows: Rows,
}

struct Rows(Sender<u64>);

impl RowSink for Rows {
    fn row(&mut self, number: u64, row: &Decoder) {
        assert_eq!(row.reading(7).and_then(|reading| reading.value()), Some(number * 7));
        let _ = self.0.send(number);
    }
    fn block(&mut self, _: &[u8]) {}
    fn lost(&mut self, from: u64, to: u64) {
        panic!("{from}..{to} lost");
    }
}

impl HubSide for Hub {
    fn hello(&mut self, _: &Hello<'_>, _: &[u8; 32]) -> Verdict {
        Verdict::Welcome
    }
    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
        Ok(Some(self.intake.want(offer, Nanos(u64::MAX), true)))
    }
    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Result<(), Reject> {
        self.intake.schema(piece.generation, piece.offset, piece.bytes.len()).map(|_| ())
    }
    fn block(&mut self, _: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.intake.begin(bytes, &mut self.rows)
    }
    fn rows(&mut self, _: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.intake.rows(bytes, &mut self.rows)
    }
    fn end(&mut self, end: &End) -> Result<(), Reject> {
        self.intake.end(end, &mut self.rows)
    }
    fn past(&mut self, _: u32, last: bool, bytes: &[u8]) -> Result<(), Reject> {
        self.intake.past(last, bytes, &mut self.rows)
    }
    fn lost(&mut self, _: u32, from: u64, to: u64) -> Result<(), Reject> {
        self.intake.lost(from, to, &mut self.rows);
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

/// One connection after the other; while `deaf` is set it reads nothing.
fn hub(listener: TcpListener, deaf: Arc<AtomicBool>) -> Receiver<u64> {
    let (rows, heard) = channel();
    std::thread::spawn(move || {
        let mut hub = Hub { intake: Intake::new(99), rows: Rows(rows) };
        while let Ok((stream, _)) = listener.accept() {
            hub.intake.cut();
            serve(stream, &mut hub, &deaf);
        }
    });
    heard
}

fn serve(mut stream: TcpStream, hub: &mut Hub, deaf: &AtomicBool) {
    let (mut out, mut buffer) = (Vec::new(), vec![0; 4_096]);
    let mut end = HubEnd::new(&HubEndConfig::new([7; 16], "test"), [8; 32], Nanos(0), &mut out);
    loop {
        if stream.write_all(&out).is_err() {
            return;
        }
        out.clear();
        while deaf.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        if end.receive(&buffer[..count], Nanos(0), 0, hub, &mut out).is_err() {
            return;
        }
    }
}

fn start(lanes: Carried, deaf: &Arc<AtomicBool>) -> (Driver, Counters, Receiver<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // What a deaf hub does not read soon fills this.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 16 << 10).expect("a small buffer");
    let port = listener.local_addr().expect("an address").port();
    let heard = hub(listener, deaf.clone());
    let counters = Counters::default();
    let settings = Settings {
        hubs: vec![HubAddress::Net { host: "127.0.0.1".into(), port }],
        identity: Arc::new(identity()),
        tls: None,
        near: None,
        from: None,
        failback_after: khz_model::Nanos(0),
        counters: counters.clone(),
        bell: Bell::new().expect("a bell"),
    };
    (Driver::start(settings, lanes).expect("a thread"), counters, heard)
}

fn await_row(heard: &Receiver<u64>, row: u64) {
    while heard.recv_timeout(PATIENCE).expect("what was awaited never came") != row {}
}

#[test]
fn a_row_is_sent_by_the_thread_that_has_written_it_and_allocates_nothing() {
    let (mut node, lanes) = node();
    node.write();
    let (_driver, counters, heard) = start(lanes, &Arc::default());
    await_row(&heard, 0);
    let sent = || counters.bytes_sent.load(Ordering::Relaxed);
    let begun = Instant::now();
    // The link's thread may have the connection in its hands at times, and sends the row then.
    let (mut carried, mut row) = (0, 0);
    while carried < 500 {
        assert!(begun.elapsed() < PATIENCE, "only {carried} of {row} rows were sent at once");
        node.write();
        row += 1;
        let before = sent();
        let allocated = node.carry();
        carried += u64::from(sent() > before);
        // Buffers have their sizes by then.
        assert!(row < 200 || allocated == 0, "{allocated} allocations at row {row}");
        await_row(&heard, row);
    }
}

#[test]
fn a_hub_that_does_not_read_holds_nobody_up_is_left_and_has_every_row_in_the_end() {
    let (mut node, lanes) = node();
    node.write();
    let deaf = Arc::<AtomicBool>::default();
    let (_driver, counters, heard) = start(lanes, &deaf);
    await_row(&heard, 0);
    deaf.store(true, Ordering::Relaxed);
    let full = || counters.sends.load(Ordering::Relaxed);
    let (begun, mut rows, mut unsent) = (Instant::now(), 0, 0);
    // Until nothing goes out any more however much is written.
    while unsent < 200 {
        assert!(begun.elapsed() < PATIENCE, "{rows} rows found their way");
        let before = full();
        node.write();
        node.carry();
        rows += 1;
        unsent = if full() > before { 0 } else { unsent + 1 };
    }
    while counters.failures.load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < PATIENCE, "a hub that answers no Beat is left");
        node.write();
        node.carry();
        rows += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    deaf.store(false, Ordering::Relaxed);
    await_row(&heard, rows);
}
