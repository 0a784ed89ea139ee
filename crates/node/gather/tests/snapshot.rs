//! The snapshot of an agent in shared memory has the same values under the same names as the answer to a
//! request.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use khz_gather::{Agent, Plan, RingSize};
use khz_model::{Absence, ByteSize, Nanos, NodeName, Pattern, Reading, Sample};
use khz_ring::{SNAPSHOT_FILE, Snapshot};
use khz_synthetic_host::{Host, Shape};

/// A made-up host and rings beside it; both are removed when this is dropped.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_snapshot_has_what_a_request_answers() {
    let place = Place(std::env::temp_dir().join(format!("khz-page-{}", std::process::id())));
    let (root, folder) = (place.0.join("host"), place.0.join("rings"));
    let mut host = Host::new(Shape { cpus: 4, interrupts: 20, interfaces: 3, disks: 2 }, 2026);
    host.write(&root).unwrap();
    let rate = "1h".parse().unwrap();
    let agent = Agent::start(Plan {
        // The thread gathers only on request, so that it reads no file while the test writes it.
        base_rate: rate,
        local_rate: rate,
        ring_folder: Some(folder.clone()),
        ring: RingSize::Bytes(ByteSize(1 << 20)),
        ..Plan::new(&root, NodeName::new("n1").unwrap())
    })
    .unwrap();
    let query = agent.query();
    let everything = [Pattern::new("*").unwrap()];
    let snapshot = Snapshot::open(&folder.join(SNAPSHOT_FILE));
    // The snapshot exists before the thread runs, and has slots after the first gather.
    let snapshot = snapshot.unwrap();
    let lane = agent.shared_lanes().on_demand(&everything).unwrap();
    for round in 0..3 {
        lane.now(round + 1).unwrap();
        let start = Instant::now();
        while lane.answered() != round + 1 {
            assert!(start.elapsed() < Duration::from_secs(60), "no row in round {round}");
        }
        let names = snapshot.names();
        let in_snapshot = |sample: &Sample| {
            let name = sample.series.to_string();
            let slot = names.iter().position(|known| known.name == name).unwrap();
            snapshot.read(slot as u32).unwrap().unwrap()
        };
        let of_kernel = |sample: &&Sample| {
            let name = &sample.series.metric.name;
            !name.starts_with("khz.") && name != "system.time"
        };
        // On a busy machine the budget may leave a source out: then the answer has its older reading, and is asked for again.
        let answer = loop {
            let answer = block_on(query.latest(&everything, Nanos(0))).unwrap();
            let is_newer = |sample: &Sample| in_snapshot(sample).stamp.boot < sample.stamp.boot;
            if answer.nodes[0].1.iter().filter(of_kernel).all(is_newer) {
                break answer;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no newer readings in round {round}");
        };
        let mut compared = 0;
        for sample in answer.nodes[0].1.iter().filter(of_kernel) {
            let (name, latest) = (sample.series.to_string(), in_snapshot(sample));
            let reading = match sample.reading {
                // The file has no place for labels.
                Reading::Labels(_) => Reading::Absent(Absence::NotYet),
                number => number,
            };
            assert_eq!(latest.reading, reading, "{name} in round {round}");
            // Only a value has a type there.
            if !matches!(sample.reading, Reading::Absent(_) | Reading::Failed(_)) {
                assert_eq!(latest.format, sample.series.metric.format(), "{name}");
            }
            compared += 1;
        }
        assert!(compared > 100, "only {compared} series");
        host.advance();
        host.write(&root).unwrap();
    }
    agent.stop();
    assert!(snapshot.has_ended() && !folder.join(SNAPSHOT_FILE).exists());
}
