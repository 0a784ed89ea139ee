//! The column files of each hour, opened once for an answer, and opened again when the store has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use khz_model::{Nanos, QueryError};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::range::answer::Asked;
use crate::range::{ColumnFiles, HOUR, live};

/// Files of rows, by the hour.
pub(crate) struct HourFiles {
    files: Arc<dyn ColumnFiles>,
    version: u64,
    open: BTreeMap<u64, Vec<Arc<ColumnFile>>>,
    /// The open hours with an unreadable file.
    damaged: BTreeSet<u64>,
}

impl HourFiles {
    /// The files at the begin of an answer.
    pub fn new(files: &Arc<dyn ColumnFiles>) -> Self {
        files.list_again();
        HourFiles {
            files: files.clone(),
            version: files.version(),
            open: BTreeMap::new(),
            damaged: BTreeSet::new(),
        }
    }

    /// Forgets all files if the store has changed. After rows of the log were read, this finds the files of rows that are no longer
    /// in the log. Returns true if it has forgotten them.
    pub fn renew(&mut self) -> bool {
        let version = self.files.version();
        let is_old = version != self.version;
        if is_old {
            self.version = version;
            self.open.clear();
            self.damaged.clear();
        }
        is_old
    }

    /// The files with rows of this hour.
    pub fn of(&mut self, hour: u64, damage: &mut Vec<StoreError>) -> &[Arc<ColumnFile>] {
        self.open.entry(hour).or_insert_with(|| {
            let known = damage.len();
            let files = self.files.files(Nanos(0), Nanos(hour), Nanos(hour.saturating_add(HOUR)), damage);
            if damage.len() > known {
                self.damaged.insert(hour);
            }
            files
        })
    }

    /// True if a file of this hour, whose files were asked for, cannot be read.
    pub fn is_damaged(&self, hour: u64) -> bool {
        self.damaged.contains(&hour)
    }

    /// The files of several hours, each once; later ones win.
    pub fn of_all(
        &mut self,
        hours: impl IntoIterator<Item = u64>,
        damage: &mut Vec<StoreError>,
    ) -> Vec<Arc<ColumnFile>> {
        let mut all: Vec<Arc<ColumnFile>> = Vec::new();
        for hour in hours {
            for file in self.of(hour, damage) {
                // A file may reach into the next hour.
                if !all.iter().rev().take(SAME_HOUR_FILES).any(|known| Arc::ptr_eq(known, file)) {
                    all.push(file.clone());
                }
            }
        }
        all
    }

    /// Closes the files before this hour.
    pub fn close_before(&mut self, hour: u64) {
        self.open = self.open.split_off(&hour);
        self.damaged = self.damaged.split_off(&hour);
    }
}

/// Files that are compared to find one that comes twice: an hour has five, rarely more.
const SAME_HOUR_FILES: usize = 64;

impl Asked {
    /// The hours within the question that have rows: in files, in the log, or in open blocks.
    pub fn hours(&mut self) -> Result<Vec<u64>, QueryError> {
        let filed = self.reader.files.hours(self.from, self.to);
        let mut hours: BTreeSet<u64> = filed.into_iter().map(|hour| hour.begin.0).collect();
        if let Some(log) = &self.reader.log {
            hours.extend(live::hours(log, self.from, self.to));
        }
        if let Some((first, last)) = self.reader.open.span() {
            hours.extend(live::hours_between(first.max(self.from), last, self.to));
        }
        let first = self.from.0 - self.from.0 % HOUR;
        Ok(hours.range(first..self.to.0).copied().collect())
    }

    /// The part of an hour that is asked for.
    pub fn within(&self, hour: u64) -> (Nanos, Nanos) {
        (Nanos(hour.max(self.from.0)), Nanos(hour.saturating_add(HOUR).min(self.to.0)))
    }
}
