//! Made-up hosts, far larger than any real one at hand. The parser gives every value that the host was made
//! with, at the first text and at every later one, whatever comes, goes, moves or is renamed.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use khz_model::schema::SLOTS_MAX;
use khz_model::{Absence, Nanos, Reading};
use khz_parse::{Outcome, Parser, files};
use khz_synthetic_host::{Host, Noise, Shape, Truth};

const SMALL: Shape = Shape { cpus: 8, interrupts: 64, interfaces: 12, disks: 9 };

fn parser(path: &str) -> Parser {
    Parser::new(files().iter().find(|file| file.captured_path() == path).unwrap())
}

fn feed(parser: &mut Parser, text: &str) -> Outcome {
    parser.advance_with(text.as_bytes())
}

/// Every slot has the true value. A series that the host does not have has no value, and no true value is
/// missing.
fn holds(parser: &Parser, truths: &[Truth], when: &str) {
    assert_eq!(parser.faults(), [], "{when}");
    let key = |truth: &Truth| (truth.metric, truth.instance.clone());
    let mut expected: HashMap<_, _> = truths.iter().map(|truth| (key(truth), truth.value)).collect();
    assert_eq!(expected.len(), truths.len(), "{when}: the host contradicts itself");
    for (slot, series) in parser.schema().series().iter().enumerate() {
        let instance = series.instance.as_ref().map(|name| name.name().to_owned());
        let reading = parser.reading(slot).unwrap();
        match expected.remove(&(&*series.metric.name, instance)) {
            Some(value) => assert_eq!(reading, Reading::Present(value), "{when}: {series}"),
            None => assert!(
                matches!(reading, Reading::Absent(Absence::NoField | Absence::InstanceGone)),
                "{when}: {series} is {reading:?}, but the host has no such value"
            ),
        }
    }
    assert!(expected.is_empty(), "{when}: {:?} has no slot", expected.keys().next());
}

/// A copy that only follows `changed` stays equal to the parser.
fn follow(copy: &mut Vec<Option<Reading>>, parser: &Parser) {
    copy.resize(parser.schema().len(), None);
    for &slot in parser.changed() {
        copy[slot as usize] = parser.reading(slot as usize);
    }
    for (slot, kept) in copy.iter().enumerate() {
        let now = parser.reading(slot);
        let same = *kept == now || kept.is_none() && now == Some(Reading::Absent(Absence::NotYet));
        assert!(
            same || kept.is_none() && matches!(now, Some(Reading::Absent(_))),
            "slot {slot} changed, but `changed` does not name it"
        );
    }
}

/// Gives the parser `rounds` texts of the file as the host goes on.
fn watch(host: &mut Host, path: &str, rounds: usize) -> Vec<Outcome> {
    let mut parser = parser(path);
    let mut copy = Vec::new();
    let mut outcomes = Vec::new();
    for round in 0..rounds {
        let file = host.file(path).unwrap();
        outcomes.push(feed(&mut parser, &file.text()));
        holds(&parser, &file.truth(), &format!("{path}, text {round}"));
        follow(&mut copy, &parser);
        host.advance();
    }
    outcomes
}

#[test]
fn every_file_of_many_small_hosts_is_read_as_it_was_made() {
    for seed in 0..40 {
        let mut host = Host::new(SMALL, seed);
        let paths: Vec<_> = host.files().iter().map(|file| file.path()).collect();
        for path in paths {
            watch(&mut host, path, 30);
        }
    }
}

#[test]
fn most_texts_of_a_small_host_are_parsed_in_place_and_some_in_full() {
    let (mut in_place, mut all) = (0, 0);
    for seed in 0..20 {
        let outcomes = watch(&mut Host::new(SMALL, seed), "proc/net/dev", 50);
        all += outcomes.len();
        in_place += outcomes.iter().filter(|&&outcome| outcome == Outcome::InPlace).count();
    }
    assert!((all / 10..all).contains(&in_place), "{in_place} of {all}: one of the two paths is not tested");
}

#[test]
fn four_thousand_ninety_six_cpus_and_five_thousand_interrupts() {
    let shape = Shape { cpus: 4_096, interrupts: 5_000, interfaces: 1, disks: 1 };
    watch(&mut Host::new(shape, 4_096), "proc/stat", 12);
}

#[test]
fn ten_thousand_interfaces() {
    let shape = Shape { cpus: 1, interrupts: 1, interfaces: 10_000, disks: 1 };
    watch(&mut Host::new(shape, 10_000), "proc/net/dev", 6);
}

#[test]
fn five_thousand_disks() {
    let shape = Shape { cpus: 1, interrupts: 1, interfaces: 1, disks: 5_000 };
    watch(&mut Host::new(shape, 5_000), "proc/diskstats", 6);
}

