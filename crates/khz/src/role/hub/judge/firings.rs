//! Alerts that are of no node, where several hubs evaluate the same rules: the hub where an alert fired first tells people and acts.
//! Before a hub decides, it waits for what the others know of the same moment. It asks nobody, and gets the time as an argument.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use khz_notify::{Alert, Labels, ToldLine};
use khz_rules::SavedOwn;
use khz_rules::limits::HUB_ALERTS_MAX;

/// Another hub that evaluates a rule at the same time may be done with it so much later.
const LATER: Duration = Duration::from_secs(1);

/// What another hub that is there has said of an alert.
#[derive(Clone, Debug)]
pub(super) struct Said<'a> {
    /// Its name, and its identity, which is another one after each start.
    pub hub: &'a str,
    pub identity: &'a str,
    /// When it was asked for that.
    pub asked: Instant,
    /// The alert is active there; with it, since when it fires by what that hub has judged itself (ms since 1970).
    pub active: Option<Option<i64>>,
    /// It was active there before that hub was started again, and has ended here since; how it is there now is not known.
    pub is_outdated: bool,
    /// It is over there, and when it ended (ms since 1970).
    pub over: Option<i64>,
    /// It is over only there, since its nodes have gone: that is no end of which that hub tells people.
    pub went_on: bool,
    /// What people know from that hub: that it fires.
    pub told: Vec<&'a ToldLine>,
    /// That hub tells people of it and acts on it. `None`: an older khz does not say.
    pub owns: Option<bool>,
}

impl Said<'_> {
    fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// It is that hub's now: people know of it from there, or will.
    fn has_taken(&self) -> bool {
        self.has_told() || self.owns == Some(true)
    }

    /// It is active there, and was so before this time: since before that hub was started, perhaps.
    pub fn was_there(&self, at: i64) -> bool {
        self.active.is_some_and(|fired| fired.is_none_or(|fired| fired <= at))
    }

    /// It is over there, and that hub tells people so, or nobody.
    fn is_ending(&self) -> bool {
        self.owns == Some(false) && self.active.is_none() && !self.is_outdated
    }
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
    /// It is another hub's. `has_taken`: that hub says so, too.
    fn of_other(was_ours: bool, has_taken: bool) -> Self {
        if was_ours && !has_taken { Whose::GoesOver } else { Whose::Other }
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
    /// The hub whose it was last, as far as that is known.
    elsewhere: Option<Elsewhere>,
}

/// The hub whose a firing is, as it says.
#[derive(Debug)]
struct Elsewhere {
    identity: String,
    /// What people know from there.
    told: Vec<ToldLine>,
}

impl Firing {
    /// Notes whose it is elsewhere. A hub that was started again, and does not know it any more, has not told people of its end: it may
    /// have left that to this one. Nor has one whose nodes have gone.
    fn listen(&mut self, said: &[Said<'_>]) {
        if self.is_ours == Some(true) {
            return;
        }
        for one in said {
            if one.has_taken() && !one.is_ending() {
                let told = one.told.iter().copied().cloned().collect();
                self.elsewhere = Some(Elsewhere { identity: one.identity.to_owned(), told });
            } else if one.over.is_some()
                && !one.went_on
                && self.elsewhere.as_ref().is_some_and(|known| known.identity == one.identity)
            {
                self.elsewhere = None;
            }
        }
    }
}

/// The firings of this hub, by the numbers of their labels.
#[derive(Debug, Default)]
pub(super) struct Firings {
    all: HashMap<u64, Firing>,
    /// Those that are over. This process may not have seen them fire.
    ends: HashMap<u64, Ending>,
    /// Those that are this hub's, by their numbers: those of before it was started, too, until it has evaluated them.
    own: HashMap<u64, SavedOwn>,
    /// How often these were others.
    revision: u64,
}

/// The end of a firing. It is kept when it was decided whose it is, since the judge mentions it for a quarter of an hour: what was asked
/// for at the first time need not be asked for again.
#[derive(Debug)]
struct Ending {
    /// When it ended (ms since 1970).
    ended: Option<i64>,
    seen: Instant,
    /// Another hub is about to tell people of it.
    yields: bool,
    /// What people know of it from another hub, if this process has not seen it fire.
    elsewhere: Option<Elsewhere>,
}

impl Ending {
    /// Notes what people know from other hubs. One that was started again forgets what has ended here, also if it was its own, and
    /// leaves it to this hub to tell people; one that has told them of the end says that it is over.
    fn listen(&mut self, said: &[Said<'_>]) {
        for one in said {
            if one.has_told() && !one.is_ending() && (one.is_outdated || one.owns != Some(true)) {
                let told = one.told.iter().copied().cloned().collect();
                self.elsewhere = Some(Elsewhere { identity: one.identity.to_owned(), told });
            } else if one.over.is_some()
                && self.elsewhere.as_ref().is_some_and(|known| known.identity == one.identity)
            {
                self.elsewhere = None;
            }
        }
    }
}

impl Firings {
    /// Before this process began, or stood still, these were this hub's.
    pub fn restore(own: &[SavedOwn]) -> Self {
        let own = own.iter().take(HUB_ALERTS_MAX).map(|one| (number(&one.labels), one.clone())).collect();
        Firings { own, ..Firings::default() }
    }

