//! The files that an agent knows: those of the program, and those that its configuration describes. Code that needs all files uses this
//! list.

use std::sync::Arc;

use khz_model::Metric;

use crate::catalogue::files;
use crate::kernel_file::KernelFile;

/// Kernel files, each with another name: those of the program in catalogue order, and then those of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownFiles(Arc<[&'static KernelFile]>);

impl Default for KnownFiles {
    fn default() -> Self {
        KnownFiles::with([])
    }
}

impl KnownFiles {
    /// The program's files, and these.
    pub fn with(own: impl IntoIterator<Item = &'static KernelFile>) -> Self {
        KnownFiles(files().iter().copied().chain(own).collect())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &'static KernelFile> + '_ {
        self.0.iter().copied()
    }

    /// The file of this name.
    pub fn named(&self, name: &str) -> Option<&'static KernelFile> {
        self.iter().find(|file| file.name == name)
    }

    /// The metrics of all of them. Metrics that no parser uses are made for the caller alone.
    pub fn metrics(&self) -> Vec<Arc<Metric>> {
        self.iter().flat_map(|file| file.metrics()).collect()
    }
}
