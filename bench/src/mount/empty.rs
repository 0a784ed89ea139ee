//! The simplest FUSE file system: one file whose bytes never change, every request answered at once. The cost
//! of a mounted value beyond it is ours.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyEntry, Request, Session,
};

use crate::error::BenchError;
use crate::program::failed;
use crate::watched::Watched;

/// As long as a value of memory.
const TEXT: &[u8] = b"19879604224\n";
const FILE: INodeNo = INodeNo(2);
/// How long the kernel may keep names and attributes, as in libfuse.
const TTL: Duration = Duration::from_secs(1);
/// As many threads as the mounted tree has.
const THREADS: usize = 2;

struct Empty;

fn attributes(inode: INodeNo) -> FileAttr {
    let (kind, perm, size) = match inode {
        FILE => (FileType::RegularFile, 0o444, TEXT.len() as u64),
        _ => (FileType::Directory, 0o555, 0),
    };
    let time = UNIX_EPOCH;
    FileAttr {
        ino: inode,
        size,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4_096,
        flags: 0,
    }
}

impl Filesystem for Empty {
    fn lookup(&self, _asked: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == "value" {
            true => reply.entry(&TTL, &attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _asked: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(ino));
    }

    fn read(
        &self,
        _asked: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let from = (offset as usize).min(TEXT.len());
        let to = (from + size as usize).min(TEXT.len());
        reply.data(&TEXT[from..to]);
    }
}

/// Mounts it, prints that, and serves until it is unmounted.
pub fn work(directory: &str) -> Result<(), BenchError> {
    let wrong = |e: std::io::Error| failed("the empty FUSE file system", e);
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("empty".into()), MountOption::RO];
    config.n_threads = Some(THREADS);
    let session = Session::new(Empty, directory, &config).map_err(wrong)?;
    println!("mounted");
    std::io::stdout().flush().map_err(wrong)?;
    session.run().map_err(wrong)
}

/// The file system, mounted by its own process; dropping it unmounts it.
pub struct EmptyMount {
    directory: PathBuf,
    process: Option<Watched>,
}

impl EmptyMount {
    /// Mounts it in a directory in this folder.
    pub fn start(folder: &Path) -> Result<Self, BenchError> {
        let directory = folder.join("empty");
        std::fs::create_dir_all(&directory).map_err(BenchError::file(&directory))?;
        let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
        let mut process = Watched::start(Command::new(own).args(["part", "empty"]).arg(&directory))?;
        let mut line = String::new();
        BufReader::new(process.output()?)
            .read_line(&mut line)
            .map_err(|e| failed("the empty FUSE file system", e))?;
        match line.trim() {
            "mounted" => Ok(EmptyMount { directory, process: Some(process) }),
            _ => Err(failed("the empty FUSE file system", "it is not mounted (needs root and /dev/fuse)")),
        }
    }

    /// Its only file.
    pub fn file(&self) -> PathBuf {
        self.directory.join("value")
    }
}

impl Drop for EmptyMount {
    fn drop(&mut self) {
        khz_mount::detach(&self.directory);
        drop(self.process.take());
    }
}
