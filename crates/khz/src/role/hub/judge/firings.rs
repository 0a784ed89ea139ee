//! Alerts of no node, where several hubs evaluate the same rules. The hub where an alert fired first sends messages and acts.
//! Before a hub decides, it waits until it knows the others' results for the same moment. It asks nobody, and gets the time as an
//! argument.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use khz_notify::{Alert, Labels, ToldLine};
use khz_rules::SavedOwn;
use khz_rules::limits::HUB_ALERTS_MAX;

/// Another hub that evaluates a rule at the same time may finish this much later.
const LATER: Duration = Duration::from_secs(1);

/// What another hub, which is present, says of an alert.
#[derive(Clone, Debug)]
pub(super) struct Said<'a> {
    /// The name of that hub, and its identity, which changes with each start.
    pub hub: &'a str,
    pub identity: &'a str,
    /// When that hub was asked for this word.
    pub asked: Instant,
    /// The alert is active there. The inner value: since when it fires according to that hub's own evaluations (ms since 1970).
    pub active: Option<Option<i64>>,
    /// The alert was active there before that hub was restarted, and has ended here since. Its current state there is unknown.
    pub is_outdated: bool,
    /// The alert is over there, and when it ended (ms since 1970).
    pub over: Option<i64>,
    /// The alert ended there only because its nodes went away. That hub sends no message about this end.
    pub went_on: bool,
    /// That hub's messages to people which say that the alert fires.
    pub told: Vec<&'a ToldLine>,
    /// That hub owns the alert: it sends messages and acts. `None`: an older khz does not say.
    pub owns: Option<bool>,
}

impl Said<'_> {
    fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// That hub owns the alert now: people have heard of it from there, or will.
    fn has_taken(&self) -> bool {
        self.has_told() || self.owns == Some(true)
    }

    /// The alert is active there since before this time, or perhaps since before that hub was started.
    pub fn was_there(&self, at: i64) -> bool {
        self.active.is_some_and(|fired| fired.is_none_or(|fired| fired <= at))
    }

    /// The alert is over there, and no hub but that one sends a message about it.
    fn is_ending(&self) -> bool {
        self.owns == Some(false) && self.active.is_none() && !self.is_outdated
    }
}

/// Whose a firing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// This hub owns it: it sends messages and acts.
    Ours,
    /// Another hub's.
    Other,
    /// Another hub owns the alert, but has not taken it yet. Until then, this hub's record of messages stays.
    GoesOver,
    /// Another hub has sent the message about the end.
    Done,
    /// Nobody knows so far.
    Unknown,
}

impl Whose {
    /// Another hub owns it. `has_taken`: that hub says so, too.
    fn of_other(was_ours: bool, has_taken: bool) -> Self {
        if was_ours && !has_taken { Whose::GoesOver } else { Whose::Other }
    }
}

/// A firing, as this hub knows it.
#[derive(Debug)]
struct Firing {
    /// Since when it fires here. If another hub has seen it fire for longer, it is still the same firing.
    here_at: Option<i64>,
    seen: Instant,
    /// Whether this hub owns the firing; `None`: this was not decided so far.
    is_ours: Option<bool>,
    /// The hub that owned the firing last, as far as known.
    elsewhere: Option<Elsewhere>,
}

/// The hub that owns a firing, by its own word.
#[derive(Debug)]
struct Elsewhere {
    identity: String,
    /// The messages that people got from that hub.
    told: Vec<ToldLine>,
}

impl Firing {
    /// Notes which other hub owns the firing. A restarted hub that does not know the firing any more has sent no message about its
    /// end: it may leave that to this hub. The same holds for a hub whose nodes have gone.
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

/// The firings of this hub, by the hashes of their labels.
#[derive(Debug, Default)]
pub(super) struct Firings {
    all: HashMap<u64, Firing>,
    /// Firings that are over. This process may not have seen them fire.
    ends: HashMap<u64, Ending>,
    /// The firings that this hub owns, by their hashes. Those from before a restart stay until this hub has evaluated them.
    own: HashMap<u64, SavedOwn>,
    /// Grows with each change of `own`.
    revision: u64,
}

/// The end of a firing. It is kept once an owner was decided. The judge lists it for a quarter of an hour, so later passes need not
/// ask the other hubs again.
#[derive(Debug)]
struct Ending {
    /// When it ended (ms since 1970).
    ended: Option<i64>,
    seen: Instant,
    /// Another hub is about to send the message about the end.
    yields: bool,
    /// Another hub's messages about the alert, if this process has not seen it fire.
    elsewhere: Option<Elsewhere>,
}

impl Ending {
    /// Notes the messages of other hubs. A restarted hub forgets an alert that has ended here, even its own, and leaves the message
    /// to this hub. A hub that has sent the message says that the alert is over.
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
    /// Begins with the firings that this hub owned before this process began, or before it stood still.
    pub fn restore(own: &[SavedOwn]) -> Self {
        let own = own.iter().take(HUB_ALERTS_MAX).map(|one| (number(&one.labels), one.clone())).collect();
        Firings { own, ..Firings::default() }
    }

