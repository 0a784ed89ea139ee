//! Files that block for ever, like those of a file server that is gone: a reader that wants one gets an
//! error, and all other readers go on. The files are in a FUSE file system of this test: needs /dev/fuse and
//! root.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyEntry, Request,
};
use khz_gather::{AllowList, TextError, TextTaker, Texts};
use khz_model::{Nanos, Stamp};

const FAST: Nanos = Nanos::from_millis(20);
const TTL: Duration = Duration::from_secs(60);
const TEXT: &[u8] = b"fine\n";

/// The files: one answers, the others block until they are released.
const FILES: [&str; 7] = ["good", "stuck1", "stuck2", "stuck3", "stuck4", "stuck5", "stuck6"];

/// The reads that are not answered yet.
type Held = Arc<Mutex<Option<Vec<ReplyData>>>>;

struct Slow(Held);

fn attributes(ino: INodeNo) -> FileAttr {
    let is_file = ino.0 > 1;
    let kind = if is_file { FileType::RegularFile } else { FileType::Directory };
    let time = UNIX_EPOCH;
    FileAttr {
        ino,
        size: if is_file { 4_096 } else { 0 },
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: 0o555,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4_096,
        flags: 0,
    }
}

impl Filesystem for Slow {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match FILES.iter().position(|file| name == *file) {
            Some(at) => reply.entry(&TTL, &attributes(INodeNo(2 + at as u64)), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(ino));
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match &mut *self.0.lock().unwrap() {
            Some(held) if ino.0 > 2 => held.push(reply),
            _ => reply.data(TEXT.get(offset as usize..).unwrap_or_default()),
        }
    }
}

/// Releases what is held, whatever becomes of the test: a mount with an unanswered question cannot be taken away.
struct Release(Held);

impl Drop for Release {
    fn drop(&mut self) {
        let held = self.0.lock().unwrap().take();
        held.into_iter().flatten().for_each(|reply| reply.data(TEXT));
    }
}

/// The texts and errors of a want.
type Told = Vec<Result<Vec<u8>, TextError>>;

#[derive(Clone, Default)]
struct Taken(Arc<Mutex<BTreeMap<u64, Told>>>);

impl TextTaker for Taken {
    fn has_room(&mut self, _: u64) -> bool {
        true
    }
    fn text(&mut self, want: u64, text: &Arc<[u8]>, _: Stamp) {
        self.0.lock().unwrap().entry(want).or_default().push(Ok(text.to_vec()));
    }
    fn given(&mut self, _: u64, _: u32) {}
    fn failed(&mut self, want: u64, error: &TextError) {
        self.0.lock().unwrap().entry(want).or_default().push(Err(error.clone()));
    }
}

impl Taken {
    fn last(&self, want: u64) -> Option<Result<Vec<u8>, TextError>> {
        self.0.lock().unwrap().get(&want)?.last().cloned()
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_file_that_blocks_is_reported_as_stuck_and_delays_nobody_else() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("stuck-{}", std::process::id()));
    std::fs::create_dir_all(root.join("proc")).unwrap();
    let held: Held = Arc::new(Mutex::new(Some(Vec::new())));
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("slow".into()), MountOption::RO];
    config.n_threads = Some(2);
    let mount = fuser::spawn_mount(Slow(held.clone()), root.join("proc"), &config).unwrap();
    let release = Release(held);
    let taken = Taken::default();
    let texts = Texts::new(root.clone(), AllowList::new(["*"]).unwrap(), taken.clone());
    texts.want(0, "good", FAST).unwrap();
    until("the good file's text comes", || taken.last(0) == Some(Ok(TEXT[..].to_vec())));

    let stuck = |number: u64| Some(Err(TextError::Stuck { path: format!("stuck{number}") }));
    for number in 1..=3 {
        texts.want(number, &format!("stuck{number}"), FAST).unwrap();
        until("it is reported as stuck", || taken.last(number) == stuck(number));
    }
    // Stuck files delay nobody: the others are read as often as before.
    let before = texts.counts();
    until("the good file is read again and again", || texts.counts().reads > before.reads + 20);
    assert_eq!(texts.counts().stuck, 3, "a stuck file is not tried again");

    texts.want(4, "stuck4", FAST).unwrap();
    until("it is reported as stuck", || taken.last(4) == stuck(4));
    texts.want(5, "stuck5", FAST).unwrap();
    until("too many files are stuck", || taken.last(5) == Some(Err(TextError::Crowded)));
    until("nothing is read at all", || taken.last(0) == Some(Err(TextError::Crowded)));

    drop(release);
    for number in 0..=5 {
        until("everything is read again", || taken.last(number).is_some_and(|told| told.is_ok()));
    }
    drop(texts);
    drop(mount);
    let _ = std::fs::remove_dir_all(root);
}
