//! The files of a store, as another process than its hub finds them. A file that vanishes meanwhile was merged or removed: it
//! is left out.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::Nanos;
use khz_store::log::LogView;
use khz_store::{ColumnFile, Layouts, StoreError};

/// The folders of column files, with what they hold.
const TIERS: [(&str, &str); 3] = [("raw", "rows"), ("minute", "minutes"), ("hour", "hours")];

/// What a store holds.
pub struct Files {
    /// The log.
    pub log: Option<LogView>,
    pub log_files: Part,
    /// Column files, finest resolution first.
    pub tiers: Vec<Tier>,
    /// What cannot be read at all.
    pub damage: Vec<StoreError>,
    /// Files that no khz has put there.
    pub unknown: Vec<PathBuf>,
}

/// The column files of one resolution.
pub struct Tier {
    /// What they hold: rows, minutes or hours.
    pub name: &'static str,
    pub files: Vec<ColumnFile>,
    pub part: Part,
}

/// Some files: how many, how large, from when to when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub count: u64,
    pub bytes: u64,
    pub span: Option<(Nanos, Nanos)>,
}

impl Part {
    fn add(&mut self, bytes: u64, span: Option<(Nanos, Nanos)>) {
        self.count += 1;
        self.bytes += bytes;
        let both = self.span.into_iter().chain(span);
        self.span = both.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    }
}

impl Files {
    /// Lists and opens them.
    pub fn of(directory: &Path) -> Result<Self, StoreError> {
        let layouts = Arc::<Layouts>::default();
        let mut files = Files {
            log: None,
            log_files: Part::default(),
            tiers: Vec::new(),
            damage: Vec::new(),
            unknown: Vec::new(),
        };
        for (path, bytes) in list(&directory.join("log"))? {
            match path.extension().is_some_and(|ending| ending == "log") {
                true => files.log_files.add(bytes, None),
                false => files.unknown.push(path),
            }
        }
        if files.log_files.count > 0 {
            let (log, mut damage) = LogView::of(&directory.join("log"))?;
            files.damage.append(&mut damage);
            files.log_files.span = log.span(None);
            files.log = Some(log);
        }
        for (folder, name) in TIERS {
            let mut tier = Tier { name, files: Vec::new(), part: Part::default() };
            for (path, bytes) in list(&directory.join(folder))? {
                if path.extension().is_none_or(|ending| ending != "col") {
                    // What a writer has not finished ends in .part, and becomes a column file or is removed.
                    files
                        .unknown
                        .extend(path.extension().is_none_or(|ending| ending != "part").then_some(path));
                    continue;
                }
                match ColumnFile::open(&path, &layouts) {
                    Ok(file) => {
                        tier.part.add(bytes, Some(file.span()));
                        tier.files.push(file);
                    }
                    Err(StoreError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                    Err(error) => files.damage.push(error),
                }
            }
            files.tiers.push(tier);
        }
        Ok(files)
    }

    /// Bytes of all files that can be read.
    pub fn bytes(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.part.bytes).sum::<u64>() + self.log_files.bytes
    }
}

/// The files of a folder with their sizes, in the order of their names; none where there is no folder.
fn list(folder: &Path) -> Result<Vec<(PathBuf, u64)>, StoreError> {
    let failed = |source| StoreError::File { what: "list", path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        match entry.metadata() {
            Ok(about) => files.push((entry.path(), about.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    files.sort();
    Ok(files)
}
