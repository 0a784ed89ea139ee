//! Inode numbers: computed from what they name, so that the mount keeps no table of them.

/// One file or directory of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Its node; 0: the tree itself.
    pub node: NodeId,
    /// What is at the path.
    pub class: Class,
    /// The path below the node, or below the mount point.
    pub path: PathId,
}

/// Number of a node in the tree, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// No node: the tree itself.
    pub const TREE: NodeId = NodeId(0);
}

/// Number of an interned path, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// The file or directory itself.
    Plain = 0,
    /// The directory with the settings of the path.
    Control = 1,
    /// The rate of the path.
    Rate = 2,
    /// The range of the path.
    Range = 3,
    /// The deadband of the path.
    Change = 4,
    /// Why the last line was refused.
    Error = 5,
}

const PATH_BITS: u32 = 32;
const CLASS_BITS: u32 = 4;

impl Inode {
    /// The mount point.
    pub const ROOT: Inode = Inode { node: NodeId::TREE, class: Class::Plain, path: PathId(1) };

    /// The file or directory at a path.
    pub fn plain(node: NodeId, path: PathId) -> Self {
        Inode { node, class: Class::Plain, path }
    }

    /// Its number in the kernel.
    pub fn number(self) -> u64 {
        u64::from(self.node.0) << (PATH_BITS + CLASS_BITS)
            | u64::from(self.class as u8) << PATH_BITS
            | u64::from(self.path.0)
    }

    /// The inode of a number; `None`: no inode of ours has it.
    pub fn from_number(number: u64) -> Option<Self> {
        let class = match number >> PATH_BITS & ((1 << CLASS_BITS) - 1) {
            0 => Class::Plain,
            1 => Class::Control,
            2 => Class::Rate,
            3 => Class::Range,
            4 => Class::Change,
            5 => Class::Error,
            _ => return None,
        };
        let node = u32::try_from(number >> (PATH_BITS + CLASS_BITS)).ok()?;
        Some(Inode { node: NodeId(node), class, path: PathId(number as u32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_inode_survives_its_number_and_the_root_is_1() {
        assert_eq!(Inode::ROOT.number(), 1);
        for class in [Class::Plain, Class::Control, Class::Rate, Class::Range, Class::Change, Class::Error] {
            let inode = Inode { node: NodeId(65_536), class, path: PathId(1 << 20) };
            assert_eq!(Inode::from_number(inode.number()), Some(inode));
        }
        assert_eq!(Inode::from_number(9 << PATH_BITS | 1), None);
    }
}