/// Changes the host between texts with `change` and compares all that can be read of `path`.
fn survives(path: &str, mut change: impl FnMut(&mut Host, &mut Noise)) {
    for seed in 0..20 {
        let mut host = Host::new(SMALL, seed);
        let mut noise = Noise::new(seed);
        let mut parser = parser(path);
        for round in 0..30 {
            let file = host.file(path).unwrap();
            feed(&mut parser, &file.text());
            holds(&parser, &file.truth(), &format!("{path}, seed {seed}, text {round}"));
            host.advance();
            change(&mut host, &mut noise);
        }
    }
}

/// Puts the items into another order.
fn shuffle<T>(items: &mut [T], noise: &mut Noise) {
    for last in (1..items.len()).rev() {
        items.swap(last, noise.below(last as u64 + 1) as usize);
    }
}

#[test]
fn lines_in_another_order_change_no_value() {
    survives("proc/net/dev", |host, noise| shuffle(&mut host.network.interfaces, noise));
    survives("proc/stat", |host, noise| shuffle(&mut host.cpus.online, noise));
    survives("proc/diskstats", |host, noise| shuffle(&mut host.disks.disks, noise));
}

#[test]
fn cpus_that_go_offline_and_come_back_are_absent_meanwhile_and_never_confused() {
    survives("proc/stat", |host, noise| {
        host.cpus.online = (0..SMALL.cpus).filter(|_| !noise.once_in(3)).collect();
    });
}

#[test]
fn a_renamed_interface_takes_its_numbers_along_and_leaves_none_behind() {
    survives("proc/net/dev", |host, noise| {
        let some = noise.below(SMALL.interfaces as u64) as usize;
        let old = host.network.interfaces[some].0.clone();
        // A name of the same length, so that only the name differs, or a new name.
        let new = match noise.below(2) {
            0 => format!("{}{}", &old[..old.len() - 1], (b'A' + noise.below(26) as u8) as char),
            _ => format!("renamed{}", noise.below(10_000)),
        };
        if !host.network.interfaces.iter().any(|(name, _)| *name == new) {
            host.network.rename(&old, &new);
        }
    });
}

#[test]
fn two_interfaces_that_swap_their_names_swap_their_numbers() {
    survives("proc/net/dev", |host, noise| {
        let [a, b] = [0; 2].map(|_| noise.below(SMALL.interfaces as u64) as usize);
        let name = host.network.interfaces[a].0.clone();
        host.network.interfaces[a].0 = std::mem::replace(&mut host.network.interfaces[b].0, name);
    });
}

#[test]
fn interfaces_and_disks_come_and_go() {
    let mut born = 0;
    survives("proc/net/dev", |host, noise| {
        let interfaces = &mut host.network.interfaces;
        if !interfaces.is_empty() && noise.once_in(2) {
            interfaces.remove(noise.below(interfaces.len() as u64) as usize);
        } else {
            born += 1;
            let at = noise.below(interfaces.len() as u64 + 1) as usize;
            interfaces.insert(at, (format!("new{born}"), [0; 16].map(|_: u64| noise.counter(40))));
        }
    });
    survives("proc/diskstats", |host, noise| {
        let disks = &mut host.disks.disks;
        if disks.len() > 1 && noise.once_in(2) {
            disks.remove(noise.below(disks.len() as u64) as usize);
        } else {
            born += 1;
            disks.push((format!("sd{born}"), [0; 17].map(|_: u64| noise.counter(30))));
        }
    });
}

#[test]
fn counters_that_go_backwards_are_shown_as_the_kernel_shows_them() {
    // A reloaded driver starts at 0. The parser shows that; the reader computes rates from it.
    survives("proc/net/dev", |host, noise| {
        let some = noise.below(SMALL.interfaces as u64) as usize;
        host.network.interfaces[some].1 = [0; 16].map(|_: u64| noise.counter(20));
    });
    survives("proc/diskstats", |host, noise| {
        let some = noise.below(SMALL.disks as u64) as usize;
        host.disks.disks[some].1 = [0; 17].map(|_: u64| noise.counter(20));
    });
}

#[test]
fn where_no_slots_are_left_those_that_are_gone_can_be_given_back() {
    let file = files().iter().find(|file| file.path == "proc/net/dev").unwrap();
    let metrics = file.metrics().len();
    let room = SLOTS_MAX / metrics;
    let text = |round: usize| {
        let head = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";
        let line = |n: usize| format!("veth{round}-{n}: {n} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        head.to_owned() + &(0..room - 10).map(line).collect::<String>()
    };
    let mut parser = Parser::new(file);
    feed(&mut parser, &text(0));
    assert_eq!(parser.slots_gone(Nanos(0), Nanos(0)), 0);
    feed(&mut parser, &text(1));
    assert_eq!(parser.faults()[0].problem, "no slot or room for names is left for this instance");
    assert_eq!(parser.slots_gone(Nanos(1), Nanos(0)), (room - 10) * metrics);
    parser.renew(Nanos(1), Nanos(0));
    feed(&mut parser, &text(1));
    assert_eq!(parser.faults(), []);
    assert_eq!(parser.slots_gone(Nanos(2), Nanos(0)), 0);
    assert_eq!(parser.schema().len(), (room - 10) * metrics);
}
