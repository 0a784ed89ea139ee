//! The numbers that jobs publish (`docs/publish.md`), as a source: each gather takes the datagrams that are
//! in the socket. It never waits; beyond its limits it drops and counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::labels::LABELS_BYTES_MAX;
use khz_model::name::{INSTANCE_MAX, METRIC_NAME_MAX};
use khz_model::{Absence, Metric, Nanos, Reading, Repeats, Series, Stamp};
use rustix::net::RecvFlags;

use crate::job_door::{JobDoor, Refusal};
use crate::job_names::JobNameError;
use crate::publication::{Description, Publication, timely};
use crate::readings::Readings;

/// The source's name.
pub(crate) const SOURCE: &str = "jobs";

/// The most names for the jobs of a node: a program that invents names without end must not fill every hub.
pub const JOB_METRICS_MAX: usize = 256;
/// The most names with their instances: a few for each core of a large node.
pub const JOB_SERIES_MAX: usize = 1_024;
/// The most bytes of all names with their instances and labels: 1 KiB for each of [`JOB_SERIES_MAX`]. Every hub
/// keeps them, and the schema is written whole.
pub const JOB_NAMES_BYTES_MAX: usize = 1 << 20;
/// The longest name with its instance and labels.
const NAME_BYTES_MAX: usize = METRIC_NAME_MAX + INSTANCE_MAX + LABELS_BYTES_MAX;
/// The most spellings of names that are remembered: `queue` and `job.queue` are two.
const SPELLINGS_MAX: usize = 2 * JOB_SERIES_MAX;
/// The most bytes of these spellings.
const SPELLINGS_BYTES_MAX: usize = 2 * JOB_NAMES_BYTES_MAX;
/// The largest datagram in bytes.
pub const DATAGRAM_MAX: usize = 8_192;
/// The most lines of a datagram.
pub const LINES_MAX: usize = 64;
/// The most datagrams in one gather, which takes a fifth of a millisecond; the others wait in the socket.
pub const DATAGRAMS_AT_ONCE: usize = 32;
/// The most lines in a second, which take a hundredth of a core.
pub const LINES_A_SECOND: u64 = 10_000;
/// The most bytes of lines in a second: 200 for each of [`LINES_A_SECOND`]. A line with 64 labels takes as long as
/// many short ones.
pub const LINE_BYTES_A_SECOND: usize = 2 << 20;
/// A number becomes absent after this time without a new value.
pub const SILENT_AFTER: Nanos = Nanos::from_secs(30);
/// A slot that has had no value for this long can be given back (`renewal.rs`). So a job that invents names cannot
/// keep others out for much longer.
pub const STALE_AFTER: Nanos = Nanos::from_secs(300);

/// The numbers that jobs have published, slot by slot.
pub(crate) struct Jobs {
    door: Arc<JobDoor>,
    readings: Readings,
    /// When each slot last got a value.
    heard: Vec<Nanos>,
    /// When the value of each slot was measured, in nanoseconds since boot: nobody sets that clock.
    measured: Vec<i64>,
    /// Bytes of all names with their instances and labels.
    names_bytes: usize,
    spellings: HashMap<Box<str>, u32>,
    spellings_bytes: usize,
    second: Second,
    /// Lines whose name was another's at Prometheus.
    collisions: Repeats,
}

/// The current second, and what was taken in it until now.
#[derive(Default)]
struct Second {
    number: u64,
    lines: u64,
    bytes: usize,
}

