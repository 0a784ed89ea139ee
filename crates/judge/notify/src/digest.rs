//! Decides what people without an Alertmanager hear: one message when an alert fires, one when it is resolved, and a reminder after
//! some hours. Alerts of one name that come together share one message. The number of messages per hour is limited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::alert::{Alert, Labels, Told};
use crate::answer::Answer;
use crate::core::{Core, Kept, Passes, Record, UNHEARD_MAX};
use crate::hour::{Hour, Turn};
use crate::known::{Known, State};
use crate::limits::{MESSAGE_ALERTS_MAX, MESSAGE_BYTES_MAX};
use crate::message::{Message, summary_alert};
use crate::now::Now;
use crate::pauses::Pauses;
use crate::table::{Row, Table, Worth};

/// The longest pause, in ms, before a message that was not taken is sent again.
const PAUSE_MAX: u64 = 5 * 60_000;

/// How long nobody gets a reminder after a restart, in ms. The rules are evaluated first, since an alert may have ended meanwhile.
const REMINDED_AFTER: u64 = 60_000;

/// When people are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long the first alert of a message waits for others, in ms.
    pub wait: u64,
    /// The time in ms until people get a reminder of an alert that still fires.
    pub repeat: u64,
    /// Messages an hour, at most. One more message sums up the rest.
    pub per_hour: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { wait: 10_000, repeat: 4 * 3_600_000, per_hour: 60 }
    }
}

/// The alerts of one name.
#[derive(Debug, Default)]
struct Group {
    members: BTreeSet<u64>,
    /// The members whose current state people do not know.
    news: BTreeSet<u64>,
    /// The number of members that fire, according to the judge. A message lists them.
    firing: u64,
    /// When the first entry of `news` came.
    news_since: Option<u64>,
    /// When the last message was sent.
    told: Option<u64>,
    /// When it is due.
    due: Option<u64>,
}

/// A message to send, and the alerts whose state people know after it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub message: Message,
    told: Vec<(u64, bool)>,
    names: Vec<Arc<str>>,
}

impl Job {
    /// A message that no alert waits for.
    pub fn of(message: Message) -> Self {
        Job { message, told: Vec::new(), names: Vec::new() }
    }
}

/// The alerts for one way to people.
#[derive(Debug)]
pub(crate) struct Digest {
    table: Table<State>,
    groups: BTreeMap<Arc<str>, Group>,
    due: BTreeSet<(u64, Arc<str>)>,
    pace: Pace,
    hour: Hour,
    not_before: u64,
    pauses: Pauses,
    passes: Passes,
    dropped: u64,
    /// A message is on its way: people may get it.
    is_on_way: bool,
    /// The record of messages has changed since it was last written.
    is_changed: bool,
}

impl Digest {
    /// People know of no firing alerts except those in these records.
    pub fn new(pace: Pace, kept: impl Into<Kept>, now: Now) -> Self {
        let Kept { records, sent } = kept.into();
        let mut digest = Digest {
            table: Table::default(),
            groups: BTreeMap::new(),
            due: BTreeSet::new(),
            hour: Hour::restore(pace.per_hour, sent, now),
            pace,
            not_before: 0,
            pauses: Pauses::new(PAUSE_MAX),
            passes: Passes::new(now),
            dropped: 0,
            is_on_way: false,
            is_changed: false,
        };
        for record in records {
            if !digest.restore(record, now) {
                break;
            }
        }
        digest
    }

    /// People believe that this alert fires, even if it has ended. Returns false if there is no room.
    fn restore(&mut self, record: Record, now: Now) -> bool {
        let (known, Record { alert, told_at, .. }) = (record.known(), record);
        let alert = Arc::new(Alert { ends_at: None, ..(*alert).clone() });
        let name: Arc<str> = alert.name().into();
        let state = State { heard: self.passes.time, is_mentioned: false, known, before: None };
        let Some(id) = self.table.add(alert, Worth::Repeated, state, &mut Vec::new()) else { return false };
        let group = self.groups.entry(name.clone()).or_default();
        group.members.insert(id);
        // A clock that was set does not delay the reminder for ever.
        let most = self.pace.repeat.saturating_sub(REMINDED_AFTER);
        let ago = u64::try_from(now.wall.saturating_sub(told_at)).unwrap_or(0).min(most);
        let told = now.steady.saturating_sub(ago);
        group.told = Some(group.told.unwrap_or(0).max(told));
        self.plan(&name);
        true
    }

