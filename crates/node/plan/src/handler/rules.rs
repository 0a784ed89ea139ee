//! Rules that a node evaluates: a plan for each rule, and which of its results are present. It decides when a row must be sent: when a
//! result comes or goes, and when a result has been present or absent for the time that its rule waits. The hub makes the alerts. A
//! result becomes a series of the row when it appears for the first time. Nothing is allocated for a row without such a result.

use std::collections::HashMap;

use khz_model::{Nanos, Series, Stamp};

use super::result::{Judged, ResultSeries};
use super::truth::passed;
use crate::bind::Identity;
use crate::bound::Bound;
use crate::error::{PlanError, most};
use crate::labels::LabelSet;
use crate::limits::{DURATION_MAX, RULES_MAX, RULES_SILENCE};
use crate::number::{ABSENT, is_absent};
use crate::plan::{Plan, Step};

/// A result of a rule as a series of the row, with its labels.
const BYTES_A_RESULT: usize = 64;

const MS: i64 = 1_000_000;

/// A rule that a node evaluates. The hub makes alerts from its results.
#[derive(Clone, Debug, PartialEq)]
pub struct RulePlan {
    /// What is judged.
    pub plan: Plan,
    /// For how long a result must be there before its alert fires.
    pub holds: Nanos,
    /// How long an alert continues firing after its result has gone.
    pub keeps: Nanos,
}

impl RulePlan {
    /// How far its longest window reaches back.
    fn reach(&self) -> Nanos {
        let window = |step: &Step| if let Step::Window { length, .. } = step { *length } else { Nanos(0) };
        self.plan.steps().iter().map(window).max().unwrap_or_default()
    }
}

/// Returns what every node would refuse.
pub(super) fn check(rules: &[RulePlan]) -> Result<(), PlanError> {
    most("rules", rules.len(), RULES_MAX)?;
    let is_too_long = |rule: &RulePlan| rule.holds > DURATION_MAX || rule.keeps > DURATION_MAX;
    match rules.iter().any(is_too_long) {
        true => Err(PlanError::Handler { problem: "has a rule that waits for longer than a day" }),
        false => Ok(()),
    }
}

/// Rules that are bound to the slots of a lane.
#[derive(Debug)]
pub(super) struct BoundRules {
    each: Box<[Rule]>,
    /// The series of the row, in the order in which they were first there: a rule, and the place of its result.
    used: Vec<(u16, u32)>,
    /// How far the longest window reaches back.
    reach: Nanos,
    /// A present result has lost its series: the next row must show that.
    has_lost: bool,
    /// When the first row came, and when one was sent last.
    begun: Option<Nanos>,
    sent: Option<Nanos>,
    /// Windows are as long as the hub's.
    is_ready: bool,
    /// Somebody has begun to read since the last row.
    has_new_reader: bool,
}

#[derive(Debug)]
struct Rule {
    bound: Bound,
    holds: i64,
    keeps: i64,
    /// For each result: which of the states is its own. Results that differ in their metrics' names only are one alert.
    of: Box<[u32]>,
    /// For each result: whether it is a series of the row, because it was there at some time.
    is_used: Box<[bool]>,
    states: Box<[State]>,
}

/// What makes an alert. Times are ms since 1970, as the hub has them.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_there: bool,
    /// One of its results is in this row.
    is_found: bool,
    /// Since when it has been there, or away.
    since: i64,
    /// The time for which its rule waits has not passed yet.
    waits: bool,
}

impl BoundRules {
    /// Binds rules to the series of a lane.
    ///
    /// # Errors
    /// Returns which limit a plan exceeds on this node.
    pub fn new(
        rules: &[RulePlan],
        series: &[Series],
        identity: Identity<'_>,
        period: Nanos,
    ) -> Result<Self, PlanError> {
        let rule = |rule: &RulePlan| {
            let bound = Bound::new(&rule.plan, series, identity, period)?;
            let of = alerts_of(&bound);
            let states = vec![State::default(); of.iter().max().map_or(0, |most| *most as usize + 1)].into();
            let is_used = vec![false; bound.width()].into();
            let ms = |time: Nanos| time.0.cast_signed() / MS;
            Ok(Rule { states, of, is_used, bound, holds: ms(rule.holds), keeps: ms(rule.keeps) })
        };
        Ok(BoundRules {
            each: rules.iter().map(rule).collect::<Result<_, PlanError>>()?,
            used: Vec::new(),
            reach: rules.iter().map(RulePlan::reach).max().unwrap_or_default(),
            has_lost: false,
            begun: None,
            sent: None,
            is_ready: false,
            has_new_reader: false,
        })
    }

    /// A reader begins that may not know the earlier rows, such as a restarted hub. The next row is sent. From it on, results wait
    /// again, present or absent, since the reader counts from there.
    pub fn read_again(&mut self) {
        self.has_new_reader = true;
    }

    /// Continues earlier rules: the same rules were bound to the same lane before its slots
    /// changed.
    pub fn take_over(&mut self, before: BoundRules, slot: impl Fn(u32) -> Option<u32>) {
        (self.begun, self.sent, self.is_ready) = (before.begun, before.sent, before.is_ready);
        self.has_new_reader |= before.has_new_reader;
        self.has_lost = before.has_lost;
        let mut places: Vec<Vec<(usize, usize)>> = Vec::with_capacity(self.each.len());
        for (new, old) in self.each.iter_mut().zip(before.each) {
            let same = super::bound::places(&new.bound, &old.bound);
            let mut is_known = vec![false; old.states.len()];
            for &(place, from) in &same {
                let from_state = old.of[from] as usize;
                new.states[new.of[place] as usize] = old.states[from_state];
                new.is_used[place] = old.is_used[from];
                is_known[from_state] = true;
            }
            self.has_lost |=
                old.states.iter().zip(is_known).any(|(state, is_known)| state.is_there && !is_known);
            new.bound.take_over(old.bound, &slot);
            places.push(same);
        }
        // Series that still exist keep their order, so that slots keep their meanings.
        let place = |&(rule, at): &(u16, u32)| {
            let same = places.get(usize::from(rule))?.iter().find(|&&(_, from)| from == at as usize)?;
            Some((rule, same.0 as u32))
        };
        self.used = before.used.iter().filter_map(place).collect();
    }

