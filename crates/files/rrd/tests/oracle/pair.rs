//! rrdtool and ours side by side, given the same commands.
#![allow(dead_code, reason = "each test binary uses its part")]

use super::oracle::{self, Oracle, Random, Reply};
use super::random_cases;

/// rrdtool and ours in pipe mode, each in a directory of its own.
pub struct Pair {
    pub theirs: Oracle,
    pub ours: Oracle,
}

impl Pair {
    pub fn start(name: &str) -> Self {
        let dir = oracle::directory(name);
        let (a, b) = (dir.join("theirs"), dir.join("ours"));
        std::fs::create_dir_all(&a).unwrap();
        std::fs::create_dir_all(&b).unwrap();
        Self { theirs: Oracle::start(&a), ours: Oracle::start_program(env!("CARGO_BIN_EXE_khz-rrd"), &b) }
    }

    /// Their file, copied to ours: row positions are random.
    pub fn copy(&self, file: &str) {
        std::fs::copy(self.theirs.dir.join(file), self.ours.dir.join(file)).unwrap();
    }

    pub fn both(&mut self, line: &str) -> (Reply, Reply) {
        (self.theirs.run(line), self.ours.run(line))
    }

    pub fn same(&mut self, line: &str, log: &[String]) {
        let (theirs, ours) = self.both(line);
        let at = theirs.output.iter().zip(&ours.output).position(|(a, b)| a != b);
        if let Some(at) = at {
            let (a, b) = (&theirs.output[at], &ours.output[at]);
            panic!("{line}\nline {at}\n rrdtool: {a}\n    ours: {b}\n{}", log.join("\n"));
        }
        assert_eq!(ours, theirs, "{line}\n{}", log.join("\n"));
    }
}

/// A file with some history in both directories.
pub fn filled(
    pair: &mut Pair,
    random: &mut Random,
    forecasting: bool,
) -> (random_cases::Database, u64, Vec<String>) {
    let database = random_cases::database(random, forecasting);
    let create = format!("create t.rrd {}", database.arguments.join(" "));
    let mut log = vec![create.clone()];
    assert_eq!(pair.theirs.run(&create).error, None, "{create}");
    let mut feed = random_cases::Feed::new(&database);
    for _ in 0..12 {
        let line = format!("update t.rrd {}", feed.steady(random, &database).join(" "));
        pair.theirs.run(&line);
        log.push(line);
    }
    pair.copy("t.rrd");
    (database, feed.time as u64, log)
}
