//! The tree, and the requests that wait for something in it, under one lock. The kernel's requests, the upstream's rows, the
//! thread that does the errands and the thread that pushes meet here. No thread holds the lock while it speaks to the kernel or
//! the upstream.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use khz_follow::Defined;
use khz_model::{NodeName, NodeStatus, Reading, Series, Stamp};

use crate::effects::{Errands, Pushes};
use crate::fuse::interrupted::is_interrupted;
use crate::fuse::requests::{Reply, Request};
use crate::limits::{INTERRUPTED_CHECK, INTERRUPTED_CHECKED_MAX, WAITING_MAX};
use crate::tree::Tree;
use crate::upstream::{ChannelRow, Sink};

/// A request that waits.
struct Waiting {
    request: Request,
    /// The thread that has made it.
    thread: u32,
    until: Instant,
}

/// What the lock protects.
pub(crate) struct State {
    tree: Tree,
    waiting: Vec<Waiting>,
    /// When the waiting threads were last checked for a signal to end.
    checked: Instant,
    stopped: bool,
}

impl State {
    /// Takes out the waiting requests for which this is true.
    fn take_waiting(&mut self, is_to_go: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (gone, rest) = std::mem::take(&mut self.waiting).into_iter().partition(is_to_go);
        self.waiting = rest;
        self.tree.set_waiting(self.waiting.len());
        gone
    }

    /// Lets a request wait, or refuses it.
    fn wait(&mut self, waiting: Waiting, now: Instant, is_late: bool) {
        let refusal = match self.waiting.len() >= WAITING_MAX {
            // Nobody answers waiting requests any more.
            _ if self.stopped => Some(libc::ENOTCONN),
            // The tree answers late requests; this one waits nowhere.
            _ if is_late => Some(libc::ETIMEDOUT),
            true => Some(libc::EAGAIN),
            false => None,
        };
        if let Some(errno) = refusal {
            return waiting.request.fail(errno);
        }
        if self.waiting.is_empty() {
            self.checked = now;
        }
        self.waiting.push(waiting);
        self.tree.set_waiting(self.waiting.len());
    }
}

/// The lock, and the bells of the two threads that do what has to be done.
pub(crate) struct Shared {
    state: Mutex<State>,
    errands_bell: Condvar,
    pushes_bell: Condvar,
    owner: (u32, u32),
    /// The thread that pushes, as the kernel knows it; 0: it has not begun.
    pusher: AtomicU32,
}

impl Shared {
    pub fn new(tree: Tree, owner: (u32, u32)) -> Arc<Self> {
        let state = State { tree, waiting: Vec::new(), checked: Instant::now(), stopped: false };
        let state = Mutex::new(state);
        Arc::new(Shared {
            state,
            errands_bell: Condvar::new(),
            pushes_bell: Condvar::new(),
            owner,
            pusher: AtomicU32::new(0),
        })
    }

    /// User and group of everything in the tree.
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Does something with the tree, and wakes the threads for which that has made work.
    pub fn with<T>(&self, act: impl FnOnce(&mut Tree) -> T) -> T {
        let mut state = self.lock();
        let done = act(&mut state.tree);
        self.unlock(state);
        done
    }

    fn unlock(&self, state: MutexGuard<'_, State>) {
        let (has_errands, has_pushes) = (state.tree.has_errands(), state.tree.has_pushes());
        drop(state);
        if has_errands {
            self.errands_bell.notify_one();
        }
        if has_pushes {
            self.pushes_bell.notify_one();
        }
    }

    /// This thread is the one that pushes.
    pub fn begin_to_push(&self) {
        let number = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        self.pusher.store(number, Ordering::Relaxed);
    }

    /// Answers a request of a thread, or lets it wait. The thread that pushes never waits: other files wait for it.
    pub fn serve(&self, request: Request, thread: u32, now: Instant) {
        let mut state = self.lock();
        let may_wait = thread != self.pusher.load(Ordering::Relaxed);
        let patience = request.patience(&state.tree, state.tree.options().wait);
        let until = if may_wait { now + patience } else { now };
        let reply = self.answer(&mut state, Waiting { request, thread, until }, now);
        self.unlock(state);
        match reply {
            Some(reply) => reply.send(),
            // The thread that does the errands ends the wait, and may be asleep until later.
            None => self.errands_bell.notify_one(),
        }
    }

    /// The answer to a request; `None`: it waits, or was refused.
    fn answer(&self, state: &mut State, waiting: Waiting, now: Instant) -> Option<Reply> {
        let Waiting { request, thread, until } = waiting;
        let is_late = now >= until;
        // Where a reader has no room to wait in, what is there is better than nothing.
        let cannot_wait = state.stopped || state.waiting.len() >= WAITING_MAX;
        let gives_up = is_late || cannot_wait && matches!(request, Request::Read { .. });
        match request.ask(&mut state.tree, self.owner, now, gives_up) {
            Ok(reply) => {
                if reply.has_timed_out() {
                    state.tree.timed_out();
                }
                Some(reply)
            }
            Err(request) => {
                state.wait(Waiting { request, thread, until }, now, is_late);
                None
            }
        }
    }

