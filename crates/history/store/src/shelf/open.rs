//! Column files that stay open between questions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::file::ColumnFile;
use crate::limits::FILES_KEPT_OPEN;
use crate::shelf::listing::Piece;

/// The files that were opened last.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: BTreeMap<Piece, Arc<ColumnFile>>,
    /// Oldest first.
    order: VecDeque<Piece>,
}

impl OpenFiles {
    pub fn get(&self, piece: &Piece) -> Option<Arc<ColumnFile>> {
        self.files.get(piece).cloned()
    }

    pub fn keep(&mut self, piece: &Piece, file: &Arc<ColumnFile>) {
        if self.files.contains_key(piece) {
            return;
        }
        if self.files.len() == FILES_KEPT_OPEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
        self.files.insert(*piece, file.clone());
        self.order.push_back(*piece);
    }

    /// Closes the others. A file that was removed keeps its room on the disk while it is open.
    pub fn retain(&mut self, is_kept: impl Fn(&Piece) -> bool) {
        self.files.retain(|piece, _| is_kept(piece));
        self.order.retain(|piece| is_kept(piece));
    }
}