    /// Computes when a group is due, and forgets one that is empty.
    fn plan(&mut self, name: &Arc<str>) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let first = group.news_since.map(|since| since.saturating_add(self.pace.wait));
        let again = group.told.map(|told| told.saturating_add(self.pace.repeat));
        let due = match (first, again.filter(|_| group.firing > 0)) {
            (Some(first), Some(again)) => Some(first.min(again)),
            (first, again) => first.or(again),
        };
        if let Some(old) = std::mem::replace(&mut group.due, due) {
            self.due.remove(&(old, name.clone()));
        }
        self.due.extend(due.map(|due| (due, name.clone())));
        if group.members.is_empty() {
            self.groups.remove(name);
        }
    }

    /// Brings a group up to date after one of its alerts has changed.
    fn note(&mut self, id: u64, was_listed: bool, now: Now) {
        let Some(row) = self.table.get(id) else { return };
        let firing = row.alert.is_firing();
        let is_listed = row.state.is_listed(firing);
        let is_news = row.state.is_news(firing);
        let (is_needless, is_kept) = (row.state.is_needless(firing), row.state.known.told_at.is_some());
        let name: Arc<str> = row.alert.name().into();
        let group = self.groups.entry(name.clone()).or_default();
        group.firing = group.firing + u64::from(is_listed) - u64::from(was_listed);
        if !is_news {
            group.news.remove(&id);
            self.table.set_worth(id, Worth::Repeated);
        } else {
            group.news.insert(id);
            let since = row.alert.waits_since.map_or(now.wall, |since| since.min(now.wall));
            let waited = now.wall.saturating_sub(since).unsigned_abs().min(self.pace.wait);
            let since = now.steady.saturating_sub(waited);
            group.news_since = Some(group.news_since.map_or(since, |first| first.min(since)));
            self.table.set_worth(id, if firing { Worth::News } else { Worth::Resolved });
        }
        if group.news.is_empty() {
            group.news_since = None;
        }
        if is_needless {
            // People never heard of this alert, nor need they now.
            self.is_changed |= is_kept;
            group.members.remove(&id);
            self.table.remove(id);
        }
        self.plan(&name);
    }

    fn add(&mut self, told: &mut Told<'_>, now: Now) {
        // People do not know that this alert fires.
        if !told.alert.is_firing() {
            return;
        }
        let (mut removed, state) = (Vec::new(), State::new(self.passes.time));
        let added = self.table.add(told.keep(), Worth::News, state, &mut removed);
        for (id, row) in removed {
            self.dropped += 1;
            self.leave(id, &row);
        }
        match added {
            Some(id) => {
                self.groups.entry(told.alert.name().into()).or_default().members.insert(id);
                self.note(id, false, now);
            }
            None => self.dropped += 1,
        }
    }

    /// A row is not in the table any more.
    fn leave(&mut self, id: u64, row: &Row<State>) {
        self.is_changed |= row.state.known.told_at.is_some();
        let name: Arc<str> = row.alert.name().into();
        if let Some(group) = self.groups.get_mut(&name) {
            group.members.remove(&id);
            group.news.remove(&id);
            group.firing -= u64::from(is_listed(row));
            group.news_since = group.news_since.filter(|_| !group.news.is_empty());
        }
        self.plan(&name);
    }

    /// Notes that a message is on its way. People may get it even if this process dies.
    fn set_on_way(&mut self, job: &Job, now: Now) {
        for (id, _) in &job.told {
            let Some(state) = self.table.state(*id) else { continue };
            self.is_changed |= state.set_on_way(now.wall);
        }
    }

    /// Notes that a message is no longer on its way, and what people know about its alerts.
    fn settle(&mut self, job: &Job, now: Now, known: impl Fn(&State, bool) -> Known) {
        for (id, was_firing) in &job.told {
            let Some(state) = self.table.state(*id) else { continue };
            let after = known(state, *was_firing);
            self.is_changed |= state.known != after;
            (state.known, state.before) = (after, None);
            let Some(is_listed) = self.table.get(*id).map(is_listed) else { continue };
            self.note(*id, is_listed, now);
        }
    }

    /// The message about one name.
    fn message(&self, name: &Arc<str>, group: &Group, now: Now) -> Job {
        let told = group.news.iter().filter_map(|id| Some((*id, self.table.get(*id)?.alert.is_firing())));
        let mut told: Vec<(u64, bool)> = told.collect();
        let resolved = told.iter().filter(|(_, firing)| !firing).count() as u64;
        let others = group.members.iter().filter(|id| !group.news.contains(id));
        let (mut alerts, mut bytes) = (Vec::new(), 0);
        for id in group.news.iter().chain(others) {
            let Some(row) = self.table.get(*id) else { continue };
            if !group.news.contains(id) {
                if !is_listed(row) {
                    continue;
                }
                // This message also tells people of an alert whose first message was refused.
                told.extend(row.state.known.is_refused.then_some((*id, true)));
            }
            bytes += row.alert.bytes();
            if alerts.len() == MESSAGE_ALERTS_MAX || bytes > MESSAGE_BYTES_MAX {
                break;
            }
            alerts.push(row.alert.clone());
        }
        let left_out = group.firing + resolved - alerts.len() as u64;
        let message = Message {
            name: Some(name.clone()),
            firing: group.firing,
            resolved,
            alerts,
            left_out,
            is_repeat: group.news.is_empty(),
            at: now.wall,
        };
        Job { message, told, names: vec![name.clone()] }
    }

    /// One message about everything that waits: the names with the most alerts.
    fn summary(&self, now: Now) -> Job {
        let waits = |group: &&Group| !group.news.is_empty() || group.due.is_some_and(|due| due <= now.steady);
        let groups: Vec<(&Arc<str>, &Group)> = self.groups.iter().filter(|(_, group)| waits(group)).collect();
        let (mut told, mut rows) = (Vec::new(), Vec::new());
        for (name, group) in &groups {
            let before = told.len();
            let news = group.news.iter();
            told.extend(news.filter_map(|id| Some((*id, self.table.get(*id)?.alert.is_firing()))));
            let resolved = told[before..].iter().filter(|(_, firing)| !firing).count() as u64;
            rows.push((group.firing, resolved, *name));
        }
        rows.sort_by_key(|(firing, resolved, name)| (std::cmp::Reverse((*firing, *resolved)), *name));
        let shown = rows.iter().take(MESSAGE_ALERTS_MAX);
        let alerts: Vec<Arc<Alert>> =
            shown.map(|(firing, resolved, name)| summary_alert(name, *firing, *resolved, now.wall)).collect();
        let message = Message {
            name: None,
            firing: rows.iter().map(|(firing, ..)| firing).sum(),
            resolved: rows.iter().map(|(_, resolved, _)| resolved).sum(),
            left_out: (rows.len() - alerts.len()) as u64,
            alerts,
            is_repeat: told.is_empty(),
            at: now.wall,
        };
        Job { message, told, names: groups.into_iter().map(|(name, _)| name.clone()).collect() }
    }
}

