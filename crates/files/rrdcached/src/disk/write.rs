//! Writing samples to their files, each in these steps: open and lock, put back a torn header, log an image of the header,
//! update, unlock.

use std::panic::{AssertUnwindSafe, catch_unwind};

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::{self, Rrd};
use khz_rrd::update::{Failure, Options};

use super::image::Identity;
use super::{DiskFiles, unsynced, with_place, write_back};
use crate::cache::{Job, Written, sample};
use crate::log::{Log, Record, Ticket};

/// A file about to be written.
struct Open {
    rrd: Rrd,
    /// Which file it is, where a log wants to know.
    identity: Option<Identity>,
}

/// Samples that were not written.
#[derive(Default)]
struct Dropped {
    count: u32,
    /// Why the last of them.
    why: Option<String>,
}

/// How the daemon updates the file called `name`.
pub fn update_options(name: &str) -> Options<'_> {
    Options {
        name,
        template: None,
        // Replay offers what is already there.
        skip_past: true,
        now: file::clock(),
        failure: Failure::ChangesNothing,
        record: false,
    }
}

/// Does the work on one file. A panic in it becomes an error of this file only, and its samples are kept.
fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // The panic lost the state of the file, so the file is read again.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| refused("BUG: the daemon failed over this file"))
}

/// Stamp of the newest sample in a file, in microseconds.
pub fn newest(rrd: &Rrd) -> i64 {
    rrd.header.last_update().saturating_mul(1_000_000).saturating_add(rrd.header.last_update_usec())
}

/// Whether somebody else has replaced, tuned or updated the file since the log got its image.
fn is_changed_by_others(job: &Job, open: &Open) -> bool {
    let is_same = open.identity.is_some_and(|identity| identity.sum() == job.identity);
    !is_same || (job.on_disk != 0 && open.rrd.header.last_update() > i64::from(job.on_disk))
}

impl DiskFiles {
    /// Writes `jobs`, each to its file, in this order.
    pub fn write(&self, jobs: &mut [Job]) {
        let mut opened: Vec<Result<Open>> =
            jobs.iter_mut().map(|job| contained(|| self.open_for(job))).collect();
        self.note_disks(jobs, &mut opened);
        let imaged = self.log_images(jobs, &opened);
        if let Err(error) = &imaged {
            // The log is in trouble, so the files are the better place. Only a loss of power just now could tear them.
            self.messages
                .error(&format!("files are written although their headers could not be logged: {error}"));
        }
        for (job, opened) in jobs.iter_mut().zip(opened) {
            let written = opened.and_then(|open| contained(|| self.write_open(open, job)));
            job.outcome = written.map_err(with_place);
        }
        if imaged.is_err() {
            // The next image must not be one of a header whose rows may be lost.
            self.sync(&self.disks.written());
        }
    }

    /// Opens and locks the file of `job`, and puts its header back where that is still to be done.
    fn open_for(&self, job: &mut Job) -> Result<Open> {
        let mut rrd = self.open.take(job.id, &job.name, &self.base)?;
        if let Some(images) = &job.torn {
            rrd = self.mend_open(&job.name, rrd, images, job.taken.samples().collect())?;
            (job.torn, job.has_image) = (None, false);
        }
        let identity = self.log.as_ref().map(|_| Identity::of(&rrd)).transpose()?;
        Ok(Open { rrd, identity })
    }

    /// Has the next checkpoint sync the disks of `opened`; before a write, so that the kernel reports what fails from now
    /// on.
    fn note_disks(&self, jobs: &[Job], opened: &mut [Result<Open>]) {
        let mut noted: Vec<(u64, Result<()>)> = vec![];
        for (job, opened) in jobs.iter().zip(opened) {
            let Ok(Open { identity: Some(Identity { device, .. }), .. }) = opened else { continue };
            let outcome = match noted.iter().find(|(known, _)| known == device) {
                Some((_, outcome)) => outcome,
                None => {
                    noted.push((*device, self.note_disk(*device, &job.name)));
                    &noted[noted.len() - 1].1
                }
            };
            if let Err(error) = outcome {
                *opened = refused(error.to_string());
            }
        }
    }

