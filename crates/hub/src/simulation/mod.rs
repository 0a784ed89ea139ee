//! Hubs of the real code in made-up time, with real agents' ends and readers, and alike nodes that gain series at random
//! moments: while lanes are wanted and left, over reconnects, restarts and nested hubs. Nobody is ever refused, and no row is
//! lost, late or twice in any lane. A failing run names its seed: `KHZ_HUB_SEED=7 cargo test -p khz-hub simulation`.

mod hub;
mod judge;
mod node;
#[path = "../../../link/tests/simulation/random.rs"]
pub(crate) mod random;
mod reader;
mod tape;
mod wire;
mod world;

use khz_model::Nanos;
use world::{Outcome, World};

/// So many worlds of each kind in the quick tier; `KHZ_HUB_SEEDS` for more, `KHZ_HUB_SEED` for one.
const SEEDS: u64 = 150;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("KHZ_HUB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KHZ_HUB_SEEDS").unwrap_or(SEEDS),
    }
}

fn worlds(breaks: bool) -> Outcome {
    let mut all = Outcome::default();
    for seed in seeds() {
        let mut world = World::new(seed, breaks);
        world.run(Nanos::SECOND, false);
        world.run(Nanos::from_secs(5), true);
        let outcome = world.judge();
        all.rows += outcome.rows;
        all.read += outcome.read;
        all.gaps += outcome.gaps;
        all.gained += outcome.gained;
    }
    println!("{all:?}");
    all
}

#[test]
fn alike_nodes_that_gain_the_same_series_lose_no_row_of_any_lane_and_stay_connected() {
    let all = worlds(false);
    assert!(all.read > 0 && all.gained > 0);
    assert_eq!(all.gaps, 0);
}

#[test]
fn what_breaks_meanwhile_gets_nobody_refused_and_loses_no_row_of_a_base_lane() {
    let all = worlds(true);
    assert!(all.rows > 0 && all.gained > 0);
}
