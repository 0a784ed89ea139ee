//! The file `alerts.jsonl` in the state directory, in which alerts survive a restart. It is written at once when an alert changes,
//! else once a minute, so that the next hub knows how long nothing was evaluated. A failed write is retried.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_rules::limits::{STATE_BYTES_MAX, STATE_READ_BYTES_MAX};
use khz_rules::{LeftOut, Saved};
use khz_state::StateFile;

use super::groups::Groups;
use super::numbers::Numbers;
use super::passed::Complaint;
use super::sharing::Sharing;
use crate::show::outcome::sentence;

/// How old the file may be while no alert changes (ms).
const SAVED_AGE_MAX: i64 = 60_000;

pub(super) struct AlertState {
    /// `None`: there is no state directory.
    file: Option<StateFile>,
    /// Other hubs ask for it.
    is_shared: bool,
    /// When the state was last written (ms since 1970), and its text.
    written: i64,
    text: Arc<str>,
    /// The revision of this hub's own firings in the written state.
    revision: u64,
    /// Some groups find no room.
    too_large: Complaint,
    /// The file cannot be written.
    unwritten: Complaint,
}

impl AlertState {
    /// The file of this directory. A failure is only logged. `is_shared`: other hubs ask for the state.
    pub fn open(directory: Option<&Path>, is_shared: bool) -> Self {
        let open = |directory| {
            let file = StateFile::open(directory, "alerts").inspect_err(|error| {
                tracing::warn!("alerts will begin again after a restart: {}", sentence(error));
            });
            file.ok()
        };
        let (text, too_large, unwritten) = Default::default();
        let (file, written, revision) = (directory.and_then(open), 0, 0);
        AlertState { file, is_shared, written, text, revision, too_large, unwritten }
    }

    /// Reads the state that an earlier hub left. A damaged file is put aside.
    pub fn read(&self) -> Option<Saved> {
        let file = self.file.as_ref()?;
        let bytes = file.read(STATE_READ_BYTES_MAX as u64);
        let bytes =
            bytes.inspect_err(|error| tracing::warn!("alerts begin again: {}", sentence(error))).ok()??;
        let saved = Saved::from_bytes(&bytes);
        saved
            .inspect_err(|error| {
                tracing::warn!(
                    "alerts begin again: {}: {error}; the file is put aside",
                    file.path().display()
                );
                if let Err(error) = file.put_aside(None) {
                    tracing::warn!("{}", sentence(&error));
                }
            })
            .ok()
    }

    /// The state as it was written last.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// True if the last write failed, and a retry is due.
    pub fn is_due_again(&self) -> bool {
        self.file.as_ref().is_some_and(StateFile::is_due_again)
    }

    /// Writes the state if an alert has changed, or if the file is old.
    pub fn keep(&mut self, groups: &mut Groups, sharing: Option<&Sharing>, numbers: &Numbers, now: i64) {
        let has_others = sharing.is_some_and(|sharing| sharing.revision() != self.revision);
        if groups.has_changed()
            || has_others
            || self.is_due_again()
            || (now - self.written).abs() >= SAVED_AGE_MAX
        {
            self.write(groups, sharing, numbers, now);
        }
    }

    /// Writes the state.
    pub fn write(&mut self, groups: &Groups, sharing: Option<&Sharing>, numbers: &Numbers, now: i64) {
        if self.file.is_none() && !self.is_shared {
            return;
        }
        let mut saved = groups.saved();
        if let Some(sharing) = sharing {
            sharing.mark(&mut saved);
            self.revision = sharing.revision();
        }
        let all = saved.alerts();
        let (bytes, left_out) = saved.to_bytes();
        let LeftOut { alerts, series } = left_out;
        if left_out != LeftOut::default() && self.too_large.is_due() {
            tracing::warn!(
                "{alerts} alerts, the oldest ones, would begin again after a restart, and {series} series would not be ended: \
                 the state of all has at most {STATE_BYTES_MAX} bytes"
            );
        }
        self.text = String::from_utf8(bytes).unwrap_or_default().into();
        let written = self.file.as_ref().map_or(Ok(()), |file| file.write(&self.text));
        let unsaved = if written.is_ok() { alerts } else { all };
        numbers.unsaved.store(unsaved as u64, Ordering::Relaxed);
        match written {
            Ok(()) => {
                if self.unwritten.is_over() {
                    tracing::info!("alerts outlive a restart again");
                }
            }
            Err(error) if self.unwritten.is_due() => {
                tracing::warn!("alerts would begin again after a restart now: {}", sentence(&error));
            }
            Err(_) => {}
        }
        self.written = now;
    }
}
