//! A file that must keep its name while it is open. Somebody may remove or replace it or its directory, or mount another file system over
//! it: then its bytes, which the open file still has, are written again. Does not know what they are.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(crate) const DIR_MODE: u32 = 0o750;
pub(crate) const FILE_MODE: u32 = 0o640;

/// Bytes that are copied at a time.
const PART_BYTES: usize = 64 << 10;

/// The file.
#[derive(Debug)]
pub struct NamedFile {
    path: PathBuf,
    file: File,
}

impl NamedFile {
    /// This open file has this name. It can be read.
    pub fn new(path: PathBuf, file: File) -> Self {
        NamedFile { path, file }
    }

    /// Opens a file to add to it; makes it if there is none.
    ///
    /// # Errors
    /// Returns what the kernel says.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).read(true).create(true).mode(FILE_MODE).open(path)?;
        Ok(NamedFile::new(path.to_owned(), file))
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It was renamed.
    pub fn has_moved(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Whether the name leads to this file. What cannot be seen is not there.
    pub fn is_there(&self) -> bool {
        same(&self.file, &self.path)
    }

    /// Writes the bytes of the open file again under its name, in a directory that is made if there is none. Another file that has the
    /// name, and is not empty, is put aside.
    ///
    /// # Errors
    /// Returns what the kernel says. Then nothing has changed.
    pub fn renew(&mut self) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(directory)?;
        let next = beside(&self.path, "new");
        match std::fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut again = NamedFile::append_to(&next)?;
        copy(&self.file, &mut again.file)?;
        again.file.sync_all()?;
        if std::fs::metadata(&self.path).is_ok_and(|other| other.len() > 0) {
            std::fs::rename(&self.path, beside(&self.path, "replaced"))?;
        }
        std::fs::rename(&next, &self.path)?;
        self.file = again.file;
        File::open(directory)?.sync_all()
    }
}

/// Whether this name leads to this open file.
pub(crate) fn same(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// `NAME.jsonl.ENDING`
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn copy(from: &File, to: &mut File) -> io::Result<()> {
    let (mut part, mut at) = (vec![0; PART_BYTES], 0);
    loop {
        match from.read_at(&mut part, at) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&part[..count])?;
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
