//! The numbers that jobs publish (`docs/publish.md`), as a source: each gather takes the datagrams that are
//! in the socket. It never waits; beyond its limits it drops and counts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use khz_model::{
    Absence, Exposition, Kind, Metric, Nanos, Origin, Pattern, Reading, Refresh, Series, Stamp, Unit,
};
use khz_parse::entry::flat_name;
use rustix::net::RecvFlags;

use crate::own::Tally;
use crate::publication::{Description, PREFIX, Publication};
use crate::readings::Readings;

/// The source's name.
pub(crate) const SOURCE: &str = "jobs";

/// The most names for the jobs of a node: a program that invents names without end must not fill every hub.
pub const JOB_METRICS_MAX: usize = 256;
/// The most names with their instances: a few for each core of a large node.
pub const JOB_SERIES_MAX: usize = 1_024;
/// The most spellings of names that are remembered: `queue` and `job.queue` are two.
const SPELLINGS_MAX: usize = 2 * JOB_SERIES_MAX;
/// The largest datagram in bytes.
pub const DATAGRAM_MAX: usize = 8_192;
/// The most lines of a datagram.
pub const LINES_MAX: usize = 64;
/// The most datagrams in one gather, which takes a fifth of a millisecond; the others wait in the socket.
pub const DATAGRAMS_AT_ONCE: usize = 32;
/// The most lines in a second, which take a hundredth of a core.
pub const LINES_A_SECOND: u64 = 10_000;
/// A number becomes absent after this time without a new value.
pub const SILENT_AFTER: Nanos = Nanos::from_secs(30);
/// A slot that has had no value for this long can be given back (`renewal.rs`). So a job that invents names cannot
/// keep others out for much longer.
pub const STALE_AFTER: Nanos = Nanos::from_secs(300);

/// The entrance for jobs: the socket, its counts, and the metrics that jobs have named.
#[derive(Debug)]
pub struct JobDoor {
    socket: UnixDatagram,
    counts: JobCounts,
    /// It grows until slots are given back; the gather thread locks it only then.
    metrics: RwLock<Vec<Arc<Metric>>>,
}

macro_rules! counts {
    ($($field:ident: $name:literal, $exposition:literal, $help:literal;)*) => {
        /// The counts about publishing; only the gather thread writes them.
        #[derive(Debug, Default)]
        struct JobCounts { $($field: Arc<AtomicU64>,)* }

        impl JobCounts {
            fn tallies(&self) -> Vec<Tally> {
                vec![$(Tally {
                    metric: Arc::new(count($name, $exposition, $help)),
                    instance: None,
                    count: self.$field.clone(),
                },)*]
            }
        }
    };
}

counts! {
    datagrams: "khz.publish.datagrams", "khz_publish_datagrams_total", "Datagrams of jobs that were taken.";
    values: "khz.publish.values", "khz_publish_values_total", "Values of jobs that were taken.";
    bad: "khz.publish.bad_lines", "khz_publish_bad_lines_total", "Lines of jobs that could not be read.";
    dropped: "khz.publish.dropped", "khz_publish_dropped_total", "Lines of jobs that were too many for a datagram or a second.";
    refused: "khz.publish.refused", "khz_publish_refused_total", "Values of jobs whose names were too many.";
}

fn count(name: &'static str, exposition: &'static str, help: &'static str) -> Metric {
    let origin = Origin { file: "khz itself".into(), field: name.into() };
    metric(name.into(), Kind::Counter, Unit::Count, 0, help.into(), origin, exposition.into(), false)
}

#[allow(clippy::too_many_arguments, reason = "one argument for each field of a catalogue entry")]
fn metric(
    name: Cow<'static, str>,
    kind: Kind,
    unit: Unit,
    places: u8,
    help: Cow<'static, str>,
    origin: Origin,
    exposition: Cow<'static, str>,
    has_instances: bool,
) -> Metric {
    let label = has_instances.then_some(Cow::Borrowed("part"));
    Metric {
        flat: flat_name(&name).into(),
        name,
        kind,
        unit,
        value_type: khz_model::ValueType::Unsigned,
        labels_from: None,
        places,
        max: None,
        refresh: Refresh::Event,
        help,
        origin,
        instances: label.clone(),
        exposition: Exposition {
            help: None,
            name: exposition,
            labels: Cow::Borrowed(&[]),
            instance_label: label,
            divisor: 1,
            untyped: false,
        },
    }
}

/// The exposition's name: `job.queue.length` in seconds becomes `khz_job_queue_length_seconds`.
fn exposition(name: &str, kind: Kind, unit: Unit) -> String {
    let unit = match unit {
        Unit::Bytes | Unit::Seconds => format!("_{unit}"),
        _ => String::new(),
    };
    let total = if kind == Kind::Counter { "_total" } else { "" };
    format!("khz_{}{unit}{total}", name.replace('.', "_"))
}

