//! Agents and hubs of the real state machines over a made-up network, in made-up time: whatever is cut, frozen,
//! restarted or set, afterwards every row that the rings held is at the hub, once and right, and every other is
//! known to be lost. A failing run names its seed: `KHZ_LINK_SEED=7 cargo test -p khz-link --test simulation`.

mod hub;
mod network;
mod node;
mod random;
#[path = "../ring_lane/mod.rs"]
mod ring_lane;
mod world;

use khz_link::Failback;
use khz_model::Nanos;
use world::{Faults, World};

/// How many worlds the quick tier has; `KHZ_LINK_SEEDS` for more, `KHZ_LINK_SEED` for one.
const SEEDS: u64 = 100;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("KHZ_LINK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KHZ_LINK_SEEDS").unwrap_or(SEEDS),
    }
}

#[test]
fn after_any_storm_every_row_is_there_once_or_known_to_be_lost() {
    let (mut rows, mut lost, mut cuts) = (0, 0, 0);
    for seed in seeds() {
        let mut world = World::new(seed, 1 + (seed % 2) as usize, Faults::all());
        world.storm(Nanos::from_secs(20));
        world.heal();
        world.run(Nanos::from_secs(6));
        let done = world.settle(Nanos::from_secs(90));
        rows += done.rows;
        lost += done.lost;
        cuts += done.cuts;
    }
    println!("{rows} rows arrived, {lost} were lost, {cuts} connections were cut");
    assert!(rows > 1_000 && (cuts > 0 || seeds().count() < 50));
}

#[test]
fn without_faults_nothing_is_lost_repeated_or_cut() {
    for seed in seeds().take(30) {
        let mut world = World::new(seed, 1, Faults::default());
        world.run(Nanos::from_secs(15));
        let done = world.settle(Nanos::from_secs(30));
        assert_eq!((done.lost, done.repeated, done.cuts), (0, 0, 0), "seed {seed}");
    }
}

#[test]
fn generations_that_follow_each_other_lose_no_row_and_cut_no_connection() {
    let mut rows = 0;
    for seed in seeds() {
        let mut world = World::new(seed, 1, Faults::default());
        world.churn(Nanos::from_secs(8));
        // A hub that knows nothing gets what the rings hold, many generations of it, while others begin.
        world.restart_hub(0);
        world.churn(Nanos::from_secs(6));
        let done = world.settle(Nanos::from_secs(60));
        assert_eq!((done.repeated, done.cuts), (0, 0), "seed {seed}");
        rows += done.rows;
    }
    println!("{rows} rows arrived");
}

#[test]
fn a_frozen_hub_is_replaced_within_three_seconds() {
    let mut longest = Nanos(0);
    for seed in seeds() {
        let mut world = World::new(seed, 2, Faults::default());
        world.run(Nanos(3_000_000_000 + seed % 97 * 31_000_000));
        world.hubs[0].frozen = true;
        let frozen_at = world.now;
        while world.hubs[1].rows_live == 0 {
            world.step();
            assert!(world.now.since(frozen_at) < Nanos::from_secs(3), "seed {seed}: nobody took over");
        }
        longest = longest.max(world.now.since(frozen_at));
        world.settle(Nanos::from_secs(60));
    }
    println!("taken over after {} ms at most", longest.0 / 1_000_000);
}

#[test]
fn an_agent_goes_back_to_its_first_hub_and_no_row_is_lost() {
    let after = Nanos::from_secs(5);
    for seed in seeds().take(25) {
        let mut world = World::new(seed, 2, Faults::default());
        world.agent.failback = Failback::new(2, after);
        world.run(Nanos(3_000_000_000 + seed % 97 * 31_000_000));
        world.hubs[0].frozen = true;
        world.run(Nanos::from_secs(8));
        assert_eq!(world.agent.hub, 1, "seed {seed}: nobody took over");
        world.hubs[0].frozen = false;
        let back = world.now;
        while world.agent.hub == 1 {
            world.step();
            let waited = world.now.since(back);
            assert!(waited < Nanos::from_secs(12), "seed {seed}: it never came back");
        }
        assert!(world.now.since(back) >= after, "seed {seed}: too early");
        world.run(Nanos::from_secs(3));
        assert_eq!(world.agent.hub, 0, "seed {seed}: it stays");
        world.settle(Nanos::from_secs(60));
        // A small ring may have given up what the first hub has missed: then the second has it.
        assert_eq!(world.rows_nowhere(), 0, "seed {seed}");
    }
}

