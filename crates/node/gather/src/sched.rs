//! A system call that no safe library offers: sched_setscheduler(2) for the calling thread. It holds no other unsafe code.

#![allow(unsafe_code, reason = "rustix has no sched_setscheduler")]

use rustix::io::Errno;

use crate::placement::Sched;

/// Sets the policy of the calling thread, and of no thread that it starts.
pub(crate) fn set(policy: Sched) -> Result<(), Errno> {
    let (number, priority) = match policy {
        Sched::Other => (libc::SCHED_OTHER, 0),
        Sched::Batch => (libc::SCHED_BATCH, 0),
        Sched::Idle => (libc::SCHED_IDLE, 0),
        Sched::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Sched::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    let priority = libc::c_int::from(priority);
    // Threads that it starts later get the default policy instead of a real-time policy: a thread that waits for a slow file or for a
    // name server must not run before everything else (sched(7), "Resetting scheduling policy for child processes").
    let number = number | libc::SCHED_RESET_ON_FORK;
    // The raw system call, because musl's wrapper only returns ENOSYS. The kernel's sched_param is one int.
    // SAFETY: the kernel only reads the int behind the pointer, which lives until the call returns; 0 is the
    // calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, number, &raw const priority) };
    if answer == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}