impl JobDoor {
    /// The entrance for a bound socket, which becomes non-blocking.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(socket: UnixDatagram) -> std::io::Result<Arc<Self>> {
        socket.set_nonblocking(true)?;
        Ok(Arc::new(JobDoor { socket, counts: JobCounts::default(), metrics: RwLock::default() }))
    }

    /// Its counts, to be shown among the agent's own numbers.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        self.counts.tallies()
    }

    /// The metrics that jobs have published until now.
    pub(crate) fn metrics(&self) -> Vec<Arc<Metric>> {
        self.metrics.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// True if a pattern selects a metric that jobs publish, or may publish later.
    pub(crate) fn may_match(&self, patterns: &[Pattern]) -> bool {
        let is_of_jobs = |pattern: &Pattern| {
            let text = pattern.to_string();
            let metric =
                if pattern.nodes().is_some() { text.split_once(':').map_or("", |s| s.1) } else { &text };
            metric.starts_with(PREFIX) || pattern.matches_metric(PREFIX)
        };
        patterns.iter().any(is_of_jobs)
            || self.metrics().iter().any(|metric| patterns.iter().any(|p| p.matches_metric(&metric.name)))
    }

    /// The metric of this name: the known one, or a new one. `None` if the limit is reached or the use of
    /// instances differs.
    fn metric(&self, said: &Description, places: u8) -> Option<Arc<Metric>> {
        let mut metrics = self.metrics.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let has_instances = said.instance.is_some();
        let known = metrics.iter().find(|metric| metric.name == said.name);
        if let Some(known) = known {
            // A name always has an instance or never: Prometheus could not tell the two uses apart.
            return (known.instances.is_some() == has_instances).then(|| known.clone());
        }
        if metrics.len() >= JOB_METRICS_MAX {
            return None;
        }
        let help = if said.help.is_empty() { "Published by a job." } else { &said.help };
        let origin = Origin { file: "a job".into(), field: said.name.clone().into() };
        let Description { ref name, kind, unit, .. } = *said;
        let name_there = exposition(name, kind, unit).into();
        let new = Arc::new(metric(
            name.clone().into(),
            kind,
            unit,
            places,
            help.to_owned().into(),
            origin,
            name_there,
            has_instances,
        ));
        metrics.push(new.clone());
        Some(new)
    }
}

/// The numbers that jobs have published, slot by slot.
pub(crate) struct Jobs {
    door: Arc<JobDoor>,
    readings: Readings,
    /// When each slot last got a value.
    heard: Vec<Nanos>,
    spellings: HashMap<Box<str>, u32>,
    /// The current second, and its lines until now.
    second: (u64, u64),
}

impl Jobs {
    pub fn new(door: Arc<JobDoor>) -> Self {
        Jobs {
            door,
            readings: Readings::default(),
            heard: Vec::new(),
            spellings: HashMap::new(),
            second: (0, 0),
        }
    }

    pub fn door(&self) -> &Arc<JobDoor> {
        &self.door
    }

    pub fn readings(&self) -> &Readings {
        &self.readings
    }

