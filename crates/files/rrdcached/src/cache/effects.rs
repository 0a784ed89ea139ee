//! The follow-up actions of a state change: the state returns them, and [`super::Cache::carry_out`] performs them.

use super::backlog::FileId;

/// Which writer threads are to be woken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Wake {
    #[default]
    Nobody,
    /// One writer, which wakes the next if there is more to do.
    One,
    /// All writers.
    All,
}

/// What is to be done.
#[derive(Debug, Default)]
#[must_use]
pub struct Effects {
    /// Writer threads to be woken.
    pub wake: Wake,
    /// Whether those who wait for the state to change are to be woken.
    pub changed: bool,
    /// Files that are not to be kept open.
    pub close: Vec<FileId>,
    /// Errors for the administrator.
    pub errors: Vec<String>,
    /// Warnings for the administrator.
    pub warnings: Vec<String>,
}

impl Effects {
    /// Those who wait for the state to change are to be woken.
    pub fn changed() -> Self {
        Self { changed: true, ..Self::default() }
    }

    /// Adds what is to be done after another change.
    pub fn add(&mut self, more: Self) {
        self.wake(more.wake);
        self.changed |= more.changed;
        self.close.extend(more.close);
        self.errors.extend(more.errors);
        self.warnings.extend(more.warnings);
    }

    /// Wakes writers as well.
    pub fn wake(&mut self, wake: Wake) {
        self.wake = self.wake.max(wake);
    }
}

impl From<Wake> for Effects {
    fn from(wake: Wake) -> Self {
        Self { wake, ..Self::default() }
    }
}
