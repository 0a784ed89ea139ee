//! Real hubs, agents' ends and readers in made-up time. The nodes are of one kind and gain series at random moments, while
//! readers come and go, also at a hub above the first. No peer is ever refused. Without faults, no row is lost, late or repeated
//! in any lane. If connections break and programs restart, this holds for base lanes. A failing run names its seed:
//! `KHZ_HUB_SEED=7 cargo test -p khz-hub simulation`; [`trace`] shows the frames of that run.

mod hub;
mod judge;
mod keeper;
mod node;
#[path = "../../../link/tests/simulation/random.rs"]
pub(crate) mod random;
mod rates;
mod reader;
mod recorder;
pub(crate) mod store;
mod tape;
pub(crate) mod trace;
mod wire;
mod world;

use std::ops::Range;
use std::sync::Arc;

use khz_link::{Identity, Role};
use khz_model::{ByteSize, Nanos};
use world::{Outcome, Trouble, World};

/// Worlds of each kind, where the environment names none.
const SEEDS: u64 = 100;

/// The same for worlds whose hubs have logs.
const STORED_SEEDS: u64 = 12;

/// The same for worlds with recorders.
const RECORDED_SEEDS: u64 = 40;

/// The first `usual` seeds, or those that the environment names: `KHZ_HUB_SEED=7` is seed 7 alone, `KHZ_HUB_SEEDS=5000` the
/// first 5,000, and `KHZ_HUB_SEEDS=724..5000` those from 724 to 4,999.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let number = |text: &str| text.parse::<u64>().expect("KHZ_HUB_SEED and KHZ_HUB_SEEDS are numbers");
    if let Ok(seed) = std::env::var("KHZ_HUB_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match std::env::var("KHZ_HUB_SEEDS") {
        Ok(text) => match text.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&text),
        },
        Err(_) => 0..usual,
    }
}

/// A made-up identity, without a proof. Among readers, only hubs name their machine.
pub(crate) fn identity(role: Role, name: &str, machine: u8, started: i64) -> Arc<Identity> {
    Arc::new(Identity {
        role,
        name: name.into(),
        machine: [if role == Role::Reader { 0 } else { machine }; 16],
        boot: [2; 16],
        started,
        start_nonce: started as u64,
        program: "test".into(),
        prove: None,
    })
}

fn world(seed: u64, trouble: Trouble, gives_slots_back: bool) -> Outcome {
    let mut world = World::new(seed, trouble);
    if gives_slots_back {
        world.renew_nodes();
    }
    live(world)
}

fn live(mut world: World) -> Outcome {
    world.run(Nanos::SECOND, false);
    world.run(Nanos::from_secs(5), true);
    world.judge()
}

fn worlds(trouble: Trouble) -> Outcome {
    let mut all = Outcome::default();
    for seed in seeds(SEEDS) {
        let outcome = world(seed, trouble, true);
        all.rows += outcome.rows;
        all.rows_above += outcome.rows_above;
        all.read += outcome.read;
        all.gaps += outcome.gaps;
        all.gained += outcome.gained;
        all.renewed += outcome.renewed;
        all.forgets += outcome.forgets;
    }
    println!("{all:?}");
    all
}

#[test]
fn alike_nodes_that_gain_the_same_series_lose_no_row_of_any_lane_and_stay_connected() {
    let all = worlds(Trouble::None);
    assert!(all.read > 0 && all.gained > 0 && all.renewed > 0);
    assert_eq!(all.gaps, 0);
}

#[test]
fn broken_connections_and_restarts_refuse_no_peer_and_lose_no_row_of_a_base_lane() {
    let all = worlds(Trouble::Breaks);
    assert!(all.rows > 0 && all.gained > 0);
}

#[test]
fn a_lane_that_is_to_serve_another_interest_is_not_left_when_its_first_is_dismissed() {
    // Two readers request the same lane from a hub that has just started, and one of them leaves.
    assert!(world(724, Trouble::Breaks, false).read > 0);
}

#[test]
fn nodes_that_are_forgotten_while_they_are_down_come_back_and_lose_no_row_of_a_base_lane() {
    let all = worlds(Trouble::Forgets);
    assert!(all.rows > 0 && all.forgets > 0);
}

#[test]
fn the_log_has_every_row_that_came_whatever_breaks_or_restarts() {
    let (mut rows, mut forgets, mut gained) = (0, 0, 0);
    for seed in seeds(STORED_SEEDS) {
        for trouble in [Trouble::None, Trouble::Breaks, Trouble::Forgets] {
            // With memory for the past, and without: then only rows come again that neither came nor are
            // stored.
            for history in [256 << 20, 0] {
                let mut world = World::new(seed, trouble);
                world.store(ByteSize(history));
                world.renew_nodes();
                let outcome = live(world);
                (rows, forgets) = (rows + outcome.stored, forgets + outcome.forgets);
                gained += outcome.gained;
            }
        }
    }
    assert!(rows > 0 && forgets > 0 && gained > 0, "{rows} rows, {forgets} times, {gained} series");
}