    /// Takes the datagrams in the socket; `room` is a buffer.
    pub fn gather(&mut self, now: Stamp, room: &mut Vec<u8>) {
        self.readings.changed.clear();
        if room.len() < DATAGRAM_MAX {
            room.resize(DATAGRAM_MAX, 0);
        }
        let second = now.boot.0 / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
            self.forget_the_silent(now.boot);
        }
        for _ in 0..DATAGRAMS_AT_ONCE {
            let room = &mut room[..DATAGRAM_MAX];
            let Ok((length, _)) = rustix::net::recv(&self.door.socket, &mut *room, RecvFlags::DONTWAIT)
            else {
                break;
            };
            add(&self.door.counts.datagrams, 1);
            self.datagram(&room[..length], now.boot);
        }
        self.readings.changed.sort_unstable();
        self.readings.changed.dedup();
    }

    fn datagram(&mut self, bytes: &[u8], now: Nanos) {
        let Ok(text) = std::str::from_utf8(bytes) else {
            add(&self.door.counts.bad, 1);
            return;
        };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        for (number, line) in lines.enumerate() {
            if number >= LINES_MAX || self.second.1 >= LINES_A_SECOND {
                add(&self.door.counts.dropped, 1);
                continue;
            }
            self.second.1 += 1;
            self.line(line, now);
        }
    }

    fn line(&mut self, line: &str, now: Nanos) {
        let Ok(publication) = Publication::read(line) else {
            add(&self.door.counts.bad, 1);
            return;
        };
        let known = self.spellings.get(publication.spelled).copied();
        let Some(slot) = known.or_else(|| self.first_seen(&publication)) else { return };
        let places = self.readings.schema.get(slot as usize).map_or(0, |series| series.metric.places);
        let Some(value) = publication.value.to_units(places) else {
            add(&self.door.counts.bad, 1);
            return;
        };
        add(&self.door.counts.values, 1);
        self.heard[slot as usize] = now;
        self.readings.set(slot as usize, Reading::Present(value));
    }

    /// Handles a new spelling, which usually means a new slot.
    #[cold]
    fn first_seen(&mut self, publication: &Publication<'_>) -> Option<u32> {
        let Ok(said) = publication.describe() else {
            add(&self.door.counts.bad, 1);
            return None;
        };
        let slot = self
            .readings
            .schema
            .slot(&said.name, said.instance.as_ref())
            .or_else(|| self.new_slot(&said, publication));
        match slot {
            None => add(&self.door.counts.refused, 1),
            Some(slot) if self.spellings.len() < SPELLINGS_MAX => {
                self.spellings.insert(publication.spelled.into(), slot);
            }
            Some(_) => {}
        }
        slot
    }

    fn new_slot(&mut self, said: &Description, publication: &Publication<'_>) -> Option<u32> {
        if self.readings.schema.len() >= JOB_SERIES_MAX {
            return None;
        }
        let metric = self.door.metric(said, said.places.unwrap_or(publication.value.places()))?;
        let slot = self.readings.schema.len() as u32;
        self.readings.append(Series { metric, instance: said.instance.clone() });
        self.heard.push(Nanos(0));
        Some(slot)
    }

    /// The number of slots without a value for [`STALE_AFTER`].
    pub fn slots_gone(&self, now: Nanos) -> usize {
        self.heard.iter().filter(|&&heard| now.since(heard) >= STALE_AFTER).count()
    }

    /// Gives those slots back: the others get new ones, and names without a slot make room for other names.
    pub fn renew(&mut self, now: Nanos) {
        let (before, heard) = (std::mem::take(&mut self.readings), std::mem::take(&mut self.heard));
        let mut new_slots = vec![None; heard.len()];
        for (slot, heard) in
            heard.into_iter().enumerate().filter(|(_, heard)| now.since(*heard) < STALE_AFTER)
        {
            let Some(series) = before.schema.get(slot) else { continue };
            let new = self.heard.len();
            self.readings.append(series.clone());
            (self.readings.states[new], self.readings.values[new]) =
                (before.states[slot], before.values[slot]);
            self.heard.push(heard);
            new_slots[slot] = Some(new as u32);
        }
        self.spellings.retain(|_, slot| match new_slots[*slot as usize] {
            Some(new) => {
                *slot = new;
                true
            }
            None => false,
        });
        let series = self.readings.schema.series();
        let is_used = |metric: &Arc<Metric>| series.iter().any(|series| Arc::ptr_eq(&series.metric, metric));
        let mut metrics = self.door.metrics.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        metrics.retain(is_used);
    }

    /// Makes silent numbers absent; called once a second.
    fn forget_the_silent(&mut self, now: Nanos) {
        for slot in 0..self.heard.len() {
            if now.since(self.heard[slot]) >= SILENT_AFTER {
                self.readings.set(slot, Reading::Absent(Absence::InstanceGone));
            }
        }
    }
}

