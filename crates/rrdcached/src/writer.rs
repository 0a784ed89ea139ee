//! Writing samples to their files: opened, locked, imaged, updated, unlocked; decides nothing about when.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::checkpoint::unsynced;
use crate::image::{Identity, Kept};
use crate::log::{Log, Ticket};
use crate::nodes::{Flags, Id};
use crate::packed::unpack;
use crate::pending::{Pending, told};
use crate::record::Entry;
use crate::stamp::{self, stamp};
use crate::state::{State, Taken};
use crate::write_back;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::{self, Rrd};
use khz_rrd::update::{Failure, Options};

/// A file's samples on their way to it.
pub(super) struct Job {
    pub(super) id: Id,
    pub(super) name: String,
    pub(super) taken: Taken,
    /// The file may have some of them.
    replayed: bool,
    /// When the file was written last, in seconds; 0 where that is not known.
    written: u32,
    /// Numbers the checkpoint before the write.
    epoch: u64,
    /// Since then the log has the header of the file.
    imaged: bool,
    /// Which file that was.
    identity: u32,
    /// Its header is to be put back first.
    torn: Option<Vec<Kept>>,
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

/// A file about to be written.
struct Open {
    rrd: Rrd,
    /// Where a log wants to know.
    identity: Option<Identity>,
}

/// What a write did.
pub(super) struct Written {
    /// Samples the file refused for good.
    pub(super) refused: u32,
    /// Why, where there are any.
    pub(super) dropped: Option<String>,
    /// Stamp of the newest sample in the file, in microseconds.
    pub(super) newest: i64,
}

impl Job {
    /// Takes the samples of a file out.
    pub(super) fn new(state: &mut State, id: Id) -> Self {
        let taken = state.take_out(id);
        let name = state.nodes.name(id).to_string();
        let torn = state.torn.remove(&name);
        let (node, epoch) = (&state.nodes[id], state.queue.epoch);
        Self {
            id,
            name,
            taken,
            replayed: node.is(Flags::REPLAYED),
            written: node.written,
            epoch,
            imaged: node.imaged != 0 && node.imaged == epoch as u32,
            identity: node.identity,
            torn,
            other_sources: false,
            ends_claim: true,
            outcome: refused("not written yet"),
            _underway: Underway,
        }
    }

    /// Whether somebody else has put a file in the place of the one imaged, tuned it, or written to it since.
    fn touched(&self, open: &Open) -> bool {
        let same = open.identity.is_some_and(|identity| identity.sum() == self.identity);
        !same || (self.written != 0 && open.rrd.header.last_update() > i64::from(self.written))
    }

    /// Notes what the log has of the file's header, and what is still to be done to it.
    pub(super) fn settle(&mut self, state: &mut State) {
        let node = &mut state.nodes[self.id];
        node.imaged = if self.imaged { self.epoch as u32 } else { 0 };
        node.identity = self.identity;
        if let Some(torn) = self.torn.take() {
            state.torn.insert(&self.name, torn);
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
        let mut opened: Vec<Result<Open>> =
            jobs.iter_mut().map(|job| contained(|| self.open_for(job))).collect();
        self.note_disks(jobs, &mut opened);
        let imaged = self.log_images(jobs, &opened);
        if let Err(error) = &imaged {
            // The log is in trouble, so the files are the better place: only a loss of power just now could tear them.
            self.messages
                .error(&format!("files are written although their headers could not be logged: {error}"));
        }
        for (job, opened) in jobs.iter_mut().zip(opened) {
            let written = opened.and_then(|open| contained(|| self.write_open(open, job)));
            job.outcome = written.map_err(told);
        }
        if imaged.is_err() {
            // The next image must not be one of a header whose rows may be lost.
            self.sync_disks();
        }
    }

    /// Opens and locks the file of `job`, and puts its header back where that is still to be done.
    fn open_for(&self, job: &mut Job) -> Result<Open> {
        let mut rrd = self.open.take(job.id, &job.name, &self.base)?;
        if let Some(images) = &job.torn {
            rrd = self.mend_open(&job.name, rrd, images, unpack(&job.taken.bytes).collect())?;
            (job.torn, job.imaged) = (None, false);
        }
        let identity = self.log.as_ref().map(|_| Identity::of(&rrd)).transpose()?;
        Ok(Open { rrd, identity })
    }

    /// Has the next checkpoint sync the disks of `opened`. Before they are written: what goes wrong from now on is told
    /// to the handles kept.
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
        let (mut fresh, mut last, mut outcome) = (vec![], None, Ok(()));
        for (index, (job, open)) in jobs.iter_mut().zip(opened).enumerate() {
            let Ok(open) = open else { continue };
            if job.imaged && !job.touched(open) {
                continue;
            }
            match self.stage_image(log, job, open) {
                Ok(ticket) => {
                    last = Some(ticket);
                    fresh.push(index);
                }
                Err(error) => outcome = Err(error),
            }
        }
        let hardened = last.map_or(Ok(()), |ticket| log.harden(ticket));
        if hardened.is_err() {
            fresh.iter().for_each(|index| jobs[*index].imaged = false);
        }
        hardened.and(outcome)
    }

    fn stage_image(&self, log: &Log, job: &mut Job, open: &Open) -> Result<Ticket> {
        let Some(identity) = open.identity else { return refused("BUG: a file without identity") };
        if job.imaged && log.kept().is_none() {
            // With its old header it would lose what somebody else has done to it; on disk it needs none.
            match open.rrd.file().sync_data() {
                Ok(()) => drop(log.stage(&Entry::Forget { file: &job.name, from: i64::MAX })?),
                Err(error) => self.distrust(log, unsynced(&job.name, &error)),
            }
        }
        let kept = identity.image(job.epoch, open.rrd.header.live());
        let ticket = log.stage(&Entry::Image { file: &job.name, image: kept.image(job.epoch) });
        (job.imaged, job.identity) = (ticket.is_ok(), identity.sum());
        ticket
    }

    fn write_open(&self, mut open: Open, job: &mut Job) -> Result<Written> {
        let written = self.write(&mut open.rrd, job);
        if let (true, Some(log)) = (open.rrd.is_torn(), &self.log) {
            self.distrust(log, format!("the header of '{}' is half written", job.name));
        }
        let written = written?;
        self.open.give(job.id, open.rrd);
        Ok(written)
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
        Ok(Written { refused: count, dropped, newest: newest(rrd) })
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
            let test = "writer::tests::a_panic_beside_a_write_that_is_under_way_ends_the_process";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let output = child.args(["--exact", test]).env(CHILD, "1").output().unwrap();
            // Not the harness's own end of a test that failed.
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
            return;
        }
        let mut state = State::default();
        let id = state.nodes.find_or_make("a.rrd").unwrap();
        let job = Job::new(&mut state, id);
        panic!("while {} is written", job.name);
    }
}
