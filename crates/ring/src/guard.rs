//! What keeps a process alive whose mapped file somebody cuts short: the kernel answers a store or a load past the end of a file with
//! SIGBUS, which ends a program. Who wants to go on says so once ([`survive_truncation`]); then the lost part of the mapping is
//! replaced with zeros, in memory that has no file, and noted, so that the owner of the mapping learns of it.
//!
//! Why not compare the length before each store: between the two the file can be cut, and it would cost a
//! system call for each row. Why not `pwrite`: it makes the file longer again where it was cut, with holes that nobody
//! notices. Seals (F_SEAL_SHRINK) exist for memory without a name only.
//!
//! Its unsafe code is the handler. It does what a handler may do: it reads atomics, and asks the kernel for a mapping.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::error::RingError;

/// Mappings that are watched at once: the snapshots of as many nodes as one process keeps (4,096), and an agent's own files. Those
/// beyond are as if nobody had called [`survive_truncation`].
const WATCHED_MAX: usize = 4_224;

/// A mapping; `start` is 0 where there is none.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    is_lost: AtomicBool,
}

static PLACES: [Place; WATCHED_MAX] = [const {
    Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), is_lost: AtomicBool::new(false) }
}; WATCHED_MAX];

/// What the process did on SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping that is watched as long as this lives.
#[derive(Debug)]
pub(crate) struct Watched(usize);

impl Watched {
    /// Watches a mapping; `None`: there are too many.
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

    /// True when a part of its file was gone when it was touched.
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

/// Has this process survive that somebody cuts a ring or a snapshot short which it has mapped: what is lost reads as zeros,
/// and the writer or reader says so. It takes SIGBUS for the whole process, and hands on what is not about these files; so a
/// program says for itself whether it wants that, a library does not.
///
/// # Errors
/// The kernel refuses.
pub fn survive_truncation() -> Result<(), RingError> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: a sigaction is integers, a mask and a pointer, for all of which zeros are a value.
    let (mut ours, mut before) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigaction)>() };
    ours.sa_sigaction = on_bus as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both point to what they should, and the old action is asked for before ours is there, so that ours finds it.
    let is_known = unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) } == 0;
    let _ = BEFORE.set(before);
    // SAFETY: as above; `on_bus` has the signature that SA_SIGINFO asks for and does only what a handler may do.
    if is_known && unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) } == 0 {
        return Ok(());
    }
    let errno = rustix::io::Errno::from_io_error(&std::io::Error::last_os_error());
    Err(RingError::NoSignal { source: errno.unwrap_or(rustix::io::Errno::INVAL) })
}

extern "C" fn on_bus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over a valid siginfo, and SIGBUS comes with an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code != libc::BUS_ADRERR || !replace(address) {
        // SAFETY: as the kernel called us.
        unsafe { hand_on(signal, info, context) };
    }
}

/// Puts zeros in the place of what is lost from this address on; `false`: it is in none of our mappings.
fn replace(address: usize) -> bool {
    for place in &PLACES {
        let start = place.start.load(Ordering::Acquire);
        let end = place.end.load(Ordering::Acquire);
        // Between the two loads it may have become another's.
        let is_it = start != 0 && start <= address && address < end;
        if !is_it || place.start.load(Ordering::Acquire) != start {
            continue;
        }
        let from = address & !(rustix::param::page_size() - 1);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: from the page of the address to the end of the mapping that holds it; who has that mapping reaches it as
        // atomics only, for which any bytes are a value, and unmaps all of it in the end.
        let mapped = unsafe { mmap_anonymous(from as *mut c_void, end - from, access, flags) };
        place.is_lost.store(true, Ordering::Relaxed);
        return mapped.is_ok();
    }
    false
}

/// What this process did before: a handler is called, otherwise the signal comes again and does what it always did.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the action that was there; the access that failed is tried again, and ends the process.
            unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with this flag it was installed as such a function.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag it takes the signal alone.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
