//! What a file is known to be, and looking at it where it is new or seems to have changed; takes no updates.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::MutexGuard;

use crate::nodes::{Flags, Id};
use crate::pending::{Intake, Pending, Update, told};
use crate::place::place;
use crate::stamp;
use crate::state::{Look, Shape, State};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::Rrd;
use khz_rrd::text;

impl Pending {
    /// The number of the file called `name`, looked at if it is new.
    pub(super) fn know<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        name: &str,
        intake: &mut Intake,
    ) -> (MutexGuard<'a, State>, Result<Id>) {
        if let Some(id) = intake.before.and_then(|before| state.nodes.find_next(name, before)) {
            intake.before = Some(id);
            return (state, Ok(id));
        }
        if let Some(id) = state.nodes.find(name).filter(|id| state.nodes[*id].is(Flags::KNOWN)) {
            intake.before = Some(id);
            return (state, Ok(id));
        }
        self.look_at(state, name, intake)
    }

    /// The number of the file called `name`, which is looked at.
    pub(super) fn look_at<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        name: &str,
        intake: &mut Intake,
    ) -> (MutexGuard<'a, State>, Result<Id>) {
        self.stage(&mut state, intake);
        drop(state);
        let looked = self.look(name);
        let mut state = self.lock();
        let outcome = looked.and_then(|look| match state.learn(name, &look) {
            Some(id) => Ok(id),
            None => refused("no more files can be held"),
        });
        (state, outcome)
    }

    /// What the disk says of a file.
    fn look(&self, name: &str) -> Result<Look> {
        let missing = |error: &Error| match error {
            Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        let file = match self.base.open(name, false) {
            Err(error) if missing(&error) => return refused(format!("No such file: {name}")),
            opened => opened?,
        };
        let metadata = file.metadata().map_err(|error| Error::io("stating", name, error))?;
        let kind = metadata.file_type();
        if kind.is_dir()
            || kind.is_fifo()
            || kind.is_socket()
            || kind.is_char_device()
            || kind.is_block_device()
        {
            return refused(format!("Not a regular file: {name}"));
        }
        let place = place(&file);
        let rrd = Rrd::over(file, &text::path(name));
        let rrd = rrd.map_err(|error| Error::Refused(format!("RRD Error: {}", told(error))))?;
        let header = &rrd.header;
        let coarse =
            header.archives().iter().filter(|archive| archive.points > 1).map(|archive| archive.points);
        let shape = Shape {
            readings: header.readings(),
            step: header.step(),
            coarse: coarse.min().unwrap_or(0).saturating_mul(header.step()),
        };
        let last = header.last_update().saturating_mul(1_000_000).saturating_add(header.last_update_usec());
        Ok(Look { last, shape, place, device: metadata.dev() })
    }
}

/// Whether the first sample of `update` has another number of readings than its file is known to take.
pub(super) fn other_sources(state: &State, id: Id, update: &Update<'_>) -> bool {
    let first = update.samples.split(' ').find(|sample| !sample.is_empty());
    first.is_some_and(|sample| {
        let readings = stamp::readings(sample);
        readings > 0 && readings != state.readings(id)
    })
}
