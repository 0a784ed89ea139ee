//! What the source brings: texts, lists, and why there is none. What is kept of them has a limit: texts that nobody has
//! open go first, the oldest ones.

use std::sync::Arc;
use std::time::Instant;

use khz_model::Stamp;

use super::super::Tree;
use super::list::ProcList;
use crate::inode::Inode;
use crate::limits::TEXTS_BYTES_MAX;

/// Lists that are remembered to be shared with the next node: clusters have few kinds of nodes.
const LISTS_SHARED_MAX: usize = 64;

/// True for a text that both of its node's clocks call older. Where the node has started again, or a clock was set, one of them
/// does not; where both were, it is taken as soon as somebody asks for the text of now.
fn is_older(stamp: Stamp, before: Stamp) -> bool {
    stamp.boot < before.boot && stamp.real() < before.real()
}

impl Tree {
    /// The text of a wish.
    pub fn kernel_text(&mut self, wish: u32, bytes: &Arc<[u8]>, stamp: Stamp, now: Instant) {
        let Some(&inode) = self.proc.by_wish.get(&wish) else { return };
        self.proc.counts.texts += 1;
        self.proc.counts.bytes += bytes.len() as u64;
        if inode.path == self.proc.top {
            self.take_list(inode, bytes);
        }
        let Some(known) = self.proc.texts.get_mut(&inode) else { return };
        if let Some(wish) = &mut known.wish {
            wish.answered = true;
        }
        known.fresh.older = None;
        if known.text.as_ref().is_some_and(|(_, before)| is_older(stamp, *before)) {
            // Another hub has not heard of the one that somebody has seen here.
            known.fresh.older = Some((bytes.clone(), stamp));
            self.proc.counts.older += 1;
        } else {
            self.keep_text(inode, bytes, stamp, now);
        }
        self.stir(inode.node);
    }

    /// A file has this text from here on.
    pub(super) fn keep_text(&mut self, inode: Inode, bytes: &Arc<[u8]>, stamp: Stamp, now: Instant) {
        self.make_room_for(inode, bytes.len());
        let has_room = self.proc.bytes + bytes.len() <= TEXTS_BYTES_MAX;
        let Some(text) = self.proc.texts.get_mut(&inode) else { return };
        let old = text.text.take();
        if let Some((old, _)) = &old {
            self.proc.bytes -= old.len();
        }
        let is_another = old.is_none_or(|(old, _)| old != *bytes) || text.problem.is_some() || !has_room;
        if has_room {
            self.proc.bytes += bytes.len();
            text.text = Some((bytes.clone(), stamp));
        } else {
            self.proc.counts.dropped += 1;
        }
        text.problem = (!has_room).then_some((libc::ENOMEM, now));
        if is_another {
            self.drop_cached(inode);
        }
    }

    /// There is no text for a wish.
    pub fn no_kernel_text(&mut self, wish: u32, errno: i32, why: &str, now: Instant) {
        let Some(&inode) = self.proc.by_wish.get(&wish) else { return };
        self.proc.counts.failed += 1;
        if let Some(text) = self.proc.texts.get_mut(&inode) {
            text.problem = Some((errno, now));
            if let Some(wish) = &mut text.wish {
                wish.answered = true;
            }
        }
        self.drop_cached(inode);
        let node = self.node(inode.node).map_or("", |node| node.name.as_str());
        let path = self.names.text(inode.path);
        self.error = format!("{node}/{path}: {why}\n");
        self.stir(inode.node);
    }

    /// The connection is over: what comes on the next one is news.
    pub(in crate::tree) fn forget_texts_answers(&mut self) {
        for text in self.proc.texts.values_mut() {
            text.fresh.begin_anew();
            if let Some(wish) = &mut text.wish {
                wish.answered = false;
            }
        }
    }

    fn take_list(&mut self, inode: Inode, bytes: &Arc<[u8]>) {
        let known = self.proc.lists_shared.iter().find(|(text, _)| text == bytes);
        let list = match known {
            Some((_, list)) => list.clone(),
            None => {
                let list = Arc::new(ProcList::new(&mut self.names, self.proc.top, bytes));
                self.proc.counts.names_left_out += list.left_out;
                if self.proc.lists_shared.len() == LISTS_SHARED_MAX {
                    self.proc.lists_shared.remove(0);
                }
                self.proc.lists_shared.push((bytes.clone(), list.clone()));
                list
            }
        };
        self.proc.lists.insert(inode.node, list);
    }

    /// Forgets texts that nobody has open until there is room for one of so many bytes, and for some more.
    fn make_room_for(&mut self, inode: Inode, bytes: usize) {
        if self.proc.bytes + bytes <= TEXTS_BYTES_MAX {
            return;
        }
        let idle = self.proc.texts.iter().filter(|(at, text)| text.handles == 0 && **at != inode);
        let mut idle: Vec<(Instant, Inode)> = idle.map(|(&inode, text)| (text.used, inode)).collect();
        idle.sort_unstable();
        for (_, inode) in idle {
            if self.proc.bytes + bytes <= TEXTS_BYTES_MAX / 8 * 7 {
                return;
            }
            let Some(text) = self.proc.texts.get_mut(&inode) else { continue };
            if let Some((text, _)) = text.text.take() {
                self.proc.bytes -= text.len();
                self.proc.counts.dropped += 1;
            }
            if text.wish.is_none() {
                self.proc.texts.remove(&inode);
            }
        }
    }
}