/// Whether a message about other alerts lists this alert as firing.
fn is_listed(row: &Row<State>) -> bool {
    row.state.is_listed(row.alert.is_firing())
}

impl Core for Digest {
    type Job = Job;

    fn take(&mut self, told: &mut Told<'_>, now: Now) {
        let Some(id) = self.table.id(&told.alert.labels) else { return self.add(told, now) };
        let Some(row) = self.table.get(id) else { return };
        let (was_firing, was_listed) = (row.alert.is_firing(), is_listed(row));
        if *row.alert != *told.alert {
            self.table.replace(id, told.keep());
        }
        let time = self.passes.time;
        let Some(state) = self.table.state(id) else { return };
        state.heard = time;
        let was_mentioned = std::mem::replace(&mut state.is_mentioned, true);
        if was_firing != told.alert.is_firing() || !was_mentioned {
            self.note(id, was_listed, now);
        }
    }

    fn end_of_pass(&mut self, now: Now) {
        if !self.passes.ended(now) {
            return;
        }
        let time = self.passes.time;
        let rows = self.table.rows().filter(|(_, row)| row.alert.is_firing());
        let unheard = rows.filter(|(_, row)| time - row.state.heard > UNHEARD_MAX);
        let unheard = unheard.map(|(id, row)| (id, row.alert.clone(), is_listed(row)));
        for (id, alert, was_listed) in unheard.collect::<Vec<_>>() {
            self.table.replace(id, Arc::new(Alert { ends_at: Some(now.wall), ..(*alert).clone() }));
            self.note(id, was_listed, now);
        }
    }

