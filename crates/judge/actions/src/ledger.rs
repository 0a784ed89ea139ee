//! The past runs of actions: what people see, and what limits the next runs. State without I/O; time is an argument.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::limits::RUNS_MAX;
use crate::record::{About, Event, Line, Outcome, Run};
use crate::settings::Action;

/// An hour, in ms.
const HOUR: i64 = 3_600_000;
/// The longest cooldown: older runs hold nothing back.
const REMEMBERED: i64 = 86_400_000;

/// The runs.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    runs: VecDeque<Run>,
    /// When runs began within the last hour, by action.
    hour: HashMap<String, VecDeque<i64>>,
    /// When an action last acted on a node.
    last: HashMap<(String, String), i64>,
    next: u64,
}

impl Ledger {
    /// Takes a line of the log, from an earlier process or from now.
    pub fn take(&mut self, line: &Line) {
        self.next = self.next.max(line.run);
        match &line.event {
            Event::Begin { attempt, about } => {
                if *attempt == 1 {
                    self.began(about, line.at);
                }
                if let Some(run) = self.run_mut(line.run) {
                    (run.began, run.attempts) = (line.at, *attempt);
                    (run.ended, run.outcome, run.again) = (None, None, None);
                    run.text.clear();
                    run.end = None;
                } else {
                    self.push(run(line.run, about, line.at, *attempt));
                }
            }
            Event::End { outcome, text, end, output, again } => {
                if let Some(run) = self.run_mut(line.run) {
                    // A second end of an attempt only says that no further attempt follows.
                    run.ended = run.ended.or(Some(line.at));
                    (run.outcome, run.again) = (Some(*outcome), *again);
                    (run.text, run.end) = (text.clone(), end.clone());
                    run.has_output |= *output;
                }
            }
            Event::Held { text, about } => {
                let run = run(line.run, about, line.at, 0);
                self.push(Run {
                    ended: Some(line.at),
                    outcome: Some(Outcome::Held),
                    text: text.clone(),
                    ..run
                });
            }
            Event::Kept { .. } => {}
        }
    }

    fn began(&mut self, about: &About, at: i64) {
        let hour = self.hour.entry(about.action.clone()).or_default();
        hour.retain(|&began| is_within(began, at, HOUR));
        hour.push_back(at);
        self.last.retain(|_, &mut acted| is_within(acted, at, REMEMBERED));
        self.last.insert((about.action.clone(), target(about)), at);
    }

    fn push(&mut self, run: Run) {
        if self.runs.len() >= RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }

    fn run_mut(&mut self, id: u64) -> Option<&mut Run> {
        self.runs.iter_mut().rev().find(|run| run.id == id)
    }

    /// The number of the next run.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The next numbers are higher than this one.
    pub fn goes_on_after(&mut self, number: u64) {
        self.next = self.next.max(number);
    }

    /// Why an action must not begin now; `None`: it may begin.
    pub fn hold(&self, action: &Action, about: &About, now: i64) -> Option<String> {
        let hour = self.hour.get(&action.name);
        let done = hour.map_or(0, |hour| hour.iter().filter(|&&began| is_within(began, now, HOUR)).count());
        if done >= action.per_hour as usize {
            return Some(format!("{done} within the last hour, and per_hour is {}", action.per_hour));
        }
        let last = *self.last.get(&(action.name.clone(), target(about)))?;
        let cooldown = i64::try_from(action.cooldown.as_millis()).unwrap_or(i64::MAX);
        is_within(last, now, cooldown).then(|| {
            let ago = Duration::from_millis((now - last).unsigned_abs()).as_secs();
            format!("it acted here {ago} s ago, and cooldown is {} s", action.cooldown.as_secs())
        })
    }

    /// The result of a run for people: with its program's output, and without it.
    pub fn texts(&self, id: u64) -> (&str, Option<&str>) {
        let run = self.runs.iter().rev().find(|run| run.id == id);
        run.map_or(("", None), |run| (&run.text, run.end.as_deref()))
    }

