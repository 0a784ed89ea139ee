//! The series of a schema as a directory tree: which paths are files, and what each directory has in it. Nodes with the
//! same series share one layout.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use khz_model::Series;

use crate::inode::PathId;
use crate::names::Names;

/// The file of a series whose own name is a directory: `job.x` is `job/x/.value` where there is a `job.x.y`.
const OF_DIRECTORY: &str = ".value";

/// The directory tree of some series.
#[derive(Debug, Default)]
pub struct Layout {
    /// The series, in the order of their slots.
    pub series: Arc<Vec<Series>>,
    slots: HashMap<PathId, u32>,
    directories: HashMap<PathId, Vec<PathId>>,
    /// The path of each slot; `None`: the series cannot be a file.
    pub paths: Vec<Option<PathId>>,
}

impl Layout {
    /// Lays the series out below `top`.
    pub fn new(names: &mut Names, top: PathId, series: Arc<Vec<Series>>) -> Self {
        let mut layout = Layout { directories: HashMap::from([(top, Vec::new())]), ..Layout::default() };
        let paths: Vec<Option<Vec<PathId>>> = series.iter().map(|one| way(names, top, one)).collect();
        let mut seen = HashSet::new();
        for way in paths.iter().flatten() {
            layout.enter(top, way, &mut seen);
        }
        for (slot, way) in paths.iter().enumerate() {
            let path = way.as_ref().and_then(|way| way.last().copied());
            let path = path.and_then(|path| match layout.directories.contains_key(&path) {
                true => {
                    names.intern(path, OF_DIRECTORY).inspect(|&own| layout.enter(path, &[own], &mut seen))
                }
                false => Some(path),
            });
            if let Some(path) = path {
                layout.slots.insert(path, slot as u32);
            }
            layout.paths.push(path);
        }
        layout.series = series;
        layout
    }

    /// Puts each step of a way into its directory, once.
    fn enter(&mut self, top: PathId, way: &[PathId], seen: &mut HashSet<PathId>) {
        let mut directory = top;
        for &step in way {
            if seen.insert(step) {
                self.directories.entry(directory).or_default().push(step);
            }
            directory = step;
        }
    }

    /// The slot of the file at a path.
    pub fn slot(&self, path: PathId) -> Option<u32> {
        self.slots.get(&path).copied()
    }

    /// The slot of a series, if the layout, which stands below `top`, has it.
    pub fn find(&self, names: &Names, top: PathId, series: &Series) -> Option<u32> {
        let instance = series.instance.as_ref().map(ToString::to_string);
        let mut words = series.metric.name.split('.').chain(instance.as_deref());
        let path = words.try_fold(top, |at, word| names.find(at, word))?;
        self.slot(path).or_else(|| self.slot(names.find(path, OF_DIRECTORY)?))
    }

    /// What is in the directory at a path; `None`: it is no directory.
    pub fn entries(&self, path: PathId) -> Option<&[PathId]> {
        self.directories.get(&path).map(Vec::as_slice)
    }

    /// Series that cannot be files.
    pub fn left_out(&self) -> usize {
        self.paths.iter().filter(|path| path.is_none()).count()
    }
}

/// The steps from `top` to a series: the words of its metric, and its instance as it is written.
fn way(names: &mut Names, top: PathId, series: &Series) -> Option<Vec<PathId>> {
    let instance = series.instance.as_ref().map(ToString::to_string);
    let words = series.metric.name.split('.').chain(instance.as_deref());
    let mut at = top;
    words
        .map(|word| {
            at = names.intern(at, word)?;
            Some(at)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::series;

    #[test]
    fn series_become_files_and_instances_are_names_in_their_metrics_directory() {
        let mut names = Names::new();
        let all = Arc::new(vec![
            series("mem.free", None),
            series("net.rx_bytes", Some("eth0")),
            series("load.1m", None),
        ]);
        let layout = Layout::new(&mut names, Names::TOP, all);
        let texts: Vec<String> = layout.paths.iter().flatten().map(|&path| names.text(path)).collect();
        assert_eq!(texts, ["mem/free", "net/rx_bytes/eth0", "load/1m"]);
        let top: Vec<&str> =
            layout.entries(Names::TOP).unwrap().iter().map(|&path| names.name(path)).collect();
        assert_eq!(top, ["mem", "net", "load"]);
        assert_eq!(layout.slot(layout.paths[1].unwrap()), Some(1));
    }

    #[test]
    fn a_series_whose_name_is_also_a_directory_stands_in_it() {
        let mut names = Names::new();
        let all = Arc::new(vec![series("job.x", None), series("job.x.y", None)]);
        let layout = Layout::new(&mut names, Names::TOP, all);
        let texts: Vec<String> = layout.paths.iter().flatten().map(|&path| names.text(path)).collect();
        assert_eq!(texts, ["job/x/.value", "job/x/y"]);
    }

    #[test]
    fn an_instance_never_leaves_its_directory_and_one_too_long_is_left_out() {
        let mut names = Names::new();
        let long = "/".repeat(200);
        let all = Arc::new(vec![
            series("disk.x", Some("../../etc")),
            series("disk.x", Some("..")),
            series("disk.x", Some(&long)),
        ]);
        let layout = Layout::new(&mut names, Names::TOP, all);
        let texts: Vec<String> = layout.paths.iter().flatten().map(|&path| names.text(path)).collect();
        assert_eq!(texts, ["disk/x/..%2F..%2Fetc", "disk/x/%2E%2E"]);
        assert_eq!(layout.left_out(), 1);
    }
}