    fn due(&self) -> Option<u64> {
        let due = self.due.first().map(|(due, _)| *due)?;
        Some(due.max(self.not_before).max(self.hour.silent_until()))
    }

    fn next(&mut self, now: Now) -> Option<Job> {
        let (due, name) = self.due.first()?;
        if *due > now.steady || now.steady < self.not_before {
            return None;
        }
        let job = match self.hour.turn(now) {
            Turn::Message => self.message(name, self.groups.get(name)?, now),
            Turn::Summary => self.summary(now),
            Turn::Silence(_) => return None,
        };
        self.set_on_way(&job, now);
        // The message counts before it is sent, since this process may be killed while it sends.
        (self.is_on_way, self.is_changed) = (true, true);
        Some(job)
    }

    fn done(&mut self, job: Job, answer: &Answer, now: Now) {
        (self.is_on_way, self.is_changed) = (false, true);
        match answer {
            Answer::Later(_, wish) => {
                self.not_before = now.steady.saturating_add(self.pauses.take(*wish));
                return self.settle(&job, now, |state, _| state.before.unwrap_or(state.known));
            }
            // A reminder that may have come is not repeated.
            Answer::Unknown(_, wish) if !job.told.is_empty() => {
                self.not_before = now.steady.saturating_add(self.pauses.take(*wish));
                self.hour.said(now);
                return self.settle(&job, now, |state, _| state.known);
            }
            _ => {}
        }
        self.pauses.reset();
        self.hour.said(now);
        for name in &job.names {
            if let Some(group) = self.groups.get_mut(name) {
                (group.told, group.news_since) = (Some(now.steady), None);
            }
        }
        self.settle(&job, now, |state, firing| match answer {
            Answer::Refused(_) | Answer::Unfit(_) => state.refused(firing, now.wall),
            _ => Known { told_at: firing.then_some(now.wall), is_unsure: false, is_refused: false },
        });
        // Alerts that came while the message was on its way start to wait now.
        for name in &job.names {
            if let Some(group) = self.groups.get_mut(name) {
                group.news_since = (!group.news.is_empty()).then_some(now.steady);
            }
            self.plan(name);
        }
    }

    fn alerts(job: &Job) -> u64 {
        job.message.firing + job.message.resolved
    }

    fn numbers(&mut self) -> (u64, u64) {
        let waiting = self.groups.values().map(|group| group.news.len() as u64).sum();
        (waiting, std::mem::take(&mut self.dropped))
    }

    fn record(&mut self, now: Now) -> Option<Kept> {
        let is_changed = std::mem::take(&mut self.is_changed);
        is_changed.then(|| Kept { records: self.records(), sent: self.hour.sent(self.is_on_way, now) })
    }

    fn records(&mut self) -> Vec<Record> {
        let told = self.table.rows();
        let told = told.filter_map(|(_, row)| Some((row.state.known.told_at?, row)));
        let record = |(told_at, row): (i64, &Row<State>)| Record {
            alert: row.alert.clone(),
            told_at,
            is_unsure: row.state.known.is_unsure,
            is_refused: row.state.known.is_refused,
        };
        told.map(record).collect()
    }

    fn adopt(&mut self, record: Record, now: Now) {
        let Some(id) = self.table.id(&record.alert.labels) else {
            self.is_changed |= self.restore(record, now);
            return;
        };
        let Some(state) = self.table.state(id) else { return };
        // A state that is known here, or is on its way, is at least as good.
        if state.known.told_at.is_none() && state.before.is_none() {
            state.known = record.known();
            self.is_changed = true;
            let is_listed = self.table.get(id).is_some_and(is_listed);
            self.note(id, is_listed, now);
        }
    }

    fn release(&mut self, is_meant: &dyn Fn(&Labels) -> bool) {
        let meant = self.table.rows().filter(|(_, row)| is_meant(&row.alert.labels));
        for id in meant.map(|(id, _)| id).collect::<Vec<_>>() {
            if let Some(row) = self.table.remove(id) {
                self.leave(id, &row);
            }
        }
    }
}
