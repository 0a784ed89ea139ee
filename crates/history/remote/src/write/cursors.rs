//! How far each node's samples were sent to a receiver, in its own file in the store's folder. It is written as a whole and then
//! renamed, and is locked during the sending: two senders with one file would send everything twice.
//!
//! ```text
//! khz-remote-cursor 1
//! since 1795420800000000000
//! 1795420817500000000 node7
//! end
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use khz_model::{Nanos, NodeName};
use rustix::fs::{FlockOperation, flock};

/// The first line of the file.
const FIRST_LINE: &str = "khz-remote-cursor 1";
/// The last line.
const LAST_LINE: &str = "end";
/// A file larger than this is none: a million nodes with names of the longest kind.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// How far each node was sent.
#[derive(Debug)]
pub struct Cursors {
    path: PathBuf,
    /// Held until this is dropped.
    _lock: File,
    /// Rows from this time on are sent of a node that has no time of its own.
    pub(crate) since: u64,
    /// Rows from this time on are not sent yet.
    pub(crate) nodes: BTreeMap<NodeName, u64>,
}

/// Why a file of cursors cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CursorError {
    /// The system refuses.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Somebody else sends with it.
    #[error("{path} is in use: another process sends with it; give each sender a store or a name of its own")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is not as it was written.
    #[error(
        "{path}, line {line}: this is not a file of cursors: remove it, and sending begins with the rows that come then"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl Cursors {
    /// Opens the file of the receiver with this name, or makes it: then sending begins with the rows from `now` on.
    pub fn open(folder: &Path, name: &str, now: Nanos) -> Result<Self, CursorError> {
        fs::create_dir_all(folder).map_err(failed("make", folder))?;
        let path = folder.join(format!("{name}.cursor"));
        let lock = folder.join(format!("{name}.lock"));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let file = file.map_err(failed("open", &lock))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(CursorError::InUse { path: lock }),
            Err(error) => return Err(failed("lock", &lock)(error.into())),
        }
        let mut cursors = Cursors { path, _lock: file, since: now.0, nodes: BTreeMap::new() };
        match File::open(&cursors.path) {
            Ok(file) => {
                let mut text = Vec::new();
                let read = file.take(FILE_BYTES_MAX).read_to_end(&mut text);
                read.map_err(failed("read", &cursors.path))?;
                cursors.take(&text)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => cursors.save()?,
            Err(error) => return Err(failed("open", &cursors.path)(error)),
        }
        Ok(cursors)
    }

    fn take(&mut self, text: &[u8]) -> Result<(), CursorError> {
        let (since, nodes) =
            parse(text).map_err(|line| CursorError::Damaged { path: self.path.clone(), line })?;
        (self.since, self.nodes) = (since, nodes);
        Ok(())
    }

    /// Writes the file.
    pub fn save(&self) -> Result<(), CursorError> {
        let mut text = format!("{FIRST_LINE}\nsince {}\n", self.since);
        for (node, time) in &self.nodes {
            let _ = writeln!(text, "{time} {node}");
        }
        text.push_str(LAST_LINE);
        text.push('\n');
        let beside = self.path.with_extension("cursor.new");
        let mut file = File::create(&beside).map_err(failed("create", &beside))?;
        file.write_all(text.as_bytes()).map_err(failed("write", &beside))?;
        file.sync_data().map_err(failed("sync", &beside))?;
        fs::rename(&beside, &self.path).map_err(failed("rename", &beside))?;
        if let Some(folder) = self.path.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))?;
        }
        Ok(())
    }

    /// How far a node was sent.
    #[cfg(test)]
    fn of(&self, node: &NodeName) -> u64 {
        self.nodes.get(node).copied().unwrap_or(self.since)
    }

    /// Forgets the nodes for which this is false; true: there were some.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&NodeName) -> bool) -> bool {
        let before = self.nodes.len();
        self.nodes.retain(|node, _| is_kept(node));
        self.nodes.len() < before
    }

    /// Rows of this node were sent up to this time.
    pub(crate) fn set(&mut self, node: &NodeName, time: u64) {
        match self.nodes.get_mut(node) {
            Some(known) => *known = time,
            None => _ = self.nodes.insert(node.clone(), time),
        }
    }
}

/// Reads the text of a file; an error is the number of the line that is wrong.
pub(crate) fn parse(text: &[u8]) -> Result<(u64, BTreeMap<NodeName, u64>), usize> {
    let text = std::str::from_utf8(text).map_err(|_| 1usize)?;
    let mut lines = text.lines().zip(1usize..);
    lines.next().filter(|(line, _)| *line == FIRST_LINE).ok_or(1usize)?;
    let since = lines.next().and_then(|(line, _)| line.strip_prefix("since ")?.parse().ok()).ok_or(2usize)?;
    let mut nodes = BTreeMap::new();
    for (line, number) in lines {
        if line == LAST_LINE {
            return Ok((since, nodes));
        }
        let (time, node) = line.split_once(' ').ok_or(number)?;
        nodes.insert(NodeName::stored(node).map_err(|_| number)?, time.parse().map_err(|_| number)?);
    }
    Err(text.lines().count() + 1)
}

fn failed(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> CursorError {
    let path = path.to_owned();
    move |source| CursorError::File { what, path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("khz-cursors-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn cursors_come_back_after_a_restart_and_the_first_start_counts_for_other_nodes() {
        let folder = Folder::new("back");
        let (one, two) = (NodeName::new("n1").unwrap(), NodeName::new("n2").unwrap());
        let mut cursors = Cursors::open(&folder.0, "vm", Nanos(100)).unwrap();
        cursors.set(&one, 500);
        cursors.save().unwrap();
        drop(cursors);
        let again = Cursors::open(&folder.0, "vm", Nanos(900)).unwrap();
        assert_eq!((again.of(&one), again.of(&two)), (500, 100));
        assert_eq!(Cursors::open(&folder.0, "other", Nanos(900)).unwrap().of(&one), 900);
    }

    #[test]
    fn two_senders_with_one_file_are_refused() {
        let folder = Folder::new("two");
        let first = Cursors::open(&folder.0, "vm", Nanos(1)).unwrap();
        let refused = Cursors::open(&folder.0, "vm", Nanos(1)).unwrap_err().to_string();
        assert!(refused.contains("vm.lock is in use"), "{refused}");
        drop(first);
        Cursors::open(&folder.0, "vm", Nanos(1)).unwrap();
    }

    #[test]
    fn a_file_that_is_cut_or_changed_is_refused_with_its_line() {
        let folder = Folder::new("cut");
        let mut cursors = Cursors::open(&folder.0, "vm", Nanos(1)).unwrap();
        cursors.set(&NodeName::new("n1").unwrap(), 5);
        cursors.save().unwrap();
        let path = cursors.path.clone();
        drop(cursors);
        let whole = fs::read(&path).unwrap();
        // Without its last line feed it says the same.
        for end in 0..whole.len() - 1 {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(
                matches!(Cursors::open(&folder.0, "vm", Nanos(1)), Err(CursorError::Damaged { .. })),
                "{end}"
            );
        }
        fs::write(&path, "khz-remote-cursor 1\nsince 1\nx n1\nend\n").unwrap();
        let refused = Cursors::open(&folder.0, "vm", Nanos(1)).unwrap_err().to_string();
        assert!(refused.contains("vm.cursor, line 3: this is not a file of cursors"), "{refused}");
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
            let _ = parse(&[b"khz-remote-cursor 1\nsince 1\n", &bytes[..]].concat());
        }
    }
}
