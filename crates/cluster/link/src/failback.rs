//! When an agent goes back to a hub that it prefers. It probes better hubs now and then. When one was well for long enough,
//! the agent goes back to it after a random time, so that thousands do not come at once. This file opens no socket: the
//! caller reports the results of probes, and provides random numbers.

use khz_model::Nanos;

/// The shortest and the longest mean time between two probes of one hub. Thousands of agents then probe a hub a few dozen
/// times a second, and a hub is well for several probes before they come back.
const PROBE_MIN: Nanos = Nanos::from_millis(100);
const PROBE_MAX: Nanos = Nanos::from_secs(60);

/// After this many returns in vain, a hub must be well for sixteen times as long.
const VAIN_MAX: u32 = 4;

/// The hubs of one agent, in order of preference.
#[derive(Clone, Debug)]
pub struct Failback {
    after: Nanos,
    hubs: Vec<Hub>,
    /// The present hub: those before it are better.
    present: usize,
    /// The hub that it goes back to, or has gone back to.
    returned: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Hub {
    /// Since when every probe has gone well.
    well_since: Option<Nanos>,
    probe_at: Nanos,
    /// A random time that is added to the wait, so that agents do not all come back at once.
    spread: Nanos,
    /// How many times in a row the agent came back in vain.
    vain: u32,
    /// The hub has refused the agent, and had this identity. It will refuse again until a hub with another
    /// identity answers there.
    refused_by: Option<[u8; 16]>,
}

impl Failback {
    /// This many hubs. `after` 0: an agent stays where it is.
    pub fn new(hubs: usize, after: Nanos) -> Self {
        Failback { after, hubs: vec![Hub::default(); hubs], present: 0, returned: None }
    }

    /// The agent has come to a hub. What it knew of better hubs is too old now.
    pub fn came_to(&mut self, hub: usize, now: Nanos, random: u64) {
        self.present = hub;
        let period = self.period();
        for (number, better) in self.hubs.iter_mut().take(hub).enumerate() {
            better.well_since = None;
            better.probe_at = Nanos(now.0 + random.rotate_left(8 * number as u32) % period.0);
        }
    }

    /// The agent goes back to this hub.
    pub fn goes_back(&mut self, hub: usize) {
        self.returned = Some(hub);
    }

    /// The connection to that hub, or the attempt to make one, has ended after this time.
    pub fn left(&mut self, hub: usize, lasted: Nanos) {
        let wait = self.wait(hub);
        if self.returned.take_if(|returned| *returned == hub).is_none() {
            return;
        }
        if let Some(hub) = self.hubs.get_mut(hub) {
            if hub.refused_by.is_some() {
                return;
            }
            hub.vain = if lasted < wait { (hub.vain + 1).min(VAIN_MAX) } else { 0 };
        }
    }

    /// The hub has refused the agent for a reason that time does not change. The hub counts as well after the longest wait, or as
    /// soon as a restarted hub answers there: its keys may have changed.
    pub fn refused(&mut self, hub: usize, identity: [u8; 16]) {
        if let Some(hub) = self.hubs.get_mut(hub) {
            (hub.refused_by, hub.vain) = (Some(identity), VAIN_MAX);
        }
    }

    /// The hub has accepted the agent.
    pub fn accepted(&mut self, hub: usize) {
        if let Some(hub) = self.hubs.get_mut(hub).filter(|hub| hub.refused_by.is_some()) {
            (hub.refused_by, hub.vain) = (None, 0);
        }
    }

    /// A hub with this identity answers there.
    pub fn greeted(&mut self, hub: usize, identity: [u8; 16]) {
        if let Some(hub) = self.hubs.get_mut(hub)
            && hub.refused_by.is_some_and(|refused| refused != identity)
        {
            (hub.refused_by, hub.vain, hub.well_since) = (None, 0, None);
        }
    }

    /// True if the hub has refused the agent, and not accepted it since.
    pub fn has_refused(&self, hub: usize) -> bool {
        self.hubs.get(hub).is_some_and(|hub| hub.refused_by.is_some())
    }

