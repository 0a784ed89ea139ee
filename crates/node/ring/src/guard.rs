//! Survival when somebody cuts a mapped file short. The kernel answers an access past the end of a file with
//! SIGBUS, which by default ends the process. A program that wants to go on calls [`survive_truncation`]
//! once. From then on, a handler replaces the lost part of a mapping with zeroed memory without a file, and
//! marks the mapping as lost, so that its owner can notice.
//!
//! Why not another way:
//!
//! - Comparing the length before each store: somebody can cut the file between check and store, and each row
//!   would cost a system call.
//! - `pwrite`: it extends a file that was cut short, and nobody notices the holes.
//! - Seals (F_SEAL_SHRINK): they exist only for anonymous memory.
//!
//! The unsafe code is the handler. It does only what a signal handler may do: it reads atomics and asks the
//! kernel for a mapping.

#![allow(unsafe_code, reason = "the standard library has no signal handlers")]

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::error::RingError;

/// The most mappings that are watched at once: the snapshots of all nodes that one process mirrors (4,096),
/// and an agent's own files. Further mappings are unprotected, as without [`survive_truncation`].
const WATCHED_MAX: usize = 4_224;

/// A watched mapping; `start` is 0 while the place is free.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    is_lost: AtomicBool,
}

static PLACES: [Place; WATCHED_MAX] = [const {
    Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), is_lost: AtomicBool::new(false) }
}; WATCHED_MAX];

/// The process's action for SIGBUS before [`survive_truncation`].
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping, watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched(usize);

impl Watched {
    /// Watches a mapping; `None` if too many are watched already.
    pub fn new(start: NonNull<c_void>, bytes: usize) -> Option<Self> {
        let start = start.as_ptr() as usize;
        let take = |place: &Place| {
            let free = place.end.compare_exchange(0, start + bytes, Ordering::AcqRel, Ordering::Relaxed);
            free.is_ok()
        };
        let at = PLACES.iter().position(take)?;
        PLACES[at].is_lost.store(false, Ordering::Relaxed);
        PLACES[at].start.store(start, Ordering::Release);
        Some(Watched(at))
    }

    /// True after an access to a part of the mapping that its file no longer has.
    pub fn is_lost(&self) -> bool {
        PLACES[self.0].is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        PLACES[self.0].start.store(0, Ordering::Release);
        PLACES[self.0].end.store(0, Ordering::Release);
    }
}

/// Lets this process survive when somebody cuts a ring or snapshot short that it has mapped. The lost part
/// reads as zeros, and the writer or reader reports a problem. It installs a handler for SIGBUS for the whole
/// process, and passes on every SIGBUS that is not about these files. Therefore a program calls it, not a
/// library.
///
/// # Errors
/// The kernel refuses the handler.
pub fn survive_truncation() -> Result<(), RingError> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: a sigaction is integers, a mask and a pointer, for all of which zeros are a valid value.
    let (mut ours, mut before) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigaction)>() };
    ours.sa_sigaction = on_bus as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both pointers are valid. The old action is stored before the handler is installed, so that the handler finds it.
    let is_known = unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) } == 0;
    let _ = BEFORE.set(before);
    // SAFETY: as above; `on_bus` has the signature that SA_SIGINFO requires and does only what a handler may do.
    if is_known && unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) } == 0 {
        return Ok(());
    }
    let errno = rustix::io::Errno::from_io_error(&std::io::Error::last_os_error());
    Err(RingError::NoSignal { source: errno.unwrap_or(rustix::io::Errno::INVAL) })
}

extern "C" fn on_bus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo, and SIGBUS comes with an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code != libc::BUS_ADRERR || !replace(address) {
        // SAFETY: these are the kernel's own arguments.
        unsafe { hand_on(signal, info, context) };
    }
}

/// Replaces the mapping from this address to its end with zeros; `false` if no watched mapping contains the
/// address.
fn replace(address: usize) -> bool {
    for place in &PLACES {
        let start = place.start.load(Ordering::Acquire);
        let end = place.end.load(Ordering::Acquire);
        // The place may have changed its owner between the two loads.
        let is_it = start != 0 && start <= address && address < end;
        if !is_it || place.start.load(Ordering::Acquire) != start {
            continue;
        }
        let from = address & !(rustix::param::page_size() - 1);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the range runs from the page of the address to the end of its mapping. The owner of the
        // mapping accesses it only as atomics, for which all bytes are valid, and unmaps all of it at the
        // end.
        let mapped = unsafe { mmap_anonymous(from as *mut c_void, end - from, access, flags) };
        place.is_lost.store(true, Ordering::Relaxed);
        return mapped.is_ok();
    }
    false
}

/// Does what the process did on SIGBUS before: calls its handler, or restores the default so that the signal
/// comes again.
///
/// # Safety
/// The arguments must be those of a signal handler.
unsafe fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: this restores the earlier action; the processor repeats the failed access, which ends the process.
            unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the flag says that the handler has this signature.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag, a handler takes only the signal.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
