//! What the whole cache keeps, lets go and says, over a log in a directory and small files.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::backlog::Flags;
use super::copy_forward::tests::{opened, started, take};
use super::rounds::tests::file;
use super::*;
use crate::log::Segment;
use crate::messages::{self, Level};

fn directory(name: &str) -> (PathBuf, Arc<AtomicU64>) {
    let dir = std::env::temp_dir().join(format!("khz-rrd-cache-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    (dir, Arc::new(AtomicU64::new(1 << 20)))
}

fn log(cache: &Cache) -> &Log {
    cache.log.as_ref().unwrap()
}

fn sent(cache: &Cache, file: &str, samples: &str) -> Result<usize> {
    cache.update(&[Update { file, samples }]).remove(0)
}

#[test]
fn what_comes_during_replay_goes_after_what_the_log_has_and_older_samples_are_counted() {
    let (dir, room) = directory("deferred");
    let name = file(&dir, 0);
    let cache = started(&dir, &room);
    take(&cache, &name, "1000000300:1 1000000600:2");
    drop(cache);
    let (cache, left) = opened(&dir, &room, Limits { timeout: 3600, ..Limits::default() }, Messages::none());
    // The file has none of the log's samples, so these are taken; of those two are not newer than the log's.
    assert_eq!(sent(&cache, &name, "1000000300:7 1000000600:8 1000000900:3").unwrap(), 3);
    let error = sent(&cache, &name, "1000000900:4").unwrap_err().to_string();
    assert!(error.contains("when last update time is 1000000900.000000"), "{error}");
    assert_eq!(cache.stats().waiting, 3);
    cache.replay(&left).unwrap();
    assert_eq!(cache.pending(&name).unwrap(), ["1000000300:1", "1000000600:2", "1000000900:3"]);
    assert_eq!((cache.stats().refused, cache.stats().waiting), (2, 3));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_log_of_which_a_segment_cannot_be_read_keeps_all_of_them() {
    let (dir, room) = directory("unread");
    let name = file(&dir, 0);
    let cache = started(&dir, &room);
    take(&cache, &name, "1000000300:1");
    drop(cache);
    let segments = dir.join("log");
    let unreadable = Segment::FIRST.next().path(&segments);
    std::fs::create_dir(&unreadable).unwrap();
    let (cache, left) = opened(&dir, &room, Limits { timeout: 3600, ..Limits::default() }, Messages::none());
    assert!(cache.replay(&left).is_err());
    cache.flush(&name).unwrap();
    cache.checkpoint();
    assert_eq!(log(&cache).oldest(), Segment::FIRST);
    assert!(Segment::FIRST.path(&segments).exists() && unreadable.exists());
    // What was read of it counts.
    assert_eq!(cache.last(&name).unwrap(), 1_000_000_200);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_log_that_is_in_files_is_emptied_once_it_is_worth_a_checkpoint() {
    let (dir, room) = directory("idle");
    let name = file(&dir, 0);
    let cache = started(&dir, &room);
    take(&cache, &name, "1000000300:1");
    cache.flush(&name).unwrap();
    cache.tick();
    assert!(log(&cache).bytes() > 0, "a few bytes are not worth a sync");
    let mut time = 1_000_000_300;
    while log(&cache).bytes() <= 1 << 16 {
        time += 300;
        let samples = format!("{time}:{}", "1".repeat(4000));
        take(&cache, &name, &samples);
    }
    cache.tick();
    assert!(log(&cache).bytes() > 1 << 16, "a sample waits");
    cache.flush(&name).unwrap();
    cache.tick();
    assert_eq!(log(&cache).bytes(), 0);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_old_segment_goes_while_samples_in_newer_ones_wait() {
    let (dir, room) = directory("oldest");
    let [written, waits] = [0, 1].map(|index| file(&dir, index));
    let cache = started(&dir, &room);
    take(&cache, &written, "1000000300:1");
    log(&cache).rotate().unwrap();
    take(&cache, &waits, "1000000300:1");
    cache.tick();
    assert_eq!(log(&cache).oldest(), Segment::FIRST);
    cache.flush(&written).unwrap();
    cache.tick();
    assert_eq!(log(&cache).oldest(), Segment::FIRST.next());
    drop(cache);
    assert_eq!(started(&dir, &room).pending(&waits).unwrap(), ["1000000300:1"]);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_logged_empties_the_log_only_if_nothing_waits() {
    let (dir, room) = directory("unlogged");
    let [written, waits] = [0, 1].map(|index| file(&dir, index));
    let cache = started(&dir, &room);
    take(&cache, &written, "1000000300:1");
    take(&cache, &waits, "1000000300:1");
    // No image of the header fits the log either; the write syncs the file then.
    room.store(0, Ordering::Relaxed);
    cache.flush(&written).unwrap();
    cache.checkpoint();
    assert!(log(&cache).bytes() > 0);
    room.store(1 << 20, Ordering::Relaxed);
    drop(cache);
    let cache = started(&dir, &room);
    assert_eq!(cache.pending(&waits).unwrap(), ["1000000300:1"]);
    cache.flush_all();
    cache.flush(&written).unwrap();
    cache.flush(&waits).unwrap();
    room.store(0, Ordering::Relaxed);
    cache.checkpoint();
    assert_eq!(log(&cache).bytes(), 0);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn near_a_limit_everything_is_queued_once_and_files_that_rest_are_tried_soon() {
    let (dir, room) = directory("near");
    let [rests, waits] = [0, 1].map(|index| file(&dir, index));
    let told = dir.join("messages");
    let messages = Messages::new(messages::to_file(&told).unwrap(), Level::from_name("LOG_WARNING").unwrap());
    let limits = Limits { timeout: 3600, memory_max: 1, ..Limits::default() };
    let (cache, left) = opened(&dir, &room, limits, messages);
    cache.replay(&left).unwrap();
    {
        // As if they had been taken before they filled the memory.
        let mut state = cache.lock();
        for name in [&rests, &waits] {
            let facts = cache.files.inspect(name).unwrap();
            let id = state.learn(name, &facts).unwrap();
            state.backlog.append(id, "1000000300:1", None, 1);
        }
        let id = state.backlog.find(&rests).unwrap();
        state.backlog.set(id, Flags::QUEUED, true);
        state.queue.rest(id, 5000);
    }
    (0..3).for_each(|_| cache.tick());
    let mut state = cache.lock();
    let soon = cache.now() + 10;
    let State { queue, backlog, .. } = &mut *state;
    assert_eq!(queue.take_chunk(backlog, soon, false).len(), 2);
    drop(state);
    let lines = std::fs::read_to_string(&told).unwrap();
    assert_eq!(lines.matches("everything is written now").count(), 1, "{lines}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn silent_files_are_swept_once_in_the_time_between_sweeps() {
    let (dir, room) = directory("swept");
    let name = file(&dir, 0);
    let limits = Limits { timeout: 3600, sweep: 1000, ..Limits::default() };
    let (cache, left) = opened(&dir, &room, limits, Messages::none());
    cache.replay(&left).unwrap();
    take(&cache, &name, "1000000300:1");
    cache.flush(&name).unwrap();
    let mut guard = cache.lock();
    let state = &mut *guard;
    let swept = |state: &mut State, now| (cache.sweep_if_due(state, now).close.len(), state.swept);
    assert_eq!(swept(state, 999), (0, 0));
    assert_eq!(log(&cache).counts().rotations, 0);
    // The file was written in the first second or a little later.
    assert_eq!(swept(state, 1000), (0, 1000));
    assert_eq!(log(&cache).counts().rotations, 1);
    assert_eq!(swept(state, 1999), (0, 1000));
    assert_eq!(swept(state, 2000), (1, 2000));
    assert_eq!(state.backlog.len(), 0);
    drop(guard);
    std::fs::remove_dir_all(&dir).unwrap();
}