#[test]
fn programs_of_before_get_no_values_that_they_do_not_know_and_lose_no_row_of_those_that_they_know() {
    let (mut rows, mut renewed, mut left_out, mut told) = (0, 0, 0, 0);
    for seed in seeds(SEEDS) {
        let trouble = if seed % 2 == 0 { Trouble::None } else { Trouble::Breaks };
        let mut world = World::mixed(seed, trouble);
        world.renew_nodes();
        let outcome = live(world);
        (rows, renewed) = (rows + outcome.read, renewed + outcome.renewed);
        (left_out, told) = (left_out + outcome.left_out, told + outcome.told);
    }
    assert!(rows > 0 && renewed > 0, "{rows} rows, {renewed} times");
    // A single world may have programs of one version only.
    assert!(seeds(SEEDS).count() < 20 || left_out > 0 && told > 0, "{left_out} left out, {told} told");
}

#[test]
fn hubs_above_hubs_have_every_row_once_whatever_breaks_stands_still_or_moves() {
    for trouble in [Trouble::None, Trouble::Breaks, Trouble::Forgets] {
        let (mut rows, mut gained) = (0, 0);
        for seed in seeds(SEEDS) {
            let mut world = World::tree(seed, trouble);
            if seed % 3 == 0 {
                world.renew_nodes();
            }
            let outcome = live(world);
            (rows, gained) = (rows + outcome.rows_above, gained + outcome.gained);
        }
        println!("{trouble:?}: {rows} rows");
        assert!(rows > 0 && gained > 0);
    }
}

#[test]
fn recordings_have_each_row_of_their_rate_once_wherever_node_and_recorder_go() {
    for trouble in [Trouble::None, Trouble::Breaks, Trouble::Forgets] {
        let mut rows = 0;
        for seed in seeds(RECORDED_SEEDS) {
            let mut world = World::tree(seed, trouble);
            world.record();
            rows += live(world).recorded;
        }
        println!("{trouble:?}: {rows} rows");
        // A single world may have slow base lanes only.
        assert!(seeds(RECORDED_SEEDS).count() < 20 || rows > 0);
    }
}

#[test]
fn hubs_above_and_recordings_have_each_row_of_every_epoch_once_while_base_rates_change() {
    for trouble in [Trouble::None, Trouble::Breaks] {
        let mut rows = 0;
        for seed in seeds(RECORDED_SEEDS) {
            let mut world = World::tree(seed, trouble);
            world.change_rates();
            rows += live(world).recorded;
        }
        println!("{trouble:?}: {rows} rows");
        assert!(rows > 0);
    }
}

#[test]
fn the_logs_of_hubs_above_have_each_row_of_every_epoch_while_base_rates_change() {
    let mut rows = 0;
    for seed in seeds(STORED_SEEDS) {
        for trouble in [Trouble::None, Trouble::Breaks] {
            let mut world = World::tree(seed, trouble);
            world.store(ByteSize(256 << 20));
            world.change_rates();
            rows += live(world).recorded;
        }
    }
    assert!(rows > 0);
}

#[test]
fn the_logs_of_hubs_above_hubs_have_every_row_whatever_breaks_stands_still_or_moves() {
    let mut rows = 0;
    for seed in seeds(STORED_SEEDS) {
        for trouble in [Trouble::None, Trouble::Breaks, Trouble::Forgets] {
            for history in [256 << 20, 0] {
                let mut world = World::tree(seed, trouble);
                world.store(ByteSize(history));
                rows += live(world).stored_above;
            }
        }
    }
    assert!(rows > 0);
}

/// Worlds in which readers want channels too.
fn channels(trouble: Trouble, world: fn(u64, Trouble) -> World) -> Outcome {
    let mut all = Outcome::default();
    for seed in seeds(SEEDS) {
        let mut world = world(seed, trouble);
        world.renew_nodes();
        world.want_channels();
        let outcome = live(world);
        all.of_channels += outcome.of_channels;
        all.of_channels_above += outcome.of_channels_above;
        all.read += outcome.read;
        all.too_old += outcome.too_old;
        all.gained += outcome.gained;
    }
    println!("{all:?}");
    all
}

#[test]
fn a_reader_of_a_channel_gets_each_row_since_it_came_once_and_in_time_while_nodes_gain_series() {
    let all = channels(Trouble::None, World::new);
    assert!(all.of_channels_above > 0 && all.of_channels > all.of_channels_above && all.gained > 0);
    assert_eq!(all.too_old, 0);
}

#[test]
fn channels_go_on_after_broken_connections_and_restarts_and_nobody_is_refused() {
    assert!(channels(Trouble::Breaks, World::new).of_channels_above > 0);
    assert!(channels(Trouble::Forgets, World::new).of_channels_above > 0);
}

#[test]
fn programs_of_before_are_sent_no_channels_and_those_of_now_get_theirs_beside_them() {
    for trouble in [Trouble::None, Trouble::Breaks] {
        let all = channels(trouble, World::mixed);
        // A single world may have programs of one version only.
        assert!(seeds(SEEDS).count() < 20 || all.of_channels > 0 && all.too_old > 0, "{all:?}");
    }
}
