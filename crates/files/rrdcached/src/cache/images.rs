//! The images that replay finds in the log: which of a file's images counts. Pure.
//!
//! The records that the log may have of one file, in its order:
//!
//! - Images of several checkpoint intervals, because a file is imaged once in each. The record of a checkpoint comes when
//!   its disks are synced, after images of writes that began meanwhile; it makes all images from before its interval void.
//!   The first of the others is the file's last state known to be on disk. Without such a record (the sync failed, the log
//!   was full) it is an older one, and its samples are still there as well.
//! - A forget, because another file has the name, or because the file is on disk as it is (tuned, or found changed by
//!   somebody else): the images before it are void.
//! - Images of a file that has lost its name to another, or of another definition: the first that fits counts.
//! - Images without end: of headers that could not be put back when they should have been. They are void when that is done.
//! - Segments begin with the boot in which they were written. Where that cannot be read it counts as another boot.

use std::collections::HashMap;

use crate::disk::HeaderImage;
use crate::log::{Image, WITHOUT_END};

/// The images found so far, file by file.
pub struct Images {
    /// The boot of now.
    boot: String,
    /// The boot in which the segment that is read was written; empty where it is not known.
    segment_boot: String,
    kept: HashMap<String, Vec<HeaderImage>>,
    /// The highest number of an image or a checkpoint.
    sequence: u64,
}

impl Images {
    /// None yet, in the boot called `boot`.
    pub fn new(boot: &str) -> Self {
        Self { boot: boot.into(), segment_boot: String::new(), kept: HashMap::new(), sequence: 0 }
    }

    /// The records of another segment follow.
    pub fn begin_segment(&mut self) {
        self.segment_boot.clear();
    }

    /// The segment was written in the boot called `id`.
    pub fn boot(&mut self, id: &str) {
        self.segment_boot = id.into();
    }

    /// The log has an image of `file`.
    pub fn keep(&mut self, file: &str, image: &Image<'_>) {
        let is_endless = image.sequence == WITHOUT_END;
        if !is_endless {
            self.note_sequence(image.sequence);
        }
        let is_this_boot = !self.segment_boot.is_empty() && self.segment_boot == self.boot;
        let image = HeaderImage::from_record(image, is_endless || !is_this_boot);
        self.kept.entry(file.into()).or_default().push(image);
    }

    /// The log says that a checkpoint is done.
    pub fn checkpoint(&mut self, sequence: u64) {
        self.note_sequence(sequence);
        self.kept.retain(|_, kept| {
            kept.retain(|image| image.sequence() >= sequence);
            !kept.is_empty()
        });
    }

    /// The log says that the samples of `file` are dropped from the stamp `from` on.
    pub fn forget(&mut self, file: &str, from: i64) {
        if from == i64::MIN || from == i64::MAX {
            self.kept.remove(file);
        }
    }

    /// The highest number of an image or a checkpoint.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether a header is to be put back whatever its file says.
    pub fn is_any_unconditional(&self) -> bool {
        self.kept.values().flatten().any(HeaderImage::is_unconditional)
    }

    /// The images that count, by file.
    pub fn into_kept(self) -> HashMap<String, Vec<HeaderImage>> {
        self.kept
    }

    fn note_sequence(&mut self, sequence: u64) {
        // A damaged log must not leave too few numbers for the checkpoints to come.
        self.sequence = self.sequence.max(sequence.min(u64::MAX / 2));
    }
}