/// Adds without an atomic addition: only one thread counts.
fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entrance on one end of a socket pair, and the other end.
    fn jobs() -> (Jobs, UnixDatagram) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        (Jobs::new(JobDoor::new(ours).unwrap()), theirs)
    }

    fn at(seconds: u64) -> Stamp {
        Stamp { boot: Nanos::from_secs(seconds), real_offset: 0 }
    }

    fn shown(jobs: &Jobs) -> Vec<String> {
        let reading =
            |slot: usize| Reading::from_parts(jobs.readings.states[slot], jobs.readings.values[slot]);
        let series = jobs.readings.schema.series().iter().enumerate();
        series.map(|(slot, series)| format!("{series} {:?}", reading(slot))).collect()
    }

    #[test]
    fn a_published_number_stays_in_its_slot_until_it_was_silent_for_a_while() {
        let (mut jobs, job) = jobs();
        let mut room = Vec::new();
        jobs.gather(at(1), &mut room);
        assert!(jobs.readings.schema.is_empty());
        job.send(b"queue[a]=1\n\nqueue[b]=2\nlatency=0.50 unit=seconds").unwrap();
        job.send(b"job.queue[a]=7").unwrap();
        jobs.gather(at(2), &mut room);
        let all = ["job.queue[a] Present(7)", "job.queue[b] Present(2)", "job.latency Present(50)"];
        assert_eq!(
            (shown(&jobs), jobs.readings.changed.clone()),
            (all.map(str::to_owned).to_vec(), vec![0, 1, 2])
        );
        job.send(b"queue[b]=2").unwrap();
        jobs.gather(at(20), &mut room);
        assert!(jobs.readings.changed.is_empty(), "the same again");
        jobs.gather(at(32), &mut room);
        let gone = [
            "job.queue[a] Absent(InstanceGone)",
            "job.queue[b] Present(2)",
            "job.latency Absent(InstanceGone)",
        ];
        assert_eq!(
            (shown(&jobs), jobs.readings.changed.clone()),
            (gone.map(str::to_owned).to_vec(), vec![0, 2])
        );
        job.send(b"latency=2").unwrap();
        jobs.gather(at(33), &mut room);
        assert_eq!(shown(&jobs)[2], "job.latency Present(200)");
    }

    #[test]
    fn numbers_beyond_the_limits_are_dropped_and_counted() {
        let (mut jobs, job) = jobs();
        let mut room = Vec::new();
        let mut say = |jobs: &mut Jobs, text: &str, second| {
            job.send(text.as_bytes()).unwrap();
            jobs.gather(at(second), &mut room);
        };
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        say(&mut jobs, &"a=1\n".repeat(100), 1);
        assert_eq!(count(&jobs.door.counts.dropped), 36);
        for n in 0..JOB_METRICS_MAX + 10 {
            say(&mut jobs, &format!("m{n}=1"), 1);
        }
        assert_eq!(count(&jobs.door.counts.refused), 11, "'a' is one of them");
        say(&mut jobs, "m0[x]=1", 1);
        assert_eq!(count(&jobs.door.counts.refused), 12, "the same name with and without instances");
        for n in 0..JOB_SERIES_MAX {
            say(&mut jobs, &format!("m0[{n}]=1"), 1);
        }
        assert!(jobs.readings.schema.len() <= JOB_SERIES_MAX);
        say(&mut jobs, "\u{1}\n=\n====\nb=-1", 1);
        assert_eq!(count(&jobs.door.counts.bad), 4);
        let before = count(&jobs.door.counts.dropped);
        for _ in 0..LINES_A_SECOND / 64 + 1 {
            say(&mut jobs, &"a=1\n".repeat(64), 2);
        }
        assert_eq!(count(&jobs.door.counts.dropped) - before, 64 - LINES_A_SECOND % 64);
    }

    #[test]
    fn names_that_nobody_uses_any_more_make_room_and_the_others_keep_their_values() {
        let (mut jobs, job) = jobs();
        let mut room = Vec::new();
        let mut say = |jobs: &mut Jobs, text: &str, second| {
            job.send(text.as_bytes()).unwrap();
            jobs.gather(at(second), &mut room);
        };
        (0..JOB_METRICS_MAX).for_each(|n| say(&mut jobs, &format!("m{n}=1"), 1));
        (0..100).for_each(|n| say(&mut jobs, &format!("job.m{}=2", 2 * n), 200));
        say(&mut jobs, "new=1", 300);
        assert_eq!(jobs.readings.schema.slot("job.new", None), None, "there is no room");
        assert_eq!(jobs.slots_gone(Nanos::from_secs(300)), 0);
        assert_eq!(jobs.slots_gone(Nanos::from_secs(301)), JOB_METRICS_MAX - 100);
        jobs.renew(Nanos::from_secs(301));
        assert_eq!((jobs.slots_gone(Nanos::from_secs(301)), jobs.door.metrics().len()), (0, 100));
        let expected: Vec<String> = (0..100)
            .map(|n| format!("job.m{} {:?}", 2 * n, Reading::Absent(Absence::InstanceGone)))
            .collect();
        assert_eq!(shown(&jobs), expected, "silent for a while, and not for long enough");
        // Both spellings mean the new slot, and a name that was dropped is new.
        say(&mut jobs, "m198=5\njob.m0=6\nm1=7\nnew=8", 302);
        let shown = shown(&jobs);
        assert_eq!((&*shown[99], &*shown[0]), ("job.m198 Present(5)", "job.m0 Present(6)"));
        assert_eq!(shown[100..], ["job.m1 Present(7)", "job.new Present(8)"]);
    }

    #[test]
    fn patterns_speak_of_jobs_before_there_are_any() {
        let (jobs, _job) = jobs();
        let may = |text: &str| jobs.door.may_match(&[Pattern::new(text).unwrap()]);
        assert!(may("*") && may("job.*") && may("job.queue") && may("n[1-2]:job.x[*]"));
        assert!(!may("mem.*") && !may("n1:load.1m"));
    }
}
