//! Headers put back at a start; see [`crate::image`]. Reads what the log has of images, and writes live headers, no
//! samples.
//!
//! What may stand in the log of one file, in its order, and which image counts:
//!
//! - Images of several checkpoints, because a file is imaged once after each, and a checkpoint's record comes when its disk
//!   is synced, behind images of writes that began meanwhile. Each record makes the images before it void; the first of
//!   the others is the file's last state known to be on disk whole. Without a record (the sync failed, the log was full)
//!   it is an older one, and its samples are still there as well.
//! - A forget that says that another file has the name, or that the file is on disk as it is (tuned, or found changed by
//!   somebody else): the images before it are void.
//! - Images of a file that has lost its name to another, or of another definition: the first that fits counts.
//! - Images without end: of headers that could not be put back when they should have been. Void when that is done.
//! - Segments begin with the boot they were written in. Where that cannot be read it counts as another one.
//!
//! After a reboot every header is put back, and a checkpoint follows, so that it is done once. After a mere kill, too: a
//! header of several pages may be half written, and pages of a disk that could not be synced may be lost. Then, however,
//! others may have gone on writing to the file: so only where its time is that of the image or of a sample in the log,
//! and only if all of the log could be read. What the file had of the log is written to it again at once, for those who
//! read it past the daemon; after a reboot nobody knows what it had, and the file is written soon.

use std::collections::HashMap;
use std::io::ErrorKind;

use crate::image::{Identity, Kept};
use crate::open_files::open_locked;
use crate::pending::Pending;
use crate::record::{Entry, Image, WITHOUT_END};
use crate::stamp::stamp;
use crate::writer::options;
use khz_rrd::error::{Error, Result};
use khz_rrd::file::Rrd;
use khz_rrd::text;

/// What is read of images, file by file.
pub(super) struct Images {
    boot: String,
    /// The boot that the records being read were written in; nothing where it is not known.
    theirs: String,
    kept: HashMap<String, Vec<Kept>>,
    /// The newest number of an image or a checkpoint.
    sequence: u64,
}

/// What was put back.
pub(super) struct Restored {
    /// Files that lack what they had.
    pub(super) behind: Vec<String>,
    /// Whether there were images of another boot.
    pub(super) rebooted: bool,
    /// The newest number in the log.
    pub(super) sequence: u64,
}

/// What became of one file.
enum Back {
    /// It is as it was.
    Whole,
    /// Its samples are still to be written.
    Behind,
    /// Why it was left as it is.
    Left(&'static str),
}

impl Images {
    pub(super) fn new(boot: &str) -> Self {
        Self { boot: boot.into(), theirs: String::new(), kept: HashMap::new(), sequence: 0 }
    }

    /// A segment's records follow.
    pub(super) fn begin(&mut self) {
        self.theirs.clear();
    }

    pub(super) fn boot(&mut self, id: &str) {
        self.theirs = id.into();
    }

    pub(super) fn keep(&mut self, file: &str, image: &Image<'_>) {
        let endless = image.sequence == WITHOUT_END;
        if !endless {
            self.number(image.sequence);
        }
        let must = endless || self.theirs.is_empty() || self.theirs != self.boot;
        self.kept.entry(file.into()).or_default().push(Kept::new(image, must));
    }

    pub(super) fn checkpoint(&mut self, sequence: u64) {
        self.number(sequence);
        self.kept.retain(|_, kept| {
            kept.retain(|image| image.sequence >= sequence);
            !kept.is_empty()
        });
    }

    pub(super) fn forget(&mut self, file: &str, from: i64) {
        if from == i64::MIN || from == i64::MAX {
            self.kept.remove(file);
        }
    }

    fn number(&mut self, sequence: u64) {
        // Half of the numbers are more than there ever will be, and there is room behind them.
        self.sequence = self.sequence.max(sequence.min(u64::MAX / 2));
    }
}

impl Pending {
    /// Puts back the headers of all files that have images. `whole` says that all of the log could be read.
    pub(super) fn restore(&self, images: Images, whole: bool) -> Restored {
        let rebooted = images.kept.values().flatten().any(|image| image.must);
        let mut restored = Restored { behind: vec![], rebooted, sequence: images.sequence };
        let (mut failures, mut first) = (0, None);
        for (name, kept) in images.kept {
            match self.put_back(&name, &kept, whole) {
                Ok(Back::Whole) => {}
                Ok(Back::Behind) => restored.behind.push(name),
                Ok(Back::Left(why)) => self.messages.warning(&format!("{name} {why} and is left as it is")),
                Err(error) => {
                    failures += 1;
                    first.get_or_insert_with(|| format!("{name}: {error}"));
                    self.keep_torn(&name, kept);
                }
            }
        }
        if let Some(first) = first {
            self.messages.error(&format!(
                "{failures} headers could not be put back and are tried again before their files are written: {first}"
            ));
        }
        restored
    }

