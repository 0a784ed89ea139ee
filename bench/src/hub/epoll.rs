//! Many sockets of a benchmark in one thread: tells which of them are readable.

use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};

use crate::error::BenchError;

const EVENTS: usize = 512;

/// Sockets by number.
pub struct Sockets(OwnedFd);

impl Sockets {
    /// An empty set.
    pub fn new() -> Result<Self, BenchError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::call("epoll_create"))?;
        Ok(Sockets(epoll))
    }

    /// Adds a socket.
    pub fn add(&self, socket: impl AsFd, number: u64) -> Result<(), BenchError> {
        epoll::add(&self.0, socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
            .map_err(BenchError::call("epoll_ctl"))
    }

    /// Waits at most this long; returns the numbers of the readable sockets.
    pub fn wait(&self, milliseconds: u64, ready: &mut Vec<u64>) -> Result<(), BenchError> {
        let timeout = Timespec {
            tv_sec: (milliseconds / 1_000) as i64,
            tv_nsec: (milliseconds % 1_000 * 1_000_000) as i64,
        };
        let mut found = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        ready.clear();
        match epoll::wait(&self.0, &mut found[..], Some(&timeout)) {
            Ok((found, _)) => ready.extend(found.iter().map(|event| event.data.u64())),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(BenchError::call("epoll_wait")(errno)),
        }
        Ok(())
    }
}

/// Raises the limit of open files as far as the kernel allows.
pub fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
