//! The tree and those who wait for something in it, behind one lock: the kernel's requests, the source's rows and the
//! thread that pushes meet here. Nobody holds the lock while the kernel or the source is spoken to.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fuser::{Errno, FileHandle, FopenFlags, Generation, ReplyData, ReplyEntry, ReplyOpen};
use khz_model::{NodeName, NodeStatus, Reading, Series, Stamp};

use crate::attributes::attributes;
use crate::inode::{Inode, NodeId};
use crate::interrupted::is_interrupted;
use crate::limits::{INTERRUPTED_LOOK, INTERRUPTED_LOOKED_MAX, NAME_TTL, TEXT_NOW_WAIT, WAITING_MAX};
use crate::source::Sink;
use crate::tree::{Answer, Asker, Opened, Read, Tree};

/// What can wait for something that has not come yet.
pub(crate) enum Request {
    Lookup { parent: Inode, name: Vec<u8>, reply: ReplyEntry },
    Open { inode: Inode, writes: bool, asker: Asker, reply: ReplyOpen },
    OpenDirectory { inode: Inode, asker: Asker, reply: ReplyOpen },
    Read { inode: Inode, read: Read, reply: ReplyData },
}

impl Request {
    /// The node for which it would wait.
    fn node(&self) -> NodeId {
        match self {
            Request::Lookup { parent, .. } => parent.node,
            Request::Open { inode, .. }
            | Request::OpenDirectory { inode, .. }
            | Request::Read { inode, .. } => inode.node,
        }
    }

    /// How long it waits at most, where `wait` holds for all.
    fn patience(&self, wait: Duration) -> Duration {
        if let Request::Read { .. } = self { wait.min(TEXT_NOW_WAIT) } else { wait }
    }

    fn fail(self, errno: i32) {
        let errno = Errno::from_i32(errno);
        match self {
            Request::Lookup { reply, .. } => reply.error(errno),
            Request::Open { reply, .. } | Request::OpenDirectory { reply, .. } => reply.error(errno),
            Request::Read { reply, .. } => reply.error(errno),
        }
    }
}

/// Whose a request is, and how long he waits.
#[derive(Clone, Copy)]
struct Patience {
    thread: u32,
    until: Instant,
}

struct Waiting {
    request: Request,
    patience: Patience,
}

/// What is behind the lock.
pub(crate) struct State {
    pub tree: Tree,
    waiting: Vec<Waiting>,
    /// When it was last looked whether those who wait were told to end.
    looked: Instant,
    stopped: bool,
}

impl State {
    /// Takes those out of the waiting of whom this is true.
    fn take_waiting(&mut self, is_to_go: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (gone, rest) = std::mem::take(&mut self.waiting).into_iter().partition(is_to_go);
        self.waiting = rest;
        self.tree.set_waiting(self.waiting.len());
        gone
    }
}

/// The lock, and the bell of the thread that pushes.
pub(crate) struct Shared {
    state: Mutex<State>,
    bell: Condvar,
    owner: (u32, u32),
    /// The thread that pushes, as the kernel knows it; 0: it has not begun.
    pusher: AtomicU32,
}

/// What an answer is said with, once the lock is free.
enum Said {
    Entry(ReplyEntry, Result<fuser::FileAttr, i32>, Duration),
    Opened(ReplyOpen, Result<Opened, i32>),
    Bytes(ReplyData, Result<Vec<u8>, i32>),
    Nothing,
}

impl Shared {
    pub fn new(tree: Tree, owner: (u32, u32)) -> Arc<Self> {
        let state = State { tree, waiting: Vec::new(), looked: Instant::now(), stopped: false };
        let state = Mutex::new(state);
        Arc::new(Shared { state, bell: Condvar::new(), owner, pusher: AtomicU32::new(0) })
    }

    /// Whose everything in the tree is.
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Does something with the tree, and wakes the thread that pushes when that has made it work.
    pub fn with<T>(&self, act: impl FnOnce(&mut Tree) -> T) -> T {
        let mut state = self.lock();
        let done = act(&mut state.tree);
        let has_work = state.tree.has_work();
        drop(state);
        if has_work {
            self.bell.notify_one();
        }
        done
    }

    /// This thread is the one that pushes.
    pub fn begin_to_push(&self) {
        let number = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        self.pusher.store(number, Ordering::Relaxed);
    }