    /// Takes out the errands, and waits when there are none; `None`: it is over.
    pub fn next_errands(&self) -> Option<Errands> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let now = Instant::now();
            let first = state.waiting.iter().map(|waiting| waiting.until).min();
            let next = state.tree.next_errands();
            let check = first.map(|_| state.checked + INTERRUPTED_CHECK);
            let is_due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
            if state.tree.has_errands() || is_due(first) || is_due(next) {
                let errands = state.tree.errands(now);
                self.unlock(state);
                return Some(errands);
            }
            if is_due(check) {
                state.checked = now;
                drop(state);
                self.end_interrupted();
                state = self.lock();
                continue;
            }
            state = sleep(&self.errands_bell, state, [first, next, check].into_iter().flatten().min(), now);
        }
    }

    /// Takes out what has to be pushed, and waits when there is nothing; `None`: it is over.
    pub fn next_pushes(&self) -> Option<Pushes> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let now = Instant::now();
            let next = state.tree.next_pushes();
            if state.tree.has_pushes() || next.is_some_and(|at| now >= at) {
                return Some(state.tree.pushes(now));
            }
            state = sleep(&self.pushes_bell, state, next, now);
        }
    }

    /// These pushes were done. Returns whom to wake in `poll`.
    pub fn pushed(&self, work: &Pushes) -> Vec<u64> {
        self.lock().tree.pushed(&work.pushes)
    }

    /// Tries waiting lookups again whose node has news, and all requests that have waited long enough.
    pub fn retry_lookups(&self, errands: &Errands) {
        let now = Instant::now();
        self.retry_those(now, |waiting| {
            let request = &waiting.request;
            request.is_lookup() && errands.lookups.concerns(request.node()) || now >= waiting.until
        });
    }

    /// Tries the other requests again whose node has news.
    pub fn retry(&self, work: &Pushes) {
        self.retry_those(Instant::now(), |waiting| {
            !waiting.request.is_lookup() && work.retry.concerns(waiting.request.node())
        });
    }

    fn retry_those(&self, now: Instant, is_due: impl Fn(&Waiting) -> bool) {
        let mut state = self.lock();
        if state.waiting.is_empty() {
            return;
        }
        let due = state.take_waiting(is_due);
        let replies: Vec<Reply> =
            due.into_iter().filter_map(|waiting| self.answer(&mut state, waiting, now)).collect();
        self.unlock(state);
        replies.into_iter().for_each(Reply::send);
    }

    /// Ends the requests of threads that have a signal to end.
    fn end_interrupted(&self) {
        let waiting = |state: &State| -> Vec<u32> {
            state.waiting.iter().take(INTERRUPTED_CHECKED_MAX).map(|waiting| waiting.thread).collect()
        };
        let threads = waiting(&self.lock());
        let ending: HashSet<u32> = threads.into_iter().filter(|&thread| is_interrupted(thread)).collect();
        if ending.is_empty() {
            return;
        }
        let gone = self.lock().take_waiting(|waiting| ending.contains(&waiting.thread));
        gone.into_iter().for_each(|waiting| waiting.request.fail(libc::EINTR));
    }

    /// It is over: requests that wait get an error, and the two threads end.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|waiting| waiting.request.fail(libc::ENOTCONN));
        self.errands_bell.notify_all();
        self.pushes_bell.notify_all();
    }
}

/// Sleeps until a bell rings, or until a time.
fn sleep<'a>(
    bell: &Condvar,
    state: MutexGuard<'a, State>,
    until: Option<Instant>,
    now: Instant,
) -> MutexGuard<'a, State> {
    match until {
        Some(until) => {
            let slept = bell.wait_timeout(state, until.saturating_duration_since(now));
            slept.unwrap_or_else(|poisoned| poisoned.into_inner()).0
        }
        None => bell.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
    }
}

impl Sink for Shared {
    fn connected(&self, up: bool, text: &str) {
        self.with(|tree| tree.connected(up, text, Instant::now()));
    }
    fn nodes(&self, nodes: &[NodeStatus], is_last: bool) {
        self.with(|tree| tree.nodes(nodes, is_last, Instant::now()));
    }
    fn columns(&self, lane: u64, subscription: u32, node: &NodeName, columns: &Arc<Vec<Series>>) {
        self.with(|tree| tree.columns(lane, subscription, node, columns));
    }
    fn row(&self, lane: u64, stamp: Stamp, cells: &mut dyn Iterator<Item = (usize, Reading)>) {
        self.with(|tree| tree.row(lane, stamp, cells));
    }
    fn closed(&self, lane: u64) {
        self.with(|tree| tree.close_lane(lane));
    }
    fn notice(&self, _subscription: u32, text: &str) {
        self.with(|tree| tree.notice(text));
    }
    fn text(&self, subscription: u32, text: &Arc<[u8]>, stamp: Stamp) {
        self.with(|tree| tree.kernel_text(subscription, text, stamp, Instant::now()));
    }
    fn text_answered(&self, subscription: u32, request: u32, is_read: bool) {
        self.with(|tree| tree.kernel_text_answered(subscription, request, is_read, Instant::now()));
    }
    fn no_text(&self, subscription: u32, errno: i32, why: &str) {
        self.with(|tree| tree.no_kernel_text(subscription, errno, why, Instant::now()));
    }
    fn channels(&self, channels: Option<Vec<Defined>>) {
        self.with(|tree| tree.channels(channels, Instant::now()));
    }
    fn channel_columns(&self, lane: u64, subscription: u32, node: &NodeName, columns: &Arc<Vec<Series>>) {
        self.with(|tree| tree.channel_columns(lane, subscription, node, columns));
    }
    fn channel_row(&self, row: &ChannelRow<'_>) {
        self.with(|tree| tree.channel_row(row));
    }
    fn channel_notice(&self, subscription: u32, granted: bool, text: &str) {
        self.with(|tree| tree.channel_notice(subscription, granted, text));
    }
}
