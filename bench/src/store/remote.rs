//! Remote write of a large cluster: how many samples a second a hub's sender takes out of a store's log, packed only, and into
//! VictoriaMetrics, which runs on the same machine.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use khz_ask::Post;
use khz_model::{ByteSize, Nanos, Pattern};
use khz_remote::write::{Answer, Counts, Cursors, Feed, Receiver, Rules, Sender, Settings, Topic, World};
use khz_store::range::RangeReader;
use khz_store::{Keep, Store};
use rustix::time::{ClockId, clock_gettime};

use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::nodes::{BEGIN, MOVING, NODES, Nodes, SLOTS};
use crate::store::victoria::Victoria;
use crate::table::{Table, figure, thousands};

/// The rows of a turn: so many seconds of each node, sent in batches of ten.
const SECONDS: u64 = 60;
/// What a large cluster makes: 4,096 nodes with 300 series at 1 Hz.
const WANTED: f64 = 1_228_800.0;
/// An answer of the receiver may take this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where requests go.
enum Sink {
    /// Nowhere: they are made and packed.
    Nowhere,
    /// To a receiver.
    Receiver(Box<Post>),
}

/// A connection to the sink.
struct Connection {
    sink: Sink,
    bytes: Arc<AtomicU64>,
}

impl Receiver for Connection {
    fn send(&mut self, packed: &[u8]) -> Answer {
        self.bytes.fetch_add(packed.len() as u64, Ordering::Relaxed);
        let Sink::Receiver(post) = &mut self.sink else { return Answer::Taken };
        match post.send(&[("Content-Encoding", "snappy")], packed) {
            Ok(answer) if answer.status < 300 => Answer::Taken,
            answer => Answer::Refused(format!("{answer:?}")),
        }
    }
}

/// The time of the turn: with each pause ten seconds pass, as many as a batch has, until all rows are sent.
struct Played {
    second: AtomicU64,
    is_over: Arc<AtomicBool>,
    problem: Arc<Mutex<Option<String>>>,
}

impl World for Played {
    fn now(&self) -> Nanos {
        at(self.second.load(Ordering::Relaxed))
    }

    fn pause(&self, _: Duration) {
        let second = self.second.fetch_add(10, Ordering::Relaxed);
        self.is_over.store(second >= 60 + SECONDS, Ordering::Release);
    }

    fn chance(&self) -> f64 {
        1.0
    }

    fn tell(&self, _: Topic, problem: &str) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem.to_owned());
    }
}

/// What came of a turn.
struct Turn {
    samples: u64,
    bytes: u64,
    seconds: f64,
    cpu_ns: u64,
    /// That of the receiver.
    receiver_ns: u64,
}

fn at(second: u64) -> Nanos {
    Nanos(BEGIN + second * Nanos::SECOND.0)
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * Nanos::SECOND.0 + time.tv_nsec as u64
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let folder = std::env::temp_dir().join(format!("khz-bench-remote-{}", std::process::id()));
    let nodes = record.effort.of(NODES, NODES / 16);
    let columns = ["to", "turn", "samples/s", "CPU, ns/sample", "receiver's CPU", "bytes/sample"];
    let mut table = Table::new(&columns);
    for to in ["nowhere", "VictoriaMetrics"] {
        let mut rates = Vec::new();
        for number in 0..record.effort.of(5, 2) {
            record.progress(&format!("to {to}, turn {}", number + 1));
            let _ = fs::remove_dir_all(&folder);
            let victoria = match to {
                "nowhere" => None,
                _ => match Victoria::start(&folder.join("victoria"))? {
                    Some(victoria) => Some(victoria),
                    None => break,
                },
            };
            let turn = play(&folder, nodes, victoria.as_ref())?;
            let turn_rate = turn.samples as f64 / turn.seconds;
            let (cpu, bytes) =
                (turn.cpu_ns as f64 / turn.samples as f64, turn.bytes as f64 / turn.samples as f64);
            let receiver = turn.receiver_ns as f64 / turn.samples as f64;
            for (what, value) in
                [("rate", turn_rate), ("cpu_ns", cpu), ("receiver_cpu_ns", receiver), ("bytes", bytes)]
            {
                record.sample(["remote", to, "khz"], number, what, value);
            }
            let (turn, rate) = ((number + 1).to_string(), thousands(turn_rate));
            table.row([to.to_owned(), turn, rate, figure(cpu), figure(receiver), figure(bytes)]);
            rates.push(turn_rate / WANTED);
        }
        let promise = format!("remote write to {to}: speed of what 4,096 nodes make");
        record.verdict(&promise, Spread::of(rates), Bound::Stated);
    }
    let _ = fs::remove_dir_all(&folder);
    record.show("## Remote write out of the log", &table);
    record.say(
        "One thread reads the log, makes requests and packs them; two send. CPU is that of these threads; the receiver's is that of\n\
         VictoriaMetrics from the first request to the last answer. Both run on the same cores.\n",
    );
    Ok(())
}

