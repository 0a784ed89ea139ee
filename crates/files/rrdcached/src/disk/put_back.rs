//! Putting headers back; see [`super::image`]. Writes live headers, and samples only to a file that had them before.
//!
//! After a reboot every header that has an image is put back, and a checkpoint follows, so that it is done once.
//!
//! After a mere kill headers are put back too: one of several pages may be half written, and pages of a disk that could not
//! be synced may be lost. But then others may have gone on writing to the file. So a header is put back only
//!
//! - where the file's time is that of the image or of a sample in the log, and
//! - if all of the log could be read.
//!
//! Samples of the log that the file had before are written to it again at once, for readers that do not use the daemon. After a
//! reboot it is unknown which ones it had, so the file is queued.

use khz_rrd::error::{Error, Result};
use khz_rrd::file::Rrd;
use khz_rrd::text;

use super::DiskFiles;
use super::image::{HeaderImage, Identity};
use super::open_files::open_locked;
use super::write::update_options;
use crate::cache::sample::stamp;
use crate::log::Record;

/// The result for one file at a start.
pub enum Restored {
    /// It is as it was.
    Whole,
    /// Its header is put back, and its samples are still to be written.
    Behind,
    /// Why it was left as it is.
    Left(&'static str),
}

/// The live header to be put back.
struct Fitting {
    live: Vec<u8>,
    is_unconditional: bool,
}

impl DiskFiles {
    /// Puts back the header of the file called `name`, at a start. `samples` are those that the log has for it;
    /// `is_log_whole` says that all of the log could be read.
    ///
    /// # Errors
    /// It cannot be done now.
    pub fn restore(
        &self,
        name: &str,
        images: &[HeaderImage],
        is_log_whole: bool,
        samples: impl FnOnce() -> Vec<String>,
    ) -> Result<Restored> {
        let mut rrd = Rrd::over(open_locked(&self.base, name)?, &text::path(name))?;
        let identity = Identity::of(&rrd)?;
        let Some(Fitting { live, is_unconditional }) = fitting(images, &rrd, &identity) else {
            return Ok(Restored::Left("is another file now"));
        };
        if is_unconditional {
            self.note_disk(identity.device, name)?;
            rrd.write_live(&live)?;
            return Ok(Restored::Behind);
        }
        if !is_log_whole {
            return Ok(Restored::Left("may have samples that the log has lost"));
        }
        let Some(samples) = ours(samples(), &rrd, &live) else {
            return Ok(Restored::Left("was written by somebody else"));
        };
        self.note_disk(identity.device, name)?;
        // Even if it is in the file already: pages that could not be synced count as written, and would not be written again.
        rrd.write_live(&live)?;
        apply(&mut rrd, name, &samples)?;
        Ok(Restored::Whole)
    }

    /// Puts back the torn header of the file called `name`; `samples` wait for it. A file that does not exist needs none.
    ///
    /// # Errors
    /// It cannot be done now.
    pub fn mend(&self, name: &str, images: &[HeaderImage], samples: Vec<String>) -> Result<()> {
        let mended = open_locked(&self.base, name)
            .and_then(|file| Rrd::over(file, &text::path(name)))
            .and_then(|rrd| self.mend_open(name, rrd, images, samples));
        match mended {
            Err(error) if error.is_not_found() => Ok(()),
            mended => mended.map(|_| ()),
        }
    }

    /// Puts back the header of `rrd`, which is locked, and syncs it; `samples` wait for it.
    ///
    /// # Errors
    /// It cannot be done now.
    pub(super) fn mend_open(
        &self,
        name: &str,
        mut rrd: Rrd,
        images: &[HeaderImage],
        samples: Vec<String>,
    ) -> Result<Rrd> {
        let identity = Identity::of(&rrd)?;
        if let Some(Fitting { live, is_unconditional }) = fitting(images, &rrd, &identity)
            && let Some(samples) = if is_unconditional { Some(vec![]) } else { ours(samples, &rrd, &live) }
        {
            rrd.write_live(&live)?;
            apply(&mut rrd, name, &samples)?;
            rrd.file().sync_data().map_err(|error| Error::io("syncing", name, error))?;
        }
        if let Some(log) = &self.log {
            log.stage(&Record::Forget { file: name, from: i64::MAX })?;
        }
        Ok(rrd)
    }
}

/// The `samples` that `rrd` has: up to its newest. `None` if its newest is neither one of them nor the newest of the header `live`:
/// then another program has written the file. Only whole seconds are compared, because a header may be torn after them.
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

/// Updates `rrd` with `samples` that it had before.
fn apply(rrd: &mut Rrd, name: &str, samples: &[String]) -> Result<()> {
    let options = update_options(name);
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    match rrd.update(&samples, &options) {
        Err(Error::Refused(_)) => {}
        updated => return updated.map(|_| ()),
    }
    // One of them has no valid reading, and was dropped before as well.
    for sample in samples {
        match rrd.update(&[sample], &options) {
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Shows `rrd` as it will be when its header is put back.
///
/// # Errors
/// What the system says.
pub fn overlay(images: &[HeaderImage], rrd: &mut Rrd) -> Result<()> {
    let identity = Identity::of(rrd)?;
    if let Some(Fitting { live, .. }) = fitting(images, rrd, &identity) {
        rrd.header.restore_live(&live);
    }
    Ok(())
}

/// The live header of the first image that fits `rrd`.
fn fitting(images: &[HeaderImage], rrd: &Rrd, identity: &Identity) -> Option<Fitting> {
    images.iter().find_map(|image| {
        let live = image.live(rrd, identity)?;
        Some(Fitting { live, is_unconditional: image.is_unconditional() })
    })
}
