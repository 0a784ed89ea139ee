//! A segment's number, and the name of its file.

use std::ffi::OsStr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// What a segment's name begins with.
const PREFIX: &str = "khz.log.";

/// The number of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment(NonZeroU32);

impl Segment {
    /// The first segment of a new log.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The segment of a number above 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The segment whose file is called `name`.
    pub fn of_name(name: &OsStr) -> Option<Self> {
        let digits = name.to_str()?.strip_prefix(PREFIX)?.trim_start_matches('0');
        Self::new(digits.parse().ok()?)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0.get()
    }

    /// The segment after it.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Its file in `directory`.
    pub fn path(self, directory: &Path) -> PathBuf {
        directory.join(format!("{PREFIX}{:016}", self.0))
    }
}
