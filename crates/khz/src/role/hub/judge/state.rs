//! The file in which alerts outlive a restart: `alerts.jsonl` in the state directory. It is written at once when an alert has
//! changed, else once a minute, so that the next hub knows how long nobody evaluated.

use std::path::Path;

use khz_rules::Saved;
use khz_rules::limits::STATE_BYTES_MAX;
use khz_state::StateFile;

use super::groups::Groups;
use super::passed::Complaint;
use crate::show::outcome::sentence;

/// How old the file may be while no alert changes (ms).
const SAVED_AGE_MAX: i64 = 60_000;

pub(super) struct AlertState {
    file: StateFile,
    /// When it was written (ms since 1970).
    written: i64,
    /// Some groups find no room.
    too_large: Complaint,
}

impl AlertState {
    /// The file of this directory. A failure is only logged.
    pub fn open(directory: &Path) -> Option<Self> {
        let file = StateFile::open(directory, "alerts");
        let file = file.inspect_err(|error| {
            tracing::warn!("alerts will begin again after a restart: {}", sentence(error));
        });
        Some(AlertState { file: file.ok()?, written: 0, too_large: Complaint::default() })
    }

    /// What an earlier hub left. A damaged file is put aside.
    pub fn read(&self) -> Option<Saved> {
        let bytes = self.file.read(STATE_BYTES_MAX as u64);
        let bytes =
            bytes.inspect_err(|error| tracing::warn!("alerts begin again: {}", sentence(error))).ok()??;
        let saved = Saved::from_bytes(&bytes);
        saved
            .inspect_err(|error| {
                tracing::warn!(
                    "alerts begin again: {}: {error}; the file is put aside",
                    self.file.path().display()
                );
                if let Err(error) = self.file.put_aside() {
                    tracing::warn!("{}", sentence(&error));
                }
            })
            .ok()
    }

    /// Writes the state if an alert has changed, or if the file is old.
    pub fn keep(&mut self, groups: &mut Groups, now: i64) {
        if groups.has_changed() || (now - self.written).abs() >= SAVED_AGE_MAX {
            self.write(groups, now);
        }
    }

    /// Writes the state.
    pub fn write(&mut self, groups: &Groups, now: i64) {
        let (bytes, left_out) = groups.saved().to_bytes();
        if left_out > 0 && self.too_large.is_due() {
            tracing::warn!(
                "the alerts of {left_out} groups would begin again after a restart: the state of all has at most \
                 {STATE_BYTES_MAX} bytes"
            );
        }
        let text = String::from_utf8(bytes).unwrap_or_default();
        if let Err(error) = self.file.write(&text) {
            tracing::warn!("alerts would begin again after a restart now: {}", sentence(&error));
        }
        self.written = now;
    }
}
