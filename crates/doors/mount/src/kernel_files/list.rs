//! What each node shows below `/proc`, as a tree of names: made of the list that it sends. A name from there is a path
//! only after it was checked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use khz_link::limits::LISTED_MAX;
use khz_link::texts::{ListedAs, lines};

use crate::file::Kind;
use crate::inode::{NodeId, PathId};
use crate::names::Names;

/// Lists that are kept for the next node with the same list: clusters have few kinds of nodes.
const LISTS_SHARED_MAX: usize = 64;

/// The lists of all nodes.
#[derive(Debug, Default)]
pub(super) struct Lists {
    by_node: HashMap<NodeId, Arc<ProcList>>,
    /// Lists that nodes share, with the texts that they were made of.
    shared: Vec<(Arc<[u8]>, Arc<ProcList>)>,
    /// Lines that name nothing, or for which there was no room.
    left_out: u64,
}

impl Lists {
    /// The list of a node, if it came.
    pub fn of(&self, node: NodeId) -> Option<&ProcList> {
        self.by_node.get(&node).map(Arc::as_ref)
    }

    /// A node sends its list.
    pub fn take(&mut self, node: NodeId, text: &Arc<[u8]>, names: &mut Names, top: PathId) {
        let known = self.shared.iter().find(|(known, _)| known == text).map(|(_, list)| list.clone());
        let list = known.unwrap_or_else(|| {
            let list = Arc::new(ProcList::new(names, top, text));
            self.left_out += list.left_out;
            if self.shared.len() == LISTS_SHARED_MAX {
                self.shared.remove(0);
            }
            self.shared.push((text.clone(), list.clone()));
            list
        });
        self.by_node.insert(node, list);
    }

    /// Lines that name nothing, or for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The tree of one list; nodes with the same list share one.
#[derive(Debug, Default)]
pub(super) struct ProcList {
    directories: HashMap<PathId, Vec<PathId>>,
    files: HashSet<PathId>,
    links: HashMap<PathId, String>,
    /// Lines that name nothing, or for which there is no room.
    left_out: u64,
}

impl ProcList {
    pub fn new(names: &mut Names, top: PathId, text: &[u8]) -> Self {
        let mut list = ProcList { directories: HashMap::from([(top, Vec::new())]), ..ProcList::default() };
        for (number, line) in lines(text).enumerate() {
            let entered = line.filter(|_| number < LISTED_MAX).and_then(|line| {
                let path = list.enter(names, top, line.path)?;
                match line.listed {
                    ListedAs::File => list.files.insert(path),
                    ListedAs::Link(target) => list.links.insert(path, target.to_owned()).is_none(),
                };
                Some(())
            });
            list.left_out += u64::from(entered.is_none());
        }
        list
    }

    /// Makes the directories on the way to a path; `None`: it stands where something else does, or has no room.
    fn enter(&mut self, names: &mut Names, top: PathId, path: &str) -> Option<PathId> {
        let (mut folder, mut parts) = (top, path.split('/').peekable());
        loop {
            let part = parts.next()?;
            let path = names.intern(folder, part)?;
            let is_last = parts.peek().is_none();
            let is_known = self.kind(path).is_some();
            let is_folder = self.directories.contains_key(&path);
            if is_known && (is_last || !is_folder) {
                return None;
            }
            if !is_known {
                self.directories.entry(folder).or_default().push(path);
            }
            if is_last {
                return Some(path);
            }
            self.directories.entry(path).or_default();
            folder = path;
        }
    }

    pub fn kind(&self, path: PathId) -> Option<Kind> {
        if self.directories.contains_key(&path) {
            Some(Kind::Directory)
        } else if self.links.contains_key(&path) {
            Some(Kind::Link)
        } else {
            self.files.contains(&path).then_some(Kind::KernelText)
        }
    }

    pub fn entries(&self, path: PathId) -> Option<&[PathId]> {
        self.directories.get(&path).map(Vec::as_slice)
    }

    pub fn target(&self, path: PathId) -> Option<&str> {
        self.links.get(&path).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_a_tree_and_what_does_not_fit_is_counted() {
        let mut names = Names::new();
        let top = names.intern(Names::TOP, "proc").unwrap();
        let text =
            b"meminfo\nmounts -> self/mounts\nself/mounts\nnet/dev\nmeminfo/x\nnet\n../x\na/../b\nmeminfo\n";
        let list = ProcList::new(&mut names, top, text);
        let names_in =
            |path| list.entries(path).unwrap().iter().map(|&path| names.text(path)).collect::<Vec<_>>();
        assert_eq!(names_in(top), ["proc/meminfo", "proc/mounts", "proc/self", "proc/net"]);
        let at = |name: &str| name.split('/').fold(top, |at, name| names.find(at, name).unwrap());
        assert_eq!(list.kind(at("net")), Some(Kind::Directory));
        assert_eq!(list.kind(at("net/dev")), Some(Kind::KernelText));
        assert_eq!(list.kind(at("mounts")), Some(Kind::Link));
        assert_eq!(list.target(at("mounts")), Some("self/mounts"));
        assert_eq!(list.left_out, 5);
    }

    #[test]
    fn a_list_of_too_many_names_is_cut() {
        let mut names = Names::new();
        let top = names.intern(Names::TOP, "proc").unwrap();
        let text: String = (0..LISTED_MAX + 7).map(|number| format!("file{number}\n")).collect();
        let list = ProcList::new(&mut names, top, text.as_bytes());
        assert_eq!((list.entries(top).unwrap().len(), list.left_out), (LISTED_MAX, 7));
    }
}
