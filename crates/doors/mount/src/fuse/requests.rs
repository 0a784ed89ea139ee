//! The kernel's requests that may wait for something that has not come yet, and the replies to them.

use std::time::{Duration, Instant};

use fuser::{Errno, FileHandle, FopenFlags, Generation, ReplyData, ReplyEntry, ReplyOpen};

use crate::answer::Answer;
use crate::file::{Caller, Opened, Read};
use crate::fuse::attributes::attributes;
use crate::inode::{Inode, NodeId};
use crate::limits::{NAME_TTL, TEXT_NOW_WAIT};
use crate::tree::Tree;

/// A request.
pub(crate) enum Request {
    Lookup { parent: Inode, name: Vec<u8>, reply: ReplyEntry },
    Open { inode: Inode, writes: bool, caller: Caller, reply: ReplyOpen },
    OpenDirectory { inode: Inode, caller: Caller, reply: ReplyOpen },
    Read { inode: Inode, read: Read, reply: ReplyData },
}

impl Request {
    /// The node for which it would wait.
    pub fn node(&self) -> NodeId {
        match self {
            Request::Lookup { parent, .. } => parent.node,
            Request::Open { inode, .. }
            | Request::OpenDirectory { inode, .. }
            | Request::Read { inode, .. } => inode.node,
        }
    }

    /// True for a lookup: another thread that looks up the same name waits for it in the kernel.
    pub fn is_lookup(&self) -> bool {
        matches!(self, Request::Lookup { .. })
    }

    /// How long it waits at most, where a mount's requests wait for at most `wait`.
    pub fn patience(&self, tree: &Tree, wait: Duration) -> Duration {
        match self {
            Request::Read { .. } => wait.min(TEXT_NOW_WAIT),
            Request::Open { inode, .. } if tree.has_kernel_text(*inode) => wait.min(TEXT_NOW_WAIT),
            _ => wait,
        }
    }

    /// Asks the tree; the request comes back when it has to wait.
    pub fn ask(
        self,
        tree: &mut Tree,
        owner: (u32, u32),
        now: Instant,
        is_late: bool,
    ) -> Result<Reply, Request> {
        Ok(match self {
            Request::Lookup { parent, name, reply } => match tree.lookup(parent, &name, now, is_late) {
                Answer::Ready(inode) => {
                    let seen = tree.attributes(inode, now);
                    let ttl = seen.map_or(Duration::ZERO, |seen| seen.ttl);
                    let seen = seen.map(|seen| attributes(&seen, owner)).ok_or(libc::ENOENT);
                    Reply::Entry(reply, seen, ttl)
                }
                Answer::Fail(errno) => Reply::Entry(reply, Err(errno), Duration::ZERO),
                Answer::Wait => return Err(Request::Lookup { parent, name, reply }),
            },
            Request::Open { inode, writes, caller, reply } => {
                match tree.open(inode, writes, caller, now, is_late) {
                    Answer::Ready(opened) => Reply::Opened(reply, Ok(opened)),
                    Answer::Fail(errno) => Reply::Opened(reply, Err(errno)),
                    Answer::Wait => return Err(Request::Open { inode, writes, caller, reply }),
                }
            }
            Request::OpenDirectory { inode, caller, reply } => {
                match tree.open_directory(inode, caller, now, is_late) {
                    Answer::Ready(opened) => Reply::Opened(reply, Ok(opened)),
                    Answer::Fail(errno) => Reply::Opened(reply, Err(errno)),
                    Answer::Wait => return Err(Request::OpenDirectory { inode, caller, reply }),
                }
            }
            Request::Read { inode, read, reply } => match tree.read(read, now, is_late) {
                Answer::Ready(bytes) => Reply::Bytes(reply, Ok(bytes)),
                Answer::Fail(errno) => Reply::Bytes(reply, Err(errno)),
                Answer::Wait => return Err(Request::Read { inode, read, reply }),
            },
        })
    }

    /// Answers with an errno.
    pub fn fail(self, errno: i32) {
        let errno = Errno::from_i32(errno);
        match self {
            Request::Lookup { reply, .. } => reply.error(errno),
            Request::Open { reply, .. } | Request::OpenDirectory { reply, .. } => reply.error(errno),
            Request::Read { reply, .. } => reply.error(errno),
        }
    }
}

/// The reply to a request. It is sent when the lock on the tree is free.
pub(crate) enum Reply {
    Entry(ReplyEntry, Result<fuser::FileAttr, i32>, Duration),
    Opened(ReplyOpen, Result<Opened, i32>),
    Bytes(ReplyData, Result<Vec<u8>, i32>),
}

impl Reply {
    /// True for an open or a lookup whose wait timed out.
    pub fn has_timed_out(&self) -> bool {
        matches!(self, Reply::Entry(_, Err(libc::ETIMEDOUT), _) | Reply::Opened(_, Err(libc::ETIMEDOUT)))
    }

    /// Sends it.
    pub fn send(self) {
        match self {
            Reply::Entry(reply, Ok(seen), ttl) => {
                reply.entry_with_ttls(&ttl, &NAME_TTL, &seen, Generation(0));
            }
            Reply::Entry(reply, Err(errno), _) => reply.error(Errno::from_i32(errno)),
            Reply::Opened(reply, Ok(opened)) => {
                // There is nothing to flush: closing costs one request less.
                let mut flags = FopenFlags::FOPEN_NOFLUSH;
                flags.set(FopenFlags::FOPEN_DIRECT_IO, !opened.cached);
                flags.set(FopenFlags::FOPEN_KEEP_CACHE, opened.keep);
                flags.set(FopenFlags::FOPEN_STREAM | FopenFlags::FOPEN_NONSEEKABLE, opened.is_stream);
                reply.opened(FileHandle(opened.handle), flags);
            }
            Reply::Opened(reply, Err(errno)) => reply.error(Errno::from_i32(errno)),
            Reply::Bytes(reply, Ok(bytes)) => reply.data(&bytes),
            Reply::Bytes(reply, Err(errno)) => reply.error(Errno::from_i32(errno)),
        }
    }
}
