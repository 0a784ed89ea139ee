//! Headers put back: one test for each order of writes, checkpoints, starts and other writers in which an image could be
//! missing or wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod machine;
#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::time::Duration;

use khz_rrdcached::Cache;
use machine::{Machine, START, Sync, half_written, rows_lost};
use served::{check, last_on_disk};

fn machine(name: &str) -> Machine {
    let machine = Machine::new(name, Duration::ZERO);
    machine.make(1);
    machine
}

/// Takes the updates of `times` and writes them.
fn write(machine: &Machine, cache: &Cache, times: std::ops::RangeInclusive<i64>) {
    times.for_each(|time| machine.update(cache, 0, START + time));
    machine.flush(cache, 0).unwrap();
}

/// Every second up to `last` must be there after a start.
fn finds(machine: &Machine, last: i64) {
    let cache = machine.started();
    cache.flush(&machine.name(0)).unwrap();
    check(&machine.file(0), &(START + 1..=START + last).collect::<Vec<_>>());
}

#[test]
fn a_file_written_beside_a_checkpoint_is_whole_after_a_loss_of_power() {
    let mut machine = machine("beside");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    let disk = machine.disk.clone();
    disk.beside_checkpoint(&cache, Sync::Done, |held| {
        assert!(held);
        write(&machine, &cache, 11..=20);
    });
    machine.lose_rows(cache);
    finds(&machine, 20);
}

#[test]
fn power_lost_within_a_checkpoint_leaves_the_one_before_it() {
    let mut machine = machine("within");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    let disk = machine.disk.clone();
    let lost = disk.beside_checkpoint(&cache, Sync::Done, |_| {
        write(&machine, &cache, 11..=20);
        machine.loses()
    });
    machine.lose(lost, cache, |states| rows_lost(&states[0], &states[states.len() - 1]));
    finds(&machine, 20);
}

#[test]
fn a_second_checkpoint_waits_for_the_first() {
    let mut machine = machine("second");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    let disk = machine.disk.clone();
    let lost = disk.beside_checkpoint(&cache, Sync::Done, |_| {
        std::thread::scope(|scope| {
            let second = scope.spawn(|| cache.checkpoint());
            // Long enough for it to be done, if it does not wait.
            (0..1000).for_each(|_| std::thread::yield_now());
            let early = second.is_finished();
            let lost = machine.loses();
            disk.let_go();
            assert!(!early, "it told of what the first had not synced yet");
            lost
        })
    });
    machine.lose(lost, cache, |states| rows_lost(&states[0], &states[states.len() - 1]));
    finds(&machine, 10);
}

#[test]
fn a_disk_that_could_not_be_synced_once_is_not_trusted_again() {
    for reboot in [true, false] {
        let mut machine = machine("unsynced");
        let cache = machine.started();
        write(&machine, &cache, 1..=10);
        machine.disk.lock().sync = Sync::Fails(7);
        cache.checkpoint();
        assert!(cache.log_trouble().unwrap().contains("could not be synced: Input/output error"));
        // The kernel reports it once.
        cache.checkpoint();
        cache.tick();
        assert_eq!(machine.disk.lock().syncs, 1);
        match reboot {
            true => machine.lose_rows(cache),
            false => drop(cache),
        }
        finds(&machine, 10);
        let cache = machine.started();
        assert_eq!(cache.log_trouble(), None);
        cache.checkpoint();
        assert_eq!(machine.disk.lock().syncs, 2);
    }
}

#[test]
fn a_kill_in_the_middle_of_a_header_is_mended_at_the_next_start() {
    let machine = machine("killed");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    let before = std::fs::read(machine.file(0)).unwrap();
    write(&machine, &cache, 11..=20);
    let after = std::fs::read(machine.file(0)).unwrap();
    drop(cache);
    std::fs::write(machine.file(0), half_written(&before, &after, 2)).unwrap();
    let cache = machine.started();
    // A program that reads the file without the daemon finds what it had.
    assert!(std::fs::read(machine.file(0)).unwrap() == after, "it is not as it was");
    drop(cache);
    finds(&machine, 20);
}

#[test]
fn what_somebody_else_wrote_after_a_kill_stays() {
    let machine = machine("stranger");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    drop(cache);
    let line = format!("update 0.rrd {}:15", START + 15);
    assert_eq!(oracle::Oracle::start(&machine.dir).run(&line).error, None);
    drop(machine.started());
    assert_eq!(last_on_disk(&machine.file(0)), START + 15);
}

#[test]
fn a_boot_without_a_name_is_another_one() {
    let mut machine = machine("nameless");
    machine.boot = String::new();
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    machine.lose_rows(cache);
    finds(&machine, 10);
}

#[test]
fn a_file_tuned_through_the_daemon_has_an_image_of_its_own() {
    let mut machine = machine("tuned");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    let tune = || {
        assert_eq!(oracle::Oracle::start(&machine.dir).run("tune 0.rrd --heartbeat x:99").error, None);
        Ok(())
    };
    cache.change(&machine.name(0), tune).unwrap();
    machine.synced(0);
    write(&machine, &cache, 11..=20);
    machine.lose_rows(cache);
    finds(&machine, 20);
}

