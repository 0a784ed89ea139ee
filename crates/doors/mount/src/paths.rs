//! The names that every tree has, and what each path of the tree is about.

use crate::inode::{NodeId, PathId};
use crate::names::Names;

/// The paths that every tree has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    /// `.by`: one table for each metric.
    pub by: PathId,
    /// `.channels`: the hub's channels.
    pub channels: PathId,
    /// `.channels/NAME/definition`.
    pub definition: PathId,
    /// `.channels/NAME/rows`.
    pub rows: PathId,
    /// `.mount`: the mount itself.
    pub mount: PathId,
    /// `.mount/stats`.
    pub stats: PathId,
    /// `NODE/status`.
    pub status: PathId,
    /// `NODE/metrics`.
    pub metrics: PathId,
    /// `NODE/proc`.
    pub proc: PathId,
}

/// What a path is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// The mount point.
    Root,
    /// `.by`.
    Tables,
    /// `.by/METRIC`.
    Table,
    /// `.channels`.
    Channels,
    /// `.channels/NAME` and all below it.
    Channel,
    /// `.mount`.
    Mount,
    /// `.mount/stats`.
    Stats,
    /// `NODE`.
    Node,
    /// `NODE/status`.
    Status,
    /// `NODE/metrics` and all below it.
    Series,
    /// `NODE/proc` and all below it.
    Proc,
}

impl Paths {
    /// Gives the names their paths.
    pub fn new(names: &mut Names) -> Self {
        let mut path = |parent, name| names.intern(parent, name).unwrap_or(Names::TOP);
        let mount = path(Names::TOP, ".mount");
        let channels = path(Names::TOP, ".channels");
        Paths {
            by: path(Names::TOP, ".by"),
            channels,
            definition: path(channels, "definition"),
            rows: path(channels, "rows"),
            mount,
            stats: path(mount, "stats"),
            status: path(Names::TOP, "status"),
            metrics: path(Names::TOP, "metrics"),
            proc: path(Names::TOP, "proc"),
        }
    }

    /// What a path of a node, or of the tree itself, is about; `None`: nothing.
    pub fn area(&self, names: &Names, node: NodeId, path: PathId) -> Option<Area> {
        if node != NodeId::TREE {
            return Some(match path {
                Names::TOP => Area::Node,
                path if path == self.status => Area::Status,
                path if names.is_below(path, self.proc) => Area::Proc,
                _ => Area::Series,
            });
        }
        match path {
            Names::TOP => Some(Area::Root),
            path if path == self.by => Some(Area::Tables),
            path if path == self.channels => Some(Area::Channels),
            path if path == self.mount => Some(Area::Mount),
            path if path == self.stats => Some(Area::Stats),
            path if names.parent(path) == self.by => Some(Area::Table),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_about_another_thing_in_a_node_than_in_the_tree() {
        let mut names = Names::new();
        let paths = Paths::new(&mut names);
        let meminfo = names.intern(paths.proc, "meminfo").unwrap();
        let table = names.intern(paths.by, "load.1m").unwrap();
        let area = |node, path| paths.area(&names, NodeId(node), path);
        assert_eq!([area(0, Names::TOP), area(1, Names::TOP)], [Some(Area::Root), Some(Area::Node)]);
        assert_eq!([area(1, meminfo), area(0, meminfo)], [Some(Area::Proc), None]);
        assert_eq!([area(0, table), area(0, paths.stats)], [Some(Area::Table), Some(Area::Stats)]);
        assert_eq!([area(1, paths.metrics), area(1, paths.status)], [Some(Area::Series), Some(Area::Status)]);
    }
}
