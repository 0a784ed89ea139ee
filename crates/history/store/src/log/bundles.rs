//! The files of bundles: one beside each segment, with its number. They may be lost at any time, so nothing waits for the disk.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StoreError;
use crate::log::bundle::{BUNDLES_HEADER, Bundle, BundleFile, Bundled, FoundBundle};
use crate::log::index::{Entry, InBundle, Index};
use crate::part::{Part, next_identity};

/// The files of bundles in the folder of a log that is written.
#[derive(Debug)]
pub(crate) struct Bundles {
    folder: PathBuf,
    /// By the numbers of their segments, each with its length.
    files: Mutex<BTreeMap<u64, (Arc<BundleFile>, u64)>>,
}

fn path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:010}.bundles"))
}

/// The segments that have such a file.
fn numbers(folder: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let number = |name: String| name.strip_suffix(".bundles").filter(|name| name.len() == 10)?.parse().ok();
    names.filter_map(number).collect()
}

/// An open file and what is whole in it; `None`: it cannot be opened, or is of another version.
struct Opened {
    file: Arc<BundleFile>,
    found: Vec<FoundBundle>,
    end: u64,
    length: u64,
}

impl Opened {
    fn of(path: PathBuf, may_write: bool) -> Option<Self> {
        let opened = OpenOptions::new().read(true).write(may_write).open(&path).ok()?;
        let length = opened.metadata().ok()?.len();
        let file = Arc::new(BundleFile { path, identity: next_identity(), file: opened });
        if file.bytes(0, BUNDLES_HEADER.len()).ok()? != BUNDLES_HEADER {
            return None;
        }
        let (mut found, mut end) = (Vec::new(), BUNDLES_HEADER.len() as u64);
        while let Some(bundle) = FoundBundle::at(&file, end, length).ok()? {
            end = bundle.end;
            found.push(bundle);
        }
        Some(Opened { file, found, end, length })
    }

    /// Gives the bundles to the blocks that they have.
    fn tell(self, segment: u64, index: &mut Index) {
        let mut places = HashMap::new();
        for FoundBundle { bundle, blocks, .. } in self.found {
            let bundle = Arc::new(bundle);
            let each = blocks.into_iter().enumerate();
            places.extend(each.map(|(place, block)| (block.at, (block, bundle.clone(), place as u32))));
        }
        index.each_of(segment, |entry| {
            if let Some((_, bundle, place)) = places.get(&entry.at).filter(|(block, ..)| entry.is(block)) {
                entry.bundle = InBundle::At(bundle.clone(), *place);
            }
        });
    }
}

/// Finds the bundles of these segments, for a log that another process may be writing.
pub(crate) fn find(folder: &Path, segments: &[u64], index: &mut Index) {
    for &segment in segments {
        if let Some(opened) = Opened::of(path(folder, segment), false) {
            opened.tell(segment, index);
        }
    }
}

/// The damage in the bundles of a folder. A truncated bundle is no damage, since it is made again.
pub(crate) fn check(folder: &Path) -> Vec<StoreError> {
    numbers(folder).into_iter().flat_map(|segment| check_file(path(folder, segment))).collect()
}

fn check_file(path: PathBuf) -> Vec<StoreError> {
    let mut header = [0; BUNDLES_HEADER.len()];
    // It may go at any time, and it may have just begun.
    let read = File::open(&path).and_then(|file| file.read_exact_at(&mut header, 0));
    if read.is_ok() && header != BUNDLES_HEADER {
        let (offset, bytes, problem) =
            (0, header.len() as u64, "it is no file of bundles that this khz reads");
        return vec![StoreError::Damaged { path, offset, bytes, problem }];
    }
    let Some(Opened { file, found, end, length }) = Opened::of(path, false) else { return Vec::new() };
    let mut damage: Vec<StoreError> = found.iter().flat_map(|found| found.bundle.check()).collect();
    if let Ok(Some(claimed)) = FoundBundle::claimed(&file, end, length) {
        let part = Part { offset: end, length: (claimed - end) as usize, checksum: 0 };
        damage.push(file.damaged(part, "it is no bundle"));
    }
    damage
}

