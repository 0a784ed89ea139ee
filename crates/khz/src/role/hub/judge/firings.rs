//! Alerts that are of no node, where several hubs evaluate the same rules: the hub where an alert fired first tells people and acts.
//! Before a hub decides, it waits for what the others know of the same moment. It asks nobody, and gets the time as an argument.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use khz_notify::limits::WAYS_MAX;
use khz_notify::{Alert, Labels, ToldLine};
use khz_rules::limits::HUB_ALERTS_MAX;

/// Another hub that evaluates a rule at the same time may be done with it so much later.
const LATER: Duration = Duration::from_secs(1);

/// What another hub that is there has said of an alert.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'a> {
    /// Its name.
    pub hub: &'a str,
    /// When it was asked for that.
    pub asked: Instant,
    /// The alert is active there; with it, since when it fires by what that hub has judged itself (ms since 1970).
    pub active: Option<Option<i64>>,
    /// It was active there before that hub was started again, and has ended here since; how it is there now is not known.
    pub is_outdated: bool,
    /// It is over there, and when it ended (ms since 1970).
    pub over: Option<i64>,
    /// People know from that hub that it fires.
    pub has_told: bool,
}

/// Whose a firing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// This hub's: it tells people and acts.
    Ours,
    /// Another hub's.
    Other,
    /// Another hub's, which has not taken it so far: what people know of it from this hub stays until then.
    GoesOver,
    /// Another hub has told people of its end.
    Done,
    /// Nobody knows so far.
    Unknown,
}

impl Whose {
    /// It is another hub's. `has_told`: people know it from there.
    fn of_other(was_ours: bool, has_told: bool) -> Self {
        if was_ours && !has_told { Whose::GoesOver } else { Whose::Other }
    }
}

/// A firing, as this hub knows it.
#[derive(Debug)]
struct Firing {
    /// Since when it fires here. A hub may learn that it fires for longer elsewhere; it is the same firing then.
    here_at: Option<i64>,
    seen: Instant,
    /// Whether this hub tells people of it; `None`: that was not decided so far.
    is_ours: Option<bool>,
    /// What people were told by the hub whose it is, by each way.
    told: BTreeMap<String, Told>,
}

impl Firing {
    fn begun(here_at: Option<i64>, seen: Instant) -> Self {
        Firing { here_at, seen, is_ours: None, told: BTreeMap::new() }
    }

    /// Whether people may know of it from this hub: from no other one, as far as that is known.
    fn was_ours(&self) -> bool {
        self.is_ours.unwrap_or(self.told.is_empty())
    }
}

/// What people were told of a firing by one way.
#[derive(Debug)]
struct Told {
    /// When it fires since, as they were told (ms since 1970).
    starts_at: i64,
    told_at: i64,
    /// They may not have got it.
    perhaps: bool,
}

/// The firings of this hub, by the numbers of their labels.
#[derive(Debug, Default)]
pub(super) struct Firings {
    all: HashMap<u64, Firing>,
    /// Those that are over. This process may not have seen them fire.
    ends: HashMap<u64, Ending>,
}

/// The end of a firing.
#[derive(Debug)]
struct Ending {
    seen: Instant,
    /// Another hub is about to tell people of it.
    yields: bool,
}

