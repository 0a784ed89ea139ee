//! What programs ask of files, and what they get: callers, kinds, attributes, handles, readings as text.

use std::time::{Duration, Instant, SystemTime};

use khz_model::{NoValue, Reading, ValueFormat};

use crate::inode::Inode;

/// The user who asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The user.
    pub user: u32,
    /// Since when the request waits; `None`: it has just come.
    pub since: Option<Instant>,
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A value.
    Value,
    /// A text that is made when it is read.
    Text,
    /// A setting, which may be written.
    Control,
    /// A file as a node's kernel printed it.
    KernelText,
    /// A link to another of these.
    Link,
}

/// What `stat` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode.
    pub inode: Inode,
    /// What it is.
    pub kind: Kind,
    /// Its length, where it is known before it is read.
    pub size: u64,
    /// When its row was gathered.
    pub modified: SystemTime,
    /// How long the kernel may keep this.
    pub ttl: Duration,
}

/// A file that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its handle.
    pub handle: u64,
    /// Reads come from the page cache; else each comes to us.
    pub cached: bool,
    /// What the page cache has is good.
    pub keep: bool,
    /// Each read gives what comes next, whatever its offset.
    pub is_stream: bool,
}

impl Opened {
    /// One whose reads come to us.
    pub fn uncached(handle: u64) -> Self {
        Opened { handle, cached: false, keep: false, is_stream: false }
    }

    /// One whose reads give what comes next.
    pub fn stream(handle: u64) -> Self {
        Opened { is_stream: true, ..Opened::uncached(handle) }
    }
}

/// What a program that polls a file learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing new. The next news wakes it.
    Nothing,
    /// There is something to read.
    News,
    /// Nothing will come any more.
    End,
}

/// A read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The open file.
    pub handle: u64,
    /// The first byte.
    pub offset: u64,
    /// At most this many bytes.
    pub size: usize,
    /// Since when it waits.
    pub began: Instant,
}

impl Read {
    /// The part of a text that was asked for.
    pub fn part(&self, text: &[u8]) -> Vec<u8> {
        let from = usize::try_from(self.offset).unwrap_or(usize::MAX).min(text.len());
        text[from..from.saturating_add(self.size).min(text.len())].to_vec()
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it names.
    pub inode: Inode,
    /// What that is.
    pub kind: Kind,
    /// The name.
    pub name: String,
}

impl Entry {
    /// A directory of this name.
    pub fn directory(inode: Inode, name: &str) -> Self {
        Entry { inode, kind: Kind::Directory, name: name.to_owned() }
    }
}

/// A value's line, or the errno that says why there is none.
pub fn line(reading: Reading, format: ValueFormat) -> Result<Vec<u8>, i32> {
    format.value_or_why(reading).map(|value| format!("{value}\n").into_bytes()).map_err(errno)
}

/// The errno that says why there is no value.
pub fn errno(why: NoValue) -> i32 {
    if why.is_failure() { libc::EIO } else { libc::ENODATA }
}
