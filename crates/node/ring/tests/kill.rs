//! kill -9 at any moment: every committed row can be read, and the next writer continues after it.

#![allow(clippy::unwrap_used)]

mod lane;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use khz_ring::{Folder, Reader};
use lane::{LaneWriter, TestFolder, check, label, open};

const FOLDER: &str = "KHZ_RING_TEST_FOLDER";
const SIZE: u64 = 1 << 17;

/// Not a test by itself: the process that the tests kill. It prints where it continues, and writes until it
/// dies.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os(FOLDER) else { return };
    let folder = Folder::lock(path.as_ref()).unwrap();
    let (ring, _) = folder.ring(label("base"), SIZE).unwrap();
    let epoch = ring.reader.label().epoch;
    println!("\nwrites {} {} {epoch}", ring.next_row, ring.writer.generation());
    let mut lane = LaneWriter::new(ring);
    lane.writer.extend_schema(b"what the slots mean").unwrap();
    loop {
        lane.row();
    }
}

/// Starts a writer; returns the process and what it printed: next row, generation, epoch.
fn start(folder: &TestFolder) -> (Child, [u64; 3]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer_process", "--nocapture"]).env(FOLDER, &folder.0);
    // Its own process group: an interrupt of the tests does not reach the writer, but dropping the child
    // ends it.
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let said = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("writes ").map(str::to_owned));
    let numbers: Vec<u64> = said.unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
    (child, numbers.try_into().unwrap())
}

/// Kills a writer `times` times, each at another moment, before and after the ring has wrapped.
fn kill(times: u64, name: &str) {
    let folder = TestFolder::new(name);
    let (mut rows, mut epoch) = (0, None);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for round in 1..=times {
        let (mut child, [next_row, generation, its_epoch]) = start(&folder);
        assert_eq!((next_row, generation), (rows, round), "it continues where the last one was killed");
        assert_eq!(*epoch.get_or_insert(its_epoch), its_epoch);
        let reader = Reader::open(&folder.ring()).unwrap();
        // Waits for a number of further bytes, and then for some instructions.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let until = reader.head() + (random >> 33) % (SIZE * 2);
        while reader.head() < until {
            std::hint::spin_loop();
        }
        (0..(random >> 20) % 5_000).for_each(|_| std::hint::spin_loop());
        let committed = reader.head();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(reader.head() >= committed, "committed bytes stay");
        let (_, next) = check(&folder.ring());
        assert!(next > rows || until == 0);
        rows = next;
    }
    // The last writer runs in this process.
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, SIZE);
    assert_eq!(lane.encoder.rows(), rows);
    lane.rows(100);
    assert_eq!(check(&folder.ring()).1, rows + 100);
}

#[test]
fn a_dozen_kills_lose_no_committed_row() {
    kill(12, "kill");
}

#[test]
#[ignore = "slow: hundreds of kills"]
fn hundreds_of_kills_lose_no_committed_row() {
    kill(400, "kill-slow");
}
