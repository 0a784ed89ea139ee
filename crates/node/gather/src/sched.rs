//! A system call that no safe library offers: sched_setscheduler(2) for the calling thread. The only unsafe
//! code of this crate.

#![allow(unsafe_code, reason = "rustix has no sched_setscheduler")]

use rustix::io::Errno;

use crate::placement::Sched;

/// Sets the policy of the calling thread.
pub(crate) fn set(policy: Sched) -> Result<(), Errno> {
    let (number, priority) = match policy {
        Sched::Other => (libc::SCHED_OTHER, 0),
        Sched::Batch => (libc::SCHED_BATCH, 0),
        Sched::Idle => (libc::SCHED_IDLE, 0),
        Sched::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Sched::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    let priority = libc::c_int::from(priority);
    // The raw system call, because musl's wrapper only returns ENOSYS. The kernel's sched_param is one int.
    // SAFETY: the kernel only reads the int behind the pointer, which lives until the call returns; 0 is the
    // calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, number, &raw const priority) };
    if answer == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}
