//! The memory of this process, whatever root it watches. It keeps one small file open and reads it rarely: it
//! must not cost more than a source.

use khz_model::Nanos;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// A measurement is valid for this long: memory changes slowly.
const STANDS: Nanos = Nanos::from_secs(5);

/// `/proc/self/statm`, kept open.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    statm: Option<OwnedFd>,
    page_size: u64,
    /// The last measurement and its time.
    read: Option<(Nanos, Option<Resident>)>,
}

/// The memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// The process's own memory: heap, stacks, and other pages that it wrote.
    pub anon: u64,
    /// Mapped files and shared memory: the program itself, libraries, the rings.
    pub shared: u64,
    /// All addresses that the process may use.
    pub addresses: u64,
}

impl OwnMemory {
    pub fn new() -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let statm = rustix::fs::open("/proc/self/statm", flags, Mode::empty()).ok();
        OwnMemory { statm, page_size: rustix::param::page_size() as u64, read: None }
    }

    /// The resident memory, at most some seconds old; `None` if the kernel does not give it.
    pub fn resident(&mut self, now: Nanos) -> Option<Resident> {
        match self.read {
            Some((at, known)) if now.since(at) < STANDS => known,
            _ => self.read.insert((now, self.ask())).1,
        }
    }

    fn ask(&self) -> Option<Resident> {
        let mut text = [0; 128];
        let length = rustix::io::pread(self.statm.as_ref()?, &mut text, 0).ok()?;
        parse(&text[..length], self.page_size)
    }
}

/// Parses `size resident shared text lib data dt`, in pages.
fn parse(text: &[u8], page_size: u64) -> Option<Resident> {
    let mut words = text.split(|&b| b == b' ').map(khz_parse::number::digits);
    let (size, resident, shared) = (words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?);
    let anon = resident.saturating_sub(shared);
    Some(Resident { anon: anon * page_size, shared: shared * page_size, addresses: size * page_size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_what_is_resident_and_not_shared() {
        let said = parse(b"7430 1690 1400 3000 0 900 0\n", 4_096);
        let expected = Resident { anon: 290 * 4_096, shared: 1_400 * 4_096, addresses: 7_430 * 4_096 };
        assert_eq!(said, Some(expected));
        assert_eq!(parse(b"7430 x 1400", 4_096), None);
        assert_eq!(parse(b"", 4_096), None);
    }

    #[test]
    fn this_process_has_some_memory() {
        assert!(OwnMemory::new().resident(Nanos(0)).is_some_and(|r| r.anon > 0 && r.shared > 0));
    }
}