    /// Which hub to probe next, and when; `None`: there is no better hub.
    pub fn next_probe(&self) -> Option<(usize, Nanos)> {
        let better = self.better_hubs().map(|(number, hub)| (number, hub.probe_at));
        better.min_by_key(|&(_, at)| at)
    }

    /// A probe has ended. `random` is any number.
    pub fn probed(&mut self, hub: usize, is_well: bool, now: Nanos, random: u64) {
        let (period, wait) = (self.period(), self.wait(hub));
        let Some(hub) = self.hubs.get_mut(hub) else { return };
        hub.probe_at = Nanos(now.0 + period.0 / 2 + random % period.0);
        match (is_well, hub.well_since) {
            (false, _) => hub.well_since = None,
            (true, Some(_)) => {}
            (true, None) => {
                hub.well_since = Some(now);
                hub.spread = Nanos((random >> 20) % (wait.0 / 2 + 1));
            }
        }
    }

    /// The best hub that was well for long enough.
    pub fn better(&self, now: Nanos) -> Option<usize> {
        let mut ripe =
            self.better_hubs().filter(|(number, _)| self.ripe_at(*number).is_some_and(|at| at <= now));
        ripe.next().map(|(number, _)| number)
    }

    /// When the next hub is well for long enough, if it stays well.
    pub fn next_ripe(&self) -> Option<Nanos> {
        self.better_hubs().filter_map(|(number, _)| self.ripe_at(number)).min()
    }

    /// The earliest time at which the agent may be at a better hub; `None`: there is no better hub, or
    /// the agent stays.
    pub fn back_at(&self) -> Option<Nanos> {
        let earliest = |(number, hub): (usize, &Hub)| {
            self.ripe_at(number).unwrap_or(Nanos(hub.probe_at.0.saturating_add(self.wait(number).0)))
        };
        self.better_hubs().map(earliest).min()
    }

    fn better_hubs(&self) -> impl Iterator<Item = (usize, &Hub)> {
        let returns = self.after > Nanos(0);
        self.hubs.iter().enumerate().take(if returns { self.present } else { 0 })
    }

    fn ripe_at(&self, hub: usize) -> Option<Nanos> {
        let known = self.hubs.get(hub)?;
        Some(Nanos(known.well_since?.0.saturating_add(self.wait(hub).0).saturating_add(known.spread.0)))
    }

    fn wait(&self, hub: usize) -> Nanos {
        let vain = self.hubs.get(hub).map_or(0, |hub| hub.vain);
        Nanos(self.after.0.saturating_mul(1 << vain))
    }

