//! The names of the tree: each path is kept once, however many nodes have it. It knows no node and no meaning.

use std::collections::HashMap;

use crate::inode::{Inode, NodeId, PathId};
use crate::limits::{NAME_BYTES_MAX, NAMES_MAX};

/// Interned paths.
#[derive(Debug)]
pub struct Names {
    entries: Vec<Entry>,
    children: HashMap<(PathId, Box<str>), PathId>,
}

#[derive(Debug)]
struct Entry {
    parent: PathId,
    name: Box<str>,
}

impl Names {
    /// The path of a tree's or a node's own directory.
    pub const TOP: PathId = PathId(1);

    /// Only [`Names::TOP`].
    pub fn new() -> Self {
        let top = Entry { parent: Names::TOP, name: "".into() };
        Names { entries: vec![top], children: HashMap::new() }
    }

    /// The path of a name in a directory, if there is one.
    pub fn find(&self, parent: PathId, name: &str) -> Option<PathId> {
        // The key is a copy: names are short, and reads of files do not come here.
        self.children.get(&(parent, name.into())).copied()
    }

    /// The path of a name in a directory, a new one if needed; `None`: it cannot be a file name, or there are too many.
    pub fn intern(&mut self, parent: PathId, name: &str) -> Option<PathId> {
        if let Some(known) = self.find(parent, name) {
            return Some(known);
        }
        let is_name = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
        if !is_name || name.len() > NAME_BYTES_MAX || self.entries.len() >= NAMES_MAX {
            return None;
        }
        self.entries.push(Entry { parent, name: name.into() });
        let id = PathId(self.entries.len() as u32);
        self.children.insert((parent, name.into()), id);
        Some(id)
    }

    /// The last name of a path.
    pub fn name(&self, path: PathId) -> &str {
        self.entry(path).map_or("", |entry| &entry.name)
    }

    /// The directory of a path; that of [`Names::TOP`] is itself.
    pub fn parent(&self, path: PathId) -> PathId {
        self.entry(path).map_or(Names::TOP, |entry| entry.parent)
    }

    /// True for a path and for everything below it.
    pub fn is_below(&self, mut path: PathId, top: PathId) -> bool {
        while path != top && path != Names::TOP {
            path = self.parent(path);
        }
        path == top
    }

    /// The places whose settings hold for a file, from itself up to the whole tree.
    pub fn places(&self, inode: Inode) -> Vec<(NodeId, PathId)> {
        let mut places = vec![(inode.node, inode.path)];
        let mut path = inode.path;
        while path != Names::TOP {
            path = self.parent(path);
            places.push((inode.node, path));
        }
        if inode.node != NodeId::TREE {
            places.push((NodeId::TREE, Names::TOP));
        }
        places
    }

    /// True for a path that exists.
    pub fn has(&self, path: PathId) -> bool {
        self.entry(path).is_some()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The whole path below its top.
    pub fn text(&self, mut path: PathId) -> String {
        let mut parts = Vec::new();
        while path != Names::TOP {
            parts.push(self.name(path));
            path = self.parent(path);
        }
        parts.reverse();
        parts.join("/")
    }

    fn entry(&self, path: PathId) -> Option<&Entry> {
        self.entries.get((path.0 as usize).checked_sub(1)?)
    }
}

impl Default for Names {
    fn default() -> Self {
        Names::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept_once_and_knows_its_text() {
        let mut names = Names::new();
        let mem = names.intern(Names::TOP, "mem").unwrap();
        let free = names.intern(mem, "free").unwrap();
        assert_eq!(names.intern(mem, "free"), Some(free));
        assert_eq!((names.text(free).as_str(), names.parent(free)), ("mem/free", mem));
        assert_eq!(names.find(Names::TOP, "free"), None);
    }

    #[test]
    fn the_places_of_a_file_go_from_itself_to_the_whole_tree() {
        let mut names = Names::new();
        let mem = names.intern(Names::TOP, "mem").unwrap();
        let free = names.intern(mem, "free").unwrap();
        let node = NodeId(7);
        let places = names.places(Inode::plain(node, free));
        assert_eq!(places, [(node, free), (node, mem), (node, Names::TOP), (NodeId::TREE, Names::TOP)]);
        assert!(names.is_below(free, mem) && names.is_below(free, free) && !names.is_below(mem, free));
    }

    #[test]
    fn a_name_that_cannot_be_a_file_name_is_refused() {
        let mut names = Names::new();
        for name in ["", ".", "..", "a/b", "a\0b", &"n".repeat(256)] {
            assert_eq!(names.intern(Names::TOP, name), None, "{name:?}");
        }
        assert_eq!(names.count(), 1);
    }
}