impl Bundles {
    /// Finds the bundles of these segments. Bundles without a segment and truncated bundles are removed.
    pub fn open(folder: &Path, segments: &[u64], index: &mut Index) -> Self {
        let mut files = BTreeMap::new();
        for segment in numbers(folder) {
            let path = path(folder, segment);
            let opened = if segments.contains(&segment) { Opened::of(path.clone(), true) } else { None };
            match opened {
                Some(opened)
                    if opened.length == opened.end || opened.file.file.set_len(opened.end).is_ok() =>
                {
                    files.insert(segment, (opened.file.clone(), opened.end));
                    opened.tell(segment, index);
                }
                // A reader does not take it for another segment's, since it compares each block.
                _ => _ = fs::remove_file(path),
            }
        }
        Bundles { folder: folder.to_owned(), files: Mutex::new(files) }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<u64, (Arc<BundleFile>, u64)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files().values().map(|(_, bytes)| bytes).sum()
    }

    /// The segment is gone, and so is its file.
    pub fn remove(&self, segment: u64) {
        if self.files().remove(&segment).is_some() {
            // The next start removes it if this fails.
            let _ = fs::remove_file(path(&self.folder, segment));
        }
    }

    /// Writes a bundle of a segment's blocks. There is one writer.
    pub fn add(&self, segment: u64, bytes: &[u8]) -> Result<(Arc<Bundle>, Vec<Bundled>), StoreError> {
        let known = self.files().get(&segment).cloned();
        let (file, at) = match known {
            Some(known) => known,
            None => self.create(segment)?,
        };
        let written = file.file.write_all_at(bytes, at).map_err(|error| file.failed("write", error));
        let length = at + bytes.len() as u64;
        let found = written.and_then(|()| FoundBundle::at(&file, at, length));
        match found {
            Ok(Some(FoundBundle { bundle, blocks, end })) => {
                self.files().insert(segment, (file, end));
                Ok((Arc::new(bundle), blocks))
            }
            other => {
                // Its remaining bytes are overwritten.
                let _ = file.file.set_len(at);
                let of_disk = || file.failed("read", std::io::ErrorKind::InvalidData.into());
                Err(other.err().unwrap_or_else(of_disk))
            }
        }
    }

    fn create(&self, segment: u64) -> Result<(Arc<BundleFile>, u64), StoreError> {
        let path = path(&self.folder, segment);
        let failed = |what| {
            let path = path.clone();
            move |source| StoreError::File { what, path, source }
        };
        // A file that was left there is of another segment.
        let mut options = OpenOptions::new();
        let file: File = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(failed("create"))?;
        file.write_all_at(&BUNDLES_HEADER, 0).map_err(failed("write"))?;
        let file = Arc::new(BundleFile { path: path.clone(), identity: next_identity(), file });
        let opened = (file, BUNDLES_HEADER.len() as u64);
        self.files().insert(segment, opened.clone());
        Ok(opened)
    }
}

/// The blocks of one segment and one schema that should become a bundle now: the first ones that are in none; `None`: there are
/// fewer than `least`.
pub(crate) fn next(index: &Index, least: usize, most: usize) -> Option<Vec<Entry>> {
    let mut waiting: BTreeMap<(u64, [u8; 16]), Vec<&Entry>> = BTreeMap::new();
    for entry in index.nodes().flat_map(|(_, entries)| entries) {
        if matches!(entry.bundle, InBundle::Not) {
            waiting.entry((entry.segment.number, entry.schema_hash)).or_default().push(entry);
        }
    }
    let mut blocks = waiting.into_values().find(|blocks| blocks.len() >= least)?;
    blocks.sort_unstable_by_key(|entry| entry.at);
    Some(blocks.into_iter().take(most).cloned().collect())
}