    /// Remembers that the header of the file called `name` is to be put back, here and in the log.
    fn keep_torn(&self, name: &str, kept: Vec<Kept>) {
        let logged = kept.iter().any(|image| image.sequence == WITHOUT_END);
        if let Some(log) = self.log.as_ref().filter(|_| !logged) {
            let stage =
                |image: &Kept| log.stage(&Entry::Image { file: name, image: image.image(WITHOUT_END) });
            if let Err(error) = kept.iter().try_for_each(|image| stage(image).map(|_| ())) {
                self.messages.error(&format!("{name}: its header could not be logged again: {error}"));
            }
        }
        self.lock().torn.insert(name, kept);
    }

    fn put_back(&self, name: &str, images: &[Kept], whole: bool) -> Result<Back> {
        let mut rrd = Rrd::over(open_locked(&self.base, name)?, &text::path(name))?;
        let identity = Identity::of(&rrd)?;
        let Some((must, live)) = fitting(images, &rrd, &identity) else {
            return Ok(Back::Left("is another file now"));
        };
        if must {
            self.note_disk(identity.device, name)?;
            rrd.write_live(&live)?;
            return Ok(Back::Behind);
        }
        if !whole {
            return Ok(Back::Left("may have samples that the log has lost"));
        }
        let Some(samples) = ours(self.logged(name), &rrd, &live) else {
            return Ok(Back::Left("was written by somebody else"));
        };
        self.note_disk(identity.device, name)?;
        // Even if it is there already: what could not be synced counts as written, and nobody would write it again.
        rrd.write_live(&live)?;
        apply(&mut rrd, name, &samples)?;
        Ok(Back::Whole)
    }

    /// The samples that wait for the file called `name`; at a start, those the log has.
    fn logged(&self, name: &str) -> Vec<String> {
        let state = self.lock();
        state.nodes.find(name).map_or(vec![], |id| self.samples(&state, id))
    }

    /// Puts back the header of the claimed file called `name`, if that is still to be done and the file is there.
    ///
    /// # Errors
    /// It cannot be done now either.
    pub(super) fn mend(&self, name: &str) -> Result<()> {
        let Some(images) = self.lock().torn.remove(name) else { return Ok(()) };
        let mended = open_locked(&self.base, name)
            .and_then(|file| Rrd::over(file, &text::path(name)))
            .and_then(|rrd| self.mend_open(name, rrd, &images, self.logged(name)).map(|_| ()));
        match mended {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => {
                self.lock().torn.insert(name, images);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Puts back the header of `rrd`, locked, which is on disk then; `samples` wait for it.
    ///
    /// # Errors
    /// It cannot be done now.
    pub(super) fn mend_open(
        &self,
        name: &str,
        mut rrd: Rrd,
        images: &[Kept],
        samples: Vec<String>,
    ) -> Result<Rrd> {
        let identity = Identity::of(&rrd)?;
        if let Some((must, live)) = fitting(images, &rrd, &identity)
            && let Some(samples) = if must { Some(vec![]) } else { ours(samples, &rrd, &live) }
        {
            rrd.write_live(&live)?;
            apply(&mut rrd, name, &samples)?;
            rrd.file().sync_data().map_err(|error| Error::io("syncing", name, error))?;
        }
        if let Some(log) = &self.log {
            log.stage(&Entry::Forget { file: name, from: i64::MAX })?;
        }
        Ok(rrd)
    }
}

/// Those of `samples` up to the newest in `rrd`, if that is one of them or the one of its header `live` before. Whole
/// seconds are compared: a header may be torn behind them.
fn ours(mut samples: Vec<String>, rrd: &Rrd, live: &[u8]) -> Option<Vec<String>> {
    let last = rrd.header.last_update();
    if live.first_chunk::<8>().map(|bytes| i64::from_le_bytes(*bytes)) == Some(last) {
        return Some(vec![]);
    }
    let seconds = |sample: &String| stamp(sample).map(|stamp| stamp.div_euclid(1_000_000));
    let newest = samples.iter().rposition(|sample| seconds(sample) == Some(last))?;
    samples.truncate(newest + 1);
    Some(samples)
}

/// Updates `rrd` with `samples` that it had taken once.
fn apply(rrd: &mut Rrd, name: &str, samples: &[String]) -> Result<()> {
    let options = options(name);
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    match rrd.update(&samples, &options) {
        Err(Error::Refused(_)) => {}
        updated => return updated.map(|_| ()),
    }
    // One of them is no reading, and was dropped then as well.
    for sample in samples {
        match rrd.update(&[sample], &options) {
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Shows `rrd` as it will be when its header is put back.
pub(super) fn overlay(images: &[Kept], rrd: &mut Rrd) -> Result<()> {
    let identity = Identity::of(rrd)?;
    if let Some((_, live)) = fitting(images, rrd, &identity) {
        rrd.header.restore_live(&live);
    }
    Ok(())
}

/// The live header of the first image of `rrd`, and whether it must be put back.
fn fitting(images: &[Kept], rrd: &Rrd, identity: &Identity) -> Option<(bool, Vec<u8>)> {
    images.iter().find_map(|image| Some((image.must, image.live(rrd, identity)?)))
}