    /// The mean time between two probes of one hub.
    fn period(&self) -> Nanos {
        Nanos(self.after.0 / 5).clamp(PROBE_MIN, PROBE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILBACK_AFTER: Nanos = Nanos::from_secs(300);

    const MINUTE: Nanos = Nanos::from_secs(60);

    /// Probes when they are due, for this long. Returns when the agent goes back.
    fn run(
        failback: &mut Failback,
        from: Nanos,
        seed: u64,
        is_well: impl Fn(Nanos) -> bool,
    ) -> Option<Nanos> {
        let mut random = seed;
        while let Some((hub, at)) = failback.next_probe() {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f) ^ seed;
            let ripe = failback.next_ripe().filter(|&ripe| ripe <= at);
            if let Some(ripe) = ripe {
                return Some(ripe);
            }
            if at.since(from) > Nanos(60 * MINUTE.0) {
                return None;
            }
            failback.probed(hub, is_well(at), at, random);
        }
        None
    }

    #[test]
    fn an_agent_goes_back_when_the_better_hub_was_well_for_long_enough_and_not_before() {
        for seed in 1..200u64 {
            let mut failback = Failback::new(2, FAILBACK_AFTER);
            failback.came_to(1, MINUTE, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let back = Nanos(10 * MINUTE.0);
            let gone = run(&mut failback, MINUTE, seed, |now| now >= back).unwrap();
            let waited = gone.since(back);
            assert!(waited >= FAILBACK_AFTER, "{seed}: {waited:?}");
            assert!(waited <= Nanos(FAILBACK_AFTER.0 * 3 / 2 + 2 * PROBE_MAX.0), "{seed}: {waited:?}");
            assert_eq!(failback.better(gone), Some(0));
        }
    }

    #[test]
    fn a_hub_that_comes_and_goes_is_not_gone_back_to() {
        let mut failback = Failback::new(2, FAILBACK_AFTER);
        failback.came_to(1, MINUTE, 7);
        let flaps = |now: Nanos| now.0 / MINUTE.0 % 4 < 2;
        assert_eq!(run(&mut failback, MINUTE, 7, flaps), None);
    }

    #[test]
    fn thousands_do_not_come_back_at_once() {
        let back = Nanos(10 * MINUTE.0);
        let mut seconds = std::collections::HashMap::<u64, u32>::new();
        for seed in 1..=4_000u64 {
            let mut failback = Failback::new(2, FAILBACK_AFTER);
            failback.came_to(1, MINUTE, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let gone =
                run(&mut failback, MINUTE, seed.wrapping_mul(0xda94_2042_e4dd_58b5), |now| now >= back);
            *seconds.entry(gone.unwrap().0 / Nanos::SECOND.0).or_default() += 1;
        }
        let most = seconds.values().max().unwrap();
        assert!(
            *most < 100 && seconds.len() > 100,
            "{most} of 4,000 in one second, {} seconds",
            seconds.len()
        );
    }

    #[test]
    fn an_agent_at_the_best_hub_or_that_stays_probes_no_hub() {
        let mut failback = Failback::new(3, FAILBACK_AFTER);
        failback.came_to(0, MINUTE, 1);
        assert_eq!((failback.next_probe(), failback.back_at(), failback.better(MINUTE)), (None, None, None));
        let mut stays = Failback::new(3, Nanos(0));
        stays.came_to(2, MINUTE, 1);
        assert_eq!((stays.next_probe(), stays.back_at()), (None, None));
    }

    #[test]
    fn the_best_hub_that_is_well_counts_and_one_that_was_gone_back_to_in_vain_waits_longer() {
        let mut failback = Failback::new(3, FAILBACK_AFTER);
        failback.came_to(2, MINUTE, 1);
        let late = Nanos(30 * MINUTE.0);
        failback.probed(1, true, MINUTE, 0);
        assert_eq!(failback.better(late), Some(1));
        failback.probed(0, true, MINUTE, 0);
        assert_eq!(failback.better(late), Some(0));
        failback.left(0, Nanos::SECOND);
        assert_eq!(
            failback.next_ripe(),
            Some(Nanos(MINUTE.0 + FAILBACK_AFTER.0)),
            "it did not go back there"
        );
        failback.goes_back(0);
        failback.left(0, Nanos::SECOND);
        failback.came_to(2, MINUTE, 1);
        failback.probed(0, true, MINUTE, 0);
        assert_eq!(failback.next_ripe(), Some(Nanos(MINUTE.0 + 2 * FAILBACK_AFTER.0)));
        failback.goes_back(0);
        failback.left(0, Nanos(30 * MINUTE.0));
        assert_eq!(failback.next_ripe(), Some(Nanos(MINUTE.0 + FAILBACK_AFTER.0)));
    }

    #[test]
    fn a_hub_that_has_refused_the_agent_is_well_again_when_another_start_of_it_answers() {
        let mut failback = Failback::new(2, FAILBACK_AFTER);
        failback.refused(0, [1; 16]);
        failback.left(0, Nanos(0));
        failback.came_to(1, MINUTE, 1);
        failback.greeted(0, [1; 16]);
        failback.probed(0, true, MINUTE, 0);
        assert!(failback.has_refused(0));
        let long = Nanos(MINUTE.0 + 16 * FAILBACK_AFTER.0);
        assert_eq!(failback.next_ripe(), Some(long), "it would be refused again");
        let restarted = Nanos(20 * MINUTE.0);
        failback.greeted(0, [2; 16]);
        failback.probed(0, true, restarted, 0);
        assert!(!failback.has_refused(0));
        assert_eq!(failback.next_ripe(), Some(Nanos(restarted.0 + FAILBACK_AFTER.0)));
        failback.refused(0, [2; 16]);
        failback.accepted(0);
        assert!(!failback.has_refused(0));
    }
}
