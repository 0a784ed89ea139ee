//! The kernel's requests, one method for each: what each asks of the tree, and which are refused. No method waits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyPoll,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request as Asked, TimeOrNow, WriteFlags,
};

use crate::answer::Answer;
use crate::file::{Caller, Kind, Read, Readiness};
use crate::fuse::attributes::attributes;
use crate::fuse::requests::Request;
use crate::fuse::shared::Shared;
use crate::inode::Inode;
use crate::limits::NAME_BYTES_MAX;

/// The file system that fuser calls.
pub(crate) struct Kernel(pub Arc<Shared>);

/// Nobody makes, moves or removes files: the cluster decides what is in the tree.
const FORBIDDEN: Errno = Errno::EPERM;

impl Kernel {
    /// The inode of a number of the kernel's.
    fn inode(number: INodeNo) -> Result<Inode, Errno> {
        Inode::from_number(number.0).ok_or(Errno::ENOENT)
    }
}

fn caller(asked: &Asked) -> Caller {
    Caller { user: asked.uid(), since: Some(Instant::now()) }
}

/// The process of a thread: settings belong to processes.
fn process_of(thread: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(thread)
}

impl Filesystem for Kernel {
    fn init(&mut self, _asked: &Asked, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without EXPLICIT_INVAL_DATA a new size drops the old page, which has the old number of digits.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, asked: &Asked, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match Kernel::inode(parent) {
            Ok(parent) => {
                let name = name.as_bytes().to_vec();
                self.0.serve(Request::Lookup { parent, name, reply }, asked.pid(), Instant::now());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _asked: &Asked, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let seen = Kernel::inode(ino)
            .ok()
            .and_then(|inode| self.0.with(|tree| tree.attributes(inode, Instant::now())));
        match seen {
            Some(seen) => reply.attr(&seen.ttl, &attributes(&seen, self.0.owner())),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// `echo 100 > rate` truncates the file first: a control file allows that, and ignores it.
    fn setattr(
        &self,
        _asked: &Asked,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let seen = Kernel::inode(ino)
            .ok()
            .and_then(|inode| self.0.with(|tree| tree.attributes(inode, Instant::now())));
        let Some(seen) = seen else { return reply.error(Errno::ENOENT) };
        let only_size = mode.is_none() && uid.is_none() && gid.is_none() && flags.is_none();
        let is_allowed = seen.kind == Kind::Control && only_size && (size == Some(0) || size.is_none());
        let touches = size.is_none() && (atime.is_some() || mtime.is_some());
        if !is_allowed || touches {
            return reply.error(FORBIDDEN);
        }
        reply.attr(&seen.ttl, &attributes(&seen, self.0.owner()));
    }

    fn readlink(&self, _asked: &Asked, ino: INodeNo, reply: ReplyData) {
        let target = |inode| self.0.with(|tree| tree.link_target(inode).map(str::to_owned));
        match Kernel::inode(ino).ok().and_then(target) {
            Some(target) => reply.data(target.as_bytes()),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn mknod(
        &self,
        _asked: &Asked,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        reply.error(FORBIDDEN);
    }

    fn mkdir(
        &self,
        _asked: &Asked,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        reply.error(FORBIDDEN);
    }

    fn unlink(&self, _asked: &Asked, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(FORBIDDEN);
    }

    fn rmdir(&self, _asked: &Asked, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(FORBIDDEN);
    }

    fn symlink(&self, _asked: &Asked, _parent: INodeNo, _name: &OsStr, _target: &Path, reply: ReplyEntry) {
        reply.error(FORBIDDEN);
    }

    fn rename(
        &self,
        _asked: &Asked,
        _parent: INodeNo,
        _name: &OsStr,
        _newparent: INodeNo,
        _newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(FORBIDDEN);
    }

    fn link(&self, _asked: &Asked, _ino: INodeNo, _newparent: INodeNo, _newname: &OsStr, reply: ReplyEntry) {
        reply.error(FORBIDDEN);
    }

    fn create(
        &self,
        _asked: &Asked,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(FORBIDDEN);
    }

    fn open(&self, asked: &Asked, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match Kernel::inode(ino) {
            Ok(inode) => {
                let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
                let open = Request::Open { inode, writes, caller: caller(asked), reply };
                self.0.serve(open, asked.pid(), Instant::now());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        asked: &Asked,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Ok(inode) = Kernel::inode(ino) else { return reply.error(Errno::ENOENT) };
        let began = Instant::now();
        let read = Read { handle: fh.0, offset, size: size as usize, began };
        self.0.serve(Request::Read { inode, read, reply }, asked.pid(), began);
    }

    fn write(
        &self,
        asked: &Asked,
        _ino: INodeNo,
        fh: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let process = process_of(asked.pid());
        match self.0.with(|tree| tree.write(fh.0, data, process, Instant::now())) {
            Answer::Ready(written) => reply.written(written as u32),
            Answer::Fail(errno) => reply.error(Errno::from_i32(errno)),
            Answer::Wait => reply.error(Errno::EAGAIN),
        }
    }

    fn flush(&self, _asked: &Asked, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _asked: &Asked,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.with(|tree| tree.release(fh.0, Instant::now()));
        reply.ok();
    }

    fn fsync(&self, _asked: &Asked, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, asked: &Asked, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match Kernel::inode(ino) {
            Ok(inode) => {
                let open = Request::OpenDirectory { inode, caller: caller(asked), reply };
                self.0.serve(open, asked.pid(), Instant::now());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _asked: &Asked, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Ok(inode) = Kernel::inode(ino) else { return reply.error(Errno::ENOENT) };
        let is_open = self.0.with(|tree| {
            let dots = [(inode, "."), (tree.parent(inode), "..")];
            let mut number = 0;
            for (inode, name) in dots {
                number += 1;
                if number > offset && reply.add(INodeNo(inode.number()), number, FileType::Directory, name) {
                    return true;
                }
            }
            let Some(entries) = tree.entries(fh.0, offset.saturating_sub(2)) else { return false };
            for (number, entry) in entries {
                let kind = match entry.kind {
                    Kind::Directory => FileType::Directory,
                    Kind::Link => FileType::Symlink,
                    _ => FileType::RegularFile,
                };
                if reply.add(INodeNo(entry.inode.number()), number + 2, kind, &entry.name) {
                    break;
                }
            }
            true
        });
        if is_open { reply.ok() } else { reply.error(Errno::EBADF) }
    }

    fn releasedir(
        &self,
        _asked: &Asked,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.with(|tree| tree.release(fh.0, Instant::now()));
        reply.ok();
    }

    fn fsyncdir(&self, _asked: &Asked, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _asked: &Asked, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 512, NAME_BYTES_MAX as u32, 0);
    }

    fn setxattr(
        &self,
        _asked: &Asked,
        _ino: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn getxattr(&self, _asked: &Asked, _ino: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _asked: &Asked, _ino: INodeNo, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn removexattr(&self, _asked: &Asked, _ino: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn access(&self, _asked: &Asked, _ino: INodeNo, _mask: fuser::AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _asked: &Asked,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn poll(
        &self,
        asked: &Asked,
        _ino: INodeNo,
        fh: FileHandle,
        ph: PollNotifier,
        events: PollEvents,
        flags: PollFlags,
        reply: ReplyPoll,
    ) {
        let sleeps = flags.contains(PollFlags::FUSE_POLL_SCHEDULE_NOTIFY).then_some(ph.handle().0);
        let process = process_of(asked.pid());
        let readable = PollEvents::POLLIN | PollEvents::POLLRDNORM;
        match self.0.with(|tree| tree.poll(fh.0, process, sleeps)) {
            Answer::Ready(Readiness::News) => reply.poll(events & readable),
            // The kernel reports an end whether it was asked for or not.
            Answer::Ready(Readiness::End) => reply.poll(events & readable | PollEvents::POLLHUP),
            Answer::Ready(Readiness::Nothing) | Answer::Wait => reply.poll(PollEvents::empty()),
            Answer::Fail(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn fallocate(
        &self,
        _asked: &Asked,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