    /// Answers a request of a thread, or lets it wait. The thread that pushes never waits: it is the one that answers who does.
    pub fn serve(&self, request: Request, thread: u32, now: Instant) {
        let mut state = self.lock();
        let may_wait = thread != self.pusher.load(Ordering::Relaxed);
        let wait = state.tree.options().wait;
        let patience = match &request {
            Request::Open { inode, .. } if state.tree.has_text(*inode) => wait.min(TEXT_NOW_WAIT),
            request => request.patience(wait),
        };
        let until = if may_wait { now + patience } else { now };
        let said = self.answer(&mut state, request, Patience { thread, until }, now);
        let has_work = state.tree.has_work();
        drop(state);
        if has_work {
            self.bell.notify_one();
        }
        said.say();
    }

    fn answer(&self, state: &mut State, request: Request, patience: Patience, now: Instant) -> Said {
        let late = now >= patience.until;
        let wait = match request {
            Request::Lookup { parent, name, reply } => match state.tree.lookup(parent, &name, now, late) {
                Answer::Ready(inode) => {
                    let seen = state.tree.attributes(inode);
                    let ttl = seen.map_or(Duration::ZERO, |seen| seen.ttl);
                    let seen = seen.map(|seen| attributes(&seen, self.owner)).ok_or(libc::ENOENT);
                    return Said::Entry(reply, seen, ttl);
                }
                Answer::Fail(errno) => {
                    return self.failed(state, Said::Entry(reply, Err(errno), Duration::ZERO), errno);
                }
                Answer::Wait => Request::Lookup { parent, name, reply },
            },
            Request::Open { inode, writes, asker, reply } => {
                match state.tree.open(inode, writes, asker, now, late) {
                    Answer::Ready(opened) => return Said::Opened(reply, Ok(opened)),
                    Answer::Fail(errno) => return self.failed(state, Said::Opened(reply, Err(errno)), errno),
                    Answer::Wait => Request::Open { inode, writes, asker, reply },
                }
            }
            Request::OpenDirectory { inode, asker, reply } => {
                match state.tree.open_directory(inode, asker, now, late) {
                    Answer::Ready(opened) => return Said::Opened(reply, Ok(opened)),
                    Answer::Fail(errno) => return self.failed(state, Said::Opened(reply, Err(errno)), errno),
                    Answer::Wait => Request::OpenDirectory { inode, asker, reply },
                }
            }
            Request::Read { inode, read, reply } => {
                // Where there is no room to wait in, what is there is better than nothing.
                let late = late || state.stopped || state.waiting.len() >= WAITING_MAX;
                match state.tree.read(read, now, late) {
                    Answer::Ready(bytes) => return Said::Bytes(reply, Ok(bytes)),
                    Answer::Fail(errno) => return Said::Bytes(reply, Err(errno)),
                    Answer::Wait => Request::Read { inode, read, reply },
                }
            }
        };
        // The tree answers who is late; what does not fit waits nowhere.
        let refusal = match state.waiting.len() >= WAITING_MAX {
            // Nobody answers those who wait any more.
            _ if state.stopped => Some(libc::ENOTCONN),
            _ if late => Some(libc::ETIMEDOUT),
            true => Some(libc::EAGAIN),
            false => None,
        };
        if let Some(errno) = refusal {
            wait.fail(errno);
            return Said::Nothing;
        }
        if state.waiting.is_empty() {
            state.looked = now;
        }
        state.waiting.push(Waiting { request: wait, patience });
        let waiting = state.waiting.len();
        state.tree.set_waiting(waiting);
        Said::Nothing
    }

    fn failed(&self, state: &mut State, said: Said, errno: i32) -> Said {
        if errno == libc::ETIMEDOUT {
            state.tree.timed_out();
        }
        said
    }

