//! Writing samples to their files: opened, locked, imaged, updated, unlocked; decides nothing about when.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use super::image;
use super::nodes::Id;
use super::packed::unpack;
use super::pending::{Pending, told};
use super::record::{Entry, Image};
use super::stamp::stamp;
use super::state::Taken;
use super::write_back;
use crate::error::{Error, Result, refused};
use crate::file::{self, Rrd};
use crate::update::{Failure, Options};

/// A file's samples on their way to it.
pub(super) struct Job {
    pub(super) id: Id,
    pub(super) name: String,
    pub(super) taken: Taken,
    /// The file may have some of them.
    replayed: bool,
    /// Its header is in the log as it was before writes that are not synced.
    imaged: bool,
    /// The write whose number the image got.
    pub(super) imaged_now: Option<u32>,
    /// Whether the claim on the file ends with the write.
    pub(super) ends_claim: bool,
    pub(super) outcome: Result<Written>,
}

/// What a write did.
pub(super) struct Written {
    /// Samples the file refused for good.
    pub(super) refused: u32,
    /// Seconds of the newest sample in the file.
    pub(super) last: u32,
    /// The disk, and a handle to sync it by.
    pub(super) handle: Option<(u64, File)>,
}

impl Job {
    pub(super) fn new(id: Id, name: String, taken: Taken, replayed: bool, imaged: bool) -> Self {
        let outcome = refused("not written yet");
        Self { id, name, taken, replayed, imaged, imaged_now: None, ends_claim: true, outcome }
    }
}

/// How the daemon updates.
pub(super) fn options(name: &str) -> Options<'_> {
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

impl Pending {
    /// Writes `jobs`, each to its file, in this order.
    pub(super) fn perform(&self, jobs: &mut [Job]) {
        let opened: Vec<Result<Rrd>> =
            jobs.iter().map(|job| self.open.take(job.id, &job.name, &self.base)).collect();
        if let Err(error) = self.log_images(jobs, &opened) {
            // The log is in trouble, so the files are the better place: only a loss of power just now could tear them.
            self.messages
                .error(&format!("files are written although their headers could not be logged: {error}"));
        }
        for (job, opened) in jobs.iter_mut().zip(opened) {
            let written = opened.and_then(|mut rrd| {
                let written = self.write(&mut rrd, job)?;
                self.open.give(job.id, rrd);
                Ok(written)
            });
            job.outcome = written.map_err(told);
        }
    }

    /// Logs the headers of the files opened, unless the log has them, and waits until they are synced.
    fn log_images(&self, jobs: &mut [Job], opened: &[Result<Rrd>]) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let mut sequence = None;
        let mut last = None;
        for (job, rrd) in jobs.iter_mut().zip(opened) {
            let Ok(rrd) = rrd else { continue };
            if job.imaged {
                continue;
            }
            let sequence = *sequence.get_or_insert_with(|| {
                let mut state = self.lock();
                state.queue.sequence += 1;
                state.queue.sequence
            });
            let staged = image::take(rrd).and_then(|(inode, definition, live)| {
                let image = Image { sequence: u64::from(sequence), inode, definition, live: &live };
                log.stage(&Entry::Image { file: &job.name, image })
            });
            last = Some(staged?);
            job.imaged_now = Some(sequence);
        }
        let hardened = last.map_or(Ok(()), |ticket| log.harden(ticket));
        if hardened.is_err() {
            jobs.iter_mut().for_each(|job| job.imaged_now = None);
        }
        hardened
    }

    fn write(&self, rrd: &mut Rrd, job: &Job) -> Result<Written> {
        let samples: Vec<String> = unpack(&job.taken.bytes).collect();
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        let options = options(&job.name);
        let before = rrd.header.last_update().saturating_mul(1_000_000) + rrd.header.last_update_usec();
        let old = samples.iter().filter(|sample| stamp(sample).is_some_and(|stamp| stamp <= before)).count();
        let mut refused = 0;
        if old > 0 && !job.replayed {
            refused += old as u32;
            self.messages.error(&format!(
                "{}: {old} updates are not newer than the file, which somebody else has written, and are dropped",
                job.name
            ));
        }
        match rrd.update(&samples, &options) {
            Ok(_) => {}
            Err(Error::Refused(_)) => {
                // One of them is no reading; the others must not be lost with it.
                for sample in samples {
                    match rrd.update(&[sample], &options) {
                        Ok(_) => {}
                        Err(Error::Refused(why)) => {
                            refused += 1;
                            self.messages.error(&format!("the update {sample} is dropped: {why}"));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
        if self.log.is_some() {
            // A checkpoint will sync it.
            write_back::begin(rrd.file());
        }
        let last = u32::try_from(rrd.header.last_update()).unwrap_or(0);
        Ok(Written { refused, last, handle: self.handle(rrd, &job.name)? })
    }

    /// A handle of the file's disk, if there is none yet and a log waits for it.
    fn handle(&self, rrd: &Rrd, name: &str) -> Result<Option<(u64, File)>> {
        if self.log.is_none() {
            return Ok(None);
        }
        let failed = |error| Error::io("stating", rrd.path(), error);
        let device = rrd.file().metadata().map_err(failed)?.dev();
        if self.lock().queue.handles.contains_key(&device) {
            return Ok(None);
        }
        // Opened anew: a duplicate would keep the lock.
        Ok(Some((device, self.base.open(name, false)?)))
    }
}
