//! Wakes the link's thread: an eventfd. It rings when the thread is to stop, when a name lookup is done, and at every row of a
//! prompt lane.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// A bell.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that nobody has rung.
    pub fn new() -> Result<Self, Errno> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// The same bell, for another thread.
    pub fn again(&self) -> Result<Self, Errno> {
        Ok(Bell(rustix::io::fcntl_dupfd_cloexec(&self.0, 0)?))
    }

    /// Rings it.
    pub fn ring(&self) {
        // Full means that it rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Silences it.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// For threads that ring descriptors.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
