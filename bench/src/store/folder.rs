//! The folder of a store: its bytes, copies that share its files, and its pages in memory.

use std::fs;
use std::path::{Path, PathBuf};

use khz_rrd::page_cache;

use crate::error::BenchError;
use crate::program::failed;

/// Of the pages of evicted files at most this share may be in memory.
const LEFT_MAX: f64 = 0.01;
/// Another process that writes back may hold pages for a moment.
const TRIES: usize = 20;

/// A folder of temporary files; removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder with this name.
    pub fn new(name: &str) -> Result<Self, BenchError> {
        let path = std::env::temp_dir().join(format!("khz-bench-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(BenchError::file(&path))?;
        Ok(Scratch(path))
    }

    /// A folder in it, which need not exist.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The files below a folder.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(BenchError::file(folder))? {
        let path = entry.map_err(BenchError::file(folder))?.path();
        match path.is_dir() {
            true => files.extend(self::files(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

/// Bytes of the files below a folder.
pub fn bytes(folder: &Path) -> Result<u64, BenchError> {
    let length = |path: PathBuf| fs::metadata(&path).map(|it| it.len()).map_err(BenchError::file(path));
    files(folder)?.into_iter().map(length).sum()
}

/// Another folder with the same files: what is removed from one, or comes into it, is of no account to the other.
pub fn link(from: &Path, to: &Path) -> Result<(), BenchError> {
    for path in files(from)? {
        let Ok(name) = path.strip_prefix(from) else { continue };
        let target = to.join(name);
        let parent = target.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(BenchError::file(parent))?;
        fs::hard_link(&path, &target).map_err(BenchError::file(target))?;
    }
    Ok(())
}

/// Takes the pages of the files below a folder out of memory, and of no other file. An error if they stay.
pub fn evict(folder: &Path) -> Result<(), BenchError> {
    let files = files(folder)?;
    let mut left = 0.0;
    for _ in 0..TRIES {
        let (mut resident, mut all) = (0, 0);
        for path in &files {
            let asked = page_cache::drop_pages(path).and_then(|()| page_cache::residency(path));
            let seen = asked.map_err(|error| failed("the page cache", error))?;
            resident += seen.count();
            all += seen.pages();
        }
        left = resident as f64 / (all as f64).max(1.0);
        if left <= LEFT_MAX {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(failed("the page cache", format!("{:.1} % of the pages stay in memory", 100.0 * left)))
}

/// Brings all pages of the files below a folder into memory.
pub fn load(folder: &Path) -> Result<(), BenchError> {
    for path in files(folder)? {
        let mut file = fs::File::open(&path).map_err(BenchError::file(&path))?;
        std::io::copy(&mut file, &mut std::io::sink()).map_err(BenchError::file(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_leave_memory_and_a_linked_folder_outlives_what_is_removed_from_it() {
        let scratch = Scratch::new("folder").unwrap();
        let (one, two) = (scratch.at("one"), scratch.at("two"));
        fs::create_dir_all(one.join("deep")).unwrap();
        fs::write(one.join("deep/file"), vec![1; 1 << 20]).unwrap();
        link(&one, &two).unwrap();
        fs::remove_file(two.join("deep/file")).unwrap();
        assert_eq!((bytes(&one).unwrap(), bytes(&two).unwrap()), (1 << 20, 0));
        evict(&one).unwrap();
    }
}
