//! The page cache and files: which pages of a file are resident, and dropping them; changes no content.
//!
//! This is `fincore` and `fadvise` of the LISA'07 paper by Plonka, Gupta and Carder.
//!
//! - `mincore(2)` answers page by page. Since Linux 5.2 it marks every page resident for a process that neither owns the
//!   file nor may write it, so such an answer is never used.
//! - `cachestat(2)` (Linux 6.5) answers with counts: on some kernels to every process that may read the file, on later
//!   ones under the same condition as `mincore`.

#![allow(unsafe_code, reason = "rustix has neither mincore(2) nor cachestat(2)")]

mod summary;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Advice, AtFlags};

use crate::error::{Error, Result, refused};
use crate::text;

pub use summary::{Summary, summarise};

/// Files of one summary; a larger directory is summed up in parts.
pub const FILES_MAX: usize = 4_000_000;
/// Nested directories that a summary follows.
const DEPTH_MAX: usize = 64;
/// Bytes mapped at once to ask about their pages.
const WINDOW: u64 = 1 << 30;

/// The pages of one file in the page cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residency {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes a page.
    pub page: u64,
    /// Which pages are resident.
    pub resident: Resident,
    /// Pages not yet written back, where the kernel has `cachestat`.
    pub dirty: Option<u64>,
}

/// The kernel's answer about a file's pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resident {
    /// A flag per page.
    Each(Vec<bool>),
    /// Only how many.
    Number(u64),
}

impl Residency {
    /// Pages of the file.
    pub fn pages(&self) -> u64 {
        self.size.div_ceil(self.page)
    }

    /// How many of them are resident.
    pub fn count(&self) -> u64 {
        match &self.resident {
            Resident::Each(pages) => pages.iter().filter(|page| **page).count() as u64,
            Resident::Number(number) => *number,
        }
    }

    /// The file as a strip of at most `width` characters: `#` all pages of a cell resident, `+` some, `.` none; `?`
    /// where only their number is known.
    pub fn strip(&self, width: usize) -> String {
        let Resident::Each(all) = &self.resident else { return "?".into() };
        let cells = all.len().min(width.max(1));
        (0..cells)
            .map(|cell| {
                let pages = &all[cell * all.len() / cells..(cell + 1) * all.len() / cells];
                match pages.iter().filter(|page| **page).count() {
                    0 => '.',
                    all if all == pages.len() => '#',
                    _ => '+',
                }
            })
            .collect()
    }
}

/// Which pages of `path` are resident. Asking brings none in.
///
/// # Errors
/// The system's error; it is not an ordinary file; the kernel does not answer this process.
pub fn residency(path: &Path) -> Result<Residency> {
    let (file, metadata) = open(path)?;
    let size = metadata.len();
    let page = rustix::param::page_size() as u64;
    let counts = cachestat(&file);
    let resident = match (is_told_each(path, &metadata), counts) {
        (true, _) => Resident::Each(each(&file, path, size, page)?),
        (false, Some(counts)) => Resident::Number(counts.cached),
        (false, None) => {
            let path = text::name(path);
            return refused(format!(
                "not permitted: the kernel shows the pages of '{path}' only to a process that may write the file"
            ));
        }
    };
    Ok(Residency { path: path.into(), size, page, resident, dirty: counts.map(|counts| counts.dirty) })
}

/// Opens an ordinary file. Others have no pages, or (a FIFO) would wait for another process.
fn open(path: &Path) -> Result<(File, Metadata)> {
    let failed = |error| Error::io("opening", path, error);
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = opened.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    match metadata.is_file() {
        true => Ok((file, metadata)),
        false => refused(format!("'{}' is not an ordinary file", text::name(path))),
    }
}

/// Whether the kernel tells this process the truth about each page: whether it owns the file or may write it. Where this
/// is stricter than the kernel, only the strip is lost.
fn is_told_each(path: &Path, metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
        || rustix::fs::accessat(rustix::fs::CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// A flag for each page.
fn each(file: &File, path: &Path, size: u64, page: u64) -> Result<Vec<bool>> {
    let mut resident = Vec::with_capacity(size.div_ceil(page) as usize);
    let mut offset = 0;
    while offset < size {
        let length = WINDOW.min(size - offset);
        window(file, offset, length, page, &mut resident)
            .map_err(|error| Error::io("mapping", path, error))?;
        offset += length;
    }
    Ok(resident)
}

fn window(file: &File, offset: u64, length: u64, page: u64, resident: &mut Vec<bool>) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags};
    let length = length as usize;
    let mut marks = vec![0u8; length.div_ceil(page as usize)];
    // SAFETY: a fresh mapping at an address of the kernel's choosing aliases nothing, and its pages are never
    // read through it; mincore needs a mapping.
    let start = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset)?
    };
    // SAFETY: `start` is the mapping of `length` bytes made above, and `marks` has a byte for each of its pages.
    let failed = unsafe { libc::mincore(start, length, marks.as_mut_ptr()) };
    let outcome = if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the mapping made above, used by nobody else.
    unsafe { rustix::mm::munmap(start, length)? };
    outcome?;
    resident.extend(marks.iter().map(|mark| mark & 1 == 1));
    Ok(())
}

