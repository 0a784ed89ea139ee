//! The alerts that an Alertmanager must know. Firing alerts are resent regularly, since it forgets alerts that it does not hear of;
//! resolved ones are resent for a quarter of an hour. The queue holds each alert once, in its newest state, so an hour without
//! Alertmanager needs no more room.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::alert::{Alert, Labels, Told};
use crate::answer::Answer;
use crate::core::{Core, Passes, RESOLVED_KEPT, UNHEARD_MAX};
use crate::limits::{BATCH_ALERTS_MAX, SENT_ALONE_MAX};
use crate::now::Now;
use crate::pauses::Pauses;
use crate::table::{Table, Worth};

/// The longest pause, in ms, before the next attempt to reach an Alertmanager that does not answer.
const PAUSE_MAX: u64 = 30_000;
/// The number of resend intervals for which an Alertmanager believes that an alert still fires. Prometheus uses the same number.
const INTERVALS_BELIEVED: u64 = 4;

/// The judge stops listing a resolved alert after about [`RESOLVED_KEPT`]. It may do so this much later, in ms.
const FORGOTTEN_AFTER: u64 = 60_000;

/// What is noted about an alert.
#[derive(Debug)]
struct State {
    /// When the alert is sent next; `None`: it is on its way.
    due: Option<u64>,
    /// When the judge listed the alert last, in the time of passes.
    heard: u64,
    /// Since when the alert is known to be resolved.
    resolved: Option<u64>,
    /// The Alertmanager knows the current state of the alert.
    is_known: bool,
    /// The most alerts that one request with this alert may hold. The number falls if the Alertmanager refuses one of them.
    together: usize,
    /// The Alertmanager refused this alert when it was sent alone.
    is_unfit: bool,
    /// The alert is resolved and not sent again. The row stays until the judge stops listing the alert.
    is_finished: bool,
}

/// The alerts for one Alertmanager.
#[derive(Debug)]
pub(crate) struct Queue {
    table: Table<State>,
    due: BTreeSet<(u64, u64)>,
    /// The time between two sendings of a firing alert, in ms.
    resend: u64,
    not_before: u64,
    pauses: Pauses,
    passes: Passes,
    unknown: u64,
    dropped: u64,
    /// Alerts that are unfit.
    unfit: usize,
}

/// Alerts that are sent together.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub alerts: Vec<(u64, Arc<Alert>)>,
    /// Until when the Alertmanager believes that the firing alerts fire, in ms since 1970.
    pub believed_until: i64,
    /// If the batch is refused, the queue sends its halves.
    pub has_parts: bool,
}

impl Queue {
    /// Begins with no alerts. Firing alerts are sent again after this many ms.
    pub fn new(resend: u64, now: Now) -> Self {
        Queue {
            table: Table::default(),
            due: BTreeSet::new(),
            resend,
            not_before: 0,
            pauses: Pauses::new(PAUSE_MAX),
            passes: Passes::new(now),
            unknown: 0,
            dropped: 0,
            unfit: 0,
        }
    }

    fn add(&mut self, told: &mut Told<'_>, now: Now) {
        let firing = told.alert.is_firing();
        let age = told.alert.ends_at.map_or(0, |end| now.wall.saturating_sub(end));
        if !firing && u64::try_from(age).is_ok_and(|age| age > RESOLVED_KEPT) {
            return;
        }
        let worth = if firing { Worth::News } else { Worth::Resolved };
        let state = State {
            due: Some(now.steady),
            heard: self.passes.time,
            resolved: (!firing).then_some(now.steady),
            is_known: false,
            together: BATCH_ALERTS_MAX,
            is_unfit: false,
            is_finished: false,
        };
        let mut removed = Vec::new();
        let added = self.table.add(told.keep(), worth, state, &mut removed);
        for (id, row) in removed {
            if let Some(due) = row.state.due {
                self.due.remove(&(due, id));
            }
            self.unknown -= u64::from(!row.state.is_known);
            self.unfit -= usize::from(row.state.is_unfit);
            // Dropping an alert whose end is known loses nothing.
            self.dropped += u64::from(row.alert.is_firing() || !row.state.is_known);
        }
        match added {
            Some(id) => {
                self.due.insert((now.steady, id));
                self.unknown += 1;
            }
            None => self.dropped += 1,
        }
    }

