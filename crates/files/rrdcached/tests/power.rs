//! Losing power: only what was synced is left, of the log and of the files, and the kernel may have written any page of
//! a file before any other. Every acknowledged update whose window has passed is found all the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod machine;
#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::path::Path;
use std::time::Duration;

use khz_rrdcached::Cache;
use machine::{Lost, Machine, START, Sync, check_coarse, half_written, mixed};
use oracle::Random;
use served::check;

const FILES: usize = 3;

/// One life of the daemon after the other, each ended in its own way.
struct Lives {
    machine: Machine,
    random: Random,
    times: [i64; FILES],
    /// A disk could not be synced: answers to FLUSH do not count any more.
    failed: bool,
}

impl Lives {
    fn new(seed: u64) -> Self {
        let machine = Machine::new("power", Duration::ZERO);
        machine.make(FILES);
        Self { machine, random: Random::new(seed), times: [START; FILES], failed: false }
    }

    /// Takes an update, and perhaps writes it.
    fn step(&mut self, cache: &Cache, flushed: u64) {
        let index = self.random.below(FILES as u64) as usize;
        self.times[index] += 1;
        self.machine.update(cache, index, self.times[index]);
        if self.random.chance(flushed) {
            let flushed = self.machine.flush(cache, index);
            assert!(self.failed || flushed.is_ok(), "{flushed:?}");
        }
    }

    /// Writes during a slow checkpoint; returns what is left if the power goes before it ends.
    fn checkpoint(&mut self, cache: &Cache) -> Option<Lost> {
        let seed = self.random.next();
        let then = if self.random.chance(15) { Sync::Fails(seed) } else { Sync::Done };
        let ends = self.random.chance(20);
        let disk = self.machine.disk.clone();
        let (lost, held) = disk.beside_checkpoint(cache, then, |held| {
            (0..self.random.below(20)).for_each(|_| self.step(cache, 50));
            ((held && ends).then(|| self.machine.loses()), held)
        });
        self.failed |= held && then != Sync::Done;
        lost
    }

    /// Lives until the power goes, or somebody kills the daemon.
    fn live(&mut self) {
        let cache = self.machine.started();
        self.failed = false;
        for _ in 0..self.random.below(150) {
            self.step(&cache, 15);
            if self.random.chance(3) {
                cache.checkpoint();
            }
            if self.random.chance(5)
                && let Some(lost) = self.checkpoint(&cache)
            {
                let random = &mut self.random;
                return self.machine.lose(lost, cache, |states| mixed(states, random, 30));
            }
        }
        match self.random.chance(50) {
            true => self.machine.lose_power(cache, &mut self.random),
            false => self.kill(cache),
        }
    }

    /// SIGKILL, perhaps in the middle of writing a header.
    fn kill(&mut self, cache: Cache) {
        let index = self.random.below(FILES as u64) as usize;
        let before = std::fs::read(self.machine.file(index)).unwrap();
        let _ = cache.flush(&self.machine.name(index));
        let after = std::fs::read(self.machine.file(index)).unwrap();
        drop(cache);
        let pages = 1 + self.random.below(3) as usize;
        std::fs::write(self.machine.file(index), half_written(&before, &after, pages)).unwrap();
        self.machine.disk.note();
    }
}

#[test]
fn power_may_go_at_any_time_and_what_was_acknowledged_is_found() {
    for seed in 0..oracle::cases(30) {
        let mut lives = Lives::new(oracle::first_seed() + seed);
        (0..4).for_each(|_| lives.live());
        let cache = lives.machine.started();
        for (index, last) in lives.times.iter().enumerate() {
            let file = lives.machine.file(index);
            cache.flush(&lives.machine.name(index)).unwrap();
            check(&file, &(START + 1..=*last).collect::<Vec<_>>());
            check_coarse(&file, *last);
        }
        drop(cache);
        std::fs::remove_dir_all(&lives.machine.dir).unwrap();
    }
}

#[test]
fn everything_is_synced_within_the_window_without_a_request() {
    let mut machine = Machine::new("window", Duration::from_millis(10));
    machine.make(1);
    let cache = machine.started();
    for time in 1_000_000_001..1_000_000_100 {
        machine.update(&cache, 0, time);
    }
    // Acknowledged means appended; the sync comes by itself.
    let mut content = machine.disk.lock();
    while content.log.values().any(|(appended, synced)| synced < appended) {
        let (waited, timeout) = machine.disk.changed.wait_timeout(content, served::PATIENCE).unwrap();
        assert!(!timeout.timed_out(), "nothing is synced");
        content = waited;
    }
    drop(content);
    machine.lose_power(cache, &mut Random::new(1));
    let cache = machine.started();
    cache.flush(machine.file(0).to_str().unwrap()).unwrap();
    check(&machine.file(0), &(1_000_000_001..1_000_000_100).collect::<Vec<_>>());
}

#[test]
fn updates_are_taken_before_the_log_is_read_and_come_after_it() {
    let machine = Machine::new("early", Duration::ZERO);
    machine.make(2);
    let cache = machine.started();
    (1_000_000_001..1_000_000_050).for_each(|time| machine.update(&cache, 0, time));
    drop(cache);
    let (cache, left) = machine.start();
    // The log is not read yet, but these are taken; one is older than what the log has for its file.
    (1_000_000_050..1_000_000_060).for_each(|time| machine.update(&cache, 0, time));
    (1_000_000_001..1_000_000_010).for_each(|time| machine.update(&cache, 1, time));
    assert_eq!(cache.stats().replaying, 1);
    cache.replay(&left).unwrap();
    assert_eq!(cache.stats().waiting, 59 + 9);
    for (index, last) in [(0, 1_000_000_060), (1, 1_000_000_010)] {
        let name = machine.file(index);
        assert_eq!(cache.pending(name.to_str().unwrap()).unwrap().len() as i64, last - 1_000_000_001);
        cache.flush(name.to_str().unwrap()).unwrap();
        check(&name, &(1_000_000_001..last).collect::<Vec<_>>());
    }
    // They were logged as well.
    drop(cache);
    let again = machine.started();
    assert_eq!(again.stats().waiting, 59 + 9);
}

#[test]
fn forgotten_samples_stay_forgotten_and_written_ones_stay_written() {
    let mut machine = Machine::new("forget", Duration::ZERO);
    machine.make(1);
    let name = machine.file(0);
    let name = name.to_str().unwrap();
    let cache = machine.started();
    (1_000_000_001..1_000_000_020).for_each(|time| machine.update(&cache, 0, time));
    cache.flush(name).unwrap();
    (1_000_000_020..1_000_000_030).for_each(|time| machine.update(&cache, 0, time));
    assert!(cache.forget(name).unwrap());
    machine.update(&cache, 0, 1_000_000_025);
    machine.lose_power(cache, &mut Random::new(3));
    let cache = machine.started();
    cache.flush(name).unwrap();
    check(Path::new(name), &(1_000_000_001..1_000_000_020).collect::<Vec<_>>());
    assert_eq!(served::last_on_disk(Path::new(name)), 1_000_000_025);
}

#[test]
fn a_damaged_log_loses_the_damaged_record_only() {
    let machine = Machine::new("flipped", Duration::ZERO);
    machine.make(1);
    let cache = machine.started();
    (1_000_000_001..1_000_000_100).for_each(|time| machine.update(&cache, 0, time));
    drop(cache);
    let segment = machine.dir.join("log").join(format!("khz.log.{:016}", 1));
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&segment, bytes).unwrap();
    let cache = machine.started();
    assert_eq!(cache.stats().waiting, 98);
}