impl Firings {
    /// Whose a firing alert is, by what other hubs that are there say. `own`: the name of this hub.
    pub fn whose<'a>(
        &mut self,
        alert: &Alert,
        own: &str,
        said: impl Iterator<Item = Said<'a>>,
        now: Instant,
    ) -> Whose {
        let key = number(&alert.labels);
        if self.all.len() >= HUB_ALERTS_MAX && !self.all.contains_key(&key) {
            // Most are over. The others are decided again, which tells nobody twice.
            self.all.clear();
        }
        self.ends.remove(&key);
        let here_at = alert.fired_here_at;
        let begun = || Firing::begun(here_at, now);
        let firing = self.all.entry(key).or_insert_with(begun);
        if firing.here_at != here_at {
            *firing = begun();
        }
        // Both hubs compare the same two numbers, which never change: what one has learned of the other does not count.
        let first = |here_at: Option<i64>, hub| (here_at.unwrap_or(i64::MAX), hub);
        let (own, was_ours) = (first(here_at, own), firing.was_ours());
        let mut whose = Whose::Ours;
        for Said { hub, asked, active, has_told, .. } in said {
            match active {
                // Of two that both see it, it is that of the one that did so first; if both did, of the one whose name comes first.
                Some(fired) if first(fired, hub) < own => return Whose::of_other(was_ours, has_told),
                // The other one may have done so first, and has not said it yet.
                _ if asked <= firing.seen + LATER => whose = Whose::Unknown,
                _ => {}
            }
        }
        whose
    }

    /// Whose it is to tell people that an alert is over: of the hub at which it goes on, else of the one that has told them of it, and
    /// of two that have, of the one at which it ended later: it went over to that one. If both ends are of one time, of the one whose
    /// name comes first. `own`: the name of this hub.
    pub fn whose_end<'a>(
        &mut self,
        alert: &Alert,
        own: &str,
        said: impl Iterator<Item = Said<'a>>,
        now: Instant,
    ) -> Whose {
        let key = number(&alert.labels);
        let known = self.all.get(&key);
        let (is_known, was_ours) = (known.is_some(), known.is_none_or(Firing::was_ours));
        if self.ends.len() >= HUB_ALERTS_MAX && !self.ends.contains_key(&key) {
            // Each is decided again.
            self.ends.clear();
        }
        let ending = self.ends.entry(key).or_insert(Ending { seen: now, yields: false });
        let own_end = (alert.ends_at, std::cmp::Reverse(own));
        let mut whose = Whose::Ours;
        for Said { hub, asked, active, is_outdated, over, has_told } in said {
            let is_of_now = asked > ending.seen + LATER;
            let over = over.filter(|at| *at >= alert.starts_at);
            let is_later = (over, std::cmp::Reverse(hub)) > own_end;
            if active.is_some() && is_of_now {
                return Whose::of_other(was_ours, has_told);
            } else if active.is_some() || (is_outdated || !is_known) && !is_of_now {
                // It may be over there, too, or was taken over there, and that hub has not said it yet.
                whose = Whose::Unknown;
            } else if over.is_some() && has_told && (!was_ours || is_later) {
                // It is about to tell them of the end. If it dies, this hub does.
                ending.yields = true;
                whose = Whose::Unknown;
            } else if over.is_some() && !has_told && (!was_ours || ending.yields) {
                return Whose::Done;
            }
        }
        whose
    }

    /// Another hub has told people this. It counts when one of its firings becomes this hub's.
    pub fn hear(&mut self, line: &ToldLine) {
        let firing = self.all.get_mut(&number(&line.labels));
        if let Some(firing) = firing.filter(|firing| firing.is_ours != Some(true)) {
            // Ways have at most as many names as there are ways.
            if firing.told.len() < WAYS_MAX || firing.told.contains_key(&line.way) {
                let ToldLine { starts_at, told_at, perhaps, .. } = *line;
                firing.told.insert(line.way.clone(), Told { starts_at, told_at, perhaps });
            }
        }
    }

    /// This hub tells people of a firing from now on. Returns what they were told by the hub whose it was before. What they were told
    /// of an earlier firing, one that has ended here, does not count.
    pub fn take(&mut self, alert: &Alert) -> Vec<ToldLine> {
        let Some(firing) = self.all.get_mut(&number(&alert.labels)) else { return Vec::new() };
        firing.is_ours = Some(true);
        let line = |(way, Told { told_at, perhaps, .. }): (String, Told)| {
            let (labels, starts_at) = (alert.labels.clone(), alert.starts_at);
            ToldLine { way, labels, starts_at, told_at, perhaps }
        };
        let told = std::mem::take(&mut firing.told).into_iter();
        told.filter(|(_, told)| alert.ended_before.is_none_or(|end| told.starts_at > end)).map(line).collect()
    }

    /// Another hub tells people of a firing from now on.
    pub fn leave(&mut self, alert: &Alert) {
        if let Some(firing) = self.all.get_mut(&number(&alert.labels)) {
            firing.is_ours = Some(false);
        }
    }

    /// An alert is over.
    pub fn end(&mut self, alert: &Alert) {
        let key = number(&alert.labels);
        self.all.remove(&key);
        self.ends.remove(&key);
    }
}