    fn set_due(&mut self, id: u64, due: Option<u64>) {
        let Some(state) = self.table.state(id) else { return };
        if let Some(old) = std::mem::replace(&mut state.due, due) {
            self.due.remove(&(old, id));
        }
        if let Some(due) = due {
            self.due.insert((due, id));
        }
    }

    /// The Alertmanager does not know the alert's current state.
    fn is_news(&mut self, id: u64, firing: bool, now: Now) {
        self.table.set_worth(id, if firing { Worth::News } else { Worth::Resolved });
        let Some(state) = self.table.state(id) else { return };
        self.unknown += u64::from(std::mem::replace(&mut state.is_known, false));
        (state.resolved, state.is_finished) = ((!firing).then_some(now.steady), false);
        // An alert that is on its way becomes due when its batch is done.
        if state.due.is_some() {
            self.set_due(id, Some(now.steady));
        }
    }

    /// Removes finished alerts that the judge no longer lists.
    fn forget(&mut self, now: Now) {
        let due = self.due.iter().take_while(|(due, _)| *due <= now.steady).map(|(_, id)| *id);
        let is_finished = |id: &u64| self.table.get(*id).is_some_and(|row| row.state.is_finished);
        for id in due.filter(is_finished).collect::<Vec<_>>() {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        self.set_due(id, None);
        if let Some(row) = self.table.remove(id) {
            self.unknown -= u64::from(!row.state.is_known);
            self.unfit -= usize::from(row.state.is_unfit);
        }
    }

    /// The alerts of the next request: those that are due first. The request is never larger than the state of any of its alerts
    /// allows.
    fn due_together(&self, now: Now) -> Vec<(u64, Arc<Alert>)> {
        let mut alerts = Vec::new();
        let mut room = BATCH_ALERTS_MAX;
        for (_, id) in self.due.iter().take_while(|(due, _)| *due <= now.steady) {
            let Some(row) = self.table.get(*id) else { continue };
            room = room.min(row.state.together);
            if alerts.len() >= room {
                break;
            }
            alerts.push((*id, row.alert.clone()));
        }
        alerts
    }

    /// The Alertmanager refused one of these alerts. The queue sends each half separately and at once, until the refused alert is
    /// alone.
    fn halve(&mut self, job: &Batch, now: Now) {
        let half = job.alerts.len().div_ceil(2);
        for (id, _) in &job.alerts {
            if let Some(state) = self.table.state(*id) {
                state.together = half;
            }
            self.set_due(*id, Some(now.steady));
        }
    }

    /// An accepted alert may be sent with others again. An alert that was refused alone stays alone, so that the others are
    /// accepted.
    fn note_fitness(&mut self, id: u64, is_taken: bool, is_unfit: bool) {
        let Some(state) = self.table.state(id) else { return };
        if is_taken {
            state.together = BATCH_ALERTS_MAX;
        }
        if is_taken || is_unfit {
            self.unfit -= usize::from(std::mem::replace(&mut state.is_unfit, is_unfit));
            self.unfit += usize::from(is_unfit);
        }
    }

    /// The Alertmanager has answered for an alert in this state.
    fn settle(&mut self, id: u64, sent: &Arc<Alert>, is_taken: bool, now: Now) {
        let Some(row) = self.table.get(id) else { return };
        if !row.alert.is_same_event(sent) {
            return self.set_due(id, Some(now.steady));
        }
        let last = row.state.resolved.map(|since| since.saturating_add(RESOLVED_KEPT));
        let is_finished = last.is_some_and(|last| !is_taken || now.steady.saturating_add(self.resend) > last);
        let firing = row.alert.is_firing();
        if let Some(state) = self.table.state(id) {
            self.unknown -= u64::from(!std::mem::replace(&mut state.is_known, true));
            state.is_finished = is_finished;
        }
        self.table.set_worth(id, if firing { Worth::Repeated } else { Worth::Over });
        // Keep the row: without it, the next listing of this alert would count as a new event.
        let forgets =
            last.filter(|_| is_finished).map(|last| last.max(now.steady).saturating_add(FORGOTTEN_AFTER));
        self.set_due(id, Some(forgets.unwrap_or(now.steady.saturating_add(self.resend))));
    }
}

impl Core for Queue {
    type Job = Batch;