    /// Logs the headers of the files opened, unless the log has them, and waits until they are synced.
    fn log_images(&self, jobs: &mut [Job], opened: &[Result<Open>]) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let (mut staged, mut last, mut outcome) = (vec![], None, Ok(()));
        for (index, (job, open)) in jobs.iter_mut().zip(opened).enumerate() {
            let Ok(open) = open else { continue };
            if job.has_image && !is_changed_by_others(job, open) {
                continue;
            }
            match self.stage_image(log, job, open) {
                Ok(ticket) => {
                    last = Some(ticket);
                    staged.push(index);
                }
                Err(error) => outcome = Err(error),
            }
        }
        let synced = last.map_or(Ok(()), |ticket| log.sync_up_to(ticket));
        if synced.is_err() {
            staged.iter().for_each(|index| jobs[*index].has_image = false);
        }
        synced.and(outcome)
    }

    fn stage_image(&self, log: &Log, job: &mut Job, open: &Open) -> Result<Ticket> {
        let Some(identity) = open.identity else { return refused("BUG: a file without identity") };
        if job.has_image && log.kept().is_none() {
            // With its old header, the file would lose the changes of another program. Once it is on disk, the old image is not
            // needed.
            match open.rrd.file().sync_data() {
                Ok(()) => drop(log.stage(&Record::Forget { file: &job.name, from: i64::MAX })?),
                Err(error) => self.distrust(log, unsynced(&job.name, &error)),
            }
        }
        let image = identity.image(job.epoch, open.rrd.header.live());
        let ticket = log.stage(&Record::Image { file: &job.name, image: image.to_record(job.epoch) });
        (job.has_image, job.identity) = (ticket.is_ok(), identity.sum());
        ticket
    }

    fn write_open(&self, mut open: Open, job: &mut Job) -> Result<Written> {
        let written = self.update(&mut open.rrd, job);
        if let (true, Some(log)) = (open.rrd.is_torn(), &self.log) {
            self.distrust(log, format!("the header of '{}' is half written", job.name));
        }
        let written = written?;
        self.open.give(job.id, open.rrd);
        Ok(written)
    }

    fn update(&self, rrd: &mut Rrd, job: &mut Job) -> Result<Written> {
        let (samples, mut dropped) = self.without_old(rrd, job);
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        match rrd.update(&samples, &update_options(&job.name)) {
            Ok(_) => {}
            Err(Error::Refused(_)) => self.update_one_by_one(rrd, job, &samples, &mut dropped)?,
            Err(error) => return Err(error),
        }
        if self.log.is_some() {
            // A checkpoint will sync it.
            write_back::begin(rrd.file());
        }
        Ok(Written { refused: dropped.count, why_refused: dropped.why, newest: newest(rrd) })
    }

    /// The samples of `job` without those that are not newer than the file. These are dropped, with a message
    /// for the administrator, unless the file has them from an earlier run.
    fn without_old(&self, rrd: &Rrd, job: &Job) -> (Vec<String>, Dropped) {
        let newest = newest(rrd);
        let is_newer = |sample: &String| sample::stamp(sample).is_none_or(|stamp| stamp > newest);
        let samples: Vec<String> = job.taken.samples().filter(is_newer).collect();
        let old = job.taken.count().saturating_sub(samples.len() as u32);
        if old == 0 || job.is_replayed {
            return (samples, Dropped::default());
        }
        let why = "not newer than the file, which somebody else has written";
        self.messages.error(&format!("{}: {old} updates are {why}, and are dropped", job.name));
        (samples, Dropped { count: old, why: Some(why.into()) })
    }

    /// One of `samples` was refused: the others must not be lost with it.
    fn update_one_by_one(
        &self,
        rrd: &mut Rrd,
        job: &mut Job,
        samples: &[&str],
        dropped: &mut Dropped,
    ) -> Result<()> {
        let readings = rrd.header.readings();
        job.has_other_sources = samples.iter().any(|sample| sample::readings(sample) != readings);
        if job.has_other_sources {
            return refused(format!(
                "'{}' has {readings} data sources now, other than updates were taken for; FORGET drops them",
                job.name
            ));
        }
        for sample in samples {
            match rrd.update(&[sample], &update_options(&job.name)) {
                Ok(_) => {}
                Err(Error::Refused(why)) => {
                    self.messages.error(&format!("the update {sample} is dropped: {why}"));
                    // Without the file's name, which the answer has anyway.
                    let prefix = format!("{}: ", job.name);
                    dropped.count += 1;
                    dropped.why = Some(why.strip_prefix(&prefix).unwrap_or(&why).to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_over_one_file_is_that_files_error() {
        assert_eq!(contained(|| Ok(1)).unwrap(), 1);
        let error = contained::<()>(|| panic!("over one file")).unwrap_err();
        assert_eq!(error.to_string(), "BUG: the daemon failed over this file");
    }
}
