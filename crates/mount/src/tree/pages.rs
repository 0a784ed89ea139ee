//! What the page cache has of a file, and how it gets the next value: dropped, then stored, and until then every reader
//! is told the same.
//!
//! Bytes are never stored over others: who reads a page holds no lock, and would see digits of two values. So a page is
//! dropped first, which waits for reads that are under way and leaves it whole for whoever reads it at that moment; and
//! from before the drop until the store is over, reads that come to us are answered with what is to be stored. Whatever
//! page a reader made meanwhile has the same bytes, and storing over it changes nothing.

use std::time::Instant;

use khz_model::Reading;

use super::Tree;
use super::files::text;
use super::house::Push;
use crate::inode::Inode;
use crate::limits::{READ_LEASE, STORES_PER_SECOND_MAX};

/// A page to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Whose.
    pub inode: Inode,
    /// Its path below the mount point: asking the kernel for it has the kernel ask us for the new length, which no
    /// message of ours could tell it.
    pub path: String,
    /// What stands in it.
    pub text: Vec<u8>,
}

/// The page of a file that is followed.
#[derive(Debug)]
pub(super) struct Page {
    /// What it has, or will have next.
    told: Reading,
    /// Its value is being stored.
    under_way: bool,
    /// It was dropped, and nobody has asked for it since: there is nothing to be dropped.
    is_gone: bool,
    /// Somebody has read lately.
    read_until: Option<Instant>,
}

impl Page {
    /// Of a file that shows this.
    pub fn new(reading: Reading) -> Self {
        Page { told: reading, under_way: false, is_gone: false, read_until: None }
    }

    /// It is followed from now on. False when another value is still being stored: this one must come behind it.
    pub fn begin(&mut self, reading: Reading) -> bool {
        if !self.under_way {
            self.told = reading;
        }
        self.told == reading
    }

    /// What whoever asks is told.
    pub fn told(&self) -> Reading {
        self.told
    }

    /// The kernel has asked for its length or its bytes.
    pub fn touch(&mut self) {
        self.is_gone = false;
    }

    /// The kernel has asked for its bytes.
    pub fn read(&mut self, now: Instant) {
        self.touch();
        self.read_until = Some(now + READ_LEASE);
    }

    /// Whether its value is being stored.
    pub fn is_under_way(&self) -> bool {
        self.under_way
    }
}

impl Tree {
    /// What is in a file is not what the page cache has.
    pub(super) fn soil(&mut self, inode: Inode) {
        if let Some(file) = self.files.get_mut(&inode).filter(|file| file.pushed && !file.soiled) {
            file.soiled = true;
            self.work.soiled.push(inode);
        }
    }

    /// How the page cache gets what is in a file now.
    pub(super) fn push(&mut self, inode: Inode, now: Instant) -> Option<Push> {
        let is_cut_off = self.is_cut_off(inode.node);
        let file = self.files.get_mut(&inode)?;
        if file.pushed
            && let Some(until) = file.held(now)
        {
            self.work.hold(inode, until);
            return None;
        }
        file.soiled = false;
        if !file.pushed {
            return None;
        }
        self.counts.pushed += 1;
        file.page.told = file.shown;
        if std::mem::replace(&mut file.page.is_gone, true) {
            return None;
        }
        let is_read = !is_cut_off && file.page.read_until.is_some_and(|until| now < until);
        let text = text(file.shown, file.places).ok().filter(|_| is_read);
        let Some(text) = text else { return Some(Push::Invalidate(inode)) };
        if self.stores >= STORES_PER_SECOND_MAX {
            self.counts.stores_left_out += 1;
            return Some(Push::Invalidate(inode));
        }
        self.stores += 1;
        self.counts.stored += 1;
        (file.page.is_gone, file.page.under_way) = (false, true);
        let node = self.node(inode.node).map_or("", |node| node.name.as_str());
        let path = format!("{node}/{}", self.names.text(inode.path));
        Some(Push::Store(Fresh { inode, path, text }))
    }

    /// What was to be stored is.
    pub fn stored(&mut self, pushes: &[Push]) {
        for push in pushes {
            if let Push::Store(fresh) = push
                && let Some(file) = self.files.get_mut(&fresh.inode)
            {
                file.page.under_way = false;
            }
        }
    }
}