impl Jobs {
    pub fn new(door: Arc<JobDoor>) -> Self {
        Jobs {
            door,
            readings: Readings::default(),
            heard: Vec::new(),
            measured: Vec::new(),
            names_bytes: 0,
            spellings: HashMap::new(),
            spellings_bytes: 0,
            second: Second::default(),
            collisions: Repeats::default(),
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
        let second = now.boot.0 / Nanos::SECOND.0;
        if self.second.number != second {
            self.second = Second { number: second, ..Second::default() };
            self.forget_the_silent(now.boot);
        }
        for _ in 0..DATAGRAMS_AT_ONCE {
            let room = &mut room[..DATAGRAM_MAX];
            // With TRUNC the kernel says how long the datagram was before it was cut.
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let Ok((_, length)) = rustix::net::recv(self.door.socket(), &mut *room, flags) else { break };
            add(&self.door.counts.datagrams, 1);
            self.datagram(room, length, now);
        }
        self.readings.changed.sort_unstable();
        self.readings.changed.dedup();
    }

    /// Takes the lines of a datagram of `length` bytes, as far as `room` has them.
    fn datagram(&mut self, room: &[u8], length: usize, now: Stamp) {
        let bytes = match room.get(..length) {
            Some(bytes) => bytes,
            None => {
                // The last line is cut, and the first digits of a number are another number.
                add(&self.door.counts.dropped, 1);
                let end = room.iter().rposition(|&byte| byte == b'\n');
                &room[..end.unwrap_or(0)]
            }
        };
        let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        for (number, line) in lines.filter(|line| !line.is_empty()).enumerate() {
            if number >= LINES_MAX || !self.second.takes(line) {
                add(&self.door.counts.dropped, 1);
                continue;
            }
            let taken = match std::str::from_utf8(line) {
                Ok(line) => self.line(line, now),
                Err(_) => Err(Refusal::Bad),
            };
            add(taken.map_or_else(|refusal| self.door.counts.of(refusal), |()| &self.door.counts.values), 1);
        }
    }

    fn line(&mut self, line: &str, now: Stamp) -> Result<(), Refusal> {
        let publication = Publication::read(line)?;
        let measured = publication.options.time.map(|time| measured(time, now)).transpose()?;
        let slot = match self.spellings.get(publication.spelled) {
            Some(&slot) => slot as usize,
            None => self.first_seen(&publication, now.boot)? as usize,
        };
        let metric = &self.readings.schema.get(slot).ok_or(Refusal::Bad)?.metric;
        let bits = fitting(&publication, metric)?;
        // A value without a time is the newest: it was measured when it came.
        let measured = measured.unwrap_or(now.boot.0.cast_signed().max(self.measured[slot]));
        if measured < self.measured[slot] {
            return Err(Refusal::Overtaken);
        }
        self.measured[slot] = measured;
        self.heard[slot] = now.boot;
        self.readings.set(slot, Reading::Present(bits));
        Ok(())
    }

    /// Handles a new spelling, which usually means a new slot.
    #[cold]
    fn first_seen(&mut self, publication: &Publication<'_>, now: Nanos) -> Result<u32, Refusal> {
        let said = publication.describe()?;
        let known = self.readings.schema.slot(&said.name, said.instance.as_ref());
        let slot = known.map_or_else(|| self.new_slot(said, publication, now), Ok)?;
        let bytes = self.spellings_bytes + publication.spelled.len();
        if self.spellings.len() < SPELLINGS_MAX && bytes <= SPELLINGS_BYTES_MAX {
            self.spellings.insert(publication.spelled.into(), slot);
            self.spellings_bytes = bytes;
        }
        Ok(slot)
    }

    fn new_slot(
        &mut self,
        said: Description,
        publication: &Publication<'_>,
        now: Nanos,
    ) -> Result<u32, Refusal> {
        if !self.has_room() {
            return Err(Refusal::TooMany);
        }
        let metric = self.door.metric(&said).map_err(|error| self.refused(error, now))?;
        // The name may be known, and be of another type than this line would have made it.
        fitting(publication, &metric)?;
        let slot = self.readings.schema.len() as u32;
        self.append(Series { metric, instance: said.instance });
        Ok(slot)
    }

    /// Gives a series the next slot, without a value yet.
    fn append(&mut self, series: Series) {
        let instance = series.instance.as_ref();
        self.names_bytes += series.metric.name.len() + instance.map_or(0, |instance| instance.bytes());
        self.readings.append(series);
        self.heard.push(Nanos(0));
        self.measured.push(i64::MIN);
    }

    /// Only the log can say which two names collide.
    fn refused(&mut self, error: JobNameError, now: Nanos) -> Refusal {
        if matches!(error, JobNameError::Collided { .. })
            && let Some(times) = self.collisions.happened(now)
        {
            tracing::warn!("a number of a job is refused{times}: {error}");
        }
        error.into()
    }

    /// True if one more series fits, however long its name is.
    fn has_room(&self) -> bool {
        self.readings.schema.len() < JOB_SERIES_MAX
            && self.names_bytes + NAME_BYTES_MAX <= JOB_NAMES_BYTES_MAX
    }

    /// The number of slots without a value for [`STALE_AFTER`].
    pub fn slots_gone(&self, now: Nanos) -> usize {
        self.heard.iter().filter(|&&heard| now.since(heard) >= STALE_AFTER).count()
    }

    /// Gives those slots back: the others get new ones, and names without a slot make room for other names.
    pub fn renew(&mut self, now: Nanos) {
        let before = std::mem::take(&mut self.readings);
        let (heard, measured) = (std::mem::take(&mut self.heard), std::mem::take(&mut self.measured));
        let mut new_slots = vec![None; heard.len()];
        self.names_bytes = 0;
        for (slot, (heard, measured)) in heard.into_iter().zip(measured).enumerate() {
            let Some(series) = before.schema.get(slot).filter(|_| now.since(heard) < STALE_AFTER) else {
                continue;
            };
            let new = self.heard.len();
            self.append(series.clone());
            self.readings.take_over(new, &before, slot);
            (self.heard[new], self.measured[new]) = (heard, measured);
            new_slots[slot] = Some(new as u32);
        }
        self.spellings.retain(|_, slot| match new_slots[*slot as usize] {
            Some(new) => {
                *slot = new;
                true
            }
            None => false,
        });
        self.spellings_bytes = self.spellings.keys().map(|spelled| spelled.len()).sum();
        self.door.keep_names(self.readings.schema.series());
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

impl Second {
    /// Counts a line; `false`: there were too many.
    fn takes(&mut self, line: &[u8]) -> bool {
        let (lines, bytes) = (self.lines + 1, self.bytes + line.len());
        let fits = lines <= LINES_A_SECOND && bytes <= LINE_BYTES_A_SECOND;
        if fits {
            (self.lines, self.bytes) = (lines, bytes);
        }
        fits
    }
}

/// The bits of the value, if the line declares nothing that differs from the metric of its name.
fn fitting(publication: &Publication<'_>, metric: &Metric) -> Result<u64, Refusal> {
    if !publication.options.agree_with(metric) {
        return Err(Refusal::Mismatched);
    }
    Ok(publication.number.bits(metric.format(), metric.kind)?)
}

/// A time since 1970 as nanoseconds since boot: setting the wall clock must not make new values look old.
fn measured(time: Nanos, now: Stamp) -> Result<i64, Refusal> {
    let real = now.real();
    timely(time, real)?;
    // The two are minutes apart, so the difference is small, whatever their size is.
    let age = real.0.wrapping_sub(time.0).cast_signed();
    Ok(now.boot.0.cast_signed() - age)
}

/// Adds without an atomic addition: only one thread counts.
fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