    /// Runs that did not end, oldest first.
    pub fn unended(&self) -> Vec<u64> {
        self.runs.iter().filter(|run| run.outcome.is_none()).map(|run| run.id).collect()
    }

    /// The runs, oldest first.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.runs.iter()
    }
}

/// Whether two times are less than this span apart. Somebody may have set the clock back, so times in the future count, too.
fn is_within(one: i64, other: i64, span: i64) -> bool {
    one.abs_diff(other) < span.unsigned_abs()
}

/// The target of a cooldown: a node, or else this alert.
fn target(about: &About) -> String {
    match about.node.is_empty() {
        true => format!("#{:x}", about.fingerprint),
        false => about.node.clone(),
    }
}

fn run(id: u64, about: &About, at: i64, attempts: u32) -> Run {
    Run {
        id,
        action: about.action.clone(),
        kind: about.kind.clone(),
        node: about.node.clone(),
        alert: about.alert.clone(),
        starts_at: about.starts_at,
        dry_run: about.dry_run,
        began: at,
        attempts,
        ended: None,
        outcome: None,
        text: String::new(),
        end: None,
        has_output: false,
        again: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Kind;

    fn action(per_hour: u32, cooldown: u64) -> Action {
        Action {
            name: "a".to_owned(),
            kind: Kind::Exec(Vec::new()),
            dry_run: false,
            node_label: "instance".to_owned(),
            timeout: Duration::ZERO,
            retries: 0,
            retry_after: Duration::ZERO,
            cooldown: Duration::from_secs(cooldown),
            per_hour,
        }
    }

    fn about(node: &str, fingerprint: u64) -> About {
        About {
            action: "a".to_owned(),
            kind: "exec".to_owned(),
            node: node.to_owned(),
            alert: khz_notify::Labels::new(),
            fingerprint,
            starts_at: 0,
            dry_run: false,
        }
    }

    fn begin(ledger: &mut Ledger, at: i64, attempt: u32, about: About) {
        let run = if attempt == 1 { ledger.number() } else { ledger.next };
        ledger.take(&Line { at, run, event: Event::Begin { attempt, about } });
    }

    #[test]
    fn an_hour_has_at_most_its_number_of_runs_also_if_the_clock_is_set_back() {
        let mut ledger = Ledger::default();
        let action = action(2, 0);
        begin(&mut ledger, 10, 1, about("n1", 1));
        begin(&mut ledger, 20, 1, about("n2", 2));
        begin(&mut ledger, 30, 2, about("n2", 2));
        let may = |now| ledger.hold(&action, &about("n3", 3), now).is_none();
        assert!(!may(40) && !may(HOUR + 9), "two within an hour");
        assert!(may(HOUR + 10), "the first is an hour ago; another attempt is no other run");
        assert!(!may(-HOUR + 30), "somebody has set the clock back");
    }

    #[test]
    fn a_cooldown_is_a_node_s_or_an_alert_s_that_names_none() {
        let mut ledger = Ledger::default();
        let action = action(60, 600);
        begin(&mut ledger, 0, 1, about("n1", 1));
        begin(&mut ledger, 0, 1, about("", 2));
        let may = |about: About, now| ledger.hold(&action, &about, now).is_none();
        assert!(!may(about("n1", 9), 599_999) && may(about("n1", 9), 600_000));
        assert!(may(about("n2", 1), 1));
        assert!(!may(about("", 2), 1) && may(about("", 3), 1));
    }

    #[test]
    fn people_see_the_newest_runs() {
        let mut ledger = Ledger::default();
        for _ in 0..=RUNS_MAX {
            begin(&mut ledger, 0, 1, about("n1", 1));
        }
        let numbers: Vec<u64> = ledger.runs().map(|run| run.id).collect();
        assert_eq!((numbers.len(), numbers[0]), (RUNS_MAX, 2));
        assert_eq!(ledger.unended().len(), RUNS_MAX);
    }
}