/// A number for labels, as Alertmanager makes it.
fn number(labels: &Labels) -> u64 {
    khz_notify::fingerprint(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(starts_at: i64) -> Alert {
        let labels = [("alertname".to_owned(), "All".to_owned())].into();
        Alert { labels, starts_at, fired_here_at: Some(starts_at), ..Alert::default() }
    }

    /// What hub `b` makes of its firing, when another hub says this, having been asked so many ms after it was seen here.
    fn whose(firings: &mut Firings, starts_at: i64, hub: &str, said: (i64, Option<Option<i64>>)) -> Whose {
        let (seen, (after, active)) = (Instant::now() + Duration::from_secs(100), said);
        let span = Duration::from_millis(after.unsigned_abs());
        let asked = if after < 0 { seen - span } else { seen + span };
        let has_told = active.is_some();
        let said = Said { hub, asked, active, is_outdated: false, over: None, has_told };
        firings.whose(&alert(starts_at), "b", std::iter::once(said), seen)
    }

    #[test]
    fn the_first_one_has_it_and_of_two_the_one_whose_name_comes_first() {
        for (hub, fired, expected) in [
            ("a", 9, Whose::Other),
            ("a", 10, Whose::Other),
            ("a", 11, Whose::Ours),
            ("c", 9, Whose::Other),
            ("c", 10, Whose::Ours),
        ] {
            let whose = whose(&mut Firings::default(), 10, hub, (5_000, Some(Some(fired))));
            assert_eq!(whose, expected, "{hub} {fired}");
        }
        let mut firings = Firings::default();
        assert_eq!(
            firings.whose(&alert(10), "b", std::iter::empty(), Instant::now()),
            Whose::Ours,
            "nobody else"
        );
    }

    #[test]
    fn nobody_decides_before_the_other_hub_has_said_what_it_knows_of_that_moment() {
        for active in [None, Some(None), Some(Some(11))] {
            for (after, expected) in [(-1, Whose::Unknown), (999, Whose::Unknown), (1_500, Whose::Ours)] {
                let whose = whose(&mut Firings::default(), 10, "a", (after, active));
                assert_eq!(whose, expected, "{active:?} {after}");
            }
            assert_eq!(whose(&mut Firings::default(), 10, "a", (-1, Some(Some(9)))), Whose::Other);
        }
    }

    #[test]
    fn what_another_hub_has_told_counts_once_when_its_firing_becomes_this_hub_s() {
        let mut firings = Firings::default();
        let line = |told_at| {
            let (way, labels) = ("mail".to_owned(), alert(0).labels);
            ToldLine { way, labels, starts_at: 9, told_at, perhaps: false }
        };
        firings.hear(&line(1));
        assert!(firings.take(&alert(10)).is_empty(), "it does not fire here");
        whose(&mut firings, 10, "a", (5_000, Some(Some(9))));
        firings.leave(&alert(10));
        firings.hear(&line(2));
        firings.hear(&line(3));
        let lines = firings.take(&alert(10));
        assert_eq!(lines.iter().map(|line| (line.starts_at, line.told_at)).collect::<Vec<_>>(), [(10, 3)]);
        firings.hear(&line(4));
        assert!(firings.take(&alert(10)).is_empty(), "this hub knows better what it has told");
        firings.leave(&alert(10));
        firings.hear(&line(5));
        whose(&mut firings, 20, "a", (5_000, None));
        assert!(firings.take(&alert(20)).is_empty(), "people were not told of another firing");
        firings.end(&alert(20));
        firings.hear(&line(6));
        assert!(firings.take(&alert(20)).is_empty());
    }
}
