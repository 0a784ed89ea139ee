//! Writing samples to their files: opened, locked, imaged, updated, unlocked; decides nothing about when.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::image;
use super::nodes::Id;
use super::packed::unpack;
use super::pending::{Pending, told};
use super::record::{Entry, Image};
use super::stamp::{self, stamp};
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
    /// Its file has other sources than its samples were taken for.
    pub(super) other_sources: bool,
    /// Whether the claim on the file ends with the write.
    pub(super) ends_claim: bool,
    pub(super) outcome: Result<Written>,
    _underway: Underway,
}

/// Stands for a write begun and not accounted for. A panic on that way would leave the count of writes under way wrong,
/// and the next checkpoint would wait for ever with all writes held back; the log has everything.
struct Underway;

impl Drop for Underway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// What a write did.
pub(super) struct Written {
    /// Samples the file refused for good.
    pub(super) refused: u32,
    /// Why, where there are any.
    pub(super) dropped: Option<String>,
    /// Stamp of the newest sample in the file, in microseconds.
    pub(super) newest: i64,
    /// The disk, and a handle to sync it by.
    pub(super) handle: Option<(u64, File)>,
}

impl Job {
    pub(super) fn new(id: Id, name: String, taken: Taken, replayed: bool, imaged: bool) -> Self {
        let outcome = refused("not written yet");
        Self {
            id,
            name,
            taken,
            replayed,
            imaged,
            imaged_now: None,
            other_sources: false,
            ends_claim: true,
            outcome,
            _underway: Underway,
        }
    }
}

/// Does the work on one file. A panic in it is our fault and must not become every file's: the file's samples are kept.
fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Whatever the work had of the file is gone with it, and the file is read anew.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| refused("BUG: the daemon failed over this file"))
}

/// Stamp of the newest sample in a file, in microseconds.
fn newest(rrd: &Rrd) -> i64 {
    rrd.header.last_update().saturating_mul(1_000_000).saturating_add(rrd.header.last_update_usec())
}

/// The samples of a job that are newer than `newest`, and how many are not.
fn newer(job: &Job, newest: i64) -> (Vec<String>, u32) {
    let is_newer = |sample: &String| stamp(sample).is_none_or(|stamp| stamp > newest);
    let samples: Vec<String> = unpack(&job.taken.bytes).filter(is_newer).collect();
    let old = job.taken.count.saturating_sub(samples.len() as u32);
    (samples, old)
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
            jobs.iter().map(|job| contained(|| self.open.take(job.id, &job.name, &self.base))).collect();
        if let Err(error) = self.log_images(jobs, &opened) {
            // The log is in trouble, so the files are the better place: only a loss of power just now could tear them.
            self.messages
                .error(&format!("files are written although their headers could not be logged: {error}"));
        }
        for (job, opened) in jobs.iter_mut().zip(opened) {
            let written = opened.and_then(|mut rrd| {
                contained(|| {
                    let written = self.write(&mut rrd, job)?;
                    self.open.give(job.id, rrd);
                    Ok(written)
                })
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

    fn write(&self, rrd: &mut Rrd, job: &mut Job) -> Result<Written> {
        let (samples, old) = newer(job, newest(rrd));
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        let (mut count, mut dropped) = (0, None);
        if old > 0 && !job.replayed {
            count += old;
            let why = "not newer than the file, which somebody else has written";
            self.messages.error(&format!("{}: {old} updates are {why}, and are dropped", job.name));
            dropped = Some(why.to_string());
        }
        let options = options(&job.name);
        match rrd.update(&samples, &options) {
            Ok(_) => {}
            Err(Error::Refused(_)) => {
                let readings = rrd.header.readings();
                job.other_sources = samples.iter().any(|sample| stamp::readings(sample) != readings);
                if job.other_sources {
                    return refused(format!(
                        "'{}' has {readings} data sources now, other than updates were taken for; FORGET drops them",
                        job.name
                    ));
                }
                // One of them is no reading; the others must not be lost with it.
                for sample in samples {
                    match rrd.update(&[sample], &options) {
                        Ok(_) => {}
                        Err(Error::Refused(why)) => {
                            count += 1;
                            self.messages.error(&format!("the update {sample} is dropped: {why}"));
                            // Without the file's name, which is told anyway.
                            let named = format!("{}: ", job.name);
                            dropped = Some(why.strip_prefix(&named).unwrap_or(&why).to_string());
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
        let handle = self.handle(rrd, &job.name)?;
        Ok(Written { refused: count, dropped, newest: newest(rrd), handle })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_over_one_file_is_that_files_error() {
        assert_eq!(contained(|| Ok(1)).unwrap(), 1);
        let error = contained::<()>(|| panic!("over one file")).unwrap_err();
        assert_eq!(error.to_string(), "BUG: the daemon failed over this file");
    }

    #[test]
    fn a_panic_beside_a_write_that_is_under_way_ends_the_process() {
        use std::os::unix::process::ExitStatusExt;
        const CHILD: &str = "KHZ_RRD_PANICS";
        if std::env::var_os(CHILD).is_none() {
            let test = "daemon::writer::tests::a_panic_beside_a_write_that_is_under_way_ends_the_process";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let output = child.args(["--exact", test]).env(CHILD, "1").output().unwrap();
            // Not the harness's own end of a test that failed.
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
            return;
        }
        let taken = Taken { bytes: vec![], count: 0, oldest: 0, since: 0 };
        let job = Job::new(0, "a.rrd".into(), taken, false, false);
        panic!("while {} is written", job.name);
    }
}