#[test]
fn a_file_replaced_or_tuned_by_somebody_else_has_an_image_of_its_own() {
    for tuned in [true, false] {
        let mut machine = machine("replaced");
        let cache = machine.started();
        write(&machine, &cache, 1..=10);
        match tuned {
            true => {
                let told = oracle::Oracle::start(&machine.dir).run("tune 0.rrd --heartbeat x:99");
                assert_eq!(told.error, None);
            }
            false => {
                let copy = machine.dir.join("copy");
                std::fs::copy(machine.file(0), &copy).unwrap();
                std::fs::rename(copy, machine.file(0)).unwrap();
            }
        }
        // The daemon syncs what somebody else wrote.
        machine.synced(0);
        write(&machine, &cache, 11..=20);
        machine.lose_rows(cache);
        finds(&machine, 20);
    }
}

#[test]
fn what_somebody_else_wrote_beside_the_daemon_stays_after_a_loss_of_power() {
    let mut machine = machine("beside-us");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    let line = format!("update 0.rrd {}:11", START + 11);
    assert_eq!(oracle::Oracle::start(&machine.dir).run(&line).error, None);
    machine.synced(0);
    write(&machine, &cache, 12..=20);
    machine.lose_rows(cache);
    finds(&machine, 20);
}

#[test]
fn a_header_that_cannot_be_put_back_yet_is_put_back_before_the_file_is_written() {
    let mut machine = machine("away");
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    machine.lose_rows(cache);
    let away = machine.dir.join("away");
    // Not mounted yet, say; and not at the next start either.
    std::fs::rename(machine.file(0), &away).unwrap();
    let cache = machine.started();
    cache.checkpoint();
    drop(cache);
    let cache = machine.started();
    cache.checkpoint();
    assert!(cache.flush(&machine.name(0)).is_err());
    std::fs::rename(&away, machine.file(0)).unwrap();
    {
        let view = cache.view(&machine.name(0)).unwrap();
        assert_eq!(view.rrd.rows(0, view.rrd.header.current_row(0), 1).unwrap(), [10.0]);
    }
    cache.flush(&machine.name(0)).unwrap();
    check(&machine.file(0), &(START + 1..=START + 10).collect::<Vec<_>>());
    // It is done once.
    write(&machine, &cache, 11..=20);
    assert_eq!(last_on_disk(&machine.file(0)), START + 20);
    machine.lose_rows(cache);
    finds(&machine, 20);
}

#[test]
fn a_header_still_to_be_put_back_is_copied_forward_in_the_log() {
    let mut machine = machine("carried");
    machine.log_max = 1 << 16;
    machine.make(2);
    let cache = machine.started();
    write(&machine, &cache, 1..=10);
    machine.lose_rows(cache);
    let away = machine.dir.join("away");
    std::fs::rename(machine.file(0), &away).unwrap();
    let cache = machine.started();
    assert!(cache.flush(&machine.name(0)).is_err());
    // The other file fills the log again and again; the first segments go.
    let oldest =
        || std::fs::read_dir(machine.dir.join("log")).unwrap().map(|it| it.unwrap().file_name()).min();
    let first = oldest();
    for time in 1..2500 {
        machine.update(&cache, 1, START + time);
        if time % 100 == 0 {
            cache.flush(&machine.name(1)).unwrap();
            cache.tick();
        }
    }
    assert!(oldest() > first, "nothing was carried");
    drop(cache);
    std::fs::rename(&away, machine.file(0)).unwrap();
    finds(&machine, 10);
}

#[test]
fn a_file_whose_header_could_not_be_logged_is_synced_before_it_can_be() {
    let mut machine = machine("unlogged");
    machine.make(2);
    let cache = machine.started();
    machine.update(&cache, 1, START + 1);
    (1..=10).for_each(|time| machine.update(&cache, 0, START + time));
    machine.disk.lock().full = true;
    machine.flush(&cache, 0).unwrap();
    machine.disk.lock().full = false;
    // The log has room again.
    machine.flush(&cache, 1).unwrap();
    write(&machine, &cache, 11..=20);
    machine.lose_rows(cache);
    finds(&machine, 20);
}

#[test]
fn samples_do_not_go_before_the_header_they_were_written_after() {
    let mut machine = machine("order");
    // A segment a tick.
    machine.limits.sweep = 0;
    let cache = machine.started();
    (1..=10).for_each(|time| machine.update(&cache, 0, START + time));
    cache.tick();
    machine.flush(&cache, 0).unwrap();
    // The files are synced, but the log cannot record it.
    machine.disk.lock().full = true;
    cache.checkpoint();
    machine.disk.lock().full = false;
    machine.lose_rows(cache);
    finds(&machine, 10);
    // Where a segment can begin all older ones go.
    let cache = machine.started();
    write(&machine, &cache, 11..=20);
    cache.checkpoint();
    drop(cache);
    assert_eq!(machine.started().stats().waiting, 0);
    finds(&machine, 20);
}