fn play(folder: &Path, count: usize, victoria: Option<&Victoria>) -> Result<Turn, BenchError> {
    let of_store = |error: khz_store::StoreError| failed("the store", error);
    let long = Nanos(4_000 * 86_400 * Nanos::SECOND.0);
    let keep = Keep { size: ByteSize(1 << 40), raw: long, minute: long, hour: long };
    let (store, intake, _) = Store::open(&folder.join("store"), keep, at(0)).map_err(of_store)?;
    let nodes = Nodes::some(count, SLOTS, MOVING, &intake)?;
    // Each node is at another place of its first minute.
    for second in 0..SECONDS + 60 {
        nodes.step(&intake);
        if second % 10 == 0 {
            store.commit(at(0)).map_err(of_store)?;
        }
    }
    store.commit(at(0)).map_err(of_store)?;
    let cursors =
        Cursors::open(&folder.join("remote"), "bench", at(60)).map_err(|error| failed("cursors", error))?;
    let settings = Settings {
        patterns: vec![Pattern::everything()],
        job: "node".into(),
        rules: Rules::default(),
        every: 1,
        batch: 10,
        delay: 0,
        samples_max: 50_000,
    };
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), nodes.clone());
    let (counts, bytes, problem) = (Arc::<Counts>::default(), Arc::default(), Arc::default());
    let feed = Feed::new(&reader, cursors, settings, counts.clone());
    let connections = [connection(victoria, &bytes)?, connection(victoria, &bytes)?];
    let is_over = Arc::<AtomicBool>::default();
    let second = AtomicU64::new(73);
    let world = Played { second, is_over: is_over.clone(), problem: Arc::clone(&problem) };
    let sender = Sender::new(feed, connections, world, counts.clone(), is_over);
    let receiver_ns = || victoria.map_or(Ok(0), Victoria::cpu_ns);
    let (start, cpu, receiver) = (Instant::now(), cpu_ns(), receiver_ns()?);
    sender.run();
    let turn = Turn {
        samples: counts.sent.load(Ordering::Relaxed),
        bytes: bytes.load(Ordering::Relaxed),
        seconds: start.elapsed().as_secs_f64(),
        cpu_ns: cpu_ns() - cpu,
        receiver_ns: receiver_ns()?.saturating_sub(receiver),
    };
    let problem = problem.lock().unwrap_or_else(PoisonError::into_inner).take();
    match problem {
        Some(problem) => Err(failed("remote write", problem)),
        None if turn.samples == 0 => Err(failed("remote write", "nothing was sent")),
        None => Ok(turn),
    }
}

fn connection(victoria: Option<&Victoria>, bytes: &Arc<AtomicU64>) -> Result<Connection, BenchError> {
    let sink = match victoria {
        None => Sink::Nowhere,
        Some(victoria) => {
            let url = format!("http://{}/api/v1/write", victoria.address());
            let post = Post::new(&url, None, PATIENCE);
            Sink::Receiver(Box::new(post.map_err(|error| failed("the receiver", error))?))
        }
    };
    Ok(Connection { sink, bytes: bytes.clone() })
}