    /// The bytes that it may come to hold, about.
    pub fn held(&self) -> usize {
        let results = |rule: &Rule| rule.is_used.len() * (size_of::<State>() + BYTES_A_RESULT);
        self.each.iter().map(|rule| size_of::<Rule>() + rule.bound.held() + results(rule)).sum()
    }

    /// The series of the row from this one on, without the first one, which says whether the node is ready.
    pub fn results_from(&self, first: usize) -> impl Iterator<Item = ResultSeries> {
        self.used.iter().skip(first.saturating_sub(1)).filter_map(|&(rule, at)| {
            let bound = &self.each.get(usize::from(rule))?.bound;
            let labels = bound.labels().get(at as usize).cloned().unwrap_or_default();
            Some(ResultSeries::judged(Judged::Rule(rule), labels))
        })
    }

    /// The labels of all results that there may be.
    pub fn labels(&self) -> impl Iterator<Item = &LabelSet> {
        self.each.iter().flat_map(|rule| rule.bound.labels())
    }

    /// Takes the next row. Returns whether it is to be sent; `every`: how often one is sent while there are results.
    pub fn row(
        &mut self,
        stamp: Stamp,
        half_period: Nanos,
        every: Nanos,
        reading: impl Fn(u32) -> Option<u64>,
    ) -> bool {
        let now = stamp.boot;
        let mut is_news = self.execute(stamp.real().0.cast_signed(), reading);
        let begun = *self.begun.get_or_insert(now);
        // At first, windows here lack samples that the hub's windows have.
        if !self.is_ready && now.since(begun).0.saturating_add(half_period.0) >= self.reach.0 {
            (self.is_ready, is_news) = (true, true);
        }
        let pause = if self.are_busy() { every } else { every.max(RULES_SILENCE) };
        let is_due = self.sent.is_none_or(|sent| passed(sent, now, half_period) >= pause);
        let is_sent = is_news || is_due;
        self.sent = if is_sent { Some(now) } else { self.sent };
        is_sent
    }

    /// Judges all rules at a time (ns since 1970). Returns whether the hub must hear of it at once.
    fn execute(&mut self, time: i64, reading: impl Fn(u32) -> Option<u64>) -> bool {
        let now = time.div_euclid(MS);
        let begins = std::mem::take(&mut self.has_new_reader);
        let mut is_news = std::mem::take(&mut self.has_lost) | begins;
        for (number, rule) in (0..).zip(self.each.iter_mut()) {
            let Rule { bound, holds, keeps, of, is_used, states } = rule;
            for (at, &value) in bound.row(time, &reading).iter().enumerate() {
                if !is_absent(value) {
                    states[of[at] as usize].is_found = true;
                    if !std::mem::replace(&mut is_used[at], true) {
                        self.used.push((number, at as u32));
                    }
                }
            }
            for state in states {
                is_news |= state.take(now, *holds, *keeps);
                if begins {
                    state.wait(now, *holds, *keeps);
                }
            }
        }
        is_news
    }

    /// True if a result is present, or went so recently that its rule still waits.
    fn are_busy(&self) -> bool {
        let state = |&(rule, at): &(u16, u32)| {
            let rule = &self.each[usize::from(rule)];
            rule.states[rule.of[at as usize] as usize]
        };
        self.used.iter().map(state).any(|state| state.is_there || state.waits)
    }

    /// The values of the row.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        let ready = if self.is_ready { 1.0 } else { ABSENT };
        let value = |&(rule, at): &(u16, u32)| self.each[usize::from(rule)].bound.value(at as usize);
        std::iter::once(ready).chain(self.used.iter().map(value))
    }
}

/// For each result of a plan: the number of the alert that it makes.
fn alerts_of(bound: &Bound) -> Box<[u32]> {
    if bound.is_number() {
        return vec![0; bound.width()].into();
    }
    let mut known: HashMap<LabelSet, u32> = HashMap::new();
    let number = |labels: &LabelSet| {
        let next = known.len() as u32;
        *known.entry(labels.unnamed()).or_insert(next)
    };
    bound.labels().iter().map(number).collect()
}

impl State {
    /// Returns whether it has come or gone, or has been so for as long as its rule waits.
    #[inline]
    fn take(&mut self, now: i64, holds: i64, keeps: i64) -> bool {
        let is_there = std::mem::take(&mut self.is_found);
        if is_there != self.is_there {
            self.is_there = is_there;
            self.wait(now, holds, keeps);
            return true;
        }
        let wait = if is_there { holds } else { keeps };
        let has_passed = self.waits && now - self.since >= wait;
        self.waits &= !has_passed;
        has_passed
    }

    /// From now on it waits for as long as its rule says.
    fn wait(&mut self, now: i64, holds: i64, keeps: i64) {
        let wait = if self.is_there { holds } else { keeps };
        (self.since, self.waits) = (now, wait > 0);
    }
}
