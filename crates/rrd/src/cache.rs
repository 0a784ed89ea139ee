//! The page cache and files: which pages of a file are resident, and dropping them; changes no content.
//!
//! This is the paper's `fincore` and `fadvise`. `mincore(2)` tells page by page, and since Linux 5.2 only to
//! who may write the file; `cachestat(2)` (Linux 6.5) tells numbers to everybody who may read it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;

use crate::error::{Error, Result};

/// Files one summary looks at; a directory of more is summed up in parts.
pub const FILES_MAX: usize = 4_000_000;
/// Directories below each other that a summary follows.
const DEPTH_MAX: usize = 64;
/// Bytes mapped at once to ask about their pages.
const WINDOW: u64 = 1 << 30;

/// What the page cache holds of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residency {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes a page.
    pub page: u64,
    /// A flag per page.
    pub resident: Vec<bool>,
    /// Pages not yet written back, where the kernel has `cachestat`.
    pub dirty: Option<u64>,
}

impl Residency {
    /// Pages of the file.
    pub fn pages(&self) -> usize {
        self.resident.len()
    }

    /// How many of them are resident.
    pub fn count(&self) -> usize {
        self.resident.iter().filter(|page| **page).count()
    }

    /// The file as a strip of at most `width` characters: `#` all pages of a cell resident, `+` some, `.` none.
    pub fn strip(&self, width: usize) -> String {
        let cells = self.pages().min(width.max(1));
        (0..cells)
            .map(|cell| {
                let pages = &self.resident[cell * self.pages() / cells..(cell + 1) * self.pages() / cells];
                match pages.iter().filter(|page| **page).count() {
                    0 => '.',
                    all if all == pages.len() => '#',
                    _ => '+',
                }
            })
            .collect()
    }
}

/// Looks which pages of `path` are resident. Looking brings none in.
///
/// # Errors
/// What the system says.
pub fn look(path: &Path) -> Result<Residency> {
    let file = File::open(path).map_err(|error| Error::io("opening", path, error))?;
    let size = file.metadata().map_err(|error| Error::io("stating", path, error))?.len();
    let page = rustix::param::page_size() as u64;
    let mut resident = Vec::with_capacity(size.div_ceil(page) as usize);
    let mut offset = 0;
    while offset < size {
        let length = WINDOW.min(size - offset);
        window(&file, offset, length, page, &mut resident)
            .map_err(|error| Error::io("mapping", path, error))?;
        offset += length;
    }
    let dirty = cachestat(&file).map(|stat| stat.dirty);
    Ok(Residency { path: path.into(), size, page, resident, dirty })
}

fn window(file: &File, offset: u64, length: u64, page: u64, resident: &mut Vec<bool>) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags};
    let length = length as usize;
    let mut marks = vec![0u8; length.div_ceil(page as usize)];
    // SAFETY: a fresh mapping at an address of the kernel's choosing aliases nothing, and its pages are never
    // read through it; mincore has no other way in.
    let start = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset)?
    };
    // SAFETY: `start` is the mapping of `length` bytes made above, and `marks` has a byte for each of its pages.
    let told = unsafe { libc::mincore(start, length, marks.as_mut_ptr()) };
    let outcome = if told == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
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
    /// Of these, changed and not yet written.
    pub dirty: u64,
    /// Being written.
    pub writeback: u64,
    /// Once resident, evicted since.
    pub evicted: u64,
    /// Evicted, and lately so that they count as working set.
    pub recently_evicted: u64,
}

/// Asks the kernel for a file's page counts; `None` where it has no such call.
pub fn cachestat(file: &File) -> Option<Counts> {
    /// The call's number, the same on every architecture.
    const SYS_CACHESTAT: libc::c_long = 451;
    // Offset and length; a length of 0 reaches to the end.
    let range = [0u64, 0u64];
    let mut counts = Counts::default();
    // SAFETY: both pointers are valid for the call and of the layout cachestat(2) documents.
    let told =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), &raw mut counts, 0u32) };
    (told == 0).then_some(counts)
}

/// Writes a file's changed pages back, then drops all its pages.
///
/// # Errors
/// What the system says.
pub fn drop_pages(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::io("opening", path, error))?;
    // Pages that are not on disk yet would stay.
    file.sync_data().map_err(|error| Error::io("syncing", path, error))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(|error| Error::io("dropping the pages of", path, error.into()))
}

/// How many pages the files of a directory have resident.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files by resident pages: index 0 for none, and so on; the last index holds all that have more.
    pub files: Vec<u64>,
    /// Files looked at.
    pub count: u64,
    /// Resident pages in all.
    pub resident: u64,
    /// Pages in all.
    pub pages: u64,
    /// Files and directories that could not be looked at.
    pub failed: u64,
}

/// Bars of a histogram; a file with more resident pages counts in the last.
const BARS: usize = 65;

/// Looks at every `.rrd` file below `directory`.
///
/// # Errors
/// The directory itself cannot be read; failures below it are counted.
pub fn summarise(directory: &Path) -> Result<Summary> {
    let mut summary = Summary { files: vec![0; BARS], ..Summary::default() };
    std::fs::read_dir(directory).map_err(|error| Error::io("reading", directory, error))?;
    for path in rrd_files(directory, &mut summary.failed) {
        match look(&path) {
            Ok(residency) => {
                let resident = residency.count();
                summary.files[resident.min(BARS - 1)] += 1;
                summary.count += 1;
                summary.resident += resident as u64;
                summary.pages += residency.pages() as u64;
            }
            Err(_) => summary.failed += 1,
        }
    }
    Ok(summary)
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

impl Summary {
    /// The histogram as text, empty bars left out.
    pub fn text(&self) -> String {
        let most = self.files.iter().copied().max().unwrap_or(0).max(1);
        let mut text = String::from("pages   files\n");
        for (pages, &files) in self.files.iter().enumerate().filter(|(_, files)| **files > 0) {
            let label = if pages == BARS - 1 { format!("{pages}+") } else { pages.to_string() };
            let bar = "#".repeat((files * 50).div_ceil(most) as usize);
            text.push_str(&format!("{label:>5} {files:>7} {bar}\n"));
        }
        let mean = self.resident as f64 / (self.count.max(1)) as f64;
        text.push_str(&format!(
            "{} files, {} of {} pages resident, {mean:.2} a file",
            self.count, self.resident, self.pages
        ));
        if self.failed > 0 {
            text.push_str(&format!(", {} could not be looked at", self.failed));
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residency(resident: &[bool]) -> Residency {
        Residency { path: "f".into(), size: 0, page: 4096, resident: resident.to_vec(), dirty: None }
    }

    #[test]
    fn a_strip_tells_full_partial_and_empty_cells_apart() {
        assert_eq!(residency(&[true, false, true]).strip(64), "#.#");
        assert_eq!(residency(&[true, true, true, false, false, false]).strip(3), "#+.");
        assert_eq!(residency(&[]).strip(10), "");
    }

    #[test]
    fn a_file_just_written_is_resident_and_dropped_it_is_less() {
        let path = std::env::temp_dir().join(format!("khz-rrd-cache-{}.rrd", std::process::id()));
        std::fs::write(&path, vec![1; 40_000]).unwrap();
        let before = look(&path).unwrap();
        assert_eq!(before.pages(), 40_000usize.div_ceil(before.page as usize));
        assert_eq!(before.count(), before.pages());
        drop_pages(&path).unwrap();
        let after = look(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // A file system in memory has nowhere to drop pages to.
        assert!(after.count() <= before.count());
    }
}
