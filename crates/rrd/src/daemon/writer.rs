//! Writing samples to their files: opened, locked, imaged, updated, unlocked; decides nothing about when.

use super::checkpoint::unsynced;
use super::image::{Identity, Kept};
use super::log::{Log, Ticket};
use super::nodes::{Flags, Id};
use super::packed::unpack;
use super::pending::{Pending, told};
use super::record::Entry;
use super::stamp::stamp;
use super::state::{State, Taken};
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
    /// Whether the claim on the file ends with the write.
    pub(super) ends_claim: bool,
    pub(super) outcome: Result<Written>,
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
    /// Seconds of the newest sample in the file.
    pub(super) last: u32,
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
            ends_claim: true,
            outcome: refused("not written yet"),
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
        let mut opened: Vec<Result<Open>> = jobs.iter_mut().map(|job| self.open_for(job)).collect();
        self.note_disks(jobs, &mut opened);
        let imaged = self.log_images(jobs, &opened);
        if let Err(error) = &imaged {
            // The log is in trouble, so the files are the better place: only a loss of power just now could tear them.
            self.messages
                .error(&format!("files are written although their headers could not be logged: {error}"));
        }
        for (job, opened) in jobs.iter_mut().zip(opened) {
            let written = opened.and_then(|open| self.write_open(open, job));
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
        Ok(Written { refused, last })
    }
}