/// What `cachestat(2)` counts.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Pages resident.
    pub cached: u64,
    /// Cached pages that are changed and not yet written.
    pub dirty: u64,
    /// Being written.
    pub writeback: u64,
    /// Once resident, evicted since.
    pub evicted: u64,
    /// Evicted so recently that they count as working set.
    pub recently_evicted: u64,
}

/// Asks the kernel for a file's page counts; `None` where it has no such call or does not answer this process.
pub fn cachestat(file: &File) -> Option<Counts> {
    // A length of 0 reaches to the end.
    cachestat_of(file, 0, 0)
}

/// The same of `length` bytes from `offset` on; 0 reaches to the end.
pub fn cachestat_of(file: &File, offset: u64, length: u64) -> Option<Counts> {
    /// The call's number, the same on every architecture.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [offset, length];
    let mut counts = Counts::default();
    // SAFETY: both pointers are valid for the call and of the layout cachestat(2) documents.
    let failed =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), &raw mut counts, 0u32) };
    (failed == 0).then_some(counts)
}

/// Writes a file's changed pages back, then drops all its pages.
///
/// # Errors
/// The system's error; not an ordinary file.
pub fn drop_pages(path: &Path) -> Result<()> {
    let (file, _) = open(path)?;
    // Pages that are not on disk yet would stay.
    file.sync_data().map_err(|error| Error::io("syncing", path, error))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(|error| Error::io("dropping the pages of", path, error.into()))
}

/// The `.rrd` files below `directory`, without following symbolic links.
pub fn rrd_files(directory: &Path, failed: &mut u64) -> Vec<PathBuf> {
    let (mut found, mut left) = (vec![], vec![(directory.to_path_buf(), 0)]);
    while let Some((directory, depth)) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else {
            *failed += 1;
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => left.push((path, depth + 1)),
                Ok(kind) if kind.is_file() && path.extension().is_some_and(|end| end == "rrd") => {
                    if found.len() >= FILES_MAX {
                        *failed += 1;
                    } else {
                        found.push(path);
                    }
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(resident: &[bool]) -> Residency {
        let (size, resident) = (resident.len() as u64, Resident::Each(resident.to_vec()));
        Residency { path: "f".into(), size, page: 1, resident, dirty: None }
    }

    #[test]
    fn a_strip_tells_full_partial_and_empty_cells_apart() {
        assert_eq!(of(&[true, false, true]).strip(64), "#.#");
        assert_eq!(of(&[true, true, true, false, false, false]).strip(3), "#+.");
        assert_eq!(of(&[]).strip(10), "");
    }

    #[test]
    fn a_file_just_written_is_resident_and_dropped_it_is_less() {
        let path = std::env::temp_dir().join(format!("khz-rrd-cache-{}.rrd", std::process::id()));
        std::fs::write(&path, vec![1; 40_000]).unwrap();
        let before = residency(&path).unwrap();
        assert_eq!(before.pages(), 40_000u64.div_ceil(before.page));
        assert_eq!(before.count(), before.pages());
        drop_pages(&path).unwrap();
        let after = residency(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // A file system in memory cannot drop pages.
        assert!(after.count() <= before.count());
    }

    #[test]
    fn the_kernel_says_of_each_part_of_a_file_whether_it_is_changed() {
        let path = std::env::temp_dir().join(format!("khz-rrd-cache-part-{}.rrd", std::process::id()));
        let page = rustix::param::page_size();
        std::fs::write(&path, vec![1; 3 * page]).unwrap();
        drop_pages(&path).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"new", page as u64).unwrap();
        let dirty: Option<Vec<u64>> =
            (0..3).map(|part| Some(cachestat_of(&file, part * page as u64, page as u64)?.dirty)).collect();
        std::fs::remove_file(&path).unwrap();
        // A file system in memory has no changed pages, and a kernel before 6.5 no such call.
        let is_told = [None, Some(vec![0, 1, 0]), Some(vec![0; 3])].contains(&dirty);
        assert!(is_told, "{dirty:?}");
    }

    /// A file that the caller may only read: as another user where the test may become one (in this thread), else a
    /// file of the system.
    #[test]
    fn pages_that_the_kernel_does_not_show_are_not_called_resident() {
        let path = std::env::temp_dir().join(format!("khz-rrd-cache-hole-{}.rrd", std::process::id()));
        // A hole has no pages anywhere.
        File::create(&path).unwrap().set_len(40 * rustix::param::page_size() as u64).unwrap();
        let (root, hole) = (rustix::process::geteuid().is_root(), path.clone());
        let result = std::thread::spawn(move || {
            if !root {
                return residency(Path::new("/bin/sh"));
            }
            let nobody = rustix::fs::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            residency(&hole)
        });
        let result = result.join().unwrap();
        let own = residency(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((own.count(), own.strip(4)), (0, "....".into()));
        match result {
            Ok(found) => {
                assert_eq!((found.strip(24).as_str(), root && found.count() > 0), ("?", false), "{found:?}");
            }
            Err(error) => assert!(
                error.to_string().starts_with("not permitted: the kernel shows the pages of '"),
                "{error}"
            ),
        }
    }
}