    /// Takes out what is to be done, waits for something when there is nothing; `None`: it is over.
    pub fn next_work(&self) -> Option<crate::tree::Work> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let now = Instant::now();
            let first = state.waiting.iter().map(|waiting| waiting.patience.until).min();
            let next = state.tree.next_work();
            let look = first.map(|_| state.looked + INTERRUPTED_LOOK);
            let is_due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
            if state.tree.has_work() || is_due(first) || is_due(next) {
                return Some(state.tree.work(now));
            }
            if is_due(look) {
                state.looked = now;
                drop(state);
                self.let_the_interrupted_go();
                state = self.lock();
                continue;
            }
            let until = [first, next, look].into_iter().flatten().min();
            state = match until {
                Some(until) => {
                    let waited = self.bell.wait_timeout(state, until.saturating_duration_since(now));
                    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
                None => self.bell.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
    }

    /// What was to be done is.
    pub fn pushed(&self, work: &crate::tree::Work) {
        self.lock().tree.stored(&work.pushes);
    }

    /// Looks again at requests that wait for something that came, or have waited too long.
    pub fn ask_again(&self, work: &crate::tree::Work) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.waiting.is_empty() {
            return;
        }
        let any = work.all_stirred || !work.stirred.is_empty();
        let is_due = |waiting: &Waiting| {
            let node = waiting.request.node();
            let is_stirred = work.all_stirred || work.stirred.contains(&node) || any && node == NodeId::TREE;
            is_stirred || now >= waiting.patience.until
        };
        let said: Vec<Said> = state
            .take_waiting(is_due)
            .into_iter()
            .map(|Waiting { request, patience }| self.answer(&mut state, request, patience, now))
            .collect();
        drop(state);
        said.into_iter().for_each(Said::say);
    }

    /// Who was told to end while he waits can end.
    fn let_the_interrupted_go(&self) {
        let thread = |waiting: &Waiting| waiting.patience.thread;
        let threads: Vec<u32> = self.lock().waiting.iter().take(INTERRUPTED_LOOKED_MAX).map(thread).collect();
        let ending: HashSet<u32> = threads.into_iter().filter(|&thread| is_interrupted(thread)).collect();
        if ending.is_empty() {
            return;
        }
        let gone = self.lock().take_waiting(|waiting| ending.contains(&thread(waiting)));
        gone.into_iter().for_each(|waiting| waiting.request.fail(libc::EINTR));
    }

    /// It is over: who waits is told, and the thread that pushes ends.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|waiting| waiting.request.fail(libc::ENOTCONN));
        self.bell.notify_all();
    }
}

impl Said {
    fn say(self) {
        match self {
            Said::Entry(reply, Ok(seen), ttl) => reply.entry_with_ttls(&ttl, &NAME_TTL, &seen, Generation(0)),
            Said::Entry(reply, Err(errno), _) => reply.error(Errno::from_i32(errno)),
            Said::Opened(reply, Ok(opened)) => {
                // There is nothing to flush: closing costs one request less.
                let mut flags = FopenFlags::FOPEN_NOFLUSH;
                flags.set(FopenFlags::FOPEN_DIRECT_IO, !opened.cached);
                flags.set(FopenFlags::FOPEN_KEEP_CACHE, opened.keep);
                reply.opened(FileHandle(opened.handle), flags);
            }
            Said::Opened(reply, Err(errno)) => reply.error(Errno::from_i32(errno)),
            Said::Bytes(reply, Ok(bytes)) => reply.data(&bytes),
            Said::Bytes(reply, Err(errno)) => reply.error(Errno::from_i32(errno)),
            Said::Nothing => {}
        }
    }
}

impl Sink for Shared {
    fn connected(&self, up: bool, text: &str) {
        self.with(|tree| tree.connected(up, text, Instant::now()));
    }
    fn nodes(&self, nodes: &[NodeStatus], complete: bool) {
        self.with(|tree| tree.nodes(nodes, complete, Instant::now()));
    }
    fn columns(&self, lane: u64, wish: u32, node: &NodeName, columns: &Arc<Vec<Series>>) {
        self.with(|tree| tree.columns(lane, wish, node, columns));
    }
    fn row(&self, lane: u64, stamp: Stamp, cells: &mut dyn Iterator<Item = (usize, Reading)>) {
        self.with(|tree| tree.row(lane, stamp, cells));
    }
    fn closed(&self, lane: u64) {
        self.with(|tree| tree.closed(lane));
    }
    fn told(&self, _wish: u32, text: &str) {
        self.with(|tree| tree.told(text));
    }
    fn text(&self, wish: u32, text: &Arc<[u8]>, stamp: Stamp) {
        self.with(|tree| tree.kernel_text(wish, text, stamp, Instant::now()));
    }
    fn text_given(&self, wish: u32, ask: u32, is_read: bool) {
        self.with(|tree| tree.kernel_text_given(wish, ask, is_read, Instant::now()));
    }
    fn no_text(&self, wish: u32, errno: i32, why: &str) {
        self.with(|tree| tree.no_kernel_text(wish, errno, why, Instant::now()));
    }
}
