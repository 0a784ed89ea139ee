//! What is asked: a layout, files, a rhythm, a machine.

use std::sync::Arc;

use super::model::{Model, Rhythm};
use super::pages::Reading;
use super::shape::Shape;
use super::system::FileSystem;

/// A question to the model.
#[derive(Debug, Clone)]
pub struct Question {
    /// The layout of every file.
    pub shape: Arc<Shape>,
    /// How many files.
    pub files: u64,
    /// How often they are updated and written.
    pub rhythm: Rhythm,
    /// Bytes for their pages, inodes and names.
    pub memory: u64,
    /// Bytes of a page.
    pub page: u64,
    /// Bytes that the kernel reads around a page, without advice.
    pub readahead: u64,
    /// Whether the program advises the kernel.
    pub is_advised: bool,
    /// Whether all files began at the same rows.
    pub is_in_step: bool,
    /// The file system.
    pub system: FileSystem,
    /// Reads a second that the disk does, if that is known.
    pub reads: Option<f64>,
}

impl Question {
    /// How pages come into memory.
    pub fn reading(&self) -> Reading {
        match self.is_advised {
            true => Reading::Advised,
            false => Reading::Ahead(self.readahead / self.page),
        }
    }

    /// The model of a file.
    pub fn model(&self) -> Model {
        Model::new(&self.shape, self.page, self.reading(), self.rhythm)
    }

    /// The same question, in one respect another.
    pub fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut other = self.clone();
        change(&mut other);
        other
    }
}
