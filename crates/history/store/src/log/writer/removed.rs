//! The log's reaction when somebody removes or replaces segments that are in use. A removed file can be read as long as it is open,
//! so the log writes such a segment again under its name. Data that it cannot write again is lost, and counted.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use super::Log;
use crate::StoreError;
use crate::log::LoggedLane;
use crate::log::index::Entry;
use crate::log::intake::LogCounts;
use crate::log::segment::SegmentFile;

impl Log {
    /// Looks for segments that somebody has removed. The next segment says of all their rows that they are stored, and a start
    /// believes it: so they must be there again before.
    pub(super) fn restore_removed(&mut self) {
        // Oldest first: a segment refers to the rows of earlier ones.
        let missing = self.sealed.values().filter(|(file, _)| file.is_missing());
        let missing: Vec<_> = missing.map(|(file, end)| (file.clone(), *end)).collect();
        for (file, end) in missing {
            match self.written_again(&file, end) {
                Ok(again) => _ = self.sealed.insert(file.number, (again, end)),
                Err(_) => {
                    self.sealed.remove(&file.number);
                    self.lose_segment(file.number);
                }
            }
        }
        let Some(mut open) = self.open.take() else { return };
        if !open.file.is_in_place() {
            let again =
                if open.file.is_missing() { self.written_again(&open.file, open.end).ok() } else { None };
            let Some(again) = again else { return self.lose_segment(open.file.number) };
            open.file = again;
        }
        self.open = Some(open);
    }

    /// The store has no column files of rows: rows that are in no segment are lost, although segments say that they are stored. The
    /// hub fetches them from the nodes, as far as these have them.
    pub(crate) fn forget_columns(&self) {
        let mut logged: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for entry in self.index().nodes().flat_map(|(_, entries)| entries) {
            let rows = (entry.first_row, entry.first_row + u64::from(entry.rows));
            logged.entry(entry.lane.number).or_default().push(rows);
        }
        for lane in self.shared.state().lanes() {
            lane.keep(logged.get(&lane.number).map_or(&[], Vec::as_slice));
        }
    }

    /// Writes a removed segment again. From now on blocks are read from the new file, so that the old one goes.
    fn written_again(&self, file: &SegmentFile, end: u64) -> Result<Arc<SegmentFile>, StoreError> {
        let failed = |source| StoreError::File { what: "create", path: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let again = Arc::new(file.written_again(&self.folder, end)?);
        self.index().each_of(again.number, |entry| entry.segment = again.clone());
        LogCounts::add(&self.shared.counts.restored, 1);
        Ok(again)
    }

    /// The rows of a segment, which is not the log's any more, are lost. The hub hands over again what it has in memory; its next
    /// start fetches the others from the nodes.
    fn lose_segment(&mut self, number: u64) {
        let lose = |entry: &Entry| entry.lane.lose(entry.first_row, entry.first_row + u64::from(entry.rows));
        let rows = self.index().remove(number, lose);
        LogCounts::add(&self.shared.counts.rows_lost, rows);
        LogCounts::add(&self.shared.counts.failures, 1);
        // Blocks that the log has only in pieces, and that will get no more bytes.
        for (lane, first_row, end) in self.pieces.left_in(number) {
            let lane = self.shared.state().numbered(lane).cloned();
            lane.iter().for_each(|lane| lane.lose(first_row, end));
        }
        self.leave_open(LoggedLane::lose_open);
        self.pieces.forget_segment(number);
        self.bundles.remove(number);
    }
}