    fn take(&mut self, told: &mut Told<'_>, now: Now) {
        let Some(id) = self.table.id(&told.alert.labels) else { return self.add(told, now) };
        let Some(row) = self.table.get(id) else { return };
        let (is_same, is_equal) = (row.alert.is_same_event(told.alert), *row.alert == *told.alert);
        if !is_equal {
            self.table.replace(id, told.keep());
        }
        let time = self.passes.time;
        if let Some(state) = self.table.state(id) {
            state.heard = time;
        }
        if !is_same {
            self.is_news(id, told.alert.is_firing(), now);
        }
    }

    fn end_of_pass(&mut self, now: Now) {
        if !self.passes.ended(now) {
            return;
        }
        let time = self.passes.time;
        let rows = self.table.rows().filter(|(_, row)| row.alert.is_firing());
        let unheard = rows.filter(|(_, row)| time - row.state.heard > UNHEARD_MAX);
        for (id, alert) in unheard.map(|(id, row)| (id, row.alert.clone())).collect::<Vec<_>>() {
            self.table.replace(id, Arc::new(Alert { ends_at: Some(now.wall), ..(*alert).clone() }));
            self.is_news(id, false, now);
        }
    }

    fn due(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| (*due).max(self.not_before))
    }

    fn next(&mut self, now: Now) -> Option<Batch> {
        if now.steady < self.not_before {
            return None;
        }
        self.forget(now);
        let alerts = self.due_together(now);
        for (id, _) in &alerts {
            self.set_due(*id, None);
        }
        let believed = i64::try_from(self.resend.saturating_mul(INTERVALS_BELIEVED)).unwrap_or(i64::MAX);
        let believed_until = now.wall.saturating_add(believed);
        let has_parts = alerts.len() > 1 && self.unfit < SENT_ALONE_MAX;
        (!alerts.is_empty()).then_some(Batch { alerts, believed_until, has_parts })
    }

    fn done(&mut self, job: Batch, answer: &Answer, now: Now) {
        if Self::is_parted(&job, answer) {
            self.pauses.reset();
            return self.halve(&job, now);
        }
        match answer {
            Answer::Taken(_) | Answer::Partly { .. } | Answer::Refused(_) | Answer::Unfit(_) => {
                self.pauses.reset();
                let is_taken = !matches!(answer, Answer::Refused(_) | Answer::Unfit(_));
                let is_unfit = matches!(answer, Answer::Unfit(_)) && job.alerts.len() == 1;
                for (id, sent) in &job.alerts {
                    self.note_fitness(*id, is_taken, is_unfit);
                    self.settle(*id, sent, is_taken, now);
                }
            }
            // Resend a batch even if it may have arrived: the Alertmanager ignores duplicates.
            Answer::Later(_, wish) | Answer::Unknown(_, wish) => {
                self.not_before = now.steady.saturating_add(self.pauses.take(*wish));
                for (id, _) in &job.alerts {
                    self.set_due(*id, Some(now.steady));
                }
            }
        }
    }

    fn release(&mut self, is_meant: &dyn Fn(&Labels) -> bool) {
        let meant = self.table.rows().filter(|(_, row)| is_meant(&row.alert.labels));
        for id in meant.map(|(id, _)| id).collect::<Vec<_>>() {
            self.remove(id);
        }
    }

    fn alerts(job: &Batch) -> u64 {
        job.alerts.len() as u64
    }

    fn only_alert(job: &Batch) -> Option<&Labels> {
        match &job.alerts[..] {
            [(_, alert)] => Some(&alert.labels),
            _ => None,
        }
    }

    fn is_parted(job: &Batch, answer: &Answer) -> bool {
        job.has_parts && matches!(answer, Answer::Unfit(_))
    }

    fn has_refused(&self) -> bool {
        self.unfit > 0
    }

    fn numbers(&mut self) -> (u64, u64) {
        (self.unknown, std::mem::take(&mut self.dropped))
    }
}