    /// Decides who owns a firing alert: the hub that has taken it, else the hub where it fired first. `said`: the words of the hubs
    /// that are present. `own`: the name of this hub.
    pub fn whose(&mut self, alert: &Alert, own: &str, said: &[Said<'_>], now: Instant) -> Whose {
        let key = number(&alert.labels);
        if self.all.len() >= HUB_ALERTS_MAX && !self.all.contains_key(&key) {
            // Most are over. The others are decided again, which causes no second message.
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
        // Both hubs compare the same two numbers, which never change. Times learned from another hub do not count.
        let first = |here_at: Option<i64>, hub| (here_at.unwrap_or(i64::MAX), hub);
        let (own, is_ours) = (first(here_at, own), firing.is_ours == Some(true));
        let was_ours = firing.is_ours.unwrap_or(!said.iter().any(Said::has_told));
        let mut whose = Whose::Ours;
        for one in said {
            let is_first = one.active.is_some_and(|fired| first(fired, one.hub) < own);
            match (one.active, one.owns) {
                // If both hubs have taken the firing, they did not hear of each other at that time.
                (Some(_), Some(true)) if is_first || !is_ours => {
                    return Whose::of_other(was_ours, true);
                }
                (Some(_), None) if is_first => return Whose::of_other(was_ours, one.has_told()),
                // The other hub was restarted, and has not evaluated since.
                (Some(_), Some(false)) if is_first && !is_ours && one.has_told() => return Whose::Other,
                // The other hub is about to take the firing; or it never will, since the alert is over there before.
                (Some(_), Some(false)) if is_first && !is_ours => whose = Whose::Unknown,
                // The other hub may have been first, and has not said so yet.
                _ if one.asked <= firing.seen + LATER => whose = Whose::Unknown,
                _ => {}
            }
        }
        whose
    }

    /// Decides who sends the message about an end: the hub where the alert goes on, else the hub that has told people of the alert.
    /// If two hubs have told people, the one with the later end sends it, since the alert went over to that hub. If both ends have
    /// the same time, the hub whose name comes first sends it. `own`: the name of this hub.
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
                // A restarted hub owns the firing. That hub sends the message after its evaluation, or forgets the firing.
                whose = Whose::Unknown;
            } else if one.active.is_some() || !is_of_now {
                // The alert may have ended, begun or moved there at this moment, and that hub has not said so yet.
                whose = Whose::Unknown;
            } else if over.is_some() && one.has_told() && (!was_ours || is_later) {
                // The other hub is about to send the message about the end. If it dies, this hub sends it.
                ending.yields = true;
                whose = Whose::Unknown;
            } else if over.is_some() && !one.has_told() && (!was_ours || ending.yields) {
                return Whose::Done;
            }
        }
        whose
    }

    /// This hub owns a firing from now on. If another hub owned it before, returns that hub's messages to people. Messages about an
    /// earlier firing, which has ended here, do not count. `wall`: ms since 1970.
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

    /// Another hub owns a firing from now on.
    pub fn leave(&mut self, alert: &Alert) {
        if let Some(firing) = self.all.get_mut(&number(&alert.labels)) {
            firing.is_ours = Some(false);
        }
        self.disown(&alert.labels);
    }

    fn disown(&mut self, labels: &Labels) {
        self.revision += u64::from(self.own.remove(&number(labels)).is_some());
    }

    /// Another hub has taken over these firings: this hub forgets what it knew.
    pub fn forget<'a>(&mut self, all: impl Iterator<Item = &'a Labels>) {
        for labels in all {
            self.all.remove(&number(labels));
            self.disown(labels);
        }
    }

    /// An alert is over, and its owner is decided.
    pub fn end(&mut self, alert: &Alert) {
        self.all.remove(&number(&alert.labels));
        self.disown(&alert.labels);
    }

    /// The clock by which rules are judged was set by this many ms. Firing alerts keep their times.
    pub fn clock_set(&mut self, by: i64) {
        self.own.values_mut().for_each(|own| own.since = own.since.saturating_add(by));
        self.revision += 1;
    }

    /// The firings that this hub owns.
    pub fn own(&self) -> impl Iterator<Item = &SavedOwn> {
        self.own.values()
    }

    /// Since when this hub owns the firing with these labels (ms since 1970); `None`: it does not.
    pub fn own_since(&self, labels: &Labels) -> Option<i64> {
        self.own.get(&number(labels)).map(|own| own.since)
    }

    /// When this process first saw that an alert of no node fires, or that it is over.
    pub fn seen(&self, alert: &Alert) -> Option<Instant> {
        let key = number(&alert.labels);
        match alert.is_firing() {
            true => self.all.get(&key).map(|firing| firing.seen),
            false => self.ends.get(&key).map(|ending| ending.seen),
        }
    }

    /// This number changes when the result of [`Firings::own`] changes.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// Alertmanager's hash of these labels.
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