    /// Whose a firing alert is, by what other hubs that are there say: of the one that has taken it, else of the one at which it fired
    /// first. `own`: the name of this hub.
    pub fn whose(&mut self, alert: &Alert, own: &str, said: &[Said<'_>], now: Instant) -> Whose {
        let key = number(&alert.labels);
        if self.all.len() >= HUB_ALERTS_MAX && !self.all.contains_key(&key) {
            // Most are over. The others are decided again, which tells nobody twice.
            self.all.clear();
        }
        self.ends.remove(&key);
        let here_at = alert.fired_here_at;
        let begun = |is_ours| Firing { here_at, seen: now, is_ours, elsewhere: None };
        let is_own = self.own.contains_key(&key).then_some(true);
        let firing = self.all.entry(key).or_insert_with(|| begun(is_own));
        if firing.here_at != here_at {
            *firing = begun(None);
            self.disown(&alert.labels);
        }
        let Some(firing) = self.all.get_mut(&key) else { return Whose::Unknown };
        firing.listen(said);
        // Both hubs compare the same two numbers, which never change: what one has learned of the other does not count.
        let first = |here_at: Option<i64>, hub| (here_at.unwrap_or(i64::MAX), hub);
        let (own, is_ours) = (first(here_at, own), firing.is_ours == Some(true));
        let was_ours = firing.is_ours.unwrap_or(!said.iter().any(Said::has_told));
        let mut whose = Whose::Ours;
        for one in said {
            let is_first = one.active.is_some_and(|fired| first(fired, one.hub) < own);
            match (one.active, one.owns) {
                // Two that have both taken it did not hear of each other then.
                (Some(_), Some(true)) if is_first || !is_ours => {
                    return Whose::of_other(was_ours, true);
                }
                (Some(_), None) if is_first => return Whose::of_other(was_ours, one.has_told()),
                // It was started again, and has not evaluated since.
                (Some(_), Some(false)) if is_first && !is_ours && one.has_told() => return Whose::Other,
                // It is about to take it; or it never will, since it is over there before.
                (Some(_), Some(false)) if is_first && !is_ours => whose = Whose::Unknown,
                // The other one may have been first, and has not said it yet.
                _ if one.asked <= firing.seen + LATER => whose = Whose::Unknown,
                _ => {}
            }
        }
        whose
    }

    /// Whose it is to tell people that an alert is over: of the hub at which it goes on, else of the one that has told them of it, and
    /// of two that have, of the one at which it ended later: it went over to that one. If both ends are of one time, of the one whose
    /// name comes first. `own`: the name of this hub.
    pub fn whose_end(&mut self, alert: &Alert, own: &str, said: &[Said<'_>], now: Instant) -> Whose {
        let key = number(&alert.labels);
        let known = self.all.get_mut(&key);
        let is_known = known.is_some();
        let was_ours = known.is_none_or(|firing| {
            firing.listen(said);
            firing.is_ours.unwrap_or_else(|| !said.iter().any(Said::has_told))
        });
        if self.ends.len() >= HUB_ALERTS_MAX && !self.ends.contains_key(&key) {
            // Each is decided again.
            self.ends.clear();
        }
        let (ended, yields, elsewhere) = (alert.ends_at, false, None);
        let new = Ending { ended, seen: now, yields, elsewhere };
        let ending = match self.ends.entry(key) {
            Entry::Occupied(known) if known.get().ended == ended => known.into_mut(),
            Entry::Occupied(mut other) => {
                other.insert(new);
                other.into_mut()
            }
            Entry::Vacant(none) => none.insert(new),
        };
        if !is_known {
            ending.listen(said);
        }
        let own_end = (alert.ends_at, std::cmp::Reverse(own));
        let mut whose = Whose::Ours;
        for one in said {
            let is_of_now = one.asked > ending.seen + LATER;
            let over = one.over.filter(|at| *at >= alert.starts_at);
            let is_later = (over, std::cmp::Reverse(one.hub)) > own_end;
            if one.active.is_some() && is_of_now {
                return Whose::of_other(was_ours, one.has_taken());
            } else if one.is_outdated && one.owns == Some(true) && !(is_known && was_ours) {
                // It is that hub's, which was started again. It tells people when it has evaluated, or forgets it.
                whose = Whose::Unknown;
            } else if one.active.is_some() || !is_of_now {
                // It may be over there, too, or begin there at this moment, or was taken over there, and that hub has not said it yet.
                whose = Whose::Unknown;
            } else if over.is_some() && one.has_told() && (!was_ours || is_later) {
                // It is about to tell them of the end. If it dies, this hub does.
                ending.yields = true;
                whose = Whose::Unknown;
            } else if over.is_some() && !one.has_told() && (!was_ours || ending.yields) {
                return Whose::Done;
            }
        }
        whose
    }

    /// This hub tells people of a firing from now on. If it was another hub's before, returns what people were told by that one. What
    /// they were told of an earlier firing, one that has ended here, does not count.
    /// `wall`: ms since 1970.
    pub fn take(&mut self, alert: &Alert, wall: i64) -> Option<Vec<ToldLine>> {
        let key = number(&alert.labels);
        let Some(firing) = self.all.get_mut(&key) else {
            return self.ends.get_mut(&key)?.elsewhere.take().map(|known| known.told);
        };
        firing.is_ours = Some(true);
        let revision = &mut self.revision;
        self.own.entry(key).or_insert_with(|| {
            *revision += 1;
            SavedOwn { labels: alert.labels.clone(), since: wall }
        });
        let before = firing.elsewhere.take()?;
        let of_now = |line: &ToldLine| alert.ended_before.is_none_or(|end| line.starts_at > end);
        let known = before.told.into_iter().filter(of_now);
        Some(known.map(|line| ToldLine { starts_at: alert.starts_at, ..line }).collect())
    }

    /// Another hub tells people of a firing from now on.
    pub fn leave(&mut self, alert: &Alert) {
        if let Some(firing) = self.all.get_mut(&number(&alert.labels)) {
            firing.is_ours = Some(false);
        }
        self.disown(&alert.labels);
    }

    fn disown(&mut self, labels: &Labels) {
        self.revision += u64::from(self.own.remove(&number(labels)).is_some());
    }

    /// Another hub has taken these over: what was known of them does not count.
    pub fn forget<'a>(&mut self, all: impl Iterator<Item = &'a Labels>) {
        for labels in all {
            self.all.remove(&number(labels));
            self.disown(labels);
        }
    }

    /// An alert is over, and it was decided whose that is.
    pub fn end(&mut self, alert: &Alert) {
        self.all.remove(&number(&alert.labels));
        self.disown(&alert.labels);
    }

    /// Those that are this hub's.
    pub fn own(&self) -> impl Iterator<Item = &SavedOwn> {
        self.own.values()
    }

    /// Since when this hub tells people of the firing with these labels (ms since 1970); `None`: it does not.
    pub fn own_since(&self, labels: &Labels) -> Option<i64> {
        self.own.get(&number(labels)).map(|own| own.since)
    }

    /// It is another number when [`Firings::own`] says something else.
    pub fn revision(&self) -> u64 {
        self.revision
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

    fn nothing_said(asked: Instant) -> Said<'static> {
        let (active, over, owns, is_outdated, told) = (None, None, None, false, Vec::new());
        Said { hub: "", identity: "1", asked, active, is_outdated, over, went_on: false, told, owns }
    }

    /// What hub `b` makes of its firing, when another hub says this, having been asked so many ms after it was seen here.
    fn whose(firings: &mut Firings, starts_at: i64, hub: &str, said: (i64, Option<Option<i64>>)) -> Whose {
        let (seen, (after, active)) = (Instant::now() + Duration::from_secs(100), said);
        let span = Duration::from_millis(after.unsigned_abs());
        let asked = if after < 0 { seen - span } else { seen + span };
        let line = ToldLine {
            told_at: 1,
            starts_at: 1,
            perhaps: false,
            refused: false,
            way: "mail".to_owned(),
            labels: alert(0).labels,
        };
        let told = active.map(|_| &line).into_iter().collect();
        let said = Said { hub, asked, active, told, ..nothing_said(seen) };
        firings.whose(&alert(starts_at), "b", &[said], seen)
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
        assert_eq!(firings.whose(&alert(10), "b", &[], Instant::now()), Whose::Ours, "nobody else");
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
    fn an_end_that_is_mentioned_again_need_not_wait_again_for_the_other_hub() {
        let (mut firings, begin) = (Firings::default(), Instant::now() + Duration::from_secs(100));
        let over = |ends_at| Alert { ends_at: Some(ends_at), ..alert(10) };
        let mut whose = |alert: &Alert, now: u64, asked: u64| {
            let (now, asked) = (begin + Duration::from_secs(now), begin + Duration::from_secs(asked));
            let whose = firings.whose_end(alert, "b", &[nothing_said(asked)], now);
            if whose == Whose::Ours {
                firings.end(alert);
            }
            whose
        };
        assert_eq!(whose(&over(20), 0, 0), Whose::Unknown);
        assert_eq!(whose(&over(20), 3, 2), Whose::Ours);
        for second in (5..900).step_by(5) {
            assert_eq!(whose(&over(20), second, second - 1), Whose::Ours);
        }
        // It fired and ended again between two evaluations: that is another end.
        assert_eq!(whose(&over(21), 900, 899), Whose::Unknown);
        assert_eq!(whose(&over(21), 903, 902), Whose::Ours);
    }

    #[test]
    fn a_hub_that_has_taken_a_firing_keeps_it_and_one_that_was_first_is_waited_for() {
        let seen = Instant::now() + Duration::from_secs(100);
        let line = ToldLine {
            way: "mail".to_owned(),
            labels: alert(0).labels,
            starts_at: 9,
            told_at: 3,
            perhaps: false,
            refused: false,
        };
        let whose = |firings: &mut Firings, hub: &str, fired: Option<i64>, owns: bool| {
            let asked = seen + Duration::from_secs(5);
            let (active, told) = (fired.map(Some), if owns { vec![&line] } else { Vec::new() });
            let over = fired.is_none().then_some(12);
            let said = Said { hub, asked, active, over, owns: Some(owns), told, ..nothing_said(seen) };
            firings.whose(&alert(10), "b", &[said], seen)
        };
        let mut firings = Firings::default();
        assert_eq!(whose(&mut firings, "a", Some(9), false), Whose::Unknown, "it is about to take it");
        assert_eq!(whose(&mut firings, "a", None, false), Whose::Ours, "it was over there before");
        assert_eq!(firings.take(&alert(10), 12), None);
        assert_eq!(firings.own().count(), 1);
        assert_eq!(whose(&mut firings, "a", Some(9), false), Whose::Ours, "this one has taken it");
        assert_eq!(whose(&mut firings, "a", Some(9), true), Whose::Other, "both have");
        assert_eq!(whose(&mut firings, "a", Some(11), true), Whose::Ours);
        assert_eq!(whose(&mut Firings::default(), "a", Some(11), true), Whose::Other);
        firings.end(&alert(10));
        assert_eq!((firings.own().count(), firings.revision()), (0, 2));
        // What people know from there counts once, while that hub has not ended it.
        let taken = |firings: &mut Firings| firings.take(&alert(10), 12).map(|lines| lines.len());
        assert_eq!(whose(&mut firings, "a", Some(9), true), Whose::Other);
        firings.leave(&alert(10));
        assert_eq!((taken(&mut firings), taken(&mut firings)), (Some(1), None));
        let mut firings = Firings::default();
        whose(&mut firings, "a", Some(9), true);
        assert_eq!(whose(&mut firings, "a", None, false), Whose::Ours);
        assert_eq!(taken(&mut firings), None, "it tells them that it is over");
        let mut firings = Firings::default();
        whose(&mut firings, "a", Some(9), true);
        let ended = Alert { ended_before: Some(9), ..alert(10) };
        assert_eq!(firings.take(&ended, 12), Some(Vec::new()), "people were told of another firing");
    }
}
