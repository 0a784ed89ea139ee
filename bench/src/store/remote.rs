//! Remote write of a large cluster: how many samples a second go out of a store's log, packed only, and into VictoriaMetrics,
//! which runs on the same machine.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_ask::Post;
use khz_model::{ByteSize, Nanos, Pattern};
use khz_remote::write::{Counts, Cursors, Feed, Request, Rules, Settings};
use khz_store::range::RangeReader;
use khz_store::{Keep, Store};

use crate::error::BenchError;
use crate::pairs::thread_cpu_ns;
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

/// What came of a turn.
struct Turn {
    samples: u64,
    bytes: u64,
    seconds: f64,
    cpu_ns: u64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let folder = std::env::temp_dir().join(format!("khz-bench-remote-{}", std::process::id()));
    let nodes = record.effort.of(NODES, NODES / 16);
    let mut table = Table::new(&["to", "turn", "samples/s", "CPU, ns/sample", "bytes/sample"]);
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
            let sink = match &victoria {
                None => Sink::Nowhere,
                Some(victoria) => {
                    let url = format!("http://{}/api/v1/write", victoria.address());
                    let post = Post::new(&url, None, PATIENCE);
                    Sink::Receiver(Box::new(post.map_err(|error| failed("the receiver", error))?))
                }
            };
            let turn = play(&folder, nodes, &sink)?;
            let rate = turn.samples as f64 / turn.seconds;
            let (cpu, bytes) =
                (turn.cpu_ns as f64 / turn.samples as f64, turn.bytes as f64 / turn.samples as f64);
            for (what, value) in [("rate", rate), ("cpu_ns", cpu), ("bytes", bytes)] {
                record.sample(["remote", to, "khz"], number, what, value);
            }
            table.row([to.to_owned(), (number + 1).to_string(), thousands(rate), figure(cpu), figure(bytes)]);
            rates.push(rate / WANTED);
        }
        let promise = format!("remote write to {to}: speed of what 4,096 nodes make");
        record.verdict(&promise, Spread::of(rates), Bound::Stated);
    }
    let _ = fs::remove_dir_all(&folder);
    record.show("## Remote write out of the log", &table);
    record.say(
        "One thread reads the log, makes requests, packs and sends them, one after the other. CPU is that of this thread alone;\n\
         VictoriaMetrics takes its own share of the same cores.\n",
    );
    Ok(())
}

fn play(folder: &Path, count: usize, sink: &Sink) -> Result<Turn, BenchError> {
    let of_store = |error: khz_store::StoreError| failed("the store", error);
    let long = Nanos(4_000 * 86_400 * Nanos::SECOND.0);
    let keep = Keep { size: ByteSize(1 << 40), raw: long, minute: long, hour: long };
    let at = |second: u64| Nanos(BEGIN + second * Nanos::SECOND.0);
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
    let mut feed = Feed::new(&reader, cursors, settings, Arc::<Counts>::default());
    let (mut turn, mut problem) = (Turn { samples: 0, bytes: 0, seconds: 0.0, cpu_ns: 0 }, None);
    let (start, cpu) = (Instant::now(), thread_cpu_ns());
    // Ten seconds at a time, as they would come.
    for second in (73..=60 + SECONDS + 3).step_by(10) {
        let mut send = |request: &Request| {
            let packed = match request.pack() {
                Ok(packed) => packed,
                Err(error) => {
                    problem = Some(error.to_string());
                    return false;
                }
            };
            turn.samples += request.samples() as u64;
            turn.bytes += packed.len() as u64;
            if let Sink::Receiver(post) = sink {
                match post.send(&[("Content-Encoding", "snappy")], &packed) {
                    Ok(answer) if answer.status < 300 => {}
                    answer => problem = Some(format!("{answer:?}")),
                }
            }
            problem.is_none()
        };
        while feed.pass(at(second), &mut send).is_behind {}
        feed.save().map_err(|error| failed("cursors", error))?;
    }
    (turn.seconds, turn.cpu_ns) = (start.elapsed().as_secs_f64(), thread_cpu_ns() - cpu);
    match problem {
        Some(problem) => Err(failed("remote write", problem)),
        None if turn.samples == 0 => Err(failed("remote write", "nothing was sent")),
        None => Ok(turn),
    }
}
