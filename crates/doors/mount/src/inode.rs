//! Inode numbers: computed from what they name, so that the mount keeps no table of them.

use crate::limits::{CHANNEL_NAMES_MAX, NODES_MAX};

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

/// Number of a channel's name, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u16);

/// Bits of a node's number; those above it have the number of a channel, in inodes of [`Class::Channel`].
const NODE_BITS: u32 = 17;

const _: () = assert!(NODES_MAX < 1 << NODE_BITS && CHANNEL_NAMES_MAX < 1 << (u32::BITS - NODE_BITS));

impl ChannelId {
    /// A node in this channel; [`NodeId::TREE`]: the channel itself.
    pub fn with(self, node: NodeId) -> NodeId {
        NodeId(u32::from(self.0) << NODE_BITS | node.0)
    }

    /// The channel and the node that [`ChannelId::with`] has put together.
    pub fn of(both: NodeId) -> (ChannelId, NodeId) {
        (ChannelId((both.0 >> NODE_BITS) as u16), NodeId(both.0 & ((1 << NODE_BITS) - 1)))
    }
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
    /// Something of a channel, or of a node in it: `node` has both numbers ([`ChannelId::with`]).
    Channel = 6,
}

const PATH_BITS: u32 = 28;
const CLASS_BITS: u32 = 4;

impl Inode {
    /// The mount point.
    pub const ROOT: Inode = Inode { node: NodeId::TREE, class: Class::Plain, path: PathId(1) };

    /// The file or directory at a path.
    pub fn plain(node: NodeId, path: PathId) -> Self {
        Inode { node, class: Class::Plain, path }
    }

    /// Something of a channel, or of a node in it.
    pub fn of_channel(channel: ChannelId, node: NodeId, path: PathId) -> Self {
        Inode { node: channel.with(node), class: Class::Channel, path }
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
            6 => Class::Channel,
            _ => return None,
        };
        let node = u32::try_from(number >> (PATH_BITS + CLASS_BITS)).ok()?;
        let path = PathId((number & ((1 << PATH_BITS) - 1)) as u32);
        Some(Inode { node: NodeId(node), class, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_inode_survives_its_number_and_the_root_is_1() {
        assert_eq!(Inode::ROOT.number(), 1);
        use Class::{Change, Channel, Control, Error, Plain, Range, Rate};
        for class in [Plain, Control, Rate, Range, Change, Error, Channel] {
            let inode = Inode { node: NodeId(65_536), class, path: PathId(1 << 20) };
            assert_eq!(Inode::from_number(inode.number()), Some(inode));
        }
        assert_eq!(Inode::from_number(9 << PATH_BITS | 1), None);
    }

    #[test]
    fn a_channel_and_a_node_share_a_number_and_come_out_of_it() {
        let (channel, node) = (ChannelId(CHANNEL_NAMES_MAX as u16), NodeId(NODES_MAX as u32));
        assert_eq!(ChannelId::of(channel.with(node)), (channel, node));
        let inode = Inode::of_channel(channel, node, PathId(1 << 20));
        assert_eq!(Inode::from_number(inode.number()), Some(inode));
        assert_eq!(ChannelId::of(channel.with(NodeId::TREE)), (channel, NodeId::TREE));
    }
}