#[test]
fn a_storm_while_agents_go_back_loses_no_row_either() {
    for seed in seeds().take(25) {
        let mut world = World::new(seed, 3, Faults::all());
        world.agent.failback = Failback::new(3, Nanos::from_secs(1));
        world.storm(Nanos::from_secs(20));
        world.heal();
        world.run(Nanos::from_secs(12));
        assert_eq!(world.agent.hub, 0, "seed {seed}: it is where it would rather be");
        world.settle(Nanos::from_secs(90));
    }
}

#[test]
fn a_node_that_hangs_is_cut_within_three_seconds() {
    for seed in seeds().take(50) {
        let mut world = World::new(seed, 1, Faults::default());
        world.run(Nanos(3_000_000_000 + seed % 97 * 31_000_000));
        world.agent.hangs = true;
        let hung_at = world.now;
        while world.hubs[0].is_connected() {
            world.step();
            assert!(world.now.since(hung_at) < Nanos::from_secs(3), "seed {seed}: still up");
        }
        world.agent.hangs = false;
        world.settle(Nanos::from_secs(60));
    }
}

#[test]
fn damaged_bytes_cut_the_connection_and_no_damaged_row_is_kept() {
    let mut cuts = 0;
    for seed in seeds() {
        let mut world = World::new(seed, 1, Faults { damage: true, ..Faults::default() });
        world.storm(Nanos::from_secs(10));
        cuts += world.cuts();
    }
    assert!(cuts > 0 || seeds().count() < 50, "no damage was ever noticed");
}

#[test]
fn a_restarted_hub_gets_the_past_back_from_the_rings() {
    for seed in seeds().take(30) {
        let mut world = World::new(seed, 1, Faults::default());
        world.run(Nanos::from_secs(12));
        world.restart_hub(0);
        world.run(Nanos::from_secs(3));
        let held = world.agent.node.rows_held();
        let done = world.settle(Nanos::from_secs(60));
        assert!(done.rows >= held, "seed {seed}: {} of {held} rows that the rings held", done.rows);
    }
}

#[test]
fn what_was_frozen_comes_once_and_unchanged_over_cuts_and_restarts_of_the_hub() {
    let mut rows = 0;
    for seed in seeds() {
        let faults = Faults { interests: true, cuts: true, freezes: true, ..Faults::default() };
        let mut world = World::new(seed, 1, faults);
        world.run(Nanos::from_secs(6));
        world.freeze(0);
        world.storm(Nanos::from_secs(8));
        world.heal();
        world.run(Nanos::from_secs(6));
        // The node has it all, and the hub does not know what it has got.
        let asked: Vec<u64> = world.hubs[0].asked.keys().copied().collect();
        let before = std::mem::take(&mut world.hubs[0].asked);
        world.restart_hub(0);
        world.hubs[0].asked = before;
        world.hubs[0].asked.values_mut().for_each(|one| one.kept = None);
        let until = Nanos(world.now.0 + Nanos::from_secs(60).0);
        while !world.frozen(0) {
            assert!(world.now < until, "seed {seed}: {asked:?} are not whole");
            world.step();
        }
        for asked in world.hubs[0].asked.values() {
            let lanes = asked.kept.iter().flat_map(|kept| &kept.lanes);
            rows += lanes.map(|lane| lane.rows.1 - lane.rows.0).sum::<u64>();
        }
    }
    println!("{rows} rows were frozen");
    assert!(rows > 1_000);
}
