//! Which kernel files the source is asked for: those that somebody has open, and those that were looked at a moment ago,
//! as far as each user's budget goes. The one that he has not used for longest makes room.

use std::time::Instant;

use khz_link::limits::READS_MAX;
use khz_model::Nanos;

use super::super::Tree;
use super::super::wishes::Order;
use super::fresh::Fresh;
use super::{EVERYBODY, KernelText, Wish};
use crate::inode::{Inode, NodeId};
use crate::limits::{LEASE, LIST_PERIOD, PROBLEM_TTL, TEXT_PERIOD, TEXTS_PER_USER_MIN};
use crate::source::TextWish;

impl Tree {
    /// A node's list is looked at.
    pub(super) fn want_list(&mut self, node: NodeId, now: Instant) {
        let inode = self.list_inode(node);
        // There is always room: lists have no handles.
        let _ = self.want_text(inode, EVERYBODY, now);
        self.rest_text(inode, now);
    }

    /// A file is looked at: it is wanted, and a while longer. An error: there is no room for it.
    pub(super) fn want_text(&mut self, inode: Inode, user: u32, now: Instant) -> Result<(), i32> {
        let text = self.proc.texts.entry(inode).or_insert_with(|| KernelText {
            wish: None,
            text: None,
            fresh: Fresh::default(),
            problem: None,
            handles: 0,
            over_budget: false,
            cached: false,
            used: now,
        });
        text.used = now;
        let is_stale = |text: &KernelText| {
            let since = text.problem.map(|(_, since)| now.saturating_duration_since(since));
            text.handles == 0 && since.is_some_and(|since| since >= PROBLEM_TTL)
        };
        if is_stale(text) {
            self.unwant_text(inode);
        }
        let Some(text) = self.proc.texts.get_mut(&inode) else { return Err(libc::ENOENT) };
        if let Some(wish) = &mut text.wish {
            if let Some(at) = wish.idle.take() {
                self.proc.idle.remove(&(wish.user, at));
            }
            return Ok(());
        }
        self.make_room(user)?;
        let Some(node) = self.node(inode.node).map(|node| node.name.clone()) else {
            return Err(libc::ENOENT);
        };
        let path = self.proc_name(inode.path);
        let period = self.text_period(inode);
        self.proc.wishes_made += 1;
        let number = self.proc.wishes_made;
        if let Some(text) = self.proc.texts.get_mut(&inode) {
            text.wish = Some(Wish { number, user, period, answered: false, idle: None });
            text.problem = None;
        }
        self.proc.by_wish.insert(number, inode);
        *self.proc.standing.entry(user).or_default() += 1;
        self.work.orders.push(Order::Read(TextWish { number, node, path, period }));
        Ok(())
    }

    /// Nobody looks at it at the moment.
    pub(super) fn rest_text(&mut self, inode: Inode, now: Instant) {
        let Some(text) = self.proc.texts.get_mut(&inode).filter(|text| text.handles == 0) else { return };
        text.used = now;
        if let Some(wish) = text.wish.as_mut().filter(|wish| wish.idle.is_none()) {
            self.proc.closes += 1;
            wish.idle = Some(self.proc.closes);
            self.proc.idle.insert((wish.user, self.proc.closes), inode);
        }
        self.renew_text_pace(inode);
    }

    /// Room for one more wish of a user.
    fn make_room(&mut self, user: u32) -> Result<(), i32> {
        let is_full = |tree: &Tree| tree.proc.by_wish.len() >= READS_MAX;
        let most = self.options.budget.max(TEXTS_PER_USER_MIN);
        let has_all = |tree: &Tree| tree.proc.standing.get(&user).is_some_and(|&n| n >= most);
        while is_full(self) || has_all(self) {
            let mut his = self.proc.idle.range((user, 0)..=(user, u64::MAX));
            let oldest = his.next().map(|(_, &inode)| inode);
            // Where all users together want too much, whoever rests makes room.
            let oldest =
                oldest.or_else(|| self.proc.idle.values().next().copied().filter(|_| !has_all(self)));
            let Some(oldest) = oldest else {
                self.proc.counts.refused += 1;
                return Err(libc::ENFILE);
            };
            self.unwant_text(oldest);
        }
        Ok(())
    }

    fn unwant_text(&mut self, inode: Inode) {
        let Some(text) = self.proc.texts.get_mut(&inode) else { return };
        let Some(wish) = text.wish.take() else { return };
        text.fresh.begin_anew();
        if let Some(at) = wish.idle {
            self.proc.idle.remove(&(wish.user, at));
        }
        if let Some(standing) = self.proc.standing.get_mut(&wish.user) {
            *standing -= 1;
            if *standing == 0 {
                self.proc.standing.remove(&wish.user);
            }
        }
        self.proc.by_wish.remove(&wish.number);
        self.work.orders.push(Order::Unread(wish.number));
        self.end_caching(inode);
    }

    /// How often a file is to be looked at: as its place says while somebody has it open.
    fn text_period(&self, inode: Inode) -> Nanos {
        if inode.path == self.proc.top {
            return LIST_PERIOD;
        }
        let may_hurry = |text: &KernelText| text.handles > 0 && !text.over_budget;
        let may_hurry = self.proc.texts.get(&inode).is_some_and(may_hurry);
        let rate = self.settings.rate(&self.places(inode)).filter(|_| may_hurry);
        rate.map_or(TEXT_PERIOD, |(_, rate)| rate.period())
    }

    /// Says a pace that is another one now.
    pub(super) fn renew_text_pace(&mut self, inode: Inode) {
        let period = self.text_period(inode);
        let wish = self.proc.texts.get_mut(&inode).and_then(|text| text.wish.as_mut());
        let Some(wish) = wish.filter(|wish| wish.period != period) else { return };
        wish.period = period;
        let number = wish.number;
        let Some(node) = self.node(inode.node).map(|node| node.name.clone()) else { return };
        let path = self.proc_name(inode.path);
        self.work.orders.push(Order::Read(TextWish { number, node, path, period }));
    }

    /// Settings have changed.
    pub(in crate::tree) fn renew_text_paces(&mut self) {
        let all: Vec<Inode> = self.proc.by_wish.values().copied().collect();
        all.into_iter().for_each(|inode| self.renew_text_pace(inode));
    }

    /// Files that nobody has looked at for a while are not wanted any more.
    pub(in crate::tree) fn rest_texts(&mut self, now: Instant) {
        let is_over = |text: &KernelText| {
            text.handles == 0 && text.wish.is_some() && now.saturating_duration_since(text.used) >= LEASE
        };
        let texts = self.proc.texts.iter().filter(|(_, text)| is_over(text));
        let over: Vec<Inode> = texts.map(|(&inode, _)| inode).collect();
        over.into_iter().for_each(|inode| self.unwant_text(inode));
    }
}
