//! What gzip costs a hub: `/metrics` of one node, plain and packed, in turns; and how many bytes it saves.

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::http;
use crate::hub::cluster::Hub;
use crate::hub::scrape::{agent, wait_for};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// The scraped answer.
const PATH: &str = "/metrics?node=n1";

/// Whether each kind of answer is packed, and its name.
const KINDS: [(bool, &str); 2] = [(false, "plain"), (true, "gzip")];

/// The turns: plain, gzip, gzip, plain.
const ORDER: [usize; 4] = [0, 1, 1, 0];

/// One turn of one kind: means of its answers.
#[derive(Default)]
struct Turns {
    /// The hub's CPU time, in us an answer.
    cpu: Vec<f64>,
    /// Bytes of an answer's body.
    bytes: Vec<f64>,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let hub = Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB"])?;
    let _agent = agent(&program, hub.link)?;
    wait_for(hub.http, PATH)?;
    let (pairs, answers) = (record.effort.pairs(), record.effort.of(100, 20));
    let mut turns: [Turns; 2] = Default::default();
    for turn in 0..pairs * ORDER.len() {
        let kind = ORDER[turn % ORDER.len()];
        record.progress(&format!("turn {} of {}", turn + 1, pairs * ORDER.len()));
        let (gzip, name) = KINDS[kind];
        let before = hub.process.counted()?.cpu_ns;
        let mut bytes = 0;
        for _ in 0..answers {
            let body = http::bytes(hub.http, PATH, gzip)?;
            let is_packed = body.starts_with(&[0x1f, 0x8b]);
            if is_packed != gzip {
                return Err(failed(
                    "khz hub",
                    format!("its answer is packed: {is_packed}, asked for: {gzip}"),
                ));
            }
            bytes += body.len();
        }
        let cpu = (hub.process.counted()?.cpu_ns - before) as f64 / 1e3 / answers as f64;
        let bytes = bytes as f64 / answers as f64;
        for (what, value) in [("cpu_us", cpu), ("bytes", bytes)] {
            record.sample(["gzip", PATH, name], turn, what, value);
        }
        turns[kind].cpu.push(cpu);
        turns[kind].bytes.push(bytes);
    }
    show(record, &turns);
    Ok(())
}

fn show(record: &mut Record, turns: &[Turns; 2]) {
    let mut table = Table::new(&["answer", "us of the hub", "quartiles", "bytes"]);
    for ((_, name), of) in KINDS.iter().zip(turns) {
        let (Some(cpu), Some(bytes)) =
            (Spread::of(of.cpu.iter().copied()), Spread::of(of.bytes.iter().copied()))
        else {
            continue;
        };
        let quartiles = format!("{}..{}", figure(cpu.lower), figure(cpu.upper));
        table.row([name.to_string(), figure(cpu.median), quartiles, figure(bytes.median)]);
    }
    record.show(&format!("## {PATH} of a hub, plain and packed"), &table);
    let [plain, packed] = turns;
    record.verdict(
        "hub's CPU an answer, gzip / plain",
        Spread::of(ratios(&packed.cpu, &plain.cpu)),
        Bound::Stated,
    );
    record.verdict("bytes, gzip / plain", Spread::of(ratios(&packed.bytes, &plain.bytes)), Bound::Stated);
}
